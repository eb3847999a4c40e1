"""Bytes that coverage guides into what parses text; needs the package `atheris`, which no test does.

    python -m tests.fuzz.guided csv -runs=100000

What ends in anything but an error of the program is printed with its bytes, and stops the run.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import itertools
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from vgi_cli.columns.bounds import parse_limits
from vgi_cli.columns.schema import Schema, parse_kind
from vgi_cli.errors import VgiError
from vgi_cli.evaluation import fail_if
from vgi_cli.runs import manifest
from vgi_cli.settings.gather import parse_duration, parse_value, read_recipe
from vgi_cli.table.csv.rows import CsvRows, Place
from vgi_cli.table.csv.safe import safe_cells
from vgi_cli.table.csv.text import split_csv
from vgi_cli.table.reader import as_delimiter
from vgi_cli.table.shard import Shard

WATCHED, MODULE = ("vgi_cli", "yaml"), "tests.fuzz.guided"
"""Packages whose branches guide, and this file."""


def csv(data: bytes) -> None:
    """A file is read whole and row by row, with the same cells or the same refusal; its cells are all of it."""
    found = _cells(data)
    reader = CsvRows(io.BytesIO(data), "t.csv", ",", start=Place())
    rows: list[list[bytes]] = []
    refused = False
    try:
        while (piece := reader.take(1)) is not None:
            csv = piece.csv
            rows += [[csv.text[b[j] : b[j + 1] - 1] for j in range(len(b) - 1)] for b in csv.bounds.tolist()]
    except VgiError:
        refused = True
    assert (found is None) == (refused or not rows), "whole and in pieces, one is refused"
    if found is not None:
        assert rows == found, "other cells whole than in pieces"
        safe = _cells(safe_cells(data, ","))
        assert safe is not None
        assert [[_plain(c) for c in row] for row in safe] == [[_plain(c) for c in row] for row in found]


def _cells(data: bytes) -> list[list[bytes]] | None:
    try:
        whole = split_csv(data, "t.csv", ",")
    except VgiError:
        return None
    bounds = whole.bounds.tolist()
    return [[whole.text[b[j] : b[j + 1] - 1] for j in range(len(b) - 1)] for b in bounds]


def _plain(cell: bytes) -> bytes:
    return cell.replace(b"'", b"")


def recipe(data: bytes) -> None:
    """The text of a recipe."""
    with contextlib.suppress(VgiError):
        read_recipe(data.decode("utf-8", "replace"), "recipe.yaml")


def schema(data: bytes) -> None:
    """schema.json of a run."""
    with contextlib.suppress(VgiError):
        Schema.from_json(data)


def of_run(data: bytes) -> None:
    """manifest.json of a run."""
    with contextlib.suppress(VgiError):
        manifest.parse(data, Path("run"))


def words(data: bytes) -> None:
    """What is said after flags."""
    text = data.decode("utf-8", "replace")
    for read in (fail_if.parse, parse_duration, parse_value, as_delimiter, Shard.parse):
        with contextlib.suppress(VgiError):
            read(text)
    name, _, value = text.partition("=")
    with contextlib.suppress(VgiError):
        parse_kind(name, value)
    with contextlib.suppress(VgiError):
        parse_limits(name, value)


TARGETS: Mapping[str, Callable[[bytes], None]] = {
    "csv": csv,
    "recipe": recipe,
    "schema": schema,
    "manifest": of_run,
    "words": words,
}
SEEDS = {
    "csv": [b"a,b\n1,2\n", b'"a",b\r\n"x""y",\r\n\r\n3,4', b"\xef\xbb\xbfa\n\n=1\n", b'a,b\n1,"2\n3"\n'],
    "recipe": [b"model:\n  name: fa\n  factors: 2\ntable: {id: [a], columns: {b: integer}}\nepochs: 3\n"],
    "schema": [b'{"columns": [{"name": "a", "kind": "carried", "role": "id"}], "transform": "linear", "format": 3}'],
    "manifest": [b'{"format": 1, "version": "1", "command": "fit", "files": {}, "seeds": {"fit": 0}}'],
    "words": [b"loglik < -5", b"1.5h", b"[a, {b: 1}]", b"a=ordinal:x,y", b"a=0:10", b"2/3", b";"],
}


def main() -> None:
    import atheris

    for name in [name for name in sys.modules if name.partition(".")[0] in WATCHED or name == MODULE]:
        del sys.modules[name]  # to be loaded once more, under its eyes
    with atheris.instrument_imports(include=list(WATCHED)):
        target = importlib.import_module(MODULE).TARGETS[sys.argv[1]]
    folder = Path("seeds") / sys.argv[1]
    folder.mkdir(parents=True, exist_ok=True)
    for number, data in zip(itertools.count(), SEEDS[sys.argv[1]], strict=False):
        (folder / str(number)).write_bytes(data)
    atheris.Setup([sys.argv[0], str(folder), *sys.argv[2:]], target)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
