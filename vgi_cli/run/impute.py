"""`vgi impute`: draws of every hole of a modelled column, from the fitted model."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor

from vgi_cli.errors import UsageError, nearest
from vgi_cli.imputers.base import Box, Imputer
from vgi_cli.imputers.base import impute as impute_rows
from vgi_cli.maths.noise import KeyedNoise
from vgi_cli.run.config import TableSettings
from vgi_cli.run.device import available, resolve_device, set_threads
from vgi_cli.run.load import Fitted, load_run
from vgi_cli.run.plan import origin
from vgi_cli.run.prepare import Rows, check_same_data, match, read, rows_of
from vgi_cli.run.problems import Settings
from vgi_cli.run.reporting import Reporter, Silent
from vgi_cli.run.signals import watch_signals
from vgi_cli.table.columns import Schema
from vgi_cli.table.encoder import box as box_of
from vgi_cli.table.encoder import decode
from vgi_cli.table.numerals import Floats
from vgi_cli.table.outputs import Layout
from vgi_cli.table.reader import Table
from vgi_cli.table.writer import check_output, default_output, write_imputed

LAYOUTS = ("files", "long", "single")
POINTS = ("mean", "median")
UNCERTAINTY = ("auto", "bootstrap", "none")
DRAWS = 5


class ImputeOptions(NamedTuple):
    """What `vgi impute` was asked for; none: the default."""

    m: int | None = None
    layout: str | None = None
    point: str | None = None
    sampler: str = "auto"
    uncertainty: str = "auto"
    original: bool = True
    out: str | None = None
    force: bool = False


class Imputed(NamedTuple):
    """draws [m, N, D] in data units and in the order of the schema's modelled columns; what the sampler reports."""

    draws: Floats
    diagnostics: dict[str, object]
    sampler: str


def check_options(options: ImputeOptions, stdin: bool) -> ImputeOptions:
    """The options with their defaults filled in. UsageError for what cannot be, before anything is read."""
    for name, value, known in (
        ("--format", options.layout, LAYOUTS),
        ("--point", options.point, POINTS),
        ("--uncertainty", options.uncertainty, UNCERTAINTY),
    ):
        if value is not None and value not in known:
            raise UsageError(
                f"{name}: expected {', '.join(known[:-1])} or {known[-1]}, got '{value}'", nearest(value, known)
            )
    if options.m is not None and options.m < 1:
        raise UsageError(f"--m: expected a whole number from 1, got {options.m}", "for example --m 5")
    to_stdout = options.out == "-" or (options.out is None and stdin)
    layout = options.layout
    if options.point is not None:
        if layout not in (None, "single"):
            raise UsageError(f"--point gives one table, --format {layout} several", "leave out --format")
        layout = "single"
    layout = layout or ("single" if to_stdout else "files")
    if to_stdout and layout == "files":
        raise UsageError("--format files cannot go to stdout", "name a file with -o, or take --format long or single")
    if layout == "single" and options.point is None and (options.m or 1) > 1:
        raise UsageError(
            f"--format single is one draw, --m {options.m} asks for more", "--point mean, or --format files or long"
        )
    if not options.original and layout != "long":
        raise UsageError("--no-original belongs to --format long", "leave it out")
    draws = 1 if layout == "single" and options.point is None else options.m or DRAWS
    return options._replace(layout=layout, m=draws, out="-" if to_stdout else options.out)


def impute(
    checkpoint: Path,
    settings: Settings,
    options: ImputeOptions,
    reporter: Reporter | None = None,
    table: Table | None = None,
    stdout: BinaryIO | None = None,
) -> list[Path]:
    """Impute DATA (default: the fitted table) and write it. Returns the files written, none when they went to stdout.

    Raises UsageError, InputError or RunError before anything is written.
    """
    reporter = Silent() if reporter is None else reporter
    with watch_signals():
        fitted = load_run(checkpoint, reporter)
        fitted.sampler(options.sampler)
        table = fitted_or_new(fitted, settings) if table is None else table
        match(table, fitted.schema, reporter)
        out: Path | BinaryIO = sys.stdout.buffer if stdout is None else stdout
        if options.out is None:
            out = default_output(checkpoint / "imputed", table)
        elif options.out != "-":
            out = Path(options.out)
        layout = cast(Layout, options.layout)
        format = None if isinstance(out, Path) else table.format
        files = options.m if layout == "files" else 1
        check_output(table, layout=layout, out=out, m=files or 1, format=format, force=options.force)
        done = draw(fitted, table, settings, options, reporter)
        if options.point is not None:
            reporter.warn(f"the {options.point} of {options.m} draws: not for inference")
        elif options.layout == "single":
            reporter.warn("one draw: not for inference, which needs several (--format files or long)")
        return write_imputed(
            table,
            fitted.schema,
            done.draws,
            layout=layout,
            out=out,
            format=format,
            original=options.original,
            force=options.force,
        )


def point_estimate(draws: Floats, point: str, schema: Schema) -> Floats:
    """[1, N, D]: mean or median over draws [m, N, D], at each column's resolution (whole for integers)."""
    value = np.mean(draws, 0, keepdims=True) if point == "mean" else np.median(draws, 0, keepdims=True)
    return (
        np.stack([column.snap(value[..., i]) for i, column in enumerate(schema.encoded)], -1) if value.size else value
    )


def fitted_or_new(fitted: Fitted, settings: Settings) -> Table:
    """The table that is named, else the one that the run was fitted on (InputError when it has changed)."""
    named, mask = value_of(settings, "data"), value_of(settings, "mask")
    if named is not None:
        return read(named, mask, table_settings(settings, fitted.recipe.table))
    data = fitted.run.manifest["data"]
    if not data["paths"] or data["paths"] == ["-"]:
        source = "standard input" if data["paths"] else "a table in memory"
        raise UsageError(f"the run was fitted on {source}, which it does not keep", "give DATA")
    if mask is not None or any(key.startswith("table.") for key in settings):
        raise UsageError("--mask, --na-values and --delimiter belong to DATA", "give DATA")
    table = read(data["paths"], data["mask"], fitted.recipe.table)
    check_same_data(fitted.run, table)
    return table


def value_of(settings: Settings, key: str) -> Any:
    """What was said of a setting, else none."""
    return settings[key].value if key in settings else None


def draw(fitted: Fitted, table: Table, settings: Settings, options: ImputeOptions, reporter: Reporter) -> Imputed:
    """`options.m` draws of every hole, or their mean or median."""
    device = compute_on(fitted, settings)
    seed = seed_of(fitted, settings)
    rows = rows_of(table, fitted.schema, fitted.recipe.seed)
    sampler = fitted.sampler(options.sampler)
    if fitted.empty:
        return Imputed(decode(rows.table.x.expand(options.m or DRAWS, -1, -1), fitted.schema), {}, sampler)
    imputer, dtype = make_imputer(fitted, sampler, options.uncertainty, options.m or DRAWS, device, reporter)
    low, high = box_of(fitted.schema)
    box = Box(low.to(device, dtype), high.to(device, dtype))
    noise = KeyedNoise(
        seed, fitted.schema.modelled, rows.keys.to(device), torch.arange(options.m or DRAWS, device=device)
    )
    x = draw_rows(imputer, rows, noise, box, dtype, reporter)
    diagnostics = imputer.diagnostics()
    report_diagnostics(sampler, diagnostics, reporter)
    draws = decode(x.cpu(), fitted.schema)
    if options.point is not None:
        draws = point_estimate(draws, options.point, fitted.schema)
    return Imputed(draws, diagnostics, sampler)


def seed_of(fitted: Fitted, settings: Settings) -> int:
    """The seed that was said, else the run's."""
    seed = value_of(settings, "seed")
    return int(fitted.run.manifest["seeds"]["fit"] if seed is None else seed)


def compute_on(fitted: Fitted, settings: Settings) -> torch.device:
    """Set the threads and return the device: what was said, else those of the fit (the CPU where its GPU is gone)."""
    manifest = fitted.run.manifest
    set_threads(value_of(settings, "threads") or manifest["threads"])
    name = value_of(settings, "device")
    if name is not None:
        return resolve_device(name, origin(settings, "device", "--device"))
    return torch.device(manifest["device"] if available(manifest["device"]) else "cpu")


def draw_rows(
    imputer: Imputer, rows: Rows, noise: KeyedNoise, box: Box, dtype: torch.dtype, reporter: Reporter
) -> Tensor:
    """[n, N, D] encoded: incomplete rows drawn, block by block, complete rows as they are."""
    device = noise.rows.device
    x, missing = rows.table.x.to(device, dtype), rows.table.missing.to(device)
    out = x.expand(len(noise.draws), *x.shape).clone()
    incomplete = missing.any(1).nonzero()[:, 0]
    most = imputer.rows_at_once(len(noise.draws))
    for start in range(0, len(incomplete), most):
        index = incomplete[start : start + most]
        out[:, index] = impute_rows(imputer, x[index], missing[index], noise.select(rows=index), box)
        reporter.progress(
            f"imputed {start + len(index)}/{len(incomplete)} rows", (start + len(index)) / len(incomplete)
        )
    reporter.finish_progress()
    return out


def make_imputer(
    fitted: Fitted, sampler: str, uncertainty: str, m: int, device: torch.device, reporter: Reporter
) -> tuple[Imputer, torch.dtype]:
    """The imputer of a name, and the precision that it wants."""
    refits = fitted.refits
    if uncertainty == "bootstrap" and not refits:
        raise UsageError(
            f"--uncertainty bootstrap: run '{fitted.run.path}' holds no bootstrap refits",
            "fit again with --set bootstrap=20 (fa and mixture)",
        )
    if uncertainty == "bootstrap" and sampler != "exact":
        raise UsageError(f"--uncertainty bootstrap needs --sampler exact, got '{sampler}'", "leave out --sampler")
    held_out = fitted.run.manifest["data"].get("rows_held_out", 0)
    if sampler == "chains" and held_out:
        raise UsageError(
            f"sampler 'chains' needs chains of every row, and run '{fitted.run.path}' held out {held_out} rows (--val)",
            f"use --sampler {fitted.sampler('auto')}",
        )
    if sampler == "exact" and refits and uncertainty != "none":
        more = f" (they are reused: {m} draws were asked for)" if m > len(refits) else ""
        reporter.say(f"parameter uncertainty: {len(refits)} bootstrap refits{more}")
        models = refits
    else:
        reporter.say("parameter uncertainty is not included in the draws")
        models = (fitted.model,)
    return build_imputer(fitted, sampler, [model.to(device) for model in models], device)


def build_imputer(
    fitted: Fitted, sampler: str, models: Sequence[Any], device: torch.device
) -> tuple[Imputer, torch.dtype]:
    """The imputer for models that are on the device."""
    from vgi_cli.imputers.chains import ChainsImputer
    from vgi_cli.imputers.exact import ExactImputer
    from vgi_cli.imputers.gibbs import GibbsImputer
    from vgi_cli.imputers.metropolis import MetropolisImputer

    if sampler == "exact":
        return ExactImputer([copy.deepcopy(model).double() for model in models]), torch.float64
    dtype = next(fitted.model.parameters()).dtype
    held, start = held_chains(fitted, device)
    q = fitted.conditionals
    assert q is not None
    q = q.to(device)
    makers: dict[str, Callable[[], Imputer]] = {
        "metropolis": lambda: MetropolisImputer(models[0], q, start),
        "gibbs": lambda: GibbsImputer(q, start),
        "chains": lambda: ChainsImputer(held),
    }
    return makers[sampler](), dtype


def held_chains(fitted: Fitted, device: torch.device) -> tuple[Any, Any]:
    """What the run's chains hold, and the start that uses them (empirical marginals elsewhere)."""
    from vgi_cli.imputers.held import HeldChains
    from vgi_cli.imputers.starts import ChainStart, EmpiricalStart

    tensors = {name: value.to(device) for name, value in fitted.held.items()}
    held = HeldChains(tensors["keys"], tensors["missing"], tensors["values"])
    start = tensors["start"]
    return held, ChainStart(held, EmpiricalStart(start, torch.zeros_like(start, dtype=torch.bool)))


def report_diagnostics(sampler: str, diagnostics: dict[str, object], reporter: Reporter) -> None:
    """One line on how the sampler fared."""
    plain = [f"{name} {value:.4g}" for name, value in diagnostics.items() if isinstance(value, int | float)]
    if plain:
        reporter.say(f"sampler {sampler}: " + ", ".join(plain).replace("_", " "))


def table_settings(settings: Settings, base: TableSettings) -> TableSettings:
    """How another table is read: as the fitted one, with what was said changed."""
    changes: dict[str, Any] = {}
    if "table.delimiter" in settings:
        changes["delimiter"] = value_of(settings, "table.delimiter")
    if "table.na_values" in settings:
        changes["na_values"] = tuple(value_of(settings, "table.na_values"))
    return base.model_copy(update=changes)
