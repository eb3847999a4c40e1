"""Decimal fractions that went through 32 bits are read as what they were, and fills are written as the cells are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.table.helpers import from_text, write_imputed
from vgi_cli.columns.limits import bound_lines
from vgi_cli.columns.number import Number
from vgi_cli.columns.numerals import Floats
from vgi_cli.columns.schema import Schema
from vgi_cli.columns.singles import Single, single_of
from vgi_cli.encoding.infer import schema_alone
from vgi_cli.table.base import Table

N = 400
RNG = np.random.default_rng(0)
SCORES = (RNG.integers(0, 12, N) * 1.3 + 0.1 * RNG.integers(0, 2, N) + 600).round(1)
SHARES = np.where(RNG.random(N) < 0.1, 100.0, RNG.uniform(0, 100, N).round(4))
RATES = np.where(RNG.random(N) < 0.2, 0.1, (10 ** RNG.uniform(-1, 2, N)).round(5))
RATES = np.array([float(f"{rate:.6g}") for rate in RATES.tolist()])


def by_r(values: Floats) -> list[str]:
    """As R writes float32 numbers, with 15 digits."""
    return [f"{value:.15g}" for value in np.asarray(values).astype(np.float32).astype(np.float64).tolist()]


def by_pandas(values: Floats) -> list[str]:
    """As Python writes them, with as many as tell them apart from other float64 numbers."""
    return [repr(value) for value in np.asarray(values).astype(np.float32).astype(np.float64).tolist()]


def plainly(values: Floats) -> list[str]:
    return [repr(value) for value in values.tolist()]


def table(write: Callable[[Floats], list[str]], *, holes: int = 0) -> Table:
    columns = [write(values) for values in (SCORES, SHARES, RATES)]
    for cells in columns if holes else ():
        cells[::holes] = [""] * len(cells[::holes])
    lines = [",".join(cells) for cells in zip(*columns, strict=True)]
    return from_text("score,share,rate\n" + "\n".join(lines) + "\n")


def number(schema: Schema, name: str) -> Number:
    column = schema.encoded[schema.modelled.index(name)]
    assert isinstance(column, Number)
    return column


class TestReading:
    @pytest.mark.parametrize(("write", "digits"), [(by_r, 15), (by_pandas, 17)])
    def test_columns_are_those_of_the_fractions(self, write: Callable[[Floats], list[str]], digits: int) -> None:
        """Step, limits, gaps, heaps, scale: everything but how cells are written."""
        read, fractions = schema_alone(table(write)), schema_alone(table(plainly))
        for name in ("score", "share", "rate"):
            column, plain = number(read, name), number(fractions, name)
            assert column.single == Single(digits) and plain.single is None
            assert replace(column, single=None, decimals=plain.decimals) == plain
        assert read.orders == fractions.orders and read.relations == fractions.relations
        score, share = number(read, "score"), number(read, "share")
        assert score.resolution == 0.1 and score.gaps and share.upper is not None and share.upper.value == 100

    def test_messages_print_the_fractions(self) -> None:
        read = table(by_r)
        schema = schema_alone(read)
        summary, lines = bound_lines(schema.encoded)
        assert lines == bound_lines(schema_alone(table(plainly)).encoded)[1]
        said = " ".join([summary or "", *lines, *(column.summary for column in schema.encoded)])
        assert "gaps" in said and "999" not in said and "0000" not in said

    def test_cells_of_another_table(self) -> None:
        """What was no such fraction stays as it is."""
        schema = schema_alone(table(by_r))
        other = from_text("score,share,rate\n601.299987792969,0.5,601.3\n1,,601.29998\n")
        codes = [column.codes(other.column(column.name)) for column in schema.encoded]
        assert codes[0].tolist() == [601.3, 1.0] and codes[2].tolist() == [601.3, 601.29998]
        assert codes[1][0] == 0.5 and np.isnan(codes[1][1])

    def test_a_schema_keeps_it(self) -> None:
        schema = schema_alone(table(by_r))
        assert Schema.from_json(schema.to_json()) == schema
        assert '"single"' not in schema_alone(table(plainly)).to_json()

    def test_other_numbers_are_as_they_are_written(self) -> None:
        rng = np.random.default_rng(1)
        wide = np.array([float(text) for text in by_r(SCORES)])
        shares = rng.uniform(1, 100, N)
        others: dict[str, Floats] = {
            "fractions": SCORES,
            "whole": np.rint(SCORES),
            "halves": np.rint(SCORES) / 2,
            "double": shares,
            "one third": np.rint(shares) / 3,
            "single": np.array([float(text) for text in by_r(shares)]),  # no fractions of few digits
            "one that is none": np.append(wide, 601.3),
            "one that is double": np.append(wide, 1 / 3),
            "always the same": np.full(N, wide[0]),
            "long": np.round(shares * 1e9) / 1e12,
        }
        for name, values in others.items():
            assert single_of(values) is None, name
        assert single_of(wide) == Single(15)


class TestWriting:
    @pytest.mark.parametrize("write", [by_r, by_pandas])
    def test_fills_are_written_as_cells_are(self, write: Callable[[Floats], list[str]], tmp_path: Path) -> None:
        read = table(write, holes=7)
        schema = schema_alone(read)
        truth = np.stack([SCORES, SHARES, RATES], 1)
        out = tmp_path / "filled.csv"
        write_imputed(read, schema, truth[None], layout="single", out=out)
        assert out.read_text().splitlines() == [
            "score,share,rate",
            *(",".join(cells) for cells in zip(*map(write, truth.T), strict=True)),
        ]
        again = schema_alone(from_text(out.read_bytes()))
        assert [number(again, name).single for name in again.modelled] == [
            number(schema, name).single for name in schema.modelled
        ]

    def test_fills_of_parquet_hold_the_same_numbers(self, tmp_path: Path) -> None:
        read = table(by_r, holes=7)
        schema, truth = schema_alone(read), np.stack([SCORES, SHARES, RATES], 1)
        out = tmp_path / "filled.parquet"
        write_imputed(read, schema, truth[None], layout="single", out=out)
        written = pq.read_table(out).to_pydict()
        assert written["score"] == [float(text) for text in by_r(SCORES)]

    def test_texts(self) -> None:
        single = Single(15)
        assert single.spell(np.array([601.3, 5.0, 1e-5, -0.0]), 1) == [
            "601.299987792969",
            "5.0",
            "9.99999974737875e-06",
            "0.0",
        ]
        assert single.written(np.array([601.3])).tolist() == [601.299987792969]
