"""Which columns of levels shift the numbers of mixed rows, which pairs of these interact, and the coefficients that the
shifts start from (`shifted.py`): by complete rows that are cut into clusters."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Self

import torch
from torch import Tensor

from vgi_cli.models.gaussian.gaussians import expansions

CELLS, FEW_CELLS, MANY_ROWS = 32, 8, 5_000
"""Combinations of levels that the columns which shift may have, whatever is missing; fewer from so many rows on."""
MOST_CELLS, AGREEING, EXPANDED, FEW_AGREEING = 512, 16.0, 8_000, 2.5
"""Combinations that they may have where at most so many of these agree with what is observed of a row, on average, and
so many with all rows together; from MANY_ROWS on fewer with a row: the time goes with those."""
GROUPS, GROUP_CELLS = 16, 256
"""A column of more levels than that names groups; combinations that it and the others which shift may have."""
SHIFT = 5.0
"""Pseudo-rows of no shift, for each coefficient."""
BEGIN_STEPS, LEAST_LEFT = 5, 1e-3
"""How often the ridge at the start is set by what is left of each number, and the share that is, at the least."""
CLOSE, DETERMINED = 0.5, 0.01
"""Share of a number's variance that levels leave at most, filled cells and observed ones alone, where the latter say
how it is shifted at the start."""
CROSSED_ROWS = 10
"""Rows of each combination of two columns' levels from which on the pair may have an interaction."""
MOST_PAIRS = 100
"""Pairs of columns that are looked at for one: those first of which both shift, then one."""
BY_CHANCE = 0.05
"""How probable it may be that some pair is taken to have one where none has."""


def _within(values: Tensor, label: Tensor) -> Tensor:
    """Values [R, n] less the means of their clusters label [R]."""
    one_hot = torch.nn.functional.one_hot(label).to(values)
    means = (one_hot.mT @ values) / one_hot.sum(0).clamp(min=1)[:, None]
    return values - means[label]


class Room:
    """Room for the combinations of levels of some columns: of at most CELLS (with a column of more than GROUPS levels
    GROUP_CELLS), of MANY_ROWS and more FEW_CELLS; or of MOST_CELLS of which at most AGREEING agree with a row on
    average, and EXPANDED with all rows (of MANY_ROWS and more: FEW_AGREEING with a row)."""

    def __init__(self, levels: Sequence[int], missing: Tensor) -> None:
        """levels: of each column; missing [R, n] which of them are missing in the rows."""
        self._levels, self._missing, self._many = levels, missing, len(missing) >= MANY_ROWS
        self._agreeing = FEW_AGREEING if self._many else min(AGREEING, EXPANDED / max(len(missing), 1))

    def few(self, places: Sequence[int]) -> bool:
        """Whether the combinations are few, whatever is missing."""
        levels = [self._levels[i] for i in places]
        groups = any(n > GROUPS for n in levels)
        return math.prod(levels) <= (FEW_CELLS if self._many else GROUP_CELLS if groups else CELLS)

    def holds(self, places: Sequence[int]) -> bool:
        """Whether there is room for the combinations, as they are few or few of them agree with a row."""
        levels = [self._levels[i] for i in places]
        if self.few(places):
            return True
        times = torch.tensor(levels, dtype=torch.float64, device=self._missing.device)
        agreeing = expansions(self._missing[:, list(places)], times).mean()
        return math.prod(levels) <= MOST_CELLS and float(agreeing) <= self._agreeing


@dataclass(frozen=True)
class Regressions:
    """Ridge regressions of numbers on the indicators of some columns' levels, within clusters.

    y        [R, D] numbers of variance 1, less the means of their clusters
    one_hot  [R, F] indicators of the levels
    levels   of each column of them
    label    [R] the clusters
    d        [R, F + P] the indicators, and the products of those of pairs, less such means
    pairs    those of columns whose products are among them
    gram, cross, total  [F + P, F + P], [F + P, D], [D, D] the products of these: d'd, d'y, y'y
    free     how many degrees of freedom the clusters leave
    """

    y: Tensor
    one_hot: Tensor
    levels: Sequence[int]
    label: Tensor
    d: Tensor
    pairs: Sequence[tuple[int, int]]
    gram: Tensor
    cross: Tensor
    total: Tensor
    free: int

    @classmethod
    def of(cls, numbers: Tensor, one_hot: Tensor, levels: Sequence[int], label: Tensor) -> Self:
        """Those of numbers [R, D] of variance 1."""
        y, d = _within(numbers, label), _within(one_hot, label)
        free = len(y) - len(torch.unique(label))
        return cls(y, one_hot, levels, label, d, (), d.mT @ d, d.mT @ y, y.mT @ y, free)

    def beside(self, pairs: Sequence[tuple[int, int]], share: Tensor) -> Self:
        """The same with the products of the indicators of pairs, these less their share [F]."""
        if not pairs:
            return self
        one = (self.one_hot - share).split(list(self.levels), 1)
        crossed = _within(torch.cat([products(one[i], one[k]) for i, k in pairs], 1), self.label)
        d = torch.cat([self.d, crossed], 1)
        return replace(self, d=d, pairs=pairs, gram=d.mT @ d, cross=d.mT @ self.y)

    @property
    def able(self) -> bool:
        """Whether there is anything to explain, and more rows than clusters."""
        return self.free > 0 and self.total.trace().item() > 0

    def on(self, places: Sequence[int]) -> tuple[Tensor, Tensor, Tensor]:
        """The columns [Q] of d that are of the levels of some columns, and of products; the coefficients [Q, D] of
        these; and the covariance [D, D] of what is left of the numbers, adjusted for those."""
        starts, F = list(accumulate(self.levels, initial=0)), self.one_hot.shape[1]
        of_places = [torch.arange(starts[i], starts[i] + self.levels[i]) for i in places]
        columns = torch.cat([*of_places, torch.arange(F, self.d.shape[1])])
        gram, cross = self.gram[columns][:, columns], self.cross[columns]
        B = torch.linalg.solve(gram + SHIFT * torch.eye(len(columns), dtype=gram.dtype), cross)
        both = cross.mT @ B
        left = self.total - both - both.mT + B.mT @ gram @ B
        spent = sum(self.levels[i] - 1 for i in places)
        spent += sum((self.levels[i] - 1) * (self.levels[k] - 1) for i, k in self.pairs)
        return columns, B, left / max(self.free - spent, 1)

    def chosen(self, room: Room, R: int) -> tuple[list[int], Tensor]:
        """The columns whose levels shift the numbers of so many distinct rows R, those that explain most first; and the
        covariance [D, D] of what they leave.

        One after the other that is taken which leaves the least of the numbers' variance (the mean over the numbers,
        each in units of its variance), while that falls and there is room for the combinations of levels: for few, or
        else of columns that explain some number clearly.
        """
        chosen: list[int] = []
        now = self.total / max(self.free, 1)
        while self.free > 0 and now.trace().item() > 0:
            others = [i for i, n in enumerate(self.levels) if i not in chosen and n > 1]
            able = [i for i in others if sum(self.levels[j] for j in [*chosen, i]) < self.free]
            found = [(self.on([*chosen, i])[2], i) for i in able if room.holds([*chosen, i])]
            found = [(left, i) for left, i in found if room.few([*chosen, i]) or self._clear(i, left, now, R)]
            least, best = min(((left.trace().item(), i) for left, i in found), default=(math.inf, -1))
            if least >= now.trace().item():
                break
            now = next(left for left, i in found if i == best)
            chosen.append(best)
        return chosen, now

    def _clear(self, i: int, left: Tensor, now: Tensor, R: int) -> bool:
        """Whether column i, which leaves `left` [D, D] of the numbers of so many rows R, of which there was `now`
        [D, D], explains some number, or what is left of it given the others, clearly (BIC)."""
        gain = (_each_alone(now) / _each_alone(left)).log().max().item()
        return R * gain > (self.levels[i] - 1) * math.log(R) + 2 * math.log(2 * len(left))


def ridge_by_what_is_left(gram: Tensor, cross: Tensor, left: Tensor, total: Tensor, free: int) -> Tensor:
    """[Q, D] coefficients of numbers on indicators, of products gram [Q, Q] and cross [Q, D], as EM ends with them:
    what the ridge pulls with counts in units of what they leave of each number, by first `left` [D]. With a ridge in
    units of the whole, levels of few rows would begin far from what is nearly constant in them, and be taken for
    outliers there for good.

    total  [D] sums of squares of the numbers, of so many `free` rows
    """
    values, vectors = torch.linalg.eigh(gram)
    values, along = values.clamp(min=0.0)[:, None], vectors.mT @ cross
    inverse = torch.zeros_like(along)
    for _ in range(BEGIN_STEPS):
        inverse = 1 / (values + SHIFT * left.clamp(min=LEAST_LEFT))
        explained = (along.square() * inverse * (2 - values * inverse)).sum(0)
        left = (total - explained) / max(free, 1)
    begun: Tensor = vectors @ (along * inverse)
    return begun


def take_what_is_seen(B: Tensor, d: Tensor, y: Tensor, has: Tensor, before: Tensor) -> None:
    """Let coefficients B [Q], in place, be those of the rows [R] that have a number, where the levels all but determine
    it; and of levels without such a row those of `before` [Q], where there were any. One fill far off would take the
    other rows of a level of few for outliers.

    d    [R, Q] the indicators, less the means of their clusters
    y    [R] the number, less such means, in units of its standard deviation
    has  [Q] which levels have such a row
    """
    system = d.mT @ d + SHIFT * LEAST_LEFT * torch.eye(d.shape[1], dtype=d.dtype, device=d.device)
    own = torch.linalg.solve(system, d.mT @ y)
    if (y - d @ own).square().sum() <= DETERMINED * max(len(y) - d.shape[1], 1):
        B.copy_(torch.where(has, own, torch.where(before != 0, before, B)))


def precision_at_least_alone(covariance: Tensor) -> Tensor:
    """[D, D] the inverse of a covariance of numbers of variances about 1, but for weighted sums of them (of squared
    weights 1) that vary less than 1: these vary by 1."""
    values, vectors = torch.linalg.eigh(covariance)
    precision: Tensor = vectors / values.clamp(min=1.0) @ vectors.mT
    return precision


def _each_alone(covariance: Tensor) -> Tensor:
    """[2 D] the variances of a covariance [D, D] of numbers of variances about 1, and those of each number given the
    others; one that is constant, or that others determine, has a little."""
    some = covariance + 1e-9 * torch.eye(len(covariance), dtype=covariance.dtype, device=covariance.device)
    return torch.cat([some.diagonal(), 1 / torch.linalg.inv(some).diagonal()])


def products(a: Tensor, b: Tensor) -> Tensor:
    """[R, n m] each column of a [R, n] times each of b [R, m], those of b fastest."""
    return (a[:, :, None] * b[:, None, :]).flatten(1)


@dataclass(frozen=True)
class Interactions:
    """Looks for pairs of columns of levels whose effects on numbers are not additive, in rows without copies: those of
    a bootstrap sample would say everything twice.

    y        [R, D] numbers, less the means of their clusters
    one_hot  [R, F] indicators of the levels
    levels   of each column of them
    label    [R] the clusters
    seen     [R, D] which numbers were not filled
    """

    y: Tensor
    one_hot: Tensor
    levels: Sequence[int]
    label: Tensor
    seen: Tensor

    def found(
        self, shifting: Sequence[int], room: Callable[[Sequence[int]], bool]
    ) -> tuple[list[int], list[tuple[int, int]]]:
        """The columns that shift then, and the pairs that interact, in order: one after the other that whose products
        explain some column of numbers so well beyond what is additive as is least probable by chance; while that is
        less than BY_CHANCE, shared equally among all pairs and columns that are looked at.

        A column may have an effect on either side of 0 in combination with another, and none on average: those of a
        pair shift, too. Where there is no room for them, they take that of the columns that explain least, if all that
        shifts leaves less of the variance then.

        shifting  columns whose levels shift the numbers, those that explain most first
        room      whether there is room for the combinations of some columns' levels
        """
        chosen: list[tuple[int, int]] = []
        places = list(shifting)
        every = [(i, k) for i in range(len(self.levels)) for k in range(i) if min(self.levels[i], self.levels[k]) > 1]
        every = sorted(((k, i) for i, k in every), key=lambda pair: (-len({*pair} & {*shifting}), pair))[:MOST_PAIRS]
        most = BY_CHANCE / (2 * self.y.shape[1] * max(len(every), 1))
        while every:
            residuals = self._residuals(places, chosen)
            chances = sorted((*self._chance(pair, *residuals), pair) for pair in every if pair not in chosen)
            for _, _, pair in (one for one in chances if one[0] < most):
                others = self._beside([*chosen, pair], places, room)
                if others and (
                    {*places} <= {*others} or self._left(others, [*chosen, pair]) < self._left(places, chosen)
                ):
                    places = others
                    chosen.append(pair)
                    break
            else:
                break
        return places, sorted(chosen)

    def _beside(
        self, pairs: Sequence[tuple[int, int]], places: Sequence[int], room: Callable[[Sequence[int]], bool]
    ) -> list[int]:
        """The columns of pairs and those of `places`, the first ones first, for which there is room beside them; none
        where there is none for the pairs."""
        held = [*dict.fromkeys(i for pair in pairs for i in pair)]
        if not room(held):
            return []
        for i in places:
            if i not in held and room([*held, i]):
                held.append(i)
        return [*(i for i in places if i in held), *(i for i in held if i not in places)]

    def _left(self, places: Sequence[int], pairs: Sequence[tuple[int, int]]) -> float:
        """The variance of all numbers that levels and products leave, adjusted for their coefficients."""
        values, _, spent = self._residuals(places, pairs)
        return float(values[:, : self.y.shape[1]].square().sum()) / max(len(self.y) - int(spent[0]), 1)

    def _residuals(self, places: Sequence[int], pairs: Sequence[tuple[int, int]]) -> tuple[Tensor, Tensor, Tensor]:
        """What columns of levels and some products leave of each column of numbers, twice: [R, 2 D], which of them are
        looked at [R, 2 D], and how many degrees of freedom were spent [2 D].

        First as it is, in all rows, filled ones too, since where it was seen may depend on the other numbers; then less
        what the other numbers say of it, in the rows that have it.
        """
        y, (R, D) = self.y, self.y.shape
        one = self.one_hot.split(self.levels, 1)
        design = [y.new_zeros(R, 1), *(one[i] for i in places), *(products(one[i], one[k]) for i, k in pairs)]
        within = _within(torch.cat(design, 1), self.label)
        left = y - within @ torch.linalg.lstsq(within, y, driver="gelsd").solution
        ridge = 1e-6 * R * torch.eye(D, dtype=y.dtype, device=y.device)
        precision = torch.linalg.inv(left.mT @ left + ridge)
        values = torch.cat([left, left @ precision / precision.diagonal()], 1)
        used = torch.cat([torch.ones_like(self.seen), self.seen], 1).to(y)
        spent = sum(self.levels[i] - 1 for i in places) + len(torch.unique(self.label))
        spent += sum((self.levels[i] - 1) * (self.levels[k] - 1) for i, k in pairs)
        return values, used, spent + torch.tensor([0, D - 1], device=y.device).repeat_interleave(D)

    def _chance(self, pair: tuple[int, int], values: Tensor, used: Tensor, spent: Tensor) -> tuple[float, float]:
        """How probable it is by chance that products of a pair explain as much as these do of that column of numbers
        which they explain best, of those with CROSSED_ROWS rows in each combination: a likelihood ratio test of a table
        of two ways, with Bartlett's correction; and less twice the logarithm of the ratio."""
        one = self.one_hot.split(self.levels, 1)
        a, b = (self.levels[i] for i in pair)
        cell = one[pair[0]].argmax(1) * b + one[pair[1]].argmax(1)
        count, total = (values.new_zeros(a * b, values.shape[1]).index_add_(0, cell, v) for v in (used, used * values))
        free = used.sum(0) - spent - (a - 1) * (b - 1)
        able = (count.amin(0) >= CROSSED_ROWS) & (free > 0)
        if not bool(able.any()):
            return 1.0, 0.0
        count, total, free = count[:, able], total[:, able], free[able]
        first, second = (torch.eye(n, dtype=values.dtype, device=values.device) for n in (a, b))
        d = torch.cat([first.repeat_interleave(b, 0), second.repeat(a, 1)], 1)
        gram, cross = torch.einsum("jp,jc,jq->cpq", d, count, d), (d.mT @ total).mT[:, :, None]
        additive = (cross.mT @ torch.linalg.pinv(gram, hermitian=True) @ cross)[:, 0, 0]
        whole = (total.square() / count).sum(0)
        left = ((used * values.square()).sum(0)[able] - whole).clamp(min=1e-12)
        more = (a - 1) * (b - 1)
        ratio = float(((free + more / 2 - 1) * torch.log1p((whole - additive).clamp(min=0) / left)).max())
        half = torch.tensor([more, ratio], dtype=torch.float64) / 2
        return float(torch.special.gammaincc(*half)), -ratio
