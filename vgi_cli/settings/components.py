"""The settings that depend on the named model and method: `model.*`, `method.*`, `optim.*` and `epochs`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from vgi_cli.errors import nearest
from vgi_cli.methods.base import MethodConfig
from vgi_cli.methods.vgi.build import check_scan
from vgi_cli.registry import names as registry
from vgi_cli.registry.entries import Entry, MethodTraits
from vgi_cli.registry.names import NAMES_METHOD
from vgi_cli.settings.problems import Problem, Setting, Settings, describe, from_plain, origin, validate
from vgi_cli.settings.recipe import MethodChoice, ModelChoice, Recipe, as_settings

FREE_KEYS = ("model.", "method.", "optim.")
"""How settings begin that only some models, or some methods, have."""
NUMBERS_ALONE = " in tables of three or more columns of numbers and no others, and takes part in no other comparison"
"""Of a model that EM fits to numbers alone, where it is compared (`fitting/contest/candidates.py`)."""


def check(recipe: Recipe, settings: Settings, resumed: bool = False) -> list[Problem]:
    """Problems of model, method, their settings and what depends on them. Names and pairs are refused at once.

    resumed  the settings are those of a run: that some have no effect is no reason not to go on
    """
    problems: list[Problem] = []
    if recipe.select == "objective" and recipe.val is None:
        message = "selecting by the objective needs held-out rows"
        hint = "hold some out, for example --val 0.2, or leave it out"
        problems.append(Problem(origin(settings, "select", "--select"), message, hint))
    named = recipe.model.name != "auto"
    if named:
        recipe = recipe.with_method(recipe.method.name or recipe.model.entry.traits.method)
        registry.check_pair(recipe.model.name, recipe.method.named)
        problems += check_model(recipe.model.family.Config, recipe, settings)
        problems += _check_fixed(recipe, settings)
    else:
        problems += _unnamed_model(settings, recipe.compare)
    if recipe.method.name is None:
        problems += _unnamed_method(settings, recipe.compare) + _check_compare(recipe, settings)
        return problems or _check_compared(recipe, settings)
    problems += check_method(recipe.method.algorithm.Config, recipe.method.name, recipe, settings)
    if named and "table.blocks" in settings:
        problems += _check_pairing(settings["table.blocks"], recipe)
    if named and not problems:
        problems += _check_together(recipe, settings, resumed)
    problems += _check_bootstrap(recipe, settings) + _check_posterior(recipe, settings)
    problems += _check_average(recipe, settings) + _check_compare(recipe, settings)
    problems += _check_shrinkage(recipe, settings)
    return problems + _check_select(recipe, settings)


def _check_together(recipe: Recipe, settings: Settings, resumed: bool) -> list[Problem]:
    """Problems of well-formed settings of a model and a method beside each other."""
    method = recipe.method
    chosen: Any = method_in_full(recipe)
    method.algorithm.check(recipe.model.family, chosen)
    blocks = recipe.table.blocks
    if isinstance(blocks, tuple) and blocks and "conditionals" in method.entry.provides:
        check_scan(chosen)
    if resumed:
        return []
    fixed = recipe.with_model(**method.algorithm.fixed).model_settings
    return _without_effect("method", chosen, settings) + _without_effect("model", fixed, settings)


def _check_bootstrap(recipe: Recipe, settings: Settings) -> list[Problem]:
    """Problems of refits that a method does not have."""
    entry = recipe.method.entry
    if not isinstance(recipe.bootstrap, int):
        return []
    where, name = origin(settings, "bootstrap", "bootstrap"), recipe.method.name
    if not entry.traits.likelihood:
        what = "has no bootstrap refits, which reweight rows of a likelihood of the observed cells: it has none"
        chosen = recipe.model.name != "auto"
        able = [
            one for one in ("em", "vgi") if not chosen or registry.METHODS[one].needs <= recipe.model.entry.provides
        ]
        return [Problem(where, f"method '{name}' {what}", f"leave it out, or take --method {' or '.join(able)}")]
    gaussian = recipe.model.name == "auto" or "gaussian" in recipe.model.entry.provides
    if gaussian or recipe.method.algorithm.refit is not None:
        return []
    return [Problem(where, f"method '{name}' has no bootstrap refits", "leave it out, or take --method vgi")]


def _check_shrinkage(recipe: Recipe, settings: Settings) -> list[Problem]:
    """Problems of a target of covariances: of a method that has no use for it."""
    if recipe.model.settings.get("shrink_to", "none") == "none" or recipe.method.name is None:
        return []
    pooling = recipe.method.settings.get("pooling")
    if recipe.method.name == "em" and pooling not in (None, recipe.model.settings.get("shrinkage")):
        what = f"method.pooling={pooling} has no effect: with model.shrink_to, model.shrinkage is that"
        return [Problem(origin(settings, "method.pooling", "method.pooling"), what, "leave it out")]
    if recipe.method.name == "em":
        return []
    where = origin(settings, "model.shrink_to", "model.shrink_to")
    what = f"model.shrink_to: covariances are shrunk by em, method '{recipe.method.name}' does not"
    return [Problem(where, what, "leave it out, or take --method em")]


def _check_posterior(recipe: Recipe, settings: Settings) -> list[Problem]:
    """Problems of posterior draws: of a model or a method that has none, or of settings that ask for none."""
    if recipe.uncertainty != "posterior":
        what, hint = "has no effect without uncertainty=posterior", "leave it out, or add --set uncertainty=posterior"
        alone = recipe.posterior_components is not None and recipe.uncertainty == "bootstrap"
        return [Problem(origin(settings, "posterior_components", ""), what, hint)] if alone else []
    where = origin(settings, "uncertainty", "uncertainty")
    able = "posterior draws are those of a mixture with full covariances that is fitted by em"
    hint = "leave it out, or take --model mixture --method em"
    if recipe.model.name not in ("auto", "mixture") or recipe.method.name not in (None, "em"):
        fit = f"--model {recipe.model.name} --method {recipe.method.named}"
        return [Problem(where, f"posterior: {fit}: {able}", hint)]
    if recipe.model.settings.get("shrink_to", "none") != "none":
        return [Problem(where, "posterior: model.shrink_to has no effect on posterior draws", "leave one out")]
    if recipe.model.settings.get("covariance") == "factor" or recipe.model.settings.get("factors") is not None:
        return [Problem(where, f"posterior: {able}, model.covariance or model.factors says otherwise", "leave one out")]
    if recipe.bootstrap in ("none", 0):
        what = f"posterior: bootstrap is how many draws are made, and bootstrap={recipe.bootstrap} makes none"
        return [Problem(where, what, "leave one out, or say how many: --set bootstrap=20")]
    return []


def _check_average(recipe: Recipe, settings: Settings) -> list[Problem]:
    """Problems of models to average over: of a method that makes no refits by EM, or in the models themselves."""
    if isinstance(recipe.average, str):
        return []
    where = origin(settings, "average", "average")
    if recipe.method.name != "em":
        what = f"models are averaged by bootstrap refits by em, and method '{recipe.method.name}' makes none"
        return [Problem(where, what, "leave it out, or take --method em")]
    problems: list[Problem] = []
    for i, member in enumerate(recipe.average):
        name = f"average.{i}"
        if member.model.name not in registry.MODELS or "gaussian" not in member.model.entry.provides:
            able = [model for model, entry in registry.MODELS.items() if "gaussian" in entry.provides]
            message = f"{name}: models that can be averaged are {' and '.join(able)}, got '{member.model.name}'"
            problems.append(Problem(where, message, nearest(member.model.name, able)))
            continue
        own = recipe.replace(model=member.model)
        found = check_model(member.model.family.Config, own, {"model.name": Setting(member.model.name, where)})
        problems += [one._replace(where=where, message=f"{name}: {one.message}") for one in found]
    if not any(member.weight > 0 for member in recipe.average):
        problems.append(Problem(where, "average: no model has a weight above 0", "give each its share"))
    return problems


def _check_compare(recipe: Recipe, settings: Settings) -> list[Problem]:
    """Problems of models to compare: of names, and where nothing is compared."""
    if not recipe.compare:
        return []
    where = origin(settings, "compare", "--compare")
    able, problems = registry.comparable(), []
    for name in recipe.compare:
        if name in registry.MODELS and name not in able:
            what = "" if registry.takes_levels(name, None) else NUMBERS_ALONE
            problems.append(Problem(where, f"'{name}' is compared anyway{what}", "leave it out"))
        elif name not in able:
            message = f"unknown model '{name}'"
            problems.append(Problem(where, message, nearest(name, able)))
    if twice := sorted({name for name in recipe.compare if recipe.compare.count(name) > 1}):
        problems.append(Problem(where, f"'{twice[0]}' is named twice", "name each once"))
    for said, there in (
        (f"--model {recipe.model.name}", recipe.model.name != "auto"),
        (f"--method {recipe.method.name}", recipe.method.name is not None),
        ("uncertainty=posterior", recipe.uncertainty == "posterior"),
    ):
        if there:
            message = f"models are compared where nobody chooses one, and {said} does"
            problems.append(Problem(where, message, "leave one of them out"))
            break
    return problems


def _check_select(recipe: Recipe, settings: Settings) -> list[Problem]:
    """Problems of selecting by a loss that a method does not have."""
    if recipe.select != "objective" or recipe.method.algorithm.tune is not None:
        return []
    models = registry.MODELS.items()
    able = frozenset.union(*(entry.provides for name, entry in models if recipe.model.name in (name, "auto")))
    tuning = [name for name, entry in registry.METHODS.items() if entry.needs <= able and entry.load().tune]
    hint = "leave it out" + (f", or take --method {' or '.join(tuning)}" if tuning else "")
    message = f"method '{recipe.method.name}' has no loss of its own on held-out rows"
    return [Problem(origin(settings, "select", "--select"), message, hint)]


def in_full(recipe: Recipe, **model: Any) -> Recipe:
    """The recipe of a named model and method with all their settings written out, those of `model` said too."""
    registry.check_pair(recipe.model.name, recipe.method.named)
    settings = recipe.with_model(**model).model_settings.model_dump(mode="json")
    chosen = method_in_full(recipe).model_dump(mode="json")
    return recipe.replace(
        model=ModelChoice(recipe.model.name, settings),
        optim=chosen.pop("optim", {}),
        epochs=chosen.pop("epochs", None),
        method=MethodChoice(recipe.method.named, chosen),
    )


def method_in_full(recipe: Recipe) -> MethodConfig:
    """The settings of the named method: what the recipe says, else what the model has as its defaults for it."""
    defaults, method = recipe.model.family.method_defaults, recipe.method.named
    values = defaults.get(method) or defaults.get(recipe.method.entry.traits.like or method, {})
    return from_plain(recipe.method.algorithm.Config, merged(values, recipe.method_values))


def merged(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Both, the second winning; nested mappings are merged alike."""
    out = {**first, **second}
    for key in first.keys() & second.keys():
        if isinstance(first[key], Mapping) and isinstance(second[key], Mapping):
            out[key] = merged(first[key], second[key])
    return out


def model_keys(config: type[BaseModel]) -> list[str]:
    """The settings of a model, dotted."""
    return [f"model.{name}" for name in config.model_fields]


def method_keys(config: type[MethodConfig]) -> list[str]:
    """The settings of a method, dotted, as they stand in a recipe."""
    fields = config.model_fields
    inner: Any = fields["optim"].annotation if "optim" in fields else None
    return [
        *(f"method.{name}" for name in fields if name not in ("epochs", "optim")),
        *(f"optim.{name}" for name in getattr(inner, "model_fields", {})),
        *(["epochs"] if "epochs" in fields else []),
    ]


def check_model(config: type[BaseModel], recipe: Recipe, settings: Settings) -> list[Problem]:
    """Problems of `model.*` against the settings of the named model."""
    known, found = model_keys(config), validate(config, recipe.model.settings)
    return [_family(error, "model", recipe.model.name, recipe, settings, known) for error in found]


def for_compared(recipe: Recipe, name: str, settings: Settings) -> Recipe:
    """The recipe of a model that `--compare` names, fitted by its own method, with what was said of settings that the
    two have."""
    method = registry.MODELS[name].traits.method
    own = recipe.replace(model=ModelChoice(name), method=MethodChoice(method), optim={}, compare=())
    known = {*model_keys(own.model.family.Config), *method_keys(own.method.algorithm.Config)} - {"epochs"}
    return own.with_values({key: settings[key].value for key in settings if key in known})


def without_compared(recipe: Recipe) -> Recipe:
    """The recipe without settings of models that `--compare` names: those that EM fits have none of them."""
    if not recipe.compare:
        return recipe
    return recipe.replace(model=ModelChoice(recipe.model.name), method=MethodChoice(recipe.method.name), optim={})


def of_some(recipe: Recipe, settings: Settings) -> list[str]:
    """Lines on settings that only some of the models that are compared take."""
    taken: dict[str, list[str]] = {}
    own = {name: as_settings(for_compared(recipe, name, settings)) for name in recipe.compare}
    for key in (key for key in settings if key.startswith(FREE_KEYS) and not key.endswith(".name")):
        takes = " and ".join(name for name in recipe.compare if key in own[name])
        taken.setdefault(takes, []).append(f"{key}={settings[key].value}")
    without = {takes: [name for name in recipe.compare if name not in takes.split(" and ")] for takes in taken}
    return [
        f"{', '.join(keys)} {'are' if len(keys) > 1 else 'is'} for {takes} alone; "
        f"{', '.join([*without[takes], 'the models that EM fits'])} go without"
        for takes, keys in taken.items()
    ]


def _check_compared(recipe: Recipe, settings: Settings) -> list[Problem]:
    """Problems of settings of models that `--compare` names."""
    problems: list[Problem] = []
    for name in recipe.compare:
        own = for_compared(recipe, name, settings)
        problems += check_model(own.model.family.Config, own, settings)
        problems += check_method(own.method.algorithm.Config, own.method.named, own, settings)
    return list(dict.fromkeys(problems))


def _unnamed_model(settings: Settings, compared: Sequence[str] = ()) -> list[Problem]:
    """Problems of `model.*` where no model is named and none of those that are compared has the setting: which do."""
    keys = [key for key in settings if key.startswith("model.") and key != "model.name"]
    known = {name: model_keys(registry.MODELS.load(name).Config) for name in registry.MODELS} if keys else {}
    takes = {key for name in compared for key in known.get(name, ())}
    return [_unnamed(key, "model", known, settings) for key in keys if key not in takes]


def _unnamed_method(settings: Settings, compared: Sequence[str] = ()) -> list[Problem]:
    """Problems of `method.*`, `optim.*` and the blocks where neither a method nor a model is named, and no model that
    is compared is fitted by a method that has the setting."""
    keys = [key for key in settings if key.startswith(("method.", "optim.", "table.blocks")) and key != "method.name"]
    known = {name: method_keys(registry.METHODS.load(name).Config) for name in registry.METHODS} if keys else {}
    for name in known:
        if "conditionals" in registry.METHODS[name].provides:
            known[name].append("table.blocks")
    methods = [registry.MODELS[name].traits.method for name in compared if name in registry.MODELS]
    takes = {key for method in methods for key in known.get(method, ()) if key != "table.blocks"}
    return [_unnamed(key, "method", known, settings) for key in keys if key not in takes]


def _unnamed(key: str, section: str, known: Mapping[str, Sequence[str]], settings: Settings) -> Problem:
    """A setting that needs a named family, `known`: the settings of each."""
    where = settings[key].origin
    able = [name for name, keys in known.items() if key in keys]
    if not able:
        return Problem(where, f"unknown key '{key}'", nearest(key, set().union(*known.values())))
    return Problem(where, f"{key} needs a named {section}", f"say --{section} {' or '.join(able)}")


def _check_fixed(recipe: Recipe, settings: Settings) -> list[Problem]:
    """Problems of `model.*` against what the named method demands of the model (see Method)."""
    problems = []
    model, method = recipe.model, recipe.method
    for name, value in method.algorithm.fixed.items():
        said = model.settings.get(name, value)
        key = f"model.{name}"
        if name not in model.family.Config.model_fields:
            message = f"method '{method.name}' needs {key}={value}, a setting that model '{model.name}' does not have"
            problems.append(Problem("", message, "take another --method or --model"))
        elif said != value:
            message = f"{key}={said}, but method '{method.name}' is made by {key}={value}"
            problems.append(Problem(origin(settings, key, key), message, "leave it out, or take another --method"))
    return problems


def check_method(config: type[MethodConfig], method: str, recipe: Recipe, settings: Settings) -> list[Problem]:
    """Problems of `method.*`, `optim.*` and `epochs` against the settings of a method, which nobody need have named."""
    known = method_keys(config)
    misplaced = [
        Problem(settings[f"method.{name}"].origin, f"unknown key 'method.{name}'", nearest(name, known))
        for name in ("epochs", "optim")
        if f"method.{name}" in settings
    ]
    values = recipe.method_values
    malformed = [_family(error, "method", method, recipe, settings, known) for error in validate(config, values)]
    return [*misplaced, *malformed] or _unusable(config, values, settings)


def _unusable(config: type[MethodConfig], values: dict[str, Any], settings: Settings) -> list[Problem]:
    """Well-formed settings of a method that cannot be used together, or not here."""
    problems = []
    for key, message, hint in from_plain(config, values).check():
        said = settings.get(f"method.{key}") or settings.get("method.name")
        problems.append(Problem(said.origin if said else "", message, hint))
    return problems


def _without_effect(section: str, config: Any, settings: Settings) -> list[Problem]:
    """Settings of a Config that do nothing beside the others, where somebody said them and not as they come."""
    problems = []
    for key, why in config.without_effect().items():
        value, name = getattr(config, key), f"{section}.{key}"
        if name in settings and value != type(config).model_fields[key].default:
            shown = list(value) if isinstance(value, tuple) else value
            problems.append(Problem(settings[name].origin, f"{name}={shown} has no effect: {why}", "leave it out"))
    return problems


def _family(error: Any, section: str, name: str, recipe: Recipe, settings: Settings, known: Sequence[str]) -> Problem:
    """An error of the Config of the model or method `name`: `optim.*` and `epochs` stand at the top of a recipe."""
    prefix = "" if error["loc"][0] in ("optim", "epochs") and section == "method" else f"{section}."
    if error["type"] == "extra_forbidden" and error["loc"] == ("optim",):
        error = {**error, "loc": ("optim", next(iter(recipe.optim)))}
    problem = describe(error, prefix, settings, known)
    if error["type"] == "extra_forbidden":
        hint = problem.hint if known else f"{section} '{name}' has no settings"
        key = f"{prefix}{'.'.join(map(str, error['loc']))}"
        if key in NAMES_METHOD:
            hint = f"it belongs to --method {NAMES_METHOD[key]}"
        return Problem(problem.where, f"unknown key '{key}' for {section} '{name}'", hint)
    return problem


def _check_pairing(setting: Setting, recipe: Recipe) -> list[Problem]:
    """Problems of `table.blocks` with a method that has no conditionals of columns."""
    provides = recipe.model.entry.provides

    def cuts(entry: Entry[MethodTraits]) -> bool:
        own = entry.traits.own_blocks & provides
        return "conditionals" in entry.provides and entry.needs <= provides and not own

    if not setting.value or cuts(recipe.method.entry):
        return []
    able = [name for name, entry in registry.METHODS.items() if cuts(entry)]
    model, method = recipe.model.name, recipe.method.name
    message = f"method '{method}' has no conditionals of single columns of a '{model}', so none to put into a block"
    return [Problem(setting.origin, message, f"with --model {model} say --method {' or '.join(able)}")]
