"""`vgi impute --delta`: fills away from what the model would put there, and what is written down about it."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor

from vgi_cli.columns.base import ModelledColumn
from vgi_cli.columns.deltas import Delta, read_deltas, shifted, unit_of
from vgi_cli.columns.number import Number
from vgi_cli.columns.numerals import Bools, Floats, plain
from vgi_cli.columns.schema import Schema
from vgi_cli.columns.wording import some_of
from vgi_cli.encoding.redundant import every_kept
from vgi_cli.errors import UsageError
from vgi_cli.fitting.fitted import FittedTable
from vgi_cli.fitting.rows import Rows
from vgi_cli.maths.noise import KeyedNoise
from vgi_cli.maths.odds import redrawn
from vgi_cli.reporting import Reporter
from vgi_cli.runs.files import json_bytes, write_atomic
from vgi_cli.samplers.base import ROW_BLOCK, Imputer
from vgi_cli.table.inputs import split_name
from vgi_cli.table.shard import Shard

RECORD = ".delta.json"
"""What the record is called, after the stem of the output."""
FAR_SHIFT = 10.0
"""Ranges of the fitted values from which on a shift is far."""
ABLE = ("exact", "trees", "metropolis")
"""Samplers that can tell the probabilities of a cell's levels given the other cells of its row."""


@dataclass
class _Count:
    """Fills of a column, in all draws together: how many there are, how many levels changed, how many numbers were
    stopped by a bound."""

    cells: int = 0
    changed: int = 0
    stopped: int = 0


class Deltas:
    """What is done to the draws of a table, which may come in blocks. Each cell moves by itself: its own column's law
    is that of the model given the other cells of the row as they were drawn, then shifted, or with other odds. The
    fills of every other column stay as they are."""

    def __init__(self, texts: Sequence[str], fitted: FittedTable, sampler: str) -> None:
        """UsageError for shifts that have no meaning for the run or its sampler."""
        self._schema = fitted.schema
        self._deltas = read_deltas(texts, fitted.schema)
        self._counts = [_Count() for _ in self._deltas]
        odds = next((delta for delta in self._deltas if delta.level is not None), None)
        if odds is not None and sampler not in ABLE:
            able = " or ".join(ABLE)
            raise UsageError(
                f"--delta {odds.said}: factors of odds need --sampler {able}, and run '{fitted.run.name}' draws by "
                f"'{sampler}'",
                "shift columns of numbers, or use a mixture or a flow",
            )

    def __bool__(self) -> bool:
        return bool(self._deltas)

    @property
    def places(self) -> list[int]:
        """Of those that are moved, among the modelled columns."""
        return [delta.column for delta in self._deltas]

    @property
    def _columns(self) -> set[str]:
        """Their names."""
        return {self._schema.modelled[place] for place in self.places}

    def turn_levels(self, x: Tensor, rows: Rows, noise: KeyedNoise, imputer: Imputer) -> Tensor:
        """Encoded draws [m, N, D] with the missing cells of levels at their other odds."""
        out = x.clone() if any(delta.level is not None for delta in self._deltas) else x
        for delta, count in zip(self._deltas, self._counts, strict=True):
            if delta.level is None:
                continue
            j = self._schema.layout.slices[delta.column].start
            holes = rows.table.missing[:, j].nonzero()[:, 0].to(x.device)
            if len(holes) == 0:
                continue
            u = noise.at("delta").uniform([noise.columns[j]])[..., 0]
            for draw, number in enumerate(noise.draws.tolist()):
                for some in holes.split(ROW_BLOCK):  # always as many: rounding cannot depend on the batch
                    index = torch.nn.functional.pad(some, (0, ROW_BLOCK - len(some)), value=int(some[-1]))
                    probabilities = imputer.level_probabilities(x[draw, index], j, number)
                    assert probabilities is not None
                    before = x[draw, some, j]
                    after = redrawn(before, probabilities[: len(some)], delta.level, delta.factor, u[draw, some])
                    out[draw, some, j] = after
                    count.changed += int((after != before).sum())
            count.cells += len(holes) * len(x)
        return out

    def move(self, draws: Floats, levels: tuple[Floats, Floats] | None, rows: Rows, noise: KeyedNoise) -> Floats:
        """Decoded draws [m, N, columns] with the missing cells moved: numbers and moments by their shift; `levels`, as
        they were drawn and as they are at other odds, where these differ."""
        draws = draws.copy()
        for delta, count in zip(self._deltas, self._counts, strict=True):
            if delta.shift is None:
                if levels is not None:
                    before, after = (codes[..., delta.column] for codes in levels)
                    draws[..., delta.column] = np.where(before == after, draws[..., delta.column], after)
                continue
            missing = rows.table.missing[:, self._schema.layout.slices[delta.column].start]
            holes = np.flatnonzero(missing.numpy())
            u = noise.at("delta").uniform([self._schema.modelled[delta.column]])[..., 0].cpu().numpy()
            moved = shifted(self._schema.encoded[delta.column], draws[:, holes, delta.column], delta.shift, u[:, holes])
            draws[:, holes, delta.column] = moved.codes
            count.cells += moved.codes.size
            count.stopped += int(moved.stopped.sum())
        return draws

    def say(self, reporter: Reporter) -> None:
        """A line for each."""
        for delta, count in zip(self._deltas, self._counts, strict=True):
            moved = f"{count.changed:,} of {count.cells:,} fills changed their level"
            if delta.shift is not None:
                moved = f"{count.cells:,} fills moved by {delta.shift:+.6g}"
                moved += f", {count.stopped:,} of them stopped by a bound" * (count.stopped > 0)
            reporter.say(f"--delta {delta.said}: {moved}")
            column = self._schema.encoded[delta.column]
            if delta.shift is not None and isinstance(column, Number) and not column.levels:
                times = abs(delta.shift) / (column.high - column.low)
                if times > FAR_SHIFT:
                    seen = f"{plain(column.low)} to {plain(column.high)}"
                    reporter.warn(f"--delta {delta.said}: {times:.3g} times the range of '{column.name}', {seen}")
        for line in self._left_out():
            reporter.warn(line)

    def _left_out(self) -> list[str]:
        """A line on what fills that are moved do not keep to; none where there is nothing."""
        words = every_kept(self._schema, self._columns)
        return [f"fills that --delta moves do not keep to {some_of(words)}"] if words else []

    def plans(self) -> list[str]:
        """What would be done to the fills, a line for each."""
        out = []
        for delta in self._deltas:
            column = self._schema.encoded[delta.column]
            if delta.shift is None:
                out.append(f"odds of '{_level(delta, column)}' in '{column.name}' times {delta.factor:g}")
                continue
            out.append(f"fills of '{column.name}' by {delta.shift:+.6g} {unit_of(column)}".rstrip())
        return [*out, *self._left_out()]

    def record(self) -> list[dict[str, Any]]:
        """What the record says of each."""
        out = []
        for delta, count in zip(self._deltas, self._counts, strict=True):
            column = self._schema.encoded[delta.column]
            own: dict[str, Any] = {"column": column.name, "said": delta.said, "fills": count.cells}
            if delta.shift is None:
                out.append(own | {"level": _level(delta, column), "factor": delta.factor, "changed": count.changed})
            else:
                out.append(own | {"shift": delta.shift, "stopped": count.stopped})
        return out


def _level(delta: Delta, column: ModelledColumn) -> str:
    """The level whose odds change, as its column writes it."""
    return column.spell(np.array([float(delta.level or 0)]), None)[0]


def record_path(out: Path, shard: Shard | None = None) -> Path:
    """Where the record of an output lies: `filled.delta.json` beside `filled.csv` or `filled.1.csv` …; of a shard
    `filled.shard-1-of-3.delta.json`."""
    named = out if shard is None else shard.named(out)
    return named.with_name(split_name(named)[0] + RECORD)


def record_of_others(path: Path, written: Collection[str]) -> None:
    """Take the files that were written anew, without `--delta`, out of the record of earlier ones, and the record away
    where it names no other that is there. What is no such record stays as it is."""
    record = _record(path)
    if record is None:
        return
    others = _others(record, path, written)
    if not others:
        path.unlink(missing_ok=True)
    elif others != record["files"]:
        write_atomic(path, json_bytes(record | {"files": others}))


def files_of_others(path: Path, written: Collection[str]) -> list[str]:
    """The files that the record of an earlier call names, which are there and were not written anew."""
    record = _record(path)
    return [] if record is None else _others(record, path, written)


def _others(record: Mapping[str, Any], path: Path, written: Collection[str]) -> list[str]:
    files = map(str, record["files"])
    return [name for name in files if name not in written and (path.parent / name).exists()]


def _record(path: Path) -> dict[str, Any] | None:
    """A record that was written before; None where there is none, or something else."""
    try:
        record = json.loads(path.read_bytes())
        known = bool(record["deltas"]) and isinstance(record["files"], list)
    except (OSError, ValueError, LookupError, TypeError):
        return None
    return cast(dict[str, Any], record) if known else None


class Tip(NamedTuple):
    """Means of a column's cells, observed and filled, at one shift of the fills.

    shift      in the column's units
    estimates  [m] mean of each completed table
    variances  [m] their squared standard errors
    stopped    share of the fills that a bound stopped
    """

    shift: float
    estimates: Floats
    variances: Floats
    stopped: float


def means_over_shifts(
    schema: Schema, column: str, draws: Floats, missing: Bools, shifts: Sequence[float], u: Floats | None = None
) -> list[Tip]:
    """How the mean of a column of numbers or moments moves with a shift of its fills, without drawing them again.

    draws    [m, N, columns] completed rows in data units, m at least 2 (commands/impute.py: `filled`)
    missing  [N] the holes of the column; the row is left out where a cell neither was observed nor filled (NaN)
    shifts   in the column's units; of k standard deviations k times its `deviation`
    u        [m, N] uniform on (0, 1), for the rounding; None: always the same ones

    `pooling.rubin.combine` pools the means of a Tip (each with an axis of one quantity). UsageError for a column of
    levels, or one that is not modelled.
    """
    place = read_deltas([f"{column}=0"], schema)[0].column
    values, own = draws[..., place], schema.encoded[place]
    at = np.random.default_rng(0).random(values.shape) if u is None else u
    out = []
    for shift in shifts:
        completed = values.copy()
        moved = shifted(own, values[:, missing], shift, at[:, missing])
        completed[:, missing] = moved.codes
        known = ~np.isnan(completed[0])
        n = int(known.sum())
        variances = completed[:, known].var(1, ddof=1) / n
        stopped = float(moved.stopped.mean()) if moved.stopped.size else 0.0
        out.append(Tip(float(shift), completed[:, known].mean(1), variances, stopped))
    return out
