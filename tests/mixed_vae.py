"""A small autoencoder of numbers and levels with one latent: p(x_obs) is a quadrature over z, conditionals a sum."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from vgi_cli.layout import Layout
from vgi_cli.models.vae.vae import VaeConfig, VariationalAutoencoder

LAYOUT = Layout.of("abcd", levels=(0, 3, 2, 4), ordered=(3,))
"""A number, three levels, two, four in an order."""
D = LAYOUT.D


def mixed_vae(seed: int = 0, **settings: Any) -> VariationalAutoencoder:
    """A float64 autoencoder with one latent, on which every cell depends; the encoder is far from its posterior."""
    values: dict[str, Any] = {"latents": 1, "encoder": (5,), "decoder": (6,), "activation": "tanh", "cell": (6, 6)}
    vae = VariationalAutoencoder.build(VaeConfig(**{**values, "embedding": 4, **settings}), LAYOUT).double()
    g = torch.Generator().manual_seed(seed)
    vae.initialise(random_rows(200, g), g)
    with torch.no_grad():
        for name, parameter in vae.named_parameters():
            size = 0.1 if "encoding" in settings and name.startswith("encoder") else 0.7  # sums over cells are large
            parameter.add_(size * torch.randn(parameter.shape, generator=g, dtype=torch.float64))
        vae.encoder.outlet.weight.mul_(0.2 if "encoding" in settings else 0.5)  # q(z | x) lies within the grid
        vae.encoder.outlet.bias.mul_(0.5)
        if vae.log_variance is not None:
            vae.log_variance.fill_(-1.0)
    return vae.eval()


def random_rows(n: int, g: torch.Generator) -> Tensor:
    """[n, D] independent cells."""
    cells = [
        torch.randint(L, (n,), generator=g).double() if L else torch.randn(n, generator=g, dtype=torch.float64)
        for L in LAYOUT.level_counts
    ]
    return torch.stack(cells, 1)


def grid_of(vae: VariationalAutoencoder, points: int = 401) -> tuple[Tensor, Tensor]:
    """Points z [Q, L] and log weights [Q] of a sum over p(z): from -8 to 8, for each category of a mixture."""
    axis = torch.linspace(-8, 8, points, dtype=torch.float64)
    S = vae.code.categories
    if not S:
        z = axis[:, None]
    else:
        z = torch.cat([axis.repeat(S)[:, None], torch.eye(S, dtype=torch.float64).repeat_interleave(points, 0)], 1)
    with torch.no_grad():
        return z, vae.prior.log_prob(z) + math.log(16 / (points - 1))


def observed_by_quadrature(vae: VariationalAutoencoder, x: Tensor, missing: Tensor) -> Tensor:
    """log p(x_obs) of rows x [R, D]: [R]."""
    z, weight = grid_of(vae)
    with torch.no_grad():
        return (vae.decode(z).log_prob(x[:, None], missing[:, None]) + weight).logsumexp(1)


def level_law(vae: VariationalAutoencoder, row: Tensor, missing: Tensor, dims: tuple[int, ...]) -> Tensor:
    """p(levels of the dimensions dims | x_obs) of one row [D]: a table with an axis for each of them."""
    counts = [LAYOUT.level_counts[i] for i in dims]
    combos = torch.cartesian_prod(*[torch.arange(n, dtype=torch.float64) for n in counts]).view(-1, len(dims))
    rows, holes = row.expand(len(combos), -1).clone(), missing.expand(len(combos), -1).clone()
    rows[:, list(dims)], holes[:, list(dims)] = combos, False
    return observed_by_quadrature(vae, rows, holes).softmax(0).view(counts)
