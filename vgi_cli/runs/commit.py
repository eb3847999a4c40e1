"""Checkpoints of several files that are atomic as a set.

All files are written into `.checkpoint.tmp/` and synced; renaming that folder to `.checkpoint/` is the moment of the
commit; then the files move to the top of the run, the manifest last. Whoever opens a run first finishes a move that
was cut off. A kill at any instant therefore leaves the old set or the new one.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from vgi_cli.runs.files import sync_folder

PENDING = ".checkpoint.tmp"
COMMITTED = ".checkpoint"
LAST = "manifest.json"


def commit(run: Path, write: Callable[[Path], None]) -> None:
    """Add a set of files to a run folder, all or none. `write(folder)` writes them, synced."""
    finish_commit(run)
    pending = run / PENDING
    if pending.exists():
        shutil.rmtree(pending)
    try:
        pending.mkdir()
        write(pending)
        sync_folder(pending)
        os.rename(pending, run / COMMITTED)
    except OSError:
        shutil.rmtree(pending, ignore_errors=True)
        raise
    sync_folder(run)
    finish_commit(run)


def finish_commit(run: Path) -> None:
    """Move a committed set into place; nothing to do when there is none, or when the folder cannot be written
    (then `RunFolder.file` reads from the committed set)."""
    committed = run / COMMITTED
    if not committed.is_dir():
        return
    try:
        with contextlib.suppress(FileNotFoundError):  # another process is finishing the same move
            for path in sorted(committed.iterdir(), key=lambda p: (p.name == LAST, p.name)):
                with contextlib.suppress(FileNotFoundError):
                    os.replace(path, run / path.name)
            committed.rmdir()
        sync_folder(run)
    except OSError as error:
        # ENOTEMPTY: the next set was committed meanwhile, its writer moves it
        if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTEMPTY):
            raise
