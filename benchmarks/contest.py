"""Does `--model auto` choose well? One command: every candidate of its contests is fitted, and scored on hidden cells.

    python benchmarks/contest.py --data FOLDER [--tables wine iris …] [--mechanisms mcar20 …] [--seed 11] [--rows 500]
        [--compare flow vae]

Cells of the tables of `imputation.py` are hidden. `vgi fit` compares its candidates on the table with holes; then each
candidate is fitted to that table by its settings, with refits and 19 draws, and its CRPS on the hidden cells, which no
contest saw, stands beside that of the others; so does that of `vgi fit` with nothing said, which draws from refits of
all models that the contest cannot tell apart. For each table and mechanism: by how much the choice, and what is made by
default, is worse than the best candidate, and what the contest cost beside the fit of its choice (CPU seconds of one
thread).
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import imputation
import numpy as np
import pandas as pd

import vgi_cli

HEADER = (
    "| table | hidden | candidates | chosen | CRPS | best | CRPS | chosen / best | default, CRPS | default / best "
    "| contest, CPU s | fit, CPU s |"
)
NEAR = 1.02


def crps(frame: pd.DataFrame, missing: np.ndarray, seed: int, **settings: object) -> tuple[float, float]:
    """CRPS on the hidden cells of a fit by settings, and its CPU seconds with the draws."""
    truth = frame.to_numpy(dtype=float)
    with tempfile.TemporaryDirectory() as folder:
        started = time.process_time()
        run = vgi_cli.fit(frame.mask(missing), out=Path(folder) / "run", seed=seed, threads=1, **settings)
        draws = np.stack([draw.to_numpy(dtype=float) for draw in run.impute(m=imputation.DRAWS)])
        spent = time.process_time() - started
    return imputation.score(truth, missing, np.where(missing, draws, truth), spent).crps, spent


def one(frame: pd.DataFrame, missing: np.ndarray, seed: int, compare: list[str]) -> dict[str, Any] | None:
    """A contest, and what each of its candidates is worth; None where nothing was compared."""
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        started = time.process_time()
        quick = {"bootstrap": "none", "trees": "none"}
        vgi_cli.fit(frame.mask(missing), out=run, seed=seed, threads=1, compare=compare, set=quick)
        spent = time.process_time() - started
        league = run / "contest.json"
        if not league.exists():
            return None
        candidates = json.loads(league.read_text())["candidates"]
    found = []
    for candidate in candidates:
        settings = {f"model.{key}": value for key, value in candidate["settings"].items() if value is not None}
        settings["table.transform"] = candidate["transform"]
        found.append(crps(frame, missing, seed, model=candidate["model"], set=settings))
    chosen = next(i for i, candidate in enumerate(candidates) if candidate["chosen"])
    best = min(range(len(found)), key=lambda i: found[i][0])
    return {
        "candidates": len(candidates),
        "chosen": candidates[chosen]["title"],
        "chosen_crps": found[chosen][0],
        "best": candidates[best]["title"],
        "best_crps": found[best][0],
        "default_crps": crps(frame, missing, seed)[0],
        "contest_seconds": spent,
        "fit_seconds": found[chosen][1],
    }


def main() -> None:
    """Parse, measure, print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    tables = [*imputation.TABLES, *imputation.SMALL]
    parser.add_argument("--data", type=Path, required=True, help="folder with TABLE.parquet")
    parser.add_argument("--tables", nargs="+", default=tables, choices=tables)
    parser.add_argument("--mechanisms", nargs="+", default=["mcar50", "mar50"], choices=imputation.MECHANISMS)
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--compare", nargs="+", default=[], metavar="MODEL", help="models that take part too")
    parser.add_argument("--rows", type=int, default=imputation.MAX_ROWS, help="most rows of a table")
    args = parser.parse_args()
    print(HEADER)
    print("|---|---|--:|---|--:|---|--:|--:|--:|--:|--:|--:|", flush=True)
    ratios: list[float] = []
    defaults: list[float] = []
    for table in args.tables:
        frame = imputation.load(args.data, table, args.rows)
        for mechanism in args.mechanisms:
            rng = np.random.default_rng([args.seed, len(ratios)])
            found = one(frame, imputation.hide(frame.to_numpy(dtype=float), mechanism, rng), args.seed, args.compare)
            if found is None:
                continue
            ratios.append(found["chosen_crps"] / found["best_crps"])
            defaults.append(found["default_crps"] / found["best_crps"])
            print(
                f"| {table} | {mechanism} | {found['candidates']} | {found['chosen']} | {found['chosen_crps']:.4f} "
                f"| {found['best']} | {found['best_crps']:.4f} | {ratios[-1]:.3f} | {found['default_crps']:.4f} "
                f"| {defaults[-1]:.3f} | {found['contest_seconds']:.1f} | {found['fit_seconds']:.1f} |",
                flush=True,
            )
    print(f"\nwithin 2 % of the best candidate, of {len(ratios)}:")
    for what, each in (("the choice", ratios), ("the default", defaults)):
        print(f"{what}: {sum(ratio <= NEAR for ratio in each)}; mean ratio {np.mean(each):.3f}")


if __name__ == "__main__":
    main()
