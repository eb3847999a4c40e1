"""The end of an epoch of Algorithms 1 and 6, and the step up an objective."""

from __future__ import annotations

import torch
from torch import Tensor

from vgi_cli.methods import optimisation
from vgi_cli.methods.base import EpochEnd
from vgi_cli.methods.chain_state import Stage, draw_empty_rows
from vgi_cli.methods.vgi.state import VgiState


def ascend(state: VgiState, objective: Tensor, *optimisers: torch.optim.Optimizer) -> None:
    """One gradient step up the objective with each optimiser."""
    optimisation.ascend(objective, state.config.optim.clip, *optimisers)


def end_epoch(state: VgiState) -> EpochEnd:
    """Close an epoch: metrics of it, counters to the next."""
    tally = {name: value / (state.batches if name == "objective" else 1) for name, value in state.tally.items()}
    metrics: dict[str, object] = {"stage": state.stage.name.lower(), "objective": float(tally["objective"])}
    state.publish()
    if state.stage >= Stage.MAIN:
        draw_empty_rows(state)
        if len(state.incomplete):
            rate = (tally["accepted"] / tally["tried"])[state.q.block_of]  # a column has the rate of its block
            rates = [None if r != r else round(r, 4) for r in rate.tolist()]
            d = state.chains.x.shape[1] - state.target.latents(state.theta)
            metrics["acceptance"] = rates[:d]
            if len(rates) > d:
                metrics["acceptance_latents"] = rates[d]  # they are one block
    for value in state.tally.values():
        value.zero_()
    state.stage_epoch, state.position = state.stage_epoch + 1, 0
    return EpochEnd(state.stage_epoch, metrics)
