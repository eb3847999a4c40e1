"""Rows of numbers and levels: laws against torch.distributions, and levels of each kind against their formulas."""

from __future__ import annotations

import math
from typing import cast

import pytest
import torch
from torch import Tensor
from torch.distributions import Bernoulli, Categorical, Normal

from vgi_cli.maths.cells import CellKinds, MixedCells, threshold_log_probs
from vgi_cli.maths.diagonal import DiagonalNormal

LEVELS = (0, 3, 2, 0, 4, 5)
"""A number, three levels, two, a number, four in an order, five in an order."""
ORDERED = (4, 5)
R = 7


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def normals(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=generator(seed), dtype=torch.float64)


def made(shared: bool, seed: int = 0) -> tuple[MixedCells, Tensor, Tensor, DiagonalNormal]:
    """A law of R rows, the numbers and thresholds that it is made of, and its normals."""
    kinds = CellKinds(LEVELS, ORDERED, shared=shared)
    normal = DiagonalNormal(normals(R, 2, seed=seed), 0.3 * normals(R, 2, seed=seed + 1))
    numbers = normals(R, kinds.numbers, seed=seed + 2).requires_grad_()
    thresholds = normals(kinds.thresholds, seed=seed + 3).requires_grad_()
    return cast(MixedCells, kinds.law(normal, numbers, thresholds)), numbers, thresholds, normal


def cumulative(place: Tensor, steps: Tensor) -> Tensor:
    """P(x <= r) of levels in an order [R, L], by its formula."""
    at = torch.cat([steps[..., :1], torch.nn.functional.softplus(steps[..., 1:])], -1).cumsum(-1)
    return torch.cat([torch.sigmoid(at - place[..., None]), torch.ones(len(place), 1, dtype=torch.float64)], -1)


def probabilities(numbers: Tensor, thresholds: Tensor, shared: bool) -> list[Tensor]:
    """Of each discrete dimension [R, L]: numbers lie as three logits, one logit, then those of the ordered ones."""
    out = [
        torch.softmax(numbers[:, :3], -1),
        torch.stack([1 - torch.sigmoid(numbers[:, 3]), numbers[:, 3].sigmoid()], 1),
    ]
    nothing = torch.zeros(R, dtype=torch.float64)
    for place, steps in ((4, slice(0, 3)), (5, slice(3, 7))):
        if shared:
            below = cumulative(numbers[:, place], thresholds[steps].expand(R, -1))
        else:
            below = cumulative(nothing, numbers[:, 4:][:, steps])
        out.append(below.diff(dim=-1, prepend=torch.zeros(R, 1, dtype=torch.float64)))
    return out


def rows(seed: int = 5) -> Tensor:
    """Values of all cells."""
    g = generator(seed)
    cells = [
        normals(R, seed=9 + i) if not L else torch.randint(L, (R,), generator=g).double() for i, L in enumerate(LEVELS)
    ]
    return torch.stack(cells, 1)


@pytest.mark.parametrize("shared", [True, False])
def test_log_probabilities_are_those_of_each_kind(shared: bool) -> None:
    law, numbers, thresholds, normal = made(shared)
    x, p = rows(), probabilities(numbers, thresholds, shared)
    expected = torch.zeros(R, 6, dtype=torch.float64)
    expected[:, [0, 3]] = Normal(normal.mean, normal.scale).log_prob(x[:, [0, 3]])
    expected[:, 1] = Categorical(p[0]).log_prob(x[:, 1].long())
    expected[:, 2] = Bernoulli(p[1][:, 1]).log_prob(x[:, 2])
    expected[:, 4] = Categorical(p[2]).log_prob(x[:, 4].long())
    expected[:, 5] = Categorical(p[3]).log_prob(x[:, 5].long())
    torch.testing.assert_close(law.log_cells(x), expected)
    torch.testing.assert_close(law.log_prob(x), expected.sum(1))
    missing = torch.rand(R, 6, generator=generator(2)) < 0.5
    seen = law.log_prob(torch.where(missing, math.nan, x), missing)
    torch.testing.assert_close(seen, expected.masked_fill(missing, 0.0).sum(1))
    parameters = [numbers, *([thresholds] if shared else [])]
    for got, right in zip(
        torch.autograd.grad(seen.sum(), parameters),
        torch.autograd.grad(expected.masked_fill(missing, 0.0).sum(), parameters),
        strict=True,
    ):
        torch.testing.assert_close(got, right)


@pytest.mark.parametrize("shared", [True, False])
def test_entropies_expectations_and_centres(shared: bool) -> None:
    law, numbers, thresholds, normal = made(shared)
    other, *_ = made(shared, seed=20)
    p = probabilities(numbers, thresholds, shared)
    entropies = law.entropies()
    torch.testing.assert_close(entropies[:, [0, 3]], Normal(normal.mean, normal.scale).entropy())
    for place, column in enumerate((1, 2, 4, 5)):
        torch.testing.assert_close(entropies[:, column], Categorical(p[place]).entropy())
        assert torch.equal(law.centre()[:, column], p[place].argmax(1).double())
        each = torch.stack(
            [other.log_cells(torch.full((R, 6), float(level)).double())[:, column] for level in range(LEVELS[column])],
            1,
        )
        torch.testing.assert_close(other.expected_log_levels(law)[:, place], (p[place] * each).sum(1))
    gradients = torch.autograd.grad(entropies.sum() + other.expected_log_levels(law).sum(), numbers)
    assert bool(torch.isfinite(gradients[0]).all())  # levels that a narrower dimension has not
    assert torch.equal(law.centre()[:, [0, 3]], normal.mean)


def test_draws_have_the_probabilities_and_bounds_truncate_them() -> None:
    law, numbers, thresholds, normal = made(True)
    p = [q[0].detach() for q in probabilities(numbers, thresholds, True)]
    noise = normals(60_000, R, 6, seed=3)
    law = MixedCells(normal.over(noise[..., :2]), law.levels, law.places)
    with torch.no_grad():
        draws = law.draw(noise)[:, 0]
        low = torch.tensor([-0.5, 1, 0, -math.inf, 1, 0], dtype=torch.float64)
        high = torch.tensor([0.5, 2, 1, math.inf, 2, 4], dtype=torch.float64)
        wanted = torch.ones(1, R, 6, dtype=torch.bool).expand(60_000, -1, -1)
        uniform = torch.rand(60_000, R, 6, generator=generator(8), dtype=torch.float64)
        inside = law.draw_inside(noise, lambda: uniform, low, high, wanted)[:, 0]
        mass = law.log_mass(low, high)[0, 0]
    assert bool(((inside >= low) & (inside <= high)).all())
    for place, column in enumerate((1, 2, 4, 5)):
        share = torch.bincount(draws[:, column].long(), minlength=LEVELS[column]) / 60_000
        assert torch.allclose(share.double(), p[place], atol=0.009)  # 4.4 standard errors
        levels = torch.arange(LEVELS[column])
        allowed = p[place] * ((levels >= low[column]) & (levels <= high[column]))
        share = torch.bincount(inside[:, column].long(), minlength=LEVELS[column]) / 60_000
        assert torch.allclose(share.double(), allowed / allowed.sum(), atol=0.009)
        torch.testing.assert_close(mass[column], allowed.sum().log())
    assert mass[2] == 0.0 and mass[5] == 0.0
    first = Normal(normal.mean[0, 0], normal.scale[0, 0])
    torch.testing.assert_close(mass[0], (first.cdf(high[0]) - first.cdf(low[0])).log())


def test_rows_of_two_laws() -> None:
    one, two = made(True)[0], made(True, seed=40)[0]
    condition, x = torch.arange(R) % 2 == 0, rows()
    chosen = one.where(condition, two).log_prob(x)
    torch.testing.assert_close(chosen, torch.where(condition, one.log_prob(x), two.log_prob(x)))


@pytest.mark.parametrize("shared", [True, False])
def test_every_level_starts_with_its_frequency(shared: bool) -> None:
    x, N = rows(), 4000
    cells = [
        torch.multinomial(torch.arange(1.0, L + 1) if L else torch.ones(1), N, True, generator=generator(i))
        for i, L in enumerate(LEVELS)
    ]
    x = torch.stack(cells, 1).double()
    kinds = CellKinds(LEVELS, ORDERED, shared=shared)
    numbers, thresholds = kinds.at_frequencies(x)
    assert len(numbers) == kinds.numbers and len(thresholds) == kinds.thresholds
    normal = DiagonalNormal(torch.zeros(2).double(), torch.zeros(2).double())
    law = cast(MixedCells, kinds.law(normal, numbers, thresholds))
    for place, column in enumerate((1, 2, 4, 5)):
        share = (torch.bincount(x[:, column].long()).double() + 0.5) / (N + 0.5 * LEVELS[column])
        torch.testing.assert_close(law.levels.log_probs[place, : LEVELS[column]].exp(), share)


@pytest.mark.parametrize("place", [-60.0, 0.0, 60.0])
def test_ordered_levels_far_out_are_scored_without_cancellation(place: float) -> None:
    """Against the differences of distribution functions in the tail where they are exact."""
    steps = torch.tensor([[-1.0, 0.3, -2.0]], dtype=torch.float64)
    got = threshold_log_probs(torch.tensor([place], dtype=torch.float64), steps, torch.tensor([[4]]))[0]
    at = torch.cat([steps[0, :1], torch.nn.functional.softplus(steps[0, 1:])]).cumsum(0) - place
    sign = -1.0 if place < 0 else 1.0  # in the upper tail the survival function is what is small
    tail = torch.cat([torch.zeros(1).double(), torch.sigmoid(sign * at), torch.zeros(1).double()])
    tail[3 + 1 if sign > 0 else 0] = 1.0
    expected = (tail.diff() * sign).log()
    torch.testing.assert_close(got, expected, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(got.logsumexp(0), torch.zeros(()).double(), rtol=0, atol=1e-12)


def test_a_row_of_levels_alone_and_one_of_numbers_alone() -> None:
    kinds = CellKinds((2, 3))
    nothing = torch.zeros(R, 0, dtype=torch.float64)
    law = kinds.law(DiagonalNormal(nothing, nothing), normals(R, kinds.numbers))
    x = torch.tensor([[1.0, 2.0]], dtype=torch.float64).expand(R, -1)
    torch.testing.assert_close(law.log_prob(x), law.log_cells(x).sum(1))
    assert law.draw(normals(R, 2)).shape == (R, 2) == law.entropies().shape
    plain = CellKinds((0, 0))
    normal = DiagonalNormal(normals(R, 2), normals(R, 2))
    assert plain.plain and plain.law(normal, nothing) is normal


def test_probabilities_that_are_no_numbers_give_no_level() -> None:
    kinds = CellKinds((2, 3))
    nothing = torch.zeros(1, 0, dtype=torch.float64)
    law = kinds.law(DiagonalNormal(nothing, nothing), torch.full((1, kinds.numbers), math.nan, dtype=torch.float64))
    free = torch.full((2,), math.inf, dtype=torch.float64)
    assert bool(law.draw(normals(1, 2)).isnan().all())
    wanted = torch.ones(1, 2, dtype=torch.bool)
    assert bool(law.draw_inside(normals(1, 2), lambda: normals(1, 2), -free, free, wanted).isnan().all())
