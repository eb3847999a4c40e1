"""Variational Gibbs inference: Algorithm 1 of the paper, line by line. The other algorithms are the files beside it:
2 and 4 `warm_ups`, 3 `objective`, 6 `finetune`; 5 is `sweep` in chains/moves.py.

Variational block-Gibbs inference (paper, sections 3.4 and 6.3) is the same loop with blocks. On a model of data columns
they are those of the table. On a model with latents they are its latents and all missing cells: VBGI-VAE. VBGI-VAE-M
integrates the missing cells out of the decoder: what climbs is the ELBO of the observed cells; the encoder sees
imputations, which the decoder draws.

Where it goes past the paper: the imputation step may be corrected by a Metropolis rule, theta's gradient may be
taken at the accepted state, and the parameters of the last part of the main stage are averaged.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch

from vgi_cli.chains.store.packed import make_chains
from vgi_cli.completers.base import never
from vgi_cli.data import TensorTable
from vgi_cli.errors import UsageError
from vgi_cli.methods.base import Events, Method, Resources, Tuning
from vgi_cli.methods.loop import Stage, batches, epochs, refit_config
from vgi_cli.methods.reweighted import Reweighted
from vgi_cli.methods.start import align_to_few, initial_imputations, initial_rows
from vgi_cli.methods.vgi import finetune
from vgi_cli.methods.vgi.build import check_scan
from vgi_cli.methods.vgi.config import VgiConfig
from vgi_cli.methods.vgi.latent_targets import (
    BlockLatents,
    CarriedLatents,
    SingleCells,
    check_blocks,
    check_single,
    check_together,
)
from vgi_cli.methods.vgi.state import VgiState
from vgi_cli.methods.vgi.targets import Columns, Target
from vgi_cli.methods.vgi.warm_ups import warm_up_conditionals, warm_up_model
from vgi_cli.models.base import Latent, Model


def run(state: VgiState, stop: Callable[[], bool] = never) -> Events:
    """Algorithm 1. All randomness of a step is drawn before its arithmetic begins, which may be captured: what `update`
    and `ascend` do are functions of tensors."""
    config, target = state.config, state.target
    D_K = state.chains  # 1: create the K-times imputed data D_K using f0 (`begin`)
    yield from warm_up_conditionals(state)  # 2: warm up phi, by Algorithm 2
    yield from warm_up_model(state)  # 3: warm up theta, by Algorithm 4
    for _ in epochs(state, Stage.MAIN):  # 4: for t in [1, max_epochs]
        for batch in batches(state):  # 5: for mini-batch B_K in D_K
            with state.healing(batch):
                g, (n, R) = state.step_generator(), batch.sizes(D_K.K)
                moves = batch.own(target.sweep_noise(state.inference, n, batch.x, g))
                fresh = batch.own(target.draw_noise(state.inference, n, R, batch.x, g))
                n = len(batch.rows) * D_K.K
                state.set_rates()
                x = state.update(batch.x, batch.missing, moves)  # 6: update the imputations in B_K, by Algorithm 5
                state.watch(x[:n])
                state.total += state.ascend(
                    target.objective,  # 8: compute J, by Algorithm 3
                    state.optim_theta,  # 9: theta <- theta + alpha_theta grad J
                    state.optim_q,  # 10: phi <- phi + alpha_phi grad J
                    *(x, batch.missing, batch.weight, fresh),
                )
                state.average(config.optim.average)
                if n:
                    D_K.store(batch.rows, x[:n])  # 7: store them for use in the next epoch; of a failed step nothing
            yield state.step_end()
        yield state.epoch_end()


def check(family: type[Model], config: VgiConfig) -> None:
    """A bound of a log density must not enter an acceptance ratio: the chain would target something else."""
    check_together(config)
    if config.accept == "metropolis" and not (family.exact or issubclass(family, Latent)):
        raise UsageError(
            "method.accept=metropolis needs a log density, and this model has a lower bound of one only",
            "take --set method.accept=gibbs",
        )


def target_of(family: type[Model], config: VgiConfig) -> Target:
    """What `vgi` climbs and accepts by: the log density, or its bound; a corrected chain on a bound carries latents."""
    return CarriedLatents() if config.accept == "metropolis" and not family.exact else Columns()


def begin(
    model: Model,
    table: TensorTable,
    config: VgiConfig,
    generator: torch.Generator,
    resources: Resources | None,
    target: Target,
) -> VgiState:
    """State before the first step: line 1 of Algorithm 1, and parameters to begin with. `generator` is on the CPU.
    UsageError for a scan of single columns where they are redrawn in blocks."""
    resources = Resources() if resources is None else resources
    layout = table.layout
    seed = int(torch.randint(2**62, (), generator=generator))
    table = target.augmented(table, model)
    chains = make_chains(table, config.imputations, config.chains, resources.memory)
    initial_imputations(chains, table, config.initial, generator)  # 1: D_K <- f0
    start = chains.layout.data(initial_rows(chains)).cpu()
    model.initialise(start, generator)
    align_to_few(model, table, generator)
    target.start_latents(chains, model, generator)
    q = target.conditionals(model, config, layout).to(table.x.dtype)
    if not q.flat:
        check_scan(config)
    q.initialise(generator)
    q.align(start)
    del start
    q.to(table.x.device)
    return VgiState(model, q, chains, config, seed, target, resources)


def refit(state: VgiState, of: Reweighted) -> Tuning:
    """A refit with weights (see Method): the main stage, in which the conditionals follow the model."""
    config, chains = refit_config(state.settled(), of, state.lr), state.chains_for(of)
    q = copy.deepcopy(state.q)
    q.load_state_dict(of.conditionals or state.q.state_dict())
    short = VgiState(state.model_for(of), q, chains, config, of.seed, state.target, stage=Stage.MAIN)
    short.row_weight = of.weight.to(chains.x)
    short.divide(state.ranks)
    return short, run(short)


def variant(
    check: Callable[[type[Model], VgiConfig], None], target_of: Callable[[type[Model], VgiConfig], Target]
) -> Method:
    """`vgi` with other checks and another target."""

    def init(
        model: Model,
        table: TensorTable,
        config: VgiConfig,
        generator: torch.Generator,
        resources: Resources | None = None,
    ) -> VgiState:
        check(type(model), config)
        return begin(model, table, config, generator, resources, target_of(type(model), config))

    return Method(VgiConfig, init, run, check, target_of, finetune.tune, refit)


def check_vbgi(family: type[Model], config: VgiConfig) -> None:
    """UsageError for settings of `vbgi` that cannot work with a family."""
    if issubclass(family, Latent):
        check_single(config) if config.cells == "single" else check_blocks(config, "vbgi", False)
    else:
        check(family, config)


def target_of_vbgi(family: type[Model], config: VgiConfig) -> Target:
    """The blocks of the table, or latents and missing cells, all together or one by one."""
    if not issubclass(family, Latent):
        return target_of(family, config)
    return SingleCells() if config.cells == "single" else BlockLatents(marginal=False)


def check_vbgi_m(family: type[Model], config: VgiConfig) -> None:
    """UsageError for settings of `vbgi-m` that mean nothing: there are no conditionals of missing cells."""
    check_together(config)
    check_blocks(config, "vbgi-m", True)


METHOD = variant(check, target_of)
VBGI = variant(check_vbgi, target_of_vbgi)
VBGI_M = variant(check_vbgi_m, lambda family, config: BlockLatents(marginal=True))
