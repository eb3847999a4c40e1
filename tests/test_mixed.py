"""benchmarks/mixed.py: what it hides, how it scores, and that finished cells are not measured again."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.scripts import module, script

N = 120


@pytest.fixture
def path(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    kind = rng.integers(3, size=N)
    frame = pd.DataFrame({"size": kind + rng.normal(size=N), "weight": rng.normal(size=N), "age": rng.normal(size=N)})
    frame["kind"], frame["sex"] = np.array(["a", "b", "c"])[kind], rng.choice(["f", "m"], N)
    frame.loc[:9, "sex"] = None
    frame.to_csv(tmp_path / "small.csv", index=False)
    return tmp_path / "small.csv"


@pytest.mark.parametrize("mechanism", ["mcar", "mar"])
def test_hides_its_share_of_what_the_table_holds(path: Path, mechanism: str) -> None:
    mixed = module("mixed")
    table = mixed.load(path, 1000)
    assert table.levels == {"kind": ("a", "b", "c"), "sex": ("f", "m")}
    hidden = np.mean([mixed.hide(table, mechanism, np.random.default_rng(seed)) for seed in range(60)], 0)
    assert (hidden[:10, table.columns.index("sex")] == 0).all()
    assert hidden[10:].mean(0) == pytest.approx(np.full(5, 0.3), abs=0.03)


def test_mar_does_not_look_at_what_it_hides(path: Path) -> None:
    """Other values in the hidden cells, the same mask; other values in those that stay, another one."""
    mixed = module("mixed")
    table = mixed.load(path, 1000)
    hidden = mixed.hide(table, "mar", np.random.default_rng(1))
    for changed, same in ((hidden, True), (~hidden, False)):
        codes = table.codes.copy()
        for i, name in enumerate(table.columns):
            count = len(table.levels.get(name, ()))
            where = changed[:, i] & ~np.isnan(codes[:, i])
            codes[where, i] = (codes[where, i] + 1) % count if count else codes[where, i][::-1] * 3
        other = mixed.Table(table.name, table.columns, table.levels, codes)
        assert (mixed.hide(other, "mar", np.random.default_rng(1)) == hidden).all() == same


def test_scores_are_what_they_say(path: Path) -> None:
    mixed = module("mixed")
    table = mixed.load(path, 1000)
    hidden = np.zeros(table.codes.shape, bool)
    hidden[20:22, 3] = True
    hidden[20:22, 0] = True
    draws = np.repeat(table.codes[None], 20, 0)
    true = table.codes[20:22, 3].astype(int)
    draws[:15, 20, 3] = (true[0] + 1) % 3  # 5 of 20 are right, 15 are one other level
    draws[:, 20:22, 0] += 0.5
    found = mixed.score(table, hidden, draws, 1.0)
    assert found.log_score == pytest.approx(-(np.log(6 / 23) + np.log(21 / 23)) / 2)
    assert found.mode_error == 0.5
    assert found.crps == pytest.approx(0.5 / table.codes[:, 0].std())
    assert found.coverage == 0.0
    same = mixed.score(table, hidden, np.repeat(table.codes[None], 20, 0), 1.0)
    assert same.sliced_wasserstein == 0.0 < found.sliced_wasserstein
    assert same.auc == pytest.approx(0.5)


@pytest.mark.slow
def test_is_measured_once_and_compared_with_the_reference(path: Path, tmp_path: Path) -> None:
    mixed = module("mixed")
    ask = (path, "--methods", "marginal", "chained", "--seeds", 1, "--mechanisms", "mar", "--cache", tmp_path / "c")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(mixed, "has_r", lambda: False)
        patched.setattr(mixed, "DRAWS", 2)
        done = script("mixed", *ask)
        assert done.code == 0, done.err
        assert "no Rscript with mice" in done.err and "relative to chained" in done.out
        cells = json.loads((tmp_path / "c").read_text())
        assert sorted(cells) == ["small/120/mar/1/chained", "small/120/mar/1/marginal"]
        again = script("mixed", *ask)
        assert "marginal:" not in again.err and again.out == done.out
        only = script("mixed", *ask, "--only", "marginal")
        assert "marginal:" in only.err and "chained:" not in only.err


def test_twins_know_what_the_levels_say(path: Path) -> None:
    """A category that follows from two numbers is found again by both; a number that follows from a category too."""
    mixed = module("mixed")
    rng = np.random.default_rng(2)
    kind = rng.integers(3, size=300)
    clear = pd.DataFrame({"number": 10.0 * kind + rng.normal(size=300), "kind": np.array(["a", "b", "c"])[kind]})
    hidden = np.zeros((300, 2), bool)
    hidden[:40, 0] = hidden[40:80, 1] = True
    for how in ("regressions", "trees"):
        filled = mixed.chained_mixed.impute(clear.mask(hidden), how, np.random.default_rng(3))
        assert (filled["kind"] == clear["kind"]).mean() > 0.98, how
        assert (filled["number"] - clear["number"]).abs().max() < 8, how
        assert filled["number"].isin(clear["number"]).all(), how
