"""MVAE: an autoencoder fitted by the evidence lower bound of the observed cells (Nazábal et al. 2020; Mattei and
Frellsen 2019; paper, section 6.3). Missing cells are integrated out of the decoder and hidden from the encoder.

    log p(x_obs) >= E_{z ~ q(z | x_obs)} [ log p(x_obs | z) ] - KL( q(z | x_obs) ‖ p(z) )
"""

from __future__ import annotations

import copy
from typing import cast

import torch
from torch import Tensor

from vgi_cli.chains.initial import empirical
from vgi_cli.chains.store.packed import Batch
from vgi_cli.data import TensorTable
from vgi_cli.methods.base import Events, Method
from vgi_cli.methods.gradient import GradientState, Objective, chains_of, run
from vgi_cli.methods.optimisation import AscentConfig
from vgi_cli.methods.start import initial_rows
from vgi_cli.models.base import Latent, Model, only_encoder

TUNING_RATE = 0.1
"""Learning rate of `tune`, in units of the fit's (the authors' code: 0.5, 0.1 and 0.05). Where tuning is short and
fast, an encoder that fits already only gets worse."""


def init(model: Model, table: TensorTable, config: AscentConfig, generator: torch.Generator) -> GradientState:
    """State before the first step."""
    return bound_state(model, table, config, generator, evidence_bound)


def bound_state(
    model: Model, table: TensorTable, config: AscentConfig, generator: torch.Generator, objective: Objective
) -> GradientState:
    """State of a method that climbs a bound of log p(x_obs). The holes are filled once, by draws from the marginals,
    for the model to start from; no objective looks at them."""
    seed = int(torch.randint(2**62, (), generator=generator))
    chains = chains_of(table, config)
    empirical(chains, generator)
    model.initialise(initial_rows(chains).cpu(), generator)
    return GradientState(model, chains, config, seed, objective, keeps=False)


def evidence_bound(state: GradientState, batch: Batch, generator: torch.Generator) -> Tensor:
    """Weighted ELBO of the observed cells of a batch, with one draw of z a row."""
    theta = cast(Latent, state.theta)
    q = theta.encode(batch.x, batch.missing)
    return (batch.weight * theta.elbo(batch.x, normals(theta, batch, generator), batch.missing, q)).sum()


def tune(
    state: GradientState, table: TensorTable, inside: Tensor, generator: torch.Generator, epochs: int
) -> tuple[GradientState, Events]:
    """The bound on other rows (see Method), which climbs in the encoder alone. Nothing is proposed, nothing boxed.

    Random numbers are the fit's own, the same at every call, so that two calls differ by their models and no more."""
    batch_size = state.batch_size_for(int((~table.missing.all(1)).sum()))
    tuning = {"lr": TUNING_RATE * state.lr, "batch_size": batch_size, "schedule": "cosine", "average": 0.0}
    optim = state.config.optim.model_copy(update=tuning)
    config = state.config.model_copy(update={"epochs": epochs, "optim": optim})
    theta = only_encoder(copy.deepcopy(state.model))
    tuned = GradientState(theta, chains_of(table, config), config, state.seed + 1, state.objective, keeps=False)
    return tuned, run(tuned)


def normals(theta: Latent, batch: Batch, generator: torch.Generator, *count: int) -> Tensor:
    """Standard normal noise [*count, R, L] for the latents of a batch."""
    x = batch.x
    return torch.randn(*count, len(x), theta.latents, generator=generator, dtype=x.dtype, device=x.device)


METHOD = Method(Config=AscentConfig, init=init, run=run, tune=tune)
