"""Encoded tables: exact inverses, keyed noise, ranges, densities in data units."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tests.table.helpers import from_text, save
from vgi_cli.columns.base import Encoding
from vgi_cli.columns.number import Number
from vgi_cli.columns.schema import Schema
from vgi_cli.encoding.encoder import box, decode, encode, log_scale, log_volume
from vgi_cli.encoding.infer import infer_schema, schema_alone
from vgi_cli.maths.noise import row_keys
from vgi_cli.table.base import Table
from vgi_cli.table.reader import read_table

TRANSFORMS = ["linear", "normal", "none"]


def example(N: int = 400) -> Table:
    """Columns of every kind, with holes."""
    rng = np.random.default_rng(1)
    columns = {
        "id": [f"p{i}" for i in range(N)],
        "whole": rng.poisson(3, N).astype(str),
        "tenths": [f"{v:.1f}" for v in rng.normal(20, 3, N)],
        "fives": (5 * rng.integers(-10, 10, N)).astype(str),
        "fine": [f"{v:.7f}" for v in rng.lognormal(0, 1, N)],
        "rain": [f"{max(v, 0):.2f}" for v in rng.normal(-1, 5, N)],
        "full": [repr(v) for v in rng.normal(size=N).tolist()],
        "huge": [f"{v:.3e}" for v in rng.lognormal(0, 3, N)],
    }
    cells = np.array(list(columns.values()), dtype=object).T
    cells[rng.random(cells.shape) < 0.2] = ""
    cells[:, 0] = columns["id"]
    return from_text(",".join(columns) + "\n" + "\n".join(map(",".join, cells)) + "\n")


TABLE = example()


def schema_of(transform: str, **options: object) -> Schema:
    return infer_schema(TABLE, ids=["id"], encoding=Encoding(transform), **options)[0]  # type: ignore[arg-type]


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_decode_undoes_encode(transform: str) -> None:
    schema = schema_of(transform)
    (x, missing, *_), _ = encode(TABLE, schema, seed=3)
    assert x.dtype == torch.float64 and x.shape == (TABLE.N, 7) == missing.shape
    back = decode(x, schema)
    for i, name in enumerate(schema.modelled):
        observed = ~TABLE.missing(name)
        assert missing[:, i].tolist() == TABLE.missing(name).tolist()
        exact = name != "full"
        np.testing.assert_allclose(back[observed, i], TABLE.numeric(name)[observed], rtol=0 if exact else 1e-12)
    assert bool((x[missing] == 0).all())


numbers = st.integers(-(10**7), 10**7)


@settings(max_examples=15)
@given(
    st.integers(0, 5),
    st.lists(numbers, min_size=2, max_size=30).filter(lambda v: len(set(v)) > 1),
    st.sampled_from(TRANSFORMS),
    st.integers(0, 99),
)
def test_any_rounded_column_survives_exactly(decimals: int, units: list[int], transform: str, seed: int) -> None:
    cells = [f"{unit}e-{decimals}" if seed % 2 else f"{unit / 10**decimals:.{decimals}f}" for unit in units]
    table = from_text("x\n" + "\n".join(cells) + "\n")
    whole = all(float(cell).is_integer() for cell in cells)
    kinds = {"x": "integer" if whole else "numeric"}  # two values are levels otherwise
    schema, _ = infer_schema(table, kinds=kinds, encoding=Encoding(transform), bounds={"x": "observed"})  # type: ignore[arg-type]
    (x, _, *_), _ = encode(table, schema, seed=seed)
    assert decode(x, schema)[:, 0].tolist() == [float(c) for c in cells]
    low, high = box(schema)
    assert bool(((x >= low) & (x <= high)).all())
    # float32 arithmetic must not push a value out of its range either
    edges = torch.stack([low, high]).to(torch.float32).to(torch.float64)
    ends = decode(edges, schema)
    assert min(map(float, cells)) <= ends[0, 0] and ends[1, 0] <= max(map(float, cells))


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_the_box_decodes_into_the_range(transform: str) -> None:
    schema = schema_of(transform, bounds={"all": "observed"})
    low, high = box(schema)
    u = torch.rand(4000, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    z = torch.cat([low + (high - low) * u, torch.stack([low, high, torch.nextafter(high, low)])])
    values = decode(z, schema)
    for i, column in enumerate(schema.encoded):
        assert column.low is not None and column.high is not None
        assert values[:, i].min() == column.low and values[:, i].max() == column.high
        outside = decode(torch.stack([low - 0.1, high + 0.1]), schema)[:, i]
        if transform == "linear":
            assert outside[0] < column.low and outside[1] > column.high, "far outside nothing is clamped"


def test_whole_numbers_decode_whole() -> None:
    schema = schema_of("normal")
    values = decode(torch.randn(500, 7, dtype=torch.float64), schema)
    assert np.array_equal(values[:, 0], np.rint(values[:, 0]))
    assert np.array_equal(values[:, 2], 5 * np.rint(values[:, 2] / 5))
    assert all(float(f"{v:.1f}") == v for v in values[:, 1])


def test_unbounded_columns_have_no_box() -> None:
    low, high = box(schema_of("linear", unbounded=["tenths"], bounds={"all": "observed"}))
    assert math.isinf(low[1]) and math.isinf(high[1])
    assert torch.isfinite(low[[0, 2, 3, 4, 5, 6]]).all()
    schema = schema_of("linear", unbounded=["tenths"])
    column = schema.encoded[1]
    assert column.high is not None
    assert decode(torch.full((1, 7), 50.0, dtype=torch.float64), schema)[0, 1] > column.high


def test_leading_dimensions_are_kept() -> None:
    schema = schema_of("linear")
    assert decode(torch.zeros(3, 2, 7), schema).shape == (3, 2, 7)


class TestNoise:
    """Dequantisation noise depends on seed, column, row key and draw, and on nothing else."""

    def test_spreads_over_one_resolution(self) -> None:
        schema = schema_of("linear")
        i = schema.modelled.index("whole")
        (x, missing, *_), _ = encode(TABLE, schema, seed=0)
        column = schema.encoded[i]
        assert isinstance(column, Number)
        noise = column.codec.decode(x[:, i].numpy()) - TABLE.numeric("whole")
        noise = noise[~missing[:, i].numpy()]
        assert np.abs(noise).max() < 0.5
        assert stats.kstest(noise, "uniform", (-0.5, 1)).pvalue > 0.01

    def test_is_keyed(self) -> None:
        schema = schema_of("linear")
        first = encode(TABLE, schema, seed=0)
        again = encode(TABLE, schema, seed=0)
        assert torch.equal(first.table.x, again.table.x)
        for other in (encode(TABLE, schema, seed=1), encode(TABLE, schema, seed=0, draw=1)):
            whole, full = schema.modelled.index("whole"), schema.modelled.index("full")
            assert not torch.equal(first.table.x[:, whole], other.table.x[:, whole])
            assert torch.equal(first.table.x[:, full], other.table.x[:, full])

    def test_follows_the_ids_through_any_order_of_rows_and_columns(self) -> None:
        schema, _ = infer_schema(from_text("id,x,y\na,1,2\nb,2,1\na,3,4\n"), ids=["id"])
        one = encode(from_text("id,x,y\na,1,2\nb,2,1\na,3,4\n"), schema, seed=0)
        two = encode(from_text("y,id,x\n1,b,2\n2,a,1\n4,a,3\n"), schema, seed=0)
        assert torch.equal(one.table.x[[1, 0, 2]], two.table.x)
        assert torch.equal(one.keys[[1, 0, 2]], two.keys)

    def test_keys(self, tmp_path: Path) -> None:
        text = "a,b,x\n1,,1\n1,,2\nu,v,3\n"
        table = from_text(text)
        schema, _ = infer_schema(table, ids=["a", "b"])
        keys = encode(table, schema, seed=0).keys
        assert len(set(keys.tolist())) == 3
        schema, _ = infer_schema(table, exclude=["a", "b"])
        assert torch.equal(encode(table, schema, seed=0).keys, row_keys(["row 0", "row 1", "row 2"]))
        # a mask hides values, it does not change who a row is
        masked = from_text(text, mask=save(tmp_path, "m.csv", "a,b,x\n0,1,1\n0,1,1\n0,1,1\n"))
        schema, _ = infer_schema(table, ids=["a", "b"])
        assert torch.equal(encode(masked, schema, seed=0).keys, keys)

    def test_without_the_id_column_rows_are_numbered(self) -> None:
        schema, _ = infer_schema(from_text("id,x,y\na,1,2\nb,2,1\n"), ids=["id"])
        assert torch.equal(encode(from_text("x,y\n1,2\n"), schema, seed=0).keys, row_keys(["row 0"]))


class TestLogVolume:
    """log density in data units = log p(encoded) + log_volume."""

    def test_of_a_continuous_column_is_a_change_of_variables(self) -> None:
        rng = np.random.default_rng(0)
        values = rng.lognormal(1, 0.7, 2000)
        table = from_text("x\n" + "\n".join(map(repr, values.tolist())) + "\n")
        for transform in TRANSFORMS:
            schema, _ = infer_schema(table, encoding=Encoding(transform), unbounded=["x"])  # type: ignore[arg-type]
            z = torch.linspace(-9, 9, 40001, dtype=torch.float64)[:, None]
            x = decode(z, schema)[:, 0]
            log_p = torch.distributions.Normal(0.0, 1.0).log_prob(z)[:, 0]
            volume = log_volume(torch.zeros(40001, 1, dtype=torch.bool), z, schema)
            assert np.trapezoid(torch.exp(log_p + volume).numpy(), x) == pytest.approx(1, abs=1e-3)

    def test_of_a_dequantised_column_gives_probabilities(self) -> None:
        table = from_text("x\n" + "\n".join("12345") + "\n")
        schema, _ = infer_schema(table, unbounded=["x"])
        column = schema.encoded[0]
        assert isinstance(column, Number)
        values = torch.arange(-40, 50, dtype=torch.float64)
        u = (torch.arange(200, dtype=torch.float64) + 0.5) / 200 - 0.5
        z = torch.from_numpy(column.codec.encode((values[:, None] + u).numpy())).reshape(-1, 1)
        log_p = torch.distributions.Normal(0.0, 1.0).log_prob(z)[:, 0]
        total = torch.exp(log_p + log_volume(torch.zeros_like(z, dtype=torch.bool), z, schema)).reshape(90, 200)
        assert float(total.mean(1).sum()) == pytest.approx(1, abs=1e-6)

    def test_with_log_scale_is_a_density_in_standard_deviations(self) -> None:
        """Neither units nor the resolution matter: 1 to 5 and 0.1 to 0.5 are the same column."""
        found = []
        z = torch.linspace(-8, 8, 2001, dtype=torch.float64)[:, None]
        for digits in ("12345", [f"0.{i}" for i in range(1, 6)]):
            schema, _ = infer_schema(from_text("x\n" + "\n".join(digits) + "\n"), unbounded=["x"])
            found.append(log_volume(torch.zeros(2001, 1, dtype=torch.bool), z, schema) + log_scale(schema))
        torch.testing.assert_close(found[0], found[1], rtol=0, atol=1e-9)
        column = schema.encoded[0]
        assert isinstance(column, Number) and column.scale is not None
        u = column.codec.decode(z[:, 0].numpy()) / column.scale.sd
        density = np.exp(stats.norm.logpdf(z[:, 0].numpy()) + found[0].numpy())
        assert np.trapezoid(density, u) == pytest.approx(1, abs=1e-4)

    def test_counts_observed_cells_only(self) -> None:
        table = from_text("x,y\n1.5,10\n2.25,\n,30\n,\n9.75,20\n")
        schema = schema_alone(table)
        (x, missing, *_), _ = encode(table, schema, seed=0)
        assert schema.encoded[0].scale is not None and schema.encoded[1].scale is not None
        a = math.log(0.01) - math.log(schema.encoded[0].scale.sd)
        b = math.log(1) - math.log(schema.encoded[1].scale.sd)
        np.testing.assert_allclose(log_volume(missing, x, schema), [a + b, a, b, 0, a + b])


def test_units_do_not_change_the_likelihood_but_by_their_jacobian() -> None:
    rng = np.random.default_rng(0)
    metres = rng.normal(1.7, 0.1, 300)
    total = []
    for factor in (1.0, 128.0):  # a power of two: standardised values are the same to the last bit
        table = from_text("x\n" + "\n".join(repr(v) for v in (metres * factor).tolist()) + "\n")
        schema = schema_alone(table)
        (x, missing, *_), _ = encode(table, schema, seed=0)
        log_p = torch.distributions.Normal(0.0, 1.0).log_prob(x)[:, 0]
        total.append((log_p + log_volume(missing, x, schema)).mean())
    assert float(total[0] - total[1]) == pytest.approx(math.log(128), abs=1e-9)


def test_parquet_and_csv_encode_alike(tmp_path: Path) -> None:
    import pandas as pd

    frame = pd.DataFrame({"id": [7, 8, 9], "x": [1.0, np.nan, 3.0], "y": np.array([0.1, 0.25, 3.5], np.float32)})
    frame.to_parquet(tmp_path / "t.parquet")
    table = read_table([tmp_path / "t.parquet"])
    text = from_text("id,x,y\n7,1,0.1\n8,,0.25\n9,3,3.5\n")
    schema, _ = infer_schema(table, ids=["id"])
    one, two = encode(table, schema, seed=0), encode(text, schema, seed=0)
    assert torch.equal(one.table.x, two.table.x) and torch.equal(one.keys, two.keys)
