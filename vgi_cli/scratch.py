"""Tensors in files of their own, mapped into memory: what is too large for the memory that a command may take.

A file has its room from the start (a full disk would otherwise end the process in the middle of its work) and no name:
the system frees it when the tensor or the process ends, however it ends. Pages that were touched count as memory of the
process until they are released, and stay in the system's cache of files after that.
"""

from __future__ import annotations

import math
import mmap
import os
import tempfile
import weakref
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import final

import torch
from torch import Tensor

from vgi_cli.errors import FitError

PIECE_BYTES = 1 << 24
"""Bytes of rows that are gathered or converted at a time."""
_MAPPED: list[weakref.ref[mmap.mmap]] = []
"""The files of this process."""


def release() -> None:
    """Give back the memory of the pages of all files; what they hold stays there. Allowed at any time, by any
    thread."""
    for ref in list(_MAPPED):
        mapped = ref()
        if mapped is not None:
            mapped.madvise(mmap.MADV_DONTNEED)


@final
class Scratch:
    """A place for such files: the folder, or its nearest parent that exists."""

    def __init__(self, folder: Path) -> None:
        self._folder = next(one for one in (folder.absolute(), *folder.absolute().parents) if one.is_dir())
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="read-ahead")  # its thread starts with the first work
        self._reading: Future[None] | None = None

    def zeros(self, *shape: int, dtype: torch.dtype) -> Tensor:
        """Zeros in a new file. FitError where there is no room for it."""
        try:
            return zeros_in_file(self._folder, shape, dtype)
        except OSError as error:
            size = math.prod(shape) * dtype.itemsize
            raise FitError(
                f"cannot keep {size / 1e9:.3g} GB in a file in '{self._folder}': {error.strerror}",
                "choose a folder on a larger disk with --out",
            ) from None

    def rows(self, values: Tensor, index: Tensor) -> Tensor:
        """values[index] of rows index [n] (int64) in a new file."""
        out = self.zeros(len(index), *values.shape[1:], dtype=values.dtype)
        for part in pieces(len(index), values[:1].numel() * values.element_size()):
            torch.index_select(values, 0, index[part], out=out[part])
        return out

    def read_ahead(self, index: Tensor, *values: Tensor) -> None:
        """Begin to read rows index [n] of values [N, ..] from their files, so that who takes them a little later does
        not wait for the disk. Where an earlier reading is still under way the disk has enough to do: nothing is begun.
        What is read is left to the system's cache."""
        if self._reading is None or self._reading.done():
            self._reading = self._reader.submit(_read, index, values)

    def converted(self, values: Tensor, dtype: torch.dtype) -> Tensor:
        """The same rows in another precision, in a new file."""
        out = self.zeros(*values.shape, dtype=dtype)
        for part in pieces(len(values), values[:1].numel() * values.element_size()):
            out[part] = values[part].to(dtype)
        return out


def _read(index: Tensor, values: Sequence[Tensor]) -> None:
    for one in values:
        one.index_select(0, index)


def zeros_in_file(folder: Path, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """Zeros in a new file of a folder. OSError where there is no room for it."""
    size = math.prod(shape) * dtype.itemsize
    if size == 0:
        return torch.zeros(*shape, dtype=dtype)
    with tempfile.TemporaryFile(prefix=".vgi-scratch-", dir=folder) as file:
        _make_room(file.fileno(), size)
        mapped = mmap.mmap(file.fileno(), size)
    _MAPPED[:] = [ref for ref in _MAPPED if ref() is not None]
    _MAPPED.append(weakref.ref(mapped))
    return torch.frombuffer(mapped, dtype=dtype).view(*shape)


def _make_room(descriptor: int, size: int) -> None:
    """Give a file its size, and its blocks where the system can."""
    reserve = getattr(os, "posix_fallocate", None)
    if reserve is None:
        os.ftruncate(descriptor, size)
    else:
        reserve(descriptor, 0, size)


def pieces(rows: int, row_bytes: int) -> Sequence[slice]:
    """All rows, in order, some at a time: about PIECE_BYTES of them."""
    step = max(1, PIECE_BYTES // max(row_bytes, 1))
    return [slice(start, min(start + step, rows)) for start in range(0, rows, step)]
