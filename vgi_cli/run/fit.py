"""`vgi fit`: refuse early, read, choose, train, refit for the bootstrap, and leave a complete run folder."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from vgi_cli.chains.initial import empirical
from vgi_cli.data import TensorTable
from vgi_cli.errors import InputError, VgiError
from vgi_cli.methods.base import Parts, State
from vgi_cli.run import pilot, registry
from vgi_cli.run.auto import choose
from vgi_cli.run.bootstrap import refit, split_bootstrap
from vgi_cli.run.config import Recipe, Settings, as_settings, parse_duration, raise_problems
from vgi_cli.run.device import default_threads, set_threads
from vgi_cli.run.directory import Claim, RunFolder, check_free, claim, sole_writer
from vgi_cli.run.driver import Drive, Outcome, Validator
from vgi_cli.run.load import build_model
from vgi_cli.run.plan import Plan, absolute, check_families, make_plan, method_config, model_config, stream, with_family
from vgi_cli.run.prepare import Rows, match, new_schema, read, rows_of, split, training_rows
from vgi_cli.run.reporting import Reporter, Silent
from vgi_cli.run.resume import DONE, find_run, finished, merge
from vgi_cli.run.signals import Stop, watch_signals
from vgi_cli.run.sizes import model_size
from vgi_cli.run.validation import make_validator
from vgi_cli.table.reader import Table
from vgi_cli.table.schema import Schema
from vgi_cli.version import __version__


@dataclass
class Job:
    """A fit whose every decision is made."""

    recipe: Recipe
    device: torch.device
    table: Table
    schema: Schema
    train: Rows
    held: Rows | None
    deadline: float | None
    started: float
    reporter: Reporter
    stop: Stop


def fit(
    settings: Settings,
    *,
    out: Path | None = None,
    resume: bool = False,
    force: bool = False,
    reporter: Reporter | None = None,
    started: float | None = None,
    table: Table | None = None,
) -> RunFolder:
    """Fit a model and return its run folder.

    settings  what was said (`config.gather`); `table` replaces `data` for a table in memory
    out       the run folder; none: the next free run1/, run2/, …
    started   monotonic time at which the command began (the time limit counts from there)

    Raises UsageError, InputError or RunError before anything is created, FitError when training fails, Interrupted
    after saving.
    """
    reporter = Silent() if reporter is None else reporter
    started = time.monotonic() if started is None else started
    with watch_signals() as stop:
        run = find_run(out) if resume else None
        if run is not None:
            return _resume(run, settings, reporter, started, stop, table)
        if resume:
            reporter.say(f"{out} holds nothing to resume: the fit starts at the beginning")
        plan = make_plan(settings, from_memory=table is not None)
        check_free(out, force)
        return _start(plan, settings, out, force, reporter, started, stop, table)


def _start(
    plan: Plan,
    settings: Settings,
    out: Path | None,
    force: bool,
    reporter: Reporter,
    started: float,
    stop: Stop,
    table: Table | None,
) -> RunFolder:
    recipe = plan.recipe
    set_threads(recipe.threads or 1)
    table = read(recipe.data, recipe.mask, recipe.table) if table is None else table
    schema = new_schema(table, recipe, reporter)
    rows = rows_of(table, schema, recipe.seed)
    if not schema.modelled:
        job = Job(_absolute(recipe, plan), plan.device, table, schema, rows, None, None, started, reporter, stop)
        return _nothing_to_fit(job, settings, out, force)
    recipe = _choose_family(recipe, rows, reporter)
    if recipe.device == "auto" and not registry.METHODS[recipe.method["name"]].gpu:
        plan = plan._replace(device=torch.device("cpu"))
    train, held = _training_and_held(recipe, rows, schema, reporter)
    size = model_size(recipe, train.table, stream(recipe.seed, "size"), reporter)
    recipe = with_family(recipe, recipe.model["name"], recipe.method["name"], size)
    recipe = _absolute(recipe, plan)
    deadline = None if recipe.time_limit is None else started + parse_duration(recipe.time_limit)
    if pilot.needed(recipe, train):
        third = None if deadline is None else started + (deadline - started) / 3
        choice = pilot.choose_epochs(recipe, train, plan.device, reporter, third)
        reporter.say(choice.reason)
        recipe = recipe.model_copy(update={"epochs": choice.epochs})
    job = Job(recipe, plan.device, table, schema, train, held, deadline, started, reporter, stop)
    state = _init(job)
    job.recipe = job.recipe.model_copy(update={"epochs": state.epochs})
    claimed = claim(out, force)
    try:
        with sole_writer(claimed.path):
            run = _train(_create(claimed, job, settings), job, state, claimed=claimed)
    except VgiError as error:
        claimed.undo_if_empty(error.exit_code)
        raise
    return run


def _absolute(recipe: Recipe, plan: Plan) -> Recipe:
    """The recipe with paths that hold from everywhere, and the device by name."""
    return recipe.model_copy(
        update={
            "data": tuple(absolute(path) for path in recipe.data),
            "mask": None if recipe.mask is None else absolute(recipe.mask),
            "val": absolute(recipe.val) if isinstance(recipe.val, str) else recipe.val,
            "device": str(plan.device),
        }
    )


def _nothing_to_fit(job: Job, settings: Settings, out: Path | None, force: bool) -> RunFolder:
    """The run of a table in which no column varies: it carries columns and fills constants."""
    job.recipe = job.recipe.model_copy(update={"threads": job.recipe.threads or 1})
    claimed = claim(out, force)
    run = _create(claimed, job, settings)
    run.save({"model": {}}, {"status": "finished", "stopped_by": "converged", "epochs": 0, "epochs_planned": 0})
    claimed.commit()
    return run


def _resume(
    run: RunFolder, settings: Settings, reporter: Reporter, started: float, stop: Stop, table: Table | None
) -> RunFolder:
    recipe = merge(run, settings)
    if finished(run, settings):
        manifest = run.manifest
        reporter.say(
            f"{run.path} is finished ({manifest['epochs']} epochs, stopped by {manifest['stopped_by']}): nothing to do"
        )
        return run
    plan = make_plan(as_settings(recipe), from_memory=table is not None)
    set_threads(recipe.threads or 1)
    table = read(recipe.data, recipe.mask, recipe.table) if table is None else table
    check_same_data(run, table)
    schema = Schema.from_json(run.schema_text())
    rows = rows_of(table, schema, recipe.seed)
    train, held = _training_and_held(recipe, rows, schema, Silent())
    deadline = None if recipe.time_limit is None else started + parse_duration(recipe.time_limit)
    job = Job(recipe, plan.device, table, schema, train, held, deadline, started, reporter, stop)
    state = _init(job)
    with sole_writer(run.path):
        run = RunFolder.open(run.path)
        run.truncate_metrics()
        return _train(run, job, state, resumed=run.fitted)


def check_same_data(run: RunFolder, table: Table) -> None:
    """InputError when the table is not the one that the run was fitted on."""
    if table.sha256 != run.manifest["data"]["sha256"]:
        raise InputError(
            f"{table.label} has changed since {run.path} was fitted (SHA-256 {table.sha256[:12]}…, "
            f"the run has {run.manifest['data']['sha256'][:12]}…)",
            "restore the file, or give DATA to impute new rows",
        )


def _choose_family(recipe: Recipe, rows: Rows, reporter: Reporter) -> Recipe:
    """Name the model and the method, by the rule of `auto` where nobody did, and say which and why."""
    model, method = recipe.model["name"], recipe.method.get("name")
    if model == "auto":
        table = rows.table
        choice = choose(table.N, table.D, float(table.missing.double().mean()))
        model = choice.model
        if method is not None and not registry.METHODS[method].requires <= registry.MODELS[model].provides:
            model = "mixture"
        method = method or choice.method
        reporter.say(f"model {model} by {method}: {choice.why}")
    elif method is None:
        method = registry.MODELS[model].method
        reporter.say(f"method {method}: {registry.MODELS[model].because}")
    named = {"model": {**recipe.model, "name": model}, "method": {**recipe.method, "name": method}}
    recipe = recipe.model_copy(update=named)
    raise_problems(check_families(recipe, as_settings(recipe)))
    return recipe


def _training_and_held(recipe: Recipe, rows: Rows, schema: Schema, reporter: Reporter) -> tuple[Rows, Rows | None]:
    held: Rows | None = None
    if isinstance(recipe.val, float):
        rows, held = split(rows, recipe.val, stream(recipe.seed, "split"))
    elif isinstance(recipe.val, str):
        table = read([recipe.val], None, recipe.table)
        match(table, schema, reporter)
        held = rows_of(table, schema, recipe.seed)
    keep_empty = "imputations" in registry.METHODS[recipe.method["name"]].makes
    return training_rows(rows, keep_empty), held


def _init(job: Job) -> State:
    """The state before the first step; deterministic given the recipe and the table."""
    recipe = job.recipe
    method = registry.load_method(recipe.method["name"])
    dtype = getattr(torch, registry.METHODS[recipe.method["name"]].precision)
    table = job.train.table.to(dtype=dtype, device=job.device)
    model = registry.load_model(recipe.model["name"]).build(model_config(recipe), table.D)
    model = model.to(dtype=dtype, device=job.device)
    threads = recipe.threads or default_threads(_work(model, table.N))
    set_threads(threads)
    if recipe.threads is None:
        job.reporter.say(f"{threads} thread{'s' if threads > 1 else ''} on {job.device}")
    job.recipe = recipe.model_copy(update={"threads": threads})
    used = ~table.missing.all(1)
    model.initialise(complete(table.rows(used), stream(recipe.seed, "start")), stream(recipe.seed, "initialise"))
    state: State = method.init(model, table, method_config(recipe), stream(recipe.seed, "fit"))
    return state


def complete(table: TensorTable, generator: torch.Generator) -> Tensor:
    """The rows [N, D] on the CPU, each hole filled by a draw from its column's observed cells (f0)."""
    x, missing = table.x.cpu(), table.missing.cpu()
    filled = x.clone()
    filled[missing] = empirical(x, missing, 1, generator)[:, 0].to(x)
    return filled


def _work(model: torch.nn.Module, N: int) -> float:
    """Multiplications of one step, roughly: parameters × rows of a batch, forward and backward."""
    return 3.0 * sum(p.numel() for p in model.parameters()) * min(N, 512)


def _create(claimed: Claim, job: Job, settings: Settings) -> RunFolder:
    """The first content of a run folder: recipe, schema and manifest, as one set."""
    recipe, table = job.recipe, job.table
    requested = {key: setting.value for key, setting in settings.items() if key != "data"}
    run = RunFolder(
        claimed.path,
        {
            "format": 1,
            "version": __version__,
            "command": "fit",
            "status": "running",
            "stopped_by": None,
            "seeds": {"fit": recipe.seed},
            "requested": requested,
            "data": {
                "paths": list(recipe.data),
                "mask": recipe.mask,
                "label": table.label,
                "sha256": table.sha256,
                "rows": table.N,
                "rows_fitted": int((~job.train.table.missing.all(1)).sum()),
                "rows_held_out": 0 if job.held is None else job.held.table.N,
            },
            "model": recipe.model["name"],
            "method": recipe.method.get("name"),
            "device": str(job.device),
            "threads": recipe.threads,
            "torch": torch.__version__,
            "metrics_bytes": 0,
        },
    )
    texts = {
        "recipe.yaml": job.recipe.model_copy(update={"time_limit": None}).text(),
        "schema.json": job.schema.to_json(),
    }
    run.save({}, {}, texts)
    return run


def _train(run: RunFolder, job: Job, state: State, resumed: bool = False, claimed: Claim | None = None) -> RunFolder:
    recipe = job.recipe
    drive = Drive(
        advance=registry.load_method(recipe.method["name"]).run,
        state=state,
        run=run,
        table=job.train.table,
        columns=job.schema.modelled,
        reporter=job.reporter,
        stop=job.stop,
        deadline=job.deadline,
        stop_after=recipe.stop_after,
        validator=_validator(job, state),
        patience=recipe.patience,
        constant=_held_rows(job),
        resume_with=f"vgi fit --resume --out {run.path}",
    )
    before = run.manifest["stopped_by"]
    if resumed:
        parts = run.parts()
        parts["model"], _ = split_bootstrap(parts["model"])
        drive.restore(parts, run.manifest["progress"])
    if recipe.epochs is not None:
        state.epochs = recipe.epochs
    if before in DONE and state.epoch >= state.epochs:
        outcome = Outcome(before, state.epoch, drive.steps)
    else:
        outcome = drive.go()
    if claimed is not None:
        claimed.commit()
    _finish(run, job, outcome)
    return run


def _validator(job: Job, state: State) -> Validator | None:
    if job.held is None:
        return None
    dtype = next(state.model.parameters()).dtype
    train, held = (rows.table.to(dtype=dtype, device=job.device) for rows in (job.train, job.held))
    return make_validator(job.recipe.select, train, held, job.held.keys, state.epochs, job.recipe.seed)


def _held_rows(job: Job) -> Parts:
    if "imputations" not in registry.METHODS[job.recipe.method["name"]].makes:
        return {}
    table = job.train.table
    return chain_context(job.train.keys, table.missing, observed_quantiles(table.x, table.missing))


def chain_context(keys: Tensor, missing: Tensor, start: Tensor) -> Parts:
    """What imputing chains need to know of the fitted rows: keys [N], holes [N, D], values to start from [Q, D]."""
    return {"imputations": {"keys": keys, "missing": missing, "start": start}}


def observed_quantiles(x: Tensor, missing: Tensor, count: int = 512) -> Tensor:
    """[count, D] float32: values of the observed cells of each column at equally spaced ranks (0 where none)."""
    columns = []
    for column, absent in zip(x.T, missing.T, strict=True):
        values = column[~absent].sort().values
        if len(values) == 0:
            values = x.new_zeros(1)
        ranks = torch.linspace(0, len(values) - 1, count, dtype=torch.float64).round().long()
        columns.append(values[ranks])
    return torch.stack(columns, 1).to(torch.float32)


def _finish(run: RunFolder, job: Job, outcome: Outcome) -> None:
    """Bootstrap refits, the final recipe and the final manifest."""
    recipe = job.recipe.model_copy(update={"time_limit": None})
    tensors, _ = split_bootstrap(run.tensors("model"))
    refits: dict[str, Tensor] = {}
    if outcome.stopped_by == "time_limit":
        recipe = recipe.model_copy(update={"stop_after": outcome.steps, "bootstrap": "none"})
        job.reporter.detail("no bootstrap refits: the time limit was reached")
    else:
        model = build_model(recipe, job.schema, tensors, run.path)
        refits = refit(recipe, model, job.train.table, job.reporter)
    entries = {
        "status": "finished",
        "stopped_by": outcome.stopped_by,
        "bootstrap": len({name.split("/")[1] for name in refits}),
        "timings": {
            "training_seconds": run.manifest["progress"]["seconds"],
            "command_seconds": round(time.monotonic() - job.started, 3),
        },
    }
    run.save({"model": {**tensors, **refits}}, entries, {"recipe.yaml": recipe.text()})
    job.reporter.finish_progress()
    job.reporter.say(f"{outcome.epochs} epochs, stopped by {outcome.stopped_by}")
