"""The oracle of the autoencoder: linear maps, whose law is a Gaussian and whose posterior is known in closed form."""

from __future__ import annotations

import torch

from vgi_cli.layout import Layout
from vgi_cli.models.vae.vae import VaeConfig, VariationalAutoencoder


def linear_vae(
    D: int, L: int, generator: torch.Generator, *, exact_encoder: bool = True
) -> tuple[VariationalAutoencoder, torch.distributions.MultivariateNormal]:
    """A float64 autoencoder without hidden layers, and its law N(b, F F' + Psi) of x.

    The loadings F are orthogonal in the metric of Psi, so that p(z | x) is a diagonal normal, which the encoder is set
    to; `exact_encoder=False` spoils it.
    """
    vae = VariationalAutoencoder.build(
        VaeConfig(latents=L, encoder=(), decoder=(), floor=0.0), Layout.plain(D)
    ).double()
    psi = 0.3 + torch.rand(D, generator=generator, dtype=torch.float64)
    basis = torch.linalg.qr(torch.randn(D, L, generator=generator, dtype=torch.float64)).Q
    strength = torch.linspace(2.5, 1.2, L, dtype=torch.float64)
    F = psi.sqrt()[:, None] * basis * strength
    b = torch.randn(D, generator=generator, dtype=torch.float64)
    gain = (F / psi[:, None]).mT / (1 + strength.square())[:, None]  # posterior mean of z: gain (x - b)
    with torch.no_grad():
        vae.decoder.outlet.weight.copy_(F)
        vae.decoder.outlet.bias.copy_(b)
        assert vae.log_variance is not None
        vae.log_variance.copy_(psi.log())
        vae.encoder.outlet.weight[:L] = gain
        vae.encoder.outlet.bias[:L] = -gain @ b
        vae.encoder.outlet.bias[L:] = -(1 + strength.square()).log()
        if not exact_encoder:
            vae.encoder.outlet.weight[:L] += 0.15 * torch.randn(L, D, generator=generator, dtype=torch.float64)
            vae.encoder.outlet.bias[L:] += 0.7
    return vae.eval(), torch.distributions.MultivariateNormal(b, F @ F.mT + torch.diag(psi))
