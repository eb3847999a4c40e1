"""Files that pack a table of CSV and are read, but never written: xz, and zip archives of one file."""

from __future__ import annotations

import lzma
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import BinaryIO, cast

from vgi_cli.errors import InputError

PACKED = (".zip", ".xz")
"""Their extensions."""
_SHOWN = 3
_NOT_CSV = {
    b"PK\x03\x04": "a zip archive or a spreadsheet",
    b"PAR1": "a Parquet file",
    b"\x1f\x8b": "a gzip file",
    b"BZh": "a bzip2 file",
    b"\x28\xb5\x2f\xfd": "a Zstandard file",
    b"\xfd7zXZ\x00": "an xz file",
}


@contextmanager
def unpacked(file: BinaryIO, name: str, label: str) -> Iterator[tuple[BinaryIO, str]]:
    """What a file packs whose name ends in one of PACKED, and the name of that.

    InputError where a zip archive holds no file or several, a file that is no CSV, or one that is encrypted, and where
    what is packed is damaged (also while it is read in this context).
    """
    kind = "zip" if name.endswith(".zip") else "xz"
    try:
        if kind == "xz":
            with lzma.open(file, "rb") as stream:
                yield cast(BinaryIO, stream), name.removesuffix(".xz")
            return
        with zipfile.ZipFile(file) as archive:
            one = _only(archive, label)
            with archive.open(one) as stream:
                begin = stream.read(8)
                what = next((what for magic, what in _NOT_CSV.items() if begin.startswith(magic)), None)
                if what is not None:
                    raise InputError(f"{label}: '{one.filename}' in it is {what}", "unpack it, and name that file")
                stream.seek(0)
                yield cast(BinaryIO, stream), PurePosixPath(one.filename).name.lower()
    except (lzma.LZMAError, zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise InputError(f"{label}: damaged {kind} file ({error})", "pack it again") from None
    except NotImplementedError as error:
        raise InputError(f"{label}: cannot be unpacked ({error})", "unpack it, and name the table in it") from None


def _only(archive: zipfile.ZipFile, label: str) -> zipfile.ZipInfo:
    """The one file that an archive holds, but for folders and what a Mac adds."""
    there = [one for one in archive.infolist() if not one.is_dir()]
    files = [one for one in there if not any(part.startswith((".", "__MACOSX")) for part in one.filename.split("/"))]
    if not files:
        raise InputError(f"{label}: the zip archive holds no table", "expected one file of CSV in it")
    if len(files) > 1:
        names = ", ".join(f"'{one.filename}'" for one in files[:_SHOWN])
        more = f" and {len(files) - _SHOWN} more" if len(files) > _SHOWN else ""
        raise InputError(
            f"{label}: the zip archive holds {len(files)} files: {names}{more}", "unpack it, and name the table"
        )
    if files[0].flag_bits & 1:
        raise InputError(f"{label}: '{files[0].filename}' in it is encrypted", "unpack it, and name that file")
    return files[0]
