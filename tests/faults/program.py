"""Commands of vgi with faults at the calls that change files: `Program` builds files.c and starts server.py."""

from __future__ import annotations

import errno
import itertools
import json
import os
import shutil
import subprocess
import sys
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple, Self

ROOT = Path(__file__).parents[2]
SOURCE = Path(__file__).with_name("files.c")


class Action(IntEnum):
    """What happens at a call (see files.c)."""

    COUNT = 0
    KILL = 1
    POWER = 2
    FAIL = 3
    LASTING = 4
    SHORT = 5


class Done(NamedTuple):
    """Exit code (minus the signal), what was said, and the calls that were counted (0 after a kill)."""

    code: int
    out: str
    err: str
    calls: int


class Fault(NamedTuple):
    """`action` at the call number `at` (from 1; 0: none) with this errno; killed after so many seconds anyway; `room`:
    bytes of memory that the process may map beyond those that it has at its start (None: as many as there are)."""

    at: int = 0
    action: Action = Action.COUNT
    error: int = errno.EIO
    seconds: float = 120.0
    room: int | None = None


NONE = Fault()


def can_build() -> bool:
    """Whether faults can be made here: a C compiler and Linux's dynamic linker."""
    return sys.platform == "linux" and shutil.which("cc") is not None


class Program:
    """A server of commands."""

    def __init__(self, work: Path) -> None:
        """`work`: a folder for what it needs itself; commands run elsewhere."""
        self.work = work
        library = work / "files.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, SOURCE, "-ldl"], check=True)
        self._number = itertools.count()
        environment = {**os.environ, "LD_PRELOAD": str(library), "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
        self._server = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            cwd=ROOT,
        )
        assert self._answer() == "ready"

    def _answer(self) -> str:
        assert self._server.stdout is not None
        return self._server.stdout.readline().strip()

    def __call__(self, folder: Path, *argv: str | Path, fault: Fault = NONE, in_files: bool = False) -> Done:
        """Run a command in a folder; `in_files`: no table fits into the memory that `--max-memory` allows."""
        assert self._server.stdin is not None
        number = next(self._number)
        names = {name: str(self.work / f"{number}.{name}") for name in ("out", "err", "calls")}
        order = {"folder": str(folder.resolve()), "argv": [str(word) for word in argv], "in_files": in_files}
        order |= fault._asdict() | names
        print(json.dumps(order), file=self._server.stdin, flush=True)
        code = json.loads(self._answer())
        out, err, calls = (
            Path(name).read_text(errors="replace") if Path(name).exists() else "" for name in names.values()
        )
        for name in names.values():
            Path(name).unlink(missing_ok=True)
        return Done(code, out, err, int(calls or 0))

    def close(self) -> None:
        """End the server."""
        assert self._server.stdin is not None
        self._server.stdin.close()
        self._server.wait()
        assert self._server.stdout is not None
        self._server.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
