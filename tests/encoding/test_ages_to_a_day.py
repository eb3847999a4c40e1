"""Completed years and months from a date to one day that is in no cell: found, told from others, and kept by fills."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.encoding.test_ages import ages, filled, hiding, months, years
from tests.encoding.test_following import spread
from tests.encoding.test_relations import codes_in, holed, schema_of
from tests.schemas import checked
from tests.selection import covering, first
from vgi_cli.columns.calendar import Span, day_between
from vgi_cli.columns.schema import Schema
from vgi_cli.encoding.infer import infer_schema, schema_alone
from vgi_cli.encoding.keeping import keep_relations
from vgi_cli.encoding.relations import departing, departures
from vgi_cli.errors import RunError
from vgi_cli.table.frames import from_frame
from vgi_cli.table.reader import read_table

DAY = datetime.date(2024, 9, 1)


def pupils(n: int = 400, seed: int = 0, span: Span = "year", day: datetime.date = DAY) -> pd.DataFrame:
    """Children of a few ages (in months some more), and a number that depends on these."""
    rng = np.random.default_rng(seed)
    born = pd.Series(pd.Timestamp(day) - pd.to_timedelta(rng.integers(11 * 365, 18 * 365, n), "D"))
    rule = years if span == "year" else months
    age = [rule(one.date(), day) for one in born]
    return pd.DataFrame({"born": born, "age": age, "score": (0.05 * np.array(age) + rng.normal(size=n)).round(2)})


def said(schema: Schema) -> list[str]:
    return [one.words() for one in schema.relations if one.until is not None]


def day_of(iso: str) -> int:
    return (datetime.date.fromisoformat(iso) - datetime.date(1970, 1, 1)).days


class TestFound:
    @pytest.mark.parametrize("n", [150, 400, 1500])
    def test_it_is_said_beside_holes_and_the_day_lies_within(self, n: int) -> None:
        schema, notes = infer_schema(from_frame(holed(pupils(n))))
        (relation,) = (one for one in schema.relations if "age" in one.names)
        assert relation.until is not None
        assert relation.until[0] <= day_of("2024-09-01") <= relation.until[1] < relation.until[0] + 20
        assert any(relation.words() in note for note in notes)
        assert not any("linear function" in note and "'age'" in note for note in notes)

    def test_of_many_rows_the_day_itself_is_said(self) -> None:
        assert said(schema_of(pupils(8_000))) == ["'age' = completed years from 'born' to 2024-09-01"]
        some = pupils(400)
        near = pd.to_datetime([f"{year}-{day}" for year in (2008, 2009, 2010) for day in ("08-30", "09-04")])
        frame = pd.concat([some[~some.born.dt.month.isin([8, 9])], pupils(200, 1)])
        frame = frame[(frame.born.dt.month != 9) | (frame.born.dt.day > 3)]
        frame = frame[(frame.born.dt.month != 8) | (frame.born.dt.day < 31)]
        more = pd.DataFrame(
            {"born": near, "age": ages(pd.Series(near), pd.Series([pd.Timestamp(DAY)] * 6)), "score": 0}
        )
        words = "'age' = completed years from 'born' to a day from 2024-08-30 to 2024-09-03"
        assert said(schema_of(pd.concat([frame, more], ignore_index=True))) == [words]

    @pytest.mark.parametrize("kind", ["ordinal", "categorical", "integer"])
    def test_of_ages_of_any_kind(self, kind: str) -> None:
        frame = holed(pupils(600))
        schema = infer_schema(from_frame(frame), kinds={"age": kind})[0]
        assert schema.encoded[schema.modelled.index("age")].kind == kind
        assert len(said(schema)) == 1

    def test_months(self) -> None:
        (words,) = said(schema_of(holed(pupils(2_000, span="month"))))
        assert words.startswith("'age' = completed months from 'born' to ")

    @pytest.mark.parametrize("format", ["%d.%m.%Y", "%Y-%m-%d %H:%M"])
    def test_in_csv(self, tmp_path: Path, format: str) -> None:
        holed(pupils()).to_csv(tmp_path / "t.csv", index=False, date_format=format)
        schema = schema_alone(read_table([tmp_path / "t.csv"]))
        assert len(said(schema)) == 1
        assert Schema.from_json(schema.to_json()) == schema
        assert checked("schema", schema.to_json())["relations"]

    def test_of_a_date_in_the_row_that_says_it_the_day_is_none(self) -> None:
        frame = pupils().assign(at=pd.Timestamp(DAY) + pd.to_timedelta(np.arange(400) % 200, "D"))
        frame.age = ages(frame.born, frame["at"])
        assert said(schema_of(frame)) == []
        assert [one.words() for one in schema_of(frame).relations] == ["'age' = completed years from 'born' to 'at'"]


class TestNotFound:
    def test_of_ages_at_days_that_differ(self) -> None:
        for seed in range(20):
            frame = pupils(300, seed)
            days = pd.Timestamp(DAY) + pd.to_timedelta(np.random.default_rng(seed).integers(-20, 21, len(frame)), "D")
            assert said(schema_of(frame.assign(age=ages(frame.born, pd.Series(days))))) == []

    def test_where_one_row_departs(self) -> None:
        frame = pupils()
        frame.loc[17, "age"] += 1
        assert said(schema_of(frame)) == []

    def test_of_years_that_are_rounded_or_counted_from_another_end(self) -> None:
        frame = pupils()
        days = (pd.Timestamp(DAY) - frame.born).dt.days
        for age in (days // 360, days // 372, np.rint(days / 400), frame.born.dt.year):
            assert said(schema_of(frame.assign(age=age.astype(int)))) == []

    def test_of_few_rows_or_of_none_near_a_birthday(self) -> None:
        assert said(schema_of(pupils(40))) == []
        frame = pupils(1_000)
        assert said(schema_of(frame[~frame.born.dt.month.isin([8, 9])])) == []

    def test_of_two_ages_alone(self) -> None:
        """One limit between two levels is no calendar."""
        frame = pupils(2_000)
        assert said(schema_of(frame[frame.age.isin([14, 15])])) == []
        assert len(said(schema_of(frame[frame.age.isin([13, 14, 15])]))) == 1

    def test_of_numbers_far_beyond_all_ages(self) -> None:
        frame = pupils()
        assert said(schema_of(frame.assign(age=frame.age + 10**12))) == []

    @pytest.mark.parametrize("seeds", first(1, [range(8), range(8, 20)]))
    def test_by_chance(self, seeds: range) -> None:
        for seed in seeds:
            rng = np.random.default_rng(seed)
            frame = pupils(400, seed).sort_values("born", ignore_index=True)
            for age in (rng.integers(12, 18, 400), 20 - np.arange(400) // 60, 400 - np.arange(400)):
                assert said(schema_of(frame.assign(age=age))) == []


class TestKept:
    @given(st.integers(0, 2**31), st.floats(0.05, 0.95), st.sampled_from(["integer", "ordinal"]))
    @settings(max_examples=10, deadline=None)
    def test_under_any_mask(self, seed: int, share: float, kind: str) -> None:
        frame = pupils()
        schema = infer_schema(from_frame(frame), kinds={"age": kind})[0]
        true = codes_in(frame, schema)
        filled(schema, true, np.random.default_rng(seed).random(true.shape) < share)

    @covering(
        pytest.mark.parametrize("hidden", [("age",), ("born",), ("age", "born")]),
        pytest.mark.parametrize("times", [False, True]),
        pytest.mark.parametrize("kind", ["integer", "ordinal"]),
    )
    def test_any_of_them_missing(self, hidden: tuple[str, ...], times: bool, kind: str) -> None:
        frame = pupils(1_000)
        if times:
            frame.born += pd.to_timedelta(np.random.default_rng(0).integers(0, 1_440, len(frame)), "min")
        schema = infer_schema(from_frame(frame), kinds={"age": kind})[0]
        assert len(said(schema)) == 1
        true = codes_in(frame, schema)
        draws = filled(schema, true, hiding(true, schema, *hidden))
        at = {name: schema.modelled.index(name) for name in frame}
        for draw in draws:
            born, age = (schema.encoded[at[name]].spell(draw[:, at[name]], None) for name in ("born", "age"))
            days = pd.to_datetime(pd.Series(born)).dt.date
            assert [years(one, DAY) for one in days] == [int(float(one)) for one in age]
        if hidden == ("age",):
            np.testing.assert_array_equal(draws[0], true)

    def test_a_date_is_anywhere_in_its_year(self) -> None:
        frame = pupils(3_000)
        schema = schema_of(frame)
        true = codes_in(frame, schema)
        draws = filled(schema, true, hiding(true, schema, "born"))
        column = schema.encoded[schema.modelled.index("born")]
        born = pd.to_datetime(pd.Series(column.spell(draws[0][:, schema.modelled.index("born")], None)))
        assert np.histogram(born.dt.day_of_year, 12)[0].min() > 150

    @given(st.integers(0, 2**31), st.floats(0.1, 0.9))
    @settings(max_examples=10, deadline=None)
    def test_with_parts_of_the_date_an_order_and_a_sum(self, seed: int, share: float) -> None:
        """Of which each leaves the date, or the age, less than the other."""
        frame = pupils(600).assign(month=lambda one: one.born.dt.month, class_=lambda one: one.age - 6)
        enrolled = frame.born + pd.to_timedelta(np.random.default_rng(0).exponential(300, len(frame)).astype(int), "D")
        frame = frame.assign(enrolled=enrolled)
        schema = schema_of(frame)
        assert {one.how for one in schema.relations} >= {"bands", "part", "sum"}
        assert [(one.low, one.high) for one in schema.orders] == [("born", "enrolled")]
        true = codes_in(frame, schema)
        missing = np.random.default_rng(seed).random(true.shape) < share
        draws = spread(true, missing)
        keep_relations(draws, np.where(missing, 0.0, true), missing, schema)
        (relation,) = (one for one in schema.relations if one.until is not None and one.names[0] == "age")
        at = [schema.modelled.index(name) for name in relation.names]
        assert departing(relation, draws[..., at], 0.0).mean() < 0.002

    def test_fills_and_samples_of_a_run_keep_to_it(self, tmp_path: Path) -> None:
        import vgi_cli

        few = {"model.components": 1, "bootstrap": 1}
        run = vgi_cli.fit(holed(pupils(600), 2, 0.3), out=tmp_path / "run", model="mixture", set=few)
        schema = Schema.from_json((tmp_path / "run" / "schema.json").read_text())
        (relation,) = (one for one in schema.relations if one.until is not None)
        assert relation.until is not None
        day = datetime.date(1970, 1, 1) + datetime.timedelta(days=day_between(*relation.until))
        assert day == DAY
        for one in [*run.impute(m=2), run.sample(n=50)]:
            assert [years(born.date(), day) for born in one.born] == one.age.tolist()


def test_rows_of_a_new_table_depart_where_no_day_of_the_interval_agrees() -> None:
    frame = pupils(400)
    frame = frame[~((frame.born.dt.month == 9) & (frame.born.dt.day < 8))].reset_index(drop=True)
    schema = schema_of(frame)
    (relation,) = (one for one in schema.relations if one.until is not None)
    assert relation.until is not None and relation.until[1] >= day_of("2024-09-07")
    born = pd.to_datetime(["2010-09-05", "2010-09-05", "2010-09-05", "2010-03-01", "2010-03-01"])
    new = pd.DataFrame({"born": born, "age": [13, 14, 15, 14, 15], "score": 0.0})
    assert departures(from_frame(new), schema) == [2]


def test_the_day_is_one_with_which_a_year_or_a_month_begins() -> None:
    for since, until, day in (
        ("2024-08-31", "2024-09-05", "2024-09-01"),
        ("2024-12-01", "2025-02-01", "2025-01-01"),
        ("2024-09-01", "2024-09-01", "2024-09-01"),
        ("2024-09-02", "2024-09-08", "2024-09-05"),
        ("2024-09-07", "2024-09-07", "2024-09-07"),
    ):
        assert day_between(day_of(since), day_of(until)) == day_of(day)


def test_a_relation_that_does_not_fit_its_columns_is_refused() -> None:
    schema = schema_of(pupils())
    text = schema.to_json()
    for key, value in (("span", None), ("until", None), ("until", [5, 4]), ("count", "Q"), ("count", None)):
        raw = json.loads(text)
        next(one for one in raw["relations"] if one["until"])[key] = value
        with pytest.raises(RunError, match=r"schema.json: damaged \(relations.*the relation does not fit its columns"):
            Schema.from_json(json.dumps(raw))
    for change in ({"names": ["age", "score"]}, {"names": ["born", "score"]}, {"count": "D"}):
        raw = json.loads(text)
        next(one for one in raw["relations"] if one["until"]).update(change)
        with pytest.raises(RunError, match=r"schema.json: damaged \(.*relations do not fit"):
            Schema.from_json(json.dumps(raw))


def test_relations_without_the_field_are_read_as_before() -> None:
    schema = schema_of(pupils().drop(columns="age").assign(year=lambda one: one.born.dt.year))
    raw = json.loads(schema.to_json())
    assert raw["relations"]
    for one in raw["relations"]:
        del one["until"]
    assert Schema.from_json(json.dumps(raw)) == schema
