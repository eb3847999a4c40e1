"""Variational block-Gibbs inference (paper, section 3.4 and 6.3): Algorithm 1 (methods/vgi/vgi.py) with blocks.

On a model of data columns the blocks are those of the table. On a model with latents they are its latents and all
missing cells: VBGI-VAE.
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
from vgi_cli.models.base import Latent, Model


def check(family: type[Model], config: VgiConfig) -> None:
    """UsageError for settings that cannot work with a family."""
    if issubclass(family, Latent):
        check_blocks(config, "vbgi", False)
    else:
        vgi.check(family, config)


def target_of(family: type[Model], config: VgiConfig) -> Target:
    """The blocks of the table, or latents and missing cells."""
    return BlockLatents(marginal=False) if issubclass(family, Latent) else vgi.target_of(family, config)


def init(
    model: Model, table: TensorTable, config: VgiConfig, generator: torch.Generator, resources: Resources | None = None
) -> VgiState:
    """See `vgi.begin`."""
    check(type(model), config)
    return vgi.begin(model, table, config, generator, resources, target_of(type(model), config))


METHOD = Method(VgiConfig, init, vgi.run, check, target_of, finetune.tune)
