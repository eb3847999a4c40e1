"""Does the score of held-out rows (`vgi fit --val 0.2`) say what fresh rows score?

    python benchmarks/heldout.py OUT [--rows 200] [--repetitions 200] [--models mixture fa] [--transform normal]
    python benchmarks/heldout.py OUT --sizes [--rows 200] [--repetitions 24]

Tables of five columns (a normal and four log-normal ones, correlations of 0.5 between the normals behind them), 20 % of
the cells missing completely at random. Each is fitted with a fifth of its rows held out; the
log-likelihood of these, nats a row, is compared with that of as many fresh rows, ten times over. From both the log
density of the rows under the true law is taken away, which leaves the mean of the difference as it is and most of its
noise out. Positive: the held-out rows score too well.

`--sizes`: the folds on which the size of a mixture is chosen (methods/em/sizing.py) are scored in columns that all rows
bent, those of the fold included. Here the same is done with columns bent by the rows outside the fold, and both choices
are scored on 1,000 fresh rows. Tables of three clusters, every second with log-normal columns. One thread.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd
import torch
from scipy import stats
from torch import Tensor

import vgi_cli
from vgi_cli.columns.base import Encoding
from vgi_cli.columns.schema import Schema
from vgi_cli.commands.requests import source
from vgi_cli.data import TensorTable, split_rows
from vgi_cli.encoding.encoder import encode, log_volume
from vgi_cli.encoding.infer import infer_schema
from vgi_cli.fitting.plan import stream
from vgi_cli.methods.em.em import EmConfig, completed
from vgi_cli.methods.em.sizing import EPOCHS, FOLDS, TOLERANCE
from vgi_cli.methods.em.steps import climb
from vgi_cli.models.gaussian.family import em_table
from vgi_cli.models.gaussian.mixture import GaussianMixture, MixtureConfig
from vgi_cli.table.base import Table

SCALES = np.array([0.0, 0.3, 0.6, 1.0, 1.5])
"""Of the logarithm of a column; 0: the normal itself."""
D, MISSING, HELD, FRESH = len(SCALES), 0.2, 0.2, 10
CORRELATION = 0.5 * (np.eye(D) + np.ones((D, D)))


def draw(rows: int, rng: np.random.Generator) -> tuple[pd.DataFrame, np.ndarray]:
    """A table with holes, and the log density [rows] of its observed cells."""
    z = rng.multivariate_normal(np.zeros(D), CORRELATION, rows)
    seen = rng.random(z.shape) >= MISSING
    x = np.where(SCALES > 0, np.exp(SCALES * z), z)
    frame = pd.DataFrame(np.where(seen, x, np.nan), columns=list("abcde"))
    slopes = np.where(SCALES > 0, np.log(np.where(SCALES > 0, SCALES, 1.0)) + SCALES * z, 0.0)
    density = np.zeros(rows)
    for i in np.flatnonzero(seen.any(1)):
        o = np.flatnonzero(seen[i])
        density[i] = stats.multivariate_normal.logpdf(z[i, o], cov=CORRELATION[np.ix_(o, o)]) - slopes[i, o].sum()
    return frame, density


def score(run: vgi_cli.Run, frame: pd.DataFrame, density: np.ndarray) -> float:
    """Mean over the rows with an observed cell of the log-likelihood above that of the true law, nats."""
    used = frame.notna().any(axis=1).to_numpy()
    return float(run.evaluate(frame)["loglik"]["mean"] - density[used].mean())


def difference(out: Path, model: str, transform: str, rows: int, seed: int) -> float:
    """By how much the held-out rows of a fit score better than fresh ones, nats a row."""
    rng = np.random.default_rng(seed)
    frame, density = draw(rows, rng)
    settings = {"bootstrap": "none", "table.transform": transform}
    run = vgi_cli.fit(frame, model=model, val=HELD, set=settings, seed=seed, threads=1, out=out, force=True)
    held = split_rows(rows, HELD, stream(seed, "split"))[1].numpy()
    return score(run, frame.iloc[held], density[held]) - score(run, *draw(FRESH * len(held), rng))


# -- the folds of the choice of a size ------------------------------------------------------------------------------

COMPONENTS = (1, 2, 3, 5)
CLUSTERS, TEST = 3, 1000


class Encoded:
    """A table in encoded space, and what makes log densities there those of the data."""

    def __init__(self, table: Table, schema: Schema) -> None:
        self.table: TensorTable = encode(table, schema, seed=0).table
        self.volume: Tensor = log_volume(self.table.missing, self.table.x, schema)

    def score(self, model: GaussianMixture, rows: Tensor) -> float:
        """Sum of the log-likelihoods of some rows, nats, data units."""
        with torch.no_grad():
            values = model.marginal_log_prob(self.table.x[rows], self.table.missing[rows])
        return float((values + self.volume[rows]).sum())


def fitted(table: TensorTable, components: int, seed: int) -> GaussianMixture:
    """A mixture as the choice of a size fits it."""
    (path,) = GaussianMixture.sizes(MixtureConfig(components=components), table.N, table.D)
    model = GaussianMixture.build(path[0], table.layout).double()
    generator = torch.Generator().manual_seed(seed)
    model.initialise(completed(table, generator), generator)
    penalty = model.penalty(None, EmConfig().floor)
    climb(model, em_table(table.x, table.missing), penalty, epochs=EPOCHS, tolerance=TOLERANCE)
    return model


def chosen(scores: dict[int, float]) -> int:
    """The size with the best score."""
    return max(scores, key=lambda K: scores[K])


def clustered(rows: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    centres = 1.6 * rng.normal(size=(CLUSTERS, D))
    z = centres[rng.integers(CLUSTERS, size=rows)] + rng.normal(size=(rows, D))
    x = z if seed % 2 else np.where(SCALES > 0, np.exp(0.7 * SCALES * z), z)
    return pd.DataFrame(np.where(rng.random(x.shape) >= MISSING, x, np.nan), columns=list("abcde"))


def compare_sizes(rows: int, seed: int) -> tuple[float, float, bool, float]:
    """Mean over the sizes of how much better the folds score in columns bent by all rows; its standard deviation over
    the sizes; whether both ways choose the same; by how much that choice is better on fresh rows. Nats a row."""
    frame = clustered(rows + TEST, seed)
    table, fresh = source(frame.iloc[:rows])[0], source(frame.iloc[rows:])[0]
    assert table is not None and fresh is not None
    everything = infer_schema(table, encoding=Encoding("normal"))[0]
    whole, test = Encoded(table, everything), Encoded(fresh, everything)
    fold = torch.randperm(rows, generator=torch.Generator().manual_seed(seed)) % FOLDS
    leaky, clean = dict.fromkeys(COMPONENTS, 0.0), dict.fromkeys(COMPONENTS, 0.0)
    for number in range(FOLDS):
        kept = fold != number
        apart = Encoded(table, infer_schema(table, encoding=Encoding("normal"), rows=kept.numpy())[0])
        for K in COMPONENTS:
            leaky[K] += whole.score(fitted(whole.table.rows(kept), K, seed), ~kept) / rows
            clean[K] += apart.score(fitted(apart.table.rows(kept), K, seed), ~kept) / rows
    gains = np.array([leaky[K] - clean[K] for K in COMPONENTS])
    final = {
        K: test.score(fitted(whole.table, K, seed), torch.arange(TEST)) / TEST for K in {*map(chosen, (leaky, clean))}
    }
    return gains.mean(), gains.std(), chosen(leaky) == chosen(clean), final[chosen(leaky)] - final[chosen(clean)]


def main(argv: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument("--repetitions", type=int, default=200)
    parser.add_argument("--sizes", action="store_true")
    parser.add_argument("--models", nargs="+", default=["mixture", "fa"])
    parser.add_argument("--transform", default="normal")
    options = parser.parse_args(argv)
    options.out.mkdir(parents=True, exist_ok=True)
    if options.sizes:
        gain, spread, same, worse = np.array(
            [compare_sizes(options.rows, seed) for seed in range(options.repetitions)]
        ).T
        root = np.sqrt(len(gain))
        print(f"folds: {gain.mean():+.3f} (se {gain.std() / root:.3f}) nats a row, {spread.mean():.3f} between sizes")
        print(f"same size in {same.mean():.0%}; on fresh rows {worse.mean():+.3f} (se {worse.std() / root:.3f})")
        return
    for model in options.models:
        run = options.out / model
        seeds = range(options.repetitions)
        found = np.array([difference(run, model, options.transform, options.rows, seed) for seed in seeds])
        error = found.std(ddof=1) / np.sqrt(len(found)) if len(found) > 1 else np.nan
        print(f"{model}, {options.transform}, {options.rows} rows: {found.mean():+.3f} (se {error:.3f}) nats a row")


if __name__ == "__main__":
    main()
