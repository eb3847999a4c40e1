"""log p(observed cells): unbiased in closed-form cases, close on black boxes and flows, and honest about its doubts."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from tests.evaluation.models import exact_holes, quadrature, random_mixture
from tests.oracles import (
    GaussianConditionals,
    GaussianModel,
    gaussian_marginal_log_prob,
    random_covariance,
)
from tests.selection import first
from vgi_cli.errors import UsageError
from vgi_cli.evaluation.likelihood import estimate as likelihood
from vgi_cli.evaluation.likelihood.annealing import Annealer, _pick
from vgi_cli.evaluation.likelihood.estimate import distrust, observed_log_prob
from vgi_cli.evaluation.likelihood.ladder import Budget, Effort
from vgi_cli.evaluation.likelihood.loglik import Bracket, effective
from vgi_cli.layout import Layout
from vgi_cli.maths.joint import JointMixture
from vgi_cli.maths.noise import KeyedNoise, row_keys
from vgi_cli.models.base import ConditionalDistribution, Marginal, ModelConfig
from vgi_cli.models.flows.coupling import Flow, FlowConfig


def gaussian(D: int, seed: int = 0) -> GaussianModel:
    g = torch.Generator().manual_seed(seed)
    return GaussianModel(torch.randn(D, generator=g, dtype=torch.float64), random_covariance(D, g))


def joint_of(model: GaussianModel, wider: float = 1.0, shift: float = 0.0) -> JointMixture:
    return JointMixture(
        torch.zeros(1, dtype=torch.float64), model.mean[None] + shift, model.covariance[None] * wider**2
    )


def noise_for(R: int, P: int, seed: int = 0) -> KeyedNoise:
    return KeyedNoise(seed, ("a",), row_keys([str(r) for r in range(R)]), torch.arange(P))


# -- the estimator in closed-form cases ------------------------------------------------------------------------------


def test_zero_variance_with_exact_conditionals() -> None:
    """One missing cell, exact q: log p - log q = log p(x_obs) for every draw; so for the annealer with exact g."""
    model = gaussian(4)
    x = model.sample(10, torch.Generator().manual_seed(1))
    missing = exact_holes(10, 4, 1, torch.Generator().manual_seed(2))
    expected = gaussian_marginal_log_prob(model, x, missing)
    j = missing.int().argmax(1, keepdim=True).expand(-1, 7)
    noise = torch.randn(10, 7, 1, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    exact = GaussianConditionals(model.mean, model.covariance)
    value, log_q = exact.law(x, missing, j).draw_scored(noise)
    weight = model.log_prob(exact.put(x[:, None], j, value)) - log_q
    torch.testing.assert_close(weight, expected[:, None].expand(-1, 7), rtol=0, atol=1e-10)
    annealer = Annealer(model.log_prob, joint_of(model), exact)
    for T in (1, 6):
        weights = annealer.forward(annealer.conditional(x, missing), noise_for(10, 5), T)
        torch.testing.assert_close(weights, expected.expand(5, -1), rtol=0, atol=1e-9)


@pytest.mark.parametrize("T", [1, 2, 9])
@pytest.mark.parametrize("memory", [0.0, 0.5])
def test_weights_are_unbiased_forwards_and_backwards(T: int, memory: float) -> None:
    """g and q both wrong: E[w] = p(x_obs), and over exact hidden cells E[1/w of the reverse path] = 1/p(x_obs)."""
    model = gaussian(4)
    g = torch.Generator().manual_seed(1)
    R, P = 4, 4000
    x = model.sample(R, g)
    missing = exact_holes(R, 4, 3, g)
    log_p = gaussian_marginal_log_prob(model, x, missing)
    q = GaussianConditionals(model.mean, model.covariance, shift=0.3, scale=1.3, memory=memory)
    annealer = Annealer(model.log_prob, joint_of(model, 1.2, 0.3), q)
    weights = (annealer.forward(annealer.conditional(x, missing), noise_for(R, P), T) - log_p).exp()
    error = (weights.mean(0) - 1) / (weights.std(0) / math.sqrt(P))
    assert (error.abs() < 4).all()
    # exact draws of the hidden cells, from the closed-form conditional of the right joint
    right = joint_of(model).conditional(x, missing).sample(noise_for(R, P, seed=1))
    rows, holes = right.reshape(P * R, 4), missing.repeat(P, 1)
    back = annealer.reverse(annealer.conditional(rows, holes), rows, noise_for(P * R, 1), T).view(P, R)
    inverse = (log_p - back).exp()
    error = (inverse.mean(0) - 1) / (inverse.std(0) / math.sqrt(P))
    assert (error.abs() < 4).all()


def test_longer_paths_have_less_variance() -> None:
    model = gaussian(4)
    x = model.sample(20, torch.Generator().manual_seed(1))
    missing = exact_holes(20, 4, 3, torch.Generator().manual_seed(1))
    q = GaussianConditionals(model.mean, model.covariance)
    annealer = Annealer(model.log_prob, joint_of(model, 1.5, 1.0), q)
    g = annealer.conditional(x, missing)
    variances = [float(annealer.forward(g, noise_for(20, 100), T).var(0).mean()) for T in (1, 8, 64)]
    assert variances[0] > 2 * variances[1] > 4 * variances[2]


def test_a_density_that_is_no_number_counts_as_zero() -> None:
    """p = 0 where the hidden cell is negative (its log is NaN there): the estimate is that of the half density."""
    model = gaussian(2)

    def log_p(x: Tensor) -> Tensor:
        return torch.where(x[:, 1] > 0, model.log_prob(x), torch.nan)

    x, missing = torch.zeros(1, 2, dtype=torch.float64), torch.tensor([[False, True]])
    t = torch.linspace(0, 40, 40_001, dtype=torch.float64)
    truth = model.log_prob(torch.stack([torch.zeros_like(t), t], 1)).logsumexp(0) + math.log(1e-3)
    q = GaussianConditionals(model.mean, model.covariance)
    annealer = Annealer(log_p, joint_of(model), q)
    for T in (1, 5):
        weights = annealer.forward(annealer.conditional(x, missing), noise_for(1, 20_000), T)
        got = float(weights.logsumexp(0) - math.log(20_000))
        assert got == pytest.approx(float(truth), abs=0.05)


def test_pick_is_uniform_over_the_holes() -> None:
    missing = torch.tensor([[False, True, False, True, True], [False, False, False, False, True]])
    u = torch.tensor([0.0, 0.2, 0.4, 0.7, 0.999999], dtype=torch.float64)[:, None].expand(-1, 2)
    assert _pick(missing, u).mT.tolist() == [[1, 1, 3, 4, 4], [4, 4, 4, 4, 4]]


# -- the function that evaluate calls --------------------------------------------------------------------------------


def errors(model: object, exact: Tensor, x: Tensor, missing: Tensor, q: object, **budget: object) -> Tensor:
    result = observed_log_prob(model, q, x, missing, budget=Budget(**budget))
    assert result.estimator == "annealed" and result.warning is None
    return result.values - exact


def test_black_box_gaussian_of_43_columns_with_20_holes() -> None:
    g = torch.Generator().manual_seed(0)
    model = GaussianModel(torch.zeros(43, dtype=torch.float64), random_covariance(43, g, 4))
    x, missing = model.sample(24, g), exact_holes(24, 43, 20, g)
    exact = gaussian_marginal_log_prob(model, x, missing)
    q = GaussianConditionals(model.mean, model.covariance)
    for conditionals in (q, None):
        e = errors(model, exact, x, missing, conditionals, simulated=0)
        assert abs(float(e.mean())) < 0.03 and float(e.square().mean().sqrt()) < 0.08


@pytest.mark.slow
def test_black_box_mixture_of_43_columns_with_20_holes() -> None:
    g = torch.Generator().manual_seed(0)
    model = random_mixture(43, [0.4, 0.3, 0.2, 0.1], g)
    x, missing = model.sample(32, g), exact_holes(32, 43, 20, g)
    e = errors(model, model.marginal(x, missing), x, missing, None)
    assert abs(float(e.mean())) < 0.03 and float(e.square().mean().sqrt()) < 0.08


def random_flow(D: int) -> Flow:
    """A flow that is far from Gaussian: its initial state with every parameter perturbed."""
    g = torch.Generator().manual_seed(0)
    flow = Flow.build(FlowConfig(steps=2, hidden=8, bins=5), Layout.plain(D)).double()
    flow.initialise(torch.randn(100, D, generator=g, dtype=torch.float64), g)
    with torch.no_grad():
        for p in flow.parameters():
            p += 0.2 * torch.randn(p.shape, generator=g, dtype=torch.float64)
    return flow


@pytest.mark.parametrize("D", first(1, [2, 3]))
def test_flow_against_quadrature(D: int) -> None:
    flow = random_flow(D)
    g = torch.Generator().manual_seed(1)
    R, n = (32, 1201) if D == 2 else (8, 241)
    x = flow.sample(R, g)
    missing = exact_holes(R, D, D - 1, g)
    e = errors(flow, quadrature(flow, x, missing, limit=6, n=n), x, missing, None, samples=4000, simulated=20)
    assert abs(float(e.mean())) < 3 * float(e.std()) / math.sqrt(R) and float(e.std()) < 0.1


def test_flow_bracket_holds_the_truth() -> None:
    flow = random_flow(2)
    g = torch.Generator().manual_seed(1)
    x, missing = flow.sample(50, g), exact_holes(50, 2, 1, g)
    b = observed_log_prob(flow, None, x, missing, budget=Budget(particles=8, moves=1, samples=4000)).bracket
    assert b.rows == 50
    assert 0 < b.upper - b.lower < 0.2 and b.gap_se < 0.05


def test_the_same_numbers_whatever_the_batch_and_the_other_rows() -> None:
    model = random_mixture(4, [0.5, 0.5], torch.Generator().manual_seed(0))
    g = torch.Generator().manual_seed(1)
    x, missing = model.sample(30, g), exact_holes(30, 4, 2, g)
    rows = row_keys([str(i) for i in range(30)])

    def run(pick: Tensor, batch: int, seed: int = 0) -> Tensor:
        budget = Budget(particles=16, batch=batch, samples=2000, simulated=0)
        return observed_log_prob(model, None, x[pick], missing[pick], budget=budget, seed=seed, rows=rows[pick]).values

    every = run(torch.arange(30), 16_384)
    pick = torch.tensor([20, 3, 11])
    torch.testing.assert_close(run(torch.arange(30), 64), every, rtol=0, atol=1e-9)
    torch.testing.assert_close(run(pick, 64), every[pick], rtol=0, atol=1e-9)
    assert (run(pick, 64, seed=1) != every[pick]).all()


def test_complete_and_fully_missing_rows() -> None:
    model = gaussian(3)
    x = model.sample(4, torch.Generator().manual_seed(0))
    missing = torch.zeros(4, 3, dtype=torch.bool)
    missing[1] = True
    result = observed_log_prob(model, None, x, missing)
    assert result.estimator == "exact" and result.ess is None and result.half_budget is None
    assert result.values[1] == 0
    seen = torch.tensor([0, 2, 3])
    torch.testing.assert_close(result.values[seen], model.log_prob(x)[seen])
    missing[2, 0] = True
    result = observed_log_prob(model, None, x, missing, budget=Budget(samples=1000, simulated=3))
    assert result.estimator == "annealed" and result.bracket.rows == 1
    torch.testing.assert_close(result.values[seen[[0, 2]]], model.log_prob(x)[seen[[0, 2]]])
    assert result.ess[0] == result.particles > result.ess[2] > 1
    assert result.half_budget[0] == result.values[0] != result.half_budget[2]


@dataclass
class _Unused(ConditionalDistribution):
    def mean(self) -> Tensor:
        raise AssertionError

    def sample(self, noise: KeyedNoise) -> Tensor:
        raise AssertionError


class ClosedForm(GaussianModel, Marginal):
    Config = ModelConfig

    def marginal_log_prob(self, x: Tensor, missing: Tensor) -> Tensor:
        return gaussian_marginal_log_prob(self, x, missing)

    def conditional(self, x: Tensor, missing: Tensor) -> ConditionalDistribution:
        return _Unused()


def test_a_marginal_model_is_exact() -> None:
    base = gaussian(3)
    model = ClosedForm(base.mean, base.covariance)
    g = torch.Generator().manual_seed(0)
    x, missing = base.sample(9, g), exact_holes(9, 3, 2, g)
    result = observed_log_prob(model, None, x, missing)
    assert result.estimator == "exact" and result.warning is None
    torch.testing.assert_close(result.values, gaussian_marginal_log_prob(base, x, missing))
    assert observed_log_prob(model, None, x[:0], missing[:0]).values.shape == (0,)


def test_a_bound_is_refused() -> None:
    class Bound(GaussianModel):
        exact = False

    base = gaussian(2)
    with pytest.raises(UsageError, match="lower bound only") as caught:
        observed_log_prob(
            Bound(base.mean, base.covariance), None, torch.zeros(1, 2), torch.zeros(1, 2, dtype=torch.bool)
        )
    assert "own estimator" in caught.value.hint


# -- when not to trust it --------------------------------------------------------------------------------------------


def test_a_hopeless_proposal_is_warned_about() -> None:
    """Spikes that a smooth mixture misses, and no moves: the estimate must doubt itself."""

    class Spiky(GaussianModel):
        def log_prob(self, x: Tensor) -> Tensor:
            wave = 6 * torch.cos(12 * x).sum(-1)
            return super().log_prob(x) + wave - x.shape[-1] * math.log(torch.special.i0(torch.tensor(6.0)))

    model = Spiky(torch.zeros(8, dtype=torch.float64), torch.eye(8, dtype=torch.float64))
    x = torch.zeros(20, 8, dtype=torch.float64)
    missing = exact_holes(20, 8, 6, torch.Generator().manual_seed(0))
    result = observed_log_prob(model, None, x, missing, budget=Budget(moves=1, samples=1000, simulated=0))
    assert result.work is not None and result.work.limited.all()
    assert result.warning is not None and "likely too low" in result.warning
    assert "effective sample size below" in result.warning and "half the budget" in result.warning


def test_rule_of_distrust() -> None:
    good = torch.full((20,), 0.9)
    zero = torch.zeros(20)
    assert distrust(good, zero, Bracket(-1.0, -0.95, 0.01, 100)) is None
    assert distrust(good, zero, Bracket(-1.0, -0.8, 0.1, 100)) is None  # within three standard errors
    assert "0.200 nats a row apart" in distrust(good, zero, Bracket(-1.0, -0.8, 0.01, 100))
    assert "half the budget is 0.030" in distrust(good, zero + 0.03, None)
    low = good.clone()
    low[:2] = 0.05
    assert "10% of the incomplete rows" in distrust(low, zero, None)
    assert "half the budget is nan" in distrust(good, zero * torch.nan, None)


def test_effective_sample_size() -> None:
    assert effective(torch.zeros(8, 1)).item() == pytest.approx(8)
    assert effective(torch.tensor([[0.0], [-1e9]])).item() == pytest.approx(1)
    assert effective(torch.full((4, 1), -torch.inf)).item() == 0


def test_bundles_have_the_variance_of_their_mean(monkeypatch: pytest.MonkeyPatch) -> None:
    """All rows bundled: the variance of the estimate falls by the size of the bundle, and its mean stays."""
    model = gaussian(3)
    x = model.sample(300, torch.Generator().manual_seed(1))
    missing = exact_holes(300, 3, 2, torch.Generator().manual_seed(1))
    truth = gaussian_marginal_log_prob(model, x, missing)
    spread = {}
    for bundle in (1, 8):

        def fixed(pilot: object, like: Tensor, S: int, budget: Budget, B: int = bundle) -> Effort:
            one = torch.ones(len(like), dtype=torch.int64)
            return Effort(one, B * one, one < 0)

        monkeypatch.setattr(likelihood, "climb", fixed)
        budget = Budget(particles=16, simulated=300, samples=4000)
        result = observed_log_prob(model, None, x, missing, budget=budget)
        error = (result.values - truth).exp() - 1
        assert abs(float(error.mean())) < 4 * float(error.std()) / math.sqrt(300)
        spread[bundle] = float(error.var())
        assert result.bracket.lower - 3 * result.bracket.gap_se <= result.bracket.upper
        assert result.ess.max() <= 16 + 1e-9
    assert 5 < spread[1] / spread[8] < 12
