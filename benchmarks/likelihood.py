"""How accurate is the annealed estimate of log p(observed cells), and what does it cost? One command, one table.

    python benchmarks/likelihood.py [--rows 200] [--threads 1] [--particles 64 256]

Black boxes: factor analysis and a Gaussian mixture with 43 columns and 20 holes a row (exact value: the models' own
marginals), with proposals from the joint mixture; and flows with 2 and 3 columns, fitted here to a ring and a curved
sheet (exact value: quadrature). Errors are in nats a row; `z` is the mean error over its standard error.
"""

from __future__ import annotations

import argparse
import math
import os
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from torch import Tensor

from vgi_cli.evaluation.likelihood.estimate import Budget, observed_log_prob
from vgi_cli.layout import Layout
from vgi_cli.models.base import Marginal, Model, ModelConfig
from vgi_cli.models.flows.coupling import Flow, FlowConfig
from vgi_cli.models.gaussian.fa import FactorAnalysis
from vgi_cli.models.gaussian.mixture import GaussianMixture


class BlackBox(Model):
    """A model of which only log p(x) and draws can be seen."""

    Config = ModelConfig

    def __init__(self, inner: Model) -> None:
        super().__init__()
        self.inner = inner

    @classmethod
    def build(cls, config: Any, D: int) -> BlackBox:
        raise NotImplementedError("wraps a model")

    def initialise(self, x: Tensor, generator: torch.Generator) -> None:
        self.inner.initialise(x, generator)

    def log_prob(self, x: Tensor) -> Tensor:
        return self.inner.log_prob(x)

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        return self.inner.sample(n, generator)


class Case(NamedTuple):
    name: str
    model: Model
    x: Tensor
    missing: Tensor
    exact: Tensor


def rows_and_holes(model: Model, rows: int, D: int, holes: Tensor, g: torch.Generator) -> tuple[Tensor, Tensor]:
    missing = torch.rand(rows, D, generator=g).argsort(1).argsort(1) < holes
    return model.sample(rows, g).masked_fill(missing, 0.0), missing


def closed_form(name: str, model: Marginal, rows: int, g: torch.Generator) -> Case:
    """A model with exact marginals, perturbed from its initial state on correlated data, as a black box."""
    x, missing = rows_and_holes(model, rows, 43, torch.tensor(20), g)
    with torch.no_grad():
        return Case(name, BlackBox(model), x, missing, model.marginal_log_prob(x, missing))


def correlated(n: int, D: int, parts: int, g: torch.Generator) -> Tensor:
    """Rows from `parts` Gaussians with four common factors each."""
    out = []
    for _ in range(parts):
        F = torch.randn(D, 4, generator=g, dtype=torch.float64)
        shift = torch.randn(D, generator=g, dtype=torch.float64) * (parts > 1)
        noise = torch.randn(n // parts, D, generator=g, dtype=torch.float64)
        out.append(shift + torch.randn(n // parts, 4, generator=g, dtype=torch.float64) @ F.mT + 0.7 * noise)
    return torch.cat(out)


def curved(n: int, D: int, g: torch.Generator) -> Tensor:
    """A noisy ring; the third column is a parabola of the first."""
    angle = 2 * math.pi * torch.rand(n, generator=g, dtype=torch.float64)
    ring = 1.5 * torch.stack([angle.cos(), angle.sin()], 1)
    ring += 0.2 * torch.randn(n, 2, generator=g, dtype=torch.float64)
    sheet = ring[:, :1].square() - 1 + 0.3 * torch.randn(n, 1, generator=g, dtype=torch.float64)
    return torch.cat([ring, sheet], 1)[:, :D]


def fitted_flow(D: int, g: torch.Generator, steps: int = 400) -> Flow:
    flow = Flow.build(FlowConfig(steps=3, hidden=32), Layout.plain(D)).double()
    x = curved(4000, D, g)
    flow.initialise(x, g)
    optimiser = torch.optim.Adam(flow.parameters(), 3e-3)
    for _ in range(steps):
        loss = -flow.log_prob(x[torch.randint(len(x), (256,), generator=g)]).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return flow.eval()


def by_quadrature(name: str, flow: Flow, rows: int, D: int, g: torch.Generator, limit: float = 6.0) -> Case:
    """log p(x_obs) by the trapezium rule, 2,401 points for one hole and 601 x 601 for two."""
    holes = torch.randint(1, D, (rows, 1), generator=g)
    x, missing = rows_and_holes(flow, rows, D, holes, g)
    exact = []
    for row, absent in zip(x, missing, strict=True):
        index = absent.nonzero()[:, 0]
        t = torch.linspace(-limit, limit, 2401 if len(index) == 1 else 601, dtype=torch.float64)
        grid = torch.cartesian_prod(*[t] * len(index)).view(-1, len(index))
        cells = row.repeat(len(grid), 1)
        cells[:, index] = grid
        with torch.no_grad():
            parts = torch.cat([flow.log_prob(c) for c in cells.split(65_536)])
        exact.append(parts.logsumexp(0) + len(index) * (t[1] - t[0]).log())
    return Case(name, flow, x, missing, torch.stack(exact))


def cases(rows: int) -> Iterator[Callable[[], Case]]:
    def fa() -> Case:
        g = torch.Generator().manual_seed(0)
        model = FactorAnalysis.build(FactorAnalysis.Config(factors=4), Layout.plain(43)).double()
        return closed_form("fa, 43 columns, 20 holes", fit_em_like(model, correlated(4000, 43, 1, g), g), rows, g)

    def mixture() -> Case:
        g = torch.Generator().manual_seed(1)
        model = GaussianMixture.build(GaussianMixture.Config(components=4), Layout.plain(43)).double()
        return closed_form("mixture, 43 columns, 20 holes", fit_em_like(model, correlated(4000, 43, 4, g), g), rows, g)

    yield fa
    yield mixture
    for D in (2, 3):

        def flow(D: int = D) -> Case:
            g = torch.Generator().manual_seed(D)
            return by_quadrature(f"flow, {D} columns", fitted_flow(D, g), min(rows, 50), D, g)

        yield flow


def fit_em_like(model: Any, x: Tensor, g: torch.Generator) -> Any:
    """A few gradient steps on complete rows: parameters that are neither the initial ones nor degenerate."""
    model.initialise(x, g)
    optimiser = torch.optim.Adam(model.parameters(), 2e-2)
    for _ in range(150):
        loss = -model.log_prob(x[torch.randint(len(x), (512,), generator=g)]).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return model.eval()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--particles", type=int, nargs="+", default=[64, 256])
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    head = ("case", "particles", "mean error", "z", "rms", "largest", "ess", "half", "bracket", "warned", "seconds")
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for make in cases(arguments.rows):
        case = make()
        for particles in arguments.particles:
            start = time.perf_counter()
            result = observed_log_prob(case.model, None, case.x, case.missing, budget=Budget(particles=particles))
            seconds = time.perf_counter() - start
            error = result.values - case.exact
            assert result.ess is not None and result.half_budget is not None and result.bracket is not None
            z = float(error.mean() / (error.std() / math.sqrt(len(error))))
            cells = (
                case.name,
                f"{particles}",
                f"{error.mean():+.4f}",
                f"{z:+.1f}",
                f"{error.square().mean().sqrt():.4f}",
                f"{error.abs().max():.3f}",
                f"{result.ess.mean():.0f}",
                f"{(result.half_budget - case.exact).mean():+.4f}",
                f"{result.bracket.upper - result.bracket.lower:.4f}",
                "yes" if result.warning else "no",
                f"{seconds:.1f}",
            )
            print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
