"""VBGI-VAE-M (paper, section 6.3): block-Gibbs inference on a model with latents whose decoder integrates the missing
cells out. What climbs is the ELBO of the observed cells; the encoder sees imputations, which the decoder draws.
"""

from __future__ import annotations

import torch

from vgi_cli.data import TensorTable
from vgi_cli.methods.base import Method, Resources
from vgi_cli.methods.vgi import finetune, vgi
from vgi_cli.methods.vgi.config import VgiConfig
from vgi_cli.methods.vgi.latent_targets import BlockLatents, check_blocks
from vgi_cli.methods.vgi.state import VgiState
from vgi_cli.methods.vgi.targets import Target
from vgi_cli.models.base import Model


def check(family: type[Model], config: VgiConfig) -> None:
    """UsageError for settings that mean nothing here."""
    check_blocks(config, "vbgi-m", True)


def target_of(family: type[Model], config: VgiConfig) -> Target:
    """Latents and missing cells, the latter marginalised."""
    return BlockLatents(marginal=True)


def init(
    model: Model, table: TensorTable, config: VgiConfig, generator: torch.Generator, resources: Resources | None = None
) -> VgiState:
    """See `vgi.begin`."""
    check(type(model), config)
    return vgi.begin(model, table, config, generator, resources, target_of(type(model), config))


METHOD = Method(VgiConfig, init, vgi.run, check, target_of, finetune.tune)
