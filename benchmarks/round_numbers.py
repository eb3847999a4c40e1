"""Round numbers: what is gained by modelling that a column holds multiples of a larger unit more often than others?

    python benchmarks/round_numbers.py --data FOLDER [--tables auto_mpg concrete …] [--seeds 1 2]

Each table is shuffled; three quarters of its rows (at most 1,500) are fitted with all defaults after 20 % of their
cells were hidden, the others (at most 1,000) are held out. The same without such heaps (columns/heaps.py). Printed, on
average over the seeds: the log-likelihood of the held-out rows, nats a row; the CRPS of hidden numbers, each column
divided by its standard deviation; and the share of fills, and of hidden cells, that are values which the column holds.
"""

from __future__ import annotations

import argparse
import os
from contextlib import nullcontext
from pathlib import Path
from unittest.mock import patch

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd
from scores import fair_crps

import vgi_cli
from vgi_cli.columns import form
from vgi_cli.columns.number import Number
from vgi_cli.encoding.infer import infer_schema
from vgi_cli.table.frames import from_frame

DRAWS = 19


def measured(whole: pd.DataFrame, seed: int, heaps: bool, folder: Path) -> tuple[float, ...]:
    """Log-likelihood of held-out rows, CRPS, shares of fills and of hidden cells that the column holds."""
    table = whole.sample(frac=1, random_state=seed).reset_index(drop=True)
    n = min(3 * len(table) // 4, 1500)
    train, held = table[:n], table[n : n + 1000]
    hidden = np.random.default_rng(seed).random(train.shape) < 0.2
    holes = train.astype(object).mask(hidden, None)
    with nullcontext() if heaps else patch.object(form, "find_heaps", lambda *_, **__: None):
        holes.to_csv(folder / "t.csv", index=False)
        held.to_csv(folder / "held.csv", index=False)
        run = vgi_cli.fit(folder / "t.csv", seed=seed, threads=1, out=folder / "run", force=True)
        filled = run.impute(m=DRAWS)
    loglik = run.evaluate(folder / "held.csv")["loglik"]["mean"]
    crps, mine, theirs = [], [], []
    for i, name in enumerate(train.columns):
        gone = hidden[:, i] & train[name].notna().to_numpy()
        if not pd.api.types.is_numeric_dtype(train[name]) or not gone.any():
            continue
        draws = np.stack([pd.to_numeric(one[name])[gone].to_numpy(float) for one in filled])
        truth, seen = train[name][gone].to_numpy(float), train[name][~hidden[:, i]].dropna().unique()
        crps.append(fair_crps(draws, truth) / train[name].std())
        mine.append(np.isin(draws, seen).mean())
        theirs.append(np.isin(truth, seen).mean())
    return loglik, float(np.mean(crps)), float(np.mean(mine)), float(np.mean(theirs))


def main() -> None:
    """Measure and print."""
    import tempfile

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with TABLE.parquet")
    parser.add_argument("--tables", nargs="+", default=["auto_mpg", "concrete", "wine_quality_white", "penguins"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2])
    args = parser.parse_args()
    print("| table | columns with heaps | | log-likelihood | CRPS | fills among the values | hidden cells among them |")
    print("|---|--:|---|--:|--:|--:|--:|")
    for name in args.tables:
        whole = pd.read_parquet(args.data / f"{name}.parquet")
        columns = infer_schema(from_frame(whole))[0].encoded
        count = sum(isinstance(column, Number) and column.heaps is not None for column in columns)
        for heaps in (False, True):
            with tempfile.TemporaryDirectory() as folder:
                found = np.mean([measured(whole, seed, heaps, Path(folder)) for seed in args.seeds], 0)
            loglik, crps, mine, theirs = found
            label = "now" if heaps else "before"
            print(f"| {name} | {count} | {label} | {loglik:.2f} | {crps:.4f} | {mine:.3f} | {theirs:.3f} |", flush=True)


if __name__ == "__main__":
    main()
