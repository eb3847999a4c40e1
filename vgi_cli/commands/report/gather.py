"""From a run to what its report holds: the table read again, holes filled, chains and hidden cells looked at."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
import torch
from torch import Tensor

from vgi_cli.columns.base import ModelledColumn
from vgi_cli.columns.blanks import Rule, unanswered_in, unasked_cells, undefined_in
from vgi_cli.columns.datetime import Moment
from vgi_cli.columns.levelled import Levelled
from vgi_cli.columns.number import Number
from vgi_cli.columns.numerals import Bools, Floats
from vgi_cli.commands.evaluate.likelihood import EarlyEnd, how_many, log_likelihood, rows_in_turn
from vgi_cli.commands.report.hiding import HiddenCells, hide_again, kept_apart
from vgi_cli.commands.report.request import ReportRequest
from vgi_cli.commands.report.tipping import Asked, read_tipping, tipping
from vgi_cli.commands.report.tracing import Traced, traced
from vgi_cli.commands.requests import EvaluateRequest, ImputeRequest
from vgi_cli.commands.run_table import compute_on, fitted_or_new, seed_of, shared_work
from vgi_cli.commands.samplers import parameter_uncertainty
from vgi_cli.commands.sampling import Sampling, Watch
from vgi_cli.encoding.codes import explained_by_relations
from vgi_cli.encoding.encoder import cell_scales
from vgi_cli.encoding.groups import Ranked, repeated
from vgi_cli.encoding.missingness import missingness
from vgi_cli.errors import UsageError
from vgi_cli.fitting.fitted import FittedTable, load
from vgi_cli.fitting.rows import Rows, match, require_fitted_files
from vgi_cli.fitting.tables import row_weights
from vgi_cli.machine.work import OutOfTime, Stop, TimeLimit, giving_up
from vgi_cli.maths.noise import KeyedNoise
from vgi_cli.pooling.rubin import combine
from vgi_cli.registry import names as registry
from vgi_cli.reporting import DRAWING, KINDS, LIKELIHOOD, READING, SCORING, TRACING, Reporter, Silent, Stage
from vgi_cli.reports import cells, kinds, training
from vgi_cli.reports import rows as unlikely
from vgi_cli.reports.missingness import matrix
from vgi_cli.reports.missingness import told as told_missing
from vgi_cli.reports.mixing import effective_size, split_rhat
from vgi_cli.reports.values import (
    CarriedColumn,
    Chains,
    ColumnNumbers,
    ColumnPicture,
    Facts,
    Imputing,
    Likelihood,
    Mixing,
    Nothing,
    Numbers,
    OddRow,
    Pair,
    Pictures,
    Pooled,
    Reported,
    Ticks,
    Tipping,
)
from vgi_cli.reports.verdicts import judge
from vgi_cli.runs.folder import RunFolder
from vgi_cli.samplers.trees import ROUNDS
from vgi_cli.table.base import Table

T = TypeVar("T")

ROWS = 2_000
"""Rows of the table that are filled, where nobody says how many."""
SCORED_ROWS = 150
"""Rows whose likelihood is estimated where it is not exact."""
LOWEST = 10
"""Rows that are named."""
SHARE = 0.4
"""Of the time that is left under a time limit, for filling the holes; of what is left then for hidden cells, and so
on. The last stage may take it all."""
PIECE = 256
"""Rows that are filled together where there may not be time for all."""
PAIRED = 4
"""Columns of numbers that are drawn against each other: those with most holes."""
MOVES = {"acceptance_encoder": "by the encoder", "acceptance_walk": "by a random walk"}
"""Shares of accepted moves that the sampler of models with latents tells, in words."""


def examine(
    run: RunFolder, table: Table | None, request: ReportRequest, limit: TimeLimit, reporter: Reporter
) -> Reported:
    """The report on a run. `table`: what it was fitted on, where that is in memory. What `limit` leaves no time for is
    left out, and named."""
    reporter.plan([READING, DRAWING, KINDS, SCORING, TRACING, LIKELIHOOD])
    fitted = load(run, reporter)
    run = fitted.run if isinstance(fitted.run, RunFolder) else run  # of a fit that goes on, the latest checkpoint
    tips = read_tipping(request.tipping, fitted.schema)
    asked = ImputeRequest(checkpoint=run, settings=request.settings, started=request.started, table=table)
    asked = asked.with_draws(fitted, reporter)
    with reporter.stage(READING):
        if table is None:
            _require_table(fitted)
            table = fitted_or_new(fitted, asked, "fit it anew")
        match(table, fitted.schema, Silent(), unseen=fitted.recipe.table.unseen)
        rows = fitted.rows(table)
    looked = Looked(fitted, table, rows, tips)
    numbers, pictures = _without_draws(run, looked)
    if not fitted.empty:
        numbers, pictures = _with_draws(looked, asked, request, limit, reporter, (numbers, pictures))
    numbers = dataclasses.replace(numbers, time_limit=limit.record())
    return Reported(numbers, pictures, judge(numbers))


def _require_table(fitted: FittedTable) -> None:
    """UsageError or InputError where the table that was fitted cannot be read again: a report takes no other."""
    run, paths = fitted.run, fitted.run.record.data.paths
    if not paths or paths == ("-",):
        source = "standard input" if paths else "a table in memory"
        raise UsageError(
            f"{run.name} was fitted on {source}, which it does not keep",
            "a report reads the fitted table again: fit a file",
        )
    require_fitted_files(run, "a report reads the fitted table again: put it back there, or fit where it is now")


@dataclasses.dataclass(frozen=True)
class Looked:
    """A run with the table that it was fitted on, the encoded rows of this, and what --tipping asks for."""

    fitted: FittedTable
    table: Table
    rows: Rows
    tips: Sequence[Asked]

    @property
    def columns(self) -> tuple[ModelledColumn, ...]:
        """The modelled columns."""
        return self.fitted.schema.encoded

    @cached_property
    def missing(self) -> Bools:
        """[N, columns] True where a cell is absent."""
        return np.asarray(self.fitted.schema.layout.of_columns(self.rows.table.missing).numpy())

    @cached_property
    def codes(self) -> Floats:
        """[N, columns] NaN where a cell is absent."""
        own = [column.codes(self.table.column(column.name)) for column in self.columns]
        codes = np.stack(own, 1) if own else np.zeros((self.table.N, 0))
        return np.where(self.missing, np.nan, codes)

    @cached_property
    def unasked(self) -> tuple[Bools, Nothing | None]:
        """[N, columns] the holes of rows that may not have been asked by skips of the run; and those that were not by
        an observed cell of the row, with the flags that leave them blank."""
        schema, unknown = self.fitted.schema, np.zeros(self.missing.shape, bool)
        rules = unanswered_in(schema)
        for rule in rules:
            others = [schema.modelled.index(other) for other in rule.others]
            decides = self.codes[:, schema.modelled.index(rule.name)]
            unknown[:, others] |= self.missing[:, others] & np.isnan(decides)[:, None]
        cells, said = self._nothing_in(rules)
        return cells | unknown, said

    @cached_property
    def undefined(self) -> tuple[Bools, Nothing | None]:
        """[N, columns] the holes that arithmetic leaves no value, by an observed cell of the row, and the same."""
        return self._nothing_in(undefined_in(self.fitted.schema.relations))

    def _nothing_in(self, rules: Sequence[Rule]) -> tuple[Bools, Nothing | None]:
        """[N, columns] the holes in which nothing may belong by some rules, with the flags that leave them blank."""
        found = unasked_cells(rules, self.codes, self.missing, self.missing, self.fitted.schema)
        names = [self.columns[at].name for at in np.flatnonzero(found.cells.any(0)).tolist()]
        return found.cells, Nothing(names, int(found.cells.sum()), " ".join(found.flags)) if names else None

    @property
    def numeric(self) -> Bools:
        """[columns] whether a column holds numbers."""
        return np.array([isinstance(column, Number | Moment) for column in self.columns], bool)


def _without_draws(run: RunFolder, looked: Looked) -> tuple[Numbers, Pictures]:
    """What can be told without filling a hole."""
    record, fitted, table = run.record, looked.fitted, looked.table
    missing, names = looked.missing, [column.name for column in looked.columns]
    facts = Facts(
        run=run.name,
        table=record.data.label,
        rows=record.data.rows,
        rows_fitted=record.data.rows_fitted,
        columns=len(names),
        model=record.model,
        method=record.method,
        settings={
            **{f"model.{key}": value for key, value in fitted.recipe.model.settings.items()},
            **{f"method.{key}": value for key, value in fitted.recipe.method.settings.items()},
        },
        chosen=record.chosen,
        refits=len(fitted.refits),
        seconds=record.timings,
        device=record.device,
        version=record.version,
        seed=record.seeds["fit"],
        weight=fitted.recipe.table.weight,
    )
    others = [column for column in fitted.schema.columns if column.name not in names and column.name in table.names]
    absent = table.absent([column.name for column in others])
    carried = [
        CarriedColumn(column.name, "id" if column.role == "id" else column.kind, int(count))
        for column, count in zip(others, absent.sum(0), strict=True)
    ]
    lines = run.metrics()
    told = None
    if not fitted.empty:
        epochs, tuned = (record.epochs or 0, record.epochs_planned or 0), record.command == "finetune"
        told = training.told(lines, *epochs, record.stopped_by, run.finished, tuned=tuned)
    numbers = Numbers(
        facts=facts,
        training=told,
        contest=run.contest(),
        missingness=told_missing(missingness(missing, names), carried),
        imputing=None,
        columns=(),
        chains=None,
        calibration=None,
        holdout=None,
        likelihood=None,
        notes=_caveats(looked),
    )
    return numbers, Pictures(training.curves(lines), matrix(np.hstack([missing, absent])), {}, [], {}, {})


def _caveats(looked: Looked) -> list[str]:
    """What was said of the fit that whoever reads the report of it should know."""
    record, schema = looked.fitted.run.record, looked.fitted.schema
    found = repeated(Ranked(looked.table, schema, looked.fitted.recipe.table.columns))
    if record.bootstrap and record.bootstrap_unsettled:
        few = f"{record.bootstrap_unsettled} of {record.bootstrap} bootstrap refits had not settled"
        found.append(f"{few}: standard errors from the imputations may be a little too small")
    return found


def _with_draws(
    looked: Looked,
    asked: ImputeRequest,
    request: ReportRequest,
    limit: TimeLimit,
    reporter: Reporter,
    before: tuple[Numbers, Pictures],
) -> tuple[Numbers, Pictures]:
    """The rest: holes filled, chains, hidden cells, likelihood. `before`: what `_without_draws` gave."""
    fitted, table = looked.fitted, looked.table
    seed, device = seed_of(fitted, asked), compute_on(fitted, asked)
    sampling = Sampling(fitted, asked, shared_work(asked, Silent())).of_table(table.sha256)
    filling = _Filling(looked, asked, limit, reporter, seed, device, sampling)
    some = filling.rows(request)
    draws, drawn = filling.drawn(some)
    sampling.keep_off_codes(draws, table, drawn.numpy())
    diagnostics = filling.sampling.finish()
    suspicions = filling.suspicions(some)
    hidden = filling.hidden()
    chains = filling.traced(diagnostics)
    likelihood = filling.likelihood()
    unseen = kept_apart(fitted.run.holdout())
    columns, pictures = _columns(looked, (some, drawn), draws, chains, (hidden, unseen), suspicions)
    tips = _tips(looked, drawn, draws, seed) if len(drawn) else []
    sampler = filling.sampling.sampler
    told = _chains(sampler, diagnostics, chains)
    if TRACING in limit.cut:
        told = dataclasses.replace(told, text=f"The time limit left no time to run chains anew. {told.text}")
    imputing = None
    if len(drawn):
        uncertainty = parameter_uncertainty(fitted, sampler, asked.uncertainty)
        imputing = Imputing(len(draws), len(drawn), table.N, sampler, uncertainty)
    numbers = dataclasses.replace(
        before[0],
        imputing=imputing,
        columns=columns,
        chains=told,
        calibration=hidden.overall,
        holdout=unseen.overall,
        likelihood=likelihood,
        not_asked=looked.unasked[1],
        undefined=looked.undefined[1],
        notes=[*before[0].notes, *filling.notes(len(drawn), tips, hidden)],
        tipping=[one for one in tips if one is not None],
    )
    pairs = _pairs(looked, drawn, draws) if len(drawn) else []
    numbers = dataclasses.replace(numbers, pairs=[cells.together(pair) for pair in pairs])
    return numbers, dataclasses.replace(
        before[1],
        columns=pictures,
        pairs=pairs,
        traces=chains.traces if chains is not None else {},
        heights=_heights(looked, numbers.tipping),
    )


@dataclasses.dataclass(frozen=True)
class _Filling:
    """A table whose holes are filled for its report; each part of that has its share of the time that is left.

    looked    the run and its table
    asked     the draws
    limit     of the command
    seed      of rows, draws and chains, which are computed on the device
    sampling  what draws
    """

    looked: Looked
    asked: ImputeRequest
    limit: TimeLimit
    reporter: Reporter
    seed: int
    device: torch.device
    sampling: Sampling

    def rows(self, request: ReportRequest) -> Tensor:
        """The numbers of the rows that are filled, ascending."""
        N = self.looked.table.N
        wanted = how_many(N, request.rows, ROWS)
        return rows_in_turn(N, wanted, wanted < N, self.seed, "report").sort().values

    def drawn(self, some: Tensor) -> tuple[Floats, Tensor]:
        """The draws of some rows, and the numbers of those that there was time for."""
        end = self.limit.until(SHARE)
        with self.reporter.stage(DRAWING, "rows", end) as stage:
            return _drawn(self.looked, self.sampling, some, _Until(self.limit, end, self.seed), stage)

    def suspicions(self, some: Tensor) -> list[str | None]:
        """Of each column why its kind may be wrong, by the numbers of some rows, as far as there was time."""
        end, looked = self.limit.until(SHARE), self.looked
        observed = (codes[~missing] for codes, missing in zip(looked.codes.T, looked.missing.T, strict=True))

        def go_on(share: float) -> bool:
            stage(share)
            return not self.limit.passed(end)

        with self.reporter.stage(KINDS, until=end) as stage:
            explained = explained_by_relations(looked.fitted.schema)
            codes = looked.codes[some.numpy()]
            found = kinds.suspicions(looked.columns, codes, looked.numeric, observed, go_on, explained)
        if not found.whole:
            self.limit.cut.append(KINDS)
        return found.found

    def hidden(self) -> HiddenCells:
        """Observed cells, hidden and filled; nothing where there was no time."""
        end, looked = self.limit.until(SHARE), self.looked

        def hide(stage: Stage) -> HiddenCells:
            return hide_again(
                looked.fitted, looked.rows, looked.codes, self.asked, lambda: self.limit.passed(end), stage
            )

        with self.reporter.stage(SCORING, "rows", end) as stage:
            return _in_time(self.limit, SCORING, lambda: hide(stage), HiddenCells(None, {}, []))

    def traced(self, diagnostics: Mapping[str, Any]) -> Traced | None:
        """Chains that are run anew to be looked at; None where there are none, or was no time. `diagnostics`: of those
        that filled the holes."""
        until, looked = self.limit.until(SHARE), self.looked
        with self.reporter.stage(TRACING, until=until) as stage:
            rounds = diagnostics.get("rounds_by_holes")
            length = max(rounds.values(), default=0.0) if isinstance(rounds, Mapping) else 0.0
            watched = giving_up(lambda: self.limit.passed(until), stage)
            sampler = self.sampling.sampler
            return _in_time(
                self.limit,
                TRACING,
                lambda: traced(looked.fitted, looked.rows, sampler, length, self.seed, self.device, watched),
                None,
            )

    def likelihood(self) -> Likelihood | None:
        """The log-likelihood of the rows; None where there was no time."""
        return _in_time(
            self.limit,
            LIKELIHOOD,
            lambda: _likelihood(self.looked, self.asked, self.seed, self.device, self.limit, self.reporter),
            None,
        )

    def notes(self, drawn: int, tips: Sequence[Tipping | None], hidden: HiddenCells) -> list[str]:
        """What the report says of how far this came; `drawn`: how many rows were filled."""
        looked = self.looked
        notes: list[str] = []
        if drawn < looked.table.N:
            notes.append(
                f"holes are filled in {drawn:,} of {looked.table.N:,} rows, drawn at random (seed {self.seed}; "
                "--rows all: in all)"
            )
        for one, found in zip(looked.tips, tips, strict=False):  # none where nothing was drawn
            if found is None:
                name = looked.columns[one.column].name
                notes.append(
                    f"--tipping {name}: no interval, as there is one draw only or a filled column does not vary"
                )
        notes += hidden.notes
        if self.limit.cut:
            ended = ", ".join(dict.fromkeys(self.limit.cut))
            notes.append(f"{self.limit.words()} ended early, or left no time for: {ended}")
        return notes


class _Until(NamedTuple):
    """A moment of a time limit (None: never), and the seed of the order in which rows come to their turn before it."""

    limit: TimeLimit
    end: float | None
    seed: int

    def over(self) -> bool:
        """Whether it has passed."""
        return self.limit.passed(self.end)


def _in_time(limit: TimeLimit, stage: str, work: Callable[[], T], otherwise: T) -> T:
    """What some work gives; where there is no time for it something else, and the limit says so."""
    try:
        return work()
    except OutOfTime:
        limit.cut.append(stage)
        return otherwise


def _drawn(looked: Looked, sampling: Sampling, some: Tensor, until: _Until, stage: Stage) -> tuple[Floats, Tensor]:
    """Draws [m, n, columns] of the rows `some` [n], and these rows; where there is no time for all, of a random choice
    of them."""
    rows = looked.rows
    if not until.limit:
        count = int(rows.table.missing[some].any(1).sum())
        return np.asarray(sampling.draw(rows.at(some), Watch(stage, 0, count, lambda: False))), some
    order = some[rows_in_turn(len(some), len(some), True, until.seed, "report/turns")]
    count, parts = int(rows.table.missing[some].any(1).sum()), []
    watch = Watch(stage, 0, count, until.over)
    for piece in order.split(PIECE):
        try:
            watch.within(0)
            parts.append(np.asarray(sampling.draw(rows.at(piece), watch)))
        except OutOfTime:
            until.limit.cut.append(DRAWING)
            break
    drawn = order[: sum(part.shape[1] for part in parts)]
    if not parts:
        return np.zeros((1, 0, len(looked.columns))), drawn
    place = drawn.argsort()
    return np.concatenate(parts, 1)[:, place.numpy()], drawn[place]


def _tips(looked: Looked, some: Tensor, draws: Floats, seed: int) -> list[Tipping | None]:
    """Of each column that was asked for how its mean moves, over the completed rows `some` [n] of draws [m, n,
    columns]."""
    noise = KeyedNoise(seed, looked.fitted.layout.names, looked.rows.keys[some], torch.arange(len(draws))).at("delta")
    missing = looked.missing[some.numpy()]
    found = []
    for one in looked.tips:
        u = noise.uniform([looked.columns[one.column].name])[..., 0].numpy()  # as `vgi impute --delta` rounds
        found.append(tipping(looked.fitted.schema, one, draws, missing[:, one.column], u))
    return found


def _heights(looked: Looked, tips: Sequence[Tipping]) -> dict[str, Ticks]:
    """Of columns of moments where the axis of their means has which labels."""
    found: dict[str, Ticks] = {}
    for tip in tips:
        column = next(own for own in looked.columns if own.name == tip.column)
        if isinstance(column, Moment):
            ends = min(one.low for one in tip.shifts), max(one.high for one in tip.shifts)
            found[tip.column] = cells.ticks(column, np.linspace(*ends, 5)[1:-1])
    return found


def _columns(
    looked: Looked,
    rows: tuple[Tensor, Tensor],
    draws: Floats,
    chains: Traced | None,
    hidden: tuple[HiddenCells, HiddenCells],
    suspicions: Sequence[str | None],
) -> tuple[list[ColumnNumbers], dict[str, ColumnPicture]]:
    """Numbers and pictures of each column; rows: those that were to be filled, and those [n] that were; draws [m, n,
    columns]; hidden: observed cells, and those that the fit has not seen."""
    codes, missing, numeric = looked.codes, looked.missing, looked.numeric
    sampled, drawn = (some.numpy() for some in rows)
    names = [column.name for column in looked.columns]
    nothing = looked.unasked[0] | looked.undefined[0]
    beyond = cells.extrapolated(codes[sampled], missing[sampled], names, numeric, nothing[sampled])
    found, pictures = [], {}
    for j, column in enumerate(looked.columns):
        observed = codes[~missing[:, j], j]
        fills = draws[:, missing[drawn, j], j]
        out, scored = beyond[j], hidden[0].columns.get(column.name)
        found.append(
            ColumnNumbers(
                name=column.name,
                kind=column.kind,
                observed=len(observed),
                missing=int(missing[:, j].sum()),
                **cells.compare(column, observed, fills)._asdict(),
                extrapolated=None if out is None else out.share,
                extrapolated_by=None if out is None else out.by,
                suspicion=kinds.unless_predicted(suspicions[j], None if scored is None else scored.skill),
                pooled=_pooled(column, np.where(missing[drawn, j], draws[:, :, j], codes[drawn, j])),
                mixing=None if chains is None else _mixing(chains, column.name),
                hidden=scored,
                unseen=hidden[1].columns.get(column.name),
            )
        )
        if len(observed):
            pictures[column.name] = cells.picture(column, observed, fills)
    return found, pictures


def _pooled(column: ModelledColumn, completed: Floats) -> Pooled | None:
    """The mean of a column of numbers by Rubin's rules for large samples, of its completed cells [m, n] (with degrees
    of freedom of few rows a column without a hole would lose information, too); None for levels, and where no cell
    varies or there is one draw only."""
    m, n = completed.shape
    variances = completed.var(1, ddof=1) / n if n > 1 else np.zeros(m)
    if isinstance(column, Levelled) or m < 2 or not bool((variances > 0).all()):
        return None
    found = combine(completed.mean(1)[:, None], variances[:, None])
    return Pooled(float(found.estimate[0]), float(np.sqrt(found.total[0])), float(found.fmi[0]))


def _mixing(chains: Traced, name: str) -> Mixing | None:
    trace = chains.traces.get(name)
    if trace is None:
        return None
    mean, spread = trace.mean[:, trace.kept :], trace.spread[:, trace.kept :]
    rhats = [split_rhat(mean), split_rhat(spread)]
    return Mixing(
        rhat_mean=_finite(rhats[0]),
        rhat_spread=_finite(rhats[1]),
        ess=_finite(effective_size(mean)),
        acceptance=chains.acceptance.get(name),
        stuck=math.inf in rhats,
    )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _chains(sampler: str, diagnostics: Mapping[str, object], chains: Traced | None) -> Chains:
    """How the chains of a sampler were looked at."""
    traits = registry.SAMPLERS[sampler].traits
    acceptance, memory = (cast(float | None, diagnostics.get(name)) for name in ("acceptance", "memory"))
    pairs = diagnostics.get("apart_by_holes")
    apart = max(pairs.values(), default=None) if isinstance(pairs, Mapping) else None
    if sampler == "exact":
        return Chains("exact", "Exact draws: nothing to mix.")
    if sampler == "trees":
        text = (
            "Each fill is an exact draw of the mixture that trees, and what pairs of columns say, then revise, cell by "
            f"cell, in {ROUNDS} rounds: "
            "draws are independent of each other, no chain has to mix. Such rounds are no exact draw of the revised "
            "laws; hidden cells tell what they are worth."
        )
        return Chains("exact", text)
    if traits.stored:
        return Chains("stored", "The fills are imputations that the run stores.")
    if chains is None:
        return Chains("told", _told(sampler, diagnostics), acceptance=acceptance, memory=memory, apart=apart)
    text = (
        f"{chains.chains} chains of each of {chains.rows} rows were run anew: half of them from where the fit left its "
        f"chains, half from draws of the columns; {chains.left_out} rounds are left out, {chains.rounds} kept."
    )
    return Chains("traced", text, chains.rows, chains.chains, chains.rounds, acceptance, memory, apart)


def _told(sampler: str, diagnostics: Mapping[str, object]) -> str:
    """Why no traces are shown of a sampler's chains, and what it counted of them."""
    count = diagnostics.get("chains")
    if not count:
        return f"No chains were run by sampler '{sampler}': no row that was looked at has a hole that needs one."
    lengths = [(diagnostics[what], what) for what in ("sweeps", "steps") if what in diagnostics]
    length = "".join(f", of {number:,.0f} {what} each" for number, what in lengths)
    text = (
        f"No traces and no R-hat are shown: sampler '{sampler}' does not record its chains on their way. It ran "
        f"{count:,} chains{length}, and compared them at half-time and at their end."
    )
    moves = [f"{diagnostics[name]:.0%} of the moves {by}" for name, by in MOVES.items() if name in diagnostics]
    if moves:
        text += f" Accepted: {', '.join(moves)}."
    if stuck := diagnostics.get("stuck"):
        text += f" {stuck:,} of them found no state within the bounds of the fills and stayed where they began."
    return text


def _pairs(looked: Looked, some: Tensor, draws: Floats) -> list[Pair]:
    """The columns of numbers with most holes against each other."""
    sampled = some.numpy()
    missing, codes = looked.missing[sampled], looked.codes[sampled]
    holes = np.where(looked.numeric, missing.sum(0), -1)
    chosen = [int(j) for j in np.argsort(-holes, kind="stable")[:PAIRED] if holes[j] >= 0]
    return [
        cells.pair((looked.columns[i], looked.columns[j]), (codes[:, i], codes[:, j]), (draws[0, :, i], draws[0, :, j]))
        for place, j in enumerate(chosen)
        for i in chosen[:place]
    ]


def _likelihood(
    looked: Looked, asked: ImputeRequest, seed: int, device: torch.device, limit: TimeLimit, reporter: Reporter
) -> Likelihood | None:
    """log p(observed cells) of the rows, and the least likely; None where no cell is observed. OutOfTime where no row
    was scored in time."""
    fitted, table = looked.fitted, looked.table
    wanted = EvaluateRequest(checkpoint=asked.checkpoint, settings=asked.settings, rows=SCORED_ROWS, samples=None)
    scored = log_likelihood(fitted, table, wanted, seed, device, reporter, EarlyEnd(limit, Stop()), limit.end)
    values, numbers = scored.loglik.values.numpy(), scored.rows.numpy()
    observed = ~looked.missing[numbers]
    counts = observed.sum(1)
    known = counts > 0
    if not known.any():
        return None
    units = (observed * cell_scales(fitted.schema, table, numbers).numpy()).sum(1)
    numbers, counts = numbers[known], counts[known]
    ids = {name: table.raw_text(name) for name in fitted.schema.ids if name in table.names}
    lowest = [
        OddRow(
            row=int(numbers[row.place]) + 1,
            ids={name: str(texts[numbers[row.place]]) for name, texts in ids.items()},
            observed=int(counts[row.place]),
            per_cell=row.per_cell,
            below=row.below,
            limit=row.limit,
        )
        for row in unlikely.lowest((values + units)[known], counts, LOWEST)
    ]
    by = fitted.recipe.table.weight
    weights = None if by is None or by not in table.names else row_weights(table, by)[numbers]
    if weights is not None and not weights.any():
        weights = None
    mean = float(np.average(values[known], weights=weights))
    return Likelihood(len(numbers), scored.loglik.estimator, mean, lowest)
