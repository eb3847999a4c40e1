"""Lookups: what the cells of a column that is carried (an id, a name of many) say of another column."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import KW_ONLY
from functools import cached_property
from typing import final

import numpy as np
from pydantic.dataclasses import dataclass

from vgi_cli.columns.base import STRICT
from vgi_cli.columns.numerals import Floats

SIZE = 8
"""Bytes of a digest: of a million texts two have the same one with a probability of 3e-8."""


@final
@dataclass(frozen=True, config=STRICT)
class Lookup:
    """A modelled column has one value in all rows with the same text in a carried one.

    name   of the modelled column
    by     name of the carried column
    keys   digests of the texts (`digest`), in the order of these: a schema has no texts, but somebody who knows one,
           or tries all ids that there may be, finds it and what is said of it
    codes  of the modelled column, one a text
    """

    _: KW_ONLY
    name: str
    by: str
    keys: tuple[str, ...]
    codes: tuple[float, ...]

    def __post_init__(self) -> None:
        if self.name == self.by or len(self.keys) != len(self.codes) or not len(set(self.keys)) == len(self.keys) > 0:
            raise ValueError("the lookup does not fit its columns")

    @cached_property
    def _by_key(self) -> dict[str, float]:
        return dict(zip(self.keys, self.codes, strict=True))

    def said(self, digests: Iterable[str]) -> Floats:
        """[n] the codes by the digests [n] of texts; NaN: nothing is said."""
        return np.array([self._by_key.get(one, np.nan) for one in digests], np.float64)

    def words(self) -> str:
        """`'sex' follows from 'id'`."""
        return f"'{self.name}' follows from '{self.by}'"


def digest(text: str) -> str:
    """What stands for a text, without the blanks around it: no secret, since it has no key of its own."""
    return hashlib.blake2b(text.encode(), digest_size=SIZE).hexdigest()
