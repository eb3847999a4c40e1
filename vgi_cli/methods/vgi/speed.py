"""How the steps of a fit are made faster: captured as CUDA graphs on a GPU, or with a compiled density."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from vgi_cli.chains.captured import FEWEST_STEPS, CapturedSteps, compiled_density
from vgi_cli.chains.store.packed import Chains
from vgi_cli.methods.base import Resources
from vgi_cli.models.base import Model
from vgi_cli.notation import LogDensity


class Plain:
    """Functions of tensors, as they are."""

    def __call__(self, function: Callable[..., Tensor], *inputs: Any) -> Tensor:
        return function(*inputs)


class Captured:
    """Functions of tensors, each as CUDA graphs of its own; functions that are equal share theirs. `warn` is told of
    the first that cannot be captured."""

    def __init__(self, warn: Callable[[str], None], device: torch.device) -> None:
        self._warn = warn
        self._device = device
        self._failed = False
        self.steps: dict[Hashable, CapturedSteps[Tensor]] = {}

    def __call__(self, function: Callable[..., Tensor], *inputs: Any) -> Tensor:
        if function not in self.steps:
            self.steps[function] = CapturedSteps(function, self._say_once, self._device)
        return self.steps[function](*inputs)

    def _say_once(self, line: str) -> None:
        if not self._failed:
            self._warn(line)
        self._failed = True


class Speed(NamedTuple):
    """What was decided, in words; what calls a step's functions of tensors; the model's log density."""

    words: str
    call: Plain | Captured
    log_p: LogDensity


def speed_of(theta: Model, chains: Chains, resources: Resources, planned: int, *, latent: bool) -> Speed:
    """`resources.compile` on, off or auto: on a GPU when at least FEWEST_STEPS steps are planned; never on a CPU, where
    compiling takes minutes and saves little (docs/research/benchmarks.md). `latent`: what is evaluated is not
    `log_prob`."""
    device = chains.x.device
    plain = Speed("off", Plain(), lambda x, missing: theta.log_prob(x))
    gpu = device.type == "cuda"
    if resources.compile == "off" or (resources.compile == "auto" and not (gpu and planned >= FEWEST_STEPS)):
        return plain
    if gpu:
        words = f"steps are captured as CUDA graphs ({planned:,} planned)"
        return plain._replace(words=words, call=Captured(resources.warn, device))
    if latent:
        return plain
    rows = torch.arange(min(64, len(chains.x)), device=device)
    log_prob = compiled_density(theta, theta.log_prob, chains.completed(0, rows), resources.warn)
    if log_prob == theta.log_prob:
        return plain
    return Speed("the density is compiled", Plain(), lambda x, missing: log_prob(x))
