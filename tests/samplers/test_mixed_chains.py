"""Chains that fill levels and numbers: draws against the exact law of a row's holes, by chi-square."""

import itertools

import pytest
import scipy.stats
import torch

from tests.mixed import LAYOUT, A, B, ExactMixedConditionals, LevelsAndNumbers, rough_conditionals
from vgi_cli.maths.noise import KeyedNoise
from vgi_cli.samplers.base import Box, impute
from vgi_cli.samplers.gibbs import GibbsImputer
from vgi_cli.samplers.metropolis import BurnIn, MetropolisImputer
from vgi_cli.samplers.starts import EmpiricalStart

pytestmark = pytest.mark.full_fits("samplers.lengths.MOST_ROUNDS")

MODEL = LevelsAndNumbers(3).requires_grad_(False)
FREE = Box(
    torch.tensor([-torch.inf, 0, -torch.inf, 0], dtype=torch.float64),
    torch.tensor([torch.inf, 2, torch.inf, 1], dtype=torch.float64),
)
MISSING = torch.tensor([[True, True, False, True]])
DRAWS = 500


def drawn(imputer, x, box=FREE):
    keys = torch.arange(len(x))
    noise = KeyedNoise(0, LAYOUT.names, keys, torch.arange(DRAWS))
    return impute(imputer, x, MISSING.expand(len(x), 4), noise, box)[:, 0]


def start():
    table = MODEL.sample(200, torch.Generator().manual_seed(0))
    return EmpiricalStart(table, torch.zeros_like(table, dtype=torch.bool), LAYOUT)


def assert_drawn_from_the_conditional(draws, x, allowed=range(3)):
    """Combinations of the levels by chi-square, and the number given them within five standard errors."""
    given = MISSING.clone()
    shares, means = [], []
    sd = (MODEL.covariance[0, 0] - MODEL.covariance[0, 1] ** 2 / MODEL.covariance[1, 1]).sqrt()
    cells = list(itertools.product(allowed, range(2)))
    for a, b in cells:
        row = x.clone()
        row[0, A], row[0, B] = a, b
        given[0, A] = given[0, B] = False
        shares.append(float(MODEL.observed_log_prob(row, given).exp()))
        mean = MODEL.mean[2 * a + b]
        slope = MODEL.covariance[0, 1] / MODEL.covariance[1, 1]
        means.append(float(mean[0] + slope * (x[0, 2] - mean[1])))
    counts = [int(((draws[:, A] == a) & (draws[:, B] == b)).sum()) for a, b in cells]
    assert sum(counts) == len(draws)
    expected = [share / sum(shares) * len(draws) for share in shares]
    assert min(expected) > 5
    assert scipy.stats.chisquare(counts, expected).pvalue > 1e-3
    for (a, b), mean, count in zip(cells, means, counts, strict=True):
        mine = draws[(draws[:, A] == a) & (draws[:, B] == b), 0]
        assert abs(float(mine.mean()) - mean) < 5 * float(sd) / count**0.5


def row():
    """One whose levels are far from certain given its number."""
    return torch.tensor([[0.0, 0.0, 0.1, 0.0]], dtype=torch.float64)


@pytest.mark.parametrize(
    "blocks", [pytest.param((), marks=pytest.mark.slow), ("u", "a"), pytest.param(("a", "b"), marks=pytest.mark.slow)]
)
def test_metropolis_draws_from_the_model_with_rough_conditionals(blocks):
    q = rough_conditionals(1, LAYOUT.grouped([blocks] if blocks else []), 0.1)
    imputer = MetropolisImputer(MODEL, q, start(), BurnIn(minimum=40))
    draws = drawn(imputer, row())
    assert torch.equal(draws[:, 2], row()[:, 2].expand(DRAWS))
    assert_drawn_from_the_conditional(draws, row())
    assert imputer.diagnostics()["acceptance"] < 0.99


def test_a_box_leaves_out_levels():
    """The law of the others, given that it is none of these."""
    box = Box(FREE.low, torch.tensor([torch.inf, 1, torch.inf, 1], dtype=torch.float64))
    draws = drawn(MetropolisImputer(MODEL, rough_conditionals(1, size=0.1), start(), BurnIn(minimum=40)), row(), box)
    assert_drawn_from_the_conditional(draws, row(), allowed=range(2))


def test_gibbs_draws_from_the_model_with_its_own_conditionals():
    draws = drawn(GibbsImputer(ExactMixedConditionals(MODEL), start()), row())
    assert_drawn_from_the_conditional(draws, row())
