"""Tables of levels by component: a forest that all components share, whose conditional tables are each one's own.

The tables are pulled to those of all rows (`prior`) by Dirichlet priors. Broad components (`widened.py`) have tables of
their own too: their shape is fixed, not what levels the rows have that they explain.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate, pairwise
from typing import Any, Self

import torch
from torch import Tensor, nn

from vgi_cli.maths import lanes
from vgi_cli.maths.forests import (
    Forest,
    Seen,
    edge_weights,
    evidence,
    expected_counts,
    heaviest,
    inverted,
    joined,
    see,
)
from vgi_cli.models.gaussian.incomplete import Kept

EDGE = 1.0
"""Pseudo-rows of the marginal in each row of a conditional table of all rows."""
LEVEL = 0.5
"""Pseudo-rows of each level in the marginals of all rows."""
FITTED = 20
"""Rounds of proportional fitting of a table to how often levels occur."""
HALF, SEEN = 0.5, 10.0
"""Rows of a level of which a component has fewer than the former, where the latter are to be expected, are none."""
NEVER = -60.0
"""Log probability, or nearly so, of a level that a component does not have: its exponential is 0 for every sum, and it
is finite, so that what is multiplied by 0 is 0."""


class LevelSets:
    """U sets of observed levels.

    levels  [U, n] (int64), -1 where they are missing
    summed  whether all that is asked of them is densities and sums, without gradients (as of `Incomplete`)
    """

    def __init__(self, levels: Tensor, counts: Sequence[int], *, summed: bool) -> None:
        """counts: the levels of each dimension."""
        self.levels, self.summed, self._counts = levels, summed, counts

    @cached_property
    def evidence(self) -> list[Tensor]:
        """Of each dimension what each set says of it (maths/forests.py)."""
        return evidence(self.levels.clamp(min=0), self.levels < 0, self._counts)


class SeenSets:
    """Sets of levels as K forests see them, by compiled loops where there are some for them; log_prob [U, K]."""

    def __init__(self, categories: Categories, sets: LevelSets) -> None:
        self._categories, self._sets = categories, sets
        logits, K = categories.logits, categories.K
        self._loops: lanes.Levels | None = None
        if sets.summed and lanes.suit(len(sets.levels), K, logits):
            branches = lanes.branches_of(categories.forest)
            self._loops = lanes.Levels(lanes.tables_of(logits.detach(), branches), branches, sets.levels)
        self.log_prob = self.seen.log_prob if self._loops is None else self._loops.log_prob()[:, :K]

    @cached_property
    def seen(self) -> Seen:
        return self._categories.see(self._sets.evidence)

    def counts(self, weight: Tensor) -> Tensor:
        """[K, T] how often each cell of the tables is expected in sets of weights [U, K]."""
        if self._loops is None:
            return expected_counts(self.seen, weight)
        return self._loops.counts(lanes.weighted_lanes(weight))[:, : self._categories.K].mT


class Categories(nn.Module):
    """K forests of one shape over n discrete dimensions.

    logits  [K, T] of the conditional tables
    prior   [T] the conditional tables of all rows
    rows    [] of how many rows the tables are; 0: nobody has said so, as in older runs
    parent  [n] the forest's shape
    by      the dimension of which each component has one level and no other, but for the last ones, which are fewer
            than there are levels: the levels in order, as often as there is room (None: there is none); nothing else
            of those components depends on it
    """

    parent: Tensor
    prior: Tensor
    rows: Tensor
    _places: Tensor
    _absent: Tensor  # [components that have one level of `by`, levels] its logits: NEVER but for that level

    def __init__(self, levels: Sequence[int], K: int, by: int | None = None) -> None:
        super().__init__()
        self.K, self.by = K, by
        self._kept = Kept()  # of this forest, until it takes another one
        self.forest = Forest.without_edges(levels)
        prior = self.forest.flat([torch.full((1, n), 1.0 / n) for n in levels])
        self.register_buffer("parent", torch.tensor(self.forest.parent, dtype=torch.int64))
        self.register_buffer("_places", self.forest.places.clone(), persistent=False)  # on the device: it may not wait
        self.register_buffer("prior", prior)
        self.register_buffer("rows", torch.zeros(()))
        self.logits = nn.Parameter(prior.log().expand(K, -1).clone())
        one = torch.zeros(0, 0) if by is None else torch.eye(levels[by]).repeat(K // levels[by], 1)
        self.register_buffer("_absent", NEVER * (1 - one), persistent=False)
        self._hold()

    def log_tables(self) -> Tensor:
        """[K, T] logarithms of the conditional tables."""
        return self._kept.until_changed("log tables", (self.logits,), lambda: self.forest.log_softmax(self.logits))

    def log_prob(self, c: Tensor, log_tables: Tensor | None = None) -> Tensor:
        """Complete rows c [R, n] (int64): [R, K]. `log_tables`: what `log_tables` gave, where somebody has that."""
        tables = self.log_tables() if log_tables is None else log_tables
        return tables[:, self.forest.cells(c, self._places)].sum(-1).mT

    def see(self, evidence: Sequence[Tensor]) -> Seen:
        """Rows of this `evidence` (maths/forests.py)."""
        return see(self.forest, self.forest.tables(self.log_tables().exp()), evidence)

    def log_penalty(self, rows: float) -> Tensor:
        """The Dirichlet priors of the tables, of so many pseudo-rows a row, 0 at their modes; nats."""
        each = self.prior * (self.log_tables() - self.prior.log())
        if self.by is not None:
            each = each.clone()
            each[: self._with_one_level(), self._held()] = 0.0
        return rows * each.sum()

    @torch.no_grad()
    def maximise(self, counts: Tensor, rows: float) -> None:
        """The M-step, in place, from expected counts [K, T]."""
        self.rows.copy_(self.forest.tables(counts)[self.forest.order[0]].sum())
        raised = counts + rows * self.prior
        tables = [table / table.sum(-1, keepdim=True) for table in self.forest.tables(raised)]
        self.logits.copy_(self.forest.flat(tables).log())
        self._hold()

    def _held(self) -> slice:
        """The cells of the table of `by` among T; it has no parent."""
        assert self.by is not None
        return slice(*self.forest.starts[self.by : self.by + 2])

    def _with_one_level(self) -> int:
        """How many components have one level of `by`."""
        assert self.by is not None
        levels = self.forest.levels[self.by]
        return self.K // levels * levels

    @torch.no_grad()
    def _hold(self) -> None:
        """Give each of the first components the one level of `by` that it has, in place."""
        if self.by is not None:
            self.logits[: self._with_one_level(), self._held()] = self._absent

    @torch.no_grad()
    def learn(
        self,
        marginals: Tensor,
        pairs: Tensor,
        rows: float,
        *,
        edges: bool,
        joined_too: Sequence[tuple[int, int]] = (),
    ) -> None:
        """Take the best forest and tables near those of weighted rows, in place.

        marginals  [K, F] counts of each level of each dimension, one dimension after the other, by component
        pairs      [K, F, F] counts of each pair of levels, in rows that have both
        rows       pseudo-rows by which a component's tables are pulled to those of all rows
        edges      False: the dimensions stay independent within a component
        joined_too pairs of dimensions that have an edge where no others lead from one to the other
        """
        levels = self.forest.levels
        weight = edge_weights(levels, pairs, rows, EDGE) if edges else torch.zeros(len(levels), len(levels))
        if edges and joined_too:
            least = weight[weight > 0].amin() if (weight > 0).any() else 1.0
            for i, k in joined_too:
                weight[i, k] = weight[k, i] = 0.5 * least
        if self.by is not None:
            weight[self.by] = weight[:, self.by] = 0.0
        forest = joined(Forest.without_edges(levels), heaviest(weight))
        ends = list(accumulate(levels, initial=0))
        places = [slice(a, b) for a, b in pairwise(ends)]
        own = [marginals[:, place].sum(0) + LEVEL for place in places]
        own = [counts / counts.sum() for counts in own]
        counts, prior = [], []
        for i, p in enumerate(forest.parent):
            count = marginals[:, None, places[i]] if p < 0 else pairs[:, places[p], places[i]]
            table = count.sum(0) + EDGE * own[i] if p >= 0 else own[i][None]
            counts.append(count)
            prior.append(table / table.sum(-1, keepdim=True))
        self._take(forest)
        self.prior.copy_(forest.flat(prior))
        self.maximise(forest.flat(counts), rows)

    @torch.no_grad()
    def forget_absent(self, share: Tensor, rows: float) -> None:
        """Leave out, in place, the levels that a component has from its prior alone, `rows` pseudo-rows, though so many
        rows are in it that SEEN of them should have each, were it as frequent there as among all; share [K]: of the
        rows that belong to a component. A row of such a level would else be taken for one of that component once in a
        few hundred times, and its numbers with it, however far from those of all other rows of the level."""
        tables, own = self.forest.tables(self.log_tables().exp()), self._marginals()
        parts = []
        for i, (table, prior) in enumerate(zip(tables, self.forest.tables(self.prior[None]), strict=True)):
            held = self.rows * share[:, None] * own[self.forest.parent[i]]  # [K, rows of the table]
            counts = table * (held[..., None] + rows) - rows * prior
            absent = (counts < HALF) & (held[..., None] * prior >= SEEN)
            parts.append(torch.where(absent, NEVER, table.log()))
        self.logits.copy_(self.forest.flat(parts))
        self._hold()

    def _marginals(self) -> dict[int, Tensor]:
        """[K, levels] how often those of each dimension occur; of dimension -1 one level, which all rows have."""
        tables, own = self.forest.tables(self.log_tables().exp()), {-1: self.logits.new_ones(self.K, 1)}
        for i in self.forest.order:
            own[i] = (own[self.forest.parent[i]][:, None, :] @ tables[i])[:, 0]
        return own

    @torch.no_grad()
    def set_ratios(self, child: int, log_ratios: Tensor) -> None:
        """Set the table of a dimension with a parent, in place, to the one whose odds ratios are those of log_ratios
        [K, levels of the parent, levels of the child] and in which both occur as often as they do: by iterative
        proportional fitting (Deming and Stephan 1940)."""
        own = self._marginals()
        parents, children = own[self.forest.parent[child]], own[child]
        both = (log_ratios - log_ratios.amax((1, 2), keepdim=True)).exp().to(self.logits)
        for _ in range(FITTED):
            both = both * (parents / both.sum(-1))[:, :, None]
            both = both * (children / both.sum(-2))[:, None, :]
        tables = list(self.forest.tables(self.log_tables().exp()))
        tables[child] = both / both.sum(-1, keepdim=True)
        self.logits.copy_(self.forest.flat(tables).log())
        self._hold()

    def sample(self, component: Tensor, generator: torch.Generator | None) -> Tensor:
        """One row [n, ..] of levels (int64) of each named component [n]."""
        log_tables = self.forest.tables(self.log_tables())
        out = torch.zeros(len(component), len(self.forest.levels), dtype=torch.int64, device=component.device)
        u = torch.rand(out.shape, dtype=self.logits.dtype, device=component.device, generator=generator)
        for i in self.forest.order:
            p = self.forest.parent[i]
            row = out[:, p] if p >= 0 else torch.zeros_like(component)
            out[:, i] = inverted(log_tables[i][component, row].exp(), u[:, i])
        return out

    def free_parameters(self) -> int:
        """Of all tables."""
        free = self.K * sum(a * (b - 1) for a, b in zip(self.forest.rows, self.forest.levels, strict=True))
        return free if self.by is None else free - self._with_one_level() * (self.forest.levels[self.by] - 1)

    def shrink_to(self, other: Self, share: float) -> None:
        """Keep a share of what sets the logits apart from those of other tables on the same forest, in place."""
        if self.forest != other.forest:
            raise ValueError("only tables on the same forest can be shrunk to each other")
        self.logits.copy_(torch.lerp(other.logits, self.logits, share))

    def _take(self, forest: Forest) -> None:
        """Make room for the tables of a forest, in place: the parameter stays the same object."""
        self.forest = forest
        self._kept.clear()
        self.parent.copy_(torch.tensor(forest.parent))
        self._places.copy_(forest.places)
        self.logits.data = self.logits.data.new_zeros(self.K, forest.T)
        self.prior = self.prior.new_zeros(forest.T)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        """Parameters that were saved bring their forest with them."""
        if (parent := state_dict.get(f"{prefix}parent")) is not None:
            try:
                self._take(Forest(self.forest.levels, tuple(parent.flatten().long().tolist())))
            except ValueError as error:
                args[-1].append(f"{prefix}parent: {error}")  # what load_state_dict says is wrong
                return
        super()._load_from_state_dict({f"{prefix}rows": torch.zeros(()), **state_dict}, prefix, *args)
