"""log p(observed cells) of rows with levels, annealed: closed forms of the proposal, estimates against sums."""

import functools
import itertools

import pytest
import torch

from tests.mixed import LAYOUT, A, B, LevelsAndNumbers, OnlyLevels, rough_conditionals
from vgi_cli.evaluation.likelihood.estimate import observed_log_prob
from vgi_cli.evaluation.likelihood.ladder import Budget
from vgi_cli.evaluation.likelihood.univariate import MixtureConditionals
from vgi_cli.maths.joint import fit_joint, fit_mixture
from vgi_cli.maths.noise import KeyedNoise

MODEL = LevelsAndNumbers(3).requires_grad_(False)
GRID = torch.linspace(-12, 12, 601, dtype=torch.float64)


@functools.cache
def mixture(n=3000):
    g = torch.Generator().manual_seed(0)
    x = MODEL.sample(n, g)
    return fit_joint(x[: n * 4 // 5], x[n * 4 // 5 :], g, LAYOUT.level_counts)


def completions(row, missing):
    """Rows with every combination of missing levels; a missing number, one at most, runs along GRID."""
    ranges = [range(n) if n and missing[i] else [float(row[i])] for i, n in enumerate(LAYOUT.level_counts)]
    free = [i for i in (0, 2) if missing[i]]
    for values in itertools.product(*ranges):
        filled = torch.tensor(values, dtype=torch.float64).expand(len(GRID) if free else 1, 4).clone()
        for i in free:
            filled[:, i] = GRID
        yield filled, bool(free)


@pytest.mark.parametrize("holes", [(A,), (B, A), (0, A), (2,), (0, A, B)])
def test_the_marginal_of_the_joint_mixture_sums_and_integrates_its_density(holes):
    joint = mixture()
    x = MODEL.sample(1, torch.Generator().manual_seed(1))
    missing = torch.zeros(1, 4, dtype=torch.bool)
    missing[0, list(holes)] = True
    total = 0.0
    for filled, along in completions(x[0], missing[0]):
        density = joint.log_prob(filled).exp()
        total += float(torch.trapezoid(density, GRID) if along else density[0])
    got = joint.conditional(x, missing).log_marginal().exp()
    assert float(got) == pytest.approx(total, rel=1e-5)


def test_draws_have_the_frequencies_of_the_conditional():
    joint = mixture()
    x = MODEL.sample(1, torch.Generator().manual_seed(1))
    missing = torch.tensor([[True, True, False, True]])
    draws = joint.conditional(x, missing).sample(
        KeyedNoise(0, tuple("uavb"), torch.zeros(1, dtype=torch.int64), torch.arange(20_000))
    )[:, 0]
    assert torch.equal(draws[:, 2], x[0, 2].expand(20_000))
    whole = float(joint.conditional(x, missing).log_marginal())
    for a, b in itertools.product(range(3), range(2)):
        filled = x.expand(len(GRID), 4).clone()
        filled[:, A], filled[:, B], filled[:, 0] = a, b, GRID
        density = (joint.log_prob(filled) - whole).exp()
        share = float(torch.trapezoid(density, GRID))
        mine = draws[(draws[:, A] == a) & (draws[:, B] == b)]
        assert len(mine) / 20_000 == pytest.approx(share, abs=0.015)
        if share > 0.05:
            mean = float(torch.trapezoid(density * GRID, GRID)) / share
            assert float(mine[:, 0].mean()) == pytest.approx(mean, abs=0.1)


def test_single_conditionals_are_those_of_the_joint_mixture():
    joint = mixture()
    q = MixtureConditionals(joint)
    x = MODEL.sample(1, torch.Generator().manual_seed(2))
    every = torch.ones(1, 4, dtype=torch.bool)
    for j, count in enumerate(LAYOUT.level_counts):
        law = q.law(x, every, torch.tensor([j]))
        own = float(joint.log_prob(x)) - float(law.log_prob(x[:, j]))
        values = torch.arange(count, dtype=torch.float64) if count else torch.tensor([-1.0, 0.3, 2.0]).double()
        for value in values:
            moved = x.clone()
            moved[0, j] = value
            assert float(joint.log_prob(moved)) - float(law.log_prob(moved[:, j])) == pytest.approx(own, abs=1e-9)


def test_em_finds_the_components_and_raises_the_density():
    g = torch.Generator().manual_seed(4)
    x = MODEL.sample(2000, g)
    scores = [float(fit_mixture(x, k, g, counts=LAYOUT.level_counts).log_prob(x).mean()) for k in (1, 2, 6)]
    assert scores[0] < scores[1] < scores[2] < float(MODEL.log_prob(x).mean()) + 0.05


@pytest.mark.parametrize("fitted", [False, True])
def test_an_annealed_estimate_comes_near_the_sum(fitted):
    """With the conditionals of the joint mixture, and with rough ones of blocks that hold both kinds."""
    q = rough_conditionals(1, LAYOUT.grouped([("u", "a")]), 0.2) if fitted else None
    g = torch.Generator().manual_seed(5)
    x, missing = MODEL.sample(25, g), torch.rand(25, 4, generator=g) < 0.5
    budget = Budget(particles=32, moves=16, samples=2000, simulated=20)
    got = observed_log_prob(MODEL, q, torch.where(missing, 0.0, x), missing, budget=budget)
    expected = MODEL.observed_log_prob(x, missing)
    expected[missing.all(1)] = 0.0
    gap = got.values - expected
    assert float(gap.abs().max()) < 0.4 and abs(float(gap.mean())) < 0.02
    assert got.bracket is not None and got.bracket.upper - got.bracket.lower < 0.05
    assert got.warning is None


def test_a_density_of_levels_alone_is_annealed_too():
    model = OnlyLevels().requires_grad_(False)
    g = torch.Generator().manual_seed(6)
    x, missing = model.sample(30, g), torch.rand(30, 2, generator=g) < 0.4
    got = observed_log_prob(model, None, x, missing, budget=Budget(particles=512, moves=16, samples=2000, simulated=0))
    table = model.table.softmax(0).view(3, 2)
    for row, holes, value in zip(x.long().tolist(), missing.tolist(), got.values.tolist(), strict=True):
        part = table if holes[0] else table[row[0] : row[0] + 1]
        part = part if holes[1] else part[:, row[1] : row[1] + 1]
        assert value == pytest.approx(float(part.sum().log()), abs=0.06)
