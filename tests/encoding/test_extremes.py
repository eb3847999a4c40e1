"""Columns that are the greatest or the least of others: found, and kept by fills."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.encoding.test_relations import codes_in, holed
from vgi_cli.columns.relations import Relation
from vgi_cli.columns.schema import Schema
from vgi_cli.encoding.infer import schema_alone
from vgi_cli.encoding.keeping import keep_but_for_blanks, keep_relations
from vgi_cli.encoding.redrawing import DrawnRows
from vgi_cli.encoding.relations import departing, departures
from vgi_cli.table.frames import from_frame

N = 160


def runs(seed: int = 0) -> pd.DataFrame:
    """The times of three runs, the best and the worst of them; and what is of no interest."""
    rng = np.random.default_rng(seed)
    times = rng.normal(60, 4, (N, 3)) + rng.normal(0, 6, (N, 1))
    frame = pd.DataFrame(times.round(2), columns=["first", "second", "third"])
    return frame.assign(best=frame.min(axis=1), worst=frame.max(axis=1), age=rng.integers(18, 70, N))


def marks(seed: int = 0) -> pd.DataFrame:
    """Who has fewer than 55 points sits a second exam, and the better one counts."""
    rng = np.random.default_rng(seed)
    exam = rng.normal(58, 14, 2 * N).round().clip(0, 100)
    again = np.where(exam < 55, (exam + rng.normal(6, 10, 2 * N)).round().clip(0, 100), np.nan)
    return pd.DataFrame({"exam": exam, "again": again, "final": np.fmax(exam, again), "age": rng.normal(size=2 * N)})


def relations_of(frame: pd.DataFrame) -> list[str]:
    return [one.words() for one in schema_alone(from_frame(frame)).relations]


def test_they_are_found_in_a_table_with_holes() -> None:
    schema = schema_alone(from_frame(holed(runs())))
    assert [one.words() for one in schema.relations] == [
        "'best' = the least of 'first', 'second', 'third'",
        "'worst' = the greatest of 'first', 'second', 'third'",
    ]
    assert [(one.low, one.high) for one in schema.orders] == [("best", "worst")]  # the others follow
    assert Schema.from_json(schema.to_json()).relations == schema.relations
    assert departures(from_frame(runs()), schema) == [0, 0]
    assert departures(from_frame(runs().assign(best=50.0)), schema)[0] > 0.9 * N
    two = holed(runs().drop(columns="third").assign(best=runs()[["first", "second"]].min(axis=1)))
    assert relations_of(two.drop(columns="worst")) == ["'best' = the lesser of 'first' and 'second'"]
    assert relations_of(marks())[0] == "'final' = the greater of 'exam' and 'again'"


@pytest.mark.parametrize(
    "other",
    [
        lambda frame: frame.worst.where(frame.index % 50 != 7, frame.worst + 0.01),  # but for some rows
        lambda frame: frame.worst.where(frame.index % 50 != 7, frame["first"].min() - 1),
        lambda frame: frame.worst + 0.01,
        lambda frame: frame[["first", "second"]].max(axis=1).clip(lower=62),
        lambda frame: frame[["first", "age"]].mean(axis=1).round(2),
    ],
)
def test_what_is_near_is_none(other: object) -> None:
    frame = runs().drop(columns="best")
    assert not [one for one in relations_of(frame.assign(worst=other(frame))) if "great" in one]  # type: ignore[operator]


@pytest.mark.parametrize("seed", range(4))
def test_counts_that_are_often_equal_are_none(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.poisson(0.6, (2, N))
    frame = pd.DataFrame({"a": a, "b": b, "y": np.maximum(a, b) + rng.binomial(1, 0.03, N), "z": a + b})
    frame.loc[0, "y"] = frame.y.max() + 1
    assert not [one for one in relations_of(frame) if "great" in one]


@pytest.mark.parametrize("how", ["greatest", "least"])
@given(data=st.data())
def test_each_cell_is_solved_from_the_others(how: str, data: st.DataObject) -> None:
    """What is solved keeps to the relation where some number does, and a drawn one that does stays."""
    relation = Relation(names=("y", "a", "b", "c"), how=how)  # type: ignore[arg-type]
    values = np.array(data.draw(st.lists(st.integers(-3, 3), min_size=4, max_size=4)), float)
    place = data.draw(st.integers(0, 3))
    found = values.copy()
    found[place] = relation.solved(values, place, values[0])
    trials = np.repeat(values[None], 20, 0)
    trials[:, place] = np.arange(-10.0, 10.0)
    kept = ~departing(relation, trials, 0.0)
    assert not departing(relation, found, 0.0) or not kept.any()
    if not departing(relation, values, 0.0):
        assert found[place] == values[place]


SUBSETS = [some for count in (1, 2, 3, 4) for some in itertools.combinations(range(4), count)]


@pytest.mark.parametrize("holes", SUBSETS)
def test_fills_keep_to_them(holes: tuple[int, ...]) -> None:
    """Whatever is drawn. A cell that the others say is what it was; of several that might be the greatest the one is
    that was drawn farthest, and what lies below stays."""
    frame = runs()[["first", "second", "third", "worst"]]
    schema = schema_alone(from_frame(frame))
    (relation,) = schema.relations
    true, missing = codes_in(frame, schema), np.zeros(frame.shape, bool)
    missing[:, list(holes)] = True
    model = np.where(missing, true + np.random.default_rng(0).normal(0, 5, (3, *true.shape)).round(2), true)
    draws = model.copy()
    assert not keep_relations(draws, true, missing, schema).count()
    assert (draws[:, ~missing] == true[~missing]).all()
    assert not departing(relation, draws[..., [3, 0, 1, 2]], 0.0).any()
    if 3 in holes:
        assert (draws[..., :3] == model[..., :3]).all()
        return
    alone = ((true[:, :3] == true[:, 3:]) & missing[:, :3]).any(1) & (missing.sum(1) == 1)
    assert (draws[:, alone] == true[alone]).all()
    below = missing[:, :3] & (model[..., :3] < model[..., 3:])
    moved = (np.abs(draws - model) > 1e-6)[..., :3] & below
    assert (moved.sum(-1) <= 1).all()
    some = moved.any(-1)
    largest = np.where(missing[:, :3], model[..., :3], -np.inf).argmax(-1)
    assert (moved.argmax(-1)[some] == largest[some]).all()


def test_beside_an_exam_that_nobody_sits_twice_the_first_one_counts() -> None:
    frame = marks()
    schema = schema_alone(from_frame(frame))
    assert [one.others for one in schema.thresholds] == [("again",)]
    codes = codes_in(frame, schema)
    missing = np.isnan(codes)
    high = np.flatnonzero(frame.exam > 60)
    missing[high[::2], 2] = missing[high[1::2], 0] = True
    draws = np.where(missing, 70.0, codes)[None].copy()
    rows = DrawnRows(draws, codes, missing, None, None)
    assert not keep_but_for_blanks(rows, None, schema, None).count()
    assert (draws[0, high, 2] == codes[high, 2])[1::2].all() and (draws[0, high, 2] == codes[high, 0])[::2].all()
    stays = draws[0, high[1::2], 0]
    assert ((stays == codes[high[1::2], 2]) | (draws[0, high[1::2], 1] == codes[high[1::2], 2])).all()


def test_beside_an_observed_one_that_is_greater_still_a_row_is_counted() -> None:
    frame = runs()[["first", "second", "third", "worst"]]
    schema = schema_alone(from_frame(frame))
    codes = codes_in(frame, schema)[:3]
    codes[:, 0] = codes[:, 3] + 1
    missing = np.array([[False, True, False, False]] * 3)
    draws = np.where(missing, codes[:, 3:] - 5, codes)[None]
    assert keep_relations(draws, codes, missing, schema).count() == 3
    assert (draws[..., 1] <= codes[:, 3]).all()


def test_each_has_to_be_the_greatest_by_itself_in_rows_that_have_all() -> None:
    """Of the third one that is seen beside holes of the first one alone."""
    frame = runs()[["first", "second", "third", "worst"]]
    assert len(relations_of(frame)) == 1
    third = (frame.third == frame.worst).to_numpy()
    frame.loc[np.flatnonzero(third)[4:], "first"] = np.nan
    assert relations_of(frame) == []


def test_without_some_of_the_others() -> None:
    three = Relation(names=("y", "a", "b", "c"), how="least")
    assert three.without(["z"]) == three
    assert three.without(["b"]) == Relation(names=("y", "a", "c"), how="least")
    assert three.without(["a", "b"]) == Relation(names=("y", "c"), weights=(1, -1))
    assert three.without(["y"]) is None and three.without(["a", "b", "c"]) is None
    assert Relation(names=("y", "a", "b"), weights=(1, -1, -1)).without(["b"]) is None


@pytest.mark.parametrize(
    "spoiled", [{"names": ("y", "a")}, {"weights": (1, -1, -1)}, {"constant": 1}, {"rounded": True}, {"codes": (1,)}]
)
def test_others_are_refused(spoiled: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="does not fit"):
        Relation(**{"names": ("y", "a", "b"), "how": "greatest", **spoiled})
