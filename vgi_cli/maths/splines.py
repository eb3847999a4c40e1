"""Monotone rational-quadratic splines with linear tails (Durkan, Bekasov, Murray and Papamakarios 2019, section 3).

On [-bound, bound] the map is a rational quadratic in each of `bins` bins, with slope 1 at both ends; outside it is the
identity. Nothing branches on data: every element takes the same path and masks of zeros and ones pick, so that the code
can be captured or compiled.

This is the innermost loop of flows and of spline conditionals, hence two decisions that measurements forced:
derivatives are written out by hand (automatic differentiation needs more than twice the time, in temporaries with one
number per bin), and bins are the *first* dimension inside, with masks kept as floats that multiply, because reductions
over a short last dimension, `softmax` above all, and `torch.where` run many times slower on a CPU.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F


def rational_quadratic(
    x: Tensor,
    widths: Tensor,
    heights: Tensor,
    derivatives: Tensor,
    *,
    bound: float,
    inverse: bool = False,
    min_width: float = 1e-3,
    min_height: float = 1e-3,
    min_derivative: float = 1e-3,
) -> tuple[Tensor, Tensor]:
    """Map x through a monotone spline (or its inverse), element by element.

    x            [...]
    widths       [..., bins] logits of the bin widths (softmax inside); heights alike; bins >= 2
    derivatives  [..., bins - 1] slopes at the inner knots before softplus, shifted so that 0 means slope 1
    bound        the spline lives on [-bound, bound]; outside it is the identity
    min_width, min_height   smallest width and height of a bin, as a share of the whole interval
    min_derivative          smallest slope at a knot

    The leading shapes broadcast. Any strides work; fastest are parameters that lie in memory with the bins outermost,
    passed as `params.movedim(0, -1)`.

    Returns y [...] and log|dy/dx| [...] of the map that was applied (for the inverse: of the inverse). All zeros give
    the identity. Derivatives of first order only. The inverse is guarded against the rounding that makes a discriminant
    negative, so finite arguments give finite results in float32 too.
    """
    bins = widths.shape[-1]
    if bins < 2 or heights.shape[-1] != bins or derivatives.shape[-1] != bins - 1:
        raise ValueError(
            "expected widths and heights [..., bins] and derivatives [..., bins - 1] with bins >= 2, got "
            f"{tuple(widths.shape)}, {tuple(heights.shape)} and {tuple(derivatives.shape)}"
        )
    if max(min_width, min_height) * bins >= 1:
        raise ValueError(f"{bins} bins of at least {max(min_width, min_height)} of the interval do not fit into it")
    leading = torch.broadcast_shapes(x.shape, widths.shape[:-1], heights.shape[:-1], derivatives.shape[:-1])
    settings = _Settings(bins, bound, inverse, min_width, min_height, min_derivative)
    parameters = (_bins_first(p, len(leading)) for p in (widths, heights, derivatives))
    y, log_slope = _Spline.apply(x.expand(leading), *parameters, settings)
    return y, log_slope


class _Settings(NamedTuple):
    """What `rational_quadratic` was called with, beside tensors."""

    bins: int
    bound: float
    inverse: bool
    min_width: float
    min_height: float
    min_derivative: float

    def step_and_span(self, smallest: float) -> tuple[float, float]:
        """A share p of the softmax makes a bin of size step + span * p."""
        return 2 * self.bound * smallest, 2 * self.bound * (1 - self.bins * smallest)


class _Spline(torch.autograd.Function):
    """The spline with its hand-written first derivatives; parameters [bins, ...] with as many dimensions as x plus 1.

    `below` [bins - 1, ...] is 1 for the bins left of (below) the one that the element lies in, else 0.
    """

    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any, x: Tensor, widths: Tensor, heights: Tensor, derivatives: Tensor, settings: _Settings
    ) -> tuple[Tensor, Tensor]:
        bins, bound, inverse, min_width, min_height, min_derivative = settings
        step_w, span_w = settings.step_and_span(min_width)
        step_h, span_h = settings.step_and_span(min_height)
        share_w, share_h = _shares(widths), _shares(heights)

        inner = x.clamp(-bound, bound)
        if inverse:
            below = _bins_below((inner + bound) / span_h, share_h, step_h / span_h)
        else:
            below = _bins_below((inner + bound) / span_w, share_w, step_w / span_w)
        count = below.sum(0)
        own = count.long()[None]
        before_w, before_h = (below * share_w[:-1]).sum(0), (below * share_h[:-1]).sum(0)
        own_w, own_h = _pick(share_w, own), _pick(share_h, own)
        w, h = own_w * span_w + step_w, own_h * span_h + step_h
        x0 = before_w * span_w + count * step_w - bound
        y0 = before_h * span_h + count * step_h - bound

        # Slopes at the two ends: softplus of the two logits that are needed, not of all. The outer logits are 0.
        left, right = (own - 1).clamp(min=0), own.clamp(max=bins - 2)
        shift = math.log(math.expm1(1 - min_derivative))
        raw0 = _pick(derivatives, left) * below[0] + shift
        raw1 = _pick(derivatives, right) * (1 - below[-1]) + shift
        d0, d1 = F.softplus(raw0) + min_derivative, F.softplus(raw1) + min_derivative

        s = h / w
        z = _solve((inner - y0) / h, s, d0, d1) if inverse else ((inner - x0) / w).clamp(0, 1)
        ratio, log_slope = _evaluate(z, s, d0, d1)
        inside = (bound - x.abs()).ge_(0)
        # Outside, the clamped argument maps to itself and the rest is added: the identity without a branch.
        y = (x0 + w * z if inverse else y0 + h * ratio) + (x - inner)
        log_slope = log_slope * (-inside if inverse else inside)

        ctx.settings = settings
        ctx.shapes = widths.shape, heights.shape, derivatives.shape
        elements = (z, w, h, s, d0, d1, raw0, raw1, before_w, before_h, own_w, own_h, inside)
        ctx.save_for_backward(*elements, share_w, share_h, below, own, left, right)
        return y, log_slope

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_y: Tensor, grad_log: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        z, w, h, s, d0, d1, raw0, raw1, before_w, before_h, own_w, own_h, inside = ctx.saved_tensors[:13]
        share_w, share_h, below, own, left, right = ctx.saved_tensors[13:]
        _, span_w = ctx.settings.step_and_span(ctx.settings.min_width)
        _, span_h = ctx.settings.step_and_span(ctx.settings.min_height)
        widths_shape, heights_shape, derivatives_shape = ctx.shapes
        grad_tail = grad_y - grad_y * inside
        grad_y = grad_y * inside
        grad_log = grad_log * inside

        # With c = 1 - z, t = z c, den = s + (d0 + d1 - 2 s) t, top = d1 z^2 + 2 s t + d0 c^2, r = (s z^2 + d0 t) / den:
        # y = y0 + h r and slope = s^2 top / den^2. Below, `den` and `top` are the reciprocals.
        c = 1 - z
        t, zz, cc = z * c, z * z, c * c
        delta = d0 + d1 - 2 * s
        den = (s + delta * t).reciprocal_()
        full_top = d1 * zz + 2 * (s * t) + d0 * cc
        top = full_top.reciprocal()
        r = (s * zz + d0 * t) * den
        skew = c - z
        log_z = 2 * ((d1 * z + s * skew - d0 * c) * top - delta * skew * den)
        rise = w * full_top * (s * den).square_()
        if ctx.settings.inverse:
            # x(y, p) solves f(x, p) = y, hence dx/dy = 1 / f' and dx/dp = -(df/dp) / f'; the log is -log f'(x, p).
            grad_log = -grad_log
            grad_x = (grad_y * w + grad_log * log_z) / rise
            grad_y = -grad_x
            grad_z = grad_y * rise + grad_log * log_z
        else:
            grad_z = grad_y * rise + grad_log * log_z
            grad_x = grad_z / w
        grad_r = grad_y * h * den
        u = 1 - 2 * t
        log_t = 2 * t * den
        grad_s = grad_r * (zz - r * u) + 2 * grad_log * (s.reciprocal() + t * top - u * den)
        grad_0 = grad_r * t * (1 - r) + grad_log * (cc * top - log_t)
        grad_1 = grad_log * (zz * top - log_t) - grad_r * t * r
        grad_own_w = -(grad_s * s + grad_z * z) / w
        grad_own_h = grad_y * r + grad_s / w

        grad_slopes = z.new_zeros(below.shape)
        grad_slopes.scatter_add_(0, left, (grad_0 * torch.sigmoid(raw0) * below[0])[None])
        grad_slopes.scatter_add_(0, right, (grad_1 * torch.sigmoid(raw1) * (1 - below[-1]))[None])
        grad_widths = _to_logits(share_w, below, own, before_w, own_w, -span_w * (grad_z / w), span_w * grad_own_w)
        grad_heights = _to_logits(share_h, below, own, before_h, own_h, span_h * grad_y, span_h * grad_own_h)
        return (
            grad_x + grad_tail,
            grad_widths.sum_to_size(widths_shape),
            grad_heights.sum_to_size(heights_shape),
            grad_slopes.sum_to_size(derivatives_shape),
            None,
        )


def _bins_first(parameter: Tensor, leading: int) -> Tensor:
    """[..., bins] -> [bins, ...] with `leading` dimensions after the first, so that it broadcasts with x (a view)."""
    missing = leading + 1 - parameter.ndim
    return parameter.movedim(-1, 0)[(slice(None),) + (None,) * missing]


def _shares(logits: Tensor) -> Tensor:
    """Softmax over the first dimension."""
    shares = (logits - logits.amax(0)).exp_()
    return shares.div_(shares.sum(0))


def _bins_below(position: Tensor, shares: Tensor, step: float) -> Tensor:
    """[bins - 1, ...]: 1.0 where the element is at or beyond the right (upper) end of the bin, else 0.0.

    position [...] from the left end of the spline, in units in which bin i has size step + shares[i].
    """
    ends = shares[:-1].clone(memory_format=torch.preserve_format)
    for i in range(1, ends.shape[0]):
        ends[i] += ends[i - 1]
    offsets = step * torch.arange(1, ends.shape[0] + 1, dtype=ends.dtype, device=ends.device)
    return (position - ends).ge_(offsets.view(-1, *[1] * position.ndim))


def _pick(values: Tensor, index: Tensor) -> Tensor:
    """values [bins, ...] at index [1, ...] -> [...]; the trailing shape of values may broadcast to that of index."""
    return values.expand(-1, *index.shape[1:]).gather(0, index)[0]


def _evaluate(z: Tensor, s: Tensor, d0: Tensor, d1: Tensor) -> tuple[Tensor, Tensor]:
    """Share of the bin's height that lies below position z in [0, 1], and the log slope there (equations 4 and 5).

    s is the bin's mean slope, d0 and d1 are the slopes at its ends.
    """
    c = 1 - z
    t, zz = z * c, z * z
    den = (s + (d0 + d1 - 2 * s) * t).reciprocal_()
    ratio = (s * zz + d0 * t) * den
    top = d1 * zz + 2 * (s * t) + d0 * (c * c)
    return ratio, top.mul_((s * den).square_()).log_()


def _solve(ratio: Tensor, s: Tensor, d0: Tensor, d1: Tensor) -> Tensor:
    """Position z in the bin at which the map has risen by `ratio` of the bin's height (equations 6 to 8).

    The coefficients are divided by s + d0 + d1, so that their squares cannot overflow.
    """
    ratio = ratio.clamp(0, 1)
    scale = (s + d0 + d1).reciprocal_()
    s, d0, d1 = s * scale, d0 * scale, d1 * scale
    rise = ratio * (d0 + d1 - 2 * s)
    a, b, c = s - d0 + rise, d0 - rise, s * ratio
    root = (b * b + 4 * a * c).clamp_(min=0).sqrt_()
    # b + root = 0 only where c = 0 too (rounding at ratio 0): the position is 0 there.
    return (2 * c / (b + root).clamp_(min=torch.finfo(b.dtype).tiny)).clamp_(0, 1)


def _to_logits(
    shares: Tensor, below: Tensor, own: Tensor, before: Tensor, share: Tensor, grad_before: Tensor, grad_own: Tensor
) -> Tensor:
    """Gradient [bins, ...] in the logits of the shares, by d share_i / d logit_j = share_i (1[i = j] - share_j).

    The loss depends on the sum of the shares below, `before`, with gradient `grad_before`, and on the element's own
    share, `share` = shares[own], with gradient `grad_own`.
    """
    mean = grad_before * before + grad_own * share
    grad = torch.empty_like(shares.expand(-1, *mean.shape))
    torch.mul(below, grad_before, out=grad[:-1])
    grad[-1] = 0
    grad.sub_(mean).mul_(shares)
    return grad.scatter_add_(0, own, (grad_own * share)[None])
