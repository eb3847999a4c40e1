"""What bounds on fills do to an analysis: the observed range against natural limits, and codes among whole numbers.

    python benchmarks/bounds.py OUT [--repetitions 100] [--rows 200] [--models fa mixture] [--parts tail price codes]

Fills inside the observed range (`--bounds all=observed`, the default before) against natural limits, the default.

*tail*    a standard normal y with slope 0.8 on x, missing where x > 0.5 (31 % of its cells). Twenty draws, Rubin's
          rules: mean error, and share of the repetitions whose 95 % interval holds the truth, of the mean of y, its log
          variance and the slope.
*price*   the same y, but with mean 1.5 and standard deviation 0.5, and missing where x < -0.5: as good as always
          positive, so that fills are bounded at zero, though a normal is not; also without any bound.
*codes*   ten times as many rows of a normal x and a code 1, 7, 13, 99 that goes with x, or that has nothing to do
          with it: of the fills, how often a value that never occurs, and half the sum of the errors of the levels'
          shares; read as a whole number within the observed range (before), and as a code.

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
from inference import pooled

import vgi_cli

SLOPE, DRAWS, CODES = 0.8, 20, (1, 7, 13, 99)
FILLS: dict[str, dict[str, Any]] = {
    "observed range": {"bounds": {"all": "observed"}},
    "natural limits": {},
    "no bounds": {"unbounded": "all"},  # in the part tail the same as natural limits
}


def tail(rows: int, mean: float, sd: float, upper: bool, seed: int) -> pd.DataFrame:
    """x and y, with y missing where x is above 0.5 or, with not `upper`, below -0.5."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=rows)
    y = mean + sd * (SLOPE * x + np.sqrt(1 - SLOPE**2) * rng.normal(size=rows))
    return pd.DataFrame({"x": x, "y": np.where((x > 0.5) if upper else (x < -0.5), np.nan, y)})


def biases(out: Path, model: str, rows: int, repetitions: int, price: bool) -> None:
    """Print errors and coverage of one model, for each kind of bounds."""
    mean, sd = (1.5, 0.5) if price else (0.0, 1.0)
    truth = np.array([mean, np.log(sd**2), SLOPE * sd])
    for fills, options in list(FILLS.items())[: 3 if price else 2]:
        errors, covered, beyond = [], [], []
        for seed in range(repetitions):
            table = tail(rows, mean, sd, not price, 100 + seed)
            draws = fitted(table, out, model, **options).impute(m=DRAWS)
            values, half, _ = pooled(draws)
            errors.append(values - truth)
            covered.append(abs(errors[-1]) < half)
            holes = table.y.isna()
            beyond.append(np.mean([(d.y[holes] <= 0).mean() for d in draws]))
        e, c, se = np.mean(errors, 0), np.mean(covered, 0), np.std(errors, 0) / np.sqrt(repetitions)
        print(
            f"{'price' if price else 'tail'}, {rows} rows, {model}, {fills}: mean {e[0]:+.3f} ({c[0]:.2f}), "
            f"variance {np.expm1(e[1]):+.1%} ({c[1]:.2f}), slope {e[2]:+.3f} ({c[2]:.2f}); "
            f"standard errors of the errors {se[0]:.3f}, {se[1]:.1%}, {se[2]:.3f}"
            + (f"; fills at or below 0: {np.mean(beyond):.2%}" if price else ""),
            flush=True,
        )


def codes(out: Path, model: str, n: int) -> None:
    """Print how often fills are codes that never occur, and the error of the shares of the others."""
    for related in (True, False):
        rng = np.random.default_rng(5)
        x = rng.normal(size=n)
        score = x + 0.7 * rng.normal(size=n) if related else rng.normal(size=n)
        truth = np.array(CODES, float)[np.searchsorted(np.quantile(score, [0.4, 0.7, 0.9]), score)]
        hidden = rng.random(n) < 1 / (1 + np.exp(0.5 - x))
        table = pd.DataFrame({"x": x, "z": x + rng.normal(size=n), "site": np.where(hidden, np.nan, truth)})
        before: dict[str, Any] = {"columns": {"site": "integer"}, "bounds": {"all": "observed"}}
        readings = {"whole number": before} | ({} if model == "fa" else {"code": {}})  # fa takes numbers only
        for reading, options in readings.items():
            draws = fitted(table, out, model, **options).impute(m=10)
            drawn = np.concatenate([draw.site[hidden] for draw in draws]).astype(float)
            shares = np.array([(drawn == code).mean() for code in CODES])
            own = np.array([(truth[hidden] == code).mean() for code in CODES])
            never = 1 - shares.sum()
            print(
                f"codes {'with x' if related else 'alone'}, {model}, read as {reading}: never occur {never:.1%}, "
                f"distance {(abs(shares - own).sum() + never) / 2:.3f}",
                flush=True,
            )


def fitted(table: pd.DataFrame, out: Path, model: str, **options: Any) -> vgi_cli.Run:
    """A fit with defaults."""
    return vgi_cli.fit(table, model=model, out=out / "run", force=True, threads=1, **options)


def main(argv: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="folder for the runs")
    parser.add_argument("--repetitions", type=int, default=100)
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument("--models", nargs="+", default=("fa", "mixture"), choices=("fa", "mixture"))
    parser.add_argument("--parts", nargs="+", default=("tail", "price", "codes"), choices=("tail", "price", "codes"))
    given = parser.parse_args(argv)
    given.out.mkdir(parents=True, exist_ok=True)
    for model in given.models:
        for part in given.parts:
            if part == "codes":
                codes(given.out, model, 10 * given.rows)
            else:
                biases(given.out, model, given.rows, given.repetitions, part == "price")


if __name__ == "__main__":
    main()
