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


FINEST = 2.0**24
"""Products of states are counted in whole numbers of its inverse: so their sum is the same in any order."""


class Memory:
    """What a chain remembers: the correlation, between chains of one row, of a cell's state after the first half and at
    the end. Near 0 when the second half alone would have been long enough. Said of columns with enough chains: n draws
    of R missing cells have (n - 1) R degrees of freedom.

    totals  [4, D] over all chains so far: products of the two states less their means over the chains of the row,
            squares of the one, and of the other, and degrees of freedom; changed in place, once there is room for them
    """

    def __init__(self) -> None:
        self.totals = torch.zeros(4, 0, dtype=torch.float64)

    def make_room(self, D: int) -> None:
        """For rows of so many columns."""
        if not self.totals.numel():
            self.totals = torch.zeros(4, D, dtype=torch.float64)

    def add(self, middle: Tensor, end: Tensor, missing: Tensor) -> None:
        """States [n, R, D] after the first half and at the end of n independent chains of each row, holes [R, D]."""
        self.make_room(missing.shape[1])
        a, b = ((s.double() - s.double().mean(0)) * missing for s in (middle, end))
        products = torch.stack([(part * FINEST).round().sum((0, 1)) / FINEST for part in (a * b, a * a, b * b)])
        degrees = missing.sum(0).double() * (len(end) - 1)
        self.totals += torch.cat([products, degrees[None]]).cpu()

    def summary(self, columns: tuple[str, ...]) -> dict[str, object]:
        """For the report: the largest over the columns, and each; columns with too few chains are left out."""
        if not self.totals.numel():
            return {}
        products, first, second, degrees = self.totals
        scale = (first * second).sqrt()
        known = zip(columns, products, scale, (degrees >= FEWEST_DEGREES) & (scale > 0), strict=True)
        memory = {c: float(product / s) for c, product, s, said in known if said}
        return {"memory": max(memory.values()), "memory_by_column": memory} if memory else {}


class Mixing:
    """Sums over all chains, by column.

    counts  proposals and accepted ones [2, D]; chains, their sweeps, and those that were extended [3]; those of Memory;
            all changed in place
    peak    [] the longest run of rejections, in place
    """

    def __init__(self, D: int) -> None:
        self._memory = Memory()
        self._memory.make_room(D)
        self._proposals, self._chains = torch.zeros(2, D, dtype=torch.float64), torch.zeros(3, dtype=torch.float64)
        self.counts = [self._proposals, self._chains, self._memory.totals]
        self.peak = torch.zeros((), dtype=torch.float64)

    def add(self, record: Record, sweeps: Tensor, extended: Tensor) -> None:
        """What Q finished chains recorded; their sweeps, and whether they were extended [Q]."""
        self._proposals += record.counts[:2].sum(1).cpu()
        self._chains += torch.stack([torch.ones_like(sweeps), sweeps, extended.to(sweeps)]).sum(1).cpu()
        torch.maximum(self.peak, record.counts[3].max().cpu(), out=self.peak)

    def add_states(self, middle: Tensor, end: Tensor, missing: Tensor) -> None:
        self._memory.add(middle, end, missing)

    def summary(self, columns: tuple[str, ...]) -> dict[str, object]:
        """For the report; columns without a hole are left out. `memory`: see Memory."""
        chains, sweeps, extended = self._chains.tolist()
        if chains == 0:
            return {}
        proposed, accepted = self._proposals
        out: dict[str, object] = {
            "chains": int(chains),
            "sweeps": sweeps / chains,
            "extended": extended / chains,
            "acceptance": float(accepted.sum() / proposed.sum().clamp(min=1)),
            "longest_run_of_rejections": int(self.peak),
            "acceptance_by_column": {
                name: float(a / p) for name, a, p in zip(columns, accepted, proposed, strict=True) if p > 0
            },
        }
        return out | self._memory.summary(columns)
