"""Metropolis kernels leave p(x_mis | x_obs) invariant whatever q is (a statistical test with fixed seeds)."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.conditionals.test_amortised import conditionals
from tests.conditionals.test_blocks import block_conditionals, exact_conditionals
from vgi_cli.chains.kernels import Scan, holes_scan, metropolis_step, random_scan
from vgi_cli.chains.sweeps import SweepNoise, gibbs_sweep, metropolis_path, metropolis_sweep
from vgi_cli.layout import Blocks

D, R = 4, 10_000
MIX = torch.tensor([[1.0, 0, 0, 0], [0.8, 0.6, 0, 0], [-0.5, 0.3, 0.8, 0], [0.2, -0.7, 0.1, 0.6]], dtype=torch.float64)
SCALES = MIX @ MIX.T
PRECISION = torch.linalg.inv(SCALES)


def log_p(x, missing):
    return -0.5 * ((x @ PRECISION) * x).sum(-1)


FEWER = 4000
"""Rows for blocks, which cost more."""


def start(seed, R=R):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(R, D, generator=g, dtype=torch.float64) @ MIX.T
    missing = torch.rand(R, D, generator=g) < 0.5  # many rows have fewer holes than G
    return x, missing, g


def assert_distributed_as_the_model(x):
    """Mean and covariance within 4.5 standard errors of the model's, entry by entry."""
    R = len(x)
    error = 4.5 * (SCALES.diagonal() / R).sqrt()
    assert bool((x.mean(0).abs() < error).all()), x.mean(0)
    spread = ((SCALES**2 + SCALES.diagonal().outer(SCALES.diagonal())) / R).sqrt()
    assert bool(((x.T @ x / R - SCALES).abs() < 4.5 * spread).all()), x.T @ x / R - SCALES


BLOCKS = Blocks.grouped(D, [(0, 2, 3)])


def sweep_noise(q, G, g, R=R):
    u = torch.rand(R, 2 * G, generator=g, dtype=torch.float64)
    normal = torch.randn(R, G, q.noise_width, generator=g, dtype=torch.float64)
    return SweepNoise(u[:, :G], normal, u[:, G:].log())


@pytest.mark.parametrize("family", ["gaussian", "spline"])
@pytest.mark.parametrize("extended", [False, True])
@pytest.mark.parametrize("kind", ["step", "path"])
def test_rows_drawn_from_the_model_stay_distributed_as_the_model(family, extended, kind):
    q = conditionals(family, "shared", extended, seed=1)
    x, missing, g = start(3)
    moved = torch.zeros(R, dtype=torch.bool)
    sweep = metropolis_path if kind == "path" else metropolis_sweep
    with torch.no_grad():
        for _ in range(8):
            noise = sweep_noise(q, 3, g)
            swept = sweep(log_p, q, x, missing, holes_scan(missing, 1, noise.order), noise)
            assert torch.equal(swept.x[~missing], x[~missing])
            x, moved = swept.x, moved | swept.accepted.any(1)
    assert moved[missing.any(1)].float().mean() > 0.05  # q is rough
    assert_distributed_as_the_model(x)


@pytest.mark.parametrize("family", ["gaussian", "spline"])
@pytest.mark.parametrize("extended", [False, True])
@pytest.mark.parametrize("kind", ["step", "path"])
def test_blocks_keep_the_model_whatever_part_of_them_is_missing(family, extended, kind):
    q = block_conditionals(family, extended, seed=1, partition=BLOCKS)
    x, missing, g = start(3, FEWER)
    moved = torch.zeros(FEWER, dtype=torch.bool)
    sweep = metropolis_path if kind == "path" else metropolis_sweep
    with torch.no_grad():
        for _ in range(6):
            noise = sweep_noise(q, 2, g, FEWER)
            swept = sweep(log_p, q, x, missing, holes_scan(q.blocks(missing), 1, noise.order), noise)
            assert torch.equal(swept.x[~missing], x[~missing])
            x, moved = swept.x, moved | swept.accepted.any(1)
    assert moved[missing.any(1)].float().mean() > 0.05  # q is rough
    assert_distributed_as_the_model(x)


def test_exact_blocks_keep_the_model_without_a_correction():
    q = exact_conditionals(SCALES, BLOCKS)
    x, missing, g = start(3, FEWER)
    with torch.no_grad():
        for _ in range(4):
            noise = sweep_noise(q, 2, g, FEWER)
            scan = holes_scan(q.blocks(missing), 1, noise.order)
            x = gibbs_sweep(q, x, missing, scan, noise).x
            corrected = metropolis_sweep(log_p, q, x, missing, scan, noise)
            assert corrected.accepted[scan.active].float().mean() > 0.95  # the widened share is refused at times
    assert_distributed_as_the_model(x)


def test_a_block_mixes_where_single_columns_crawl():
    """A pair with correlation 0.98, both missing: after one redraw of the block nothing is left of the start; six
    redraws of single columns, exact as well, keep 0.98^5 of it."""
    pair = torch.tensor([[1.0, 0.98], [0.98, 1.0]], dtype=torch.float64)
    x = torch.full((FEWER, 2), 3.0, dtype=torch.float64)
    missing, g = torch.ones(FEWER, 2, dtype=torch.bool), torch.Generator().manual_seed(0)
    means = {}
    with torch.no_grad():
        for name, partition, steps in (("block", Blocks(((0, 1),)), 1), ("single", Blocks.columns(2), 6)):
            q, out = exact_conditionals(pair, partition), x
            for step in range(steps):  # single: each column in turn
                noise = sweep_noise(q, 1, g, FEWER)
                j = torch.full((FEWER, 1), step % q.S)
                out = gibbs_sweep(q, out, missing, Scan(j, torch.ones(FEWER, 1, dtype=torch.bool)), noise).x
            means[name] = out.mean(0)
    assert bool((means["block"].abs() < 4.5 / FEWER**0.5).all())
    expected = torch.tensor([3 * 0.98**5, 3 * 0.98**6], dtype=torch.float64)
    assert bool(((means["single"] - expected).abs() < 4.5 / FEWER**0.5).all()), means["single"]


@pytest.mark.parametrize("extended", [False, True])
def test_single_steps_keep_the_model_too(extended):
    q = conditionals("spline", "independent", extended, seed=1)
    x, missing, g = start(3)
    with torch.no_grad():
        for _ in range(8):
            scan = random_scan(missing, torch.rand(R, D, generator=g), 3)
            noise = sweep_noise(q, 3, g)
            at = log_p(x, missing)
            for i in range(3):
                new = metropolis_step(
                    log_p,
                    q,
                    (x, at),
                    missing,
                    scan.j[:, i],
                    scan.active[:, i],
                    noise.normal[:, i],
                    noise.log_uniform[:, i],
                )
                x, at = new.x, new.log_p
            torch.testing.assert_close(at, log_p(x, missing))
    assert_distributed_as_the_model(x)


def test_uncorrected_steps_do_not_keep_the_model():
    """The same test fails without the correction: it can tell."""
    q = conditionals("gaussian", "shared", False, seed=1)
    x, missing, g = start(3)
    with torch.no_grad():
        for _ in range(8):
            noise = sweep_noise(q, 3, g)
            x = gibbs_sweep(q, x, missing, holes_scan(missing, 1, noise.order), noise).x
    with pytest.raises(AssertionError):
        assert_distributed_as_the_model(x)


@pytest.mark.parametrize("layout", ["independent", "shared", "blocks"])
@pytest.mark.parametrize("extended", [False, True])
def test_a_sweep_is_the_steps_one_after_the_other(layout, extended):
    if layout == "blocks":
        q = block_conditionals("spline", extended, partition=BLOCKS)
    else:
        q = conditionals("spline", layout, extended)
    x, missing, g = start(4)
    x, missing = x[:500], missing[:500]
    noise = sweep_noise(q, q.S, g, 500)
    scan = holes_scan(q.blocks(missing), 1, noise.order)
    with torch.no_grad():
        swept = gibbs_sweep(q, x, missing, scan, noise)
        corrected = metropolis_sweep(log_p, q, x, missing, scan, noise)
        steps, exact, at = x, x, log_p(x, missing)
        for i in range(q.S):
            j, active = scan.j[:, i], scan.active[:, i]
            steps = torch.where(active[:, None], q.redraw(steps, missing, j, noise.normal[:, i]), steps)
            new = metropolis_step(
                log_p, q, (exact, at), missing, j, active, noise.normal[:, i], noise.log_uniform[:, i]
            )
            exact, at = new.x, new.log_p
            assert torch.equal(corrected.accepted[:, i], new.accepted)
    assert torch.equal(swept.accepted, scan.active)
    torch.testing.assert_close(swept.x, steps)
    torch.testing.assert_close(corrected.x, exact)
    assert not bool((scan.active.sum(1) != q.blocks(missing).sum(1)).any())


@given(st.lists(st.lists(st.booleans(), min_size=5, max_size=5), min_size=1, max_size=6), st.integers(1, 7))
def test_holes_scan_visits_distinct_holes(holes, G):
    holes = torch.tensor(holes)
    scan = holes_scan(holes, 2, torch.rand(2 * len(holes), G))
    both = holes.repeat_interleave(2, 0)
    for j, active, row in zip(scan.j, scan.active, both, strict=True):
        assert int(active.sum()) == min(G, 5, int(row.sum()))
        visited = j[active]
        assert len(set(visited.tolist())) == len(visited) and bool(row[visited].all())


@pytest.mark.parametrize("S", [4, 20])
def test_holes_scan_has_the_law_of_random_scan(S):
    """Every order of the three holes is as likely as any other, whichever way a hole is found by its rank."""
    g = torch.Generator().manual_seed(0)
    holes = torch.zeros(1, S, dtype=torch.bool)
    holes[0, [0, 2, 3]] = True
    scan = holes_scan(holes, 60_000, torch.rand(60_000, 3, generator=g))
    code = scan.j @ torch.tensor([100, 10, 1])
    orders, counts = torch.unique(code, return_counts=True)
    assert sorted(orders.tolist()) == [23, 32, 203, 230, 302, 320]
    expected = torch.full((6,), 1 / 6)
    torch.testing.assert_close(counts / 60_000, expected, atol=4.5 * (5 / 36 / 60_000) ** 0.5, rtol=0)


def test_scan_is_without_replacement_over_missing_blocks_and_uniform():
    g = torch.Generator().manual_seed(0)
    allowed = torch.tensor([[True, False, True, True]]).repeat(30_000, 1)
    scan = random_scan(allowed, torch.rand(30_000, 4, generator=g), 2)
    assert bool((scan.j[:, 0] != scan.j[:, 1]).all()) and bool(scan.active.all())
    first = torch.bincount(scan.j[:, 0], minlength=4) / 30_000
    torch.testing.assert_close(first, torch.tensor([1 / 3, 0, 1 / 3, 1 / 3]), atol=0.012, rtol=0)


def boxed(q, x, j, g):
    """One step of a sweep in which whatever lies in [-1, 1] is accepted: proposals, and what became of them."""
    n = len(x)
    inside = torch.tensor([[-1.0] * D, [1.0] * D], dtype=torch.float64)
    noise = torch.randn(n, q.noise_width, generator=g, dtype=torch.float64)
    log_u = torch.full((n, 1), -1e9, dtype=torch.float64)
    scan = Scan(j[:, None], torch.ones(n, 1, dtype=torch.bool))
    with torch.no_grad():
        holes = torch.ones_like(x, dtype=torch.bool)
        free = q.propose(x, holes, j, noise).x
        return free, metropolis_sweep(log_p, q, x, holes, scan, SweepNoise(log_u, noise[:, None], log_u), inside)


def test_box_rejects_proposals_outside():
    x, _, g = start(5)
    x = x[:2000].clamp(-1, 1)
    free, swept = boxed(conditionals("gaussian", "shared", False), x, torch.randint(D, (2000,), generator=g), g)
    outside = (free.abs() > 1).any(1)
    assert bool(outside.any()) and not bool(outside.all())
    assert torch.equal(swept.accepted[:, 0], ~outside)
    assert torch.equal(swept.x[outside], x[outside])


def test_box_judges_the_missing_cells_of_a_block():
    """A given cell outside the box refuses nothing; a drawn one does."""
    q = block_conditionals(seed=2, partition=BLOCKS)
    x, _, g = start(5)
    x, missing = x[:2000].clamp(-1, 1), torch.ones(2000, D, dtype=torch.bool)
    x[:, 2], missing[:, 2] = 5.0, False
    j = torch.randint(2, (2000,), generator=g)
    noise = torch.randn(2000, q.noise_width, generator=g, dtype=torch.float64)
    log_u = torch.full((2000, 1), -1e9, dtype=torch.float64)
    scan = Scan(j[:, None], torch.ones(2000, 1, dtype=torch.bool))
    inside = torch.tensor([[-1.0] * D, [1.0] * D], dtype=torch.float64)
    with torch.no_grad():
        free = q.propose(x, missing, j, noise).x
        swept = metropolis_sweep(log_p, q, x, missing, scan, SweepNoise(log_u, noise[:, None], log_u), inside)
    outside = ((free.abs() > 1) & missing).any(1)
    assert bool(outside.any()) and not bool(outside.all())
    assert torch.equal(swept.accepted[:, 0], ~outside)


def test_box_lets_a_chain_that_starts_outside_come_in():
    """All cells outside, moved one at a time: each move is judged by the cell that it changes."""
    x = torch.full((500, D), 5.0, dtype=torch.float64)
    q, g = conditionals("gaussian", "shared", False), torch.Generator().manual_seed(6)
    with torch.no_grad():
        for parameter in q.parameters():
            parameter.mul_(0.05)  # proposals near 0, wherever the other cells are
    for j in range(D):
        free, swept = boxed(q, x, torch.full((500,), j), g)
        came_in = free[:, j].abs() <= 1
        assert bool(came_in.any()) and not bool(came_in.all())
        assert torch.equal(swept.accepted[:, 0], came_in)
        assert torch.equal(swept.x[came_in, j], free[came_in, j]) and torch.equal(swept.x[~came_in], x[~came_in])
