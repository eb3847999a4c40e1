"""Make the toy factor-analysis tables: 6 columns, 2 factors, known truth, cells missing completely at random.

    python benchmarks/make_toy.py results/toy

The truth is that of the paper's first experiment (Simkus, Rhodes and Gutmann 2023, section 4.2 and appendix K) as
the authors' data have it: the third row of F is (+3, -1) and the third variance 6.7666, where the paper prints -3 and
6.766. A row is x = F z + mean + e with z ~ N(0, I) and e ~ N(0, diag(Psi)). Rows are fresh draws, not the authors'.

Written into the folder: `truth.json` (F, mean, Psi, covariance, seed, mean log-likelihood of the test rows),
`law.json` (the same law for `vgi evaluate --truth-model`), `train` and `test` (complete) and, for each fraction k/6 and
each mask m, `train-k-m` with holes: of the N x 6 cells exactly N k are missing, every such set equally likely. Rows
depend on the seed alone and each mask on seed, k and m alone: asking for fewer masks or fractions changes none of the
others.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from tables import SIXTHS, write, write_masked

F = np.array([[-5.0, -2.0], [4.0, 0.0], [3.0, -1.0], [-3.0, -3.0], [1.0, 5.0], [-1.0, 2.0]])
MEAN = np.array([3.0, -1.0, 0.0, 2.0, -1.0, 0.0])
PSI = np.array([50.4794, 30.0988, 6.7666, 17.3357, 40.9839, 25.1122])
D = len(MEAN)
NAMES = tuple(f"x{j + 1}" for j in range(D))


def covariance() -> np.ndarray:
    """F F' + diag(Psi), [6, 6]."""
    return F @ F.T + np.diag(PSI)


def sample(n: int, rng: np.random.Generator) -> np.ndarray:
    """n rows of the truth, [n, 6]."""
    z = rng.standard_normal((n, F.shape[1]))
    return z @ F.T + MEAN + rng.standard_normal((n, D)) * np.sqrt(PSI)


def mean_log_prob(x: np.ndarray) -> float:
    """Mean over rows of the true log-density, nats."""
    lower = np.linalg.cholesky(covariance())
    white = np.linalg.solve(lower, (x - MEAN).T)
    return float(-0.5 * (white**2).sum(0).mean() - np.log(np.diag(lower)).sum() - 0.5 * D * math.log(2 * math.pi))


def make(out: Path, rows: int, test_rows: int, sixths: Sequence[int], masks: int, seed: int, suffix: str) -> list[Path]:
    """Write everything into `out` (created) and return the tables with holes."""
    out.mkdir(parents=True, exist_ok=True)
    train = sample(rows, np.random.default_rng([seed, 0]))
    test = sample(test_rows, np.random.default_rng([seed, 1]))
    write(NAMES, train, None, out / f"train.{suffix}")
    write(NAMES, test, None, out / f"test.{suffix}")
    truth = {
        "F": F.tolist(),
        "mean": MEAN.tolist(),
        "Psi": PSI.tolist(),
        "covariance": covariance().tolist(),
        "seed": seed,
        "train_rows": rows,
        "test_rows": test_rows,
        "test_loglik": mean_log_prob(test),
    }
    (out / "truth.json").write_text(json.dumps(truth, indent=1) + "\n", encoding="utf-8")
    law = {"columns": NAMES, "mean": MEAN.tolist(), "F": F.tolist(), "psi": PSI.tolist()}
    (out / "law.json").write_text(json.dumps(law, indent=1) + "\n", encoding="utf-8")
    return write_masked(out, NAMES, train, sixths, masks, seed, suffix)


def main(argv: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="Toy factor-analysis tables with known truth.")
    parser.add_argument("out", type=Path, help="folder to write into")
    parser.add_argument("--rows", type=int, default=6400)
    parser.add_argument("--test-rows", type=int, default=5000)
    parser.add_argument(
        "--sixths", type=int, nargs="+", default=SIXTHS, choices=SIXTHS, help="fractions missing, in sixths"
    )
    parser.add_argument("--masks", type=int, default=5, help="masks for each fraction")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--format", choices=("csv", "parquet"), default="parquet")
    given = parser.parse_args(argv)
    made = make(given.out, given.rows, given.test_rows, given.sixths, given.masks, given.seed, given.format)
    print(f"{len(made)} tables with holes, train, test and truth.json in {given.out}")


if __name__ == "__main__":
    main()
