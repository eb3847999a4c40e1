"""Gradient ascent on an objective of one batch after the other: what the methods without conditionals have in common.

A method hands in the objective of a batch, and where it has imputations, how they are refreshed; this file is the loop.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import final

import torch
from pydantic import Field
from torch import Tensor

from vgi_cli.chains.placement import Room, Setting
from vgi_cli.chains.store import Batch, Chains, make_chains
from vgi_cli.data import TensorTable
from vgi_cli.methods.base import EpochEnd, MethodConfig, Parts, Step
from vgi_cli.methods.chain_state import ChainState, Stage
from vgi_cli.methods.optimisation import (
    GradientConfig,
    ascend,
    default_batch_size,
    optimiser_tensors,
    prefixed,
    rate_factor,
    restore_optimiser,
    set_rate,
)
from vgi_cli.models.base import Model

STEPS, FEWEST_EPOCHS = 4000, 5  # where no number of epochs is given

Objective = Callable[["GradientState", Batch, torch.Generator], Tensor]
"""Weighted sum of the objective over a batch, nats: scalar. Randomness comes from the generator."""
Refresh = Callable[["GradientState", torch.Generator], None]
"""Before an epoch: set the imputations anew, or leave them."""


class LikelihoodConfig(MethodConfig):
    """Settings of a method that climbs by gradients.

    epochs  passes over the rows; none: by N
    """

    epochs: int | None = Field(None, ge=1)
    optim: GradientConfig = GradientConfig()


class ImputingConfig(LikelihoodConfig):
    """The same for a method that keeps imputations.

    imputations  K
    chains       where the imputations live: `auto` (where they fit), `device`, `host` or `disk`; changes no result
    """

    imputations: int = Field(5, ge=1)
    chains: Setting = "auto"


def no_refresh(state: GradientState, generator: torch.Generator) -> None:
    """The imputations stay as they are."""


@final
class GradientState(ChainState):
    """See State and ChainState.

    keeps  whether the imputations are a part of the run
    """

    def __init__(
        self,
        theta: Model,
        chains: Chains,
        config: LikelihoodConfig,
        seed: int,
        objective: Objective,
        *,
        refresh: Refresh = no_refresh,
        keeps: bool,
    ) -> None:
        n = int((~chains.missing.all(1)).sum())
        batch_size = config.optim.batch_size or default_batch_size(n)
        super().__init__(theta, chains, config.optim.lr or theta.learning_rate, batch_size, seed, Stage.MAIN)
        self.config = config
        self.objective = objective
        self.refresh = refresh
        self.keeps = keeps
        self.epochs = config.epochs or max(FEWEST_EPOCHS, math.ceil(STEPS / self.batches))
        self.total = chains.x.new_zeros(())  # of the objective, in this epoch
        self.refreshed = -1  # the last epoch before which `refresh` was called

    def parts(self) -> Parts:
        """See State."""
        self.publish()
        state = {"counters": self.counters(), "total": self.total, "refreshed": torch.tensor(self.refreshed)}
        state |= {f"theta/{k}": v for k, v in self.theta.state_dict().items()}
        state |= optimiser_tensors("optim_theta", self.optim_theta)
        copies = {
            stem: {k: v.detach().clone().contiguous() for k, v in tensors.items()}
            for stem, tensors in {"model": dict(self.model.state_dict()), "state": state}.items()
        }
        return {**copies, "imputations": {"values": self.chains.values[:-1]}} if self.keeps else copies

    def restore(self, parts: Mapping[str, Mapping[str, Tensor]]) -> None:
        """See State."""
        state = parts["state"]
        self.set_counters(state["counters"])
        self.model.load_state_dict(parts["model"])
        self.theta.load_state_dict(prefixed(state, "theta/"))
        self.total.copy_(state["total"])
        self.refreshed = int(state["refreshed"])
        if self.keeps:
            self.chains.values[:-1] = parts["imputations"]["values"]
        restore_optimiser("optim_theta", self.optim_theta, state)


def chains_of(table: TensorTable, config: LikelihoodConfig, room: Room | None = None) -> Chains:
    """Chains of a table, all values 0: as many as the settings say, else one."""
    if isinstance(config, ImputingConfig):
        return make_chains(table.x, table.missing, config.imputations, config.chains, room)
    return make_chains(table.x, table.missing, 1, "device")


def run(state: GradientState) -> Iterator[Step | EpochEnd]:
    """Climb, epoch after epoch. Yields after every whole step and every epoch."""
    while state.stage_epoch < state.epochs:
        if state.refreshed < state.stage_epoch:
            state.refresh(state, state.generator(-2))
            state.refreshed = state.stage_epoch
        while state.position < state.batches:
            step(state)
            state.position += 1
            yield Step({"objective": state.total})
        yield _end_epoch(state)


def step(state: GradientState) -> None:
    """One gradient step on the batch at the state's position."""
    optim = state.config.optim
    set_rate(state.optim_theta, state.lr * rate_factor(optim.schedule, state.progress()))
    objective = state.objective(state, state.batch(), state.generator(1 + state.position))
    ascend(objective, optim.clip, state.optim_theta)
    state.total += objective.detach()
    state.count_average(optim.average)


def _end_epoch(state: GradientState) -> EpochEnd:
    state.publish()
    metrics = {"objective": float(state.total) / state.batches}
    state.total.zero_()
    state.stage_epoch, state.position = state.stage_epoch + 1, 0
    return EpochEnd(state.stage_epoch, metrics)


def log_likelihood(state: GradientState, batch: Batch, generator: torch.Generator) -> Tensor:
    """Weighted log-likelihood of the completed rows of a batch."""
    return (batch.weight * state.log_p(batch.x, batch.missing)).sum()
