"""Mask files: tables of 0 and 1 that hide cells."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from vgi_cli.columns.numerals import Bools
from vgi_cli.errors import InputError
from vgi_cli.table.base import Table
from vgi_cli.table.parquet.table import binary


def mask_delimiter(mask: Path, delimiter: str | None) -> str | None:
    """A mask may keep to commas where the data do not: the given delimiter only where the mask's header holds it."""
    if delimiter is None or not mask.is_file():
        return None
    with open(mask, "rb") as file:
        return delimiter if delimiter.encode() in file.readline(1 << 20) else None


def hidden_cells(table: Table, mask: Table) -> Bools:
    """[N, width] True where a mask file says missing.

    Here and nowhere else 1 means observed and 0 missing. Raises InputError when the mask's columns or rows are not the
    table's, or when it holds anything but 0 and 1.
    """
    lacking = [n for n in table.names if n not in mask.names and n not in table.index]
    extra = [n for n in mask.names if n not in table.names and n not in mask.index]
    if lacking or extra:
        name = (lacking or extra)[0]
        verb = "lacks the column" if lacking else "has a column that the data lack:"
        raise InputError(f"{mask.label}: the mask {verb} '{name}'", "a mask has the same columns as its table")
    if mask.N != table.N:
        raise InputError(
            f"{mask.label}: the mask has {mask.N} rows, {table.label} has {table.N}",
            "a mask has one row for each row of its table",
        )
    hidden = np.zeros((table.N, len(table.names)), bool)
    for i, name in enumerate(table.names):
        if name in table.index:
            continue
        values = binary(mask, name)
        wrong = np.flatnonzero(~((values == 0) | (values == 1)))
        if len(wrong):
            found = mask.raw_text(name)[wrong[0]]
            raise InputError(
                f"{mask.label}: column '{name}', {mask.where(int(wrong[0]))} holds '{found or ''}': expected 0 or 1",
                "in a mask 1 is observed and 0 is missing",
            )
        hidden[:, i] = values == 0
    return hidden
