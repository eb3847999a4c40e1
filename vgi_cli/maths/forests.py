"""Forests over discrete dimensions: each dimension depends on at most one other one, its parent.

    p(c) = prod_i p(c_i | c_parent(i)),   p(c_i) alone where i is a root

Marginals and conditionals under any mask are exact, by one pass of messages to the roots and one back (Pearl 1988,
chapter 4). Tables of K forests of one shape are held flat, [K, T]; a root's table has one row. Beliefs are normalised
at every node, so that products over many dimensions do not underflow. Which dimension should depend on which is found
as a spanning forest of largest weight (Chow and Liu 1968).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

import torch
from torch import Tensor


@dataclass(frozen=True)
class Forest:
    """The shape of a forest over n dimensions.

    levels  of each dimension
    parent  of each dimension, -1 for a root; following parents never leads back
    """

    levels: tuple[int, ...]
    parent: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.parent) != len(self.levels) or any(not -1 <= p < len(self.levels) for p in self.parent):
            raise ValueError(f"expected a parent for each of {len(self.levels)} dimensions, got {self.parent}")
        if len(self.order) < len(self.levels):
            raise ValueError(f"parents lead in a ring: {self.parent}")

    @classmethod
    def without_edges(cls, levels: Sequence[int]) -> Forest:
        """Independent dimensions."""
        return cls(tuple(levels), (-1,) * len(levels))

    @cached_property
    def order(self) -> tuple[int, ...]:
        """The dimensions, each after its parent."""
        found: list[int] = []
        level = [i for i, p in enumerate(self.parent) if p < 0]
        while level:
            found += level
            level = [i for i, p in enumerate(self.parent) if p in level]
        return tuple(found)

    @cached_property
    def rows(self) -> tuple[int, ...]:
        """Rows of the table of each dimension: the levels of its parent, 1 for a root."""
        return tuple(1 if p < 0 else self.levels[p] for p in self.parent)

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """Where the table of each dimension starts among T, and T."""
        return tuple(accumulate(self._sizes, initial=0))

    @cached_property
    def _sizes(self) -> list[int]:
        """Numbers in the table of each dimension."""
        return [a * b for a, b in zip(self.rows, self.levels, strict=True)]

    @property
    def T(self) -> int:
        """Numbers in the tables of one forest."""
        return self.starts[-1]

    def tables(self, flat: Tensor) -> list[Tensor]:
        """[.., T] as the table of each dimension [.., rows, levels]."""
        lead, parts = flat.shape[:-1], flat.split(self._sizes, -1)
        return [part.view(*lead, a, b) for part, a, b in zip(parts, self.rows, self.levels, strict=True)]

    def flat(self, tables: Sequence[Tensor]) -> Tensor:
        """The reverse of `tables`."""
        return torch.cat([table.flatten(-2) for table in tables], -1)

    def log_softmax(self, logits: Tensor) -> Tensor:
        """Logarithms [.., T] of the conditional probabilities that logits [.., T] stand for."""
        return self.flat([torch.log_softmax(table, -1) for table in self.tables(logits)])

    def cells(self, c: Tensor, places: Tensor | None = None) -> Tensor:
        """Where the cells of complete rows c [R, n] (int64) stand in the tables: [R, n] among T. `places`: those of
        this forest, on the device of c, where somebody keeps them there."""
        at = self.places.to(c.device) if places is None else places
        cells: Tensor = at[2] + c[:, at[0]] * at[1] + c
        return cells

    @cached_property
    def places(self) -> Tensor:
        """[3, n] of each dimension its parent, how far apart the rows of its table are (0: it has one), and where that
        starts."""
        parent = [max(p, 0) for p in self.parent]
        width = [0 if p < 0 else n for p, n in zip(self.parent, self.levels, strict=True)]
        return torch.tensor([parent, width, list(self.starts[:-1])])


def joined(forest: Forest, edges: Sequence[tuple[int, int]]) -> Forest:
    """The forest of the same dimensions with these undirected edges; each tree hangs from its first dimension."""
    near: list[list[int]] = [[] for _ in forest.levels]
    for a, b in edges:
        near[a].append(b)
        near[b].append(a)
    parent: list[int | None] = [None] * len(forest.levels)
    for root in range(len(parent)):
        if parent[root] is not None:
            continue
        parent[root], front = -1, [root]
        while front:
            at = front.pop()
            for other in near[at]:
                if other == parent[at]:
                    continue
                if parent[other] is not None:
                    raise ValueError(f"edges {edges} make a ring, which has no parents")
                parent[other] = at
                front.append(other)
    return Forest(forest.levels, tuple(-1 if p is None else p for p in parent))


def heaviest(weight: Tensor) -> list[tuple[int, int]]:
    """The edges of the spanning forest of largest total weight [n, n] (its upper triangle counts), of edges with
    positive weights only (Kruskal 1956)."""
    n = len(weight)
    tree = list(range(n))
    pairs = sorted(((float(weight[a, b]), a, b) for a in range(n) for b in range(a + 1, n)), key=lambda p: -p[0])
    edges = []
    for value, a, b in pairs:
        if value > 0 and tree[a] != tree[b]:
            edges.append((a, b))
            tree = [tree[a] if t == tree[b] else t for t in tree]
    return edges


def edge_weights(levels: Sequence[int], pairs: Tensor, pull: float, smooth: float) -> Tensor:
    """What an edge between two dimensions is worth [n, n], symmetric, in nats: the logarithm of its Bayes factor.

    pairs   [K, F, F] weighted counts of pairs of levels in K components, of the levels of all dimensions in a row
    pull    pseudo-rows with which each row of a component's table is pulled to that of all components together
    smooth  pseudo-rows of the marginal in each row of the latter

    A component's rows with one level of the parent have a Dirichlet-multinomial law, around the table of all
    components with the edge and around their marginal without; for the former its free numbers are paid for as in BIC.
    The mean over both directions.
    """
    n, F = len(levels), sum(levels)
    member = torch.zeros(F, n, dtype=pairs.dtype, device=pairs.device)
    member[torch.arange(F), torch.repeat_interleave(torch.arange(n), torch.tensor(levels))] = 1
    whole = pairs.sum(0)
    own = member.mT @ whole  # [n, F] of the levels of one dimension, in rows that have the other too
    total = own @ member  # [n, n]
    marginal = (own + 1 / F) / ((own + 1 / F) @ member @ member.mT)
    around = (member @ marginal) * smooth
    law = (whole + around) / (((whole + around) @ member) @ member.mT)
    each = _log_rising(pairs, pull * law)
    with_edge = member.mT @ each @ member - member.mT @ _log_rising(pairs @ member, torch.tensor(pull))
    alone = _log_rising(member.mT @ pairs, pull * marginal) @ member
    without = alone - _log_rising(member.mT @ pairs @ member, torch.tensor(pull))
    free = torch.tensor([n - 1.0 for n in levels], dtype=pairs.dtype, device=pairs.device)
    cost = 0.5 * free[:, None] * free * total.clamp(min=2).log()
    worth = (with_edge - without).sum(0) - cost
    return 0.5 * (worth + worth.mT)


def _log_rising(count: Tensor, start: Tensor) -> Tensor:
    """log Gamma(start + count) - log Gamma(start)."""
    return torch.lgamma(count + start) - torch.lgamma(start.to(count))


class Seen(NamedTuple):
    """Rows seen by K forests, from the leaves to the roots.

    tables    of each dimension [K, rows, levels], probabilities
    beliefs   of each dimension [K, R, levels]: proportional to the probability of what is observed at and below it
              given its level; at a root times that of the level, so that it is the level's law given the row
    messages  of each dimension [K, R, rows], the same given the level of its parent
    log_prob  [R, K] logarithm of the probability of the observed cells
    """

    forest: Forest
    tables: list[Tensor]
    beliefs: list[Tensor]
    messages: list[Tensor]
    log_prob: Tensor


def evidence(c: Tensor, missing: Tensor, levels: Sequence[int]) -> list[Tensor]:
    """Of each dimension [R, levels] which of its levels rows c [R, n] (int64; anything where missing [R, n]) may have:
    1 for the observed one, for all where it is missing, else 0."""
    c = torch.where(missing, 0, c)
    one_hot = (torch.nn.functional.one_hot(c[:, i], n) for i, n in enumerate(levels))
    return [torch.where(missing[:, i, None], 1.0, part.to(torch.float64)) for i, part in enumerate(one_hot)]


def see(forest: Forest, tables: Sequence[Tensor], evidence: Sequence[Tensor]) -> Seen:
    """Rows of this `evidence` under K forests of positive tables [K, rows, levels]."""
    K, R = tables[0].shape[0], len(evidence[0])
    log_prob = tables[0].new_zeros(K, R)
    beliefs: list[Tensor] = [log_prob] * len(tables)
    messages: list[Tensor] = [log_prob] * len(tables)
    below: list[list[Tensor]] = [[] for _ in tables]
    for i in reversed(forest.order):
        belief = evidence[i].to(log_prob.dtype).expand(K, -1, -1)
        factors = below[i] if forest.parent[i] >= 0 else [tables[i], *below[i]]
        for factor in factors:
            belief = belief * factor
            total = belief.sum(-1, keepdim=True)
            log_prob = log_prob + total[..., 0].log()
            belief = belief / total
        beliefs[i] = belief
        if forest.parent[i] >= 0:
            messages[i] = beliefs[i] @ tables[i].mT
            below[forest.parent[i]].append(messages[i])
    return Seen(forest, list(tables), beliefs, messages, log_prob.mT)


def level_probs(seen: Seen) -> list[Tensor]:
    """The law of the level of each dimension [K, R, levels] given the observed cells of its row."""
    out = list(seen.beliefs)
    for i in seen.forest.order:
        if (p := seen.forest.parent[i]) >= 0:
            out[i] = ((out[p] / seen.messages[i]) @ seen.tables[i]) * seen.beliefs[i]
    return out


def expected_counts(seen: Seen, weight: Tensor) -> Tensor:
    """[K, T] how often each cell of the tables is expected in rows of these weights [R, K], given what they hold."""
    probs, weight = level_probs(seen), weight.mT
    counts = []
    for i, p in enumerate(seen.forest.parent):
        if p < 0:
            counts.append((weight[:, None] @ probs[i])[:, 0][:, None])
        else:
            above = probs[p] / seen.messages[i] * weight[..., None]
            counts.append(seen.tables[i] * (above.mT @ seen.beliefs[i]))
    return seen.forest.flat(counts)


def draw(seen: Seen, row: Tensor, component: Tensor, u: Tensor) -> Tensor:
    """Levels [m, n] (int64) given what is observed in rows `row` [m] of those seen, under forests `component` [m], by
    uniforms u [m, n] in (0, 1), each by the inverse of its distribution function, from the roots to the leaves."""
    out = torch.zeros(u.shape, dtype=torch.int64, device=u.device)
    for i in seen.forest.order:
        law = seen.beliefs[i][component, row]
        if (p := seen.forest.parent[i]) >= 0:
            law = law * seen.tables[i][component, out[:, p]]
        out[:, i] = inverted(law, u[:, i])
    return out


def inverted(weight: Tensor, u: Tensor) -> Tensor:
    """The level [m] (int64) at which the distribution function of weights [m, levels] (up to a factor) passes u [m];
    always one with a positive weight."""
    cumulative = weight.cumsum(-1)
    whole = cumulative[:, -1:]
    last = (cumulative < whole).sum(-1)
    return torch.minimum((u[:, None] * whole >= cumulative).sum(-1), last)
