"""What a step of EM costs where a column of many groups shifts the numbers within the clusters of a mixture.

    python benchmarks/group_steps.py [--cases 200x40x2000x4 …] [--steps 3]

A case is groups x numbers x rows x clusters. Simulated rows: the numbers of a group have a mean of their own; a tenth
of the numbers is missing, no group is. Printed are the seconds of a step (the median; the first, in which loops may be
compiled, is left out) and the peak memory of the process. For the figures of another version put it on PYTHONPATH.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch

from vgi_cli.layout import Layout
from vgi_cli.models.gaussian.family import em_table
from vgi_cli.models.gaussian.mixture import GaussianMixture, MixtureConfig


def step_seconds(groups: int, numbers: int, rows: int, clusters: int, steps: int) -> float:
    """The median over some steps."""
    generator = torch.Generator().manual_seed(0)
    group = torch.arange(rows) % groups
    means = torch.randn(groups, numbers, generator=generator, dtype=torch.float64)
    noise = torch.randn(rows, numbers, generator=generator, dtype=torch.float64)
    x = torch.cat([means[group] + noise, group[:, None].double()], 1)
    missing = torch.rand(x.shape, generator=generator) < 0.1
    missing[:, -1] = False
    layout = Layout.of([f"c{i}" for i in range(numbers + 1)], levels=(0,) * numbers + (groups,))
    config = MixtureConfig(components=clusters, covariance="full", outliers=True, dependence="linear")
    model = GaussianMixture.build(config, layout).double()
    model.initialise(x, torch.Generator().manual_seed(2))
    table, penalty, taken = em_table(x, missing), model.penalty(None, 1e-3), []
    for _ in range(steps + 1):
        started = time.perf_counter()
        model.em_step(table, penalty)
        taken.append(time.perf_counter() - started)
    return statistics.median(taken[1:])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    usual = ["40x6x2000x10", "200x5x2000x10", "50x40x2000x4", "200x20x1000x4", "200x40x2000x4"]
    parser.add_argument("--cases", nargs="+", default=usual, help="groups x numbers x rows x clusters")
    parser.add_argument("--steps", type=int, default=3)
    args = parser.parse_args()
    torch.set_num_threads(1)
    print("| groups | numbers | rows | clusters | seconds a step | peak, MB |")
    print("|--:|--:|--:|--:|--:|--:|")
    for case in args.cases:
        sizes = [int(part) for part in case.split("x")]
        seconds = step_seconds(sizes[0], sizes[1], sizes[2], sizes[3], args.steps)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        print(f"| {' | '.join(map(str, sizes))} | {seconds:.3f} | {peak:,} |", flush=True)


if __name__ == "__main__":
    main()
