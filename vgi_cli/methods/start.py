"""Where a fit starts: f0, the initial imputations, and the completed rows that a model is initialised from."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import torch
from torch import Tensor

from vgi_cli.chains.store.packed import Chains, InOrder
from vgi_cli.data import TensorTable, spread_rows
from vgi_cli.layout import Layout
from vgi_cli.maths.indicators import Indicators
from vgi_cli.maths.noise import KeyedNoise, numbered
from vgi_cli.maths.selection import pairs_apart
from vgi_cli.methods.em.steps import climb
from vgi_cli.models.base import Model
from vgi_cli.models.gaussian.family import em_table
from vgi_cli.models.gaussian.mixture import GaussianMixture, MixtureConfig

INITIAL_ROWS = 100_000
"""Rows that the model and the `em` fit of f0 are initialised from, at most (of the flattened rows whole chains where
they fit, else rows of the first): this bounds their memory."""
FULL_UP_TO = 64  # columns; beyond that one Gaussian with ten factors
FEW_ROWS = 100
"""Rows a column up to which a model starts from how the columns hang together (docs/research/defaults.md)."""
ALIGNED_ROWS = 2_000
"""Rows that say how, at most."""
ITERATIONS = 30
ROWS = 4096  # that are drawn at a time: bounds the memory of their conditionals
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
    K, device = chains.K, generator.device
    cells = InOrder(chains, device)
    every = list(in_pieces(N))
    for unit in chains.layout.units:
        width = unit.stop - unit.start
        absent = chains.missing[:, unit.start].to(device)
        seen = chains.x[:, unit].to(device)[~absent]
        for start, end in every:
            if len(seen) == 0:
                draws = torch.randn(end - start, K, width, generator=generator, dtype=seen.dtype, device=device)
            else:
                draws = seen[torch.randint(len(seen), (end - start, K), generator=generator, device=device)]
            holes = absent[start:end]
            cells.put(unit, slice(start, end), holes, draws[holes])
        cells.after(unit, absent)


def in_pieces(N: int) -> Iterator[tuple[int, int]]:
    """First row and end of each piece of N rows: PIECE of them, and more in the last one."""
    count = max(1, N // PIECE)
    return pairwise([*(PIECE * n for n in range(count)), N])


def initial_imputations(chains: Chains, table: TensorTable, initial: str, generator: torch.Generator) -> None:
    """Set the chains to f0: `empirical` marginals, or draws given the observed cells from a quick `em` fit of one
    Gaussian to the data. Latents, which come after these, get their values later (`Target.start_latents`)."""
    if initial == "empirical":
        empirical(chains, generator)
        return
    layout = chains.layout
    data = TensorTable(layout.data(table.x), layout.data(table.missing), layout.with_latents(0)).to(device="cpu")
    for rows, draws in gaussian_pieces(data, chains.K, generator, INITIAL_ROWS):
        x = draws.transpose(0, 1).reshape(-1, layout.d).to(table.x)
        chains.store(rows, torch.cat([x, x.new_zeros(len(x), layout.L)], 1) if layout.L else x)


def initial_rows(chains: Chains, most: int | None = None) -> Tensor:
    """[R, D] completed rows to initialise the model from, one chain after the other, of `most` chains (None: of all);
    fully missing ones left out."""
    partly = (~chains.missing.all(1)).nonzero()[:, 0]
    count = min(chains.K if most is None else most, max(1, INITIAL_ROWS // max(len(partly), 1)))
    rows = partly[spread_rows(len(partly), INITIAL_ROWS).to(partly.device)]
    out = chains.x.new_empty(count, len(rows), chains.x.shape[1])
    for chain in range(count):
        out[chain] = chains.completed(chain, rows)
    return out.view(-1, out.shape[2])


def align_to_few(model: Model, table: TensorTable, generator: torch.Generator) -> None:
    """Let a model that was initialised start from how the columns hang together, where it `starts_aligned`: by a quick
    Gaussian fit to the observed cells. `generator` is on the CPU."""
    if not model.aligns:  # before the rows are looked at
        return
    used, numbers = table.used, list(table.layout.continuous)
    if starts_aligned(model, len(used), table.layout):
        some = table.rows(used[spread_rows(len(used), ALIGNED_ROWS).to(used.device)]).to(device="cpu")
        plain = TensorTable(some.x[:, numbers], some.missing[:, numbers], Layout.plain(len(numbers)))
        moments = _quick_fit(plain, generator, some.relative_weight).gaussians.moments()
        model.align(moments.mean[0], moments.covariance[0])


def starts_aligned(model: Model, rows: int, layout: Layout) -> bool:
    """Whether a model is to start from how the columns hang together: if it can, and the rows that are used are few for
    the columns, some of which are numbers. There held-out rows end a fit long before it has found that by itself."""
    return model.aligns and bool(layout.continuous) and 0 < rows <= FEW_ROWS * layout.D


def gaussian_draws(table: TensorTable, K: int, generator: torch.Generator) -> Tensor:
    """K draws [C, K] of every missing cell, row by row, given the row's observed cells, under a quick Gaussian fit (of
    the indicators of levels the largest one's level)."""
    pieces = gaussian_pieces(table, K, generator, table.N)
    return torch.cat([draws.permute(1, 2, 0)[table.missing[rows]] for rows, draws in pieces])


def gaussian_pieces(
    table: TensorTable, K: int, generator: torch.Generator, most: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """Some rows at a time, which bounds the memory: their numbers [n], and K draws [K, n, D] of which `gaussian_draws`
    takes the missing cells, under a fit to at most so many rows."""
    spread = Indicators(table.layout.level_counts)
    plain = _spread(table, spread)
    model = _quick_fit(plain.rows(spread_rows(table.N, most)), generator)
    seed = int(torch.randint(2**62, (), generator=generator))
    noise = KeyedNoise(seed, numbered("column", plain.D), torch.arange(table.N), torch.arange(K))
    for rows in torch.arange(table.N).split(ROWS):
        draws = model.conditional(plain.x[rows].double(), plain.missing[rows]).sample(noise.select(rows=rows))
        yield rows, _gathered(draws, table.layout)


def _spread(table: TensorTable, spread: Indicators) -> TensorTable:
    """The table with its levels as indicators, each a column of numbers."""
    if spread.plain:
        return table
    missing = spread.spread(table.missing)
    return TensorTable(torch.where(missing, 0.0, spread(table.x)), missing, Layout.plain(spread.F))


def _gathered(draws: Tensor, layout: Layout) -> Tensor:
    """[.., D]: drawn indicators [.., F] as levels, the largest one's."""
    if not layout.discrete:
        return draws
    parts = draws.split([max(n, 1) for n in layout.level_counts], -1)
    levels = (part.argmax(-1) if n else part[..., 0] for part, n in zip(parts, layout.level_counts, strict=True))
    return torch.stack([level.to(draws.dtype) for level in levels], -1)


def _quick_fit(table: TensorTable, generator: torch.Generator, weight: Tensor | None = None) -> GaussianMixture:
    """One Gaussian; `weight` [N] of the rows, None: all the same."""
    x, missing = table.x.double(), table.missing
    full = table.D <= FULL_UP_TO
    config = MixtureConfig(components=1, covariance="full" if full else "factor", factors=None if full else 10)
    model = GaussianMixture.build(config, table.layout).double()
    seen = (~missing).sum(0).clamp(min=1)
    mean = x.sum(0) / seen
    model.initialise(torch.where(missing, mean, x), generator)
    used = ~missing.all(1)
    rows = em_table(x[used], missing[used], None if weight is None else weight[used].double())
    climb(model, rows, model.penalty(None, 1e-3), epochs=ITERATIONS, tolerance=1e-4)
    model.separate(pairs_apart(missing))
    return model
