"""`vgi report`: the reports on some runs, as numbers and as a page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from vgi_cli.commands.report.gather import examine
from vgi_cli.commands.report.request import ReportRequest
from vgi_cli.reporting import Reporter
from vgi_cli.reports.values import as_json
from vgi_cli.runs.files import json_bytes, write_atomic
from vgi_cli.runs.folder import RunFolder


class ReportFile(NamedTuple):
    """The numbers, and where the page is; None: none was asked for."""

    values: dict[str, Any]
    path: Path | None

    def json_text(self) -> str:
        """One JSON object."""
        return json_bytes(self.values).decode()

    def text(self) -> str:
        """The path of the page."""
        return f"{self.path}\n"


def report(request: ReportRequest, runs: Sequence[RunFolder], reporter: Reporter) -> ReportFile:
    """Look at some runs, and write the page where one is asked for. Raises UsageError, InputError or RunError before
    anything is written."""
    tables = request.tables or [None] * len(runs)
    found = [examine(run, table, request, reporter) for run, table in zip(runs, tables, strict=True)]
    values, path = as_json(found), None
    for one in found:
        for verdict in one.verdicts:
            if verdict.level == "bad":
                reporter.warn(f"{one.numbers.facts.run}: {verdict.text}")
    if request.draw:
        from vgi_cli.reports.page import page  # needs the extra `report`

        path = request.place()
        write_atomic(path, page(found).encode())
    return ReportFile(values, path)
