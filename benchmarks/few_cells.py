"""What do a flow and an autoencoder learn of few rows, and where most cells are missing?

    python benchmarks/few_cells.py [--cases 60:0.3:vae 200:0.6:vae … 45:0.2:flow] [--seeds 3 4]

Tables of four columns with one factor (correlations up to 0.92), so many rows, such a share of missing cells, are
fitted with all defaults but refits. Printed, means over the seeds: the log-likelihood of the observed cells of 400
other rows of which 30 % are hidden (nats a row), the root mean square error of the mean of 19 fills of those, the
share of them between the least and the greatest (0.9 when calibrated), the correlation of the first two columns in rows
of the model, and CPU seconds of the fit; and the likelihood that `fa`, the true law, reaches.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
import warnings
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd

import vgi_cli


def rows_of(n: int, missing: float, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Whole rows, and the same with holes."""
    rng = np.random.default_rng([seed, n])
    factor = rng.normal(size=n)
    signs, noise = {"a": 1, "b": 1, "c": -1, "d": 1}, {"a": 0.3, "b": 0.3, "c": 0.3, "d": 0.5}
    whole = pd.DataFrame({name: sign * factor + noise[name] * rng.normal(size=n) for name, sign in signs.items()})
    return whole, whole.mask(rng.random(whole.shape) < missing)


def measured(model: str, n: int, missing: float, seed: int) -> np.ndarray:
    """Log-likelihood, error, coverage, correlation and CPU seconds of one fit."""
    whole, other = rows_of(400, 0.3, 1000 + seed)
    hidden = other.isna().to_numpy()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        started = time.process_time()
        quick = {"bootstrap": "none"}
        run = vgi_cli.fit(rows_of(n, missing, seed)[1], model=model, set=quick, out=Path(folder) / "run", threads=1)
        spent = time.process_time() - started
        fills = np.stack([one.to_numpy(float)[hidden] for one in run.impute(other, m=19)])
        truth = whole.to_numpy()[hidden]
        error = np.sqrt(np.square(fills.mean(0) - truth).mean())
        inside = ((fills.min(0) <= truth) & (truth <= fills.max(0))).mean()
        correlation = run.sample(n=2000).corr().to_numpy()[0, 1]
        return np.array([run.evaluate(other)["loglik"]["mean"], error, inside, correlation, spent])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cases = ["60:0.3:vae", "200:0.6:vae", "390:0.7:vae", "45:0.2:vae", "600:0.8:flow", "390:0.5:flow", "45:0.2:flow"]
    parser.add_argument("--cases", nargs="+", default=cases, metavar="ROWS:MISSING:MODEL")
    parser.add_argument("--seeds", nargs="+", type=int, default=[3, 4])
    args = parser.parse_args()
    print("| rows | missing | model | log-likelihood | `fa` | error of fills | coverage | correlation | CPU s |")
    print("|--:|--:|---|--:|--:|--:|--:|--:|--:|")
    for case in args.cases:
        rows, missing, model = case.split(":")
        n, share = int(rows), float(missing)
        own = np.mean([measured(model, n, share, seed) for seed in args.seeds], 0)
        other = np.mean([measured("fa", n, share, seed)[0] for seed in args.seeds])
        numbers = f"{own[0]:.2f} | {other:.2f} | {own[1]:.2f} | {own[2]:.2f} | {own[3]:.2f} | {own[4]:.0f}"
        print(f"| {n} | {share:.0%} | {model} | {numbers} |", flush=True)


if __name__ == "__main__":
    main()
