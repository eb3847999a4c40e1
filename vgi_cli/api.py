"""The Python twins of the commands: the same bodies, with paths or tables in memory."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from vgi_cli.commands.arguments import Data, mapping, names, reading, source
from vgi_cli.commands.evaluate.command import EvaluateOptions
from vgi_cli.commands.evaluate.command import evaluate as evaluate_run
from vgi_cli.commands.evaluate.likelihood import Wanted
from vgi_cli.commands.finetune import finetune as finetune_run
from vgi_cli.commands.fit import fit as fit_run
from vgi_cli.commands.impute import draw, fitted_or_new, say_filled
from vgi_cli.commands.impute import impute as impute_run
from vgi_cli.commands.impute_options import ImputeOptions, check_options, with_draws
from vgi_cli.errors import UsageError
from vgi_cli.fitting.fitted import load_run
from vgi_cli.fitting.prepare import survey
from vgi_cli.machine.clock import limit_of
from vgi_cli.models.base import Model
from vgi_cli.registry.plugins import plugged
from vgi_cli.reporting import Lines, Progress, Reporter, Silent
from vgi_cli.runs.folder import RunFolder
from vgi_cli.settings.recipe import gather
from vgi_cli.stages import DRAWING, READING
from vgi_cli.table.memory import is_frame, to_frames
from vgi_cli.table.reader import Table
from vgi_cli.table.source import Whole
from vgi_cli.table.writer import refuse_clash

Say = Callable[[str], None] | None
Tell = Callable[[Progress], None] | None
Plugins = str | Path | Sequence[str | Path]
LAW = "name a run, or a JSON file with the parameters of the law"


class Run:
    """A run folder: what `fit`, `finetune` and `load` return; UsageError where it is made of anything else.

    path      the folder
    manifest  its manifest (format, seeds, hash of the data, timings, `stopped_by`, …)
    plugins   the plugins that it was made or loaded with, for what is done with this object
    """

    def __init__(self, folder: RunFolder, table: Table | None = None, plugins: Plugins = ()) -> None:
        if not isinstance(folder, RunFolder):
            raise UsageError(f"Run: expected an open run folder, got {folder!r}", "vgi_cli.load(PATH) opens one")
        self.path = folder.path
        self.manifest = folder.manifest
        self.plugins = plugins
        self._table = table

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r})"

    def model(self) -> Model:
        """The fitted density (a torch module) over encoded rows."""
        with plugged(self.plugins):
            return load_run(self.path, Silent()).model

    def impute(self, data: Data | None = None, **options: Any) -> Any:
        """See `vgi_cli.impute`. Without data: the table that was fitted, also where it was handed over in memory."""
        if data is None and self._table is not None:
            with plugged(options.pop("plugins", self.plugins)):
                return _impute(self.path, self._table, **options)
        return impute(self.path, data, **{"plugins": self.plugins, **options})

    def finetune(self, data: Data, **options: Any) -> Run:
        """See `vgi_cli.finetune`."""
        return finetune(self.path, data, **{"plugins": self.plugins, **options})

    def evaluate(self, data: Data, **options: Any) -> dict[str, Any]:
        """See `vgi_cli.evaluate`."""
        return evaluate(self.path, data, **{"plugins": self.plugins, **options})


def fit(
    data: Data | None = None,
    *,
    model: str | None = None,
    method: str | None = None,
    imputer: str | None = None,
    recipe: str | Path | None = None,
    set: Mapping[str, Any] | None = None,
    val: str | float | None = None,
    select: str | None = None,
    epochs: int | None = None,
    time_limit: str | float | None = None,
    resume: bool = False,
    force: bool = False,
    id: Sequence[str] = (),
    exclude: Sequence[str] = (),
    columns: Mapping[str, str] | None = None,
    bounds: Mapping[str, str] | None = None,
    unbounded: Sequence[str] = (),
    blocks: Sequence[Sequence[str]] | str = (),
    mask: str | Path | None = None,
    na_values: Sequence[str] = (),
    delimiter: str | None = None,
    seed: int | None = None,
    device: str | None = None,
    threads: int | None = None,
    compile: str | None = None,
    plugins: Plugins = (),
    out: str | Path | None = None,
    say: Say = None,
    progress: Tell = None,
) -> Run:
    """Fit a model on a table with holes and return its run.

    data     paths, or a pandas DataFrame or Arrow table; the other arguments are the flags of `vgi fit`
    set      settings by dotted key, as `--set`: `{"model.factors": 3}`
    plugins  Python files that register models or methods; they are run
    say      takes the lines that the command would write to stderr; none: silence
    progress takes a `vgi_cli.Progress` (stage, stages, name, share, done, total, unit, rate, left, note), often

    Raises UsageError, InputError, RunError (nothing was created), FitError, TimeUp (the time limit was over before
    there was a model), Interrupted (after saving).
    """
    started = time.monotonic()
    table, paths = source(data)
    flags = {
        "data": (paths, "data"),
        "model.name": (model, "model"),
        "method.name": (method, "method"),
        "method.imputer": (imputer, "imputer"),
        "val": (val, "val"),
        "select": (select, "select"),
        "epochs": (epochs, "epochs"),
        "time_limit": (time_limit, "time_limit"),
        "table.id": (names(id), "id"),
        "table.exclude": (names(exclude), "exclude"),
        "table.columns": (mapping(columns, "columns", {"age": "integer"}), "columns"),
        "table.bounds": (mapping(bounds, "bounds", {"age": "0:120"}), "bounds"),
        "table.unbounded": (names(unbounded), "unbounded"),
        "table.blocks": (blocks if isinstance(blocks, str) else [list(group) for group in blocks], "blocks"),
        "compile": (compile, "compile"),
        **reading(mask, na_values, delimiter, seed, device, threads),
    }
    for key, value in mapping(set, "set", {"model.factors": 3}).items():
        if flags.get(key, (None, ""))[0] not in (None, [], {}, value):
            raise UsageError(f"{flags[key][1]} {flags[key][0]} disagrees with set[{key!r}] {value!r}", "say it once")
        flags[key] = (value, "set")
    with plugged(plugins):
        run = fit_run(
            gather(flags, environ=os.environ, recipe=None if recipe is None else Path(recipe)),
            out=None if out is None else Path(out),
            resume=resume,
            force=force,
            reporter=_reporter(say, progress),
            started=started,
            table=table,
        )
    return Run(run, table, plugins)


def finetune(
    checkpoint: str | Path | Run,
    data: Data,
    *,
    epochs: int | None = None,
    time_limit: str | float | None = None,
    force: bool = False,
    mask: str | Path | None = None,
    na_values: Sequence[str] = (),
    delimiter: str | None = None,
    seed: int | None = None,
    device: str | None = None,
    threads: int | None = None,
    plugins: Plugins | None = None,
    out: str | Path | None = None,
    say: Say = None,
    progress: Tell = None,
) -> Run:
    """Adapt the conditionals of a run to new rows, the model unchanged, and return the new run (see `vgi finetune`)."""
    started = time.monotonic()
    table, paths = source(data)
    flags = {
        "data": (paths, "data"),
        "epochs": (epochs, "epochs"),
        "time_limit": (time_limit, "time_limit"),
        **reading(mask, na_values, delimiter, seed, device, threads),
    }
    plugins = _plugins(checkpoint, plugins)
    with plugged(plugins):
        run = finetune_run(
            _path(checkpoint),
            gather(flags, environ=os.environ),
            out=None if out is None else Path(out),
            force=force,
            reporter=_reporter(say, progress),
            started=started,
            table=table,
        )
    return Run(run, table, plugins)


def impute(
    checkpoint: str | Path | Run, data: Data | None = None, *, plugins: Plugins | None = None, **options: Any
) -> Any:
    """Fill the holes of a table (default: the one that was fitted) with draws from the model.

    Without `out`: a list of `m` completed tables (one with `point="mean"` or `"median"`), or with `format="long"` one
    table, all of them below each other with columns `.imp` and `.id`, first the table with its holes as `.imp` 0 (not
    with `original=False`); pandas DataFrames, or Arrow tables where data is one. With `out`: the files are written as
    `vgi impute` does, and their paths are returned.

    The same call gives the same fills. Without `id` columns new rows in memory are keyed by their cells and how often
    they came before in the table, so that rows imputed one per call differ; those equal in every cell do not (an `id`,
    one table for all, or another `seed` makes them). The fitted table and files are keyed by row number.

    Options: m=5, point, sampler, uncertainty, out, format, original, force, strict, mask, na_values, delimiter, seed,
    device, threads, compile, time_limit, say, progress. `strict=True` raises HolesLeft, before any work, where holes
    would stay. `plugins`: those of the fit; a Run remembers them.
    """
    plugins = _plugins(checkpoint, plugins)
    if data is None and isinstance(checkpoint, Run):
        return checkpoint.impute(plugins=plugins, **options)
    table, paths = source(data)
    with plugged(plugins):
        return _impute(_path(checkpoint), table, paths=paths, arrow=is_frame(data) == "arrow", **options)


def _impute(
    checkpoint: Path,
    table: Table | None,
    *,
    paths: list[str] | None = None,
    arrow: bool = False,
    m: int | None = None,
    point: str | None = None,
    sampler: str = "auto",
    uncertainty: str = "auto",
    out: str | Path | None = None,
    format: str | None = None,
    original: bool = True,
    force: bool = False,
    strict: bool = False,
    mask: str | Path | None = None,
    na_values: Sequence[str] = (),
    delimiter: str | None = None,
    seed: int | None = None,
    device: str | None = None,
    threads: int | None = None,
    compile: str | None = None,
    time_limit: str | float | None = None,
    say: Say = None,
    progress: Tell = None,
) -> Any:
    started = time.monotonic()
    flags = {"data": (paths, "data"), **reading(mask, na_values, delimiter, seed, device, threads)}
    flags |= {"compile": (compile, "compile"), "time_limit": (time_limit, "time_limit")}
    settings = gather(flags, environ=os.environ)
    destination = None if out is None else str(out)
    options = ImputeOptions(m, format, point, sampler, uncertainty, original, destination, force, strict)
    options = check_options(options, stdin=False)
    reporter = _reporter(say, progress)
    if out is not None:
        return impute_run(checkpoint, settings, options, reporter, table, started=started)
    fitted = load_run(checkpoint, reporter)
    fitted.say_unused_plugins(reporter, options.sampler)
    options = with_draws(options, fitted, reporter)
    limit = limit_of(settings, started)
    reporter.plan([READING, DRAWING])
    with reporter.stage(READING):
        table = fitted_or_new(fitted, settings) if table is None else table
        if options.layout == "long":
            refuse_clash(table)
        seen = survey(Whole(table), fitted.schema, reporter, strict)
    draws = draw(fitted, table, settings, options, reporter, limit).draws
    say_filled(seen.holes, len(draws), reporter)
    long = options.layout == "long"
    return to_frames(table, fitted.schema, draws, arrow, long, options.original, say=reporter.say)


def evaluate(
    checkpoint: str | Path | Run,
    data: Data,
    *,
    truth: Data | None = None,
    objective: bool = False,
    truth_model: str | Path | Run | None = None,
    conditionals: bool = False,
    samples: int | None = None,
    refit_epochs: int | None = None,
    rows: Wanted = None,
    time_limit: str | float | None = None,
    per_row: str | Path | None = None,
    out: str | Path | None = None,
    force: bool = False,
    mask: str | Path | None = None,
    na_values: Sequence[str] = (),
    delimiter: str | None = None,
    seed: int | None = None,
    device: str | None = None,
    threads: int | None = None,
    plugins: Plugins | None = None,
    say: Say = None,
    progress: Tell = None,
) -> dict[str, Any]:
    """The report of `vgi evaluate` as a dictionary; its files are written only where `out` names a folder.

    truth         the complete table: scores the imputations
    truth_model   the law that the data come from, a run or a JSON file: adds the distance from it
    conditionals  whether to compare the fitted conditionals with the model's own
    rows          how many, drawn at random, are scored where the likelihood has to be estimated: a number (1000), `all`
    time_limit    wall time after which the report is of what was scored by then
    """
    started = time.monotonic()
    table, paths = source(data)
    true_table, true_paths = source(truth, "truth")
    options = EvaluateOptions(
        truth=true_paths[0] if true_paths else None,
        objective=objective,
        truth_model=None if truth_model is None else str(_path(truth_model, "truth_model", LAW)),
        conditionals=conditionals,
        per_row=None if per_row is None else str(per_row),
        out=None if out is None else Path(out),
        force=force,
        write=out is not None,
        samples=samples,
        refit_epochs=refit_epochs,
        rows=rows,
    )
    flags = {"data": (paths, "data"), **reading(mask, na_values, delimiter, seed, device, threads)}
    settings = gather(flags | {"time_limit": (time_limit, "time_limit")}, environ=os.environ)
    reporter = _reporter(say, progress)
    with plugged(_plugins(checkpoint, plugins)), plugged(_plugins(truth_model, None)):
        report = evaluate_run(_path(checkpoint), settings, options, reporter, table, true_table, started)
    if report.interrupted is not None:
        raise report.interrupted
    return report.values


def load(checkpoint: str | Path, plugins: Plugins = ()) -> Run:
    """Open a run folder. Raises RunError when it is damaged, newer than this program, or no run.

    plugins  for what is done with the run; they are imported when they are needed, not here
    """
    return Run(RunFolder.open(_path(checkpoint)), plugins=plugins)


def _path(run: str | Path | Run, argument: str = "checkpoint", hint: str = "name a run folder") -> Path:
    """The path of a run or a file; UsageError that names the argument where it is neither."""
    if not isinstance(run, str | Path | Run):
        raise UsageError(f"{argument}: expected a Run or a path, got {type(run).__name__}", hint)
    return run.path if isinstance(run, Run) else Path(run)


def _plugins(checkpoint: str | Path | Run | None, plugins: Plugins | None) -> Plugins:
    """What was said, else what the Run was made with."""
    if plugins is not None:
        return plugins
    return checkpoint.plugins if isinstance(checkpoint, Run) else ()


def _reporter(say: Say, progress: Tell) -> Reporter:
    return Silent() if say is None and progress is None else Lines(say, progress)


__all__ = ["Progress", "Run", "evaluate", "finetune", "fit", "impute", "load"]
