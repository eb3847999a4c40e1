"""Filled tables as folders of Parquet, whose files are those of the folder that they were read from."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from vgi_cli.errors import UsageError, VgiError
from vgi_cli.table.addresses import is_address, name_of
from vgi_cli.table.inputs import PARQUET, split_name
from vgi_cli.table.outputs import OutputLayout, write_pieces
from vgi_cli.table.shard import Shard


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
    lies within, what is read (`sources`)."""
    for path in paths:
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
    """Write folders, of each its files (path below it, pieces) one after the other, aside; only when all are written
    rename them into place. VgiError when the disk or the permissions fail; then nothing is left behind."""
    refuse_folders(paths, (), force=force)
    aside = [path.with_name(f".{path.name}.{os.getpid()}.tmp") for path in paths]
    path = paths[0]
    try:
        for one, part, files in zip(paths, aside, contents, strict=True):
            path = one
            part.mkdir(parents=True)
            for below, pieces in files:
                (part / below).parent.mkdir(parents=True, exist_ok=True)
                write_pieces(part / below, pieces)
        refuse_folders(paths, (), force=force)  # whoever made one of them meanwhile keeps it
        for one, part in zip(paths, aside, strict=True):
            path = one
            old = part.with_suffix(".old")
            if path.exists():
                os.replace(path, old)
            os.replace(part, path)
            shutil.rmtree(old, ignore_errors=True)
    except OSError as error:
        raise VgiError(f"cannot write {path}: {error.strerror}", "free some space or choose another place") from None
    finally:
        for part in aside:
            shutil.rmtree(part, ignore_errors=True)
