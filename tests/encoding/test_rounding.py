"""Which columns have wide cells, and where these end."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import torch

from vgi_cli.columns.base import Encoding
from vgi_cli.data import TensorTable
from vgi_cli.encoding.encoder import decode, encode
from vgi_cli.encoding.infer import Said, schema_alone
from vgi_cli.encoding.recode import recoder
from vgi_cli.encoding.rounding import rounding_of
from vgi_cli.table.frames import from_frame

RNG = np.random.default_rng(0)
N = 400
FRAME = pd.DataFrame(
    {
        "price": RNG.lognormal(3, 1, N),
        "scale": RNG.integers(1, 6, N),
        "age": RNG.normal(45, 12, N).round(),
        "rain": np.where(RNG.random(N) < 0.5, 0.0, RNG.gamma(2, 4, N).round(1)),
        "code": RNG.choice([1, 2, 3, 6], N),
        "visit": pd.Timestamp("2020-01-01") + pd.to_timedelta(RNG.integers(0, 3, N) * 30, "D"),
        "site": RNG.choice(["a", "b", "c"], N),
    }
)


@pytest.mark.parametrize("transform", ["normal", "linear"])
def test_cells_are_wide_where_few_values_hold_many(transform: str) -> None:
    schema = schema_alone(from_frame(FRAME), Said(encoding=Encoding(transform)))  # type: ignore[arg-type]
    found = rounding_of(zip(schema.layout.slices, schema.encoded, strict=True))
    assert found is not None
    wide = {schema.layout.label(dim) for dim in found.dims}
    assert wide == {"scale", "code", "visit"} | ({"rain"} if transform == "normal" else wide & {"rain"})
    assert list(found.dims) == sorted(found.dims)


@pytest.mark.parametrize("transform", ["normal", "linear", "none"])
def test_ends_are_those_of_the_cell(transform: str) -> None:
    table = from_frame(FRAME.mask(RNG.random(FRAME.shape) < 0.1))
    schema = schema_alone(table, Said(encoding=Encoding(transform)))  # type: ignore[arg-type]
    encoded = encode(table, schema, seed=3).table
    rounding = encoded.rounding
    assert rounding is not None
    low, high = rounding.ends(encoded.x)
    known, own = ~encoded.missing[:, rounding.dims], encoded.x[:, rounding.dims]
    assert ((low <= own) & (own <= high))[known].all() and (high > low)[known].all()
    for ends in (low, high):
        x = encoded.x.clone()
        x[:, rounding.dims] = torch.where(known, ends, own)
        np.testing.assert_array_equal(
            decode(x, schema)[~encoded.missing.numpy()], decode(encoded.x, schema)[~encoded.missing.numpy()]
        )
    again = rounding.ends(torch.where(encoded.missing, encoded.x, encoded.x.to(torch.float32).double()))
    torch.testing.assert_close(again[0][known], low[known], rtol=1e-5, atol=1e-5)


def test_it_goes_along_with_a_table() -> None:
    table = from_frame(FRAME)
    schemas = [schema_alone(table, Said(encoding=Encoding(name))) for name in ("normal", "linear")]  # type: ignore[arg-type]
    encoded = encode(table, schemas[0], seed=3).table
    for some in (encoded.rows(torch.arange(7)), encoded.to(dtype=torch.float32), encoded.rows(torch.ones(N).bool())):
        assert some.rounding is encoded.rounding is not None
    there = recoder(*schemas)
    assert there is not None
    other = there.table(encoded)
    assert isinstance(other, TensorTable) and other.rounding is not None
    theirs = encode(table, schemas[1], seed=3).table
    assert theirs.rounding is not None and other.rounding.dims == theirs.rounding.dims
    for ours, expected in zip(other.rounding.ends(other.x), theirs.rounding.ends(theirs.x), strict=True):
        torch.testing.assert_close(ours, expected, rtol=1e-6, atol=1e-6)


def test_numbers_that_are_not_rounded_have_none() -> None:
    table = from_frame(FRAME[["price"]])
    assert encode(table, schema_alone(table), seed=0).table.rounding is None
