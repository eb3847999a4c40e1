"""State of a VGI fit: what `ChainState` keeps, and the conditionals with their optimiser."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, final

import torch
from torch import Tensor

from vgi_cli.chains.store.packed import Chains
from vgi_cli.conditionals.base import Conditionals, OfColumns, Univariate
from vgi_cli.methods.base import Parts, Standing
from vgi_cli.methods.chain_state import ChainState, Stage
from vgi_cli.methods.optimisation import adam, optimiser_tensors, prefixed, restore_optimiser
from vgi_cli.methods.vgi.conditionals import layout_of
from vgi_cli.methods.vgi.config import VgiConfig
from vgi_cli.methods.vgi.scans import block_columns, moved_columns
from vgi_cli.methods.vgi.targets import Target
from vgi_cli.models.base import Model

TAKEN = ("layout", "scan", "block_columns")
"""Settings that a fit by `vgi` takes by its table where they are open."""


@final
class VgiState(ChainState):
    """See State and ChainState.

    optim_q  none: the conditionals have no parameters of their own
    """

    def __init__(
        self,
        theta: Model,
        q: Conditionals,
        chains: Chains,
        config: VgiConfig,
        lr: float,
        batch_size: int,
        seed: int,
        target: Target,
    ) -> None:
        super().__init__(theta, chains, lr, batch_size, seed, Stage.WARM_CONDITIONALS)
        self.q = q
        self.config = config
        self.target = target
        target.bind(q, theta)
        own = any(True for _ in q.parameters())
        self.optim_q = adam(q, config.optim.lr_conditionals, amsgrad=True) if own else None
        self.step: Callable[..., Tensor] = _no_step  # the arithmetic of a step of the main stage (methods/vgi/vgi.py)
        univariate = isinstance(q, Univariate)
        self.moved = moved_columns(config, chains) if univariate else 1
        self.columns = block_columns(config, chains) if univariate else 1
        zeros = chains.x.new_zeros
        self.tally = {"objective": zeros(()), "tried": zeros(q.S), "accepted": zeros(q.S)}  # of this epoch

    def chosen(self) -> dict[str, Any]:
        """See State."""
        return super().chosen() | {f"method.{key}": getattr(self.settled(), key) for key in TAKEN}

    def settled(self) -> VgiConfig:
        """The settings with what they leave open of the networks and the moves as it is in this fit. Where the blocks
        are not of columns there are no such networks, and where they are of several no such moves."""
        taken: dict[str, Any] = {}
        if isinstance(self.q, OfColumns):
            taken["layout"] = layout_of(self.config, self.chains.layout.d)
        if isinstance(self.q, Univariate):
            taken["block_columns"] = self.columns
            if self.config.scan == "auto":
                taken["scan"] = "block" if self.moved > 1 else "step"
        return self.config.model_copy(update=taken)

    def parts(self) -> Parts:
        """See State."""
        self.publish()
        state = {"counters": self.counters()}
        state |= {f"theta/{k}": v for k, v in self.theta.state_dict().items()}
        state |= {f"tally/{k}": v for k, v in self.tally.items()}
        state |= optimiser_tensors("optim_theta", self.optim_theta)
        parts = {"model": dict(self.model.state_dict()), "state": state}
        if self.optim_q is not None:
            state |= optimiser_tensors("optim_q", self.optim_q)
            parts["conditionals"] = dict(self.q.state_dict())
        copies = {
            stem: {k: v.detach().clone().contiguous() for k, v in tensors.items()} for stem, tensors in parts.items()
        }
        return {**copies, "imputations": {"values": self.chains.values[:-1]}}

    def restore(self, parts: Mapping[str, Mapping[str, Tensor]]) -> None:
        """See State."""
        state = parts["state"]
        self.set_counters(state["counters"])
        self.model.load_state_dict(parts["model"])
        self.theta.load_state_dict(prefixed(state, "theta/"))
        self.chains.values[:-1] = parts["imputations"]["values"]
        for name, value in self.tally.items():
            value.copy_(state[f"tally/{name}"])
        restore_optimiser("optim_theta", self.optim_theta, state)
        if self.optim_q is not None:
            self.q.load_state_dict(parts["conditionals"])
            restore_optimiser("optim_q", self.optim_q, state)

    def standing(self) -> Standing:
        """See State: the warm-ups before the main stage count as epochs of the share."""
        if self.stage > Stage.MAIN:
            return super().standing()
        optim = self.config.optim
        lengths = [optim.warmup_conditionals, optim.warmup_model, self.epochs]
        done = sum(lengths[: self.stage]) + self.stage_epoch + self.position / self.batches
        return Standing(done / max(sum(lengths), 1), self.epoch, self.epochs, "epochs")

    @property
    def optimisers(self) -> list[torch.optim.Optimizer]:
        """Of theta, and of phi where it has parameters."""
        return [self.optim_theta, *self.optimisers_q]

    @property
    def optimisers_q(self) -> list[torch.optim.Optimizer]:
        """Of phi, where it has parameters."""
        return [] if self.optim_q is None else [self.optim_q]


def _no_step(*_: Tensor) -> Tensor:
    raise NotImplementedError("this state has no main stage")
