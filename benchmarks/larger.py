"""A table that is larger than the memory it may take: fit and impute under --max-memory, with the peak that the system
saw.

    python benchmarks/larger.py --rows 50000 --columns 20 --max-memory 2G

It simulates a Parquet folder of numbers, whole numbers, dates, truth values and categories (a quarter of the cells
missing, completely at random), written piece by piece, runs `vgi fit` and `vgi impute` in processes of their own, and
prints for each the wall and processor time, the time a row, and `ru_maxrss`, the greatest resident memory of the
process as the kernel counts it. With --both the same is done without a limit, beside it, by turns --repeat times. A
fit of a few rows comes first, so that nothing which is compiled once for a machine (flows, by numba) is counted.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

PIECE = 100_000
"""Rows of a file of the folder."""
FEW = 500
"""Rows of the fit that comes first."""
MISSING = 0.25
PEAK = """
import os, resource, subprocess, sys, json
code = subprocess.call(sys.argv[1:])
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps([code, used.ru_maxrss * 1024, used.ru_utime + used.ru_stime]))
"""
"""Runs a command as its only child, and prints its exit code, its peak and its processor time."""


def columns(rng: np.random.Generator, rows: int, count: int) -> dict[str, pa.Array]:
    """Some rows of columns of all kinds, which three clusters and a common factor tie together."""
    cluster = rng.integers(0, 3, rows)
    factor = rng.normal(size=rows) + cluster
    made: dict[str, pa.Array] = {}
    for j in range(count):
        noise = rng.normal(size=rows)
        value = (1 + j % 3) * factor + noise
        gone = rng.random(rows) < MISSING
        match j % 10:
            case 6:
                made[f"count{j}"] = pa.array(np.clip(np.round(5 + value), 0, 40).astype(np.int64), mask=gone)
            case 7:
                day = np.clip(18_000 + 40 * value, 15_000, 21_000).astype(np.int32)
                made[f"day{j}"] = pa.array(day, mask=gone).cast(pa.date32())
            case 8:
                made[f"flag{j}"] = pa.array(value > 1, mask=gone)
            case 9:
                names = np.array(["red", "green", "blue", "black"])
                made[f"colour{j}"] = pa.array(names[(cluster + (noise > 1)) % 4], mask=gone)
            case _:
                made[f"number{j}"] = pa.array(value, mask=gone)
    return made


def simulate(folder: Path, rows: int, count: int, seed: int = 0) -> None:
    """Write the table, file by file."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(seed)
    for number, start in enumerate(range(0, rows, PIECE)):
        made = columns(rng, min(PIECE, rows - start), count)
        pq.write_table(pa.table(made), folder / f"part-{number:05}.parquet")


def measured(command: list[str]) -> tuple[float, float, float]:
    """Wall seconds, processor seconds and peak bytes of a command; it must succeed."""
    start = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", PEAK, *command], stdout=subprocess.PIPE, text=True, check=True, env=os.environ
    )
    code, peak, seconds = json.loads(done.stdout.splitlines()[-1])
    if code:
        raise SystemExit(f"exit code {code}: {' '.join(command)}")
    return time.monotonic() - start, seconds, peak


def run(data: Path, out: Path, rows: int, limit: list[str], more: list[str], m: int) -> None:
    """Fit and impute (m draws; 0: not), and print what that took."""
    vgi = [sys.executable, "-m", "vgi_cli"]
    name = "on disk" if limit else "in memory"
    fit = [*vgi, "fit", str(data), "-o", str(out), "--force", *more, *limit]
    impute = [*vgi, "impute", "--checkpoint", str(out), "--m", str(m), "-o", str(out / "filled.parquet"), *limit]
    for what, command in (("fit", fit), *([("impute", [*impute, "--force"])] if m else [])):
        wall, seconds, peak = measured(command)
        print(
            f"{what:6} {name:9} {wall:8.1f} s wall {seconds:8.1f} s processor {1e6 * seconds / rows:9.2f} µs a row "
            f"peak {peak / 1e9:6.3f} GB",
            flush=True,
        )


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--max-memory", default="2G")
    parser.add_argument("--both", action="store_true", help="also without a limit")
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--m", type=int, default=1, help="draws of a hole; 0: the fit alone")
    parser.add_argument("--folder", type=Path, default=None, help="where table and runs lie; default: a temporary one")
    parser.add_argument("fit", nargs="*", help="more of `vgi fit`, after --")
    args = parser.parse_args(argv)
    with tempfile.TemporaryDirectory(prefix="larger-", dir=args.folder) as folder:
        data = Path(folder) / "table"
        start = time.monotonic()
        simulate(data, args.rows, args.columns)
        size = sum(file.stat().st_size for file in data.iterdir())
        print(
            f"{args.rows:,} rows of {args.columns} columns, {args.rows * args.columns:,} cells: {size / 1e9:.3f} GB of "
            f"Parquet, written in {time.monotonic() - start:.1f} s; limit {args.max_memory}",
            flush=True,
        )
        simulate(Path(folder) / "few", FEW, args.columns)
        first = ["fit", str(Path(folder) / "few"), "-o", str(Path(folder) / "first"), "-q", *args.fit]
        subprocess.run([sys.executable, "-m", "vgi_cli", *first], stdout=subprocess.DEVNULL, check=True)
        for _ in range(args.repeat):
            run(data, Path(folder) / "disk", args.rows, ["--max-memory", args.max_memory], args.fit, args.m)
            if args.both:
                run(data, Path(folder) / "memory", args.rows, [], args.fit, args.m)


if __name__ == "__main__":
    main(sys.argv[1:])
