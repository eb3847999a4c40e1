"""Read a table: CSV, Parquet, a folder of Parquet, several files below each other, or CSV on standard input."""

from __future__ import annotations

import difflib
import gzip
import hashlib
import json
import sys
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

from vgi_cli.errors import InputError, UsageError
from vgi_cli.table.base import Table
from vgi_cli.table.csv_table import CsvTable
from vgi_cli.table.csv_text import split_csv
from vgi_cli.table.join import join_csv, join_parquet
from vgi_cli.table.mask import hidden_cells, mask_delimiter
from vgi_cli.table.parquet_table import ParquetTable

__all__ = ["Table", "read_table"]

PARQUET = (".parquet", ".pq", ".parq")
STANDARD_INPUT = "standard input"


class _Part(NamedTuple):
    """One file: its name, its (decompressed) bytes, and whether it is Parquet."""

    label: str
    data: bytes
    parquet: bool
    delimiter: str


def read_table(
    paths: Sequence[str | Path],
    *,
    mask: Path | None = None,
    na_values: Sequence[str] = (),
    delimiter: str | None = None,
    stdin: BinaryIO | None = None,
) -> Table:
    """Read files as one table.

    paths      files (`.csv`, `.tsv`, either with `.gz`, `.parquet`), one folder of Parquet, or `["-"]` (CSV on stdin)
    mask       a CSV or Parquet file with the same columns and rows, 1 = observed, 0 = missing: hides more cells
    na_values  further texts that stand for a missing cell
    delimiter  one ASCII character; default: a tab for `.tsv`, else a comma
    stdin      what `-` reads; default: the process's standard input

    Raises InputError for whatever cannot be read as one rectangular table, UsageError for a bad delimiter or a bad `-`.
    """
    if not paths:
        raise UsageError("no table is given", "name at least one file, or - for standard input")
    delimiter = None if delimiter is None else _delimiter(delimiter)
    parts = _load(paths, delimiter, stdin)
    digest = hashlib.sha256()
    for part in parts:
        _update(digest, part.data)
    _update(digest, json.dumps(list(na_values)).encode())
    first = Path(str(paths[0]))
    stem, suffix = ("stdin", ".csv") if str(first) == "-" else _stem(first)
    label = parts[0].label if len(parts) == 1 else f"{parts[0].label} and {len(parts) - 1} more"
    if first.is_dir():
        label = first.name
    table = _join(parts, na_values, label, stem, suffix, digest.hexdigest())
    if mask is not None:
        (mask_part,) = _load([mask], mask_delimiter(mask, delimiter), None)
        _update(digest, mask_part.data)
        table.hidden = hidden_cells(table, _join([mask_part], (), mask_part.label, "mask", ".csv", ""))
        table.sha256 = digest.hexdigest()
    return table


def _update(digest: hashlib._Hash, data: bytes) -> None:
    digest.update(len(data).to_bytes(8, "little"))
    digest.update(data)


def _delimiter(text: str) -> str:
    text = "\t" if text in ("\\t", "tab") else text
    if len(text) != 1 or not text.isascii() or text.isalnum() or text in '"\r\n\0.+-':
        raise UsageError(
            f"--delimiter {text!r}: expected one ASCII character that no number holds", "such as ';', '|' or '\\t'"
        )
    return text


def _load(paths: Sequence[str | Path], delimiter: str | None, stdin: BinaryIO | None) -> list[_Part]:
    if any(str(p) == "-" for p in paths):
        if len(paths) > 1:
            raise UsageError("- (standard input) cannot be joined with other files", "pass - alone")
        data = (sys.stdin.buffer if stdin is None else stdin).read()
        if data[:4] == b"PAR1":
            raise InputError(f"{STANDARD_INPUT}: Parquet cannot be read from a pipe", "pass the file's path")
        return [_Part(STANDARD_INPUT, data, False, delimiter or ",")]
    files: list[Path] = []
    for path in map(Path, paths):
        if path.is_dir():
            inside = sorted(p for p in path.rglob("[!._]*") if p.suffix.lower() in PARQUET)
            if not inside:
                raise InputError(f"{path}: the folder holds no Parquet file", "expected files that end in .parquet")
            files += inside
        else:
            files.append(path)
    return [_read(path, delimiter) for path in files]


def _read(path: Path, delimiter: str | None) -> _Part:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        near = [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
        close = difflib.get_close_matches(path.name, near, n=1)
        hint = f"did you mean '{path.with_name(close[0])}'?" if close else "check the path"
        raise InputError(f"{path}: no such file", hint) from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})", "check the path and its permissions") from None
    if not data:
        raise InputError(f"{path.name}: the file is empty", "expected a header with column names, then rows")
    name = path.name.lower()
    if name.endswith(PARQUET):
        return _Part(path.name, data, True, "")
    if name.endswith(".gz") or data[:2] == b"\x1f\x8b":
        name = name.removesuffix(".gz")
        try:
            data = gzip.decompress(data)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise InputError(f"{path.name}: damaged gzip file ({error})", "compress it again") from None
    return _Part(path.name, data, False, delimiter or ("\t" if name.endswith(".tsv") else ","))


def _stem(path: Path) -> tuple[str, str]:
    """`a/b.c.csv.gz` -> (`b.c`, `.csv.gz`); a folder is Parquet; other extensions stay part of the output's name."""
    if path.is_dir():
        return path.resolve().name, ".parquet"
    name, gz = (path.name[:-3], path.name[-3:]) if path.name.lower().endswith(".gz") else (path.name, "")
    stem, dot, extension = name.rpartition(".")
    if not dot or not stem:
        return name, ".csv" + gz
    return stem, f".{extension}{gz}"


def _join(parts: Sequence[_Part], na_values: Sequence[str], label: str, stem: str, suffix: str, sha256: str) -> Table:
    if any(p.parquet for p in parts) and not all(p.parquet for p in parts):
        raise InputError("CSV and Parquet files cannot be joined into one table", "convert one of them")
    if parts[0].parquet:
        arrow, index = join_parquet([(p.label, p.data) for p in parts])
        return ParquetTable(
            arrow, index=index, na_values=na_values, sha256=sha256, label=label, stem=stem, suffix=suffix
        )
    texts = [split_csv(p.data, p.label, p.delimiter) for p in parts]
    joined, sources = join_csv(texts)
    return CsvTable(joined, sources=sources, na_values=na_values, sha256=sha256, label=label, stem=stem, suffix=suffix)
