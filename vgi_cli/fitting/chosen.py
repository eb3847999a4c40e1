"""What a fit chose for itself where nobody said: it stands in the recipe, which so repeats the fit, and by name in the
manifest."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

from vgi_cli.methods.base import State
from vgi_cli.settings.recipe import Recipe, as_settings

OPEN = (None, "auto")
"""Values by which a setting leaves something to the fit."""
OF_THE_TABLE = ("optim.batch_size", "method.scan", "method.block_columns")
"""Chosen by the rows that are fitted: fine-tuning to other rows chooses them anew."""


def settled(recipe: Recipe, state: State) -> Recipe:
    """The recipe with what the state took where the settings left it open."""
    taken = {key: value for key, value in state.chosen().items() if recipe.value(key) in OPEN}
    return recipe.with_values(taken)


def chosen(recipe: Recipe, said: Container[str]) -> dict[str, Any]:
    """By dotted key: what stands in the recipe of a fit, was not said, and is open in the defaults."""
    found = {key: setting.value for key, setting in as_settings(recipe).items() if key not in said}
    return {k: v for k, v in found.items() if v not in OPEN and k in _open_settings(recipe)}


def adapting_config(recipe: Recipe, before: Mapping[str, Any]) -> Any:
    """The Config of a recipe's method for fine-tuning to other rows; `before`: what the fit chose (see `chosen`)."""
    anew = {key: "auto" if key == "method.scan" else None for key in OF_THE_TABLE if key in before}
    return recipe.with_values(anew).method_settings


def _open_settings(recipe: Recipe) -> set[str]:
    """Keys whose defaults leave something to the fit."""
    keys = {name for name, field in Recipe.model_fields.items() if field.default in OPEN}
    keys |= {f"table.{name}" for name, field in type(recipe.table).model_fields.items() if field.default in OPEN}
    keys |= {"model.name", "method.name"}
    model = recipe.model.family.Config.model_fields
    method = recipe.method.algorithm.Config.model_fields
    keys |= {f"model.{name}" for name, field in model.items() if field.default in OPEN}
    keys |= {f"method.{name}" for name, field in method.items() if field.default in OPEN}
    inner: Any = method["optim"].annotation if "optim" in method else None
    optim = getattr(inner, "model_fields", {})
    return keys | {f"optim.{name}" for name, field in optim.items() if field.default in OPEN}
