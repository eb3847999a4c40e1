"""The autoregressive flow: an exact density in one pass, its inverse column by column, and what sets which spline."""

from __future__ import annotations

import math

import pytest
import torch
import zuko
from torch import Tensor

from tests.maths.test_splines import FixedKnots
from tests.models.test_spline_flows import generator, random_flow, rows, shaken
from vgi_cli.layout import Layout
from vgi_cli.maths.masked import MaskedResidualNet
from vgi_cli.models.flows.autoregressive import AutoregressiveFlow, AutoregressiveLayer
from vgi_cli.models.flows.base import FlowConfig


def random_layer(D: int, **settings: float) -> AutoregressiveLayer:
    layer = AutoregressiveLayer(FlowConfig(**({"hidden": 16, "bins": 5, "blocks": 1} | settings)), D).double()
    layer.initialise(generator())
    shaken(layer, 0.4)
    return layer.eval()


@pytest.mark.parametrize(("D", "hidden"), [(2, 16), (6, 16), (6, 3)])
def test_the_jacobian_of_a_layer_is_triangular(D: int, hidden: int) -> None:
    layer = random_layer(D, hidden=hidden)
    seen = torch.zeros(D, D, dtype=torch.float64)
    for x in rows(20, D):
        jacobian = torch.autograd.functional.jacobian(lambda x: layer(x[:, None])[0][:, 0], x)
        assert bool((jacobian.triu(1) == 0).all()) and bool((jacobian.diagonal() > 0).all())
        log_slopes = layer(x[:, None])[1][0]
        torch.testing.assert_close(log_slopes, jacobian.diagonal().log().sum(), atol=1e-9, rtol=1e-9)
        seen += jacobian.abs()
    assert bool((seen[-1] > 0).all())  # the last column depends on all
    if hidden >= D - 1:
        assert bool((seen.tril() > 0).sum() == D * (D + 1) // 2)


def test_with_its_permutation_a_step_is_triangular_in_the_order_that_was_drawn() -> None:
    """The first step of an initialised flow: a permutation with scales, then the layer."""
    flow = AutoregressiveFlow.build(FlowConfig(steps=1, hidden=16, bins=5, blocks=1), Layout.plain(6)).double()
    flow.initialise(rows(50, 6), generator(3))
    shaken(flow.steps[0], 0.4)
    order, last = flow.linear.permutation
    assert order.tolist() != list(range(6))
    for x in rows(10, 6):
        jacobian = torch.autograd.functional.jacobian(lambda row: flow.to_base(row)[0], x)
        ordered = jacobian[last.argsort()][:, order]  # outputs back to the layer's, inputs in the order of the layer
        assert bool((ordered.triu(1) == 0).all()) and bool((ordered.diagonal() > 0).all())
        assert not bool((jacobian.triu(1) == 0).all())


@pytest.mark.parametrize("D", [1, 2, 5])
@pytest.mark.parametrize("hidden", [2, 16])
def test_round_trip(D: int, hidden: int) -> None:
    flow = random_flow(AutoregressiveFlow, D, hidden=hidden)
    x = rows(200, D)
    u, _ = flow.to_base(x)
    torch.testing.assert_close(flow.from_base(u), x, atol=1e-9, rtol=0)
    torch.testing.assert_close(flow.to_base(flow.from_base(x))[0], x, atol=1e-9, rtol=0)


def test_a_layer_is_that_of_zuko() -> None:
    """zuko's autoregressive transform and splines, with this network's outputs: values, log-determinant, inverse."""
    D, bins = 4, 5
    layer = random_layer(D)

    def splines(x: Tensor) -> zuko.transforms.DependentTransform:
        w, h, d = layer.net(x.t()).permute(2, 1, 0).split([bins, bins, bins - 1], -1)
        knots = (6 * (1e-3 + (1 - 1e-3 * bins) * logits.softmax(-1)) for logits in (w, h))
        ends = (torch.nn.functional.pad(sizes.cumsum(-1), (1, 0)) - 3 for sizes in knots)
        slopes = 1e-3 + torch.nn.functional.softplus(d + math.log(math.expm1(1 - 1e-3)))
        spline = FixedKnots(*ends, torch.nn.functional.pad(slopes, (1, 1), value=1.0))
        return zuko.transforms.DependentTransform(spline, 1)

    oracle = zuko.transforms.AutoregressiveTransform(splines, D)
    x = rows(100, D)
    with torch.no_grad():
        expected, expected_log = oracle.call_and_ladj(x)
        y, log_det = layer(x.t())
        torch.testing.assert_close(y.t(), expected, atol=1e-10, rtol=1e-10)
        torch.testing.assert_close(log_det, expected_log, atol=1e-9, rtol=1e-9)
        torch.testing.assert_close(layer.inverse(x.t()).t(), oracle.inv(x), atol=1e-9, rtol=1e-9)


def test_the_density_takes_one_pass_through_each_network(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    forward = MaskedResidualNet.forward
    monkeypatch.setattr(
        MaskedResidualNet, "forward", lambda self, X, context: calls.append(X.shape) or forward(self, X, context)
    )
    random_flow(AutoregressiveFlow, 7).log_prob(rows(9, 7))
    assert calls == [(7, 9)] * 3


def test_no_value_decides_what_is_computed() -> None:
    """Tensors without values go all the way, gradients too: a step can be captured."""
    flow = random_flow(AutoregressiveFlow, 4, dtype=torch.float32, dropout=0.2).to("meta").train()
    flow.initialise(rows(20, 4).float(), generator())
    log_p = flow.log_prob(torch.empty(6, 4, device="meta"))
    log_p.sum().backward()
    assert log_p.shape == (6,) and flow.from_base(torch.empty(6, 4, device="meta")).shape == (6, 4)


def test_masks_are_no_part_of_what_a_run_keeps() -> None:
    assert not any("mask" in key for key in random_flow(AutoregressiveFlow, 4, dropout=0.1).state_dict())
