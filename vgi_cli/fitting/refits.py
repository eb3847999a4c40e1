"""Bootstrap refits of a fit: when they are made, and where they lie in a run (`bootstrap/<b>/<parameter>`)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, cast

import torch
from torch import Tensor

from vgi_cli.data import TensorTable
from vgi_cli.fitting.plan import stream
from vgi_cli.machine.work import Work
from vgi_cli.methods.em.bootstrap import Refit, refits, size_of
from vgi_cli.methods.em.em import EmConfig
from vgi_cli.models.base import Model
from vgi_cli.models.gaussian.family import GaussianFamily
from vgi_cli.reporting import REFITS
from vgi_cli.settings.recipe import Recipe

PREFIX, TREES = "bootstrap/", "trees/"
COUNT = 20
"""What `auto` makes and keeps; more imputations than that have theirs made when they are drawn (fitting/further.py)."""

FEWEST = 2
"""Fewer refits than this say nothing of an uncertainty: where a time limit leaves no more, none are kept."""


class Refitted(NamedTuple):
    """Parameters of all refits under their names in the run, and how many had not settled; empty where none are."""

    tensors: dict[str, Tensor]
    unsettled: int


def refit_count(recipe: Recipe) -> int:
    """How many refits a fit makes. `bootstrap` of the recipe: auto, none, or a number."""
    able = recipe.method.entry.traits.likelihood and "gaussian" in recipe.model.entry.provides
    if recipe.bootstrap == "none" or not able:
        return 0
    return COUNT if recipe.bootstrap == "auto" else recipe.bootstrap


def refit(recipe: Recipe, model: Model, table: TensorTable, work: Work) -> Refitted:
    """Make the refits of a fit. Those that a time limit leaves no time for are left out, and a line says so."""
    named: dict[str, Tensor] = {}
    done = unsettled = 0
    count = refit_count(recipe)
    for made in made_refits(recipe, model, table, range(count), work):
        named |= {f"{PREFIX}{done}/{name}": value for name, value in made.parameters.items()}
        done += 1
        unsettled += not made.settled
    if done < count:
        work.limit.cut.append(REFITS)
        kept = done if done >= FEWEST else 0
        work.reporter.warn(
            f"{kept} of {count} refits were made within the time limit: "
            + ("they carry the uncertainty of the parameters" if kept else "imputations will not include it")
        )
        return Refitted(named, unsettled) if kept else Refitted({}, 0)
    return Refitted(named, unsettled)


def made_refits(
    recipe: Recipe, model: Model, table: TensorTable, numbers: Sequence[int], work: Work
) -> Iterator[Refit]:
    """The refits of these numbers, each the same whatever the others are, as far as a time limit allows; a line is said
    where some did not settle."""
    if not numbers:
        return
    reporter, limit = work.reporter, work.limit
    family = cast(GaussianFamily, model)
    config = em_settings(recipe)
    table = table.rows(~table.missing.all(1)).to(dtype=torch.float64)
    size = size_of(family, table.missing)
    if size.rows < table.N:
        share = math.sqrt(size.rows / table.N)
        reporter.detail(f"bootstrap refits: {size.rows} of {table.N} rows each, what they move by times {share:.3f}")
    unsettled = done = 0

    def generator(number: int) -> torch.Generator:
        return stream(recipe.seed, f"bootstrap/{number}")

    with reporter.stage(REFITS, "refits", limit.end) as stage:
        for one in refits(family, table, config, numbers, generator, size=size, stop=limit.over):
            unsettled += not one.settled
            yield one
            done += 1
            stage(done / len(numbers), done, len(numbers))
    if unsettled:
        reporter.say(
            f"{unsettled} of {done} bootstrap refits were stopped after {size.steps} EM steps, before they had "
            "settled: standard errors from the imputations may be a little too small"
        )


def em_settings(recipe: Recipe) -> EmConfig:
    """The settings of EM: those of a fit by it, else its defaults."""
    settings = recipe.method_settings
    return settings if isinstance(settings, EmConfig) else EmConfig()


def split_bootstrap(tensors: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], list[dict[str, Tensor]]]:
    """(parameters of the fit, parameters of each refit) from the tensors of model.safetensors, which may hold trees."""
    own: dict[str, Tensor] = {}
    refitted: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        if key.startswith(PREFIX):
            number, _, name = key.removeprefix(PREFIX).partition("/")
            refitted.setdefault(int(number), {})[name] = value
        elif not key.startswith(TREES):
            own[key] = value
    return own, [refitted[number] for number in sorted(refitted)]
