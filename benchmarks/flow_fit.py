"""What does a flow reach with its own settings, and in how much time?

    python benchmarks/flow_fit.py --data FOLDER [--tables california_housing …] [--rows 300 1500 18000] [--hidden 0.2]
                                  [--seeds 1] [--model flow] [--time-limit T] [--device cpu|cuda] [--set KEY=VALUE …]

A random choice of the rows of a table, of whose cells a share is hidden at random, is fitted by `vgi fit --model flow`
without refits; the mean log-likelihood (nats) of 500 other, complete rows, CPU seconds of the fit, seconds that passed
and its epochs are printed. Compare trees by running the script in each of them (PYTHONPATH). One thread.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd
from density_tables import logliks

import vgi_cli

HELD = 500


def rows_of(frame: pd.DataFrame, rows: int, hidden: float, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Rows with holes, and other complete ones."""
    rng = np.random.default_rng([seed, 77])
    order = rng.permutation(len(frame))
    fitted = frame.iloc[order[:rows]].reset_index(drop=True)
    return fitted.mask(rng.random(fitted.shape) < hidden), frame.iloc[order[rows : rows + HELD]].reset_index(drop=True)


def _value(text: str) -> object:
    """A setting as JSON, or the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def main() -> None:
    """Parse, measure, print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with TABLE.parquet")
    parser.add_argument("--tables", nargs="+", default=["california_housing"])
    parser.add_argument("--rows", nargs="+", type=int, default=[300, 1500, 18_000])
    parser.add_argument("--hidden", type=float, default=0.2)
    parser.add_argument("--seeds", nargs="+", type=int, default=[1])
    parser.add_argument("--model", default="flow")
    parser.add_argument("--time-limit")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--set", nargs="+", default=[], metavar="KEY=VALUE", help="settings of the fits")
    args = parser.parse_args()
    print(
        "| table | rows | seed | held-out log-likelihood | median | CPU s | s | epochs |\n"
        "|---|--:|--:|--:|--:|--:|--:|--:|"
    )
    for table in args.tables:
        frame = pd.read_parquet(args.data / f"{table}.parquet").select_dtypes("number").astype(float)
        for rows in args.rows:
            for seed in args.seeds:
                holey, held = rows_of(frame, rows, args.hidden, seed)
                with tempfile.TemporaryDirectory() as folder:
                    started, began = time.process_time(), time.perf_counter()
                    said = dict(setting.split("=", 1) for setting in args.set)
                    settings = {"bootstrap": "none", "trees": "none", **{k: _value(v) for k, v in said.items()}}
                    options = {"model": args.model, "set": settings, "seed": seed, "threads": 1, "device": args.device}
                    if args.time_limit:
                        options["time_limit"] = args.time_limit
                    run = vgi_cli.fit(holey, out=Path(folder) / "run", **options)
                    spent, passed = time.process_time() - started, time.perf_counter() - began
                    values = logliks(run, held, Path(folder))
                print(
                    f"| {table} | {rows} | {seed} | {values.mean():.3f} | {np.median(values):.3f} | {spent:.0f} "
                    f"| {passed:.0f} | {run.manifest['epochs']} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
