"""benchmarks/make_uci.py on small raw files of the four shapes: what is dropped, split, standardised and hidden."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.scripts import Done, script


def made(*arguments: object) -> Done:
    return script("make_uci", *arguments, "--masks", 1)


def parts(folder: Path) -> list[np.ndarray]:
    return [pd.read_parquet(folder / f"{part}.parquet").to_numpy() for part in ("train", "val", "test")]


def write_power(path: Path, rows: int) -> None:
    rng = np.random.default_rng(0)
    lines = ["Date;Time;Global_active_power;Global_reactive_power;Voltage;Global_intensity;" + ";".join(
        f"Sub_metering_{i}" for i in (1, 2, 3)
    )]  # fmt: skip
    for i in range(rows):
        cells = [f"{rng.gamma(2):.3f}", "0.1", f"{rng.normal(240, 3):.2f}", "4.0", *map(str, rng.integers(0, 20, 3))]
        lines.append(";".join(["1/1/2007", f"{i // 60:02d}:{i % 60:02d}:00", *(cells if i % 10 else ["?"] * 7)]))
    path.write_text("\n".join(lines) + "\n")


def test_power(tmp_path: Path) -> None:
    write_power(tmp_path / "raw.txt", 1000)
    done = made("power", tmp_path / "raw.txt", tmp_path / "out")
    assert done.code == 0, done.err
    assert done.out.startswith("power: 729 train, 81 val, 90 test rows of 6 columns, 3 tables with holes")
    train, val, test = parts(tmp_path / "out")
    known = np.concatenate([train, val])
    np.testing.assert_allclose(known.mean(0), 0, atol=1e-12)
    np.testing.assert_allclose(known.std(0), 1)
    minutes = np.concatenate([known, test])[:, 5]  # no noise, only scaled: the gaps between minutes stay equal
    steps = np.diff(np.sort(minutes))
    assert len(np.unique(minutes)) == 900 and np.allclose(steps / steps.min(), np.rint(steps / steps.min()))
    assert len(np.unique(np.concatenate([known, test])[:, 2])) == 900  # noise: no sub-meter value twice
    for k, name in ((1, "train-1-1"), (3, "train-3-1"), (5, "train-5-1")):
        holes = pd.read_parquet(tmp_path / "out" / f"{name}.parquet")
        assert int(holes.isna().to_numpy().sum()) == 729 * 6 * k // 6
        filled = holes.fillna(pd.DataFrame(train, columns=holes.columns)).to_numpy()
        np.testing.assert_array_equal(filled, train)


def test_gas_drops_columns_that_follow_another(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 2000))
    x = np.stack([np.arange(2000) / 100, rng.random(2000), rng.random(2000), a, a + 0.01 * b, b, -b, 3 * b + 1], 1)
    lines = ["Time (seconds), CO conc (ppm), Ethylene conc (ppm), sensor readings (16 channels)"]
    (tmp_path / "raw.txt").write_text("\n".join(lines + [" ".join(f"{v:.8f}" for v in row) for row in x]) + "\n")
    done = made("gas", tmp_path / "raw.txt", tmp_path / "out")
    assert done.code == 0, done.err
    assert "405 train, 45 val, 50 test rows" in done.out
    # of sensors 1 and 2 the first goes, of 3 and 5 the first; 4 is correlated by -1 and stays
    assert list(pd.read_parquet(tmp_path / "out" / "train.parquet").columns) == ["sensor2", "sensor4", "sensor5"]
    every = np.concatenate(parts(tmp_path / "out"))
    np.testing.assert_allclose([every.mean(0), every.std(0)], [[0] * 3, [1] * 3], atol=1e-12)


def test_hepmass_keeps_the_signal_and_drops_spikes(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for name, rows in (("train", 400), ("test", 100)):
        x = rng.normal(size=(rows, 3))
        x[:40, 1] = -7.0  # a value that stands for something else
        frame = pd.DataFrame({"# label": np.arange(rows) % 2, **{f" f{j}": x[:, j] for j in range(3)}, " mass": 1000.0})
        with gzip.open(tmp_path / f"{name}.csv.gz", "wt") as file:
            frame.to_csv(file, index=False)
    done = made("hepmass", tmp_path / "train.csv.gz", tmp_path / "test.csv.gz", tmp_path / "out")
    assert done.code == 0, done.err
    assert "180 train, 20 val, 50 test rows of 2 columns" in done.out
    assert list(pd.read_parquet(tmp_path / "out" / "train.parquet").columns) == ["f0", "f2"]


def test_miniboone_keeps_the_signal_and_drops_outliers_and_spikes(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(150, 4))
    x[:3] = -999.0
    x[10:30, 2] = x[:, 2].clip(-9, 9).min() - 1
    text = "\n".join([" 103 47", *("  ".join(f"{v:.6e}" for v in row) for row in x)])
    (tmp_path / "raw.txt").write_text(text + "\n")
    done = made("miniboone", tmp_path / "raw.txt", tmp_path / "out")
    assert done.code == 0, done.err
    assert "81 train, 9 val, 10 test rows of 3 columns" in done.out
    train = parts(tmp_path / "out")[0]
    signal = x[3:103][:, [0, 1, 3]]
    mean, sd = signal[:90].mean(0), signal[:90].std(0)
    np.testing.assert_allclose(train, (signal[:81] - mean) / sd, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("power", "out"), "power takes 1 raw file and a folder"),
        (("gas", "nothing.txt", "out"), "no file 'nothing.txt'"),
    ],
)
def test_refusals(arguments: tuple[str, ...], says: str) -> None:
    done = made(*arguments)
    assert done.code == 2 and says in done.err and "Traceback" not in done.err
