"""How many epochs a time limit has room for, so that the learning rate can fall to its end within it."""

from __future__ import annotations

import time
from collections.abc import Callable, Container
from typing import Any, NamedTuple, cast

import torch

from vgi_cli.completers.base import never
from vgi_cli.data import TensorTable, spread_rows
from vgi_cli.fitting.plan import stream
from vgi_cli.fitting.refits import TRAINING_SHARE, refit_count
from vgi_cli.fitting.rows import Rows
from vgi_cli.machine.work import TimeLimit
from vgi_cli.methods import reweighted
from vgi_cli.methods.base import EpochEnd, State
from vgi_cli.methods.loop import LoopState
from vgi_cli.methods.optimisation import AscentConfig, batch_size_of, planned_epochs
from vgi_cli.models.base import built
from vgi_cli.settings.problems import from_plain
from vgi_cli.settings.recipe import Recipe

WARM_UPS = ("warmup_conditionals", "warmup_model")
PACE_SHARE, PACE_STEPS, PACE_ROWS = 0.03, (3, 30), 8
"""Of the time that is left under a limit, for finding out how long an epoch takes; steps before the clock runs, and
while it does; batches of rows."""
WARM_SHARE, WARM_COST = 0.25, 0.3
"""Of the time that a limit has for training, at most so much is for warm-ups, where nobody says how many; what one of
their epochs takes, in epochs of the main stage (measured: 0.2 to 0.3)."""


class Allowance(NamedTuple):
    """The recipe with the warm-ups and the epochs that a time limit has room for; `planned`: the epochs without it,
    where these are more; `refits`: whether time is left for refits after them."""

    recipe: Recipe
    planned: int | None = None
    refits: bool = True


def allowance(recipe: Recipe, rows: Rows, device: torch.device, limit: TimeLimit, said: Container[str]) -> Allowance:
    """How many epochs a time limit has room for, so that the learning rate falls and the parameters are averaged within
    it; `said`: keys of settings that somebody gave, which stay. Nothing where the epochs are given, or where a few
    steps do not tell how long one takes. Where the time that refits have would not do for the fewest that are worth it,
    training has theirs too."""
    config = recipe.method_settings
    if not limit or "epochs" in said or not isinstance(config, AscentConfig) or not config.paced:
        return Allowance(recipe)
    optim = config.optim
    epoch = _epoch_seconds(recipe, rows, device, limit)
    room = max(limit.left, 0.0) / epoch  # finding the pace takes time, too
    refits = _refit_epochs(recipe, rows.table, room) <= (1 - TRAINING_SHARE) * room
    room *= TRAINING_SHARE if refits and refit_count(recipe) > 0 else 1.0
    warm = {key: value for key in WARM_UPS if (value := getattr(optim, key, None)) is not None}
    total = WARM_COST * sum(warm.values())
    if total > WARM_SHARE * room:
        factor = WARM_SHARE * room / total
        fewer = {key: int(value * factor) for key, value in warm.items() if f"optim.{key}" not in said}
        recipe = recipe.with_optim(**fewer)
        total = WARM_COST * sum({**warm, **fewer}.values())
    allowed, planned = max(1, int(room - total)), planned_epochs(config, len(rows.table.used))
    cut = allowed < planned
    return Allowance(recipe.replace(epochs=allowed) if cut else recipe, planned if cut else None, refits)


def _refit_epochs(recipe: Recipe, table: TensorTable, room: float) -> float:
    """How many epochs of a fit that has room for so many take as long as the fewest refits that are worth making; 0
    where none are to be made."""
    count, K = refit_count(recipe), getattr(recipe.method_settings, "imputations", 1)
    if count == 0:
        return 0.0
    used, optim = table.rows(table.used), cast(AscentConfig, recipe.method_settings).optim
    steps = -(-used.N // batch_size_of(optim, used.N))
    epoch = reweighted.work_of(1, steps, used.N + (K - 1) * int(used.missing.any(1).sum()))
    scarcest = int((~used.missing).sum(0).min())
    size = reweighted.size_of(used.N, scarcest, room * epoch, count, stated=True)
    fewest = min(count, reweighted.FEWEST_AFFORDABLE)
    return (fewest + 1) / (count + 1) * size.work / epoch


def _epoch_seconds(recipe: Recipe, rows: Rows, device: torch.device, limit: TimeLimit) -> float:
    """Seconds of an epoch of the main stage, measured in a share of the time that is left."""
    return seconds_of_epoch(recipe, rows, device, PACE_SHARE * max(limit.left, 0.0)).seconds


class Pace(NamedTuple):
    """Seconds of an epoch of the main stage, on how many rows it was measured, and the bytes of the parameters and what
    the optimisers keep of them."""

    seconds: float
    rows: int
    parameters: int


def seconds_of_epoch(
    recipe: Recipe, rows: Rows, device: torch.device, allowed: float, clock: Callable[[], float] = time.monotonic
) -> Pace:
    """How long an epoch of a method that climbs by gradients takes, from a few of its steps on a part of the rows;
    `allowed`: seconds for these steps (one is taken at least), by `clock`."""
    optim = cast(AscentConfig, recipe.method_settings).optim
    used = rows.table.used
    batch = batch_size_of(optim, len(used))
    some = used[spread_rows(len(used), PACE_ROWS * batch)]
    changes = {"batch_size": batch, **{key: 0 for key in WARM_UPS if key in type(optim).model_fields}}
    state = _trial(recipe, rows.at(some), device, changes, "pace")
    before, most = PACE_STEPS
    started = begun = clock()
    done = -before
    for event in recipe.method.algorithm.run(state, never):
        if isinstance(event, EpochEnd):
            continue
        done += 1
        if done == 0:
            begun = clock()
        if done == most or (done > 0 and clock() - started >= allowed):
            break
    seconds = (clock() - begun) / max(done, 1) * -(-len(used) // batch)
    kept = [tensors for stem, tensors in state.parts().items() if stem != "imputations"]
    return Pace(seconds, len(some), sum(t.numel() * t.itemsize for tensors in kept for t in tensors.values()))


def _trial(recipe: Recipe, rows: Rows, device: torch.device, optim: dict[str, Any], purpose: str) -> State:
    """A fit to some rows, which are few, that is thrown away. `optim`: other settings."""
    method = recipe.method.algorithm
    dtype = getattr(torch, recipe.method.entry.traits.precision)
    table = rows.table.to(dtype=dtype, device=device)
    values = recipe.method_settings.model_dump(mode="json")
    values["optim"] |= optim
    if "chains" in values:
        values["chains"] = "device"
    model = built(recipe.model.family, recipe.model_settings, table.layout).to(dtype).to(device)
    state = method.init(model, table, from_plain(method.Config, values), stream(recipe.seed, purpose))
    if isinstance(state, LoopState):
        state.respread = rows.respread(recipe.seed)
    return state
