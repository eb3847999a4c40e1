"""Filled tables as folders of Parquet, whose files are those of the folder that they were read from."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from vgi_cli.durable import sync_folder
from vgi_cli.errors import UsageError
from vgi_cli.table.addresses import is_address, name_of
from vgi_cli.table.inputs import PARQUET, split_name
from vgi_cli.table.outputs import OutputLayout, unwritten, write_pieces
from vgi_cli.table.shard import Shard

OLD = ".old"
"""Ends the name of a folder that is being replaced, for the moment between two renames."""


class Folder(NamedTuple):
    """A folder of Parquet that is a table.

    files       of each file its path below the folder and its number of rows, in the order of the table
    partitions  the columns that the names of its folders say, and its files do not hold
    """

    files: Sequence[tuple[str, int]]
    partitions: Sequence[str] = ()


def folder_asked(out: str | None, data: Sequence[str]) -> bool:
    """Whether `-o` names folders: `filled/`, of a table that is one folder."""
    if out is None or not out.endswith("/") or len(data) != 1:
        return False
    address = is_address(data[0])
    return not split_name(name_of(data[0].partition("?")[0]))[1] if address else Path(data[0]).is_dir()


def folder_paths(out: Path, *, m: int, layout: OutputLayout, shard: Shard | None) -> list[Path]:
    """The folders that `write_folders` makes: `filled.1` … `filled.m` for `files`, `filled` for `single`. UsageError
    for other layouts, and for shards."""
    if layout not in ("files", "single"):
        raise UsageError(f"--format {layout} is one file, and '{out}/' a folder", "name a file, or take --format files")
    if shard is not None:
        raise UsageError(f"--shard writes files, and '{out}/' is a folder", f"for example -o {out}.parquet")
    return [out] if layout == "single" else [out.with_name(f"{out.name}.{i}") for i in range(1, m + 1)]


def refuse_folders(paths: Sequence[Path], sources: Sequence[str], *, force: bool) -> None:
    """UsageError for a folder that exists, unless it is forced and holds nothing but Parquet, and for one that is, or
    lies within, what is read (`sources`). A folder that a killed `--force` had moved aside is put back before."""
    for path in paths:
        _take_back(path)
        own = path.resolve()
        for source in (Path(one).resolve() for one in sources if one != "-" and not is_address(one)):
            if source in (own, *own.parents) or own in source.parents:
                raise UsageError(f"{path} and the table that is imputed lie in each other", "name a folder elsewhere")
        if not path.exists():
            continue
        if not path.is_dir():
            raise UsageError(f"{path} is a file", "name another folder")
        if not force:
            raise UsageError(f"{path} exists", "`--force` replaces it; `-o` names another")
        other = next((one for one in path.rglob("*") if one.is_file() and one.suffix.lower() not in PARQUET), None)
        if other is not None:
            raise UsageError(
                f"{path} holds other files than Parquet ('{other.relative_to(path)}'): it is not replaced",
                "name another folder, or remove it",
            )


def write_folders(
    paths: Sequence[Path], contents: Iterable[Iterable[tuple[str, Iterable[bytes]]]], *, force: bool
) -> None:
    """Write folders, of each its files (path below it, pieces) one after the other, aside and sync them; only when all
    are written rename them into place. VgiError when the disk or the permissions fail; then nothing is left behind.

    A folder that is there is moved aside just before, and comes back where the new one cannot take its place: then, or,
    after a kill between the two, with the next command that names it.
    """
    refuse_folders(paths, (), force=force)
    aside = [path.with_name(f".{path.name}.{os.getpid()}.tmp") for path in paths]
    path = paths[0]
    try:
        for one, part, files in zip(paths, aside, contents, strict=True):
            path = one
            shutil.rmtree(part, ignore_errors=True)  # of a process of this number that was killed
            part.mkdir(parents=True)
            for below, pieces in files:
                (part / below).parent.mkdir(parents=True, exist_ok=True)
                write_pieces(part / below, pieces)
            for folder, _, _ in os.walk(part, topdown=False):
                sync_folder(Path(folder))
        refuse_folders(paths, (), force=force)  # whoever made one of them meanwhile keeps it
        for one, part in zip(paths, aside, strict=True):
            path = one
            _put_in_place(part, path)
    except OSError as error:
        raise unwritten(path, error) from None
    finally:
        for part in aside:
            shutil.rmtree(part, ignore_errors=True)


def _put_in_place(part: Path, path: Path) -> None:
    """Rename a folder to `path`, durably, and remove the one that is there; OSError, with that one in its place again,
    where that cannot be."""
    old, replaces = part.with_suffix(OLD), path.exists()
    if replaces:
        shutil.rmtree(old, ignore_errors=True)
        os.rename(path, old)
    try:
        os.rename(part, path)
    except OSError:
        if replaces:
            os.rename(old, path)
        raise
    sync_folder(path.parent)
    for one in _moved_aside(path):
        shutil.rmtree(one, ignore_errors=True)


def _moved_aside(path: Path) -> list[Path]:
    """What was at `path` when a process was killed that replaced it; the newest first."""
    if not path.parent.is_dir():
        return []
    name = re.compile(rf"\.{re.escape(path.name)}\.\d+{re.escape(OLD)}")
    found = (one for one in path.parent.iterdir() if name.fullmatch(one.name))
    return sorted(found, key=lambda one: one.stat().st_ctime, reverse=True)


def _take_back(path: Path) -> None:
    """Where there is nothing at `path`, put back what was there when a process was killed that replaced it."""
    with contextlib.suppress(OSError):
        if not path.exists() and (kept := _moved_aside(path)):
            os.rename(kept[0], path)
            sync_folder(path.parent)
