"""Filled tables as CSV: the input's bytes with nothing changed but the filled cells."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np

from vgi_cli.table.csv_text import CsvText
from vgi_cli.table.fills import Holes
from vgi_cli.table.numerals import Floats


class Template:
    """A CSV text cut at its holes: `fill` puts texts between the pieces."""

    def __init__(self, csv: CsvText, holes: Sequence[Holes]) -> None:
        begin = [csv.bounds[h.rows, h.place] for h in holes]
        end = [csv.bounds[h.rows, h.place + 1] - 1 for h in holes]
        self.csv = csv
        self.holes = holes
        begins, ends = (np.concatenate(x) if x else np.zeros(0, np.int64) for x in (begin, end))
        self._begins, self._ends = begins, ends

    def fill(self, draw: Floats) -> bytes:
        """The whole file with the holes filled from one draw [N, D]."""
        return self._splice(0, self._begins, self._ends, list(chain.from_iterable(h.texts(draw) for h in self.holes)))

    def long(self, draws: Floats, *, original: bool) -> bytes:
        """All draws [m, N, D] below each other with columns `.imp` and `.id` last; first, as `.imp` 0, the holes."""
        csv = self.csv
        extra = csv.delimiter + csv.delimiter.join(('".imp"', '".id"') if csv.quoted else (".imp", ".id"))
        newline = csv.text[csv.header[1] : csv.header[2]] or b"\n"
        out = [csv.text[: csv.header[1]], extra.encode(), newline]
        row_ends = csv.bounds[:, -1] - 1
        begins, ends = np.concatenate([self._begins, row_ends]), np.concatenate([self._ends, row_ends])
        unfinished = newline if int(csv.following[-1]) == int(row_ends[-1]) else b""
        for i in range(0 if original else 1, len(draws) + 1):
            texts = [h.texts(draws[i - 1]) if i else h.blanks for h in self.holes]
            tails = [f"{csv.delimiter}{i}{csv.delimiter}{row}".encode() for row in range(1, csv.N + 1)]
            tails[-1] += unfinished
            out.append(self._splice(csv.header[2], begins, ends, list(chain.from_iterable([*texts, tails]))))
        return b"".join(out)

    def _splice(self, start: int, begins: np.ndarray, ends: np.ndarray, texts: list[bytes]) -> bytes:
        """The text from byte `start` with the ranges [begin, end) replaced.

        A hole that is the last cell of its row begins where the row's end is inserted when it is empty: the sort is
        stable and holes come first.
        """
        order = np.argsort(begins, kind="stable")
        text = self.csv.text
        pieces: list[bytes] = [b""] * (2 * len(order) + 1)
        at = start
        for i, (begin, end) in enumerate(zip(begins[order].tolist(), ends[order].tolist(), strict=True)):
            pieces[2 * i] = text[at:begin]
            at = end
        pieces[-1] = text[at:]
        pieces[1::2] = [texts[i] for i in order.tolist()]
        return b"".join(pieces)
