"""Draws given which cells of a row are missing, where that says something of them: p(x_mis | x_obs, mask), which is
p(x_mis | x_obs) times the probability of the mask given the completed row (a selection model: Little and Rubin 2019,
chapter 15), by rejection."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import final

import torch
from torch import Tensor

from vgi_cli.maths.noise import KeyedNoise, mix64
from vgi_cli.samplers.base import ROW_BLOCK, Box, Imputer, impute

ATTEMPTS = 16
"""How often a row is drawn anew before one of its draws is chosen; as many at once as fill a block of rows."""
FIRST = 0.7
"""About which share of the work the first draws are; for what is told of it."""


@final
class Selected(Imputer):
    """Draws of an imputer, accepted with the probability of their mask: those that are not are drawn anew, the whole
    row, so that its holes go together."""

    def __init__(self, imputer: Imputer, probability: Callable[[Tensor, Tensor], Tensor]) -> None:
        """probability: of draws [n, R, D] and missing [R, D] how likely the mask of each is [n, R], in units of the
        likeliest, 1 where it says nothing."""
        self._imputer, self._probability = imputer, probability
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
        total = self._probability(out, missing)
        refused = noise.at("selection").uniform(("selection",))[..., 0].to(total.device) >= total
        self._counts[0] += int(refused.sum())
        attempt = 1
        while attempt <= ATTEMPTS and bool(refused.any()):
            done = FIRST + (1 - FIRST) * (attempt - 1) / ATTEMPTS
            self._imputer.watch = lambda share, done=done: self.watch(done)  # type: ignore[misc]
            draws, rows = refused.any(1).nonzero()[:, 0], refused.any(0).nonzero()[:, 0]
            several = min(max(ROW_BLOCK // len(rows), 1), ATTEMPTS + 1 - attempt)
            keys = noise.rows[rows.to(noise.rows.device)]
            keys = keys + torch.arange(attempt, attempt + several, device=keys.device)[:, None]
            index = rows.repeat(several)
            again = replace(
                noise.at("selection").select(draws=draws.to(noise.draws.device)), rows=mix64(keys.flatten())
            )
            drawn = impute(self._imputer, x[index], missing[index], again, box)
            chance = self._probability(drawn, missing[index]).unflatten(1, (several, -1))
            u, other = (u.to(chance.device).unflatten(1, (several, -1)) for u in self._uniforms(again))
            at = draws[:, None], rows
            for number, one in enumerate(drawn.unflatten(1, (several, -1)).unbind(1)):
                weight, open_ = chance[:, number], refused[at]
                accepted = u[:, number] < weight
                kept = other[:, number] * (total[at] + weight) < weight  # in proportion to all weights so far
                out[at] = torch.where((open_ & (accepted | kept))[..., None], one, out[at])
                total[at] = torch.where(open_, total[at] + weight, total[at])
                refused[at] &= ~accepted
            attempt += several
        self._counts[1] += int(refused.sum())
        return out

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
