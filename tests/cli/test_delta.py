"""`vgi impute --delta`: fills away from the model's, and the record of it."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import vgi_cli
import vgi_cli.errors
from tests.program import Vgi, fit_once
from tests.schemas import checked
from tests.selection import first
from vgi_cli.columns.deltas import read_deltas, shifted
from vgi_cli.commands.deltas import means_over_shifts
from vgi_cli.fitting.fitted import load_run
from vgi_cli.models.base import Marginal
from vgi_cli.pooling.rubin import combine
from vgi_cli.reporting import Silent
from vgi_cli.samplers.exact import ExactImputer

DELTAS = {"weight": "+0.5sd", "age": "-1.3", "day": 10, "smoker": "yes:x3", "grade": "a:x0.2"}


def table(N: int = 300) -> pd.DataFrame:
    rng = np.random.default_rng(5)
    sex = rng.choice(["f", "m"], N)
    frame = pd.DataFrame(
        {
            "sex": sex,
            "smoker": rng.choice(["no", "yes"], N, p=[0.7, 0.3]),
            "grade": rng.choice(["a", "b", "c"], N, p=[0.5, 0.3, 0.2]),
            "weight": 60 + 15 * (sex == "m") + rng.normal(size=N),
            "age": rng.poisson(30, N),
            "share": rng.integers(1, 6, N),
            "day": (pd.to_datetime("2020-01-01") + pd.to_timedelta(rng.integers(0, 400, N), "D")).strftime("%Y-%m-%d"),
        }
    )
    return frame.mask(rng.random(frame.shape) < 0.3).assign(note=[f"note {i}, free" for i in range(N)])


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> vgi_cli.Run:
    folder = tmp_path_factory.mktemp("delta")
    table().to_csv(folder / "t.csv", index=False)
    settings = {"model.components": 1, "bootstrap": 0, "trees": "none"}
    kinds = {"share": "integer"}
    return vgi_cli.fit(folder / "t.csv", model="mixture", set=settings, columns=kinds, out=folder / "run")


def test_only_fills_of_the_named_columns_move(run: vgi_cli.Run) -> None:
    plain, moved = run.impute(m=4), run.impute(m=4, delta=DELTAS)
    holes = table().isna()
    for before, after in zip(plain, moved, strict=True):
        for name in before.columns:
            same = (before[name] == after[name]) | before[name].isna()
            assert same[~holes[name]].all()
            assert same.all() == (name not in DELTAS)
        gap = (after["weight"] - before["weight"])[holes["weight"]]
        assert np.allclose(gap, 0.5 * table()["weight"].std(), rtol=0.01)
        days = pd.to_datetime(after["day"]) - pd.to_datetime(before["day"])
        assert (days[holes["day"]].dt.days == 10).all()
        years = (after["age"] - before["age"])[holes["age"]]
        assert set(years) == {-2, -1} and years.mean() == pytest.approx(-1.3, abs=0.2)  # rounded at random
        changed = holes["smoker"] & (before["smoker"] != after["smoker"])
        assert (after["smoker"][changed] == "yes").all() and (
            before["grade"][before["grade"] != after["grade"]] == "a"
        ).all()
    again = run.impute(m=4, delta=DELTAS)
    assert all(one.equals(other) for one, other in zip(moved, again, strict=True))
    whole = table().fillna({"smoker": "no", "weight": 70.0, "day": "2020-02-02"})
    given = {"smoker": "yes:x3", "weight": 1, "day": 1}
    unmoved = run.impute(whole, m=1), run.impute(whole, m=1, delta=given)
    assert unmoved[0][0].equals(unmoved[1][0])  # no fill of these columns
    nothing = run.impute(m=4, delta={"weight": "0sd", "age": 0, "smoker": "yes:x1", "grade": "b:x1"})
    assert all(one.equals(other) for one, other in zip(plain, nothing, strict=True))


def test_odds_are_multiplied(run: vgi_cli.Run) -> None:
    """One component and independent levels: the law of a hole is the same in all rows."""
    m = 10
    plain, moved = run.impute(m=m), run.impute(m=m, delta={"smoker": "yes:x3", "grade": "a:x0.2"})
    for column, level, factor in (("smoker", "yes", 3.0), ("grade", "a", 0.2)):
        holes = table()[column].isna()
        share = [float(np.mean([(one[column][holes] == level).mean() for one in tables])) for tables in (plain, moved)]
        ratio = math.log(share[1] / (1 - share[1])) - math.log(share[0] / (1 - share[0]))
        error = math.sqrt(sum(1 / (p * (1 - p) * m * holes.sum()) for p in share))
        assert abs(ratio - math.log(factor)) < 4 * error + 0.05


def test_a_sampler_knows_the_law_of_a_level_given_the_row(run: vgi_cli.Run) -> None:
    fitted = load_run(run.path, Silent())
    model = fitted.model.double()
    assert isinstance(model, Marginal)
    j = fitted.layout.slices[fitted.layout.columns.index("grade")].start
    x = model.sample(5, torch.Generator().manual_seed(0))
    missing = torch.zeros_like(x, dtype=torch.bool)
    missing[:, j] = True
    found = ExactImputer([model]).level_probabilities(x, j, 0)
    rows = x.clone()
    for level in range(3):
        rows[:, j] = level
        expected = model.log_prob(rows) - model.marginal_log_prob(rows, missing)
        torch.testing.assert_close(found[:, level], expected.exp())


def test_a_record_lies_beside_the_tables(run: vgi_cli.Run, vgi: Vgi) -> None:
    given = ["--delta", "weight=+0.5sd", "--delta", "smoker=yes:x3", "--delta", "share=+9"]
    done = vgi("impute", "--checkpoint", run.path, "--m", "3", *given, "-o", "out.csv")
    assert done.code == 0 and done.out.split() == [f"out.{i}.csv" for i in (1, 2, 3)]
    record = checked("delta", Path("out.delta.json").read_text())
    assert record["files"] == done.out.split() and record["m"] == 3 and record["sampler"] == "exact"
    weight, smoker, share = record["deltas"]
    holes = table().isna().sum()
    assert weight["shift"] == pytest.approx(0.5 * table()["weight"].std(), rel=0.01) and weight["stopped"] == 0
    assert [d["fills"] for d in record["deltas"]] == [3 * holes[d["column"]] for d in record["deltas"]]
    assert smoker["level"] == "yes" and 0 < smoker["changed"] < smoker["fills"]
    assert share["stopped"] == share["fills"]  # whole numbers from 1 to 5
    assert f"--delta weight=+0.5sd: {weight['fills']} fills moved by +{weight['shift']:.6g}" in done.err
    assert (
        f"--delta share=+9: {share['fills']} fills moved by +9, {share['fills']} of them stopped by a bound" in done.err
    )
    assert "do not keep to" not in done.err
    filled = pd.read_csv("out.2.csv")
    assert (filled["share"][table()["share"].isna()] == 5).all()
    assert vgi("impute", "--checkpoint", run.path, *given, "-o", "out.parquet").hint.startswith("`--force`")
    assert vgi("impute", "--checkpoint", run.path, "--m", "3", "-o", "out.csv", "--force").code == 0
    assert not Path("out.delta.json").exists()  # the tables are others now
    assert vgi("impute", "--checkpoint", run.path, "--m", "3", *given, "-o", "out.csv", "--force").code == 0
    assert vgi("impute", "--checkpoint", run.path, "--m", "1", "-o", "out.parquet").code == 0
    assert json.loads(Path("out.delta.json").read_text()) == record  # of other files
    again = vgi("impute", "--checkpoint", run.path, "--m", "2", "-o", "out.csv", "--force")
    assert again.code == 0 and checked("delta", Path("out.delta.json").read_text())["files"] == ["out.3.csv"]
    once = vgi("impute", "--checkpoint", run.path, "--m", "2", "--delta", "share=+1", "-o", "out.csv", "--force")
    assert once.code == 0 and "warning: out.delta.json no longer says what was done to out.3.csv, of an" in once.err
    for words in ("notes", "[1]", json.dumps({"files": [], "note": "mine"})):
        Path("out.delta.json").write_text(words)
        assert vgi("impute", "--checkpoint", run.path, "--m", "2", "-o", "out.csv", "--force").code == 0
        assert Path("out.delta.json").read_text() == words  # not ours
    Path("out.delta.json").unlink()
    piped = vgi("impute", "--checkpoint", run.path, *given, "--format", "single", "-o", "-")
    assert piped.code == 0 and "fills moved by" in piped.err and not list(Path().glob("*.json"))


@pytest.mark.slow
def test_a_flow_tells_odds_too(tmp_path: Path) -> None:
    frame, settings = table(60)[["smoker", "weight"]], {"model.steps": 1, "model.hidden": 4, "bootstrap": 0}
    run = vgi_cli.fit(frame, model="flow", set=settings, epochs=1, threads=1, out=tmp_path / "run")
    plain, moved = run.impute(m=2), run.impute(m=2, delta={"smoker": "yes:x1e9"})
    for before, after in zip(plain, moved, strict=True):
        assert (after["smoker"][frame["smoker"].isna()] == "yes").all() and after["weight"].equals(before["weight"])


def test_means_over_shifts_are_those_of_the_tables(run: vgi_cli.Run) -> None:
    schema, missing = load_run(run.path, Silent()).schema, table()["weight"].isna().to_numpy()
    draws = np.stack([one[list(schema.modelled)].assign(sex=0, smoker=0, grade=0, day=0) for one in run.impute(m=5)])
    tips = means_over_shifts(schema, "weight", draws.astype(float), missing, [0.0, 2.0])
    for tip, delta in zip(tips, [{}, {"delta": {"weight": 2}}], strict=True):
        tables = run.impute(m=5, **delta)  # type: ignore[arg-type]
        means = [one["weight"].mean() for one in tables]
        assert tip.estimates == pytest.approx(means) and tip.stopped == 0
        assert tip.variances == pytest.approx([one["weight"].sem() ** 2 for one in tables])
        pooled = combine(tip.estimates[:, None], tip.variances[:, None])
        assert pooled.estimate[0] == pytest.approx(np.mean(means))
    assert tips[1].estimates - tips[0].estimates == pytest.approx(np.full(5, 2 * missing.mean()))
    with pytest.raises(vgi_cli.errors.UsageError, match="has levels"):
        means_over_shifts(schema, "grade", draws.astype(float), missing, [1.0])


def test_rounded_columns_move_by_the_shift_on_average(run: vgi_cli.Run) -> None:
    schema = load_run(run.path, Silent()).schema
    u = (np.arange(10_000) + 0.5) / 10_000
    age, share = (schema.encoded[schema.modelled.index(name)] for name in ("age", "share"))
    moved = shifted(age, np.full(10_000, 30.0), 0.3, u)
    assert set(moved.codes) == {30.0, 31.0} and moved.codes.mean() == pytest.approx(30.3)
    stopped = shifted(share, np.array([1.0, 2.0, 5.0]), -1.5, np.array([0.5, 0.5, 0.2]))
    assert stopped.codes.tolist()[:2] == [1.0, 1.0] and stopped.stopped.tolist() == [True, True, False]
    assert stopped.codes[2] in (3.0, 4.0)


@pytest.mark.parametrize(
    ("delta", "error", "hint"),
    [
        ("weight", "--delta: expected COL=SHIFT, got 'weight'", "for example age=+0.5sd"),
        ("wieght=1", "--delta wieght=1: column 'wieght' is none of the run", "did you mean 'weight'?"),
        ("note=1", "--delta note=1: column 'note' is not modelled, so nothing fills it", "expected one of"),
        ("weight=much", "--delta weight=much: expected a number, or a number and sd, got 'much'", "for example"),
        ("weight=x2", "--delta weight=x2: expected a number, or a number and sd, got 'x2'", "for example"),
        ("weight=1e999", "--delta weight=1e999: expected a number, or a number and sd, got '1e999'", "for example"),
        (
            "smoker=+1",
            "--delta smoker=+1: 'smoker' has levels: expected LEVEL:xFACTOR, a factor above 0 of its odds",
            "for example smoker=no:x1.5",
        ),
        (
            "smoker=yes:x0",
            "--delta smoker=yes:x0: 'smoker' has levels: expected LEVEL:xFACTOR, a factor above 0 of its odds",
            "for example smoker=no:x1.5",
        ),
        ("smoker=yse:x2", "--delta smoker=yse:x2: 'smoker' has no level 'yse'", "did you mean 'yes'?"),
    ],
)
def test_what_has_no_meaning_is_refused(run: vgi_cli.Run, vgi: Vgi, delta: str, error: str, hint: str) -> None:
    for ask in (["--dry-run"], ["-o", "x.csv"]):
        done = vgi("impute", "--checkpoint", run.path, "--delta", delta, *ask)
        assert (done.code, done.error) == (2, error) and done.hint.startswith(hint)
        assert done.out == "" and not list(Path().iterdir())


def test_twice_and_other_types_are_refused(run: vgi_cli.Run, tmp_path: Path) -> None:
    schema = load_run(run.path, Silent()).schema
    with pytest.raises(vgi_cli.errors.UsageError, match="--delta age=1 shifts the column already"):
        read_deltas(["age=1", "age=2"], schema)
    wrong: Any = "age=1"
    with pytest.raises(vgi_cli.errors.UsageError, match="delta: expected a mapping, got str"):
        run.impute(delta=wrong)
    vae = vgi_cli.fit(
        table(40), model="vae", set={"model.latents": 1, "bootstrap": 0}, epochs=1, out=tmp_path / "run", threads=1
    )
    with pytest.raises(vgi_cli.errors.UsageError, match=r"factors of odds need --sampler exact or trees or metropolis"):
        vae.impute(delta={"smoker": "yes:x2"})


def test_a_shift_of_many_ranges_is_warned_of(run: vgi_cli.Run) -> None:
    for shift, warned in (("+100", False), ("-1e6", True)):
        said: list[str] = []
        run.impute(m=1, delta={"weight": shift}, say=said.append)
        lines = [line for line in said if "times the range of 'weight'" in line]
        assert len(lines) == warned and all(line.startswith("warning: --delta weight=-1e6: ") for line in lines)


@pytest.mark.parametrize("point", first(1, [None, "mean"]))
def test_fills_of_other_columns_keep_to_relations_beside_a_shift(tmp_path: Path, point: str | None) -> None:
    rng = np.random.default_rng(3)
    whole = pd.DataFrame({"net": rng.gamma(2, 20, 120).round(2), "tax": rng.gamma(2, 10, 120).round(2)})
    whole["gross"] = (whole.net + whole.tax).round(2)
    whole["class"] = np.where(whole.net > 40, "high", "low")
    holed = whole.mask(rng.random(whole.shape) < 0.2)
    run = vgi_cli.fit(
        holed,
        model="mixture",
        set={"model.components": 2, "bootstrap": "none"},
        out=tmp_path / "r",
        say=(said := list[str]()).append,
    )
    assert any("'gross' = 'net' + 'tax'" in line for line in said)
    plain = run.impute(m=3, point=point)
    deltas = {"tax": "+5", "class": "high:x4"}
    moved = run.impute(m=3, point=point, delta=deltas)
    none = run.impute(m=3, point=point, delta={"tax": "0", "class": "high:x1"})
    for before, after, same in zip(plain, moved, none, strict=True):
        pd.testing.assert_frame_equal(before, same)
        pd.testing.assert_frame_equal(before[["net", "gross"]], after[["net", "gross"]])
        by = (after.tax - before.tax)[holed.tax.isna()]
        assert (
            by.to_numpy() == pytest.approx(5.0, abs=0.02 if point else 1e-9)
            and (after.tax == before.tax)[holed.tax.notna()].all()
        )
        assert set(after["class"][after["class"] != before["class"]]) <= {"high"}
        determined = holed.gross.isna() & holed.net.notna() & holed.tax.notna()
        assert after.gross[determined].to_numpy() == pytest.approx(whole.gross[determined].to_numpy())
    assert point or any((after["class"] != before["class"]).any() for before, after in zip(plain, moved, strict=True))


def test_relations_that_a_shift_leaves_out_are_named(vgi: Vgi) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"net": rng.gamma(2, 20, 90).round(2), "tax": rng.gamma(2, 10, 90).round(2)})
    frame["gross"] = (frame.net + frame.tax).round(2)
    frame["x"] = rng.normal(size=90).round(3)
    frame.mask(rng.random(frame.shape) < 0.1).to_csv("t.csv", index=False)
    fit_once(vgi, "t.csv", "--model", "fa", "--set", "bootstrap=none", "--set", "model.factors=1")
    line = "fills that --delta moves do not keep to 'gross' = 'net' + 'tax'"
    for more in (["--dry-run"], []):
        done = vgi("impute", "--checkpoint", "run", "--m", "1", "--delta", "tax=+5", "-o", "o.csv", *more)
        assert done.code == 0 and line in done.err + done.out
    done = vgi("impute", "--checkpoint", "run", "--m", "1", "--delta", "x=+5", "-o", "x.csv")
    assert done.code == 0 and "do not keep to" not in done.err
