"""The baseline of `speed.py`, written plainly: K full copies of the table, and every conditional evaluated to use one.

This is how the paper describes its implementation: a row carries all K completed copies, the network gives the
parameters of all columns, all columns are redrawn, and the one that is wanted is selected. Extended kernel only.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from vgi_cli.chains.store.packed import Batch, Chains
from vgi_cli.conditionals.amortised import AmortisedConditionals
from vgi_cli.conditionals.base import Sweep
from vgi_cli.conditionals.networks.trunk import SLOPE
from vgi_cli.maths.laws import Law


@dataclass(frozen=True)
class Selected(Law):
    """The laws of blocks [R], or [R, M], of which those of all S are computed."""

    every: Law
    block: Tensor

    def draw(self, noise: Tensor) -> Tensor:
        return self._own(self.every.draw(self._spread(noise)))

    def log_prob(self, value: Tensor) -> Tensor:
        raise NotImplementedError("the baseline keeps every draw")

    def entropy(self) -> Tensor | None:
        entropy = self.every.entropy()
        return None if entropy is None else self._own(entropy)

    def draw_scored(self, noise: Tensor) -> tuple[Tensor, Tensor]:
        value, log_q = self.every.draw_scored(self._spread(noise))
        return self._own(value), self._own(log_q)

    def _spread(self, noise: Tensor) -> Tensor:
        """[R, S, 1] the noise of each row at its own blocks."""
        j = self.block.view(len(self.block), -1, 1)
        return noise.new_zeros(len(j), self.every.mean.shape[1], 1).scatter(1, j, noise.view(len(j), -1, 1))

    def _own(self, every: Tensor) -> Tensor:
        return every.gather(1, self.block.view(len(self.block), -1)).view(self.block.shape)


class PlainConditionals(AmortisedConditionals):
    """The same parameters; all S conditionals of every row."""

    def law(
        self, x: Tensor, missing: Tensor, block: Tensor, *, hidden: bool = False, first: Tensor | None = None
    ) -> Law:
        return Selected(self.family.law(self._every(x)), block)

    def sweep(self, x: Tensor, missing: Tensor) -> Sweep:
        return Sweep(self, x, missing)

    def _every(self, x: Tensor) -> Tensor:
        """[R, S, width] parameters of all columns."""
        trunk = self.network.trunk
        h, past = x, x[:, :0]
        for i, layer in enumerate(trunk):
            new = layer(h)
            if i == 0:
                new, past = new.split((new.shape[1] - trunk.linear, trunk.linear), 1)
            new = F.leaky_relu(new, SLOPE)
            h = h + new if i > 0 and new.shape == h.shape else new
        every = h[:, None].expand(-1, self.S, -1)
        *inner, last = self.network.heads
        for i, head in enumerate(inner):
            new = F.leaky_relu(_all(every, head), SLOPE)
            every = every + new if i > 0 else new
        out = _all(every, last)
        if self.network.skip is not None:
            out = out + _all(x[:, None].expand(-1, self.S, -1), self.network.skip)
        if self.network.slope is not None:
            out = torch.cat([out[..., :1] + (past @ self.network.slope.weight.t())[..., None], out[..., 1:]], 2)
        return out


def _all(h: Tensor, layer: torch.nn.Module) -> Tensor:
    """[R, S, inputs] -> [R, S, outputs]."""
    return torch.einsum("rsi,sio->rso", h, layer.weight) + layer.bias[:, 0]


class Copies(Chains):
    """K completed copies of the whole table."""

    def __init__(self, chains: Chains) -> None:
        self.x, self.missing, self.K, self.parts = chains.x, chains.missing, chains.K, chains.parts
        self.layout, self.incomplete, self.complete = chains.layout, chains.incomplete, chains.complete
        self.copies = torch.stack([chains.completed(k) for k in range(chains.K)])

    def batch(self, incomplete: Tensor, complete: Tensor) -> Batch:
        x = self.copies[:, incomplete].transpose(0, 1).reshape(-1, self.x.shape[1])
        missing = self.missing[incomplete].repeat_interleave(self.K, 0)
        n = len(incomplete) + len(complete)
        weight = torch.cat([x.new_full((len(x),), 1.0 / self.K), x.new_ones(len(complete))]) / n
        return Batch(torch.cat([x, self.x[complete]]), torch.cat([missing, self.missing[complete]]), weight, incomplete)

    def prefetch(self, incomplete: Tensor, complete: Tensor) -> None:
        """Everything is here."""

    def store(self, rows: Tensor, x: Tensor) -> None:
        self.copies[:, rows] = x.view(len(rows), self.K, -1).transpose(0, 1)
