"""The settings that depend on the named model and method: `model.*`, `method.*`, `optim.*` and `epochs`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from vgi_cli.errors import nearest
from vgi_cli.methods.base import MethodConfig
from vgi_cli.registry import names as registry
from vgi_cli.registry.names import NAMES_METHOD
from vgi_cli.settings.problems import Problem, Settings, describe, validate
from vgi_cli.settings.recipe import Recipe


def model_values(recipe: Recipe) -> dict[str, Any]:
    """The settings of the model's Config."""
    return {key: value for key, value in recipe.model.items() if key != "name"}


def method_values(recipe: Recipe) -> dict[str, Any]:
    """The settings of the method's Config: `method.*` at its top, `optim.*` nested, and `epochs`."""
    values = {key: value for key, value in recipe.method.items() if key not in ("name", "epochs", "optim")}
    if recipe.optim:
        values["optim"] = recipe.optim
    if recipe.epochs is not None:
        values["epochs"] = recipe.epochs
    return values


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
    known, found = model_keys(config), validate(config, model_values(recipe))
    return [_family(error, "model", recipe.model["name"], recipe, settings, known) for error in found]


def unnamed_model(settings: Settings) -> list[Problem]:
    """Problems of `model.*` where no model is named: which have the setting."""
    keys = [key for key in settings if key.startswith("model.") and key != "model.name"]
    known = {name: model_keys(registry.load_model(name).Config) for name in registry.MODELS} if keys else {}
    return [_unnamed(key, "model", known, settings) for key in keys]


def unnamed_method(settings: Settings) -> list[Problem]:
    """Problems of `method.*`, `optim.*` and the blocks where neither a method nor a model is named."""
    keys = [key for key in settings if key.startswith(("method.", "optim.", "table.blocks")) and key != "method.name"]
    known = {name: method_keys(registry.load_method(name).Config) for name in registry.METHODS} if keys else {}
    for name in known:
        if "conditionals" in registry.METHODS[name].makes:
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
        said = recipe.model.get(name, value)
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
    values = method_values(recipe)
    malformed = [_family(error, "method", method, recipe, settings, known) for error in validate(config, values)]
    return [*misplaced, *malformed] or _unusable(config, values, settings)


def _unusable(config: type[MethodConfig], values: dict[str, Any], settings: Settings) -> list[Problem]:
    """Well-formed settings of a method that cannot be used together, or not here."""
    problems = []
    for key, message, hint in config.model_validate_json(json.dumps(values), strict=True).check():
        said = settings.get(f"method.{key}") or settings.get("method.name")
        problems.append(Problem(said.origin if said else "", message, hint))
    return problems


def check_idle(section: str, config: Any, settings: Settings) -> list[Problem]:
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
