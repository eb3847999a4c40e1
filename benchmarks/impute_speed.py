"""`vgi impute` against its own sampler: cells per second, and peak memory for several numbers of rows.

    python benchmarks/impute_speed.py [--rows 100000] [--draws 5] [--model flow|fa] [--memory 10000 40000] [--json FILE]
                                      [--trained]

Simulated rows of 43 columns, half of the cells missing. A model is fitted for a moment on 600 of them, so that there is
a run folder: a flow of the size that the paper takes for MINIBOONE (10 coupling steps, 32 hidden units, 4 bins) with
spline conditionals, or a factor analysis. `--trained` fits the flow to 4,000 rows for 25 epochs with its usual
warm-ups, so that it departs from a mixture of Gaussians as far as flows do. Then, on other rows and one thread:

- pure: the sampler alone, in this process, on rows that are encoded already, nothing decoded or written;
- impute: the whole command in a process of its own, start-up, reading, checking and writing included, and its peak
  memory (VmHWM of Linux).

Seconds are CPU seconds. `--memory` imputes further numbers of rows by the command with `--memory-model` (a factor
analysis: a flow needs hours), for the peak only.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from vgi_cli import fit
from vgi_cli.commands.requests import ImputeRequest
from vgi_cli.commands.samplers import make_imputer
from vgi_cli.encoding.encoder import box
from vgi_cli.fitting.fitted import load_run
from vgi_cli.fitting.rows import rows_of
from vgi_cli.machine.work import Work
from vgi_cli.maths.noise import KeyedNoise
from vgi_cli.reporting import Silent
from vgi_cli.samplers.base import Box, impute
from vgi_cli.table.reader import read_table

D, FACTORS = 43, 8
FLOW = {
    "model.steps": 10,
    "model.hidden": 32,
    "model.bins": 4,
    "method.kernel": "extended",
    "method.conditional": "spline",
    "method.spline_steps": 3,
    "method.trunk": [256, 128],
    "method.hidden": [32, 32],
    "optim.warmup_conditionals": 1,
    "optim.warmup_model": 1,
    "bootstrap": "none",
}
SETTINGS: dict[str, dict[str, Any]] = {"flow": FLOW, "fa": {"model.factors": FACTORS, "bootstrap": "none"}}
PROGRAM = """
import sys
from vgi_cli.cli.app import main

code = main(sys.argv[1:])
print("peak", next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1])
sys.exit(code)
"""


def simulate(path: Path, rows: int, seed: int) -> Path:
    """Bent factors with heavy-tailed noise, half of the cells missing, to five decimals."""
    loadings = np.random.default_rng(0).normal(size=(FACTORS, D))
    rng = np.random.default_rng(seed)
    with path.open("w") as file:
        file.write(",".join(f"x{i}" for i in range(D)) + "\n")
        for start in range(0, rows, 10_000):
            n = min(10_000, rows - start)
            x = np.tanh(rng.normal(size=(n, FACTORS))) @ loadings + 0.5 * rng.standard_t(5, size=(n, D))
            cells = np.round(x, 5).astype(str)
            cells[rng.random(x.shape) < 0.5] = ""
            file.writelines(",".join(row) + "\n" for row in cells)
    return path


def make_run(folder: Path, model: str, trained: bool = False) -> Path:
    """A run folder after a fit of a moment, or one of a flow that was `trained`."""
    method = "vgi" if model == "flow" else "em"
    settings, epochs, rows = SETTINGS[model], 3 if model == "flow" else None, 600
    if trained:
        settings = {key: value for key, value in settings.items() if not key.startswith("optim.")}
        epochs, rows = 25, 4_000
    data = simulate(folder / "fit.csv", rows, 1)
    fit(data, model=model, method=method, set=settings, epochs=epochs, threads=1, out=folder / model)
    return folder / model


def pure(run: Path, data: Path, draws: int) -> float:
    """CPU seconds of the sampler alone."""
    torch.set_num_threads(1)
    fitted = load_run(run, Silent())
    asked = ImputeRequest(checkpoint=run, settings={}, m=draws, uncertainty="none")
    imputer, dtype = make_imputer(fitted, asked, torch.device("cpu"), Work())
    rows = rows_of(read_table([data]), fitted.schema, fitted.recipe.seed)
    ranges = box(fitted.schema)
    x, inside = rows.table.x.to(dtype), Box(ranges.low.to(dtype), ranges.high.to(dtype))
    noise = KeyedNoise(0, fitted.schema.modelled, rows.keys, torch.arange(draws))
    started = time.process_time()
    impute(imputer, x, rows.table.missing, noise, inside)
    return time.process_time() - started


def command(run: Path, data: Path, draws: int) -> tuple[float, float]:
    """CPU seconds and peak memory (MiB) of the command."""
    out = data.with_name("out.csv")
    arguments = ["impute", "--checkpoint", run, data, "--m", draws, "--threads", 1, "-o", out, "--force", "-q"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    program = [sys.executable, "-c", PROGRAM, *map(str, arguments)]
    done = subprocess.run(program, capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, int(done.stdout.split()[-1]) / 1024


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--model", choices=SETTINGS, default="flow")
    parser.add_argument("--memory", type=int, nargs="*", default=[10_000, 40_000])
    parser.add_argument("--memory-model", choices=SETTINGS, default="fa")
    parser.add_argument("--trained", action="store_true", help="the flow")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    results: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run = make_run(folder, options.model, options.trained and options.model == "flow")
        data = simulate(folder / "data.csv", options.rows, 2)
        cells = _holes(data) * options.draws
        alone = pure(run, data, options.draws)
        whole, peak = command(run, data, options.draws)
        results.append({"model": options.model, "rows": options.rows, "pure_s": alone, "impute_s": whole, "MiB": peak})
        print(f"{options.model}, {options.rows} rows x {options.draws} draws, {cells} filled cells")
        print("| | CPU s | cells/s |\n|---|---:|---:|")
        print(f"| pure sampler | {alone:.1f} | {cells / alone:.0f} |")
        print(f"| vgi impute | {whole:.1f} | {cells / whole:.0f} |")
        print(f"ratio {whole / alone:.2f}\n")
        print("| model | rows | CPU s | peak MiB |\n|---|---:|---:|---:|")
        print(f"| {options.model} | {options.rows} | {whole:.1f} | {peak:.0f} |")
        if options.memory and options.memory_model != options.model:
            run = make_run(folder, options.memory_model)
        for rows in options.memory:
            seconds, peak = command(run, simulate(folder / "data.csv", rows, 3), options.draws)
            results.append({"model": options.memory_model, "rows": rows, "impute_s": seconds, "MiB": peak})
            print(f"| {options.memory_model} | {rows} | {seconds:.1f} | {peak:.0f} |", flush=True)
    if options.json is not None:
        settings = {"draws": options.draws, "columns": D, "torch": torch.__version__}
        options.json.write_text(json.dumps({**settings, "results": results}, indent=1) + "\n")


def _holes(data: Path) -> int:
    """Number of missing cells of a table without quotes."""
    table = read_table([data])
    return int(sum(table.missing(column).sum() for column in table.names))


if __name__ == "__main__":
    main()
