"""Where a run comes from: the command line and the versions, for its manifest."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from vgi_cli.version import __version__

LIBRARIES = ("torch", "numpy", "pyarrow")

_argv: ContextVar[list[str] | None] = ContextVar("argv", default=None)


@contextmanager
def said(argv: Sequence[str]) -> Iterator[None]:
    """Within this context runs are made by a command line: its words after the program's name."""
    token = _argv.set([word.encode("utf-8", "backslashreplace").decode() for word in argv])
    try:
        yield
    finally:
        _argv.reset(token)


def provenance() -> dict[str, Any]:
    """`argv`, none for a run that was made in Python, and `versions`."""
    from importlib.metadata import version  # a command that makes no run does without it

    versions = {"vgi": __version__, "python": platform.python_version()}
    return {"argv": _argv.get(), "versions": versions | {name: version(name) for name in LIBRARIES}}
