"""Text on a terminal: what could move its cursor, recolour it or turn the reading order round is shown as its code.

Names of columns, cells and files come from strangers. All that the program says goes through `visible` (stderr and the
log always, reports on stdout always); what it writes to stdout exactly as it is (tables, paths) does so where stdout is
no terminal.
"""

from __future__ import annotations

import codecs
import contextlib
import io
import re
import sys
from collections.abc import Iterator
from typing import Any, TextIO

UNSEEN = re.compile(
    "\r(?!\n)|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""Control characters but tab, line feed and the carriage return before one, marks of the reading order, and halves of
characters."""


def visible(text: str) -> str:
    r"""The same text with each of UNSEEN as `\u001b`, which means the character itself in JSON too."""
    return UNSEEN.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


class _Bytes(io.BufferedIOBase):
    """The bytes of a terminal: UTF-8 that is made visible."""

    def __init__(self, terminal: TextIO) -> None:
        self._terminal = terminal
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._terminal.write(visible(self._decoder.decode(bytes(data))))
        return len(data)

    def flush(self) -> None:
        self._terminal.flush()


class Shown(io.TextIOBase):
    """stdout where it is a terminal: all text and all bytes are made visible."""

    def __init__(self, terminal: TextIO) -> None:
        self._terminal = terminal
        self._buffer = _Bytes(terminal)

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._terminal.encoding

    @property
    def buffer(self) -> io.BufferedIOBase:
        """Takes bytes."""
        return self._buffer

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._terminal.fileno()

    def write(self, text: str) -> int:
        self._terminal.write(visible(text))
        return len(text)

    def flush(self) -> None:
        self._terminal.flush()


class Unheard(io.TextIOBase):
    """A stream that may fail (its reader has gone, its disk is full): what it cannot take is lost, and work goes on."""

    def __init__(self, stream: TextIO) -> None:
        self._below = stream

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._below.encoding

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return self._below.isatty()

    def fileno(self) -> int:
        return self._below.fileno()

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError):
            self._below.write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            self._below.flush()


@contextlib.contextmanager
def shown_stdout() -> Iterator[None]:
    """Where stdout is a terminal, what is printed in this context is made visible."""
    if not sys.stdout.isatty():
        yield
        return
    with contextlib.redirect_stdout(Shown(sys.stdout)):
        yield
