"""Do intervals from imputed tables of numbers and levels hold the truth? Draws from the mixture alone (`exact`) beside
those of the default (`auto`), which trees revise where they predict held-out cells better.

    python benchmarks/mixed_inference.py [--rows 300] [--repetitions 60] [--seed 8000]

Tables of three numbers x, y, z and a category g, whose chances depend on x; y = 0.8 x + 0.2 z + 0.5 g + 0.6 e. A third
of the cells of x, y and g is missing, the more often the larger z is. Each is fitted by the default mixture and filled
20 times by each sampler; the regression of y on the others and the share of g are pooled by Rubin's rules.

bias      mean of the estimates less the truth
sd        their standard deviation over the tables: what a standard error should be
se        mean of the standard errors
coverage  share of tables whose 95 % interval (1.96 standard errors) holds the truth
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd

import vgi_cli
from vgi_cli.pooling.rubin import combine

DRAWS = 20
NAMES = ("intercept", "x", "z", "g", "share of g")
TRUTH = np.array([0.0, 0.8, 0.2, 0.5, 0.5])
SAMPLERS = ("exact", "auto")


def simulate(rows: int, seed: int) -> pd.DataFrame:
    """A table with holes."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(rows)
    g = rng.random(rows) < 1 / (1 + np.exp(-1.2 * x))
    z = rng.standard_normal(rows)
    y = 0.8 * x + 0.5 * g + 0.6 * rng.standard_normal(rows) + 0.2 * z
    table = pd.DataFrame({"x": x, "z": z, "y": y, "g": np.where(g, "b", "a")}).astype({"g": object})
    chance = 0.05 + 0.8 / (1 + np.exp(0.6 - z))
    for name in ("x", "y", "g"):
        table.loc[rng.random(rows) < chance, name] = None if name == "g" else np.nan
    return table


def estimates(table: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients and the share of g in a whole table, and their squared standard errors."""
    N, g = len(table), (table["g"] == "b").to_numpy(float)
    A = np.column_stack([np.ones(N), table["x"], table["z"], g])
    y = table["y"].to_numpy()
    inverse = np.linalg.inv(A.T @ A)
    b = inverse @ A.T @ y
    variance = ((y - A @ b) ** 2).sum() / (N - A.shape[1])
    return np.append(b, g.mean()), np.append(np.diag(inverse) * variance, g.mean() * (1 - g.mean()) / N)


def pooled(tables: Sequence[pd.DataFrame]) -> tuple[np.ndarray, np.ndarray]:
    """Estimates and standard errors by Rubin's rules."""
    values, squares = (np.array(part) for part in zip(*map(estimates, tables), strict=True))
    pooled = combine(values, squares)
    return pooled.estimate, np.sqrt(pooled.total)


def main(argv: Sequence[str] | None = None) -> None:
    """Parse, simulate, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=300)
    parser.add_argument("--repetitions", type=int, default=60)
    parser.add_argument("--seed", type=int, default=8000, help="of the first table")
    args = parser.parse_args(argv)
    found: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {name: [] for name in SAMPLERS}
    for seed in range(args.seed, args.seed + args.repetitions):
        with tempfile.TemporaryDirectory() as folder:
            run = vgi_cli.fit(simulate(args.rows, seed), out=Path(folder) / "run", seed=seed, threads=1)
            for name in SAMPLERS:
                found[name].append(pooled(run.impute(m=DRAWS, sampler=name)))
    print(f"{args.rows} rows, {args.repetitions} tables: " + ", ".join(NAMES))
    for name, results in found.items():
        value, error = (np.array(part) for part in zip(*results, strict=True))
        covered = (np.abs(value - TRUTH) < 1.96 * error).mean(0)
        parts = {"bias": value.mean(0) - TRUTH, "sd": value.std(0), "se": error.mean(0), "coverage": covered}
        print(f"{name}: " + "; ".join(f"{word} " + " ".join(f"{v:.3f}" for v in part) for word, part in parts.items()))


if __name__ == "__main__":
    main()
