"""Does the score of held-out rows (`vgi fit --val 0.2`) say what fresh rows score?

    python benchmarks/heldout.py OUT [--rows 200] [--repetitions 200] [--models mixture fa] [--transform normal]

Tables of five columns (a normal and four log-normal ones, correlations of 0.5 between the normals behind them), 20 % of
the cells missing completely at random. Each is fitted with a fifth of its rows held out; the
log-likelihood of these, nats a row, is compared with that of as many fresh rows, ten times over. From both the log
density of the rows under the true law is taken away, which leaves the mean of the difference as it is and most of its
noise out. Positive: the held-out rows score too well. One thread.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd
from scipy import stats

import vgi_cli
from vgi_cli.data import split_rows
from vgi_cli.run.plan import stream

SCALES = np.array([0.0, 0.3, 0.6, 1.0, 1.5])
"""Of the logarithm of a column; 0: the normal itself."""
D, MISSING, HELD, FRESH = len(SCALES), 0.2, 0.2, 10
CORRELATION = 0.5 * (np.eye(D) + np.ones((D, D)))


def draw(rows: int, rng: np.random.Generator) -> tuple[pd.DataFrame, np.ndarray]:
    """A table with holes, and the log density [rows] of its observed cells."""
    z = rng.multivariate_normal(np.zeros(D), CORRELATION, rows)
    seen = rng.random(z.shape) >= MISSING
    x = np.where(SCALES > 0, np.exp(SCALES * z), z)
    frame = pd.DataFrame(np.where(seen, x, np.nan), columns=list("abcde"))
    slopes = np.where(SCALES > 0, np.log(np.where(SCALES > 0, SCALES, 1.0)) + SCALES * z, 0.0)
    density = np.zeros(rows)
    for i in np.flatnonzero(seen.any(1)):
        o = np.flatnonzero(seen[i])
        density[i] = stats.multivariate_normal.logpdf(z[i, o], cov=CORRELATION[np.ix_(o, o)]) - slopes[i, o].sum()
    return frame, density


def score(run: vgi_cli.Run, frame: pd.DataFrame, density: np.ndarray) -> float:
    """Mean over the rows with an observed cell of the log-likelihood above that of the true law, nats."""
    used = frame.notna().any(axis=1).to_numpy()
    return float(run.evaluate(frame)["loglik"]["mean"] - density[used].mean())


def difference(out: Path, model: str, transform: str, rows: int, seed: int) -> float:
    """By how much the held-out rows of a fit score better than fresh ones, nats a row."""
    rng = np.random.default_rng(seed)
    frame, density = draw(rows, rng)
    settings = {"bootstrap": "none", "table.transform": transform}
    run = vgi_cli.fit(frame, model=model, val=HELD, set=settings, seed=seed, threads=1, out=out, force=True)
    held = split_rows(rows, HELD, stream(seed, "split"))[1].numpy()
    return score(run, frame.iloc[held], density[held]) - score(run, *draw(FRESH * len(held), rng))


def main(argv: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument("--repetitions", type=int, default=200)
    parser.add_argument("--models", nargs="+", default=["mixture", "fa"])
    parser.add_argument("--transform", default="normal")
    options = parser.parse_args(argv)
    options.out.mkdir(parents=True, exist_ok=True)
    for model in options.models:
        run = options.out / model
        seeds = range(options.repetitions)
        found = np.array([difference(run, model, options.transform, options.rows, seed) for seed in seeds])
        error = found.std(ddof=1) / np.sqrt(len(found)) if len(found) > 1 else np.nan
        print(f"{model}, {options.transform}, {options.rows} rows: {found.mean():+.3f} (se {error:.3f}) nats a row")


if __name__ == "__main__":
    main()
