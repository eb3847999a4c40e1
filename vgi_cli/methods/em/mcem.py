"""Monte-Carlo EM (Wei and Tanner 1990; paper, section 3.6, and its appendix for FA-Frey): imputations are exact draws
from p(x_mis | x_obs; theta) under the present model, and the model climbs the log-likelihood of the completed rows.

Drawn anew in every step, the paper's way, the gradient is an unbiased one of the log-likelihood of the observed cells
(Fisher's identity). Drawn before every epoch, it climbs the bound of the model of then, as EM does.
"""

from __future__ import annotations

from typing import Literal, cast

import torch
from torch import Tensor

from vgi_cli.chains.store.packed import Batch
from vgi_cli.data import TensorTable
from vgi_cli.maths.noise import KeyedNoise, numbered
from vgi_cli.methods.base import Method, Resources
from vgi_cli.methods.gradient import (
    GradientState,
    Objective,
    Refresh,
    chains_of,
    log_likelihood,
    no_refresh,
    refit,
    run,
)
from vgi_cli.methods.optimisation import ImputingConfig
from vgi_cli.methods.start import align_to_few, empirical, initial_rows
from vgi_cli.models.base import Marginal, Model

ROWS = 256
"""Rows whose conditionals are computed at a time: bounds their memory."""
PIECE = 4096
"""Rows that are drawn between two moments at which a fit can stop."""


class McemConfig(ImputingConfig):
    """Settings of Monte-Carlo EM.

    refresh  when imputations are drawn: those of a batch in every `step`, or all of them before every `epoch`
    """

    refresh: Literal["step", "epoch"] = "step"


def init(
    model: Model, table: TensorTable, config: McemConfig, generator: torch.Generator, resources: Resources | None = None
) -> GradientState:
    """State before the first step."""
    if config.refresh == "step":
        return imputing_state(model, table, config, generator, resources, draw_and_climb, no_refresh)
    return imputing_state(model, table, config, generator, resources, log_likelihood, draw_all)


def imputing_state(
    model: Model,
    table: TensorTable,
    config: ImputingConfig,
    generator: torch.Generator,
    resources: Resources | None,
    objective: Objective,
    refresh: Refresh,
) -> GradientState:
    """State of a Monte-Carlo EM: chains at f0, from which the model is initialised. A table without holes starts, and
    goes on, as in `complete`."""
    seed = int(torch.randint(2**62, (), generator=generator))
    chains = chains_of(table, config, None if resources is None else resources.memory)
    if chains.C:
        empirical(chains, torch.Generator().manual_seed(seed))
    model.initialise(initial_rows(chains, most=1).cpu(), generator)
    align_to_few(model, table, generator)
    return GradientState(model, chains, config, seed, objective, refresh=refresh, keeps=True)


def draw_and_climb(state: GradientState, batch: Batch, generator: torch.Generator) -> Tensor:
    """The objective of a batch whose imputations are drawn first."""
    if state.position == 0:
        state.draw_empty_rows()
    if len(batch.rows):
        fresh = exact_draws(state, batch.rows, generator)
        state.watch(fresh)
        state.chains.store(batch.rows, fresh)
        batch = batch._replace(x=torch.cat([fresh, batch.x[len(fresh) :]]))
    return log_likelihood(state, batch, generator)


def draw_all(state: GradientState) -> bool:
    """Draw the imputations of the next rows, before an epoch."""
    if state.piece == 0:
        state.draw_empty_rows()
    pieces = state.incomplete.split(PIECE)
    rows = pieces[state.piece]
    if len(rows):
        state.chains.store(rows, exact_draws(state, rows, state.generator(-2 - state.piece)))
    return state.piece + 1 < len(pieces)


@torch.no_grad()
def exact_draws(state: GradientState, rows: Tensor, generator: torch.Generator) -> Tensor:
    """Completed rows [B * K, D] (chains of a row next to each other) of table rows [B], drawn from p(x_mis | x_obs)
    under the model in training."""
    chains, theta = state.chains, cast(Marginal, state.theta)
    seed = int(torch.randint(2**62, (), generator=generator, device=generator.device))
    rows = rows.to(chains.x.device).repeat_interleave(chains.K)  # one call for all K: rows of a pattern share its work
    number = torch.arange(len(rows), device=rows.device)
    noise = KeyedNoise(seed, numbered("column", chains.x.shape[1]), number, number.new_zeros(1))
    theta.eval()
    drawn = []
    for index in number.split(ROWS * chains.K):
        conditional = theta.conditional(chains.x[rows[index]], chains.missing[rows[index]])
        drawn.append(conditional.sample(noise.select(rows=index))[0])
    theta.train()
    return torch.cat(drawn)


METHOD = Method(Config=McemConfig, init=init, run=run, refit=refit)
