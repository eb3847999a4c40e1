"""Cells that are filled, or drawn, though the question may not have been asked of their row: how many, and the flags
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
        each = " in each table" if tables > 1 else ""
        before = ", or to the question before it" if self._behind else ""
        self._warn(
            reporter,
            ("fill", "fills"),
            f"{each} {'lies' if self._cells == 1 else 'lie'} in rows that may not have been asked: by an observed cell "
            f"of the row, no such row of the fit has an answer there{before}",
            "vgi impute",
        )

    def say_drawn(self, reporter: Reporter) -> None:
        """A warning of values of synthetic rows."""
        before = ", or to the question before it" if self._behind else ""
        self._warn(
            reporter,
            ("value", "values"),
            f" {'lies' if self._cells == 1 else 'lie'} in rows that may not have been asked: by another cell of the "
            f"row, no such row of the fit has an answer there{before}",
            "vgi sample",
        )

    def _warn(self, reporter: Reporter, words: tuple[str, str], why: str, command: str) -> None:
        if not self._cells:
            return
        one = self._cells == 1
        they, mean, them = ("it", "means", "it") if one else ("they", "mean", "them")
        reporter.warn(
            f"{self._cells:,} {words[not one]}{why}; if the question does not apply, {they} {mean} nothing "
            f"(`{command} {' '.join(self._flags)}` leaves {them} blank)"
        )
