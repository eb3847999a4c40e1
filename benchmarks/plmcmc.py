"""VGI against PLMCMC on a flow, at equal time (paper, section 6): which learns more of rows with holes?

    python benchmarks/plmcmc.py results/plmcmc --budget 3600 [--table rows.parquet] [--epochs 400] [--missing 0.5]
    python benchmarks/plmcmc.py results/small --smoke

Rows (a complete Parquet table, standardised; else `works.curved_rows`) are cut 80/10/10 and cells of the first part
hidden completely at random. Every method gets `--budget` seconds of its own (CPU seconds; wall seconds on a GPU), in
turns of a twentieth; scoring does not count. After each turn the complete validation rows are scored, and the
checkpoint that scores best is scored on the complete test rows: mean log p, nats a row. Learning rates are constant,
so that no schedule depends on how far a method comes; `--epochs` says in what epochs the rounds of PLMCMC are.

`plmcmc` has the paper's kernel, `plmcmc-wide` a wide auxiliary law and steps that fit it (method.auxiliary_std=0.5,
method.perturb_std=0.3), `complete` sees the hidden cells, `impute-then-fit` (draws from each column) where this version
has it. Everything is saved after each turn: the same command goes on. Prints a table and writes results.json.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from works import curved_rows, table_rows

from vgi_cli.data import TensorTable, make_table
from vgi_cli.machine.device import set_threads
from vgi_cli.methods.base import EpochEnd
from vgi_cli.models.flows.coupling import Flow, FlowConfig
from vgi_cli.registry import names as registry
from vgi_cli.settings.components import merged

WIDE = {"auxiliary_std": 0.5, "perturb_std": 0.3}
ENTRANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "vgi": ("vgi", dict(Flow.method_defaults["vgi"])),
    "plmcmc": ("plmcmc", {}),
    "plmcmc-wide": ("plmcmc", WIDE),
    "impute-then-fit": ("impute-then-fit", {"imputer": "empirical"}),
    "complete": ("complete", {}),
}
TURNS = 20


class Parts:
    """Rows for the fit, with their holes and without, and complete rows for validation and test."""

    def __init__(self, args: argparse.Namespace) -> None:
        rows = table_rows(args.table)(args.rows, 0) if args.table else curved_rows(args.columns)(args.rows, 0)
        g = torch.Generator().manual_seed(args.seed)
        rows = rows[torch.randperm(len(rows), generator=g)].to(args.device)
        first, second = len(rows) * 8 // 10, len(rows) * 9 // 10
        x, self.validation, self.test = rows[:first], rows[first:second], rows[second:]
        missing = (torch.rand(x.shape, generator=g) < args.missing).to(args.device)
        self.holes, self.whole = make_table(x, missing), make_table(x, torch.zeros_like(missing))


class Entrant:
    """One method: its state, and what is known of it so far."""

    def __init__(self, name: str, args: argparse.Namespace, parts: Parts) -> None:
        self.path = args.folder / name
        method, settings = ENTRANTS[name]
        self.method = registry.METHODS.load(method)
        common = {"epochs": args.epochs, "optim": {"schedule": "constant", "average": 0.0}}
        if method == "plmcmc" and args.steps:
            settings = settings | {"steps": tuple(zip((0.0, 0.45), args.steps, strict=True))}
        if method == "vgi":
            common["optim"] |= {"warmup_conditionals": min(10, args.epochs), "warmup_model": min(5, args.epochs)}
        config = self.method.Config.model_validate(merged(common, settings))
        flow = Flow.build(FlowConfig(steps=args.flow_steps, hidden=args.hidden, bins=args.bins), parts.whole.layout)
        table: TensorTable = parts.whole if method == "complete" else parts.holes
        generator = torch.Generator().manual_seed(args.seed)
        self.state = self.method.init(flow.to(args.device), table, config, generator)
        self.done: dict[str, Any] = {"seconds": 0.0, "epoch": 0, "curve": [], "ended": False}
        if self.path.with_suffix(".json").exists():
            self.done = json.loads(self.path.with_suffix(".json").read_text())
            saved: dict[str, dict[str, Tensor]] = {}
            for key, value in load_file(self.path.with_suffix(".safetensors")).items():
                stem, name = key.split("|", 1)
                saved.setdefault(stem, {})[name] = value.to(args.device)
            self.state.restore(saved)

    def turn(self, until: float, parts: Parts, clock: Any) -> None:
        """Go on until so many seconds are spent, score, save."""
        if not self.done["ended"] and self.done["seconds"] < until:
            started, last = clock(), None
            self.done["ended"] = True
            for event in self.method.run(self.state):
                last = event.metrics if isinstance(event, EpochEnd) else last
                if self.done["seconds"] + clock() - started >= until:
                    self.done["ended"] = False
                    break
            self.done["seconds"] += clock() - started
            self.done["epoch"] = self.state.epoch
            self.state.publish()
            scores = {name: score(self.state.model, rows) for name, rows in
                      (("validation", parts.validation), ("test", parts.test))}  # fmt: skip
            said = {k: v for k, v in (last or {}).items() if k in ("metropolis_steps", "strain")}
            self.done["curve"].append({"seconds": self.done["seconds"], "epoch": self.state.epoch, **scores, **said})
            flat = {f"{stem}|{name}": value.contiguous().clone() for stem, tensors in self.state.parts().items()
                    for name, value in tensors.items()}  # fmt: skip
            save_file(flat, self.path.with_suffix(".safetensors"))
            self.path.with_suffix(".json").write_text(json.dumps(self.done))

    def best(self) -> dict[str, Any]:
        """The turn that scored best on the validation rows."""
        return max(self.done["curve"], key=lambda point: point["validation"])


@torch.no_grad()
def score(flow: Flow, rows: Tensor) -> float:
    """Mean log p of complete rows, nats a row."""
    return float(torch.cat([flow.eval().log_prob(some) for some in rows.split(4096)]).double().mean())


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--table", type=Path)
    parser.add_argument("--columns", type=int, default=8)
    parser.add_argument("--rows", type=int, default=3000)
    parser.add_argument("--missing", type=float, default=0.5)
    parser.add_argument("--budget", type=float, default=3600.0, help="seconds of each method")
    parser.add_argument("--epochs", type=int, default=400)
    parser.add_argument("--steps", type=int, nargs=2, help="Metropolis steps of an early and of a late round")
    parser.add_argument("--flow-steps", type=int, default=5)
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--bins", type=int, default=8)
    parser.add_argument("--methods", nargs="+", default=[n for n, (m, _) in ENTRANTS.items() if m in registry.METHODS])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--smoke", action="store_true", help="a minute on one core: shows that it runs, nothing else")
    args = parser.parse_args(argv)
    if args.smoke:
        small = {"rows": 600, "columns": 4, "budget": 12.0, "epochs": 30, "steps": [30, 60], "flow_steps": 2,
                 "hidden": 16, "bins": 4}  # fmt: skip
        vars(args).update(small)
    return args


def main(argv: Sequence[str] | None = None) -> None:
    """See the module's text."""
    args = arguments(argv)
    set_threads(args.threads)
    args.folder.mkdir(parents=True, exist_ok=True)
    parts = Parts(args)
    clock = time.process_time if args.device == "cpu" else time.perf_counter
    entrants = {name: Entrant(name, args, parts) for name in args.methods}
    for turn in range(1, TURNS + 1):
        for entrant in entrants.values():
            entrant.turn(args.budget * turn / TURNS, parts, clock)
    print("| method | validation | test | best at, s | its epoch | epochs in all | seconds | strain, last round |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    result = {}
    for name, entrant in entrants.items():
        best, done = entrant.best(), entrant.done
        strains = [point["strain"] for point in done["curve"] if "strain" in point]
        shown = f"{strains[-1]:.3g}" if strains else ""
        print(
            f"| {name} | {best['validation']:.3f} | {best['test']:.3f} | {best['seconds']:.0f} | {best['epoch']} "
            f"| {done['epoch']} | {done['seconds']:.0f} | {shown} |"
        )
        result[name] = {"best": best, **done}
    settings = {k: str(v) if isinstance(v, Path) else v for k, v in vars(args).items()}
    text = json.dumps({"settings": settings, "torch": torch.__version__, "methods": result}, indent=1)
    (args.folder / "results.json").write_text(text)


if __name__ == "__main__":
    main()
