"""Log-likelihood of the observed cells of a table under a run, the encoder of a model with latents fine-tuned first.

Where it has to be estimated, rows are scored in random order: whatever ends that early, a signal or a time limit, what
was scored by then is a random sample of the rows.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor

from vgi_cli.commands.requests import ScoringRequest
from vgi_cli.commands.samplers import capture_on
from vgi_cli.encoding.encoder import RowKeys, log_share, log_volume
from vgi_cli.encoding.rounding import rounding_in
from vgi_cli.errors import UsageError
from vgi_cli.evaluation.likelihood.estimate import Cells, places_of, prepared, simulated_bracket
from vgi_cli.evaluation.likelihood.ladder import Budget
from vgi_cli.evaluation.likelihood.loglik import LogLik, Progress, Work
from vgi_cli.evaluation.likelihood.refit import refit_encoder
from vgi_cli.evaluation.likelihood.units import Encoded, data_log_prob, joined
from vgi_cli.fitting.fitted import FittedTable
from vgi_cli.fitting.plan import stream
from vgi_cli.fitting.rows import Rows, rows_of
from vgi_cli.machine.work import OutOfTime, Stop, TimeLimit, TimeUp, giving_up
from vgi_cli.maths.noise import mix64
from vgi_cli.ranges import MOST_REFIT_EPOCHS, MOST_SAMPLES
from vgi_cli.registry import names as registry
from vgi_cli.reporting import ENCODER, ENCODING, LIKELIHOOD, Reporter
from vgi_cli.settings.problems import is_whole, shown
from vgi_cli.table.base import Table

DEQUANTISATION_DRAWS = 8
SCORED_ROWS = 1000
"""Rows that are scored where nobody says how many and the likelihood has to be estimated."""
FIRST, MOST, GROWTH = 8, 256, 2
"""Rows of the first piece that is scored; each piece has so many times those of the one before, up to the most."""
ON_GPU = 64, 4096, 8
"""The same on a GPU, which scores a few rows in the time of many."""
EXACT = 4096
"""Rows of a piece where nothing is estimated."""
ENCODER_SHARE = 1 / 3
"""Of the time that is left under a time limit, for tuning the encoder."""

Wanted: TypeAlias = int | Literal["all"] | None
"""How many rows to score where that is an estimate; None: the default."""


class EarlyEnd(NamedTuple):
    """What may end an evaluation before its work is done: its time limit, and a signal. What was scored by then is
    reported."""

    limit: TimeLimit
    stop: Stop

    def over(self) -> bool:
        """Whether the time is over, or a signal came."""
        return self.limit.over() or self.stop.signal is not None

    def passed(self, moment: float | None) -> bool:
        """Whether a moment of the time limit has passed, or a signal came."""
        return self.limit.passed(moment) or self.stop.signal is not None

    def why(self) -> str:
        """What ended it."""
        return "the command was interrupted" if self.stop.signal is not None else f"{self.limit.words()} was over"

    @contextmanager
    def after_a_row(self) -> Iterator[None]:
        """Within, a signal waits until what was scored by then can be reported; where nothing was, Interrupted or
        TimeUp says so."""
        try:
            with self.stop.deferred():
                yield
        except OutOfTime:
            if self.stop.signal is not None:
                raise self.stop.interrupted("stopped before a row was scored") from None
            what = f"{self.limit.words()} was over before a row was scored; nothing was written"
            raise TimeUp(what, "give it more time, or fewer rows") from None


class Scored(NamedTuple):
    """What was scored.

    loglik        of these rows, nats, data units
    rows          [R] their numbers in the table, ascending
    missing       [R, D] their holes
    estimated     whether something had to be estimated
    asked         how many rows were to be scored
    refit_epochs  for which the encoder was fine-tuned; None: there is no encoder
    """

    loglik: LogLik
    rows: Tensor
    missing: Tensor
    estimated: bool
    asked: int
    refit_epochs: int | None = None


def log_likelihood(
    fitted: FittedTable,
    table: Table,
    request: ScoringRequest,
    seed: int,
    device: torch.device,
    reporter: Reporter,
    end: EarlyEnd,
    until: float | None,
) -> Scored:
    """log p(observed cells) of the rows of a table, or of a random sample of them (by seed).

    request  says how many rows are scored where that is an estimate (where it is exact, all are), with how many draws
             of latents, for how many epochs an encoder is fine-tuned, and what keys the randomness of a row
    until    when the scoring must have ended; None: never

    OutOfTime where no row was scored by then.
    """
    N = table.N
    if fitted.empty:
        everything, none = torch.arange(N), torch.zeros(N, 0, dtype=torch.bool)
        return Scored(LogLik(torch.zeros(N, dtype=torch.float64), "exact"), everything, none, False, N)
    limit = end.limit

    def over() -> bool:
        return end.passed(until)

    rounded = any(column.noisy for column in fitted.schema.encoded)
    model = fitted.model.to(device)
    if fitted.marginal:
        model = copy.deepcopy(model).double()
    dtype = next(model.parameters()).dtype
    places = places_of(model, rounding_in(fitted.schema))
    apart = () if places is None else places.rounding.dims
    draws, order, missing, estimated = [], torch.arange(N), torch.zeros(0), False
    count = DEQUANTISATION_DRAWS if rounded else 1
    shares = log_share(table, fitted.schema)
    by_cells = RowKeys(fitted.schema, by_content=True, counted=False).of(table) if request.by_content else None
    by_id = bool(fitted.schema.ids) and set(fitted.schema.ids) <= set(table.names)
    own = RowKeys(fitted.schema).of(table) if by_id else torch.arange(N)
    with reporter.stage(ENCODING, "draws" if rounded else "", until) as stage:

        def encoded(number: int) -> Rows:
            tell = giving_up(over, lambda share: stage((number + share) / count, number, count))
            return rows_of(table, fitted.schema, seed, draw=number, keys=by_cells, progress=tell)

        for number in range(count):
            rows = encoded(number)
            if number == 0:
                estimated = fitted.latent or (not fitted.marginal and bool(_estimated(rows.table.missing).any()))
                most = how_many(N, request.wanted, SCORED_ROWS) if estimated else N
                order = rows_in_turn(N, most, estimated or bool(limit), seed, "rows")
                missing = rows.table.missing[order]
            x = rows.table.x[order]
            volume = log_volume(missing, x, fitted.schema, apart) + shares[order]
            draws.append(Encoded(x.to(device, dtype), volume.to(device)))
    holes = missing.to(device)
    proposals: Any = places
    refit_epochs = None
    if fitted.latent:
        proposals, refit_epochs = _refit(model, draws[0].x, holes, seed, request.refit_epochs, reporter, limit, over)
    elif not fitted.marginal and fitted.conditionals is not None:
        proposals = fitted.conditionals.to(device)
    budget = Budget() if request.samples is None else Budget(latents=request.samples)
    parts: list[LogLik] = []
    done, n = 0, len(order)
    bracket = None
    with reporter.stage(LIKELIHOOD, "rows", until) as stage:

        def watch(rows: int) -> Progress:
            return giving_up(over, lambda share: stage((done + share * rows) / (n + budget.simulated), done, n))

        keys = mix64((own if by_cells is None else by_cells)[order].to(device))
        alone = budget._replace(simulated=0)
        capture = capture_on(device, fitted.recipe.compile, reporter)
        annealer = prepared(model, proposals, draws[0].x, budget, seed, capture) if estimated else None
        for some in _pieces(n, estimated, device):
            piece = [Encoded(draw.x[some], draw.log_volume[some]) for draw in draws]
            size = len(holes[some])
            try:
                watch(size)(0.0)
                parts.append(
                    data_log_prob(
                        model,
                        proposals if annealer is None else annealer,
                        piece,
                        holes[some],
                        budget=alone,
                        seed=seed,
                        rows=keys[some],
                        progress=watch(size),
                    )
                )
            except OutOfTime:
                break
            done += size
        if done == 0 and n:
            raise OutOfTime
        if annealer is not None and done == n:
            first = draws[0]
            cells = Cells(first.x.expand(count, -1, -1), first.log_volume.expand(count, -1), holes, keys)
            try:
                bracket = simulated_bracket(model, annealer, cells, budget, seed, watch(budget.simulated))
            except OutOfTime:
                bracket = None
    loglik = joined(parts, holes[:done], count, bracket) if parts else LogLik(torch.zeros(0), "exact")
    ranks = order[:done].argsort()
    absent = missing[:done].all(1)
    loglik = loglik._replace(
        values=torch.where(absent, 0.0, loglik.values.cpu())[ranks],
        ess=None if loglik.ess is None else loglik.ess.cpu()[ranks],
        half_budget=None if loglik.half_budget is None else loglik.half_budget.cpu()[ranks],
        variance=None if loglik.variance is None else loglik.variance.cpu()[ranks],
        work=None if loglik.work is None else Work(*(field.cpu()[ranks] for field in loglik.work)),
    )
    if done < n:
        limit.cut.append(LIKELIHOOD)
    return Scored(loglik, order[:done][ranks], missing[:done][ranks], estimated, n, refit_epochs)


def check_budget(fitted: FittedTable, request: ScoringRequest) -> None:
    """UsageError for what belongs to models with latents only, and for numbers that cannot be."""
    for flag, value, least, most in (
        ("--samples", request.samples, 1, MOST_SAMPLES),
        ("--refit-epochs", request.refit_epochs, 0, MOST_REFIT_EPOCHS),
    ):
        if value is None:
            continue
        if not fitted.latent:
            models = " or ".join(name for name, entry in registry.MODELS.items() if "latent" in entry.provides)
            raise UsageError(f"{flag} belongs to models with latents ({models})", "leave it out")
        if not (is_whole(value) and least <= value <= most):
            raise UsageError(
                f"{flag}: expected a whole number from {least} to {most}, got {shown(value)}",
                f"for example {flag} 1000",
            )


def _estimated(missing: Tensor) -> Tensor:
    """[N] rows with a hole and an observed cell."""
    return missing.any(1) & ~missing.all(1)


def how_many(N: int, wanted: Wanted, default: int) -> int:
    """How many of N rows are scored."""
    return min(N, default if wanted is None else N if wanted == "all" else wanted)


def rows_in_turn(N: int, most: int, shuffled: bool, seed: int, purpose: str) -> Tensor:
    """The rows to score, at most so many of N, in the order in which they are: at random (by seed and purpose) where
    not all may come to their turn."""
    if not shuffled:
        return torch.arange(N)
    return torch.randperm(N, generator=stream(seed, f"evaluate/{purpose}"))[:most]


def _pieces(n: int, estimated: bool, device: torch.device) -> Iterator[slice]:
    """Consecutive rows that are scored together."""
    least, most, growth = (FIRST, MOST, GROWTH) if device.type == "cpu" else ON_GPU
    first, size = 0, least if estimated else EXACT
    while first < n:
        yield slice(first, first + size)
        first, size = first + size, min(growth * size, most) if estimated else size


def _refit(
    model: Any,
    x: Tensor,
    missing: Tensor,
    seed: int,
    epochs: int | None,
    reporter: Reporter,
    limit: TimeLimit,
    over: Callable[[], bool],
) -> tuple[Any, int]:
    """The proposal of the importance-weighted bound, its encoder fine-tuned to the rows, and for how many epochs."""
    until = limit.until(ENCODER_SHARE)
    with reporter.stage(ENCODER, until=until) as stage:
        refit = refit_encoder(
            model,
            x,
            missing,
            epochs=epochs,
            seed=seed,
            progress=stage,
            stop=lambda: limit.passed(until) or over(),
        )
    if limit.passed(until):
        limit.cut.append(ENCODER)
    done = f"{refit.epochs} epoch{'s' * (refit.epochs != 1)}"
    reporter.detail(f"encoder fine-tuned for {done}: ELBO {refit.before:.4f} -> {refit.after:.4f} (encoded units)")
    return refit.proposal, refit.epochs
