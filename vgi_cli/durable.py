"""Files that outlast a loss of power."""

from __future__ import annotations

import os
from pathlib import Path

RAISE_LIMIT = "raise the limit on the size of files (ulimit -f)"
"""What to do where the system refuses to write a file that large (EFBIG)."""


def sync_folder(folder: Path) -> None:
    """Make renames inside a folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
