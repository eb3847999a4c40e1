"""The files of a table as bytes that can be read again and again, whole or a piece at a time."""

from __future__ import annotations

import gzip
import hashlib
import os
import sys
import tempfile
import weakref
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Literal, NamedTuple, cast

from vgi_cli.errors import InputError, UsageError, VgiError, nearest_file

PARQUET = (".parquet", ".pq", ".parq")
STANDARD_INPUT = "standard input"
PIECE = 1 << 20
Format = Literal["csv", "parquet"]


class Origin(NamedTuple):
    """What is known of a table without its cells.

    stem    the file's name without folder and extensions, for names of outputs
    suffix  its extensions (`.csv`, `.tsv.gz`, `.parquet`)
    label   the file's name, for messages
    sha256  hash of the data: contents of the files in order, mask and extra missing tokens
    format  what the table was read from
    names   column names, in file order (an index column may have the empty name)
    N       number of rows
    """

    stem: str
    suffix: str
    label: str = ""
    sha256: str = ""
    format: Format = "csv"
    names: tuple[str, ...] = ()
    N: int = 0


class TableFile:
    """One file of a table, decompressed.

    label      its name, for messages
    parquet    whether it is Parquet
    delimiter  of its cells, where it is CSV
    """

    def __init__(self, label: str, parquet: bool, delimiter: str, path: Path | None, copy: BinaryIO | None) -> None:
        """`copy`: a temporary file with the bytes, where the path's own are compressed or cannot be read twice."""
        self.label, self.parquet, self.delimiter = label, parquet, delimiter
        self._path, self._copy = path, copy
        if copy is not None:
            weakref.finalize(self, copy.close)
        with self.open() as file:
            self._state = _state(file)

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """The bytes from the start."""
        if self._copy is not None:
            self._copy.seek(0)
            yield self._copy
        else:
            with open(cast(Path, self._path), "rb") as file:
                yield file

    def read(self) -> bytes:
        """All bytes."""
        with self.open() as file:
            return file.read()

    def hash_into(self, digest: hashlib._Hash) -> None:
        """Add length and bytes."""
        with self.open() as file:
            digest.update(os.fstat(file.fileno()).st_size.to_bytes(8, "little"))
            while piece := file.read(PIECE):
                digest.update(piece)

    def require_unchanged(self) -> None:
        """InputError when the file is no longer the one that was opened."""
        with self.open() as file:
            same = _state(file) == self._state
        if not same:
            raise InputError(f"{self.label}: changed while it was being read", "start again when nothing writes to it")


class TableFiles(NamedTuple):
    """The files of a table, in order, of its mask if there is one, and its origin as far as it is known unread."""

    files: Sequence[TableFile]
    mask: TableFile | None
    na_values: Sequence[str]
    origin: Origin
    decimal: str = "."

    @classmethod
    def of(cls, file: TableFile) -> TableFiles:
        """One file by itself."""
        return cls([file], None, (), Origin("", "", file.label))

    @property
    def parquet(self) -> bool:
        """Whether they are Parquet. InputError where only some are."""
        if len({file.parquet for file in self.files}) > 1:
            raise InputError("CSV and Parquet files cannot be joined into one table", "convert one of them")
        return self.files[0].parquet


def _state(file: BinaryIO) -> tuple[int, int, int]:
    status = os.fstat(file.fileno())
    return status.st_ino, status.st_size, status.st_mtime_ns


def find_files(paths: Sequence[str | Path], delimiter: str | None, stdin: BinaryIO | None = None) -> list[TableFile]:
    """The files that are one table: folders of Parquet are searched, `-` is copied from standard input.

    Raises InputError for a file that is not there, empty or damaged, UsageError for a bad `-`.
    """
    if any(str(p) == "-" for p in paths):
        if len(paths) > 1:
            raise UsageError("- (standard input) cannot be joined with other files", "pass - alone")
        copy = copied(sys.stdin.buffer if stdin is None else stdin)
        if copy.read(4) == b"PAR1":
            copy.close()
            raise InputError(f"{STANDARD_INPUT}: Parquet cannot be read from a pipe", "pass the file's path")
        return [TableFile(STANDARD_INPUT, False, delimiter or ",", None, copy)]
    files: list[Path] = []
    for path in map(Path, paths):
        if path.is_dir():
            inside = sorted(p for p in path.rglob("[!._]*") if p.suffix.lower() in PARQUET)
            if not inside:
                raise InputError(f"{path}: the folder holds no Parquet file", "expected files that end in .parquet")
            files += inside
        else:
            files.append(path)
    return [_file(path, delimiter) for path in files]


def require_files(paths: Sequence[str | Path]) -> None:
    """InputError for a file of a table that is not there, cannot be read or is empty, as `find_files` raises it: before
    anything costly is loaded. Folders and `-` are not looked at."""
    for path in map(Path, paths):
        if str(path) != "-" and not path.is_dir():
            _begin(path)


def rough_size(paths: Sequence[Path]) -> int:
    """Bytes of the files of a table on this machine, as they lie there; 0 for what is no file here."""
    inside = [file for path in paths for file in (path.rglob("*") if path.is_dir() else [path])]
    return sum(file.stat().st_size for file in inside if file.is_file())


def stem_of(path: Path) -> tuple[str, str]:
    """Name and extensions of a table, for its outputs: `a/b.c.csv.gz` -> (`b.c`, `.csv.gz`); a folder is Parquet, `-`
    is (`stdin`, `.csv`), other extensions stay part of the name."""
    if str(path) == "-":
        return "stdin", ".csv"
    if path.is_dir():
        return path.resolve().name, ".parquet"
    stem, suffix = split_name(path)
    return stem, f".csv{suffix}" if suffix.lower() in ("", ".gz") else suffix


def split_name(path: Path) -> tuple[str, str]:
    """`b.c.csv.gz` -> (`b.c`, `.csv.gz`): the name without its extension, and the extension (may be empty)."""
    name, gz = (path.name[:-3], path.name[-3:]) if path.name.lower().endswith(".gz") else (path.name, "")
    stem, dot, extension = name.rpartition(".")
    return (stem, f".{extension}{gz}") if dot and stem else (name, gz)


def _begin(path: Path) -> bytes:
    """The first two bytes of a file. InputError where there are none."""
    try:
        with path.open("rb") as file:
            begin = file.read(2)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file", nearest_file(path)) from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})", "check the path and its permissions") from None
    if not begin:
        raise InputError(f"{path.name}: the file is empty", "expected a header with column names, then rows")
    return begin


def _file(path: Path, delimiter: str | None) -> TableFile:
    begin = _begin(path)
    name = path.name.lower()
    if name.endswith(PARQUET):
        return TableFile(path.name, True, "", path, None)
    delimiter = delimiter or ("\t" if name.removesuffix(".gz").endswith(".tsv") else ",")
    if not name.endswith(".gz") and begin != b"\x1f\x8b":
        return TableFile(path.name, False, delimiter, path, None)
    try:
        with gzip.open(path, "rb") as file:
            return TableFile(path.name, False, delimiter, None, copied(cast(BinaryIO, file)))
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"{path.name}: damaged gzip file ({error})", "compress it again") from None


def copied(file: BinaryIO) -> BinaryIO:
    """What is left of a file, in a temporary one that stands at its start."""
    copy = scratch()
    try:
        while piece := file.read(PIECE):
            with scratch_errors():
                copy.write(piece)
        with scratch_errors():
            copy.seek(0)
    except BaseException:
        copy.close()
        raise
    return copy


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
