"""The conditionals that the settings of `vgi` describe."""

from __future__ import annotations

from vgi_cli.conditionals.amortised import AmortisedConditionals
from vgi_cli.conditionals.families import FAMILIES
from vgi_cli.conditionals.families.base import FamilySettings
from vgi_cli.conditionals.networks.heads import SKIP_UP_TO, HeadNetwork
from vgi_cli.conditionals.networks.modulated import ModulatedNetwork
from vgi_cli.conditionals.networks.trunk import BlockNetwork
from vgi_cli.layout import Blocks, Layout
from vgi_cli.methods.vgi.config import Layout as Networks
from vgi_cli.methods.vgi.config import VgiConfig


def build_conditionals(config: VgiConfig, layout: Layout) -> AmortisedConditionals:
    """The conditionals that the settings describe, one for each block; parameters not yet initialised. UsageError for
    blocks and a family that has no joint law."""
    partition = layout.partition
    kind = FAMILIES[config.conditional].load()
    settings = FamilySettings(config.spline_steps, config.spline_bins)
    family = kind.build(settings) if partition.W == 1 else kind.of_blocks(partition.W, settings)
    network = _network(config, partition, family.width)
    return AmortisedConditionals(family, network, extended=config.kernel == "extended", partition=partition)


def layout_of(config: VgiConfig, D: int) -> Networks:
    """The layout of the networks for D columns."""
    return ("modulated" if D > SKIP_UP_TO else "shared") if config.layout == "auto" else config.layout


def _network(config: VgiConfig, partition: Blocks, width: int) -> BlockNetwork:
    """The network of the named layout for the blocks, each with `width` parameters, of which the first are locations of
    its columns."""
    layout = layout_of(config, partition.D)
    if layout == "modulated":
        return ModulatedNetwork(partition.S, width, config.trunk, config.hidden, partition.D, partition.W)
    trunk = () if layout == "independent" else config.trunk
    return HeadNetwork(partition.S, width, trunk, config.hidden, partition.D, partition.W)
