"""EM with a factorised posterior: monotone, exact where rows have one hole, and at the top of the mean-field bound."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from vgi_cli.layout import Layout
from vgi_cli.methods.em.factorised import step
from vgi_cli.methods.em.steps import em_step, iteration
from vgi_cli.models.gaussian.fa import FaConfig, FactorAnalysis
from vgi_cli.models.gaussian.family import NO_SUMS, EmTable, at_once, em_table

pytestmark = pytest.mark.full_fits(
    "models.gaussian.fa.FactorAnalysis.tolerance",
    "models.gaussian.mixture.GaussianMixture.tolerance",
    "methods.em.em.REDRAWS",
    "models.gaussian.rounded.SWEEPS",
)

FLOOR = 0.01


def rows(N: int, D: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    z = torch.randn(N, 2, dtype=torch.float64, generator=generator)
    x = z @ torch.randn(2, D, dtype=torch.float64, generator=generator)
    return x + 0.5 * torch.randn(N, D, dtype=torch.float64, generator=generator) + torch.arange(D)


def started(x: Tensor, factors: int = 2) -> FactorAnalysis:
    model = FactorAnalysis.build(FaConfig(factors=factors), Layout.plain(x.shape[1])).double()
    model.initialise(x, torch.Generator())
    return model


def one_hole(N: int, D: int) -> Tensor:
    """Up to one in each row."""
    return torch.eye(D + 1, dtype=torch.bool)[torch.arange(N) % (D + 1), :D]


def bound(model: FactorAnalysis, x: Tensor, missing: Tensor, mean: Tensor, log_sd: Tensor) -> Tensor:
    """E_q [log p(x)] + H(q), nats in all, of a normal q of each missing cell: from the definitions, densely."""
    covariance = model.F @ model.F.mT + torch.diag(model.log_psi.exp())
    centre = torch.where(missing, mean, x) - model.mean
    variance = torch.where(missing, (2 * log_sd).exp(), 0.0)
    precision = torch.linalg.inv(covariance)
    square = torch.einsum("rd,de,re->r", centre, precision, centre) + variance @ precision.diagonal()
    constant = torch.logdet(2 * torch.pi * covariance)
    entropy = (missing * (0.5 * math.log(2 * math.pi * math.e) + log_sd)).sum()
    return -0.5 * (square + constant).sum() + entropy


def penalty_of(model: FactorAnalysis, table: EmTable) -> Tensor:
    return -0.5 * (FLOOR * table.scale.variance * torch.exp(-model.log_psi)).sum()


@pytest.mark.parametrize("accelerate", [False, True])
@pytest.mark.parametrize("factors", [0, 2])
def test_the_bound_never_falls(accelerate: bool, factors: int) -> None:
    x = rows(200, 5)
    missing = torch.rand(200, 5, generator=torch.Generator().manual_seed(1)) < 0.5
    weights = torch.rand(200, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    table, model = em_table(x, missing, weights), started(x + 1, factors)
    penalty = model.penalty(None, FLOOR)
    values = [iteration(model, table, penalty, accelerate, step) for _ in range(40)]
    assert min(b.objective - a.objective for a, b in pairwise(values)) > -1e-9
    assert values[-1].objective > values[0].objective + 1
    assert all(value.objective <= value.loglik for value in values)
    if factors == 0:  # nothing tells of anything: nothing is lost
        gap = values[-1].loglik - values[-1].objective + penalty_of(model, table).detach()
        assert abs(float(gap)) < 1e-4  # the value is one step behind the parameters


def test_the_posterior_is_the_best_factorised_one() -> None:
    """Its bound is the most that any normals of the cells reach, by a numeric search over their means and sds."""
    x, missing = rows(8, 4), torch.rand(8, 4, generator=torch.Generator().manual_seed(3)) < 0.5
    model, table = started(x), em_table(x, missing)
    q = torch.zeros(2, 8, 4, dtype=torch.float64, requires_grad=True)
    search = torch.optim.LBFGS([q], max_iter=200, tolerance_change=1e-12, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        search.zero_grad()
        value = -bound(model, x, missing, q[0], q[1])
        value.backward(inputs=[q])
        return value

    search.step(loss)
    reached = bound(model, x, missing, q[0], q[1]) + penalty_of(model, table)
    value = at_once(step(model, table, model.penalty(None, FLOOR), NO_SUMS))
    assert float(reached.detach()) == pytest.approx(value.objective.item(), abs=1e-7)
    assert value.objective < value.loglik - 0.1


def test_the_fit_is_the_top_of_the_mean_field_bound() -> None:
    """A search by gradients over model and posterior together ends where the steps do."""
    x, missing = rows(12, 3, seed=4), torch.rand(12, 3, generator=torch.Generator().manual_seed(5)) < 0.35
    fitted, free, table = started(x, 1), started(x, 1), em_table(x, missing)
    penalty = fitted.penalty(None, FLOOR)
    for _ in range(150):
        value = iteration(fitted, table, penalty, True, step)
    q = torch.zeros(2, 12, 3, dtype=torch.float64, requires_grad=True)
    learnt = [q, *free.parameters()]
    search = torch.optim.LBFGS(learnt, max_iter=1000, tolerance_change=1e-10, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        search.zero_grad()
        value = -bound(free, x, missing, q[0], q[1]) - penalty_of(free, table)
        value.backward(inputs=learnt)
        return value

    search.step(loss)
    assert -float(loss().detach()) == pytest.approx(value.objective.item(), abs=1e-5)
    S, T = (model.gaussians.moments().covariance[0].detach() for model in (fitted, free))
    torch.testing.assert_close(S, T, rtol=1e-3, atol=1e-3)


def test_with_one_hole_a_row_it_is_exact() -> None:
    x, missing = rows(60, 4), one_hole(60, 4)
    table, model, exact = em_table(x, missing), started(x), started(x)
    penalty = model.penalty(None, FLOOR)
    first, second = (at_once(one(m, table, penalty, NO_SUMS)) for one, m in ((step, model), (em_step, exact)))
    torch.testing.assert_close(first.objective, second.objective)
    torch.testing.assert_close(first.loglik, second.loglik)
    for _ in range(60):
        first, second = iteration(model, table, penalty, True, step), iteration(exact, table, penalty, True)
    torch.testing.assert_close(first.objective, second.objective, rtol=0, atol=1e-6)
    S, T = (fit.gaussians.moments().covariance for fit in (model, exact))
    torch.testing.assert_close(S, T, rtol=1e-4, atol=1e-4)


def test_many_holes_cost_correlation() -> None:
    """The bias of the paper's figure 2: correlations of the fit shrink, those of the exact one do not."""
    x = rows(2000, 4, seed=6)
    missing = torch.rand(2000, 4, generator=torch.Generator().manual_seed(7)) < 0.7
    table, model, exact = em_table(x, missing), started(x), started(x)
    penalty = model.penalty(None, 1e-3)
    for _ in range(40):
        iteration(model, table, penalty, True, step)
        iteration(exact, table, penalty, True)
    truth = torch.corrcoef(x.mT)
    off = ~torch.eye(4, dtype=torch.bool)
    ours, theirs = (_correlations(fit)[off].abs().mean() for fit in (model, exact))
    assert ours < 0.9 * truth[off].abs().mean()
    assert theirs > 0.95 * truth[off].abs().mean()


def _correlations(model: FactorAnalysis) -> Tensor:
    S = model.gaussians.moments().covariance[0].detach()
    sd = S.diagonal().sqrt()
    return S / (sd[:, None] * sd)
