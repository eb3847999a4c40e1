"""Chains on rows with levels keep p(x_mis | x_obs) whatever q is; enumerated, and by rows drawn from the model."""

from itertools import product

import pytest
import torch

from tests.mixed import LAYOUT, A, B, LevelsAndNumbers, rough_conditionals
from tests.selection import some
from vgi_cli.chains.moves import Jump, Moves, OfRows, State, StepNoise, SweepNoise, Weighed, along, metropolis_step
from vgi_cli.chains.scans import holes_scan
from vgi_cli.conditionals.base import Sweep
from vgi_cli.layout import Layout

R = 5000
MODEL = LevelsAndNumbers(3).requires_grad_(False)
DENSITY = OfRows(lambda x, missing: MODEL.log_prob(x))
BLOCKS = {"single": LAYOUT, "block": LAYOUT.grouped([("u", "a")]), "levels": LAYOUT.grouped([("a", "b")])}


def start(seed):
    g = torch.Generator().manual_seed(seed)
    return MODEL.sample(R, g), torch.rand(R, 4, generator=g) < 0.5, g


def sweep_noise(q, G, g):
    u = torch.rand(R, 2 * G, generator=g, dtype=torch.float64)
    normal = torch.randn(R, G, q.noise_width, generator=g, dtype=torch.float64)
    return SweepNoise(u[:, :G], normal, u[:, G:].log(), u[:, :G, None][..., :0])


def assert_distributed_as_the_model(x):
    """Shares of the six combinations of levels and, in each, means and covariances of the numbers, within 4.5 standard
    errors; and every level is a level."""
    which = (2 * x[:, A] + x[:, B]).long()
    assert set(x[:, A].unique().tolist()) <= {0, 1, 2} and set(x[:, B].unique().tolist()) <= {0, 1}
    for g, p in enumerate(MODEL.logits.softmax(0).tolist()):
        mine = x[which == g][:, [0, 2]] - MODEL.mean[g]
        n = len(mine)
        assert abs(n / R - p) < 4.5 * (p * (1 - p) / R) ** 0.5, g
        S = MODEL.covariance
        assert bool((mine.mean(0).abs() < 4.5 * (S.diagonal() / n).sqrt()).all()), g
        spread = ((S**2 + S.diagonal().outer(S.diagonal())) / n).sqrt()
        assert bool(((mine.T @ mine / n - S).abs() < 4.5 * spread).all()), g


COVERING = [
    ("single", "gaussian", False, False),
    ("single", "gaussian", True, True),
    ("single", "spline", False, True),
    ("single", "spline", True, False),
]
"""Of single cells, each pair of what they differ in."""

CASES = [
    *(
        pytest.param(*case, marks=[] if case in COVERING else pytest.mark.slow)
        for case in product(("single",), ("gaussian", "spline"), (False, True), (False, True))
    ),
    *some(
        [("block", "spline", True, False), ("levels", "gaussian", False, False)],
        [
            ("block", "gaussian", True, True),
            ("block", "spline", False, False),
            ("block", "gaussian", False, True),
            ("block", "spline", True, False),
            ("levels", "gaussian", False, False),
            ("levels", "gaussian", True, True),
        ],
    ),
]


@pytest.mark.parametrize(("blocks", "family", "extended", "path"), CASES)
def test_rows_drawn_from_the_model_stay_distributed_as_the_model(blocks, family, extended, path):
    kernel = "extended" if extended else "standard"
    q = rough_conditionals(1, BLOCKS[blocks], 0.4, conditional=family, kernel=kernel)
    x, missing, g = start(3)
    moved = torch.zeros(R, dtype=torch.bool)
    with torch.no_grad():
        for _ in range(4):
            noise = sweep_noise(q, 3, g)
            scan = holes_scan(q.blocks(missing), 1, noise.order)
            new, _, kept = along(noise, q, x, missing, DENSITY, Moves(metropolis=True, path=path, G=3), scan)
            assert torch.equal(new[~missing], x[~missing])
            x, moved = new, moved | kept.any(1)
    assert moved[missing.any(1)].float().mean() > 0.1  # q is rough
    assert_distributed_as_the_model(x)


def test_without_a_correction_a_wrong_q_moves_the_rows_away():
    """So the test above can fail."""
    q = rough_conditionals(1, LAYOUT, 0.4)
    x, missing, g = start(3)
    with torch.no_grad():
        for _ in range(5):
            noise = sweep_noise(q, 3, g)
            scan = holes_scan(missing, 1, noise.order)
            x = along(noise, q, x, missing, DENSITY, Moves(metropolis=False, path=False, G=3), scan)[0]
    with pytest.raises(AssertionError):
        assert_distributed_as_the_model(x)


@pytest.mark.parametrize("extended", [False, True])
def test_the_kernel_of_levels_is_reversible_by_enumeration(extended):
    """p(l) K(l, l') = p(l') K(l', l) for the transition probabilities of one step in a column of three levels, which
    follow from q and the acceptance rule; the step draws with just these."""
    q = rough_conditionals(2, size=0.6, kernel="extended" if extended else "standard")
    row = torch.tensor([0.4, 0.0, -0.3, 1.0], dtype=torch.float64)
    n = 40_000
    kernel = torch.zeros(3, 3, dtype=torch.float64)
    g = torch.Generator().manual_seed(0)
    target = torch.stack([MODEL.log_prob(row.clone().index_fill(0, torch.tensor([A]), level)) for level in range(3)])
    missing = torch.tensor([False, True, False, False]).expand(n, 4)
    j, active = torch.full((n,), A), torch.ones(n, dtype=torch.bool)
    proposal = torch.zeros(3, 3, dtype=torch.float64)
    with torch.no_grad():
        for old in range(3):
            x = row.expand(n, 4).clone()
            x[:, A] = old
            law = q.law(x[:1], missing[:1], j[:1]).widened()
            proposal[old] = torch.stack([law.log_prob(torch.tensor([float(v)], dtype=x.dtype))[0] for v in range(3)])
            normal = torch.randn(n, 2, generator=g, dtype=torch.float64)
            u = torch.rand(n, generator=g, dtype=torch.float64).log()
            state = State(Sweep(q, x, missing), Weighed(MODEL.log_prob(x)))
            state, _ = metropolis_step(StepNoise(normal, u, normal[:, :0]), state, DENSITY, j, active)
            kernel[old] = torch.bincount(state.rows.x[:, A].long(), minlength=3) / n
    ratio = target[None] - target[:, None] + proposal.T - proposal
    expected = proposal.exp() * ratio.clamp(max=0).exp()
    expected.fill_diagonal_(0)
    expected += torch.diag(1 - expected.sum(1))
    torch.testing.assert_close(kernel, expected, atol=0.012, rtol=0)
    flow = target.softmax(0)[:, None] * expected
    torch.testing.assert_close(flow, flow.T)


@pytest.mark.parametrize("extended", [False, True])
def test_two_levels_are_drawn_exactly_whatever_q_is(extended):
    """By enumeration: from either level the other one is reached with its probability given the rest, be q as wrong as
    it may; every draw counts as kept, and rows that stand still do so."""
    q = rough_conditionals(2, size=3.0, kernel="extended" if extended else "standard")
    rows = torch.tensor([[0.4, 1.0, -0.3, 0.0], [-2.0, 0.0, 1.5, 1.0], [0.9, 2.0, 0.2, 1.0]], dtype=torch.float64)
    both = torch.stack([rows.clone().index_fill(1, torch.tensor([B]), level) for level in range(2)])
    p = MODEL.log_prob(both).softmax(0)[1]  # [3] of level 1
    n = 20_000
    x = both.flatten(0, 1).repeat_interleave(n, 0)  # [2 * 3 * n, D], either level to begin with
    missing = torch.tensor([False, False, False, True]).expand(len(x), 4)
    g = torch.Generator().manual_seed(0)
    normal = torch.randn(len(x), q.noise_width, generator=g, dtype=torch.float64)
    u = torch.rand(len(x), generator=g, dtype=torch.float64).log()
    active = torch.arange(len(x)) % n < n - 10
    with torch.no_grad():
        law = q.law(x[::n], missing[::n], torch.full((6,), B))
        assert (law.log_prob(torch.ones(6, dtype=x.dtype)).exp() - p.repeat(2)).abs().max() > 0.2  # q is wrong
        state = State(Sweep(q, x.clone(), missing), Weighed(MODEL.log_prob(x)))
        j = torch.full((len(x),), B)
        state, done = metropolis_step(StepNoise(normal, u, normal[:, :0]), state, DENSITY, j, active)
    drawn = state.rows.x
    assert torch.equal(done.accepted, active) and torch.equal(drawn[~active], x[~active])
    shares = drawn[:, B].view(2, 3, n)[..., : n - 10].mean(-1)
    assert bool(((shares - p).abs() < 4.5 * (p * (1 - p) / n).sqrt()).all())
    torch.testing.assert_close(state.at.log_p, MODEL.log_prob(drawn))


def test_a_random_walk_leaves_levels_alone():
    """Its size is 0 there: a block that holds both kinds walks in its numbers."""
    q = rough_conditionals(1, Layout.of(LAYOUT.columns, levels=LAYOUT.levels).grouped([("u", "a")]), 0.4)
    x, _, g = start(5)
    missing = torch.ones_like(x, dtype=torch.bool)
    j, active = torch.zeros(R, dtype=torch.int64), torch.ones(R, dtype=torch.bool)
    levels = x[:, A].clone()
    with torch.no_grad():
        for _ in range(3):
            noise = torch.randn(R, q.noise_width, generator=g, dtype=torch.float64)
            u = torch.rand(R, generator=g, dtype=torch.float64).log()
            size = 0.5 * torch.randn(R, 2, generator=g, dtype=torch.float64) * torch.tensor([1.0, 0.0])
            state = State(Sweep(q, x.clone(), missing), Weighed(MODEL.log_prob(x)))
            jump = Jump(torch.ones(R, dtype=torch.bool), size)
            state, done = metropolis_step(StepNoise(noise, u, noise[:, :0]), state, DENSITY, j, active, jump=jump)
            x = state.rows.x
    assert torch.equal(x[:, A], levels) and done.accepted.float().mean() > 0.3
    assert_distributed_as_the_model(x)
