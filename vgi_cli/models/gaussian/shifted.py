"""Components of mixed rows whose Gaussians are shifted by the row's levels: local dependence (Murray and Reiter 2016).

    x | levels, k ~ N(mean_k + B' d(levels), covariance_k),    levels | k by the forest

d are the indicators of the levels of the columns that shift, less their shares; one B serves all components, the broad
one too. Not all columns shift: from those that explain the numbers best (within clusters, see `_Regressions.chosen`),
one after the other, as long as their levels have at most CELLS combinations, or few of these agree with a row (of many
rows fewer, which bounds the time; more where one of them names groups, as clinics or schools do). So a component of an
incomplete row is a mixture over the combinations that agree with what is observed, in each of which the Gaussian is
known and the forest's levels are: every marginal, conditional and draw is exact.

Of a pair of columns d holds the products of their indicators too, where the rows say that the two interact
(`_Interactions`): a difference between groups that is another one in another period.

EM ties those expanded components: weights, tables and Gaussians are learnt from sums over the combinations, and B after
them, given the means and covariances just learnt (a conditional maximisation, Meng and Rubin 1993). A ridge of SHIFT
pseudo-rows at most pulls the coefficients of each indicator to 0: in units of the variances of the numbers or, of sums
of numbers that vary more than one number does, of the variance that clusters and levels leave of these at the start. In
units of variances alone an effect that correlated numbers share, on the sum of a scale's items above all, would be
pulled as many times as much as that sum varies more than they would by themselves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn

from vgi_cli.layout import Layout
from vgi_cli.maths import lanes
from vgi_cli.maths.forests import inverted
from vgi_cli.maths.gaussian import Patterns
from vgi_cli.models.gaussian.family import ColumnLaw, FilledRows
from vgi_cli.models.gaussian.gaussians import MOST_LOST, Footprint, Gaussians, Observed, Penalty, Scale, expansions
from vgi_cli.models.gaussian.incomplete import Incomplete
from vgi_cli.models.gaussian.mixed import DistinctLevels, Mixed, MixedCellLaws, MixedObserved

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
MISSING = 0.4
"""Share of missing cells at which the work is counted, where it is not known."""
DENSE, MOST_ITERATIONS, TOLERANCE = 600, 100, 1e-8
"""Coefficients up to which the M-step solves their system as a matrix; beyond, iterations at most, and the share of the
first residual at which they end."""


class Shifted(Mixed):
    """`shift` [F, D]: B, a row for each level of each discrete dimension; those of dimensions that do not shift have no
    effect and stay 0. `crossing` [P, D]: rows of B for each pair of levels of each pair of dimensions that
    interact, the second level fastest.

    chosen        [n] bool: the discrete dimensions that shift
    share         [F] the shares of the levels in the rows of the start
    pairs         [M, 2] (int64) the pairs of discrete dimensions that interact; both shift
    prior_precision  [D, D] the inverse of the covariance in whose units the ridge is; [0, 0]: in units of each number's
                     variance, as in older runs
    places        the discrete dimensions that shift, in order
    combinations  [J, places] every combination of their levels, the last one fastest
    """

    chosen: Tensor
    share: Tensor
    pairs: Tensor
    prior_precision: Tensor
    combinations: Tensor
    _rows: Tensor  # [Q] of `shift`: those of the dimensions that shift
    _indicators: Tensor  # [J, Q] those of the combinations: 0 and 1, which every precision holds

    def __init__(self, numbers: Gaussians, layout: Layout, *, edges: bool, by: int | None = None) -> None:
        super().__init__(numbers, layout, edges=edges, by=by)
        levels = self.categories.forest.levels
        self.register_buffer("chosen", torch.zeros(len(levels), dtype=torch.bool))
        self.register_buffer("share", torch.zeros(sum(levels)))
        for name in ("combinations", "_rows", "_indicators"):
            self.register_buffer(name, torch.zeros(0), persistent=False)
        self.register_buffer("pairs", torch.zeros(0, 2, dtype=torch.int64))
        self.register_buffer("prior_precision", torch.zeros(0, 0))
        self.shift = nn.Parameter(torch.zeros(sum(levels), numbers.means().shape[1]))
        self.crossing = nn.Parameter(torch.zeros(0, numbers.means().shape[1]))
        self._take(self.chosen, self.share)

    def _take(self, chosen: Tensor, share: Tensor, pairs: Tensor | None = None) -> None:
        """Let dimensions chosen [n] shift, whose levels have shares [F], and pairs [M, 2] of them interact (None: no
        pair does), in place: each parameter stays the same object."""
        levels, device = self.categories.forest.levels, self.share.device
        self.pairs = self.pairs.new_zeros(0, 2) if pairs is None else pairs.to(device)
        P = sum(levels[i] * levels[k] for i, k in self.pairs.tolist())
        self.crossing.data = self.crossing.data.new_zeros(P, self.crossing.shape[1])
        self.chosen.copy_(chosen)
        self.share.copy_(share)
        self.places = tuple(int(i) for i in chosen.nonzero()[:, 0])
        sizes = [levels[i] for i in self.places]
        grid = torch.cartesian_prod(*map(torch.arange, sizes)).view(-1, len(sizes)) if sizes else torch.zeros(1, 0)
        self.combinations = grid.long().to(device)
        self._rows = torch.repeat_interleave(self.chosen, torch.tensor(levels, device=device)).nonzero()[:, 0]
        one_hot = [torch.nn.functional.one_hot(c, n) for c, n in zip(self.combinations.unbind(1), sizes, strict=True)]
        self._indicators = (torch.cat(one_hot, 1) if one_hot else self.combinations).to(self.share)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        """Pairs that interact, and the units of the ridge, are saved where there are any."""
        super()._save_to_state_dict(destination, prefix, keep_vars)
        if not len(self.prior_precision):
            del destination[f"{prefix}prior_precision"]
        if not len(self.pairs):
            del destination[f"{prefix}pairs"], destination[f"{prefix}crossing"]

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        """Parameters that were saved bring the dimensions that shift with them, and the pairs that interact."""
        names = f"{prefix}pairs", f"{prefix}crossing"
        pairs = state_dict.get(names[0], self.pairs.new_zeros(0, 2))
        if why := self._no_pairs(pairs, state_dict.get(f"{prefix}chosen")):
            args[-1].append(f"{names[0]}: {why}")  # what load_state_dict says is wrong
            return
        self._take(self.chosen, self.share, pairs.long())
        if not len(pairs) and not len(state_dict.get(names[1], ())):
            state_dict = {**state_dict, names[0]: self.pairs, names[1]: self.crossing.data}
        precision = state_dict.get(f"{prefix}prior_precision", self.prior_precision.new_zeros(0, 0))
        D = self.shift.shape[1]
        if precision.shape not in ((0, 0), (D, D)):
            args[-1].append(f"{prefix}prior_precision: it is of shape {list(precision.shape)}, not [{D}, {D}]")
            return
        state_dict = {**state_dict, f"{prefix}prior_precision": precision}
        self.prior_precision = self.prior_precision.new_zeros(precision.shape)
        super()._load_from_state_dict(state_dict, prefix, *args)
        crossing = self.crossing.data
        self._take(self.chosen, self.share, self.pairs)
        self.crossing.data = crossing

    def _no_pairs(self, pairs: Tensor, chosen: Tensor | None) -> str:
        """Why these are no pairs of dimensions chosen [n] that shift; empty where they are."""
        if pairs.ndim != 2 or pairs.shape[1] != 2:
            return f"it is of shape {list(pairs.shape)}, not [pairs, 2]"
        shift = [] if chosen is None else chosen.flatten().nonzero()[:, 0].tolist()
        wrong = [(i, k) for i, k in pairs.tolist() if not (i < k and i in shift and k in shift)]
        return f"{wrong[0]} are no two dimensions that shift" if wrong else ""

    @property
    def independent(self) -> bool:
        return super().independent and not self.places

    @property
    def scarcest_level(self) -> float:
        """The share of the level, of those that shift and occur, that has fewest of the rows of the start; 1 where none
        shifts."""
        shares = self.share[self._rows] if self.places else self.share.new_zeros(0)
        return float(shares[shares > 0].amin()) if (shares > 0).any() else 1.0

    def dummies(self) -> Tensor:
        """[J, Q + P] d of each combination: the indicators less the shares, and of pairs that interact the products of
        these."""
        d = self._indicators - self.share[self._rows]
        if not len(self.pairs):
            return d
        of = dict(zip(self.places, d.split([self.categories.forest.levels[i] for i in self.places], 1), strict=True))
        return torch.cat([d, *(products(of[i], of[k]) for i, k in self.pairs.tolist())], 1)

    def shifts(self) -> Tensor:
        """[J, D] by how much the rows of each combination are shifted."""
        return self.dummies() @ self._coefficients()

    def _coefficients(self) -> Tensor:
        """[Q + P, D] of the columns of d."""
        return torch.cat([self.shift[self._rows], self.crossing])

    def moved(self, levels: Tensor) -> Tensor:
        """[R, D] by how much rows of these levels [R, n] (int64) are shifted."""
        at = torch.zeros_like(levels[:, 0])
        for i in self.places:
            at = at * self.categories.forest.levels[i] + levels[:, i]
        return self.shifts()[at]

    def centred(self, x: Tensor) -> Tensor:
        numbers = super().centred(x)
        return numbers - self.moved(self.levels_of(x)) if self.places else numbers

    def observe(self, rows: Incomplete, *, fixed: bool = False) -> Observed:
        if not self.places:
            return super().observe(rows, fixed=fixed)
        return _ShiftedObserved(self, rows.once(f"expanded by {self.places}", lambda: self._expanded(rows)), fixed)

    def _expanded(self, rows: Incomplete) -> _Expanded:
        levels, places = self.observed_levels(rows), list(self.places)
        agrees = self.agreeing(levels)
        of_row, place = agrees.nonzero().unbind(1)
        full = levels[of_row]
        full[:, places] = self.combinations[place]
        numbers = self.numbers_of(rows)
        holes = Patterns(numbers.patterns.missing, numbers.patterns.of_row[of_row])
        numbers = Incomplete(numbers.x[of_row], holes, again=rows.again, summed=rows.summed)
        return _Expanded(
            agrees, of_row, agrees.sum(1).cumsum(0), place, numbers, self.distinct(full, summed=rows.summed)
        )

    def agreeing(self, levels: Tensor) -> Tensor:
        """[R, J] whether a combination agrees with observed levels [R, n] (int64, -1 where they are missing)."""
        known = levels[:, None, list(self.places)]
        return ((known < 0) | (known == self.combinations)).all(-1)

    def expansion(self, missing: Tensor | None = None) -> float:
        """How many combinations agree with a row: on average over rows with holes [N, D] where these are known, else
        where MISSING of its cells are; before it is known which dimensions shift, where those do that have the fewest
        levels."""
        if missing is not None and self.places:
            return float(expansions(missing, self._times(missing)).mean())
        levels = self.categories.forest.levels
        total, cells = 1.0, 1
        for n in [levels[i] for i in self.places] or sorted(levels):
            if cells * n > CELLS and not self.places:
                break
            total, cells = total * (1 + MISSING * (n - 1)), cells * n
        return total

    def _times(self, like: Tensor) -> Tensor:
        """[D] the levels of each dimension that shifts, 1 of every other."""
        times = torch.ones(like.shape[-1], dtype=torch.float64, device=like.device)
        for i in self.places:
            times[self.discrete[i]] = self.categories.forest.levels[i]
        return times

    def work(self, missing: Tensor | None = None) -> float:
        return super().work() * self.expansion(missing)

    def cells(self, missing: Tensor | None = None) -> int:
        return int(super().cells() * self.expansion(missing))

    def footprint(self) -> Footprint:
        if not self.places:
            return super().footprint()
        times, J = self._times(self.share.new_empty(self.D)), len(self.combinations)
        return super().footprint()._replace(times=times, beside=J * (1 + len(self.means())))

    def log_penalty(self, scale: Scale, penalty: Penalty) -> Tensor:
        value = super().log_penalty(scale, penalty)
        if not self.places:
            return value
        B, ridge = self._coefficients(), self._ridge(scale, penalty)
        return value - 0.5 * ((B @ ridge) * B).sum()

    def _ridge(self, scale: Scale, penalty: Penalty) -> Tensor:
        """[D, D] the precision of the coefficients of each indicator a priori."""
        if not len(self.prior_precision):
            return torch.diag(penalty.shift / scale.variance[self.continuous])
        return penalty.shift * self.prior_precision.to(scale.variance)

    def maximise(self, statistics: tuple[Tensor, ...], scale: Scale, penalty: Penalty) -> None:
        if not self.places:
            super().maximise(statistics, scale, penalty)
            return
        super().maximise(statistics[:-1], scale, penalty)
        curve, right = self.numbers.shift_system(statistics[-1])
        d, ridge, B = self.dummies(), self._ridge(scale, penalty), self._coefficients()
        wanted = d.mT @ right - B @ ridge
        if B.numel() > DENSE:
            change = _conjugate_gradients(d, curve, ridge, wanted)
        else:
            (Q, D), pairs = B.shape, (d[:, :, None] * d[:, None, :]).flatten(1)
            curve = torch.diag_embed(curve) if curve.ndim == 2 else curve
            system = (pairs.mT @ curve.flatten(1)).view(Q, Q, D, D).permute(0, 2, 1, 3).reshape(Q * D, Q * D)
            system = system + torch.block_diag(*[ridge] * Q)
            change = torch.cholesky_solve(wanted.reshape(-1, 1), torch.linalg.cholesky(system)).view_as(B)
        with torch.no_grad():
            main, crossing = (B + change).split([len(self._rows), len(self.crossing)])
            self.shift[self._rows] = main
            self.crossing.copy_(crossing)

    @torch.no_grad()
    def choose(self, filled: FilledRows, label: Tensor) -> None:
        """Choose which dimensions shift, and which pairs of them interact, and start the shifts, in place, by complete
        rows [R, D] of clusters [R]."""
        x, levels = filled.x, self.categories.forest.levels
        one_hot, numbers = self.one_hot(self.levels_of(x), x.dtype), x[:, self.continuous]
        sd = numbers.std(0, correction=0)
        sd = torch.where(sd > 0, sd, 1.0)
        regressions = _Regressions.of(numbers / sd, one_hot, levels, label)
        room, once = _Room(levels, filled.missing[:, self.discrete]), filled.once()
        places, left = regressions.chosen(room, len(once))
        pairs: list[tuple[int, int]] = []
        seen = ~filled.missing[:, self.continuous]
        if regressions.able:
            interactions = _Interactions(regressions.y[once], one_hot[once], levels, label[once], seen[once])
            places, pairs = interactions.found(places, room.holds)
        chosen = torch.tensor([i in places for i in range(len(levels))])
        self._take(chosen, one_hot.mean(0), self.pairs.new_tensor(pairs) if pairs else None)
        self.prior_precision = (_precision_at_least_alone(left) / sd[:, None] / sd).to(self.prior_precision)
        self._start(regressions.beside(pairs, self.share.to(x)), places, seen, sd)

    def _start(self, regressions: _Regressions, places: Sequence[int], seen: Tensor, sd: Tensor) -> None:
        """Set the coefficients, in place, to those of a regression of numbers, in units of sd [D], on the levels of
        dimensions `places`, and on products where pairs interact; those of numbers that these all but determine to what
        the cells say that were not filled, seen [R, D]; of a level that none of the rows has, to those that it had,
        where its dimension did shift."""
        y, F = regressions.y, len(self.share)
        before = torch.cat([self.shift.detach(), self.crossing.detach()]).to(y) / sd
        levels = torch.tensor(self.categories.forest.levels, device=y.device)
        self.shift[self.share > 0] = 0.0
        self.shift[~torch.repeat_interleave(self.chosen, levels)] = 0.0
        if not places:
            return
        columns, _, left = regressions.on(places)
        left = left.diagonal()
        gram, cross = regressions.gram[columns][:, columns], regressions.cross[columns]
        B = _ridge_by_what_is_left(gram, cross, left, regressions.total.diagonal(), regressions.free)
        for j in (left <= CLOSE).nonzero()[:, 0].tolist():
            d, known = regressions.d[:, columns], seen[:, j]
            has = regressions.one_hot[known].sum(0) > 0
            has = torch.cat([has, has.new_ones(len(self.crossing))])[columns]
            _take_what_is_seen(B[:, j], d[known], y[known, j], has, before[columns, j])
        B, crossed = (B * sd).to(self.shift), columns >= F
        there = columns[~crossed]
        occur = self.share[there] > 0
        self.shift[there[occur]] = B[~crossed][occur]
        self.crossing.copy_(B[crossed])

    @torch.no_grad()
    def restore_noise(self, missing: Tensor) -> None:
        """Each number is a regression on the levels: of n cells its refit takes twice as many degrees of freedom as it
        has coefficients, p (fewer where the ridge holds them), as that of factors does. Few rows a level share the
        weight of their level: by a flat Dirichlet law 2 / (n + p) are lost a coefficient, and not 2 / n."""
        if not self.places:
            return
        cells = (~missing[:, self.continuous]).sum(0).to(self.share).clamp(min=1)
        used = self._degrees_of_freedom(cells)
        self.stretch((1 - (2 * used / (cells + used)).clamp(max=MOST_LOST)).rsqrt())

    def _degrees_of_freedom(self, cells: Tensor) -> Tensor:
        """[D] of how many degrees of freedom of so many cells [D] of each number its shifts make use, beside a mean."""
        starts = [*accumulate(self.categories.forest.levels, initial=0)]
        shares = {i: self.share[starts[i] : starts[i + 1]] for i in self.places}
        left = self.numbers.moments().covariance[: self.K].diagonal(dim1=-2, dim2=-1).mean(0)
        rows_of_none = SHIFT * (self.prior_precision.diagonal() * left if len(self.prior_precision) else 1.0)

        def used(share: Tensor) -> Tensor:
            held = rows_of_none / (share[:, None] * cells + rows_of_none)
            return (1 - held.square()).sum(0)  # what is left of the noise is its square (2 H - H H of a ridge's H)

        total = sum((used(share) - 1 for share in shares.values()), torch.zeros_like(cells))
        for i, k in self.pairs.tolist():
            both = used((shares[i][:, None] * shares[k]).flatten())
            total = total + both - used(shares[i]) - used(shares[k]) + 1
        return total.clamp(min=0)

    def shrink_to(self, other: Self, share: float) -> None:
        super().shrink_to(other, share)
        if not torch.equal(self.pairs, other.pairs):
            raise ValueError("only shifts of which the same pairs interact can be shrunk to each other")
        self.shift.copy_(torch.lerp(other.shift, self.shift, share))
        self.crossing.copy_(torch.lerp(other.crossing, self.crossing, share))

    def sample(self, component: Tensor, generator: torch.Generator | None) -> Tensor:
        x = super().sample(component, generator)
        return self._shifted(x, self.moved(self.levels_of(x))) if self.places else x

    def _shifted(self, x: Tensor, by: Tensor) -> Tensor:
        """Rows x [R, D] with their continuous dimensions moved by [R, D]."""
        return self.whole(x[:, self.continuous] + by, self.levels_of(x))

    def free_parameters(self) -> int:
        levels = self.categories.forest.levels
        pairs: list[tuple[int, int]] = self.pairs.tolist()
        free = sum(levels[i] - 1 for i in self.places) + sum((levels[i] - 1) * (levels[k] - 1) for i, k in pairs)
        return super().free_parameters() + free * self.shift.shape[1]


def _within(values: Tensor, label: Tensor) -> Tensor:
    """Values [R, n] less the means of their clusters label [R]."""
    one_hot = torch.nn.functional.one_hot(label).to(values)
    means = (one_hot.mT @ values) / one_hot.sum(0).clamp(min=1)[:, None]
    return values - means[label]


class _Room:
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
class _Regressions:
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

    def chosen(self, room: _Room, R: int) -> tuple[list[int], Tensor]:
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


def _ridge_by_what_is_left(gram: Tensor, cross: Tensor, left: Tensor, total: Tensor, free: int) -> Tensor:
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


def _take_what_is_seen(B: Tensor, d: Tensor, y: Tensor, has: Tensor, before: Tensor) -> None:
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


def _precision_at_least_alone(covariance: Tensor) -> Tensor:
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
class _Interactions:
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


def _conjugate_gradients(d: Tensor, curve: Tensor, ridge: Tensor, wanted: Tensor) -> Tensor:
    """The solution x [Q, D] of sum_j d_j d_j' x curve_j + x ridge = wanted, without its matrix [Q D, Q D].

    d [J, Q], curve [J, D, D] or, of diagonal ones, [J, D], ridge [D, D], wanted [Q, D]. Preconditioned by the blocks of
    each q. Every iterate raises what the M-step raises, so that one that stops early (after MOST_ITERATIONS) is a step
    of EM too.
    """
    alone = curve.ndim == 2

    def applied(x: Tensor) -> Tensor:
        moved = d @ x
        curved = curve * moved if alone else torch.bmm(curve, moved[:, :, None])[:, :, 0]
        return d.mT @ curved + x @ ridge

    own = (d.square().mT @ curve.flatten(1)).unflatten(1, curve.shape[1:])
    blocks = (torch.diag_embed(own) if alone else own) + ridge
    factor = torch.linalg.cholesky(blocks)

    def eased(x: Tensor) -> Tensor:
        return torch.cholesky_solve(x[..., None], factor)[..., 0]

    x, left = torch.zeros_like(wanted), wanted
    direction = towards = eased(left)
    height, least = (left * towards).sum(), TOLERANCE**2 * (wanted * towards).sum()
    for _ in range(MOST_ITERATIONS):
        if not bool(height > least):
            break
        image = applied(direction)
        step = height / (direction * image).sum()
        x, left = x + step * direction, left - step * image
        towards = eased(left)
        before, height = height, (left * towards).sum()
        direction = towards + height / before * direction
    return x


class _Expanded(NamedTuple):
    """Rows, each once for every combination of the levels that shift which agrees with what is observed of it.

    agrees   [R, J] whether a combination does
    of_row   [E] the row of each of them
    ends     [R] where those of each row end
    place    [E] its combination
    numbers  their numbers
    levels   their levels, those of the combination among them
    """

    agrees: Tensor
    of_row: Tensor
    ends: Tensor
    place: Tensor
    numbers: Incomplete
    levels: DistinctLevels


class _ShiftedObserved(Observed):
    """Rows, each once for every combination of levels: these are seen as rows that have those levels, their numbers
    moved back.

    of_row, place  [E] the row of each of them, and its combination
    inner          what they are seen as
    within         [E, K] the probability of the combination given what is observed of the row, and the component
    """

    _within: Tensor | None

    def __init__(self, mixed: Shifted, rows: _Expanded, fixed: bool) -> None:
        self.mixed, self.agrees, self.of_row, self.place = mixed, rows.agrees, rows.of_row, rows.place
        self.by = mixed.shifts()[self.place]
        numbers = mixed.numbers.observe(rows.numbers.moved(rows.numbers.x - self.by), fixed=fixed)
        self.inner = MixedObserved(mixed, numbers, rows.levels)
        log_prob, R = self.inner.log_prob, len(self.agrees)
        if rows.numbers.summed and lanes.suit(R, log_prob.shape[1], log_prob, self.by):
            self.log_prob, self._within = lanes.joined(log_prob, rows.ends)
            return
        joint = log_prob.new_full((*self.agrees.shape, log_prob.shape[1]), -torch.inf)
        self.log_prob = torch.logsumexp(joint.index_put((self.of_row, self.place), log_prob), 1)
        self._within = None

    @property
    def within(self) -> Tensor:
        if self._within is not None:
            return self._within
        return (self.inner.log_prob - self.log_prob[self.of_row]).exp()

    def mean(self, k: int) -> Tensor:
        weights = torch.zeros_like(self.log_prob)
        weights[:, k] = 1
        return self.centre(weights)

    def centre(self, weights: Tensor) -> Tensor:
        weights = weights[self.of_row] * self.within
        numbers = self._sum(self.inner.numbers.centre(weights) + weights.sum(1, keepdim=True) * self.by)
        levels = [self._sum(law).argmax(-1) for law in self.inner.level_laws(weights)]
        return self.mixed.whole(numbers, torch.stack(levels, -1))

    def level_laws(self, weights: Tensor) -> list[Tensor]:
        return [self._sum(law) for law in self.inner.level_laws(weights[self.of_row] * self.within)]

    def _sum(self, values: Tensor) -> Tensor:
        """Sums of values [E, n] over the combinations of each row."""
        return values.new_zeros(len(self.log_prob), values.shape[1]).index_add(0, self.of_row, values)

    def draw(self, k: int, columns: Tensor, factors: Tensor) -> Tensor:
        return self.draw_each(torch.full((len(columns),), k, device=columns.device), columns, factors)

    def draw_each(self, component: Tensor, columns: Tensor, factors: Tensor, rows: Tensor | None = None) -> Tensor:
        """The levels that shift, one after the other, each by its own noise; then the others and the numbers."""
        if rows is not None:
            return super().draw_each(component, columns, factors, rows)
        of_row = self.of_row
        weight = self.within.gather(1, component[of_row, None])[:, 0]
        law = weight.new_zeros(self.agrees.shape).index_put((of_row, self.place), weight)
        at, every = torch.zeros_like(component), torch.arange(len(component), device=component.device)
        for i in self.mixed.places:
            n = self.mixed.categories.forest.levels[i]
            law = law.unflatten(1, (n, -1))
            level = inverted(law.sum(-1), torch.special.ndtr(columns[:, self.mixed.discrete[i]]))
            law, at = law[every, level], at * n + level
        index = torch.zeros(self.agrees.shape, dtype=torch.int64, device=component.device)
        index[of_row, self.place] = torch.arange(len(of_row), device=component.device)
        chosen = index[every, at]
        return self.mixed._shifted(self.inner.draw_each(component, columns, factors, chosen), self.by[chosen])

    def statistics(self, responsibility: Tensor) -> tuple[Tensor, ...]:
        """Those of the rows' expansion, then what it says of the shifts."""
        responsibility = responsibility[self.of_row] * self.within
        J = self.agrees.shape[1]
        shifts = self.inner.numbers.shift_statistics(responsibility, self.place, J)
        return (*self.inner.statistics(responsibility), shifts)

    def shift_statistics(self, responsibility: Tensor, place: Tensor, J: int) -> Tensor:
        inner = responsibility[self.of_row] * self.within
        return self.inner.numbers.shift_statistics(inner, place[self.of_row], J)


class ShiftedCellLaws(MixedCellLaws):
    """Under a mixture of such components."""

    def __init__(self, mixed: Shifted, log_weights: Tensor) -> None:
        super().__init__(mixed, log_weights)
        self._shifted = mixed

    def number(self, x: Tensor, j: int) -> ColumnLaw:
        law = super().number(x, j)
        mixed = self._shifted
        if not mixed.places:
            return law
        by = mixed.moved(mixed.levels_of(x))[:, self._places[j]]
        return law._replace(mean=law.mean + by[:, None])

    def probabilities(self, x: Tensor, j: int) -> Tensor:
        mixed = self._shifted
        if j not in mixed.discrete[list(mixed.places)]:
            return super().probabilities(x, j)
        log_probs = []
        for level in range(self._counts[j]):
            rows = x.clone()
            rows[:, j] = level
            log_probs.append(torch.logsumexp(mixed.log_prob(rows) + self._log_weights, -1))
        return torch.softmax(torch.stack(log_probs, -1), -1)
