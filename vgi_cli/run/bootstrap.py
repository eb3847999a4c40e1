"""Bootstrap refits of a fit: when they are made, and where they lie in a run (`bootstrap/<b>/<parameter>`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, cast

import torch
from torch import Tensor

from vgi_cli.data import TensorTable
from vgi_cli.methods.bootstrap import refits
from vgi_cli.methods.em import EmConfig
from vgi_cli.models.base import Model
from vgi_cli.models.gaussian_family import GaussianFamily
from vgi_cli.run import registry
from vgi_cli.run.config import Recipe
from vgi_cli.run.limits import TimeLimit
from vgi_cli.run.plan import method_config, stream
from vgi_cli.run.reporting import Reporter
from vgi_cli.run.stages import REFITS

PREFIX = "bootstrap/"
COUNT = 20
SMALL_ROWS = 5_000
"""Up to here `auto` makes refits: beyond, the uncertainty of the parameters is small beside that of the draws."""

FEWEST = 2
"""Fewer refits than this say nothing of an uncertainty: where a time limit leaves no more, none are kept."""

SCARCE = 30
"""A column with fewer observed cells may be left without any in a resample: rows are then reweighted smoothly."""


def refit_count(recipe: Recipe, N: int) -> int:
    """How many refits a fit makes. `bootstrap` of the recipe: auto, none, or a number."""
    method = registry.METHODS[recipe.method["name"]]
    able = method.likelihood and "gaussian" in registry.MODELS[recipe.model["name"]].provides
    if recipe.bootstrap == "none" or not able:
        return 0
    if recipe.bootstrap == "auto":
        return COUNT if N <= SMALL_ROWS else 0
    return recipe.bootstrap


def refit(
    recipe: Recipe, model: Model, table: TensorTable, reporter: Reporter, limit: TimeLimit | None = None
) -> dict[str, Tensor]:
    """Parameters of all refits under their names in the run; empty where none are made. Those that a time limit leaves
    no time for are left out, and a line says so."""
    count = refit_count(recipe, table.N)
    if count == 0:
        return {}
    config = method_config(recipe) if recipe.method["name"] == "em" else EmConfig()
    table = table.to(dtype=torch.float64)
    named: dict[str, Tensor] = {}
    generator = stream(recipe.seed, "bootstrap")
    scarce = int((~table.missing).sum(0).min()) < SCARCE
    kind: Literal["bayesian", "multinomial"] = "bayesian" if scarce else "multinomial"
    limit = TimeLimit() if limit is None else limit
    done = 0
    with reporter.stage(REFITS, "refits", limit.end) as stage:
        for tensors in refits(cast(GaussianFamily, model), table, config, count, generator, kind=kind, stop=limit.over):
            named |= {f"{PREFIX}{done}/{name}": value for name, value in tensors.items()}
            done += 1
            stage(done / count, done, count)
    if done < count:
        limit.cut.append(REFITS)
        kept = done if done >= FEWEST else 0
        reporter.warn(
            f"{kept} of {count} refits were made within the time limit: "
            + ("they carry the uncertainty of the parameters" if kept else "imputations will not include it")
        )
        return named if kept else {}
    return named


def split_bootstrap(tensors: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], list[dict[str, Tensor]]]:
    """(parameters of the fit, parameters of each refit) from the tensors of model.safetensors."""
    own: dict[str, Tensor] = {}
    refitted: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        if key.startswith(PREFIX):
            number, _, name = key.removeprefix(PREFIX).partition("/")
            refitted.setdefault(int(number), {})[name] = value
        else:
            own[key] = value
    return own, [refitted[number] for number in sorted(refitted)]
