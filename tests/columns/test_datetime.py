"""Dates, datetimes, times of day and durations: which cells are such, what they are worth, how fills are written."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import vgi_cli
from tests.table.helpers import from_text
from vgi_cli.columns.base import Carried, Empty
from vgi_cli.columns.clock import format_problem
from vgi_cli.columns.datetime import ConstantMoment, Moment
from vgi_cli.columns.schema import Schema
from vgi_cli.columns.wording import kind_flag
from vgi_cli.encoding.check import check
from vgi_cli.encoding.encoder import encode
from vgi_cli.encoding.infer import infer_schema, schema_alone
from vgi_cli.errors import InputError, UsageError
from vgi_cli.evaluation.report import measures
from vgi_cli.table.base import Table
from vgi_cli.table.frames import from_frame, to_frames

RNG = np.random.default_rng(0)
MOMENTS = [datetime(2019, 12, 30) + timedelta(hours=int(h)) for h in RNG.integers(0, 9000, 40)]


def table(cells: list[str], name: str = "when") -> Table:
    return from_text(f"{name};y\n" + "".join(f"{cell};{i}.5\n" for i, cell in enumerate(cells)), delimiter=";")


def column(cells: list[str], kind: str | None = None) -> Any:
    return infer_schema(table(cells), kinds=None if kind is None else {"when": kind})[0].columns[0]


def moment(cells: list[str], kind: str | None = None) -> Moment:
    found = column(cells, kind)
    assert isinstance(found, Moment)
    return found


def test_dates_are_days_since_the_first_one() -> None:
    found = moment([f"{m:%d/%m/%Y}" for m in MOMENTS] + [""])
    first = min(m.date() for m in MOMENTS)
    assert (found.kind, found.clock.format, found.clock.measure) == ("date", "%d/%m/%Y", "day")
    assert found.request == "date:%d/%m/%Y" and found.summary.startswith(f"{first:%d/%m/%Y} to ")
    codes = found.codes(table([f"{m:%d/%m/%Y}" for m in MOMENTS] + [""]).column("when"))
    assert codes[:-1].tolist() == [(m.date() - first).days for m in MOMENTS] and np.isnan(codes[-1])


@pytest.mark.parametrize(
    ("format", "kind", "known"),
    [
        ("%Y-%m-%d", "date", "%Y-%m-%d"),
        ("%d.%m.%Y", "date", "%d.%m.%Y"),
        ("%m/%d/%y", "date", "%m/%d/%y"),
        ("%-d/%-m/%Y", "date", "%-d/%-m/%Y"),
        ("%d %b %Y", "date", "%d %b %Y"),
        ("%B %d, %Y", "date", "%B %d, %Y"),
        ("%Y-%m-%dT%H:%M:%S", "datetime", "%Y-%m-%dT%H:%M:%S"),
        ("%Y-%m-%d %H:%M", "datetime", "%Y-%m-%d %H:%M"),
        ("%Y-%m-%d %H:%M:%S.250", "datetime", "%Y-%m-%d %H:%M:%S.%f"),
        ("%Y-%m-%dT%H:%M:%SZ", "datetime", "%Y-%m-%dT%H:%M:%S%z"),
        ("%Y-%m-%dT%H:%M:%S-03:30", "datetime", "%Y-%m-%dT%H:%M:%S%z"),
        ("%d/%m/%Y %I:%M %p", "datetime", "%d/%m/%Y %I:%M %p"),
        ("%Y-%m-%d %I:%M:%S %p", "datetime", "%Y-%m-%d %I:%M:%S %p"),
        ("%I:%M %p", "time", "%I:%M %p"),
        ("%I:%M%p", "time", "%I:%M%p"),
        ("%H.%M.%S", "time", "%H.%M.%S"),
        ("%H:%M", "time", "%H:%M"),
    ],
)
def test_formats_are_found_and_fills_are_written_in_them(format: str, kind: str, known: str) -> None:
    cells = [f"{m:{format}}" for m in MOMENTS]
    found = moment(cells)
    assert (found.kind, found.clock.format) == (kind, known)
    codes = found.codes(table(cells).column("when"))
    assert found.spell(codes, None) == cells
    assert np.array_equal(found.snap(codes + 0.4 * found.clock.step / found.clock.per), codes)


@pytest.mark.parametrize(
    ("cells", "format"),
    [
        ([f"{i % 3} days {i % 24:02d}:00:00" for i in range(40)], "%D days %H:%M:%S"),
        ([str(timedelta(hours=7 * i)) for i in range(40)], "%D days, %H:%M:%S"),
        ([f"{3 * i}:{i + 10}:00" for i in range(40)], "%-H:%M:%S"),
        ([f"{i + 1:02d}:30" for i in range(40)], "%H:%M"),
        ([f"-{i:02d}:00:00.5" for i in range(40)], "%H:%M:%S"),
    ],
)
def test_durations_count_seconds(cells: list[str], format: str) -> None:
    found = moment(cells)
    assert (found.kind, found.clock.format, found.clock.measure) == ("duration", format, "second")
    codes = found.codes(table(cells).column("when"))
    assert found.spell(codes, None) == cells
    if format == "%D days, %H:%M:%S":
        assert codes.tolist() == [3600.0 * 7 * i for i in range(40)]


@pytest.mark.parametrize(
    ("format", "change", "known"),
    [
        ("%d-%b-%Y", str.upper, "%d-%b-%Y"),
        ("%d %B %Y", str.lower, "%d %B %Y"),
        ("%d%b%Y", str.upper, "%d%b%Y"),
        ("%d%b%y", str.title, "%d%b%y"),
        ("%d%b%Y:%H:%M:%S", str.upper, "%d%b%Y:%H:%M:%S"),
        ("%d-%b-%Y %I:%M %p", str.lower, "%d-%b-%Y %I:%M %p"),
        ("%I:%M %p", str.lower, "%I:%M %p"),
        ("%I:%M%p", str.upper, "%I:%M%p"),
    ],
)
def test_words_are_written_as_most_cells_write_them(format: str, change: Callable[[str], str], known: str) -> None:
    cells = [change(m.strftime(format)) for m in MOMENTS]
    found = moment([*cells[1:], change(cells[0].swapcase())])
    assert found.clock.format == known
    assert found.spell(found.codes(table(cells).column("when")), None) == cells


def test_codes_that_look_like_dates_without_marks_are_none() -> None:
    assert not isinstance(column([f"{i % 28 + 1}abc2020" for i in range(40)]), Moment)


def test_offsets_are_instants_and_fills_have_the_most_frequent_one() -> None:
    cells = ["2020-03-29T01:30:00+01:00"] * 3 + ["2020-03-29T03:30:00+02:00"] * 4 + ["2020-03-29T05:00:00+02:00"]
    found = moment(cells)
    codes = found.codes(table(cells).column("when"))
    assert np.unique(codes).tolist() == [0.0, 3600.0, 9000.0]
    assert found.spell(codes[:1], None) == ["2020-03-29T02:30:00+02:00"]


def test_a_time_of_day_stays_within_the_day_and_a_date_has_no_sign() -> None:
    found = moment([f"{m:%H.%M.%S}" for m in MOMENTS])
    assert found.spell(found.decode(found.box()), None) == ["00.00.00", "23.00.00"]
    dates = moment([f"{m:%Y-%m-%d}" for m in MOMENTS])
    assert dates.spell(np.array([-400.0]), None)[0] < min(f"{m:%Y-%m-%d}" for m in MOMENTS)
    short = moment([f"{m:%d/%m/%y}" for m in MOMENTS])  # two digits of a year: what is written reads back
    assert short.spell(short.decode(short.box()), None) == ["01/01/69", "31/12/68"]


EVENING = [f"{minutes // 60 % 24:02d}:{minutes % 60:02d}" for minutes in range(22 * 60, 26 * 60 + 5, 5)]
"""Times from 22:00 to 02:00: half of them are after midnight."""


def test_times_around_midnight_are_near_each_other() -> None:
    found = moment(EVENING)
    assert found.summary == "22:00 to 02:00" and found.clock.begins == "12:00"
    every = table([*EVENING, "12:00", "11:59"])
    codes = found.codes(every.column("when"))
    assert np.array_equal(np.diff(codes[:-2]), [300.0] * (len(EVENING) - 1))
    assert codes[-2:].tolist() == [0.0, 86_340.0]
    assert found.spell(codes, None) == [*EVENING, "12:00", "11:59"]
    assert np.array_equal(
        found.decode(encode(every, schema_alone(table(EVENING)), seed=0).table.x[:, :1].numpy())[:-2], codes[:-2]
    )
    assert found.spell(found.decode(found.box()), None) == ["12:00", "11:55"]
    assert found.spell(found.point(codes[:-2, None], "mean"), None) == ["00:00"]
    assert any(
        "column 'when' lie around midnight, 22:00 to 02:00: its day begins at 12:00" in one for one in lines(EVENING)
    )
    assert found.summary == moment(EVENING, "time").summary


def lines(cells: list[str], **said: Any) -> list[str]:
    return infer_schema(table(cells), **said)[1]


@pytest.mark.parametrize(
    ("cells", "begins"),
    [
        ([f"{hour:02d}:{hour * 7 % 60:02d}" for hour in range(7, 21)], ""),  # by day
        ([f"{hour:02d}:{minute:02d}" for hour in range(24) for minute in (0, 20, 45)], ""),  # all around the clock
        (["00:00", "08:10", "09:35", "12:20", "17:05", "18:00"], ""),  # nothing much wider than around midnight
        (["07:55", "08:05", "08:20", "20:05", "19:30", "08:15"], ""),  # two shifts
        (["21:15", "05:10", "04:50", "21:05", "21:40", "05:20"], "13:12"),
        (["02:00", "06:00", "13:00", "19:00", "01:00", "22:00"], ""),
        (["11:58 PM", "12:04 AM", "12:31 AM", "10:15 PM"], "11:23 AM"),
        (["23:59:59.5", "00:00:00.25", "23:58:10.75"], "11:59:05.50"),
    ],
)
def test_where_a_day_begins(cells: list[str], begins: str) -> None:
    found = moment(cells)
    assert found.clock.begins == begins
    codes = found.codes(table(cells).column("when"))
    assert codes.min() >= 0 and codes.max() < 86_400 and np.array_equal(found.snap(codes), codes)
    assert any("lie around midnight" in line for line in lines(cells)) == bool(begins)
    if not begins:
        assert found.clock.origin == 0


def test_limits_around_midnight_and_a_schema_that_counts_from_midnight() -> None:
    schema = infer_schema(table(EVENING), bounds={"when": "21:00..03:00"})[0]
    found = schema.columns[0]
    assert isinstance(found, Moment) and found.spell(found.decode(found.box()), None) == ["21:00", "03:00"]
    assert Schema.from_json(schema.to_json()) == schema
    with pytest.raises(UsageError, match="03:00 is not before 21:00, where the day begins at 12:00"):
        infer_schema(table(EVENING), bounds={"when": "03:00..21:00"})
    document = json.loads(schema.to_json())
    document["columns"][0]["clock"]["origin"] = 0  # as it was written before
    old = Schema.from_json(json.dumps(document)).columns[0]
    assert isinstance(old, Moment)
    codes = old.codes(table(EVENING).column("when"))
    assert codes.max() == 86_100 and codes.min() == 0 and old.spell(codes, None) == EVENING


@pytest.mark.parametrize("kind", [pa.time32("s"), pa.time64("ns")])
def test_typed_times_around_midnight(kind: pa.DataType) -> None:
    every = [time(int(text[:2]), int(text[3:])) for text in EVENING]
    rows = from_frame(pa.table({"when": pa.array([None, *every], kind), "y": np.arange(len(every) + 1) / 2}))
    schema = schema_alone(rows)
    found = schema.columns[0]
    assert isinstance(found, Moment) and found.clock.begins == "12:00:00"
    codes = found.codes(rows.column("when"))[1:]
    assert np.array_equal(np.diff(codes), [300.0] * (len(every) - 1))
    filled = to_frames(rows, schema, np.array([[[43_200.0 + 600, 0.0]] + [[0.0, 0.0]] * len(every)]), True, say=print)[
        0
    ]
    assert filled.column("when").to_pylist() == [time(0, 10), *every]


def notes(cells: list[str]) -> list[str]:
    schema, lines = infer_schema(table(cells))
    assert isinstance(schema.columns[0], Carried)
    return [line for line in lines if "'when'" in line]


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ([f"{3 + i % 4}:{i * 37 % 60:02d}" for i in range(40)], True),
        ([f"{i % 3}:{i * 37 % 60:02d}:{i * 7 % 60:02d}" for i in range(40)], True),
        ([f"{3 + i % 4:02d}:{i * 37 % 60:02d}" for i in range(40)], False),  # as clocks write them
        ([f"{9 + i % 9}:{i * 37 % 60:02d}" for i in range(40)], False),  # into the afternoon
        ([f"{5 + i % 4}:{i * 5 % 60:02d}" for i in range(40)], False),  # as people write times
        ([f"{5 + i % 4}:{i * 37 % 60:02d} AM" for i in range(40)], False),
    ],
)
def test_times_of_day_that_may_be_durations_are_said(cells: list[str], said: bool) -> None:
    line = (
        f"column 'when' is taken for times of day, such as '{cells[0]}' in row 1 (line 2): `--column when=duration` if "
        "it holds durations"
    )

    def lines(some: list[str], kind: str | None = None) -> list[str]:
        schema, found = infer_schema(table(some), kinds={} if kind is None else {"when": kind})
        assert schema.columns[0].kind == (kind or "time")
        return [note for note in found if "durations" in note]

    assert lines(cells) == [line] * said
    assert not lines(cells[:6]) and not lines(cells, "time")
    assert not said or not lines(cells, "duration")


@pytest.mark.parametrize(
    ("name", "long"),
    [
        ("duration", True),
        ("Dauer", True),
        ("dauer_min", True),
        ("Gesprächsdauer", True),
        ("callDuration", True),
        ("run_time", True),
        ("hours worked", True),
        ("durée", True),
        ("worked_from", False),
        ("lap_start", False),
        ("when", False),
        ("natuur", False),
        ("delayed", False),
    ],
)
def test_a_name_that_says_a_length_of_time_decides_for_durations(name: str, long: bool) -> None:
    cells = [f"{i % 9}:{i * 7 % 60:02d}" for i in range(5, 60)] + ["", "14:30"]
    schema, notes = infer_schema(table(cells, name))
    found = schema.columns[0]
    assert isinstance(found, Moment) and found.kind == ("duration" if long else "time")
    assert found.spell(found.codes(table(cells, name).column(name))[:-2], None) == cells[:-2]
    line = (
        f"column '{name}' is taken for durations, by its name, such as '{cells[0]}' in row 1 (line 2): "
        f"`{kind_flag(name, 'time')}` if it holds times of day"
    )
    assert (line in notes) == long
    for kind in ("time", "duration"):
        schema, notes = infer_schema(table(cells, name), kinds={name: kind})
        assert schema.columns[0].kind == kind and line not in notes


def test_durations_that_are_no_times_have_no_line() -> None:
    for cells in ([f"{i}:30" for i in range(5, 60)], [f"{i} days 02:00:00" for i in range(40)]):
        schema, notes = infer_schema(table(cells, "duration"))
        assert schema.columns[0].kind == "duration" and not any("by its name" in note for note in notes)


def test_what_can_be_read_in_two_ways_is_carried_with_the_flag() -> None:
    cells = [f"0{i % 9 + 1}/0{i % 7 + 1}/2020" for i in range(30)]
    (line,) = notes(cells)
    assert "read either way" in line and "'08/01/2020' in row 8" in line  # the first of which that is so
    for kind in ("date:%d/%m/%Y", "date:%m/%d/%Y"):
        assert f"`--column when={kind}`" in line
        assert moment(cells, kind).spell(np.array([0.0]), None) == ["01/01/2020"]
    with pytest.raises(InputError, match="--column when=date: day and month can be read either way") as error:
        column(cells, "date")
    assert "`--column when=date:%d/%m/%Y` or" in str(error.value.hint)


def test_where_both_readings_agree_nothing_is_ambiguous() -> None:
    assert moment([f"0{i % 9 + 1}/0{i % 9 + 1}/2020" for i in range(30)]).kind == "date"


ISO = [f"{m:%Y-%m-%d}" for m in MOMENTS]


def test_dates_of_several_formats_are_read_each_by_its_own_and_filled_in_the_most_frequent() -> None:
    cells = [iso if i % 3 else f"{m:%-d/%-m/%Y}" for i, (m, iso) in enumerate(zip(MOMENTS, ISO, strict=True))]
    schema, lines = infer_schema(table([*cells, "June 5, 2020"]))
    found = schema.columns[0]
    assert isinstance(found, Moment) and found.request == "date:%Y-%m-%d|%d/%m/%Y|%B %d, %Y"
    assert any("column 'when' have 3 formats, '%Y-%m-%d', '%d/%m/%Y', '%B %d, %Y': fills have the" in x for x in lines)
    assert np.array_equal(found.codes(table(cells).column("when")), found.codes(table(ISO).column("when")))
    assert found.spell(np.array([31.0]), None) == ["2020-01-31"]
    assert check(table(["31/12/2020", "2020-12-31", "May 3, 2020", ""]), schema) == []
    with pytest.raises(InputError, match=r"%B %d, %Y\) in the fit but here '31.12.2020' in row 1"):
        check(table(["31.12.2020"]), schema)
    assert moment(cells, "date").request == found.request.removesuffix("|%B %d, %Y")
    assert moment([f"{m:%-d/%-m/%Y}" for m in MOMENTS] + ["2020-01-01"]).spell(np.array([0.0]), None) == ["31/12/2019"]


def test_several_formats_that_can_be_read_in_two_ways_are_carried_with_the_flags() -> None:
    (line,) = notes([*ISO, "03/04/2020", "05/06/2020"])
    assert "day and month can be read either way, as in '03/04/2020' in row 41" in line
    first = "`--column 'when=date:%Y-%m-%d|%d/%m/%Y'` or `--column 'when=date:%Y-%m-%d|%m/%d/%Y'` says which"
    assert first in line
    (line,) = notes([*ISO, "24/12/2020", "12/24/2020"])  # the day first and the month first
    assert "`--column 'when=date:%Y-%m-%d|%d/%m/%Y|%m/%d/%Y'` reads each by the first of them" in line
    found = moment([*ISO, "24/12/2020", "12/24/2020"], "date:%Y-%m-%d|%d/%m/%Y|%m/%d/%Y")
    assert np.ptp(found.codes(table(["24/12/2020", "12/24/2020", "2020-12-24"]).column("when"))) == 0
    with pytest.raises(UsageError, match="only a date may have several formats"):
        column(ISO, "datetime:%Y-%m-%d %H:%M|%d/%m/%Y %H:%M")
    with pytest.raises(UsageError, match=r"a date has one of %Y or %y, got '%d/%m'"):
        column(ISO, "date:%Y-%m-%d|%d/%m")
    assert moment([f"{m:%Y|%m|%d}" for m in MOMENTS], "date:%Y|%m|%d").spell(np.array([0.0]), None) == ["2019|12|31"]


def test_other_texts_among_dates_are_carried_with_a_line() -> None:
    (line,) = notes([*ISO, "2020-12-24 18:00"])
    assert "its cells have several formats, '%Y-%m-%d' and '%Y-%m-%d %H:%M'; it is modelled where" in line
    (line,) = notes([*ISO, "30/02/2020", "31/12/2020"])
    assert "('%Y-%m-%d|%d/%m/%Y'), but also '30/02/2020' in row 41" in line
    (line,) = notes([f"{m:%Y-%m-%d}" for m in MOMENTS] + ["unknown"])
    assert "98% of its cells are dates ('%Y-%m-%d'), but also 'unknown' in row 41" in line
    assert "--na-values" in line
    (line,) = notes([f"2020-02-{i:02d}" for i in range(10, 31)])  # 30 February
    assert "but also '2020-02-30'" in line


def test_what_is_asked_for_must_hold() -> None:
    cells = [f"{m:%Y-%m-%d}" for m in MOMENTS]
    with pytest.raises(InputError, match=r"--column when=date:%d/%m/%Y, but the column holds '.*' in row 1") as error:
        column(cells, "date:%d/%m/%Y")
    assert "`--column when=date:%Y-%m-%d` if that is their format, `--na-values" in str(error.value.hint)
    with pytest.raises(InputError, match=r"but the column holds '2.*' in row 41") as error:
        column([*cells, f"{MOMENTS[0]:%Y/%m/%d}"], "date:%Y-%m-%d")
    assert "`--column 'when=date:%Y-%m-%d|%Y/%m/%d'` if dates have that format too, write" in str(error.value.hint)
    with pytest.raises(InputError, match="--column when=date: no format fits all of its cells") as error:
        column([*cells, "soon"], "date")
    assert "`--column when=date:%Y-%m-%d`" in str(error.value.hint)
    with pytest.raises(InputError, match="--column when=duration, but the column holds '2"):
        column(cells, "duration")


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("date:%d/%k/%Y", "has %k, expected"),
        ("date:%d/%d/%Y", "has %d twice"),
        ("date:%Y-%d", "a date has one of %B or %b or %m"),
        ("date:%Y-%m-%d %H", "a date has no %H"),
        ("datetime:%Y-%m-%d", "a datetime has one of %H or %I"),
        ("time:%I:%M", "%I goes with %p"),
        ("duration:%H", "a duration has no format"),
    ],
)
def test_a_format_that_says_too_little_or_too_much_is_refused(kind: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        column([f"{m:%Y-%m-%d}" for m in MOMENTS], kind)
    assert format_problem("date", "%-d/%-m/%Y") is None


def test_limits_of_numbers_do_not_fit_dates() -> None:
    rows = table([f"{m:%Y-%m-%d}" for m in MOMENTS])
    with pytest.raises(UsageError, match="--bounds when=0:10: column 'when' holds dates"):
        infer_schema(rows, bounds={"when": "0:10"})
    observed = infer_schema(rows, bounds={"when": "observed", "y": "0:"})[0].columns[0]
    assert isinstance(observed, Moment)
    cells = sorted(f"{m:%Y-%m-%d}" for m in MOMENTS)
    assert observed.spell(observed.decode(observed.box()), None) == [cells[0], cells[-1]]
    assert isinstance(infer_schema(rows, bounds={"all": "0:1000"})[0].columns[0], Moment)


@pytest.mark.parametrize(
    ("format", "limits", "least", "most"),
    [
        ("%d/%m/%Y", "2015-01-01..31/12/2024", "01/01/2015", "31/12/2024"),
        ("%d/%m/%Y", "01/02/2015..", "01/02/2015", "31/12/9999"),
        ("%d/%m/%Y %H:%M", "..2024-12-31T18:00", "01/01/0001 00:00", "31/12/2024 18:00"),
        ("%H:%M", "00:00..20:00", "00:00", "20:00"),
        ("%Y-%m-%dT%H:%M:%S+01:00", "2015-01-01T00:00:00Z..", "2015-01-01T01:00:00+01:00", None),
    ],
)
def test_limits_of_moments_are_read_as_the_column_writes_them(
    format: str, limits: str, least: str, most: str | None
) -> None:
    cells = table([f"{m:{format}}" for m in (m.replace(hour=m.hour % 20) for m in MOMENTS)])
    for name in ("when", "all"):
        found = infer_schema(cells, bounds={name: limits})[0].columns[0]
        assert isinstance(found, Moment)
        ends = found.spell(found.decode(found.box()), None)
        assert ends[0] == least and most in (None, ends[1])


@pytest.mark.parametrize(
    ("bounds", "words"),
    [
        ("when=2021-03-01..2020-01-01", "2021-03-01 is not before 2020-01-01"),
        ("when=soon..", "column 'when' holds no date like 'soon'"),
        ("when=..10000-01-01", "column 'when' holds no date like '10000-01-01'"),
        ("when=..", "expected LOW:HIGH, LOW..HIGH of dates or times, observed or none, got '..'"),
        ("y=2020-01-01..", "column 'y' holds numbers"),
    ],
)
def test_limits_that_are_no_moments_of_the_column_are_refused(bounds: str, words: str) -> None:
    name, _, limits = bounds.partition("=")
    with pytest.raises(UsageError, match=f"--bounds {re.escape(bounds)}: {re.escape(words)}"):
        infer_schema(table(ISO), bounds={name: limits})


def test_limits_of_moments_hold_what_is_observed_and_can_be_written() -> None:
    with pytest.raises(InputError, match=r"--bounds when=2020-03-01\.\., but column 'when' holds '20"):
        infer_schema(table(ISO), bounds={"when": "2020-03-01.."})
    short = table([f"{m:%d/%m/%y}" for m in MOMENTS])
    with pytest.raises(UsageError, match="'2070-01-01' is beyond what column 'when' can hold, 01/01/69 to 31/12/68"):
        infer_schema(short, bounds={"when": "..2070-01-01"})
    clock = table([f"{m:%H:%M}" for m in MOMENTS])
    assert isinstance(infer_schema(clock, bounds={"all": "2020-01-01.."})[0].columns[0], Moment)


def test_new_rows_are_read_as_the_fitted_ones() -> None:
    schema = schema_alone(table([f"{m:%d/%m/%Y}" for m in MOMENTS]))
    assert check(table(["31/12/2020", ""]), schema) == []
    with pytest.raises(InputError, match=r"'when' holds dates \(%d/%m/%Y\) in the fit but here '2020-12-31' in row 1"):
        check(table(["2020-12-31"]), schema)
    line, *_ = check(table(["31/12/2420", "30/12/2020"]), schema)
    assert "'31/12/2420' in row 1 (line 2) is far outside the range of the fit" in line


def test_a_time_index_is_modelled_and_a_constant_date_is_written() -> None:
    every = [str(date(2020, 1, 1) + timedelta(days=i)) for i in range(60)]
    assert moment(every).number.lattice is not None
    found = column(["2020-01-01"] * 9 + [""])
    assert isinstance(found, ConstantMoment) and found.spell(np.array([found.code]), None) == ["2020-01-01"]
    rows = np.zeros(61, bool)
    rows[60] = True
    schema = infer_schema(table([*every, ""]), rows=rows)[0]
    assert isinstance(schema.columns[0], Empty)


def test_few_moments_with_gaps_are_the_only_ones() -> None:
    """Waves of a survey."""
    found = moment([["2020-01-01", "2021-01-01", "2022-06-01"][i % 3] for i in range(60)])
    assert found.spell(found.snap(np.array([1.0, 400.0])), None) == ["2020-01-01", "2021-01-01"]


def test_dates_far_from_all_others_are_named() -> None:
    lines = infer_schema(table([f"{m:%Y-%m-%d}" for m in MOMENTS] + ["9999-12-31"] * 3))[1]
    assert any("9999-12-31 (3 cells) is far from all other values of column 'when'" in line for line in lines)


TYPES = [
    pa.date32(),
    pa.date64(),
    *(pa.timestamp(unit) for unit in ("s", "ms", "us", "ns")),
    pa.timestamp("us", "UTC"),
    pa.timestamp("ns", "Europe/Berlin"),
    pa.timestamp("ms", "+05:30"),
    pa.time32("s"),
    pa.time32("ms"),
    pa.time64("us"),
    pa.time64("ns"),
    *(pa.duration(unit) for unit in ("s", "ms", "us", "ns")),
]


def typed(kind: pa.DataType, count: int = 60) -> pa.Array:
    whole = RNG.integers(0, 86_399, count)
    if pa.types.is_date(kind):
        days = [date(2020, 1, 1) + timedelta(days=int(v) // 100) for v in whole]
        return pa.array([None, *days], kind)
    if pa.types.is_time(kind):
        return pa.array([None, *[time(int(v) // 3600, int(v) // 60 % 60, int(v) % 60) for v in whole]], kind)
    if pa.types.is_timestamp(kind):
        moments = [datetime(2020, 1, 1, tzinfo=UTC) + timedelta(seconds=int(v) * 97) for v in whole]
        return pa.array([None, *[m if kind.tz else m.replace(tzinfo=None) for m in moments]], kind)
    return pa.array([None, *[timedelta(seconds=int(v)) for v in whole]], kind)


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_types_of_parquet_stay_and_fills_are_of_that_type(kind: pa.DataType) -> None:
    cells = typed(kind)
    arrow = pa.table({"when": cells, "y": RNG.normal(size=len(cells))})
    rows = from_frame(arrow)
    schema = schema_alone(rows)
    found = schema.columns[0]
    assert isinstance(found, Moment) and Schema.from_json(schema.to_json()) == schema
    draws = np.array([[[code, 0.0]] * rows.N for code in found.codes(rows.column("when"))[1:3]])
    lines: list[str] = []
    filled = to_frames(rows, schema, draws, True, say=lines.append)
    for k, one in enumerate(filled):
        assert one.schema.equals(arrow.schema) and lines == []
        assert one.column("when").slice(1).equals(arrow.column("when").slice(1))
        assert one.column("when")[0] == arrow.column("when")[k + 1]
    x = encode(rows, schema, seed=0).table.x
    assert np.array_equal(found.decode(x[1:, :1].numpy()), found.codes(rows.column("when"))[1:])
    texts = rows.column("when").texts()[1:].tolist()  # as the columns of a table written as CSV show them
    assert found.spell(found.codes(rows.column("when"))[1:], None) == texts


def test_a_constant_of_a_type_and_an_empty_column_later() -> None:
    arrow = pa.table({"when": pa.array([date(2020, 1, 1)] * 5 + [None]), "y": RNG.normal(size=6)})
    rows = from_frame(arrow)
    schema = schema_alone(rows)
    (filled,) = to_frames(rows, schema, np.zeros((1, 6, 1)), True, say=print)
    assert filled.column("when").to_pylist() == [date(2020, 1, 1)] * 6
    every = from_frame(pa.table({"when": typed(pa.date32()), "y": RNG.normal(size=61)}))
    fitted = schema_alone(every)
    later = from_frame(pa.table({"when": pa.nulls(2), "y": [1.0, 2.0]}))
    lines: list[str] = []
    (filled,) = to_frames(later, fitted, np.zeros((1, 2, 2)), True, say=lines.append)
    assert filled.column("when").type == pa.date32() and "written as date32[day], not null" in lines[0]


def test_what_the_file_says_is_not_overruled() -> None:
    rows = from_frame(pa.table({"when": typed(pa.date32()), "y": RNG.normal(size=61)}))
    with pytest.raises(InputError, match="--column when=time, but the file types the column as dates"):
        infer_schema(rows, kinds={"when": "time"})
    whole = pa.table({"when": pa.array([int(f"{m:%Y%m%d}") for m in MOMENTS]), "y": RNG.normal(size=40)})
    found = infer_schema(from_frame(whole), kinds={"when": "date:%Y%m%d"})[0].columns[0]
    assert isinstance(found, Moment) and found.spell(np.array([0.0]), None) == [min(f"{m:%Y%m%d}" for m in MOMENTS)]


def test_a_fit_of_parquet_reads_csv_and_the_other_way_round() -> None:
    stamps = [datetime(2020, 1, 1, tzinfo=UTC) + timedelta(hours=int(h)) for h in RNG.integers(0, 9000, 50)]
    arrow = from_frame(pa.table({"when": pa.array(stamps, pa.timestamp("us", "UTC")), "y": RNG.normal(size=50)}))
    text = table([f"{m:%Y-%m-%d %H:%M:%S}+00:00" for m in stamps])
    for first, second in ((arrow, text), (text, arrow)):
        found = schema_alone(first).columns[0]
        assert isinstance(found, Moment)
        codes = found.codes(second.column("when"))
        assert codes.tolist() == [(m - min(stamps)).total_seconds() for m in stamps]


@settings(max_examples=12, deadline=None)
@given(
    st.lists(st.datetimes(datetime(2012, 1, 1), datetime(2020, 1, 1)), min_size=3, max_size=30, unique=True),
    st.sampled_from([0, 1, 3, 6]),
    st.sampled_from(["T", " "]),
    st.sampled_from(["", "Z", "+0200", "-09:30"]),
)
def test_any_iso_datetime_is_exact(moments: list[datetime], digits: int, gap: str, offset: str) -> None:
    cells = [
        m.strftime(f"%Y-%m-%d{gap}%H:%M:%S") + (f".{m.microsecond:06d}"[: digits + 1] if digits else "") + offset
        for m in moments
    ]
    if len(set(cells)) == 1:
        return
    found = moment(cells)
    codes = found.codes(table(cells).column("when"))
    assert found.spell(codes, None) == cells
    for u in (0.0, 0.5, 1.0) if found.noisy else (None,):
        z = found.encode(codes, None if u is None else np.full((len(codes), 1), u))
        assert np.array_equal(found.decode(z), codes)


def test_the_report_says_what_densities_are_per() -> None:
    """Whole days have a probability; moments that are not rounded a density per second."""
    exact = moment([f"2020-03-01T{i % 24:02d}:00:00.{i:06d}" for i in RNG.permutation(900_000)[:60] + 100_000])
    days = moment([f"{m:%Y-%m-%d}" for m in MOMENTS])
    assert days.noisy and not exact.noisy
    assert list(measures([exact, days])) == ["dequantised", "density_per_second"]


@pytest.mark.parametrize("zoned", [False, True])
def test_moments_with_and_without_a_time_zone_are_not_mixed(zoned: bool) -> None:
    moments = pd.date_range("2024-01-01", periods=30, freq="7h")
    frames = [pd.DataFrame({"when": when, "x": range(30)}) for when in (moments, moments.tz_localize("UTC"))]
    fitted, new = frames[::-1] if zoned else frames
    schema = schema_alone(from_frame(fitted))
    has = "in the fit but none here" if zoned else "here but none in the fit"
    with pytest.raises(InputError, match=f"column 'when' has a time zone {has}, first in '2024-01-01") as refused:
        check(from_frame(new), schema)
    assert "`tz_localize` or `tz_convert`" in str(refused.value.hint)
    assert check(from_frame(fitted), schema)


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Asia/Kathmandu", "UTC", "Australia/Lord_Howe"])
def test_days_of_a_zone_are_filled_with_days(zone: str) -> None:
    """The days with which summer time begins and ends have 23 and 25 hours, so that midnights are no multiples."""
    days = pd.date_range("2000-01-01", periods=400, tz=zone).to_series(index=range(400))
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"day": days.where(rng.random(400) > 0.2), "x": np.arange(400.0)})
    column = schema_alone(from_frame(frame)).encoded[0]
    assert isinstance(column, Moment)
    moved = column.codes(from_frame(pd.DataFrame({"day": days})).column("day"))
    np.testing.assert_array_equal(column.clock.snap(moved), moved)
    away = moved + rng.uniform(-11, 11, 400) * 3600
    np.testing.assert_array_equal(column.clock.snap(np.stack([away, moved]))[0], moved)
    hours = pd.Series(pd.date_range("2000-01-01", periods=400, freq="h", tz=zone))
    other = schema_alone(from_frame(pd.DataFrame({"day": hours, "x": np.arange(400.0)}))).encoded[0]
    assert isinstance(other, Moment) and not other.clock.daily


def test_fills_of_days_of_a_zone_are_days(tmp_path: Path) -> None:
    days = pd.Series(pd.date_range("2000-01-01", periods=300, tz="Europe/Berlin"))
    frame = pd.DataFrame({"day": days.where(np.arange(300) % 9 > 0), "x": np.arange(300.0)})
    few = {"model.components": 1, "bootstrap": "none"}
    run = vgi_cli.fit(frame, model="mixture", set=few, epochs=5, out=tmp_path / "run")
    for filled in run.impute(m=2):
        assert (filled.day.dt.normalize() == filled.day).all() and str(filled.day.dt.tz) == "Europe/Berlin"
