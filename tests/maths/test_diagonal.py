"""Diagonal normals against torch.distributions, and the gradients that are written by hand."""

import math

import pytest
import torch
from torch.distributions import Normal

from vgi_cli.maths.diagonal import DiagonalNormal, log_sum_scale

SHAPES = [((3, 4), (3, 4), (3, 4)), ((3, 4), (4,), (4,)), ((2, 1, 4), (3, 4), (4,)), ((4,), (5, 3, 4), (1,))]


def parts(shapes, seed=0):
    """value, mean and log_scale, float64, with gradients."""
    g = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=g, dtype=torch.float64).requires_grad_(True) for shape in shapes]


@pytest.mark.parametrize("shapes", SHAPES)
def test_log_densities_and_gradients_are_those_of_torch(shapes):
    value, mean, log_scale = parts(shapes)
    got = DiagonalNormal(mean, log_scale).log_prob(value)
    width = torch.broadcast_shapes(*shapes)[-1]
    law = Normal(*torch.broadcast_tensors(mean, log_scale.exp()))
    want = law.log_prob(value).sum(-1) if width == law.mean.shape[-1] else None
    assert want is not None and got.shape == want.shape
    torch.testing.assert_close(got, want)
    weight = torch.randn(got.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    for a, b in zip(
        torch.autograd.grad((weight * got).sum(), [value, mean, log_scale]),
        torch.autograd.grad((weight * want).sum(), [value, mean, log_scale]),
        strict=True,
    ):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("laws", [(6, 4), (3, 6, 4)])
def test_missing_cells_enter_neither_value_nor_gradient(laws):
    value, mean, log_scale = parts([(6, 4), laws, (4,)])
    missing = torch.rand(6, 4, generator=torch.Generator().manual_seed(2)) < 0.5
    holes = value.detach().masked_fill(missing, torch.nan).requires_grad_(True)
    got = DiagonalNormal(mean, log_scale).log_prob(holes, missing)
    cells = Normal(mean, log_scale.exp()).log_prob(value)
    torch.testing.assert_close(got, cells.masked_fill(missing, 0.0).sum(-1))
    for a, b in zip(
        torch.autograd.grad(got.sum(), [mean, log_scale]),
        torch.autograd.grad(cells.masked_fill(missing, 0.0).sum(), [mean, log_scale]),
        strict=True,
    ):
        torch.testing.assert_close(a, b)
    again = DiagonalNormal(mean, log_scale).log_prob(holes, missing)
    of_holes = torch.autograd.grad(again.sum(), holes)[0]
    of_cells = torch.autograd.grad(Normal(mean, log_scale.exp()).log_prob(value).sum(), value)[0]
    torch.testing.assert_close(of_holes, of_cells.masked_fill(missing, 0.0))


@pytest.mark.parametrize("keep", [False, True])
def test_gradients_by_finite_differences(keep):
    value, mean, log_scale = parts([(3, 2), (3, 2), (3, 2)])
    missing = torch.tensor([[True, False], [False, False], [False, True]]) if keep else None
    assert torch.autograd.gradcheck(
        lambda *a: DiagonalNormal(a[1], a[2]).log_prob(a[0], missing), (value, mean, log_scale)
    )
    assert torch.autograd.gradcheck(lambda a: log_sum_scale(a, 1e-3), (mean,))


def test_the_log_scale_over_a_floor_at_both_ends():
    log_variance = torch.tensor([-300.0, -7.0, 0.0, 80.0], dtype=torch.float64, requires_grad=True)
    got = log_sum_scale(log_variance, 1e-3)
    floor = log_variance.new_full((), math.log(1e-3))
    want = 0.5 * torch.logaddexp(log_variance, floor)
    torch.testing.assert_close(got, want)
    for a, b in zip(*(torch.autograd.grad(out.sum(), log_variance) for out in (got, want)), strict=True):
        torch.testing.assert_close(a, b)
    assert torch.equal(log_sum_scale(log_variance, 0.0), 0.5 * log_variance)
