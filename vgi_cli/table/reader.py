"""Read a table into memory: CSV, Parquet, a folder of Parquet, several files below each other, or CSV on stdin."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np

from vgi_cli.columns.numerals import Bools
from vgi_cli.errors import InputError, UsageError
from vgi_cli.table.addresses import is_address, name_of
from vgi_cli.table.base import Table
from vgi_cli.table.csv.table import CsvTable
from vgi_cli.table.csv.text import split_csv
from vgi_cli.table.inputs import Origin, TableFiles, find_files, stem_of
from vgi_cli.table.join import join_csv, join_parquet
from vgi_cli.table.parquet.table import ParquetTable, binary


def name_table(
    paths: Sequence[str | Path],
    mask: str | Path | None,
    na_values: Sequence[str],
    delimiter: str | None,
    stdin: BinaryIO | None = None,
    decimal: str | None = None,
    levels: Mapping[str, Collection[str]] | None = None,
) -> TableFiles:
    """Find the files of a table; see `read_table`."""
    if not paths:
        raise UsageError("no table is given", "name at least one file, or - for standard input")
    delimiter = None if delimiter is None else as_delimiter(delimiter)
    files = find_files(paths, delimiter, stdin)
    digest = hashlib.sha256()
    for file in files:
        file.hash_into(digest)
    extra = json.dumps(list(na_values)).encode()
    digest.update(len(extra).to_bytes(8, "little") + extra)
    if decimal not in (None, "."):
        digest.update(b"decimal" + str(decimal).encode())
    first = paths[0]
    label = files[0].label if len(files) == 1 else f"{files[0].label} and {len(files) - 1} more"
    if files[0].of_folder:
        label = name_of(first).name
    hiding = None
    if mask is not None:
        hiding, *more = find_files([mask], _mask_delimiter(mask, delimiter))
        if more:
            raise InputError(f"mask {mask}: a folder of {len(more) + 1} files", "give the mask of all rows in one file")
        hiding.hash_into(digest)
    origin = Origin(*stem_of(first), label, digest.hexdigest())
    return TableFiles(files, hiding, tuple(na_values), origin, decimal or ".", levels or {})


def read_table(
    paths: Sequence[str | Path],
    *,
    mask: str | Path | None = None,
    na_values: Sequence[str] = (),
    delimiter: str | None = None,
    stdin: BinaryIO | None = None,
    decimal: str | None = None,
    levels: Mapping[str, Collection[str]] | None = None,
) -> Table:
    """Read files as one table into memory.

    paths      files (`.csv`, `.tsv`, either with `.gz`, `.bz2`, `.zst`, `.xz` or `.zip`, `.parquet`), folders of
               Parquet, addresses of such, or `["-"]` (CSV on stdin)
    mask       a CSV or Parquet file with the same columns and rows, 1 = observed, 0 = missing: hides more cells
    na_values  further texts that stand for a missing cell; `COL=TEXT`: in that column; `COL=`: there the empty cell and
               what is named alone
    delimiter  one ASCII character; default: a tab for `.tsv`, else a comma
    stdin      what `-` reads; default: the process's standard input
    decimal    the mark before the decimals of numbers in CSV, `.` (the default) or `,`
    levels     column -> texts that are known to be levels of it: no cell of CSV is missing that holds one, unless
               `na_values` says so

    Raises InputError for whatever cannot be read as one rectangular table, UsageError for a bad delimiter or a bad `-`.
    """
    return table_in_memory(name_table(paths, mask, na_values, delimiter, stdin, decimal, levels))


def table_in_memory(named: TableFiles) -> Table:
    """The whole table. InputError for whatever cannot be read as one rectangular table."""
    table = _join(named)
    if named.mask is not None:
        table.hidden = hidden_cells(table, _join(TableFiles.of(named.mask)))
    return table


def _mask_delimiter(mask: str | Path, delimiter: str | None) -> str | None:
    """A mask may keep to commas where the data do not: the given delimiter only where the mask's header holds it."""
    if delimiter is None or is_address(mask) or not Path(mask).is_file():
        return None
    with open(mask, "rb") as file:
        return delimiter if delimiter.encode() in file.readline(1 << 20) else None


def as_delimiter(text: str) -> str:
    """The character that `--delimiter` means. UsageError where it cannot be one."""
    text = "\t" if text in ("\\t", "tab") else text
    if len(text) != 1 or not text.isascii() or text.isalnum() or text in '"\r\n\0.+-':
        raise UsageError(
            f"--delimiter {text!r}: expected one ASCII character that no number holds", "such as ';', '|' or '\\t'"
        )
    return text


def _join(named: TableFiles) -> Table:
    if named.parquet:
        arrow, index = join_parquet(named.files)
        return ParquetTable(arrow, named.origin, index, named.na_values)
    joined, sources = join_csv([split_csv(file.read(), file.label, file.delimiter) for file in named.files])
    table = CsvTable(joined, named.origin, sources, named.na_values, decimal=named.decimal)
    table.levels = named.levels
    return table


def hidden_cells(table: Table, mask: Table) -> Bools:
    """[N, width] True where a mask file says missing.

    Here and nowhere else 1 means observed and 0 missing. Raises InputError when the mask's columns or rows are not the
    table's, or when it holds anything but 0 and 1.
    """
    lacking = [n for n in table.names if n not in mask.names and n not in table.index]
    extra = [n for n in mask.names if n not in table.names and n not in mask.index]
    if lacking or extra:
        name = (lacking or extra)[0]
        verb = "lacks the column" if lacking else "has a column that the data lack:"
        raise InputError(f"{mask.label}: the mask {verb} '{name}'", "a mask has the same columns as its table")
    if mask.N != table.N:
        raise InputError(
            f"{mask.label}: the mask has {mask.N} rows, {table.label} has {table.N}",
            "a mask has one row for each row of its table",
        )
    hidden = np.zeros((table.N, len(table.names)), bool)
    for i, name in enumerate(table.names):
        if name in table.index:
            continue
        values = binary(mask, name)
        wrong = np.flatnonzero(~((values == 0) | (values == 1)))
        if len(wrong):
            found = mask.raw_text(name)[wrong[0]]
            raise InputError(
                f"{mask.label}: column '{name}', {mask.where(int(wrong[0]))} holds '{found or ''}': expected 0 or 1",
                "in a mask 1 is observed and 0 is missing",
            )
        hidden[:, i] = values == 0
    return hidden
