"""The objective of rows with levels, against sums over all of them."""

import pytest
import torch

from tests.mixed import A, B, ExactMixedConditionals, LevelsAndNumbers, rough_conditionals
from tests.selection import covering
from vgi_cli.chains.moves import uniform
from vgi_cli.chains.scans import random_scan
from vgi_cli.layout import Layout
from vgi_cli.methods.vgi.objective import (
    DrawNoise,
    Estimate,
    _every_point,
    _used_only,
    draw_noise,
    vgi_objective,
)
from vgi_cli.methods.vgi.warm_ups import warm_up_loss


def rows(model, n, seed=0):
    g = torch.Generator().manual_seed(seed)
    return model.sample(n, g), torch.zeros(n, 4, dtype=torch.bool), g


def objective(model, q, x, missing, weight, M, g, K=1):
    log_p = lambda x, missing: model.log_prob(x)  # noqa: E731
    incomplete = missing.any(1)
    noise = draw_noise(q, int(incomplete.sum()), Estimate(M), x, g)
    return vgi_objective(log_p, q, x, missing, weight, K, noise, Estimate(M))


@pytest.mark.parametrize("M", [1, 2])
def test_with_one_hole_and_exact_conditionals_every_draw_gives_the_observed_log_likelihood(M):
    model = LevelsAndNumbers()
    x, missing, g = rows(model, 40)
    missing[torch.arange(40), torch.arange(40) % 4] = True
    q = ExactMixedConditionals(model)
    expected = model.observed_log_prob(x, missing)
    for i in range(40):
        one = objective(model, q, x[i : i + 1], missing[i : i + 1], x.new_ones(1), M, g)
        torch.testing.assert_close(one, expected[i], rtol=1e-10, atol=1e-10)


def test_complete_rows_enter_once_beside_incomplete_ones():
    model = LevelsAndNumbers()
    x, missing, g = rows(model, 9)
    missing[:4, A] = True
    weight = torch.rand(9, generator=g, dtype=torch.float64)
    q = rough_conditionals()
    both = objective(model, q, x, missing, weight, 2, g, K=4)
    holes = objective(model, q, x[:4], missing[:4], weight[:4], 2, g, K=4)
    torch.testing.assert_close(both, holes + (weight[4:] * model.log_prob(x[4:])).sum())


@pytest.mark.parametrize("extended", [False, True])
def test_the_part_of_a_level_is_the_sum_over_all_of_them_and_so_is_its_gradient(extended):
    """In theta and in phi, without noise: against the sum written out."""
    model, q = LevelsAndNumbers(), rough_conditionals(kernel="extended" if extended else "standard")
    x, missing, g = rows(model, 30)
    own = torch.where(torch.arange(30) % 2 == 0, A, B)
    missing[torch.arange(30), own] = True
    got = objective(model, q, x, missing, x.new_full((30,), 1 / 30), 1, g)
    law, expected = q.law(x, missing, own), x.new_zeros(())
    for level in range(3):
        moved = x.scatter(1, own[:, None], float(level))
        log_q = law.log_prob(x.new_full((30,), float(level)))
        can = (own == A) | (level < 2)
        log_q, moved = torch.where(can, log_q, 0.0), torch.where(can[:, None], moved, x)
        expected = expected + torch.where(can, log_q.exp() * (model.log_prob(moved) - log_q), 0.0).mean()
    torch.testing.assert_close(got, expected)
    parameters = [*model.parameters(), *q.parameters()]
    mine = torch.autograd.grad(got, parameters, allow_unused=True, materialize_grads=True)
    theirs = torch.autograd.grad(expected, parameters, allow_unused=True, materialize_grads=True)
    for one, other in zip(mine, theirs, strict=True):
        torch.testing.assert_close(one, other, atol=1e-10, rtol=1e-8)


@covering(
    pytest.mark.parametrize("blocks", [(), ("u", "a")]), pytest.mark.parametrize("family", ["gaussian", "spline"])
)
def test_value_and_gradient_are_those_of_the_mean_over_blocks_on_average(family, blocks):
    """A row that misses everything: many estimates against E log p - log q by plain draws that carry both gradients,
    the score function's for levels: unbiased, and noisier."""
    layout = Layout.of(("u", "a", "v", "b"), levels=(0, 3, 0, 2))
    model = LevelsAndNumbers()
    q = rough_conditionals(table=layout.grouped([blocks] if blocks else []), conditional=family)
    n = 20_000
    x, missing, g = rows(model, 1)
    x, missing = x.expand(n, 4), torch.ones(n, 4, dtype=torch.bool)
    got = objective(model, q, x, missing, x.new_full((n,), 1 / n), q.S, g, K=n)
    total = x.new_zeros(())
    surrogate = x.new_zeros(())
    for block in range(q.S):
        j = torch.full((n,), block)
        law = q.law(x, missing, j)
        value, _ = law.draw_scored(torch.randn(n, q.fresh_width, dtype=torch.float64, generator=g))
        log_q = law.log_prob(value)
        term = model.log_prob(q.put(x, j, value)) - log_q
        levels = [i for i in q.members[block].unique().tolist() if layout.level_counts[i]]
        total = total + term.mean() / q.S
        surrogate = surrogate + term.mean() / q.S
        if levels:  # d/dphi of the law of the levels alone, at a fixed number
            score = law.log_prob(value.detach())
            if len(q.members[block].unique()) > len(levels):
                which = law.which.log_probs
                index = (law.levels == value.detach()[..., None, :]) | ~law.wanted[..., None, :]
                score = which.gather(-1, index.all(-1).to(torch.int8).argmax(-1)[..., None])[..., 0]
            centred = term.detach() - term.detach().mean()
            surrogate = surrogate + (centred * score).mean() / q.S
    torch.testing.assert_close(got, total, atol=0.05, rtol=0.01)
    parameters = [*model.parameters(), *q.parameters()]
    mine = torch.autograd.grad(got, parameters, allow_unused=True, materialize_grads=True)
    theirs = torch.autograd.grad(surrogate, parameters, allow_unused=True, materialize_grads=True)
    one, other = (torch.cat([part.flatten() for part in parts]) for parts in (mine, theirs))
    assert float((one - other).norm()) < 0.05 * float(other.norm())


def test_warm_up_loss_is_the_cross_entropy_of_observed_cells():
    """With p's own conditionals: minus the mean of log p(x_j | rest) over cells."""
    model = LevelsAndNumbers()
    x, missing, g = rows(model, 400)
    q = ExactMixedConditionals(model)
    j = torch.arange(4).expand(400, 4)
    expected = -q.law(x, missing, j).log_prob(x).mean()
    got = warm_up_loss(q, x, missing, x.new_full((400,), 1 / 400), 4, uniform((400, q.S), x, g))
    torch.testing.assert_close(got, expected)


def test_a_law_of_40_levels_takes_16_evaluations_and_has_an_unbiased_objective():
    layout = Layout.of(("u", "a"), levels=(0, 40))
    q = rough_conditionals(table=layout, size=0.8)
    n = 4000
    g = torch.Generator().manual_seed(0)
    utility = torch.randn(40, generator=g, dtype=torch.float64).requires_grad_()
    x = torch.tensor([[0.3, 5.0]], dtype=torch.float64).expand(n, 2)
    missing = torch.tensor([[False, True]]).expand(n, 2)
    seen = []

    def log_p(rows, missing):
        seen.append(len(rows))
        return utility[rows[:, 1].long()] - rows[:, 0].square()

    u = torch.special.ndtri((torch.arange(n, dtype=torch.float64) + 0.5) / n)
    noise = DrawNoise(torch.rand(n, 1, generator=g, dtype=torch.float64), u[:, None, None], x.new_empty(0))
    got = vgi_objective(log_p, q, x, missing, x.new_full((n,), 1 / n), n, noise, Estimate(1))
    law = q.law(x[:1], missing[:1], torch.ones(1, dtype=torch.int64)).levels.log_probs[0]
    expected = (law.exp() * (utility - 0.09 - law)).sum()
    assert seen == [16 * n]
    torch.testing.assert_close(got, expected, atol=1e-3, rtol=0)
    parameters = [utility, *q.parameters()]
    mine = torch.autograd.grad(got, parameters, allow_unused=True, materialize_grads=True)
    theirs = torch.autograd.grad(expected, parameters, allow_unused=True, materialize_grads=True)
    one, other = (torch.cat([part.flatten() for part in parts]) for parts in (mine, theirs))
    assert float((one - other).norm()) < 5e-3 * float(other.norm())


@pytest.mark.parametrize("blocks", [(), ("u", "a")])
def test_all_points_and_only_those_that_are_used_give_the_same(blocks):
    """What a GPU computes, in fixed shapes, and what a CPU does."""
    layout = Layout.of(("u", "a", "v", "b"), levels=(0, 3, 0, 2))
    model = LevelsAndNumbers()
    q = rough_conditionals(table=layout.grouped([blocks] if blocks else []))
    x, _, g = rows(model, 50)
    missing = torch.rand(50, 4, generator=g) < 0.6
    missing[:, 0] = True
    scan = random_scan(q.blocks(missing), torch.rand(50, q.S, generator=g), 2)
    points = q.law(x, missing, scan.j).quadrature(torch.randn(50, 2, q.fresh_width, generator=g, dtype=x.dtype))
    every, one = (way(q, x, missing, scan, points) for way in (_every_point, _used_only))
    assert len(every[0]) > len(one[0])
    terms = []
    for filled, masks, spread in (every, one):
        assert len(filled) == len(masks)
        term = points.mean(spread(model.log_prob(filled)).view(points.weight.shape))
        terms.append(torch.where(scan.active, term, 0.0))
    torch.testing.assert_close(*terms)
