"""Kernels that Triton compiles, for float32 on a GPU: the splines of `splines.py`, each of whose directions becomes one
kernel in place of some seventy, and the masks of `nets.Dropout`. Importing this file needs triton, which comes with the
CUDA builds of torch for Linux; `compiled.py` asks for what is here.

A program has a tile of ELEMENTS elements, with their bins along the other axis, filled up to a power of two. Nothing
but the arguments is kept for the derivatives: they compute the spline anew. An element takes the same instructions
whatever its place, and no sum goes over elements. The formulas are those of `splines.py`, which says why.
"""

from __future__ import annotations

import math

import torch
import triton
import triton.language as tl
from torch import Tensor

ELEMENTS = 128
SMALLEST = tl.constexpr(1e-3)
"""Width and height of a bin, as shares of the whole interval, and slope at a knot; as in `splines.py`."""
SHIFT = tl.constexpr(math.log(math.expm1(1 - 1e-3)))
UNITS = 1024
"""Of a dropout, in one program."""


@triton.jit
def _within(x, low: tl.constexpr, high: tl.constexpr):
    """x between low and high; a NaN stays one."""
    return tl.where(x < low, low, tl.where(x > high, high, x))


@triton.jit
def _softplus(x):
    """log(1 + exp(x)), and exp(-|x|). log(1 + u) is log(w) u / (w - 1), w = 1 + u rounded: exact where u is small."""
    u = tl.exp(-tl.abs(x))
    w = 1 + u
    log = tl.where(w == 1, u, tl.log(w) * u / tl.where(w == 1, 1.0, w - 1))
    return tl.where(x > 0, x, 0.0) + log, u


@triton.jit
def _shares(logits):
    """Softmax over the first axis."""
    raised = tl.exp(logits - tl.max(logits, 0)[None, :])
    return raised / tl.sum(raised, 0)[None, :]


@triton.jit
def _to_logits(shares, below, own, before, share, to_before, to_own):
    """The gradient in the logits of a softmax, as `splines._to_logits`."""
    to_share = to_own * share
    mean = to_before * before + to_share
    return (below * to_before[None, :] - mean[None, :]) * shares + tl.where(own, to_share[None, :], 0.0)


@triton.jit(do_not_specialize=["count", "columns", "each"])  # one kernel for tables and batches of every size
def _splines(
    x_at,
    logits_at,
    y_at,
    log_at,
    grad_y_at,
    grad_log_at,
    grad_x_at,
    gradient_at,
    count,
    columns,
    each,
    bins: tl.constexpr,
    padded: tl.constexpr,
    elements: tl.constexpr,
    bound: tl.constexpr,
    inverse: tl.constexpr,
    derive: tl.constexpr,
):
    """Splines of `count` elements, or their derivatives. Element i has column i // each of the logits [3 bins - 1,
    columns]. Without derivatives y and log_slope are written; with them grad_x and the gradient in the logits, of each
    element, [3 bins - 1, count]."""
    i = tl.program_id(0) * elements + tl.arange(0, elements)
    real = i < count
    column = i // each
    bin = tl.arange(0, padded)[:, None]
    there = (bin < bins) & real[None, :]
    line = bin.to(tl.int64)  # a place may need more than 32 bits, an element does not
    place = logits_at + line * columns + column[None, :]
    # a column of zeros where there is no element, so that its numbers are finite
    empty = tl.where((bin < bins) & ~real[None, :], 0.0, float("-inf"))
    share_w = _shares(tl.where(there, tl.load(place, mask=there, other=0.0), empty))
    heights = logits_at + (bins + line) * columns + column[None, :]
    share_h = _shares(tl.where(there, tl.load(heights, mask=there, other=0.0), empty))
    x = tl.load(x_at + i, mask=real, other=0.0)

    span: tl.constexpr = 2 * bound * (1 - bins * SMALLEST)
    step: tl.constexpr = 2 * bound * SMALLEST
    inner = _within(x, -bound, bound)
    ends = tl.cumsum(share_h if inverse else share_w, 0)
    beyond = ((inner + bound) / span)[None, :] - ends >= (bin + 1).to(tl.float32) * (step / span)
    below = tl.where(beyond & (bin < bins - 1), 1.0, 0.0)
    number = tl.sum(below, 0)
    index = number.to(tl.int32)
    own = bin == index[None, :]
    before_w, before_h = tl.sum(below * share_w, 0), tl.sum(below * share_h, 0)
    own_w, own_h = tl.sum(tl.where(own, share_w, 0.0), 0), tl.sum(tl.where(own, share_h, 0.0), 0)
    w, h = own_w * span + step, own_h * span + step
    start = number * step - bound
    x0, y0 = before_w * span + start, before_h * span + start
    slope_at = logits_at + (2 * bins + index.to(tl.int64)) * columns + column  # the logits of the two ends are 0
    raw0 = tl.load(slope_at - columns, mask=real & (index > 0), other=0.0) + SHIFT
    raw1 = tl.load(slope_at, mask=real & (index < bins - 1), other=0.0) + SHIFT
    d0, u0 = _softplus(raw0)
    d1, u1 = _softplus(raw1)
    d0 += SMALLEST
    d1 += SMALLEST

    s = h / w
    if inverse:
        ratio = _within((inner - y0) / h, 0.0, 1.0)
        scale = 1 / (s + d0 + d1)
        rise = ratio * ((d0 + d1 - 2 * s) * scale)
        qa, qb, qc = (s - d0) * scale + rise, d0 * scale - rise, s * scale * ratio
        root = qb * qb + 4 * qa * qc
        low = qb + tl.sqrt(tl.where(root < 0, 0.0, root))
        z = _within(2 * qc / tl.where(low < 1.1754943508222875e-38, 1.1754943508222875e-38, low), 0.0, 1.0)
    else:
        z = _within((inner - x0) / w, 0.0, 1.0)
    c = 1 - z
    t, zz, cc = z * c, z * z, c * c
    delta = d0 + d1 - 2 * s
    den = 1 / (s + delta * t)
    r = (s * zz + d0 * t) * den
    full_top = d1 * zz + 2 * (s * t) + d0 * cc
    slope = s * den
    inside = tl.where(bound - tl.abs(x) >= 0, 1.0, 0.0)

    if not derive:
        log_slope = tl.log(full_top * slope * slope)
        if inverse:
            y = x0 + w * z + (x - inner)
            log_slope = -log_slope
        else:
            y = y0 + h * r + (x - inner)
        tl.store(y_at + i, y, mask=real)
        tl.store(log_at + i, log_slope * inside, mask=real)
    else:
        grad = tl.load(grad_y_at + i, mask=real, other=0.0)
        grad_y = grad * inside
        grad_log = tl.load(grad_log_at + i, mask=real, other=0.0) * inside
        top = 1 / full_top
        skew = c - z
        log_z = 2 * ((d1 * z + s * skew - d0 * c) * top - delta * skew * den) * grad_log
        steep = full_top * w * slope * slope
        if inverse:
            grad_log = -grad_log
            log_z = -log_z
            grad_x = (grad_y * w + log_z) / steep
            grad_x_out = grad_x
            grad_y = -grad_x
            grad_z = steep * grad_y + log_z
        else:
            grad_z = steep * grad_y + log_z
            grad_x_out = grad_z / w
        grad_r = grad_y * h * den
        den_log = den * grad_log
        t2_log = 2 * t * den_log
        top_log = top * grad_log
        u = 1 - 2 * t
        grad_s = (zz - r * u) * grad_r + 2 * (grad_log / s + t * top_log - den_log * u)
        grad_t = t * grad_r
        grad_0 = cc * top_log - t2_log + grad_t * (1 - r)
        grad_1 = zz * top_log - t2_log - grad_t * r
        grad_x0 = grad_z / w
        to_own_w = (grad_x0 * z + grad_s * (s / w)) * -span
        to_own_h = (grad_s / w + grad_y * r) * span
        tl.store(grad_x_at + i, grad_x_out + (grad - grad * inside), mask=real)
        to_w = _to_logits(share_w, below, own, before_w, own_w, grad_x0 * -span, to_own_w)
        to_h = _to_logits(share_h, below, own, before_h, own_h, grad_y * span, to_own_h)
        out = gradient_at + line * count + i[None, :]
        further = count.to(tl.int64) * bins
        tl.store(out, to_w, mask=there)
        tl.store(out + further, to_h, mask=there)
        # the derivative of softplus is a sigmoid
        to_0 = grad_0 * (tl.where(raw0 < 0, u0, 1.0) / (1 + u0))
        to_1 = grad_1 * (tl.where(raw1 < 0, u1, 1.0) / (1 + u1))
        to_slopes = tl.where(bin + 1 == index[None, :], to_0[None, :], tl.where(own, to_1[None, :], 0.0))
        tl.store(out + 2 * further, to_slopes, mask=there & (bin < bins - 1))


@triton.jit(do_not_specialize=["count"])
def _keep(mask_at, seed_at, count, threshold, scale, units: tl.constexpr):
    """As `kernels.keep`."""
    unit = tl.program_id(0).to(tl.int64) * units + tl.arange(0, units)
    u = (unit ^ tl.load(seed_at)).to(tl.uint64, bitcast=True) + 0x9E3779B97F4A7C15
    u = (u ^ (u >> 30)) * 0xBF58476D1CE4E5B9
    u = (u ^ (u >> 27)) * 0x94D049BB133111EB
    bits = (u ^ (u >> 31)).to(tl.int64, bitcast=True)
    tl.store(mask_at + unit, tl.where(bits >= threshold, scale, 0.0), mask=unit < count)


def _launch(x: Tensor, logits: Tensor, rest: tuple[Tensor, ...], bound: float, inverse: bool, derive: bool) -> None:
    count, lines = x.numel(), len(logits)
    columns, bins = logits.numel() // lines, (lines + 1) // 3
    sizes = (count, columns, count // columns, bins, triton.next_power_of_2(bins), ELEMENTS)
    with torch.cuda.device_of(x):
        _splines[(triton.cdiv(count, ELEMENTS),)](x, logits, *rest, *sizes, float(bound), inverse, derive)


def values(x: Tensor, logits: Tensor, bound: float, inverse: bool) -> tuple[Tensor, Tensor]:
    """Of contiguous x [E] and logits [3 bins - 1, O] (O divides E; elements that share logits follow each other): y and
    log_slope [E]."""
    y, log_slope = torch.empty_like(x), torch.empty_like(x)
    _launch(x, logits, (y, log_slope, x, x, x, x), bound, inverse, False)
    return y, log_slope


def derivatives(
    x: Tensor, logits: Tensor, grad_y: Tensor, grad_log: Tensor, bound: float, inverse: bool
) -> tuple[Tensor, Tensor]:
    """Of the same, and of the gradients in the results [E]: the gradients in x and in the logits."""
    grad_x, gradient = torch.empty_like(x), x.new_empty(len(logits), x.numel())
    _launch(x, logits, (x, x, grad_y, grad_log, grad_x, gradient), bound, inverse, True)
    if logits.numel() < gradient.numel():
        gradient = gradient.view(*logits.reshape(len(logits), -1).shape, -1).sum(-1)
    return grad_x, gradient.view_as(logits)


def kept(shape: torch.Size, seed: Tensor, threshold: int, scale: float) -> Tensor:
    """The mask of a dropout: see `compiled.kept_units`."""
    mask = torch.empty(shape, dtype=torch.float32, device=seed.device)
    with torch.cuda.device_of(mask):
        _keep[(triton.cdiv(mask.numel(), UNITS),)](mask, seed, mask.numel(), threshold, scale, UNITS)
    return mask
