"""Every file of a run, damaged in every way: the message names the file, nothing is overwritten, and the checkpoint
before is offered by a command that works."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.faults.scenarios import FA_VGI, FLOW, write_table
from tests.fitting.fakes import new_drive, new_run
from tests.fitting.test_driver import assert_same, resumed
from tests.program import Vgi
from tests.selection import covering
from vgi_cli.cli.app import main
from vgi_cli.commands import memory
from vgi_cli.errors import RunError
from vgi_cli.fitting import chains, driver
from vgi_cli.runs import files
from vgi_cli.runs.files import PREVIOUS
from vgi_cli.runs.folder import RunFolder

ALWAYS = ["manifest.json", "metrics.jsonl", "model.safetensors", "recipe.yaml", "schema.json", "state.safetensors"]
BY_VGI = ["conditionals.safetensors", "imputations.safetensors"]
FITS = {
    "fa": (FA_VGI, [*ALWAYS, *BY_VGI]),
    "flow": ([*FLOW, "--keep-encoded", "--max-memory", "2G"], ["chains.safetensors"]),
    "auto": (["--epochs", "2", "--holdout-cells", "10%", "--threads", "1"], ["contest.json", "holdout.json"]),
}
"""How runs are fitted whose files are damaged, and which files: together all that a run may have. (The model card is
the user's to change, and a damaged copy of the encoded rows is written anew: tests/commands/test_max_memory.py.)"""


def flipped(data: bytes, share: float) -> bytes:
    place = min(int(share * len(data)), len(data) - 1)
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


LEFT_OUT = ["README.md", "data.csv", "encoded.safetensors"]
DAMAGES: dict[str, Callable[[bytes], bytes | None]] = {
    "missing": lambda data: None,
    "empty": lambda data: b"",
    "half": lambda data: data[: len(data) // 2],
    "all but a byte": lambda data: data[:-2],  # the manifest ends in a line feed that it may lose
    "the first byte": lambda data: flipped(data, 0.0),
    "a byte in the middle": lambda data: flipped(data, 0.5),
    "a byte near the end": lambda data: flipped(data, (len(data) - 3) / len(data)),
    "zeros": lambda data: bytes(len(data)),
}


def contents(path: Path) -> dict[str, bytes]:
    return {str(p.relative_to(path)): p.read_bytes() for p in path.rglob("*") if p.is_file()}


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], dict[str, bytes]]:
    """The files of finished runs, of each fit of FITS one, and of their table."""

    @cache
    def fit(name: str) -> dict[str, bytes]:
        folder = tmp_path_factory.mktemp("fitted")
        write_table(folder / "data.csv", 1)
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            patch.setattr(chains, "FEWEST_STEPS", 1)
            if "--keep-encoded" in FITS[name][0]:
                patch.setattr(memory, "CELL", 10**9)
            assert main(["fit", "data.csv", *FITS[name][0], "--set", "bootstrap=none", "--out", "run"]) == 0
        return contents(folder)

    return fit


def test_every_file_of_a_run_is_damaged(fitted: Callable[[str], dict[str, bytes]]) -> None:
    there = {Path(file).name for name in FITS for file in fitted(name)}
    assert there == {*(file for _, files in FITS.values() for file in files), *LEFT_OUT}


@pytest.mark.parametrize(("fit", "name"), [(fit, name) for fit, (_, names) in FITS.items() for name in names])
def test_each_damage_is_named_and_nothing_is_overwritten(
    vgi: Vgi, fitted: Callable[[str], dict[str, bytes]], fit: str, name: str
) -> None:
    run = fitted(fit)
    for file, data in run.items():
        Path(file).parent.mkdir(parents=True, exist_ok=True)
        Path(file).write_bytes(data)
    whole = run[f"run/{name}"]
    for what, damage in DAMAGES.items():
        data = damage(whole)
        Path("run", name).unlink() if data is None else Path("run", name).write_bytes(data)
        before = contents(Path())
        for command in (
            ["impute", "--checkpoint", "run", "-o", "out.csv"],
            ["evaluate", "--checkpoint", "run", "data.csv", "-o", "report"],
            ["fit", "--resume", "--out", "run", "--epochs", "9"],
        ):
            done = vgi(*command)
            assert done.code == 2, (what, done)
            assert name in done.error, (what, done)
            assert "Traceback" not in done.err and "unexpected" not in done.err
            assert contents(Path()) == before
        Path("run", name).write_bytes(whole)
    assert vgi("impute", "--checkpoint", "run", "-o", "out.csv").code == 0


def cut(path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    """A fit of the fake method that was stopped with two checkpoints."""
    monkeypatch.setattr(driver, "CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr("time.monotonic", lambda: 0.0)
    drive = new_drive(new_run(path), stop_after=17)
    drive.go()
    return RunFolder.open(path)


@covering(
    pytest.mark.parametrize("what", ["missing", "half", "a byte in the middle"]),
    pytest.mark.parametrize(
        "name", ["manifest.json", "metrics.jsonl", "model.safetensors", "recipe.yaml", "state.safetensors"]
    ),
)
def test_the_checkpoint_before_is_offered_and_goes_on_to_the_same_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, what: str
) -> None:
    new_drive(new_run(tmp_path / "whole")).go()
    path = tmp_path / "run"
    cut(path, monkeypatch)
    data = DAMAGES[what]((path / name).read_bytes())
    (path / name).unlink() if data is None else (path / name).write_bytes(data)
    with pytest.raises(RunError) as caught:
        RunFolder.open(path)
    assert name in caught.value.message
    assert caught.value.hint is not None
    epoch, _, command = caught.value.hint.partition("): ")
    assert epoch.startswith("the checkpoint before it is whole (epoch ")
    moved, _, again = command.partition(" && ")
    assert moved == f"mv {path}/.previous {path}/.checkpoint"
    assert again == f"vgi fit --resume --out {path}"
    subprocess.run(moved, shell=True, check=True)
    assert RunFolder.open(path).manifest["progress"]["steps"] < 17
    monkeypatch.setattr(driver, "CHECKPOINT_SECONDS", 20.0)
    resumed(path).go()
    assert_same(path, tmp_path / "whole")


def test_a_checkpoint_before_that_is_damaged_too_is_not_offered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run"
    cut(path, monkeypatch)
    for file in (path / "state.safetensors", path / PREVIOUS / "state.safetensors"):
        file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(RunError) as caught:
        RunFolder.open(path)
    assert PREVIOUS not in str(caught.value.hint)


def test_a_finished_run_keeps_no_checkpoint_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = cut(tmp_path / "run", monkeypatch)
    assert (run.path / PREVIOUS).is_dir()
    run.save({"model": run.tensors("model")}, {})
    assert (run.path / PREVIOUS).is_dir()
    run.save({}, {"status": "finished"})
    assert not (run.path / PREVIOUS).exists()


def test_a_file_system_without_hard_links_keeps_no_checkpoint_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*_: object) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(files.os, "link", none)
    run = cut(tmp_path / "run", monkeypatch)
    assert sorted(path.name for path in run.path.iterdir() if path.name.startswith(".")) == []
