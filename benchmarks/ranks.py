"""What sharing a fit among several processes costs: steps of one process beside those of two, and what is sent.

    python benchmarks/ranks.py [--cases flow fa em] [--ranks 2] [--steps 40] [--rounds 3]

One process and all of them take turns, in rounds, on the same rows from the same state. Of each case: milliseconds of a
step (wall, median over rounds), `efficiency` = wall of one / (ranks x wall of all), `work` = CPU time of one / CPU time
of all together, which other work on the machine does not change: what of a step is not done twice; sums over all ranks
in a step, and their bytes. Then, of messages of some sizes, how long a sum over all ranks takes.

    flow   2 coupling steps, 20 columns, 30 % of the cells missing, K = 5, 512 rows a step
    fa     8 factors by vgi, the same rows
    em     a mixture of 5 Gaussians, the same rows, all of them in a step of EM
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
import torch.distributed as dist

from vgi_cli.data import TensorTable, make_table
from vgi_cli.machine.launch import launched
from vgi_cli.machine.ranks import Together, joined
from vgi_cli.methods.base import EpochEnd
from vgi_cli.models.base import built
from vgi_cli.ranks import ALONE, Ranks
from vgi_cli.registry.names import METHODS, MODELS

COLUMNS, MISSING = 20, 0.3
SIZES = (1 << 10, 1 << 14, 1 << 18, 1 << 22)
"""Numbers of four bytes in a message."""


class Case(NamedTuple):
    """A fit: model and method with their settings, of so many rows."""

    model: str
    method: str
    model_settings: dict[str, Any]
    settings: dict[str, Any]
    N: int


NO_WARM_UP = {"warmup_conditionals": 0, "warmup_model": 0, "batch_size": 512}
CASES = {
    "flow": Case("flow", "vgi", {"steps": 2}, {"optim": NO_WARM_UP}, 8192),
    "fa": Case("fa", "vgi", {"factors": 8}, {"optim": NO_WARM_UP}, 8192),
    "em": Case("mixture", "em", {"components": 5}, {"tolerance": 1e-12, "accelerate": False}, 8192),
}


def table_of(N: int) -> TensorTable:
    """Rows of a Gaussian with four factors."""
    g = torch.Generator().manual_seed(0)
    x = torch.randn(N, 4, generator=g) @ torch.randn(4, COLUMNS, generator=g) + torch.randn(N, COLUMNS, generator=g)
    missing = torch.rand(N, COLUMNS, generator=g) < MISSING
    return make_table(torch.where(missing, 0.0, x), missing)


class Fit:
    """A fit whose steps are taken some at a time."""

    def __init__(self, case: Case, ranks: Ranks) -> None:
        entry, family, method = METHODS[case.method], MODELS.load(case.model), METHODS.load(case.method)
        dtype = getattr(torch, entry.traits.precision)
        table = table_of(case.N).to(dtype=dtype)
        model = built(family, family.Config.model_validate(case.model_settings), table.layout).to(dtype)
        config = method.Config.model_validate({"epochs": 10_000, **case.settings})
        self.state = method.init(model, table, config, torch.Generator().manual_seed(0))
        self.state.divide(ranks)
        self._events = method.run(self.state)
        self._by_epoch = case.method == "em"

    def take(self, steps: int) -> None:
        """So many steps."""
        while steps:
            steps -= isinstance(next(self._events), EpochEnd) == self._by_epoch


def measured(case: Case, ranks: Together, steps: int, rounds: int) -> dict[str, float]:
    """What a case costs."""
    fits = {"one": Fit(case, ALONE), "all": Fit(case, ranks)}
    wall: dict[str, list[float]] = {"one": [], "all": []}
    cpu: dict[str, list[float]] = {"one": [], "all": []}
    for fit in fits.values():
        fit.take(3)
    ranks.calls = ranks.sent = 0
    for _ in range(rounds):
        for name, fit in fits.items():
            ranks.any(False)
            begun, worked = time.perf_counter(), time.process_time()
            if name == "all" or ranks.rank == 0:
                fit.take(steps)
            own = time.process_time() - worked
            wall[name].append((time.perf_counter() - begun) / steps)
            cpu[name].append(float(ranks.total(torch.tensor([own], dtype=torch.float64))[0]) / steps)
    counted = rounds * steps
    one, several = (statistics.median(wall[name]) for name in ("one", "all"))
    return {
        "one ms": 1e3 * one,
        "all ms": 1e3 * several,
        "efficiency": one / (ranks.world * several),
        "cpu one ms": 1e3 * statistics.median(cpu["one"]),
        "cpu all ms": 1e3 * statistics.median(cpu["all"]),
        "work": statistics.median(cpu["one"]) / statistics.median(cpu["all"]),
        "sums a step": round(ranks.calls / counted, 2) - 2 / steps,
        "bytes a step": ranks.sent / counted - 16 / steps,
    }


def messages(repeats: int = 20) -> dict[str, float]:
    """Milliseconds of a sum over all ranks, by the bytes of the message, and of the agreement after a step."""
    found = {}
    for size in SIZES:
        flat = torch.zeros(size)
        dist.all_reduce(flat)
        begun = time.perf_counter()
        for _ in range(repeats):
            dist.all_reduce(flat)
        found[f"{4 * size:,} bytes"] = 1e3 * (time.perf_counter() - begun) / repeats
    return found


def worker(arguments: argparse.Namespace) -> None:
    """One of the processes; rank 0 prints."""
    with joined(launched(), torch.device("cpu")) as ranks:
        assert isinstance(ranks, Together)
        for name in arguments.cases:
            found = measured(CASES[name], ranks, arguments.steps, arguments.rounds)
            if ranks.rank == 0:
                print(json.dumps({name: {key: round(value, 3) for key, value in found.items()}}), flush=True)
        found = messages()
        if ranks.rank == 0:
            print(json.dumps({"message ms": {key: round(value, 3) for key, value in found.items()}}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES))
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    if "RANK" in os.environ:
        torch.set_num_threads(1)
        worker(arguments)
        return
    with socket.socket() as own:
        own.bind(("127.0.0.1", 0))
        port = own.getsockname()[1]
    processes = []
    for rank in range(arguments.ranks):
        said = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": arguments.ranks, "MASTER_PORT": port}
        environment = {**os.environ, **{key: str(value) for key, value in said.items()}, "MASTER_ADDR": "127.0.0.1"}
        processes.append(subprocess.Popen([sys.executable, str(Path(__file__)), *sys.argv[1:]], env=environment))
    sys.exit(max(process.wait() for process in processes))


if __name__ == "__main__":
    main()
