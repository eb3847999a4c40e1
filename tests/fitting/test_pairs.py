"""What pairs of columns say beyond a mixture's laws of single cells, against closed forms and another library."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor

import vgi_cli
from vgi_cli.data import TensorTable, make_table
from vgi_cli.fitting import pairs, refits, trees
from vgi_cli.fitting.pairs import _coefficients, _shifts, pairs_of, rows_for
from vgi_cli.layout import Layout
from vgi_cli.maths.indicators import Indicators
from vgi_cli.maths.trees import NO_PAIRS, Tree, packed, unpacked
from vgi_cli.methods.em.steps import climb
from vgi_cli.models.gaussian.family import em_table
from vgi_cli.models.gaussian.mixture import GaussianMixture, MixtureConfig
from vgi_cli.samplers.trees import FAR, Cell

LEVELS = (0, 3, 2, 4)
LAYOUT = Layout.of(("x", "a", "b", "c"), levels=LEVELS)


def rows(n: int, seed: int = 0) -> Tensor:
    """A number, and three columns of levels that depend on each other."""
    rng = np.random.default_rng(seed)
    b, c = rng.integers(0, 2, n), rng.integers(0, 4, n)
    a = (rng.random(n) < 0.2 + 0.5 * b).astype(int) + (rng.random(n) < 0.1 + 0.2 * c)
    return torch.from_numpy(np.stack([rng.normal(size=n), a, b, c], 1).astype(np.float64))


def independent(x: Tensor) -> GaussianMixture:
    """A mixture of one component in which nothing depends on anything."""
    model = GaussianMixture.build(MixtureConfig(components=1, levels="independent"), LAYOUT).double()
    model.initialise(x, torch.Generator().manual_seed(0))
    return model.eval().requires_grad_(False)


def cell(x: Tensor, j: int) -> Cell:
    return Cell(independent(x).cell_laws(), Indicators(LEVELS), x, j)


def test_coefficients_are_those_of_a_logistic_regression() -> None:
    """Where the law says nothing, another library finds the same with the same prior: normal for each level, and for
    what levels do not say of the number in its standard deviations."""
    from sklearn.linear_model import LogisticRegression, Ridge

    x = rows(400)
    assert x[:, 0].abs().max() <= FAR
    weight = torch.rand(400, generator=torch.Generator().manual_seed(1), dtype=torch.float64) + 0.5
    one = cell(x, 1)
    one.probs = torch.full((400, 3), 1 / 3, dtype=torch.float64)
    found = _coefficients(one, x[:, 1].long(), weight)
    assert found.shape == (10, 3) and not found[:3].any()  # its own levels say nothing of it
    levels, number, w = (
        np.concatenate([np.eye(2)[x[:, 2].long()], np.eye(4)[x[:, 3].long()]], 1),
        x[:, 0].numpy(),
        weight,
    )
    left = number - Ridge(1.0, fit_intercept=False).fit(levels, number, w.numpy()).predict(levels)
    shown = np.column_stack([levels, left / np.sqrt(np.cov(left, aweights=w.numpy(), ddof=0) + pairs.NARROW)])
    other = LogisticRegression(C=1 / 3, fit_intercept=False, tol=1e-10, max_iter=5000)
    other.fit(shown, x[:, 1].long().numpy(), sample_weight=w.numpy())
    score = found[3:9].numpy() @ np.ones(3)  # a number for all levels alike says nothing
    np.testing.assert_allclose(score, 0, atol=1e-5)
    mine = levels @ found[3:9].numpy() + number[:, None] @ found[9:].numpy()
    np.testing.assert_allclose(mine, other.decision_function(shown), atol=1e-3)


def test_numbers_that_nearly_say_the_same_are_heard_apart() -> None:
    """What decides upon the level is their small difference, less what another column of levels makes of that."""
    rng = np.random.default_rng(8)
    n = 2000
    a, c, first = rng.integers(0, 2, n), rng.integers(0, 4, n), rng.normal(size=n)
    second = first + 0.1 * a + 0.2 * c + 0.1 * rng.normal(size=n)
    x = torch.from_numpy(np.stack([first, second, a, c], 1))
    layout = Layout.of(("x", "y", "a", "c"), levels=(0, 0, 2, 4))
    model = GaussianMixture.build(MixtureConfig(components=1, levels="independent"), layout).double()
    model.initialise(x, torch.Generator().manual_seed(0))
    one = Cell(model.eval().requires_grad_(False).cell_laws(), Indicators((0, 0, 2, 4)), x, 2)
    one.probs = torch.full((n, 2), 0.5, dtype=torch.float64)
    found = _coefficients(one, x[:, 2].long(), torch.ones(n, dtype=torch.float64)).double()
    odds = found[:, 1] - found[:, 0]
    truth = 0.1 / 0.1**2  # the difference of the means by the variance
    assert odds[7] == pytest.approx(truth, rel=0.15) and odds[6] == pytest.approx(-truth, rel=0.15)
    assert odds[2:6] - odds[2] == pytest.approx(-truth * 0.2 * np.arange(4), rel=0.2, abs=1e-9)


def test_a_law_that_is_right_is_hardly_corrected() -> None:
    x = rows(20_000)
    one = cell(x, 1)
    table = torch.zeros(2, 4, 3, dtype=torch.float64)
    for b, c, a in zip(x[:, 2].long(), x[:, 3].long(), x[:, 1].long(), strict=True):
        table[b, c, a] += 1
    one.probs = (table / table.sum(-1, keepdim=True))[x[:, 2].long(), x[:, 3].long()]
    found = _coefficients(one, x[:, 1].long(), torch.ones(20_000, dtype=torch.float64))
    assert found[:9].abs().max() < 1e-3 and found[9].abs().max() < 4 / 20_000**0.5


def test_a_corrected_law_has_the_frequencies_of_its_rows() -> None:
    """The sums over the rows with each level of another column are met, but for the prior."""
    x = rows(3000)
    one = cell(x, 1)
    found = _coefficients(one, x[:, 1].long(), torch.ones(3000, dtype=torch.float64))
    law = one.paired(found)
    torch.testing.assert_close(law.sum(1), torch.ones(3000, dtype=torch.float64))
    assert one.probs is not None
    for j, count in ((2, 2), (3, 4)):
        wrong = []
        for level in range(count):
            some = x[:, j] == level
            seen = torch.nn.functional.one_hot(x[some, 1].long(), 3).double().mean(0)
            torch.testing.assert_close(law[some].mean(0), seen, atol=0.005, rtol=0)
            wrong.append(float((one.probs[some].mean(0) - seen).abs().max()))
        assert max(wrong) > 0.1


def test_factors_multiply_the_law() -> None:
    x = rows(50)
    one = cell(x, 2)
    factors = torch.randn(9, 2, generator=torch.Generator().manual_seed(2))
    factors[3:5] = 0
    expected = one.probs * (factors[x[:, 1].long()] + factors[5 + x[:, 3].long()]).double().exp()  # type: ignore[operator]
    torch.testing.assert_close(one.paired(factors), expected / expected.sum(1, keepdim=True))
    tree = Tree(torch.tensor([-1]), torch.zeros(1), torch.tensor([[-1, -1]]), torch.tensor([[1.0, 3.0]]), factors)
    both = expected * torch.tensor([1.0, 3.0])
    torch.testing.assert_close(one.probabilities(tree), both / both.sum(1, keepdim=True))
    alone = tree.without_splits()
    assert alone is not None
    torch.testing.assert_close(one.probabilities(alone), one.paired(factors))


def table_of(n: int, levels: tuple[int, ...] = LEVELS) -> TensorTable:
    x = rows(n)[:, : len(levels)]
    missing = torch.rand(x.shape, generator=torch.Generator().manual_seed(3)) < 0.2
    missing[:, 0] = False
    return make_table(torch.where(missing, 0.0, x), missing, Layout.of(LAYOUT.names[: len(levels)], levels=levels))


def test_which_columns_have_some() -> None:
    table = table_of(300)
    counts, stream = torch.ones(300, dtype=torch.float64), torch.Generator
    found = pairs_of(independent(rows(300)), table, counts, None, stream().manual_seed(5))
    assert [one.shape for one in found][1:] == [(10, 3), (10, 2), (10, 4)]
    again = pairs_of(independent(rows(300)), table, counts, None, stream().manual_seed(5))
    assert all(torch.equal(a, b) for a, b in zip(found, again, strict=True))
    few = table._replace(missing=table.missing.index_put((torch.arange(290), torch.tensor(2)), torch.tensor(True)))
    assert pairs_of(independent(rows(300)), few, counts, None, stream().manual_seed(5))[2].shape == (0, 0)


def test_a_table_of_numbers_has_none() -> None:
    x = torch.randn(200, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    table = make_table(x, torch.zeros(200, 3, dtype=torch.bool))
    model = GaussianMixture.build(MixtureConfig(components=1), table.layout).double()
    model.initialise(x, torch.Generator().manual_seed(0))
    state = torch.Generator().manual_seed(5)
    before = state.get_state()
    assert all(one is NO_PAIRS for one in pairs_of(model, table, torch.ones(200), None, state))
    assert torch.equal(state.get_state(), before)


def test_a_number_is_moved_for_levels_that_say_more_of_it() -> None:
    """By the means of its levels, pulled to 0 as the variances of effects and of the rest say."""
    x, effect = rows(3000), torch.tensor([-0.4, 0.1, 0.0, 0.5], dtype=torch.float64)
    x[:, 0] += effect[x[:, 3].long()]
    one, weight = cell(x, 0), torch.ones(3000, dtype=torch.float64)
    columns = [slice(0, 3), slice(3, 5), slice(5, 9)]
    found = _shifts(one, x[:, 0], weight, columns)
    assert found.shape == (9, 1)
    law = one.moved(found)
    for level in range(4):
        some = x[:, 3] == level
        assert law.centre()[some].mean() == pytest.approx(float(x[some, 0].mean()), abs=0.02)
    three_errors = 0.12
    assert found[5:, 0] - found[5:, 0].mean() == pytest.approx((effect - effect.mean()).numpy(), abs=three_errors)
    assert _shifts(one, x[:, 0], weight, columns[1:2]).shape == (0, 0)  # which say nothing
    assert one.law is not None and torch.equal(law.sd, one.law.sd)


def test_effects_are_pulled_to_none_by_as_much_as_they_may_be_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    """A single column: the closed form of a random effect, of levels with as many rows each."""
    g = torch.Generator().manual_seed(7)
    x = torch.zeros(400, 4, dtype=torch.float64)
    x[:, 3] = torch.arange(400) % 4
    x[:, 0] = torch.randn(400, generator=g, dtype=torch.float64) + 0.5 * (x[:, 3] == 1)
    one, weight = cell(x, 0), torch.ones(400, dtype=torch.float64)
    monkeypatch.setattr(pairs, "PASSES", 100)
    found = _shifts(one, x[:, 0], weight, [slice(5, 9)])[5:, 0].double()
    left = x[:, 0] - x[:, 0].mean()
    mean = torch.stack([left[x[:, 3] == level].mean() for level in range(4)])
    pull = (found @ mean) / (mean @ mean)
    torch.testing.assert_close(found, mean * pull, atol=1e-6, rtol=1e-5)
    rest = (left - found[x[:, 3].long()]).square().sum() / (400 - 2 * 4 * pull)
    variance = (100 * mean.square().sum() - 2 * 3 * rest) / (400 - 100)
    torch.testing.assert_close(pull, 100 / (100 + rest / variance), atol=1e-6, rtol=1e-6)


def test_an_effect_is_seen_beside_larger_ones_of_other_columns() -> None:
    rng = np.random.default_rng(3)
    a, b, c = rng.integers(0, 3, 300), rng.integers(0, 2, 300), rng.integers(0, 4, 300)
    x = np.stack([0.25 * a + 1.5 * c + 0.5 * rng.normal(size=300), a, b, c], 1)
    rows = torch.from_numpy(x)
    one, weight = cell(rows, 0), torch.ones(300, dtype=torch.float64)
    columns = [slice(0, 3), slice(3, 5), slice(5, 9)]
    found = _shifts(one, rows[:, 0], weight, columns)[:, 0]
    assert found[2] - found[0] == pytest.approx(0.5, abs=0.15)
    assert not found[3:5].any()


def test_rows_that_weigh_more_than_others_show_no_effects_by_chance() -> None:
    """Of a column of 40 levels that says nothing of a number: as little with weights as without."""
    layout, n = Layout.of(("x", "a"), levels=(0, 40)), 300
    found: dict[bool, list[float]] = {False: [], True: []}
    for seed in range(12):
        g = torch.Generator().manual_seed(seed)
        x = torch.stack([torch.randn(n, generator=g), torch.randint(40, (n,), generator=g).float()], 1).double()
        table = make_table(x, torch.zeros_like(x, dtype=torch.bool), layout).to(dtype=torch.float64)
        model = GaussianMixture.build(MixtureConfig(components=1, levels="independent"), layout).double()
        model.initialise(x, torch.Generator().manual_seed(0))
        model.eval().requires_grad_(False)
        counts = torch.bincount(torch.randint(n, (n,), generator=g), minlength=n)
        weights = 4 * torch.rand(n, generator=g) ** 3
        for own in (None, weights):
            moved = pairs_of(model, table, counts, own, torch.Generator().manual_seed(1))[0]
            found[own is not None].append(float(moved.std()) if len(moved) else 0.0)
    assert pairs._chance(counts, torch.full((n,), 3.0)) == pytest.approx(2.0)
    assert all(float(np.mean(own)) < 0.15 for own in found.values())


def test_effects_that_leave_nothing_of_a_number_are_told_apart() -> None:
    """As a sum of two lists of prices, or a price for each level of two columns that say the same."""
    g = torch.Generator().manual_seed(1)
    x = torch.zeros(10_000, 4, dtype=torch.float64)
    x[:, 2], x[:, 3] = torch.randint(2, (10_000,), generator=g), torch.randint(3, (10_000,), generator=g)
    columns, weight = [slice(3, 5), slice(5, 9)], torch.ones(10_000, dtype=torch.float64)
    for a, b in ((0.5, 0.3), (0.0, 1.0)):
        value = a * x[:, 2] + b * x[:, 3]
        one = cell(x, 0)
        assert one.law is not None
        one.law = one.law._replace(mean=torch.zeros_like(one.law.mean))
        found = _shifts(one, value, weight, columns)[:, 0]
        assert found.abs().max() < 1.5  # the last level of all has no row: what is said of it is near 0
        assert found[8] == 0
        torch.testing.assert_close(one._by_levels(found[:, None], 1)[:, 0], value - value.mean(), atol=1e-4, rtol=0)
    twice = x.clone()
    twice[:, 3] = twice[:, 2]
    one = cell(twice, 0)
    assert one.law is not None
    one.law = one.law._replace(mean=torch.zeros_like(one.law.mean))
    found = _shifts(one, twice[:, 2], weight, columns)[:, 0]
    torch.testing.assert_close(found[3:5], found[5:7], atol=1e-4, rtol=0)
    assert found[4] - found[3] == pytest.approx(0.5, abs=1e-3)


def test_a_level_that_the_law_rules_out_is_not_drawn_however_much_speaks_for_it() -> None:
    x = rows(2)
    one = cell(x, 1)
    one.probs = torch.tensor([[0.75, 0.25, 0.0]] * 2, dtype=torch.float64)
    said = torch.zeros(10, 3)
    said[3:5, 2] = 900.0
    assert torch.equal(one.paired(said), one.probs)
    said[3:5, 1] = 900.0
    torch.testing.assert_close(one.paired(said), torch.tensor([[0.0, 1.0, 0.0]] * 2, dtype=torch.float64))


@pytest.mark.parametrize("count", [100, 600])
def test_each_refit_of_many_rows_takes_others(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(pairs, "MOST_ROWS", 600)
    table, model = table_of(1500), independent(rows(1500))
    table = table._replace(x=rows(1500), missing=torch.zeros_like(table.missing))
    part, alike = table.rows(torch.arange(count)), torch.ones(count)
    one, other = (
        trees._pairs(model, table, part, alike, None, False, torch.Generator().manual_seed(seed)) for seed in (1, 2)
    )
    assert not torch.equal(one[1], other[1])
    torch.testing.assert_close(one[1], other[1], atol=1.0, rtol=0)  # of 600 rows, not of 100


def test_the_work_is_bounded() -> None:
    table = table_of(2000)
    assert rows_for(table) == 2000
    wide = make_table(torch.zeros(2000, 400), torch.zeros(2000, 400, dtype=torch.bool), Layout.plain(400))
    levels = Layout.of(tuple(f"c{i}" for i in range(400)), levels=(2,) * 400)
    assert rows_for(wide._replace(layout=levels)) == 0
    assert rows_for(wide) == 0  # of numbers alone
    narrow = wide.rows(torch.arange(100))._replace(layout=levels)  # whose coordinates take more than its rows
    assert rows_for(narrow) == 0


def test_the_laws_of_numbers_count_as_work() -> None:
    """Of 40 columns, two of them of levels, fewer rows are taken than of ten, though levels are as many."""
    x = torch.zeros(20_000, 1)

    def rows(numbers: int) -> int:
        layout = Layout.of(tuple(f"c{i}" for i in range(numbers + 2)), levels=(0,) * numbers + (3, 3))
        wide = x.expand(-1, numbers + 2)
        return rows_for(make_table(wide, torch.zeros_like(wide, dtype=torch.bool), layout))

    assert rows(8) == 10_000 and 2_000 < rows(38) < 8_000 and 500 < rows(76) < 1_000


def test_a_level_that_the_law_rules_out_leaves_a_law() -> None:
    """Where rows have it all the same."""
    x = rows(300)
    one = cell(x, 1)
    one.probs = torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64).expand(300, 3)
    found = _coefficients(one, x[:, 1].long(), torch.ones(300, dtype=torch.float64))
    assert found.isfinite().all() and one.paired(found).isfinite().all()
    huge = torch.full((9, 3), 400.0)
    huge[:, 1] = -400
    torch.testing.assert_close(cell(x, 2).paired(huge[:, :2]).sum(1), torch.ones(300, dtype=torch.float64))


def test_they_are_kept_in_a_run() -> None:
    leaf = Tree(torch.tensor([-1]), torch.zeros(1).double(), torch.tensor([[-1, -1]]), torch.ones(1, 10))
    three = leaf._replace(table=torch.ones(1, 3), pairs=torch.randn(9, 3))
    two = leaf._replace(table=torch.ones(1, 2), pairs=torch.randn(9, 2))
    _, first, second, none, third = unpacked(packed([leaf, three, leaf, None, two]))
    assert none is None and first is not None and second is not None and third is not None
    assert torch.equal(first.pairs[:, :3], three.pairs) and torch.equal(third.pairs[:, :2], two.pairs)
    assert len(second.pairs) == 0


@pytest.mark.slow
def test_fills_have_the_odds_ratio_of_the_observed_cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a model in which levels are independent; without what pairs say there would be none."""
    monkeypatch.setattr(refits, "COUNT", 4)
    rng = np.random.default_rng(4)
    arm, n = rng.random(1200) < 0.5, 1200
    frame = pd.DataFrame({"arm": np.where(arm, "new", "usual"), "x": rng.normal(size=n)})
    frame["response"] = np.where(rng.random(n) < 0.3 + 0.4 * arm, "yes", "no")
    frame.loc[rng.random(n) < 0.4, "response"] = None
    settings = {"model.components": 1, "model.levels": "independent"}
    run = vgi_cli.fit(frame, out=tmp_path / "run", model="mixture", seed=1, threads=1, set=settings)

    def effect(tables: list[pd.DataFrame]) -> float:
        holes = frame.response.isna()
        shares = [table[holes].groupby("arm").response.apply(lambda cells: (cells == "yes").mean()) for table in tables]
        return float(np.mean([share["new"] - share["usual"] for share in shares]))

    seen = frame.dropna().groupby("arm").response.apply(lambda cells: (cells == "yes").mean())
    assert effect(run.impute(m=8)) == pytest.approx(seen["new"] - seen["usual"], abs=0.07)
    assert effect(run.impute(m=5, sampler="exact")) == pytest.approx(0, abs=0.07)


def test_nothing_is_learnt_of_a_number_whose_law_is_not_that_of_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another column is followed closely: moved by a part of itself, all values are in the tails of the law."""
    generator = torch.Generator().manual_seed(6)
    x = torch.randn(400, 3, dtype=torch.float64, generator=generator)
    x[:, 1] = x[:, 0] + 0.01 * x[:, 1]
    x[:, 2] = (x[:, 2] > 0).double()
    layout = Layout.of(("x", "y", "level"), levels=(0, 0, 2))
    model = GaussianMixture.build(MixtureConfig(components=1, covariance="full"), layout).double()
    model.initialise(x, generator)
    seen = em_table(x, torch.zeros_like(x, dtype=torch.bool))
    climb(model, seen, model.penalty(0.0, 1e-6), epochs=5, tolerance=1e-9)
    model.eval().requires_grad_(False)
    law = model.cell_laws()
    moved = x.clone()
    moved[:, 0] += 0.5 * x[:, 2]
    for rows_, holds in ((x, True), (moved, False)):
        one = Cell(law, Indicators((0, 0, 2)), rows_, 1)
        assert one.holds(rows_[:, 1]) is holds
        table = make_table(rows_, torch.zeros_like(rows_, dtype=torch.bool), layout=layout)
        counts = torch.ones(400)
        found = pairs_of(model, table, counts, None, torch.Generator().manual_seed(7))
        observed = torch.ones(400, dtype=torch.bool)
        tree = trees._tree(one, rows_[:, 1], observed, counts.numpy(), 0, found[1])
        assert (tree is not None) is holds
        if not holds:
            assert not len(found[1])
    monkeypatch.setattr(Cell, "holds", lambda self, value: True)
    assert len(pairs_of(model, table, counts, None, torch.Generator().manual_seed(7))[1])  # it would have been
