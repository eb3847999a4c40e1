"""What follows from two columns together: found where more rows say so than chance explains, and kept by fills."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.encoding.test_following import kept_apart, scores, spread
from tests.encoding.test_relations import IGNORED, codes_in, holed, schema_of
from tests.selection import first
from vgi_cli.columns.numerals import Bools, Floats
from vgi_cli.columns.schema import Schema
from vgi_cli.encoding.encoder import encode
from vgi_cli.encoding.infer import schema_alone
from vgi_cli.encoding.keeping import keep_but_for_blanks, keep_relations
from vgi_cli.encoding.redrawing import DrawnRows
from vgi_cli.encoding.redundant import every_kept, kept_to_tell
from vgi_cli.encoding.relations import departures
from vgi_cli.encoding.structural_zeros import possible
from vgi_cli.errors import RunError
from vgi_cli.table.frames import from_frame

PRICES = np.array([[2.2, 2.5, 2.9], [3.1, 3.6, 4.1], [3.4, 3.9, 4.4], [1.8, 2.2, 2.5]])
"""Of four drinks in three sizes, of which some cost the same."""
BANDS = ["U12", "U14", "U16", "U18"]


def drinks(n: int = 300, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    item, size, quantity = rng.integers(0, 4, n), rng.integers(0, 3, n), rng.integers(1, 8, n)
    price = PRICES[item, size]
    return pd.DataFrame(
        {
            "item": np.array(["espresso", "latte", "mocha", "tea"])[item],
            "size": np.array(["s", "m", "l"])[size],
            "price": price,
            "quantity": quantity,
            "total": (price * quantity).round(2),
        }
    )


def runners(n: int = 300, seed: int = 0) -> pd.DataFrame:
    """A class by sex and band of age, of which the youngest run together."""
    rng = np.random.default_rng(seed)
    sex, band = rng.choice(["F", "M"], n), rng.choice(BANDS, n)
    name = np.where(band == "U12", "kids", np.char.add(np.char.add(sex, "-"), band))
    return pd.DataFrame({"sex": sex, "band": band, "class": name, "minutes": rng.normal(30, 5, n).round(1)})


def fees(n: int = 300, seed: int = 0) -> pd.DataFrame:
    """A fee by a plan and a number of seats, both whole numbers; and a kind of each plan."""
    rng = np.random.default_rng(seed)
    plan, seats = rng.choice([10, 20, 30, 40], n), rng.choice([1, 2, 5], n)
    table = np.array([[0, 5, 9], [5, 9, 15], [9, 12, 25], [12, 25, 49]])
    fee = table[plan // 10 - 1, np.searchsorted([1, 2, 5], seats)]
    return pd.DataFrame({"plan": plan, "seats": seats, "fee": fee, "score": rng.normal(size=n).round(2)})


def kinds(n: int = 400, seed: int = 0) -> pd.DataFrame:
    """Drinks without a quantity, each with its kind."""
    frame = drinks(n, seed)[["item", "size", "price"]]
    return frame.assign(kind=np.where(frame["item"] == "tea", "tea", "coffee"))


TABLES: list[tuple[Callable[..., pd.DataFrame], tuple[str, ...]]] = [
    (drinks, ("price", "item", "size")),
    (runners, ("class", "sex", "band")),
    (fees, ("fee", "plan", "seats")),
    (kinds, ("price", "item", "size")),
]


def pairs_in(schema: Schema) -> list[tuple[str, ...]]:
    return [one.names for one in schema.pairs]


class TestFound:
    @pytest.mark.parametrize("share", [0.0, 0.15])
    @pytest.mark.parametrize(("table", "names"), TABLES)
    def test_from_levels_and_whole_numbers(
        self, table: Callable[..., pd.DataFrame], names: tuple[str, ...], share: float
    ) -> None:
        schema = schema_of(holed(table(), share=share))
        assert pairs_in(schema) == [names]
        assert Schema.from_json(schema.to_json()).relations == schema.relations
        assert f"'{names[0]}' follows from '{names[1]}' and '{names[2]}'" in kept_to_tell(schema)
        assert not schema_of(table(), IGNORED).relations

    def test_what_each_pair_says(self) -> None:
        (one,) = schema_of(drinks()).pairs
        assert one.pairs == tuple((float(item), float(size)) for item in range(4) for size in range(3))
        assert np.array_equal(np.reshape(one.codes, (4, 3)), PRICES[:, [2, 1, 0]])  # l, m, s
        assert np.isnan(one.said_by_pair(np.array([7.0, np.nan]), np.array([0.0, 0.0]))).all()

    def test_rows_of_another_table_that_depart_are_counted(self) -> None:
        frame = drinks()
        schema = schema_of(frame)
        assert departures(from_frame(frame), schema) == [0, 0]
        other = frame[["item", "size", "price"]].assign(quantity=np.nan, total=np.nan)
        other.loc[[7, 8], "price"] = 9.9
        assert departures(from_frame(other), schema) == [0, 2]

    def test_not_where_rows_are_off_again_and_again(self) -> None:
        frame = kinds()
        frame.loc[17, "price"] = 2.7
        assert [one.but for one in schema_of(frame).pairs] == [1]
        frame.loc[frame.index % 50 == 17, "price"] = 2.7
        assert not schema_of(frame).pairs

    def test_not_what_one_column_decides(self) -> None:
        frame = drinks()[["item", "size", "quantity"]]
        frame["price"] = frame["item"].map({"espresso": 2.2, "latte": 3.1, "mocha": 3.1, "tea": 1.8})
        assert [one.names for one in schema_of(frame).relations] == [("price", "item")]

    def test_not_where_both_follow_from_the_column(self) -> None:
        frame = runners()
        frame["class"] = frame["sex"] + "-" + frame["band"]
        assert {one.names for one in schema_of(frame).relations} == {("sex", "class"), ("band", "class")}

    def test_not_what_a_sum_says(self) -> None:
        rng = np.random.default_rng(0)
        frame = pd.DataFrame({"a": rng.integers(0, 5, 300), "b": rng.integers(0, 5, 300)})
        frame["c"] = frame.a + frame.b
        assert [one.how for one in schema_of(frame).relations] == ["sum"]

    def test_not_what_a_sum_of_what_follows_says(self) -> None:
        """Goals of a half, which a score tells, and the others add up."""
        frame = scores()
        assert not schema_of(frame).pairs and len(schema_of(frame).relations) == 3

    def test_of_several_pairs_the_one_with_the_fewest_combinations(self) -> None:
        """A cup is of one size, of which there are two cups."""
        frame = kinds()
        frame.insert(0, "cup", frame["size"] + np.random.default_rng(1).choice(["1", "2"], len(frame)))
        assert pairs_in(schema_of(frame)) == [("price", "item", "size")]

    def test_of_three_that_follow_from_each_other_one(self) -> None:
        rng = np.random.default_rng(0)
        a, b = rng.integers(0, 3, 300), rng.integers(0, 3, 300)
        frame = pd.DataFrame({"a": a, "b": b, "c": (a + b) % 3}).replace({0: "x", 1: "y", 2: "z"})
        assert pairs_in(schema_of(frame)) == [("c", "a", "b")]
        frame["a"] = np.array([1.5, 2.5, 3.5])[a]  # no whole number: nothing follows from it
        assert pairs_in(schema_of(frame)) == [("a", "b", "c")]

    @pytest.mark.parametrize("n", [15, 25])
    def test_not_in_few_rows(self, n: int) -> None:
        assert not schema_of(kinds(n)).pairs

    @pytest.mark.parametrize("seed", first(6, range(12)))
    def test_nothing_in_independent_columns(self, seed: int) -> None:
        """In few rows each pair of many levels has one value, and so has each pair where nearly all rows have it."""
        rng = np.random.default_rng(seed)
        n = 40 if seed % 2 else 150
        frame = pd.DataFrame({f"l{i}": rng.choice(list("abcdef"), n) for i in range(4)})
        for i, share in enumerate((0.5, 0.9, 0.97)):
            frame[f"flag{i}"] = np.where(rng.random(n) < share, "no", "yes")
            frame[f"count{i}"] = np.where(rng.random(n) < share, 0, rng.integers(1, 4, n))
        assert not schema_of(frame).pairs

    def test_rows_of_a_person_count_once(self) -> None:
        """What thirty persons have in all of their visits follows from little by accident."""
        rng = np.random.default_rng(0)
        who = np.repeat(np.arange(30), 8)
        own = {"sex": 2, "region": 12, "arm": 3, "centre": 12}
        frame = pd.DataFrame({name: rng.choice(list("abcdefghijkl")[:k], 30)[who] for name, k in own.items()})
        frame["weight"] = rng.normal(70, 9, len(frame)).round(1)
        assert schema_of(frame).pairs  # nothing says whose rows these are
        assert not schema_of(frame.assign(name=[f"person {i}" for i in who])).pairs

    def test_damage_is_named(self) -> None:
        raw = json.loads(schema_of(runners()).to_json())
        for names in (["class", "band", "sex"], ["class", "sex", "sex"], ["class", "sex"]):
            raw["relations"][0]["names"] = names
            with pytest.raises(RunError, match=r"schema\.json: damaged"):
                Schema.from_json(json.dumps(raw))


def kept_under_mask(
    frame: pd.DataFrame, missing: Bools, schema: Schema | None = None
) -> tuple[Schema, Floats, Floats, Floats]:
    """Codes of a table, draws of other rows, and fills, which keep to all relations and leave observed cells."""
    schema = schema or schema_of(frame)
    true = codes_in(frame, schema)
    before = spread(true, missing)
    draws = before.copy()
    assert keep_relations(draws, np.where(missing, 0.0, true), missing, schema).count() == 0
    assert kept_apart(schema, draws) == 0
    assert np.array_equal(draws[:, ~missing], np.repeat(true[None], 3, 0)[:, ~missing])
    return schema, true, before, draws


class TestKept:
    @pytest.mark.parametrize(("table", "names"), TABLES)
    @given(st.integers(0, 2**31), st.floats(0.05, 0.95))
    @settings(max_examples=4, deadline=None)
    def test_under_any_mask(
        self, table: Callable[..., pd.DataFrame], names: tuple[str, ...], seed: int, share: float
    ) -> None:
        frame = table()
        missing = np.random.default_rng(seed).random(frame.shape) < share
        schema, true, _, draws = kept_under_mask(frame, missing)
        first, *others = (schema.modelled.index(name) for name in names)
        known = ~missing[:, others].any(1)
        assert np.array_equal(draws[:, known, first], np.repeat(true[None, known, first], 3, 0))

    def test_a_draw_that_says_what_is_known_stays(self) -> None:
        frame = fees()
        for hidden in (["plan"], ["seats"], ["plan", "seats"]):
            missing = np.zeros(frame.shape, bool)
            missing[:, [list(frame).index(name) for name in hidden]] = True
            schema, true, before, draws = kept_under_mask(frame, missing)
            (one,) = schema.pairs
            places = [schema.modelled.index(name) for name in one.names]
            stays = one.said_in(before[..., places]) == true[:, places[0]]
            assert 0.05 < stays.mean() < 0.9
            assert np.array_equal(draws[stays], before[stays])

    def test_what_a_pair_says_that_was_not_seen_is_drawn(self) -> None:
        frame = kinds()
        unseen = ((frame["item"] == "latte") & (frame["size"] == "l")).to_numpy()
        schema = schema_of(frame[~unseen])
        missing = np.zeros(frame.shape, bool)
        missing[:, 2] = True
        _, true, before, draws = kept_under_mask(frame, missing, schema)
        assert np.array_equal(draws[:, unseen], before[:, unseen])
        assert np.array_equal(draws[:, ~unseen], np.repeat(true[None, ~unseen], 3, 0))
        missing[:, [0, 2]] = True, False  # no pair that was seen says this price: it may be the other one
        _, _, _, draws = kept_under_mask(frame, missing, schema)
        assert (draws[:, unseen, 0] == schema.encoded[0].texts.index("latte")).all()  # type: ignore[attr-defined]

    def test_beside_levels_that_follow_from_one_of_the_two(self) -> None:
        """A kind is known, and a price that items of both kinds have."""
        frame = kinds()
        missing = np.zeros(frame.shape, bool)
        missing[:, :2] = True
        _, true, _, draws = kept_under_mask(frame, missing)
        assert (true[:, 2] == 2.2).sum() > 20 and len(np.unique(draws[:, true[:, 2] == 2.2, 0])) == 2

    def test_a_total_is_met_by_another_pair(self) -> None:
        frame = drinks()
        missing = np.ones(frame.shape, bool)
        missing[:, 4] = False
        kept_under_mask(frame, missing)

    def test_a_cell_that_stays_blank_determines_nothing(self) -> None:
        frame = fees()
        schema = schema_of(frame)
        true = codes_in(frame, schema)
        missing, blank = np.zeros(true.shape, bool), np.zeros(true.shape, bool)
        missing[:, [1, 2]] = True
        blank[::2, 1] = True
        before = spread(true, missing)
        draws = before.copy()
        keep_but_for_blanks(
            DrawnRows(draws, true, missing, None, None), lambda own: np.broadcast_to(blank, own.shape), schema, None
        )
        assert np.array_equal(draws[:, ::2], before[:, ::2])
        assert not np.array_equal(draws[:, 1::2], before[:, 1::2]) and kept_apart(schema, draws[:, 1::2]) == 0


@pytest.mark.parametrize(("table", "names"), TABLES)
def test_which_draws_a_sampler_accepts(table: Callable[..., pd.DataFrame], names: tuple[str, ...]) -> None:
    """A level that says another number than the observed one is drawn anew, if some level says that one."""
    frame = table()
    schema = schema_alone(from_frame(frame))
    rows = encode(from_frame(frame), schema, seed=0).table
    x, missing = rows.x.to(torch.float32).double().numpy(), np.zeros(rows.x.shape, bool)
    first, second, third = (schema.layout.slices[schema.modelled.index(name)].start for name in names)
    missing[:, second] = True
    assert possible(x[None], missing, schema).all()
    other = x.copy()
    other[:, second] = x[::-1, second]
    codes = codes_in(frame, schema)
    (one,) = schema.pairs
    places = [schema.modelled.index(name) for name in names]
    changed = np.stack([codes[:, places[0]], codes[::-1, places[1]], codes[:, places[2]]], 1)
    agrees = one.said_in(changed) == changed[:, 0]
    np.testing.assert_array_equal(possible(other[None], missing, schema)[0], agrees)
    assert 0 < agrees.mean() < 1
    missing[:, first] = True  # which is computed
    assert possible(other[None], missing, schema).all()
    missing[:, [first, second, third]] = False  # an observed row may depart
    assert possible(other[None], missing, schema).all()


def test_they_are_named_in_words() -> None:
    assert "'price' follows from 'item' and 'size'" in every_kept(schema_of(drinks()))
