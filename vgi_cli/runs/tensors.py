"""Tensors on disk: safetensors, written a piece at a time."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from vgi_cli.errors import RunError
from vgi_cli.methods.base import LINES
from vgi_cli.ranks import ALONE, Ranks
from vgi_cli.scratch import Scratch

_DTYPES = {
    torch.bool: "BOOL",
    torch.uint8: "U8",
    torch.int8: "I8",
    torch.int16: "I16",
    torch.uint16: "U16",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int32: "I32",
    torch.float32: "F32",
    torch.float64: "F64",
    torch.int64: "I64",
}
"""Names of the element types in the format. Tensors lie in a file in the reverse of this order, then by name, so that
each is aligned to its element."""

CHUNK = 1 << 24
"""Bytes of a tensor that are written at a time: what saving needs beside the tensor itself."""


def write_tensors(path: Path, tensors: Mapping[str, Tensor], ranks: Ranks | None = None) -> str:
    """Write a new safetensors file, wait until it is on the disk and return its SHA-256; no tensor is copied whole.

    ranks  where several share a fit: of a tensor among LINES each has some lines, and sends them (`send_tensors`)
    """
    ranks = ALONE if ranks is None else ranks
    names = _in_order(tensors)
    shapes = {name: list(tensors[name].shape) for name in names}
    for name in _lines(names):
        shapes[name][0] = ranks.lines(tensors[name])
    digest = hashlib.sha256()
    with open(path, "wb") as file:
        chunks = (
            data
            for name in names
            for piece in (ranks.pieces(tensors[name]) if name in LINES else [tensors[name]])
            for data in _chunks(piece)
        )
        for data in itertools.chain([_header(names, tensors, shapes)], chunks):
            digest.update(data)
            file.write(data)
        file.flush()
        os.fsync(file.fileno())
    return digest.hexdigest()


def send_tensors(tensors: Mapping[str, Tensor], ranks: Ranks) -> None:
    """Send this rank's lines to rank 0, which writes them by `write_tensors`."""
    names = _lines(_in_order(tensors))
    for name in names:
        ranks.lines(tensors[name])
    for name in names:
        for _ in ranks.pieces(tensors[name]):
            pass  # it gets nothing


def _in_order(tensors: Mapping[str, Tensor]) -> list[str]:
    """The names in the order in which a file has the tensors."""
    kinds = list(_DTYPES)
    return sorted(tensors, key=lambda name: (-kinds.index(tensors[name].dtype), name))


def _lines(names: Sequence[str]) -> list[str]:
    """Of these names those among LINES."""
    return [name for name in names if name in LINES]


def _header(names: Sequence[str], tensors: Mapping[str, Tensor], shapes: Mapping[str, list[int]]) -> bytes:
    """Length (8 bytes) and JSON: type, shape and place of each tensor, padded to 8 bytes."""
    entries, end = {}, 0
    for name in names:
        tensor, shape = tensors[name], shapes[name]
        start, end = end, end + math.prod(shape) * tensor.element_size()
        entries[name] = {"dtype": _DTYPES[tensor.dtype], "shape": shape, "data_offsets": [start, end]}
    text = json.dumps(entries, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def _chunks(tensor: Tensor) -> Iterator[Any]:
    """The bytes of a tensor, in order, from wherever it lies."""
    for piece in tensor.detach().contiguous().view(-1).split(CHUNK // tensor.element_size()):
        yield piece.cpu().view(torch.uint8).numpy()


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file. FileNotFoundError where there is none, RunError when it is damaged, or holds
    elements of a type that `write_tensors` does not know."""
    try:
        found = dict(load_file(path))
    except FileNotFoundError:
        raise
    except (OSError, SafetensorError, ValueError) as error:
        raise RunError(f"{path}: damaged ({error})", "restore the file, or fit again") from None
    for name, tensor in found.items():
        if tensor.dtype not in _DTYPES:
            kind = str(tensor.dtype).removeprefix("torch.")
            raise RunError(f"{path}: damaged ('{name}' has elements of type {kind})", "restore the file, or fit again")
    return found


def copy_tensors(path: Path, scratch: Scratch) -> dict[str, Tensor]:
    """The tensors of a file that `write_tensors` wrote and nobody has changed, copied to files of this process, a piece
    at a time: a mapped file that somebody else cuts short would end the process."""
    kinds = {name: kind for kind, name in _DTYPES.items()}
    found = {}
    with open(path, "rb") as file:
        entries = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        for name, entry in entries.items():  # in the order in which they lie
            found[name] = scratch.zeros(*entry["shape"], dtype=kinds[entry["dtype"]])
            for piece in found[name].view(-1).split(CHUNK // found[name].element_size()):
                file.readinto(piece.view(torch.uint8).numpy())
    return found
