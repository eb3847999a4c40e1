"""Exact EM on incomplete tables, for factor analysis and mixtures of Gaussians (times forests of levels).

What it climbs is the log-likelihood of the observed cells plus a penalty that keeps it bounded (an unpenalised mixture
has infinite likelihood at a component on one point; a factor model may drive a noise variance to 0, a Heywood case).
With s_j, m_j the variance and mean of the observed cells of column j, in nats:

    sum_r w_r log p(x_obs of row r)
      full covariances S_k     - 1/2 sum_k [ nu (log|S_k| + tr S_k^-1 W) + lambda tr S_k^-1 diag(s)
                                             + kappa sum_j (mean_kj - m_j)^2 / s_j ]
                               + 1/2 [ (K nu + tau) log|W| - tau tr W diag(s)^-1 ],   maximised over W
      factors F_k, psi_k       the same with diag(psi_k) for S_k and diagonal W, and - 1/2 sum_k rho |psi_k^-1/2 F_k|^2
                               + alpha sum_k log pi_k
      tables T_k of levels     beta sum_k sum_cells q log (T_k / q)
      shifts B by levels       - 1/2 eta sum_j sum_levels B_j^2 / s_j, and the same of pairs of levels

Means are spread as N(m, diag(s) / kappa): a component in which a column is hardly observed has nothing else that says
where it lies in that column, and fills would be as far off as a slope through two of its cells leads. A step learns
them given the covariances so far (ECM, Meng and Rubin 1993). W is what the covariances have in common: nu (`pooling`)
says with how many rows' worth each is pulled to it (an inverse Wishart prior whose scale is fitted); tau is 1, and more
where the rows are few (`FullGaussians.anchor`). Where `model.shrink_to` says what W is made of, it is that, and stays
so while EM climbs; after some iterations it is made anew, by which the objective becomes another one
(models/gaussian/shrunk.py). `fa` keeps lambda alone. The broad components of a mixture (models/gaussian/widened.py)
have no such terms: their shape is fixed; their alpha is one row each (a tenth in mixed rows). In mixed rows q are the
conditional tables of all rows (Dirichlet priors of beta pseudo-rows for each row of a table); after some iterations the
forest and q are chosen anew by the rows as they then belong to the components, which is kept where the objective does
not fall. Where the levels shift the Gaussians (models/gaussian/shifted.py), a step learns the shifts B after means and
covariances and given these, from the same expectations (ECM too). Each EM step raises the objective; each iteration is
two EM steps and an extrapolation (SQUAREM, Varadhan and Roland 2008) that is kept only where the objective is not below
that of the step before, so that the sequence of objectives never falls, but where a target is made anew.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from vgi_cli.completers.base import never
from vgi_cli.data import Rounding, TensorTable, spread_rows
from vgi_cli.errors import FitError
from vgi_cli.maths.noise import mix64
from vgi_cli.maths.selection import pairs_apart
from vgi_cli.methods.base import EpochEnd, Events, Method, MethodConfig, Parts, PieceEnd, Standing, State
from vgi_cli.methods.em.steps import (
    NOT_BEGUN,
    Begun,
    Step,
    climb,
    em_step,
    is_refined,
    iteration_in_pieces,
    nothing,
    parameters_of,
)
from vgi_cli.methods.optimisation import StepFailed
from vgi_cli.methods.start import INITIAL_ROWS, gaussian_draws
from vgi_cli.models.base import Model
from vgi_cli.models.gaussian.family import EmTable, EmValue, FilledRows, GaussianFamily, Sums, em_table
from vgi_cli.models.gaussian.rounded import SWEEPS, redrawn_table
from vgi_cli.ranges import Epochs, Positive, PseudoRows, Redraws
from vgi_cli.ranks import Ranks

BEGUN = "iteration/"
"""What stands before the names of tensors that belong to an iteration under way."""
REDRAWS = 5
"""Rounds of redrawn cells: what correlations lack falls to about a half in each."""
ROUGH = 1e-3
"""Nats a row: a fit whose cells are still to be redrawn goes on with that when an iteration gains less."""
REDRAWN_WORK = 1e10
"""Multiplications that the redraws of a fit may take: beyond, cells stay spread evenly. Counted, never timed."""
EARLY, CELLS, EACH = 10_000, 200, 5
"""A fit to twice as many rows and more begins with so many; what a column and a level has to have among them."""
EARLY_ROUNDS = 2
"""How often rounded cells are then drawn anew in all rows, at most: the first time from what some rows have said."""
EARLY_EPOCHS, EARLY_TOLERANCE = 100, 0.1
"""Most iterations there, for each time that rounded cells are drawn, and the share of the tolerance."""
STARTING_CELLS = 1 << 20
"""Cells of the rows that a model starts from, where the table lies in files: bounds their memory."""


class EmConfig(MethodConfig):
    """Settings of EM.

    epochs      most iterations (each is up to three EM steps)
    tolerance   stop when an iteration gains less than this many nats a row; None: 1e-6 for `fa`, 1e-5 for `mixture`
    pooling     nu, pseudo-rows that pull each component's covariance to the common one; None: 2 (D + 2)
    floor       lambda, the variance floor; None: that of the covariances, `Gaussians.floor`
    accelerate  squared extrapolation on top of EM
    redraws     how often the places of cells within their rounding are drawn anew; 0: they stay spread evenly; None:
                REDRAWS where cells are wide, else 0
    """

    epochs: Epochs = 300
    tolerance: Positive | None = None
    pooling: PseudoRows | None = None
    floor: Positive | None = None
    accelerate: bool = True
    redraws: Redraws | None = None


class Nearness:
    """How near a climb is to convergence: the share of the way, on a logarithmic scale, from the first gain of an
    iteration to the tolerance, both in nats a row."""

    def __init__(self, tolerance: float) -> None:
        self._tolerance = tolerance
        self._first: float | None = None
        self.share = 0.0

    def add(self, gain: float) -> None:
        """An iteration gained so much (infinite: the first one, which has nothing to compare with)."""
        if not math.isfinite(gain):
            return
        self._first = gain if self._first is None else max(self._first, gain)
        whole = math.log(max(self._first / self._tolerance, 1.0))
        self.share = 1.0 if gain <= self._tolerance else max(self.share, math.log(self._first / gain) / whole)


def tolerance_of(config: EmConfig, model: GaussianFamily) -> float:
    """Nats a row: a climb ends when an iteration gains less."""
    return model.tolerance if config.tolerance is None else config.tolerance


def redraws_of(config: EmConfig, model: GaussianFamily, table: TensorTable) -> int:
    """How often the rounded cells of a table are drawn anew while a model is fitted to it: as the settings say, where
    there are such cells; a pure function of sizes."""
    if table.rounding is None:
        return 0
    if config.redraws is not None:
        return config.redraws
    work = float(table.N) * table.D**2 * model.gaussians.K * len(table.rounding.dims) * SWEEPS * REDRAWS
    return REDRAWS if work <= REDRAWN_WORK else 0


class Redrawing(NamedTuple):
    """How the rounded cells of a fit's rows are drawn anew: what they stand for, how often, and the seed."""

    rounding: Rounding
    rounds: int
    seed: int


class EmState(State):
    """Parameters, the last objective and how far the fit came: EM has no other memory, but within an iteration on many
    rows what it has summed of them (`begun`), and the cells that it has drawn anew (`rounds`: how often). `step`: one
    EM step. `gain`: of the last iteration, nats a row; None before it. `apart` [pairs, 2]: columns that are never
    observed together."""

    def __init__(
        self,
        model: GaussianFamily,
        table: EmTable,
        config: EmConfig,
        step: Step,
        redrawing: Redrawing | None,
        apart: Tensor,
    ) -> None:
        self.model: GaussianFamily = model
        self.step = step
        self.table = table
        self.config = config
        self.penalty = model.penalty(config.pooling, config.floor)
        self.tolerance = tolerance_of(config, model)
        self.epoch = 0
        self.epochs = config.epochs
        self.objective = torch.full((), -torch.inf, dtype=torch.float64)
        self.converged = False
        self.gain: float | None = None
        self.nearness = Nearness(self.tolerance)
        self.begun = NOT_BEGUN
        self.redrawing = redrawing
        self.apart = apart
        self.rounds = 0

    @property
    def rounds_to_come(self) -> int:
        """How often cells will be drawn anew."""
        return 0 if self.redrawing is None else self.redrawing.rounds - self.rounds

    def redraw(self) -> None:
        """Draw the rounded cells anew from the model, and go on from there."""
        assert self.redrawing is not None
        self.rounds += 1
        seed = int(mix64(torch.tensor(self.redrawing.seed + self.rounds)))
        self.table = redrawn_table(self.model, self.table, self.redrawing.rounding, seed)
        self.objective = torch.full_like(self.objective, -torch.inf)
        self.nearness = Nearness(self.tolerance)
        self.converged = False

    def divide(self, ranks: Ranks) -> None:
        """Keep a share of the rows, where several processes fit these rows; before the first step."""
        self.table = self.table.divided(ranks)
        ranks.agree(*self.model.state_dict().values())

    def chosen(self) -> dict[str, Any]:
        rounds = 0 if self.redrawing is None else self.redrawing.rounds
        return {"method.tolerance": self.tolerance, "method.pooling": self.penalty.pooling, "method.redraws": rounds}

    def parts(self) -> Parts:
        progress = torch.tensor([self.epoch, int(self.converged)], dtype=torch.int64)
        state = {"progress": progress, "objective": self.objective.clone()} | _tensors(self.begun)
        if self.redrawing is not None and self.rounds:
            cells = self.table.x[:, self.redrawing.rounding.dims]
            state |= {"rounds": torch.tensor(self.rounds), "rounded": cells.contiguous()}
        model = {k: v.detach().clone() for k, v in self.model.state_dict().items()}
        if self.begun.points:
            model |= parameters_of(self.model, self.begun.points[0])
        return {"model": model, "state": state}

    def restore(self, parts: Mapping[str, Mapping[str, Tensor]]) -> None:
        self.model.load_state_dict(dict(parts["model"]))
        self.epoch, converged = (int(v) for v in parts["state"]["progress"])
        self.converged = bool(converged)
        self.objective = parts["state"]["objective"].to(torch.float64).reshape(())
        self.begun = _begun(parts["state"])
        if self.redrawing is not None and "rounds" in parts["state"]:
            self.rounds = int(parts["state"]["rounds"])
            x = self.table.x if self.table.scratch is not None else self.table.x.clone()
            x[:, self.redrawing.rounding.dims] = parts["state"]["rounded"].to(x)
            self.table = self.table.at(x)

    def standing(self) -> Standing:
        """By how near the fit is to convergence; that it may be cut off by `epochs` comes on top."""
        near = (self.rounds + self.nearness.share) / (self.rounds + self.rounds_to_come + 1)
        share = max(near, self.epoch / max(self.epochs, 1))
        return Standing(1.0 if self.converged else share, self.epoch, None, "iterations")


def init(model: Model, table: TensorTable, config: EmConfig, generator: torch.Generator) -> EmState:
    """State before the first step of exact EM. Raises FitError when nothing is observed."""
    return begin(model, table, config, generator, em_step)


def begin(model: Model, table: TensorTable, config: EmConfig, generator: torch.Generator, step: Step) -> EmState:
    """EM works in float64, whatever the precision of the model so far; rows that are not used do not enter.

    Where the model starts: see `start`. Raises FitError when nothing is observed.
    """
    family = cast(GaussianFamily, model).double()
    used = table.used
    if len(used) == 0:
        raise FitError("no row has an observed cell", "EM needs at least one observed cell")
    table = table.rows(used)
    early = start(family, table, config, generator, early=step is em_step)
    rows = em_table(table.x, table.missing, table.relative_weight, table.scratch)
    redrawing = None
    if table.rounding is not None and (rounds := redraws_of(config, family, table)):
        redrawing = Redrawing(table.rounding, rounds, int(torch.randint(2**62, (), generator=generator)))
    state = EmState(family, rows, config, step, redrawing, pairs_apart(table.missing))
    if early and redrawing is not None:
        state.rounds = max(redrawing.rounds - EARLY_ROUNDS, 0)
        state.redraw()
    return state


def start(
    model: GaussianFamily,
    table: TensorTable,
    config: EmConfig,
    generator: torch.Generator,
    *,
    early: bool = True,
    each: Callable[[int], None] = nothing,
) -> bool:
    """Where a model begins, in place: at rows completed by draws under one Gaussian (of a table in files, at some of
    its rows: `starting_rows`). Of many rows (`early_rows`) it is fitted to some first: where an iteration costs little,
    it finds what these say, and all rows are left what they add to that (docs/research/benchmarks.md); True then, and
    the rounded cells of all rows are drawn from it before anything else. `early`: whether that may be; `each`: see
    `climb`."""
    some = early_rows(table) if early else None
    if some is None:
        rows = table if table.scratch is None else table.rows(spread_rows(table.N, starting_rows(table.D)))
        model.initialise_filled(FilledRows(completed(rows, generator), rows.missing), generator)
        return False
    few = table.rows(some)
    few = few._replace(x=few.x.to(torch.float64), scratch=None)
    model.initialise_filled(FilledRows(completed(few, generator), few.missing), generator)
    # Whatever `--epochs` says: a fit may be resumed.
    short = {"epochs": EARLY_EPOCHS, "tolerance": EARLY_TOLERANCE * tolerance_of(config, model)}
    climb_rounded(model, few, config.model_copy(update=short), generator, each)
    return True


def early_rows(table: TensorTable) -> Tensor | None:
    """Evenly spread rows, EARLY or twice as many and so on, in which each column has CELLS observed cells and each
    level EACH; None where that would be more than half of the rows."""
    count = EARLY
    while 2 * count <= table.N:
        rows = spread_rows(table.N, count)
        missing, x = table.missing[rows], table.x[rows]
        if int((~missing).sum(0).min()) >= CELLS and all(
            int(torch.bincount(x[~missing[:, j], j].long(), minlength=levels).min()) >= EACH
            for j, levels in enumerate(table.layout.level_counts)
            if levels
        ):
            return rows
        count *= 2
    return None


def starting_rows(D: int) -> int:
    """Of a table in files, the rows that a model starts from, evenly spread: a pure function of the dimensions."""
    return max(1, min(INITIAL_ROWS, STARTING_CELLS // D))


def completed(table: TensorTable, generator: torch.Generator) -> Tensor:
    """[N, D] float64: the rows with their holes filled by one draw under a quick Gaussian fit."""
    x = table.x.to(torch.float64, copy=True)
    x[table.missing] = gaussian_draws(table, 1, generator)[:, 0].to(x)
    return x


def run(state: EmState, stop: Callable[[], bool] = never) -> Events:
    """Iterate until an iteration gains less than the tolerance, or `state.epochs`."""
    rows = state.table.total
    while state.epoch < state.epochs and not state.converged:
        value = yield from _iteration(state)
        state.model.separate(state.apart)
        if not bool(torch.isfinite(value.objective)):
            raise StepFailed("the objective is no longer finite")
        gain = ((value.objective - state.objective) / rows).item()
        state.nearness.add(gain)
        state.gain = gain
        state.converged = gain < (max(ROUGH, state.tolerance) if state.rounds_to_come else state.tolerance)
        state.objective = value.objective
        state.epoch += 1
        if is_refined(state.model, state.epoch):
            state.model.refine(state.table, state.penalty)
            if state.model.aimed:  # what comes is another objective
                state.objective, state.converged = torch.full_like(state.objective, -torch.inf), False
        if state.converged and state.rounds_to_come:
            state.redraw()
        yield EpochEnd(state.epoch, {"objective": value.objective.item(), "loglik": (value.loglik / rows).item()})


def climb_rounded(
    model: GaussianFamily,
    table: TensorTable,
    config: EmConfig,
    generator: torch.Generator,
    each: Callable[[int], None],
    early: bool = False,
) -> None:
    """Climb in place as a fit does, its redraws among that. `each`: see `climb`; `early`: what `start` has said."""
    rows = em_table(table.x, table.missing, table.relative_weight, table.scratch)
    penalty, tolerance = model.penalty(config.pooling, config.floor), tolerance_of(config, model)

    def redrawn(rows: EmTable) -> EmTable:
        assert table.rounding is not None
        seed = int(torch.randint(2**62, (), generator=generator))
        return redrawn_table(model, rows, table.rounding, seed)

    redraws = redraws_of(config, model, table)
    if early and redraws:
        rows, redraws = redrawn(rows), min(redraws, EARLY_ROUNDS) - 1
    for to_come in range(redraws, -1, -1):
        least = max(ROUGH, tolerance) if to_come else tolerance
        climb(model, rows, penalty, epochs=config.epochs, tolerance=least, each=each)
        if to_come:
            rows = redrawn(rows)


def _iteration(state: EmState) -> Generator[PieceEnd, None, EmValue]:
    """One iteration, from where it was interrupted on."""
    work = iteration_in_pieces(
        state.model, state.table, state.penalty, state.config.accelerate, state.step, state.begun
    )
    while True:
        try:
            state.begun = next(work)
        except StopIteration as end:
            state.begun = NOT_BEGUN
            return cast(EmValue, end.value)
        yield PieceEnd()


def _tensors(begun: Begun) -> dict[str, Tensor]:
    """What is kept of an iteration that is interrupted; nothing between iterations."""
    if not begun.points:
        return {}
    named = {f"points/{i}": point for i, point in enumerate(begun.points)}
    named |= {f"sums/{i}": total for i, total in enumerate(begun.sums.totals)}
    named["rows"] = torch.tensor(begun.sums.rows)
    if begun.value is not None:
        named["value"] = torch.stack(begun.value)
    return {BEGUN + name: value for name, value in named.items()}


def _begun(state: Mapping[str, Tensor]) -> Begun:
    """What `_tensors` kept. LookupError where a part of it is missing."""
    if BEGUN + "rows" not in state:
        return NOT_BEGUN

    def every(what: str) -> tuple[Tensor, ...]:
        count = sum(name.startswith(f"{BEGUN}{what}/") for name in state)
        return tuple(state[f"{BEGUN}{what}/{i}"] for i in range(count))

    value = state.get(f"{BEGUN}value")
    sums = Sums(int(state[BEGUN + "rows"]), every("sums"))
    return Begun(every("points"), None if value is None else EmValue(*value), sums)


def warning(state: EmState, metrics: Mapping[str, Any]) -> str | None:
    """Whether the iterations were used up before the gain fell below the tolerance."""
    if state.converged or state.epoch < state.epochs:
        return None
    count = f"{state.epoch} iteration{'s' * (state.epoch > 1)}"
    last = ""
    if state.gain is not None and math.isfinite(state.gain):
        last = f"the last one gained {state.gain:.1g} nats a row, {state.tolerance:.1g} would be the end; "
    return f"the fit has not converged after {count}: {last}--resume with a larger --epochs goes on"


METHOD = Method(Config=EmConfig, init=init, run=run, warning=warning)
