"""Imputing levels and numbers from an autoencoder: draws against the conditionals by quadrature over its latent."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.mixed_vae import LAYOUT, D, level_law, mixed_vae
from vgi_cli.errors import FitError
from vgi_cli.maths.noise import KeyedNoise
from vgi_cli.samplers.base import Box, impute
from vgi_cli.samplers.latent import LatentImputer

N = 512
FREE = Box(torch.full((D,), -math.inf).double(), torch.full((D,), math.inf).double())


def draws(vae: Any, row: Tensor, missing: Tensor, box: Box = FREE, sweeps: int = 100) -> Tensor:
    """[N, D] independent chains of one row."""
    noise = KeyedNoise(0, LAYOUT.names, torch.arange(N), torch.arange(1))
    x = row.masked_fill(missing, 0.0).expand(N, -1)
    return impute(LatentImputer(vae, sweeps=sweeps), x, missing.expand(N, -1), noise, box)[0]


def chi_square(cells: Tensor, law: Tensor) -> float:
    """Of draws [N, k] against a table of probabilities, in standard deviations above its mean."""
    counts = law.shape
    place = torch.zeros(len(cells), dtype=torch.int64)
    for i, n in enumerate(counts):
        place = place * n + cells[:, i].long()
    seen = torch.bincount(place, minlength=law.numel()).double()
    expected = len(cells) * law.flatten()
    used = expected > 0
    assert float(seen[~used].sum()) == 0
    statistic = float(((seen - expected)[used].square() / expected[used]).sum())
    free = int(used.sum()) - 1
    return (statistic - free) / math.sqrt(2 * free)


@pytest.mark.parametrize(
    ("dims", "settings"),
    [
        pytest.param((1, 3), {}, marks=pytest.mark.slow),
        ((1, 3), {"encoding": "set"}),
        ((1, 2, 3), {"prior": "mixture", "components": 2}),
    ],
    ids=str,
)
def test_draws_have_the_law_by_quadrature(dims: tuple[int, ...], settings: dict[str, Any]) -> None:
    """Two levels given the rest; and levels of all discrete cells where the number is missing too."""
    vae = mixed_vae(**settings)
    row = torch.tensor([0.7, 1.0, 1.0, 2.0], dtype=torch.float64)
    missing = torch.zeros(D, dtype=torch.bool)
    missing[list(dims)] = True
    missing[0] = len(dims) == 3
    out = draws(vae, row, missing)
    assert torch.equal(out[:, ~missing], row[~missing].expand(N, -1))
    assert chi_square(out[:, list(dims)], level_law(vae, row, missing, dims)) < 4


def test_limits_give_the_truncated_law() -> None:
    vae = mixed_vae()
    row, missing = torch.tensor([0.7, 1.0, 1.0, 2.0], dtype=torch.float64), torch.tensor([False, True, False, True])
    box = Box(torch.tensor([-math.inf, 0, 0, 1]).double(), torch.tensor([math.inf, 1, 1, 2]).double())
    out = draws(vae, row, missing, box)
    law = level_law(vae, row, missing, (1, 3))
    allowed = torch.zeros_like(law)
    allowed[:2, 1:3] = law[:2, 1:3]
    assert chi_square(out[:, [1, 3]], allowed / allowed.sum()) < 4


def test_a_number_given_levels_has_its_moments() -> None:
    """Mean and second moment of the number against quadrature over z, within 4.5 standard errors."""
    vae = mixed_vae()
    row, missing = torch.tensor([0.0, 2.0, 1.0, 3.0], dtype=torch.float64), torch.tensor([True, False, False, False])
    out = draws(vae, row, missing)[:, 0]
    z = torch.linspace(-8, 8, 2001, dtype=torch.float64)[:, None]
    with torch.no_grad():
        law: Any = vae.decode(z)
        weight = (law.log_prob(row, missing) + vae.prior.log_prob(z)).softmax(0)
        mean, variance = law.normal.mean[:, 0], law.normal.scale[:, 0].square()
        first, second = (weight * mean).sum(), (weight * (variance + mean.square())).sum()
    assert abs(float(out.mean() - first)) < 4.5 * float(out.std()) / math.sqrt(N)
    assert abs(float(out.square().mean() - second)) < 4.5 * float(out.square().std()) / math.sqrt(N)


def test_a_model_without_a_law_is_an_error() -> None:
    vae = mixed_vae()
    with torch.no_grad():
        vae.decoder.outlet.bias[1:] = math.nan
    row, missing = torch.tensor([0.7, 1.0, 1.0, 2.0], dtype=torch.float64), torch.tensor([False, True, False, True])
    with pytest.raises(FitError, match="no law of a missing cell"):
        draws(vae, row, missing, sweeps=2)
