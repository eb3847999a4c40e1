"""Initial imputations f0 (paper, section 3.2): independent draws from each column's observed cells."""

from __future__ import annotations

from itertools import pairwise

import torch

from vgi_cli.chains.store.packed import Chains

PIECE = 1 << 14
"""Rows that are drawn at a time, at least: bounds the memory. A multiple of 16, in which normal draws are made: so the
pieces of a column are drawn as the whole column would be."""


def empirical(chains: Chains, generator: torch.Generator) -> None:
    """Set all chains to bootstrap samples of the observed cells of the cell's column, all dimensions of which come from
    one row.

    A column without observed cells draws from N(0, 1), and latents do from what complete rows hold in their place.
    Everything is drawn where the generator is, column by column and for every row, whether the cell is missing or not.
    """
    N = len(chains.x)
    values, K, device = chains.values, chains.K, generator.device
    line = chains.first[:-1].to(device, copy=True)  # of each row's next missing cell
    pieces = max(1, N // PIECE)
    edges = [*(PIECE * n for n in range(pieces)), N]
    for unit in chains.layout.units:
        width = unit.stop - unit.start
        absent = chains.missing[:, unit.start].to(device)
        seen = chains.x[:, unit].to(device)[~absent]
        for start, end in pairwise(edges):
            if len(seen) == 0:
                draws = torch.randn(end - start, K, width, generator=generator, dtype=seen.dtype, device=device)
            else:
                draws = seen[torch.randint(len(seen), (end - start, K), generator=generator, device=device)]
            holes = absent[start:end]
            lines, drawn = line[start:end][holes].to(values.device, torch.int64), draws[holes].to(values.device)
            for i in range(width):
                values.index_copy_(0, lines + i, drawn[..., i])
        line += width * absent
