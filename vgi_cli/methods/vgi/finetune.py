"""Fine-tuning of the conditionals on new rows with the model frozen: Algorithm 6 of the paper (appendix H). The encoder
of a model with latents is no part of its density and learns with them, as in the authors' code.

Its result, the fine-tuned objective, is not a log-likelihood: it leaves out the entropy of the other missing cells.
"""

from __future__ import annotations

import copy

import torch
from torch import Tensor

from vgi_cli.chains.blocks import whole_sweep
from vgi_cli.chains.initial import empirical
from vgi_cli.chains.store.packed import Batch, make_chains
from vgi_cli.chains.store.placement import MemoryBudget
from vgi_cli.conditionals.base import Conditionals
from vgi_cli.data import TensorTable
from vgi_cli.methods.base import Events, StepEnd
from vgi_cli.methods.chain_state import Stage
from vgi_cli.methods.optimisation import default_batch_size, set_rate
from vgi_cli.methods.vgi.config import VgiConfig
from vgi_cli.methods.vgi.epoch import ascend, end_epoch
from vgi_cli.methods.vgi.objective import joined
from vgi_cli.methods.vgi.state import VgiState
from vgi_cli.methods.vgi.targets import Columns, Target
from vgi_cli.models.base import Latent, Model, only_encoder

WARM_UP_SWEEPS = 5  # G_W of Algorithm 6, in visits of every missing cell
EPOCHS = 20


def init(
    model: Model,
    conditionals: Conditionals,
    table: TensorTable,
    config: VgiConfig,
    generator: torch.Generator,
    epochs: int | None = None,
    room: MemoryBudget | None = None,
    target: Target | None = None,
) -> VgiState:
    """State before the first step: Algorithm 6, lines 2 and 3. The model and the conditionals given are not changed.
    What learns are copies of the conditionals and of an encoder.

    room    where chains may live, as in `vgi.begin`
    target  of the method that fitted the model; none: plain columns
    """
    target = Columns() if target is None else target
    n = int((~table.missing.all(1)).sum())
    seed = int(torch.randint(2**62, (), generator=generator))
    table = target.augmented(table, model)
    chains = make_chains(table, config.imputations, config.chains, room)
    empirical(chains, generator)  # 2
    target.start_latents(chains, model, generator)
    theta = only_encoder(copy.deepcopy(model)).eval()
    q = copy.deepcopy(conditionals).requires_grad_(True)  # 3
    batch_size = config.optim.batch_size or default_batch_size(n)
    lr = config.optim.lr or model.learning_rate  # of the encoder
    state = VgiState(theta, q, chains, config, lr, batch_size, seed, target)
    state.stage = Stage.FINETUNE
    state.epochs = EPOCHS if epochs is None else epochs
    return state


def tune(
    state: VgiState, table: TensorTable, inside: Tensor, generator: torch.Generator, epochs: int
) -> tuple[VgiState, Events]:
    """See Method: the published model and the conditionals of a fit, for rows that are few."""
    batch_size = state.batch_size_for(int((~table.missing.all(1)).sum()))
    optim = state.config.optim.model_copy(update={"batch_size": batch_size})
    config = state.settled().model_copy(update={"chains": "device", "optim": optim})
    tuned = init(state.model, state.q, table, config, generator, epochs, target=state.target)
    return tuned, run(tuned, inside)


def run(state: VgiState, inside: Tensor) -> Events:
    """Algorithm 6, lines 4 to 13. `inside` [2, D]: the box of the first epoch's proposals, encoded."""
    while state.stage_epoch < state.epochs:
        while state.position < state.batches:
            finetune_step(state, state.batch(), inside)
            state.position += 1
            yield StepEnd()
        yield end_epoch(state)


def finetune_step(state: VgiState, batch: Batch, inside: Tensor) -> None:
    """One pass of the loop body: Algorithm 6, lines 6 to 12."""
    config = state.config
    g = state.generator(1 + state.position)
    target = state.target
    n = len(batch.rows) * state.chains.K
    x = batch.x
    if n:
        first = state.stage_epoch == 0
        for _ in range(WARM_UP_SWEEPS if first else 1):
            steps = whole_sweep(x.shape[1], state.moved) if first else config.gibbs_steps
            noise = target.sweep_noise(state, n, steps, g)
            scan, box = ("step", inside) if first else (config.scan, None)
            sweep = target.update(state, x[:n], batch.missing[:n], noise, scan, box)
            state.tally["tried"] += sweep.tried
            state.tally["accepted"] += sweep.accepted
            x = joined(sweep.x, x[n:])
        state.chains.store(batch.rows, x[:n])
    falling = 1.0 - state.stage_epoch / state.epochs
    set_rate(state.optim_theta, state.lr * falling)
    for optimiser in state.optimisers_q:
        set_rate(optimiser, config.optim.lr_conditionals * falling)
    fresh = target.draw_noise(state, n, len(x), g)
    state.theta.train(isinstance(state.theta, Latent))  # its encoder learns: the noise of its bound is drawn anew
    objective = target.objective(state, x, batch.missing, batch.weight, fresh)
    if objective.requires_grad:  # else complete rows, and no encoder
        ascend(state, objective, *state.optimisers)
    state.theta.eval()
    state.tally["objective"] += objective.detach()
