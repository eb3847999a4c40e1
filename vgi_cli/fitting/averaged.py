"""The models that a fit averages over (averaging.py): decided with the fit; and their schemas, which a run keeps beside
its own."""

from __future__ import annotations

from typing import cast

from vgi_cli.columns.schema import Schema
from vgi_cli.data import TensorTable
from vgi_cli.errors import RunError, UsageError
from vgi_cli.fitting.averaging import averaged, other_transforms, recipe_of
from vgi_cli.fitting.choosing import check_discrete
from vgi_cli.fitting.refits import em_settings, refit_count, refitting
from vgi_cli.fitting.rows import Rows, quiet_schema
from vgi_cli.fitting.trees import settled_dependence
from vgi_cli.models.base import built
from vgi_cli.models.gaussian.family import GaussianFamily
from vgi_cli.runs.store import RunStore
from vgi_cli.settings import components
from vgi_cli.settings.recipe import ModelChoice, Recipe


def new_schemas(recipe: Recipe, rows: Rows) -> dict[str, Schema]:
    """By transform the schemas of the models of the average, of rows that are about to be fitted (all of the table)."""
    if rows.source is None:
        return {}
    table = rows.source.table
    return {name: quiet_schema(table, recipe.with_table(transform=name)) for name in other_transforms(recipe)}


def schema_file(transform: str) -> str:
    """The file of a run that holds the schema of such models."""
    return f"schema-{transform}.json"


def kept_schemas(recipe: Recipe, run: RunStore) -> dict[str, Schema]:
    """By transform the schemas of the models of the average, of a run. RunError where one is not there."""
    found = {}
    for name in other_transforms(recipe):
        if not run.holds(schema_file(name)):
            raise RunError(f"run '{run.name}' is damaged: it has no {schema_file(name)}", "fit again")
        found[name] = Schema.from_json(run.text(schema_file(name)))
    return found


def settled(recipe: Recipe, table: TensorTable) -> Recipe:
    """The recipe with `average` decided, and every setting of its models written out: none where the fit makes no
    refits by EM. `table`: the rows that are fitted. UsageError for a model that does not take them."""
    members = averaged(recipe)
    if not members or refit_count(recipe) == 0 or refitting(recipe) != "em" or recipe.uncertainty == "posterior":
        return recipe.replace(average="none")
    every, em = [], em_settings(recipe)
    for i, member in enumerate(members):
        own = components.in_full(settled_dependence(recipe_of(recipe, member), table))
        check_discrete(own, table.layout)
        family = cast(type[GaussianFamily], own.model.family)
        sizes = family.sizes(own.model_settings, len(table.used), table.D - len(table.layout.discrete))
        if sum(map(len, sizes)) != 1:
            what = "factors" if own.model.name == "fa" else "components, and factors where covariances have these"
            raise UsageError(f"average.{i}: the size of {own.model.name} is left open", f"say its {what}")
        config = sizes[0][0].settled(table.layout)
        fitted = built(family, config, table.layout)
        changes = {
            "model": ModelChoice(own.model.name, config.model_dump(mode="json")),
            "pooling": fitted.penalty(em.pooling, em.floor).pooling if member.pooling is None else member.pooling,
            "tolerance": member.tolerance if member.tolerance is not None else em.tolerance or fitted.tolerance,
        }
        every.append(member.model_copy(update=changes))
    return recipe.replace(average=tuple(every))
