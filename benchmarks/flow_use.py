"""A fitted flow in use: `vgi fit`, `vgi impute` and `vgi evaluate` as whole commands, on a GPU or a CPU.

    python benchmarks/flow_use.py --data FOLDER [--tables california_housing miniboone_val] [--rows 18000 2700]
                                  [--hidden 0.1 0.5] [--fit-on cuda] [--use-on cuda cpu] [--set KEY=VALUE ...]

Each table is fitted once, on its first rows (in random order), some of whose cells are hidden. Then its holes are
filled in five tables, and other rows, with holes too, are scored. Seconds that pass, start-up, reading and writing
included; --threads is that of the CPU.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd


def split(frame: pd.DataFrame, rows: int, hidden: float, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Rows to fit, and all others, with cells hidden at random."""
    rng = np.random.default_rng(seed)
    frame = frame.iloc[rng.permutation(len(frame))]
    holey = frame.mask(rng.random(frame.shape) < hidden)
    return holey[:rows], holey[rows:]


def timed(*arguments: object) -> tuple[float, str]:
    """Seconds of a command of vgi, and what it printed."""
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "vgi_cli", *map(str, arguments)], stdout=subprocess.PIPE, text=True, check=True
    )
    return time.perf_counter() - started, done.stdout


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with TABLE.parquet")
    parser.add_argument("--tables", nargs="+", default=["california_housing", "miniboone_val"])
    parser.add_argument("--rows", nargs="+", type=int, default=[18_000, 2_700], help="rows to fit, for each table")
    parser.add_argument("--hidden", nargs="+", type=float, default=[0.1, 0.5], help="share of hidden cells, likewise")
    parser.add_argument("--seed", type=int, default=31)
    parser.add_argument("--fit-on", default="cuda")
    parser.add_argument("--use-on", nargs="+", default=["cuda"], help="devices")
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--scored", type=int, default=1000, help="rows")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help="settings of the fits")
    args = parser.parse_args()
    print("| table | command | device | s | a second | result |\n|---|---|---|--:|--:|---|")
    for table, rows, hidden in zip(args.tables, args.rows, args.hidden, strict=True):
        frame = pd.read_parquet(args.data / f"{table}.parquet").select_dtypes("number").astype(float)
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            for part, path in zip(split(frame, rows, hidden, args.seed), ("fit", "new"), strict=True):
                part.to_parquet(folder / f"{path}.parquet")
            holes = int(pd.read_parquet(folder / "fit.parquet").isna().sum().sum())
            run, settings = folder / "run", ["bootstrap=none", "trees=none", *args.set]
            common = ["--threads", args.threads, "-q"]
            said = [option for setting in settings for option in ("--set", setting)]
            fit = ["fit", folder / "fit.parquet", "--model", "flow", "--out", run, "--device", args.fit_on]
            seconds, _ = timed(*fit, *said, *common)
            print(f"| {table} | fit | {args.fit_on} | {seconds:.1f} | | {rows} rows |", flush=True)
            for device in args.use_on:
                on = ["--checkpoint", run, "--device", device, *common]
                seconds, _ = timed("impute", *on, "--m", args.draws, "-o", folder / f"{device[:4]}.parquet")
                rate, what = holes * args.draws / seconds, f"{holes} holes, {args.draws} draws"
                print(f"| {table} | impute | {device} | {seconds:.1f} | {rate:.0f} cells | {what} |", flush=True)
                seconds, out = timed(
                    "evaluate", folder / "new.parquet", *on, "--rows", args.scored, "--json", "--out", folder / device
                )
                found = json.loads(out)["loglik"]
                value = f"{found['mean']:.4f} (error of the estimate {found['monte_carlo_se']:.4f})"
                print(
                    f"| {table} | evaluate | {device} | {seconds:.1f} | {args.scored / seconds:.1f} rows | {value} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
