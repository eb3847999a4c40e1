"""One head for all blocks: the embedding does what is written, row by row."""

import pytest
import torch
from torch.nn import functional as F

from vgi_cli.conditionals.modulated import ModulatedNetwork
from vgi_cli.conditionals.trunk import KEPT_FROM, SLOPE


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
    for i, layer in enumerate(made.trunk):
        new = F.leaky_relu(layer(h), SLOPE)
        h = h + new if i > 0 and new.shape == h.shape else new
    for i, layer in enumerate(made.heads):
        new = F.leaky_relu(layer(h) * made.scale[i][j] + made.shift[i][j], SLOPE)
        h = h + new if i > 0 and new.shape == h.shape else new
    return made.last(h) + made.base[j]


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


def test_every_parameter_gets_a_gradient():
    made = network(5, (6, 6), (4, 4))
    x = torch.randn(40, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(7))
    j = torch.arange(80).view(40, 2) % 5
    made(x, j, True).square().sum().backward()
    assert all(parameter.grad is not None and bool(parameter.grad.any()) for parameter in made.parameters())
