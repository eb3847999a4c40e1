"""The autoregressive flow: an exact density in one pass, its inverse column by column, and what sets which spline."""

from __future__ import annotations

import math

import pytest
import torch
import zuko
from scipy import stats
from torch import Tensor

from tests.maths.test_splines import FixedKnots
from vgi_cli.maths.masked import MaskedResidualNet
from vgi_cli.models.flow_ar import AutoregressiveFlow, AutoregressiveLayer
from vgi_cli.models.spline_flow import FlowConfig


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def rows(n: int, D: int, seed: int = 5) -> Tensor:
    return 1.5 * torch.randn(n, D, generator=generator(seed), dtype=torch.float64) + 0.5


def shaken(module: torch.nn.Module, noise: float = 0.15) -> None:
    """Move every parameter."""
    draws = generator(1)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(noise * torch.randn(parameter.shape, generator=draws, dtype=parameter.dtype))


def random_flow(D: int, *, dtype: torch.dtype = torch.float64, **settings: float) -> AutoregressiveFlow:
    """A flow far from the identity."""
    config = {"steps": 3, "hidden": 16, "bins": 5, "blocks": 1} | settings
    flow = AutoregressiveFlow.build(FlowConfig(**config), D).to(dtype)
    flow.initialise(rows(50, D).to(dtype), generator())
    shaken(flow)
    return flow.eval()


def random_layer(D: int, **settings: float) -> AutoregressiveLayer:
    layer = AutoregressiveLayer(FlowConfig(**({"hidden": 16, "bins": 5, "blocks": 1} | settings)), D).double()
    layer.initialise(generator())
    shaken(layer, 0.4)
    return layer.eval()


@pytest.mark.parametrize("D", [1, 2, 3, 6])
def test_log_determinant_is_that_of_the_jacobian(D: int) -> None:
    flow = random_flow(D)
    x = rows(8, D)
    u, log_det = flow.to_base(x)
    jacobians = torch.stack([torch.autograd.functional.jacobian(lambda row: flow.to_base(row)[0], row) for row in x])
    torch.testing.assert_close(log_det, torch.linalg.slogdet(jacobians).logabsdet, atol=1e-9, rtol=1e-9)
    log_base = stats.norm.logpdf(u.detach().numpy()).sum(-1)
    torch.testing.assert_close(flow.log_prob(x), torch.as_tensor(log_base) + log_det, atol=1e-12, rtol=1e-12)
    assert float((u - x).detach().abs().max()) > 0.1


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
    flow = AutoregressiveFlow.build(FlowConfig(steps=1, hidden=16, bins=5, blocks=1), 6).double()
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
    flow = random_flow(D, hidden=hidden)
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
    monkeypatch.setattr(MaskedResidualNet, "forward", lambda self, X: calls.append(X.shape) or forward(self, X))
    random_flow(7).log_prob(rows(9, 7))
    assert calls == [(7, 9)] * 3


def test_no_value_decides_what_is_computed() -> None:
    """Tensors without values go all the way, gradients too: a step can be captured."""
    flow = random_flow(4, dtype=torch.float32, dropout=0.2).to("meta").train()
    flow.initialise(rows(20, 4).float(), generator())
    log_p = flow.log_prob(torch.empty(6, 4, device="meta"))
    log_p.sum().backward()
    assert log_p.shape == (6,) and flow.from_base(torch.empty(6, 4, device="meta")).shape == (6, 4)


def test_builds_a_standard_normal() -> None:
    flow = AutoregressiveFlow.build(FlowConfig(), 3).double()
    x = rows(20, 3)
    expected = torch.as_tensor(stats.norm.logpdf(x.numpy()).sum(-1))
    torch.testing.assert_close(flow.log_prob(x), expected, atol=1e-12, rtol=0)


def test_starts_near_the_standardised_columns() -> None:
    scale, shift = torch.tensor([100.0, 0.01, 1.0], dtype=torch.float64), torch.tensor([5e3, 0, 7], dtype=torch.float64)
    x = torch.randn(2000, 3, generator=generator(), dtype=torch.float64) * scale + shift
    flow = AutoregressiveFlow.build(FlowConfig(), 3).double()
    flow.initialise(x, generator(1))
    gaussian = torch.distributions.Normal(x.mean(0), x.std(0, correction=0)).log_prob(x).sum(-1)
    assert abs(float((flow.log_prob(x) - gaussian).detach().mean())) < 0.1


def test_initialise_and_draws_depend_on_the_generator_alone() -> None:
    x = rows(30, 7).float()
    flows = []
    for global_seed, seed in ((1, 0), (2, 0), (3, 9)):
        torch.manual_seed(global_seed)
        before = torch.get_rng_state()
        flow = AutoregressiveFlow.build(FlowConfig(dropout=0.2), 7)
        flow.initialise(x, generator(seed))
        flow.train().log_prob(x)
        flow.sample(3, generator(seed))
        assert torch.equal(torch.get_rng_state(), before)
        flows.append(flow.eval())
    first, second, other = flows
    assert torch.equal(first.log_prob(x), second.log_prob(x))
    assert torch.equal(first.sample(5, generator(1)), second.sample(5, generator(1)))
    assert not torch.equal(first.log_prob(x), other.log_prob(x))


def test_state_dict_round_trip() -> None:
    flow = random_flow(4, dropout=0.1)
    fresh = AutoregressiveFlow.build(FlowConfig(steps=3, hidden=16, bins=5, blocks=1, dropout=0.1), 4).double().eval()
    fresh.load_state_dict(flow.state_dict())
    x = rows(20, 4)
    assert torch.equal(fresh.log_prob(x), flow.log_prob(x))
    assert not any("mask" in key for key in flow.state_dict())


def test_dropout_acts_in_training_only() -> None:
    flow = random_flow(4, dropout=0.5)
    x = rows(50, 4)
    assert torch.equal(flow.log_prob(x), flow.log_prob(x))
    flow.train()
    assert not torch.equal(flow.log_prob(x), flow.log_prob(x))


def test_every_parameter_learns_and_float32_gradients_are_finite() -> None:
    flow = random_flow(5, dtype=torch.float32)
    flow.log_prob(rows(300, 5).float() * 3).mean().backward()
    for name, parameter in flow.named_parameters():
        assert parameter.grad is not None and bool(torch.isfinite(parameter.grad).all()), name
        assert bool((parameter.grad != 0).any()), name


@pytest.mark.parametrize("D", [1, 3])
def test_gradient_of_the_density(D: int) -> None:
    flow = random_flow(D)
    assert torch.autograd.gradcheck(flow.log_prob, (rows(6, D).requires_grad_(),))


def test_learns_a_ring() -> None:
    """Maximum likelihood gets most of the way from the best Gaussian to the truth."""
    draws = generator(2)
    angle = 2 * math.pi * torch.rand(1500, generator=draws)
    radius = 1.4 + 0.15 * torch.randn(1500, generator=draws)
    x = torch.stack([radius * angle.cos(), radius * angle.sin()], 1)
    train, test = x[:1000], x[1000:]
    # Density of the ring: N(r; 1.4, 0.15^2) / (2 pi r).
    r = test.norm(dim=1)
    truth = float((torch.distributions.Normal(1.4, 0.15).log_prob(r) - (2 * math.pi * r).log()).mean())
    flow = AutoregressiveFlow.build(FlowConfig(steps=3, hidden=32, blocks=1), 2)
    flow.initialise(train, generator(1))
    gaussian = float(torch.distributions.Normal(train.mean(0), train.std(0)).log_prob(test).sum(1).mean())
    optimiser = torch.optim.Adam(flow.parameters(), lr=1e-2)
    for _ in range(100):
        optimiser.zero_grad()
        (-flow.log_prob(train).mean()).backward()
        optimiser.step()
    with torch.no_grad():
        learned = float(flow.log_prob(test).mean())
    assert gaussian + 0.8 * (truth - gaussian) < learned < truth + 0.1
