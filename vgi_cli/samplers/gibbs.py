"""The paper's pseudo-Gibbs sampler (Algorithm 5): every draw of q_j is kept, so the chain targets what q defines."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

import torch
from torch import Tensor

from vgi_cli.chains.moves import gibbs_step
from vgi_cli.chains.scans import random_scan
from vgi_cli.conditionals.base import Conditionals, Sweep
from vgi_cli.maths.noise import KeyedNoise
from vgi_cli.samplers.augmented import AugmentedImputer, LatentStart
from vgi_cli.samplers.base import Box, Imputer, SamplerInput, frozen
from vgi_cli.samplers.packing import Pack, PackedImputer, cell_noise, chains_of, pack_of, packed
from vgi_cli.samplers.starts import Start, start_of

GibbsStep = Callable[..., Tensor]
"""A step of PACK chains, a function of tensors: x, missing, box [2, D], the block j, which chains move, and the noise;
gives x anew."""


@final
class GibbsImputer(PackedImputer):
    """One chain per draw and row, of max(minimum, per_hole · holes) sweeps; draws of q outside the box are refused (the
    cell keeps its value until the next sweep) and counted."""

    def __init__(
        self,
        conditionals: Conditionals,
        start: Start,
        minimum: int = 20,
        per_hole: float = 1.0,
        capture: Callable[[GibbsStep], GibbsStep] | None = None,
    ) -> None:
        """`capture` makes a step faster (chains/captured.py)."""
        self._q = conditionals
        self._step: GibbsStep = self._plain_step if capture is None else capture(self._plain_step)
        self._start = start
        self._minimum = minimum
        self._per_hole = per_hole
        self._tally = torch.zeros(2, dtype=torch.int64)  # draws, refusals; on the device: it must not wait

    def sample(self, x: Tensor, missing: Tensor, noise: KeyedNoise, box: Box) -> Tensor:
        box = Box(box.low.to(x), box.high.to(x))
        out = self._start.states(x, missing, noise, box)
        if self._tally.device != x.device:
            self._tally = self._tally.to(x.device)  # before the first step: a captured one keeps its place
        with frozen(self._q):
            chains = chains_of(out, missing, noise)
            for index, part in packed(chains):
                pack = pack_of(chains, chains.x, index)
                out[chains.draw[index], chains.row[index]] = self._run(pack, box, part)[: pack.real]
        return out

    def _run(self, pack: Pack, box: Box, part: tuple[float, float]) -> Tensor:
        """States [PACK, D] at the end; `part`: the share of the work that was done before, and the one that this is."""
        x, missing, sides = pack.x, pack.missing, torch.stack(box)
        holes = missing.sum(1)
        sweeps = (self._per_hole * holes).clamp(min=self._minimum).ceil() * (holes > 0)
        allowed = self._q.blocks(missing)
        count = int(sweeps.max())
        for sweep in range(count):
            self.watch(part[0] + part[1] * sweep / count)
            noise = cell_noise(pack.noise, sweep, x.dtype)
            scan = random_scan(allowed, noise.order()[:, self._q.members[:, 0]], int(allowed.sum(1).max()))
            cells = noise.normal(self._q.members[scan.j], self._q.cell_width)
            for g in range(scan.j.shape[1]):
                j, active = scan.j[:, g], scan.active[:, g] & (sweep < sweeps)
                normal = self._q.noise_of(cells[:, g])
                x = self._step(x, missing, sides, j, active, normal)
        return x

    def _plain_step(self, x: Tensor, missing: Tensor, box: Tensor, j: Tensor, active: Tensor, normal: Tensor) -> Tensor:
        rows = Sweep(self._q, x.clone(), missing)  # that keeps nothing: each step computes what it needs
        done = gibbs_step(normal, rows, j, active, box)
        self._tally += torch.stack([active.sum(), (active & ~done.inside).sum()])
        return rows.x

    def counts(self) -> list[Tensor]:
        return [self._tally]

    def diagnostics(self) -> dict[str, object]:
        """Draws of q taken and refused because they lay outside the box."""
        draws, outside = self._tally.tolist()
        return {"draws": draws, "outside_range": outside} if draws else {}


def build(fitted: SamplerInput) -> Imputer:
    """The sampler `gibbs`; where latents are a block of the conditionals, on rows that have them."""
    q, start = fitted.conditionals, start_of(fitted)
    assert q is not None
    latents = len(q.block_of) - fitted.layout.d
    if not latents:
        return GibbsImputer(q, start, capture=fitted.capture)
    layout = fitted.layout.with_latents(latents)
    return AugmentedImputer(GibbsImputer(q, LatentStart(start, layout), capture=fitted.capture), layout)
