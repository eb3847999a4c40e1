"""How long a flexible model trains where nobody said so: until rows that are held out gain no more, and a little on.

A flow has no closed form that says when it begins to learn its rows by heart, and on a few hundred rows that is after a
few hundred steps. The rule: some rows are held out, and the others are fitted at a constant learning rate. After a
growing number of epochs the held-out rows are scored by their observed-data log-likelihood under the mean of the
parameters since the last score. Then all rows enter, and the learning rate falls to 0:

- where PATIENCE scores in a row, after LEAST steps, are not better than the best by GAIN, rows are what is short: the
  fit goes back to the parameters after its first epoch, and the rate falls over as many epochs as were best;
- where the planned epochs leave no room for more, time is what is short: the fit goes on from the best parameters.

The rows held out take part in the statistics by which the columns are encoded, since they are fitted at last. Their
score is for choosing, not for reporting.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Mapping

import torch
from torch import Tensor

from vgi_cli.completers.base import never
from vgi_cli.data import TensorTable
from vgi_cli.errors import FitError, UsageError
from vgi_cli.evaluation.likelihood.estimate import observed_log_prob
from vgi_cli.evaluation.likelihood.ladder import Budget
from vgi_cli.fitting.plan import stream
from vgi_cli.fitting.rows import Rows, split
from vgi_cli.machine.work import OutOfTime, giving_up
from vgi_cli.methods.loop import LoopState
from vgi_cli.methods.optimisation import AscentConfig, planned_epochs, prefixed
from vgi_cli.ranks import ALONE, Ranks
from vgi_cli.settings.recipe import Recipe

FEWEST = 50
"""With fewer rows nothing can be held out, ..."""
FEW_EPOCHS, FEW_EPOCHS_LATENT = 15, 300
"""... and a flow has so many epochs, beyond which it learns them by heart; so many a model with latents, which begins
without a relation between columns."""
LATENT_ROWS = 400
"""Of as many rows or more a model with latents is trained as long as planned, at a rate that falls from the beginning:
it does not learn them by heart in that time, and what it still gains is too little a row for held-out rows to see, yet
whole standard errors of what the imputations say (docs/research/benchmarks.md)."""
HELD, MOST_HELD = 0.2, 500
"""Share of the rows that is held out, and their largest number."""
PATIENCE, GAIN, LEAST = 3, 0.03, 500
"""Scores in a row that are not better than the best by so many nats a row, after so many steps at least: before, a
model may not have begun to learn how columns go together, and where most cells are missing a score hardly shows it."""
GROWTH = 1.25
"""Each score comes after so many times the epochs of the one before."""
FALL = 0.3
"""Share of all epochs in which the learning rate falls."""
SHARE = 0.75
"""Epochs at most, as a share of those of a rate that falls from the beginning: a rate that stays learns in fewer."""
BUDGET = Budget(particles=8, pilot=32, bundle=8, moves=48, samples=3000, simulated=0, latents=64)


def settled(recipe: Recipe, table: TensorTable, said: Container[str]) -> Recipe:
    """The recipe with schedule `plateau` and its largest number of epochs, where nobody says how long to train, the
    model is flexible, the method one that climbs by Adam and lets itself be judged early, and the rows are enough (and
    few, for a model with latents); with a few epochs where the rows are too few, by any method; else as it is.
    UsageError where somebody asks for that schedule, and the method or the rows are not for it.

    said  keys of settings that somebody gave
    """
    entry, config, n = recipe.model.entry, recipe.method_settings, len(table.used)
    if not isinstance(config, AscentConfig):
        return recipe
    if config.optim.schedule == "plateau":
        _check(recipe, config, n)
        return recipe
    open_ended = recipe.epochs is None and recipe.val is None
    scored = bool({"density", "latent"} & entry.provides) and "marginal" not in entry.provides
    latent = "latent" in entry.provides
    if n < FEWEST and open_ended and scored:  # whatever the method and its schedule: rows are soon learnt by heart
        few = FEW_EPOCHS_LATENT if latent else FEW_EPOCHS
        return recipe.replace(epochs=min(few, planned_epochs(config, n)))
    nobody_says = open_ended and config.optim.schedule is None and "optim.schedule" not in said
    if not (nobody_says and config.piloted and scored) or (latent and n >= LATENT_ROWS):
        return recipe
    return recipe.with_optim(schedule="plateau").replace(epochs=math.ceil(SHARE * planned_epochs(config, n)))


def _check(recipe: Recipe, config: AscentConfig, n: int) -> None:
    """UsageError where the method or the number of rows with an observed cell is not for schedule `plateau`."""
    if not config.piloted:
        raise UsageError(
            f"optim.schedule=plateau is not for method {recipe.method.name}, whose first epochs say little of its last",
            "say --set optim.schedule=cosine",
        )
    if n < FEWEST:
        raise UsageError(
            f"optim.schedule=plateau holds rows out, for which {n} rows with an observed cell are too few: "
            f"it takes {FEWEST}",
            "say --set optim.schedule=cosine, and --epochs",
        )


class Plateau:
    """What watches the held-out rows of a fit, and says when the learning rate falls."""

    def __init__(self, recipe: Recipe, rows: Rows, table: TensorTable, state: LoopState, ranks: Ranks = ALONE) -> None:
        """rows: of the fit; table: the same where it is computed; state: before its first step, or before it is
        restored; ranks: who shares the fit, of whom one scores. Where there is a single epoch, nothing is held out and
        the learning rate falls in it."""
        used = rows.table.used
        share = min(HELD, MOST_HELD / len(used))
        held = used[split(len(used), share, stream(recipe.seed, "plateau/split"))[1]]
        if state.epochs > 1:
            state.hold_out(held)
        else:
            state.turn = 0
        self._table = table.rows(held.to(table.x.device))
        self._keys = rows.keys[held].to(table.x.device)
        self._volume = float(rows.at(held).log_volume().mean())
        self._seed, self._ranks = recipe.seed, ranks
        self.best, self.best_epoch, self.worse, self.due = -math.inf, 0, 0, 1
        self._first: dict[str, Tensor] = {}
        self._best: dict[str, Tensor] = {}

    @property
    def satisfied(self) -> bool:
        """Whether the held-out rows ended the constant rate, and not the planned epochs."""
        return self.worse == PATIENCE

    def after_epoch(self, state: LoopState, over: Callable[[], bool] = never) -> float | None:
        """Score the held-out rows where that is due after an epoch of the main stage, and let the learning rate fall
        where it is time. The score, nats a row, or None. Raises OutOfTime where `over` says so, FitError where no score
        was finite."""
        last = max(1, int(state.epochs * (1 - FALL)))
        if state.turn is not None or (state.epoch < self.due and state.epoch < last):
            return None
        score = self._ranks.score(lambda: self._score(state, over), OutOfTime)
        state.begin_average()
        self.due = max(math.ceil(self.due * GROWTH), state.epoch + 1)
        if score > self.best + (GAIN if self.best_epoch else 0.0):
            self.best, self.best_epoch, self.worse = score, state.epoch, 0
            self._best = state.snapshot()
            self._first = self._first or self._best
        else:
            late = state.epoch * state.batches >= LEAST
            self.worse = PATIENCE if math.isnan(score) else self.worse + late
        if self.satisfied or state.epoch >= last:
            if not self._best:
                raise FitError(
                    "no number of epochs gives the held-out rows a finite log-likelihood",
                    "lower optim.lr, or give --epochs",
                )
            left = state.epochs - state.epoch  # never more than were planned
            if self.satisfied:
                state.fall(self._first, min(self.best_epoch, left))
            else:
                state.fall(self._best, min(math.ceil(self.best_epoch * FALL / (1 - FALL)), left))
            self._first, self._best = {}, {}
        return score

    def _score(self, state: LoopState, over: Callable[[], bool]) -> float:
        """Of the held-out rows under the published model, nats a row."""
        result = observed_log_prob(
            state.model,
            getattr(state, "conditionals", None),
            self._table.x,
            self._table.missing,
            budget=BUDGET,
            seed=self._seed,
            rows=self._keys,
            progress=giving_up(over),
        )
        return float(result.values.mean()) + self._volume

    def tensors(self) -> dict[str, Tensor]:
        """What a checkpoint keeps."""
        counters = torch.tensor([self.best, self.best_epoch, self.worse, self.due], dtype=torch.float64)
        parts = {"first": self._first, "best": self._best}
        return {
            "counters": counters,
            **{f"{part}/{k}": v for part, tensors in parts.items() for k, v in tensors.items()},
        }

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Take up what `tensors` gave."""
        self.best, *others = tensors["counters"].tolist()
        self.best_epoch, self.worse, self.due = (int(value) for value in others)
        self._first, self._best = (prefixed(tensors, f"{part}/") for part in ("first", "best"))
