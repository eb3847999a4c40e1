"""Relations between columns: what the cells of some columns of a table say exactly of another one's."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import final

from pydantic.dataclasses import dataclass

from vgi_cli.columns.base import STRICT
from vgi_cli.columns.numerals import plain
from vgi_cli.columns.wording import named

SHOWN = 4
"""Terms of a sum that are written out."""


@final
@dataclass(frozen=True, config=STRICT)
class Relation:
    """What holds in every row in which all cells of some columns are observed: a sum, or cells that go one to one with
    levels.

    names     of the columns; the first is the one that the others determine
    weights   of a sum, one a column, the first one 1: weights @ cells = constant; empty where cells go one to one
    constant  data units
    rounded   whether the first column is the sum of the others at its resolution, and not exactly
    codes     of two columns that go one to one, the second of which has levels: the code of the first by these; None
              where no row has both
    """

    _: KW_ONLY
    names: tuple[str, ...]
    weights: tuple[float, ...] = ()
    constant: float = 0.0
    rounded: bool = False
    codes: tuple[float | None, ...] = ()

    def __post_init__(self) -> None:
        linear = len(self.weights) == len(self.names) >= 2 and not self.codes and self.weights[0] == 1.0
        paired = len(self.names) == 2 and not self.weights and bool(self.codes)
        sound = len(set(self.names)) == len(self.names) and 0.0 not in self.weights and not (self.rounded and paired)
        if not sound or not (linear or paired):
            raise ValueError("the relation does not fit its columns")
        used = [code for code in self.codes if code is not None]
        if len(set(used)) != len(used):
            raise ValueError("the cells of a relation do not go one to one")

    def words(self, counted: bool = True) -> str:
        """`'cnt' = 'casual' + 'registered'`; `counted`: whether weights and constants say something to a reader, which
        those of dates do not."""
        first, *others = self.names
        if self.codes:
            return f"'{first}' and the levels of '{others[0]}' go one to one"
        same = len(others) == 1 and self.weights[1] == -1.0 and not self.constant
        if not counted and not same:
            return f"'{first}' is a sum of {named('column', others)}"
        terms = [_term(-weight, name) for name, weight in zip(others, self.weights[1:], strict=True)]
        if len(terms) > SHOWN:
            terms = [*terms[: SHOWN - 1], f" + … ({len(terms) - SHOWN + 1} more)"]
        if self.constant:
            terms.append(f" {'-' if self.constant < 0 else '+'} {plain(abs(self.constant))}")
        written = "".join(terms)
        written = written[3:] if written.startswith(" + ") else "-" + written[3:]
        return f"'{first}' = {written}" + ", rounded" * self.rounded


def _term(weight: float, name: str) -> str:
    """` + 2 'name'`, ` - 'name'`."""
    size = "" if abs(weight) == 1 else f"{plain(abs(weight))} "
    return f" {'-' if weight < 0 else '+'} {size}'{name}'"
