"""What do the rows cost that a fit expects least? Held-out rows under both transforms of the columns, row by row.

    python benchmarks/tails.py --data FOLDER [--tables banknote …] [--seeds 0 1 2] [--share 0.5] [--models mixture]

The numeric columns of complete tables (and `simulated`: a mixture of four Gaussians in ten columns) are cut into
half for fitting, with a share of the cells hidden completely at random, and half held out, complete. Each model is
fitted with `table.transform=linear` and `=normal`; the log-likelihood of a held-out row is in nats and units of the
data, so that the two can be compared row by row. Printed for each: the mean, the mean of the worst 1 % of the rows, the
worst row, and the most that a row loses against the other transform.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd
import yaml

import vgi_cli

TABLES = ("banknote", "concrete", "breast_wdbc", "wine_quality_white", "california_housing", "simulated")
TRANSFORMS = ("linear", "normal")
MAX_ROWS = 3000


def load(folder: Path | None, table: str, seed: int) -> pd.DataFrame:
    """Numeric columns of a table, at most MAX_ROWS of its rows; `simulated` draws 2,000 rows."""
    if table == "simulated":
        rng = np.random.default_rng(1000 + seed)
        parts = []
        for _ in range(4):
            factor = rng.standard_normal((10, 4))
            parts.append(rng.standard_normal((500, 4)) @ factor.T + 2 * rng.standard_normal(10))
        x = np.concatenate(parts) + 0.5 * rng.standard_normal((2000, 10))
        return pd.DataFrame(x, columns=[f"x{j}" for j in range(10)])
    if folder is None:
        raise SystemExit(f"--data names the folder of {table}.parquet")
    frame = pd.read_parquet(folder / f"{table}.parquet").select_dtypes("number")
    return frame.sample(min(len(frame), MAX_ROWS), random_state=seed).reset_index(drop=True)


def parsed(setting: str) -> tuple[str, object]:
    """`KEY=VALUE` as key and YAML value."""
    key, _, value = setting.partition("=")
    return key, yaml.safe_load(value)


def held_out(frame: pd.DataFrame, model: str, seed: int, share: float, settings: list[str]) -> dict[str, np.ndarray]:
    """Log-likelihood of each held-out row, nats, for each transform."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(frame))
    fitted, held = frame.iloc[order[::2]], frame.iloc[order[1::2]].reset_index(drop=True)
    fitted = fitted.astype("float64").mask(rng.random(fitted.shape) < share).reset_index(drop=True)
    scores = {}
    for transform in TRANSFORMS:
        values = {"table.transform": transform, "bootstrap": "none", **dict(map(parsed, settings))}
        with tempfile.TemporaryDirectory() as place:
            run = vgi_cli.fit(fitted, model=model, set=values, seed=seed, out=Path(place) / "run")
            rows = Path(place) / "rows.csv"
            run.evaluate(held, per_row=rows, out=Path(place) / "report")
            scores[transform] = pd.read_csv(rows)["loglik"].to_numpy()
    return scores


def main(arguments: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--tables", nargs="+", default=TABLES)
    parser.add_argument("--models", nargs="+", default=["mixture"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--share", type=float, default=0.5)
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE")
    options = parser.parse_args(arguments)
    print("| table | model | seed | transform | mean | worst 1 % | worst row | most lost against the other |")
    print("|---|---|---|---|---|---|---|---|")
    for table in options.tables:
        for model in options.models:
            for seed in options.seeds:
                frame = load(options.data, table, seed)
                scores = held_out(frame, model, seed, options.share, options.set)
                for transform, other in zip(TRANSFORMS, reversed(TRANSFORMS), strict=True):
                    own = np.sort(scores[transform])
                    worst = own[: max(1, len(own) // 100)].mean()
                    lost = float((scores[other] - scores[transform]).max())
                    cells = f"{own.mean():.2f} | {worst:.1f} | {own[0]:.1f} | {lost:.1f}"
                    print(f"| {table} | {model} | {seed} | {transform} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
