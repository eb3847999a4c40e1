"""Bootstrap refits: the parameter uncertainty of proper multiple imputation (Little and Rubin 2002, section 10.2).

Each refit climbs the same penalised objective with other row weights (where that has a target, it is made of the rows
of the refit). Rows weigh as often as they were drawn with replacement (`multinomial`), or by a flat Dirichlet law
(`bayesian`, Rubin 1981), which is smooth and leaves no row out, where a sample might leave out all that says something:
a column of few cells, a level of few rows that shifts numbers.

Where a refit starts. A likelihood with one top (one component) is climbed from the fitted parameters. That of a mixture
has many, and which one EM finds is uncertainty too: its refits start anew, from the bootstrap rows with their holes
filled by a draw under the fitted model (that draw is the warm part: no quick Gaussian fit is needed). Measured on real
tables this is what brings the coverage of a mixture's imputations to its nominal value, and it lowers their CRPS as any
averaging over unstable fits does (docs/research/defaults.md).

Rounded cells are drawn anew within their rounding from the fitted model, before each refit: where in their cells they
lie is as unknown as the holes are.

When it ends. One standard error of one parameter is worth half a nat of the whole table's log-likelihood, whatever the
number of rows: a tolerance a row, as a fit has, would leave refits of large tables where they started. So a refit has
settled when its last steps gain less than TOLERANCE nats a parameter in all; in a hundredth of a standard error's
distance the rest is worth 5e-5. A refit that starts anew ends at one top of many, and which one moves it by whole nats
a parameter: it has settled at ANEW_TOLERANCE.

What it costs. The gap between fit and refits falls as 1 / sqrt(N), as every standard error does: no table is too large
to need them. But it need not be found from all rows. With m of N rows, drawn with replacement and of weight N / m, the
refit is sqrt(N / m) times as far from the fit as with all rows, and as far when that gap is shrunk (the m out of n
bootstrap of a smooth estimate: Bickel, Goetze and van Zwet 1997). So beyond MOST_ROWS, and between FEWEST_ROWS and that
where rows are dear, a refit is that of m rows, from the fitted parameters, its gap times sqrt(m / N). It takes more
rows where a column would keep fewer than CELLS observed cells. A mixture of that many rows is no longer started anew:
of two tops, the gap cannot be shrunk. For the same reason refits of two kinds (`GaussianFamily.take_turn`) are made of
all rows only.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from vgi_cli.completers.base import ask, never
from vgi_cli.data import Rounding, TensorTable
from vgi_cli.maths.noise import KeyedNoise, numbered
from vgi_cli.maths.selection import pairs_apart
from vgi_cli.methods.em.em import EmConfig, redraws_of
from vgi_cli.methods.em.steps import settle
from vgi_cli.models.gaussian.family import EmTable, FilledRows, GaussianFamily, em_table
from vgi_cli.models.gaussian.gaussians import Penalty
from vgi_cli.models.gaussian.rounded import redrawn_table

Kind = Literal["multinomial", "bayesian"]

WORK, MOST_WORK = 3e9, 1e10
"""Multiplications of a refit: of one of USUAL_STEPS, and at most. Counted, never timed: the latter are some two seconds
on one core in compiled loops."""
PASSES = 100
"""What an EM step does with each cell and component beside products of matrices, in multiplications that take as
long."""
FEWEST_STEPS, USUAL_STEPS, MOST_STEPS = 12, 25, 500
"""EM steps of a refit: as many as MOST_WORK allows within the outer two; rows are given up for the middle one. Most
refits settle before."""
FEWEST_ROWS, MOST_ROWS = 5_000, 10_000
CELLS = 200
"""A column keeps so many observed cells in a refit, where it has them."""
SCARCE = 30
"""A column with fewer may be left without any in a resample: rows are then reweighted smoothly."""
SCARCE_LEVEL = 10
"""Rows of a level that shifts numbers, with fewer of which the same holds. Without any its shift would be 0, and what
is nearly constant in its rows, the age of a subject, would speak for fills that are many times too far out."""
TOLERANCE, ANEW_TOLERANCE = 1e-4, 1e-3
"""Nats for each free parameter, over the last steps of a refit; of one that starts anew."""
APART = 20
"""EM steps, each from columns that are independent where they are never observed together, after those that settle: an
ascent goes where it will along what no row says, and the others go with it."""
ROWS = 512
"""Rows that are filled at a time: bounds the memory of their conditionals."""


class Size(NamedTuple):
    """What a refit may take: rows, EM steps, and the law of its weights."""

    rows: int
    steps: int
    kind: Kind


class Refit(NamedTuple):
    """The parameters of a refit (state_dict, float64), and whether it had settled when it ended."""

    parameters: dict[str, Tensor]
    settled: bool


def size_of(model: GaussianFamily, missing: Tensor) -> Size:
    """The size of the refits of a model on rows with holes [N, D]; a pure function of sizes and counts."""
    N = len(missing)
    each = model.gaussians.work(missing) + PASSES * model.gaussians.cells(missing)
    scarcest = max(int((~missing).sum(0).min()), 1)
    rows = min(max(int(WORK / (USUAL_STEPS * each)), FEWEST_ROWS), MOST_ROWS)
    rows = min(max(rows, -(-N * CELLS // max(scarcest, CELLS))), N)
    steps = min(max(int(MOST_WORK / (rows * each)), FEWEST_STEPS), MOST_STEPS)
    scarce = scarcest < SCARCE or (rows == N and N * model.scarcest_level < SCARCE_LEVEL)
    return Size(rows, steps, "bayesian" if scarce else "multinomial")


def row_weights(N: int, kind: Kind, generator: torch.Generator, rows: int | None = None) -> Tensor:
    """Weights [N] of one bootstrap sample, with mean 1: `rows` draws (None: N) of weight N / rows, or all rows."""
    if kind == "multinomial":
        drawn = torch.randint(N, (N if rows is None else rows,), generator=generator)
        return torch.bincount(drawn, minlength=N).to(torch.float64) * (N / len(drawn))
    draws = -torch.log1p(-torch.rand(N, dtype=torch.float64, generator=generator))
    return draws / draws.mean()


@dataclass(frozen=True)
class Sampled:
    """A fitted model, and the rows of which its refits have samples.

    table      its rows that are used, float64
    size       of the refits
    penalty    of the likelihood
    base       the rows as EM takes them, with their own weights
    rounding   of wide cells whose places are drawn anew; None: there are none
    apart      [pairs, 2] columns that are never observed together
    tolerance  nats a free parameter; None: TOLERANCE, or ANEW_TOLERANCE
    stop       asked between steps: GivenUp where it is true
    """

    fitted: GaussianFamily
    table: TensorTable
    size: Size
    penalty: Penalty
    base: EmTable
    rounding: Rounding | None
    apart: Tensor
    tolerance: float | None
    stop: Callable[[], bool]

    @classmethod
    def of(
        cls,
        model: GaussianFamily,
        table: TensorTable,
        config: EmConfig,
        *,
        size: Size | None = None,
        tolerance: float | None = None,
        stop: Callable[[], bool] = never,
    ) -> Sampled:
        """That of a fitted model, which is left alone, and a table, whose rows that are not used do not enter. Where
        rows have weights, those of a sample come on top.

        size       None: `size_of`
        tolerance  nats a free parameter; None: TOLERANCE, or ANEW_TOLERANCE
        stop       asked between steps: where it is true, the refit under way is given up
        """
        table = table.rows(table.used).to(dtype=torch.float64)
        fitted = copy.deepcopy(model).double()
        return cls(
            fitted,
            table,
            size_of(fitted, table.missing) if size is None else size,
            penalty=fitted.penalty(config.pooling, config.floor),
            base=em_table(table.x, table.missing, table.relative_weight, table.scratch),
            rounding=table.rounding if redraws_of(config, fitted, table) else None,
            apart=pairs_apart(table.missing),
            tolerance=tolerance,
            stop=stop,
        )

    @property
    def several(self) -> bool:
        """Whether the model has several components."""
        return self.fitted.gaussians.K > 1

    @property
    def all_rows(self) -> bool:
        """Whether a sample has as many rows as there are."""
        return self.size.rows >= self.table.N

    def refit(self, generator: torch.Generator, before: int) -> Refit:
        """The model refitted to a sample of the rows; `before`: how many refits of it came before. GivenUp where `stop`
        says so."""
        with torch.inference_mode():
            refit, settled = self._refitted(generator, before)
        return Refit({name: value.clone() for name, value in refit.state_dict().items()}, settled)

    def _refitted(self, generator: torch.Generator, before: int) -> tuple[GaussianFamily, bool]:
        """As `refit`: the model, and whether it has settled."""
        ask(self.stop)
        refit = copy.deepcopy(self.fitted)
        weights = self._weights(generator)
        anew = self.all_rows and (refit.take_turn(before) or self.several)
        if anew:
            self._begin_anew(refit, weights, generator)
        least = ANEW_TOLERANCE if anew and self.several else TOLERANCE
        sample = self._sample(weights, generator)
        settled = settle(
            refit,
            sample,
            self.penalty,
            steps=self.size.steps,
            tolerance=(least if self.tolerance is None else self.tolerance) * refit.free_parameters(),
            refine=(self.several or refit.aimed) and self.all_rows,
            each=lambda _: ask(self.stop),
        )
        for _ in range(APART if len(self.apart) else 0):
            ask(self.stop)
            refit.separate(self.apart)
            refit.em_step(sample, self.penalty)
        refit.restore_noise(self.table.missing)
        refit.separate(self.apart)
        if not self.all_rows:
            refit.shrink_to(self.fitted, math.sqrt(self.size.rows / self.table.N))
        return refit, settled

    def _weights(self, generator: torch.Generator) -> Tensor:
        """[N] how the rows count in a sample, with their own weights."""
        N, own = self.table.N, self.table.relative_weight
        weights = row_weights(N, self.size.kind, generator, min(self.size.rows, N))
        return weights if own is None else weights * own

    def _begin_anew(self, refit: GaussianFamily, weights: Tensor, generator: torch.Generator) -> None:
        """Let a refit begin with rows of its sample, filled by the fitted model, not with the fitted parameters."""
        seed = int(torch.randint(2**62, (), generator=generator))
        drawn = torch.multinomial(weights, self.table.N, replacement=True, generator=generator)
        rows = filled(self.fitted, self.table.x, self.table.missing, seed)[drawn]
        refit.initialise_filled(FilledRows(rows, self.table.missing[drawn], drawn), generator)

    def _sample(self, weights: Tensor, generator: torch.Generator) -> EmTable:
        """The rows with the weights of a sample, wide cells at places that are drawn anew."""
        table = self.base.reweighted(weights)
        if self.rounding is None:
            return table
        return redrawn_table(self.fitted, table, self.rounding, int(torch.randint(2**62, (), generator=generator)))


def filled(model: GaussianFamily, x: Tensor, missing: Tensor, seed: int) -> Tensor:
    """[N, D] the rows x with their holes (missing [N, D]) filled by a draw under the model."""
    parts = []
    for start in range(0, x.shape[0], ROWS):
        rows = torch.arange(start, min(start + ROWS, x.shape[0]))
        noise = KeyedNoise(seed, numbered("column", x.shape[1]), rows, torch.tensor([0]), "restart")
        parts.append(model.conditional(x[rows], missing[rows]).sample(noise)[0])
    return torch.cat(parts)
