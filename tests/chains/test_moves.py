"""Moves: Metropolis kernels leave p(x_mis | x_obs) invariant whatever q is (a statistical test with fixed seeds)."""

import itertools

import pytest
import torch

from tests.conditionals.test_blocks import block_conditionals, exact_conditionals
from tests.contracts.test_families import conditionals
from tests.oracles import GaussianConditionals
from tests.selection import first, some
from vgi_cli.chains.moves import (
    Moves,
    OfRows,
    State,
    SweepNoise,
    Weighed,
    along,
    gibbs_step,
    metropolis_step,
)
from vgi_cli.chains.scans import Scan, holes_scan, random_scan
from vgi_cli.conditionals.base import Sweep
from vgi_cli.layout import Blocks
from vgi_cli.maths.laws import WIDE_SHARE

D, R = 4, 10_000
MIX = torch.tensor([[1.0, 0, 0, 0], [0.8, 0.6, 0, 0], [-0.5, 0.3, 0.8, 0], [0.2, -0.7, 0.1, 0.6]], dtype=torch.float64)
SCALES = MIX @ MIX.T
PRECISION = torch.linalg.inv(SCALES)


def log_p(x, missing):
    return -0.5 * ((x @ PRECISION) * x).sum(-1)


PLAIN = OfRows(log_p)
GIBBS = Moves(metropolis=False, path=False, G=1)
STEPS, PATH = Moves(metropolis=True, path=False, G=1), Moves(metropolis=True, path=True, G=1)


def gibbs_sweep(q, x, missing, scan, noise, box=None):
    return along(noise, q, x, missing, PLAIN, GIBBS, scan, box)


def metropolis_sweep(q, x, missing, scan, noise, box=None, moves=STEPS):
    """The rows, and which steps were kept."""
    x, _, kept = along(noise, q, x, missing, PLAIN, moves, scan, box)
    return x, kept


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
    return SweepNoise(u[:, :G], normal, u[:, G:].log(), u[:, :G, None][..., :0])


@pytest.mark.parametrize(
    ("kind", "extended", "family"),
    some(
        [("step", True, "spline"), ("path", False, "gaussian")],
        itertools.product(["step", "path"], [False, True], ["gaussian", "spline"]),
    ),
)
def test_rows_drawn_from_the_model_stay_distributed_as_the_model(family, extended, kind):
    q = conditionals(family, "shared", extended, seed=1)
    x, missing, g = start(3)
    moved = torch.zeros(R, dtype=torch.bool)
    moves = PATH if kind == "path" else STEPS
    with torch.no_grad():
        for _ in range(8):
            noise = sweep_noise(q, 3, g)
            scan = holes_scan(missing, 1, noise.order)
            new, kept = metropolis_sweep(q, x, missing, scan, noise, moves=moves)
            assert torch.equal(new[~missing], x[~missing])
            x, moved = new, moved | kept.any(1)
    assert moved[missing.any(1)].float().mean() > 0.05  # q is rough
    assert_distributed_as_the_model(x)


@pytest.mark.parametrize(
    ("kind", "extended", "family"),
    some(
        [("step", True, "spline"), ("path", False, "gaussian")],
        itertools.product(["step", "path"], [False, True], ["gaussian", "spline"]),
    ),
)
def test_blocks_keep_the_model_whatever_part_of_them_is_missing(family, extended, kind):
    q = block_conditionals(family, extended, seed=1, partition=BLOCKS)
    x, missing, g = start(3, FEWER)
    moved = torch.zeros(FEWER, dtype=torch.bool)
    moves = PATH if kind == "path" else STEPS
    with torch.no_grad():
        for _ in range(6):
            noise = sweep_noise(q, 2, g, FEWER)
            scan = holes_scan(q.blocks(missing), 1, noise.order)
            new, kept = metropolis_sweep(q, x, missing, scan, noise, moves=moves)
            assert torch.equal(new[~missing], x[~missing])
            x, moved = new, moved | kept.any(1)
    assert moved[missing.any(1)].float().mean() > 0.05  # q is rough
    assert_distributed_as_the_model(x)


def test_exact_blocks_keep_the_model_without_a_correction():
    q = exact_conditionals(SCALES, BLOCKS)
    x, missing, g = start(3, FEWER)
    with torch.no_grad():
        for _ in range(4):
            noise = sweep_noise(q, 2, g, FEWER)
            scan = holes_scan(q.blocks(missing), 1, noise.order)
            x = gibbs_sweep(q, x, missing, scan, noise)[0]
            kept = metropolis_sweep(q, x, missing, scan, noise)[1]
            assert kept[scan.active].float().mean() > 0.95  # the widened share is refused at times
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
                out = gibbs_sweep(q, out, missing, Scan(j, torch.ones(FEWER, 1, dtype=torch.bool)), noise)[0]
            means[name] = out.mean(0)
    assert bool((means["block"].abs() < 4.5 / FEWER**0.5).all())
    expected = torch.tensor([3 * 0.98**5, 3 * 0.98**6], dtype=torch.float64)
    assert bool(((means["single"] - expected).abs() < 4.5 / FEWER**0.5).all()), means["single"]


@pytest.mark.parametrize("extended", first(1, [True, False]))
def test_single_steps_keep_the_model_too(extended):
    q = conditionals("spline", "independent", extended, seed=1)
    x, missing, g = start(3)
    with torch.no_grad():
        for _ in range(8):
            scan = random_scan(missing, torch.rand(R, D, generator=g), 3)
            noise = sweep_noise(q, 3, g)
            state = State(Sweep(q, x.clone(), missing), Weighed(log_p(x, missing)))  # rows that keep nothing
            for i in range(3):
                state, _ = metropolis_step(noise.step(i), state, PLAIN, scan.j[:, i], scan.active[:, i])
            x = state.rows.x
            torch.testing.assert_close(state.at.log_p, log_p(x, missing))
    assert_distributed_as_the_model(x)


def test_uncorrected_steps_do_not_keep_the_model():
    """The same test fails without the correction: it can tell."""
    q = conditionals("gaussian", "shared", False, seed=1)
    x, missing, g = start(3)
    with torch.no_grad():
        for _ in range(8):
            noise = sweep_noise(q, 3, g)
            x = gibbs_sweep(q, x, missing, holes_scan(missing, 1, noise.order), noise)[0]
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
        swept, kept = gibbs_sweep(q, x, missing, scan, noise)[::2]
        corrected, accepted = metropolis_sweep(q, x, missing, scan, noise)
        rows = Sweep(q, x.clone(), missing)
        state = State(Sweep(q, x.clone(), missing), Weighed(log_p(x, missing)))
        for i in range(q.S):
            j, active = scan.j[:, i], scan.active[:, i]
            gibbs_step(noise.normal[:, i], rows, j, active)
            state, done = metropolis_step(noise.step(i), state, PLAIN, j, active)
            assert torch.equal(accepted[:, i], done.accepted)
    assert torch.equal(kept, scan.active)
    torch.testing.assert_close(swept, rows.x)
    torch.testing.assert_close(corrected, state.rows.x)
    assert not bool((scan.active.sum(1) != q.blocks(missing).sum(1)).any())


def boxed(q, x, j, g):
    """One step of a sweep in which whatever lies in [-1, 1] is accepted: proposals, and what became of them."""
    n = len(x)
    inside = torch.tensor([[-1.0] * D, [1.0] * D], dtype=torch.float64)
    noise = torch.randn(n, q.noise_width, generator=g, dtype=torch.float64)
    scan = Scan(j[:, None], torch.ones(n, 1, dtype=torch.bool))
    holes = torch.ones_like(x, dtype=torch.bool)
    with torch.no_grad():
        free = q.put(x, j, q.law(x, holes, j).widened().draw(noise))
        return free, *metropolis_sweep(q, x, holes, scan, all_kept(noise), inside)


def all_kept(noise):
    """Randomness of one step in which whatever is inside the box is accepted."""
    log_u = torch.full((len(noise), 1), -1e9, dtype=torch.float64)
    return SweepNoise(log_u, noise[:, None], log_u, noise[:, None, :0])


def test_box_rejects_proposals_outside():
    x, _, g = start(5)
    x = x[:2000].clamp(-1, 1)
    free, new, kept = boxed(conditionals("gaussian", "shared", False), x, torch.randint(D, (2000,), generator=g), g)
    outside = (free.abs() > 1).any(1)
    assert bool(outside.any()) and not bool(outside.all())
    assert torch.equal(kept[:, 0], ~outside)
    assert torch.equal(new[outside], x[outside])


def test_box_judges_the_missing_cells_of_a_block():
    """A given cell outside the box refuses nothing; a drawn one does."""
    q = block_conditionals(seed=2, partition=BLOCKS)
    x, _, g = start(5)
    x, missing = x[:2000].clamp(-1, 1), torch.ones(2000, D, dtype=torch.bool)
    x[:, 2], missing[:, 2] = 5.0, False
    j = torch.randint(2, (2000,), generator=g)
    noise = torch.randn(2000, q.noise_width, generator=g, dtype=torch.float64)
    scan = Scan(j[:, None], torch.ones(2000, 1, dtype=torch.bool))
    inside = torch.tensor([[-1.0] * D, [1.0] * D], dtype=torch.float64)
    with torch.no_grad():
        free = q.put(x, j, q.law(x, missing, j).widened().draw(noise))
        _, kept = metropolis_sweep(q, x, missing, scan, all_kept(noise), inside)
    outside = ((free.abs() > 1) & missing).any(1)
    assert bool(outside.any()) and not bool(outside.all())
    assert torch.equal(kept[:, 0], ~outside)


def test_box_lets_a_chain_that_starts_outside_come_in():
    """All cells outside, moved one at a time: each move is judged by the cell that it changes."""
    x = torch.full((500, D), 5.0, dtype=torch.float64)
    q, g = conditionals("gaussian", "shared", False), torch.Generator().manual_seed(6)
    with torch.no_grad():
        for parameter in q.parameters():
            parameter.mul_(0.05)  # proposals near 0, wherever the other cells are
    for j in range(D):
        free, new, kept = boxed(q, x, torch.full((500,), j), g)
        came_in = free[:, j].abs() <= 1
        assert bool(came_in.any()) and not bool(came_in.all())
        assert torch.equal(kept[:, 0], came_in)
        assert torch.equal(new[came_in, j], free[came_in, j]) and torch.equal(new[~came_in], x[~came_in])


def pairs(missing, uniform):
    """Two steps of up to two columns each, without the smaller parts that rows with few holes have."""
    order = torch.where(missing, uniform, -1.0).topk(4, 1)
    return Scan(order.indices.view(-1, 2, 2), (order.values >= 0).view(-1, 2, 2))


def block_noise(q, g, G, B, n=R):
    normal = torch.randn(n, G, B, q.noise_width, generator=g, dtype=torch.float64)
    uniform = torch.rand(n, D, generator=g)
    log_uniform = torch.rand(n, G, generator=g, dtype=torch.float64).log()
    return SweepNoise(uniform, normal, log_uniform, normal.new_empty(n, G, 0))


def metropolis_blocks(q, x, missing, scan, noise, share, box=None, density=PLAIN):
    """The rows, and which cells of which steps were kept; a share of the draws is wide."""
    state = State(q.sweep(x.clone(), missing), density.begin(x, missing))
    steps = []
    for g in range(scan.j.shape[1]):
        state, done = metropolis_step(noise.step(g), state, density, scan.j[:, g], scan.active[:, g], share, box)
        steps.append(done.accepted)
    return state.rows.x, torch.stack(steps, 1)


NARROW = 1e-300  # a widened share of nothing


@pytest.mark.parametrize(
    ("family", "wide"), [("gaussian", NARROW), ("gaussian", 0.1), pytest.param("spline", 0.05, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("extended", first(1, [True, False]))
def test_columns_redrawn_together_keep_the_model(family, extended, wide):
    q = conditionals(family, "shared", extended, seed=1)
    x, missing, g = start(3)
    moved = torch.zeros(R, dtype=torch.bool)
    with torch.no_grad():
        for _ in range(6):
            noise = block_noise(q, g, 2, 2)
            new, kept = metropolis_blocks(q, x, missing, pairs(missing, noise.order), noise, wide)
            assert torch.equal(new[~missing], x[~missing])
            x, moved = new, moved | kept.any(2).any(1)
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
    scan = Scan(torch.tensor([0, 1]).expand(n, 1, 2), missing[:, None])
    moved = 0.0
    for _ in range(10):
        noise = block_noise(q, g, 1, 2, n)
        density = OfRows(lambda x, missing: normal.log_prob(x))
        x, kept = metropolis_blocks(q, x, missing, scan, noise, NARROW, density=density)
        moved += float(kept.double().mean())
    assert moved > 1
    spread = ((S**2 + S.diagonal().outer(S.diagonal())) / n).sqrt()
    assert bool(((x.T @ x / n - S).abs() < 4.5 * spread).all())


def test_uncorrected_blocks_do_not_keep_the_model():
    """The same test fails without the correction: it can tell."""
    q = conditionals("gaussian", "shared", False, seed=1)
    x, missing, g = start(3)
    with torch.no_grad():
        for _ in range(10):
            noise = block_noise(q, g, 2, 2)
            x = gibbs_sweep(q, x, missing, pairs(missing, noise.order), noise)[0]
    with pytest.raises(AssertionError):
        assert_distributed_as_the_model(x)


@pytest.mark.parametrize("extended", [False, True])
def test_blocks_of_one_column_are_the_sweep_of_single_columns(extended):
    q = conditionals("spline", "shared", extended)
    x, missing, g = start(4)
    x, missing = x[:500], missing[:500]
    noise = block_noise(q, g, D, 1, 500)
    scan = holes_scan(missing, 1, noise.order)
    with torch.no_grad():
        one, accepted = metropolis_sweep(q, x, missing, scan, noise._replace(normal=noise.normal[:, :, 0]))
        block = Scan(scan.j[..., None], scan.active[..., None])
        together, kept = metropolis_blocks(q, x, missing, block, noise, WIDE_SHARE)
    assert torch.equal(kept[..., 0], accepted)
    torch.testing.assert_close(together, one)


def test_a_box_refuses_columns_together_or_cell_by_cell():
    q = conditionals("gaussian", "shared", False)
    x, missing, g = start(5)
    x, missing = x[:2000].clamp(-1, 1), torch.ones(2000, D, dtype=torch.bool)
    box = torch.tensor([[-1.0] * D, [1.0] * D], dtype=torch.float64)
    noise = block_noise(q, g, 1, 2, 2000)._replace(log_uniform=torch.full((2000, 1), -1e9, dtype=torch.float64))
    scan = Scan(*(part[:, :1] for part in pairs(missing, noise.order)))
    with torch.no_grad():
        free, _ = metropolis_blocks(q, x, missing, scan, noise, NARROW)
        boxed, kept = metropolis_blocks(q, x, missing, scan, noise, NARROW, box)
        cells, _, each = gibbs_sweep(q, x, missing, scan, noise, box)
    outside = (free.abs() > 1).any(1)
    assert bool(outside.any()) and not bool(outside.all())
    assert torch.equal(boxed[outside], x[outside]) and torch.equal(boxed[~outside], free[~outside])
    assert bool((cells.abs() <= 1).all()) and torch.equal(cells[~outside], free[~outside])
    assert float(each.sum()) > float(kept.sum())
