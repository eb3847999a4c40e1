"""`vgi evaluate`: log-likelihood of the observed cells, error of the imputations, distance from a known truth,
quality of the conditionals, the fine-tuned objective."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from vgi_cli.errors import InputError, UsageError
from vgi_cli.evaluation import fail_if
from vgi_cli.evaluation.diagnostics import remarks
from vgi_cli.evaluation.imputation import COVERAGE_DRAWS, score_imputations
from vgi_cli.evaluation.report import imputation_part, loglik_part, make_report, markdown
from vgi_cli.evaluation.truth import compare
from vgi_cli.limits import MOST_REFIT_EPOCHS, MOST_SAMPLES
from vgi_cli.methods import finetune as algorithm
from vgi_cli.methods.base import EpochEnd
from vgi_cli.run import registry
from vgi_cli.run.chosen import adapting_config
from vgi_cli.run.conditionals import comparable_conditionals, diagnose
from vgi_cli.run.files import json_bytes, write_atomic
from vgi_cli.run.finetune import inside_of, require_conditionals
from vgi_cli.run.impute import compute_on, draw, seed_of, table_settings, value_of
from vgi_cli.run.impute_options import ImputeOptions
from vgi_cli.run.likelihood import DEQUANTISATION_DRAWS, log_likelihood
from vgi_cli.run.load import Fitted, load_run, target_of
from vgi_cli.run.plan import stream
from vgi_cli.run.prepare import match, read, rows_of
from vgi_cli.run.problems import Settings, shown
from vgi_cli.run.reporting import Reporter, Silent
from vgi_cli.run.samplers import parameter_uncertainty
from vgi_cli.run.signals import watch_signals
from vgi_cli.run.truth_model import Truth, load_truth
from vgi_cli.table.encoder import log_scale
from vgi_cli.table.outputs import output_format, refuse_sources, refuse_type
from vgi_cli.table.reader import Table
from vgi_cli.table.write_columns import columns_bytes


class EvaluateOptions(NamedTuple):
    """What `vgi evaluate` was asked for."""

    truth: str | None = None
    objective: bool = False
    truth_model: str | None = None
    conditionals: bool = False
    per_row: str | None = None
    out: Path | None = None
    force: bool = False
    conditions: Sequence[fail_if.Condition] = ()
    write: bool = True
    samples: int | None = None
    refit_epochs: int | None = None


class Report(NamedTuple):
    """The report as numbers, its title, and log p(observed cells) of each row (0 for a fully missing row)."""

    values: dict[str, Any]
    title: str
    per_row: Tensor

    def json_text(self) -> str:
        """One JSON object."""
        return json_bytes(self.values).decode()

    def text(self) -> str:
        """Markdown."""
        return markdown(self.values, self.title)


def evaluate(
    checkpoint: Path,
    settings: Settings,
    options: EvaluateOptions,
    reporter: Reporter | None = None,
    table: Table | None = None,
    truth: Table | None = None,
) -> Report:
    """Evaluate a run on a table and write report.json and report.md.

    Raises UsageError, InputError or RunError before anything is written; FailIfMissed after it.
    """
    reporter = Silent() if reporter is None else reporter
    with watch_signals():
        fitted = load_run(checkpoint, reporter, alone=options.truth_model is None)
        if options.objective:
            require_conditionals(fitted)
        _check_latents(fitted, options)
        if options.conditionals:
            comparable_conditionals(fitted)
        fail_if.foresee(options.conditions, _absent(settings, options))
        known = None if options.truth_model is None else load_truth(Path(options.truth_model), fitted, reporter)
        table, truth = _tables(fitted, settings, options, table, truth)
        match(table, fitted.schema, reporter, fate="left out of the likelihood")
        folder = checkpoint / "evaluations" / table.stem if options.out is None else options.out
        if options.write:
            _check_outputs(folder, options, settings)
        report = make(fitted, table, truth, known, settings, options, reporter)
        _require_paths(options.conditions, report.values)
        if options.per_row is not None:
            _write_per_row(Path(options.per_row), table, fitted, report.per_row)
        if not options.write:
            return report
        folder.mkdir(parents=True, exist_ok=True)
        write_atomic(folder / "report.json", report.json_text().encode())
        write_atomic(folder / "report.md", report.text().encode())
        reporter.say(f"report.json and report.md are in {folder}")
        return report


def make(
    fitted: Fitted,
    table: Table,
    truth: Table | None,
    known: Truth | None,
    settings: Settings,
    options: EvaluateOptions,
    reporter: Reporter,
) -> Report:
    """The report of a table; nothing is written. `truth`: the complete table, `known`: the law behind it."""
    device = compute_on(fitted, settings)
    seed = seed_of(fitted, settings)
    missing = rows_of(table, fitted.schema, fitted.recipe.seed).table.missing
    loglik, refit_epochs = log_likelihood(fitted, table, seed, device, options.samples, options.refit_epochs, reporter)
    sd = torch.tensor([column.deviation for column in fitted.schema.encoded])
    rounded = any(column.dequantise for column in fitted.schema.encoded)
    part = loglik_part(loglik, missing, log_scale(fitted.schema), DEQUANTISATION_DRAWS if rounded else 0)
    if refit_epochs is not None and part:
        part["refit_epochs"] = refit_epochs
    notes: list[str] = []
    if rounded:
        notes.append("rounded columns enter through their dequantised density (seeded)")
    scores, sampler = None, None
    if truth is not None:
        scored = _score(fitted, table, truth, sd, settings, options, reporter)
        scores, sampler, more = scored
        notes += more
    parts: dict[str, Any] = {}
    if known is not None:
        parts["truth"], more = compare(known.law, known.fitted, stream(seed, "truth"))
        parts["truth"]["model"] = str(options.truth_model)
        notes += more
    if options.conditionals:
        parts["conditionals"] = diagnose(fitted, table, seed, device, reporter)
    objective = _objective(fitted, table, seed, device, reporter) if options.objective else None
    if loglik.warning:
        reporter.warn(loglik.warning)
    values = make_report(
        table.N, loglik=part, objective=objective, imputation=scores, sampler=sampler, notes=notes, **parts
    )
    return Report(values, f"{table.label} under {fitted.run.path.name}", loglik.values)


def _tables(
    fitted: Fitted, settings: Settings, options: EvaluateOptions, table: Table | None, truth: Table | None
) -> tuple[Table, Table | None]:
    """The table to evaluate and, where imputations can be scored, the complete one."""
    reading = table_settings(settings, fitted.recipe.table)
    mask = value_of(settings, "mask")
    if table is None and mask is not None and options.truth is None and value_of(settings, "data") == ["-"]:
        raise UsageError(
            "--mask scores the hidden cells against DATA, which is read twice: it cannot be standard input",
            "write the table to a file, or name the complete one with --truth",
        )
    if table is None:
        table = read(value_of(settings, "data"), mask, reading)
        if options.truth is not None:
            truth = read([options.truth], None, reading)
        elif mask is not None:
            truth = read(value_of(settings, "data"), None, reading)
    if truth is not None:
        if truth.N != table.N:
            raise InputError(
                f"--truth: {truth.label} has {truth.N} rows, {table.label} has {table.N}",
                "the truth is the same table with its holes filled, row by row",
            )
        match(truth, fitted.schema, Silent())
    return table, truth


def _check_outputs(folder: Path, options: EvaluateOptions, settings: Settings) -> None:
    paths = [folder / "report.json", folder / "report.md"]
    if options.per_row is not None:
        paths.append(Path(options.per_row))
        if not paths[-1].parent.is_dir():
            raise UsageError(f"--per-row: no folder '{paths[-1].parent}'", "create it first")
        refuse_type(paths[-1])
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"--out: '{folder}' is a file", "name a folder")
    given = [*(value_of(settings, "data") or []), value_of(settings, "mask"), options.truth]
    refuse_sources(paths, [path for path in given if path is not None], "read here")
    for path, other in zip(paths, ("-o DIR", "-o DIR", "another --per-row"), strict=False):
        if path.exists() and not options.force:
            raise UsageError(f"'{path}' exists", f"--force replaces it, {other} writes elsewhere")


def _absent(settings: Settings, options: EvaluateOptions) -> dict[str, str]:
    """Parts of the report that were not asked for, and the flags that add them."""
    hidden = options.truth is not None or value_of(settings, "mask") is not None
    asked = {
        "imputation": (hidden, "--truth or --mask"),
        "sampler": (hidden, "--truth or --mask"),
        "objective": (options.objective, "--objective"),
        "truth": (options.truth_model is not None, "--truth-model"),
        "conditionals": (options.conditionals, "--conditionals"),
    }
    return {part: flag for part, (there, flag) in asked.items() if not there}


def _require_paths(conditions: Sequence[fail_if.Condition], report: dict[str, Any]) -> None:
    """UsageError for a condition on a number that the report does not have, before anything is written."""
    fail_if.require(conditions, fail_if.numbers(report))


def _check_latents(fitted: Fitted, options: EvaluateOptions) -> None:
    """UsageError for what belongs to models with latents only, and for numbers that cannot be."""
    for flag, value, least, most in (
        ("--samples", options.samples, 1, MOST_SAMPLES),
        ("--refit-epochs", options.refit_epochs, 0, MOST_REFIT_EPOCHS),
    ):
        if value is None:
            continue
        if not fitted.latent:
            models = " or ".join(name for name, entry in registry.MODELS.items() if "latent" in entry.provides)
            raise UsageError(f"{flag} belongs to models with latents ({models})", "leave it out")
        if not least <= value <= most:
            raise UsageError(
                f"{flag}: expected a whole number from {least} to {most}, got {shown(value)}",
                f"for example {flag} 1000",
            )


def _score(
    fitted: Fitted,
    table: Table,
    truth: Table,
    sd: Tensor,
    settings: Settings,
    options: EvaluateOptions,
    reporter: Reporter,
) -> tuple[dict[str, Any] | None, dict[str, Any], list[str]]:
    """Scores of 19 draws of the cells that are missing in `table` and known in `truth`."""
    names = fitted.schema.modelled
    true = torch.from_numpy(np.stack([truth.numeric(name) for name in names], 1))
    hidden = torch.from_numpy(np.stack([table.missing(name) for name in names], 1))
    if not bool((hidden & torch.isfinite(true)).any()):
        raise InputError(
            f"no cell that is missing in {table.label} is known in the truth", "--truth names the complete table"
        )
    asked = ImputeOptions(m=COVERAGE_DRAWS)
    done = draw(fitted, table, settings, asked, reporter)
    draws = torch.from_numpy(np.asarray(done.draws))
    scores = score_imputations(draws, true, hidden, names, sd)
    included = parameter_uncertainty(fitted, done.sampler, asked.uncertainty)
    sampler = {"name": done.sampler, "parameter_uncertainty": included, **done.diagnostics}
    return None if scores is None else imputation_part(scores), sampler, remarks(done.diagnostics)


def _objective(fitted: Fitted, table: Table, seed: int, device: torch.device, reporter: Reporter) -> float:
    """The VGI objective after fine-tuning a copy of the conditionals on the table (Algorithm 6), encoded units."""
    rows = rows_of(table, fitted.schema, fitted.recipe.seed)
    dtype = next(fitted.model.parameters()).dtype
    data = rows.table.to(dtype=dtype, device=device)
    q = require_conditionals(fitted).to(device)
    generator = stream(seed, "finetune")
    config, target = adapting_config(fitted.recipe, fitted.run.record.chosen), target_of(fitted.recipe)
    state = algorithm.init(fitted.model.to(device), q, data, config, generator, target=target)
    objective = float("nan")
    for event in algorithm.run(state, inside_of(fitted, data)):
        if isinstance(event, EpochEnd):
            objective = event.metrics["objective"]
            reporter.progress(f"fine-tuning, epoch {event.epoch}/{state.epochs}", event.epoch / state.epochs)
    reporter.finish_progress()
    return objective


def _write_per_row(path: Path, table: Table, fitted: Fitted, values: Tensor) -> None:
    """Row number (from 1), the id columns, observed modelled cells and log p(observed cells); empty where none is."""
    names = fitted.schema.modelled
    observed = ~np.stack([table.missing(name) for name in names], 1)
    columns: dict[str, list[Any]] = {"row": list(range(1, table.N + 1))}
    for name in fitted.schema.ids:
        if name in table.names:
            columns[name] = list(table.text(name))
    counts = observed.sum(1).tolist()
    columns["observed"] = counts
    columns["loglik"] = [value if count else None for value, count in zip(values.tolist(), counts, strict=True)]
    delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
    write_atomic(path, columns_bytes(columns, output_format(path, table), delimiter))
