"""Are columns over decades filled well? Concentrations and the like, whose logarithms are what is regular.

    python benchmarks/decades.py [--spreads 0.35 0.6 1.0 1.5 1.9 2.3 4.6] [--correlation 0.9] [--tables 10]
        [--first 0]

Tables of 300 rows: x normal, w correlated with it, y the exponential of SPREAD times a normal variable that is
correlated with x by CORRELATION, to four significant digits; 10 % of x and 25 % of y missing completely at random. `vgi
fit` with its defaults and 20 draws, once as they are and once with no logarithms taken, nor below the least values
(`plain`). Printed: the CRPS of the hidden y in its standard deviations, that of log y in its own, the mean error of log
y in these, of all cells and of the lowest three tenths (which regression to the mean makes positive for any method);
the standard deviation of log y of the filled column over that of the whole one; fills below a third of the least value
observed, per thousand; the mean of the filled column less that of the whole one in standard errors; the coverage of the
range of 19 draws; CPU seconds a table.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd
from scores import fair_crps

import vgi_cli
from vgi_cli.columns import scale

M = 20
ROWS = 300


def table(spread: float, seed: int, correlation: float) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """A table with holes, y as it is, and which of its cells are hidden."""
    rng = np.random.default_rng([seed, int(10 * spread)])
    x = rng.normal(size=ROWS)
    w = 0.7 * x + 0.7 * rng.normal(size=ROWS)
    y = np.exp(1 + spread * (correlation * x + np.sqrt(1 - correlation**2) * rng.normal(size=ROWS)))
    hidden, hidden_x = rng.random(ROWS) < 0.25, rng.random(ROWS) < 0.1
    y = np.array([float(f"{value:.4g}") for value in y])
    frame = pd.DataFrame(
        {"x": np.where(hidden_x, np.nan, x).round(3), "w": w.round(3), "y": np.where(hidden, np.nan, y)}
    )
    return frame, y, hidden


def scores(spread: float, seed: int, correlation: float) -> list[float]:
    """What is printed, of one table."""
    frame, y, hidden = table(spread, seed, correlation)
    run = vgi_cli.fit(frame, threads=1, say=lambda line: None)
    filled = [one["y"].to_numpy(float) for one in run.impute(m=M, say=lambda line: None)]
    draws, truth = np.array([one[hidden] for one in filled]), y[hidden]
    sd = np.log(y).std()
    error = (np.log(np.maximum(draws, np.finfo(float).tiny)) - np.log(truth)) / sd
    return [
        float(fair_crps(draws, truth).mean()) / y.std(),
        float(fair_crps(error, np.zeros(len(truth))).mean()),
        error.mean(),
        error[:, truth < np.quantile(truth, 0.3)].mean(),
        float(np.mean([np.log(np.maximum(one, np.finfo(float).tiny)).std() for one in filled])) / sd,
        1000 * float((draws < y[~hidden].min() / 3).mean()),
        float(np.mean([(one.mean() - y.mean()) / (y.std() / ROWS**0.5) for one in filled])),
        float(((draws[:19].min(0) <= truth) & (truth <= draws[:19].max(0))).mean()),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spreads", type=float, nargs="+", default=[0.35, 0.6, 1.0, 1.5, 1.9, 2.3, 4.6])
    parser.add_argument("--correlation", type=float, default=0.9)
    parser.add_argument("--tables", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    heads = ["CRPS of y", "CRPS of log y", "error of log y", "of the lowest", "sd of log y", "far below, ‰"]
    heads += ["mean of y", "coverage", "CPU s"]
    print(f"| spread of log y | | {' | '.join(heads)} |")
    print(f"|--:|---|{len(heads) * '--:|'}", flush=True)
    usual = scale.DECADES, scale.SOON
    for spread in given.spreads:
        for name, rules in (("plain", (np.inf, 0.0)), ("as it is", usual)):
            scale.DECADES, scale.SOON = rules
            started = time.process_time()
            seeds = range(given.first, given.first + given.tables)
            found = np.mean([scores(spread, seed, given.correlation) for seed in seeds], 0)
            spent = (time.process_time() - started) / given.tables
            words = [f"{value:.3f}" for value in found]
            print(f"| {spread} | {name} | {' | '.join(words)} | {spent:.1f} |", flush=True)


if __name__ == "__main__":
    main()
