"""HIVAE: an autoencoder whose prior is a mixture, fitted by the evidence lower bound of the observed cells with the
category relaxed (Nazábal et al. 2020; paper, section 6.3).

The bound is MVAE's with z and a category s as latents. s is a draw of the Gumbel-softmax, which the encoder of z, the
prior of z and the decoder see in place of a category. MVAE on the same model sums s out instead.
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor

from vgi_cli.chains.store.packed import Batch
from vgi_cli.data import TensorTable
from vgi_cli.methods.base import Method
from vgi_cli.methods.bounds.mvae import bound_state, normals, tune
from vgi_cli.methods.gradient import GradientState, run
from vgi_cli.methods.optimisation import AscentConfig
from vgi_cli.models.base import Model, Relaxable
from vgi_cli.ranges import Positive


class HivaeConfig(AscentConfig):
    """Settings of the relaxed bound.

    temperature  of the Gumbel-softmax (the authors' code: 0.5)
    """

    temperature: Positive = 0.5


def init(model: Model, table: TensorTable, config: HivaeConfig, generator: torch.Generator) -> GradientState:
    """State before the first step."""
    return bound_state(model, table, config, generator, relaxed_bound)


def relaxed_bound(state: GradientState, batch: Batch, generator: torch.Generator) -> Tensor:
    """Weighted relaxed ELBO of the observed cells of a batch, with one draw of s and z a row."""
    theta, temperature = cast(Relaxable, state.theta), cast(HivaeConfig, state.config).temperature
    noise = normals(theta, batch, generator)
    return (batch.weight * theta.relaxed_elbo(batch.x, noise, batch.missing, temperature)).sum()


METHOD = Method(Config=HivaeConfig, init=init, run=run, tune=tune, fixed={"prior": "mixture"})
