"""Where an imputing chain starts: empirical marginals (f0) or what the training chains of the run hold."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from vgi_cli.maths.noise import KeyedNoise
from vgi_cli.samplers.base import Box
from vgi_cli.samplers.held import HeldChains


class Start(ABC):
    """First states of the chains."""

    @abstractmethod
    def states(self, x: Tensor, missing: Tensor, noise: KeyedNoise, box: Box) -> Tensor:
        """[n, R, D] completed rows, n = len(noise.draws): observed cells as in x, missing cells inside the box."""


class EmpiricalStart(Start):
    """f0 (paper, section 3.2): each missing cell is an independent draw from its column's observed values in the fit.

    Values outside the box are left out; a column that has none inside starts at the point of the box nearest to 0.
    """

    def __init__(self, x: Tensor, missing: Tensor) -> None:
        """x, missing [N, D]: the table that was fitted, encoded."""
        self._sorted = [x[~missing[:, c], c].sort().values for c in range(x.shape[1])]

    def states(self, x: Tensor, missing: Tensor, noise: KeyedNoise, box: Box) -> Tensor:
        """See Start. Randomness: one keyed uniform a cell."""
        uniform = noise.at("f0").uniform()
        columns = []
        for c, values in enumerate(self._sorted):
            inside = values[(values >= box.low[c]) & (values <= box.high[c])].to(x)
            if len(inside) == 0:
                inside = torch.zeros(1).to(x).clamp(box.low[c].to(x), box.high[c].to(x))
            columns.append(inside[(uniform[..., c] * len(inside)).long()])
        return torch.where(missing, torch.stack(columns, -1), x)


class ChainStart(Start):
    """Draw k starts at chain k of the run, so that no two draws share a chain; where the run holds no such chain or
    cell (a new row, a newly hidden cell, a draw beyond K, a value outside the box) it starts at `otherwise`."""

    def __init__(self, held: HeldChains, otherwise: Start) -> None:
        self._held = held
        self._otherwise = otherwise

    def states(self, x: Tensor, missing: Tensor, noise: KeyedNoise, box: Box) -> Tensor:
        """See Start."""
        other = self._otherwise.states(x, missing, noise, box)
        found = self._held.find(noise.rows)
        draws = noise.draws.to(found.device)
        values = self._held.values(found.clamp(min=0), draws.clamp(max=self._held.K - 1)).to(x)
        usable = self._held.missing[found.clamp(min=0)] & (found >= 0)[:, None]
        usable = usable & (draws < self._held.K)[:, None, None] & box.contains(values)
        return torch.where(missing & usable, values, other)
