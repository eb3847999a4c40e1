"""One head for all blocks: the embedding does what is written, row by row."""

import pytest
import torch
from torch.nn import functional as F

from vgi_cli.conditionals.networks.modulated import ModulatedNetwork
from vgi_cli.conditionals.networks.trunk import EVERY_UP_TO, KEPT_FROM, SLOPE, LowRank


def network(S, trunk, hidden):
    made = ModulatedNetwork(S, 3, trunk, hidden).double()
    g = torch.Generator().manual_seed(5)
    made.initialise(g)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(0.2 * torch.randn(parameter.shape, generator=g, dtype=torch.float64))
    return made


def by_hand(made, row, j, visible):
    """Layer by layer for one row and one block."""
    h = row.clone()
    if not visible:
        h[j] = 0
    past = h.new_zeros(made.trunk.linear)
    for i, layer in enumerate(made.trunk):
        new = layer(h)
        if i == 0:
            new, past = new.split([len(new) - len(past), len(past)])
        new = F.leaky_relu(new, SLOPE)
        h = h + new if i > 0 and new.shape == h.shape else new
    for i, layer in enumerate(made.heads):
        new = F.leaky_relu(layer(h) * made.scale[i][j] + made.shift[i][j], SLOPE)
        h = h + new if i > 0 and new.shape == h.shape else new
    params = made.last(h) + made.base[j]
    if made.slope is not None:
        params = torch.cat([params[:1] + made.slope.weight[j] @ past, params[1:]])
    return params


@pytest.mark.parametrize("visible", [True, False])
@pytest.mark.parametrize("trunk", [(), (6,), (6, 6)])
@pytest.mark.parametrize("hidden", [(), (4,), (4, 4)])
@pytest.mark.parametrize("S", [5, KEPT_FROM + 1])
def test_parameters_are_those_of_the_formula(visible, trunk, hidden, S):
    made = network(S, trunk, hidden)
    g = torch.Generator().manual_seed(6)
    x = torch.randn(4, S, dtype=torch.float64, generator=g)
    j = torch.randint(S, (4, 2), generator=g)
    with torch.no_grad():
        got = made(x, j, visible)
        for r in range(4):
            for m in range(2):
                torch.testing.assert_close(got[r, m], by_hand(made, x[r], j[r, m], visible))


@pytest.mark.parametrize("locations", [1, 2])
@pytest.mark.parametrize("rows", [3, 12])  # features of a row for all of its blocks, or one for each
@pytest.mark.parametrize("S", [3 * EVERY_UP_TO, 5 * EVERY_UP_TO])  # one product for all blocks, or gathered weights
def test_a_low_rank_map_adds_its_blocks_row_to_the_locations(locations, rows, S):
    g = torch.Generator().manual_seed(9)
    made = LowRank(S, 6, locations).double()
    with torch.no_grad():
        made.weight.copy_(torch.randn(made.weight.shape, generator=g, dtype=torch.float64))
    params = torch.randn(12, 3, generator=g, dtype=torch.float64)
    past = torch.randn(rows, 6, generator=g, dtype=torch.float64)
    j = torch.randint(S, (12,), generator=g)
    got = made(params, past, j)
    weight = made.weight.detach().view(S, locations, 6)
    expected = params.clone()
    for i in range(12):
        expected[i, :locations] += weight[j[i]] @ past[i * rows // 12]
    torch.testing.assert_close(got, expected)
    (got[:, :locations] * params[:, :locations]).sum().backward()
    slope = torch.zeros_like(weight)
    for i in range(12):
        slope[j[i]] += params[i, :locations, None] * past[i * rows // 12]
    torch.testing.assert_close(made.weight.grad.view_as(slope), slope)


def test_every_parameter_gets_a_gradient():
    made = network(5, (6, 6), (4, 4))
    x = torch.randn(40, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(7))
    j = torch.arange(80).view(40, 2) % 5
    made(x, j, True).square().sum().backward()
    assert all(parameter.grad is not None and bool(parameter.grad.any()) for parameter in made.parameters())


def test_linear_features_start_as_principal_components():
    S = KEPT_FROM + 6
    g = torch.Generator().manual_seed(8)
    x = torch.randn(500, 3, generator=g, dtype=torch.float64) @ torch.randn(3, S, generator=g, dtype=torch.float64)
    x = 2.0 + x + 0.01 * torch.randn(500, S, generator=g, dtype=torch.float64)
    made = ModulatedNetwork(S, 2, (6,), (4,)).double()
    made.initialise(torch.Generator().manual_seed(0))
    before = made.trunk[0].weight.detach().clone()
    made.trunk.align_(x)
    with torch.no_grad():
        features = made.trunk.first(x)[:, 6:]
    torch.testing.assert_close(features.T.cov(correction=0), torch.eye(made.trunk.linear, dtype=torch.float64))
    assert bool((features.mean(0).abs() < 1e-9).all())
    top = features[:, -3:]  # the three factors: nothing else is left of the rows
    left = x - x.mean(0) - top @ torch.linalg.lstsq(top, x - x.mean(0)).solution
    assert float(left.std()) < 0.011
    assert torch.equal(made.trunk[0].weight[:6], before[:6])


def test_few_columns_have_no_linear_features():
    assert network(KEPT_FROM, (6,), (4,)).slope is None
