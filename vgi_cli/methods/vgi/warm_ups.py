"""The warm-ups of Algorithm 1: of the conditionals (paper, Algorithm 2) and of the model (Algorithm 4)."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor

from vgi_cli.chains.moves import uniform
from vgi_cli.chains.scans import random_scan
from vgi_cli.conditionals.base import Conditionals
from vgi_cli.methods.base import Events
from vgi_cli.methods.loop import Stage, batches, epochs
from vgi_cli.methods.optimisation import ascend, held_fixed
from vgi_cli.methods.vgi.objective import DrawNoise, Estimate
from vgi_cli.methods.vgi.state import VgiState
from vgi_cli.ranks import ALONE, Ranks

ALL_UP_TO = 16
"""Blocks of which each step of the conditionals' warm-up scores all."""


def warm_up_conditionals(state: VgiState) -> Events:
    """Algorithm 2: phi climbs the log density of observed cells given the rest of their rows, imputed by f0."""
    layout, step = state.chains.layout, ConditionalsStep(state, scored(state.q.S, state.estimate))
    for _ in epochs(state, Stage.WARM_CONDITIONALS, state.config.optim.warmup_conditionals):  # 1
        for batch in batches(state):  # 2
            with state.healing(batch):
                x, missing = layout.data(batch.x), layout.data(batch.missing)
                order = uniform((batch.sizes(state.chains.K)[1], state.q.S), x, state.step_generator())
                state.total += state.speed.call(step, x, missing, batch.weight, batch.own_lines(order))
            yield state.step_end()
        yield state.epoch_end()


def scored(S: int, estimate: Estimate) -> int:
    """How many observed blocks of a row one step scores: all of few, as the paper does; of more a random choice."""
    return S if S <= ALL_UP_TO else max(2, *estimate)


def warm_up_model(state: VgiState) -> Events:
    """Algorithm 4: theta climbs the objective on f0; the chains stay, and so does phi, unless the target has both learn
    together."""
    target, step = state.target, ModelStep(state)
    for _ in epochs(state, Stage.WARM_MODEL, state.config.optim.warmup_model):  # 1
        for batch in batches(state):  # 2
            with state.healing(batch):
                noise = target.draw_noise(
                    state.inference, *batch.sizes(state.chains.K), batch.x, state.step_generator()
                )
                state.total += state.speed.call(step, batch.x, batch.missing, batch.weight, batch.own(noise))
            yield state.step_end()
        yield state.epoch_end()


@dataclass(frozen=True)
class ConditionalsStep:
    """The arithmetic of a step of Algorithm 2: a function of tensors that changes parameters and moments in place.
    order [R, S]: see `warm_up_loss`."""

    state: VgiState
    M: int

    def __call__(self, x: Tensor, missing: Tensor, weight: Tensor, order: Tensor) -> Tensor:
        state = self.state
        loss = warm_up_loss(state.q, x, missing, weight, self.M, order, state.ranks)  # 3-6, of M columns a row
        return ascend(-loss, state.config.optim.clip, *state.optimisers_q, ranks=state.ranks)  # 7


@dataclass(frozen=True)
class ModelStep:
    """The same of Algorithm 4."""

    state: VgiState

    def __call__(self, x: Tensor, missing: Tensor, weight: Tensor, noise: DrawNoise) -> Tensor:
        state, target = self.state, self.state.target
        learning = state.optimisers.values() if target.together else [state.optim_theta]
        with nullcontext() if target.together else held_fixed(state.q):
            nothing = x.new_zeros(())
            objective = (
                target.objective(state.inference, x, missing, weight, noise) if len(x) else nothing
            )  # 3: Algorithm 3
            return ascend(objective, state.config.optim.clip, *learning, ranks=state.ranks)  # 4


def warm_up_loss(
    q: Conditionals, x: Tensor, missing: Tensor, weight: Tensor, M: int, order: Tensor, ranks: Ranks = ALONE
) -> Tensor:
    """Minus log q(x_j | rest) of observed blocks, averaged over the rows that have each, then over blocks: the
    J_phi of Algorithm 2, divided by the number of blocks; scalar, nats. Of each row M blocks are scored, which stand
    for all that are observed: its mean over these choices is J_phi, and where M is S so is each.

    The block is hidden from its own input in both kernels. Missing inputs hold imputations; weight [R] of the rows.
    order [R, S] are uniforms on (0, 1), by which blocks are chosen. Where `ranks` share the rows, the sum of what each
    gets is the loss.
    """
    observed = q.blocks(~missing)
    (total,) = ranks.total((weight[:, None] * observed).sum(0))  # of the rows in which a block is observed
    if not len(x):
        return x.new_zeros(())
    scan = random_scan(observed, order, M)
    law = q.law(x, ~missing, scan.j, hidden=True)
    log_q = torch.where(scan.active, law.log_prob(q.at(x, scan.j)), 0.0)
    share = torch.where(total > 0, total, 1.0)  # of a block whose rows all weigh 0 nothing is scored
    stand = weight * observed.sum(1) / scan.active.sum(1).clamp(min=1)
    scored = torch.where(scan.active, stand[:, None] / share[scan.j], 0.0) * log_q
    return -scored.sum() / (total > 0).sum().clamp(min=1)
