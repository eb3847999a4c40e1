"""Numbers that follow from the levels of another column: found where more rows say so than chance explains, and kept
by fills."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.encoding.test_relations import codes_in, holed, schema_of
from vgi_cli.columns.numerals import Bools, Floats
from vgi_cli.columns.schema import Schema
from vgi_cli.encoding.keeping import keep_relations
from vgi_cli.encoding.redundant import kept_words
from vgi_cli.encoding.relations import departing, departures
from vgi_cli.errors import RunError
from vgi_cli.table.frames import from_frame

PRICES = (2.49, 2.49, 5.49, 0.89, 12.0, 5.49, 24.5, 2.49)
"""Of eight products, of which some cost the same."""
SINCE = pd.to_datetime(["2019-03-01", "2020-06-15", "2019-03-01", "2021-01-10"] * 2)


def priced(n: int = 300, seed: int = 0) -> pd.DataFrame:
    """Products with a price, and a day since when they are sold; and what has to do with none."""
    rng = np.random.default_rng(seed)
    product = rng.integers(0, 8, n)
    return pd.DataFrame(
        {
            "product": [f"p{i}" for i in product],
            "price": np.array(PRICES)[product],
            "since": SINCE[product],
            "quantity": rng.integers(1, 20, n),
            "shop": rng.choice(["a", "b", "c"], n),
        }
    )


def scores(n: int = 400, seed: int = 0) -> pd.DataFrame:
    """A score at half time, its two numbers, and goals that add up."""
    rng = np.random.default_rng(seed)
    first, second = rng.poisson(1.0, n).clip(0, 3), rng.poisson(1.2, n)
    other = rng.poisson(0.8, n).clip(0, 3)
    frame = pd.DataFrame({"second": second, "total": first + second, "first": first, "other": other})
    frame["score"] = [f"{a}-{b}" for a, b in zip(first, other, strict=True)]
    return frame[frame.groupby("score").score.transform("size") > 1]


def spread(true: Floats, missing: Bools, m: int = 3) -> Floats:
    """[m, N, columns] draws: where cells are missing, those of other rows."""
    return np.where(missing, np.random.default_rng(1).permuted(np.repeat(true[None], m, 0), axis=1), true)


def kept_apart(schema: Schema, draws: Floats) -> int:
    """Rows of all draws that depart from a relation."""
    at = {name: i for i, name in enumerate(schema.modelled)}
    return sum(int(departing(one, draws[..., [at[n] for n in one.names]], 0.0).sum()) for one in schema.relations)


class TestFound:
    @pytest.mark.parametrize("share", [0.0, 0.2])
    def test_prices_and_days_of_products(self, share: float) -> None:
        schema = schema_of(holed(priced(), share=share))
        assert {one.names: one.how for one in schema.relations} == {
            ("price", "product"): "groups",
            ("since", "product"): "groups",
        }
        assert schema.relations[0].codes == PRICES
        assert "'price' follows from 'product'; 'since' follows from 'product' (" in kept_words(schema)[0]
        assert Schema.from_json(schema.to_json()).relations == schema.relations
        assert departures(from_frame(priced()), schema) == [0, 0]
        other = priced().assign(price=lambda frame: frame.price.mask(frame.index == 7, 3.33))
        assert departures(from_frame(other), schema) == [1, 0]

    def test_beside_a_sum_of_the_same_number(self) -> None:
        schema = schema_of(scores())
        assert {(one.names, one.how) for one in schema.relations} == {
            (("first", "second", "total"), "sum"),
            (("first", "score"), "groups"),
            (("other", "score"), "groups"),
        }

    def test_not_where_rows_are_off_again_and_again(self) -> None:
        frame = priced()
        frame.loc[17, "price"] = 3.33
        assert {one.names[0]: one.but for one in schema_of(frame).relations} == {"price": 1, "since": 0}
        same = frame.index[frame["product"] == frame["product"][17]]
        frame.loc[same[:2], "price"] = 3.33
        assert [one.names[0] for one in schema_of(frame).relations] == ["since"]

    def test_of_levels_seen_once_nothing_is_said(self) -> None:
        frame = priced()
        frame.loc[frame.index[:2], ["product", "price"]] = [["rare", 7.77], ["never", np.nan]]
        frame.loc[[50, 51], ["product", "price"]] = [["never", np.nan]] * 2
        relation = schema_of(frame).relations[0]
        assert relation.names == ("price", "product")
        assert relation.codes == (None, *PRICES, None)  # never, p0 to p7, rare

    def test_not_in_few_rows(self) -> None:
        frame = priced()
        assert [one.names[0] for one in schema_of(frame.head(100)).relations] == ["price", "since"]
        assert not schema_of(frame.head(17)).relations

    @pytest.mark.parametrize("seed", range(8))
    def test_nothing_in_independent_columns(self, seed: int) -> None:
        """Numbers of which most are the same, beside levels of which many are rare, in few rows."""
        rng = np.random.default_rng(seed)
        n = 60
        share = 0.6 ** np.arange(25)
        frame = pd.DataFrame(
            {f"level{i}": rng.choice(list("abcdefghijklmnopqrstuvwxy"), n, p=share / share.sum()) for i in range(6)}
        )
        for i, zeros in enumerate((0.5, 0.8, 0.9, 0.95, 0.97)):
            frame[f"number{i}"] = np.where(rng.random(n) < zeros, 0, rng.integers(1, 5, n))
        assert not [one for one in schema_of(frame).relations if one.how == "groups"]

    def test_damage_is_named(self) -> None:
        text = schema_of(priced()).to_json()
        place = text.index('"relations"')
        for old, new in (('"product"\n', '"shop"\n'), ('"product"\n', '"quantity"\n')):
            assert old in text[place:]
            with pytest.raises(RunError, match=r"schema\.json: damaged \(relations do not fit"):
                Schema.from_json(text[:place] + text[place:].replace(old, new, 1))


def kept_under_mask(frame: pd.DataFrame, seed: int, share: float) -> tuple[Floats, Bools, Floats]:
    """Codes of a table, a random mask, and fills, which keep to all relations and leave observed cells."""
    schema = schema_of(frame)
    true = codes_in(frame, schema)
    missing = np.random.default_rng(seed).random(true.shape) < share
    draws = spread(true, missing)
    assert keep_relations(draws, np.where(missing, 0.0, true), missing, schema).count() == 0
    assert kept_apart(schema, draws) == 0
    assert np.array_equal(draws[:, ~missing], np.repeat(true[None], 3, 0)[:, ~missing])
    return true, missing, draws


class TestKept:
    @given(st.integers(0, 2**31), st.floats(0.05, 0.95))
    @settings(max_examples=25, deadline=None)
    def test_under_any_mask(self, seed: int, share: float) -> None:
        true, missing, draws = kept_under_mask(priced(), seed, share)
        known = ~missing[:, 0]
        assert np.array_equal(draws[:, known, 1:3], np.repeat(true[None], 3, 0)[:, known, 1:3])

    @pytest.mark.parametrize("hidden", [("first",), ("score",), ("first", "second"), ("first", "score"), ("total",)])
    def test_with_sums(self, hidden: tuple[str, ...]) -> None:
        frame = scores()
        schema = schema_of(frame)
        true = codes_in(frame, schema)
        missing = np.zeros(true.shape, bool)
        missing[:, [schema.modelled.index(name) for name in hidden]] = True
        draws = spread(true, missing)
        assert keep_relations(draws, np.where(missing, 0.0, true), missing, schema).count() == 0
        assert kept_apart(schema, draws) == 0
        assert np.array_equal(draws, np.repeat(true[None], 3, 0))  # all that is hidden is determined

    def test_a_number_that_no_level_has_leaves_those_of_which_none_is_known(self) -> None:
        frame = priced()
        frame.loc[0, ["product", "price"]] = ["rare", 7.77]
        schema = schema_of(frame)
        true = codes_in(frame, schema)
        missing = np.zeros(true.shape, bool)
        missing[:, 0] = True
        draws = spread(true, missing)
        keep_relations(draws, np.where(missing, 0.0, true), missing, schema)
        assert (draws[:, 0, 0] == 8).all()  # rare
        others = [one for one in range(len(frame)) if one]
        assert not np.isin(draws[:, others, 0], 8).any()
