"""The one place where the version is written; and where a run comes from, for its manifest: the command line and the
versions of what made it."""

from __future__ import annotations

import platform
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from vgi_cli.fast import numba_version

__version__ = "0.1.0"

LIBRARIES = ("torch", "numpy", "pyarrow")

_argv: ContextVar[list[str] | None] = ContextVar("argv", default=None)


@contextmanager
def said(argv: Sequence[str]) -> Iterator[None]:
    """Within this context runs are made by a command line: its words after the program's name. Of a plugin a run has
    the name of the file only (see plugins.py)."""
    words = [word.encode("utf-8", "backslashreplace").decode() for word in argv]
    for number, word in enumerate(words):
        flag, equals, path = word.partition("=")
        if flag == "--plugin" and equals:
            words[number] = f"--plugin={Path(path).name}"
        elif number and words[number - 1] == "--plugin":
            words[number] = Path(word).name
    token = _argv.set(words)
    try:
        yield
    finally:
        _argv.reset(token)


def command_line() -> str | None:
    """The command line as it would be typed; None in Python."""
    words = _argv.get()
    return None if words is None else shlex.join(["vgi", *words])


def provenance() -> dict[str, Any]:
    """`argv`, None for a run that was made in Python, and `versions`, with numba's where it compiles (`fast.py`)."""
    from importlib.metadata import version  # a command that makes no run does without it

    versions = {"vgi": __version__, "python": platform.python_version()}
    versions |= {name: version(name) for name in LIBRARIES}
    if (numba := numba_version()) is not None:
        versions["numba"] = numba
    return {"argv": _argv.get(), "versions": versions}
