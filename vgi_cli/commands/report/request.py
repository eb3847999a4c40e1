"""What `vgi report` is asked for, readable without torch."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from vgi_cli.commands.pages import refuse_page, require_extra
from vgi_cli.commands.requests import Request, check_rows
from vgi_cli.errors import UsageError
from vgi_cli.registry.plugins import plugged
from vgi_cli.reporting import Reporter
from vgi_cli.runs.files import require_writable
from vgi_cli.runs.folder import RunFolder
from vgi_cli.table.base import Table

if TYPE_CHECKING:
    from vgi_cli.commands.report.command import ReportFile

NAME = "report"
MOST_RUNS = 4


@dataclass(frozen=True, kw_only=True)
class ReportRequest(Request):
    """What `vgi report` is asked for.

    run     the run folders, side by side
    tables  of each the table that it was fitted on where that is in memory; empty: none is
    rows    of each table that are filled and looked at, drawn at random: a number, or `all`
    tipping  columns whose pooled mean is looked at over shifts of their fills: `COL`, or `COL=VALUE`
    json    whether the numbers are all that is wanted: no page without `out`
    """

    run: Sequence[str | Path]
    tables: Sequence[Table | None] = ()
    rows: int | Literal["all"] | None = None
    tipping: Sequence[str] = ()
    json: bool = False

    @property
    def draw(self) -> bool:
        """Whether a page is written."""
        return not self.json or self.out is not None

    def carry_out(self, reporter: Reporter) -> ReportFile:
        """Make the report, and write its page."""
        check_rows(self.rows, 2000)
        if not 1 <= len(self.run) <= MOST_RUNS:
            raise UsageError(f"a report is on 1 to {MOST_RUNS} runs, got {len(self.run)}", "name the runs to compare")
        if self.draw:
            require_extra()
        with plugged(self.plugins):
            runs = [RunFolder.open(Path(path)) for path in self.run]
            for run in runs:
                run.require_model()
            if self.draw:
                self._refuse_output()
            from vgi_cli.commands.report.command import report

            return report(self, runs, reporter)

    def _refuse_output(self) -> None:
        """UsageError for a place where no page can go."""
        if self.folder is not None:
            refuse_page(self.folder, "--out", self.force)
        else:
            require_writable(next(self.places()), "-o FILE.html writes elsewhere, --json writes no page")

    def places(self) -> Iterator[Path]:
        """Where the page goes: `out`, else report.html in the folder of the first run; where that is taken, to
        report-2.html, report-3.html, … beside it, without end (with `force` to the first of them)."""
        own = self.folder or Path(self.run[0]) / f"{NAME}.html"
        yield own
        yield from (own.with_name(f"{own.stem}-{number}{own.suffix}") for number in itertools.count(2))
