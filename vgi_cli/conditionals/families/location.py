"""A joint law of blocks in which levels and numbers go together: the location model of Olkin and Tate (1961).

The levels of a block's discrete dimensions have a table of probabilities over their combinations g; given these the
numbers have a joint law whose mean depends on the levels and whose precision does not:

    q(g, x) = q(g) N(x; mean + shift_g, (U' U)^-1)     (or the splines of `joint.py` on top)

with shift_g the sum over the discrete dimensions of a shift for the level of each. Where a row misses only some cells
of the block, those are drawn given the others: combinations that contradict an observed level are left out, and each of
the others is weighed by the Gaussian density of the observed numbers,

    q(g | x_O) ~ q(g) N(x_O; mean_O + shift_gO, Sigma_OO),

which is exact for Gaussian numbers; with splines it is a density of its own kind, of the same parameters, as in
`joint.py`. Either way what is drawn is what is scored.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import torch
from torch import Tensor, nn

from vgi_cli.conditionals.families.joint import JointFamily, JointLaw
from vgi_cli.errors import UsageError
from vgi_cli.layout import Layout
from vgi_cli.maths.laws import WIDE_SHARE, CategoricalLaw, Law, Quadrature

MOST_COMBINATIONS = 64
"""Combinations of levels of one block, at most: each has a probability of its own, read off the network."""


def combinations(levels: Sequence[int]) -> int:
    """How many combinations of levels dimensions with so many levels have (0: a continuous one)."""
    return math.prod(n for n in levels if n)


def check_combinations(layout: Layout) -> None:
    """UsageError for a block whose levels have too many combinations, beside which columns on their own count too."""
    counts = layout.level_counts
    for block in layout.partition.of:
        number = combinations([counts[i] for i in block])
        if number > MOST_COMBINATIONS:
            names = list(dict.fromkeys(layout.label(i) for i in block))
            if len(names) > 1:
                raise UsageError(
                    f"the block {', '.join(names)} has {number:,} combinations of levels, and a block has at most "
                    f"{MOST_COMBINATIONS}",
                    "make it smaller, or leave out the blocks",
                )
            raise UsageError(
                f"column '{names[0]}' has {number:,} levels, and beside blocks of columns that are redrawn together a "
                f"column has at most {MOST_COMBINATIONS}",
                "leave out the blocks",
            )


def within_combinations(group: Sequence[int], layout: Layout) -> list[list[int]]:
    """Columns in the same order, cut where the combinations of their levels would be too many."""
    pieces: list[list[int]] = [[]]
    number = 1
    for column in group:
        own = combinations(layout.level_counts[layout.slices[column]])
        if number * own > MOST_COMBINATIONS and pieces[-1]:
            pieces.append([])
            number = 1
        pieces[-1].append(column)
        number *= own
    return pieces


@dataclass(frozen=True)
class LocationLaw(Law):
    """The wanted cells of blocks; values [.., W] have the given ones where nothing is wanted.

    which    of the G combinations, given what is observed of the block
    levels   [.., G, W] the levels of each; 0 at continuous cells
    wanted   [.., W] discrete cells that are drawn
    shifts   [.., G, W] of the mean by combination
    numbers  gives the law of the wanted numbers from the shift of their mean [.., W]
    share    of the draws of the numbers that are wide

    Noise is [.., W + 1]: that of the numbers, and of the combination; of a widened law one more, which chooses.
    """

    which: CategoricalLaw
    levels: Tensor
    wanted: Tensor
    shifts: Tensor
    numbers: Numbers
    share: float = field(default=0.0, kw_only=True)

    def draw(self, noise: Tensor) -> Tensor:
        return self.draw_scored(noise)[0]

    def draw_scored(self, noise: Tensor) -> tuple[Tensor, Tensor]:
        level = self.which.draw(self._of_choice(noise)).long()
        value, log_q = self._given(level).draw_scored(self._of_numbers(noise, level))
        return self._filled(value, level), log_q + self.which.log_prob(level)

    def log_prob(self, value: Tensor) -> Tensor:
        agrees = (self.levels == value[..., None, :]) | ~self.wanted[..., None, :]
        possible = agrees.all(-1) & (self.which.log_probs > -torch.inf)
        level = possible.to(torch.int8).argmax(-1)  # exactly one for values that can be
        log_q = self._given(level).log_prob(value) + self.which.log_prob(level)
        return torch.where(possible.any(-1), log_q, -torch.inf)

    def entropy(self) -> Tensor | None:
        """That of the combination and of numbers whose spread is the same in all."""
        which, numbers = self.which.entropy(), self._given(None).entropy()
        return None if which is None or numbers is None else which + numbers

    def widened(self, share: float = WIDE_SHARE) -> Self:
        return replace(self, which=self.which.widened(share), share=share)

    def quadrature(self, noise: Tensor) -> Quadrature:
        """The combinations as `CategoricalLaw.chosen`, each with one draw of its numbers, by the same noise."""
        level, weight = self.which.chosen(self._of_choice(noise))
        law = self._given(level)
        entropy, numbers = self.which.entropy(), law.entropy()
        assert entropy is not None
        value, log_q = law.draw_scored(self._of_numbers(noise, level))
        if numbers is not None:
            log_q, entropy = torch.zeros_like(weight), entropy + numbers
        exact = len(weight) - (len(weight) < self.which.levels)
        return Quadrature(
            self._filled(value, level), weight, weight.detach() > 0, log_q.expand_as(weight), entropy, exact
        )

    def _given(self, level: Tensor | None) -> JointLaw:
        """The law of the numbers given the combination [(P), ..]; None: of what depends on no combination."""
        law = self.numbers(0.0 * self.shifts[..., 0, :] if level is None else _at(self.shifts, level))
        return law.widened(self.share) if self.share else law

    def _of_choice(self, noise: Tensor) -> Tensor:
        W = self.levels.shape[-1]
        return noise[..., W : W + 1]

    def _of_numbers(self, noise: Tensor, level: Tensor) -> Tensor:
        """[(P), .., W or W + 1], the same for each combination [(P), ..]."""
        W = self.levels.shape[-1]
        own = torch.cat([noise[..., :W], noise[..., W + 1 :]], -1) if self.share else noise[..., :W]
        return own.expand(*level.shape, own.shape[-1])

    def _filled(self, value: Tensor, level: Tensor) -> Tensor:
        return torch.where(self.wanted, _at(self.levels, level), value)


@dataclass(frozen=True)
class Numbers:
    """The law of the wanted numbers of blocks from the shift of their mean: see JointFamily."""

    family: JointFamily
    mean: Tensor
    U: Tensor
    splines: tuple[Tensor, ...]
    x: Tensor
    wanted: Tensor
    real: Tensor

    def __call__(self, shift: Tensor) -> JointLaw:
        """With mean + shift [(P), .., W]."""
        return self.family.given(self.mean + shift, self.U, self.splines, self.x, self.wanted, self.real)

    def observed(self, shifts: Tensor) -> Tensor:
        """[.., G] log density of the observed numbers up to a constant, by combination with shifts [.., G, W]:
        -1/2 (d' P d - d' P_OA P_AA^-1 P_AO d), d = x_O - mean_O - shift_O."""
        known = self.real & ~self.wanted
        shift = shifts.movedim(-2, 0)
        d = torch.where(known, self.x - self.mean - shift, 0.0)
        white = (self.U * d[..., None, :]).sum(-1)
        back = (self.U * white[..., None]).sum(-2)  # P d
        moved = self.mean + shift - self(shift).mean  # P_AA^-1 P_AO d at wanted cells
        cross = (torch.where(self.wanted, moved, 0.0) * back).sum(-1)
        return (-0.5 * (white.square().sum(-1) - cross)).movedim(0, -1)


class BlockLevels(nn.Module):
    """The combinations of levels of every block, and the laws of blocks.

    G         combinations of the block that has most
    family    of the numbers; W cells of a block, as there
    width     parameters of one law: those of the family, of which the first W are means, then G logits, then a shift of
              W means for each level of the block's discrete dimensions
    """

    levels: Tensor
    possible: Tensor
    indicators: Tensor
    discrete: Tensor

    def __init__(self, family: JointFamily, layout: Layout) -> None:
        """UsageError for a block whose levels have too many combinations."""
        super().__init__()
        check_combinations(layout)
        counts, partition = layout.level_counts, layout.partition
        members, real = partition.members()
        own = [[counts[i] if r else 0 for i, r in zip(*row, strict=True)] for row in zip(members, real, strict=True)]
        self.family, self.W = family, family.W
        self.G = max(combinations(row) for row in own)
        self.I = max(sum(row) for row in own)
        levels = torch.zeros(partition.S, self.G, self.W)
        possible = torch.zeros(partition.S, self.G, dtype=torch.bool)
        indicators = torch.zeros(partition.S, self.G, self.I)
        for s, row in enumerate(own):
            first = [sum(row[:w]) for w in range(self.W)]
            for g, combination in enumerate(itertools.product(*(range(max(n, 1)) for n in row))):
                levels[s, g], possible[s, g] = torch.tensor(combination, dtype=torch.float32), True
                for w, level in enumerate(combination):
                    if row[w]:
                        indicators[s, g, first[w] + level] = 1.0
        discrete = torch.tensor(own) > 0
        buffers = {"levels": levels, "possible": possible, "indicators": indicators, "discrete": discrete}
        for name, value in buffers.items():
            self.register_buffer(name, value, persistent=False)  # the table tells it
        self.width = family.width + self.G + self.I * self.W
        self.locations = self.W + self.G
        self.fresh_width, self.noise_width = self.W + 1, self.W + 2

    def law(self, params: Tensor, x: Tensor, wanted: Tensor, real: Tensor, block: Tensor) -> LocationLaw:
        """The laws with parameters [.., width] of the cells that are `wanted` of blocks [..]; the rest as in
        BlockFamily."""
        W = self.W
        means, logits, rest, raw = params.split([W, self.G, self.family.width - W, self.I * W], -1)
        discrete, levels = self.discrete[block], self.levels[block]
        shifts = self.indicators[block] @ raw.unflatten(-1, (self.I, W))  # [.., G, W]
        mean, U, splines = self.family.parts(torch.cat([means, rest], -1), real & ~discrete)
        numbers = Numbers(self.family, mean, U, splines, x, wanted & ~discrete, real & ~discrete)
        agrees = (levels == x[..., None, :]) | ~(discrete & real & ~wanted)[..., None, :]
        possible = self.possible[block] & agrees.all(-1)
        logits = (logits + numbers.observed(shifts)).masked_fill(~possible, -torch.inf)
        return LocationLaw(CategoricalLaw.of_logits(logits), levels, wanted & discrete, shifts, numbers)


def _at(table: Tensor, level: Tensor) -> Tensor:
    """[(P), .., W] the lines `level` [(P), ..] of table [.., G, W]."""
    index = level[..., None, None].expand(*level.shape, 1, table.shape[-1])
    return table.expand(*level.shape, *table.shape[-2:]).gather(-2, index)[..., 0, :]
