"""Cells of CSV that a spreadsheet would run as formulas, written so that it does not (`--safe-cells`)."""

from __future__ import annotations

import re

import numpy as np

from vgi_cli.table.csv.text import QUOTE, byte_order_marks, find_lines, unquote

BEGINS = np.frombuffer(b"=+-@\t\r'", np.uint8)
"""What a cell begins with that is looked at."""
FORMULA = re.compile(r"'*[=+\-@\t\r].", re.S)
"""A cell that gets a further `'`: one that has some before it too, so that taking one away gives the cell back."""
PLAIN = re.compile(r"[+-]?[0-9.,]+([eE][+-]?[0-9]+)?")
"""Numbers with any decimal mark: they stay."""


def safe_cells(text: bytes, delimiter: str) -> bytes:
    """The rows of a CSV text with a `'` before each cell, header included, that begins with `=`, `+`, `-`, `@`, a tab
    or a carriage return, holds more than that, and is no number. All other bytes stay."""
    begin = byte_order_marks(text)
    lines = find_lines(text, ord(delimiter), begin)
    ends = lines.separators
    following = ends + 1
    following[lines.last] = lines.following
    starts = np.concatenate([[begin], following[:-1]])[: len(ends)]
    data = np.frombuffer(text + b"\n\n", np.uint8)  # the cells after the last byte are empty
    quoted = (data[starts] == QUOTE) & (ends > starts)
    first = data[starts + quoted]
    pieces, at = [], 0
    for i in np.flatnonzero(np.isin(first, BEGINS) & (ends > starts)).tolist():
        cell = unquote(text[starts[i] : ends[i]].decode())
        if FORMULA.match(cell) and not PLAIN.fullmatch(cell.strip()):
            place = int(starts[i] + quoted[i])
            pieces += [text[at:place], b"'"]
            at = place
    return b"".join([*pieces, text[at:]]) if pieces else text
