"""Does a fitted model know how columns go together? Models that are trained by gradients can end without: they were
stopped before they had learnt it, or their latents say nothing of a row. No likelihood shows that by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from vgi_cli.data import TensorTable
from vgi_cli.maths.mechanisms import mean_ranks
from vgi_cli.models.base import Model
from vgi_cli.samplers.base import frozen

ROWS, SAMPLES = 20_000, 4_000
"""Rows of the table, evenly spread, and of the model that are looked at."""
FEWEST, CLEAR, SURELY = 30, 0.5, 5.0
"""A correlation is clear where so many rows have both cells, and it is at least so large, and so many standard errors
of one that is 0."""
LEFT = 0.25
"""A clear correlation is lost where the model has less than that share of it."""
FILLED, AGAINST = 0.1, 2.5
"""A correlation that unrelated fills would leave of it, from which on fills can speak against that; they do where they
have less by LEFT of it, and by so many standard errors."""


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
    decides, over the rows that have both, and the numbers of these; 0 of a column that does not vary in them. Ranks are
    those among all cells of a column, means and variances those of the rows of each pair."""
    ranks = torch.zeros(x.shape, dtype=torch.float64)
    for j in range(x.shape[1]):
        cells = mean_ranks(x[~missing[:, j], j].double())
        ranks[~missing[:, j], j] = cells - 0.5 * (len(cells) + 1)
    seen = (~missing).double()
    both = seen.mT @ seen
    sums = ranks.mT @ seen  # [i, j] of column i where j is there too; exact, as ranks are halves of whole numbers
    products = both * (ranks.mT @ ranks) - sums * sums.mT
    squares = both * (ranks.square().mT @ seen) - sums.square()  # 0 of equal ranks: both are the same number, rounded
    scale = (squares * squares.mT).sqrt()
    return torch.where(scale > 0, products / torch.where(scale > 0, scale, 1.0), 0.0), both


def spread(table: TensorTable) -> Tensor:
    """The rows that are looked at: evenly spread over those that count, a row the more often the more it weighs."""
    used, weight = table.used, table.weight
    n = min(len(used), ROWS)
    if weight is None:
        return used[torch.linspace(0, len(used) - 1, n, dtype=torch.float64).round().long()]
    ends = weight[used].to("cpu", torch.float64).cumsum(0)
    places = torch.searchsorted(ends, (torch.arange(n, dtype=torch.float64) + 0.5) / n * ends[-1])
    return used[places.clamp(max=len(used) - 1).to(used.device)]


def lost(model: Model, table: TensorTable, fills: Callable[[Tensor], Tensor] | None = None) -> Lost | None:
    """What a model of encoded rows has lost of how their numbers go together; None where that is nothing. `fills`: some
    rows [n] as the model fills them [n, D], in float64 on the CPU.

    Where cells are missing the more often the less two columns go together, rows that have both say too much of it, and
    the model does not lack what they say: then it fills the other rows against it.
    """
    rows = spread(table)
    numbers = [i for i, levels in enumerate(table.layout.level_counts) if not levels]
    if len(numbers) < 2 or not len(rows):
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
    if fills is not None and bool(gone.any()):
        filled = fills(rows)[:, numbers]
        completed, _ = correlations(filled, torch.zeros_like(filled, dtype=torch.bool))
        kept = own.abs() * both / len(rows)  # that of all rows, were the fills unrelated
        away = kept - completed * own.sign()
        gone &= ~((kept >= FILLED) & (away >= LEFT * kept) & (away * len(rows) ** 0.5 >= AGAINST))
    if not bool(gone.any()):
        return None
    i, j = divmod(int(torch.where(gone, own.abs(), 0.0).argmax()), len(numbers))
    return Lost((numbers[i], numbers[j]), float(own[i, j]), float(theirs[i, j]), int(gone.sum()) - 1)


def in_words(found: Lost, label: Callable[[int], str], model: str) -> str:
    """A line for the user; what messages call a dimension, and the name of the model."""
    one, other = map(label, found.pair)
    others = "" if model == "mixture" else " or --model mixture"
    more = f" (and so of {found.others:,} more pair{'s' * (found.others > 1)})" if found.others else ""
    return (
        f"the model does not know how '{one}' and '{other}' go together: their correlation (of ranks) is "
        f"{found.table:.2f} in the rows that have both and {found.model:.2f} in the model{more}; do not use this run, "
        f"unless these rows are so unlike the others: another --method, more --epochs{others} may learn it"
    )
