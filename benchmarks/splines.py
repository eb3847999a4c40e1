"""How fast are splines, as compiled loops beside torch?

    python benchmarks/splines.py [--repeats 60] [--first-use]

Element-wise rational-quadratic splines (`vgi_cli/maths/splines.py`), float32, in the shapes in which flows and
conditionals call them. Both ways in turn, medians of milliseconds; `+ backward` has the gradients in the argument and
the parameters too. `--first-use`: seconds until the loops are there, compiled and then loaded from the cache.
"""

from __future__ import annotations

import argparse
import functools
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from vgi_cli.machine.device import set_threads
from vgi_cli.maths import compiled
from vgi_cli.maths.splines import packed_rational_quadratic

SHAPES = {  # of x, of what follows the parameters, bins
    "moved half of (c)": ((21, 1280), (21, 1280), 4),
    "kept half of (c)": ((22, 1280), (22, 1), 4),
    "moved half of (d)": ((3, 5120), (3, 5120), 8),
    "kept half of (d)": ((3, 5120), (3, 1), 8),
    "conditional, one column": ((1280,), (1280,), 4),
}
FIRST_USE = """
import time, torch
from vgi_cli.maths import compiled
began = time.process_time()
compiled.kernel("splines")
print(f"{time.process_time() - began:.2f}")
"""


def forward(x: Tensor, parameters: Tensor, inverse: bool) -> None:
    """Values and log slopes."""
    with torch.no_grad():
        packed_rational_quadratic(x, parameters, bound=3.0, inverse=inverse)


def backward(x: Tensor, parameters: Tensor, inverse: bool) -> None:
    """The same, and the gradients of their sum."""
    y, log_slope = packed_rational_quadratic(x, parameters, bound=3.0, inverse=inverse)
    torch.autograd.grad((y, log_slope), (x, parameters), (torch.ones_like(y), torch.ones_like(y)))


def medians(work: Callable[[], None], repeats: int) -> tuple[float, float]:
    """Milliseconds by torch and by compiled loops, in turn."""
    times: tuple[list[float], list[float]] = ([], [])
    original: Callable[..., Any] = compiled.kernel
    try:
        for repeat in range(repeats + 3):
            for way, spent in zip((lambda name: None, original), times, strict=True):
                compiled.kernel = way  # type: ignore[assignment]
                began = time.perf_counter()
                work()
                if repeat >= 3:
                    spent.append(1e3 * (time.perf_counter() - began))
    finally:
        compiled.kernel = original
    return statistics.median(times[0]), statistics.median(times[1])


def first_use() -> None:
    """CPU seconds of the first use with an empty cache, and of the next."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
        run = functools.partial(subprocess.run, check=True, capture_output=True, text=True, env=environment)
        seconds = [run([sys.executable, "-c", FIRST_USE]).stdout.strip() for _ in range(2)]
    print(f"first use: {seconds[0]} CPU s to import numba and compile, {seconds[1]} to import and load")


def main() -> None:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=60)
    parser.add_argument("--first-use", action="store_true")
    args = parser.parse_args()
    if compiled.kernel("splines") is None:
        sys.exit("nothing to compare: numba is not installed, or VGI_FAST=0")
    set_threads(1)
    print("| splines | bins | what | torch, ms | compiled, ms | ratio |\n|---|---:|---|---:|---:|---:|")
    for name, (shape, own, bins) in SHAPES.items():
        generator = torch.Generator().manual_seed(0)
        x = (2 * torch.randn(shape, generator=generator)).requires_grad_()
        parameters = torch.randn(3 * bins - 1, *own, generator=generator).requires_grad_()
        for what, work, inverse in (
            ("forward", forward, False),
            ("forward + backward", backward, False),
            ("inverse", forward, True),
            ("inverse + backward", backward, True),
        ):
            by_torch, by_loops = medians(functools.partial(work, x, parameters, inverse), args.repeats)
            print(
                f"| {name}, {'x'.join(map(str, shape))} | {bins} | {what} | {by_torch:.3f} | {by_loops:.3f} | "
                f"{by_loops / by_torch:.2f} |"
            )
    if args.first_use:
        first_use()


if __name__ == "__main__":
    main()
