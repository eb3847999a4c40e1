"""Dates with a weekday before them: read, and written back with the weekday that the date has."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, timedelta

import numpy as np
import pytest

from tests.columns.test_datetime import column, moment, table
from vgi_cli.columns.base import Carried
from vgi_cli.columns.clock import format_problem
from vgi_cli.columns.months import OF_DAYS, STYLES, WEEKDAYS
from vgi_cli.encoding.infer import infer_schema
from vgi_cli.errors import InputError

DAYS = [date(2023, 9, 15) + timedelta(days=9 * i) for i in range(60)]


def named(field: str, style: str, case: Callable[[str], str] = str) -> list[str]:
    return [case(OF_DAYS[field][style][day.weekday()]) for day in DAYS]


@pytest.mark.parametrize(
    ("names", "rest", "format"),
    [
        (named("a", ""), ", %d.%m.%y", "%a, %d.%m.%y"),
        (named("A", ""), ", %d %B %Y", "%A, %d %B %Y"),
        (named("A", ""), ", %B %d, %Y", "%A, %B %d, %Y"),
        (named("a", "", str.upper), " %d-%b-%Y", "%a %d-%b-%Y"),
        (named("a", "de"), ",%d.%m.%Y", "%a,%d.%m.%Y"),
        (named("a", "de+"), ", %d.%m.%Y", "%a, %d.%m.%Y"),
        (named("A", "fr", str.lower), " %d/%m/%Y", "%A %d/%m/%Y"),
        (named("A", "pt", str.lower), ", %d/%m/%Y", "%A, %d/%m/%Y"),
        (named("a", "nl", str.lower), " %d-%m-%Y", "%a %d-%m-%Y"),
        (named("a", "es", str.lower), " %Y-%m-%d", "%a %Y-%m-%d"),
        (named("a", ""), " %m/%d/%Y", "%a %m/%d/%Y"),
        (named("a", ""), ", %d %b %Y %H:%M", "%a, %d %b %Y %H:%M"),
    ],
)
def test_dates_behind_a_weekday_are_read_and_written_back(names: list[str], rest: str, format: str) -> None:
    times = [datetime(day.year, day.month, day.day, 7 + i % 9, i % 60) for i, day in enumerate(DAYS)]
    cells = [name + f"{when:{rest}}" for name, when in zip(names, times, strict=True)]
    found = moment([*cells, ""])
    what = "datetime" if "%H" in format else "date"
    assert (found.kind, found.clock.format, found.request) == (what, format, f"{what}:{format}")
    codes = found.codes(table(cells).column("when"))
    assert found.spell(codes, None) == cells
    per = 1 if what == "date" else 86_400
    assert np.rint(np.diff(codes) / per).tolist() == [9.0] * (len(DAYS) - 1)
    again = moment(cells, found.request)
    assert again.clock == found.clock


def test_a_fill_has_the_weekday_of_its_date() -> None:
    cells = [f"{name}, {day:%d.%m.%y}" for name, day in zip(named("a", ""), DAYS, strict=True)]
    found = moment(cells)
    for more in range(8):
        day = DAYS[0] + timedelta(days=more)
        assert found.spell(np.array([float(more)]), None) == [f"{day:%a, %d.%m.%y}"]


def test_the_weekday_says_which_of_day_and_month_comes_first() -> None:
    days = [date(2020, month, day) for month in range(1, 13) for day in range(1, 13)]
    cells = [f"{day:%a %d/%m/%Y}" for day in days]
    assert isinstance(column([cell[4:] for cell in cells]), Carried)
    assert moment(cells).clock.format == "%a %d/%m/%Y"


def test_a_weekday_that_is_not_that_of_the_date_is_named() -> None:
    cells = [f"{day:%a, %d.%m.%Y}" for day in DAYS]
    assert cells[5].startswith("Mon")
    cells[5] = cells[5].replace("Mon", "Tue")
    schema, lines = infer_schema(table(cells))
    assert isinstance(schema.columns[0], Carried)
    [line] = [str(line) for line in lines if "'when'" in str(line) and "carried" in str(line)]
    assert line == (
        "column 'when' is carried: 98% of its cells are dates ('%a, %d.%m.%Y'), but 'Tue, 30.10.2023' in row 6 (line "
        "7) has another weekday than its date: correct them, or take the weekdays out of the column"
    )
    with pytest.raises(InputError):
        column(cells, "date:%a, %d.%m.%Y")


def test_weekdays_of_two_languages_in_a_column_are_no_dates() -> None:
    cells = [f"{name}, {day:%d.%m.%Y}" for name, day in zip(named("a", ""), DAYS, strict=True)]
    cells[5] = cells[5].replace("Mon", "Lun")
    schema, lines = infer_schema(table(cells))
    assert isinstance(schema.columns[0], Carried)
    assert "column 'when' is carried: the names of its weekdays are of several languages" in list(map(str, lines))


def test_what_begins_as_a_weekday_may_be_a_month() -> None:
    cells = [f"{name} {year}" for year in range(1990, 2012) for name in STYLES["b"][""]]
    assert moment(cells).clock.format == "%b %Y"
    assert format_problem("date", "%a %b %Y") is not None and format_problem("date", "%a %d %b %Y") is None


def test_a_name_is_of_the_same_weekday_in_every_style() -> None:
    for styles in OF_DAYS.values():
        for names in styles.values():
            assert [WEEKDAYS[name.lower()] for name in names] == list(range(1, 8))
