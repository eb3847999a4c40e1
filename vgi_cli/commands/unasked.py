"""Cells that are filled though the question may not have been asked of their row: how many, and the flags
that leave them blank."""

from __future__ import annotations

from vgi_cli.columns.blanks import unanswered_in, unasked_cells
from vgi_cli.columns.numerals import Bools, Floats
from vgi_cli.columns.schema import Schema
from vgi_cli.reporting import Reporter


class UnaskedCells:
    """Counts them by what the fit found (levels and numbers beside which there is no answer), over blocks of rows."""

    def __init__(self, schema: Schema) -> None:
        self._schema, self._cells, self._flags = schema, 0, dict[str, None]()
        self._behind = False
        self._rules = unanswered_in(schema)

    def __bool__(self) -> bool:
        """Whether there is anything to count."""
        return bool(self._rules)

    @property
    def deciding(self) -> set[str]:
        """Names of the columns that say whether others are asked for."""
        return {rule.name for rule in self._rules}

    @property
    def others(self) -> set[str]:
        """Names of these others."""
        return {name for rule in self._rules for name in rule.others}

    def count(self, codes: Floats, missing: Bools, filled: Bools) -> None:
        """Count the cells of some rows that are `filled` [N, columns] though their row is not asked for them; the
        others as of `unasked_cells`."""
        cells, behind, flags = unasked_cells(self._rules, codes, missing, filled, self._schema)
        self._behind |= bool(behind.any())
        self._cells += int(cells.sum())
        self._flags |= dict.fromkeys(flags)

    def say(self, reporter: Reporter, tables: int) -> None:
        """A warning of fills in so many tables."""
        if not self._cells:
            return
        one, each = self._cells == 1, " in each table" if tables > 1 else ""
        they, mean, them = ("it", "means", "it") if one else ("they", "mean", "them")
        before = ", or to the question before it" if self._behind else ""
        reporter.warn(
            f"{self._cells:,} {'fill' if one else 'fills'}{each} {'lies' if one else 'lie'} in rows that may not have "
            f"been asked: by an observed cell of the row, no such row of the fit has an answer there{before}; if the "
            f"question does not apply, {they} {mean} nothing (`vgi impute {' '.join(self._flags)}` leaves {them} blank)"
        )
