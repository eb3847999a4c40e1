"""Steps of imputing chains are functions of tensors: recorded once and replayed, they draw the same cells.

On a CPU a step is recorded by tracing its operations, which leaves out whatever Python did beside them, as a CUDA graph
does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

from tests.samplers.chains_setup import D, Fixed, make_setup, noise_for
from vgi_cli.chains.captured import CapturedSteps, cloned, flattened
from vgi_cli.chains.moves import StepNoise
from vgi_cli.conditionals.amortised import AmortisedConditionals
from vgi_cli.conditionals.families.spline import SplineFamily
from vgi_cli.conditionals.networks.heads import HeadNetwork
from vgi_cli.layout import Layout
from vgi_cli.maths.joint import JointMixture
from vgi_cli.maths.noise import KeyedNoise
from vgi_cli.models.flows.coupling import Flow, FlowConfig
from vgi_cli.samplers.base import Box, Imputer, impute
from vgi_cli.samplers.gibbs import GibbsImputer
from vgi_cli.samplers.metropolis import BurnIn, MetropolisImputer
from vgi_cli.samplers.starts import EmpiricalStart

Capture = Callable[[Any], Any]


class Traced:
    """The first call records the operations of a step, later ones replay them on their inputs."""

    def __init__(self, step: Callable[..., Any]) -> None:
        self._step = step
        self._recorded: Any = None
        self.replayed = 0

    def __call__(self, *inputs: Tensor) -> Any:
        if self._recorded is None:
            kept = []

            def step(*tensors: Tensor) -> Any:
                kept.append(self._step(*tensors))
                return kept[0]

            self._recorded = make_fx(step)(*inputs)
            return kept[0]
        self.replayed += 1
        return self._recorded(*inputs)


def imputers(capture: Capture | None, device: str = "cpu") -> dict[str, Imputer]:
    """Both kinds of chain on a flow, with a network that has not been fitted as q; all is equal but the capture."""
    s = make_setup(60)
    family = SplineFamily(1, 4)
    q = AmortisedConditionals(family, HeadNetwork(D, family.width, (), (5,)), extended=False).double()
    q.initialise(torch.Generator().manual_seed(0))
    flow = Flow.build(FlowConfig(steps=1, hidden=8, bins=4), Layout.plain(D)).double()
    flow.initialise(s.full, torch.Generator().manual_seed(1))
    q, flow = q.to(device), flow.to(device)
    start = EmpiricalStart(s.x.to(device), s.missing.to(device))
    mixture = JointMixture(torch.zeros(1).double(), s.full.mean(0)[None], s.full.mT.cov()[None])
    mixture = mixture.to(s.full.to(device))
    return {
        "whole": MetropolisImputer(flow, q, start, capture=capture, together=Fixed(flow, mixture, 6, 1)),
        "metropolis": MetropolisImputer(flow, q, start, BurnIn(minimum=6), capture=capture),
        "gibbs": GibbsImputer(q, start, minimum=3, capture=capture),
    }


def box_of_rows(x: Tensor) -> Box:
    """Narrow enough that some draws lie outside."""
    return Box(x.amin(0) * 0.5, x.amax(0) * 0.5)


@pytest.mark.parametrize("name", [pytest.param("whole", marks=pytest.mark.slow), "metropolis", "gibbs"])
def test_recorded_steps_draw_the_same_cells(name: str) -> None:
    s = make_setup(60)
    traced: list[Traced] = []

    def capture(step: Callable[..., Any]) -> Traced:
        traced.append(Traced(step))
        return traced[-1]

    plain, recorded = imputers(None)[name], imputers(capture)[name]
    one, two = (impute(i, s.x, s.missing, noise_for(60, 3), box_of_rows(s.x)) for i in (plain, recorded))
    assert torch.equal(one, two)
    assert sum(t.replayed for t in traced) > 10
    assert plain.diagnostics() == recorded.diagnostics()
    assert plain.diagnostics()["outside_range"] != 0


def test_nested_inputs_are_recorded_tensor_by_tensor() -> None:
    a, b, c, d = torch.arange(4.0)[:, None].unbind()
    nested = (a, (StepNoise(b, c, d), a))
    assert [float(tensor) for tensor in flattened(nested)] == [0.0, 1.0, 2.0, 3.0, 0.0]
    copy = cloned(nested)
    assert isinstance(copy[1][0], StepNoise) and torch.equal(copy[1][0].latents, d)
    assert not any(x is y for x, y in zip(flattened(nested), flattened(copy), strict=True))


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["whole", "metropolis", "gibbs"])
def test_captured_steps_draw_the_same_cells_on_a_gpu(name: str) -> None:
    s = make_setup(60)
    said: list[str] = []
    captured: list[CapturedSteps[Any]] = []

    def capture(step: Callable[..., Any]) -> CapturedSteps[Any]:
        captured.append(CapturedSteps(step, said.append, torch.device("cuda")))
        return captured[-1]

    x, missing = s.x.cuda(), s.missing.cuda()
    noise = noise_for(60, 3)
    noise = KeyedNoise(noise.seed, noise.columns, noise.rows.cuda(), noise.draws.cuda())
    draws = [impute(imputers(how, "cuda")[name], x, missing, noise, box_of_rows(x)) for how in (None, capture)]
    assert said == [] and sum(steps.recorded for steps in captured) > 0
    torch.testing.assert_close(*draws, rtol=1e-9, atol=1e-9)
