"""Columns of few values: under a normal law of the encoded column each comes as often as the column holds it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from vgi_cli.columns.base import Encoding
from vgi_cli.columns.numerals import Floats
from vgi_cli.columns.schema import Schema
from vgi_cli.encoding.encoder import box, decode, encode
from vgi_cli.encoding.infer import Said, schema_alone
from vgi_cli.table.frames import from_frame

N, DRAWS = 600, 20_000
COLUMNS = {
    "doses per kg": [(0.05, 0.16), (0.1, 0.28), (0.15, 0.16), (1.0, 0.14), (1.5, 0.09), (2.0, 0.17)],
    "doses": [(0, 0.2), (40, 0.5), (80, 0.1), (120, 0.2)],
    "cylinders": [(3, 0.02), (4, 0.55), (5, 0.1), (6, 0.13), (8, 0.2)],
    "scale": [(1, 0.05), (2, 0.4), (3, 0.12), (4, 0.3), (5, 0.13)],
    "rare ends": [(1.0, 0.005), (1.7, 0.395), (2.3, 0.5), (3.0, 0.095), (4.0, 0.005)],
    "one end": [(1, 0.7), (2, 0.15), (3, 0.1), (4, 0.05)],
}


def column(name: str) -> Floats:
    values, shares = np.array(COLUMNS[name]).T
    return np.repeat(values, np.rint(N * shares).astype(int)).astype(float)


def schema_of(values: Floats, transform: str) -> Schema:
    other = np.random.default_rng(0).normal(size=len(values))
    frame = pd.DataFrame({"x": values, "other": other})
    return schema_alone(from_frame(frame), Said(encoding=Encoding(transform)))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", COLUMNS)
def test_each_comes_as_often_as_it_is(name: str) -> None:
    values = column(name)
    schema = schema_of(values, "normal")
    z = torch.randn(DRAWS, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    fills = decode(z.clamp(*box(schema)), schema)[:, 0]
    assert set(fills) <= set(values)
    for value in np.unique(values):
        assert (fills == value).mean() == pytest.approx((values == value).mean(), abs=0.012)


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("transform", ["normal", "linear"])
def test_they_are_standardised_and_read_back(name: str, transform: str) -> None:
    """The noise that spreads a value stays within its cell."""
    values = column(name)
    schema = schema_of(values, transform)
    table = from_frame(pd.DataFrame({"x": values, "other": np.zeros(len(values))}))
    codes = np.stack([encode(table, schema, seed=seed).table.x[:, 0].numpy() for seed in range(20)])
    assert codes.mean() == pytest.approx(0, abs=0.03) and codes.std() == pytest.approx(1, abs=0.05)
    x = torch.from_numpy(np.stack([codes, np.zeros(codes.shape)], -1)).flatten(0, 1)
    assert (decode(x, schema)[:, 0] == np.tile(values, 20)).all()


@pytest.mark.parametrize("name", ["doses per kg", "doses"])
def test_gaps_are_bent_by_linear_too(name: str) -> None:
    """Standardised, a law that is smooth between values would put most fills at those beside the widest gap."""
    values = column(name)
    schema = schema_of(values, "linear")
    z = torch.randn(DRAWS, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    fills = decode(z.clamp(*box(schema)), schema)[:, 0]
    shares = {value: (fills == value).mean() - (values == value).mean() for value in np.unique(values)}
    assert max(abs(share) for share in shares.values()) < (0.012 if name == "doses per kg" else 0.12), shares
