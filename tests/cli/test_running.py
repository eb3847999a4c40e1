"""Reading commands of a fit that is going on: they take its last whole checkpoint, and say which that is."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli.test_refusals import TINY_VGI
from tests.program import Vgi
from tests.tensors import same_tensors
from vgi_cli.fitting import driver, fitted
from vgi_cli.machine.work import Stop
from vgi_cli.reporting import Silent
from vgi_cli.runs.folder import RunFolder
from vgi_cli.runs.lock import sole_writer


@pytest.fixture
def data(vgi: Vgi) -> Path:
    x = np.random.default_rng(0).normal(size=(60, 2)) @ [[1.0, 0.5], [0.0, 1.0]]
    lines = [f"{a:.3f}," if number % 4 == 0 else f"{a:.3f},{b:.3f}" for number, (a, b) in enumerate(x)]
    path = Path("data.csv")
    path.write_text("a,b\n" + "\n".join(lines) + "\n")
    return path


@pytest.fixture
def half(vgi: Vgi, data: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fit that was stopped after its second epoch of three."""
    watched: list[Stop] = []
    plain, log = driver.Drive.go, driver.Drive._log

    def go(drive: driver.Drive) -> Any:
        watched.append(drive.stop)
        return plain(drive)

    def stopping(drive: driver.Drive, event: Any, seconds: float) -> None:
        log(drive, event, seconds)
        if drive.state.epoch == 2:
            watched[-1].handle(signal.SIGTERM, None)

    with monkeypatch.context() as patch:
        patch.setattr(driver.Drive, "go", go)
        patch.setattr(driver.Drive, "_log", stopping)
        done = vgi("fit", "data.csv", *TINY_VGI, "--epochs", "3", "--out", "run")
    assert done.code == 143, done.err
    return Path("run")


@pytest.mark.parametrize(
    "command",
    [
        ["impute", "--checkpoint", "run", "--m", "1", "-o", "filled.csv"],
        ["evaluate", "--checkpoint", "run", "data.csv", "--json"],
        ["score", "run", "data.csv"],
        ["sample", "run", "-n", "2"],
        ["finetune", "--checkpoint", "run", "data.csv", "--epochs", "1", "--out", "other"],
    ],
)
def test_a_run_that_is_being_written_can_be_read(vgi: Vgi, half: Path, command: list[str]) -> None:
    before = {path.name: path.read_bytes() for path in half.iterdir() if path.is_file()}
    with sole_writer(half):
        done = vgi(*command)
    assert done.code == 0, done.err
    assert "run is not finished: its model is that of epoch 2 (vgi fit --resume --out run goes on)" in done.err
    assert {path.name: path.read_bytes() for path in half.iterdir() if path.is_file()} == before


def test_a_checkpoint_that_comes_while_another_one_is_read_is_read_instead(
    vgi: Vgi, half: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Model and conditionals are of one checkpoint, never of two."""
    plain, read = RunFolder.tensors, []

    def tensors(run: RunFolder, stem: str) -> Any:
        read.append(stem)
        if read == ["model", "conditionals"]:
            with monkeypatch.context() as patch:
                patch.setattr(RunFolder, "tensors", plain)
                assert vgi("fit", "--resume", "--out", "run").code == 0
        return plain(run, stem)

    monkeypatch.setattr(RunFolder, "tensors", tensors)
    found = fitted.load_run(half, Silent())
    assert read[2:4] == ["model", "conditionals"]
    assert found.run.finished
    latest = plain(RunFolder.open(half), "model")
    assert same_tensors(
        dict(found.model.state_dict()), {k: v for k, v in latest.items() if k in found.model.state_dict()}
    )
