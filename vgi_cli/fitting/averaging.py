"""Imputations from several models in turn: what a comparison cannot tell apart is averaged, not chosen.

A choice among models that score alike is noise, and a fit that hides it is too sure. So the bootstrap refits of a fit
may be of several models (`Recipe.average`), each with a transform of the columns of its own: imputation i comes from
refit i, and the imputations together are draws from the average of the models (Hoeting et al. 1999), whose weights are
those by which they predict hidden cells best together (`selected`). The fit itself, its density and its likelihood are
those of one model.

A model of the average is fitted as any other, to the rows as its own transform encodes them; its refits start there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import cast

import torch
from torch import Tensor

from vgi_cli.columns.schema import Schema
from vgi_cli.completers.base import ask
from vgi_cli.data import TensorTable
from vgi_cli.encoding.recode import Recoder, recoder
from vgi_cli.errors import UsageError
from vgi_cli.fitting.plan import stream
from vgi_cli.layout import Layout
from vgi_cli.methods.em.em import EmConfig, climb_rounded, start
from vgi_cli.methods.em.steps import nothing
from vgi_cli.models.base import built
from vgi_cli.models.gaussian.family import GaussianFamily
from vgi_cli.settings.recipe import Averaged, Recipe

SELECTIONS = 100
"""Members of the ensemble by which weights are found: these are multiples of 1 / SELECTIONS."""
LEAST = 0.05
"""A model of a smaller weight is left out: it would get no refit of twenty, or one."""

ITERATIONS = 20
"""After so many iterations a fit is said to be half done: nothing knows how many it will take."""


def averaged(recipe: Recipe) -> tuple[Averaged, ...]:
    """The models of the average; empty where a fit averages over none."""
    return () if isinstance(recipe.average, str) else recipe.average


def turns(weights: Sequence[float], count: int) -> list[int]:
    """Of which model each of `count` refits is, so that the first ones of them, however many, have the models nearly in
    proportion to their weights: the next refit goes to the model that lacks most."""
    total, taken, order = sum(weights), [0] * len(weights), []
    for number in range(1, count + 1):
        lacking = [weight / total * number - had for weight, had in zip(weights, taken, strict=True)]
        order.append(max(range(len(weights)), key=lambda i: (round(lacking[i], 9), -i)))
        taken[order[-1]] += 1
    return order


def recipe_of(recipe: Recipe, member: Averaged) -> Recipe:
    """The recipe of the fit of one of the models alone."""
    return recipe.replace(model=member.model, average="none").with_table(transform=member.transform)


def is_the_fit(recipe: Recipe, member: Averaged) -> bool:
    """Whether one of the models is the fitted one."""
    return member.model == recipe.model and member.transform == recipe.table.transform


def recipes(recipe: Recipe, numbers: Sequence[int]) -> list[Recipe]:
    """Of the refits of these numbers the recipes of their models."""
    members = averaged(recipe)
    if not members:
        return [recipe] * len(numbers)
    order = turns([member.weight for member in members], max(numbers, default=0) + 1)
    own = [recipe_of(recipe, member) for member in members]
    return [own[order[number]] for number in numbers]


def other_transforms(recipe: Recipe) -> list[str]:
    """Those of the models of the average that are not the transform of the fit."""
    return sorted({member.transform for member in averaged(recipe)} - {str(recipe.table.transform)})


def recoders(schema: Schema, others: Mapping[str, Schema]) -> dict[str, Recoder]:
    """By transform the maps from rows as the fit encodes them. UsageError where there is none."""
    found = {name: recoder(schema, other) for name, other in others.items()}
    for name, one in found.items():
        if one is None:
            message = f"average: rows by table.transform={schema.transform} cannot be turned into those by {name}"
            raise UsageError(message, "models can be averaged that have the transform of the fit, or linear and normal")
    return cast(dict[str, Recoder], found)


def unfitted(recipe: Recipe, layout: Layout) -> GaussianFamily:
    """One of the models of an average, before it is fitted."""
    return built(cast(type[GaussianFamily], recipe.model.family), recipe.model_settings, layout).double()


def fitted_alone(
    recipe: Recipe,
    table: TensorTable,
    em: EmConfig,
    number: int,
    stop: Callable[[], bool],
    tell: Callable[[float], None] = nothing,
) -> GaussianFamily:
    """One of the models of an average, fitted to rows as its transform encodes them by EM; where its refits start.

    number  of the first refit that is of it: what its random stream is called by
    stop    asked between iterations; GivenUp where it is true
    tell    told about which share of the fit is done
    """
    ask(stop)
    generator = stream(recipe.seed, f"average/{number}")
    model = unfitted(recipe, table.layout)
    count = 0

    def each(done: int) -> None:
        nonlocal count
        ask(stop)
        count += 1
        tell(count / (count + ITERATIONS))

    early = start(model, table, em, generator, each=lambda _: ask(stop))
    climb_rounded(model, table, em, generator, each, early)
    return model


def selected(errors: Tensor, apart: Tensor) -> Tensor:
    """[M] the weights of M models by which draws from their average predict hidden cells best: ensemble selection with
    replacement (Caruana et al. 2004) by a kernel score (Gneiting and Raftery 2007, section 5), which is the continuous
    ranked probability score of numbers and half of the Brier score of levels.

    errors  [M] mean distance of a draw from the true cell
    apart   [M, M] mean distance of a draw of one model from another draw of one; of the same model, of two draws

    SELECTIONS times the model is added by which the score of the ensemble falls most; weights below LEAST are left out.
    """
    counts = torch.zeros(len(errors), dtype=torch.float64)
    for n in range(1, SELECTIONS + 1):
        more = counts + torch.eye(len(errors), dtype=torch.float64)
        weight = more / n
        scores = weight @ errors - 0.5 * ((weight @ apart) * weight).sum(1)
        counts[int(scores.argmin())] += 1
    weight = counts / counts.sum()
    weight = torch.where(weight < LEAST, 0.0, weight)
    return weight / weight.sum()
