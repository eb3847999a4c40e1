"""`vgi impute`: draws of every hole of a modelled column, from the fitted model."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor

from vgi_cli.columns.base import Schema
from vgi_cli.columns.numerals import Floats
from vgi_cli.commands.impute_options import ImputeOptions, with_draws
from vgi_cli.commands.samplers import make_imputer
from vgi_cli.encoding.encoder import RowKeys, decode
from vgi_cli.encoding.encoder import box as box_of
from vgi_cli.encoding.leftover import Holes
from vgi_cli.errors import UsageError
from vgi_cli.fitting.fitted import Fitted, load_run
from vgi_cli.fitting.prepare import Rows, check_same_data, open_blocks, read, rows_of, survey
from vgi_cli.machine.clock import OutOfTime, TimeLimit, TimeUp, giving_up, limit_of
from vgi_cli.machine.device import available, resolve_device, set_threads
from vgi_cli.machine.signals import watch_signals
from vgi_cli.maths.noise import KeyedNoise
from vgi_cli.reporting import Reporter, Silent, Stage
from vgi_cli.samplers.base import Box, Imputer
from vgi_cli.samplers.base import impute as impute_rows
from vgi_cli.settings.problems import Settings, origin
from vgi_cli.settings.recipe import TableSettings
from vgi_cli.stages import DRAWING, READING, WRITING
from vgi_cli.table.draws import SpooledDraws
from vgi_cli.table.fills import avoid_codes
from vgi_cli.table.outputs import Layout, output_paths, refuse_sources, refuse_type
from vgi_cli.table.reader import Table
from vgi_cli.table.source import Block, Source, Whole
from vgi_cli.table.writer import Content, check_output, default_output, write_blocks


class Imputed(NamedTuple):
    """draws [m, N, D] in data units and in the order of the schema's modelled columns; what the sampler reports."""

    draws: Floats
    diagnostics: dict[str, object]
    sampler: str


def impute(
    checkpoint: Path,
    settings: Settings,
    options: ImputeOptions,
    reporter: Reporter | None = None,
    table: Table | None = None,
    stdout: BinaryIO | None = None,
    started: float | None = None,
) -> list[Path]:
    """Impute DATA (default: the fitted table) and write it. Returns the files written, none when they went to stdout.

    The table is read in blocks of rows: once to check it, once to draw, and once for every table that is written. The
    draws wait in a temporary file. Raises UsageError, InputError, RunError or HolesLeft before anything is written, and
    TimeUp, with nothing written, where the time limit (counted from the monotonic time `started`) is over first.
    """
    reporter = Silent() if reporter is None else reporter
    limit = limit_of(settings, time.monotonic() if started is None else started)
    with watch_signals():
        reporter.plan([READING, DRAWING, WRITING])
        fitted = load_run(checkpoint, reporter)
        fitted.say_unused_plugins(reporter, options.sampler)
        options = with_draws(options, fitted, reporter)
        with reporter.stage(READING, "rows") as stage:
            source = blocks_of(fitted, settings) if table is None else Whole(table)
            stage(0.5)
            described = source.origin
            told = _Told(source, lambda share, rows: stage(0.5 + 0.5 * share, rows))
            seen = survey(told, fitted.schema, reporter, options.strict)
        out: Path | BinaryIO = sys.stdout.buffer if stdout is None else stdout
        if options.out is None:
            out = default_output(checkpoint / "imputed", described)
        elif options.out != "-":
            out = Path(options.out)
        layout = cast(Layout, options.layout)
        format = None if isinstance(out, Path) else described.format
        files = options.m if layout == "files" else 1
        if isinstance(out, Path):
            named = name_of(fitted, settings) if table is None else TableName([], None, fitted.recipe.table, False)
            paths = output_paths(out, described, m=files or 1, layout=layout)
            refuse_sources(paths, named.data, "the table that is imputed")
            refuse_sources(paths, [named.mask] if named.mask else [], "the mask of the table")
            if options.out is not None:
                refuse_type(out)
        check_output(described, layout=layout, out=out, m=files or 1, format=format, force=options.force)
        sampling = Sampling(fitted, settings, options, reporter, limit, table)
        with closing(SpooledDraws(sampling.kept, out if isinstance(out, Path) else None)) as draws:
            keys = RowKeys(fitted.schema, table is not None and keyed_by_content(fitted, table))
            sampling.fill(source, seen.incomplete, draws, keys)
            if options.point is not None:
                reporter.warn(
                    f"the {options.point} of {options.m} draws is a best guess without its uncertainty: not for "
                    "standard errors or tests"
                )
            elif options.layout == "single":
                reporter.warn(
                    "one filled table does not show how uncertain its fills are: standard errors and tests need "
                    "several (--format files or long)"
                )
            passes = draws.m + (layout == "long" and options.original)
            with reporter.stage(WRITING, until=limit.end) as stage:
                watched = giving_up(lambda: isinstance(out, Path) and limit.over(), stage)
                content = Content(_Told(source, _passes(watched, passes)), fitted.schema, seen.styles, draws)
                try:
                    written = write_blocks(
                        content,
                        layout=layout,
                        out=out,
                        format=format,
                        original=options.original,
                        force=options.force,
                        say=reporter.say,
                    )
                except OutOfTime:
                    raise TimeUp(
                        f"stopped while the tables were written: {limit.words()} was over; nothing was kept",
                        "give it more time, or ask for fewer draws (--m)",
                    ) from None
        say_filled(seen.holes, sampling.kept, reporter)
        return written


class _Told(Source):
    """A table whose reading is told: after each block the share of the rows and their number."""

    def __init__(self, source: Source, tell: Callable[[float, int], None]) -> None:
        self._source, self._tell = source, tell
        self.origin = source.origin

    def blocks(self) -> Iterator[Block]:
        """See Source."""
        for block in self._source.blocks():
            yield block
            rows = block.first + block.table.N
            self._tell(rows / self.origin.N, rows)


def _passes(tell: Callable[[float], None], count: int) -> Callable[[float, int], None]:
    """What is told of `count` passes over the rows, or of a few more, as one share."""
    passes = 0

    def told(share: float, rows: int) -> None:
        nonlocal passes
        tell((passes + share) / max(count, passes + 1))
        passes += share == 1.0

    return told


def point_estimate(draws: Floats, point: str, schema: Schema) -> Floats:
    """[1, N, D]: mean or median over draws [m, N, D], at each column's resolution (whole for integers)."""
    value = np.mean(draws, 0, keepdims=True) if point == "mean" else np.median(draws, 0, keepdims=True)
    return (
        np.stack([column.snap(value[..., i]) for i, column in enumerate(schema.encoded)], -1) if value.size else value
    )


class TableName(NamedTuple):
    """Where a table is and how it is read; `fitted`: it is the one that the run was fitted on."""

    data: Sequence[str]
    mask: str | None
    reading: TableSettings
    fitted: bool


def name_of(fitted: Fitted, settings: Settings) -> TableName:
    """The table that is named, else the one that the run was fitted on. UsageError where the run does not know it."""
    named, mask = value_of(settings, "data"), value_of(settings, "mask")
    if named is not None:
        return TableName(named, mask, table_settings(settings, fitted.recipe.table), False)
    data = fitted.run.record.data
    if not data.paths or data.paths == ("-",):
        source = "standard input" if data.paths else "a table in memory"
        raise UsageError(f"the run was fitted on {source}, which it does not keep", "give DATA")
    if mask is not None or any(key.startswith("table.") for key in settings):
        raise UsageError("--mask, --na-values and --delimiter belong to DATA", "give DATA")
    return TableName(data.paths, data.mask, fitted.recipe.table, True)


def fitted_or_new(fitted: Fitted, settings: Settings) -> Table:
    """The table that is named, else the fitted one (InputError when it has changed), in memory."""
    name = name_of(fitted, settings)
    table = read(name.data, name.mask, name.reading)
    if name.fitted:
        check_same_data(fitted.run, table)
    return table


def blocks_of(fitted: Fitted, settings: Settings) -> Source:
    """The same table, to be read in blocks."""
    name = name_of(fitted, settings)
    source = open_blocks(name.data, name.mask, name.reading)
    if name.fitted:
        check_same_data(fitted.run, source.origin)
    return source


def value_of(settings: Settings, key: str) -> Any:
    """What was said of a setting, else none."""
    return settings[key].value if key in settings else None


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
            self._stage((self.done + share * rows) / max(self.count, 1), self.done, self.count)

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
        fitted: Fitted,
        settings: Settings,
        options: ImputeOptions,
        reporter: Reporter,
        limit: TimeLimit | None = None,
        table: Table | None = None,
    ) -> None:
        """`options`: with the number of draws; `table`: what is imputed, where it is in memory. UsageError for a
        device, sampler or uncertainty that cannot be; TimeUp where the limit is over."""
        self._fitted, self._options, self._reporter = fitted, options, reporter
        self._limit = TimeLimit() if limit is None else limit
        self._m = cast(int, options.m)
        self._device = compute_on(fitted, settings)
        self._seed = seed_of(fitted, settings)
        self.sampler = fitted.sampler(options.sampler)
        self._imputer: Imputer | None = None
        self._moved: dict[str, int] = {}
        if not fitted.empty:
            self._imputer, self._dtype = make_imputer(
                fitted,
                self.sampler,
                options.uncertainty,
                self._m,
                self._device,
                reporter,
                value_of(settings, "compile") or fitted.recipe.compile,
                table,
                self._limit,
            )

    @property
    def kept(self) -> int:
        """Tables that come out: one for each draw, or one of point estimates."""
        return self._m if self._options.point is None else 1

    def fill(self, source: Source, incomplete: int, draws: SpooledDraws, keys: RowKeys) -> None:
        """Draw block by block; `incomplete`: rows with a hole, for the progress. TimeUp where the limit is over."""
        done = 0
        with self._reporter.stage(DRAWING, "rows", self._limit.end) as stage:
            for block in source.blocks():
                rows = rows_of(block.table, self._fitted.schema, self._fitted.recipe.seed, keys=keys.of(block.table))
                watch = Watch(stage, done, incomplete, self._limit.over)
                try:
                    drawn = self.draw(rows, watch)
                except OutOfTime:
                    raise self._time_up(watch) from None
                self.keep_off_codes(drawn, block.table)
                draws.add(block.first, rows.table.missing.numpy(), drawn)
                done += int(rows.table.missing.any(1).sum())
        self.finish()

    def _time_up(self, watch: Watch) -> TimeUp:
        count = f"{watch.done:,} of {watch.count:,} rows with holes"
        return TimeUp(
            f"stopped while the holes were filled: {self._limit.words()} was over after {count}; nothing was written",
            "give it more time, or ask for fewer draws (--m)",
        )

    def whole(self, rows: Rows) -> Floats:
        """As `draw`, of rows that are all there are, as a stage. TimeUp where the limit is over."""
        count = int(rows.table.missing.any(1).sum())
        with self._reporter.stage(DRAWING, "rows", self._limit.end) as stage:
            watch = Watch(stage, 0, count, self._limit.over)
            try:
                return self.draw(rows, watch)
            except OutOfTime:
                raise self._time_up(watch) from None

    def draw(self, rows: Rows, watch: Watch) -> Floats:
        """[m, N, D] draws of some rows in data units, or [1, N, D] point estimates. OutOfTime where the watch says
        so."""
        schema = self._fitted.schema
        if self._imputer is None:
            draws = decode(rows.table.x.expand(self._m, -1, -1), schema)
        else:
            ranges = box_of(schema)
            box = Box(ranges.low.to(self._device, self._dtype), ranges.high.to(self._device, self._dtype))
            numbers = torch.arange(self._m, device=self._device)
            noise = KeyedNoise(self._seed, schema.layout.names, rows.keys.to(self._device), numbers)
            x = self._draw_rows(self._imputer, rows, noise, box, watch)
            draws = decode(x.cpu(), schema)
        return draws if self._options.point is None else point_estimate(draws, self._options.point, schema)

    def _draw_rows(self, imputer: Imputer, rows: Rows, noise: KeyedNoise, box: Box, watch: Watch) -> Tensor:
        """[m, N, D] encoded: incomplete rows drawn, complete rows as they are."""
        x, missing = rows.table.x.to(self._device, self._dtype), rows.table.missing.to(self._device)
        out = x.expand(len(noise.draws), *x.shape).clone()
        index = missing.any(1).nonzero()[:, 0]
        for some in index.split(imputer.rows_at_once(len(noise.draws))):
            imputer.watch = watch.within(len(some))
            out[:, some] = impute_rows(imputer, x[some], missing[some], noise.select(rows=some), box)
            watch.add(len(some))
        return out

    def keep_off_codes(self, draws: Floats, table: Table) -> None:
        """Move the draws [m, N, D] of a table that would read as missing there."""
        for name, count in avoid_codes(draws, table, self._fitted.schema).items():
            self._moved[name] = self._moved.get(name, 0) + count

    def finish(self) -> dict[str, object]:
        """After the last rows: what the sampler reports."""
        for name, count in self._moved.items():
            fills = "fill was a number that means" if count == 1 else "fills were numbers that mean"
            self._reporter.say(f"column '{name}': {count} {fills} missing (--na-values): the next value was taken")
        diagnostics = {} if self._imputer is None else self._imputer.diagnostics()
        report_diagnostics(self.sampler, diagnostics, self._reporter)
        return diagnostics


def draw(
    fitted: Fitted,
    table: Table,
    settings: Settings,
    options: ImputeOptions,
    reporter: Reporter,
    limit: TimeLimit | None = None,
) -> Imputed:
    """`options.m` draws of every hole of a table in memory, or their mean or median. TimeUp where the limit is over."""
    sampling = Sampling(fitted, settings, options, reporter, limit, table)
    keys = RowKeys(fitted.schema, keyed_by_content(fitted, table)).of(table)
    draws = sampling.whole(rows_of(table, fitted.schema, fitted.recipe.seed, keys=keys))
    sampling.keep_off_codes(draws, table)
    return Imputed(draws, sampling.finish(), sampling.sampler)


def keyed_by_content(fitted: Fitted, table: Table) -> bool:
    """Whether the rows of a table are keyed by what they hold, and not by their number: those of tables that were
    handed over in memory, which may come row by row, but for the one that was fitted."""
    return table.in_memory and table.sha256 != fitted.run.manifest["data"]["sha256"]


def seed_of(fitted: Fitted, settings: Settings) -> int:
    """The seed that was said, else the run's."""
    seed = value_of(settings, "seed")
    return int(fitted.run.record.seeds["fit"] if seed is None else seed)


def compute_on(fitted: Fitted, settings: Settings) -> torch.device:
    """Set the threads and return the device: what was said, else those of the fit (the CPU where its GPU is gone)."""
    before = fitted.run.record
    set_threads(value_of(settings, "threads") or before.threads or 1)
    name = value_of(settings, "device")
    if name is not None:
        return resolve_device(name, origin(settings, "device", "--device"))
    return torch.device(before.device if available(before.device) else "cpu")


def say_filled(holes: Holes, tables: int, reporter: Reporter) -> None:
    """The last line: how many of a table's holes were filled, and how often."""
    reporter.say(
        f"filled {holes.filled} of {holes.total} holes" + (f" in each of {tables} tables" if tables > 1 else "")
    )


def report_diagnostics(sampler: str, diagnostics: dict[str, object], reporter: Reporter) -> None:
    """One line on how the sampler fared, for `-v`."""
    plain = [
        f"{name} {value:.4g}" if abs(value) < 9999 else f"{name} {value:.0f}"
        for name, value in diagnostics.items()
        if isinstance(value, int | float)
    ]
    if plain:
        reporter.detail(f"sampler {sampler}: " + ", ".join(plain).replace("_", " "))


def table_settings(settings: Settings, base: TableSettings) -> TableSettings:
    """How another table is read: as the fitted one, with what was said changed."""
    changes: dict[str, Any] = {}
    if "table.delimiter" in settings:
        changes["delimiter"] = value_of(settings, "table.delimiter")
    if "table.na_values" in settings:
        changes["na_values"] = tuple(value_of(settings, "table.na_values"))
    return base.model_copy(update=changes)
