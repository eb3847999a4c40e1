"""Is the density as good as the cells? Held-out log-likelihood after fits to tables with half of their cells missing.

    python benchmarks/density_tables.py --data FOLDER [--tables banknote …] [--fits default miwae bic …] [--seeds 0 …]

Tables: `banknote`, `california_housing` and `wine_quality_white` of FOLDER (a row of whole numbers and a class among
them, as they are), and two that are simulated: `mixture10`, ten columns of a mixture of five Gaussians with full
covariances, and `manifold5`, five columns that are smooth functions of two latent numbers, plus 3 % noise. At most
`--rows` rows; a fifth of them, at most 500, is held out complete; of the rest half of the cells are missing at random.

Fits, each with the program's own settings but for those named:

    default  `--score loglik`: the contest chooses by likelihood
    miwae    `--model vae --method miwae`, columns standardised, as in the paper that MIWAE is from
    bic      a mixture with full covariances of 1 to 12 components, standardised columns, the number with the best BIC
             (Bayesian information criterion) on the rows of the fit; EM
    bent     the same with columns bent to normal, which the criterion compares in the units of the data

A line for each table, seed and fit: the mean log-likelihood of the held-out rows, nats, with the standard error of its
difference to `default`, row by row, and CPU seconds. One thread.
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

REAL = ("banknote", "california_housing", "wine_quality_white")
SIMULATED = ("mixture10", "manifold5")
FITS = ("default", "miwae", "bic", "bent")
COMPONENTS = range(1, 13)
PLAIN = {"bootstrap": "none", "trees": "none"}


def mixture10(rows: int, rng: np.random.Generator) -> np.ndarray:
    """Five Gaussians in ten columns."""
    label = rng.integers(5, size=rows)
    centre = 1.5 * rng.normal(size=(5, 10))
    factor = 0.45 * rng.normal(size=(5, 10, 10))
    noise = (factor[label] @ rng.normal(size=(rows, 10, 1)))[:, :, 0] + 0.3 * rng.normal(size=(rows, 10))
    return centre[label] + noise


def manifold5(rows: int, rng: np.random.Generator) -> np.ndarray:
    """A curved sheet in five columns."""
    u, v = rng.uniform(-2, 2, size=(2, rows))
    x = np.stack([u, v, np.sin(2 * u) + 0.5 * v, u * v, np.cos(1.5 * v) * u], axis=1)
    return x / x.std(0) + 0.03 * rng.normal(size=x.shape)


def load(folder: Path, table: str, rows: int) -> pd.DataFrame:
    """Complete rows."""
    if table in SIMULATED:
        x = {"mixture10": mixture10, "manifold5": manifold5}[table](rows, np.random.default_rng(len(table)))
        return pd.DataFrame(x, columns=[f"x{j}" for j in range(x.shape[1])])
    frame = pd.read_parquet(folder / f"{table}.parquet").select_dtypes("number").astype(float)
    return frame.sample(min(rows, len(frame)), random_state=0).reset_index(drop=True)


def halved(frame: pd.DataFrame, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Rows with half of the cells missing, and complete rows that are held out."""
    rng = np.random.default_rng([seed, 19])
    order = rng.permutation(len(frame))
    held = order[: min(500, len(frame) // 5)]
    rest = frame.drop(index=held)
    return rest.mask(rng.random(rest.shape) < 0.5).reset_index(drop=True), frame.iloc[held].reset_index(drop=True)


def logliks(run: vgi_cli.Run, frame: pd.DataFrame, folder: Path) -> np.ndarray:
    """The log-likelihood of each row, nats."""
    path = folder / "rows.csv"
    run.evaluate(frame, per_row=path, rows="all", force=True)
    return pd.read_csv(path)["loglik"].to_numpy()


def by_criterion(frame: pd.DataFrame, transform: str, seed: int, folder: Path) -> vgi_cli.Run:
    """The mixture with the best BIC."""
    best, least = None, np.inf
    D, N = frame.shape[1], int(frame.notna().any(axis=1).sum())
    for K in COMPONENTS:
        settings = {**PLAIN, "model.components": K, "model.covariance": "full", "table.transform": transform}
        run = vgi_cli.fit(
            frame, model="mixture", method="em", set=settings, out=folder / f"bic{K}", seed=seed, threads=1
        )
        free = K * (D + D * (D + 1) // 2) + K - 1
        criterion = free * np.log(N) - 2 * N * run.evaluate(frame)["loglik"]["mean"]
        if criterion < least:
            best, least = run, criterion
    assert best is not None
    return best


def fitted(fit: str, frame: pd.DataFrame, seed: int, folder: Path) -> vgi_cli.Run:
    """One of FITS."""
    if fit in ("bic", "bent"):
        return by_criterion(frame, {"bic": "linear", "bent": "normal"}[fit], seed, folder)
    settings = {
        "default": {"score": "loglik", "set": PLAIN},
        "miwae": {"model": "vae", "method": "miwae", "set": {"bootstrap": "none", "table.transform": "linear"}},
    }[fit]
    return vgi_cli.fit(frame, out=folder / "run", seed=seed, threads=1, **settings)


def main() -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with TABLE.parquet")
    parser.add_argument("--tables", nargs="+", default=[*REAL, *SIMULATED], choices=[*REAL, *SIMULATED])
    parser.add_argument("--fits", nargs="+", default=FITS, choices=FITS)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--rows", type=int, default=3000, help="most rows of a table, held-out ones included")
    args = parser.parse_args()
    print("| table | seed | fit | held-out log-likelihood | less than default by (standard error) | CPU s |")
    print("|---|--:|---|--:|--:|--:|", flush=True)
    for table in args.tables:
        for seed in args.seeds:
            holey, held = halved(load(args.data, table, args.rows), seed)
            scores: dict[str, np.ndarray] = {}
            for fit in args.fits:
                started = time.process_time()
                with tempfile.TemporaryDirectory() as folder:
                    run = fitted(fit, holey, seed, Path(folder))
                    spent = time.process_time() - started
                    scores[fit] = logliks(run, held, Path(folder))
                less = scores[args.fits[0]] - scores[fit]
                error = less.std(ddof=1) / np.sqrt(len(less))
                print(
                    f"| {table} | {seed} | {fit} | {scores[fit].mean():.3f} | {less.mean():+.3f} ({error:.3f}) "
                    f"| {spent:.0f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
