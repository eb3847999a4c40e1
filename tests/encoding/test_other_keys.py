"""Fills that are out of order with what follows from a key: another key is taken, or the other column is moved."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tests.encoding.test_following import spread
from tests.encoding.test_relations import codes_in, schema_of
from vgi_cli.columns.numerals import Bools, Floats
from vgi_cli.columns.schema import Schema
from vgi_cli.encoding import keeping
from vgi_cli.encoding.keeping import keep_relations
from vgi_cli.encoding.orders import out_of_order
from vgi_cli.encoding.other_keys import orders_of_keys
from vgi_cli.encoding.redundant import every_kept, rule_words
from vgi_cli.encoding.relations import departing


def plants(n: int = 400, seed: int = 0) -> pd.DataFrame:
    """What plants put out, at most as much as their capacity; and who owns them."""
    rng = np.random.default_rng(seed)
    capacity, owner = rng.integers(50, 2000, 40), rng.choice(["Acme", "Bolt", "Corp"], 40)
    plant = rng.integers(0, 40, n)
    output = np.round(capacity[plant] * rng.uniform(0.3, 1.0, n), 1)
    return pd.DataFrame({"plant": 3001 + plant, "capacity": capacity[plant], "owner": owner[plant], "output": output})


def orders(n: int = 400, seed: int = 0) -> pd.DataFrame:
    """Products at their list price or below, and what several of them cost together."""
    rng = np.random.default_rng(seed)
    price = np.round(rng.lognormal(3, 0.7, 40)) - 0.01
    product, count = rng.integers(0, 40, n), rng.integers(1, 6, n)
    paid = np.round(price[product] * (1 - rng.choice([0, 0.05, 0.1, 0.2, 0.25], n)), 2)
    frame = pd.DataFrame({"product": 100 + product, "list_price": price[product], "unit_price": paid, "count": count})
    return frame.assign(total=np.round(paid * count, 2))


def drawn(schema: Schema, true: Floats, missing: Bools, m: int = 3) -> tuple[Floats, int]:
    """[m, N, columns] fills that were drawn from other rows, and how many rows they leave apart from some rule."""
    draws = spread(true, missing, m)
    rng = np.random.default_rng(2)
    numbers = {name: rng.random(draws.shape[:2]) for name in schema.modelled}
    apart = keep_relations(draws, true, missing, schema, uniform=numbers.__getitem__)
    np.testing.assert_array_equal(draws[:, ~missing], np.broadcast_to(true[~missing], draws[:, ~missing].shape))
    broken = out_of_order(draws, schema)
    for one in schema.relations:
        broken |= departing(one, draws[..., [schema.modelled.index(name) for name in one.names]], 0.005)
    assert broken.sum() == apart.count()
    return draws, apart.count()


def holes(schema: Schema, frame: pd.DataFrame, names: str) -> Bools:
    """[N, columns] where cells of some columns are missing, in every fourth row."""
    missing = np.zeros((len(frame), len(schema.modelled)), bool)
    missing[::4, [schema.modelled.index(name) for name in names.split()]] = True
    return missing


@pytest.mark.parametrize("hidden", ["plant capacity", "plant capacity owner", "plant capacity output"])
def test_a_missing_key_is_one_with_which_the_row_is_in_order(hidden: str) -> None:
    frame = plants()
    schema = schema_of(frame)
    assert every_kept(schema)[2] == "'output' ≤ 'capacity'"
    true = codes_in(frame, schema)
    _, apart = drawn(schema, true, holes(schema, frame, hidden))
    assert apart == 0


def test_only_rows_out_of_order_are_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = plants()
    schema = schema_of(frame)
    true, missing = codes_in(frame, schema), holes(schema, frame, "plant capacity")
    draws, _ = drawn(schema, true, missing)
    with monkeypatch.context() as without:
        without.setattr(keeping, "take_others", lambda *_: None)
        before, apart = drawn(schema, true, missing)
    broken = out_of_order(before, schema)
    assert 30 < broken.sum() == apart
    changed = (draws != before).any(-1)
    np.testing.assert_array_equal(changed, broken)


def test_the_values_of_a_key_are_near_to_what_the_model_drew() -> None:
    """Of keys with which a row is in order any would do; the model knows more than that."""
    frame = plants()
    schema = schema_of(frame)
    true = codes_in(frame, schema)
    row = int(frame.output.between(500, 600).to_numpy().argmax())
    plant, capacity, owner, output = range(4)
    missing = np.zeros((1, 4), bool)
    missing[0, [plant, capacity]] = True
    able = frame[(frame.owner == frame.owner[row]) & (frame.capacity >= frame.output[row])].capacity.unique()
    small = frame[(frame.owner == frame.owner[row]) & (frame.capacity < frame.output[row])].plant.iloc[0]
    for value in np.sort(able):
        draws = true[None, [row]].copy()
        draws[0, 0, [plant, capacity]] = small, value + 1e-3
        assert keep_relations(draws, true[[row]], missing, schema).count() == 0
        assert draws[0, 0, capacity] == value and draws[0, 0, output] == frame.output[row]
        assert draws[0, 0, owner] == true[row, owner]
        assert draws[0, 0, plant] in frame.plant[frame.capacity == value].to_numpy()


@pytest.mark.parametrize(
    "hidden", ["list_price unit_price total", "unit_price total", "product list_price total count"]
)
def test_where_the_key_is_known_the_other_column_is_moved(hidden: str) -> None:
    """And what is computed from it: the total."""
    frame = orders()
    schema = schema_of(frame)
    assert {"'list_price' follows from 'product'", "'unit_price' ≤ 'list_price'"} < set(every_kept(schema))
    _, apart = drawn(schema, codes_in(frame, schema), holes(schema, frame, hidden))
    assert apart == 0


def test_two_keys_and_a_key_that_is_in_an_order_itself() -> None:
    rng = np.random.default_rng(0)
    n, store, year = 600, rng.integers(0, 30, 600), rng.integers(0, 12, 600)
    area, rate = rng.integers(200, 3000, 30), np.array([3, 9, 4, 1, 7, 2, 8, 5, 11, 6, 12, 10])
    frame = pd.DataFrame({"store": 1 + store, "year_start": 2001 + year, "area": area[store], "rate": rate[year]})
    frame["sold_area"] = np.round(area[store] * rng.uniform(0.1, 1, n))
    frame["year_end"] = frame.year_start + rng.poisson(2.0, n)
    schema = schema_of(frame)
    assert {"'sold_area' ≤ 'area'", "'year_start' ≤ 'year_end'"} <= set(every_kept(schema))
    for hidden in ("store area year_start rate", "store area", "year_start rate"):
        _, apart = drawn(schema, codes_in(frame, schema), holes(schema, frame, hidden))
        assert apart == 0


def test_a_row_that_no_key_suits_stays_and_is_counted() -> None:
    frame = plants()
    schema = schema_of(frame)
    true = codes_in(frame, schema)[:1]
    true[0, schema.modelled.index("output")] = 9_000.0
    missing = np.array([[name in ("plant", "capacity") for name in schema.modelled]])
    draws = np.where(missing, codes_in(frame, schema)[None, 5:6], true)
    before = draws.copy()
    apart = keep_relations(draws, true, missing, schema)
    assert apart.count() == 1 and [rule_words(one, schema) for one in apart.counts()] == ["'output' ≤ 'capacity'"]
    assert draws[0, 0, 0] == before[0, 0, 0]


def test_without_keys_there_is_nothing_to_take() -> None:
    """So that fills of tables without them are what they were."""
    frame = plants().drop(columns="plant")
    schema = schema_of(frame)
    assert [one.words() for one in schema.orders] == ["'output' ≤ 'capacity'"] and not orders_of_keys(schema)
    assert [one.words() for one in orders_of_keys(schema_of(plants()))] == ["'output' ≤ 'capacity'"]


@pytest.mark.parametrize("hidden", ["price total", "qty total", "price qty total", "price", "paid total"])
def test_a_product_moves_into_order_with_a_factor(hidden: str) -> None:
    """What was paid of a total, which is a product, where draws know nothing of each other."""
    rng = np.random.default_rng(4)
    price, qty = rng.gamma(4, 10, 400).round(2) + 2, rng.integers(1, 9, 400)
    frame = pd.DataFrame({"price": price, "qty": qty, "total": (price * qty).round(2)})
    frame["paid"] = np.where(rng.random(400) < 0.4, frame.total, (frame.total * rng.beta(3, 1, 400)).round(2))
    schema = schema_of(frame)
    assert [one.words() for one in schema.orders] == ["'paid' ≤ 'total'"] and len(schema.relations) == 1
    draws, apart = drawn(schema, codes_in(frame, schema), holes(schema, frame, hidden))
    assert apart == 0 if "qty" not in hidden else apart < 0.04 * 100 * len(draws)  # where 8 are too few
    wrong = draws[..., 3] > draws[..., 2] + 1e-9
    wrong |= np.abs(draws[..., 0] * draws[..., 1] - draws[..., 2]) > 0.00501
    assert wrong.sum() == apart


@pytest.mark.parametrize("hidden", ["a total", "b total", "a b total", "a b", "total most"])
def test_a_sum_moves_into_order_with_a_part(hidden: str) -> None:
    rng = np.random.default_rng(5)
    a, b = rng.gamma(3, 20, (2, 400)).round()
    frame = pd.DataFrame({"a": a, "b": b, "total": a + b})
    frame["least"] = np.floor(frame.total * rng.uniform(0.3, 0.99, 400))
    frame["most"] = np.ceil(frame.total * rng.uniform(1.01, 1.4, 400))
    schema = schema_of(frame)
    assert {"'least' ≤ 'total'", "'total' ≤ 'most'"} <= {one.words() for one in schema.orders}
    draws, apart = drawn(schema, codes_in(frame, schema), holes(schema, frame, hidden))
    assert apart <= 0.02 * 100 * len(draws)  # a part that is observed may be more than most by itself
    wrong = (draws[..., 3] > draws[..., 2]) | (draws[..., 2] > draws[..., 4])
    assert (wrong | (draws[..., 0] + draws[..., 1] != draws[..., 2])).sum() == apart


def matches(n: int = 400, seed: int = 0) -> pd.DataFrame:
    """Goals until half-time and in the end, and the result that follows from the latter."""
    rng = np.random.default_rng(seed)
    home, away = rng.poisson(1.5, n), rng.poisson(1.2, n)
    result = np.where(home > away, "H", np.where(home < away, "A", "D"))
    return pd.DataFrame(
        {"home": home, "away": away, "half": rng.binomial(home, 0.45), "half_away": rng.binomial(away, 0.45)}
    ).assign(result=result)


@pytest.mark.parametrize("hidden", ["home", "away"])
def test_a_number_is_no_farther_in_order_than_a_level_leaves_it(hidden: str) -> None:
    frame = matches()
    schema = schema_of(frame)
    assert {(one.low, one.high) for one in schema.orders} == {("half", "home"), ("half_away", "away")}
    missing = holes(schema, frame, hidden)
    assert drawn(schema, codes_in(frame, schema), missing, m=20)[1] == 0
