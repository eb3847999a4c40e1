"""Fine-tuning of the conditionals on new rows with the model frozen: Algorithm 6 of the paper (appendix H). The encoder
of a model with latents is no part of its density and learns with them, as in the authors' code.

Its result, the fine-tuned objective, is not a log-likelihood: it leaves out the entropy of the other missing cells.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch import Tensor

from vgi_cli.chains.scans import whole_sweep
from vgi_cli.chains.store.packed import make_chains
from vgi_cli.chains.store.placement import MemoryBudget
from vgi_cli.completers.base import never
from vgi_cli.conditionals.base import Conditionals
from vgi_cli.data import TensorTable
from vgi_cli.methods.base import Events
from vgi_cli.methods.loop import Stage, batches, epochs
from vgi_cli.methods.optimisation import ascend
from vgi_cli.methods.start import empirical
from vgi_cli.methods.vgi.config import VgiConfig
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
    memory: MemoryBudget | None = None,
    target: Target | None = None,
) -> VgiState:
    """State before the first step: Algorithm 6, lines 2 and 3. The model and the conditionals given are not changed.
    What learns are copies of the conditionals and of an encoder.

    memory  what is free for the chains, as in Resources
    target  of the method that fitted the model; None: plain columns
    """
    target = Columns() if target is None else target
    seed = int(torch.randint(2**62, (), generator=generator))
    table = target.augmented(table, model)
    chains = make_chains(table, config.imputations, config.chains, memory)
    empirical(chains, generator)  # 2
    target.start_latents(chains, model, generator)
    theta = only_encoder(copy.deepcopy(model)).eval()
    q = copy.deepcopy(conditionals).requires_grad_(True)  # 3
    config = config.model_copy(update={"epochs": EPOCHS if epochs is None else epochs})
    return VgiState(theta, q, chains, config, seed, target, stage=Stage.FINETUNE)


def tune(
    state: VgiState, table: TensorTable, inside: Tensor, generator: torch.Generator, epochs: int
) -> tuple[VgiState, Events]:
    """The published model and the conditionals of a fit, for rows that are few (see Method)."""
    batch_size = state.batch_size_for(len(table.used))
    optim = state.config.optim.model_copy(update={"batch_size": batch_size})
    config = state.settled().model_copy(update={"chains": "device", "optim": optim})
    tuned = init(state.model, state.q, table, config, generator, epochs, target=state.target)
    return tuned, run(tuned, inside)


def run(state: VgiState, inside: Tensor, stop: Callable[[], bool] = never) -> Events:
    """Algorithm 6, lines 4 to 13. `inside` [2, d]: the box of the first epoch's proposals, encoded (line 1)."""
    config, target = state.config, state.target
    for t in epochs(state, Stage.FINETUNE, state.epochs):  # 4
        for batch in batches(state):  # 5
            with state.healing(batch):
                g, n, x = state.step_generator(), len(batch.rows) * state.chains.K, batch.x
                of = state.inference
                if t == 1:
                    of = of._replace(moves=of.moves._replace(path=False, G=whole_sweep(x.shape[1], of.moves.B)))
                if n:
                    for _ in range(WARM_UP_SWEEPS if t == 1 else 1):  # 6, 8
                        noise = target.sweep_noise(of, n, x, g)
                        x = state.swept(of, x, batch.missing, noise, inside if t == 1 else None)  # 7, 9
                    state.watch(x[:n])
                state.set_rates(1.0 - state.stage_epoch / state.epochs)
                fresh = target.draw_noise(of, n, len(x), x, g)
                state.theta.train(isinstance(state.theta, Latent))  # its encoder learns: with the noise of its bound
                objective = target.objective(of, x, batch.missing, batch.weight, fresh)  # 11: Algorithm 3
                if objective.requires_grad:  # else complete rows, and no encoder
                    ascend(objective, config.optim.clip, *state.optimisers.values())  # 12
                state.theta.eval()
                state.total += objective.detach()
                if n:
                    state.chains.store(batch.rows, x[:n])  # 10, of a step that was taken
            yield state.step_end()
        yield state.epoch_end()
