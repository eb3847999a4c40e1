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
            layout = state.chains.layout
            rate = (tally["accepted"] / tally["tried"])[state.q.block_of]  # a column has the rate of its block
            metrics["acceptance"] = [_shown(r) for r in layout.of_columns(rate).tolist()]
            if rate.shape[0] > layout.d:
                metrics["acceptance_latents"] = _shown(float(rate[layout.d]))  # they are one block
    for value in state.tally.values():
        value.zero_()
    state.stage_epoch, state.position = state.stage_epoch + 1, 0
    return EpochEnd(state.stage_epoch, metrics)


def _shown(rate: float) -> float | None:
    """A rate as it is logged; None where nothing was tried."""
    return None if rate != rate else round(rate, 4)
