"""Residual networks in compiled loops against the formula in torch's float64, and who takes them."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from tests.maths.test_compiled import assert_loaded_as_compiled, draws
from vgi_cli import fast
from vgi_cli.layout import Layout
from vgi_cli.maths import compiled, residual
from vgi_cli.maths.masked import MaskedResidualNet
from vgi_cli.maths.nets import ResidualTrunk, initialise_linear, zero_linear
from vgi_cli.maths.products import rounded
from vgi_cli.maths.residual import LARGEST, TALL, Residual, suit, through
from vgi_cli.models.flows.autoregressive import AutoregressiveFlow
from vgi_cli.models.flows.base import FlowConfig, SplineFlow
from vgi_cli.models.flows.coupling import Flow

pytestmark = pytest.mark.skipif(fast.numba_version() is None, reason="compiled loops are turned off, or not installed")


class Case(NamedTuple):
    """R rows of so many inputs, hidden units and outputs; share: of the hidden units that a mask drops, 0: no mask."""

    R: int
    inputs: int
    hidden: int
    outputs: int
    blocks: int = 1
    share: float = 0.0
    turned: bool = False


CASES = {
    "one row": Case(1, 3, 8, 5),
    "as a flow of six columns": Case(2 * TALL + 50, 3, 256, 69, blocks=2),
    "as a flow of 43 columns": Case(TALL + 11, 21, 32, 242, share=0.2),
    "whole vectors": Case(TALL, 16, 48, 32, blocks=2, share=0.5),
    "no whole vector": Case(100, 40, 20, 7, blocks=3, share=0.3),
    "no whole vector, turned": Case(TALL + 100, 5, 21, 37, blocks=2, share=0.3, turned=True),
    "one of each": Case(7, 1, 1, 1, share=0.5, turned=True),
    "no blocks": Case(90, 4, 17, 3, blocks=0),
}


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Three threads, which every product is worth."""
    monkeypatch.setattr(residual, "LARGE", 1)
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def network(case: Case, seed: int = 0) -> Residual:
    """Of random parameters, which want gradients, and random masks."""
    shapes = [(case.hidden, case.inputs), *[(case.hidden, case.hidden)] * 2 * case.blocks, (case.outputs, case.hidden)]
    parameters = [
        part.requires_grad_()
        for i, (a, b) in enumerate(shapes)
        for part in (draws(a, b, seed=seed + 2 * i, scale=b**-0.5), draws(a, seed=seed + 2 * i + 1))
    ]
    if not case.share:
        return Residual(parameters, [None] * case.blocks)
    scale, g = 1 / (1 - case.share), torch.Generator().manual_seed(seed)
    masks = [(torch.rand(case.R, case.hidden, generator=g) >= case.share) * scale for _ in range(case.blocks)]
    return Residual(parameters, [mask.t() if case.turned else mask for mask in masks], scale, case.turned)


def plain(net: Residual, x: Tensor) -> Tensor:
    """What `through` computes."""
    parts = iter(net.parameters)
    h = next(parts) @ x + next(parts)[:, None]
    for mask in net.masks:
        u = next(parts) @ F.relu(h) + next(parts)[:, None]
        assert float(u.detach().abs().min()) > 1e-7 < float(h.detach().abs().min())  # else rounding chooses the slope
        z = F.relu(u)
        if mask is not None:
            z = z * (mask if net.turned else mask.t())
        h = h + next(parts) @ z + next(parts)[:, None]
    return next(parts) @ h + next(parts)[:, None]


def in_double(net: Residual) -> Residual:
    parameters = [part.detach().double().requires_grad_() for part in net.parameters]
    return net._replace(parameters=parameters, masks=[None if mask is None else mask.double() for mask in net.masks])


def differentiated(function: Any, net: Residual, x: Tensor) -> list[Tensor]:
    """The values, and the gradients of a weighted sum of them in x and in all parameters."""
    x = x.detach().requires_grad_()
    out = function(net, x)
    weights = draws(*out.shape, seed=400).to(out)
    return [out.detach(), *torch.autograd.grad((weights * out).sum(), [x, *net.parameters])]


def assert_as_in_double(net: Residual, x: Tensor) -> None:
    ours, truth = differentiated(through, net, x), differentiated(plain, in_double(net), x.double())
    for got, true in zip(ours, truth, strict=True):
        assert got.dtype is torch.float32 and got.is_contiguous()
        torch.testing.assert_close(got.double(), true, rtol=1e-5, atol=3e-6 * float(true.abs().max()))


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients_are_those_of_plain_products(name: str) -> None:
    case = CASES[name]
    net, x = network(case), draws(case.inputs, case.R, seed=300)
    assert suit(x, *net.parameters[::2])
    assert_as_in_double(net, x)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("name", ["as a flow of six columns", "no whole vector, turned"])
def test_several_threads_share_the_rows(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case, counts, beside = CASES[name], [], residual._side_by_side
    net, x = network(case), draws(case.inputs, case.R, seed=300)

    def side_by_side(count: int, do: Callable[[int], None]) -> None:
        counts.append(count)
        beside(count, do)

    monkeypatch.setattr(residual, "_side_by_side", side_by_side)
    assert_as_in_double(net, x)
    parts = min(3, -(-case.R // TALL))
    assert counts == [parts, parts]
    several = through(net, x).detach()
    torch.set_num_threads(1)
    assert torch.equal(through(net, x).detach(), several)


@pytest.mark.parametrize("name", ["as a flow of 43 columns", "no whole vector, turned", "as a flow of six columns"])
def test_a_row_has_the_same_bits_at_every_place_and_in_every_batch(name: str) -> None:
    case = CASES[name]
    net, x = network(case), draws(case.inputs, case.R, seed=300)
    some = torch.tensor([17, 3, case.R - 1, 4, 5])
    masks = [None if mask is None else mask[:, some] if net.turned else mask[some] for mask in net.masks]

    def values(net: Residual, x: Tensor) -> list[Tensor]:
        x = x.detach().requires_grad_()
        out = through(net, x)
        (to_x,) = torch.autograd.grad(out.sum(), x)
        with torch.no_grad():
            return [out.detach(), to_x, through(net, x)]

    whole, part = values(net, x), values(net._replace(masks=masks), x[:, some])
    assert torch.equal(whole[0], whole[2])  # what is kept for gradients changes nothing
    for few, all_ in zip(part, whole, strict=True):
        assert torch.equal(few, all_[:, some])


def test_what_is_masked_has_no_influence_and_no_gradient() -> None:
    case = CASES["no whole vector"]
    net, x = network(case), draws(case.inputs, case.R, seed=300)
    dropped = net.masks[1].clone()  # type: ignore[union-attr]
    dropped[:, 5] = 0.0
    net = net._replace(masks=[net.masks[0], dropped, net.masks[2]])
    _, _, *gradients = differentiated(through, net, x)
    into, out_of = gradients[6], gradients[8]  # of the second block
    assert not into[5].any() and not out_of[:, 5].any() and into[4].any() and out_of[:, 4].any()


def test_gradients_that_are_not_wanted_are_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    case, to_x = CASES["no whole vector"], []
    net, x = network(case), draws(case.inputs, case.R, seed=300)
    _, of_x, *of_parameters = differentiated(through, net, x)

    def kernel(name: Any) -> Any:
        def loop(addresses: tuple[int, ...], *rest: Any) -> None:
            to_x.append(addresses[4])
            compiled.kernel(name)(addresses, *rest)

        return loop

    out = through(net, x)
    monkeypatch.setattr(residual, "kernel", kernel)
    own = torch.autograd.grad((draws(*out.shape, seed=400) * out).sum(), net.parameters)
    assert to_x == [0] and all(torch.equal(a, b) for a, b in zip(own, of_parameters, strict=True))
    fixed, wanted = net._replace(parameters=[part.detach() for part in net.parameters]), x.requires_grad_()
    out = through(fixed, wanted)
    (alone,) = torch.autograd.grad((draws(*out.shape, seed=400) * out).sum(), wanted)
    assert torch.equal(alone, of_x)


@pytest.mark.parametrize("at", [0, 2, 3, 4, 5, 7])
def test_what_is_not_a_number_shows(at: int) -> None:
    case = CASES["one row"]
    net, x = network(case), draws(case.inputs, case.R, seed=300)
    with torch.no_grad():
        net.parameters[at].view(-1)[:] = torch.nan
    assert bool(through(net, x).isnan().any())


def test_strides_change_nothing() -> None:
    case = CASES["no whole vector, turned"]
    net, x = network(case), draws(case.R, case.inputs, seed=300).t()
    turned = [part.mT.contiguous().mT if part.ndim == 2 else part for part in net.parameters]
    masks = [mask.contiguous() for mask in net.masks if mask is not None]
    packed = differentiated(through, net._replace(masks=masks), x.contiguous())
    strided = differentiated(through, net._replace(parameters=turned), x)
    assert all(torch.equal(a, b) for a, b in zip(strided, packed, strict=True))


def test_second_derivatives_are_refused() -> None:
    case = CASES["one row"]
    net, x = network(case), draws(case.inputs, case.R, seed=300)
    message = "residual networks have derivatives of first order only, got create_graph=True"
    with pytest.raises(NotImplementedError, match=message):
        torch.autograd.grad(through(net, x).sum(), net.parameters, create_graph=True)


# Who takes them.


def trunk_and_outlet(dropout: float = 0.0) -> Any:
    """A trunk, and a linear layer after it, as one function."""
    trunk, outlet = ResidualTrunk(5, 20, 2, dropout=dropout), zero_linear(20, 9)
    trunk.initialise(torch.Generator().manual_seed(1))
    initialise_linear(outlet, torch.Generator().manual_seed(2))
    module = torch.nn.ModuleList([trunk, outlet])
    return module, lambda X: trunk.outputs(X, outlet)


def masked_net(dropout: float = 0.0) -> Any:
    net = MaskedResidualNet(5, 20, 3, 2, dropout=dropout)
    net.initialise(torch.Generator().manual_seed(1))
    return net, net


NETS = {"trunk": trunk_and_outlet, "masked": masked_net}


@pytest.mark.parametrize("dropout", [0.0, 0.25])
@pytest.mark.parametrize("make", NETS.values(), ids=NETS)
def test_networks_are_as_by_torch_with_the_same_units_dropped(
    make: Any, dropout: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = draws(5, 300, seed=50)

    def calls(function: Any) -> list[Tensor]:
        """Two calls, one after the other: other units are dropped in the second."""
        module, net = function(dropout)
        with torch.no_grad():
            for i, parameter in enumerate(module.parameters()):
                parameter.add_(draws(*parameter.shape, seed=i, scale=0.3))
        made = []
        for seed in (51, 52):
            rows = x.clone().requires_grad_()
            out = net(rows)
            weights = draws(*out.shape, seed=seed)
            made += [out.detach(), *torch.autograd.grad((out * weights).sum(), [rows, *module.parameters()])]
        assert (dropout > 0) != torch.equal(made[0], made[len(made) // 2])
        counts = [buffer for name, buffer in module.named_buffers() if name.endswith("count")]
        assert len(counts) == (2 if dropout else 0) and all(int(count) == 2 for count in counts)
        return made

    taken = []

    def taking(net: Residual, x: Tensor) -> Tensor:
        taken.append(net)
        return through(net, x)

    monkeypatch.setattr(residual, "through", taking)
    ours = calls(make)
    assert len(taken) == 2
    monkeypatch.setattr(residual, "suit", lambda x, *weights: False)
    for got, true in zip(ours, calls(make), strict=True):
        torch.testing.assert_close(got, true, rtol=1e-4, atol=1e-5 * float(true.abs().max()))
    assert len(taken) == 2


@pytest.mark.parametrize("family", [Flow, AutoregressiveFlow])
def test_flows_take_the_loops_where_they_are(family: type[SplineFlow], monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def kernel(name: Any) -> Any:
        asked.append(name)
        return compiled.kernel(name)

    monkeypatch.setattr(residual, "kernel", kernel)
    flow = family.build(FlowConfig(steps=2, hidden=8, bins=4, blocks=1), Layout.plain(4))
    flow.initialise(draws(20, 4, seed=0), torch.Generator().manual_seed(0))
    flow.log_prob(draws(20, 4, seed=1)).sum().backward()
    assert asked == ["residual"] * 2 + ["residual_gradients"] * 2
    asked.clear()
    with torch.no_grad():
        flow.log_prob(draws(20, 4, seed=1))
    assert asked == ["residual"] * 2
    asked.clear()
    flow.double().log_prob(draws(20, 4, seed=1).double())
    assert not asked


def test_a_trunk_of_another_activation_is_left_to_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(residual, "through", lambda net, x: pytest.fail("the loops know ReLU alone"))
    trunk, outlet = ResidualTrunk(3, 8, 1, activation="leaky_relu"), zero_linear(8, 2)
    assert trunk.outputs(draws(3, 10, seed=0), outlet).shape == (2, 10)


def test_what_is_left_to_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    x, weight = draws(4, 10, seed=0), draws(8, 4, seed=1)
    assert suit(x, weight) and suit(x.requires_grad_(), weight)
    assert not suit(x.double(), weight.double()) and not suit(x, weight.double())
    assert not suit(x[:, :0], weight) and not suit(x, weight[:0])
    assert not suit(x.to("meta"), weight.to("meta"))
    assert suit(x, torch.zeros(LARGEST // 4, 4)) and not suit(x, torch.zeros(LARGEST // 4 + 1, 4))
    with rounded("bfloat16"):
        assert not suit(x, weight)
    monkeypatch.setattr(compiled, "kernel", lambda name: None)
    assert not suit(x, weight)


def test_no_rows_are_left_to_torch() -> None:
    _, net = trunk_and_outlet()
    assert net(torch.zeros(5, 0)).shape == (9, 0)


@pytest.mark.slow
def test_who_compiles_has_the_bits_of_those_who_load(tmp_path: Path) -> None:
    code = """
import hashlib
from tests.maths.test_residual import CASES, differentiated, draws, network, through
digest = hashlib.sha256()
for case in CASES.values():
    for part in differentiated(through, network(case), draws(case.inputs, case.R, seed=300)):
        digest.update(part.numpy().tobytes())
print(digest.hexdigest())
"""
    assert_loaded_as_compiled(code, tmp_path)
