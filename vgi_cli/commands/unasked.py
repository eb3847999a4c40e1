"""Cells that are filled though nothing may belong there: how many, and the flags that leave them blank."""

from __future__ import annotations

from collections.abc import Sequence

from vgi_cli.columns.blanks import Rule, unanswered_in, unasked_cells, undefined_in, without_value_in
from vgi_cli.columns.numerals import Bools, Floats
from vgi_cli.columns.schema import Schema
from vgi_cli.reporting import Reporter


class _Counted:
    """Cells that some rules say of, over blocks of rows, and the flags that leave them blank; `behind`: whether there
    is one that no rule says of, but the question before which is not asked."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules, self.cells, self.behind, self._flags = rules, 0, False, dict[str, None]()

    def add(self, codes: Floats, missing: Bools, filled: Bools, schema: Schema) -> None:
        cells, behind, flags = unasked_cells(self._rules, codes, missing, filled, schema)
        self.behind |= bool(behind.any())
        self.cells += int(cells.sum())
        self._flags |= dict.fromkeys(flags)

    def words(self, tables: int) -> tuple[str, str]:
        """`3 fills in each table lie`, and what leaves them blank."""
        one, each = self.cells == 1, " in each table" if tables > 1 else ""
        them = "it" if one else "them"
        return (
            f"{self.cells:,} {'fill' if one else 'fills'}{each} {'lies' if one else 'lie'}",
            f"{'it means' if one else 'they mean'} nothing (`vgi impute {' '.join(self._flags)}` leaves {them} blank)",
        )


class UnaskedCells:
    """Counts them by what the fit found (levels and numbers beside which there is no answer) and by arithmetic (a ratio
    to zero), over blocks of rows."""

    def __init__(self, schema: Schema) -> None:
        self._schema, self._rules = schema, without_value_in(schema)
        self._questions, self._undefined = _Counted(unanswered_in(schema)), _Counted(undefined_in(schema.relations))

    def __bool__(self) -> bool:
        """Whether there is anything to count."""
        return bool(self._rules)

    @property
    def deciding(self) -> set[str]:
        """Names of the columns that say whether others hold something."""
        return {rule.name for rule in self._rules}

    @property
    def others(self) -> set[str]:
        """Names of these others."""
        return {name for rule in self._rules for name in rule.others}

    def count(self, codes: Floats, missing: Bools, filled: Bools) -> None:
        """Count the cells of some rows that are `filled` [N, columns] though nothing may belong there; the others as of
        `unasked_cells`."""
        for counted in (self._questions, self._undefined):
            counted.add(codes, missing, filled, self._schema)

    def say(self, reporter: Reporter, tables: int) -> None:
        """Warnings of fills in so many tables."""
        if self._questions.cells:
            fills, nothing = self._questions.words(tables)
            before = ", or to the question before it" if self._questions.behind else ""
            reporter.warn(
                f"{fills} in rows that may not have been asked: by an observed cell of the row, no such row of the fit "
                f"has an answer there{before}; if the question does not apply, {nothing}"
            )
        if self._undefined.cells:
            fills, nothing = self._undefined.words(tables)
            reporter.warn(
                f"{fills} in rows whose observed cells leave the column no value (a ratio to 0, a logarithm of 0): "
                f"{nothing}"
            )
