"""Two cells that a sum and a product say together are solved for together."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tests.encoding.test_relations import codes_in, holed, schema_of
from vgi_cli.encoding.keeping import keep_relations

N = 300


def discounts(seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"subtotal": rng.lognormal(4, 0.6, N).round(2), "pct": rng.choice([5, 10, 15, 20], N)})
    frame["discount"] = (frame.subtotal * frame.pct / 100 + 1e-9).round(2)
    frame["net"] = (frame.subtotal - frame.discount).round(2)
    return frame


def rectangles(seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"a": rng.integers(20, 60, N), "b": rng.integers(61, 90, N)})
    frame["around"], frame["area"] = 2 * (frame.a + frame.b), frame.a * frame.b
    return frame


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("order", [["subtotal", "pct", "discount", "net"], ["net", "discount", "pct", "subtotal"]])
def test_a_subtotal_and_its_discount(order: list[str], seed: int) -> None:
    frame = discounts(seed)[order]
    schema = schema_of(holed(frame, seed, 0.1))
    observed = codes_in(frame, schema)
    missing = np.zeros(observed.shape, bool)
    missing[:, [order.index("subtotal"), order.index("discount")]] = True
    draws = np.where(missing, observed * np.random.default_rng(seed).lognormal(0, 0.2, (2, *observed.shape)), observed)
    assert not keep_relations(draws, observed, missing, schema).rows().any()
    at = order.index("subtotal")
    assert np.abs(draws[..., at] - observed[:, at]).max() < 0.011  # two of them may have the same net amount
    assert (np.abs(draws[..., at] - observed[:, at]) < 1e-6).mean() > 0.8


@pytest.mark.parametrize("seed", range(3))
def test_a_subtotal_and_its_discount_where_the_percentage_is_drawn_too(seed: int) -> None:
    frame = discounts(seed)
    schema = schema_of(holed(frame, seed, 0.1))
    observed = codes_in(frame, schema)
    missing = np.ones(observed.shape, bool)
    missing[:, 3] = False
    rng = np.random.default_rng(seed)
    draws = np.where(missing, observed * rng.lognormal(0, 0.2, (2, *observed.shape)), observed)
    draws[..., 1] = rng.choice([5, 10, 15, 20], draws.shape[:2])
    assert keep_relations(draws, observed, missing, schema).rows().mean() < 0.02


@pytest.mark.parametrize("seed", range(3))
def test_the_sides_of_a_rectangle(seed: int) -> None:
    frame = rectangles(seed)
    schema = schema_of(frame)
    observed = codes_in(frame, schema)
    missing = np.zeros(observed.shape, bool)
    missing[:, :2] = True
    draws = np.where(missing, observed + np.random.default_rng(seed).normal(0, 0.3, (2, *observed.shape)), observed)
    assert not keep_relations(draws, observed, missing, schema).rows().any()
    np.testing.assert_allclose(np.sort(draws[..., :2], -1), np.broadcast_to(observed[:, :2], draws[..., :2].shape))
