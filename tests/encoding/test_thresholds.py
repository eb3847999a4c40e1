"""Numbers below or above which another column has no cell: found, and kept by fills of the column of numbers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import vgi_cli
from vgi_cli.columns.base import Encoding
from vgi_cli.columns.schema import Schema
from vgi_cli.columns.skips import Threshold
from vgi_cli.encoding.check import check
from vgi_cli.encoding.infer import Said, infer_schema, schema_alone
from vgi_cli.encoding.keeping import keep_relations
from vgi_cli.encoding.redundant import kept_to_tell
from vgi_cli.encoding.skips import mask_probability
from vgi_cli.errors import RunError
from vgi_cli.table.frames import from_frame

N = 500


def survey(seed: int = 0) -> pd.DataFrame:
    """Income and hours are asked of adults; height goes with age. Each column has holes at random as well."""
    rng = np.random.default_rng(seed)
    age = rng.integers(5, 80, N)
    frame = pd.DataFrame(
        {
            "age": age.astype(float),
            "height": (100 + 4 * np.minimum(age, 18) + rng.normal(0, 4, N)).round(),
            "income": (1500 + 20 * age + rng.normal(0, 300, N)).round(),
            "hours": rng.integers(10, 45, N).astype(float),
        }
    )
    frame.loc[age < 18, ["income", "hours"]] = np.nan
    return frame.mask(rng.random(frame.shape) < 0.1)


def schema_of(frame: pd.DataFrame, encoding: Encoding = Encoding()) -> Schema:  # noqa: B008 - it is frozen
    return schema_alone(from_frame(frame), Said(encoding=encoding))


def test_they_are_found_and_said() -> None:
    """What goes with the column that decides, height, is none."""
    frame = survey()
    schema = schema_of(frame)
    (one,) = schema.thresholds
    assert (one.name, one.side, one.limit, one.others) == ("age", "below", 18.0, ("income", "hours"))
    asked = frame.age[frame.income.notna() | frame.hours.notna()].dropna()
    assert one.values[0] == 18 and set(one.values) <= set(asked) and len(one.values) == 100
    assert np.mean(one.values) == pytest.approx(asked.mean(), abs=0.5)
    assert "'age' is 18 at least where one of columns 'income', 'hours' is observed" in kept_to_tell(schema)
    assert Schema.from_json(schema.to_json()).thresholds == schema.thresholds
    assert schema_of(frame, Encoding(relations="ignore")).thresholds == ()
    turned = schema_of(frame.assign(age=-frame.age)).thresholds
    assert [(one.name, one.side, one.limit) for one in turned] == [("age", "above", -18.0)]
    days = pd.to_datetime("2020-01-01") + pd.to_timedelta(frame.age, "D")
    (dated,) = schema_of(frame.assign(age=days.dt.strftime("%Y-%m-%d"))).thresholds
    assert (
        dated.words("2020-01-19") == "'age' is 2020-01-19 at least where one of columns 'income', 'hours' is observed"
    )


def test_a_line_names_the_flag() -> None:
    lines = infer_schema(from_frame(survey()))[1]
    (line,) = [line for line in lines if "has no cell" in line or "have no cell" in line]
    rows = int((survey().age < 18).sum())
    assert line.startswith(f"columns 'income', 'hours' have no cell in the {rows} rows where 'age' is below 18, and")
    assert line.endswith(
        "mean nothing (`vgi impute --leave-blank 'income,hours:age<18'` leaves them blank); else they are extrapolated"
        "; if 'age' was derived from which cells are missing (the last visit of somebody who left, say), it tells "
        "nothing else: `--exclude age` leaves it out of the fit"
    )


def test_cells_that_grow_rarer_are_no_threshold() -> None:
    """Holes that depend on a column, however much: the share of cells falls step by step."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        x, y = rng.normal(size=(2, N))
        steep = 1 / (1 + np.exp(rng.choice([1.0, 2.0, 4.0, 8.0]) * x))
        frame = pd.DataFrame({"x": x, "y": np.where(rng.random(N) < steep, y, np.nan)})
        assert schema_of(frame).thresholds == ()


def test_chance_is_none() -> None:
    for seed in range(5):
        rng = np.random.default_rng(seed)
        frame = pd.DataFrame(rng.normal(size=(200, 30)), columns=[f"x{i}" for i in range(30)])
        assert schema_of(frame.mask(rng.random(frame.shape) < 0.45)).thresholds == ()


def test_a_level_that_says_the_same_says_it() -> None:
    frame = survey()
    frame["adult"] = np.where(frame.age.fillna(30) < 18, "no", "yes")
    frame.loc[frame.age.isna() & frame.income.isna() & frame.hours.isna(), "adult"] = None
    schema = schema_of(frame)
    assert [one.name for one in schema.skips] == ["adult"] and schema.thresholds == ()


@pytest.mark.parametrize("seed", range(4))
def test_a_level_that_is_blank_in_the_same_rows_does_not_say_it(seed: int) -> None:
    """Nobody without a dose has a product, and one product has one dose: this explains the blank second dates of the
    few who had it, not those of all who had one dose, though hardly any other of these has a product."""
    rng = np.random.default_rng(seed)
    doses = rng.choice([0.0, 1.0, 2.0], N, p=[0.3, 0.12, 0.58])
    product = rng.choice(["B", "C", "M"], N, p=[0.6, 0.2, 0.2]).astype(object)
    product[(doses == 1) & (rng.random(N) < 0.7)] = "A"
    product[doses == 0] = None
    second = np.where(doses == 2, rng.integers(30, 300, N), np.nan)
    frame = pd.DataFrame({"product": product, "doses": doses, "second": second})
    frame = frame.mask(rng.random(frame.shape) < 0.12)
    found = {(one.name, one.side, one.limit): one.others for one in schema_of(frame).thresholds}
    assert "second" in found["doses", "below", 2.0]


def test_fills_keep_to_them() -> None:
    """As the ages of those that were asked, near the limit where they were near it; all else stays as it is."""
    frame = survey(1)
    schema = schema_of(frame)
    (one,) = schema.thresholds
    rng = np.random.default_rng(1)
    missing = frame.isna().to_numpy()
    draws = rng.integers(5, 80, (50, N, 4)).astype(float)
    before, numbers, zeros = draws.copy(), rng.random((50, N)), np.zeros((N, 4))
    assert keep_relations(draws, zeros, missing, schema, uniform=lambda name: numbers).count() == 0
    wrong = missing[:, 0] & ~missing[:, 2:].all(1) & (before[..., 0] < 18)
    assert wrong.sum() > 300
    beyond, values = 18 - before[wrong][:, 0], np.array(one.values)
    assert (draws[wrong][:, 0] <= 18 + 2 * beyond).all() and set(draws[wrong][:, 0]) <= set(one.values)
    for away in (1, 5, 13):
        near, drawn = values[values <= 18 + 2 * away], draws[wrong][beyond == away, 0]
        assert drawn.mean() == pytest.approx(near.mean(), abs=4 * near.std() / len(drawn) ** 0.5)
    draws[wrong, 0] = before[wrong, 0]
    np.testing.assert_array_equal(draws, before)


def test_a_number_is_likelier_where_the_question_was_not_answered(tmp_path: Path) -> None:
    """Under 18 nobody is asked: where no answer is, an age is under 18 much more often than elsewhere."""
    frame = survey(4)
    schema = schema_of(frame)
    (one,) = schema.thresholds
    (said,) = schema.unasked
    adults = frame.age >= 18
    blank = frame[["income", "hours"]].isna().all(axis=1)
    assert said.others == one.others and said.blank[0] >= ((blank & adults).sum() + 0.5) / (adults.sum() + 1)
    assert said.blank[0] < 0.2
    x = np.stack([column.encode(np.array([12.0, 30.0]), None)[:, 0] for column in schema.encoded[:1]], 1)
    x = np.concatenate([x, np.zeros((2, 3))], 1)[:, None].repeat(3, 1)
    missing = np.zeros((3, 4), bool)
    missing[1:, 0] = missing[2, 2:] = True
    np.testing.assert_allclose(mask_probability(x, missing, schema, blanks=True), [[1, 0, 1], [1, 1, said.blank[0]]])
    shares = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        age = rng.integers(5, 80, 1000).astype(float)
        whole = pd.DataFrame({"age": age, "height": (100 + 4 * np.minimum(age, 18) + rng.normal(0, 12, 1000)).round()})
        whole["income"] = np.where(
            (age < 18) | (rng.random(1000) < 0.1), np.nan, (1500 + rng.normal(0, 300, 1000)).round()
        )
        whole.loc[rng.random(1000) < 0.25, "age"] = np.nan
        settings = {"model.components": 2, "bootstrap": "none"}
        run = vgi_cli.fit(whole, model="mixture", set=settings, out=tmp_path / str(seed), seed=seed)
        shares.append(np.mean([(filled.age < 18).mean() for filled in run.impute(m=10)]) - (age < 18).mean())
    assert abs(np.mean(shares)) < 0.012


def test_two_that_leave_no_number_are_counted() -> None:
    """`a` is asked below 0 alone, `b` above it: no row has both."""
    rng = np.random.default_rng(2)
    x, a, b = rng.normal(size=(3, N))
    frame = pd.DataFrame({"x": x, "a": np.where(x < 0, a, np.nan), "b": np.where(x >= 0, b, np.nan)})
    schema = schema_of(frame)
    assert [(one.side, one.others) for one in schema.thresholds] == [("above", ("a",)), ("below", ("b",))]
    missing = np.zeros((3, 3), bool)
    missing[:, 0], missing[1, 1], missing[2, 2] = True, True, True
    draws, numbers = rng.normal(size=(4, 3, 3)), rng.random((4, 3))
    apart = keep_relations(draws, np.zeros((3, 3)), missing, schema, uniform=lambda name: numbers)
    assert apart.count() == 4  # the first row
    assert (draws[:, 1, 0] > 0).all() and (draws[:, 2, 0] < 0).all()


def test_rows_of_a_new_table_that_contradict_are_counted() -> None:
    schema = schema_of(survey())
    new = survey(5)
    new.loc[:2, ["age", "income"]] = 12.0, 900.0
    (line,) = [note for note in check(from_frame(new), schema) if "in every row of the fit" in note]
    assert "'age' is 18 at least" in line and "3 rows of" in line


@pytest.mark.parametrize(
    "spoiled",
    [
        {"name": "town"},
        {"others": ["unknown"]},
        {"others": []},
        {"side": "left"},
        {"limit": 30.0},
        {"values": [2.0, 1.0]},
    ],
)
def test_thresholds_that_do_not_fit_are_refused(spoiled: dict[str, object]) -> None:
    frame = survey().assign(town=np.random.default_rng(0).choice(["u", "v"], N))
    raw = json.loads(schema_of(frame).to_json())
    raw["thresholds"][0] |= spoiled
    with pytest.raises(RunError, match=r"schema\.json"):
        Schema.from_json(json.dumps(raw))


def test_a_threshold_needs_other_columns() -> None:
    with pytest.raises(ValueError, match="do not fit together"):
        Threshold("a", "below", 0.0, ("a",), (0.0,))


def test_a_filled_survey_contradicts_nobody(tmp_path: Path) -> None:
    frame = survey(3)
    run = vgi_cli.fit(frame, model="mixture", set={"bootstrap": "none", "model.components": 1}, out=tmp_path / "run")
    asked = frame.age.isna() & (frame.income.notna() | frame.hours.notna())
    assert asked.sum() > 20
    for filled in run.impute(frame, m=3):
        assert (filled.age[asked] >= 18).all() and (filled.age < 18).any()


def test_beside_one_number_the_next_one_is_the_limit() -> None:
    """Who has no children has none whose age is known; that nobody was seen with one or two does not say that these
    are not asked."""
    rng = np.random.default_rng(4)
    children = np.where(rng.random(N) < 0.4, 0, rng.integers(3, 9, N))
    frame = pd.DataFrame({"children": children, "youngest": rng.integers(0, 18, N).astype(float)})
    frame.loc[children == 0, "youngest"] = np.nan
    (one,) = schema_of(frame.assign(other=rng.normal(size=N))).thresholds
    assert (one.name, one.limit, one.values[0]) == ("children", 1.0, 3.0)
    schema = schema_of(frame)
    codes = np.array([[0.0, 5.0]] * 200)
    missing = np.array([[True, False]] * 200)
    draws = codes[None].copy()
    draws[0, 100:, 0] = 1.0
    keep_relations(draws, codes, missing, schema, lambda name: rng.random((1, 200)))
    assert set(draws[0, :100, 0]) <= set(range(3, 9)) and (draws[0, 100:, 0] == 1).all()
