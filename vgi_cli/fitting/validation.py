"""Scores on held-out rows during a fit: observed-data log-likelihood, or the method's own loss."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Mapping
from typing import Any, final

import torch
from torch import Tensor

from vgi_cli.completers.base import never
from vgi_cli.data import TensorTable
from vgi_cli.evaluation.likelihood.estimate import PlacesOfCells, observed_log_prob
from vgi_cli.evaluation.likelihood.ladder import Budget
from vgi_cli.fitting.driver import Validator
from vgi_cli.fitting.rows import Rows
from vgi_cli.machine.work import OutOfTime, giving_up
from vgi_cli.methods.base import EpochEnd, State, Tuning
from vgi_cli.settings.recipe import Recipe

VALIDATIONS = 50
"""About so many validations are spread over the planned epochs."""
ROWS = 2000
"""Held-out rows beyond which the estimator looks at a fixed subset."""
BUDGET = Budget(particles=16, pilot=32, bundle=8, moves=64, samples=4000, simulated=0, latents=64)
FEWEST_TUNING, TUNING_SHARE = 4, 0.1
"""Epochs of a fine-tuning: so many at least, else this share of the rows that the fit saw since the last one."""
COUNTED = 0.25
"""Share of these epochs, at their end, over which the objective is averaged."""
Tune = Callable[[Any, TensorTable, Tensor, torch.Generator, int], Tuning]


def spacing(epochs: int) -> int:
    """Epochs between two validations: a fixed rule on the planned number, never on time."""
    return max(1, epochs // VALIDATIONS)


@final
class LogLikValidator(Validator):
    """Mean log p(observed cells) of the held-out rows, nats, data units: exact where the model has marginals, else
    estimated with the same random numbers each time. Rows without an observed cell are left out."""

    name = "val_loglik"
    words = "log-likelihood {:.4f} nats a row"

    def __init__(self, table: TensorTable, keys: Tensor, volume: Tensor, every: int, seed: int) -> None:
        """`volume` [N]: log|det d encoded / d data| over the observed cells of each row (see `log_volume`), without
        those that count by their probability (the table's `rounding`)."""
        used = table.used
        index = used[torch.linspace(0, len(used) - 1, min(len(used), ROWS)).long()]
        self._table = table.rows(index)
        self._keys = keys.to(table.x.device)[index]
        self._volume = float(volume[index.cpu()].mean())
        self._seed = seed
        self.every = every

    def score(self, state: State, over: Callable[[], bool] = never) -> float:
        table = self._table
        result = observed_log_prob(
            state.model,
            state.conditionals if table.rounding is None else PlacesOfCells(table.rounding),
            table.x,
            table.missing,
            budget=BUDGET,
            seed=self._seed,
            rows=self._keys,
            progress=giving_up(over),
        )
        return float(result.values.mean()) + self._volume


@final
class ObjectiveValidator(Validator):
    """The paper's rule (section 3.5 and appendix H): a method's own loss on the held-out rows, after copies of its
    conditionals or its encoder were fine-tuned to them (Algorithm 6).

    The chains persist between validations. The value is no log-likelihood.
    """

    name = "val_objective"
    words = "objective {:.4f} after fine-tuning, encoded units"

    def __init__(self, tune: Tune, table: TensorTable, inside: Tensor, every: int, epochs: int, seed: int) -> None:
        """`epochs`: of each fine-tuning."""
        self._tune = tune
        self._table = table
        self._inside = inside
        self._epochs = epochs
        self._seed = seed
        self._chains: dict[str, Tensor] = {}
        self._count = 0
        self.every = every

    def score(self, state: State, over: Callable[[], bool] = never) -> float:
        """The mean over the last epochs of the fine-tuning."""
        generator = torch.Generator().manual_seed(self._seed + self._count)
        tuned, events = self._tune(state, self._table, self._inside, generator, self._epochs)
        if self._chains:
            tuned.chains.restore(self._chains)
        objectives = []
        for event in events:
            if over():
                raise OutOfTime
            if isinstance(event, EpochEnd):
                objectives.append(event.metrics.get("objective", math.nan))
        self._chains = {name: kept.clone() for name, kept in tuned.chains.tensors().items()}
        self._count += 1
        return statistics.fmean(objectives[-max(1, round(COUNTED * len(objectives))) :])

    def tensors(self) -> dict[str, Tensor]:
        """The chains, and how often the rows have been scored."""
        return {**self._chains, "count": torch.tensor(self._count)} if self._chains else {}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        if tensors:
            self._chains = {name: kept for name, kept in tensors.items() if name != "count"}
            self._count = int(tensors["count"])


def observed_box(*tables: TensorTable) -> Tensor:
    """[2, D]: smallest and largest observed value of each column over some tables (0, 0 where there is none). Of a
    discrete dimension all levels: their numbers say nothing of what is near."""
    low = torch.stack([t.x.masked_fill(t.missing, torch.inf).amin(0) for t in tables]).amin(0)
    high = torch.stack([t.x.masked_fill(t.missing, -torch.inf).amax(0) for t in tables]).amax(0)
    none = low > high
    box = torch.stack([low.masked_fill(none, 0.0), high.masked_fill(none, 0.0)])
    counts = torch.tensor(tables[0].layout.level_counts)
    if bool(counts.any()):
        last = (counts - 1).to(box)
        box = torch.where(last >= 0, torch.stack([torch.zeros_like(last), last]), box)
    return box


def make_validator(recipe: Recipe, train: TensorTable, held: Rows, volume: Tensor, epochs: int) -> Validator:
    """The validator of a fit of so many epochs. `volume`: see LogLikValidator."""
    every = spacing(epochs)
    if recipe.select == "objective":
        tune = recipe.method.algorithm.tune
        assert tune is not None
        tuning = max(FEWEST_TUNING, round(TUNING_SHARE * every * train.N / max(held.table.N, 1)))
        return ObjectiveValidator(tune, held.table, observed_box(train, held.table), every, tuning, recipe.seed)
    return LogLikValidator(held.table, held.keys, volume, every, recipe.seed)
