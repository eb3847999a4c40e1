"""Many small triangular systems at once: loops over the few columns, each operation over all systems.

The batched routines of linear algebra libraries go through the systems one by one on a CPU, which at widths up to some
tens costs 10 to 100 times as much. Nothing is changed in place, so that everything can be differentiated.
"""

from __future__ import annotations

import torch
from torch import Tensor


def cholesky_upper(P: Tensor, least: float) -> Tensor:
    """Upper triangular U [.., W, W] with U' U = P; a pivot below `least` is taken as that."""
    W = P.shape[-1]
    rows = []
    for k in range(W):
        pivot = P[..., 0, 0].clamp(min=least).sqrt()[..., None]
        row = P[..., 0, 1:] / pivot
        rows.append(torch.cat([pivot.new_zeros(*pivot.shape[:-1], k), pivot, row], -1))
        P = P[..., 1:, 1:] - row[..., None] * row[..., None, :]
    return torch.stack(rows, -2)


def solve_upper(U: Tensor, b: Tensor) -> Tensor:
    """x [.., W] with U x = b; U [.., W, W] upper triangular."""
    W = b.shape[-1]
    x = b[..., W - 1 :] / U[..., W - 1, W - 1 :]
    for i in range(W - 2, -1, -1):
        rest = b[..., i] - (U[..., i, i + 1 :] * x).sum(-1)
        x = torch.cat([(rest / U[..., i, i])[..., None], x], -1)
    return x


def solve_upper_transposed(U: Tensor, b: Tensor) -> Tensor:
    """x [.., W] with U' x = b; U [.., W, W] upper triangular."""
    x = b[..., :1] / U[..., 0, :1]
    for i in range(1, b.shape[-1]):
        rest = b[..., i] - (U[..., :i, i] * x).sum(-1)
        x = torch.cat([x, (rest / U[..., i, i])[..., None]], -1)
    return x
