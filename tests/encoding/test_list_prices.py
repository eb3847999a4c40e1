"""Prices that are some of few values, as factors of products: fills are such prices, and the products follow."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from vgi_cli.encoding.infer import schema_alone
from vgi_cli.encoding.keeping import keep_relations
from vgi_cli.encoding.redundant import codes_of
from vgi_cli.table.frames import from_frame

PRICES = [9.9, 19.9, 49.0, 129.0, 899.0]
VAT = [20.0, 21.0, 19.0]


def orders(seed: int = 12, n: int = 600) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"qty": 1 + rng.poisson(1.2, n).astype(float)})
    frame["price"] = rng.choice(PRICES, n, p=[0.3, 0.3, 0.2, 0.15, 0.05])
    frame["discount"] = rng.choice([0.0, 5.0, 10.0, 20.0], n, p=[0.6, 0.15, 0.15, 0.1])
    frame["coupon"] = np.where(frame.discount > 0, "SAVE" + frame.discount.astype(int).astype(str), None)
    frame["subtotal"] = (frame.qty * frame.price * (1 - frame.discount / 100)).round(2)
    frame["vat"] = rng.choice(VAT, n)
    frame["total"] = (frame.subtotal * (1 + frame.vat / 100)).round(2)
    frame["refund"] = -frame.total
    return frame


FRAME = orders()
SCHEMA = schema_alone(from_frame(FRAME))
TRUE = np.stack([codes_of(from_frame(FRAME), one) for one in SCHEMA.encoded], 1)
AT = {name: place for place, name in enumerate(SCHEMA.modelled)}


def kept(missing: list[str], seed: int = 0) -> pd.DataFrame:
    """The rows with some columns drawn at random, the price among those that occur, and relations kept to."""
    rng = np.random.default_rng(seed)
    holes = np.zeros(TRUE.shape, bool)
    holes[:, [AT[name] for name in missing]] = True
    holes[:, AT["coupon"]] |= np.isnan(TRUE[:, AT["coupon"]])
    draws = np.where(np.isnan(TRUE), 0.0, TRUE)
    for name in missing:
        own = TRUE[~np.isnan(TRUE[:, AT[name]]), AT[name]]
        draws[:, AT[name]] = rng.choice(own, len(TRUE))
    draws = draws[None]
    apart = keep_relations(draws, TRUE, holes, SCHEMA, lambda name: np.full((1, len(TRUE)), 0.5))
    assert apart.count() == 0
    return pd.DataFrame(draws[0], columns=list(AT))


def test_the_relations_are_found() -> None:
    found = {one.names[0]: set(one.names[1:]) for one in SCHEMA.relations}
    assert found["subtotal"] == {"qty", "price", "discount"} and found["total"] == {"vat", "subtotal"}


def test_whole_rows_have_list_prices() -> None:
    """As they are sampled: what is paid follows from the price, not the other way round."""
    rows = kept(list(AT))
    assert rows.price.isin(PRICES).all()  # it was 1 in 50
    assert np.allclose(rows.subtotal, rows.qty * rows.price * (1 - rows.discount / 100), atol=0.0051)


@pytest.mark.parametrize("missing", [["price", "discount", "coupon"], ["price", "qty"]])
def test_where_the_product_is_known_other_factors_are_tried(missing: list[str]) -> None:
    rows = kept(missing)
    assert rows.price.isin(PRICES).all()  # it was 6 in 10
    assert (rows.price == FRAME.price).mean() > 0.9


def test_observed_cells_that_say_another_price_are_kept_to() -> None:
    observed = TRUE.copy()
    observed[0, [AT[name] for name in ("qty", "discount", "subtotal")]] = 2.0, 0.0, 60.0
    holes = np.zeros(TRUE.shape, bool)
    holes[:, AT["price"]] = True
    holes[0, [AT["total"], AT["refund"]]] = True
    draws = observed[None].copy()
    keep_relations(draws, observed, holes, SCHEMA)
    assert draws[0, 0, AT["price"]] == 30.0
