"""Columns that go together by their ratio, or as a product, from the table to fills."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from tests.encoding.test_proportional import charges, twice
from tests.program import Vgi

ONE = ["--model", "mixture", "--set", "model.components=1", "--set", "bootstrap=none"]


def filled(vgi: Vgi, folder: Path, truth: pd.DataFrame, holes: np.ndarray, transform: str) -> list[pd.DataFrame]:
    """Five tables in which one mixture of one component has filled the holes."""
    truth.mask(holes).to_csv(folder / "t.csv", index=False)
    fit = vgi("fit", folder / "t.csv", "--out", folder / "run", *ONE, "--set", f"table.transform={transform}")
    assert fit.code == 0
    assert vgi("impute", "--checkpoint", folder / "run", "--m", 5, "--out", folder / "f.csv").code == 0
    return [pd.read_csv(folder / f"f.{i}.csv") for i in range(1, 6)]


def test_small_values_keep_to_the_ratio_as_large_ones_do(vgi: Vgi, tmp_path: Path) -> None:
    truth = twice(n=800)
    holes = np.random.default_rng(1).random(truth.shape) < [0.25, 0.25, 0.0]
    tables = filled(vgi, tmp_path, truth, holes, "linear")
    one, small = holes.sum(1) == 1, (truth["first"] < truth["first"].quantile(1 / 3)).to_numpy()
    for rows in (one & small, one & ~small):
        apart = [1.4826 * np.log((table["first"] / table["second"])[rows]).abs().median() for table in tables]
        assert 0.09 < np.mean(apart) < 0.145  # 0.113 of the whole table


def test_what_is_nearly_a_product_is_filled_as_one(vgi: Vgi, tmp_path: Path) -> None:
    truth = charges()
    holes = np.random.default_rng(1).random(truth.shape) < [0.2, 0.2, 0.2, 0.0]
    tables = filled(vgi, tmp_path, truth, holes, "normal")
    for rows in (holes.sum(1) == 1, holes[:, :3].sum(1) == 2):
        ratios = [np.log((table["total"] / (table["months"] * table["price"]))[rows]) for table in tables]
        apart = np.mean([1.4826 * ratio.abs().median() for ratio in ratios])
        assert apart < 0.06
