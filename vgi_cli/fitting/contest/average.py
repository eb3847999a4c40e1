"""The models that imputations are drawn from in turn after a contest: those of a weight, in several sizes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, cast

from vgi_cli.fitting.contest.candidates import Candidate
from vgi_cli.fitting.contest.league import League
from vgi_cli.models.gaussian.mixture import GaussianMixture, MixtureConfig
from vgi_cli.settings.recipe import Averaged, Recipe

SIZES, SIZED_ROWS = 3, 5_000
"""Numbers of components that a mixture of an average has in turn, in tables of up to so many rows; beyond, one."""


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
