"""Codecs: inverses, derivatives, monotone, and what the normal transform is for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from scipy import stats

from vgi_cli.columns.base import Transform
from vgi_cli.columns.lattice import find_spikes, squeezed
from vgi_cli.columns.scale import STEEPEST, LinearCodec, NormalCodec, Scale, codec, fit_scale
from vgi_cli.encoding.encoder import encode
from vgi_cli.encoding.infer import infer_schema
from vgi_cli.table.frames import from_frame

rng = np.random.default_rng(0)
SAMPLES = {
    "normal": rng.normal(size=500),
    "lognormal": rng.lognormal(3, 1.5, 500),
    "cauchy": rng.standard_cauchy(500),
    "zero-inflated": np.where(rng.random(500) < 0.6, 0.0, rng.gamma(2.0, 5.0, 500).round(2)),
    "ceiling": np.minimum(rng.normal(5, 1, 500).round(1), 5.5),
    "five values": rng.integers(1, 6, 500).astype(float),
    "two values": np.repeat([0.0, 1.0], [3, 400]),
    "thin ends": rng.binomial(12, 0.5, 500).astype(float),
    "two rows": np.array([1.0, 7.0]),
    "one outlier": np.append(rng.normal(size=99), 1e6),
    "huge": rng.normal(size=50) * 1e200,
    "tiny": 1 + rng.normal(size=50) * 1e-9,
    "decades": np.exp(rng.normal(-5, 4, 500)),
    "rounded decades": np.rint(np.exp(rng.normal(7, 2, 500))) + 1,
}
RESOLUTION = {
    "rounded decades": 1.0,
    "zero-inflated": 0.01,
    "ceiling": 0.1,
    "five values": 1.0,
    "two values": 1.0,
    "thin ends": 1.0,
}


def test_numbers_of_six_hundred_decades_are_read_and_decoded_as_finite_numbers() -> None:
    """The smallest is below what can be told apart; what is drawn far below it is a number all the same."""
    x = np.tile([1e279, 1e-308, 1e-308, 1e-308, 3.310502027076446e-309], 4)
    table = from_frame(pd.DataFrame({"x": x, "y": np.arange(20.0)}))
    schema, _ = infer_schema(table)
    assert "x" in {column.name for column in schema.encoded}
    assert bool(torch.isfinite(encode(table, schema, seed=0).table.x).all())
    decades = LinearCodec(Scale(mean=-371.0, sd=585.0, logs=(2.3e-308, 1e279)))
    with np.errstate(over="raise"):
        far = decades.decode(np.array([-1e3, -30.0, -4.0, 0.0, 1.0]))
    assert bool(np.isfinite(far).all()) and bool((np.diff(far) >= 0).all())


def fitted(name: str) -> NormalCodec:
    return NormalCodec(fit_scale(SAMPLES[name], "normal", RESOLUTION.get(name)))


def beyond(values: np.ndarray) -> np.ndarray:
    """Points inside and outside of the range."""
    low, high = values.min(), values.max()
    return np.linspace(low - 2 * (high - low), high + 2 * (high - low), 2001)


@pytest.mark.parametrize("name", SAMPLES)
def test_normal_codec_is_increasing_and_inverts(name: str) -> None:
    map_, x = fitted(name), beyond(SAMPLES[name])
    z = map_.encode(x)
    assert np.isfinite(z).all()
    assert (np.diff(z) > 0).all()
    scale = x.max() - x.min()
    np.testing.assert_allclose(map_.decode(z), x, rtol=1e-9, atol=1e-9 * scale)
    z = np.linspace(-8, 8, 999)
    np.testing.assert_allclose(map_.encode(map_.decode(z)), z, rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", ["uniform", "normal", "lognormal", "ceiling", "five values"])
def test_a_value_a_little_outside_of_what_was_seen_does_not_cost_dozens_of_nats(name: str) -> None:
    """Log density of a value beyond the ends, against that of standardising: the tail is about as light."""
    values = rng.random(500) if name == "uniform" else SAMPLES[name]
    bent = NormalCodec(fit_scale(values, "normal", RESOLUTION.get(name)))
    linear = LinearCodec(fit_scale(values, "linear", RESOLUTION.get(name)))
    steps = values.std() * np.array([0.3, 1.0])
    outside = np.concatenate([values.min() - steps, values.max() + steps])
    scores = [stats.norm.logpdf(map_.encode(outside)) + map_.log_det(map_.encode(outside)) for map_ in (bent, linear)]
    assert (scores[1] - scores[0]).max() < 20


@pytest.mark.parametrize("name", [n for n in SAMPLES if n not in ("huge", "tiny")])
def test_log_det_is_the_derivative(name: str) -> None:
    map_ = fitted(name)
    z = np.linspace(-5, 5, 401)
    x, h = map_.decode(z), 1e-6
    numeric = 2 * h / (map_.decode(z + h) - map_.decode(z - h))
    np.testing.assert_allclose(map_.log_det(z), np.log(numeric), atol=2e-3)
    assert np.isfinite(x).all()


@pytest.mark.parametrize("name", SAMPLES)
def test_log_det_is_continuous_at_the_knots(name: str) -> None:
    map_ = fitted(name)
    np.testing.assert_allclose(map_.log_det(map_.z - 1e-12), map_.log_det(map_.z + 1e-12), atol=1e-5)


def test_log_det_integrates_to_the_map() -> None:
    map_ = fitted("lognormal")
    z = np.linspace(-3, 3, 20001)
    x = map_.decode(z)
    density = stats.norm.pdf(z) * np.exp(map_.log_det(z))
    assert np.trapezoid(density, x) == pytest.approx(stats.norm.cdf(3) - stats.norm.cdf(-3), abs=1e-6)


@pytest.mark.parametrize("name", ["lognormal", "cauchy", "one outlier"])
def test_skewed_columns_become_close_to_normal(name: str) -> None:
    values = SAMPLES[name]
    plain, bent = stats.zscore(values), fitted(name).encode(values)
    assert stats.kstest(bent, "norm").statistic < 0.06 < stats.kstest(plain, "norm").statistic
    assert abs(bent).max() < 5


@pytest.mark.parametrize("name", SAMPLES)
def test_encoded_values_are_standardised(name: str) -> None:
    """Wherever in its cell a value stands."""
    values, resolution = SAMPLES[name], RESOLUTION.get(name)
    places = (resolution or 0.0) * (np.linspace(0.005, 0.995, 100)[:, None] - 0.5)
    for transform in ("linear", "normal"):
        z = codec(fit_scale(values, transform, resolution)).encode(values + places)
        exact = 1e-6 if resolution is None else 0.04
        assert z.mean() == pytest.approx(0, abs=exact)
        assert z.std() == pytest.approx(1, abs=exact)


@pytest.mark.parametrize(
    ("name", "bent"), [("lognormal", False), ("ceiling", False), ("five values", True), ("thin ends", False)]
)
def test_wide_cells_are_bent_by_either_transform(name: str, bent: bool) -> None:
    """Standardised, a scale of five points ends at 0.5 and 5.5, and draws from a normal have less in its last cells."""
    values, resolution = SAMPLES[name], RESOLUTION.get(name)
    scale = fit_scale(values, "linear", resolution)
    assert bool(scale.knots) == bent
    assert not bent or scale == fit_scale(values, "normal", resolution)


def test_what_lies_beside_a_spike_is_not_blurred_with_it() -> None:
    """A sixth have no income, next to nobody has less than 5: so have draws from a normal. And the same where some have
    a minus as large as incomes are."""
    rng = np.random.default_rng(3)
    earned = rng.lognormal(3.2, 0.6, 4000).round(1)
    for sign in (1, rng.choice([-1, 1], 4000)):
        values = np.where(rng.random(4000) < 0.15, 0.0, sign * earned)
        spikes = find_spikes(values, 0.1)
        scale = fit_scale(values, "linear", 0.1, spikes)
        x = squeezed(codec(scale).decode(np.random.default_rng(0).normal(size=100_000)), spikes)
        for low, high, tolerance in ((-0.05, 0.05, 0.01), (0.05, 5, 0.004), (-5, -0.05, 0.004), (5, 10, 0.02)):
            held, drawn = (((low < v) & (v < high)).mean() for v in (values, np.maximum(x, values.min())))
            assert drawn == pytest.approx(held, abs=tolerance), (low, high)


@pytest.mark.parametrize("name", ["zero-inflated", "ceiling", "two values"])
def test_ties_do_not_make_the_map_steep(name: str) -> None:
    map_ = fitted(name)
    z = np.linspace(-6, 6, 5001)
    steepness = np.exp(map_.log_det(z) - np.log(1 / SAMPLES[name].std()))
    assert steepness.max() < 20 * STEEPEST


@settings(max_examples=60)
@given(
    st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=60).filter(lambda v: np.ptp(v) > 1e-3),
    st.sampled_from([None, 0.01, 1.0]),
)
@example([0.0, 0.0, 0.0, 1388.0, 1.494e-9, 1.494e-9], 0.01)  # secants of 1e5, 1e13 and 0.3 beside each other
def test_any_column_can_be_bent(values: list[float], resolution: float | None) -> None:
    x = np.array(values) if resolution is None else resolution * np.rint(np.array(values) / resolution)
    assume(np.ptp(x) > 1e-3)
    map_ = NormalCodec(fit_scale(x, "normal", resolution))
    grid = np.sort(np.concatenate([x, beyond(x)]))
    z = map_.encode(grid)
    assert np.isfinite(z).all() and (np.diff(z) >= -8 * np.spacing(np.abs(z[1:]))).all()
    np.testing.assert_allclose(map_.decode(z), grid, rtol=1e-7, atol=1e-7 * np.ptp(grid))


def test_linear_codec_is_standardisation() -> None:
    map_ = LinearCodec(Scale(2.0, 4.0))
    np.testing.assert_array_equal(map_.encode(np.array([6.0])), [1.0])
    np.testing.assert_array_equal(map_.decode(np.array([1.0])), [6.0])
    np.testing.assert_allclose(map_.log_det(np.zeros(2)), [-np.log(4)] * 2)


@pytest.mark.parametrize("name", ["decades", "rounded decades"])
@pytest.mark.parametrize("transform", ["normal", "linear"])
def test_logarithms_are_taken_of_values_over_decades(name: str, transform: Transform) -> None:
    x = SAMPLES[name]
    scale = fit_scale(x, transform, RESOLUTION.get(name))
    half = 0.5 * RESOLUTION.get(name, 0.0)
    assert scale.logs == (max(x.min() / 4, half), x.max() + half)
    map_ = codec(scale)
    z = map_.encode(x)
    assert abs(z.mean()) < 0.02 and abs(z.std() - 1) < 0.02
    if name == "decades":  # normal after the logarithm, which is all that there is to do
        law = stats.norm(np.log(x).mean(), np.log(x).std())
        np.testing.assert_allclose(z, (np.log(x) - law.mean()) / law.std(), atol=1e-9 if transform == "linear" else 0.4)
        density = stats.norm.logpdf(z) + map_.log_det(z)
        assert abs(density.mean() - (law.logpdf(np.log(x)) - np.log(x)).mean()) < 0.05
    beyond = np.array([-1.0, 0.0, 0.5 * x.min(), 2 * x.max(), 1e3 * x.max()])
    np.testing.assert_allclose(map_.decode(map_.encode(beyond)), beyond, rtol=1e-9, atol=1e-9 * x.min())
    below = -np.geomspace(1e-3 * x.min(), 1e3 * x.max(), 200)[::-1]  # what a new table may hold: not thousands away
    z = map_.encode(below)
    assert (np.diff(z) > 0).all() and z[0] > -10
    np.testing.assert_allclose(map_.decode(z), below, rtol=1e-4, atol=1e-4 * scale.logs[0])
    h = 1e-4 * np.abs(below)
    rise = map_.encode(below + h) - map_.encode(below - h)
    told = (rise > 1e-9) & (np.abs(below + 3 * scale.logs[0]) > 2 * h)  # not by rounding, nor where the tangent ends
    assert told.sum() > 50
    np.testing.assert_allclose(map_.log_det(z)[told], np.log((rise / (2 * h))[told]), atol=1e-4)
    assert map_.decode(map_.encode(x.max()) + 1.0) < 20 * x.max()  # the tail beyond is straight, not exponential


@pytest.mark.parametrize(
    "values",
    [
        np.exp(rng.normal(0, 1, 500)),  # 27 times
        np.append(np.exp(rng.normal(0, 4, 500)), -1.0),
        -np.exp(rng.normal(0, 4, 500)),
        np.rint(np.exp(rng.normal(1, 3, 500))),
    ],
    ids=["one decade", "one below zero", "negative", "whole numbers with zeros"],
)
def test_logarithms_are_taken_of_no_others(values: np.ndarray) -> None:
    assert fit_scale(values, "normal", None).logs is None


@pytest.mark.parametrize("transform", ["normal", "linear"])
def test_a_few_zeros_are_below_the_least_positive_value(transform: Transform) -> None:
    """They are no reason to take values over decades as they are."""
    x = np.append(np.rint(np.exp(np.random.default_rng(7).normal(9, 2, 500))), [0.0, 0.0, 0.0])
    scale = fit_scale(x, transform, 1.0)
    assert scale.logs == (max(x[x > 0].min() / 4, 0.5), x.max() + 0.5)
    z = codec(scale).encode(x)
    assert -8 < z[-1] < z[:-3].min() and abs(np.median(z)) < 0.1
    np.testing.assert_allclose(codec(scale).decode(z), x, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("spread", [0.35, 0.6, 1.0])
def test_positive_values_stay_so_below_the_least_one_and_near_their_quantiles(spread: float) -> None:
    """A straight line would lead to zero within a unit."""
    x = np.exp(np.random.default_rng(11).normal(3, spread, 400))
    scale = fit_scale(x, "normal", None)
    map_ = codec(scale)
    assert scale.logs is None and scale.tail == pytest.approx(x.min(), rel=0.3)
    low = map_.decode(np.array([-4.0, -3.5]))
    assert (low > 0).all() and low[1] < x.min()
    np.testing.assert_allclose(np.log(low), 3 + spread * np.array([-4.0, -3.5]), atol=1.2 * spread)
    straight = NormalCodec(replace(scale, tail=None)).decode(np.array([-4.0]))
    assert np.log(max(straight[0], 1e-300)) < np.log(low[0])


@pytest.mark.parametrize(
    "values",
    [
        np.random.default_rng(0).normal(170, 10, 400),
        np.append(np.random.default_rng(0).lognormal(3, 0.8, 400), -1.0),
        np.random.default_rng(0).lognormal(3, 0.8, 19),
        np.random.default_rng(0).integers(1, 6, 400).astype(float),
        np.append(np.full(200, 1.0), np.random.default_rng(0).lognormal(1, 0.8, 200) + 1),
    ],
    ids=["far from zero", "one is negative", "few", "wide cells", "a spike at the end"],
)
def test_the_map_goes_on_straight_below_others(values: np.ndarray) -> None:
    resolution = 1.0 if len(np.unique(values)) < 10 else 0.001
    spikes = find_spikes(values, resolution)
    assert fit_scale(values, "normal", resolution, spikes).tail is None


@pytest.mark.parametrize("logs", [True, False, None])
def test_logarithms_are_taken_where_they_are_asked_for(logs: bool | None) -> None:
    rng = np.random.default_rng(5)
    few, many = np.exp(0.7 * rng.normal(size=300)), np.exp(2 * rng.normal(size=300))
    assert (fit_scale(few, "linear", None, logs=logs).logs is not None) == (logs is True)
    assert (fit_scale(many, "linear", None, logs=logs).logs is not None) == (logs is not False)
    assert fit_scale(few - 1, "linear", None, logs=logs).logs is None
