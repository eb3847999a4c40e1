"""Numbers that are angles are said; other numbers that end near 360 are not."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from vgi_cli.columns.numerals import Floats
from vgi_cli.encoding.infer import infer_schema
from vgi_cli.table.frames import from_frame


def lines_of(**columns: Floats) -> list[str]:
    frame = pd.DataFrame(columns).assign(x=np.random.default_rng(9).normal(size=len(next(iter(columns.values())))))
    return [line for line in infer_schema(from_frame(frame))[1] if "angles in degrees" in line]


def north(n: int = 500, seed: int = 0) -> Floats:
    """Directions around north, most of them."""
    return np.round(np.random.default_rng(seed).normal(0, 50, n) % 360)


@pytest.mark.parametrize("name", ["wind_dir", "WindDir", "wdir", "Windrichtung", "bearing_deg", "heading1", "azimuth"])
def test_directions_are_said_by_their_name(name: str) -> None:
    even = np.round(np.random.default_rng(1).uniform(0, 360, 500), 1)
    (line,) = lines_of(**{name: even})
    assert line.startswith(
        f"column '{name}' holds angles in degrees, it seems, and a model takes 350 and 10 for numbers"
    )
    assert line.endswith("(`atan2` of the two fills is the angle)")
    rng = np.random.default_rng(2)
    for other in (rng.uniform(100, 250, 500), rng.uniform(0, 100, 500), rng.uniform(0, 400, 500), even - 180):
        assert lines_of(**{name: np.round(other, 1)}) == []


def test_values_that_are_dense_at_both_ends_are_said() -> None:
    tens = np.ceil(north() / 10) * 10
    (line,) = lines_of(a=north(), b=np.where(tens == 0, 360, tens))
    assert line.startswith("columns 'a', 'b' hold angles in degrees")


@pytest.mark.parametrize(
    "values",
    [
        np.random.default_rng(3).integers(0, 361, 500),  # as dense everywhere
        np.random.default_rng(3).beta(0.4, 0.4, 500) * 100,  # a share
        np.random.default_rng(3).beta(0.4, 0.4, 500) * 300,
        np.concatenate([np.random.default_rng(3).exponential(60, 490).clip(0, 350), np.full(10, 360)]),  # a tail
        np.random.default_rng(3).normal(180, 60, 500).clip(0, 360),
        np.random.default_rng(3).integers(18, 95, 500),  # ages
        np.random.default_rng(3).beta(0.5, 0.5, 500) * 365,
    ],
)
def test_other_numbers_are_not(values: Floats) -> None:
    assert lines_of(a=np.round(values, 1)) == []


def test_a_kind_that_is_named_says_enough() -> None:
    frame = pd.DataFrame({"wind_dir": north(), "x": np.random.default_rng(9).normal(size=500)})
    assert not [line for line in infer_schema(from_frame(frame), kinds={"wind_dir": "numeric"})[1] if "angles" in line]
