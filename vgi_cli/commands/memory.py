"""What a command takes of memory, estimated before it starts, and where its table lies by that: in memory or in files.

The estimates are counts with constants that were measured (docs/scale.md); they err on the large side.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from vgi_cli.columns.wording import shortened
from vgi_cli.errors import UsageError
from vgi_cli.fitting.tables import open_blocks, read
from vgi_cli.reporting import Reporter
from vgi_cli.settings.recipe import Recipe, TableSettings
from vgi_cli.table.base import Table
from vgi_cli.table.columns import TableInFiles
from vgi_cli.table.inputs import Origin, rough_size

if TYPE_CHECKING:
    from vgi_cli.machine.memory import Ceiling

PROGRAM = 450_000_000
"""Bytes of the program itself, its libraries included."""
NETWORKS = 250_000_000
"""Bytes of loops that are compiled, and of what networks compute with, where a model or a method has any."""
CELL, CSV_CELL = 300, 60
"""Bytes of a cell of a table that is fitted in memory, at the peak, by two transforms; and of its text in CSV."""
AT_ONCE, AT_ONCE_CELL = 480_000_000, 250
"""Bytes of what a fit in memory computes at a time, of all cells or of as many as this is for; trees included."""
ROW, CSV_ROW = 160, 260
"""Bytes of a row of a table in files, at the peak: of one column as it is looked at, the order of the rows and more;
and those of the text of CSV on top."""
FILE_CELL = 5
"""Bytes of a cell of a table in files: what is missing, and the distinct patterns of it."""
STARTING, WORK_SHARE = 150_000_000, 0.3
"""Bytes of the rows that a fit starts from; and the share of the limit of what is computed on a piece of the rows."""
IMPUTING, IMPUTED_ROW = 200_000_000, 150
"""Bytes of what is computed on a block of rows, and of what is kept of each row."""
EXPANDED = 50
"""Bytes in memory of a byte of a file, at most: from here on the rows of a table are counted before it is read."""
PIECE = 200
"""Bytes of the limit for each number of the systems of equations that EM solves at a time."""
CACHE_SHARE, FREE_SHARE = 0.1, 0.8
"""Of the limit, what columns in memory may take; and of the free memory, what a command takes that has no limit."""


class Need(NamedTuple):
    """Bytes that a command takes with the table in memory, and in files (None: it cannot be)."""

    in_memory: int
    in_files: int | None


def needed(origin: Origin, *, in_files: bool, networks: bool = False) -> Need:
    """What a fit takes of a table of so many rows and columns, by a model with `networks` or without; a pure function
    of these. With its rows in files networks are part of what is computed on a piece of them."""
    csv, cells = origin.format == "csv", origin.N * len(origin.names)
    work = min(AT_ONCE, AT_ONCE_CELL * cells)
    memory = PROGRAM + NETWORKS * networks + cells * (CELL + CSV_CELL * csv) + work
    files = PROGRAM + STARTING + origin.N * (ROW + CSV_ROW * csv) + FILE_CELL * cells
    return Need(memory, int(files / (1 - WORK_SHARE)) if in_files else None)


def require_files(said: int | None, table: Table | None) -> None:
    """UsageError where a limit was said and the table is in memory already."""
    if said is not None and table is not None:
        raise UsageError("max_memory holds for tables in files, and this one is in memory", "name its files")


def require_memory(
    said: int | None, data: Sequence[str], mask: str | None, reading: TableSettings, tables: int, networks: bool = False
) -> None:
    """UsageError with the size that would do, where a command that holds so many such tables in memory may not take
    what they need, with models that have `networks` or without. `said`: the most bytes it may take; None: nobody said.
    """
    if said is None:
        return
    origin = open_blocks(data, mask, reading).origin
    need = needed(origin, in_files=False).in_memory
    refuse_beyond(said, origin, PROGRAM + NETWORKS * networks + tables * (need - PROGRAM), "looking at")


def to_impute(origin: Origin, run: int, networks: bool = False) -> int:
    """What imputing takes, block by block, of a table of so many rows and a run whose files have so many bytes, of a
    model with `networks` or without."""
    return PROGRAM + NETWORKS * networks + IMPUTING + origin.N * IMPUTED_ROW + 2 * run


def refuse_beyond(said: int, origin: Origin, bytes: int, doing: str) -> None:
    """UsageError where what takes so many bytes may not."""
    if bytes > said:
        raise UsageError(
            f"--max-memory {as_said(said)}: {doing} {_size(origin)} takes about {in_words(bytes)}",
            f"--max-memory {in_words(bytes)} would do",
        )


def in_words(size: float) -> str:
    """A size as --max-memory takes it, rounded up: `2.3G`, `650M`."""
    for unit, name in ((1e9, "G"), (1e6, "M")):
        if size >= unit:
            return f"{math.ceil(10 * size / unit) / 10:g}{name}"
    return f"{math.ceil(size / 1e3)}k"


def as_said(size: int) -> str:
    """The same, exactly: a limit that somebody gave (`1.5G`, `1250M`, `2Gi`, `1`)."""
    units = {"G": 10**9, "M": 10**6, "k": 10**3, "Gi": 2**30, "Mi": 2**20, "Ki": 2**10}
    exact = (f"{size / unit:.12g}{name}" for name, unit in units.items() if size >= unit and 10 * size % unit == 0)
    return next(exact, str(size))


def in_pieces(ceiling: Ceiling) -> AbstractContextManager[None]:
    """In this context EM computes on pieces of the rows that the limit leaves room for."""
    from vgi_cli.models.gaussian.gaussians import within  # loads torch

    return nullcontext() if ceiling.limit is None else within(ceiling.limit // PIECE)


class Placing(NamedTuple):
    """How a command may keep its table.

    said      the limit in bytes that somebody gave; None: nobody did
    why_not   why the command cannot work on a table in files; None: it can
    folder    where the files would lie
    networks  whether the model or the method has any
    """

    said: int | None
    why_not: str | None
    folder: Path
    networks: bool = False


def place(recipe: Recipe, placing: Placing, ceiling: Ceiling, reporter: Reporter) -> Table:
    """Read the table: into memory, or, where that would take more than is allowed (of the free memory, where nobody
    said), into files. UsageError with the size that would do where neither is possible."""
    from vgi_cli.machine.memory import free_ram  # loads torch: `vgi check` does without

    said = placing.said
    if said is None and (placing.why_not or recipe.data == ("-",)):
        return read(recipe.data, recipe.mask, recipe.table)
    if said is None and EXPANDED * rough_size(recipe.data) <= FREE_SHARE * free_ram():
        return read(recipe.data, recipe.mask, recipe.table)
    source = open_blocks(recipe.data, recipe.mask, recipe.table)
    need = needed(source.origin, in_files=placing.why_not is None, networks=placing.networks)
    limit = int(FREE_SHARE * free_ram()) if said is None else said
    if need.in_memory <= limit:
        return read(recipe.data, recipe.mask, recipe.table)
    _refuse(source.origin, need, placing)
    ceiling.hold(limit)
    free = "" if said is not None else f"; {in_words(limit)} are free"
    reporter.say(
        f"{_size(source.origin)}: about {in_words(need.in_memory)} in memory{free}, so its rows are kept in files in "
        f"'{placing.folder}' while it is fitted"
    )
    return TableInFiles(source, placing.folder, int(CACHE_SHARE * limit))


def _refuse(origin: Origin, need: Need, placing: Placing) -> None:
    """UsageError where a limit that was said leaves no way."""
    if placing.said is None or (need.in_files is not None and need.in_files <= placing.said):
        return
    least = need.in_memory if need.in_files is None else min(need.in_files, need.in_memory)
    files = f"and {placing.why_not}" if need.in_files is None else f"{in_words(need.in_files)} with its rows in files"
    raise UsageError(
        f"--max-memory {as_said(placing.said)}: {_size(origin)} takes about {in_words(need.in_memory)} in memory, "
        f"{files}",
        f"--max-memory {in_words(least)} would do",
    )


def _size(origin: Origin) -> str:
    return f"{shortened(origin.label)} ({origin.N:,} rows, {len(origin.names):,} columns)"
