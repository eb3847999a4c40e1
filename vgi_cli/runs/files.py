"""Files that are whole or absent: written aside, synced, renamed; and checkpoints of several files, atomic as a set.

All files of a checkpoint are written into `.checkpoint.tmp/` and synced; renaming that folder to `.checkpoint/` is the
moment of the commit; then the files move to the top of the run, the manifest last. Whoever opens a run first finishes a
move that was cut off. A kill at any instant therefore leaves the old set or the new one. The set that a checkpoint
replaces may stay as `.previous/`, in case the disk damages the new one.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from vgi_cli.durable import RAISE_LIMIT, sync_folder
from vgi_cli.errors import Unwritten, UsageError

PENDING = ".checkpoint.tmp"
COMMITTED = ".checkpoint"
PREVIOUS = ".previous"
COMPARISON = ".comparison"
"""Folder of what was scored while models are compared, before a run has a model."""
COMMAND = "command.json"
"""In that folder: what the comparison was begun with."""
LAST = "manifest.json"
ROOM = "make room"
REMEDIES = {
    errno.ENOSPC: ROOM,
    errno.EDQUOT: ROOM,
    errno.EFBIG: RAISE_LIMIT,
    errno.EIO: "look after the disk",
    errno.EROFS: "make the disk writable again",
}
"""What to do where the system refuses to write a file, by its errors that speak of the disk."""


def barrier(folder: Path) -> tuple[Path, str] | None:
    """Why no file can be made in a folder, as far as permissions tell: the nearest place on its path that exists, and
    the system's words. None: one can, once the folders below that place are made."""
    folder = folder.absolute()
    place = next(one for one in (folder, *folder.parents) if os.path.exists(one))  # False where it may not be looked at
    if not place.is_dir():
        return place, os.strerror(errno.ENOTDIR)
    if os.access(place, os.W_OK | os.X_OK):
        return None
    sealed = bool(os.statvfs(place).f_flag & os.ST_RDONLY)
    return place, os.strerror(errno.EROFS if sealed else errno.EACCES)


def require_writable(path: Path, hint: str) -> None:
    """UsageError, with a hint, where a file cannot be written: found before the work whose result it is to hold."""
    if (found := barrier(Path(os.path.realpath(path)).parent)) is not None:
        place, why = found
        raise UsageError(f"cannot write '{path}': {why} ('{place}')", hint)


def write_synced(path: Path, data: bytes) -> None:
    """Write a new file and wait until it is on the disk."""
    with open(path, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def write_atomic(path: Path, data: bytes) -> None:
    """Replace or create a file (of a link the file that it leads to): whoever opens `path` sees the old bytes or the
    new ones, never a part."""
    path = Path(os.path.realpath(path))
    aside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        write_synced(aside, data)
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)
    sync_folder(path.parent)


def write_new(path: Path, data: bytes) -> None:
    """Create a file (of a link to nothing the file that it leads to): whoever opens `path` sees all of it.
    FileExistsError where there is one by now, which stays."""
    path = Path(os.path.realpath(path))
    aside = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        write_synced(aside, data)
        try:
            os.link(aside, path)
        except FileExistsError:
            raise
        except OSError:  # a file system without hard links
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
            os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)
    sync_folder(path.parent)


def unwritten(path: Path, error: OSError, report: dict[str, Any], kept: str) -> Unwritten:
    """What is to be raised once a report is shown, one of whose files could not be written; `kept`: what is not lost,
    in words."""
    remedy = REMEDIES.get(error.errno or 0, "look after the disk and its permissions")
    return Unwritten(
        f"cannot write '{path}': {error.strerror}", f"{remedy}, or write elsewhere with -o; {kept}", report
    )


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


def commit(run: Path, write: Callable[[Path], None], before: Callable[[], None] | None = None) -> None:
    """Add a set of files to a run folder, all or none. `write(folder)` writes them, synced; `before()` is called when
    they are written and have not replaced anything yet."""
    finish_commit(run)
    pending = run / PENDING
    if pending.exists():
        shutil.rmtree(pending)
    try:
        pending.mkdir()
        write(pending)
        sync_folder(pending)
        if before is not None:
            before()
        os.rename(pending, run / COMMITTED)
    except OSError as error:
        shutil.rmtree(pending, ignore_errors=True)
        error.filename = str(run)
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


def keep_previous(run: Path, lengths: Mapping[str, int | None]) -> None:
    """Keep the files of a checkpoint that is about to be replaced as `.previous/`: large ones (tensors) as second
    names, others as copies of so many first bytes (None: all). None are kept where that is not possible: on a file
    system without hard links, or a full one."""
    aside = run / f"{PREVIOUS}.tmp"
    shutil.rmtree(aside, ignore_errors=True)
    try:
        aside.mkdir()
        for name, length in lengths.items():
            if name.endswith(".safetensors"):
                os.link(run / name, aside / name)
            else:
                write_synced(aside / name, (run / name).read_bytes()[:length])
        sync_folder(aside)
        os.rename(aside, run / PREVIOUS)
    except OSError:
        shutil.rmtree(aside, ignore_errors=True)


def drop_previous(run: Path) -> None:
    """Remove what `keep_previous` kept."""
    for name in (PREVIOUS, f"{PREVIOUS}.tmp"):
        shutil.rmtree(run / name, ignore_errors=True)
