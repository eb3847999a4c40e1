"""What a fit decides where nobody said: model and method, blocks of columns, the size of the model.

What was decided stands in the recipe, which so repeats the fit, and by name in the manifest.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from vgi_cli.columns.number import mostly_threes
from vgi_cli.columns.wording import are, first_names, named, some_of
from vgi_cli.conditionals.families.location import within_combinations
from vgi_cli.data import TensorTable, missing_together
from vgi_cli.errors import UsageError, nearest
from vgi_cli.fitting.plan import stream
from vgi_cli.fitting.refits import em_settings
from vgi_cli.layout import Layout
from vgi_cli.machine.work import Work
from vgi_cli.methods.base import State
from vgi_cli.methods.em.sizing import FEWEST_ROWS, ComparedRows, choose_size, open_size
from vgi_cli.models.gaussian.full import FEWEST
from vgi_cli.models.gaussian.mixture import FULL_UP_TO
from vgi_cli.registry import names as registry
from vgi_cli.reporting import SIZE, Reporter
from vgi_cli.settings import components
from vgi_cli.settings.gather import MOST_IN_BLOCK
from vgi_cli.settings.problems import Settings, raise_problems
from vgi_cli.settings.recipe import Recipe, as_settings

FLOW_ROWS = 20_000
FLOW_ROWS_PER_COLUMN = 500
"""Rows after the holes from which a flow is worth a try: so many, and so many a column."""
WIDE_FACTORS = 8
"""Factors of the one Gaussian where nothing is to be filled, beyond FULL_UP_TO columns."""
SIZE_SHARE = 0.4
"""Of the time that is left under a time limit, for choosing the size."""
ONE_CHAIN, FEW_HOLES = 10_000, 0.15
"""Rows from which, and the share of missing cells up to which, a flow is fitted with one chain of each incomplete row:
where rows are many and their holes few, the noise of a batch is that of its rows, not that of their imputations."""
FEWEST_COMPARED = 30
"""With fewer rows no models are compared: the first candidate is taken."""
MANY, RELATED = 10, 10
"""Columns from which on rows are few below so many for each: what goes with what is then weaker in fills."""
OPEN = (None, "auto")
"""Values by which a setting leaves something to the fit."""
OF_THE_TABLE = ("optim.batch_size", "method.scan", "method.block_columns")
"""Chosen by the rows that are fitted: fine-tuning to other rows chooses them anew."""


class Choice(NamedTuple):
    """What `auto` takes, and why (the line that is printed).

    settings  of the model
    refits    whether bootstrap refits are made by the usual rule
    """

    model: str
    method: str
    why: str
    settings: Mapping[str, Any] = {}
    refits: bool = True


def choose(N: int, d: int, share_missing: float, partial: int, levels: int = 0) -> Choice:
    """Model and method for N rows, d modelled columns (of which some hold levels), a share of missing cells and so many
    rows with holes beside observed cells.

    A mixture by EM is exact and quick, and where it was measured it imputes no worse than a flow, which takes tens of
    times as long. Where no row has a hole beside an observed cell nothing depends on the model yet: one component is
    fitted, which takes a few iterations, can fill new rows and be evaluated.
    """
    size = f"{N:,} row{'s' * (N != 1)}, {d:,} column{'s' * (d != 1)}, {share_missing:.0%} of the cells missing"
    if partial == 0:
        what = "only whole rows are missing" if share_missing > 0 else "there is nothing to fill"
        one = "one cluster" if levels else "one Gaussian"
        why = f"{size}: {what}, so {one} is enough (--model mixture makes a full fit, for new rows with holes)"
        wide = {"covariance": "factor", "factors": WIDE_FACTORS} if d - levels > FULL_UP_TO else {}
        return Choice("mixture", "em", why, {"components": 1, **wide}, refits=False)
    if d > 1 and N * (1.0 - share_missing) >= max(FLOW_ROWS, FLOW_ROWS_PER_COLUMN * d):
        many = "--compare flow tells whether a flow describes so many rows better, in tens of times the time"
        return Choice("mixture", "em", f"{size} ({many})")
    return Choice("mixture", "em", size)


def choose_model(recipe: Recipe, table: TensorTable, said: Settings, reporter: Reporter) -> Recipe:
    """Name the model and the method, by the rule of `auto` where nobody did, and say which and why."""
    model, method = recipe.model.name, recipe.method.name
    if model == "auto":
        missing = table.layout.of_columns(table.missing)
        partial = int((missing.any(1) & ~missing.all(1)).sum())
        share = int(missing.sum()) / missing.numel()
        numbers, columns = len(table.layout.continuous), len(table.layout.columns)
        choice = choose(len(table.used), columns, share, partial, columns - numbers)
        model = choice.model
        needs = registry.METHODS[method].needs if method is not None else frozenset()
        why = choice.why
        if not needs <= registry.MODELS[model].provides:
            model = next(m for m in ("mixture", *registry.MODELS) if needs <= registry.MODELS[m].provides)
            why = f"{model} has what this method needs: {registry.words(needs)}"
        else:
            recipe = recipe.with_model(**choice.settings)
        if not choice.refits and recipe.bootstrap == "auto" and recipe.uncertainty != "posterior":
            recipe = recipe.replace(bootstrap="none")
        method = method or choice.method
        taken = recipe.with_model(model).with_method(method)
        compared = comparison_expected(taken, table)
        line = "model: several are compared on hidden cells" if compared else model_line(taken, table.layout)
        reporter.say(f"{line}: {why}")
        for name in recipe.compare:
            check_discrete(recipe.with_model(name).with_method(registry.MODELS[name].traits.method), table.layout)
    elif method is None:
        method = registry.MODELS[model].traits.method
        reporter.say(f"fitting by {_title(method)} ({registry.MODELS[model].traits.because})")
    recipe = recipe.with_model(model).with_method(method)
    raise_problems(components.check(recipe.replace(compare=()), {**as_settings(recipe), **said}))
    check_discrete(recipe, table.layout)
    if (unsuited := recipe.model_settings.unsuited(table.layout)) is not None:
        raise UsageError(*unsuited)
    return recipe.with_model(**recipe.method.algorithm.fixed)


def comparison_wanted(recipe: Recipe, table: TensorTable) -> bool:
    """Whether the choice of a model matters: some row has a hole beside an observed cell, and EM fits."""
    missing = table.layout.of_columns(table.missing)
    return recipe.method.name == "em" and bool((missing.any(1) & ~missing.all(1)).any())


def comparison_expected(recipe: Recipe, table: TensorTable) -> bool:
    """Whether models will be compared where nobody names one, as far as it can be known before (a time limit, held-out
    rows and named settings may leave nothing to compare)."""
    return comparison_wanted(recipe, table) and len(table.used) >= FEWEST_COMPARED


def model_line(recipe: Recipe, layout: Layout) -> str:
    """Model and method of a recipe in words."""
    return f"model: {_density(recipe.model.name, layout)}, fitted by {_title(recipe.method.named)}"


def check_discrete(recipe: Recipe, layout: Layout) -> None:
    """UsageError for columns of levels and a model of numbers alone."""
    model, method = recipe.model.name, recipe.method.named
    if not layout.discrete or registry.takes_levels(model, method):
        return
    names = list(dict.fromkeys(layout.label(i) for i in layout.discrete))
    what = f"takes numbers only: {named('column', names)} {are(names)} of another kind"
    if registry.takes_levels(model, None):
        message = f"--method {method} {what}"
    else:
        message = f"--model {model} {what}"
    rest = "--carry-others carries them as they are, --column NAME=numeric takes levels that are numbers as numbers"
    if layout.tails:
        rest += ", and `--set table.spikes=room` models columns of numbers in which a value piles up"
    raise UsageError(message, f"{registry.who_takes_levels(model)}; {rest}")


def _density(model: str, layout: Layout) -> str:
    """The title of a model, for what a table holds: of a mixture what its components are."""
    if model != "mixture" or not layout.discrete:
        return _title(model)
    return "mixture of Gaussians and categories" if layout.continuous else "mixture of categories"


def _title(name: str) -> str:
    """A model or a method in words: the first clause of what it is."""
    entry = registry.MODELS[name] if name in registry.MODELS else registry.METHODS[name]
    return re.split("[,:]", entry.about)[0]


def choose_blocks(recipe: Recipe, table: TensorTable, reporter: Reporter) -> tuple[Recipe, Layout]:
    """The recipe with its blocks named, and the layout with these. UsageError for a column that is not modelled.

    Where nobody names blocks, the method says whether they are found from the mask (`auto`).
    """
    said: Any = recipe.table.blocks
    method = recipe.method.entry.traits
    if said is None and not method.own_blocks & recipe.model.entry.provides:
        said = method.blocks
    if said is None:
        return recipe, table.layout
    names = found(table, reporter) if said == "auto" else said
    recipe = recipe.with_table(blocks=tuple(map(tuple, names)))
    return recipe, layout_of(recipe, table.layout)


def found(table: TensorTable, reporter: Reporter) -> list[list[str]]:
    """Names of the columns that have their holes in the same rows, with a line that says so. Groups of more
    than MOST_IN_BLOCK columns, or of too many combinations of levels, are cut."""
    groups: list[Sequence[int]] = []
    for group in missing_together(table):
        pieces = -(-len(group) // MOST_IN_BLOCK)
        edges = [len(group) * i // pieces for i in range(pieces + 1)]
        cut = [group[start:end] for start, end in pairwise(edges)]
        groups += [piece for some in cut for piece in within_combinations(some, table.layout) if len(piece) > 1]
    names = [[table.layout.columns[c] for c in group] for group in groups]
    if names:
        words = some_of([first_names(group) for group in names])
        reporter.say(f"columns with holes in the same rows are filled together: {words}")
    else:
        reporter.say("no two columns have their holes in exactly the same rows: each is filled on its own")
    return names


def layout_of(recipe: Recipe, layout: Layout) -> Layout:
    """A layout of columns with the blocks that a recipe names. UsageError for columns that are not modelled."""
    names: Any = recipe.table.blocks or ()
    for name in (name for group in names for name in group):
        if name not in layout.columns:
            raise UsageError(f"--block {name}: the column is not modelled", nearest(name, layout.columns))
    return layout.grouped(names)


def size_is_open(recipe: Recipe, table: TensorTable) -> bool:
    """Whether a size has to be chosen by the data."""
    family: Any = recipe.model.family
    return "gaussian" in recipe.model.entry.provides and open_size(family, recipe.model_settings, table)


def model_size(recipe: Recipe, table: TensorTable, work: Work, threes: int = 0) -> dict[str, Any]:
    """The settings of the recipe's model with its size filled in, and a line that says why. `threes`: columns of three
    whole numbers that are modelled as quantities.

    Models that are no mixture of Gaussians keep what their Config says.
    """
    config: Any = recipe.model_settings
    if "gaussian" not in recipe.model.entry.provides:
        return dict(config.model_dump(mode="json"))
    config = config.settled(table.layout)
    factors = getattr(config, "factors", None)
    if factors is not None and factors > table.D:
        columns = f"{table.D} column{'s' if table.D > 1 else ''} to model"
        raise UsageError(f"model.factors={factors}: the table has {columns}", f"at most {table.D}, or leave it out")
    em = em_settings(recipe)
    reporter, limit = work.reporter, work.limit
    rows = ComparedRows(table, stream(recipe.seed, "size"))
    family: Any = recipe.model.family
    if open_size(family, config, table):
        until = limit.until(SIZE_SHARE)
        with reporter.stage(SIZE, until=until) as stage:
            sizing = choose_size(
                family,
                config,
                rows,
                em,
                stop=lambda: limit.passed(until),
                progress=stage,
                workers=work.workers,
            )
    else:
        sizing = choose_size(family, config, rows, em)
    if sizing.cut:
        limit.cut.append(SIZE)
    say = reporter.say if sizing.tried or sizing.cut else reporter.detail
    say(sizing.reason)
    if sizing.scores is not None:
        reporter.detail(sizing.scores)
    if table.D > 1 and family.build(sizing.config, table.layout).independent:
        searched = "no factor improves the log-likelihood of held-out rows: " if sizing.tried else ""
        reporter.warn(
            f"{searched}the columns are modelled as independent, so nothing observed in a row informs its holes"
        )
    elif (line := _few_rows(table, threes)) is not None:
        reporter.say(line)
    return dict(sizing.config.model_dump(mode="json"))


def _few_rows(table: TensorTable, threes: int) -> str | None:
    """What few rows mean for the fills; of a table that is mostly of three whole numbers a column, that these say more
    as levels. None where rows are enough."""
    together, rows = len(table.layout.columns), f"{table.N} row{'s' * (table.N != 1)}"
    scarce = table.D > 1 and max(FEWEST_ROWS, FEWEST * table.D) > table.N
    if not scarce and not (table.D >= MANY and table.N < RELATED * table.D):
        return None
    if mostly_threes(threes, together):
        return (
            f"{threes} of {together} columns hold three whole numbers each and are modelled as quantities: from {rows} "
            "it is hard to learn how such go together; as levels (`ordinal` or `categorical`) they say more"
        )
    if scarce:
        return (
            f"{rows} say little about how {together} columns go together: where these are not closely related, a fill "
            "leans on what is seen of its own column"
        )
    return (
        f"{rows} are few for {together} columns: what goes with what comes out weaker in fills than it is; where these "
        "are for one analysis, `--exclude` the columns that have no part in it"
    )


def settled_chains(recipe: Recipe, table: TensorTable, said: Container[str]) -> Recipe:
    """The recipe with one chain of each incomplete row, where nobody says how many, the model is a flow, the method
    `vgi`, the rows are many and their holes few; else as it is."""
    flow = "bijective" in recipe.model.entry.provides and recipe.method.name == "vgi"
    if not flow or "method.imputations" in said or len(table.used) < ONE_CHAIN:
        return recipe
    few = int(table.missing.sum()) <= FEW_HOLES * table.missing.numel()
    return recipe.with_method(imputations=1) if few else recipe


def settled(recipe: Recipe, state: State) -> Recipe:
    """The recipe with what the state took where the settings left it open."""
    taken = {key: value for key, value in state.chosen().items() if recipe.value(key) in OPEN}
    return recipe.with_values(taken)


def chosen(recipe: Recipe, said: Container[str]) -> dict[str, Any]:
    """By dotted key: what stands in the recipe of a fit, was not said, and is open in the defaults."""
    found = {key: setting.value for key, setting in as_settings(recipe).items() if key not in said}
    return {k: v for k, v in found.items() if v not in OPEN and k in _open_settings(recipe)}


def adapting_config(recipe: Recipe, before: Mapping[str, Any]) -> Any:
    """The Config of a recipe's method for fine-tuning to other rows; `before`: what the fit chose (see `chosen`)."""
    anew = {key: "auto" if key == "method.scan" else None for key in OF_THE_TABLE if key in before}
    return recipe.with_values(anew).method_settings


def _open_settings(recipe: Recipe) -> set[str]:
    """Keys whose defaults leave something to the fit."""
    method = recipe.method.algorithm.Config.model_fields
    inner: Any = method["optim"].annotation if "optim" in method else None
    sections: dict[str, Any] = {
        "": Recipe.model_fields,
        "table.": type(recipe.table).model_fields,
        "model.": recipe.model.family.Config.model_fields,
        "method.": method,
        "optim.": getattr(inner, "model_fields", {}),
    }
    named = ((prefix + name, field) for prefix, fields in sections.items() for name, field in fields.items())
    return {"model.name", "method.name"} | {key for key, field in named if field.default in OPEN}
