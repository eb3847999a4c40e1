"""`vgi fit`: refuse early, read the table, fit its rows, and leave a complete run folder."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor

from vgi_cli.columns.schema import Schema, kinds_in
from vgi_cli.commands.card import write_card
from vgi_cli.commands.dry_run import DryRun
from vgi_cli.commands.fit_plan import fit_plan
from vgi_cli.commands.holdout import first_fit
from vgi_cli.commands.memory import Placing, in_pieces, place, require_files, require_memory
from vgi_cli.commands.requests import FitRequest
from vgi_cli.encoding.kinds import fixing, kinds_of
from vgi_cli.errors import FitError, InputError, Interrupted, RunError, UsageError, VgiError, nearest_file
from vgi_cli.fitting.driver import how_it_ended
from vgi_cli.fitting.fit_rows import Keep, More, fit_rows, in_memory, resume_rows, stages
from vgi_cli.fitting.fitted import FittedTable, check_settings, load, used_names
from vgi_cli.fitting.plan import absolute, find_run, finished, make_plan, merge
from vgi_cli.fitting.refits import refit_count
from vgi_cli.fitting.rows import (
    Rows,
    check_same_data,
    check_same_held,
    kept_rows,
    match,
    new_schema,
    quiet_schema,
    read,
    require_fitted_files,
    rows_of,
    to_keep,
    weighted,
)
from vgi_cli.fitting.sharing import check_same_table, check_shared
from vgi_cli.fitting.tensorboard import told
from vgi_cli.machine.device import resolve_device, set_threads
from vgi_cli.machine.memory import Ceiling
from vgi_cli.machine.ranks import joined
from vgi_cli.machine.work import TimeUp, Work, limit_of, watch_signals
from vgi_cli.machine.workers import workers_for
from vgi_cli.ranks import ALONE, Ranks
from vgi_cli.registry import names as registry
from vgi_cli.registry import plugins
from vgi_cli.reporting import ENCODING, POSTERIOR, READING, REFITS, SAVING, TRAINING, TRYING, Reporter, Silent
from vgi_cli.runs.comparison import Comparison, ComparisonInFolder, begun_with, compared, say_what_is_kept
from vgi_cli.runs.elsewhere import RunElsewhere
from vgi_cli.runs.files import REMEDIES
from vgi_cli.runs.folder import (
    CARD,
    Claim,
    RunFolder,
    beside,
    check_free,
    check_writable,
    claim_compared,
    claim_or_beside,
    has_model,
    in_its_place,
    is_compared,
    is_run,
    left_beside,
    set_aside,
    vacant,
)
from vgi_cli.runs.lock import sole_writer
from vgi_cli.runs.store import SCHEMA, RunStore
from vgi_cli.settings.problems import Setting, Settings, origin
from vgi_cli.settings.recipe import Recipe, as_settings
from vgi_cli.table.base import Table
from vgi_cli.table.columns import TableInFiles
from vgi_cli.workers import ONE_PROCESS

IN_FILES = ("em", "vgi", "vbgi")
"""Methods that work on a table whose rows lie in files."""
ANEW = "fit anew with another --out"
"""What to do where a fit cannot go on, because its table is not what it was."""
NOWHERE = Comparison()
READ, KNOWN = 0.4, 0.7
"""Shares of the reading after which the table is in memory, and its columns are known."""


def fit(request: FitRequest, reporter: Reporter) -> RunFolder:
    """Fit a model and return its run folder: where nobody says which, the next free run1/, run2/, …

    Raises UsageError, InputError or RunError before anything is created, FitError when training fails, TimeUp where the
    time limit was over before there was a model, Interrupted after saving.
    """
    out = request.folder
    limit = limit_of(request.settings, request.started)
    run = find_run(out) if request.resume else None
    goes_on = _goes_on(request)
    request = _begun_with(request, reporter) if goes_on else request
    settings = request.settings
    if out is not None and not request.force and (aside := set_aside(out)):
        reporter.warn(f"{in_its_place(out, aside[0])}; it stays there, and this fit goes on")
    elif out is not None and run is not None and (aside := beside(out)):
        reporter.warn(left_beside(out, aside[0]))
    with watch_signals() as stop, Ceiling() as ceiling, _ranks(request, run) as ranks:
        if run is not None:
            with _written(lambda: run.path):
                work = Work(reporter, limit, stop, request.started, run.path, ranks=ranks)
                return _resume(run, request, work, ceiling)
        if request.resume and request.table is None and "data" not in settings:
            begin = "name the table too, to begin a fit there"
            if out is not None and not out.exists():
                near = nearest_file(out)
                hint = f"{near.removesuffix('?')}, or {begin}" if near.startswith("did you mean") else begin
                raise UsageError(f"--resume: there is no {out}", hint)
            raise UsageError(f"--resume: nothing was fitted in {out} yet", begin)
        if request.resume and not goes_on:
            reporter.say(f"nothing was fitted in {out} yet: the fit starts at the beginning")
        made: list[RunFolder] = []
        folder = _Folder(request, reporter)

        @contextmanager
        def keep(manifest: Mapping[str, Any]) -> Iterator[RunStore]:
            if ranks.rank:
                made.append(RunFolder(Path(ranks.text("")), dict(manifest)))
                yield RunElsewhere(manifest, made[0].path, ranks)
                return
            with folder.writing:
                claimed = folder.claim()
                made.append(RunFolder(claimed.path, dict(manifest), claimed))
                made[0].ranks = ranks
                ranks.text(str(claimed.path))
                with told(made[0], request.tensorboard):
                    yield made[0]

        beside_it = Path().absolute() if out is None else out.absolute().parent
        work = Work(reporter, limit, stop, request.started, beside_it, ranks=ranks)
        with _written(lambda: folder.path), folder.told(), folder.writing:
            _fit(request, keep, work, ceiling, folder.comparison(ranks))
        return made[0]


class _Folder:
    """The folder of a new run. It is claimed at the first score of a comparison of models, which is kept there; where
    there is none, or another run is to be replaced, when training begins.

    path     None: nothing is claimed yet
    writing  within this context it is held for writing once it is claimed
    """

    def __init__(self, request: FitRequest, reporter: Reporter) -> None:
        self.path: Path | None = None
        self.writing = ExitStack()
        self._request, self._reporter = request, reporter
        self._claimed: Claim | None = None

    def claim(self) -> Claim:
        """Claim the folder, unless that was done."""
        if self._claimed is None:
            out, request = self._request.folder, self._request
            goes_on = out is not None and _goes_on(request)
            claimed = claim_compared(out) if out is not None and goes_on else claim_or_beside(out, request.force)
            if out is not None and claimed.path != out:
                self._reporter.warn(f"another command has taken '{out}' meanwhile: this run is '{claimed.path}'")
            self.writing.enter_context(sole_writer(claimed.path))
            self.writing.enter_context(claimed.undone_if_empty())
            self._claimed, self.path = claimed, claimed.path
        return self._claimed

    def comparison(self, ranks: Ranks) -> Comparison:
        """Where a comparison of models keeps its scores: one that goes on is claimed at once."""
        out, request = self._request.folder, self._request
        goes_on = _goes_on(request)
        if ranks.rank or (request.force and out is not None and out.exists() and not vacant(out)):
            return Comparison()
        if goes_on:
            self.claim()
        said = {key: value for key, (value, _) in request.settings.items() if key != "time_limit"}
        for key in ("data", "mask", "val"):
            said |= {key: _absolute(said[key])} if said.get(key) is not None else {}
        command = {"settings": said, "max_memory": request.max_memory}
        return ComparisonInFolder(lambda: self.claim().path, command, self._reporter.warn, out if goes_on else None)

    @contextmanager
    def told(self) -> Iterator[None]:
        """Errors in this context say what is kept of a comparison where no run was begun."""
        try:
            yield
        except (VgiError, Interrupted) as error:
            if self.path is not None and is_compared(self.path):
                words = f"vgi fit --resume --out {shlex.quote(str(self.path))}{plugins.flags()}"
                say_what_is_kept(error, self.path, words)
            raise


def _absolute(value: Any) -> Any:
    """A path, or several, wherever the command is given again from; other values as they are."""
    if isinstance(value, list | tuple):
        return [_absolute(one) for one in value]
    return absolute(value) if isinstance(value, str) else value


def _goes_on(request: FitRequest) -> bool:
    """Whether a comparison of models goes on that was stopped before a run was begun."""
    return request.resume and request.folder is not None and is_compared(request.folder)


def _begun_with(request: FitRequest, reporter: Reporter) -> FitRequest:
    """The request to go on with a comparison: what it was begun with, and what is said now."""
    path = request.folder
    assert path is not None
    before = begun_with(path)
    kept = {key: Setting(value, f"the command of '{path}'") for key, value in before["settings"].items()}
    if request.table is not None:
        kept.pop("data", None)
    reporter.say(f"models were compared in {path} before: the comparison goes on")
    memory = before["max_memory"] if request.max_memory is None else request.max_memory
    return replace(request, settings={**kept, **request.settings}, max_memory=memory)


@contextmanager
def _written(place: Callable[[], Path | None]) -> Iterator[None]:
    """FitError where the disk fails a run in this context: in which folder, what is kept there, and how the fit goes
    on. `place`: the folder; None: there is none yet."""
    try:
        yield
    except OSError as error:
        path = place()
        if error.errno not in REMEDIES or path is None or not (is_run(path) or is_compared(path)):
            raise
        if error.filename is not None and not Path(error.filename).resolve().is_relative_to(path.resolve()):
            raise
        kept = "; the last good checkpoint is kept" if has_model(path) else ""
        kept = "; what models scored so far is kept" if is_compared(path) and compared(path) else kept
        raise FitError(
            f"cannot write in '{path}': {error.strerror}{kept}",
            f"{REMEDIES[error.errno]}, then: vgi fit --resume --out {shlex.quote(str(path))}{plugins.flags()}",
        ) from None


def _ranks(request: FitRequest, run: RunFolder | None) -> AbstractContextManager[Ranks]:
    """The processes that share a fit, of which this is one: refused before they wait for each other is what can be.
    `run`: the one that goes on."""
    settings, from_memory = request.settings, request.table is not None
    if request.launch.alone or (run is not None and finished(run, settings)):
        return nullcontext(ALONE)
    if run is None:
        _check_plugins(settings, Silent())
        recipe = make_plan(settings, from_memory=from_memory)
        _check_free(request)
    else:
        recipe = merge(run, settings)
    check_shared(recipe)
    if request.max_memory is not None:
        raise UsageError(
            "--max-memory counts for one process, and this is one of several", "leave it out, or start one process"
        )
    return joined(request.launch, resolve_device(recipe.device, origin(settings, "device", "--device")))


def dry_run(request: FitRequest, reporter: Reporter) -> DryRun:
    """Read the table and say what each column is taken for; nothing is fitted and nothing written. Raises what `fit`
    raises of settings and tables."""
    settings, table = request.settings, request.table
    _check_plugins(settings, reporter)
    recipe = _choose_encoding(make_plan(settings, from_memory=table is not None))
    check_free(request.folder, request.force)
    require_files(request.max_memory, table)
    reporter.plan([READING, TRYING])
    with reporter.stage(READING) as stage:
        if table is None:
            require_memory(request.max_memory, recipe.data, recipe.mask, recipe.table, tables=1)
        table = read(recipe.data, recipe.mask, recipe.table) if table is None else table
        schema = new_schema(table, recipe, reporter)
        rows, held = _encode(recipe, table, schema, stage, reporter)
    plan = fit_plan(rows, held, recipe, request, reporter)
    said = recipe.table.columns
    return DryRun(
        kinds_of(table, schema, said, recipe.table.weight), fixing(schema, said, **recipe.table.beside_kinds), plan
    )


def foreseen(request: FitRequest) -> Schema:
    """What a fit of a table in memory will take its columns for. Raises what `fit` raises of settings and tables."""
    assert request.table is not None
    _check_plugins(request.settings, Silent())
    recipe = _choose_encoding(make_plan(request.settings, from_memory=True))
    return quiet_schema(request.table, recipe)


def fit_in_memory(request: FitRequest, reporter: Reporter) -> FittedTable:
    """As `fit`, with no file written: the run is that of this process alone."""
    limit = limit_of(request.settings, request.started)
    with watch_signals() as stop, Ceiling() as ceiling:
        return load(_fit(request, in_memory, Work(reporter, limit, stop, request.started), ceiling), reporter)


def _check_free(request: FitRequest) -> None:
    """Refuse an `--out` that exists, but for one in which a comparison goes on."""
    if not _goes_on(request):
        check_free(request.folder, request.force)


def _fit(request: FitRequest, keep: Keep, work: Work, ceiling: Ceiling, comparison: Comparison = NOWHERE) -> RunStore:
    """Refuse what cannot work, read the table, encode it and fit its rows; `comparison` keeps the scores of models."""
    settings, table = request.settings, request.table
    _check_plugins(settings, work.reporter)
    require_files(request.max_memory, table)
    recipe = make_plan(settings, from_memory=table is not None)
    _check_free(request)
    if keep is not in_memory and work.ranks.rank == 0:
        check_writable(request.folder)
    set_threads(recipe.threads or 1)
    work = replace(work, workers=workers_for(recipe.threads, work.reporter.warn) if work.ranks.alone else ONE_PROCESS)
    work.reporter.plan([READING, *stages(recipe, None)])
    with work.reporter.stage(READING) as stage:
        if table is None:
            table = place(recipe, _placing(recipe, request.max_memory, work.folder), ceiling, work.reporter)
        check_same_table(table, work.ranks)
        stage(READ)
        recipe = _choose_encoding(recipe.replace(device="cpu") if isinstance(table, TableInFiles) else recipe)
        schema = new_schema(table, recipe, work.reporter)
        if recipe.holdout_cells is None or not schema.modelled:
            rows, held = _encode(recipe, table, schema, stage, work.reporter)
    more = More(comparison=comparison)
    if recipe.holdout_cells is not None and schema.modelled:
        recipe, texts = first_fit(recipe, table, schema, partial(_in_memory, settings, more), work)
        schema = quiet_schema(table, recipe)
        with work.reporter.stage(ENCODING) as stage:
            rows, held = _encode(recipe, table, schema, stage, work.reporter)
        more = more._replace(texts=texts)
    recipe = recipe.replace(
        data=tuple(absolute(path) for path in recipe.data),
        mask=None if recipe.mask is None else absolute(recipe.mask),
        val=absolute(recipe.val) if isinstance(recipe.val, str) else recipe.val,
    )
    if _keeps(request, table, work.reporter):
        more = more._replace(parts=to_keep(rows))
    if isinstance(table, TableInFiles):
        keep = _noting(keep, max_memory=ceiling.limit)
        work = replace(work, memory=ceiling.limit, workers=ONE_PROCESS)  # the limit is that of one process
    with in_pieces(ceiling):
        run = fit_rows(rows, recipe, held=held, said=settings, keep=keep, work=work, more=more).run
    if isinstance(run, RunFolder):
        write_card(run, table, work.reporter)
    return run


def _keeps(request: FitRequest, table: Table, reporter: Reporter) -> bool:
    """Whether the run is to keep the encoded rows of a table."""
    if request.keep_encoded and not isinstance(table, TableInFiles):
        reporter.say("--keep-encoded changes nothing: the table is in memory, so no encoded copy of it was written")
    return request.keep_encoded and isinstance(table, TableInFiles)


def _noting(keep: Keep, **entries: Any) -> Keep:
    """The same, with more in the manifest."""
    return lambda manifest: keep({**manifest, **entries})


def _in_memory(settings: Settings, more: More, recipe: Recipe, table: Table, work: Work) -> FittedTable:
    """The fit of a table by a recipe that names the kinds of its columns; nothing is said of these."""
    schema = quiet_schema(table, recipe)
    with work.reporter.stage(ENCODING) as stage:
        rows, held = _encode(recipe, table, schema, stage, Silent())
    return load(fit_rows(rows, recipe, held=held, said=settings, work=work, more=more).run, Silent())


def _placing(recipe: Recipe, said: int | None, folder: Path | None) -> Placing:
    """How a fit by a recipe may keep its table; `said`: the limit that somebody gave."""
    model = "mixture" if recipe.model.name == "auto" else recipe.model.name
    method = recipe.method.name or registry.MODELS[model].traits.method
    return Placing(said, why_in_memory(recipe), (folder or Path()).absolute(), networks=method != "em")


def why_in_memory(recipe: Recipe) -> str | None:
    """Why a fit by a recipe needs its table in memory; None: it does not."""
    model = "mixture" if recipe.model.name == "auto" else recipe.model.name
    method = recipe.method.name or registry.MODELS[model].traits.method
    if method not in IN_FILES:
        return f"method {method} works in memory only (in files: {', '.join(IN_FILES)})"
    if recipe.uncertainty == "posterior":
        return "uncertainty=posterior works in memory only"
    if recipe.holdout_cells is not None:
        return "--holdout-cells works in memory only"
    if isinstance(recipe.val, str):
        return "the table of --val FILE is read into memory (--val FRACTION is not)"
    if recipe.device not in ("auto", "cpu"):
        return f"--device {recipe.device} takes the rows from memory"
    return None


def _resume(run: RunFolder, request: FitRequest, work: Work, ceiling: Ceiling) -> RunFolder:
    settings, table, reporter = request.settings, request.table, work.reporter
    recipe = merge(run, settings)
    if finished(run, settings):
        ended = how_it_ended(run.record.epochs, run.record.stopped_by)
        reporter.say(f"{run.path} is finished, nothing to do: {ended}")
        if not (run.path / CARD).exists():
            _write_missing_card(run, recipe, table, reporter)
        return run
    if not run.fitted:
        reporter.say(f"nothing was fitted in {run.path} yet: the fit starts at the beginning")
    names = used_names(recipe, kinds_in(run.text(SCHEMA)))
    used = plugins.require(recipe.plugins, names, f"run '{run.path}'", reporter)
    if run.fitted:
        check_settings(run.recipe(), run.name)
    recipe = make_plan(as_settings(recipe.replace(plugins=used)), from_memory=table is not None, resumed=True)
    set_threads(recipe.threads or 1)
    if work.ranks.alone:
        work = replace(work, workers=workers_for(run.record.requested.get("threads"), reporter.warn))
    refits = POSTERIOR if recipe.uncertainty == "posterior" else REFITS
    reporter.plan([READING, TRAINING, *([refits] if refit_count(recipe) else []), SAVING])
    with reporter.stage(READING) as stage:
        require_files(request.max_memory, table)
        if table is None:
            require_fitted_files(run, f"put it back there, or {ANEW}")
            said = request.max_memory or run.record.max_memory
            table = place(recipe, _placing(recipe, said, run.path), ceiling, reporter)
        check_same_data(run, table, ANEW)
        schema = Schema.from_json(run.text(SCHEMA))
        kept = _kept(run, table, schema, reporter)
        rows, held = _encode(recipe, table, schema, stage, Silent(), kept)
        keeps = kept is None and (_keeps(request, table, reporter) or _kept_before(run, table))
    check_same_held(run, held.source.table.sha256 if held is not None and held.source is not None else None)
    if work.limit.over():
        what = f"{work.limit.words()} was over once the table had been read; '{run.path}' stays as it was"
        raise TimeUp(f"stopped before the fit went on: {what}", "give it more time")
    latest = run

    @contextmanager
    def again() -> Iterator[RunStore]:
        nonlocal latest
        if work.ranks.rank:
            latest = RunFolder.open(run.path)
            yield RunElsewhere(latest.manifest, run.path, work.ranks, latest)
            return
        with sole_writer(run.path):
            latest = RunFolder.open(run.path)
            latest.ranks = work.ranks
            latest.truncate_metrics()
            if keeps:
                latest.save(to_keep(rows), {})
            with told(latest, request.tensorboard):
                yield latest

    if isinstance(table, TableInFiles):
        work = replace(work, memory=ceiling.limit, workers=ONE_PROCESS)
    with in_pieces(ceiling):
        resume_rows(rows, recipe, again, held, work)
    if not work.ranks.rank:
        write_card(latest, table, reporter)
    return latest


def _kept_before(run: RunFolder, table: Table) -> bool:
    """Whether a run has kept the encoded rows of its table, which is in files."""
    return run.record.encoded is not None and isinstance(table, TableInFiles)


def _kept(run: RunFolder, table: Table, schema: Schema, reporter: Reporter) -> Rows | None:
    """The encoded rows that a run keeps of its table; None, with a line that says why, where they are not to be had."""
    if not isinstance(table, TableInFiles) or run.record.encoded is None:
        return None
    try:
        rows = kept_rows(run, table, schema)
    except RunError as error:
        reporter.say(f"{error.message}: the table is encoded again, and written anew there")
        return None
    reporter.say("the encoded rows are those that the run keeps")
    return rows


def _write_missing_card(run: RunFolder, recipe: Recipe, table: Table | None, reporter: Reporter) -> None:
    """The model card of a fit that was killed after its end and before its card."""
    try:
        table = read(recipe.data, recipe.mask, recipe.table) if table is None else table
        check_same_data(run, table)
    except VgiError as error:
        reporter.warn(f"the run is whole, but its model card cannot be written: {error.message}")
    else:
        write_card(run, table, reporter)


def _encode(
    recipe: Recipe,
    table: Table,
    schema: Schema,
    stage: Callable[[float], None],
    reporter: Reporter,
    rows: Rows | None = None,
) -> tuple[Rows, Rows | None]:
    """The encoded rows of the table (`rows`, where they are known), and those of the table that selects the epoch."""
    stage(KNOWN)
    if rows is None:
        rows = rows_of(table, schema, recipe.seed, progress=lambda done: stage(KNOWN + (1 - KNOWN) * done))
    rows = weighted(rows, table, recipe.table)
    if rows.table.weight is not None:
        reporter.say(_of_weights(rows.table.weight, str(recipe.table.weight)))
    if not isinstance(recipe.val, str) or not schema.modelled:
        return rows, None
    other = read([recipe.val], None, recipe.table, schema)
    match(other, schema, reporter, unseen=recipe.table.unseen)
    return rows, rows_of(other, schema, recipe.seed)


def _of_weights(weight: Tensor, name: str) -> str:
    """How rows count that have weights [N]. InputError where nearly all is one row's."""
    parts = weight / weight.max()
    effective = float(parts.sum().square() / parts.square().sum())
    if len(weight) > 1 and round(effective, 1) < 2:
        raise InputError(
            f"--weight {name}: the {len(weight):,} rows count as much as {effective:.1f} equal ones",
            "one row has nearly all the weight: are these weights, and in one unit?",
        )
    none = int((weight == 0).sum())
    left = f"; {none:,} of weight 0 {'is' if none == 1 else 'are'} not fitted" if none else ""
    return (
        f"rows count by column '{name}' ({weight.min():g} to {weight.max():g}, divided by the mean of those above 0, "
        f"{weight[weight > 0].mean():g}): as much as {effective:,.0f} of {len(weight):,} equal ones{left}; scores that "
        "choose between models count all alike"
    )


def _check_plugins(settings: Settings, reporter: Reporter) -> None:
    """Refuse a recipe whose model or method comes from a plugin that was not said with the command."""
    recorded = settings["plugins"].value if "plugins" in settings else {}
    recipe = origin(settings, "plugins", "recipe").split(",")[0]
    named = [settings.get(f"{section}.name") for section in ("model", "method")]
    model, method = (None if setting is None else setting.value for setting in named)
    replaced = any(setting is not None and setting.origin.split(",")[0] != recipe for setting in named)
    known = model in (None, "auto", *registry.MODELS) and method in (None, *registry.METHODS)
    names = [("model", model), ("method", method)]
    if replaced and known:  # flags name another model or method than the recipe: only what is left of it counts
        used = plugins.in_use(names)
        recorded = {file: sha for file, sha in recorded.items() if file in used or sha in used.values()}
    plugins.require(recorded, names, recipe, reporter)


def _choose_encoding(recipe: Recipe) -> Recipe:
    """Name the transform of the columns: the model's, and `normal` where the model is chosen by the rule; and how
    values that pile up are encoded: as levels for a mixture by EM, which needs no chain for what has no value there."""
    model, method = recipe.model.name, recipe.method.name
    transform = "normal" if model == "auto" else recipe.model.entry.traits.transform
    by_em = model in ("auto", "mixture") and method in (None, "em") and recipe.uncertainty != "posterior"
    spikes = "split" if by_em else "room"
    return recipe.with_table(transform=recipe.table.transform or transform, spikes=recipe.table.spikes or spikes)
