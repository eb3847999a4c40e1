"""Hostile masks, from a seed: of other shapes, names and values, damaged, beside a table that is read in two ways."""

from __future__ import annotations

import contextlib
import io
from random import Random

import pyarrow as pa
import pyarrow.csv

from tests.fuzz.inputs import MASK, Input
from tests.fuzz.runs import DAMAGES
from tests.fuzz.tables import parquet

VALUES = ("0", "1", "0", "1", "0.0", "1.0", "2", "-1", "", "NA", "x", "true", "FALSE", "1e0", " 1", "0.5", "nan", "inf")


def mask_input(seed: int) -> Input:
    """A mask of the table of every input, with changes."""
    rng = Random(f"mask {seed}")
    header, *rows = [row.split(",") for row in MASK.splitlines()]
    for _ in range(rng.choice((0, 1, 1, 2, 3))):
        match rng.randrange(8):
            case 0:
                rows = rows[: rng.randrange(len(rows) + 1)]
            case 1:
                rows = rows + rows[: rng.choice((1, 24))]
            case 2:
                order = rng.sample(range(len(header)), len(header))
                header = [header[i] for i in order]
                rows = [[row[i] for i in order] for row in rows]
            case 3:
                header = [*header, rng.choice(("e", "a", "", "c"))]
                rows = [[*row, "1"] for row in rows]
            case 4:
                header, rows = header[1:], [row[1:] for row in rows]
            case 5:
                header[rng.randrange(len(header))] = rng.choice(("A", " a", "a ", "z", "", "\u200b"))
            case _:
                for _ in range(rng.choice((1, 3, 200))):
                    if rows:
                        rows[rng.randrange(len(rows))][rng.randrange(len(header))] = rng.choice(VALUES)
        if not header:
            header = ["a"]
            rows = [["1"] for _ in rows]
    delimiter = rng.choice((",", ",", ",", ";", "\t"))
    end = rng.choice(("\n", "\n", "\r\n", "\r"))
    data = (end.join(delimiter.join(row) for row in [header, *rows]) + end).encode()
    name = "k.csv"
    if rng.random() < 0.2 and len(set(header)) == len(header) and rows:
        name, data = "k.parquet", _parquet(rng, header, rows)
    if rng.random() < 0.25:
        data = rng.choice(DAMAGES)(rng, data)
    more = ("--delimiter", delimiter) if delimiter != "," and rng.random() < 0.3 else ()
    where = rng.choice(("t.csv", "t.parquet"))
    commands = {
        "fit": ["fit", where, "--mask", name, "--dry-run", *more],
        "check": ["check", where, "--mask", name, "--no-trial", *more],
        "impute": ["impute", "--checkpoint", "run", where, "--mask", name, "--dry-run", *more],
        "evaluate": ["evaluate", "--checkpoint", "run", where, "--mask", name, "--json", *more],
    }
    chosen = rng.choices(list(commands), (4, 1, 4, 1))[0]
    return Input(f"mask {seed}", [commands[chosen]], {name: data}, base=True)


def _parquet(rng: Random, header: list[str], rows: list[list[str]]) -> bytes:
    text = "\n".join(",".join(row) for row in [header, *rows]) + "\n"
    arrow = pyarrow.csv.read_csv(io.BytesIO(text.encode()))
    kind = rng.choice((pa.int8(), pa.bool_(), pa.float32(), pa.string(), None))
    if kind is not None:
        with contextlib.suppress(pa.ArrowException):
            arrow = arrow.cast(pa.schema([(name, kind) for name in arrow.column_names]))
    return parquet(arrow)
