"""The conditionals that the settings of `vgi` describe."""

from __future__ import annotations

from vgi_cli.conditionals.amortised import AmortisedConditionals
from vgi_cli.conditionals.base import BlockNetwork, OfColumns
from vgi_cli.conditionals.blocks import BlockConditionals
from vgi_cli.conditionals.families.joint import JointFamily
from vgi_cli.conditionals.families.names import make_family
from vgi_cli.conditionals.networks.heads import SKIP_UP_TO, HeadNetwork
from vgi_cli.conditionals.networks.modulated import ModulatedNetwork
from vgi_cli.layout import Layout
from vgi_cli.methods.vgi.config import Layout as Networks
from vgi_cli.methods.vgi.config import VgiConfig


def build_conditionals(config: VgiConfig, layout: Layout) -> OfColumns:
    """The conditionals that the settings describe, one for each block; parameters not yet initialised."""
    extended = config.kernel == "extended"
    D, partition = layout.D, layout.partition
    if partition.W == 1:
        family = make_family(config.conditional, steps=config.spline_steps, bins=config.spline_bins)
        return AmortisedConditionals(family, _network(config, D, D, family.width), extended=extended)
    joint = JointFamily(partition.W, config.spline_steps if config.conditional == "spline" else 0, config.spline_bins)
    network = _network(config, partition.S, D, joint.width, partition.W)
    return BlockConditionals(partition, joint, network, extended=extended)


def layout_of(config: VgiConfig, D: int) -> Networks:
    """The layout of the networks for D columns."""
    return ("modulated" if D > SKIP_UP_TO else "shared") if config.layout == "auto" else config.layout


def _network(config: VgiConfig, S: int, D: int, width: int, locations: int = 1) -> BlockNetwork:
    """The network of the named layout for S blocks of D columns, each with `width` parameters, locations first."""
    layout = layout_of(config, D)
    if layout == "modulated":
        return ModulatedNetwork(S, width, config.trunk, config.hidden, D, locations)
    trunk = () if layout == "independent" else config.trunk
    return HeadNetwork(S, width, trunk, config.hidden, D, locations)
