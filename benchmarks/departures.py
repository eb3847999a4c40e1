"""What departures from the paper's Algorithms 2 and 5 change, on the toy factor-analysis model.

    python benchmarks/departures.py WORK_FOLDER [--rows 1600] [--masks 3] [--ways WAY ...] [--accept metropolis]

Tables with 3/6 and 5/6 of the cells missing (`make_toy.py`, seed 7), and with 90, 70, 50, 30, 15 and 5 % of the six
columns (`uneven`), and of a factor analysis of 30 columns and 3 factors with 3/6 missing (`wide`), are fitted with
`recipes/toy-fa.yaml`: as the program does it, and with functions replaced by

    rows alike    Algorithm 2 weighs each row alike, whichever of its columns are observed (the paper: each column)
    two columns   Algorithm 2 scores two observed columns of a row at each step, as the program does beyond 16
    all columns   it scores all of them, as the paper and up to 16 columns the program does
    h updates     Algorithm 5 makes h updates where a row has h < G holes (the paper: G)
    independent   Algorithm 5 draws its G columns independently, as the paper writes, not without replacement

Printed are medians over masks: KL of the conditionals to the truth's own (median over test rows and columns) after one
epoch of the main stage, right behind the warm-ups, and at the end; the same to the fitted model's own at the end;
KL(truth || model), its ratio to that of the program mask by mask; CPU seconds of a fit. What is in the folder is not
run again.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import make_toy
import numpy as np
import torch
from tables import write
from torch import Tensor

import vgi_cli
from vgi_cli.chains import moves
from vgi_cli.chains.scans import Scan, random_scan
from vgi_cli.conditionals.base import Conditionals
from vgi_cli.methods.vgi import warm_ups
from vgi_cli.ranks import ALONE, Ranks

RECIPE = Path(__file__).parent.parent / "recipes" / "toy-fa.yaml"
UNEVEN = (0.9, 0.7, 0.5, 0.3, 0.15, 0.05)
"""Shares missing of the six columns."""
TABLES = ("3/6", "5/6", "uneven", "wide")
WIDE, FACTORS = 30, 3


def rows_alike(
    q: Conditionals, x: Tensor, missing: Tensor, weight: Tensor, M: int, order: Tensor, ranks: Ranks = ALONE
) -> Tensor:
    """Minus the mean over rows of the mean log q of M observed columns."""
    scan = random_scan(q.blocks(~missing), order, M)
    log_q = torch.where(scan.active, q.law(x, ~missing, scan.j, hidden=True).log_prob(q.at(x, scan.j)), 0.0)
    return -(weight * log_q.sum(1) / scan.active.sum(1).clamp(min=1)).sum()


def independent(q: Conditionals, missing: Tensor, K: int, order: Tensor, G: int, B: int) -> Scan:
    """Each step draws one of a row's holes, whatever was drawn before."""
    holes = q.blocks(missing)
    count = holes.sum(1, keepdim=True)
    rank = (order * count).long().clamp(max=holes.shape[1] - 1)
    j = (holes.cumsum(1)[:, None] <= rank[..., None]).sum(2).clamp(max=holes.shape[1] - 1)
    return Scan(j, (count > 0).expand(-1, order.shape[1]))


def first_steps(scan: Scan, G: int) -> Scan:
    """The steps as they were drawn."""
    return scan


WAYS: dict[str, list[tuple[Any, str, Callable[..., Any]]]] = {
    "as it is": [],
    "rows alike": [(warm_ups, "warm_up_loss", rows_alike)],
    "two columns": [(warm_ups, "scored", lambda S, estimate: 2)],
    "all columns": [(warm_ups, "scored", lambda S, estimate: S)],
    "rows alike, two columns": [
        (warm_ups, "warm_up_loss", rows_alike),
        (warm_ups, "scored", lambda S, estimate: 2),
    ],
    "h updates": [(moves, "repeated", first_steps)],
    "independent": [(moves, "scan_of", independent), (moves, "repeated", first_steps)],
}


def tables(folder: Path, rows: int, masks: int) -> None:
    """Make the tables that are not there."""
    if (folder / f"train-wide-{masks}.parquet").exists():
        return
    make_toy.make(folder, rows, 1000, [3, 5], masks, 7, "parquet")
    complete = make_toy.sample(rows, np.random.default_rng([7, 0]))
    for m in range(1, masks + 1):
        absent = np.random.default_rng([7, 2, m]).random(complete.shape) < UNEVEN
        write(make_toy.NAMES, complete, absent, folder / f"train-uneven-{m}.parquet")

    rng = np.random.default_rng([7, 3])
    names = [f"x{j + 1}" for j in range(WIDE)]
    F, mean, psi = rng.normal(size=(WIDE, FACTORS)), rng.normal(size=WIDE), rng.uniform(0.5, 2.0, WIDE)
    x = rng.normal(size=(rows + 1000, FACTORS)) @ F.T + mean + rng.normal(size=(rows + 1000, WIDE)) * np.sqrt(psi)
    law = {"columns": names, "mean": mean.tolist(), "F": F.tolist(), "psi": psi.tolist()}
    (folder / "wide-law.json").write_text(json.dumps(law))
    write(names, x[rows:], None, folder / "wide-test.parquet")
    for m in range(1, masks + 1):
        absent = np.random.default_rng([7, 4, m]).random((rows, WIDE)) < 0.5
        write(names, x[:rows], absent, folder / f"train-wide-{m}.parquet")


def figures(folder: Path, table: str, m: int, way: str, accept: str) -> dict[str, float]:
    """Fit and measure once."""
    name = f"{table.replace('/6', '')}-{m}"
    kept = folder / f"{name}-{accept}-{way.replace(', ', '-').replace(' ', '-')}.json"
    if kept.exists():
        return json.loads(kept.read_text())
    found: dict[str, float] = {}
    wide = "wide-" if table == "wide" else ""
    factors = FACTORS if wide else 2
    with contextlib.ExitStack() as stack:
        for where, what, instead in WAYS[way]:
            stack.enter_context(mock.patch.object(where, what, instead))
        for stage, epochs in (("warm", 1), ("end", 150)):
            cpu = time.process_time()
            run = vgi_cli.fit(
                folder / f"train-{name}.parquet", model="fa", method="vgi", recipe=RECIPE, epochs=epochs, seed=m,
                set={"model.factors": factors, "method.accept": accept, "bootstrap": "none"}, threads=1, force=True,
                out=folder / "run",
            )  # fmt: skip
            found["cpu"] = time.process_time() - cpu
            report = vgi_cli.evaluate(
                run,
                folder / f"{wide}test.parquet",
                truth_model=folder / f"{wide}law.json",
                conditionals=True,
                threads=1,
                force=True,
            )
            found[f"{stage} q"] = report["conditionals"]["truth"]["kl"]["median"]
            found[f"{stage} q own"] = report["conditionals"]["kl"]["median"]
            found[f"{stage} kl"] = report["truth"]["kl"]
    kept.write_text(json.dumps(found))
    return found


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=1600)
    parser.add_argument("--masks", type=int, default=3)
    parser.add_argument("--tables", nargs="+", default=list(TABLES), choices=TABLES)
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=list(WAYS))
    parser.add_argument("--accept", default="gibbs", choices=("gibbs", "metropolis"))
    args = parser.parse_args()
    tables(args.folder, args.rows, args.masks)
    print(
        f"{'':26s}{'missing':>8s}{'q, warm':>10s}{'q, end':>10s}{'own, end':>10s}{'KL':>10s}{'ratio':>8s}{'CPU s':>8s}"
    )
    for table in args.tables:
        usual = [figures(args.folder, table, m, "as it is", args.accept) for m in range(1, args.masks + 1)]
        for way in args.ways:
            found = [figures(args.folder, table, m, way, args.accept) for m in range(1, args.masks + 1)]
            middle = {key: statistics.median(one[key] for one in found) for key in found[0]}
            ratio = statistics.median(one["end kl"] / two["end kl"] for one, two in zip(found, usual, strict=True))
            shown = "".join(f"{middle[key]:10.5f}" for key in ("warm q", "end q", "end q own", "end kl"))
            print(f"{way:26s}{table:>8s}{shown}{ratio:8.3f}{middle['cpu']:8.1f}", flush=True)


if __name__ == "__main__":
    main()
