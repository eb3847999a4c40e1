"""Damaged runs and hostile settings: a named error or an unchanged result, never a crash."""

from __future__ import annotations

import contextlib
import json
import math
import random
import re
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.fuzz import runs
from tests.program import Result, Vgi, vgi
from vgi_cli.errors import UsageError
from vgi_cli.fitting.plan import make_plan
from vgi_cli.settings.gather import gather

__all__ = ["vgi"]

ROOT = Path(__file__).parents[2]
TABLE = "a,b\n" + "\n".join(f"{i % 7},{'' if i % 5 == 0 else i * i % 11 / 2}" for i in range(24)) + "\n"
FIT = [
    *("--model", "fa", "--method", "vgi", "--epochs", "1", "--threads", "1", "--set", "model.factors=1"),
    *("--set", "optim.warmup_conditionals=1", "--set", "optim.warmup_model=1", "--set", "bootstrap=1"),
    *("--set", "method.trunk=[4]", "--set", "method.hidden=[4]", "--set", "method.imputations=2"),
]
COMMANDS = {
    "impute": ["impute", "--checkpoint", "run", "--m", "1", "--format", "long", "-o", "-"],
    "evaluate": ["evaluate", "--checkpoint", "run", "data.csv", "--json", "-o", "report"],
    "finetune": ["finetune", "--checkpoint", "run", "data.csv", "--epochs", "1", "--out", "tuned"],
    "resume": ["fit", "--resume", "--out", "run"],
}


def outcome(vgi: Vgi, command: str) -> tuple[Result, bytes]:
    """What a command did, and what it made; nothing of that stays."""
    done = vgi(*COMMANDS[command])
    made = Path("tuned/conditionals.safetensors").read_bytes() if done.code == 0 and command == "finetune" else b""
    for folder in ("report", "tuned"):
        shutil.rmtree(folder, ignore_errors=True)
    return done, done.out.encode() + made


def reference(vgi: Vgi) -> dict[str, bytes]:
    """The run to damage, and what each command makes of it."""
    Path("data.csv").write_text(TABLE)
    assert vgi("fit", "data.csv", *FIT, "--out", "run").code == 0
    shutil.copytree("run", "whole")
    return {command: outcome(vgi, command)[1] for command in COMMANDS}


def restore() -> None:
    shutil.rmtree("run")
    shutil.copytree("whole", "run")


def check_damaged_runs(vgi: Vgi, seed: int, cases: int) -> None:
    expected = reference(vgi)
    rng = random.Random(seed)
    for case in range(cases):
        restore()
        name = runs.damage(rng, Path("run"))
        command = rng.choice(list(COMMANDS))
        done, made = outcome(vgi, command)
        where = f"case {case} of seed {seed}: {command} after damage of {name}: {done.err[-500:]}"
        if done.code == 0:
            assert made == expected[command], where
        else:
            assert done.code in (1, 2) and done.error and done.hint, where
            assert name in done.err and "unexpected" not in done.err and "Traceback" not in done.err, where
            assert not Path("tuned").exists() and not Path("report").exists(), where


def check_older_runs(vgi: Vgi, seed: int, cases: int) -> None:
    """Runs from before the checksum: some damage is not seen, none crashes."""
    reference(vgi)
    manifest = Path("whole/manifest.json")
    values = json.loads(manifest.read_text())
    plain = {key: value for key, value in values.items() if key not in ("checksum", "chosen", "argv", "versions")}
    rng = random.Random(seed)
    for case in range(cases):
        restore()
        way = rng.choice((runs.edit, runs.flip))
        Path("run/manifest.json").write_bytes(way(rng, json.dumps(plain, indent=2).encode()))
        command = rng.choice(list(COMMANDS))
        done, _ = outcome(vgi, command)
        where = f"case {case} of seed {seed}: {command}: {done.err[-500:]}"
        assert done.code in (0, 1, 2) and "unexpected" not in done.err and "Traceback" not in done.err, where


def check_settings(seed: int, cases: int) -> None:
    sources = [path.read_bytes() for path in sorted((ROOT / "recipes").rglob("*.yaml"))]
    rng = random.Random(seed)
    for case in range(cases):
        path, items = None, [runs.item(rng) for _ in range(rng.randint(1, 3))]
        if rng.random() < 0.6:
            path, items = Path("r.yaml"), []
            path.write_bytes(runs.recipe(rng, sources))
        try:
            with contextlib.suppress(UsageError):
                make_plan(gather({"data": (["none.csv"], "DATA")}, items, recipe=path))
        except Exception as error:
            raise AssertionError(f"case {case} of seed {seed}: {path or items}") from error


def test_a_few_damaged_runs(vgi: Vgi) -> None:
    check_damaged_runs(vgi, seed=0, cases=40)


def test_a_few_damaged_runs_of_older_versions(vgi: Vgi) -> None:
    check_older_runs(vgi, seed=0, cases=20)


def test_a_few_hostile_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    check_settings(seed=0, cases=150)


def test_a_run_that_was_changed_and_sealed_is_refused_before_it_goes_on(vgi: Vgi) -> None:
    reference(vgi)
    recipe, q = Path("run/recipe.yaml"), Path("run/conditionals.safetensors")
    named = recipe.read_text()
    assert "\n  name: vgi\n" in named
    recipe.write_text(named.replace("\n  name: vgi\n", "\n"))
    check_refused(vgi, "run 'run' is damaged: recipe.yaml names no method")
    recipe.write_text(named)
    tensors = load_file(q)
    name = next(iter(tensors))
    tensors[name].view(-1)[0] = math.nan
    save_file(tensors, q)
    check_refused(vgi, f"run 'run' is damaged: its parameter '{name}' holds a number that no fit has")
    tensors[name] = torch.zeros_like(tensors[name], dtype=torch.float8_e4m3fn)
    save_file(tensors, q)
    check_refused(vgi, f"run/conditionals.safetensors: damaged ('{name}' has elements of type float8_e4m3fn)")
    tensors[name] = torch.zeros_like(tensors[name], dtype=torch.float16)
    save_file(tensors, q)
    check_refused(vgi, f"run 'run' is damaged: its parameter '{name}' is of a type that no fit has (float16)")
    tensors[name] = torch.zeros_like(tensors[name], dtype=torch.float32)
    save_file(tensors, q)
    state = load_file("run/state.safetensors")
    in_training = next(key for key in state if key.startswith("theta/") and state[key].is_floating_point())
    save_file({**state, in_training: torch.full_like(state[in_training], 1e31)}, "run/state.safetensors")
    check_refused(vgi, f"run 'run' is damaged: its parameter '{in_training}' holds a number that no fit has")
    save_file(state, "run/state.safetensors")
    schema = Path("run/schema.json")
    sound = schema.read_text()
    schema.write_text(re.sub(r'"sd": *[0-9.]+', '"sd": 0.0', sound))
    assert schema.read_text() != sound
    check_refused(vgi, "schema.json: damaged (columns.0.scale.sd: Input should be greater than 0)")


def test_a_model_and_conditionals_of_different_types_are_refused(vgi: Vgi) -> None:
    reference(vgi)
    q = Path("run/conditionals.safetensors")
    save_file({name: tensor.double() for name, tensor in load_file(q).items()}, q)
    runs.seal(Path("run"))
    done = vgi("impute", "--checkpoint", "run", "-o", "o.csv")
    assert done.code == 2 and done.error == (
        "run 'run' is damaged: its model and its conditionals are of different types (float32 and float64)"
    )


def check_refused(vgi: Vgi, message: str) -> None:
    """Resuming the run, sealed as it is, is refused, and changes no file of it."""
    runs.seal(Path("run"))
    before = {path.name: path.read_bytes() for path in Path("run").iterdir() if path.is_file()}
    done = vgi(*COMMANDS["resume"], "--epochs", "2")
    assert done.code == 2 and done.error == message
    assert before == {path.name: path.read_bytes() for path in Path("run").iterdir() if path.is_file()}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 5))
def test_damaged_runs(vgi: Vgi, seed: int) -> None:
    check_damaged_runs(vgi, seed, cases=500)
    shutil.rmtree("run")
    shutil.rmtree("whole")
    check_older_runs(vgi, seed, cases=200)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 5))
def test_hostile_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.chdir(tmp_path)
    check_settings(seed, cases=2000)
