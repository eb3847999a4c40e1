"""`vgi impute`: draws of every hole of a modelled column, from the fitted model."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor

from vgi_cli.columns.base import Point
from vgi_cli.columns.blanks import read_blanks, take_back
from vgi_cli.columns.levelled import Levelled
from vgi_cli.columns.numerals import Floats, Ints
from vgi_cli.columns.schema import Schema
from vgi_cli.commands.deltas import Deltas, record_path
from vgi_cli.commands.dry_run import ImputePlan
from vgi_cli.commands.memory import refuse_beyond, require_files, to_impute
from vgi_cli.commands.requests import ELSEWHERE, ImputeRequest, RunRequest
from vgi_cli.commands.samplers import checked_sampler, make_imputer, parameter_uncertainty, sampler_of
from vgi_cli.encoding.apart import Apart
from vgi_cli.encoding.check import Holes
from vgi_cli.encoding.encoder import RowKeys, decode, unpool
from vgi_cli.encoding.encoder import box as box_of
from vgi_cli.encoding.keeping import keep_relations
from vgi_cli.encoding.redundant import codes_of
from vgi_cli.encoding.skips import mask_probability
from vgi_cli.errors import InputError, UsageError
from vgi_cli.fitting.fitted import FittedTable, load
from vgi_cli.fitting.rows import Part, Rows, Survey, check_same_data, open_blocks, read, require_fitted_files, survey
from vgi_cli.machine.device import available, resolve_device, set_threads
from vgi_cli.machine.work import OutOfTime, TimeUp, Work, giving_up, limit_of, watch_signals
from vgi_cli.maths.noise import KeyedNoise
from vgi_cli.registry import names as registry
from vgi_cli.reporting import DRAWING, READING, WRITING, Reporter, Stage
from vgi_cli.runs.files import json_bytes, require_writable, write_atomic
from vgi_cli.runs.folder import RunFolder
from vgi_cli.samplers.base import ROW_BLOCK, Box, Imputer
from vgi_cli.samplers.base import impute as impute_rows
from vgi_cli.samplers.selected import Selected
from vgi_cli.settings.options import Frame
from vgi_cli.settings.problems import origin
from vgi_cli.settings.recipe import TableSettings
from vgi_cli.table.base import Table
from vgi_cli.table.draws import SpooledDraws, require_finite
from vgi_cli.table.fills import avoid_codes, forget_unseen
from vgi_cli.table.folders import Folder, folder_asked, folder_paths, refuse_folders
from vgi_cli.table.frames import to_frames
from vgi_cli.table.inputs import Format, Origin, rough_size
from vgi_cli.table.outputs import (
    OutputLayout,
    default_output,
    output_format,
    output_paths,
    refuse_existing,
    refuse_safe,
    refuse_sources,
    refuse_type,
)
from vgi_cli.table.source import Block, Files, Source, Whole
from vgi_cli.table.writer import Content, check_output, refuse_clash, write_blocks, write_into_folders

STRATA = 20
"""Draws of an even estimate that divide the distribution of a cell among them; of more, each so many of them do."""
AVERAGED_CELLS = 1 << 21
"""Cells of all draws that are held at a time, where a point estimate is made of them."""


class Imputed(NamedTuple):
    """draws [m, N, D] in data units and in the order of the schema's modelled columns; what the sampler reports."""

    draws: Floats
    diagnostics: dict[str, object]
    sampler: str


def impute(request: ImputeRequest, reporter: Reporter, stdout: BinaryIO | None = None) -> list[Path]:
    """Impute DATA (default: the fitted table) and write it. Returns the files written, none when they went to stdout.

    The table is read in blocks of rows: once to check it, once to draw, and once for every table that is written. The
    draws wait in a temporary file. Raises UsageError, InputError, RunError or HolesLeft before anything is written, and
    TimeUp, with nothing written, where the time limit is over first.
    """
    limit = limit_of(request.settings, request.started)
    with watch_signals() as stop:
        reporter.plan([READING, DRAWING, WRITING])
        fitted, request, source, seen, keys, (out, layout, format, paths, folder) = _ready(request, reporter, stdout)
        work = Work(reporter, limit, stop, request.started)
        sampling = Sampling(fitted, request, work, incomplete=seen.incomplete)
        sampling.own_table = _is_fitted(fitted, source.whole.origin.sha256)
        with closing(SpooledDraws(sampling.kept, out if isinstance(out, Path) else None)) as draws:
            sampling.fill(source.rows, seen.incomplete, draws, keys)
            if request.point is not None and seen.incomplete:
                _warn_of_point(request, fitted.schema, reporter)
            elif request.format == "single" and seen.incomplete:
                reporter.warn(
                    "one filled table does not show how uncertain its fills are: standard errors and tests need "
                    "several (--format files or long)"
                )
            passes = draws.m + (layout in ("long", "mids-csv") and request.original)
            with reporter.stage(WRITING, until=limit.end) as stage:
                watched = giving_up(lambda: isinstance(out, Path) and limit.over(), stage)
                told = _Told(source.rows, _passes(watched, passes))
                whole = None if request.part is None else source.whole
                safe = request.safe_cells
                content = Content(told, fitted.schema, seen.styles, draws, shard=request.part, whole=whole, safe=safe)
                try:
                    if folder is not None:
                        written = write_into_folders(content, paths, folder, force=request.force, say=reporter.say)
                    else:
                        written = write_blocks(
                            content,
                            layout=layout,
                            out=out,
                            format=format,
                            original=request.original,
                            force=request.force,
                            say=reporter.say,
                        )
                except OutOfTime:
                    raise TimeUp(
                        f"stopped while the tables were written: {limit.words()} was over; nothing was kept",
                        "give it more time, or ask for fewer draws (--m)",
                    ) from None
        if isinstance(out, Path):
            _write_record(out, sampling, source.whole, written)
        say_filled(seen.holes, sampling, reporter)
        return written


def _write_record(out: Path, sampling: Sampling, source: Source, written: Sequence[Path]) -> None:
    """Beside the tables, what was done to the draws by `--delta`; no record of earlier tables stays."""
    path = record_path(out, sampling.shard)
    if not sampling.deltas:
        path.unlink(missing_ok=True)
        return
    record = {
        "format": 1,
        "table": source.origin.label,
        "sha256": source.origin.sha256,
        "files": [one.name for one in written],
        **sampling.described(),
    }
    write_atomic(path, json_bytes(record))


class _Output(NamedTuple):
    """Where the tables go, a file or a stream, and how; `paths`: the files (none for a stream), or folders where these
    are like the `folder` that was read."""

    out: Path | BinaryIO
    layout: OutputLayout
    format: Format | None
    paths: list[Path]
    folder: Folder | None = None


class _Sources(NamedTuple):
    """A table, and the rows of it that are to be filled: the same, or a shard."""

    whole: Source
    rows: Source


class _Ready(NamedTuple):
    """All that is known before the first hole is drawn: the run, the request with its number of draws, the table, what
    a look at its rows found, what keys the randomness of those that are to be filled, and where the result goes."""

    fitted: FittedTable
    request: ImputeRequest
    source: _Sources
    seen: Survey
    keys: RowKeys
    output: _Output


def _ready(request: ImputeRequest, reporter: Reporter, stdout: BinaryIO | None) -> _Ready:
    """Load the run, look at every row of the table, and refuse what cannot be. Nothing is written."""
    fitted = load(request.open(verify=True), reporter)
    fitted.say_unused_plugins(reporter, request.sampler)
    request = request.with_draws(fitted, reporter)
    with reporter.stage(READING, "rows") as stage:
        keys = RowKeys(fitted.schema, request.table is not None and keyed_by_content(fitted, request.table))
        whole, rows, part = _sources(fitted, request, keys)
        stage(0.5)
        described = whole.origin
        if request.max_memory is not None:
            require_memory(described, fitted, request)
        told = _Told(whole, lambda share, rows: stage(0.5 + 0.5 * share, rows))
        unseen = table_settings(request, fitted.recipe.table).unseen
        seen = survey(told, fitted.schema, reporter, request.strict, unseen, part)
        if part is not None:
            own, N = part.rows, whole.origin.N
            reporter.say(f"shard {request.part}: rows {own.start + 1:,} to {own.stop:,} of {N:,}")
        opened = whole
        if unseen == "missing":
            whole, rows = (_Forgetting(one, fitted.schema) for one in (whole, rows))
    out: Path | BinaryIO = sys.stdout.buffer if stdout is None else stdout
    layout = cast(OutputLayout, request.format)
    if request.out is None:
        out = default_output(request.beside("imputed"), described, layout)
    elif request.out != "-":
        out = Path(request.out)
    format = None if isinstance(out, Path) else described.format
    if request.safe_cells:
        refuse_safe("csv" if layout == "mids-csv" or not isinstance(out, Path) else output_format(out, described))
    if isinstance(out, Path):
        require_writable(out, ELSEWHERE)
        in_memory = TableName([], None, fitted.recipe.table, False)
        named = name_of(fitted, request) if request.table is None else in_memory
        if folder_asked(request.out, named.data):
            refuse_type(out, layout)
            if request.delta:
                refuse_existing([record_path(out)], force=request.force)
            paths = folder_paths(out, m=request.m or 1, layout=layout, shard=request.part)
            refuse_folders(paths, named.data, force=request.force)
            folder = cast(Files, opened).folder()
            _refuse_filled_partitions(folder, seen)
            output = _Output(out, layout, format, paths, folder)
            return _Ready(fitted, request, _Sources(whole, rows), seen, keys, output)
        paths = output_paths(
            out, described, m=request.m or 1, layout=layout, shard=request.part, original=request.original
        )
        refuse_sources(paths, named.data, "the table that is imputed")
        refuse_sources(paths, [named.mask] if named.mask else [], "the mask of the table")
        if request.out is not None:
            refuse_type(out, layout)
        if request.delta:
            refuse_existing([record_path(out, request.part)], force=request.force)
    paths = check_output(
        described,
        layout=layout,
        out=out,
        m=request.m or 1,
        format=format,
        force=request.force,
        shard=request.part,
        original=request.original,
    )
    return _Ready(fitted, request, _Sources(whole, rows), seen, keys, _Output(out, layout, format, paths))


def _refuse_filled_partitions(folder: Folder, seen: Survey) -> None:
    """InputError where fills would belong into the names of folders."""
    for name in folder.partitions:
        if name in seen.styles and seen.styles[name].holes:
            raise InputError(
                f"column '{name}' names the folders and has holes, whose fills no folder's name can hold",
                "write files (-o filled.parquet), or leave the column out of the fit (--exclude)",
            )


def _sources(fitted: FittedTable, request: ImputeRequest, keys: RowKeys) -> tuple[Source, Source, Part | None]:
    """The table, the rows of it that are to be filled, and which these are where they are a shard."""
    if request.table is not None:
        return Whole(request.table), Whole(request.table), None
    files = blocks_of(fitted, request)
    if request.part is None:
        return files, files, None
    rows = request.part.rows(files.origin.N)
    return files, files.part(rows), Part(rows, keys)


def require_memory(origin: Origin, fitted: FittedTable, request: ImputeRequest) -> None:
    """UsageError with the size that would do, where imputing a table would take more memory than it may."""
    require_files(request.max_memory, request.table)
    stems = ["model", "conditionals"]
    if registry.SAMPLERS[fitted.sampler(request.sampler)].traits.stored:
        stems.append("imputations")
    run = fitted.run.path if isinstance(fitted.run, RunFolder) else Path()
    size = rough_size([run / f"{stem}.safetensors" for stem in stems])
    refuse_beyond(
        cast(int, request.max_memory), origin, to_impute(origin, size, fitted.recipe.method.name != "em"), "imputing"
    )


def dry_run(request: ImputeRequest, reporter: Reporter) -> ImputePlan:
    """What `impute` would do; raises what it would refuse. No hole is drawn and nothing is written."""
    reporter.plan([READING])
    fitted, request, source, seen, keys, output = _ready(request, reporter, None)
    compute_on(fitted, request)
    sampler = checked_sampler(fitted, request)
    deltas = Deltas(request.delta or (), fitted, sampler)
    blanks = read_blanks(request.leave_blank or (), fitted.schema)
    if registry.SAMPLERS[sampler].traits.stored and seen.incomplete:
        sampling = Sampling(fitted, request, Work(reporter), incomplete=seen.incomplete)
        for block in source.rows.blocks():
            sampling.require(fitted.rows(block.table, keys.of(block.table)))
    paths = output.paths
    if deltas and isinstance(output.out, Path):
        paths = [*paths, record_path(output.out, request.part)]
    return ImputePlan(
        table=source.whole.origin.label,
        run=fitted.run.name,
        rows=source.rows.origin.N,
        incomplete=seen.incomplete,
        holes=seen.holes,
        sampler=sampler,
        uncertainty=None if fitted.empty else parameter_uncertainty(fitted, sampler, request.uncertainty),
        draws=cast(int, request.m),
        point=request.point,
        deltas=deltas.plans(),
        blanks=[one.said for one in blanks],
        layout=output.layout,
        paths=paths,
    )


def impute_frames(request: ImputeRequest, reporter: Reporter, arrow: bool) -> list[Frame] | Frame:
    """Impute DATA (default: the fitted table) and return the tables, one with the long layout; of pandas, or `arrow`.
    Raises as `impute` does."""
    fitted = load(request.open(verify=True), reporter)
    fitted.say_unused_plugins(reporter, request.sampler)
    request = request.with_draws(fitted, reporter)
    table, draws, holes = filled(fitted, request, reporter)
    if request.point is not None and holes.filled:
        _warn_of_point(request, fitted.schema, reporter)
    return to_frames(table, fitted.schema, draws, arrow, request.format == "long", request.original, say=reporter.say)


class Filled(NamedTuple):
    """A table in memory, the draws of its holes ([m, N, columns] in data units, or [1, N, columns] point estimates),
    and which holes there were."""

    table: Table
    draws: Floats
    holes: Holes


def filled(
    fitted: FittedTable,
    request: ImputeRequest,
    reporter: Reporter,
    keys: RowKeys | None = None,
    *,
    even: bool = False,
) -> Filled:
    """Draw the holes of a table that is held in memory, or read into it (default: the fitted table).

    keys  what keys the randomness of its rows; None: `keyed_by_content` decides
    even  whether the draws of a cell divide its distribution among them (`KeyedNoise.strata`), so that the mean of a
          few is near that of many; else they are independent

    Raises as `impute` does.
    """
    request = request.with_draws(fitted, reporter)
    limit = limit_of(request.settings, request.started)
    reporter.plan([READING, DRAWING])
    with reporter.stage(READING):
        table = fitted_or_new(fitted, request) if request.table is None else request.table
        if request.format == "long":
            refuse_clash(table.origin)
        unseen = table_settings(request, fitted.recipe.table).unseen
        seen = survey(Whole(table), fitted.schema, reporter, request.strict, unseen)
    request = dataclasses.replace(request, table=table)
    sampling = Sampling(fitted, request, Work(reporter, limit), incomplete=seen.incomplete)
    sampling.even, sampling.own_table = even, keys is None and _is_fitted(fitted, table.sha256)
    keys = RowKeys(fitted.schema, keyed_by_content(fitted, table)) if keys is None else keys
    rows = fitted.rows(table, keys.of(table))
    draws = sampling.whole(rows)
    sampling.keep_off_codes(draws, table)
    sampling.leave_blank(draws, rows)
    sampling.finish()
    say_filled(seen.holes, sampling, reporter)
    return Filled(table, draws, seen.holes)


class _Told(Source):
    """Rows whose reading is told: after each block the share of them, and how many that is."""

    def __init__(self, source: Source, tell: Callable[[float, int], None]) -> None:
        self._source, self._tell = source, tell
        self.origin = source.origin

    def blocks(self) -> Iterator[Block]:
        rows = 0
        for block in self._source.blocks():
            yield block
            rows += block.table.N
            self._tell(rows / self.origin.N, rows)


class _Forgetting(Source):
    """A table in which levels that the fit has not seen are missing."""

    def __init__(self, source: Source, schema: Schema) -> None:
        self._source, self._schema = source, schema
        self.origin = source.origin

    def blocks(self) -> Iterator[Block]:
        for block in self._source.blocks():
            forget_unseen(block.table, self._schema)
            yield block


def _passes(tell: Callable[[float], None], count: int) -> Callable[[float, int], None]:
    """What is told of `count` passes over the rows, or of a few more, as one share."""
    passes = 0

    def told(share: float, rows: int) -> None:
        nonlocal passes
        tell((passes + share) / max(count, passes + 1))
        passes += share == 1.0

    return told


def _warn_of_point(request: ImputeRequest, schema: Schema, reporter: Reporter) -> None:
    """A line on what a table of point estimates is not for."""
    reporter.warn(
        f"the {request.point} of {request.m} draws{_others(str(request.point), schema)} is a best guess without its "
        "uncertainty: not for standard errors or tests"
    )


def _others(point: str, schema: Schema) -> str:
    """What the columns get that have no such estimate, in words."""
    levels = any(isinstance(column, Levelled) for column in schema.encoded)
    numbers = not all(isinstance(column, Levelled) for column in schema.encoded)
    if point == "mode":
        return " (of numbers: the median)" if numbers else ""
    if not levels:
        return ""
    others = " without an order" if point == "median" and any(column.ordered for column in schema.encoded) else ""
    return f" (of levels{others}: the one drawn most often)"


def related_columns(schema: Schema) -> set[str]:
    """Names of the columns that have to do with others."""
    names = {name for relation in schema.relations for name in relation.names}
    return names | {name for order in schema.orders for name in (order.low, order.high)}


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


def point_estimate(draws: Floats, point: Point, schema: Schema) -> Floats:
    """[1, N, columns]: the point estimate of each column from draws [m, N, columns]."""
    out = np.empty((1, *draws.shape[1:]))
    for i, column in enumerate(schema.encoded):
        out[0, :, i] = column.point(draws[..., i], point)
    return out


class TableName(NamedTuple):
    """Where a table is and how it is read; `fitted`: it is the one that the run was fitted on."""

    data: Sequence[str]
    mask: str | None
    reading: TableSettings
    fitted: bool


NEW_ROWS = "give DATA, a table to fill"
"""What to do where the fitted table is not what it was."""


def name_of(fitted: FittedTable, request: RunRequest, otherwise: str = NEW_ROWS) -> TableName:
    """The table that is named, else the one that the run was fitted on. UsageError where the run does not know it,
    InputError where it is not there any more; `otherwise`: what to do then."""
    named, mask = request.said("data"), request.said("mask")
    if named is not None:
        return TableName(named, mask, table_settings(request, fitted.recipe.table), False)
    data = fitted.run.record.data
    if not data.paths or data.paths == ("-",):
        source = "standard input" if data.paths else "a table in memory"
        raise UsageError(f"the run was fitted on {source}, which it does not keep", "give DATA")
    if mask is not None or any(key.startswith("table.") for key in request.settings):
        raise UsageError("--mask, --na-values, --delimiter and --decimal belong to DATA", "give DATA")
    require_fitted_files(fitted.run, f"put it back there, or {otherwise}")
    return TableName(data.paths, data.mask, fitted.recipe.table, True)


def fitted_or_new(fitted: FittedTable, request: RunRequest, otherwise: str = NEW_ROWS) -> Table:
    """The table that is named, else the fitted one, in memory. InputError when that has changed or is gone;
    `otherwise`: what to do then."""
    name = name_of(fitted, request, otherwise)
    table = read(name.data, name.mask, name.reading, fitted.schema)
    if name.fitted:
        check_same_data(fitted.run, table, otherwise)
    return table


def blocks_of(fitted: FittedTable, request: RunRequest) -> Files:
    """The same table, to be read in blocks."""
    name = name_of(fitted, request)
    source = open_blocks(name.data, name.mask, name.reading, fitted.schema)
    if name.fitted:
        check_same_data(fitted.run, source.origin, NEW_ROWS)
    return source


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
        self._seed = seed_of(fitted, request)
        self.sampler = sampler_of(fitted, request)
        self._imputer: Imputer | None = None
        self.even = self.own_table = False
        self._moved: dict[str, int] = {}
        self._apart, self._unkept = 0, list[Apart]()
        self.deltas = Deltas(request.delta or (), fitted, self.sampler)
        self._blanks = read_blanks(request.leave_blank or (), fitted.schema)
        self._left = np.zeros((len(self._blanks) + 1, self.kept), np.int64)
        if not fitted.empty and incomplete == 0:
            checked_sampler(fitted, request)
        elif not fitted.empty:
            self._imputer, self._dtype = make_imputer(fitted, request, self._device, work)
            if (fitted.schema.skips or fitted.schema.thresholds) and not registry.SAMPLERS[self.sampler].traits.stored:
                self._imputer = Selected(self._imputer, self._mask_probability)

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
            draws = decode(rows.table.x.expand(self._m, -1, -1), schema)
        else:
            ranges = box_of(schema)
            box = Box(ranges.low.to(self._device, self._dtype), ranges.high.to(self._device, self._dtype))
            x = self._draw_rows(self._imputer, rows, noise, box, watch)
            x = self.deltas.turn_levels(x, rows, noise, self._imputer)
            draws = decode(x.cpu(), schema)
            self.deltas.shift_numbers(draws, rows, noise)
        draws = unpool(draws, schema, self._seed, rows.keys)
        missing = schema.layout.of_columns(rows.table.missing).cpu().numpy()
        require_finite(draws, missing, schema.layout.columns)
        observed = observed_codes(rows, schema, related_columns(schema))

        def uniform(name: str) -> Floats:
            place = schema.layout.slices[schema.modelled.index(name)].start
            every = noise.at("skips").uniform([noise.columns[place]])[..., 0]
            return every[: len(draws)].double().cpu().numpy()

        apart = keep_relations(draws, observed, missing, schema, self.deltas.columns, uniform)
        if self._request.point is not None:
            draws = point_estimate(draws, cast(Point, self._request.point), schema)
            apart = keep_relations(draws, observed, missing, schema, self.deltas.columns, uniform)
        if self._blanks:
            self._unkept.append(apart)
        else:
            self._apart += apart.count()
        return draws

    def _mask_probability(self, x: Tensor, missing: Tensor) -> Tensor:
        """As of `Selected`, by the skips and thresholds of the columns. What blank answers say is a matter of the table
        that was fitted: elsewhere a question may have been left out."""
        numbers, holes = x.double().cpu().numpy(), missing.cpu().numpy()
        chance = mask_probability(numbers, holes, self._fitted.schema, blanks=self.own_table)
        return torch.from_numpy(chance).to(x.device)

    def _draw_rows(self, imputer: Imputer, rows: Rows, noise: KeyedNoise, box: Box, watch: Watch) -> Tensor:
        """[m, N, D] encoded: incomplete rows drawn, complete rows as they are."""
        x, missing = rows.table.x.to(self._device, self._dtype), rows.table.missing.to(self._device)
        out = x.expand(len(noise.draws), *x.shape).clone()
        index = rows.table.layout.of_columns(missing).any(1).nonzero()[:, 0]
        for some in index.split(imputer.rows_at_once(len(noise.draws), x)):
            imputer.watch = watch.within(len(some))
            out[:, some] = impute_rows(imputer, x[some], missing[some], noise.select(rows=some), box)
            watch.add(len(some))
        return out

    def keep_off_codes(self, draws: Floats, table: Table) -> None:
        """Move the draws [m, N, D] of a table that would read as missing there."""
        for name, count in avoid_codes(draws, table, self._fitted.schema).items():
            self._moved[name] = self._moved.get(name, 0) + count

    def leave_blank(self, draws: Floats, rows: Rows) -> None:
        """Take the fills back that are to stay blank, NaN in their place, in draws [m, N, D] of rows."""
        if not self._blanks:
            return
        schema = self._fitted.schema
        missing = schema.layout.of_columns(rows.table.missing).cpu().numpy()
        names = [schema.modelled[one.other] for one in self._blanks]
        observed = observed_codes(rows, schema, names)
        if rows.source is not None:  # a level that stays though the fit has not seen it is there
            for name in names:
                absent = rows.source.table.missing(name)[rows.places.numpy()]
                missing[:, schema.modelled.index(name)] &= absent
        self._left += take_back(self._blanks, draws, observed, missing, schema)
        first = 0
        for apart in self._unkept:  # what a rule says of a cell that stays blank holds
            some = draws[:, first : first + apart.shape[1]]
            self._apart, first = self._apart + apart.count(some), first + some.shape[1]
        self._unkept.clear()

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
            why = "the limits of their columns, observed cells or another such rule are against it"
            self._reporter.say(f"{filled} not keep to what holds in every row of the fit: {why}")
        for place, rule in enumerate(self._blanks):
            self._reporter.say(f"--leave-blank {rule.said}: {_range(self._left[place])} holes stay")
        self.deltas.say(self._reporter)
        diagnostics = {} if self._imputer is None else self._imputer.diagnostics()
        report_diagnostics(self.sampler, diagnostics, self._reporter)
        return diagnostics


def keyed_by_content(fitted: FittedTable, table: Table) -> bool:
    """Whether the rows of a table are keyed by what they hold, and not by their number: those of tables that were
    handed over in memory, which may come row by row, but for the one that was fitted."""
    return table.in_memory and not _is_fitted(fitted, table.sha256)


def _is_fitted(fitted: FittedTable, sha256: str) -> bool:
    """Whether a table of this checksum is the one that was fitted."""
    return bool(sha256 == fitted.run.manifest["data"]["sha256"])


def seed_of(fitted: FittedTable, request: RunRequest) -> int:
    """The seed that was said, else the run's."""
    seed = request.said("seed")
    return int(fitted.run.record.seeds["fit"] if seed is None else seed)


def compute_on(fitted: FittedTable, request: RunRequest) -> torch.device:
    """Set the threads and return the device: what was said, else those of the fit (the CPU where its GPU is gone)."""
    before = fitted.run.record
    set_threads(request.said("threads") or before.threads or 1)
    name = request.said("device")
    if name is not None:
        return resolve_device(name, origin(request.settings, "device", "--device"))
    return torch.device(before.device if available(before.device) else "cpu")


def say_filled(holes: Holes, sampling: Sampling, reporter: Reporter) -> None:
    """The last line: how many of a table's holes were filled, and how often."""
    each = f" in each of {sampling.kept} tables" if sampling.kept > 1 else ""
    reporter.say(f"filled {_range(holes.filled - sampling.left)} of {holes.total} holes{each}")


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


def table_settings(request: RunRequest, base: TableSettings) -> TableSettings:
    """How another table is read: as the fitted one, with what was said changed; texts that mean missing are added."""
    said = {
        key: request.said(f"table.{key}")
        for key in ("delimiter", "decimal", "na_values", "unseen")
        if f"table.{key}" in request.settings
    }
    if "na_values" in said:
        said["na_values"] = tuple(dict.fromkeys((*base.na_values, *said["na_values"])))
    return base.model_copy(update=said)
