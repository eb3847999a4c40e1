"""Is an analysis of the imputed tables right? Coverage and bias under known truths.

    python benchmarks/inference.py OUT [--parts range scales sizes] [--repetitions 100] [--models fa mixture]
                                       [--sizes 200 6000 30000]

*range*   200 rows of three normal columns x, y, z with unit variances; y is missing by the value of x (43 % of its
          cells), 15 % of z at random. Twenty draws, Rubin's rules, for the mean and the log variance of y and the slope
          of y on x, with fills inside the observed range (`--bounds all=observed`) and without bounds: share of the
          repetitions whose 95 % interval holds the truth, and the mean error.
*scales*  2,000 rows of a normal x, a 0/1 column b with log odds 2 x and a scale of five points, 30 % of the cells of
          both missing at random: correlation with x among the hidden cells, true and filled.
*sizes*   200, 6,000 and 30,000 rows of four normal columns x, y, z, w, all correlations 0.2; 60 % of y missing at
          random. Twenty draws, no bounds, one factor or three components, for the same three estimates: Rubin's
          standard error (root mean of T), beside the spread of the estimates over the repetitions and, for the mean,
          beside its law, sqrt((1 - R2) / observed + R2 / rows); coverage of 95 % intervals, and the mean error.

One thread; the standard error of a coverage of 0.95 is 0.02 at 100 repetitions.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd
from scipy import stats

import vgi_cli
from vgi_cli.pooling.rubin import combine

COVARIANCE = np.array([[1.0, 0.6, 0.5], [0.6, 1.0, 0.4], [0.5, 0.4, 1.0]])
TRUTH = {"mean y": 0.0, "log var y": 0.0, "slope y ~ x": 0.6}
ROWS, DRAWS = 200, 20
PARTS = ("range", "scales", "sizes")


def estimates(table: pd.DataFrame) -> tuple[list[float], list[float]]:
    """The estimates of TRUTH on a complete table, and their squared standard errors."""
    n, line = len(table), stats.linregress(table.x, table.y)
    values = [table.y.mean(), np.log(table.y.var()), line.slope]
    return values, [table.y.var() / n, 2 / (n - 1), line.stderr**2]


def pooled(tables: Sequence[pd.DataFrame]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Estimates, half widths of their 95 % intervals and standard errors.

    Rubin 1987; degrees of freedom of Barnard and Rubin 1999."""
    values, squares = (np.array(part) for part in zip(*map(estimates, tables), strict=True))
    pooled = combine(values, squares, len(tables[0]) - 1)
    error = np.sqrt(pooled.total)
    return pooled.estimate, stats.t.ppf(0.975, pooled.df) * error, error


def observed_range(out: Path, model: str, repetitions: int) -> None:
    """Print coverage and mean error for one model, inside the observed range and beyond it."""
    for bounds in ("observed", "none"):
        errors, covered = [], []
        for seed in range(repetitions):
            rng = np.random.default_rng(100 + seed)
            table = pd.DataFrame(rng.multivariate_normal(np.zeros(3), COVARIANCE, size=ROWS), columns=list("xyz"))
            table.loc[rng.random(ROWS) < 1 / (1 + np.exp(-(1.5 * table.x - 0.4))), "y"] = np.nan
            table.loc[rng.random(ROWS) < 0.15, "z"] = np.nan
            run = fitted(table, out, model, bounds={"all": bounds})
            values, half, _ = pooled(run.impute(m=DRAWS))
            errors.append(values - np.array(list(TRUTH.values())))
            covered.append(abs(errors[-1]) < half)
        cells = [
            f"{name}: {c:.2f}, {e:+.3f}"
            for name, c, e in zip(TRUTH, np.mean(covered, 0), np.mean(errors, 0), strict=True)
        ]
        print(f"{model}, {'unbounded' if bounds == 'none' else 'in range'}: " + "; ".join(cells), flush=True)


def sizes(out: Path, model: str, rows: int, repetitions: int) -> None:
    """Print Rubin's standard errors beside the true ones for one model and number of rows."""
    covariance = np.full((4, 4), 0.2) + 0.8 * np.eye(4)
    truth = np.array([0.0, 0.0, 0.2])
    values, errors, covered = [], [], []
    for seed in range(repetitions):
        rng = np.random.default_rng(70_000 + seed)
        table = pd.DataFrame(rng.multivariate_normal(np.zeros(4), covariance, size=rows), columns=list("xyzw"))
        table.loc[rng.random(rows) < 0.6, "y"] = np.nan
        size = {"model.factors": 1} if model == "fa" else {"model.components": 3}
        run = fitted(table, out, model, bounds={"all": "none"}, set=size)
        value, half, error = pooled(run.impute(m=DRAWS))
        values.append(value)
        errors.append(error)
        covered.append(abs(value - truth) < half)
    explained = covariance[1, [0, 2, 3]] @ np.linalg.solve(np.delete(np.delete(covariance, 1, 0), 1, 1), [0.2] * 3)
    theory = np.sqrt((1 - explained) / (0.4 * rows) + explained / rows)
    root, spread = np.sqrt(np.mean(np.square(errors), 0)), np.std(values, 0, ddof=1)
    bias, share = np.mean(values, 0) - truth, np.mean(covered, 0)
    cells = [
        f"{name}: sqrt(T) {root[i]:.4f}, spread {spread[i]:.4f}, coverage {share[i]:.2f}, {bias[i]:+.4f}"
        for i, name in enumerate(TRUTH)
    ]
    cells[0] += f" (theory {theory:.4f})"
    print(f"{model}, {rows} rows, {repetitions} tables: " + "; ".join(cells), flush=True)


def scales(out: Path, model: str) -> None:
    """Print the correlations of a 0/1 column and of a scale, both modelled as numbers, with x."""
    rng = np.random.default_rng(9)
    n = 2000
    x = rng.normal(size=n)
    truth = pd.DataFrame({"x": x, "z": 0.5 * x + rng.normal(size=n)})
    truth["b"] = (rng.random(n) < 1 / (1 + np.exp(-2 * x))).astype(float)
    truth["points"] = np.clip(np.round(3 + x + 0.7 * rng.normal(size=n)), 1, 5)
    table = truth.copy()
    for name in ("b", "points"):
        table[name] = table[name].mask(rng.random(n) < 0.3)
    draws = fitted(table, out, model, columns={"b": "integer"}).impute(m=10)
    for name in ("b", "points"):
        hidden = table[name].isna()
        own = np.corrcoef(x[hidden], truth[name][hidden])[0, 1]
        filled = np.mean([np.corrcoef(x[hidden], draw[name][hidden])[0, 1] for draw in draws])
        print(f"{model}, correlation with {name}: true {own:.3f}, filled {filled:.3f}", flush=True)


def fitted(table: pd.DataFrame, out: Path, model: str, **options: Any) -> vgi_cli.Run:
    """A fit with defaults."""
    return vgi_cli.fit(table, model=model, out=out / "run", force=True, threads=1, **options)


def main(argv: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="folder for the runs")
    parser.add_argument("--parts", nargs="+", default=PARTS, choices=PARTS)
    parser.add_argument("--sizes", nargs="+", type=int, default=(200, 6000, 30000), help="rows of `sizes`")
    parser.add_argument("--repetitions", type=int, default=100)
    parser.add_argument("--models", nargs="+", default=("fa", "mixture"), choices=("fa", "mixture"))
    given = parser.parse_args(argv)
    given.out.mkdir(parents=True, exist_ok=True)
    for model in given.models:
        if "range" in given.parts:
            observed_range(given.out, model, given.repetitions)
        if "scales" in given.parts:
            scales(given.out, model)
        for rows in given.sizes if "sizes" in given.parts else ():
            sizes(given.out, model, rows, given.repetitions)


if __name__ == "__main__":
    main()
