"""Finite mixtures of Gaussians, one Gaussian included: densities, conditionals and exact EM, written once for all."""

from __future__ import annotations

import copy
import math
from abc import abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any, ClassVar, NamedTuple, Self, TypeAlias, TypeVar

import torch
from torch import Tensor, nn

from vgi_cli.maths.forests import inverted
from vgi_cli.maths.gaussian import LOG_2PI, Patterns, patterns_of
from vgi_cli.maths.noise import KeyedNoise
from vgi_cli.maths.truncated import truncated_mixture
from vgi_cli.models.base import ConditionalDistribution, Marginal, Redraw
from vgi_cli.models.gaussian.gaussians import Footprint, Gaussians, Observed, Penalty, Scale, allowed, draw_noise
from vgi_cli.models.gaussian.incomplete import Incomplete
from vgi_cli.ranks import ALONE, Ranks, cuts
from vgi_cli.scratch import Scratch, pieces

NEAR = 1e-9
"""A quantile is found when a step of Newton's method moves it by less, in standard deviations of the widest
component."""
MOST_STEPS = 100
"""Steps in which one that is hard to find is: halvings alone would take about sixty."""


class EmTable(NamedTuple):
    """An incomplete table as EM sees it.

    x         [N, D] float64; missing cells hold 0. Rows are sorted by their holes
    order     [N] where each row stood in the table that was given (which may have had more)
    patterns  of the holes
    weights   [N] row weights (1, those of the rows, or those of a bootstrap sample)
    scale     units of the penalties: the same for every bootstrap sample
    scratch   where x lies in a file; None: in memory
    ranks     who has the other rows of the table, where these are a share of it: sums over rows are then over all
    whole     all rows in one piece, from the first look at them on
    """

    x: Tensor
    order: Tensor
    patterns: Patterns
    weights: Tensor
    scale: Scale
    scratch: Scratch | None = None
    ranks: Ranks = ALONE
    whole: list[Incomplete] | None = None

    def pieces(self, footprint: Footprint, *, summed: bool = True) -> Iterator[tuple[slice, Incomplete]]:
        """The rows, in pieces whose systems hold no more numbers than are allowed (`footprint`: what they hold). Where
        they come in one of half that size, what every look at them needs is kept. `summed`: whether all that is asked
        of them is densities and sums."""
        if self.whole is None or self.scratch is not None or not self._small(footprint):
            for rows, patterns in sorted_chunks(self.patterns, footprint):
                yield rows, Incomplete(self.x[rows], patterns, summed=summed)
            return
        kept = self.whole[0] if self.whole else None
        if kept is None or kept.x is not self.x or kept.patterns is not self.patterns or kept.summed != summed:
            self.whole[:] = [Incomplete(self.x, self.patterns, again=True, summed=summed)]
        yield slice(0, self.x.shape[0]), self.whole[0]

    def _small(self, footprint: Footprint) -> bool:
        """Whether all rows hold no more than half of the numbers that are allowed. Mostly they would even if each had
        all the holes that it can have, for which no hole has to be looked at."""
        R, U, room = self.x.shape[0], self.patterns.missing.shape[0], allowed()
        if 2 * max(U * footprint.pattern, R * footprint.most) <= room:
            return True
        held = float(footprint.rows(self.patterns.missing)[self.patterns.of_row].sum())
        return 2 * max(U * footprint.pattern, held) <= room

    @property
    def total(self) -> Tensor:
        """The sum of all weights."""
        return self.ranks.total(self.weights.sum())[0]

    def at(self, x: Tensor) -> EmTable:
        """The same rows with other observed cells: x [N, D], sorted as these are."""
        return self._replace(x=x, whole=[])

    def divided(self, ranks: Ranks) -> EmTable:
        """The share that one of several processes has. A pattern costs about as many rows as the table has columns, so
        that each has as much to do. Where there are fewer rows than processes, some have a row without weight."""
        if ranks.alone:
            return self
        new = torch.ones_like(self.patterns.of_row)
        new[1:] = (self.patterns.of_row[1:] != self.patterns.of_row[:-1]).to(new.dtype)
        edges = cuts(1 + new * self.x.shape[1], ranks.world)
        start, stop = edges[ranks.rank], edges[ranks.rank + 1]
        rows, weights = slice(start, stop), self.weights[start:stop]
        if start == stop:
            rows, weights = slice(0, 1), torch.zeros_like(self.weights[:1])
        of_row = self.patterns.of_row[rows]
        first, last = int(of_row[0]), int(of_row[-1]) + 1
        patterns = Patterns(self.patterns.missing[first:last], of_row - first)
        x = self.x[rows] if self.scratch is not None else self.x[rows].clone()
        return EmTable(x, self.order[rows], patterns, weights, self.scale, self.scratch, ranks, whole=[])

    def reweighted(self, weights: Tensor) -> EmTable:
        """The same table with other weights [N], in the order of the table that was given; rows without any are left
        out."""
        weights = weights.to(self.x.dtype)[self.order]
        kept = weights.nonzero()[:, 0]
        used, of_row = torch.unique(self.patterns.of_row[kept], return_inverse=True)
        patterns = Patterns(self.patterns.missing[used], of_row)
        return EmTable(self.x[kept], self.order[kept], patterns, weights[kept], self.scale, whole=[])


def em_table(x: Tensor, missing: Tensor, weights: Tensor | None = None, scratch: Scratch | None = None) -> EmTable:
    """An EmTable in float64, rows sorted by their holes; the scale is that of the observed cells (variance 1 where they
    do not vary), weighted as the rows (None: all alike).

    With `scratch`, x (float64, 0 at missing cells) lies in a file, and so will the sorted rows; sums are then taken in
    pieces, so that the last digits of the scale may differ.
    """
    if scratch is None:
        x = torch.where(missing, 0.0, x.to(torch.float64))
    weights = x.new_ones(x.shape[0]) if weights is None else weights.to(x.dtype)
    every = [slice(0, len(x))] if scratch is None else pieces(len(x), 8 * x.shape[1])

    def summed(of: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """[D] a sum over the observed cells: of(x, weights) [n, D] of some rows, the weights 0 at missing cells."""
        parts = [of(x[rows], (~missing[rows]).to(x.dtype) * weights[rows, None]).sum(0) for rows in every]
        return parts[0] if len(parts) == 1 else torch.stack(parts).sum(0)

    count = summed(lambda _, o: o)
    count = torch.where(count > 0, count, 1.0)
    mean = summed(lambda x, o: x * o) / count
    variance = summed(lambda x, o: (x - mean).square() * o) / count
    variance = torch.where(variance > 0, variance, torch.ones_like(variance))
    patterns = patterns_of(missing)
    order = torch.argsort(patterns.of_row, stable=True)
    patterns = patterns._replace(of_row=patterns.of_row[order])
    rows = x[order] if scratch is None else scratch.rows(x, order)
    return EmTable(rows, order, patterns, weights[order], Scale(mean, variance, x.shape[0]), scratch, whole=[])


class FilledRows(NamedTuple):
    """Complete rows x [R, D] of which cells missing [R, D] were filled; of_row [R] (int64): of which row of the table
    each is, where some may be copies (None: none is)."""

    x: Tensor
    missing: Tensor
    of_row: Tensor | None = None

    def once(self) -> Tensor:
        """[U] the places of the rows without copies, in order."""
        if self.of_row is None:
            return torch.arange(len(self.x), device=self.x.device)
        own, place = torch.unique(self.of_row, return_inverse=True)
        first = torch.full_like(own, len(self.x))
        return first.scatter_reduce(0, place, torch.arange(len(self.x), device=own.device), "amin").sort().values


class EmValue(NamedTuple):
    """Penalised objective and log-likelihood of the observed cells: nats, summed over weighted rows."""

    objective: Tensor
    loglik: Tensor


class Sums(NamedTuple):
    """What an EM step has summed so far.

    rows    of how many rows, the first ones of the sorted table
    totals  log-likelihood, weights [K] of the components, and what else the next parameters are learnt from; empty
            before the first row
    """

    rows: int = 0
    totals: tuple[Tensor, ...] = ()


NO_SUMS = Sums()
Result = TypeVar("Result")
InPieces: TypeAlias = Generator[Sums, None, Result]
"""Work on all rows of a table that pauses between pieces of them, where it says what it has by then."""


def at_once(work: Generator[Any, None, Result]) -> Result:
    """What some work comes to that nobody interrupts."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]  # it is a Result


class Components(NamedTuple):
    """A finite mixture of K Gaussians in dense form.

    log_weights [K]; mean [K, D]; precision [K, D, D]; logdet [K] of the covariances
    """

    log_weights: Tensor
    mean: Tensor
    precision: Tensor
    logdet: Tensor


class NumbersGiven(NamedTuple):
    """The continuous dimensions of rows, each with its own weights of the components.

    dims        their places in a row
    components  log_weights [R, K] up to a constant of the row; the others as ever, of those dimensions
    shift       [R, D'] by how much the levels shift them; None: they do not
    """

    dims: list[int]
    components: Components
    shift: Tensor | None = None


class Combinations(NamedTuple):
    """Rows [E, D] that rows of a table stand for.

    of_row  [E] which of these each is of, ascending
    x       [E, D] the rows, with the levels that shift numbers
    given   their continuous dimensions
    """

    of_row: Tensor
    x: Tensor
    given: NumbersGiven


class ColumnLaw(NamedTuple):
    """x_j given every other column: a mixture of K normals with log weights, means and standard deviations [R, K]."""

    log_weights: Tensor
    mean: Tensor
    sd: Tensor

    def centre(self) -> Tensor:
        """[R] the means."""
        return (self.log_weights.exp() * self.mean).sum(-1)

    def cdf(self, value: Tensor) -> Tensor:
        """[R] the distribution functions at values [R]."""
        below: Tensor = torch.special.ndtr((value[:, None] - self.mean) / self.sd)
        return (self.log_weights.exp() * below).sum(-1)

    def quantile(self, u: Tensor) -> Tensor:
        """[R] the inverse of `cdf` at u [R] in (0, 1). It lies between the quantiles of the components, and is found by
        Newton's method, with a halving where that would leave the range in which it is known to be. What one row comes
        to does not depend on the others."""
        weight, own = self.log_weights.exp(), self.mean + self.sd * torch.special.ndtri(u)[:, None]
        low, high = own.amin(-1), own.amax(-1)
        near, height = NEAR * self.sd.amax(-1), weight / (self.sd * math.sqrt(2 * math.pi))
        x: Tensor = (weight * own).sum(-1).clamp(low, high)
        found = torch.zeros_like(u, dtype=torch.bool)
        for _ in range(MOST_STEPS):
            z = (x[:, None] - self.mean) / self.sd
            error = (weight * torch.special.ndtr(z)).sum(-1) - u
            below = error < 0
            low, high = torch.where(below, x, low), torch.where(below, high, x)
            ahead = x - error / (height * torch.exp(-0.5 * z.square())).sum(-1)
            inside = (ahead >= low) & (ahead <= high)
            ahead = torch.where(inside, ahead, (low + high) / 2)
            close = ((ahead - x).abs() <= near) & inside | (high - low <= near)
            x, found = torch.where(found, x, ahead), found | close
            if bool(found.all()):
                break
        return x


def column_law(components: Components, x: Tensor, j: Tensor) -> ColumnLaw:
    """The law of column j [R] of rows x [R, D] given the other columns; x_j itself has no influence.

    From the precision Q of a component: mean x_j - (Q delta)_j / Q_jj, variance 1 / Q_jj, and weight pi_k N(x_-j; .),
    whose quadratic form is delta' Q delta - (Q delta)_j^2 / Q_jj.
    """
    delta = (x[:, None, :] - components.mean).scatter(2, j[:, None, None].expand(-1, components.mean.shape[0], 1), 0.0)
    product = torch.einsum("rkd,kde->rke", delta, components.precision)
    index = j[:, None, None].expand(-1, delta.shape[1], 1)
    slope = product.gather(2, index)[..., 0]
    diagonal = components.precision.diagonal(dim1=-2, dim2=-1)[:, j].mT  # [R, K]
    quadratic = (delta * product).sum(-1) - slope.square() / diagonal
    logdet = components.logdet + diagonal.log()
    log_weights = components.log_weights - 0.5 * (quadratic + logdet + (x.shape[1] - 1) * LOG_2PI)
    return ColumnLaw(torch.log_softmax(log_weights, -1), components.mean[:, j].mT - slope / diagonal, diagonal.rsqrt())


class CellLaws:
    """The law of one cell of a row given its other cells, under a mixture of Gaussians."""

    def __init__(self, components: Components) -> None:
        self._components = components

    def levels(self, j: int) -> int:
        """How many levels dimension j has; 0: it is continuous."""
        return 0

    def number(self, x: Tensor, j: int) -> ColumnLaw:
        """Of the continuous dimension j of rows x [R, D]."""
        return column_law(self._components, x, torch.full((len(x),), j, device=x.device))

    def probabilities(self, x: Tensor, j: int) -> Tensor:
        """[R, levels] of the discrete dimension j of rows x [R, D]."""
        raise ValueError(f"dimension {j} is continuous")

    def redraw(self, x: Tensor, j: int, low: Tensor, high: Tensor, choice: Tensor, u: Tensor) -> Tensor:
        """x_j of rows x [R, D] given their other cells: see `Redraw` of models/base.py."""
        if self.levels(j):
            return inverted(self.probabilities(x, j), u).to(x.dtype)
        return truncated_mixture(*self.number(x, j), low, high, choice, u)


class GaussianFamily(Marginal):
    """A finite mixture of Gaussians. Families say how they are built and weighted; everything else is here."""

    gaussians: Gaussians
    tolerance: ClassVar[float]
    """Nats a row: EM has converged when an iteration gains less."""
    undescribed: ClassVar[float]
    """Share of the rows that no size is taken to describe when sizes are judged (`methods/sizing`)."""

    @classmethod
    @abstractmethod
    def sizes(cls, config: Any, N: int, D: int) -> Sequence[Sequence[Any]]:
        """The configurations among which `methods/sizing` chooses, with the user's own values kept: paths of growing
        size, each of which may be left when it stops paying."""

    @classmethod
    def without_shifts(cls, config: Any) -> Any:
        """The configuration of the same model, whose numbers no levels shift."""
        return config

    def initialise_filled(self, filled: FilledRows, generator: torch.Generator) -> None:
        """As `initialise`, by rows of which it is known which cells were filled, and which rows are copies: a family
        may ask some questions of what was observed alone, and once."""
        self.initialise(filled.x, generator)

    @abstractmethod
    def log_weights(self) -> Tensor:
        """[K] logarithms of the components' weights, normalised."""

    @abstractmethod
    def penalty(self, pooling: float | None, floor: float | None) -> Penalty:
        """The family's penalty with a user's pooling and variance floor (None: its own)."""

    @abstractmethod
    def set_weights(self, weights: Tensor) -> None:
        """Take weights [K] of the components, up to a factor, in place."""

    @abstractmethod
    def free_parameters(self) -> int:
        """Number of free parameters, for BIC."""

    @property
    def independent(self) -> bool:
        """Whether no column moves any other, whatever the parameters: nothing that is observed in a row says where its
        holes lie (broad components may say how far)."""
        return self.gaussians.independent

    def log_prob(self, x: Tensor) -> Tensor:
        flat = x.reshape(-1, x.shape[-1])
        return torch.logsumexp(self.gaussians.log_prob(flat) + self.log_weights(), -1).reshape(x.shape[:-1])

    def marginal_log_prob(self, x: Tensor, missing: Tensor) -> Tensor:
        whole = patterns_of(missing)
        order = torch.argsort(whole.of_row, stable=True)
        parts = []
        for rows, patterns in sorted_chunks(whole._replace(of_row=whole.of_row[order]), self.gaussians.footprint()):
            some = Incomplete(x[order[rows]].to(self.gaussians.means().dtype), patterns)
            observed = self.gaussians.observe(some)
            parts.append(torch.logsumexp(observed.log_prob + self.log_weights(), -1))
        return torch.cat(parts)[torch.argsort(order)] if parts else x.new_zeros(0)

    def conditional(self, x: Tensor, missing: Tensor) -> ConditionalDistribution:
        return GaussianConditional(self, x, missing)

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        component = torch.multinomial(self.log_weights().exp(), n, replacement=True, generator=generator)
        return self.gaussians.sample(component, generator)

    def column_redraws(self) -> Redraw:
        """Exact: the law of a column given the others is a mixture of normals."""
        return self.cell_laws().redraw

    def cell_laws(self) -> CellLaws:
        """The laws of single cells given the rest of their row, in float64: of this model, which may not change while
        they are asked."""
        return CellLaws(Components(*(part.to(torch.float64) for part in self.components())))

    @property
    def shifting(self) -> Sequence[int]:
        """The discrete dimensions whose levels shift the numbers."""
        return ()

    def given_levels(self, x: Tensor, missing: Tensor) -> NumbersGiven:
        """The continuous dimensions of completed rows x [R, D] given their observed levels, in float64; where levels
        shift them, given all levels. missing [R, D]."""
        parts = Components(*(part.to(torch.float64) for part in self.components()))
        return NumbersGiven(list(range(x.shape[1])), parts._replace(log_weights=parts.log_weights.expand(len(x), -1)))

    def given_combinations(self, x: Tensor, missing: Tensor) -> Combinations:
        """Rows x [R, D], each once for every combination of the levels that shift numbers which agrees with what is
        observed of it, and their continuous dimensions, as of `given_levels`. p of a row is the sum over its
        combinations."""
        return Combinations(torch.arange(len(x), device=x.device), x, self.given_levels(x, missing))

    def components(self) -> Components:
        """The mixture in dense form; of mixed rows the Gaussians of their continuous dimensions alone."""
        return Components(self.log_weights(), self.gaussians.means(), *self.gaussians.precision())

    @torch.no_grad()
    def shrink_to(self, other: Self, share: float) -> None:
        """Keep a share (0 to 1) of what sets this model apart from another one of its size, in place."""
        mine, others = self.log_weights(), other.log_weights()
        self.gaussians.shrink_to(other.gaussians, share)
        self.set_weights(torch.lerp(others, mine, share).exp())

    @torch.no_grad()
    def separate(self, pairs: Tensor) -> None:
        """Let numbers that are observed in no row together, pairs [n, 2] of columns, be independent given all others
        within each component, in place: the likelihood of the rows stays as it is."""
        if len(pairs):
            self.gaussians.separate(pairs)

    def restore_noise(self, missing: Tensor) -> None:
        """Take back, in place, what a bootstrap refit to rows with these holes [N, D] has lost of the noise to what
        it fitted to it, where no prior does that."""
        self.gaussians.restore_noise(missing)

    @property
    def scarcest_level(self) -> float:
        """The share of rows of the rarest level that shifts numbers; 1 where none does."""
        return 1.0

    def take_turn(self, number: int) -> bool:
        """Become of the kind that the bootstrap refit of this number is of, in place; True where that is not the kind
        of the fit, so that the refit has to start anew."""
        return False

    @property
    def aimed(self) -> bool:
        """Whether the objective has a target that `refine` makes of the rows."""
        return False

    def refine(self, table: EmTable, penalty: Penalty) -> None:
        """Choose anew, between EM steps, what no parameter says, where the family has such: the shape of a forest, by
        which the objective does not fall; a target of its penalty, by which it becomes another one."""

    @torch.no_grad()
    def responsibilities(self, table: EmTable, penalty: Penalty) -> tuple[Tensor, EmValue]:
        """[N, K] the probability of each component given the observed cells of a row, rows as in the table (in a file,
        where the table is), and the `objective`."""
        shape = len(table.x), len(self.log_weights())
        out = table.x.new_empty(shape) if table.scratch is None else table.scratch.zeros(*shape, dtype=table.x.dtype)

        def look(rows: slice, joint: Tensor) -> None:
            out[rows] = torch.softmax(joint, -1)

        return out, self.objective(table, penalty, look)

    @torch.no_grad()
    def objective(
        self, table: EmTable, penalty: Penalty, look: Callable[[slice, Tensor], None] | None = None
    ) -> EmValue:
        """What EM climbs, and the log-likelihood of the observed cells. `look` is shown, of each piece of the rows, the
        log density [R, K] of the observed cells of a row and the component."""
        log_weights, loglik = self.log_weights(), table.x.new_zeros(())
        for rows, some in table.pieces(self.gaussians.footprint()):
            joint = self.gaussians.observe(some).log_prob + log_weights
            loglik = loglik + (torch.logsumexp(joint, -1) * table.weights[rows]).sum()
            if look is not None:
                look(rows, joint)
        (loglik,) = table.ranks.total(loglik)
        return EmValue(self._penalised(loglik, log_weights, table, penalty), loglik)

    def _penalised(self, loglik: Tensor, log_weights: Tensor, table: EmTable, penalty: Penalty) -> Tensor:
        return loglik + self.gaussians.log_penalty(table.scale, penalty) + (penalty.weight * log_weights).sum()

    def em_step(self, table: EmTable, penalty: Penalty) -> EmValue:
        """One exact EM step in place; returns the value at the parameters *before* it, which it never lowers."""
        return at_once(self.em_step_in_pieces(table, penalty))

    @torch.no_grad()
    def em_step_in_pieces(self, table: EmTable, penalty: Penalty, begun: Sums = NO_SUMS) -> InPieces[EmValue]:
        """As `em_step`; nothing changes before the last row. `begun`: sums of the same step to go on from, which are
        dropped where the rows are cut into other pieces now. Of rows that several processes share there is one piece.
        """
        log_weights, ranks = self.log_weights(), table.ranks
        if ranks.alone:
            sums = yield from self._expected(table, log_weights, begun)
        else:
            sums = ranks.total(*possible(lambda: at_once(self._expected(table, log_weights, NO_SUMS)), ranks))
        loglik, weights, *totals = sums
        objective = self._penalised(loglik, log_weights, table, penalty)
        self.gaussians.maximise(tuple(totals), table.scale, penalty)
        self.set_weights(weights + penalty.weight)
        if not ranks.alone:
            ranks.agree(objective, *self.parameters())
        return EmValue(objective, loglik)

    def _expected(self, table: EmTable, log_weights: Tensor, begun: Sums) -> InPieces[tuple[Tensor, ...]]:
        """The sums of a step over the rows of a table, from `begun` on."""
        footprint = self.gaussians.footprint()
        sums = NO_SUMS
        if begun.rows and any(rows.stop == begun.rows for rows, _ in sorted_chunks(table.patterns, footprint)):
            sums = begun
        for rows, some in table.pieces(footprint):
            if rows.stop <= sums.rows:
                continue
            observed, own = self.gaussians.observe(some), table.weights[rows]
            joint = observed.log_prob + log_weights
            log_prob = torch.logsumexp(joint, -1)
            responsibility = torch.exp(joint - log_prob[:, None]) * own[:, None]
            loglik, weights = (log_prob * own).sum(), responsibility.sum(0)
            found = (loglik, weights, *observed.statistics(responsibility))
            sums = Sums(rows.stop, tuple(map(torch.add, sums.totals, found)) if sums.totals else found)
            if sums.rows < table.x.shape[0]:
                yield sums
        return sums.totals


Module = TypeVar("Module", bound=nn.Module)


def in_double(module: Module) -> Module:
    """A module in float64: itself where it is, else a copy."""
    numbers = (part for part in (*module.parameters(), *module.buffers()) if part.is_floating_point())
    return module if all(part.dtype is torch.float64 for part in numbers) else copy.deepcopy(module).double()


def possible(work: Callable[[], tuple[Tensor, ...]], ranks: Ranks) -> tuple[Tensor, ...]:
    """What some work on a share of the rows gives. LinAlgError in all ranks where one meets a matrix that is not
    positive definite."""
    if ranks.alone:
        return work()
    try:
        found = work()
    except torch.linalg.LinAlgError:
        found = ()
    if ranks.any(not found):
        raise torch.linalg.LinAlgError("a matrix is not positive definite")
    return found


def step_work(model: GaussianFamily, N: int) -> float:
    """Multiplications of one EM step on N rows, roughly: the system of every row and component."""
    return N * model.gaussians.work()


def sorted_chunks(patterns: Patterns, footprint: Footprint) -> Iterator[tuple[slice, Patterns]]:
    """Rows sorted by pattern, in pieces whose systems hold no more numbers than are allowed, and so do their rows."""
    most_numbers = allowed()
    U, R = patterns.missing.shape[0], patterns.of_row.shape[0]
    step = max(1, most_numbers // max(footprint.pattern, 1))
    if not U:
        yield slice(0, R), patterns
        return
    each, count = footprint.rows(patterns.missing), torch.bincount(patterns.of_row, minlength=U)
    held, ends = (each * count).cumsum(0).tolist(), count.cumsum(0).tolist()
    if step >= U and held[-1] <= most_numbers and 64 * step >= R:
        yield slice(0, R), patterns
        return
    first, start, before = 0, 0, 0.0
    for last in range(1, U + 1):
        full = last < U and (ends[last] - start > 64 * step or held[last] - before > most_numbers)
        if last == U or last - first == step or full:
            most = min(64 * step, max(1, int(most_numbers // float(each[first:last].max()))))
            for begin in range(start, ends[last - 1], most):
                rows = slice(begin, min(begin + most, ends[last - 1]))
                yield rows, Patterns(patterns.missing[first:last], patterns.of_row[rows] - first)
            first, start, before = last, ends[last - 1], held[last - 1]


class GaussianConditional(ConditionalDistribution):
    """p(x_mis | x_obs) under a finite mixture of Gaussians: pick a component, then draw from its conditional."""

    def __init__(self, model: GaussianFamily, x: Tensor, missing: Tensor) -> None:
        self._x, self._missing = x, missing
        with torch.no_grad():
            inner = torch.where(missing, 0.0, x).to(model.gaussians.means().dtype)
            self._observed: Observed = model.gaussians.observe(Incomplete(inner, patterns_of(missing)))
            self._weights = torch.softmax(self._observed.log_prob + model.log_weights(), -1)
        self._L = model.gaussians.L

    @torch.no_grad()
    def mean(self) -> Tensor:
        return torch.where(self._missing, self._observed.centre(self._weights).to(self._x.dtype), self._x)

    @torch.no_grad()
    def sample(self, noise: KeyedNoise) -> Tensor:
        bounds = self._weights.cumsum(-1)[:, :-1]
        choice = noise.at("component").uniform(("component",)).to(bounds.dtype)
        columns, factors = (part.to(bounds.dtype) for part in draw_noise(noise, self._L))
        draws = []
        for i in range(len(choice)):  # one draw at a time: products of one shape, so rounding cannot depend on n
            component = (choice[i] > bounds).sum(-1)
            drawn = self._observed.draw_each(component, columns[i], factors[i]).to(self._x.dtype)
            draws.append(torch.where(self._missing, drawn, self._x))
        return torch.stack(draws)
