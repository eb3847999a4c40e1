"""An imputer in coordinates of its own: its draws come back, observed cells and limits stay."""

from __future__ import annotations

import torch

from vgi_cli.layout import Layout
from vgi_cli.maths.noise import KeyedNoise, numbered
from vgi_cli.models.gaussian.mixture import GaussianMixture, MixtureConfig
from vgi_cli.samplers.base import Box, impute
from vgi_cli.samplers.exact import ExactImputer
from vgi_cli.samplers.recoded import Recoded


def test_draws_are_those_of_the_imputer_in_its_coordinates() -> None:
    torch.manual_seed(0)
    layout = Layout.plain(3)
    model = GaussianMixture.build(MixtureConfig(components=2), layout).double()
    model.initialise(torch.randn(60, 3, dtype=torch.float64), torch.Generator().manual_seed(1))
    x = torch.randn(40, 3, dtype=torch.float64)
    missing = torch.rand(40, 3) < 0.5
    x[missing] = 0.0
    noise = KeyedNoise(3, numbered("column", 3), torch.arange(40), torch.arange(4), "test")
    box = Box(torch.tensor([-1.0, -torch.inf, -2.0]), torch.tensor([1.5, 0.5, torch.inf]))

    def there(rows: torch.Tensor) -> torch.Tensor:
        return torch.where(rows.isinf(), rows, rows.sinh())

    own = ExactImputer([model])
    found = impute(Recoded(ExactImputer([model]), there, torch.asinh), x, missing, noise, box)
    inside = Box(there(box.low), there(box.high))
    expected = impute(own, torch.where(missing, x, there(x)), missing, noise, inside)
    assert torch.equal(torch.where(missing, 0.0, found), x.expand(4, -1, -1))
    assert torch.allclose(found[:, missing], expected[:, missing].asinh(), rtol=1e-12)
    assert bool(((found >= box.low) & (found <= box.high) | ~missing).all())
