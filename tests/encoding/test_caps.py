"""Columns that are another one cut off at a value: found, and kept by fills."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.encoding.test_relations import codes_in, holed
from vgi_cli.columns.caps import Beyond
from vgi_cli.columns.numerals import Bools, Floats
from vgi_cli.columns.orders import Line, Term
from vgi_cli.columns.relations import Relation
from vgi_cli.columns.schema import Schema
from vgi_cli.encoding.caps import cut_off_again
from vgi_cli.encoding.computing import RelationCells, Room, solve
from vgi_cli.encoding.infer import schema_alone
from vgi_cli.encoding.keeping import keep_relations
from vgi_cli.encoding.relations import departing, departures
from vgi_cli.errors import RunError
from vgi_cli.table.frames import from_frame

N = 300
CAP = 44_000.0


def incomes(n: int = N, seed: int = 0) -> pd.DataFrame:
    """Wages and other incomes, the sum of both, and that sum top-coded in about a tenth of the rows."""
    rng = np.random.default_rng(seed)
    wage = np.round(np.exp(rng.normal(10, 0.5, n)), -2)
    other = np.where(rng.random(n) < 0.5, 0.0, np.round(np.exp(rng.normal(8, 0.7, n)), -2))
    frame = pd.DataFrame({"wage": wage, "other": other, "income": wage + other, "age": rng.integers(18, 70, n)})
    return frame.assign(topcoded=frame.income.clip(upper=CAP))


def changes(n: int = N, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    change = rng.normal(0, 50, n).round(1)
    return pd.DataFrame({"change": change, "gain": np.maximum(change, 0), "x": rng.normal(size=n).round(2)})


def found_in(frame: pd.DataFrame) -> tuple[list[str], list[str]]:
    """The lines on relations, and on orders."""
    schema = schema_alone(from_frame(frame))
    return [one.words() for one in schema.relations], [one.words() for one in schema.orders]


def caps_in(frame: pd.DataFrame) -> list[str]:
    return [one.words() for one in schema_alone(from_frame(frame)).caps]


def filled(frame: pd.DataFrame, schema: Schema, missing: Bools, spread: float) -> tuple[Floats, Floats, int]:
    """What is drawn and kept of holes around the true cells, these, and in how many rows that could not be."""
    rng, true = np.random.default_rng(0), codes_in(frame, schema)
    draws = np.where(missing, true + rng.normal(0, spread, (3, *true.shape)), true)
    for j, column in enumerate(schema.encoded):
        draws[..., j] = np.where(missing[:, j], column.held(draws[..., j]), draws[..., j])
    chance = rng.random((2, *draws.shape[:2]))
    apart = keep_relations(draws, true, missing, schema, lambda _: chance[0], lambda *_: chance[1])
    return draws, true, apart.count()


@pytest.mark.parametrize("n", [100, 300, 2000])
def test_they_are_found_in_place_of_the_order(n: int) -> None:
    frame = incomes(n)
    assert found_in(holed(frame, share=0.15)) == (
        ["'income' = 'wage' + 'other'", "'topcoded' = 'income', at most 44000"],
        [],
    )
    schema = schema_alone(from_frame(frame))
    assert Schema.from_json(schema.to_json()).relations == schema.relations
    assert departures(from_frame(frame), schema) == [0, 0]
    wrong = frame.assign(topcoded=np.where(frame.index == 5, CAP + 100, frame.topcoded - 100 * (frame.index == 6)))
    assert departures(from_frame(wrong), schema) == [0, 2]
    assert found_in(holed(changes(n), share=0.15)) == (["'gain' = 'change', at least 0"], [])


def test_where_many_rows_have_the_one_that_is_cut_off_alone() -> None:
    frame = incomes(600)
    frame.loc[(frame.topcoded == CAP) & (frame.index % 3 > 0), ["income", "wage"]] = np.nan
    assert "'topcoded' = 'income', at most 44000" in caps_in(frame)


@pytest.mark.parametrize(
    "other",
    [
        lambda frame: frame.topcoded - 100 * (frame.index % 50 == 7),  # but for more than a few rows
        lambda frame: frame.topcoded.where(frame.topcoded < CAP, CAP + 100 * (frame.index % 2)),  # two values
        lambda frame: frame.income.clip(upper=frame.income.sort_values().iloc[-5]),  # four rows beyond
        lambda frame: frame.income.clip(lower=20_000, upper=CAP),
        lambda frame: frame.topcoded.where(
            frame.income >= CAP, frame.topcoded.sample(frac=1, random_state=0).to_numpy()
        ),
        lambda frame: np.minimum(frame.age * 1_000, CAP),
    ],
)
def test_what_is_near_is_none(other: Callable[[pd.DataFrame], Any]) -> None:
    frame = incomes()
    assert caps_in(frame.assign(topcoded=other(frame))) == []


def tables(n: int, seed: int) -> list[pd.DataFrame]:
    rng = np.random.default_rng(seed)
    z, a = rng.normal(size=n), rng.normal(50, 10, n).round()
    scales = {f"q{w}": np.clip(np.round(3 + w * z + (1 - w) * rng.normal(size=n)), 1, 5) for w in (0.9, 0.5)}
    bill = np.exp(rng.normal(5, 0.7, n)).round(2)
    paid = np.where(rng.random(n) < 0.6, bill, (bill * rng.random(n)).round(2))
    return [
        pd.DataFrame({name: rng.normal(size=n).round(2) for name in "abcd"}),
        pd.DataFrame({"a": a, "b": np.minimum(rng.normal(60, 10, n).round(), 60), "z": z.round(2)}),
        pd.DataFrame({**scales, "z": z.round(2)}),
        pd.DataFrame({"bill": bill, "paid": paid, "z": z.round(2)}),
    ]


@pytest.mark.parametrize("n", [60, 300, 2000])
def test_none_is_found_by_chance(n: int) -> None:
    """Independent columns, one with many ties at its greatest, scales of five points that go together, bills."""
    for seed, frame in itertools.product(range(3), range(4)):
        assert caps_in(holed(tables(n, seed)[frame], seed, 0.1)) == []


def test_of_what_is_cut_off_twice_each_is_the_nearest() -> None:
    frame = incomes()[["income", "topcoded", "age"]]
    frame = frame.assign(lower=frame.income.clip(upper=30_000), net=2 * frame.income)
    relations, orders = found_in(frame)
    assert relations == [
        "'topcoded' = 'income', at most 44000",
        "'lower' = 'topcoded', at most 30000",
        "'net' = 2 'income'",
    ]
    assert orders == []
    caps = schema_alone(from_frame(frame)).caps
    assert cut_off_again(caps) == [{"lower", "income"}]


def test_few_counts_stay_intervals() -> None:
    count = np.random.default_rng(0).poisson(3, N).astype(float)
    frame = pd.DataFrame({"count": count, "some": np.minimum(count, 5), "x": np.random.default_rng(1).normal(size=N)})
    assert found_in(frame)[0] == ["'some' follows from 'count'"]


HOLES = [some for count in (1, 2, 3) for some in itertools.combinations(("income", "topcoded", "wage"), count)]


@pytest.mark.parametrize("holes", HOLES)
def test_fills_keep_to_them_and_to_sums(holes: tuple[str, ...]) -> None:
    frame = incomes()
    schema = schema_alone(from_frame(frame))
    missing = np.zeros(frame.shape, bool)
    missing[:, [schema.modelled.index(name) for name in holes]] = True
    draws, true, left = filled(frame, schema, missing, 4_000)
    assert left == 0
    cells = {name: draws[..., schema.modelled.index(name)] for name in schema.modelled}
    assert np.array_equal(cells["topcoded"], np.minimum(cells["income"], CAP))
    assert np.array_equal(cells["income"], cells["wage"] + cells["other"])
    if "topcoded" not in holes and holes != ("income",):
        beyond = true[:, schema.modelled.index("topcoded")] == CAP
        assert (cells["income"][:, beyond] >= CAP).all() and (cells["income"][:, beyond] == CAP).mean() < 0.05


def test_beside_the_value_they_lie_as_far_as_was_seen() -> None:
    frame = incomes()[["income", "topcoded", "age"]]
    schema = schema_alone(from_frame(frame))
    missing = np.zeros(frame.shape, bool)
    missing[:, 0] = True
    draws, true, left = filled(frame, schema, missing, 4_000)
    assert left == 0
    beyond = true[:, 1] == CAP
    seen, own = true[beyond, 0], draws[:, beyond, 0]
    assert np.isin(own, seen).all() and np.unique(own).size > 10
    assert abs(own.mean() - seen.mean()) < 0.3 * seen.std() and 0.7 < own.std() / seen.std() < 1.3
    assert (draws[:, ~beyond, 0] == true[~beyond, 1]).all()
    point = np.where(missing, 20_000, true)[None]
    assert not keep_relations(point, true, missing, schema).count()
    assert (point[0, beyond, 0] == CAP).all()


def test_how_far_they_lie_depends_on_the_rest_of_the_row() -> None:
    frame = incomes(1_500)
    frame = frame.assign(
        sector=np.where(frame.income > 1.4 * CAP, "a", "b"), year=np.exp(frame.income / 20_000).round(2)
    )
    schema = schema_alone(from_frame(frame[["income", "topcoded", "year", "sector", "age"]]))
    (cap,) = schema.caps
    assert cap.beyond is not None and {"year"} <= cap.beyond.names <= {"year", "sector"}
    assert Schema.from_json(schema.to_json()).relations == schema.relations
    frame = frame[["income", "topcoded", "year", "sector", "age"]]
    missing = np.zeros(frame.shape, bool)
    missing[:, 0] = True
    draws, true, left = filled(frame, schema, missing, 4_000)
    beyond = true[:, 1] == CAP
    assert left == 0 and np.corrcoef(draws[0, beyond, 0], true[beyond, 0])[0, 1] > 0.9
    with pytest.raises(RunError, match="relations do not fit"):
        Schema.from_json(schema.to_json().replace('"name": "year",\n       "what"', '"name": "other",\n       "what"'))


def test_below_the_least_that_is_told() -> None:
    frame = changes()
    schema = schema_alone(from_frame(frame))
    missing = np.zeros(frame.shape, bool)
    missing[:, 0] = True
    draws, true, left = filled(frame, schema, missing, 20.0)
    assert left == 0
    none = true[:, 1] == 0
    assert (draws[:, none, 0] <= 0).all() and (draws[:, none, 0] == 0).mean() < 0.05
    assert (draws[:, ~none, 0] == true[~none, 1]).all()


def test_a_cell_beyond_the_value_cannot_be_kept_to() -> None:
    frame = incomes()[["income", "topcoded", "age"]]
    schema = schema_alone(from_frame(frame))
    true = codes_in(frame, schema)[:4]
    true[:, 1] = CAP + 100
    missing = np.zeros(true.shape, bool)
    missing[:, 0] = True
    assert keep_relations(true[None].copy(), true, missing, schema).count() == 4


def test_fills_are_in_order_with_others_too() -> None:
    """A tax that is part of the income lies below it."""
    frame = incomes(600)[["income", "topcoded"]]
    frame = frame.assign(tax=(frame.income * np.random.default_rng(1).uniform(0.1, 0.9, 600)).round(-2))
    schema = schema_alone(from_frame(frame))
    assert [one.words() for one in schema.orders] == ["'tax' ≤ 'income'"]
    for holes in ((0,), (0, 2), (0, 1), (0, 1, 2)):
        missing = np.zeros(frame.shape, bool)
        missing[:, holes] = True
        draws, _, left = filled(frame, schema, missing, 4_000)
        assert left == 0 and (draws[..., 2] <= draws[..., 0]).all()
        assert np.array_equal(draws[..., 1], np.minimum(draws[..., 0], CAP))


LINE = Line((Term("x", "number", 0.0),), (0.0, 1.0))


@pytest.mark.parametrize(
    "spoiled", [{"beyond": None}, {"names": ("y", "a", "b")}, {"how": "sum"}, {"apart": (1.0,)}, {"rounded": True}]
)
def test_others_are_refused(spoiled: dict[str, Any]) -> None:
    sound: dict[str, Any] = {"names": ("y", "a"), "how": "least", "constant": 5.0, "beyond": Beyond((1.0, 2.0))}
    assert Relation(**sound).capped and Relation(**sound).without(["a"]) is None
    with pytest.raises(ValueError, match="does not fit"):
        Relation(**{**sound, **spoiled})


@pytest.mark.parametrize(
    "spoiled", [{"apart": ()}, {"alike": (1.0,)}, {"alike": (2.0, 1.0)}, {"line": None}, {"apart": (0.0, 1.0)}]
)
def test_what_lies_beyond_is_known_of_some_rows(spoiled: dict[str, Any]) -> None:
    sound: dict[str, Any] = {"apart": (1.0, 2.0), "line": LINE, "alike": (1.0, 2.0)}
    assert Beyond(**sound).names == {"x"} and Beyond((1.0,)).names == set()
    with pytest.raises(ValueError, match=r"what lies beyond|greater than"):
        Beyond(**{**sound, **spoiled})


def test_of_the_rows_that_are_most_alike() -> None:
    beyond = Beyond(tuple(np.arange(1.0, 41.0)), LINE, tuple(np.linspace(-2, 2, 40)))
    chance = np.random.default_rng(0).random((1, 200))
    for at, (low, high) in {-2.0: (1, 10), 0.0: (16, 26), 2.0: (31, 40)}.items():
        drawn = beyond.drawn(lambda _, at=at: np.full(chance.shape, at), chance)  # type: ignore[misc]
        assert low <= drawn.min() and drawn.max() <= high and np.unique(drawn).size == 10


def test_the_words_of_either_side() -> None:
    least = Relation(names=("y", "a"), how="least", constant=5.5, beyond=Beyond((1.0,)))
    greatest = Relation(names=("y", "a"), how="greatest", beyond=Beyond((1.0,)))
    assert (least.words(), greatest.words()) == ("'y' = 'a', at most 5.5", "'y' = 'a', at least 0")
    values = np.array([[5.5, 7.0], [5.5, 3.0], [3.0, 3.0], [6.0, 7.0]])
    assert departing(least, values, 0.0).tolist() == [False, True, False, True]


def test_beyond_the_value_they_lie_where_other_limits_leave_room() -> None:
    """Of an income beside the cap at which it is cut off: as it was drawn, not below the cap, and within its room."""
    frame = incomes()[["topcoded", "income"]]
    schema = schema_alone(from_frame(frame))
    (relation,) = schema.caps
    cells = RelationCells(relation, schema.encoded, np.arange(2), 50.0, 50.0, np.zeros(1, bool))
    values = np.array([[[CAP, 30_000.0], [CAP, 60_000.0], [CAP, 60_000.0], [20_000.0, 60_000.0]]])
    room = Room(np.full((1, 4), -np.inf), np.array([[np.inf, np.inf, 50_000.0, np.inf]]))
    value, able = solve(cells, 1, values, guessed=False, rooms=[room])
    assert able.all() and value.tolist() == [[CAP, 60_000.0, 50_000.0, 20_000.0]]
