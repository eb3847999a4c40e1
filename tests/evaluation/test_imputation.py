"""Scores of imputations against closed forms."""

from __future__ import annotations

import math

import pytest
import torch

from vgi_cli.columns.categorical import Categorical
from vgi_cli.columns.number import Number
from vgi_cli.columns.scale import Scale
from vgi_cli.errors import FitError
from vgi_cli.evaluation.imputation import (
    coverage,
    draws_alone,
    fair_crps,
    score_imputations,
    sliced_wasserstein,
    worse_than_alone,
)

SQRT_PI = math.sqrt(math.pi)


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def gaussian_crps(y: torch.Tensor) -> torch.Tensor:
    """CRPS of N(0, 1) at y: y (2 Phi(y) - 1) + 2 phi(y) - 1 / sqrt(pi)."""
    phi = torch.exp(-0.5 * y.square()) / math.sqrt(2 * math.pi)
    return y * (2 * torch.special.ndtr(y) - 1) + 2 * phi - 1 / SQRT_PI


@pytest.mark.parametrize("n", [2, 5, 19])
def test_fair_crps_is_unbiased_for_the_gaussian_crps_at_any_ensemble_size(n: int) -> None:
    y = torch.tensor([-2.0, 0.0, 0.7, 3.0], dtype=torch.float64)
    repeats = 20_000
    scores = fair_crps(normal(n, repeats, 4), y.expand(repeats, 4))
    error = (scores.mean(0) - gaussian_crps(y)) / (scores.std(0) / math.sqrt(repeats))
    assert (error.abs() < 4).all()


def test_fair_crps_is_the_pairwise_form() -> None:
    draws, truth = normal(7, 3), normal(3, seed=1)
    pairs = (draws[:, None] - draws[None]).abs().sum((0, 1)) / (2 * 7 * 6)
    torch.testing.assert_close(fair_crps(draws, truth), (draws - truth).abs().mean(0) - pairs)
    torch.testing.assert_close(fair_crps(draws[:1], truth), (draws[0] - truth).abs())


def test_fair_crps_is_never_below_zero_and_zero_for_draws_that_are_all_true() -> None:
    truth = 1e3 * normal(2_000, seed=2)
    for n in (2, 3, 5, 7, 20):
        assert (fair_crps(truth.expand(n, -1), truth) == 0).all(), n
        middle = torch.stack([truth - 1 / 3, *[truth] * (n - 2), truth + 1 / 3])  # 0 too, but for rounding
        assert (fair_crps(middle, truth) >= 0).all() and (fair_crps(middle, truth) < 1e-10).all(), n
    wrong = fair_crps(torch.full((5, 2), 0.3, dtype=torch.float64), torch.tensor([0.3, 0.1], dtype=torch.float64))
    assert wrong.tolist() == [0.0, pytest.approx(0.2, abs=1e-15)]


def test_coverage_of_calibrated_draws_is_18_of_20() -> None:
    cells = 20_000
    got = coverage(normal(19, cells), normal(cells, seed=1))
    assert got == pytest.approx(0.9, abs=4 * math.sqrt(0.9 * 0.1 / cells))
    assert coverage(normal(18, 3), normal(3)) is None
    whole = coverage((2 * normal(19, cells)).round(), (2 * normal(cells, seed=1)).round())  # ties
    assert whole is not None and abs(whole - 0.9) < 4 * (0.09 / cells) ** 0.5
    more = coverage(normal(40, cells), normal(cells, seed=1))  # the first 19 count
    assert more == pytest.approx(0.9, abs=4 * math.sqrt(0.9 * 0.1 / cells))


@pytest.mark.full_fits("evaluation.imputation.DIRECTIONS")
def test_sliced_wasserstein_of_a_shift() -> None:
    """A shift by s in one of 3 directions moves each projection by s times |u_1|, and E|u_1| = 1/2."""
    x = normal(500, 3)
    shifted = x + torch.tensor([2.0, 0.0, 0.0], dtype=torch.float64)
    expected = 2.0 * 0.5
    got = sliced_wasserstein(x, shifted, torch.Generator().manual_seed(0))
    assert got == pytest.approx(expected, abs=0.2)
    assert sliced_wasserstein(x, x.flip(0), torch.Generator().manual_seed(0)) == 0.0


def columns(names: str) -> list[Number]:
    return [Number(name, "numeric", low=0.0, high=1.0, scale=Scale(0.0, 1.0)) for name in names]


def test_scores_by_column_and_overall() -> None:
    truth = torch.tensor([[0.0, 10.0], [1.0, 20.0], [2.0, torch.nan]], dtype=torch.float64)
    hidden = torch.tensor([[True, True], [False, True], [True, True]])
    draws = torch.stack([truth.nan_to_num(0.0) + 1.0, truth.nan_to_num(0.0) + 3.0])
    sd = torch.tensor([2.0, 0.0], dtype=torch.float64)
    s = score_imputations(draws, truth, hidden, columns("ab"), sd)
    a, b = s.columns["a"], s.columns["b"]
    assert (a["cells"], b["cells"]) == (2, 2)  # the unknown truth is left out
    assert a["rmse"] == a["mae"] == 2.0 and a["crps"] == pytest.approx(
        2.0 - 1.0
    )  # |2| mean error less half the gap of 2
    assert b["sd"] == 1.0  # a constant column is not divided
    assert s.overall["rmse"] == pytest.approx((2.0 / 2.0 + 2.0) / 2) and s.overall["crps"] == pytest.approx(
        (1.0 / 2 + 1.0) / 2
    )
    assert s.overall["coverage90"] is None and s.sliced_wasserstein is not None and s.sliced_wasserstein > 0


def test_nothing_to_score_and_refusals() -> None:
    truth = torch.zeros(2, 1)
    none = torch.zeros(2, 1, dtype=torch.bool)
    assert score_imputations(torch.zeros(3, 2, 1), truth, none, columns("a"), torch.ones(1)) is None
    assert score_imputations(torch.zeros(3, 2, 1), truth * torch.nan, ~none, columns("a"), torch.ones(1)) is None
    one = score_imputations(torch.zeros(19, 1, 1), truth[:1], ~none[:1], columns("a"), torch.ones(1))
    assert one.sliced_wasserstein is None and one.overall["coverage90"] == pytest.approx(0.9)
    with pytest.raises(FitError, match="a draw of a hidden cell is not finite"):
        score_imputations(torch.full((3, 2, 1), torch.nan), truth, ~none, columns("a"), torch.ones(1))


def test_draws_from_columns_alone_are_their_observed_cells_each_as_likely() -> None:
    observed = [torch.tensor([1.0, 2.0, 2.0, 5.0]), torch.tensor([])]
    cells = torch.tensor([[True, True], [False, True]]).repeat(2_000, 1)
    draws = draws_alone(observed, cells, torch.Generator().manual_seed(0))
    assert draws.shape == (19, 4_000, 2)
    assert bool(draws[:, 1::2, 0].isnan().all()) and bool(draws[..., 1].isnan().all())
    drawn = draws[:, ::2, 0]
    assert set(drawn.unique().tolist()) == {1.0, 2.0, 5.0}
    assert float((drawn == 2).double().mean()) == pytest.approx(0.5, abs=0.01)
    # their CRPS is that of two of them: half the mean distance, 1 + 0 + 3 + ... of all pairs
    truth = torch.tensor([1.0, 2.0, 2.0, 5.0]).repeat(500)
    apart = (observed[0][:, None] - observed[0]).abs().mean()
    assert float(fair_crps(drawn, truth.double()).mean()) == pytest.approx(float(apart / 2), abs=0.03)


def test_columns_whose_fills_are_worse_than_draws_from_the_column_alone_are_found() -> None:
    n, cells = 19, 400
    numbers, sex = columns("abc"), Categorical("sex", "categorical", levels=("f", "m"))
    truth = normal(cells, 4, seed=1)
    truth[:, 3] = (truth[:, 3] > 0).double()
    alone = normal(n, cells, 4, seed=2)
    alone[..., 3] = (alone[..., 3] > 0).double()
    draws = normal(n, cells, 4, seed=3)
    draws[..., 0] = 0.5 * draws[..., 0] - truth[:, 0]
    draws[..., 2] = 0.5 * draws[..., 2] + truth[:, 2]
    draws[..., 3] = 1 - truth[:, 3]
    every = torch.ones(cells, 4, dtype=torch.bool)
    assert worse_than_alone(draws, alone, truth, every, [*numbers, sex]) == ["a", "sex"]
    few = every.clone()
    few[9:, 0] = False  # too few cells to tell
    truth[:, 3] = torch.nan  # not known
    assert worse_than_alone(draws, alone, truth, few, [*numbers, sex]) == []
    alone[:, 5:, 0] = torch.nan  # nothing to draw from
    assert worse_than_alone(draws, alone, truth, every, [*numbers, sex]) == []
