"""Routed heads give what one head at a time gives."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from vgi_cli.conditionals.routing import HeadLinear, gather_rows, route, scatter_rows, tile_size


@given(st.lists(st.integers(0, 6), min_size=1, max_size=80))
def test_every_row_has_its_own_slot_in_a_tile_of_its_head(j):
    where = route(torch.tensor(j), 7)
    assert len(set(where.slot.tolist())) == len(j)
    assert where.head[where.slot // where.tile].tolist() == j


@given(st.lists(st.integers(0, 3), min_size=1, max_size=50))
def test_gather_undoes_scatter(j):
    h = torch.randn(len(j), 5, dtype=torch.float64)
    where = route(torch.tensor(j), 4)
    assert torch.equal(gather_rows(scatter_rows(h, where), where), h)


def test_number_of_tiles_depends_on_sizes_only():
    shapes = {route(j, 9).head.shape for j in (torch.zeros(100, dtype=torch.int64), torch.arange(100) % 9)}
    assert len(shapes) == 1


@pytest.mark.parametrize(("Q", "S", "expected"), [(10, 5, 8), (1280, 43, 16), (100_000, 6, 256)])
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
    where = route(j, 5)
    routed = gather_rows(layer(scatter_rows(h, where), where), where)
    looped = torch.stack([h[i] @ layer.weight[j[i]] + layer.bias[j[i], 0] for i in range(37)])
    torch.testing.assert_close(routed, looped, rtol=1e-12, atol=1e-12)
    for parameter in layer.parameters():
        one, two = (torch.autograd.grad(y.square().sum(), parameter, retain_graph=True)[0] for y in (routed, looped))
        torch.testing.assert_close(one, two, rtol=1e-10, atol=1e-10)
