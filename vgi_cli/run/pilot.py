"""How long a flexible model trains where nobody said so: a pilot fit on part of the rows, scored on the rest.

A flow has no closed form that says when it begins to learn its rows by heart, and on a few hundred rows that is after a
few hundred steps. The rule: a fifth of the rows is held out; the others are fitted at a constant learning rate; after
a growing number of epochs the held-out rows are scored by their observed-data log-likelihood; after three scores in a
row that are not better than the best the pilot ends. All rows are then fitted for the best number of epochs. The rows
held out have no part in the statistics by which the others are encoded, and are scored in the units of the data.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import torch
from torch import Tensor

from vgi_cli.errors import FitError
from vgi_cli.evaluation.likelihood import Budget, observed_log_prob
from vgi_cli.methods.base import EpochEnd
from vgi_cli.methods.optimisation import GradientConfig
from vgi_cli.run import registry
from vgi_cli.run.config import Recipe
from vgi_cli.run.plan import load_config, method_config, model_config, stream
from vgi_cli.run.prepare import Rows, refitted, rows_of, split
from vgi_cli.run.reporting import Reporter
from vgi_cli.table.encoder import log_volume
from vgi_cli.table.reader import Table
from vgi_cli.table.schema import Schema

FEWEST, MOST = 50, 20_000
"""With fewer rows nothing can be held out; with more, the planned number of epochs is too small to overfit."""
HELD = 0.2
SCORED = 200
"""Held-out rows that are scored."""
PATIENCE = 3
GROWTH = 1.4
BUDGET = Budget(particles=8, pilot=4, moves=48, samples=3000, simulated=0, latents=64)


class Pilot(NamedTuple):
    """The number of epochs, and the reason in one line."""

    epochs: int
    reason: str


def needed(recipe: Recipe, rows: Rows) -> bool:
    """Whether the number of epochs is open, the model flexible, the method one that climbs by Adam (whose settings the
    pilot knows) and lets itself be piloted, and the rows few enough for it to matter."""
    entry = registry.MODELS[recipe.model["name"]]
    config = method_config(recipe)
    gradient = isinstance(getattr(config, "optim", None), GradientConfig)
    n = int((~rows.table.missing.all(1)).sum())
    given = recipe.epochs is not None or recipe.val is not None
    scored = bool({"density", "latent"} & entry.provides) and "marginal" not in entry.provides
    return not given and gradient and config.piloted and scored and FEWEST <= n <= MOST


class Parts(NamedTuple):
    """The rows of a pilot fit, those that it is scored on, and what turns log p(encoded observed cells) of each of the
    latter [n] into a log density in data units."""

    kept: Rows
    held: Rows
    volume: Tensor


def divide(recipe: Recipe, rows: Rows, table: Table, schema: Schema) -> Parts:
    """Hold out a fifth of the rows of a fit (`rows`: of the table, encoded by the schema) and encode all of them anew,
    by the statistics of the others."""
    kept, held = (rows.places[some] for some in split(rows.table.N, HELD, stream(recipe.seed, "pilot/split")))
    schema = refitted(schema, table, recipe, kept)
    encoded = rows_of(table, schema, recipe.seed)
    encoded = encoded._replace(table=encoded.table._replace(blocks=rows.table.blocks))
    scored = encoded.at(held)
    scored = scored.at((~scored.table.missing.all(1)).nonzero()[:SCORED, 0])
    return Parts(encoded.at(kept), scored, log_volume(scored.table.missing, scored.table.x, schema))


def choose_epochs(
    recipe: Recipe,
    rows: Rows,
    table: Table,
    schema: Schema,
    device: torch.device,
    reporter: Reporter,
    deadline: float | None = None,
) -> Pilot:
    """Run the pilot. Deterministic by the recipe's seed, unless the deadline (monotonic seconds) ends it."""
    method = registry.load_method(recipe.method["name"])
    dtype = getattr(torch, registry.METHODS[recipe.method["name"]].precision)
    kept, held, volume = divide(recipe, rows, table, schema)
    scored, keys = held.table.to(dtype=dtype, device=device), held.keys.to(device)
    train = kept.table.to(dtype=dtype, device=device)
    values = method_config(recipe).model_dump(mode="json")
    values["optim"] |= {"schedule": "constant", "average": 0.0}
    if "chains" in values:
        values["chains"] = "device"  # few rows
    config: Any = load_config(method.Config, values)
    model = registry.load_model(recipe.model["name"]).build(model_config(recipe), train.D).to(dtype).to(device)
    state = method.init(model, train, config, stream(recipe.seed, "pilot/fit"))
    state.stop_now = lambda: deadline is not None and time.monotonic() > deadline
    best, best_epoch, worse, due = -float("inf"), 1, 0, 1.0
    for event in method.run(state):
        if not isinstance(event, EpochEnd) or event.epoch != state.epoch or event.epoch < int(due):
            continue
        due = max(due * GROWTH, event.epoch + 1.0)
        q = state.q if "conditionals" in registry.METHODS[recipe.method["name"]].makes else None
        result = observed_log_prob(state.model, q, scored.x, scored.missing, budget=BUDGET, seed=recipe.seed, rows=keys)
        score = float(result.values.mean()) + float(volume.mean())
        reporter.progress(f"pilot: {event.epoch} epochs, held-out rows {score:.3f} nats", event.epoch / state.epochs)
        if score > best:
            best, best_epoch, worse = score, event.epoch, 0
        else:
            worse += 1
        if worse == PATIENCE or score != score or state.stop_now():
            break
    reporter.finish_progress()
    if state.epoch == 0:
        return Pilot(
            state.epochs, f"{state.epochs} epochs: the time limit left no time to find out how many are enough"
        )
    if best == -float("inf"):
        raise FitError(
            "no number of epochs gives the held-out rows of the pilot a finite log-likelihood",
            "lower optim.lr, or give --epochs",
        )
    count = f"{best_epoch} epoch{'s' * (best_epoch != 1)}"
    return Pilot(best_epoch, f"{count}: best log-likelihood of held-out rows ({best:.2f} nats a row)")
