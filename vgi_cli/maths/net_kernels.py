"""Loops that numba compiles, for float32 on a CPU: rows through the one of S small networks that each of them needs,
and the derivatives (`networks.py` says what is computed); the same for rows that all pass through one residual network
(`residual.py`). Importing this file needs numba; `compiled.py` asks for the loops.

In torch rows are sorted into tiles of one size, which are copied, filled up and multiplied layer by layer, with some
dozen passes over memory between. Here the rows of a network pass through all of its layers, BLOCK at a time, while they
lie in the first cache; what a row comes to depends on no other row, and sums over rows go in their order.

A vector is WIDE numbers of one row of a matrix, which lie next to each other; it is a type of its own here, as in
`row_kernels.py`. All matrices in the scratch array have rows that fill whole vectors; what lies in the places that fill
them enters nothing else. A product keeps what it sums in registers, of ROWS rows at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from llvmlite.binding import get_host_cpu_features
from numba import types
from numba.extending import intrinsic, models, register_model

from vgi_cli.maths.kernels import compiled, inlined

WIDE = 16
"""Numbers of a vector: as many as the widest ones have."""
ROWS = 6
"""Rows of a product that are summed together, each in a register or two."""
PAIRS = bool(get_host_cpu_features().get("avx512f"))
"""Whether there are registers for two vectors of so many rows."""
BLOCK = 36
"""Rows that pass through the layers together, a multiple of ROWS."""
TALL = 192
"""Rows of a residual network that pass through two layers together, a multiple of ROWS and of WIDE: so many that
weights and the sums of their gradients, which together may not stay in the second cache, are seldom fetched."""
SIZE = 4
"""Bytes of a number."""
LINE = WIDE * SIZE
"""Bytes of a vector."""
PAIR = 2 * LINE
"""Bytes of two."""
HIGH = (TALL // WIDE | 1) * LINE
"""Bytes from row to row of a matrix with a column for each of TALL rows: an odd number of vectors (`_apart`)."""
INT = 8
"""Bytes of an integer."""
WIDTH, WEIGHT, BIAS, TO_WEIGHT, TO_BIAS = (INT * place for place in range(5))
ENTRY = 5 * INT
"""Of a layer in the table of layers: its outputs, and the addresses of weight, bias and their gradients."""

_VECTOR = ir.VectorType(ir.FloatType(), WIDE)
_FUSED = ("contract",)


class _Vector(types.Type):  # type: ignore[misc]  # numba is not typed
    """WIDE numbers of float32."""

    def __init__(self) -> None:
        super().__init__(name=f"{WIDE} x float32")


_vector = _Vector()


@register_model(_Vector)
class _VectorModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _VECTOR)


@intrinsic
def _load(typing: Any, address: Any) -> Any:
    """The vector at an address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(builder.inttoptr(arguments[0], _VECTOR.as_pointer()), align=SIZE)

    return _vector(types.int64), generate


@intrinsic
def _store(typing: Any, address: Any, value: Any) -> Any:
    """A vector to an address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.store(arguments[1], builder.inttoptr(arguments[0], _VECTOR.as_pointer()), align=SIZE)
        return context.get_dummy_value()

    return types.void(types.int64, _vector), generate


@intrinsic
def _number(typing: Any, address: Any) -> Any:
    """The float32 at an address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(builder.inttoptr(arguments[0], ir.FloatType().as_pointer()), align=SIZE)

    return types.float32(types.int64), generate


@intrinsic
def _set_number(typing: Any, address: Any, value: Any) -> Any:
    """A float32 to an address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.store(arguments[1], builder.inttoptr(arguments[0], ir.FloatType().as_pointer()), align=SIZE)
        return context.get_dummy_value()

    return types.void(types.int64, types.float32), generate


@intrinsic
def _integer(typing: Any, address: Any) -> Any:
    """The int64 at an address."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load(builder.inttoptr(arguments[0], ir.IntType(64).as_pointer()), align=INT)

    return types.int64(types.int64), generate


@intrinsic
def _all(typing: Any, number: Any) -> Any:
    """A vector of one number."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        first = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), arguments[0], ir.IntType(32)(0))
        places = ir.Constant(ir.VectorType(ir.IntType(32), WIDE), [0] * WIDE)
        return builder.shuffle_vector(first, ir.Constant(_VECTOR, ir.Undefined), places)

    return _vector(types.float32), generate


@intrinsic
def _plus_product(typing: Any, a: Any, b: Any, c: Any) -> Any:
    """a + b c, in one rounding where the processor can."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.fadd(arguments[0], builder.fmul(*arguments[1:], flags=_FUSED), flags=_FUSED)

    return _vector(_vector, _vector, _vector), generate


@intrinsic
def _plus(typing: Any, a: Any, b: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.fadd(*arguments)

    return _vector(_vector, _vector), generate


@intrinsic
def _times(typing: Any, a: Any, b: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.fmul(*arguments)

    return _vector(_vector, _vector), generate


@intrinsic
def _where_positive(typing: Any, a: Any, b: Any, c: Any) -> Any:
    """b where a > 0, else c."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        above = builder.fcmp_ordered(">", arguments[0], ir.Constant(_VECTOR, [0.0] * WIDE))
        return builder.select(above, *arguments[1:])

    return _vector(_vector, _vector, _vector), generate


@intrinsic
def _where_low(typing: Any, a: Any, b: Any, c: Any) -> Any:
    """b where a <= 0, else c: where a is NaN too."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        low = builder.fcmp_ordered("<=", arguments[0], ir.Constant(_VECTOR, [0.0] * WIDE))
        return builder.select(low, *arguments[1:])

    return _vector(_vector, _vector, _vector), generate


@inlined
def _vectors(width: Any) -> Any:
    """Vectors of a row of so many numbers."""
    return (width + WIDE - 1) // WIDE


@inlined
def _filled(rows: Any) -> Any:
    """The next multiple of ROWS."""
    return (rows + ROWS - 1) // ROWS * ROWS


@inlined
def _copy(to: Any, source: Any, count: Any) -> None:
    """So many numbers."""
    whole = count // WIDE
    for v in range(whole):
        _store(to + v * LINE, _load(source + v * LINE))
    for i in range(whole * WIDE, count):
        _set_number(to + i * SIZE, _number(source + i * SIZE))


@inlined
def _add(to: Any, source: Any, count: Any) -> None:
    """So many numbers to others."""
    whole = count // WIDE
    for v in range(whole):
        _store(to + v * LINE, _plus(_load(to + v * LINE), _load(source + v * LINE)))
    for i in range(whole * WIDE, count):
        at = to + i * SIZE
        _set_number(at, _number(at) + _number(source + i * SIZE))


@inlined
def _product(a: Any, b: Any, c: Any, start: Any, shape: Any) -> None:
    """c = start + a b.

    a      address, bytes from row to row and from column to column
    b, c   address, bytes from row to row; columns lie next to each other
    start  as c; 0 bytes from row to row where all rows are the same
    shape  rows of c, a multiple of ROWS; columns of a; vectors of a row of c
    """
    a_at, a_row, a_column = a
    b_at, b_row = b
    c_at, c_row = c
    s_at, s_row = start
    rows, inner, vectors = shape
    paired = vectors // 2 * 2 if PAIRS else 0
    for r in range(0, rows, ROWS):
        a_0, s_0, c_0 = a_at + r * a_row, s_at + r * s_row, c_at + r * c_row
        a_1, s_1, c_1 = a_0 + a_row, s_0 + s_row, c_0 + c_row
        a_2, s_2, c_2 = a_0 + 2 * a_row, s_0 + 2 * s_row, c_0 + 2 * c_row
        a_3, s_3, c_3 = a_0 + 3 * a_row, s_0 + 3 * s_row, c_0 + 3 * c_row
        a_4, s_4, c_4 = a_0 + 4 * a_row, s_0 + 4 * s_row, c_0 + 4 * c_row
        a_5, s_5, c_5 = a_0 + 5 * a_row, s_0 + 5 * s_row, c_0 + 5 * c_row
        for v in range(0, paired * LINE, 2 * LINE):
            w = v + LINE
            p_0, q_0 = _load(s_0 + v), _load(s_0 + w)
            p_1, q_1 = _load(s_1 + v), _load(s_1 + w)
            p_2, q_2 = _load(s_2 + v), _load(s_2 + w)
            p_3, q_3 = _load(s_3 + v), _load(s_3 + w)
            p_4, q_4 = _load(s_4 + v), _load(s_4 + w)
            p_5, q_5 = _load(s_5 + v), _load(s_5 + w)
            at, k = b_at + v, 0
            for _ in range(inner):
                left, right = _load(at), _load(at + LINE)
                f = _all(_number(a_0 + k))
                p_0, q_0 = _plus_product(p_0, f, left), _plus_product(q_0, f, right)
                f = _all(_number(a_1 + k))
                p_1, q_1 = _plus_product(p_1, f, left), _plus_product(q_1, f, right)
                f = _all(_number(a_2 + k))
                p_2, q_2 = _plus_product(p_2, f, left), _plus_product(q_2, f, right)
                f = _all(_number(a_3 + k))
                p_3, q_3 = _plus_product(p_3, f, left), _plus_product(q_3, f, right)
                f = _all(_number(a_4 + k))
                p_4, q_4 = _plus_product(p_4, f, left), _plus_product(q_4, f, right)
                f = _all(_number(a_5 + k))
                p_5, q_5 = _plus_product(p_5, f, left), _plus_product(q_5, f, right)
                at, k = at + b_row, k + a_column
            _store(c_0 + v, p_0)
            _store(c_0 + w, q_0)
            _store(c_1 + v, p_1)
            _store(c_1 + w, q_1)
            _store(c_2 + v, p_2)
            _store(c_2 + w, q_2)
            _store(c_3 + v, p_3)
            _store(c_3 + w, q_3)
            _store(c_4 + v, p_4)
            _store(c_4 + w, q_4)
            _store(c_5 + v, p_5)
            _store(c_5 + w, q_5)
        for v in range(paired * LINE, vectors * LINE, LINE):
            p_0, p_1, p_2 = _load(s_0 + v), _load(s_1 + v), _load(s_2 + v)
            p_3, p_4, p_5 = _load(s_3 + v), _load(s_4 + v), _load(s_5 + v)
            at, k = b_at + v, 0
            for _ in range(inner):
                left = _load(at)
                p_0 = _plus_product(p_0, _all(_number(a_0 + k)), left)
                p_1 = _plus_product(p_1, _all(_number(a_1 + k)), left)
                p_2 = _plus_product(p_2, _all(_number(a_2 + k)), left)
                p_3 = _plus_product(p_3, _all(_number(a_3 + k)), left)
                p_4 = _plus_product(p_4, _all(_number(a_4 + k)), left)
                p_5 = _plus_product(p_5, _all(_number(a_5 + k)), left)
                at, k = at + b_row, k + a_column
            _store(c_0 + v, p_0)
            _store(c_1 + v, p_1)
            _store(c_2 + v, p_2)
            _store(c_3 + v, p_3)
            _store(c_4 + v, p_4)
            _store(c_5 + v, p_5)


@inlined
def _sorted(j: Any, rows: Any, S: Any) -> Any:
    """The rows by their networks, in their order, and where those of each network begin."""
    starts = np.zeros(S + 1, np.int64)
    for q in range(rows):
        starts[_integer(j + q * INT) + 1] += 1
    for s in range(S):
        starts[s + 1] += starts[s]
    order, place = np.empty(rows, np.int64), starts.copy()
    for q in range(rows):
        s = _integer(j + q * INT)
        order[place[s]] = q
        place[s] += 1
    return order, starts


@inlined
def _gather(to: Any, source: Any, width: Any, some: Any, hidden: Any) -> None:
    """Rows of so many numbers, some of a source with one row for each M of them; column `hidden` (-1: none) as 0.

    some  their numbers, and M
    """
    numbers, M = some
    row = _vectors(width) * LINE
    for r in range(len(numbers)):
        _copy(to + r * row, source + numbers[r] // M * width * SIZE, width)
        if hidden >= 0:
            _set_number(to + r * row + hidden * SIZE, np.float32(0))


@inlined
def _layer(layers: Any, index: Any, what: Any) -> Any:
    """An entry of the table of layers."""
    return _integer(layers + index * ENTRY + what)


@inlined
def _widths(layers: Any, count: Any, F: Any) -> Any:
    """What goes into each layer, and at last what comes out."""
    widths = np.empty(count + 1, np.int64)
    widths[0] = F
    for index in range(count):
        widths[index + 1] = _layer(layers, index, WIDTH)
    return widths


@inlined
def _filled_rows(to: Any, weight: Any, inputs: Any, outputs: Any) -> Any:
    """Where the weights [inputs, outputs] of a network lie with rows that fill vectors: where they are, or copied."""
    if outputs % WIDE == 0:
        return weight
    for i in range(inputs):
        _copy(to + i * _vectors(outputs) * LINE, weight + i * outputs * SIZE, outputs)
    return to


@inlined
def _activate(to: Any, source: Any, vectors: Any, leak: Any) -> None:
    """Leaky ReLU of so many vectors."""
    for v in range(0, vectors * LINE, LINE):
        value = _load(source + v)
        _store(to + v, _where_positive(value, value, _times(leak, value)))


@inlined
def _add_vectors(to: Any, source: Any, vectors: Any) -> None:
    """So many vectors to others."""
    for v in range(0, vectors * LINE, LINE):
        _store(to + v, _plus(_load(to + v), _load(source + v)))


def forward(addresses: Any, sizes: Any, slope: Any) -> None:
    """The rows through their networks.

    addresses  of contiguous memory, read: inputs h [Q / M_h, F] and x [Q / M_x, D]; the network of each row j [Q]
               (int64); the table of layers, and after them the linear map of x. Written: out [Q, width]; what comes out
               of each activation, of all rows by their networks, layer after layer, and WIDE more numbers (0: not kept)
    sizes      Q; S; layers; how many of them, the first ones, have an activation; F; M_h; whether h has the network's
               own column hidden; D, 0: there is no map of x; M_x; whether x has
    slope      of the leaky ReLU
    """
    h, x, j, layers, out, kept = addresses
    Q, S, count, active, F, M_h, hide_h, D, M_x, hide_x = sizes
    order, starts = _sorted(j, Q, S)
    widths = _widths(layers, count, F)
    width = widths[count]
    widest = max(D, widths.max())
    line = _vectors(widest) * LINE
    room = np.zeros((1 + 2 * BLOCK + widest) * line // SIZE, np.float32)
    bias = room.ctypes.data
    first, second, filled = bias + line, bias + (1 + BLOCK) * line, bias + (1 + 2 * BLOCK) * line
    leak = _all(slope)
    for s in range(S):
        for begin in range(starts[s], starts[s + 1], BLOCK):
            some = order[begin : min(begin + BLOCK, starts[s + 1])]
            n, rows = len(some), _filled(len(some))
            here, there, at = first, second, kept
            _gather(here, h, F, (some, M_h), s if hide_h else -1)
            for index in range(count):
                inputs, outputs = widths[index], widths[index + 1]
                vectors = _vectors(outputs)
                row = vectors * LINE
                weight = _layer(layers, index, WEIGHT) + s * inputs * outputs * SIZE
                _copy(bias, _layer(layers, index, BIAS) + s * outputs * SIZE, outputs)
                if D and index == count - 1:
                    _add(bias, _layer(layers, count, BIAS) + s * outputs * SIZE, outputs)
                b = _filled_rows(filled, weight, inputs, outputs), row
                _product((here, _vectors(inputs) * LINE, SIZE), b, (there, row), (bias, 0), (rows, inputs, vectors))
                if index < active:
                    _activate(there, there, rows * vectors, leak)
                    if kept:
                        for r in range(n):
                            _copy(at + (begin + r) * outputs * SIZE, there + r * row, outputs)
                        at += Q * outputs * SIZE
                    if index > 0 and outputs == inputs:
                        _add_vectors(there, here, rows * vectors)
                here, there = there, here
            row = _vectors(width) * LINE
            if D:
                _gather(there, x, D, (some, M_x), s if hide_x else -1)
                b = _filled_rows(filled, _layer(layers, count, WEIGHT) + s * D * width * SIZE, D, width), row
                a, shape = (there, _vectors(D) * LINE, SIZE), (rows, D, _vectors(width))
                _product(a, b, (here, row), (here, row), shape)
            for r in range(n):
                _copy(out + some[r] * width * SIZE, here + r * row, width)
    room[0] = 0.0  # numba lets go of an array after its last use


@inlined
def _to_parameters(a: Any, inputs: Any, g: Any, outputs: Any, sums: Any) -> None:
    """What a block of rows adds to the gradients of a layer of a network.

    a, g  address of what goes in [rows, inputs] and of the gradient of what comes out [rows, outputs], in rows that
          fill vectors; of g also how many rows
    sums  address of what they add to, a line for the biases and the lines of the weights; and for the first block,
          which sets them, a line of zeros, else 0
    """
    g_at, n = g
    to, zeros = sums
    vectors = _vectors(outputs)
    row = vectors * LINE
    for v in range(0, row, LINE):
        total = _load((zeros if zeros else to) + v)
        for r in range(n):
            total = _plus(total, _load(g_at + r * row + v))
        _store(to + v, total)
    start = (zeros, 0) if zeros else (to + row, row)
    a_columns = a, SIZE, _vectors(inputs) * LINE  # turned: its columns are the rows of the product
    _product(a_columns, (g_at, row), (to + row, row), start, (_filled(inputs), n, vectors))


@inlined
def _into(layers: Any, index: Any, s: Any, shape: Any, sums: Any) -> None:
    """What the blocks of a network came to into the gradients of a layer; sums 0: no row is in it, they are 0."""
    inputs, outputs = shape
    row = _vectors(outputs) * LINE
    bias, weight = _layer(layers, index, TO_BIAS), _layer(layers, index, TO_WEIGHT)
    bias, weight = bias + s * outputs * SIZE, weight + s * inputs * outputs * SIZE
    if sums:
        _copy(bias, sums, outputs)
        for i in range(inputs):
            _copy(weight + i * outputs * SIZE, sums + (1 + i) * row, outputs)
    else:
        for o in range(outputs):
            _set_number(bias + o * SIZE, np.float32(0))
        for i in range(inputs * outputs):
            _set_number(weight + i * SIZE, np.float32(0))


@inlined
def _turn(to: Any, weight: Any, inputs: Any, outputs: Any) -> None:
    """Weights [inputs, outputs] as [outputs, inputs], in rows that fill vectors."""
    row = _vectors(inputs) * LINE
    for o in range(outputs):
        for i in range(inputs):
            _set_number(to + o * row + i * SIZE, _number(weight + (i * outputs + o) * SIZE))


@inlined
def _places(widths: Any, D: Any) -> Any:
    """Where in the scratch array the sums of each layer lie, and of the map of x; where the turned weights of each
    layer; and where all these end."""
    count = len(widths) - 1
    sums, turned = np.empty(count + 1, np.int64), np.empty(count, np.int64)
    end = 0
    for index in range(count):
        sums[index] = end
        end += (1 + _filled(widths[index])) * _vectors(widths[index + 1]) * LINE
        turned[index] = end
        end += widths[index + 1] * _vectors(widths[index]) * LINE
    sums[count] = end
    return sums, turned, end + (1 + _filled(D)) * _vectors(widths[count]) * LINE


def backward(addresses: Any, sizes: Any, slope: Any) -> None:
    """The derivatives of `forward`.

    addresses  of contiguous memory, read: as there, but for `out`, which is its gradient here. Written: the gradient of
               h (0: not wanted), which is added to where M_h is more than 1, and those that the table of layers has
    sizes, slope  as there
    """
    h, x, j, layers, grad, kept, to_h = addresses
    Q, S, count, active, F, M_h, hide_h, D, M_x, hide_x = sizes
    order, starts = _sorted(j, Q, S)
    widths = _widths(layers, count, F)
    width = widths[count]
    sums, turned, ends = _places(widths, D)
    line = _vectors(max(D, widths.max())) * LINE
    block = BLOCK * line
    room = np.zeros((line + (count + 4) * block + ends) // SIZE, np.float32)
    zeros = room.ctypes.data
    x_at = zeros + line
    grad_at, raw_at, next_at, inner = x_at + block, x_at + 2 * block, x_at + 3 * block, x_at + 4 * block
    sums += inner + count * block  # `inner` is what goes into each layer
    turned += inner + count * block
    leak = _all(slope)
    for s in range(S):
        if starts[s] == starts[s + 1]:
            for index in range(count):
                _into(layers, index, s, (widths[index], widths[index + 1]), 0)
            if D:
                _into(layers, count, s, (D, width), 0)
            continue
        for index in range(0 if to_h else 1, count):
            weight = _layer(layers, index, WEIGHT) + s * widths[index] * widths[index + 1] * SIZE
            _turn(turned[index], weight, widths[index], widths[index + 1])
        for begin in range(starts[s], starts[s + 1], BLOCK):
            some = order[begin : min(begin + BLOCK, starts[s + 1])]
            n, rows = len(some), _filled(len(some))
            fresh = zeros if begin == starts[s] else 0
            _gather(inner, h, F, (some, M_h), s if hide_h else -1)
            at = kept
            for index in range(active):
                outputs, here = widths[index + 1], inner + index * block
                if index < count - 1:
                    vectors = _vectors(outputs)
                    for r in range(n):
                        _copy(here + block + r * vectors * LINE, at + (begin + r) * outputs * SIZE, outputs)
                    if index > 0 and outputs == widths[index]:
                        _add_vectors(here + block, here, rows * vectors)
                at += Q * outputs * SIZE
            g, z, following = grad_at, raw_at, next_at
            _gather(g, grad, width, (some, 1), -1)
            if D:
                _gather(x_at, x, D, (some, M_x), s if hide_x else -1)
                _to_parameters(x_at, D, (g, n), width, (sums[count], fresh))
            for back in range(count):
                index = count - 1 - back
                inputs, outputs = widths[index], widths[index + 1]
                row = _vectors(outputs) * LINE
                raw, same = g, False  # g: of what goes on; raw: of what the layer gives, before its activation
                if index < active:
                    raw, same = z, index > 0 and outputs == inputs
                    at -= Q * outputs * SIZE
                    for r in range(n):
                        given = at + (begin + r) * outputs * SIZE
                        for v in range(0, row, LINE):
                            value = _load(g + r * row + v)
                            _store(z + r * row + v, _where_positive(_load(given + v), value, _times(leak, value)))
                _to_parameters(inner + index * block, inputs, (raw, n), outputs, (sums[index], fresh))
                if index > 0 or to_h:
                    into = _vectors(inputs) * LINE
                    start, shape = (g, row) if same else (zeros, 0), (rows, outputs, _vectors(inputs))
                    _product((raw, row, SIZE), (turned[index], into), (following, into), start, shape)
                    g, following = following, g
            if to_h:
                for r in range(n):
                    to, own = to_h + some[r] // M_h * F * SIZE, g + r * _vectors(F) * LINE
                    if M_h > 1:
                        _add(to, own, F)
                    else:
                        _copy(to, own, F)
        for index in range(count):
            _into(layers, index, s, (widths[index], widths[index + 1]), sums[index])
        if D:
            _into(layers, count, s, (D, width), sums[count])
    room[0] = 0.0  # numba lets go of an array after its last use


# Residual networks. All rows take the same layers, which may be wide: TALL rows pass through two of them together, and
# then the next ones. Rows lie one below the other, `_apart`; what comes from torch and goes to it has a column for each
# row.


@inlined
def _apart(width: Any) -> Any:
    """Bytes from row to row: an odd number of vectors, so that rows do not meet in a few places of the cache."""
    return (_vectors(width) | 1) * LINE


@inlined
def _panelled(inner: Any, columns: Any) -> Any:
    """Bytes that `_panels` writes."""
    return (columns + 2 * WIDE - 1) // (2 * WIDE) * inner * PAIR


@inlined
def _panels(to: Any, weight: Any, shape: Any, steps: Any) -> None:
    """A matrix [inner, columns] as panels of two vectors of columns, one after the other, each with all of its rows.

    steps  bytes from row to row and from column to column
    """
    inner, columns = shape
    down, right = steps
    for first in range(0, columns, 2 * WIDE):
        count = min(2 * WIDE, columns - first)
        source = weight + first * right
        for k in range(inner):
            for c in range(count):
                _set_number(to + c * SIZE, _number(source + k * down + c * right))
            for c in range(count, 2 * WIDE):
                _set_number(to + c * SIZE, np.float32(0))
            to += PAIR


@inlined
def _by_panels(a: Any, panels: Any, c: Any, start: Any, shape: Any) -> None:
    """`_product` with a matrix that `_panels` wrote: one of them stays in the first cache for all rows."""
    c_at, c_row = c
    s_at, s_row = start
    rows, inner, vectors = shape
    for v in range(0, vectors, 2):
        b, at = (panels + v // 2 * inner * PAIR, PAIR), v * LINE
        _product(a, b, (c_at + at, c_row), (s_at + at, s_row), (rows, inner, min(2, vectors - v)))


@inlined
def _cut(to: Any, source: Any, lines: Any, some: Any) -> None:
    """Columns of so many lines into lines of HIGH.

    some  how many columns; bytes from line to line
    """
    n, step = some
    for i in range(lines):
        _copy(to + i * HIGH, source + i * step, n)


@inlined
def _mask(to: Any, mask: Any, shape: Any, steps: Any) -> None:
    """Rows times those of a mask.

    shape  rows, numbers of a row
    steps  bytes from row to row of `to`; of the mask, from row to row and from number to number
    """
    rows, width = shape
    row, down, right = steps
    whole = width // WIDE * LINE if right == SIZE else 0
    for r in range(rows):
        at, own = to + r * row, mask + r * down
        for v in range(0, whole, LINE):
            _store(at + v, _times(_load(at + v), _load(own + v)))
        for i in range(whole // SIZE, width):
            _set_number(at + i * SIZE, _number(at + i * SIZE) * _number(own + i * right))


def residual(addresses: Any, sizes: Any) -> None:
    """Rows through a residual network: h = W x + b; h = h + W2 (mask relu(W1 relu(h) + b1)) + b2 in each block;
    out = W h + b.

    addresses  read: x [F, R]; the table of layers, with weights [outputs, inputs]; the address of the mask of each
               block (0: none). Written: out [E, R]; h, and after it, where these are kept, relu(h) and what the second
               layer sees of each block, all with lines `_apart` and with the rows that fill up R
    sizes      R; the first row, a multiple of ROWS, and the one after the last; F; H; blocks; E; whether these are
               kept; bytes of a mask from row to row and from unit to unit
    """
    x, layers, masks, out, kept = addresses
    R, first, end, F, H, blocks, E, keep, down, right = sizes
    row, vectors, line = _apart(H), _vectors(H), R * SIZE
    layer = _filled(R) * row
    each = max(_panelled(H, H), _panelled(F, H), _filled(E) * H * SIZE)
    lines = F + H + 2 * _filled(E)
    room = np.zeros((row + 2 * each + 2 * TALL * row + lines * HIGH) // SIZE, np.float32)
    bias = room.ctypes.data
    weight, second = bias + row, bias + row + each
    a, z = second + each, second + each + TALL * row
    seen = z + TALL * row
    turned = seen + F * HIGH
    last, biases = turned + H * HIGH, turned + (H + _filled(E)) * HIGH
    zero = _all(np.float32(0))
    _panels(weight, _layer(layers, 0, WEIGHT), (F, H), (SIZE, F * SIZE))
    _copy(bias, _layer(layers, 0, BIAS), H)
    for begin in range(first, end, TALL):
        n = min(TALL, end - begin)
        _cut(seen, x + begin * SIZE, F, (n, line))
        _by_panels((seen, SIZE, HIGH), weight, (kept + begin * row, row), (bias, 0), (_filled(n), F, vectors))
    for block in range(blocks):
        index = 1 + 2 * block
        mask = _integer(masks + block * INT)
        _panels(weight, _layer(layers, index, WEIGHT), (H, H), (SIZE, H * SIZE))
        _panels(second, _layer(layers, index + 1, WEIGHT), (H, H), (SIZE, H * SIZE))
        for begin in range(first, end, TALL):
            n = min(TALL, end - begin)
            rows, h = _filled(n), kept + begin * row
            if keep:
                a, z = h + index * layer, h + (index + 1) * layer
            for v in range(0, rows * row, LINE):
                _store(a + v, _where_low(_load(h + v), zero, _load(h + v)))
            _copy(bias, _layer(layers, index, BIAS), H)
            _by_panels((a, row, SIZE), weight, (z, row), (bias, 0), (rows, H, vectors))
            for v in range(0, rows * row, LINE):
                _store(z + v, _where_low(_load(z + v), zero, _load(z + v)))
            if mask:
                _mask(z, mask + begin * down, (n, H), (row, down, right))
            _by_panels((z, row, SIZE), second, (h, row), (h, row), (rows, H, vectors))
            _copy(bias, _layer(layers, index + 1, BIAS), H)
            for r in range(rows):
                _add_vectors(h + r * row, bias, vectors)
    index = 1 + 2 * blocks
    _copy(weight, _layer(layers, index, WEIGHT), E * H)
    for e in range(E):
        value = _all(_number(_layer(layers, index, BIAS) + e * SIZE))
        for v in range(0, HIGH, LINE):
            _store(biases + e * HIGH + v, value)
    for begin in range(first, end, TALL):
        n, h = min(TALL, end - begin), kept + begin * row
        for i in range(H):
            for r in range(n):
                _set_number(turned + i * HIGH + r * SIZE, _number(h + r * row + i * SIZE))
        shape = (_filled(E), H, _vectors(n))
        _product((weight, H * SIZE, SIZE), (turned, HIGH), (last, HIGH), (biases, HIGH), shape)
        for e in range(E):
            _copy(out + e * line + begin * SIZE, last + e * HIGH, n)
    room[0] = 0.0  # numba lets go of an array after its last use


@inlined
def _grow(sums: Any, g: Any, a: Any, zeros: Any, shape: Any) -> None:
    """What rows add to the sums for a weight.

    sums   [outputs, inputs], in rows that fill vectors
    g      of what comes out: address, bytes from output to output and from row to row
    a      what goes in: address, bytes from row to row
    zeros  a line of them for the first rows, which set the sums; else 0
    shape  outputs, rows, inputs
    """
    outputs, rows, inputs = shape
    row = _vectors(inputs) * LINE
    start = (zeros, 0) if zeros else (sums, row)
    _product(g, a, (sums, row), start, (_filled(outputs), rows, _vectors(inputs)))


@inlined
def _sum_rows(to: Any, source: Any, rows: Any, row: Any) -> None:
    """Rows to a line."""
    for v in range(0, row, LINE):
        total = _load(to + v)
        for r in range(rows):
            total = _plus(total, _load(source + r * row + v))
        _store(to + v, total)


@inlined
def _take(layers: Any, index: Any, sums: Any, line: Any, shape: Any) -> None:
    """Sums [outputs, inputs] and [outputs] into the gradients of a layer; the line of the latter is 0 then."""
    outputs, inputs = shape
    _copy(_layer(layers, index, TO_BIAS), line, outputs)
    for e in range(outputs):
        to = _layer(layers, index, TO_WEIGHT) + e * inputs * SIZE
        _copy(to, sums + e * _vectors(inputs) * LINE, inputs)
        _set_number(line + e * SIZE, np.float32(0))


def residual_gradients(addresses: Any, sizes: Any, scale: Any) -> None:
    """The derivatives of `residual`.

    addresses  read: x and the table of layers as there, the gradient of out, what was kept. Written: the gradient of x
               (0: not wanted) and those that the table has; and room as for h
    sizes      as there
    scale      what a mask is where it is not 0; 1 where there is none
    """
    x, layers, grad, kept, to_x, g = addresses
    R, first, end, F, H, blocks, E, _, _, _ = sizes
    row, vectors, line = _apart(H), _vectors(H), R * SIZE
    x_row, layer = _apart(F), _filled(R) * row
    widest = _apart(max(F, H, E))
    each = max(_panelled(H, H), _panelled(E, H), _panelled(H, F))
    total = _filled(max(F, H, E)) * vectors * LINE
    lines = _filled(E) + _filled(F)
    size = 3 * widest + 2 * each + 2 * total + TALL * (2 * row + x_row) + lines * HIGH
    room = np.zeros(size // SIZE, np.float32)
    zeros = room.ctypes.data
    bias, second_bias = zeros + widest, zeros + 2 * widest
    weight, second = zeros + 3 * widest, zeros + 3 * widest + each
    sums, second_sums = second + each, second + each + total
    u, back = second_sums + total, second_sums + total + TALL * row
    x_at = back + TALL * row
    turned = x_at + TALL * x_row
    zero, scaled = _all(np.float32(0)), _all(scale)
    index = 1 + 2 * blocks
    _panels(weight, _layer(layers, index, WEIGHT), (E, H), (H * SIZE, SIZE))
    for begin in range(first, end, TALL):
        n, own = min(TALL, end - begin), g + begin * row
        _cut(turned, grad + begin * SIZE, E, (n, line))
        for e in range(E):
            value = _number(bias + e * SIZE)
            for r in range(n):
                value += _number(turned + e * HIGH + r * SIZE)
            _set_number(bias + e * SIZE, value)
        fresh = zeros if begin == first else 0
        _grow(sums, (turned, HIGH, SIZE), (kept + begin * row, row), fresh, (E, n, H))
        _by_panels((turned, SIZE, HIGH), weight, (own, row), (zeros, 0), (_filled(n), E, vectors))
    _take(layers, index, sums, bias, (E, H))
    for before in range(blocks):
        index = 1 + 2 * (blocks - 1 - before)
        _panels(weight, _layer(layers, index, WEIGHT), (H, H), (H * SIZE, SIZE))
        _panels(second, _layer(layers, index + 1, WEIGHT), (H, H), (H * SIZE, SIZE))
        for begin in range(first, end, TALL):
            n, own = min(TALL, end - begin), g + begin * row
            rows, a = _filled(n), kept + begin * row + index * layer
            z = a + layer
            fresh = zeros if begin == first else 0
            _sum_rows(second_bias, own, n, row)
            _grow(second_sums, (own, SIZE, row), (z, row), fresh, (H, n, H))
            _by_panels((own, row, SIZE), second, (u, row), (zeros, 0), (rows, H, vectors))
            for v in range(0, rows * row, LINE):
                _store(u + v, _where_low(_load(z + v), zero, _times(_load(u + v), scaled)))
            _sum_rows(bias, u, n, row)
            _grow(sums, (u, SIZE, row), (a, row), fresh, (H, n, H))
            _by_panels((u, row, SIZE), weight, (back, row), (zeros, 0), (rows, H, vectors))
            for v in range(0, rows * row, LINE):
                _store(own + v, _plus(_load(own + v), _where_low(_load(a + v), zero, _load(back + v))))
        _take(layers, index, sums, bias, (H, H))
        _take(layers, index + 1, second_sums, second_bias, (H, H))
    if to_x:
        _panels(weight, _layer(layers, 0, WEIGHT), (H, F), (F * SIZE, SIZE))
    for begin in range(first, end, TALL):
        n, own = min(TALL, end - begin), g + begin * row
        _cut(turned, x + begin * SIZE, F, (n, line))
        _sum_rows(bias, own, n, row)
        _grow(sums, (turned, HIGH, SIZE), (own, row), zeros if begin == first else 0, (F, n, H))
        if to_x:
            _by_panels((own, row, SIZE), weight, (x_at, x_row), (zeros, 0), (_filled(n), H, _vectors(F)))
            for f in range(F):
                for r in range(n):
                    _set_number(to_x + f * line + (begin + r) * SIZE, _number(x_at + r * x_row + f * SIZE))
    _copy(_layer(layers, 0, TO_BIAS), bias, H)
    to = _layer(layers, 0, TO_WEIGHT)
    for i in range(H):
        for f in range(F):
            _set_number(to + (i * F + f) * SIZE, _number(sums + f * vectors * LINE + i * SIZE))
    room[0] = 0.0  # numba lets go of an array after its last use


LOOPS: dict[str, tuple[Callable[..., None], int, int, bool]] = {
    "networks": (forward, 6, 10, True),
    "network_gradients": (backward, 7, 10, True),
    "residual": (residual, 5, 10, False),
    "residual_gradients": (residual_gradients, 6, 10, True),
}
"""How many addresses and sizes each takes, and whether a number besides."""


def compiled_loop(name: str) -> Any:
    """One of them, compiled."""
    function, addresses, sizes, number = LOOPS[name]
    read = types.UniTuple(types.int64, addresses), types.UniTuple(types.int64, sizes), *[types.float32] * number
    return compiled(function, types.void(*read))
