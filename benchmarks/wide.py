"""Tables of more than 40 columns of numbers, and two arms: what the default takes, how well it fills, in what time.

    python benchmarks/wide.py [--table ROWS COLUMNS FACTORS CLUSTERS SEED]... [--draws 10] [--set KEY=VALUE]...

Simulated: numbers of so many factors and unit noise, whose centres are those of so many clusters; the first sixth of
the columns is one standard deviation of the noise higher in one of two arms. 15 % of the numbers are hidden completely
at random. Printed for each table: the league table's first three, the fair CRPS of the fills in standard deviations of
their columns, by the law itself too (one cluster alone, where it is known in closed form), how far the differences of
the arms' means are off those of the complete table (root mean square, the columns that differ and the others), and the
CPU seconds of fit and draws on one thread.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

import vgi_cli

TABLES = [(200, 120, 5, 1, 11), (400, 60, 4, 1, 12), (600, 100, 3, 4, 13), (150, 300, 4, 1, 14), (1000, 300, 8, 1, 15)]
MISSING = 0.15


class Simulated:
    """A table with its truth x [N, D], what is hidden of it, who is in which arm, and of its law loadings and centres
    of the rows."""

    def __init__(self, N: int, D: int, L: int, clusters: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.W = 0.5 * rng.normal(size=(L, D))
        arm, cluster = rng.integers(0, 2, N), rng.integers(0, clusters, N)
        centres = 1.5 * rng.normal(size=(clusters, D)) * (clusters > 1)
        self.arm, self.centre = arm == 1, centres[cluster] + arm[:, None] * (np.arange(D) < D // 6)
        self.x = self.centre + rng.normal(size=(N, L)) @ self.W + rng.normal(size=(N, D))
        self.hidden = rng.random((N, D)) < MISSING
        frame = pd.DataFrame(self.x, columns=[f"x{j}" for j in range(D)]).mask(self.hidden)
        self.frame = frame.assign(arm=np.where(self.arm, "treated", "control"))

    def by_law(self, m: int, rng: np.random.Generator) -> np.ndarray:
        """Draws [m, N, D] of the hidden cells from their law given the observed ones and the cluster."""
        out, covariance = np.repeat(self.x[None], m, 0), self.W.T @ self.W + np.eye(self.x.shape[1])
        for i, gone in enumerate(self.hidden):
            seen = ~gone
            slope = np.linalg.solve(covariance[np.ix_(seen, seen)], covariance[np.ix_(seen, gone)]).T
            mean = self.centre[i, gone] + slope @ (self.x[i] - self.centre[i])[seen]
            left = covariance[np.ix_(gone, gone)] - slope @ covariance[np.ix_(seen, gone)]
            out[:, i, gone] = rng.multivariate_normal(mean, left, m)
        return out

    def crps(self, draws: np.ndarray) -> float:
        """The fair CRPS of draws [m, N, D], in standard deviations of the columns."""
        unit, m = draws / self.x.std(0), len(draws)
        error = np.abs(unit - self.x / self.x.std(0))[:, self.hidden].mean()
        apart = np.mean([np.abs(unit - one)[:, self.hidden].mean() for one in unit]) * m / (m - 1)
        return float(error - 0.5 * apart)

    def off(self, draws: np.ndarray) -> tuple[float, float]:
        """How far differences of the arms' means are off, of columns that differ and of the others."""

        def gap(values: np.ndarray) -> np.ndarray:
            return values[..., self.arm, :].mean(-2) - values[..., ~self.arm, :].mean(-2)

        errors = np.square((gap(draws).mean(0) - gap(self.x)) / self.x.std(0))
        differs = np.arange(len(errors)) < len(errors) // 6
        return float(errors[differs].mean() ** 0.5), float(errors[~differs].mean() ** 0.5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--table", nargs=5, type=int, action="append", metavar=("N", "D", "L", "CLUSTERS", "SEED"))
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--set", action="append", default=[], dest="settings", metavar="KEY=VALUE")
    given = parser.parse_args()
    settings = dict(one.split("=", 1) for one in given.settings)
    for sizes in given.table or TABLES:
        table = Simulated(*sizes)
        started = time.process_time()
        with tempfile.TemporaryDirectory() as folder:
            run = vgi_cli.fit(table.frame, out=Path(folder) / "run", seed=1, threads=1, set=settings)
            filled = run.impute(m=given.draws)
            spent = time.process_time() - started
            league = Path(folder) / "run" / "contest.json"
            shown = json.loads(league.read_text())["candidates"][:3] if league.exists() else []
        draws = np.stack([one.drop(columns="arm").to_numpy(float) for one in filled])
        law = table.crps(table.by_law(given.draws, np.random.default_rng(0)))
        differs, others = table.off(draws)
        print("N={} D={} L={} clusters={} seed={}:".format(*sizes), *(one["title"] for one in shown), sep="\n  ")
        print(
            f"  CRPS {table.crps(draws):.4f} (law {law:.4f}), differences off by {differs:.4f} (others {others:.4f}), "
            f"{spent:.0f} CPU s",
            flush=True,
        )


if __name__ == "__main__":
    main()
