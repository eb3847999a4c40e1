"""Columns redrawn together, relaxed and weighted: Metropolis keeps the model, and each law is what it says."""

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
from vgi_cli.conditionals.base import Move


def pairs(missing, uniform):
    """Two steps of up to two columns each, without the smaller parts that rows with few holes have."""
    order = torch.where(missing, uniform, -1.0).topk(4, 1)
    return BlockScan(order.indices.view(-1, 2, 2), (order.values >= 0).view(-1, 2, 2))


def noise_of(q, g, G, B, n=R):
    normal = torch.randn(n, G, B, q.noise_width, generator=g, dtype=torch.float64)
    return SweepNoise(torch.rand(n, D, generator=g), normal, torch.rand(n, G, generator=g, dtype=torch.float64).log())


MOVES = [Move(wide=0.05), Move(relax=-0.8), Move(relax=0.6, wide=0.1)]


@pytest.mark.parametrize(
    ("family", "move"),
    [
        *(("gaussian", move) for move in MOVES),
        pytest.param("spline", Move(relax=-0.5, wide=0.05), marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("extended", [False, True])
def test_rows_drawn_from_the_model_stay_distributed_as_the_model(family, extended, move):
    q = conditionals(family, "shared", extended, seed=1)
    x, missing, g = start(3)
    moved = torch.zeros(R, dtype=torch.bool)
    with torch.no_grad():
        for _ in range(6):
            noise = noise_of(q, g, 2, 2)
            swept = metropolis_blocks(log_p, q, x, missing, pairs(missing, noise.order), noise, move)
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
        swept = metropolis_blocks(lambda x, missing: normal.log_prob(x), q, x, missing, scan, noise, Move())
        x, moved = swept.x, moved + float(swept.accepted.double().mean())
    assert moved > 1
    spread = ((S**2 + S.diagonal().outer(S.diagonal())) / n).sqrt()
    assert bool(((x.T @ x / n - S).abs() < 4.5 * spread).all())


def test_weights_of_the_columns_keep_the_model():
    q = conditionals("gaussian", "shared", True, seed=1)
    x, missing, g = start(3)
    weights = torch.tensor([8.0, 1.0, 0.5, 2.0])
    with torch.no_grad():
        for _ in range(10):
            noise = noise_of(q, g, 2, 2)
            scan = pairs(missing, noise.order ** (1 / weights))
            x = metropolis_blocks(log_p, q, x, missing, scan, noise, MOVES[0]).x
    assert_distributed_as_the_model(x)


@pytest.mark.parametrize("relax", [0.0, -0.8])
def test_uncorrected_blocks_do_not_keep_the_model(relax):
    """The same test fails without the correction: it can tell."""
    q = conditionals("gaussian", "shared", False, seed=1)
    x, missing, g = start(3)
    with torch.no_grad():
        for _ in range(10):
            noise = noise_of(q, g, 2, 2)
            x = gibbs_blocks(q, x, missing, pairs(missing, noise.order), noise, Move(relax)).x
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
        together = metropolis_blocks(log_p, q, x, missing, block, noise, Move(wide=0.05))
    assert torch.equal(together.accepted[..., 0], one.accepted)
    torch.testing.assert_close(together.x, one.x)


@pytest.mark.parametrize("family", ["gaussian", "spline"])
@pytest.mark.parametrize("move", MOVES)
def test_a_move_has_the_density_that_it_says(family, move):
    """Its own draws' density; it integrates to 1; and without a widened share it leaves q itself as it is."""
    q = conditionals(family, "shared", False, seed=2)
    params = q.params(
        q.see(torch.zeros(1, D, dtype=torch.float64), torch.ones(1, D, dtype=torch.bool)), torch.tensor([[1]])
    )[0].detach()
    g = torch.Generator().manual_seed(0)
    old, _ = q.family.to_value(params, torch.tensor([0.7], dtype=torch.float64))
    noise = torch.randn(1000, 2, generator=g, dtype=torch.float64)
    new, log_density = q.moved(params.expand(1000, -1), old.expand(1000), noise, move)
    torch.testing.assert_close(log_density, q.log_moved(params.expand(1000, -1), old.expand(1000), new, move))
    base = torch.linspace(-30, 30, 60_001, dtype=torch.float64)
    grid, _ = q.family.to_value(params.expand(len(base), -1), base)
    density = q.log_moved(params.expand(len(base), -1), old.expand(len(base)), grid, move).exp()
    assert torch.trapezoid(density, grid).item() == pytest.approx(1, abs=1e-4)
    n = 200_000
    start_base, noise = torch.randn(n, generator=g, dtype=torch.float64), torch.randn(n, 1, generator=g)
    before, _ = q.family.to_value(params.expand(n, -1), start_base)
    after, _ = q.moved(params.expand(n, -1), before, noise.double(), Move(move.relax))
    u, _ = q.family.to_base(params.expand(n, -1), after)
    assert abs(u.mean().item()) < 4.5 / n**0.5 and u.var().item() == pytest.approx(1, abs=4.5 * (2 / n) ** 0.5)
    assert (u * start_base).mean().item() == pytest.approx(move.relax, abs=4.5 * (2 / n) ** 0.5)


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
        free = metropolis_blocks(log_p, q, x, missing, scan, noise, Move())
        boxed = metropolis_blocks(log_p, q, x, missing, scan, noise, Move(), box)
        cells = gibbs_blocks(q, x, missing, scan, noise, Move(), box)
    outside = (free.x.abs() > 1).any(1)
    assert bool(outside.any()) and not bool(outside.all())
    assert torch.equal(boxed.x[outside], x[outside]) and torch.equal(boxed.x[~outside], free.x[~outside])
    assert bool((cells.x.abs() <= 1).all()) and torch.equal(cells.x[~outside], free.x[~outside])
    assert float(cells.accepted.sum()) > float(boxed.accepted.sum())
