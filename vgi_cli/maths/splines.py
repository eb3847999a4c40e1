"""Monotone rational-quadratic splines with linear tails (Durkan, Bekasov, Murray and Papamakarios 2019, section 3).

On [-bound, bound] the map is a rational quadratic in each of `bins` bins, with slope 1 at both ends; outside it is the
identity. Nothing branches on data: every element takes the same path and masks of zeros and ones pick, so that the code
can be captured or compiled.

This is the innermost loop of flows and of spline conditionals, hence two decisions that measurements forced:
derivatives are written out by hand (automatic differentiation needs more than twice the time, in temporaries with one
number per bin), and bins are the *first* dimension inside, with masks kept as floats that multiply, because reductions
over a short last dimension, `softmax` above all, and `torch.where` run many times slower on a CPU.

float32 numbers take the loops of `kernels.py` instead on a CPU, where numba is installed, and the kernels of
`gpu_kernels.py` on a GPU, where triton is: the same formulas, which are tested against those here.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from vgi_cli.maths import compiled


def packed_rational_quadratic(
    x: Tensor, parameters: Tensor, *, bound: float, inverse: bool = False
) -> tuple[Tensor, Tensor]:
    """Map x through a monotone spline (or its inverse), element by element.

    x           [...]
    parameters  [3 * bins - 1, ...] with bins >= 2: logits of the widths of the bins (softmax inside), of their heights,
                then slopes at the inner knots before softplus, shifted so that 0 means slope 1; trailing shape that of
                x, or 1s
    bound       the spline lives on [-bound, bound]; outside it is the identity

    Returns y [...] and log|dy/dx| [...] of the map that was applied (for the inverse: of the inverse). All zeros give
    the identity. Derivatives of first order only. The inverse is guarded against the rounding that makes a discriminant
    negative, so finite arguments give finite results in float32 too.
    """
    count = parameters.shape[0]
    if count < 5 or count % 3 != 2 or parameters.ndim != x.ndim + 1:
        raise ValueError(
            f"expected parameters [3 * bins - 1, ...] with bins >= 2 and {x.ndim} dimensions after the first, "
            f"got {tuple(parameters.shape)}"
        )
    if compiled.is_for(x, parameters):
        return compiled.rational_quadratic(x, parameters, bound=bound, inverse=inverse)
    y, log_slope = _Spline.apply(x, parameters, _Settings((count + 1) // 3, bound, inverse))
    return y, log_slope


class _Settings(NamedTuple):
    """Numbers that the spline is called with. As bare arguments, or as constants of the file, torch.compile refuses
    them."""

    bins: int
    bound: float
    inverse: bool


class _Spline(torch.autograd.Function):
    """The spline with its hand-written first derivatives.

    A share p of the softmax makes a bin of size step + span * p.
    `below` [bins - 1, ...] is 1 for the bins left of (below) the one that the element lies in, else 0.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, parameters: Tensor, settings: _Settings) -> tuple[Tensor, Tensor]:
        bins, bound, inverse = settings
        smallest = 1e-3  # width and height of a bin, as shares of the whole interval, and slope at a knot
        step, span = 2 * bound * smallest, 2 * bound * (1 - bins * smallest)
        widths, heights, slopes = parameters.split([bins, bins, bins - 1])
        share_w, share_h = _shares(widths), _shares(heights)

        inner = x.clamp(-bound, bound)
        below = _bins_below((inner + bound).div_(span), share_h if inverse else share_w, step / span)
        count = below.sum(0)
        own = count.long()[None]
        before_w, before_h = (below * share_w[:-1]).sum(0), (below * share_h[:-1]).sum(0)
        own_w, own_h = _pick(share_w, own), _pick(share_h, own)
        w, h = own_w * span + step, own_h * span + step
        start = count * step - bound
        x0, y0 = before_w * span + start, before_h * span + start

        # Slopes at the two ends: softplus of the two logits that are needed, not of all. The outer logits are 0.
        left, right = (own - 1).clamp_(min=0), own.clamp(max=bins - 2)
        shift = math.log(math.expm1(1 - smallest))
        raw0 = _pick(slopes, left).mul_(below[0]).add_(shift)
        raw1 = _pick(slopes, right).mul_(1 - below[-1]).add_(shift)
        d0, d1 = F.softplus(raw0).add_(smallest), F.softplus(raw1).add_(smallest)

        s = h / w
        z = _solve((inner - y0).div_(h), s, d0, d1) if inverse else (inner - x0).div_(w).clamp_(0, 1)
        ratio, log_slope = _evaluate(z, s, d0, d1)
        inside = (bound - x.abs()).ge_(0)
        # Outside, the clamped argument maps to itself and the rest is added: the identity without a branch.
        y = (x0.addcmul_(w, z) if inverse else y0.addcmul_(h, ratio)).add_(x - inner)
        log_slope = log_slope.mul_(-inside if inverse else inside)

        ctx.span, ctx.inverse, ctx.shape = span, inverse, parameters.shape
        elements = (z, w, h, s, d0, d1, raw0, raw1, before_w, before_h, own_w, own_h, inside)
        ctx.save_for_backward(*elements, share_w, share_h, below, own, left, right)
        return y, log_slope

    @staticmethod
    def backward(ctx: Any, grad_y: Tensor, grad_log: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():  # the caller asked for create_graph=True: refuse rather than give half of it
            raise NotImplementedError("splines have derivatives of first order only, got create_graph=True")
        z, w, h, s, d0, d1, raw0, raw1, before_w, before_h, own_w, own_h, inside = ctx.saved_tensors[:13]
        share_w, share_h, below, own, left, right = ctx.saved_tensors[13:]
        span, bins = ctx.span, len(share_w)
        grad_tail = grad_y - grad_y * inside
        grad_y = grad_y * inside
        grad_log = grad_log * inside

        # With c = 1 - z, t = z c, den = s + (d0 + d1 - 2 s) t, top = d1 z^2 + 2 s t + d0 c^2, r = (s z^2 + d0 t) / den:
        # y = y0 + h r and slope = s^2 top / den^2. Below, `den` and `top` are the reciprocals.
        c = 1 - z
        t, zz, cc = z * c, z * z, c * c
        delta = (d0 + d1).sub_(s, alpha=2)
        den = (delta * t).add_(s).reciprocal_()
        full_top = (d1 * zz).addcmul_(s, t, value=2).addcmul_(d0, cc)
        top = full_top.reciprocal()
        r = (s * zz).addcmul_(d0, t).mul_(den)
        skew = c - z
        log_z = (d1 * z).addcmul_(s, skew).sub_(d0 * c).mul_(top).sub_(delta.mul_(skew).mul_(den)).mul_(2)
        slope = s * den
        rise = full_top.mul_(w).mul_(slope).mul_(slope)
        log_z = log_z.mul_(grad_log)
        if ctx.inverse:
            # x(y, p) solves f(x, p) = y, hence dx/dy = 1 / f' and dx/dp = -(df/dp) / f'; the log is -log f'(x, p).
            grad_log, log_z = -grad_log, log_z.neg_()
            grad_x = (grad_y * w).add_(log_z).div_(rise)
            grad_y = -grad_x
            grad_z = rise.mul_(grad_y).add_(log_z)
        else:
            grad_z = rise.mul_(grad_y).add_(log_z)
            grad_x = grad_z / w
        grad_r = (grad_y * h).mul_(den)
        den_log = den * grad_log
        t2_log = t * den_log * 2
        top_log = top.mul_(grad_log)
        u = 1 - 2 * t
        log_s = (grad_log / s).addcmul_(t, top_log).sub_(den_log.mul_(u)).mul_(2)
        grad_s = (zz - r * u).mul_(grad_r).add_(log_s)
        grad_t = t.mul_(grad_r)
        grad_0 = cc.mul_(top_log).sub_(t2_log).addcmul_(grad_t, 1 - r)
        grad_1 = zz.mul_(top_log).sub_(t2_log).sub_(grad_t.mul_(r))
        grad_x0 = grad_z.div_(w)
        grad_own_w = (grad_x0 * z).addcmul_(grad_s, s / w).mul_(-span)
        grad_own_h = (grad_s / w).addcmul_(grad_y, r).mul_(span)

        gradient = z.new_empty(3 * bins - 1, *z.shape)
        grad_widths, grad_heights, grad_slopes = gradient.split([bins, bins, bins - 1])
        _to_logits(share_w, below, own, before_w, own_w, grad_x0 * -span, grad_own_w, out=grad_widths)
        _to_logits(share_h, below, own, before_h, own_h, grad_y * span, grad_own_h, out=grad_heights)
        grad_slopes.zero_()
        grad_slopes.scatter_add_(0, left, grad_0.mul_(torch.sigmoid(raw0)).mul_(below[0])[None])
        grad_slopes.scatter_add_(0, right, grad_1.mul_(torch.sigmoid(raw1)).mul_(1 - below[-1])[None])
        return grad_x.add_(grad_tail), gradient.sum_to_size(ctx.shape), None


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
        ends[i].add_(ends[i - 1])  # `ends[i] += ...` would copy once more
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
    slope = s * den  # multiplied twice: its square alone could underflow
    return ratio, top.mul_(slope).mul_(slope).log_()


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
    shares: Tensor,
    below: Tensor,
    own: Tensor,
    before: Tensor,
    share: Tensor,
    grad_before: Tensor,
    grad_own: Tensor,
    *,
    out: Tensor,
) -> None:
    """Fill `out` [bins, ...] with the gradient in the logits: d share_i / d logit_j = share_i (1[i = j] - share_j).

    The loss depends on the sum of the shares below, `before`, with gradient `grad_before`, and on the element's own
    share, `share` = shares[own], with gradient `grad_own`.
    """
    grad_share = grad_own.mul_(share)
    mean = (grad_before * before).add_(grad_share)
    torch.mul(below, grad_before, out=out[:-1])
    out[-1] = 0
    out.sub_(mean).mul_(shares).scatter_add_(0, own, grad_share[None])
