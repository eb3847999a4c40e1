"""Values that pile up: found, given room, read back as themselves, with probabilities that sum to one."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import vgi_cli
from tests.selection import first
from tests.table.helpers import from_text
from vgi_cli.columns.base import Encoding
from vgi_cli.columns.lattice import Spike, find_spikes, spikes_of_logs, squeezed, stretched
from vgi_cli.columns.schema import Schema
from vgi_cli.encoding.encoder import box, decode, encode, log_scale, log_volume
from vgi_cli.encoding.infer import infer_schema
from vgi_cli.table.base import Table

RNG = np.random.default_rng(0)


def test_a_spike_gets_the_room_in_which_its_neighbours_hold_as_many_cells() -> None:
    even = np.arange(1, 1001.0)
    (spike,) = find_spikes(np.concatenate([np.zeros(250), even]), 1.0)
    assert spike == Spike(0.0, 250.0 - 1.0)
    (spike,) = find_spikes(np.concatenate([np.full(250, 500.0), even]), 1.0)  # 251 cells, neighbours on both sides
    assert spike.value == 500.0 and spike.width == pytest.approx(251.0 - 1.0, abs=1.0)
    (spike,) = find_spikes(np.concatenate([np.zeros(3000), even]), 1.0)  # more than all others: half of them
    assert spike.width == pytest.approx(3000 * 500 / 500 - 1.0)
    (spike,) = find_spikes(np.concatenate([np.full(250, -0.0), even]), 1.0)
    assert math.copysign(1.0, spike.value) == 1.0  # nobody reads -0


@pytest.mark.parametrize(
    "values",
    [
        RNG.poisson(3, 500).astype(float),
        RNG.integers(1, 6, 500).astype(float),
        np.round(RNG.normal(size=500), 1),
        (RNG.random(500) < 0.05).astype(float),
        np.concatenate([np.zeros(9), RNG.integers(100, 900, 60)]).astype(float),  # fewer than ten cells
    ],
)
def test_ordinary_columns_have_none(values: np.ndarray) -> None:
    step = 0.1 if not np.array_equal(values, np.rint(values)) else 1.0
    assert find_spikes(values, step) == ()


@pytest.mark.parametrize("side", [1.0, -1.0])
def test_fewer_cells_are_a_spike_at_an_end(side: float) -> None:
    """A cap that 3 % of the cells hold, where the value next to it holds few."""
    rest = np.arange(1.0, 971.0)
    capped = np.concatenate([np.full(30, 970.0), rest])
    (spike,) = find_spikes(side * capped, 1.0)
    assert spike.value == side * 970.0 and spike.width == pytest.approx(31.0 - 1.0, abs=1.0)
    assert find_spikes(side * np.concatenate([np.full(30, 500.0), rest]), 1.0) == ()  # inside of the range
    assert find_spikes(side * np.concatenate([np.full(15, 970.0), rest]), 1.0) == ()  # sixteen cells
    assert find_spikes(side * np.concatenate([np.full(30, 970.0), np.full(10, 969.0), rest]), 1.0) == ()  # a tail
    assert find_spikes(side * np.concatenate([np.full(30, 5000.0), np.arange(1.0, 5001.0)]), 1.0) == ()  # 0.6 %


def test_a_cap_of_few_cells_is_filled_as_often_as_it_is_observed() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=1500)
    y = np.minimum(np.round(20 + 5 * x + 3 * rng.normal(size=1500), 2), 31.0)
    hidden = rng.random(1500) < 0.2
    frame = pd.DataFrame({"x": x.round(2), "y": np.where(hidden, np.nan, y)})
    run = vgi_cli.fit(frame, model="mixture", set={"model.components": 1, "bootstrap": 2}, threads=1)
    filled = np.stack([one["y"].to_numpy(float)[hidden] for one in run.impute(m=10)])
    assert 0.02 < float((y == 31.0).mean()) < 0.05
    assert float((filled == 31.0).mean()) == pytest.approx(float((y[hidden] == 31.0).mean()), abs=0.015)


spike_lists = st.lists(
    st.tuples(st.integers(-50, 50), st.floats(0.5, 100.0)), max_size=4, unique_by=lambda pair: pair[0]
).map(lambda pairs: tuple(Spike(float(value), width) for value, width in sorted(pairs)))


@given(spike_lists, st.lists(st.floats(-60, 60), min_size=1, max_size=20), st.floats(0, 1))
def test_squeezing_undoes_stretching(spikes: tuple[Spike, ...], values: list[float], place: float) -> None:
    x = np.sort(np.array([*values, *(spike.value for spike in spikes)]))
    s = stretched(x, place, spikes, 0.0)
    np.testing.assert_allclose(squeezed(s, spikes), x, atol=1e-9)
    assert (np.diff(s) >= np.diff(x) - 1e-9).all()


def rainy(N: int = 400) -> Table:
    """No rain or some, a gauge that stops at 7, a default of 3.5 in full precision; a tenth of the cells missing."""
    rng = np.random.default_rng(1)
    rain = [f"{v:.2f}" for v in np.clip(rng.normal(0, 6, N), 0, 7)]
    full = np.where(rng.random(N) < 0.3, 3.5, rng.normal(3, 1, N))
    gone = rng.random((N, 2)) < 0.1
    lines = ["," .join("" if hole else cell for hole, cell in zip(holes, cells, strict=True))
             for holes, cells in zip(gone, zip(rain, map(repr, full.tolist()), strict=True), strict=True)]  # fmt: skip
    return from_text("rain,full\n" + "\n".join(lines) + "\n")


def schema_of(transform: str, table: Table, **options: object) -> Schema:
    return infer_schema(table, encoding=Encoding(transform), **options)[0]  # type: ignore[arg-type]


@pytest.mark.parametrize("transform", ["linear", "normal"])
def test_spikes_are_read_back_as_themselves(transform: str) -> None:
    table = rainy()
    schema = schema_of(transform, table, bounds={"full": "observed"})
    assert [[spike.value for spike in c.spikes] for c in schema.encoded] == [[0.0, 7.0], [3.5]]
    assert schema == Schema.from_json(schema.to_json())
    (x, *_), _ = encode(table, schema, seed=2)
    back = decode(x, schema)
    low, high = box(schema)
    assert bool(((x >= low) & (x <= high)).all())
    for i, name in enumerate(schema.modelled):
        seen = ~table.missing(name)
        np.testing.assert_allclose(back[seen, i], table.numeric(name)[seen], rtol=0 if i == 0 else 1e-4, atol=1e-4 * i)
        for spike in schema.encoded[i].spikes:
            assert ((back[seen, i] == spike.value) == (table.numeric(name)[seen] == spike.value)).all()
    values = decode(low + (high - low) * torch.linspace(0, 1, 5000, dtype=torch.float64)[:, None], schema)
    assert values[:, 0].min() == 0.0 and values[:, 0].max() == 7.0
    assert (np.diff(values, axis=0) >= 0).all()
    if transform == "normal":  # what was a needle is as wide as its share of a normal distribution
        share = np.mean([decode(torch.randn(4000, 2, dtype=torch.float64), schema)[:, 0] == 0.0])
        assert share == pytest.approx((table.numeric("rain")[~table.missing("rain")] == 0.0).mean(), abs=0.06)


@pytest.mark.parametrize("transform", first(1, ["linear", "normal"]))
def test_the_probabilities_of_all_values_sum_to_one(transform: str) -> None:
    """Under N(0, 1) of the encoded column, over many draws of the noise."""
    table = rainy()
    schema = schema_of(transform, table)
    every = from_text("rain,full\n" + "\n".join(f"{v / 100:.2f}," for v in range(701)) + "\n")
    total = []
    for draw in range(200):
        (x, missing, *_), _ = encode(every, schema, seed=2, draw=draw)
        density = -0.5 * (x[:, 0].square() + np.log(2 * np.pi))
        total.append(float((density + log_volume(missing, x, schema)).exp().sum()))
    low, high = box(schema)
    inside = torch.distributions.Normal(0.0, 1.0).cdf(torch.stack([low[0], high[0]])).diff()
    assert np.mean(total) == pytest.approx(float(inside), rel=0.02)


def test_units_are_those_of_the_observed_values() -> None:
    table = rainy()
    schema = schema_of("linear", table)
    rain = table.numeric("rain")[~table.missing("rain")]
    assert schema.encoded[0].deviation == pytest.approx(rain.std())
    assert float(log_scale(schema)[0]) == pytest.approx(np.log(rain.std()) - np.log(0.01))
    assert schema.encoded[0].scale is not None and schema.encoded[0].scale.sd > 1.2 * rain.std()


def test_they_are_said_and_left_alone_without_transform() -> None:
    notes = infer_schema(rainy())[1]
    assert "values that pile up, drawn as often as they occur: 0 of 'rain' (53%), 3.5 of 'full' (29%)" in notes
    assert all(not column.spikes for column in schema_of("none", rainy()).encoded)


@settings(max_examples=15)
@given(st.integers(0, 999), st.integers(10, 60), st.sampled_from(["linear", "normal"]))
def test_any_column_with_a_spike_survives_exactly(seed: int, pile: int, transform: str) -> None:
    rng = np.random.default_rng(seed)
    units = np.concatenate([rng.choice(10**4, 60, replace=False), np.full(pile, rng.integers(10**4))])
    cells = [f"{unit / 100:.2f}" for unit in rng.permutation(units)]
    table = from_text("x\n" + "\n".join(cells) + "\n")
    schema = schema_of(transform, table)
    assert len(schema.encoded[0].spikes) == 1
    (x, *_), _ = encode(table, schema, seed=seed)
    assert decode(x, schema)[:, 0].tolist() == [float(c) for c in cells]


def test_a_spike_without_a_resolution_is_written_as_it_is() -> None:
    """The lattice that stands in for none does not have it."""
    value = float(np.log10(5.0))
    rng = np.random.default_rng(0)
    cells = np.where(rng.random(300) < 0.3, value, rng.normal(size=300))
    table = from_text("x,y\n" + "\n".join(f"{v!r},{i}" for i, v in enumerate(cells.tolist())) + "\n")
    column = schema_of("linear", table).encoded[0]
    assert column.spikes[0].value == value and column.lattice is not None
    assert column.lattice.snap(np.array([value]))[0] != value
    assert column.snap(column.snap(np.array([value, value + 0.3 * column.lattice.resolution]))).tolist() == [value] * 2


def test_results_of_arithmetic_beside_a_spike_belong_to_it() -> None:
    rng = np.random.default_rng(0)
    twins = [8.46] * 50 + [8.459999999999999] * 30
    values = np.concatenate([twins, rng.normal(8, 1, 200)])
    (spike,) = find_spikes(values, 1e-5)
    assert spike.value == 8.46
    table = from_text("x,y\n" + "\n".join(f"{v!r},{i}" for i, v in enumerate(values.tolist())) + "\n")
    schema = schema_of("linear", table)
    ((spike,), _) = (column.spikes for column in schema.encoded)
    (x, missing, *_), _ = encode(table, schema, seed=0)
    assert decode(x[:80], schema)[:, 0].tolist() == [8.46] * 80
    volume = log_volume(missing[:, :1].repeat(1, 2), x, schema)
    alone = float(volume[100]) + np.log(schema.encoded[0].step)  # as if its own width were a probability too
    assert float(volume[:80].std()) < 0.3 and float(volume[:80].min()) - alone > 5  # the room is theirs too


@pytest.mark.parametrize("transform", first(1, ["normal", "linear"]))
def test_an_unrounded_column_has_a_density_beside_the_probability_of_its_spike(transform: str) -> None:
    """The one and the integral of the other are 1 together, under N(0, 1) of the encoded column."""
    rng = np.random.default_rng(0)
    values = np.where(rng.random(400) < 0.3, 2.0, rng.gamma(3.0, 1.0 / 3.0, 400) + 1.0)
    schema = schema_of(transform, from_text("x,y\n" + "\n".join(f"{v!r},{i}" for i, v in enumerate(values.tolist()))))
    assert schema.encoded[0].unrounded and [spike.value for spike in schema.encoded[0].spikes] == [2.0]
    low, high = box(schema)
    z = torch.linspace(max(float(low[0]), -9.0), min(float(high[0]), 9.0), 50_001, dtype=torch.float64)
    places = schema.encoded[0].decode(z[:, None].numpy())
    every = from_text("x,y\n" + "\n".join(f"{v!r}," for v in [2.0, *places[places != 2.0].tolist()]))
    (x, missing, *_), _ = encode(every, schema, seed=2)
    density = (-0.5 * (x[:, 0].square() + np.log(2 * np.pi)) + log_volume(missing, x, schema)).exp()
    beside = np.trapezoid(density[1:].numpy(), places[places != 2.0])
    on = [float(_encoded_density(schema, "x,y\n2.0,\n", draw)) for draw in range(100)]
    assert beside + np.mean(on) == pytest.approx(1.0, abs=0.01) and 0.1 < np.mean(on) < 0.5


@pytest.mark.parametrize("spikes", ["split", "room"])
def test_standardised_is_the_same_in_any_unit(spikes: Literal["split", "room"], tmp_path: Path) -> None:
    """Of a column that is not rounded and piles up, and of one that does not."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"x": np.where(rng.random(200) < 0.4, 0.0, rng.lognormal(size=200)), "y": rng.normal(size=200)}
    )
    found = []
    for unit in (1.0, 1024.0):
        given = {"model.components": 1, "table.spikes": spikes, "table.transform": "linear", "bootstrap": "none"}
        run = vgi_cli.fit(frame * unit, model="mixture", set=given, threads=1, out=tmp_path / f"{unit}")
        found.append(run.evaluate(frame * unit)["loglik"])
    assert found[0]["mixed"] == ["x"] and found[0]["density"] == ["y"]
    assert found[0]["standardised"] == pytest.approx(found[1]["standardised"], abs=0.02)
    assert found[0]["mean"] - found[1]["mean"] == pytest.approx(np.log(1024) * (1 + (frame.x > 0).mean()), abs=0.02)


def _encoded_density(schema: Schema, text: str, draw: int) -> torch.Tensor:
    (x, missing, *_), _ = encode(from_text(text), schema, seed=2, draw=draw)
    return (-0.5 * (x[0, 0].square() + np.log(2 * np.pi)) + log_volume(missing, x, schema)[0]).exp()


def test_new_values_beside_a_spike_belong_to_it() -> None:
    """Rain in hundredths was fitted; 0.004 comes."""
    schema = schema_of("linear", rainy())
    new = from_text("rain,full\n0.004,1.5\n0.00,1.5\n")
    for draw in range(50):
        (x, *_), _ = encode(new, schema, seed=0, draw=draw)
        assert decode(x, schema)[:, 0].tolist() == [0.0, 0.0]


def test_spikes_of_logarithms_are_those_that_stand_out_there_too() -> None:
    rng = np.random.default_rng(6)
    even = rng.integers(1, 73, 900).astype(float)
    for value, stays in ((1.0, False), (40.0, True), (0.0, True)):
        values = np.concatenate([even, np.full(100, value), np.zeros(5)])
        spikes = tuple(spike for spike in find_spikes(values, 1.0) if spike.value == value)
        assert len(spikes) == 1 and spikes_of_logs(spikes, values, 1.0) == (spikes if stays else ())
