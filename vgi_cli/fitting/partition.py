"""`--block a,b,c`: which columns share a joint conditional. Names in the recipe, a partition in the tensors."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from vgi_cli.columns.schema import Schema
from vgi_cli.data import missing_together
from vgi_cli.errors import UsageError, nearest
from vgi_cli.fitting.prepare import Rows
from vgi_cli.layout import Layout
from vgi_cli.reporting import Reporter
from vgi_cli.settings.gather import MOST_IN_BLOCK
from vgi_cli.settings.recipe import Recipe


def choose_blocks(recipe: Recipe, rows: Rows, schema: Schema, reporter: Reporter) -> tuple[Recipe, Rows]:
    """The recipe with its blocks named, and the rows cut accordingly. UsageError for a column that is not modelled.

    Where nobody names blocks, the method says whether they are found from the mask (`auto`).
    """
    said: Any = recipe.table.blocks
    method = recipe.method.entry.traits
    if said is None and not method.own_blocks & recipe.model.entry.provides:
        said = method.blocks
    if said is None:
        return recipe, rows
    names = found(rows, reporter) if said == "auto" else said
    recipe = recipe.with_table(blocks=tuple(map(tuple, names)))
    return recipe, rows._replace(table=rows.table._replace(layout=layout_of(recipe, schema)))


def found(rows: Rows, reporter: Reporter) -> list[list[str]]:
    """Names of the columns that have their holes in the same rows, with a line that says so. Groups of more
    than MOST_IN_BLOCK columns are cut."""
    groups: list[Sequence[int]] = []
    for group in missing_together(rows.table):
        pieces = -(-len(group) // MOST_IN_BLOCK)
        edges = [len(group) * i // pieces for i in range(pieces + 1)]
        groups += [group[start:end] for start, end in pairwise(edges)]
    names = [[rows.table.layout.columns[c] for c in group] for group in groups]
    if names:
        reporter.say(
            "columns with holes in the same rows are filled together: " + "; ".join(", ".join(group) for group in names)
        )
    else:
        reporter.say("no two columns have their holes in exactly the same rows: each is filled on its own")
    return names


def layout_of(recipe: Recipe, schema: Schema) -> Layout:
    """The layout of the modelled columns with the blocks that a recipe names. UsageError for others in these."""
    names: Any = recipe.table.blocks or ()
    for name in (name for group in names for name in group):
        if name not in schema.modelled:
            raise UsageError(f"--block {name}: the column is not modelled", nearest(name, schema.modelled))
    return schema.layout.grouped(names)
