"""VGI against EM on FA-Frey: 560 columns, half of the cells missing, how far the fit is from the truth.

    python benchmarks/make_frey.py FACES results/frey --sixths 3 --masks 3
    python benchmarks/fa_frey.py results/frey [--masks 3] [--variants] [--epochs N] [--json FILE]

Fits each table `train-3-M` of the folder by `--method em` and by `recipes/fa-frey.yaml`, one thread each, through the
command line's own functions, and prints KL(truth || model) of both in closed form, their ratio, and CPU seconds; last
the median of the ratios. `--variants` fits the first mask with other scans instead, each for `--epochs` epochs.
Results are kept in the folder: what is there is not fitted again, and a fit that was stopped is resumed.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gaussians import gaussian
from make_frey import FACTORS, Truth

import vgi_cli
from vgi_cli.fitting.fitted import load_run
from vgi_cli.reporting import Silent

RECIPE = Path(__file__).parent.parent / "recipes" / "fa-frey.yaml"
BLOCK: dict[str, Any] = {"method.scan": "block", "method.block_columns": 28, "method.gibbs_steps": 10}
METROPOLIS: dict[str, Any] = {"method.accept": "metropolis"}
VARIANTS: dict[str, dict[str, Any]] = {
    "gibbs, single, 10 a visit": {"method.scan": "step", "method.gibbs_steps": 10},
    "gibbs, 8 together, 10 times": {**BLOCK, "method.block_columns": 8},
    "gibbs, 28 together, 3 times": {**BLOCK, "method.gibbs_steps": 3},
    "gibbs, 28 together, 10 times": BLOCK,
    "gibbs, 70 together, 4 times": {**BLOCK, "method.block_columns": 70, "method.gibbs_steps": 4},
    "metropolis, single, 10 a visit": {**METROPOLIS, "method.scan": "step", "method.gibbs_steps": 10},
    "metropolis, 8 together, 10 times": {**METROPOLIS, **BLOCK, "method.block_columns": 8},
    "metropolis, 28 together, 10 times": {**METROPOLIS, **BLOCK},
}


def divergence(run: Path, truth: Truth) -> float:
    """KL(truth || fitted model), nats, in the units of the data."""
    return truth.divergence(*gaussian(load_run(run, Silent())))


def fit(folder: Path, mask: int, method: str, name: str, settings: Mapping[str, Any], recipe: Path | None) -> Any:
    """Fit once and keep the figures beside the run."""
    kept = folder / "results" / f"{mask}-{name}.json"
    if kept.exists():
        return json.loads(kept.read_text())
    run = folder / "runs" / f"{mask}-{name}"
    run.parent.mkdir(exist_ok=True)
    started, cpu = time.perf_counter(), time.process_time()
    vgi_cli.fit(
        folder / f"train-3-{mask}.parquet",
        model="fa",
        method=method,
        recipe=recipe,
        set={"model.factors": FACTORS, "bootstrap": "none", **settings},
        out=run,
        resume=(run / "manifest.json").exists(),
        threads=1,
    )
    result = {
        "mask": mask,
        "name": name,
        "seconds": time.perf_counter() - started,
        "cpu": time.process_time() - cpu,
        "kl": divergence(run, Truth.load(folder / "truth.json")),
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


def main(argv: Sequence[str] | None = None) -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--masks", type=int, default=3)
    parser.add_argument("--variants", nargs="*", choices=list(VARIANTS), metavar="NAME", help="none: all of them")
    parser.add_argument("--epochs", type=int, default=6, help="of each variant")
    parser.add_argument("--json", type=Path, metavar="FILE")
    given = parser.parse_args(argv)
    lines = []
    if given.variants is not None:
        print("| scan | epochs | KL | accepted | CPU s |\n|---|---:|---:|---:|---:|")
        for name in given.variants or VARIANTS:
            settings = {**VARIANTS[name], "optim.average": 0, "optim.schedule": "constant", "epochs": given.epochs}
            label = f"{name} {given.epochs}".replace(", ", "-").replace(" ", "_")
            one = fit(given.folder, 1, "vgi", label, settings, RECIPE)
            share = "" if one["acceptance"] is None else f"{one['acceptance']:.3f}"
            print(f"| {name} | {given.epochs} | {one['kl']:.1f} | {share} | {one['cpu']:.0f} |", flush=True)
            lines.append(one)
    else:
        print("| mask | KL, EM | KL, VGI | ratio | CPU s, EM | CPU s, VGI |\n|---:|---:|---:|---:|---:|---:|")
        for mask in range(1, given.masks + 1):
            em = fit(given.folder, mask, "em", "em", {}, None)
            ours = fit(given.folder, mask, "vgi", "vgi", {}, RECIPE)
            ratio = ours["kl"] / em["kl"]
            line = f"| {mask} | {em['kl']:.2f} | {ours['kl']:.2f} | {ratio:.2f} | {em['cpu']:.0f} | {ours['cpu']:.0f} |"
            print(line, flush=True)
            lines.append({"mask": mask, "em": em, "vgi": ours, "ratio": ratio})
        print(f"median of the ratios: {statistics.median(line['ratio'] for line in lines):.2f}")
    if given.json:
        given.json.write_text(json.dumps(lines, indent=1))


if __name__ == "__main__":
    main()
