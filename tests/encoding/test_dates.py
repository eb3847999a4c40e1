"""Parts of dates, in columns of their own: found, kept by fills, and dates that agree with the parts that are known."""

from __future__ import annotations

import datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.encoding.test_following import kept_apart, kept_under_mask, spread
from tests.encoding.test_relations import IGNORED, KEPT, codes_in, holed, schema_of
from tests.selection import covering, first
from vgi_cli.columns.calendar import PARTS, Part, part_of
from vgi_cli.columns.datetime import Moment
from vgi_cli.columns.numerals import Bools, Floats
from vgi_cli.columns.schema import Schema
from vgi_cli.encoding.infer import infer_schema
from vgi_cli.encoding.keeping import keep_relations
from vgi_cli.encoding.orders import out_of_order
from vgi_cli.encoding.redundant import every_kept
from vgi_cli.encoding.relations import departing
from vgi_cli.errors import RunError
from vgi_cli.table.frames import from_frame

KNOWN: list[tuple[str, tuple[Part, ...]]] = [("month", ("day",)), ("day", ()), ("year", ("month", "day"))]
"""A part that is known, and what of the drawn date stays."""


def days(n: int = 300, seed: int = 0, years: int = 5) -> pd.Series:
    rng = np.random.default_rng(seed)
    return pd.Series(pd.Timestamp("2018-03-02") + pd.to_timedelta(rng.integers(0, 365 * years, n), "D"))


def parted(n: int = 300, seed: int = 0) -> pd.DataFrame:
    """A day, its parts in columns before and after it, levels that follow from it, and a number that does not."""
    day = days(n, seed)
    at = day.dt
    return pd.DataFrame(
        {
            "year": at.year,
            "month": at.month,
            "day": at.day,
            "date": at.strftime("%Y-%m-%d"),
            "weekday": at.day_of_week,
            "iso": at.isocalendar().week.astype(int),
            "name": at.strftime("%B"),
            "season": np.array(["winter", "spring", "summer", "autumn"])[at.month % 12 // 3],
            "x": np.random.default_rng(seed + 1).normal(size=n).round(2),
        }
    )


def timed(n: int = 300, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    moment = days(n, seed) + pd.to_timedelta(rng.integers(0, 86_400, n), "s")
    at = moment.dt
    return pd.DataFrame(
        {
            "at": at.strftime("%d/%m/%Y %H:%M:%S"),
            "hour": at.hour,
            "quarter": at.quarter,
            "dow": at.day_of_week + 1,
            "shift": np.where((at.hour >= 6) & (at.hour < 22), "by day", "at night"),
            "x": rng.normal(size=n).round(2),
        }
    )


def with_offsets(offsets: list[str]) -> pd.DataFrame:
    """The same as ISO 8601 has them, with some offsets in turn; the parts are those of the local time."""
    frame = timed()
    local = pd.to_datetime(frame["at"], format="%d/%m/%Y %H:%M:%S")
    frame["at"] = [f"{moment}{offsets[i % len(offsets)]}" for i, moment in enumerate(local)]
    return frame


def finely(n: int = 200, seed: int = 0) -> pd.DataFrame:
    """Moments with fractions of a second, which no float64 number is exactly."""
    rng = np.random.default_rng(seed)
    moment = days(n, seed) + pd.to_timedelta(rng.integers(0, 86_400 * 10**6, n), "us")
    at = moment.dt
    frame = pd.DataFrame({"at": at.strftime("%Y-%m-%dT%H:%M:%S.%f"), "hour": at.hour, "day": at.day})
    return frame.assign(month=at.month, dow=at.day_of_week)


def banded(n: int = 250, seed: int = 0) -> pd.DataFrame:
    """A day beside the month that it lies in, which is an interval, and parts of it."""
    day = days(n, seed)
    frame = pd.DataFrame({"date": day.dt.strftime("%d.%m.%Y"), "period": day.dt.strftime("%Y-%m"), "day": day.dt.day})
    return frame.assign(quarter="Q" + day.dt.quarter.astype(str))


def monthly(n: int = 250, seed: int = 0) -> pd.DataFrame:
    month = days(n, seed).dt.to_period("M")
    return pd.DataFrame({"period": month.astype(str), "m": month.dt.month, "q": month.dt.quarter, "y": month.dt.year})


class TestParts:
    @given(st.datetimes(datetime.datetime(1, 1, 2), datetime.datetime(9999, 12, 30)))
    def test_they_are_those_of_the_calendar(self, moment: datetime.datetime) -> None:
        seconds = (moment.replace(microsecond=0) - datetime.datetime(1970, 1, 1)).total_seconds()
        found = {part: int(part_of(np.array([seconds]), "s", part)[0]) for part in PARTS["s"]}
        iso = moment.isocalendar()
        assert found == {
            "year": moment.year,
            "quarter": (moment.month + 2) // 3,
            "month": moment.month,
            "week": iso.week,
            "day": moment.day,
            "yearday": moment.timetuple().tm_yday,
            "weekday": iso.weekday,
            "hour": moment.hour,
        }
        day = np.array([seconds // 86_400])
        assert all(part_of(day, "D", part)[0] == found[part] for part in PARTS["D"])
        months = np.array([12.0 * (moment.year - 1970) + moment.month - 1])
        assert all(part_of(months, "M", part)[0] == found[part] for part in PARTS["M"])
        assert all(part_of(months // 3, "Q", part)[0] == found[part] for part in PARTS["Q"])

    def test_what_is_no_moment_has_none(self) -> None:
        assert np.isnan(part_of(np.array([np.nan, np.inf]), "D", "month")).all()


class TestFound:
    @pytest.mark.parametrize("share", [0.0, 0.2])
    def test_of_a_date(self, share: float) -> None:
        schema = schema_of(holed(parted(), share=share))
        words = {
            "'year' is the year of 'date'",
            "'month' and the levels of 'name' go one to one",
            "'day' is the day of the month of 'date'",
            "'weekday' is the weekday of 'date'",
            "'iso' is the ISO week of 'date'",
            "'name' is the month of 'date'",
            "'season' follows from 'name'",
            "'season' follows from the month of 'date'",
            "'month' is the month of 'date'",
        }
        assert set(every_kept(schema)[: len(schema.relations)]) == words
        assert Schema.from_json(schema.to_json()).relations == schema.relations

    def test_of_a_datetime(self) -> None:
        schema = schema_of(timed())
        assert set(every_kept(schema)[: len(schema.relations)]) == {
            "'hour' is the hour of 'at'",
            "'quarter' is the quarter of 'at'",
            "'dow' is the weekday of 'at'",
            "'shift' follows from the hour of 'at'",
        }

    @covering(
        pytest.mark.parametrize("typed", [False, True]), pytest.mark.parametrize("offset", ["+02:00", "-0330", "Z"])
    )
    def test_of_datetimes_with_one_offset_by_their_clocks(self, offset: str, typed: bool) -> None:
        frame = with_offsets([offset])
        if typed:
            frame["at"] = pd.to_datetime(frame["at"], format="%Y-%m-%d %H:%M:%S%z")
        schema = schema_of(holed(frame, share=0.1))
        assert set(every_kept(schema)[: len(schema.relations)]) == {
            "'hour' is the hour of 'at'",
            "'quarter' is the quarter of 'at'",
            "'dow' is the weekday of 'at'",
            "'shift' follows from the hour of 'at'",
        }
        assert Schema.from_json(schema.to_json()) == schema
        true, _, draws = kept_under_mask(frame, 1, 0.4)
        places = [schema.modelled.index(name) for name in ("at", "hour")]
        for draw in (true, *draws):
            texts = pd.Series(schema.encoded[places[0]].spell(draw[:, places[0]], None))
            assert np.array_equal(texts.str[11:13].astype(float), draw[:, places[1]])

    def test_not_of_datetimes_with_several_offsets(self) -> None:
        assert not schema_of(with_offsets(["+01:00", "+02:00"])).relations

    @pytest.mark.parametrize("first", ["Monday", "Sunday"])
    @pytest.mark.parametrize("base", [0, 1])
    def test_weekdays_count_from_either_day(self, first: str, base: int) -> None:
        day = days()
        number = (day.dt.day_of_week + (first == "Sunday")) % 7 + base
        schema = schema_of(pd.DataFrame({"date": day, "n": number}))
        (relation,) = schema.relations
        assert relation.words() == "'n' is the weekday of 'date'"
        assert np.array_equal(relation.said(codes_in(pd.DataFrame({"date": day, "n": number}), schema)[:, 0]), number)

    def test_of_months(self) -> None:
        month = days().dt.to_period("M")
        frame = pd.DataFrame({"period": month.astype(str), "y": month.dt.year, "m": month.dt.month})
        assert {one.words() for one in schema_of(frame).relations if one.part} == {
            "'y' is the year of 'period'",
            "'m' is the month of 'period'",
        }

    def test_beside_a_sum_of_the_same_number(self) -> None:
        rng = np.random.default_rng(9)
        frame = pd.DataFrame({"born": rng.integers(1940, 2000, 300), "date": days()})
        frame["year"] = frame.date.dt.year
        frame["age"] = frame.year - frame.born
        found = {one.words() for one in schema_of(frame).relations}
        assert found == {"'age' = 'year' - 'born'", "'year' is the year of 'date'"}

    def test_a_date_is_no_line_of_its_parts(self) -> None:
        frame = parted()[["year", "month", "day", "date", "x"]]
        for encoding, said in ((KEPT, 0), (IGNORED, 1)):
            lines = infer_schema(from_frame(frame), encoding=encoding)[1]
            assert (
                sum("column 'date' is nearly a linear function of columns 'year', 'm" in one for one in lines) == said
            )

    def test_nor_is_a_year_one_of_its_date_and_month(self) -> None:
        """Rounded, it is: by as many days of a year as there are in a month on average."""
        moment = pd.Series(pd.Timestamp("2018-01-01") + pd.to_timedelta(np.arange(400) * 5 * 86_407, "s"))
        frame = pd.DataFrame({"at": moment, "month": moment.dt.month, "year": moment.dt.year})
        assert {one.words() for one in schema_of(frame).relations} == {
            "'month' is the month of 'at'",
            "'year' is the year of 'at'",
        }

    def test_not_where_rows_are_off_or_few(self) -> None:
        frame = parted()[["date", "month", "x"]]
        assert [one.words() for one in schema_of(frame).relations] == ["'month' is the month of 'date'"]
        assert not schema_of(frame.assign(month=frame.month.mask(frame.index % 50 == 9, 13 - frame.month))).relations
        assert not schema_of(frame.head(10)).relations

    def test_levels_of_a_few_dates_say_nothing_of_others(self) -> None:
        """Six visits, each of one site: no law that sites follow from months."""
        visit = pd.to_datetime(["2020-01-07", "2020-02-11", "2020-04-02", "2021-01-20", "2021-06-01", "2021-08-12"])
        which = np.random.default_rng(0).integers(0, 6, 300)
        site = np.array(["a", "b", "c", "a", "b", "c"])[which]
        assert not [one for one in schema_of(pd.DataFrame({"visit": visit[which], "site": site})).relations if one.part]

    @pytest.mark.parametrize("seed", first(4, range(8)))
    def test_nothing_in_independent_columns(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        frame = pd.DataFrame({"a": days(60, seed), "b": days(60, seed + 100)})
        for i in range(6):
            frame[f"n{i}"] = rng.integers(1, (3, 4, 7, 12, 24, 31)[i] + 1, 60)
            frame[f"l{i}"] = rng.choice(["yes", "no"], 60, p=[p := (0.5, 0.8, 0.9, 0.95, 0.97, 0.5)[i], 1 - p])
        assert not [one for one in schema_of(frame).relations if one.part]

    def test_damage_is_named(self) -> None:
        text = schema_of(parted()[["date", "weekday", "season", "x"]]).to_json()
        place = text.index('"relations"')
        for old, new in (
            ('"part": "weekday"', '"part": "hour"'),
            ('"part": "weekday"', '"part": "month"'),
            ('"part": "weekday"', '"part": null'),
            ('"count": "D"', '"count": null'),
            ('"date"\n', '"x"\n'),
        ):
            assert old in text[place:]
            with pytest.raises(RunError, match=r"schema\.json: damaged \(.*relation"):
                Schema.from_json(text[:place] + text[place:].replace(old, new, 1))

    def test_a_run_of_an_earlier_version_is_read(self) -> None:
        """Its relations have no parts."""
        rng = np.random.default_rng(0)
        frame = pd.DataFrame({"a": rng.normal(size=200).round(2), "b": rng.normal(size=200).round(2)})
        schema = schema_of(frame.assign(c=frame.a + frame.b))
        text = schema.to_json().replace('"format": 10', '"format": 9')
        for line in (',\n   "part": null', ',\n   "count": null', ',\n   "begin": 0.0'):
            assert line in text
            text = text.replace(line, "")
        assert Schema.from_json(text).relations == schema.relations != ()


class TestKept:
    @given(st.integers(0, 2**31), st.floats(0.05, 0.95), st.sampled_from([parted, timed, finely, banded, monthly]))
    @settings(max_examples=6, deadline=None)
    def test_under_any_mask(self, seed: int, share: float, make: type) -> None:
        """Of any observed parts of one date there is a date."""
        kept_under_mask(make(), seed, share)

    def test_a_date_is_that_of_year_month_and_day(self) -> None:
        frame = parted()[["year", "month", "day", "date"]]
        schema = schema_of(frame)
        true = codes_in(frame, schema)
        missing = np.zeros(true.shape, bool)
        missing[:, 3] = True
        draws = spread(true, missing)
        assert keep_relations(draws, np.where(missing, 0.0, true), missing, schema).count() == 0
        assert np.array_equal(draws, np.repeat(true[None], 3, 0))

    @pytest.mark.parametrize(("known", "same"), KNOWN)
    def test_what_is_not_known_stays_as_it_was_drawn(self, known: str, same: tuple[Part, ...]) -> None:
        frame = parted()[["year", "month", "day", "date"]]
        schema = schema_of(frame)
        true = codes_in(frame, schema)
        missing = np.ones(true.shape, bool)
        missing[:, schema.modelled.index(known)] = False
        draws = spread(true, missing)
        before = draws[..., 3].copy()
        assert keep_relations(draws, np.where(missing, 0.0, true), missing, schema).count() == 0
        for part in same:
            drawn = part_of(before + schema.relations[0].begin, "D", part)
            now = draws[..., schema.modelled.index(part)]
            assert (now == drawn)[(drawn <= 28) | (part == "month")].all()
        away = np.abs(draws[..., 3] - before)
        assert away.max() <= {"month": 366 / 2 + 31, "day": 31, "year": 366 * 5}[known]
        if known == "day":
            assert away.mean() > 3

    def test_an_interval_alone_is_kept_beside_parts_that_are_missing(self) -> None:
        day = days()
        frame = pd.DataFrame({"date": day.dt.strftime("%Y-%m-%d"), "month": day.dt.month})
        frame["period"] = day.dt.strftime("%Y-%m")
        schema = schema_of(frame)
        assert sorted(one.how for one in schema.relations if "date" in one.names) == ["bands", "part"]
        true = codes_in(frame, schema)
        missing = np.zeros(true.shape, bool)
        missing[:, [schema.modelled.index("date"), schema.modelled.index("month")]] = True
        draws = spread(true, missing)
        assert keep_relations(draws, np.where(missing, 0.0, true), missing, schema).count() == 0
        assert kept_apart(schema, draws) == 0

    def test_parts_that_contradict_each_other_are_counted(self) -> None:
        frame = parted()[["month", "day", "date", "x"]]
        schema = schema_of(frame)
        true = codes_in(frame, schema)
        true[0, :2] = 2, 30
        missing = np.zeros(true.shape, bool)
        missing[:, 2] = True
        draws = spread(true, missing)
        assert keep_relations(draws, np.where(missing, 0.0, true), missing, schema).count() == len(draws)

    def test_days_that_never_are_stay_out(self) -> None:
        """Dates of which none is a weekend: the nearest day of a known month is none either."""
        day = days(2000, years=1)
        day = day[day.dt.day_of_week < 5].reset_index(drop=True)
        frame = pd.DataFrame({"date": day.dt.strftime("%Y-%m-%d"), "month": day.dt.month})
        schema = schema_of(frame)
        date = schema.encoded[0]
        assert isinstance(date, Moment)
        true = codes_in(frame, schema)
        missing = np.zeros(true.shape, bool)
        missing[:, 0] = True
        draws = spread(true, missing)
        assert keep_relations(draws, np.where(missing, 0.0, true), missing, schema).count() == 0
        gaps = date.number.gaps
        assert len(gaps) > 5
        assert not any(((low < draws[..., 0]) & (draws[..., 0] < high)).any() for low, high in gaps)

    def test_with_a_sum_of_dates(self) -> None:
        rng = np.random.default_rng(0)
        frame = pd.DataFrame({"start": days(), "length": rng.integers(1, 60, 300)})
        frame["end"] = frame.start + pd.to_timedelta(frame.length, "D")
        frame["year"], frame["month"] = frame.end.dt.year, frame.end.dt.month
        schema = schema_of(frame)
        assert [one.how for one in schema.relations] == ["sum", "part", "part"]
        true = codes_in(frame, schema)
        for hidden in ((0,), (2,), (2, 3), (2, 3, 4), (0, 2, 4), (1, 2), (0, 1)):
            missing = np.zeros(true.shape, bool)
            missing[:, hidden] = True
            draws = spread(true, missing)
            apart = keep_relations(draws, np.where(missing, 0.0, true), missing, schema).count()
            assert apart == 0 or hidden == (1, 2), hidden  # a length may not be below 0
            assert np.array_equal(draws[:, ~missing], np.repeat(true[None], 3, 0)[:, ~missing])

    @given(st.integers(0, 2**31), st.floats(0.05, 0.95), st.booleans())
    @settings(max_examples=6, deadline=None)
    def test_of_the_distances_from_another_date_one_agrees(self, seed: int, share: float, chances: bool) -> None:
        """Orders shipped a few days later, and parts of either day: of observed ones there are two such days."""
        frame = shipped()
        schema = schema_of(frame)
        assert [one.names for one in schema.relations if one.apart] == [("shipped", "ordered")]
        true = codes_in(frame, schema)
        rng = np.random.default_rng(seed)
        missing = rng.random(true.shape) < share
        missing[:, [schema.modelled.index("weekday"), schema.modelled.index("m")]] &= rng.random() < 0.8
        draws = spread(true, missing)
        uniform = np.random.default_rng(1).random(draws.shape[:2])
        observed, drawn = np.where(missing, 0.0, true), draws.copy()
        own = (lambda name: uniform) if chances else None
        assert keep_relations(draws, observed, missing, schema, own).count() == 0
        assert kept_apart(schema, draws) == 0
        assert np.array_equal(draws[:, ~missing], np.repeat(true[None], 3, 0)[:, ~missing])
        for i in range(0, len(true), 75):
            alone, of_it = drawn[:, i : i + 1].copy(), uniform[:, i : i + 1]
            own = (lambda name, of_it=of_it: of_it) if chances else None
            keep_relations(alone, observed[i : i + 1], missing[i : i + 1], schema, own)
            assert np.array_equal(alone, draws[:, i : i + 1])

    def test_distances_are_as_frequent_as_they_were_where_several_agree(self) -> None:
        frame = shipped(1200)[["ordered", "shipped", "m"]]
        schema = schema_of(frame)
        true = codes_in(frame, schema)
        missing = np.zeros(true.shape, bool)
        missing[:, 1] = True
        draws = np.repeat(true[None], 3, 0)
        draws[..., 1] += 400.0
        uniform = np.random.default_rng(1).random(draws.shape[:2])
        assert keep_relations(draws, np.where(missing, 0.0, true), missing, schema, lambda name: uniform).count() == 0
        inside = pd.to_datetime(frame.ordered).dt.day.to_numpy() < 25
        least = (true[:, 1] - true[:, 0]).min()
        before, now = (
            np.bincount((later - true[:, 0] - least)[..., inside].ravel().astype(int), minlength=3)
            for later in (true[:, 1], draws[..., 1])
        )
        assert np.abs(before / before.sum() - now / now.sum()).max() < 0.05

    def test_dates_in_order_take_their_parts_along(self) -> None:
        rng, day = np.random.default_rng(0), days()
        left = day + pd.to_timedelta(rng.integers(0, 40, 300) ** 2 // 40, "D")
        frame = pd.DataFrame({"admitted": day.dt.strftime("%Y-%m-%d"), "discharged": left.dt.strftime("%Y-%m-%d")})
        frame["month"] = day.dt.month
        schema = schema_of(frame)
        assert [(one.low, one.high) for one in schema.orders] == [("admitted", "discharged")]
        true = codes_in(frame, schema)
        missing = np.zeros(true.shape, bool)
        missing[:, 0] = True
        missing[:150, 2] = True
        draws = spread(true, missing)
        draws[..., 0] = np.where(missing[:, 0], true[:, 0] + rng.integers(-20, 60, true.shape[0]), draws[..., 0])
        keep_relations(draws, np.where(missing, 0.0, true), missing, schema)
        assert kept_apart(schema, draws) == 0
        out = draws[..., 0] > draws[..., 1] + schema.orders[0].shift
        assert not out.any()  # in a month that is observed, too

    @given(st.integers(0, 2**31), st.floats(0.05, 0.9), st.sampled_from(["days", "hours", "bands"]))
    @settings(max_examples=7, deadline=None)
    def test_dates_in_order_have_the_parts_that_are_known(self, seed: int, share: float, kind: str) -> None:
        frame = ordered(hours=kind == "hours")
        if kind == "bands":
            frame["period"] = pd.to_datetime(frame.came).dt.strftime("%Y-%m")
        schema = schema_of(frame)
        assert [(one.low, one.high) for one in schema.orders] == [("came", "left")]
        true = codes_in(frame, schema)
        missing = np.random.default_rng(seed).random(true.shape) < share
        observed, drawn = np.where(missing, 0.0, true), spread(true, missing)
        draws = drawn.copy()
        assert keep_relations(draws, observed, missing, schema).count() == 0
        assert kept_apart(schema, draws) == 0
        assert not out_of_order(draws, schema).any()
        assert np.array_equal(draws[:, ~missing], np.repeat(true[None], 3, 0)[:, ~missing])
        for i in range(0, len(true), 75):
            alone = drawn[:, i : i + 1].copy()
            keep_relations(alone, observed[i : i + 1], missing[i : i + 1], schema)
            assert np.array_equal(alone, draws[:, i : i + 1])

    def test_dates_in_order_are_near_each_other_in_a_month_that_is_known(self) -> None:
        """Not a year apart, where the same day of the month would be."""
        frame = ordered()[["came", "left", "month"]]
        schema = schema_of(frame)
        true = codes_in(frame, schema)
        missing = np.zeros(true.shape, bool)
        missing[:, 0] = True
        draws = np.repeat(true[None], 3, 0)
        draws[..., 0] += np.random.default_rng(1).integers(0, 25, draws.shape[:2])
        assert keep_relations(draws, np.where(missing, 0.0, true), missing, schema).count() == 0
        assert kept_apart(schema, draws) == 0
        assert np.abs(draws[..., 0] - true[:, 0]).max() < 70

    def test_dates_in_order_stay_in_the_years_that_are_known(self) -> None:
        rng, day = np.random.default_rng(0), days()
        left = day + pd.to_timedelta(rng.integers(0, 60, 300), "D")
        frame = pd.DataFrame({"a": day.dt.strftime("%Y-%m-%d"), "b": left.dt.strftime("%Y-%m-%d")})
        frame["ay"], frame["bm"] = day.dt.year, left.dt.month
        schema = schema_of(frame)
        assert [(one.low, one.high) for one in schema.orders] == [("a", "b")]  # and not of a year and a month
        true = codes_in(frame, schema)
        missing = np.zeros(true.shape, bool)
        missing[:150, 0] = True  # of a year
        missing[150:, :3] = True  # before a month
        draws = np.repeat(true[None], 3, 0)
        draws[..., 0] += np.where(missing[:, 0], rng.integers(-30, 90, draws.shape[:2]), 0)
        draws[..., 1] += np.where(missing[:, 1], rng.integers(-30, 90, draws.shape[:2]), 0)
        assert keep_relations(draws, np.where(missing, 0.0, true), missing, schema).count() == 0
        assert kept_apart(schema, draws) == 0
        assert (draws[..., 0] <= draws[..., 1] + schema.orders[0].shift).all()

    @pytest.mark.parametrize("what", ["fiscal year", "age", "rate"])
    def test_what_follows_from_a_part_goes_along_too(self, what: str) -> None:
        """A date is moved for an order, takes its year or month along, and what follows from that follows again."""
        frame, names = stays(), ["left", "part", "then"]
        left = pd.to_datetime(frame.left)
        frame["part"] = left.dt.year if what in ("fiscal year", "age") else left.dt.strftime("%B")
        if what == "fiscal year":
            frame["then"] = frame.part + 1
        elif what == "age":
            frame["born"] = np.random.default_rng(3).integers(1930, 2000, len(frame))
            frame["then"] = frame.part - frame.born
        else:
            frame["then"] = left.dt.month.map(dict(enumerate([1.5, 2.5, 2.5, 3, 3, 4, 5, 5, 6, 7, 7, 8], 1)))
        schema = schema_of(frame)
        assert [(one.low, one.high) for one in schema.orders] == [("came", "left")]
        assert {one.names[0] for one in schema.relations} == {"part", "then"}
        draws, missing, true = late(frame, schema, names)
        before = draws.copy()
        assert keep_relations(draws, np.where(missing, 0.0, true), missing, schema).count() == 0
        assert kept_apart(schema, draws) == 0
        assert (draws[..., 0] <= draws[..., 1] + schema.orders[0].shift).all()
        then = schema.modelled.index("then")
        assert (draws[..., then] != before[..., then]).mean() > 0.05
        assert np.array_equal(draws[:, ~missing], np.repeat(true[None], 3, 0)[:, ~missing])

    def test_ages_in_order_go_along_with_their_dates(self) -> None:
        """They follow from years that are moved after all orders were looked at."""
        came = days(800)
        left = came + pd.to_timedelta(np.random.default_rng(0).integers(0, 400, 800) ** 2 // 400, "D")
        frame = pd.DataFrame({"came": came.dt.strftime("%Y-%m-%d"), "left": left.dt.strftime("%Y-%m-%d")})
        frame["first"], frame["last"] = came.dt.year, left.dt.year
        frame["born"] = np.random.default_rng(1).integers(1930, 2000, 800)
        frame["age"], frame["until"] = frame["first"] - frame.born, frame["last"] - frame.born
        schema = schema_of(frame)
        assert [(one.low, one.high) for one in schema.orders] == [("came", "left"), ("age", "until")]
        draws, missing, true = late(frame, schema, ["left", "last", "until"])
        draws[..., 1] -= 400
        assert keep_relations(draws, np.where(missing, 0.0, true), missing, schema).count() == 0
        assert kept_apart(schema, draws) == 0
        assert not out_of_order(draws, schema).any()

    def test_what_is_observed_and_does_not_follow_any_more_is_counted(self) -> None:
        frame = stays()
        frame["year"] = pd.to_datetime(frame.left).dt.year
        frame["fiscal"] = frame.year + 1
        schema = schema_of(frame)
        draws, missing, true = late(frame, schema, ["left", "year"])
        true[:60, schema.modelled.index("fiscal")] -= 1  # a year that ended before
        draws[:, ~missing] = true[~missing]
        apart = keep_relations(draws, np.where(missing, 0.0, true), missing, schema)
        out = draws[..., 0] > draws[..., 1] + schema.orders[0].shift
        departs = np.zeros(out.shape, bool)
        for one in schema.relations:
            departs |= departing(one, draws[..., [schema.modelled.index(name) for name in one.names]], 0.0)
        assert departs[:, :60].sum() > 20
        assert np.array_equal(apart.rows(), departs | out)

    def test_a_date_that_leaves_the_months_that_were_seen_is_counted(self) -> None:
        frame = stays(800)
        left = pd.to_datetime(frame.left)
        frame["name"] = left.dt.strftime("%B")
        frame = frame[left.dt.month != 7].reset_index(drop=True)
        schema = schema_of(frame)
        assert [one.words() for one in schema.relations] == ["'name' is the month of 'left'"]
        draws, missing, true = late(frame, schema, ["left", "name"])
        apart = keep_relations(draws, np.where(missing, 0.0, true), missing, schema)
        (relation,) = schema.relations
        july = np.isnan(relation.said(draws[..., schema.modelled.index("left")]))
        assert july.sum() > 5
        assert np.array_equal(apart.rows(), july)
        assert apart.counts() == {relation: july.sum()}


def stays(n: int = 400) -> pd.DataFrame:
    """A day, and another one up to two months after it."""
    came = days(n)
    left = came + pd.to_timedelta(np.random.default_rng(0).integers(0, 60, n), "D")
    return pd.DataFrame({"came": came.dt.strftime("%Y-%m-%d"), "left": left.dt.strftime("%Y-%m-%d")})


def shipped(n: int = 300) -> pd.DataFrame:
    """A day, another one that is one to three days later, and parts of both."""
    ordered = days(n)
    later = ordered + pd.to_timedelta(np.random.default_rng(0).choice([1, 2, 3], n, p=[0.5, 0.3, 0.2]), "D")
    frame = pd.DataFrame({"ordered": ordered.dt.strftime("%Y-%m-%d"), "shipped": later.dt.strftime("%Y-%m-%d")})
    return frame.assign(weekday=ordered.dt.day_of_week, day=later.dt.day, m=later.dt.month)


def ordered(n: int = 300, *, hours: bool = False) -> pd.DataFrame:
    """Stays with the month of the first day and the weekday of the last one, or the hours of both."""
    rng = np.random.default_rng(0)
    came = days(n)
    left = came + pd.to_timedelta(rng.integers(0, 40, n), "D")
    if not hours:
        frame = pd.DataFrame({"came": came.dt.strftime("%Y-%m-%d"), "left": left.dt.strftime("%Y-%m-%d")})
        return frame.assign(month=came.dt.month, weekday=left.dt.day_of_week)
    came += pd.to_timedelta(rng.integers(0, 86_400, n), "s")
    left = came + pd.to_timedelta(rng.integers(0, 86_400 * 10, n), "s")
    return pd.DataFrame({"came": came, "left": left, "from": came.dt.hour, "to": left.dt.hour, "month": left.dt.month})


def late(frame: pd.DataFrame, schema: Schema, hidden: list[str]) -> tuple[Floats, Bools, Floats]:
    """Draws [3, N, columns] of which days of leaving are too early in many rows, what is missing, and true codes."""
    true = codes_in(frame, schema)
    missing = np.zeros(true.shape, bool)
    missing[:, [schema.modelled.index(name) for name in hidden]] = True
    draws = np.repeat(true[None], 3, 0)
    draws[..., schema.modelled.index("left")] += np.random.default_rng(1).integers(-200, 100, draws.shape[:2])
    return draws, missing, true


def test_a_row_is_filled_alone_as_among_others() -> None:
    """Days that come again after decades: a February 29, or a week with a month, a day and a weekday."""
    rng = np.random.default_rng(0)
    day = pd.Series(pd.Timestamp("1950-01-01") + pd.to_timedelta(rng.integers(0, 365 * 70, 300), "D"))
    day[:12] = pd.to_datetime([f"{year}-02-29" for year in range(1952, 2000, 4)])
    weekday, week = day.dt.day_of_week, day.dt.isocalendar().week.astype(int)
    frame = pd.DataFrame({"date": day.dt.strftime("%Y-%m-%d"), "month": day.dt.month, "day": day.dt.day})
    for own in (frame.assign(weekday=weekday), frame.assign(weekday=weekday, week=week)):
        schema = schema_of(own)
        true = codes_in(own, schema)
        missing = np.zeros(true.shape, bool)
        missing[:, schema.modelled.index("date")] = True
        observed, drawn = np.where(missing, 0.0, true), spread(true, missing, 2)
        whole = drawn.copy()
        assert keep_relations(whole, observed, missing, schema).count() == 0
        for i in [*range(12), *range(12, len(true), 18)]:
            alone = drawn[:, i : i + 1].copy()
            keep_relations(alone, observed[i : i + 1], missing[i : i + 1], schema)
            np.testing.assert_array_equal(alone, whole[:, i : i + 1])


def test_fills_and_samples_of_a_run_keep_to_them(tmp_path: Path) -> None:
    import vgi_cli

    frame = parted(120)[["year", "month", "day", "date", "x"]]
    run = vgi_cli.fit(
        holed(frame, 2, 0.3), out=tmp_path / "run", model="mixture", set={"model.components": 1, "bootstrap": 1}
    )
    for filled in [*run.impute(m=2), run.sample(n=50)]:
        date = pd.to_datetime(filled.date)
        for part in ("year", "month", "day"):
            assert np.array_equal(getattr(date.dt, part), filled[part])
