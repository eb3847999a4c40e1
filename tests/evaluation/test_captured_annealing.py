"""Steps of annealing paths are functions of tensors: recorded once and replayed, they give the same weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.samplers.test_captured import Capture, Traced
from vgi_cli.chains.captured import CapturedSteps
from vgi_cli.evaluation.likelihood.annealing import FEWEST_CAPTURED, Annealer, _captured_size
from vgi_cli.evaluation.likelihood.estimate import annealed, prepared
from vgi_cli.evaluation.likelihood.ladder import CELLS_ON_GPU, MORE_ON_GPU, Budget
from vgi_cli.evaluation.likelihood.units import Cells
from vgi_cli.layout import Layout
from vgi_cli.maths.noise import KeyedNoise, mix64
from vgi_cli.models.flows.coupling import Flow, FlowConfig
from vgi_cli.samplers.base import frozen

D = 4


def setup(device: str, capture: Capture | None) -> tuple[Flow, Annealer, Tensor, Tensor]:
    """A flow, its annealer, rows and their holes."""
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(40, D, generator=generator, dtype=torch.float64)
    x[:, 1] += x[:, 0].square()
    missing = torch.rand(40, D, generator=generator) < 0.5
    missing[:, 0] |= ~missing.any(1)
    missing[:, 1] &= ~missing.all(1)
    flow = Flow.build(FlowConfig(steps=1, hidden=8, bins=4), Layout.plain(D)).double()
    flow.initialise(x, torch.Generator().manual_seed(1))
    flow, x, missing = flow.to(device), x.to(device), missing.to(device)
    annealer = prepared(flow, None, x, Budget(samples=1000), 0, capture)
    assert annealer is not None
    return flow, annealer, x, missing


def weights(device: str, capture: Capture | None, T: int = 13, P: int = 9) -> tuple[Tensor, Tensor]:
    """Log weights of paths forwards, and of one backwards."""
    _, annealer, x, missing = setup(device, capture)
    keys = mix64(torch.arange(len(x), device=x.device))
    noise = KeyedNoise(5, tuple(map(str, range(D))), keys, torch.arange(P))
    with frozen(annealer.q):
        g = annealer.conditional(x, missing)
        return annealer.forward(g, noise, T), annealer.reverse(g, x, noise.select(draws=torch.arange(1)), T)


def test_recorded_steps_give_the_same_weights() -> None:
    traced: list[Traced] = []

    def capture(step: Callable[..., Any]) -> Traced:
        traced.append(Traced(step))
        return traced[-1]

    for plain, recorded in zip(weights("cpu", None), weights("cpu", capture), strict=True):
        torch.testing.assert_close(plain, recorded, rtol=1e-10, atol=1e-10)
        assert float(plain.std()) > 0.01
    assert all(t.replayed for t in traced) and sum(t.replayed for t in traced) > 20


def test_numbers_of_particles_of_captured_steps_are_few() -> None:
    sizes = [_captured_size(n) for n in range(1, 20_000)]
    assert all(n <= size <= max(1.5 * n + 1, FEWEST_CAPTURED) for n, size in enumerate(sizes, 1))
    assert sorted(set(sizes))[:5] == [1024, 1536, 2048, 3072, 4096] and len(set(sizes)) < 12


def test_a_gpu_evaluates_more_at_once_where_rows_are_narrow() -> None:
    narrow, wide, widest = (torch.zeros(3, columns, device="meta") for columns in (4, 200, 5000))
    budget = Budget()
    assert budget.on(narrow).batch == MORE_ON_GPU * budget.batch
    assert budget.batch < budget.on(wide).batch <= CELLS_ON_GPU / 200
    assert budget.on(widest).batch == budget.batch == budget.on(torch.zeros(3, 4)).batch


@pytest.mark.gpu
def test_captured_steps_give_the_same_weights_on_a_gpu() -> None:
    said: list[str] = []
    captured: list[CapturedSteps[Any]] = []

    def capture(step: Callable[..., Any]) -> CapturedSteps[Any]:
        captured.append(CapturedSteps(step, said.append, torch.device("cuda")))
        return captured[-1]

    on_cpu, plain, recorded = weights("cpu", None), weights("cuda", None), weights("cuda", capture)
    assert said == [] and sum(steps.recorded for steps in captured) >= 2
    for one, two in zip(plain, recorded, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-9, atol=1e-9)
    # the randomness of a model's samples, to which the mixture is fitted, is that of the device
    assert abs(float(on_cpu[0].mean() - plain[0].cpu().mean())) < 0.2


@pytest.mark.gpu
def test_an_estimate_of_a_gpu_is_that_of_a_cpu_within_its_error() -> None:
    found = {}
    for device in ("cpu", "cuda"):
        how = None if device == "cpu" else lambda step: CapturedSteps(step, pytest.fail, torch.device("cuda"))
        flow, annealer, x, missing = setup(device, how)
        cells = Cells.plain(x, missing, mix64(torch.arange(len(x), device=device)))
        found[device] = annealed(flow, annealer, cells, Budget(samples=1000, simulated=0), 0).values.cpu()
    assert float((found["cuda"] - found["cpu"]).abs().mean()) < 0.05
    assert float((found["cuda"] - found["cpu"]).mean().abs()) < 0.02
