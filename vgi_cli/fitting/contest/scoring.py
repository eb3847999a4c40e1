"""How a candidate of a contest is scored: by the hidden cells and by the log-likelihood of rows that it was not fitted
to."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from vgi_cli.data import TensorTable
from vgi_cli.encoding.encoder import box, decode
from vgi_cli.evaluation.imputation import fair_crps
from vgi_cli.fitting.contest.candidates import Candidate
from vgi_cli.fitting.contest.judges import FitFold, Judge, fit_by_em
from vgi_cli.fitting.rows import Rows
from vgi_cli.maths.noise import KeyedNoise
from vgi_cli.samplers.base import Box
from vgi_cli.samplers.base import impute as impute_rows
from vgi_cli.workers import ONE_PROCESS, Tell, Workers

FEW_ROWS = 5_000
"""Rows up to which the columns are encoded anew for each fold, by the statistics of the others."""
FOLDS, PARTS, HIDDEN_PARTS = 4, 4, 2
"""The observed cells of a held-out row are cut into PARTS, of which so many are hidden, one after the other."""
DRAWS = 10
CALIBRATED = (DRAWS - 1) / (DRAWS + 1)
"""Share of the hidden numbers that lie between the least and the greatest of DRAWS draws from their own law."""
USUAL = 4.0
"""So many times the share of draws that lie beyond n observed values if they have the law of these, 2 / (n + 1)."""
SMOOTHING = 0.5
"""Draws that each level of a column has beside those that were drawn."""


class Drawn(NamedTuple):
    """Draws of hidden cells, by which averages of candidates are judged.

    errors  [DRAWS, n] float32: of numbers, draw less true cell in shares of what the column alone would score
    levels  [DRAWS, n']: of levels the codes
    truth   [n'] their true codes
    weight  [n + n'] of each cell: a column has the same in all, by how much each of its cells counts, and all columns
            together have 1
    """

    errors: Tensor
    levels: Tensor
    truth: Tensor
    weight: Tensor

    def from_truth(self) -> float:
        """Mean distance of a draw from the true cell: of numbers the absolute error, of levels 1 where they differ."""
        apart = torch.cat([self.errors.abs().mean(0), (self.levels != self.truth).float().mean(0)])
        return float(apart.double() @ self.weight)

    def apart(self, other: Drawn) -> float:
        """Mean distance of a draw from another one, of another candidate or of itself: draws of the same number, which
        are made of the same noise, are left out."""
        total = torch.zeros(len(self.weight), dtype=torch.float64)
        for shift in range(1, DRAWS):
            near, far = (torch.roll(part, shift, 0) for part in (other.errors, other.levels))
            numbers, levels = (self.errors - near).abs().mean(0), (self.levels != far).float().mean(0)
            total += torch.cat([numbers, levels])
        return float(total @ self.weight) / (DRAWS - 1)


class Scores(NamedTuple):
    """What one candidate scored.

    cells     [R] for each row: the sum over its hidden cells of their scores as shares of their columns', weighted by
              how much each counts, and so that the mean over rows is the mean over columns
    loglik    [R] log density of the observed cells of each row, in units of the data
    crps      mean over the columns of numbers, in shares of their columns'; None: there are none
    log_score the same of levels
    losses    [R, columns] the score of each hidden cell; NaN where none was hidden
    coverage  share of the hidden numbers between the least and the greatest of DRAWS draws, CALIBRATED where the draws
              are of the law of the cells; None: there are no numbers
    drawn     the draws themselves: the same cells in the same order for all candidates
    parameters  of the model
    beyond    [columns] share of the draws of hidden numbers beyond all that was observed of their column, less what is
              USUAL there; of levels 0
    """

    cells: Tensor
    loglik: Tensor
    crps: float | None
    log_score: float | None
    losses: Tensor
    coverage: float | None
    drawn: Drawn
    parameters: int
    beyond: Tensor


class Folds(NamedTuple):
    """What candidates of one encoding have in common.

    coded_by  fold -> the rows, encoded by the statistics of the other folds
    starts    fold -> the rows of the other folds, completed, and the state of the random stream after that
    """

    coded_by: dict[int, Rows]
    starts: dict[int, tuple[Tensor, Tensor]]

    def encoded(self, candidate: Candidate, number: int, kept: Tensor) -> Rows:
        """The rows of a candidate for fold `number`: few rows are encoded anew by the statistics of those of the other
        folds, `kept`."""
        if number not in self.coded_by:
            rows = candidate.rows
            few = rows.source is not None and rows.source.table.N <= FEW_ROWS
            self.coded_by[number] = rows.anew(candidate.recipe, kept) if few else rows
        return self.coded_by[number]


class Column(NamedTuple):
    """A column as it is scored: what draws from it alone would score, its number of levels (0: numbers), whether it is
    to be filled, and of numbers how many are observed, and the least and the greatest of them."""

    alone: float
    levels: int
    holed: bool
    observed: int = 0
    low: float = -math.inf
    high: float = math.inf


def columns_of(rows: Rows) -> list[Column]:
    """The modelled columns of encoded rows, by their observed cells. Those with holes are to be filled; all, where none
    has any."""
    schema = rows.schema
    codes = torch.from_numpy(decode(rows.table.x, schema))
    observed = ~rows.table.layout.of_columns(rows.table.missing)
    holes = ~observed.all(0) | observed.all()
    found = []
    for i, column in enumerate(schema.encoded):
        holed, cells = bool(holes[i]), codes[observed[:, i], i]
        levels = column.level_counts[0] if all(column.level_counts) else 0
        if levels:
            shares = torch.bincount(cells.long(), minlength=levels) / max(len(cells), 1)
            found.append(Column(_levels_alone(shares.double(), levels), levels, holed))
        else:
            ends = (len(cells), float(cells.min()), float(cells.max())) if len(cells) else ()
            found.append(Column(half_mean_difference(cells), 0, holed, *ends))
    return found


def weighted(columns: Sequence[Column], rows: Rows, odds: Tensor) -> list[Column]:
    """The columns, with what draws from each alone would score where cells of rows count by odds [R, columns]."""
    if bool((odds == 1).all()):
        return list(columns)
    codes = torch.from_numpy(decode(rows.table.x, rows.schema))
    observed = ~rows.table.layout.of_columns(rows.table.missing)
    found = []
    for i, column in enumerate(columns):
        cells, weight = codes[observed[:, i], i].double(), odds[observed[:, i], i]
        if bool((weight != 1).any()):
            column = column._replace(alone=_alone(cells, weight / weight.sum(), column.levels))
        found.append(column)
    return found


def _alone(cells: Tensor, weight: Tensor, levels: int) -> float:
    """What draws from these cells [n] would score at them, each counted by its weight (with a sum of 1)."""
    if not levels:
        order, n = cells.argsort(), len(cells)
        ordered = cells[order]
        below = ordered.cumsum(0) - ordered
        apart = ordered * (2.0 * torch.arange(n) - n) + ordered.sum() - 2 * below  # from all others, added up
        return float(weight[order] @ apart) / max(n - 1, 1) - half_mean_difference(cells)
    shares = torch.bincount(cells.long(), minlength=levels) / len(cells)
    return _levels_alone(shares.double(), levels, torch.zeros_like(shares).double().index_add(0, cells.long(), weight))


def score(
    candidate: Candidate,
    columns: Sequence[Column],
    parts: Tensor,
    fold: Tensor,
    known: Folds,
    odds: Tensor,
    fit: FitFold | None = None,
    workers: Workers = ONE_PROCESS,
) -> Iterator[Scores | float]:
    """Fit a candidate to all folds but one, score it on that one, and so on; yields the share that is done, and at the
    end the scores.

    parts  [R, columns] to which part each cell belongs
    fold   [R]
    known  what the transform of the candidate has in common with others, by fold: what is not there yet is added
    odds   [R, columns] how much each cell counts
    fit    of a candidate that EM does not fit
    workers  who takes the folds of one that EM fits
    """
    recipe = candidate.recipe
    parts = torch.where(torch.tensor([column.holed for column in columns]), parts, PARTS)  # of others none is hidden

    def judged(number: int, tell: Tell) -> _Fold:
        kept, out = (fold != number).nonzero()[:, 0], (fold == number).nonzero()[:, 0]
        coded = known.encoded(candidate, number, kept)
        train = coded.at(kept[~coded.table.missing[kept].all(1)])
        judge = fit_by_em(recipe, train, number, known.starts) if fit is None else fit(recipe, train, number)
        tell(0.5)
        held = coded.table.to(dtype=torch.float64).rows(out)
        with torch.no_grad():
            log_prob = judge.log_prob(held.x.to(judge.dtype), held.missing, coded.keys[out])
        loglik = log_prob.double() + coded.log_volume()[out]
        hidden = list(_hidden(judge, coded, held, out, parts[out], recipe.seed))
        return _Fold(judge.parameters, out, loglik, hidden)

    made: dict[int, _Fold] = {}
    task, by = (torch.inference_mode()(judged), workers) if fit is None else (judged, ONE_PROCESS)
    for number, one in by.each(task, range(FOLDS)):
        made[number] = one
        yield len(made) / FOLDS
    tally = _Tally.empty(columns, odds)
    for number in range(FOLDS):
        tally.parameters, out, tally.loglik[out], every = made[number]
        for hidden in every:
            tally.add(hidden)
    yield tally.scores()


class _Fold(NamedTuple):
    """What the rest of the rows say of a fold.

    parameters  of the model
    rows        [n] numbers of the rows of the fold
    loglik      [n] log density of their observed cells, in units of the data
    hidden      their cells that were hidden, each of HIDDEN_PARTS
    """

    parameters: int
    rows: Tensor
    loglik: Tensor
    hidden: list[_HiddenCells]


def _hidden(
    judge: Judge, coded: Rows, held: TensorTable, out: Tensor, parts: Tensor, seed: int
) -> Iterator[_HiddenCells]:
    """Each of the HIDDEN_PARTS of the observed cells of held-out rows, hidden and drawn by a judge.

    coded  the rows, as the judge takes them
    held   those that are held out, float64; out: their numbers [n]
    parts  [n, columns] of their cells
    """
    schema, layout = coded.schema, coded.table.layout
    limits = Box(*(end.to(judge.dtype) for end in box(schema)))
    truth = torch.from_numpy(decode(held.x, schema))
    absent = layout.of_columns(held.missing)
    for part in range(HIDDEN_PARTS):
        where = (parts == part) & ~absent
        missing = held.missing | layout.of_dimensions(where)
        noise = KeyedNoise(seed, layout.names, coded.keys[out], torch.arange(DRAWS), f"contest/{part}")
        x = torch.where(missing, 0.0, held.x).to(judge.dtype)
        drawn = impute_rows(judge.imputer, x, missing, noise, limits)
        yield _HiddenCells(out, where, torch.from_numpy(decode(drawn, schema)), truth)


class _HiddenCells(NamedTuple):
    """Cells of held-out rows that were hidden, with their draws.

    rows   [n] numbers of the rows
    where  [n, columns] which cells were hidden
    draws  [DRAWS, n, columns] codes, also where nothing was hidden
    truth  [n, columns] the codes of the rows
    """

    rows: Tensor
    where: Tensor
    draws: Tensor
    truth: Tensor


@dataclass
class _Tally:
    """What was scored of a candidate so far, of R rows.

    columns     as they are scored
    odds        [R, columns] how much each cell counts
    loglik      [R] log density of the observed cells, in units of the data
    losses      [R, columns] the score of each hidden cell; 0 where none was hidden
    counts      [R, columns] 1 where a cell was hidden, else 0
    covered     [R, columns] share in which a number was within the range of its draws
    beyond      [R, columns] share of its draws that are beyond all that was observed of its column
    errors      column, [n] how much each cell counts, [DRAWS, n]: of numbers, draw less true cell in shares of what the
                column alone would score
    levels      column, [n] the same, [DRAWS, n] and [n]: of levels the codes of draws and cells
    parameters  of the model
    """

    columns: Sequence[Column]
    odds: Tensor
    loglik: Tensor
    losses: Tensor
    counts: Tensor
    covered: Tensor
    beyond: Tensor
    errors: list[tuple[int, Tensor, Tensor]] = field(default_factory=list)
    levels: list[tuple[int, Tensor, Tensor, Tensor]] = field(default_factory=list)
    parameters: int = 0

    @classmethod
    def empty(cls, columns: Sequence[Column], odds: Tensor) -> _Tally:
        """Nothing scored."""
        losses, counts, covered, beyond = (torch.zeros(odds.shape, dtype=torch.float64) for _ in range(4))
        return cls(columns, odds, torch.zeros(len(odds), dtype=torch.float64), losses, counts, covered, beyond)

    def add(self, hidden: _HiddenCells) -> None:
        """Score the draws of hidden cells."""
        for i, column in enumerate(self.columns):
            where = hidden.where[:, i]
            cells, draws, truth = hidden.rows[where], hidden.draws[:, where, i], hidden.truth[where, i]
            self.losses[cells, i] = _losses(draws, truth, column.levels)
            self.counts[cells, i] = 1.0
            weight = self.odds[cells, i]
            if column.levels:
                self.levels.append((i, weight, draws, truth))
                continue
            self.covered[cells, i] = _covered(draws, truth)
            self.beyond[cells, i] = ((draws < column.low) | (draws > column.high)).double().mean(0)
            if column.alone > 0:
                self.errors.append((i, weight, ((draws - truth) / column.alone).float()))

    def scores(self) -> Scores:
        """The scores of the candidate, once all folds have been scored."""
        R, counts, weight = len(self.loglik), self.counts, self.counts * self.odds
        alone = [column.alone for column in self.columns]
        used = [i for i, share in enumerate(alone) if share > 0 and bool(counts[:, i].any())]
        numbers = [i for i in used if not self.columns[i].levels]
        levels = [i for i in used if self.columns[i].levels]
        cells = torch.zeros(R, dtype=torch.float64)
        for i in used:
            cells += self.losses[:, i] * self.odds[:, i] * (R / (weight[:, i].sum() * alone[i] * len(used)))
        means = {i: float(self.losses[:, i] @ weight[:, i] / weight[:, i].sum()) / alone[i] for i in used}
        inside = sum(float(self.covered[:, i].sum()) for i in numbers)
        inside /= max(sum(float(counts[:, i].sum()) for i in numbers), 1)
        return Scores(
            cells,
            self.loglik,
            sum(means[i] for i in numbers) / len(numbers) if numbers else None,
            sum(means[i] for i in levels) / len(levels) if levels else None,
            torch.where(counts > 0, self.losses, torch.nan),
            inside if numbers else None,
            _drawn(self.errors, self.levels),
            self.parameters,
            self._beyond(),
        )

    def _beyond(self) -> Tensor:
        """[columns] as of Scores."""
        usual = torch.tensor([2 * USUAL / (column.observed + 1) for column in self.columns], dtype=torch.float64)
        return (self.beyond.sum(0) / self.counts.sum(0).clamp(min=1) - usual).clamp(min=0)


def _levels_alone(shares: Tensor, levels: int, judged: Tensor | None = None) -> float:
    """The mean of `_losses` by DRAWS draws by these shares [levels] of a level that has the same shares, or those that
    are `judged`; 0 where there is one level."""
    if int((shares > 0).sum()) < 2:
        return 0.0
    return float(((shares if judged is None else judged) * level_losses(shares, levels)).sum())


def level_losses(shares: Tensor, levels: int) -> Tensor:
    """[levels] the mean of `_losses` of each level by DRAWS draws by these shares [levels]."""
    hits = torch.arange(DRAWS + 1, dtype=torch.float64)
    law: Tensor = torch.distributions.Binomial(DRAWS, shares[:, None]).log_prob(hits).exp()  # [levels, hits]
    return law @ _log_loss(hits, DRAWS, levels)


def half_mean_difference(values: Tensor) -> float:
    """Half the mean distance of two of the values: the CRPS of a law at its own draws."""
    n = len(values)
    if n < 2:
        return 0.0
    rank = 2.0 * torch.arange(1, n + 1, dtype=torch.float64) - n - 1
    return float((rank * values.sort().values).sum() / (n * (n - 1)))


def _drawn(errors: Sequence[tuple[int, Tensor, Tensor]], levels: Sequence[tuple[int, Tensor, Tensor, Tensor]]) -> Drawn:
    """The draws of each column's cells, in one; a column of levels counts by what draws from it alone would score, as
    numbers do."""
    cells = [*((i, odds) for i, odds, _ in errors), *((i, odds) for i, odds, *_ in levels)]
    columns = [torch.full((len(odds),), i) for i, odds in cells]
    of = torch.cat(columns) if columns else torch.zeros(0, dtype=torch.int64)
    truth = torch.cat([part for *_, part in levels]) if levels else torch.zeros(0)
    weight = torch.cat([odds for _, odds in cells]) if cells else torch.zeros(0, dtype=torch.float64)
    every = of.unique().tolist()
    for i in every:
        weight[of == i] /= len(every) * weight[of == i].sum()
    for i in {i for i, *_ in levels}:
        own = of[len(of) - len(truth) :] == i
        _, place = torch.unique(truth[own], return_inverse=True)
        shares = torch.bincount(place).double() / max(len(place), 1)
        counted = weight[of == i] / weight[of == i].sum()
        alone = float(counted @ (1 - shares[place])) - 0.5 * (1 - float(shares.square().sum()))
        weight[of == i] *= 1 / alone if alone > 0 else 0.0
    empty = torch.zeros(DRAWS, 0)
    return Drawn(
        torch.cat([part for *_, part in errors], 1) if errors else empty,
        torch.cat([part for *_, part, _ in levels], 1) if levels else empty,
        truth,
        weight,
    )


def _losses(draws: Tensor, truth: Tensor, levels: int) -> Tensor:
    """[C] the score of each cell by draws [n, C]: CRPS of numbers, minus the log of the smoothed share of a level."""
    if not levels:
        return fair_crps(draws, truth)
    return _log_loss((draws == truth).sum(0), len(draws), levels)


def _log_loss(hits: Tensor, n: int, levels: int) -> Tensor:
    """Minus the log of the smoothed share of a level that `hits` of n draws have."""
    return -((hits + SMOOTHING) / (n + SMOOTHING * levels)).double().log()


def _covered(draws: Tensor, truth: Tensor) -> Tensor:
    """[C] 1 where a truth lies between the least and the greatest of draws [n, C], ties with these counted in part."""
    low, high = draws.amin(0), draws.amax(0)
    outermost = 1 / (1 + (draws == truth).sum(0).double())
    inside = ((low <= truth) & (truth <= high)).double()
    return inside - outermost * (truth == low) - outermost * (truth == high)
