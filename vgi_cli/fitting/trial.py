"""What a fit of each model would take on this machine: a second's trial of each, carried over to the whole.

Time is measured, as that of the processor, on one thread: what a fit takes while nothing else runs. A method that
climbs by gradients takes some steps, and an epoch has so many of these; its warm-ups and its refits are counted in
epochs, as the fit itself counts them. EM takes some steps of a model of usual size; how many a whole fit takes (the
search for the size, the climb, the refits) is a count of what fits have taken (STEPS); and the trees of one refit are
learnt. So the time of `em` is right to a factor of about three.

Memory is counted, beside that of the program itself: the rows in the precision of the method, with their copies, the
imputations that a fit keeps (with what `tests/fitting/test_peak.py` allows them), twice the parameters and what the
optimisers keep of them, the systems of linear equations of a step of EM. Everything is an estimate.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple, cast

import torch

from vgi_cli.chains.store.formats import formats_of, packed_bytes
from vgi_cli.data import spread_rows
from vgi_cli.errors import VgiError
from vgi_cli.fitting import plateau, trees
from vgi_cli.fitting.choosing import choose_model, comparison_expected, settled_chains
from vgi_cli.fitting.pace import WARM_COST, WARM_UPS, seconds_of_epoch
from vgi_cli.fitting.plan import stream
from vgi_cli.fitting.refits import refit_count
from vgi_cli.fitting.rows import Rows
from vgi_cli.machine.work import Work
from vgi_cli.methods import reweighted
from vgi_cli.methods.em.em import EmConfig, completed
from vgi_cli.methods.optimisation import AscentConfig, batch_size_of, planned_epochs
from vgi_cli.models.base import built
from vgi_cli.models.gaussian.family import FilledRows, GaussianFamily, em_table
from vgi_cli.models.gaussian.gaussians import MEMORY
from vgi_cli.registry import names as registry
from vgi_cli.reporting import Silent
from vgi_cli.settings import components
from vgi_cli.settings.recipe import Recipe

SECONDS = 1.0
"""Of a trial, at most; setting it up comes on top."""
ROWS = 5_000
"""Rows of a trial of EM, evenly spread."""
FIRST = 2
"""Steps before the clock runs."""
LONGEST = 200
"""Steps of EM that are timed at most."""
CHAINS = 1.3
"""The memory of imputations, in that of the packed cells."""
COPIES = 4
"""Of the rows, that a fit holds at once."""
STEPS, STEPS_OF_ONE = 3_000, 700
"""Steps of EM of a whole fit, sizing and refits included, each of as many rows as the trial has; the same of a model of
one Gaussian."""
COMPARED, START = 2.5, 3.0
"""What a fit takes that compares models: so many times what the one that is tried takes, and seconds to start (measured
on twelve tables of 50 to 18,000 rows: right to a factor of 1.6)."""


class Trial(NamedTuple):
    """What a fit of one model by its own method would take.

    model, method  their names; `auto`: what is fitted where nobody names a model
    seconds        of the whole fit, its refits included; None: it cannot be fitted
    memory         bytes, beside the program itself; None: it cannot be fitted
    epochs         the most that it would train for; None: it is fitted by EM, which ends by itself
    rows           rows of the trial
    why_not        why it cannot be fitted to these rows
    """

    model: str
    method: str
    seconds: float | None = None
    memory: int | None = None
    epochs: int | None = None
    rows: int = 0
    why_not: str | None = None


def trials(rows: Rows, recipe: Recipe, tell: Callable[[float], None]) -> Iterator[Trial]:
    """A trial of what is fitted where nobody names a model, and of every model by its own method, on the CPU; `tell` is
    told the share that is done."""
    names, known = list(registry.MODELS), list[tuple[Recipe, Trial]]()
    yield _of_auto(rows, recipe.with_model("auto"), known)
    for place, name in enumerate(names, 1):
        tell(place / (1 + len(names)))
        yield tried(rows, recipe.with_model(name), known)


def _of_auto(rows: Rows, recipe: Recipe, known: list[tuple[Recipe, Trial]]) -> Trial:
    """What a fit takes that chooses its model; `known`: see `tried`."""
    try:
        chosen = choose_model(recipe, rows.table, {}, Silent())
    except VgiError as error:
        return Trial("auto", "em", why_not=error.message)
    found = tried(rows, chosen, known)._replace(model="auto")
    if found.seconds is None or not comparison_expected(chosen, rows.table):
        return found
    return found._replace(seconds=when_compared(found.seconds))


def when_compared(seconds: float) -> float:
    """The seconds of a fit that compares models, by those of the one that is tried."""
    return COMPARED * seconds + START


def can_be_tried(recipe: Recipe) -> bool:
    """Whether there is a trial of the model and the method that a recipe names: a plugin's may be fitted in another
    way."""
    gaussian = issubclass(recipe.model.family, GaussianFamily)
    return isinstance(recipe.method_settings, AscentConfig) or (
        gaussian and isinstance(recipe.method_settings, EmConfig)
    )


def tried(rows: Rows, recipe: Recipe, known: list[tuple[Recipe, Trial]] | None = None) -> Trial:
    """A trial of the model that a recipe names; `known`: trials before, one of which may be of the same recipe, and to
    which this one is added."""
    known = [] if known is None else known
    used = rows.at(rows.table.used)
    try:
        named = choose_model(recipe, used.table, {}, Silent())
        same = next((trial for before, trial in known if before == named), None)
        if same is None:
            by_gradients = isinstance(named.method_settings, AscentConfig)
            same = _by_gradients(used, named) if by_gradients else _by_em(used, named)
            known.append((named, same))
        return same
    except VgiError as error:
        return Trial(recipe.model.name, recipe.model.entry.traits.method, why_not=error.message)


def _by_gradients(rows: Rows, recipe: Recipe) -> Trial:
    """Steps on some batches, an epoch of which is carried over to all epochs and refits."""
    n, table = rows.table.N, rows.table
    said = {f"method.{name}" for name in recipe.method.settings}
    recipe = components.in_full(recipe, **recipe.model_settings.model_dump(mode="json"))
    recipe = plateau.settled(settled_chains(recipe, table, said), table, {})
    config = cast(AscentConfig, recipe.method_settings)
    pace = seconds_of_epoch(recipe, rows, torch.device("cpu"), SECONDS, time.process_time)
    epochs = planned_epochs(config, n)
    warm = WARM_COST * sum(getattr(config.optim, name, None) or 0 for name in WARM_UPS)
    steps = -(-n // batch_size_of(config.optim, n))
    fit = reweighted.work_of(epochs, steps, n)
    scarcest = int((~table.missing).sum(0).min())
    count = refit_count(recipe)
    more = reweighted.size_of(n, scarcest, fit, count, stated=False).work / fit if count else 0.0
    dtype = getattr(torch, recipe.method.entry.traits.precision)
    memory = COPIES * table.x.numel() * (dtype.itemsize + 1) + 2 * pace.parameters
    if "imputations" in recipe.method.entry.provides:
        K = int(getattr(config, "imputations", 1))
        memory += int(CHAINS * packed_bytes(table.missing, K, formats_of(table.layout, dtype)))
    seconds = pace.seconds * (epochs * (1 + more) + warm)
    return Trial(recipe.model.name, recipe.method.named, seconds, memory, epochs, pace.rows)


def _by_em(rows: Rows, recipe: Recipe) -> Trial:
    """Steps of a model of usual size on a part of the rows."""
    n = rows.table.N
    some = rows.at(spread_rows(n, ROWS))
    table = some.table.to(dtype=torch.float64)
    generator = stream(recipe.seed, "trial")
    family = cast(GaussianFamily, built(recipe.model.family, recipe.model_settings, table.layout).double())
    family.initialise_filled(FilledRows(completed(table, generator), table.missing), generator)
    penalty, em = family.penalty(None, 1e-3), em_table(table.x, table.missing)
    begun, done = time.process_time(), -FIRST
    while done < LONGEST and (done <= 0 or time.process_time() - begun < SECONDS):
        if done == 0:
            begun = time.process_time()
        family.em_step(em, penalty)
        done += 1
    each = (time.process_time() - begun) / done
    systems = min(len(em.patterns.missing) * family.gaussians.footprint().pattern, MEMORY)
    memory = COPIES * (rows.table.x.numel() * 9 + systems * 8)
    steps = STEPS_OF_ONE if family.gaussians.K == 1 else STEPS
    seconds = each * steps * (n / table.N) ** 0.5  # sizes and models are compared on a part of many rows, too
    if refit_count(recipe) and trees.wanted(recipe, table):
        importlib.import_module("sklearn.tree")  # which takes longer to load than a tree to learn
        begun = time.process_time()
        trees.learnt(recipe.replace(average="none"), [family], table, [0], Work())
        seconds += refit_count(recipe) * (time.process_time() - begun)
    return Trial(recipe.model.name, recipe.method.named, seconds, memory, None, table.N)
