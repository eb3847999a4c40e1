"""Components of mixed rows: a Gaussian of the continuous dimensions times a forest of the discrete ones.

Within a component the two are independent, unless the levels shift the Gaussian (`shifted.py`); across components they
are not. Either part may have no dimension.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Self

import torch
from torch import Tensor

from vgi_cli.layout import Layout
from vgi_cli.maths.forests import Seen, draw, level_probs
from vgi_cli.maths.gaussian import Patterns, distinct_rows, patterns_of
from vgi_cli.models.gaussian.categories import Categories, LevelSets, SeenSets
from vgi_cli.models.gaussian.family import CellLaws, ColumnLaw, Components, column_law
from vgi_cli.models.gaussian.gaussians import Footprint, Gaussians, Moments, Observed, Penalty, Scale, ShiftSystem
from vgi_cli.models.gaussian.incomplete import Incomplete
from vgi_cli.ranks import ALONE, Ranks

COUNTED = 4096
"""Rows whose pairs of levels are counted at a time: bounds the memory."""


class Mixed(Gaussians):
    """`numbers`: the Gaussians of the continuous dimensions; `categories`: the tables of the discrete ones.

    `means`, `moments` and `precision` are those of the continuous dimensions, in the order of the row.
    """

    continuous: Tensor
    discrete: Tensor

    def __init__(self, numbers: Gaussians, layout: Layout, *, edges: bool, by: int | None = None) -> None:
        """edges: whether levels depend on each other within a component; by: the discrete dimension, in their order, of
        which each component has one level (None: there is none)."""
        super().__init__()
        self.numbers, self.edges = numbers, edges
        self.K, self.L, self.diagonal, self.floor = numbers.K, numbers.L, numbers.diagonal, numbers.floor
        levels = [layout.level_counts[i] for i in layout.discrete]
        self.categories = Categories(levels, len(numbers.means()), by)
        self.D = layout.D
        self.register_buffer("continuous", torch.tensor(layout.continuous, dtype=torch.int64), persistent=False)
        self.register_buffer("discrete", torch.tensor(layout.discrete, dtype=torch.int64), persistent=False)

    def means(self) -> Tensor:
        return self.numbers.means()

    @property
    def independent(self) -> bool:
        if self.D == 1:
            return True
        alone = self.K == 1 and self.numbers.independent
        return alone and not (self.edges and len(self.categories.forest.levels) > 1)

    def work(self, missing: Tensor | None = None) -> float:
        return self.numbers.work() + 4.0 * self.means().shape[0] * self.categories.forest.T

    def cells(self, missing: Tensor | None = None) -> int:
        return self.means().shape[0] * (self.means().shape[1] + sum(self.categories.forest.levels))

    def levels_of(self, x: Tensor) -> Tensor:
        """The discrete dimensions of rows x [R, D], as numbers of levels [R, n] (int64)."""
        return x.index_select(1, self.discrete).long()

    def centred(self, x: Tensor) -> Tensor:
        """The continuous dimensions of complete rows x [R, D], as the Gaussians see them."""
        return x[:, self.continuous]

    def log_prob(self, x: Tensor) -> Tensor:
        return self.numbers.log_prob(self.centred(x)) + self.categories.log_prob(self.levels_of(x))

    def observe(self, rows: Incomplete, *, fixed: bool = False) -> Observed:
        numbers = rows.once("numbers", lambda: self.numbers_of(rows))
        levels = rows.once("levels", lambda: self.distinct(self.observed_levels(rows), summed=rows.summed))
        return MixedObserved(self, self.numbers.observe(numbers, fixed=fixed), levels)

    def numbers_of(self, rows: Incomplete) -> Incomplete:
        """The continuous dimensions of rows."""
        holes = merged(rows.patterns.missing[:, self.continuous], rows.patterns.of_row)
        return Incomplete(rows.x[:, self.continuous], holes, again=rows.again, summed=rows.summed)

    def observed_levels(self, rows: Incomplete) -> Tensor:
        """The discrete dimensions of rows, as numbers of levels [R, n] (int64), -1 where they are missing."""
        return self.seen_levels(rows.x, rows.patterns.missing[rows.patterns.of_row])

    def seen_levels(self, x: Tensor, missing: Tensor) -> Tensor:
        """The same of rows x [R, D] with missing [R, D]."""
        return torch.where(missing[:, self.discrete], -1, self.levels_of(x))

    def distinct(self, levels: Tensor, *, summed: bool = False) -> DistinctLevels:
        """Levels [R, n] (int64, -1 where they are missing), each set of them once; `summed` as of `Incomplete`."""
        counts = self.categories.forest.levels
        distinct, of_row = distinct_rows(levels + 1, [n + 1 for n in counts])
        return DistinctLevels(levels, levels < 0, LevelSets(distinct - 1, counts, summed=summed), of_row)

    def level_log_prob(self, x: Tensor, missing: Tensor) -> Tensor:
        """[R, K] log probability of the observed levels of rows x [R, D] in each component; missing [R, D]."""
        if not bool(missing[:, self.discrete].any()):
            return self.categories.log_prob(self.levels_of(x))
        seen = self.distinct(self.seen_levels(x, missing))
        return self.categories.see(seen.sets.evidence).log_prob[seen.of_row]

    def footprint(self) -> Footprint:
        numbers, forest = self.numbers.footprint(), self.categories.forest
        each = 3 * sum(forest.levels) + 2 * sum(forest.rows)
        return Footprint(numbers.pattern, numbers.row + self.categories.K * each)

    def log_penalty(self, scale: Scale, penalty: Penalty) -> Tensor:
        numbers = self.numbers.log_penalty(self._scale(scale), penalty)
        return numbers + self.categories.log_penalty(penalty.tables)

    def maximise(self, statistics: tuple[Tensor, ...], scale: Scale, penalty: Penalty) -> None:
        self.numbers.maximise(statistics[:-1], self._scale(scale), penalty)
        self.categories.maximise(statistics[-1], penalty.tables)

    def shift_system(self, statistics: Tensor) -> ShiftSystem:
        return self.numbers.shift_system(statistics)

    def set_moments(self, mean: Tensor, covariance: Tensor) -> None:
        self.numbers.set_moments(mean, covariance)

    @property
    def computable(self) -> bool:
        return self.numbers.computable

    def stretch(self, times: Tensor) -> None:
        self.numbers.stretch(times)

    def separate(self, pairs: Tensor) -> None:
        place = self.continuous.new_full((self.D,), -1)
        place[self.continuous] = torch.arange(len(self.continuous)).to(place)
        of_numbers = place[pairs]
        of_numbers = of_numbers[(of_numbers >= 0).all(1)]
        if len(of_numbers):
            self.numbers.separate(of_numbers)

    def shrink_to(self, other: Self, share: float) -> None:
        self.numbers.shrink_to(other.numbers, share)
        self.categories.shrink_to(other.categories, share)

    def moments(self) -> Moments:
        return self.numbers.moments()

    def precision(self) -> tuple[Tensor, Tensor]:
        return self.numbers.precision()

    def sample(self, component: Tensor, generator: torch.Generator | None) -> Tensor:
        numbers = self.numbers.sample(component, generator)
        levels = self.categories.sample(component, generator)
        return self.whole(numbers, levels)

    @torch.no_grad()
    def learn_levels(
        self,
        x: Tensor,
        missing: Tensor,
        weight: Tensor,
        pull: float,
        joined: Sequence[tuple[int, int]] = (),
        ranks: Ranks = ALONE,
    ) -> None:
        """The forest and the tables of rows x [R, D] that belong to the components with weights [R, k], k of the first
        components at most, in place; of a pair of dimensions the rows count that have both. `ranks`: who has more rows.
        """
        marginals, pairs = [], []
        for rows in torch.arange(len(x)).split(COUNTED):
            own = torch.nn.functional.pad(weight[rows], (0, self.categories.K - weight.shape[1]))
            one_hot = self.one_hot(self.seen_levels(x[rows], missing[rows]), x.dtype)
            marginals.append(own.mT @ one_hot)
            pairs.append(torch.stack([(one_hot * w[:, None]).mT @ one_hot for w in own.unbind(1)]))
        single, double = ranks.total(torch.stack(marginals).sum(0), torch.stack(pairs).sum(0))
        self.categories.learn(single, double, pull, edges=self.edges, joined_too=joined)

    def joins(self, apart: Tensor) -> list[tuple[int, int]]:
        """The pairs of discrete dimensions, among pairs [n, 2] of columns that no row has both of, that are to have an
        edge, unless others lead from one to the other."""
        return []

    def spread(self, x: Tensor) -> Tensor:
        """[R, F] the levels of rows x [R, D] as indicators, in such units that those of each dimension together have
        the variance 1."""
        one_hot = self.one_hot(self.levels_of(x), x.dtype)
        parts = (one_hot - one_hot.mean(0)).split(self.categories.forest.levels, 1)
        total = (part.square().mean(0).sum() for part in parts)
        return torch.cat([part / max(v.item(), 1e-12) ** 0.5 for part, v in zip(parts, total, strict=True)], 1)

    def one_hot(self, levels: Tensor, dtype: torch.dtype) -> Tensor:
        """[R, F] indicators of levels [R, n] (-1: none), those of one dimension after those of another."""
        pairs = zip(levels.unbind(1), self.categories.forest.levels, strict=True)
        return torch.cat([c[:, None] == torch.arange(n, device=c.device) for c, n in pairs], 1).to(dtype)

    def whole(self, numbers: Tensor, levels: Tensor) -> Tensor:
        """Rows [R, D] from their continuous and their discrete dimensions."""
        out = numbers.new_zeros(len(numbers), self.D)
        out[:, self.continuous] = numbers
        out[:, self.discrete] = levels.to(out.dtype)
        return out

    def free_parameters(self) -> int:
        return self.numbers.free_parameters() + self.categories.free_parameters()

    def _scale(self, scale: Scale) -> Scale:
        mean, variance = (part.index_select(0, self.continuous) for part in scale[:2])
        return Scale(mean, variance, scale.rows)


class DistinctLevels(NamedTuple):
    """The levels of rows.

    levels  [R, n] (int64), -1 where they are missing
    absent  [R, n] where they are
    sets    the distinct sets of observed levels
    of_row  [R] the set of each row
    """

    levels: Tensor
    absent: Tensor
    sets: LevelSets
    of_row: Tensor


class MixedObserved(Observed):
    """Rows seen by both parts. The categories see each distinct set of observed levels once."""

    def __init__(self, mixed: Mixed, numbers: Observed, levels: DistinctLevels) -> None:
        """numbers: the rows seen by the Gaussians."""
        self.mixed, self.numbers = mixed, numbers
        self.levels, self.absent, self.of_row = levels.levels, levels.absent, levels.of_row
        self.sets = SeenSets(mixed.categories, levels.sets)
        self.log_prob = self.numbers.log_prob + self.sets.log_prob.index_select(0, self.of_row)

    @property
    def seen(self) -> Seen:
        return self.sets.seen

    def mean(self, k: int) -> Tensor:
        levels = torch.stack([law[k].argmax(-1) for law in level_probs(self.seen)], -1)
        return self._whole(self.numbers.mean(k), levels[self.of_row])

    def centre(self, weights: Tensor) -> Tensor:
        levels = torch.stack([law.argmax(-1) for law in self.level_laws(weights)], -1)
        return self._whole(self.numbers.centre(weights), levels)

    def level_laws(self, weights: Tensor) -> list[Tensor]:
        laws = (law.permute(1, 0, 2)[self.of_row] for law in level_probs(self.seen))
        return [torch.einsum("rk,rkl->rl", weights, law) for law in laws]

    def draw(self, k: int, columns: Tensor, factors: Tensor) -> Tensor:
        component = torch.full(self.of_row.shape, k, device=columns.device)
        numbers = self.numbers.draw(k, columns[:, self.mixed.continuous], factors)
        return self._whole(numbers, self._draw_levels(component, columns, slice(None)))

    def draw_each(self, component: Tensor, columns: Tensor, factors: Tensor, rows: Tensor | None = None) -> Tensor:
        numbers = self.numbers.draw_each(component, columns[:, self.mixed.continuous], factors, rows)
        some = slice(None) if rows is None else rows
        return self._whole(numbers, self._draw_levels(component, columns, some), some)

    def _draw_levels(self, component: Tensor, columns: Tensor, rows: Tensor | slice) -> Tensor:
        return draw(self.seen, self.of_row[rows], component, torch.special.ndtr(columns[:, self.mixed.discrete]))

    def _whole(self, numbers: Tensor, levels: Tensor, rows: Tensor | slice = slice(None)) -> Tensor:
        return self.mixed.whole(numbers, torch.where(self.absent[rows], levels, self.levels[rows]))

    def statistics(self, responsibility: Tensor) -> tuple[Tensor, ...]:
        """Those of the Gaussians, then the expected counts [K, T] of the tables' cells."""
        weight = responsibility.new_zeros(self.sets.log_prob.shape[0], responsibility.shape[1])
        weight.index_add_(0, self.of_row, responsibility)
        return (*self.numbers.statistics(responsibility), self.sets.counts(weight))

    def shift_statistics(self, responsibility: Tensor, place: Tensor, J: int) -> Tensor:
        return self.numbers.shift_statistics(responsibility, place, J)


def merged(missing: Tensor, of_row: Tensor) -> Patterns:
    """Patterns of which some may be equal, each once."""
    distinct, place = patterns_of(missing)
    return Patterns(distinct, place[of_row])


class MixedCellLaws(CellLaws):
    """Under a mixture of such components."""

    def __init__(self, mixed: Mixed, log_weights: Tensor) -> None:
        """log_weights [K] of the components."""
        super().__init__(Components(log_weights, mixed.means(), *mixed.precision()))
        self._mixed, self._log_weights = mixed, log_weights
        self._log_tables = mixed.categories.log_tables().detach()
        self._places = {int(i): place for place, i in enumerate(mixed.continuous)}
        counts = zip(mixed.discrete.tolist(), mixed.categories.forest.levels, strict=True)
        self._counts: dict[int, int] = dict(counts)

    def levels(self, j: int) -> int:
        return self._counts.get(j, 0)

    def number(self, x: Tensor, j: int) -> ColumnLaw:
        """The weights of its normals know the levels."""
        mixed = self._mixed
        weights = self._log_weights + mixed.categories.log_prob(mixed.levels_of(x), self._log_tables)
        column = torch.full((len(x),), self._places[j], device=x.device)
        return column_law(self._components._replace(log_weights=weights), mixed.centred(x), column)

    def probabilities(self, x: Tensor, j: int) -> Tensor:
        """Of a level: the density of the row with it, among those of the rows with each level."""
        mixed = self._mixed
        density = mixed.numbers.log_prob(mixed.centred(x)) + self._log_weights
        log_probs = []
        for level in range(self._counts[j]):
            rows = x.clone()
            rows[:, j] = level
            levels = mixed.categories.log_prob(mixed.levels_of(rows), self._log_tables)
            log_probs.append(torch.logsumexp(density + levels, -1))
        return torch.softmax(torch.stack(log_probs, -1), -1)
