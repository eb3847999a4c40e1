"""Which columns a visit of a row redraws: how many together, how they move, and how often each has its turn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from vgi_cli.chains.store import Chains
from vgi_cli.errors import UsageError
from vgi_cli.methods.vgi_config import VgiConfig

BLOCKS_FROM = 64
"""Holes of an incomplete row, on average, from which `auto` redraws several columns together. So many holes need more
columns than that: on smaller tables nothing changes."""
PARTS, MOST = 10, 32
"""Then a row's holes are cut into so many parts, of at most so many columns (docs/benchmarks.md)."""
SELDOM = 0.05
"""`adaptive`: a column is accepted at least so often for the weights, which bounds them."""


class Moves(NamedTuple):
    """What is redrawn at each step of a sweep, and how.

    columns   B: columns of a row that are redrawn together
    relax     alpha of `conditionals.base.Move`
    weighted  columns are chosen in proportion to weights instead of uniformly
    """

    columns: int = 1
    relax: float = 0.0
    weighted: bool = False

    @property
    def together(self) -> bool:
        """Whether the sweeps of `chains/blocks.py` serve: more general than those of `chains/sweeps.py`, and slower."""
        return self.columns > 1 or self.relax != 0 or self.weighted


SINGLE = Moves()


def moves_of(config: VgiConfig, chains: Chains, latents: int = 0) -> Moves:
    """How the settings have the chains of a table move; `latents` of the columns come after the data."""
    blocks = config.scan == "block" or (config.scan == "auto" and _many(chains, latents))
    columns = block_columns(config, chains, latents) if blocks else 1
    return Moves(columns, config.relax, config.visit == "adaptive")


def block_columns(config: VgiConfig, chains: Chains, latents: int = 0) -> int:
    """Columns that one estimate of the objective redraws together: those of a block, or 1 without blocks."""
    if config.block_columns is not None:
        return min(config.block_columns, chains.x.shape[1] - latents)
    if config.scan == "block" or (config.scan == "auto" and _many(chains, latents)):
        return min(MOST, max(1, int(_holes(chains, latents)) // PARTS))
    return 1


def _holes(chains: Chains, latents: int) -> float:
    """Mean number of missing data cells of an incomplete row."""
    return chains.C / max(len(chains.incomplete), 1) - latents


def _many(chains: Chains, latents: int) -> bool:
    return _holes(chains, latents) >= BLOCKS_FROM


def check_scan(config: VgiConfig) -> None:
    """UsageError for moves of single columns where the conditionals are of blocks."""
    for key, (value, only) in {
        "scan": (config.scan, ("auto", "step", "path")),
        "block_columns": (config.block_columns, (None, 1)),
        "relax": (config.relax, (0.0,)),
        "visit": (config.visit, ("uniform",)),
    }.items():
        if value not in only:
            raise UsageError(
                f"method.{key}={value} moves single columns, and here columns are redrawn in blocks by a joint law",
                f"leave out method.{key}, or the blocks",
            )


class Visits:
    """Weights of the columns in an adaptive scan: the inverse of the share of a column's moves that were accepted.

    So each column gets about the same number of accepted moves. Weights change between epochs only, and less and less:
    they go by all epochs so far, which the chains of an adaptive sampler need (Roberts and Rosenthal 2007).

    weights  [D], changed in place; None where the scan is uniform
    """

    def __init__(self, weighted: bool, like: Tensor) -> None:
        """like [D]: precision and device."""
        self.counts = {"visits_tried": torch.zeros_like(like), "visits_accepted": torch.zeros_like(like)}
        self.weights = torch.ones_like(like) if weighted else None

    def learn(self, tried: Tensor, accepted: Tensor) -> None:
        """Take in the tallies [D] of an epoch."""
        if self.weights is None:
            return
        self.counts["visits_tried"] += tried
        self.counts["visits_accepted"] += accepted
        self._weigh(self.weights)

    def tensors(self) -> dict[str, Tensor]:
        """What a checkpoint keeps: nothing where the scan is uniform."""
        return {} if self.weights is None else dict(self.counts)

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Take up what `tensors` gave."""
        if self.weights is not None:
            for name, count in self.counts.items():
                count.copy_(tensors[name])
            self._weigh(self.weights)

    def _weigh(self, weights: Tensor) -> None:
        tried, accepted = self.counts.values()
        rate = (accepted + 1.0) / (tried + 1.0)
        weights.copy_(1.0 / rate.clamp(min=SELDOM))
