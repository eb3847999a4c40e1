"""What every method that takes gradient steps over a table and its chains keeps: the model in training, the published
one, the chains, the order of the rows and the counters.

Randomness is not a stream that has to be saved: every epoch and step seeds its own generator from the fit's seed, the
stage and the counters, so a restored state goes on exactly where it was.
"""

from __future__ import annotations

import copy
from enum import IntEnum
from typing import Any

import torch
from torch import Tensor

from vgi_cli.chains.store.packed import Batch, Chains
from vgi_cli.maths.noise import mix64
from vgi_cli.methods.base import Standing, State
from vgi_cli.methods.optimisation import adam, default_batch_size
from vgi_cli.models.base import Model
from vgi_cli.notation import LogDensity


class Stage(IntEnum):
    """The stages of Algorithm 1; `FINETUNE` is Algorithm 6. Methods without warm-ups have the main stage only."""

    WARM_CONDITIONALS = 0
    WARM_MODEL = 1
    MAIN = 2
    FINETUNE = 3


class ChainState(State):
    """See State. `theta` is the model in training; `model` is the published one (averaged once averaging began)."""

    def __init__(self, theta: Model, chains: Chains, lr: float, batch_size: int, seed: int, stage: Stage) -> None:
        self.theta = theta
        self.model = copy.deepcopy(theta).eval()
        self.chains = chains
        self.seed = seed
        self.lr = lr
        self.batch_size = batch_size
        self.optim_theta = adam(theta, lr, amsgrad=False)
        self.log_p: LogDensity = lambda x, missing: theta.log_prob(x)
        empty = chains.missing.all(1)[chains.incomplete]
        self.empty = chains.incomplete[empty]  # fully missing rows do not enter
        self.incomplete = chains.incomplete[~empty] if len(self.empty) else chains.incomplete
        self.complete = chains.complete
        self.rows_per_epoch = len(self.incomplete) + len(self.complete)
        self.batches = max(1, -(-self.rows_per_epoch // batch_size))
        self.stage = stage
        self.stage_epoch = 0  # whole epochs done in this stage
        self.position = 0  # batches done in this epoch
        self.averaged = 0  # steps in the average
        self.order: list[Tensor] = []  # of this epoch: incomplete rows, complete rows; derived, never saved

    def chosen(self) -> dict[str, Any]:
        """See State."""
        return {"optim.lr": self.lr, "optim.batch_size": self.batch_size}

    def batch_size_for(self, n: int) -> int:
        """Rows in a step of a fine-tuning to n held-out rows: as in the fit, and not more than so few rows would take
        by themselves."""
        return min(self.batch_size, default_batch_size(n))

    @property
    def epoch(self) -> int:  # type: ignore[override]
        """Whole epochs of the main stage done."""
        return self.stage_epoch if self.stage >= Stage.MAIN else 0

    def generator(self, purpose: int) -> torch.Generator:
        """The random stream of this stage, epoch and position; `purpose` separates streams of one step."""
        key = torch.tensor([self.seed], dtype=torch.int64)
        for part in (int(self.stage), self.stage_epoch, purpose):
            key = mix64(key ^ (part + 1))
        generator = torch.Generator(self.chains.x.device)
        generator.manual_seed(int(key) & ((1 << 63) - 1))
        return generator

    def batch(self) -> Batch:
        """The batch at this position. Every batch has the same share of complete and of incomplete rows."""
        if self.position == 0 or not self.order:
            g = self.generator(0)
            self.order = []
            for part in (self.incomplete, self.complete):
                order = torch.randperm(len(part), generator=g, dtype=part.dtype, device=part.device)
                self.order.append(part[order].to(self.chains.lines.rows_on))
        batch = self.chains.batch(*self._rows(self.position))
        if self.position + 1 < self.batches:
            self.chains.prefetch(self._rows(self.position + 1)[0])
        return batch

    def _rows(self, position: int) -> list[Tensor]:
        """Incomplete and complete rows of the batch at a position of this epoch."""
        edges = [
            (position * len(order) // self.batches, (position + 1) * len(order) // self.batches) for order in self.order
        ]
        return [order[start:end] for order, (start, end) in zip(self.order, edges, strict=True)]

    def publish(self) -> None:
        """Copy the parameters in training into the published model (while nothing is averaged yet): at the end of an
        epoch, and when the state is saved."""
        if self.averaged == 0:
            self.model.load_state_dict(self.theta.state_dict())

    def average(self) -> None:
        """Add the parameters in training to the running average that is published."""
        self.averaged += 1
        with torch.no_grad():
            for mean, value in zip(self.model.parameters(), self.theta.parameters(), strict=True):
                mean.lerp_(value, 1.0 / self.averaged)
            for kept, buffer in zip(self.model.buffers(), self.theta.buffers(), strict=True):
                kept.copy_(buffer)

    def progress(self) -> float:
        """Share of the main stage that is done, 0 to 1."""
        return (self.stage_epoch + self.position / self.batches) / max(self.epochs, 1)

    def standing(self) -> Standing:
        """See State: batch by batch."""
        share = self.progress() if self.stage >= Stage.MAIN else 0.0
        return Standing(share, self.epoch, self.epochs, "epochs")

    def count_average(self, share: float) -> None:
        """After a step: average the parameters in the last `share` of the main stage."""
        if self.progress() >= 1.0 - share:
            self.average()
        else:
            self.averaged = 0  # more epochs were asked for after an average had begun: it starts anew at their end

    def counters(self) -> Tensor:
        """Seed, stage and counters, as a checkpoint keeps them."""
        counters = [self.seed, int(self.stage), self.stage_epoch, self.position, self.averaged]
        return torch.tensor(counters, dtype=torch.int64)

    def set_counters(self, counters: Tensor) -> None:
        """Take up what `counters` gave."""
        self.seed, stage, self.stage_epoch, self.position, self.averaged = counters.tolist()
        self.stage = Stage(stage)
        self.order = []


@torch.no_grad()
def draw_empty_rows(state: ChainState) -> None:
    """Set the chains of fully missing rows, which do not enter the fit, to draws from the published model."""
    if len(state.empty):
        x = state.chains.x
        rows = state.model.sample(len(state.empty) * state.chains.K, state.generator(-1)).to(x.dtype)
        latents = rows.new_zeros(len(rows), state.chains.layout.L)  # never read
        state.chains.store(state.empty, torch.cat([rows, latents], 1))
