"""Which model for a table that nobody named one for: candidates are fitted to part of the rows, and score on the rest.

The rule. Rows are cut into folds. Each candidate (a model and a transform of the columns) is fitted to all folds but
one, whose rows have no part in the statistics by which the columns are encoded either. The held-out rows then score it
twice. *Cells*: parts of their observed cells are hidden in turn and drawn DRAWS times from the fit; of numbers the
continuous ranked probability score counts, of levels the logarithmic score, each as a share of what draws from the
column alone would score, so that 1 means that the model knows nothing but the column. Columns with holes count, all
alike: those without need no fills, and stay as they are. *Log-likelihood*: the mean log
density of the observed cells, in units of the data. `--score` says which of the two decides. The candidate with the
fewest parameters wins of those that lie within the noise of the best: within NOISE standard errors of the difference,
row by row; who fills a column clearly worse than the best neither wins nor takes part in the average, since estimates
from the filled table would show it. Nor do factor models where the rows determine full covariances well, unless they
fill clearly better: what few factors cannot say is lost from every estimate, and costs hidden cells little.

The first candidate has its size chosen as ever (`methods/em/sizing`). The other mixtures take its number of components;
where one of them is best, it is scored once more with the size that is chosen for itself. The best so far is scored
again with more components, if these describe held-out rows nearly as well: a likelihood says little of how many fill
cells best. Rows, folds and work are counted, so that the same table and seed give the same winner on every machine;
only a time limit ends a contest by the clock.

Models that EM does not fit (`--compare flow`) come last: each is fitted to the folds by its own method, whole, and
draws as `vgi impute` draws from it. By hidden cells it also has to beat the average of the others, for that is what
imputes where they win.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple, cast

import torch
from torch import Tensor

from vgi_cli.columns.base import Encoding
from vgi_cli.columns.schema import Schema
from vgi_cli.completers.base import GivenUp, ask
from vgi_cli.encoding.encoder import box, decode
from vgi_cli.encoding.recode import recoder
from vgi_cli.errors import FitError, Interrupted
from vgi_cli.evaluation.imputation import fair_crps
from vgi_cli.evaluation.likelihood.estimate import observed_log_prob
from vgi_cli.fitting.averaging import other_transforms, selected
from vgi_cli.fitting.choosing import FEWEST_COMPARED
from vgi_cli.fitting.fitted import Fitted
from vgi_cli.fitting.plan import stream
from vgi_cli.fitting.refits import em_settings, refit_count
from vgi_cli.fitting.rows import Rows, held_out, new_schema, rows_of
from vgi_cli.fitting.tables import encoding_of
from vgi_cli.machine.device import set_threads
from vgi_cli.machine.work import OutOfTime, TimeLimit, TimeUp, Work, giving_up
from vgi_cli.maths.noise import KeyedNoise
from vgi_cli.methods.em.em import completed
from vgi_cli.methods.em.sizing import EPOCHS, TOLERANCE, choose_size, plain
from vgi_cli.methods.em.sizing import Candidate as Sized
from vgi_cli.methods.em.steps import climb
from vgi_cli.models.base import built
from vgi_cli.models.gaussian.family import GaussianFamily, em_table
from vgi_cli.models.gaussian.mixture import FULL_UP_TO, GaussianMixture, MixtureConfig
from vgi_cli.registry import names as registry
from vgi_cli.reporting import CONTEST, TRAINING, Lines, Progress, Silent, Stage
from vgi_cli.runs.store import CHAINS
from vgi_cli.samplers.base import Box, Imputer, SamplerInput
from vgi_cli.samplers.base import impute as impute_rows
from vgi_cli.samplers.exact import ExactImputer
from vgi_cli.settings.recipe import Averaged, MethodChoice, ModelChoice, Recipe

Score = Literal["cells", "loglik"]

TRANSFORMS = {"normal": "columns bent to normal", "linear": "columns standardised"}
UNSCALED = "columns in their own units"
"""What `table.transform=none` is called; it is no candidate where nobody says it."""
ROWS = 1_500
"""Rows that are compared, a random choice of more."""
CELLS = 1 << 22
"""Of a table in files the contest looks at a random choice of rows with so many cells, else at all."""
ANEW = 5_000
"""Rows up to which the columns are encoded anew for each fold, by the statistics of the others."""
FOLDS, PARTS, HIDDEN_PARTS = 4, 4, 2
"""The observed cells of a held-out row are cut into PARTS, of which so many are hidden, one after the other."""
DRAWS = 10
CALIBRATED = (DRAWS - 1) / (DRAWS + 1)
"""Share of the hidden numbers that lie between the least and the greatest of DRAWS draws from their own law."""
NOISE = 0.25
FEWEST_NUMBERS = 3
"""Columns of numbers from which factors are an alternative."""
FACTORS, MANY_NUMBERS = 3, 12
"""Factors of each component of a mixture where it has so many columns of numbers, else 1."""
LINES = 5
FAR, CLEARLY = 0.05, 0.01
"""A candidate whose score is worse than the best by a larger share of that is in no average; nor is one that fills a
column worse by such a share where this has a probability of at most CLEARLY by chance, in any column."""
WELL, BETTER = 20.0, 2.0
"""Rows for each component and column of numbers from which on covariances are well determined, and the standard errors
by which a factor model has to be better there than the best with full ones."""
UNLIKE, SURELY = 0.05, 3.0
"""Nats for each column of numbers, and standard errors, by which a candidate describes held-out rows clearly worse."""
SIZES, SIZED_ROWS = 3, 5_000
"""Numbers of components that a mixture of an average has in turn, in tables of up to so many rows; beyond, one."""
NEARLY = 0.01
"""Nats a dimension: held-out rows are described nearly as well by what is no farther behind the best."""
SHARE = 0.4
"""Of the time that is left under a time limit."""
FIT_SHARE = 0.7
"""Of the time that a fold of a candidate has that EM does not fit, for the fit; the rest is for its scores."""
OTHERS = 8
"""Of the stage, how much longer a candidate takes that EM does not fit than all that it does."""
SMOOTHING = 0.5
"""Draws that each level of a column has beside those that were drawn."""


class Candidate(NamedTuple):
    """What may win: a recipe that names a model, its size and a transform, and the rows as that encodes them."""

    title: str
    recipe: Recipe
    rows: Rows


Fit = Callable[[Rows, Recipe, Work], Fitted]
"""Fits rows by a recipe, in memory."""


class Judge(NamedTuple):
    """A model that was fitted to some rows, and judges others.

    log_prob    (x, missing, keys) of rows -> [R] the log density of their observed cells, encoded
    imputer     draws their hidden cells
    dtype       in which it takes them
    parameters  how many it has
    """

    log_prob: Callable[[Tensor, Tensor, Tensor], Tensor]
    imputer: Imputer
    dtype: torch.dtype
    parameters: int


FitFold = Callable[[Recipe, Rows, int], Judge]
"""Fits the rows of all folds but one, whose number it is told, by the method of a recipe."""


class Drawn(NamedTuple):
    """Draws of hidden cells, by which averages of candidates are judged.

    errors  [DRAWS, n] float32: of numbers, draw less true cell in shares of what the column alone would score
    levels  [DRAWS, n']: of levels the codes
    truth   [n'] their true codes
    weight  [n + n'] of each cell: a column has the same in all, and all columns together have 1
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

    cells     [R] for each row: the sum over its hidden cells of their scores as shares of their columns', weighted so
              that the mean over rows is the mean over columns
    loglik    [R] log density of the observed cells of each row, in units of the data
    crps      mean over the columns of numbers, in shares of their columns'; None: there are none
    log_score the same of levels
    losses    [R, columns] the score of each hidden cell; NaN where none was hidden
    coverage  share of the hidden numbers between the least and the greatest of DRAWS draws, CALIBRATED where the draws
              are of the law of the cells; None: there are no numbers
    drawn     the draws themselves: the same cells in the same order for all candidates
    parameters  of the model
    """

    cells: Tensor
    loglik: Tensor
    crps: float | None
    log_score: float | None
    losses: Tensor
    coverage: float | None
    drawn: Drawn
    parameters: int


class Folds(NamedTuple):
    """What candidates of one encoding have in common.

    coded_by  fold -> the rows, encoded by the statistics of the other folds
    starts    fold -> the rows of the other folds, completed, and the state of the random stream after that
    """

    coded_by: dict[int, Rows]
    starts: dict[int, tuple[Tensor, Tensor]]


class Column(NamedTuple):
    """A column as it is scored: what draws from it alone would score, its number of levels (0: numbers), and whether it
    is to be filled."""

    alone: float
    levels: int
    holed: bool


def columns_of(rows: Rows) -> list[Column]:
    """The modelled columns of encoded rows, by their observed cells. Those with holes are to be filled; all, where none
    has any."""
    schema = rows.source.schema  # type: ignore[union-attr]
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
            found.append(Column(_half_mean_difference(cells), 0, holed))
    return found


def _levels_alone(shares: Tensor, levels: int) -> float:
    """The mean of `_losses` of a level by DRAWS draws, both by these shares [levels]; 0 where there is one level."""
    if int((shares > 0).sum()) < 2:
        return 0.0
    hits = torch.arange(DRAWS + 1, dtype=torch.float64)
    law = torch.distributions.Binomial(DRAWS, shares[:, None]).log_prob(hits).exp()  # [levels, hits]
    return float((shares * (law @ _log_loss(hits, DRAWS, levels))).sum())


def _half_mean_difference(values: Tensor) -> float:
    """Half the mean distance of two of the values: the CRPS of a law at its own draws."""
    n = len(values)
    if n < 2:
        return 0.0
    rank = 2.0 * torch.arange(1, n + 1, dtype=torch.float64) - n - 1
    return float((rank * values.sort().values).sum() / (n * (n - 1)))


def fit_by_em(recipe: Recipe, rows: Rows, number: int, starts: dict[int, tuple[Tensor, Tensor]]) -> Judge:
    """A mixture or `fa`, fitted by a short climb; `starts`: as in Folds."""
    family = cast(type[GaussianFamily], recipe.model.family)
    em = em_settings(recipe)
    train = rows.table.to(dtype=torch.float64)
    generator = stream(recipe.seed, f"contest/{number}")
    if number in starts:
        start, state = starts[number]
        generator.set_state(state)
    else:
        start = completed(train, generator)
        starts[number] = start, generator.get_state()
    model = built(family, recipe.model_settings, train.layout).double()
    model.initialise(start, generator)
    penalty = model.penalty(em.pooling, em.floor)
    climb(model, em_table(train.x, train.missing, train.relative_weight), penalty, epochs=EPOCHS, tolerance=TOLERANCE)
    imputer = ExactImputer([model.for_fills()], tails=train.layout.tails)
    return Judge(lambda x, m, _: model.marginal_log_prob(x, m), imputer, torch.float64, model.free_parameters())


def fit_as_ever(recipe: Recipe, rows: Rows, fit: Fit, work: Work, over: Callable[[], bool]) -> Judge:
    """Any model, fitted by its own method, whole, but for refits. GivenUp where the time limit left no time for it.

    work  of the fit
    over  whether the time for scores is over: OutOfTime then
    """
    alone = recipe.replace(
        bootstrap="none",
        average="none",
        trees="none",
        val=None,
        select="loglik",
        holdout_cells=None,
        stop_after=None,
        time_limit=None,
    )
    try:
        fitted = fit(rows, alone, work)
    except TimeUp:
        raise GivenUp from None
    finally:
        set_threads(recipe.threads or 1)
    own, levels = fitted.recipe, bool(fitted.layout.discrete)
    entry = registry.SAMPLERS[registry.choose_sampler("auto", own.model.name, own.method.named, levels=levels)]
    model, q = fitted.model, fitted.conditionals
    chains = entry.needs & {"conditionals", "imputations"}
    inputs = SamplerInput(
        (model,),
        fitted.layout,
        q if chains else None,
        fitted.held if chains else {},
        chains=fitted.run.tensors(CHAINS) if chains else {},
    )

    def log_prob(x: Tensor, missing: Tensor, keys: Tensor) -> Tensor:
        return observed_log_prob(model, q, x, missing, seed=recipe.seed, rows=keys, progress=giving_up(over)).values

    dtype = next(model.parameters()).dtype
    imputer = entry.load()(inputs)
    imputer.watch = giving_up(over)
    return Judge(log_prob, imputer, dtype, sum(each.numel() for each in model.parameters()))


def score(
    candidate: Candidate,
    columns: Sequence[Column],
    parts: Tensor,
    fold: Tensor,
    known: Folds,
    fit: FitFold | None = None,
) -> Iterator[Scores | float]:
    """Fit a candidate to all folds but one, score it on that one, and so on; yields the share that is done, and at the
    end the scores.

    parts  [R, columns] to which part each cell belongs
    fold   [R]
    known  what the transform of the candidate has in common with others, by fold: what is not there yet is added
    fit    of a candidate that EM does not fit
    """
    coded_by, starts = known
    recipe, rows = candidate.recipe, candidate.rows
    parameters = 0
    holed = torch.tensor([column.holed for column in columns])
    R, n = len(fold), len(columns)
    cells, loglik = torch.zeros(R, dtype=torch.float64), torch.zeros(R, dtype=torch.float64)
    losses, covered = torch.zeros(R, n, dtype=torch.float64), torch.zeros(R, n, dtype=torch.float64)
    counts = torch.zeros(R, n, dtype=torch.float64)
    errors: list[tuple[int, Tensor]] = []
    levels_drawn: list[tuple[int, Tensor, Tensor]] = []
    for number in range(FOLDS):
        kept, out = (fold != number).nonzero()[:, 0], (fold == number).nonzero()[:, 0]
        if number not in coded_by:
            few = rows.source is not None and rows.source.table.N <= ANEW
            coded_by[number] = rows.anew(recipe, kept) if few else rows
        coded = coded_by[number]
        schema = coded.source.schema  # type: ignore[union-attr]
        held = coded.table.to(dtype=torch.float64).rows(out)
        train = coded.at(kept[~coded.table.missing[kept].all(1)])
        judge = fit_by_em(recipe, train, number, starts) if fit is None else fit(recipe, train, number)
        parameters = judge.parameters
        yield (number + 0.5) / FOLDS
        with torch.no_grad():
            log_prob = judge.log_prob(held.x.to(judge.dtype), held.missing, coded.keys[out])
        loglik[out] = log_prob.double() + coded.log_volume()[out]
        limits = Box(*(end.to(judge.dtype) for end in box(schema)))
        truth = torch.from_numpy(decode(held.x, schema))
        layout = coded.table.layout
        absent = layout.of_columns(held.missing)
        for part in range(HIDDEN_PARTS):
            hidden = (parts[out] == part) & ~absent & holed
            missing = held.missing | layout.of_dimensions(hidden)
            noise = KeyedNoise(recipe.seed, layout.names, coded.keys[out], torch.arange(DRAWS), f"contest/{part}")
            x = torch.where(missing, 0.0, held.x).to(judge.dtype)
            drawn = impute_rows(judge.imputer, x, missing, noise, limits)
            codes = torch.from_numpy(decode(drawn, schema))
            for i, column in enumerate(columns):
                where = hidden[:, i]
                losses[out[where], i] = _losses(codes[:, where, i], truth[where, i], column.levels)
                counts[out[where], i] = 1.0
                if column.levels:
                    levels_drawn.append((i, codes[:, where, i], truth[where, i]))
                else:
                    covered[out[where], i] = _covered(codes[:, where, i], truth[where, i])
                    if column.alone > 0:
                        errors.append((i, ((codes[:, where, i] - truth[where, i]) / column.alone).float()))
    used = [i for i, column in enumerate(columns) if column.alone > 0 and bool(counts[:, i].any())]
    for i in used:
        weight = R / (counts[:, i].sum() * columns[i].alone * len(used))
        cells += losses[:, i] * weight
    means = {i: float(losses[:, i].sum() / counts[:, i].sum()) / columns[i].alone for i in used}
    numbers = [i for i in used if not columns[i].levels]
    levels = [i for i in used if columns[i].levels]
    inside = sum(float(covered[:, i].sum()) for i in numbers) / max(sum(float(counts[:, i].sum()) for i in numbers), 1)
    yield Scores(
        cells,
        loglik,
        sum(means[i] for i in numbers) / len(numbers) if numbers else None,
        sum(means[i] for i in levels) / len(levels) if levels else None,
        torch.where(counts > 0, losses, torch.nan),
        inside if numbers else None,
        _drawn(errors, levels_drawn),
        parameters,
    )


def _drawn(errors: Sequence[tuple[int, Tensor]], levels: Sequence[tuple[int, Tensor, Tensor]]) -> Drawn:
    """The draws of each column's cells, in one; a column of levels counts by what draws from it alone would score, as
    numbers do."""
    cells = [*errors, *((i, part) for i, part, _ in levels)]
    columns = [torch.full((part.shape[1],), i) for i, part in cells]
    of = torch.cat(columns) if columns else torch.zeros(0, dtype=torch.int64)
    truth = torch.cat([part for _, _, part in levels]) if levels else torch.zeros(0)
    weight = torch.zeros(len(of), dtype=torch.float64)
    every = of.unique().tolist()
    for i in every:
        weight[of == i] = 1 / (len(every) * int((of == i).sum()))
    for i in {i for i, *_ in levels}:
        shares = torch.unique(truth[of[len(of) - len(truth) :] == i], return_counts=True)[1].double()
        differ = 1 - float((shares / shares.sum()).square().sum())
        weight[of == i] *= 2 / differ if differ > 0 else 0.0
    empty = torch.zeros(DRAWS, 0)
    return Drawn(
        torch.cat([part for _, part in errors], 1) if errors else empty,
        torch.cat([part for _, part, _ in levels], 1) if levels else empty,
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


class League(NamedTuple):
    """How a contest ended: the candidates with their scores, best first; the place of the winner, and what decided; of
    each its weight in the average that imputations are drawn from (none: there is no average)."""

    entries: tuple[tuple[Candidate, Scores], ...]
    winner: int
    by: Score
    weights: tuple[float, ...] = ()

    @property
    def numbers(self) -> bool:
        """Whether hidden cells of numbers were scored."""
        return any(scores.coverage is not None for _, scores in self.entries)

    def legend(self) -> list[str]:
        """What the columns and the arrow of the table are."""
        ranges = (
            f"; in range: share of true numbers within {DRAWS} draws ({CALIBRATED:.0%} if calibrated)" * self.numbers
        )
        weights = "; weight: in the average that fills are drawn from" * bool(self.weights)
        return [
            "hidden cells: score of their fills, less is better (1: what the column alone would score); held-out rows: "
            f"log-likelihood, nats a row{ranges}{weights}",
            "→ is fitted: of the models that score about as well as the best, and have nothing else against them, the "
            "one with the fewest parameters",
        ]

    def lines(self) -> list[str]:
        """The table with its header: a line for each of the first LINES candidates, and on to all with a weight."""
        last = max([self.winner, *(place for place, weight in enumerate(self.weights) if weight > 0)])
        shown = self.entries[: max(LINES, last + 1)]
        columns = ["hidden cells", "held-out rows"]
        columns += ["in range"] * self.numbers + ["weight"] * bool(self.weights)
        width = max(len(candidate.title) for candidate, _ in shown)
        out = [f"  {'model':<{width}}  {'  '.join(columns)}"]
        for place, (candidate, scores) in enumerate(shown):
            mark = "→" if place == self.winner else " "
            cells = [f"{float(scores.cells.mean()):.3f}", f"{float(scores.loglik.mean()):.2f}"]
            if self.numbers:
                cells.append("" if scores.coverage is None else f"{scores.coverage:.0%}")
            if self.weights:
                cells.append(f"{self.weights[place]:.0%}" if self.weights[place] > 0 else "")
            aligned = "  ".join(f"{cell:>{len(column)}}" for cell, column in zip(cells, columns, strict=True))
            out.append(f"{mark} {candidate.title:<{width}}  {aligned}".rstrip())
        if (more := len(self.entries) - len(shown)) > 0:
            out.append(f"  {more} more, in contest.json")
        return out

    def text(self) -> str:
        """JSON: `contest.json` of a run."""
        candidates = [
            {
                "title": candidate.title,
                "model": candidate.recipe.model.name,
                "settings": dict(candidate.recipe.model.settings),
                "transform": candidate.recipe.table.transform,
                "cells": float(scores.cells.mean()),
                "crps": scores.crps,
                "log_score": scores.log_score,
                "coverage": scores.coverage,
                "loglik": float(scores.loglik.mean()),
                "chosen": place == self.winner,
                "weight": self.weights[place] if self.weights else None,
            }
            for place, (candidate, scores) in enumerate(self.entries)
        ]
        rows = len(self.entries[0][1].cells)
        about = {"score": self.by, "rows": rows, "calibrated": round(CALIBRATED, 4)}
        return json.dumps({**about, "candidates": candidates}, indent=1) + "\n"


class Won(NamedTuple):
    """What a contest leaves: the recipe of the winner, with its size and the models to average over; the rows, and
    those that select the epoch, as it encodes them; the league table; by transform the schemas of the other models."""

    recipe: Recipe
    rows: Rows
    held: Rows | None
    league: League
    schemas: dict[str, Schema]


def by_em(recipe: Recipe) -> bool:
    """Whether EM fits a candidate."""
    return recipe.method.name == "em"


def hold(recipe: Recipe, rows: Rows, held: Rows | None, said: Container[str], fit: Fit, work: Work) -> Won | None:
    """Compare the candidates for a table and take the best. None where there is nothing to compare, or too few rows to
    compare by, or where a time limit left time for one candidate at most. Interrupted with nothing kept.

    recipe  names `mixture` and its method, and models that are compared beside (`compare`)
    rows    all of the table; those of a fraction (`val`) take no part
    said    keys of the settings that somebody gave
    fit     fits the latter
    """
    apart = held_out(recipe, rows.table.N)
    used = rows.table.used
    if apart is not None:
        used = apart[0][torch.isin(apart[0], used)]
    if rows.table.scratch is not None:
        most = max(1, CELLS // rows.table.D)
        used = used[torch.randperm(len(used), generator=stream(recipe.seed, "contest/rows"))[:most]].sort().values
    transforms = [str(recipe.table.transform)] if "table.transform" in said else list(TRANSFORMS)
    named = candidates(recipe, rows, transforms)
    others = [compared(recipe, name, "table.transform" in said) for name in recipe.compare]
    if rows.source is None or len(used) < FEWEST_COMPARED or len(named) + len(others) < 2:
        return None
    limit, share = work.limit.part(SHARE), 1 / (1 + OTHERS * len(others))
    with work.reporter.stage(CONTEST, until=limit.end) as stage:
        contest = _Contest(recipe, rows, used, stage, limit, replace(work, reporter=Silent()), fit)
        try:
            own = share / (len(named) + 2)
            for place, (title, one) in enumerate(named):
                contest.enter(title, one, place * own, own)
            contest.enter_sized(len(named) * own, own)
            contest.enter_larger((len(named) + 1) * own, own)
            for place, (title, one) in enumerate(others):
                start = share + (1 - share) * place / len(others)
                contest.enter_other(title, one, start, (1 - share) / len(others), len(others) - place)
        except (GivenUp, OutOfTime):
            work.limit.cut.append(CONTEST)
            done = len(contest.entries)
            work.reporter.warn(
                f"the time limit ended the comparison of models after {done}: with more time another may be chosen"
                if done > 1
                else "the time limit left no time to compare models: the data did not choose this one"
            )
            for name in contest.not_entered(recipe.compare):
                work.reporter.warn(f"the time limit left no time to compare {name}")
        except Interrupted as error:
            what = "stopped while models were compared, before the run was begun: nothing was kept"
            raise Interrupted(what, error.exit_code, "start again") from None
    for line in contest.refused:
        work.reporter.warn(line)
    if len(contest.entries) < 2:
        return None
    league = contest.decided()
    rows_scored = len(league.entries[0][1].cells)
    work.reporter.say(f"{len(league.entries)} models were compared on {rows_scored:,} rows:")
    for line in (*league.lines(), *league.legend()):
        work.reporter.say(line)
    best = min((scores.cells for _, scores in league.entries), key=lambda cells: float(cells.mean()))
    mean, noise = float(best.mean()), float(best.std()) / len(best) ** 0.5
    if mean >= 1:
        work.reporter.warn(
            f"no model is seen to fill hidden cells better than each column alone would (best score {mean:.2f}, "
            f"standard error {noise:.2f}): columns say little of each other, or too little for so few rows. Where "
            "it depends on other columns which cells are missing, means and slopes of filled tables may be nearer to "
            "the truth all the same than those of what is observed"
        )
    winner = league.entries[league.winner][0]
    members = average(league, len(used))
    if len(members) > 1:
        work.reporter.say(average_words(league, members))
    found = winner.recipe.replace(average=members or "none", compare=())
    schemas = {name: contest.schema(found.with_table(transform=name)) for name in other_transforms(found)}
    if held is not None and held.source is not None:
        schema = winner.rows.source.schema  # type: ignore[union-attr]
        held = rows_of(held.source.table, schema, recipe.seed).at(held.places)
    return Won(found, winner.rows, held, league, schemas)


def average(league: League, rows: int) -> tuple[Averaged, ...]:
    """The models to average over: those that have a weight, mixtures of numbers in SIZES numbers of components each."""
    weights: dict[tuple[str, str], tuple[Averaged, float]] = {}
    for (candidate, _), weight in zip(league.entries, league.weights, strict=False):
        sizes = _kin(candidate, rows) if weight > 0 else []
        for recipe in sizes:
            model, transform = recipe.model, str(recipe.table.transform)
            key = json.dumps(dict(model.settings), sort_keys=True), f"{model.name}/{transform}"
            before = weights[key][1] if key in weights else 0.0
            share = round(before + weight / len(sizes), 4)
            weights[key] = Averaged(model=model, transform=cast(Any, transform), weight=share), share
    return tuple(one for one, _ in weights.values())


def average_words(league: League, members: Sequence[Averaged]) -> str:
    """From which models imputations are drawn."""
    weighted = [one for (one, _), weight in zip(league.entries, league.weights, strict=True) if weight > 0]
    own = [(one.recipe.model, one.recipe.table.transform) for one in weighted]
    sizes = sorted({cast(int, one.model.settings["components"]) for one in members if one.model.name == "mixture"})
    counts = f"{', '.join(map(str, sizes[:-1]))} and {sizes[-1]} clusters" if len(sizes) > 1 else ""
    drawn = "imputations are drawn in turn from refits"
    if all((one.model, one.transform) in own for one in members):
        many = f"{drawn} of {len(members)} models"
        return f"{many}, each as often as its weight says: together these fill hidden cells best"
    if len(weighted) == 1:
        return f"{drawn} of the model of weight 100%, with {counts}, each as often as the others"
    return (
        f"{drawn} of the models above, each as often as its weight says, mixtures with several numbers of clusters "
        f"({counts}): together these fill hidden cells best"
    )


def _kin(candidate: Candidate, rows: int) -> list[Recipe]:
    """What stands for a candidate in an average. Of a mixture of numbers those with the next larger numbers of
    components too: an average bears more components than one fit, and a score of one fit says little of how many. Of
    mixed rows larger ones gain nothing."""
    recipe = candidate.recipe
    if recipe.model.name != "mixture" or candidate.rows.table.layout.discrete or rows > SIZED_ROWS:
        return [recipe]
    config = cast(MixtureConfig, recipe.model_settings)
    path = GaussianMixture.sizes(config.model_copy(update={"components": None}), rows, candidate.rows.table.D)
    own = cast(int, config.components)
    counts = [own, *(one.components for one in path[0] if cast(int, one.components) > own)]
    return [recipe.with_model(components=K) for K in counts[:SIZES]]


def candidates(recipe: Recipe, rows: Rows, transforms: Sequence[str]) -> list[tuple[str, Recipe]]:
    """What may win, each with words for it; the first is what a fit takes that compares nothing."""
    layout, full_only = rows.table.layout, recipe.uncertainty == "posterior"
    numbers = layout.D - len(layout.discrete)
    shapes: list[tuple[str, str, dict[str, Any]]] = []
    if numbers < FEWEST_NUMBERS or full_only:
        shapes.append(("mixture", "mixture", {}))
    else:
        full = [("mixture", "mixture", {"covariance": "full"})] if numbers <= FULL_UP_TO else []
        factors = FACTORS if numbers >= MANY_NUMBERS else 1
        factored = {"covariance": "factor", "factors": factors}
        shapes += full
        few = len(rows.table.used) < WELL * numbers
        if few or not full or recipe.score == "loglik":
            shapes.append(("mixture", "mixture of factor models", factored))
        if full and (few or recipe.score == "cells"):
            shapes.append(("mixture", "mixture shrunk to pairs", {"covariance": "full", "shrink_to": "pairs"}))
    if not layout.discrete and numbers >= FEWEST_NUMBERS and not full_only:
        shapes.append(("fa", "factor analysis", {}))
    if recipe.score == "loglik" and layout.discrete and numbers and recipe.value("model.dependence") is None:
        shapes = [
            (model, title + words, {**more, "dependence": dependence})
            for words, dependence in (("", "none"), (" shifted by the levels", "linear"))
            for model, title, more in shapes
        ]
    return [
        (
            f"{title}, {TRANSFORMS.get(transform, UNSCALED)}" if numbers else f"{title} of categories",
            recipe.with_model(model, **more).with_table(transform=transform),
        )
        for model, title, more in shapes
        for transform in transforms
    ]


def _gap(ours: Tensor, theirs: Tensor) -> tuple[float, float]:
    """The mean of ours [R] less theirs, row by row, and its standard error."""
    gap = ours - theirs
    return float(gap.mean()), float(gap.std()) / len(gap) ** 0.5


def form(recipe: Recipe) -> tuple[object, ...]:
    """What a model is but for its size."""
    settings = recipe.model.settings
    return recipe.model.name, *(settings.get(name) for name in ("covariance", "shrink_to", "dependence"))


def only_factors(settings: Mapping[str, Any]) -> bool:
    """Whether a mixture of these settings says of its columns no more than factors do, where rows are few."""
    return settings.get("covariance") == "factor" or settings.get("shrink_to") == "factors"


def lags(scores: Scores, best: Scores) -> bool:
    """Whether a candidate fills some column clearly worse than the best one does."""
    gap = scores.losses - best.losses
    n = (~gap.isnan()).sum(0)
    mean, known = gap.nanmean(0), n > 1
    error = ((gap - mean).square().nansum(0) / (n - 1).clamp(min=1) / n.clamp(min=1)).sqrt()
    quantile = torch.special.ndtri(torch.tensor(1 - CLEARLY / max(int(known.sum()), 1), dtype=torch.float64))
    worse = (mean > quantile * error) & (mean > FAR * best.losses.nanmean(0).abs())
    return bool((worse & known).any())


def compared(recipe: Recipe, name: str, transformed: bool) -> tuple[str, Recipe]:
    """A model that is compared beside the others, by its own method, with words for it.

    transformed  whether somebody said the transform of the columns; else it is the model's own, and values that pile up
                 have room, since no chain is to stand for what has no value
    """
    traits = registry.MODELS[name].traits
    own = recipe.replace(model=ModelChoice(name), method=MethodChoice(traits.method), compare=())
    if not transformed:
        own = own.with_table(transform=traits.transform, spikes="room")
    title = re.split("[,:]| for ", registry.MODELS[name].about)[0]
    return f"{title}, {TRANSFORMS.get(str(own.table.transform), UNSCALED)}", own


class _Contest:
    """The candidates that were scored so far."""

    def __init__(
        self, recipe: Recipe, rows: Rows, used: Tensor, stage: Stage, limit: TimeLimit, work: Work, fit: Fit
    ) -> None:
        """used: the rows that are fitted; limit: of all; work, fit: of the candidates that EM does not fit."""
        generator = stream(recipe.seed, "contest")
        self._recipe, self._rows, self._used, self._stage = recipe, rows, used, stage
        self._limit, self._work, self._fit = limit, work, fit
        self._some = used[torch.randperm(len(used), generator=generator)[:ROWS]].sort().values
        self._fold = torch.randperm(len(self._some), generator=generator) % FOLDS
        shape = (len(self._some), len(rows.table.layout.columns))
        self._parts = torch.randint(PARTS, shape, generator=generator)
        self._encoded: dict[Encoding, Rows] = {encoding_of(recipe.table): rows}
        self._by_fold: dict[Encoding, Folds] = {}
        self._tried: dict[str, tuple[Sized, ...]] = {}  # sizes of the latest entry, by its title without the size
        self.entries: list[tuple[Candidate, Scores]] = []
        self.refused: list[str] = []

    def enter(self, title: str, recipe: Recipe, start: float, share: float, *, sized: bool = False) -> None:
        """Score a candidate, as a share of the stage. The number of components is chosen for the first one, whose
        number the others take (`sized`: chosen anew); what else its size is made of is chosen for each."""

        def tell(done: float) -> None:
            self._stage(start + share * done)
            ask(self._limit.over)

        every = self._coded(recipe)
        if not sized and self._is_repeated(recipe):
            return
        if self.entries and not sized and recipe.model.name == "mixture":
            first = self.entries[0][0].recipe.model.settings
            recipe = recipe.with_model(components=first["components"], outliers=first["outliers"])
        family = cast(type[GaussianFamily], recipe.model.family)
        sizing = choose_size(
            family,
            recipe.model_settings,
            every.table.rows(self._used),
            em_settings(recipe),
            stream(recipe.seed, "size"),
            stop=self._limit.over,
            progress=lambda done: self._stage(start + 0.5 * share * done),
        )
        ask(self._limit.over)
        self._tried[title] = sizing.tried
        recipe = recipe.with_model(**sizing.config.model_dump(mode="json"))
        candidate = Candidate(f"{title}: {plain(sizing.config)}", recipe, every)
        if any(other.recipe == recipe for other, _ in self.entries):
            return
        self._score(candidate, lambda done: tell(0.5 + 0.5 * done))

    def _score(self, candidate: Candidate, tell: Callable[[float], None], fit: FitFold | None = None) -> None:
        """Score a candidate and enter it."""
        recipe, every = candidate.recipe, candidate.rows
        some = candidate._replace(rows=every.at(self._some))
        known = self._by_fold.setdefault(encoding_of(recipe.table), Folds({}, {}))
        for scores in score(some, columns_of(every.at(self._used)), self._parts, self._fold, known, fit):
            if isinstance(scores, Scores):
                self.entries.append((candidate, scores))
            else:
                tell(scores)

    def enter_other(self, title: str, recipe: Recipe, start: float, share: float, left: int) -> None:
        """Score a candidate that EM does not fit, as a share of the stage. Where its training fails it takes no part,
        and a line says so.

        left  how many such candidates there are from here on
        """

        def fit_fold(recipe: Recipe, rows: Rows, number: int) -> Judge:
            def show(progress: Progress) -> None:
                if progress.name == TRAINING:
                    self._stage(start + share * (number + 0.5 * progress.share) / FOLDS)

            part = self._limit.part(FIT_SHARE / (left * FOLDS - number))
            work = replace(self._work, reporter=Lines(progress=show), limit=part)
            return fit_as_ever(recipe, rows, self._fit, work, self._limit.over)

        def tell(done: float) -> None:
            self._stage(start + share * done)
            ask(self._limit.over)

        try:
            self._score(Candidate(title, recipe, self._coded(recipe)), tell, fit_fold)
        except FitError as error:
            self.refused.append(f"{title} takes no part in the comparison: {error.message}")

    def not_entered(self, names: Sequence[str]) -> list[str]:
        """Those of some models that were not scored."""
        entered = {candidate.recipe.model.name for candidate, _ in self.entries}
        return [name for name in names if name not in entered]

    def enter_sized(self, start: float, share: float) -> None:
        """Where the best so far took its number of components from the first one: that candidate again, with its own
        number."""
        best = self._best()
        if best is self.entries[0][0] or best.recipe.model.name != "mixture":
            return
        title, named = best.title.rpartition(":")[0], best.recipe.with_model(components=None, factors=None)
        self.enter(title, named, start, share, sized=True)

    def enter_larger(self, start: float, share: float) -> None:
        """The best so far with the largest number of components by which held-out rows are described nearly as well."""
        best = self._best()
        title = best.title.rpartition(":")[0]
        tried = self._tried.get(title, ())
        if not tried or best.recipe.model.name != "mixture" or self._recipe.score == "loglik":
            return
        enough = max(one.score for one in tried) - NEARLY * best.rows.table.D
        largest = max(cast(MixtureConfig, one.config).components or 1 for one in tried if one.score >= enough)
        if largest > cast(int, best.recipe.model.settings["components"]):
            self.enter(title, best.recipe.with_model(components=largest), start, share, sized=True)

    def _best(self) -> Candidate:
        """The one with the best score so far."""
        return self.entries[min(range(len(self.entries)), key=lambda i: float(self._losses(i).mean()))][0]

    def decided(self) -> League:
        """The league with its winner, and the weights of the average where EM fits that. By hidden cells a candidate
        that EM does not fit also has to be better than the average of the others."""
        league = self.league(range(len(self.entries)))
        candidate, scores = league.entries[league.winner]
        if by_em(candidate.recipe):
            return self.averaged(league)
        ours = [i for i in range(len(self.entries)) if by_em(self.entries[i][0].recipe)]
        if not ours or self._recipe.score == "loglik":
            return league
        second = self.averaged(self.league(ours))
        if not any(second.weights):
            return league
        members = [(drawn, w) for (_, (*_, drawn, _)), w in zip(second.entries, second.weights, strict=True) if w > 0]
        own = scores.drawn.from_truth() - 0.5 * scores.drawn.apart(scores.drawn)
        pairs = ((one, v, other, w) for one, v in members for other, w in members)
        together = sum(w * drawn.from_truth() for drawn, w in members)
        together -= 0.5 * sum(v * w * one.apart(other) for one, v, other, w in pairs)
        return second if together <= own else league

    def league(self, able: Iterable[int]) -> League:
        """The entries, best first. Of those of the `able` that lie within the noise of the best of them the one with
        the fewest parameters wins."""
        order = sorted(range(len(self.entries)), key=lambda i: float(self._losses(i).mean()))
        among = [i for i in order if i in set(able)]
        fit = [i for i in among if self._is_sound(self.entries[i], self.entries[among[0]][1])] or among
        near = [i for i in fit if self._near(i, fit[0])]
        winner = min(near, key=lambda i: self.entries[i][1].parameters)
        return League(tuple(self.entries[i] for i in order), order.index(winner), self._recipe.score)

    def averaged(self, league: League) -> League:
        """The league with the weights of the average."""
        if self._recipe.score == "loglik" or self._recipe.average == "none" or refit_count(self._recipe) == 0:
            return league
        if self._recipe.uncertainty == "posterior":
            return league
        own = league.entries[league.winner][0].recipe
        leader = next(scores for one, scores in league.entries if by_em(one.recipe))
        best = float(leader.cells.mean())
        able = [
            by_em(candidate.recipe)
            and self._is_sound((candidate, scores), leader)
            and float(scores.cells.mean()) <= (1 + FAR) * best
            and self._can_be_recoded(own, candidate.recipe)
            for candidate, scores in league.entries
        ]
        if not any(able):  # each has something against it, and the winner is the best of all
            return league
        drawn = [scores.drawn for (_, scores), can in zip(league.entries, able, strict=True) if can]
        errors = torch.tensor([one.from_truth() for one in drawn])
        apart = torch.tensor([[one.apart(other) for other in drawn] for one in drawn])
        found = iter(selected(errors.double(), apart.double()).tolist())
        return league._replace(weights=tuple(round(next(found), 4) if can else 0.0 for can in able))

    def _can_be_recoded(self, own: Recipe, other: Recipe) -> bool:
        return (
            encoding_of(own.table) == encoding_of(other.table)
            or recoder(self.schema(own), self.schema(other)) is not None
        )

    def schema(self, recipe: Recipe) -> Schema:
        """The columns as a recipe that was tried encodes them."""
        return self._encoded[encoding_of(recipe.table)].source.schema  # type: ignore[union-attr]

    def _is_repeated(self, recipe: Recipe) -> bool:
        """Whether another transform that was entered makes the same of every column (scales of few points, say)."""
        others = [one.recipe for one, _ in self.entries if encoding_of(one.recipe.table) != encoding_of(recipe.table)]
        return any(self.schema(other).columns == self.schema(recipe).columns for other in others)

    def _losses(self, i: int) -> Tensor:
        """[R] what decides, less is better."""
        scores = self.entries[i][1]
        return scores.cells if self._recipe.score == "cells" else -scores.loglik

    def _near(self, i: int, best: int) -> bool:
        """Whether a candidate lies within the noise of the best."""
        mean, error = _gap(self._losses(i), self._losses(best))
        return mean <= NOISE * error

    def _is_sound(self, entry: tuple[Candidate, Scores], best: Scores) -> bool:
        """Whether a candidate may win, or be in the average, by what it says of each column and of how columns go
        together; `best`: the best scores of all. By the log-likelihood every one may."""
        if self._recipe.score == "loglik":
            return True
        return not lags(entry[1], best) and not self._is_coarse(*entry, best) and not self._is_unlike(*entry, best)

    def _is_unlike(self, candidate: Candidate, scores: Scores, best: Scores) -> bool:
        """Whether held-out rows are described clearly worse than by a model of the same form under another transform
        that fills cells about as well, in every column: draws then have another shape than the columns (the tail of
        incomes, say), which hidden cells hardly show."""
        numbers = len(self._rows.table.layout.continuous)
        most, own = (1 + FAR) * float(best.cells.mean()), candidate.recipe
        others = [
            other.loglik
            for one, other in self.entries
            if one.recipe.table.transform != own.table.transform
            and form(one.recipe) == form(own)
            and float(other.cells.mean()) <= most
            and not lags(other, best)
        ]
        if not others:
            return False
        mean, error = _gap(scores.loglik, max(others, key=lambda loglik: float(loglik.mean())))
        return mean < -max(UNLIKE * numbers, SURELY * error)

    def _is_coarse(self, candidate: Candidate, scores: Scores, best: Scores) -> bool:
        """Whether a candidate says of the columns nothing but their factors, and is not clearly better than the best of
        those that say more: full covariances where the rows determine them well, else such as keep single pairs."""
        layout, settings = self._rows.table.layout, candidate.recipe.model.settings
        if not (candidate.recipe.model.name == "fa" or only_factors(settings)):
            return False
        components = cast(int, settings.get("components") or 1)
        well = len(self._used) >= WELL * components * (layout.D - len(layout.discrete))
        finer = [
            other.cells
            for one, other in self.entries
            if one.recipe.model.settings.get("covariance") == "full"
            and (one.recipe.model.settings.get("shrink_to") == "pairs" or well)
            and not only_factors(one.recipe.model.settings)
            and not lags(other, best)
        ]
        if not finer:
            return False
        mean, error = _gap(scores.cells, min(finer, key=lambda cells: float(cells.mean())))
        return mean > -BETTER * error

    def _coded(self, recipe: Recipe) -> Rows:
        """The rows as a recipe encodes them."""
        name = encoding_of(recipe.table)
        if name not in self._encoded:
            source = self._rows.source
            assert source is not None
            schema = new_schema(source.table, recipe, Silent())
            self._encoded[name] = rows_of(source.table, schema, recipe.seed).at(self._rows.places)
            self._encoded[name] = self._encoded[name].weighted(self._rows.table.weight)
        return self._encoded[name]
