"""Networks: their initial functions, and dropout that counts for itself."""

from __future__ import annotations

import pytest
import torch

from vgi_cli.maths.nets import MLP, Dropout, ResidualTrunk, initialise_linear, zero_linear


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def nets(dropout: float = 0.0) -> list[ResidualTrunk | MLP]:
    return [ResidualTrunk(3, 16, 2, dropout=dropout), MLP(3, [16, 8], 4, dropout=dropout)]


def test_nothing_draws_from_the_global_state() -> None:
    torch.manual_seed(7)
    before = torch.get_rng_state()
    for net in nets(0.3):
        net.initialise(generator())
        net.train()(torch.ones(5, 3))
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("kind", [0, 1])
def test_built_at_zero_and_initialised_by_the_generator(kind: int) -> None:
    x = torch.randn(50, 3, generator=generator())
    net = nets()[kind]
    assert bool((net(x) == 0).all())
    net.initialise(generator(1))
    again = nets()[kind]
    again.initialise(generator(1))
    other = nets()[kind]
    other.initialise(generator(2))
    assert torch.equal(net(x), again(x)) and not torch.equal(net(x), other(x))


def test_the_outlet_scale_shrinks_the_output() -> None:
    x, net, near_zero = torch.randn(50, 3, generator=generator()), *(MLP(3, [16, 8], 4) for _ in range(2))
    net.initialise(generator(1))
    near_zero.initialise(generator(1), outlet_scale=1e-3)
    torch.testing.assert_close(near_zero(x), net(x) * 1e-3)


def test_residual_trunk_is_the_stated_formula() -> None:
    net = ResidualTrunk(3, 5, 1, activation="leaky_relu").double()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator(3), dtype=torch.float64))
    x = torch.randn(10, 3, generator=generator(4), dtype=torch.float64)
    inlet, w1, w2 = (
        dict(net.named_parameters())[f"{n}.weight"] for n in ("inlet", "blocks.0.first", "blocks.0.second")
    )
    b0, b1, b2 = (dict(net.named_parameters())[f"{n}.bias"] for n in ("inlet", "blocks.0.first", "blocks.0.second"))

    def act(h: torch.Tensor) -> torch.Tensor:
        return torch.where(h > 0, h, 0.01 * h)

    h = x @ inlet.T + b0
    h = h + act(act(h) @ w1.T + b1) @ w2.T + b2
    torch.testing.assert_close(net(x), h)


def test_initial_weights_are_uniform_in_the_stated_range() -> None:
    layer = zero_linear(100, 400)
    initialise_linear(layer, generator(), scale=0.5)
    limit = 0.5 / 10
    assert 0.99 * limit < float(layer.weight.detach().abs().max()) <= limit
    assert float(layer.weight.detach().std()) == pytest.approx(limit / 3**0.5, rel=0.02)
    assert float(layer.bias.detach().abs().min()) > 0


def test_dropout_keeps_the_mean_and_the_share() -> None:
    drop = Dropout(0.3)
    drop.initialise(generator())
    x = torch.ones(400, 500)
    y = drop(x)
    torch.testing.assert_close(y.unique(), torch.tensor([0.0, 1 / 0.7]))
    assert float((y == 0).float().mean()) == pytest.approx(0.3, abs=0.005)
    per_unit = (y == 0).float().mean(0)
    assert float(per_unit.std()) == pytest.approx((0.3 * 0.7 / 400) ** 0.5, rel=0.15)
    assert float(((drop(x) == 0) & (y == 0)).float().mean()) == pytest.approx(0.09, abs=0.005)


def test_dropout_is_off_in_evaluation_and_does_not_count() -> None:
    drop = Dropout(0.5).eval()
    x = torch.ones(4, 4)
    assert torch.equal(drop(x), x) and int(drop.count) == 0


def test_restored_dropout_goes_on_where_it_was() -> None:
    net = MLP(3, [32], 4, dropout=0.5)
    net.initialise(generator())
    x = torch.randn(20, 3, generator=generator(1))
    net(x)
    saved = {name: value.clone() for name, value in net.state_dict().items()}
    following = net(x)
    fresh = MLP(3, [32], 4, dropout=0.5)
    fresh.load_state_dict(saved)
    assert torch.equal(fresh(x), following)
    assert not torch.equal(net(x), following)


def test_dropout_refuses_a_share_outside_0_to_1() -> None:
    with pytest.raises(ValueError, match=r"must be in \[0, 1\), got 1.0"):
        Dropout(1.0)


def test_no_dropout_adds_no_state() -> None:
    assert not any("count" in name for net in nets() for name in net.state_dict())
