"""How chains move, and how many columns a step redraws together."""

from __future__ import annotations

from vgi_cli.chains.moves import Moves
from vgi_cli.chains.store.packed import Chains
from vgi_cli.conditionals.base import Conditionals
from vgi_cli.errors import UsageError
from vgi_cli.methods.vgi.config import VgiConfig
from vgi_cli.methods.vgi.objective import Estimate

BLOCKS_FROM = 64
"""Holes of an incomplete row, on average, from which `auto` redraws several columns together. So many holes need more
columns than that: on smaller tables nothing changes."""
PARTS, MOST = 10, 32
"""Then a row's holes are cut into so many parts, of at most so many columns (docs/benchmarks.md)."""


def moves_of(config: VgiConfig, q: Conditionals, chains: Chains) -> tuple[Moves, Estimate]:
    """How the chains move, and what an estimate of the objective redraws: several columns at a time only where the
    conditionals are of single ones."""
    metropolis = config.accept == "metropolis"
    moves = Moves(metropolis, metropolis and config.scan == "path", config.gibbs_steps)
    estimate = Estimate(config.blocks_per_row)
    if not q.flat:
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
