"""Autoencoders fitted by a bound of log p(x_obs) (paper, section 6.3). Missing cells are integrated out of the decoder
and hidden from the encoder; nothing is imputed.

MVAE (Nazábal et al. 2020; Mattei and Frellsen 2019) climbs the evidence lower bound

    log p(x_obs) >= E_{z ~ q(z | x_obs)} [ log p(x_obs | z) ] - KL( q(z | x_obs) ‖ p(z) ),

PartialVAE+ (Ma et al. 2019) the same with an encoder of the set of observed cells, which needs no value in the holes;
the encoder is a setting of the model, and the divergence counts little in the first steps (`warmed_bound`). MIWAE
(Mattei and Frellsen 2019; Burda et al. 2016) takes k draws of z, and its bound is tighter the more there are:

    log p(x_obs) >= E_{z_1 .. z_k ~ q(z | x_obs)} [ log 1/k sum_l p(x_obs | z_l) p(z_l) / q(z_l | x_obs) ].

HIVAE (Nazábal et al. 2020) has z and a category s as latents: s is a draw of the Gumbel-softmax, which the encoder of
z, the prior of z and the decoder see in place of a category. MVAE on the same model sums s out instead.
"""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, cast

import torch
from torch import Tensor

from vgi_cli.chains.store.packed import Batch
from vgi_cli.data import TensorTable
from vgi_cli.methods.base import Events, Method
from vgi_cli.methods.gradient import GradientState, Objective, chains_of, refit, run
from vgi_cli.methods.optimisation import AscentConfig
from vgi_cli.methods.start import empirical, initial_rows
from vgi_cli.models.base import Latent, Model, Relaxable, only_encoder
from vgi_cli.ranges import Draws, Positive

WARM_SHARE, WARM_STEPS = 0.1, 300
"""Share of all planned steps, and their number, after the first of which the divergence of `warmed_bound` counts in
full."""
TUNING_RATE = 0.1
"""Learning rate of `tune`, in units of the fit's (the authors' code: 0.5, 0.1 and 0.05). Where tuning is short and
fast, an encoder that fits already only gets worse."""


class MiwaeConfig(AscentConfig):
    """Settings of the importance-weighted bound.

    samples  k: draws of z for each row (the authors' code: 50)
    """

    samples: Draws = 50


class HivaeConfig(AscentConfig):
    """Settings of the relaxed bound.

    temperature  of the Gumbel-softmax (the authors' code: 0.5)
    """

    temperature: Positive = 0.5


def evidence_bound(state: GradientState, batch: Batch, generator: torch.Generator) -> Tensor:
    """Weighted ELBO of the observed cells of a batch, with one draw of z a row."""
    theta = cast(Latent, state.theta)
    q = theta.encode(batch.x, batch.missing)
    return (batch.weight * theta.elbo(batch.x, normals(theta, batch, generator), batch.missing, q)).sum()


def warmed_bound(state: GradientState, batch: Batch, generator: torch.Generator) -> Tensor:
    """As `evidence_bound`, but the divergence counts more and more, from nothing in the first step on: an encoder of
    sets that begins with little to say of a row is else pressed to say nothing, and the decoder learns to do without
    (Bowman et al. 2016)."""
    theta = cast(Latent, state.theta)
    q = theta.encode(batch.x, batch.missing)
    bound = theta.elbo(batch.x, normals(theta, batch, generator), batch.missing, q)
    steps = state.epoch * state.batches + state.position
    spared = max(1.0 - max(state.progress() / WARM_SHARE, steps / WARM_STEPS), 0.0)
    return (batch.weight * (bound + spared * q.kl(theta.prior))).sum()


def importance_bound(state: GradientState, batch: Batch, generator: torch.Generator) -> Tensor:
    """Weighted importance-weighted bound of the observed cells of a batch."""
    theta, k = cast(Latent, state.theta), cast(MiwaeConfig, state.config).samples
    q = theta.encode(batch.x, batch.missing)
    z = q.draw(normals(theta, batch, generator, k))
    joint = theta.observed_log_prob(batch.x, z, batch.missing)
    bound = (joint - q.log_prob(z)).logsumexp(0) - math.log(k)
    return (batch.weight * bound).sum()


def relaxed_bound(state: GradientState, batch: Batch, generator: torch.Generator) -> Tensor:
    """Weighted relaxed ELBO of the observed cells of a batch, with one draw of s and z a row."""
    theta, temperature = cast(Relaxable, state.theta), cast(HivaeConfig, state.config).temperature
    noise = normals(theta, batch, generator)
    return (batch.weight * theta.relaxed_elbo(batch.x, noise, batch.missing, temperature)).sum()


def normals(theta: Latent, batch: Batch, generator: torch.Generator, *count: int) -> Tensor:
    """Standard normal noise [*count, R, L] for the latents of a batch."""
    x, whole = batch.x, batch.whole
    R = len(x) if whole is None else whole.R
    noise = torch.randn(*count, R, theta.latents, generator=generator, dtype=x.dtype, device=x.device)
    return noise if whole is None else noise.index_select(-2, whole.own.to(x.device))


def tune(
    state: GradientState,
    table: TensorTable,
    inside: Tensor,
    generator: torch.Generator,
    epochs: int,
    *,
    objective: Objective,
) -> tuple[GradientState, Events]:
    """The bound on other rows (see Method), which climbs in the encoder alone. Nothing is proposed, nothing boxed.

    Random numbers are the fit's own, the same at every call, so that two calls differ by their models and no more."""
    batch_size = state.batch_size_for(len(table.used))
    tuning = {"lr": TUNING_RATE * state.lr, "batch_size": batch_size, "schedule": "cosine", "average": 0.0}
    optim = state.config.optim.model_copy(update=tuning)
    config = state.config.model_copy(update={"epochs": epochs, "optim": optim})
    theta = only_encoder(copy.deepcopy(state.model))
    tuned = GradientState(theta, chains_of(table, config), config, state.seed + 1, objective, keeps=False)
    return tuned, run(tuned)


def method(
    Config: type[AscentConfig],
    bound: Objective,
    fixed: Mapping[str, Any] = MappingProxyType({}),
    *,
    warmed: Objective | None = None,
) -> Method:
    """The method that climbs a bound. The holes are filled once, by draws from the marginals, for the model to start
    from; no bound looks at them. `warmed`: what a fit climbs in its place; what begins at a fit climbs the bound."""

    def init(model: Model, table: TensorTable, config: AscentConfig, generator: torch.Generator) -> GradientState:
        seed = int(torch.randint(2**62, (), generator=generator))
        chains = chains_of(table, config)
        empirical(chains, generator)
        model.initialise(initial_rows(chains).cpu(), generator)
        return GradientState(model, chains, config, seed, warmed or bound, keeps=False)

    tuned, refitted = functools.partial(tune, objective=bound), functools.partial(refit, objective=bound)
    return Method(Config, init, run, tune=tuned, refit=refitted, fixed=fixed)


MVAE = method(AscentConfig, evidence_bound)
PARTIAL_VAE = method(AscentConfig, evidence_bound, {"encoding": "set"}, warmed=warmed_bound)
MIWAE = method(MiwaeConfig, importance_bound)
HIVAE = method(HivaeConfig, relaxed_bound, {"prior": "mixture"})
