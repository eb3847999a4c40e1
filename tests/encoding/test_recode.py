"""Encoded rows as another transform encodes them: equal to encoding the table so, both ways, in memory and in files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from vgi_cli.data import TensorTable
from vgi_cli.encoding.encoder import encode
from vgi_cli.encoding.recode import recoder
from vgi_cli.fitting.rows import new_schema
from vgi_cli.reporting import Silent
from vgi_cli.scratch import Scratch
from vgi_cli.settings.recipe import Recipe
from vgi_cli.table.frames import from_frame


def frame(rows: int = 120) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    x = rng.standard_normal(rows)
    columns = {
        "smooth": x,
        "skewed": np.exp(x).round(2),
        "spike": np.where(rng.random(rows) < 0.4, 0.0, x.round(1)),
        "few": rng.choice([3, 4, 5, 6, 8], rows),
        "when": pd.Timestamp("2021-03-01") + pd.to_timedelta((40 * x).round(), unit="D"),
        "kind": rng.choice(["a", "b", "c"], rows),
    }
    return pd.DataFrame(columns).mask(rng.random((rows, 6)) < 0.2)


def coded(transform: str) -> tuple:
    table = from_frame(frame())
    schema = new_schema(table, Recipe().with_table(transform=transform), Silent())
    return schema, encode(table, schema, seed=5).table


@pytest.mark.parametrize(("first", "second"), [("linear", "normal"), ("normal", "linear")])
def test_recoded_rows_are_those_that_the_other_schema_encodes(first: str, second: str, tmp_path: Path) -> None:
    (schema, rows), (other, expected) = coded(first), coded(second)
    there = recoder(schema, other)
    assert there is not None
    found = there.table(rows)
    assert torch.allclose(found.x, expected.x, rtol=1e-9, atol=1e-9) and torch.equal(found.missing, expected.missing)
    for j in range(rows.D):
        assert torch.equal(there.dimension(rows.x[:, j], j), there(rows.x)[:, j])
    back = there.inverse.table(found)
    assert torch.allclose(back.x, rows.x, rtol=1e-9, atol=1e-9)
    scratch = Scratch(tmp_path)
    in_files = TensorTable(scratch.rows(rows.x, torch.arange(rows.N)), rows.missing, rows.layout, scratch=scratch)
    assert torch.equal(there.table(in_files).x, found.x)


def test_infinite_limits_stay_infinite_and_precision_and_shape_are_kept() -> None:
    (schema, _), (other, _) = coded("normal"), coded("linear")
    there = recoder(schema, other)
    assert there is not None
    D = schema.layout.D
    limits = torch.full((2, D), torch.inf, dtype=torch.float32) * torch.tensor([[-1.0], [1.0]])
    assert torch.equal(there(limits), limits)
    x = torch.randn(2, 3, D, generator=torch.Generator().manual_seed(0))
    assert there(x).shape == x.shape and there(x).dtype == torch.float32
    assert bool((there(x + 1) > there(x))[..., :-1].all())  # increasing where there are numbers


def test_columns_that_are_not_spread_alike_have_no_map() -> None:
    schema, _ = coded("normal")
    table = from_frame(frame().assign(skewed=frame()["skewed"].round(1)))
    other = new_schema(table, Recipe().with_table(transform="linear"), Silent())
    assert recoder(schema, other) is None
    assert recoder(schema, coded("none")[0]) is None  # a rounded column need not be spread there
    fewer = new_schema(from_frame(frame().drop(columns="spike")), Recipe().with_table(transform="linear"), Silent())
    assert recoder(schema, fewer) is None
