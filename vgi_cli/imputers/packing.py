"""Chains in packs of fixed size.

Draws × incomplete rows are sorted by their number of holes, so that the chains of a pack end together, and cut into
packs of exactly PACK chains, zero-padded, so that rounding cannot depend on the batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from vgi_cli.maths.noise import KeyedNoise, mix64

PACK = 512


class Pack(NamedTuple):
    """PACK chains; only the first `real` are real, the others are complete rows of zeros.

    x        [PACK, D] first states
    missing  [PACK, D]
    noise    randomness of these chains: one draw, one row key a chain
    draw     [real] index of each chain's draw
    row      [real] index of each chain's row
    """

    x: Tensor
    missing: Tensor
    noise: KeyedNoise
    draw: Tensor
    row: Tensor

    @property
    def real(self) -> int:
        """Number of real chains."""
        return len(self.draw)


def packs(states: Tensor, missing: Tensor, noise: KeyedNoise) -> Iterator[Pack]:
    """Packs of all (draw, row) with a hole; states [n, R, D] completed rows, missing [R, D].

    The key of a chain is made of the keys of its row and its draw: a chain's randomness is the same in any pack.
    """
    n = states.shape[0]
    holes = missing.sum(1)
    rows = torch.argsort(holes, stable=True)
    rows = rows[holes[rows] > 0]
    if n == 0 or len(rows) == 0:
        return
    row = rows.repeat_interleave(n)
    draw = torch.arange(n, device=row.device).repeat(len(rows))
    keys = mix64(noise.rows.to(row.device)[row] ^ mix64(noise.draws.to(row.device)[draw] + 1))
    for start in range(0, len(row), PACK):
        r, k = row[start : start + PACK], draw[start : start + PACK]
        pad = PACK - len(r)
        x = torch.nn.functional.pad(states[k, r], (0, 0, 0, pad))
        hidden = torch.nn.functional.pad(missing[r], (0, 0, 0, pad), value=False)
        chain_keys = torch.nn.functional.pad(keys[start : start + PACK], (0, pad))
        own = KeyedNoise(noise.seed, noise.columns, chain_keys, torch.zeros_like(row[:1]), f"{noise.purpose}/chains")
        yield Pack(x, hidden, own, k, r)


class SweepNoise(NamedTuple):
    """Randomness of one sweep over PACK chains, in which a column is visited at most once: all keyed by column name.

    order   [PACK, D] uniform: the order in which holes are visited
    normal  [PACK, D, width] standard normal: what a proposal in that column needs
    accept  [PACK, D] log of a uniform
    """

    order: Tensor
    normal: Tensor
    accept: Tensor


def sweep_noise(noise: KeyedNoise, sweep: int, width: int, dtype: torch.dtype) -> SweepNoise:
    """The randomness of sweep `sweep` for proposals that need `width` normals."""
    at = noise.at(sweep)
    normal = torch.stack([at.at(f"normal{i}").normal()[0] for i in range(width)], -1)
    return SweepNoise(at.at("order").uniform()[0], normal.to(dtype), at.at("accept").uniform()[0].log().to(dtype))
