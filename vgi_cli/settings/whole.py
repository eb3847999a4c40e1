"""A recipe as a whole, apart from any fit: every problem that it has, and the JSON Schema of all recipes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel

from vgi_cli.errors import UsageError
from vgi_cli.registry import names as registry
from vgi_cli.settings import components
from vgi_cli.settings.gather import check_keys, read_settings, settle
from vgi_cli.settings.problems import Problem, origin
from vgi_cli.settings.recipe import FREE, Averaged, Recipe, TableSettings, to_recipe

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def problems_in(path: Path, where: str = "--recipe") -> list[Problem]:
    """Everything that is wrong with a recipe, each with its line. UsageError, at `where`, for a file that is not
    there or cannot be read.

    Settings that are wrong by themselves are left out before model and method judge the rest.
    """
    settings, problems = read_settings(path, where)
    problems += settle(settings)
    sound = {key: setting for key, setting in settings.items() if not check_keys({key: setting})}
    try:
        problems += components.check(to_recipe(sound), sound)
    except UsageError as error:  # a name that there is not, or two that do not go together
        problems.append(Problem(origin(sound, "model.name", path.name), error.message, error.hint))
    return list(dict.fromkeys(problems))


def recipe_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of recipes: keys, types and ranges; the settings of a model or method where its
    name stands in the recipe too.

    Says less than `problems_in`: what several settings mean together is not in it.
    """
    definitions: dict[str, Any] = {}
    plain = Recipe.model_json_schema()["properties"]
    table = TableSettings.model_json_schema()["properties"]
    models = {name: _of(registry.MODELS.load(name).Config, f"model-{name}", definitions) for name in registry.MODELS}
    methods = {
        name: _of(registry.METHODS.load(name).Config, f"method-{name}", definitions) for name in registry.METHODS
    }
    epochs = {name: fields.pop("epochs", False) for name, fields in methods.items()}
    optim = {name: _fields(fields.pop("optim", {}), definitions) for name, fields in methods.items()}
    properties = {name: _nullable(field) for name, field in plain.items() if name not in (*FREE, "table")}
    properties["table"] = _nullable(_closed({name: _nullable(field) for name, field in table.items()}))
    properties["model"] = _named(["auto", *models])
    properties["method"] = _named(list(methods))
    properties["average"] = _nullable({"anyOf": [{"enum": ["auto", "none"]}, {"type": "array", "items": _averaged()}]})
    properties["optim"] = {"type": ["object", "null"]}
    rules = [_where("model", name, {"model": _settings(fields)}) for name, fields in models.items()]
    for name, fields in methods.items():
        said = {"method": _settings(fields), "optim": _nullable(_closed(optim[name]))}
        rules.append(_where("method", name, said if epochs[name] else {**said, "epochs": {"type": "null"}}))
    return {
        "$schema": DIALECT,
        "title": "Recipe of vgi",
        "description": "Everything that decides a fit: vgi fit DATA --recipe FILE",
        **_closed(properties),
        "allOf": rules,
        "$defs": definitions,
    }


def _averaged() -> dict[str, Any]:
    """A model of an average: its settings are those of its section."""
    fields = Averaged.model_json_schema()["properties"]
    model = {"type": "object", "properties": {"name": {"enum": list(registry.MODELS)}}, "required": ["name"]}
    return {**_closed({**fields, "model": model}), "required": list(fields)}


def _of(config: type[BaseModel], prefix: str, definitions: dict[str, Any]) -> dict[str, Any]:
    """The fields of the settings of a model or method; what they refer to goes to `definitions`, under names of its
    own."""
    schema = config.model_json_schema(ref_template=f"#/$defs/{prefix}-{{model}}")
    definitions.update({f"{prefix}-{name}": inner for name, inner in schema.pop("$defs", {}).items()})
    fields: dict[str, Any] = schema.get("properties", {})
    return fields


def _fields(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """The fields of nested settings, wherever they are defined."""
    reference = schema.get("$ref", "").removeprefix("#/$defs/")
    fields: dict[str, Any] = definitions[reference].get("properties", {}) if reference else {}
    return fields


def _closed(fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": fields, "additionalProperties": False}


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    """Or null, which says nothing."""
    return {"anyOf": [schema, {"type": "null"}]}


def _named(names: list[str]) -> dict[str, Any]:
    """A name, or a mapping of settings that may hold one."""
    name = {"enum": [*names, None]}
    return {"anyOf": [name, {"type": "object", "properties": {"name": name}}]}


def _settings(fields: dict[str, Any]) -> dict[str, Any]:
    return {"anyOf": [{"type": "string"}, _closed({"name": {}, **fields})]}


def _where(section: str, name: str, then: dict[str, Any]) -> dict[str, Any]:
    """What holds where the recipe names this model or method."""
    inside = {"type": "object", "properties": {"name": {"const": name}}, "required": ["name"]}
    condition = {"required": [section], "properties": {section: {"anyOf": [{"const": name}, inside]}}}
    return {"if": condition, "then": {"properties": then}}
