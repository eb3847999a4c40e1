"""Heaps: multiples that a column holds more often than the numbers between them are found, and drawn as often."""

from __future__ import annotations

import json

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
from vgi_cli.columns.heaps import Heaps, divisors_of, find_heaps
from vgi_cli.columns.lattice import find_spikes
from vgi_cli.columns.limits import bound_lines
from vgi_cli.columns.number import Number
from vgi_cli.columns.schema import Schema
from vgi_cli.encoding.encoder import box, decode, encode, log_volume
from vgi_cli.encoding.infer import Said, infer_schema, schema_alone
from vgi_cli.errors import RunError
from vgi_cli.table.base import Table

Floats = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


def pressures(n: int, seed: int, *, tens: float = 0.5, fives: float = 0.15) -> Floats:
    """Blood pressures: half read to the nearest ten, some to the nearest five, the others to the nearest unit."""
    rng = np.random.default_rng(seed)
    value, how = rng.normal(130, 18, n), rng.random(n)
    read = np.where(how < tens + fives, np.round(value / 5) * 5, np.round(value))
    return np.asarray(np.where(how < tens, np.round(value / 10) * 10, read), np.float64)


def table_of(values: Floats) -> Table:
    return from_text("x\n" + "\n".join(f"{value:.12g}" for value in values) + "\n")


def column_of(values: Floats, **encoding: object) -> tuple[Schema, Number]:
    schema = schema_alone(table_of(values), Said(encoding=Encoding(**encoding)))  # type: ignore[arg-type]
    (column,) = schema.encoded
    assert isinstance(column, Number)
    return schema, column


def test_widths_are_how_often_the_multiples_occur() -> None:
    heaps = find_heaps(pressures(20_000, 0), 1.0, 1, whole=True)
    assert heaps is not None and heaps.period == 10
    # 35 % fall on each of ten digits alike, 15 % on two of them, 50 % on one
    expected = [0.35, 0.35, 0.35 + 0.15 * 5, 0.35 + 0.15 * 5 + 0.5 * 10]
    np.testing.assert_allclose(heaps.widths, expected, rtol=0.05)
    assert heaps.most() == (5, pytest.approx(0.72, abs=0.01))


LAWS = {
    "normal": lambda rng, n, s: np.round(rng.normal(0, s, n)),
    "uniform": lambda rng, n, s: rng.integers(0, int(3.46 * s), n),
    "exponential": lambda rng, n, s: np.floor(rng.exponential(s, n)),
    "Poisson": lambda rng, n, s: rng.poisson(s * s, n),
    "negative binomial": lambda rng, n, s: rng.negative_binomial(0.5, 1 / (1 + s), n),
    "log-normal": lambda rng, n, s: np.floor(np.exp(rng.normal(np.log(s), 1, n))),
}


@pytest.mark.parametrize("law", LAWS)
def test_smooth_laws_have_none(law: str) -> None:
    rng = np.random.default_rng(3)
    for n in (50, 300, 3000, 30_000):
        for s in (4, 9, 11, 25, 60, 130):
            values = np.asarray(LAWS[law](rng, n, s), float)  # type: ignore[no-untyped-call]
            assert find_heaps(values, 1.0, 1, whole=True) is None, (n, s)


@pytest.mark.parametrize(
    ("values", "resolution", "units", "period"),
    [
        (pressures(400, 1) / 10, 0.1, 1, 10),  # the same in decimal fractions
        (pressures(400, 1) * 25, 25.0, 25, 4),  # 25, 50, 100: tens of the steps are 250s, and fives 125s
        (pressures(400, 1), 1.0, 1, 10),
        (pressures(12, 1), 1.0, 1, None),  # too few to be sure
        (pressures(4000, 1, tens=0.03, fives=0.02), 1.0, 1, None),  # too few of them to be worth it
        (np.round(np.random.default_rng(0).normal(0, 3, 900) / 5) * 5 + 1, 1.0, 1, None),  # a period beyond the spread
        (np.repeat([7.0, 9.0], 40), 1.0, 1, None),
        (pressures(400, 1) + 1e10, 1.0, 1, None),  # too large to count
        (np.append(pressures(400, 1), 1e8), 1.0, 1, None),  # too many values between the ends
    ],
)
def test_which_columns_have_them(values: Floats, resolution: float, units: int, period: int | None) -> None:
    heaps = find_heaps(values, resolution, units, whole=True)
    if units == 25:  # 250s and 125s are no round numbers: hundreds and fifties may be, and here are not
        assert heaps is None or heaps.period in (2, 4, 20, 40)
    else:
        assert (None if heaps is None else heaps.period) == period


def test_dozens_are_of_whole_numbers_alone() -> None:
    rng = np.random.default_rng(4)
    months = rng.gamma(4, 12, 800).round()
    told = np.where(rng.random(800) < 0.5, np.round(months / 12) * 12, months)
    found = find_heaps(told, 1.0, 1, whole=True)
    assert found is not None and found.period in (12, 60) and found.most()[0] == 12
    half = find_heaps(told / 100, 0.01, 1, whole=False)
    assert half is None or half.period not in (12, 60)


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5])
def test_a_pile_between_others_is_no_multiple(share: float) -> None:
    """Changes of which many are 0, a multiple of everything: 13 to 40 % of such columns had heaps."""
    for seed in range(12):
        rng = np.random.default_rng(seed)
        change = rng.normal(-3, 5, 200).round(1)
        assert find_heaps(np.where(rng.random(200) < share, 0.0, change), 0.1, 1, whole=False) is None
    piled = np.where(np.random.default_rng(0).random(400) < share, 130.0, pressures(400, 0))
    found = find_heaps(piled, 1.0, 1, whole=True)
    assert found is not None and found.widths[-1] > 2  # beside true ones


def test_one_half_of_the_values_is_not_enough() -> None:
    """Rounded below the median alone: the multiples above it are as rare as their neighbours."""
    values = np.round(np.random.default_rng(5).normal(130, 18, 4000))
    low = np.where(values < 125, np.round(values / 10) * 10, values)
    assert find_heaps(low, 1.0, 1, whole=True) is None


widths = st.floats(0.01, 30)
some_heaps = st.one_of(
    *[
        st.builds(
            Heaps,
            st.sampled_from([1.0, 0.1, 2.5]),
            st.just(period),
            st.tuples(*[widths] * len(divisors_of(period))),
        )
        for period in (2, 5, 10, 12, 100)
    ]
)


@given(some_heaps, st.lists(st.floats(-500, 500), min_size=1, max_size=30))
def test_spreading_is_undone_and_keeps_order(heaps: Heaps, values: list[float]) -> None:
    x = np.sort(np.array(values))
    s = heaps.spread(x)
    np.testing.assert_allclose(heaps.gathered(s), x, atol=1e-6)
    assert (np.diff(s) >= 0).all()
    turns = heaps.resolution * heaps.period * np.arange(-3, 4)
    np.testing.assert_allclose(heaps.spread(turns), turns, atol=1e-9)  # multiples of the period stay
    lattice = heaps.resolution * np.arange(-2 * heaps.period, 2 * heaps.period)
    ends = heaps.spread(lattice + 0.5 * heaps.resolution) - heaps.spread(lattice - 0.5 * heaps.resolution)
    np.testing.assert_allclose(ends, heaps.width(lattice), atol=1e-9)  # cells join, each as wide as said


def test_values_that_are_not_finite_stay_so() -> None:
    heaps = Heaps(1.0, 2, (0.5, 1.5))
    assert not np.isfinite(heaps.gathered(np.array([np.inf, -np.inf, np.nan]))).any()


@pytest.mark.parametrize("transform", ["linear", "normal"])
def test_values_are_read_back_as_themselves(transform: str) -> None:
    values = np.append(pressures(400, 2), [61.0, 62.0, 188.0])
    schema, column = column_of(values, transform=transform)
    assert column.heaps is not None and schema == Schema.from_json(schema.to_json())
    for draw in range(3):
        (x, *_), _ = encode(table_of(values), schema, seed=1, draw=draw)
        low, high = box(schema)
        assert bool(((x >= low) & (x <= high)).all())
        assert decode(x, schema)[:, 0].tolist() == values.tolist()
        assert decode(x.float().double(), schema)[:, 0].tolist() == values.tolist()  # in float32 too


@pytest.mark.parametrize("transform", first(1, ["linear", "normal"]))
def test_the_probabilities_of_all_values_sum_to_one(transform: str) -> None:
    """Under N(0, 1) of the encoded column, over many draws of the noise."""
    schema, column = column_of(pressures(400, 2), transform=transform)
    assert column.heaps is not None and column.lower is not None
    every = table_of(np.arange(1.0, 300.0))
    total = []
    for draw in range(100):
        (x, missing, *_), _ = encode(every, schema, seed=2, draw=draw)
        density = -0.5 * (x[:, 0].square() + np.log(2 * np.pi))
        total.append(float((density + log_volume(missing, x, schema)).exp().sum()))
    assert np.mean(total) == pytest.approx(1.0, abs=0.005)


def test_a_smooth_density_holds_as_many_of_them() -> None:
    """Draws of a normal distribution with the encoded column's moments, and the log-probability of the values, beside
    the same without heaps: what is gained is what the digits say, log(10) − entropy of the last digit."""
    values = pressures(20_000, 3)
    schema, _ = column_of(values)
    (x, missing, *_), _ = encode(table_of(values), schema, seed=1)
    normal = torch.distributions.Normal(x.mean(), x.std())
    torch.manual_seed(0)
    drawn = decode(normal.sample((20_000, 1)), schema)[:, 0]
    for unit in (2, 5, 10):
        assert (drawn % unit == 0).mean() == pytest.approx((values % unit == 0).mean(), abs=0.012)
    assert drawn.mean() == pytest.approx(values.mean(), abs=0.4) and drawn.std() == pytest.approx(
        values.std(), rel=0.02
    )
    with_heaps = float((normal.log_prob(x[:, 0]) + log_volume(missing, x, schema)).mean())
    sd = values.std()
    edges = (values[:, None] + np.array([-0.5, 0.5]) - values.mean()) / sd
    plain = torch.distributions.Normal(0.0, 1.0).cdf(torch.tensor(edges)).diff(dim=1).log().mean()
    digit = np.bincount(values.astype(int) % 10) / len(values)
    gain = np.log(10) + (digit * np.log(digit)).sum()
    assert with_heaps - float(plain) == pytest.approx(gain, abs=0.02)


def test_a_spike_among_heaps_has_room_beside_theirs() -> None:
    values = np.append(pressures(900, 4), np.full(400, 140.0))
    schema, column = column_of(values)
    assert column.heaps is not None and [spike.value for spike in column.spikes] == [140.0]
    assert find_spikes(pressures(900, 4), 1.0) != ()  # without heaps the multiples of ten look like spikes
    assert find_spikes(pressures(900, 4), 1.0, heaps=column.heaps) == ()
    (x, *_), _ = encode(table_of(values), schema, seed=1)
    assert decode(x, schema)[:, 0].tolist() == values.tolist()


def test_where_they_are_not_looked_for() -> None:
    values = pressures(400, 1)
    assert column_of(values, transform="none")[1].heaps is None
    text = "\n".join(f"{v:g}" for v in values)
    lifted = infer_schema(from_text(f"x,y\n{text.replace(chr(10), ',1' + chr(10))},2\n"), bounds={"x": "none"})[0]
    assert isinstance(lifted.encoded[0], Number) and lifted.encoded[0].heaps is None
    over = np.round(np.exp(np.random.default_rng(0).normal(6, 2, 2000)))  # logarithms are taken: decades
    heaped = np.where(np.arange(2000) % 2 == 0, np.round(over / 10) * 10, over)
    assert column_of(heaped[heaped > 0])[1].heaps is None


def test_they_are_said_with_v() -> None:
    schema, _ = column_of(pressures(400, 1))
    (line,) = [line for line in bound_lines(schema.columns)[1] if "multiples" in line]
    said = "fills of 'x': multiples of 5 as often as in the column ("
    assert line.startswith(said) and line.endswith("% of its cells; by chance 20%)")


def test_whole_years_are_multiples_and_no_matter_of_digits() -> None:
    """Ages as of the passengers of the Titanic: whole years, a few of them estimated at half ones, babies in months."""
    rng = np.random.default_rng(0)
    values = np.floor(rng.normal(30, 12, 700).clip(1, 75))
    values[:14] += 0.5
    values[14:24] = np.round(rng.integers(5, 12, 10) / 12, 2)
    _, column = column_of(values)
    assert column.heaps is not None and column.significant is None
    whole = np.arange(2000) / 100
    assert column.heaps.width(whole)[::100].mean() == pytest.approx(0.966, abs=0.01)
    digits = np.array([float(f"{x:.3g}") for x in np.exp(rng.normal(3, 2, 700))])  # these are a matter of digits
    assert column_of(digits)[1].significant == 3


def test_multiples_of_a_thousand_in_a_wide_column() -> None:
    """Kilometres of used cars: the odd ones between are rare, and the greatest one lies far out."""
    rng = np.random.default_rng(0)
    values = np.exp(rng.normal(11, 0.6, 1500)).round()
    values = np.where(rng.random(1500) < 0.72, np.round(values, -3), values)
    heaps = column_of(values)[1].heaps
    assert heaps is not None and heaps.period == 1000 and heaps.most() == (1000, pytest.approx(0.72, abs=0.15))
    held = heaps.gathered(heaps.spread(values).astype(np.float32).astype(np.float64))
    np.testing.assert_allclose(held, values, atol=0.5)


def test_a_damaged_schema_is_refused() -> None:
    schema, _ = column_of(pressures(400, 1))
    raw = json.loads(schema.to_json())
    for change, message in (
        ({"widths": [1.0, 1.0]}, "widths do not fit the period"),
        ({"resolution": 2.0}, "heaps do not fit their column"),
        ({"period": 1}, "period"),
    ):
        heaps = raw["columns"][0]["heaps"]
        bad = {**raw, "columns": [{**raw["columns"][0], "heaps": {**heaps, **change}}]}
        with pytest.raises(RunError, match=message):
            Schema.from_json(json.dumps(bad))
    old = {**raw, "format": 6, "columns": [{k: v for k, v in raw["columns"][0].items() if k != "heaps"}]}
    (before,) = Schema.from_json(json.dumps(old)).encoded
    assert isinstance(before, Number) and before.heaps is None


@settings(max_examples=12)
@given(st.integers(0, 999), st.sampled_from([1.0, 0.1, 0.01]), st.sampled_from(["linear", "normal"]))
def test_any_column_with_heaps_survives_exactly(seed: int, resolution: float, transform: str) -> None:
    values = [float(f"{v * resolution:.2f}") for v in pressures(120, seed)]
    schema, _ = column_of(np.array(values), transform=transform)
    (x, *_), _ = encode(table_of(np.array(values)), schema, seed=seed)
    assert decode(x, schema)[:, 0].tolist() == values


def test_fills_have_as_many_round_numbers_as_the_column(tmp_path) -> None:  # type: ignore[no-untyped-def]
    rng = np.random.default_rng(60)
    sys = pressures(500, 6)
    table = pd.DataFrame({"sys": sys, "age": np.round(50 + 0.5 * (sys - 130) + 8 * rng.normal(size=500), 1)})
    gone = rng.random(500) < 0.4
    table.loc[gone, "sys"] = np.nan
    run = vgi_cli.fit(table, out=tmp_path / "run", model="mixture", seed=1, set={"model.components": 1})
    fills = np.concatenate([one.sys[gone] for one in run.impute(m=10)])
    seen = sys[~gone]
    assert np.mean(fills % 10 == 0) == pytest.approx(np.mean(seen % 10 == 0), abs=0.05)
    assert np.corrcoef(fills, np.tile(table.age[gone], 10))[0, 1] == pytest.approx(
        np.corrcoef(seen, table.age[~gone])[0, 1], abs=0.12
    )
