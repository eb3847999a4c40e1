"""What the settings of a scan mean for a table, and the weights of an adaptive one."""

import pytest
import torch
from pydantic import ValidationError

from tests.methods.test_vgi import SIGMA, ExactConditionals, log_p, rows
from vgi_cli.chains.store import Chains
from vgi_cli.methods.objective import draw_noise, sweep_noise, update_imputations, vgi_objective
from vgi_cli.methods.scans import BLOCKS_FROM, MOST, PARTS, SELDOM, SINGLE, Moves, Visits, block_columns, moves_of
from vgi_cli.methods.vgi_config import VgiConfig


def table(D, share):
    missing = torch.zeros(6, D, dtype=torch.bool)
    missing[:4, : int(share * D)] = True
    return Chains(torch.zeros(6, D), missing, 1)


def test_auto_is_single_columns_up_to_many_holes_a_row_and_blocks_from_there():
    for D, share in ((4, 1.0), (60, 1.0), (2 * BLOCKS_FROM - 2, 0.5)):
        assert moves_of(VgiConfig(), table(D, share)) == SINGLE and not SINGLE.together
        assert block_columns(VgiConfig(), table(D, share)) == 1
    for D, expected in ((2 * BLOCKS_FROM, BLOCKS_FROM // PARTS), (560, 280 // PARTS), (2000, MOST)):
        assert moves_of(VgiConfig(), table(D, 0.5)) == Moves(expected)
        assert block_columns(VgiConfig(), table(D, 0.5)) == expected
    assert moves_of(VgiConfig(scan="step"), table(560, 0.5)) == SINGLE


def test_columns_by_hand():
    config = VgiConfig(scan="block", block_columns=7, relax=-0.5, visit="adaptive")
    assert moves_of(config, table(20, 0.5)) == Moves(7, -0.5, True)
    assert moves_of(config, table(5, 0.5)).columns == 5
    assert moves_of(VgiConfig(scan="block"), table(20, 0.5)).columns == 1
    objective_only = VgiConfig(scan="step", block_columns=7)
    assert moves_of(objective_only, table(20, 0.5)) == SINGLE
    assert block_columns(objective_only, table(20, 0.5)) == 7


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"scan": "path", "relax": -0.5}, "needs method.scan=step or block, not path"),
        ({"scan": "path", "visit": "adaptive"}, "needs method.scan=step or block, not path"),
        ({"accept": "gibbs", "visit": "adaptive"}, "needs method.accept=metropolis"),
    ],
)
def test_what_does_not_go_together_is_refused(settings, message):
    with pytest.raises(ValidationError, match=message):
        VgiConfig(**settings)
    VgiConfig(**{**settings, "scan": "block", "accept": "metropolis"})


def test_weights_are_inverse_acceptance_bounded_and_settle():
    visits = Visits(True, torch.zeros(3, dtype=torch.float64))
    torch.testing.assert_close(visits.weights, torch.ones(3, dtype=torch.float64))
    tried = torch.tensor([1e6, 1e6, 1e6], dtype=torch.float64)
    visits.learn(tried, torch.tensor([5e5, 2.5e5, 0.0], dtype=torch.float64))
    expected = torch.tensor([2.0, 4.0, 1 / SELDOM], dtype=torch.float64)
    torch.testing.assert_close(visits.weights, expected, rtol=1e-4, atol=0)
    changes = []
    for epoch in range(30):
        before = visits.weights.clone()
        visits.learn(tried, tried * (0.9 if epoch % 2 else 0.3))
        changes.append(float((visits.weights - before).abs().max()))
    assert max(changes[-2:]) < 0.1 * max(changes[:2])
    again = Visits(True, torch.zeros(3, dtype=torch.float64))
    again.restore(visits.tensors())
    assert torch.equal(again.weights, visits.weights)


def test_a_uniform_scan_keeps_no_weights():
    visits = Visits(False, torch.zeros(3))
    visits.learn(torch.ones(3), torch.ones(3))
    visits.restore({})
    assert visits.weights is None and visits.tensors() == {}


def test_columns_are_chosen_in_proportion_to_their_weights():
    n = 40_000
    x, missing, g = rows(n, 0)
    missing[:] = True
    moves = Moves(1, 0.0, True)
    q, weights = ExactConditionals(SIGMA), torch.tensor([1.0, 2.0, 5.0], dtype=torch.float64)
    noise = sweep_noise(q, n, 1, "metropolis", x, g, moves)
    swept = update_imputations(
        log_p, q, x, missing, 1, noise, accept="metropolis", scan="step", moves=moves, weights=weights
    )
    torch.testing.assert_close(swept.tried / n, weights / 8, atol=0.012, rtol=0)


@pytest.mark.parametrize("relax", [0.0, -0.9, 0.7])
def test_relaxed_single_draws_from_exact_conditionals_keep_the_model(relax):
    """Mean and covariance after sweeps without any correction, within 4.5 standard errors."""
    n = 60_000
    x, missing, g = rows(n, 1)
    q, moves = ExactConditionals(SIGMA), Moves(1, relax)
    for _ in range(6):
        noise = sweep_noise(q, n, 3, "gibbs", x, g, moves)
        x = update_imputations(log_p, q, x, missing, 1, noise, accept="gibbs", scan="step", moves=moves).x
    spread = ((SIGMA**2 + SIGMA.diagonal().outer(SIGMA.diagonal())) / n).sqrt()
    assert bool(((x.T @ x / n - SIGMA).abs() < 4.5 * spread).all())
    assert bool((x.mean(0).abs() < 4.5 * (SIGMA.diagonal() / n).sqrt()).all())


def test_an_over_relaxed_draw_falls_on_the_other_side():
    n = 20_000
    x, missing, g = rows(n, 2)
    missing[:] = torch.tensor([True, False, False])
    q, moves = ExactConditionals(SIGMA), Moves(1, -0.9)
    noise = sweep_noise(q, n, 1, "gibbs", x, g, moves)
    new = update_imputations(log_p, q, x, missing, 1, noise, accept="gibbs", scan="step", moves=moves).x
    mean, sd = (part[:, 0] for part in q._moments(x, torch.zeros(n, 1, dtype=torch.int64)))
    before, after = (x[:, 0] - mean) / sd, (new[:, 0] - mean) / sd
    assert float((before * after).mean()) == pytest.approx(-0.9, abs=4.5 * (2 / n) ** 0.5)


def test_the_block_objective_of_one_column_has_the_value_of_the_objective():
    """With exact q, one hole and any B, every draw gives log p(x_obs): B columns include observed ones, which stay."""
    x, missing, g = rows(40, 0)
    missing[:] = False
    missing[torch.arange(40), torch.arange(40) % 3] = True
    q, ones = ExactConditionals(SIGMA), x.new_ones(40)
    single = vgi_objective(log_p, q, x, missing, ones, 1, draw_noise(q, 40, 1, x, g))
    for M, B in ((1, 2), (2, 3)):
        block = vgi_objective(log_p, q, x, missing, ones, 1, draw_noise(q, 40, M, x, g, B))
        torch.testing.assert_close(block, single, rtol=1e-10, atol=1e-10)


def test_the_block_objective_sums_over_the_columns_of_a_block():
    """Independent columns with exact q: log p(x') - sum log q is log p of what was not redrawn, for every draw."""
    sigma = torch.diag(torch.tensor([1.0, 2.0, 0.5] * 6, dtype=torch.float64))
    normal = torch.distributions.Normal(0.0, sigma.diagonal().sqrt())
    x = torch.randn(30, 18, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    missing = torch.ones(30, 18, dtype=torch.bool)
    noise = draw_noise(ExactConditionals(sigma), 30, 1, x, torch.Generator().manual_seed(1), 2)
    value = vgi_objective(
        lambda x, missing: normal.log_prob(x).sum(1), ExactConditionals(sigma), x, missing, x.new_ones(30), 1, noise
    )
    redrawn = noise.order.topk(2, 1).indices  # 18 holes in parts of at most two columns
    kept = normal.log_prob(x).scatter(1, redrawn, 0.0).sum()
    torch.testing.assert_close(value, kept)
