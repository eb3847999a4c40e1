"""Initial imputations f0 (paper, section 3.2): independent draws from each column's observed values."""

from __future__ import annotations

import torch
from torch import Tensor


def empirical(x: Tensor, missing: Tensor, K: int, generator: torch.Generator) -> Tensor:
    """K draws for every missing cell, row by row: [C, K]. A column without observed values draws from N(0, 1).

    x, missing [N, D]; the draws are bootstrap samples of the observed values of the cell's column.
    """
    N, D = x.shape
    out = x.new_zeros(N, D, K)
    for column in range(D):
        seen = x[~missing[:, column], column]
        if len(seen) == 0:
            out[:, column] = torch.randn(N, K, generator=generator, dtype=x.dtype, device=x.device)
        else:
            pick = torch.randint(len(seen), (N, K), generator=generator, device=x.device)
            out[:, column] = seen[pick]
    return out[missing]
