"""Loops that numba compiles, for float32 on a CPU: the splines of `splines.py`, whose some sixty passes over memory
become one, and the masks of `nets.Dropout`. Importing this file needs numba; `compiled.py` asks for the loops.

What splines owe their speed to, all of it visible in the assembly (`compiled_splines().inspect_asm()`):

- A *tile* of TILE elements passes through all steps while it lies in the first cache. Each step is a loop over the
  tile, with as many trips as the tile has elements, unit stride and no branch: the compiler makes vector instructions
  of it and no remainder. The loop over the bins is outside.
- What a step hands to the next are lines of one scratch array at constant places, so that the compiler sees that they
  do not overlap; arrays of their own would need more checks than it is willing to make.
- exp and log are polynomials, with powers of two taken from the bits.

The last tile is filled up with zeros. So every element takes the same instructions, whatever its place and however many
there are, and has the same bits.

Of the relaxed rules of arithmetic only `contract` (multiply and add in one rounding) and `nsz` (0 = -0) are allowed:
NaN and infinity stay what they are, and no sum is reordered. The formulas are those of `splines.py`, which says why.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numba
import numpy as np
from numba import carray, types
from numba.extending import intrinsic

TILE = 128
"""Elements: a multiple of the widest vector (16). Half as many take longer; with twice as many, lines of eight bins no
longer fit the first cache."""

SMALLEST = np.float32(1e-3)
"""Width and height of a bin, as shares of the whole interval, and slope at a knot; as in `splines.py`."""
SHIFT = np.float32(math.log(math.expm1(1 - 1e-3)))

_0, _1, _2, _4, HALF = (np.float32(value) for value in (0, 1, 2, 4, 0.5))
TINY = np.float32(np.finfo(np.float32).tiny)
INFINITY = np.float32(np.inf)

# exp(r) = 1 + r + r^2 q(r), |r| <= log(2) / 2; log(1 + f) = f - f^2 / 2 + f^3 q(f), 1 + f in sqrt(1/2) .. sqrt(2).
# Both q are polynomials of least largest relative error, 3e-9 and 6e-9.
_EXP = (0.49999994, 0.1666652, 0.041668393, 0.008368781, 0.0013814463)
_LOG = (0.3333333, -0.25000826, 0.20001236, -0.16623142, 0.14201379, -0.1316203, 0.12765366, -0.07634235)
E0, E1, E2, E3, E4 = (np.float32(value) for value in _EXP)
L0, L1, L2, L3, L4, L5, L6, L7 = (np.float32(value) for value in _LOG)
LOG2_E = np.float32(math.log2(math.e))
LN2_HIGH = np.float32(0.693359375)  # few bits: its products with exponents are exact
LN2_LOW = np.float32(math.log(2) - 0.693359375)
LEAST_EXP = np.float32(-87)  # exp of less is taken as exp(-87): a share of 1e-38 instead of none
ROUNDING = np.float32(1.5 * 2**23)  # added, it leaves the nearest whole number in the low bits
ROOT_2_LESS_1 = np.float32(math.sqrt(2) - 1)
ROOT_HALF_BITS = np.int32(np.float32(math.sqrt(0.5)).view(np.int32))
MANTISSA = np.int32(0x007FFFFF)
BIAS = np.int32(127)
GOLDEN, MIX_1, MIX_2 = (np.uint64(n) for n in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
MANTISSA_BITS = np.int32(23)

# Lines of the scratch array.
X, INNER, POSITION = 0 * TILE, 1 * TILE, 2 * TILE
SUM_A, SUM_B = 3 * TILE, 4 * TILE
BEFORE_A, BEFORE_B, OWN_A, OWN_B = 5 * TILE, 6 * TILE, 7 * TILE, 8 * TILE
RAW_0, RAW_1, COUNT = 9 * TILE, 10 * TILE, 11 * TILE
A0, B0, SIZE_A, SIZE_B = 12 * TILE, 13 * TILE, 14 * TILE, 15 * TILE
D0, D1, S, Z, RATIO, LOG_SLOPE, INSIDE = (n * TILE for n in range(16, 23))
Y = 23 * TILE
GRAD_Y, GRAD_LOG, GRAD_X = 24 * TILE, 25 * TILE, 26 * TILE
TO_BEFORE_A, TO_BEFORE_B, TO_OWN_A, TO_OWN_B, TO_0, TO_1 = (n * TILE for n in range(27, 33))
MEAN = 33 * TILE
PEAK, PART_A, PART_B = 34 * TILE, 35 * TILE, 36 * TILE
U_0, U_1, DEN, TOP = (n * TILE for n in range(37, 41))
LINES = 41

inlined = numba.njit(error_model="numpy", fastmath={"contract", "nsz"}, nogil=True, forceinline=True)
"""Of the parts of a loop. They are inlined, all: of one that is called, the process that compiles has two copies, that
of the loop and one on its own, takes another one than a process that loads the loop from the cache, and LLVM fuses
their products and sums differently."""


@inlined
def _bits(x: Any) -> Any:
    return np.float32(x).view(np.int32)


@inlined
def _float(bits: Any) -> Any:
    return np.int32(bits).view(np.float32)


@inlined
def _exp(x: Any) -> Any:
    """exp(x) for x <= 88, to 2 units in the last place."""
    x = LEAST_EXP if x < LEAST_EXP else x
    shifted = x * LOG2_E + ROUNDING
    n = shifted - ROUNDING
    r = (x - n * LN2_HIGH) - n * LN2_LOW
    q = (((E4 * r + E3) * r + E2) * r + E1) * r + E0
    scale = _float(np.int32(np.int32(_bits(shifted) + BIAS) << MANTISSA_BITS))
    return ((q * r) * r + r + _1) * scale


@inlined
def _log_near_1(f: Any, n: Any) -> Any:
    """log(1 + f) + n log(2) for 1 + f in sqrt(1/2) .. sqrt(2)."""
    q = ((((((L7 * f + L6) * f + L5) * f + L4) * f + L3) * f + L2) * f + L1) * f + L0
    ff = f * f
    return n * LN2_HIGH + (f + (ff * (f * q - HALF) + n * LN2_LOW))


@inlined
def _log(x: Any) -> Any:
    """log(x) for x > 0, to 2 units in the last place; of less than the smallest normal number the log of that."""
    v = TINY if x < TINY else x
    bits = np.int32(_bits(v) - ROOT_HALF_BITS)
    n = np.float32(np.int32(bits >> MANTISSA_BITS))
    value = _log_near_1(_float(np.int32(np.int32(bits & MANTISSA) + ROOT_HALF_BITS)) - _1, n)
    return value if v < INFINITY else v  # infinity and NaN stay


@inlined
def _log_1_plus(u: Any) -> Any:
    """log(1 + u) for u in 0 .. 1, without loss where u is small: 1 + u is never formed."""
    low = u < ROOT_2_LESS_1
    return _log_near_1(u if low else HALF * u - HALF, _0 if low else _1)


@inlined
def _exponentials(lines: Any, count: Any, total: Any, t: Any) -> None:
    """exp(line - the largest) of `count` lines [count, TILE], in place, and one over their sum into `total`: together
    they are the softmax."""
    first, second = lines[0], lines[1]
    for j in range(TILE):
        # a NaN stays, here or in the sum: it compares as false
        t[PEAK + j] = second[j] if second[j] > first[j] else first[j]
    for i in range(2, count):
        line = lines[i]
        for j in range(TILE):
            peak = t[PEAK + j]
            t[PEAK + j] = line[j] if line[j] > peak else peak
    for j in range(TILE):
        share = _exp(first[j] - t[PEAK + j])
        first[j] = share
        total[j] = share
    for i in range(1, count - 1):
        line = lines[i]
        for j in range(TILE):
            share = _exp(line[j] - t[PEAK + j])
            line[j] = share
            total[j] += share
    line = lines[count - 1]
    for j in range(TILE):
        share = _exp(line[j] - t[PEAK + j])
        line[j] = share
        total[j] = _1 / (total[j] + share)


@inlined
def _search(tile: Any, t: Any, bins: Any, bound: Any, span: Any) -> None:
    """The bin in which the element lies along axis a, with its shares, those before it and its slopes' logits. Shares
    are those of the tile, whose sum is not 1 but 1 / t[PART_A], 1 / t[PART_B]."""
    a, b, right = tile[0], tile[bins], tile[2 * bins + 1]
    for j in range(TILE):
        x = t[X + j]
        inner = -bound if x < -bound else x
        inner = bound if inner > bound else inner
        t[INNER + j] = inner
        t[POSITION + j] = (inner + bound) / span
        t[SUM_A + j] = _0
        t[SUM_B + j] = _0
        t[BEFORE_A + j] = _0
        t[BEFORE_B + j] = _0
        t[OWN_A + j] = a[j]
        t[OWN_B + j] = b[j]
        t[RAW_0 + j] = _0
        t[RAW_1 + j] = right[j]
        t[COUNT + j] = _0
    ratio = _2 * bound * SMALLEST / span
    for i in range(1, bins):
        last_a, last_b, a, b = tile[i - 1], tile[bins + i - 1], tile[i], tile[bins + i]
        left, right = tile[2 * bins + i], tile[2 * bins + i + 1]
        number = np.float32(i)
        offset = number * ratio
        for j in range(TILE):
            # every number is read before the first is chosen: a read on one side only would be a branch
            before_a, before_b, own_a, own_b = t[BEFORE_A + j], t[BEFORE_B + j], t[OWN_A + j], t[OWN_B + j]
            raw_0, raw_1, count = t[RAW_0 + j], t[RAW_1 + j], t[COUNT + j]
            new_a, new_b, new_0, new_1 = a[j], b[j], left[j], right[j]
            sum_a = t[SUM_A + j] + last_a[j]
            sum_b = t[SUM_B + j] + last_b[j]
            below = t[POSITION + j] - sum_a * t[PART_A + j] >= offset
            t[SUM_A + j] = sum_a
            t[SUM_B + j] = sum_b
            t[BEFORE_A + j] = sum_a if below else before_a
            t[BEFORE_B + j] = sum_b if below else before_b
            t[OWN_A + j] = new_a if below else own_a
            t[OWN_B + j] = new_b if below else own_b
            t[RAW_0 + j] = new_0 if below else raw_0
            t[RAW_1 + j] = new_1 if below else raw_1
            t[COUNT + j] = number if below else count


@inlined
def _evaluate(t: Any, bound: Any, span: Any, inverse: Any) -> None:
    """From the bin to the place in it, z, and its share of the bin's height."""
    step = _2 * bound * SMALLEST
    for j in range(TILE):
        start = t[COUNT + j] * step - bound
        part_a, part_b = t[PART_A + j] * span, t[PART_B + j] * span
        t[A0 + j] = t[BEFORE_A + j] * part_a + start
        t[B0 + j] = t[BEFORE_B + j] * part_b + start
        t[SIZE_A + j] = t[OWN_A + j] * part_a + step
        t[SIZE_B + j] = t[OWN_B + j] * part_b + step
    for j in range(TILE):
        raw = t[RAW_0 + j] + SHIFT
        u = _exp(-abs(raw))
        t[RAW_0 + j] = raw
        t[U_0 + j] = u
        t[D0 + j] = ((raw if raw > _0 else _0) + _log_1_plus(u)) + SMALLEST  # softplus
    for j in range(TILE):
        raw = t[RAW_1 + j] + SHIFT
        u = _exp(-abs(raw))
        t[RAW_1 + j] = raw
        t[U_1 + j] = u
        t[D1 + j] = ((raw if raw > _0 else _0) + _log_1_plus(u)) + SMALLEST
    if inverse:  # axis a is the one of the heights
        for j in range(TILE):
            s, d0, d1 = t[SIZE_A + j] / t[SIZE_B + j], t[D0 + j], t[D1 + j]
            t[S + j] = s
            ratio = (t[INNER + j] - t[A0 + j]) / t[SIZE_A + j]
            ratio = _0 if ratio < _0 else ratio
            ratio = _1 if ratio > _1 else ratio
            scale = _1 / (s + d0 + d1)
            s, d0, d1 = s * scale, d0 * scale, d1 * scale
            rise = ratio * (d0 + d1 - _2 * s)
            a, b, c = s - d0 + rise, d0 - rise, s * ratio
            square = b * b + _4 * a * c
            square = _0 if square < _0 else square
            denominator = b + np.sqrt(square)
            z = _2 * c / (TINY if denominator < TINY else denominator)
            z = _0 if z < _0 else z
            t[Z + j] = _1 if z > _1 else z
    else:
        for j in range(TILE):
            part = _1 / t[SIZE_A + j]
            t[S + j] = t[SIZE_B + j] * part
            z = (t[INNER + j] - t[A0 + j]) * part
            z = _0 if z < _0 else z
            t[Z + j] = _1 if z > _1 else z
    for j in range(TILE):
        z, s, d0, d1 = t[Z + j], t[S + j], t[D0 + j], t[D1 + j]
        c = _1 - z
        product, zz = z * c, z * z
        den = _1 / (s + (d0 + d1 - _2 * s) * product)
        t[RATIO + j] = (s * zz + d0 * product) * den
        t[TOP + j] = d1 * zz + _2 * (s * product) + d0 * (c * c)
        t[DEN + j] = den
        t[INSIDE + j] = _1 if abs(t[X + j]) <= bound else _0


@inlined
def _value(t: Any, inverse: Any) -> None:
    """The value and the log of the slope."""
    sign = -_1 if inverse else _1
    for j in range(TILE):
        slope = t[S + j] * t[DEN + j]  # multiplied twice: its square alone could underflow
        t[LOG_SLOPE + j] = _log(t[TOP + j] * slope * slope) * (sign * t[INSIDE + j])
    # Outside, the clamped argument maps to itself and the rest is added: the identity without a branch.
    if inverse:
        for j in range(TILE):
            t[Y + j] = (t[B0 + j] + t[SIZE_B + j] * t[Z + j]) + (t[X + j] - t[INNER + j])
    else:
        for j in range(TILE):
            t[Y + j] = (t[B0 + j] + t[SIZE_B + j] * t[RATIO + j]) + (t[X + j] - t[INNER + j])


@inlined
def _derive(t: Any, span: Any, inverse: Any) -> None:
    """From the gradients in the value and in the log of the slope to those in the argument, in the shares before the
    bin and in it, and in the logits of its slopes. See the notes in `splines.py`."""
    for j in range(TILE):
        z, s, d0, d1 = t[Z + j], t[S + j], t[D0 + j], t[D1 + j]
        size_a, size_b = t[SIZE_A + j], t[SIZE_B + j]
        w, h = (size_b, size_a) if inverse else (size_a, size_b)
        inside = t[INSIDE + j]
        tail = t[GRAD_Y + j] - t[GRAD_Y + j] * inside
        grad_y = t[GRAD_Y + j] * inside
        grad_log = t[GRAD_LOG + j] * inside
        c = _1 - z
        p, zz, cc = z * c, z * z, c * c
        delta = d0 + d1 - _2 * s
        den, r, full_top = t[DEN + j], t[RATIO + j], t[TOP + j]
        part_w = _1 / w
        top = _1 / full_top
        skew = c - z
        log_z = _2 * ((d1 * z + s * skew - d0 * c) * top - delta * skew * den)
        slope = s * den
        rise = full_top * w * slope * slope
        log_z = log_z * grad_log
        if inverse:
            # x(y, p) solves f(x, p) = y: dx/dy = 1 / f' and dx/dp = -(df/dp) / f'; the log is -log f'(x, p).
            grad_log = -grad_log
            log_z = -log_z
            grad_x = (grad_y * w + log_z) / rise
            grad_y = -grad_x
            grad_z = rise * grad_y + log_z
        else:
            grad_z = rise * grad_y + log_z
            grad_x = grad_z * part_w
        grad_r = grad_y * h * den
        den_log = den * grad_log
        p2_log = p * den_log * _2
        top_log = top * grad_log
        u = _1 - _2 * p
        log_s = _2 * (grad_log / s + p * top_log - den_log * u)
        grad_s = (zz - r * u) * grad_r + log_s
        grad_p = p * grad_r
        grad_0 = cc * top_log - p2_log + grad_p * (_1 - r)
        grad_1 = zz * top_log - p2_log - grad_p * r
        grad_x0 = grad_z * part_w
        own_w = (grad_x0 * z + grad_s * (s * part_w)) * -span
        own_h = (grad_s * part_w + grad_y * r) * span
        before_w, before_h = grad_x0 * -span, grad_y * span
        t[GRAD_X + j] = grad_x + tail
        t[TO_BEFORE_A + j] = before_h if inverse else before_w
        t[TO_BEFORE_B + j] = before_w if inverse else before_h
        t[TO_OWN_A + j] = own_h if inverse else own_w
        t[TO_OWN_B + j] = own_w if inverse else own_h
        t[TO_0 + j] = grad_0
        t[TO_1 + j] = grad_1
    for j in range(TILE):
        u0, u1 = t[U_0 + j], t[U_1 + j]  # the derivative of softplus is a sigmoid
        t[TO_0 + j] *= (u0 if t[RAW_0 + j] < _0 else _1) / (_1 + u0)
        t[TO_1 + j] *= (u1 if t[RAW_1 + j] < _0 else _1) / (_1 + u1)


@inlined
def _spread(grad: Any, t: Any, bins: Any, add: Any) -> None:
    """The gradient in the shares of both axes and in the slopes into grad [3 bins - 1, TILE], or added to it."""
    for i in range(bins):
        a, b = grad[i], grad[bins + i]
        number = np.float32(i)
        for j in range(TILE):
            count, old_a, old_b = t[COUNT + j], a[j], b[j]
            before_a, before_b, own_a, own_b = t[TO_BEFORE_A + j], t[TO_BEFORE_B + j], t[TO_OWN_A + j], t[TO_OWN_B + j]
            own_a, own_b = own_a if number == count else _0, own_b if number == count else _0
            a[j] = (old_a if add else _0) + (before_a if number < count else own_a)
            b[j] = (old_b if add else _0) + (before_b if number < count else own_b)
    for i in range(bins - 1):
        line = grad[2 * bins + i]
        number = np.float32(i)
        for j in range(TILE):
            count, old, to_0, to_1 = t[COUNT + j], line[j], t[TO_0 + j], t[TO_1 + j]
            to_1 = to_1 if number == count else _0
            line[j] = (old if add else _0) + (to_0 if number + _1 == count else to_1)


@inlined
def _to_logits(grad: Any, shares: Any, count: Any, part: Any, t: Any) -> None:
    """Gradient in shares to that in logits: d share_i / d logit_j = share_i (1[i = j] - share_j). The shares are
    those of `shares` [count, TILE] times `part`."""
    for j in range(TILE):
        t[MEAN + j] = _0
    for i in range(count):
        line, share = grad[i], shares[i]
        for j in range(TILE):
            t[MEAN + j] += line[j] * share[j]
    for j in range(TILE):
        t[MEAN + j] *= part[j]
    for i in range(count):
        line, share = grad[i], shares[i]
        for j in range(TILE):
            line[j] = (line[j] - t[MEAN + j]) * (share[j] * part[j])


@inlined
def _fill(line: Any, source: Any) -> None:
    """The numbers of the source, at most a tile, then zeros."""
    for j in range(len(source)):
        line[j] = source[j]
    for j in range(len(source), TILE):
        line[j] = _0


@inlined
def _copy(to: Any, line: Any) -> None:
    for j in range(len(to)):
        to[j] = line[j]


@inlined
def _line(p: Any, bins: Any, inverse: Any) -> Any:
    """Line of the tile that has parameter p: the searched axis first, of the inverse the heights."""
    if inverse and p < 2 * bins:
        return p + bins if p < bins else p - bins
    return p


@inlined
def _load(tile: Any, logits: Any, at: Any, bins: Any, inverse: Any) -> None:
    """Logits into the tile [3 bins + 1, TILE]: first the axis that is searched, then the other one, then the slopes
    between those of the two ends, which are 0.

    at  elements start .. stop - 1 of a line of so many, or one number for the whole tile where stop is start + 1
    """
    start, stop, size = at
    for p in range(3 * bins - 1):
        line = tile[_line(p, bins, inverse) + (1 if p >= 2 * bins else 0)]
        source = logits[p * size + start : p * size + stop]
        if stop == start + 1:
            value = source[0]
            for j in range(TILE):
                line[j] = value
        else:
            _fill(line, source)
    left, right = tile[2 * bins], tile[3 * bins]
    for j in range(TILE):
        left[j] = _0
        right[j] = _0


@inlined
def _sum(line: Any) -> Any:
    """The sum of a tile, which is overwritten: halves are added until one number is left. The order is written out, not
    left to the compiler, which would choose another one for a loop that is inlined than for one that is called."""
    for j in range(TILE // 2):
        line[j] += line[j + TILE // 2]
    for j in range(TILE // 4):
        line[j] += line[j + TILE // 4]
    for j in range(TILE // 8):
        line[j] += line[j + TILE // 8]
    total = _0
    for j in range(TILE // 8):
        total += line[j]
    return total


@inlined
def _unload(grad: Any, grad_logits: Any, at: Any, bins: Any, inverse: Any) -> None:
    """The gradient [3 bins - 1, TILE] into where `_load` has the logits from; where there is one number for the whole
    tile, the sum."""
    start, stop, size = at
    for p in range(3 * bins - 1):
        line = grad[_line(p, bins, inverse)]
        if stop == start + 1:
            grad_logits[p * size + start] = _sum(line)
        else:
            _copy(grad_logits[p * size + start : p * size + stop], line)


@intrinsic
def _pointer(typing: Any, address: Any) -> Any:
    """An address as a pointer to float32."""
    pointer = types.CPointer(types.float32)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(pointer))

    return pointer(types.int64), generate


def splines(addresses: Any, sizes: Any, bound: Any, inverse: Any) -> None:
    """Splines of float32 elements, or their derivatives; nothing is checked.

    addresses  of contiguous memory: x, y, log_slope, grad_y, grad_log, grad_x, each [E], and of the logits and their
               gradient, [3 bins - 1, O]. Without derivatives the last five but the logits are not looked at, and y and
               log_slope are written; with them these two are not looked at, and grad_x and the gradient are written
    sizes      E; O, which divides E: the elements 0 .. E / O - 1 have the first column of logits, and so on; bins;
               whether derivatives are wanted, 0 or 1
    bound      the splines live on [-bound, bound]
    inverse    whether the inverses are applied
    """
    count, columns, bins, derive = sizes
    x = carray(_pointer(addresses[0]), count)
    y = carray(_pointer(addresses[1]), count)
    log_slope = carray(_pointer(addresses[2]), count)
    grad_y = carray(_pointer(addresses[3]), count)
    grad_log = carray(_pointer(addresses[4]), count)
    grad_x = carray(_pointer(addresses[5]), count)
    logits = carray(_pointer(addresses[6]), (3 * bins - 1) * columns)
    grad_logits = carray(_pointer(addresses[7]), (3 * bins - 1) * columns)

    span = _2 * bound * (_1 - np.float32(bins) * SMALLEST)
    lines = np.empty((LINES + 6 * bins, TILE), np.float32)
    tile, grad = lines[LINES : LINES + 3 * bins + 1], lines[LINES + 3 * bins + 1 :]
    t = lines[:LINES].reshape(-1)
    part_a, part_b = t[PART_A : PART_A + TILE], t[PART_B : PART_B + TILE]
    shared = columns < count
    groups = columns if shared else 1  # one tile has elements of one group
    each = count // groups
    for group in range(groups):
        end = (group + 1) * each
        for start in range(group * each, end, TILE):
            stop = min(start + TILE, end)
            at = (group, group + 1, columns) if shared else (start, stop, columns)
            if not shared or start == group * each:
                _load(tile, logits, at, bins, inverse)
                _exponentials(tile[:bins], bins, part_a, t)
                _exponentials(tile[bins : 2 * bins], bins, part_b, t)
            _fill(t[X : X + TILE], x[start:stop])
            _search(tile, t, bins, bound, span)
            _evaluate(t, bound, span, inverse)
            if not derive:
                _value(t, inverse)
                _copy(y[start:stop], t[Y : Y + TILE])
                _copy(log_slope[start:stop], t[LOG_SLOPE : LOG_SLOPE + TILE])
                continue
            _fill(t[GRAD_Y : GRAD_Y + TILE], grad_y[start:stop])
            _fill(t[GRAD_LOG : GRAD_LOG + TILE], grad_log[start:stop])
            _derive(t, span, inverse)
            _copy(grad_x[start:stop], t[GRAD_X : GRAD_X + TILE])
            _spread(grad, t, bins, shared and start > group * each)
            if not shared or stop == end:
                _to_logits(grad[:bins], tile[:bins], bins, part_a, t)
                _to_logits(grad[bins : 2 * bins], tile[bins : 2 * bins], bins, part_b, t)
                _unload(grad, grad_logits, at, bins, inverse)


def keep(address: Any, count: Any, seed: Any, threshold: Any, scale: Any) -> None:
    """The mask of a dropout of `count` units at that address: `scale` where mix64(unit ^ seed) is not below the
    threshold (all int64), else 0; the integers are those of torch."""
    mask = carray(_pointer(address), count)
    for unit in range(count):
        mask[unit] = scale if _mix64(unit ^ seed) >= threshold else _0


@inlined
def _mix64(z: Any) -> Any:
    """The finaliser of SplitMix64 on an int64, as `noise.mix64`."""
    u = np.uint64(z) + GOLDEN
    u = (u ^ (u >> np.uint64(30))) * MIX_1
    u = (u ^ (u >> np.uint64(27))) * MIX_2
    return np.int64(u ^ (u >> np.uint64(31)))


_SIZE = types.int64


def compiled_splines() -> Any:
    """`splines`, compiled."""
    return compiled(
        splines, types.void(types.UniTuple(_SIZE, 8), types.UniTuple(_SIZE, 4), types.float32, types.boolean)
    )


def compiled_keep() -> Any:
    """`keep`, compiled."""
    return compiled(keep, types.void(*[_SIZE] * 4, types.float32))


def compiled(function: Callable[..., Any], signature: Any) -> Any:
    """Compiled, or from numba's cache on disk where there is a place for one."""
    options = {"error_model": "numpy", "fastmath": {"contract", "nsz"}, "nogil": True}
    with _no_garbage_sought():
        try:
            return numba.njit(signature, cache=True, **options)(function)
        except Exception:  # nowhere to write, a full disk, a damaged cache; what is wrong is raised again
            return numba.njit(signature, **options)(function)


@contextmanager
def _no_garbage_sought() -> Iterator[None]:
    """Python looks for garbage whenever some hundreds of objects more are there, and numba makes millions, which stay
    until it is done: that took a quarter of the time."""
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if on:
            gc.enable()
