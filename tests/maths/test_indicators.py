"""Levels as indicators."""

import torch

from vgi_cli.layout import Layout
from vgi_cli.maths.indicators import Indicators


def test_levels_are_spread_and_numbers_stay() -> None:
    layout = Layout.of("abc", levels=(0, 3, 2)).with_latents(1)
    spread = Indicators(layout.level_counts)
    x = torch.tensor([[1.5, 2.0, 0.0, -1.0], [0.5, 0.0, 1.0, 4.0]])
    assert spread.F == 7
    assert spread(x).tolist() == [[1.5, 0, 0, 1, 1, 0, -1.0], [0.5, 1, 0, 0, 0, 1, 4.0]]
    assert spread.spread(torch.tensor([1.0, 2.0, 3.0, 4.0])).tolist() == [1, 2, 2, 2, 3, 3, 4]
    plain = Indicators(Layout.plain(2).level_counts)
    assert plain.F == 2 and plain(x[:, :2]) is not None
