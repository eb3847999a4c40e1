"""How accurate is the annealed estimate of log p(observed cells), and what does it cost? One command, one table.

    python benchmarks/likelihood.py [--rows 200] [--threads 1] [--particles 128]
    python benchmarks/likelihood.py --run RUN --data COMPLETE_TABLE [--rows 100] [--holes 1 3 7] [--seeds 4]

Black boxes: factor analysis and a Gaussian mixture with 43 columns and 20 holes a row (exact value: the models' own
marginals), with proposals from the joint mixture; and flows with 2 and 3 columns, fitted here to a ring and a curved
sheet (exact value: quadrature). Errors are in nats a row; `z` is the mean error over its standard error.

With --run, the flow of a run on rows of a table, of each of which so many cells are hidden, in eight dequantisation
draws: with the default budget (mean over seeds) against quadrature (one hole) or a long run (256 steps and 512
particles for every row), whose own Monte Carlo error is in the standard error of the difference; CPU seconds of both.
"""

from __future__ import annotations

import argparse
import math
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from torch import Tensor

from vgi_cli.encoding.encoder import log_volume
from vgi_cli.evaluation.likelihood.estimate import observed_log_prob, prepared
from vgi_cli.evaluation.likelihood.ladder import Budget
from vgi_cli.evaluation.likelihood.loglik import log_mean
from vgi_cli.evaluation.likelihood.units import Encoded, data_log_prob
from vgi_cli.fitting.fitted import FittedTable, load_run
from vgi_cli.fitting.rows import read, rows_of
from vgi_cli.layout import Layout
from vgi_cli.maths.noise import mix64
from vgi_cli.models.base import Marginal, Model, ModelConfig
from vgi_cli.models.flows.coupling import Flow, FlowConfig
from vgi_cli.models.gaussian.fa import FactorAnalysis
from vgi_cli.models.gaussian.mixture import GaussianMixture
from vgi_cli.reporting import Silent


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


# -- a run, against quadrature and long runs --------------------------------------------------------------------------

DRAWS = 8
LONG = Budget(particles=512, pilot=16, spread=1e-9, simulated=0)
"""No row is content with less than the longest path."""


def with_holes(fitted: FittedTable, file: Path, rows: int, holes: int) -> tuple[list[Encoded], Tensor, Tensor]:
    """Dequantisation draws of rows with so many holes each, the holes, and keys."""
    table = read([str(file)], None, fitted.recipe.table)
    g = torch.Generator().manual_seed(holes)
    order = torch.randperm(table.N, generator=g)[:rows]
    draws, missing = [], torch.zeros(0)
    for number in range(DRAWS):
        found = rows_of(table, fitted.schema, 0, draw=number).table
        if number == 0:
            missing = torch.rand(rows, found.D, generator=g).argsort(1).argsort(1) < holes
            assert not bool(found.missing[order].any()), "the table has holes"
        x = found.x[order]
        draws.append(Encoded(x.masked_fill(missing, 0.0).float(), log_volume(missing, x, fitted.schema)))
    return draws, missing, mix64(order)


def integrated(model: Model, draws: list[Encoded], missing: Tensor, limit: float = 8.0, n: int = 4001) -> Tensor:
    """log p(observed cells) of rows with one hole, by the trapezium rule in every dequantisation draw."""
    t, step = torch.linspace(-limit, limit, n), 2 * limit / (n - 1)
    out = []
    for x, volume in draws:
        values = []
        for row, hole in zip(x, missing.int().argmax(1).tolist(), strict=True):
            cells = row.repeat(n, 1)
            cells[:, hole] = t
            values.append(model.log_prob(cells).double().logsumexp(0) + math.log(step))
        out.append(torch.stack(values) + volume)
    return log_mean(torch.stack(out))


@torch.no_grad()
def against_long_runs(run: Path, file: Path, rows: int, holes: list[int], seeds: int) -> None:
    """The table of `--run`."""
    fitted = load_run(run, Silent())
    model, q = fitted.model, fitted.conditionals
    budget = Budget(simulated=0)
    annealer = prepared(model, q, torch.zeros(1), budget, 0)
    head = (
        "holes",
        "rows",
        "reference",
        "difference",
        "se",
        "ess",
        "at limit",
        "evaluations a row",
        "CPU s",
        "its CPU s",
    )
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for count in holes:
        draws, missing, keys = with_holes(fitted, file, rows, count)
        start = time.process_time()
        if count == 1:
            name, exact, noise = "quadrature", integrated(model, draws, missing), 0.0
        else:
            long = data_log_prob(model, annealer, draws, missing, budget=LONG, seed=99, rows=keys)
            assert long.ess is not None
            name, exact = "long run", long.values
            noise = float((1 / long.ess - 1 / long.particles).sum()) / rows**2
        its = time.process_time() - start
        start = time.process_time()
        found = [
            data_log_prob(model, annealer, draws, missing, budget=budget, seed=seed, rows=keys) for seed in range(seeds)
        ]
        spent = (time.process_time() - start) / seeds
        error = torch.stack([each.values for each in found]).mean(0) - exact
        noise += sum(float((1 / each.ess - 1 / each.particles).sum()) for each in found) / (rows * seeds) ** 2
        ess, work = torch.stack([each.ess for each in found]), [each.work for each in found]
        cells = (
            f"{count}",
            f"{rows}",
            name,
            f"{error.mean():+.4f}",
            f"{math.sqrt(noise):.4f}",
            f"{ess.mean():.0f}",
            f"{sum(int(each.limited.sum()) for each in work) / seeds:.1f}",
            f"{sum(float(each.evaluations.double().mean()) for each in work) / seeds:.0f}",
            f"{spent:.1f}",
            f"{its:.1f}",
        )
        print("| " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--particles", type=int, nargs="+", default=[128])
    parser.add_argument("--run", type=Path)
    parser.add_argument("--data", type=Path, help="a table without holes, for --run")
    parser.add_argument("--holes", type=int, nargs="+", default=[1, 3, 7])
    parser.add_argument("--seeds", type=int, default=4)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    if arguments.run is not None:
        against_long_runs(arguments.run, arguments.data, arguments.rows, arguments.holes, arguments.seeds)
        return
    head = ("case", "particles", "mean error", "z", "rms", "largest", "ess", "half", "bracket", "warned", "CPU s")
    print("| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for make in cases(arguments.rows):
        case = make()
        for particles in arguments.particles:
            start = time.process_time()
            result = observed_log_prob(case.model, None, case.x, case.missing, budget=Budget(particles=particles))
            seconds = time.process_time() - start
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
