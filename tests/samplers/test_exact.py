"""Exact imputation: the right law inside a box, observed cells untouched, draws that depend on their keys only."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from scipy.stats import truncnorm
from torch import Tensor

from tests.selection import covering
from vgi_cli.layout import Layout
from vgi_cli.maths.noise import KeyedNoise, numbered
from vgi_cli.models.base import Marginal
from vgi_cli.models.gaussian.mixture import GaussianMixture, MixtureConfig
from vgi_cli.samplers.base import ROW_BLOCK, Box, impute
from vgi_cli.samplers.exact import SWEPT, ExactImputer
from vgi_cli.samplers.rows import draw_rows

D = 3


def gaussian(mean: float = 0.0, correlation: float = 0.6) -> GaussianMixture:
    model = GaussianMixture.build(MixtureConfig(components=1), Layout.plain(D)).double()
    covariance = torch.full((D, D), correlation, dtype=torch.float64).fill_diagonal_(1.0)
    model.gaussians.set_moments(torch.full((1, D), mean, dtype=torch.float64), covariance[None])
    return model


def free() -> Box:
    return Box(torch.full((D,), -torch.inf, dtype=torch.float64), torch.full((D,), torch.inf, dtype=torch.float64))


def interval(low: float, high: float) -> Box:
    return Box(torch.full((D,), low, dtype=torch.float64), torch.full((D,), high, dtype=torch.float64))


def noise(n: int, rows: int) -> KeyedNoise:
    return KeyedNoise(5, numbered("c", D), torch.arange(rows), torch.arange(n))


def rows(R: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(R, D, dtype=torch.float64, generator=generator).clamp(-0.9, 0.9)
    return x, torch.rand(R, D, generator=generator) < 0.5


def test_observed_cells_stay_bit_equal_and_fills_stay_in_the_box() -> None:
    x, missing = rows(300)
    imputer = ExactImputer([gaussian()])
    draws = impute(imputer, x, missing, noise(3, 300), interval(-1.0, 1.0))
    assert draws.shape == (3, 300, D)
    assert bool((draws == x)[:, ~missing].all())
    assert bool(((draws >= -1.0) & (draws <= 1.0))[:, missing].all())
    found = imputer.diagnostics()
    assert found["cells"] == 3 * int(missing.sum()) and 0 < int(str(found["redrawn_cells"])) < int(str(found["cells"]))


def test_it_tells_how_far_it_is_and_is_ended_on_the_way() -> None:
    """Rows that are redrawn take most of the time; where there are many columns, minutes."""
    x, missing = rows(ROW_BLOCK)
    imputer, told = ExactImputer([gaussian(), gaussian(0.1)]), list[float]()
    imputer.watch = told.append
    whole = imputer.sample(x, missing, noise(4, ROW_BLOCK), interval(-0.5, 0.5))
    assert told == sorted(told) and told[0] == 0 and told[-1] < 1 and len(told) > 4 * 3
    assert told.count(0.5) >= 1  # where the draws of the second refit begin

    def over(share: float) -> None:
        if share > 0.5:
            raise TimeoutError

    imputer.watch = over
    with pytest.raises(TimeoutError):
        imputer.sample(x, missing, noise(4, ROW_BLOCK), interval(-0.5, 0.5))
    again = ExactImputer([gaussian(), gaussian(0.1)]).sample(x, missing, noise(4, ROW_BLOCK), interval(-0.5, 0.5))
    assert torch.equal(whole, again)


def test_draw_i_comes_from_refit_i_modulo_their_number() -> None:
    x, missing = torch.zeros(4, D, dtype=torch.float64), torch.ones(4, D, dtype=torch.bool)
    draws = ExactImputer([gaussian(-50.0), gaussian(50.0)]).sample(x, missing, noise(5, 4), free())
    assert (draws.mean((1, 2)) > 0).tolist() == [False, True, False, True, False]


def test_more_draws_and_fewer_rows_leave_the_others_unchanged() -> None:
    x, missing = rows(ROW_BLOCK + 20)
    models = [gaussian(), gaussian(0.1), gaussian(-0.1)]
    box = interval(-1.5, 1.5)
    many = impute(ExactImputer(models), x, missing, noise(7, len(x)), box)
    few = impute(ExactImputer(models), x, missing, noise(4, len(x)), box)
    assert torch.equal(many[:4], few)
    last = impute(ExactImputer(models), x[-5:], missing[-5:], noise(7, len(x)).select(rows=torch.arange(-5, 0)), box)
    assert torch.equal(many[:, -5:], last)


def by_grid() -> GaussianMixture:
    """A model that knows no truncated law of its own: its columns are redrawn as the base class does it."""
    model = gaussian()
    model.column_redraws = lambda: Marginal.column_redraws(model)  # type: ignore[method-assign]
    return model


@covering(
    pytest.mark.parametrize(("attempts", "low", "high"), [(50, -0.5, 1.0), (0, -0.5, 1.0), (0, 3.0, 4.0)]),
    pytest.mark.parametrize("make", [gaussian, by_grid]),
)
def test_one_missing_cell_has_the_truncated_normal_law(
    make: Callable[[], GaussianMixture], attempts: int, low: float, high: float
) -> None:
    """By rejection alone, by Gibbs alone, and far out where rejection has no chance."""
    R = 4000
    x = torch.tensor([0.4, 0.0, -0.2], dtype=torch.float64).repeat(R, 1)
    missing = torch.tensor([False, True, False]).repeat(R, 1)
    imputer = ExactImputer([make()], attempts, sweeps=2)
    draws = imputer.sample(x, missing, noise(1, R), interval(low, high))[0, :, 1]
    mean = 0.6 * (0.4 - 0.2) / 1.6
    sd = (1 - 2 * 0.36 / 1.6) ** 0.5
    law = truncnorm((low - mean) / sd, (high - mean) / sd, mean, sd)
    ordered = torch.from_numpy(law.cdf(draws.sort().values.numpy()))
    distance = (ordered - torch.arange(R) / R).abs().max().item()
    assert distance < 1.95 / R**0.5  # Kolmogorov-Smirnov, p = 0.001


@pytest.mark.slow
def test_rejection_and_gibbs_give_the_same_joint_law() -> None:
    R = 1500
    x, missing = torch.zeros(R, D, dtype=torch.float64), torch.ones(R, D, dtype=torch.bool)
    box = interval(0.0, 1.5)
    rejected = ExactImputer([gaussian()], 60).sample(x, missing, noise(1, R), box)[0]
    swept = ExactImputer([gaussian()], 0, sweeps=15).sample(x, missing, noise(1, R).at("other"), box)[0]
    for power in (rejected, swept):
        assert bool(box.contains(power).all())
    error = 4 * (2 / R) ** 0.5
    assert (rejected.mean(0) - swept.mean(0)).abs().max() < error * 0.45
    assert (torch.corrcoef(rejected.mT) - torch.corrcoef(swept.mT)).abs().max() < error
    assert (rejected.std(0) - swept.std(0)).abs().max() < error * 0.45


def test_on_a_grid_a_column_without_bounds_stays_and_the_others_come_inside() -> None:
    x, missing = torch.zeros(10, D, dtype=torch.float64), torch.ones(10, D, dtype=torch.bool)
    box = interval(2.0, 3.0)
    box.low[1], box.high[1] = -torch.inf, torch.inf
    drawn = by_grid().conditional(x, missing).sample(noise(1, 10))
    swept = ExactImputer([by_grid()], attempts=0).sample(x, missing, noise(1, 10), box)
    assert bool(box.contains(swept).all())
    assert torch.equal(swept[..., 1], drawn[..., 1]) and not bool((swept[..., 0] == drawn[..., 0]).any())


@covering(pytest.mark.parametrize("flip", [1.0, -1.0]), pytest.mark.parametrize("make", [gaussian, by_grid]))
def test_a_bound_on_one_side_far_out_is_kept_and_the_law_beyond_it_is_that_of_the_tail(
    make: Callable[[], GaussianMixture], flip: float
) -> None:
    R = 2000
    x = torch.zeros(R, D, dtype=torch.float64)
    missing = torch.tensor([False, True, False]).repeat(R, 1)
    sides = [interval(2.5, math.inf), interval(-math.inf, -2.5)]
    draws = ExactImputer([make()], attempts=0, sweeps=2).sample(x, missing, noise(1, R), sides[flip < 0])[0, :, 1]
    sd = (1 - 2 * 0.36 / 1.6) ** 0.5
    mean = truncnorm(2.5 / sd, math.inf, 0, sd).mean()
    assert float((flip * draws).min()) >= 2.5
    assert float((flip * draws).mean()) == pytest.approx(mean, abs=0.03)


def test_on_a_grid_a_model_in_single_precision_is_called_in_single_precision() -> None:
    model = gaussian().float()
    rows = torch.zeros(50, D, dtype=torch.float64)
    seen: list[torch.dtype] = []
    model.log_prob = lambda x: seen.append(x.dtype) or -0.5 * x.square().sum(-1)  # type: ignore[assignment,func-returns-value]
    low, high, u = torch.tensor(1.0).double(), torch.tensor(2.0).double(), torch.rand(50, dtype=torch.float64)
    drawn = Marginal.column_redraws(model)(rows, 1, low, high, u, u)
    assert seen == [torch.float32] and drawn.dtype == torch.float64
    assert bool(((drawn >= 1) & (drawn <= 2)).all())


def test_rows_that_are_outside_are_swept_and_counted() -> None:
    x, missing = torch.zeros(10, D, dtype=torch.float64), torch.ones(10, D, dtype=torch.bool)
    imputer = ExactImputer([gaussian()], attempts=2)
    draws = imputer.sample(x, missing, noise(1, 10), interval(4.0, 5.0))
    assert bool(interval(4.0, 5.0).contains(draws).all())
    assert imputer.diagnostics() == {"cells": 30, "redrawn_cells": 30, "swept_rows": 10}


def test_no_model_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one model"):
        ExactImputer([])


@pytest.mark.slow
def test_a_tail_that_has_no_value_need_not_lie_in_the_box() -> None:
    """A level, the tail that has a value at level 0 only, and b, which goes with the tail by 0.9; the tail lies over 1.
    Where the row is known to have no tail, b has its law whatever the box of the tail is; where the level is missing
    too, both levels stay as likely as they were."""
    layout = Layout.of("xb", (2, 1), (2, 0, 0))
    assert layout.tails == ((1, 0),)
    model = GaussianMixture.build(MixtureConfig(components=1, outliers=False, dependence="none"), layout).double()
    numbers = torch.randn(4000, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    start = torch.cat([(torch.arange(4000) % 2).double()[:, None], numbers], 1)
    model.initialise(start, torch.Generator().manual_seed(1))
    model.gaussians.numbers.set_moments(  # type: ignore[union-attr, operator]
        torch.zeros(1, 2, dtype=torch.float64), torch.tensor([[[1.0, 0.9], [0.9, 1.0]]], dtype=torch.float64)
    )
    box = Box(torch.tensor([0.0, 1.0, -torch.inf]).double(), torch.tensor([1.0, torch.inf, torch.inf]).double())
    known = torch.tensor([False, True, True]).repeat(ROW_BLOCK, 1)
    x = torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64).repeat(ROW_BLOCK, 1)
    imputer = ExactImputer([model], tails=layout.tails)
    b = imputer.sample(x, known, noise(10, ROW_BLOCK), box)[..., 2]
    assert abs(float(b.mean())) < 0.08 and float(b.std()) == pytest.approx(1.0, abs=0.05)
    everything = torch.ones_like(known)
    draws = imputer.sample(x, everything, noise(10, ROW_BLOCK), box)
    assert bool((draws[..., 1] >= 1).all()) and float(draws[..., 0].mean()) == pytest.approx(0.5, abs=0.04)
    assert float(draws[..., 2].mean()) == pytest.approx(0.9 * 1.525, abs=0.05)


def test_cells_that_hold_nothing_decide_about_no_other() -> None:
    """The first column says whether the last one holds anything; where it does not, its limits are none."""
    limits = free()
    limits.low[2], limits.high[2] = 1.0, 2.0
    share = 0.1352 / (0.1352 + 0.5)  # of the rows that are asked: P(x0 >= 0, 1 <= x2 <= 2) of a correlation of 0.9

    def idle(x: Tensor) -> Tensor:
        out = torch.zeros_like(x, dtype=torch.bool)
        out[..., 2] = x[..., 0] < 0
        return out

    empty, every = torch.zeros(4000, D, dtype=torch.float64), torch.ones(4000, D, dtype=torch.bool)
    law = gaussian(correlation=0.9)
    drawn = impute(ExactImputer([law], idle=idle), empty, every, noise(1, 4000), limits)[0]
    asked = drawn[:, 0] >= 0
    assert limits.contains(drawn[asked]).all()
    below = drawn[~asked]
    assert abs(float(below[:, 0].mean()) + math.sqrt(2 / math.pi)) < 0.06  # as a half of a normal law has it
    assert float((below[:, 2] < 1).double().mean()) > 0.95
    whole = draw_rows(law, 3000, limits, lambda block: torch.Generator().manual_seed(block), idle=idle)
    asked = whole[:, 0] >= 0
    assert limits.contains(whole[asked]).all() and float((whole[~asked, 2] < 1).double().mean()) > 0.95
    for both in (drawn, whole):
        assert abs(float((both[:, 0] >= 0).double().mean()) - share) < 0.03


def test_laws_of_cells_are_made_once_for_all_rows_that_are_swept(monkeypatch: pytest.MonkeyPatch) -> None:
    model, R, made = gaussian(), 3 * SWEPT, []
    redraws = model.column_redraws
    monkeypatch.setattr(model, "column_redraws", lambda: made.append(1) or redraws())
    x, missing = torch.zeros(R, D, dtype=torch.float64), torch.ones(R, D, dtype=torch.bool)
    sampler = ExactImputer([model], attempts=0, sweeps=1)
    assert bool(interval(2.0, 3.0).contains(sampler.sample(x, missing, noise(1, R), interval(2.0, 3.0))).all())
    assert len(made) == 1
    sampler.sample(x, missing, noise(1, R), free())
    assert len(made) == 1, "no row is outside"
