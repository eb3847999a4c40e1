"""`vgi check`: what a table is, before it is fitted: kinds, holes, doubts, Little's test."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from vgi_cli.columns.number import Number
from vgi_cli.columns.schema import Schema
from vgi_cli.columns.wording import capped, folded, named
from vgi_cli.commands.check.words import MAR, model_rows, pair_words, text_of, verdict
from vgi_cli.commands.dry_run import DryRun
from vgi_cli.commands.memory import require_files, require_memory
from vgi_cli.commands.pages import refuse_page, require_extra
from vgi_cli.commands.requests import Request
from vgi_cli.encoding.exceptions import excepted_words, without_excepted
from vgi_cli.encoding.key_exceptions import excepted_key_words
from vgi_cli.encoding.kinds import fixing, kinds_of
from vgi_cli.encoding.missingness import Missingness, missingness
from vgi_cli.encoding.nearly import exceptions_among, nearly_words
from vgi_cli.encoding.redundant import (
    Redundant,
    candidates,
    kept_to_tell,
    not_kept,
    redundant,
    redundant_notes,
    unlooked,
)
from vgi_cli.encoding.skips import skipped
from vgi_cli.encoding.suspects import suspects
from vgi_cli.errors import InputError, RefusedColumns, UsageError
from vgi_cli.fitting.tables import inferred, read, row_weights
from vgi_cli.registry.plugins import plugged
from vgi_cli.reporting import CHECKING, READING, TRYING, Reporter
from vgi_cli.runs.files import write_atomic
from vgi_cli.settings.gather import require_data
from vgi_cli.settings.recipe import Recipe, TableSettings, to_recipe
from vgi_cli.table.base import Table
from vgi_cli.table.outputs import refuse_sources

FORMAT = 1
REFUSED = "refused"
"""In place of the kind of a column that a fit refuses."""
TOP = 10
"""Patterns that are listed."""
LEVEL = 0.05
"""Little's test rejects at a p-value below this."""
MOST_PAIRS = 100
"""Pairs of columns never observed together that are listed."""


class Checked(NamedTuple):
    """What a check found: the JSON object, and the same as text."""

    values: dict[str, Any]
    taken: DryRun

    def json_text(self) -> str:
        """One JSON object."""
        return json.dumps(self.values, indent=1, ensure_ascii=False, allow_nan=False) + "\n"

    def text(self) -> str:
        """Markdown, with the recipe that fixes the kinds at its end."""
        return text_of(self.values, self.taken)


@dataclass(frozen=True, kw_only=True)
class CheckRequest(Request):
    """What `vgi check` is asked for.

    report a page with pictures to write, too; None: none
    trial  whether each model is tried for a second, to tell what a fit of it would take
    json   whether the JSON object is wanted, not the text
    max_memory  most bytes that the check may take
    """

    report: str | None = None
    trial: bool = True
    json: bool = False
    max_memory: int | None = None

    def carry_out(self, reporter: Reporter) -> Checked:
        """Look at the table; nothing is fitted that is kept. Raises what `fit` raises of settings and tables."""
        with plugged(self.plugins):
            if self.table is None:
                require_data(self.settings, "check")
            self.require_tables()
            if self.report is not None:
                require_extra()
                refuse_page(Path(self.report), "--report", self.force)
                refuse_sources([Path(self.report)], self.said("data") or [], "the table that is checked")
            return _check(self, reporter)


def _check(request: CheckRequest, reporter: Reporter) -> Checked:
    recipe = to_recipe(request.settings)
    reporter.plan([READING, CHECKING, *([TRYING] if request.trial else [])])
    with reporter.stage(READING) as stage:
        require_files(request.max_memory, request.table)
        if request.table is None:
            require_memory(request.max_memory, recipe.data, recipe.mask, recipe.table, 1, request.trial)
        table = read(recipe.data, recipe.mask, recipe.table) if request.table is None else request.table
        stage(0.6)
        schema, notes, refused = _inferred(table, recipe.table)
        if refused is not None:
            reporter.warn(f"`vgi fit` refuses the table, and this looks at the rest of it: {refused.message}")
        if recipe.table.weight is not None:
            row_weights(table, recipe.table.weight)  # refuses cells that are no weights
    with reporter.stage(CHECKING) as stage:
        taken = _taken(table, schema, recipe, refused)
        values, holes, twins = _described(table, schema, recipe, taken, notes)
        values["suspects"] = [*_refused_words(refused, table), *values["suspects"]]
        stage(0.5)
        values["mcar"] = _mcar(table, schema, holes, twins)
        if recipe.table.weight is not None:
            values["notes"].append(
                f"weights (column '{recipe.table.weight}') count in a fit; here every row counts once"
            )
            if "caveats" in values["mcar"]:
                values["mcar"]["caveats"].insert(0, "every row counts once, whatever its weight")
    if request.trial and schema.modelled:
        values["models"] = _models(table, schema, recipe, reporter)
    if request.report is not None:
        _write_page(Path(request.report), values, table, schema)
        reporter.say(f"the page is {request.report}")
    return Checked(values, taken)


def _inferred(table: Table, settings: TableSettings) -> tuple[Schema, list[str], RefusedColumns | None]:
    """The schema of the table, what is unusual, and why a fit refuses some columns: a check looks at the others.
    InputError where there are none, or where the user said something of a column that its cells contradict."""
    try:
        return *inferred(table, settings), None
    except RefusedColumns as error:
        refused = error
    if not set(refused.columns).isdisjoint([*settings.columns, *settings.bounds, *settings.unbounded]):
        raise refused from None
    try:
        return *inferred(table, settings, {**settings.columns, **dict.fromkeys(refused.columns, "carry")}), refused
    except (InputError, UsageError):
        raise refused from None


def _refused_words(refused: RefusedColumns | None, table: Table) -> list[str]:
    """Why a fit refuses columns, and what to do about it."""
    return folded(
        [
            (name, f"`vgi fit` refuses the table: {one.message.removeprefix(f'{table.label}: ')}" + _hint(one))
            for name, one in (refused.columns.items() if refused is not None else ())
        ]
    )


def _hint(error: InputError) -> str:
    return "" if error.hint is None else f"; {error.hint}"


def _taken(table: Table, schema: Schema, recipe: Recipe, refused: RefusedColumns | None) -> DryRun:
    """What a fit takes the columns for; nothing is fixed of those that it refuses."""
    said, apart = recipe.table.columns, () if refused is None else refused.columns
    columns = [
        one._replace(kind=REFUSED, why="by a fit: see Suspects") if one.name in apart else one
        for one in kinds_of(table, schema, said, recipe.table.weight)
    ]
    settings = fixing(schema, said, **recipe.table.beside_kinds)
    settings["columns"] = {name: kind for name, kind in settings["columns"].items() if name not in apart}
    return DryRun(columns, settings)


def _write_page(path: Path, values: dict[str, Any], table: Table, schema: Schema) -> None:
    """The page: what was found, and pictures of what is missing."""
    from vgi_cli.reports.checked import lead, sections, verdicts
    from vgi_cli.reports.missingness import matrix
    from vgi_cli.reports.page import check_page

    shares = matrix(table.absent(schema.modelled))
    fits = model_rows(values["models"]) if "models" in values else []
    text = check_page(values["table"]["name"], lead(values), verdicts(values), sections(values, shares, fits))
    write_atomic(path, text.encode())


def _described(
    table: Table, schema: Schema, recipe: Recipe, taken: DryRun, notes: Sequence[str]
) -> tuple[dict[str, Any], Missingness, list[Redundant]]:
    """The JSON object but for what takes torch, and what it was made of."""
    said = [*recipe.table.columns, *(one.name for one in taken.columns if one.kind == REFUSED)]
    absent = {column.name: int(table.missing(column.name).sum()) for column in schema.columns}
    holes = missingness(table.absent(schema.modelled), schema.modelled)
    twins = redundant(candidates(table, schema), schema)
    exceptions = exceptions_among(table, schema)
    excepted, keys = exceptions.left(schema)
    others = without_excepted(twins, excepted)
    apart = [*nearly_words(table, schema), *excepted_words(excepted, table, schema)]
    apart += excepted_key_words(keys, schema)
    lines = [*not_kept(others, schema), *apart]
    kept = {relation.names[0] for relation in schema.relations}
    doubts = suspects(table, schema, said, skipped(exceptions.clean, schema))
    told = {*doubts, *redundant_notes(others, schema), *capped(apart)}
    values: dict[str, Any] = {
        "format": FORMAT,
        "table": {"name": table.label, "rows": table.N, "columns": len(table.names), "sha256": table.sha256},
        "columns": [
            {
                "name": one.name,
                "kind": one.kind,
                "why": one.why,
                "modelled": one.name in schema.modelled,
                "missing_cells": absent[one.name],
                "missing_share": absent[one.name] / table.N,
            }
            for one in taken.columns
        ],
        "missing": _missing(holes),
        "suspects": [*doubts, *lines],
        "relations": kept_to_tell(schema, whole=True),
        "redundant": [
            {"name": t.name, "by": list(t.by), "how": t.how, "exact": t.exact, "kept": t.name in kept} for t in twins
        ],
        "notes": [*(note for note in notes if note not in told), *unlooked(schema)],
        "recipe": {"table": taken.settings},
    }
    return values, holes, twins


def _missing(holes: Missingness) -> dict[str, Any]:
    """What is missing in the modelled columns."""
    rows = max(holes.rows, 1)
    return {
        "share": holes.share,
        "complete_rows": holes.complete,
        "rows_with_nothing": holes.nothing,
        "rows_by_missing_cells": {str(k): int(n) for k, n in enumerate(holes.by_row) if n},
        "patterns": len(holes.patterns),
        "top_patterns": [
            {"missing": list(pattern.missing), "rows": pattern.rows, "share": pattern.rows / rows}
            for pattern in holes.patterns[:TOP]
        ],
        "never_together": {
            "pairs": len(holes.apart),
            "first": [list(pair) for pair in holes.apart[:MOST_PAIRS]],
            **({"meaning": pair_words(holes.apart)} if holes.apart else {}),
        },
    }


def _mcar(table: Table, schema: Schema, holes: Missingness, twins: Sequence[Redundant]) -> dict[str, Any]:
    """Little's test on the columns of numbers that no other determines."""
    left_out = {one.name for one in twins}
    numbers = [column for column in schema.encoded if isinstance(column, Number) and column.name not in left_out]
    names = [column.name for column in numbers]
    out: dict[str, Any] = {"columns": names, "left_out": [name for name in schema.modelled if name not in names]}
    absent = dict(zip(holes.columns, holes.absent, strict=True))
    if not holes.absent.any():
        return {**out, "why_not": "no modelled column has a hole"}
    if not any(absent[name] for name in names):
        if any(isinstance(column, Number) and absent[column.name] for column in schema.encoded):
            return {**out, "why_not": "the columns of numbers with holes are told by others, which it leaves out"}
        return {**out, "why_not": "no column of numbers has a hole; the test knows numbers only"}
    if len(names) < 2:
        own = "columns of numbers that no others determine" if left_out else "columns of numbers"
        return {**out, "why_not": f"it compares {own}, and there is one"}
    import torch

    from vgi_cli.fitting.mcar import FEW, little, straightened

    x = np.stack([column.codes(table.column(column.name)) for column in numbers], 1)
    straight = straightened(torch.from_numpy(x))
    found = little(straight.x, torch.from_numpy(np.isnan(x)))
    if found.test is None:
        return {**out, "why_not": found.why_not}
    test = found.test
    caveats = ["it takes rows for draws from one normal distribution; long tails make it reject too often"]
    if straight.scored:
        skewed = named("column", [names[j] for j in straight.scored])
        caveats.append(f"far from normal, and taken by the normal scores of the ranks: {skewed}")
    if found.scarce:
        caveats.append(
            f"{found.scarce:,} of {test.patterns:,} patterns {'has' if found.scarce == 1 else 'have'} fewer than {FEW} "
            "rows, for which the chi-squared law is rough"
        )
    blank = {name for skip in schema.skips for name in skip.others}
    blank |= {name for threshold in schema.thresholds for name in threshold.others}
    if skips := [name for name in names if name in blank]:
        caveats.append(f"{named('column', skips)} may be blank because the question was not asked: it rejects for that")
    if out["left_out"]:
        caveats.append("it looks at columns of numbers only: what is missing may still depend on the others")
    if not found.settled:
        caveats.append("its moments had not settled when EM was ended: the statistic is rough")
    caveats.append(MAR)
    return {
        **out,
        "statistic": test.statistic,
        "df": test.df,
        "p_value": test.p_value,
        "patterns": test.patterns,
        "rows": test.rows,
        "rejected": test.p_value < LEVEL,
        "verdict": verdict(test.p_value < LEVEL),
        "caveats": caveats,
    }


def _models(table: Table, schema: Schema, recipe: Recipe, reporter: Reporter) -> dict[str, Any]:
    """What a fit of each model would take."""
    from vgi_cli.fitting.rows import rows_of
    from vgi_cli.fitting.trial import trials
    from vgi_cli.machine.device import one_thread
    from vgi_cli.machine.memory import free_ram

    with reporter.stage(TRYING) as stage, one_thread():
        rows = rows_of(table, schema, recipe.seed)
        tried = list(trials(rows, Recipe(seed=recipe.seed, table=recipe.table), stage))
    return {
        "how": "estimates for a fit by default settings, on one thread, while nothing else runs: time from a second's "
        "trial of each, memory by counting what is kept, beside the program itself",
        "free_memory": free_ram(),
        "fits": [{key: value for key, value in one._asdict().items() if value is not None} for one in tried],
    }
