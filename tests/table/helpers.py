"""Tables from text, as they would come from a file."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from vgi_cli.columns.numerals import Floats
from vgi_cli.columns.schema import Schema
from vgi_cli.table.base import Table
from vgi_cli.table.draws import HeldDraws
from vgi_cli.table.fills import find_styles
from vgi_cli.table.outputs import OutputLayout
from vgi_cli.table.reader import read_table
from vgi_cli.table.source import Whole
from vgi_cli.table.writer import Content, write_blocks


def from_text(text: str | bytes, **options: Any) -> Table:
    """The table that CSV text on standard input stands for."""
    data = text.encode() if isinstance(text, str) else text
    return read_table(["-"], stdin=io.BytesIO(data), **options)


def save(folder: Path, name: str, text: str | bytes) -> Path:
    """A file with the text."""
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def write_imputed(
    table: Table, schema: Schema, draws: Floats, *, layout: OutputLayout, out: Path | BinaryIO, **options: Any
) -> list[Path]:
    """`write_blocks` of a whole table and finite draws [m, N, D] that are held in memory."""
    draws = np.asarray(draws, np.float64)
    assert draws.shape[1:] == (table.N, len(schema.modelled))
    content = Content(Whole(table), schema, find_styles([table], schema), HeldDraws(draws))
    return write_blocks(content, layout=layout, out=out, **options)
