"""Masked residual networks: outputs of column i depend on the columns before i only (MADE, Germain et al. 2015, with
the residual blocks of Durkan et al. 2019, appendix B.1).

Every hidden unit has a degree m in 1 .. D - 1: it sees the first m columns, directly and through other units. Degrees
never fall from one unit to the next, so the units that see the first m columns are the first `ends[m]` of every layer.
A context, numbers of a row that every unit sees, is like a column before the first: then there are units of degree 0.
Rows are the last dimension: X is [D, R].
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vgi_cli.maths import residual
from vgi_cli.maths.nets import Dropout, masks_of


def unit_degrees(D: int, hidden: int) -> Tensor:
    """The degrees of `hidden` units [hidden], ascending, spread evenly over 1 .. D - 1.

    Where there are fewer units than degrees, the first and the last degree are among them: the unit of degree D - 1
    alone sees the last column but one.
    """
    unit, degrees = torch.arange(hidden), max(D - 1, 1)
    if hidden >= degrees:
        return 1 + unit * degrees // hidden
    return 1 + unit * (degrees - 1) // max(hidden - 1, 1)


class MaskedLinear(nn.Module):
    """W X + b with the entries of W [out, in] fixed to 0 where the mask is 0; zero until initialised."""

    mask: Tensor

    def __init__(self, mask: Tensor) -> None:
        """mask [out, in], of booleans; the sizes of the network tell it, so no checkpoint holds it."""
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(mask.shape))
        self.bias = nn.Parameter(torch.zeros(mask.shape[0]))
        self.register_buffer("mask", mask.to(self.weight.dtype), persistent=False)

    @torch.no_grad()
    def initialise(self, generator: torch.Generator, scale: float = 1.0) -> None:
        """Draw weights and biases uniformly from +- scale / sqrt(inputs that the mask leaves), in place."""
        limit = scale * self.mask.sum(1).clamp(min=1).rsqrt()
        for parameter, limits in ((self.weight, limit[:, None]), (self.bias, limit)):
            draw = torch.empty(parameter.shape, dtype=parameter.dtype, device=generator.device)
            parameter.copy_(draw.uniform_(-1, 1, generator=generator))
            parameter.mul_(limits)

    def matrix(self) -> Tensor:
        """The masked weights [out, in]."""
        return self.weight * self.mask

    def forward(self, X: Tensor) -> Tensor:
        """[in, R] -> [out, R]."""
        return torch.addmm(self.bias[:, None], self.matrix(), X)


class MaskedBlock(nn.Module):
    """X + W2 dropout(a(W1 a(X))) with masked W1 and W2: `nets.ResidualBlock`, rows last."""

    def __init__(self, mask: Tensor, dropout: float) -> None:
        super().__init__()
        self.first = MaskedLinear(mask)
        self.dropout = Dropout(dropout) if dropout else nn.Identity()
        self.second = MaskedLinear(mask)

    def forward(self, X: Tensor) -> Tensor:
        """[hidden, R] -> [hidden, R]."""
        change: Tensor = self.second(self.dropout(F.relu(self.first(F.relu(X)))))
        return X + change


def outputs(
    X: Tensor, inlet: tuple[Tensor, Tensor], blocks: Sequence[MaskedBlock], outlet: tuple[Tensor, Tensor]
) -> Tensor:
    """X [in, R] through a linear layer, masked blocks and another linear layer: [out, R].

    inlet, outlet  weight [outputs, inputs] and bias [outputs]
    """
    layers = [layer for block in blocks for layer in (block.first, block.second)]
    if residual.suit(X, inlet[0], *(layer.weight for layer in layers), outlet[0]):
        pairs = [inlet, *((layer.matrix(), layer.bias) for layer in layers), outlet]
        like = X.new_empty(()).expand(len(inlet[0]), X.shape[1])
        masks = masks_of([block.dropout for block in blocks], like)
        return residual.through(residual.Residual([part for pair in pairs for part in pair], *masks, turned=True), X)
    hidden = torch.addmm(inlet[1][:, None], inlet[0], X)
    for block in blocks:
        hidden = block(hidden)
    return torch.addmm(outlet[1][:, None], outlet[0], hidden)


class MaskedResidualNet(nn.Module):
    """D columns -> `each` outputs a column, those of column i from the columns before i; of column 0 they are free,
    or from the context alone where there is one, of `context` numbers."""

    def __init__(self, D: int, hidden: int, each: int, blocks: int, *, dropout: float = 0.0, context: int = 0) -> None:
        super().__init__()
        column = torch.arange(D)
        degree = unit_degrees(D + 1, hidden) - 1 if context else unit_degrees(D, hidden)
        self.D, self.each = D, each
        self.ends = [int((degree <= m).sum()) for m in range(D)]
        sees = degree[:, None] > column
        self.inlet = MaskedLinear(torch.cat([sees.new_ones(hidden, context), sees], 1))
        among_units = degree[:, None] >= degree
        self.blocks = nn.ModuleList(MaskedBlock(among_units, dropout) for _ in range(blocks))
        self.outlet = MaskedLinear((column[:, None] >= degree).repeat(each, 1))

    @torch.no_grad()
    def initialise(self, generator: torch.Generator, outlet_scale: float = 1.0) -> None:
        """Draw the weights; the blocks start near the identity, the outputs near 0 where `outlet_scale` is."""
        self.inlet.initialise(generator)
        for block in self._blocks:
            block.first.initialise(generator)
            if isinstance(block.dropout, Dropout):
                block.dropout.initialise(generator)
            block.second.initialise(generator, scale=1e-2)
        self.outlet.initialise(generator, outlet_scale)

    def forward(self, X: Tensor, context: Tensor | None = None) -> Tensor:
        """[D, R] -> [each, D, R], all columns in one pass; context [E, R]."""
        ends = [(layer.matrix(), layer.bias) for layer in (self.inlet, self.outlet)]
        out = outputs(X if context is None else torch.cat([context, X]), ends[0], self._blocks, ends[1])
        return out.view(self.each, self.D, -1)

    def solve(self, column: Callable[[int, Tensor], Tensor], context: Tensor | None = None) -> Tensor:
        """The X [D, R] with X[i] = column(i, outputs of column i given X), found column by column, without dropout.

        column(i, outputs [each, R]) -> [R]; for i = 0 without a context the outputs are [each, 1]. A unit is computed
        once, as soon as the last column that it sees is known: all columns together cost the multiplications of one
        pass. Nothing is changed in place, so that the result can be differentiated.
        """
        inlet, outlet = _Unrolled(self.inlet), _Unrolled(self.outlet)
        blocks = [(_Unrolled(block.first), _Unrolled(block.second)) for block in self._blocks]
        columns: list[Tensor] = [] if context is not None else [column(0, self.outlet.bias[:: self.D, None])]
        for i in range(len(columns), self.D):
            # those that see the first i columns; there may be none
            units = slice(self.ends[i - 1] if i else 0, self.ends[i])
            hidden = inlet.extend(context if i == 0 and context is not None else columns[-1][None], units)
            for first, second in blocks:
                hidden = hidden + second.extend(F.relu(first.extend(F.relu(hidden), units)), units)
            columns.append(column(i, outlet.extend(hidden, slice(i, None, self.D))))
        return torch.stack(columns)

    @property
    def _blocks(self) -> list[MaskedBlock]:
        return cast(list[MaskedBlock], list(self.blocks))


class _Unrolled:
    """A masked layer whose inputs become known piece by piece; its weights are masked once."""

    def __init__(self, layer: MaskedLinear) -> None:
        self.matrix, self.bias = layer.matrix(), layer.bias[:, None]
        self.known: list[Tensor] = []

    def extend(self, X: Tensor, units: slice) -> Tensor:
        """Take the next inputs [more, R]; the units of the slice [units, R], which must not see any later input."""
        self.known.append(X)
        known = torch.cat(self.known)
        return torch.addmm(self.bias[units], self.matrix[units, : len(known)], known)
