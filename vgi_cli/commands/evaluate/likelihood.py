"""Log-likelihood of the observed cells of a table under a run, the encoder of a model with latents fine-tuned first.

Where it has to be estimated, rows are scored in random order: whatever ends that early, a signal or a time limit, what
was scored by then is a random sample of the rows.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
import torch
from torch import Tensor

from vgi_cli.commands.requests import ScoringRequest
from vgi_cli.commands.run_table import shared_work
from vgi_cli.commands.samplers import capture_on
from vgi_cli.encoding.encoder import RowKeys, log_share, log_volume
from vgi_cli.encoding.rounding import rounding_in
from vgi_cli.errors import UsageError
from vgi_cli.evaluation.likelihood.estimate import Cells, PlacesOfCells, places_of, prepared, simulated_bracket
from vgi_cli.evaluation.likelihood.ladder import Budget
from vgi_cli.evaluation.likelihood.loglik import Bracket, LogLik, Work
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
from vgi_cli.workers import ONE_PROCESS, Tell, Workers, room_of

DEQUANTISATION_DRAWS = 8
SCORED_ROWS = 1000
"""Rows that are scored where nobody says how many and the likelihood has to be estimated."""
FIRST, MOST, GROWTH = 8, 128, 2
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
    scoring = _Scoring(fitted, table, request, seed, device, reporter, end, until)
    sample = scoring.encoded()
    proposals, refit_epochs = scoring.proposals(sample)
    loglik = scoring.scored(sample, proposals)
    done, n = len(loglik.values), len(sample.order)
    if done < n:
        end.limit.cut.append(LIKELIHOOD)
    ranks = sample.order[:done].argsort()
    missing = sample.missing[:done]
    loglik = _reordered(loglik._replace(values=torch.where(missing.all(1), 0.0, loglik.values.cpu())), ranks)
    return Scored(loglik, sample.order[:done][ranks], missing[ranks], sample.estimated, n, refit_epochs)


class _Sample(NamedTuple):
    """The rows that are scored, in the order in which they are.

    draws      the encoded rows, once for each draw of the noise that spreads rounded cells, on the device
    order      [n] their numbers in the table
    missing    [n, D] their holes
    keys       [n] what keys their randomness, on the device
    estimated  whether something has to be estimated
    """

    draws: list[Encoded]
    order: Tensor
    missing: Tensor
    keys: Tensor
    estimated: bool


@dataclass(frozen=True)
class _Work:
    """The scoring of rows in pieces of which none needs another.

    model      scores rows
    proposals  what an estimate draws from
    annealer   made from these where an estimate anneals, else None
    sample     the rows
    holes      [n, D] theirs, on the device
    budget     what an estimate may cost
    seed       of the randomness of each row
    over       says whether the scoring has to end
    """

    model: Any
    proposals: Any
    annealer: Any
    sample: _Sample
    holes: Tensor
    budget: Budget
    seed: int
    over: Callable[[], bool]

    def pieces(self) -> list[slice | None]:
        """Consecutive rows that are scored together; last, where there is an annealer, None: simulated rows, which
        bracket how far off the estimate is."""
        rows = _pieces(len(self.holes), self.sample.estimated, self.holes.device)
        return [*rows] if self.annealer is None else [*rows, None]

    def rows_of(self, piece: slice | None) -> int:
        """How many rows a piece has."""
        return self.budget.simulated if piece is None else len(self.holes[piece])

    def carry_out(self, piece: slice | None, tell: Tell) -> LogLik | Bracket | None:
        """The log-likelihood of the rows of a piece, or the bracket of simulated ones. OutOfTime where the scoring has
        to end."""
        watch = giving_up(self.over, tell)
        if piece is None:
            return self._bracket(watch)
        watch(0.0)
        return data_log_prob(
            self.model,
            self.proposals if self.annealer is None else self.annealer,
            [Encoded(draw.x[piece], draw.log_volume[piece]) for draw in self.sample.draws],
            self.holes[piece],
            budget=self.budget._replace(simulated=0),
            seed=self.seed,
            rows=self.sample.keys[piece],
            progress=watch,
        )

    def _bracket(self, watch: Tell) -> Bracket | None:
        first, count = self.sample.draws[0], len(self.sample.draws)
        x, volume = first.x.expand(count, -1, -1), first.log_volume.expand(count, -1)
        cells = Cells(x, volume, self.holes, self.sample.keys)
        return simulated_bracket(self.model, self.annealer, cells, self.budget, self.seed, watch)


@dataclass(frozen=True)
class _Scoring:
    """A table that is scored under a run; the fields are the arguments of `log_likelihood`."""

    fitted: FittedTable
    table: Table
    request: ScoringRequest
    seed: int
    device: torch.device
    reporter: Reporter
    end: EarlyEnd
    until: float | None

    def over(self) -> bool:
        """Whether the scoring has to end."""
        return self.end.passed(self.until)

    @cached_property
    def model(self) -> Any:
        """The model on the device, float64 where its likelihood is exact."""
        model = self.fitted.model.to(self.device)
        return copy.deepcopy(model).double() if self.fitted.marginal else model

    @cached_property
    def places(self) -> PlacesOfCells | None:
        """Where wide cells lie, for a model that knows their law; None for others."""
        return places_of(self.model, rounding_in(self.fitted.schema))

    def encoded(self) -> _Sample:
        """The rows to score, encoded. OutOfTime where there was no time for it."""
        schema, N = self.fitted.schema, self.table.N
        rounded = any(column.noisy for column in schema.encoded)
        count = DEQUANTISATION_DRAWS if rounded else 1
        dtype = next(self.model.parameters()).dtype
        apart = () if self.places is None else self.places.rounding.dims
        shares = log_share(self.table, schema)
        by_cells = RowKeys(schema, by_content=True, counted=False).of(self.table) if self.request.by_content else None
        keys = self._keys() if by_cells is None else by_cells
        draws, order, missing, estimated = [], torch.arange(N), torch.zeros(0), False
        with self.reporter.stage(ENCODING, "draws" if rounded else "", self.until) as stage:

            def encode(number: int) -> Rows:
                tell = giving_up(self.over, lambda share: stage((number + share) / count, number, count))
                return rows_of(self.table, schema, self.seed, draw=number, keys=by_cells, progress=tell)

            for number in range(count):
                rows = encode(number)
                if number == 0:
                    estimated = self._is_estimated(rows.table.missing)
                    most = how_many(N, self.request.wanted, SCORED_ROWS) if estimated else N
                    order = rows_in_turn(N, most, estimated or bool(self.end.limit), self.seed, "rows")
                    missing = rows.table.missing[order]
                x = rows.table.x[order]
                volume = log_volume(missing, x, schema, apart) + shares[order]
                draws.append(Encoded(x.to(self.device, dtype), volume.to(self.device)))
        return _Sample(draws, order, missing, mix64(keys[order].to(self.device)), estimated)

    def _keys(self) -> Tensor:
        """[N] what keys the randomness of each row: its ids, where the table has them, else its number."""
        schema = self.fitted.schema
        by_id = bool(schema.ids) and set(schema.ids) <= set(self.table.names)
        return RowKeys(schema).of(self.table) if by_id else torch.arange(self.table.N)

    def _is_estimated(self, missing: Tensor) -> bool:
        """Whether the likelihood of rows with holes [N, D] has to be estimated."""
        return self.fitted.latent or (not self.fitted.marginal and bool(_estimated(missing).any()))

    def proposals(self, sample: _Sample) -> tuple[Any, int | None]:
        """What an estimate draws from (None: nothing is to be drawn), and for how many epochs an encoder was fine-tuned
        for it."""
        if self.fitted.latent:
            epochs, limit = self.request.refit_epochs, self.end.limit
            x, holes = sample.draws[0].x, sample.missing.to(self.device)
            return _refit(self.model, x, holes, self.seed, epochs, self.reporter, limit, self.over)
        if not self.fitted.marginal and self.fitted.conditionals is not None:
            return self.fitted.conditionals.to(self.device), None
        return self.places, None

    def scored(self, sample: _Sample, proposals: Any) -> LogLik:
        """The log-likelihood of the rows, in their order, as far as the time allows. OutOfTime where it allows none."""
        n, count = len(sample.order), len(sample.draws)
        parts: list[LogLik] = []
        done, bracket = 0, None
        with self.reporter.stage(LIKELIHOOD, "rows", self.until) as stage:
            work = self._work(sample, proposals)
            pieces = work.pieces()
            ends = list(accumulate(map(work.rows_of, pieces), initial=0))

            def tell(share: float) -> None:
                rows = np.interp(share * len(pieces), range(len(ends)), ends)
                stage(float(rows) / max(ends[-1], 1), done, n)

            with suppress(OutOfTime):
                for found in self._workers(sample.estimated).in_order(
                    work.carry_out,
                    pieces,
                    giving_up(self.over, tell),
                    room=room_of(n * count, work.holes.shape[1]),
                    loops=self.fitted.marginal,
                ):
                    if isinstance(found, LogLik):
                        parts.append(found)
                        done += len(found.values)
                    else:
                        bracket = found
            if done == 0 and n:
                raise OutOfTime
        return joined(parts, work.holes[:done], count, bracket) if parts else LogLik(torch.zeros(0), "exact")

    def _work(self, sample: _Sample, proposals: Any) -> _Work:
        """The scoring of the rows in pieces, by what an estimate draws from."""
        samples, holes = self.request.samples, sample.missing.to(self.device)
        budget, annealer = Budget() if samples is None else Budget(latents=samples), None
        if sample.estimated:
            capture = capture_on(self.device, self.fitted.recipe.compile, self.reporter)
            annealer = prepared(self.model, proposals, sample.draws[0].x, budget, self.seed, capture)
        return _Work(self.model, proposals, annealer, sample, holes, budget, self.seed, self.over)

    def _workers(self, estimated: bool) -> Workers:
        """Who scores pieces of the rows: on a CPU as many processes as there may be, where that is an estimate."""
        cpu = self.device.type == "cpu"
        return shared_work(self.request, self.reporter).workers if cpu and estimated else ONE_PROCESS


def _reordered(loglik: LogLik, order: Tensor) -> LogLik:
    """The same of rows in another order [n], on the CPU."""
    return loglik._replace(
        values=loglik.values.cpu()[order],
        ess=None if loglik.ess is None else loglik.ess.cpu()[order],
        half_budget=None if loglik.half_budget is None else loglik.half_budget.cpu()[order],
        variance=None if loglik.variance is None else loglik.variance.cpu()[order],
        work=None if loglik.work is None else Work(*(field.cpu()[order] for field in loglik.work)),
    )


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
