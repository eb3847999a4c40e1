"""A latent-class model of numbers and categories, simulated and fitted: how near is the fit to the truth?

    python benchmarks/latent_class.py [--rows 20000] [--test-rows 5000] [--missing 0.5] [--model mixture]
                                      [--methods em] [--epochs E] [--seed 1] [--set KEY=VALUE …]

A row belongs to one of four classes; its three numbers are normal with the covariance of the class, its four
categories (2, 3, 4 and 6 levels) have the probabilities of the class. Cells are hidden at random. A model is fitted to
a table with holes; on rows that it has not seen, with holes, it is compared with the truth, whose marginals and
conditionals are computed here from their definition (a flow's likelihood is estimated, of at most 1,000 rows: give it
no more):

gap      mean of log p(observed cells) under the truth less that under the fit, nats a row (its standard error)
levels   drawn levels of hidden cells against the truth's conditional probabilities of these cells: chi-square over the
         levels of each column in five groups of cells by the truth's probability of the first level
ranks    of the true numbers and levels among 19 draws, ties broken at random: chi-square of 20 equal shares

Of a chi-square the p-value is printed; of a fit that is right they are uniform, and an error of the fit far below
that of sampling leaves them so.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd
import yaml
from scipy.special import logsumexp, softmax
from scipy.stats import chi2, multivariate_normal

import vgi_cli

CLASSES, NUMBERS = 4, 3
LEVELS = (2, 3, 4, 6)
DRAWS = 19
GROUPS = 5
FREE: Mapping[str, Any] = {"bounds": {"all": "none"}, "threads": 1}
COLUMNS = (*(f"x{i}" for i in range(NUMBERS)), *(f"c{i}" for i in range(len(LEVELS))))


class Truth(NamedTuple):
    """weights [K]; means [K, 3]; covariances [K, 3, 3]; tables: of each category [K, levels]."""

    weights: np.ndarray
    means: np.ndarray
    covariances: np.ndarray
    tables: list[np.ndarray]

    @classmethod
    def drawn(cls, seed: int) -> Truth:
        rng = np.random.default_rng(seed)
        root = 0.6 * rng.standard_normal((CLASSES, NUMBERS, NUMBERS))
        covariances = root @ root.transpose(0, 2, 1) + 0.3 * np.eye(NUMBERS)
        tables = [softmax(1.5 * rng.standard_normal((CLASSES, n)), 1) for n in LEVELS]
        return cls(rng.dirichlet([8.0] * CLASSES), 1.5 * rng.standard_normal((CLASSES, NUMBERS)), covariances, tables)

    def rows(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """[n, 7] numbers, then numbers of levels."""
        own = rng.choice(CLASSES, n, p=self.weights)
        noise = rng.standard_normal((n, NUMBERS))
        x = self.means[own] + np.einsum("nij,nj->ni", np.linalg.cholesky(self.covariances)[own], noise)
        levels = [(rng.random(n)[:, None] > t[own].cumsum(1)[:, :-1]).sum(1) for t in self.tables]
        return np.column_stack([x, *levels])

    def joint(self, x: np.ndarray, missing: np.ndarray) -> np.ndarray:
        """[n, K] log p(class, observed cells)."""
        out = np.tile(np.log(self.weights), (len(x), 1))
        for pattern in np.unique(missing[:, :NUMBERS], axis=0):
            rows, seen = (missing[:, :NUMBERS] == pattern).all(1), np.flatnonzero(~pattern)
            for k in range(CLASSES if len(seen) else 0):
                law = multivariate_normal(self.means[k, seen], self.covariances[k][np.ix_(seen, seen)])
                out[rows, k] += law.logpdf(x[rows][:, seen])
        for i, table in enumerate(self.tables):
            seen = ~missing[:, NUMBERS + i]
            out[seen] += np.log(table[:, x[seen, NUMBERS + i].astype(int)]).T
        return out


def frame(x: np.ndarray, missing: np.ndarray) -> pd.DataFrame:
    """As a user has it: numbers and texts, nothing where a cell is missing."""
    out = pd.DataFrame(np.where(missing, np.nan, x), columns=list(COLUMNS))
    for i, name in enumerate(COLUMNS[NUMBERS:], NUMBERS):
        texts = np.array([f"level {int(v)}" for v in x[:, i]], dtype=object)
        texts[missing[:, i]] = None
        out[name] = texts
    return out


def codes(filled: pd.DataFrame) -> np.ndarray:
    """The reverse of `frame`, of a table without holes."""
    levels = [filled[name].str.removeprefix("level ").astype(float) for name in COLUMNS[NUMBERS:]]
    return np.column_stack([filled[list(COLUMNS[:NUMBERS])].to_numpy(float), *levels])


def p_value(counts: np.ndarray, expected: np.ndarray, freedom: int) -> float:
    """Of Pearson's statistic."""
    return float(chi2.sf(((counts - expected) ** 2 / expected).sum(), freedom))


def p_levels(truth: Truth, x: np.ndarray, missing: np.ndarray, draw: np.ndarray) -> dict[str, float]:
    """Of each category, one draw of its hidden cells against the truth's probabilities (Hosmer and Lemeshow's groups;
    the laws within a group differ, so that Pearson's statistic is at most chi-square)."""
    out = {}
    posterior = softmax(truth.joint(x, missing), 1)
    for i, table in enumerate(truth.tables):
        gone = missing[:, NUMBERS + i]
        probability, drawn = posterior[gone] @ table, draw[gone, NUMBERS + i].astype(int)
        order = np.argsort(probability[:, 0], kind="stable")
        counts, expected = [], []
        for group in np.array_split(order, GROUPS):
            counts.append(np.bincount(drawn[group], minlength=table.shape[1]))
            expected.append(probability[group].sum(0))
        freedom = GROUPS * (table.shape[1] - 1)
        out[COLUMNS[NUMBERS + i]] = p_value(np.array(counts), np.array(expected), freedom)
    return out


def p_ranks(x: np.ndarray, missing: np.ndarray, draws: np.ndarray, rng: np.random.Generator) -> dict[str, float]:
    """Of each column, the ranks of the true cells among the draws [19, n, 7]."""
    out = {}
    for i, name in enumerate(COLUMNS):
        gone = missing[:, i]
        cells, own = draws[:, gone, i], x[gone, i]
        rank = (cells < own).sum(0) + rng.integers(0, (cells == own).sum(0) + 1)
        counts = np.bincount(rank, minlength=DRAWS + 1)
        out[name] = p_value(counts, np.full(DRAWS + 1, counts.mean()), DRAWS)
    return out


def compare(args: argparse.Namespace, method: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Simulate, fit, score."""
    truth, rng = Truth.drawn(args.seed), np.random.default_rng([args.seed, 1])
    x, test = truth.rows(args.rows, rng), truth.rows(args.test_rows, rng)
    gone, test_gone = rng.random(x.shape) < args.missing, rng.random(test.shape) < args.missing
    test_gone[test_gone.all(1), 0] = False
    kinds = dict.fromkeys(COLUMNS[NUMBERS:], "categorical")
    said = {"table.transform": "linear", **settings}
    how = {"model": args.model, "method": method, "columns": kinds, "seed": args.seed, **FREE}
    if args.epochs is not None:
        how["epochs"] = args.epochs
    run = vgi_cli.fit(frame(x, gone), set=said, **how)
    held = frame(test, test_gone)
    own = vgi_cli.evaluate(run, held, threads=1)["loglik"]
    true = logsumexp(truth.joint(test, test_gone), 1)
    draws = np.stack([codes(filled) for filled in run.impute(held, m=DRAWS)])
    return {
        "truth": float(true.mean()),
        "gap": float(true.mean() - own["mean"]),
        "levels": p_levels(truth, test, test_gone, draws[0]),
        "ranks": p_ranks(test, test_gone, draws, rng),
    }


def main(argv: Sequence[str] | None = None) -> None:
    """Parse, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--test-rows", type=int, default=5_000)
    parser.add_argument("--missing", type=float, default=0.5)
    parser.add_argument("--model", default="mixture")
    parser.add_argument("--methods", nargs="+", default=["em"])
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--set", nargs="+", default=[], metavar="KEY=VALUE", help="settings of the fit")
    args = parser.parse_args(argv)
    settings = {key: yaml.safe_load(value) for key, value in (item.split("=", 1) for item in args.set)}
    for method in args.methods:
        found = compare(args, method, settings)
        print(f"{args.model} by {method}: truth {found['truth']:.4f} nats a row, gap {found['gap']:.4f}")
        for name in ("levels", "ranks"):
            print(f"  {name}, p-values: " + ", ".join(f"{column} {p:.3f}" for column, p in found[name].items()))


if __name__ == "__main__":
    main()
