"""Whether rows of a contest show that columns say anything of each other.

A mean score below 1 is little evidence of it, and one above 1 little against it: losses differ much from cell to cell
(a rare level is always hard to guess), and so does which cells happened to be hidden. So the loss of each hidden cell
is compared with what draws from its column alone lose at that same cell, on average. And since a weak relation shows
in few hidden cells, the columns themselves are looked at, two at a time, in all rows that have both.
"""

from __future__ import annotations

import math
from itertools import combinations

import torch
from torch import Tensor

from vgi_cli.encoding.encoder import decode
from vgi_cli.fitting.contest.scoring import Scores, half_mean_difference, level_losses
from vgi_cli.fitting.rows import Rows

CHANCE = 0.05
"""How probable by chance it may be at most what is taken for evidence, of hidden cells and of pairs of columns."""
FEWEST = 10
"""Rows of a level, and rows that have both columns of a pair, from which on these are looked at."""
MOST = 50
"""Of more columns, evenly spread ones are looked at in pairs."""


def is_lacking(scores: Scores, rows: Rows, odds: Tensor) -> bool:
    """Whether neither the hidden cells of a candidate nor pairs of columns show that columns say anything of each
    other; rows, odds: those that were scored, and how much each of their cells [R, columns] counts."""
    return chance_of_gain(scores, losses_alone(rows), odds) >= CHANCE and chance_of_pairs(rows) >= CHANCE


def losses_alone(rows: Rows) -> Tensor:
    """[R, columns] what draws from each column alone would lose at its observed cells, on average, by the loss that
    candidates have there; NaN at holes."""
    codes = torch.from_numpy(decode(rows.table.x, rows.schema)).double()
    observed = ~rows.table.layout.of_columns(rows.table.missing)
    found = torch.full(codes.shape, torch.nan, dtype=torch.float64)
    for i, column in enumerate(rows.schema.encoded):
        seen = observed[:, i]
        cells = codes[seen, i]
        if all(column.level_counts):
            levels = column.level_counts[0]
            shares = torch.bincount(cells.long(), minlength=levels).double() / max(len(cells), 1)
            found[seen, i] = level_losses(shares, levels)[cells.long()]
        elif len(cells) > 1:
            found[seen, i] = _distances(cells) - half_mean_difference(cells)
    return found


def _distances(cells: Tensor) -> Tensor:
    """[n] the mean distance of each cell [n] from the others."""
    order, n = cells.argsort(), len(cells)
    ordered = cells[order]
    below = ordered.cumsum(0) - ordered
    found = torch.empty_like(cells)
    found[order] = (ordered * (2.0 * torch.arange(n) - n) + ordered.sum() - 2 * below) / (n - 1)
    return found


def chance_of_gain(scores: Scores, alone: Tensor, odds: Tensor) -> float:
    """How probable it is, if no column is filled better than alone, that hidden cells seem to be as much as they do: by
    one-sided tests of the mean difference of losses from those that are `alone` [R, columns], in all columns together
    and in each of them, which share the chance equally."""
    hidden = ~scores.losses.isnan() & ~alone.isnan()
    whole = torch.where(hidden, alone * odds, 0.0).sum(0)
    gain = torch.where(hidden, (alone - scores.losses) * odds, 0.0) / whole
    used = [i for i, most in enumerate(whole.tolist()) if most > 0]
    asked = [gain[:, used].sum(1), *(gain[hidden[:, i], i] for i in used)]
    return min(1.0, len(asked) * min(map(_chance, asked)))


def _chance(gain: Tensor) -> float:
    """How probable a mean as great as that of gains [n] is where it is 0."""
    if len(gain) < FEWEST or float(gain.std()) <= 0:
        return 1.0
    return 0.5 * math.erfc(float(gain.mean() / gain.std()) * (len(gain) / 2) ** 0.5)


def chance_of_pairs(rows: Rows) -> float:
    """How probable it is, if no two columns go together, that some do as much as they seem to, of pairs of which one
    has holes: by Pillai's trace of their numbers and of indicators of their levels (of two columns of levels that is
    Pearson's test, of two of numbers that of their correlation). All pairs share the chance equally."""
    from scipy.stats import chi2

    table, layout = rows.table, rows.table.layout
    absent = layout.of_columns(table.missing)
    coded = [_coded(table.x[:, own], ~absent[:, i], layout.level_counts[own]) for i, own in enumerate(layout.slices)]
    looked = range(0, len(coded), -(-len(coded) // MOST))
    found = []
    for i, j in combinations(looked, 2):
        holes = absent[:, i] | absent[:, j]
        if not bool(holes.any()) or int((~holes).sum()) < FEWEST:
            continue
        a, b = _basis(coded[i][~holes]), _basis(coded[j][~holes])
        trace = float((a.mT @ b).square().sum())
        if a.shape[1] and b.shape[1]:
            found.append(float(chi2.sf(len(a) * trace, a.shape[1] * b.shape[1])))
    return min(1.0, len(found) * min(found)) if found else 1.0


def _coded(x: Tensor, seen: Tensor, levels: tuple[int, ...]) -> Tensor:
    """[R, P] the numbers of a column [R, dimensions], and an indicator for each of its levels that FEWEST rows have,
    but for the most frequent one, with which the others are taken together."""
    parts = [x[:, :0].double()]
    for k, count in enumerate(levels):
        own = x[:, k : k + 1].double()
        if count:
            rows = torch.bincount(own[seen, 0].long(), minlength=count)
            most = int(rows.argmax())
            parts += [(own == level).double() for level in range(count) if level != most and int(rows[level]) >= FEWEST]
        else:
            parts.append(own)
    return torch.cat(parts, 1)


def _basis(x: Tensor) -> Tensor:
    """[n, rank] orthonormal columns that span those of x [n, P] less their means."""
    if not x.shape[1]:
        return x
    left, sizes, _ = torch.linalg.svd(x - x.mean(0), full_matrices=False)
    found: Tensor = left[:, sizes > 1e-6 * max(float(sizes.max()), 1e-6)]
    return found
