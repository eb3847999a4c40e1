"""Gradient ascent on an objective of one batch after the other: what the methods without conditionals have in common.

A method hands in the objective of a batch, and where it has imputations, how they are refreshed. The simplest is here:
`complete`, maximum likelihood on a complete table, the yardstick of every method for holes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, final

import torch
from torch import Tensor

from vgi_cli.chains.store.packed import Batch, Chains, make_chains
from vgi_cli.chains.store.placement import MemoryBudget
from vgi_cli.completers.base import never
from vgi_cli.data import TensorTable
from vgi_cli.errors import UsageError
from vgi_cli.methods.base import Events, Method, Standing, StepEnd, Tuning
from vgi_cli.methods.loop import LoopState, Stage, batches, epochs, refit_config
from vgi_cli.methods.optimisation import AscentConfig, ImputingConfig, ascend, prefixed
from vgi_cli.methods.reweighted import Reweighted
from vgi_cli.methods.start import align_to_few
from vgi_cli.models.base import Model

Objective = Callable[["GradientState", Batch, torch.Generator], Tensor]
"""Weighted sum of the objective over a batch, nats: scalar. Randomness comes from the generator."""
Refresh = Callable[["GradientState"], bool]
"""Before an epoch: set the imputations anew, or leave them. Does one piece of that work and says whether more is left:
then it is called again with `piece` counted up. Between two pieces a fit can stop, be saved and go on."""


def no_refresh(state: GradientState) -> bool:
    """The imputations stay as they are."""
    return False


@final
class GradientState(LoopState):
    """What a method keeps that hands in its objective.

    refreshed  the last epoch before which `refresh` has come to its end
    piece      pieces of the present refresh done
    work       what a refresh keeps from one piece to the next
    report     what a refresh says of itself: scalars, logged with the epoch that follows
    filling    imputations made before the first epoch, and how many come
    """

    def __init__(
        self,
        theta: Model,
        chains: Chains,
        config: AscentConfig,
        seed: int,
        objective: Objective,
        *,
        refresh: Refresh = no_refresh,
        keeps: bool,
        filling: int = 0,
    ) -> None:
        """`filling`: how many imputations the method makes before the first epoch."""
        super().__init__(theta, chains, config, seed, Stage.MAIN, keeps=keeps)
        self.config = config
        self.objective = objective
        self.refresh = refresh
        self.refreshed = -1 - filling  # counts up to -1, the value before the first epoch
        self.piece = 0
        self.work: dict[str, Tensor] = {}
        self.report: dict[str, Tensor] = {}
        self.filling = (0.0, filling)

    def standing(self) -> Standing:
        """Where imputations are made before the first epoch, they are the first half."""
        done, count = self.filling
        if count == 0:
            return super().standing()
        if self.refreshed < -1:
            return Standing(0.5 * done / count, math.floor(done), count, "imputations")
        return Standing(0.5 + 0.5 * self.progress(), self.epoch, self.epochs, "epochs")

    def close_epoch(self) -> dict[str, Any]:
        metrics = {"objective": float(self.total) / self.batches}
        metrics |= {name: float(value) for name, value in self.report.items()}
        self.report.clear()
        return metrics

    def more(self) -> dict[str, Tensor]:
        work, report = (
            {f"{p}/{k}": v for k, v in d.items()} for p, d in [("work", self.work), ("report", self.report)]
        )
        return {"refreshed": torch.tensor([self.refreshed, self.piece]), **work, **report}

    def restore_more(self, state: Mapping[str, Tensor]) -> None:
        self.refreshed, self.piece = state["refreshed"].tolist()
        device = self.chains.x.device
        self.work = {k: v.to(device) for k, v in prefixed(state, "work/").items()}
        self.report = {k: v.to(device) for k, v in prefixed(state, "report/").items()}


def chains_of(table: TensorTable, config: AscentConfig, memory: MemoryBudget | None = None) -> Chains:
    """Chains of a table, all values 0: as many as the settings say, else one."""
    if isinstance(config, ImputingConfig):
        return make_chains(table, config.imputations, config.chains, memory)
    return make_chains(table, 1, "device")


def run(state: GradientState, stop: Callable[[], bool] = never) -> Events:
    """Climb, epoch after epoch."""
    optim = state.config.optim
    for _ in epochs(state, Stage.MAIN):
        yield from _refreshed(state)
        for batch in batches(state):
            with state.healing(batch):
                state.set_rates()
                if state.keeps:
                    state.watch(batch.x[: len(batch.rows) * state.chains.K])
                g = state.step_generator()
                objective = state.objective(state, batch, g) if len(batch.x) else batch.x.new_zeros(())
                state.total += ascend(objective, optim.clip, state.optim_theta, ranks=state.ranks)
                state.average(optim.average)
            yield state.step_end()
        yield state.epoch_end()


def _refreshed(state: GradientState) -> Events:
    """The pieces that are left of what comes before this epoch."""
    while state.refreshed < state.stage_epoch:
        if state.refresh(state):
            state.piece += 1
            yield StepEnd()
        else:
            state.refreshed, state.piece = state.stage_epoch, 0
            state.work.clear()


def refit(state: GradientState, of: Reweighted, objective: Objective | None = None) -> Tuning:
    """A refit with weights (see Method), by an objective; None: by that of the fit."""
    config, chains = refit_config(state.config, of, state.lr), state.chains_for(of)
    theta, refresh, objective = state.model_for(of), state.refresh, objective or state.objective
    short = GradientState(theta, chains, config, of.seed, objective, refresh=refresh, keeps=False)
    short.row_weight = of.weight.to(chains.x)
    short.divide(state.ranks)
    return short, run(short)


def log_likelihood(state: GradientState, batch: Batch, generator: torch.Generator) -> Tensor:
    """Weighted log-likelihood of the completed rows of a batch."""
    return (batch.weight * state.theta.log_prob(batch.x)).sum()


def check_complete(table: TensorTable) -> None:
    """UsageError where a cell is missing."""
    holes = int(torch.count_nonzero(table.missing))
    if holes:
        raise UsageError(
            f"method 'complete' fits complete tables, and {holes:,} cells of this one are missing",
            "leave out --method, or take --method vgi or impute-then-fit",
        )


def init_complete(model: Model, table: TensorTable, config: AscentConfig, generator: torch.Generator) -> GradientState:
    """State before the first step. Raises UsageError as `check_complete`."""
    check_complete(table)
    seed = int(torch.randint(2**62, (), generator=generator))
    model.initialise(table.x.cpu(), generator)
    align_to_few(model, table, generator)
    return GradientState(model, chains_of(table, config), config, seed, log_likelihood, keeps=False)


COMPLETE = Method(Config=AscentConfig, init=init_complete, run=run, refit=refit, check_table=check_complete)
