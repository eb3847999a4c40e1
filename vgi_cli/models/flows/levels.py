"""The levels of a row under a flow: their probability, one discrete dimension after the other, and the embedding that
sets the flow of the numbers.

    log p(x) = sum_t log p(level of dimension o(t) | levels of o(1) .. o(t - 1)) + log p(numbers | all levels)

The order o is drawn once. One masked residual network over the levels' indicators gives all the conditionals in one
pass (MADE, Germain et al. 2015): that of maths/masked.py, with inputs and outputs in groups of unequal sizes and masks
that follow the order. Rows are the last dimension inside: indicators are [F, R].
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Literal, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vgi_cli.layout import Layout
from vgi_cli.maths.cumulative import ordered_log_probs
from vgi_cli.maths.indicators import Indicators
from vgi_cli.maths.laws import CategoricalLaw
from vgi_cli.maths.masked import MaskedBlock, outputs, unit_degrees
from vgi_cli.maths.nets import Dropout, ResidualTrunk, initialise_linear, zero_linear

Ordinal = Literal["softmax", "cumulative"]
PSEUDO_ROWS = 1.0
"""Spread evenly over the levels before frequencies are taken, so that a level that no row holds starts possible."""
SMALLEST_GAP = 1e-3
"""Between two cumulative logits."""


class LevelSizes(NamedTuple):
    """Of the networks of levels.

    hidden     units
    blocks     residual blocks
    embedding  length of the embedding
    dropout    share of hidden units that are dropped in training
    ordinal    how the probabilities of ordered levels are made
    """

    hidden: int
    blocks: int
    embedding: int
    dropout: float
    ordinal: Ordinal


class Group(NamedTuple):
    """Dimensions that are alike, next to each other: so many, of so many levels each; where their indicators and their
    outputs of the network stand."""

    dimensions: int
    levels: int
    cumulative: bool
    indicators: slice
    outputs: slice


class RowLevels(nn.Module):
    """What a flow makes of the discrete dimensions of rows x [.., D].

    dimensions  those that hold levels, in the order in which they are kept here: those that are alike together
    embedding   None: the rows hold no numbers that it could set
    """

    columns: Tensor

    def __init__(self, layout: Layout, sizes: LevelSizes) -> None:
        super().__init__()
        counts = layout.level_counts
        cumulative = {i: sizes.ordinal == "cumulative" and i in layout.ordered for i in layout.discrete}
        self.dimensions = sorted(layout.discrete, key=lambda i: (cumulative[i], counts[i], i))
        levels = [counts[i] for i in self.dimensions]
        self.register_buffer("columns", torch.tensor(self.dimensions), persistent=False)
        self.spread = Indicators(levels)
        self.density = LevelDensity(levels, [cumulative[i] for i in self.dimensions], sizes)
        self.embedding: LevelEmbedding | None = None
        if len(self.dimensions) < layout.D:
            self.embedding = LevelEmbedding(self.spread.F, sizes)

    @torch.no_grad()
    def initialise(self, x: Tensor, generator: torch.Generator) -> None:
        """Draw the order and the weights (in place); every dimension starts near its frequencies in rows x [R, D]."""
        counted = zip(self.dimensions, self.density.levels, strict=True)
        shares = [(x[:, i] == level).double().mean() for i, count in counted for level in range(count)]
        self.density.initialise(torch.stack(shares), len(x), generator)
        if self.embedding is not None:
            self.embedding.initialise(generator)

    def indicators(self, x: Tensor) -> Tensor:
        """[F, R] of the rows x [.., D]."""
        spread: Tensor = self.spread(x[..., self.columns].reshape(-1, len(self.dimensions)))
        return spread.t().contiguous()

    def sample(self, n: int, generator: torch.Generator | None) -> Tensor:
        """[n, dimensions] levels of independent rows, a dimension at a time in the order that was drawn."""
        like = self.density.outlet.bias
        device = like.device if generator is None else generator.device
        noise = torch.randn(self.density.n, n, 1, dtype=like.dtype, device=device, generator=generator).to(like.device)
        levels = like.new_zeros(n, self.density.n)
        for place, dimension in enumerate(self.density.order.tolist()):
            indicators = self.spread(levels).t()  # of those that are not drawn yet nothing is looked at
            law = CategoricalLaw(self.density.log_probs(indicators)[self.spread.of == dimension].t())
            levels[:, dimension] = law.draw(noise[place])
        return levels


class LevelDensity(nn.Module):
    """The joint probability of the levels of n dimensions: the product of their conditionals in the order drawn.

    levels  of each dimension
    order   [n] the dimension that comes first, second, and so on; part of what a run keeps
    """

    order: Tensor
    _of_input: Tensor
    _of_output: Tensor
    _degree: Tensor

    def __init__(self, levels: Sequence[int], cumulative: Sequence[bool], sizes: LevelSizes) -> None:
        """levels and cumulative: of each dimension; those that are alike stand next to each other."""
        super().__init__()
        outputs = [1 if joint else count for count, joint in zip(levels, cumulative, strict=True)]
        self.n, self.levels = len(levels), tuple(levels)
        self.groups = _groups(levels, cumulative)
        place, degree = torch.arange(self.n), unit_degrees(self.n, sizes.hidden)
        self.register_buffer("order", place.clone())
        self.register_buffer("_of_input", place.repeat_interleave(torch.tensor(levels)), persistent=False)
        self.register_buffer("_of_output", place.repeat_interleave(torch.tensor(outputs)), persistent=False)
        self.register_buffer("_degree", degree, persistent=False)
        hidden = sizes.hidden if self.n > 1 else 0  # one dimension has nothing before it
        self.inlet = OrderedLinear(sum(levels), hidden)
        among = degree[:, None] >= degree
        self.blocks = nn.ModuleList(MaskedBlock(among, sizes.dropout) for _ in range(sizes.blocks if hidden else 0))
        self.outlet = OrderedLinear(hidden, sum(outputs))
        self.gaps = nn.ParameterList(
            nn.Parameter(torch.zeros(g.dimensions, g.levels - 2, 1)) for g in self.groups if g.cumulative
        )

    @torch.no_grad()
    def initialise(self, shares: Tensor, rows: int, generator: torch.Generator) -> None:
        """Draw the order and the weights; the conditionals start near the shares [F] of the levels among `rows` rows,
        whatever came before."""
        self.order.copy_(torch.randperm(self.n, generator=generator, device=generator.device))
        sees_input, sees_unit = self._masks()
        self.inlet.initialise(generator, sees_input)
        for block in self._blocks:
            block.first.initialise(generator)
            if isinstance(block.dropout, Dropout):
                block.dropout.initialise(generator)
            block.second.initialise(generator, scale=1e-2)
        self.outlet.initialise(generator, sees_unit, scale=0.1)
        gaps = iter(self.gaps)
        for group in self.groups:
            share = shares[group.indicators].view(group.dimensions, group.levels)
            share = (share * rows + PSEUDO_ROWS / group.levels) / (rows + PSEUDO_ROWS)
            start = share.log()
            if group.cumulative:
                below = share.cumsum(1)[:, :-1]
                cuts = below.logit()
                start = -cuts[:, :1]
                gap = (cuts.diff(dim=1) - SMALLEST_GAP).clamp(min=1e-3)
                next(gaps).copy_(gap.expm1().log()[..., None])
            self.outlet.bias[group.outputs] = start.flatten().to(self.outlet.bias)

    def forward(self, indicators: Tensor) -> Tensor:
        """log p of the levels, nats: [F, R] -> [R]."""
        logits = self._logits(indicators)
        log_p = (logits * indicators).sum(0)
        for group in self.groups:
            if not group.cumulative:
                each = logits[group.indicators].view(group.dimensions, group.levels, -1)
                log_p = log_p - each.logsumexp(1).sum(0)
        return log_p

    def log_probs(self, indicators: Tensor) -> Tensor:
        """[F, R] log probability of every level of every dimension, given the levels of those before it."""
        logits = self._logits(indicators)
        each = (logits[g.indicators].view(g.dimensions, g.levels, -1).log_softmax(1).flatten(0, 1) for g in self.groups)
        return torch.cat(list(each))

    def _logits(self, indicators: Tensor) -> Tensor:
        """[F, R] log probabilities up to a constant for each dimension and row, which is 0 for cumulative ones."""
        sees_input, sees_unit = self._masks()
        inlet, outlet = self.inlet.masked(sees_input), self.outlet.masked(sees_unit)
        out = outputs(indicators, inlet, self._blocks, outlet)
        if not len(self.gaps):
            return out
        gaps = iter(self.gaps)
        parts = (
            cumulative_log_probs(out[g.outputs], next(gaps)) if g.cumulative else out[g.outputs] for g in self.groups
        )
        return torch.cat(list(parts))

    def _masks(self) -> tuple[Tensor, Tensor]:
        """Which inputs a unit sees [H, F], and which units an output [O, H]: those of dimensions before its own."""
        place = self.order.argsort()
        degree = self._degree[: self.inlet.bias.shape[0]]
        return degree[:, None] > place[self._of_input], place[self._of_output][:, None] >= degree

    @property
    def _blocks(self) -> list[MaskedBlock]:
        return cast(list[MaskedBlock], list(self.blocks))


class LevelEmbedding(nn.Module):
    """All levels of a row as numbers that a network may read: [F, R] -> [E, R]."""

    def __init__(self, features: int, sizes: LevelSizes) -> None:
        super().__init__()
        self.trunk = ResidualTrunk(features, sizes.hidden, sizes.blocks, dropout=sizes.dropout)
        self.outlet = zero_linear(sizes.hidden, sizes.embedding)

    def initialise(self, generator: torch.Generator) -> None:
        """Draw the weights (in place)."""
        self.trunk.initialise(generator)
        initialise_linear(self.outlet, generator)

    def forward(self, indicators: Tensor) -> Tensor:
        """[F, R] -> [E, R]."""
        hidden = F.relu(self.trunk(indicators.t()))
        return torch.addmm(self.outlet.bias[:, None], self.outlet.weight, hidden.t())


class OrderedLinear(nn.Module):
    """W X + b with the entries of W [out, in] at 0 where a mask is, which is handed in; zero until initialised."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(outputs, inputs))
        self.bias = nn.Parameter(torch.zeros(outputs))

    @torch.no_grad()
    def initialise(self, generator: torch.Generator, mask: Tensor, scale: float = 1.0) -> None:
        """Draw weights and biases uniformly from +- scale / sqrt(inputs that the mask [out, in] leaves), in place."""
        limit = scale * mask.sum(1).clamp(min=1).to(self.weight.dtype).rsqrt()
        for parameter, limits in ((self.weight, limit[:, None]), (self.bias, limit)):
            draw = torch.empty(parameter.shape, dtype=parameter.dtype, device=generator.device)
            parameter.copy_(draw.uniform_(-1, 1, generator=generator))
            parameter.mul_(limits)

    def masked(self, mask: Tensor) -> tuple[Tensor, Tensor]:
        """W with the entries at 0 where the mask is, and b."""
        return self.weight * mask, self.bias


def cumulative_log_probs(location: Tensor, gaps: Tensor) -> Tensor:
    """Log probabilities of ordered levels: P(level <= k) = sigmoid(t_k - location), with t_0 = 0 and steps of
    softplus(gap) between the t.

    location [n, R], gaps [n, L - 2, 1] -> [n L, R].
    """
    steps = (F.softplus(gaps) + SMALLEST_GAP).mT  # [n, 1, L - 2]
    cuts = F.pad(steps.cumsum(-1), (1, 0)) - location[..., None]  # [n, R, L - 1]
    between = (-torch.expm1(-steps)).log().expand(-1, cuts.shape[1], -1)
    return ordered_log_probs(cuts, between).mT.flatten(0, 1)


def _groups(levels: Sequence[int], cumulative: Sequence[bool]) -> tuple[Group, ...]:
    """Runs of dimensions that are alike."""
    groups, start, begin = [], 0, 0
    for (count, joint), alike in groupby(zip(levels, cumulative, strict=True)):
        n = len(list(alike))
        ends = start + n * count, begin + n * (1 if joint else count)
        groups.append(Group(n, count, joint, slice(start, ends[0]), slice(begin, ends[1])))
        start, begin = ends
    return tuple(groups)
