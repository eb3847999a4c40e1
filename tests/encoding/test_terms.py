"""Dates that are another date and a term in months or years: found, told from others, and kept by fills."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.encoding.test_ages import DATES, SINCE, code_of, completed, filled, hiding
from tests.encoding.test_relations import codes_in, holed, schema_of
from tests.schemas import checked
from tests.selection import first
from vgi_cli.columns.calendar import Ends, Span
from vgi_cli.columns.relations import Relation
from vgi_cli.columns.schema import Schema
from vgi_cli.encoding.infer import infer_schema, schema_alone
from vgi_cli.errors import RunError
from vgi_cli.table.frames import from_frame
from vgi_cli.table.reader import read_table

TERMS = (12, 24, 36, 48, 60, 72, 84)


def later(start: datetime.date, count: int, ends: Ends) -> datetime.date:
    """So many months later: of a day that the month does not have its last day, or the first one after it."""
    year, month = divmod(12 * start.year + start.month - 1 + count, 12)
    first_day = datetime.date(year, month + 1, 1)
    after = (first_day + datetime.timedelta(days=31)).replace(day=1)
    day = first_day + datetime.timedelta(days=start.day - 1)
    return day if day < after else after - datetime.timedelta(days=ends == "last")


def loans(
    n: int = 400, terms: tuple[int, ...] = TERMS, days: int = 0, ends: Ends = "last", unit: int = 1, seed: int = 0
) -> pd.DataFrame:
    """Loans, and a rate; `unit`: months of each unit of the term."""
    rng = np.random.default_rng(seed)
    start = pd.Series(pd.Timestamp("2018-01-01") + pd.to_timedelta(rng.integers(0, 1800, n), "D"))
    term = rng.choice(terms, n)
    maturity = [later(one.date(), unit * int(own), ends) for one, own in zip(start, term, strict=True)]
    maturity = pd.to_datetime(pd.Series(maturity)) + pd.Timedelta(days=days)
    return pd.DataFrame({"start": start, "maturity": maturity, "term": term, "rate": rng.normal(4, 1, n).round(2)})


def relation_of(span: Span, ends: Ends, days: int, *counts: str) -> Relation:
    """Of dates that count from different days on."""
    dates = tuple(("s", 86_400.0 * 30) if count == "s" else ("D", -40.0) for count in counts)
    names = ("term", "start", "end")
    return Relation(names=names, how="completed", span=span, ends=ends, constant=days, dates=dates)  # type: ignore[arg-type]


ENDS = st.sampled_from(["last", "next"])
SPANS = st.sampled_from(["month", "year"])
COUNTS = st.tuples(st.sampled_from("Ds"), st.sampled_from("Ds"))


class TestCalendar:
    @given(DATES, st.integers(-30, 400), SPANS, ENDS, st.integers(-3, 40), COUNTS)
    @settings(max_examples=300, deadline=None)
    def test_each_follows_from_the_other_two(
        self, start: datetime.date, term: int, span: Span, ends: Ends, days: int, counts: tuple[str, str]
    ) -> None:
        months = term * (12 if span == "year" else 1)
        end = later(start, months, ends) + datetime.timedelta(days=days)
        assert ends == "next" or end - datetime.timedelta(days) == (
            (pd.Timestamp(start).to_period("D").to_timestamp() + pd.DateOffset(months=months)).date()
        )
        relation = relation_of(span, ends, days, *counts)
        begin, until = ((one - SINCE).days for one in (start, end))
        values = np.array([float(term), code_of(begin, counts[0]), code_of(until, counts[1])])
        assert relation.completed(values) == term
        low, high = relation.window(values, 2, values[0])
        assert (low, high) == (code_of(until, counts[1]), code_of(until + 1, counts[1]))
        low, high = relation.window(values, 1, values[0])
        assert low <= values[1] < high
        for day in range(begin - 5, begin + 6):
            code, own = code_of(day, counts[0]), SINCE + datetime.timedelta(days=day)
            same = later(own, months, ends) + datetime.timedelta(days=days) == end
            assert (low <= code < high) == same
            assert (relation.completed(np.array([0.0, code, values[2]])) == term) == same

    def test_no_day_is_a_month_before_march_31(self) -> None:
        day = (datetime.date(2021, 3, 31) - SINCE).days
        values = np.array([1.0, 0.0, code_of(day, "D")])
        for ends in ("last", "next"):
            relation = relation_of("month", ends, 0, "D", "D")  # type: ignore[arg-type]
            low, high = relation.window(values, 1, values[0])
            assert low == high
            assert np.isnan(relation.solved(values, 1, values[0]))

    @pytest.mark.parametrize(("ends", "day"), [("last", (2021, 2, 28)), ("next", (2021, 3, 1))])
    def test_of_january_31_the_next_month_has_no_such_day(self, ends: Ends, day: tuple[int, int, int]) -> None:
        values = np.array([1.0, code_of((datetime.date(2021, 1, 31) - SINCE).days, "D"), 0.0])
        low, _ = relation_of("month", ends, 0, "D", "D").window(values, 2, values[0])
        assert low == code_of((datetime.date(*day) - SINCE).days, "D")

    def test_dates_that_are_no_whole_months_apart_have_no_term(self) -> None:
        days = [(datetime.date(2021, *one) - SINCE).days for one in ((1, 15), (3, 16))]
        values = np.array([0.0, *(code_of(day, "D") for day in days)])
        assert np.isnan(relation_of("month", "last", 0, "D", "D").completed(values))
        assert relation_of("month", "last", 1, "D", "D").completed(values) == 2


class TestFound:
    @pytest.mark.parametrize(
        ("days", "more"), [(0, ""), (-1, " - 1 day"), (1, " + 1 day"), (-2, " - 2 days"), (45, " + 45 days")]
    )
    @pytest.mark.parametrize(("unit", "terms", "what"), [(1, TERMS, "months"), (12, (10, 15, 20, 30), "years")])
    def test_it_is_said_beside_holes(self, days: int, more: str, unit: int, terms: tuple[int, ...], what: str) -> None:
        schema, notes = infer_schema(from_frame(holed(loans(terms=terms, days=days, unit=unit))))
        said = f"'maturity' = 'start' + 'term' {what}{more}"
        assert completed(schema) == [said]
        assert any(said in note for note in notes)
        assert [one.names for one in schema.relations] == [("term", "start", "maturity")]

    @pytest.mark.parametrize("ends", ["last", "next"])
    @pytest.mark.parametrize(("unit", "none_such"), [(1, 30), (12, 29)])
    def test_what_becomes_of_a_day_that_a_month_does_not_have(self, ends: Ends, unit: int, none_such: int) -> None:
        frame = loans(6000, (3, 6, 7, 9, 13), ends=ends, unit=unit, seed=1)
        (relation,) = schema_of(frame).relations
        assert relation.ends == ends
        assert relation.words().endswith(f", March 1 for February {none_such}") == (ends == "next")

    @pytest.mark.parametrize("terms", [(3, 6, 12, 24, 60), (5, 7, 10, 15, 20, 30), (1, 3, 5, 10)])
    def test_terms_with_wide_gaps_are_no_codes(self, terms: tuple[int, ...]) -> None:
        schema, notes = infer_schema(from_frame(holed(loans(terms=terms))))
        said = "'maturity' = 'start' + 'term' months"
        assert completed(schema) == [said]
        line = f"column 'term' is taken for numbers, though they are few, as codes are, since {said}"
        assert any(line in note for note in notes)

    @pytest.mark.parametrize("format", ["%Y-%m-%d", "%d/%m/%Y", "%d.%m.%Y", "%Y-%m-%d %H:%M"])
    def test_in_csv(self, tmp_path: Path, format: str) -> None:
        loans().to_csv(tmp_path / "t.csv", index=False, date_format=format)
        assert completed(schema_alone(read_table([tmp_path / "t.csv"]))) == ["'maturity' = 'start' + 'term' months"]

    def test_in_parquet(self, tmp_path: Path) -> None:
        """A date beside a datetime at midnight."""
        frame = loans(days=-1)
        frame.start = frame.start.dt.date
        frame.to_parquet(tmp_path / "t.parquet")
        schema = schema_alone(read_table([tmp_path / "t.parquet"]))
        (relation,) = schema.relations
        assert (relation.ends, relation.constant) == ("last", -1)
        assert [count for count, _ in relation.dates] == ["D", "s"]
        assert Schema.from_json(schema.to_json()) == schema
        assert checked("schema", schema.to_json())["relations"]

    def test_it_is_said_of_days_from_which_years_would_follow_by_rounding(self) -> None:
        """A day less than whole years is as near to these as 365.25 days each are."""
        schema = schema_of(loans(terms=(1, 2, 3, 5), days=-1, unit=12))
        assert completed(schema) == ["'maturity' = 'start' + 'term' years - 1 day"]

    def test_of_two_dates_the_one_is_said_that_is_no_days_apart(self) -> None:
        frame = loans()
        frame.insert(0, "signed", frame.start - pd.Timedelta(days=10))
        schema = schema_of(frame)
        assert completed(schema) == ["'maturity' = 'start' + 'term' months"]

    def test_one_row_with_another_day_is_named_and_several_are_enough_to_say_nothing(self) -> None:
        frame = loans()
        frame.loc[7, "maturity"] += pd.Timedelta(days=1)
        assert [one.but for one in schema_of(frame).relations if one.ends] == [1]
        frame.loc[frame.index % 30 == 7, "maturity"] += pd.Timedelta(days=1)
        assert not any(one.ends for one in schema_of(frame).relations)

    def test_of_few_rows_or_terms_nothing_is_said(self) -> None:
        assert any(one.ends for one in schema_of(loans(20)).relations)
        for frame in (loans(19), loans(terms=(12, 24))):
            assert not any(one.ends for one in schema_of(frame).relations)

    def test_times_are_no_days(self) -> None:
        frame = loans()
        frame.start += pd.to_timedelta(np.random.default_rng(0).integers(0, 1_440, len(frame)), "min")
        assert not any(one.ends for one in schema_of(frame).relations)

    @pytest.mark.parametrize("seeds", first(1, [range(4), range(4, 12)]))
    def test_by_chance_none_is_found(self, seeds: range) -> None:
        for seed in seeds:
            frame = loans(60, seed=seed)
            shuffled = frame.assign(term=np.random.default_rng(seed).permutation(frame.term))
            assert not any(one.ends for one in schema_of(shuffled).relations)


class TestKept:
    @given(st.integers(0, 2**31), st.floats(0.05, 0.95), ENDS, st.sampled_from([0, -1]))
    @settings(max_examples=10, deadline=None)
    def test_under_any_mask(self, seed: int, share: float, ends: Ends, days: int) -> None:
        frame = loans(days=days, ends=ends)
        schema = schema_of(frame)
        assert any(one.ends for one in schema.relations)
        true = codes_in(frame, schema)
        filled(schema, true, np.random.default_rng(seed).random(true.shape) < share)

    @pytest.mark.parametrize("hidden", ["term", "start", "maturity"])
    @pytest.mark.parametrize("kind", ["date", "datetime"])
    @pytest.mark.parametrize("days", [0, -1])
    def test_each_is_filled_from_the_other_two(self, hidden: str, kind: str, days: int) -> None:
        frame = loans(1000, days=days)
        table = frame if kind == "datetime" else frame.assign(**{n: frame[n].dt.date for n in ("start", "maturity")})
        schema = schema_of(table)
        true = codes_in(table, schema)
        draws = filled(schema, true, hiding(true, schema, hidden))
        at = schema.modelled.index(hidden)
        same = draws[..., at] == true[None, :, at]
        if hidden == "start":  # of a last day of February some are as right
            assert same[:, (frame.maturity + pd.Timedelta(days=-days)).dt.day < 28].all()
            assert same.mean() > 0.98
        else:
            assert same.all()

    @pytest.mark.parametrize(
        "hidden", [("term", "start"), ("term", "maturity"), ("start", "maturity"), ("term", "start", "maturity")]
    )
    @pytest.mark.parametrize("terms", [TERMS, (1, 2, 3, 5, 7)])
    def test_several_of_them_missing(self, hidden: tuple[str, ...], terms: tuple[int, ...]) -> None:
        """Of months that lack some days, too."""
        frame = loans(1000, terms)
        schema = schema_of(frame)
        true = codes_in(frame, schema)
        filled(schema, true, hiding(true, schema, *hidden))

    def test_within_limits(self) -> None:
        frame = loans()
        schema = infer_schema(from_frame(frame), bounds={"start": "observed", "maturity": "observed"})[0]
        true = codes_in(frame, schema)
        for hidden in (("start",), ("maturity",), ("start", "maturity"), ("term", "start")):
            draws = filled(schema, true, hiding(true, schema, *hidden))
            for name in ("start", "maturity"):
                at = schema.modelled.index(name)
                assert true[:, at].min() <= draws[..., at].min() and draws[..., at].max() <= true[:, at].max()


def test_a_relation_that_does_not_fit_its_columns_is_refused() -> None:
    schema = schema_of(loans(days=-1))
    text = schema.to_json()
    for old, new in (('"ends": "last"', '"ends": null'), ('"span": "month"', '"span": "week"')):
        assert text.count(old) == 1
        with pytest.raises(RunError, match=r"schema.json: damaged \(relations.*the relation does not fit its columns"):
            Schema.from_json(text.replace(old, new))
    raw = json.loads(text)
    raw["relations"][0]["ends"] = "first"
    with pytest.raises(RunError, match=r"schema.json: damaged"):
        Schema.from_json(json.dumps(raw))


def test_fills_and_samples_of_a_run_keep_to_it(tmp_path: Path) -> None:
    import vgi_cli

    frame = loans(300, days=-1)
    run = vgi_cli.fit(holed(frame), out=tmp_path / "run", seed=0)
    tables = [*run.impute(m=2), run.sample(n=200)]
    for table in tables:
        for one in table.itertuples():
            end = later(pd.Timestamp(one.start).date(), int(one.term), "last") - datetime.timedelta(days=1)
            assert pd.Timestamp(one.maturity).date() == end
