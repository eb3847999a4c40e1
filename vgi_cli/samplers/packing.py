"""Chains in packs of fixed size.

Draws × incomplete rows are sorted, so that the chains of a pack end together, and cut into packs of exactly PACK
chains, zero-padded, so that rounding cannot depend on the batch. On a GPU, where a small pack takes as long as a large
one, packs are larger, of a size that the number of columns alone decides.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from vgi_cli.maths.noise import KeyedNoise, mix64
from vgi_cli.samplers.base import ROW_BLOCK, Box, Imputer

PACK = 512
LARGEST_PACK = 8192
FACTORS = 2**23
"""Of a GPU: the largest pack, and cells of the matrices of one of its mixtures' components that a pack has at most."""
PACKS = 32
"""So many packs of chains are sorted together at most: enough for packs whose chains are alike, and for a last pack
that is full."""
FEWEST_PACKS = 8
"""Of large packs, at most."""


class PackedImputer(Imputer):
    """An imputer that runs a chain for every draw and row, in packs; the draws of a row are compared with each other.

    columns  of the rows, once `prepare` was called
    """

    parallel = True
    columns: tuple[str, ...] = ()

    def prepare(self, missing: Tensor, noise: KeyedNoise, box: Box) -> None:
        self.columns = noise.columns

    def apart(self, draws: Tensor) -> list[Tensor]:
        return [torch.arange(len(draws))]

    def rows_at_once(self, draws: int, x: Tensor) -> int:
        size = pack_size(x)
        chains = size * (PACKS if size == PACK else FEWEST_PACKS)
        return max(1, chains // max(draws, 1) // ROW_BLOCK) * ROW_BLOCK


def pack_size(x: Tensor) -> int:
    """PACK for rows x [.., D]: 512 on a CPU; on a GPU a power of two up to LARGEST_PACK."""
    if x.device.type == "cpu":
        return PACK
    size = LARGEST_PACK
    while size > PACK and size * x.shape[-1] ** 2 > FACTORS:
        size //= 2
    return size


class ImputingChains(NamedTuple):
    """Q chains, one for every draw of every row with a hole.

    x        [Q, D] first states
    missing  [Q, D]
    noise    randomness of these chains: one draw, one row key a chain
    draw     [Q] index of each chain's draw
    row      [Q] index of each chain's row
    """

    x: Tensor
    missing: Tensor
    noise: KeyedNoise
    draw: Tensor
    row: Tensor


class Pack(NamedTuple):
    """PACK chains; only the first `real` are real, the others are complete rows of zeros.

    x        [PACK, D] states
    missing  [PACK, D]
    noise    randomness of these chains
    real     number of real chains
    row      [PACK] index of each chain's row, -1 of a complete row of zeros; chains of one row have the same observed
             cells
    """

    x: Tensor
    missing: Tensor
    noise: KeyedNoise
    real: int
    row: Tensor


def chains_of(states: Tensor, missing: Tensor, noise: KeyedNoise) -> ImputingChains:
    """The chains of all (draw, row) with a hole, few holes first; states [n, R, D] completed rows, missing [R, D].

    The key of a chain is made of the keys of its row and its draw: a chain's randomness is the same in any pack.
    """
    n = states.shape[0]
    holes = missing.sum(1)
    rows = torch.argsort(holes, stable=True)
    rows = rows[holes[rows] > 0]
    row = rows.repeat_interleave(n)
    draw = torch.arange(n, device=row.device).repeat(len(rows))
    keys = mix64(noise.rows.to(row.device)[row] ^ mix64(noise.draws.to(row.device)[draw] + 1))
    one = torch.zeros(1, dtype=torch.int64, device=row.device)
    own = KeyedNoise(noise.seed, noise.columns, keys, one, f"{noise.purpose}/chains")
    return ImputingChains(states[draw, row], missing[row], own, draw, row)


def packed(chains: ImputingChains) -> Iterator[tuple[Tensor, tuple[float, float]]]:
    """The chains of each pack, and which share of all came before and is in it."""
    Q = len(chains.row)
    for index in torch.arange(Q, device=chains.row.device).split(pack_size(chains.x)):
        before = 0.0 if len(index) == 0 else int(index[0]) / Q
        yield index, (before, len(index) / max(Q, 1))


def pack_of(chains: ImputingChains, x: Tensor, index: Tensor) -> Pack:
    """The pack of at most PACK chains `index`, in the states x [Q, D]."""
    size = pack_size(x)
    keys = padded(chains.noise.rows[index], size)
    own = KeyedNoise(chains.noise.seed, chains.noise.columns, keys, chains.noise.draws, chains.noise.purpose)
    row = padded(chains.row[index] + 1, size) - 1
    return Pack(padded(x[index], size), padded(chains.missing[index], size), own, len(index), row)


def padded(values: Tensor, lines: int) -> Tensor:
    """So many lines: those of `values`, then zeros."""
    sides = (0, 0) * (values.ndim - 1) + (0, lines - len(values))
    return torch.nn.functional.pad(values, sides)


class CellNoise(NamedTuple):
    """Randomness of one sweep over PACK chains, in which a column is visited at most once: all keyed by column name,
    and made for the columns that are visited alone.

    noise  of the chains in this sweep
    dtype  of what is made
    """

    noise: KeyedNoise
    dtype: torch.dtype

    def order(self) -> Tensor:
        """[PACK, D] uniform: the order in which holes are visited."""
        return self.noise.at("order").uniform()[0]

    def normal(self, columns: Tensor, width: int) -> Tensor:
        """[PACK, .., width] standard normal: what proposals in the columns [PACK, ..] need."""
        flat = columns.flatten(1)
        numbers = torch.stack([self.noise.at(f"normal{i}").normal_at(flat)[0] for i in range(width)], -1)
        return numbers.view(*columns.shape, width).to(self.dtype)

    def accept(self, columns: Tensor) -> Tensor:
        """[PACK, P] log of a uniform for the columns [PACK, P]."""
        return self.noise.at("accept").uniform_at(columns)[0].log().to(self.dtype)


def cell_noise(noise: KeyedNoise, sweep: int, dtype: torch.dtype) -> CellNoise:
    """The randomness of sweep `sweep`."""
    return CellNoise(noise.at(sweep), dtype)
