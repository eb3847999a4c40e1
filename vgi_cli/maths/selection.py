"""Covariances of columns that are never observed together.

Of two columns that no row has both of, as in two files with some columns in common, the rows tell how each goes with
the others and nothing else: a likelihood is the same for every covariance of the two that leaves the matrix positive
definite, and EM stays near the one that it starts from. They are taken for independent given all others, as statistical
matching does (Rodgers 1984): of all matrices with the other entries that is the one with the largest determinant, whose
inverse is zero there (Dempster 1972).
"""

from __future__ import annotations

import torch
from torch import Tensor

TOGETHER = 10
"""Rows in which two columns should be observed together by chance, from which on it means something that they never
are."""
ROWS = 1 << 16
"""Rows that are looked at together: bounds the memory."""
ROUNDS, CLOSE = 100, 1e-9
"""Rounds over the columns at most, and how little of a standard deviation a round changes in the end."""


def pairs_apart(missing: Tensor) -> Tensor:
    """[pairs, 2] the columns, each pair once, that no row of missing [N, D] has both of, where chance would put
    TOGETHER rows or more."""
    return never_together(seen_together(missing), len(missing))


def seen_together(missing: Tensor) -> Tensor:
    """[D, D] how many rows of missing [N, D] have both of two columns, float64."""
    together = torch.zeros(missing.shape[1], missing.shape[1], dtype=torch.float64, device=missing.device)
    for part in missing.split(ROWS):
        seen = (~part).double()
        together += seen.mT @ seen
    return together


def never_together(together: Tensor, rows: Tensor | int) -> Tensor:
    """As of `pairs_apart`, by how many of so many rows have both (`seen_together`)."""
    cells = together.diagonal()
    apart = (together == 0) & (cells[:, None] * cells >= TOGETHER * rows)
    return apart.triu(1).nonzero()


def independent_given_others(covariance: Tensor, pairs: Tensor) -> Tensor:
    """Covariances [K, D, D] with the entries at pairs [n, 2] such that their inverses are zero there; the other entries
    stay. One column after the other is regressed on those that it is no pair with (Hastie, Tibshirani and Friedman
    2009, algorithm 17.1), again where a column before has changed."""
    sd = covariance.diagonal(dim1=-2, dim2=-1).sqrt()
    found = covariance / (sd[:, :, None] * sd[:, None, :])
    apart = torch.zeros(found.shape[-2:], dtype=torch.bool, device=found.device)
    apart[pairs[:, 0], pairs[:, 1]] = apart[pairs[:, 1], pairs[:, 0]] = True
    for _ in range(ROUNDS):
        before = found.clone()
        for j in apart.any(0).nonzero()[:, 0].tolist():
            with_it, without = (~apart[j]).nonzero()[:, 0], apart[j].nonzero()[:, 0]
            with_it = with_it[with_it != j]
            slope = torch.linalg.solve(found[:, with_it[:, None], with_it], found[:, with_it, j, None])
            found[:, without, j] = found[:, j, without] = (found[:, without[:, None], with_it] @ slope)[..., 0]
        if float((found - before).abs().max()) <= CLOSE:
            break
    return found * (sd[:, :, None] * sd[:, None, :])
