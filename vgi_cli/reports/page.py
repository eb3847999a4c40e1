"""The page: one file of HTML with everything in it, which needs no network and no script."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from vgi_cli.reports.sections import SYMBOLS, Section, compared, sections
from vgi_cli.reports.values import Reported, Verdict
from vgi_cli.version import __version__


def page(reports: Sequence[Reported]) -> str:
    """HTML of the reports on some runs, side by side where there are several."""
    return _rendered(
        "report",
        names=[report.numbers.facts.run for report in reports],
        version=reports[0].numbers.facts.version,
        reports=reports,
        sections=sections(reports),
        compared=compared(reports) if len(reports) > 1 else None,
    )


def check_page(name: str, lead: str, verdicts: Sequence[Verdict], parts: Sequence[Section]) -> str:
    """HTML of what a check of a table found: its name, a sentence, what to look at, and the sections."""
    return _rendered("check", names=[name], version=__version__, lead=lead, verdicts=verdicts, sections=parts)


def _rendered(command: str, **values: Any) -> str:
    """The template of a command with these values."""
    environment = Environment(
        loader=PackageLoader("vgi_cli.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    template = environment.get_template(f"{command}.html.j2")
    text: str = template.render(command=command, symbols=SYMBOLS, markup=Markup, **values)
    return text
