"""The steps of EM: one iteration with its safeguarded extrapolation, the climb by iterations, and the faster ascent."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import NamedTuple, TypeAlias, TypeVar

import torch
from torch import Tensor

from vgi_cli.models.gaussian.family import NO_SUMS, EmTable, EmValue, GaussianFamily, InPieces, Sums, at_once
from vgi_cli.models.gaussian.gaussians import Penalty

Step: TypeAlias = Callable[[GaussianFamily, EmTable, Penalty, Sums], InPieces[EmValue]]
"""A step in place, which never lowers an objective, from the sums of it that were taken before; its value is that at
the parameters before it."""


def em_step(model: GaussianFamily, table: EmTable, penalty: Penalty, begun: Sums) -> InPieces[EmValue]:
    """The exact one: of the penalised log-likelihood of the observed cells."""
    return model.em_step_in_pieces(table, penalty, begun)


FARTHEST = 100.0
"""Times the largest parameter that an extrapolation may come to: where two columns are never observed together nothing
holds it back, and it may run to covariances of 1e10, whose likelihood is no number any more."""


class Begun(NamedTuple):
    """An iteration that was interrupted between two pieces of the rows.

    points  [P] each, the parameters that it came to: those before it, after one step, after two, and those that were
            extrapolated. The step under way is from the last of them
    value   of the last step that was finished; None: there is none
    sums    of the step under way
    """

    points: tuple[Tensor, ...] = ()
    value: EmValue | None = None
    sums: Sums = NO_SUMS


NOT_BEGUN = Begun()


def iteration(
    model: GaussianFamily, table: EmTable, penalty: Penalty, accelerate: bool, step: Step = em_step
) -> EmValue:
    """One iteration in place: an EM step, or two and a safeguarded extrapolation that ends in a third.

    The value returned is that of the last state that was evaluated, one EM step behind the parameters.
    """
    return at_once(iteration_in_pieces(model, table, penalty, accelerate, step))


@torch.no_grad()
def iteration_in_pieces(
    model: GaussianFamily,
    table: EmTable,
    penalty: Penalty,
    accelerate: bool,
    step: Step = em_step,
    begun: Begun = NOT_BEGUN,
) -> Generator[Begun, None, EmValue]:
    """As `iteration`; between pieces of the rows it says what it needs to go on as `begun`, with the same model and the
    same rows, to the same bits."""
    parameters = list(model.parameters())
    points = begun.points or (_flat(parameters),)
    if begun.points:
        _unflatten(parameters, points[-1])
    now = begun._replace(points=points)
    if len(points) == 1:
        value = yield from _from(now, step(model, table, penalty, now.sums))
        if not accelerate:
            return value
        now = Begun((*points, _flat(parameters)), value)
    if len(now.points) == 2:
        before, once = now.points
        value = yield from _from(now, step(model, table, penalty, now.sums))
        twice = _flat(parameters)
        change, curve = once - before, (twice - once) - (once - before)
        length = -(change.norm() / curve.norm().clamp(min=1e-300))
        if length > -1 or not bool(torch.isfinite(length)):
            return value
        ahead = before - 2 * length * change + length.square() * curve
        _unflatten(parameters, ahead)
        now = Begun((before, once, twice, ahead), value)
    assert now.value is not None, "two steps were taken"
    ended = _evaluated(model, parameters, step(model, table, penalty, now.sums), _farthest(now.points[2]))
    reached = yield from _from(now, ended)
    if reached is not None and bool(reached.objective >= now.value.objective):
        return reached
    _unflatten(parameters, now.points[2])
    return now.value


Result = TypeVar("Result")


def _from(now: Begun, work: InPieces[Result]) -> Generator[Begun, None, Result]:
    """A step of an iteration that has come to `now`."""
    while True:
        try:
            sums = next(work)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]  # it is a Result
        yield now._replace(sums=sums)


REFINED = (4, 10)
"""After so many iterations a model chooses anew what no parameter says."""
AIMED = (1, 2, 4, 10)
"""The same where its penalty has a target: that begins as what one draw of the missing cells says."""


def is_refined(model: GaussianFamily, done: int) -> bool:
    """Whether a model chooses anew after so many iterations."""
    return done in (AIMED if model.aimed else REFINED)


def nothing(done: float) -> None:
    """Where nobody watches a climb or a search."""


def climb(
    model: GaussianFamily,
    table: EmTable,
    penalty: Penalty,
    *,
    epochs: int,
    tolerance: float,
    each: Callable[[int], None] = nothing,
) -> EmValue:
    """Iterate in place, accelerated, until an iteration gains less than `tolerance` nats a row, at most `epochs` times.
    `each` is told after every iteration how many are done; what it raises ends the climb."""
    rows = table.total
    value = iteration(model, table, penalty, True)
    for done in range(1, epochs):
        each(done)
        anew = is_refined(model, done)
        if anew:
            model.refine(table, penalty)
        last, value = value, iteration(model, table, penalty, True)
        if not (anew and model.aimed) and bool(value.objective - last.objective < tolerance * rows):
            break
    return value


ORDER = 10
"""How many differences of steps the acceleration of an ascent uses before it starts anew."""
SLACK = 0.01
"""Nats in all by which an accelerated step may end below the best so far: a curved ridge is not followed otherwise."""
WINDOW = 5
"""Steps over which an ascent is judged: a single accelerated step may change nothing."""


@torch.no_grad()
def settle(
    model: GaussianFamily,
    table: EmTable,
    penalty: Penalty,
    *,
    steps: int,
    tolerance: float,
    refine: bool = True,
    each: Callable[[int], None] = nothing,
) -> bool:
    """Climb in place by EM steps until the objective settles, and say whether it did.

    One Gaussian ascends, in half the steps or fewer (docs/research/benchmarks.md); several take iterations, since far
    from a top of theirs every third step of an ascent has to be undone.

    steps      EM steps that may be taken (a few more where the last one has to be undone)
    tolerance  nats in all, not a row: it has settled when an iteration, or WINDOW steps of an ascent, change less
    refine     whether the model may choose anew what no parameter says
    each       is told between steps how many are done; what it raises ends the climb
    """
    if model.gaussians.K == 1:
        for _ in AIMED if refine and model.aimed else ():
            each(0)
            model.refine(table, penalty)
        return ascend(model, table, penalty, steps=steps, tolerance=tolerance, each=each)
    value = iteration(model, table, penalty, True)
    for done in range(3, steps, 3):
        each(done)
        anew = refine and is_refined(model, done // 3)
        if anew:
            model.refine(table, penalty)
        last, value = value, iteration(model, table, penalty, True)
        if not (anew and model.aimed) and bool(value.objective - last.objective < tolerance):
            return True
    return False


@torch.no_grad()
def ascend(
    model: GaussianFamily,
    table: EmTable,
    penalty: Penalty,
    *,
    steps: int,
    tolerance: float,
    each: Callable[[int], None] = nothing,
) -> bool:
    """EM with Anderson's acceleration; see `settle`. It takes the step that would lead to the fixed point if the last
    ORDER steps were those of a linear map (Walker and Ni 2011), restarted, and given up for an EM step where the
    objective would fall (Henderson and Varadhan 2019)."""
    parameters = list(model.parameters())
    x, value = _flat(parameters), model.em_step(table, penalty)
    reached, taken, values = _flat(parameters), 1, [value.objective.item()]
    moves: list[Tensor] = []
    changes: list[Tensor] = []
    while taken < steps:
        each(taken)
        residual = reached - x
        ahead = reached
        if moves:
            change = torch.stack(changes, 1)
            share = torch.linalg.lstsq(change, residual[:, None], driver="gelsd").solution[:, 0]
            ahead = reached - (torch.stack(moves, 1) + change) @ share
        _unflatten(parameters, ahead)
        step = model.em_step_in_pieces(table, penalty)
        new = at_once(_evaluated(model, parameters, step, _farthest(reached)))
        taken += 1
        if new is None or bool(new.objective < max(values) - SLACK):
            moves, changes, ahead = [], [], reached
            _unflatten(parameters, reached)
            new = model.em_step(table, penalty)
            taken += 1
        if len(moves) == ORDER:
            moves, changes = [], []
        moves.append(ahead - x)
        x, value, reached = ahead, new, _flat(parameters)
        changes.append(reached - x - residual)
        values.append(value.objective.item())
        last = values[-1 - WINDOW :]
        if len(last) > WINDOW and max(last) - min(last) < tolerance:
            return True
    return False


def _evaluated(
    model: GaussianFamily, parameters: Sequence[Tensor], step: InPieces[EmValue], most: float
) -> InPieces[EmValue | None]:
    """A step from the present parameters; None where they are no parameters, or such that the objective is rounding
    errors: that shows in covariances (`Gaussians.computable`), or where one is larger than `most` after the step."""
    if not model.gaussians.computable:
        return None
    try:
        value = yield from step
    except torch.linalg.LinAlgError:  # extrapolated out of the positive definite matrices
        return None
    return value if bool(torch.isfinite(value.objective)) and float(_flat(parameters).abs().max()) <= most else None


def _farthest(values: Tensor) -> float:
    """How large a parameter may become beside the present ones."""
    return FARTHEST * (1 + float(values.abs().max()))


def _flat(parameters: Sequence[Tensor]) -> Tensor:
    """[P] one after the other."""
    return torch.cat([p.detach().reshape(-1) for p in parameters])


def _unflatten(parameters: Sequence[Tensor], values: Tensor) -> None:
    """Set them, in place, to values [P]."""
    parts = values.split([p.numel() for p in parameters])
    for parameter, part in zip(parameters, parts, strict=True):
        parameter.copy_(part.view_as(parameter))


def parameters_of(model: GaussianFamily, values: Tensor) -> dict[str, Tensor]:
    """The parameters of a model that lie one after the other in values [P], by all the names that they have."""
    parts = values.split([p.numel() for p in model.parameters()])
    found = {id(p): part.view_as(p) for p, part in zip(model.parameters(), parts, strict=True)}
    return {name: found[id(p)].clone() for name, p in model.named_parameters(remove_duplicate=False)}
