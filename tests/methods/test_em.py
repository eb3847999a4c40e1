"""EM: monotone, at the optimum, resumable, and as good on the toy model of the paper as EM can be."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.selection import first, some
from vgi_cli.data import make_table
from vgi_cli.errors import FitError
from vgi_cli.layout import Layout
from vgi_cli.methods.base import EpochEnd, PieceEnd
from vgi_cli.methods.em.em import METHOD, EmConfig, EmState
from vgi_cli.methods.em.steps import ascend, climb, iteration, settle
from vgi_cli.methods.start import gaussian_draws
from vgi_cli.models.gaussian.fa import FaConfig, FactorAnalysis
from vgi_cli.models.gaussian.family import GaussianFamily, em_table
from vgi_cli.models.gaussian.gaussians import within
from vgi_cli.models.gaussian.mixture import GaussianMixture, MixtureConfig

pytestmark = pytest.mark.full_fits(
    "models.gaussian.fa.FactorAnalysis.tolerance",
    "models.gaussian.mixture.GaussianMixture.tolerance",
    "methods.em.em.REDRAWS",
    "models.gaussian.rounded.SWEEPS",
)

KINDS = ["fa", "full", "factor", "full with outliers"]


def build(kind: str, D: int) -> GaussianFamily:
    if kind == "fa":
        return FactorAnalysis.build(FaConfig(factors=2), Layout.plain(D)).double()
    covariance, _, outliers = kind.partition(" with ")
    settings = {"components": 3, "covariance": covariance, "factors": 1, "outliers": bool(outliers)}
    return GaussianMixture.build(MixtureConfig.model_validate(settings), Layout.plain(D)).double()


def rows(N: int = 300, D: int = 5, seed: int = 0, share: float = 0.4) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    z = torch.randn(N, 2, dtype=torch.float64, generator=generator)
    x = z @ torch.randn(2, D, dtype=torch.float64, generator=generator)
    x = x + 0.5 * torch.randn(N, D, dtype=torch.float64, generator=generator)
    x[: N // 3] += 3.0
    missing = torch.rand(N, D, generator=generator) < share
    return torch.where(missing, 0.0, x), missing


def started(kind: str, x: Tensor) -> GaussianFamily:
    model = build(kind, x.shape[1])
    model.initialise(x, torch.Generator().manual_seed(0))
    return model


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("accelerate", [False, True])
def test_the_objective_never_falls(kind: str, accelerate: bool) -> None:
    x, missing = rows()
    table = em_table(x, missing, torch.rand(len(x), dtype=torch.float64, generator=torch.Generator().manual_seed(1)))
    model = started(kind, x)
    penalty = model.penalty(None, 1e-3)
    values = [iteration(model, table, penalty, accelerate).objective.item() for _ in range(40)]
    assert min(b - a for a, b in pairwise(values)) > -1e-9 * abs(values[-1])
    assert values[-1] > values[0] + 1


@pytest.mark.parametrize(("N", "D"), [(4, 6), (5, 5), (9, 5), (12, 8), (15, 5), (30, 10)])
def test_few_rows_converge_and_leave_some_variance(N: int, D: int) -> None:
    """One Gaussian: without a hold the least variance falls to the floor, 1e-3 of a row's worth, after many steps"""
    x, missing = rows(N, D, seed=N, share=0.2)
    model = GaussianMixture.build(MixtureConfig(components=1, covariance="full"), Layout.plain(D))
    state = METHOD.init(model, make_table(x, missing), EmConfig(), torch.Generator().manual_seed(0))
    assert isinstance(state, EmState)
    list(METHOD.run(state))
    assert state.converged and state.epoch < 40
    seen = em_table(x, missing).scale.variance.sqrt()
    covariance = state.model.gaussians.moments().covariance / (seen[:, None] * seen)
    assert torch.linalg.eigvalsh(covariance).min() > 0.005


@pytest.mark.parametrize("kind", some(["fa", "factor", "full with outliers"], KINDS))
def test_the_fixed_point_is_a_stationary_point_of_the_stated_objective(kind: str) -> None:
    """The gradient of log-likelihood plus penalty, taken by autograd, vanishes: EM and objective belong together."""
    x, missing = rows(150, 4)
    table = em_table(x, missing)
    model = started(kind, x)
    penalty = model.penalty(5.0, 0.1)
    climb(model, table, penalty, epochs=3000, tolerance=1e-13)
    holes = table.patterns.missing[table.patterns.of_row]
    objective = model.marginal_log_prob(table.x, holes).sum() + model.gaussians.log_penalty(table.scale, penalty)
    objective = objective + (penalty.weight * model.log_weights()).sum()
    gradients = torch.autograd.grad(objective, [p for p in model.parameters() if p.requires_grad])
    assert max(g.abs().max().item() for g in gradients) < 2e-3


@pytest.mark.parametrize("kind", some(["fa", "full with outliers"], KINDS))
def test_what_has_settled_is_at_the_top(kind: str) -> None:
    x, missing = rows(150, 4)
    table = em_table(x, missing)
    slow, fast = started(kind, x), started(kind, x)
    penalty = slow.penalty(5.0, 0.1)
    value = climb(slow, table, penalty, epochs=1000, tolerance=1e-9)
    told: list[int] = []
    assert settle(fast, table, penalty, steps=600, tolerance=1e-5, each=told.append)
    assert told == sorted(set(told)) and told[-1] < 600
    assert fast.em_step(table, penalty).objective.item() == pytest.approx(value.objective.item(), abs=0.01)
    assert not settle(started(kind, x), table, penalty, steps=4, tolerance=1e-6)


def test_one_gaussian_ascends_in_fewer_steps() -> None:
    x, missing = rows(150, 4)
    table = em_table(x, missing)
    models = [started("fa", x), started("fa", x)]
    penalty = models[0].penalty(None, 1e-3)
    told: list[list[int]] = [[], []]
    value = climb(models[0], table, penalty, epochs=500, tolerance=1e-8, each=told[0].append)
    assert ascend(models[1], table, penalty, steps=200, tolerance=1e-5, each=told[1].append)
    assert models[1].em_step(table, penalty).objective.item() == pytest.approx(value.objective.item(), abs=0.01)
    assert told[1][-1] < 1.5 * told[0][-1]  # EM steps, against iterations of three


@pytest.mark.parametrize("kind", KINDS)
def test_whole_weights_are_repeated_rows(kind: str) -> None:
    x, missing = rows(60)
    weights = torch.arange(60) % 3
    repeated = torch.repeat_interleave(torch.arange(60), weights)
    first, second = started(kind, x), started(kind, x)
    weighted = em_table(x, missing, weights.double())
    twice = em_table(x[repeated], missing[repeated])
    for _ in range(5):
        a = first.em_step(weighted, first.penalty(None, 1e-3))
        b = second.em_step(twice, second.penalty(None, 1e-3))
        torch.testing.assert_close(a.objective, b.objective, rtol=1e-10, atol=1e-8)
        torch.testing.assert_close(a.loglik, b.loglik, rtol=1e-10, atol=1e-8)


def test_the_reported_log_likelihood_is_that_of_the_parameters_before_the_step() -> None:
    x, missing = rows()
    model, table = started("full", x), em_table(x, missing)
    expected = model.marginal_log_prob(x, missing).sum()
    torch.testing.assert_close(model.em_step(table, model.penalty(None, 1e-3)).loglik, expected)


def test_one_full_component_on_complete_rows_is_the_sample_covariance() -> None:
    x, _ = rows(500, 3)
    model = GaussianMixture.build(MixtureConfig(components=1), Layout.plain(3)).double()
    table = em_table(x, torch.zeros_like(x, dtype=torch.bool))
    climb(model, table, model.penalty(0.0, 1e-9)._replace(common=0.0, mean=0.0), epochs=20, tolerance=1e-12)
    torch.testing.assert_close(model.gaussians.mean[0].detach(), x.mean(0), rtol=1e-8, atol=1e-8)
    expected = torch.cov(x.mT, correction=0)
    precision, _ = model.gaussians.precision()
    torch.testing.assert_close(torch.linalg.inv(precision[0]).detach(), expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("kind", KINDS)
def test_degenerate_tables_stay_finite(kind: str) -> None:
    """Two equal columns, a constant one, repeated rows, more columns than rows: the floor holds."""
    x = torch.zeros(4, 6, dtype=torch.float64)
    x[:, 0] = x[:, 1] = torch.tensor([1.0, 2.0, 2.0, 5.0])
    x[:, 3] = torch.tensor([0.0, 0.0, 0.0, 1.0])
    missing = torch.zeros(4, 6, dtype=torch.bool)
    missing[0, 1] = missing[2, 3] = missing[1] = True
    model = started(kind, x)
    value = climb(model, em_table(x, missing), model.penalty(None, 1e-3), epochs=200, tolerance=1e-9)
    assert bool(torch.isfinite(value.objective))
    assert all(bool(torch.isfinite(p).all()) for p in model.parameters())


def drive(state: EmState) -> list[dict[str, Any]]:
    return [event.metrics for event in METHOD.run(state) if isinstance(event, EpochEnd)]


@pytest.mark.parametrize("kind", KINDS)
def test_resuming_is_exact(kind: str) -> None:
    x, missing = rows()
    table = make_table(x, missing)

    def fresh(epochs: int = 8) -> EmState:
        config = EmConfig(epochs=epochs, tolerance=1e-12)
        return METHOD.init(started(kind, x), table, config, torch.Generator())  # type: ignore[return-value]

    whole = fresh()
    drive(whole)
    half = fresh(3)
    drive(half)
    resumed = fresh()
    resumed.restore(half.parts())
    drive(resumed)
    assert resumed.epoch == whole.epoch == 8
    for name, value in whole.parts()["model"].items():
        assert torch.equal(value, resumed.parts()["model"][name])
    assert torch.equal(whole.objective, resumed.objective)


@pytest.mark.parametrize(
    ("kind", "accelerate"), some([("fa", True), ("full", False)], [("fa", True), ("full", True), ("full", False)])
)
def test_an_iteration_goes_on_from_its_last_piece(kind: str, accelerate: bool) -> None:
    x, missing = rows(90)
    table, config = make_table(x, missing), EmConfig(epochs=2, tolerance=1e-12, accelerate=accelerate)

    def fresh() -> EmState:
        return METHOD.init(started(kind, x), table, config, torch.Generator())  # type: ignore[return-value]

    whole, kept, models = fresh(), [], [fresh().parts()["model"]]
    with within(1000):
        for event in METHOD.run(whole):
            if isinstance(event, PieceEnd):
                kept.append((whole.parts(), len(models) - 1))
            else:
                models.append(whole.parts()["model"])
        for i in range(0, len(kept), 5):
            parts, done = kept[i]
            assert all(torch.equal(value, parts["model"][name]) for name, value in models[done].items())
            resumed = fresh()
            resumed.restore(parts)
            assert resumed.epoch == done
            left = sum(isinstance(event, PieceEnd) for event in METHOD.run(resumed))
            assert left == len(kept) - 1 - i  # no row was looked at twice
            assert all(torch.equal(value, resumed.parts()["model"][name]) for name, value in models[-1].items())
            assert torch.equal(whole.objective, resumed.objective)
    steps = {len([name for name in parts["state"] if "points" in name]) for parts, _ in kept}
    assert steps == ({1, 2, 4} if accelerate else {1})
    other = fresh()
    other.restore(kept[-1][0])
    drive(other)  # in one piece: the sums of the step begin anew
    for name, value in models[-1].items():
        torch.testing.assert_close(value, other.parts()["model"][name], rtol=1e-9, atol=1e-9)


def test_it_stops_when_it_has_converged_and_stays_stopped() -> None:
    x, missing = rows()
    state = METHOD.init(started("fa", x), make_table(x, missing), EmConfig(tolerance=1e-5), torch.Generator())
    metrics = drive(state)  # type: ignore[arg-type]
    assert 2 <= len(metrics) < 300
    assert metrics[-1]["objective"] >= metrics[0]["objective"]
    assert drive(state) == []  # type: ignore[arg-type]


def test_a_table_without_an_observed_cell_is_refused() -> None:
    x, missing = rows(5)
    with pytest.raises(FitError, match="no row has an observed cell"):
        METHOD.init(build("fa", 5), make_table(x, torch.ones_like(missing)), EmConfig(), torch.Generator())


def test_a_non_finite_objective_is_reported() -> None:
    x, missing = rows()
    state = METHOD.init(started("full", x), make_table(x, missing), EmConfig(accelerate=False), torch.Generator())
    with torch.no_grad():
        next(state.model.parameters()).fill_(torch.nan)
    with pytest.raises((FitError, torch.linalg.LinAlgError)):
        drive(state)  # type: ignore[arg-type]


TOY_F = [[-5, -2], [4, 0], [3, -1], [-3, -3], [1, 5], [-1, 2]]
TOY_PSI = [50.4794, 30.0988, 6.7666, 17.3357, 40.9839, 25.1122]
TOY_MEAN = [3, -1, 0, 2, -1, 0]


@pytest.mark.parametrize(("share", "published"), [(1 / 6, 0.00167), (1 / 2, 0.00474), (5 / 6, 0.03194)])
def test_toy_factor_analysis_reaches_the_published_divergence(share: float, published: float) -> None:
    """KL(p*||p) of the paper's toy experiment (their EM, 8,000 rows), within the spread over masks and rows."""
    F, psi, mean = (torch.tensor(v, dtype=torch.float64) for v in (TOY_F, TOY_PSI, TOY_MEAN))
    generator = torch.Generator().manual_seed(0)
    N = 8000
    x = mean + torch.randn(N, 2, dtype=torch.float64, generator=generator) @ F.mT
    x = x + psi.sqrt() * torch.randn(N, 6, dtype=torch.float64, generator=generator)
    missing = torch.zeros(N * 6, dtype=torch.bool)
    missing[: int(share * N * 6)] = True
    missing = missing[torch.randperm(N * 6, generator=generator)].view(N, 6)
    model = FactorAnalysis.build(FaConfig(factors=2), Layout.plain(6)).double()
    model.initialise(torch.where(missing, x.mean(0), x), generator)
    climb(model, em_table(x, missing), model.penalty(None, 1e-3), epochs=100, tolerance=1e-7)
    S = F @ F.mT + torch.diag(psi)
    precision, logdet = (part[0].detach() for part in model.gaussians.precision())
    gap = model.mean.detach() - mean
    kl = 0.5 * ((precision * S).sum() - 6 + gap @ precision @ gap + logdet - torch.logdet(S)).item()
    assert published / 3 < kl < 2.5 * published


def test_what_is_never_observed_together_does_not_run_away() -> None:
    """Questions that are asked after a yes only: nothing says how a no goes with them, and an extrapolation may come to
    covariances of 1e10, at which the likelihood is rounding errors."""
    for seed in (38, 39):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(60, 400))
        z = rng.standard_normal((n, 4))
        a = (rng.random(n) < 0.8).astype(float)
        b = (z[:, 0] + 0.3 * rng.standard_normal(n) > 1.2).astype(float)
        t, s = z[:, 1] * 0.9 + 0.3 * rng.standard_normal(n), z[:, 0] + 0.3 * rng.standard_normal(n)
        x = np.column_stack([a, t, b, s, z])
        missing = rng.random(x.shape) < 0.3
        missing[:, 1] |= a == 0
        missing[:, 3] |= b == 0
        layout = Layout.of("atbsuvwx", levels=(2, 0, 2, 0, 0, 0, 0, 0))
        table = make_table(torch.from_numpy(x), torch.from_numpy(missing), layout)
        draws = gaussian_draws(table, 1, torch.Generator().manual_seed(seed))
        assert float(draws.abs().max()) < 10


@pytest.mark.parametrize("seed", first(1, [0, 2, 4]))
def test_no_extrapolation_comes_to_an_objective_of_rounding_errors(seed: int) -> None:
    """The date of who has not gone is never observed, and elsewhere it is a sum of two columns: the variance that these
    leave of it shrinks in each step, and an extrapolation may come to one of 1e-40, at which likelihoods are 1e30."""
    rng, n = np.random.default_rng(seed), 600
    begun, spent = rng.random(n) * 700, rng.normal(3, 0.5, n)
    lasts = np.floor(rng.exponential(500 * np.exp(spent / 2 - 1.5)))
    gone, lasts = (begun + lasts < 1460).astype(float), np.minimum(lasts, np.floor(1460 - begun))
    numbers = np.column_stack([begun, np.exp(spent), begun + lasts, lasts])
    missing = rng.random((n, 5)) < [0, 0.1, 0, 0, 0.15]
    missing[:, 3] |= gone == 0
    seen = np.where(missing[:, [0, 1, 3, 4]], np.nan, numbers)
    unit = (numbers - np.nanmean(seen, 0)) / np.nanstd(seen, 0)
    layout = Layout.of("absdt", levels=(0, 0, 2, 0, 0))
    table = make_table(torch.from_numpy(np.insert(unit, 2, gone, 1)), torch.from_numpy(missing), layout)
    config = MixtureConfig(components=1, covariance="full", by="s", outliers=True, shrinkage=3.0)
    model = GaussianMixture.build(config, layout)
    state = METHOD.init(model, table, EmConfig(), torch.Generator().manual_seed(seed))
    objectives = [one.metrics["objective"] for one in METHOD.run(state) if isinstance(one, EpochEnd)]
    assert state.converged and all(after >= before for before, after in pairwise(objectives))
    covariance = model.gaussians.moments().covariance.detach()
    assert float(covariance[:2].diagonal(dim1=-2, dim2=-1).max()) < 2  # it was 280
