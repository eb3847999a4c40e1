"""`--leave-blank`: what is computed from a cell that stays blank is drawn by the model instead."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import vgi_cli


def sales(n: int = 400) -> pd.DataFrame:
    """Rows of sales, and totals of them, which have no price."""
    rng = np.random.default_rng(5)
    product = rng.choice(["bike", "helmet", "Total"], n, p=[0.4, 0.35, 0.25])
    frame = pd.DataFrame({"product": product, "units": rng.poisson(20, n) + 1.0})
    frame["price"] = (np.where(product == "bike", 400, 38) + rng.normal(0, 3, n)).round(1)
    frame["amount"] = (frame.units * frame.price).round(2)
    total = frame["product"] == "Total"
    frame.loc[total, "price"] = np.nan
    frame.loc[total, "amount"] = rng.normal(50_000, 1000, int(total.sum())).round(2)
    frame["cost"] = (frame.amount * rng.uniform(0.4, 0.6, n)).round(2)
    frame["margin"] = (frame.amount - frame.cost).round(2)
    return frame


@pytest.mark.parametrize("point", [None, "mean"])
def test_it_is_drawn(point: str | None, tmp_path: Path) -> None:
    frame = sales()
    hidden = frame.copy()
    lost = np.random.default_rng(6).random(len(frame)) < 0.3
    hidden.loc[lost, ["amount", "cost", "margin"]] = np.nan
    settings = {"model.components": 3, "bootstrap": "none"}
    run = vgi_cli.fit(hidden, out=tmp_path / "run", model="mixture", set=settings)
    blanks = {"price": "product=Total"}
    tables = run.impute(m=3, leave_blank=blanks) if point is None else run.impute(m=20, leave_blank=blanks, point=point)
    total = frame["product"] == "Total"
    for one in tables:
        assert (one.price.isna() == total).all()
        amount, units = one.amount[total & lost], one.units[total & lost]
        assert amount.between(40_000, 60_000).mean() > 0.9
        assert (
            ((amount / units).round(2) * units - amount).abs() < 0.001
        ).mean() < 0.3  # units times a price: it was 1
        assert np.allclose(one.margin, one.amount - one.cost, atol=0.0051)
        assert np.allclose((one.units * one.price)[~total], one.amount[~total], atol=0.0051)
