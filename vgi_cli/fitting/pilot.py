"""How long a flexible model trains where nobody said so: a pilot fit on part of the rows, scored on the rest.

A flow has no closed form that says when it begins to learn its rows by heart, and on a few hundred rows that is after a
few hundred steps. The rule: a fifth of the rows is held out; the others are fitted at a constant learning rate; after
a growing number of epochs the held-out rows are scored by their observed-data log-likelihood; after three scores in a
row that are not better than the best the pilot ends. All rows are then fitted for the best number of epochs. The rows
held out have no part in the statistics by which the others are encoded, and are scored in the units of the data.
"""

from __future__ import annotations

import math
import time
from collections.abc import Container
from typing import Any, NamedTuple

import torch

from vgi_cli.completers.base import never
from vgi_cli.data import spread_rows
from vgi_cli.errors import FitError
from vgi_cli.evaluation.likelihood.estimate import Budget, observed_log_prob
from vgi_cli.fitting.plan import stream
from vgi_cli.fitting.refits import TRAINING_SHARE, refit_count
from vgi_cli.fitting.rows import Rows, split
from vgi_cli.machine.work import OutOfTime, TimeLimit, Work, giving_up
from vgi_cli.methods.base import EpochEnd, State
from vgi_cli.methods.loop import LoopState
from vgi_cli.methods.optimisation import AscentConfig, GradientConfig, batch_size_of, planned_epochs
from vgi_cli.models.base import built
from vgi_cli.reporting import PILOT
from vgi_cli.settings.problems import from_plain
from vgi_cli.settings.recipe import Recipe

FEWEST, MOST = 50, 20_000
"""With fewer rows nothing can be held out; with more, the planned number of epochs is too small to overfit."""
HELD = 0.2
SCORED = 200
"""Held-out rows that are scored."""
PATIENCE = 3
WARM_UPS = ("warmup_conditionals", "warmup_model")
GROWTH = 1.4
BUDGET = Budget(particles=8, pilot=4, moves=48, samples=3000, simulated=0, latents=64)
TIME_SHARE = 1 / 3
"""Of the time that is left under a time limit, for the pilot."""
PACE_SHARE, PACE_STEPS, PACE_ROWS = 0.03, (3, 30), 8
"""Of the same, for finding out how long an epoch takes; steps before the clock runs, and while it does; batches of
rows."""
WARM_SHARE, WARM_COST = 0.25, 0.3
"""Of the time that a limit has for training, at most so much is for warm-ups, where nobody says how many; what one of
their epochs takes, in epochs of the main stage (measured: 0.2 to 0.3)."""


class Pilot(NamedTuple):
    """The number of epochs, and the reason in one line."""

    epochs: int
    reason: str


class Allowance(NamedTuple):
    """The recipe with the warm-ups and the epochs that a time limit has room for; `planned`: the epochs without it,
    where these are more."""

    recipe: Recipe
    planned: int | None = None


def needed(recipe: Recipe, rows: Rows) -> bool:
    """Whether the number of epochs is open, the model flexible, the method one that climbs by Adam (whose settings the
    pilot knows) and lets itself be piloted, and the rows few enough for it to matter."""
    entry = recipe.model.entry
    config = recipe.method_settings
    n = int((~rows.table.missing.all(1)).sum())
    given = recipe.epochs is not None or recipe.val is not None
    scored = bool({"density", "latent"} & entry.provides) and "marginal" not in entry.provides
    return not given and isinstance(config, AscentConfig) and config.piloted and scored and FEWEST <= n <= MOST


def divide(recipe: Recipe, rows: Rows) -> tuple[Rows, Rows]:
    """(rows of a pilot fit, rows that it is scored on): a fifth of the rows is held out, and all of them are encoded
    anew by the statistics of the others."""
    kept, held = split(rows.table.N, HELD, stream(recipe.seed, "pilot/split"))
    encoded = rows.anew(recipe, kept)
    scored = encoded.at(held)
    return encoded.at(kept), scored.at((~scored.table.missing.all(1)).nonzero()[:SCORED, 0])


def choose_epochs(recipe: Recipe, rows: Rows, device: torch.device, work: Work) -> Pilot:
    """Run the pilot. Deterministic by the recipe's seed, unless a time limit ends it: then all planned epochs stay, as
    what the pilot has seen by then says little."""
    reporter, limit = work.reporter, work.limit
    until = limit.until(TIME_SHARE)
    kept, held = divide(recipe, rows)
    volume = held.log_volume()
    state = _trial(recipe, kept, device, {"schedule": "constant", "average": 0.0}, "pilot/fit")
    dtype = getattr(torch, recipe.method.entry.traits.precision)
    scored, keys = held.table.to(dtype=dtype, device=device), held.keys.to(device)
    best, best_epoch, worse, due, note = -float("inf"), 1, 0, 1.0, ""
    ended = False
    with reporter.stage(PILOT, "epochs", until) as stage:

        def over() -> bool:
            share = math.log1p(state.standing().share * state.epochs) / math.log1p(state.epochs)
            stage(share, state.epoch, note=note)
            return limit.passed(until)

        for event in recipe.method.algorithm.run(state, over):
            if over():
                break
            if not isinstance(event, EpochEnd) or event.epoch != state.epoch or event.epoch < int(due):
                continue
            due = max(due * GROWTH, event.epoch + 1.0)
            try:
                result = observed_log_prob(
                    state.model,
                    state.conditionals,
                    scored.x,
                    scored.missing,
                    budget=BUDGET,
                    seed=recipe.seed,
                    rows=keys,
                    progress=giving_up(over),
                )
            except OutOfTime:
                break
            score = float(result.values.mean()) + float(volume.mean())
            note = f"held-out rows {score:.3f} nats"
            if score > best:
                best, best_epoch, worse = score, event.epoch, 0
            else:
                worse += 1
            if worse == PATIENCE or score != score:
                ended = True
                break
    if not ended and limit.passed(until):
        limit.cut.append(PILOT)
        return Pilot(
            state.epochs,
            f"training for up to {state.epochs} epochs: the time limit left no time to find out how many are enough",
        )
    if best == -float("inf"):
        raise FitError(
            "no number of epochs gives the held-out rows of the pilot a finite log-likelihood",
            "lower optim.lr, or give --epochs",
        )
    count = f"{best_epoch} epoch{'s' * (best_epoch != 1)}"
    reporter.detail(f"log-likelihood of the rows that the trial fit held out: {best:.2f} nats a row after {count}")
    return Pilot(best_epoch, f"training for {count}: a trial fit described held-out rows best after as many")


def allowance(recipe: Recipe, rows: Rows, device: torch.device, limit: TimeLimit, said: Container[str]) -> Allowance:
    """How many epochs a time limit has room for, so that the learning rate falls and the parameters are averaged within
    it; `said`: keys of settings that somebody gave, which stay. Nothing where the epochs are given, or where a few
    steps do not tell how long one takes."""
    config = recipe.method_settings
    if not limit or "epochs" in said or not isinstance(config, AscentConfig) or not config.paced:
        return Allowance(recipe)
    optim = config.optim
    share = TRAINING_SHARE if refit_count(recipe) > 0 else 1.0
    room = share * limit.left / _epoch_seconds(recipe, rows, device, optim, limit)
    warm = {key: value for key in WARM_UPS if (value := getattr(optim, key, None)) is not None}
    total = WARM_COST * sum(warm.values())
    if total > WARM_SHARE * room:
        factor = WARM_SHARE * room / total
        fewer = {key: int(value * factor) for key, value in warm.items() if f"optim.{key}" not in said}
        recipe = recipe.with_optim(**fewer)
        total = WARM_COST * sum({**warm, **fewer}.values())
    allowed, planned = max(1, int(room - total)), planned_epochs(config, int((~rows.table.missing.all(1)).sum()))
    return Allowance(recipe.replace(epochs=allowed), planned) if allowed < planned else Allowance(recipe)


def _epoch_seconds(recipe: Recipe, rows: Rows, device: torch.device, optim: GradientConfig, limit: TimeLimit) -> float:
    """Seconds of an epoch of the main stage, from a few of its steps on a part of the rows."""
    used = (~rows.table.missing.all(1)).nonzero()[:, 0]
    batch = batch_size_of(optim, len(used))
    some = used[spread_rows(len(used), PACE_ROWS * batch)]
    changes = {"batch_size": batch, **{key: 0 for key in WARM_UPS if key in type(optim).model_fields}}
    state = _trial(recipe, rows.at(some), device, changes, "pace")
    until = limit.until(PACE_SHARE)
    before, most = PACE_STEPS
    begun, done = time.monotonic(), -before
    for event in recipe.method.algorithm.run(state, never):
        if isinstance(event, EpochEnd):
            continue
        done += 1
        if done == 0:
            begun = time.monotonic()
        if done == most or (done > 0 and limit.passed(until)):
            break
    return (time.monotonic() - begun) / max(done, 1) * -(-len(used) // batch)


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
