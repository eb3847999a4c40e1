"""Months, quarters and weeks: dates without a day."""

from __future__ import annotations

import re
from datetime import date, timedelta

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vgi_cli.columns.clock import _PERIODS, FORMATS, GivenTexts, format_problem, is_period, read, text_clock, to_unit
from vgi_cli.columns.datetime import Moment
from vgi_cli.columns.periods import first_days, periods_of, week, week_of
from vgi_cli.columns.schema import Schema
from vgi_cli.encoding.check import check
from vgi_cli.encoding.infer import infer_schema, schema_alone
from vgi_cli.encoding.keeping import keep_relations
from vgi_cli.encoding.redundant import codes_of, kept_words
from vgi_cli.encoding.relations import departing
from vgi_cli.errors import InputError, UsageError
from vgi_cli.table.frames import from_frame

EPOCH = date(1970, 1, 1)
DAYS = st.integers(-200_000, 600_000)
N = 400


def texts(format: str, days: np.ndarray) -> list[str]:
    """Days by a format, as Python writes them."""
    made = []
    for one in days.tolist():
        day = EPOCH + timedelta(days=one)
        year, number, _ = day.isocalendar()
        own = {"%G": f"{year:04d}", "%V": f"{number:02d}", "%q": str((day.month - 1) // 3 + 1), "%Y": f"{day.year:04d}"}
        text = format
        for field, value in own.items():
            text = text.replace(field, value)
        made.append(day.strftime(text))
    return made


@given(DAYS)
def test_weeks_are_those_of_python(days: int) -> None:
    day = EPOCH + timedelta(days=days)
    year, number, weekday = day.isocalendar()
    [tick] = periods_of(np.array([days]), "W")
    assert first_days(np.array([tick]), "W")[0] == days - (weekday - 1)
    assert [int(part[0]) for part in week_of(first_days(np.array([tick]), "W"))] == [year, number]
    assert week(np.array([year]), np.array([number]))[0] == tick


@given(DAYS, st.sampled_from(["Q", "M", "W"]), st.sampled_from(["Q", "M", "W", "D", "s", "ns"]))
def test_a_period_begins_in_itself(days: int, unit: str, other: str) -> None:
    ticks = periods_of(np.array([days % 90_000]), unit)  # type: ignore[arg-type]
    if other in ("D", "s", "ns"):
        assert to_unit(to_unit(ticks, unit, other), other, unit) == ticks  # type: ignore[arg-type]
    begins = first_days(ticks, unit)  # type: ignore[arg-type]
    assert begins[0] <= days % 90_000 < first_days(ticks + 1, unit)[0]  # type: ignore[arg-type]


@pytest.mark.parametrize("format", _PERIODS)
def test_cells_are_read_and_written_back(format: str) -> None:
    rng = np.random.default_rng(0)
    cells = texts(format, rng.integers(0, 20_000, 200))
    reading = read(GivenTexts(cells), "date", format)
    clock = text_clock("date", format, reading, np.ones(200, bool))
    assert reading.matched.all() and is_period(format) and format_problem("date", format) is None
    assert clock.spell(clock.values(reading.ticks)) == cells
    assert clock.snap(clock.values(reading.ticks) + 0.4).tolist() == clock.values(reading.ticks).tolist()
    low, high = clock.limits(False)
    assert low < 0 < 200 < high
    assert clock.spell(np.array([np.ceil(low), np.floor(high)]))  # they are in the calendar


@pytest.mark.parametrize("cell", ["2019-W53", "2019-13", "2019-00", "2019-Q5", "2019-W00", "Foo-19"])
def test_what_does_not_exist_is_no_period(cell: str) -> None:
    assert not any(read(GivenTexts([cell]), "date", format).matched[0] for format in _PERIODS)
    assert read(GivenTexts(["2020-W53"]), "date", "%G-W%V").matched[0]


def test_no_format_of_days_is_one_of_periods() -> None:
    assert [format for format in FORMATS["date"] if is_period(format)] == list(_PERIODS)


@pytest.mark.parametrize(
    ("format", "problem"),
    [
        ("%Y-%m|%Y-%m-%d", "dates of several formats all have a day, or none has"),
        ("%G-%m", "a date has one of %Y or %y"),
        ("%G-W%V-%d", "a date has no %d"),
        ("%Y-Q%q-%m", "a date has no %m"),
        ("%Y", "a date has one of %B or %b or %m"),
    ],
)
def test_fields_that_do_not_go_together(format: str, problem: str) -> None:
    assert problem in str(format_problem("date", format))


def frame(days: int = 2_900) -> pd.DataFrame:
    """A date, its month, week and quarter, and a number that grows with it."""
    rng = np.random.default_rng(1)
    day = rng.integers(16_800, 16_800 + days, N)
    found = pd.DataFrame({"date": texts("%Y-%m-%d", day)})
    for name, format in (("month", "%b-%y"), ("week", "%G-W%V"), ("quarter", "%YQ%q")):
        found[name] = texts(format, day)
    return found.assign(x=(day / 100 + rng.normal(size=N)).round(2))


def kinds(table: pd.DataFrame, **said: str) -> dict[str, str]:
    return {column.name: column.kind for column in infer_schema(from_frame(table), kinds=said)[0].columns}


def test_many_periods_are_dates_and_few_are_levels() -> None:
    assert kinds(frame()) == {
        "date": "date", "month": "date", "week": "date", "quarter": "categorical", "x": "numeric"
    }  # fmt: skip
    assert kinds(frame(), quarter="date")["quarter"] == "date"
    assert kinds(frame(300), week="categorical")["month"] == "categorical"
    [month] = [c for c in schema_alone(from_frame(frame())).columns if c.name == "month"]
    assert isinstance(month, Moment) and month.clock.measure == "month" and month.request == "date:%b-%y"
    low, high = (f"{pd.Timestamp(f'{end(frame().date)}'):%b-%y}" for end in (min, max))
    assert month.summary == f"{low} to {high}"


def test_limits_are_said_as_the_column_writes_them() -> None:
    schema = infer_schema(from_frame(frame()), bounds={"week": "2015-W10..2026-W09"})[0]
    [column] = [c for c in schema.columns if c.name == "week"]
    assert isinstance(column, Moment)
    assert column.spell(np.array(column.number.ends), None) == ["2015-W10", "2026-W09"]
    by_day = infer_schema(from_frame(frame()), bounds={"week": "2015-02-03.."})[0].encoded[2]
    assert isinstance(by_day, Moment) and by_day.spell(np.array(by_day.number.given_ends[:1]), None) == ["2015-W06"]
    iso = infer_schema(from_frame(frame()), bounds={"month": "2015-03.."})[0].encoded[1]
    assert isinstance(iso, Moment) and iso.spell(np.array(iso.number.given_ends[:1]), None) == ["Mar-15"]
    with pytest.raises(UsageError, match="holds no date like '2015-02'"):
        infer_schema(from_frame(frame()), bounds={"week": "2015-02.."})


@pytest.mark.parametrize(
    "hidden",
    [
        *(pytest.param(each, marks=pytest.mark.slow) for each in (("date",), ("month",), ("date", "quarter"))),
        ("date", "month"),
        ("week", "month"),
    ],
)
def test_they_follow_from_the_date_of_their_row(hidden: tuple[str, ...]) -> None:
    schema = infer_schema(from_frame(frame()), kinds={"quarter": "date"})[0]
    assert {one.names for one in schema.relations} == {(name, "date") for name in ("month", "week", "quarter")}
    assert "'month' follows from 'date'" in kept_words(schema)[0]
    true = np.stack([codes_of(from_frame(frame()), column) for column in schema.encoded], 1)
    at = {name: i for i, name in enumerate(schema.modelled)}
    missing = np.zeros(true.shape, bool)
    missing[:, [at[name] for name in hidden]] = True
    rng = np.random.default_rng(2)
    draws = np.where(missing, rng.permuted(np.repeat(true[None], 3, 0), axis=1), true)
    draws[0, :, at["date"]] += 900 * missing[:, at["date"]]  # beyond what was seen
    assert keep_relations(draws, np.where(missing, 0.0, true), missing, schema).count() == 0
    assert np.array_equal(draws[:, ~missing], np.repeat(true[None], 3, 0)[:, ~missing])
    for draw in draws:
        spelled = {c.name: c.spell(draw[:, at[c.name]], None) for c in schema.encoded if isinstance(c, Moment)}
        days = (np.array(spelled["date"], "datetime64[D]") - np.datetime64(EPOCH)).astype(int)
        for name, format in (("month", "%b-%y"), ("week", "%G-W%V"), ("quarter", "%YQ%q")):
            assert spelled[name] == texts(format, days)


def test_dates_far_from_those_that_were_seen_are_right_or_nothing_is_said() -> None:
    schema = infer_schema(from_frame(frame()), kinds={"quarter": "date"})[0]
    at = {name: i for i, name in enumerate(schema.modelled)}
    days = np.array([8_000, 25_000, 29_000, 200_000, -200_000])
    table = pd.DataFrame({"date": texts("%Y-%m-%d", days), "month": texts("%b-%y", np.minimum(abs(days), 30_000))})
    table = table.assign(week=texts("%G-W%V", days), quarter=texts("%YQ%q", days), x=1.0)
    true = np.stack([codes_of(from_frame(table), column) for column in schema.encoded], 1)
    missing = np.zeros(true.shape, bool)
    missing[:, [at["week"], at["quarter"]]] = True
    draws = np.where(missing, 7.0, true)[None]
    keep_relations(draws, np.where(missing, 0.0, true), missing, schema)
    near = days < 30_000
    near[-1] = False
    assert np.array_equal(draws[0, near][:, [at["week"], at["quarter"]]], true[near][:, [at["week"], at["quarter"]]])
    assert (draws[0, ~near][:, at["week"]] == 7.0).all()  # as they were drawn
    observed = [one for one in schema.relations if one.names[0] != "month"]
    assert all(int(departing(one, true[:, [at[n] for n in one.names]], 0.0).sum()) == 0 for one in observed)


@pytest.mark.parametrize("last", ["2262-04-11T23:47:16.854775807", "2020-01-01"])
def test_moments_at_the_end_of_what_64_bits_hold(last: str) -> None:
    rng = np.random.default_rng(0)
    moments = np.datetime64("2015-01-01", "ns") + rng.integers(0, 8 * 365 * 86_400, N).astype("timedelta64[s]")
    moments[0] = np.datetime64(last)
    table = pd.DataFrame({"when": moments, "x": rng.normal(size=N)})
    table["month"] = table["when"].dt.strftime("%Y-%m")
    schema = schema_alone(from_frame(table))
    assert [one.names for one in schema.relations] == [("month", "when")]


def test_a_year_that_stands_for_none_makes_no_relation_of_thousands() -> None:
    table = frame().assign(x=1.5)
    table.loc[0, ["date", "month", "week"]] = ["9999-12-31", "Dec-68", "9999-W52"]
    schema = infer_schema(from_frame(table), kinds={"week": "date:%G-W%V"})[0]
    assert all(len(one.codes) < 20_000 for one in schema.relations) and len(schema.to_json()) < 1e6


@pytest.mark.parametrize(
    "cells",
    [
        [f"{y}-{(y + 1) % 100:02d}" for y in range(2001, 2012)] * 4,  # seasons
        [f"{i}-0{i % 9 + 1}" for i in range(1001, 1400, 3)],  # codes
        [f"{month} {day:02d}" for month in ("Jan", "Mar", "Nov") for day in range(1, 31)],  # days of a month
    ],
)
def test_what_only_looks_like_a_month_is_none(cells: list[str]) -> None:
    table = pd.DataFrame({"c": cells, "x": np.arange(len(cells)) / 7})
    assert kinds(table)["c"] in ("carried", "categorical")


@pytest.mark.parametrize("other", ["unknown", "total"])
@pytest.mark.parametrize("format", ["%Y-%m", "%YQ%q", "%G-W%V"])
def test_few_periods_and_another_text_are_levels(format: str, other: str) -> None:
    cells = texts(format, 18_262 + np.random.default_rng(0).integers(0, 12, N) * 30)
    for place in (0, 5):
        mixed = [other if i % 25 == place else cell for i, cell in enumerate(cells)]
        assert kinds(pd.DataFrame({"c": mixed, "x": np.arange(N) / 7}))["c"] == "categorical"


def test_no_hint_names_what_is_refused() -> None:
    cells = [*texts("%Y-%m", np.arange(16_800, 19_000, 7)), *texts("%Y-%m-%d", np.arange(16_800, 19_000, 70))]
    notes = infer_schema(from_frame(pd.DataFrame({"c": cells, "x": np.arange(len(cells)) / 7})))[1]
    with pytest.raises(InputError) as error:
        infer_schema(from_frame(pd.DataFrame({"c": cells, "x": np.arange(len(cells)) / 7})), kinds={"c": "date"})
    for line in (*notes, str(error.value), str(error.value.hint)):
        for flag in re.findall(r"=date:(%[^`' ]*)", str(line)):
            assert format_problem("date", flag) is None


def test_levels_that_are_quarters_end_where_the_calendar_has_it() -> None:
    """Few rows: the first date that was seen of a quarter is not its first day."""
    rng = np.random.default_rng(3)
    days = np.sort(rng.choice(np.arange(17_900, 18_900), 110, replace=False))
    days = days[(days % 91 > 12) & (days % 91 < 80)]
    table = pd.DataFrame({"date": texts("%Y-%m-%d", days), "q": texts("%Y-Q%q", days), "x": np.arange(len(days)) / 7})
    schema = schema_alone(from_frame(table))
    [relation] = schema.relations
    assert schema.encoded[1].kind == "categorical" and relation.how == "bands"
    every = np.arange(days.min(), days.max() + 1)
    whole = pd.DataFrame({"date": texts("%Y-%m-%d", every), "q": texts("%Y-Q%q", every), "x": 1.0})
    codes = np.stack([codes_of(from_frame(whole), column) for column in schema.encoded], 1)
    assert np.array_equal(relation.said(codes[:, 0]), codes[:, 1])
    short = table[table.q != table.q[len(days) // 2]]  # a quarter without a level: nothing is said of its days
    schema = schema_alone(from_frame(short))
    codes = codes_of(from_frame(table), schema.encoded[0])
    said = schema.relations[0].said(codes)
    assert np.array_equal(np.isnan(said), (table.q == table.q[len(days) // 2]).to_numpy())
    assert Schema.from_json(schema.to_json()) == schema


@pytest.mark.parametrize("zone", ["America/Los_Angeles", "Asia/Kolkata", "+05:30", "UTC"])
def test_periods_of_moments_with_a_zone_are_local(zone: str) -> None:
    rng = np.random.default_rng(4)
    moments = pd.Series(np.datetime64("2016-01-01") + rng.integers(0, 7 * 365 * 86_400, 2_000).astype("timedelta64[s]"))
    local = moments.dt.tz_localize("UTC").dt.tz_convert(zone)
    table = pd.DataFrame({"when": local, "x": rng.normal(size=2_000)})
    table["month"], table["week"] = local.dt.strftime("%Y-%m"), local.dt.strftime("%G-W%V")
    schema = schema_alone(from_frame(table))
    assert [one.names for one in schema.relations] == [("month", "when"), ("week", "when")]


def test_years_of_two_digits_that_lie_far_apart_are_asked_about() -> None:
    born = [f"Mar-{year:02d}" for year in range(50, 86)] * 3
    line = "column 'born' has two digits of a year, read as 1969 to 2068: 1969 to 2068; where some are of another"
    notes = infer_schema(from_frame(pd.DataFrame({"born": born, "x": np.arange(108) / 7})), kinds={"born": "date"})[1]
    assert any(line in str(note) for note in notes)
    notes = infer_schema(from_frame(frame()))[1]
    assert not any("two digits" in str(note) for note in notes)


def test_the_way_out_of_several_formats_of_months_is_named() -> None:
    days = np.arange(12_000, 19_000, 40)
    cells = [*texts("%b %Y", days[::2]), *texts("%Y-%m", days[1::2])]
    table = from_frame(pd.DataFrame({"c": cells, "x": np.arange(len(cells)) / 7}))
    note = next(str(note) for note in infer_schema(table)[1] if "several formats" in str(note))
    [flag] = re.findall(r"'c=date:([^']*)'", note)
    assert infer_schema(table, kinds={"c": f"date:{flag}"})[0].encoded[0].kind == "date"


def test_months_that_the_fit_has_not_seen_come_with_the_kind_that_takes_them() -> None:
    months = pd.DataFrame({"month": ["Jan-24", "Feb-24", "Mar-24"] * 20, "x": np.random.default_rng(0).normal(size=60)})
    schema = schema_alone(from_frame(months))
    later, other = months.replace("Mar-24", "Jul-24"), months.replace("Mar-24", "summer")
    with pytest.raises(InputError) as caught:
        check(from_frame(later), schema)
    assert "; a fit with `columns={'month': 'date:%b-%y'}` takes every month" in str(caught.value.hint)
    with pytest.raises(InputError) as caught:
        check(from_frame(other), schema)
    assert "a fit with" not in str(caught.value.hint)
