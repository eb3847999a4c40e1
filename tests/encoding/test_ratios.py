"""Changes, margins and shares: columns that are a ratio of two others, or what that is more or less than one, are found
where they may be negative too, and fills keep to them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.encoding.test_digits import filled, schema_of
from tests.encoding.test_relations import codes_in, holed
from vgi_cli.columns.relations import Relation
from vgi_cli.columns.schema import Schema
from vgi_cli.encoding.keeping import keep_relations
from vgi_cli.encoding.relations import departing

N = 120


def table(seed: int = 0, n: int = N) -> pd.DataFrame:
    """Sales of two years, a price and its cost, a value at the beginning and its change; and what is of no interest."""
    rng = np.random.default_rng(seed)
    before = np.exp(rng.normal(8, 1.5, n)).round(1)
    price = np.exp(rng.normal(3, 0.5, n)).round(2)
    return pd.DataFrame(
        {
            "before": before,
            "sales": (before * (1 + rng.normal(0.04, 0.12, n))).round(1),
            "price": price,
            "cost": (price * rng.uniform(0.4, 1.2, n)).round(2),
            "base": rng.normal(50, 8, n).round(1),
            "change": rng.normal(-2, 6, n).round(1),
            "other": rng.normal(size=n).round(2),
        }
    )


def growth(frame: pd.DataFrame) -> pd.Series:
    return frame.sales / frame.before - 1


def margin(frame: pd.DataFrame) -> pd.Series:
    return 1 - frame.cost / frame.price


def changed(frame: pd.DataFrame) -> pd.Series:
    return frame.change / frame.base


CASES = {
    "'y' = 100 × ('sales' / 'before' - 1), rounded": (lambda frame: 100 * growth(frame), 1),
    "'y' = 'sales' / 'before' - 1, rounded": (growth, 4),
    "'y' = 'sales' / 'before' - 1": (growth, None),
    "'y' = 100 × (1 - 'cost' / 'price'), rounded": (lambda frame: 100 * margin(frame), 1),
    "'y' = 1 - 'cost' / 'price', rounded": (margin, 3),
    "'y' = 100 × 'change' / 'base', rounded": (lambda frame: 100 * changed(frame), 1),
    "'y' = 'change' / 'base', rounded": (changed, 4),
}
"""What is found, the column and its decimals (None: it has all)."""


def table_of(words: str) -> pd.DataFrame:
    """The table with a column `y`."""
    what, decimals = CASES[words]
    frame = table()
    return frame.assign(y=what(frame) if decimals is None else what(frame).round(decimals))


def words_of(frame: pd.DataFrame) -> list[str]:
    return [one.words() for one in schema_of(frame).relations]


class TestFound:
    @pytest.mark.parametrize("words", CASES)
    def test_in_a_table_with_holes(self, words: str) -> None:
        frame = table_of(words)
        assert words_of(holed(frame)) == [words]

    def test_as_what_follows_from_a_change_that_is_given(self) -> None:
        """Sales in whole thousands are less exact than a change with one decimal."""
        frame = table()[["before", "other"]].round(0)
        frame["change"] = np.random.default_rng(1).normal(4, 12, N).round(1)
        frame["sales"] = (frame.before * (1 + frame.change / 100)).round(0)
        assert words_of(holed(frame)) == ["'sales' = 'before' × (1 + 'change' / 100), rounded"]

    def test_of_a_sum_that_holds_too(self) -> None:
        frame = table().assign(after=lambda frame: (frame.base + frame.change).round(1))
        frame["y"] = (100 * changed(frame)).round(1)
        assert set(words_of(holed(frame))) == {
            "'after' = 'base' + 'change'",
            "'y' = 100 × 'change' / 'base', rounded",
        }

    def test_not_of_what_is_near(self) -> None:
        frame = table()
        noise = np.random.default_rng(1).normal(size=N)
        frame["y"] = (100 * growth(frame) + 0.1 * noise).round(1)
        frame["z"] = (100 * margin(frame) + 3).round(1)  # a constant that is none of a change
        assert words_of(holed(frame)) == []

    def test_not_of_steps_as_coarse_as_the_changes(self) -> None:
        frame = table().assign(y=lambda frame: (100 * growth(frame)).round(-1))
        assert words_of(holed(frame)) == []

    def test_not_of_a_share_in_steps_as_coarse(self) -> None:
        frame = table(n=400).assign(y=lambda frame: (10 * changed(frame)).round())
        assert words_of(frame) == []

    def test_a_change_may_have_a_factor(self) -> None:
        frame = table().assign(y=lambda frame: (100 * (frame.sales / frame.before / 1.03 - 1)).round(1))
        assert words_of(frame) == ["'y' = 100 × ('sales' / 1.03 / 'before' - 1), rounded"]

    def test_beside_cells_that_have_none(self) -> None:
        """Nothing is divided by zero: such cells are missing."""
        frame = table()
        frame.loc[::9, "before"] = 0.0
        frame["y"] = (100 * growth(frame)).where(frame.before > 0).round(1)
        assert words_of(frame) == ["'y' = 100 × ('sales' / 'before' - 1), rounded"]


class TestKept:
    @pytest.mark.parametrize("words", CASES)
    def test_a_single_hole_is_what_the_others_say(self, words: str) -> None:
        frame, decimals = table_of(words), CASES[words][1]
        schema = schema_of(frame)
        (relation,) = schema.relations
        true, fills = filled(frame, schema, "y")
        assert np.allclose(fills, true, rtol=0, atol=1e-12)
        for name in relation.names[1:]:
            _, fills = filled(frame, schema, name)
            rows, at = codes_in(frame, schema), [schema.modelled.index(each) for each in relation.names]
            rows[::3, schema.modelled.index(name)] = fills
            departs = departing(relation, rows[:, at], 0.0 if decimals is None else 0.5 * 0.1**decimals)
            assert not departs[frame.y != 0].any()  # no change of zero says of what it is one

    def test_no_change_of_nothing_is_said(self) -> None:
        """A fill beside a base of zero stays as it was drawn, without a warning of numpy's."""
        rng = np.random.default_rng(0)
        frame = pd.DataFrame({"before": rng.integers(1, 17, 300), "sales": rng.integers(0, 30, 300)})
        frame["y"] = (100 * growth(frame)).round(1)
        schema = schema_of(frame)
        (relation,) = schema.relations
        assert relation.half_way is not None  # 1 / 16 is 6.25 %
        rows = codes_in(frame, schema)
        rows[::3, schema.modelled.index("before")] = 0.0
        missing = np.zeros(rows.shape, bool)
        missing[::3, schema.modelled.index("y")] = True
        draws = rows[None].copy()
        keep_relations(draws, rows, missing, schema)
        assert np.array_equal(draws[0], rows)

    @settings(max_examples=25)
    @given(seed=st.integers(0, 10**6), share=st.floats(0.1, 0.9))
    def test_under_any_mask(self, seed: int, share: float) -> None:
        rng = np.random.default_rng(seed)
        frame = table().assign(y=lambda frame: (100 * growth(frame)).round(1))
        schema = schema_of_growth(frame)
        true = codes_in(frame, schema)
        missing = rng.random(true.shape) < share
        draws = np.where(missing, rng.permutation(true), true)[None].copy()
        keep_relations(draws, np.where(missing, 0.0, true), missing, schema)
        (relation,) = schema.relations
        own = [schema.modelled.index(name) for name in relation.names]
        assert np.array_equal(draws[0][~missing], true[~missing])
        assert departing(relation, draws[0][:, own], 0.05).mean() <= 0.05  # limits of the columns may not let it be


SCHEMAS: list[Schema] = []


def schema_of_growth(frame: pd.DataFrame) -> Schema:
    """Inferred once."""
    if not SCHEMAS:
        SCHEMAS.append(schema_of(frame))
    return SCHEMAS[0]


@given(
    st.sampled_from([100.0, -100.0, 1.0, -1.0]),
    st.floats(0.1, 1e6),
    st.floats(0.1, 1e6),
)
def test_each_cell_is_solved_from_the_others(whole: float, above: float, below: float) -> None:
    """In closed form: y = whole (above / below - 1)."""
    y = whole * (above / below - 1)
    relation = Relation(
        names=("y", "a", "b"), how="product", weights=(1.0, -1.0, 1.0), constant=1.0, percent=(whole, 0.0, 0.0)
    )
    values = np.array([y, above, below])
    assert relation.solved(values, 0, values[0]) == pytest.approx(y, rel=1e-9, abs=1e-12 * abs(whole))
    assert relation.solved(values, 1, values[0]) == pytest.approx(above, rel=1e-6)
    assert relation.solved(values, 2, values[0]) == pytest.approx(below, rel=1e-6)
    assert not departing(relation, values, 0.0)
    assert departing(relation, values + np.array([0.01 * abs(whole), 0.0, 0.0]), 0.0)


def test_a_change_is_not_rounded_down() -> None:
    with pytest.raises(ValueError, match="does not fit its columns"):
        Relation(
            names=("y", "a", "b"),
            how="product",
            weights=(1.0, -1.0, 1.0),
            constant=1.0,
            percent=(100.0, 0.0, 0.0),
            rounded=True,
            shift=-0.05,
        )
