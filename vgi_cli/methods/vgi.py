"""Variational Gibbs inference: Algorithm 1 of the paper, line by line.

Where it goes past the paper: the imputation step may be corrected by a Metropolis rule, theta's gradient may be
taken at the accepted state, and the parameters of the last part of the main stage are averaged.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

from vgi_cli.chains.captured import FEWEST_STEPS, CapturedSteps, compiled_density
from vgi_cli.chains.initial import empirical
from vgi_cli.chains.placement import Room
from vgi_cli.chains.store import Batch, Chains, make_chains
from vgi_cli.chains.sweeps import SweepNoise
from vgi_cli.conditionals.amortised import AmortisedConditionals
from vgi_cli.conditionals.base import BlockNetwork, Conditionals
from vgi_cli.conditionals.families import make_family
from vgi_cli.conditionals.modulated import ModulatedNetwork
from vgi_cli.conditionals.network import SKIP_UP_TO, HeadNetwork
from vgi_cli.data import TensorTable, spread_rows
from vgi_cli.errors import UsageError
from vgi_cli.methods import optimisation
from vgi_cli.methods.base import EpochEnd, Method, Step
from vgi_cli.methods.chain_state import ChainState, Stage
from vgi_cli.methods.em_start import gaussian_pieces
from vgi_cli.methods.objective import (
    DrawNoise,
    draw_noise,
    joined,
    sweep_noise,
    update_imputations,
    vgi_objective,
    warm_up_loss,
)
from vgi_cli.methods.optimisation import default_batch_size, rate_factor, set_rate
from vgi_cli.methods.vgi_config import VgiConfig
from vgi_cli.methods.vgi_state import VgiState
from vgi_cli.models.base import Model

STEPS, FEWEST_EPOCHS = 4000, 5  # of the main stage where no number of epochs is given
INITIAL_ROWS = 100_000
"""Rows that the model and the `em` fit of f0 are initialised from, at most (of the flattened rows whole chains where
they fit, else rows of the first): this bounds their memory."""


def build_conditionals(config: VgiConfig, D: int) -> Conditionals:
    """The conditionals that the settings describe, for D columns; parameters not yet initialised."""
    family = make_family(config.conditional, steps=config.spline_steps, bins=config.spline_bins)
    network: BlockNetwork
    if config.layout == "modulated" or (config.layout == "auto" and D > SKIP_UP_TO):
        network = ModulatedNetwork(D, family.width, config.trunk, config.hidden)
    else:
        trunk = () if config.layout == "independent" else config.trunk
        network = HeadNetwork(D, family.width, trunk, config.hidden)
    return AmortisedConditionals(family, network, extended=config.kernel == "extended")


def check(family: type[Model], config: VgiConfig) -> None:
    """A bound of a log density must not enter an acceptance ratio: the chain would target something else."""
    if config.accept == "metropolis" and not family.exact:
        raise UsageError(
            "method.accept=metropolis needs a log density, and this model has a lower bound of one only",
            "take --set method.accept=gibbs, which is the default for this model",
        )


def init(
    model: Model, table: TensorTable, config: VgiConfig, generator: torch.Generator, room: Room | None = None
) -> VgiState:
    """State before the first step: Algorithm 1, lines 1 and 2. `generator` is on the CPU.

    room  where chains may live (`config.chains`); none: there is room for everything on the device

    Raises UsageError for settings that the model cannot have (see `check`).
    """
    check(type(model), config)
    x, missing = table.x, table.missing
    seed = int(torch.randint(2**62, (), generator=generator))
    chains = make_chains(x, missing, config.imputations, config.chains, room)
    initial_imputations(chains, table, config, generator)  # 1: D_K <- f0
    model.initialise(initial_rows(chains).cpu(), generator)
    q = build_conditionals(config, table.D).to(x.dtype)
    q.initialise(generator)
    q.to(x.device)
    n = int((~missing.all(1)).sum())
    batch_size = config.optim.batch_size or default_batch_size(n)
    lr = config.optim.lr or model.learning_rate
    state = VgiState(model, q, chains, config, lr, batch_size, seed)
    state.step = functools.partial(loop_body, state)
    state.epochs = config.epochs or max(FEWEST_EPOCHS, math.ceil(STEPS / state.batches))
    return state


def initial_imputations(chains: Chains, table: TensorTable, config: VgiConfig, generator: torch.Generator) -> None:
    """Set the chains to f0: `empirical` marginals, or draws given the observed cells from a quick `em` fit."""
    if config.initial == "empirical":
        empirical(chains, generator)
        return
    line = 0
    for draws in gaussian_pieces(table.to(device="cpu"), config.imputations, generator, INITIAL_ROWS):
        chains.values[line : line + len(draws)] = draws.to(table.x)
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


def run(state: VgiState) -> Iterator[Step | EpochEnd]:
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
                yield Step({"objective": state.tally["objective"]})
            yield end_epoch(state)
        if stage < Stage.MAIN:
            state.stage, state.stage_epoch = Stage(stage + 1), 0
            for optimiser in (state.optim_theta, state.optim_q):  # moments of a warm-up belong to its own loss
                optimiser.state.clear()


def warm_up_conditionals(state: VgiState, batch: Batch) -> None:
    """One step of Algorithm 2: fit q to observed cells, the rest filled by f0."""
    g = state.generator(1 + state.position)
    loss = warm_up_loss(state.q, batch.x, batch.missing, batch.weight, max(2, state.config.blocks_per_row), g)
    ascend(state, -loss, state.optim_q)
    state.tally["objective"] -= loss.detach()


def warm_up_model(state: VgiState, batch: Batch) -> None:
    """One step of Algorithm 4: theta climbs the objective on f0, phi and the chains stay."""
    g = state.generator(1 + state.position)
    K = state.chains.K
    noise = draw_noise(state.q, len(batch.rows) * K, state.config.blocks_per_row, batch.x, g)
    with frozen(state.q):
        objective = vgi_objective(state.log_p, state.q, batch.x, batch.missing, batch.weight, K, noise)
        ascend(state, objective, state.optim_theta)
    state.tally["objective"] += objective.detach()


def main_step(state: VgiState, batch: Batch) -> None:
    """One pass of the loop body: Algorithm 1, lines 6 to 10. All randomness is drawn before its arithmetic begins."""
    config = state.config
    g = state.generator(1 + state.position)
    n = len(batch.rows) * state.chains.K
    moves = sweep_noise(state.q, n, config.gibbs_steps, config.accept, batch.x, g)
    fresh = draw_noise(state.q, n, config.blocks_per_row, batch.x, g)
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
    config, K, log_p = state.config, state.chains.K, state.log_p
    moves, fresh = SweepNoise(*noise[:3]), DrawNoise(*noise[3:])
    n = moves.normal.shape[0]
    if n:
        state.theta.eval()
        sweep = update_imputations(  # 6: update the imputations with Algorithm 5
            log_p, state.q, x[:n], missing[:n], K, moves, accept=config.accept, scan=config.scan
        )
        state.theta.train()
        state.tally["tried"] += sweep.tried
        state.tally["accepted"] += sweep.accepted
        x = joined(sweep.x, x[n:])
    if config.gradient == "objective":
        objective = vgi_objective(log_p, state.q, x, missing, weight, K, fresh)  # 8: Algorithm 3
        ascend(state, objective, state.optim_theta, state.optim_q)  # 9, 10
    else:  # theta at the state of the chain, phi at the fresh draw
        with frozen(state.theta):
            objective = vgi_objective(log_p, state.q, x, missing, weight, K, fresh)
            if n:
                ascend(state, objective, state.optim_q)
        ascend(state, (weight * log_p(x, missing)).sum(), state.optim_theta)
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
        state.step = CapturedSteps(functools.partial(loop_body, state), say)
        return f"steps are captured as CUDA graphs ({planned:,} planned)"
    rows = torch.arange(min(64, len(state.chains.x)), device=state.chains.x.device)
    log_prob = compiled_density(state.theta, state.theta.log_prob, state.chains.completed(0, rows), say)
    state.log_p = lambda x, missing: log_prob(x)
    return "the density is compiled" if log_prob != state.theta.log_prob else "off"


def set_rates(state: VgiState) -> None:
    """Learning rates of this step."""
    factor = rate_factor(state.config.optim.schedule, state.progress())
    set_rate(state.optim_theta, state.lr * factor)
    set_rate(state.optim_q, state.config.optim.lr_conditionals * factor)


def ascend(state: VgiState, objective: Tensor, *optimisers: torch.optim.Optimizer) -> None:
    """One gradient step up the objective with each optimiser."""
    optimisation.ascend(objective, state.config.optim.clip, *optimisers)


def end_epoch(state: VgiState) -> EpochEnd:
    """Close an epoch: metrics of it, counters to the next."""
    tally = {name: value / (state.batches if name == "objective" else 1) for name, value in state.tally.items()}
    metrics: dict[str, object] = {"stage": state.stage.name.lower(), "objective": float(tally["objective"])}
    state.publish()
    if state.stage >= Stage.MAIN:
        draw_empty_rows(state)
        if len(state.incomplete):
            rate = tally["accepted"] / tally["tried"]
            metrics["acceptance"] = [None if r != r else round(r, 4) for r in rate.tolist()]
    for value in state.tally.values():
        value.zero_()
    state.stage_epoch, state.position = state.stage_epoch + 1, 0
    return EpochEnd(state.stage_epoch, metrics)


@torch.no_grad()
def draw_empty_rows(state: ChainState) -> None:
    """Set the chains of fully missing rows, which do not enter the fit, to draws from the published model."""
    if len(state.empty):
        rows = state.model.sample(len(state.empty) * state.chains.K, state.generator(-1))
        state.chains.store(state.empty, rows.to(state.chains.x.dtype))


class frozen:  # noqa: N801 (reads like a keyword)
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


METHOD = Method(requires=(), Config=VgiConfig, init=init, run=run, check=check, speed_up=speed_up)
