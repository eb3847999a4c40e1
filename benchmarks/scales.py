"""What becomes of an analysis of questionnaires: ten scales of five points that two traits move, filled and analysed.

    python benchmarks/scales.py [--rows 200 400 1000] [--repetitions 20] [--methods vgi chained trees] [--seed 0]

Ten items in two groups of five: an item is a trait (standard normal, correlation 0.3 between the two) times 0.75 plus
normal noise of sd 0.66, cut into 1 to 5. *even*: cut at -1.3, -0.5, 0.4, 1.2; *skewed*: at 0.3, 0.9, 1.4, 2.0, so that
six tenths answer 1. Beside them an age that has nothing to do with these, and an outcome y, 0.6 times the first trait
plus normal noise of sd 0.8. 30 % of the answers are missing completely at random; 20 fills of each table.

Of each method, means over the tables (and their standard error): the error, filled less complete table, of the mean
correlation of two items of a group, of Cronbach's alpha of the first group, and of the slope of y on the mean of its
items; the share of tables whose 95 % interval by Rubin's rules holds the slope that a table of a million rows has; CRPS
of the hidden answers and coverage of the range of 19 draws; CPU seconds. `chained` and `trees` are those of
`chained_mixed.py` (predictive mean matching, as R's mice; its trees). One thread.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")

import chained_mixed
import numpy as np
import pandas as pd
from mixed import COVERAGE_DRAWS, covered
from scores import fair_crps

import vgi_cli

CUTS = {"even": (-1.3, -0.5, 0.4, 1.2), "skewed": (0.3, 0.9, 1.4, 2.0)}
ITEMS = [f"q{i + 1}" for i in range(10)]
FIRST, DRAWS, SHARE, TRUTH_ROWS = ITEMS[:5], 20, 0.3, 1_000_000


class Found(NamedTuple):
    """Of one table; see above."""

    correlation: float
    alpha: float
    slope: float
    covers: float
    crps: float
    coverage: float
    seconds: float


def answers(rows: int, shape: str, rng: np.random.Generator) -> pd.DataFrame:
    """A complete table."""
    traits = rng.standard_normal((rows, 2)) @ np.array([[1, 0.3], [0, np.sqrt(1 - 0.3**2)]])
    score = 0.75 * np.repeat(traits, 5, axis=1) + 0.66 * rng.standard_normal((rows, 10))
    table = pd.DataFrame(np.digitize(score, CUTS[shape]) + 1.0, columns=ITEMS)
    table["age"] = rng.normal(45, 12, rows).round()
    table["y"] = 0.6 * traits[:, 0] + 0.8 * rng.standard_normal(rows)
    return table


def within(table: pd.DataFrame) -> float:
    """Mean correlation of two items of a group."""
    every = np.corrcoef(table[ITEMS].to_numpy(float).T)
    return float(np.mean([every[i, j] for i in range(10) for j in range(i) if i // 5 == j // 5]))


def alpha(table: pd.DataFrame) -> float:
    """Cronbach's alpha of the first group."""
    items = table[FIRST].to_numpy(float)
    return float(5 / 4 * (1 - items.var(0, ddof=1).sum() / items.sum(1).var(ddof=1)))


def slope(table: pd.DataFrame) -> tuple[float, float]:
    """Of y on the mean of the first group, and its squared standard error."""
    x, y = table[FIRST].to_numpy(float).mean(1), table.y.to_numpy(float)
    x = x - x.mean()
    found = float(x @ y / (x @ x))
    rest = y - y.mean() - found * x
    return found, float(rest @ rest / (len(x) - 2) / (x @ x))


def fill(method: str, holes: pd.DataFrame, seed: int) -> list[pd.DataFrame]:
    """DRAWS completed tables."""
    if method == "vgi":
        with tempfile.TemporaryDirectory() as folder:
            return list(vgi_cli.fit(holes, out=Path(folder) / "run", seed=seed, threads=1).impute(m=DRAWS))
    how = "trees" if method == "trees" else "regressions"
    return [chained_mixed.impute(holes, how, np.random.default_rng([seed, k])) for k in range(DRAWS)]


def measured(method: str, rows: int, shape: str, seed: int, truth: float) -> Found:
    """One table, filled and analysed."""
    rng = np.random.default_rng([seed, rows, len(shape)])
    table = answers(rows, shape, rng)
    hidden = rng.random((rows, 10)) < SHARE
    holes = table.copy()
    holes[ITEMS] = table[ITEMS].mask(hidden)
    begun = time.process_time()
    filled = fill(method, holes, seed)
    seconds = time.process_time() - begun
    estimates, variances = np.array([slope(one) for one in filled]).T
    between = estimates.var(ddof=1)
    total = variances.mean() + (1 + 1 / DRAWS) * between
    covers = abs(estimates.mean() - truth) < 1.96 * np.sqrt(total)
    draws = np.stack([one[ITEMS].to_numpy(float)[hidden] for one in filled])
    true = table[ITEMS].to_numpy(float)[hidden]
    return Found(
        float(np.mean([within(one) for one in filled])) - within(table),
        float(np.mean([alpha(one) for one in filled])) - alpha(table),
        float(estimates.mean()) - slope(table)[0],
        float(covers),
        float(fair_crps(draws, true).mean()),
        covered(draws[:COVERAGE_DRAWS], true),
        seconds,
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, and print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", nargs="+", type=int, default=[200, 400, 1000])
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--methods", nargs="+", default=["vgi", "chained", "trees"])
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(argv)
    print(
        "| answers | rows | method | correlation in a group | alpha | slope of y | its interval covers | CRPS "
        "| in range | CPU s |\n|---|--:|---|--:|--:|--:|--:|--:|--:|--:|"
    )
    for shape in CUTS:
        truth = slope(answers(TRUTH_ROWS, shape, np.random.default_rng(1)))[0]
        for rows in args.rows:
            for method in args.methods:
                seeds = range(args.seed, args.seed + args.repetitions)
                found = np.array([measured(method, rows, shape, seed, truth) for seed in seeds])
                mean, error = found.mean(0), found.std(0, ddof=1) / np.sqrt(len(found))
                first = " | ".join(f"{mean[i]:+.4f} ({error[i]:.4f})" for i in range(3))
                rest = f"{mean[3]:.2f} | {mean[4]:.4f} | {mean[5]:.3f} | {np.median(found[:, 6]):.1f}"
                print(f"| {shape} | {rows} | {method} | {first} | {rest} |", flush=True)


if __name__ == "__main__":
    main()
