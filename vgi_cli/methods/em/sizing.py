"""How many factors or components: by the log-likelihood of the observed cells of rows that were held out.

The rule. Rows are cut into three folds. Each candidate of the family (`GaussianFamily.sizes`: paths of growing size) is
fitted by EM to two folds and scored on the third; the score is the mean over all held-out rows of log p(x_obs), nats a
row. In a family of one Gaussian (`fa`) a share of a wide law is mixed into p: there a giant among the rows (an elephant
among mammals) is worth hundreds of nats, of which no size takes any away, and it alone would decide, by how wrong each
is about it. A mixture has broad components for what is far: there it counts as any row. A path is left after two sizes
in a row that are not better than its best, and the rest of the paths after two paths in a row that are not better than
the best so far. The candidate with the best score wins. Tables of more than 6,000 rows are judged on 6,000 of them.
Work is bounded by counting operations, so that the same table and seed give the same size on every machine: a candidate
that would pass the bound is not tried, and where the largest that was tried wins for that, the reason says so. Only
where a caller has a time limit does a clock end the search before that: the best of what was tried by then is taken,
and where nothing was, the smallest candidate. The number of factors of one Gaussian that levels shift is chosen without
these shifts, which take most of its time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import torch
from torch import Tensor

from vgi_cli.completers.base import GivenUp, ask, never
from vgi_cli.data import TensorTable
from vgi_cli.methods.em.em import EmConfig, completed
from vgi_cli.methods.em.steps import climb, nothing
from vgi_cli.models.base import ModelConfig
from vgi_cli.models.gaussian.family import FilledRows, GaussianFamily, em_table, step_work
from vgi_cli.workers import ONE_PROCESS, Tell, Workers

FOLDS = 3
ROWS = 6_000
FEWEST_ROWS = 12
"""With fewer rows nothing is held out: the smallest candidate is taken."""
WORK = 1.2e10
"""Multiplications that all fits together may take, some fifteen seconds on one core."""
LARGE = 0.25
"""Of the multiplications of one factor model, which are those of products of large matrices, the share that counts: as
many in small ones take several times as long."""
EPOCHS, TOLERANCE = 15, 3e-4


class Candidate(NamedTuple):
    """A size that was tried, and its score: nats a held-out row."""

    config: ModelConfig
    score: float


class Sizing(NamedTuple):
    """The chosen configuration, the reason in one plain line, everything that was tried, whether the caller's clock
    ended the search, and the scores in one line (None: nothing was tried)."""

    config: Any
    reason: str
    tried: tuple[Candidate, ...]
    cut: bool = False
    scores: str | None = None


def open_size(family: type[GaussianFamily], config: ModelConfig, table: TensorTable) -> bool:
    """Whether there is a size to choose, and rows to choose it by."""
    n = len(table.used)
    return n >= FEWEST_ROWS and sum(map(len, family.sizes(config, n, _numbers(table)))) > 1


def _numbers(table: TensorTable) -> int:
    """Its continuous dimensions: what covariances are of."""
    return table.D - len(table.layout.discrete)


class _InFolds(NamedTuple):
    """Rows in FOLDS.

    table   the rows
    starts  of each fold, the rows of the others, completed
    seed    of the candidates' fits
    """

    table: TensorTable
    starts: Sequence[Tensor]
    seed: int


class ComparedRows:
    """The rows of a table by which sizes are compared: the same for all families, and made once."""

    def __init__(self, table: TensorTable, generator: torch.Generator) -> None:
        self.table, self._generator = table, generator

    @cached_property
    def in_folds(self) -> _InFolds:
        """ROWS of those that are used, at most. Deterministic by the generator."""
        used, generator = self.table.used, self._generator
        rows = used[torch.randperm(len(used), generator=generator)[:ROWS]]
        table = self.table.rows(rows).to(dtype=torch.float64)
        fold = torch.arange(table.N) % FOLDS
        starts = [completed(table.rows(fold != number), generator) for number in range(FOLDS)]
        return _InFolds(table, starts, int(torch.randint(2**62, (), generator=generator)))


def choose_size(
    family: type[GaussianFamily],
    config: ModelConfig,
    rows: ComparedRows,
    em: EmConfig,
    *,
    stop: Callable[[], bool] = never,
    progress: Callable[[float], None] = nothing,
    workers: Workers = ONE_PROCESS,
) -> Sizing:
    """The size of a family for a table; values that the configuration states are kept. Deterministic by the rows,
    unless `stop` ends the search: that is asked after every iteration of EM. `progress` is told the share of the
    counted work that is done; `workers` fit the candidates."""
    used = rows.table.used
    paths = family.sizes(config, len(used), _numbers(rows.table))
    if sum(map(len, paths)) == 1 or len(used) < FEWEST_ROWS:
        only = paths[0][0]
        given = "as given" if _stated(config) else "the only size that fits this table"
        few = f"{len(used)} row{'s' * (len(used) != 1)} are too few to try more"
        reason = given if sum(map(len, paths)) == 1 else few
        return Sizing(only, f"{plain(only)}: {reason}", ())
    search = _Search(family, paths, rows.in_folds, em, stop, progress, workers)
    overall = search.run()
    tried, cut = search.tried, search.cut
    if not tried:
        return Sizing(paths[0][0], f"{plain(paths[0][0])}: no time was left to try more", (), cut)
    winner = next(one for one in tried if one.score == overall)
    N = search.rows.table.N
    some = f" on {N:,} of {len(used):,} rows" if len(used) > N else ""
    every = ", ".join(f"{describe(t.config)} {t.score:.2f}" for t in tried)
    scores = f"log-likelihood of held-out rows, nats a row, encoded: {every}"
    return Sizing(winner.config, search.reason(winner, some), tuple(tried), cut, scores)


@dataclass
class _Search:
    """A search along paths of ever larger candidates.

    rows           those by which they are compared
    workers        who makes these
    work           that was done
    tried          the candidates that were scored
    last_in_bound  those after which a path was left since the next one would have been too much work
    cut            whether the time was over first
    """

    family: type[GaussianFamily]
    paths: Sequence[Sequence[ModelConfig]]
    rows: _InFolds
    em: EmConfig
    stop: Callable[[], bool]
    progress: Callable[[float], None]
    workers: Workers = ONE_PROCESS
    work: float = 0.0
    tried: list[Candidate] = field(default_factory=list)
    last_in_bound: list[ModelConfig] = field(default_factory=list)
    cut: bool = False

    def run(self) -> float:
        """Follow the paths until two in turn lead to nothing better: the best score, -inf where there is none."""
        costs = [[self._cost(candidate) for candidate in path] for path in self.paths]
        overall, poor_paths = -math.inf, 0
        for number, path in enumerate(self.paths):
            best = self._follow(path, costs[number:])
            poor_paths = 0 if best > overall else poor_paths + 1
            overall = max(overall, best)
            if poor_paths == 2 or self.cut:
                break
        return overall

    @cached_property
    def _factors_alone(self) -> bool:
        """Whether the candidates differ in the number of factors of one Gaussian alone."""
        counts = [_counts(candidate) for path in self.paths for candidate in path]
        return all("factor" in own and own.get("cluster", 1) == 1 for own in counts)

    def _compared(self, candidate: ModelConfig) -> ModelConfig:
        """What is fitted to compare a candidate with the others."""
        return self.family.without_shifts(candidate) if self._factors_alone else candidate

    def _cost(self, candidate: ModelConfig) -> float:
        """The work of a candidate's fits."""
        model = self.family.build(self._compared(candidate), self.rows.table.layout)
        share = LARGE if self._factors_alone else 1.0
        return share * 3.0 * EPOCHS * (FOLDS - 1) * step_work(model, self.rows.table.N)

    def _follow(self, path: Sequence[ModelConfig], costs: Sequence[Sequence[float]]) -> float:
        """Try the candidates of a path until two in turn are no better: the best score, -inf where there is none.
        `costs`: the work of its candidates, and of those of the paths after it."""
        best, worse = -math.inf, 0
        own, *others = costs
        scores: list[float] = []
        for place, candidate in enumerate(path):
            if self.work + own[place] > WORK and self.tried:
                self.last_in_bound += [self.tried[-1].config] * (place > 0)
                break
            whole = self.work + _ahead([own[place:], *others], WORK - self.work)
            try:
                if place == len(scores):
                    scores += self._scores(path[place:], own[place:], whole)
            except GivenUp:
                self.cut = True
                break
            score = scores[place]
            self.work += own[place]
            self.tried.append(Candidate(candidate, score))
            worse = 0 if score > best else worse + 1
            best = max(best, score)
            if worse == 2:
                break
        return best

    def _scores(self, path: Sequence[ModelConfig], costs: Sequence[float], whole: float) -> list[float]:
        """The scores of the next candidates of a path, of which each takes its part of the `whole` work: of one, and by
        several processes of as many more as these have time for meanwhile. GivenUp where the time is over."""
        count = 1
        while count < min(1 + self.workers.count // FOLDS, len(path)) and self.work + sum(costs[: count + 1]) <= WORK:
            count += 1

        def told(share: float) -> None:
            self.progress((self.work + share * sum(costs[:count])) / whole)

        @torch.inference_mode()
        def score(item: tuple[int, int], tell: Tell) -> float:
            def each(share: float) -> None:
                tell(share)
                ask(self.stop)

            place, number = item
            table, starts, seed = self.rows
            return held_out(
                self.family, self._compared(path[place]), table, (number, starts[number]), self.em, seed, each
            )

        items = [(place, number) for place in range(count) for number in range(FOLDS)]
        sums = list(self.workers.in_order(score, items, told))
        return [sum(sums[place * FOLDS : (place + 1) * FOLDS]) / self.rows.table.N for place in range(count)]

    def reason(self, winner: Candidate, some: str) -> str:
        """Why the winner was chosen; `some`: on which rows, where these are not all."""
        more = "; more would take too long to compare" if winner.config in self.last_in_bound else ""
        if len(self.tried) == 1:
            reason = f"{plain(winner.config)}: no other number was tried{some}{more}"
        else:
            verb = "describes" if _single(winner.config) else "describe"
            compared = f"{_range(self.tried)}{some}{more}; scores with -v"
            reason = f"{plain(winner.config)} {verb} held-out rows best ({compared})"
        if self.cut:
            reason += "; the time limit ended the search, with more time another number may be chosen"
        return reason


def _ahead(costs: Sequence[Sequence[float]], room: float) -> float:
    """Work of the candidates that will be tried if no path is left early: the first one, and those that have room."""
    total = 0.0
    for path in costs:
        for cost in path:
            if total and total + cost > room:
                break
            total += cost
    return total


def _stated(config: ModelConfig) -> bool:
    """Whether some part of the size was said."""
    return any(isinstance(value, int) for value in config.model_dump(exclude_none=True).values())


def held_out(
    family: type[GaussianFamily],
    config: ModelConfig,
    table: TensorTable,
    fold: tuple[int, Tensor],
    em: EmConfig,
    seed: int,
    each: Callable[[float], None] = nothing,
) -> float:
    """The sum over the rows of a fold of log p(x_obs) under a fit that has not seen them, the family's share of a wide
    law mixed in; `fold`: its number, and the rows [n, D] outside it, completed. `each` is told before every iteration
    which share of them is done, at most."""
    number, start = fold
    held = torch.arange(table.N) % FOLDS == number
    share = torch.tensor(family.undescribed, dtype=torch.float64)
    wide = _wide_log_prob(table)[held] + share.log()
    each(0.0)
    model = family.build(config, table.layout).double()
    part = table.rows(~held)
    model.initialise_filled(FilledRows(start, part.missing), torch.Generator().manual_seed(seed))
    train = em_table(part.x, part.missing, part.relative_weight)
    penalty = model.penalty(em.pooling, em.floor)
    climb(model, train, penalty, epochs=EPOCHS, tolerance=TOLERANCE, each=lambda done: each(done / EPOCHS))
    with torch.no_grad():
        log_prob = model.marginal_log_prob(table.x[held], table.missing[held])
    return float(torch.logaddexp(log_prob + (1 - share).log(), wide).sum())


def _wide_log_prob(table: TensorTable) -> Tensor:
    """[N] log density of the observed cells of each row under independent Cauchy columns, whose centres and scales are
    the means and standard deviations of the columns."""
    scale = em_table(table.x, table.missing).scale
    sd = scale.variance.sqrt()
    cells = -torch.log1p(((table.x - scale.mean) / sd).square()) - torch.log(math.pi * sd)
    return torch.where(table.missing, 0.0, cells).sum(1)


_NOUNS = {"components": "cluster", "factors": "factor"}


def _counts(config: ModelConfig) -> dict[str, int]:
    """How many clusters and factors a size has."""
    values = config.model_dump(include=set(_NOUNS), exclude_none=True)
    return {noun: values[name] for name, noun in _NOUNS.items() if name in values}


def _single(config: ModelConfig) -> bool:
    return next(iter(_counts(config).values())) == 1


def plain(config: ModelConfig) -> str:
    """`5 clusters`, `3 factors`, `2 clusters with 3 factors each`: a size in words."""
    words = [f"{count} {noun}{'s' * (count != 1)}" for noun, count in _counts(config).items()]
    size = words[0] if len(words) == 1 else f"{words[0]} with {words[1]}{' each' if not _single(config) else ''}"
    by = config.model_dump(include={"by"}).get("by")
    if by is not None:
        size = f"{size} for each level of '{by}'"
    shrinkage = _shrinkage(config)
    return size if shrinkage is None else f"{size}, shrunk by {shrinkage:g} rows"


def _shrinkage(config: ModelConfig) -> float | None:
    """By how many pseudo-rows covariances are shrunk to a target, where they are."""
    return config.model_dump(include={"shrinkage"}).get("shrinkage")


def _range(tried: Sequence[Candidate]) -> str:
    """`tried 1 to 8`: of what a size counts first, or of factors where that is one cluster alone; `tried by 10 to 160
    rows` where it is the strength that differs; `tried 1 to 3, by 2 to 8 rows` where both do."""
    strengths = {_shrinkage(candidate.config) for candidate in tried} - {None}
    sizes = [list(_counts(candidate.config).values()) for candidate in tried]
    counts = [size[-1] if all(other[0] == 1 for other in sizes) else size[0] for size in sizes]
    words = [f"{min(counts)} to {max(counts)}"] if len(strengths) < 2 or min(counts) < max(counts) else []
    if len(strengths) > 1:
        words.append(f"by {min(strengths):g} to {max(strengths):g} rows")  # type: ignore[type-var]
    return f"tried {', '.join(words)}"


def describe(config: ModelConfig) -> str:
    """`5 components, full`: the settings that a size has, but for those that are as ever."""
    words = []
    for name, value in config.model_dump(exclude_none=True, exclude_defaults=True).items():
        if isinstance(value, bool):
            continue
        noun = name.removesuffix("s") if value == 1 else name
        rows = f"by {value:g} rows" if isinstance(value, float) else str(value)
        words.append(f"{value} {noun}" if isinstance(value, int) else rows)
    return ", ".join(words)
