"""Tables from text, as they would come from a file."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from vgi_cli.table.base import Table
from vgi_cli.table.reader import read_table


def from_text(text: str | bytes, **options: Any) -> Table:
    """The table that CSV text on standard input stands for."""
    data = text.encode() if isinstance(text, str) else text
    return read_table(["-"], stdin=io.BytesIO(data), **options)


def save(folder: Path, name: str, text: str | bytes) -> Path:
    """A file with the text."""
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path
