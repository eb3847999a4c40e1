"""`vgi impute`: draws of every hole of a modelled column, from the fitted model."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

import numpy as np

from vgi_cli.columns.levelled import Levelled
from vgi_cli.columns.numerals import Floats
from vgi_cli.columns.schema import Schema
from vgi_cli.columns.wording import some_of
from vgi_cli.commands.deltas import Deltas, files_of_others, record_of_others, record_path
from vgi_cli.commands.dry_run import ImputePlan
from vgi_cli.commands.memory import refuse_beyond, require_files, to_impute
from vgi_cli.commands.requests import ELSEWHERE, ImputeRequest
from vgi_cli.commands.run_table import (
    TableName,
    blocks_of,
    compute_on,
    fitted_or_new,
    keyed_by_content,
    name_of,
    table_settings,
)
from vgi_cli.commands.samplers import checked_sampler, parameter_uncertainty
from vgi_cli.commands.sampling import Sampling, blanks_of, say_filled, to_stay_blank
from vgi_cli.encoding.check import Holes
from vgi_cli.encoding.encoder import RowKeys
from vgi_cli.errors import InputError
from vgi_cli.fitting.fitted import FittedTable, load
from vgi_cli.fitting.rows import Part, Survey, survey
from vgi_cli.machine.work import OutOfTime, TimeUp, Work, giving_up, limit_of, watch_signals
from vgi_cli.machine.workers import workers_for
from vgi_cli.registry import names as registry
from vgi_cli.reporting import DRAWING, READING, WRITING, Reporter
from vgi_cli.runs.files import json_bytes, require_writable, write_atomic
from vgi_cli.runs.folder import RunFolder
from vgi_cli.settings.options import Frame
from vgi_cli.table.base import Table
from vgi_cli.table.draws import SpooledDraws
from vgi_cli.table.fills import forget_unseen
from vgi_cli.table.folders import Folder, folder_asked, folder_paths, refuse_folders
from vgi_cli.table.frames import to_frames
from vgi_cli.table.inputs import Format, Origin, rough_size
from vgi_cli.table.outputs import (
    OutputLayout,
    default_output,
    named_output,
    output_format,
    output_paths,
    refuse_existing,
    refuse_safe,
    refuse_sources,
    refuse_type,
)
from vgi_cli.table.source import Block, Files, Source, Whole
from vgi_cli.table.writer import Content, check_output, refuse_clash, write_blocks, write_into_folders


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
        work = Work(reporter, limit, stop, request.started, workers=workers_for(request.said("threads"), reporter.warn))
        sampling = Sampling(fitted, request, work, incomplete=seen.incomplete).of_table(source.whole.origin.sha256)
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
            _write_record(out, sampling, source.whole, written, reporter)
        say_filled(seen.holes, sampling, reporter)
        return written


def _write_record(out: Path, sampling: Sampling, source: Source, written: Sequence[Path], reporter: Reporter) -> None:
    """Beside the tables, what was done to the draws by `--delta`; a record of earlier ones no longer names those that
    were written anew."""
    path = record_path(out, sampling.shard)
    if not sampling.deltas:
        record_of_others(path, [one.name for one in written])
        return
    stay = files_of_others(path, [one.name for one in written])
    if stay:
        reporter.warn(f"{path.name} no longer says what was done to {some_of(stay)}, of an earlier call")
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
        if request.max_memory is not None:
            require_memory(whole.origin, fitted, request)
        told = _Told(whole, lambda share, rows: stage(0.5 + 0.5 * share, rows))
        unseen = table_settings(request, fitted.recipe.table).unseen
        seen = survey(told, fitted.schema, reporter, request.strict, unseen, part)
        if part is not None:
            own, N = part.rows, whole.origin.N
            reporter.say(f"shard {request.part}: rows {own.start + 1:,} to {own.stop:,} of {N:,}")
    output = _output_of(fitted, request, whole, seen, sys.stdout.buffer if stdout is None else stdout)
    if unseen == "missing":
        whole, rows = (_Forgetting(one, fitted.schema) for one in (whole, rows))
    return _Ready(fitted, request, _Sources(whole, rows), seen, keys, output)


def _output_of(fitted: FittedTable, request: ImputeRequest, source: Source, seen: Survey, stdout: BinaryIO) -> _Output:
    """Where the filled tables of a source go: refused is what cannot be written, or what would be lost by it."""
    described, layout = source.origin, cast(OutputLayout, request.format)
    out: Path | BinaryIO = stdout
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
            paths = _checked_folders(request, out, named)
            folder = cast(Files, source).folder()
            _refuse_filled_partitions(folder, seen)
            return _Output(out, layout, format, paths, folder)
        out = _checked_file(request, out, described, named)
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
    return _Output(out, layout, format, paths)


def _checked_folders(request: ImputeRequest, out: Path, named: TableName) -> list[Path]:
    """The folders like the one that was read, which are written beside `out`."""
    layout = cast(OutputLayout, request.format)
    refuse_type(out, layout)
    if request.delta:
        refuse_existing([record_path(out)], force=request.force)
    paths = folder_paths(out, m=request.m or 1, layout=layout, shard=request.part)
    refuse_folders(paths, named.data, force=request.force)
    return paths


def _checked_file(request: ImputeRequest, out: Path, described: Origin, named: TableName) -> Path:
    """The name by which files are written, none of which is the table that is read, or its mask."""
    layout = cast(OutputLayout, request.format)
    if request.out is not None:
        out = named_output(request.out, described, layout)
        require_writable(out, ELSEWHERE)
    paths = output_paths(out, described, m=request.m or 1, layout=layout, shard=request.part, original=request.original)
    refuse_sources(paths, named.data, "the table that is imputed")
    refuse_sources(paths, [named.mask] if named.mask else [], "the mask of the table")
    if request.out is not None:
        refuse_type(out, layout)
    if request.delta:
        refuse_existing([record_path(out, request.part)], force=request.force)
    return out


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
    blanks, stay = blanks_of(fitted, request), np.zeros(2, np.int64)
    stored = registry.SAMPLERS[sampler].traits.stored
    if (stored or blanks) and seen.incomplete:
        sampling = Sampling(fitted, request, Work(reporter), incomplete=seen.incomplete) if stored else None
        for block in source.rows.blocks():
            rows = fitted.rows(block.table, keys.of(block.table))
            stay += to_stay_blank(blanks, rows, fitted.schema)
            if sampling is not None:
                sampling.require(rows)
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
        stay=(int(stay[0]), int(stay[1])),
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
    blanks: bool = True,
) -> Filled:
    """Draw the holes of a table that is held in memory, or read into it (default: the fitted table).

    keys    what keys the randomness of its rows; None: `keyed_by_content` decides
    even    whether the draws of a cell divide its distribution among them (`KeyedNoise.strata`), so that the mean of a
            few is near that of many; else they are independent
    blanks  whether blank answers speak where the table is the fitted one; else a fill depends on its row alone

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
    sampling.of_table(table.sha256, blanks=blanks).even = even
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
