"""Rows of numbers and levels whose cells are independent: the law of a decoder's cells where some of them hold levels,
and how the numbers of a network become the probabilities of levels.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vgi_cli.maths.cumulative import ordered_log_probs
from vgi_cli.maths.diagonal import DiagonalNormal, finite
from vgi_cli.maths.laws import CategoricalLaw, CellsLaw


class Places(NamedTuple):
    """Where the dimensions of a row stand: those of numbers [c], those of levels [k], and of each of the D dimensions
    its place among the former followed by the latter."""

    continuous: Tensor
    discrete: Tensor
    back: Tensor


@dataclass(frozen=True)
class MixedCells(CellsLaw):
    """Independent cells: normals in the continuous dimensions, categories in the discrete ones, which hold levels.

    normal  [.., c]
    levels  [.., k, most levels]: log probability -inf beyond a dimension's own
    places  which dimensions are which
    """

    normal: DiagonalNormal
    levels: CategoricalLaw
    places: Places

    def centre(self) -> Tensor:
        return self._row(self.normal.mean, self.levels.log_probs.argmax(-1).to(self.normal.mean.dtype))

    def draw(self, noise: Tensor) -> Tensor:
        return self._row(self.normal.draw(self._numbers(noise)), _level(self.levels, self._levels(noise)))

    def log_prob(self, value: Tensor, missing: Tensor | None = None) -> Tensor:
        if missing is None:
            return self.normal.log_prob(self._numbers(value)) + self.levels.log_prob(self._levels(value)).sum(-1)
        seen = self.levels.log_prob(finite(self._levels(value)))
        return self.normal.log_prob(self._numbers(value), self._numbers(missing)) + torch.where(
            self._levels(missing), 0.0, seen
        ).sum(-1)

    def log_cells(self, value: Tensor) -> Tensor:
        numbers, levels = self._numbers(value), self._levels(value)
        return self._row(self.normal.log_cells(numbers), self.levels.log_prob(levels))

    def entropies(self) -> Tensor:
        return self._row(self.normal.entropies(), -self._expected(self.levels))

    def expected_log_levels(self, q: MixedCells) -> Tensor:
        """E_q [ log p(x_j) ] of every discrete dimension, summed over its levels: [.., k], exact."""
        return self._expected(q.levels)

    def log_mass(self, low: Tensor, high: Tensor) -> Tensor:
        """Of a discrete cell the log probability of its levels from low to high."""
        normal = self.normal.log_mass(self._numbers(low), self._numbers(high))
        inside = self._inside(low, high)
        allowed = self.levels.log_probs.double().masked_fill(~inside, -torch.inf)
        every = (inside | (self.levels.log_probs == -torch.inf)).all(-1)
        return self._row(normal, torch.where(every, 0.0, allowed.logsumexp(-1).clamp(max=0.0)))

    def draw_inside(
        self, noise: Tensor, again: Callable[[], Tensor], low: Tensor, high: Tensor, wanted: Tensor
    ) -> Tensor:
        """Numbers as of `DiagonalNormal`; a level from the probabilities of those from low to high."""
        numbers = self.normal.draw_inside(
            self._numbers(noise),
            lambda: self._numbers(again()),
            self._numbers(low),
            self._numbers(high),
            self._numbers(wanted),
        )
        wide = ~self._levels(wanted)[..., None]  # what is not wanted is drawn from all of them
        allowed = self.levels.log_probs.masked_fill(~(self._inside(low, high) | wide), -torch.inf)
        return self._row(numbers, _level(CategoricalLaw.of_logits(allowed), self._levels(noise)))

    def where(self, condition: Tensor, other: MixedCells) -> MixedCells:
        table = torch.where(condition[..., None, None], self.levels.log_probs, other.levels.log_probs)
        return MixedCells(self.normal.where(condition, other.normal), CategoricalLaw(table), self.places)

    def _numbers(self, row: Tensor) -> Tensor:
        """Of what stands in every dimension [.., D] that of the continuous ones."""
        return row[..., self.places.continuous]

    def _levels(self, row: Tensor) -> Tensor:
        """The same of the discrete ones."""
        return row[..., self.places.discrete]

    def _row(self, numbers: Tensor, levels: Tensor) -> Tensor:
        """[.., D] of the two parts, in the order of the dimensions."""
        shape = torch.broadcast_shapes(numbers.shape[:-1], levels.shape[:-1])
        parts = [part.expand(*shape, part.shape[-1]) for part in (numbers, levels.to(numbers.dtype))]
        return torch.cat(parts, -1)[..., self.places.back]

    def _expected(self, q: CategoricalLaw) -> Tensor:
        """[.., k] sum_l q_l log p_l over the levels that there are."""
        log_p = self.levels.log_probs
        return (q.log_probs.exp() * log_p.masked_fill(log_p == -torch.inf, 0.0)).sum(-1)

    def _inside(self, low: Tensor, high: Tensor) -> Tensor:
        """[.., k, most levels] which levels lie within bounds [.., D]."""
        level = torch.arange(self.levels.levels, device=low.device)
        return (level >= self._levels(low)[..., None]) & (level <= self._levels(high)[..., None])


def _level(law: CategoricalLaw, noise: Tensor) -> Tensor:
    """A draw [.., k], one number of noise for each; no number where the probabilities are none."""
    top = law.log_probs.amax(-1)
    return torch.where(top.isnan(), top, law.draw(noise[..., None]))


class CellKinds(nn.Module):
    """How the numbers of a network say the law of a row's cells, dimension by dimension.

    A continuous dimension has a mean and a log standard deviation, which come from elsewhere. A discrete one takes
    `numbers` for its levels 0 .. L - 1:

    - two levels: one number, the logit of level 1 (Bernoulli);
    - more, without an order: L logits (softmax);
    - more, in an order: P(x <= r) = sigmoid(t_r - h) (ordered logit: McCullagh 1980; Nazábal et al. 2020, section 2.2),
      with thresholds t_0 < .. < t_{L-2}. Where they are `shared` by all rows the network gives the place h alone, and
      L - 1 further numbers, which no network gives, the thresholds; else it gives L - 1 numbers, and h = 0. Of such
      numbers the first is t_0, each other one a step, as softplus^-1(t_r - t_{r-1}).

    c           continuous dimensions
    numbers     numbers of a network for all discrete ones
    thresholds  numbers that are shared
    plain       whether there is no discrete dimension
    """

    continuous: Tensor
    discrete: Tensor
    back: Tensor
    _logit: Tensor
    _step: Tensor
    _count: Tensor

    def __init__(self, levels: Sequence[int], ordered: Collection[int] = (), *, shared: bool = False) -> None:
        """levels: of each of the D dimensions, 0 where it is continuous; ordered: those whose levels have an order."""
        super().__init__()
        self.plain, self.shared = not any(levels), shared
        continuous = [i for i, L in enumerate(levels) if not L]
        in_order = [i for i, L in enumerate(levels) if L > 2 and i in ordered]
        nominal = [i for i, L in enumerate(levels) if L and i not in in_order]
        self.c = len(continuous)
        self._levels = {i: levels[i] for i in [*nominal, *in_order]}
        self._nominal, self._in_order = len(nominal), len(in_order)
        most = max(self._levels.values(), default=0)
        *first, logits = accumulate((1 if levels[i] == 2 else levels[i] for i in nominal), initial=0)
        *begins, steps = accumulate((levels[i] - 1 for i in in_order), initial=0)
        zero, never = logits, logits + 1  # what `_table` puts behind the network's numbers
        table = [
            [zero, at] if levels[i] == 2 else list(range(at, at + levels[i]))
            for i, at in zip(nominal, first, strict=True)
        ]
        longest = max((levels[i] - 1 for i in in_order), default=0)
        self.numbers, self.thresholds = (logits + len(in_order), steps) if shared else (logits + steps, 0)
        order = [*continuous, *nominal, *in_order]
        buffers = {
            "continuous": continuous,
            "discrete": order[self.c :],
            "back": [order.index(i) for i in range(len(levels))],
            "_logit": [[*row, *[never] * (most - len(row))] for row in table],
            "_step": [[min(at + t, steps - 1) for t in range(longest)] for at in begins],
            "_count": [[levels[i]] for i in in_order],
        }
        self._most, self._logits = most, logits
        for name, value in buffers.items():
            self.register_buffer(name, torch.tensor(value, dtype=torch.int64), persistent=False)

    def split(self, out: Tensor) -> tuple[Tensor, Tensor]:
        """What a network gives for the continuous dimensions, and, behind it, the `numbers` of the discrete ones."""
        if self.plain:
            return out, out.new_empty(0)
        numbers, levels = out.split([out.shape[-1] - self.numbers, self.numbers], -1)
        return numbers, levels

    def law(self, normal: DiagonalNormal, numbers: Tensor, thresholds: Tensor | None = None) -> CellsLaw:
        """The law of the cells, of numbers [.., numbers] for the levels and shared thresholds [thresholds]."""
        if self.plain:
            return normal
        return MixedCells(normal, CategoricalLaw(self._table(numbers, thresholds)), self.places)

    @property
    def places(self) -> Places:
        """Which dimensions are which."""
        return Places(self.continuous, self.discrete, self.back)

    @torch.no_grad()
    def at_frequencies(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Numbers [numbers] and thresholds [thresholds] with which every level has its frequency in completed rows x
        [R, D]; each is counted half a row more than there are."""
        logits, steps = [], []
        for place, (i, L) in enumerate(self._levels.items()):
            share = torch.bincount(x[:, i].long().clamp(0, L - 1).cpu(), minlength=L).double() + 0.5
            share = share / share.sum()
            if place >= self._nominal:
                at = torch.logit(share.cumsum(0)[:-1])
                steps.append(torch.cat([at[:1], at.diff().expm1().log()]))  # softplus^-1
            else:
                logits.append(share.log() if L > 2 else share.log().diff())
        nothing = torch.zeros(0, dtype=torch.float64)
        every, order = torch.cat([nothing, *logits]), torch.cat([nothing, *steps])
        if self.shared:
            return torch.cat([every, torch.zeros(self._in_order, dtype=torch.float64)]), order
        return torch.cat([every, order]), nothing

    def _table(self, numbers: Tensor, thresholds: Tensor | None) -> Tensor:
        """[.., k, most levels] log probabilities."""
        logits, rest = numbers[..., : self._logits], numbers[..., self._logits :]
        parts = []
        if self._nominal:
            behind = F.pad(F.pad(logits, (0, 1)), (0, 1), value=-torch.inf)  # what `_logit` names zero and never
            parts.append(behind[..., self._logit].log_softmax(-1))
        if self._in_order:
            place = rest if self.shared else rest.new_zeros(())
            given = cast(Tensor, thresholds) if self.shared else rest
            table = threshold_log_probs(place, given[..., self._step], self._count)
            table = table.expand(*numbers.shape[:-1], *table.shape[-2:])
            parts.append(F.pad(table, (0, self._most - table.shape[-1]), value=-torch.inf))
        return torch.cat(parts, -2)


def threshold_log_probs(place: Tensor, steps: Tensor, count: Tensor) -> Tensor:
    """Log probabilities [.., k, T + 1] of levels in an order, P(x <= r) = sigmoid(t_r - place), nats.

    place  [.., k] · steps [.., k, T] (CellKinds), of which a dimension uses count - 1 · count [k, 1] its levels

    Of thresholds that are softplus(s) apart, 1 - exp(t_{r-1} - t_r) is sigmoid(s).
    """
    threshold = torch.cat([steps[..., :1], F.softplus(steps[..., 1:])], -1).cumsum(-1) - place[..., None]
    return ordered_log_probs(threshold, F.logsigmoid(steps[..., 1:]).expand(*threshold.shape[:-1], -1), count)
