"""Consistency: how fast the errors of a fit shrink with the number of rows, on the toy factor analysis.

    python benchmarks/consistency.py WORK_FOLDER [--rows 400 1600 6400 25600] [--masks 3] [--methods em vgi]

For each number of rows N and mask, a table of `make_toy.py` with 3/6 of its cells missing is made (fresh rows each
time) and fitted by `--method em` and by `recipes/toy-fa.yaml` with as many gradient steps at every N; `vgi evaluate
--truth-model` gives KL(truth || model) and the root mean squared errors of the parameters (F after Procrustes rotation,
data units). Prints medians over masks and the slopes of their logarithms against log N: a consistent and efficient
estimator has -1/2 for the errors and -1 for KL. Figures are kept in the folder: what is there is not run again.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import make_toy
import numpy as np

import vgi_cli

RECIPE = Path(__file__).parent.parent / "recipes" / "toy-fa.yaml"
EPOCHS, ROWS = 150, 6400  # of the recipe; other N get as many steps
MEASURES = ("kl", "rmse F", "rmse psi")


def figures(folder: Path, N: int, m: int, method: str) -> dict[str, Any]:
    """Make, fit and measure once."""
    kept = folder / f"{method}-{N}-{m}.json"
    if kept.exists():
        return json.loads(kept.read_text())
    tables = folder / f"tables-{N}-{m}"
    make_toy.make(tables, rows=N, test_rows=2, sixths=[3], masks=1, seed=1000 * m + N, suffix="parquet")
    fewer = min(512, max(32, N // 8))
    steps = EPOCHS * ROWS / 512
    settings = {} if method == "em" else {"optim.batch_size": fewer}
    epochs = None if method == "em" else max(1, round(steps * fewer / N))
    run = vgi_cli.fit(
        tables / "train-3-1.parquet", model="fa", method=method, recipe=None if method == "em" else RECIPE,
        set={"model.factors": 2, **settings}, epochs=epochs, seed=m, threads=1, force=True,
        out=tables / f"run-{method}",
    )  # fmt: skip
    truth = vgi_cli.evaluate(run, tables / "test.parquet", truth_model=tables / "law.json", threads=1)["truth"]
    found = {"kl": truth["kl"], **{f"rmse {name}": truth["rmse"][name]["data"] for name in ("F", "psi", "mean")}}
    kept.write_text(json.dumps(found))
    return found


def main(argv: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, nargs="+", default=[400, 1600, 6400, 25600])
    parser.add_argument("--masks", type=int, default=3)
    parser.add_argument("--methods", nargs="+", default=["em", "vgi"], choices=["em", "vgi"])
    args = parser.parse_args(argv)
    args.folder.mkdir(parents=True, exist_ok=True)
    print(f"{'method':8s} {'':10s}" + "".join(f"{f'N = {N}':>12s}" for N in args.rows) + f"{'slope':>9s}")
    for method in args.methods:
        found = {N: [figures(args.folder, N, m, method) for m in range(1, args.masks + 1)] for N in args.rows}
        for measure in MEASURES:
            middle = [statistics.median(f[measure] for f in found[N]) for N in args.rows]
            slope = np.polyfit(np.log(args.rows), np.log(middle), 1)[0] if len(args.rows) > 1 else float("nan")
            cells = "".join(f"{value:12.5f}" for value in middle)
            print(f"{method:8s} {measure:10s}{cells}{slope:9.2f}", flush=True)


if __name__ == "__main__":
    main()
