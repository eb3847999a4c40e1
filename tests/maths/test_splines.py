"""Splines against zuko, automatic differentiation and their own inverse."""

from __future__ import annotations

import math

import pytest
import torch
import zuko
from torch import Tensor

from tests.selection import covering
from vgi_cli.maths.splines import packed_rational_quadratic

BINS = 6
BOUND = 2.5


def logits(*leading: int, scale: float = 1.5, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    sizes = (BINS, BINS, BINS - 1)
    w, h, d = (scale * torch.randn(*leading, n, generator=generator, dtype=torch.float64) for n in sizes)
    return w, h, d


def rational_quadratic(x: Tensor, *logits: Tensor, inverse: bool = False) -> tuple[Tensor, Tensor]:
    """The spline with its parameters apart, [..., bins] of widths and heights, [..., bins - 1] of slopes."""
    return packed_rational_quadratic(x, torch.cat(logits, -1).movedim(-1, 0), bound=BOUND, inverse=inverse)


def points(*shape: int, seed: int = 1) -> Tensor:
    """Some points lie outside [-BOUND, BOUND]."""
    generator = torch.Generator().manual_seed(seed)
    return 2 * torch.randn(*shape, generator=generator, dtype=torch.float64)


class FixedKnots(zuko.transforms.MonotonicRQSTransform):
    """zuko's evaluation on knots that are given: its own squashing of the logits differs."""

    def __init__(self, horizontal: Tensor, vertical: Tensor, derivatives: Tensor) -> None:
        torch.distributions.Transform.__init__(self)
        self.horizontal, self.vertical, self.derivatives = horizontal, vertical, derivatives


def oracle(w: Tensor, h: Tensor, d: Tensor) -> FixedKnots:
    def knots(logit: Tensor) -> Tensor:
        sizes = 2 * BOUND * (1e-3 + (1 - 1e-3 * BINS) * logit.softmax(-1))
        return torch.nn.functional.pad(sizes.cumsum(-1), (1, 0)) - BOUND

    slopes = 1e-3 + torch.nn.functional.softplus(d + math.log(math.expm1(1 - 1e-3)))
    return FixedKnots(knots(w), knots(h), torch.nn.functional.pad(slopes, (1, 1), value=1.0))


@pytest.mark.parametrize("inverse", [False, True])
def test_equals_zuko(inverse: bool) -> None:
    x, parameters = points(500, 3), logits(500, 3)
    transform = oracle(*parameters)
    expected, expected_log = (transform.inv if inverse else transform).call_and_ladj(x)
    y, log_slope = rational_quadratic(x, *parameters, inverse=inverse)
    torch.testing.assert_close(y, expected, atol=1e-12, rtol=1e-12)
    torch.testing.assert_close(log_slope, expected_log, atol=1e-10, rtol=1e-10)
    assert bool((x.abs() > BOUND).any()) and bool((y != x).any())


@pytest.mark.parametrize("inverse", [False, True])
def test_log_slope_is_the_derivative(inverse: bool) -> None:
    x = points(200).requires_grad_()
    y, log_slope = rational_quadratic(x, *logits(200), inverse=inverse)
    (slope,) = torch.autograd.grad(y.sum(), x)
    torch.testing.assert_close(log_slope, slope.log(), atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize("inverse", [False, True])
def test_inverse_of_the_other_direction(inverse: bool) -> None:
    x, parameters = points(1000, 2), logits(1000, 2)
    y, log_slope = rational_quadratic(x, *parameters, inverse=inverse)
    back, back_log = rational_quadratic(y, *parameters, inverse=not inverse)
    torch.testing.assert_close(back, x, atol=1e-9, rtol=0)
    torch.testing.assert_close(back_log, -log_slope, atol=1e-8, rtol=0)


@pytest.mark.parametrize("inverse", [False, True])
def test_hand_written_gradients(inverse: bool) -> None:
    x = points(5, 3).requires_grad_()
    parameters = [p.requires_grad_() for p in logits(5, 3)]
    assert torch.autograd.gradcheck(lambda *a: rational_quadratic(*a, inverse=inverse), (x, *parameters))


@covering(
    pytest.mark.parametrize("inverse", [False, True]), pytest.mark.parametrize("trailing", [(8, 1), (1, 3), (1, 1)])
)
def test_hand_written_gradients_of_shared_parameters(inverse: bool, trailing: tuple[int, int]) -> None:
    x = points(8, 3).requires_grad_()
    packed = points(3 * BINS - 1, *trailing, seed=5).requires_grad_()
    assert torch.autograd.gradcheck(
        lambda x, packed: packed_rational_quadratic(x, packed, bound=BOUND, inverse=inverse), (x, packed)
    )


def test_zero_parameters_are_the_identity() -> None:
    x = points(100)
    y, log_slope = rational_quadratic(x, *logits(100, scale=0.0))
    torch.testing.assert_close(y, x, atol=1e-14, rtol=1e-14)
    torch.testing.assert_close(log_slope, torch.zeros_like(x), atol=1e-13, rtol=0)


@pytest.mark.parametrize("inverse", [False, True])
def test_tails_are_the_identity_and_pass_no_gradient_to_the_parameters(inverse: bool) -> None:
    x = torch.tensor([-50.0, -BOUND - 1e-9, BOUND + 1e-9, 7.0], dtype=torch.float64, requires_grad=True)
    parameters = [p.requires_grad_() for p in logits(4)]
    y, log_slope = rational_quadratic(x, *parameters, inverse=inverse)
    torch.testing.assert_close(y, x, atol=1e-14, rtol=1e-14)
    assert bool((log_slope == 0).all())
    grad_x, *grads = torch.autograd.grad((y.square() + log_slope).sum(), (x, *parameters))
    torch.testing.assert_close(grad_x, 2 * x, atol=1e-13, rtol=0)
    assert all(bool((g == 0).all()) for g in grads)


def test_increases_and_is_continuous_across_knots_and_ends() -> None:
    x = torch.linspace(-BOUND - 0.1, BOUND + 0.1, 200_001, dtype=torch.float64)
    y, log_slope = rational_quadratic(x, *logits(1))
    rise = y.diff() / x.diff()
    assert bool((rise > 0).all())
    torch.testing.assert_close(rise.log(), (log_slope[1:] + log_slope[:-1]) / 2, atol=1e-2, rtol=0)


@pytest.mark.parametrize("scale", [30.0, 1e3, 1e6, 1e20])
@pytest.mark.parametrize("inverse", [False, True])
def test_float32_stays_finite_at_extreme_parameters(scale: float, inverse: bool) -> None:
    parameters = [(scale * p.sign() * p.abs().clamp(max=1)).float().requires_grad_() for p in logits(5000)]
    x = torch.linspace(-BOUND, BOUND, 5000).requires_grad_()
    y, log_slope = rational_quadratic(x, *parameters, inverse=inverse)
    assert bool(torch.isfinite(y).all()) and bool(torch.isfinite(log_slope).all())
    assert float(y.detach().abs().max()) <= BOUND * (1 + 1e-5)
    gradients = torch.autograd.grad(y.sum() + log_slope.sum(), (x, *parameters))
    assert all(bool(torch.isfinite(g).all()) for g in gradients)


def test_a_missing_number_stays_one() -> None:
    """A NaN that comes in must come out: a diverged fit has to be noticed."""
    y, _ = rational_quadratic(torch.tensor([math.nan, 0.5], dtype=torch.float64), *logits(2))
    assert math.isnan(float(y[0])) and math.isfinite(float(y[1]))


def test_second_derivatives_are_refused() -> None:
    x = points(4).requires_grad_()
    y, log_slope = rational_quadratic(x, *logits(4))
    with pytest.raises(NotImplementedError, match="first order only, got create_graph=True"):
        torch.autograd.grad((y + log_slope).sum(), x, create_graph=True)


def test_shapes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match=r"expected parameters \[3 \* bins - 1, ...\]"):
        packed_rational_quadratic(points(4), points(7, 4), bound=BOUND)
