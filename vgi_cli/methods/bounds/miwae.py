"""MIWAE: an autoencoder fitted by the importance-weighted bound of the observed cells (Mattei and Frellsen 2019; Burda
et al. 2016; paper, section 6.3): MVAE's bound with k draws of z, and tighter the more there are.

    log p(x_obs) >= E_{z_1 .. z_k ~ q(z | x_obs)} [ log 1/k sum_l p(x_obs | z_l) p(z_l) / q(z_l | x_obs) ]
"""

from __future__ import annotations

import math
from typing import cast

import torch
from torch import Tensor

from vgi_cli.chains.store.packed import Batch
from vgi_cli.data import TensorTable
from vgi_cli.methods.base import Method
from vgi_cli.methods.bounds.mvae import bound_state, normals, tune
from vgi_cli.methods.gradient import GradientState, run
from vgi_cli.methods.optimisation import AscentConfig
from vgi_cli.models.base import Latent, Model
from vgi_cli.ranges import Draws


class MiwaeConfig(AscentConfig):
    """Settings of the importance-weighted bound.

    samples  k: draws of z for each row (the authors' code: 50)
    """

    samples: Draws = 50


def init(model: Model, table: TensorTable, config: MiwaeConfig, generator: torch.Generator) -> GradientState:
    """State before the first step."""
    return bound_state(model, table, config, generator, importance_bound)


def importance_bound(state: GradientState, batch: Batch, generator: torch.Generator) -> Tensor:
    """Weighted importance-weighted bound of the observed cells of a batch."""
    theta, k = cast(Latent, state.theta), cast(MiwaeConfig, state.config).samples
    q = theta.encode(batch.x, batch.missing)
    z = q.draw(normals(theta, batch, generator, k))
    joint = theta.observed_log_prob(batch.x, z, batch.missing)
    bound = (joint - q.log_prob(z)).logsumexp(0) - math.log(k)
    return (batch.weight * bound).sum()


METHOD = Method(Config=MiwaeConfig, init=init, run=run, tune=tune)
