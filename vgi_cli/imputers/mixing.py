"""How well imputing chains mix: acceptance, runs of rejections and what a chain still remembers, pooled by column."""

from __future__ import annotations

import torch
from torch import Tensor


class Record:
    """What one pack of chains records.

    proposed, accepted  [PACK, D] over all sweeps
    longest             [PACK, D] longest run of rejections
    middle              [PACK, D] state after the first half
    """

    def __init__(self, x: Tensor, missing: Tensor) -> None:
        zeros = torch.zeros(x.shape, dtype=torch.float64, device=x.device)
        self._missing = missing
        self.proposed, self.accepted, self.longest = zeros.clone(), zeros.clone(), zeros.clone()
        self._run = zeros.clone()
        self.middle = x

    def sweep(self, active: Tensor, accepted: Tensor) -> None:
        """After a sweep: active [PACK] chains that took part, accepted [PACK, D]."""
        visited = self._missing & active[:, None]
        self.proposed += visited
        self.accepted += accepted
        self._run = torch.where(visited, torch.where(accepted, 0.0, self._run + 1), self._run)
        self.longest = torch.maximum(self.longest, self._run)

    def half(self, x: Tensor, now: Tensor) -> None:
        """Keep the states x [PACK, D] of chains that end their first half now [PACK]."""
        self.middle = torch.where(now[:, None], x, self.middle)

    def acceptance(self) -> Tensor:
        """[PACK] share of accepted proposals of each chain so far (1 where there was none)."""
        proposed = self.proposed.sum(1)
        return torch.where(proposed > 0, self.accepted.sum(1) / proposed.clamp(min=1), 1.0)


class Mixing:
    """Sums over all packs, by column."""

    def __init__(self) -> None:
        self._totals: dict[str, Tensor] = {}
        self._longest = 0.0
        self._sweeps = 0.0
        self._chains = 0
        self._extended = 0

    def add(self, record: Record, real: int, sweeps: Tensor, extended: Tensor) -> None:
        """A finished pack, of which the first `real` chains count; sweeps, extended [PACK]."""
        self._sum("proposed", record.proposed[:real].sum(0))
        self._sum("accepted", record.accepted[:real].sum(0))
        self._longest = max(self._longest, float(record.longest[:real].max()))
        self._sweeps += float(sweeps[:real].sum())
        self._chains += real
        self._extended += int(extended[:real].sum())

    def add_states(self, middle: Tensor, end: Tensor, missing: Tensor) -> None:
        """States [n, R, D] after the first half and at the end of n independent chains of each row, holes [R, D]."""
        if end.shape[0] < 2:
            return
        a, b = ((s.double() - s.double().mean(0)) * missing for s in (middle, end))
        for key, value in {"ab": a * b, "aa": a.square(), "bb": b.square()}.items():
            self._sum(key, value.sum((0, 1)))

    def _sum(self, key: str, value: Tensor) -> None:
        value = value.cpu()
        self._totals[key] = self._totals[key] + value if key in self._totals else value

    def summary(self, columns: tuple[str, ...]) -> dict[str, object]:
        """For the report; columns without a hole are left out.

        `memory`: correlation, between chains of one row, of a cell's state after the first half and at the end (largest
        column): near 0 when the second half alone would have been long enough. Needs two draws.
        """
        if self._chains == 0:
            return {}
        proposed, accepted = self._totals["proposed"], self._totals["accepted"]
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
        if "ab" in self._totals:
            scale = (self._totals["aa"] * self._totals["bb"]).sqrt()
            memory = {c: float(ab / s) for c, ab, s in zip(columns, self._totals["ab"], scale, strict=True) if s > 0}
            if memory:
                out["memory"] = max(memory.values())
                out["memory_by_column"] = memory
        return out
