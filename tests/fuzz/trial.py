"""Fit, impute and evaluate a table in this process, and hold what happens against the contract of the commands:

exit code 0, 1 or 2, a reason where it is not 0, nothing left behind by what is refused; after `impute` no hole in any
modelled column, fills that are spelled as the column is, observed cells as they were, types as they were or named.
"""

from __future__ import annotations

import contextlib
import csv
import hashlib
import io
import json
import math
import re
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Context, Decimal, InvalidOperation
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import torch

from tests.fuzz.tables import Case
from vgi_cli.cli import app
from vgi_cli.cli.visible import UNSEEN
from vgi_cli.columns.base import Encoding
from vgi_cli.encoding.encoder import box, decode, encode
from vgi_cli.encoding.infer import infer_schema
from vgi_cli.errors import VgiError
from vgi_cli.table import source as row_blocks
from vgi_cli.table.csv import rows as csv_rows
from vgi_cli.table.csv import text as csv_text
from vgi_cli.table.draws import HeldDraws
from vgi_cli.table.fills import avoid_codes, find_styles
from vgi_cli.table.parquet import table as parquet_table
from vgi_cli.table.parquet import write as write_parquet
from vgi_cli.table.reader import read_table
from vgi_cli.table.source import open_table
from vgi_cli.table.writer import Content, write_blocks

T = TypeVar("T")

HOLES = {"", "NA", "N/A", "#N/A", "NaN", "nan", "null", "NULL", "None"}
_EXACT = Context(prec=200)
QUICK = ("--set", "bootstrap=none", "--threads", "1")


class Done(NamedTuple):
    """Exit code, stdout, stderr."""

    code: int
    out: str
    err: str


class Wrong(Exception):
    """The program did what it must not."""


def attempt(case: Case) -> str:
    """How far a table came: the last line of what the program said. Raises Wrong."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), _small_blocks(case.blocks):
        Path(case.name).write_bytes(case.data)
        fitted = call(["fit", case.name, *QUICK, *case.fit])
        if fitted.code:
            return fitted.err
        imputed = call(["impute", "--checkpoint", "run1", *case.impute])
        if imputed.code:
            return imputed.err
        schema = json.loads(Path("run1/schema.json").read_text())
        _check_outputs(case, schema, imputed)
        evaluated = call(["evaluate", "--checkpoint", "run1", case.name, "--json"])
        if evaluated.code:
            return evaluated.err
        json.loads(evaluated.out, parse_constant=_no_constant)
        return "done"


def read_and_fill(case: Case, seed: int) -> str:
    """Without a fit: a table is read, encoded, filled at random within its bounds and written; how far it came. Raises
    Wrong where a hole is left or an observed cell differs, or where reading in blocks gives another table."""
    rng = np.random.default_rng(seed)
    said = _flags(case.fit)
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), _small_blocks(case.blocks):
        Path(case.name).write_bytes(case.data)
        options: dict[str, Any] = {"na_values": said["--na-values"], "delimiter": next(iter(said["--delimiter"]), None)}
        blocks = _outcome(lambda: open_table([case.name], **options))
        whole = _outcome(lambda: read_table([case.name], **options))
        if isinstance(whole, str) or isinstance(blocks, str):
            if whole != blocks:
                raise Wrong(f"read whole: {whole}; in blocks: {blocks}")
            return str(whole)
        try:
            schema, _ = infer_schema(
                whole,
                ids=said["--id"],
                exclude=said["--exclude"],
                kinds=dict(item.rsplit("=", 1) for item in said["--column"]),
                unbounded=said["--unbounded"],
                encoding=Encoding(rng.choice(["linear", "normal"]), rng.choice(["room", "split"])),
            )
        except VgiError as error:
            return error.message
        if not torch.isfinite(encode(whole, schema, seed=0).table.x).all():
            raise Wrong("an encoded cell is not finite")
        limits = box(schema)
        z = torch.from_numpy(rng.normal(size=(1, whole.N, schema.layout.D))).clamp(limits.low, limits.high)
        draws = decode(z, schema)
        avoid_codes(draws, whole, schema)
        content = Content(blocks, schema, find_styles((b.table for b in blocks.blocks()), schema), HeldDraws(draws))
        out, told = Path(f"o{Path(case.name).suffix}"), list[str]()
        try:
            write_blocks(content, layout="single", out=out, say=told.append)
        except VgiError as error:  # no type of Parquet holds the numbers and such a fill
            return error.message
        names = {column.name: None for column in (*schema.encoded, *schema.constants)}
        names |= {c["name"]: _fills(c) for c in json.loads(schema.to_json())["columns"] if c["name"] in names}
        if out.suffix == ".parquet":
            _check_parquet(case, pq.read_table(out), names, "\n".join(told), False)
        else:
            _check_csv(case, out.read_bytes().decode(), names, False)
        again = read_table([out], **options)
        for column in schema.encoded:
            if not HOLES.isdisjoint(getattr(column, "levels", ())):
                continue  # what is a level of the one table may be a hole of the other, which has no hole beside it
            if not np.isfinite(column.codes(again.column(column.name))).all():
                raise Wrong(f"column {column.name!r} has holes when it is read again")
    return "done"


def _flags(arguments: Sequence[str]) -> Mapping[str, list[str]]:
    said: dict[str, list[str]] = defaultdict(list)
    for flag, value in zip(arguments[::2], arguments[1::2], strict=True):
        said[flag].append(value)
    return said


def _outcome(read: Callable[[], T]) -> T | str:
    """What was read, or why it was refused."""
    try:
        return read()
    except VgiError as error:
        return error.message


@contextlib.contextmanager
def _small_blocks(rows: int) -> Iterator[None]:
    """Tables are read so many rows at a time (0: as always), a few bytes to a read."""
    if not rows:
        yield
        return
    with (
        patch.object(row_blocks, "block_rows", lambda width: rows),
        patch.object(csv_rows, "PIECE", 5),
        patch.object(csv_text, "SAMPLE", 1),
        patch.object(parquet_table, "BATCH", 2),
        patch.object(write_parquet, "GROUP_CELLS", 20),
    ):
        yield


def call(arguments: Sequence[str], stdin: bytes = b"") -> Done:
    """Run the program. Wrong where it crashes, ends without a word, is refused and leaves something behind or changes
    something, or shows control characters."""
    before = _listing()
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True), io.StringIO()
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin))),
    ):
        code = app.main(list(arguments))
    done = Done(code, out.buffer.getvalue().decode(), err.getvalue())
    said = f"{' '.join(map(repr, arguments))}: {code}\n{done.err}"
    if "this is a bug of vgi" in done.err or "Traceback" in done.err or code not in (0, 1, 2, 3):
        raise Wrong(said)
    if code and not re.search(r"^(\x1b\[1;31m)?error:(\x1b\[0m)? .", done.err, re.M):
        raise Wrong(f"no reason given: {said}")
    if UNSEEN.search(re.sub(r"\x1b\[[0-9;]*m(error|hint|warning)", r"\1", done.err.replace(":\x1b[0m ", ": "))):
        raise Wrong(f"control characters on stderr: {said}")
    kept = code == 1 and "last good checkpoint is kept" in done.err  # a fit that failed later on
    if code in (1, 2) and not kept and (after := _listing()) != before:
        raise Wrong(f"left behind or changed {sorted(set(after) ^ set(before))}: {said}")
    return done


STAYING = ("carried", "empty")
"""Kinds whose holes stay."""
WHOLE, NUMBER = r'("?\s*[+-]?\d+\s*"?)', r'("?\s*[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\s*"?)'
"""Fills that are numbers."""


def _listing() -> list[tuple[str, str]]:
    """Every file below this folder and the one above it, with what it holds (of large ones their size)."""
    out = []
    for path in Path("..").resolve().rglob("*") if Path().resolve().name == "in" else Path().rglob("*"):
        kept = path.is_file() and not path.is_symlink()
        small = kept and path.stat().st_size < 1 << 20
        out.append((str(path), hashlib.md5(path.read_bytes()).hexdigest() if small else str(kept)))
    return sorted(out)


def _no_constant(name: str) -> Any:
    raise Wrong(f"evaluate --json says {name}")


def _check_outputs(case: Case, schema: Any, imputed: Done) -> None:
    names = {c["name"]: _fills(c) for c in schema["columns"] if c["role"] == "data" and c["kind"] not in STAYING}
    for path in sorted(Path().glob("o*.*")):
        if path.name.startswith("o.") or re.fullmatch(r"o\.\d+\..*", path.name):
            long = "long" in case.impute
            if path.suffix == ".parquet":
                _check_parquet(case, pq.read_table(path), names, imputed.err, long)
            else:
                _check_csv(case, path.read_bytes().decode(), names, long)


ANY = r'("?[^"\n]+?"?)'
"""A fill of a column of dates or times, or of numbers that have more than digits."""


def _is_level(pattern: str | None, cell: str) -> bool:
    """Whether a cell is a level of the column whose fills have a pattern; NA and None may be ones."""
    return pattern not in (None, ANY) and re.fullmatch(str(pattern), cell) is not None


def _fills(column: Mapping[str, Any]) -> str | None:
    """A pattern of the fills of a column; None: they are numbers."""
    if column.get("notation") is not None:  # with a unit, or marks between thousands
        return ANY
    if column["kind"] in ("numeric", "integer", "constant"):
        return None
    levels = [column["level"]] if "level" in column else [*column.get("levels", ()), *column.get("rare", ())]
    spelled = [re.escape(level.replace('"', '""')) for level in levels]
    return rf'("?\s*(?:{"|".join(spelled)})\s*"?)' if levels else ANY


def _check_csv(case: Case, text: str, names: Mapping[str, str | None], long: bool) -> None:
    tokens = _tokens(case)
    if case.written is None or long:
        delimiter = case.fit[1] if "--delimiter" in case.fit else "\t" if case.name.endswith(".tsv") else ","
        header, *rows = csv.reader(io.StringIO(text.lstrip("\ufeff"), newline=""), delimiter=delimiter)
        for row in rows[len(rows) - len(rows) // 2 :] if long else rows:
            for name, cell in zip(header, row, strict=False):
                if name in names and not _is_level(names[name], cell) and _is_hole(cell, tokens, raw=False):
                    raise Wrong(f"a hole is left in {name!r}:\n{text}")
        return
    pattern, holes = _pattern(case, names, tokens)
    found = re.fullmatch(pattern, text)
    if found is None:
        raise Wrong(f"an observed cell differs, or a hole of {names} is left:\n{case.written.text()}\nbecame\n{text}")
    for group, name in enumerate(holes):
        cell = found[group + 1]
        if _is_level(names[name], cell):
            continue
        if _is_hole(cell, tokens) or (names[name] is None and not math.isfinite(float(cell.strip('"').strip()))):
            raise Wrong(f"a fill of {name!r} is {found[group + 1]}")


def _tokens(case: Case) -> list[str]:
    return [case.fit[i + 1] for i, flag in enumerate(case.fit) if flag == "--na-values"]


def _is_hole(cell: str, tokens: Sequence[str], *, raw: bool = True) -> bool:
    """Whether a cell is missing; a token that is a number is meant however it is spelled. `raw`: in quotes, if any; of
    one that was parsed a quote is a part (`""N/A"` is `N/A"`)."""
    text = (cell.strip('"') if raw else cell).strip()
    return text in HOLES or text in tokens or _number(text) in map(_number, tokens)


def _number(text: str) -> float | str:
    with contextlib.suppress(ValueError):
        return float(text) if text.isascii() and "_" not in text else text
    return text


def _pattern(case: Case, names: Mapping[str, str | None], tokens: Sequence[str]) -> tuple[str, list[str]]:
    """What a filled CSV must match, and the column of each of its groups."""
    written = case.written
    assert written is not None
    head = written.head.lstrip("\ufeff")
    (header,) = (row for row in csv.reader(io.StringIO(head, newline=""), delimiter=written.delimiter) if row)
    holes: list[str] = []
    parts = [re.escape(written.head)]
    numeric = [f"{name}=numeric" in case.fit for name in header]
    whole = [
        not numeric[j] and _all_whole([row[j] for row in written.rows if not _is_hole(row[j], tokens)])
        for j in range(len(header))
    ]
    for row, end in zip(written.rows, written.ends, strict=True):
        cells = []
        for j, (name, cell) in enumerate(zip(header, row, strict=True)):
            if name in names and _is_hole(cell, tokens):
                holes.append(name)
                number = WHOLE if whole[j] else NUMBER
                cells.append(names[name] or number)
            else:
                cells.append(re.escape(cell))
        parts.append(re.escape(written.delimiter).join(cells) + re.escape(end))
    return "".join(parts), holes


def _all_whole(cells: list[str]) -> bool:
    """Whether the observed cells of a column are plain whole numbers, so that its fills are such."""
    return bool(cells) and all(re.fullmatch(r"[+-]?\d+", cell.strip('"').strip()) for cell in cells)


def _check_parquet(case: Case, after: pa.Table, names: Mapping[str, str | None], err: str, long: bool) -> None:
    if case.name.endswith(".parquet"):
        before = pq.ParquetFile(case.name).read()  # of a file that is damaged the same rows as are filled
    else:
        before = None
    if long:
        rows = after.num_rows // (1 + int(case.impute[case.impute.index("--m") + 1]))
        after = after.slice(rows, rows)
    tokens = _tokens(case)
    for i, name in enumerate(after.column_names):
        column = after.column(i)
        if name in names and pc.is_null(column, nan_is_null=True).to_numpy().any():
            raise Wrong(f"a hole is left in {name!r}: {column.to_pylist()}")
        if before is None or name not in before.column_names:
            continue
        old = before.column(i)
        rows = np.flatnonzero(~pc.is_null(old, nan_is_null=name in names).to_numpy())
        rows = [i for i in rows if name not in names or not _is_hole(str(old[i].as_py()), tokens)]
        if not _same([old[i] for i in rows], [column[i] for i in rows]):
            raise Wrong(
                f"observed cells of {name!r} differ: {old.type} {old.to_pylist()}, {column.type} {column.to_pylist()}"
            )
        if old.type != column.type and f"'{name}'" not in err:
            raise Wrong(f"column {name!r} was {old.type}, is {column.type}, and nobody says so:\n{err}")


def _same(a: list[pa.Scalar], b: list[pa.Scalar]) -> bool:
    return list(map(_plain, a)) == list(map(_plain, b))


def _plain(cell: pa.Scalar) -> str:
    """The value of a cell, whatever its type."""
    if isinstance(cell, pa.DictionaryScalar):
        cell = cell.value
    if pa.types.is_temporal(cell.type):
        return str(cell.value) if hasattr(cell, "value") else repr(cell)
    value = cell.as_py()
    if isinstance(value, Decimal | int | str | float) and not isinstance(value, bool):
        with contextlib.suppress(InvalidOperation):
            return str(Decimal(value).normalize(_EXACT))
    return repr(value)
