"""Run the program in this process, off a terminal, in an empty folder."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.schemas import checked, schema_of
from vgi_cli.cli.app import main
from vgi_cli.runs.manifest import sealed


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


_FITTED: dict[tuple[object, ...], dict[str, bytes]] = {}


def fit_once(vgi: Vgi, *words: str, out: str = "run") -> Path:
    """The run of `vgi fit WORDS --out OUT`: fitted once in each process for the same words and files in the folder,
    then copied, as if it had been fitted here."""
    here = Path.cwd()
    key = (words, out, *((str(path), path.read_bytes()) for path in sorted(Path().rglob("*")) if path.is_file()))
    if key not in _FITTED:
        done = vgi("fit", *words, "--out", out)
        assert done.code == 0, done.err
        _FITTED[key] = {path.name: path.read_bytes().replace(bytes(here), b"@here@") for path in Path(out).iterdir()}
        return Path(out)
    files = {name: content.replace(b"@here@", bytes(here)) for name, content in _FITTED[key].items()}
    manifest = json.loads(files["manifest.json"])
    manifest["files"]["recipe.yaml"] = hashlib.sha256(files["recipe.yaml"]).hexdigest()
    files["manifest.json"] = (json.dumps(sealed(manifest), indent=1) + "\n").encode()
    Path(out).mkdir(parents=True)
    for name, content in files.items():
        Path(out, name).write_bytes(content)
    return Path(out)
