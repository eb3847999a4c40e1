"""Loops that numba compiles, for float64 on a CPU: incomplete rows under K Gaussians and K forests of levels, as the
steps of EM see them (`gaussian.py` and `forests.py` say what is computed). Importing this file needs numba;
`compiled.py` asks for the loops.

In torch every row with holes of its own is K systems of a few equations, each a call of LAPACK, whose results are set
into matrices of zeros and read again by several passes. Here a row is looked at by LANES components at a time, which
take the same steps: a value is a vector of LANES numbers, one of each component, from the first load to the last store.
So the numbers of the components lie next to each other: an array [n, K] has as many columns as fill whole vectors, and
what the last ones hold is never read. Vectors are a type of their own here, for numba leaves it to LLVM to find them,
which it does in loops that are simpler than these.

The covariance of a row's missing cells, the inverse of a block of the precision, comes by the sweep operator (Goodnight
1979): as many steps as there are holes, each of which updates a triangle in place; its pivots are those of a Cholesky
factorisation. What a row and a component come to depends on no other row and component; sums go over the rows in their
order.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, models, register_model

from vgi_cli.maths.kernels import compiled, inlined

LANES = 8
"""Components that are looked at together: as many numbers as the widest vectors have."""
ROW = 8 * LANES
"""Bytes of a vector."""

LN_2 = math.log(2.0)
LOG_2PI = math.log(2.0 * math.pi)

_VECTOR = ir.VectorType(ir.DoubleType(), LANES)
_BITS = ir.VectorType(ir.IntType(64), LANES)
_FUSED = ("contract",)


class _Vector(types.Type):  # type: ignore[misc]  # numba is not typed
    """LANES numbers of float64."""

    def __init__(self) -> None:
        super().__init__(name=f"{LANES} x float64")


_vector = _Vector()


@register_model(_Vector)
class _VectorModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _VECTOR)


def _bits(number: int) -> Any:
    return ir.Constant(_BITS, [number] * LANES)


def _numbers(number: float) -> Any:
    return ir.Constant(_VECTOR, [number] * LANES)


@intrinsic
def _load(typing: Any, address: Any) -> Any:
    """The vector at an address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(builder.inttoptr(arguments[0], _VECTOR.as_pointer()), align=8)

    return _vector(types.int64), generate


@intrinsic
def _store(typing: Any, address: Any, value: Any) -> Any:
    """A vector to an address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.store(arguments[1], builder.inttoptr(arguments[0], _VECTOR.as_pointer()), align=8)
        return context.get_dummy_value()

    return types.void(types.int64, _vector), generate


@intrinsic
def _number(typing: Any, address: Any) -> Any:
    """The float64 at an address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(builder.inttoptr(arguments[0], ir.DoubleType().as_pointer()), align=8)

    return types.float64(types.int64), generate


@intrinsic
def _set_number(typing: Any, address: Any, value: Any) -> Any:
    """A float64 to an address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.store(arguments[1], builder.inttoptr(arguments[0], ir.DoubleType().as_pointer()), align=8)
        return context.get_dummy_value()

    return types.void(types.int64, types.float64), generate


@intrinsic
def _integer(typing: Any, address: Any) -> Any:
    """The int64 at an address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(builder.inttoptr(arguments[0], ir.IntType(64).as_pointer()), align=8)

    return types.int64(types.int64), generate


@intrinsic
def _all(typing: Any, number: Any) -> Any:
    """A vector of one number."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        first = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), arguments[0], ir.IntType(32)(0))
        places = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
        return builder.shuffle_vector(first, ir.Constant(_VECTOR, ir.Undefined), places)

    return _vector(types.float64), generate


@intrinsic
def _plus_product(typing: Any, a: Any, b: Any, c: Any) -> Any:
    """a + b c, in one rounding where the processor can."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.fadd(arguments[0], builder.fmul(*arguments[1:], flags=_FUSED), flags=_FUSED)

    return _vector(_vector, _vector, _vector), generate


@intrinsic
def _less_product(typing: Any, a: Any, b: Any, c: Any) -> Any:
    """a - b c, in one rounding where the processor can."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.fsub(arguments[0], builder.fmul(*arguments[1:], flags=_FUSED), flags=_FUSED)

    return _vector(_vector, _vector, _vector), generate


@intrinsic
def _plus(typing: Any, a: Any, b: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.fadd(*arguments)

    return _vector(_vector, _vector), generate


@intrinsic
def _less(typing: Any, a: Any, b: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.fsub(*arguments)

    return _vector(_vector, _vector), generate


@intrinsic
def _times(typing: Any, a: Any, b: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.fmul(*arguments)

    return _vector(_vector, _vector), generate


@intrinsic
def _inverse(typing: Any, a: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.fdiv(_numbers(1.0), arguments[0])

    return _vector(_vector), generate


@intrinsic
def _positive(typing: Any, a: Any) -> Any:
    """Whether all numbers are finite and above 0."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        above = builder.fcmp_ordered(">", arguments[0], _numbers(0.0))
        finite = builder.fcmp_ordered("<", arguments[0], _numbers(math.inf))
        every = builder.bitcast(builder.and_(above, finite), ir.IntType(LANES))
        return builder.icmp_unsigned("==", every, ir.IntType(LANES)(2**LANES - 1))

    return types.boolean(_vector), generate


@intrinsic
def _mantissa(typing: Any, a: Any) -> Any:
    """The numbers, above 0, with the exponent of 1: in 1 .. 2."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        bits = builder.and_(builder.bitcast(arguments[0], _BITS), _bits(2**52 - 1))
        return builder.bitcast(builder.or_(bits, _bits(1023 << 52)), _VECTOR)

    return _vector(_vector), generate


@intrinsic
def _exponent(typing: Any, a: Any) -> Any:
    """Their exponents, as numbers."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        raised = builder.lshr(builder.bitcast(arguments[0], _BITS), _bits(52))  # the low bits of 2^52 + it
        number = builder.bitcast(builder.or_(raised, _bits((1023 + 52) << 52)), _VECTOR)
        return builder.fsub(number, _numbers(2.0**52 + 1023))

    return _vector(_vector), generate


@inlined
def _triangle(i: Any) -> Any:
    """How many cells of a lower triangle lie before row i."""
    return i * (i + 1) // 2


@inlined
def _log_product(mantissa: Any, exponent: Any, out: Any, room: Any) -> None:
    """The logarithm of a product that is kept as a number in 1 .. 2 and an exponent, since many factors together are
    no float64 number, into `out`; `room` is for a vector."""
    _store(out, mantissa)
    _store(room, exponent)
    for k in range(LANES):
        _set_number(out + 8 * k, math.log(_number(out + 8 * k)) + LN_2 * _number(room + 8 * k))


@inlined
def _sweep(a: Any, c: Any, m: Any, pivots: Any, logdet: Any) -> Any:
    """Sweep the first rows, so many as `pivots` says, of a positive definite matrix of m rows, of which the lower
    triangle lies at `a`: their block becomes its inverse with the opposite sign, the others become what they are given
    these: coefficients, and a covariance. The logarithm of the determinant of the block into `logdet`. `c` has room for
    m vectors, at least one. False where the block is not positive definite."""
    product, exponent = _all(1.0), _all(0.0)
    for t in range(pivots):
        row = a + _triangle(t) * ROW
        pivot = _load(row + t * ROW)
        if not _positive(pivot):
            return False
        product = _times(product, pivot)
        product, exponent = _mantissa(product), _plus(exponent, _exponent(product))
        inverse = _inverse(pivot)
        for j in range(t):
            _store(c + j * ROW, _load(row + j * ROW))
        _store(c + t * ROW, _all(0.0))  # the row and the column of the pivot are left as they are
        for j in range(t + 1, m):
            _store(c + j * ROW, _load(a + (_triangle(j) + t) * ROW))
        for i in range(m):
            factor = _times(_load(c + i * ROW), inverse)
            line = a + _triangle(i) * ROW
            for j in range(i + 1):
                _store(line + j * ROW, _less_product(_load(line + j * ROW), factor, _load(c + j * ROW)))
        for j in range(t):
            _store(row + j * ROW, _times(_load(c + j * ROW), inverse))
        _store(row + t * ROW, _less(_all(0.0), inverse))
        for j in range(t + 1, m):
            _store(a + (_triangle(j) + t) * ROW, _times(_load(c + j * ROW), inverse))
    _log_product(product, exponent, logdet, c)
    return True


def holes(addresses: Any, sizes: Any) -> Any:
    """What missing cells are given the observed ones, by pattern of holes; False where a matrix is not positive
    definite.

    A pattern is looked at from the side of its holes, by sweeping the precision of its m missing cells; or from that of
    its o observed cells, by sweeping these in the covariance, which is less work where they are few.

    addresses  of contiguous memory, read: precisions and covariances [D, D, K]; logdet [K] of the latter; of each
               pattern its columns [U, D], first those with holes, in order, then the others; its number of holes [U];
               where its triangle begins [U], in rows of `packed`; whether it is looked at from its observed cells [U],
               0 or 1. Written: packed [.., K], lower triangles: from the side of the holes the covariance of the
               missing cells; from the other one, observed cells first, the precision of these alone, the coefficients
               of the missing cells on them, and that covariance. logdet [U, K], of the precision of the missing cells
    sizes      U, D, K, a multiple of LANES
    """
    precision, covariance, whole, columns, counts, starts, sides, packed, logdets = addresses
    U, D, K = sizes
    room = np.empty((D * (D + 1) // 2 + D) * LANES, np.float64)
    a = room.ctypes.data
    c = a + _triangle(D) * ROW
    for first in range(0, K, LANES):
        for u in range(U):
            m, own, side = _integer(counts + 8 * u), columns + 8 * D * u, _integer(sides + 8 * u)
            matrix, many = (covariance, D) if side else (precision, m)
            pivots = D - m if side else m
            for i in range(many):
                line, row = a + _triangle(i) * ROW, matrix + 8 * (_place(own, i, m, D, side) * D * K + first)
                for j in range(i + 1):
                    _store(line + j * ROW, _load(row + 8 * K * _place(own, j, m, D, side)))
            logs = logdets + 8 * (u * K + first)
            if not _sweep(a, c, many, pivots, logs):
                return False
            if side:  # log|S_oo| - log|S| is log|Q_mm|
                _store(logs, _less(_load(logs), _load(whole + 8 * first)))
            out = packed + 8 * (_integer(starts + 8 * u) * K + first)
            for i in range(_triangle(pivots)):
                _store(out + 8 * K * i, _less(_all(0.0), _load(a + i * ROW)))
            for i in range(_triangle(pivots), _triangle(many)):
                _store(out + 8 * K * i, _load(a + i * ROW))
    room[0] = 0.0  # numba lets go of an array after its last use
    return True


@inlined
def _place(columns: Any, i: Any, m: Any, D: Any, side: Any) -> Any:
    """The i-th column of a pattern with m holes: of its holes, or of all, the observed ones first."""
    at = i
    if side:
        at = i + m if i < D - m else i - (D - m)
    return _integer(columns + 8 * at)


def rows(addresses: Any, sizes: Any) -> None:
    """Rows through their holes.

    addresses  of contiguous memory, read: x [R, D], the pattern of each row [R], means [D, K], and all of `holes`.
               Written: delta [R, D, K], the row less the mean, of a missing cell its conditional mean less the mean;
               log_prob [R, K], of the observed cells
    sizes      R, D, K
    """
    x, of_row, means = addresses[:3]
    precision, _, whole, columns, counts, starts, sides, packed, logdets, delta, log_prob = addresses[3:]
    R, D, K = sizes
    room = np.empty(D * LANES, np.float64)
    pull = room.ctypes.data
    for first in range(0, K, LANES):
        for r in range(R):
            u = _integer(of_row + 8 * r)
            m, own = _integer(counts + 8 * u), columns + 8 * D * u
            out = delta + 8 * (r * D * K + first)
            block = packed + 8 * (_integer(starts + 8 * u) * K + first)
            for i in range(m, D):
                d = _integer(own + 8 * i)
                value = _less(_all(_number(x + 8 * (r * D + d))), _load(means + 8 * (d * K + first)))
                _store(out + 8 * K * d, value)
            if _integer(sides + 8 * u):
                square = _from_observed(out, own, block, m, D, K)
            else:
                square = _from_holes(out, own, block, precision + 8 * first, pull, m, D, K)
            square = _plus(square, _load(whole + 8 * first))
            square = _plus(square, _load(logdets + 8 * (u * K + first)))
            square = _plus(square, _all((D - m) * LOG_2PI))
            _store(log_prob + 8 * (r * K + first), _times(_all(-0.5), square))
    room[0] = 0.0  # numba lets go of an array after its last use


@inlined
def _from_holes(out: Any, columns: Any, block: Any, precision: Any, pull: Any, m: Any, D: Any, K: Any) -> Any:
    """The quadratic form of a row's observed cells, whose delta lies at `out`, and the delta of the others there."""
    square = _all(0.0)
    for i in range(D):
        d = _integer(columns + 8 * i)
        row, total = precision + 8 * d * D * K, _all(0.0)
        for j in range(m, D):
            at = 8 * K * _integer(columns + 8 * j)
            total = _plus_product(total, _load(row + at), _load(out + at))
        if i < m:
            _store(pull + i * ROW, total)
        else:
            square = _plus_product(square, total, _load(out + 8 * K * d))
    for i in range(m):
        total, line = _all(0.0), block + 8 * K * _triangle(i)
        for j in range(i):
            total = _plus_product(total, _load(line + 8 * K * j), _load(pull + j * ROW))
        for j in range(i, m):
            total = _plus_product(total, _load(block + 8 * K * (_triangle(j) + i)), _load(pull + j * ROW))
        square = _less_product(square, total, _load(pull + i * ROW))
        _store(out + 8 * K * _integer(columns + 8 * i), _less(_all(0.0), total))
    return square


@inlined
def _from_observed(out: Any, columns: Any, block: Any, m: Any, D: Any, K: Any) -> Any:
    """The same."""
    square = _all(0.0)
    for i in range(D - m):
        total, line = _all(0.0), block + 8 * K * _triangle(i)
        for j in range(i):
            total = _plus_product(total, _load(line + 8 * K * j), _load(out + 8 * K * _integer(columns + 8 * (m + j))))
        own = _load(out + 8 * K * _integer(columns + 8 * (m + i)))
        total = _plus_product(_plus(total, total), _load(line + 8 * K * i), own)  # what is below the diagonal twice
        square = _plus_product(square, total, own)
    for i in range(m):
        total, line = _all(0.0), block + 8 * K * _triangle(D - m + i)
        for j in range(D - m):
            total = _plus_product(total, _load(line + 8 * K * j), _load(out + 8 * K * _integer(columns + 8 * (m + j))))
        _store(out + 8 * K * _integer(columns + 8 * i), total)
    return square


def moments(addresses: Any, sizes: Any) -> None:
    """Sums over rows.

    addresses  of contiguous memory, read: delta of `rows`, weights [R, K], the pattern of each row [R]. Added to: by
               pattern [U, K] the weights; first [D, K]; second [D, D, K], of which the lower triangles alone
    sizes      R, D, K
    """
    delta, weights, of_row, by_pattern, total, second = addresses
    R, D, K = sizes
    for first in range(0, K, LANES):
        for r in range(R):
            weight = _load(weights + 8 * (r * K + first))
            at = by_pattern + 8 * (_integer(of_row + 8 * r) * K + first)
            _store(at, _plus(_load(at), weight))
            row = delta + 8 * (r * D * K + first)
            for d in range(D):
                weighted = _times(weight, _load(row + 8 * K * d))
                at = total + 8 * (d * K + first)
                _store(at, _plus(_load(at), weighted))
                line = second + 8 * (d * D * K + first)
                for e in range(d + 1):
                    at = line + 8 * K * e
                    _store(at, _plus_product(_load(at), weighted, _load(row + 8 * K * e)))


def uncertain(addresses: Any, sizes: Any) -> None:
    """Sums over patterns of the covariances of missing cells.

    addresses  of contiguous memory, read: weights by pattern [U, K], columns, numbers of holes, starts, sides and
               `packed` of `holes`. Added to: second [D, D, K], of which the lower triangles alone
    sizes      U, D, K
    """
    by_pattern, columns, counts, starts, sides, packed, second = addresses
    U, D, K = sizes
    for first in range(0, K, LANES):
        for u in range(U):
            weight = _load(by_pattern + 8 * (u * K + first))
            own, m = columns + 8 * D * u, _integer(counts + 8 * u)
            before = D - m if _integer(sides + 8 * u) else 0
            for i in range(m):
                line = second + 8 * (_integer(own + 8 * i) * D * K + first)
                block = packed + 8 * ((_integer(starts + 8 * u) + _triangle(before + i) + before) * K + first)
                for j in range(i + 1):
                    at = line + 8 * K * _integer(own + 8 * j)
                    _store(at, _plus_product(_load(at), weight, _load(block + 8 * K * j)))


def sums(addresses: Any, sizes: Any) -> None:
    """Weighted sums over the rows of each place.

    addresses  of contiguous memory, read: delta of `rows`, weights [R, K], the place of each row [R]. Added to: sums
               [J, 1 + D, K], the weights and the weighted delta
    sizes      R, D, K
    """
    delta, weights, places, out = addresses
    R, D, K = sizes
    for first in range(0, K, LANES):
        for r in range(R):
            weight = _load(weights + 8 * (r * K + first))
            at = out + 8 * (_integer(places + 8 * r) * (D + 1) * K + first)
            _store(at, _plus(_load(at), weight))
            row = delta + 8 * (r * D * K + first)
            for d in range(D):
                at += 8 * K
                _store(at, _plus_product(_load(at), weight, _load(row + 8 * K * d)))


def factors(addresses: Any, sizes: Any) -> Any:
    """What the factors are given the observed cells, by pattern of holes; False where a matrix is not positive
    definite.

    addresses  of contiguous memory, read: loadings [D, L, K], inverse noise variances [D, K] and their logarithms
               [D, K]; of each pattern its columns [U, D], first those with holes, and its number of holes [U].
               Written: packed [U, L (L + 1) / 2, K], the lower triangles of the covariances of the factors given the
               observed cells; logdet [U, K], of the covariance of these
    sizes      U, D, L, K
    """
    loadings, inverses, logs, columns, counts, packed, logdets = addresses
    U, D, L, K = sizes
    T = _triangle(L)
    room = np.empty((T + L + 1) * LANES, np.float64)
    a = room.ctypes.data
    c = a + T * ROW
    for first in range(0, K, LANES):
        for u in range(U):
            m, own = _integer(counts + 8 * u), columns + 8 * D * u
            for i in range(T):
                _store(a + i * ROW, _all(0.0))
            noise = _all(0.0)
            for i in range(m, D):
                d = _integer(own + 8 * i)
                noise = _plus(noise, _load(logs + 8 * (d * K + first)))
                inverse, loading = _load(inverses + 8 * (d * K + first)), loadings + 8 * (d * L * K + first)
                for p in range(L):
                    scaled, line = _times(inverse, _load(loading + 8 * K * p)), a + _triangle(p) * ROW
                    for q in range(p + 1):
                        at = line + q * ROW
                        _store(at, _plus_product(_load(at), scaled, _load(loading + 8 * K * q)))
            for p in range(L):
                at = a + (_triangle(p) + p) * ROW
                _store(at, _plus(_load(at), _all(1.0)))
            at = logdets + 8 * (u * K + first)
            if not _sweep(a, c, L, L, at):
                return False
            _store(at, _less(_load(at), noise))
            out = packed + 8 * (u * T * K + first)
            for i in range(T):
                _store(out + 8 * K * i, _less(_all(0.0), _load(a + i * ROW)))
    room[0] = 0.0  # numba lets go of an array after its last use
    return True


def factor_rows(addresses: Any, sizes: Any) -> None:
    """Rows under factor models.

    addresses  of contiguous memory, read: x [R, D], the pattern of each row [R], means [D, K], and all of `factors`.
               Written: z [R, L, K], the factors' conditional means; log_prob [R, K], of the observed cells
    sizes      R, D, L, K
    """
    x, of_row, means, loadings, inverses, _, columns, counts, packed, logdets, z, log_prob = addresses
    R, D, L, K = sizes
    room = np.empty((L + D) * LANES, np.float64)
    c = room.ctypes.data
    delta = c + L * ROW
    for first in range(0, K, LANES):
        for r in range(R):
            u = _integer(of_row + 8 * r)
            m, own = _integer(counts + 8 * u), columns + 8 * D * u
            for p in range(L):
                _store(c + p * ROW, _all(0.0))
            for i in range(m, D):
                d = _integer(own + 8 * i)
                value = _less(_all(_number(x + 8 * (r * D + d))), _load(means + 8 * (d * K + first)))
                _store(delta + i * ROW, value)
                scaled = _times(value, _load(inverses + 8 * (d * K + first)))
                loading = loadings + 8 * (d * L * K + first)
                for p in range(L):
                    at = c + p * ROW
                    _store(at, _plus_product(_load(at), scaled, _load(loading + 8 * K * p)))
            block, mean = packed + 8 * (u * _triangle(L) * K + first), z + 8 * (r * L * K + first)
            square = _all(0.0)
            for p in range(L):
                total, line = _all(0.0), block + 8 * K * _triangle(p)
                for q in range(p):
                    total = _plus_product(total, _load(line + 8 * K * q), _load(c + q * ROW))
                for q in range(p, L):
                    total = _plus_product(total, _load(block + 8 * K * (_triangle(q) + p)), _load(c + q * ROW))
                _store(mean + 8 * K * p, total)
                square = _plus_product(square, total, total)
            for i in range(m, D):
                d = _integer(own + 8 * i)
                loading, left = loadings + 8 * (d * L * K + first), _load(delta + i * ROW)
                for p in range(L):
                    left = _less_product(left, _load(loading + 8 * K * p), _load(mean + 8 * K * p))
                square = _plus_product(square, _times(left, left), _load(inverses + 8 * (d * K + first)))
            square = _plus(square, _load(logdets + 8 * (u * K + first)))
            square = _plus(square, _all((D - m) * LOG_2PI))
            _store(log_prob + 8 * (r * K + first), _times(_all(-0.5), square))
    room[0] = 0.0  # numba lets go of an array after its last use


def factor_moments(addresses: Any, sizes: Any) -> None:
    """Expected sums over rows under factor models, with e = (z, 1) the factors and a constant.

    addresses  of contiguous memory, read: x, the pattern of each row, columns and numbers of holes, packed and z as of
               `factor_rows`, weights [R, K]. Added to, lower triangles packed, P = L + 1: outer [D, P (P + 1) / 2, K],
               E[e e'] of the rows where a column is observed; cross [D, P, K], E[e] x of these; square [D, K], x^2 of
               these; every [P (P + 1) / 2, K], E[e e'] of all rows
    sizes      R, D, L, K
    """
    x, of_row, columns, counts, packed, z, weights, outer, cross, square, every = addresses
    R, D, L, K = sizes
    T, P = _triangle(L), L + 1
    room = np.empty((_triangle(P) + P) * LANES, np.float64)
    own = room.ctypes.data
    mean = own + _triangle(P) * ROW
    for first in range(0, K, LANES):
        for r in range(R):
            u = _integer(of_row + 8 * r)
            m, places = _integer(counts + 8 * u), columns + 8 * D * u
            weight, block = _load(weights + 8 * (r * K + first)), packed + 8 * (u * T * K + first)
            for p in range(L):
                _store(mean + p * ROW, _load(z + 8 * ((r * L + p) * K + first)))
            _store(mean + L * ROW, _all(1.0))
            for p in range(P):
                for q in range(p + 1):
                    i = _triangle(p) + q
                    value = _times(_load(mean + p * ROW), _load(mean + q * ROW))
                    if p < L:
                        value = _plus(value, _load(block + 8 * K * i))
                    value = _times(weight, value)
                    _store(own + i * ROW, value)
                    at = every + 8 * (i * K + first)
                    _store(at, _plus(_load(at), value))
            for i in range(m, D):
                d = _integer(places + 8 * i)
                value = _all(_number(x + 8 * (r * D + d)))
                weighted = _times(weight, value)
                line = outer + 8 * (d * _triangle(P) * K + first)
                for t in range(_triangle(P)):
                    at = line + 8 * K * t
                    _store(at, _plus(_load(at), _load(own + t * ROW)))
                line = cross + 8 * (d * P * K + first)
                for p in range(P):
                    at = line + 8 * K * p
                    _store(at, _plus_product(_load(at), weighted, _load(mean + p * ROW)))
                at = square + 8 * (d * K + first)
                _store(at, _plus_product(_load(at), weighted, value))
    room[0] = 0.0  # numba lets go of an array after its last use


def factor_sums(addresses: Any, sizes: Any) -> None:
    """Weighted sums over the rows of each place where a column is observed.

    addresses  of contiguous memory, read: x, the pattern of each row, columns and numbers of holes and z as of
               `factor_rows`, weights [R, K], the place of each row [R]. Added to: sums [J, D, 2 + L, K], weights, cells
               and the factors' means
    sizes      R, D, L, K
    """
    x, of_row, columns, counts, z, weights, places, out = addresses
    R, D, L, K = sizes
    for first in range(0, K, LANES):
        for r in range(R):
            u = _integer(of_row + 8 * r)
            weight = _load(weights + 8 * (r * K + first))
            mean, place = z + 8 * (r * L * K + first), _integer(places + 8 * r)
            for i in range(_integer(counts + 8 * u), D):
                d = _integer(columns + 8 * (D * u + i))
                at = out + 8 * ((place * D + d) * (2 + L) * K + first)
                _store(at, _plus(_load(at), weight))
                at += 8 * K
                _store(at, _plus_product(_load(at), weight, _all(_number(x + 8 * (r * D + d)))))
                for p in range(L):
                    at += 8 * K
                    _store(at, _plus_product(_load(at), weight, _load(mean + 8 * K * p)))


@inlined
def _up(belief: Any, message: Any, tables: Any, shape: Any, codes: Any, K: Any, logs: Any) -> None:
    """The messages of one row to the roots, of a block of components.

    Written: of each dimension whose level is missing the beliefs [F], and the messages [M] to what may be the level of
    its parent, else nothing; the logarithm of the probability of the observed levels into `logs`, for which `message`
    has room beyond M.
    """
    n, parents, levels, starts, firsts, places, M = shape
    product, exponent = _all(1.0), _all(0.0)
    for i in range(n):
        if _integer(codes + 8 * i) < 0:
            own = belief + ROW * _integer(firsts + 8 * i)
            for level in range(_integer(levels + 8 * i)):
                _store(own + ROW * level, _all(1.0))
    for i in range(n - 1, -1, -1):  # each before its parent
        c, p, L = _integer(codes + 8 * i), _integer(parents + 8 * i), _integer(levels + 8 * i)
        own, table = belief + ROW * _integer(firsts + 8 * i), tables + 8 * K * _integer(starts + 8 * i)
        if p < 0:
            total = _all(0.0)
            if c >= 0:
                total = _load(table + 8 * K * c)
            else:
                for level in range(L):
                    value = _times(_load(own + ROW * level), _load(table + 8 * K * level))
                    total = _plus(total, value)
                    _store(own + ROW * level, value)
                _scale(own, L, _inverse(total))
            product = _times(product, total)
            product, exponent = _mantissa(product), _plus(exponent, _exponent(product))
            continue
        above, sent = _integer(codes + 8 * p), message + ROW * _integer(places + 8 * i)
        many = _integer(levels + 8 * p)
        parent = belief + ROW * _integer(firsts + 8 * p)
        total = _all(0.0)
        for a in range(above if above >= 0 else 0, above + 1 if above >= 0 else many):
            row, value = table + 8 * K * L * a, _all(0.0)
            if c >= 0:
                value = _load(row + 8 * K * c)
            else:
                for level in range(L):
                    value = _plus_product(value, _load(row + 8 * K * level), _load(own + ROW * level))
            _store(sent + ROW * a, value)
            if above >= 0:
                total = value
            else:
                value = _times(value, _load(parent + ROW * a))
                _store(parent + ROW * a, value)
                total = _plus(total, value)
        if above < 0:
            _scale(parent, many, _inverse(total))
        product = _times(product, total)
        product, exponent = _mantissa(product), _plus(exponent, _exponent(product))
    _log_product(product, exponent, logs, message + ROW * M)


@inlined
def _scale(values: Any, count: Any, factor: Any) -> None:
    for i in range(count):
        _store(values + ROW * i, _times(_load(values + ROW * i), factor))


def forest(addresses: Any, sizes: Any) -> None:
    """Rows of levels under forests, of which dimensions come after their parents.

    addresses  of contiguous memory, read: tables [T, K]; of each dimension its parent (-1: a root), its number of
               levels, where its table begins among T, where its levels begin among all, where its messages, one for
               each level of its parent, begin among all, [5, n]; levels [U, n], -1 where they are missing.
               Written: log_prob [U, K] of what is observed
    sizes      U, n, F levels and M messages in all, K
    """
    tables, lines, codes, log_prob = addresses
    U, n, F, M, K = sizes
    shape = (n, lines, lines + 8 * n, lines + 16 * n, lines + 24 * n, lines + 32 * n, M)
    room = np.empty((F + M + 1) * LANES, np.float64)
    belief = room.ctypes.data
    message = belief + ROW * F
    for first in range(0, K, LANES):
        for u in range(U):
            logs = log_prob + 8 * (u * K + first)
            _up(belief, message, tables + 8 * first, shape, codes + 8 * n * u, K, logs)
    room[0] = 0.0  # numba lets go of an array after its last use


def counts(addresses: Any, sizes: Any) -> None:
    """How often each cell of the tables is expected.

    addresses  as of `forest`, but for log_prob: weights [U, K], read; counts [T, K], added to
    sizes      as of `forest`
    """
    tables, lines, codes, weights, out = addresses
    U, n, F, M, K = sizes
    shape = (n, lines, lines + 8 * n, lines + 16 * n, lines + 24 * n, lines + 32 * n, M)
    _, parents, levels, starts, firsts, places, _ = shape
    room = np.empty((2 * F + M + 2) * LANES, np.float64)
    belief = room.ctypes.data
    message, law = belief + ROW * F, belief + ROW * (F + M + 1)
    logs = law + ROW * F
    for first in range(0, K, LANES):
        for u in range(U):
            row = codes + 8 * n * u
            _up(belief, message, tables + 8 * first, shape, row, K, logs)
            weight = _load(weights + 8 * (u * K + first))
            for i in range(n):
                c, p, L = _integer(row + 8 * i), _integer(parents + 8 * i), _integer(levels + 8 * i)
                own, place = ROW * _integer(firsts + 8 * i), 8 * (K * _integer(starts + 8 * i) + first)
                low, high = (c, c + 1) if c >= 0 else (0, L)
                if p < 0:
                    for level in range(low, high):
                        share = _all(1.0) if c >= 0 else _load(belief + own + ROW * level)
                        _store(law + own + ROW * level, share)
                        at = out + place + 8 * K * level
                        _store(at, _plus_product(_load(at), weight, share))
                    continue
                for level in range(low, high):
                    _store(law + own + ROW * level, _all(0.0))
                d, above = _integer(row + 8 * p), law + ROW * _integer(firsts + 8 * p)
                sent = message + ROW * _integer(places + 8 * i)
                for a in range(d if d >= 0 else 0, d + 1 if d >= 0 else _integer(levels + 8 * p)):
                    given = _times(_load(above + ROW * a), _inverse(_load(sent + ROW * a)))
                    for level in range(low, high):
                        cell = place + 8 * K * (a * L + level)
                        share = _times(given, _load(tables + cell))
                        if c < 0:
                            share = _times(share, _load(belief + own + ROW * level))
                        at = law + own + ROW * level
                        _store(at, _plus(_load(at), share))
                        at = out + cell
                        _store(at, _plus_product(_load(at), weight, share))
    room[0] = 0.0  # numba lets go of an array after its last use


def joined(addresses: Any, sizes: Any) -> None:
    """What stands for each row, taken together.

    addresses  of contiguous memory, read: log_prob [E, K]; where those of each row end [R], one row after the other,
               each with one at least. Written: [R, K] the logarithm of the sum of their probabilities; [E, K] the share
               of each in it
    sizes      R, K; K is any number here
    """
    log_prob, ends, out, shares = addresses
    R, K = sizes
    start = 0
    for r in range(R):
        end = _integer(ends + 8 * r)
        for k in range(K):
            most = -math.inf
            for e in range(start, end):
                most = max(most, _number(log_prob + 8 * (e * K + k)))
            total = 0.0
            for e in range(start, end):
                at = 8 * (e * K + k)
                value = math.exp(_number(log_prob + at) - most)
                _set_number(shares + at, value)
                total += value
            _set_number(out + 8 * (r * K + k), most + math.log(total))
            for e in range(start, end):
                at = shares + 8 * (e * K + k)
                _set_number(at, _number(at) / total)
        start = end


LOOPS = {  # what each gives, how many addresses it takes, how many sizes
    "holes": (holes, types.boolean, 9, 3),
    "rows": (rows, types.void, 14, 3),
    "moments": (moments, types.void, 6, 3),
    "uncertain": (uncertain, types.void, 7, 3),
    "sums": (sums, types.void, 4, 3),
    "factors": (factors, types.boolean, 7, 4),
    "factor_rows": (factor_rows, types.void, 12, 4),
    "factor_moments": (factor_moments, types.void, 11, 4),
    "factor_sums": (factor_sums, types.void, 8, 4),
    "forest": (forest, types.void, 4, 5),
    "counts": (counts, types.void, 5, 5),
    "joined": (joined, types.void, 4, 2),
}


def compiled_loop(name: str) -> Any:
    """One of them, compiled."""
    function, given, addresses, sizes = LOOPS[name]
    return compiled(function, given(types.UniTuple(types.int64, addresses), types.UniTuple(types.int64, sizes)))
