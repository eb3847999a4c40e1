"""Rows through the one of S small networks that each of them needs, by the compiled loops of `net_kernels.py`. The same
by torch, and which networks there are, is in `conditionals/networks/`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from vgi_cli.maths.compiled import kernel, suits_networks

LARGEST = 1 << 17
"""Weights of a layer of one network up to which the loops are used: more do not stay in the second cache."""
BEYOND = 16
"""Numbers beyond the end of what is kept that a loop may read, `net_kernels.WIDE`."""


class Networks(NamedTuple):
    """S networks of one shape, of layers with a leaky ReLU between.

    layers  weight [S, inputs, outputs] and bias [S, 1, outputs] of each; where one with an activation, but the first,
            has as many outputs as inputs, its inputs are added to what comes out
    slope   of the leaky ReLU
    active  whether one follows the last layer too
    skip    weight and bias of a linear map of rows x, which is added to what comes out of the last layer; None: there
            is none, or `active`
    """

    layers: Sequence[tuple[Tensor, Tensor]]
    slope: float
    active: bool = False
    skip: tuple[Tensor, Tensor] | None = None

    @property
    def parameters(self) -> list[Tensor]:
        """All of them, layer by layer, those of the linear map last."""
        return [part for pair in (*self.layers, *([] if self.skip is None else [self.skip])) for part in pair]


class NetworkInputs(NamedTuple):
    """What goes into the networks.

    x     [R, D] rows, R a part of Q: one for each Q / R next to each other
    h     [R or Q, F] what the layers see; None: x, which else the linear map alone sees
    j     [Q] (int64) the network of each row
    hide  whether a network sees the column of x that has its own number as 0
    """

    x: Tensor
    h: Tensor | None
    j: Tensor
    hide: bool = False


def suit(networks: Networks, rows: NetworkInputs) -> bool:
    """Whether there are compiled loops for these. No gradient goes to x."""
    weights = networks.parameters[::2]
    fits = all(weight.shape[1] * weight.shape[2] <= LARGEST for weight in weights)
    wanted = torch.is_grad_enabled() and rows.x.requires_grad
    return fits and not wanted and suits_networks(weights[0], rows.x, *([] if rows.h is None else [rows.h]))


def through(networks: Networks, rows: NetworkInputs) -> Tensor:
    """[Q, outputs] what its network makes of each row; where `suit` says so."""
    parameters = [part.contiguous() for part in networks.parameters]
    inputs = parameters if rows.h is None else [rows.h, *parameters]
    if torch.is_grad_enabled() and any(part.requires_grad for part in inputs):
        out: Tensor = _Through.apply(networks, rows, rows.h, *parameters)
        return out
    return _values(networks, parameters, rows, keep=False)[0]


class _Read(NamedTuple):
    """Rows as the loops read them, and the sizes that these want."""

    h: Tensor
    x: Tensor
    j: Tensor
    sizes: tuple[int, ...]

    @classmethod
    def of(cls, networks: Networks, rows: NetworkInputs) -> _Read:
        x, j = rows.x.contiguous(), rows.j.contiguous()
        h, hide_h = (x, rows.hide) if rows.h is None else (rows.h.contiguous(), False)
        Q, S, count = len(j), len(networks.layers[0][0]), len(networks.layers)
        D = 0 if networks.skip is None else x.shape[1]
        of_h, of_x = (h.shape[1], Q // len(h), int(hide_h)), (D, Q // len(x), int(rows.hide))
        return cls(h, x, j, (Q, S, count, count - (not networks.active), *of_h, *of_x))

    @property
    def addresses(self) -> tuple[int, int, int]:
        """Of the rows."""
        return self.h.data_ptr(), self.x.data_ptr(), self.j.data_ptr()


def _values(networks: Networks, parameters: Sequence[Tensor], rows: NetworkInputs, keep: bool) -> tuple[Tensor, Tensor]:
    """What comes out of the networks and, where that is to be kept, of each activation."""
    read, widths = _Read.of(networks, rows), [weight.shape[2] for weight, _ in networks.layers]
    out = read.x.new_empty(len(read.j), widths[-1])
    kept = read.x.new_empty(len(read.j) * sum(widths if networks.active else widths[:-1]) + BEYOND if keep else 0)
    table = _table(parameters, parameters)
    addresses = (*read.addresses, table.data_ptr(), out.data_ptr(), kept.data_ptr() if keep else 0)
    kernel("networks")(addresses, read.sizes, networks.slope)
    return out, kept


def _table(parameters: Sequence[Tensor], gradients: Sequence[Tensor]) -> Tensor:
    """[layers, 5] of each layer how many outputs it has, and where its weight, its bias and their gradients lie."""
    pairs = zip(parameters[::2], parameters[1::2], gradients[::2], gradients[1::2], strict=True)
    return torch.tensor([[pair[0].shape[2], *(part.data_ptr() for part in pair)] for pair in pairs])


class _Through(torch.autograd.Function):
    """The loops with their first derivatives, in h and in all parameters."""

    @staticmethod
    def forward(ctx: Any, networks: Networks, rows: NetworkInputs, h: Tensor | None, *parameters: Tensor) -> Tensor:
        out, kept = _values(networks, parameters, rows, keep=True)
        ctx.networks, ctx.hide = networks, rows.hide
        ctx.save_for_backward(rows.x, h, rows.j, kept, *parameters)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():  # the caller asked for create_graph=True: refuse rather than give half of it
            raise NotImplementedError("networks have derivatives of first order only, got create_graph=True")
        x, h, j, kept, *parameters = ctx.saved_tensors
        read, grad = _Read.of(ctx.networks, NetworkInputs(x, h, j, ctx.hide)), grad.contiguous()
        to_h = None
        if h is not None and ctx.needs_input_grad[2]:
            to_h = (torch.empty_like if len(h) == len(j) else torch.zeros_like)(read.h)
        gradients = [torch.empty_like(part) for part in parameters]
        table = _table(parameters, gradients)
        written = (grad.data_ptr(), kept.data_ptr(), 0 if to_h is None else to_h.data_ptr())
        kernel("network_gradients")((*read.addresses, table.data_ptr(), *written), read.sizes, ctx.networks.slope)
        return (None, None, to_h, *gradients)
