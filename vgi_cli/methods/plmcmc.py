"""PLMCMC: Monte-Carlo EM of a flow with projected latent Markov chains (Cannella, Soltani and Tarokh 2021), with the
schedule that the paper gives it as VGI's competitor (section 6.4 and the authors' configurations).

Until the first round the imputations are N(0, 1) in every epoch. At a round, before an epoch, every chain starts anew
at an unconditional draw of the flow and takes a number of Metropolis steps that grows in the course of the fit; until
the next round the imputations stay and the flow climbs the log-likelihood of the completed rows.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, NamedTuple, cast

import torch
from pydantic import Field
from torch import Tensor

from vgi_cli.chains.moves import normal
from vgi_cli.chains.projected import IncompleteRows, Kernel, at_base, draw_noise, projected, step, strain
from vgi_cli.data import TensorTable
from vgi_cli.methods.base import Method, Resources
from vgi_cli.methods.em.mcem import imputing_state
from vgi_cli.methods.gradient import GradientState, log_likelihood, run
from vgi_cli.methods.optimisation import ImputingConfig
from vgi_cli.models.base import Bijective, Model
from vgi_cli.ranges import ChainSteps, Positive, Share

CHAINS, CHAINS_GPU = 1024, 32_768
"""Chains that are moved together, at most: on a CPU as many as stay in its caches, on a GPU as many as fill it."""
SEGMENT = 25
"""Metropolis steps between two moments at which a fit can stop."""
MOST_STRAIN = 2.0
"""The strain of the last round above which a fit gets a warning: 1 at the target, give or take a few hundredths."""


class PlmcmcConfig(ImputingConfig):
    """Settings of PLMCMC; times are shares of the epochs.

    first          when the first round is
    every          from one round to the next, at least one epoch
    steps          Metropolis steps of a round: pairs (from when, how many)
    resample       probability that a proposal is a fresh draw from the base space
    resample_std   its standard deviation
    perturb_std    standard deviation of the other proposals around the present state
    auxiliary_std  standard deviation of the auxiliary cells around the observed ones
    outside        imputations outside a column's observed range: after a round they are moved to its edge (`clamp`),
                   proposals there are rejected (`reject`), or they may be there (`keep`)
    """

    piloted: ClassVar[bool] = False  # the first epochs see nothing but noise
    paced: ClassVar[bool] = False  # rounds of the chains take longer than epochs
    first: Share = 0.04
    every: Share = 0.06
    steps: tuple[tuple[Share, ChainSteps], ...] = Field(((0.0, 500), (0.45, 1000)), min_length=1)
    resample: Share = 0.5
    resample_std: Positive = 1.0
    perturb_std: Positive = 0.01
    auxiliary_std: Positive = 0.001
    outside: Literal["clamp", "reject", "keep"] = "clamp"

    def kernel(self) -> Kernel:
        """The Metropolis kernel that the settings describe."""
        return Kernel(self.resample, self.resample_std, self.perturb_std, self.auxiliary_std)


class Round(NamedTuple):
    """What comes before an epoch: so many Metropolis steps of every chain, or N(0, 1) imputations, or neither."""

    steps: int
    noise: bool


def round_before(config: PlmcmcConfig, epoch: int, epochs: int) -> Round:
    """What comes before the epoch that follows `epoch` of `epochs` whole ones."""
    first, period = round(config.first * epochs), max(1, round(config.every * epochs))
    if epoch < first or (epoch - first) % period:
        return Round(0, epoch < first)
    begun = [pair for pair in sorted(config.steps) if round(pair[0] * epochs) <= epoch]
    return Round((begun or sorted(config.steps)[:1])[-1][1], False)


def init(
    model: Model,
    table: TensorTable,
    config: PlmcmcConfig,
    generator: torch.Generator,
    resources: Resources | None = None,
) -> GradientState:
    """State before the first step."""
    box = observed_range(table) if config.outside != "keep" else None
    return imputing_state(
        model, table, config, generator, resources, log_likelihood, functools.partial(refresh, config, box)
    )


def observed_range(table: TensorTable) -> Tensor:
    """[2, D] smallest and largest observed value of each column; unbounded where there is none."""
    low = table.x.masked_fill(table.missing, torch.inf).amin(0)
    high = table.x.masked_fill(table.missing, -torch.inf).amax(0)
    return torch.stack([low.nan_to_num(posinf=-torch.inf), high.nan_to_num(neginf=torch.inf)])


@torch.no_grad()
def refresh(config: PlmcmcConfig, box: Tensor | None, state: GradientState) -> bool:
    """A piece of what comes before an epoch: the next SEGMENT steps of the next chains (see Refresh)."""
    due = round_before(config, state.stage_epoch, state.epochs)
    if not (due.noise or due.steps):
        return False
    if state.piece == 0:
        state.draw_empty_rows()
    chains, K = state.chains, state.chains.K
    at_once = CHAINS if chains.x.device.type == "cpu" else CHAINS_GPU
    groups = state.incomplete.split(max(1, at_once // K))
    segments = -(-due.steps // SEGMENT) or 1
    group, segment = divmod(state.piece, segments)
    index, generator = groups[group], state.generator(-2 - state.piece)
    if not len(index):
        return False
    missing = chains.missing[index].repeat_interleave(K, 0)
    rows = IncompleteRows(chains.x[index].repeat_interleave(K, 0), missing, box if config.outside == "reject" else None)
    if due.noise:
        y = normal(rows.x.shape, rows.x, generator)
    else:
        steps = min(SEGMENT, due.steps - segment * SEGMENT)
        y = _advance(state, rows, config.kernel(), steps, generator, begin=segment == 0)
    last_of_group, last = segment + 1 == segments, state.piece + 1 == len(groups) * segments
    if last_of_group:
        filled = y if box is None or config.outside != "clamp" else torch.clamp(y, box[0], box[1])
        chains.store(index, projected(rows, filled))
    if due.steps:
        _count(state, rows, config.kernel(), y, due.steps, last_of_group=last_of_group, last=last)
    return not last


def _advance(
    state: GradientState, rows: IncompleteRows, kernel: Kernel, steps: int, generator: torch.Generator, *, begin: bool
) -> Tensor:
    """Move the chains of `rows` by so many steps, from an unconditional draw or from where they are; rows y [R, D] of
    the data space. The states wait in `state.work`, from which also an unbroken fit takes them up."""
    flow = cast(Bijective, state.theta)
    flow.eval()  # the chain's target has no dropout
    u = normal(rows.x.shape, rows.x, generator) if begin else state.work["u"]
    now = at_base(flow, rows, kernel, u)
    accepted = torch.zeros((), dtype=torch.int64, device=u.device)
    for _ in range(steps):
        now, kept = step(flow, rows, kernel, now, draw_noise(now.u, generator))
        accepted += kept.sum()
    flow.train()
    state.work["u"] = now.u
    state.work["accepted"] = state.work.get("accepted", torch.zeros_like(accepted)) + accepted
    return now.y


def _count(
    state: GradientState,
    rows: IncompleteRows,
    kernel: Kernel,
    y: Tensor,
    steps: int,
    *,
    last_of_group: bool,
    last: bool,
) -> None:
    """Sum up what a round reports: steps a chain, the share accepted, and the strain of the chains at its end."""
    work = state.work
    if last_of_group:
        work["strain"] = work.get("strain", y.new_zeros(())) + strain(rows, kernel, y).sum()
        work["chains"] = work.get("chains", torch.zeros((), dtype=torch.int64, device=y.device)) + len(y)
    if last:
        state.report["metropolis_steps"] = torch.tensor(float(steps))
        state.report["acceptance"] = work["accepted"].double().cpu() / (steps * int(work["chains"]))
        state.report["strain"] = work["strain"].cpu() / int(work["chains"])


def warning(state: GradientState, metrics: Mapping[str, Any]) -> str | None:
    """Whether the chains were still far from the observed cells at the end of the last round."""
    strain = metrics.get("strain")
    if strain is None or strain <= MOST_STRAIN:
        return None
    return (
        f"the imputations of the fit do not follow their rows yet (strain {strain:.3g} after the last round, 1 is "
        "right): take a larger method.auxiliary_std and method.perturb_std (0.5 and 0.3, say), or more method.steps"
    )


METHOD = Method(Config=PlmcmcConfig, init=init, run=run, warning=warning)
