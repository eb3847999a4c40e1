"""The warm-ups of Algorithm 1: of the conditionals (paper, Algorithm 2) and of the model (Algorithm 4)."""

from __future__ import annotations

from contextlib import nullcontext

import torch
from torch import Tensor

from vgi_cli.chains.moves import uniform
from vgi_cli.chains.scans import random_scan
from vgi_cli.conditionals.base import Conditionals
from vgi_cli.methods.base import Events
from vgi_cli.methods.loop import Stage, batches, epochs
from vgi_cli.methods.optimisation import ascend, held_fixed
from vgi_cli.methods.vgi.state import VgiState


def warm_up_conditionals(state: VgiState) -> Events:
    """Algorithm 2: phi climbs the log density of observed cells given the rest of their rows, imputed by f0."""
    config, layout = state.config, state.chains.layout
    M = max(2, *state.estimate)
    for _ in epochs(state, Stage.WARM_CONDITIONALS, config.optim.warmup_conditionals):  # 1
        for batch in batches(state):  # 2
            x, missing = layout.data(batch.x), layout.data(batch.missing)
            loss = warm_up_loss(state.q, x, missing, batch.weight, M, state.step_generator())  # 3-6, of M columns a row
            ascend(-loss, config.optim.clip, *state.optimisers_q)  # 7
            state.total -= loss.detach()
            yield state.step_end()
        yield state.epoch_end()


def warm_up_model(state: VgiState) -> Events:
    """Algorithm 4: theta climbs the objective on f0; the chains stay, and so does phi, unless the target has both learn
    together."""
    config, target = state.config, state.target
    learning = state.optimisers.values() if target.together else [state.optim_theta]
    for _ in epochs(state, Stage.WARM_MODEL, config.optim.warmup_model):  # 1
        for batch in batches(state):  # 2
            n = len(batch.rows) * state.chains.K
            of = state.inference
            noise = target.draw_noise(of, n, len(batch.x), batch.x, state.step_generator())
            with nullcontext() if target.together else held_fixed(state.q):
                objective = target.objective(of, batch.x, batch.missing, batch.weight, noise)  # 3: Algorithm 3
                ascend(objective, config.optim.clip, *learning)  # 4
            state.total += objective.detach()
            yield state.step_end()
        yield state.epoch_end()


def warm_up_loss(
    q: Conditionals, x: Tensor, missing: Tensor, weight: Tensor, M: int, generator: torch.Generator
) -> Tensor:
    """Minus the mean log q(x_j | rest) of M observed blocks per row (Algorithm 2): scalar, nats.

    The block is hidden from its own input in both kernels. Missing inputs hold imputations.
    """
    scan = random_scan(q.blocks(~missing), uniform((x.shape[0], q.S), x, generator), M)
    active = scan.active.to(x.dtype)
    law = q.law(x, ~missing, scan.j, hidden=True)
    log_q = torch.where(scan.active, law.log_prob(q.at(x, scan.j)), 0.0)
    return -(weight * log_q.sum(1) / active.sum(1).clamp(min=1.0)).sum()
