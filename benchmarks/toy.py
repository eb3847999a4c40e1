"""VGI against EM on the toy factor-analysis model: how much accuracy the variational method costs.

    python benchmarks/toy.py WORK_FOLDER [--masks 5] [--variants] [--plain] [--json FILE]

Makes the tables of `make_toy.py` in the folder, fits each with `recipes/toy-fa.yaml` by `--method vgi` and by
`--method em`, through the command line's own functions, and prints for each fraction missing the medians over masks of
KL(truth || model) of both, of their ratio mask by mask, and of the gap of the observed-data log-likelihood to EM's
(nats a row; positive: below EM). `--variants` adds the other combinations of acceptance, kernel and layout on the first
mask of each fraction; `--plain` runs both methods without a recipe at 1/2 missing and compares what each loses in
log-likelihood of complete test rows against the truth. Results are kept in the folder: what is there is not run again.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import time
from pathlib import Path
from typing import Any

import make_toy
import numpy as np
import torch
from gaussians import divergence, gaussian

import vgi_cli
from vgi_cli.encoding.encoder import encode, log_volume
from vgi_cli.fitting.fitted import FittedTable, load_run
from vgi_cli.reporting import Silent
from vgi_cli.table.reader import read_table

RECIPE = Path(__file__).parent.parent / "recipes" / "toy-fa.yaml"
VARIANTS = {
    f"{accept}, {kernel}, {layout}": {"method.accept": accept, "method.kernel": kernel, "method.layout": layout}
    for accept, kernel, layout in itertools.product(
        ("metropolis", "gibbs"), ("standard", "extended"), ("independent", "shared")
    )
}


def mean_log_prob(mean: np.ndarray, covariance: np.ndarray, x: np.ndarray) -> float:
    """Mean over complete rows of the Gaussian log-density."""
    lower = np.linalg.cholesky(covariance)
    white = np.linalg.solve(lower, (x - mean).T)
    return float(-0.5 * (white**2).sum(0).mean() - np.log(np.diag(lower)).sum() - 0.5 * x.shape[1] * np.log(2 * np.pi))


def observed_loglik(fitted: FittedTable, table: Path) -> float:
    """Mean over rows of log p(x_obs) in data units on the table that was fitted."""
    x, missing, *_ = encode(read_table([table]), fitted.schema, seed=0).table
    with torch.no_grad():
        values = fitted.model.double().marginal_log_prob(x, missing) + log_volume(missing, x, fitted.schema)
    return float(values[~missing.all(1)].mean())


def fit(
    folder: Path, table: Path, method: str, name: str, settings: dict[str, str], recipe: Path | None
) -> dict[str, Any]:
    """Fit once and keep the figures beside the run."""
    kept = folder / "results" / f"{table.stem}-{name}.json"
    if kept.exists():
        return json.loads(kept.read_text())
    run = folder / "runs" / f"{table.stem}-{name}"
    run.parent.mkdir(exist_ok=True)
    chosen = {"model.factors": 2, **settings}
    started, cpu = time.perf_counter(), time.process_time()
    vgi_cli.fit(table, model="fa", method=method, recipe=recipe, set=chosen, out=run, force=True, threads=1)
    result = {"seconds": time.perf_counter() - started, "cpu": time.process_time() - cpu}
    fitted = load_run(run, Silent())
    mean, covariance = gaussian(fitted)
    test = read_table([folder / "test.parquet"])
    x = np.stack([test.numeric(column) for column in make_toy.NAMES], 1)
    result |= {
        "kl": divergence(make_toy.MEAN, make_toy.covariance(), mean, covariance),
        "loglik": observed_loglik(fitted, table),
        "loses": make_toy.mean_log_prob(x) - mean_log_prob(mean, covariance, x),
    }
    kept.parent.mkdir(exist_ok=True)
    kept.write_text(json.dumps(result))
    return result


def row(label: str, fraction: int, ours: list[dict[str, Any]], em: list[dict[str, Any]]) -> dict[str, Any]:
    """Print one line: medians over masks."""
    middle = statistics.median
    line = {
        "method": label,
        "missing": f"{fraction}/6",
        "kl": middle(r["kl"] for r in ours),
        "kl_em": middle(r["kl"] for r in em),
        "ratio": middle(a["kl"] / b["kl"] for a, b in zip(ours, em, strict=True)),
        "gap": middle(b["loglik"] - a["loglik"] for a, b in zip(ours, em, strict=True)),
        "seconds": middle(r["cpu"] for r in ours),
    }
    print(
        f"{label:34s} {line['missing']:>7s} {line['kl']:9.5f} {line['kl_em']:9.5f} {line['ratio']:6.2f} "
        f"{line['gap']:10.6f} {line['seconds']:6.1f}",
        flush=True,
    )
    return line


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--masks", type=int, default=5)
    parser.add_argument("--variants", action="store_true")
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--json", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    folder: Path = arguments.folder
    if not (folder / "truth.json").exists():
        make_toy.main([str(folder)])
    lines = []
    print(f"{'method':34s} {'missing':>7s} {'KL':>9s} {'KL of EM':>9s} {'ratio':>6s} {'gap':>10s} {'CPU s':>6s}")
    em: dict[int, list[dict[str, Any]]] = {}
    for k in make_toy.SIXTHS:
        tables = [folder / f"train-{k}-{m}.parquet" for m in range(1, arguments.masks + 1)]
        em[k] = [fit(folder, table, "em", "em", {}, None) for table in tables]
        ours = [fit(folder, table, "vgi", "vgi", {}, RECIPE) for table in tables]
        lines.append(row("vgi, recipes/toy-fa.yaml", k, ours, em[k]))
    if arguments.variants:
        for name, settings in VARIANTS.items():
            for k in make_toy.SIXTHS:
                one = fit(folder, folder / f"train-{k}-1.parquet", "vgi", name.replace(", ", "-"), settings, RECIPE)
                lines.append(row(name, k, [one], em[k][:1]))
    if arguments.plain:
        for m in range(1, arguments.masks + 1):
            table = folder / f"train-3-{m}.parquet"
            one, best = fit(folder, table, "vgi", "plain", {}, None), em[3][m - 1]
            line = {"mask": m, "loses": one["loses"], "em": best["loses"], "seconds": one["seconds"]}
            lines.append(line)
            print(
                f"no recipe, 3/6, mask {m}: vgi loses {one['loses']:.5f} nats a test row, em {best['loses']:.5f}: "
                f"{one['loses'] / best['loses']:.2f} times, {one['seconds']:.0f} s",
                flush=True,
            )
    if arguments.json:
        arguments.json.write_text(json.dumps(lines, indent=1))


if __name__ == "__main__":
    main()
