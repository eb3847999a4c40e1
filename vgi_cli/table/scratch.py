"""Temporary files without a name: whatever ends the program, nothing is left behind."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from vgi_cli.errors import VgiError


@contextmanager
def scratch_errors() -> Iterator[None]:
    """VgiError where the disk of a temporary file is full."""
    try:
        yield
    except OSError as error:
        raise VgiError(
            f"cannot write a temporary file: {error.strerror or error}",
            "free some space, or name a larger folder in TMPDIR",
        ) from None


def scratch(near: Path | None = None) -> BinaryIO:
    """An empty file to write and read: in the nearest folder above `near` that exists, else where TMPDIR says."""
    folder = None if near is None else next(parent for parent in near.absolute().parents if parent.is_dir())
    with scratch_errors():
        return cast(BinaryIO, tempfile.TemporaryFile(dir=folder))
