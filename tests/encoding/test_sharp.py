"""Rounded columns that others follow as they are written are not spread over all that rounds to them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import vgi_cli
from vgi_cli.columns.base import Encoding, Transform
from vgi_cli.columns.number import Number
from vgi_cli.encoding.infer import infer_schema
from vgi_cli.encoding.sharp import LEFT
from vgi_cli.table.frames import from_frame

PLAIN = Encoding()
TERMS, DOSES, LEVELS = [12, 24, 36, 48, 60, 72, 84], [0, 40, 80, 120], [0, 10, 20, 40, 80]


def table(what: str, n: int = 300, seed: int = 0) -> pd.DataFrame:
    """x, rounded, another number z, and y, which is about 3 x + z (`ratio`: 1000 z / x)."""
    rng = np.random.default_rng(seed)
    z, noise = rng.normal(50, 10, n).round(1), rng.normal(size=n)
    x: np.ndarray = rng.choice({"doses": DOSES, "levels": LEVELS}.get(what, TERMS), n)
    size = np.exp(rng.normal(9.2, 0.6, n))
    if what == "amounts":
        x = (np.round(size / 500) * 500 + 500).astype(int)
    if what == "rounded":
        latent = rng.normal(40, 10, n)
        x = (5 * np.round(latent / 5)).astype(int)
        y = 3 * latent + z + noise
    else:
        y = 3 * x + z + (30 if what == "noisy" else 1) * noise
    if what == "ratio":
        y = 1000 * z / x * np.exp(0.01 * noise)
    if what == "amounts":
        y = 0.02 * x * np.exp((z - 50) / 30 + 0.01 * noise)
    if what == "exact":
        y = 3 * x + z
    y = y.round(2)
    if what == "slips":
        y[:5] += 500
    return pd.DataFrame({"x": x, "z": z, "own": rng.normal(size=n).round(2), "y": y})


def with_holes(frame: pd.DataFrame, seed: int = 9, share: float = 0.15) -> pd.DataFrame:
    return frame.mask(np.random.default_rng(seed).random(frame.shape) < share)


def sharp(frame: pd.DataFrame, encoding: Encoding = PLAIN, rows: np.ndarray | None = None) -> dict[str, float]:
    """By name the widths over which the values of columns are spread that others follow as they are written."""
    columns = infer_schema(from_frame(frame), encoding=encoding, rows=rows)[0].encoded
    return {one.name: one.sharp for one in columns if isinstance(one, Number) and one.sharp is not None}


@pytest.mark.parametrize("transform", ["linear", "normal"])
@pytest.mark.parametrize(
    ("what", "cell"), [("terms", 12), ("doses", 40), ("ratio", 12), ("amounts", 500), ("slips", 12)]
)
def test_what_is_followed_as_it_is_written_is_spread_by_little(what: str, cell: float, transform: Transform) -> None:
    for seed in range(3):
        found = sharp(with_holes(table(what, seed=seed)), Encoding(transform))
        assert set(found) == {"x"} and found["x"] < 0.2 * cell


@pytest.mark.parametrize("what", ["rounded", "noisy", "exact"])
def test_what_was_rounded_is_spread_over_all_that_rounds_to_it(what: str) -> None:
    """So is what leaves others far more, and what they follow exactly, which is a relation."""
    for n in (60, 300, 2000):
        for seed in range(4):
            assert sharp(with_holes(table(what, n, seed))) == {}


def test_two_that_are_rounded_alike_are_both_spread() -> None:
    """One meter read twice: each says the other as well as it is written."""
    rng = np.random.default_rng(3)
    first = np.round(rng.normal(60, 10, 500))
    second = first + (rng.random(500) < 0.02)
    assert sharp(pd.DataFrame({"first": first, "second": second, "own": rng.normal(size=500)})) == {}


def test_the_width_leaves_others_what_they_have() -> None:
    """Moved over it, x moves y by a twentieth of the variance that is left of it."""
    for seed in range(3):
        width = sharp(table("terms", 2000, seed))["x"]
        assert (3 * width) ** 2 / 12 == pytest.approx(LEFT * 1.0, rel=0.15)


def test_columns_of_few_cells_hide_nothing() -> None:
    """They go with others by chance in the few rows that have them."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        frame = with_holes(table("terms", seed=seed))
        few = {f"few{i}": np.where(rng.random(300) < 0.11, rng.normal(size=300).round(2), np.nan) for i in range(6)}
        assert set(sharp(frame.assign(**few))) == {"x"}


@pytest.mark.parametrize("unit", [1e-200, 1e200])
def test_in_any_unit(unit: float) -> None:
    """Squares of such numbers are none."""
    frame = table("terms")
    assert set(sharp(frame.assign(z=frame.z * unit, y=frame.y * unit))) == {"x"}
    wide = frame.assign(wide=10.0 ** np.random.default_rng(0).uniform(-200, 200, 300).round())
    assert set(sharp(wide)) == {"x"}


def test_only_the_rows_of_the_fit_decide() -> None:
    frame = pd.concat([table("terms"), table("noisy")], ignore_index=True)
    first = np.arange(600) < 300
    assert set(sharp(frame, rows=first)) == {"x"} and sharp(frame, rows=~first) == {} and sharp(frame) == {}


@pytest.mark.parametrize("what", ["terms", "doses", "levels", "amounts"])
@pytest.mark.parametrize("transform", ["linear", "normal"])
def test_values_come_back_and_what_is_drawn_is_a_value(what: str, transform: Transform) -> None:
    frame = table(what)
    schema = infer_schema(from_frame(frame), encoding=Encoding(transform))[0]
    x = schema.encoded[0]
    assert isinstance(x, Number) and x.sharp is not None and bool(x.levels) == (what == "levels")
    codes = frame.x.to_numpy(float)
    for place in (0.0, 0.5, 1.0):
        np.testing.assert_array_equal(x.decode(x.encode(codes, np.full((len(codes), 1), place))), codes)
    low, high = x.cell_ends(x.encode(codes, np.full((len(codes), 1), 0.5)))
    width = x.codec.decode(high[:, 0]) - x.codec.decode(low[:, 0])
    np.testing.assert_allclose(width, x.sharp, rtol=1e-3)
    drawn = x.decode(np.linspace(*np.clip(x.box()[:, 0], -3, 3), 400)[:, None])
    every = {"doses": DOSES, "levels": LEVELS, "terms": TERMS}.get(what, range(500, 10**6, 500))
    assert set(drawn) <= set(every)
    z = x.encode(codes, np.full((len(codes), 1), 0.5))
    step = 1e-6 * x.sharp
    slope = (x.codec.encode(codes + step) - x.codec.encode(codes - step)) / (2 * step)
    np.testing.assert_allclose(x.log_volume(z), np.log(slope * x.sharp), atol=1e-4)


def test_others_are_filled_as_they_follow(tmp_path: Path) -> None:
    """What is left of y beside x and z, of which the variance is 1: 39 times as far off, spread over all of a dose."""
    frame = table("doses", 300, 12)
    holes = with_holes(frame, 89)
    settings = {"table.transform": "linear", "model.components": 1, "bootstrap": "none", "trees": "none"}
    run = vgi_cli.fit(holes, out=tmp_path / "run", model="mixture", set=settings, threads=1, say=lambda line: None)
    alone = holes.y.isna() & holes[["x", "z"]].notna().all(axis=1)
    left = [(fill.y - 3 * fill.x - fill.z)[alone].std() for fill in run.impute(m=4)]
    assert np.mean(left) < 2.0
