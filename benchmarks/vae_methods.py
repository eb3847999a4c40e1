"""Which method fits an autoencoder best on real tables, at default settings? One line for each table and method.

    python benchmarks/vae_methods.py OUT TABLE.parquet ... [--methods vgi vbgi miwae mvae] [--epochs E] [--seed S]

Of each table the numeric columns and complete rows, shuffled, at most 2,000: 80 % are fitted with 40 % of their cells
hidden, 20 % are scored as they are. Printed: the epochs, the held-out log-likelihood (the importance-weighted bound,
nats a row, units of the data) and the CPU seconds of fit and evaluation. The run folders, OUT/TABLE-METHOD, are made
anew. `vbgi-single` and `vbgi-single-5` are `vbgi` with `method.cells=single`, the latter with 5 updates a visit and 5
columns in an estimate of the objective.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd

import vgi_cli

METHODS = ("vgi", "vbgi", "miwae", "mvae")
WAYS: dict[str, tuple[str, dict[str, object]]] = {
    "vbgi-single": ("vbgi", {"method.cells": "single"}),
    "vbgi-single-5": ("vbgi", {"method.cells": "single", "method.gibbs_steps": 5, "method.blocks_per_row": 5}),
}
"""Other names than those of methods: the method, and its settings beside the defaults."""
ROWS = 2000


def halves(path: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The rows to fit, with holes, and the complete rows to score."""
    table = pd.read_parquet(path).select_dtypes("number").dropna()
    table = table.sample(frac=1, random_state=0).reset_index(drop=True).iloc[:ROWS]
    fitted = int(0.8 * len(table))
    rows = table.iloc[:fitted]
    return rows.mask(np.random.default_rng(0).random(rows.shape) < 0.4), table.iloc[fitted:]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print one line for each table and method, as they are done."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("tables", type=Path, nargs="+")
    parser.add_argument("--methods", nargs="+", default=METHODS)
    parser.add_argument("--epochs", type=int, help="of every fit; without it each finds its own")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args(arguments)
    for path in given.tables:
        rows, scored = halves(path)
        for method in given.methods:
            start = time.process_time()
            out = given.out / f"{path.stem}-{method}"
            options = {"out": out, "force": True, "threads": 1, "seed": given.seed, "set": {"bootstrap": "none"}}
            options |= {} if given.epochs is None else {"epochs": given.epochs}
            name, settings = WAYS.get(method, (method, {}))
            options["set"] = {**options["set"], **settings}
            run = vgi_cli.fit(rows, model="vae", method=name, **options)
            loglik = vgi_cli.evaluate(run, scored, threads=1)["loglik"]["mean"]
            epochs, seconds = run.manifest["epochs"], time.process_time() - start
            print(f"{path.stem} {method} epochs {epochs} {loglik:.3f} {seconds:.0f}s", flush=True)


if __name__ == "__main__":
    main()
