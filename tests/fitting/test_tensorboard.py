"""`--tensorboard DIR`: every number of metrics.jsonl by its step; refused at once where the package is missing."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from tests.program import Vgi, vgi
from vgi_cli.fitting.tensorboard import scalars

__all__ = ["vgi"]
TRAINED = "--model fa --method vgi --threads 1 --set model.factors=1 --set method.imputations=2 --set bootstrap=none"


@pytest.fixture
def data(vgi: Vgi) -> Path:
    rows = [f"{i / 10},{'' if i % 3 else i / 20},{(i * 7) % 10}" for i in range(40)]
    Path("t.csv").write_text("a,b,c\n" + "\n".join(rows) + "\n")
    return Path("t.csv")


def test_numbers_of_a_line() -> None:
    line = {"epoch": 2, "step": 9, "stage": "main", "objective": -1.5, "acceptance": [0.5, None, 1.0], "seconds": 3.0}
    assert scalars(line, ["a", "b", "c"]) == {
        "epoch": 2.0,
        "objective": -1.5,
        "acceptance": 0.75,
        "acceptance_of/a": 0.5,
        "acceptance_of/c": 1.0,
        "seconds": 3.0,
    }
    warm = {"epoch": 1, "step": 3, "stage": "warm_model", "objective": 2.0, "val_loglik": None, "acceptance": [None]}
    assert scalars(warm, ["a"]) == {"warm_model/epoch": 1.0, "warm_model/objective": 2.0}


@pytest.mark.parametrize("command", ["fit t.csv", "finetune --checkpoint run t.csv"])
def test_without_the_package_it_is_refused_at_once(vgi: Vgi, data: Path, monkeypatch: Any, command: str) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "tensorboard" else real(name))
    done = vgi(*command.split(), "--tensorboard", "board", "--out", "new")
    assert (done.code, done.out) == (2, "")
    assert done.error == "--tensorboard needs the package tensorboard, which is not installed"
    assert done.hint == "pip install '.[tensorboard]' in a clone of vgi" and list(Path().iterdir()) == [Path("t.csv")]


def test_a_file_is_no_folder(vgi: Vgi, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: True)
    done = vgi("fit", "t.csv", "--tensorboard", "t.csv", "--out", "new")
    assert (done.code, done.error) == (2, "--tensorboard: 't.csv' is a file") and not Path("new").exists()


def read(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """By name the steps and values of all that was written to a folder, in order."""
    reader = importlib.import_module("tensorboard.backend.event_processing.event_accumulator")
    found = reader.EventAccumulator(str(folder))
    found.Reload()
    return {tag: [(event.step, event.value) for event in found.Scalars(tag)] for tag in found.Tags()["scalars"]}


@pytest.mark.slow  # the package takes seconds to load
def test_every_number_of_the_metrics_is_there(vgi: Vgi, data: Path) -> None:
    pytest.importorskip("tensorboard")
    board = ["--tensorboard", "board"]
    assert vgi("fit", "t.csv", *TRAINED.split(), "--epochs", "3", "--val", "0.2", "--out", "run", *board).code == 0
    assert vgi("fit", "--resume", "--out", "run", "--epochs", "5", *board).code == 0
    lines = [json.loads(line) for line in Path("run/metrics.jsonl").read_text().splitlines()]
    main = [line for line in lines if line["stage"] == "main"]
    found = read(Path("board/run"))
    for name in ("objective", "val_loglik", "epoch"):
        steps, values = zip(*found[name], strict=True)
        assert list(steps) == [line["step"] for line in main]
        assert values == pytest.approx([line[name] for line in main], rel=1e-6)
    assert {"acceptance", "acceptance_of/b"} <= found.keys() and "warm_conditionals/objective" in found
    assert vgi("finetune", "--checkpoint", "run", "t.csv", "--epochs", "2", "--out", "tuned", *board).code == 0
    tuned = [json.loads(line)["objective"] for line in Path("tuned/metrics.jsonl").read_text().splitlines()]
    (found,) = (seen for tag, seen in read(Path("board/tuned")).items() if tag.endswith("objective"))
    assert [value for _, value in found] == pytest.approx(tuned, rel=1e-6) and len(tuned) == 2
