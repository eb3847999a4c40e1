"""How large the model is where nobody said so: asked of the data, before the fit."""

from __future__ import annotations

from typing import Any

import torch

from vgi_cli.data import TensorTable
from vgi_cli.errors import UsageError
from vgi_cli.fitting.refits import em_settings
from vgi_cli.machine.clock import TimeLimit
from vgi_cli.methods.em.sizing import FEWEST_ROWS, choose_size, open_size
from vgi_cli.models.gaussian.full import FEWEST
from vgi_cli.reporting import Reporter
from vgi_cli.settings.recipe import Recipe
from vgi_cli.stages import SIZE

TIME_SHARE = 0.4
"""Of the time that is left under a time limit, for choosing the size."""


def size_is_open(recipe: Recipe, table: TensorTable) -> bool:
    """Whether a size has to be chosen by the data."""
    family: Any = recipe.model.family
    return "gaussian" in recipe.model.entry.provides and open_size(family, recipe.model_settings, table)


def model_size(
    recipe: Recipe,
    table: TensorTable,
    generator: torch.Generator,
    reporter: Reporter,
    limit: TimeLimit | None = None,
) -> dict[str, Any]:
    """The settings of the recipe's model with its size filled in, and a line that says why.

    Models that are no mixture of Gaussians keep what their Config says.
    """
    config: Any = recipe.model_settings
    if "gaussian" not in recipe.model.entry.provides:
        return dict(config.model_dump(mode="json"))
    factors = getattr(config, "factors", None)
    if factors is not None and factors > table.D:
        columns = f"{table.D} column{'s' if table.D > 1 else ''} to model"
        raise UsageError(f"model.factors={factors}: the table has {columns}", f"at most {table.D}, or leave it out")
    em = em_settings(recipe)
    limit = TimeLimit() if limit is None else limit
    family: Any = recipe.model.family
    if open_size(family, config, table):
        until = limit.until(TIME_SHARE)
        with reporter.stage(SIZE, until=until) as stage:
            sizing = choose_size(family, config, table, em, generator, stop=lambda: limit.passed(until), progress=stage)
    else:
        sizing = choose_size(family, config, table, em, generator)
    if sizing.cut:
        limit.cut.append(SIZE)
    say = reporter.say if sizing.tried or sizing.cut else reporter.detail
    say(sizing.reason)
    if sizing.scores is not None:
        reporter.detail(sizing.scores)
    if table.D > 1 and family.build(sizing.config, table.layout).independent:
        searched = "no factor improves the log-likelihood of held-out rows: " if sizing.tried else ""
        reporter.warn(
            f"{searched}the columns are modelled as independent, so nothing observed in a row informs its holes"
        )
    elif table.D > 1 and max(FEWEST_ROWS, FEWEST * table.D) > table.N:
        reporter.say(
            f"{table.N} row{'s' * (table.N != 1)} say little about how {table.D} columns go together: "
            "a fill leans on what is seen of its own column"
        )
    return dict(sizing.config.model_dump(mode="json"))
