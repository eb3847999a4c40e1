"""State of a VGI fit: that of the loop, the conditionals and what Algorithm 1 needs to know of the model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor

from vgi_cli.chains.moves import SweepNoise
from vgi_cli.chains.store.packed import Chains
from vgi_cli.conditionals.amortised import AmortisedConditionals
from vgi_cli.conditionals.base import Conditionals
from vgi_cli.methods.base import Resources, Standing
from vgi_cli.methods.loop import LoopState, Stage
from vgi_cli.methods.optimisation import adam, ascend, held_fixed
from vgi_cli.methods.vgi.build import layout_of, moves_of
from vgi_cli.methods.vgi.config import VgiConfig
from vgi_cli.methods.vgi.objective import DrawNoise, joined
from vgi_cli.methods.vgi.speed import speed_of
from vgi_cli.methods.vgi.targets import Inference, Target
from vgi_cli.models.base import Model

TAKEN = ("layout", "scan", "block_columns")
"""Settings that a fit by `vgi` takes by its table where they are open."""
STILL = 1000
"""Moves of a column in an epoch all of which must be refused for its conditional to count as dead."""
Objective = Callable[[Inference, Tensor, Tensor, Tensor, DrawNoise], Tensor]
"""Weighted sum of the objective over rows x [R, D], missing [R, D], weight [R]: scalar, nats."""


@final
class VgiState(LoopState):
    """What a fit by `vgi`, `vbgi` or `vbgi-m` keeps beside the state of the loop.

    optim_q   None: the conditionals have no parameters of their own
    moves     how the chains move
    estimate  what one estimate of the objective redraws
    speed     how the steps are computed
    """

    TOTAL = "tally/objective"

    def __init__(
        self,
        theta: Model,
        q: Conditionals,
        chains: Chains,
        config: VgiConfig,
        seed: int,
        target: Target,
        resources: Resources | None = None,
        stage: Stage = Stage.WARM_CONDITIONALS,
    ) -> None:
        super().__init__(theta, chains, config, seed, stage, keeps=True)
        self.q = q
        self.config = config
        self.target = target
        target.bind(q, theta)
        self.optim_q: torch.optim.Adam | None = None
        if any(True for _ in q.parameters()):
            self.optim_q = adam(q, config.optim.lr_conditionals, amsgrad=True)
            self.optimisers["optim_q"] = self.optim_q
            self.rates["optim_q"] = config.optim.lr_conditionals
            self.networks["conditionals"] = q
        self.moves, self.estimate = moves_of(config, q, chains)
        self.counts = {f"tally/{name}": chains.x.new_zeros(q.S) for name in ("tried", "accepted")}
        resources = Resources() if resources is None else resources
        self.speed = speed_of(theta, chains, resources, self.epochs * self.batches, latent=chains.layout.L > 0)
        self.log_p = self.speed.log_p

    @property
    def conditionals(self) -> Conditionals:
        return self.q

    @property
    def compiled(self) -> str:
        return self.speed.words

    def chosen(self) -> dict[str, Any]:
        return super().chosen() | {f"method.{key}": getattr(self.settled(), key) for key in TAKEN}

    def settled(self) -> VgiConfig:
        """The settings with what they leave open of the networks and the moves as it is in this fit. Where the blocks
        are not of columns there are no such networks, and where they are of several no such moves."""
        taken: dict[str, Any] = {}
        if isinstance(self.q, AmortisedConditionals):
            taken["layout"] = layout_of(self.config, self.chains.layout.d)
        if self.q.flat:
            taken["block_columns"] = self.estimate.B
            if self.config.scan == "auto":
                taken["scan"] = "block" if self.moves.B > 1 else "step"
        return self.config.model_copy(update=taken)

    def standing(self) -> Standing:
        """The warm-ups before the main stage count as epochs of the share."""
        if self.stage > Stage.MAIN:
            return super().standing()
        optim = self.config.optim
        lengths = [optim.warmup_conditionals, optim.warmup_model, self.epochs]
        done = sum(lengths[: self.stage]) + self.stage_epoch + self.position / self.batches
        return Standing(done / max(sum(lengths), 1), self.epoch, self.epochs, "epochs")

    def close_epoch(self) -> dict[str, Any]:
        metrics: dict[str, Any] = {
            "stage": self.stage.name.lower(),
            "objective": float(self.total / self.batches),
        }
        if self.stage >= Stage.MAIN:
            self.draw_empty_rows()
            if len(self.incomplete):
                layout = self.chains.layout
                counts = self.counted()
                rate = (counts["tally/accepted"] / counts["tally/tried"])[self.q.block_of]
                metrics["acceptance"] = [_shown(r) for r in layout.of_columns(rate).tolist()]  # that of its block
                if rate.shape[0] > layout.d:
                    metrics["acceptance_latents"] = _shown(float(rate[layout.d]))  # they are one block
                still = (counts["tally/tried"] >= STILL) & (counts["tally/accepted"] == 0)
                if (dead := still[self.q.block_of][: layout.d].nonzero()).numel():
                    self.stood_still(int(dead[0, 0]))
        return metrics

    @property
    def optimisers_q(self) -> list[torch.optim.Optimizer]:
        """Of phi, where it has parameters."""
        return [] if self.optim_q is None else [self.optim_q]

    @property
    def inference(self) -> Inference:
        """What a step computes with."""
        chains = self.chains
        return Inference(self.theta, self.q, self.log_p, chains.K, chains.layout, self.moves, self.estimate)

    def update(self, x: Tensor, missing: Tensor, noise: SweepNoise) -> Tensor:
        """The rows of a batch [R, D] with new imputations (Algorithm 5) in the incomplete ones, which come first."""
        return self.speed.call(self._update, x, missing, noise) if len(noise.normal) else x

    def _update(self, x: Tensor, missing: Tensor, noise: SweepNoise) -> Tensor:
        """The arithmetic of `update`: a function of tensors, which counts what was accepted."""
        return self.swept(self.inference, x, missing, noise)

    def swept(self, of: Inference, x: Tensor, missing: Tensor, noise: SweepNoise, box: Tensor | None = None) -> Tensor:
        """The same by moves of one's own choice; box [2, d]: what no update leaves."""
        n = len(noise.normal)
        self.theta.eval()
        sweep = self.target.update(of, x[:n], missing[:n], noise, box)
        self.theta.train()
        self.counts["tally/tried"] += sweep.tried
        self.counts["tally/accepted"] += sweep.accepted
        return joined(sweep.x, x[n:])

    def ascend(
        self, objective: Objective, theta: torch.optim.Optimizer, phi: torch.optim.Optimizer | None, *inputs: Any
    ) -> Tensor:
        """A step of the main stage up an objective in theta and in phi, whose value it returns. `inputs`: x, missing
        and weight of a batch, and a DrawNoise."""
        return self.speed.call(Ascent(self, objective, theta, phi), *inputs)


@dataclass(frozen=True)
class Ascent:
    """The arithmetic of `VgiState.ascend`: a function of tensors that changes parameters and moments in place."""

    state: VgiState
    objective: Objective
    theta: torch.optim.Optimizer
    phi: torch.optim.Optimizer | None

    def __call__(self, x: Tensor, missing: Tensor, weight: Tensor, noise: DrawNoise) -> Tensor:
        state, clip, of = self.state, self.state.config.optim.clip, self.state.inference
        phi, ranks = [] if self.phi is None else [self.phi], self.state.ranks
        nothing = x.new_zeros(())  # where another rank has all rows of this step
        if state.config.gradient == "objective":
            objective = self.objective(of, x, missing, weight, noise) if len(x) else nothing
            return ascend(objective, clip, self.theta, *phi, ranks=ranks)
        with held_fixed(state.theta):  # phi at the fresh draw
            objective = self.objective(of, x, missing, weight, noise) if len(x) else nothing
            if objective.requires_grad or not ranks.alone:
                objective = ascend(objective, clip, *phi, ranks=ranks)
        likelihood = state.target.likelihood(of, x, missing, weight) if len(x) else nothing
        ascend(likelihood, clip, self.theta, ranks=ranks)  # theta at the state of the chain
        return objective.detach()


def _shown(rate: float) -> float | None:
    """A rate as it is logged; None where nothing was tried."""
    return None if rate != rate else round(rate, 4)
