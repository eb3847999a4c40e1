"""Exact draws from the model, revised cell by cell where trees have found its laws of single cells wrong.

A mixture says how the columns of a row go together; what it misses (three columns that act on each other, a step) shows
in its law of one cell given the others. Of a number, the distribution function of that law at the observed cells would
be uniform whatever the other cells are (Rosenblatt 1952); of a level, its indicator would have the law's probability as
its mean. A tree for each column looks for rows of which that is not so, and keeps in each leaf by what to correct the
law there: as chained equations with trees do (Burgette and Reiter 2010), but beginning with the law of the model, which
stays where the rows do not say otherwise.

A number's correction is the density of the distribution function on BINS equal intervals, a level's is a factor of its
probability. Trees are learnt with the fit, one set for each bootstrap refit (fitting/trees.py). Before them the law of
a level is corrected for the other columns, each by itself, and that of a number for those of levels, whether or not
that is seen to predict better (fitting/pairs.py).
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor

from vgi_cli.data import Rounding
from vgi_cli.layout import Layout
from vgi_cli.maths.forests import inverted
from vgi_cli.maths.indicators import Indicators
from vgi_cli.maths.noise import KeyedNoise
from vgi_cli.maths.trees import Tree
from vgi_cli.models.gaussian.family import CellLaws, ColumnLaw, GaussianFamily
from vgi_cli.samplers.base import ROW_BLOCK, Box, Imputer, SamplerInput
from vgi_cli.samplers.exact import ExactImputer

ROUNDS = 2
"""Rounds over the columns, when trees are learnt as when they revise draws: a cell's neighbours are revised too."""
EXACT = 0.5
"""About which share of the work the draws are that are revised then; for what is told of it."""
BINS = 10
"""Intervals of the distribution function of a number."""
TOGETHER = 4096
"""Rows are looked at so many at a time, of as many draws from the same refit as that are."""
FAR = 3.0
"""Standard deviations beyond which a number says no more of a level (`Tree.pairs`)."""
EVEN = 32
"""Rows are revised in multiples of so many: the rounding of a row cannot depend on which other rows have holes."""
SMALL = 400
"""Multiplications below which torch computes a batched product in loops of its own, which round otherwise than its
library for matrices: no product of revised rows has fewer."""
TAIL, MOST_IN_TAILS = 0.01, 0.1
"""Probability below and above which a value lies in a tail of its law, and the share of a column's values that may."""
RARE = 1e-6
"""Probabilities are looked at in logarithms from here on."""


class Cell:
    """One column of rows x [R, D], as the model sees it given the other columns: its law, and what a tree may ask for.

    features  [R, F] float32: the other columns (levels as indicators); of a number the mean of its law, of a level the
              logarithms of the law's probabilities but the last
    law       of a number, else None
    probs     [R, levels], of a level, else None
    places    [R, n] where the levels of all columns of levels stand among those of all
    numbers   [R, n] the columns of numbers, not beyond FAR
    own       where its own levels stand there
    levels    how many these are
    """

    def __init__(self, laws: CellLaws, indicators: Indicators, x: Tensor, j: int) -> None:
        self.law: ColumnLaw | None = None
        self.probs: Tensor | None = None
        self.places, self.numbers = indicators.places(x), indicators.numbers(x).clamp(-FAR, FAR)
        self.own, self.levels = slice(0), indicators.levels
        if laws.levels(j):
            self.probs = laws.probabilities(x, j)
            self.own = indicators.place(j)
            own = (self.probs[:, :-1] + RARE).log()
        else:
            self.law = laws.number(x, j)
            own = self.law.centre()[:, None]
        others = indicators(x)
        others = torch.where(indicators.of == j, 0.0, others)
        self.features = torch.cat([others, own], 1).to(torch.float32)

    def at(self, rows: Tensor) -> Cell:
        """The same of some of the rows (index into R)."""
        some = copy.copy(self)
        some.features = self.features[rows]
        some.law = None if self.law is None else ColumnLaw(*(part[rows] for part in self.law))
        some.probs = None if self.probs is None else self.probs[rows]
        some.places, some.numbers = self.places[rows], self.numbers[rows]
        return some

    def holds(self, value: Tensor) -> bool:
        """Whether no more of a number's observed values [R] than MOST_IN_TAILS are in the tails of its law. A model
        leaves of the rows that it was fitted to what it says; where it leaves much more, the other cells of the rows
        are not where they were then. So it is of sums that hold exactly but for rounding: these are followed so closely
        that a place within the rounding decides, and what the law leaves says nothing of the column."""
        u = cast(ColumnLaw, self.law).cdf(value)
        return float(((u < TAIL) | (u > 1 - TAIL)).double().mean()) <= MOST_IN_TAILS

    def revised(self, tree: Tree | None, u: Tensor) -> Tensor:
        """[R] draws of the column, as the tree corrects its law (None: it does not), at u [R] in (0, 1)."""
        if self.probs is not None:
            return inverted(self.probabilities(tree), u).to(u.dtype)
        if tree is None:
            return cast(ColumnLaw, self.law).quantile(u)
        kept = tree.table[tree.leaves(self.features)].to(torch.float64)
        return self.moved(tree.pairs).quantile(_unbent(kept[:, :BINS], u))

    def moved(self, pairs: Tensor) -> ColumnLaw:
        """The law of a number, moved for the levels of its row (`Tree.pairs`)."""
        law = cast(ColumnLaw, self.law)
        return law._replace(mean=law.mean + self._by_levels(pairs, 1)) if len(pairs) else law

    def paired(self, pairs: Tensor) -> Tensor:
        """[R, levels] of a column of levels, as they are corrected for the other cells of the row (`Tree.pairs`); as
        the law has them where nothing is left of a level that it allows."""
        probs = cast(Tensor, self.probs)
        if not len(pairs):
            return probs
        score = self._by_levels(pairs, probs.shape[1])
        for number, slope in zip(self.numbers.unbind(1), pairs[self.levels :, : probs.shape[1]], strict=False):
            score += number[:, None] * slope
        factors = (score - score.amax(1, keepdim=True)).exp()
        total = (probs * factors).sum(1, keepdim=True)
        return torch.where(total > 0, probs * factors / total, probs)

    def _by_levels(self, pairs: Tensor, width: int) -> Tensor:
        """[R, width] sums over the levels of a row, one after the other: no row depends on other rows."""
        total = torch.zeros(len(self.places), width, dtype=torch.float64)
        for place in self.places.unbind(1):
            total += pairs[place, :width]
        return total

    def probabilities(self, tree: Tree | None) -> Tensor:
        """[R, levels] of a column of levels, as the tree corrects them."""
        if tree is None:
            return cast(Tensor, self.probs)
        probs = self.paired(tree.pairs)
        probs = probs * tree.table[tree.leaves(self.features)].to(torch.float64)[:, : probs.shape[1]]
        return probs / probs.sum(1, keepdim=True)


def _unbent(density: Tensor, u: Tensor) -> Tensor:
    """[R] where in (0, 1) the distribution function of a density on equal intervals [R, BINS] reaches u [R]."""
    total = density.cumsum(1)
    reached = u * total[:, -1]
    place = (reached[:, None] >= total[:, :-1]).sum(1, keepdim=True)
    before = torch.nn.functional.pad(total, (1, 0)).gather(1, place)[:, 0]
    share = (reached - before) / density.gather(1, place)[:, 0]
    return ((place[:, 0] + share) / BINS).clamp(2.0**-53, 1 - 2.0**-53)


class TreesImputer(Imputer):
    """Draw i comes from refit i modulo their number, as `ExactImputer` makes it; then ROUNDS times every missing cell
    in turn is drawn anew, given the others, from its law under the refit as the refit's tree corrects it. What falls
    outside the box is drawn from the law of the refit truncated to it."""

    parallel = True

    def __init__(
        self,
        models: Sequence[GaussianFamily],
        trees: Sequence[Sequence[Tree | None]],
        layout: Layout,
        rounding: Rounding | None = None,
    ) -> None:
        """trees: of each model; empty: no law is corrected, and the draws keep the law of the models. rounding: as of
        `ExactImputer`."""
        self._exact = ExactImputer(models, rounding=rounding, tails=layout.tails, names=layout.names)
        self._laws = [copy.deepcopy(model).cpu().cell_laws() for model in models]
        self._trees = trees or [[None] * layout.D for _ in models]
        self._indicators = Indicators(layout.level_counts)
        self._fewest = -(-SMALL // max(len(layout.continuous), 1))
        self._revised = torch.zeros((), dtype=torch.int64)

    @torch.no_grad()
    def sample(self, x: Tensor, missing: Tensor, noise: KeyedNoise, box: Box) -> Tensor:
        """Draws in the box; computed on the CPU in float64."""
        self._exact.watch = lambda share: self.watch(EXACT * share)
        blocks = torch.arange(len(x)).split(ROW_BLOCK)
        result = torch.cat([self._exact.placed(x[b], missing[b], noise.select(rows=b), box) for b in blocks], 1)
        holes = missing.cpu()
        bounds = Box(*(side.to("cpu", torch.float64) for side in box))
        draws, done = noise.draws.tolist(), 0
        for number in range(len(self._laws)):
            mine = torch.tensor([i for i, draw in enumerate(draws) if draw % len(self._laws) == number])
            for some in mine.split(max(1, TOGETHER // len(x))) if len(mine) else ():
                self.watch(EXACT + (1 - EXACT) * done / len(draws))
                one = noise.select(draws=some)
                rows = self._revise(number, result[some].to("cpu", torch.float64), holes, one, bounds)
                result[some] = torch.where(missing, rows.to(result), x)
                done += len(some)
        return result

    def rows_at_once(self, draws: int, x: Tensor) -> int:
        return TOGETHER

    @torch.inference_mode()
    def _revise(self, number: int, draws: Tensor, missing: Tensor, noise: KeyedNoise, box: Box) -> Tensor:
        """[n, R, D]: some draws of one refit, revised."""
        laws, x = self._laws[number], draws.flatten(0, 1)
        missing = missing.repeat(len(draws), 1)
        columns = missing.any(0).nonzero()[:, 0].tolist()
        for turn in range(ROUNDS):
            u = noise.at(f"trees/{turn}").uniform().flatten(0, 1).cpu()
            choice = noise.at(f"trees/{turn}/component").uniform().flatten(0, 1).cpu()
            for j in columns:
                rows = missing[:, j].nonzero()[:, 0]
                count = -(-max(len(rows), self._fewest) // EVEN) * EVEN
                index = torch.nn.functional.pad(rows, (0, count - len(rows)), value=int(rows[-1]))
                now = x[index]
                drawn = Cell(laws, self._indicators, now, j).revised(self._trees[number][j], u[index, j])
                outside = ~((drawn >= box.low[j]) & (drawn <= box.high[j]))
                if bool(outside.any()):
                    again = laws.redraw(now, j, box.low[j], box.high[j], choice[index, j], u[index, j])
                    drawn = torch.where(outside, again, drawn)
                x[rows, j] = drawn[: len(rows)]
        self._revised += missing.sum()
        return x.view(draws.shape)

    def level_probabilities(self, x: Tensor, j: int, draw: int) -> Tensor:
        number, rows = draw % len(self._laws), x.to("cpu", torch.float64)
        cell = Cell(self._laws[number], self._indicators, rows, j)
        return cell.probabilities(self._trees[number][j]).to(x.device)

    def counts(self) -> list[Tensor]:
        return [*self._exact.counts(), self._revised]

    def diagnostics(self) -> dict[str, object]:
        """What the exact draws report, and how many cells were revised."""
        found = self._exact.diagnostics()
        return {**found, "revised_cells": int(self._revised)} if found else {}


def build(fitted: SamplerInput) -> TreesImputer:
    """The sampler `trees`."""
    models = [cast(GaussianFamily, model).for_fills() for model in fitted.models]
    return TreesImputer(models, fitted.trees, fitted.layout, fitted.rounding)
