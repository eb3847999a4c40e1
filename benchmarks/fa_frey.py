"""VGI against EM on FA-Frey: 560 columns, half of the cells or more missing, how far the fit is from the truth.

    python benchmarks/make_frey.py FACES results/frey --sixths 3 5 --masks 3
    python benchmarks/fa_frey.py results/frey [--sixths 3 5] [--masks 1 2 3] [--json FILE]
    python benchmarks/fa_frey.py results/frey --roads [NAME ...] [--sixths 3 5] [--masks 1] [--epochs N]
    python benchmarks/fa_frey.py results/frey --variants [NAME ...] [--epochs N]

Fits each table `train-K-M` of the folder by `--method em` and by `recipes/fa-frey.yaml`, one thread each, through the
command line's own functions, and prints KL(truth || model) of both in closed form, their ratio, and CPU seconds; last
the median of the ratios at each fraction. `--roads` fits the tables with one thing after the other changed that stands
between the recipe and the one before it, and by exact draws, which tell what is the optimiser's and what the
conditionals'. `--variants` fits them with other scans, each for `--epochs` epochs at a constant rate. Results are kept
in the folder: what is there is not fitted again, and a fit that was stopped is resumed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from gaussians import gaussian
from make_frey import FACTORS, Truth
from tables import SIXTHS

import vgi_cli
from vgi_cli.fitting.fitted import load_run
from vgi_cli.reporting import Silent

RECIPE = Path(__file__).parent.parent / "recipes" / "fa-frey.yaml"
FORMER: dict[str, Any] = {
    "method.imputations": 2,
    "method.gibbs_steps": 5,
    "method.accept": "gibbs",
    "method.scan": "block",
    "method.block_columns": 28,
    "method.gradient": "accepted",
    "method.kernel": "extended",
    "method.layout": "modulated",
    "optim.lr": 0.05,
    "optim.lr_conditionals": 0.005,
    "optim.batch_size": 128,
    "optim.warmup_conditionals": 5,
    "optim.warmup_model": 1,
    "optim.average": 0.2,
}
"""The recipe before this one: uncorrected blocks from the columns' marginals, at high rates."""
BLOCK: dict[str, Any] = {**FORMER, "method.gibbs_steps": 10}
METROPOLIS: dict[str, Any] = {**BLOCK, "method.accept": "metropolis"}
VARIANTS: dict[str, dict[str, Any]] = {
    "gibbs, single, 10 a visit": {**BLOCK, "method.scan": "step"},
    "gibbs, 8 together, 10 times": {**BLOCK, "method.block_columns": 8},
    "gibbs, 28 together, 3 times": {**BLOCK, "method.gibbs_steps": 3},
    "gibbs, 28 together, 10 times": BLOCK,
    "gibbs, 70 together, 4 times": {**BLOCK, "method.block_columns": 70, "method.gibbs_steps": 4},
    "metropolis, single, 10 a visit": {**METROPOLIS, "method.scan": "step"},
    "metropolis, 8 together, 10 times": {**METROPOLIS, "method.block_columns": 8},
    "metropolis, 28 together, 10 times": METROPOLIS,
}
CONSTANT: dict[str, Any] = {"optim.average": 0, "optim.schedule": "constant"}
EXACT: dict[str, Any] = {"method.imputations": 2, "optim.batch_size": 128, "optim.average": 0.2}
SLOW = {**FORMER, "optim.lr": 0.02}
FROM_EM = {**SLOW, "method.initial": "em"}
CAREFUL = {**FROM_EM, "optim.lr_conditionals": 0.002, "optim.warmup_conditionals": 10}
CORRECTED = {**CAREFUL, "method.accept": "metropolis", "method.block_columns": 14, "method.gibbs_steps": 10}
ROADS: dict[str, tuple[str, dict[str, Any]]] = {
    "exact draws, rate 0.05": ("mcem", {**EXACT, "optim.lr": 0.05}),
    "exact draws, rate 0.02": ("mcem", {**EXACT, "optim.lr": 0.02}),
    "exact draws, rate 0.01": ("mcem", {**EXACT, "optim.lr": 0.01}),
    "former": ("vgi", FORMER),
    "rate 0.02": ("vgi", SLOW),
    "f0 em": ("vgi", FROM_EM),
    "f0 em, conditionals 0.02": ("vgi", {**FROM_EM, "optim.lr_conditionals": 0.02}),
    "f0 em, conditionals 0.002": ("vgi", CAREFUL),
    "f0 em, conditionals 0.001": ("vgi", {**CAREFUL, "optim.lr_conditionals": 0.001}),
    "f0 em, conditionals 0.002, standard kernel": ("vgi", {**CAREFUL, "method.kernel": "standard"}),
    "f0 em, conditionals 0.002, metropolis": ("vgi", CORRECTED),
    "f0 em, conditionals 0.002, metropolis, rate 0.01": ("vgi", {**CORRECTED, "optim.lr": 0.01}),
    "conditionals 0.002, metropolis, rate 0.01": (
        "vgi",
        {**CORRECTED, "optim.lr": 0.01, "method.initial": "empirical"},
    ),
}
"""Method and settings; `--epochs` says how long."""


class Table(NamedTuple):
    """`train-sixths-mask` of a folder."""

    folder: Path
    sixths: int
    mask: int


def divergence(run: Path, truth: Truth) -> float:
    """KL(truth || fitted model), nats, in the units of the data."""
    return truth.divergence(*gaussian(load_run(run, Silent())))


def fit(table: Table, method: str, name: str, settings: Mapping[str, Any], recipe: Path | None) -> Any:
    """Fit once and keep the figures beside the run."""
    stem = f"{table.sixths}-{table.mask}-{name}"
    kept = table.folder / "results" / f"{stem}.json"
    if kept.exists():
        return json.loads(kept.read_text())
    run = table.folder / "runs" / stem
    run.parent.mkdir(exist_ok=True)
    started, cpu = time.perf_counter(), time.process_time()
    vgi_cli.fit(
        table.folder / f"train-{table.sixths}-{table.mask}.parquet",
        model="fa",
        method=method,
        recipe=recipe,
        set={"model.factors": FACTORS, "bootstrap": "none", **settings},
        out=run,
        resume=(run / "manifest.json").exists(),
        threads=1,
    )
    result = {
        "sixths": table.sixths,
        "mask": table.mask,
        "name": name,
        "seconds": time.perf_counter() - started,
        "cpu": time.process_time() - cpu,
        "kl": divergence(run, Truth.load(table.folder / "truth.json")),
        "acceptance": acceptance(run),
    }
    kept.parent.mkdir(exist_ok=True)
    kept.write_text(json.dumps(result))
    return result


def acceptance(run: Path) -> float | None:
    """Mean share of accepted updates in the last epoch."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    shares = [line["acceptance"] for line in lines if line.get("acceptance")]
    return statistics.mean(s for s in shares[-1] if s is not None) if shares else None


def compare(tables: Sequence[Table]) -> list[Any]:
    """EM and the recipe on each table, printed."""
    lines: list[Any] = []
    print("| sixths | mask | KL, EM | KL, VGI | ratio | CPU s, EM | CPU s, VGI |\n" + "|---:" * 7 + "|")
    for table in tables:
        em = fit(table, "em", "em", {}, None)
        ours = fit(table, "vgi", "vgi", {}, RECIPE)
        ratio = ours["kl"] / em["kl"]
        figures = f"{em['kl']:.2f} | {ours['kl']:.2f} | {ratio:.2f} | {em['cpu']:.0f} | {ours['cpu']:.0f}"
        print(f"| {table.sixths} | {table.mask} | {figures} |", flush=True)
        lines.append({"sixths": table.sixths, "mask": table.mask, "em": em, "vgi": ours, "ratio": ratio})
    for k in sorted({table.sixths for table in tables}):
        middle = statistics.median(line["ratio"] for line in lines if line["sixths"] == k)
        print(f"median of the ratios at {k}/6: {middle:.2f}")
    return lines


def trials(tables: Sequence[Table], ways: Mapping[str, tuple[str, dict[str, Any]]], epochs: int) -> list[Any]:
    """Each way on each table for so many epochs, printed."""
    lines = []
    print("| way | sixths | mask | epochs | KL | accepted | CPU s |\n" + "|---" + "|---:" * 6 + "|")
    for name, (method, settings) in ways.items():
        for table in tables:
            label = f"{name} {epochs}".replace(", ", "-").replace(" ", "_")
            one = fit(table, method, label, {**settings, "epochs": epochs}, None)
            share = "" if one["acceptance"] is None else f"{one['acceptance']:.3f}"
            where = f"{table.sixths} | {table.mask} | {epochs}"
            print(f"| {name} | {where} | {one['kl']:.1f} | {share} | {one['cpu']:.0f} |", flush=True)
            lines.append(one)
    return lines


def main(argv: Sequence[str] | None = None) -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sixths", type=int, nargs="+", default=[3], choices=SIXTHS)
    parser.add_argument("--masks", type=int, nargs="+", help="numbers; without it 1 2 3, of trials 1")
    parser.add_argument("--variants", nargs="*", choices=list(VARIANTS), metavar="NAME", help="none: all of them")
    parser.add_argument("--roads", nargs="*", choices=list(ROADS), metavar="NAME", help="none: all of them")
    parser.add_argument("--epochs", type=int, default=6, help="of each variant and road")
    parser.add_argument("--json", type=Path, metavar="FILE")
    given = parser.parse_args(argv)
    ways = {name: ROADS[name] for name in ([] if given.roads is None else given.roads or ROADS)}
    if given.variants is not None:
        ways |= {name: ("vgi", {**VARIANTS[name], **CONSTANT}) for name in given.variants or VARIANTS}
    masks = given.masks or ([1] if ways else [1, 2, 3])
    tables = [Table(given.folder, k, m) for k in given.sixths for m in masks]
    lines = trials(tables, ways, given.epochs) if ways else compare(tables)
    if given.json:
        given.json.write_text(json.dumps(lines, indent=1))


if __name__ == "__main__":
    main()
