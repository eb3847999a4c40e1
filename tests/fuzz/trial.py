"""Fit, impute and evaluate a table in this process, and hold what happens against the contract of the commands:

exit code 0, 1 or 2, a reason where it is not 0, nothing left behind by what is refused; after `impute` no hole in any
modelled column, fills that are spelled as the column is, observed cells as they were, types as they were or named.

    python -m tests.fuzz.trial csv 0 5000    tries as many tables and prints the seeds that end badly
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import math
import re
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from decimal import Context, Decimal, InvalidOperation
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tests.fuzz.tables import Case, csv_case, parquet_case
from vgi_cli.cli.app import main
from vgi_cli.table import source as row_blocks
from vgi_cli.table.csv import rows as csv_rows
from vgi_cli.table.parquet import table as parquet_table
from vgi_cli.table.parquet import write as write_parquet

HOLES = {"", "NA", "N/A", "NaN", "nan", "null", "NULL", "None"}
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


@contextlib.contextmanager
def _small_blocks(rows: int) -> Iterator[None]:
    """Tables are read so many rows at a time (0: as always), a few bytes to a read."""
    if not rows:
        yield
        return
    with (
        patch.object(row_blocks, "block_rows", lambda width: rows),
        patch.object(csv_rows, "PIECE", 5),
        patch.object(parquet_table, "BATCH", 2),
        patch.object(write_parquet, "GROUP_CELLS", 20),
    ):
        yield


def call(arguments: Sequence[str]) -> Done:
    """Run the program. Wrong where it crashes, ends without a word, or is refused and leaves something behind."""
    before = _listing()
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(list(arguments))
    done = Done(code, out.buffer.getvalue().decode(), err.getvalue())
    said = f"{' '.join(arguments)}: {code}\n{done.err}"
    if "unexpected" in done.err or "Traceback" in done.err or code not in (0, 1, 2):
        raise Wrong(said)
    if code and not re.search(r"^error: .", done.err, re.M):
        raise Wrong(f"no reason given: {said}")
    if code and _listing() != before:
        raise Wrong(f"left behind {sorted(set(_listing()) - set(before))}: {said}")
    return done


STAYING = ("carried", "empty")
"""Kinds whose holes stay."""
WHOLE, NUMBER = r'("?\s*[+-]?\d+\s*"?)', r'("?\s*[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?\s*"?)'
"""Fills that are numbers."""


def _listing() -> list[str]:
    return sorted(str(path) for path in Path().rglob("*"))


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


def _fills(column: Mapping[str, Any]) -> str | None:
    """A pattern of the fills of a column; None: they are numbers."""
    if column["kind"] in ("numeric", "integer", "constant"):
        return None
    levels = [column["level"]] if "level" in column else [*column.get("levels", ()), *column.get("rare", ())]
    spelled = [re.escape(level.replace('"', '""')) for level in levels]
    return rf'("?\s*(?:{"|".join(spelled)})\s*"?)' if levels else r'("?[^"\n]+?"?)'  # a date, a time


def _check_csv(case: Case, text: str, names: Mapping[str, str | None], long: bool) -> None:
    tokens = _tokens(case)
    if case.written is None or long:
        delimiter = case.fit[1] if "--delimiter" in case.fit else "\t" if case.name.endswith(".tsv") else ","
        header, *rows = csv.reader(io.StringIO(text.lstrip("\ufeff"), newline=""), delimiter=delimiter)
        for row in rows[len(rows) - len(rows) // 2 :] if long else rows:
            for name, cell in zip(header, row, strict=False):
                if name in names and _is_hole(cell, tokens):
                    raise Wrong(f"a hole is left in {name!r}:\n{text}")
        return
    pattern, holes = _pattern(case, names, tokens)
    found = re.fullmatch(pattern, text)
    if found is None:
        raise Wrong(f"an observed cell differs, or a hole of {names} is left:\n{case.written.text()}\nbecame\n{text}")
    for group, name in enumerate(holes):
        cell = found[group + 1]
        if _is_hole(cell, tokens) or (names[name] is None and not math.isfinite(float(cell.strip('"').strip()))):
            raise Wrong(f"a fill of {name!r} is {found[group + 1]}")


def _tokens(case: Case) -> list[str]:
    return [case.fit[i + 1] for i, flag in enumerate(case.fit) if flag == "--na-values"]


def _is_hole(cell: str, tokens: Sequence[str]) -> bool:
    """Whether a raw cell is missing; a token that is a number is meant however it is spelled."""
    text = cell.strip('"').strip()
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
        before = pq.read_table(case.name)
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


def hunt(kind: str, first: int, count: int) -> int:
    """Try many tables; print the seeds of those that end badly, and return how many."""
    make = {"csv": csv_case, "parquet": parquet_case}[kind]
    wrong = done = 0
    for seed in range(first, first + count):
        try:
            done += attempt(make(seed)) == "done"
        except Wrong as error:
            wrong += 1
            print(f"{kind} {seed}: {error}\n")
    print(f"{count} tables: {done} imputed, {count - done - wrong} refused, {wrong} wrong")
    return wrong


if __name__ == "__main__":  # python -m tests.fuzz.trial csv|parquet FIRST COUNT
    warnings.simplefilter("error")
    sys.exit(min(hunt(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])), 1))
