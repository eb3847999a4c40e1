"""Run the program in this process, off a terminal, in an empty folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.schemas import checked, schema_of
from vgi_cli.cli.app import main


class Result(NamedTuple):
    """Exit code and what was written."""

    code: int
    out: str
    err: str

    @property
    def error(self) -> str:
        """The text of `error: …`."""
        return next(line.removeprefix("error: ") for line in self.err.splitlines() if line.startswith("error: "))

    @property
    def hint(self) -> str:
        """The text of `hint: …`."""
        return next(line.removeprefix("hint: ") for line in self.err.splitlines() if line.startswith("hint: "))


Vgi = Callable[..., Result]


@pytest.fixture
def vgi(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Vgi:
    """vgi("fit", "data.csv", …) in a folder of its own; what --json prints is held against its schema."""
    monkeypatch.chdir(tmp_path)
    for name in ("VGI_DEVICE", "VGI_THREADS", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)

    def run(*arguments: str | Path | Sequence[str]) -> Result:
        capfd.readouterr()
        code = main([str(argument) for argument in arguments])
        out, err = capfd.readouterr()
        schema = schema_of([str(argument) for argument in arguments])
        if schema is not None and code == 0:
            checked(schema, out)
        return Result(code, out, err)

    return run
