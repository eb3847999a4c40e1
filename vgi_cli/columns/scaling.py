"""Fit the state of a codec to the observed values of a column."""

from __future__ import annotations

from statistics import NormalDist

import numpy as np

from vgi_cli.columns.base import Scale, Spike, Transform
from vgi_cli.columns.codecs import NormalCodec
from vgi_cli.columns.numerals import Floats
from vgi_cli.columns.spikes import cell_widths, stretched

STEEPEST = 50.0
"""Greatest slope of the normal transform relative to that of standardising by the inter-quartile range."""
MOST_KNOTS = 16
TAIL = 1.0
"""Greatest slope beyond the outermost knots, relative to that as well. Where a column ends abruptly (uniform, capped)
the map is steep; continued so, a value a little outside of what was seen would lie dozens of standard deviations away.
The tail is no lighter than that of a normal distribution with the column's own spread."""
FURTHEST = 4.0
"""Outermost knots, in standard deviations of the normal scores."""


def fit_scale(values: Floats, transform: Transform, resolution: float | None, spikes: tuple[Spike, ...] = ()) -> Scale:
    """The codec state for observed values [n] that are not all equal.

    resolution  width of the dequantisation noise, None where the column is not dequantised
    spikes      values that are spread wider
    """
    if transform == "none":
        return Scale(0.0, 1.0)
    step = 0.0 if resolution is None else resolution
    widths = cell_widths(values, spikes, step)
    values = stretched(values, 0.5, spikes, step)
    linear = _standard(values)
    if transform == "linear":
        return linear
    u = (values - linear.mean) / linear.sd
    knots = _normal_knots(u, widths / linear.sd)
    bent = Scale(linear.mean, linear.sd, _triples(*knots))
    scores = NormalCodec(bent).encode(values)
    centre, spread = float(scores.mean()), float(scores.std())
    u_k, z_k, slope = knots
    return Scale(linear.mean, linear.sd, _triples(u_k, (z_k - centre) / spread, slope / spread))


def _standard(values: Floats) -> Scale:
    """Mean and standard deviation, without overflow or underflow of squares; of values that are close together too."""
    low = float(values.min())
    unit = float(values.max()) - low
    small = (values - low) / unit
    return Scale(low + unit * float(small.mean()), unit * float(small.std()))


def _triples(u: Floats, z: Floats, slope: Floats) -> tuple[tuple[float, float, float], ...]:
    return tuple(zip(u.tolist(), z.tolist(), slope.tolist(), strict=True))


def _normal_knots(u: Floats, widths: Floats) -> tuple[Floats, Floats, Floats]:
    """Knots (u, normal score, slope) of a smooth map to the standard normal.

    The empirical quantile function (of the dequantised values: each distinct value stands for an interval of its width)
    is averaged over windows of normal scores around a few equally spaced ones; ties are pulled apart so far that no
    slope exceeds STEEPEST.
    """
    normal = NormalDist()
    n = len(u)
    count = int(np.clip(round(1.5 * n ** (1 / 3)), 4, MOST_KNOTS))
    end = min(normal.inv_cdf(1 - 0.5 / n), FURTHEST)
    z = np.linspace(-end, end, count)
    gap = z[1] - z[0]
    window = np.linspace(-0.5, 0.5, 9) * gap
    shares = np.vectorize(normal.cdf)(z[:, None] + window)
    heights, places = _quantiles(u, widths)
    knots = np.interp(shares, heights, places).mean(1)
    spread = _spread(u)
    apart = 4 * float(np.spacing(np.abs(knots).max()))  # of neighbouring float64 numbers there
    least = max(gap * spread / STEEPEST, apart)
    steps = least * np.arange(count)
    knots = np.maximum.accumulate(knots - steps) + steps
    secant = gap / np.diff(knots)
    # Geometric means treat the map and its inverse alike, and stay moderate where neighbouring secants differ wildly.
    slope = np.concatenate([secant[:1], np.sqrt(secant[1:] * secant[:-1]), secant[-1:]])
    slope[[0, -1]] = np.minimum(slope[[0, -1]], TAIL / spread)
    return knots, z, slope


def _quantiles(u: Floats, widths: Floats) -> tuple[Floats, Floats]:
    """The distribution function of the (dequantised) values as a polygon: (shares, places)."""
    if not widths.any():
        ordered = np.sort(u)
        return (np.arange(len(u)) + 0.5) / len(u), ordered
    values, first, counts = np.unique(u, return_index=True, return_counts=True)
    half = 0.5 * widths[first]
    above = np.cumsum(counts) / len(u)
    below = np.concatenate([[0.0], above[:-1]])
    return np.stack([below, above], 1).ravel(), np.stack([values - half, values + half], 1).ravel()


def _spread(u: Floats) -> float:
    """A robust standard deviation that is positive whatever the ties (the values' own is 1)."""
    for values in (u, np.unique(u)):
        low, high = np.quantile(values, [0.25, 0.75])
        if high > low:
            return min(float(high - low) / 1.349, 1.0)
    return 1.0
