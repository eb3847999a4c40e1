"""A fit whose every decision is made: its state, its run folder, the drive and what comes after it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, cast

import torch
from torch import Tensor

from vgi_cli.columns.schema import Schema
from vgi_cli.data import TensorTable
from vgi_cli.encoding.encoder import log_volume
from vgi_cli.errors import Interrupted
from vgi_cli.fitting.chosen import chosen, settled
from vgi_cli.fitting.driver import Drive, Outcome, Validator, how_it_ended
from vgi_cli.fitting.fitted import build_model
from vgi_cli.fitting.plan import stream
from vgi_cli.fitting.prepare import Rows
from vgi_cli.fitting.refits import Refitted, refit, refit_count, split_bootstrap
from vgi_cli.fitting.resume import DONE
from vgi_cli.fitting.validation import make_validator
from vgi_cli.machine.clock import TimeLimit, TimeUp
from vgi_cli.machine.device import default_threads, set_threads
from vgi_cli.machine.memory import memory_for_chains, say_where
from vgi_cli.machine.signals import Stop
from vgi_cli.methods.base import Parts, Resources, State
from vgi_cli.registry import plugins
from vgi_cli.reporting import Reporter
from vgi_cli.runs.folder import Claim, RunFolder
from vgi_cli.runs.provenance import provenance
from vgi_cli.samplers.starts import in_order
from vgi_cli.settings.problems import Settings
from vgi_cli.settings.recipe import ModelChoice, Recipe
from vgi_cli.stages import REFITS, SAVING, TRAINING
from vgi_cli.table.reader import Table
from vgi_cli.version import __version__

TIME_SHARE = 0.6
"""Of the time that is left under a time limit, for training where refits come after it."""


@dataclass
class Job:
    """A fit whose every decision is made; `planned`: epochs that it would have without its time limit, where that has
    room for fewer."""

    recipe: Recipe
    device: torch.device
    table: Table
    schema: Schema
    train: Rows
    held: Rows | None
    val_sha256: str | None
    limit: TimeLimit
    started: float
    reporter: Reporter
    stop: Stop
    planned: int | None = None


def start(job: Job, folder: Path) -> State:
    """The state before the first step; deterministic given the recipe and the table.

    folder  where chains too large for the memory may lie
    """
    recipe = job.recipe
    method: Any = recipe.method.algorithm
    dtype = getattr(torch, recipe.method.entry.traits.precision)
    table = job.train.table.to(dtype=dtype, device=job.device)
    config = recipe.model_settings.settled(table.layout)
    recipe = recipe.replace(model=ModelChoice(recipe.model.name, config.model_dump(mode="json")))
    model = recipe.model.family.build(config, table.layout)
    model = model.to(dtype=dtype, device=job.device)
    threads = recipe.threads or default_threads(work_of_step(model, min(table.N, 512)))
    set_threads(threads)
    if recipe.threads is None:
        job.reporter.detail(f"{threads} thread{'s' if threads > 1 else ''} on {job.device}")
    recipe = recipe.replace(threads=threads)
    inputs = (model, table, recipe.method_settings, stream(recipe.seed, "fit"))
    state: Any
    if "imputations" in recipe.method.entry.provides:
        resources = Resources(memory_for_chains(job.device, folder), recipe.compile, job.reporter.warn)
        state = method.init(*inputs, resources)
        say_where(state.chains, folder, job.reporter)
    else:
        state = method.init(*inputs)
    if state.compiled is not None:
        job.reporter.detail(f"compile: {state.compiled}")
    elif recipe.compile == "on":
        job.reporter.say(f"--compile on: method {recipe.method.name} has no step to compile")
    job.recipe = settled(recipe, state)
    return cast(State, state)


def work_of_step(model: torch.nn.Module, rows: int) -> float:
    """Multiplications of one step on so many flattened rows, roughly: forward and backward of the model."""
    return 3.0 * sum(p.numel() for p in model.parameters()) * rows


def create_run(claimed: Claim, job: Job, settings: Settings) -> RunFolder:
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
            "chosen": chosen(recipe, settings) if job.schema.modelled else {},
            "data": {
                "paths": list(recipe.data),
                "mask": recipe.mask,
                "label": table.label,
                "sha256": table.sha256,
                "rows": table.N,
                "rows_fitted": int((~job.train.table.missing.all(1)).sum()),
                "rows_held_out": job.held.table.N if job.held is not None and isinstance(recipe.val, float) else 0,
                "val_sha256": job.val_sha256,
            },
            "model": recipe.model.name,
            "method": recipe.method.name,
            "plugins": recipe.plugins,
            "device": str(job.device),
            "threads": recipe.threads,
            **provenance(),
            "metrics_bytes": 0,
        },
    )
    texts = {
        "recipe.yaml": job.recipe.replace(time_limit=None).text(),
        "schema.json": job.schema.to_json(),
    }
    run.save({}, {}, texts)
    return run


def carry_out(run: RunFolder, job: Job, state: State, resumed: bool = False, claimed: Claim | None = None) -> RunFolder:
    """Train, refit for the bootstrap and write the final manifest; `resumed`: go on from the run's checkpoint.

    TimeUp where the time limit is over before the first epoch has ended: a new run in which steps were taken can be
    resumed, one without is removed.
    """
    recipe = job.recipe
    more = refit_count(recipe) > 0
    drive = Drive(
        advance=recipe.method.algorithm.run,
        state=state,
        run=run,
        table=job.train.table,
        reporter=job.reporter,
        stop=job.stop,
        deadline=job.limit.until(TIME_SHARE) if more else job.limit.end,
        stop_after=recipe.stop_after,
        validator=_validator(job, state),
        patience=recipe.patience,
        constant=_held_rows(job, state),
        resume_with=f"vgi fit --resume --out {run.path}{plugins.flags()}",
    )
    before = run.manifest["stopped_by"]
    if "chosen" not in run.manifest:  # older versions did not note it
        run.manifest["chosen"] = chosen(recipe, run.manifest.get("requested", {}))
    if resumed:
        _restore(drive)
    if before in DONE and state.epoch >= state.epochs:
        outcome = Outcome(before, state.epoch, drive.steps)
    else:
        outcome = drive.go()
    if outcome.stopped_by == "epochs" and job.planned is not None:
        outcome = outcome._replace(stopped_by="time_limit")  # it decided how many
    if outcome.stopped_by == "time_limit" and outcome.epochs == 0:
        _refuse_unfitted(job, outcome, drive, claimed)
    if claimed is not None:
        claimed.commit()
    _finish(run, job, outcome, drive)
    return run


def _refuse_unfitted(job: Job, outcome: Outcome, drive: Drive, claimed: Claim | None) -> NoReturn:
    """TimeUp for a fit without a whole epoch: no model that anybody should use."""
    what = f"{job.limit.words()} was over before the first epoch had ended"
    if claimed is not None and (outcome.steps == 0 or claimed.replaces):
        claimed.rollback()
        raise TimeUp(f"stopped before a model was fitted: {what}; nothing was kept", "give it more time, or fewer rows")
    if claimed is not None:
        claimed.commit()
    raise TimeUp(
        f"stopped before a model was fitted: {what}; its steps are saved in {drive.run.path}",
        f"give it more time: {drive.resume_with} --time-limit T",
    )


def _restore(drive: Drive) -> None:
    parts = drive.run.parts()
    parts["model"], _ = split_bootstrap(parts["model"])
    drive.restore(parts, drive.run.manifest["progress"])


def _validator(job: Job, state: State) -> Validator | None:
    if job.held is None:
        return None
    dtype = next(state.model.parameters()).dtype
    train, held = (rows.table.to(dtype=dtype, device=job.device) for rows in (job.train, job.held))
    tune = job.recipe.method.algorithm.tune
    volume = log_volume(job.held.table.missing, job.held.table.x, job.schema)
    return make_validator(job.recipe.select, tune, train, held, job.held.keys, volume, state.epochs, job.recipe.seed)


def _held_rows(job: Job, state: Any) -> Parts:
    if "imputations" not in job.recipe.method.entry.provides:
        return {}
    table = job.train.table
    holes = state.chains.missing.to(table.missing.device)  # those of latents, which come after the data, too
    return chain_context(job.train.keys, holes, observed_quantiles(table))


def chain_context(keys: Tensor, missing: Tensor, start: Tensor) -> Parts:
    """What imputing chains need to know of the fitted rows: keys [N], holes [N, D], values to start from [Q, d]."""
    return {"imputations": {"keys": keys, "missing": missing, "start": start}}


def observed_quantiles(table: TensorTable, count: int = 512) -> Tensor:
    """[count, d] float32: observed cells of each column, in order, at equally spaced ranks (0 where there are none)."""
    columns = []
    for dims in table.layout.slices:
        cells = in_order(table.x[~table.missing[:, dims.start], dims])
        if len(cells) == 0:
            cells = table.x.new_zeros(1, cells.shape[1])
        ranks = torch.linspace(0, len(cells) - 1, count, dtype=torch.float64).round().long()
        columns.append(cells[ranks])
    return torch.cat(columns, 1).to(torch.float32)


def _finish(run: RunFolder, job: Job, outcome: Outcome, drive: Drive) -> None:
    """Bootstrap refits, the final recipe and the final manifest."""
    recipe = job.recipe.replace(time_limit=None)
    tensors, _ = split_bootstrap(run.tensors("model"))
    refits = Refitted({}, 0)
    if outcome.stopped_by == "time_limit":
        recipe = recipe.replace(stop_after=outcome.steps)
        job.limit.cut.append(TRAINING)
    model = build_model(recipe, job.train.table.layout, tensors, run.path)
    try:
        refits = refit(recipe, model, job.train.table, job.reporter, job.limit)
    except Interrupted as error:
        done = f"{error.message} in the bootstrap refits; the fit is saved in {run.path}"
        raise Interrupted(done, error.exit_code, f"continue with: {drive.resume_with}") from None
    made = len({name.split("/")[1] for name in refits.tensors})
    if REFITS in job.limit.cut or recipe.bootstrap == "auto":
        recipe = recipe.replace(bootstrap=made or "none")
    entries: dict[str, Any] = {
        "status": "finished",
        "stopped_by": outcome.stopped_by,
        "bootstrap": made,
        "bootstrap_unsettled": refits.unsettled,
        "plugins": recipe.plugins,
        "timings": {
            "training_seconds": run.manifest["progress"]["seconds"],
            "command_seconds": round(time.monotonic() - job.started, 3),
        },
    }
    if job.limit:
        planned = {} if job.planned is None else {"epochs_without": job.planned}
        entries["time_limit"] = {**(job.limit.record() or {}), **planned}
    with job.reporter.stage(SAVING):
        run.save({"model": {**tensors, **refits.tensors}}, entries, {"recipe.yaml": recipe.text()})
    job.reporter.say(how_it_ended(outcome.epochs, outcome.stopped_by))
    if outcome.epochs == 0:
        job.reporter.warn("stopped before training had done one epoch: do not use this run")
    if drive.validator is not None:
        job.reporter.say(_selection(drive, drive.validator))
    warning = recipe.method.algorithm.warning
    found = None if warning is None else warning(drive.state, run.last_metrics())
    if found is not None:
        job.reporter.warn(found)


def _selection(drive: Drive, validator: Validator) -> str:
    """What the held-out rows said."""
    if drive.validated == 0:
        return f"the held-out rows were not looked at: the next time would have been epoch {validator.every}"
    if drive.best_epoch == 0:
        return "the held-out rows have no likelihood under the model at any epoch: nothing was selected by them"
    return f"kept: epoch {drive.best_epoch}, held-out {validator.words.format(drive.best_score)}"
