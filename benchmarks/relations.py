"""Do fills agree with what holds in every row? Totals, other units, copies and names of levels, filled both ways.

    python benchmarks/relations.py bike_sharing_hour.parquet [--rows 1000] [--share 0.2] [--seeds 0 1 2]

Rows of the table with three counts that add up (casual + registered = cnt), the temperature once more in degrees
Fahrenheit, the humidity twice, the season as a code and as a name, and the part of the day; a share of the cells is
hidden. `vgi fit` with its defaults, three filled tables, with `table.relations=keep` (the default) and `ignore`. For
each relation: in which share of the rows with a hole in it the fills agree (`single`: with one hole, which the others
determine), and by how much of the standard deviation of its first column they are off on average. CPU seconds of fit
and fills, one thread.
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

SEASONS = {1: "winter", 2: "spring", 3: "summer", 4: "fall"}
COUNTS = ["cnt", "casual", "registered"]


def table(path: Path, rows: int, seed: int) -> pd.DataFrame:
    """Some rows of the table, with columns that say what others say."""
    bikes = pd.read_parquet(path).sample(rows, random_state=seed).reset_index(drop=True)
    found = bikes[["hr", "workingday", "temp", "hum", "casual", "registered", "cnt"]].copy()
    found["fahrenheit"], found["humidity"] = (73.8 * found.temp + 32).round(1), found.hum
    found["season"], found["name"] = bikes.season.astype(str).radd("s"), bikes.season.map(SEASONS)
    found["part"] = parts_of_day(found.hr)
    return found


def parts_of_day(hours: pd.Series) -> pd.Series:
    """A level for each quarter of a day."""
    return (hours // 6).map({0: "night", 1: "morning", 2: "afternoon", 3: "evening"})


def off(filled: pd.DataFrame) -> dict[str, pd.Series]:
    """How far each row is from each relation."""
    names = filled.season.map({f"s{code}": name for code, name in SEASONS.items()})
    return {
        "cnt = casual + registered": (filled.cnt - filled.casual - filled.registered).abs(),
        "fahrenheit = 73.8 temp + 32, rounded": (filled.fahrenheit - 73.8 * filled.temp - 32).abs().sub(0.0501).clip(0),
        "humidity = hum": (filled.humidity - filled.hum).abs(),
        "name of season": (names != filled.name).astype(float),
        "part of the day": (parts_of_day(filled.hr) != filled.part).astype(float),
    }


PARTS = {
    "cnt = casual + registered": COUNTS,
    "fahrenheit = 73.8 temp + 32, rounded": ["fahrenheit", "temp"],
    "humidity = hum": ["humidity", "hum"],
    "name of season": ["name", "season"],
    "part of the day": ["part", "hr"],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--share", type=float, default=0.2)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    given = parser.parse_args()
    print("| relation | relations | single holes agree | all agree | off, standard deviations | CPU s |")
    print("|---|---|--:|--:|--:|--:|")
    for how in ("ignore", "keep"):
        agree: dict[str, list[tuple[float, float, float]]] = {name: [] for name in PARTS}
        seconds = []
        for seed in given.seeds:
            true = table(given.table, given.rows, seed)
            hidden = pd.DataFrame(np.random.default_rng(seed).random(true.shape) < given.share, columns=true.columns)
            started = time.process_time()
            with tempfile.TemporaryDirectory() as folder:
                run = vgi_cli.fit(
                    true.mask(hidden), out=Path(folder) / "run", seed=seed, threads=1, set={"table.relations": how}
                )
                tables = run.impute(m=3)
            seconds.append(time.process_time() - started)
            for name, parts in PARTS.items():
                holes = hidden[parts].sum(axis=1)
                sd = 1.0 if name in ("name of season", "part of the day") else true[parts[0]].std()
                away = [off(filled)[name] for filled in tables]
                one, any_hole = (np.concatenate([own[which] for own in away]) for which in (holes == 1, holes > 0))
                agree[name].append(((one < 1e-6).mean(), (any_hole < 1e-6).mean(), any_hole.mean() / sd))
        for name, values in agree.items():
            single, every, far = np.mean(values, 0)
            print(f"| {name} | {how} | {single:.3f} | {every:.3f} | {far:.4f} | {np.median(seconds):.1f} |", flush=True)


if __name__ == "__main__":
    main()
