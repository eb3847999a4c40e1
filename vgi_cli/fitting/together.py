"""Does a fitted model know how columns go together? Models that are trained by gradients can end without: they were
stopped before they had learnt it, or their latents say nothing of a row. No likelihood shows that by itself."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from vgi_cli.data import TensorTable
from vgi_cli.models.base import Model
from vgi_cli.samplers.base import frozen

ROWS, SAMPLES = 20_000, 4_000
"""Rows of the table, evenly spread, and of the model that are looked at."""
FEWEST, CLEAR, SURELY = 30, 0.5, 5.0
"""A correlation is clear where so many rows have both cells, and it is at least so large, and so many standard errors
of one that is 0."""
LEFT = 0.25
"""A clear correlation is lost where the model has less than that share of it."""


class Lost(NamedTuple):
    """That a model has next to nothing of clear correlations of its table.

    pair          the dimensions of the largest one
    table, model  its correlation in each
    others        how many more pairs there are
    """

    pair: tuple[int, int]
    table: float
    model: float
    others: int


def correlations(x: Tensor, missing: Tensor) -> tuple[Tensor, Tensor]:
    """Of rows x [R, D] with holes [R, D]: the correlations [D, D] of the ranks of their cells, which no far value
    decides, over the rows that have both, and the numbers of these; 0 of a column that does not vary."""
    ranks = torch.zeros(x.shape, dtype=torch.float64)
    for j in range(x.shape[1]):
        cells = x[~missing[:, j], j].contiguous()
        ordered = cells.sort().values
        places = torch.searchsorted(ordered, cells) + torch.searchsorted(
            ordered, cells, right=True
        )  # ties have one rank
        ranks[~missing[:, j], j] = 0.5 * (places - len(cells)).double()
    seen = (~missing).double()
    both = seen.mT @ seen
    squares = ranks.square().mT @ seen  # [i, j] of column i where j is there too
    scale = (squares * squares.mT).sqrt()
    return torch.where(scale > 0, ranks.mT @ ranks / torch.where(scale > 0, scale, 1.0), 0.0), both


def lost(model: Model, table: TensorTable) -> Lost | None:
    """What a model of encoded rows has lost of how their numbers go together; None where that is nothing."""
    rows = torch.linspace(0, table.N - 1, min(table.N, ROWS)).long()
    numbers = [i for i, levels in enumerate(table.layout.level_counts) if not levels]
    if len(numbers) < 2:
        return None
    own, both = correlations(table.x[rows][:, numbers], table.missing[rows][:, numbers])
    clear = ((both >= FEWEST) & (own.abs() >= CLEAR) & (own.abs() * both.sqrt() >= SURELY)).triu(1)
    if not bool(clear.any()):
        return None
    with frozen(model):
        generator = torch.Generator(next(model.parameters()).device).manual_seed(0)
        samples = model.sample(SAMPLES, generator).cpu()[:, numbers]
    samples = samples[torch.isfinite(samples).all(1)]
    theirs, _ = correlations(samples, torch.zeros_like(samples, dtype=torch.bool))
    gone = clear & (theirs * own.sign() < LEFT * own.abs())
    if not bool(gone.any()):
        return None
    i, j = divmod(int(torch.where(gone, own.abs(), 0.0).argmax()), len(numbers))
    return Lost((numbers[i], numbers[j]), float(own[i, j]), float(theirs[i, j]), int(gone.sum()) - 1)


def in_words(found: Lost, names: tuple[str, ...]) -> str:
    """A line for the user; names of the dimensions."""
    one, other = (names[i] for i in found.pair)
    more = f" (and so of {found.others:,} more pair{'s' * (found.others > 1)})" if found.others else ""
    return (
        f"the model does not know how '{one}' and '{other}' go together: their correlation (of ranks) is "
        f"{found.table:.2f} in the table and {found.model:.2f} in the model{more}; do not use this run: another "
        "--method, more --epochs or --model mixture may learn it"
    )
