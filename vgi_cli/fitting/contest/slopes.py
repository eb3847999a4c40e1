"""Whether the slopes of numbers on each other depend on the levels of a column.

For each column of few levels and each pair of numbers: the slopes of one on the other, level by level, and whether they
differ by more than chance, by Welch's test of means, of which each slope has its own variance (Welch 1951): numbers
need not scatter alike at all levels. All columns and pairs that are looked at share CHANCE equally.

A relation that bends has other slopes where a level has other numbers, without any that depends on the level; what
bends on one scale may be straight on another. So slopes have to differ on every scale that a table is looked at on,
those of one number on another on each of them.
"""

from __future__ import annotations

import torch
from torch import Tensor

from vgi_cli.fitting.rows import Rows

LEVELS = 8
"""A column of more levels is not looked at."""
FEWEST = 20
"""Rows that have both numbers, of each level, from which on its slope counts; of a column with a level of fewer rows
none do, for a component would be that level's alone."""
WELL = 20.0
"""Rows for each component, or level, and column of numbers from which on all covariances are well determined."""
ROWS = 20_000
"""Of more rows, evenly spread ones are looked at."""
CHANCE = 0.1
"""How probable it may be that slopes are taken to differ in some column where they do in none."""


def column_of_slopes(*scales: Rows) -> str | None:
    """The column of levels on which slopes depend by the least chance; None where they depend on none. `scales`: the
    same rows with numbers encoded in several ways; those of other columns than the first one has are not looked at."""
    table, layout = scales[0].table, scales[0].table.layout
    used = table.used[:: -(-len(table.used) // ROWS)]
    numbers = list(layout.continuous)
    most = min(LEVELS, len(table.used) / (WELL * max(len(numbers), 1)))
    looked = [
        (layout.columns[layout.column_of[j]], j)
        for j in layout.discrete
        if layout.level_counts[j] <= most and layout.widths[layout.column_of[j]] == 1
    ]
    alike = [one.table for one in scales if one.table.layout.level_counts == layout.level_counts]
    found = []
    for name, j in looked:
        level = torch.where(table.missing[used, j], -1.0, table.x[used, j].double())
        if int(torch.bincount(level[level >= 0].long(), minlength=layout.level_counts[j]).min()) < FEWEST:
            continue
        every = [
            _chances(one.x[used][:, numbers].double(), ~one.missing[used][:, numbers], level, layout.level_counts[j])
            for one in alike
        ]
        asked = torch.stack([pairs for _, pairs in every]).all(0)
        if bool(asked.any()):
            chances = torch.stack([own for own, _ in every]).amax(0)[asked]
            found.append((float(chances.min()), int(asked.sum()), name))
    if not found:
        return None
    chance, _, name = min(found)
    return name if chance < CHANCE / (sum(pairs for _, pairs, _ in found) / 2) else None  # y on x and x on y are one


def _chances(x: Tensor, seen: Tensor, level: Tensor, levels: int) -> tuple[Tensor, Tensor]:
    """Of each pair of numbers x [N, D] how probable it is by chance that the slopes of the second on the first differ
    as much between levels [N] (-1: missing), and of which pairs it was asked, both [D, D]."""
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
    chances = torch.ones(asked.shape, dtype=torch.float64)
    if not bool(asked.any()):
        return chances, asked
    b, weight, df, k = b[:, asked], weight[:, asked], df[:, asked], some[asked].double()
    total = weight.sum(0)
    apart = (weight * (b - (weight * b).sum(0) / total).square()).sum(0) / (k - 1)
    spread = torch.where(weight > 0, (1 - weight / total).square() / df, 0.0).sum(0)
    ratio = apart / (1 + 2 * (k - 2) / (k * k - 1) * spread)
    chances[asked] = torch.from_numpy(f.sf(ratio.numpy(), (k - 1).numpy(), ((k * k - 1) / (3 * spread)).numpy()))
    return chances, asked
