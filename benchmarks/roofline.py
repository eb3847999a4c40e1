"""How near each stage of a training step of `vgi` comes to the limits of the machine.

    python benchmarks/roofline.py [--works b c] [--device cpu|cuda] [--steps 5] [--accept gibbs] [--threads 1]

Floating-point operations (of matrix products) and bytes (of the tensors that each operation reads and writes: an upper
bound, caches are not seen) are counted while eager steps run, then the same steps are timed without counting. The
limits are measured on the same device, just before: a product of two large matrices, and a copy of a large tensor. On a
GPU also: the share of the wall time in which a kernel runs, for captured steps.

Below the stages of a step, of flows (c and d): filling the holes of 100 rows by the sampler of `vgi impute` (not
captured), and the two halves of an estimate of log p(observed cells), as `speed.py --use` times them.
"""

from __future__ import annotations

import argparse
import functools
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import speed  # sets how idle threads wait, before torch is loaded
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry
from works import incomplete, works

from vgi_cli.machine.device import set_threads
from vgi_cli.methods.base import Events
from vgi_cli.methods.vgi import vgi
from vgi_cli.methods.vgi.targets import Columns


class Count(TorchDispatchMode):
    """Operations and bytes of whatever runs within, under the name of the current stage."""

    def __init__(self) -> None:
        super().__init__()
        self.stage = "rest"
        self.flops: Counter[str] = Counter()
        self.bytes: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if func.is_view:
            return out
        packet = func._overloadpacket
        if packet in flop_registry:
            self.flops[self.stage] += flop_registry[packet](*args, **(kwargs or {}), out_val=out)
        tensors = [t for t in tree_leaves((args, kwargs, out)) if isinstance(t, Tensor)]
        self.bytes[self.stage] += sum(t.numel() * t.element_size() for t in tensors)
        return out


@contextmanager
def stages_counted(count: Count) -> Iterator[None]:
    """Within, operations count towards the stage of a step that they belong to."""

    def named(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            before, count.stage = count.stage, name
            try:
                return function(*args, **kwargs)
            finally:
                count.stage = before

        return run

    patches = [mock.patch.object(owner, name, named(stage, getattr(owner, name))) for owner, name, stage in PARTS]
    for patch in patches:
        patch.start()
    try:
        with count:
            yield
    finally:
        for patch in patches:
            patch.stop()


PARTS: list[tuple[Any, str, str]] = [
    (Columns, "update", "Gibbs"),
    (Columns, "objective", "objective"),
    (torch.Tensor, "backward", "backward"),
    (torch.optim.Adam, "step", "optimiser"),
    (speed.Chains, "batch", "data"),
    (speed.Chains, "store", "data"),
]


def limits(device: torch.device) -> tuple[float, float]:
    """Floating-point operations and bytes a second that this device reaches: the best of some repeats."""
    n, m = (8192, 1 << 28) if device.type == "cuda" else (1536, 1 << 25)
    a, b = torch.randn(n, n, device=device), torch.randn(n, n, device=device)
    source, target = torch.empty(m, device=device), torch.empty(m, device=device)
    return 2 * n**3 / best(lambda: torch.mm(a, b), device), 8 * m / best(lambda: target.copy_(source), device)


def best(run: Callable[[], Any], device: torch.device, repeats: int = 8) -> float:
    """Least seconds."""
    least = float("inf")
    for _ in range(repeats):
        started = time.perf_counter()
        run()
        speed.wait(device)
        least = min(least, time.perf_counter() - started)
    return least


def busy(events: Events, steps: int) -> float:
    """Share of the wall time of captured steps in which a kernel of the GPU runs."""
    for _ in range(20):
        speed.vgi_step(events)
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        started = time.perf_counter()
        for _ in range(20 * steps):
            speed.vgi_step(events)
        torch.cuda.synchronize()
        wall = time.perf_counter() - started
    return sum(event.self_device_time_total for event in profile.key_averages()) / 1e6 / wall


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--works", nargs="+", default=["b", "c"])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--accept", default="gibbs")
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    set_threads(args.threads)
    device = torch.device(args.device)
    flops, rate = limits(device)
    print(f"limits of this device, measured: {flops / 1e9:.0f} GFLOP/s in a product, {rate / 1e9:.1f} GB/s in a copy")
    for name in args.works:
        work = works()[name]
        table = incomplete(work, min(work.N, 20_000)).to(device=device)
        events = vgi.run(speed.fit_state(work, table, accept=args.accept))
        speed.vgi_step(events)
        count = Count()
        with stages_counted(count):
            for _ in range(args.steps):
                speed.vgi_step(events)
        with speed.parts_timed(device) as spent:
            for _ in range(args.steps):
                speed.vgi_step(events)
        print(f"{work.title}, {args.accept}, one step")
        print("  stage             s    GFLOP       GB   of arithmetic   of bandwidth")
        for stage in ("Gibbs", "objective", "backward", "optimiser", "data"):
            s, f, b = (value[stage] / args.steps for value in (spent, count.flops, count.bytes))
            print(f"  {stage:<12}{s:7.4f}{f / 1e9:9.3f}{b / 1e9:9.3f}{f / s / flops:16.2f}{b / s / rate:15.2f}")
        if device.type == "cuda":
            captured = vgi.run(speed.fit_state(work, table, "on", accept=args.accept))
            print(f"  a kernel runs in {busy(captured, args.steps):.0%} of the wall time of captured steps")
        used: dict[str, tuple[speed.Step, int]] = {}
        if name in speed.FLOWS:
            used = {"filling": speed.filling(work, 100, "off", device)} | speed.estimates(work, "off", device)
        for stage, (run, _) in used.items():
            counted = Count()
            with counted:
                run()
            s, f, b = best(run, device, 1), counted.flops["rest"], counted.bytes["rest"]
            print(f"  {stage:<12}{s:7.4f}{f / 1e9:9.3f}{b / 1e9:9.3f}{f / s / flops:16.2f}{b / s / rate:15.2f}")


if __name__ == "__main__":
    main()
