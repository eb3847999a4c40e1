"""Are fills in the order that the columns are in in every row? Admissions and discharges, a least and a greatest value.

    python benchmarks/orders.py [breast_wdbc.parquet …] [--rows 600] [--share 0.2] [--seeds 0 1]

A simulated table (`stays`: dates of admission and discharge, which lie some days apart within two years; three
measurements of which each is at most the next; age) and some rows of others; a share of the cells is hidden, and five
tables are filled by `vgi fit` with its defaults, with `table.relations=keep` (the default) and `ignore`. Of all orders
that are found, in rows with a hole in either column: in which share the fills are out of order; the mean distance of
the two columns less that of the true rows, in standard deviations of the latter; the mean CRPS of the hidden cells of
these columns, in standard deviations of each.
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
from vgi_cli.columns.schema import Schema

M = 5


def stays(rows: int, seed: int) -> pd.DataFrame:
    """The simulated table."""
    rng = np.random.default_rng(seed)
    admitted = pd.Timestamp("2023-01-01") + pd.to_timedelta(rng.integers(0, 700, rows), "D")
    low = rng.gamma(3, 2, rows).round(2)
    mid = (low + rng.exponential(1, rows)).round(2)
    return pd.DataFrame(
        {
            "admitted": admitted,
            "discharged": admitted + pd.to_timedelta(np.floor(rng.gamma(1.2, 5, rows)), "D"),
            "low": low,
            "mid": mid,
            "high": (mid + rng.exponential(3, rows)).round(2),
            "age": rng.integers(20, 80, rows),
        }
    )


def numbers(frame: pd.DataFrame) -> pd.DataFrame:
    """Dates as days."""
    days = [name for name in frame if pd.api.types.is_datetime64_any_dtype(frame[name])]
    return frame.assign(**{name: (frame[name] - pd.Timestamp("2000-01-01")) / pd.Timedelta("1D") for name in days})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", type=Path)
    parser.add_argument("--rows", type=int, default=600)
    parser.add_argument("--share", type=float, default=0.2)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1])
    given = parser.parse_args()
    print("| table | orders | relations | out of order | distance, off | CRPS |")
    print("|---|--:|---|--:|--:|--:|")
    for path in (None, *given.tables):
        found: dict[str, list[tuple[float, float, float]]] = {"ignore": [], "keep": []}
        counts = []
        for seed in given.seeds:
            if path is None:
                true = stays(given.rows, seed)
            else:
                frame = pd.read_parquet(path)
                true = frame.sample(min(given.rows, len(frame)), random_state=seed).reset_index(drop=True)
            hidden = pd.DataFrame(np.random.default_rng(seed).random(true.shape) < given.share, columns=true.columns)
            tables: dict[str, list[pd.DataFrame]] = {}
            with tempfile.TemporaryDirectory() as folder:
                for how in ("keep", "ignore"):
                    out = Path(folder) / how
                    run = vgi_cli.fit(
                        true.mask(hidden),
                        out=out,
                        seed=seed,
                        threads=1,
                        set={"table.relations": how},
                        say=lambda _: None,
                    )
                    tables[how] = [numbers(one) for one in run.impute(m=M, say=lambda _: None)]
                orders = Schema.from_json((Path(folder) / "keep" / "schema.json").read_text()).orders
            counts.append(len(orders))
            whole = numbers(true)
            names = sorted({name for one in orders for name in (one.low, one.high)})
            for how, filled in tables.items():
                parts = []
                for one in orders:
                    rows = hidden[one.low] | hidden[one.high]
                    apart = np.array([(f[one.high] - f[one.low])[rows] for f in filled])
                    real = (whole[one.high] - whole[one.low])[rows]
                    parts.append(((apart < -1e-9).mean(), (apart.mean() - real.mean()) / real.std()))
                scores = []
                for name in names:
                    cells = hidden[name]
                    draws = np.array([f[name][cells] for f in filled])
                    off = np.abs(draws - whole[name][cells].to_numpy()).mean()
                    spread = np.abs(draws[:, None] - draws[None]).sum((0, 1)).mean() / (M * (M - 1))
                    scores.append((off - 0.5 * spread) / whole[name].std())
                found[how].append((*np.mean(parts, 0), float(np.mean(scores))))
        name = "stays, simulated" if path is None else path.stem
        for how, values in found.items():
            out, away, crps = np.mean(values, 0)
            print(f"| {name} | {np.mean(counts):.1f} | {how} | {out:.4f} | {away:+.3f} | {crps:.4f} |", flush=True)


if __name__ == "__main__":
    main()
