"""Columns that are rounded to significant digits, down or up keep to their relations, each cell as far as it goes."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from pydantic import TypeAdapter

from tests.selection import first
from vgi_cli.columns.numerals import Floats
from vgi_cli.columns.relations import Relation, halves_at
from vgi_cli.columns.schema import Schema
from vgi_cli.encoding.digits import significant_of
from vgi_cli.encoding.infer import schema_alone
from vgi_cli.encoding.keeping import keep_relations
from vgi_cli.encoding.relations import departing
from vgi_cli.table.frames import from_frame

N = 300


def schema_of(frame: pd.DataFrame) -> Schema:
    return schema_alone(from_frame(frame))


def to_digits(values: Floats, digits: int) -> Floats:
    return np.array([float(f"{value:.{digits}g}") for value in np.asarray(values).tolist()])


def counts(seed: int = 0) -> pd.DataFrame:
    """Parts of a total, from a few in 100,000 to most of it."""
    rng = np.random.default_rng(seed)
    total = rng.integers(5_000, 90_000, N)
    part = (total * rng.beta(0.5, 3, N)).astype(int) + 1
    return pd.DataFrame({"part": part, "total": total, "other": rng.normal(size=N).round(1)})


def filled(frame: pd.DataFrame, schema: Schema, name: str, seed: int = 1) -> tuple[Floats, Floats]:
    """Of a column of which every third cell is missing, and drawn from the others: the true cells and what the draws
    become."""
    table, rng = from_frame(frame), np.random.default_rng(seed)
    codes = np.stack([column.codes(table.column(column.name)) for column in schema.encoded], 1)
    missing, j = np.zeros(codes.shape, bool), schema.modelled.index(name)
    missing[::3, j] = True
    draws = np.where(missing, rng.permutation(codes), codes)[None].copy()
    keep_relations(draws, np.where(missing, 0.0, codes), missing, schema)
    return codes[::3, j], draws[0, ::3, j]


class TestSignificantDigits:
    @pytest.mark.parametrize("digits", [3, 4, 7, 9])
    def test_a_share_is_found_and_filled(self, digits: int) -> None:
        frame = counts()
        frame["percent"] = to_digits(100 * frame.part / frame.total, digits)
        schema = schema_of(frame)
        assert [one.words() for one in schema.relations] == [
            f"'percent' = 100 × 'part' / 'total', rounded to {digits} digits"
        ]
        true, fills = filled(frame, schema, "percent")
        assert np.allclose(fills, true, rtol=1e-12, atol=0)

    def test_a_sum_of_wide_range(self) -> None:
        rng = np.random.default_rng(0)
        frame = pd.DataFrame({"a": np.exp(rng.normal(0, 2, N)).round(6), "b": rng.normal(170, 9, N).round(1)})
        frame["total"] = to_digits(frame.a + 2.5 * frame.b, 6)
        frame["first"] = to_digits(frame.a * 3, 4)
        words = {one.names[0]: one.words() for one in schema_of(frame).relations}
        assert words["first"] == "'first' = 3 'a', rounded to 4 digits"
        assert words["total"].startswith("'total' = 'a' + 2.5 'b', rounded")

    def test_few_cells_with_fewer_decimals_are_enough_where_the_digits_are_many(self) -> None:
        frame = counts()
        frame["part"] = np.minimum(frame.part, frame.total // 12)
        frame.loc[5, "part"] = frame.total[5] - 7
        percent = 100 * frame.part / frame.total
        frame["percent"] = np.where(percent < 10, percent.round(8), to_digits(percent, 9))
        schema = schema_of(frame)
        column = schema.encoded[schema.modelled.index("percent")]
        assert significant_of(column, frame.percent.to_numpy(float)) == 9
        assert [one.names[0] for one in schema.relations] == ["percent"]
        true, fills = filled(frame, schema, "percent")
        assert np.allclose(fills, true, rtol=1e-12, atol=0)

    def test_a_cell_that_is_off_by_more_than_its_own_last_digit_departs(self) -> None:
        relation = Relation(names=("y", "x"), weights=(1.0, -1.0), rounded=True, significant=3)
        rows = np.array([[1230.0, 1234.0], [1230.0, 1236.0], [0.123, 0.1234], [0.123, 0.1237], [0.0, 0.0]])
        assert departing(relation, rows, 0.0).tolist() == [False, True, False, True, False]
        assert halves_at(np.array([0.0, 9.99, 1000.0]), 0.05, 3).tolist() == [0.05, 0.05, 5.0]

    def test_what_is_rounded_to_a_power_of_ten_has_a_digit_more_below_it(self) -> None:
        sides, cells = np.array([1, -1, 0]), np.full(3, 100.0)
        assert halves_at(cells, 0.0, 3, sides) == pytest.approx([0.5, 0.05, 0.5], rel=1e-12)
        assert halves_at(-cells, 0.0, 3, sides) == pytest.approx([0.05, 0.5, 0.5], rel=1e-12)
        assert halves_at(np.full(3, 1e-5), 0.0, 3, sides) == pytest.approx([5e-8, 5e-9, 5e-8], rel=1e-12)
        assert halves_at(np.full(3, 1e-5), 1e-6, 3, sides).tolist() == [1e-6] * 3
        assert halves_at(np.full(3, 100.5), 0.0, 4, sides) == pytest.approx([0.05] * 3, rel=1e-12)
        relation = Relation(names=("y", "x"), weights=(1.0, -1.0), rounded=True, significant=3)
        said = np.array([100.4, 99.96, 99.6])
        for sign in (1.0, -1.0):
            rows = np.stack([cells, said], 1) * sign
            assert departing(relation, rows, 0.0).tolist() == [False, False, True]

    def test_factors_of_a_power_of_ten_have_it_as_their_rounded_product(self) -> None:
        """Hours are drawn so that the pay says what it is: 99.6 is no 100 in three digits."""
        rng = np.random.default_rng(0)
        frame = pd.DataFrame({"wage": rng.gamma(9, 0.4, N).round(4), "hours": rng.gamma(9, 5, N).round(3)})
        frame["pay"] = to_digits(frame.wage * frame.hours, 3)
        schema = schema_of(frame)
        assert [one.words() for one in schema.relations] == ["'pay' = 'wage' × 'hours', rounded to 3 digits"]
        order = [schema.modelled.index(name) for name in ("wage", "hours", "pay")]
        rows = np.column_stack([np.full(200, 2.0), np.linspace(49.6, 50.4, 200).round(3), np.full(200, 100.0)])
        draws, missing = np.empty((1, 200, 3)), np.zeros((200, 3), bool)
        draws[0][:, order], missing[:, order[1]] = rows, True
        keep_relations(draws, np.where(missing, 0.0, draws[0]), missing, schema)
        hours = draws[0][:, order[1]]
        assert (to_digits(2 * hours, 3) == 100).all() and (hours < 50).any() and (hours > 50.2).any()

    def test_decimals_alone_are_no_significant_digits(self) -> None:
        rng = np.random.default_rng(0)
        for values in (rng.normal(50, 20, N).round(2), rng.integers(0, 20, N) / 4, rng.normal(size=N)):
            schema = schema_of(pd.DataFrame({"x": values, "y": rng.normal(size=N)}))
            assert significant_of(schema.encoded[0], np.asarray(values, float)) is None

    def test_fifteen_digits_are_no_rounding(self) -> None:
        """As programs write what they centre: a last digit of 1e-14 is no larger than what arithmetic is off."""
        rng = np.random.default_rng(0)
        frame = pd.DataFrame({"score": rng.integers(8, 36, N) / 2, "x": rng.normal(size=N)})
        frame["centred"] = to_digits(frame.score - 11.8340620900743, 15).round(14)
        (found,) = schema_of(frame).relations
        assert found.names == ("centred", "score") and not found.rounded
        assert found.constant == pytest.approx(-11.8340620900743, abs=1e-12)

    @pytest.mark.parametrize("seeds", first(1, [range(8), range(8, 20)]))
    def test_nothing_is_found_by_chance(self, seeds: range) -> None:
        for seed in seeds:
            rng = np.random.default_rng(seed)
            frame = pd.DataFrame({f"x{i}": to_digits(np.exp(rng.normal(0, 2, N)), 2 + seed % 8) for i in range(6)})
            frame["near"] = to_digits(frame.x0 * frame.x1 * np.exp(rng.normal(0, 10.0 ** -(2 + seed % 8) * 8, N)), 9)
            assert schema_of(frame).relations == ()


def down(values: Floats, digit: float) -> Floats:
    return np.asarray((np.floor(np.asarray(values) / digit + 1e-9) * digit).round(6))


def up(values: Floats, digit: float) -> Floats:
    return np.asarray((np.ceil(np.asarray(values) / digit - 1e-9) * digit).round(6))


class TestOneSided:
    @pytest.mark.parametrize(("how", "side"), [(down, "down"), (up, "up")])
    def test_products_and_sums(self, how: Callable[[Floats, float], Floats], side: str) -> None:
        rng = np.random.default_rng(0)
        frame = pd.DataFrame({"hgt": rng.normal(150, 30, N).round(1), "wgt": rng.gamma(9, 5, N).round(2)})
        frame["days"] = rng.integers(0, 36_000, N)
        frame["a"], frame["b"] = rng.integers(0, 100, (2, N))
        frame["bmi"] = how(10_000 * frame.wgt.to_numpy() / frame.hgt.to_numpy() ** 2, 0.01)
        frame["years"] = how(frame.days.to_numpy() / 365.25, 1.0).astype(int)
        frame["middle"] = how((frame.a.to_numpy() + frame.b.to_numpy()) / 2, 1.0).astype(int)
        frame["fahrenheit"] = how(1.8 * frame.wgt.to_numpy() + 32, 0.1)
        schema = schema_of(frame)
        assert {one.words() for one in schema.relations} == {
            f"'bmi' = 10000 × 'wgt' / 'hgt'^2, rounded {side}",
            f"'years' = 1/365.25 'days', rounded {side}",
            f"'middle' = 0.5 'a' + 0.5 'b', rounded {side}",
            f"'fahrenheit' = 1.8 'wgt' + 32, rounded {side}",
        }
        for name in ("bmi", "years", "middle", "fahrenheit"):
            true, fills = filled(frame, schema, name)
            assert np.allclose(fills, true, rtol=0, atol=1e-9), name

    @pytest.mark.parametrize(("how", "side"), [(down, -1), (up, 1)])
    def test_what_was_rounded_is_filled_within_its_digit(
        self, how: Callable[[Floats, float], Floats], side: int
    ) -> None:
        rng = np.random.default_rng(0)
        frame = pd.DataFrame({"price": rng.gamma(9, 5, N).round(3), "count": rng.integers(1, 90, N)})
        frame["paid"] = how(frame.price.to_numpy() * frame["count"].to_numpy(), 1.0)
        schema = schema_of(frame)
        codes = np.stack([frame[name].to_numpy(float) for name in schema.modelled], 1)
        missing = np.zeros(codes.shape, bool)
        missing[::3, 0] = True
        draws = np.where(missing, rng.permutation(codes), codes)[None].copy()
        keep_relations(draws, np.where(missing, 0.0, codes), missing, schema)
        left = draws[0, :, 2] - draws[0, :, 0] * draws[0, :, 1]
        assert len(schema.relations) == 1 and (side * left >= -1e-6).all() and (side * left < 1 + 1e-3).all()

    def test_rounding_to_the_nearest_stays_that(self) -> None:
        rng = np.random.default_rng(0)
        frame = pd.DataFrame({"x": rng.normal(50, 20, N).round(2), "y": rng.normal(50, 20, N).round(2)})
        frame["mean"] = (0.5 * (frame.x + frame.y) + 1e-9).round(1)
        frame["more"] = (1.8 * frame.x + 32.04).round(1)
        assert {one.words() for one in schema_of(frame).relations} == {
            "'mean' = 0.5 'x' + 0.5 'y', rounded",
            "'more' = 1.8 'x' + 32.04, rounded",
        }

    def test_a_schema_keeps_it(self) -> None:
        adapter = TypeAdapter(Relation)
        for more in ({"shift": -0.5}, {"significant": 9}):
            relation = Relation(names=("y", "x"), weights=(1.0, -2.0), rounded=True, **more)
            assert adapter.validate_python(json.loads(adapter.dump_json(relation)), strict=False) == relation
            with pytest.raises(ValueError, match="does not fit its columns"):
                Relation(names=("y", "x"), weights=(1.0, -2.0), **more)
