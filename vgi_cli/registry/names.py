"""The names of the command line: one table for each extension point, readable without importing torch.

Adding a thing to the package is adding its file and one entry here; a plugin (registry/plugins.py) brings entries of
its own. What a method or sampler needs is written as capabilities, so that a pair that cannot work is refused before
anything is read or loaded. The contract suites check each entry against what it names.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Collection, Mapping

from vgi_cli.errors import UsageError
from vgi_cli.registry.entries import CompleterTraits, Entry, ExtensionPoint, MethodTraits, ModelTraits, SamplerTraits

CAPABILITIES: Mapping[str, str] = {
    "bound": "a log density or a lower bound of one",
    "density": "a log density",
    "marginal": "exact marginals under any mask",
    "bijective": "an invertible map",
    "discrete": "a density over levels beside numbers",
    "gaussian": "EM steps in closed form (a mixture of Gaussians)",
    "factors": "one Gaussian with factors",
    "latent": "latent variables with an encoder",
    "relaxable": "latent variables that may hold a category",
    "conditionals": "fitted conditionals (a fit by vgi)",
    "imputations": "stored imputations (a fit by vgi, mcem, plmcmc or impute-then-fit)",
}
"""What a model is by its class, and (the last two) what a method leaves for samplers."""

NUMBERS_ONLY = frozenset({"bijective"})
"""Capabilities that a model has for rows of numbers, and for no others."""

MODELS = ExtensionPoint(
    "model",
    {
        "fa": Entry(
            "factor analysis: a Gaussian with a few factors and a noise variance per column, of numbers only",
            "vgi_cli.models.gaussian.fa:FactorAnalysis",
            ModelTraits("em", "exact for this model", "linear"),
            provides=frozenset({"bound", "density", "marginal", "gaussian", "factors"}),
        ),
        "mixture": Entry(
            "Gaussian mixture, full or factor-analytic covariances; of columns of levels too, by tables",
            "vgi_cli.models.gaussian.mixture:GaussianMixture",
            ModelTraits("em", "exact for this model", "normal"),
            provides=frozenset({"bound", "density", "marginal", "gaussian", "discrete"}),
        ),
        "flow": Entry(
            "neural spline flow for tables that are far from Gaussian",
            "vgi_cli.models.flows.coupling:Flow",
            ModelTraits("vgi", "a flow has no exact method", "linear"),
            provides=frozenset({"bound", "density", "bijective", "discrete"}),
        ),
        "flow-ar": Entry(
            "autoregressive neural spline flow: each column given those before it",
            "vgi_cli.models.flows.autoregressive:AutoregressiveFlow",
            ModelTraits("vgi", "a flow has no exact method", "linear"),
            provides=frozenset({"bound", "density", "bijective", "discrete"}),
        ),
        "vae": Entry(
            "variational autoencoder: a few latent variables, and a decoder with a likelihood for each kind of column",
            "vgi_cli.models.vae.vae:VariationalAutoencoder",
            ModelTraits("vbgi", "an autoencoder has no exact method", "linear"),
            provides=frozenset({"bound", "discrete", "latent", "relaxable"}),
        ),
    },
    reserved=("auto",),
)

METHODS = ExtensionPoint(
    "method",
    {
        "em": Entry(
            "expectation maximisation, exact, for fa and mixture",
            "vgi_cli.methods.em.em:METHOD",
            MethodTraits(precision="float64", gpu=False, shared=True),
            needs=frozenset({"gaussian"}),
        ),
        "em-factorised": Entry(
            "expectation maximisation with missing cells taken for independent, which biases the fit, for fa",
            "vgi_cli.methods.em.factorised:METHOD",
            MethodTraits(precision="float64", gpu=False, likelihood=False, like="em"),
            needs=frozenset({"gaussian", "factors"}),
        ),
        "vgi": Entry(
            "variational Gibbs inference, for every model",
            "vgi_cli.methods.vgi.vgi:METHOD",
            MethodTraits(shared=True, unshared=frozenset({"latent"})),
            needs=frozenset({"bound"}),
            provides=frozenset({"conditionals", "imputations"}),
        ),
        "vbgi": Entry(
            "variational Gibbs inference by blocks: columns missing together; latents and missing cells of a vae",
            "vgi_cli.methods.vgi.vgi:VBGI",
            MethodTraits(like="vgi", blocks="auto", own_blocks=frozenset({"latent"}), shared=True),
            needs=frozenset({"bound"}),
            provides=frozenset({"conditionals", "imputations"}),
        ),
        "vbgi-m": Entry(
            "variational Gibbs inference by blocks with the missing cells integrated out of the decoder, for vae",
            "vgi_cli.methods.vgi.vgi:VBGI_M",
            MethodTraits(like="vgi", shared=True),
            needs=frozenset({"bound", "latent"}),
            provides=frozenset({"imputations"}),
        ),
        "mcem": Entry(
            "Monte-Carlo EM by gradients: imputations drawn exactly, for fa and mixture",
            "vgi_cli.methods.em.mcem:METHOD",
            MethodTraits(precision="float64", gpu=False),
            needs=frozenset({"marginal"}),
            provides=frozenset({"imputations"}),
        ),
        "plmcmc": Entry(
            "Monte-Carlo EM of a flow by projected latent Markov chains, the paper's competitor of vgi",
            "vgi_cli.methods.plmcmc:METHOD",
            MethodTraits(),
            needs=frozenset({"bijective"}),
            provides=frozenset({"imputations"}),
        ),
        "complete": Entry(
            "maximum likelihood by gradients, for tables without holes",
            "vgi_cli.methods.gradient:COMPLETE",
            MethodTraits(shared=True, unshared=frozenset({"latent"})),
            needs=frozenset({"bound"}),
        ),
        "mvae": Entry(
            "evidence lower bound of the observed cells, for vae",
            "vgi_cli.methods.bounds:MVAE",
            MethodTraits(shared=True),
            needs=frozenset({"latent"}),
        ),
        "miwae": Entry(
            "importance-weighted bound of the observed cells, for vae",
            "vgi_cli.methods.bounds:MIWAE",
            MethodTraits(shared=True),
            needs=frozenset({"latent"}),
        ),
        "hivae": Entry(
            "evidence lower bound of the observed cells with a mixture as prior, its category relaxed, for vae",
            "vgi_cli.methods.bounds:HIVAE",
            MethodTraits(shared=True),
            needs=frozenset({"relaxable"}),
        ),
        "partial-vae": Entry(
            "evidence lower bound whose encoder sees the set of observed cells, for vae",
            "vgi_cli.methods.bounds:PARTIAL_VAE",
            MethodTraits(shared=True),
            needs=frozenset({"latent"}),
        ),
        "impute-then-fit": Entry(
            "maximum likelihood on a table that an imputer filled first, for every model",
            "vgi_cli.methods.impute_then_fit:METHOD",
            MethodTraits(likelihood=False),
            needs=frozenset({"bound"}),
            provides=frozenset({"imputations"}),
        ),
    },
)

FAMILIES: ExtensionPoint[None] = ExtensionPoint(
    "family",
    {
        "gaussian": Entry(
            "normal",
            "vgi_cli.conditionals.families.gaussian:NormalFamily",
            None,
        ),
        "spline": Entry(
            "an affine map of splines of a normal",
            "vgi_cli.conditionals.families.spline:SplineFamily",
            None,
        ),
    },
)

KINDS: ExtensionPoint[None] = ExtensionPoint(
    "kind",
    {
        "carried": Entry("a column that is not modelled", "vgi_cli.columns.base:Carried", None),
        "numeric": Entry("numbers", "vgi_cli.columns.number:Number", None),
        "integer": Entry("whole numbers", "vgi_cli.columns.number:Number", None),
        "bounded": Entry("numbers within limits that were named", "vgi_cli.columns.bounded:Bounded", None),
        "zero-inflated": Entry("numbers, many of them zero", "vgi_cli.columns.zero_inflated:ZeroInflated", None),
        "categorical": Entry("levels without an order", "vgi_cli.columns.categorical:Categorical", None),
        "ordinal": Entry("levels in an order", "vgi_cli.columns.ordinal:Ordinal", None),
        "boolean": Entry("truth values", "vgi_cli.columns.boolean:Boolean", None),
        "constant-level": Entry("a text that does not vary", "vgi_cli.columns.categorical:ConstantLevel", None),
        "date": Entry("days", "vgi_cli.columns.datetime:Moment", None),
        "datetime": Entry("days with a time", "vgi_cli.columns.datetime:Moment", None),
        "time": Entry("times of day", "vgi_cli.columns.datetime:Moment", None),
        "duration": Entry("spans of time", "vgi_cli.columns.datetime:Moment", None),
        "constant-moment": Entry("a date or time that does not vary", "vgi_cli.columns.datetime:ConstantMoment", None),
        "constant": Entry("a number that does not vary", "vgi_cli.columns.number:Constant", None),
        "empty": Entry("a column without a cell", "vgi_cli.columns.base:Empty", None),
    },
)
"""A column is of the last kind that takes it."""

SAMPLERS = ExtensionPoint(
    "sampler",
    {
        "exact": Entry(
            "independent draws in closed form (fa, mixture)",
            "vgi_cli.samplers.exact:build",
            SamplerTraits(precision="float64", refits=True, direct=True),
            needs=frozenset({"marginal"}),
        ),
        "trees": Entry(
            "exact draws, revised by trees where they predict a cell better (mixture)",
            "vgi_cli.samplers.trees:build",
            SamplerTraits(precision="float64", refits=True, direct=True),
            needs=frozenset({"marginal", "discrete"}),
        ),
        "latent": Entry(
            "Markov chains on latents and missing cells, the encoder as proposal (vae)",
            "vgi_cli.samplers.latent:build",
            SamplerTraits(refits=True),
            needs=frozenset({"latent"}),
        ),
        "metropolis": Entry(
            "Metropolis-within-Gibbs on the model, fitted conditionals as proposals",
            "vgi_cli.samplers.metropolis:build",
            SamplerTraits(refits=True),
            needs=frozenset({"density", "conditionals"}),
        ),
        "gibbs": Entry(
            "pseudo-Gibbs: every draw of the fitted conditionals is accepted",
            "vgi_cli.samplers.gibbs:build",
            SamplerTraits(),
            needs=frozenset({"conditionals"}),
        ),
        "plmcmc": Entry(
            "projected latent Markov chains, for flows without fitted conditionals",
            "vgi_cli.samplers.plmcmc:build",
            SamplerTraits(refits=True),
            needs=frozenset({"bijective"}),
        ),
        "chains": Entry(
            "what the training chains hold, for the table that was fitted",
            "vgi_cli.samplers.chains:build",
            SamplerTraits(stored=True),
            needs=frozenset({"imputations"}),
        ),
    },
    reserved=("auto",),
)

COMPLETERS = ExtensionPoint(
    "imputer",
    {
        "empirical": Entry(
            "draws from the observed values of the cell's column",
            "vgi_cli.completers.base:empirical",
            CompleterTraits({"imputations": 5}),
        ),
        "mean": Entry(
            "the mean of the observed values of the cell's column, once",
            "vgi_cli.completers.base:mean",
            CompleterTraits({"imputations": 1}, single=True),
        ),
        "mice": Entry(
            "chained equations: Bayesian linear regressions, beside levels with matching; levels by logistic ones",
            "vgi_cli.completers.regressions:mice",
            CompleterTraits({"imputations": 5, "iterations": 10}, proper=True),
        ),
        "missforest": Entry(
            "chained random forests, their predictions (scikit-learn)",
            "vgi_cli.completers.iterative:missforest",
            CompleterTraits(
                {"imputations": 5, "iterations": 10, "trees": 100, "depth": None}, package=("scikit-learn", "sklearn")
            ),
        ),
        "miceforest": Entry(
            "chained boosted trees with predictive mean matching (LightGBM)",
            "vgi_cli.completers.boosted:miceforest",
            CompleterTraits(
                {"imputations": 5, "iterations": 5, "trees": 50, "depth": None, "neighbours": 5},
                proper=True,
                package=("LightGBM", "lightgbm"),
            ),
        ),
    },
    plugins=False,
)

NAMES_METHOD: Mapping[str, str] = {"method.imputer": "impute-then-fit"}
"""Settings that say by themselves which method is meant, where none is named."""

INSTALL = "pip install '.[baselines]' in a clone of vgi"
"""How to get the packages that some imputers need."""


def words(capabilities: frozenset[str]) -> str:
    """Capabilities in words."""
    return " and ".join(CAPABILITIES[name] for name in sorted(capabilities))


def check_names(model: str | None, method: str | None) -> None:
    """UsageError for a model or a method that does not exist; None: not said."""
    if model not in (None, "auto"):
        MODELS.entry(str(model))
    if method is not None:
        METHODS.entry(method)


def check_pair(model: str, method: str) -> None:
    """Refuse a model and a method that cannot work together, with what would work."""
    provides, needs = MODELS.entry(model).provides, METHODS.entry(method).needs
    lacking = needs - provides
    if lacking:
        methods = [name for name, entry in METHODS.items() if entry.needs <= provides]
        models = [name for name, entry in MODELS.items() if needs <= entry.provides]
        raise UsageError(
            f"method '{method}' needs {words(lacking)}, which model '{model}' does not have",
            f"with --model {model} use --method {' or '.join(methods)}; "
            f"--method {method} works with --model {' or '.join(models)}",
        )


def who_takes_levels(model: str) -> str:
    """Which methods of a model take columns of levels, or which models where none of this one does: for a hint."""
    if takes_levels(model, None):
        provides = MODELS[model].provides
        able = [name for name, entry in METHODS.items() if entry.needs <= provides - NUMBERS_ONLY]
        return f"--method {' or '.join(able)} takes them"
    models = [name for name, entry in MODELS.items() if "discrete" in entry.provides]
    return f"--model {' or '.join(models)} takes them"


def takes_levels(model: str, method: str | None) -> bool:
    """Whether a model of that name takes columns of levels, fitted by that method; of `auto` and None something is
    chosen that does."""
    if method is not None and METHODS[method].needs & NUMBERS_ONLY:
        return False
    return model == "auto" or "discrete" in MODELS[model].provides


def _offers(model: str, method: str, levels: bool) -> frozenset[str]:
    offers = MODELS[model].provides | METHODS[method].provides
    return offers - NUMBERS_ONLY if levels else offers


def usable_samplers(model: str, method: str, *, levels: bool = False) -> list[str]:
    """The samplers that can draw for a run of this model by this method; `levels` as of `choose_sampler`."""
    offers = _offers(model, method, levels)
    return [key for key, entry in SAMPLERS.items() if entry.needs <= offers]


def fills_new_rows(model: str, method: str, *, levels: bool = False) -> bool:
    """Whether a run of this model by this method has a sampler that draws for other rows than its own."""
    return any(not SAMPLERS[key].traits.stored for key in usable_samplers(model, method, levels=levels))


def choose_sampler(name: str, model: str, method: str, *, levels: bool = False, without: Collection[str] = ()) -> str:
    """The sampler to use for a run of this model by this method: `auto` takes the first that can work, in the order of
    the table.

    levels   whether the run models columns of levels
    without  samplers for which the run lacks something of its own: no hint names them
    """
    offers = _offers(model, method, levels)
    working = [one for one in usable_samplers(model, method, levels=levels) if one not in without]
    columns = " with columns of levels" * levels
    if name == "auto":
        if not working:
            raise UsageError(f"no sampler works for model '{model}' fitted by '{method}'{columns}", "fit again by vgi")
        return working[0]
    lacking = SAMPLERS.entry(name).needs - offers
    if lacking:
        usable = "this run can use --sampler " + " or ".join(working) if working else "fit again by vgi"
        run = f"a run of model '{model}' by method '{method}'{columns}"
        raise UsageError(f"sampler '{name}' needs {words(lacking)}, which {run} lacks", usable)
    return name


def comparable() -> list[str]:
    """Models that can be compared beside those that `--model auto` compares: the ones that EM does not fit."""
    return [name for name, entry in MODELS.items() if entry.traits.method != "em"]


def not_installed(imputer: str) -> str | None:
    """The distribution that an imputer needs and that is not installed here; None: it can run."""
    package = COMPLETERS.entry(imputer).traits.package
    return package[0] if package is not None and importlib.util.find_spec(package[1]) is None else None
