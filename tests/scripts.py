"""The scripts of benchmarks/, run inside the process of the tests: a new one takes seconds to start."""

from __future__ import annotations

import importlib
import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


class Done(NamedTuple):
    """Exit status and what was printed."""

    code: int
    out: str
    err: str


def module(name: str) -> ModuleType:
    """A module of benchmarks/."""
    if str(BENCHMARKS) not in sys.path:
        sys.path.append(str(BENCHMARKS))
    return importlib.import_module(name)


def script(name: str, *arguments: object) -> Done:
    """Run `python benchmarks/NAME.py ARGUMENTS`."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    with redirect_stdout(out), redirect_stderr(err):
        try:
            module(name).main(list(map(str, arguments)))
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 1
            if isinstance(stop.code, str):
                print(stop.code, file=sys.stderr)
    return Done(code, out.getvalue(), err.getvalue())
