"""What `--leave-blank` says: which columns, of which other one, compared with what."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest

from vgi_cli.columns.blanks import read_blanks, take_back
from vgi_cli.columns.schema import Schema
from vgi_cli.encoding.infer import infer_schema
from vgi_cli.errors import UsageError
from vgi_cli.table.frames import from_frame

N = 60


def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "smoke": rng.choice(["no", "yes", "a=b"], N),
            "age": rng.integers(10, 80, N),
            "a:b": rng.normal(size=N),
            "x,y": rng.normal(size=N),
            "dose>1": rng.normal(size=N),
            "grade": rng.choice(["low", "mid", "high"], N),
            "day": pd.Series(pd.date_range("2020-01-01", periods=N)).dt.strftime("%d/%m/%Y"),
            "cost": [f"${i},{j:03}.50" for i, j in zip(rng.integers(1, 9, N), rng.integers(0, 999, N), strict=True)],
            "note": [f"free text {i}, of its own" for i in range(N)],
            "town": rng.choice([f"t{i}" for i in range(70)], N),
        }
    )


@pytest.fixture(scope="module")
def schema() -> Schema:
    kinds = {"grade": "ordinal:low,mid,high", "town": "categorical"}
    return infer_schema(from_frame(frame()), kinds=kinds)[0]


@pytest.mark.parametrize(
    ("said", "columns", "other", "relation", "value"),
    [
        ("age:smoke=no", ["age"], "smoke", "=", "no"),
        ("age:smoke!=no", ["age"], "smoke", "!=", "no"),
        ("age: smoke = no", ["age"], "smoke", "=", "no"),
        ("age:smoke=a=b", ["age"], "smoke", "=", "a=b"),
        ("age,smoke:a:b<0.5", ["age", "smoke"], "a:b", "<", 0.5),
        ("a:b:age>=18", ["a:b"], "age", ">=", 18.0),
        ("x,y:age<=18", ["x,y"], "age", "<=", 18.0),
        ('"x,y", a:b:age>18', ["x,y", "a:b"], "age", ">", 18.0),
        ("age:dose>1>2", ["age"], "dose>1", ">", 2.0),
        ("age:grade<mid", ["age"], "grade", "<", "mid"),
        ("age:cost<$2,000.00", ["age"], "cost", "<", 2000.0),
        ("age:cost<2000", ["age"], "cost", "<", 2000.0),
        ("age:day>=10/01/2020", ["age"], "day", ">=", 9.0),
        ("age:day>=2020-01-10", ["age"], "day", ">=", 9.0),
    ],
)
def test_a_rule_is_read(
    schema: Schema, said: str, columns: list[str], other: str, relation: str, value: str | float
) -> None:
    (one,) = read_blanks([said], schema)
    assert one.said == said and one.relation == relation
    assert [schema.modelled[column] for column in one.columns] == columns
    assert schema.modelled[one.other] == other
    column = schema.encoded[one.other]
    assert column.spell(np.array([one.code]), None)[0] == value if isinstance(value, str) else one.code == value


@pytest.mark.parametrize(
    ("relation", "held"),
    [
        ("<", [True, False, False]),
        ("<=", [True, True, False]),
        (">", [False, False, True]),
        (">=", [False, True, True]),
        ("=", [False, True, False]),
        ("!=", [True, False, True]),
    ],
)
def test_relations_compare_codes(schema: Schema, relation: str, held: list[bool]) -> None:
    (one,) = read_blanks([f"smoke:age{relation}20"], schema)
    assert one.holds(np.array([19.0, 20.0, 21.0])).tolist() == held


@pytest.mark.parametrize(
    ("said", "message", "hint"),
    [
        ("age", "expected COL:OTHER=LEVEL or COL:OTHER<NUMBER, got 'age'", "for example"),
        ("age:smoke", "expected COL:OTHER=LEVEL or COL:OTHER<NUMBER, got 'age:smoke'", "for example"),
        ("age<3:smoke", "expected COL:OTHER=LEVEL or COL:OTHER<NUMBER, got 'age<3:smoke'", "for example"),
        ("ages:smoke=no", "column 'ages' is none of the run", "did you mean 'age'?"),
        ("note:smoke=no", "column 'note' is not modelled", "expected one of"),
        ("age:smokes=no", "column 'smokes' is none of the run", "did you mean 'smoke'?"),
        ("age:smoke=maybe", "'smoke' has no level 'maybe'", "expected one of: a=b, no, yes"),
        ("age:smoke<no", "the levels of column 'smoke' have no order", "compare them with = or !="),
        ("age:age<3", "column 'age' decides about its own holes", "name another column"),
        ("smoke:age<old", "column 'age' holds no value like 'old'", "it has whole numbers, 1"),
        ("smoke:age<nan", "column 'age' holds no value like 'nan'", "it has whole numbers, 1"),
        ("smoke:day<soon", "column 'day' holds no value like 'soon'", "it has 01/01/2020 to 29/02/2020"),
    ],
)
def test_what_means_nothing_is_refused(schema: Schema, said: str, message: str, hint: str) -> None:
    with pytest.raises(UsageError) as error:
        read_blanks([said], schema)
    assert str(error.value).startswith("--leave-blank") and message in str(error.value)
    assert error.value.hint is not None and hint in error.value.hint


def test_rare_levels_cannot_decide() -> None:
    levels = ["big"] * 400 + [f"t{i}" for i in range(60)]
    pooled = pd.DataFrame({"town": levels, "x": np.arange(460.0) % 7})
    schema = infer_schema(from_frame(pooled), kinds={"town": "categorical"})[0]
    assert read_blanks(["x:town=big"], schema)[0].relation == "="
    with pytest.raises(UsageError, match=r"'t7' is one of .* rare levels that are drawn as one"):
        read_blanks(["x:town=t7"], schema)


CHAIN = ["now:ever=no", "cigs:now=no", "brand:cigs<5"]


@pytest.mark.parametrize("order", list(itertools.permutations(CHAIN)))
def test_what_hangs_on_a_column_that_stays_blank_stays_too(order: tuple[str, ...]) -> None:
    cells = {
        "ever": ["yes", "no"] * 20,
        "now": ["yes", "no"] * 20,
        "cigs": np.arange(40) % 9 + 1,
        "brand": ["u", "v"] * 20,
    }
    schema = infer_schema(from_frame(pd.DataFrame(cells)), kinds={"cigs": "integer"})[0]
    no, yes = 0.0, 1.0
    observed = np.array([[no, 0, 0, 0], [yes, no, 0, 0], [yes, yes, 3, 0], [yes, yes, 7, 0], [0, 0, 0, 0]])
    missing = np.array([[0, 1, 1, 1], [0, 0, 1, 1], [0, 0, 0, 1], [0, 0, 0, 1], [1, 1, 1, 1]], bool)
    draws = np.stack([np.where(missing, fills, observed) for fills in ([yes, yes, 9.0, 1.0], [no, yes, 9.0, 1.0])])
    whole = draws.copy()
    counts = take_back(read_blanks(order, schema), draws, observed, missing, schema)
    blank = np.zeros(draws.shape, bool)
    blank[:, 0, 1:] = blank[:, 1, 2:] = blank[:, 2, 3] = True  # of who never smoked all three, and so on
    blank[1, 4, 1:] = True  # who is drawn as such
    np.testing.assert_array_equal(np.isnan(draws), blank)
    np.testing.assert_array_equal(draws[~blank], whole[~blank])
    assert dict(zip(order, counts.tolist(), strict=False)) == dict(zip(CHAIN, ([1, 2], [2, 3], [3, 4]), strict=True))
    assert counts[-1].tolist() == [6, 9]


@pytest.mark.parametrize("said", ["0,5", "0.5", " 0,50 "])
def test_numbers_have_the_decimal_mark_of_their_table(schema: Schema, said: str) -> None:
    (one,) = read_blanks([f"smoke:a:b<{said}"], schema, ",")
    assert one.code == 0.5
    for wrong in ("1.000,5", "0,5,5"):
        with pytest.raises(UsageError, match=f"column 'a:b' holds no value like '{wrong}'"):
            read_blanks([f"smoke:a:b<{wrong}"], schema, ",")
    with pytest.raises(UsageError, match="column 'a:b' holds no value like '0,5'"):
        read_blanks(["smoke:a:b<0,5"], schema)
