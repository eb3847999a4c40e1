"""What the registry says of a model, a method, a sampler; the capabilities by which they fit together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class ModelEntry(NamedTuple):
    """A model by name: `module.attribute` is its class, `provides` its capabilities; `method` is what it takes where
    none is named, `because` says why; `transform` is how its columns are encoded where nobody says; `family` is the
    class itself where a plugin gave it."""

    about: str
    module: str
    attribute: str
    provides: frozenset[str]
    method: str
    because: str
    transform: str
    example: str
    family: Any = None


class MethodEntry(NamedTuple):
    """A method by name: `module.METHOD` runs it; what it requires of the model and makes for samplers; the precision of
    the table that it is given; `gpu`: whether it computes on a GPU where there is one; `given`: the Method itself where
    a plugin gave it; `likelihood`: whether what it finds is meant to maximise the likelihood of the observed cells, so
    that EM can refit it for the bootstrap; `like`: the method whose settings suit a model for it too; `blocks`:
    `table.blocks` where nobody says; `own_blocks`: capabilities of models for which the method has blocks of its own;
    `tunes`: whether its objective can be had on held-out rows (Method.tune), to select by.
    """

    about: str
    module: str
    requires: frozenset[str]
    makes: frozenset[str]
    precision: str
    gpu: bool
    example: str
    given: Any = None
    likelihood: bool = True
    like: str | None = None
    blocks: str | None = None
    own_blocks: frozenset[str] = frozenset()
    tunes: bool = False


class SamplerEntry(NamedTuple):
    """A sampler of `vgi impute` by name: what it needs of the model and what it needs in the run."""

    about: str
    needs: frozenset[str]
    example: str


CAPABILITIES: Mapping[str, str] = {
    "bound": "a log density or a lower bound of one",
    "density": "a log density",
    "marginal": "exact marginals under any mask",
    "bijective": "an invertible map",
    "gaussian": "EM steps in closed form (a mixture of Gaussians)",
    "latent": "latent variables with an encoder",
    "relaxable": "latent variables that may hold a category",
    "conditionals": "fitted conditionals (a fit by vgi)",
    "imputations": "stored imputations (a fit by vgi, mcem, plmcmc or impute-then-fit)",
}
