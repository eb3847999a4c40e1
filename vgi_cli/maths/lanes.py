"""Incomplete rows under K Gaussians and K forests by the compiled loops of `row_kernels.py`: tensors as those want
them, the numbers of the components next to each other."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from vgi_cli.maths.compiled import Loop, kernel, suits_rows
from vgi_cli.maths.forests import Forest

Done = TypeVar("Done")
LANES = 8
"""Components that a loop looks at together, `row_kernels.LANES`: last dimensions are filled up to a multiple."""
LARGE = 1 << 24
"""Multiplications that are worth a thread of their own."""
WORTH = 256
"""Rows times components from which the loops are used, where there are any: loading them takes a while."""


def suit(R: int, K: int, *values: Tensor, least: int = WORTH) -> bool:
    """Whether there are loops for such values (rows, parameters), and so many rows and components, `least` of them when
    multiplied, are worth loading them."""
    return least <= R * K and suits_rows(*values)


def filled(K: int) -> int:
    """How many components there are when the last vector is full."""
    return -(-K // LANES) * LANES


@functools.lru_cache(maxsize=64)
def _filling(K: int) -> Tensor:
    """[filled(K)] which component stands in each lane."""
    return torch.arange(filled(K)).clamp(max=K - 1)


def in_lanes(values: Tensor) -> Tensor:
    """[K, ..] with the components last and filled up: [.., filled(K)]; those that fill are copies of the last one."""
    return values.index_select(0, _filling(values.shape[0])).movedim(0, -1).contiguous()


def weighted_lanes(weights: Tensor) -> Tensor:
    """Weights [R, K] filled up with zeros: [R, filled(K)]."""
    R, K = weights.shape
    out = weights.new_zeros(R, filled(K))
    out[:, :K] = weights
    return out


class Holes(NamedTuple):
    """Patterns of holes as the loops read them.

    columns  [U, D] (int64) the columns with holes, in order, then the others
    counts   [U] numbers of holes
    starts   [U] where the triangle of each pattern begins among all of them
    sides    [U] 1 where a pattern is looked at from its observed cells, 0 where from its holes
    cells    of all triangles together
    """

    columns: Tensor
    counts: Tensor
    starts: Tensor
    sides: Tensor
    cells: int


def holes_of(missing: Tensor) -> Holes:
    """Of patterns [U, D]; from the side that is less work."""
    D = missing.shape[1]
    columns = torch.argsort((~missing).to(torch.uint8), dim=1, stable=True)
    counts = missing.sum(1)
    sides = (D - counts) * D**2 < counts**3
    size = torch.where(sides, D, counts)
    size = size * (size + 1) // 2
    ends = size.cumsum(0)
    return Holes(columns.contiguous(), counts, ends - size, sides.to(torch.int64), int(ends[-1]))


class Laws(NamedTuple):
    """Gaussians in lanes: means [D, filled(K)], precisions and covariances [D, D, filled(K)], logdet [filled(K)] of the
    latter."""

    mean: Tensor
    precision: Tensor
    covariance: Tensor
    logdet: Tensor


def laws_of(mean: Tensor, tril: Tensor) -> Laws:
    """Of means [K, D] and tril [K, D, D], as of `FullGaussians`."""
    D, F = mean.shape[1], filled(len(mean))
    made = Laws(*(mean.new_empty(*shape, F) for shape in ((D,), (D, D), (D, D), ())))
    kernel("laws")(mean.contiguous().numpy(), tril.contiguous().numpy(), *(part.numpy() for part in made))
    return made


class HoleTriangles(NamedTuple):
    """What missing cells are given the observed ones (`row_kernels.holes`).

    packed  [cells, filled(K)] the lower triangles of covariances, and of what belongs to them
    logdet  [U, filled(K)] the logarithm of the determinant of the precision of the missing cells
    """

    packed: Tensor
    logdet: Tensor


def hole_triangles(laws: Laws, holes: Holes) -> HoleTriangles:
    """Raises torch.linalg.LinAlgError where a block is not positive definite."""
    (U, D), K = holes.columns.shape, laws.mean.shape[-1]
    packed, logdet = made = HoleTriangles(laws.mean.new_empty(holes.cells, K), laws.mean.new_empty(U, K))

    def look(_: int, some: slice) -> bool:
        own = [_of(part, some) for part in holes[:4]]
        return bool(_run("holes", (*laws[1:], *own, packed, _of(logdet, some)), (_length(some), D, K)))

    if not all(_side_by_side(_parts(U, holes.cells * K * D), look)):
        raise torch.linalg.LinAlgError("a matrix is not positive definite")
    return made


class Seen(NamedTuple):
    """Rows through their holes.

    delta     [R, D, filled(K)] the row less the mean, of a missing cell its conditional mean less the mean
    log_prob  [R, filled(K)] log p(x_obs)
    """

    delta: Tensor
    log_prob: Tensor


def seen(x: Tensor, of_row: Tensor, laws: Laws, holes: Holes, triangles: HoleTriangles) -> Seen:
    """Rows x [R, D] (float64, anything at missing cells) of patterns of_row [R]."""
    (R, D), K = x.shape, laws.mean.shape[-1]
    made = Seen(x.new_empty(R, D, K), x.new_empty(R, K))
    x, of_row = x.contiguous(), of_row.contiguous()

    def look(_: int, some: slice) -> None:
        read = (_of(x, some), _of(of_row, some), *laws, *holes[:4], *triangles)
        _run("rows", (*read, *(_of(part, some) for part in made)), (_length(some), D, K))

    _side_by_side(_parts(R, R * K * D**2), look)
    return made


def moments(
    delta: Tensor, weights: Tensor, of_row: Tensor, holes: Holes, triangles: HoleTriangles
) -> tuple[Tensor, Tensor]:
    """First [D, filled(K)] and second [D, D, filled(K)] moments of `Seen.delta` under weights [R, filled(K)], what is
    uncertain of missing cells included; of the second the lower triangle alone."""
    (R, D, K), U = delta.shape, len(holes.counts)
    parts, of_row = _parts(R, R * K * D**2), of_row.contiguous()
    n = len(parts)
    by_pattern, total, second = delta.new_zeros(n, U, K), delta.new_zeros(n, D, K), delta.new_zeros(n, D, D, K)

    def rows(i: int, some: slice) -> None:
        read = (_of(delta, some), _of(weights, some), _of(of_row, some))
        _run("moments", (*read, by_pattern[i], total[i], second[i]), (_length(some), D, K))

    _side_by_side(parts, rows)
    weight = _together(by_pattern)
    patterns = [slice(0, U)] if n == 1 else _parts(U, R * K * D**2)

    def uncertain(i: int, some: slice) -> None:
        own = [_of(part, some) for part in holes[:4]]
        _run("uncertain", (_of(weight, some), *own, triangles.packed, second[i]), (_length(some), D, K))

    _side_by_side(patterns, uncertain)
    return _together(total), _together(second)


def sums(delta: Tensor, weights: Tensor, place: Tensor, J: int) -> Tensor:
    """[J, 1 + D, filled(K)] weights and weighted `Seen.delta`, summed over the rows of each place [R]."""
    R, D, K = delta.shape
    parts, place = _parts(R, R * K * D), place.contiguous()
    out = delta.new_zeros(len(parts), J, 1 + D, K)

    def add(i: int, some: slice) -> None:
        read = (_of(delta, some), _of(weights, some), _of(place, some))
        _run("sums", (*read, out[i]), (_length(some), D, K))

    _side_by_side(parts, add)
    return _together(out)


class FactorLaws(NamedTuple):
    """Factor models in lanes: means [D, filled(K)], loadings [D, L, filled(K)], inverse noise variances
    [D, filled(K)] and their logarithms."""

    mean: Tensor
    loadings: Tensor
    inverse: Tensor
    log_inverse: Tensor


class FactorRows:
    """Rows x [R, D] (float64, anything at missing cells) of patterns of_row [R] under factor models.

    log_prob  [R, filled(K)] log p(x_obs)
    z         [R, L, filled(K)] the factors' means given the observed cells
    """

    def __init__(self, x: Tensor, of_row: Tensor, laws: FactorLaws, holes: Holes) -> None:
        (R, D), (_, L, K), U = x.shape, laws.loadings.shape, len(holes.counts)
        self._x, self._of_row, self._holes = x.contiguous(), of_row.contiguous(), (holes.columns, holes.counts)
        self._packed = x.new_empty(U, L * (L + 1) // 2, K)
        self.z, self.log_prob = x.new_empty(R, L, K), x.new_empty(R, K)
        logdet, work = x.new_empty(U, K), K * D * (L + 1) ** 2

        def patterns(_: int, some: slice) -> bool:
            own = [_of(part, some) for part in (*self._holes, self._packed, logdet)]
            return bool(_run("factors", (*laws[1:], *own), (_length(some), D, L, K)))

        if not all(_side_by_side(_parts(U, U * work), patterns)):
            raise torch.linalg.LinAlgError("a matrix is not positive definite")

        def rows(_: int, some: slice) -> None:
            x, of_row, z, log_prob = (_of(part, some) for part in (self._x, self._of_row, self.z, self.log_prob))
            read = (x, of_row, *laws, *self._holes, self._packed, logdet)
            _run("factor_rows", (*read, z, log_prob), (_length(some), D, L, K))

        self._parts = _parts(R, R * work)
        _side_by_side(self._parts, rows)

    def moments(self, weights: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Expected sums under weights [R, filled(K)], with e = (z, 1) the L + 1 = P factors and a constant: E[e e']
        [D, P, P, ..] and E[e] x [D, P, ..] and x^2 [D, ..] of the rows where a column is observed, E[e e'] of all rows
        [P, P, ..]."""
        D, (_, L, K), n = self._x.shape[1], self.z.shape, len(self._parts)
        P = L + 1
        T = P * (P + 1) // 2
        out = [self._x.new_zeros(n, *shape, K) for shape in ((D, T), (D, P), (D,), (T,))]

        def add(i: int, some: slice) -> None:
            x, of_row, z, weight = (_of(part, some) for part in (self._x, self._of_row, self.z, weights))
            read = (x, of_row, *self._holes, self._packed, z, weight)
            _run("factor_moments", (*read, *(part[i] for part in out)), (_length(some), D, L, K))

        _side_by_side(self._parts, add)
        outer, cross, square, every = map(_together, out)
        place = _places_in_triangle(P)
        return outer[:, place], cross, square, every[place]

    def sums(self, weights: Tensor, place: Tensor, J: int) -> Tensor:
        """[J, D, 2 + L, filled(K)] weights, cells and the factors' means, summed over the rows of each place [R] where
        a column is observed."""
        D, (_, L, K), place = self._x.shape[1], self.z.shape, place.contiguous()
        out = self._x.new_zeros(len(self._parts), J, D, 2 + L, K)

        def add(i: int, some: slice) -> None:
            x, of_row, z, weight, at = (_of(part, some) for part in (self._x, self._of_row, self.z, weights, place))
            _run("factor_sums", (x, of_row, *self._holes, z, weight, at, out[i]), (_length(some), D, L, K))

        _side_by_side(self._parts, add)
        return _together(out)


@functools.lru_cache(maxsize=64)
def _places_in_triangle(P: int) -> Tensor:
    """[P, P] where each cell of a symmetric matrix stands in its packed lower triangle."""
    i = torch.arange(P)
    high, low = torch.maximum(i[:, None], i), torch.minimum(i[:, None], i)
    return high * (high + 1) // 2 + low


class Branches(NamedTuple):
    """A forest as the loops read it, its dimensions each after its parent.

    lines     [5, n] (int64) parents, numbers of levels, where tables, levels and messages begin
    order     [n] the dimensions
    ends      where the rows of the tables, one after the other, end among T
    levels    of all dimensions together
    messages  that all dimensions together send to their parents
    """

    lines: Tensor
    order: Tensor
    ends: Tensor
    levels: int
    messages: int


@functools.lru_cache(maxsize=64)
def branches_of(forest: Forest) -> Branches:
    """Of the shape of a forest."""
    place = {i: at for at, i in enumerate(forest.order)}
    parents = [-1 if forest.parent[i] < 0 else place[forest.parent[i]] for i in forest.order]
    levels = [forest.levels[i] for i in forest.order]
    firsts = list(accumulate(levels, initial=0))
    sent = list(accumulate((0 if p < 0 else levels[p] for p in parents), initial=0))
    starts = [forest.starts[i] for i in forest.order]
    lines = torch.tensor([parents, levels, starts, firsts[:-1], sent[:-1]])
    widths = [n for n, rows in zip(forest.levels, forest.rows, strict=True) for _ in range(rows)]
    return Branches(lines, torch.tensor(forest.order), torch.tensor(widths).cumsum(0), firsts[-1], sent[-1])


def tables_of(logits: Tensor, branches: Branches) -> Tensor:
    """[T, filled(K)] the conditional probabilities that logits [K, T] stand for."""
    return joined(in_lanes(logits), branches.ends)[1]


class Levels:
    """Levels [U, n] (int64, -1 where they are missing) under forests with tables in lanes [T, filled(K)], positive."""

    def __init__(self, tables: Tensor, branches: Branches, levels: Tensor) -> None:
        self._tables, self._lines = tables, branches.lines
        self._codes = levels[:, branches.order].contiguous()
        self._shape = (len(branches.order), branches.levels, branches.messages, tables.shape[-1])
        self._parts = _parts(len(levels), len(levels) * tables.numel())

    def log_prob(self) -> Tensor:
        """[U, filled(K)] logarithms of the probabilities of the observed levels."""
        out = self._tables.new_empty(len(self._codes), self._tables.shape[-1])

        def look(_: int, some: slice) -> None:
            _run("forest", (self._tables, self._lines, _of(self._codes, some), _of(out, some)), self._sizes(some))

        _side_by_side(self._parts, look)
        return out

    def counts(self, weights: Tensor) -> Tensor:
        """[T, filled(K)] how often each cell of the tables is expected in rows of weights [U, filled(K)]."""
        out = self._tables.new_zeros(len(self._parts), *self._tables.shape)

        def add(i: int, some: slice) -> None:
            read = (self._tables, self._lines, _of(self._codes, some), _of(weights, some))
            _run("counts", (*read, out[i]), self._sizes(some))

        _side_by_side(self._parts, add)
        return _together(out)

    def _sizes(self, some: slice) -> tuple[int, ...]:
        return _length(some), *self._shape


def joined(log_prob: Tensor, ends: Tensor) -> tuple[Tensor, Tensor]:
    """Of log probabilities [E, K] that stand for rows, one row after the other up to ends [R] (int64), the logarithm of
    their sum [R, K], and the share of each in it [E, K]."""
    R, K = len(ends), log_prob.shape[1]
    log_prob = log_prob.contiguous()
    out, shares = log_prob.new_empty(R, K), torch.empty_like(log_prob)
    _run("joined", (log_prob, ends, out, shares), (R, K))
    return out, shares


def _parts(n: int, work: int) -> list[slice]:
    """n rows or patterns in as many parts as torch has threads, where that many multiplications are worth it."""
    count = min(torch.get_num_threads(), n, 1 + work // LARGE)
    return [slice(n * i // count, n * (i + 1) // count) for i in range(count)]


def _length(some: slice) -> int:
    """Of how many rows or patterns a part is."""
    return int(some.stop - some.start)


def _of(values: Tensor, some: slice) -> Tensor:
    """A part of values [n, ..], without a new tensor where it is all of them."""
    return values if _length(some) == values.shape[0] else values[some]


def _side_by_side(parts: Sequence[slice], do: Callable[[int, slice], Done]) -> list[Done]:
    """Each part on a thread of its own: loops hold no lock of Python's. Their results, in order."""
    if len(parts) == 1:
        return [do(0, parts[0])]
    with ThreadPoolExecutor(len(parts)) as pool:
        return list(pool.map(do, range(len(parts)), parts))


def _together(parts: Tensor) -> Tensor:
    """The sum of what each part came to [n, ..], in order."""
    return parts[0] if parts.shape[0] == 1 else parts.sum(0)


def _run(name: Loop, tensors: Sequence[Tensor], sizes: tuple[int, ...]) -> Any:
    """A loop on the memory of tensors, which live until it is done."""
    return kernel(name)(tuple(tensor.data_ptr() for tensor in tensors), sizes)
