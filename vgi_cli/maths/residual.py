"""Rows through the residual network that sets the splines of a flow, by the compiled loops of `net_kernels.py`. The
same by torch is in `nets.py` and `masked.py`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import torch
from torch import Tensor

from vgi_cli.maths.compiled import kernel, suits_networks

LARGEST = 1 << 17
"""Weights of a layer up to which the loops are used: of more, two layers do not stay in the caches."""
LARGE = 200_000_000
"""Multiplications from which on a second thread is worth its start."""
WIDE, ROWS, TALL = 16, 6, 192
"""Numbers of a vector, rows of a product that are summed together, and rows that pass through the layers together, in
`net_kernels.py`."""
SIZE = 4
"""Bytes of a number."""


class Residual(NamedTuple):
    """h = W x + b; h = h + W2 (mask relu(W1 relu(h) + b1)) + b2 in each block; W h + b.

    parameters  weight [outputs, inputs] and bias [outputs] of the inlet, of the two layers of each block, of the outlet
    masks       of each block, [R, hidden] or, where they are `turned`, [hidden, R]; or None
    scale       what a mask is where it is not 0; 1 where there is none
    """

    parameters: Sequence[Tensor]
    masks: Sequence[Tensor | None]
    scale: float = 1.0
    turned: bool = False


def suit(x: Tensor, *weights: Tensor) -> bool:
    """Whether there are compiled loops for rows x [inputs, R] and a network of such weights."""
    return all(0 < weight.numel() <= LARGEST for weight in weights) and suits_networks(x, *weights)


def through(net: Residual, x: Tensor) -> Tensor:
    """[outputs, R] of x [inputs, R]; where `suit` says so."""
    parameters = [part.contiguous() for part in net.parameters]
    if torch.is_grad_enabled() and any(part.requires_grad for part in (x, *parameters)):
        out: Tensor = _Through.apply(net, x, *parameters)
        return out
    return _values(net, parameters, x.contiguous(), keep=False)[0]


class _Sizes(NamedTuple):
    """As the loops want them."""

    R: int
    inputs: int
    hidden: int
    blocks: int
    outputs: int
    keep: bool
    down: int
    right: int

    @classmethod
    def of(cls, net: Residual, parameters: Sequence[Tensor], x: Tensor, keep: bool) -> _Sizes:
        (inputs, R), hidden = x.shape, len(parameters[0])
        steps = (SIZE, SIZE * R) if net.turned else (SIZE * hidden, SIZE)
        return cls(R, inputs, hidden, len(net.masks), len(parameters[-1]), keep, *steps)

    def room(self, x: Tensor, layers: int) -> Tensor:
        """For what the loops keep of each row, so many layers."""
        rows, row = -(-self.R // ROWS) * ROWS, (-(-self.hidden // WIDE) | 1) * WIDE
        return x.new_empty(layers * rows * row + WIDE)  # a loop may read so far beyond

    def parts(self) -> list[tuple[int, ...]]:
        """What the loops are handed, once for each thread that is worth it."""
        work = self.R * self.hidden * (self.inputs + 2 * self.blocks * self.hidden + self.outputs)
        tall = -(-self.R // TALL)
        count = min(torch.get_num_threads(), tall, 1 + work // LARGE)
        ends = [min(tall * i // count * TALL, self.R) for i in range(count + 1)]
        return [(self.R, ends[i], ends[i + 1], *map(int, self[1:])) for i in range(count)]


def _values(net: Residual, parameters: Sequence[Tensor], x: Tensor, keep: bool) -> tuple[Tensor, Tensor]:
    """What comes out of the network and, where that is to be kept, what the derivatives are made of."""
    sizes = _Sizes.of(net, parameters, x, keep)
    out, kept = x.new_empty(sizes.outputs, sizes.R), sizes.room(x, 1 + 2 * keep * sizes.blocks)
    masks = [None if mask is None else mask.contiguous() for mask in net.masks]
    table = _table(parameters, parameters)
    of_masks = torch.tensor([0 if mask is None else mask.data_ptr() for mask in masks], dtype=torch.int64)
    addresses = tuple(part.data_ptr() for part in (x, table, of_masks, out, kept))
    parts, loop = sizes.parts(), kernel("residual")
    _side_by_side(len(parts), lambda i: loop(addresses, parts[i]))
    return out, kept


def _table(parameters: Sequence[Tensor], gradients: Sequence[Tensor]) -> Tensor:
    """[layers, 5] of each layer how many outputs it has, and where its weight, its bias and their gradients lie."""
    pairs = zip(parameters[::2], parameters[1::2], gradients[::2], gradients[1::2], strict=True)
    return torch.tensor([[len(pair[1]), *(part.data_ptr() for part in pair)] for pair in pairs])


def _side_by_side(count: int, do: Callable[[int], None]) -> None:
    """Each part on a thread of its own: loops hold no lock of Python's."""
    if count == 1:
        do(0)
        return
    with ThreadPoolExecutor(count) as pool:
        list(pool.map(do, range(count)))


class _Through(torch.autograd.Function):
    """The loops with their first derivatives, in x and in all parameters."""

    @staticmethod
    def forward(ctx: Any, net: Residual, x: Tensor, *parameters: Tensor) -> Tensor:
        x = x.contiguous()
        out, kept = _values(net, parameters, x, keep=True)
        ctx.net = net._replace(parameters=(), masks=[None] * len(net.masks))  # what was masked is kept
        ctx.save_for_backward(x, kept, *parameters)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():  # the caller asked for create_graph=True: refuse rather than give half of it
            raise NotImplementedError("residual networks have derivatives of first order only, got create_graph=True")
        x, kept, *parameters = ctx.saved_tensors
        grad, sizes = grad.contiguous(), _Sizes.of(ctx.net, parameters, x, True)
        parts, loop = sizes.parts(), kernel("residual_gradients")
        to_x = torch.empty_like(x) if ctx.needs_input_grad[1] else None
        gradients = [part.new_empty(len(parts), *part.shape) for part in parameters]
        tables = [_table(parameters, [gradient[i] for gradient in gradients]) for i in range(len(parts))]
        room = sizes.room(x, 1)
        tail = (grad.data_ptr(), kept.data_ptr(), 0 if to_x is None else to_x.data_ptr(), room.data_ptr())

        def do(i: int) -> None:
            loop((x.data_ptr(), tables[i].data_ptr(), *tail), parts[i], ctx.net.scale)

        _side_by_side(len(parts), do)
        return (None, to_x, *(part[0] if len(parts) == 1 else part.sum(0) for part in gradients))
