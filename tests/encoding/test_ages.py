"""Completed years and months between two dates: found, told from others, and kept by fills."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import vgi_cli
from tests.encoding.test_following import kept_apart, spread
from tests.encoding.test_relations import codes_in, holed, schema_of
from tests.schemas import checked
from tests.selection import first
from vgi_cli.columns.calendar import Span, day_from, place_of
from vgi_cli.columns.numerals import Bools, Floats
from vgi_cli.columns.relations import Relation
from vgi_cli.columns.schema import Schema
from vgi_cli.encoding.infer import infer_schema, schema_alone
from vgi_cli.encoding.keeping import keep_relations
from vgi_cli.encoding.orders import out_of_order
from vgi_cli.errors import RunError
from vgi_cli.table.frames import from_frame
from vgi_cli.table.reader import read_table

SINCE = datetime.date(1970, 1, 1)


def years(born: datetime.date, at: datetime.date) -> int:
    """How many birthdays there were: that of February 29 is March 1 where there is none."""
    count = at.year - born.year
    birthday = (born.month, born.day) if (at.month, at.day) >= (3, 1) or born.month != 2 else (2, born.day)
    return count if (at.month, at.day) >= birthday else count - 1


def months(born: datetime.date, at: datetime.date) -> int:
    count = 12 * (at.year - born.year) + at.month - born.month
    return count if at.day >= born.day else count - 1


def ages(first: pd.Series, last: pd.Series, rule: object = years) -> list[int]:
    assert callable(rule)
    return [rule(a.date(), b.date()) for a, b in zip(first, last, strict=True)]


def patients(n: int = 400, seed: int = 0) -> pd.DataFrame:
    """Stays in hospital, with the ages at admission and a number that depends on them."""
    rng = np.random.default_rng(seed)
    born = pd.Series(pd.Timestamp("1932-01-01") + pd.to_timedelta(rng.integers(0, 365 * 70, n), "D"))
    admitted = pd.Series(pd.Timestamp("2018-01-01") + pd.to_timedelta(rng.integers(0, 900, n), "D"))
    operated = admitted + pd.to_timedelta(rng.integers(0, 60, n), "D")
    discharged = operated + pd.to_timedelta(rng.integers(1, 30, n), "D")
    frame = pd.DataFrame({"born": born, "operated": operated, "admitted": admitted, "discharged": discharged})
    frame["age"] = ages(born, admitted)
    return frame.assign(score=(0.05 * frame.age + rng.normal(size=n)).round(2))


def completed(schema: Schema) -> list[str]:
    return [one.words() for one in schema.relations if one.span is not None]


SAID = ["'age' = completed years from 'born' to 'admitted'"]
DATES = st.dates(datetime.date(1600, 1, 1), datetime.date(2400, 12, 31))


def relation_of(span: Span, *counts: str) -> Relation:
    """Of dates that count from different days on."""
    dates = tuple(("s", 86_400.0 * 30) if count == "s" else ("D", -40.0) for count in counts)
    return Relation(names=("age", "born", "at"), how="completed", span=span, dates=dates)  # type: ignore[arg-type]


def code_of(day: int, count: str, second: int = 0) -> float:
    return float((day - 30) * 86_400 + second) if count == "s" else float(day + 40)


class TestCalendar:
    @given(DATES, DATES, st.sampled_from([("D", "D"), ("D", "s"), ("s", "s")]), st.integers(0, 86_399))
    @settings(max_examples=300, deadline=None)
    def test_years_and_months_are_counted_as_a_calendar_does(
        self, first: datetime.date, last: datetime.date, counts: tuple[str, str], second: int
    ) -> None:
        codes = [code_of((one - SINCE).days, count, second) for one, count in zip((first, last), counts, strict=True)]
        values = np.array([0.0, *codes])
        for span, rule in (("year", years), ("month", months)):
            assert relation_of(span, *counts).completed(values) == rule(first, last)  # type: ignore[arg-type]

    @given(
        DATES, st.integers(0, 120), st.sampled_from(["year", "month"]), st.sampled_from("Ds"), st.sampled_from([1, 2])
    )
    @settings(max_examples=300, deadline=None)
    def test_a_date_has_the_days_that_leave_the_years_what_they_are(
        self, known: datetime.date, age: int, span: Span, count: str, place: int
    ) -> None:
        """Those from the first one on and before the last one, and no other."""
        relation, day = relation_of(span, count, count), (known - SINCE).days
        values = np.array([float(age), code_of(day, count), code_of(day, count)])
        low, high = relation.window(values, place, values[0])
        unit = 86_400 if count == "s" else 1
        assert unit * 28 <= high - low <= unit * 366
        for code, inside in ((low - 0.5, count == "D"), (low, True), (high - 1, True), (high, False)):
            values[place] = np.floor(code) if count == "s" else np.rint(code)
            assert (relation.completed(values) == age) == (inside and low <= values[place] < high)

    def test_days_go_to_their_places_and_back(self) -> None:
        days = np.arange(-80_000, 80_000)
        np.testing.assert_array_equal(day_from(place_of(days)), days)
        assert (np.diff(place_of(days)) >= 1).all()

    def test_of_february_29_a_year_is_completed_on_march_1(self) -> None:
        day = [
            (datetime.date(*one) - SINCE).days for one in ((2000, 2, 29), (2001, 2, 28), (2001, 3, 1), (2004, 2, 29))
        ]
        values = np.array([[0.0, code_of(day[0], "D"), code_of(one, "D")] for one in day[1:]])
        np.testing.assert_array_equal(relation_of("year", "D", "D").completed(values), [0, 1, 4])


class TestFound:
    def test_they_are_said_beside_holes(self) -> None:
        schema, notes = infer_schema(from_frame(holed(patients())))
        assert completed(schema) == SAID
        assert any(SAID[0] in note for note in notes)

    def test_a_rounded_number_of_days_says_less(self) -> None:
        """Of few rows none is on a birthday: there both hold."""
        for seed in range(5):
            frame = patients(300, seed)
            assert completed(schema_of(frame)) == SAID
            days = (frame.admitted - frame.born).dt.days
            near = np.abs(days / 365.25 - np.rint(days / 365.25)) * 365.25 < 1
            schema = schema_of(frame[~near])
            assert [one.names for one in schema.relations if "age" in one.names] == [("age", "born", "admitted")]
            assert completed(schema) == SAID

    @pytest.mark.parametrize("format", ["%Y-%m-%d", "%d/%m/%Y", "%d.%m.%y", "%d%b%Y", "%Y-%m-%d %H:%M"])
    def test_in_csv(self, tmp_path: Path, format: str) -> None:
        frame = patients()
        frame.born = frame.born.where(frame.born.dt.year > 1970, frame.born + pd.DateOffset(years=40))
        frame.age = ages(frame.born, frame.admitted)
        frame.to_csv(tmp_path / "t.csv", index=False, date_format=format)
        assert completed(schema_alone(read_table([tmp_path / "t.csv"]))) == SAID

    def test_in_parquet(self, tmp_path: Path) -> None:
        """Dates beside datetimes: the day counts."""
        frame = patients()
        frame.admitted += pd.to_timedelta(np.random.default_rng(0).integers(0, 86_400, len(frame)), "s")
        frame.born = frame.born.dt.date
        frame.to_parquet(tmp_path / "t.parquet")
        schema = schema_alone(read_table([tmp_path / "t.parquet"]))
        assert completed(schema) == SAID
        (relation,) = (one for one in schema.relations if one.span is not None)
        assert [count for count, _ in relation.dates] == ["D", "s"]
        assert Schema.from_json(schema.to_json()) == schema
        assert checked("schema", schema.to_json())["relations"]

    def test_months(self) -> None:
        frame = patients()
        frame["stay"] = ages(frame.admitted, frame.admitted + pd.to_timedelta(np.arange(400) * 2, "D"), months)
        frame["until"] = frame.admitted + pd.to_timedelta(np.arange(400) * 2, "D")
        assert completed(schema_of(holed(frame))) == [*SAID, "'stay' = completed months from 'admitted' to 'until'"]

    def test_of_several_dates_the_one_is_said_that_holds(self) -> None:
        """The wrong one is a day off in few rows alone."""
        frame = patients(2000)
        frame.operated = frame.admitted + pd.to_timedelta(np.random.default_rng(0).integers(0, 4, len(frame)), "D")
        assert completed(schema_of(holed(frame))) == SAID
        assert (np.array(ages(frame.born, frame.operated)) != frame.age).mean() < 0.01

    def test_where_rows_do_not_tell_which_date_it_is_nothing_is_said(self) -> None:
        frame = patients()
        wrong = np.array(ages(frame.born, frame.operated)) != frame.age
        schema = schema_of(frame[~wrong])
        assert not any("age" in one.names for one in schema.relations)

    def test_a_copy_of_a_date_is_no_other_one(self) -> None:
        frame = patients()
        frame["same"] = frame.admitted + pd.Timedelta(hours=7)
        assert completed(schema_of(frame)) == SAID

    def test_few_rows_near_birthdays_do_not_tell_it(self) -> None:
        frame = patients(2000)
        day = frame.admitted.dt.day_of_year - frame.born.dt.day_of_year
        assert completed(schema_of(frame[(day % 365 > 40) & (day % 365 < 325)].drop(columns="operated"))) == []

    def test_years_that_are_rounded_otherwise_are_no_completed_ones(self) -> None:
        frame = patients().drop(columns=["operated", "discharged"])
        days = (frame.admitted - frame.born).dt.days
        for age in (frame.age + 1, frame.admitted.dt.year - frame.born.dt.year):
            assert completed(schema_of(frame.assign(age=age.astype(int)))) == []
        schema = schema_of(frame.assign(age=np.rint(days / 365.25).astype(int)))
        assert completed(schema) == ["'age' = years of 365.25 days from 'born' to 'admitted', rounded"]

    def test_days_by_365_25_rounded_down_are_what_they_are(self) -> None:
        frame = patients(3000, 1)[["born", "admitted", "age"]]
        age = np.floor((frame.admitted - frame.born).dt.days / 365.25).astype(int)
        assert (age != frame.age).any()
        schema = schema_of(frame.assign(age=age))
        assert completed(schema) == ["'age' = completed years of 365.25 days from 'born' to 'admitted'"]

    def test_rows_with_another_age_are_named(self) -> None:
        frame = patients()
        right = frame.age.tolist()
        frame.loc[[6, 99], "age"] = [7, right[99] + 10]
        schema, notes = infer_schema(from_frame(frame))
        assert completed(schema) == SAID[:1] and schema.relations[0].but == 2
        (line,) = (note for note in notes if note.startswith(SAID[0]))
        assert line.startswith(
            f"{SAID[0]}, in 398 of the 400 rows that have all of these, but not in row 7 ('age' is 7,"
        )
        row = f"row 100 ('age' is {right[99] + 10}, not {right[99]})"
        assert f"not {right[6]}) and {row}: fills keep to this; where a cell" in line
        assert not any("nearly a linear function" in note and "'age'" in note for note in notes)

    def test_a_day_about_a_birthday_is_no_error(self) -> None:
        """Somebody counts otherwise: a year is over on the eve."""
        frame = patients(3000, 0)[["born", "admitted", "age"]]
        age = ages(frame.born, frame.admitted + pd.Timedelta(1, "D"))
        assert 0 < (age != frame.age).sum() <= 12
        schema, notes = infer_schema(from_frame(frame.assign(age=age)))
        assert not schema.relations and not any("completed" in note for note in notes)

    @pytest.mark.parametrize("seeds", first(1, [range(8), range(8, 20)]))
    def test_by_chance_none_is_found(self, seeds: range) -> None:
        for seed in seeds:
            rng = np.random.default_rng(seed)
            frame = patients(60, seed)
            frame["age"] = rng.integers(0, 2, 60)
            frame["operated"] = frame.born + pd.to_timedelta(rng.integers(0, 700, 60), "D")
            assert completed(schema_of(frame)) == []


def filled(schema: Schema, true: Floats, missing: Bools) -> Floats:
    """Fills [3, N, columns], drawn from other rows, that keep to all relations and orders and leave observed cells."""
    draws = spread(true, missing)
    apart = keep_relations(draws, np.where(missing, 0.0, true), missing, schema)
    assert np.array_equal(draws[:, ~missing], np.repeat(true[None], 3, 0)[:, ~missing])
    assert apart.count() == 0
    assert kept_apart(schema, draws) == 0 and not out_of_order(draws, schema).any()
    return draws


def hiding(true: Floats, schema: Schema, *names: str) -> Bools:
    missing = np.zeros(true.shape, bool)
    missing[:, [schema.modelled.index(name) for name in names]] = True
    return missing


class TestKept:
    @given(st.integers(0, 2**31), st.floats(0.05, 0.95))
    @settings(max_examples=10, deadline=None)
    def test_under_any_mask(self, seed: int, share: float) -> None:
        frame = patients().drop(columns=["operated", "discharged"])
        schema = schema_of(frame)
        true = codes_in(frame, schema)
        filled(schema, true, np.random.default_rng(seed).random(true.shape) < share)

    @pytest.mark.parametrize(
        "hidden",
        [
            ("age",),
            ("born",),
            ("admitted",),
            ("age", "born"),
            ("age", "admitted"),
            ("born", "admitted"),
            ("age", "born", "admitted"),
        ],
    )
    @pytest.mark.parametrize("times", [False, True])
    def test_any_of_them_missing(self, hidden: tuple[str, ...], times: bool) -> None:
        frame = patients()
        if times:
            frame.admitted += pd.to_timedelta(np.random.default_rng(0).integers(0, 1_440, len(frame)), "min")
        schema = schema_of(frame)
        assert completed(schema) == SAID
        true = codes_in(frame, schema)
        draws = filled(schema, true, hiding(true, schema, *hidden))
        at = {name: schema.modelled.index(name) for name in frame}
        if hidden == ("age",):
            assert np.array_equal(draws[..., at["age"]], np.repeat(true[None, :, at["age"]], 3, 0))
        for name in ("born", "admitted"):
            column = schema.encoded[at[name]]
            assert np.array_equal(column.held(draws[..., at[name]]), draws[..., at[name]])

    def test_a_date_is_anywhere_in_its_year(self) -> None:
        """Not at the ends of it; one that agrees with the age stays as it was drawn."""
        frame = patients(2000)
        schema = schema_of(frame)
        true = codes_in(frame, schema)
        missing = hiding(true, schema, "born")
        before, draws = spread(true, missing), filled(schema, true, missing)
        (relation,) = (one for one in schema.relations if one.span is not None)
        at = [schema.modelled.index(name) for name in relation.names]
        low, high = relation.window(true[:, at], 1, true[:, at[0]])
        place = (draws[..., at[1]] - low) / (high - low)
        assert np.histogram(place, 10, (0, 1))[0].min() > 450
        stays = relation.completed(before[..., at]) == true[:, at[0]]
        assert stays.sum() > 30
        assert np.array_equal(draws[stays], before[stays])

    def test_within_limits(self) -> None:
        frame = patients()
        schema = infer_schema(from_frame(frame), bounds={"born": "observed", "admitted": "observed"})[0]
        true = codes_in(frame, schema)
        for hidden in (("born",), ("admitted",), ("born", "admitted")):
            draws = filled(schema, true, hiding(true, schema, *hidden))
            for name in ("born", "admitted"):
                own = true[:, schema.modelled.index(name)]
                cells = draws[..., schema.modelled.index(name)]
                assert own.min() <= cells.min() and cells.max() <= own.max()

    def test_in_order_with_other_dates(self) -> None:
        frame = patients()
        schema = schema_of(frame)
        assert {(one.low, one.high) for one in schema.orders} >= {("admitted", "operated")}
        true = codes_in(frame, schema)
        for hidden in (
            ("admitted",),
            ("age", "admitted"),
            ("born", "admitted"),
            ("admitted", "operated"),
            ("age", "born", "admitted"),
        ):
            filled(schema, true, hiding(true, schema, *hidden))

    @pytest.mark.parametrize(
        "hidden",
        [
            ("born",),
            ("born", "year"),
            ("born", "admitted"),
            ("age", "born"),
            ("born", "admitted", "year"),
            ("age", "born", "year"),
        ],
    )
    def test_with_parts_of_a_date(self, hidden: tuple[str, ...]) -> None:
        frame = patients()[["born", "admitted", "age"]].assign(
            year=lambda one: one.born.dt.year, month=lambda one: one.admitted.dt.month
        )
        schema = schema_of(frame)
        assert sorted(one.how for one in schema.relations) == ["completed", "part", "part"]
        true = codes_in(frame, schema)
        filled(schema, true, hiding(true, schema, *hidden))


@given(st.integers(0, 2**31), st.floats(0.05, 0.95))
@settings(max_examples=4, deadline=None)
def test_with_months_and_bands_under_any_mask(seed: int, share: float) -> None:
    """Of the same dates: what is known of the months leaves less than the years do, and the band of these more."""
    frame = patients().drop(columns=["operated", "discharged"])
    frame["months"] = ages(frame.born, frame.admitted, months)
    frame["band"] = pd.cut(frame.age, [0, 30, 50, 70, 200], right=False, labels=["a", "b", "c", "d"]).astype(str)
    schema = schema_of(frame)
    assert sorted(one.how for one in schema.relations) == ["bands", "completed", "completed"]
    true = codes_in(frame, schema)
    filled(schema, true, np.random.default_rng(seed).random(true.shape) < share)


@pytest.mark.parametrize(("share", "others"), [(0.7, False), (0.3, True)])
def test_dates_of_known_ages_are_in_order_before_one_takes_what_the_other_leaves(share: float, others: bool) -> None:
    """Of drawn dates the one that others limit is brought into order first; months leave less than years do."""
    frame = patients(600)
    if others:
        frame["months"] = ages(frame.born, frame.admitted, months)
    schema = schema_of(frame)
    true = codes_in(frame, schema)
    missing = np.random.default_rng(5).random(true.shape) < share
    draws = spread(true, missing, 5)
    apart = keep_relations(draws, np.where(missing, 0.0, true), missing, schema)
    assert schema.orders and apart.count() == 0


def test_children_are_born_before_they_are_admitted() -> None:
    """The order of the two dates is one of its own: of ages that follow from drawn dates it says the sign."""
    frame = patients()
    frame.born = frame.admitted - pd.to_timedelta(np.random.default_rng(0).integers(0, 1_000, len(frame)), "D")
    frame.age = ages(frame.born, frame.admitted)
    schema = schema_of(frame)
    assert completed(schema) == SAID
    assert ("born", "admitted") in {(one.low, one.high) for one in schema.orders}
    true = codes_in(frame, schema)
    draws = filled(schema, true, hiding(true, schema, "age", "admitted", "born"))
    assert draws[..., schema.modelled.index("age")].min() == 0


def test_of_years_to_several_dates_all_are_kept() -> None:
    """The window of a birth is where all of them leave it."""
    frame = patients().assign(last=lambda one: ages(one.born, one.discharged))
    schema = schema_of(frame)
    assert completed(schema) == [*SAID, "'last' = completed years from 'born' to 'discharged'"]
    true = codes_in(frame, schema)
    for hidden in (("born",), ("age", "born"), ("last", "born"), ("age", "last"), ("admitted",)):
        filled(schema, true, hiding(true, schema, *hidden))


def test_a_relation_that_does_not_fit_its_columns_is_refused() -> None:
    schema = schema_of(patients())
    text = schema.to_json()
    for old, new in (
        ('"span": "year"', '"span": null'),
        ('"how": "completed"', '"how": "sum"'),
        ('"how": "completed"', '"how": "part"'),
    ):
        assert text.count(old) == 1
        with pytest.raises(RunError, match=r"schema.json: damaged \(relations.*the relation does not fit its columns"):
            Schema.from_json(text.replace(old, new))
    for names in (["age", "born", "score"], ["born", "admitted", "discharged"], ["age", "born", "gone"]):
        raw = json.loads(text)
        next(one for one in raw["relations"] if one["span"])["names"] = names
        with pytest.raises(RunError, match=r"schema.json: damaged \(.*relations do not fit"):
            Schema.from_json(json.dumps(raw))


def test_fills_and_samples_of_a_run_keep_to_them(tmp_path: Path) -> None:
    import vgi_cli

    run = vgi_cli.fit(
        holed(patients(300), 2, 0.3), out=tmp_path / "run", model="mixture", set={"model.components": 1, "bootstrap": 1}
    )
    for filled in [*run.impute(m=2), run.sample(n=50)]:
        assert ages(filled.born, filled.admitted) == filled.age.tolist()


def computed(
    size: float, rounding: Callable[[np.ndarray], np.ndarray], rows: int = 1500, seed: int = 0
) -> pd.DataFrame:
    """Ages that are a number of days divided by another one, and rounded."""
    rng = np.random.default_rng(seed)
    born = np.datetime64("1940-01-01") + rng.integers(0, 15_000, rows)
    seen = np.datetime64("2015-01-01") + rng.integers(0, 1_200, rows)
    age = rounding((seen - born).astype(int) / size)
    return pd.DataFrame({"born": born.astype(str), "seen": seen.astype(str), "age": age, "x": rng.normal(size=rows)})


@pytest.mark.parametrize(
    ("size", "rounding", "words"),
    [
        (365.25, np.floor, "'age' = completed years of 365.25 days from 'born' to 'seen'"),
        (365, np.floor, "'age' = completed years of 365 days from 'born' to 'seen'"),
        (365.25, np.rint, "'age' = years of 365.25 days from 'born' to 'seen', rounded"),
        (365.25 / 12, np.floor, "'age' = completed months of 30.4375 days from 'born' to 'seen'"),
    ],
)
def test_ages_that_were_computed_from_days(
    tmp_path: Path, size: float, rounding: Callable[[np.ndarray], np.ndarray], words: str
) -> None:
    """They differ from the calendar in a few rows, and fills keep to how they were computed."""
    for seed in range(3):
        frame = computed(size, rounding, seed=seed)
        holes = frame.mask(np.random.default_rng(seed).random(frame.shape) < 0.1)
        schema, _ = infer_schema(from_frame(holes))
        assert [relation.words() for relation in schema.relations] == [words]
    settings = {"model.components": 1, "bootstrap": "none", "trees": "none"}
    run = vgi_cli.fit(holes, out=tmp_path / "run", model="mixture", set=settings, threads=1, say=lambda line: None)
    filled = run.impute(m=1)[0]
    days = (pd.to_datetime(filled.seen) - pd.to_datetime(filled.born)).dt.days.to_numpy()
    np.testing.assert_array_equal(filled.age, rounding(days / size))


def test_an_age_is_none_to_a_date_a_year_later_less_one() -> None:
    frame = patients(400, 3)[["born", "admitted", "age"]]
    until = frame.admitted + pd.DateOffset(years=1) - pd.Timedelta(1, "D")
    assert SAID[0] in completed(schema_of(frame.assign(until=until)))


def test_ages_of_the_calendar_that_days_say_as_well_are_of_the_calendar() -> None:
    """In these rows both come to the same; enough of them are next to a birthday."""
    frame = computed(365.25, np.floor, rows=3000)
    born, seen = (pd.to_datetime(frame[name]) for name in ("born", "seen"))
    same = frame[np.array(ages(born, seen)) == frame.age]
    assert len(same) > 2900
    words = [relation.words() for relation in infer_schema(from_frame(same))[0].relations]
    assert words == ["'age' = completed years from 'born' to 'seen'"]
