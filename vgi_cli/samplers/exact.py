"""Exact draws from p(x_mis | x_obs) of a model with exact conditionals, inside a box, from one or several refits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import cast

import torch
from torch import Tensor

from vgi_cli.data import Rounding
from vgi_cli.maths.noise import KeyedNoise
from vgi_cli.models.base import Marginal, Redraw
from vgi_cli.models.gaussian.family import GaussianFamily
from vgi_cli.models.gaussian.rounded import redrawn
from vgi_cli.samplers.base import Box, Imputer, SamplerInput, enumerated

REDRAWN, SWEPT = 64, 32
"""Rows outside the box are redrawn so many at a time, of any draws, and those that stay outside are swept so many: few
enough to be cheap, always as many, so that the rounding of a row cannot depend on which other rows are outside."""


class ExactImputer(Imputer):
    """Draw i comes from refit i modulo their number, so that parameter uncertainty is in the draws.

    A row with a draw outside the box is redrawn as a whole, at most `attempts` times, which is rejection sampling from
    the truncated law. Rows that are still outside are finished by Gibbs sweeps: every missing cell in turn is drawn
    from its law given the other columns, truncated to the box. Such a step leaves the truncated law as it is, and the
    sweeps forget the start; no draw is ever clamped.

    With `rounding` the places of rounded observed cells within their rounding are drawn first, for every draw anew: the
    models are such that were fitted to cells drawn so.
    """

    parallel = True

    def __init__(
        self,
        models: Sequence[Marginal],
        attempts: int = 12,
        sweeps: int = 10,
        rounding: Rounding | None = None,
        tails: Sequence[tuple[int, int]] = (),
        names: Sequence[str] = (),
        idle: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        """tails: as of `Layout`: in a cell that is known to have no value there, the box does not count. names: of the
        dimensions, by which it is said what lay outside; empty: that is not said of each. idle: as of `SamplerInput`:
        what lies in such cells decides nothing."""
        if not models:
            raise ValueError("ExactImputer needs at least one model")
        self._tails, self._names, self._idle = tails, names, idle
        self._by_dimension = torch.zeros(3, len(names), dtype=torch.int64)  # below, above the box; drawn
        self._models, self._rounding = list(models), rounding
        self._attempts, self._sweeps = attempts, sweeps
        self._counts = torch.zeros(3, dtype=torch.int64)  # cells; those drawn anew; rows with sweeps

    def sample(self, x: Tensor, missing: Tensor, noise: KeyedNoise, box: Box) -> Tensor:
        """Joint draws, redrawn until they lie in the box."""
        drawn = self.placed(x, missing, noise, box)
        return drawn if self._rounding is None else torch.where(missing, drawn, x)

    @torch.no_grad()
    def placed(self, x: Tensor, missing: Tensor, noise: KeyedNoise, box: Box) -> Tensor:
        """As `sample`, with rounded observed cells at the places by which the missing ones were drawn."""
        draws = noise.draws.tolist()
        result = x.expand(len(draws), *x.shape).clone()
        done = 0
        for number, model in enumerate(self._models):
            mine = [i for i, draw in enumerate(draws) if draw % len(self._models) == number]
            if mine:
                index, part = torch.tensor(mine), (done / len(draws), len(mine) / len(draws))
                result[index] = self._one_model(model, x, missing, noise.select(draws=index), box, part)
                done += len(mine)
        return result

    @torch.inference_mode()
    def _one_model(
        self, model: Marginal, x: Tensor, missing: Tensor, noise: KeyedNoise, box: Box, part: tuple[float, float]
    ) -> Tensor:
        """The draws [n, R, D] of one refit; `part`: the share of the work that was done before, and the one that this
        is."""
        self.watch(part[0])
        if self._rounding is None:
            result = model.conditional(x, missing).sample(noise)
        else:
            result = torch.stack([self._placed(model, x, missing, noise, i) for i in range(len(noise.draws))])
        outside = self._outside(box, missing, result)  # [n, R, D]
        self._counts += torch.tensor([int(missing.sum()) * len(noise.draws), int(outside.sum()), 0])
        if self._names:
            sides = [(outside & side).sum((0, 1)) for side in (result < box.low, result > box.high)]
            self._by_dimension += torch.stack([*sides, missing.sum(0) * len(noise.draws)]).cpu()
        again, left = outside.any(-1).nonzero(), [outside.new_zeros(0)]  # which draw, which row
        for place, (i, r) in enumerate(_pieces(again, REDRAWN)):
            self.watch(part[0] + 0.5 * part[1] * place * REDRAWN / len(again))
            result[i, r], still = self._redraw(model, result[i, r], missing[r], noise.paired(i, r), box)
            left.append(still)
        rest = again[torch.cat(left)[: len(again)]]
        if not len(rest):
            return result
        redraw = model.column_redraws()
        for place, (i, r) in enumerate(_pieces(rest, SWEPT)):
            self.watch(part[0] + 0.5 * part[1] * (1 + place * SWEPT / len(rest)))
            result[i, r] = self._gibbs(redraw, result[i, r], missing[r], noise.paired(i, r).at("gibbs"), box)
        self._counts[2] += len(rest)
        return result

    def _outside(self, box: Box, missing: Tensor, x: Tensor) -> Tensor:
        """[.., D] which missing cells of completed rows lie outside the box. Where the level before a tail is drawn
        too, the tail counts at either level: else it would make the other level likelier to leave less of one out."""
        outside = missing & ~box.contains(x)
        for tail, level in self._tails:
            outside[..., tail] &= missing[..., level]
        return outside if self._idle is None else outside & ~self._idle(x)

    def _placed(self, model: Marginal, x: Tensor, missing: Tensor, noise: KeyedNoise, i: int) -> Tensor:
        """[R, D] draw i, with its rounded cells."""
        one = noise.select(draws=torch.tensor([i]))
        assert self._rounding is not None
        x = redrawn(cast(GaussianFamily, model), x, missing, self._rounding, one)
        return model.conditional(x, missing).sample(one)[0]

    def _redraw(
        self, model: Marginal, x: Tensor, missing: Tensor, noise: KeyedNoise, box: Box
    ) -> tuple[Tensor, Tensor]:
        """Rows [n, D] outside, of some draws, drawn anew until they are inside or attempts are over; and which of them
        [n] are outside still."""
        conditional = model.conditional(x, missing)
        for attempt in range(1, self._attempts + 1):
            rows = self._outside(box, missing, x).any(-1, keepdim=True)
            if not bool(rows.any()):
                break
            x = torch.where(rows, conditional.sample(noise.at(f"attempt{attempt}"))[0], x)
        return x, self._outside(box, missing, x).any(-1)

    def _gibbs(self, redraw: Redraw, x: Tensor, missing: Tensor, noise: KeyedNoise, box: Box) -> Tensor:
        """Sweeps over the missing cells of every row [R, D]; cells outside the box are drawn first of all."""
        low, high = (bound.to(x.dtype).to(torch.float64) for bound in box)
        columns = torch.arange(x.shape[1], device=x.device)
        state = x.to(torch.float64)
        for sweep in range(self._sweeps):
            uniform = noise.at(sweep).uniform()[0]  # [R, D]
            choice = noise.at(f"{sweep}/component").uniform()[0]
            for j in missing.any(0).nonzero()[:, 0].tolist():
                ends = low[j], high[j]
                if self._idle is not None:
                    free = torch.where(self._idle(state)[:, j], torch.inf, 0.0)
                    ends = low[j] - free, high[j] + free
                drawn = redraw(state, j, *ends, choice[:, j], uniform[:, j])
                state = torch.where((columns == j) & missing, drawn[:, None], state)
        return torch.where(missing, state.to(x.dtype), x)

    def level_probabilities(self, x: Tensor, j: int, draw: int) -> Tensor:
        return enumerated(self._models[draw % len(self._models)], x, j)

    def counts(self) -> list[Tensor]:
        return [self._counts, self._by_dimension]

    def diagnostics(self) -> dict[str, object]:
        """Cells drawn, cells whose first draw fell outside the box (all, and as shares of each dimension's below and
        above it), rows that needed Gibbs sweeps; empty where nothing was drawn."""
        cells, redrawn, swept = self._counts.tolist()
        if not cells:
            return {}
        found: dict[str, object] = {"cells": cells, "redrawn_cells": redrawn, "swept_rows": swept}
        if self._names:
            of = zip(self._names, *self._by_dimension.tolist(), strict=True)
            shares = [(name, below / max(drawn, 1), above / max(drawn, 1)) for name, below, above, drawn in of]
            found["below_by_column"] = {name: below for name, below, _ in shares}
            found["above_by_column"] = {name: above for name, _, above in shares}
        return found


def _pieces(cells: Tensor, size: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Pairs [n, 2] of a draw and a row in pieces of one size, each as (draws [size], rows [size]); the last one repeats
    its last pair."""
    for some in cells.split(size) if len(cells) else ():
        i, r = torch.cat([some, some[-1:].expand(size - len(some), 2)]).T
        yield i, r


def build(fitted: SamplerInput) -> ExactImputer:
    """The sampler `exact`."""
    models = [cast(Marginal, model).for_fills() for model in fitted.models]
    layout = fitted.layout
    return ExactImputer(models, rounding=fitted.rounding, tails=layout.tails, names=layout.names, idle=fitted.idle)
