"""How fast are steps of EM, by compiled loops beside torch?

    python benchmarks/em_steps.py [--repeats 20] [--fits TABLE …] [--first-use]

A step of a mixture of Gaussians (`full` covariances, or some factors) or of tables of levels on simulated rows with
holes at random, in float64: both ways in turn in one process, medians of milliseconds. `--fits`: CPU seconds of `vgi
fit TABLE` with its defaults on one thread, with VGI_FAST=0 and without, in turn, each in a process of its own.
`--first-use`: CPU seconds until all loops of EM are there, in a process that has to compile them and in later ones,
which load them.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile

import torch
from splines import medians
from torch import Tensor

from vgi_cli.layout import Layout
from vgi_cli.machine.device import set_threads
from vgi_cli.maths import compiled
from vgi_cli.models.gaussian.family import em_table
from vgi_cli.models.gaussian.mixture import GaussianMixture, MixtureConfig

SHAPES = [  # rows, columns, factors (None: full covariances), components, share of holes
    (400, 6, None, 3, 0.3),
    (1_000, 10, None, 1, 0.3),
    (1_000, 10, None, 8, 0.3),
    (1_500, 12, None, 12, 0.5),
    (500, 30, None, 3, 0.5),
    (500, 30, None, 3, 0.8),
    (30_000, 10, None, 8, 0.3),
    (6_000, 10, 3, 1, 0.3),
    (1_500, 12, 3, 8, 0.5),
]
LEVELS = [  # rows, levels of each column, components, share of holes
    (400, (3, 3, 2), 3, 0.3),
    (1_000, (2, 4, 12, 7, 2, 24, 3), 8, 0.3),
]
FIT = """
import sys, time
import vgi_cli, vgi_cli.fitting.fit_rows
began = time.process_time()
vgi_cli.fit(sys.argv[1], out=sys.argv[2], seed=1, threads=1)
print(f"{time.process_time() - began:.1f}")
"""
LOADED = """
import time
from typing import get_args
from vgi_cli.maths import compiled
began = time.process_time()
for loop in get_args(compiled.Loop):
    if loop not in ("splines", "keep"):
        compiled.kernel(loop)
print(f"{time.process_time() - began:.2f}")
"""
LATER = 5


def rows(R: int, columns: int, levels: tuple[int, ...], share: float) -> tuple[Tensor, Tensor]:
    """Numbers that go together, then levels, and which cells are missing."""
    generator = torch.Generator().manual_seed(0)
    D = columns + len(levels)
    factor = torch.randn(R, 2, dtype=torch.float64, generator=generator)
    loadings = torch.randn(2, D, dtype=torch.float64, generator=generator)
    x = factor @ loadings + 0.5 * torch.randn(R, D, dtype=torch.float64, generator=generator)
    for i, n in enumerate(levels, columns):
        x[:, i] = (torch.sigmoid(x[:, i]) * n).floor()
    return x, torch.rand(R, D, generator=generator) < share


def step(config: MixtureConfig, columns: int, levels: tuple[int, ...], R: int, share: float, repeats: int) -> str:
    """A line of the table, without its name."""
    layout = Layout.of(map(str, range(columns + len(levels))), levels=(0,) * columns + levels)
    x, missing = rows(R, columns, levels, share)
    model = GaussianMixture.build(config, layout).double()
    model.initialise(x, torch.Generator().manual_seed(1))
    table, penalty = em_table(x, missing), model.penalty(None, 1e-3)

    def work() -> None:
        model.em_step(table, penalty)

    by_torch, by_loops = medians(work, repeats)
    return f"{by_torch:.2f} | {by_loops:.2f} | {by_loops / by_torch:.2f} |"


def fit(table: str, switch: str) -> float:
    """CPU seconds of a fit."""
    with tempfile.TemporaryDirectory() as folder:
        return seconds(FIT, table, os.path.join(folder, "run"), VGI_FAST=switch, OMP_NUM_THREADS="1")


def first_use() -> str:
    """CPU seconds of a process that compiles the loops, and the median of later ones."""
    with tempfile.TemporaryDirectory() as folder:
        first, *later = (seconds(LOADED, NUMBA_CACHE_DIR=folder) for _ in range(1 + LATER))
    return f"loops of EM: compiled in {first:.1f} CPU s, then loaded in {statistics.median(later):.2f}"


def seconds(program: str, *arguments: str, **environment: str) -> float:
    """What a program in a process of its own prints."""
    command = [sys.executable, "-W", "ignore", "-c", program, *arguments]
    ran = subprocess.run(command, env={**os.environ, **environment}, check=True, capture_output=True, text=True)
    return float(ran.stdout)


def main() -> None:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--fits", nargs="*", default=[], metavar="TABLE")
    parser.add_argument("--first-use", action="store_true")
    args = parser.parse_args()
    if compiled.kernel("rows") is None:
        sys.exit("nothing to compare: numba is not installed, or VGI_FAST=0")
    set_threads(1)
    print("| step of EM | rows | columns | components | missing | torch, ms | compiled, ms | ratio |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for R, D, L, K, share in SHAPES:
        covariance = "full" if L is None else "factor"
        config = MixtureConfig(components=K, covariance=covariance, factors=L, outliers=True)
        name = "full covariances" if L is None else f"{L} factors"
        print(f"| {name} | {R:,} | {D} | {K} + 2 | {share:.0%} | {step(config, D, (), R, share, args.repeats)}")
    for R, levels, K, share in LEVELS:
        config = MixtureConfig(components=K, outliers=True)
        name = f"levels {', '.join(map(str, levels))}"
        timed = step(config, 0, levels, R, share, args.repeats)
        print(f"| {name} | {R:,} | {len(levels)} | {K} + 1 | {share:.0%} | {timed}")
    if args.fits:
        print("\n| vgi fit | torch, CPU s | compiled, CPU s | ratio |\n|---|---:|---:|---:|")
    for table in args.fits:
        by_torch, by_loops = fit(table, "0"), fit(table, "1")
        print(f"| {table} | {by_torch:.1f} | {by_loops:.1f} | {by_loops / by_torch:.2f} |", flush=True)
    if args.first_use:
        print(first_use())


if __name__ == "__main__":
    main()
