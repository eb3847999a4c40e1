"""Routed heads give what one head at a time gives."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from vgi_cli.conditionals.networks.heads import HeadNetwork
from vgi_cli.conditionals.networks.routing import HeadLinear, gather_rows, route, scatter_rows, tile_size
from vgi_cli.conditionals.networks.trunk import KEPT_FROM, SLOPE


@given(st.lists(st.integers(0, 6), min_size=1, max_size=80))
def test_every_row_has_its_own_slot_in_a_tile_of_its_head(j):
    where = route(torch.tensor(j), 7, torch.float64)
    assert len(set(where.slot.tolist())) == len(j)
    assert where.head[where.slot // where.tile].tolist() == j


@given(st.lists(st.integers(0, 3), min_size=1, max_size=50))
def test_gather_undoes_scatter(j):
    h = torch.randn(len(j), 5, dtype=torch.float64)
    where = route(torch.tensor(j), 4, torch.float64)
    assert torch.equal(gather_rows(scatter_rows(h, where), where), h)


@given(st.lists(st.integers(0, 6), min_size=1, max_size=80))
def test_the_first_tiles_belong_to_the_heads_in_order_and_there_are_never_more_than_planned(j):
    where = route(torch.tensor(j), 7, torch.float64)
    assert where.head[:7].tolist() == list(range(7))
    assert len(where.head) <= 7 + len(j) // where.tile
    assert where.real.sum() == len(j) and where.source[where.slot].tolist() == list(range(len(j)))


@pytest.mark.parametrize(("Q", "S", "expected"), [(10, 5, 8), (1280, 43, 32), (100_000, 6, 256)])
def test_tile_size(Q, S, expected):
    assert tile_size(Q, S) == expected


def test_routed_layer_and_its_gradients_equal_a_loop_over_rows():
    g = torch.Generator().manual_seed(0)
    layer = HeadLinear(5, 4, 3).double()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=g, dtype=torch.float64))
    h = torch.randn(37, 4, generator=g, dtype=torch.float64)
    j = torch.randint(5, (37,), generator=g)
    where = route(j, 5, torch.float64)
    routed = gather_rows(layer(scatter_rows(h, where), where), where)
    looped = torch.stack([h[i] @ layer.weight[j[i]] + layer.bias[j[i], 0] for i in range(37)])
    torch.testing.assert_close(routed, looped, rtol=1e-12, atol=1e-12)
    for parameter in layer.parameters():
        one, two = (torch.autograd.grad(y.square().sum(), parameter, retain_graph=True)[0] for y in (routed, looped))
        torch.testing.assert_close(one, two, rtol=1e-10, atol=1e-10)


def test_every_head_gives_what_routed_heads_give():
    g = torch.Generator().manual_seed(1)
    network = HeadNetwork(4, 3, (), (5, 5)).double()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=g, dtype=torch.float64))
    x = torch.randn(30, 4, generator=g, dtype=torch.float64)
    j = torch.randint(4, (30, 2), generator=g)
    for visible in (True, False):
        values, gradients = [], []
        for dense in (True, False):
            network.dense = dense
            values.append(network(x, j, visible))
            gradients.append(torch.autograd.grad(values[-1].square().sum(), list(network.parameters())))
        torch.testing.assert_close(*values, rtol=1e-12, atol=1e-12)
        for one, two in zip(*gradients, strict=True):
            torch.testing.assert_close(one, two, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("visible", [True, False])
def test_the_first_layer_kept_up_to_date_is_the_first_layer_computed_anew(visible):
    g = torch.Generator().manual_seed(2)
    S = KEPT_FROM + 3
    network = HeadNetwork(S, 2, (7, 7), (5,)).double()
    network.initialise(g)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=g, dtype=torch.float64))
        x = torch.randn(20, S, generator=g, dtype=torch.float64)
        kept = network.trunk.first(x)
        for _ in range(3):
            j = torch.randint(S, (20,), generator=g)
            step = torch.randn(20, generator=g, dtype=torch.float64)
            x[torch.arange(20), j] += step
            network.trunk.change_(kept, j, step)
        torch.testing.assert_close(kept, network.trunk.first(x))
    j = torch.randint(S, (20, 2), generator=g)
    hidden = x[:, None].expand(-1, 2, -1).scatter(2, j[..., None], 0.0).reshape(40, S)
    rows = x.repeat_interleave(2, 0) if visible else hidden
    h, past = _trunk_of(network, rows)
    plain = network._own_head(rows, h, j.reshape(-1), 1, True).view(20, 2, 2)
    slope = (past.view(20, 2, -1) * network.slope.weight[j]).sum(2)
    plain = torch.cat([plain[..., :1] + slope[..., None], plain[..., 1:]], 2)
    torch.testing.assert_close(network(x, j, visible, kept), plain)


def _trunk_of(network, rows):
    first = network.trunk[0](rows)
    h = F.leaky_relu(first[:, :7], SLOPE)
    return h + F.leaky_relu(network.trunk[1](h), SLOPE), first[:, 7:]
