"""A fit from its first step, or from the checkpoint that it was stopped at, to its last refit."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NoReturn, TypeAlias

import torch
from torch import Tensor

from vgi_cli.errors import Interrupted, RunError
from vgi_cli.evaluation.likelihood.estimate import places_of
from vgi_cli.fitting import averaging, trees
from vgi_cli.fitting.chains import chain_context, measured_chains, observed_quantiles
from vgi_cli.fitting.choosing import (
    chosen,
)
from vgi_cli.fitting.driver import PUBLISHED, Drive, Outcome, Validator, how_it_ended
from vgi_cli.fitting.fitted import Fitted, build_model, check_numbers, fitted_of
from vgi_cli.fitting.job import Job
from vgi_cli.fitting.plan import DONE
from vgi_cli.fitting.plateau import Plateau
from vgi_cli.fitting.refits import (
    TRAINING_SHARE,
    Fit,
    Refitted,
    of_draws,
    refit,
    refit_count,
    split_bootstrap,
    split_way,
)
from vgi_cli.fitting.rows import Rows
from vgi_cli.fitting.sharing import shared_by
from vgi_cli.fitting.together import in_words, lost
from vgi_cli.fitting.validation import make_validator
from vgi_cli.machine.work import TimeUp, Work
from vgi_cli.methods.base import Parts, State
from vgi_cli.methods.em.em import EmState
from vgi_cli.methods.loop import LoopState
from vgi_cli.methods.optimisation import AscentConfig, ImputingConfig
from vgi_cli.methods.vgi.config import VgiConfig
from vgi_cli.models.base import Model
from vgi_cli.ranks import Ranks
from vgi_cli.registry import plugins
from vgi_cli.reporting import POSTERIOR, REFITS, SAVING, TRAINING, TREES, Silent
from vgi_cli.runs.manifest import HINT
from vgi_cli.runs.store import CHAINS, RECIPE, RunStore
from vgi_cli.settings.recipe import Recipe

Again: TypeAlias = Callable[[Rows, Recipe, Work], Fitted]
"""Fits rows by a recipe in memory; of the result the parameters are taken, and nothing else."""


def carry_out(run: RunStore, job: Job, state: State, again: Again, resumed: bool = False) -> Fitted:
    """Train, refit for the bootstrap and keep the end of it.

    again    fits rows anew, for refits that are fits of their own
    resumed  go on from the run's checkpoint

    TimeUp where the time limit is over before the first epoch has ended: a new run in which steps were taken can be
    resumed, one without is removed.
    """
    drive = _drive(run, job, state)
    if (ranks := shared_by(run.manifest, job.work.ranks.world, resumed=resumed)) != [1]:
        run.manifest["ranks"] = ranks
    before = run.manifest["stopped_by"]
    if "chosen" not in run.manifest:  # older versions did not note it
        run.manifest["chosen"] = chosen(job.recipe, run.manifest.get("requested", {}))
    if resumed:
        _restore(drive, job.work.ranks)
    if before in DONE and _is_over(drive, before):  # no step is left: what was kept of the refits stays
        outcome = Outcome(before, state.epoch, drive.steps)
    else:
        outcome = drive.go()
    if drive.plateau is not None and drive.plateau.satisfied:
        job = replace(job, planned=None)  # the held-out rows decided how many, with the limit or without
    if outcome.stopped_by == "epochs" and job.planned is not None:
        outcome = outcome._replace(stopped_by="time_limit")  # it decided how many
    if outcome.stopped_by == "time_limit" and outcome.epochs == 0:
        _refuse_unfitted(job, outcome, drive, resumed)
    run.publish()
    return _finish(run, job, outcome, drive, again)


def _drive(run: RunStore, job: Job, state: State) -> Drive:
    """What takes the state of a job from its first step to its last, or to its end by time or signal."""
    recipe, work = job.recipe, job.work
    return Drive(
        advance=recipe.method.algorithm.run,
        state=state,
        run=run,
        table=job.train.table,
        reporter=work.reporter,
        stop=work.stop,
        ranks=work.ranks,
        deadline=work.limit.until(TRAINING_SHARE) if job.refits and refit_count(recipe) > 0 else work.limit.end,
        stop_after=recipe.stop_after,
        validator=_validator(job, state),
        plateau=_plateau(job, state),
        patience=recipe.patience,
        constant=_chain_context(job, state),
        resume_with="" if run.address is None else f"vgi fit --resume --out {run.name}{plugins.flags()}",
    )


def _restore(drive: Drive, ranks: Ranks) -> None:
    """Take up the checkpoint of a run. RunError where it is damaged."""
    run, parts = drive.run, drive.run.parts()
    parts["model"], _ = split_bootstrap(parts["model"])
    for stem in PUBLISHED:
        check_numbers(parts.get(stem, {}), run.name)
    in_training = {k: v for k, v in parts.get("state", {}).items() if k.removeprefix("good/").startswith("theta/")}
    check_numbers(in_training, run.name)
    try:
        drive.restore(parts, run.manifest["progress"])
    except (RuntimeError, ValueError, LookupError, TypeError) as error:  # tensors of other names, shapes or types
        if "memory" in str(error):
            raise
        why = str(error).splitlines()[-1].strip()
        raise RunError(f"run '{run.name}' is damaged: its state does not fit its recipe ({why})", HINT) from None
    ranks.any(False)  # all have read the run: from here on rank 0 writes


def _is_over(drive: Drive, before: str) -> bool:
    """Whether no step is left of a run that ended so `before`."""
    state = drive.state
    over = state.epoch >= state.epochs or (isinstance(state, EmState) and state.converged) or drive.exhausted
    return over or (before == "stop_after" and drive.steps >= (drive.stop_after or math.inf))


def _refuse_unfitted(job: Job, outcome: Outcome, drive: Drive, resumed: bool) -> NoReturn:
    """TimeUp for a fit without a whole epoch: no model that anybody should use."""
    what = f"{job.work.limit.words()} was over before the first epoch had ended"
    run = drive.run
    if not resumed and (outcome.steps == 0 or run.replaces or run.address is None):
        run.withdraw()
        raise TimeUp(f"stopped before a model was fitted: {what}; nothing was kept", "give it more time, or fewer rows")
    run.publish()
    raise TimeUp(
        f"stopped before a model was fitted: {what}; its steps are saved in {run.name}",
        f"give it more time: {drive.resume_with} --time-limit T",
    )


def _validator(job: Job, state: State) -> Validator | None:
    if job.held is None:
        return None
    dtype = next(state.model.parameters()).dtype
    train, held = (rows.table.to(dtype=dtype, device=job.device) for rows in (job.train, job.held))
    places = places_of(state.model, held.rounding)
    volume = job.held.log_volume(() if places is None else places.rounding.dims)
    held = held._replace(rounding=None if places is None else places.rounding)
    return make_validator(job.recipe, train, job.held._replace(table=held), volume, state.epochs)


def _plateau(job: Job, state: State) -> Plateau | None:
    if not isinstance(state, LoopState) or state.schedule != "plateau":
        return None
    table = job.train.table.to(dtype=next(state.model.parameters()).dtype, device=job.device)
    return Plateau(job.recipe, job.train, table, state, job.work.ranks)


def _chain_context(job: Job, state: Any) -> Parts:
    """What every checkpoint carries along for chains."""
    if "imputations" not in job.recipe.method.entry.provides:
        return {}
    table = job.train.table
    holes = state.holes.to(table.missing.device)  # those of latents, which come after the data, too
    return chain_context(job.train.keys, holes, observed_quantiles(table))


def _finish(run: RunStore, job: Job, outcome: Outcome, drive: Drive, again: Again) -> Fitted:
    """Bootstrap refits, the final recipe and the final manifest."""
    recipe, work, layout = job.recipe.replace(time_limit=None), job.work, job.train.table.layout
    held = run.tensors("model")
    tensors, _ = split_bootstrap(held)
    if outcome.stopped_by == "time_limit":
        recipe = recipe.replace(stop_after=outcome.steps)
        work.limit.cut.append(TRAINING)
    model = build_model(recipe, layout, tensors, run.name)
    for line in model.remarks(layout):
        work.reporter.detail(line)
    own = replace(job, recipe=recipe)
    with _saved(run, drive, f"in the {_phase(recipe)}"):
        refits = _refitted(run, own, drive, model, held, again)
    grown: dict[str, Tensor] = {}
    if refits.tensors and not work.ranks.rank and trees.wanted(recipe, job.train.table):
        with _saved(run, drive, "while trees were learnt"):
            grown = _trees(own, refits.tensors)
    if work.ranks.rank:  # the rest is up to rank 0
        return fitted_of(run, recipe, layout)
    made = len({name.split("/")[1] for name in refits.tensors})
    if {REFITS, POSTERIOR} & set(work.limit.cut) or recipe.bootstrap == "auto":
        recipe = recipe.replace(bootstrap=made or "none")
        if not made:  # without draws no posterior is asked for
            recipe = recipe.replace(uncertainty="bootstrap", posterior_components=None)
    if TREES in work.limit.cut:
        recipe = recipe.replace(trees="none")
    entries = _entries(run, job, recipe, outcome, refits, made)
    with work.reporter.stage(SAVING):
        run.save({"model": {**tensors, **refits.tensors, **grown}}, entries, {RECIPE: recipe.text()})
    _tell(run, job, recipe, outcome, drive, model)
    fitted = fitted_of(run, recipe, layout)
    measured = {CHAINS: measured_chains(fitted, job.train, outcome.steps, work)} if job.chains else {}
    run.save(measured, {"status": "finished", "time_limit": _limited(job)})
    return fitted


@contextlib.contextmanager
def _saved(run: RunStore, drive: Drive, phase: str) -> Iterator[None]:
    """Within this context a signal is said to have come in a phase after training."""
    try:
        yield
    except Interrupted as error:
        done = f"{error.message} {phase}; the fit is saved in {run.name}"
        raise Interrupted(done, error.exit_code, f"continue with: {drive.resume_with}") from None


def _refitted(run: RunStore, job: Job, drive: Drive, model: Model, held: dict[str, Tensor], again: Again) -> Refitted:
    """The refits of a model; `held`: the model's file of the run."""
    recipe, work, table = job.recipe, job.work, job.train.table
    tensors, kept = split_bootstrap(held)
    parameters = {"model": tensors, "conditionals": run.tensors("conditionals")}

    def keep(made: dict[str, Tensor]) -> None:
        run.save({"model": {**tensors, **made}}, {})

    early = drive.plateau is not None and drive.plateau.satisfied and work.ranks.alone
    anew = partial(_anew, job, again) if early else None
    fit = Fit(model, table, drive.state, parameters, kept, keep, anew, job.recoders, split_way(held))
    return refit(recipe, fit, work)


def _entries(run: RunStore, job: Job, recipe: Recipe, outcome: Outcome, refits: Refitted, made: int) -> dict[str, Any]:
    """The last values of the manifest; `made`: how many refits there are."""
    return {
        "stopped_by": outcome.stopped_by,
        "bootstrap": made,
        "bootstrap_by": refits.by,
        "bootstrap_unsettled": refits.unsettled,
        "bootstrap_work": refits.work,
        "plugins": recipe.plugins,
        "timings": {
            **run.manifest.get("timings", {}),  # of a comparison of models, before the run was begun
            "training_seconds": run.manifest["progress"]["seconds"],
            "command_seconds": job.work.seconds,
        },
        "time_limit": _limited(job),
    }


def _limited(job: Job) -> dict[str, Any]:
    """What the manifest says of the time limit; empty without one."""
    limit = job.work.limit
    planned = {} if job.planned is None else {"epochs_without": job.planned}
    return {**(limit.record() or {}), **planned} if limit else {}


def _tell(run: RunStore, job: Job, recipe: Recipe, outcome: Outcome, drive: Drive, model: Model) -> None:
    """Say how a fit ended, and warn of what is wrong with it."""
    reporter, table = job.work.reporter, job.train.table
    reporter.say(how_it_ended(outcome.epochs, outcome.stopped_by))
    if outcome.epochs == 0:
        reporter.warn("stopped before training had done one epoch: do not use this run")
    if drive.validator is not None:
        reporter.say(_selection(drive, drive.validator))
    if job.chains and outcome.epochs and isinstance(recipe.method_settings, AscentConfig):
        without = lost(model, table, _fills(recipe, drive.state))
        if without is not None:
            reporter.warn(in_words(without, table.layout.label, recipe.model.name))
    warning = recipe.method.algorithm.warning
    found = None if warning is None else warning(drive.state, run.last_metrics())
    if found is not None:
        reporter.warn(found)


def _fills(recipe: Recipe, state: State) -> Callable[[Tensor], Tensor] | None:
    """How rows are filled by the first of their chains, where a fit has these, all of them in this process."""
    imputing = isinstance(recipe.method_settings, ImputingConfig | VgiConfig)
    if not imputing or not isinstance(state, LoopState) or not state.ranks.alone:
        return None
    chains = state.chains

    def fills(rows: Tensor) -> Tensor:
        return chains.completed(0, rows.to(chains.x.device)).to("cpu", torch.float64)

    return fills


def _anew(job: Job, again: Again, weight: Tensor, random: torch.Generator) -> dict[str, Tensor]:
    """The parameters of the model of a job, fitted anew to rows with weights [N], as the fit was; `random` gives its
    seed."""
    seed = int(torch.randint(1 << 31, (), generator=random))
    own = job.recipe.replace(seed=seed, bootstrap="none", trees="none", average="none", val=None)
    own = own.with_table(weight=None)
    try:
        rows, work = job.train.weighted(weight), replace(job.work, reporter=Silent())
        fitted = again(rows, own, work)
    except Interrupted as error:
        raise Interrupted(f"stopped{error.message[error.message.rindex(' by ') :]}", error.exit_code) from None
    return {name: value.detach().cpu().clone() for name, value in fitted.model.state_dict().items()}


def _phase(recipe: Recipe) -> str:
    return "posterior draws" if recipe.uncertainty == "posterior" else "bootstrap refits"


def _trees(job: Job, refits: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The trees of the refits, under their names in the run."""
    recipe, table = job.recipe, job.train.table
    _, parameters = split_bootstrap(refits)
    drawn = of_draws(recipe) if recipe.uncertainty == "posterior" else recipe
    own = averaging.recipes(drawn, range(len(parameters)))
    models = [build_model(one, table.layout, tensors, "") for one, tensors in zip(own, parameters, strict=True)]
    return trees.named(trees.learnt(recipe, models, table, range(len(models)), job.work, job.recoders))


def _selection(drive: Drive, validator: Validator) -> str:
    """What the held-out rows said."""
    if drive.validated == 0:
        return f"the held-out rows were not looked at: the next time would have been epoch {validator.every}"
    if drive.best_epoch == 0:
        return "the held-out rows have no likelihood under the model at any epoch: nothing was selected by them"
    return f"kept: epoch {drive.best_epoch}, held-out {validator.words.format(drive.best_score)}"
