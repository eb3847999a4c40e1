"""Codes for cells without an answer beside a scale: 8 (don't know) and 9 (refused) beside answers from 1 to 5."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np

from vgi_cli.columns.base import Column
from vgi_cli.columns.number import Number
from vgi_cli.columns.numerals import plain
from vgi_cli.columns.wording import code_line, named
from vgi_cli.encoding.spellings import codes_above, codes_alone, means_nothing
from vgi_cli.table.base import Table

SHARED = 2
"""Columns from which on the same codes are no chance."""


class Coded(NamedTuple):
    """A column with codes above its scale, smallest first, in so many cells each, and the ends of the scale."""

    name: str
    codes: tuple[float, ...]
    cells: tuple[int, ...]
    scale: tuple[float, float]


def scale_codes(table: Table, columns: Sequence[Column]) -> list[str]:
    """A line on the columns of few whole numbers with the same codes above their scales."""
    return [_line(table, group) for group in scales_with_codes(table, columns)]


def scales_with_codes(table: Table, columns: Sequence[Column]) -> list[list[Coded]]:
    """The columns of few whole numbers with codes above their scales, those together that have the same: those that are
    codes by themselves, or that several columns have, and the same ones in further columns."""
    coded = [one for column in columns if isinstance(column, Number) and (one := _coded(table, column))]
    often = Counter(one.codes for one in coded)
    sure = [one for one in coded if codes_alone(one.codes, one.scale[1]) or _shared(one.codes, often)]
    known = {code for one in sure for code in one.codes}
    groups: dict[tuple[tuple[float, ...], tuple[float, float]], list[Coded]] = {}
    for one in coded:
        if known.issuperset(one.codes):
            groups.setdefault((one.codes, one.scale), []).append(one)
    return list(groups.values())


def _shared(codes: tuple[float, ...], often: Counter[tuple[float, ...]]) -> bool:
    """Whether several columns have the same codes, 9 among them."""
    return codes[-1] == 9 and often[codes] >= SHARED


def _coded(table: Table, column: Number) -> Coded | None:
    """A column that holds a few whole numbers alone, with codes above its scale; None of another one."""
    codes = codes_above(column.levels)
    if not codes:
        return None
    values = column.codes(table.column(column.name))
    scale = column.levels[: -len(codes)]
    return Coded(column.name, codes, tuple(int((values == code).sum()) for code in codes), (scale[0], scale[-1]))


def _line(table: Table, group: Collection[Coded]) -> str:
    """What is said of columns with the same codes and the same scale."""
    first, names = next(iter(group)), [one.name for one in group]
    counts = np.array([one.cells for one in group]).sum(0).tolist()
    codes = [plain(code) for code in first.codes]
    said = [f"{code} ({count:,} cell{'s' * (count > 1)})" for code, count in zip(codes, counts, strict=True)]
    low, high = map(plain, first.scale)
    lie, mean = ("lies", "it means") if len(said) == 1 else ("lie", "they mean")
    what = f"{', '.join(said)} {lie} apart from the other values, {low} to {high}, of {named('column', names)}"
    line = f"{what}, as codes for don't know and refused do: {means_nothing(table, names, codes)} if {mean} missing"
    return code_line(line, [(sum(one.cells), int((~table.missing(one.name)).sum())) for one in group])
