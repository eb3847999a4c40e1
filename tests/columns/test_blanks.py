"""What `--leave-blank` says: which columns, of which other one, compared with what."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from vgi_cli.columns.blanks import read_blanks
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
