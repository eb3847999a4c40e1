"""Metropolis-within-Gibbs imputation: it draws from the model whatever q is, inside the box, and keyed."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from tests.oracles import GaussianConditionals, GaussianModel, gaussian_conditional
from tests.samplers.chains_setup import D, Setup, held, make_setup, noise_for, unbounded
from tests.selection import first
from vgi_cli.conditionals.amortised import AmortisedConditionals
from vgi_cli.conditionals.families.gaussian import NormalFamily
from vgi_cli.conditionals.networks.heads import HeadNetwork
from vgi_cli.errors import FitError, UsageError
from vgi_cli.layout import Layout
from vgi_cli.maths.noise import KeyedNoise
from vgi_cli.models.base import Model
from vgi_cli.models.flows.coupling import Flow, FlowConfig
from vgi_cli.samplers.base import Box, impute
from vgi_cli.samplers.metropolis import BurnIn, MetropolisImputer
from vgi_cli.samplers.starts import ChainStart, EmpiricalStart, Start

pytestmark = pytest.mark.full_fits("samplers.lengths.MOST_ROUNDS")


class TruthStart(Start):
    """Starts every chain at the row that was hidden: an exact draw of p(x_mis | x_obs)."""

    def __init__(self, full: Tensor) -> None:
        self.full = full

    def states(self, x: Tensor, missing: Tensor, noise: KeyedNoise, box: Box) -> Tensor:
        index = noise.rows  # the tests below use row numbers as keys
        return self.full[index].expand(len(noise.draws), -1, -1).clone()


@pytest.mark.parametrize(
    ("shift", "scale", "memory"),
    [pytest.param(0.0, 1.0, 0.0, marks=pytest.mark.slow), (0.4, 0.7, 0.0), (0.3, 1.2, 0.5)],
    ids=["exact", "rough", "extended"],
)
def test_rows_of_the_model_stay_rows_of_the_model(shift: float, scale: float, memory: float) -> None:
    """Rows drawn from p and masked, chains started at the hidden values: after 20 sweeps still distributed as p."""
    N = 2048
    s = make_setup(N)
    q = GaussianConditionals(s.model.mean, s.model.covariance, shift, scale, memory)
    imputer = MetropolisImputer(s.model, q, TruthStart(s.full), BurnIn(minimum=20))
    noise = KeyedNoise(0, tuple("abcd"), torch.arange(N), torch.arange(1))
    out = impute(imputer, s.x, s.missing, noise, s.box)[0]
    moved = (out != s.full) & s.missing
    assert moved.sum() > 0.9 * s.missing.sum()
    white = torch.linalg.solve_triangular(s.model.factor, (out - s.model.mean).mT, upper=False).mT
    # means and second moments of N(0, I), each within 4.5 standard errors (18 of them)
    assert (white.mean(0).abs() < 4.5 / math.sqrt(N)).all()
    second = white.mT @ white / N - torch.eye(D)
    assert (second.abs() < 4.5 * (1 + torch.eye(D) * (math.sqrt(2) - 1)) / math.sqrt(N)).all()


@pytest.mark.parametrize("bounded", first(1, [True, False]))
def test_reaches_the_conditional_from_f0(bounded: bool) -> None:
    """One row, many draws, a shifted narrow q: the closed-form conditional, or its truncation, by moments."""
    s = make_setup(300, seed=1)
    row, holes = s.full[5:6], torch.tensor([[True, False, True, False]])
    mean, cov = gaussian_conditional(s.model, row[0], holes[0])
    n = 2000
    box = unbounded(D)
    if bounded:  # truncated below at its mean in the first hole: half-normal, and what it does to the second hole
        box.low[0] = mean[0]
    q = GaussianConditionals(s.model.mean, s.model.covariance, shift=0.3, scale=0.8)
    imputer = MetropolisImputer(s.model, q, EmpiricalStart(s.x, s.missing), BurnIn(minimum=40))
    out = impute(imputer, row.masked_fill(holes, 0.0), holes, noise_for(1, n), box)[:, 0]
    assert (out[:, 1] == row[0, 1]).all() and (out[:, 3] == row[0, 3]).all()
    got = out[:, [0, 2]]
    assert (got[:, 0] >= box.low[0]).all()
    expected, variance = mean.clone(), cov.diagonal().clone()
    if bounded:
        gap = math.sqrt(2 / math.pi) * cov[0, 0].sqrt()
        expected += cov[:, 0] / cov[0, 0] * gap
        variance -= (cov[:, 0] / cov[0, 0]).square() * gap.square()
    assert ((got.mean(0) - expected).abs() < 4 * (variance / n).sqrt()).all()
    assert ((got.var(0) / variance - 1).abs() < 6 * math.sqrt(2 / n)).all()
    if bounded:
        assert imputer.diagnostics()["outside_range"] > 0


def _network_imputer(setup: Setup, dtype: torch.dtype, flow: bool = False) -> MetropolisImputer:
    g = torch.Generator().manual_seed(3)
    network = HeadNetwork(D, 2, [], [8])
    network.initialise(g)
    q = AmortisedConditionals(NormalFamily(), network, extended=False).to(dtype)
    model: Model = GaussianModel(setup.model.mean.to(dtype), setup.model.covariance.to(dtype))
    if flow:
        model = Flow.build(FlowConfig(steps=2, hidden=16), Layout.plain(D)).to(dtype)
        model.initialise(setup.full.to(dtype), g)
    return MetropolisImputer(model, q, EmpiricalStart(setup.x.to(dtype), setup.missing), BurnIn(minimum=6))


@pytest.mark.parametrize("flow", first(1, [True, False]))
def test_draws_do_not_depend_on_batch_rows_or_number_of_draws(flow: bool) -> None:
    s = make_setup(300, seed=2)
    x = s.x.float()
    noise = noise_for(300, 7)
    every = impute(_network_imputer(s, torch.float32, flow), x, s.missing, noise, s.box)
    assert torch.isfinite(every).all()
    fewer = impute(_network_imputer(s, torch.float32, flow), x, s.missing, noise.select(draws=torch.arange(2)), s.box)
    assert torch.equal(fewer, every[:2])
    pick = torch.tensor([299, 4, 17])
    some = impute(_network_imputer(s, torch.float32, flow), x[pick], s.missing[pick], noise.select(rows=pick), s.box)
    assert torch.equal(some, every[:, pick])


def test_draws_differ_between_draws_rows_and_seeds() -> None:
    s = make_setup(40, seed=2)
    out = impute(_network_imputer(s, torch.float64), s.x, s.missing, noise_for(40, 3), s.box)
    other = impute(_network_imputer(s, torch.float64), s.x, s.missing, noise_for(40, 1, seed=1), s.box)
    hidden = s.missing
    assert (out[0] != out[1])[hidden].all() and (out[0] != other[0])[hidden].float().mean() > 0.9
    assert torch.equal(out[0][~hidden], s.x[~hidden])


def test_burn_in_rule() -> None:
    rule = BurnIn(minimum=20, per_hole=2.0, target=0.5, longest=4.0)
    assert rule.first(torch.tensor([0, 1, 10, 21])).tolist() == [0, 10, 10, 21]
    rest = rule.rest(torch.full((4,), 10), torch.tensor([0.9, 0.5, 0.25, 0.0]))
    assert rest.tolist() == [10, 10, 20, 40]


def test_low_acceptance_extends_the_chain_and_is_reported() -> None:
    s = make_setup(200, seed=4)
    results = {}
    for name, shift in {"good": 0.0, "bad": 4.0}.items():
        q = GaussianConditionals(s.model.mean, s.model.covariance, shift=shift, scale=0.5 if shift else 1.0)
        imputer = MetropolisImputer(s.model, q, EmpiricalStart(s.x, s.missing))
        impute(imputer, s.x, s.missing, noise_for(200, 2), s.box)
        results[name] = imputer.diagnostics()
    good, bad = results["good"], results["bad"]
    assert good["acceptance"] > 0.9 and good["extended"] == 0.0 and good["sweeps"] == 20.0
    assert bad["acceptance"] < 0.3 and bad["extended"] > 0.9 and bad["sweeps"] > 30
    assert bad["longest_run_of_rejections"] > good["longest_run_of_rejections"]
    assert good["memory"] < 0.25 < bad["memory"] <= 1.0
    assert set(good["acceptance_by_column"]) == {"c0", "c1", "c2", "c3"}
    assert good["outside_range"] == 0


def test_the_walk_frees_a_chain_where_q_is_too_narrow() -> None:
    """One hole; q far too narrow: without the walk the chain would never reach the tails."""
    model = GaussianModel(torch.zeros(1, dtype=torch.float64), torch.eye(1, dtype=torch.float64))
    q = GaussianConditionals(model.mean, model.covariance, scale=0.1)
    start = EmpiricalStart(torch.full((1, 1), 3.0, dtype=torch.float64), torch.zeros(1, 1, dtype=torch.bool))
    n = 512
    imputer = MetropolisImputer(model, q, start, BurnIn(minimum=120))
    x, holes = torch.zeros(1, 1, dtype=torch.float64), torch.ones(1, 1, dtype=torch.bool)
    out = impute(imputer, x, holes, noise_for(1, n, columns=1), unbounded(1))[:, 0, 0]
    assert abs(out.mean()) < 4.5 / math.sqrt(n) and abs(out.var() - 1) < 4.5 * math.sqrt(2 / n)


def test_complete_rows_come_back_and_nothing_is_reported() -> None:
    s = make_setup(3)
    holes = torch.zeros_like(s.missing)
    imputer = _network_imputer(s, torch.float64)
    out = impute(imputer, s.full, holes, noise_for(3, 2), s.box)
    assert torch.equal(out, s.full.expand(2, -1, -1)) and imputer.diagnostics() == {}


def test_modes_are_left_as_they_were() -> None:
    s = make_setup(5)
    imputer = _network_imputer(s, torch.float64)
    imputer._q.train()
    imputer._model.eval()
    impute(imputer, s.x, s.missing, noise_for(5, 1), s.box)
    assert imputer._q.training and not imputer._model.training


def test_refuses_a_bound_and_a_model_without_density() -> None:
    s = make_setup(20)
    q = GaussianConditionals(s.model.mean, s.model.covariance)

    class Bound(GaussianModel):
        exact = False

    with pytest.raises(UsageError, match="lower bound only") as caught:
        MetropolisImputer(Bound(s.model.mean, s.model.covariance), q, EmpiricalStart(s.x, s.missing))
    assert "--sampler gibbs" in caught.value.hint

    class Broken(GaussianModel):
        def log_prob(self, x: Tensor) -> Tensor:
            return super().log_prob(x) * torch.nan

    imputer = MetropolisImputer(Broken(s.model.mean, s.model.covariance), q, EmpiricalStart(s.x, s.missing))
    with pytest.raises(FitError, match="no density at an imputed row"):
        impute(imputer, s.x, s.missing, noise_for(20, 1), s.box)


def test_starts_are_inside_the_box_and_from_the_observed_values() -> None:
    s = make_setup(200)
    box = Box(torch.tensor([-0.5, 5.0, 90.0, -torch.inf]), torch.tensor([0.5, 6.0, 91.0, torch.inf]))
    states = EmpiricalStart(s.x, s.missing).states(s.x, s.missing, noise_for(200, 3), box)
    assert box.contains(states)[:, s.missing].all()
    for c in (0, 3):
        seen = s.x[~s.missing[:, c], c]
        assert torch.isin(states[:, s.missing[:, c], c], seen).all()
    assert (states[:, s.missing[:, 2], 2] == 90.0).all()
    assert torch.equal(states[:, ~s.missing], s.x[~s.missing].expand(3, -1))


def test_chains_start_where_the_run_holds_them() -> None:
    s = make_setup(6, seed=5)
    noise = noise_for(6, 3)
    other = EmpiricalStart(s.x, s.missing)
    packed = 100 + torch.arange(int(s.missing.sum()) * 2, dtype=torch.float64).view(-1, 2)
    start = ChainStart(held(noise.rows, s.missing, packed), other)
    newly = s.missing.clone()
    newly[0, 1] = True  # hidden later: the run holds no draw of it
    states = start.states(s.x.masked_fill(newly, 0.0), newly, noise, s.box)
    f0 = other.states(s.x.masked_fill(newly, 0.0), newly, noise, s.box)
    assert torch.equal(states[:2][:, s.missing], packed.mT)
    assert torch.equal(states[2], f0[2]) and torch.equal(states[:, 0], f0[:, 0])
    unknown = start.states(s.x, s.missing, KeyedNoise(0, noise.columns, noise.rows + 1, noise.draws), s.box)
    assert (unknown < 100).all()
    bounded = start.states(s.x, s.missing, noise, Box(s.box.low, torch.full((D,), 50.0)))
    assert (bounded < 100).all()
