"""Columns redrawn together: Metropolis keeps the model, and each law is what it says."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.chains.test_kernels import D, R, assert_distributed_as_the_model, log_p, start
from tests.conditionals.test_amortised import conditionals
from tests.oracles import GaussianConditionals
from vgi_cli.chains.blocks import FEWEST_PARTS, BlockScan, block_scan, gibbs_blocks, metropolis_blocks, whole_sweep
from vgi_cli.chains.kernels import holes_scan
from vgi_cli.chains.sweeps import SweepNoise, metropolis_sweep
from vgi_cli.conditionals.amortised import WIDE_SCALE, WIDE_SHARE


def pairs(missing, uniform):
    """Two steps of up to two columns each, without the smaller parts that rows with few holes have."""
    order = torch.where(missing, uniform, -1.0).topk(4, 1)
    return BlockScan(order.indices.view(-1, 2, 2), (order.values >= 0).view(-1, 2, 2))


def noise_of(q, g, G, B, n=R):
    normal = torch.randn(n, G, B, q.noise_width, generator=g, dtype=torch.float64)
    return SweepNoise(torch.rand(n, D, generator=g), normal, torch.rand(n, G, generator=g, dtype=torch.float64).log())


NARROW = 1e-300  # a widened share of nothing


@pytest.mark.parametrize(
    ("family", "wide"), [("gaussian", NARROW), ("gaussian", 0.1), pytest.param("spline", 0.05, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("extended", [False, True])
def test_rows_drawn_from_the_model_stay_distributed_as_the_model(family, extended, wide):
    q = conditionals(family, "shared", extended, seed=1)
    x, missing, g = start(3)
    moved = torch.zeros(R, dtype=torch.bool)
    with torch.no_grad():
        for _ in range(6):
            noise = noise_of(q, g, 2, 2)
            swept = metropolis_blocks(log_p, q, x, missing, pairs(missing, noise.order), noise, wide)
            assert torch.equal(swept.x[~missing], x[~missing])
            x, moved = swept.x, moved | swept.accepted.any(2).any(1)
    assert moved[missing.any(1)].float().mean() > 0.05  # q is rough
    assert_distributed_as_the_model(x)


def test_strongly_correlated_columns_redrawn_together_keep_the_model():
    """Standard kernel, exact q_j, correlation 0.9: a way back at the old row would change the correlation."""
    S = torch.tensor([[1.0, 0.9], [0.9, 1.0]], dtype=torch.float64)
    q, n = GaussianConditionals(torch.zeros(2, dtype=torch.float64), S), 40_000
    normal = torch.distributions.MultivariateNormal(torch.zeros(2, dtype=torch.float64), S)
    g = torch.Generator().manual_seed(0)
    x = torch.randn(n, 2, generator=g, dtype=torch.float64) @ torch.linalg.cholesky(S).T
    missing = torch.ones(n, 2, dtype=torch.bool)
    scan = BlockScan(torch.tensor([0, 1]).expand(n, 1, 2), missing[:, None])
    moved = 0.0
    for _ in range(10):
        noise = noise_of(q, g, 1, 2, n)
        swept = metropolis_blocks(lambda x, missing: normal.log_prob(x), q, x, missing, scan, noise, NARROW)
        x, moved = swept.x, moved + float(swept.accepted.double().mean())
    assert moved > 1
    spread = ((S**2 + S.diagonal().outer(S.diagonal())) / n).sqrt()
    assert bool(((x.T @ x / n - S).abs() < 4.5 * spread).all())


def test_uncorrected_blocks_do_not_keep_the_model():
    """The same test fails without the correction: it can tell."""
    q = conditionals("gaussian", "shared", False, seed=1)
    x, missing, g = start(3)
    with torch.no_grad():
        for _ in range(10):
            noise = noise_of(q, g, 2, 2)
            x = gibbs_blocks(q, x, missing, pairs(missing, noise.order), noise).x
    with pytest.raises(AssertionError):
        assert_distributed_as_the_model(x)


@pytest.mark.parametrize("extended", [False, True])
def test_blocks_of_one_column_are_the_sweep_of_single_columns(extended):
    q = conditionals("spline", "shared", extended)
    x, missing, g = start(4)
    x, missing = x[:500], missing[:500]
    noise = noise_of(q, g, D, 1, 500)
    scan = holes_scan(missing, 1, noise.order)
    with torch.no_grad():
        one = metropolis_sweep(log_p, q, x, missing, scan, noise._replace(normal=noise.normal[:, :, 0]))
        block = BlockScan(scan.j[..., None], scan.active[..., None])
        together = metropolis_blocks(log_p, q, x, missing, block, noise, WIDE_SHARE)
    assert torch.equal(together.accepted[..., 0], one.accepted)
    torch.testing.assert_close(together.x, one.x)


@pytest.mark.parametrize("family", ["gaussian", "spline"])
@pytest.mark.parametrize("wide", [NARROW, 0.05, 0.3])
def test_a_proposal_has_the_density_that_it_says(family, wide):
    """Its own draws' density; it integrates to 1; the widened share of its draws is what is said."""
    q = conditionals(family, "shared", False, seed=2)
    params = q.params(
        q.see(torch.zeros(1, D, dtype=torch.float64), torch.ones(1, D, dtype=torch.bool)), torch.tensor([[1]])
    )[0].detach()
    n = 50_000
    noise = torch.randn(n, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    new, log_density = q.proposed_apart(params.expand(n, -1), noise, wide)
    torch.testing.assert_close(log_density, q.log_proposal_apart(params.expand(n, -1), new, wide))
    base = torch.linspace(-30, 30, 60_001, dtype=torch.float64)
    grid, _ = q.family.to_value(params.expand(len(base), -1), base)
    density = q.log_proposal_apart(params.expand(len(base), -1), grid, wide).exp()
    assert torch.trapezoid(density, grid).item() == pytest.approx(1, abs=1e-4)
    u, _ = q.family.to_base(params.expand(n, -1), new)
    assert u.var().item() == pytest.approx(1 + wide * (WIDE_SCALE**2 - 1), abs=0.05 + wide * 0.3)


@given(
    st.lists(st.lists(st.booleans(), min_size=12, max_size=12), min_size=1, max_size=4),
    st.integers(1, 14),
    st.integers(1, 14),
)
def test_block_scan_visits_distinct_holes(holes, G, B):
    holes = torch.tensor(holes)
    scan = block_scan(holes, torch.rand(holes.shape), G, B)
    assert scan.j.shape == (len(holes), G, min(B, 12))
    for j, active, row in zip(scan.j, scan.active, holes, strict=True):
        count = int(row.sum())
        size = min(B, -(-count // FEWEST_PARTS))
        visited = j[active]
        assert len(visited) == min(count, G * size)
        assert len(set(visited.tolist())) == len(visited) and bool(row[visited].all())
        assert bool((active.sum(1) <= size).all())
        assert all(len(set(step.tolist())) == len(step) for step in j)  # written in one go: no column twice


def test_a_whole_sweep_visits_every_hole():
    g = torch.Generator().manual_seed(0)
    for S, B in ((5, 2), (12, 3), (100, 7), (100, 1)):
        holes = torch.rand(50, S, generator=g) < torch.rand(50, 1, generator=g)
        scan = block_scan(holes, torch.rand(50, S, generator=g), whole_sweep(S, B), B)
        assert torch.equal(scan.active.sum((1, 2)), holes.sum(1))


def test_a_box_refuses_what_leaves_it():
    q = conditionals("gaussian", "shared", False)
    x, missing, g = start(5)
    x, missing = x[:2000].clamp(-1, 1), torch.ones(2000, D, dtype=torch.bool)
    box = torch.tensor([[-1.0] * D, [1.0] * D], dtype=torch.float64)
    noise = noise_of(q, g, 1, 2, 2000)._replace(log_uniform=torch.full((2000, 1), -1e9, dtype=torch.float64))
    scan = BlockScan(*(part[:, :1] for part in pairs(missing, noise.order)))
    with torch.no_grad():
        free = metropolis_blocks(log_p, q, x, missing, scan, noise, NARROW)
        boxed = metropolis_blocks(log_p, q, x, missing, scan, noise, NARROW, box)
        cells = gibbs_blocks(q, x, missing, scan, noise, box)
    outside = (free.x.abs() > 1).any(1)
    assert bool(outside.any()) and not bool(outside.all())
    assert torch.equal(boxed.x[outside], x[outside]) and torch.equal(boxed.x[~outside], free.x[~outside])
    assert bool((cells.x.abs() <= 1).all()) and torch.equal(cells.x[~outside], free.x[~outside])
    assert float(cells.accepted.sum()) > float(boxed.accepted.sum())
