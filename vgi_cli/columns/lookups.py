"""Lookups: what the cells of a column that is carried (an id, a name of many) say of another column."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable
from dataclasses import KW_ONLY
from functools import cached_property
from typing import Literal, TypeAlias, final

import numpy as np
from pydantic import NonNegativeInt, PositiveInt
from pydantic.dataclasses import dataclass

from vgi_cli.columns.base import STRICT
from vgi_cli.columns.numerals import Floats

SIZE = 8
"""Bytes of a digest: of a million texts two have the same one with a probability of 3e-8."""

First: TypeAlias = Literal["part", "letters"] | PositiveInt
"""What comes first in a text: all before the first character that is no letter or digit, the letters before the first
other character, or so many characters."""


@final
@dataclass(frozen=True, config=STRICT)
class Lookup:
    """A modelled column has one value in all rows with the same text in a carried one, or with texts that begin alike.

    name   of the modelled column
    by     name of the carried column
    keys   digests of the texts (`digest`), in the order of these: a schema has no texts, but somebody who knows one,
           or tries all ids that there may be, finds it and what is said of it
    codes  of the modelled column, one a text
    first  what of a text counts; None: all of it
    same   whether that is how the value of the modelled column is written, so that it says that of other texts too
    but    rows of the fit that contradict it
    """

    _: KW_ONLY
    name: str
    by: str
    keys: tuple[str, ...]
    codes: tuple[float, ...]
    first: First | None = None
    same: bool = False
    but: NonNegativeInt = 0

    def __post_init__(self) -> None:
        sound = len(self.keys) == len(self.codes) and len(set(self.keys)) == len(self.keys) > 0
        if self.name == self.by or not sound or (self.same and self.first is None):
            raise ValueError("the lookup does not fit its columns")

    @cached_property
    def _by_key(self) -> dict[str, float]:
        return dict(zip(self.keys, self.codes, strict=True))

    def said(self, digests: Iterable[str]) -> Floats:
        """[n] the codes by the digests [n] of texts; NaN: nothing is said."""
        return np.array([self._by_key.get(one, np.nan) for one in digests], np.float64)

    def words(self) -> str:
        """`'sex' follows from 'id'`."""
        if self.first is None:
            return f"'{self.name}' follows from '{self.by}'"
        what = {"part": "part", "letters": "letters", 1: "character"}.get(self.first, f"{self.first} characters")
        if self.same:
            return f"the first {what} of '{self.by}' {'is' if self.first in ('part', 1) else 'are'} '{self.name}'"
        return f"'{self.name}' follows from the first {what} of '{self.by}'"


def first_of(text: str, first: First) -> str | None:
    """What comes first in a text, without the blanks around it; None where that is nothing, or all of it."""
    text = text.strip()
    if isinstance(first, int):
        return text[:first] if len(text) > first else None
    alike = str.isalnum if first == "part" else str.isalpha
    found = "".join(itertools.takewhile(alike, text))
    return found if 0 < len(found) < len(text) else None


def digest(text: str) -> str:
    """What stands for a text, without the blanks around it: no secret, since it has no key of its own."""
    return hashlib.blake2b(text.encode(), digest_size=SIZE).hexdigest()
