"""Refits by EM or posterior draws beyond those of the fit, where more imputations are drawn than a fit makes of them:
one for each, from the table that was fitted. They are made anew each time and not kept."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from torch import Tensor

from vgi_cli.data import TensorTable
from vgi_cli.errors import InputError, UsageError
from vgi_cli.fitting import refits, trees
from vgi_cli.fitting.averaging import averaged, recipes
from vgi_cli.fitting.fitted import FittedTable, build_model
from vgi_cli.fitting.rows import check_same_data, held_out, read, weighted
from vgi_cli.machine.work import TimeUp, Work
from vgi_cli.maths.trees import Tree
from vgi_cli.models.base import Model
from vgi_cli.table.base import Table


class _NotAtHand(Exception):
    """The fitted table cannot be had; why."""


class Refits(NamedTuple):
    """What draws are made from, in turn.

    models   the models
    trees    of each; empty: none has any
    words    what to say of them beside the number of those of the run
    numbers  of each its number among the refits, by which `recipes` knows its recipe
    """

    models: tuple[Model, ...]
    trees: tuple[Sequence[Tree | None], ...]
    words: str
    numbers: Sequence[int]


def enough_refits(fitted: FittedTable, m: int, table: Table | None, work: Work) -> Refits:
    """The refits for m draws, each of which is an imputation of its own.

    The first COUNT draws are from those of the run: where a fit made fewer, somebody or a time limit wanted it so, and
    they are used again. For each draw beyond, one more is made by EM from the fitted table: the one that is imputed
    (`table`, in memory), if it is that, or the files that the run names. Where it is not at hand, or the refits are not
    by EM, a warning says so and the refits serve again. So a draw is the same, however many are asked for. TimeUp where
    the limit is over before they are made.
    """
    have = len(fitted.refits)
    own = Refits(fitted.refits, fitted.trees, "", range(have))
    if m <= have:
        return own
    if m <= refits.COUNT:
        return own._replace(words=f" (they are reused: {m} draws were asked for)")
    by = refitted_by(fitted)
    try:
        if by not in ("em", "posterior"):
            raise _NotAtHand(f"refits by {by} are made with the fit")
        found = _fitted_table(fitted, table)
    except _NotAtHand as error:
        work.reporter.warn(
            f"draws {have + 1} to {m} use the {have} {_kind(by)} again: {error}; "
            f"a fit with --set bootstrap={m} has one for each"
        )
        return own
    recipe, first = fitted.recipe, max(have, refits.COUNT)
    rows = weighted(fitted.rows(found), found, recipe.table)
    apart = held_out(recipe, found.N)
    rows = rows if apart is None else rows.at(apart[0])
    made, numbers = list[Model](), range(first, m)
    for parameters, alone in zip(_made(fitted, rows.table, numbers, work), recipes(recipe, numbers), strict=False):
        if averaged(recipe):
            made.append(build_model(alone, fitted.layout, parameters, fitted.run.name))
        else:
            made.append(copy.deepcopy(fitted.refits[0]))
            made[-1].load_state_dict(parameters)
    if len(made) < len(numbers):
        raise _time_up("refits were made", first, work)
    grown = list[Sequence[Tree | None]]()
    if fitted.trees:
        columns = [
            any(tree is not None and tree.splits for tree in column) for column in zip(*fitted.trees, strict=True)
        ]
        grown += trees.learnt_again(recipe, made, rows.table, numbers, columns, work, fitted.recoders)
        if len(grown) < len(numbers):
            raise _time_up("trees were learnt", first, work)
    again = [number % have for number in range(first)]
    return Refits(
        (*(fitted.refits[number] for number in again), *made),
        (*(fitted.trees[number] for number in again), *grown) if fitted.trees else (),
        f"{_reused(have, first)}, and {len(made)} made now for the further draws",
        (*again, *numbers),
    )


def _reused(have: int, first: int) -> str:
    return f" (they are reused for the first {first} draws)" if have < first else ""


def _time_up(what: str, first: int, work: Work) -> TimeUp:
    return TimeUp(
        f"stopped while further {what}: {work.limit.words()} was over; nothing was written",
        f"give it more time, or ask for {first} draws (--m)",
    )


def _kind(by: str) -> str:
    return "posterior draws" if by == "posterior" else "bootstrap refits"


def _made(fitted: FittedTable, table: TensorTable, numbers: range, work: Work) -> Iterator[dict[str, Tensor]]:
    """The parameters of these numbers. Posterior draws are those of one chain, which is run again."""
    recipe = fitted.recipe
    if refitted_by(fitted) == "posterior":
        chain = refits.posterior_draws(recipe, fitted.model, table, numbers.stop, work)
        yield from islice(chain, numbers.start, None)
        return
    unsettled = done = 0
    for made in refits.made_refits(recipe, fitted.model, table, numbers, work, fitted.recoders):
        unsettled += not made.settled
        done += 1
        yield made.parameters
    refits.say_unsettled(recipe, unsettled, done, fitted.model, table.rows(table.used), work)


def refitted_by(fitted: FittedTable) -> str:
    """The method that made the refits of a run, or `posterior`; runs that do not say it have them by EM."""
    return fitted.run.record.bootstrap_by or "em"


def _fitted_table(fitted: FittedTable, table: Table | None) -> Table:
    """The table of the fit. Raises _NotAtHand."""
    record = fitted.run.record
    if record.command != "fit":
        raise _NotAtHand(f"{fitted.run.name} was fine-tuned to other rows than its model was fitted to")
    if table is not None and table.sha256 == record.data.sha256:
        return table
    if not record.data.paths or record.data.paths == ("-",):
        source = "standard input" if record.data.paths else "a table in memory"
        raise _NotAtHand(f"the run was fitted on {source}, which it does not keep")
    try:
        found = read(record.data.paths, record.data.mask, fitted.recipe.table)
        check_same_data(fitted.run, found)
    except (InputError, UsageError) as error:
        raise _NotAtHand(error.message) from None
    return found
