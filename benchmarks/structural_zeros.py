"""How many fills are of a kind that cannot be, and what does keeping them out do to estimates?

    python benchmarks/structural_zeros.py [--tables 8] [--first 11] [--rows 600]

A table of people and vehicles, 30 % of its cells missing at random: no man is pregnant, nobody from 45 on is; of kinds
of vehicles, their wheels and sizes, and of months and seasons, some go together and others never. `vgi fit` with its
defaults, and with `--set table.relations=ignore`; 20 imputations each. For both:

impossible  share of the rows with a hole in one of two columns that are filled as no row of the complete table is
error       of shares and a mean over 20 completed tables, minus those of the complete table, in standard errors of a
            table of so many rows: mean over the tables, with the standard error of that
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

import vgi_cli

PAIRS = (("sex", "pregnant"), ("kind", "wheels"), ("kind", "size"), ("month", "season"))
M, MISSING = 20, 0.3


def people(seed: int, n: int) -> pd.DataFrame:
    """The complete table."""
    rng = np.random.default_rng(seed)
    sex, age = rng.choice(["m", "f"], n), rng.integers(18, 80, n)
    pregnant = np.where((sex == "f") & (age < 45) & (rng.random(n) < 0.4), "yes", "no")
    married = np.where(rng.random(n) < 1 / (1 + np.exp(-(age - 30) / 6)), "married", "single")
    kind = rng.choice(["car", "van", "truck", "bike"], n)
    wheels = pd.Series(kind).map({"car": 4, "van": 4, "truck": 6, "bike": 2}).to_numpy()
    wheels = np.where((kind == "truck") & (rng.random(n) < 0.3), 8, wheels)
    size = np.where(kind == "bike", rng.choice(["s", "m"], n), rng.choice(["m", "l", "xl"], n))
    month = rng.integers(1, 13, n)
    season = np.array(["winter", "spring", "summer", "autumn"])[(month + rng.integers(0, 2, n)) % 12 // 3]
    weight = (60 + 15 * (sex == "m") + 6 * (pregnant == "yes") + rng.normal(0, 8, n)).round(1)
    columns = {"sex": sex, "age": age, "pregnant": pregnant, "marital": married, "kind": kind, "wheels": wheels}
    return pd.DataFrame(columns | {"size": size, "month": month, "season": season, "weight": weight})


def estimates(table: pd.DataFrame) -> np.ndarray:
    """Share of the pregnant, of men, of bikes with four wheels or fewer, and the mean weight."""
    light = (table["kind"] == "bike") | (table["wheels"] == 4)
    return np.array(
        [(table["pregnant"] == "yes").mean(), (table["sex"] == "m").mean(), light.mean(), table["weight"].mean()]
    )


def measure(seed: int, rows: int, relations: str, folder: Path) -> tuple[list[float], np.ndarray]:
    """Shares of impossible fills of each of PAIRS, and the errors of the estimates in standard errors."""
    truth = people(seed, rows)
    missing = np.random.default_rng([seed, 1]).random(truth.shape) < MISSING
    run = folder / f"{seed}-{relations}"
    vgi_cli.fit(truth.mask(missing), out=run, seed=seed, set={"table.relations": relations})
    tables = list(vgi_cli.impute(run, truth.mask(missing), m=M))
    shares = []
    for a, b in PAIRS:
        holes = missing[:, truth.columns.get_loc(a)] | missing[:, truth.columns.get_loc(b)]
        known = set(zip(truth[a], truth[b], strict=True))
        filled = (pair for table in tables for pair in zip(table[a][holes], table[b][holes], strict=True))
        shares.append(float(np.mean([pair not in known for pair in filled])))
    share = estimates(truth)
    error = np.sqrt([*(share[:-1] * (1 - share[:-1]) / rows), truth["weight"].var() / rows])
    return shares, (np.mean([estimates(table) for table in tables], 0) - share) / error


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--tables", type=int, default=8)
    parser.add_argument("--first", type=int, default=11, help="seed of the first table")
    parser.add_argument("--rows", type=int, default=600)
    args = parser.parse_args(argv)
    print(f"| relations | {' | '.join('/'.join(pair) for pair in PAIRS)} | pregnant | men | light | weight |")
    print("|---|" + "---:|" * (len(PAIRS) + 4))
    with tempfile.TemporaryDirectory() as folder:
        for relations in ("keep", "ignore"):
            seeds = range(args.first, args.first + args.tables)
            found = [measure(seed, args.rows, relations, Path(folder)) for seed in seeds]
            shares = np.mean([one for one, _ in found], 0)
            errors = np.array([one for _, one in found])
            off = errors.std(0, ddof=1) / np.sqrt(len(errors))
            said = [f"{mean:+.2f} ± {se:.2f}" for mean, se in zip(errors.mean(0), off, strict=True)]
            print(
                f"| {relations} | {' | '.join(f'{100 * share:.2f} %' for share in shares)} | {' | '.join(said)} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
