"""EM for factor analysis whose E step takes the missing cells of a row for independent of each other given the observed
ones (paper, section 2.2 and figure 2).

In place of p(x_mis | x_obs) stands the nearest law prod_j q_j(x_j | x_obs), in closed form
(`FactorObserved.factorised`). What climbs, and never falls, is the bound

    sum_r w_r [ log p(x_obs of row r) - KL(prod_j q_j || p(x_mis | x_obs)) ]  +  the penalty of `fa` (em.py).

It is the log-likelihood where no row has more than one hole. Elsewhere its top lies where the missing cells tell little
of each other: the fit has too little correlation, the more so the more is missing, and more rows do not cure that. The
method is there to show this bias.
"""

from __future__ import annotations

from typing import cast

import torch

from vgi_cli.data import TensorTable
from vgi_cli.methods.base import Method
from vgi_cli.methods.em import em
from vgi_cli.models.base import Model
from vgi_cli.models.gaussian.fa import FactorAnalysis
from vgi_cli.models.gaussian.family import EmTable, EmValue, GaussianFamily, InPieces, Sums
from vgi_cli.models.gaussian.gaussians import Penalty


def step(model: GaussianFamily, table: EmTable, penalty: Penalty, begun: Sums) -> InPieces[EmValue]:
    """One step of a factor analysis, which never pauses."""
    yield from ()
    return cast(FactorAnalysis, model).factorised_step(table, penalty)


def init(model: Model, table: TensorTable, config: em.EmConfig, generator: torch.Generator) -> em.EmState:
    """As `em` begins."""
    return em.begin(model, table, config, generator, step)


METHOD = Method(Config=em.EmConfig, init=init, run=em.run, warning=em.warning)
