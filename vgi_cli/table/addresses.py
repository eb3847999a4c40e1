"""Files that are not on this machine: `s3://`, `gs://` and `hdfs://` addresses, by the file systems of Arrow.

Nothing else in the package opens a socket, but for processes that share a fit (machine/ranks.py), and this only where
such an address is read.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, NamedTuple
from urllib.parse import parse_qs, urlsplit

from vgi_cli.errors import InputError

SCHEMES = ("s3", "gs", "gcs", "hdfs", "viewfs")
DENIED = re.compile(
    r"credential|access.?denied|access.?key|forbidden|signature|unauthori|oauth|\b40[13]\b", re.IGNORECASE
)
"""Words by which a store says that it wants to know who asks."""
CREDENTIALS = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment, or ~/.aws/credentials, say who asks; "
    "AWS_ENDPOINT_URL names another store than Amazon's",
    "gs": "`gcloud auth application-default login`, or GOOGLE_APPLICATION_CREDENTIALS, says who asks",
    "hdfs": "kinit, or HADOOP_USER_NAME, says who asks; reading needs libhdfs (HADOOP_HOME, JAVA_HOME, CLASSPATH)",
}
PATIENCE = 20
"""Seconds for which Google's store is asked again."""


def is_address(path: str | Path) -> bool:
    """Whether a name is an address, and not that of a local file."""
    return not isinstance(path, Path) and re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", path) is not None


def require_address(address: str) -> None:
    """InputError for an address that is not read, that says what nobody else should know, or that would have it sent to
    a server of its own: addresses come from runs and recipes of strangers too. (To s3 only a signature is sent.)"""
    parts = urlsplit(address)
    scheme = parts.scheme.lower()
    if scheme not in SCHEMES:
        raise InputError(
            f"{scheme}://…: addresses of {', '.join(SCHEMES[:3])} and {SCHEMES[3]} are read, not of {scheme}",
            "copy the file here",
        )
    said = parse_qs(parts.query)
    secret = parts.password is not None or (scheme == "s3" and "@" in parts.netloc)
    if secret or any("key" in name or "token" in name for name in said):
        raise InputError(
            f"{scheme}://…: the address holds credentials, which the run would keep",
            f"leave them out: {CREDENTIALS[_store(scheme)]}",
        )
    if _store(scheme) == "gs" and "endpoint_override" in said and parts.username != "anonymous":
        raise InputError(
            f"{scheme}://…: the address names a server of its own, which would be sent an access token of yours",
            f"{scheme}://anonymous@BUCKET/… asks that server without one",
        )


def name_of(path: str | Path) -> Path:
    """The name of a file or an address, as that of a file: `s3://bucket/a/b.csv.gz` -> `b.csv.gz`."""
    if not is_address(path):
        return Path(path)
    parts = urlsplit(str(path))
    return Path(PurePosixPath(parts.path).name or parts.netloc or "table")


class Found(NamedTuple):
    """A file of an address: its path in its file system, and below the address, where that is a folder."""

    system: Any
    path: str
    below: str | None

    @property
    def name(self) -> str:
        """Its name."""
        return PurePosixPath(self.path).name

    @property
    def size(self) -> int:
        """Its bytes, as they are stored."""
        return int(self.system.get_file_info(self.path).size)

    def stream(self) -> BinaryIO:
        """Its bytes, front to back, as they are stored."""
        stream: BinaryIO = self.system.open_input_stream(self.path, compression=None)
        return stream


def look(address: str) -> list[Found]:
    """The file, or the files below, in no order. InputError where nothing is there, or nobody may look."""
    require_address(address)
    from pyarrow import fs

    asked = address
    if _store(urlsplit(address).scheme.lower()) == "gs" and "retry_limit_seconds" not in address:
        asked += f"{'&' if '?' in address else '?'}retry_limit_seconds={PATIENCE}"
    with address_errors(address):
        system, path = fs.FileSystem.from_uri(asked)
        info = system.get_file_info(path)
        if info.type == fs.FileType.NotFound:
            raise InputError(f"{address}: no such file or folder", "check its spelling")
        if info.type != fs.FileType.Directory:
            return [Found(system, path, None)]
        inside = system.get_file_info(fs.FileSelector(path, recursive=True))
        base = PurePosixPath(path)
        files = [one.path for one in inside if one.type == fs.FileType.File]
        return [Found(system, file, str(PurePosixPath(file).relative_to(base))) for file in files]


@contextmanager
def address_errors(address: str) -> Iterator[None]:
    """What a store says as InputError."""
    import pyarrow as pa  # `vgi --help` waits for what is loaded with this file

    try:
        yield
    except (OSError, pa.ArrowException) as error:
        reason = " ".join(str(error).split())[:200]
        hint = CREDENTIALS[_store(urlsplit(address).scheme.lower())]
        if not DENIED.search(reason):
            hint = f"check the address and the network; {hint}"
        raise InputError(f"{address}: cannot be read ({reason})", hint) from None


def _store(scheme: str) -> str:
    return {"gcs": "gs", "viewfs": "hdfs"}.get(scheme, scheme)


class Section(io.RawIOBase):
    """Some consecutive bytes of a file, as a file; every one has a position of its own."""

    def __init__(self, file: BinaryIO, begin: int, size: int) -> None:
        super().__init__()
        self._file, self._begin, self._size, self._at = file, begin, size, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = max(0, offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence])
        return self._at

    def readinto(self, buffer: Any) -> int:
        wanted = max(0, min(len(buffer), self._size - self._at))
        data = os.pread(self._file.fileno(), wanted, self._begin + self._at)
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)

    def again(self) -> BinaryIO:
        """The same bytes as a file that stands at their start."""
        return io.BufferedReader(Section(self._file, self._begin, self._size))
