"""An input of the program: files in an empty folder and the commands that are run there, as JSON too (`corpus/`)."""

from __future__ import annotations

import base64
import contextlib
import json
import shutil
import signal
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from tests.fuzz.runs import seal
from tests.fuzz.trial import Wrong, call

CORPUS = Path(__file__).parent / "corpus"
"""Inputs that once ended badly."""
LIMIT = 60
"""Seconds that an input may take."""
TABLE = (
    "a,b,c,d\n"
    + "\n".join(
        f"{i % 7},{'' if i % 5 == 0 else i * i % 11 / 2},{'' if i % 6 == 1 else 'xyz'[i % 3]},{i % 4 + 0.5}"
        for i in range(24)
    )
    + "\n"
)
"""A table with two columns that have holes, one of them of levels."""
MASK = "a,b,c,d\n" + "".join(f"1,1,{int(i % 4 != 2)},{int(i % 9 != 1)}\n" for i in range(24))
MIXTURE = ("--model", "mixture", "--set", "model.components=1", "--set", "bootstrap=none", "--threads", "1")
GRADIENTS = (
    *("--model", "flow", "--method", "vgi", "--epochs", "1", "--threads", "1", "--set", "model.steps=1"),
    *("--set", "optim.warmup_conditionals=1", "--set", "optim.warmup_model=1", "--set", "bootstrap=none"),
    *("--set", "method.trunk=[4]", "--set", "method.hidden=[4]", "--set", "method.imputations=2"),
)
RUNS = {"run": ("fit", "t.csv", *MIXTURE, "--out", "run"), "deep": ("fit", "t.csv", *GRADIENTS, "--out", "deep")}
"""Runs of every kind of file, and how they are fitted."""


class Hang(BaseException):
    """An input took longer than LIMIT: no `except Exception` of the program keeps it."""


@dataclass(frozen=True)
class Input:
    """What is tried.

    about     what it is, or once did
    commands  command lines, in turn
    files     name -> bytes, besides those of `base`
    sealed    whether the manifest of `run` vouches for those of them that lie there
    base      whether there are a table (t.csv, t.parquet), its mask (m.csv) and two runs of it (run, deep)
    stdin     what `-` reads
    ends      exit codes that the commands must have; empty: 0, 1, 2 or 3
    """

    about: str
    commands: Sequence[Sequence[str]]
    files: Mapping[str, bytes] = field(default_factory=dict)
    sealed: bool = False
    base: bool = False
    stdin: bytes = TABLE.encode()
    ends: Sequence[int] = ()

    def attempt(self) -> str:
        """Run the commands; how the last one ended. Raises Wrong."""
        with folder(self.base) as here:
            for name, data in self.files.items():
                place = here / name
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(data)
            if self.sealed:
                seal(here / "run")
            said = "done"
            for number, command in enumerate(self.commands):
                done = call(command, self.stdin)
                if self.ends and done.code != self.ends[number]:
                    raise Wrong(f"{self.about}: {' '.join(command)}: {done.code}, not {self.ends[number]}\n{done.err}")
                said = "done" if done.code in (0, 3) else done.err
            return said

    def to_json(self) -> str:
        """The text of a file of the corpus."""
        values: dict[str, Any] = {"about": self.about, "commands": [list(c) for c in self.commands]}
        values |= {"files": {name: _text_of(data) for name, data in self.files.items()}} if self.files else {}
        values |= {name: True for name in ("sealed", "base") if getattr(self, name)}
        values |= {"stdin": _text_of(self.stdin)} if self.stdin != TABLE.encode() else {}
        values |= {"ends": list(self.ends)} if self.ends else {}
        return json.dumps(values, indent=1, ensure_ascii=True) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Input:
        """The input that `to_json` wrote."""
        values = json.loads(text)
        files = {name: _bytes_of(data) for name, data in values.pop("files", {}).items()}
        stdin = _bytes_of(values.pop("stdin")) if "stdin" in values else TABLE.encode()
        return cls(**values, files=files, stdin=stdin)


def _text_of(data: bytes) -> str | dict[str, str]:
    with contextlib.suppress(UnicodeDecodeError):
        return data.decode()
    return {"base64": base64.b64encode(data).decode()}


def _bytes_of(value: str | dict[str, str]) -> bytes:
    return value.encode() if isinstance(value, str) else base64.b64decode(value["base64"])


@contextlib.contextmanager
def folder(base: bool) -> Iterator[Path]:
    """An empty folder as the working folder, or one with a table, its mask and runs of it; `..` is empty too."""
    with tempfile.TemporaryDirectory() as above:
        here = Path(above) / "in"
        shutil.copytree(_prepared(), here) if base else here.mkdir()
        with contextlib.chdir(here):
            yield here


@cache
def _prepared() -> Path:
    """The folder that is copied; it stays until the process ends."""
    keep = tempfile.TemporaryDirectory()
    _KEPT.append(keep)
    here = Path(keep.name) / "base"
    here.mkdir()
    (here / "t.csv").write_text(TABLE)
    (here / "m.csv").write_text(MASK)
    with contextlib.chdir(here):
        import pyarrow.csv
        import pyarrow.parquet

        pyarrow.parquet.write_table(pyarrow.csv.read_csv("t.csv"), "t.parquet")
        for command in RUNS.values():
            done = call(command)
            assert done.code == 0, done.err
    return here


_KEPT: list[tempfile.TemporaryDirectory[str]] = []


@contextlib.contextmanager
def limited(seconds: float = LIMIT) -> Iterator[None]:
    """Raises Hang when the time is over."""

    def over(*_: object) -> None:
        raise Hang(f"took longer than {seconds:g} s")

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
