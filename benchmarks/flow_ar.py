"""What does the autoregressive flow cost beside the coupling flow?

    python benchmarks/flow_ar.py [--columns 43] [--steps 10] [--hidden 32 64] [--bins 4] [--batch 1280] [--repeats 11]
    python benchmarks/flow_ar.py --learn 400

One process, in turn, medians and their ratio: a step of training (log p and its gradient), log p alone, and as many
draws. The density of both is one pass; the draws of `flow-ar` go column by column. `--learn`: so many steps of maximum
likelihood on 20,000 complete simulated rows (`works.curved_rows`), then log p of 2,000 others, nats a row, beside
that of a Gaussian with the mean and covariance of the rows.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable, Sequence

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import torch
from torch import Tensor
from works import curved_rows

from vgi_cli.layout import Layout
from vgi_cli.machine.device import set_threads
from vgi_cli.models.flows.autoregressive import AutoregressiveFlow
from vgi_cli.models.flows.base import FlowConfig, SplineFlow
from vgi_cli.models.flows.coupling import Flow

Work = Callable[[SplineFlow, Tensor], None]
FAMILIES: dict[str, type[SplineFlow]] = {"flow": Flow, "flow-ar": AutoregressiveFlow}


def train(model: SplineFlow, x: Tensor) -> None:
    """A step of training without its optimiser."""
    model.zero_grad(set_to_none=True)
    (-model.log_prob(x).mean()).backward()


@torch.no_grad()
def density(model: SplineFlow, x: Tensor) -> None:
    """log p of rows."""
    model.log_prob(x)


def draws(model: SplineFlow, x: Tensor) -> None:
    """As many draws as x has rows."""
    model.sample(len(x), torch.Generator().manual_seed(0))


WORK: dict[str, Work] = {"training step": train, "log p": density, "draws": draws}


def medians(work: Work, models: dict[str, SplineFlow], x: Tensor, n: int) -> list[float]:
    """Median milliseconds of each model, taken in turn; the first two turns do not count."""
    times: dict[str, list[float]] = {name: [] for name in models}
    for turn in range(n + 2):
        for name, model in models.items():
            started = time.perf_counter()
            work(model, x)
            if turn >= 2:
                times[name].append(1e3 * (time.perf_counter() - started))
    return [statistics.median(values) for values in times.values()]


def learned(model: SplineFlow, train_rows: Tensor, test_rows: Tensor, steps: int, batch: int) -> float:
    """log p of the test rows, nats a row, after so many steps of Adam with a cosine schedule."""
    optimiser = torch.optim.Adam(model.parameters(), lr=model.learning_rate)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    generator = torch.Generator().manual_seed(2)
    for _ in range(steps):
        train(model, train_rows[torch.randint(len(train_rows), (batch,), generator=generator)])
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimiser.step()
        schedule.step()
    with torch.no_grad():
        return float(model.log_prob(test_rows).mean())


def main(argv: Sequence[str] | None = None) -> None:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--columns", type=int, default=43)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--hidden", type=int, nargs="+", default=[32, 64])
    parser.add_argument("--bins", type=int, default=4)
    parser.add_argument("--blocks", type=int, default=1)
    parser.add_argument("--batch", type=int, default=1280)
    parser.add_argument("--repeats", type=int, default=11)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--learn", type=int, default=0, help="steps of maximum likelihood, instead of timings")
    args = parser.parse_args(argv)
    set_threads(args.threads)
    rows = curved_rows(args.columns)(22_000, 0)
    x, test_rows = rows[:20_000], rows[20_000:]
    gaussian = float(torch.distributions.MultivariateNormal(x.mean(0), x.t().cov()).log_prob(test_rows).mean())
    titles = ["one Gaussian", "flow", "flow-ar"] if args.learn else ["work", "flow, ms", "flow-ar, ms", "ratio"]
    print("| hidden | " + " | ".join(titles) + " |")
    print("|---:" * (len(titles) + 1) + "|")
    for hidden in args.hidden:
        config = FlowConfig(steps=args.steps, hidden=hidden, bins=args.bins, blocks=args.blocks)
        models = {name: family.build(config, Layout.plain(args.columns)) for name, family in FAMILIES.items()}
        for model in models.values():
            model.initialise(x, torch.Generator().manual_seed(1))
        if args.learn:
            scores = [learned(model, x, test_rows, args.learn, args.batch) for model in models.values()]
            print(f"| {hidden} | {gaussian:.2f} | {scores[0]:.2f} | {scores[1]:.2f} |", flush=True)
            continue
        for name, work in WORK.items():
            one, other = medians(work, models, x[: args.batch], args.repeats)
            print(f"| {hidden} | {name} | {one:.1f} | {other:.1f} | {other / one:.2f} |")


if __name__ == "__main__":
    main()
