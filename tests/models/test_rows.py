"""Networks of rows with holes: what holes hold never enters, sets have no order, and what is saved changes nothing."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from vgi_cli.maths.nets import MLP, initialise_layers
from vgi_cli.models.vae.encoders import HE, SPREAD, MaskedRows, RowNetwork, SetRows

D, OUT = 5, 3
NETWORKS = ["masked", "set", "set of unequal widths"]
every = pytest.mark.parametrize("name", NETWORKS)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def network(name: str, beside: int = 0) -> RowNetwork:
    net: RowNetwork
    if name == "masked":
        net = MaskedRows((0,) * D, (7, 4), OUT, beside=beside)
    else:
        net = SetRows((0,) * D, 4, (6, 6, 6) if name == "set" else (6, 5), (7,), OUT, beside=beside)
    net = net.double()
    net.initialise(rows()[0], generator(1))
    return net


def rows(n: int = 40) -> tuple[Tensor, Tensor]:
    x = torch.randn(n, D, generator=generator(2), dtype=torch.float64)
    missing = torch.rand(n, D, generator=generator(3)) < 0.5
    missing[0], missing[1] = True, False
    return x, missing


@every
def test_what_missing_cells_hold_never_enters(name: str) -> None:
    net = network(name)
    x, missing = rows()
    spoilt = torch.where(missing, math.nan, x).requires_grad_()
    out = net(spoilt, missing)
    assert torch.equal(out, net(x, missing))
    out.square().sum().backward()
    assert all(bool(torch.isfinite(p.grad).all()) for p in net.parameters() if p.grad is not None)
    assert spoilt.grad is not None and bool((spoilt.grad[missing] == 0).all())
    assert not torch.equal(out[2:], net(x)[2:])
    torch.testing.assert_close(out[1], net(x)[1])


def test_masked_cells_are_zeros() -> None:
    net = network("masked")
    x, missing = rows()
    torch.testing.assert_close(net(x, missing), net(torch.where(missing, 0.0, x)))


def test_a_set_is_not_a_row_of_zeros() -> None:
    net = network("set")
    x, missing = rows()
    apart = net(x, missing) - net(torch.where(missing, 0.0, x))
    assert float(apart[2:].detach().abs().amax()) > 1e-3


@pytest.mark.parametrize("name", NETWORKS[1:])
def test_a_set_has_no_order(name: str) -> None:
    """Columns that change places together with what is learnt of them change nothing."""
    net, other = network(name), network(name)
    assert isinstance(net, SetRows) and isinstance(other, SetRows)
    order = torch.tensor([3, 0, 4, 1, 2])
    with torch.no_grad():
        other.embedding.copy_(net.embedding[order])
        other.place.copy_(net.place[order])
    x, missing = rows()
    torch.testing.assert_close(other(x[:, order], missing[:, order]), net(x, missing), rtol=1e-12, atol=1e-12)
    apart = net(x[:, order], missing[:, order]) - net(x, missing)
    assert float(apart.detach().abs().amax()) > 1e-3


@pytest.mark.parametrize("name", NETWORKS[1:])
def test_a_set_is_the_sum_over_its_observed_cells(name: str) -> None:
    """Cell by cell, as the formula is written, without what the network computes once for all rows."""
    net = network(name)
    assert isinstance(net, SetRows)
    x, missing = rows(8)
    got = net(x, missing)
    for n in range(8):
        total = torch.zeros(net.head.layers[0].in_features, dtype=torch.float64)
        for j in torch.nonzero(~missing[n])[:, 0].tolist():
            cell = torch.cat([x[n, j : j + 1], x[n, j] * net.embedding[j], net.place[j : j + 1]])
            h = F.leaky_relu(net.inlet(cell))
            for layer in net.cell:
                new = F.leaky_relu(layer(h))
                h = h + new if len(new) == len(h) else new
            total = total + h - net.centre
        torch.testing.assert_close(got[n], net.head(total), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("scale", [1.0, 1e-3])
def test_the_sums_of_a_set_start_around_zero_whatever_the_scale_of_the_columns(scale: float) -> None:
    x = scale * rows(200)[0]
    net, plain = SetRows((0,) * D, 4, (6, 6), (7,), OUT, beside=2).double(), MLP(6 + 2, (7,), OUT).double()
    net.initialise(x, generator(1))
    initialise_layers(net.inlet, g := generator(1))  # the same draws once more: what the head would have had
    for module in (*net.cell, plain):
        initialise_layers(module, g)
    seen: list[Tensor] = []
    net.head.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    net.initialise(x, generator(1))
    net(x, beside=torch.ones(200, 2, dtype=torch.float64))
    factor = (net.head.layers[0].weight / plain.layers[0].weight / HE).detach()
    torch.testing.assert_close(factor[:, 6:], torch.ones(7, 2, dtype=torch.float64))
    heard = seen[0].detach()[:, :6] * factor[0, :6]
    torch.testing.assert_close(heard.mean(0), torch.zeros(6, dtype=torch.float64), rtol=0, atol=1e-9)
    expected = torch.full((6,), SPREAD * math.sqrt(D), dtype=torch.float64)
    torch.testing.assert_close(heard.std(0, correction=0), expected)


def test_a_set_starts_where_rows_do_not_vary() -> None:
    net = SetRows((0,) * D, 4, (6, 6), (7,), OUT).double()
    net.initialise(torch.ones(3, D, dtype=torch.float64), generator(1))
    assert all(bool(p.isfinite().all()) for p in net.parameters())


@pytest.mark.parametrize("name", NETWORKS[1:])
def test_both_sums_over_observed_cells_agree(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a CPU does at the price of the observed cells, a GPU does with masks; a row without any is among them."""
    net = network(name)
    assert isinstance(net, SetRows)
    x, missing = rows(8)
    missing[3] = True
    x = x.masked_fill(missing, math.nan)
    results = []
    for _ in range(2):
        net.zero_grad()
        out = net(x[:, None], missing[:, None])
        out.square().sum().backward()
        results.append([out, *(p.grad for p in net.parameters())])
        monkeypatch.setattr(net, "_gathered", net._masked)
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


@every
def test_what_stands_beside_the_row_broadcasts(name: str) -> None:
    net = network(name, beside=2)
    x, missing = rows(6)
    every = torch.eye(2, dtype=torch.float64)
    both = net(x[:, None], missing[:, None], every)
    assert both.shape == (6, 2, OUT)
    for s in range(2):
        torch.testing.assert_close(both[:, s], net(x, missing, every[s].expand(6, -1)), rtol=1e-12, atol=1e-12)
    assert float((both[:, 0] - both[:, 1]).detach().abs().amin()) > 0


def test_beside_a_row_is_more_columns_of_it() -> None:
    net = network("masked", beside=2)
    assert isinstance(net, MaskedRows)
    x, missing = rows(6)
    more = torch.randn(6, 2, generator=generator(5), dtype=torch.float64)
    torch.testing.assert_close(net(x, missing, more), net.net(torch.cat([x.masked_fill(missing, 0.0), more], 1)))


@every
def test_weights_come_from_the_generator_alone(name: str) -> None:
    one, two = network(name), network(name)
    two.initialise(rows()[0], generator(9))
    assert all(bool((p != 0).any()) for p in one.parameters())
    assert all(not torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))
    two.initialise(rows()[0], generator(1))
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))
