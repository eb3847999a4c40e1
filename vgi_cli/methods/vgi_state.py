"""State of a VGI fit: model, conditionals, chains, optimisers, averages and counters.

Randomness is not a stream that has to be saved: every epoch and step seeds its own generator from the fit's seed,
the stage and the counters, so a restored state goes on exactly where it was.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum

import torch
from torch import Tensor, nn

from vgi_cli.chains.store import Batch, Chains
from vgi_cli.conditionals.base import Conditionals
from vgi_cli.maths.noise import mix64
from vgi_cli.methods.base import Parts, State
from vgi_cli.methods.vgi_config import VgiConfig
from vgi_cli.models.base import Model
from vgi_cli.notation import LogDensity


class Stage(IntEnum):
    """The stages of Algorithm 1; `FINETUNE` is Algorithm 6."""

    WARM_CONDITIONALS = 0
    WARM_MODEL = 1
    MAIN = 2
    FINETUNE = 3


class VgiState(State):
    """See State. `theta` is the model in training; `model` is the published one (averaged once averaging began)."""

    def __init__(
        self, theta: Model, q: Conditionals, chains: Chains, config: VgiConfig, lr: float, batch_size: int, seed: int
    ) -> None:
        self.theta = theta
        self.model = copy.deepcopy(theta).eval()
        self.q = q
        self.chains = chains
        self.config = config
        self.seed = seed
        self.lr = lr
        optim = config.optim
        self.optim_theta = _adam(theta, lr, amsgrad=False)
        self.optim_q = _adam(q, optim.lr_conditionals, amsgrad=True)
        self.log_p: LogDensity = lambda x, missing: theta.log_prob(x)
        self.step: Callable[..., Tensor] = _no_step  # the arithmetic of a step of the main stage (methods/vgi.py)
        empty = chains.missing.all(1)[chains.incomplete]
        self.empty = chains.incomplete[empty]  # fully missing rows do not enter
        self.incomplete = chains.incomplete[~empty] if len(self.empty) else chains.incomplete
        self.complete = chains.complete
        self.rows_per_epoch = len(self.incomplete) + len(self.complete)
        self.batches = max(1, -(-self.rows_per_epoch // batch_size))
        self.stage = Stage.WARM_CONDITIONALS
        self.stage_epoch = 0  # whole epochs done in this stage
        self.position = 0  # batches done in this epoch
        self.averaged = 0  # steps in the average
        self.order: list[Tensor] = []  # of this epoch: incomplete rows, complete rows; derived, never saved
        D = chains.x.shape[1]
        zeros = chains.x.new_zeros
        self.tally = {"objective": zeros(()), "tried": zeros(D), "accepted": zeros(D)}  # of this epoch

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

    def parts(self) -> Parts:
        """See State."""
        self.publish()
        counters = [self.seed, int(self.stage), self.stage_epoch, self.position, self.averaged]
        state = {"counters": torch.tensor(counters, dtype=torch.int64)}
        state |= {f"theta/{k}": v for k, v in self.theta.state_dict().items()}
        state |= {f"tally/{k}": v for k, v in self.tally.items()}
        state |= _optimiser_tensors("optim_theta", self.optim_theta)
        state |= _optimiser_tensors("optim_q", self.optim_q)
        parts = {
            "model": dict(self.model.state_dict()),
            "conditionals": dict(self.q.state_dict()),
            "state": state,
        }
        copies = {
            stem: {k: v.detach().clone().contiguous() for k, v in tensors.items()} for stem, tensors in parts.items()
        }
        return {**copies, "imputations": {"values": self.chains.values[:-1]}}

    def restore(self, parts: Mapping[str, Mapping[str, Tensor]]) -> None:
        """See State."""
        state = parts["state"]
        self.seed, stage, self.stage_epoch, self.position, self.averaged = state["counters"].tolist()
        self.stage = Stage(stage)
        self.model.load_state_dict(parts["model"])
        self.q.load_state_dict(parts["conditionals"])
        self.theta.load_state_dict(_prefixed(state, "theta/"))
        self.chains.values[:-1] = parts["imputations"]["values"]
        for name, value in self.tally.items():
            value.copy_(state[f"tally/{name}"])
        _restore_optimiser("optim_theta", self.optim_theta, state)
        _restore_optimiser("optim_q", self.optim_q, state)
        self.order = []


def _adam(module: nn.Module, lr: float, *, amsgrad: bool) -> torch.optim.Adam:
    """Adam for a module, in one kernel where there is one, ready to be captured on a GPU."""
    device = next(module.parameters()).device
    gpu = device.type == "cuda"
    rate: float | Tensor = torch.tensor(lr, device=device) if gpu else lr
    fused = device.type in {"cpu", "cuda"}
    return torch.optim.Adam(module.parameters(), lr=rate, amsgrad=amsgrad, fused=fused, capturable=gpu)


def _no_step(*_: Tensor) -> Tensor:
    raise NotImplementedError("this state has no main stage")


def parameters_of(optimiser: torch.optim.Optimizer) -> Iterable[nn.Parameter]:
    """All parameters of an optimiser, in order."""
    return (p for group in optimiser.param_groups for p in group["params"])


def _prefixed(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}


def _optimiser_tensors(prefix: str, optimiser: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Moments, AMSGrad maxima and step counts: `prefix/<parameter>/<name>`."""
    out = {}
    for i, parameter in enumerate(parameters_of(optimiser)):
        for name, value in optimiser.state.get(parameter, {}).items():
            out[f"{prefix}/{i}/{name}"] = value
    return out


def _restore_optimiser(prefix: str, optimiser: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    optimiser.state.clear()
    for i, parameter in enumerate(parameters_of(optimiser)):
        moments = _prefixed(tensors, f"{prefix}/{i}/")
        if moments:
            beside = optimiser.defaults["fused"]  # where the step count lies; else it stays on the CPU
            optimiser.state[parameter] = {
                k: v.detach().clone().to(parameter.device if k != "step" or beside else "cpu")
                for k, v in moments.items()
            }
