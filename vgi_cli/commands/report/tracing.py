"""The chains of a sampler, run anew for a few rows and recorded.

A call of the sampler for a few sweeps from given states goes on with a chain; so the kernel that is looked at is the
one that imputes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from vgi_cli.columns.base import ModelledColumn
from vgi_cli.columns.levelled import Levelled
from vgi_cli.columns.numerals import Floats
from vgi_cli.encoding.encoder import box as box_of
from vgi_cli.encoding.encoder import decode
from vgi_cli.fitting.fitted import FittedTable
from vgi_cli.fitting.plan import stream
from vgi_cli.fitting.rows import Rows
from vgi_cli.maths.noise import KeyedNoise
from vgi_cli.reports.cells import shares
from vgi_cli.reports.values import Trace
from vgi_cli.runs.store import CHAINS as KEPT_CHAINS
from vgi_cli.samplers.base import Box, Imputer, SamplerInput
from vgi_cli.samplers.base import impute as impute_rows
from vgi_cli.samplers.gibbs import GibbsImputer
from vgi_cli.samplers.lengths import Lengths
from vgi_cli.samplers.metropolis import BurnIn, MetropolisImputer
from vgi_cli.samplers.starts import EmpiricalStart, Start, start_of
from vgi_cli.samplers.together import Together

CHAINS, ROWS = 4, 128
"""Chains of a row, and rows: together one pack of the samplers."""
ROUNDS = 2
"""Rounds of a chain (sweeps, where a round is one) between two states that are recorded."""
KEPT = 60
"""States that are kept."""
LEFT_OUT = (10, 60)
"""States that are left out before them, at least and at most: as many rounds as imputing chains run, or holes."""


class Traced(NamedTuple):
    """What was recorded.

    traces      by column, those with a hole in the rows
    acceptance  by column; empty where every draw is accepted
    left_out, rounds  of each chain: before what is kept, and kept
    """

    traces: Mapping[str, Trace]
    acceptance: Mapping[str, float]
    rows: int
    chains: int
    left_out: int
    rounds: int


class _At(Start):
    """Chains that go on from given states."""

    states_now: Tensor

    def states(self, x: Tensor, missing: Tensor, noise: KeyedNoise, box: Box) -> Tensor:
        """[n, R, D], rows that were padded with zeros after those that are known."""
        more = x.shape[0] - self.states_now.shape[1]
        return torch.nn.functional.pad(self.states_now, (0, 0, 0, more))


class _Fixed(Lengths):
    """A few rounds, whatever the row."""

    def __init__(self) -> None:
        super().__init__(lambda holes: (), 0)

    def of(self, holes: Tensor) -> tuple[Tensor, Tensor]:
        """ROUNDS, with one single cell in each."""
        return torch.full_like(holes, ROUNDS), torch.ones_like(holes)


class _Few(Together):
    """The moves of whole rows of imputing chains, for a few rounds."""

    def lengths(self, box: Box) -> Lengths:
        """Of the calls that are recorded."""
        return _Fixed()


def traced(
    fitted: FittedTable,
    rows: Rows,
    sampler: str,
    length: float,
    seed: int,
    device: torch.device,
    stage: Callable[[float], None],
) -> Traced | None:
    """Record the chains of `metropolis` or `gibbs` on at most ROWS rows with a hole; None of another sampler, of
    conditionals with latents, and where no row has a hole. `length`: how many rounds imputing chains run; what
    `stage` raises ends it."""
    q = fitted.conditionals
    incomplete = (rows.table.missing.any(1) & ~rows.table.missing.all(1)).nonzero()[:, 0]
    if sampler not in ("metropolis", "gibbs") or q is None or len(q.block_of) != fitted.layout.d or not len(incomplete):
        return None
    stage(0.0)
    order = torch.randperm(len(incomplete), generator=stream(seed, "report/traces"))[:ROWS]
    own = rows.at(incomplete[order])
    dtype = next(fitted.model.parameters()).dtype
    x, missing = own.table.x.to(device, dtype), own.table.missing.to(device)
    ranges = box_of(fitted.schema)
    box = Box(ranges.low.to(x), ranges.high.to(x))
    noise = KeyedNoise(
        seed, fitted.layout.names, own.keys.to(device), torch.arange(CHAINS, device=device), "report/traces"
    )
    held = {name: value.to(device) for name, value in fitted.held.items()}
    kept = start_of(SamplerInput([fitted.model], fitted.layout, q, held)).states(x, missing, noise, box)
    start = held["start"]
    apart = EmpiricalStart(start, torch.zeros_like(start, dtype=torch.bool), fitted.layout)
    spread = apart.states(x, missing, noise, box)
    at = _At()
    at.states_now = torch.cat([kept[: CHAINS // 2], spread[CHAINS // 2 :]])
    imputer: Imputer
    if sampler == "metropolis":
        model, q = fitted.model.to(device), q.to(device)
        measured = {name: value.to(device) for name, value in fitted.run.tensors(KEPT_CHAINS).items()}
        imputer = MetropolisImputer(model, q, at, BurnIn(ROUNDS, 0.0, 0.0), together=_Few(model, q, measured))
    else:
        imputer = GibbsImputer(q.to(device), at, ROUNDS, 0.0)
    first = int(np.clip(math.ceil(max(length, int(missing.sum(1).max())) / ROUNDS), *LEFT_OUT))
    means, spreads = [], []
    columns, absent = fitted.schema.encoded, fitted.schema.layout.of_columns(own.table.missing).numpy()
    for turn in range(first + KEPT):
        if turn:
            at.states_now = impute_rows(imputer, x, missing, noise.at(turn), box)
        codes = decode(at.states_now.cpu(), fitted.schema)
        told = [_told(column, codes[:, absent[:, j], j]) for j, column in enumerate(columns) if absent[:, j].any()]
        means.append([mean for mean, _ in told])
        spreads.append([spread for _, spread in told])
        stage((turn + 1) / (first + KEPT))
    names = [column.name for j, column in enumerate(columns) if absent[:, j].any()]
    every = np.array(means).transpose(1, 2, 0), np.array(spreads).transpose(1, 2, 0)  # [columns, chains, states]
    traces = {name: Trace(mean, spread, first, ROUNDS) for name, mean, spread in zip(names, *every, strict=True)}
    accepted = imputer.diagnostics().get("acceptance_by_column", {})
    by_name = {str(name): float(share) for name, share in accepted.items()} if isinstance(accepted, Mapping) else {}
    return Traced(traces, by_name, len(own.keys), CHAINS, first * ROUNDS, KEPT * ROUNDS)


def _told(column: ModelledColumn, codes: Floats) -> tuple[Floats, Floats]:
    """Mean and standard deviation of imputed codes [chains, n] over rows; of levels the share of the one that is most
    frequent over all chains, and Gini's diversity, 1 less the sum of squared shares."""
    if not isinstance(column, Levelled):
        return codes.mean(1), codes.std(1)
    L = len(column.texts)
    own = np.stack([shares(chain, L) for chain in codes])
    return own[:, int(own.mean(0).argmax())], 1 - np.square(own).sum(1)
