"""A fit of encoded rows, from what is left open in its settings to the last bootstrap refit."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple, NoReturn, TypeAlias, cast

import torch
from torch import Tensor

from vgi_cli.columns.schema import Schema
from vgi_cli.data import TensorTable
from vgi_cli.encoding.missingness import never_together
from vgi_cli.encoding.recode import NO_RECODERS, Recoder
from vgi_cli.errors import InputError, Interrupted, RunError, UsageError
from vgi_cli.evaluation.likelihood.estimate import places_of
from vgi_cli.fitting import averaged, averaging, contest, pace, plateau, trees
from vgi_cli.fitting.chains import measured_chains
from vgi_cli.fitting.choosing import (
    choose_blocks,
    choose_model,
    chosen,
    comparison_expected,
    comparison_wanted,
    model_line,
    model_size,
    settled,
    settled_chains,
    size_is_open,
)
from vgi_cli.fitting.contest import League
from vgi_cli.fitting.driver import PUBLISHED, Drive, Outcome, Validator, how_it_ended
from vgi_cli.fitting.fitted import Fitted, build_model, check_numbers, fitted_of, used_names
from vgi_cli.fitting.plan import DONE, stream
from vgi_cli.fitting.plateau import Plateau
from vgi_cli.fitting.refits import (
    NO_REFITS,
    TRAINING_SHARE,
    Fit,
    check_kinds,
    of_draws,
    refit,
    refit_count,
    settled_uncertainty,
    split_bootstrap,
    split_way,
)
from vgi_cli.fitting.rows import Rows, held_out, training_rows
from vgi_cli.fitting.sharing import shared_by
from vgi_cli.fitting.together import in_words, lost
from vgi_cli.fitting.validation import make_validator
from vgi_cli.layout import Layout
from vgi_cli.machine.device import default_threads, resolve_device, set_threads
from vgi_cli.machine.memory import memory_for_chains, say_where
from vgi_cli.machine.work import TimeLimit, TimeUp, Work
from vgi_cli.maths import products
from vgi_cli.maths.compiled import unfused
from vgi_cli.methods.base import Parts, Resources, State
from vgi_cli.methods.em.em import EmState
from vgi_cli.methods.loop import LoopState
from vgi_cli.methods.optimisation import AscentConfig, ImputingConfig
from vgi_cli.methods.vgi.config import VgiConfig
from vgi_cli.models.base import built
from vgi_cli.ranks import Ranks
from vgi_cli.registry import names as registry
from vgi_cli.registry import plugins
from vgi_cli.reporting import CONTEST, POSTERIOR, REFITS, SAVING, SIZE, TRAINING, TREES, Reporter, Silent
from vgi_cli.runs.manifest import HINT, new_manifest
from vgi_cli.runs.store import CHAINS, RECIPE, SCHEMA, RunInMemory, RunStore
from vgi_cli.runs.store import CONTEST as CONTEST_FILE
from vgi_cli.samplers.starts import in_order
from vgi_cli.settings import components
from vgi_cli.settings.gather import read_recipe
from vgi_cli.settings.problems import Settings
from vgi_cli.settings.recipe import ModelChoice, Recipe

Keep: TypeAlias = Callable[[Mapping[str, Any]], AbstractContextManager[RunStore]]
"""Begins a run, given the first values of its manifest; what a fit that fails has made is kept or undone by it."""

NOTHING_SAID: Settings = cast(Settings, MappingProxyType({}))


class More(NamedTuple):
    """Files that a run keeps from its first checkpoint on: texts by name, tensors by stem."""

    texts: Mapping[str, str] = MappingProxyType({})
    parts: Parts = cast(Parts, MappingProxyType({}))


NOTHING_MORE = More()


@contextmanager
def in_memory(manifest: Mapping[str, Any]) -> Iterator[RunStore]:
    """A run of this process alone."""
    yield RunInMemory(manifest)


def fit_rows(
    rows: Rows,
    recipe: Recipe,
    *,
    held: Rows | None = None,
    said: Settings = NOTHING_SAID,
    keep: Keep = in_memory,
    work: Work | None = None,
    more: More = NOTHING_MORE,
    chains: bool = True,
) -> Fitted:
    """Fit a model to encoded rows. Deterministic given rows and recipe, but for what a time limit cuts.

    rows    what is fitted, with its layout
    recipe  the settings; what they leave open is chosen, and stands in the recipe of the result
    held    rows that select the epoch; those of a fraction (`val`) are taken from `rows`
    said    the settings that somebody gave, where that is not all of them: what a time limit leaves alone, and where
            problems are
    keep    where the fit is kept (in memory: no file is written)
    more    further files of the run
    chains  whether the run keeps how its imputing chains move, which takes a flow as long as some epochs

    Raises UsageError for settings that cannot work with the rows, FitError when training fails, Interrupted after
    saving, TimeUp where the time limit is over before there is a model.
    """
    work = Work() if work is None else work
    if rows.table.D == 0:
        return _nothing_to_fit(rows, recipe, said, keep, work)
    reporter = work.reporter
    undecided = recipe.model.name == "auto"
    recipe = choose_model(recipe, rows.table, said, reporter)
    check_kinds(recipe, rows.table.layout)
    trees.settled(recipe, rows.table)  # refuses at once what cannot be
    won = None
    require_time(work.limit, "once the table had been read")
    if undecided and comparison_wanted(recipe, rows.table):
        won = contest.hold(recipe, rows, held, said, _alone, work)
        if won is None and comparison_expected(recipe, rows.table):
            reporter.say(model_line(recipe, rows.table.layout))
    if won is not None:
        if won.recipe.method.name != recipe.method.name:
            reporter.say(model_line(won.recipe, rows.table.layout))
        recipe, rows, held = won.recipe, won.rows, won.held
    elif recipe.compare:
        few = "too few rows, or no time" if comparison_wanted(recipe, rows.table) else "no row has a hole beside a cell"
        reporter.warn(f"--compare {' '.join(recipe.compare)}: nothing was compared: {few}")
    recipe = _record_plugins(recipe.replace(compare=()), rows, reporter)
    recipe, layout = choose_blocks(recipe, rows.table, reporter)
    for key, why in recipe.model_settings.idle(layout, refit_count(recipe)).items():
        reporter.say(f"model.{key}={getattr(recipe.model_settings, key)} has no effect: {why}")
    device = work.ranks.device(resolve_device(recipe.device, "device"))
    if device.type != "cpu" and not recipe.method.entry.traits.gpu:
        if recipe.device != "auto":
            reporter.say(f"method {recipe.method.name} computes on the CPU")
        device = torch.device("cpu")
    train, held = training_and_held(recipe, rows.with_layout(layout), held)
    recipe.method.algorithm.check_table(train.table)
    _warn_of_pairs(train.table, reporter)
    _warn_of_new_rows(recipe, layout, reporter)
    reporter.plan(stages(recipe, train))
    require_time(work.limit, "before a model had been chosen")
    size = model_size(recipe, train.table, work)
    open_size = won is not None or recipe.model.settings.get("components") is None
    recipe = components.in_full(trees.settled_dependence(recipe.with_model(**size), train.table))
    recipe = trees.settled(recipe.replace(device=str(device)), train.table)
    some = len(train.table.used)
    recipe = settled_uncertainty(recipe, train.table.layout, some, chosen=open_size and "model.components" not in said)
    recipe = averaged.settled(recipe, train.table)
    schemas = won.schemas if won is not None else averaged.new_schemas(recipe, rows)
    if rows.source is not None:
        averaging.recoders(rows.source.schema, schemas)  # refuses at once what cannot be
    asked, recipe = recipe.epochs, plateau.settled(settled_chains(recipe, train.table, said), train.table, said)
    if recipe.epochs != asked and recipe.value("optim.schedule") != "plateau":
        work.reporter.warn(
            f"{len(train.table.used)} rows are too few to hold any out: {recipe.epochs} epochs are made, after which "
            f"'{recipe.model.name}' may have learnt too little, or its rows by heart; `--model mixture` is for so few"
        )
    recipe, planned, refits = pace.allowance(recipe, train, device, work.limit, said)
    recipe = _agreed(recipe, work.ranks)
    league = None if won is None else won.league
    job, state = start(Job(recipe, train, held, device, work, planned, league, schemas, chains, refits))
    require_time(work.limit, "before training could begin")
    if planned is not None:
        room = "" if refits else ", and none for refits after them"
        reporter.say(f"the time limit leaves room for about {state.epochs} of {planned} epochs{room}")
    job = replace(job, recipe=job.recipe.replace(epochs=state.epochs))
    with keep(_manifest(job, said, rows)) as run:
        run.save(more.parts, {}, {**_texts(job), **more.texts})
        return carry_out(run, job, state)


def _warn_of_new_rows(recipe: Recipe, layout: Layout, reporter: Reporter) -> None:
    """A line where the run will hold fills of its own table, and nothing that fills other rows."""
    model, method, levels = recipe.model.name, recipe.method.named, bool(layout.discrete)
    usable = registry.usable_samplers(model, method, levels=levels)
    if usable and not registry.fills_new_rows(model, method, levels=levels):
        what = f"model {model} by {method}{' with columns of levels' * levels}"
        reporter.warn(f"{what} fills the holes of this table alone: for new rows fit by --method vgi")


def _warn_of_pairs(table: TensorTable, reporter: Reporter) -> None:
    """A line on columns that are observed together in no row; of a table in files nothing is looked at."""
    if table.scratch is not None or not bool(table.missing.any()):
        return
    pairs = never_together(table.layout.of_columns(table.missing).cpu().numpy(), table.layout.columns)
    if not pairs:
        return
    first, more = " and ".join(f"'{name}'" for name in pairs[0]), len(pairs) - 1
    others = f", nor are the columns of {more:,} other pair{'s' * (more > 1)} (`vgi check` lists them)" if more else ""
    reporter.warn(
        f"columns {first} are observed together in no row{others}: how they go together given the others rests on the "
        "model alone, so report no correlation of such a pair, nor a regression of one on the other"
    )


def _alone(rows: Rows, recipe: Recipe, work: Work) -> Fitted:
    """A fit of a candidate of a contest."""
    return fit_rows(rows, recipe, work=work)


def resume_rows(
    rows: Rows, recipe: Recipe, again: Callable[[], AbstractContextManager[RunStore]], held: Rows | None, work: Work
) -> Fitted:
    """Go on with a fit of the same rows by the recipe of its run; `again` opens the run to write to it."""
    recipe, layout = choose_blocks(recipe, rows.table, work.reporter)
    train, held = training_and_held(recipe, rows.with_layout(layout), held)
    require_time(work.limit, "once the table had been read")
    device = work.ranks.device(resolve_device(recipe.device, "device"))
    job, state = start(Job(recipe, train, held, device, work))
    with again() as run:
        job = replace(job, schemas=averaged.kept_schemas(recipe, run))
        return carry_out(run, job, state, resumed=run.fitted)


def _agreed(recipe: Recipe, ranks: Ranks) -> Recipe:
    """The recipe of rank 0: what a time limit left may differ elsewhere. Each rank has its own device."""
    if ranks.alone:
        return recipe
    text = ranks.text(recipe.text())
    return read_recipe(text, RECIPE).replace(device=recipe.device) if ranks.rank else recipe


@dataclass(frozen=True)
class Job:
    """A fit whose every decision is made; `planned`: epochs that it would have without its time limit, where that has
    room for fewer; `league`: how its model was chosen, where models were compared; `schemas`: by transform those of
    the models that it averages over; `chains`: whether imputing chains are measured; `refits`: whether the time limit
    leaves time for refits."""

    recipe: Recipe
    train: Rows
    held: Rows | None
    device: torch.device
    work: Work
    planned: int | None = None
    league: League | None = None
    schemas: Mapping[str, Schema] = field(default_factory=dict)
    chains: bool = True
    refits: bool = True

    @property
    def recoders(self) -> Mapping[str, Recoder]:
        """By transform the maps to the rows of the models that it averages over."""
        source = self.train.source
        return NO_RECODERS if source is None else averaging.recoders(source.schema, self.schemas)


def stages(recipe: Recipe, train: Rows | None) -> list[str]:
    """What comes after the table was read (`train`: its rows, once they are known), as far as the recipe decides it."""
    named = recipe.with_model("mixture") if recipe.model.name == "auto" else recipe
    named = named.with_method(recipe.method.name or named.model.entry.traits.method)
    gaussian = "gaussian" in named.model.entry.provides
    sized = gaussian if train is None else size_is_open(named, train.table)
    refits = refit_count(named) > 0
    revised = refits and train is not None and trees.wanted(named, train.table)
    compared = train is None and recipe.model.name == "auto"
    there = {
        CONTEST: compared,
        SIZE: sized and not compared,
        TRAINING: True,
        POSTERIOR if named.uncertainty == "posterior" else REFITS: refits,
        TREES: revised,
        SAVING: True,
    }
    return [name for name, comes in there.items() if comes]


def require_time(limit: TimeLimit, moment: str) -> None:
    """TimeUp where the time is over before anything was trained."""
    if limit.over():
        raise TimeUp(
            f"stopped before training began: {limit.words()} was over {moment}; nothing was kept",
            "give it more time, or fewer rows",
        )


def _record_plugins(recipe: Recipe, rows: Rows, reporter: Reporter) -> Recipe:
    """The recipe with file name and SHA-256 of the plugins that it uses."""
    columns = () if rows.source is None else rows.source.schema.columns
    names = used_names(recipe, [column.kind for column in columns])
    plugins.say_unused(names, reporter)
    return recipe.replace(plugins=plugins.in_use(names))


def training_and_held(recipe: Recipe, rows: Rows, held: Rows | None) -> tuple[Rows, Rows | None]:
    """The rows that are fitted, and those that select the epoch."""
    apart = held_out(recipe, rows.table.N)
    if apart is not None:
        rows, held = rows.at(apart[0]), rows.at(apart[1]).weighted(None)  # they are scored all alike
    if recipe.table.weight is not None:
        _require_weight(rows.table, recipe.table.weight)
    return training_rows(rows, keep_empty="imputations" in recipe.method.entry.provides), held


def _require_weight(table: TensorTable, name: str) -> None:
    """InputError where the rows that count by the weights in column `name` lack a column that is modelled."""
    unknown = (table.uncounted & ~table.missing.all(0)).nonzero()[:, 0].tolist()
    if not unknown:
        return
    hint = "give more rows a weight above 0; rows that --val holds out are not fitted"
    if bool(table.uncounted.all()):
        raise InputError(f"--weight {name}: every row that would be fitted weighs 0", hint)
    column = table.layout.label(unknown[0])
    raise InputError(
        f"--weight {name}: of the rows that would be fitted those with '{column}' observed all weigh 0",
        f"--exclude {column} carries the column; or {hint}",
    )


def _manifest(job: Job, said: Settings, rows: Rows) -> dict[str, Any]:
    """The first values of the manifest of a fit; `rows`: before any were held out."""
    recipe, table, held = job.recipe, rows.source and rows.source.table, job.held
    data = {
        "paths": list(recipe.data),
        "mask": recipe.mask,
        "label": "rows" if table is None else table.label,
        "sha256": _sha256(rows.table) if table is None else table.sha256,
        "rows": rows.table.N,
        "rows_fitted": len(job.train.table.used),
        "rows_held_out": held.table.N if held is not None and isinstance(recipe.val, float) else 0,
        "val_sha256": held.source.table.sha256 if isinstance(recipe.val, str) and held and held.source else None,
    }
    return new_manifest(
        "fit",
        seeds={"fit": recipe.seed},
        requested={key: setting.value for key, setting in said.items() if key != "data"},
        chosen=chosen(recipe, said) if rows.table.D else {},
        data=data,
        model=recipe.model.name,
        method=recipe.method.name,
        plugins=recipe.plugins,
        device=str(job.device),
        threads=recipe.threads,
    )


def _sha256(table: TensorTable) -> str:
    """Of rows that come encoded."""
    digest = hashlib.sha256(table.x.cpu().contiguous().numpy().tobytes())
    digest.update(table.missing.cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def _texts(job: Job) -> dict[str, str]:
    """Recipe and schema of a new run."""
    source = job.train.source
    schema = {} if source is None else {SCHEMA: source.schema.to_json()}
    schema |= {averaged.schema_file(name): one.to_json() for name, one in job.schemas.items()}
    league = {} if job.league is None else {CONTEST_FILE: job.league.text()}
    return {RECIPE: job.recipe.replace(time_limit=None).text(), **schema, **league}


def _nothing_to_fit(rows: Rows, recipe: Recipe, said: Settings, keep: Keep, work: Work) -> Fitted:
    """The run of a table in which no column varies: it carries columns and fills constants."""
    device = resolve_device(recipe.device, "device")
    recipe = _record_plugins(recipe, rows, work.reporter)
    recipe = recipe.replace(device=str(device), threads=recipe.threads or 1, trees="none")
    job = Job(recipe, rows, None, device, work)
    with keep(_manifest(job, said, rows)) as run:
        run.save({}, {}, _texts(job))
        run.save({"model": {}}, {"status": "finished", "stopped_by": "converged", "epochs": 0, "epochs_planned": 0})
        run.publish()
        return fitted_of(run, recipe, rows.table.layout)


def start(job: Job) -> tuple[Job, State]:
    """The state before the first step, and the job with what that state took where settings were open; deterministic
    given the recipe and the rows."""
    recipe, work = job.recipe, job.work
    method: Any = recipe.method.algorithm
    wanted = recipe.method_settings
    if isinstance(wanted, AscentConfig) and wanted.optim.products == "bfloat16":
        _check_products(job.device)
    dtype = getattr(torch, recipe.method.entry.traits.precision)
    table = job.train.table.to(dtype=dtype, device=job.device)
    config = recipe.model_settings.settled(table.layout)
    recipe = recipe.replace(model=ModelChoice(recipe.model.name, config.model_dump(mode="json")))
    model = built(recipe.model.family, config, table.layout)
    model = model.to(dtype=dtype, device=job.device)
    threads = recipe.threads or default_threads(work_of_step(model, min(table.N, 512)))
    set_threads(threads)
    if recipe.threads is None:
        work.reporter.detail(f"{threads} thread{'s' if threads > 1 else ''} on {job.device}")
    if (line := unfused(job.device)) is not None:
        work.reporter.say(line)
    recipe = recipe.replace(threads=threads)
    inputs = (model, table, recipe.method_settings, stream(recipe.seed, "fit"))
    state: Any
    if "imputations" in recipe.method.entry.provides:
        room = memory_for_chains(job.device, work.folder, work.memory, work.ranks.beside)
        resources = Resources(room, recipe.compile if work.ranks.alone else "off", work.reporter.warn)
        state = method.init(*inputs, resources)
        say_where(state.chains, work.folder, work.reporter)
    else:
        state = method.init(*inputs)
    if table.weight is not None and not isinstance(state, LoopState | EmState):
        raise UsageError(
            f"--weight: method {recipe.method.name} cannot weigh rows", "leave it out, or take another --method"
        )
    if isinstance(state, LoopState | EmState):
        state.divide(work.ranks)
    if isinstance(state, LoopState):
        own = job.train if work.ranks.alone else job.train.at(torch.arange(state.share.start, state.share.stop))
        state.respread = own.respread(recipe.seed)
        weight = table.relative_weight
        state.row_weight = None if weight is None else weight.to(state.chains.x)
    elif isinstance(wanted, AscentConfig) and wanted.optim.products != "float32":
        message = f"optim.products: method {recipe.method.name} cannot round the factors of products"
        raise UsageError(message, "leave it out")
    elif isinstance(wanted, AscentConfig) and wanted.optim.schedule == "plateau":
        raise UsageError(
            f"method {recipe.method.name} cannot follow optim.schedule=plateau: its state is not one of the loop that "
            "lets rows enter later",
            "say --set optim.schedule=cosine; a method of your own can say so by piloted = False in its Config",
        )
    if state.compiled is not None:
        work.reporter.detail(f"compile: {state.compiled}")
    elif recipe.compile == "on":
        work.reporter.say(f"--compile on: method {recipe.method.name} has no step to compile")
    return replace(job, recipe=settled(recipe, state)), cast(State, state)


def _check_products(device: torch.device) -> None:
    """UsageError where no products of bfloat16 numbers are to be had."""
    if device.type != "cpu":
        raise UsageError(f"optim.products=bfloat16 is for the CPU, and this fit is on {device}", "leave it out")
    if not products.available():
        raise UsageError("optim.products=bfloat16: this processor does not multiply bfloat16 numbers", "leave it out")


def work_of_step(model: torch.nn.Module, rows: int) -> float:
    """Multiplications of one step on so many flattened rows, roughly: forward and backward of the model."""
    return 3.0 * sum(p.numel() for p in model.parameters()) * rows


def carry_out(run: RunStore, job: Job, state: State, resumed: bool = False) -> Fitted:
    """Train, refit for the bootstrap and keep the end of it; `resumed`: go on from the run's checkpoint.

    TimeUp where the time limit is over before the first epoch has ended: a new run in which steps were taken can be
    resumed, one without is removed.
    """
    recipe, work = job.recipe, job.work
    drive = Drive(
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
    if (ranks := shared_by(run.manifest, work.ranks.world, resumed=resumed)) != [1]:
        run.manifest["ranks"] = ranks
    before = run.manifest["stopped_by"]
    if "chosen" not in run.manifest:  # older versions did not note it
        run.manifest["chosen"] = chosen(recipe, run.manifest.get("requested", {}))
    if resumed:
        parts = run.parts()
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
        work.ranks.any(False)  # all have read the run: from here on rank 0 writes
    over = state.epoch >= state.epochs or (isinstance(state, EmState) and state.converged) or drive.exhausted
    if before == "stop_after":
        over = over or drive.steps >= (recipe.stop_after or math.inf)
    if before in DONE and over:  # no step is left: what was kept of the refits stays
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
    return _finish(run, job, outcome, drive)


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


def _finish(run: RunStore, job: Job, outcome: Outcome, drive: Drive) -> Fitted:
    """Bootstrap refits, the final recipe and the final manifest."""
    recipe, work, limit = job.recipe.replace(time_limit=None), job.work, job.work.limit
    held = run.tensors("model")
    tensors, kept = split_bootstrap(held)
    refits = NO_REFITS
    if outcome.stopped_by == "time_limit":
        recipe = recipe.replace(stop_after=outcome.steps)
        limit.cut.append(TRAINING)
    model = build_model(recipe, job.train.table.layout, tensors, run.name)
    for line in model.remarks(job.train.table.layout):
        work.reporter.detail(line)
    grown: dict[str, Tensor] = {}
    try:
        parameters = {"model": tensors, "conditionals": run.tensors("conditionals")}

        def keep(made: dict[str, Tensor]) -> None:
            run.save({"model": {**tensors, **made}}, {})

        early = drive.plateau is not None and drive.plateau.satisfied and work.ranks.alone
        anew = partial(_anew, job, recipe) if early else None
        fit = Fit(model, job.train.table, drive.state, parameters, kept, keep, anew, job.recoders, split_way(held))
        refits = refit(recipe, fit, work)
        if refits.tensors and not work.ranks.rank and trees.wanted(recipe, job.train.table):
            grown = _trees(job, recipe, refits.tensors)
    except Interrupted as error:
        done = f"{error.message} in the {_phase(recipe)}; the fit is saved in {run.name}"
        raise Interrupted(done, error.exit_code, f"continue with: {drive.resume_with}") from None
    if work.ranks.rank:  # the rest is up to rank 0
        return fitted_of(run, recipe, job.train.table.layout)
    made = len({name.split("/")[1] for name in refits.tensors})
    if {REFITS, POSTERIOR} & set(limit.cut) or recipe.bootstrap == "auto":
        recipe = recipe.replace(bootstrap=made or "none")
    if TREES in limit.cut:
        recipe = recipe.replace(trees="none")
    entries: dict[str, Any] = {
        "stopped_by": outcome.stopped_by,
        "bootstrap": made,
        "bootstrap_by": refits.by,
        "bootstrap_unsettled": refits.unsettled,
        "bootstrap_work": refits.work,
        "plugins": recipe.plugins,
        "timings": {"training_seconds": run.manifest["progress"]["seconds"], "command_seconds": work.seconds},
    }
    planned = {} if job.planned is None else {"epochs_without": job.planned}
    entries["time_limit"] = {**(limit.record() or {}), **planned} if limit else {}
    with work.reporter.stage(SAVING):
        run.save({"model": {**tensors, **refits.tensors, **grown}}, entries, {RECIPE: recipe.text()})
    work.reporter.say(how_it_ended(outcome.epochs, outcome.stopped_by))
    if outcome.epochs == 0:
        work.reporter.warn("stopped before training had done one epoch: do not use this run")
    if drive.validator is not None:
        work.reporter.say(_selection(drive, drive.validator))
    if job.chains and outcome.epochs and isinstance(recipe.method_settings, AscentConfig):
        without = lost(model, job.train.table, _fills(recipe, drive.state))
        if without is not None:
            work.reporter.warn(in_words(without, job.train.table.layout.label, recipe.model.name))
    warning = recipe.method.algorithm.warning
    found = None if warning is None else warning(drive.state, run.last_metrics())
    if found is not None:
        work.reporter.warn(found)
    fitted = fitted_of(run, recipe, job.train.table.layout)
    measured = {CHAINS: measured_chains(fitted, job.train, outcome.steps, work)} if job.chains else {}
    run.save(measured, {"status": "finished"})
    return fitted


def _fills(recipe: Recipe, state: State) -> Callable[[Tensor], Tensor] | None:
    """How rows are filled by the first of their chains, where a fit has these, all of them in this process."""
    imputing = isinstance(recipe.method_settings, ImputingConfig | VgiConfig)
    if not imputing or not isinstance(state, LoopState) or not state.ranks.alone:
        return None
    chains = state.chains

    def fills(rows: Tensor) -> Tensor:
        return chains.completed(0, rows.to(chains.x.device)).to("cpu", torch.float64)

    return fills


def _anew(job: Job, recipe: Recipe, weight: Tensor, random: torch.Generator) -> dict[str, Tensor]:
    """The parameters of the model of a recipe, fitted anew to rows with weights [N], as the fit was; `random` gives its
    seed."""
    seed = int(torch.randint(1 << 31, (), generator=random))
    own = recipe.replace(seed=seed, bootstrap="none", trees="none", average="none", val=None)
    own = own.with_table(weight=None)
    try:
        rows, work = job.train.weighted(weight), replace(job.work, reporter=Silent())
        fitted = fit_rows(rows, own, work=work, chains=False)  # of which the parameters are taken, and nothing else
    except Interrupted as error:
        raise Interrupted(f"stopped{error.message[error.message.rindex(' by ') :]}", error.exit_code) from None
    return {name: value.detach().cpu().clone() for name, value in fitted.model.state_dict().items()}


def _phase(recipe: Recipe) -> str:
    return "posterior draws" if recipe.uncertainty == "posterior" else "bootstrap refits"


def _trees(job: Job, recipe: Recipe, refits: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The trees of the refits, under their names in the run."""
    table = job.train.table
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
