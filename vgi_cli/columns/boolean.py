"""Truth values: 0 and 1, yes and no, Y and N, true and false, t and f, in any letters; and those of Parquet."""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

import numpy as np
from pydantic.dataclasses import dataclass

from vgi_cli.columns.base import STRICT, Cells, Column, Request
from vgi_cli.columns.levelled import (
    Levelled,
    as_list,
    few,
    key_of,
    levels_of,
    listed,
    listed_levels,
    numeric,
    unnamed_levels,
)
from vgi_cli.columns.numerals import Floats
from vgi_cli.columns.wording import kind_flag
from vgi_cli.errors import InputError

PAIRS = (("0", "1"), ("no", "yes"), ("n", "y"), ("false", "true"), ("f", "t"))
FAMILIES = (("0", "1"), ("no", "yes", "n", "y"), ("false", "true", "f", "t"))
"""Spellings that are found in one column."""
WORDS = {word: str(code) for pair in PAIRS for code, word in enumerate(pair)}


def truth_key(text: str) -> str:
    """`0` or `1` of a truth value however it is spelled; the key of another level."""
    key = key_of(text)
    return WORDS.get(key.casefold(), key)


@final
@dataclass(frozen=True, config=STRICT)
class Boolean(Levelled):
    """A column of truth values: its levels are what is false and what is true, as the fitted table spells them most
    often. In another table every spelling counts, and any pair that was listed (`--column won=boolean:lost,won`)."""

    words = ("boolean",)

    @property
    def ordered(self) -> bool:
        return False

    @property
    def request(self) -> str | None:
        known = {truth_key(level) for level in self.levels} == {"0", "1"}
        return "boolean" if known else f"boolean:{as_list(self.levels)}"

    @property
    def summary(self) -> str:
        return f"{self.levels[0]} or {self.levels[1]}"

    @classmethod
    def check_detail(cls, word: str, detail: str) -> str | None:
        wrong = super().check_detail(word, detail)
        if wrong is None and len(listed(detail)) != 2:
            wrong = f"'{word}:' takes what is false and what is true, got '{detail}'"
        return wrong

    @classmethod
    def infer(cls, cells: Cells, asked: Request) -> Column | None:
        if asked.kind is None:
            observed = int((~cells.missing).sum())
            known = unnamed_levels(cells, asked) is not None and (few(2, observed) or not numeric(cells))
            return cls.found(cells, one=False) if known else None
        if not cells.levelled:
            return None
        if asked.detail is not None:
            return cls(cells.name, "boolean", levels=listed_levels(cells, asked, lambda text: key_of(text).casefold()))
        found = cls.found(cells, one=True)
        if found is None:
            cls._refuse(cells)
        return found

    @staticmethod
    def _refuse(cells: Cells) -> None:
        levels = [level.text for level in levels_of(cells).values()]
        said = f"{cells.label}: --column {cells.name}=boolean"
        if len(levels) > 2:
            hint = f"`{kind_flag(cells.name, 'categorical')}` models levels, `integer` or `numeric` numbers"
            raise InputError(f"{said}, but the column holds {len(levels)} different values", hint)
        names = as_list(levels) if len(levels) == 2 else f"{as_list(levels)},OTHER"
        raise InputError(
            f"{said}: which level is true is not known",
            f"list what is false and what is true: `{kind_flag(cells.name, f'boolean:{names}')}` in that order",
        )

    @classmethod
    def found(cls, cells: Cells, one: bool) -> Column | None:
        """The column where its cells are truth values; `one`: also where only one of the two occurs."""
        words = {key.casefold() for key in levels_of(cells)}
        if not any(words <= set(family) for family in FAMILIES):
            return None
        found = levels_of(cells, truth_key)
        if len(found) == 1:
            if not one:
                return None
            ((key, level),) = found.items()
            other = opposite(level.text)
            levels = (level.text, other) if key == "0" else (other, level.text)
            return cls(cells.name, "boolean", levels=levels)
        return cls(cells.name, "boolean", levels=(found["0"].text, found["1"].text))

    def place(self, text: str) -> float:
        own = {key_of(level).casefold(): float(code) for code, level in enumerate(self.levels)}
        key = key_of(text).casefold()
        return own[key] if key in own else float(WORDS.get(key, np.nan))

    def spellings(self, found: Mapping[int, Mapping[str, int]]) -> dict[int, str]:
        """Of a truth value that does not occur the opposite of the other."""
        other = super().spellings(found)
        if len(found) == 1:
            ((code, text),) = other.items() or [(-1, "")]
            if truth_key(text) in ("0", "1"):
                other[1 - code] = opposite(text)
        return other

    def numbers(self, codes: Floats) -> Floats | None:
        """0 and 1, also of texts: what a column of numbers or of truth values gets."""
        return np.asarray(codes, np.float64)


def opposite(text: str) -> str:
    """The other truth value in the same letters: `NO` of `YES`, `0.0` of `1.0`."""
    key = key_of(text)
    low = key.casefold()
    other = next(pair[1 - pair.index(low)] for pair in PAIRS if low in pair)
    if low in ("0", "1"):
        return text.strip().replace(low, other, 1)
    return other.upper() if key.isupper() else other.title() if key.istitle() else other
