"""What the training chains hold: the imputations with which the fit ended, without any further step."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor

from vgi_cli.errors import InputError, UsageError
from vgi_cli.maths.noise import KeyedNoise
from vgi_cli.samplers.base import Box, Imputer, SamplerInput
from vgi_cli.samplers.starts import HeldChains, held_chains


@final
class ChainsImputer(Imputer):
    """Draw k is chain k. Only for the table that the run holds, and for at most K draws.

    A row of chain k with a cell outside the box is taken from the next chain of that row that is inside (counted as
    `replaced`); a row without such a chain is set to the nearest bound (counted as `bounded`).

    single  whether a fit by the run's method has one chain whatever its settings are
    others  whether another sampler can draw for the run
    """

    def __init__(self, held: HeldChains, single: bool = False, others: bool = True) -> None:
        self._held = held
        self._single, self._others = single, others
        self._replaced = 0
        self._bounded = 0

    def require(self, keys: Tensor, missing: Tensor, m: int) -> None:
        """UsageError for more than K draws, InputError for rows that the run does not hold."""
        held, K = self._held, self._held.K
        found = held.find(keys)
        other = missing.any(1) & ~((found >= 0) & (held.missing[found.clamp(min=0)] == missing).all(1))
        if bool(other.any()):
            raise InputError(
                "sampler 'chains' works only for the table that the run holds: "
                f"{int(other.sum())} rows are new or have other holes",
                "use another sampler, or finetune the run on this table first (a fit by vgi)"
                if self._others
                else "this run has no other sampler: a fit by --method vgi fills new rows",
            )
        if m > K:
            ways = [f"--m {K}" if self._single else f"--m {K} or less"]
            ways += ["another sampler"] * self._others
            ways += [] if self._single else [f"a fit with --set method.imputations={m}"]
            raise UsageError(
                f"sampler 'chains' has {K} draw{'s' * (K > 1)} of each cell, draw {m} was asked for",
                "use " + (" or ".join(ways) if len(ways) < 3 else f"{', '.join(ways[:-1])}, or {ways[-1]}"),
            )

    def sample(self, x: Tensor, missing: Tensor, noise: KeyedNoise, box: Box) -> Tensor:
        """What `require` raises."""
        self.require(noise.rows, missing, int(noise.draws.max()) + 1 if len(noise.draws) > 0 else 0)
        held, K = self._held, self._held.K
        found = held.find(noise.rows)
        rows, incomplete = found.clamp(min=0), missing.any(1)
        every = held.values(rows, torch.arange(K, device=rows.device)).to(x)  # [K, R, D]
        inside = (box.contains(every) | ~missing).all(2)  # [K, R]
        turn = (noise.draws.to(rows.device)[:, None] + torch.arange(K, device=rows.device)) % K  # [n, K]
        first = inside[turn].to(torch.int8).argmax(1)  # [n, R] chains to skip before one is inside
        chain = turn.gather(1, first)
        drawn = every[chain, torch.arange(len(rows), device=rows.device)]
        clamped = torch.where(missing, drawn.clamp(box.low.to(x), box.high.to(x)), x)
        self._replaced += int((incomplete & inside.any(0) & (first > 0)).sum())
        self._bounded += int((incomplete & ~inside.any(0)).sum()) * len(noise.draws)
        return clamped

    def diagnostics(self) -> dict[str, object]:
        """Rows and draws that came from another chain or were set to a bound."""
        return {"replaced": self._replaced, "bounded": self._bounded}


def build(fitted: SamplerInput) -> ChainsImputer:
    """The sampler `chains`."""
    return ChainsImputer(held_chains(fitted), fitted.single, fitted.others)
