"""`vgi report`: the reports on some runs, as numbers and as a page."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from vgi_cli.commands.report.gather import examine
from vgi_cli.commands.report.request import ReportRequest
from vgi_cli.errors import Unwritten
from vgi_cli.machine.work import TimeLimit, limit_of
from vgi_cli.reporting import Reporter
from vgi_cli.reports.values import as_json
from vgi_cli.runs.files import json_bytes, unwritten, write_atomic, write_new
from vgi_cli.runs.folder import RunFolder

PAGE_SHARE, PAGE_SECONDS, MOST_FOR_PAGES = 0.1, 3.0, 0.5
"""Of the time that is left when the runs are looked at, kept for the page: a share, the seconds of each run at least,
and the largest share."""


class ReportFile(NamedTuple):
    """The numbers, and where the page is; None: none was asked for, or it could not be written, and `unwritten` is to
    be raised when the numbers are shown."""

    values: dict[str, Any]
    path: Path | None
    unwritten: Unwritten | None = None

    def json_text(self) -> str:
        """One JSON object."""
        return json_bytes(self.values).decode()

    def text(self) -> str:
        """The path of the page; the numbers where it could not be written."""
        return self.json_text() if self.unwritten is not None else f"{self.path}\n"


def _without_the_page(limit: TimeLimit, pages: int) -> TimeLimit:
    """What of a time limit is there for looking at the runs: some of it is kept for drawing their pages."""
    if not limit or not pages:
        return limit
    left = max(limit.left, 1e-9)
    return limit.part(1 - min(max(PAGE_SHARE * left, PAGE_SECONDS * pages), MOST_FOR_PAGES * left) / left)


def _written(request: ReportRequest, data: bytes) -> Path:
    """Write the page to the first place that is free, also where another command takes one at the same moment; with
    `force` to the first of all."""
    for path in request.places():
        if request.force:
            write_atomic(path, data)
            return path
        if not path.exists():
            with contextlib.suppress(FileExistsError):
                write_new(path, data)
                return path
    raise AssertionError("numbers do not end")


def report(request: ReportRequest, runs: Sequence[RunFolder], reporter: Reporter) -> ReportFile:
    """Look at some runs, and write the page where one is asked for: the numbers are there where the disk does not take
    it. Raises UsageError, InputError or RunError before anything is written."""
    tables = request.tables or [None] * len(runs)
    looking = _without_the_page(limit_of(request.settings, request.started), len(runs) if request.draw else 0)
    found = []
    for number, (run, table) in enumerate(zip(runs, tables, strict=True)):
        limit = looking.part(1 / (len(runs) - number))
        found.append(examine(run, table, request, limit, reporter))
        if limit.cut:
            reporter.warn(f"{found[-1].numbers.facts.run}: {found[-1].numbers.notes[-1]}")
    values, path = as_json(found), None
    for one in found:
        for verdict in one.verdicts:
            if verdict.level == "bad":
                reporter.warn(f"{one.numbers.facts.run}: {verdict.text}")
    if request.draw:
        from vgi_cli.reports.page import page  # needs the extra `report`

        data = page(found).encode()
        try:
            path = _written(request, data)
        except OSError as error:
            path = next(place for place in request.places() if request.force or not place.exists())
            return ReportFile(values, None, unwritten(path, error, values, "the numbers of the report are whole"))
        if request.folder not in (None, path):
            reporter.warn(f"another command has made '{request.folder}' meanwhile: this page is '{path}'")
    return ReportFile(values, path)
