"""Make FA-Frey: tables of 560 columns simulated from a factor analysis of the Frey faces, cells missing at random.

    python benchmarks/make_frey.py FACES results/frey

FACES is a table of the 1,965 images of 28 x 20 pixels with grey levels from 0 to 255, one column a pixel (the images
are S. Roweis's `frey_rawface.mat`; they are not part of this repository). As in the paper (Simkus, Rhodes and Gutmann
2023, section 4.2) a factor analysis with 43 factors is fitted to the images, here by exact EM on the logits of
0.15 + 0.7 times the grey level / 255, and rows are simulated from the fit: what is fitted to them has a known truth.

Written into the folder: `truth.json` (columns, mean, F, psi: the law of the rows, as `vgi evaluate --truth-model` reads
it), `train` (2,400 rows) and `test` (3,000 rows), complete, and for each fraction k/6 and each mask m `train-k-m` with
holes: exactly that share of all cells, every such set equally likely. Each mask depends on seed, k and m alone.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import torch
from gaussians import divergence
from tables import SIXTHS, write, write_masked
from torch import Tensor

from vgi_cli.layout import Layout
from vgi_cli.machine.device import set_threads
from vgi_cli.methods.em.steps import climb
from vgi_cli.models.gaussian.fa import FaConfig, FactorAnalysis
from vgi_cli.models.gaussian.family import em_table

FACTORS, ROWS, TEST_ROWS = 43, 2400, 3000


class Truth:
    """A factor analysis in data units: mean [D], F [D, L], psi [D]."""

    def __init__(self, columns: Sequence[str], mean: np.ndarray, F: np.ndarray, psi: np.ndarray) -> None:
        self.columns, self.mean, self.F, self.psi = list(columns), mean, F, psi

    @classmethod
    def load(cls, path: Path) -> Truth:
        """From `truth.json`."""
        kept = json.loads(path.read_text())
        return cls(kept["columns"], *(np.array(kept[name]) for name in ("mean", "F", "psi")))

    def save(self, path: Path) -> None:
        """Every digit."""
        kept = {"columns": self.columns, "mean": self.mean.tolist(), "F": self.F.tolist(), "psi": self.psi.tolist()}
        path.write_text(json.dumps(kept) + "\n", encoding="utf-8")

    def covariance(self) -> np.ndarray:
        """F F' + diag(psi), [D, D]."""
        return self.F @ self.F.T + np.diag(self.psi)

    def sample(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """n rows, [n, D]."""
        z = rng.standard_normal((n, self.F.shape[1]))
        return z @ self.F.T + self.mean + rng.standard_normal((n, len(self.mean))) * np.sqrt(self.psi)

    def divergence(self, mean: np.ndarray, covariance: np.ndarray) -> float:
        """KL(truth || N(mean, covariance)), nats."""
        return divergence(self.mean, self.covariance(), mean, covariance)


def read_faces(path: Path) -> tuple[list[str], np.ndarray]:
    """Names of the pixels and logits [N, D] of the images."""
    table = pq.read_table(path)
    grey = np.stack([column.to_numpy() for column in table.columns], 1).astype(np.float64)
    level = 0.15 + 0.7 * grey / 255.0
    return table.column_names, np.log(level / (1 - level))


def fit_truth(columns: Sequence[str], x: np.ndarray, iterations: int) -> Truth:
    """Maximum likelihood of a factor analysis on complete rows, standardised while it is fitted."""
    centre, sd = x.mean(0), x.std(0)
    rows: Tensor = torch.from_numpy((x - centre) / sd)
    model = FactorAnalysis.build(FaConfig(factors=FACTORS), Layout.plain(len(columns))).double()
    model.initialise(rows, torch.Generator().manual_seed(0))
    none = torch.zeros(rows.shape, dtype=torch.bool)
    climb(model, em_table(rows, none), model.penalty(None, 1e-3), epochs=iterations, tolerance=1e-4)
    with torch.no_grad():
        mean, F, psi = (t.numpy() for t in (model.mean, model.F, model.log_psi.exp()))
    return Truth(columns, centre + sd * mean, sd[:, None] * F, sd**2 * psi)


def main(argv: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="FA-Frey: simulated tables of 560 columns with known truth.")
    parser.add_argument("faces", type=Path, help="Parquet table of the images")
    parser.add_argument("out", type=Path, help="folder to write into")
    parser.add_argument("--sixths", type=int, nargs="+", default=SIXTHS, choices=SIXTHS)
    parser.add_argument("--masks", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--iterations", type=int, default=300, help="of EM on the images, at most")
    given = parser.parse_args(argv)
    set_threads(1)
    given.out.mkdir(parents=True, exist_ok=True)
    truth = fit_truth(*read_faces(given.faces), given.iterations)
    truth.save(given.out / "truth.json")
    train = truth.sample(ROWS, np.random.default_rng([given.seed, 0]))
    write(truth.columns, train, None, given.out / "train.parquet")
    write(
        truth.columns, truth.sample(TEST_ROWS, np.random.default_rng([given.seed, 1])), None, given.out / "test.parquet"
    )
    made = write_masked(given.out, truth.columns, train, given.sixths, given.masks, given.seed, "parquet")
    share = truth.psi / np.diag(truth.covariance())
    print(
        f"{len(made)} tables with holes, train, test and truth.json in {given.out}; noise is "
        f"{np.median(share):.3f} of a pixel's variance (median; smallest {share.min():.5f})"
    )


if __name__ == "__main__":
    main()
