"""Are fills in the order that the columns are in in every row? Admissions and discharges, a least and a greatest value.

    python benchmarks/orders.py [breast_wdbc.parquet …] [--rows 600] [--share 0.2] [--seeds 0 1]
    python benchmarks/orders.py --equal --seeds 0 1 2 3 4 5 6 7

A simulated table (`stays`: dates of admission and discharge, which lie some days apart within two years; three
measurements of which each is at most the next; age) and some rows of others; a share of the cells is hidden, and five
tables are filled by `vgi fit` with its defaults, with `table.relations=keep` (the default) and `ignore`. Of all orders
that are found, in rows with a hole in either column: in which share the fills are out of order; the mean distance of
the two columns less that of the true rows, in standard deviations of the latter; the mean CRPS of the hidden cells of
these columns, in standard deviations of each.

`--equal [NAME …]`: instead tables of which two columns are equal in many rows (all of EQUAL, or these), filled ten
times with that share (`kept`) and as cells are drawn and brought into order (`drawn`), from the same fit with ten
refits. Of the rows with a hole in either column, in which share they are equal, in fills and in truth; how far the
pooled share of all rows is off the true one, in its standard errors; how often the middle 80 % of fills hold the true
cell, and their CRPS in standard deviations, of both columns; how far the correlation of the two is off, and that of a
third column with their distance, and with whether they are equal.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple
from unittest import mock

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd

import vgi_cli
from vgi_cli.columns.schema import Schema
from vgi_cli.encoding import keeping
from vgi_cli.encoding.orders import keep_orders

M = 5
EQUAL_M = 10


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


class Equal(NamedTuple):
    """A table, by column which of its cells are hidden, the two columns in order, and a third one."""

    true: pd.DataFrame
    hidden: dict[str, np.ndarray]
    low: str
    high: str
    third: str


def expit(x: np.ndarray) -> np.ndarray:
    return np.asarray(1 / (1 + np.exp(-x)))


def dates(days: np.ndarray) -> pd.DatetimeIndex:
    return pd.Timestamp("2023-01-01") + pd.to_timedelta(days, "D")


def delivered(rng: np.random.Generator, n: int) -> Equal:
    """Orders that are delivered in full with a probability of 0.7."""
    ordered = rng.poisson(40, n)
    part = np.maximum(0, ordered - 1 - rng.poisson(8, n))
    true = pd.DataFrame(
        {
            "region": rng.choice(["N", "S", "W"], n),
            "ordered": ordered,
            "delivered": np.where(rng.random(n) < 0.7, ordered, part),
            "price": rng.normal(20, 4, n).round(2),
        }
    )
    return Equal(true, {"delivered": rng.random(n) < 0.2}, "delivered", "ordered", "price")


def paid(rng: np.random.Generator, n: int) -> Equal:
    """Invoices that are paid in full with a probability of 0.6, else half of them not at all."""
    invoiced = np.exp(rng.normal(5, 0.8, n)).round(2)
    part = np.where(rng.random(n) < 0.5, 0, (invoiced * rng.random(n)).round(2))
    true = pd.DataFrame(
        {
            "region": rng.choice(["N", "S", "W"], n),
            "days": rng.integers(1, 60, n),
            "invoiced": invoiced,
            "paid": np.where(rng.random(n) < 0.6, invoiced, part),
        }
    )
    return Equal(true, {"paid": rng.random(n) < 0.2}, "paid", "invoiced", "days")


def day_cases(rng: np.random.Generator, n: int) -> Equal:
    """Patients who are discharged on the day of their admission with a probability of 0.4."""
    admitted = rng.integers(0, 365, n)
    true = pd.DataFrame(
        {
            "region": rng.choice(["N", "S", "W"], n),
            "age": rng.integers(1, 90, n),
            "admitted": dates(admitted),
            "discharged": dates(admitted + np.where(rng.random(n) < 0.4, 0, rng.integers(1, 21, n))),
        }
    )
    return Equal(true, {"discharged": rng.random(n) < 0.2}, "admitted", "discharged", "age")


def floors(rng: np.random.Generator, n: int) -> Equal:
    """Flats on any floor of their house; holes in both."""
    high = np.clip(rng.poisson(4, n), 1, 12)
    low = (rng.random(n) * (high + 1)).astype(int)
    area = np.exp(4.25 + 0.35 * rng.normal(size=n))
    rent = area * 10 * np.exp(0.02 * low + 0.15 * rng.normal(size=n))
    true = pd.DataFrame(
        {
            "floors": high,
            "floor": low,
            "area": area.round(1),
            "rent": rent.round().astype(int),
            "year": rng.integers(1900, 2020, n),
        }
    )
    hidden = {name: rng.random(n) < share for name, share in (("floors", 0.12), ("floor", 0.12), ("rent", 0.1))}
    return Equal(true, hidden, "floor", "floors", "rent")


def day_cases_by_age(rng: np.random.Generator, n: int) -> Equal:
    """The younger the more day cases, and the fewer holes, which either date has, or both."""
    age = rng.integers(1, 90, n)
    z = (age - 45) / 26
    admitted = rng.integers(0, 365, n)
    stay = np.where(rng.random(n) < expit(-0.2 - 1.2 * z), 0, 1 + rng.poisson(np.exp(1.2 + 0.5 * z)))
    true = pd.DataFrame(
        {
            "sex": rng.choice(["m", "f"], n),
            "age": age,
            "admitted": dates(admitted),
            "discharged": dates(admitted + stay),
            "score": (z + rng.normal(size=n)).round(1),
        }
    )
    holes, first, both = rng.random(n) < expit(-1.3 + 1.2 * z), rng.random(n) < 0.5, rng.random(n) < 0.2
    hidden = {"discharged": holes & (first | both), "admitted": holes & (~first | both), "score": rng.random(n) < 0.1}
    return Equal(true, hidden, "admitted", "discharged", "age")


def paid_by_segment(rng: np.random.Generator, n: int) -> Equal:
    """Who pays in full depends on a segment and a limit of credit, and so does where cells are missing."""
    segment, z = rng.choice(["private", "firm", "state"], n, p=[0.5, 0.3, 0.2]), rng.normal(size=n)
    invoiced = np.exp(5 + 0.5 * z + 0.6 * rng.normal(size=n)).round(2)
    full = expit(np.select([segment == "private", segment == "firm"], [0.3, 1.2], -1.0) - 0.8 * z)
    true = pd.DataFrame(
        {
            "segment": segment,
            "limit": np.exp(8 + 0.6 * z + 0.3 * rng.normal(size=n)).round(-1),
            "invoiced": invoiced,
            "paid": np.where(rng.random(n) < full, invoiced, (invoiced * rng.beta(2, 1.5, n)).round(2)),
        }
    )
    holes, which = rng.random(n) < expit(-1.6 + z + 0.8 * (segment == "state")), rng.random(n)
    hidden = {"paid": holes & (which < 0.8), "invoiced": holes & (which > 0.7), "limit": rng.random(n) < 0.1}
    return Equal(true, hidden, "paid", "invoiced", "limit")


EQUAL: dict[str, Callable[[np.random.Generator, int], Equal]] = {
    "delivered": delivered,
    "paid": paid,
    "day cases": day_cases,
    "floors": floors,
    "day cases by age": day_cases_by_age,
    "paid by segment": paid_by_segment,
}


def judged(made: Equal, hidden: pd.DataFrame, filled: list[pd.DataFrame]) -> dict[str, float]:
    """What is printed of one table; nothing of columns without holes."""
    whole, n = numbers(made.true), len(made.true)
    low, high, third = (np.array([frame[name] for frame in filled]) for name in (made.low, made.high, made.third))
    holes = (hidden[made.low] | hidden[made.high]).to_numpy()
    equal, truly = np.abs(high - low) < 1e-7, (np.abs(whole[made.high] - whole[made.low]) < 1e-7).to_numpy()
    shares = equal.mean(1)
    error = np.sqrt((shares * (1 - shares) / n).mean() + (1 + 1 / len(filled)) * shares.var(ddof=1))
    found = {
        "filled": equal[:, holes].mean(),
        "true": truly[holes].mean(),
        "off": (shares.mean() - truly.mean()) / error,
    }
    for what, name, draws in (("low", made.low, low), ("high", made.high, high)):
        cells = hidden[name].to_numpy()
        if cells.any():
            some, real = draws[:, cells], whole[name].to_numpy()[cells]
            ends = np.quantile(some, (0.1, 0.9), axis=0)
            found[f"held {what}"] = ((ends[0] - 1e-9 <= real) & (real <= ends[1] + 1e-9)).mean()
            spread = np.abs(some[:, None] - some[None]).sum((0, 1)) / (len(some) * (len(some) - 1))
            found[f"crps {what}"] = (np.abs(some - real).mean(0) - 0.5 * spread).mean() / whole[name].std()

    def correlated(a: np.ndarray, b: np.ndarray, real: float) -> float:
        return float(np.mean([np.corrcoef(x, y)[0, 1] for x, y in zip(a, b, strict=True)]) - real)

    distance, other = whole[made.high] - whole[made.low], whole[made.third]
    found["r"] = correlated(low, high, whole[made.low].corr(whole[made.high]))
    found["r distance"] = correlated(high - low, third, distance.corr(other))
    found["r equal"] = correlated(equal.astype(float), third, pd.Series(truly.astype(float)).corr(other))
    return found


def equal_cells(names: list[str], rows: int, seeds: list[int]) -> None:
    """Print the table of `--equal`."""
    heads = ["equal, filled", "equal, true", "share, off", "held, low", "held, high", "CRPS, low", "CRPS, high"]
    print("| table | fills |", " | ".join([*heads, "r, off", "r of distance, off", "r of equality, off"]), "|")
    print("|---|---|" + "--:|" * 10)
    keys = ["filled", "true", "off", "held low", "held high", "crps low", "crps high", "r", "r distance", "r equal"]
    for name in names:
        found: dict[str, list[dict[str, float]]] = {"drawn": [], "kept": []}
        for seed in seeds:
            made = EQUAL[name](np.random.default_rng(seed), rows)
            hidden = pd.DataFrame({c: made.hidden.get(c, np.zeros(rows, bool)) for c in made.true})
            with tempfile.TemporaryDirectory() as folder:
                run = vgi_cli.fit(
                    made.true.mask(hidden),
                    out=Path(folder) / "run",
                    seed=seed,
                    threads=1,
                    set={"bootstrap": EQUAL_M},
                    say=lambda _: None,
                )
                for how, values in found.items():
                    as_drawn = mock.patch.object(
                        keeping, "keep_orders", lambda *given: keep_orders(*given[:5], None, *given[6:])
                    )
                    with as_drawn if how == "drawn" else mock.patch.object(keeping, "keep_orders", keep_orders):
                        filled = [numbers(one) for one in run.impute(m=EQUAL_M, say=lambda _: None)]
                    values.append(judged(made, hidden, filled))
        for how, values in found.items():
            means = pd.DataFrame(values).mean()
            texts = [f"{means[key]:.3f}" if key in means else "" for key in keys]
            print(f"| {name} | {how} |", " | ".join(texts), "|", flush=True)


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
    parser.add_argument("--equal", nargs="*", choices=EQUAL, default=None)
    given = parser.parse_args()
    if given.equal is not None:
        equal_cells(given.equal or list(EQUAL), given.rows, given.seeds)
        return
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
