"""Settings of `vgi`: the keys `method.*`, `optim.*` and `epochs` of a recipe."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from vgi_cli.chains.placement import Setting
from vgi_cli.methods.base import MethodConfig


class OptimConfig(MethodConfig):
    """Optimisation: Adam for the model, AMSGrad for the conditionals (paper, section 4.3).

    lr                   of the model; none: the model family's own
    lr_conditionals      of the conditionals
    batch_size           rows of the table per step (each incomplete row brings its K chains); none: by N
    schedule             of both learning rates over the main stage: half a cosine to 0, or constant
    clip                 largest norm of a gradient; none: no clipping
    average              share of the main stage, at its end, over which the model's parameters are averaged
    warmup_conditionals  epochs of Algorithm 2
    warmup_model         epochs of Algorithm 4
    """

    lr: float | None = Field(None, gt=0)
    lr_conditionals: float = Field(3e-3, gt=0)
    batch_size: int | None = Field(None, ge=1)
    schedule: Literal["cosine", "constant"] = "cosine"
    clip: float | None = Field(5.0, gt=0)
    average: float = Field(0.25, ge=0, lt=1)
    warmup_conditionals: int = Field(10, ge=0)
    warmup_model: int = Field(5, ge=0)


class VgiConfig(MethodConfig):
    """The method (symbols: notation.py).

    imputations      K
    gibbs_steps      G
    blocks_per_row   M
    accept           `metropolis` (the chain targets the model) or `gibbs` (the paper: every draw is kept)
    scan             Metropolis: accept each `step`, or the whole `path` of G proposals at once
    gradient         where theta's gradient is taken: `objective`, at the redrawn block (Algorithm 3), or `accepted`,
                     at the state of the chain (Fisher's identity)
    kernel           `standard` hides a column's previous value from its conditional, `extended` shows it
    layout           `independent` networks, a `shared` trunk with one head per column, or trunk and head shared, the
                     head `modulated` by an embedding of the column; `auto`: shared up to 64 columns, modulated beyond
    conditional      family: `gaussian` or `spline`
    initial          f0: `empirical` marginals, or draws from a quick `em` fit of a Gaussian
    trunk, hidden    widths of the layers of the trunk and of the heads
    spline_steps, spline_bins   splines of each conditional and their bins
    chains           where the imputations live: `auto` (where they fit), `device`, `host` or `disk`; changes no result
    epochs           of the main stage; none: by N
    """

    imputations: int = Field(5, ge=1)
    gibbs_steps: int = Field(3, ge=1)
    blocks_per_row: int = Field(1, ge=1)
    accept: Literal["gibbs", "metropolis"] = "metropolis"
    scan: Literal["step", "path"] = "step"
    gradient: Literal["objective", "accepted"] = "objective"
    kernel: Literal["standard", "extended"] = "standard"
    layout: Literal["auto", "independent", "shared", "modulated"] = "auto"
    conditional: Literal["gaussian", "spline"] = "gaussian"
    initial: Literal["empirical", "em"] = "empirical"
    trunk: tuple[int, ...] = (64, 64)
    hidden: tuple[int, ...] = (32,)
    spline_steps: int = Field(1, ge=1)
    spline_bins: int = Field(8, ge=2)
    chains: Setting = "auto"
    epochs: int | None = Field(None, ge=1)
    optim: OptimConfig = OptimConfig()
