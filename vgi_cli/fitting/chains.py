"""What a run keeps for its imputing chains: what they start from, and how they move, which is measured at the end of a
fit so that no command has to."""

from __future__ import annotations

import torch
from torch import Tensor

from vgi_cli.data import TensorTable
from vgi_cli.encoding.encoder import box
from vgi_cli.fitting.fitted import Fitted
from vgi_cli.fitting.rows import Rows
from vgi_cli.machine.work import OutOfTime, Work
from vgi_cli.methods.base import Parts
from vgi_cli.registry import names as registry
from vgi_cli.reporting import PACING
from vgi_cli.samplers.base import Box, SamplerInput
from vgi_cli.samplers.metropolis import joined
from vgi_cli.samplers.starts import in_order

QUANTILES = 512
"""Observed cells of each column that chains start from."""
FEWEST_STEPS = 200
"""After fewer steps of training nothing is kept: chains are measured where they impute."""


def measured_chains(fitted: Fitted, train: Rows, steps: int, work: Work) -> dict[str, Tensor]:
    """The tensors of `Together`, for the holes of the fitted rows and the limits of their fills; empty where `auto`
    takes another sampler, after few steps, and where the time is over, which a line and `work.limit.cut` say."""
    q = fitted.conditionals
    if q is None or steps < FEWEST_STEPS:
        return {}
    recipe = fitted.recipe
    levels = bool(fitted.layout.discrete)
    if registry.choose_sampler("auto", recipe.model.name, recipe.method.named, levels=levels) != "metropolis":
        return {}
    holes = q.blocks(train.table.missing).sum(1)
    if not bool(holes.any()):
        return {}
    if work.limit.over():
        return _unmeasured(work)
    imputers, together = joined(SamplerInput((fitted.model,), fitted.layout, q, fitted.held))

    def watch(share: float) -> None:
        if work.limit.over():
            raise OutOfTime

    imputers[0].watch = watch
    try:
        return together.tensors(_limits(train, next(fitted.model.parameters()).dtype), holes[holes > 0])
    except OutOfTime:
        return _unmeasured(work)


def _unmeasured(work: Work) -> dict[str, Tensor]:
    work.limit.cut.append(PACING)
    work.reporter.say(
        "the time limit left no time to measure how long imputing chains have to run: the commands that run them do"
    )
    return {}


def _limits(train: Rows, dtype: torch.dtype) -> Box:
    """Those of the table's columns; none where rows came encoded."""
    if train.source is None:
        none = torch.full((train.table.D,), torch.inf, dtype=dtype)
        return Box(-none, none)
    limits = box(train.source.schema)
    return Box(limits.low.to(dtype), limits.high.to(dtype))


def chain_context(keys: Tensor, missing: Tensor, start: Tensor) -> Parts:
    """What imputing chains need to know of the fitted rows: keys [N], holes [N, D], values to start from [Q, d]."""
    return {"imputations": {"keys": keys, "missing": missing, "start": start}}


def observed_quantiles(table: TensorTable) -> Tensor:
    """[QUANTILES, d] float32: observed cells of each column, in order, at equally spaced ranks; 0 where it has none."""
    columns = []
    for dims in table.layout.slices:
        cells = in_order(table.x[~table.missing[:, dims.start], dims])
        if len(cells) == 0:
            cells = table.x.new_zeros(1, cells.shape[1])
        ranks = torch.linspace(0, len(cells) - 1, QUANTILES, dtype=torch.float64).round().long()
        columns.append(cells[ranks])
    return torch.cat(columns, 1).to(torch.float32)
