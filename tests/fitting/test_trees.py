"""Trees learnt with a fit: when, what they find, what they leave alone, and how a run keeps them."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import vgi_cli
from tests.selection import first
from vgi_cli.data import TensorTable, make_table
from vgi_cli.errors import UsageError
from vgi_cli.fitting import refits, trees
from vgi_cli.fitting.fitted import load_run
from vgi_cli.fitting.trees import less_apart
from vgi_cli.layout import Layout
from vgi_cli.machine.work import TimeLimit, Work
from vgi_cli.maths.trees import NO_PAIRS
from vgi_cli.models.base import built
from vgi_cli.models.gaussian.mixture import GaussianMixture, MixtureConfig
from vgi_cli.reporting import Silent
from vgi_cli.settings.recipe import Recipe

N = 600


def exclusive(rows: int = N, holes: float = 0.3) -> tuple[pd.DataFrame, np.ndarray[Any, Any]]:
    """A table whose column c is `yes` where just one of a and b is, but for one row in twenty, with a third of c
    missing: no two columns tell of each other. Its whole column c."""
    rng = np.random.default_rng(0)
    a, b = rng.random(rows) < 0.5, rng.random(rows) < 0.5
    c = (a ^ b) ^ (rng.random(rows) < 0.05)
    words = np.array(["no", "yes"])
    frame = pd.DataFrame({"a": words[a.astype(int)], "b": words[b.astype(int)], "c": words[c.astype(int)]})
    frame["x"] = rng.standard_normal(rows).round(3)
    truth = frame["c"].to_numpy().copy()
    frame.loc[rng.random(rows) < holes, "c"] = None
    frame.loc[rng.random(rows) < holes, "x"] = np.nan
    return frame, truth


@pytest.fixture(autouse=True, scope="module")
def four_refits() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(refits, "COUNT", 4)
        yield


@pytest.fixture(scope="module")
def run(four_refits: None, tmp_path_factory: pytest.TempPathFactory) -> vgi_cli.Run:
    """A fit of one component, which cannot describe it."""
    return fit(tmp_path_factory.mktemp("one") / "run")


@pytest.fixture(scope="module")
def plain(four_refits: None, tmp_path_factory: pytest.TempPathFactory) -> vgi_cli.Run:
    """The same without trees."""
    return fit(tmp_path_factory.mktemp("plain") / "run", trees="none")


def fit(out: Path, **settings: Any) -> vgi_cli.Run:
    return vgi_cli.fit(
        exclusive()[0], out=out, model="mixture", seed=2, threads=1, set={"model.components": 1, **settings}
    )


def share_right(tables: list[pd.DataFrame]) -> float:
    frame, truth = exclusive()
    gone = frame["c"].isna().to_numpy()
    return float(np.mean([(table["c"].to_numpy() == truth)[gone].mean() for table in tables]))


def test_trees_find_what_the_mixture_misses(run: vgi_cli.Run) -> None:
    assert share_right(run.impute(m=4, sampler="exact")) == pytest.approx(0.5, abs=0.1)
    assert share_right(run.impute(m=4)) > 0.65


def test_without_trees_draws_are_exact(run: vgi_cli.Run, plain: vgi_cli.Run) -> None:
    assert load_run(plain.path, Silent()).trees == ()
    for one, other in zip(plain.impute(m=2), run.impute(m=2, sampler="exact"), strict=True):
        pd.testing.assert_frame_equal(one, other)


def test_the_recipe_says_what_was_done(tmp_path: Path, run: vgi_cli.Run) -> None:
    assert load_run(run.path, Silent()).recipe.trees == "held-out"
    numbers = vgi_cli.fit(exclusive()[0][["x"]], out=tmp_path / "numbers", threads=1)
    assert load_run(numbers.path, Silent()).recipe.trees == "none"


def test_trees_count_rows_by_their_weights() -> None:
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(120, 2, generator=generator, dtype=torch.float64)
    x[:, 1] += x[:, 0].abs()
    missing = torch.rand(120, 2, generator=generator) < 0.1
    table = make_table(x, missing & ~missing.all(1, keepdim=True), Layout.plain(2))
    model = built(GaussianMixture, MixtureConfig(components=1, covariance="full"), table.layout).double()
    model.initialise(x, generator)
    counts, own = torch.randint(3, (120,), generator=generator).double(), torch.rand(120, generator=generator) + 0.2
    grow = lambda counts, own: trees._trees(  # noqa: E731
        model, table, counts, own, [NO_PAIRS] * 2, torch.Generator().manual_seed(4)
    )
    weighed, by_counts, alike = grow(counts, own), grow(counts * own, None), grow(counts, None)
    for one, same, other in zip(weighed.trees, by_counts.trees, alike.trees, strict=True):
        assert one is not None and same is not None and other is not None
        assert torch.equal(one.table, same.table) and torch.equal(one.threshold, same.threshold)
        assert one.table.shape != other.table.shape or not torch.allclose(one.table, other.table)


def test_factors_of_levels_that_the_law_rules_out() -> None:
    """They go on where those of rare levels end, and leave every law a law."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        levels, weight = int(rng.integers(2, 6)), rng.uniform(0.5, 3.0, 12)
        probs = rng.dirichlet(np.ones(levels), 12)
        probs[:, 0] = 0.0
        probs /= probs.sum(1, keepdims=True)
        drawn = rng.integers(1, levels, 12)
        held, expected = (np.eye(levels)[drawn] * weight[:, None]).sum(0)[None], (probs * weight[:, None]).sum(0)[None]
        factors = trees._factors(held, expected)
        near = expected + np.eye(levels)[0] * 1e-12
        assert np.allclose(factors, trees._factors(held, near), rtol=1e-9)
        assert factors[0, 0] == pytest.approx(trees.PRIOR / (weight.sum() + trees.PRIOR))
        there = expected > 0
        prior = trees.PRIOR * expected / expected.sum()
        assert (factors[there] == ((held + prior)[there] / (expected + prior)[there])).all()
    seen = trees._factors(np.array([[2.0, 8.0]]), np.array([[0.0, 10.0]]))
    assert np.isfinite(seen).all() and seen[0, 0] > 1e4  # a row has it all the same
    tiny = trees._factors(np.array([[2.0, 8.0]]), np.array([[1e-300, 10.0]]))
    assert np.isfinite(tiny.astype(np.float32)).all()
    assert (trees._factors(np.zeros((1, 3)), np.zeros((1, 3))) == 1).all()  # rows that all weigh 0


def test_a_level_that_the_law_rules_out_is_filled_as_if_it_were_rare(monkeypatch: pytest.MonkeyPatch) -> None:
    """Towns far apart: beside where a row lies, most of them have no probability but that of rows unlike all others."""
    rng = np.random.default_rng(1)
    town, north = rng.integers(0, 13, 400), rng.uniform(30.0, 54.0, 13)
    names = np.array(list("abcdefghijklm"))[town]
    frame = pd.DataFrame({"town": names, "north": (north[town] + 0.01 * rng.normal(size=400)).round(4)})
    frame.loc[::7, "town"] = None
    frame.loc[3::7, "north"] = np.nan
    found: list[bool] = []
    factors = trees._factors

    def watched(held: Any, expected: Any) -> Any:
        out = factors(held, expected)
        found.append(bool((expected < 1e-9 * expected.max()).any()))
        assert np.isfinite(out).all() and (out > 0).all()
        return out

    monkeypatch.setattr(trees, "_factors", watched)
    given: dict[str, Any] = {"model": "mixture", "seed": 3, "threads": 1, "set": {"model.components": 3}}
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        tables = vgi_cli.fit(frame, **given).impute(m=4)
    assert any(found)
    hidden = frame["town"].isna().to_numpy()
    assert all((table["town"].to_numpy() == names)[hidden].all() for table in tables)


@pytest.mark.parametrize("options", [{"model": "fa", "carry_others": True}, {"set": {"bootstrap": "none"}}])
def test_trees_that_cannot_be_are_refused(tmp_path: Path, options: dict[str, Any]) -> None:
    asked = {"trees": "held-out", **options.pop("set", {})}
    with pytest.raises(UsageError, match="trees=held-out: this fit can learn no trees, which need a mixture") as error:
        vgi_cli.fit(exclusive()[0], out=tmp_path / "run", threads=1, set=asked, **options)
    assert error.value.hint == "leave it out"


def test_a_sampler_without_its_trees_is_refused(run: vgi_cli.Run, plain: vgi_cli.Run) -> None:
    with pytest.raises(UsageError, match=r"sampler 'trees': run '.*plain0/run' holds no trees") as error:
        plain.impute(m=2, sampler="trees")
    assert error.value.hint == "use --sampler exact"
    with pytest.raises(UsageError, match="sampler 'metropolis' needs") as error:
        plain.impute(m=2, sampler="metropolis")
    assert error.value.hint == "this run can use --sampler exact"  # it holds no trees and no imputations
    with pytest.raises(UsageError, match="--sampler trees needs the bootstrap refits"):
        run.impute(m=2, sampler="trees", uncertainty="none")
    assert share_right(run.impute(m=2, uncertainty="none")) < 0.65  # `auto` is exact then


def test_further_draws_have_trees_of_their_own(tmp_path: Path, run: vgi_cli.Run) -> None:
    """Those learnt when they are drawn are the very ones that a fit with more refits learns."""
    told = fit(tmp_path / "told", bootstrap=6)
    frame, _ = exclusive()
    for one, other in zip(vgi_cli.impute(run, frame, m=6), vgi_cli.impute(told, frame, m=6), strict=True):
        pd.testing.assert_frame_equal(one, other)


def test_a_column_that_was_whole_may_be_missing_later(run: vgi_cli.Run) -> None:
    frame, _ = exclusive()
    frame = frame.dropna().assign(a=None)
    right = [(table["a"] == np.where(frame["c"] != frame["b"], "yes", "no")).mean() for table in run.impute(frame, m=4)]
    assert np.mean(right) > 0.75


@pytest.mark.parametrize("alone", first(1, [False, True]))
def test_a_law_that_is_right_keeps_no_tree(tmp_path: Path, alone: bool) -> None:
    """Levels and numbers from one component; what pairs say of levels is kept all the same."""
    rng = np.random.default_rng(1)
    rows = 800
    a = rng.random(rows) < 0.3
    frame = pd.DataFrame({"b": np.where(rng.random(rows) < 0.2 + 0.6 * a, "s", "t"), "x": rng.standard_normal(rows)})
    frame.loc[rng.random(rows) < 0.4, "b"] = None
    if not alone:
        frame["a"] = np.where(a, "u", "v")
    run = vgi_cli.fit(frame, out=tmp_path / "run", model="mixture", seed=2, threads=1, set={"model.components": 1})
    held = load_run(run.path, Silent()).trees
    assert not any(tree is not None and tree.splits for refit in held for tree in refit)
    assert any(len(tree.pairs) for refit in held for tree in refit if tree is not None)


def test_columns_without_a_gain_keep_no_tree(run: vgi_cli.Run) -> None:
    """The number x says nothing and nothing says it."""
    kept = load_run(run.path, Silent()).trees
    assert len(kept) == 4
    for some in kept:
        grown = [name for name, tree in zip("abcx", some, strict=True) if tree is not None and tree.splits]
        assert grown == ["a", "b", "c"]


ROWS = [torch.tensor([4, 7, 8]), torch.tensor([4, 7, 9])]
"""Cells that two refits held out: two of them both did."""


def test_the_gain_of_levels_is_that_of_the_mean_probability() -> None:
    law = [torch.tensor([0.1, 0.4, 0.9]), torch.tensor([0.3, 0.2, 0.5])]
    corrected = [torch.tensor([0.3, 0.4, 0.1]), torch.tensor([0.3, 0.5, 0.3])]
    scores = [trees.Scores(*some) for some in zip(ROWS, ROWS, law, corrected, strict=True)]
    by_hand = torch.tensor([0.6 / 0.4, 0.9 / 0.6]).log()
    gain = trees.gain_of(scores, True)
    assert gain.mean == pytest.approx(by_hand.mean().item(), rel=1e-5)
    assert gain.error == pytest.approx(by_hand.std().item() / 2**0.5, rel=1e-4, abs=1e-7)
    empty = torch.zeros(0, dtype=torch.int64)
    assert trees.gain_of([trees.Scores(*[empty] * 4)], True) == (0.0, 0.0)


def test_the_gain_of_numbers_is_that_of_the_fair_crps() -> None:
    value = [torch.tensor([1.0, 2.0, 0.0]), torch.tensor([1.0, 2.0, 0.0])]
    law = [torch.tensor([0.0, 5.0, 0.0]), torch.tensor([3.0, 2.0, 0.0])]
    corrected = [torch.tensor([1.0, 3.0, 9.0]), torch.tensor([2.0, 2.0, 9.0])]
    scores = [trees.Scores(*some) for some in zip(ROWS, value, law, corrected, strict=True)]

    def fair(draws: tuple[float, float], truth: float) -> float:
        return sum(abs(draw - truth) for draw in draws) / 2 - abs(draws[0] - draws[1]) / 2

    by_hand = [fair((0, 3), 1) - fair((1, 2), 1), fair((5, 2), 2) - fair((3, 2), 2)]
    assert trees.gain_of(scores, False).mean == pytest.approx(sum(by_hand) / 2)


def table(rows: int, levels: tuple[int, ...]) -> TensorTable:
    layout = Layout.of([f"c{i}" for i in range(len(levels))], levels=levels)
    return TensorTable(torch.zeros(rows, len(levels)), torch.zeros(rows, len(levels), dtype=torch.bool), layout)


def test_of_how_many_rows_trees_are_learnt() -> None:
    mixed = (0, 0, 3, 2)
    assert trees.rows_for(table(99, mixed)) == 0
    assert trees.rows_for(table(100, mixed)) == 100
    assert trees.rows_for(table(50_000, mixed)) == trees.MOST_ROWS
    assert trees.rows_for(table(500, (0, 0, 0))) == 500  # numbers alone
    assert 500 <= trees.rows_for(table(50_000, (0, 2) * 35)) < trees.MOST_ROWS
    assert trees.rows_for(table(50_000, (0, 50) * 50)) == 0  # too wide: fewer than 500 rows could be afforded


def test_a_time_limit_leaves_trees_out(run: vgi_cli.Run) -> None:
    fitted = load_run(run.path, Silent())
    rows = fitted.rows(fitted_table())
    warned: list[str] = []

    class Heard(Silent):
        def warn(self, text: str) -> None:
            warned.append(text)

    work = Work(Heard(), TimeLimit(0.0))
    assert trees.learnt(fitted.recipe, fitted.refits, rows.table, range(4), work) == []
    assert warned == ["the time limit left no time for trees: draws come from the mixture alone"]


@pytest.mark.parametrize(("gain", "said"), [(1.0, 1), (-1.0, 0)])
def test_trees_that_predict_no_column_better_are_not_spoken_of(
    run: vgi_cli.Run, monkeypatch: pytest.MonkeyPatch, gain: float, said: int
) -> None:
    fitted = load_run(run.path, Silent())
    rows = fitted.rows(fitted_table())
    lines: list[str] = []

    class Heard(Silent):
        def detail(self, line: str) -> None:
            lines.append(line)

    monkeypatch.setattr(trees, "gain_of", lambda *_: trees.Gain(gain, 0.0))
    found = trees.learnt(fitted.recipe, fitted.refits, rows.table, range(4), Work(Heard(), TimeLimit(None)))
    assert any(tree is not None and tree.splits for refit in found for tree in refit) == bool(said)
    assert [line.split(":")[0] for line in lines if "trees predict" in line] == [
        "trees predict held-out cells of 4 of 4 columns better"
    ] * said


def fitted_table() -> Any:
    from vgi_cli.table.frames import from_frame

    return from_frame(exclusive()[0])


def test_corrections_by_pairs_are_as_far_apart_as_all_rows_of_the_table_would_have_them() -> None:
    """Means of 1,000 of 4,000 rows, others for each of 20 refits, resampled: what is left of their variance is that of
    the mean of all rows, and the error of the refits' own mean."""
    g = torch.Generator().manual_seed(0)
    rows, N, k = 1000, 4000, 20
    one, other = Recipe(), Recipe(seed=5)
    kept, before = [], []
    for _ in range(60):
        x = torch.randn(N, dtype=torch.float64, generator=g)
        resampled = [
            x[torch.randperm(N, generator=g)[:rows]][torch.randint(rows, (rows,), generator=g)].mean() for _ in range(k)
        ]
        pairs = [[torch.full((2, 1), float(mean))] for mean in resampled]
        pooled = less_apart(pairs, [one] * k, rows, N)
        kept.append(float(torch.stack([own[0][0, 0] for own in pooled]).var()))
        before.append(float(torch.stack(resampled).var()))
    assert np.mean(before) == pytest.approx((2 - rows / N) / rows, rel=0.1)
    assert np.mean(kept) == pytest.approx(1 / N + (2 - rows / N) / rows / k, rel=0.1)
    two = [[torch.tensor([[float(i)]])] for i in range(4)]
    apart = less_apart(two, [one, other, one, other], rows, N)  # of each model for itself
    left = (1 / 7 + 1 / 2) ** 0.5
    assert [float(own[0]) for own in apart[::2]] == pytest.approx([1 - left, 1 + left])
    assert float(apart[1][0] + apart[3][0]) == pytest.approx(4.0)
    assert less_apart(two, [one] * 4, N, N) == two  # each has seen all rows
    empty = [[torch.zeros(0, 0)], [torch.ones(1, 1)]]
    assert less_apart(empty, [one, one], rows, N) == empty
