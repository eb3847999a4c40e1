"""What a fit is going to do, decided and refused before any table is read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch

from vgi_cli.fitting.partition import check_pairing
from vgi_cli.machine.device import resolve_device
from vgi_cli.maths.noise import hash64
from vgi_cli.methods.vgi.scans import check_scan
from vgi_cli.registry import names as registry
from vgi_cli.settings.components import (
    check_fixed,
    check_idle,
    check_method,
    check_model,
    method_values,
    model_values,
    unnamed_method,
    unnamed_model,
)
from vgi_cli.settings.problems import Problem, Settings, raise_problems
from vgi_cli.settings.recipe import Recipe, require_data, to_recipe


class Plan(NamedTuple):
    """A fit that can work: its recipe so far, where it computes. `recipe.model["name"]` may still be `auto`."""

    recipe: Recipe
    device: torch.device


def make_plan(settings: Settings, from_memory: bool = False, resumed: bool = False) -> Plan:
    """Check everything that can be checked without the table. UsageError with all problems at once.

    resumed  the settings are those of a run: that some do nothing is no reason not to go on
    """
    recipe = to_recipe(settings)
    if not from_memory:
        require_data(settings)
    raise_problems(check_families(recipe, settings, resumed))
    device = resolve_device(recipe.device, origin(settings, "device", "--device"))
    return Plan(recipe, device)


def origin(settings: Settings, key: str, default: str) -> str:
    """Where a setting was said."""
    return settings[key].origin if key in settings else default


def check_families(recipe: Recipe, settings: Settings, resumed: bool = False) -> list[Problem]:
    """Problems of model, method, their settings and what depends on them. Names and pairs are refused at once."""
    model, method = recipe.model["name"], recipe.method.get("name")
    problems: list[Problem] = []
    if recipe.select == "objective" and recipe.val is None:
        message = "selecting by the objective needs held-out rows"
        hint = "hold some out, for example --val 0.2, or leave it out"
        problems.append(Problem(origin(settings, "select", "--select"), message, hint))
    if model == "auto":
        problems += unnamed_model(settings)
    else:
        registry.model_entry(model)
        method = method or registry.MODELS[model].method
        registry.check_pair(model, method)
        config = registry.load_model(model).Config
        problems += check_model(config, recipe, settings)
        problems += check_fixed(registry.load_method(method).fixed, config, recipe, settings, model, method)
    if method is None:
        return problems + unnamed_method(settings)
    entry = registry.method_entry(method)
    made = registry.load_method(method)
    problems += check_method(made.Config, method, recipe, settings)
    if "table.blocks" in settings and model != "auto":
        problems += check_pairing(settings["table.blocks"], model, method)
    if model != "auto" and not problems:
        family = registry.load_model(model)
        config = configured_for(family, method, recipe)
        made.check(family, config)
        if isinstance(recipe.table.blocks, tuple) and recipe.table.blocks and "conditionals" in entry.makes:
            check_scan(config)
        if not resumed:
            fixed = {**model_values(recipe), **made.fixed}
            problems += check_idle("method", config, settings)
            problems += check_idle("model", load_config(family.Config, fixed), settings)
    if isinstance(recipe.bootstrap, int) and not entry.likelihood:
        where = origin(settings, "bootstrap", "bootstrap")
        message = f"method '{method}' has no bootstrap refits: they are EM fits to the observed cells, which it is not"
        problems.append(Problem(where, message, "leave it out, or take --method em or vgi"))
    if recipe.select == "objective" and not entry.tunes:
        able = frozenset.union(*(other.provides for name, other in registry.MODELS.items() if model in (name, "auto")))
        tuning = [name for name, other in registry.METHODS.items() if other.tunes and other.requires <= able]
        message = f"method '{method}' has no loss of its own on held-out rows"
        hint = "leave it out" + (f", or take --method {' or '.join(tuning)}" if tuning else "")
        problems.append(Problem(origin(settings, "select", "--select"), message, hint))
    return problems


def with_family(recipe: Recipe, model: str, method: str, model_settings: dict[str, Any]) -> Recipe:
    """The recipe with model, method and their settings named in full (defaults written out)."""
    registry.check_pair(model, method)
    family = registry.load_model(model)
    config = load_config(family.Config, {**model_values(recipe), **model_settings})
    chosen = configured_for(family, method, recipe).model_dump(mode="json")
    optim = chosen.pop("optim", {})
    epochs = chosen.pop("epochs", None)
    return recipe.model_copy(
        update={
            "model": {"name": model, **config.model_dump(mode="json")},
            "method": {"name": method, **chosen},
            "optim": optim,
            "epochs": epochs,
        }
    )


def configured_for(family: Any, method: str, recipe: Recipe) -> Any:
    """The Config of a method: what the recipe says over what suits the family."""
    defaults = family.method_defaults.get(method) or family.method_defaults.get(
        registry.METHODS[method].like or method, {}
    )
    values = merged(defaults, method_values(recipe))
    return load_config(registry.load_method(method).Config, values)


def merged(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Both, the second winning; nested mappings are merged alike."""
    out = {**first, **second}
    for key in first.keys() & second.keys():
        if isinstance(first[key], Mapping) and isinstance(second[key], Mapping):
            out[key] = merged(first[key], second[key])
    return out


def load_config(config: Any, values: dict[str, Any]) -> Any:
    """A family's Config from plain values."""
    return config.model_validate_json(json.dumps(values), strict=True)


def model_config(recipe: Recipe) -> Any:
    """The Config of the recipe's model."""
    return load_config(registry.load_model(recipe.model["name"]).Config, model_values(recipe))


def method_config(recipe: Recipe) -> Any:
    """The Config of the recipe's method."""
    return load_config(registry.load_method(recipe.method["name"]).Config, method_values(recipe))


def stream(seed: int, purpose: str) -> torch.Generator:
    """An independent random stream of a run, on the CPU."""
    generator = torch.Generator()
    generator.manual_seed(hash64(f"{seed}/{purpose}") & ((1 << 63) - 1))
    return generator


def absolute(path: str) -> str:
    """An absolute path; `-` (stdin) stays."""
    return path if path == "-" else str(Path(path).resolve())
