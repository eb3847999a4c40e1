"""f0 from a quick EM fit of one Gaussian: the alternative to empirical marginals as initial imputations."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from vgi_cli.data import TensorTable, spread_rows
from vgi_cli.maths.noise import KeyedNoise, numbered
from vgi_cli.methods.em.steps import climb
from vgi_cli.models.gaussian.family import em_table
from vgi_cli.models.gaussian.mixture import GaussianMixture, MixtureConfig

FULL_UP_TO = 64  # columns; beyond that one Gaussian with ten factors
ITERATIONS = 30
ROWS = 4096  # that are drawn at a time: bounds the memory of their conditionals


def gaussian_draws(table: TensorTable, K: int, generator: torch.Generator) -> Tensor:
    """K draws [C, K] of every missing cell, row by row, given the row's observed cells, under a quick Gaussian fit."""
    return torch.cat(list(gaussian_pieces(table, K, generator, table.N)))


def gaussian_pieces(table: TensorTable, K: int, generator: torch.Generator, most: int) -> Iterator[Tensor]:
    """`gaussian_draws` some rows at a time, under a fit to at most so many rows: what bounds its memory."""
    model = _quick_fit(table.rows(spread_rows(table.N, most)), generator)
    seed = int(torch.randint(2**62, (), generator=generator))
    noise = KeyedNoise(seed, numbered("column", table.D), torch.arange(table.N), torch.arange(K))
    for rows in torch.arange(table.N).split(ROWS):
        x, missing = table.x[rows].double(), table.missing[rows]
        draws = model.conditional(x, missing).sample(noise.select(rows=rows))
        yield draws.permute(1, 2, 0)[missing]


def _quick_fit(table: TensorTable, generator: torch.Generator) -> GaussianMixture:
    x, missing = table.x.double(), table.missing
    full = table.D <= FULL_UP_TO
    config = MixtureConfig(components=1, covariance="full" if full else "factor", factors=None if full else 10)
    model = GaussianMixture.build(config, table.layout).double()
    seen = (~missing).sum(0).clamp(min=1)
    mean = x.sum(0) / seen
    model.initialise(torch.where(missing, mean, x), generator)
    used = ~missing.all(1)
    climb(model, em_table(x[used], missing[used]), model.penalty(None, 1e-3), epochs=ITERATIONS, tolerance=1e-4)
    return model
