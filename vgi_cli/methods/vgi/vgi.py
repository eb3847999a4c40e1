"""Variational Gibbs inference: Algorithm 1 of the paper, line by line.

Where it goes past the paper: the imputation step may be corrected by a Metropolis rule, theta's gradient may be
taken at the accepted state, and the parameters of the last part of the main stage are averaged.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from contextlib import nullcontext
from typing import cast

import torch
from torch import Tensor, nn

from vgi_cli.chains.captured import FEWEST_STEPS, CapturedSteps, compiled_density
from vgi_cli.chains.initial import empirical
from vgi_cli.chains.store.packed import Batch, Chains, make_chains
from vgi_cli.chains.store.placement import MemoryBudget
from vgi_cli.chains.sweeps import SweepNoise
from vgi_cli.conditionals.base import OfColumns, Univariate
from vgi_cli.data import TensorTable, spread_rows
from vgi_cli.errors import UsageError
from vgi_cli.methods.base import Events, Method, StepEnd
from vgi_cli.methods.chain_state import Stage
from vgi_cli.methods.optimisation import default_batch_size, rate_factor, set_rate
from vgi_cli.methods.vgi import finetune
from vgi_cli.methods.vgi.config import VgiConfig
from vgi_cli.methods.vgi.em_start import gaussian_pieces
from vgi_cli.methods.vgi.epoch import ascend, end_epoch
from vgi_cli.methods.vgi.latent_targets import CarriedLatents
from vgi_cli.methods.vgi.objective import DrawNoise, joined, warm_up_loss
from vgi_cli.methods.vgi.scans import check_scan
from vgi_cli.methods.vgi.state import VgiState
from vgi_cli.methods.vgi.targets import Columns, Target
from vgi_cli.models.base import Latent, Model

STEPS, FEWEST_EPOCHS = 4000, 5  # of the main stage where no number of epochs is given
INITIAL_ROWS = 100_000
"""Rows that the model and the `em` fit of f0 are initialised from, at most (of the flattened rows whole chains where
they fit, else rows of the first): this bounds their memory."""


def check(family: type[Model], config: VgiConfig) -> None:
    """A bound of a log density must not enter an acceptance ratio: the chain would target something else."""
    if config.accept == "metropolis" and not (family.exact or issubclass(family, Latent)):
        raise UsageError(
            "method.accept=metropolis needs a log density, and this model has a lower bound of one only",
            "take --set method.accept=gibbs",
        )


def target_of(family: type[Model], config: VgiConfig) -> Target:
    """What `vgi` climbs and accepts by: the log density, or its bound; a corrected chain on a bound carries latents."""
    return CarriedLatents() if config.accept == "metropolis" and not family.exact else Columns()


def init(
    model: Model, table: TensorTable, config: VgiConfig, generator: torch.Generator, room: MemoryBudget | None = None
) -> VgiState:
    """See `begin`. Raises UsageError for settings that the model cannot have (see `check`)."""
    check(type(model), config)
    return begin(model, table, config, generator, room, target_of(type(model), config))


def begin(
    model: Model,
    table: TensorTable,
    config: VgiConfig,
    generator: torch.Generator,
    room: MemoryBudget | None,
    target: Target,
) -> VgiState:
    """State before the first step: Algorithm 1, lines 1 and 2. `generator` is on the CPU. UsageError for a scan of
    single columns where they are redrawn in blocks.

    room  where chains may live (`config.chains`); none: there is room for everything on the device
    """
    layout = table.layout
    seed = int(torch.randint(2**62, (), generator=generator))
    table = target.augmented(table, model)
    x, missing = table.x, table.missing
    chains = make_chains(table, config.imputations, config.chains, room)
    initial_imputations(chains, table, config, generator)  # 1: D_K <- f0
    start = chains.layout.data(initial_rows(chains)).cpu()
    model.initialise(start, generator)
    target.start_latents(chains, model, generator)
    q = target.conditionals(model, config, layout).to(x.dtype)
    if not isinstance(q, Univariate):
        check_scan(config)
    q.initialise(generator)
    q.align(start)
    del start
    q.to(x.device)
    n = int((~missing.all(1)).sum())
    batch_size = config.optim.batch_size or default_batch_size(n)
    lr = config.optim.lr or model.learning_rate
    state = VgiState(model, q, chains, config, lr, batch_size, seed, target)
    state.step = functools.partial(loop_body, state)
    state.epochs = config.epochs or max(FEWEST_EPOCHS, math.ceil(STEPS / state.batches))
    return state


def initial_imputations(chains: Chains, table: TensorTable, config: VgiConfig, generator: torch.Generator) -> None:
    """Set the chains to f0: `empirical` marginals, or draws given the observed cells from a quick `em` fit of the data.
    Latents, which come after these, get their values later (`Target.start_latents`)."""
    if config.initial == "empirical":
        empirical(chains, generator)
        return
    values, line, layout = chains.values, 0, chains.layout
    lines = None
    if layout.L:  # which lines belong to the data
        lines = (table.missing.nonzero()[:, 1] < layout.d).nonzero()[:, 0].to(values.device)
    data = TensorTable(layout.data(table.x), layout.data(table.missing), layout.with_latents(0)).to(device="cpu")
    for draws in gaussian_pieces(data, config.imputations, generator, INITIAL_ROWS):
        here = slice(line, line + len(draws))
        values[here if lines is None else lines[here]] = draws.to(table.x)
        line += len(draws)


def initial_rows(chains: Chains) -> Tensor:
    """[R, D] completed rows to initialise the model from, one chain after the other; fully missing ones left out."""
    partly = (~chains.missing.all(1)).nonzero()[:, 0]
    count = min(chains.K, max(1, INITIAL_ROWS // max(len(partly), 1)))
    rows = partly[spread_rows(len(partly), INITIAL_ROWS).to(partly.device)]
    out = chains.x.new_empty(count, len(rows), chains.x.shape[1])
    for chain in range(count):
        out[chain] = chains.completed(chain, rows)
    return out.view(-1, out.shape[2])


def run(state: VgiState) -> Events:
    """Algorithm 1. Yields after every whole step and every epoch."""
    optim = state.config.optim
    stages: list[tuple[Stage, int, Callable[[VgiState, Batch], None]]] = [
        (Stage.WARM_CONDITIONALS, optim.warmup_conditionals, warm_up_conditionals),  # 2: Algorithm 2
        (Stage.WARM_MODEL, optim.warmup_model, warm_up_model),  # 3: Algorithm 4
        (Stage.MAIN, state.epochs, main_step),  # 4-12
    ]
    for stage, epochs, step in stages:
        if state.stage > stage:
            continue
        while state.stage_epoch < epochs:  # 4: for t in [1, max_epochs]
            while state.position < state.batches:  # 5: for mini-batch B_K in D_K
                step(state, state.batch())
                state.position += 1
                yield StepEnd()
            yield end_epoch(state)
        if stage < Stage.MAIN:
            state.stage, state.stage_epoch = Stage(stage + 1), 0
            for optimiser in state.optimisers:  # moments of a warm-up belong to its own loss
                optimiser.state.clear()


def warm_up_conditionals(state: VgiState, batch: Batch) -> None:
    """One step of Algorithm 2: fit q to observed cells, the rest filled by f0."""
    g = state.generator(1 + state.position)
    x, missing = state.chains.layout.data(batch.x), state.chains.layout.data(batch.missing)
    M = max(2, state.config.blocks_per_row, state.columns)
    loss = warm_up_loss(cast(OfColumns, state.q), x, missing, batch.weight, M, g)
    ascend(state, -loss, *state.optimisers_q)
    state.tally["objective"] -= loss.detach()


def warm_up_model(state: VgiState, batch: Batch) -> None:
    """One step of Algorithm 4: theta climbs the objective on f0, the chains stay, and so does phi, unless the target
    has both learn together."""
    g = state.generator(1 + state.position)
    target = state.target
    noise = target.draw_noise(state, len(batch.rows) * state.chains.K, len(batch.x), g)
    with nullcontext() if target.together else held_fixed(state.q):
        objective = target.objective(state, batch.x, batch.missing, batch.weight, noise)
        ascend(state, objective, *(state.optimisers if target.together else [state.optim_theta]))
    state.tally["objective"] += objective.detach()


def main_step(state: VgiState, batch: Batch) -> None:
    """One pass of the loop body: Algorithm 1, lines 6 to 10. All randomness is drawn before its arithmetic begins."""
    config = state.config
    g = state.generator(1 + state.position)
    n = len(batch.rows) * state.chains.K
    moves = state.target.sweep_noise(state, n, config.gibbs_steps, g)
    fresh = state.target.draw_noise(state, n, len(batch.x), g)
    set_rates(state)
    x = state.step(batch.x, batch.missing, batch.weight, *moves, *fresh)  # 6, 8-10
    if n:
        state.chains.store(batch.rows, x[:n])  # 7: store the imputations for the next epoch
    state.count_average(config.optim.average)


def loop_body(state: VgiState, x: Tensor, missing: Tensor, weight: Tensor, *noise: Tensor) -> Tensor:
    """The arithmetic of a step on a batch (see `Batch`): a function of tensors that changes parameters, moments and
    tallies in place, so that it can be captured. `noise`: the parts of a SweepNoise, then those of a DrawNoise.

    Returns the rows with their new imputations.
    """
    config, target = state.config, state.target
    moves, fresh = SweepNoise(*noise[:4]), DrawNoise(*noise[4:])
    n = moves.normal.shape[0]
    if n:
        state.theta.eval()
        sweep = target.update(state, x[:n], missing[:n], moves, config.scan)  # 6: the imputations, by Algorithm 5
        state.theta.train()
        state.tally["tried"] += sweep.tried
        state.tally["accepted"] += sweep.accepted
        x = joined(sweep.x, x[n:])
    if config.gradient == "objective":
        objective = target.objective(state, x, missing, weight, fresh)  # 8: Algorithm 3
        ascend(state, objective, *state.optimisers)  # 9, 10
    else:  # theta at the state of the chain, phi at the fresh draw
        with held_fixed(state.theta):
            objective = target.objective(state, x, missing, weight, fresh)
            if n:
                ascend(state, objective, *state.optimisers_q)
        ascend(state, target.likelihood(state, x, missing, weight), state.optim_theta)
    state.tally["objective"] += objective.detach()
    return x


def speed_up(state: VgiState, mode: str, say: Callable[[str], None]) -> str:
    """Have the steps of the main stage captured (GPU) or the density compiled (CPU), as `mode` says: on, off or auto.

    `auto`: on a GPU when at least FEWEST_STEPS steps are planned; never on a CPU, where compiling takes minutes and
    saves little (docs/benchmarks.md). Returns what was decided; `say` is called when it turns out not to work.
    """
    gpu = state.chains.x.device.type == "cuda"
    planned = state.epochs * state.batches
    if mode == "off" or (mode == "auto" and not (gpu and planned >= FEWEST_STEPS)):
        return "off"
    if gpu:
        state.step = CapturedSteps(functools.partial(loop_body, state), say, state.chains.x.device)
        return f"steps are captured as CUDA graphs ({planned:,} planned)"
    if state.chains.layout.L:
        return "off"  # what is evaluated is not log_prob
    rows = torch.arange(min(64, len(state.chains.x)), device=state.chains.x.device)
    log_prob = compiled_density(state.theta, state.theta.log_prob, state.chains.completed(0, rows), say)
    state.log_p = lambda x, missing: log_prob(x)
    return "the density is compiled" if log_prob != state.theta.log_prob else "off"


def set_rates(state: VgiState) -> None:
    """Learning rates of this step."""
    factor = rate_factor(state.config.optim.schedule, state.progress())
    set_rate(state.optim_theta, state.lr * factor)
    for optimiser in state.optimisers_q:
        set_rate(optimiser, state.config.optim.lr_conditionals * factor)


class held_fixed:  # noqa: N801 (reads like a keyword)
    """Within this context no gradient reaches the parameters of `module`; it is evaluated without dropout."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self.training = module.training
        self.required = [p.requires_grad for p in module.parameters()]

    def __enter__(self) -> None:
        self.module.requires_grad_(False).eval()

    def __exit__(self, *_: object) -> None:
        self.module.train(self.training)
        for parameter, required in zip(self.module.parameters(), self.required, strict=True):
            parameter.requires_grad_(required)


METHOD = Method(VgiConfig, init, run, check, speed_up, target_of, finetune.tune)
