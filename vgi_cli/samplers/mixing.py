"""How well imputing chains mix: acceptance, runs of rejections and what a chain still remembers, pooled by column."""

from __future__ import annotations

import torch
from torch import Tensor


class Record:
    """What Q chains record, also in parts: a part of some chains is cut out, sweeps, and is put back.

    missing  [Q, D]
    counts   [4, Q, D] over all sweeps so far: proposals, accepted ones, rejections since the last acceptance, and the
             longest run of rejections
    """

    def __init__(self, missing: Tensor, counts: Tensor | None = None) -> None:
        """counts [4, Q, D]: what was recorded so far; None: nothing."""
        self.missing = missing
        zeros = torch.zeros(4, *missing.shape, dtype=torch.float64, device=missing.device)
        self.counts = zeros if counts is None else counts

    def sweep(self, visited: Tensor, accepted: Tensor) -> None:
        """After a round: which cells had a proposal of their own, and which of these were accepted, [Q, D] each."""
        proposed, total, run, longest = self.counts
        proposed += visited
        total += accepted
        run[:] = torch.where(visited, torch.where(accepted, 0.0, run + 1), run)
        longest[:] = torch.maximum(longest, run)

    def acceptance(self) -> Tensor:
        """[Q] share of accepted proposals of each chain so far (1 where there was none)."""
        proposed, accepted = self.counts[:2].sum(2)
        return torch.where(proposed > 0, accepted / proposed.clamp(min=1), 1.0)


FEWEST_DEGREES = 20
"""Chains of a column less its rows, below which a correlation between two states is noise."""


class Memory:
    """What a chain remembers: the correlation, between chains of one row, of a cell's state after the first half and at
    the end. Near 0 when the second half alone would have been long enough. Said of columns with enough chains: n draws
    of R missing cells have (n - 1) R degrees of freedom."""

    def __init__(self) -> None:
        self._totals: dict[str, Tensor] = {}

    def add(self, middle: Tensor, end: Tensor, missing: Tensor) -> None:
        """States [n, R, D] after the first half and at the end of n independent chains of each row, holes [R, D]."""
        if end.shape[0] < 2:
            return
        a, b = ((s.double() - s.double().mean(0)) * missing for s in (middle, end))
        degrees = missing.double() * (len(end) - 1) / len(end)
        parts = {"ab": a * b, "aa": a.square(), "bb": b.square(), "degrees": degrees.expand(end.shape)}
        for key, value in parts.items():
            total = value.sum((0, 1)).cpu()
            self._totals[key] = self._totals[key] + total if key in self._totals else total

    def summary(self, columns: tuple[str, ...]) -> dict[str, object]:
        """For the report: the largest over the columns, and each; columns with too few chains are left out."""
        if not self._totals:
            return {}
        scale = (self._totals["aa"] * self._totals["bb"]).sqrt()
        enough = self._totals["degrees"].round() >= FEWEST_DEGREES
        known = zip(columns, self._totals["ab"], scale, enough & (scale > 0), strict=True)
        memory = {c: float(ab / s) for c, ab, s, said in known if said}
        return {"memory": max(memory.values()), "memory_by_column": memory} if memory else {}


class Mixing:
    """Sums over all chains, by column."""

    def __init__(self) -> None:
        self._memory = Memory()
        self._totals = torch.zeros(2, 1, dtype=torch.float64)  # proposed and accepted, by column
        self._longest = 0.0
        self._sweeps = 0.0
        self._chains = 0
        self._extended = 0

    def add(self, record: Record, sweeps: Tensor, extended: Tensor) -> None:
        """What Q finished chains recorded; their sweeps, and whether they were extended [Q]."""
        self._totals = self._totals + record.counts[:2].sum(1).cpu()
        self._longest = max(self._longest, float(record.counts[3].max()))
        self._sweeps += float(sweeps.sum())
        self._chains += len(sweeps)
        self._extended += int(extended.sum())

    def add_states(self, middle: Tensor, end: Tensor, missing: Tensor) -> None:
        self._memory.add(middle, end, missing)

    def summary(self, columns: tuple[str, ...]) -> dict[str, object]:
        """For the report; columns without a hole are left out. `memory`: see Memory."""
        if self._chains == 0:
            return {}
        proposed, accepted = self._totals
        out: dict[str, object] = {
            "chains": self._chains,
            "sweeps": self._sweeps / self._chains,
            "extended": self._extended / self._chains,
            "acceptance": float(accepted.sum() / proposed.sum().clamp(min=1)),
            "longest_run_of_rejections": int(self._longest),
            "acceptance_by_column": {
                name: float(a / p) for name, a, p in zip(columns, accepted, proposed, strict=True) if p > 0
            },
        }
        return out | self._memory.summary(columns)
