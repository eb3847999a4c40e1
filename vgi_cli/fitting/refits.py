"""Bootstrap refits of a fit, or draws from its posterior: when they are made and how, and where they lie in a run
(`bootstrap/<b>/<parameter>`).

A fit by `em` is refitted by EM (methods/em/bootstrap.py), one that climbs by gradients by its own method, to reweighted
rows (methods/reweighted.py). A mixture that was fitted by `em` to numbers may have posterior draws instead
(methods/em/posterior.py).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, cast

import torch
from torch import Tensor

from vgi_cli.completers.base import GivenUp, ask
from vgi_cli.data import TensorTable
from vgi_cli.encoding.recode import NO_RECODERS, Recoder
from vgi_cli.errors import FitError, Interrupted, UsageError
from vgi_cli.fitting.averaging import averaged, fitted_alone, is_the_fit, recipe_of, turns, unfitted
from vgi_cli.fitting.driver import CHECKPOINT_SECONDS
from vgi_cli.fitting.plan import stream
from vgi_cli.layout import Layout
from vgi_cli.machine.device import one_thread
from vgi_cli.machine.work import TimeUp, Work
from vgi_cli.methods import reweighted
from vgi_cli.methods.base import EpochEnd
from vgi_cli.methods.em.bootstrap import MOST_ROWS, USUAL_STEPS, Refit, Sampled, size_of
from vgi_cli.methods.em.em import EmConfig
from vgi_cli.methods.em.posterior import components, draws
from vgi_cli.methods.em.posterior import size_of as size_of_chain
from vgi_cli.methods.optimisation import prefixed
from vgi_cli.methods.reweighted import Reweighted, Size, exponential_weights, moved
from vgi_cli.models.base import Model
from vgi_cli.models.gaussian.family import GaussianFamily
from vgi_cli.models.gaussian.mixture import GaussianMixture, MixtureConfig, covariance_of
from vgi_cli.reporting import POSTERIOR, REFITS
from vgi_cli.settings.recipe import Recipe
from vgi_cli.workers import ONE_PROCESS, Tell, room_of

PREFIX, TREES = "bootstrap/", "trees/"
WAY = "refitting/"
"""What stands before the names of what is kept while refits are made, and of nothing in a run that is finished."""
SETTLED = "settled"
"""There, whether each of the refits that are kept had settled."""
FIT_STEPS = 60
"""About how many EM steps the fit of another model of an average takes; for what is told of it."""
COUNT = 20
"""What `auto` makes and keeps; more imputations than that have theirs made when they are drawn (fitting/further.py)."""

TRAINING_SHARE = 0.6
"""Of the time that is left under a time limit, for training where refits come after it."""

FEWEST = 2
"""Fewer refits than this say nothing of an uncertainty: where a time limit leaves no more, none are kept."""


class Refitted(NamedTuple):
    """Parameters of all refits under their names in the run; empty where none are.

    by         the method that made them, or `posterior`; None: none were made
    unsettled  how many had not settled (by EM)
    work       of all of them, in the work of the fit (by other methods)
    """

    tensors: dict[str, Tensor]
    by: str | None = None
    unsettled: int = 0
    work: float | None = None


NO_REFITS = Refitted({})


class Fit(NamedTuple):
    """A fit that has come to its end.

    model         the fitted model, on the CPU
    table         what was fitted
    state         the state of its method
    parameters    tensors of the fitted model and of its conditionals, by file stem
    kept          refits that an earlier process made
    keep          saves refits on the way, under their names in the run
    way           what else it kept for those that are still to be made (`split_way`)
    anew          (weights of the rows [N], random stream) -> parameters of the model, fitted anew; None: not to be done
    recoders      by transform, to the rows of the models that it averages over
    """

    model: Model
    table: TensorTable
    state: Any
    parameters: Mapping[str, dict[str, Tensor]]
    kept: Sequence[dict[str, Tensor]]
    keep: Callable[[dict[str, Tensor]], None]
    anew: Callable[[Tensor, torch.Generator], dict[str, Tensor]] | None = None
    recoders: Mapping[str, Recoder] = NO_RECODERS
    way: Mapping[str, Tensor] = {}


def refitting(recipe: Recipe) -> Literal["em", "own"] | None:
    """Whether a fit is refitted by EM or by its own method; None: by neither."""
    entry = recipe.method.entry
    if not entry.traits.likelihood:
        return None
    gaussian = "gaussian" in recipe.model.entry.provides
    own = recipe.method.algorithm.refit is not None
    if own and not (gaussian and recipe.trees == "held-out"):  # rows that a resample left out choose the trees
        return "own"
    return "em" if gaussian else None


def refit_count(recipe: Recipe) -> int:
    """How many refits a fit makes at most. `bootstrap` of the recipe: auto, none, or a number."""
    if recipe.bootstrap == "none" or refitting(recipe) is None:
        return 0
    if recipe.bootstrap != "auto":
        return recipe.bootstrap
    return COUNT if refitting(recipe) == "em" else min(COUNT, reweighted.COMMON)


def refit(recipe: Recipe, fit: Fit, work: Work) -> Refitted:
    """Make the refits of a fit. Those that a time limit leaves no time for are left out, and a line says so."""
    if refit_count(recipe) == 0:
        return NO_REFITS
    if recipe.uncertainty == "posterior":
        return _posterior(recipe, fit, work)
    return _by_em(recipe, fit, work) if refitting(recipe) == "em" else _by_own_method(recipe, fit, work)


def named(number: int, parameters: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The parameters of a refit under their names in the run."""
    return {f"{PREFIX}{number}/{name}": value for name, value in parameters.items()}


def _by_em(recipe: Recipe, fit: Fit, work: Work) -> Refitted:
    """Where several ranks share a fit, each makes some of the refits, and rank 0 gets them all."""
    ranks, count = work.ranks, refit_count(recipe)
    if ranks.alone:
        return _by_em_alone(recipe, fit, count, work)
    numbers = range(count)[ranks.rank :: ranks.world]
    own: dict[str, Tensor] = {}
    made = made_refits(recipe, fit.model, fit.table, numbers, work, fit.recoders)
    unsettled = done = 0
    for one, number in zip(made, numbers, strict=False):
        own |= named(number, one.parameters)
        done += 1
        unsettled += not one.settled
    handed_in = ranks.collect({**own, "counts": torch.tensor([done, unsettled])})
    if ranks.rank:
        return Refitted(own, "em", unsettled)
    done, unsettled = (int(n) for n in torch.stack([each.pop("counts") for each in handed_in]).sum(0))
    say_unsettled(recipe, unsettled, done, fit.model, fit.table.rows(fit.table.used), work)
    every = {name: value for each in handed_in for name, value in each.items()}
    return _enough(Refitted(every, "em", unsettled), done, count, work)


def _by_em_alone(recipe: Recipe, fit: Fit, count: int, work: Work) -> Refitted:
    """All refits in one process, after those that were kept; on the way they are saved."""
    settled = [bool(one) for one in fit.way.get(SETTLED, ())][:count]
    kept = fit.kept[: len(settled)]
    own, saved = _all_named(kept), time.monotonic()
    way = {name: value for name, value in fit.way.items() if name != SETTLED}

    def keep() -> None:
        fit.keep({**own, **named_way({**way, SETTLED: torch.tensor(settled)})})

    made = made_refits(recipe, fit.model, fit.table, range(len(kept), count), work, fit.recoders, way)
    try:
        for one in made:
            own |= named(len(settled), one.parameters)
            settled.append(one.settled)
            if time.monotonic() - saved >= CHECKPOINT_SECONDS:
                keep()
                saved = time.monotonic()
    except Interrupted:
        keep()
        raise
    found = _enough(Refitted(own, "em", settled.count(False)), len(settled), count, work)
    if found.tensors:
        table = fit.table.rows(fit.table.used)
        say_unsettled(recipe, settled.count(False), len(settled), fit.model, table, work)
    return found


def say_unsettled(recipe: Recipe, unsettled: int, done: int, model: Model, table: TensorTable, work: Work) -> None:
    """A line where some refits did not settle; `table`: the rows with an observed cell."""
    if not unsettled:
        return
    if averaged(recipe):
        when = "at the limit of steps that a refit may take"
    else:
        when = f"after {size_of(cast(GaussianFamily, model), table.missing).steps} EM steps"
    was, they = ("was", "it") if unsettled == 1 else ("were", "they")
    work.reporter.say(
        f"{unsettled} of {done} bootstrap refits {was} stopped {when}, before {they} had settled: standard errors from "
        f"the imputations may be a little too small; {_smaller(recipe, cast(GaussianFamily, model))}"
    )


def _smaller(recipe: Recipe, model: GaussianFamily) -> str:
    """What lets refits settle by the work that they may take."""
    if model.gaussians.K == 1:
        return "fewer columns (`--exclude NAME`) settle sooner"
    flags = f"--model {recipe.model.name} --set model.components={max(model.gaussians.K // 2, 1)}"
    return f"a model of fewer components takes less work a step (`{flags}`)"


def _posterior(recipe: Recipe, fit: Fit, work: Work) -> Refitted:
    """Draws from the posterior in place of refits."""
    tensors: dict[str, Tensor] = {}
    done, count = 0, refit_count(recipe)
    for one in posterior_draws(recipe, fit.model, fit.table, count, work):
        tensors |= named(done, one)
        done += 1
    return _enough(Refitted(tensors, "posterior"), done, count, work)


def posterior_draws(
    recipe: Recipe, model: Model, table: TensorTable, count: int, work: Work
) -> Iterator[dict[str, Tensor]]:
    """So many draws of the parameters from their posterior, as far as a time limit allows; the first ones are the same
    whatever the count. On one thread, so that the chain is the same by any number of them."""
    table = table.rows(table.used).to(dtype=torch.float64)
    config, reporter, limit = posterior_config(recipe), work.reporter, work.limit
    size = size_of_chain(config, table)
    reporter.say(
        f"the uncertainty of the fit: {count} draws from the posterior of {config.components} components or fewer, "
        f"{size.thin} sweeps apart after {size.burn}"
    )
    generator = stream(recipe.seed, "posterior")
    done = 0
    with reporter.stage(POSTERIOR, "draws", limit.end) as stage, one_thread():

        def progress(share: float) -> None:
            stage(share, done, count)

        for one in draws(
            cast(GaussianMixture, model), config, table, count, generator, stop=limit.over, progress=progress
        ):
            done += 1
            yield one


def posterior_config(recipe: Recipe) -> MixtureConfig:
    """The settings of the models that are drawn from a posterior."""
    config = cast(MixtureConfig, recipe.model_settings)
    return config.model_copy(update={"components": recipe.posterior_components})


def of_draws(recipe: Recipe) -> Recipe:
    """The recipe of the models that are drawn from a posterior: of another number of components than the fit."""
    return recipe.with_model(**posterior_config(recipe).model_dump(mode="json"))


def check_kinds(recipe: Recipe, layout: Layout, *, named: bool = True) -> None:
    """UsageError for posterior draws of a table that does not hold numbers alone, or more of them than covariances are
    full for, or whose rows have weights. `named`: whether somebody named the model of the recipe."""
    if recipe.uncertainty == "posterior" and recipe.table.weight is not None:
        raise UsageError(
            "uncertainty=posterior takes rows that count alike, and --weight names weights",
            "leave it out: bootstrap refits take weights",
        )
    if recipe.uncertainty == "posterior" and layout.discrete:
        label = layout.label(layout.discrete[0])
        raise UsageError(
            f"uncertainty=posterior takes tables of numbers: column '{label}' is of another kind",
            "leave it out: bootstrap refits take every kind",
        )
    if recipe.uncertainty == "posterior" and covariance_of(_mixture(recipe), layout.D) != "full":
        more = "add" if named else "take --model mixture"
        raise UsageError(
            f"uncertainty=posterior needs full covariances, and those of {layout.D} columns are factor-analytic",
            f"leave it out, or {more} --set model.covariance=full",
        )


def _mixture(recipe: Recipe) -> MixtureConfig:
    """The settings of the model of a recipe, where that is a mixture."""
    return cast(MixtureConfig, recipe.model_settings)


def settled_uncertainty(recipe: Recipe, layout: Layout, N: int, *, chosen: bool) -> Recipe:
    """The recipe with what carries the uncertainty of the fit; `chosen`: whether the rows, of which there are N, chose
    the number of components. UsageError where it was said and cannot be."""
    if recipe.uncertainty != "posterior":
        return recipe.replace(uncertainty="bootstrap")
    check_kinds(recipe, layout)
    config = _mixture(recipe)
    if recipe.posterior_components is not None:
        return recipe
    K = cast(int, config.components)
    return recipe.replace(posterior_components=components(K, N) if chosen else K)


def uncertainty_words(count: int, by: str) -> str:
    """What carries the uncertainty of a fit into draws: so many models, and what made them."""
    return f"{count} posterior draws" if by == "posterior" else f"{count} bootstrap refits by {by}"


def _enough(made: Refitted, done: int, count: int, work: Work) -> Refitted:
    """The refits that were made, if a time limit left enough of them."""
    if done == count:
        return made if count else NO_REFITS
    posterior = made.by == "posterior"
    work.limit.cut.append(POSTERIOR if posterior else REFITS)
    kept = done if done >= FEWEST else 0
    many = f"{kept} of {count} {'posterior draws' if posterior else 'refits'} were made within the time limit"
    carried = "they carry" if kept else "imputations will not include"
    work.reporter.warn(f"{many}: {carried} the uncertainty of the parameters")
    return made if kept else NO_REFITS


def own_size(recipe: Recipe, state: Any, used: TensorTable) -> Size:
    """The size of the refits of a fit by its own method to rows that are not empty."""
    scarcest = int((~used.missing[:, [dims.start for dims in used.layout.slices]]).sum(0).min())
    slower = state.theta.learning_rate / state.lr
    stated = recipe.bootstrap != "auto"
    return reweighted.size_of(used.N, scarcest, state.effort, refit_count(recipe), stated=stated, longer=slower)


def _by_own_method(recipe: Recipe, fit: Fit, work: Work) -> Refitted:
    """The refits by the method of the fit itself, from its parameters and chains."""
    state, reporter, method = fit.state, work.reporter, recipe.method.named
    there = fit.table.used
    size = own_size(recipe, state, fit.table.rows(there))
    relative = size.work / max(state.effort, 1.0)
    if size.refits == 0:
        reporter.warn(
            f"no refits by {method}: they would take {relative:.1f} times as long as the fit; imputations will not "
            f"include the uncertainty of the parameters. --set bootstrap={COUNT} makes them all the same"
        )
        return NO_REFITS
    if fit.anew is not None and reweighted.anew(state.effort, size.refits):
        return _anew(recipe, fit, fit.anew, there, size.refits, work)
    fewer = "" if size.rows == len(there) else f" (of {len(there):,})"
    if not work.limit.over():
        reporter.say(
            f"the uncertainty of the fit: {size.refits} refits by {method} to {size.rows:,} reweighted rows{fewer}, "
            f"{size.steps} steps each; about {relative:.1f} times the work of the fit's own epochs"
        )
    tensors: dict[str, Tensor] = {}
    done = 0
    for made in _reweighted(recipe, fit, there, size, work):
        tensors |= named(done, made)
        done += 1
    return _enough(Refitted(tensors, method, work=round(relative, 3)), done, size.refits, work)


def _anew(
    recipe: Recipe,
    fit: Fit,
    fitted: Callable[[Tensor, torch.Generator], dict[str, Tensor]],
    there: Tensor,
    count: int,
    work: Work,
) -> Refitted:
    """Fits of their own to reweighted rows; those that were kept first."""
    method = recipe.method.named
    work.reporter.say(
        f"the uncertainty of the fit: {count} fits by {method} to {len(there):,} reweighted rows, each anew: held-out "
        "rows ended this one early"
    )
    made = dict(_all_named(fit.kept[:count]))
    done, saved = min(len(fit.kept), count), time.monotonic()

    def one(number: int, _: Tell) -> dict[str, Tensor]:
        weight = torch.zeros(fit.table.N, dtype=torch.float64)
        weight[there] = exponential_weights(len(there), stream(recipe.seed, f"bootstrap/{number}"))
        if fit.table.weight is not None:
            weight = weight * fit.table.weight.to("cpu", torch.float64)
        try:
            own = fitted(weight, stream(recipe.seed, f"bootstrap/{number}/anew"))
        except TimeUp:
            raise GivenUp from None
        except FitError as error:
            raise FitError(
                f"refit {number + 1} by {method}: {error.message}; the fit itself is saved", error.hint
            ) from None
        ask(work.limit.over)
        return own

    workers = work.workers if _may_step_in_forks(fit.state) else ONE_PROCESS
    room = room_of(fit.table.N, fit.table.D)
    with work.reporter.stage(REFITS, "refits", work.limit.end) as stage:
        stage(done / count, done, count)
        try:
            for own in workers.in_order(one, range(done, count), room=room, loops=False):
                made |= named(done, own)
                done += 1
                stage(done / count, done, count)
                if time.monotonic() - saved >= CHECKPOINT_SECONDS:
                    fit.keep(made)
                    saved = time.monotonic()
        except GivenUp:
            pass
    return _enough(Refitted(made, method, work=float(done)), done, count, work)


def _reweighted(recipe: Recipe, fit: Fit, there: Tensor, size: Size, work: Work) -> Iterator[dict[str, Tensor]]:
    """The parameters of each refit, as far as a time limit allows; those that were kept first."""
    refit = recipe.method.algorithm.refit
    assert refit is not None
    kept = fit.kept[: size.refits]
    yield from kept
    if fit.table.weight is not None:  # rows that weigh 0 are left out
        there = there[(fit.table.weight[there] > 0).to(there.device)]
        size = size._replace(rows=min(size.rows, len(there)))
    order = torch.randperm(len(there), generator=stream(recipe.seed, "bootstrap/rows"))
    rows = there[order[: size.rows].sort().values]
    counts = None if fit.table.weight is None else fit.table.weight[rows].to("cpu", torch.float64)
    fitted, conditionals = fit.parameters["model"], fit.parameters["conditionals"]
    seed = int(torch.randint(2**62, (), generator=stream(recipe.seed, "bootstrap/steps")))
    if len(kept) == size.refits:
        return

    def one(number: int, tell: Tell) -> _Stepped:
        """The refit of this number; -1: the reference, to rows that count as in the fit."""
        weight = torch.ones(size.rows, dtype=torch.float64)
        if number >= 0:
            weight = exponential_weights(size.rows, stream(recipe.seed, f"bootstrap/{number}"))
        weight = weight if counts is None else weight * counts / (weight * counts).mean()
        state, events = refit(fit.state, Reweighted(fitted, conditionals, rows, weight, size, seed))
        for event in events:
            if work.limit and work.ranks.any(work.limit.over()):
                raise GivenUp
            if isinstance(event, EpochEnd):
                tell(event.epoch / size.epochs)
        parameters = {name: value.detach().cpu().clone() for name, value in state.parts()["model"].items()}
        return _Stepped(parameters, getattr(state, "healed", 0))

    numbers = [-1, *range(len(kept), size.refits)]
    workers = work.workers if _may_step_in_forks(fit.state) else ONE_PROCESS
    room = room_of(fit.table.N, fit.table.D)
    reference: dict[str, Tensor] | None = None
    made: dict[str, Tensor] = {}
    saved, done = time.monotonic(), len(kept)
    with work.reporter.stage(REFITS, "refits", work.limit.end) as stage:
        every = workers.in_order(one, numbers, lambda share: stage(share, done, size.refits), room=room, loops=False)
        try:
            for number, (found, healed) in zip(numbers, every, strict=True):
                if healed:
                    work.reporter.warn(_healed_words(max(number, 0) + 1, recipe, healed))
                if reference is None:
                    reference = found
                    continue
                own = moved(fitted, found, reference, math.sqrt(size.rows / len(there)))
                _require_finite(own, number + 1, recipe)
                made |= named(number, own)
                done = number + 1
                yield own
                if time.monotonic() - saved >= CHECKPOINT_SECONDS:
                    fit.keep({**_all_named(kept), **made})
                    saved = time.monotonic()
        except GivenUp:
            return


def _healed_words(number: int, recipe: Recipe, healed: int) -> str:
    """A line on a refit some steps of which failed."""
    return (
        f"{healed} step{'s' * (healed > 1)} of refit {number} by {recipe.method.named} had numbers that are not "
        "finite, or moved nothing: it went back to where it was good, with smaller steps"
    )


def _require_finite(parameters: dict[str, Tensor], number: int, recipe: Recipe) -> None:
    """FitError where a refit has diverged."""
    if not all(bool(value.isfinite().all()) for value in parameters.values() if value.is_floating_point()):
        raise FitError(
            f"refit {number} by {recipe.method.named} has diverged: a parameter is no longer finite; the fit itself is "
            "saved",
            "fit again with a smaller --set optim.lr, or without refits: --set bootstrap=none",
        )


class _Stepped(NamedTuple):
    """What a refit by steps has come to: parameters of its model, and how many steps it took back."""

    parameters: dict[str, Tensor]
    healed: int


def _may_step_in_forks(state: Any) -> bool:
    """Whether forks of this process can take gradient steps: on the CPU, and where there is no GPU, for which autograd
    has threads that a fork would lose."""
    return next(state.model.parameters()).device.type == "cpu" and not torch.cuda.is_available()


def _all_named(refits: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    return {name: value for i, one in enumerate(refits) for name, value in named(i, one).items()}


def made_refits(
    recipe: Recipe,
    model: Model,
    table: TensorTable,
    numbers: Sequence[int],
    work: Work,
    recoders: Mapping[str, Recoder] = NO_RECODERS,
    way: dict[str, Tensor] | None = None,
) -> Iterator[Refit]:
    """The refits of these numbers, each the same whatever the others are, as far as a time limit allows. `recoders`: to
    the transforms of the models that the fit averages over; `way`: the fits of these, which are found there or put
    there."""
    if not numbers:
        return
    table = table.rows(table.used).to(dtype=torch.float64)
    done, total, spent, cost = 0, len(numbers), 0.0, _fit_cost(table.N)
    units = total + sum(_fits(recipe, numbers)) * cost
    with work.reporter.stage(REFITS, "refits", work.limit.end) as stage:

        def fitting(share: float) -> None:
            nonlocal spent
            stage((done + spent + share * cost) / units, done, total)
            if share == 1.0:
                spent += cost

        models = _Models(recipe, cast(GaussianFamily, model), table, numbers, work, recoders, Way(way, fitting))
        room = room_of(table.N, table.D)
        try:
            if work.workers.count > 1:
                models.fit_all(lambda share: stage(share * (units - total) / units, 0, total), room)
                spent = units - total
            for one in work.workers.in_order(models.refit, numbers, room=room):
                yield one
                done += 1
                stage((done + spent) / units, done, total)
        except GivenUp:
            return


def _fits(recipe: Recipe, numbers: Sequence[int]) -> list[bool]:
    """Of the models of the average that have a refit among these, whether they have to be fitted first."""
    members = averaged(recipe)
    order = turns([one.weight for one in members], max(numbers) + 1) if members else []
    return [not is_the_fit(recipe, members[which]) for which in {order[number] for number in numbers if members}]


def _fit_cost(N: int) -> float:
    """About how many refits take as long as the fit of another model of the average to N rows does."""
    return max(1.0, FIT_STEPS * N / (USUAL_STEPS * min(N, MOST_ROWS)))


class Way(NamedTuple):
    """What refits meet on their way: the fits of the models of an average by name (None: they are not kept), and who is
    told which share of such a fit is done."""

    fits: dict[str, Tensor] | None
    tell: Callable[[float], None]

    def found(self, which: int) -> dict[str, Tensor]:
        """The parameters of such a fit; empty where it was not made before."""
        start = f"{which}/"
        return {k.removeprefix(start): v for k, v in (self.fits or {}).items() if k.startswith(start)}

    def put(self, which: int, parameters: Mapping[str, Tensor]) -> None:
        """Keep a fit."""
        if self.fits is not None:
            self.fits.update((f"{which}/{name}", value.detach().clone()) for name, value in parameters.items())


class _Models:
    """What the refits of these numbers are of: the fitted model (`model`), or those that the fit averages over, which
    are fitted when the first refit of them comes."""

    def __init__(
        self,
        recipe: Recipe,
        model: GaussianFamily,
        table: TensorTable,
        numbers: Sequence[int],
        work: Work,
        recoders: Mapping[str, Recoder],
        way: Way,
    ) -> None:
        self._recipe, self._model, self._table, self._work, self._way = recipe, model, table, work, way
        self._members = averaged(recipe)
        weights = [one.weight for one in self._members]
        self._order = turns(weights, max(numbers) + 1) if weights else [0] * (max(numbers) + 1)
        self._wanted = list(dict.fromkeys(self._order[number] for number in numbers))
        self._coded: dict[str, TensorTable] = {}  # by transform, for models that share it
        self._recoders = recoders
        self._fitted: dict[int, GaussianFamily] = {}
        self._sampled: dict[int, Sampled] = {}

    def refit(self, number: int, tell: Tell) -> Refit:
        """The refit of this number. GivenUp where the time is over."""
        which = self._order[number]
        before = self._order[:number].count(which) if self._members else number
        return self._samples(which).refit(stream(self._recipe.seed, f"bootstrap/{number}"), before)

    def fit_all(self, tell: Tell, room: int) -> None:
        """Fit the models of all refits, at once."""
        apart = [which for which in self._wanted if not self._is_fitted(which)]
        for place, parameters in self._work.workers.each(self._parameters, apart, tell, room=room):
            self._way.put(apart[place], parameters)
            self._fitted[apart[place]] = self._loaded(apart[place], parameters)
        for which in self._wanted:
            self._samples(which)

    def _is_fitted(self, which: int) -> bool:
        """Whether a model is the fitted one, or was fitted before."""
        return self._is_the_fit(which) or bool(self._way.found(which))

    def _is_the_fit(self, which: int) -> bool:
        """Whether a model is the fitted one."""
        return not self._members or is_the_fit(self._recipe, self._members[which])

    def _em(self, which: int) -> EmConfig:
        """The settings of EM for a model."""
        config = em_settings(self._recipe)
        if not self._members:
            return config
        own = self._members[which]
        return config.model_copy(update={"pooling": own.pooling, "tolerance": own.tolerance})

    def _rows(self, which: int) -> TensorTable:
        """The rows as the transform of a model encodes them."""
        if self._is_the_fit(which):
            return self._table
        transform = self._members[which].transform
        if transform in self._recoders and transform not in self._coded:
            self._coded[transform] = self._recoders[transform].table(self._table)
        return self._coded.get(transform, self._table)

    def _parameters(self, which: int, tell: Tell) -> dict[str, Tensor]:
        """Those of a model of the average, fitted now."""
        recipe, over = recipe_of(self._recipe, self._members[which]), self._work.limit.over
        with torch.inference_mode():
            model = fitted_alone(recipe, self._rows(which), self._em(which), self._order.index(which), over, tell)
        return {name: value.clone() for name, value in model.state_dict().items()}  # tensors that may be changed

    def _loaded(self, which: int, parameters: Mapping[str, Tensor]) -> GaussianFamily:
        """A model of the average with these parameters."""
        own = unfitted(recipe_of(self._recipe, self._members[which]), self._table.layout)
        own.load_state_dict(parameters)
        return own

    def _of(self, which: int) -> GaussianFamily:
        """A model, fitted now if it was not before."""
        if self._is_the_fit(which):
            return self._model
        if which not in self._fitted:
            parameters = self._way.found(which)
            if not parameters:
                parameters = self._parameters(which, self._way.tell)
                self._way.put(which, parameters)
            self._fitted[which] = self._loaded(which, parameters)
            self._way.tell(1.0)
        return self._fitted[which]

    def _samples(self, which: int) -> Sampled:
        """Of a model and its rows what refits are made of."""
        if which not in self._sampled:
            model, rows = self._of(which), self._rows(which)
            size = size_of(model, rows.missing)
            if size.rows < rows.N:
                share = math.sqrt(size.rows / rows.N)
                few = f"{size.rows} of {rows.N} rows each, what they move by times {share:.3f}"
                self._work.reporter.detail(f"bootstrap refits: {few}")
            self._sampled[which] = Sampled.of(model, rows, self._em(which), size=size, stop=self._work.limit.over)
        return self._sampled[which]


def em_settings(recipe: Recipe) -> EmConfig:
    """The settings of EM: those of a fit by it, else its defaults, with rounded cells as the fit has them."""
    settings = recipe.method_settings
    return settings if isinstance(settings, EmConfig) else EmConfig(redraws=0)


def refit_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Of the tensors of model.safetensors those of refits and their trees, under their names."""
    return {name: value for name, value in tensors.items() if name.startswith((PREFIX, TREES))}


def named_way(way: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """What a fit keeps while its refits are made, under its names in the run."""
    return {f"{WAY}{name}": value for name, value in way.items()}


def split_way(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """What `named_way` has named, from the tensors of model.safetensors."""
    return prefixed(tensors, WAY)


def split_bootstrap(tensors: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], list[dict[str, Tensor]]]:
    """(parameters of the fit, parameters of each refit) from the tensors of model.safetensors, which may hold trees,
    and what is kept on the way."""
    own: dict[str, Tensor] = {}
    refitted: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        if key.startswith(PREFIX):
            number, _, name = key.removeprefix(PREFIX).partition("/")
            refitted.setdefault(int(number), {})[name] = value
        elif not key.startswith((TREES, WAY)):
            own[key] = value
    return own, [refitted[number] for number in sorted(refitted)]
