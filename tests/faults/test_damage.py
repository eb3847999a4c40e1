"""Every file of a run, damaged in every way: the message names the file, nothing is overwritten, and the checkpoint
before is offered by a command that works."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fitting.fakes import new_drive, new_run
from tests.fitting.test_driver import assert_same, resumed
from tests.program import Vgi
from vgi_cli.errors import RunError
from vgi_cli.fitting import driver
from vgi_cli.runs import files
from vgi_cli.runs.files import PREVIOUS
from vgi_cli.runs.folder import RunFolder

FILES = [
    *("conditionals.safetensors", "imputations.safetensors", "manifest.json", "metrics.jsonl", "model.safetensors"),
    *("recipe.yaml", "schema.json", "state.safetensors"),
]


def flipped(data: bytes, share: float) -> bytes:
    place = min(int(share * len(data)), len(data) - 1)
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


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
def fitted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """A run by vgi, finished."""
    from tests.faults.scenarios import FA_VGI, write_table
    from vgi_cli.cli.app import main

    folder = tmp_path_factory.mktemp("fitted")
    write_table(folder / "data.csv", 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert main(["fit", "data.csv", *FA_VGI, "--set", "bootstrap=none", "--out", "run"]) == 0
    return contents(folder)


@pytest.mark.parametrize("name", FILES)
def test_each_damage_is_named_and_nothing_is_overwritten(vgi: Vgi, fitted: dict[str, bytes], name: str) -> None:
    for file, data in fitted.items():
        Path(file).parent.mkdir(parents=True, exist_ok=True)
        Path(file).write_bytes(data)
    assert {Path(file).name for file in fitted} == {*FILES, "README.md", "data.csv"}
    whole = fitted[f"run/{name}"]
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


@pytest.mark.parametrize(
    "name", ["manifest.json", "metrics.jsonl", "model.safetensors", "recipe.yaml", "state.safetensors"]
)
@pytest.mark.parametrize("what", ["missing", "half", "a byte in the middle"])
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
