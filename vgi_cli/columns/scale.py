"""Smooth strictly increasing maps between numbers and encoded values (codecs), and how they are fitted to a column.

Every codec works on float64 arrays of any shape. Rounding and dequantisation are not its business: `Number` adds the
noise before `encode` and takes it away after `decode`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import NormalDist
from typing import NamedTuple, final

import numpy as np
from pydantic import PositiveFloat
from pydantic.dataclasses import dataclass

from vgi_cli.columns.base import STRICT, Transform
from vgi_cli.columns.heaps import Heaps
from vgi_cli.columns.lattice import Spike, cell_widths, stretched
from vgi_cli.columns.numerals import Bools, Floats, Ints

STEEPEST = 50.0
"""Greatest slope of the normal transform relative to that of standardising by the inter-quartile range."""
MOST_KNOTS = 16
TAIL = 1.0
"""Greatest slope beyond the outermost knots, relative to that as well. Where a column ends abruptly (uniform, capped)
the map is steep; continued so, a value a little outside of what was seen would lie dozens of standard deviations away.
The tail is no lighter than that of a normal distribution with the column's own spread."""
SHARPEST = 1e5
"""Greatest slope of a knot relative to the secants beside it. Within an interval whose ends are far steeper than its
secant the map is all but level, 2 secant² / slope at the least, and its inverse loses digits."""
FURTHEST = 4.0
"""Outermost knots, in standard deviations of the normal scores."""
NEAREST, FARTHER = 5, 2.5
"""Values between the edge of a spike and the knot beside it, and how many times as many to the next one."""
HAIR = 1e-9
"""How near to the edge of a spike, in normal scores, its sides come."""
WITHIN = (0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.98)
"""Shares of the cell of one of few values at which there are knots."""
HAIRLINE, SAME_EDGE = 0.25, 1e-6
"""Of the normal scores between the edge of the cell of one of few values and the next knot the share that a gap beside
it has; and of the width of a cell by how much the edges of two differ that are one."""
LARGE = 0.1
"""Share of the values from which on a spike between others is told apart from them by knots at its edges."""
COARSE, HELD = 0.25, 0.05
"""Mean width of the cells of a column, in standard deviations, and share of the values in the first or the last of
them, from which on `linear` bends it too."""
DECADES = 100.0
"""How many times the smallest twentieth of positive values the largest twentieth is, at the least, where
their logarithms are taken first: knots between which the map is all but straight cannot follow several decades."""
BELOW = 4.0
"""Which part of the least value one may be for its logarithm to be taken still: columns that go together by their ratio
do so below what was seen of one of them. Above the greatest one fills would come out too large on average."""
SOON = 4.0
"""Units of encoded values below the outermost knot of positive values within which a straight line would come to zero:
there the map goes on by the logarithm."""
DOWN = 1.5
"""Encoded units for which it does; further below come straight lines, and what is not positive in a new table."""
FEWEST = 20
"""Values that tell of a tail."""
PLACES = (np.arange(9) + 0.5) / 9 - 0.5
"""Where in its cell a value stands when encoded values are standardised."""


@dataclass(frozen=True, config=STRICT)
class Scale:
    """State of a codec: u = (x - mean) / sd, then a monotone spline through knots (u, encoded value, slope) if any.

    logs  x stands for its logarithm between these positive values, continued beyond (`_logarithm`); None: for itself
    tail  below the first knot, which is at this positive x, the map goes on by log x, not straight; None: it does not
    """

    mean: float
    sd: PositiveFloat
    knots: tuple[tuple[float, float, float], ...] = ()
    logs: tuple[PositiveFloat, PositiveFloat] | None = None
    tail: PositiveFloat | None = None


FLOOR = 4.0
"""Nats below the logarithm of the least value to which its tangent goes on."""
FARTHEST = 40.0
"""Nats below that from which on the inverse goes no further: e^40 times the largest value there can be is a number."""


def _logarithm(x: Floats, ends: tuple[float, float]) -> Floats:
    """log x between the ends, beyond them the tangents there; further below, where values are hardly positive any more
    or negative (noise around zero in a new table), the logarithm again, of the distance in units of the upper end."""
    low, high = ends
    inner = np.clip(x, low, high)
    start = low * (1 - FLOOR)
    far = np.maximum(start - x, 0.0)
    return np.asarray(np.log(inner) + (np.maximum(x, start) - inner) / inner - np.log1p(far / high))


def _exponential(y: Floats, ends: tuple[float, float]) -> Floats:
    """The inverse of `_logarithm`."""
    low, high = ends
    inner = np.clip(y, np.log(low), np.log(high))
    start = np.log(low) - FLOOR
    near = np.exp(inner) * (1 + (np.maximum(y, start) - inner))
    return np.asarray(near - high * np.expm1(np.clip(start - y, 0.0, FARTHEST)))


def _log_slope(x: Floats, ends: tuple[float, float]) -> Floats:
    """log of the derivative of `_logarithm`."""
    low, high = ends
    far = low * (1 - FLOOR) - x
    return np.asarray(np.where(far > 0, -np.log(high + np.maximum(far, 0.0)), -np.log(np.clip(x, low, high))))


class LinearCodec:
    """Standardisation: (x - mean) / sd. Every codec is a continuously differentiable bijection of the real line."""

    def __init__(self, scale: Scale) -> None:
        self.mean, self.sd, self.logs = scale.mean, scale.sd, scale.logs

    def encode(self, x: Floats) -> Floats:
        """Encoded values of data values."""
        return np.asarray(((x if self.logs is None else _logarithm(x, self.logs)) - self.mean) / self.sd)

    def decode(self, z: Floats) -> Floats:
        """Data values of encoded values: the inverse of `encode`."""
        values = np.asarray(z * self.sd + self.mean)
        return values if self.logs is None else _exponential(values, self.logs)

    def log_det(self, z: Floats) -> Floats:
        """log |d encoded / d data| at encoded values z."""
        slopes = np.full_like(z, -np.log(self.sd))
        return slopes if self.logs is None else slopes + _log_slope(self.decode(z), self.logs)


@final
class NormalCodec(LinearCodec):
    """Standardisation, then a monotone rational-quadratic spline through knots, continued by straight lines, or below
    by a logarithm.

    Rational-quadratic interpolation (Gregory and Delbourgo 1982) is increasing for any positive slopes and inverts in
    closed form.
    """

    def __init__(self, scale: Scale) -> None:
        super().__init__(scale)
        self.u, self.z, self.slope = np.array(scale.knots, np.float64).T.copy()
        self._tail = None if scale.tail is None else _Tail.of(scale, scale.tail)

    def encode(self, x: Floats) -> Floats:
        u = super().encode(x)
        k, inner = self._bin(u, self.u)
        width, height, s0, s1 = self._pieces(k)
        t = np.where(inner, (u - self.u[k]) / width, 0.0)
        delta = height / width
        bent = self.z[k] + height * (delta * t * t + s0 * t * (1 - t)) / (delta + (s0 + s1 - 2 * delta) * t * (1 - t))
        z = np.where(inner, bent, self._line(u, self.u, self.z, self.slope))
        if self._tail is None:
            return z
        return np.where(u < self.u[0], self.z[0] + self._tail.encode(np.minimum(x, self._tail.first)), z)

    def decode(self, z: Floats) -> Floats:
        z = np.asarray(z, np.float64)
        k, inner = self._bin(z, self.z)
        between = self.u[k] + (self.u[k + 1] - self.u[k]) * self._fraction(z, k, inner)
        u = np.where(inner, between, self._line(z, self.z, self.u, 1 / self.slope))
        x = super().decode(u)
        if self._tail is None:
            return x
        return np.where(z < self.z[0], self._tail.decode(np.minimum(z - self.z[0], 0.0)), x)

    def log_det(self, z: Floats) -> Floats:
        z = np.asarray(z, np.float64)
        k, inner = self._bin(z, self.z)
        width, height, s0, s1 = self._pieces(k)
        t = self._fraction(z, k, inner)
        delta = height / width
        top = delta * delta * (s1 * t * t + 2 * delta * t * (1 - t) + s0 * (1 - t) ** 2)
        bottom = (delta + (s0 + s1 - 2 * delta) * t * (1 - t)) ** 2
        ends = np.where(z < self.z[0], self.slope[0], self.slope[-1])
        rise = np.asarray(np.log(np.where(inner, top / bottom, ends)) + super().log_det(z))
        if self._tail is None:
            return rise
        return np.where(z < self.z[0], self._tail.log_det(np.minimum(z - self.z[0], 0.0)), rise)

    @staticmethod
    def _bin(value: Floats, edges: Floats) -> tuple[Ints, Bools]:
        """Interval of each value and whether it lies between the outer knots."""
        k = np.clip(np.searchsorted(edges, value, side="right") - 1, 0, len(edges) - 2)
        return k, (value >= edges[0]) & (value <= edges[-1])

    def _pieces(self, k: Ints) -> tuple[Floats, Floats, Floats, Floats]:
        return self.u[k + 1] - self.u[k], self.z[k + 1] - self.z[k], self.slope[k], self.slope[k + 1]

    def _fraction(self, z: Floats, k: Ints, inner: Bools) -> Floats:
        """Position in [0, 1] within the interval, from the encoded value: the stable root of a quadratic."""
        width, height, s0, s1 = self._pieces(k)
        delta = height / width
        rise = np.where(inner, z - self.z[k], 0.0)
        bend = rise * (s0 + s1 - 2 * delta)
        a = height * (delta - s0) + bend
        b = height * s0 - bend
        c = -delta * rise
        root = np.sqrt(np.maximum(b * b - 4 * a * c, 0.0))
        return np.clip(2 * c / np.where(inner, -b - root, 1.0), 0.0, 1.0)

    @staticmethod
    def _line(value: Floats, start: Floats, end: Floats, slope: Floats) -> Floats:
        low = end[0] + (value - start[0]) * slope[0]
        return np.asarray(np.where(value < start[0], low, end[-1] + (value - start[-1]) * slope[-1]))


class _Tail(NamedTuple):
    """The map below the first knot of positive values: it goes on by the logarithm for DOWN units, then by its tangent
    to zero, and from there, for what is not positive in a new table, as standardised values do.

    first  where that knot is
    steep  of encoded values in log x there
    low    where the tangent begins
    sd     of the column
    """

    first: float
    steep: float
    low: float
    sd: float

    @classmethod
    def of(cls, scale: Scale, first: float) -> _Tail:
        steep = scale.knots[0][2] * first / scale.sd
        return cls(first, steep, first * float(np.exp(-DOWN / steep)), scale.sd)

    def encode(self, x: Floats) -> Floats:
        """How far below the knot the encoded values lie, of values x up to `first`; 0 or less."""
        inner, positive = np.maximum(x, self.low), np.maximum(x, 0.0)
        bent = np.log(inner / self.first) + np.minimum(positive / self.low - 1, 0.0)
        return np.asarray(self.steep * bent + np.minimum(x, 0.0) / self.sd)

    def decode(self, z: Floats) -> Floats:
        """The inverse of `encode`."""
        at = z / self.steep
        tangent = np.log(self.low / self.first)
        inner = self.first * np.exp(np.maximum(at, tangent))
        straight = self.low * np.clip(at - tangent, -1.0, 0.0)
        return np.asarray(inner + straight + np.minimum(z - self.steep * (tangent - 1), 0.0) * self.sd)

    def log_det(self, z: Floats) -> Floats:
        """log of the derivative of `encode` where it is z."""
        x = self.decode(z)
        return np.asarray(np.where(x > 0, np.log(self.steep / np.maximum(x, self.low)), -np.log(self.sd)))


def codec(scale: Scale) -> LinearCodec:
    """The codec of a state."""
    return NormalCodec(scale) if scale.knots else LinearCodec(scale)


def fit_scale(
    values: Floats,
    transform: Transform,
    resolution: float | None,
    spikes: tuple[Spike, ...] = (),
    heaps: Heaps | None = None,
    *,
    logs: bool | None = None,
    few: bool = False,
) -> Scale:
    """The codec state for observed values [n] that are not all equal.

    transform   `linear` bends too where the cells are wide, COARSE on average, and one at an end holds much, HELD, or
                a spike is at an end or LARGE: standardised, such a column stops at the outer edge of its last cell, and
                fills have less there than it holds. Both take logarithms first, where `log_ends` says so and no values
                pile up
    resolution  width of the dequantisation noise, None where the column is not dequantised
    spikes      values that are spread wider
    heaps       multiples that are
    logs        whether logarithms are taken, where they can be; None: of values over decades
    few         whether there are few values, each of which is told apart from the others by knots at its edges;
                `linear` bends them too where there are gaps between them
    """
    if transform == "none":
        return Scale(0.0, 1.0)
    step = 0.0 if resolution is None else resolution
    widths, ends = cell_widths(values, spikes, step, heaps), np.array([values.min(), values.max()])
    own = [(spike.holds(values, step), bool(spike.holds(ends, step).any())) for spike in spikes]
    rooms = [rows for rows, last in own if last or rows.mean() >= LARGE]
    held = max(float((np.abs(values - end) <= 0.5 * step).mean()) for end in ends)
    over = log_ends(values, step, logs) if not spikes and heaps is None and not few else None
    if over is not None:
        below, above = (_logarithm(values + side * widths, over) for side in (-0.5, 0.5))
        if np.ptp(middle := 0.5 * (below + above)) > 0:  # else neighbours have one logarithm
            values, widths = middle, above - below
        else:
            over = None
    values = stretched(values, 0.5, spikes, step, heaps)
    linear = replace(_standard(values), logs=over)
    gaps = few and bool((np.diff(np.unique(values)) > 1.5 * step).any())
    if transform == "linear" and not rooms and not gaps and (held < HELD or widths.mean() < COARSE * linear.sd):
        return linear
    u, widths = (values - linear.mean) / linear.sd, widths / linear.sd
    cells = _Cells.of(u, widths) if widths.any() else None
    edges = [_edges(u, widths, own) for own in rooms]
    apart = _knots_of_few(cells) if few and cells is not None else None
    u_k, z_k, slope = _normal_knots(u, cells, edges) if apart is None else apart
    tail = None
    if over is None and not spikes and not few and len(u) >= FEWEST and widths.mean() < COARSE:
        tail, slope = _lower_tail(values - 0.5 * widths * linear.sd, linear, u_k, z_k, slope)
    bent = Scale(linear.mean, linear.sd, _triples(u_k, z_k, slope), over, tail)
    whole, of_u = NormalCodec(bent), NormalCodec(replace(bent, mean=0.0, sd=1.0, logs=None, tail=None))
    encode = of_u.encode if tail is None else lambda u: whole.encode(u * linear.sd + linear.mean)
    centre, spread = _moments(encode, u, cells)
    return replace(bent, knots=_triples(u_k, (z_k - centre) / spread, slope / spread))


def _lower_tail(low: Floats, linear: Scale, u: Floats, z: Floats, slope: Floats) -> tuple[float | None, Floats]:
    """Where the first knot of positive values is whose map goes on by the logarithm below, else None; and the slopes of
    all knots: that of this one is no greater than is usual for logarithms, and no less than that of a density which is
    level down to zero.

    low  [n] the lower edges of the values' cells
    u, z, slope  of the knots
    """
    first = float(u[0]) * linear.sd + linear.mean
    logs = np.log(low) if low.min() > 0 else np.zeros(1)
    if first <= 0 or not (own := float(logs.std())):
        return None, slope
    unit, gap, rise = linear.sd / first, float(u[1] - u[0]), float(z[1] - z[0])  # unit: of log x, in that of u
    usual = TAIL / (_spread((logs - logs.mean()) / own) * own)
    steep = min(rise / float(np.log1p(gap * unit)), max(float(slope[0]) / unit, usual))
    steep = max(steep, 1 / max(1.0, -float(z[0])))
    if steep > SOON or steep * unit > SHARPEST * rise / gap:
        return None, slope
    return first, np.append(steep * unit, slope[1:])


def decades(values: Floats, step: float) -> bool:
    """Whether positive values spread over DECADES, so that logarithms are taken of them unasked."""
    return log_ends(values, step, None) is not None


def log_ends(values: Floats, step: float, logs: bool | None) -> tuple[float, float] | None:
    """Between which positive values logarithms are taken: from the least positive one divided by BELOW, or half a step,
    to half a step above the greatest; a few zeros lie below. None where they are not: values are not positive, or
    `logs` is False, or None and they do not spread over DECADES."""
    few, most = np.quantile(values, [0.05, 0.95])
    if logs is False or few <= 0.5 * step or (logs is None and most <= DECADES * few):
        return None
    low = max(float(values[values > 0.5 * step].min()) / BELOW, 0.5 * step, np.finfo(float).tiny)
    tangent = low * (1 - FLOOR) + 0.5 * step
    return (low, float(values.max()) + 0.5 * step) if values.min() >= min(tangent, 0.0) else None


def _standard(values: Floats) -> Scale:
    """Mean and standard deviation, without overflow or underflow of squares; of values that are close together too."""
    low = float(values.min())
    unit = float(values.max()) - low
    small = (values - low) / unit
    return Scale(low + unit * float(small.mean()), unit * float(small.std()))


def _triples(u: Floats, z: Floats, slope: Floats) -> tuple[tuple[float, float, float], ...]:
    return tuple(zip(u.tolist(), z.tolist(), slope.tolist(), strict=True))


class _Cells(NamedTuple):
    """Dequantised values, each distinct one once: it stands for an interval of its width, and for so many values."""

    values: Floats
    widths: Floats
    counts: Ints

    @classmethod
    def of(cls, u: Floats, widths: Floats) -> _Cells:
        values, first, counts = np.unique(u, return_index=True, return_counts=True)
        return cls(values, widths[first], counts)


def _moments(encode: Callable[[Floats], Floats], u: Floats, cells: _Cells | None) -> tuple[float, float]:
    """Mean and standard deviation of encoded values, wherever in their cells they stand."""
    if cells is None:
        scores = encode(u)
        return float(scores.mean()), float(scores.std())
    scores = encode(cells.values + PLACES[:, None] * cells.widths)
    centre = np.average(scores.mean(0), weights=cells.counts)
    return float(centre), float(np.sqrt(np.average(np.square(scores - centre).mean(0), weights=cells.counts)))


def _normal_knots(u: Floats, cells: _Cells | None, rooms: Sequence[Sequence[_Edge]]) -> tuple[Floats, Floats, Floats]:
    """Knots (u, normal score, slope) of a smooth map to the standard normal.

    The empirical quantile function (of the dequantised values: each distinct value stands for an interval of its width)
    is averaged over windows of normal scores around the knots'; ties are pulled apart so far that no slope exceeds
    STEEPEST. `rooms`: the edges of spikes. These are knots, and no window lies on both sides of one: what the
    neighbours of a spike hold is not blurred with what it holds.
    """
    edges = [edge for room in rooms for edge in room]
    z, half = _scores(len(u), edges)
    window = z[:, None] + np.linspace(-1, 1, 9) * half[:, None]
    for edge in edges:
        below, above = np.minimum(window, edge.score - HAIR), np.maximum(window, edge.score + HAIR)
        window = np.where(z[:, None] <= edge.score, below, above)
    heights, places = _quantiles(u, cells)
    knots = np.interp(np.vectorize(NormalDist().cdf)(window), heights, places).mean(1)
    for edge in edges:
        knots[z == edge.score] = edge.place
    spread = _spread(u)
    apart = 4 * float(np.spacing(np.abs(knots).max()))  # of neighbouring float64 numbers there
    steps = np.append(0.0, np.cumsum(np.maximum(np.diff(z) * spread / STEEPEST, apart)))
    knots = np.maximum.accumulate(knots - steps) + steps
    return knots, z, _slopes(knots, z, spread)


def _knots_of_few(cells: _Cells) -> tuple[Floats, Floats, Floats] | None:
    """Knots (u, normal score, slope) of a smooth map to the standard normal by which each of few values has as much
    room as its share, and what lies in a gap between two of them hardly any: the edges of their cells, and places
    within these, which are uniform there. None where cells are too narrow for float64 numbers."""
    n, half, score = int(cells.counts.sum()), 0.5 * cells.widths, np.vectorize(NormalDist().inv_cdf)
    above = np.minimum(np.cumsum(cells.counts) / n, 1 - 0.5 / n)
    below = np.append(0.5 / n, above[:-1])
    low, high = score(below), score(above)
    inner = score(below + np.outer(WITHIN, above - below))
    room = HAIRLINE * np.minimum(inner[0] - low, high - inner[-1])
    low[1:], high[:-1] = low[1:] + room[1:], high[:-1] - room[:-1]
    knots = np.stack([cells.values + (2 * place - 1) * half for place in (0.0, *WITHIN, 1.0)], 1)
    z = np.stack([low, *inner, high], 1)
    joined = knots[1:, 0] - knots[:-1, -1] <= SAME_EDGE * cells.widths[1:]  # neighbours without a gap
    z[1:, 0] = np.where(joined, 0.5 * (z[1:, 0] + z[:-1, -1]), z[1:, 0])
    kept = np.ones(knots.shape, bool)
    kept[:-1, -1] = ~joined
    u, z = knots[kept], z[kept]
    if not np.diff(u).min() > 0 or not np.diff(z).min() > 0:
        return None
    return u, z, _slopes(u, z, _spread(np.repeat(cells.values, cells.counts)))


def _slopes(knots: Floats, z: Floats, spread: float) -> Floats:
    """The slopes of a map at its knots, of which those next to each other differ; `spread`: of the values."""
    secant = np.diff(z) / np.diff(knots)
    # Geometric means treat the map and its inverse alike, and stay moderate where neighbouring secants differ wildly.
    between = np.minimum(np.sqrt(secant[1:] * secant[:-1]), SHARPEST * np.minimum(secant[1:], secant[:-1]))
    slope = np.concatenate([secant[:1], between, secant[-1:]])
    slope[[0, -1]] = np.minimum(slope[[0, -1]], TAIL / spread)
    return slope


class _Edge(NamedTuple):
    """Of the room of a spike.

    share  of the values that are less
    score  the normal score of that
    place  where it is
    side   on which its neighbours are
    """

    share: float
    score: float
    place: float
    side: int


def _edges(u: Floats, widths: Floats, own: Bools) -> list[_Edge]:
    """The edges of the room of the spike that some values [n] are, those with values on both sides."""
    least, most = u[own].min(), u[own].max()
    low, high = float((u - 0.5 * widths)[own].min()), float((u + 0.5 * widths)[own].max())
    both = (float((u < least).mean()), low, -1), (float((u <= most).mean()), high, 1)
    return [_Edge(share, NormalDist().inv_cdf(share), place, side) for share, place, side in both if 0 < share < 1]


def _scores(n: int, edges: Sequence[_Edge]) -> tuple[Floats, Floats]:
    """Normal scores of the knots of n values, ascending, and the half widths of their windows: equally spaced ones, and
    for each edge of a spike itself and a few beside it, in place of those that are near."""
    normal = NormalDist()
    count = int(np.clip(round(1.5 * n ** (1 / 3)), 4, MOST_KNOTS))
    end = min(normal.inv_cdf(1 - 0.5 / n), FURTHEST)
    z = np.linspace(-end, end, count)
    gap = z[1] - z[0]
    half = np.full(count, 0.5 * gap)
    added = []
    for share, edge, _, side in edges:
        added.append((edge, 0.0))
        beside, left = NEAREST / n, 1 - share if side > 0 else share
        while beside < 0.5 * left:
            score = normal.inv_cdf(share + side * beside)
            if abs(score - edge) >= gap:
                break
            added.append((score, 0.2 * abs(score - edge)))
            beside *= FARTHER
    if added:
        scores, windows = np.array(added).T
        kept = np.abs(z[:, None] - scores).min(1) > 0.25 * gap
        kept[[0, -1]] = True
        z, half = np.append(z[kept], scores), np.append(half[kept], windows)
        order = np.argsort(z)
        z, half = z[order], half[order]
        distinct = np.append(True, np.diff(z) > 1e-3)
        z, half = z[distinct], half[distinct]
    return z, half


def _quantiles(u: Floats, cells: _Cells | None) -> tuple[Floats, Floats]:
    """The distribution function of the (dequantised) values as a polygon: (shares, places)."""
    if cells is None:
        ordered = np.sort(u)
        return (np.arange(len(u)) + 0.5) / len(u), ordered
    half = 0.5 * cells.widths
    above = np.cumsum(cells.counts) / len(u)
    below = np.concatenate([[0.0], above[:-1]])
    return np.stack([below, above], 1).ravel(), np.stack([cells.values - half, cells.values + half], 1).ravel()


def _spread(u: Floats) -> float:
    """A robust standard deviation that is positive whatever the ties (the values' own is 1)."""
    for values in (u, np.unique(u)):
        low, high = np.quantile(values, [0.25, 0.75])
        if high > low:
            return min(float(high - low) / 1.349, 1.0)
    return 1.0
