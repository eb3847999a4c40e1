"""Bootstrap refits: the parameter uncertainty of proper multiple imputation (Little and Rubin 2002, section 10.2).

Each refit climbs the same penalised objective with other row weights. Rows weigh as often as they were drawn with
replacement (`multinomial`), or by a flat Dirichlet law (`bayesian`, Rubin 1981), which is smooth and leaves no row out.

A likelihood with one top (one component) is climbed from the fitted parameters. That of a mixture has many, and which
one EM finds is uncertainty too: its refits start anew, from the bootstrap rows with their holes filled by a draw under
the fitted model (that draw is the warm part: no quick Gaussian fit is needed, and a few iterations suffice). Measured
on real tables this is what brings the coverage of a mixture's imputations to its nominal value, and it lowers their
CRPS as any averaging over unstable fits does (docs/defaults.md).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Literal

import torch
from torch import Tensor

from vgi_cli.data import TensorTable
from vgi_cli.maths.noise import KeyedNoise, numbered
from vgi_cli.methods.em import EmConfig
from vgi_cli.methods.em_steps import climb
from vgi_cli.models.gaussian_family import GaussianFamily, em_table, step_work

FEWEST_EPOCHS, MOST_EPOCHS, WORK = 3, 12, 1e9
"""Iterations of a refit: as many as WORK multiplications allow, within these ends. Counted, never timed."""
ROWS = 512
"""Rows that are filled at a time: bounds the memory of their conditionals."""


class _Stopped(Exception):
    """The caller wants no more."""


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
    epochs: int | None = None,
    tolerance: float = 1e-4,
    stop: Callable[[], bool] | None = None,
) -> Iterator[dict[str, Tensor]]:
    """The parameters (state_dict, float64) of `count` refits of a fitted model, which is left alone.

    epochs  iterations of a refit (each is up to three EM steps); none: by the work that they are
    stop    asked before each refit and between its iterations; where it is true, that refit and the others are left out

    Deterministic given the generator; the first refits are the same whatever the count.
    """
    used = ~table.missing.all(1)
    x, missing = table.x[used].to(torch.float64), table.missing[used]
    fitted = copy.deepcopy(model).double()
    penalty = fitted.penalty(config.pooling, config.floor)
    base = em_table(x, missing)
    if epochs is None:
        epochs = min(max(int(WORK / (3 * step_work(fitted, len(x)))), FEWEST_EPOCHS), MOST_EPOCHS)
    anew = fitted.gaussians.K > 1
    seed = int(torch.randint(2**62, (), generator=generator))

    def each(done: int) -> None:
        if stop is not None and stop():
            raise _Stopped

    for number in range(count):
        if stop is not None and stop():
            return
        refit = copy.deepcopy(fitted)
        weights = row_weights(x.shape[0], kind, generator)
        if anew:
            rows = torch.multinomial(weights, x.shape[0], replacement=True, generator=generator)
            refit.initialise(_filled(fitted, x, missing, seed, number)[rows], generator)
        try:
            climb(refit, base.reweighted(weights), penalty, epochs=epochs, tolerance=tolerance, each=each)
        except _Stopped:
            return
        yield {name: value.detach().clone() for name, value in refit.state_dict().items()}


def _filled(model: GaussianFamily, x: Tensor, missing: Tensor, seed: int, number: int) -> Tensor:
    """[N, D] the rows with their holes filled by draw `number` under the model."""
    parts = []
    for start in range(0, x.shape[0], ROWS):
        rows = torch.arange(start, min(start + ROWS, x.shape[0]))
        noise = KeyedNoise(seed, numbered("column", x.shape[1]), rows, torch.tensor([number]), "restart")
        parts.append(model.conditional(x[rows], missing[rows]).sample(noise)[0])
    return torch.cat(parts)
