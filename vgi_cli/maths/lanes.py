"""Incomplete rows under K Gaussians and K forests by the compiled loops of `row_kernels.py`: tensors as those want
them, the numbers of the components next to each other."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import torch
from torch import Tensor

from vgi_cli.maths.compiled import Loop, kernel
from vgi_cli.maths.forests import Forest

LANES = 8
"""Components that a loop looks at together, `row_kernels.LANES`: last dimensions are filled up to a multiple."""


WORTH = 256
"""Rows times components from which the loops are used, where there are any: loading them takes a while."""


def worth(R: int, K: int) -> bool:
    """Whether the loops are for so many rows and components."""
    return R * K >= WORTH


def filled(K: int) -> int:
    """How many components there are when the last vector is full."""
    return -(-K // LANES) * LANES


def in_lanes(values: Tensor) -> Tensor:
    """[K, ..] with the components last and filled up: [.., filled(K)]; those that fill are copies of the last one."""
    K = len(values)
    every = torch.arange(filled(K)).clamp(max=K - 1)
    return values[every].movedim(0, -1).contiguous()


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
    made = HoleTriangles(laws.mean.new_empty(holes.cells, K), laws.mean.new_empty(U, K))
    if not _run("holes", (*laws[1:], *holes[:4], *made), (U, D, K)):
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
    _run("rows", (x.contiguous(), of_row.contiguous(), *laws, *holes[:4], *triangles, *made), (R, D, K))
    return made


def moments(
    delta: Tensor, weights: Tensor, of_row: Tensor, holes: Holes, triangles: HoleTriangles
) -> tuple[Tensor, Tensor]:
    """First [D, filled(K)] and second [D, D, filled(K)] moments of `Seen.delta` under weights [R, filled(K)], what is
    uncertain of missing cells included; of the second the lower triangle alone."""
    R, D, K = delta.shape
    U = len(holes.counts)
    total, second = delta.new_zeros(D, K), delta.new_zeros(D, D, K)
    read = (delta, weights, of_row.contiguous(), *holes[:4], triangles.packed)
    _run("moments", (*read, delta.new_zeros(U, K), total, second), (R, U, D, K))
    return total, second


def sums(delta: Tensor, weights: Tensor, place: Tensor, J: int) -> Tensor:
    """[J, 1 + D, filled(K)] weights and weighted `Seen.delta`, summed over the rows of each place [R]."""
    R, D, K = delta.shape
    out = delta.new_zeros(J, 1 + D, K)
    _run("sums", (delta, weights, place.contiguous(), out), (R, D, K))
    return out


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
        self._rows = (x.contiguous(), of_row.contiguous(), holes.columns, holes.counts)
        self._packed = x.new_empty(U, L * (L + 1) // 2, K)
        self.z, self.log_prob = x.new_empty(R, L, K), x.new_empty(R, K)
        made = (self._packed, x.new_empty(U, K), self.z, self.log_prob)
        if not _run("factors", (*self._rows, *laws, *made), (R, U, D, L, K)):
            raise torch.linalg.LinAlgError("a matrix is not positive definite")

    def moments(self, weights: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Expected sums under weights [R, filled(K)], with e = (z, 1) the L + 1 = P factors and a constant: E[e e']
        [D, P, P, ..] and E[e] x [D, P, ..] and x^2 [D, ..] of the rows where a column is observed, E[e e'] of all rows
        [P, P, ..]."""
        x, (R, L, K) = self._rows[0], self.z.shape
        D, P = x.shape[1], L + 1
        T = P * (P + 1) // 2
        outer, cross, square = x.new_zeros(D, T, K), x.new_zeros(D, P, K), x.new_zeros(D, K)
        every = x.new_zeros(T, K)
        read = (*self._rows, self._packed, self.z, weights)
        _run("factor_moments", (*read, outer, cross, square, every), (R, D, L, K))
        place = _places_in_triangle(P)
        return outer[:, place], cross, square, every[place]

    def sums(self, weights: Tensor, place: Tensor, J: int) -> Tensor:
        """[J, D, 2 + L, filled(K)] weights, cells and the factors' means, summed over the rows of each place [R] where
        a column is observed."""
        x, (R, L, K) = self._rows[0], self.z.shape
        out = x.new_zeros(J, x.shape[1], 2 + L, K)
        _run("factor_sums", (*self._rows, self.z, weights, place.contiguous(), out), (R, x.shape[1], L, K))
        return out


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
    levels    of all dimensions together
    messages  that all dimensions together send to their parents
    """

    lines: Tensor
    order: Tensor
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
    return Branches(lines, torch.tensor(forest.order), firsts[-1], sent[-1])


class Levels:
    """Levels [U, n] (int64, -1 where they are missing) under forests with tables in lanes [T, filled(K)], positive."""

    def __init__(self, tables: Tensor, branches: Branches, levels: Tensor) -> None:
        self._tables, self._branches = tables, branches
        self._codes = levels[:, branches.order].contiguous()
        self._sizes = (*self._codes.shape, branches.levels, branches.messages, tables.shape[-1])

    def log_prob(self) -> Tensor:
        """[U, filled(K)] logarithms of the probabilities of the observed levels."""
        out = self._tables.new_empty(len(self._codes), self._tables.shape[-1])
        _run("forest", (self._tables, self._branches.lines, self._codes, out), self._sizes)
        return out

    def counts(self, weights: Tensor) -> Tensor:
        """[T, filled(K)] how often each cell of the tables is expected in rows of weights [U, filled(K)]."""
        out = torch.zeros_like(self._tables)
        _run("counts", (self._tables, self._branches.lines, self._codes, weights, out), self._sizes)
        return out


def _run(name: Loop, tensors: Sequence[Tensor], sizes: tuple[int, ...]) -> Any:
    """A loop on the memory of tensors, which live until it is done."""
    return kernel(name)(tuple(tensor.data_ptr() for tensor in tensors), sizes)
