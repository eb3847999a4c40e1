"""Bootstrap refits: the parameter uncertainty of proper multiple imputation (Little and Rubin 2002, section 10.2).

Each refit starts at the fitted parameters and climbs the same penalised objective with other row weights. Rows
weigh as often as they were drawn with replacement (`multinomial`), or by a flat Dirichlet law (`bayesian`, Rubin 1981),
which is smooth and leaves no row out.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Literal

import torch
from torch import Tensor

from vgi_cli.data import TensorTable
from vgi_cli.methods.em import EmConfig
from vgi_cli.methods.em_steps import climb
from vgi_cli.models.gaussian_family import GaussianFamily, em_table


def row_weights(N: int, kind: Literal["multinomial", "bayesian"], generator: torch.Generator) -> Tensor:
    """Weights [N] of one bootstrap sample, with mean 1."""
    if kind == "multinomial":
        return torch.bincount(torch.randint(N, (N,), generator=generator), minlength=N).to(torch.float64)
    draws = -torch.log1p(-torch.rand(N, dtype=torch.float64, generator=generator))
    return draws / draws.mean()


def refits(
    model: GaussianFamily,
    table: TensorTable,
    config: EmConfig,
    count: int,
    generator: torch.Generator,
    *,
    kind: Literal["multinomial", "bayesian"] = "multinomial",
    epochs: int = 10,
    tolerance: float = 1e-4,
) -> Iterator[dict[str, Tensor]]:
    """The parameters (state_dict, float64) of `count` warm-started refits of a fitted model, which is left alone."""
    used = ~table.missing.all(1)
    x, missing = table.x[used], table.missing[used]
    penalty = model.penalty(config.pooling, config.floor)
    base = em_table(x, missing)
    for _ in range(count):
        refit = copy.deepcopy(model).double()
        weights = row_weights(x.shape[0], kind, generator)
        climb(refit, base.reweighted(weights), penalty, epochs=epochs, tolerance=tolerance)
        yield {name: value.detach().clone() for name, value in refit.state_dict().items()}
