"""Codecs: smooth strictly increasing maps between data units and encoded values, one class per kind of map.

Every codec works on float64 arrays of any shape. Rounding and dequantisation are not its business: `encoder` adds the
noise before `encode` and takes it away after `decode`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import final

import numpy as np

from vgi_cli.columns.base import Column, Scale
from vgi_cli.columns.numerals import Floats


class Codec(ABC):
    """A continuously differentiable bijection of the real line."""

    @abstractmethod
    def encode(self, x: Floats) -> Floats:
        """Encoded values of data values."""

    @abstractmethod
    def decode(self, z: Floats) -> Floats:
        """Data values of encoded values: the inverse of `encode`."""

    @abstractmethod
    def log_det(self, z: Floats) -> Floats:
        """log |d encoded / d data| at encoded values z."""


@final
class LinearCodec(Codec):
    """Standardisation: (x - mean) / sd."""

    def __init__(self, scale: Scale) -> None:
        self.mean, self.sd = scale.mean, scale.sd

    def encode(self, x: Floats) -> Floats:
        return np.asarray((x - self.mean) / self.sd)

    def decode(self, z: Floats) -> Floats:
        return np.asarray(z * self.sd + self.mean)

    def log_det(self, z: Floats) -> Floats:
        return np.full_like(z, -np.log(self.sd))


@final
class NormalCodec(Codec):
    """Standardisation, then a monotone rational-quadratic spline through knots, continued by straight lines.

    Rational-quadratic interpolation (Gregory and Delbourgo 1982) is increasing for any positive slopes and inverts in
    closed form.
    """

    def __init__(self, scale: Scale) -> None:
        self.linear = LinearCodec(scale)
        self.u, self.z, self.slope = np.array(scale.knots, np.float64).T.copy()

    def encode(self, x: Floats) -> Floats:
        """See Codec."""
        u = self.linear.encode(x)
        k, inner = self._bin(u, self.u)
        width, height, s0, s1 = self._pieces(k)
        t = np.where(inner, (u - self.u[k]) / width, 0.0)
        delta = height / width
        bent = self.z[k] + height * (delta * t * t + s0 * t * (1 - t)) / (delta + (s0 + s1 - 2 * delta) * t * (1 - t))
        return np.where(inner, bent, self._line(u, self.u, self.z, self.slope))

    def decode(self, z: Floats) -> Floats:
        """See Codec."""
        z = np.asarray(z, np.float64)
        k, inner = self._bin(z, self.z)
        width = self.u[k + 1] - self.u[k]
        u = np.where(
            inner, self.u[k] + width * self._fraction(z, k, inner), self._line(z, self.z, self.u, 1 / self.slope)
        )
        return self.linear.decode(u)

    def log_det(self, z: Floats) -> Floats:
        """See Codec."""
        z = np.asarray(z, np.float64)
        k, inner = self._bin(z, self.z)
        width, height, s0, s1 = self._pieces(k)
        t = self._fraction(z, k, inner)
        delta = height / width
        top = delta * delta * (s1 * t * t + 2 * delta * t * (1 - t) + s0 * (1 - t) ** 2)
        bottom = (delta + (s0 + s1 - 2 * delta) * t * (1 - t)) ** 2
        ends = np.where(z < self.z[0], self.slope[0], self.slope[-1])
        return np.asarray(np.log(np.where(inner, top / bottom, ends)) + self.linear.log_det(z))

    @staticmethod
    def _bin(value: Floats, edges: Floats) -> tuple[np.ndarray, np.ndarray]:
        """Interval of each value and whether it lies between the outer knots."""
        k = np.clip(np.searchsorted(edges, value, side="right") - 1, 0, len(edges) - 2)
        return k, (value >= edges[0]) & (value <= edges[-1])

    def _pieces(self, k: np.ndarray) -> tuple[Floats, Floats, Floats, Floats]:
        return self.u[k + 1] - self.u[k], self.z[k + 1] - self.z[k], self.slope[k], self.slope[k + 1]

    def _fraction(self, z: Floats, k: np.ndarray, inner: np.ndarray) -> Floats:
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


def codec(column: Column) -> Codec:
    """The codec of a modelled column."""
    if column.scale is None:
        raise ValueError(f"column '{column.name}' is not modelled")
    return NormalCodec(column.scale) if column.scale.knots else LinearCodec(column.scale)
