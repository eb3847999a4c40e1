"""Neural networks for the parts that the models and conditionals learn: plain and residual multilayer perceptrons.

Nothing here touches the global random state: weights are zero until an `initialise_*` function draws them from a
generator, and dropout counts its own calls.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Literal, TypeAlias, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vgi_cli.maths import compiled, residual
from vgi_cli.maths.counted import Counted
from vgi_cli.maths.noise import mix64

Activation: TypeAlias = Literal["relu", "leaky_relu", "sigmoid", "tanh"]

_ACTIVATIONS: dict[Activation, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "leaky_relu": F.leaky_relu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
}


def zero_linear(in_features: int, out_features: int) -> nn.Linear:
    """A linear layer whose weights and biases are 0 (torch's own constructor would draw from the global state)."""
    layer: nn.Linear = nn.utils.skip_init(nn.Linear, in_features, out_features)
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


@torch.no_grad()
def initialise_linear(layer: nn.Linear, generator: torch.Generator, scale: float = 1.0) -> None:
    """Draw weights and biases uniformly from +- scale / sqrt(in_features), in place; `scale` near 0 for a last layer
    that shall start close to zero output."""
    limit = scale / math.sqrt(max(layer.in_features, 1))
    for parameter in (layer.weight, layer.bias):
        draw = torch.empty(parameter.shape, dtype=parameter.dtype, device=generator.device)
        parameter.copy_(draw.uniform_(-limit, limit, generator=generator))


def initialise_layers(module: nn.Module, generator: torch.Generator) -> None:
    """Draw every linear layer of a module, and key every dropout of it, in the order of definition."""
    for child in module.modules():
        match child:
            case nn.Linear():
                initialise_linear(child, generator)
            case Dropout():
                child.initialise(generator)


class Dropout(Counted):
    """Dropout with randomness of its own: which units drop depends on a key and on the number of calls so far.

    Key and count are buffers, so that a restored model goes on exactly as one that was never stopped, on every device,
    and a captured graph drops other units at each replay. Without effect in evaluation mode.
    """

    def __init__(self, share: float) -> None:
        """`share` in [0, 1) of the units is set to 0, the others are scaled by 1 / (1 - share)."""
        super().__init__()
        if not 0 <= share < 1:
            raise ValueError(f"the share of dropped units must be in [0, 1), got {share}")
        self.share = share

    def forward(self, x: Tensor) -> Tensor:
        """x [...] -> [...]."""
        mask = self.mask(x)
        return x if mask is None else x * mask

    @property
    def scale(self) -> float:
        """What a unit that stays is multiplied by."""
        return 1 / (1 - self.share) if self.training else 1.0

    def mask(self, x: Tensor) -> Tensor | None:
        """What the next x of such a shape, type and device is multiplied by, and count the call; None: it stays as it
        is."""
        if not self.training or self.share == 0:
            return None
        seed = self.next_seed()
        threshold = round((self.share - 0.5) * 2.0**64)
        mask = compiled.kept_units(x, seed, threshold, self.scale)
        if mask is None:
            unit = torch.arange(x.numel(), device=x.device).view(x.shape)
            bits = mix64(unit ^ seed)  # uniform on the 64-bit integers
            mask = (bits >= threshold).to(x.dtype).mul_(self.scale)
        return mask


def masks_of(dropouts: Sequence[nn.Module], like: Tensor) -> tuple[list[Tensor | None], float]:
    """The masks of the next calls of some dropouts, of one share, for units as `like`, and what these are where they
    are not 0; None of nn.Identity."""
    masks = [layer.mask(like) if isinstance(layer, Dropout) else None for layer in dropouts]
    return masks, next((layer.scale for layer in dropouts if isinstance(layer, Dropout)), 1.0)


class ResidualBlock(nn.Module):
    """x + W2 dropout(a(W1 a(x))): a residual block with the activation a before each linear layer (He et al. 2016)."""

    def __init__(self, features: int, activation: Activation, dropout: float) -> None:
        super().__init__()
        self.activation = _ACTIVATIONS[activation]
        self.first = zero_linear(features, features)
        self.dropout = Dropout(dropout) if dropout else nn.Identity()
        self.second = zero_linear(features, features)

    def forward(self, x: Tensor) -> Tensor:
        """x [.., features] -> [.., features]."""
        change: Tensor = self.second(self.dropout(self.activation(self.first(self.activation(x)))))
        return x + change


class ResidualTrunk(nn.Module):
    """A linear layer and residual blocks: in_features -> hidden (the conditioner of neural spline flows)."""

    def __init__(
        self, in_features: int, hidden: int, blocks: int, *, activation: Activation = "relu", dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.inlet = zero_linear(in_features, hidden)
        self.blocks = nn.Sequential(*(ResidualBlock(hidden, activation, dropout) for _ in range(blocks)))

    def forward(self, x: Tensor) -> Tensor:
        """x [.., in_features] -> [.., hidden]."""
        hidden: Tensor = self.blocks(self.inlet(x))
        return hidden

    def outputs(self, X: Tensor, outlet: nn.Linear) -> Tensor:
        """X [in_features, R] through the trunk and then a linear layer: [out_features, R]."""
        blocks = cast(list[ResidualBlock], list(self.blocks))
        linear = [self.inlet, *(layer for block in blocks for layer in (block.first, block.second)), outlet]
        plain = all(block.activation is F.relu for block in blocks)
        if plain and residual.suit(X, *(layer.weight for layer in linear)):
            parameters = [part for layer in linear for part in (layer.weight, layer.bias)]
            like = X.new_empty(()).expand(X.shape[1], outlet.in_features)
            dropouts = [block.dropout for block in blocks]
            return residual.through(residual.Residual(parameters, *masks_of(dropouts, like)), X)
        return torch.addmm(outlet.bias[:, None], outlet.weight, self(X.t()).t())

    def initialise(self, generator: torch.Generator) -> None:
        """Draw the weights; each block's last layer starts near 0, so that the blocks start near the identity."""
        initialise_layers(self, generator)
        for block in self.blocks:
            initialise_linear(cast(ResidualBlock, block).second, generator, scale=1e-2)


class MLP(nn.Module):
    """A plain multilayer perceptron: linear layers with the activation (and dropout) between them."""

    def __init__(
        self,
        in_features: int,
        hidden: Sequence[int],
        out_features: int,
        *,
        activation: Activation = "leaky_relu",
        dropout: float = 0.0,
        late: int = 0,
    ) -> None:
        """`late`: features that only the last layer takes, besides the hidden units."""
        super().__init__()
        self.activation = _ACTIVATIONS[activation]
        sizes = [in_features, *hidden]
        self.layers = nn.ModuleList(zero_linear(a, b) for a, b in pairwise(sizes))
        self.dropouts = nn.ModuleList(Dropout(dropout) if dropout else nn.Identity() for _ in hidden)
        self.outlet = zero_linear(sizes[-1] + late, out_features)

    def forward(self, x: Tensor, beside: Tensor | None = None, late: Tensor | None = None) -> Tensor:
        """x [.., in_features] -> [.., out_features].

        beside  [.., b]: the last b of the in_features; x then has the others. The two broadcast.
        late    [.., late]: broadcasts with x; only where there are hidden layers, or nothing `beside`
        """
        for layer, drop in zip(self.layers, self.dropouts, strict=True):
            x, beside = drop(self.activation(linear_of_two(layer, x, beside))), None
        return linear_of_two(self.outlet, x, late if beside is None else beside)

    def initialise(self, generator: torch.Generator, outlet_scale: float = 1.0) -> None:
        """Draw the weights; `outlet_scale` near 0 makes the output start near 0."""
        initialise_layers(self, generator)
        initialise_linear(self.outlet, generator, outlet_scale)


def linear_of_two(layer: nn.Module, x: Tensor, beside: Tensor | None) -> Tensor:
    """A linear layer of x [.., a] and `beside` [.., b], next to each other. They broadcast, and what one of them adds
    is computed once for each of its rows."""
    assert isinstance(layer, nn.Linear)
    if beside is None:
        return F.linear(x, layer.weight, layer.bias)
    split = x.shape[-1]
    return F.linear(x, layer.weight[:, :split], layer.bias) + F.linear(beside, layer.weight[:, split:])
