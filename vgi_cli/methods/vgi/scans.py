"""How many columns a step redraws together."""

from __future__ import annotations

from vgi_cli.chains.store.packed import Chains
from vgi_cli.errors import UsageError
from vgi_cli.methods.vgi.config import VgiConfig

BLOCKS_FROM = 64
"""Holes of an incomplete row, on average, from which `auto` redraws several columns together. So many holes need more
columns than that: on smaller tables nothing changes."""
PARTS, MOST = 10, 32
"""Then a row's holes are cut into so many parts, of at most so many columns (docs/benchmarks.md)."""


def moved_columns(config: VgiConfig, chains: Chains) -> int:
    """Columns of a row that one step of a chain redraws together."""
    blocks = config.scan == "block" or (config.scan == "auto" and _many(chains))
    return block_columns(config, chains) if blocks else 1


def block_columns(config: VgiConfig, chains: Chains) -> int:
    """Columns that one estimate of the objective redraws together: those of a block, or 1 without blocks."""
    if config.block_columns is not None:
        return min(config.block_columns, chains.layout.d)
    if config.scan == "block" or (config.scan == "auto" and _many(chains)):
        return min(MOST, max(1, int(_holes(chains)) // PARTS))
    return 1


def _holes(chains: Chains) -> float:
    """Mean number of missing data cells of an incomplete row."""
    return chains.C / max(len(chains.incomplete), 1) - chains.layout.L


def _many(chains: Chains) -> bool:
    return _holes(chains) >= BLOCKS_FROM


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
