"""Numbers at the ends of what float64 holds, or next to each other there, end in no warning of arithmetic."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tests.fuzz.test_tables import csv_case, parquet_case, read_and_fill
from vgi_cli.columns.scale import codec, fit_scale
from vgi_cli.encoding.infer import infer_schema
from vgi_cli.encoding.two_units import _much
from vgi_cli.table.frames import from_frame


def test_few_values_whose_cells_are_too_narrow_have_no_knots_of_their_own() -> None:
    step = float(np.spacing(7.0))
    values = 7.0 + step * np.arange(6).repeat(9)
    scale = fit_scale(values, "normal", step, few=True)
    z = codec(scale).encode(values)
    assert np.isfinite(z).all() and (np.diff(z) >= 0).all() and z.std() > 0.5


def test_neighbours_with_one_logarithm_are_taken_as_they_are() -> None:
    values = 2.0**53 + np.array([0.0, 2.0]).repeat(20)
    scale = fit_scale(values, "linear", None, logs=True)
    assert scale.logs is None and np.ptp(codec(scale).encode(values)) > 1
    assert fit_scale(1.0 + np.arange(50.0), "linear", None, logs=True).logs is not None


def test_squares_that_overflow() -> None:
    assert _much(1e200 * (1 + np.arange(9.0)), 1e209 * (1 + np.arange(9.0))) is None  # no units of temperature
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"x": np.where(rng.random(60) < 0.5, 1e250, 1e-250) * rng.uniform(1, 2, 60), "y": rng.normal(size=60)}
    )
    infer_schema(from_frame(frame))


@pytest.mark.parametrize(
    ("case", "seed"), [(csv_case, 1178), (csv_case, 1457), (csv_case, 3241), (parquet_case, 10821)]
)
def test_inputs_that_once_ended_in_a_warning(case: object, seed: int) -> None:
    assert read_and_fill(case(seed), seed) == "done"  # type: ignore[operator]
