"""Point estimates by the number of draws that they are made of: error of the mean and of the mode, and their time.

    python benchmarks/point_estimates.py TABLE.parquet [TABLE.parquet …] [--rows 1000] [--draws 5 20 100] [--seeds 0 1]

30 % of the cells are hidden completely at random; `vgi fit` with its defaults, then `vgi impute --point mode`, which
gives numbers their median and levels the one drawn most often, and `--point mean`. Of numbers the root mean square of
the mean's errors in standard deviations of the column, averaged over the columns; of levels the share of cells whose
mode is wrong. Wall seconds of one `--point mean`, one thread.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd

import vgi_cli


def errors(true: pd.DataFrame, hidden: pd.DataFrame, mean: pd.DataFrame, mode: pd.DataFrame) -> tuple[float, float]:
    """RMSE of numbers and error rate of levels; NaN where there are none."""
    off, wrong = [], []
    for name in true:
        rows = hidden[name] & mode[name].notna()
        if not rows.any() or pd.api.types.is_datetime64_any_dtype(true[name]):
            continue
        if pd.api.types.is_numeric_dtype(true[name]) and true[name].nunique() > 2:
            own = true[name].astype(float)
            off.append(np.sqrt(np.mean((mean[name][rows].astype(float) - own[rows]) ** 2)) / own.std())
        else:
            wrong.append(float((mode[name][rows].astype(str) != true[name][rows].astype(str)).mean()))
    return float(np.mean(off)) if off else np.nan, float(np.mean(wrong)) if wrong else np.nan


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", type=Path, nargs="+")
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--draws", type=int, nargs="+", default=[5, 20, 100])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    given = parser.parse_args()
    print("| table | draws | RMSE of the mean | wrong modes | s |")
    print("|---|--:|--:|--:|--:|")
    for path in given.tables:
        found: dict[int, list[tuple[float, float, float]]] = {m: [] for m in given.draws}
        for seed in given.seeds:
            true = pd.read_parquet(path)
            true = true.sample(min(len(true), given.rows), random_state=seed).reset_index(drop=True)
            hidden = pd.DataFrame(np.random.default_rng(seed).random(true.shape) < 0.3, columns=true.columns)
            hidden &= true.notna()
            with tempfile.TemporaryDirectory() as folder:
                run = vgi_cli.fit(true.mask(hidden), out=Path(folder) / "run", seed=seed, threads=1)
                for m, each in found.items():
                    started = time.perf_counter()
                    (mean,) = run.impute(m=m, point="mean")
                    spent = time.perf_counter() - started
                    (mode,) = run.impute(m=m, point="mode")
                    each.append((*errors(true, hidden, mean, mode), spent))
        for m, values in found.items():
            off, wrong, spent = np.nanmean(values, 0)
            print(f"| {path.stem} | {m} | {off:.3f} | {wrong:.3f} | {spent:.1f} |", flush=True)


if __name__ == "__main__":
    main()
