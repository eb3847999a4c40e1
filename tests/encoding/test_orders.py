"""Columns that are in order in every row are found, and fills keep to that."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vgi_cli
from vgi_cli.columns.base import Encoding
from vgi_cli.columns.numerals import Bools, Floats
from vgi_cli.columns.orders import SMALL, Chance, Order, Ties
from vgi_cli.columns.schema import Schema
from vgi_cli.encoding.check import check
from vgi_cli.encoding.infer import Said, infer_schema, schema_alone
from vgi_cli.encoding.keeping import keep_relations
from vgi_cli.encoding.orders import crossings, keep_orders
from vgi_cli.encoding.redundant import codes_of, every_kept, kept_words
from vgi_cli.errors import RunError
from vgi_cli.table.frames import from_frame

N = 300
DAY = pd.Timedelta(days=1)


def stays(seed: int = 0, n: int = N) -> pd.DataFrame:
    """Admitted before discharged; low <= mid <= high, in other digits; and columns that have no order."""
    rng = np.random.default_rng(seed)
    admitted = pd.Timestamp("2023-01-01") + pd.to_timedelta(rng.integers(0, 700, n), "D")
    low = rng.gamma(3, 2, n).round(2)
    mid = np.ceil(10 * (low + rng.exponential(1, n))) / 10
    return pd.DataFrame(
        {
            "discharged": admitted + pd.to_timedelta(np.floor(rng.gamma(1.2, 5, n)), "D"),
            "admitted": admitted,
            "high": np.ceil(mid + rng.exponential(3, n)),
            "low": low,
            "mid": mid,
            "age": rng.integers(20, 80, n),
            "weight": rng.normal(75, 12, n).round(1),
        }
    )


def schema_of(frame: pd.DataFrame, encoding: Encoding = Encoding()) -> Schema:  # noqa: B008 - it is frozen
    return schema_alone(from_frame(frame), Said(encoding=encoding))


def pairs(schema: Schema) -> list[tuple[str, str]]:
    return [(one.low, one.high) for one in schema.orders]


def holed(frame: pd.DataFrame, seed: int = 1, share: float = 0.2) -> pd.DataFrame:
    return frame.mask(np.random.default_rng(seed).random(frame.shape) < share)


def codes_in(frame: pd.DataFrame, schema: Schema) -> Floats:
    table = from_frame(frame)
    return np.stack([codes_of(table, column) for column in schema.encoded], 1)


SCHEMA = schema_of(stays())
TRUE = codes_in(stays(), SCHEMA)
AT = {name: i for i, name in enumerate(SCHEMA.modelled)}


# -- what is found -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.0, 0.2])
def test_orders_are_found_without_those_that_follow(share: float) -> None:
    schema = schema_of(holed(stays(), share=share))
    assert sorted(pairs(schema)) == [("admitted", "discharged"), ("low", "mid"), ("mid", "high")]
    line = "fills keep to what holds in every row: 'admitted' ≤ 'discharged'"
    assert line in kept_words(schema)[0]
    assert Schema.from_json(schema.to_json()).orders == schema.orders


def test_what_an_order_says_of_the_distance() -> None:
    [order] = [one for one in SCHEMA.orders if one.low == "admitted"]
    frame = stays()
    days = (frame.discharged - frame.admitted).dt.total_seconds().to_numpy()
    assert order.spread == pytest.approx(min(days.std(), np.subtract(*np.quantile(days, (0.75, 0.25)))))
    crossed = 0.5 * (1 + math.erf(-days.mean() / days.std() / 2**0.5))
    assert set(order.small) <= set(days.tolist()) and list(order.small) == sorted(order.small)
    assert order.small[SMALL // 2] == np.quantile(days, 1.5 * crossed, method="nearest")
    assert order.shift == (frame.discharged.min() - frame.admitted.min()).total_seconds()


def test_dates_of_one_stay_are_in_order_in_few_rows_too_and_not_called_redundant() -> None:
    rng = np.random.default_rng(7)
    admitted = pd.Timestamp("2021-03-01") + pd.to_timedelta(rng.integers(0, 800, 140), "D")
    frame = pd.DataFrame({"admitted": admitted, "discharged": admitted + pd.to_timedelta(rng.poisson(6, 140), "D")})
    schema, notes = infer_schema(from_frame(holed(frame.assign(x=rng.normal(size=140)))))
    assert pairs(schema) == [("admitted", "discharged")]
    assert not any("linear function" in str(note) for note in notes)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda frame: frame.assign(discharged=frame.discharged.mask(frame.index % 50 == 7, frame.admitted - DAY)),
        lambda frame: frame.iloc[:25],
        lambda frame: frame.assign(discharged=frame.admitted.to_numpy()[::-1] + np.timedelta64(10_000, "D")),  # far
        lambda frame: frame.assign(discharged=frame.discharged.dt.strftime("%Y-%m")),  # months
        lambda frame: frame.assign(discharged=frame.discharged.dt.tz_localize("Europe/Paris")),
        lambda frame: frame.assign(discharged=(frame.discharged - pd.Timestamp("1970-01-01")).dt.total_seconds()),
        lambda frame: frame.assign(discharged=frame.admitted + pd.Timedelta("3D")),  # a relation says more
    ],
)  # fmt: skip
def test_what_may_be_chance_or_says_nothing_is_not(spoil: Callable[[pd.DataFrame], pd.DataFrame]) -> None:
    assert pairs(schema_of(spoil(stays()[["discharged", "admitted", "age"]]))) == []


def test_columns_of_no_order_cross_by_chance() -> None:
    for seed in range(20):
        frame = pd.DataFrame(np.random.default_rng(seed).normal(size=(60, 8)), columns=list("abcdefgh"))
        assert schema_of(frame).orders == ()


def claims(n: int, seed: int, chance: bool = False) -> pd.DataFrame:
    """What was paid of claims, 0 where there was none, and what was claimed, which has no cell there."""
    rng = np.random.default_rng(seed)
    claimed = np.exp(rng.normal(7, 1, n)).round(2)
    paid = np.exp(rng.normal(4, 1.5, n)).round(2) if chance else (claimed * rng.uniform(0.5, 1, n)).round(2)
    none = rng.random(n) < 0.9
    frame = pd.DataFrame(
        {"paid": np.where(none, 0.0, paid), "claimed": claimed, "insured": rng.gamma(4, 5000, n).round()}
    )
    return frame.assign(claimed=frame.claimed.mask(none))


@pytest.mark.parametrize("seed", range(3))
def test_zeros_where_the_other_column_has_no_cell_hide_no_order(seed: int) -> None:
    assert ("paid", "claimed") in pairs(schema_of(holed(claims(2000, seed))))
    assert ("paid", "claimed") not in pairs(schema_of(holed(claims(2000, seed, chance=True))))


def test_nothing_is_looked_for_where_relations_are_ignored() -> None:
    assert schema_of(stays(), Encoding(relations="ignore")).orders == ()


# -- fills -------------------------------------------------------------------------------------------------------------


def kept(draws: Floats, missing: Bools, true: Floats = TRUE) -> tuple[Floats, Bools]:
    after = draws.copy()
    apart = keep_orders(after, np.where(missing, 0.0, true), missing, SCHEMA).rows()
    return after, apart


def crossed(values: Floats) -> Bools:
    """[m, N] where any order does not hold."""
    parts = [values[..., AT[o.low]] > values[..., AT[o.high]] + o.shift + 1e-9 for o in SCHEMA.orders]
    return np.any(parts, axis=0)


@given(st.integers(0, 10_000), st.sampled_from([0.1, 0.5, 0.9, 1.0]))
def test_fills_are_in_order_and_nothing_else_is_moved(seed: int, share: float) -> None:
    rng = np.random.default_rng(seed)
    missing = rng.random(TRUE.shape) < share
    draws = np.repeat(TRUE[None], 2, 0)
    other = rng.permuted(draws, axis=1)  # each cell that of another row
    draws = np.where(missing, other, draws)
    after, apart = kept(draws, missing)
    assert not crossed(after).any() and not apart.any()
    assert np.array_equal(after[:, ~missing], draws[:, ~missing])
    free = [AT["age"], AT["weight"]]
    assert np.array_equal(after[..., free], draws[..., free])
    good = ~crossed(draws)  # rows in which all is in order stay as they were drawn
    assert np.array_equal(after[good], draws[good])
    for i, column in enumerate(SCHEMA.encoded):
        assert np.allclose(column.held(after[..., i]), after[..., i])


def test_a_fill_is_moved_to_one_of_the_small_distances_that_were_seen() -> None:
    order = next(one for one in SCHEMA.orders if one.low == "low")
    missing = np.zeros(TRUE.shape, bool)
    missing[:, AT["low"]] = True
    draws = np.repeat(TRUE[None], 1, 0)
    away = np.linspace(0.1, 30, N)
    draws[0, :, AT["low"]] = TRUE[:, AT["mid"]] + away
    moved, apart = kept(draws, missing)
    beside = TRUE[:, AT["mid"]] - moved[0, :, AT["low"]]
    fits = TRUE[:, AT["mid"]] - order.small[-1] > 0.1  # and does not come below the least value of the column
    assert not apart.any() and fits.sum() > 100
    place = np.minimum((1 - np.exp(-away / (0.4 * order.spread))) * SMALL, SMALL - 1).astype(int)
    expected = np.array(order.small)[place]
    assert beside[fits] == pytest.approx(expected[fits], abs=0.0101)
    assert len(set(expected[fits].tolist())) > 5


def test_a_fill_between_two_observed_cells_stays_between_them() -> None:
    missing = np.zeros(TRUE.shape, bool)
    missing[:, AT["mid"]] = True
    draws = np.repeat(TRUE[None], 2, 0)
    draws[0, :, AT["mid"]], draws[1, :, AT["mid"]] = -50.0, 500.0
    after, apart = kept(draws, missing)
    assert not crossed(after).any() and not apart.any()


def test_observed_cells_that_are_out_of_order_leave_a_fill_as_it_was() -> None:
    true = TRUE.copy()
    true[0, AT["low"]], true[0, AT["high"]] = 30.0, 3.0
    missing = np.zeros(TRUE.shape, bool)
    missing[:2, AT["mid"]] = True
    draws = np.repeat(true[None], 2, 0)
    draws[:, 0, AT["mid"]] = 12.3
    after, apart = kept(draws, missing, true)
    assert (after[:, 0, AT["mid"]] == 12.3).all()
    assert apart[:, 0].all() and not apart[:, 1:].any()
    assert keep_relations(draws, true, missing, SCHEMA).count() == 2


def test_distances_do_not_pile_up_where_the_table_has_few() -> None:
    """Whole days, of which a normal law with their moments would have a tenth below 0; ties only as the table has."""
    rng = np.random.default_rng(5)
    first = rng.integers(0, 1_000, N)
    days = 1 + rng.poisson(3, N)  # never on the same day
    frame = pd.DataFrame({"first": first, "last": first + days, "x": rng.normal(size=N).round(3)})
    schema = schema_of(frame)
    true, missing = codes_in(frame, schema), np.zeros(frame.shape, bool)
    missing[:, 1] = True
    draws = np.repeat(true[None], 20, 0)
    draws[..., 1] = np.rint(draws[..., 0] + rng.normal(days.mean(), 1.6 * days.std(), (20, N)))
    before = draws[..., 1] - draws[..., 0]
    assert not keep_orders(draws, np.where(missing, 0.0, true), missing, schema).count()
    after = draws[..., 1] - draws[..., 0]
    drawn = [float((before == day).mean()) for day in range(4)]
    found = [float((after == day).mean()) for day in range(4)]
    assert (before < 0).mean() > 0.03 and found[0] == drawn[0]  # those that were drawn as ties
    assert max(found[1:]) < 1.6 * max(float((days == day).mean()) for day in range(1, 4))


def test_a_date_moves_within_its_month() -> None:
    """Two dates and their months: an observed month limits where its date may go, a missing one goes with it."""
    rng = np.random.default_rng(6)
    first = np.datetime64("2021-01-01") + rng.integers(0, 700, N)
    last = first + rng.poisson(4, N)
    frame = pd.DataFrame({"a": first.astype("datetime64[ns]"), "b": last.astype("datetime64[ns]")})
    for name in ("a", "b"):
        frame[f"{name}_month"] = frame[name].dt.strftime("%Y-%m")
    schema = schema_of(frame)
    assert pairs(schema) == [("a", "b")] and {one.how for one in schema.relations} == {"bands"}
    true = codes_in(frame, schema)
    for seed in range(4):
        missing = np.random.default_rng(seed).random(true.shape) < 0.4
        draws = np.where(missing, rng.permuted(np.repeat(true[None], 2, 0), axis=1), true)
        apart = keep_relations(draws, np.where(missing, 0.0, true), missing, schema).count()
        assert np.array_equal(draws[:, ~missing], np.repeat(true[None], 2, 0)[:, ~missing])
        out = (draws[..., 0] > draws[..., 1] + schema.orders[0].shift + 1e-9).sum()
        for one in schema.relations:
            said = one.said(draws[..., schema.modelled.index(one.names[1])])
            out += (said != draws[..., schema.modelled.index(one.names[0])]).sum()
        assert apart <= 0.03 * draws[..., 0].size and out <= 2 * apart


def test_fills_have_values_that_the_column_has() -> None:
    """Of few values with gaps between them, and of whole numbers of which some are never held."""
    rng = np.random.default_rng(4)
    steps = np.array([1, 2.5, 5, 12, 30, 75, 200, 500])
    place = rng.integers(0, 8, N)
    high = steps[place]
    low = np.round(high * rng.beta(2, 1, N), 2)
    frame = pd.DataFrame({"low": low, "high": high, "x": rng.normal(size=N).round(3)})
    schema = schema_of(frame)
    assert ("low", "high") in pairs(schema)
    true, missing = codes_in(frame, schema), np.zeros(frame.shape, bool)
    missing[:, 1] = True
    draws = np.repeat(true[None], 2, 0)
    draws[0, :, 1], draws[1] = 1.0, true
    draws[1, :, 1] = rng.permutation(high)
    assert not keep_orders(draws, np.where(missing, 0.0, true), missing, schema).count()
    assert set(np.unique(draws[..., 1][draws[..., 1] <= 500]).tolist()) <= set(steps.tolist())
    assert (draws[..., 0] <= draws[..., 1]).all()


def test_columns_of_a_relation_are_not_moved() -> None:
    rng = np.random.default_rng(3)
    a, b = rng.gamma(2, 5, N).round(1), rng.gamma(2, 5, N).round(1)
    total = (a + b).round(1)
    frame = pd.DataFrame(
        {"a": a, "b": b, "total": total, "paid": (total - rng.exponential(3, N).round(1)).clip(0).round(1)}
    )
    schema = schema_of(frame)
    assert ("paid", "total") in pairs(schema) and schema.relations
    true, missing = codes_in(frame, schema), np.zeros(frame.shape, bool)
    missing[:, 1], missing[:, 3] = True, True  # b follows from a and total
    draws = np.repeat(true[None], 1, 0)
    draws[0, :, 1], draws[0, :, 3] = 7.0, 200.0
    assert keep_relations(draws, np.where(missing, 0, true), missing, schema).count() == 0
    assert np.allclose(draws[0, :, 1], true[:, 1])
    assert (draws[0, :, 3] <= true[:, 2] + 1e-9).all()


# -- new tables, runs --------------------------------------------------------------------------------------------------


def test_new_rows_that_are_out_of_order_are_counted() -> None:
    new = stays(5, 40)
    new.loc[:2, "discharged"] = new.admitted[:3] - pd.Timedelta("2D")
    at = pairs(SCHEMA).index(("admitted", "discharged"))
    assert crossings(from_frame(new), SCHEMA)[at] == 3
    line = "'admitted' ≤ 'discharged' in every row of the fit; 3 rows"
    assert any(line in one for one in check(from_frame(new), SCHEMA))


def test_damage_is_named() -> None:
    text = SCHEMA.to_json()
    place = text.index('"orders"')
    for old, new in (('"low": "admitted"', '"low": "nobody"'), ('"high": "discharged"', '"high": "admitted"')):
        with pytest.raises(RunError, match=r"schema\.json: damaged \(.*order"):
            Schema.from_json(text[:place] + text[place:].replace(old, new, 1))
    before = text[:place].rstrip().rstrip(",").replace('"format": 6', '"format": 5') + "}"
    assert Schema.from_json(before).orders == () and Schema.from_json(before).relations == SCHEMA.relations


def test_an_order_is_of_two_columns() -> None:
    with pytest.raises(ValueError, match="two columns"):
        Order("a", "a", 1.0, (0.0,) * SMALL)
    with pytest.raises(ValueError, match="distances"):
        Order("a", "b", 1.0, (0.0,))


def test_filled_tables_and_sampled_rows_are_in_order(tmp_path: Path) -> None:
    frame = stays()[["admitted", "discharged", "low", "mid"]]
    run = vgi_cli.fit(holed(frame), out=tmp_path / "run", model="mixture", threads=1, set={"bootstrap": 2})
    for one in [*run.impute(m=3), run.sample(n=200)]:
        assert (one.admitted <= one.discharged).all() and (one.low <= one.mid).all()
    plain = vgi_cli.fit(
        holed(frame), out=tmp_path / "plain", model="mixture", threads=1,
        set={"bootstrap": "none", "table.relations": "ignore"},
    )  # fmt: skip
    assert any((one.admitted > one.discharged).any() for one in plain.impute(m=3))


def test_columns_over_decades_are_in_order_by_their_ratio() -> None:
    """A fill on the wrong side is moved by a small ratio that was seen: a small one by little, a large one by much."""
    rng = np.random.default_rng(3)
    low = np.exp(rng.normal(0, 3, 400))
    frame = pd.DataFrame({"low": low, "high": low * np.exp(np.abs(rng.normal(0.2, 0.1, 400)) + 0.02)})
    schema = schema_of(frame)
    (order,) = schema.orders
    assert order.ratio and 0.02 <= order.small[0] < 0.1 and 0.05 < order.spread < 0.2
    observed = codes_in(frame, schema)
    at = {name: i for i, name in enumerate(schema.modelled)}
    missing = np.zeros(observed.shape, bool)
    missing[:, at["high"]] = True
    draws = observed[None].copy()
    draws[..., at["high"]] = 0.9 * observed[:, at["low"]]
    assert not keep_orders(draws, observed, missing, schema).count()
    ratio = draws[0, :, at["high"]] / observed[:, at["low"]]
    assert (ratio >= 1).all() and ratio.max() < 1.3
    missing, draws = missing[:, ::-1], observed[None].copy()
    draws[..., at["low"]] = 1.1 * observed[:, at["high"]]
    assert not keep_orders(draws, observed, missing, schema).count()
    ratio = observed[:, at["high"]] / draws[0, :, at["low"]]
    assert (ratio >= 1).all() and ratio.max() < 1.3
    assert Schema.from_json(schema.to_json()).orders == schema.orders


def test_orders_by_ratio_and_by_distance_add_up() -> None:
    """a <= b by their ratio, b <= c by their distance: a <= c by the distance of b and c."""
    rng = np.random.default_rng(4)
    a = np.exp(rng.normal(0, 3, 400))
    b = a * np.exp(np.abs(rng.normal(0.2, 0.1, 400)) + 0.02)
    frame = pd.DataFrame({"a": a, "b": b, "c": b + np.abs(rng.normal(50, 300, 400))})
    schema = schema_of(frame)
    assert {(one.low, one.high): one.ratio for one in schema.orders} == {("a", "b"): True, ("b", "c"): False}
    observed = codes_in(frame, schema)
    missing = rng.random(observed.shape) < 0.5
    draws = np.where(missing, observed * np.exp(rng.normal(size=observed.shape)), observed)[None]
    assert not keep_orders(draws, observed, missing, schema).count()
    a, b, c = draws[0].T
    assert (a <= b).all() and (b <= c).all() and np.isfinite(draws).all()


def test_dates_are_in_order_by_their_distance() -> None:
    """Their codes count from the first one, and are over decades for no reason of their own."""
    rng = np.random.default_rng(5)
    start = pd.Timestamp("2020-01-01") + pd.to_timedelta(np.floor(np.exp(rng.normal(3, 2, 400))), "D")
    frame = pd.DataFrame({"start": start, "end": start + pd.to_timedelta(rng.integers(0, 30, 400), "D")})
    frame.loc[frame.start == frame.start.min(), "end"] = pd.NaT
    assert [one.ratio for one in schema_of(frame).orders] == [False]


def spans(seed: int, n: int = 400) -> pd.DataFrame:
    """Spans that last one day, minute or tenth at least, and ages whose order is not strict."""
    rng = np.random.default_rng(seed)
    start, x = rng.integers(0, 50, n), rng.integers(0, 100, n) / 10
    day = pd.Timestamp("2023-01-01") + pd.to_timedelta(rng.integers(0, 700, n), "D")
    frame = pd.DataFrame({"start": start, "stop": start + 1 + rng.poisson(1.5, n), "begin": x})
    frame["finish"] = (x + 0.1 * (1 + rng.poisson(1, n))).round(1)
    frame["entry"], frame["exit"] = day, day + pd.to_timedelta(1 + rng.poisson(2, n), "D")
    frame["low"] = rng.integers(0, 30, n)
    frame["high"] = frame.low + rng.poisson(2, n)
    return frame


STRICT = {("start", "stop"): 1.0, ("begin", "finish"): 0.1, ("entry", "exit"): 1.0}


@pytest.mark.parametrize("seed", range(3))
def test_cells_that_are_never_equal_are_not_in_fills(seed: int) -> None:
    frame = spans(seed)
    schema = schema_of(frame)
    found = {(one.low, one.high): one for one in schema.orders}
    assert set(found) == {*STRICT, ("low", "high")} and found["low", "high"].gap == 0
    assert {"'start' < 'stop'", "'low' ≤ 'high'"} <= set(every_kept(schema))
    true, rng = codes_in(frame, schema), np.random.default_rng(seed)
    missing = rng.random(true.shape) < 0.4
    drawn = np.stack([np.stack([rng.permutation(column) for column in true.T], 1) for _ in range(3)])
    filled = np.where(missing, drawn, true)
    apart = keep_relations(filled, np.where(missing, 0.0, true), missing, schema)
    at = {name: place for place, name in enumerate(schema.modelled)}
    for pair, step in STRICT.items():
        low, high = (filled[..., at[name]] for name in pair)
        away = high + found[pair].shift + found[pair].gap - low
        own = missing[:, [at[name] for name in pair]].any(1)
        unit = 1.0 if pair[0] != "entry" or found[pair].gap == 1.0 else found[pair].gap
        assert (away > (1 - 1e-6) * step * unit)[~apart.rows() & own].all()
        assert np.allclose(np.rint(away / (step * unit)), away / (step * unit), atol=1e-6)
    assert apart.rows().mean() < 0.03  # a start of 49 beside a stop that was observed below
    equal = filled[..., at["low"]] == filled[..., at["high"]]
    assert equal.any() and Schema.from_json(schema.to_json()) == schema


def test_that_no_cells_are_equal_may_be_chance() -> None:
    """Of few rows, of distances over thousands of steps, and where some are equal."""
    frame = spans(0)
    few = frame[["start", "stop"]].head(60)
    assert [one.gap for one in schema_of(few[few.stop - few.start > 1]).orders] in ([], [0.0])
    rng = np.random.default_rng(0)
    wide = pd.DataFrame({"from": rng.integers(0, 10**6, N)})
    wide["to"] = wide["from"] + rng.integers(1, 10**6, N)
    assert [one.gap for one in schema_of(wide).orders] == [0.0]
    frame.loc[3, "stop"] = frame.start[3]
    assert {(one.low, one.high): one.gap for one in schema_of(frame[["start", "stop"]]).orders} == {
        ("start", "stop"): 0.0
    }


def test_equal_cells_of_a_new_table_break_a_strict_order() -> None:
    frame = spans(0)[["start", "stop"]]
    schema = schema_of(frame)
    frame.loc[:4, "stop"] = frame.start[:5]
    assert crossings(from_frame(frame), schema) == [5]


def test_a_strict_order_has_no_ties() -> None:
    none = Chance(terms=(), weights=((0.0,),))
    ties = Ties(share=0.5, low=none, high=none, apart=((1.0, 2.0),))
    with pytest.raises(ValueError, match="never equal"):
        Order("a", "b", 1.0, (0.0,) * SMALL, ties=ties, gap=1.0)


def visits(seed: int, n: int = 400) -> pd.DataFrame:
    """Days of admission and discharge, and the time of an operation between them, often on one of these days."""
    rng = np.random.default_rng(seed)
    admitted = pd.Timestamp("2023-01-01") + pd.to_timedelta(rng.integers(0, 700, n), "D")
    operated = admitted + pd.to_timedelta(rng.integers(0, 3 * 24 * 60, n), "min")
    discharged = operated.normalize() + pd.to_timedelta(np.floor(rng.exponential(2, n)), "D")
    frame = pd.DataFrame({"discharged": discharged.strftime("%d.%m.%Y"), "admitted": admitted.strftime("%Y-%m-%d")})
    return frame.assign(operated=operated.strftime("%Y-%m-%d %H:%M"), age=rng.integers(20, 80, n))


def moments(frame: pd.DataFrame) -> tuple[pd.Series, pd.Series, pd.Series]:
    """The days of admission and discharge, and the time of the operation."""
    return (
        pd.to_datetime(frame.admitted, format="%Y-%m-%d"),
        pd.to_datetime(frame.discharged, format="%d.%m.%Y"),
        pd.to_datetime(frame.operated, format="%Y-%m-%d %H:%M"),
    )


@pytest.mark.parametrize("seed", range(3))
def test_days_and_times_are_in_order(seed: int) -> None:
    """A time is no later than a day where it is on that day."""
    frame = visits(seed)
    table = from_frame(frame)
    schema = schema_alone(table)
    assert [column.kind for column in schema.encoded] == ["date", "date", "datetime", "integer"]
    assert set(pairs(schema)) == {("admitted", "operated"), ("operated", "discharged")}
    assert Schema.from_json(schema.to_json()) == schema
    assert sum(crossings(table, schema)) == 0
    true = np.stack([codes_of(table, column) for column in schema.encoded], 1)
    rng = np.random.default_rng(seed)
    missing = rng.random(true.shape) < 0.3
    drawn = np.stack([true + rng.normal(size=true.shape) * true.std(0) / 50 for _ in range(3)])
    drawn = np.stack(
        [np.stack([c.held(one) for c, one in zip(schema.encoded, draw.T, strict=True)], 1) for draw in drawn]
    )
    filled = np.where(missing, drawn, true)
    before = filled.copy()
    apart = keep_relations(filled, np.where(missing, 0.0, true), missing, schema)
    assert not apart.rows().any() and np.array_equal(filled[:, ~missing], before[:, ~missing])
    wrong = 0
    for draw, as_drawn in zip(filled, before, strict=True):
        for codes, right in ((draw, True), (as_drawn, False)):
            texts = {c.name: c.spell(own, None) for c, own in zip(schema.encoded, codes.T, strict=True)}
            admitted, discharged, operated = moments(pd.DataFrame(texts))
            crossed = (admitted > operated.dt.normalize()) | (operated.dt.normalize() > discharged)
            wrong += 0 if right else int(crossed.sum())
            assert not right or not crossed.any()
    assert wrong > 30


def test_a_time_after_its_day_breaks_the_order_of_a_new_table() -> None:
    frame = visits(0)
    schema = schema_of(frame)
    admitted, discharged, _ = moments(frame)
    frame.loc[:2, "operated"] = (discharged[:3] + pd.Timedelta("23:59:00")).dt.strftime("%Y-%m-%d %H:%M")
    assert crossings(from_frame(frame), schema) == [0, 0]
    frame.loc[:2, "operated"] = (discharged[:3] + pd.Timedelta("24:00:00")).dt.strftime("%Y-%m-%d %H:%M")
    frame.loc[5:8, "operated"] = (admitted[5:9] - pd.Timedelta("00:01:00")).dt.strftime("%Y-%m-%d %H:%M")
    counts = dict(zip(pairs(schema), crossings(from_frame(frame), schema), strict=True))
    assert counts == {("admitted", "operated"): 4, ("operated", "discharged"): 3}


def test_days_and_times_of_time_zones_are_not_compared() -> None:
    frame = visits(0)
    frame["operated"] += "+02:00"
    assert pairs(schema_of(frame)) == [("admitted", "discharged")]
