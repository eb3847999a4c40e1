"""Write filled tables: one file per draw, all draws in one long table, or a single one."""

from __future__ import annotations

import csv
import io
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import pyarrow as pa

from vgi_cli.columns.numerals import Bools, Floats
from vgi_cli.columns.schema import Schema
from vgi_cli.errors import InputError, UsageError
from vgi_cli.table.base import Table
from vgi_cli.table.csv.safe import safe_cells
from vgi_cli.table.csv.text import rewrite
from vgi_cli.table.csv.write import Template, csv_of, plain_csv
from vgi_cli.table.draws import HeldDraws, SpooledDraws
from vgi_cli.table.fills import Holes, Style, absent, find_holes, find_styles
from vgi_cli.table.folders import Folder, write_folders
from vgi_cli.table.inputs import CODECS, Format, Origin, split_name
from vgi_cli.table.outputs import (
    OutputLayout,
    output_format,
    output_paths,
    packed_name,
    refuse_existing,
    write_whole,
)
from vgi_cli.table.parquet.from_text import Types, arrow_schema, as_arrow
from vgi_cli.table.parquet.types import Extent, filled_types
from vgi_cli.table.parquet.write import (
    Drain,
    RowsInTurn,
    blank_arrow,
    fill_arrow,
    in_types,
    numbered,
    parquet_bytes,
    parquet_pieces,
)
from vgi_cli.table.shard import Shard
from vgi_cli.table.source import Block, Source

Say = Callable[[str], None]
Templates = Callable[[], Iterator[tuple[Block, Template]]]
"""Goes through the blocks of a table once more, each as text with its holes."""


def _unsaid(line: str) -> None:
    """Where nobody listens."""


def check_output(
    origin: Origin,
    *,
    layout: OutputLayout,
    out: Path | BinaryIO,
    m: int,
    format: Format | None = None,
    force: bool = False,
    shard: Shard | None = None,
    original: bool = True,
) -> list[Path]:
    """What `write_blocks` would refuse, before any work: the paths that it would make (none for a stream).

    Raises UsageError for existing outputs and for what cannot go to a stream, InputError when `long` would clash with
    columns of the table.
    """
    if layout in ("long", "mids-csv"):
        refuse_clash(origin)
    if not isinstance(out, Path):
        if layout == "files":
            raise UsageError(
                "several files cannot go to standard output", "use `--format long` or `single`, or `-o FILE`"
            )
        if format == "parquet":
            raise UsageError("Parquet cannot go to standard output", "use `-o FILE.parquet`")
        return []
    paths = output_paths(out, origin, m=m, layout=layout, shard=shard, original=original)
    refuse_existing(paths, force=force)
    return paths


def refuse_clash(origin: Origin) -> None:
    """InputError when `long` or `mids-csv` would add a column that the table has."""
    clash = [name for name in (".imp", ".id") if name in origin.names]
    if clash:
        message = f"{origin.label}: has a column '{clash[0]}', which the long layout adds"
        raise InputError(message, "rename it, or use `--format files`")


class Content(NamedTuple):
    """What is written: a table in blocks, how its columns are written (see `find_styles`), draws of its holes, and
    which holes stay all the same (by column [N]; others have none). Where these are the rows of a `shard`, `whole` is
    the table that it is part of. `safe`: no cell of CSV can be taken for a formula."""

    source: Source
    schema: Schema
    styles: Mapping[str, Style]
    draws: HeldDraws | SpooledDraws
    stay: Mapping[str, Bools] = {}
    shard: Shard | None = None
    whole: Source | None = None
    safe: bool = False

    def blocks(self, source: Source | None = None) -> Iterator[tuple[Block, list[Holes]]]:
        """The blocks of the table (or of another source of its rows) with their holes."""
        for block in (source or self.source).blocks():
            holes = find_holes(block.table, self.schema, self.styles)
            part = slice(block.first, block.first + block.table.N)
            yield block, [h.without(self.stay[h.column.name][part]) if h.column.name in self.stay else h for h in holes]

    def draw(self, number: int, block: Block) -> Floats:
        """[n, D]: a draw (from 0) of a block; only holes are looked at."""
        return self.draws.rows(number, block.first, absent(block.table, self.schema))


def write_blocks(
    content: Content,
    *,
    layout: OutputLayout,
    out: Path | BinaryIO,
    format: Format | None = None,
    original: bool = True,
    force: bool = False,
    say: Say = _unsaid,
) -> list[Path]:
    """Write a table with its holes filled, block by block, in memory that does not grow with it; it is read once for
    every draw. The paths written (none for a stream).

    layout    `files`: one file per draw; `long`: all draws below each other with `.imp` and `.id`; `mids-csv`: the same
              as CSV that R reads, whatever the input's spelling; `single`: one draw
    out       a path (for `files` the pattern: `out.csv` makes `out.1.csv` …) or a binary stream (CSV only)
    format    default: what the extension of `out` says, else the type of the input
    original  whether `long` begins with the table and its holes, as `.imp` 0
    force     whether existing files are overwritten
    say       is told, one line each, which columns of a Parquet file change their type, and why

    Files are written aside, synced and renamed when all of them are whole. Raises what `check_output` raises.
    """
    origin, draws = content.source.origin, content.draws
    paths = check_output(
        origin,
        layout=layout,
        out=out,
        m=draws.m,
        format=format,
        force=force,
        shard=content.shard,
        original=original,
    )
    if not isinstance(out, Path):
        for pieces in _contents(content, layout, "csv", origin.suffix, original, say):
            for piece in pieces:
                out.write(piece)
        out.flush()
        return []
    suffix = split_name(paths[0])[1].lower()
    contents = _contents(content, layout, format or output_format(out, origin), suffix, original, say)
    write_whole(paths, (compressed(pieces, suffix) for pieces in contents), force=force)
    return paths


def write_into_folders(
    content: Content, folders: Sequence[Path], like: Folder, *, force: bool = False, say: Say = _unsaid
) -> list[Path]:
    """As `write_blocks` for `files` and `single`, each draw as a folder with the files of the one that was read: the
    same rows in each, without the columns that the names of the folders say. The folders are returned."""
    types, filled = _types(content, say)
    kept = [name for name in filled.names if name not in like.partitions]
    schema = pa.schema([filled.field(name) for name in kept], metadata=filled.metadata)

    def files(draw: int) -> Iterator[tuple[str, Iterator[bytes]]]:
        rows = RowsInTurn(part.select(kept) for part in _filled(content, draw, types, filled))
        for below, count in like.files:
            yield below, parquet_pieces(rows.take(count), schema)

    write_folders(folders, map(files, range(content.draws.m)), force=force)
    return list(folders)


def compressed(pieces: Iterable[bytes], suffix: str) -> Iterator[bytes]:
    """The bytes of a file with these extensions: of `.gz` the same as `gzip.compress(…, mtime=0)`."""
    codec = CODECS.get(packed_name(suffix)[1])
    if codec is None:
        yield from pieces
    elif codec == "gzip":
        packer = zlib.compressobj(9, wbits=31)
        for piece in pieces:
            yield packer.compress(piece)
        yield packer.flush()
    else:
        sink = Drain()
        with pa.CompressedOutputStream(pa.PythonFile(sink, mode="w"), codec) as stream:
            for piece in pieces:
                stream.write(piece)
                yield sink.drain()
        yield sink.drain()


def _contents(
    content: Content, layout: OutputLayout, format: Format, suffix: str, original: bool, say: Say
) -> Iterator[Iterator[bytes]]:
    """One file after the other, each in pieces."""
    if layout == "mids-csv":
        for numbers in _long_files(content, True):
            yield _long_csv(content, lambda: _plain_templates(content), numbers, numbers[0] == 0)
    elif format == "parquet":
        yield from _parquet(content, layout, original, say)
    elif layout == "long":
        for numbers in _long_files(content, original):
            first = numbers[0] == (0 if original else 1)
            yield _long_csv(content, lambda: _templates(content, suffix), numbers, first)
    else:
        yield from (_csv(content, draw, suffix) for draw in range(content.draws.m))


def _long_files(content: Content, original: bool) -> list[list[int]]:
    """What each file of a long table holds, as values of `.imp`: all of them, or of a shard one each."""
    numbers = list(range(0 if original else 1, content.draws.m + 1))
    return [numbers] if content.shard is None else [[number] for number in numbers]


def _csv(content: Content, draw: int, suffix: str) -> Iterator[bytes]:
    for block, template in _templates(content, suffix):
        yield _safe(content, template, template.fill(content.draw(draw, block), header=block.first == 0))


def _safe(content: Content, template: Template, rows: bytes) -> bytes:
    """Whole rows of CSV as they are written."""
    return safe_cells(rows, template.csv.delimiter) if content.safe else rows


def _long_csv(content: Content, templates: Templates, numbers: Sequence[int], header: bool) -> Iterator[bytes]:
    for number in numbers:
        for block, template in templates():
            if block.first == 0 and header and number == numbers[0]:
                yield _safe(content, template, template.long_header())
            draw = content.draw(number - 1, block) if number else None
            yield _safe(content, template, template.long(number, draw, block.first))


def _templates(content: Content, suffix: str) -> Iterator[tuple[Block, Template]]:
    for block, holes in content.blocks():
        text = csv_of(block.table)
        delimiter = _delimiter(text.delimiter, content.source.origin.suffix, suffix)
        yield block, Template(rewrite(text, text.names, delimiter), holes)


def blanked(table: Table, schema: Schema) -> Iterator[bytes]:
    """A whole table as a file of its own type, in pieces: nothing stands in the holes of the columns that a model
    fills, hidden cells included; every other cell is as it was."""
    holes = find_holes(table, schema, find_styles([table], schema))
    if table.origin.format == "parquet":
        arrow = blank_arrow(as_arrow(table, arrow_schema(table, schema)), holes)
        yield from parquet_pieces([arrow], arrow.schema)
    else:
        yield Template(csv_of(table), holes).blank()


def _plain_templates(content: Content) -> Iterator[tuple[Block, Template]]:
    for block, holes in content.blocks():
        yield block, Template(plain_csv(block.table, content.schema), [hole.plain() for hole in holes])


def files_arrow(content: Content, say: Say) -> list[pa.Table]:
    """One Arrow table in memory for each draw, all of the same types; `say` as in `write_blocks`."""
    types, filled = _types(content, say)
    return [pa.concat_tables(_filled(content, draw, types, filled)) for draw in range(content.draws.m)]


def long_arrow(content: Content, original: bool, say: Say) -> pa.Table:
    """The long layout as one Arrow table in memory; `original`: whether it begins with the table and its holes.

    Raises InputError as `refuse_clash` does.
    """
    refuse_clash(content.source.origin)
    types, filled = _types(content, say)
    (numbers,) = _long_files(content, original)
    return pa.concat_tables(_long_parquet(content, types, filled, numbers))


def _types(content: Content, say: Say) -> tuple[pa.Schema, pa.Schema]:
    """The types of the table, and those that hold the fills of all draws; `say` is told which differ, and why. Of a
    shard the first are those of the whole table, and the second hold its own fills."""
    seen = Types(content.schema)
    for block in (content.whole or content.source).blocks():
        seen.see(block.table)
    types = seen.found()
    extents: dict[str, Extent] = {}
    if content.whole is not None:
        _see_observed(extents, content.blocks(content.whole), types)
    for draw in range(content.draws.m):
        for block, holes in content.blocks():
            if draw == 0 and content.whole is None:
                _see_observed(extents, [(block, holes)], types)
            fills = content.draw(draw, block)
            for hole in holes:
                extents[hole.column.name].add(hole, fills)
    return types, filled_types(types, extents, say)


def _see_observed(
    extents: dict[str, Extent], blocks: Iterable[tuple[Block, Sequence[Holes]]], types: pa.Schema
) -> None:
    for block, holes in blocks:
        arrow = as_arrow(block.table, types)
        for hole in holes:
            extents.setdefault(hole.column.name, Extent(hole.column)).see(hole, arrow.column(hole.place))


def _parquet(content: Content, layout: OutputLayout, original: bool, say: Say) -> Iterator[Iterator[bytes]]:
    types, filled = _types(content, say)
    if layout == "long":
        wide = numbered(filled.empty_table(), 0, 0).schema
        for numbers in _long_files(content, original):
            yield parquet_pieces(_long_parquet(content, types, filled, numbers), wide)
        return
    for draw in range(content.draws.m):
        yield parquet_pieces(_filled(content, draw, types, filled), filled)


def _filled(content: Content, draw: int, types: pa.Schema, filled: pa.Schema) -> Iterator[pa.Table]:
    for block, holes in content.blocks():
        yield fill_arrow(as_arrow(block.table, types), holes, content.draw(draw, block), filled)


def _long_parquet(content: Content, types: pa.Schema, filled: pa.Schema, numbers: Sequence[int]) -> Iterator[pa.Table]:
    for number in numbers:
        for block, holes in content.blocks():
            arrow = as_arrow(block.table, types)
            if number == 0:
                part = in_types(blank_arrow(arrow, holes), filled)
            else:
                part = fill_arrow(arrow, holes, content.draw(number - 1, block), filled)
            yield numbered(part, number, block.first)


def _delimiter(given: str, source: str, target: str) -> str:
    """The input's delimiter, unless the extension says otherwise: `.tsv` has tabs, `.csv` made from `.tsv` commas."""
    if target.startswith(".tsv"):
        return "\t"
    if target.startswith(".csv") and source.lower().startswith(".tsv"):
        return ","
    return given


def columns_bytes(
    columns: Mapping[str, Sequence[Any]], format: Format, delimiter: str = ",", safe: bool = False
) -> bytes:
    """Columns of equal length, name -> values; None is an empty cell (a null), numbers are written exactly. `safe`: no
    cell of CSV can be taken for a formula."""
    if format == "parquet":
        return parquet_bytes(pa.table({name: list(values) for name, values in columns.items()}))
    text = io.StringIO()
    writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    content = text.getvalue().encode()
    return safe_cells(content, delimiter) if safe else content
