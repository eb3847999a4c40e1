"""A fit whose every decision is made, and the state that it begins with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

import torch

from vgi_cli.columns.schema import Schema
from vgi_cli.data import TensorTable
from vgi_cli.encoding.recode import NO_RECODERS, Recoder
from vgi_cli.errors import UsageError
from vgi_cli.fitting import averaging
from vgi_cli.fitting.choosing import (
    settled,
)
from vgi_cli.fitting.contest.league import League
from vgi_cli.fitting.plan import stream
from vgi_cli.fitting.rows import Rows
from vgi_cli.machine.device import default_threads, set_threads
from vgi_cli.machine.memory import memory_for_chains, say_where
from vgi_cli.machine.work import Work
from vgi_cli.maths import products
from vgi_cli.maths.compiled import unfused
from vgi_cli.methods.base import Resources, State
from vgi_cli.methods.em.em import EmState
from vgi_cli.methods.loop import LoopState
from vgi_cli.methods.optimisation import AscentConfig
from vgi_cli.models.base import Model, built
from vgi_cli.settings.recipe import ModelChoice, Recipe


@dataclass(frozen=True)
class Job:
    """A fit whose every decision is made; `planned`: epochs that it would have without its time limit, where that has
    room for fewer; `league`: how its model was chosen, where models were compared; `schemas`: by transform those of
    the models that it averages over; `chains`: whether imputing chains are measured; `refits`: whether the time limit
    leaves time for refits."""

    recipe: Recipe
    train: Rows
    held: Rows | None
    device: torch.device
    work: Work
    planned: int | None = None
    league: League | None = None
    schemas: Mapping[str, Schema] = field(default_factory=dict)
    chains: bool = True
    refits: bool = True

    @property
    def recoders(self) -> Mapping[str, Recoder]:
        """By transform the maps to the rows of the models that it averages over."""
        source = self.train.source
        return NO_RECODERS if source is None else averaging.recoders(source.schema, self.schemas)


def start(job: Job) -> tuple[Job, State]:
    """The state before the first step, and the job with what that state took where settings were open; deterministic
    given the recipe and the rows. UsageError for settings that the method cannot follow."""
    recipe, work = job.recipe, job.work
    wanted = recipe.method_settings
    if isinstance(wanted, AscentConfig) and wanted.optim.products == "bfloat16":
        _check_products(job.device)
    dtype = getattr(torch, recipe.method.entry.traits.precision)
    table = job.train.table.to(dtype=dtype, device=job.device)
    config = recipe.model_settings.settled(table.layout)
    recipe = recipe.replace(model=ModelChoice(recipe.model.name, config.model_dump(mode="json")))
    model = built(recipe.model.family, config, table.layout)
    model = model.to(dtype=dtype, device=job.device)
    threads = recipe.threads or default_threads(work_of_step(model, min(table.N, 512)))
    set_threads(threads)
    if recipe.threads is None:
        work.reporter.detail(f"{threads} thread{'s' if threads > 1 else ''} on {job.device}")
    if (line := unfused(job.device)) is not None:
        work.reporter.say(line)
    recipe = recipe.replace(threads=threads)
    state = _initial(model, table, recipe, job)
    if table.weight is not None and not isinstance(state, LoopState | EmState):
        raise UsageError(
            f"--weight: method {recipe.method.name} cannot weigh rows", "leave it out, or take another --method"
        )
    if isinstance(state, LoopState | EmState):
        state.divide(work.ranks)
    if isinstance(state, LoopState):
        own = job.train if work.ranks.alone else job.train.at(torch.arange(state.share.start, state.share.stop))
        state.respread = own.respread(recipe.seed)
        weight = table.relative_weight
        state.row_weight = None if weight is None else weight.to(state.chains.x)
    else:
        _check_followed(recipe)
    if state.compiled is not None:
        work.reporter.detail(f"compile: {state.compiled}")
    elif recipe.compile == "on":
        work.reporter.say(f"--compile on: method {recipe.method.name} has no step to compile")
    return replace(job, recipe=settled(recipe, state)), cast(State, state)


def _initial(model: Model, table: TensorTable, recipe: Recipe, job: Job) -> Any:
    """The state that the method of a recipe begins with."""
    method: Any = recipe.method.algorithm
    work, inputs = job.work, (model, table, recipe.method_settings, stream(recipe.seed, "fit"))
    if "imputations" not in recipe.method.entry.provides:
        return method.init(*inputs)
    room = memory_for_chains(job.device, work.folder, work.memory, work.ranks.beside)
    resources = Resources(room, recipe.compile if work.ranks.alone else "off", work.reporter.warn)
    state = method.init(*inputs, resources)
    say_where(state.chains, work.folder, work.reporter)
    return state


def _check_followed(recipe: Recipe) -> None:
    """UsageError for settings of the common loop, where the method has a state of its own."""
    wanted, name = recipe.method_settings, recipe.method.name
    if not isinstance(wanted, AscentConfig):
        return
    if wanted.optim.products != "float32":
        raise UsageError(f"optim.products: method {name} cannot round the factors of products", "leave it out")
    if wanted.optim.schedule == "plateau":
        raise UsageError(
            f"method {name} cannot follow optim.schedule=plateau: its state is not one of the loop that "
            "lets rows enter later",
            "say --set optim.schedule=cosine; a method of your own can say so by piloted = False in its Config",
        )


def _check_products(device: torch.device) -> None:
    """UsageError where no products of bfloat16 numbers are to be had."""
    if device.type != "cpu":
        raise UsageError(f"optim.products=bfloat16 is for the CPU, and this fit is on {device}", "leave it out")
    if not products.available():
        raise UsageError("optim.products=bfloat16: this processor does not multiply bfloat16 numbers", "leave it out")


def work_of_step(model: torch.nn.Module, rows: int) -> float:
    """Multiplications of one step on so many flattened rows, roughly: forward and backward of the model."""
    return 3.0 * sum(p.numel() for p in model.parameters()) * rows
