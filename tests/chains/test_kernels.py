"""Metropolis kernels leave p(x_mis | x_obs) invariant whatever q is (a statistical test with fixed seeds)."""

import pytest
import torch

from tests.conditionals.test_amortised import conditionals
from vgi_cli.chains.kernels import gibbs_step, metropolis_path, metropolis_step, random_scan, stays_inside

D, R = 4, 20_000
MIX = torch.tensor([[1.0, 0, 0, 0], [0.8, 0.6, 0, 0], [-0.5, 0.3, 0.8, 0], [0.2, -0.7, 0.1, 0.6]], dtype=torch.float64)
SCALES = MIX @ MIX.T
PRECISION = torch.linalg.inv(SCALES)


def log_p(x, missing):
    return -0.5 * ((x @ PRECISION) * x).sum(-1)


def start(seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(R, D, generator=g, dtype=torch.float64) @ MIX.T
    missing = torch.rand(R, D, generator=g) < 0.5  # many rows have fewer holes than G
    return x, missing, g


def assert_distributed_as_the_model(x):
    """Mean and covariance within 4.5 standard errors of the model's, entry by entry."""
    error = 4.5 * (SCALES.diagonal() / R).sqrt()
    assert bool((x.mean(0).abs() < error).all()), x.mean(0)
    spread = ((SCALES**2 + SCALES.diagonal().outer(SCALES.diagonal())) / R).sqrt()
    assert bool(((x.T @ x / R - SCALES).abs() < 4.5 * spread).all()), x.T @ x / R - SCALES


@pytest.mark.parametrize("family", ["gaussian", "spline"])
@pytest.mark.parametrize("extended", [False, True])
@pytest.mark.parametrize("kind", ["step", "path"])
def test_rows_drawn_from_the_model_stay_distributed_as_the_model(family, extended, kind):
    q = conditionals(family, "shared", extended, seed=1)
    x, missing, g = start(3)
    moved = torch.zeros(R, dtype=torch.bool)
    with torch.no_grad():
        for _ in range(12):
            scan = random_scan(missing, torch.rand(R, D, generator=g), 3)
            noise = torch.randn(R, 3, q.noise_width, generator=g, dtype=torch.float64)
            log_u = torch.rand(R, 3, generator=g, dtype=torch.float64).log()
            if kind == "path":
                new = metropolis_path(log_p, q, x, missing, scan, noise, log_u[:, 0])
                x, moved = new.x, moved | new.accepted
                torch.testing.assert_close(new.log_p, log_p(x, missing))
                continue
            at = log_p(x, missing)
            for i in range(3):
                new = metropolis_step(
                    log_p, q, (x, at), missing, scan.j[:, i], scan.active[:, i], noise[:, i], log_u[:, i]
                )
                x, at, moved = new.x, new.log_p, moved | new.accepted
            torch.testing.assert_close(at, log_p(x, missing))
    assert moved[missing.any(1)].float().mean() > 0.05  # q is rough
    assert_distributed_as_the_model(x)


def test_uncorrected_steps_do_not_keep_the_model():
    """The same test fails without the correction: it can tell."""
    q = conditionals("gaussian", "shared", False, seed=1)
    x, missing, g = start(3)
    with torch.no_grad():
        for _ in range(12):
            scan = random_scan(missing, torch.rand(R, D, generator=g), 3)
            for i in range(3):
                noise = torch.randn(R, q.noise_width, generator=g, dtype=torch.float64)
                x = gibbs_step(q, x, scan.j[:, i], scan.active[:, i], noise)
    with pytest.raises(AssertionError):
        assert_distributed_as_the_model(x)


def test_steps_change_nothing_but_the_active_missing_block():
    q = conditionals("gaussian", "shared", True)
    x, missing, g = start(4)
    x, missing = x[:500], missing[:500]
    scan = random_scan(missing, torch.rand(500, D, generator=g), D)
    noise = torch.randn(500, q.noise_width, generator=g, dtype=torch.float64)
    with torch.no_grad():
        for i in range(D):
            changed = gibbs_step(q, x, scan.j[:, i], scan.active[:, i], noise) != x
            expected = (torch.arange(D) == scan.j[:, i, None]) & scan.active[:, i, None]
            assert torch.equal(changed, expected)
    assert not bool((scan.active.sum(1) != missing.sum(1)).any())


def test_scan_is_without_replacement_over_missing_blocks_and_uniform():
    g = torch.Generator().manual_seed(0)
    allowed = torch.tensor([[True, False, True, True]]).repeat(30_000, 1)
    scan = random_scan(allowed, torch.rand(30_000, 4, generator=g), 2)
    assert bool((scan.j[:, 0] != scan.j[:, 1]).all()) and bool(scan.active.all())
    first = torch.bincount(scan.j[:, 0], minlength=4) / 30_000
    torch.testing.assert_close(first, torch.tensor([1 / 3, 0, 1 / 3, 1 / 3]), atol=0.012, rtol=0)


def test_box_rejects_proposals_outside():
    q = conditionals("gaussian", "shared", False)
    x, missing, g = start(5)
    x = x[:2000].clamp(-1, 1)
    inside = torch.tensor([[-1.0] * D, [1.0] * D], dtype=torch.float64)
    j = torch.randint(D, (2000,), generator=g)
    noise = torch.randn(2000, q.noise_width, generator=g, dtype=torch.float64)
    log_u = torch.full((2000,), -1e9, dtype=torch.float64)  # accept whatever is inside
    active = torch.ones(2000, dtype=torch.bool)
    with torch.no_grad():
        free = q.propose(x, j, noise).x
        new = metropolis_step(
            log_p, q, (x, log_p(x, missing)), torch.ones_like(x, dtype=torch.bool), j, active, noise, log_u, inside
        )
    outside = (free.abs() > 1).any(1)
    assert bool(outside.any()) and not bool(outside.all())
    assert torch.equal(new.accepted, ~outside)
    assert torch.equal(new.x[outside], x[outside])


def test_box_lets_a_chain_that_starts_outside_come_in():
    """Two cells outside, moved one at a time: each move is judged by the cell that it changes."""
    inside = torch.tensor([[-1.0] * D, [1.0] * D], dtype=torch.float64)
    x = torch.full((1, D), 5.0, dtype=torch.float64)
    for j in range(D):
        new = x.clone()
        new[0, j] = 0.5
        assert bool(stays_inside(new, x, inside))
        new[0, j] = 2.0
        assert not bool(stays_inside(new, x, inside))
