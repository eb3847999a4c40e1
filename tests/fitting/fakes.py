"""A tiny method with a real state: a stochastic gradient fit whose every step draws from a saved generator."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vgi_cli.completers.base import never
from vgi_cli.data import TensorTable, make_table
from vgi_cli.fitting.driver import Drive, Validator
from vgi_cli.layout import Layout
from vgi_cli.machine.work import Stop
from vgi_cli.methods.base import EpochEnd, Events, Method, MethodConfig, Parts, State, StepEnd
from vgi_cli.models.base import Model, ModelConfig
from vgi_cli.reporting import Silent
from vgi_cli.runs.folder import RunFolder, claim

STEPS = 4
MANIFEST: dict[str, Any] = {
    "format": 1,
    "version": "0.1.0",
    "command": "fit",
    "status": "running",
    "stopped_by": None,
    "seeds": {"fit": 0},
    "requested": {},
    "data": {"paths": [], "mask": None, "label": "table", "sha256": "0" * 64, "rows": 20, "rows_fitted": 20},
    "model": "fake",
    "method": "fake",
    "device": "cpu",
    "threads": 1,
    "metrics_bytes": 0,
    "epochs": 0,
    "epochs_planned": 0,
}
"""Of a run that has just begun."""


class FakeModel(Model):
    """A Gaussian with unit variance and a free mean."""

    Config = ModelConfig

    def __init__(self, D: int) -> None:
        super().__init__()
        self.mean = torch.nn.Parameter(torch.zeros(D, dtype=torch.float64))

    @classmethod
    def build(cls, config: Any, layout: Layout) -> FakeModel:
        return cls(layout.D)

    def initialise(self, x: Tensor, generator: torch.Generator) -> None:
        with torch.no_grad():
            self.mean.copy_(torch.randn(self.mean.shape, dtype=torch.float64, generator=generator))

    def log_prob(self, x: Tensor) -> Tensor:
        return -0.5 * (x - self.mean).square().sum(-1)

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        return self.mean + torch.randn(n, len(self.mean), dtype=torch.float64, generator=generator)


class FakeState(State):
    """Mean, momentum, generator, position in the epoch."""

    def __init__(self, model: FakeModel, table: TensorTable, generator: torch.Generator, epochs: int) -> None:
        self.model = model
        self.table = table
        self.generator = generator
        self.momentum = torch.zeros_like(model.mean)
        self.epoch, self.epochs, self.position = 0, epochs, 0
        self.delay = 0.0
        self.poison_at: int | None = None

    def parts(self) -> Parts:
        state = {
            "momentum": self.momentum.clone(),
            "generator": self.generator.get_state(),
            "counters": torch.tensor([self.epoch, self.position]),
        }
        values = self.table.x[:, :1].to(torch.float32).contiguous()
        return {"model": {"mean": self.model.mean.detach().clone()}, "imputations": {"values": values}, "state": state}

    def restore(self, parts: Mapping[str, Mapping[str, Tensor]]) -> None:
        with torch.no_grad():
            self.model.mean.copy_(parts["model"]["mean"])
        self.momentum = parts["state"]["momentum"].clone()
        self.generator.set_state(parts["state"]["generator"])
        self.epoch, self.position = parts["state"]["counters"].tolist()


def run(state: FakeState, stop: Callable[[], bool] = never) -> Events:
    while state.epoch < state.epochs:
        while state.position < STEPS:
            noise = torch.randn(state.model.mean.shape, dtype=torch.float64, generator=state.generator)
            gradient = state.table.x.mean(0) - state.model.mean.detach() + noise
            state.momentum = 0.9 * state.momentum + gradient
            with torch.no_grad():
                state.model.mean += 0.05 * state.momentum
            state.position += 1
            time.sleep(state.delay)
            if state.poison_at == state.epoch:
                with torch.no_grad():
                    state.model.mean[0] = torch.nan
            yield StepEnd()
        state.epoch, state.position = state.epoch + 1, 0
        yield EpochEnd(state.epoch, {"objective": float(state.model.mean.detach().sum())})


def init(model: Model, table: TensorTable, config: Any, generator: torch.Generator) -> FakeState:
    assert isinstance(model, FakeModel)
    model.initialise(table.x, generator)
    return FakeState(model, table, generator, 10)


METHOD = Method(MethodConfig, init, run)


class FakeValidator(Validator):
    """Scores from a list, one a validation; counts in a tensor of its own."""

    name = "score"
    words = "score {:.1f}"

    def __init__(self, scores: list[float], every: int = 1) -> None:
        self.scores, self.every, self.count = scores, every, 0

    def score(self, state: State, over: Callable[[], bool] = never) -> float:
        self.count += 1
        return self.scores[self.count - 1]

    def tensors(self) -> dict[str, Tensor]:
        return {"count": torch.tensor(self.count)}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        self.count = int(tensors["count"])


def table() -> TensorTable:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(20, 3, dtype=torch.float64, generator=generator)
    return make_table(x, torch.rand(20, 3, generator=generator) < 0.3, Layout.of("abc"))


def new_run(path: Path) -> RunFolder:
    claim(path)
    run = RunFolder(path, copy.deepcopy(MANIFEST))
    run.save({}, {}, {"recipe.yaml": "seed: 0\n", "schema.json": "{}"})
    return run


def new_drive(run: RunFolder, epochs: int = 10, **changes: Any) -> Drive:
    state = init(FakeModel(3), table(), None, torch.Generator().manual_seed(1))
    state.epochs = epochs
    return Drive(METHOD.run, state, run, table(), Silent(), changes.pop("stop", Stop()), **changes)
