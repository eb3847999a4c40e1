"""Holes that no fill reaches: those of columns that are carried (text, truth values, ids, …) or empty."""

from __future__ import annotations

from vgi_cli.columns.base import Schema
from vgi_cli.table.base import Table
from vgi_cli.table.wording import SHOWN


class Holes:
    """The holes of a table, whose rows may come in blocks, by what becomes of them.

    filled   number of those in modelled and constant columns, cells that a mask hides included
    staying  their number in each other column that has any: those of the table itself, since what a mask hides there is
             written as it is
    """

    def __init__(self, schema: Schema) -> None:
        self._known = {column.name for column in (*schema.encoded, *schema.constants)}
        self.filled = 0
        self.staying: dict[str, int] = {}

    def add(self, table: Table) -> None:
        """Count the next rows."""
        for name in table.names:
            if name in self._known:
                self.filled += int(table.missing(name).sum())
            elif count := int(table.blank(name).sum()):
                self.staying[name] = self.staying.get(name, 0) + count

    @property
    def left(self) -> int:
        """Number of holes that stay."""
        return sum(self.staying.values())

    @property
    def total(self) -> int:
        """Number of holes."""
        return self.filled + self.left

    def where(self) -> str:
        """`'note' (12), 'sex' (11)`: the columns whose holes stay, in their order, with their counts."""
        shown = list(self.staying.items())[:SHOWN]
        rest = len(self.staying) - len(shown)
        more = f" and {rest} more column{'s' if rest > 1 else ''} ({self.left - sum(n for _, n in shown)})"
        return ", ".join(f"'{name}' ({count})" for name, count in shown) + (more if rest else "")

    def notes(self) -> list[str]:
        """One line where holes stay."""
        if not self.staying:
            return []
        many = self.left > 1
        return [
            f"{self.left} hole{'s' * many} will stay, in {'columns' if len(self.staying) > 1 else 'a column'} "
            f"that {'are' if len(self.staying) > 1 else 'is'} not modelled: {self.where()}"
        ]


def count_holes(table: Table, schema: Schema) -> Holes:
    """The holes of a whole table."""
    holes = Holes(schema)
    holes.add(table)
    return holes
