"""Months, quarters and weeks: dates without a day."""

from __future__ import annotations

from datetime import date, timedelta

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vgi_cli.columns.clock import _PERIODS, FORMATS, Said, format_problem, is_period, read, text_clock, to_unit
from vgi_cli.columns.datetime import Moment
from vgi_cli.columns.periods import first_days, periods_of, week, week_of
from vgi_cli.encoding.infer import infer_schema
from vgi_cli.encoding.keeping import keep_relations
from vgi_cli.encoding.redundant import codes_of, kept_words
from vgi_cli.errors import UsageError
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
    reading = read(Said(cells), "date", format)
    clock = text_clock("date", format, reading, np.ones(200, bool))
    assert reading.matched.all() and is_period(format) and format_problem("date", format) is None
    assert clock.spell(clock.values(reading.ticks)) == cells
    assert clock.snap(clock.values(reading.ticks) + 0.4).tolist() == clock.values(reading.ticks).tolist()
    low, high = clock.limits(False)
    assert low < 0 < 200 < high
    assert clock.spell(np.array([np.ceil(low), np.floor(high)]))  # they are in the calendar


@pytest.mark.parametrize("cell", ["2019-W53", "2019-13", "2019-00", "2019-Q5", "2019-W00", "Foo-19"])
def test_what_does_not_exist_is_no_period(cell: str) -> None:
    assert not any(read(Said([cell]), "date", format).matched[0] for format in _PERIODS)
    assert read(Said(["2020-W53"]), "date", "%G-W%V").matched[0]


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
    [month] = [c for c in infer_schema(from_frame(frame()))[0].columns if c.name == "month"]
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
    with pytest.raises(UsageError, match="holds no date like '2015-02'"):
        infer_schema(from_frame(frame()), bounds={"week": "2015-02.."})


@pytest.mark.parametrize("hidden", [("date",), ("month",), ("date", "month"), ("week", "month"), ("date", "quarter")])
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
    assert keep_relations(draws, np.where(missing, 0.0, true), missing, schema) == 0
    assert np.array_equal(draws[:, ~missing], np.repeat(true[None], 3, 0)[:, ~missing])
    for draw in draws:
        spelled = {c.name: c.spell(draw[:, at[c.name]], None) for c in schema.encoded if isinstance(c, Moment)}
        days = (np.array(spelled["date"], "datetime64[D]") - np.datetime64(EPOCH)).astype(int)
        for name, format in (("month", "%b-%y"), ("week", "%G-W%V"), ("quarter", "%YQ%q")):
            assert spelled[name] == texts(format, days)
