"""Columns that are logarithms of others are found, and fills keep to them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.encoding.test_digits import filled, schema_of, to_digits
from tests.encoding.test_relations import codes_in, holed
from vgi_cli.columns.numerals import Floats
from vgi_cli.columns.relations import BASES, Base, Relation
from vgi_cli.columns.schema import Schema
from vgi_cli.encoding.keeping import keep_relations
from vgi_cli.encoding.relations import departing, implied

N = 120


def table(seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    frame = {
        "x": np.exp(rng.normal(8, 1.5, N)).round(1),
        "count": rng.poisson(4, N),
        "other": rng.normal(size=N).round(2),
    }
    return pd.DataFrame(frame)


CASES: dict[str, Callable[[pd.DataFrame], Floats]] = {
    "'y' = ln('x'), rounded": lambda frame: np.log(frame.x).round(4).to_numpy(),
    "'y' = ln('x')": lambda frame: np.log(frame.x).to_numpy(),
    "'y' = log10('x'), rounded": lambda frame: np.log10(frame.x).round(3).to_numpy(),
    "'y' = log2('x'), rounded to 6 digits": lambda frame: to_digits(np.log2(frame.x), 6),
    "'y' = log10(1 + 'count'), rounded": lambda frame: np.log10(1 + frame["count"]).round(4).to_numpy(),
    "'y' = ln(1 + 'count'), rounded": lambda frame: np.log1p(frame["count"]).round(6).to_numpy(),
}


def with_log(words: str) -> pd.DataFrame:
    return table().assign(y=CASES[words])


@pytest.mark.parametrize("words", CASES)
def test_they_are_found_in_a_table_with_holes(words: str) -> None:
    schema = schema_of(holed(with_log(words)))
    assert [one.words() for one in schema.relations] == [words]
    assert Schema.from_json(schema.to_json()).relations == schema.relations


@pytest.mark.parametrize(
    "y",
    [
        lambda frame: (np.log(frame.x) + 0.0002 * (frame.other > 0)).round(4),
        lambda frame: np.log(frame.x).round(4).where(frame.index != 7, 1.5),  # but for one row
        lambda frame: np.log(frame.x.where(frame.index != 7, 1.0) + 3).round(4),
    ],
)
def test_what_is_near_is_none(y: Callable[[pd.DataFrame], pd.Series]) -> None:
    assert schema_of(table().assign(y=y)).relations == ()


def test_a_number_that_was_computed_from_its_logarithm_is_left_to_the_model() -> None:
    """It is more exact than what the logarithm, of two decimals, says."""
    y = np.log(table().x).round(2)
    assert schema_of(pd.DataFrame({"y": y, "x": np.exp(y).round(4), "other": table().other})).relations == ()


@pytest.mark.parametrize("words", CASES)
def test_a_single_hole_is_what_the_other_cell_says(words: str) -> None:
    frame = with_log(words)
    schema = schema_of(frame)
    (relation,) = schema.relations
    true, fills = filled(frame, schema, "y")
    assert np.allclose(fills, true, rtol=0, atol=1e-12)
    true, fills = filled(frame, schema, relation.names[1])
    rough = 0.002 if "log10" in words else 1e-4
    assert np.abs(fills / np.maximum(true, 1e-9) - 1)[true > 0].max() <= rough
    assert np.array_equal(fills, true) == (words == "'y' = ln('x')" or "count" in words)


SCHEMAS: list[Schema] = []


@settings(max_examples=25)
@given(seed=st.integers(0, 10**6), share=st.floats(0.1, 0.9))
def test_fills_keep_to_it_under_any_mask(seed: int, share: float) -> None:
    frame = with_log("'y' = ln('x'), rounded")
    schema = SCHEMAS[0] if SCHEMAS else schema_of(frame)
    SCHEMAS[:] = [schema]
    true, rng = codes_in(frame, schema), np.random.default_rng(seed)
    missing = rng.random(true.shape) < share
    draws = np.where(missing, rng.permutation(true), true)[None].copy()
    assert not keep_relations(draws, np.where(missing, 0.0, true), missing, schema).count()
    (relation,) = schema.relations
    own = [schema.modelled.index(name) for name in relation.names]
    assert not departing(relation, draws[0][:, own], 0.00005).any()
    assert np.array_equal(draws[0][~missing], true[~missing])


def test_a_number_moves_for_an_order_as_far_as_its_logarithm_leaves_it() -> None:
    rng = np.random.default_rng(0)
    x = np.exp(rng.normal(3, 1, 300)).round(1)
    frame = pd.DataFrame({"low x": x, "high x": (x * rng.uniform(1, 1.1, 300)).round(1), "y": np.log10(x).round(1)})
    schema = schema_of(frame)
    assert [one.words() for one in (*schema.relations, *schema.orders)] == [
        "'y' = log10('low x'), rounded",
        "'low x' ≤ 'high x'",
    ]
    _, fills = filled(frame, schema, "low x")
    assert (fills <= frame["high x"][::3]).all() and np.abs(np.log10(fills) - frame.y[::3]).max() <= 0.0501


@given(st.sampled_from([*BASES]), st.sampled_from([0.0, 1.0]), st.floats(1e-6, 1e9))
def test_each_cell_is_solved_from_the_other(base: Base, added: float, x: float) -> None:
    relation = Relation(names=("y", "x"), how="log", base=base, constant=added)
    y = {"e": np.log, "2": np.log2, "10": np.log10}[base](x + added)
    values = np.array([y, x])
    assert relation.solved(values, 0, values[0]) == pytest.approx(y, rel=1e-12, abs=1e-12)
    assert relation.solved(values, 1, values[0]) == pytest.approx(x, rel=1e-9, abs=1e-9)
    assert not departing(relation, values, 0.0) and departing(relation, values + np.array([1e-6, 0.0]), 0.0)
    assert departing(relation, np.array([0.0, -5.0]), 0.0)  # it has none
    assert not implied(relation, [relation], {})


@pytest.mark.parametrize(
    "wrong", [{"base": None}, {"shift": 0.1}, {"weights": (1.0, -1.0)}, {"names": ("y", "x", "z")}]
)
def test_others_do_not_fit_their_columns(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="does not fit its columns"):
        Relation(**{"names": ("y", "x"), "how": "log", "base": "e", **wrong})  # type: ignore[arg-type]
