"""Several processes that share a fit: their numbers are those of one, to rounding; any of them may end at any time; and
what cannot be shared is refused once."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file

from tests.program import Vgi, vgi
from tests.ranks.numbers import CASES
from tests.ranks.together import ROOT, Ended, ended, started, together
from tests.tensors import same_tensors
from vgi_cli.chains.store.packed import Batch, Whole
from vgi_cli.errors import InputError, UsageError
from vgi_cli.fitting.sharing import check_same_table, shared_by
from vgi_cli.machine.launch import BY_ITSELF, Launch, launch_of
from vgi_cli.ranks import ALONE, Ranks, cuts
from vgi_cli.table.frames import from_frame

__all__ = ["vgi"]

FAST = ["vgi", "em", "em of levels"]
FEW = ["vgi, more ranks than rows", "em, more ranks than rows"]
FIT = ["-m", "tests.ranks.often", "fit"]


def table(path: Path, N: int, levels: bool = False) -> Path:
    """A CSV of N rows with holes."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(N, 2)) @ rng.normal(size=(2, 4)) + 0.5 * rng.normal(size=(N, 4))
    x[rng.random((N, 4)) < 0.3] = np.nan
    frame = pd.DataFrame(x, columns=list("abcd"))
    if levels:
        frame["e"] = np.where(rng.random(N) < 0.2, None, rng.choice(["u", "v", "w"], N))
    frame.to_csv(path, index=False)
    return path


def differences(cases: list[str], world: int) -> dict[str, dict[str, float]]:
    """What `numbers.py` prints."""
    results = together(world, ["-m", "tests.ranks.numbers", *cases], ROOT)
    assert [one.code for one in results] == [0] * world, results
    found: dict[str, dict[str, float]] = {}
    for line in results[0].out.splitlines():
        found |= json.loads(line)
    assert list(found) == cases
    return found


def check(found: dict[str, dict[str, float]]) -> None:
    """The numbers are those of one process to the rounding of float64 in 50 steps."""
    for case, parts in found.items():
        for part, value in parts.items():
            assert value < 1e-9, (case, part, value)


@pytest.mark.slow
def test_two_ranks_fit_what_one_does_to_rounding() -> None:
    check(differences(FAST, 2))


@pytest.mark.slow
def test_two_ranks_fit_what_one_does_whatever_is_shared() -> None:
    check(differences([name for name in CASES if name not in FAST + FEW], 2))


@pytest.mark.slow
def test_more_ranks_than_rows() -> None:
    check(differences(FEW, 4))


LEFT = """
import os
import torch
from vgi_cli.machine.launch import launched
from vgi_cli.machine.ranks import joined
with joined(launched(), torch.device("cpu")) as ranks:
    weight = torch.nn.Parameter(torch.ones(3))
    optimizer = torch.optim.Adam([weight])
    (weight.sum() * ranks.total(torch.ones(()))[0]).backward()
    optimizer.step()
    print(len(os.listdir("/proc/self/task")))
print(len(os.listdir("/proc/self/task")))
"""


@pytest.mark.slow
def test_no_thread_is_left_that_could_abort_a_process_at_its_end() -> None:
    for one in together(2, ["-c", LEFT], ROOT):
        within, after = map(int, one.out.split())
        assert (one.code, one.err) == (0, "") and within > after == 1


def fitted(folder: Path, world: int, *more: str) -> list[Ended]:
    """`vgi fit … --out run` by so many processes."""
    return together(world, ["-m", "vgi_cli", "fit", *more], folder)


def tensors(run: Path) -> dict[str, torch.Tensor]:
    """All tensors of a run."""
    return {f"{p.name}/{k}": v for p in sorted(run.glob("*.safetensors")) for k, v in load_file(p).items()}


def close(one: Path, other: Path, within: float | None) -> None:
    """Two runs have the same tensors to rounding, and the same whole numbers; None: tensors of the same shapes."""
    a, b = tensors(one), tensors(other)
    assert a.keys() == b.keys()
    for name, value in a.items():
        assert value.shape == b[name].shape and value.dtype == b[name].dtype
        if within is None:
            continue
        if value.is_floating_point():
            torch.testing.assert_close(b[name], value, rtol=within, atol=within, equal_nan=True)
        else:
            assert torch.equal(b[name].to(torch.int64), value.to(torch.int64)), name


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rows", "within", "said"),
    [
        (7, 1e-4, "--model fa --method em"),
        (120, 1e-4, "--model mixture --set model.components=2 --set trees=none"),
        (7, None, "--model fa --set model.factors=1 --method vgi --epochs 3 --set bootstrap=2"),
        (120, 2e-3, "--model fa --set model.factors=1 --method vgi --epochs 3 --set bootstrap=2"),
        (120, None, "--model mixture --set model.components=1 --method vgi --epochs 1 --set bootstrap=none --val 0.2"),
        (120, None, "--model flow --epochs 2 --set optim.schedule=plateau --set model.steps=1 --set bootstrap=none"),
    ],
)
def test_the_run_of_several_is_that_of_one(rows: int, within: float | None, said: str, tmp_path: Path) -> None:
    """Four ranks on 7 rows, two on 120: one path on stdout, one voice on stderr, one run folder of one format. Numbers
    of float32 drift apart where Adam follows gradients that are 0 but for rounding: there the objective is compared."""
    world = 4 if rows == 7 else 2
    table(tmp_path / "t.csv", rows, levels="mixture" in said)
    alone = fitted(tmp_path, 1, "t.csv", *said.split(), "-o", "alone")
    shared = fitted(tmp_path, world, "t.csv", *said.split(), "-o", "shared")
    assert [one.code for one in alone + shared] == [0] * (1 + world), (alone, shared)
    assert shared[0].out == "shared\n" and {one.out + one.err for one in shared[1:]} == {""}
    assert sorted(p.name for p in (tmp_path / "alone").iterdir()) == sorted(
        p.name for p in (tmp_path / "shared").iterdir()
    )
    close(tmp_path / "alone", tmp_path / "shared", within)
    lines = [(tmp_path / run / "metrics.jsonl").read_text().splitlines() for run in ("alone", "shared")]
    assert len(lines[0]) == len(lines[1])
    for a, b in zip(*(map(json.loads, each) for each in lines), strict=True):
        assert a["step"] == b["step"] and b["objective"] == pytest.approx(a["objective"], rel=0.02)
    out = subprocess.run(
        [sys.executable, "-m", "vgi_cli", "impute", "--checkpoint", "shared", "--m", "1", "-o", "f.csv"], cwd=tmp_path
    )
    assert out.returncode == 0 and not pd.read_csv(tmp_path / "f.1.csv").isna().any().any()


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1])
def test_a_rank_is_killed_and_any_number_of_them_goes_on(victim: int, tmp_path: Path) -> None:
    """The other one ends at once and says why; the checkpoint is whole, and from it one process fits the same bits
    every time, two and four the same to rounding."""
    table(tmp_path / "t.csv", 120)
    said = ["t.csv", "--model", "fa", "--set", "model.factors=1", "--method", "vgi", "--set", "bootstrap=none"]
    processes = started(2, [*FIT, *said, "--epochs", "15", "-o", "run"], tmp_path)
    kept = tmp_path / "run" / "state.safetensors"
    until = time.monotonic() + 120
    while not kept.exists() and time.monotonic() < until:
        time.sleep(0.02)
    processes[victim].send_signal(signal.SIGKILL)
    killed = time.monotonic()
    results = ended(processes)
    assert time.monotonic() - killed < 30
    survivor = results[1 - victim]
    assert results[victim].code == -signal.SIGKILL and survivor.code == 1
    named = "" if victim else "rank 1: "
    assert f"error: {named}another rank has ended or cannot be reached" in survivor.err.replace("0: ", "")
    assert "--resume" in survivor.err and "Traceback" not in survivor.err
    for name in ("a", "b", "two", "four"):
        shutil.copytree(tmp_path / "run", tmp_path / name)
    for name, world in (("a", 1), ("b", 1), ("two", 2), ("four", 4)):
        results = fitted(tmp_path, world, "--resume", "-o", name)
        assert [one.code for one in results] == [0] * world, results
        manifest = json.loads((tmp_path / name / "manifest.json").read_text())
        assert manifest["ranks"] == ([2] if world == 2 else [2, world])
    assert same_tensors(tensors(tmp_path / "a"), tensors(tmp_path / "b"))
    close(tmp_path / "a", tmp_path / "two", 5e-3)
    close(tmp_path / "a", tmp_path / "four", 5e-3)


@pytest.mark.slow
def test_a_signal_to_one_rank_stops_all_after_saving(tmp_path: Path) -> None:
    table(tmp_path / "t.csv", 120)
    said = ["t.csv", "--model", "fa", "--set", "model.factors=1", "--method", "vgi", "--epochs", "100000"]
    processes = started(2, [*FIT, *said, "-o", "run"], tmp_path)
    until = time.monotonic() + 120
    while not (tmp_path / "run" / "state.safetensors").exists() and time.monotonic() < until:
        time.sleep(0.02)
    processes[1].send_signal(signal.SIGTERM)
    results = ended(processes)
    assert [one.code for one in results] == [143, 143]
    assert "stopped after epoch" in results[0].err and "--resume" in results[0].err and results[1].err == ""
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert manifest["status"] == "running" and manifest["progress"]["steps"] > 0


@pytest.mark.slow
def test_a_time_limit_ends_all_ranks_at_the_same_step(tmp_path: Path) -> None:
    table(tmp_path / "t.csv", 120)
    said = ["t.csv", "--model", "fa", "--method", "vgi", "--epochs", "100000", "--time-limit", "40", "-o", "run"]
    results = fitted(tmp_path, 2, *said)
    assert [one.code for one in results] == [0, 0], results
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert manifest["stopped_by"] == "time_limit" and manifest["ranks"] == [2]


@pytest.mark.slow
def test_torchrun_itself(tmp_path: Path) -> None:
    """The command of the documentation, and a refusal: one error line, no folder."""
    table(tmp_path / "t.csv", 60)
    run = Path(sys.executable).with_name("torchrun")
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "OMP_NUM_THREADS": "1"}

    def torchrun(*said: str) -> subprocess.CompletedProcess[str]:
        command = [str(run), "--nproc-per-node", "2", "-m", "vgi_cli", *said]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)

    found = torchrun("fit", "t.csv", "--model", "fa", "-o", "run")
    assert found.returncode == 0 and found.stdout == "run\n"
    found = torchrun("fit", "t.csv", "--model", "fa", "--method", "mcem", "-o", "other")
    assert found.returncode != 0 and found.stderr.count("error: several processes cannot share") == 1
    assert "exitcode  : 2" in found.stderr and not (tmp_path / "other").exists()
    found = torchrun("impute", "--checkpoint", "run")
    assert found.stderr.count("error: WORLD_SIZE is 2") == 1 and not (tmp_path / "run" / "imputed").exists()
    assert "--shard I/N" in found.stderr


AS_RANK_0 = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": "h", "MASTER_PORT": "1"}


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ("--model auto", "--model auto compares models in one process"),
        ("--model fa --method mcem", "several processes cannot share a fit by method 'mcem'"),
        ("--model vae --method vgi", "several processes cannot share a fit of model 'vae' by method 'vgi'"),
        ("--model flow --set model.dropout=0.1", "several processes cannot share a fit with model.dropout"),
        ("--model fa --compile on", "--compile on captures the steps in one process"),
        ("--model fa --holdout-cells 10%", "--holdout-cells makes a first fit in one process"),
        ("--model fa --max-memory 2G", "--max-memory counts for one process"),
        ("--model mixture --set uncertainty=posterior", "uncertainty=posterior draws one chain in one process"),
    ],
)
@pytest.mark.parametrize("rank", ["0", "1"])
def test_what_cannot_be_shared_is_refused_once(
    vgi: Vgi, monkeypatch: pytest.MonkeyPatch, said: str, error: str, rank: str
) -> None:
    table(Path("t.csv"), 20)
    for name, value in (AS_RANK_0 | {"RANK": rank, "LOCAL_RANK": rank}).items():
        monkeypatch.setenv(name, value)
    result = vgi("fit", "t.csv", *said.split(), "-o", "run")
    assert result.code == 2 and result.out == "" and not Path("run").exists()
    if rank == "0":
        assert result.error.startswith(error) and "process" in result.hint
    else:
        assert result.err == ""


def test_ranks_that_read_other_tables_are_refused() -> None:
    class Other(Ranks):
        world = 2

        def text(self, text: str) -> str:
            return "of rank 0"

    rows = from_frame(pd.DataFrame({"a": [1.0, None]}))
    check_same_table(rows, ALONE)
    with pytest.raises(InputError, match=r"^the 2 processes that share this fit have not read the same table: "):
        check_same_table(rows, Other())


def test_other_commands_are_refused(vgi: Vgi, monkeypatch: pytest.MonkeyPatch) -> None:
    table(Path("t.csv"), 20)
    for name, value in AS_RANK_0.items():
        monkeypatch.setenv(name, value)
    result = vgi("check", "t.csv")
    assert result.code == 2 and "WORLD_SIZE is 2: of all commands only `vgi fit`" in result.error


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"RANK": "x"}, "environment variable RANK: expected a whole number, got 'x'"),
        ({"WORLD_SIZE": "-1"}, "environment variable WORLD_SIZE: expected a whole number, got '-1'"),
        ({"RANK": "2"}, "environment variable RANK: expected a number below WORLD_SIZE=2, got 2"),
        ({"RANK": "1" * 5000}, f"environment variable RANK: expected a whole number, got '{'1' * 20}'"),
        ({"MASTER_PORT": "x"}, "environment variable MASTER_PORT: expected a whole number, got 'x'"),
        ({"MASTER_ADDR": ""}, "WORLD_SIZE is 2, and environment variable MASTER_ADDR is not set"),
    ],
)
def test_an_environment_that_makes_no_sense_is_refused(changed: dict[str, str], error: str) -> None:
    with pytest.raises(UsageError) as found:
        launch_of(AS_RANK_0 | changed)
    assert found.value.message == error and "torchrun" in str(found.value.hint)


def test_a_process_alone_is_alone() -> None:
    assert launch_of({}) == launch_of({"WORLD_SIZE": "4"}) == launch_of({"RANK": "0", "WORLD_SIZE": "1"}) == BY_ITSELF
    assert launch_of(AS_RANK_0) == Launch(0, 2, 0, 1)
    assert Launch(3, 4, 0, 2).leaves_to_others(130) and not Launch(3, 4, 0, 2).leaves_to_others(2)
    assert Launch(3, 4, 1, 2).leaves_to_others(2) and not Launch(3, 4, 1, 2).leaves_to_others(1)


def test_the_manifest_notes_how_many_processes_there_were() -> None:
    assert shared_by({}, 1, resumed=False) == shared_by({}, 1, resumed=True) == [1]
    assert shared_by({"ranks": [2]}, 4, resumed=False) == [4] and shared_by({}, 2, resumed=True) == [1, 2]
    assert shared_by({"ranks": [2]}, 2, resumed=True) == [2] and shared_by({"ranks": [2, 1]}, 4, resumed=True) == [
        2,
        1,
        4,
    ]


@given(st.lists(st.integers(1, 9), max_size=30), st.integers(1, 8))
def test_cuts_share_out_every_row_once_and_evenly(costs: list[int], world: int) -> None:
    edges = cuts(torch.tensor(costs), world)
    assert len(edges) == world + 1 and edges[0] == 0 and edges[-1] == len(costs)
    shares = [sum(costs[a:b]) for a, b in pairwise(edges)]
    assert sum(shares) == sum(costs) and all(a <= b for a, b in pairwise(edges))
    if len(costs) >= world:
        assert all(a < b for a, b in pairwise(edges))
        assert max(shares) <= sum(costs) / world + 2 * 9


def test_randomness_of_a_batch_is_drawn_for_all_of_it_and_shared_out() -> None:
    """The lines of two parts together are those of the whole: of incomplete rows, of all rows, and of none."""
    x = torch.zeros(5, 2)
    noise = (torch.arange(4.0), torch.arange(6.0), torch.zeros(0))
    parts = [torch.tensor([0, 1, 4]), torch.tensor([2, 3, 5])]
    for own in parts:
        batch = Batch(x, x.bool(), x[:, 0], torch.tensor([0]), Whole(4, 6, own, 2))
        assert batch.sizes(2) == (4, 6)
        assert [batch.own_lines(part).tolist() for part in noise] == [own[:2].tolist(), own.tolist(), []]
    assert Batch(x, x.bool(), x[:, 0], torch.tensor([0])).sizes(2) == (2, 5)


@pytest.mark.gpu
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two GPUs")
def test_two_gpus_share_a_fit(tmp_path: Path) -> None:
    table(tmp_path / "t.csv", 120)
    said = ["t.csv", "--model", "flow", "--epochs", "3", "--set", "bootstrap=none", "--device", "cuda"]
    shared = fitted(tmp_path, 2, *said, "-o", "shared")
    alone = fitted(tmp_path, 1, *said, "--compile", "off", "-o", "alone")
    assert [one.code for one in shared + alone] == [0, 0, 0], (shared, alone)
    close(tmp_path / "alone", tmp_path / "shared", 0.05)
