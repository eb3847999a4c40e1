"""How many factors or components: by the log-likelihood of the observed cells of rows that were held out.

The rule. Rows are cut into three folds. Each candidate of the family (`GaussianFamily.sizes`: paths of growing size) is
fitted by EM to two folds and scored on the third; the score is the mean over all held-out rows of log p(x_obs), nats a
row. In a family of one Gaussian (`fa`) a share of a wide law is mixed into p: there a giant among the rows (an elephant
among mammals) is worth hundreds of nats, of which no size takes any away, and it alone would decide, by how wrong each
is about it. A mixture may spend a component on what is far: there it counts as any row. A path is left after two sizes
in a row that are not better than its best, and the rest of the paths after two paths in a row that are not better than
the best so far. The largest candidate (in free parameters) wins whose score is within the family's slack of the best: 0
for `fa`, 0.01 nats a column for `mixture`. Tables of more than 6,000 rows are judged on 6,000 of them. Work is bounded
by counting operations, never by a clock, so that the same table and seed give the same size on every machine: a
candidate that would pass the bound is not tried.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from vgi_cli.data import TensorTable
from vgi_cli.methods.em import EmConfig, completed
from vgi_cli.methods.em_steps import climb
from vgi_cli.models.base import ModelConfig
from vgi_cli.models.gaussian_family import GaussianFamily, em_table, step_work

FOLDS = 3
ROWS = 6_000
FEWEST_ROWS = 12
"""With fewer rows nothing is held out: the smallest candidate is taken."""
WORK = 1.2e10
"""Multiplications that all fits together may take, some fifteen seconds on one core."""
EPOCHS, TOLERANCE = 15, 3e-4


class Candidate(NamedTuple):
    """A size that was tried, and its score: nats a held-out row."""

    config: ModelConfig
    score: float


class Sizing(NamedTuple):
    """The chosen configuration, the reason in one line, and everything that was tried."""

    config: Any
    reason: str
    tried: tuple[Candidate, ...]


def choose_size(
    family: type[GaussianFamily], config: ModelConfig, table: TensorTable, em: EmConfig, generator: torch.Generator
) -> Sizing:
    """The size of a family for a table; values that the configuration states are kept. Deterministic by generator."""
    used = (~table.missing.all(1)).nonzero()[:, 0]
    paths = family.sizes(config, len(used), table.D)
    if sum(map(len, paths)) == 1 or len(used) < FEWEST_ROWS:
        only = paths[0][0]
        given = "as set" if _stated(config) else "the only size that fits this table"
        reason = given if sum(map(len, paths)) == 1 else f"{len(used)} rows are too few to hold some out"
        return Sizing(only, f"{describe(only)}: {reason}", ())
    rows = used[torch.randperm(len(used), generator=generator)[:ROWS]]
    table = table.rows(rows).to(dtype=torch.float64)
    fold = torch.arange(table.N) % FOLDS
    starts = [completed(table.rows(fold != number), generator) for number in range(FOLDS)]
    seed = int(torch.randint(2**62, (), generator=generator))
    work, overall, poor_paths = 0.0, -math.inf, 0
    tried: list[Candidate] = []
    for path in paths:
        best, worse = -math.inf, 0
        for candidate in path:
            cost = 3.0 * EPOCHS * (FOLDS - 1) * step_work(family.build(candidate, table.D), table.N)
            if work + cost > WORK and tried:
                break
            work += cost
            score = held_out(family, candidate, table, starts, em, seed)
            tried.append(Candidate(candidate, score))
            worse = 0 if score > best else worse + 1
            best = max(best, score)
            if worse == 2:
                break
        poor_paths = 0 if best > overall else poor_paths + 1
        overall = max(overall, best)
        if poor_paths == 2:
            break
    enough = overall - family.slack * table.D
    near = [t for t in tried if t.score >= enough]
    winner = max(near, key=lambda t: family.build(t.config, table.D).free_parameters())
    others = ", ".join(f"{describe(t.config)} {t.score:.2f}" for t in tried if t is not winner)
    best_of = "best" if winner.score == overall else f"largest within {family.slack * table.D:.2f} nats of the best"
    scores = f"{winner.score:.2f} nats, encoded; {others}"
    reason = f"{describe(winner.config)}: {best_of} log-likelihood of held-out rows ({scores})"
    return Sizing(winner.config, reason, tuple(tried))


def _stated(config: ModelConfig) -> bool:
    """Whether some part of the size was said."""
    return any(isinstance(value, int) for value in config.model_dump(exclude_none=True).values())


def held_out(
    family: type[GaussianFamily],
    config: ModelConfig,
    table: TensorTable,
    starts: Sequence[Tensor],
    em: EmConfig,
    seed: int,
) -> float:
    """Mean over the rows of log p(x_obs) under a fit that has not seen the row, the family's share of a wide law mixed
    in; `starts`: for each fold the rows [n, D] outside it, completed."""
    total = 0.0
    fold = torch.arange(table.N) % FOLDS
    share = torch.tensor(family.outliers, dtype=torch.float64)
    wide = _wide_log_prob(table) + share.log()
    for number in range(FOLDS):
        kept, held = fold != number, fold == number
        model = family.build(config, table.D).double()
        model.initialise(starts[number], torch.Generator().manual_seed(seed))
        train = em_table(table.x[kept], table.missing[kept])
        climb(model, train, model.penalty(em.pooling, em.floor), epochs=EPOCHS, tolerance=TOLERANCE)
        with torch.no_grad():
            log_prob = model.marginal_log_prob(table.x[held], table.missing[held])
        total += torch.logaddexp(log_prob + (1 - share).log(), wide[held]).sum().item()
    return total / table.N


def _wide_log_prob(table: TensorTable) -> Tensor:
    """[N] log density of the observed cells of each row under independent Cauchy columns, whose centres and scales are
    the means and standard deviations of the columns."""
    scale = em_table(table.x, table.missing).scale
    sd = scale.variance.sqrt()
    cells = -torch.log1p(((table.x - scale.mean) / sd).square()) - torch.log(math.pi * sd)
    return torch.where(table.missing, 0.0, cells).sum(1)


def describe(config: ModelConfig) -> str:
    """`5 components, full`: the settings that a size has."""
    words = []
    for name, value in config.model_dump(exclude_none=True).items():
        if isinstance(value, bool):
            continue
        noun = name.removesuffix("s") if value == 1 else name
        words.append(f"{value} {noun}" if isinstance(value, int) else str(value))
    return ", ".join(words)
