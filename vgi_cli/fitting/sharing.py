"""Whether several processes can share a fit: what cannot is refused before anything is fitted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vgi_cli.errors import InputError, UsageError
from vgi_cli.ranks import Ranks
from vgi_cli.registry.names import METHODS, MODELS
from vgi_cli.settings.recipe import Recipe
from vgi_cli.table.base import Table

FIRST = "a single process (without torchrun)"


def check_shared(recipe: Recipe) -> None:
    """UsageError for what only one process can do, and for what would depend on the number of processes."""
    model = recipe.model.name
    if model == "auto":
        raise UsageError(
            "--model auto compares models in one process, and this is one of several",
            f"name a model; vgi fit in {FIRST}, on a sample of the rows, says which",
        )
    method = recipe.method.name or MODELS[model].traits.method
    traits, provides = METHODS[method].traits, MODELS[model].provides
    if not traits.shared:
        shared = {name: entry for name, entry in METHODS.items() if entry.traits.shared and entry.needs <= provides}
        working = [name for name, entry in shared.items() if not entry.traits.unshared & provides]
        raise UsageError(
            f"several processes cannot share a fit by method '{method}'", f"--method {' or '.join(working)}, or {FIRST}"
        )
    if traits.unshared & provides:
        raise UsageError(
            f"several processes cannot share a fit of model '{model}' by method '{method}', whose noise goes by the "
            "place of a row in its step",
            f"--method {MODELS[model].traits.method}, or {FIRST}",
        )
    if recipe.model.settings.get("dropout"):
        raise UsageError(
            "several processes cannot share a fit with model.dropout, which goes by the place of a row in its step",
            f"leave it out, or take {FIRST}",
        )
    for key, said, there in (
        ("holdout_cells", "--holdout-cells makes a first fit", recipe.holdout_cells is not None),
        ("uncertainty", "uncertainty=posterior draws one chain", recipe.uncertainty == "posterior"),
        ("compile", "--compile on captures the steps", recipe.compile == "on"),
    ):
        if there:
            raise UsageError(f"{said} in one process, and this is one of several", f"leave out {key}, or take {FIRST}")


def shared_by(manifest: Mapping[str, Any], world: int, *, resumed: bool) -> list[int]:
    """How many processes shared a fit: one number after the other, as often as it went on with another one (`ranks` of
    a manifest)."""
    before = list(manifest.get("ranks", [1])) if resumed else []
    return before if before[-1:] == [world] else [*before, world]


def check_same_table(table: Table, ranks: Ranks) -> None:
    """InputError, in every rank, where one has read another table than rank 0."""
    if not ranks.alone and ranks.any(ranks.text(table.sha256) != table.sha256):
        raise InputError(
            f"the {ranks.world} processes that share this fit have not read the same table: {table.label} differs",
            "name a file that all machines see, or copy the same bytes to each",
        )
