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
from vgi_cli.settings.recipe import MethodChoice, ModelChoice, Recipe


def check(recipe: Recipe, settings: Settings, resumed: bool = False) -> list[Problem]:
    """Problems of model, method, their settings and what depends on them. Names and pairs are refused at once.

    resumed  the settings are those of a run: that some have no effect is no reason not to go on
    """
    model, method = recipe.model.name, recipe.method.name
    problems: list[Problem] = []
    if recipe.select == "objective" and recipe.val is None:
        message = "selecting by the objective needs held-out rows"
        hint = "hold some out, for example --val 0.2, or leave it out"
        problems.append(Problem(origin(settings, "select", "--select"), message, hint))
    if model == "auto":
        problems += unnamed_model(settings)
    else:
        registry.MODELS.entry(model)
        method = method or recipe.model.entry.traits.method
        registry.check_pair(model, method)
        config = recipe.model.family.Config
        problems += check_model(config, recipe, settings)
        problems += check_fixed(registry.METHODS.load(method).fixed, config, recipe, settings, model, method)
    if method is None:
        return problems + unnamed_method(settings)
    recipe = recipe.with_method(method)
    entry, algorithm = recipe.method.entry, recipe.method.algorithm
    problems += check_method(algorithm.Config, method, recipe, settings)
    if "table.blocks" in settings and model != "auto":
        problems += check_pairing(settings["table.blocks"], model, method)
    if model != "auto" and not problems:
        chosen: Any = method_in_full(recipe)
        algorithm.check(recipe.model.family, chosen)
        if isinstance(recipe.table.blocks, tuple) and recipe.table.blocks and "conditionals" in entry.provides:
            check_scan(chosen)
        if not resumed:
            problems += check_without_effect("method", chosen, settings)
            problems += check_without_effect("model", recipe.with_model(**algorithm.fixed).model_settings, settings)
    if isinstance(recipe.bootstrap, int) and not entry.traits.likelihood:
        where = origin(settings, "bootstrap", "bootstrap")
        message = f"method '{method}' has no bootstrap refits: they are EM fits to the observed cells, which it is not"
        problems.append(Problem(where, message, "leave it out, or take --method em or vgi"))
    if recipe.select == "objective" and algorithm.tune is None:
        able = frozenset.union(*(other.provides for name, other in registry.MODELS.items() if model in (name, "auto")))
        tuning = [name for name, other in registry.METHODS.items() if other.needs <= able and other.load().tune]
        message = f"method '{method}' has no loss of its own on held-out rows"
        hint = "leave it out" + (f", or take --method {' or '.join(tuning)}" if tuning else "")
        problems.append(Problem(origin(settings, "select", "--select"), message, hint))
    return problems


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


def unnamed_model(settings: Settings) -> list[Problem]:
    """Problems of `model.*` where no model is named: which have the setting."""
    keys = [key for key in settings if key.startswith("model.") and key != "model.name"]
    known = {name: model_keys(registry.MODELS.load(name).Config) for name in registry.MODELS} if keys else {}
    return [_unnamed(key, "model", known, settings) for key in keys]


def unnamed_method(settings: Settings) -> list[Problem]:
    """Problems of `method.*`, `optim.*` and the blocks where neither a method nor a model is named."""
    keys = [key for key in settings if key.startswith(("method.", "optim.", "table.blocks")) and key != "method.name"]
    known = {name: method_keys(registry.METHODS.load(name).Config) for name in registry.METHODS} if keys else {}
    for name in known:
        if "conditionals" in registry.METHODS[name].provides:
            known[name].append("table.blocks")
    return [_unnamed(key, "method", known, settings) for key in keys]


def _unnamed(key: str, section: str, known: Mapping[str, Sequence[str]], settings: Settings) -> Problem:
    """A setting that needs a named family, `known`: the settings of each."""
    where = settings[key].origin
    able = [name for name, keys in known.items() if key in keys]
    if not able:
        return Problem(where, f"unknown key '{key}'", nearest(key, set().union(*known.values())))
    return Problem(where, f"{key} needs a named {section}", f"say --{section} {' or '.join(able)}")


def check_fixed(
    fixed: Mapping[str, Any],
    config: type[BaseModel],
    recipe: Recipe,
    settings: Settings,
    model: str,
    method: str,
) -> list[Problem]:
    """Problems of `model.*` against what the named method demands of the model (see Method)."""
    problems = []
    for name, value in fixed.items():
        said = recipe.model.settings.get(name, value)
        key = f"model.{name}"
        if name not in config.model_fields:
            message = f"method '{method}' needs {key}={value}, a setting that model '{model}' does not have"
            problems.append(Problem("", message, "take another --method or --model"))
        elif said != value:
            where = settings[key].origin if key in settings else key
            message = f"{key}={said}, but method '{method}' is made by {key}={value}"
            problems.append(Problem(where, message, "leave it out, or take another --method"))
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


def check_without_effect(section: str, config: Any, settings: Settings) -> list[Problem]:
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


def check_pairing(setting: Setting, model: str, method: str) -> list[Problem]:
    """Problems of `table.blocks` with a method that has no conditionals of columns."""
    provides = registry.MODELS[model].provides

    def cuts(entry: Entry[MethodTraits]) -> bool:
        own = entry.traits.own_blocks & provides
        return "conditionals" in entry.provides and entry.needs <= provides and not own

    if not setting.value or cuts(registry.METHODS[method]):
        return []
    able = [name for name, entry in registry.METHODS.items() if cuts(entry)]
    message = f"method '{method}' has no conditionals of single columns of a '{model}', so none to put into a block"
    return [Problem(setting.origin, message, f"with --model {model} say --method {' or '.join(able)}")]
