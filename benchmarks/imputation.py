"""How well are hidden cells of real tables imputed? One command, nine tables, four mechanisms, nine methods.

    python benchmarks/imputation.py --data FOLDER [--tables banknote …] [--methods mice default …] [--json OUT]

Six tables come from FOLDER, three small ones (`wine`, `iris`, `diabetes`: 70 % of their rows, a fixed random choice)
with scikit-learn. Cells of complete tables are hidden (MCAR 20 %, 50 % and 80 %, MAR 50 %), every method fills them
with 19 draws (column means and missForest: one), and the draws are scored against the truth. Results are cached in
`--cache`, one file for each table, mechanism, method and seed, so that an interrupted run goes on where it stopped (an
empty folder starts afresh). CPU seconds are process time, fit and draws together, on one thread.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd
from scores import fair_crps

TABLES = ("wine_quality_white", "concrete", "breast_wdbc", "california_housing", "banknote", "letter")
SMALL = ("wine", "iris", "diabetes")
MECHANISMS = ("mcar20", "mcar50", "mar50", "mcar80")
DRAWS = 19
MAX_ROWS = 1500


# -- the design ------------------------------------------------------------------------------------------------------


def load(folder: Path, table: str, max_rows: int = MAX_ROWS) -> pd.DataFrame:
    """The numeric columns of a table, at most `max_rows` rows of it (a fixed random choice)."""
    if table in SMALL:
        from sklearn import datasets

        whole = getattr(datasets, f"load_{table}")(as_frame=True).data.astype(float)
        return whole.sample(frac=0.7, random_state=0).reset_index(drop=True)
    frame = pd.read_parquet(folder / f"{table}.parquet").select_dtypes("number")
    if len(frame) > max_rows:
        frame = frame.sample(max_rows, random_state=0)
    return frame.reset_index(drop=True)


def hide(values: np.ndarray, mechanism: str, rng: np.random.Generator) -> np.ndarray:
    """Mask [N, d], True where a cell is hidden.

    mcarNN  every cell on its own with probability NN %
    mar50   a random third of the columns stays complete; in every other column a cell is hidden with logistic
            probability in a random combination of those (normal weights, scaled to unit variance), the intercept set
            so that half of the column is hidden on average
    """
    N, d = values.shape
    if mechanism.startswith("mcar"):
        return rng.random((N, d)) < int(mechanism[4:]) / 100
    standard = (values - values.mean(0)) / values.std(0)
    complete = rng.permutation(d)[: max(1, round(d / 3))]
    missing = np.zeros((N, d), dtype=bool)
    for column in sorted(set(range(d)) - set(complete.tolist())):
        score = standard[:, complete] @ rng.standard_normal(len(complete))
        score /= score.std()
        low, high = -50.0, 50.0
        for _ in range(80):
            middle = (low + high) / 2
            low, high = (middle, high) if (1 / (1 + np.exp(-(score + middle)))).mean() < 0.5 else (low, middle)
        missing[:, column] = rng.random(N) < 1 / (1 + np.exp(-(score + low)))
    return missing


# -- the scores ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Scores:
    """Means over the hidden cells of a column, then over columns; all but coverage in column standard deviations.

    coverage breaks ties between truth and draws at random (90 % when calibrated, integers too); touched counts them as
    covered.
    """

    crps: float
    rmse: float
    coverage: float
    touched: float
    sliced_wasserstein: float
    cpu_seconds: float


def sliced_wasserstein(first: np.ndarray, second: np.ndarray, directions: np.ndarray) -> float:
    """Mean over directions of the 1-Wasserstein distance of the projections of two samples of equal size."""
    return float(np.abs(np.sort(first @ directions, 0) - np.sort(second @ directions, 0)).mean())


def score(truth: np.ndarray, missing: np.ndarray, draws: np.ndarray, cpu_seconds: float) -> Scores:
    """The scores of draws [m, N, d]."""
    if not np.isfinite(draws).all():
        raise ValueError("a method left a hole or a non-finite value")
    sd = truth.std(0)
    sd = np.where(sd > 0, sd, 1.0)
    crps, square, covered, touched = [], [], [], []
    for column in np.flatnonzero(missing.any(0)):
        rows = missing[:, column]
        x, y = draws[:, rows, column], truth[rows, column]
        crps.append(fair_crps(x, y).mean() / sd[column])
        square.append(np.sqrt(((x.mean(0) - y) ** 2).mean()) / sd[column])
        low, high, outermost = x.min(0), x.max(0), 1 / (1 + (x == y).sum(0))
        ties = outermost * (y == low) + outermost * (y == high)  # as in `vgi evaluate`: ties broken at random
        covered.append((((low <= y) & (y <= high)) - ties).mean())
        touched.append(((low <= y) & (y <= high)).mean())
    directions = np.random.default_rng(0).standard_normal((truth.shape[1], 100))
    directions /= np.linalg.norm(directions, axis=0)
    distance = np.mean([sliced_wasserstein(draw / sd, truth / sd, directions) for draw in draws])
    means = (np.mean(v) for v in (crps, square, covered, touched))
    return Scores(*(float(v) for v in (*means, distance, cpu_seconds)))


# -- the methods -----------------------------------------------------------------------------------------------------

Method = Callable[[pd.DataFrame, np.ndarray, int], np.ndarray]
"""(table with the truth in it, mask, seed) -> draws [m, N, d]. Methods blank the hidden cells first."""


def _holes(frame: pd.DataFrame, missing: np.ndarray) -> np.ndarray:
    return np.where(missing, np.nan, frame.to_numpy(dtype=float))


def column_means(frame: pd.DataFrame, missing: np.ndarray, seed: int) -> np.ndarray:
    """Every hidden cell gets the mean of its column: a single imputation."""
    x = _holes(frame, missing)
    return np.where(missing, np.nanmean(x, 0), x)[None]


def mice(frame: pd.DataFrame, missing: np.ndarray, seed: int) -> np.ndarray:
    """scikit-learn's IterativeImputer, BayesianRidge with posterior draws, 10 sweeps; 19 runs with their own seeds."""
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer

    x = _holes(frame, missing)
    draws = [
        IterativeImputer(sample_posterior=True, max_iter=10, random_state=1000 * seed + i).fit_transform(x)
        for i in range(DRAWS)
    ]
    return np.stack(draws)


def missforest(frame: pd.DataFrame, missing: np.ndarray, seed: int) -> np.ndarray:
    """IterativeImputer with a random forest (100 trees), as in missForest: a single imputation."""
    from sklearn.ensemble import RandomForestRegressor
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer

    forest = RandomForestRegressor(n_estimators=100, max_features="sqrt", random_state=seed)
    return IterativeImputer(forest, max_iter=5, random_state=seed).fit_transform(_holes(frame, missing))[None]


def _vgi(**settings: Any) -> Method:
    """`vgi` through its public API: fit the table with holes, then 19 draws of it."""

    def method(frame: pd.DataFrame, missing: np.ndarray, seed: int) -> np.ndarray:
        import vgi_cli

        holes = frame.mask(missing)
        with tempfile.TemporaryDirectory() as folder:
            run = vgi_cli.fit(holes, out=Path(folder) / "run", seed=seed, threads=1, **settings)
            return np.stack([draw.to_numpy(dtype=float) for draw in run.impute(m=DRAWS)])

    return method


METHODS: dict[str, Method] = {
    "mean": column_means,
    "mice": mice,
    "missforest": missforest,
    "fa": _vgi(model="fa"),
    "mixture": _vgi(model="mixture"),
    "flow": _vgi(model="flow"),
    "default": _vgi(),
    "linear": _vgi(set={"table.transform": "linear"}, model="mixture"),
    "in_range": _vgi(bounds={"all": "observed"}),
}


# -- one cell of the design, cached ----------------------------------------------------------------------------------


def measure(folder: Path, table: str, mechanism: str, method: str, seed: int, rows: int = MAX_ROWS) -> Scores:
    """Hide, impute, score."""
    frame = load(folder, table, rows)
    truth = frame.to_numpy(dtype=float)
    digest = hashlib.blake2b(f"{table}/{mechanism}/{seed}".encode(), digest_size=8).digest()
    missing = hide(truth, mechanism, np.random.default_rng(int.from_bytes(digest, "little")))
    started = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn's "not converged" after the standard number of sweeps
        draws = METHODS[method](frame, missing, seed)
    spent = time.process_time() - started
    return score(truth, missing, np.where(missing, draws, truth), spent)


def cached(
    cache: Path, folder: Path, table: str, mechanism: str, method: str, seed: int, rows: int = MAX_ROWS
) -> Scores:
    """`measure`, unless its result is already in the cache."""
    path = cache / f"{table}-{mechanism}-{method}-{seed}{'' if rows == MAX_ROWS else f'-{rows}'}.json"
    if path.exists():
        return Scores(**json.loads(path.read_text()))
    result = measure(folder, table, mechanism, method, seed, rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_suffix(f".{os.getpid()}")
    aside.write_text(json.dumps(asdict(result)))
    aside.replace(path)
    return result


# -- the report ------------------------------------------------------------------------------------------------------


def average(results: Iterable[Scores]) -> Scores:
    """The mean over seeds."""
    rows = [list(asdict(r).values()) for r in results]
    return Scores(*(float(v) for v in np.mean(rows, 0)))


def report(results: dict[tuple[str, str, str], Scores], methods: list[str]) -> str:
    """A Markdown table of every cell, and the geometric means of CRPS over MICE's."""
    lines = ["| table | hidden | method | CRPS | CRPS / MICE | RMSE | coverage | sliced W | CPU s |"]
    lines.append("|---|---|---|---:|---:|---:|---:|---:|---:|")
    ratios: dict[str, list[float]] = {m: [] for m in methods}
    for (table, mechanism, method), s in results.items():
        reference = results.get((table, mechanism, "mice"))
        ratio = s.crps / reference.crps if reference else math.nan
        ratios[method].append(ratio)
        lines.append(
            f"| {table} | {mechanism} | {method} | {s.crps:.4f} | {ratio:.3f} | {s.rmse:.3f} | {s.coverage:.3f} "
            f"| {s.sliced_wasserstein:.4f} | {s.cpu_seconds:.1f} |"
        )
    lines += ["", "| method | geometric mean CRPS / MICE | worst | coverage mean (min, max) | CPU s mean (max) |"]
    lines.append("|---|---:|---:|---:|---:|")
    for method in methods:
        own = [s for (_, _, m), s in results.items() if m == method]
        coverage, cpu = [s.coverage for s in own], [s.cpu_seconds for s in own]
        lines.append(
            f"| {method} | {np.exp(np.mean(np.log(ratios[method]))):.3f} | {max(ratios[method]):.3f} "
            f"| {np.mean(coverage):.3f} ({min(coverage):.3f}, {max(coverage):.3f}) "
            f"| {np.mean(cpu):.1f} ({max(cpu):.1f}) |"
        )
    return "\n".join(lines)


def main() -> None:
    """Parse, measure what is not cached, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with TABLE.parquet")
    parser.add_argument("--tables", nargs="+", default=[*TABLES, *SMALL], choices=[*TABLES, *SMALL])
    parser.add_argument("--mechanisms", nargs="+", default=list(MECHANISMS), choices=MECHANISMS)
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--seeds", type=int, default=3, help="how many seeds")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--rows", type=int, default=MAX_ROWS, help="most rows of a table")
    parser.add_argument("--cache", type=Path, default=Path("imputation-cache"), help="folder of finished cells")
    parser.add_argument("--json", type=Path, help="write the averaged scores here")
    args = parser.parse_args()

    results: dict[tuple[str, str, str], Scores] = {}
    for table in args.tables:
        for mechanism in args.mechanisms:
            for method in args.methods:
                per_seed = []
                for seed in range(args.first, args.first + args.seeds):
                    per_seed.append(cached(args.cache, args.data, table, mechanism, method, seed, args.rows))
                    s = per_seed[-1]
                    print(f"{table} {mechanism} {method} {seed}: CRPS {s.crps:.4f}", file=sys.stderr, flush=True)
                results[table, mechanism, method] = average(per_seed)
    print(report(results, args.methods))
    if args.json:
        rows = [{"table": t, "mechanism": c, "method": m, **asdict(s)} for (t, c, m), s in results.items()]
        args.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
