"""The page: one file of HTML with everything in it, which needs no network and no script."""

from __future__ import annotations

from collections.abc import Sequence

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from vgi_cli.reports.sections import SYMBOLS, compared, sections
from vgi_cli.reports.values import Reported

TEMPLATE = "report.html.j2"


def page(reports: Sequence[Reported]) -> str:
    """HTML of the reports on some runs, side by side where there are several."""
    environment = Environment(
        loader=PackageLoader("vgi_cli.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    text: str = environment.get_template(TEMPLATE).render(
        reports=reports,
        sections=sections(reports),
        compared=compared(reports) if len(reports) > 1 else None,
        symbols=SYMBOLS,
        markup=Markup,
    )
    return text
