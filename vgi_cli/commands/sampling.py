"""Draws of the holes of a table from a run, block by block or as a whole, and what is said of them."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, Self, cast

import numpy as np
import torch
from torch import Tensor

from vgi_cli.columns.base import Point
from vgi_cli.columns.blanks import Blank, not_asked, read_blanks, staying, take_back, undefined_at
from vgi_cli.columns.number import Number
from vgi_cli.columns.numerals import Bools, Floats, Ints
from vgi_cli.columns.schema import Schema
from vgi_cli.columns.wording import named, some_of, typed
from vgi_cli.commands.deltas import Deltas
from vgi_cli.commands.requests import ImputeRequest
from vgi_cli.commands.run_table import (
    compute_on,
    is_fitted,
    seed_of,
    table_settings,
)
from vgi_cli.commands.samplers import checked_sampler, make_imputer, sampler_of
from vgi_cli.commands.unasked import UnaskedCells
from vgi_cli.encoding.apart import Apart, Rule
from vgi_cli.encoding.check import Holes
from vgi_cli.encoding.encoder import RowKeys, decode, unpool
from vgi_cli.encoding.encoder import box as box_of
from vgi_cli.encoding.keeping import keep_but_for_blanks
from vgi_cli.encoding.keys import told_by_keys
from vgi_cli.encoding.known_groups import group_probability, levels_in_groups
from vgi_cli.encoding.redrawing import DrawnRows
from vgi_cli.encoding.redundant import codes_of, rule_words
from vgi_cli.encoding.skips import beside_blanks, mask_probability
from vgi_cli.encoding.structural_zeros import possible
from vgi_cli.fitting.fitted import FittedTable
from vgi_cli.fitting.rows import Rows
from vgi_cli.machine.work import OutOfTime, TimeUp, Work
from vgi_cli.maths.noise import KeyedNoise
from vgi_cli.registry import names as registry
from vgi_cli.reporting import DRAWING, Reporter, Stage
from vgi_cli.samplers.base import ROW_BLOCK, Box, Counted, Imputer, add_counts, counted
from vgi_cli.samplers.base import impute as impute_rows
from vgi_cli.samplers.selected import Coherent, Selected
from vgi_cli.table.base import Table
from vgi_cli.table.draws import SpooledDraws, require_finite
from vgi_cli.table.fills import avoid_codes
from vgi_cli.table.source import Source
from vgi_cli.workers import ONE_PROCESS, Tell, room_of

STRATA = 20
"""Draws of an even estimate that divide the distribution of a cell among them; of more, each so many of them do."""
BEYOND_ZERO = 0.06
"""Share of a column's fills first drawn beyond zero from which on it is said: of columns that cannot be negative,
skewed ones too, models draw fewer (ten such columns of real tables, 30 % of the cells hidden: at most 0.05)."""
PIECES = 2
"""So many pieces of rows for each process, where few draws may be made apart from each other."""
SHARED_CELLS = 2_000
"""Of fewer cells, in all draws, no processes are made to share the work."""
NAMED = 3
"""Rules that are named, of those that fills do not keep to."""
AVERAGED_CELLS = 1 << 21
"""Cells of all draws that are held at a time, where a point estimate is made of them."""


class Watch:
    """How many of the rows with a hole have been drawn; it raises OutOfTime where the time is over."""

    def __init__(self, stage: Stage, done: int, count: int, over: Callable[[], bool]) -> None:
        self.done, self.count = done, count
        self._stage, self._over = stage, over

    def within(self, rows: int) -> Callable[[float], None]:
        """What is told the share of the next rows that is done."""

        def tell(share: float) -> None:
            if self._over():
                raise OutOfTime
            done = self.done + share * rows
            self._stage(done / max(self.count, 1), int(done), self.count)

        tell(0.0)
        return tell

    def add(self, rows: int) -> None:
        """These rows have been drawn."""
        self.done += rows
        self._stage(self.done / max(self.count, 1), self.done, self.count)


class Imputed(NamedTuple):
    """draws [m, N, D] in data units and in the order of the schema's modelled columns; what the sampler reports."""

    draws: Floats
    diagnostics: dict[str, object]
    sampler: str


class Sampling:
    """Draws of the holes of a table, which may come in blocks: the result does not depend on them."""

    def __init__(
        self,
        fitted: FittedTable,
        request: ImputeRequest,
        work: Work,
        *,
        incomplete: int = 1,
    ) -> None:
        """`request`: with the number of draws; `incomplete`: rows with a hole, where that is known (of none nothing is
        drawn, nor said of draws). UsageError for a device, sampler or uncertainty that cannot be; TimeUp where the
        limit is over."""
        self._fitted, self._request, self._reporter, self._limit = fitted, request, work.reporter, work.limit
        self._m, self.shard = cast(int, request.m), request.part
        self._device = compute_on(fitted, request)
        self._workers = work.workers if self._device.type == "cpu" else ONE_PROCESS
        self._seed = seed_of(fitted, request)
        self.sampler = sampler_of(fitted, request)
        self._imputer: Imputer | None = None
        self.even = self._own_table = False
        self._speechless, self._heard = 0, True
        self._moved: dict[str, int] = {}
        self._apart, self._unkept = 0, list[Apart]()
        self._broken = Counter[Rule]()
        self.deltas = Deltas(request.delta or (), fitted, self.sampler)
        self._blanks = blanks_of(fitted, request)
        self._left = np.zeros((len(self._blanks) + 1, self.kept), np.int64)
        self._unasked = UnaskedCells(fitted.schema)
        if not fitted.empty and incomplete == 0:
            checked_sampler(fitted, request)
        elif not fitted.empty:
            self._imputer, self._dtype = make_imputer(fitted, request, self._device, work)
            schema = fitted.schema
            apart = schema.structural_zeros or schema.comparisons or schema.pairs
            kept = schema.rules or apart or levels_in_groups(schema) or undefined_at(schema)
            if kept and not registry.SAMPLERS[self.sampler].traits.stored:
                self._imputer = Selected(self._imputer, self._mask_probability, coherent_in(schema) if apart else None)

    def of_table(self, sha256: str, *, blanks: bool = True) -> Self:
        """The rows are those of the table of this checksum: where it is the fitted one, its blank answers speak
        (`mask_probability`), unless `blanks` is off."""
        self._own_table, self._heard = blanks and is_fitted(self._fitted, sha256), blanks
        return self

    @property
    def kept(self) -> int:
        """Tables that come out: one for each draw, or one of point estimates."""
        return self._m if self._request.point is None else 1

    def require(self, rows: Rows) -> None:
        """UsageError or InputError where the sampler cannot draw for some rows, before it does."""
        if self._imputer is not None:
            self._imputer.require(rows.keys.to(self._device), rows.table.missing.to(self._device), self._m)

    def fill(self, source: Source, incomplete: int, draws: SpooledDraws, keys: RowKeys) -> None:
        """Draw block by block; `incomplete`: rows with a hole, for the progress. TimeUp where the limit is over."""
        done = 0
        with self._reporter.stage(DRAWING, "rows", self._limit.end) as stage:
            for block in source.blocks():
                rows = self._fitted.rows(block.table, keys.of(block.table))
                watch = Watch(stage, done, incomplete, self._limit.over)
                try:
                    drawn = self.draw(rows, watch)
                except OutOfTime:
                    raise self._time_up(watch) from None
                self.keep_off_codes(drawn, block.table)
                self.leave_blank(drawn, rows)
                holes = rows.table.layout.of_columns(rows.table.missing)
                draws.add(block.first, holes.numpy(), drawn)
                done += int(holes.any(1).sum())
        self.finish()

    def _time_up(self, watch: Watch) -> TimeUp:
        count = f"{watch.done:,} of {watch.count:,} rows with holes"
        return TimeUp(
            f"stopped while the holes were filled: {self._limit.words()} was over after {count}; nothing was written",
            "give it more time, or ask for fewer draws (--m)",
        )

    def whole(self, rows: Rows) -> Floats:
        """As `draw`, of rows that are all there are, as a stage. TimeUp where the limit is over."""
        count = int(rows.table.layout.of_columns(rows.table.missing).any(1).sum())
        with self._reporter.stage(DRAWING, "rows", self._limit.end) as stage:
            watch = Watch(stage, 0, count, self._limit.over)
            try:
                return self.draw(rows, watch)
            except OutOfTime:
                raise self._time_up(watch) from None

    def draw(self, rows: Rows, watch: Watch) -> Floats:
        """[m, N, D] draws of some rows in data units, or [1, N, D] point estimates. OutOfTime where the watch says
        so."""
        if self._request.point is None:
            return self._drawn(rows, watch)
        most = ROW_BLOCK * max(1, AVERAGED_CELLS // (ROW_BLOCK * self._m * max(1, rows.table.D)))
        parts = [self._drawn(rows.at(some), watch) for some in torch.arange(rows.table.N).split(most)]
        return np.concatenate(parts, 1)

    def _drawn(self, rows: Rows, watch: Watch) -> Floats:
        """As `draw`, of all the rows at once."""
        schema = self._fitted.schema
        numbers = torch.arange(self._m, device=self._device)
        strata = min(self._m, STRATA) if self.even else 0
        noise = KeyedNoise(self._seed, schema.layout.names, rows.keys.to(self._device), numbers, strata=strata)
        if self._imputer is None:
            x = turned = rows.table.x.expand(self._m, -1, -1)
        else:
            ranges = box_of(schema)
            box = Box(ranges.low.to(self._device, self._dtype), ranges.high.to(self._device, self._dtype))
            x = self._draw_rows(self._imputer, rows, noise, box, watch)
            if isinstance(self._imputer, Selected) and not self._own_table:
                self._speechless += int(beside_blanks(rows.table.missing.cpu().numpy(), schema).sum())
            turned = self.deltas.turn_levels(x, rows, noise, self._imputer)
        draws = self._codes(x, rows)
        missing = schema.layout.of_columns(rows.table.missing).cpu().numpy()
        require_finite(draws, missing, schema.layout.columns)
        deciding = {schema.modelled[one.other] for one in self._blanks} | self._unasked.deciding
        observed = observed_codes(rows, schema, related_columns(schema) | deciding)

        def blanks(draws: Floats) -> Bools:
            return staying(self._blanks, draws, observed, missing, schema)[1]

        blank = blanks if self._blanks else None
        uniform = functools.partial(uniform_of, noise, schema)
        ties = functools.partial(uniform_beside, noise, schema)
        told = said_by_keys(rows, schema)
        apart = keep_but_for_blanks(DrawnRows(draws, observed, missing, uniform, ties), blank, schema, told)
        levels = None if turned is x else (self._codes(x, rows), self._codes(turned, rows))
        before, moved = draws, self.deltas.move(draws, levels, rows, noise) if self.deltas else draws
        if self._request.point is not None:
            point = cast(Point, self._request.point)
            before = point_estimate(draws, point, schema)
            moved = point_estimate(moved, point, schema) if self.deltas else before
            draws = before.copy()
            first = functools.partial(uniform_of, replace(noise, draws=noise.draws[:1]), schema)
            apart = keep_but_for_blanks(DrawnRows(draws, observed, missing, first, None), blank, schema, told)
        for place in self.deltas.places:
            own = moved[..., place]
            draws[..., place] = np.where(own == before[..., place], draws[..., place], own)
        if self._blanks:
            self._unkept.append(apart)
        else:
            self._count(apart)
        return draws

    def _codes(self, x: Tensor, rows: Rows) -> Floats:
        """Encoded draws [m, N, D] as codes [m, N, columns], each rare level for itself."""
        return unpool(decode(x.cpu(), self._fitted.schema), self._fitted.schema, self._seed, rows.keys)

    def _mask_probability(self, x: Tensor, missing: Tensor) -> Tensor:
        """As of `Selected`, by the skips and thresholds of the columns and the groups that levels belong to, and 0
        where cells go together that never do, or not as they compare, or say another observed one than there is. What
        blank answers say is a matter of the table that was fitted: elsewhere a question may have been left out."""
        numbers, holes, schema = x.double().cpu().numpy(), missing.cpu().numpy(), self._fitted.schema
        chance = mask_probability(numbers, holes, schema, blanks=self._own_table) * possible(numbers, holes, schema)
        return torch.from_numpy(chance * group_probability(numbers, holes, schema)).to(x.device)

    def _draw_rows(self, imputer: Imputer, rows: Rows, noise: KeyedNoise, box: Box, watch: Watch) -> Tensor:
        """[m, N, D] encoded: incomplete rows drawn, complete rows as they are."""
        x, missing = rows.table.x.to(self._device, self._dtype), rows.table.missing.to(self._device)
        out = x.expand(len(noise.draws), *x.shape).clone()
        index = rows.table.layout.of_columns(missing).any(1).nonzero()[:, 0]
        most, count = imputer.rows_at_once(len(noise.draws), x), self._workers.count
        if count > 1 and imputer.parallel and int(missing.sum()) * len(noise.draws) >= SHARED_CELLS:
            imputer.prepare(missing[index], noise, box)
            apart = imputer.apart(noise.draws)
            groups = [torch.cat(apart[first::count]) for first in range(min(count, len(apart)))]
            if len(groups) < count:
                most = min(most, -(-len(index) * len(groups) // (PIECES * count)))
            pieces = [(some, group) for some in index.split(most) for group in groups]

            def drawn(piece: tuple[Tensor, Tensor], tell: Tell) -> Counted:
                some, group = piece
                own = noise.select(rows=some).select(draws=group)
                imputer.watch = tell
                return counted(imputer, lambda: impute_rows(imputer, x[some], missing[some], own, box))

            room, tell = room_of(len(x) * len(noise.draws), x.shape[1]), watch.within(len(index))
            for place, found in self._workers.each(drawn, pieces, tell, room=room, loops=self._fitted.marginal):
                some, group = pieces[place]
                out[group[:, None], some] = found.drawn
                add_counts(imputer, found)
            watch.add(len(index))
            return out
        for some in index.split(most):
            imputer.watch = watch.within(len(some))
            out[:, some] = impute_rows(imputer, x[some], missing[some], noise.select(rows=some), box)
            watch.add(len(some))
        return out

    def keep_off_codes(self, draws: Floats, table: Table, places: Ints | None = None) -> None:
        """Move the draws [m, N, D] of a table, or of the rows of it that stand at `places` [N], that would read as
        missing there."""
        for name, count in avoid_codes(draws, table, self._fitted.schema, places).items():
            self._moved[name] = self._moved.get(name, 0) + count

    def leave_blank(self, draws: Floats, rows: Rows) -> None:
        """Take the fills back that are to stay blank, NaN in their place, in draws [m, N, D] of rows. Of those that
        stay, count the ones in rows that are not asked."""
        if not (self._blanks or self._unasked):
            return
        schema = self._fitted.schema
        names = {schema.modelled[one.other] for one in self._blanks} | self._unasked.deciding
        observed, missing = _observed_and_missing(rows, schema, names, self._unasked.others)
        if self._blanks:
            self._left += take_back(self._blanks, draws, observed, missing, schema)
        if self._unasked:
            filled = missing & ~np.isnan(draws).all(0)  # in one of the draws at least
            self._unasked.count(np.where(missing, np.nan, observed), missing, filled)
        first = 0
        for apart in self._unkept:  # what a rule says of a cell that stays blank holds
            some = draws[:, first : first + apart.shape[1]]
            self._count(apart, some)
            first += some.shape[1]
        self._unkept.clear()

    def _count(self, apart: Apart, draws: Floats | None = None) -> None:
        """Count the rows that do not keep to rules; `draws`: those of which a cell is blank, with it."""
        self._apart += apart.count(draws)
        self._broken.update(apart.counts(draws))

    @property
    def left(self) -> Ints:
        """[kept] number of holes of each table that stay by request."""
        return np.asarray(self._left[-1])

    def described(self) -> dict[str, object]:
        """How the draws were made, for a record."""
        shard = {} if self.shard is None else {"shard": str(self.shard)}
        return {
            **shard,
            "run": self._fitted.run.name,
            "seed": self._seed,
            "m": self._m,
            "sampler": self.sampler,
            "deltas": self.deltas.record(),
        }

    def finish(self) -> dict[str, object]:
        """After the last rows: what the sampler reports."""
        for name, count in self._moved.items():
            fills = "fill was what means" if count == 1 else "fills were what means"
            self._reporter.say(f"column '{name}': {count} {fills} missing (--na-values): the next value was taken")
        if self._apart:
            one, of = self._apart == 1, f" of the {self.kept} filled tables together" if self.kept > 1 else ""
            filled = f"{self._apart:,} {'' if of else 'filled '}row{'s' * (not one)}{of} do{'es' * one}"
            left = (
                f"{'it is' if one else 'they are'} left as drawn, since the search found no fills (there may be some)"
            )
            why = f"{left} that suit the limits of their columns, observed cells and all such rules"
            broken = [(rule_words(rule, self._fitted.schema), n) for rule, n in self._broken.most_common()]
            rules = [f"{words} ({n:,} row{'s' * (n > 1)})" for words, n in broken]
            which = f"; not kept: {some_of(rules, NAMED, ', which -v lists')}" if rules else ""
            self._reporter.say(f"{filled} not keep to what holds in every row of the fit: {why}{which}")
            for words, n in broken[NAMED:]:
                self._reporter.detail(f"not kept to in {n:,} row{'s' * (n > 1)}: {words}")
        for place, rule in enumerate(self._blanks):
            self._reporter.say(f"--leave-blank {rule.said}: {_range(self._left[place])} holes stay")
        self._unasked.say(self._reporter, self.kept)
        if self._speechless and self._heard:
            self._reporter.say(_of_blanks(self._speechless, self._fitted.schema))
        self.deltas.say(self._reporter)
        diagnostics = {} if self._imputer is None else self._imputer.diagnostics()
        for line in beyond_zero(self._fitted.schema, diagnostics):
            self._reporter.warn(line)
        report_diagnostics(self.sampler, diagnostics, self._reporter)
        return diagnostics


def beyond_zero(schema: Schema, diagnostics: Mapping[str, object], cells: str = "fills") -> Iterator[str]:
    """A line on each column that fills (or what `cells` calls them) keep on their side of zero for no reason but that
    all observed values are, where the model drew many of them on the other one."""
    for place, column in enumerate(schema.encoded):
        reasons = column.limits.reasons if isinstance(column, Number) and column.limits is not None else ()
        if "sign" not in reasons or not set(reasons) <= {"sign", "type"}:
            continue
        side = "below" if cast(Number, column).low >= 0 else "above"
        shares = cast(Mapping[str, float], diagnostics.get(f"{side}_by_column", {}))
        share = max(shares.get(name, 0.0) for name in schema.layout.names[schema.layout.slices[place]])
        if share >= BEYOND_ZERO:
            bent = "; if none can, `--set table.transform=normal` may describe the column better"
            yield (
                f"the model drew {share:.0%} of the {cells} of '{column.name}' {side} zero, where no observed value "
                f"lies, and drew them anew: if such values occur, fit again with "
                f"`{typed('--unbounded', column.name)}`{bent if schema.transform == 'linear' else ''}"
            )


def uniform_of(noise: KeyedNoise, schema: Schema, name: str) -> Floats:
    """[m, N] random numbers from 0 to 1 for the cells of a column that is brought into line with others."""
    place = schema.layout.slices[schema.modelled.index(name)].start
    return noise.at("skips").uniform([noise.columns[place]])[..., 0].double().cpu().numpy()


def uniform_beside(noise: KeyedNoise, schema: Schema, name: str, other: str) -> Floats:
    """[m, N] random numbers from 0 to 1 for the cells of a column, by the other column of its order."""
    place = schema.layout.slices[schema.modelled.index(name)].start
    return noise.at(f"orders/{other}").uniform([noise.columns[place]])[..., 0].double().cpu().numpy()


def related_columns(schema: Schema) -> set[str]:
    """Names of the columns that have to do with others."""
    names = {name for relation in schema.relations for name in relation.names}
    names |= {name for one in schema.relations if one.beyond is not None for name in one.beyond.names}
    names |= {name for one in schema.comparisons for name in one.names}
    names |= {name for order in schema.orders for name in (order.low, order.high)}
    return names | {name for order in schema.orders if order.ties is not None for name in order.ties.names}


def coherent_in(schema: Schema, idle: Callable[[Tensor], Tensor] | None = None) -> Coherent:
    """What the cells of drawn rows of a schema have to agree on (`possible`); idle: as of `SamplerInput`."""
    levels = torch.zeros(schema.layout.D, dtype=torch.bool)
    levels[list(schema.layout.whole)] = True

    def accepted(x: Tensor, missing: Tensor, left_out: Tensor | None) -> Tensor:
        nothing = None if idle is None else idle(x)
        if left_out is not None:
            nothing = left_out if nothing is None else nothing | left_out
        cells = None if nothing is None else nothing.cpu().numpy()
        agree = possible(x.double().cpu().numpy(), missing.cpu().numpy(), schema, cells)
        return torch.from_numpy(agree).to(x.device)

    return Coherent(accepted, levels)


def observed_codes(rows: Rows, schema: Schema, names: Collection[str]) -> Floats:
    """[N, columns] codes of some columns of rows as their table has them; of rows that come encoded as far as their
    encoding tells."""
    codes, places = np.zeros((rows.table.N, len(schema.encoded))), rows.places.numpy()
    if rows.source is None:
        return decode(rows.table.x, schema) if names else codes
    for i, column in enumerate(schema.encoded):
        if column.name in names:
            codes[:, i] = codes_of(rows.source.table, column)[places]
    return codes


def _observed_and_missing(
    rows: Rows, schema: Schema, names: Collection[str], others: Collection[str] = ()
) -> tuple[Floats, Bools]:
    """[N, columns] codes of rows in the columns of some `names`, as `observed_codes`, and where cells are missing: not
    where a level of these or of `others` stays though the fit has not seen it."""
    missing = schema.layout.of_columns(rows.table.missing).cpu().numpy()
    if rows.source is not None:
        for name in {*names, *others}:
            missing[:, schema.modelled.index(name)] &= rows.source.table.missing(name)[rows.places.numpy()]
    return observed_codes(rows, schema, names), missing


def blanks_of(fitted: FittedTable, request: ImputeRequest) -> list[Blank]:
    """What `--leave-blank` says of a run. UsageError for what has no meaning there."""
    decimal = table_settings(request, fitted.recipe.table).decimal
    return read_blanks(request.leave_blank or (), fitted.schema, decimal)


def to_stay_blank(rules: Sequence[Blank], rows: Rows, schema: Schema) -> Ints:
    """[2] how many holes of some rows stay by request at least, as their observed cells say, and at most, whatever the
    columns that decide are filled with."""
    observed, missing = _observed_and_missing(rows, schema, {schema.modelled[one.other] for one in rules})
    surely = [one.holds(observed[:, one.other]) & ~missing[:, one.other] for one in rules]
    maybe = [said | missing[:, one.other] for said, one in zip(surely, rules, strict=True)]
    gates = [(one.columns, one.other) for one in rules]
    says = [np.stack(both) for both in zip(surely, maybe, strict=True)]
    return np.asarray(not_asked(gates, says, missing, 2).sum((1, 2)))


def said_by_keys(rows: Rows, schema: Schema) -> Floats | None:
    """[N, columns] what keys that are carried say of rows, NaN: nothing; None where there are no such keys, or the rows
    come encoded."""
    if rows.source is None or not schema.lookups:
        return None
    return told_by_keys(rows.source.table, schema, rows.places.numpy())


def point_estimate(draws: Floats, point: Point, schema: Schema) -> Floats:
    """[1, N, columns]: the point estimate of each column from draws [m, N, columns]."""
    out = np.empty((1, *draws.shape[1:]))
    for i, column in enumerate(schema.encoded):
        out[0, :, i] = column.point(draws[..., i], point)
    return out


def say_filled(holes: Holes, sampling: Sampling, reporter: Reporter) -> None:
    """The last line: how many of a table's holes were filled, and how often."""
    each = f" in each of {sampling.kept} tables" if sampling.kept > 1 else ""
    reporter.say(f"filled {_range(holes.filled - sampling.left)} of {holes.total} holes{each}")


def _of_blanks(rows: int, schema: Schema) -> str:
    """A line on rows in which blank cells are not taken for answers."""
    others = list(dict.fromkeys(name for one in schema.unasked for name in one.others))
    missing = list(dict.fromkeys(rule.name for one in schema.unasked for rule in schema.deciding(one.others)))
    lack = f"{rows:,} row{'s' * (rows != 1)} lack{'s' * (rows == 1)} a cell of {named('column', missing)}"
    only = "only where the fitted table is imputed as a whole do such blanks say something of the missing cell"
    return f"{lack} and {'are' if rows != 1 else 'is'} blank in {named('column', others)}: {only}"


def _range(counts: Ints) -> str:
    """`12`, or `12 to 15` where tables differ."""
    least, most = int(counts.min()), int(counts.max())
    return f"{least}" if least == most else f"{least} to {most}"


def report_diagnostics(sampler: str, diagnostics: dict[str, object], reporter: Reporter) -> None:
    """One line on how the sampler fared, for `-v`."""
    plain = [
        f"{name} {value:.4g}" if abs(value) < 9999 else f"{name} {value:.0f}"
        for name, value in diagnostics.items()
        if isinstance(value, int | float)
    ]
    if plain:
        reporter.detail(f"sampler {sampler}: " + ", ".join(plain).replace("_", " "))
