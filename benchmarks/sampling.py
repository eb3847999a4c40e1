"""Are the draws of `vgi impute` draws from the fitted model, and what do they cost?

    python benchmarks/sampling.py --run RUN --table TABLE [--rows 200] [--hidden 0.2 0.5] [--draws 19]
    python benchmarks/sampling.py --toy

RUN is a fit by `vgi` of a flow, TABLE one with its columns. Three kinds of rows:

- simulated: drawn from the model, a share of the cells hidden: what was hidden is an exact draw;
- table: the rows of TABLE with their own holes, filled as `vgi impute` fills them;
- hidden: the same rows with a share of all cells hidden as well.

Two rules: `now`, and `sweeps`, that of before (single cells, max(20, holes) sweeps). Chains of the reference are five
times as long, with four single cells more a round, and start at the exact draws where there are any. Printed:

- cells per CPU second on one thread, without what is measured once a run;
- energy: the energy distance of draws and reference within a row, averaged over rows, over its standard error; by a
  column's normal scores, so that no outlier decides. Beyond 3 it is no noise. `size` is the distance as a share of
  the mean distance between two reference draws;
- rank p: one hidden cell a row, the rank of one reference draw (the exact one, in simulated rows) among the draws: p
  value of uniform ranks by chi-square, the same for log p, whose ranks look at all holes together.

`--toy` is a table of two clusters whose columns agree in sign, so that single cells hardly pass from one to the other.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import scipy.stats
import torch
from torch import Tensor

from vgi_cli import fit
from vgi_cli.encoding.encoder import box
from vgi_cli.fitting.fitted import FittedTable, load_run
from vgi_cli.fitting.rows import rows_of
from vgi_cli.maths.noise import KeyedNoise, mix64
from vgi_cli.reporting import Silent
from vgi_cli.samplers.base import Box, Imputer, SamplerInput, impute
from vgi_cli.samplers.lengths import Lengths
from vgi_cli.samplers.metropolis import MetropolisImputer, build
from vgi_cli.samplers.starts import Start, start_of
from vgi_cli.samplers.together import Together
from vgi_cli.table.reader import read_table

LONGER, MORE_CELLS = 5, 4
BINS = 10


class Rows(NamedTuple):
    """Rows x [R, D] with holes missing [R, D], their keys, and the rows that were hidden where these are exact."""

    x: Tensor
    missing: Tensor
    keys: Tensor
    truth: Tensor | None = None


class Given(Start):
    """Every chain starts at the row that was hidden."""

    def __init__(self, truth: Tensor, keys: Tensor) -> None:
        self._sorted, self._order = keys.sort()
        self._truth = truth

    def states(self, x: Tensor, missing: Tensor, noise: KeyedNoise, box: Box) -> Tensor:
        place = torch.searchsorted(self._sorted, noise.rows).clamp(max=len(self._sorted) - 1)
        own = self._truth[self._order[place]]
        return torch.where(missing, own, x).expand(len(noise.draws), -1, -1).clone()


class Longer(Together):
    """The chains of another, five times as long."""

    def __init__(self, other: Together) -> None:
        self._other = other

    def moves(self, device: torch.device) -> Any:
        return self._other.moves(device)

    def lengths(self, box: Box) -> Lengths:
        lengths = self._other.lengths(box)
        longer = Lengths(lambda holes: (), 1)

        def of(holes: Tensor) -> tuple[Tensor, Tensor]:
            rounds, cells = lengths.of(holes)
            return LONGER * rounds, cells + MORE_CELLS

        longer.of = of  # type: ignore[method-assign]
        return longer

    def summary(self) -> dict[str, object]:
        return {}


def samplers(fitted: FittedTable, rows: Rows) -> dict[str, Imputer]:
    """By each rule, and the reference."""
    q = fitted.conditionals
    assert q is not None
    inputs = SamplerInput((fitted.model,), fitted.layout, q, fitted.held)
    now, start = build(inputs), start_of(inputs)
    assert isinstance(now, MetropolisImputer) and now._together is not None
    begin = start if rows.truth is None else Given(rows.truth, rows.keys)
    return {
        "now": now,
        "sweeps": MetropolisImputer(fitted.model, q, start),
        "reference": MetropolisImputer(fitted.model, q, begin, together=Longer(now._together)),
    }


def scores(fitted: FittedTable) -> Any:
    """A column's normal scores, by 4,000 rows of the model."""
    drawn = fitted.model.sample(4_000, torch.Generator().manual_seed(3)).sort(0).values

    def of(x: Tensor) -> Tensor:
        ranks = [torch.searchsorted(drawn[:, i].contiguous(), x[..., i].contiguous()) for i in range(x.shape[-1])]
        return torch.special.ndtri((torch.stack(ranks, -1).double() + 0.5) / 4_001)

    return of


def energy(a: Tensor, b: Tensor) -> tuple[float, float]:
    """The energy distance of draws [n, R, D] within rows over its standard error over rows, and as a share of the mean
    distance of two draws of b."""
    between = torch.stack([(a[i] - b[j]).norm(dim=1) for i in range(len(a)) for j in range(len(b))]).mean(0)
    within = [torch.stack([(c[i] - c[j]).norm(dim=1) for i in range(len(c)) for j in range(i)]).mean(0) for c in (a, b)]
    distance = 2 * between - within[0] - within[1]
    return float(distance.mean() / (distance.std() / len(distance) ** 0.5)), float(distance.mean() / within[1].mean())


def uniform(value: Tensor, draws: Tensor) -> float:
    """p value of uniform ranks of values [R] among draws [n, R]; equal ones (levels) in random order."""
    u = torch.rand(value.shape, generator=torch.Generator().manual_seed(5))
    ranks = (draws < value).sum(0) + ((draws == value).sum(0) + 1) * u
    counts = np.histogram(ranks.numpy() / (len(draws) + 1), bins=BINS, range=(0, 1))[0]
    return float(scipy.stats.chisquare(counts).pvalue)


def one_kind(fitted: FittedTable, name: str, rows: Rows, draws: int) -> None:
    """The lines of one kind of rows."""
    some = rows.missing.any(1)
    rows = Rows(rows.x[some], rows.missing[some], rows.keys[some], None if rows.truth is None else rows.truth[some])
    ranges = box(fitted.schema)
    inside = Box(ranges.low.to(rows.x), ranges.high.to(rows.x))
    noise = KeyedNoise(0, fitted.schema.modelled, rows.keys, torch.arange(draws))
    made: dict[str, Tensor] = {}
    seconds = {}
    for rule, imputer in samplers(fitted, rows).items():
        own = noise if rule != "reference" else KeyedNoise(1, noise.columns, noise.rows, noise.draws)
        if rule == "now":
            impute(imputer, rows.x, rows.missing, noise.select(draws=torch.arange(1)), inside)  # measures lengths
        started = time.process_time()
        made[rule] = impute(imputer, rows.x, rows.missing, own, inside)
        seconds[rule] = time.process_time() - started
    score = scores(fitted)
    reference = made.pop("reference")
    exact = reference[0] if rows.truth is None else rows.truth
    pick = torch.where(rows.missing, torch.rand(rows.missing.shape, generator=torch.Generator().manual_seed(4)), -1)
    cell = pick.argmax(1)
    row = torch.arange(len(cell))
    cells = int(rows.missing.sum()) * draws
    with torch.no_grad():
        exact_p = fitted.model.log_prob(exact)
        for rule, drawn in made.items():
            far, size = energy(score(drawn), score(reference))
            cell_p = uniform(exact[row, cell], drawn[:, row, cell])
            p = uniform(exact_p, torch.stack([fitted.model.log_prob(x) for x in drawn]))
            print(
                f"| {name} | {len(cell)} | {cells / draws / len(cell):.1f} | {rule} | {cells / seconds[rule]:.0f} "
                f"| {far:.1f} | {size:.4f} | {cell_p:.3f} | {p:.3f} |",
                flush=True,
            )


def compare(run: Path, table: Path, count: int, hidden: list[float], draws: int) -> None:
    """All kinds of rows of a run."""
    fitted = load_run(run, Silent())
    dtype = next(fitted.model.parameters()).dtype
    read = rows_of(read_table([table]), fitted.schema, fitted.recipe.seed)
    x, missing, keys = read.table.x.to(dtype)[:count], read.table.missing[:count], read.keys[:count]
    print("| rows | number | holes | rule | cells/s | energy | size | rank p | rank p of log p |")
    print("|---|--:|--:|---|--:|--:|--:|--:|--:|", flush=True)
    one_kind(fitted, "table", Rows(x, missing, keys), draws)
    ranges = box(fitted.schema)
    inside = Box(ranges.low.to(x), ranges.high.to(x))
    for share in hidden:
        generator = torch.Generator().manual_seed(7)
        drawn = fitted.model.sample(4 * count, generator)
        drawn = drawn[inside.contains(drawn).all(1)][:count]
        holes = torch.rand(drawn.shape, generator=generator) < share
        new = mix64(torch.arange(len(drawn)))
        one_kind(fitted, f"simulated, {share:.0%}", Rows(drawn.masked_fill(holes, 0.0), holes, new, drawn), draws)
        more = missing | (torch.rand(x.shape, generator=generator) < share)
        one_kind(fitted, f"hidden, {share:.0%}", Rows(x.masked_fill(more, 0.0), more, keys), draws)


def toy(folder: Path) -> tuple[Path, Path]:
    """A run and a table of two clusters in six columns, a third of the cells missing."""
    rng = np.random.default_rng(0)
    sign = np.where(rng.random((2_000, 1)) < 0.5, -1.0, 1.0)
    x = pd.DataFrame(2.5 * sign + 0.5 * rng.normal(size=(2_000, 6)), columns=[f"x{i}" for i in range(6)]).round(5)
    table = folder / "toy.csv"
    x.mask(rng.random(x.shape) < 1 / 3).to_csv(table, index=False)
    fit(table, model="flow", set={"bootstrap": "none"}, seed=1, threads=1, out=folder / "run")
    return folder / "run", table


def main() -> None:
    """Parse, measure, print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path)
    parser.add_argument("--table", type=Path)
    parser.add_argument("--toy", action="store_true")
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument("--hidden", type=float, nargs="*", default=[0.2, 0.5])
    parser.add_argument("--draws", type=int, default=19)
    args = parser.parse_args()
    if not args.toy and (args.run is None or args.table is None):
        parser.error("give --run and --table, or --toy")
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        run, table = toy(Path(name)) if args.toy else (args.run, args.table)
        compare(run, table, args.rows, args.hidden, args.draws)


if __name__ == "__main__":
    main()
