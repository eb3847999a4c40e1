"""Settings of `vgi`: the keys `method.*`, `optim.*` and `epochs` of a recipe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, TypeAlias

from pydantic import BeforeValidator
from pydantic_core import PydanticCustomError

from vgi_cli.chains.store.placement import Setting
from vgi_cli.methods.optimisation import AscentConfig, GradientConfig
from vgi_cli.ranges import (
    Bins,
    Blocks,
    Columns,
    FlowSteps,
    GibbsSteps,
    Imputations,
    Layers,
    Rate,
    WarmUp,
)
from vgi_cli.registry.names import FAMILIES

Layout: TypeAlias = Literal["independent", "shared", "modulated"]


def _family(name: object) -> object:
    """The name of a family of conditionals; an error as of pydantic's Literal where there is none of that name."""
    if not isinstance(name, str) or name not in FAMILIES:
        *first, last = (repr(known) for known in FAMILIES)
        expected = f"{', '.join(first)} or {last}"
        raise PydanticCustomError("literal_error", "Input should be {expected}", {"expected": expected})
    return name


class OptimConfig(GradientConfig):
    """Optimisation: Adam for the model, AMSGrad for the conditionals (paper, section 4.3).

    lr_conditionals      of the conditionals
    warmup_conditionals  epochs of Algorithm 2
    warmup_model         epochs of Algorithm 4
    """

    lr_conditionals: Rate = 3e-3
    warmup_conditionals: WarmUp = 10
    warmup_model: WarmUp = 5


class VgiConfig(AscentConfig):
    """The method (symbols: notation.py).

    imputations      K
    gibbs_steps      G
    blocks_per_row   M
    accept           `metropolis` (the chain targets the model) or `gibbs` (the paper: every draw is kept)
    scan             `step`: one column after the other; `path`: the same, G proposals accepted or rejected together
                     (Metropolis); `block`: B columns redrawn together at each step; `auto`: block in rows with many
                     holes (methods/vgi/build.py), else step
    block_columns    B, also of the objective; None: by the number of holes, 1 where the scan is not by blocks
    gradient         where theta's gradient is taken: `objective`, at the redrawn block (Algorithm 3), or `accepted`,
                     at the state of the chain (Fisher's identity)
    cells            `vbgi` on a model with latents: all missing cells of a row `together`, by one network, or each by
                     a conditional of its own (`single`)
    kernel           `standard` hides a column's previous value from its conditional, `extended` shows it
    layout           `independent` networks, a `shared` trunk with one head per column, or trunk and head shared, the
                     head `modulated` by an embedding of the column; `auto`: shared up to 64 columns, modulated beyond
    conditional      family: `gaussian`, `spline` (registry/names.py)
    initial          f0: `empirical` marginals, or draws from a quick `em` fit of a Gaussian
    trunk, hidden    widths of the layers of the trunk and of the heads
    spline_steps, spline_bins   splines of each conditional and their bins
    chains           where the imputations live: `auto` (where they fit), `device`, `host` or `disk`; changes no result
    epochs           of the main stage; None: by N
    """

    imputations: Imputations = 5
    gibbs_steps: GibbsSteps = 3
    blocks_per_row: Blocks = 1
    accept: Literal["gibbs", "metropolis"] = "metropolis"
    scan: Literal["auto", "step", "path", "block"] = "auto"
    block_columns: Columns | None = None
    gradient: Literal["objective", "accepted"] = "objective"
    cells: Literal["together", "single"] = "together"
    kernel: Literal["standard", "extended"] = "standard"
    layout: Literal["auto"] | Layout = "auto"
    conditional: Annotated[str, BeforeValidator(_family)] = "gaussian"
    initial: Literal["empirical", "em"] = "empirical"
    trunk: Layers = (64, 64)
    hidden: Layers = (32,)
    spline_steps: FlowSteps = 1
    spline_bins: Bins = 8
    chains: Setting = "auto"
    optim: OptimConfig = OptimConfig()

    def without_effect(self) -> Mapping[str, str]:
        why: dict[str, str] = {}
        if self.conditional == "gaussian":
            why |= dict.fromkeys(("spline_steps", "spline_bins"), "the conditionals are Gaussian")
        if self.layout == "independent":
            why["trunk"] = "with method.layout=independent every column has its own network, of layers method.hidden"
        if self.accept == "gibbs" and self.scan == "path":
            why["scan"] = "with method.accept=gibbs every step is kept, one by one"
        return why
