"""What holds in all rows but a few is kept to, with these rows named; not what is only nearly so by its nature."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from tests.encoding.test_relations import hidden, holed, kept
from vgi_cli.columns.orders import Order
from vgi_cli.columns.schema import Schema
from vgi_cli.encoding.check import check
from vgi_cli.encoding.infer import infer_schema, schema_alone
from vgi_cli.encoding.nearly import counted
from vgi_cli.encoding.redundant import every_kept, half_digit
from vgi_cli.encoding.relations import departing
from vgi_cli.table.frames import from_frame
from vgi_cli.table.some_rows import SomeRows

N = 600
ROWS = (17, 120, 200)
"""In which cells are wrong."""


def frame(seed: int = 5) -> pd.DataFrame:
    """Loans, patients and matches in one table."""
    rng = np.random.default_rng(seed)
    start = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 700, N), "D")
    term, city = rng.choice([6, 12, 24, 36], N), rng.choice(list("abcdefghij"), N)
    income, age = np.round(np.exp(rng.normal(10, 0.6, N))), rng.integers(1, 90, N)
    return pd.DataFrame(
        {
            "start": start,
            "term": term,
            "maturity": [day + pd.DateOffset(months=int(months)) for day, months in zip(start, term, strict=True)],
            "renewal": start + pd.to_timedelta(364 + rng.integers(0, 2, N), "D"),
            "closed": start + pd.to_timedelta(rng.integers(1, 40, N), "D"),
            "year": start.year,
            "city": city,
            "region": pd.Series(city).map(dict(zip("abcdefghij", "nnnssseeww", strict=True))),
            "income": income,
            "topcoded": np.minimum(income, 40_000),
            "age": age,
            "group": np.select([age < 18, age < 40, age < 65], ["child", "young", "middle"], "old"),
        }
    )


SPOILED: dict[str, tuple[tuple[str, ...], Callable[[pd.DataFrame], object], str]] = {
    "a date and months": (
        ("start", "term", "maturity"),
        lambda f: f.maturity + pd.Timedelta("9D"),
        "'maturity' = 'start' + 'term' months",
    ),
    "to the day": (
        ("start", "renewal"),
        lambda f: f.start + pd.Timedelta("250D"),
        "'renewal' is as far from 'start' as was seen",
    ),
    "an order": (("start", "closed"), lambda f: f.start - pd.Timedelta("30D"), "'start' < 'closed'"),
    "a part": (("start", "year"), lambda f: f.year + 1, "'year' follows from 'start'"),
    "groups": (
        ("city", "region"),
        lambda f: f.region.map({"n": "s", "s": "e", "e": "w", "w": "n"}),
        "'region' follows from 'city'",
    ),
    "a cap": (("income", "topcoded"), lambda f: f.topcoded / 2, "'topcoded' = 'income', at most 40000"),
    "bands": (
        ("age", "group"),
        lambda f: f.group.where(f.age < 40, "child").where(f.age >= 40, "old"),
        "'group' follows from 'age'",
    ),
}


def spoiled(what: str, rows: tuple[int, ...]) -> pd.DataFrame:
    """The columns of one thing that holds between them, which some rows contradict."""
    names, wrong, _ = SPOILED[what]
    own = frame()[[*names]]
    last = names[-1]
    values = pd.Series(wrong(frame())).astype(own[last].dtype)
    own[last] = own[last].where(~own.index.isin(rows), values)
    return own.assign(x=np.random.default_rng(1).normal(size=N).round(2))


def sparse(own: pd.DataFrame, rows: tuple[int, ...]) -> pd.DataFrame:
    """With holes, but for some rows."""
    holes = holed(own, share=0.15)
    return pd.concat([holes.drop(index=[*rows]), own.loc[[*rows]]]).sort_index()


@pytest.mark.parametrize("what", SPOILED)
@pytest.mark.parametrize("rows", [ROWS[:1], ROWS])
def test_what_a_few_rows_contradict_is_kept_to_and_these_are_named(what: str, rows: tuple[int, ...]) -> None:
    schema, notes = infer_schema(from_frame(sparse(spoiled(what, rows), rows)))
    words = SPOILED[what][2]
    if what == "a part" and len(rows) > 1:
        words = "'year' is the year of 'start'"  # three years occur
    count = f"{len(rows)} row{'s' * (len(rows) > 1)}"
    assert f"{words} (but for {count})" in every_kept(schema)
    (line,) = [note for note in notes if note.startswith(f"{words}, in ")]
    assert all(f"row {row + 1} (" in line for row in rows) and line.count("row ") == len(rows)
    assert "fills keep to this; where a cell there is wrong, mend it or make it missing" in line
    assert Schema.from_json(schema.to_json()) == schema
    without = schema_alone(from_frame(sparse(spoiled(what, ()), rows)))
    assert SPOILED[what][2] in every_kept(without) and '"but"' not in without.to_json()


@pytest.mark.parametrize("what", SPOILED)
def test_fills_keep_to_it_and_rows_that_contradict_it_stay(what: str) -> None:
    own = spoiled(what, ROWS)
    schema = schema_alone(from_frame(sparse(own, ROWS)))
    holes = hidden(own, SPOILED[what][0][-1])
    holes.loc[[*ROWS]] = False
    (one,) = [one for one in (*schema.relations, *schema.orders) if one.but]
    for filled in kept(own, holes, schema):
        if isinstance(one, Order):
            off = (filled[one.low] > filled[one.high] + one.shift).to_numpy()
        else:
            first = next(column for column in schema.encoded if column.name == one.names[0])
            off = departing(one, filled[[*one.names]].to_numpy(), half_digit(first))
        assert tuple(np.flatnonzero(off)) == ROWS


@pytest.mark.parametrize("what", SPOILED)
def test_more_than_a_few_rows_are_no_mistakes(what: str) -> None:
    rows = tuple(range(3, N, 30))
    assert not [words for words in every_kept(schema_alone(from_frame(spoiled(what, rows)))) if "but for" in words]


@pytest.mark.parametrize("seed", range(4))
def test_what_is_only_nearly_so_accuses_nobody(seed: int) -> None:
    """Tails of what is mostly greater, a rule with noise at its cut, counts that are seldom large, flags that are
    mostly one, a score by another name in most rows."""
    rng = np.random.default_rng(seed)
    own = pd.DataFrame({"he": rng.normal(64, 5, N).round(1), "age": rng.integers(20, 80, N)})
    own["she"] = (own.he + rng.normal(5, 2, N)).round(1)
    own["old"] = np.where(own.age + rng.normal(0, 0.3, N) > 50, "old", "young")
    own["day"] = pd.Timestamp("2023-01-01") + pd.to_timedelta(rng.integers(0, 700, N), "D")
    own["later"] = own.day + pd.to_timedelta(rng.poisson(1.2, N), "D")
    own["grade"] = rng.integers(1, 6, N)
    own["passed"] = np.where(rng.random(N) < 0.98, np.where(own.grade < 5, "yes", "no"), "yes")
    _, notes = infer_schema(from_frame(own))
    assert not [note for note in notes if "but not in row" in note]


def test_rows_that_a_third_column_explains_are_no_mistakes() -> None:
    """What was cancelled has no total."""
    rng = np.random.default_rng(3)
    own = pd.DataFrame({"start": frame().start, "closed": frame().closed})
    own["state"] = np.where(own.index.isin(ROWS), "cancelled", rng.choice(["open", "done"], N))
    own.loc[[*ROWS], "closed"] = own.start[[*ROWS]] - pd.Timedelta("30D")
    assert not [words for words in every_kept(schema_alone(from_frame(own))) if "'closed'" in words]
    own["state"] = rng.choice(["open", "done"], N)
    assert "'start' < 'closed' (but for 3 rows)" in every_kept(schema_alone(from_frame(own)))


def test_some_rows_of_a_table_are_a_table() -> None:
    own = holed(frame(), share=0.2)
    own["note"] = [f"n{i}" for i in range(N)]
    rows = np.array([3, 5, 8, 400, 401])
    whole = from_frame(own)
    some, same = SomeRows(whole, rows), from_frame(own.iloc[rows].reset_index(drop=True))
    assert some.N == 5 and some.where(3) == whole.where(400)
    for column in schema_alone(whole).encoded:
        a, b = column.codes(some.column(column.name)), column.codes(same.column(column.name))
        missing = same.missing(column.name)
        assert np.array_equal(some.missing(column.name), missing)
        assert np.array_equal(np.where(missing, 0, a), np.where(missing, 0, b))
    assert some.text("note").tolist() == [f"n{row}" for row in rows]
    bare = some.without({"year": np.ones(5, bool), "city": np.ones(5, bool)})
    assert bare.missing("year").all() and np.isnan(bare.numeric("year")).all()
    assert (bare.column("city").distinct.places == -1).all() and not some.missing("year").all()


def test_the_rows_of_the_fit_are_not_said_again_of_its_table_but_those_of_a_new_one_are() -> None:
    own = spoiled("to the day", ROWS)
    schema = schema_alone(from_frame(own))

    def said(rows: pd.DataFrame) -> list[str]:
        return [note for note in check(from_frame(rows), schema) if "fills keep to it all the same" in note]

    assert not said(own)
    other = own.copy()
    other.loc[[1, 2], "renewal"] += pd.Timedelta("90D")
    (line,) = said(other)
    words = "'renewal' is as far from 'start' as was seen (but for 3 rows) in every row of the fit; 5 rows of"
    assert line.startswith(words)


@pytest.mark.parametrize("count", [1, 4])
def test_cells_of_a_question_that_a_few_rows_answer_though_it_was_not_theirs(count: int) -> None:
    rng = np.random.default_rng(3)
    smoker = rng.choice(["no", "yes"], N)
    cigarettes = np.where(smoker == "yes", rng.integers(1, 40, N).astype(float), np.nan)
    rows = np.flatnonzero(smoker == "no")[:count]
    cigarettes[rows] = 7
    own = pd.DataFrame({"smoker": smoker, "cigarettes": cigarettes, "x": rng.normal(size=N).round(2)})
    table = from_frame(own)
    schema, notes = infer_schema(table)
    words, no = "'smoker' is not 'no' where 'cigarettes' is observed", int((smoker == "no").sum())
    assert f"{words} (but for {count} row{'s' * (count > 1)})" in every_kept(schema)
    line, bare = (
        next(note for note in notes if note.startswith(start)) for start in (words, "column 'cigarettes' has")
    )
    assert line.startswith(f"{words}, in {no - count} of the {no} rows that have 'no', but not in row {rows[0] + 1} (")
    assert "('smoker' is no, 'cigarettes' is 7)" in line and f"no cell in {no - count} of the {no} rows where" in bare
    assert Schema.from_json(schema.to_json()) == schema and not [
        note for note in check(table, schema) if "depart" in note
    ]
    own.loc[own.smoker == "no", "cigarettes"] = np.where(rng.random(no) < 0.1, 7, np.nan)
    assert not [words for words in every_kept(schema_alone(from_frame(own))) if "'cigarettes'" in words]


@pytest.mark.parametrize("what", ["a date and months", "to the day", "groups", "a cap", "bands"])
def test_in_few_rows_all_but_those_of_a_part_say_it(what: str) -> None:
    """Each third of 50 rows is too few for that."""
    own = spoiled(what, ROWS[:1]).head(50)
    assert f"{SPOILED[what][2]} (but for 1 row)" in every_kept(schema_alone(from_frame(own)))


def test_what_more_than_a_few_rows_contradict_after_all_is_not_said() -> None:
    schema = schema_alone(from_frame(spoiled("an order", ())))
    rows = tuple(range(3, N, 30))
    assert [one.but for one in counted(from_frame(spoiled("an order", ROWS)), schema).orders] == [3]
    assert counted(from_frame(spoiled("an order", rows)), schema).orders == ()
