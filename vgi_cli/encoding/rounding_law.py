"""The law of what rounding leaves of a sum: several columns, each rounded on its own, add up but for that."""

from __future__ import annotations

import numpy as np

from vgi_cli.columns.numerals import Bools, Floats
from vgi_cli.columns.places import evenly

TERMS = 400
"""Terms of the Fourier series by which the density of a sum of three or more uniform numbers is computed."""
GRID = 512
"""Places at which a density is looked at where what is left takes any value, and quantiles are read."""
STRAY = 0.01
"""Share of the rows that may lie anywhere in the window: what was rounded twice, or half way to the even digit."""
MOST_VALUES = 100
"""Different values up to which what is left may lie on a lattice."""
OFF_LATTICE = 1e-3
"""Of a lattice's step, what arithmetic may be off."""
MOST_ROWS = 10_000
"""Numbers by which it is asked whether rounding explains them, evenly spread."""
LESS_LIKELY, ERRORS = 0.1, 4.0
"""By so many nats a row, and so many standard errors, what is left is less likely than what rounding leaves."""


def by_rounding(left: Floats, halves: Floats) -> bool:
    """Whether numbers left [n] vary no more than rounding explains: they are sums of numbers that are uniform up to
    `halves` [columns] on both sides of zero (half a digit of each column, times its weight).

    Their mean log-likelihood by that law is compared with the one that the law itself expects, at the places where
    they can lie: columns with digits of the same size leave few (two columns in whole units differ by two neighbouring
    numbers at most)."""
    halves = halves[halves > 0]
    if not len(left) or not len(halves):
        return True
    width = 2 * halves.sum()
    left = left[evenly(len(left), MOST_ROWS)]

    def log_density(x: Floats) -> Floats:
        return np.asarray(np.log((1 - STRAY) * density(x, halves) * width + STRAY))

    places = _places(left, halves)
    share = (1 - STRAY) * density(places, halves) * width + STRAY
    share /= share.sum()
    logs = log_density(places)
    expected = float(share @ logs)
    error = np.sqrt(max(float(share @ np.square(logs - expected)), 0.0) / len(left))
    return bool(expected - log_density(left).mean() <= max(LESS_LIKELY, ERRORS * error))


def density(x: Floats, halves: Floats) -> Floats:
    """[..] the density at x [..] of a sum of numbers that are uniform up to `halves` [n >= 1] on both sides of zero."""
    half = halves.sum()
    inside = np.abs(x) <= half
    if len(halves) == 1:
        return np.where(inside, 0.5 / half, 0.0)
    if len(halves) == 2:
        sides = np.minimum(0.5 / halves.max(), (half - np.abs(x)) / (4 * halves.prod()))
        return np.where(inside, sides, 0.0)
    period = 2 * half
    k = np.arange(1, TERMS)
    weights = np.prod(np.sinc(2 * np.outer(k, halves) / period), 1)
    wave = np.cos(2 * np.pi / period * np.multiply.outer(x, k)) @ weights
    return np.where(inside, np.maximum((1 + 2 * wave) / period, 0.0), 0.0)


def quantiles(shares: Floats, halves: Floats) -> Floats:
    """[..] below which such a sum lies by shares [..] from 0 to 1; 0 where there is nothing to add up."""
    halves = halves[halves > 0]
    if not len(halves):
        return np.zeros_like(shares)
    grid = np.linspace(-halves.sum(), halves.sum(), 2 * GRID + 1)
    middle = density(0.5 * (grid[1:] + grid[:-1]), halves)
    return np.interp(shares, np.concatenate([[0.0], middle.cumsum() / middle.sum()]), grid)


def _places(left: Floats, halves: Floats) -> Floats:
    """Where what is left can lie: on a lattice through `left` where that lies on one, else anywhere."""
    half = halves.sum()
    step, start = _lattice(left, half)
    if step is None:
        return np.linspace(-half, half, 2 * GRID + 1)
    first = np.ceil((-half - start) / step - OFF_LATTICE)
    return np.asarray(start + step * np.arange(first, np.floor((half - start) / step + OFF_LATTICE) + 1))


def _lattice(left: Floats, half: float) -> tuple[float | None, float]:
    """The step of the lattice that numbers lie on, None of none; and one of them. Of one number alone the step is as
    wide as it can be."""
    ordered = np.sort(left)
    new = np.concatenate([[True], np.diff(ordered) > OFF_LATTICE * OFF_LATTICE * half])
    values = ordered[new]
    if len(values) > MOST_VALUES:
        return None, 0.0
    if len(values) == 1:
        return 2 * half, float(values[0])
    step = float(np.diff(values).min())
    steps = (values - values[0]) / step
    on: Bools = np.abs(steps - np.rint(steps)) <= OFF_LATTICE * np.maximum(np.rint(steps), 1)
    return (step, float(values[0])) if on.all() else (None, 0.0)
