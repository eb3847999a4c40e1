"""The Python twins of the commands: the same requests, with paths or tables in memory."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, Unpack

from vgi_cli.commands.batches import BatchImputer, batch_imputer
from vgi_cli.commands.check.command import CheckRequest
from vgi_cli.commands.pool import doubts, estimates_of
from vgi_cli.commands.report.request import ReportRequest
from vgi_cli.commands.requests import (
    EvaluateRequest,
    FinetuneRequest,
    FitRequest,
    HideRequest,
    ImputeRequest,
    Request,
    SampleRequest,
    ScoreRequest,
    make_request,
    source,
)
from vgi_cli.errors import UsageError, VgiWarning
from vgi_cli.fitting.fitted import load_run
from vgi_cli.machine.device import kept_threads
from vgi_cli.models.base import Model
from vgi_cli.pooling.estimates import from_arrays, from_results
from vgi_cli.pooling.pooled import Pooled
from vgi_cli.registry.plugins import plugged
from vgi_cli.reporting import Heard, Lines, Progress, Reporter, Silent
from vgi_cli.runs.folder import RunFolder
from vgi_cli.settings.options import (
    HIDDEN_THERE,
    BatchOptions,
    CheckOptions,
    Data,
    EvaluateOptions,
    FinetuneOptions,
    FitOptions,
    Frame,
    HideOptions,
    ImputeOptions,
    Plugins,
    ReportOptions,
    SampleOptions,
    ScoreOptions,
    as_files,
    fields_of,
    read_given,
    shown_by_help,
)
from vgi_cli.table.base import Table
from vgi_cli.table.frames import (
    ArrowStream,
    columns_array,
    columns_frame,
    exported,
    from_frame,
    is_frame,
    named_columns,
)
from vgi_cli.table.given import as_library, library_of
from vgi_cli.table.reader import read_table

LAW = "name a run, or a JSON file with the parameters of the law"


class Run:
    """A run folder: what `fit`, `finetune` and `load` return; UsageError where it is made of anything else.

    path      the folder
    manifest  its manifest (format, seeds, hash of the data, timings, `stopped_by`, …)
    plugins   the plugins that it was made or loaded with, for what is done with this object
    """

    def __init__(
        self, folder: RunFolder, table: Table | None = None, plugins: Plugins = (), library: str = "pandas"
    ) -> None:
        if not isinstance(folder, RunFolder):
            raise UsageError(f"Run: expected an open run folder, got {folder!r}", "vgi_cli.load(PATH) opens one")
        self.path = folder.path
        self.manifest = folder.manifest
        self.plugins = plugins
        self._table, self._library = table, library

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r})"

    def model(self) -> Model:
        """The fitted density (a torch module) over encoded rows."""
        with plugged(self.plugins):
            return load_run(self.path, Silent()).model

    @shown_by_help(ImputeOptions)
    def impute(self, data: Data | None = None, **options: Unpack[ImputeOptions]) -> Any:
        """As `vgi_cli.impute`. Without data: the table that was fitted, also where it was handed over in memory; what
        comes back is then of the library of that table (pandas where it was read from files)."""
        return impute(self, data, **options)

    @shown_by_help(FinetuneOptions)
    def finetune(self, data: Data, **options: Unpack[FinetuneOptions]) -> Run:
        """As `vgi_cli.finetune`."""
        return finetune(self, data, **options)

    @shown_by_help(EvaluateOptions)
    def evaluate(self, data: Data, **options: Unpack[EvaluateOptions]) -> dict[str, Any]:
        """As `vgi_cli.evaluate`."""
        return evaluate(self, data, **options)

    @shown_by_help(SampleOptions)
    def sample(self, **options: Unpack[SampleOptions]) -> Any:
        """As `vgi_cli.sample`."""
        return sample(self, **options)

    @shown_by_help(ScoreOptions)
    def score(self, data: Data, **options: Unpack[ScoreOptions]) -> Any:
        """As `vgi_cli.score`."""
        return score(self, data, **options)

    @shown_by_help(ReportOptions)
    def report(self, **options: Unpack[ReportOptions]) -> dict[str, Any]:
        """As `vgi_cli.report`, on this run."""
        return report(self, **options)


@shown_by_help(FitOptions)
@kept_threads()
def fit(data: Data | None = None, **options: Unpack[FitOptions]) -> Run:
    """Fit a model on a table with holes and return its run.

    data     paths, or a pandas DataFrame or Arrow table; the other arguments are the flags of `vgi fit`
    set      settings by dotted key, as `--set`: `{"model.factors": 3}`
    plugins  Python files that register models or methods; they are run
    say      takes the lines that the command would write to stderr; None: those that must be read are a VgiWarning
    progress takes a `vgi_cli.Progress` (stage, share, time left, score, …), often

    Raises UsageError, InputError, RunError (nothing was created), FitError, TimeUp (the time limit was over before
    there was a model), Interrupted (after saving).
    """
    request = _request(FitRequest, FitOptions, "fit", data, options)
    return Run(request.carry_out(_reporter(options)), request.table, request.plugins, _library(data))


@shown_by_help(CheckOptions)
@kept_threads()
def check(data: Data, **options: Unpack[CheckOptions]) -> dict[str, Any]:
    """What a table is, before it is fitted: the object of `vgi check --json`, as vgi_cli/schemas/check.json says."""
    request = _request(CheckRequest, CheckOptions, "check", data, options, json=True)
    return request.carry_out(_reporter(options)).values


@shown_by_help(FinetuneOptions)
@kept_threads()
def finetune(checkpoint: str | Path | Run, data: Data, **options: Unpack[FinetuneOptions]) -> Run:
    """Adapt the conditionals of a run to new rows, the model unchanged, and return the new run (see `vgi finetune`)."""
    request = _request(FinetuneRequest, FinetuneOptions, "finetune", data, options, checkpoint=checkpoint)
    return Run(request.carry_out(_reporter(options)), request.table, request.plugins, _library(data))


@shown_by_help(ImputeOptions)
@kept_threads()
def impute(checkpoint: str | Path | Run, data: Data | None = None, **options: Unpack[ImputeOptions]) -> Any:
    """Fill the holes of a table (default: the one that was fitted) with draws from the model.

    Without `out`: a list of `m` completed tables (one with `point="mean"`, `"median"` or `"mode"`), or with
    `format="long"` one table, all of them below each other with columns `.imp` and `.id`, first the table with its
    holes as `.imp` 0 (not with `original=False`); pandas DataFrames, or Arrow tables or polars DataFrames
    where data is one (without data: where the fit that made this Run was given one). With `out`: the files are written
    as `vgi impute` does, and their paths are returned.

    The same call gives the same fills. Without `id` columns new rows in memory are keyed by their cells and how often
    they came before in the table, so that rows imputed one per call differ; those equal in every cell do not (an `id`,
    one table for all, or another `seed` makes them). The fitted table and files are keyed by row number.

    The options are the flags of `vgi impute`. `strict=True` raises HolesLeft, before any work, where holes would stay.
    `plugins`: those of the fit; a Run remembers them.
    """
    request = _request(ImputeRequest, ImputeOptions, "impute", data, options, checkpoint=checkpoint)
    reporter = _reporter(options)
    if request.out is not None:
        return request.carry_out(reporter)
    library = checkpoint._library if data is None and isinstance(checkpoint, Run) else _library(data)
    return _as_given(request.frames(reporter, library != "pandas"), library)


@shown_by_help(BatchOptions)
def impute_batches(
    checkpoint: str | Path | Run, key: str | None = None, **options: Unpack[BatchOptions]
) -> BatchImputer:
    """A function that fills the holes of Arrow batches (tables or record batches) of a larger table, and that can be
    pickled: for `map_batches` of Ray Data, `mapInArrow` of Spark, Dask and whatever hands batches to processes. Each of
    these loads the run once, from its folder. See docs/batches.md.

    key   the column by which the rows of the whole table are told apart, and which keys their draws: whole numbers (of
          rows, from 0: the fills are those of `vgi impute` on the whole table) or texts. Default: the `id` columns of
          the fit; without these each call says `start=`, the number of its first row
    m     draws of each hole: 1, or several, which come below each other with a column `.imp`
    point, sampler, uncertainty, seed, …  as of `vgi impute`

    Raises UsageError for what cannot be, RunError where there is no run.
    """
    request = _request(ImputeRequest, BatchOptions, "impute_batches", None, options, checkpoint=checkpoint)
    return batch_imputer(replace(request, table=None), key)


@shown_by_help(EvaluateOptions)
@kept_threads()
def evaluate(checkpoint: str | Path | Run, data: Data, **options: Unpack[EvaluateOptions]) -> dict[str, Any]:
    """The report of `vgi evaluate` as a dictionary; its files are written only where `out` names a folder.

    truth         the complete table: scores the imputations
    truth_model   the law that the data come from, a run or a JSON file: adds the distance from it
    conditionals  whether to compare the fitted conditionals with the model's own and, with `truth_model`, the truth's
    rows          how many, drawn at random, are scored where the likelihood has to be estimated: a number (1000; their
                  fills: 5000), `all`
    time_limit    wall time after which the report is of what was scored by then

    Raises Unwritten where a file cannot be written: its `report` is the dictionary.
    """
    truth_table, truth = source(options.get("truth"), "truth")
    model = options.get("truth_model")
    request = _request(
        EvaluateRequest,
        EvaluateOptions,
        "evaluate",
        data,
        options,
        checkpoint=checkpoint,
        truth=truth[0] if truth else None,
        truth_table=truth_table,
        truth_model=None if model is None else str(_path(model, "truth_model", LAW)),
        json=True,
    )
    if isinstance(model, Run):
        request = replace(request, plugins=(*request.plugins, *as_files(model.plugins)))
    report = request.carry_out(_reporter(options))
    if report.interrupted is not None:
        raise report.interrupted
    if report.unwritten is not None:
        raise report.unwritten
    return report.values


def pool(
    estimates: str | Path | Frame | Sequence[Any],
    std_errors: Any = None,
    *,
    covariances: Any = None,
    terms: Sequence[str] | None = None,
    df_complete: float | None = None,
    level: float = 0.95,
) -> Pooled:
    """Combine the analyses of m filled tables into one by Rubin's rules (see `vgi pool`).

    estimates    the fits, one for each table: results of statsmodels, or anything with `params` and `cov_params()` or
                 `bse`; or an array [m, terms] (of one quantity: [m]), also as a DataFrame with a column for each term;
                 or a long table, as a path or in memory, with columns imputation, term, estimate, std_error, and for
                 tests cov:TERM
    std_errors   of an array of estimates: their standard errors, of the same shape
    covariances  or, instead, their covariance matrices [m, terms, terms], which tests of several terms need
    terms        of an array of estimates: the names of its columns (of a DataFrame by default its own)
    df_complete  degrees of freedom that the analysis would have without missing data, such as rows less parameters;
                 default: the smallest `df_resid` of the fits, else infinite
    level        of the confidence intervals

    The result has `table` (a DataFrame), `test(["a", "b"])`, `covariance`, `to_dict()` and a text. Raises UsageError
    or InputError for what cannot be pooled.
    """
    frame = _frame_of(estimates)
    of_arrays = std_errors is not None or covariances is not None
    if isinstance(estimates, str | Path) or (frame is not None and not (of_arrays and _is_array(frame))):
        if of_arrays or terms is not None:
            raise UsageError("a long table holds the standard errors, covariances and terms itself", "leave them out")
        table = read_table([str(estimates)]) if frame is None else from_frame(frame)
        found = estimates_of(table, df_complete)
        _warn(doubts(table, found))
        return Pooled(found, level)
    std_errors = _errors_of(std_errors, None if frame is None else named_columns(frame))
    if frame is not None:
        estimates, terms = columns_array(frame), named_columns(frame) if terms is None else terms
    if not isinstance(estimates, Iterable):
        given = type(estimates).__name__
        raise UsageError(
            f"estimates: expected fitted models, an array or a long table, got {given}", "help(vgi_cli.pool)"
        )
    if std_errors is None and covariances is None and terms is None:
        found = from_results(list(estimates), df_complete)
    else:
        found = from_arrays(estimates, std_errors, covariances, terms, df_complete)
    _warn(filter(None, [found.doubt()]))
    return Pooled(found, level)


def _frame_of(given: Any) -> Frame | None:
    """A table in memory, of pandas or Arrow; None where something is none."""
    if is_frame(given):
        return given
    return exported(given) if isinstance(given, ArrowStream) else None


def _is_array(frame: Frame) -> bool:
    """Whether a table may be an array [m, terms], as it does not have the columns of a long table."""
    return not {"term", "estimate"} <= set(named_columns(frame) or ())


def _errors_of(errors: Any, terms: Sequence[str] | None) -> Any:
    """Standard errors as an array where they are a table. UsageError where it has the columns of the estimates, which
    are `terms`, in another order."""
    frame = _frame_of(errors)
    if frame is None:
        return errors
    names = named_columns(frame)
    if names is not None and terms is not None and names != terms and sorted(names) == sorted(terms):
        raise UsageError("std_errors: has its terms in another order than the estimates", "give one order")
    return columns_array(frame)


def _warn(lines: Iterable[str]) -> None:
    """Warnings of the caller's caller."""
    for line in lines:
        warnings.warn(line, VgiWarning, stacklevel=3)


@shown_by_help(SampleOptions)
@kept_threads()
def sample(checkpoint: str | Path | Run, **options: Unpack[SampleOptions]) -> Any:
    """Rows drawn from the model of a run, as a pandas DataFrame in the columns and types of the table that was fitted.

    n        how many; more rows leave the first ones as they are
    missing  whether they have the holes of fitted rows, which are chosen at random
    seed     other rows; None: the run's

    Ids, free text and other columns that are carried are empty. With `out`: the file is written, and its path is
    returned.
    """
    request = _request(SampleRequest, SampleOptions, "sample", None, options, checkpoint=checkpoint)
    reporter = _reporter(options)
    return request.frame(reporter) if request.out is None else request.carry_out(reporter)[0]


@shown_by_help(ReportOptions)
@kept_threads()
def report(run: str | Path | Run | Sequence[str | Path | Run], **options: Unpack[ReportOptions]) -> dict[str, Any]:
    """Look at one or more fits and judge them: the object of `vgi report --json`, as vgi_cli/schemas/report.json says.
    With `out`, an HTML file, the page is written too.

    rows     of each table, drawn at random, whose holes are filled and looked at: a number (2000), or `all`
    tipping  columns whose pooled mean is looked at over shifts of their fills: `["age"]`, or `["age=30"]`, which holds
             the interval of the mean against 30 instead of the mean without a shift
    time_limit  wall time after which the report is of what there is by then, and names what was left out

    Raises Unwritten where the page cannot be written: its `report` is the dictionary.
    """
    runs = [run] if isinstance(run, str | Path | Run) else list(run)
    tables = [each._table if isinstance(each, Run) else None for each in runs]
    paths = [_path(each, "run") for each in runs]
    files = [file for each in runs if isinstance(each, Run) for file in as_files(each.plugins)]
    said = {**options} if options.get("plugins") is not None or not files else {**options, "plugins": tuple(files)}
    request = _request(ReportRequest, ReportOptions, "report", None, said, run=paths, tables=tables, json=True)
    found = request.carry_out(_reporter(options))
    if found.unwritten is not None:
        raise found.unwritten
    return found.values


@shown_by_help(HideOptions)
@kept_threads()
def hide(data: Data, **options: Unpack[HideOptions]) -> Any:
    """Hide observed cells of a table by a known mechanism, to see how well they are filled.

    mechanism  mcar (every cell alike), mar (by the ranks of cells that stay) or mnar (by the rank of the cell)
    rate       share of the observed cells of a column to hide (0.3)
    only       the columns that lose cells; default: all that are modelled

    A tuple with `table` (with its holes), `mask` (1 = observed, 0 = missing), `truth` (the table before), pandas
    DataFrames, or Arrow tables where data is one, and `record` (how the cells were hidden, by column how many). With
    `out`, a folder: the files of `vgi hide` are written, and the paths of table, mask and truth are returned.
    """
    request = _request(HideRequest, HideOptions, "hide", data, options)
    reporter = _reporter(options)
    return request.frames(reporter, _library(data) != "pandas") if request.out is None else request.carry_out(reporter)


@shown_by_help(ScoreOptions)
@kept_threads()
def score(checkpoint: str | Path | Run, data: Data, **options: Unpack[ScoreOptions]) -> Any:
    """log p(observed cells) of each row of a table: the lowest rows are the least expected.

    A pandas DataFrame, or an Arrow table or a polars DataFrame where data is one, with a line for every row: `row`
    (from 1), the ids, `observed` (cells), `loglik` (nats, data units; missing where no cell is observed) and
    `estimator` (`exact`, or how the value was estimated: `annealed`, `iwae`). With `out`: the file is written, and its
    path is returned.
    """
    request = _request(ScoreRequest, ScoreOptions, "score", data, options, checkpoint=checkpoint)
    scores = request.carry_out(_reporter(options))
    if scores.interrupted is not None:
        raise scores.interrupted
    if scores.written is not None:
        return scores.written
    library = _library(data)
    return _as_given(columns_frame(scores.columns, library != "pandas"), library)


def _library(data: Any) -> str:
    """In which library tables are made for who gave this one: `pandas` (of files too), `polars`, else `arrow`."""
    if is_frame(data) or not isinstance(data, ArrowStream):
        return is_frame(data) or "pandas"
    return "polars" if library_of(data) == "polars" else "arrow"


def _as_given(tables: Any, library: str) -> Any:
    """Tables, or a list of them, in polars where that is the library."""
    if library != "polars":
        return tables
    several = isinstance(tables, list)
    return [as_library(one, library, None) for one in tables] if several else as_library(tables, library, None)


def load(checkpoint: str | Path, plugins: Plugins = ()) -> Run:
    """Open a run folder. Raises RunError when it is damaged, newer than this program, or no run.

    plugins  for what is done with the run; they are imported when they are needed, not here
    """
    return Run(RunFolder.open(_path(checkpoint)), plugins=plugins)


_Request = TypeVar("_Request", bound=Request)


def _request(
    kind: type[_Request],
    options: Any,
    function: str,
    data: Data | None,
    given: Mapping[str, Any],
    **more: Any,
) -> _Request:
    """The request of a function's arguments. A Run brings its plugins, and its table where no data are given."""
    more["started"] = time.monotonic()
    said = read_given(function, fields_of(options), given)
    table, paths = source(data)
    run = more.get("checkpoint")
    if "checkpoint" in more:
        more["checkpoint"] = _path(run)
    if isinstance(run, Run):
        table = run._table if data is None else table
        more["plugins"] = as_files(run.plugins) if said.values["plugins"] is None else said.values["plugins"]
    if table is not None:
        _refuse_reading(said.values)
    with plugged(more.get("plugins", said.values.get("plugins")) or ()):  # settings may have their names
        return make_request(kind, said, paths, os.environ, table=table, **more)


_IN_MEMORY = {
    "mask": f"{HIDDEN_THERE}, or name a file",
    "na_values": "put holes there, with `frame.replace(…, numpy.nan)`, or name a file",
    "delimiter": "leave it out, or name a file",
    "decimal": "leave it out, or name a file",
}
"""What says how files are read, and what to do instead where the table is in memory."""


def _refuse_reading(said: Mapping[str, Any]) -> None:
    """UsageError for what says how files are read, where the table is in memory: it would do nothing."""
    for name, hint in _IN_MEMORY.items():
        if said.get(name):
            raise UsageError(f"{name}: says how files are read, and the table is in memory", hint)


def _path(run: object, argument: str = "checkpoint", hint: str = "name a run folder") -> Path:
    """The path of a run or a file; UsageError that names the argument where it is neither."""
    if not isinstance(run, str | Path | Run):
        raise UsageError(f"{argument}: expected a Run or a path, got {type(run).__name__}", hint)
    return run.path if isinstance(run, Run) else Path(run)


def _reporter(options: Mapping[str, Any]) -> Reporter:
    say, progress = options.get("say"), options.get("progress")
    return Heard(None, progress) if say is None else Lines(say, progress)


__all__ = [
    "Progress",
    "Run",
    "check",
    "evaluate",
    "finetune",
    "fit",
    "hide",
    "impute",
    "impute_batches",
    "load",
    "pool",
    "report",
    "sample",
    "score",
]
