"""Names of outputs, and files that are whole or absent."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

from vgi_cli.durable import RAISE_LIMIT, sync_folder
from vgi_cli.errors import UsageError, VgiError
from vgi_cli.table.addresses import is_address
from vgi_cli.table.inputs import CODECS, Format, Origin, split_name
from vgi_cli.table.shard import Shard

OutputLayout = Literal["files", "long", "mids-csv", "single"]
"""One file for each draw, all draws below each other in one (`mids-csv`: for R's `read.csv`), or one draw."""
EXTENSIONS: dict[str, Format] = {
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".parq": "parquet",
}
OTHERS = frozenset(
    {".xls", ".xlsx", ".ods", ".json", ".jsonl", ".arrow", ".feather", ".orc", ".avro", ".h5", ".hdf5", ".npy", ".npz"}
    | {".pkl", ".rds", ".dta", ".sav", ".zip", ".xz"}
)
"""Extensions that promise what is not written here."""


def output_format(out: Path, origin: Origin) -> Format:
    """The type that the extension of an output picks, otherwise the input's."""
    return EXTENSIONS.get(_extension(out), origin.format)


def refuse_type(out: Path, layout: OutputLayout = "files") -> None:
    """UsageError for a name whose extension promises what is not written here, or not in this layout."""
    extension = _extension(out)
    if layout == "mids-csv" and extension in EXTENSIONS and extension != ".csv":
        raise UsageError(f"{out}: --format mids-csv writes CSV, not {extension}", "name it .csv or .csv.gz")
    if extension in OTHERS:
        raise UsageError(f"{out}: vgi writes CSV and Parquet, not {extension}", "name it .csv, .tsv or .parquet")


def refuse_safe(format: Format) -> None:
    """UsageError where `--safe-cells` means nothing."""
    if format == "parquet":
        raise UsageError("--safe-cells is for CSV: in Parquet a text is no formula", "leave it out, or write a .csv")


def _extension(out: Path) -> str:
    return packed_name(split_name(out)[1].lower())[0]


def packed_name(name: str) -> tuple[str, str]:
    """A name without the extension of what compresses it, and that: `.csv.gz` -> (`.csv`, `.gz`)."""
    packed = next((suffix for suffix in CODECS if name.endswith(suffix)), "")
    return name.removesuffix(packed), packed


def default_output(folder: Path, origin: Origin, layout: OutputLayout = "files") -> Path:
    """Where imputations of a table go without `-o`: `<folder>/<table>` with the input's extension, or for `mids-csv`
    `.mids.csv`."""
    if layout == "mids-csv":
        return folder / f"{origin.stem}.mids.csv"
    return folder / f"{origin.stem}{origin.suffix}"


def named_output(asked: str, origin: Origin, layout: OutputLayout) -> Path:
    """Where `-o` puts imputations of a table: a folder that exists, or a name that ends with a slash, holds them by the
    names that they have without `-o`. No name, and the folder above, stay, to be refused."""
    out = Path(asked)
    folder = asked != "" and out.name != ".." and (asked.endswith("/") or out.is_dir())
    return default_output(out, origin, layout) if folder else out


def output_paths(
    out: Path,
    origin: Origin,
    *,
    m: int,
    layout: OutputLayout,
    shard: Shard | None = None,
    original: bool = True,
) -> list[Path]:
    """The files that `write_blocks` will make: `out.1.csv` … `out.m.csv` for `files`, else `out` itself.

    shard     what is written is a shard: the files have its number too, and of a long table each `.imp` is a file, so
              that all of them one after the other, sorted by name, are the whole table
    original  whether a long table begins with `.imp` 0
    """
    if out.name in ("", ".."):
        raise UsageError(f"--out: '{out}' is a folder", "name a file")
    paths = [out]
    if layout == "files":
        stem, suffix = split_name(out)
        if suffix in ("", *CODECS):
            suffix = origin.suffix if not suffix else f".csv{suffix}"
        paths = [out.with_name(f"{stem}.{i}{suffix}") for i in range(1, m + 1)]
    elif shard is not None and layout != "single":
        stem, suffix = split_name(out)
        numbers = range(0 if original else 1, m + 1)
        paths = [out.with_name(f"{stem}.imp-{i:0{len(str(m))}}{suffix}") for i in numbers]
    return paths if shard is None else [shard.named(path) for path in paths]


def refuse_existing(paths: Sequence[Path], *, force: bool) -> None:
    """UsageError when an output exists (unless forced; a link counts, also one to nothing), is a folder, or lies among
    the devices of the system."""
    for path in paths:
        if path.is_dir():
            raise UsageError(f"{path} is a folder", "name a file")
        if (path.exists() and not path.is_file()) or _is_device(path):
            raise UsageError(f"{path} is no file that could be replaced", "name another one; `-` is standard output")
        if os.path.lexists(path) and not force:
            raise UsageError(f"{path} exists", "`--force` overwrites it; `-o` names another")


def _is_device(path: Path) -> bool:
    """Whether a path is one of devices or of processes: a link there (`/dev/stdout`) may end in an ordinary file."""
    parts = path.absolute().parts[1:3]
    return parts[:1] == ("proc",) or (parts[:1] == ("dev",) and parts[1:] != ("shm",))


def refuse_sources(paths: Sequence[Path], sources: Sequence[str], what: str) -> None:
    """UsageError where an output is what it is made of, or would be part of it: files or folders of Parquet, `-`
    aside."""
    read_from = [Path(source).resolve() for source in sources if source != "-" and not is_address(source)]
    for path in paths:
        own = path.resolve()
        if own in read_from:
            raise UsageError(f"{path} is {what}", "name another file")
        if own.parent in read_from and EXTENSIONS.get(_extension(own)) == "parquet":
            raise UsageError(f"{path} would lie in the folder that is {what}", "name a file elsewhere")


def unwritten(path: Path, error: OSError) -> VgiError:
    """What is said where a file, or one of a folder, cannot be written."""
    hint = "free some space or choose another place"
    if error.errno == errno.EFBIG:
        hint = RAISE_LIMIT
    return VgiError(f"cannot write {path}: {error.strerror}", hint)


def write_pieces(path: Path, pieces: Iterable[bytes]) -> None:
    """Write a new file piece by piece and wait until it is on the disk."""
    with open(path, "wb") as file:
        for piece in pieces:
            file.write(piece)
        file.flush()
        os.fsync(file.fileno())


def write_whole(paths: Sequence[Path], contents: Iterable[Iterable[bytes]], *, force: bool) -> None:
    """Write every file, piece by piece, aside and sync it; only when all are written rename them into place. Of a link
    the file that it leads to is written, and the link stays.

    Raises UsageError before anything is written when an output exists and is not forced, VgiError when the disk or the
    permissions fail; then nothing is left behind.
    """
    refuse_existing(paths, force=force)
    links, paths = paths, [Path(os.path.realpath(path)) for path in paths]
    aside = [p.with_name(f".{p.name}.{os.getpid()}.tmp") for p in paths]
    path, made = paths[0], list[Path]()
    try:
        for path, part, pieces in zip(paths, aside, contents, strict=True):
            made += [folder for folder in path.parents if not folder.exists()]
            path.parent.mkdir(parents=True, exist_ok=True)
            write_pieces(part, pieces)
        refuse_existing(links, force=force)  # whoever made one of them meanwhile keeps it
        for path, part in zip(paths, aside, strict=True):
            os.replace(part, path)
        for folder in {p.parent for p in paths}:
            sync_folder(folder)
    except OSError as error:
        raise unwritten(path, error) from None
    finally:
        for part in aside:
            part.unlink(missing_ok=True)
        for folder in sorted(made, reverse=True):  # what lies in a folder comes before it
            with contextlib.suppress(OSError):  # it is not empty, or was not made
                folder.rmdir()
