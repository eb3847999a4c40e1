"""Do Rubin's intervals of imputed tables hold the truth as often as they say?

    python benchmarks/calibration.py OUT [--models fa mixture flow vae] [--sizes 100 300 1000 6000 30000]
                                         [--mechanisms mcar mar] [--repetitions 200] [--seed 0]

Tables of four normal columns x, y, z, w with unit variances and correlations of 0.4; half of y is missing, at random
(*mcar*) or with a probability that rises with x (*mar*: 1 / (1 + exp(-1.5 x))), and 10 % of z at random. Each table is
fitted and imputed 20 times, and Rubin's rules (benchmarks/inference.py) give intervals of the mean of y, the slope of y
on x and the logarithm of the variance of y.

A line for each model, mechanism, size and estimate: the share of 95 % intervals that hold the truth; the mean error in
standard errors of a single estimate; Rubin's standard error (root mean of T) beside the spread of the estimates over
the tables; beside the latter (`by regression`) the spread, over the same tables, of what a regression of y on the other
columns in the complete rows gives, which knows the law: where that is wide too, the tables are unlike each other by
chance. For the mean also what it is by the formula (`theory`). The standard error of a coverage of 0.95 is 0.015 at
200 repetitions. More than 1,000 rows have at most 60 repetitions. The CPU seconds of a table (fit, and imputations)
come last. Each table's results are kept in OUT as they come: what was stopped goes on, and more repetitions add to it.

Models: `auto`, what is fitted where nobody names a model (averages included); `fa` and `mixture` with defaults (by EM);
`mixture-posterior` with posterior draws in place of refits; `fa-vgi` and `mixture-vgi` by vgi, one factor, one
component; `flow` by vgi, 2 steps of 16 hidden units; `vae` by miwae, 2 latents, decoder of 32 hidden units. One thread.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd
from inference import DRAWS, pooled

import vgi_cli

CORRELATION, MOST_LARGE = 0.4, 60
TRUTH = {"mean": 0.0, "log variance": 0.0, "slope": CORRELATION}
MECHANISMS = ("mcar", "mar")
MODELS: dict[str, dict[str, Any]] = {
    "auto": {},
    "fa": {"model": "fa"},
    "mixture": {"model": "mixture"},
    "mixture-posterior": {"model": "mixture", "set": {"uncertainty": "posterior"}},
    "fa-vgi": {"model": "fa", "method": "vgi", "set": {"model.factors": 1}},
    "mixture-vgi": {"model": "mixture", "method": "vgi", "set": {"model.components": 1}},
    "flow": {"model": "flow", "set": {"model.steps": 2, "model.hidden": 16}},
    "vae": {"model": "vae", "method": "miwae", "set": {"model.latents": 2, "model.decoder": [32]}},
}
SIZES = (100, 300, 1000, 6000, 30_000)


class Cell(NamedTuple):
    """What repetitions of one model, mechanism and size give: [repetitions, 3] each, in the order of TRUTH.

    values, halves, errors  estimates, half widths of their 95 % intervals, Rubin's standard errors
    regression              the estimates by a regression in the complete rows
    seconds                 [repetitions] CPU seconds
    """

    values: np.ndarray
    halves: np.ndarray
    errors: np.ndarray
    regression: np.ndarray
    seconds: np.ndarray


def simulated(rows: int, mechanism: str, rng: np.random.Generator) -> pd.DataFrame:
    """A table with holes in y and z."""
    covariance = np.full((4, 4), CORRELATION) + (1 - CORRELATION) * np.eye(4)
    table = pd.DataFrame(rng.multivariate_normal(np.zeros(4), covariance, size=rows), columns=list("xyzw"))
    share = 0.5 if mechanism == "mcar" else 1 / (1 + np.exp(-1.5 * table.x))
    table.loc[rng.random(rows) < share, "y"] = np.nan
    table.loc[rng.random(rows) < 0.1, "z"] = np.nan
    return table


def seeds(seed: int, mechanism: str, rows: int, repetition: int) -> np.random.Generator:
    """The randomness of a table: the same for every model."""
    return np.random.default_rng([seed, MECHANISMS.index(mechanism), rows, repetition])


def cell(model: str, mechanism: str, rows: int, repetitions: int, seed: int, out: Path) -> Cell:
    """Fit, impute and pool so many tables, less those whose results are in `out`."""
    kept = out / f"{model}-{mechanism}-{rows}-{seed}.jsonl"
    done = [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []
    for repetition in range(len(done), repetitions):
        table = simulated(rows, mechanism, seeds(seed, mechanism, rows, repetition))
        begun = time.process_time()
        settings = {"bounds": {"all": "none"}, "out": out / f"run-{model}", "force": True, "threads": 1}
        run = vgi_cli.fit(table, seed=seed + repetition, **settings, **MODELS[model])
        found = [np.asarray(part).tolist() for part in pooled(run.impute(m=DRAWS))]
        done.append([*found, by_regression(table), time.process_time() - begun])
        with kept.open("a") as file:
            file.write(json.dumps(done[-1]) + "\n")
    return Cell(*(np.array(part) for part in zip(*done[:repetitions], strict=True)))


def by_regression(table: pd.DataFrame) -> tuple[float, float, float]:
    """Mean and log variance of y, and its slope on x: y's regression on the others in the complete rows, and the means
    and covariances of the others where these are all known."""
    others, complete = table[["x", "z", "w"]].dropna(), table.dropna()
    design = np.column_stack([np.ones(len(complete)), complete[["x", "z", "w"]]])
    (start, *slopes), rest, *_ = np.linalg.lstsq(design, complete.y.to_numpy(), rcond=None)
    covariance, slope = np.cov(others.T), np.array(slopes)
    mean = start + slope @ others.mean().to_numpy()
    variance = slope @ covariance @ slope + float(rest[0]) / (len(complete) - 4)
    return mean, float(np.log(variance)), float((covariance @ slope)[0] / covariance[0, 0])


def theory(rows: int, mechanism: str, seed: int) -> float:
    """The standard error of the mean of y by a regression of y on the other columns in the rows that have it, the mean
    of its formula over twenty tables."""
    variances = []
    for repetition in range(20):
        table = simulated(rows, mechanism, seeds(seed, mechanism, rows, repetition))
        there = table.y.notna()
        others = np.column_stack([np.ones(rows), table.x, table.z.fillna(0.0), table.w])
        explained = 3 * CORRELATION**2 / (1 + 2 * CORRELATION)
        middle = others.mean(0)
        gram = np.linalg.inv(others[there].T @ others[there])
        variances.append((1 - explained) * middle @ gram @ middle + explained / rows)
    return float(np.sqrt(np.mean(variances)))


def lines(of: Cell, expected: float) -> list[str]:
    """The cell in words, a line for each estimate."""
    out = []
    several = len(of.values) > 1
    spread, known = (v.std(0, ddof=1) if several else np.full(3, np.nan) for v in (of.values, of.regression))
    for i, (name, truth) in enumerate(TRUTH.items()):
        error = of.values[:, i] - truth
        said = float(np.sqrt(np.mean(np.square(of.errors[:, i]))))
        line = (
            f"{name}: coverage {np.mean(abs(error) < of.halves[:, i]):.3f}, bias/se {error.mean() / said:+.2f}, "
            f"se {said:.4f}, spread {spread[i]:.4f}, by regression {known[i]:.4f}"
        )
        out.append(line + (f", theory {expected:.4f}" if name == "mean" else ""))
    return out


def main(argv: Sequence[str] | None = None) -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="folder for the runs")
    parser.add_argument("--models", nargs="+", default=("fa", "mixture"), choices=MODELS)
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES)
    parser.add_argument("--mechanisms", nargs="+", default=MECHANISMS, choices=MECHANISMS)
    parser.add_argument("--repetitions", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(argv)
    given.out.mkdir(parents=True, exist_ok=True)
    for rows in given.sizes:
        count = given.repetitions if rows <= 1000 else min(given.repetitions, MOST_LARGE)
        for mechanism in given.mechanisms:
            expected = theory(rows, mechanism, given.seed)
            for model in given.models:
                found = cell(model, mechanism, rows, count, given.seed, given.out)
                for line in lines(found, expected):
                    print(f"{model}, {mechanism}, {rows} rows, {count} tables, {line}", flush=True)
                print(f"{model}, {mechanism}, {rows} rows: {np.median(found.seconds):.1f} CPU s a table", flush=True)


if __name__ == "__main__":
    main()
