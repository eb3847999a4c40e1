"""Prices with a discount or a tax: a factor is 1 and a share more or less, in percent or not."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tests.selection import first
from vgi_cli.columns.relations import Relation
from vgi_cli.columns.schema import Schema
from vgi_cli.encoding.infer import schema_alone
from vgi_cli.encoding.keeping import keep_relations
from vgi_cli.errors import RunError
from vgi_cli.table.frames import from_frame

N = 400


def cents(values: pd.Series) -> pd.Series:
    """Rounded to cents, half a cent up."""
    return (values + 1e-9).round(2)


def orders(seed: int, n: int = N) -> pd.DataFrame:
    """Orders with a discount in percent of few values, and one of any whole percent; a rate of tax that is no percent;
    and columns that have nothing to do with them."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"pieces": rng.integers(1, 9, n), "price": rng.lognormal(3, 0.6, n).round(2)})
    frame["discount"] = rng.choice([0, 5, 10, 20], n, p=[0.4, 0.3, 0.2, 0.1])
    frame["total"] = cents(frame.pieces * frame.price * (1 - frame.discount / 100))
    frame["gross"], frame["percent"] = rng.lognormal(8, 0.4, n).round(2), rng.integers(5, 40, n)
    frame["net"] = cents(frame.gross * (1 - frame.percent / 100))
    frame["rate"] = rng.choice([0.05, 0.1, 0.25], n)
    frame["billed"] = cents(frame.net * (1 + frame.rate))
    frame["age"], frame["grade"] = rng.integers(18, 80, n), rng.integers(1, 6, n)
    return frame


TOTAL = "'total' = 'pieces' × 'price' × (1 - 'discount' / 100), rounded"
NET = "'net' = 'gross' × (1 - 'percent' / 100), rounded"


def schema_of(frame: pd.DataFrame) -> Schema:
    return schema_alone(from_frame(frame))


def words(frame: pd.DataFrame) -> list[str]:
    return [one.words() for one in schema_of(frame).relations]


@pytest.mark.parametrize("seed", first(1, range(3)))
def test_they_are_found(seed: int) -> None:
    frame = orders(seed)
    holes = np.random.default_rng(seed).random(frame.shape) < 0.1
    assert words(frame.mask(holes)) == [TOTAL, NET, "'billed' = 'net' × (1 + 'rate'), rounded"]


def test_what_costs_the_same_without_the_share_is_not_said_to_have_one() -> None:
    for seed in range(3):
        frame = orders(seed)[["pieces", "price", "discount"]]
        frame["total"] = cents(frame.pieces * frame.price)
        assert words(frame) == ["'total' = 'pieces' × 'price'"]
        frame["total"] = frame.total.where(np.arange(N) != 7, cents(frame.total * (1 - frame.discount / 100)))
        frame.loc[7, "discount"] = 20
        assert words(frame) == ["'total' = 'pieces' × 'price'"]  # one row does not say it


@pytest.mark.parametrize("spoiled", ["a row", "noise", "other percent"])
def test_what_does_not_hold_in_every_row_is_not_found(spoiled: str) -> None:
    for seed in range(3):
        frame, rng = orders(seed)[["pieces", "price", "discount", "age", "total"]], np.random.default_rng(seed)
        if spoiled == "a row":
            frame["total"] = frame.total + 0.05 * (np.arange(N) == 7)
        elif spoiled == "noise":
            frame["total"] = (frame.total * rng.normal(1, 0.001, N)).round(2)
        else:
            frame["discount"] = rng.permutation(frame.discount)
        assert words(frame) == []


def test_chance_makes_none() -> None:
    for seed in range(10):
        rng = np.random.default_rng(seed)
        frame = pd.DataFrame({f"score{i}": rng.integers(0, 11, N) for i in range(4)})
        frame["a"], frame["b"] = rng.integers(1, 5, N), rng.integers(1, 4, N)
        frame["sum"] = frame.a + rng.integers(0, 2, N)
        assert not [one for one in schema_of(frame).relations if one.percent]


@pytest.mark.parametrize("seed", first(1, range(3)))
def test_fills_keep_to_them(seed: int) -> None:
    frame = orders(seed)[["pieces", "price", "discount", "total", "gross", "percent", "net"]]
    schema, true = schema_of(frame), frame.to_numpy()
    at = {name: place for place, name in enumerate(schema.modelled)}
    rng = np.random.default_rng(seed)
    missing = rng.random(true.shape) < 0.3
    drawn = np.stack([np.stack([rng.permutation(column) for column in true.T], 1) for _ in range(3)])
    filled = np.where(missing, drawn, true)
    apart = keep_relations(filled, np.where(missing, 0.0, true), missing, schema)
    assert np.array_equal(filled[:, ~missing], np.broadcast_to(true, filled.shape)[:, ~missing])
    own = {name: filled[..., place] for name, place in at.items()}
    away = np.abs(own["total"] - own["pieces"] * own["price"] * (1 - own["discount"] / 100))
    off = away > 0.00501
    known = ~missing[:, at["total"]]
    assert off.mean() < 0.05 and not off[:, ~known].any()  # of a known total some have no price in whole cents
    assert (apart.rows() | ~off).all()
    away = np.abs(own["net"] - own["gross"] * (1 - own["percent"] / 100))
    one = missing[:, [at["gross"], at["percent"], at["net"]]].sum(1) == 1
    assert away[:, one].max() <= 0.00501
    alone = one & missing[:, at["percent"]]
    assert alone.sum() > 20 and np.array_equal(
        own["percent"][:, alone], np.broadcast_to(true, filled.shape)[:, alone, at["percent"]]
    )


def test_a_share_of_all_leaves_nothing() -> None:
    relation = Relation(names=("t", "a", "p"), how="product", weights=(1, -1, -1), constant=1, percent=(0, 0, -100))
    values = np.array([[0.0, 5.0, 100.0], [4.0, 5.0, 20.0]])
    assert relation.solved(values, 0, values[:, 0]).tolist() == [0.0, 4.0]
    assert relation.solved(values, 2, values[:, 0]).tolist() == pytest.approx([100.0, 20.0])
    assert relation.solved(values[1:], 1, values[1:, 0]).tolist() == pytest.approx([5.0])


@pytest.mark.parametrize("percent", [(0.0, 0.0), (-100.0, 0.0), (0.0, 0.0, -100.0, 0.0)])
def test_a_damaged_one_is_refused(percent: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="does not fit"):
        Relation(names=("t", "a", "p"), how="product", weights=(1, -1, -1), constant=1, percent=percent)
    with pytest.raises(ValueError, match="does not fit"):
        Relation(names=("t", "a", "p"), weights=(1, -1, -1), percent=(0, 0, -100))
    schema = schema_of(orders(0))
    assert Schema.from_json(schema.to_json()) == schema
    with pytest.raises(RunError, match="damaged"):
        Schema.from_json(schema.to_json().replace("-100.0", '"all"'))


def yields(seed: int, n: int = N) -> pd.DataFrame:
    """Yields of plots, and what they are at a moisture of 14 percent; two columns that nearly say the same."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"kg": rng.normal(400, 50, n).round(2), "moisture": rng.normal(14.5, 1.5, n).round(1)})
    frame["yield"] = (frame.kg / 1.05).round(2)
    frame["dry"] = (frame["yield"] * (100 - frame.moisture) / 86).round(2)
    return frame


@pytest.mark.parametrize("seed", range(3))
def test_a_share_of_many_values_and_a_constant_that_is_the_inverse_of_a_short_number(seed: int) -> None:
    frame = yields(seed)
    assert frame.moisture.nunique() > 50
    holes = np.random.default_rng(seed).random(frame.shape) < 0.1
    said = "'dry' = 'yield' × (1 - 'moisture' / 100) / 0.86, rounded"
    assert words(frame.mask(holes)) == ["'yield' = 1/1.05 'kg', rounded", said]


@pytest.mark.parametrize("seed", range(3))
def test_any_constant_may_stand_before_a_share_that_shows_beside_it(seed: int) -> None:
    frame = yields(seed)[["kg", "moisture"]]
    frame["value"] = (0.471283 * frame.kg * (1 - frame.moisture / 100)).round(4)
    (found,) = schema_of(frame).relations
    assert dict(zip(found.names, found.percent, strict=True)) == {"value": 0, "kg": 0, "moisture": -100}
    assert found.constant == pytest.approx(0.471283, rel=1e-5)
    frame["value"] = (0.471283 * frame.kg * np.exp(-0.0117 * frame.moisture)).round(4)  # nearly the same
    assert words(frame) == []
    frame["moisture"] = 14 + np.random.default_rng(seed).integers(0, 2, N) / 100  # a constant makes up for it
    frame["value"] = (0.471283 * frame.kg * (1 - frame.moisture / 100)).round(2)
    assert words(frame) == []
