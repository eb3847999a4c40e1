"""Flows of rows that hold levels: the probability of the levels, and the map of the numbers given these."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from torch import Tensor

from tests.models.test_spline_flows import FAMILIES, generator, shaken
from tests.selection import covering, first
from vgi_cli.layout import Layout
from vgi_cli.models.flows.base import FlowConfig, SplineFlow
from vgi_cli.models.flows.coupling import Flow
from vgi_cli.models.flows.levels import cumulative_log_probs

SMALL = {"steps": 3, "hidden": 16, "bins": 5, "blocks": 1, "level_hidden": 12, "embedding": 4}
every = pytest.mark.parametrize("family", FAMILIES)
laws = pytest.mark.parametrize("ordinal", ["softmax", "cumulative"])


def layout(*levels: int) -> Layout:
    """Columns with so many levels, 0: a number; those with five are ordered."""
    return Layout.of(map(str, range(len(levels))), None, levels, (i for i, n in enumerate(levels) if n == 5))


def mixed_rows(levels: tuple[int, ...], n: int, seed: int = 5) -> Tensor:
    g = generator(seed)
    x = 1.5 * torch.randn(n, len(levels), generator=g, dtype=torch.float64) + 0.5
    for i, count in enumerate(levels):
        if count:
            x[:, i] = torch.randint(count, (n,), generator=g).double()
    return x


def random_flow(
    family: type[SplineFlow], *levels: int, seed: int = 0, noise: float = 0.15, **settings: object
) -> SplineFlow:
    flow = family.build(FlowConfig(**(SMALL | settings)), layout(*levels)).double()
    flow.initialise(mixed_rows(levels, 60, seed), generator(seed))
    shaken(flow, noise, seed=seed + 1)
    return flow.eval()


@laws
@pytest.mark.parametrize("level_hidden", [2, 12])
def test_a_level_depends_on_those_before_it_only(ordinal: str, level_hidden: int) -> None:
    levels = (3, 5, 2, 0, 5, 4)
    flow = random_flow(Flow, *levels, noise=0.6, ordinal=ordinal, level_hidden=level_hidden)
    assert flow.levels is not None
    density, of = flow.levels.density, flow.levels.spread.of
    place = density.order.argsort().tolist()
    x = mixed_rows(levels, 1)
    with torch.no_grad():
        before = density.log_probs(flow.levels.indicators(x))
        depends = torch.zeros(5, 5, dtype=torch.bool)
        for changed, dimension in enumerate(flow.levels.dimensions):
            for level in range(levels[dimension]):
                other = x.clone()
                other[:, dimension] = level
                moved = density.log_probs(flow.levels.indicators(other)) != before
                for read in range(5):
                    depends[place[read], place[changed]] |= bool(moved[of == read].any())
    assert not bool(depends.triu().any())
    assert bool(depends[-1, :-1].all())  # the last one sees all
    if level_hidden > 4:
        assert int(depends.sum()) == 10


@laws
@pytest.mark.parametrize("levels", [(2,), (5,), (3, 5, 2, 5)])
def test_probabilities_of_rows_without_numbers_sum_to_one(levels: tuple[int, ...], ordinal: str) -> None:
    flow = random_flow(Flow, *levels, noise=0.5, ordinal=ordinal)
    rows = torch.tensor(list(itertools.product(*map(range, levels))), dtype=torch.float64)
    with torch.no_grad():
        p = flow.log_prob(rows).exp()
        draws = flow.sample(20_000, generator(1))
    assert p.sum().item() == pytest.approx(1.0, abs=1e-12)
    counts = (draws[:, None] == rows).all(2).double().sum(0)
    assert counts.sum() == 20_000
    assert float(((counts - 20_000 * p).square() / (20_000 * p)).sum()) < len(p) + 4 * math.sqrt(2 * len(p))


def test_cumulative_logits_are_differences_of_sigmoids() -> None:
    location = torch.tensor([[0.3, -2.0, 40.0], [5.0, 0.0, -60.0]], dtype=torch.float64)
    gaps = torch.tensor([[-1.0, 0.5], [2.0, -9.0]], dtype=torch.float64)[..., None]
    found = cumulative_log_probs(location, gaps).view(2, 4, 3)
    assert bool(torch.isfinite(found).all())
    for i in range(2):
        steps = torch.nn.functional.softplus(gaps[i, :, 0]) + 1e-3
        cuts = torch.cat([steps.new_zeros(1), steps.cumsum(0)])
        reached = torch.cat([cuts[:, None] - location[i], location[i : i + 1] * 0 + torch.inf]).sigmoid()
        expected = torch.diff(reached, dim=0, prepend=reached[:1] * 0)
        torch.testing.assert_close(found[i].exp(), expected, atol=1e-12, rtol=1e-9)


@laws
def test_levels_start_at_their_frequencies(ordinal: str) -> None:
    shares = torch.tensor([0.1, 0.2, 0.05, 0.25, 0.4], dtype=torch.float64)
    x = torch.zeros(1000, 2, dtype=torch.float64)
    x[:, 0] = torch.arange(5, dtype=torch.float64).repeat_interleave((1000 * shares).round().long())
    flow = Flow.build(FlowConfig(ordinal=ordinal), layout(5, 0)).double()
    flow.initialise(x, generator())
    assert flow.levels is not None
    found = flow.levels.density.log_probs(flow.levels.indicators(x[:1])).exp()[:, 0]
    torch.testing.assert_close(found, shares, atol=1e-3, rtol=0)


@covering(pytest.mark.parametrize("levels", [(0, 3), (3, 0, 2, 0), (0, 2, 0, 0, 5)]), every)
def test_given_the_levels_the_numbers_are_mapped_by_what_autograd_says(
    family: type[SplineFlow], levels: tuple[int, ...]
) -> None:
    flow = random_flow(family, *levels, noise=0.3)
    assert flow.levels is not None and flow.levels.embedding is not None
    rows = mixed_rows(levels, 6)
    numbers = [i for i, n in enumerate(levels) if not n]
    bases = []
    for x in rows:
        context = flow.levels.embedding(flow.levels.indicators(x))
        X = x[numbers][:, None]
        u, log_det = flow._forward(X, context)
        torch.testing.assert_close(flow._inverse(u, context), X, atol=1e-9, rtol=0)
        jacobian = torch.autograd.functional.jacobian(lambda X, c=context: flow._forward(X, c)[0][:, 0], X)[:, :, 0]
        torch.testing.assert_close(log_det[0], torch.linalg.slogdet(jacobian).logabsdet, atol=1e-9, rtol=1e-9)
        log_levels = flow.levels.density(flow.levels.indicators(x))
        log_base = torch.distributions.Normal(0.0, 1.0).log_prob(u).sum()
        torch.testing.assert_close(flow.log_prob(x), (log_levels + log_base + log_det)[0])
        bases.append(u)
    other = rows[0].clone()
    for i, n in enumerate(levels):
        if n:
            other[i] = (other[i] + 1) % n
    context = flow.levels.embedding(flow.levels.indicators(other))
    assert bool((flow._forward(rows[0][numbers][:, None], context)[0] != bases[0]).all())  # the levels matter


@every
def test_gradient_in_the_numbers(family: type[SplineFlow]) -> None:
    flow = random_flow(family, 0, 3, 0)
    rows = mixed_rows((0, 3, 0), 5)

    def log_prob(numbers: Tensor) -> Tensor:
        return flow.log_prob(torch.stack([numbers[:, 0], rows[:, 1], numbers[:, 1]], 1))

    assert torch.autograd.gradcheck(log_prob, (rows[:, [0, 2]].requires_grad_(),))


@every
def test_the_order_of_the_levels_comes_from_the_generator_and_is_kept(family: type[SplineFlow]) -> None:
    levels = (2, 3, 0, 4, 2, 3, 5)
    first, again, other = (random_flow(family, *levels, seed=seed) for seed in (0, 0, 9))
    orders = [flow.levels.density.order.tolist() for flow in (first, again, other) if flow.levels is not None]
    assert orders[0] == orders[1] != orders[2] and sorted(orders[0]) == list(range(6))
    state = other.state_dict()
    assert torch.equal(state["levels.density.order"], torch.tensor(orders[2]))
    first.load_state_dict(state)
    x = mixed_rows(levels, 30)
    assert torch.equal(first.log_prob(x), other.log_prob(x))
    assert not any("mask" in key or "_of_" in key for key in state)


@every
def test_rows_with_levels_are_no_invertible_map(family: type[SplineFlow]) -> None:
    flow = random_flow(family, 0, 3)
    for refused in (flow.to_base, flow.from_base):
        with pytest.raises(ValueError, match="levels are no invertible map"):
            refused(torch.zeros(1, 2, dtype=torch.float64))


@every
def test_no_value_decides_what_is_computed(family: type[SplineFlow]) -> None:
    """Tensors without values go all the way, gradients too: a step can be captured."""
    flow = family.build(FlowConfig(**SMALL, dropout=0.2, ordinal="cumulative"), layout(0, 3, 0, 5)).to("meta").train()
    flow.initialise(mixed_rows((0, 3, 0, 5), 20).float(), generator())
    log_p = flow.log_prob(torch.empty(6, 4, device="meta"))
    log_p.sum().backward()
    assert log_p.shape == (6,)


@every
def test_a_level_of_a_single_row_cannot_make_a_point_of_its_numbers(family: type[SplineFlow]) -> None:
    """However much the weights grow, what levels scale the numbers by is bounded."""
    flow = random_flow(family, 0, 3)
    assert flow.shifts is not None
    with torch.no_grad():
        flow.shifts.weight.mul_(1e6)
        _, log_scale = flow.shifts(torch.randn(4, 50, generator=generator(), dtype=torch.float64))
    assert float(log_scale.abs().max()) <= 3.0


@pytest.mark.parametrize(("family", "ordinal"), first(1, list(zip(FAMILIES, ["softmax", "cumulative"], strict=True))))
def test_learns_what_goes_with_what(family: type[SplineFlow], ordinal: str) -> None:
    """Two levels whose agreement sets a third one, and with it the mean and the spread of a number."""
    g = generator(3)
    n = 1500
    a, b = (torch.randint(k, (n,), generator=g) for k in (2, 2))
    grade = torch.where(a == b, torch.randint(2, (n,), generator=g), 2 + torch.randint(3, (n,), generator=g))
    mean, scale = torch.where(a == b, -2.0, 2.0), torch.where(b == 1, 0.3, 1.0)
    x = torch.stack([a.float(), mean + scale * torch.randn(n, generator=g), b.float(), grade.float()], 1)
    train, test = x[:1000], x[1000:]
    truth = 2 * math.log(0.5) - torch.where(a == b, 2.0, 3.0).log() - 0.5 * math.log(2 * math.pi * math.e) - scale.log()
    flow = family.build(FlowConfig(steps=2, hidden=16, blocks=1, ordinal=ordinal), layout(2, 0, 2, 5))
    flow.initialise(train, generator(1))
    optimiser = torch.optim.Adam(flow.parameters(), lr=1e-2)
    for _ in range(100):
        optimiser.zero_grad()
        (-flow.log_prob(train).mean()).backward()
        optimiser.step()
    with torch.no_grad():
        learned = float(flow.log_prob(test).mean())
    assert float(truth.mean()) - 0.25 < learned < float(truth.mean()) + 0.1
