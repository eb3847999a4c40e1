"""Draws given which cells of a row are missing, where that says something of them: p(x_mis | x_obs, mask), which is
p(x_mis | x_obs) times the probability of the mask given the completed row (a selection model: Little and Rubin 2019,
chapter 15), by rejection."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple, final

import torch
from torch import Tensor

from vgi_cli.maths.noise import KeyedNoise, mix64
from vgi_cli.samplers.base import ROW_BLOCK, Box, Imputer, impute

ATTEMPTS = 16
"""How often a row is drawn anew before one of its draws is chosen; as many at once as fill a block of rows."""
FIRST = 0.7
"""About which share of the work the first draws are; for what is told of it."""


class Coherent(NamedTuple):
    """What the cells of a row have to agree on, whatever is missing.

    accepted  of draws [n, R, D], missing [R, D] and cells that are left out [n, R, D] whether the others agree [n, R]
    levels    [D] the dimensions whose draws stay while the others are drawn anew
    """

    accepted: Callable[[Tensor, Tensor, Tensor | None], Tensor]
    levels: Tensor


class _Open(NamedTuple):
    """Draws of rows [n, R, D], of each the probabilities of its attempts so far together, and whether it is refused
    [n, R]."""

    drawn: Tensor
    total: Tensor
    refused: Tensor


class _Given(NamedTuple):
    """What rows are drawn from: the arguments of `sample`."""

    x: Tensor
    missing: Tensor
    noise: KeyedNoise
    box: Box


@final
class Selected(Imputer):
    """Draws of an imputer, accepted with the probability of their mask: those that are not are drawn anew, the whole
    row, so that its holes go together.

    Where the numbers of a draw do not agree with its levels, or with each other, these numbers are drawn anew first,
    given its levels: a model spreads the numbers of some levels farther over what no row has than those of others, and
    whole rows drawn until all agrees would be the less often of these levels.
    """

    def __init__(
        self,
        imputer: Imputer,
        probability: Callable[[Tensor, Tensor], Tensor],
        coherent: Coherent | None = None,
    ) -> None:
        """probability: of draws [n, R, D] and missing [R, D] how likely the mask of each is [n, R], in units of the
        likeliest, 1 where it says nothing; 0 where they are not `coherent` (None: all are)."""
        self._imputer, self._probability, self._coherent = imputer, probability, coherent
        self.parallel = imputer.parallel
        self._counts = torch.zeros(2, dtype=torch.int64)  # rows drawn anew; those of which no draw was accepted

    def require(self, keys: Tensor, missing: Tensor, m: int) -> None:
        self._imputer.require(keys, missing, m)

    def prepare(self, missing: Tensor, noise: KeyedNoise, box: Box) -> None:
        self._imputer.prepare(missing, noise, box)

    def apart(self, draws: Tensor) -> list[Tensor]:
        return self._imputer.apart(draws)

    def rows_at_once(self, draws: int, x: Tensor) -> int:
        return self._imputer.rows_at_once(draws, x)

    def sample(self, x: Tensor, missing: Tensor, noise: KeyedNoise, box: Box) -> Tensor:
        """Draws of the imputer; of a row none of whose ATTEMPTS was accepted one of them, by their probabilities
        (sampling importance resampling: Rubin 1988), the first one where all have none."""
        self._imputer.watch = lambda share: self.watch(FIRST * share)
        out = self._imputer.sample(x, missing, noise, box).clone()  # which may not be changed, where it was made so
        self._tell(FIRST)
        anew = self._numbers_anew(out, missing, noise, box)
        total = self._probability(out, missing)
        refused = noise.at("selection").uniform(("selection",))[..., 0].to(total.device) >= total
        self._counts[0] += int((refused | anew).sum())
        open_, groups = _Open(out, total, refused), self._imputer.apart(noise.draws)
        for done, group in enumerate(groups):
            self._tell(FIRST + (1 - FIRST) * done / len(groups))
            self._whole_rows_anew(open_, group.to(out.device), _Given(x, missing, noise, box))
        self._counts[1] += int(refused.sum())
        return out

    def _whole_rows_anew(self, open_: _Open, group: Tensor, given: _Given) -> None:
        """Draw the rows anew that a draw of a group (its places) is refused of, in place, until each is accepted or
        attempts are over: draws that may be made each for itself are, of no other rows than their own."""
        out, total, refused = open_
        x, missing, noise, box = given
        attempt = 1
        while attempt <= ATTEMPTS and bool(refused[group].any()):
            draws, rows = group[refused[group].any(1)], refused[group].any(0).nonzero()[:, 0]
            several = _several(len(rows), attempt)
            index = rows.repeat(several)
            again = noise.at("selection").select(draws=draws.to(noise.draws.device))
            again = replace(again, rows=_attempts(noise.rows, rows, attempt, several))
            drawn = impute(self._imputer, x[index], missing[index], again, box).clone()
            self._numbers_anew(drawn, missing[index], again, box)
            chance = self._probability(drawn, missing[index]).unflatten(1, (several, -1))
            u, other = (u.to(chance.device).unflatten(1, (several, -1)) for u in self._uniforms(again))
            at = draws[:, None], rows
            for number, one in enumerate(drawn.unflatten(1, (several, -1)).unbind(1)):
                weight, still = chance[:, number], refused[at]
                accepted = u[:, number] < weight
                kept = other[:, number] * (total[at] + weight) < weight  # in proportion to all weights so far
                out[at] = torch.where((still & (accepted | kept))[..., None], one, out[at])
                total[at] = torch.where(still, total[at] + weight, total[at])
                refused[at] &= ~accepted
            attempt += several

    def _tell(self, done: float) -> None:
        """From here on this share of the work is done, until more is."""
        self._imputer.watch = lambda share: self.watch(done)

    def _numbers_anew(self, draws: Tensor, missing: Tensor, noise: KeyedNoise, box: Box) -> Tensor:
        """Draw numbers of completed rows [n, R, D] anew in place, given their levels, where the levels agree and the
        numbers do not, until they do or attempts are over: which rows of which draws [n, R] were."""
        if self._coherent is None:
            return missing.new_zeros(draws.shape[:2])
        accepted, levels = self._coherent.accepted, self._coherent.levels.to(missing.device)
        free = missing & ~levels
        anew = ~accepted(draws, missing, None) & (missing & levels).any(1) & free.any(1)
        if bool(anew.any()):
            anew &= accepted(draws, missing, free.expand_as(draws))
        for i in anew.any(1).nonzero()[:, 0].tolist():
            rows, attempt = anew[i].nonzero()[:, 0], 1
            one = noise.at("numbers").select(draws=torch.tensor([i], device=noise.draws.device))
            while attempt <= ATTEMPTS and len(rows):
                several = _several(len(rows), attempt)
                index = rows.repeat(several)
                again = replace(one, rows=_attempts(noise.rows, rows, attempt, several))
                drawn = impute(self._imputer, draws[i, index], free[index], again, box)
                found = accepted(drawn, missing[index], None)[0].view(several, -1)
                first, some = found.int().argmax(0), found.any(0)
                own = drawn[0].view(several, len(rows), -1)[first, torch.arange(len(rows), device=rows.device)]
                draws[i, rows[some]] = own[some]
                rows, attempt = rows[~some], attempt + several
        return anew

    @staticmethod
    def _uniforms(noise: KeyedNoise) -> tuple[Tensor, Tensor]:
        """[n, R] whether a draw is accepted, and whether it is kept all the same, depend on these."""
        both = noise.at("selection").uniform(("accepted", "kept"))
        return both[..., 0], both[..., 1]

    def level_probabilities(self, x: Tensor, j: int, draw: int) -> Tensor | None:
        return self._imputer.level_probabilities(x, j, draw)

    def counts(self) -> list[Tensor]:
        return [*self._imputer.counts(), self._counts]

    def peaks(self) -> list[Tensor]:
        return self._imputer.peaks()

    def diagnostics(self) -> dict[str, object]:
        """Those of the imputer; rows, of all draws, that were drawn anew, and those of which none was accepted."""
        refused, kept = self._counts.tolist()
        return {**self._imputer.diagnostics(), "redrawn_rows": refused, "unlikely_rows": kept}


def _several(rows: int, attempt: int) -> int:
    """How many attempts at so many rows, the first of them of this number, are made at once."""
    return min(max(ROW_BLOCK // rows, 1), ATTEMPTS + 1 - attempt)


def _attempts(keys: Tensor, rows: Tensor, first: int, several: int) -> Tensor:
    """[several * rows] keys of several attempts at some rows, from the first one on, by the keys of all rows."""
    keys = keys[rows.to(keys.device)]
    return mix64((keys + torch.arange(first, first + several, device=keys.device)[:, None]).flatten())
