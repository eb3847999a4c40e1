"""`vgi sample`: rows from the model of a run, written as the table that was fitted."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import BinaryIO, TypeAlias

import numpy as np
import torch
from torch import Tensor

from vgi_cli.columns.blanks import read_blanks, staying, take_back, unasked_holes, unasked_when_drawn, without_value_in
from vgi_cli.columns.numerals import Bools, Floats
from vgi_cli.columns.schema import Schema
from vgi_cli.columns.wording import named
from vgi_cli.commands.requests import SampleRequest
from vgi_cli.commands.run_table import compute_on, fitted_or_new, seed_of
from vgi_cli.commands.samplers import build_imputer
from vgi_cli.commands.sampling import beyond_zero, coherent_in, uniform_beside, uniform_of
from vgi_cli.encoding.encoder import box as box_of
from vgi_cli.encoding.encoder import decode, unpool
from vgi_cli.encoding.keeping import keep_but_for_blanks
from vgi_cli.encoding.mostly_empty import mostly_empty_names
from vgi_cli.encoding.redrawing import DrawnRows
from vgi_cli.errors import RunError, UsageError
from vgi_cli.fitting.fitted import FittedTable, load
from vgi_cli.fitting.plan import stream
from vgi_cli.machine.work import OutOfTime, TimeUp, giving_up, limit_of, watch_signals
from vgi_cli.maths.noise import KeyedNoise, row_keys
from vgi_cli.reporting import ROWS, WRITING, Reporter
from vgi_cli.samplers.base import Box, impute
from vgi_cli.samplers.rows import ROUNDS, TooFewInside, draw_rows
from vgi_cli.samplers.selected import Coherent, Selected
from vgi_cli.settings.options import Frame
from vgi_cli.table.base import Table
from vgi_cli.table.blank import blank_arrow_table, blank_csv
from vgi_cli.table.draws import HeldDraws, require_finite
from vgi_cli.table.fills import avoid_codes, find_styles
from vgi_cli.table.frames import content_frame
from vgi_cli.table.inputs import Origin
from vgi_cli.table.outputs import output_format, refuse_safe
from vgi_cli.table.source import Whole
from vgi_cli.table.writer import Content, write_blocks

AT_ONCE = 4096
"""Rows of a model with exact conditionals that are drawn together."""
TEXT = Origin("", ".csv")
"""What a file is whose extension does not say it."""
FIRST = torch.tensor([0])
"""The only draw."""

_Idle: TypeAlias = Callable[[Tensor], Tensor]


def sample(request: SampleRequest, reporter: Reporter, stdout: BinaryIO | None = None) -> list[Path]:
    """Draw rows and write them. The file written, none when they went to stdout.

    Raises UsageError, InputError or RunError before anything is written, and TimeUp where the time limit is over first.
    """
    reporter.plan([ROWS, WRITING])
    to_stdout = request.folder is None or request.out == "-"
    out = (sys.stdout.buffer if stdout is None else stdout) if to_stdout else request.folder
    assert out is not None
    format = output_format(out, TEXT) if isinstance(out, Path) else "csv"
    if request.safe_cells:
        refuse_safe(format)
    content = _content(request, reporter, format == "parquet")._replace(safe=request.safe_cells)
    with reporter.stage(WRITING):
        return write_blocks(content, layout="single", out=out, force=request.force, say=reporter.say)


def sample_frame(request: SampleRequest, reporter: Reporter) -> Frame:
    """Draw rows and return them as a pandas DataFrame. Raises as `sample` does."""
    reporter.plan([ROWS])
    return content_frame(_content(request, reporter, True), say=reporter.say)


def _content(request: SampleRequest, reporter: Reporter, typed: bool) -> Content:
    """The rows, to be written as text, or `typed`."""
    limit = limit_of(request.settings, request.started)
    with watch_signals():
        fitted = load(request.open(verify=True), reporter)
        fitted.say_unused_plugins(reporter)
        schema, reading = fitted.schema, fitted.recipe.table
        seed = seed_of(fitted, request)
        keys = row_keys([f"sample {i}" for i in range(request.n)])
        stay = _patterns(fitted, request, seed, keys) if request.missing else {}
        rules = read_blanks(request.leave_blank or (), schema, reading.decimal)
        with reporter.stage(ROWS, "rows", limit.end) as stage:
            watch = giving_up(limit.over, lambda share: stage(share, share * request.n, request.n))
            try:
                x, diagnostics = _rows(
                    fitted, KeyedNoise(seed, schema.layout.names, keys, FIRST, "sample"), request, watch
                )
            except OutOfTime:
                raise TimeUp(
                    f"stopped while rows were drawn: {limit.words()} was over; nothing was written",
                    "give it more time, or ask for fewer rows (-n)",
                ) from None
    for line in beyond_zero(schema, diagnostics, "cells"):
        reporter.warn(line)
    tokens, n = reading.na_values, request.n
    table: Table = (
        blank_arrow_table(schema, n, tokens)
        if typed
        else blank_csv(
            schema,
            n,
            na_values=tokens,
            delimiter=reading.delimiter,
            decimal=reading.decimal,
            paths=fitted.run.record.data.paths,
        )
    )
    codes = unpool(decode(x, schema)[None], schema, seed, keys)
    every = np.ones(codes.shape[1:], bool)
    require_finite(codes, every, schema.layout.columns)
    noise = KeyedNoise(seed, schema.layout.names, keys, FIRST, "sample")
    uniform = functools.partial(uniform_of, noise, schema)
    drawn = DrawnRows(codes, codes[0], every, uniform, functools.partial(uniform_beside, noise, schema))

    def blanks(draws: Floats) -> Bools:
        return staying(rules, draws, codes[0], every, schema)[1]

    keep_but_for_blanks(drawn, blanks if rules else None, schema, None)
    avoid_codes(codes, table, schema)
    unasked = unasked_holes(without_value_in(schema), codes, codes[0], every, schema)
    take_back(rules, codes, codes[0], every, schema)
    _leave_unasked(unasked, codes, stay, schema, reporter)
    _say_empty(codes[0], stay, schema, reporter)
    return Content(Whole(table), schema, find_styles([table], schema), HeldDraws(codes), stay)


def _leave_unasked(
    unasked: Bools, codes: Floats, stay: Mapping[str, Bools], schema: Schema, reporter: Reporter
) -> None:
    """Put NaN in place of values, codes [1, n, columns], that are `unasked` [1, n, columns], in place, and say of how
    many; `stay`: where holes of each column are."""
    taken = unasked & ~np.isnan(codes)
    codes[taken] = np.nan
    for place, column in enumerate(schema.encoded):
        if column.name in stay:
            taken[..., place] &= ~stay[column.name]
    if count := int(taken.sum()):
        names = [schema.modelled[place] for place in np.flatnonzero(taken.any((0, 1))).tolist()]
        reporter.say(
            f"{count:,} cell{'s' * (count > 1)} of {named('column', names)} {'are' if count > 1 else 'is'} left blank: "
            "by another cell of the row, no such row of the fit has one there"
        )


def _say_empty(codes: Floats, stay: Mapping[str, Bools], schema: Schema, reporter: Reporter) -> None:
    """A warning of columns that were missing in most rows of the fit and have a value in all of codes [n, columns];
    arguments as of `_leave_unasked`."""
    filled = [
        name
        for name in mostly_empty_names(schema)
        if name not in stay and not np.isnan(codes[:, schema.modelled.index(name)]).any()
    ]
    if filled and len(codes):
        reporter.warn(
            f"{named('column', filled)} {'was' if len(filled) == 1 else 'were'} missing in most rows of the fit, the "
            "other columns far less often: synthetic rows have a value in all (`vgi sample --missing` gives them the "
            "holes of fitted rows)"
        )


def _rows(
    fitted: FittedTable, noise: KeyedNoise, request: SampleRequest, watch: Callable[[float], None]
) -> tuple[Tensor, Mapping[str, object]]:
    """[n, D] encoded rows of the fitted model, on the CPU, all cells within what their columns admit, and what is known
    of how they were drawn; what is drawn for questions that a row is not asked decides nothing. A model with exact
    conditionals draws them as it fills rows without any observed cell; of others whole rows are drawn until they lie
    within. OutOfTime where `watch` says so, RunError where hardly any row does."""
    n, device = len(noise.rows), compute_on(fitted, request)
    if fitted.empty:
        return torch.zeros(n, 0), {}
    ranges, model, idle = box_of(fitted.schema), fitted.model.to(device), _idle_in(fitted.schema)
    coherent = coherent_in(fitted.schema, idle)
    if not fitted.marginal:
        dtype = next(model.parameters()).dtype
        box = Box(ranges.low.to(device, dtype), ranges.high.to(device, dtype))
        apart, generators = _apart(fitted.schema), functools.partial(_generator, noise.seed)
        accepted = functools.partial(_accepted, coherent)
        try:
            return _within(draw_rows(model, n, box, generators, watch, accepted, idle), box, idle).cpu(), {}
        except TooFewInside:
            raise RunError(
                f"run '{fitted.run.name}': fewer than one in {ROUNDS:,} rows of the model lie within the bounds of "
                f"every column{f' and keep {apart}' if apart else ''}",
                "fit longer, or with wider bounds (--bounds)",
            ) from None
    imputer, dtype = build_imputer(fitted, "exact", [model], device, idle=idle)
    if _apart(fitted.schema):
        imputer = Selected(imputer, lambda x, _: _accepted(coherent, x).to(x.dtype), coherent)
    box = Box(ranges.low.to(device, dtype), ranges.high.to(device, dtype))
    parts = []
    for some in torch.arange(n).split(AT_ONCE):
        watch(int(some[0]) / n)
        empty = torch.zeros(len(some), len(noise.columns), dtype=dtype, device=device)
        drawn = impute(imputer, empty, torch.ones_like(empty, dtype=torch.bool), noise.select(rows=some), box)
        parts.append(_within(drawn[0], box, idle).cpu())
    return torch.cat(parts), imputer.diagnostics()


def _apart(schema: Schema) -> str:
    """What drawn rows are asked to keep beside the limits of the columns; empty: nothing."""
    zeros = "cells apart that never go together" if schema.structural_zeros else ""
    compared = "to what columns say of which of two others is greater" if schema.comparisons else ""
    return " and ".join(filter(None, (zeros, compared)))


def _generator(seed: int, block: int) -> torch.Generator:
    """The generator of a block of rows."""
    return stream(seed, f"sample/{block}")


def _idle_in(schema: Schema) -> _Idle | None:
    """Which cells of drawn encoded rows [.., D] are of questions that their row is not asked; None: the fit found no
    such questions."""
    unasked = unasked_when_drawn(schema)
    if unasked is None:
        return None
    return lambda x: torch.from_numpy(unasked(x.double().cpu().numpy())).to(x.device)


def _within(x: Tensor, box: Box, idle: _Idle | None) -> Tensor:
    """Rows with the cells that hold nothing at the nearest place in the box: wherever these lie, they stay blank."""
    return x if idle is None else torch.where(idle(x), x.clamp(box.low, box.high), x)


def _accepted(coherent: Coherent, x: Tensor) -> Tensor:
    """[..] which encoded rows x [.., D] hold no cells together that never go together, but for those that are idle."""
    rows = x.reshape(1, -1, x.shape[-1])
    return coherent.accepted(rows, torch.ones_like(rows[0], dtype=torch.bool), None).view(x.shape[:-1])


def _patterns(fitted: FittedTable, request: SampleRequest, seed: int, keys: Tensor) -> Mapping[str, Bools]:
    """Of each column that is filled the holes [n] of fitted rows, each chosen at random among all. UsageError where the
    run does not keep its table."""
    paths = fitted.run.record.data.paths
    if request.table is None and paths in ((), ("-",), None):
        source = "standard input" if paths else "a table in memory"
        raise UsageError(
            f"--missing: the run was fitted on {source}, which it does not keep", "leave it out, or fit a file"
        )
    table = fitted_or_new(fitted, request, "leave out --missing") if request.table is None else request.table
    chosen = (KeyedNoise(seed, ("row",), keys, FIRST, "sample/pattern").uniform()[0, :, 0] * table.N).long().numpy()
    return {c.name: table.missing(c.name)[chosen] for c in (*fitted.schema.encoded, *fitted.schema.constants)}
