"""Variational block-Gibbs inference (paper, sections 3.4 and 6.3): Algorithm 1 (methods/vgi/vgi.py) with blocks.

On a model of data columns the blocks are those of the table. On a model with latents they are its latents and all
missing cells: VBGI-VAE. VBGI-VAE-M integrates the missing cells out of the decoder: what climbs is the ELBO of the
observed cells; the encoder sees imputations, which the decoder draws.
"""

from __future__ import annotations

from vgi_cli.methods.vgi import vgi
from vgi_cli.methods.vgi.config import VgiConfig
from vgi_cli.methods.vgi.latent_targets import BlockLatents, check_blocks
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


def check_marginal(family: type[Model], config: VgiConfig) -> None:
    """UsageError for settings that mean nothing where the missing cells are integrated out."""
    check_blocks(config, "vbgi-m", True)


def marginal_target(family: type[Model], config: VgiConfig) -> Target:
    """Latents and missing cells, the latter marginalised."""
    return BlockLatents(marginal=True)


VBGI = vgi.variant(check, target_of)
VBGI_M = vgi.variant(check_marginal, marginal_target)
