"""What more processes bring: wall seconds of commands by one process and by several, in turn.

    python benchmarks/processes.py [TABLE …] [--commands fit impute evaluate] [--processes 1 2] [--repeats 3]
        [--hide 0.3] [--rows 1000] [-- FLAGS]

FLAGS are those of `vgi fit`. Each table (default: the sample tables, and 2,000 simulated rows of ten columns of both
kinds) is fitted by the command line with OMP_NUM_THREADS set to each number, which bounds the processes and leaves the
threads of a step at one; `impute` (five imputations) and `evaluate` (the likelihood of the rows that were fitted) have
the run of one process, so that tables are fitted whatever the commands are. Prints the medians of the wall seconds and
of the CPU seconds of all processes together, their ratios to those of one process, and whether all runs have the same
parameters, fills or reports, bit for bit. Wall seconds mean something on idle cores only: the load average before each
command is printed.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

SAMPLES = Path(__file__).parents[1] / "sample_data"


def simulated(rows: int = 2_000) -> pd.DataFrame:
    """Two classes, seven numbers and three columns of levels, 20 % of the cells missing."""
    rng = np.random.default_rng(0)
    kind = rng.integers(2, size=rows)
    shared = rng.normal(size=(rows, 2))
    frame = pd.DataFrame(shared @ rng.normal(size=(2, 7)) + rng.normal(size=(rows, 7)) + 2 * kind[:, None])
    frame.columns = [f"x{i}" for i in range(7)]
    frame["x6"] = np.exp(frame["x6"] / 3)
    for name, levels in (("g", 2), ("h", 4), ("k", 6)):
        score = rng.normal(size=(rows, levels)) + shared[:, :1] * np.linspace(-1, 1, levels) + kind[:, None]
        frame[name] = np.array(list("abcdef"))[score.argmax(1)]
    return frame.round(3).mask(rng.random(frame.shape) < 0.2)


def measured(command: str, table: Path, processes: int, flags: Sequence[str], folder: Path) -> tuple[float, float, str]:
    """Wall and CPU seconds of a command, and the hash of what it makes."""
    fits, out = command == "fit", folder / f"{command}{processes}"
    checkpoint = ["--checkpoint", str(folder / "run")]
    words = {
        "fit": ["fit", str(table), *flags],
        "impute": ["impute", *checkpoint, "--m", "5", "--format", "long"],
        "evaluate": ["evaluate", *checkpoint, str(table)],
    }[command]
    path = folder / "run" if fits and processes == 1 else out.with_suffix(".csv") if command == "impute" else out
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "vgi_cli", *words, "--out", str(path), "--force", "-q"],
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": str(processes)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    made = {"fit": path / "model.safetensors", "impute": path, "evaluate": path / "report.json"}[command]
    return wall, cpu, hashlib.sha256(made.read_bytes()).hexdigest()


def tables(named: Sequence[str], hide: float, rows: int, folder: Path) -> list[Path]:
    """The tables to fit: those that are named, at most so many of their rows, with a share of their cells hidden."""
    if not named:
        simulated().to_csv(folder / "simulated.csv", index=False)
        return [
            SAMPLES / "penguins.csv",
            SAMPLES / "mammals.csv",
            SAMPLES / "weather.parquet",
            folder / "simulated.csv",
        ]
    found = []
    for path in map(Path, named):
        frame = pd.read_parquet(path) if path.suffix == ".parquet" else pd.read_csv(path)
        frame = frame.sample(min(rows, len(frame)), random_state=0).reset_index(drop=True)
        found.append(folder / f"{path.stem}.parquet")
        frame.mask(np.random.default_rng(0).random(frame.shape) < hide).to_parquet(found[-1])
    return found


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*")
    parser.add_argument("--commands", nargs="+", choices=("fit", "impute", "evaluate"), default=["fit"])
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--hide", type=float, default=0.3)
    parser.add_argument("--rows", type=int, default=1_000)
    own = sys.argv[1:]
    place = own.index("--") if "--" in own else len(own)
    args, flags = parser.parse_args(own[:place]), own[place + 1 :]
    commands = [one for one in ("fit", "impute", "evaluate") if one in ("fit", *args.commands)]
    if args.processes[0] != 1:
        parser.error("--processes: the first is 1, with which the others are compared")
    print("| table | command | load | processes | wall s | ratio | CPU s | ratio | same bits |")
    print("|---|---|---:|---:|---:|---:|---:|---:|---|")
    with tempfile.TemporaryDirectory() as name:
        for table in tables(args.tables, args.hide, args.rows, Path(name)):
            for command in commands:
                load, hashes = os.getloadavg()[0], set[str]()
                made: dict[int, list[tuple[float, float]]] = {count: [] for count in args.processes}
                for _ in range(args.repeats):
                    for count in args.processes:
                        wall, cpu, digest = measured(command, table, count, flags, Path(name))
                        made[count].append((wall, cpu))
                        hashes.add(digest)
                first = [statistics.median(part) for part in zip(*made[1], strict=True)]
                for count, every in made.items():
                    wall, cpu = (statistics.median(part) for part in zip(*every, strict=True))
                    ratios = f"{wall:.1f} | {wall / first[0]:.2f} | {cpu:.1f} | {cpu / first[1]:.2f}"
                    same = "yes" if len(hashes) == 1 else "NO"
                    print(f"| {table.stem} | {command} | {load:.1f} | {count} | {ratios} | {same} |", flush=True)


if __name__ == "__main__":
    main()
