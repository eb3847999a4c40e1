"""Bootstrap refits: their spread is that of the sampling distribution, and nothing else moves."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from tests.resamples import refits
from tests.selection import first
from vgi_cli.data import TensorTable, make_table
from vgi_cli.layout import Layout
from vgi_cli.methods.em.bootstrap import (
    CELLS,
    FEWEST_ROWS,
    FEWEST_STEPS,
    MOST_ROWS,
    MOST_WORK,
    PASSES,
    TOLERANCE,
    Kind,
    Size,
    row_weights,
    size_of,
)
from vgi_cli.methods.em.em import EmConfig
from vgi_cli.methods.em.steps import climb
from vgi_cli.models.gaussian.fa import FaConfig, FactorAnalysis
from vgi_cli.models.gaussian.family import GaussianFamily, em_table, step_work
from vgi_cli.models.gaussian.mixture import GaussianMixture, MixtureConfig
from vgi_cli.models.gaussian.shifted import Shifted

pytestmark = pytest.mark.full_fits(
    "methods.em.bootstrap.TOLERANCE",
    "methods.em.bootstrap.ANEW_TOLERANCE",
    "models.gaussian.fa.FactorAnalysis.tolerance",
    "models.gaussian.mixture.GaussianMixture.tolerance",
    "methods.em.em.REDRAWS",
    "models.gaussian.rounded.SWEEPS",
)

KINDS: list[Kind] = ["multinomial", "bayesian"]


def streams(seed: int) -> Callable[[int], torch.Generator]:
    return lambda number: torch.Generator().manual_seed(1000 * seed + number)


def fitted(N: int = 400, share: float = 0.2) -> tuple[GaussianMixture, TensorTable]:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(N, 2, dtype=torch.float64, generator=generator)
    x[:, 1] += x[:, 0]
    missing = torch.rand(N, 2, generator=generator) < share
    model = GaussianMixture.build(MixtureConfig(components=1), Layout.plain(2)).double()
    model.initialise(x, generator)
    climb(model, em_table(x, missing), model.penalty(0.0, 1e-3), epochs=100, tolerance=1e-9)
    return model, make_table(x, missing)


@pytest.mark.parametrize("kind", KINDS)
def test_weights_have_mean_one_and_unit_variance(kind: Kind) -> None:
    weights = row_weights(20_000, kind, torch.Generator().manual_seed(0))
    assert weights.mean().item() == pytest.approx(1.0, abs=1e-12)
    assert weights.var().item() == pytest.approx(1.0, abs=0.05)
    assert bool((weights >= 0).all())


@pytest.mark.parametrize("kind", first(1, KINDS[::-1]))
def test_the_spread_of_a_mean_is_its_standard_error(kind: Kind) -> None:
    model, table = fitted()
    before = [p.detach().clone() for p in model.parameters()]
    config = EmConfig(pooling=0.0)
    found = list(refits(model, table, config, range(100), streams(1), size=Size(400, 50, kind)))
    assert all(refit.settled for refit in found)
    means: Tensor = torch.stack([refit.parameters["gaussians.mean"][0] for refit in found])
    observed = (~table.missing[:, 0]).sum().item()
    # the first column alone: variance 1 over its observed cells, a little less thanks to the second column
    assert means[:, 0].std().item() == pytest.approx(observed**-0.5, rel=0.2)
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))


def test_a_refit_is_the_same_whatever_the_others_are() -> None:
    model, table = fitted(100)
    few = list(refits(model, table, EmConfig(), [0, 3], streams(3)))
    more = list(refits(model, table, EmConfig(), range(4), streams(3)))
    for a, b in ((few[0], more[0]), (few[1], more[3])):
        assert all(torch.equal(a.parameters[name], b.parameters[name]) for name in a.parameters)
    assert not torch.equal(more[0].parameters["gaussians.mean"], more[1].parameters["gaussians.mean"])


def moments(model: GaussianFamily) -> Tensor:
    """Means, variances and slopes on the first column of all that the model holds together."""
    weights, parts = model.log_weights().exp(), model.gaussians.moments()
    mean = weights @ parts.mean
    apart = parts.mean - mean
    S = torch.einsum("k,kde->de", weights, parts.covariance + apart[:, :, None] * apart[:, None, :])
    return torch.cat([mean, S.diagonal(), S[0, 1:] / S[0, 0]]).detach()


@pytest.mark.parametrize(("components", "N"), first(1, [(0, 200), (1, 2000), (3, 200)]))
def test_refits_spread_as_those_that_have_converged(components: int, N: int) -> None:
    """With 60 % of the cells missing; 0 components: factor analysis. A tolerance a row ended them early: the spread
    was 0.88 to 0.93 of what it should be, and less in larger tables."""
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(N, 1, generator=generator, dtype=torch.float64) + 0.8 * torch.randn(
        N, 4, generator=generator, dtype=torch.float64
    )
    if components > 1:
        x = x + 2.0 * torch.randn(3, 4, generator=generator, dtype=torch.float64)[torch.arange(N) % 3]
    missing = torch.rand(N, 4, generator=generator) < 0.6
    table = make_table(x, missing)
    table = table.rows(~missing.all(1))
    model: GaussianFamily = GaussianMixture.build(
        MixtureConfig(components=max(components, 1)), Layout.plain(4)
    ).double()
    if components == 0:
        model = FactorAnalysis.build(FaConfig(factors=1), Layout.plain(4)).double()
    model.initialise(x, generator)
    climb(model, em_table(table.x, table.missing), model.penalty(None, 1e-3), epochs=60, tolerance=1e-7)
    size = size_of(model, table.missing)
    assert size.rows == table.N
    found = []
    for kind, tolerance in ((size, TOLERANCE), (size._replace(steps=1000), 1e-10)):
        spread, copied = [], copy.deepcopy(model)
        for refit in refits(model, table, EmConfig(), range(8), streams(5), size=kind, tolerance=tolerance):
            copied.load_state_dict(refit.parameters)
            spread.append(moments(copied))
        found.append(torch.stack(spread).std(0))
    ratio = found[0] / found[1]
    assert 0.97 < ratio.mean() < 1.03 and bool((ratio > 0.9).all())


@pytest.mark.parametrize("components", [pytest.param(0, marks=pytest.mark.slow), 1])
def test_fewer_rows_give_the_spread_of_all(components: int) -> None:
    """The standard errors of means and of log variances in complete rows, from refits to a fifth of them."""
    generator = torch.Generator().manual_seed(4)
    x = torch.randn(1500, 1, generator=generator, dtype=torch.float64) + torch.randn(
        1500, 3, generator=generator, dtype=torch.float64
    )
    model: GaussianFamily = GaussianMixture.build(MixtureConfig(components=1), Layout.plain(3)).double()
    if components == 0:
        model = FactorAnalysis.build(FaConfig(factors=1), Layout.plain(3)).double()
    table = make_table(x, torch.zeros_like(x, dtype=torch.bool))
    model.initialise(x, generator)
    climb(model, em_table(table.x, table.missing), model.penalty(0.0, 1e-3), epochs=50, tolerance=1e-9)
    made, copied = [], copy.deepcopy(model)
    for refit in refits(model, table, EmConfig(), range(100), streams(6), size=Size(300, 50, "multinomial")):
        copied.load_state_dict(refit.parameters)
        made.append(moments(copied))
    found = torch.stack(made)
    ratio = found.std(0)[:6] / torch.cat([x.std(0), x.var(0) * math.sqrt(2)]) * math.sqrt(1500)
    assert bool((ratio > 0.8).all()) and bool((ratio < 1.2).all())
    assert bool(((found.mean(0) - moments(model)).abs() < 0.35 * found.std(0)).all())


def test_rotated_factors_are_the_same_model_when_gaps_are_shrunk() -> None:
    generator = torch.Generator().manual_seed(0)
    model = FactorAnalysis.build(FaConfig(factors=2), Layout.plain(5)).double()
    with torch.no_grad():
        model.gaussians.F.copy_(torch.randn(1, 5, 2, generator=generator))
    other = FactorAnalysis.build(FaConfig(factors=2), Layout.plain(5)).double()
    other.load_state_dict(model.state_dict())
    angle = torch.tensor(2.0, dtype=torch.float64)
    turn = torch.stack([torch.stack([angle.cos(), -angle.sin()]), torch.stack([-angle.sin(), -angle.cos()])])
    with torch.no_grad():
        model.gaussians.F.copy_(model.gaussians.F @ turn)
    model.shrink_to(other, 0.5)
    torch.testing.assert_close(model.gaussians.F, other.gaussians.F, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", first(1, KINDS))
def test_refits_of_factors_have_the_noise_of_the_law_where_rows_are_few(kind: Kind) -> None:
    """A fit of 4 factors to 60 rows has 5 / 60 too little, its refits twice that: they take it back."""
    D, noise, fits = 30, [], []
    for seed in range(8):
        generator = torch.Generator().manual_seed(seed)
        loadings = torch.randn(D, 4, dtype=torch.float64, generator=generator)
        x = torch.randn(60, 4, dtype=torch.float64, generator=generator) @ loadings.mT
        x += torch.randn(60, D, dtype=torch.float64, generator=generator)
        missing = torch.zeros(60, D, dtype=torch.bool)
        model = FactorAnalysis.build(FaConfig(factors=4), Layout.plain(D)).double()
        model.initialise(x, generator)
        climb(model, em_table(x, missing), model.penalty(0.0, 1e-6), epochs=300, tolerance=1e-8)
        fits.append(model.log_psi.exp().mean().item())
        found = refits(
            model, make_table(x, missing), EmConfig(floor=1e-6), range(5), streams(seed), size=Size(60, 100, kind)
        )
        noise += [refit.parameters["gaussians.log_psi"].exp().mean().item() for refit in found]
    assert sum(fits) / len(fits) == pytest.approx(1 - 5 / 60, abs=0.03)
    assert sum(noise) / len(noise) == pytest.approx(1.0, abs=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("kind", first(1, KINDS[::-1]))
def test_refits_of_shifted_numbers_have_the_noise_of_the_law_where_levels_are_many(kind: Kind) -> None:
    """20 levels of 12 rows shift 8 numbers: a refit takes a tenth from their noise, and takes it back."""
    D, levels, noise = 8, 20, []
    layout = Layout.of([*(f"x{j}" for j in range(D)), "site"], levels=(*([0] * D), levels))
    for seed in range(4):
        generator = torch.Generator().manual_seed(seed)
        site = torch.arange(240) % levels
        shift = 0.7 * torch.randn(levels, D, dtype=torch.float64, generator=generator)
        x = torch.cat([shift[site] + torch.randn(240, D, dtype=torch.float64, generator=generator), site[:, None]], 1)
        missing = torch.zeros(240, D + 1, dtype=torch.bool)
        model = GaussianMixture.build(MixtureConfig(components=1, dependence="linear"), layout).double()
        model.initialise(x, generator)
        climb(model, em_table(x, missing), model.penalty(0.0, 1e-6), epochs=100, tolerance=1e-8)
        table, config = make_table(x, missing), EmConfig(floor=1e-6, pooling=0.0)
        again = copy.deepcopy(model)
        assert isinstance(again.gaussians, Shifted) and again.gaussians.places == (0,)
        for refit in refits(model, table, config, range(4), streams(seed), size=Size(240, 100, kind)):
            again.load_state_dict(refit.parameters)
            noise.append(again.gaussians.moments().covariance[0].diagonal().mean().item())
    assert sum(noise) / len(noise) == pytest.approx(1.03, abs=0.04)  # the ridge leaves 3 % of what levels explain


def test_weights_between_two_mixtures() -> None:
    models = [GaussianMixture.build(MixtureConfig(components=2), Layout.plain(2)).double() for _ in range(2)]
    models[0].set_weights(torch.tensor([0.9, 0.1]))
    models[0].shrink_to(models[1], 0.5)
    odds = models[0].log_weights()[0] - models[0].log_weights()[1]
    assert odds.item() == pytest.approx(0.5 * math.log(9.0), rel=1e-6)


def test_the_size_of_a_refit_is_counted() -> None:
    """All rows of a small table; of a large one as many as the work allows, and enough cells of every column."""

    def size(N: int, D: int, components: int, observed: int | None = None) -> Size:
        missing = torch.zeros(N, D, dtype=torch.bool)
        if observed is not None:
            missing[observed:, 0] = True
        return size_of(GaussianMixture.build(MixtureConfig(components=components), Layout.plain(D)), missing)

    assert size(200, 4, 3).rows == 200 and size(30_000, 4, 1).rows == MOST_ROWS
    assert size(8_000, 10, 3).rows == 8_000 and size(8_000, 20, 12).rows == FEWEST_ROWS
    assert size(30_000, 4, 1, observed=300).rows == 30_000 * CELLS // 300
    assert size(30_000, 4, 1, observed=CELLS) == size(30_000, 4, 1, observed=CELLS - 100)
    assert size(400, 4, 1, observed=10).kind == "bayesian" and size(400, 4, 1, observed=60).kind == "multinomial"
    for N, D, components in ((200, 4, 1), (30_000, 10, 8), (10**6, 10, 3), (30_000, 30, 20)):
        found = size(N, D, components)
        model = GaussianMixture.build(MixtureConfig(components=components), Layout.plain(D))
        work = found.steps * (step_work(model, found.rows) + PASSES * found.rows * components * D)
        assert work <= MOST_WORK or found.steps == FEWEST_STEPS


def test_a_refit_that_is_cut_short_says_so() -> None:
    model, table = fitted(share=0.6)
    found = list(refits(model, table, EmConfig(), range(3), streams(0), size=Size(400, 3, "multinomial")))
    assert [refit.settled for refit in found] == [False] * 3


def test_refits_of_a_mixture_explore_its_tops() -> None:
    """With two components and three clusters there are several tops: restarted refits do not all find the same one."""
    generator = torch.Generator().manual_seed(0)
    centres = torch.tensor([[8.0, 0], [0, 8.0], [-8.0, -8.0]], dtype=torch.float64)
    x = centres[torch.arange(150) % 3] + torch.randn(150, 2, dtype=torch.float64, generator=generator)
    missing = torch.rand(150, 2, generator=generator) < 0.2
    model = GaussianMixture.build(MixtureConfig(components=2), Layout.plain(2)).double()
    model.initialise(x, generator)
    table = make_table(x, missing)
    climb(model, em_table(table.x, missing), model.penalty(None, 1e-3), epochs=50, tolerance=1e-6)
    alone = set()  # which cluster has a component of its own
    for refit in refits(model, table, EmConfig(), range(12), streams(0)):
        distance = torch.cdist(refit.parameters["gaussians.mean"], centres)
        alone.add(int(distance.min(0).values.argmin()))
    assert len(alone) > 1


def test_weights_follow_their_rows() -> None:
    """Rows are sorted by their holes inside; a weight must reach its own row."""
    x = torch.arange(6, dtype=torch.float64)[:, None].repeat(1, 2)
    missing = torch.zeros(6, 2, dtype=torch.bool)
    missing[[0, 2, 4], 1] = True
    base = em_table(x, missing)
    table = base.reweighted(torch.arange(6, dtype=torch.float64))
    assert torch.equal(table.weights, table.x[:, 0])
    assert sorted(table.order.tolist()) == [1, 2, 3, 4, 5]  # the row without weight is left out
    assert torch.equal(table.patterns.missing[table.patterns.of_row], missing[table.order])
    alone = base.reweighted(torch.tensor([1.0, 0, 1, 0, 0, 0]))
    assert alone.patterns.missing.tolist() == [[False, True]] and alone.patterns.of_row.tolist() == [0, 0]
    assert alone.scale is base.scale
