"""Tables of numbers and categories fitted by vgi, through the command line: imputed, scored, fine-tuned, resumed."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.program import Vgi
from tests.selection import first
from vgi_cli.runs.folder import RunFolder

KINDS = ["--column", "sex=categorical", "--column", "grade=ordinal:low,mid,high"]
SMALL = ["--set", "method.trunk=[8]", "--set", "method.hidden=[8]", "--set", "bootstrap=none"]
SHORT = ["--epochs", "2", "--set", "optim.warmup_conditionals=1", "--set", "optim.warmup_model=1"]
STEADY = ["--set", "optim.schedule=constant", "--set", "optim.average=0"]
MIXTURE = ["--model", "mixture", "--set", "model.components=2"]
SHIFTED = [*MIXTURE, "--set", "model.dependence=linear"]
FLOW = ["--model", "flow", "--set", "model.steps=1", "--set", "model.hidden=8", "--set", "model.bins=4"]
VGI = ["--method", "vgi", *SMALL, *SHORT]


@pytest.fixture
def data(vgi: Vgi) -> Path:
    """60 rows of a number, a category, a number and a scale; sex and v have their holes in the same rows."""
    rng = np.random.default_rng(0)
    group = rng.integers(0, 3, 60)
    sex = np.array(["f", "m"])[(rng.random(60) < 0.2 + 0.3 * group).astype(int)]
    grade = np.array(["low", "mid", "high"])[np.clip(group + rng.integers(-1, 2, 60), 0, 2)]
    columns = [2.0 * group + rng.normal(size=60), sex, group + 0.5 * rng.normal(size=60), grade]
    rows = [[f"{a:.3f}", b, f"{c:.3f}", d] for a, b, c, d in zip(*columns, strict=True)]
    head = "u,sex,v,grade\n"
    Path("truth.csv").write_text(head + "".join(",".join(row) + "\n" for row in rows))
    for i, row in enumerate(rows):
        if i % 3 == 0:
            row[1] = row[2] = ""
        if i % 4 == 1:
            row[3] = ""
        if i % 5 == 2:
            row[0] = ""
    Path("data.csv").write_text(head + "".join(",".join(row) + "\n" for row in rows))
    Path("new.csv").write_text(head + "0.1,,0.2,low\n,m,,\n1.5,f,,high\n0.3,,1.0,\n")
    return Path("data.csv")


def cells(path: str) -> list[list[str]]:
    return list(csv.reader(Path(path).read_text().splitlines()))[1:]


def check(result: object) -> None:
    assert result.code == 0, result.err  # type: ignore[attr-defined]


def assert_filled(path: str, source: str) -> None:
    """No hole is left, what was observed stands as it was, and every fill of a category is a level."""
    for row, before in zip(cells(path), cells(source), strict=True):
        assert all(new == old for new, old in zip(row, before, strict=True) if old)
        assert row[1] in ("f", "m") and row[3] in ("low", "mid", "high")
        float(row[0]), float(row[2])


def tensors(folder: str) -> dict[str, object]:
    run = RunFolder.open(Path(folder))
    stems = ("model", "conditionals", "imputations", "state")
    return {f"{stem}/{name}": value for stem in stems for name, value in run.tensors(stem).items()}


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param(MIXTURE, id="mixture", marks=pytest.mark.slow),
        pytest.param(SHIFTED, id="shifted", marks=pytest.mark.slow),
        pytest.param(FLOW, id="flow"),
    ],
)
def test_fit_impute_evaluate_and_finetune(vgi: Vgi, data: Path, settings: list[str]) -> None:
    model = settings[1]
    done = vgi("fit", "data.csv", *KINDS, *settings, *VGI, "-v", "-o", "run")
    check(done)
    assert ("levels that shift the numbers within clusters: " in done.err) == (settings is SHIFTED)
    for sampler in ("auto", "metropolis", "chains") if model == "mixture" else ("auto", "gibbs", "chains"):
        check(vgi("impute", "--checkpoint", "run", "--sampler", sampler, "--m", "2", "-o", f"{sampler}.csv"))
        for number in (1, 2):
            assert_filled(f"{sampler}.{number}.csv", "data.csv")
        if sampler == "chains":
            continue
        check(vgi("impute", "--checkpoint", "run", "new.csv", "--sampler", sampler, "--m", "1", "-o", "n.csv"))
        assert_filled("n.1.csv", "new.csv")
        Path("n.1.csv").unlink()
    few = ["--rows", "5", "--json"]
    done = vgi("evaluate", "--checkpoint", "run", "data.csv", "--truth", "truth.csv", *few)
    check(done)
    report = json.loads(done.out)
    assert report["loglik"]["estimator"] == ("exact" if model == "mixture" else "annealed")
    assert set(report["imputation"]["columns"]) == {"u", "sex", "v", "grade"}
    check(vgi("finetune", "--checkpoint", "run", "new.csv", "--epochs", "1", "-o", "tuned"))
    check(vgi("impute", "--checkpoint", "tuned", "--sampler", "chains", "--m", "1", "-o", "t.csv"))
    assert_filled("t.1.csv", "new.csv")


def test_refits_by_em_are_drawn_from_in_the_precision_of_the_fit(vgi: Vgi, data: Path) -> None:
    """They are in double precision, and the proposals of vgi in single. Trees make the refits of a fit by vgi EM's."""
    refits = ["--set", "bootstrap=2", "--set", "trees=held-out"]
    Path("again.csv").write_text(data.read_text())  # there are trees from 100 rows on
    twice = ["data.csv", "again.csv", *KINDS]
    check(vgi("fit", *twice, *MIXTURE, "--method", "vgi", *SMALL[:-2], *SHORT, *refits, "-o", "run"))
    done = vgi("impute", "data.csv", "--checkpoint", "run", "--sampler", "metropolis", "--m", "2", "-o", "out.csv")
    check(done)
    assert "2 bootstrap refits by em" in done.err
    for number in (1, 2):
        assert_filled(f"out.{number}.csv", "data.csv")


@pytest.mark.parametrize(
    "settings", [pytest.param(MIXTURE, marks=pytest.mark.slow), SHIFTED], ids=["mixture", "shifted"]
)
def test_a_resumed_fit_ends_in_the_same_bits(vgi: Vgi, data: Path, settings: list[str]) -> None:
    """Beginning at f0 by em, its chains in a file."""
    start = ["data.csv", *KINDS, *settings, *VGI, *STEADY, "--set", "method.initial=em"]
    check(vgi("fit", *start, "-o", "whole"))
    check(vgi("fit", *start, "--epochs", "1", "--set", "method.chains=disk", "-o", "run"))
    check(vgi("fit", "--resume", "--epochs", "2", "-o", "run"))
    one, two = tensors("whole"), tensors("run")
    assert one.keys() == two.keys()
    assert all(bool((one[key] == two[key]).all()) for key in one)  # type: ignore[attr-defined]


def unpack(folder: str) -> None:
    """Rewrite what a run keeps of levels as versions did that had no bytes for them: floats, row by row."""
    run = RunFolder.open(Path(folder))
    kept = run.tensors("imputations")
    packed = {"levels_u8": kept.pop("levels_u8"), "values": kept["values"]}
    assert packed["levels_u8"].dtype is torch.uint8 and len(packed["levels_u8"]) == int(kept["missing"][:, 1::2].sum())
    values = torch.zeros(*kept["missing"].shape, packed["values"].shape[1])
    for start, name in ((0, "values"), (1, "levels_u8")):  # every other dimension has levels
        part = values[:, start::2]
        part[kept["missing"][:, start::2]] = packed[name].float()
    run.save({"imputations": {**kept, "values": values[kept["missing"]]}}, {})


@pytest.mark.slow
def test_a_run_that_kept_levels_as_floats_is_read_and_resumed(vgi: Vgi, data: Path) -> None:
    start = ["data.csv", *KINDS, *MIXTURE, *VGI, *STEADY]
    check(vgi("fit", *start, "-o", "whole"))
    check(vgi("fit", *start, "--epochs", "1", "-o", "run"))
    chains = ["impute", "--checkpoint", "run", "--m", "2"]
    check(vgi(*chains, "--sampler", "chains", "-o", "packed.csv"))
    unpack("run")
    check(vgi(*chains, "--sampler", "chains", "-o", "floats.csv"))
    assert all(cells(f"packed.{k}.csv") == cells(f"floats.{k}.csv") for k in (1, 2))
    check(vgi("fit", "--resume", "--epochs", "2", "-o", "run"))
    one, two = tensors("whole"), tensors("run")
    assert one.keys() == two.keys() and "imputations/levels_u8" in two
    assert all(bool((one[key] == two[key]).all()) for key in one)  # type: ignore[attr-defined]


@pytest.mark.parametrize("select", first(1, ["loglik", "objective"]))
def test_held_out_rows_choose_the_epoch(vgi: Vgi, data: Path, select: str) -> None:
    validated = ["--val", "0.3", "--select", select]
    check(vgi("fit", "data.csv", *KINDS, *MIXTURE, *VGI, *validated, "-o", "run"))
    check(vgi("impute", "--checkpoint", "run", "--m", "1", "-o", "out.csv"))
    assert_filled("out.1.csv", "data.csv")


@pytest.mark.slow  # its laws and chains: tests/conditionals/test_levels.py, tests/chains/test_mixed_moves.py
@pytest.mark.parametrize("family", ["gaussian", "spline"])
def test_a_block_of_both_kinds_is_redrawn_together_and_in_part(vgi: Vgi, data: Path, family: str) -> None:
    """vbgi finds sex and v; new.csv has rows that miss only one of them."""
    method = ["--method", "vbgi", *SMALL, *SHORT, "--set", f"method.conditional={family}"]
    done = vgi("fit", "data.csv", *KINDS, *MIXTURE, *method, "-o", "run")
    check(done)
    assert "columns with holes in the same rows are filled together: sex, v" in done.err
    for sampler in ("metropolis", "gibbs"):
        check(vgi("impute", "--checkpoint", "run", "--sampler", sampler, "--m", "1", "-o", f"{sampler}.csv"))
        assert_filled(f"{sampler}.1.csv", "data.csv")
        check(vgi("impute", "--checkpoint", "run", "new.csv", "--sampler", sampler, "--m", "1", "-o", "n.csv"))
        assert_filled("n.1.csv", "new.csv")
        Path("n.1.csv").unlink()


def test_moves_of_several_columns_at_once_are_refused(vgi: Vgi, data: Path) -> None:
    done = vgi("fit", "data.csv", *KINDS, *MIXTURE, *VGI, "--set", "method.scan=block")
    assert done.code == 2 and "those of levels are redrawn one at a time" in done.error and "--block" in done.hint


def test_a_block_of_too_many_combinations_is_refused_before_the_fit(vgi: Vgi) -> None:
    rng = np.random.default_rng(1)
    rows = [f"{rng.normal():.2f},a{rng.integers(9)},b{rng.integers(8)}" for _ in range(200)]
    Path("wide.csv").write_text("x,a,b\n" + "\n".join(rows) + "\n,,\n")
    kinds = ["--column", "a=categorical", "--column", "b=categorical"]
    done = vgi("fit", "wide.csv", *kinds, *MIXTURE, *VGI, "--block", "a,b")
    assert done.code == 2 and "the block a, b has 72 combinations of levels" in done.error and done.hint
