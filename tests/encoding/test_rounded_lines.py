"""Which column a rule rounds, and by which factor, depends on the cells and not on the order of the columns, nor on how
what is half way between two values was rounded."""

from __future__ import annotations

from collections.abc import Callable
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal

import numpy as np
import pandas as pd
import pytest

from tests.encoding.test_relations import codes_in, holed, schema_of
from tests.selection import first
from vgi_cli.columns.relations import Relation
from vgi_cli.encoding.infer import infer_schema
from vgi_cli.encoding.keeping import keep_relations
from vgi_cli.encoding.relations import departing
from vgi_cli.table.frames import from_frame

N = 500


def labels(seed: int = 0) -> pd.DataFrame:
    """Labels of food: energy in two units, each by a rule of its own, rounded to whole numbers."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({name: rng.gamma(2, size, N).round(1) for name, size in (("fat", 9), ("carbs", 20))})
    frame["protein"], frame["fibre"] = rng.gamma(2, 5, N).round(1), rng.gamma(2, 1, N).round(1)
    parts = frame[["fat", "carbs", "protein", "fibre"]].to_numpy()
    frame["kcal"] = (parts @ [9, 4, 4, 2]).round().astype(int)
    frame["kj"] = (parts @ [37, 17, 17, 8]).round().astype(int)
    frame["portion"] = rng.integers(30, 400, N)
    frame["per_portion"] = (0.01 * frame.kcal * frame.portion).round().astype(int)
    return frame


def terms(frame: pd.DataFrame) -> set[tuple[str, float, frozenset[tuple[str, float]]]]:
    """The first column, the constant and the terms of each relation."""
    relations = schema_of(frame).relations
    return {(one.names[0], one.constant, frozenset(zip(one.names, one.weights, strict=True))) for one in relations}


@pytest.mark.parametrize(("seed", "share"), first(1, [(3, 0.2), (0, 0.0), (1, 0.1), (0, 0.2), (1, 0.2), (2, 0.2)]))
def test_the_order_of_columns_does_not_matter(seed: int, share: float) -> None:
    frame = holed(labels(seed), seed, share)
    own = terms(frame)
    assert {first for first, *_ in own} == {"kcal", "kj", "per_portion"}
    weights = {first: dict(rest) for first, _, rest in own}
    assert weights["kcal"] == {"kcal": 1, "fat": -9, "carbs": -4, "protein": -4, "fibre": -2}
    assert weights["kj"] == {"kj": 1, "fat": -37, "carbs": -17, "protein": -17, "fibre": -8}
    rng = np.random.default_rng(seed)
    for order in (frame.columns[::-1], ["kj", "kcal", *frame.columns[:4], "per_portion", "portion"]):
        assert terms(frame[list(order)]) == own
    assert terms(frame[list(rng.permutation(frame.columns))]) == own


def test_a_column_that_a_kept_rule_has_is_not_named_as_nearly_a_line() -> None:
    _, notes = infer_schema(from_frame(labels()[["kj", "fat", "carbs", "fibre", "protein"]]))
    assert not any("linear function" in note for note in notes)


def test_of_two_units_the_one_is_rounded_of_which_the_rule_leaves_most() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"kw": rng.integers(40, 200, N)})
    frame["hp"] = (1.35962 * frame.kw).round().astype(int)
    for order in (["kw", "hp"], ["hp", "kw"]):
        (relation,) = schema_of(frame[order]).relations
        assert relation.names == ("hp", "kw") and relation.constant == 0


def salt(rounding: str, seed: int = 0, zero: bool = False) -> pd.DataFrame:
    sodium = np.random.default_rng(seed).integers(-900 if zero else 0, 900, N)
    cent = Decimal("0.01")
    return pd.DataFrame(
        {
            "sodium": sodium,
            "salt": [float((Decimal(int(one)) / 400).quantize(cent, rounding)) for one in sodium],
        }
    )


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("rounding", [ROUND_HALF_UP, ROUND_HALF_EVEN])
@pytest.mark.parametrize("order", [["sodium", "salt"], ["salt", "sodium"]])
def test_half_way_is_rounded_as_it_is_in_the_table(order: list[str], rounding: str, seed: int) -> None:
    frame = salt(rounding, seed)
    schema = schema_of(holed(frame, seed, 0.1)[order])
    assert [one.words() for one in schema.relations] == ["'salt' = 0.0025 'sodium', rounded"]
    observed = codes_in(frame[order], schema)
    missing = np.zeros(observed.shape, bool)
    missing[:, order.index("salt")] = True
    draws = np.where(missing, 0.5, observed)[None]
    assert not keep_relations(draws, observed, missing, schema).rows().any()
    np.testing.assert_allclose(draws[0], observed, atol=1e-9)


def test_half_way_below_zero_is_rounded_away_from_it() -> None:
    frame = salt(ROUND_HALF_UP, zero=True)
    (relation,) = schema_of(frame).relations
    assert relation.words() == "'salt' = 0.0025 'sodium', rounded" and relation.half_way == "away"


@pytest.mark.parametrize(
    "rounded", [lambda x: float(f"{x:.2f}"), lambda x: round(x, 2), lambda x: float(np.round(x, 2))]
)
def test_half_way_by_the_noise_of_binary_numbers(rounded: Callable[[float], float]) -> None:
    sodium = np.random.default_rng(0).integers(0, 900, N)
    frame = pd.DataFrame({"salt": [rounded(one * 2.5 / 1000) for one in sodium.tolist()], "sodium": sodium})
    (relation,) = schema_of(frame).relations
    assert relation.words() == "'salt' = 0.0025 'sodium', rounded" and relation.half_way is None


@pytest.mark.parametrize("seed", range(6))
def test_a_line_through_zero_comes_before_one_with_a_constant_of_more_digits_than_the_column(seed: int) -> None:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"kw": rng.integers(40, 400, N)})
    frame["hp"] = (1.35962 * frame.kw).round().astype(int)
    (relation,) = schema_of(holed(frame, seed, 0.2)).relations
    assert relation.constant == 0
    assert ((-relation.weights[1] * frame.kw).round() == frame.hp).mean() > 0.99


def test_half_way_is_of_what_is_rounded_to_the_nearest_value() -> None:
    with pytest.raises(ValueError, match="does not fit"):
        Relation(names=("a", "b"), weights=(1, -2), half_way="even")


@pytest.mark.parametrize("seed", range(3))
def test_a_line_of_any_weights_is_found_where_both_columns_are_fine(seed: int) -> None:
    """Of each cell the other one says what it is, to half a step."""
    rng = np.random.default_rng(seed)
    percent = np.exp(rng.normal(np.log(6.2), 0.18, 500)).round(1)
    frame = pd.DataFrame(
        {"percent": percent, "mmol": np.round(10.929 * (percent - 2.15)), "age": rng.integers(20, 90, 500)}
    )
    (relation,) = schema_of(frame.mask(rng.random(frame.shape) < 0.1)).relations
    assert {*relation.names} == {"percent", "mmol"} and relation.how == "sum" and relation.rounded
    half = 0.5 if relation.names[0] == "mmol" else 0.05
    assert departing(relation, frame[list(relation.names)].to_numpy(float), half).mean() < 0.01
