"""Is what rows of one group have in common (patients of a clinic, visits of a patient) still there in filled tables?

    python benchmarks/groups.py [--groups 30x10 40x5 80x4] [--icc 0.4] [--seeds 1 2 3] [--kinds text categorical number]

Simulated tables: y = u(group) + x / 2 + noise with that intraclass correlation, z = 0.4 y + noise; 30 % of y and 15 %
of z are missing. They are fitted with all defaults, the group spelled as a text (`text`), the same with
`--column group=categorical`, or numbered 1001, 1002, … (`number`). Printed is the intraclass correlation of y (by
analysis of variance) on average over ten imputations, less that of the whole table: mean and standard error over the
tables; the slope of z on y, likewise; and whether a line said that groups are not modelled.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd

import vgi_cli
from vgi_cli.encoding.groups import Ranked, repeated
from vgi_cli.encoding.infer import infer_schema
from vgi_cli.table.reader import read_table

DRAWS = 10


def simulated(groups: int, rows: int, icc: float, seed: int) -> pd.DataFrame:
    """A whole table."""
    rng = np.random.default_rng([seed, groups, rows])
    group, n = np.repeat(np.arange(groups), rows), groups * rows
    x = rng.normal(size=n)
    u = rng.normal(0, np.sqrt(icc / (1 - icc)), groups)
    y = u[group] + 0.5 * x + rng.normal(size=n)
    z = 0.4 * y + rng.normal(size=n)
    return pd.DataFrame({"group": group, "x": x.round(2), "y": y.round(2), "z": z.round(2)})


def with_holes(table: pd.DataFrame, seed: int) -> pd.DataFrame:
    """The same with cells missing at random."""
    rng = np.random.default_rng([seed, 1])
    out = table.copy()
    for name, share in (("y", 0.3), ("z", 0.15)):
        out.loc[rng.random(len(out)) < share, name] = np.nan
    return out


def estimates(table: pd.DataFrame) -> np.ndarray:
    """Intraclass correlation of y, adjusted for x, and the slope of z on y."""
    left = table.y - np.polyval(np.polyfit(table.x, table.y, 1), table.x)
    by = left.groupby(table.group)
    n = by.size()
    within = ((left - by.transform("mean")) ** 2).sum() / (len(table) - len(n))
    between = (n * (by.mean() - left.mean()) ** 2).sum() / (len(n) - 1)
    size = n.mean()
    return np.array([(between - within) / (between + (size - 1) * within), np.polyfit(table.y, table.z, 1)[0]])


def difference(whole: pd.DataFrame, holey: pd.DataFrame, kind: str, seed: int) -> tuple[np.ndarray, bool]:
    """Estimates from filled tables less those of the whole one, and whether groups are said not to be modelled."""
    asked = {"columns": {"group": "categorical"}} if kind == "categorical" else {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        spelled = holey.group + 1001 if kind == "number" else [f"g{i:03d}" for i in holey.group]
        holey.assign(group=spelled).to_csv(folder / "t.csv", index=False)
        run = vgi_cli.fit(folder / "t.csv", out=folder / "run", seed=seed, threads=1, **asked)
        filled = vgi_cli.impute(run, m=DRAWS)
        table = read_table([str(folder / "t.csv")])
        kinds = {"group": "categorical"} if asked else {}
        said = bool(repeated(Ranked(table, infer_schema(table, kinds=kinds)[0], kinds)))
    return np.mean([estimates(one.assign(group=whole.group)) for one in filled], 0) - estimates(whole), said


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", nargs="+", default=["30x10", "40x5", "80x4"], help="groups x rows of each")
    parser.add_argument("--icc", type=float, default=0.4)
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    parser.add_argument("--kinds", nargs="+", default=["text", "categorical", "number"])
    args = parser.parse_args()
    print("| groups | column | ICC, whole | filled less whole | slope of z, filled less whole | said |")
    print("|---|---|--:|--:|--:|--:|")
    for size in args.groups:
        groups, rows = map(int, size.split("x"))
        for kind in args.kinds:
            found, told, icc = [], 0, []
            for seed in args.seeds:
                whole = simulated(groups, rows, args.icc, seed)
                less, said = difference(whole, with_holes(whole, seed), kind, seed)
                found.append(less)
                told += said
                icc.append(estimates(whole)[0])
            mean, error = np.mean(found, 0), np.std(found, 0, ddof=1) / np.sqrt(len(found))
            print(
                f"| {size} | {kind} | {np.mean(icc):.2f} | {mean[0]:+.3f} ± {error[0]:.3f} | "
                f"{mean[1]:+.3f} ± {error[1]:.3f} | {told} of {len(found)} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
