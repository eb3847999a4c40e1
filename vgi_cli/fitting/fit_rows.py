"""A fit of encoded rows: what is left open in its settings is decided, then it is carried out."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias, cast

import torch

from vgi_cli.columns.number import THREE, Number
from vgi_cli.data import TensorTable
from vgi_cli.encoding.missingness import SELDOM, seldom_together
from vgi_cli.errors import InputError
from vgi_cli.fitting import averaged, averaging, pace, plateau, trees
from vgi_cli.fitting.carry_out import carry_out
from vgi_cli.fitting.choosing import (
    choose_blocks,
    choose_model,
    chosen,
    comparison_expected,
    comparison_wanted,
    model_line,
    model_size,
    settled_chains,
    size_is_open,
)
from vgi_cli.fitting.contest import contest
from vgi_cli.fitting.contest.candidates import by_em
from vgi_cli.fitting.contest.contest import Won
from vgi_cli.fitting.fitted import Fitted, fitted_of, used_names
from vgi_cli.fitting.job import Job, start
from vgi_cli.fitting.refits import (
    check_kinds,
    refit_count,
    settled_uncertainty,
)
from vgi_cli.fitting.rows import Rows, held_out, training_rows
from vgi_cli.layout import Layout
from vgi_cli.machine.device import resolve_device
from vgi_cli.machine.work import TimeLimit, TimeUp, Work
from vgi_cli.maths.compiled import asking
from vgi_cli.methods.base import Parts
from vgi_cli.ranks import Ranks
from vgi_cli.registry import names as registry
from vgi_cli.registry import plugins
from vgi_cli.reporting import CONTEST, POSTERIOR, REFITS, SAVING, SIZE, TRAINING, TREES, Reporter
from vgi_cli.runs.comparison import Comparison
from vgi_cli.runs.manifest import new_manifest
from vgi_cli.runs.store import CONTEST as CONTEST_FILE
from vgi_cli.runs.store import RECIPE, SCHEMA, RunInMemory, RunStore
from vgi_cli.settings import components
from vgi_cli.settings.gather import read_recipe
from vgi_cli.settings.problems import Settings
from vgi_cli.settings.recipe import Recipe

Keep: TypeAlias = Callable[[Mapping[str, Any]], AbstractContextManager[RunStore]]
"""Begins a run, given the first values of its manifest; what a fit that fails has made is kept or undone by it."""

NOTHING_SAID: Settings = cast(Settings, MappingProxyType({}))


class More(NamedTuple):
    """Files that a run keeps from its first checkpoint on: texts by name, tensors by stem; and where it keeps what
    models score while they are compared."""

    texts: Mapping[str, str] = MappingProxyType({})
    parts: Parts = cast(Parts, MappingProxyType({}))
    comparison: Comparison = Comparison()


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
    recipe, won = _with_model(recipe, rows, held, said, work, more.comparison)
    if won is not None:
        rows, held = won.rows, won.held
    recipe, layout = _with_blocks(recipe, rows, reporter)
    device = _device_of(recipe, work)
    train, held = training_and_held(recipe, rows.with_layout(layout), held)
    recipe.method.algorithm.check_table(train.table)
    warn_of_pairs(train.table, reporter)
    _warn_of_new_rows(recipe, layout, reporter)
    reporter.plan(stages(recipe, train))
    require_time(work.limit, "before a model had been chosen")
    recipe = _with_size(recipe.replace(device=str(device)), train, said, work, compared=won is not None)
    schemas = won.schemas if won is not None else averaged.new_schemas(recipe, rows)
    if rows.source is not None:
        averaging.recoders(rows.source.schema, schemas)  # refuses at once what cannot be
    recipe = _with_epochs(recipe, train.table, said, reporter)
    with asking(lambda: require_time(work.limit, "before training could begin")):
        recipe, planned, refits = pace.allowance(recipe, train, device, work.limit, said)
    recipe = _agreed(recipe, work.ranks)
    league = None if won is None else won.league
    job, state = start(Job(recipe, train, held, device, work, planned, league, schemas, chains, refits))
    require_time(work.limit, "before training could begin")
    if planned is not None:
        room = "" if refits else ", and none for refits after them"
        reporter.say(f"the time limit leaves room for about {state.epochs} of {planned} epochs{room}")
    job = replace(job, recipe=job.recipe.replace(epochs=state.epochs))
    timings = {} if won is None else {"timings": {"comparison_seconds": won.seconds}}
    with keep({**_manifest(job, said, rows), **timings}) as run:
        run.save(more.parts, {}, {**_texts(job), **more.texts})
        return carry_out(run, job, state, _again)


def _with_model(
    recipe: Recipe, rows: Rows, held: Rows | None, said: Settings, work: Work, comparison: Comparison
) -> tuple[Recipe, Won | None]:
    """The recipe with a model and its method, and the comparison of models that chose it; None: there was none."""
    reporter = work.reporter
    undecided = recipe.model.name == "auto"
    recipe = choose_model(recipe, rows.table, said, reporter)
    check_kinds(recipe, rows.table.layout, named=not undecided)
    trees.settled(recipe, rows.table)  # refuses at once what cannot be
    require_time(work.limit, "once the table had been read")
    won = None
    if undecided and comparison_wanted(recipe, rows.table):
        won = contest.hold(recipe, rows, held, said, _alone, work, comparison)
        if won is None and comparison_expected(recipe, rows.table):
            reporter.say(model_line(recipe, rows.table.layout))
    if won is not None:
        if won.recipe.method.name != recipe.method.name:
            reporter.say(model_line(won.recipe, rows.table.layout))
        return won.recipe, won
    if recipe.compare:
        few = "too few rows, or no time" if comparison_wanted(recipe, rows.table) else "no row has a hole beside a cell"
        reporter.warn(f"--compare {' '.join(recipe.compare)}: nothing was compared: {few}")
    return recipe, None


def _with_blocks(recipe: Recipe, rows: Rows, reporter: Reporter) -> tuple[Recipe, Layout]:
    """The recipe with its plugins and the columns that are redrawn together, and the layout with these; says which
    settings have no effect."""
    recipe = _record_plugins(recipe.replace(compare=()), rows, reporter)
    recipe, layout = choose_blocks(recipe, rows.table, reporter)
    for key, why in recipe.model_settings.idle(layout, refit_count(recipe)).items():
        reporter.say(f"model.{key}={getattr(recipe.model_settings, key)} has no effect: {why}")
    return recipe, layout


def _device_of(recipe: Recipe, work: Work) -> torch.device:
    """The device of a fit: that of this process, where its method has a use for it."""
    device = work.ranks.device(resolve_device(recipe.device, "device"))
    if device.type == "cpu" or recipe.method.entry.traits.gpu:
        return device
    if recipe.device != "auto":
        work.reporter.say(f"method {recipe.method.name} computes on the CPU")
    return torch.device("cpu")


def _with_size(recipe: Recipe, rows: Rows, said: Settings, work: Work, *, compared: bool) -> Recipe:
    """The recipe with the size of its model and what depends on that: trees, refits and averages. `compared`: whether
    the model was chosen by comparison, with its size."""
    is_open, table = compared or recipe.model.settings.get("components") is None, rows.table
    numbers = [] if rows.source is None else [c for c in rows.source.schema.encoded if isinstance(c, Number)]
    size = model_size(recipe, table, work, sum(column.steps == THREE for column in numbers))
    recipe = components.in_full(trees.settled_dependence(recipe.with_model(**size), table))
    recipe = trees.settled(recipe, table)
    stated = "model.components" in said and not (compared and by_em(recipe))  # it is of a compared one
    is_chosen = is_open and not stated
    return averaged.settled(settled_uncertainty(recipe, table.layout, len(table.used), chosen=is_chosen), table)


def _with_epochs(recipe: Recipe, table: TensorTable, said: Settings, reporter: Reporter) -> Recipe:
    """The recipe with its chains and its number of epochs."""
    asked = recipe.epochs
    recipe = plateau.settled(settled_chains(recipe, table, said), table, said)
    if recipe.epochs != asked and recipe.value("optim.schedule") != "plateau":
        reporter.warn(
            f"{len(table.used)} rows are too few to hold any out: {recipe.epochs} epochs are made, after which "
            f"'{recipe.model.name}' may have learnt too little, or its rows by heart; `--model mixture` is for so few"
        )
    return recipe


def _warn_of_new_rows(recipe: Recipe, layout: Layout, reporter: Reporter) -> None:
    """A line where the run will hold fills of its own table, and nothing that fills other rows."""
    model, method, levels = recipe.model.name, recipe.method.named, bool(layout.discrete)
    usable = registry.usable_samplers(model, method, levels=levels)
    if usable and not registry.fills_new_rows(model, method, levels=levels):
        what = f"model {model} by {method}{' with columns of levels' * levels}"
        reporter.warn(f"{what} fills the holes of this table alone: for new rows fit by --method vgi")


def warn_of_pairs(table: TensorTable, reporter: Reporter) -> None:
    """Lines on columns that are observed together in no row, or in next to none; of a table in files nothing is looked
    at."""
    if table.scratch is not None or not bool(table.missing.any()):
        return
    few = seldom_together(table.layout.of_columns(table.missing).cpu().numpy(), table.layout.columns)
    if pairs := [pair for pair, rows in few.items() if rows == 0]:
        more = len(pairs) - 1
        others = f", nor are the columns of {_other_pairs(more)} (`vgi check` lists them)" if more else ""
        reporter.warn(
            f"columns {_both(pairs[0])} are observed together in no row{others}: how they go together given the others "
            "rests on the model alone, so report no correlation of such a pair, nor a regression of one on the other"
        )
    if few := {pair: rows for pair, rows in few.items() if rows}:
        pair, rows = min(few.items(), key=lambda one: one[1])
        more = len(few) - 1
        others = f", those of {_other_pairs(more)} in fewer than {SELDOM} rows" if more else ""
        reporter.warn(
            f"columns {_both(pair)} are observed together in {rows} row{'s' * (rows > 1)}{others}: correlations of "
            "such a pair, and regressions of one on the other, are drawn towards none, and their intervals are too "
            "narrow"
        )


def _both(pair: tuple[str, str]) -> str:
    """`'a' and 'b'`."""
    return " and ".join(f"'{name}'" for name in pair)


def _other_pairs(count: int) -> str:
    """`2 other pairs`."""
    return f"{count:,} other pair{'s' * (count > 1)}"


def _alone(rows: Rows, recipe: Recipe, work: Work) -> Fitted:
    """A fit of a candidate of a contest."""
    return fit_rows(rows, recipe, work=work)


def _again(rows: Rows, recipe: Recipe, work: Work) -> Fitted:
    """A fit that is a refit of another one."""
    return fit_rows(rows, recipe, work=work, chains=False)


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
        return carry_out(run, job, state, _again, resumed=run.fitted)


def _agreed(recipe: Recipe, ranks: Ranks) -> Recipe:
    """The recipe of rank 0: what a time limit left may differ elsewhere. Each rank has its own device."""
    if ranks.alone:
        return recipe
    text = ranks.text(recipe.text())
    return read_recipe(text, RECIPE).replace(device=recipe.device) if ranks.rank else recipe


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
            "give it more time: starting the program and reading the table count, too",
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
