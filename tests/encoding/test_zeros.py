"""Zeros that stand for missing cells lie far below all other values; true zeros are not asked about."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest

from tests.table.helpers import save
from vgi_cli.encoding.infer import infer_schema
from vgi_cli.encoding.zeros import zero_beside, zero_far_below
from vgi_cli.table.frames import from_frame
from vgi_cli.table.reader import read_table

Floats = npt.NDArray[np.float64]
N = 600
RNG = np.random.default_rng(0)
NORMAL = RNG.normal(size=N)
LARGE = np.exp(RNG.normal(size=N))


def zeros(values: npt.ArrayLike, share: float) -> Floats:
    """Values with 0 in a share of the cells."""
    return np.where(RNG.random(N) < share, 0.0, values)


@pytest.mark.parametrize("share", [0.01, 0.08, 0.25])
@pytest.mark.parametrize(
    "values",
    [
        (32 + 7 * NORMAL).clip(18.2, 67).round(1),  # body mass index
        (2 * np.round(36 + 6 * NORMAL)).clip(36, 120),  # blood pressure, even numbers
        (120 + 30 * NORMAL).round().clip(50, 199),  # glucose
        RNG.uniform(18, 65, N).round(),  # ages
        np.exp(5 + 0.2 * NORMAL).round(1),
    ],
)
def test_zeros_far_below_all_other_values(values: Floats, share: float) -> None:
    assert zero_far_below(zeros(values, share))
    assert not zero_far_below(values)


@pytest.mark.parametrize("share", [0.01, 0.08, 0.5, 0.9])
@pytest.mark.parametrize(
    "values",
    [
        (5 * LARGE).round(1),  # rain
        (100 * LARGE).round() + 5,  # spending
        RNG.poisson(2, N),  # visits
        RNG.choice([5, 10, 15, 20, 40], N),  # cigarettes
        RNG.choice([5, 10, 20], N),  # doses
        (60 + 25 * NORMAL).clip(3, 100).round(),  # per cent
        (40 + 8 * NORMAL).clip(5, 70).round(),  # hours of work
        (12 + 3 * NORMAL).clip(2, 20).round(),  # years at school
        np.where(NORMAL > 0, 20 + NORMAL, 0.1 + LARGE),  # two heaps
        NORMAL,
    ],
)
def test_true_zeros(values: Floats, share: float) -> None:
    assert not zero_far_below(zeros(values, share))


def test_many_zeros_are_a_control_group() -> None:
    assert not zero_far_below(zeros(20 + NORMAL, 0.4))
    assert not zero_far_below(np.zeros(N)) and not zero_far_below(np.zeros(0))


def test_zeros_beside_such_ones() -> None:
    first = RNG.random(N) < 0.04
    skin = np.where(first | (RNG.random(N) < 0.3), 0.0, (29 + 9 * NORMAL).clip(7, 60).round())
    assert zero_beside(first, skin)
    assert zero_beside(first, np.where(RNG.random(N) < 0.2, np.nan, skin))
    assert not zero_beside(first, np.where(first, 12.0, skin))
    assert not zero_beside(first, -skin)
    assert not zero_beside(first, np.where(first, 0.0, RNG.poisson(3, N)))  # counts, which may be true
    assert not zero_beside(first & (np.cumsum(first) <= 4), skin)  # too few
    assert not zero_beside(first, np.where(RNG.random(N) < 0.95, 0.0, skin) * ~first)  # by chance


def patients() -> pd.DataFrame:
    pressure = zeros((2 * np.round(36 + 6 * NORMAL)).clip(36, 120), 0.05).astype(int)
    skin = np.where((pressure == 0) | (RNG.random(N) < 0.25), 0.0, (29 + 9 * NORMAL).clip(7, 60).round()).astype(int)
    mass = zeros((32 + 7 * RNG.normal(size=N)).clip(18.2, 67).round(1), 0.02)
    out = RNG.integers(0, 2, N)
    return pd.DataFrame({"visits": RNG.poisson(2, N), "pressure": pressure, "skin": skin, "mass": mass, "out": out})


def test_zeros_that_may_mean_missing_are_asked_about_and_make_no_rule() -> None:
    frame = patients()
    schema, notes = infer_schema(from_frame(frame))
    far, beside = [line for line in notes if line.startswith("0 (")]
    count = int((frame[["pressure", "mass"]] == 0).to_numpy().sum())
    assert far.startswith(
        f"0 ({count} cells) is far below all other values, none of which is near zero, of columns 'pressure', 'mass': "
    )
    assert beside.startswith(f"0 ({(frame.skin == 0).sum()} cells) is beside every 0 of 'pressure' the value of column")
    assert schema.structural_zeros == ()
    schema, notes = infer_schema(from_frame(frame.replace({"pressure": {0: 72}, "mass": {0.0: 32.0}})))
    assert not [line for line in notes if line.startswith("0 (")]


def test_the_flag_names_the_columns_where_zero_is_a_level_of_another_one(tmp_path: Path) -> None:
    frame = patients().drop(columns=["visits", "skin"])
    for out, flag in ((frame.out, "pressure,mass=0"), (frame.out.map({0: "no", 1: "yes"}), "0")):
        path = save(tmp_path, "t.csv", frame.assign(out=out).to_csv(index=False))
        [line] = [line for line in infer_schema(read_table([str(path)]))[1] if line.startswith("0 (")]
        assert f"`--na-values {flag}` if that means missing, `--na-values pressure=0` in 'pressure' alone" in line
