"""Draws of a table that are asked for again when it is written, in memory or in a temporary file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from vgi_cli.columns.numerals import Bools, Floats
from vgi_cli.errors import FitError
from vgi_cli.table.inputs import scratch, scratch_errors


def require_finite(values: Floats, missing: Bools, names: Sequence[str]) -> None:
    """FitError where a fill in values [m, N, D], where `missing` [N, D], is not finite; names of the D columns."""
    wrong = (~np.isfinite(values) & missing).any((0, 1))
    if wrong.any():
        raise FitError(
            f"a fill of column '{names[int(wrong.argmax())]}' is not finite",
            "the parameters of the run are out of range: fit again",
        )


class HeldDraws:
    """`m` draws [m, N, D] of the modelled columns of a table in memory, in data units."""

    def __init__(self, values: Floats) -> None:
        self._values = values
        self.m = len(values)

    def rows(self, draw: int, first: int, missing: Bools) -> Floats:
        """[n, D]: one draw of the n rows from `first` on, where `missing` [n, D]; other cells mean nothing."""
        return self._values[draw, first : first + len(missing)]


class SpooledDraws:
    """The same in a temporary file: 8 bytes a draw and missing cell. Blocks are read as they were added."""

    def __init__(self, m: int, near: Path | None) -> None:
        """`near`: an output; the file lies on its disk."""
        self.m = m
        self._near = near
        self._file = scratch(near)
        self._places: dict[int, tuple[int, int]] = {}  # first row of a block: byte, cells a draw
        self._end = 0

    def add(self, first: int, missing: Bools, values: Floats) -> None:
        """Keep values [m, n, D] of the n rows from `first` on, where `missing` [n, D]."""
        cells = np.ascontiguousarray(values[:, missing])
        self._places[first] = self._end, cells.shape[1]
        with scratch_errors(self._near):
            self._file.seek(self._end)
            self._file.write(cells.tobytes())
        self._end += cells.nbytes

    def rows(self, draw: int, first: int, missing: Bools) -> Floats:
        """As of HeldDraws."""
        begin, cells = self._places[first]
        with scratch_errors(self._near):
            self._file.seek(begin + 8 * cells * draw)
            data = self._file.read(8 * cells)
        out = np.zeros(missing.shape)
        out[missing] = np.frombuffer(data, np.float64)
        return out

    def close(self) -> None:
        """Drop the file."""
        self._file.close()
