"""The paper's pseudo-Gibbs sampler (Algorithm 5): every draw of q_j is kept, so the chain targets what q defines."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor

from vgi_cli.chains.kernels import random_scan
from vgi_cli.conditionals.base import Conditionals
from vgi_cli.imputers.base import Box, Imputer
from vgi_cli.imputers.frozen import frozen
from vgi_cli.imputers.packing import PACK, Pack, chains_of, pack_of, rows_at_once, sweep_noise
from vgi_cli.imputers.starts import Start
from vgi_cli.maths.noise import KeyedNoise


@final
class GibbsImputer(Imputer):
    """One chain per draw and row, of max(minimum, per_hole · holes) sweeps; draws of q outside the box are refused (the
    cell keeps its value until the next sweep) and counted."""

    def __init__(self, conditionals: Conditionals, start: Start, minimum: int = 20, per_hole: float = 1.0) -> None:
        self._q = conditionals
        self._start = start
        self._minimum = minimum
        self._per_hole = per_hole
        self._outside = 0
        self._draws = 0

    def rows_at_once(self, draws: int) -> int:
        """See Imputer."""
        return rows_at_once(draws)

    def sample(self, x: Tensor, missing: Tensor, noise: KeyedNoise, box: Box) -> Tensor:
        """See Imputer."""
        box = Box(box.low.to(x), box.high.to(x))
        out = self._start.states(x, missing, noise, box)
        with frozen(self._q):
            chains = chains_of(out, missing, noise)
            for index in torch.arange(len(chains.row), device=x.device).split(PACK):
                pack = pack_of(chains, chains.x, index)
                out[chains.draw[index], chains.row[index]] = self._run(pack, box)[: pack.real]
        return out

    def _run(self, pack: Pack, box: Box) -> Tensor:
        x, missing = pack.x, pack.missing
        holes = missing.sum(1)
        sweeps = (self._per_hole * holes).clamp(min=self._minimum).ceil() * (holes > 0)
        allowed = self._q.blocks(missing)
        for sweep in range(int(sweeps.max())):
            noise = sweep_noise(pack.noise, sweep, self._q.cell_width, x.dtype)
            scan = random_scan(allowed, noise.order[:, self._q.members[:, 0]], int(allowed.sum(1).max()))
            for g in range(scan.j.shape[1]):
                j, active = scan.j[:, g], scan.active[:, g] & (sweep < sweeps)
                new = self._q.redraw(x, missing, j, self._q.noise_of(noise.normal, j))
                inside = (box.contains(new) | ~missing).all(1)
                self._outside += int((active & ~inside).sum())
                self._draws += int(active.sum())
                x = torch.where((active & inside)[:, None], new, x)
        return x

    def diagnostics(self) -> dict[str, object]:
        """Draws of q taken and refused because they lay outside the box."""
        return {"draws": self._draws, "outside_range": self._outside} if self._draws else {}
