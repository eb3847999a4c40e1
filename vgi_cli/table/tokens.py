"""The texts and numbers that stand for a missing cell."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vgi_cli.columns.numerals import EXACT, Bools, Floats, parse

MISSING = ("", "NA", "N/A", "NaN", "nan", "null", "NULL", "None")
"""What always stands for a missing cell in CSV, blanks around it aside."""


class Tokens:
    """Texts that mean missing, blanks around them aside; one that is a number means that number however it is spelled.

    `-999` matches `-999`, `-999.0` and `-9.99e2`, in text and in typed numbers alike. Texts of numbers too long for
    float64 are compared as texts.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        """`texts`: those that the user gave."""
        self._texts = [text.strip() for text in texts]
        cells = pa.array(self._texts, pa.large_string())
        self._codes = parse(cells, np.zeros(len(cells), bool)).values
        self._numbers = self._codes[~np.isnan(self._codes)]
        self._met = np.isin(np.array(self._texts, object), np.array(MISSING, object))

    def __len__(self) -> int:
        return len(self._texts)

    def __bool__(self) -> bool:
        return bool(self._texts)

    def in_texts(self, cells: pa.Array) -> Bools:
        """[n] whether each trimmed cell (Arrow large_string [n], no null) is one of the tokens."""
        if not self:
            return np.zeros(len(cells), bool)
        absent = np.asarray(pc.is_in(cells, pa.array(self._texts, pa.large_string())), bool)
        if not self._met.all() and absent.any():
            met = pc.unique(pc.filter(cells, pa.array(absent))).to_pylist()
            self._met |= np.isin(np.array(self._texts, object), np.array(met, object))
        if len(self._numbers):
            values = parse(cells, absent).values
            absent |= self.in_numbers(np.where(np.abs(values) < EXACT, values, np.nan))
        return absent

    def in_numbers(self, values: Floats) -> Bools:
        """[n] whether each value is one of the tokens that are numbers."""
        absent = np.isin(values, self._numbers)
        if not self._met.all() and absent.any():
            self._met |= np.isin(self._codes, values[absent])
        return absent

    def unmet(self) -> list[str]:
        """The tokens that no cell was, of those that were looked at."""
        return [text for text, met in zip(self._texts, self._met.tolist(), strict=True) if not met]
