"""`vgi fit --holdout-cells 5%`: how well a fit fills cells that it has not seen, without costing the final model any.

Some observed cells are hidden, at random, and a first fit is made of the rest: columns encoded anew, model, size and
refits chosen and made as ever. It draws the hidden cells, and these draws are scored, by the scores of `vgi evaluate
--truth`, beside draws from each column alone. The fit that is kept is then made of all cells, with the model, size and
transform that the first one chose: so the scores are those of a fit that had not seen the cells, of the same kind and
of (1 - share) as many cells, and no cell is lost to the parameters. Training and refits are done twice; models are
compared, and their size is searched for, once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from vgi_cli.columns.numerals import Bools
from vgi_cli.columns.schema import Schema
from vgi_cli.commands.requests import ImputeRequest
from vgi_cli.commands.samplers import parameter_uncertainty
from vgi_cli.commands.sampling import Sampling, Watch
from vgi_cli.encoding.encoder import RowKeys
from vgi_cli.encoding.kinds import fixing
from vgi_cli.errors import Interrupted, UsageError
from vgi_cli.evaluation.imputation import (
    COVERAGE_DRAWS,
    ImputationScores,
    beside,
    draws_alone,
    score_imputations,
)
from vgi_cli.fitting.fitted import FittedTable
from vgi_cli.fitting.plan import stream
from vgi_cli.machine.work import OutOfTime, TimeUp, Work
from vgi_cli.maths.noise import KeyedNoise
from vgi_cli.reporting import SCORING
from vgi_cli.runs.files import json_bytes
from vgi_cli.runs.store import CONTEST, HOLDOUT
from vgi_cli.settings.recipe import Recipe
from vgi_cli.table.base import Table

FORMAT = 1
ROWS, CELLS = 5_000, 2_000_000
"""Rows that are scored at most, and their cells: a random choice of more."""
TIME_SHARE, FIT_SHARE = 0.5, 0.75
"""Of the time that is left under a time limit, for the first fit and its scores; of that, for the fit."""
HOW = (
    "scores of a first fit that had not seen these cells; the model of the run was then fitted to all cells, with the "
    "model and the size that the first fit chose"
)

First = Callable[[Recipe, Table, Work], FittedTable]
"""Fits a table by a recipe, in memory."""


class Held(NamedTuple):
    """What a first fit leaves: the recipe of the fit that follows, and further files of its run by name."""

    recipe: Recipe
    texts: Mapping[str, str]


def first_fit(recipe: Recipe, table: Table, schema: Schema, fit: First, work: Work) -> Held:
    """Hide cells, fit the others by `fit`, score. Where the time limit is over first, a warning says that there are no
    scores. UsageError where no cell can be hidden; Interrupted, with nothing kept."""
    share = float(recipe.holdout_cells or 0.0)
    hidden = hide(table, schema, share, recipe.seed)
    count, observed = int(hidden.sum()), _observed(table, schema)
    if count == 0:
        raise UsageError(
            f"--holdout-cells {share:g}: of {int(observed.sum())} observed cells none can be hidden (a row keeps one)",
            "give a larger share, or leave it out",
        )
    work.reporter.say(
        f"{count:,} of {int(observed.sum()):,} observed cells are hidden from a first fit, which is scored on them; "
        "the fit that is kept then has all cells"
    )
    known = fixing(schema, recipe.table.columns)["columns"]
    trial = table.hiding(dict(zip(schema.modelled, hidden.T, strict=True)))
    scoring = replace(work, limit=work.limit.part(TIME_SHARE))
    fitting = replace(work, limit=scoring.limit.part(FIT_SHARE))
    try:
        fitted = fit(recipe.with_table(columns=known).replace(holdout_cells=None), trial, fitting)
        values = score(fitted, table, trial, scoring)
    except (TimeUp, OutOfTime):
        work.limit.cut.append(SCORING)
        work.reporter.warn(f"{work.limit.words()} left no time to score the hidden cells: there is no {HOLDOUT}")
        return Held(recipe, {})
    except Interrupted as error:
        what = "stopped in the first fit, before the run was begun: nothing was kept"
        raise Interrupted(what, error.exit_code, "start again") from None
    if values is None:
        work.reporter.warn(f"none of the hidden cells is of a column that could be fitted without them: no {HOLDOUT}")
        return Held(recipe, {})
    ended = {"ended_early": fitting.limit.cut} if fitting.limit.cut else {}
    values = {**values, "share": share, "cells": count, **ended}
    work.reporter.say(in_words(values))
    chosen = fitted.recipe
    recipe = recipe.replace(model=chosen.model, posterior_components=chosen.posterior_components)
    encoding = {"transform": chosen.table.transform, "spikes": chosen.table.spikes}
    recipe = recipe.with_method(chosen.method.name).with_table(**encoding)
    recipe = recipe.replace(average=chosen.average, compare=())
    league = {CONTEST: fitted.run.text(CONTEST)} if fitted.run.holds(CONTEST) else {}
    return Held(recipe, {HOLDOUT: json_bytes(values).decode(), **league})


def hide(table: Table, schema: Schema, share: float, seed: int) -> Bools:
    """[N, columns] which observed cells of modelled columns are hidden: a share of all of them, drawn by keyed noise.
    Of each row one cell is left out of the draw, so that none loses its last one."""
    observed = _observed(table, schema)
    noise = KeyedNoise(seed, schema.modelled, RowKeys(schema).of(table), torch.tensor([0]), "holdout")
    u = np.where(observed, noise.uniform()[0].numpy(), -np.inf)
    free = observed.copy()
    free[np.arange(table.N), u.argmax(1)] = False
    count = min(round(share * observed.sum()), int(free.sum()))
    hidden = np.zeros_like(observed)
    rows, columns = np.nonzero(free)
    first = np.argsort(u[rows, columns], kind="stable")[:count]
    hidden[rows[first], columns[first]] = True
    return hidden


def _observed(table: Table, schema: Schema) -> Bools:
    return ~table.absent(schema.modelled)


def score(fitted: FittedTable, table: Table, trial: Table, work: Work) -> dict[str, Any] | None:
    """The JSON object of what a fit of the table `trial` makes of the cells that are observed in `table` alone, but for
    the share and the number of these; None where none of them can be scored. OutOfTime where the limit is over."""
    columns = fitted.schema.encoded
    if not columns:
        return None
    names = [column.name for column in columns]
    hidden = trial.absent(names) & ~table.absent(names)
    rows = _chosen(hidden, fitted)
    if not len(rows):
        return None
    sampling = Sampling(
        fitted, ImputeRequest(checkpoint=fitted.run, settings={}, m=COVERAGE_DRAWS), Work(workers=work.workers)
    )
    sampling.of_table(trial.sha256)
    encoded = fitted.rows(trial).at(rows)
    with work.reporter.stage(SCORING, "rows", work.limit.end) as stage:
        drawn = sampling.draw(encoded, Watch(stage, 0, len(rows), work.limit.over))
    sampling.keep_off_codes(drawn, trial, rows.numpy())
    draws = torch.from_numpy(np.asarray(drawn))
    truth = torch.from_numpy(np.stack([column.true_codes(table.column(column.name)) for column in columns], 1))[rows]
    sd = torch.tensor([column.deviation for column in columns])
    cells = torch.from_numpy(hidden)[rows]
    codes = [torch.tensor(column.codes(trial.column(column.name))) for column in columns]
    alone = draws_alone(codes, cells, stream(fitted.recipe.seed, "holdout/alone"))
    own, marginal = (score_imputations(each, truth, cells, columns, sd) for each in (draws, alone))
    if own is None or marginal is None:
        return None
    return {
        "format": FORMAT,
        "seed": fitted.recipe.seed,
        "scored_cells": sum(int(each["cells"] or 0) for each in own.columns.values()),
        "scored_rows": len(rows),
        "how": HOW,
        "model": fitted.recipe.model.name,
        "method": fitted.recipe.method.name,
        "sampler": sampling.sampler,
        "parameter_uncertainty": parameter_uncertainty(fitted, sampling.sampler, "auto"),
        **_parts(own, marginal, {column.name: column.kind for column in columns}),
        "not_scored": [name for name in names if name not in own.columns],
    }


def _chosen(hidden: Bools, fitted: FittedTable) -> Tensor:
    """The rows that are scored: those with a hidden cell, or a random choice of them."""
    rows = torch.from_numpy(np.flatnonzero(hidden.any(1)))
    most = min(ROWS, max(CELLS // hidden.shape[1], 1))
    order = torch.randperm(len(rows), generator=stream(fitted.recipe.seed, "holdout/rows"))
    return rows[order[:most].sort().values]


def _parts(own: ImputationScores, marginal: ImputationScores, kinds: Mapping[str, str]) -> dict[str, Any]:
    """The scores, overall, by kind and by column, each with that of the columns alone; those that nobody has are left
    out."""

    by_kind = {kind: beside(scores, marginal.kinds[kind]) for kind, scores in own.kinds.items()}
    columns = {
        name: {"kind": kinds[name], **beside(scores, marginal.columns[name])} for name, scores in own.columns.items()
    }
    return {"overall": beside(own.overall, marginal.overall), "kinds": by_kind, "columns": columns}


def in_words(values: Mapping[str, Any]) -> str:
    """One line: how the fit did on the hidden cells, beside the columns alone."""
    overall, alone = values["overall"], values["overall"]["marginal"]
    parts = []
    if "crps" in overall:
        parts.append(f"CRPS {overall['crps']:.3f} standard deviations (the columns alone: {alone['crps']:.3f})")
    if "coverage90" in overall:
        parts.append(f"90 % intervals cover {overall['coverage90']:.0%}")
    if "log_score" in overall:
        parts.append(f"log score of levels {overall['log_score']:.3f} (alone: {alone['log_score']:.3f})")
    return f"hidden cells: {', '.join(parts)}"
