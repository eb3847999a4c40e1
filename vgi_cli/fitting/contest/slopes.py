"""Whether the slopes of numbers on each other depend on the levels of a column.

For each column of few levels and each pair of numbers: the slopes of one on the other, level by level, and whether they
differ by more than chance, by Welch's test of means, of which each slope has its own variance (Welch 1951): numbers
need not scatter alike at all levels. All columns and pairs that are looked at share CHANCE equally.
"""

from __future__ import annotations

import torch
from torch import Tensor

from vgi_cli.fitting.rows import Rows

LEVELS = 8
"""A column of more levels is not looked at."""
FEWEST = 20
"""Rows that have both numbers, of each level, from which on its slope counts."""
WELL = 20.0
"""Rows for each component, or level, and column of numbers from which on all covariances are well determined."""
ROWS = 20_000
"""Of more rows, evenly spread ones are looked at."""
CHANCE = 0.1
"""How probable it may be that slopes are taken to differ in some column where they do in none."""


def column_of_slopes(rows: Rows) -> str | None:
    """The column of levels on which slopes depend by the least chance; None where they depend on none."""
    table, layout = rows.table, rows.table.layout
    used = table.used[:: -(-len(table.used) // ROWS)]
    x, seen = table.x[used].double(), ~table.missing[used]
    numbers = list(layout.continuous)
    most = min(LEVELS, len(table.used) / (WELL * max(len(numbers), 1)))
    looked = [
        (layout.columns[layout.column_of[j]], j)
        for j in layout.discrete
        if layout.level_counts[j] <= most and layout.widths[layout.column_of[j]] == 1
    ]
    found = []
    for name, j in looked:
        level = torch.where(seen[:, j], x[:, j], -1.0)
        chance, pairs = _chance(x[:, numbers], seen[:, numbers], level, layout.level_counts[j])
        if pairs:
            found.append((chance, pairs, name))
    if not found:
        return None
    chance, _, name = min(found)
    return name if chance < CHANCE / (sum(pairs for _, pairs, _ in found) / 2) else None  # y on x and x on y are one


def _chance(x: Tensor, seen: Tensor, level: Tensor, levels: int) -> tuple[float, int]:
    """How probable it is by chance that the slopes of some pair of numbers x [N, D] differ as much between levels
    [N] (-1: missing), for the pair of which that is the least; and of how many pairs it was asked."""
    from scipy.stats import f

    slopes, variances, free = [], [], []
    for one in range(levels):
        at = level == one
        v, w = torch.where(seen, x, 0.0)[at], seen[at].double()
        n = w.mT @ w
        s, t = v.mT @ w, w.mT @ v  # of the row, of the column of a pair, in rows that have both
        square = (v * v).mT @ w - s * s / n.clamp(min=1)  # of the row about its mean
        cross = v.mT @ v - s * t / n.clamp(min=1)
        slope = cross / square.clamp(min=1e-12)
        left = (square.mT - slope * cross).clamp(min=0)
        able = (n >= FEWEST) & (square > 1e-9) & (left > 1e-9)
        variance = left / (n - 2).clamp(min=1) / square.clamp(min=1e-12)
        slopes.append(slope)
        variances.append(torch.where(able, variance, torch.inf))
        free.append((n - 2).clamp(min=1))
    b, weight, df = torch.stack(slopes), 1 / torch.stack(variances), torch.stack(free)
    some = (weight > 0).sum(0)
    asked = (some >= 2) & ~torch.eye(len(some), dtype=torch.bool)
    if not bool(asked.any()):
        return 1.0, 0
    b, weight, df, k = b[:, asked], weight[:, asked], df[:, asked], some[asked].double()
    total = weight.sum(0)
    apart = (weight * (b - (weight * b).sum(0) / total).square()).sum(0) / (k - 1)
    spread = torch.where(weight > 0, (1 - weight / total).square() / df, 0.0).sum(0)
    ratio = apart / (1 + 2 * (k - 2) / (k * k - 1) * spread)
    least = f.sf(ratio.numpy(), (k - 1).numpy(), ((k * k - 1) / (3 * spread)).numpy()).min()
    return float(least), len(ratio)
