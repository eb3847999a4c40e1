"""Judges: models that were fitted to some rows of a contest, and say of others how likely they are, and what lies in
their hidden cells."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, cast

import torch
from torch import Tensor

from vgi_cli.completers.base import GivenUp
from vgi_cli.evaluation.likelihood.estimate import observed_log_prob
from vgi_cli.fitting.fitted import Fitted
from vgi_cli.fitting.plan import stream
from vgi_cli.fitting.refits import em_settings
from vgi_cli.fitting.rows import Rows
from vgi_cli.machine.device import set_threads
from vgi_cli.machine.work import TimeUp, Work, giving_up
from vgi_cli.methods.em.em import completed
from vgi_cli.methods.em.sizing import EPOCHS, TOLERANCE
from vgi_cli.methods.em.steps import climb
from vgi_cli.models.base import built
from vgi_cli.models.gaussian.family import FilledRows, GaussianFamily, em_table
from vgi_cli.registry import names as registry
from vgi_cli.runs.store import CHAINS
from vgi_cli.samplers.base import Imputer, SamplerInput
from vgi_cli.samplers.exact import ExactImputer
from vgi_cli.settings.recipe import Recipe

Fit = Callable[[Rows, Recipe, Work], Fitted]
"""Fits rows by a recipe, in memory."""
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
"""Fits the rows of all folds but one, whose number it is told, by the method of a recipe."""


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
    model.initialise_filled(FilledRows(start, train.missing), generator)
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
