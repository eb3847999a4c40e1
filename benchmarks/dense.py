"""The baseline of `speed.py`, written plainly: K full copies of the table, and every conditional evaluated to use one.

This is how the paper describes its implementation: a row carries all K completed copies, the network gives the
parameters of all columns, all columns are redrawn, and the one that is wanted is selected. Extended kernel only.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from vgi_cli.chains.store.packed import Batch, Chains
from vgi_cli.conditionals.amortised import AmortisedConditionals, log_normal, put
from vgi_cli.conditionals.base import Draw, Rows
from vgi_cli.conditionals.networks.trunk import SLOPE


class PlainConditionals(AmortisedConditionals):
    """The same parameters; all S conditionals of every row."""

    def see(self, x: Tensor, missing: Tensor) -> Rows:
        return Rows(x, missing, x.new_empty(len(x), 0))

    def params(self, rows: Rows, j: Tensor) -> Tensor:
        self._wanted = j
        return self._every(rows.x)[:, None]

    def fresh(self, params: Tensor, noise: Tensor) -> Tensor:
        value, _ = self.family.to_value(params, noise.expand(-1, self.S))
        return value.gather(1, self._wanted)[:, 0]

    def draw(self, x: Tensor, missing: Tensor, j: Tensor, noise: Tensor) -> Draw:
        params = self._every(x)
        u = x.new_zeros(len(x), self.S).scatter(1, j, noise[..., 0])
        value, log_det = self.family.to_value(params, u)
        entropy = self.family.entropy(params)
        log_q = log_normal(u) - log_det if entropy is None else -entropy
        return Draw(put(x[:, None], j, value.gather(1, j)), log_q.gather(1, j))

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
        self.x, self.missing, self.K, self.lines = chains.x, chains.missing, chains.K, chains.lines
        self.incomplete, self.complete = chains.incomplete, chains.complete
        self.copies = torch.stack([chains.completed(k) for k in range(chains.K)])

    def batch(self, incomplete: Tensor, complete: Tensor) -> Batch:
        x = self.copies[:, incomplete].transpose(0, 1).reshape(-1, self.x.shape[1])
        missing = self.missing[incomplete].repeat_interleave(self.K, 0)
        n = len(incomplete) + len(complete)
        weight = torch.cat([x.new_full((len(x),), 1.0 / self.K), x.new_ones(len(complete))]) / n
        return Batch(torch.cat([x, self.x[complete]]), torch.cat([missing, self.missing[complete]]), weight, incomplete)

    def prefetch(self, rows: Tensor) -> None:
        """Everything is here."""

    def store(self, rows: Tensor, x: Tensor) -> None:
        self.copies[:, rows] = x.view(len(rows), self.K, -1).transpose(0, 1)
