"""Posterior draws of a mixture that was fitted by EM, in place of bootstrap refits: where they start, how many sweeps.

The chain (models/gaussian/posterior.py) starts from the rows with their holes filled by a draw under the fit, cut into
clusters by k-means: every component holds rows at first, and those that the rows do not need lose theirs.

Work is counted, never timed: BURN sweeps and THIN for each draw, fewer where these would be more than what the same
number of refits, DRAWS, may take, but at least FEWEST of both.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from vgi_cli.completers.base import never
from vgi_cli.data import TensorTable
from vgi_cli.layout import Layout
from vgi_cli.methods.em.bootstrap import PASSES, WORK, filled
from vgi_cli.models.gaussian.family import em_table, step_work
from vgi_cli.models.gaussian.mixture import GaussianMixture, MixtureConfig
from vgi_cli.models.gaussian.posterior import MixturePosterior, sample
from vgi_cli.models.gaussian.widened import Widened

BURN, THIN = 60, 8
FEWEST_BURN, FEWEST_THIN = 20, 2
DRAWS = 20
"""For whose work a chain is sized."""
COMPONENTS = 16
"""Of the draws, where the rows chose those of the fit and it has fewer."""
ROWS = 5
"""Rows for each of them at least."""


class Size(NamedTuple):
    """Sweeps before the first draw is kept (and THIN more), and between two draws."""

    burn: int
    thin: int


def components(K: int, N: int) -> int:
    """How many components the draws have for N rows, where a fit found K."""
    return max(K, min(COMPONENTS, N // ROWS), 1)


def size_of(config: MixtureConfig, table: TensorTable) -> Size:
    """The size of a chain, whatever the number of its draws; a pure function of sizes."""
    model = GaussianMixture.build(config, table.layout)
    each = table.N * (step_work(model, 1) + PASSES * model.gaussians.cells())
    share = min(1.0, DRAWS * WORK / (each * (BURN + DRAWS * THIN)))
    return Size(max(round(share * BURN), FEWEST_BURN), max(round(share * THIN), FEWEST_THIN))


def wide(model: GaussianMixture, config: MixtureConfig, layout: Layout) -> GaussianMixture:
    """A mixture of the components of a config, in float64, with the broad ones of a model; nothing else of it."""
    other = GaussianMixture.build(config, layout).double()
    mine, its = model.gaussians, other.gaussians
    if isinstance(mine, Widened) and isinstance(its, Widened):
        its.broad.load_state_dict(mine.broad.state_dict())
    return other


def draws(
    model: GaussianMixture,
    config: MixtureConfig,
    table: TensorTable,
    count: int,
    generator: torch.Generator,
    *,
    stop: Callable[[], bool] = never,
    progress: Callable[[float], None] = lambda _: None,
) -> Iterator[dict[str, Tensor]]:
    """Parameters (state_dict, float64) of models of a config, drawn from their posterior; the first ones are the same
    whatever the count.

    model      the fit, left alone
    table      what was fitted, fully missing rows left out
    generator  its next number is the seed of all
    stop       asked between sweeps; where it is true, the draws that are left are left out
    """
    seed, other = torch.randint(2**62, (2,), generator=generator).tolist()
    rng = np.random.default_rng(seed)
    fitted = copy.deepcopy(model).double()
    x, missing = table.x.to(torch.float64), table.missing
    own = wide(fitted, config, table.layout)
    with torch.no_grad():
        broad = {n: v.clone() for n, v in own.state_dict().items() if ".broad." in n}
        own.initialise(filled(fitted, x, missing, other), generator)
        own.load_state_dict({**own.state_dict(), **broad})
    posterior = MixturePosterior(own, em_table(x, missing))
    size = size_of(config, table)
    total, made = size.burn + count * size.thin, 0
    for done, state in enumerate(sample(posterior, posterior.start(), rng, size.burn, size.thin), 1):
        progress(done / total)
        if state is not None:
            yield posterior.state_dict(state)
            made += 1
        if made == count or stop():
            return
