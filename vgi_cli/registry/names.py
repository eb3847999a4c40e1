"""The names of the command line: models, methods, samplers and imputers, readable without importing torch.

Adding a family to the package is adding its file and one entry here; a plugin (registry/plugins.py) adds entries for as
long as a command runs. What a method or sampler needs is written as capabilities, so that a pair that cannot work is
refused before anything is read or loaded. The contract suite checks each entry against the class that it names.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping
from typing import Any

from vgi_cli.completers.catalogue import IMPUTERS as IMPUTERS  # their table lies beside them: a method reads it too
from vgi_cli.errors import UsageError, nearest
from vgi_cli.registry.entries import CAPABILITIES, MethodEntry, ModelEntry, SamplerEntry

MODELS: dict[str, ModelEntry] = {
    "fa": ModelEntry(
        "factor analysis: a Gaussian with a few factors and a noise variance per column",
        "vgi_cli.models.gaussian.fa",
        "FactorAnalysis",
        frozenset({"bound", "density", "marginal", "gaussian"}),
        "em",
        "exact for this model",
        "linear",
        "vgi fit data.csv --model fa --set model.factors=3",
    ),
    "mixture": ModelEntry(
        "Gaussian mixture, full or factor-analytic covariances",
        "vgi_cli.models.gaussian.mixture",
        "GaussianMixture",
        frozenset({"bound", "density", "marginal", "gaussian"}),
        "em",
        "exact for this model",
        "normal",
        "vgi fit data.csv --model mixture --set model.components=5",
    ),
    "flow": ModelEntry(
        "neural spline flow for tables that are far from Gaussian",
        "vgi_cli.models.flows.coupling",
        "Flow",
        frozenset({"bound", "density", "bijective"}),
        "vgi",
        "a flow has no exact method",
        "linear",
        "vgi fit data.csv --model flow --time-limit 10m",
    ),
    "flow-ar": ModelEntry(
        "autoregressive neural spline flow: each column given those before it",
        "vgi_cli.models.flows.autoregressive",
        "AutoregressiveFlow",
        frozenset({"bound", "density", "bijective"}),
        "vgi",
        "a flow has no exact method",
        "linear",
        "vgi fit data.csv --model flow-ar --time-limit 10m",
    ),
    "vae": ModelEntry(
        "variational autoencoder: a Gaussian decoder of a few latent variables",
        "vgi_cli.models.vae.vae",
        "VariationalAutoencoder",
        frozenset({"bound", "latent", "relaxable"}),
        "vbgi",
        "an autoencoder has no exact method",
        "linear",
        "vgi fit data.csv --model vae --set model.latents=5",
    ),
}

METHODS: dict[str, MethodEntry] = {
    "em": MethodEntry(
        "expectation maximisation, exact, for fa and mixture",
        "vgi_cli.methods.em.em",
        frozenset({"gaussian"}),
        frozenset(),
        "float64",
        False,
        "vgi fit data.csv --model fa --method em",
    ),
    "vgi": MethodEntry(
        "variational Gibbs inference, for every model",
        "vgi_cli.methods.vgi.vgi",
        frozenset({"bound"}),
        frozenset({"conditionals", "imputations"}),
        "float32",
        True,
        "vgi fit data.csv --model flow --method vgi --set method.imputations=10",
        tunes=True,
    ),
    "vbgi": MethodEntry(
        "variational Gibbs inference by blocks: columns missing together; latents and missing cells of a vae",
        "vgi_cli.methods.vgi.vbgi",
        frozenset({"bound"}),
        frozenset({"conditionals", "imputations"}),
        "float32",
        True,
        "vgi fit data.csv --model flow --method vbgi",
        like="vgi",
        blocks="auto",
        own_blocks=frozenset({"latent"}),
        tunes=True,
    ),
    "vbgi-m": MethodEntry(
        "variational Gibbs inference by blocks with the missing cells integrated out of the decoder, for vae",
        "vgi_cli.methods.vgi.vbgi_m",
        frozenset({"bound", "latent"}),
        frozenset({"imputations"}),
        "float32",
        True,
        "vgi fit data.csv --model vae --method vbgi-m",
        like="vgi",
        tunes=True,
    ),
    "mcem": MethodEntry(
        "Monte-Carlo EM by gradients: imputations drawn exactly, for fa and mixture",
        "vgi_cli.methods.em.mcem",
        frozenset({"marginal"}),
        frozenset({"imputations"}),
        "float64",
        False,
        "vgi fit data.csv --model fa --method mcem",
    ),
    "plmcmc": MethodEntry(
        "Monte-Carlo EM of a flow by projected latent Markov chains, the paper's competitor of vgi",
        "vgi_cli.methods.plmcmc",
        frozenset({"bijective"}),
        frozenset({"imputations"}),
        "float32",
        True,
        "vgi fit data.csv --model flow --method plmcmc --epochs 100",
    ),
    "complete": MethodEntry(
        "maximum likelihood by gradients, for tables without holes",
        "vgi_cli.methods.complete",
        frozenset({"bound"}),
        frozenset(),
        "float32",
        True,
        "vgi fit data.csv --model flow --method complete",
    ),
    "mvae": MethodEntry(
        "evidence lower bound of the observed cells, for vae",
        "vgi_cli.methods.bounds.mvae",
        frozenset({"latent"}),
        frozenset(),
        "float32",
        True,
        "vgi fit data.csv --model vae --method mvae",
        tunes=True,
    ),
    "miwae": MethodEntry(
        "importance-weighted bound of the observed cells, for vae",
        "vgi_cli.methods.bounds.miwae",
        frozenset({"latent"}),
        frozenset(),
        "float32",
        True,
        "vgi fit data.csv --model vae --method miwae --set method.samples=50",
        tunes=True,
    ),
    "hivae": MethodEntry(
        "evidence lower bound of the observed cells with a mixture as prior, its category relaxed, for vae",
        "vgi_cli.methods.bounds.hivae",
        frozenset({"relaxable"}),
        frozenset(),
        "float32",
        True,
        "vgi fit data.csv --model vae --method hivae --set model.components=5",
        tunes=True,
    ),
    "partial-vae": MethodEntry(
        "evidence lower bound whose encoder sees the set of observed cells, for vae",
        "vgi_cli.methods.bounds.partial_vae",
        frozenset({"latent"}),
        frozenset(),
        "float32",
        True,
        "vgi fit data.csv --model vae --method partial-vae",
        tunes=True,
    ),
    "impute-then-fit": MethodEntry(
        "maximum likelihood on a table that an imputer filled first, for every model",
        "vgi_cli.methods.impute_then_fit",
        frozenset({"bound"}),
        frozenset({"imputations"}),
        "float32",
        True,
        "vgi fit data.csv --model fa --method impute-then-fit --imputer empirical",
        likelihood=False,
    ),
}

SAMPLERS: Mapping[str, SamplerEntry] = {
    "exact": SamplerEntry(
        "independent draws in closed form (fa, mixture)",
        frozenset({"marginal"}),
        "vgi impute --checkpoint run1 --sampler exact",
    ),
    "latent": SamplerEntry(
        "Markov chains on latents and missing cells, the encoder as proposal (vae)",
        frozenset({"latent"}),
        "vgi impute --checkpoint run1 --sampler latent",
    ),
    "metropolis": SamplerEntry(
        "Metropolis-within-Gibbs on the model, fitted conditionals as proposals",
        frozenset({"density", "conditionals"}),
        "vgi impute --checkpoint run1 --sampler metropolis",
    ),
    "gibbs": SamplerEntry(
        "pseudo-Gibbs: every draw of the fitted conditionals is accepted",
        frozenset({"conditionals"}),
        "vgi impute --checkpoint run1 --sampler gibbs",
    ),
    "plmcmc": SamplerEntry(
        "projected latent Markov chains, for flows without fitted conditionals",
        frozenset({"bijective"}),
        "vgi impute --checkpoint run1 --sampler plmcmc",
    ),
    "chains": SamplerEntry(
        "what the training chains hold, for the table that was fitted",
        frozenset({"imputations"}),
        "vgi impute --checkpoint run1 --sampler chains",
    ),
}

NAMES_METHOD: Mapping[str, str] = {"method.imputer": "impute-then-fit"}
"""Settings that say by themselves which method is meant, where none is named."""


def words(capabilities: frozenset[str]) -> str:
    """Capabilities in words."""
    return " and ".join(CAPABILITIES[name] for name in sorted(capabilities))


def _nearest(name: str, known: Iterable[str]) -> str:
    """The nearest name of a model or a method; where no plugin was said, that one may be lacking."""
    plugged = any(entry.family for entry in MODELS.values()) or any(entry.given for entry in METHODS.values())
    return nearest(name, known) + ("" if plugged else " (a name from a plugin needs --plugin FILE.py)")


def model_entry(name: str) -> ModelEntry:
    """The model of that name; UsageError with the nearest name otherwise."""
    if name not in MODELS:
        raise UsageError(f"unknown model '{name}'", _nearest(name, [*MODELS, "auto"]))
    return MODELS[name]


def method_entry(name: str) -> MethodEntry:
    """The method of that name; UsageError with the nearest name otherwise."""
    if name not in METHODS:
        raise UsageError(f"unknown method '{name}'", _nearest(name, METHODS))
    return METHODS[name]


def check_names(model: str | None, method: str | None) -> None:
    """UsageError for a model or a method that does not exist; none: not said."""
    if model not in (None, "auto"):
        model_entry(str(model))
    if method is not None:
        method_entry(method)


def check_pair(model: str, method: str) -> None:
    """Refuse a model and a method that cannot work together, with what would work."""
    provides, requires = model_entry(model).provides, method_entry(method).requires
    lacking = requires - provides
    if lacking:
        methods = [name for name, entry in METHODS.items() if entry.requires <= provides]
        models = [name for name, entry in MODELS.items() if requires <= entry.provides]
        raise UsageError(
            f"method '{method}' needs {words(lacking)}, which model '{model}' does not have",
            f"with --model {model} use --method {' or '.join(methods)}; "
            f"--method {method} works with --model {' or '.join(models)}",
        )


def available(model: str, method: str) -> frozenset[str]:
    """What a run of this model by this method offers to a sampler."""
    return MODELS[model].provides | METHODS[method].makes


def choose_sampler(name: str, model: str, method: str) -> str:
    """The sampler to use: `auto` takes the first that can work, in the order of the table."""
    offers = available(model, method)
    working = [key for key, entry in SAMPLERS.items() if entry.needs <= offers]
    if name == "auto":
        if not working:
            raise UsageError(f"no sampler works for model '{model}' fitted by '{method}'", "fit again by vgi")
        return working[0]
    if name not in SAMPLERS:
        raise UsageError(f"unknown sampler '{name}'", nearest(name, [*SAMPLERS, "auto"]))
    lacking = SAMPLERS[name].needs - offers
    if lacking:
        raise UsageError(
            f"sampler '{name}' needs {words(lacking)}, which a run of model '{model}' by method '{method}' lacks",
            "this run can use --sampler " + " or ".join(working),
        )
    return name


def load_model(name: str) -> Any:
    """The class of a model (imports torch)."""
    entry = model_entry(name)
    return entry.family or getattr(importlib.import_module(entry.module), entry.attribute)


def load_method(name: str) -> Any:
    """The Method of a name (imports torch)."""
    entry = method_entry(name)
    return entry.given or importlib.import_module(entry.module).METHOD
