"""`vgi evaluate --conditionals`: the run's conditionals against its model's own, and with `--truth-model` against those
of the truth, on the same completed rows of the table."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from vgi_cli.commands.evaluate.truth_model import Truth
from vgi_cli.commands.finetune import require_conditionals
from vgi_cli.commands.requests import ImputeRequest
from vgi_cli.commands.samplers import make_imputer
from vgi_cli.conditionals.base import Conditionals
from vgi_cli.encoding.encoder import box
from vgi_cli.errors import UsageError
from vgi_cli.evaluation.conditional_quality import (
    compare_conditionals,
    conditional_part,
    conditional_quality,
    distances,
    require_comparable,
)
from vgi_cli.evaluation.truth.conditionals import takes_quadrature, truth_reference
from vgi_cli.fitting.fitted import FittedTable
from vgi_cli.fitting.plan import stream
from vgi_cli.fitting.rows import Rows
from vgi_cli.machine.work import Work, giving_up
from vgi_cli.maths.noise import KeyedNoise
from vgi_cli.models.gaussian.family import GaussianFamily
from vgi_cli.reporting import COMPARING, Reporter
from vgi_cli.samplers.base import Box
from vgi_cli.samplers.base import impute as impute_rows
from vgi_cli.settings.problems import Setting
from vgi_cli.table.base import Table

ROWS = 300
"""Most rows on which the conditionals are looked at."""
FEWEST = 10
"""Rows that are looked at however many columns there are."""
CELLS = 900
"""Cells (rows x columns) to stay below where the model's conditionals take quadrature over its density: each takes some
450 evaluations of it."""
SAMPLES = 2000
"""Rows of the model that say where it has its mass."""


def comparable_conditionals(fitted: FittedTable) -> Conditionals:
    """The run's conditionals; UsageError where there are none, or none that can be compared."""
    q = require_conditionals(fitted, "compare", "comparing them")
    require_comparable(fitted.model, q, fitted.layout.d)
    if not trained_columns(fitted):
        raise UsageError(
            f"--conditionals: the rows of run '{fitted.run.name}' had no holes, so no conditional was trained",
            "leave out --conditionals for this run",
        )
    return q


def trained_columns(fitted: FittedTable) -> list[int]:
    """The dimensions whose conditionals the fit has trained: those with a hole in a row of which something is observed.
    All, of a fine-tuned run: it holds the holes of its new rows, not those of the fit before."""
    if fitted.run.record.command == "finetune":
        return list(range(fitted.layout.d))
    missing = fitted.held["missing"][:, : fitted.layout.d]
    used = (missing & ~missing.all(1, keepdim=True)).any(0)
    return [int(column) for column in used.nonzero()[:, 0]]


def diagnose(
    fitted: FittedTable,
    table: Table,
    seed: int,
    device: torch.device,
    reporter: Reporter,
    over: Callable[[], bool] = lambda: False,
    known: Truth | None = None,
) -> dict[str, Any]:
    """The `conditionals` object of the report: at most ROWS seeded rows of a table, holes filled by one draw. With a
    known truth its `truth` has the distances from that one's conditionals, on the same rows. OutOfTime where `over`
    says so."""
    q = comparable_conditionals(fitted)
    rows = fitted.rows(table)
    order = torch.randperm(table.N, generator=stream(seed, "conditionals/rows"))
    rows = rows.at(order[: rows_to_compare(fitted, table.N, known)].sort().values)
    holes = bool(rows.table.missing.any())
    sampler = fitted.sampler("auto")
    x = _completed(fitted, rows, sampler, seed, device, giving_up(over)) if holes else rows.table.x
    model = fitted.model.to(device).eval()  # a density that takes quadrature: many evaluations, none of them delicate
    if fitted.marginal:
        model = copy.deepcopy(model).to("cpu").double()
    q = copy.deepcopy(q).to("cpu").double().eval()
    low, high = _range(model, x, seed)
    columns = trained_columns(fitted)
    names = [fitted.layout.label(i) for i in range(fitted.layout.d)]
    compared = [names[column] for column in columns]
    share = 1.0 if known is None else 0.5  # of the stage, for the model's own conditionals
    with reporter.stage(COMPARING) as stage:
        own = giving_up(over, lambda done: stage(share * done))
        part = conditional_part(conditional_quality(model, q, x, low, high, own, columns), compared)
        if known is not None:
            reference = truth_reference(known.law, known.fitted, x, stream(seed, "conditionals/truth"))
            true = giving_up(over, lambda done: stage(share + (1 - share) * done))
            part["truth"] = distances(compare_conditionals(reference, q, x, true, columns), compared)
    untrained = [name for column, name in enumerate(names) if column not in columns]
    if untrained:
        part["left_out"] = untrained
    if holes:
        part["sampler"] = sampler
    if "warning" in part:
        reporter.warn(part["warning"])
    return part


def rows_to_compare(fitted: FittedTable, N: int, known: Truth | None = None) -> int:
    """How many of N rows to look at: few where each takes quadrature over the density of the model or of the truth."""
    plain = isinstance(fitted.model, GaussianFamily) and not (known is not None and takes_quadrature(known.law))
    affordable = ROWS if plain else max(FEWEST, CELLS // fitted.layout.d)
    return min(N, ROWS, affordable)


def _completed(
    fitted: FittedTable, rows: Rows, sampler: str, seed: int, device: torch.device, watch: Callable[[float], None]
) -> Tensor:
    """[R, D] float64 on the CPU: the holes filled by one draw of the run's sampler, encoded."""
    plain = {"compile": Setting("off", "")}  # one draw: nothing is worth recording
    one = ImputeRequest(checkpoint=fitted.run, settings=plain, m=1, sampler=sampler, uncertainty="none")
    imputer, dtype = make_imputer(fitted, one, device, Work())
    imputer.watch = watch
    ranges = box(fitted.schema)
    inside = Box(ranges.low.to(device, dtype), ranges.high.to(device, dtype))
    noise = KeyedNoise(seed, fitted.layout.names, rows.keys.to(device), torch.arange(1), "conditionals")
    x, missing = rows.table.x.to(device, dtype), rows.table.missing.to(device)
    drawn = impute_rows(imputer, x, missing, noise, inside)[0].to("cpu", torch.float64)
    return torch.where(rows.table.missing, drawn, rows.table.x)


def _range(model: Any, x: Tensor, seed: int) -> tuple[Tensor, Tensor]:
    """low, high [D]: where model and rows have their mass, widened by half to either side."""
    with torch.no_grad():
        sample = model.sample(SAMPLES, stream(seed, "conditionals/range")).to("cpu", torch.float64)
    seen = torch.cat([sample[torch.isfinite(sample).all(1)], x])
    low, high = seen.amin(0), seen.amax(0)
    width = (high - low).clamp(min=1e-6)
    return low - 0.5 * width, high + 0.5 * width
