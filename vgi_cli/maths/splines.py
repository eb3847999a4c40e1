"""Monotone rational-quadratic splines with linear tails (Durkan, Bekasov, Murray, Papamakarios 2019, section 3).

On [-bound, bound] the map is a rational quadratic in each of `bins` bins, with slope 1 at both ends; outside it is the
identity. There is no branch on data: every element takes the same path and `torch.where` picks, so that the code can be
captured or compiled.

This is the innermost loop of flows and of spline conditionals. The derivatives are written out by hand: under plain
automatic differentiation the backward pass takes more than twice the time, almost all of it in bin-sized temporaries.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F  # noqa: N812


class _Bin(NamedTuple):
    """The rational quadratic of the bin that an element lies in; every field has the element's shape.

    z in [0, 1] is the position in the bin, w and h its width and height, s = h / w, d0 and d1 the slopes at its ends.
    """

    z: Tensor
    w: Tensor
    h: Tensor
    s: Tensor
    d0: Tensor
    d1: Tensor


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

    The leading shapes broadcast. Returns y [...] and log|dy/dx| [...] of the map that was applied (for the inverse:
    of the inverse). All zeros give the identity. Derivatives of first order only. The inverse is guarded against the
    rounding that makes a discriminant negative, so finite arguments give finite results in float32 too.
    """
    bins = widths.shape[-1]
    if bins < 2 or heights.shape[-1] != bins or derivatives.shape[-1] != bins - 1:
        raise ValueError(
            "expected widths and heights [..., bins] and derivatives [..., bins - 1] with bins >= 2, got "
            f"{tuple(widths.shape)}, {tuple(heights.shape)} and {tuple(derivatives.shape)}"
        )
    if max(min_width, min_height) * bins >= 1:
        raise ValueError(f"{bins} bins of at least {max(min_width, min_height)} of the interval do not fit into it")
    x = x.expand(torch.broadcast_shapes(x.shape, widths.shape[:-1]))
    y, log_slope = _Spline.apply(x, widths, heights, derivatives, bound, inverse, min_width, min_height, min_derivative)
    return y, log_slope


class _Spline(torch.autograd.Function):
    """The spline with its hand-written first derivatives."""

    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any,
        x: Tensor,
        widths: Tensor,
        heights: Tensor,
        derivatives: Tensor,
        bound: float,
        inverse: bool,
        min_width: float,
        min_height: float,
        min_derivative: float,
    ) -> tuple[Tensor, Tensor]:
        bins = widths.shape[-1]
        span_w = 2 * bound * (1 - bins * min_width)
        span_h = 2 * bound * (1 - bins * min_height)
        soft_w, soft_h = F.softmax(widths, -1), F.softmax(heights, -1)
        all_w = soft_w * span_w + 2 * bound * min_width
        all_h = soft_h * span_h + 2 * bound * min_height
        right_x, top_y = all_w.cumsum(-1) - bound, all_h.cumsum(-1) - bound

        inside = x.abs() <= bound
        inner = x.clamp(-bound, bound)
        knots = top_y if inverse else right_x
        k = (inner[..., None] >= knots[..., :-1]).sum(-1, keepdim=True)

        w, h = _at(all_w, k), _at(all_h, k)
        x0, y0 = _at(right_x, k) - w, _at(top_y, k) - h
        # Slopes of the two ends: softplus of the two logits that are needed, not of all; the outer slopes are 1.
        shift = math.log(math.expm1(1 - min_derivative))
        raw0 = _at(derivatives, (k - 1).clamp(min=0)) + shift
        raw1 = _at(derivatives, k.clamp(max=bins - 2)) + shift
        first, last = k[..., 0] == 0, k[..., 0] == bins - 1
        d0 = torch.where(first, 1.0, F.softplus(raw0) + min_derivative)
        d1 = torch.where(last, 1.0, F.softplus(raw1) + min_derivative)

        s = h / w
        if inverse:
            z = _solve((inner - y0) / h, s, d0, d1)
        else:
            z = ((inner - x0) / w).clamp(0, 1)
        at = _Bin(z, w, h, s, d0, d1)
        ratio, log_slope = _evaluate(at)
        y = x0 + w * z if inverse else y0 + h * ratio
        y = torch.where(inside, y, x)
        log_slope = torch.where(inside, -log_slope if inverse else log_slope, 0.0)
        ctx.save_for_backward(*at, inside, k, soft_w, soft_h, raw0, raw1, first, last)
        ctx.settings = (inverse, span_w, span_h, derivatives.shape)
        return y, log_slope

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_y: Tensor, grad_log: Tensor) -> tuple[Tensor | None, ...]:  # type: ignore[override]
        z, w, h, s, d0, d1, inside, k, soft_w, soft_h, raw0, raw1, first, last = ctx.saved_tensors
        inverse, span_w, span_h, derivatives_shape = ctx.settings
        outside_grad = torch.where(inside, 0.0, grad_y)
        grad_y = torch.where(inside, grad_y, 0.0)
        grad_log = torch.where(inside, grad_log, 0.0)

        # With t = z (1 - z), den = s + (d0 + d1 - 2 s) t, top = d1 z^2 + 2 s t + d0 (1 - z)^2 and
        # r = (s z^2 + d0 t) / den:   y = y0 + h r,   slope = s^2 top / den^2.
        c = 1 - z
        t, zz, cc = z * c, z * z, c * c
        delta = d0 + d1 - 2 * s
        den = torch.reciprocal(s + delta * t)
        top = torch.reciprocal(d1 * zz + 2 * s * t + d0 * cc)
        r = (s * zz + d0 * t) * den
        u = 1 - 2 * t
        log_z = 2 * ((d1 * z + s * (c - z) - d0 * c) * top - delta * (c - z) * den)
        slope = s * s * den * den / top
        if inverse:
            # x(y, p) solves f(x, p) = y, hence dx/dy = 1 / f' and dx/dp = -(df/dp) / f'; the log is -log f'(x, p).
            grad_log = -grad_log
            grad_x = (grad_y + grad_log * log_z / w) / slope
            grad_y = -grad_x
            grad_z = grad_y * slope * w + grad_log * log_z
        else:
            grad_z = grad_y * slope * w + grad_log * log_z
            grad_x = grad_z / w
        grad_r = grad_y * h * den
        log_t = 2 * t * den
        grad_s = grad_r * (zz - r * u) + grad_log * 2 * (1 / s + t * top - u * den)
        grad_d0 = grad_r * t * (1 - r) + grad_log * (cc * top - log_t)
        grad_d1 = grad_log * (zz * top - log_t) - grad_r * t * r
        grad_x0 = -grad_z / w
        grad_w = -(grad_s * s + grad_z * z) / w
        grad_h = grad_y * r + grad_s / w
        grad_raw0 = torch.where(first, 0.0, grad_d0 * torch.sigmoid(raw0))
        grad_raw1 = torch.where(last, 0.0, grad_d1 * torch.sigmoid(raw1))
        knot = k.clamp(max=soft_w.shape[-1] - 2)
        grad_slopes = torch.zeros((*k.shape[:-1], soft_w.shape[-1] - 1), dtype=z.dtype, device=z.device)
        grad_slopes.scatter_(-1, (k - 1).clamp(min=0), grad_raw0[..., None])
        grad_slopes.scatter_add_(-1, knot, grad_raw1[..., None])
        return (
            grad_x + outside_grad,
            _to_logits(soft_w, k, grad_x0 * span_w, grad_w * span_w),
            _to_logits(soft_h, k, grad_y * span_h, grad_h * span_h),
            grad_slopes.sum_to_size(derivatives_shape),
            *[None] * 5,
        )


def _at(values: Tensor, k: Tensor) -> Tensor:
    """values [..., bins] at index k [..., 1] -> [...]; the leading shape of values may be a broadcast of k's."""
    return values.expand(*k.shape[:-1], values.shape[-1]).gather(-1, k).squeeze(-1)


def _evaluate(b: _Bin) -> tuple[Tensor, Tensor]:
    """The share of the bin's height below the point, and the log slope there (equations 4 and 5 of the paper)."""
    c = 1 - b.z
    t = b.z * c
    den = b.s + (b.d0 + b.d1 - 2 * b.s) * t
    ratio = (b.s * b.z * b.z + b.d0 * t) / den
    top = b.d1 * b.z * b.z + 2 * b.s * t + b.d0 * c * c
    return ratio, torch.log(top * (b.s / den).square())


def _solve(ratio: Tensor, s: Tensor, d0: Tensor, d1: Tensor) -> Tensor:
    """Position z in the bin where the map has risen by `ratio` of its height (equations 6 to 8 of the paper).

    The coefficients are divided by s + d0 + d1, so that their squares cannot overflow.
    """
    ratio = ratio.clamp(0, 1)
    scale = 1 / (s + d0 + d1)
    s, d0, d1 = s * scale, d0 * scale, d1 * scale
    rise = ratio * (d0 + d1 - 2 * s)
    a, b, c = s - d0 + rise, d0 - rise, -s * ratio
    root = (b * b - 4 * a * c).clamp(min=0).sqrt()
    return (2 * c / (-b - root)).clamp(0, 1)


def _to_logits(soft: Tensor, k: Tensor, before: Tensor, own: Tensor) -> Tensor:
    """Gradient in the logits when every share below bin k has gradient `before`, and share k itself `own`.

    soft [..., bins] are the shares; d soft_i / d logit_j = soft_i (1[i = j] - soft_j).
    """
    full = soft.expand(*k.shape[:-1], soft.shape[-1])
    bins = torch.arange(soft.shape[-1], device=soft.device)
    below = bins < k
    before, own = before[..., None], own[..., None]
    mean = before * (full * below).sum(-1, keepdim=True) + own * full.gather(-1, k)
    grad = torch.where(below, before - mean, -mean).scatter(-1, k, own - mean)
    return (grad * full).sum_to_size(soft.shape)
