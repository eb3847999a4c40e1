"""Gradient ascent on an objective of one batch after the other: what the methods without conditionals have in common.

A method hands in the objective of a batch, and where it has imputations, how they are refreshed; this file is the loop.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import final

import torch
from torch import Tensor

from vgi_cli.chains.store.packed import Batch, Chains, make_chains
from vgi_cli.chains.store.placement import MemoryBudget, Setting
from vgi_cli.data import TensorTable
from vgi_cli.methods.base import EpochEnd, Events, MethodConfig, Parts, Standing, StepEnd
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
from vgi_cli.ranges import Epochs, Imputations

STEPS, FEWEST_EPOCHS = 4000, 5  # where no number of epochs is given

Objective = Callable[["GradientState", Batch, torch.Generator], Tensor]
"""Weighted sum of the objective over a batch, nats: scalar. Randomness comes from the generator."""
Refresh = Callable[["GradientState"], bool]
"""Before an epoch: set the imputations anew, or leave them. Does one piece of that work and says whether more is left:
then it is called again with `piece` counted up. Between two pieces a fit can stop, be saved and go on."""


class LikelihoodConfig(MethodConfig):
    """Settings of a method that climbs by gradients.

    epochs  passes over the rows; none: by N
    """

    epochs: Epochs | None = None
    optim: GradientConfig = GradientConfig()


class ImputingConfig(LikelihoodConfig):
    """The same for a method that keeps imputations.

    imputations  K
    chains       where the imputations live: `auto` (where they fit), `device`, `host` or `disk`; changes no result
    """

    imputations: Imputations = 5
    chains: Setting = "auto"


def no_refresh(state: GradientState) -> bool:
    """The imputations stay as they are."""
    return False


@final
class GradientState(ChainState):
    """See State and ChainState.

    keeps   whether the imputations are a part of the run
    work    what a refresh keeps from one piece to the next
    report  what a refresh says of itself: scalars, logged with the epoch that follows
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
        self.refreshed = -1  # the last epoch before which `refresh` has come to its end
        self.piece = 0  # pieces of the present refresh done
        self.work: dict[str, Tensor] = {}
        self.report: dict[str, Tensor] = {}
        self.filling: tuple[float, int] | None = None  # imputations made before the first epoch, and how many come

    def standing(self) -> Standing:
        """See State: where imputations are made before the first epoch, they are the first half."""
        if self.filling is None:
            return super().standing()
        done, count = self.filling
        if self.refreshed < -1:
            return Standing(0.5 * done / count, math.floor(done), count, "imputations")
        return Standing(0.5 + 0.5 * self.progress(), self.epoch, self.epochs, "epochs")

    def parts(self) -> Parts:
        """See State."""
        self.publish()
        state = {"counters": self.counters(), "total": self.total}
        state["refreshed"] = torch.tensor([self.refreshed, self.piece])
        state |= {f"work/{k}": v for k, v in self.work.items()} | {f"report/{k}": v for k, v in self.report.items()}
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
        self.refreshed, self.piece = state["refreshed"].tolist()
        device = self.chains.x.device
        self.work = {k: v.to(device) for k, v in prefixed(state, "work/").items()}
        self.report = {k: v.to(device) for k, v in prefixed(state, "report/").items()}
        if self.keeps:
            self.chains.values[:-1] = parts["imputations"]["values"]
        restore_optimiser("optim_theta", self.optim_theta, state)


def chains_of(table: TensorTable, config: LikelihoodConfig, room: MemoryBudget | None = None) -> Chains:
    """Chains of a table, all values 0: as many as the settings say, else one."""
    if isinstance(config, ImputingConfig):
        return make_chains(table, config.imputations, config.chains, room)
    return make_chains(table, 1, "device")


def run(state: GradientState) -> Events:
    """Climb, epoch after epoch. Yields after every whole step and every epoch."""
    while state.stage_epoch < state.epochs:
        while state.refreshed < state.stage_epoch:
            if state.refresh(state):
                state.piece += 1
                yield StepEnd()
            else:
                state.refreshed, state.piece = state.stage_epoch, 0
                state.work.clear()
        while state.position < state.batches:
            step(state)
            state.position += 1
            yield StepEnd()
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
    metrics |= {name: float(value) for name, value in state.report.items()}
    state.total.zero_()
    state.report.clear()
    state.stage_epoch, state.position = state.stage_epoch + 1, 0
    return EpochEnd(state.stage_epoch, metrics)


def log_likelihood(state: GradientState, batch: Batch, generator: torch.Generator) -> Tensor:
    """Weighted log-likelihood of the completed rows of a batch."""
    return (batch.weight * state.log_p(batch.x, batch.missing)).sum()
