"""Files that are whole or absent: written aside, synced, renamed."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def sync_folder(folder: Path) -> None:
    """Make renames inside a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_synced(path: Path, data: bytes) -> None:
    """Write a new file and wait until it is on the disk."""
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def write_atomic(path: Path, data: bytes) -> None:
    """Replace or create a file: whoever opens `path` sees the old bytes or the new ones, never a part."""
    aside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        write_synced(aside, data)
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)
    sync_folder(path.parent)


def sha256(data: bytes) -> str:
    """Hexadecimal SHA-256."""
    return hashlib.sha256(data).hexdigest()


def file_sha256(path: Path, length: int | None = None) -> str:
    """Hexadecimal SHA-256 of a file, or of its first `length` bytes."""
    digest = hashlib.sha256()
    left = path.stat().st_size if length is None else length
    with open(path, "rb") as file:
        while left > 0 and (chunk := file.read(min(left, 1 << 20))):
            digest.update(chunk)
            left -= len(chunk)
    return digest.hexdigest()


def json_bytes(values: Mapping[str, Any]) -> bytes:
    """Readable JSON; NaN and infinities are an error rather than invalid JSON."""
    return (json.dumps(values, indent=2, allow_nan=False, ensure_ascii=False) + "\n").encode()
