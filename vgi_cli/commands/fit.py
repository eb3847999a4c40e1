"""`vgi fit`: refuse early, read, choose, train, refit for the bootstrap, and leave a complete run folder."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from vgi_cli.columns.schema import Schema
from vgi_cli.commands.requests import FitRequest
from vgi_cli.errors import UsageError
from vgi_cli.fitting import pilot
from vgi_cli.fitting.auto import choose
from vgi_cli.fitting.driver import how_it_ended
from vgi_cli.fitting.fitted import used_names
from vgi_cli.fitting.partition import choose_blocks
from vgi_cli.fitting.plan import Plan, absolute, make_plan, stream
from vgi_cli.fitting.prepare import (
    Rows,
    check_same_data,
    check_same_held,
    match,
    new_schema,
    read,
    rows_of,
    split,
    training_rows,
)
from vgi_cli.fitting.refits import refit_count
from vgi_cli.fitting.resume import find_run, finished, merge
from vgi_cli.fitting.session import Job, carry_out, create_run, start
from vgi_cli.fitting.sizes import model_size, size_is_open
from vgi_cli.machine.clock import TimeLimit, TimeUp, limit_of
from vgi_cli.machine.device import set_threads
from vgi_cli.machine.signals import Stop, watch_signals
from vgi_cli.registry import names as registry
from vgi_cli.registry import plugins
from vgi_cli.reporting import Reporter, Silent
from vgi_cli.runs.folder import RunFolder, check_free, claim, sole_writer
from vgi_cli.settings import components
from vgi_cli.settings.problems import Settings, origin, raise_problems
from vgi_cli.settings.recipe import Recipe, as_settings
from vgi_cli.stages import PILOT, READING, REFITS, SAVING, SIZE, TRAINING

READ, KNOWN = 0.4, 0.7
"""Shares of the reading after which the table is in memory, and its columns are known."""


def fit(request: FitRequest, reporter: Reporter) -> RunFolder:
    """Fit a model and return its run folder: where nobody says which, the next free run1/, run2/, …

    Raises UsageError, InputError or RunError before anything is created, FitError when training fails, TimeUp where the
    time limit was over before there was a model, Interrupted after saving.
    """
    out = request.folder
    with watch_signals() as stop:
        run = find_run(out) if request.resume else None
        if run is not None:
            return _resume(run, request, reporter, stop)
        if request.resume and request.table is None and "data" not in request.settings:
            raise UsageError(f"--resume: nothing was fitted in {out} yet", "name the table too, to begin a fit there")
        if request.resume:
            reporter.say(f"nothing was fitted in {out} yet: the fit starts at the beginning")
        _check_plugins(request.settings, reporter)
        plan = make_plan(request.settings, from_memory=request.table is not None)
        check_free(out, request.force)
        return _start(plan, request, reporter, stop)


def _start(plan: Plan, request: FitRequest, reporter: Reporter, stop: Stop) -> RunFolder:
    recipe, settings, table, out = plan.recipe, request.settings, request.table, request.folder
    set_threads(recipe.threads or 1)
    limit = limit_of(settings, request.started)
    reporter.plan([READING, *_stages(recipe, None)])
    with reporter.stage(READING) as stage:
        table = read(recipe.data, recipe.mask, recipe.table) if table is None else table
        stage(READ)
        recipe = _choose_transform(recipe)
        schema = new_schema(table, recipe, reporter, _held_out(recipe, table.N)[0])
        stage(KNOWN)
        rows = rows_of(table, schema, recipe.seed, progress=lambda done: stage(KNOWN + (1 - KNOWN) * done))
    if not schema.modelled:
        recipe = _absolute(_record_plugins(recipe, reporter), plan)
        job = Job(recipe, plan.device, table, schema, rows, None, None, limit, request.started, reporter, stop)
        return _nothing_to_fit(job, settings, out, request.force)
    recipe = _record_plugins(_choose_family(recipe, rows, settings, reporter), reporter)
    recipe, rows = choose_blocks(recipe, rows, schema, reporter)
    if plan.device.type != "cpu" and not recipe.method.entry.traits.gpu:
        if recipe.device != "auto":
            reporter.say(f"method {recipe.method.name} computes on the CPU")
        plan = plan._replace(device=torch.device("cpu"))
    train, held = _training_and_held(recipe, rows, schema, reporter)
    recipe.method.algorithm.check_table(train.table)
    reporter.plan(_stages(recipe, train))
    _require_time(limit, "the table had been read")
    size = model_size(recipe, train.table, stream(recipe.seed, "size"), reporter, limit)
    recipe = components.in_full(recipe, **size)
    recipe = _absolute(recipe, plan)
    if pilot.needed(recipe, train):
        choice = pilot.choose_epochs(recipe, train, table, schema, plan.device, reporter, limit)
        reporter.say(choice.reason)
        recipe = recipe.replace(epochs=choice.epochs)
    recipe, planned = pilot.allowance(recipe, train, plan.device, limit, settings)
    job = Job(recipe, plan.device, table, schema, train, *held, limit, request.started, reporter, stop, planned)
    state = start(job, Path().absolute() if out is None else out.absolute().parent)
    _require_time(limit, "training could begin")
    if planned is not None:
        reporter.say(f"the time limit leaves room for about {state.epochs} of {planned} epochs")
    job.recipe = job.recipe.replace(epochs=state.epochs)
    claimed = claim(out, request.force)
    with sole_writer(claimed.path), claimed.undone_if_empty():
        return carry_out(create_run(claimed, job, settings), job, state, claimed=claimed)


def _stages(recipe: Recipe, train: Rows | None) -> list[str]:
    """What comes after the table was read (`train`: its rows, once they are known), as far as the recipe decides it."""
    named = recipe.with_model("mixture") if recipe.model.name == "auto" else recipe
    named = named.with_method(recipe.method.name or named.model.entry.traits.method)
    gaussian = "gaussian" in named.model.entry.provides
    sized = gaussian if train is None else size_is_open(named, train.table)
    piloted = train is not None and pilot.needed(named, train)
    refits = refit_count(named)
    there = {SIZE: sized, PILOT: piloted, TRAINING: True, REFITS: refits > 0, SAVING: True}
    return [name for name, comes in there.items() if comes]


def _require_time(limit: TimeLimit, moment: str) -> None:
    """TimeUp where the time is over before anything was trained."""
    if limit.over():
        raise TimeUp(
            f"stopped before training began: {limit.words()} was over before {moment}; nothing was kept",
            "give it more time, or fewer rows",
        )


def _absolute(recipe: Recipe, plan: Plan) -> Recipe:
    """The recipe with paths that hold from everywhere, and the device by name."""
    return recipe.replace(
        data=tuple(absolute(path) for path in recipe.data),
        mask=None if recipe.mask is None else absolute(recipe.mask),
        val=absolute(recipe.val) if isinstance(recipe.val, str) else recipe.val,
        device=str(plan.device),
    )


def _nothing_to_fit(job: Job, settings: Settings, out: Path | None, force: bool) -> RunFolder:
    """The run of a table in which no column varies: it carries columns and fills constants."""
    job.recipe = job.recipe.replace(threads=job.recipe.threads or 1)
    claimed = claim(out, force)
    with sole_writer(claimed.path), claimed.undone_if_empty():
        run = create_run(claimed, job, settings)
        run.save({"model": {}}, {"status": "finished", "stopped_by": "converged", "epochs": 0, "epochs_planned": 0})
    claimed.commit()
    return run


def _resume(run: RunFolder, request: FitRequest, reporter: Reporter, stop: Stop) -> RunFolder:
    settings, table = request.settings, request.table
    recipe = merge(run, settings)
    if finished(run, settings):
        ended = how_it_ended(run.record.epochs, run.record.stopped_by)
        reporter.say(f"{run.path} is finished, nothing to do: {ended}")
        return run
    if not run.fitted:
        reporter.say(f"nothing was fitted in {run.path} yet: the fit starts at the beginning")
    used = plugins.require(recipe.plugins, used_names(recipe), f"run '{run.path}'", reporter)
    recipe = recipe.replace(plugins=used)
    plan = make_plan(as_settings(recipe), from_memory=table is not None, resumed=True)
    set_threads(recipe.threads or 1)
    refits = [REFITS] if refit_count(recipe) else []
    reporter.plan([READING, TRAINING, *refits, SAVING])
    with reporter.stage(READING) as stage:
        table = read(recipe.data, recipe.mask, recipe.table) if table is None else table
        check_same_data(run, table)
        schema = Schema.from_json(run.schema_text())
        stage(KNOWN)
        rows = rows_of(table, schema, recipe.seed, progress=lambda done: stage(KNOWN + (1 - KNOWN) * done))
    recipe, rows = choose_blocks(recipe, rows, schema, Silent())
    train, held = _training_and_held(recipe, rows, schema, Silent())
    check_same_held(run, held.sha256)
    limit = limit_of(settings, request.started)
    _require_time(limit, "the table had been read")
    job = Job(recipe, plan.device, table, schema, train, *held, limit, request.started, reporter, stop)
    state = start(job, run.path)
    with sole_writer(run.path):
        run = RunFolder.open(run.path)
        run.truncate_metrics()
        return carry_out(run, job, state, resumed=run.fitted)


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


def _record_plugins(recipe: Recipe, reporter: Reporter) -> Recipe:
    """The recipe with file name and SHA-256 of the plugins that give its model and its method."""
    names = used_names(recipe)
    plugins.say_unused(names, reporter)
    return recipe.replace(plugins=plugins.in_use(names))


def _choose_transform(recipe: Recipe) -> Recipe:
    """Name the transform of the columns: the model's, and `normal` where the model is chosen by the rule."""
    own = "normal" if recipe.model.name == "auto" else recipe.model.entry.traits.transform
    return recipe.with_table(transform=recipe.table.transform or own)


def _choose_family(recipe: Recipe, rows: Rows, settings: Settings, reporter: Reporter) -> Recipe:
    """Name the model and the method, by the rule of `auto` where nobody did, and say which and why."""
    model, method = recipe.model.name, recipe.method.name
    if model == "auto":
        table, missing = rows.table, rows.table.missing
        partial = int((missing.any(1) & ~missing.all(1)).sum())
        choice = choose(table.N, table.D, float(missing.double().mean()), partial)
        model = choice.model
        requires = registry.METHODS[method].needs if method is not None else frozenset()
        why = choice.why
        if not requires <= registry.MODELS[model].provides:
            model = next(m for m in ("mixture", *registry.MODELS) if requires <= registry.MODELS[m].provides)
            why = f"{model} has what this method needs: {registry.words(requires)}"
        else:
            recipe = recipe.with_model(**choice.settings)
        if not choice.refits and recipe.bootstrap == "auto":
            recipe = recipe.replace(bootstrap="none")
        method = method or choice.method
        reporter.say(f"model: {_title(model)}, fitted by {_title(method)}: {why}")
    elif method is None:
        method = registry.MODELS[model].traits.method
        reporter.say(f"fitting by {_title(method)} ({registry.MODELS[model].traits.because})")
    recipe = recipe.with_model(model).with_method(method)
    raise_problems(components.check(recipe, {**as_settings(recipe), **settings}))
    return recipe.with_model(**recipe.method.algorithm.fixed)


def _title(name: str) -> str:
    """A model or a method in words: the first clause of what it is."""
    entry = registry.MODELS[name] if name in registry.MODELS else registry.METHODS[name]
    return re.split("[,:]", entry.about)[0]


class _Held(NamedTuple):
    """Rows that select the epoch, and the hash of their file if they are a table of their own."""

    rows: Rows | None = None
    sha256: str | None = None


def _held_out(recipe: Recipe, N: int) -> tuple[Tensor, Tensor] | tuple[None, None]:
    """Which of N rows are fitted and which are held out; None where `val` is no fraction. The schema of the fit must
    know nothing of the latter."""
    if not isinstance(recipe.val, float):
        return None, None
    return split(N, recipe.val, stream(recipe.seed, "split"))


def _training_and_held(recipe: Recipe, rows: Rows, schema: Schema, reporter: Reporter) -> tuple[Rows, _Held]:
    held = _Held()
    kept, some = _held_out(recipe, rows.table.N)
    if kept is not None and some is not None:
        rows, held = rows.at(kept), _Held(rows.at(some))
    elif isinstance(recipe.val, str):
        table = read([recipe.val], None, recipe.table)
        match(table, schema, reporter)
        held = _Held(rows_of(table, schema, recipe.seed), table.sha256)
    keep_empty = "imputations" in recipe.method.entry.provides
    return training_rows(rows, keep_empty), held
