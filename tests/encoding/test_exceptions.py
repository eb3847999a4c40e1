"""What holds between numbers in all rows but a few is named with these rows, and fills keep to it all the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from tests.selection import first
from vgi_cli.columns.schema import Schema
from vgi_cli.encoding.exceptions import Excepted, excepted_among
from vgi_cli.encoding.infer import infer_schema, schema_alone
from vgi_cli.encoding.redundant import every_kept
from vgi_cli.table.frames import from_frame

N = 500


def workers(n: int = N, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    education, experience = rng.integers(2, 19, n), rng.integers(0, 50, n)
    frame = pd.DataFrame({"wage": rng.gamma(3, 3, n).round(2), "education": education, "experience": experience})
    frame["age"] = education + experience + 6
    return frame


def found(frame: pd.DataFrame) -> tuple[list[Excepted], list[str], Schema]:
    """The relations, the lines of a fit that are not on other things, and the schema."""
    table = from_frame(frame)
    schema, notes = infer_schema(table)
    lines = [note for note in notes if "but not in row" in note or "linear function" in note]
    strict = tuple(one for one in schema.relations if not one.but)
    return excepted_among(table, replace(schema, relations=strict)), lines, schema


def by_chance(frame: pd.DataFrame) -> list[Excepted]:
    """The relations, of a table that has none."""
    table = from_frame(frame)
    return excepted_among(table, schema_alone(table))


def test_a_sum_that_one_row_breaks_is_named_with_it() -> None:
    frame = workers()
    frame.loc[170, "age"] += 4
    _, lines, schema = found(frame)
    assert lines == [
        "'age' = 'education' + 'experience' + 6, in 499 of the 500 rows that have all of these, but not in row 171 "
        f"('age' is {frame.age[170]}, not {frame.age[170] - 4}): fills keep to this; where a cell there is wrong, mend "
        "it or make it missing"
    ]
    assert [(one.names, one.but) for one in schema.relations] == [(("age", "education", "experience"), 1)]
    assert "'age' = 'education' + 'experience' + 6 (but for 1 row)" in every_kept(schema)


def test_when_the_cell_is_missing_fills_keep_to_it() -> None:
    frame = workers().astype({"age": "Int64"})
    frame.loc[170, "age"] = pd.NA
    excepted, lines, schema = found(frame)
    assert excepted == [] and lines == [] and [one.names[0] for one in schema.relations] == ["age"]


def test_a_cell_that_is_far_off_does_not_hide_it() -> None:
    """Its square is most of what least squares see."""
    frame = workers()
    frame.loc[[10, 400], "age"] = [99_999, 5_000]
    (one,), lines, _ = found(frame)
    assert one.rows == (10, 400) and one.of == N and len(lines) == 1
    assert "but not in row 11 ('age' is 99999, not " in lines[0] and " and row 401 ('age' is 5000, not " in lines[0]


def test_products_lines_and_rounded_ones() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"price": rng.gamma(9, 5, N).round(2), "count": rng.integers(1, 90, N)})
    frame["asleep"] = rng.normal(9, 3, N).round(1)
    frame["paid"], frame["awake"] = (frame.price * frame["count"]).round(0), (24 - frame.asleep).round(1)
    frame.loc[3, "paid"] += 100
    frame.loc[7, "awake"] += 0.1
    frame.loc[9, "asleep"] = np.nan
    excepted, lines, _ = found(frame)
    assert [(one.rows, one.of) for one in excepted] == [((3,), N), ((7,), N - 1)]
    assert lines[0].startswith("'paid' = 'price' × 'count', rounded, in 499 of the 500 rows")
    assert lines[1].startswith("'awake' = 24 - 'asleep', in 498 of the 499 rows")


def test_a_sum_of_which_all_are_rounded() -> None:
    """A real rate is the nominal one less inflation, but in the first row, of which nothing was known."""
    rng = np.random.default_rng(2)
    bill, inflation = rng.gamma(4, 1.3, N), rng.normal(4, 3, N)
    frame = pd.DataFrame({"bill": bill.round(2), "inflation": inflation.round(2), "real": (bill - inflation).round(2)})
    frame.loc[0, "real"] += 3
    (one,), lines, schema = found(frame)
    assert one.rows == (0,) and len(lines) == 1 and "as all are rounded, in 499 of the 500 rows" in lines[0]
    assert [(relation.slack > 0, relation.but) for relation in schema.relations] == [(True, 1)]


@pytest.mark.parametrize(("slip", "said"), [(81.23, "81.23"), (0.66, "0.66"), (66.1, "66.1")])
def test_one_cell_with_more_decimals_hides_no_rounded_share(slip: float, said: str) -> None:
    rng = np.random.default_rng(5)
    value = 1000 * rng.integers(90, 600, N)
    loan = (100 * np.rint(value * rng.uniform(0.2, 0.9, N) / 100)).astype(int)
    loan[7], value[7] = 81900, 306000
    frame = pd.DataFrame({"loan": loan, "value": value, "percent": (100 * loan / value).round(1)})
    frame.loc[7, "percent"] = slip
    _, lines, schema = found(frame)
    assert lines == [
        "'percent' = 100 × 'loan' / 'value', rounded, in 499 of the 500 rows that have all of these, but not in row 8 "
        f"('percent' is {said}, not 26.8): fills keep to this; where a cell there is wrong, mend it or make it missing"
    ]
    percent = schema.encoded[schema.modelled.index("percent")]
    assert percent.spell(percent.snap(np.array([26.7647])), None) == ["26.8"]


def test_ages_by_the_calendar_accuse_nobody() -> None:
    """Completed years are not days in years of one length: what departs by one may be right."""
    rng = np.random.default_rng(3)
    birth = pd.Timestamp("1930-01-01") + pd.to_timedelta(rng.integers(0, 25_000, 300), "D")
    seen = pd.Timestamp("2022-01-01") + pd.to_timedelta(rng.integers(0, 1_000, 300), "D")
    before = np.array([(s.month, s.day) < (b.month, b.day) for b, s in zip(birth, seen, strict=True)])
    frame = pd.DataFrame({"birth": birth, "seen": seen, "age": seen.year - birth.year - before})
    assert found(frame)[0] == []
    years = frame.assign(birth=birth.year, seen=seen.year).assign(age=lambda f: f.seen - f.birth)
    years.loc[7, "age"] += 1
    assert len(found(years)[0]) == 1  # whole numbers of years are told


def test_more_than_a_few_rows_are_no_exceptions() -> None:
    for off in (6, 25):
        frame = workers()
        frame.loc[: off - 1, "age"] += 4
        assert found(frame)[0] == []
    small = workers(83)
    small.loc[[3, 70], "age"] += 4
    assert [one.rows for one in found(small)[0]] == [(3, 70)]
    small.loc[20, "age"] += 4
    assert found(small)[0] == []


@pytest.mark.parametrize("seeds", first(1, [range(8), range(8, 20)]))
def test_columns_of_rare_values_agree_by_chance(seeds: range) -> None:
    for seed in seeds:
        rng = np.random.default_rng(seed)
        frame = pd.DataFrame({f"x{i}": np.where(rng.random(N) < 0.01, rng.integers(1, 4, N), 0) for i in range(6)})
        frame["y"] = rng.normal(size=N).round(1)
        assert by_chance(frame) == []


@pytest.mark.parametrize("seeds", first(1, [range(4), range(4, 10)]))
def test_random_tables_have_none(seeds: range) -> None:
    for seed in seeds:
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(N, 6)) @ rng.normal(size=(6, 6))
        frame = pd.DataFrame(x.round(seed % 4), columns=list("abcdef"))
        frame["g"] = (frame.a + frame.b + 0.02 * rng.normal(size=N)).round(2)
        assert by_chance(frame) == []


def test_nearly_a_line_by_few_far_rows_alone_is_not_said() -> None:
    """Sizes of towns: the large ones decide the correlation, and of most the other number is anything."""
    rng = np.random.default_rng(0)
    people = np.exp(rng.normal(9, 1.6, N)).astype(int)
    people[:3] = [9_000_000, 6_000_000, 3_000_000]
    frame = pd.DataFrame({"people": people, "adults": (people * rng.uniform(0.48, 0.76, N)).astype(int)})
    frame.loc[:2, "adults"] = (people[:3] * 0.63).astype(int)
    assert np.corrcoef(frame.people, frame.adults)[0, 1] > 0.9998
    assert found(frame)[1] == []
    near = pd.DataFrame({"a": rng.normal(size=N)})
    near["b"] = near.a + 0.005 * rng.normal(size=N)
    assert len(found(near)[1]) == 1


def gains(seed: int) -> pd.DataFrame:
    """A gain a day is a difference divided by 365; with three digits of that some rows would be off by one."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"born": rng.uniform(20, 50, 213).round(1), "grown": rng.integers(150, 350, 213)})
    return frame.assign(gain=((frame.grown - frame.born) / 365).round(3))


@pytest.mark.parametrize("seed", range(6))
def test_weights_of_few_digits_accuse_nobody(seed: int) -> None:
    excepted, lines, schema = found(gains(seed))
    assert excepted == [] and lines == [] and [one.names[0] for one in schema.relations] == ["gain"]


def test_nor_do_they_hide_rows_that_are_wrong() -> None:
    """Of a quarter of the rows weights are found in most tables; with them, these two rows and no others."""
    named = []
    for seed in range(6):
        frame = gains(seed)
        frame.loc[[20, 70], "gain"] += 0.1
        named += [one.rows for one in found(frame)[0]]
    assert set(named) == {(20, 70)} and len(named) >= 3


def taxed(seed: int, n: int = N) -> pd.DataFrame:
    """Pay, of which a rounded pension is taken before a rounded tax is computed."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"gross": rng.gamma(9, 300, n).round(2), "band": rng.integers(18, 60, n)})
    tax = (frame.gross * frame.band / 100).round(2)
    frame["tax"] = tax
    frame.loc[[5, 90, 300], "tax"] = (tax + [0.01 if row % 2 else -0.01 for row in range(n)]).round(2)
    return frame


@pytest.mark.parametrize("seed", range(4))
def test_a_rounded_number_that_is_off_by_one_in_its_last_digit_is_no_mistake(seed: int) -> None:
    excepted, lines, _ = found(taxed(seed))
    assert excepted == [] and lines == []


@pytest.mark.parametrize("seed", range(4))
def test_one_that_is_far_off_is_named_and_the_rule_does_not_claim_more_than_it_holds_to(seed: int) -> None:
    frame = taxed(seed)
    frame.loc[7, "tax"] += 20
    (one,), lines, _ = found(frame)
    assert one.rows == (7,) and one.near == 0.01
    start = "'tax' = 0.01 × 'gross' × 'band', rounded, to within 0.01, in 499 of the 500 rows that have all of these, "
    assert len(lines) == 1 and lines[0].startswith(f"{start}but not in row 8 (")


def best_of_two(seed: int, n: int = 200) -> pd.DataFrame:
    """Exams, second ones of who failed the first, and the better one of both: hardly anybody is worse in the second."""
    rng = np.random.default_rng(seed)
    exam = np.clip(np.round(rng.normal(55, 15, n)), 0, 100)
    second = np.where(exam < 50, np.clip(exam + np.round(rng.normal(14, 8, n)), 0, 100), np.nan)
    return pd.DataFrame({"exam": exam, "second": second, "final": np.fmax(exam, second)})


def test_the_better_one_of_two_accuses_nobody() -> None:
    worse = 0
    for seed in range(6):
        frame = best_of_two(seed)
        worse += int((frame.second < frame.exam).sum())
        assert [one.relation.names for one in found(frame)[0]] == []
    assert worse > 5
    for seed in (0, 1, 2, 3, 6, 12, 13):  # each of two is said to be the other one once, where no third one explains it
        assert len(found(best_of_two(seed).drop(columns="exam"))[0]) == 1
    frame = best_of_two(1)
    frame["final"] = frame.second.fillna(frame.exam)  # the second one counts
    frame.loc[frame.second.dropna().index[7], "final"] += 10
    (one,), lines, _ = found(frame)
    assert set(one.relation.names) == {"second", "final"} and len(lines) == 1
    frame["copy"] = frame.final  # it is the same in all rows, so that it explains none
    assert [set(one.relation.names) for one in found(frame)[0]] == [{"second", "final"}]
