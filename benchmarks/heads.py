"""A head for every column, or one head that an embedding of the column modulates: what does either learn, and when?

    python benchmarks/heads.py [--works b c] [--epochs 40] [--accept metropolis] [--miniboone FILE]

The same fit from the same seed with `method.layout` shared and modulated: share of accepted proposals, VGI objective
and log-likelihood of complete rows that were not fitted (nats a row), with the seconds so far.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import torch
from works import config, incomplete, works

from vgi_cli.machine.device import set_threads
from vgi_cli.methods.base import EpochEnd
from vgi_cli.methods.vgi import vgi

HELD_OUT = 500  # complete rows


def main() -> None:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--works", nargs="+", default=["b", "c"], choices=["a", "b", "c", "d"])
    parser.add_argument("--layouts", nargs="+", default=["shared", "modulated"])
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--warm-up", type=int, default=0, help="epochs of Algorithm 2 first")
    parser.add_argument("--accept", default="metropolis", choices=["gibbs", "metropolis"])
    parser.add_argument("--imputations", type=int, default=5)
    parser.add_argument("--miniboone", type=Path, help="a Parquet table for work c; none: simulated rows")
    parser.add_argument("--lr", type=float, default=3e-3, help="of the conditionals")
    args = parser.parse_args()
    set_threads(1)
    print("| work | layout | epoch | seconds | accepted | objective | held-out log-likelihood |")
    print("|---|---|---:|---:|---:|---:|---:|")
    for name in args.works:
        work = works(args.miniboone)[name]
        table = incomplete(work, work.N)
        table, held = table.rows(torch.arange(HELD_OUT, work.N)), work.rows(work.N, 0)[:HELD_OUT]
        for layout in args.layouts:
            settings = config(work, layout=layout, accept=args.accept, imputations=args.imputations)
            optim = settings.optim.model_copy(update={"lr_conditionals": args.lr, "warmup_conditionals": args.warm_up})
            settings = settings.model_copy(update={"epochs": args.epochs, "optim": optim})
            state = vgi.METHOD.init(work.build(), table, settings, torch.Generator().manual_seed(0))
            started = time.perf_counter()
            for event in vgi.run(state):
                if not isinstance(event, EpochEnd) or state.epoch == 0 or event.epoch % max(1, args.epochs // 4):
                    continue
                rates = [rate for rate in event.metrics["acceptance"] if rate is not None]
                with torch.no_grad():
                    loglik = state.model.log_prob(held).mean().item()
                print(
                    f"| {name} | {layout} | {event.epoch} | {time.perf_counter() - started:.0f} "
                    f"| {sum(rates) / len(rates):.3f} | {event.metrics['objective']:.2f} | {loglik:.2f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
