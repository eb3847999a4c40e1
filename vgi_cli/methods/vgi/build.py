"""What the settings of `vgi` describe: the conditionals, how chains move, and how many columns are redrawn together."""

from __future__ import annotations

from typing import NamedTuple

from vgi_cli.chains.moves import Moves
from vgi_cli.chains.store.packed import Chains
from vgi_cli.conditionals.amortised import AmortisedConditionals, Levels
from vgi_cli.conditionals.base import Conditionals
from vgi_cli.conditionals.families.base import Family, FamilySettings
from vgi_cli.conditionals.families.joint import JointFamily
from vgi_cli.conditionals.families.levels import LevelHeads
from vgi_cli.conditionals.families.location import BlockLevels
from vgi_cli.conditionals.latent_columns import ColumnsGivenLatents
from vgi_cli.conditionals.networks.heads import SKIP_UP_TO, HeadNetwork
from vgi_cli.conditionals.networks.modulated import ModulatedNetwork
from vgi_cli.conditionals.networks.trunk import BlockNetwork
from vgi_cli.errors import UsageError
from vgi_cli.layout import Blocks, Layout
from vgi_cli.maths.indicators import Indicators
from vgi_cli.methods.vgi.config import Layout as Networks
from vgi_cli.methods.vgi.config import VgiConfig
from vgi_cli.methods.vgi.objective import Estimate
from vgi_cli.registry.names import FAMILIES

BLOCKS_FROM = 64
"""Holes of an incomplete row, on average, from which `auto` redraws several columns together. So many holes need more
columns than that: on smaller tables nothing changes."""
PARTS, MOST = 10, 32
"""Then a row's holes are cut into so many parts, of at most so many columns (docs/research/benchmarks.md)."""


def build_conditionals(config: VgiConfig, layout: Layout) -> AmortisedConditionals:
    """The conditionals that the settings describe, one for each block; parameters not yet initialised. UsageError for
    blocks and a family that has no joint law, or none with levels."""
    partition, counts = layout.partition, layout.level_counts
    kind = FAMILIES.load(config.conditional)
    settings = FamilySettings(config.spline_steps, config.spline_bins)
    family = kind.build(settings) if partition.W == 1 else kind.of_blocks(partition.W, settings)
    extended = config.kernel == "extended"
    if not layout.discrete:
        network = _network(config, partition, Heads(partition.D, family.width, partition.W))
        return AmortisedConditionals(family, network, extended=extended, partition=partition)
    inputs = Indicators(counts).F
    laws: LevelHeads | BlockLevels
    if isinstance(family, Family):
        laws = LevelHeads(layout)
        heads = Heads(inputs, max(family.width, laws.width), laws.width)
    elif isinstance(family, JointFamily):
        laws = BlockLevels(family, layout)
        heads = Heads(inputs, laws.width, laws.locations)
    else:
        raise UsageError(
            f"method.conditional={config.conditional} has no joint law of numbers and levels",
            "leave out the blocks, or take method.conditional=gaussian",
        )
    network = _network(config, partition, heads)
    return AmortisedConditionals(family, network, extended=extended, partition=partition, levels=Levels(counts, laws))


def conditionals_given_latents(config: VgiConfig, layout: Layout, L: int) -> ColumnsGivenLatents:
    """Those of single columns that see the row and L latents after it, in augmented rows; parameters not yet
    initialised. There are none of the latents: the network has a head for each data column only."""
    wide = layout.with_latents(L)
    family = FAMILIES.load(config.conditional).build(FamilySettings(config.spline_steps, config.spline_bins))
    columns, partition = Blocks.columns(layout.d), Blocks.columns(wide.D)
    extended = config.kernel == "extended"
    if not layout.discrete:
        network = _network(config, columns, Heads(wide.D, family.width, 1))
        return ColumnsGivenLatents(family, network, extended=extended, partition=partition)
    counts, laws = wide.level_counts, LevelHeads(wide)
    heads = Heads(Indicators(counts).F, max(family.width, laws.width), laws.width)
    levels = Levels(counts, laws)
    network = _network(config, columns, heads)
    return ColumnsGivenLatents(family, network, extended=extended, partition=partition, levels=levels)


class Heads(NamedTuple):
    """What a network gives for a block: `width` parameters, of which the first ones are locations, from so many
    `inputs`."""

    inputs: int
    width: int
    locations: int


def layout_of(config: VgiConfig, D: int) -> Networks:
    """The layout of the networks for D columns."""
    return ("modulated" if D > SKIP_UP_TO else "shared") if config.layout == "auto" else config.layout


def _network(config: VgiConfig, partition: Blocks, heads: Heads) -> BlockNetwork:
    """The network of the named layout for the blocks."""
    layout, (inputs, width, locations) = layout_of(config, partition.D), heads
    if layout == "modulated":
        return ModulatedNetwork(partition.S, width, config.trunk, config.hidden, inputs, locations)
    trunk = () if layout == "independent" else config.trunk
    return HeadNetwork(partition.S, width, trunk, config.hidden, inputs, locations)


def moves_of(config: VgiConfig, q: Conditionals, chains: Chains) -> tuple[Moves, Estimate]:
    """How the chains move, and what an estimate of the objective redraws: several columns at a time only where the
    conditionals are of single ones."""
    metropolis = config.accept == "metropolis"
    moves = Moves(metropolis, metropolis and config.scan == "path", config.gibbs_steps)
    estimate = Estimate(config.blocks_per_row)
    if not q.flat:
        return moves, estimate
    if q.mixed:
        if config.scan == "block" or config.block_columns not in (None, 1):
            raise UsageError(
                "method.scan=block and method.block_columns redraw columns together, and those of levels are redrawn "
                "one at a time",
                "leave them out (--block A,B names columns that are redrawn together, by a joint law)",
            )
        return moves, estimate
    holes = chains.C / max(len(chains.incomplete), 1) - chains.layout.L  # a mean over incomplete rows, of data cells
    blocks = config.scan == "block" or (config.scan == "auto" and holes >= BLOCKS_FROM)
    B = min(MOST, max(1, int(holes) // PARTS)) if blocks else 1
    if config.block_columns is not None:
        B = min(config.block_columns, chains.layout.d)
    return moves._replace(B=B if blocks else 1), estimate._replace(B=B)


def check_scan(config: VgiConfig) -> None:
    """UsageError for moves of single columns where the conditionals are of blocks."""
    for key, (value, only) in {
        "scan": (config.scan, ("auto", "step", "path")),
        "block_columns": (config.block_columns, (None, 1)),
    }.items():
        if value not in only:
            raise UsageError(
                f"method.{key}={value} moves single columns, and here columns are redrawn in blocks by a joint law",
                f"leave out method.{key}, or the blocks",
            )
