"""Does an autoencoder keep both of two factors?

    python benchmarks/partial_vae.py [--methods partial-vae] [--seeds 21 22 …] [--rows 1500] [--missing 0.3]

Six normal columns of two factors are fitted by `vgi fit --model vae --method METHOD` without refits. Printed for each
method: in how many fits some correlation of the columns is off by more than 0.3 in 3,000 rows of the model, the largest
error in the median fit, and the mean log-likelihood of other rows (nats a row) less that of the true law.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd

import vgi_cli

LOADINGS = np.array([[1, 0], [0.8, 0.3], [0, 1], [0.5, -0.6], [-0.7, 0.4], [0.3, 0.9]])
NOISE = np.array([0.3, 0.4, 0.2, 0.5, 0.4, 0.3])
COVARIANCE = LOADINGS @ LOADINGS.T + np.diag(NOISE)
OFF = 0.3


def rows_of(n: int, missing: float, seed: int) -> pd.DataFrame:
    """Rows of the law with holes."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2)) @ LOADINGS.T + rng.normal(size=(n, 6)) * np.sqrt(NOISE)
    return pd.DataFrame(x, columns=list("abcdef")).mask(rng.random(x.shape) < missing)


def true_loglik(table: pd.DataFrame) -> float:
    """Mean log-likelihood of the observed cells under the law, over rows that have one."""
    values = []
    for row in table.to_numpy():
        seen = ~np.isnan(row)
        if seen.any():
            part = COVARIANCE[np.ix_(seen, seen)]
            quadratic = row[seen] @ np.linalg.solve(part, row[seen])
            values.append(-0.5 * (seen.sum() * np.log(2 * np.pi) + np.linalg.slogdet(part)[1] + quadratic))
    return float(np.mean(values))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", nargs="+", default=["partial-vae"])
    parser.add_argument("--seeds", nargs="+", type=int, default=list(range(21, 29)))
    parser.add_argument("--rows", type=int, default=1500)
    parser.add_argument("--missing", type=float, default=0.3)
    args = parser.parse_args()
    scale = np.sqrt(np.diag(COVARIANCE))
    truth = COVARIANCE / np.outer(scale, scale)
    print("| method | fits | that lost a correlation | largest error, median | log-likelihood, less the true law's |")
    print("|---|--:|--:|--:|--:|")
    for method in args.methods:
        errors, behind = [], []
        for seed in args.seeds:
            test = rows_of(500, args.missing, 1000 + seed)
            with tempfile.TemporaryDirectory() as folder:
                options = {"model": "vae", "method": method, "set": {"bootstrap": "none"}, "threads": 1}
                table = rows_of(args.rows, args.missing, seed)
                run = vgi_cli.fit(table, out=Path(folder) / "run", say=lambda line: None, **options)
                errors.append(np.abs(run.sample(n=3000).corr().to_numpy() - truth).max())
                found = run.evaluate(test, say=lambda line: None)["loglik"]["mean"]
                behind.append(found - true_loglik(test))
        lost = sum(error > OFF for error in errors)
        print(f"| {method} | {len(errors)} | {lost} | {np.median(errors):.2f} | {np.mean(behind):.3f} |", flush=True)


if __name__ == "__main__":
    main()
