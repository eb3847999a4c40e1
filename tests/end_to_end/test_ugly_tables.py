"""Twelve ugly tables through the real commands: each ends in an imputed file without a hole in a modelled column, or in
one clear refusal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import pytest

from tests.program import Vgi
from tests.table.helpers import save
from vgi_cli.columns.base import ConstantColumn, ModelledColumn
from vgi_cli.columns.schema import Schema
from vgi_cli.table.reader import read_table

QUICK = ["--epochs", "2", "--set", "model.components=1", "--set", "bootstrap=none", "--model", "mixture"]
Columns = dict[str, Sequence[object]]


class Ugly(NamedTuple):
    """A table, flags of the fit, the words of the refusal (empty: it is imputed), and kinds that columns then have."""

    columns: Columns
    flags: Sequence[str] = ()
    refused: str = ""
    kinds: Mapping[str, str] = MappingProxyType({})


def base(rng: np.random.Generator, n: int = 60) -> Columns:
    x = rng.normal(size=n)
    return {"x": [f"{v:.2f}" for v in x], "y": [f"{v:.2f}" for v in x + rng.normal(size=n)]}


def leading_zeros(rng: np.random.Generator) -> Ugly:
    return Ugly(
        {"zip": [f"{v:05d}" for v in rng.permutation(90_000)[:60] + 1000], **base(rng)}, kinds={"zip": "carried"}
    )


def two_formats(rng: np.random.Generator) -> Ugly:
    days = np.datetime64("2020-01-01") + rng.integers(0, 900, 60)
    cells = [str(d) if i % 2 else f"{str(d)[8:]}/{str(d)[5:7]}/{str(d)[:4]}" for i, d in enumerate(days)]
    both = [str(d) if i % 2 else "01/02/2020" for i, d in enumerate(days)]
    kinds = {"when": "date", "either": "carried", "day": "date"}
    return Ugly({"when": cells, "either": both, "day": [str(d) for d in days], **base(rng)}, kinds=kinds)


def empty_and_constant(rng: np.random.Generator) -> Ugly:
    return Ugly(
        {"none": [""] * 60, "same": ["7.50"] * 60, "day": ["31/12/2020"] * 60, **base(rng)},
        kinds={"none": "empty", "same": "constant", "day": "constant-moment"},
    )


def one_value(rng: np.random.Generator) -> Ugly:
    return Ugly({"once": ["3.5", *[""] * 59], **base(rng)}, kinds={"once": "constant"})


def many_levels(rng: np.random.Generator) -> Ugly:
    return Ugly({"note": [f"text {i}" for i in rng.permutation(3000)], **base(rng, 3000)}, kinds={"note": "carried"})


def numbers_and_text(rng: np.random.Generator) -> Ugly:
    return Ugly({"mixed": [f"n{i}" if i % 3 else str(i) for i in range(60)], **base(rng)}, kinds={"mixed": "carried"})


def mostly_numbers(rng: np.random.Generator) -> Ugly:
    return Ugly(
        {"x": [*map(str, range(58)), "high", "low"], "y": range(60)}, refused="column 'x' holds numbers, but also"
    )


def duplicated(rng: np.random.Generator) -> Ugly:
    columns = base(rng)
    return Ugly({**columns, "again": columns["x"], "and again": columns["x"]})


def duplicated_names(rng: np.random.Generator) -> Ugly:
    return Ugly({**base(rng), "x\0": range(60)}, refused="duplicate column name 'x'")


def collinear(rng: np.random.Generator) -> Ugly:
    a, b = rng.integers(0, 50, 60), rng.integers(0, 50, 60)
    return Ugly({"a": a.tolist(), "b": b.tolist(), "sum": (a + b).tolist(), "twice": (2 * a).tolist()})


def yes_and_no(rng: np.random.Generator) -> Ugly:
    cells = rng.choice(["Y", "N"], 60).tolist()
    return Ugly({"flag": cells, **base(rng)}, ["--column", "flag=boolean"], kinds={"flag": "boolean"})


def spiked_counts(rng: np.random.Generator) -> Ugly:
    counts = np.where(rng.random(200) < 0.6, 0, rng.poisson(30, 200))
    return Ugly(
        {"count": counts.tolist(), "said": counts.tolist(), **base(rng, 200)},
        ["--column", "said=zero-inflated"],
        kinds={"count": "integer", "said": "zero-inflated"},
    )


def unicode_headers(rng: np.random.Generator) -> Ugly:
    x, y = base(rng).values()
    return Ugly({"Größe (cm)": x, "名前": y, "😀": rng.integers(0, 99, 60).tolist(), '"q"': x})


def five_rows(rng: np.random.Generator) -> Ugly:
    return Ugly({"a": [1, 2, 3, 4, 5], "b": [2.5, 2.5, 3.5, 1.0, 0.5], "day": [f"2020-01-0{i}" for i in range(1, 6)]})


EVERY: list[Callable[[np.random.Generator], Ugly]] = [
    leading_zeros,
    two_formats,
    empty_and_constant,
    one_value,
    many_levels,
    numbers_and_text,
    mostly_numbers,
    duplicated,
    duplicated_names,
    collinear,
    yes_and_no,
    spiked_counts,
    unicode_headers,
    five_rows,
]


def text_of(columns: Columns, rng: np.random.Generator) -> str:
    """CSV with an eighth of the cells missing; of five rows one in each column but the first."""
    n = len(next(iter(columns.values())))
    rows = [[str(cells[i]) for cells in columns.values()] for i in range(n)]
    for j in range(len(columns)):
        for i in range(n):
            rows[i][j] = "" if (rng.random() < 0.125 if n > 5 else i == j and j > 0) else rows[i][j]
    names = ['"' + name.replace("\0", "").replace('"', '""') + '"' for name in columns]
    return "".join(",".join(cells) + "\n" for cells in (names, *rows))


@pytest.mark.parametrize("make", EVERY, ids=lambda make: str(make.__name__))
def test_a_table_is_imputed_or_refused(make: Callable[[np.random.Generator], Ugly], tmp_path: Path, vgi: Vgi) -> None:
    rng = np.random.default_rng(18)
    ugly = make(rng)
    path = save(tmp_path, "table.csv", text_of(ugly.columns, rng))
    fit = vgi("fit", path, "--out", tmp_path / "run", *QUICK, *ugly.flags)
    if ugly.refused:
        assert fit.code == 2 and ugly.refused in fit.error and fit.hint and fit.err.count("error:") == 1
        assert not (tmp_path / "run").exists()
        return
    assert fit.code == 0, fit.err
    done = vgi("impute", "--checkpoint", tmp_path / "run", "--m", "1", "--format", "single", "-o", tmp_path / "o.csv")
    assert done.code == 0, done.err
    schema = Schema.from_json((tmp_path / "run" / "schema.json").read_text())
    kinds = {column.name: column.kind for column in schema.columns}
    assert ugly.kinds.items() <= kinds.items()
    before, after = read_table([path]), read_table([tmp_path / "o.csv"])
    assert before.names == after.names and before.N == after.N
    holes = 0
    for column in schema.columns:
        was, now = before.column(column.name), after.column(column.name)
        observed = ~was.missing
        assert np.array_equal(was.texts()[observed], now.texts()[observed])
        if isinstance(column, ModelledColumn | ConstantColumn):
            holes += int(was.missing.sum())
            assert not now.missing.any(), column.name
    assert holes > 0 and f"filled {holes} of" in done.err
