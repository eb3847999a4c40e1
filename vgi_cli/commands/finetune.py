"""`vgi finetune`: the model frozen, a copy of the conditionals adapted to new rows (Algorithm 6)."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vgi_cli.commands.card import write_card
from vgi_cli.commands.requests import FinetuneRequest
from vgi_cli.commands.run_table import compute_on, fitted_or_new, seed_of, table_settings
from vgi_cli.conditionals.base import Conditionals
from vgi_cli.data import TensorTable
from vgi_cli.errors import InputError, Interrupted, UsageError
from vgi_cli.fitting.averaged import schema_file
from vgi_cli.fitting.averaging import other_transforms
from vgi_cli.fitting.chains import chain_context
from vgi_cli.fitting.choosing import adapting_config
from vgi_cli.fitting.driver import Drive, Outcome
from vgi_cli.fitting.fitted import FittedTable, load, target_of
from vgi_cli.fitting.plan import absolute, stream
from vgi_cli.fitting.refits import refit_tensors
from vgi_cli.fitting.rows import Rows, match, training_rows, weighted
from vgi_cli.fitting.tensorboard import told
from vgi_cli.fitting.validation import observed_box
from vgi_cli.machine.memory import memory_for_chains, say_where
from vgi_cli.machine.work import TimeLimit, TimeUp, limit_of, watch_signals
from vgi_cli.methods.vgi import finetune as algorithm
from vgi_cli.methods.vgi.state import VgiState
from vgi_cli.registry import names as registry
from vgi_cli.reporting import READING, SAVING, TRAINING, Reporter
from vgi_cli.runs.folder import Claim, RunFolder, check_free, claim
from vgi_cli.runs.lock import sole_writer
from vgi_cli.runs.manifest import new_manifest
from vgi_cli.runs.store import ANEW
from vgi_cli.table.base import Table


def finetune(request: FinetuneRequest, reporter: Reporter) -> RunFolder:
    """Fine-tune a run on new rows and return the new run folder. A model that has exact conditionals and was fitted
    without others has nothing to adapt: its new run is the old one, for the new table.

    Raises UsageError, InputError or RunError before anything is created, Interrupted after saving, TimeUp (nothing is
    kept) where the time limit is over before the first epoch has ended.
    """
    out = request.folder
    with watch_signals() as stop:
        check_free(out, request.force, resumes=False)
        fitted = load(request.open(verify=True), reporter)
        fitted.say_unused_plugins(reporter)
        exact = fitted.conditionals is None and fitted.marginal
        q = None if exact else require_conditionals(fitted)
        device = compute_on(fitted, request)
        limit = limit_of(request.settings, request.started)
        reporter.plan([READING, TRAINING, SAVING])
        table, rows = _read(fitted, request, reporter)
        seed = seed_of(fitted, request)
        dtype = next(fitted.model.parameters()).dtype
        data = rows.table.to(dtype=dtype, device=device)
        manifest = _manifest(fitted, table, request, data, seed, device)
        if q is None:
            reporter.say("nothing to adapt: this model knows the law of every hole exactly")
            run = _unchanged(fitted, manifest, request, claim(out, request.force))
            write_card(run, table, reporter)
            return run
        inside = inside_of(fitted, data)
        state = _initial(fitted, q, data, request, seed, device)
        say_where(state.chains, _beside(out), reporter)
        if limit.over():
            raise TimeUp(f"stopped before fine-tuning began: {limit.words()} was over", "give it more time")
        claimed = claim(out, request.force)
        with sole_writer(claimed.path):
            with claimed.undone_if_empty():
                run = RunFolder(claimed.path, manifest)
                run.save({}, {}, _texts(fitted, manifest, request))
                drive = Drive(
                    advance=lambda tuned, stop_now: algorithm.run(tuned, inside, stop_now),
                    state=state,
                    run=run,
                    table=data,
                    reporter=reporter,
                    stop=stop,
                    deadline=limit.end,
                    constant=chain_context(rows.keys, state.chains.missing, fitted.held["start"]),
                )
                with told(run, request.tensorboard):
                    outcome = _adapted(drive)
                if outcome.stopped_by == "time_limit" and outcome.epochs == 0:
                    claimed.rollback()
                    what = f"{limit.words()} was over before the first epoch had ended"
                    raise TimeUp(f"stopped too early: {what}; nothing was kept", "give it more time, or fewer rows")
            claimed.commit()
            _keep(fitted, drive, outcome, limit, request.started)
        write_card(run, table, reporter)
        return run


def _read(fitted: FittedTable, request: FinetuneRequest, reporter: Reporter) -> tuple[Table, Rows]:
    """The new table, and those of its rows that there is something to learn from, which count by the column that the
    run was fitted with (`--weight`) where the table has it. InputError where it does not match the run."""
    with reporter.stage(READING) as stage:
        table = fitted_or_new(fitted, request) if request.table is None else request.table
        match(table, fitted.schema, reporter, unseen=table_settings(request, fitted.recipe.table).unseen)
        stage(0.5)
        rows = fitted.rows(table, progress=lambda done: stage(0.5 + 0.5 * done))
    by = fitted.recipe.table.weight
    if by is not None:
        how = "alike: the table has no"
        if by in table.names:
            rows, how = weighted(rows, table, fitted.recipe.table), "by"
        reporter.say(f"rows count {how} column '{by}' (--weight of the fit)")
    if len(rows.table.used) == 0 < int((~rows.table.missing.all(1)).sum()):
        raise InputError(f"column '{by}': every row with an observed cell weighs 0", "give some rows a weight above 0")
    hint = "rows are learnt from by their observed cells: give such rows, or check --na-values and --mask"
    return table, training_rows(rows, True, hint)


def _initial(
    fitted: FittedTable, q: Conditionals, data: TensorTable, request: FinetuneRequest, seed: int, device: torch.device
) -> VgiState:
    """The state before the first step: the model frozen, the conditionals to adapt, chains for the new rows."""
    config = adapting_config(fitted.recipe, fitted.run.record.chosen)
    room = memory_for_chains(device, _beside(request.folder))
    model, generator, target = fitted.model.to(device), stream(seed, "finetune"), target_of(fitted.recipe)
    state = algorithm.init(model, q.to(device), data, config, generator, request.said("epochs"), room, target)
    weight = data.relative_weight
    state.row_weight = None if weight is None else weight.to(state.chains.x)
    return state


def _beside(out: Path | None) -> Path:
    """The folder in which the new run will lie; chains that memory has no room for are kept there too."""
    return Path().absolute() if out is None else out.absolute().parent


def _adapted(drive: Drive) -> Outcome:
    """How the fine-tuning ended. Interrupted after saving, with what can be done then."""
    try:
        return drive.go()
    except Interrupted as error:
        raise Interrupted(error.message, error.exit_code, f"fine-tuning does not go on: {ANEW}") from None


def _keep(fitted: FittedTable, drive: Drive, outcome: Outcome, limit: TimeLimit, started: float) -> None:
    """Write how the fine-tuning ended to the new run, and the refits of the old one beside its model."""
    run, reporter = drive.run, drive.reporter
    entries: dict[str, object] = {"status": "finished", "stopped_by": outcome.stopped_by, **_refitted(fitted)}
    entries["timings"] = {"command_seconds": round(time.monotonic() - started, 3)}
    if limit:
        limit.cut += [TRAINING] if outcome.stopped_by == "time_limit" else []
        entries["time_limit"] = limit.record()
    if (objective := drive.last_metrics.get("objective")) is not None:
        entries["finetuned_objective"] = {"value": objective, "note": NOTE}
        reporter.say(f"fine-tuned objective {objective:.6g} ({NOTE})")
    beside = refit_tensors(fitted.run.tensors("model"))
    parts = {"model": {**run.tensors("model"), **beside}} if beside else {}
    with reporter.stage(SAVING):
        run.save(parts, entries)


def _refitted(fitted: FittedTable) -> dict[str, Any]:
    """What the manifest of a fit says of its refits, which the new run keeps."""
    before = fitted.run.record
    return {"bootstrap": before.bootstrap, "bootstrap_by": before.bootstrap_by}


def _unchanged(fitted: FittedTable, manifest: dict[str, Any], request: FinetuneRequest, claimed: Claim) -> RunFolder:
    """The run of a model that knows its conditionals: what it is for another table is what it was."""
    with sole_writer(claimed.path), claimed.undone_if_empty():
        run = RunFolder(claimed.path, manifest)
        entries: dict[str, Any] = {"status": "finished", "stopped_by": "converged", "epochs": 0, "epochs_planned": 0}
        entries["timings"] = {"command_seconds": round(time.monotonic() - request.started, 3)}
        entries |= _refitted(fitted)
        run.save({"model": fitted.run.tensors("model")}, entries, _texts(fitted, manifest, request))
    claimed.commit()
    return run


def _texts(fitted: FittedTable, manifest: dict[str, Any], request: FinetuneRequest) -> dict[str, str]:
    """Recipe and schema of the new run: those of the old one, on another table."""
    data = manifest["data"]
    reading = table_settings(request, fitted.recipe.table)
    recipe = fitted.recipe.replace(data=tuple(data["paths"]), mask=data["mask"], table=reading)
    others = map(schema_file, other_transforms(recipe))
    schemas = {name: fitted.run.text(name) for name in others}
    return {"recipe.yaml": recipe.text(), "schema.json": fitted.schema.to_json(), **schemas}


NOTE = "the VGI objective in encoded units; not comparable with a log-likelihood"


def require_conditionals(fitted: FittedTable, use: str = "fine-tune", using: str = "fine-tuning") -> Conditionals:
    """The run's conditionals, and what for; UsageError where its method fits none, or nothing was fitted."""
    if fitted.conditionals is None:
        method = fitted.recipe.method.name
        if method is None:
            raise UsageError(
                f"run '{fitted.run.name}' models no column: none of its table's columns varied",
                f"impute fills the holes of a constant column with its constant; nothing can be {use}d",
            )
        makers = " or ".join(name for name, entry in registry.METHODS.items() if "conditionals" in entry.provides)
        new = registry.fills_new_rows(fitted.recipe.model.name, method, levels=bool(fitted.layout.discrete))
        raise UsageError(
            f"run '{fitted.run.name}' was fitted by '{method}', which leaves no conditionals to {use}",
            "impute and evaluate take new rows as they are; " * new + f"{using} needs a fit by {makers}",
        )
    return fitted.conditionals


def inside_of(fitted: FittedTable, data: TensorTable) -> Tensor:
    """[2, D]: the box of the first epoch's proposals, observed at the fit, widened by the new table's range."""
    start = fitted.held["start"].to(data.x)
    seen = TensorTable(start, torch.zeros_like(start, dtype=torch.bool), data.layout)
    return observed_box(seen, data)


def _manifest(
    fitted: FittedTable, table: Table, request: FinetuneRequest, data: TensorTable, seed: int, device: torch.device
) -> dict[str, Any]:
    before = fitted.run.record
    paths = request.said("data")
    mask = request.said("mask")
    return new_manifest(
        "finetune",
        checkpoint=fitted.run.address,
        seeds={**before.seeds, "finetune": seed},
        chosen=before.chosen,
        data={
            "paths": [] if paths is None else [absolute(path) for path in paths],
            "mask": None if mask is None else absolute(mask),
            "label": table.label,
            "sha256": table.sha256,
            "rows": table.N,
            "rows_fitted": len(data.used),
        },
        model=before.model,
        method=before.method,
        plugins=fitted.recipe.plugins,
        device=str(device),
        threads=torch.get_num_threads(),
    )
