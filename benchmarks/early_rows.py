"""Fits by EM to many rows, begun with some of them and with all: CPU seconds, and where they end.

    python benchmarks/early_rows.py [--rows 100000] [--components 3] [--seeds 0 1 2]

Simulated rows of eight columns (two groups, skewed and rounded numbers, a count, two columns of levels), 10 % of the
cells missing. `vgi fit --model mixture --set model.components=K`, without refits and trees, as it is and with fits that
begin with all rows; the log-likelihood is that of 20,000 other rows, nats a row. One thread.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd

import vgi_cli
from vgi_cli.methods.em import em

HELD_OUT = 20_000


def table(rows: int, seed: int) -> pd.DataFrame:
    """The simulated rows."""
    rng = np.random.default_rng(seed)
    group, z = rng.random(rows) < 0.4, rng.normal(size=(rows, 3))
    region = np.where(rng.random(rows) < 0.3 + 0.4 * group, "north", np.where(z[:, 0] > 0, "east", "west"))
    found = pd.DataFrame({"a": z[:, 0] + 2 * group, "b": 0.6 * z[:, 0] + z[:, 1], "c": np.exp(0.5 * z[:, 1] - group)})
    found["d"] = (10 + 3 * z[:, 2] * np.where(group, 2, 1)).round(1)
    found["e"] = (5 * z[:, 2] + found.a).round(0)
    found["count"] = rng.poisson(np.exp(0.4 * z[:, 1] + 0.5 * group))
    found["region"], found["kind"] = region, np.where(rng.random(rows) < 1 / (1 + np.exp(-2 * z[:, 2])), "x", "y")
    return found.mask(rng.random(found.shape) < 0.1)


@contextmanager
def fitted(rows: pd.DataFrame, settings: dict[str, Any], seed: int) -> Iterator[vgi_cli.Run]:
    """A mixture of the rows, in a folder that does not stay."""
    with tempfile.TemporaryDirectory() as folder:
        yield vgi_cli.fit(rows, out=Path(folder) / "run", model="mixture", set=settings, seed=seed, threads=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--components", type=int, default=3)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    given = parser.parse_args()
    settings = {"model.components": given.components, "bootstrap": "none", "trees": "none"}
    usual = em.EARLY
    with fitted(table(500, 99), settings, 0):  # loads the loops
        pass
    print("| seed | begins with | iterations | CPU s | held-out log-likelihood |")
    print("|---|---|--:|--:|--:|")
    for seed in given.seeds:
        rows, others = table(given.rows, seed), table(HELD_OUT, 1000 + seed)
        for early, words in ((usual, f"{usual:,} rows"), (given.rows, "all rows")):
            em.EARLY = early
            started = time.process_time()
            with fitted(rows, settings, seed) as run:
                spent = time.process_time() - started
                mean = run.evaluate(others)["loglik"]["mean"]
                print(f"| {seed} | {words} | {run.manifest['epochs']} | {spent:.1f} | {mean:.4f} |", flush=True)


if __name__ == "__main__":
    main()
