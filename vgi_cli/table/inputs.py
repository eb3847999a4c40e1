"""The files of a table as bytes that can be read again and again, whole or a piece at a time."""

from __future__ import annotations

import errno
import gzip
import hashlib
import os
import sys
import tempfile
import weakref
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import BinaryIO, Literal, NamedTuple, cast

from vgi_cli.errors import InputError, TooLarge, UsageError, VgiError, nearest_file
from vgi_cli.ranges import FREE_EXPANSION, MOST_EXPANSION, MOST_ROW
from vgi_cli.table.addresses import Found, Section, address_errors, is_address, look, name_of, require_address
from vgi_cli.table.formats import LOOKED_AT, refuse_formats
from vgi_cli.table.packed import PACKED, unpacked
from vgi_cli.table.partitions import Partition, hidden, partitions

PARQUET = (".parquet", ".pq", ".parq")
CODECS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
"""Extensions of compressed CSV, and what Arrow calls that."""
_UNPACK = "unpack it, or save it as CSV or Parquet"
OTHERS = {
    b"PK\x03\x04": ("a zip archive or a spreadsheet", f"{_UNPACK}; an archive of one CSV may be called .zip"),
    b"\xfd7zXZ\x00": ("an xz file", "call it .csv.xz if it holds CSV"),
    b"7z\xbc\xaf\x27\x1c": ("a 7z archive", _UNPACK),
    b"BZh": ("a bzip2 file", "call it .csv.bz2 if it holds CSV"),
    b"\x28\xb5\x2f\xfd": ("a Zstandard file", "call it .csv.zst if it holds CSV"),
}
"""What files begin with that are not read under such a name: what they are, and what helps."""
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
    of_folder  whether it was found in a folder
    partition  what the names of its folders say, where they say something
    """

    of_folder = False
    partition: Partition | None = None
    shared: object = None
    """What keeps the temporary file open that `copy` is a section of."""

    def __init__(
        self, label: str, parquet: bool, delimiter: str, path: Path | None, copy: BinaryIO | Section | None
    ) -> None:
        """`copy`: a temporary file with the bytes, or some bytes of one, where the path's own are compressed, lie on
        another machine or cannot be read twice."""
        self.label, self.parquet, self.delimiter = label, parquet, delimiter
        self._path, self._copy = path, copy
        if copy is not None and not isinstance(copy, Section):
            weakref.finalize(self, copy.close)
        self._state = (0, 0, 0)
        if copy is None:
            with self.open() as file:
                self._state = _state(file)

    @contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """The bytes from the start."""
        if isinstance(self._copy, Section):
            with self._copy.again() as file:
                yield file
        elif self._copy is not None:
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
        """Add length and bytes, and what the names of its folders say. TooLarge where a line of CSV is longer than a
        row may be."""
        if self.partition is not None:
            digest.update(repr((self.partition.types.names, self.partition.values)).encode())
        line = 0
        with self.open() as file:
            digest.update(file.seek(0, os.SEEK_END).to_bytes(8, "little"))
            file.seek(0)
            while piece := file.read(PIECE):
                digest.update(piece)
                end = max(piece.rfind(b"\n"), piece.rfind(b"\r"))
                line = line + len(piece) if end < 0 else len(piece) - end - 1
                if line > MOST_ROW and not self.parquet:
                    raise TooLarge(
                        f"{self.label}: a line is longer than {MOST_ROW >> 20} MiB", "is this a table with line ends?"
                    )

    def require_unchanged(self) -> None:
        """InputError when the file is no longer the one that was opened."""
        if self._copy is not None:
            return
        with self.open() as file:
            same = _state(file) == self._state
        if not same:
            raise InputError(f"{self.label}: changed while it was being read", "start again when nothing writes to it")


class TableFiles(NamedTuple):
    """The files of a table, in order, of its mask if there is one, and its origin as far as it is known unread; how
    cells are read: `na_values`, `decimal` and `levels` as of `read_table`."""

    files: Sequence[TableFile]
    mask: TableFile | None
    na_values: Sequence[str]
    origin: Origin
    decimal: str = "."
    levels: Mapping[str, Collection[str]] = MappingProxyType({})

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
        _refuse_formats(copy, STANDARD_INPUT)
        return [TableFile(STANDARD_INPUT, False, delimiter or ",", None, copy)]
    files: list[TableFile] = []
    for path in paths:
        if is_address(path):
            files += _fetched(str(path), delimiter)
        elif Path(path).is_dir():
            inside = sorted(p for p in Path(path).rglob("*") if p.suffix.lower() in PARQUET and p.is_file())
            below = [one.relative_to(path).as_posix() for one in inside]
            files += _of_folder(
                str(path), [(label, partial(_file, one, None, label)) for label, one in zip(below, inside, strict=True)]
            )
        else:
            files.append(_file(Path(path), delimiter))
    return files


def _of_folder(folder: str, inside: Sequence[tuple[str, Callable[[], TableFile]]]) -> list[TableFile]:
    """The files of a folder, by their paths below it. InputError where it holds none, or folders of several tables."""
    wanted = [(below, opened) for below, opened in inside if not hidden(below)]
    if inside and not wanted:
        raise InputError(
            f"{folder}: its Parquet files are left out: '{inside[0][0]}' begins with _ or ., or lies in such a folder",
            "rename it: such names are for files that programs keep for themselves",
        )
    if not wanted:
        raise InputError(f"{folder}: the folder holds no Parquet file", "expected files that end in .parquet")
    files = [opened() for _, opened in wanted]
    said = partitions([below for below, _ in wanted], folder)
    for i, file in enumerate(files):
        file.of_folder, file.partition = True, None if said is None else said[i]
    return files


def _fetched(address: str, delimiter: str | None) -> list[TableFile]:
    """The files of an address, copied to one temporary file."""
    import pyarrow as pa  # `vgi --help` waits for what is loaded with this file

    found = look(address)
    if found[0].below is None:
        if not split_name(name_of(address))[1]:
            raise InputError(
                f"{address}: a file without an extension", "files end in .csv, .tsv or .parquet; folders are of Parquet"
            )
    else:
        found = [one for one in found if PurePosixPath(one.path).suffix.lower() in PARQUET]
        found = sorted((one for one in found if one.below), key=lambda one: PurePosixPath(str(one.below)))
    shared = _Shared(scratch())

    def fetch(one: Found, label: str) -> TableFile:
        name = one.name.lower()
        parquet = name.endswith(PARQUET)
        with address_errors(address), closing(one.stream()) as stream:
            codec = next((codec for suffix, codec in CODECS.items() if name.endswith(suffix)), None)
            if name.endswith(PACKED):
                with copied(stream) as packed, unpacked(packed, name, label) as (inside, name):
                    copy = shared.add(inside, _expanding(label, one.size))
            elif codec is None:
                copy = shared.add(stream)
            else:
                copy = shared.add(pa.CompressedInputStream(stream, codec), _expanding(label, one.size))
        if copy.seek(0, os.SEEK_END) == 0:
            raise InputError(f"{label}: the file is empty", "expected a header with column names, then rows")
        if not parquet:
            _refuse_formats(copy, label)
        file = TableFile(label, parquet, "" if parquet else delimiter or delimiter_of(name), None, copy)
        file.shared = shared
        return file

    if len(found) == 1 and found[0].below is None:
        return [fetch(found[0], found[0].name)]
    return _of_folder(address, [(str(one.below), partial(fetch, one, str(one.below))) for one in found])


class _Shared:
    """A temporary file that holds several files, one after the other."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._end = file, 0
        weakref.finalize(self, file.close)

    def add(self, stream: BinaryIO, check: Callable[[int], None] = lambda size: None) -> Section:
        """What is left of a stream, as a section of the file; `check` is told its size as it grows."""
        begin = self._end
        while piece := stream.read(PIECE):
            check(self._end - begin + len(piece))
            with scratch_errors():
                self._file.seek(self._end)
                self._file.write(piece)
            self._end += len(piece)
        with scratch_errors():
            self._file.flush()
        return Section(self._file, begin, self._end - begin)


def require_files(paths: Sequence[str | Path]) -> None:
    """InputError for a file of a table that is not there, cannot be read or is empty, as `find_files` raises it: before
    anything costly is loaded. Folders and `-` are not looked at, nor is what lies at addresses."""
    for path in paths:
        if is_address(path):
            require_address(str(path))
        elif str(path) != "-" and not Path(path).is_dir():
            _begin(Path(path))


def rough_size(paths: Sequence[str | Path]) -> int:
    """Bytes of the files of a table, as they are stored; 0 for what is neither a file here nor an address. InputError
    for an address that cannot be read."""
    far = sum(found.size for path in paths if is_address(path) for found in look(str(path)))
    here = [Path(path) for path in paths if not is_address(path)]
    inside = [file for path in here for file in (path.rglob("*") if path.is_dir() else [path])]
    return far + sum(file.stat().st_size for file in inside if file.is_file())


def stem_of(path: str | Path) -> tuple[str, str]:
    """Name and extensions of a table, for its outputs: `a/b.c.csv.gz` -> (`b.c`, `.csv.gz`); a folder is Parquet, and
    so is an address without an extension; `-` is (`stdin`, `.csv`), `.zip` and `.xz` are left out, other extensions
    stay part of the name."""
    if str(path) == "-":
        return "stdin", ".csv"
    if not is_address(path) and Path(path).is_dir():
        return Path(path).resolve().name, ".parquet"
    named = name_of(path)
    packed = named.suffix if named.suffix.lower() in PACKED and named.stem else ""
    stem, suffix = split_name(named.with_name(named.name.removesuffix(packed)))
    if packed:  # they are read, and not written
        return stem, suffix or ".csv"
    if is_address(path) and not suffix:
        return stem, ".parquet"
    return stem, f".csv{suffix}" if suffix.lower() in ("", *CODECS) else suffix


def split_name(path: Path) -> tuple[str, str]:
    """`b.c.csv.gz` -> (`b.c`, `.csv.gz`): the name without its extension, and the extension (may be empty)."""
    packed = path.suffix if path.suffix.lower() in CODECS and path.stem else ""
    name = path.name.removesuffix(packed)
    stem, dot, extension = name.rpartition(".")
    return (stem, f".{extension}{packed}") if dot and stem else (name, packed)


def _begin(path: Path) -> bytes:
    """The first bytes of a file. InputError where there are none."""
    if path.is_fifo():
        raise InputError(
            f"{path}: a pipe, and files are read more than once",
            "write it to a file, or give the table as - (standard input): `zcat data.gz | vgi fit -`",
        )
    try:
        with path.open("rb") as file:
            begin = file.read(LOOKED_AT)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file", nearest_file(path)) from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})", "check the path and its permissions") from None
    if not begin:
        raise InputError(f"{path.name}: the file is empty", "expected a header with column names, then rows")
    if not path.name.lower().endswith(PARQUET):
        refuse_formats(begin, path.name, str(path))
    return begin


def _refuse_formats(copy: BinaryIO | Section, label: str, path: str | None = None) -> None:
    """InputError where a temporary file holds no text, but a file of another program; `path`: what was unpacked."""
    copy.seek(0)
    begin = copy.read(LOOKED_AT)
    copy.seek(0)
    try:
        refuse_formats(begin, label, path, packed=True)
    except InputError:
        copy.close()
        raise


def delimiter_of(name: str) -> str:
    """What stands between the cells of a file of that name, where nobody said it."""
    return "\t" if split_name(Path(name))[1].startswith(".tsv") else ","


def _file(path: Path, delimiter: str | None, label: str | None = None) -> TableFile:
    import pyarrow as pa

    begin = _begin(path)
    name = path.name.lower()
    if name.endswith(PARQUET):
        return TableFile(label or path.name, True, "", path, None)
    if name.endswith(PACKED):
        check = _expanding(path.name, path.stat().st_size)
        with path.open("rb") as file, unpacked(file, name, path.name) as (stream, inside):
            copy = copied(stream, check)
            if copy.seek(0, os.SEEK_END) == 0:
                copy.close()
                raise InputError(f"{path.name}: the file in it is empty", "expected a header, then rows")
            _refuse_formats(copy, path.name)
            return TableFile(path.name, False, delimiter or delimiter_of(inside), None, copy)
    delimiter = delimiter or delimiter_of(name)
    codec = CODECS.get(path.suffix.lower(), "gzip" if begin.startswith(b"\x1f\x8b") else None)
    if codec is None:
        for magic, (what, hint) in OTHERS.items():
            if begin.startswith(magic):
                raise InputError(f"{path.name}: {what}, not a table", hint)
        return TableFile(path.name, False, delimiter, path, None)
    check = _expanding(path.name, path.stat().st_size)
    try:
        if codec == "gzip":
            with gzip.open(path, "rb") as zipped:
                copy = copied(cast(BinaryIO, zipped), check)
        else:
            with pa.CompressedInputStream(str(path), codec) as stream:
                copy = copied(stream, check)
    except (gzip.BadGzipFile, EOFError, zlib.error, OSError, pa.ArrowException) as error:
        raise InputError(f"{path.name}: damaged {codec} file ({error})", "compress it again") from None
    _refuse_formats(copy, path.name, str(path))
    return TableFile(path.name, False, delimiter, None, copy)


def _expanding(label: str, size: int) -> Callable[[int], None]:
    """Takes how many bytes a compressed file of `size` bytes has come to. TooLarge where these are more than any
    table's."""

    def check(expanded: int) -> None:
        if expanded > max(FREE_EXPANSION, MOST_EXPANSION * size):
            raise TooLarge(
                f"{label}: its {size:,} bytes expand to more than {max(FREE_EXPANSION, MOST_EXPANSION * size):,}",
                "if it is meant, decompress it and give that file",
            )

    return check


def copied(file: BinaryIO, check: Callable[[int], None] = lambda size: None) -> BinaryIO:
    """What is left of a file, in a temporary one that stands at its start; `check` is told its size as it grows."""
    copy = scratch()
    size = 0
    try:
        while piece := file.read(PIECE):
            size += len(piece)
            check(size)
            with scratch_errors():
                copy.write(piece)
        with scratch_errors():
            copy.seek(0)
    except BaseException:
        copy.close()
        raise
    return copy


@contextmanager
def scratch_errors(near: Path | None = None) -> Iterator[None]:
    """VgiError where a temporary file cannot be written that is, or is to be, made by `scratch(near)`."""
    try:
        yield
    except OSError as error:
        where = "" if near is None else f" ('{_home(near)}')"
        if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
            by = "in TMPDIR" if near is None else "with --out"
            hint = f"name a folder that can be written {by}"
        else:
            larger = "name a larger folder in TMPDIR" if near is None else "choose a folder on a larger disk with --out"
            hint = f"free some space, or {larger}"
        raise VgiError(f"cannot write a temporary file: {error.strerror or error}{where}", hint) from None


def scratch(near: Path | None = None) -> BinaryIO:
    """An empty file to write and read: in the nearest folder above `near` that exists, else where TMPDIR says."""
    with scratch_errors(near):
        return cast(BinaryIO, tempfile.TemporaryFile(dir=None if near is None else _home(near)))


def _home(near: Path) -> Path:
    """The nearest folder above a path that exists."""
    return next(parent for parent in near.absolute().parents if parent.is_dir())
