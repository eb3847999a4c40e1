"""The univariate families by name."""

from __future__ import annotations

from vgi_cli.conditionals.family import Family
from vgi_cli.conditionals.gaussian import GaussianFamily
from vgi_cli.conditionals.spline import SplineFamily


def make_family(name: str, *, steps: int, bins: int) -> Family:
    """`gaussian`, or `spline` with its number of steps and bins."""
    families = {"gaussian": lambda: GaussianFamily(), "spline": lambda: SplineFamily(steps, bins)}
    return families[name]()
