"""How fast is a step of VGI, and what does it cost beside a step of maximum likelihood on complete data?

    python benchmarks/speed.py [--works a b c d] [--miniboone FILE] [--slopes] [--use c d] [--json OUT]

All variants of a piece of work are timed in turn, step by step, in one process; medians. Price: a VGI step ÷ a
maximum-likelihood step of the same model on the same number of flattened rows. `plain` is the baseline of `dense.py`.
Shares of time are measured apart, with the device waited for after each part.

`--use` (the flows c and d; none: leave it out) times what is done with a model, on its first parameters: filling holes
by the sampler of `vgi impute`, cells a second, and the two halves of an estimate of log p(observed cells), evaluations
of the density a second: single draws, and annealing paths. On a GPU the steps of training, of maximum likelihood too,
and of the sampler are captured (`--compile off`: not); those of annealing are not.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import os
import platform
import resource
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, get_args
from unittest import mock

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import torch
from dense import Copies, PlainConditionals
from torch import Tensor
from works import Work, config, incomplete, works

from vgi_cli.chains.captured import CapturedSteps
from vgi_cli.chains.moves import OfRows, sweep, sweep_noise
from vgi_cli.chains.store.packed import Chains
from vgi_cli.commands.samplers import capture_on
from vgi_cli.data import TensorTable
from vgi_cli.evaluation.likelihood.estimate import make_annealer
from vgi_cli.evaluation.likelihood.ladder import Budget
from vgi_cli.layout import Layout
from vgi_cli.machine.device import set_threads
from vgi_cli.maths.noise import KeyedNoise, mix64
from vgi_cli.maths.products import Products, rounded
from vgi_cli.methods.base import Events, Resources, StepEnd
from vgi_cli.methods.loop import Stage
from vgi_cli.methods.vgi import vgi
from vgi_cli.methods.vgi.state import VgiState
from vgi_cli.methods.vgi.targets import Columns
from vgi_cli.reporting import Silent
from vgi_cli.samplers.base import Box, frozen, impute
from vgi_cli.samplers.metropolis import MetropolisImputer
from vgi_cli.samplers.starts import EmpiricalStart

Step = Callable[[], None]
FLOWS = ("c", "d")
ROWS = {"d": 200_000}  # of the table; the others as in the work
VARIANTS: dict[str, dict[str, Any]] = {
    "gibbs": {"accept": "gibbs"},
    "metropolis, path": {"accept": "metropolis", "scan": "path"},
    "metropolis, step": {"accept": "metropolis", "scan": "step"},
}
LAYOUTS: dict[str, dict[str, Any]] = {  # which conditionals: a head for each column, or one that is modulated
    "gibbs, modulated": {"accept": "gibbs", "layout": "modulated"},
    "metropolis, path, modulated": {"accept": "metropolis", "scan": "path", "layout": "modulated"},
}


def wait(device: torch.device) -> None:
    """Until the device has done its work."""
    if device.type == "cuda":
        torch.cuda.synchronize()


def fit_state(work: Work, table: TensorTable, compile: str = "off", **changes: Any) -> VgiState:
    """A VGI fit at the beginning of its main stage."""
    model = work.build().to(table.x.device)
    resources = Resources(compile=compile, warn=print)
    state = vgi.METHOD.init(model, table, config(work, **changes), torch.Generator().manual_seed(0), resources)
    state.enter(Stage.MAIN)
    return state


def vgi_step(events: Events) -> None:
    """One step, epoch after epoch."""
    while not isinstance(next(events), StepEnd):
        pass


def likelihood_step(work: Work, K: int, N: int, device: torch.device, mode: str) -> Step:
    """A maximum-likelihood step on complete rows, as many as a VGI step has flattened rows; captured as that is."""
    x = work.rows(N, 0).to(device)
    model = work.build().to(device)
    model.initialise(x.cpu(), torch.Generator().manual_seed(0))
    capturable = device.type == "cuda"
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True, capturable=capturable)
    R = min(work.batch, N) * K

    def ascend(rows: Tensor) -> Tensor:
        optimiser.zero_grad(set_to_none=True)
        loss = -model.log_prob(rows).mean()
        loss.backward()
        optimiser.step()
        return loss.detach()

    once: Callable[[Tensor], Tensor] = CapturedSteps(ascend, print, device) if mode == "on" else ascend

    def step() -> None:
        once(x[torch.randint(N, (R,), device=device)])

    return step


def plain_state(work: Work, table: TensorTable, **changes: Any) -> VgiState:
    """The baseline: every head, K full copies."""
    state = fit_state(work, table, accept="gibbs", kernel="extended", **changes)
    state.q.__class__ = PlainConditionals
    state.chains = Copies(state.chains)
    return state


def medians(steps: dict[str, Step], repeats: int, device: torch.device) -> dict[str, float]:
    """Median seconds of each step, taken in turn, once they have warmed up: batches have up to four shapes, and a
    GPU's are captured after some steps of each."""
    times: dict[str, list[float]] = {name: [] for name in steps}
    warm = 24 if device.type == "cuda" else 2
    for repeat in range(repeats + warm):
        for name, step in steps.items():
            started = time.perf_counter()
            step()
            wait(device)
            if repeat >= warm:
                times[name].append(time.perf_counter() - started)
    return {name: statistics.median(values) for name, values in times.items()}


@contextmanager
def parts_timed(device: torch.device) -> Iterator[dict[str, float]]:
    """Seconds spent in the parts of a step, by patching them."""
    spent: dict[str, float] = defaultdict(float)

    def timed(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            wait(device)
            started = time.perf_counter()
            result = function(*args, **kwargs)
            wait(device)
            spent[name] += time.perf_counter() - started
            return result

        return run

    patches = [
        mock.patch.object(Columns, "update", timed("Gibbs", Columns.update)),
        mock.patch.object(Columns, "objective", timed("objective", Columns.objective)),
        mock.patch.object(torch.Tensor, "backward", timed("backward", torch.Tensor.backward)),
        mock.patch.object(torch.optim.Adam, "step", timed("optimiser", torch.optim.Adam.step)),
        mock.patch.object(Chains, "batch", timed("data", Chains.batch)),
        mock.patch.object(Chains, "store", timed("data", Chains.store)),
    ]
    for patch in patches:
        patch.start()
    try:
        yield spent
    finally:
        for patch in patches:
            patch.stop()


def shares(state: VgiState, device: torch.device, steps: int = 5) -> dict[str, float]:
    """Share of each part in the time of eager steps."""
    events = vgi.run(state)
    with parts_timed(device) as spent:
        started = time.perf_counter()
        for _ in range(steps):
            vgi_step(events)
        wait(device)
        total = time.perf_counter() - started
    return {name: seconds / total for name, seconds in spent.items()}


def filling(work: Work, rows: int, compile: str, device: torch.device) -> tuple[Step, int]:
    """Filling the holes of rows once by the sampler of `vgi impute`, captured where that can be; and their number."""
    table = incomplete(work, rows).to(device=device)
    state = fit_state(work, table, accept="gibbs")
    capture = capture_on(device, compile, Silent())
    imputer = MetropolisImputer(state.model, state.q, EmpiricalStart(table.x, table.missing), capture=capture)
    everywhere = torch.full((work.D,), torch.inf, device=device)
    noise = KeyedNoise(0, tuple(map(str, range(work.D))), mix64(torch.arange(table.N, device=device)), torch.arange(1))
    box = Box(-everywhere, everywhere)
    return functools.partial(impute, imputer, table.x, table.missing, noise, box), int(table.missing.sum())


def estimates(work: Work, compile: str, device: torch.device, N: int = 256) -> dict[str, tuple[Step, int]]:
    """The two halves of an estimate of log p(observed cells), and their evaluations of the density: single draws, and
    steps of annealing paths; captured where that can be."""
    table = incomplete(work, N).to(device=device)
    state = fit_state(work, table, accept="gibbs")
    budget = Budget(samples=2000).on(table.x)
    generator = torch.Generator(device).manual_seed(0)
    with torch.no_grad():
        capture = capture_on(device, compile, Silent())
        annealer = make_annealer(state.model, state.q, table.x, budget, generator, capture)
        g = annealer.conditional(table.x, table.missing)
    P, keys = budget.batch // N, mix64(torch.arange(N, device=device))
    noise = KeyedNoise(0, tuple(map(str, range(work.D))), keys, torch.arange(P))

    def step(T: int) -> None:
        with frozen(state.model, state.q), torch.no_grad():
            annealer.forward(g, noise, T)

    lengths = {"single draws": 1, "annealing": 8}
    return {name: (functools.partial(step, T), P * N * T) for name, T in lengths.items()}


def in_use(work: Work, args: argparse.Namespace, device: torch.device) -> dict[str, float]:
    """Cells that are filled, and densities that are evaluated, in a second."""
    fill, cells = filling(work, args.filled, args.compile, device)
    started = time.perf_counter()
    fill()
    wait(device)
    rates = {"filled cells": cells / (time.perf_counter() - started)}
    for name, (step, evaluations) in estimates(work, args.compile, device).items():
        seconds = medians({name: step}, max(1, args.repeats // 5), device)[name]
        rates[f"evaluations in {name}"] = evaluations / seconds
    return rates


def memory(device: torch.device) -> float:
    """Peak memory in MB: of the device, or of this process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated() / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def measure(name: str, work: Work, args: argparse.Namespace, device: torch.device) -> dict[str, Any]:
    """One piece of work: all variants side by side."""
    N = min(args.rows or work.N, work.N)
    table = incomplete(work, N).to(device=device)
    variants = VARIANTS | (LAYOUTS if args.modulated else {})
    mode = "on" if device.type == "cuda" and args.compile != "off" else "off"
    states = {variant: fit_state(work, table, mode, **changes) for variant, changes in variants.items()}
    K = states["gibbs"].chains.K
    steps: dict[str, Step] = {v: functools.partial(vgi_step, vgi.run(state)) for v, state in states.items()}
    steps["maximum likelihood"] = likelihood_step(work, K, N, device, mode)
    seconds = medians(steps, args.repeats, device)
    base = seconds["maximum likelihood"]
    R = min(work.batch, N) * K
    rows = []
    for variant, state in states.items():
        part = shares(fit_state(work, table, **variants[variant]), device)
        cells = R * state.config.gibbs_steps
        rows.append(
            {
                "work": name,
                "variant": variant,
                "milliseconds": 1e3 * seconds[variant],
                "steps_per_second": 1 / seconds[variant],
                "rows_per_second": R / seconds[variant],
                "price": seconds[variant] / base,
                "seconds_per_million_cells": part["Gibbs"] * seconds[variant] / cells * 1e6,
                "shares": part,
                "peak_mb": memory(device),
            }
        )
    return {"title": work.title, "rows": N, "flattened": R, "ml_milliseconds": 1e3 * base, "variants": rows}


def against_plain(name: str, work: Work, args: argparse.Namespace, device: torch.device) -> dict[str, Any]:
    """The same step (gibbs, extended, shared) routed and in the plain baseline."""
    changes = {"blocks_per_row": 10, "imputations": 5} if name == "b" else {}
    N = min(args.rows or work.N, work.N)
    table = incomplete(work, N).to(device=device)
    ours = fit_state(work, table, accept="gibbs", kernel="extended", **changes)
    plain = plain_state(work, table, **changes)
    steps = {name: functools.partial(vgi_step, vgi.run(state)) for name, state in (("routed", ours), ("plain", plain))}
    seconds = medians(steps, max(3, args.repeats // 4), device)
    return {
        "work": name,
        "seconds_per_epoch": {k: v * ours.batches for k, v in seconds.items()},
        "ratio": seconds["plain"] / seconds["routed"],
    }


def slopes(args: argparse.Namespace, device: torch.device) -> dict[str, float]:
    """Log-log slopes of the time of an epoch (work c), and the growth of a sweep's own time with the columns."""
    work = works(args.miniboone)["c"]

    def epoch(N: int, K: int, share: float) -> tuple[VgiState, Step]:
        state = fit_state(work, incomplete(work, N, share).to(device=device), accept="gibbs", imputations=K)
        return state, functools.partial(vgi_step, vgi.run(state))

    pairs = {
        "rows x 10": ((640, 5, 0.5), (6400, 5, 0.5), 10),
        "K x 4": ((1280, 5, 0.5), (1280, 20, 0.5), 4),
        "missing cells x 4": ((1280, 5, 0.125), (1280, 5, 0.5), 4),
    }
    out = {}
    for name, (small, large, factor) in pairs.items():
        (one, step_one), (two, step_two) = epoch(*small), epoch(*large)
        seconds = medians({"small": step_one, "large": step_two}, args.repeats, device)
        ratio = seconds["large"] * two.batches / (seconds["small"] * one.batches)
        out[name] = math.log(ratio) / math.log(factor)
    sweeps: dict[str, Step] = {}
    for D in (43, 172):
        wide = work._replace(D=D, rows=lambda N, seed, D=D: torch.randn(N, D), build=lambda D=D: _normal(D))
        state = fit_state(wide, incomplete(wide, 640).to(device=device), accept="gibbs")
        batch = state.batch()
        moves = state.moves._replace(G=5)
        noise = sweep_noise(state.q, len(batch.x), moves, batch.x, state.generator(1))
        sweeps[str(D)] = functools.partial(
            sweep, noise, state.q, batch.x, batch.missing, OfRows(state.log_p), moves, state.chains.K
        )
    seconds = medians(sweeps, args.repeats, device)
    out["sweep, 43 -> 172 columns (ratio)"] = seconds["172"] / seconds["43"]
    return out


def _normal(D: int) -> Any:
    from vgi_cli.models.gaussian.fa import FaConfig, FactorAnalysis

    return FactorAnalysis.build(FaConfig(factors=1), Layout.plain(D))


def show(results: dict[str, Any]) -> None:
    """The tables."""
    print("\n| work | variant | ms a step | steps/s | rows/s | price | s / 10^6 cells | shares | peak MB |")
    print("|---|---|---:|---:|---:|---:|---:|---|---:|")
    for name, result in results["works"].items():
        for row in result["variants"]:
            part = ", ".join(f"{k} {v:.0%}" for k, v in sorted(row["shares"].items()))
            print(
                f"| {name} | {row['variant']} | {row['milliseconds']:.1f} | {row['steps_per_second']:.1f} | "
                f"{row['rows_per_second']:.0f} | {row['price']:.2f} | {row['seconds_per_million_cells']:.2f} | "
                f"{part} | {row['peak_mb']:.0f} |"
            )
        print(f"| {name} | maximum likelihood | {result['ml_milliseconds']:.1f} | | | 1 | | | |")
    for row in results["plain"]:
        epoch = row["seconds_per_epoch"]
        print(
            f"\nwork {row['work']}: an epoch takes {epoch['routed']:.2f} s, the plain baseline {epoch['plain']:.2f} s: "
            f"{row['ratio']:.1f} x"
        )
    for name, value in results["slopes"].items():
        print(f"slope, {name}: {value:.2f}")
    for name, rates in results["use"].items():
        print(f"work {name}, a second: " + ", ".join(f"{rate:.0f} {what}" for what, rate in rates.items()))


def main() -> None:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--works", nargs="*", default=["a", "b", "c", "d"], choices=["a", "b", "c", "d"])
    parser.add_argument("--miniboone", type=Path, help="a Parquet table for work c; none: simulated rows")
    parser.add_argument("--plain", nargs="*", default=["b", "c"], choices=["b", "c"], help="compare with the baseline")
    parser.add_argument("--modulated", action="store_true", help="also one head for all columns, modulated")
    parser.add_argument("--slopes", action="store_true", help="how an epoch grows with rows, chains and holes")
    parser.add_argument("--use", nargs="*", default=["c"], choices=FLOWS, help="also fill holes and score rows")
    parser.add_argument("--filled", type=int, default=500, help="rows whose holes are filled")
    parser.add_argument("--rows", type=int, help="at most this many rows in every table")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--compile", default="on", choices=["on", "off"], help="CUDA graphs on a GPU")
    parser.add_argument(
        "--products", nargs="+", default=["float32"], choices=get_args(Products), help="factors of matrix products"
    )
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    set_threads(args.threads)
    device = torch.device(args.device)
    gpu = torch.cuda.get_device_name() if device.type == "cuda" else None
    results: dict[str, Any] = {
        "machine": {"cpu": platform.processor() or platform.machine(), "gpu": gpu, "torch": torch.__version__},
        "threads": args.threads,
    }
    every = works(args.miniboone)
    results["works"] = {}
    for name in args.works:
        for products in args.products:
            with rounded(products):
                label = name if products == "float32" else f"{name}, {products}"
                results["works"][label] = measure(name, every[name], args, device)
    results["plain"] = [against_plain(name, every[name], args, device) for name in args.plain]
    results["slopes"] = slopes(args, device) if args.slopes else {}
    results["use"] = {name: in_use(every[name], args, device) for name in args.use}
    show(results)
    if args.json:
        args.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
