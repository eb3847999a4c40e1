"""The autoencoder over numbers and levels, with one latent, against quadrature over it and sums over levels."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from tests.mixed_vae import LAYOUT, D, grid_of, mixed_vae, observed_by_quadrature, random_rows
from vgi_cli.evaluation.likelihood.importance import EncoderProposal, importance_weighted
from vgi_cli.layout import Layout
from vgi_cli.maths.noise import KeyedNoise
from vgi_cli.models.vae.vae import VaeConfig, VariationalAutoencoder

SETTINGS: dict[str, dict[str, Any]] = {
    "plain": {},
    "of the latents": {"variance": "latent"},
    "set": {"encoding": "set"},
    "mixture": {"prior": "mixture", "components": 3},
}
each = pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
few = pytest.mark.parametrize(
    "settings",
    [
        pytest.param(settings, id=name, marks=[pytest.mark.slow] * (name not in ("plain", "set")))
        for name, settings in SETTINGS.items()
    ],
)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def holes(n: int) -> torch.Tensor:
    missing = torch.rand(n, D, generator=generator(2)) < 0.4
    missing[:, 0] &= ~missing.all(1)
    return missing


@few
def test_probabilities_of_all_rows_sum_to_one(settings: dict[str, Any]) -> None:
    vae = mixed_vae(**settings)
    axis = torch.linspace(-15, 15, 201, dtype=torch.float64)
    levels = torch.cartesian_prod(*[torch.arange(n, dtype=torch.float64) for n in LAYOUT.levels if n])
    mass = torch.zeros(len(axis), dtype=torch.float64)
    none = torch.zeros(len(axis), D, dtype=torch.bool)
    for combo in levels:
        mass += observed_by_quadrature(vae, torch.cat([axis[:, None], combo.expand(len(axis), -1)], 1), none).exp()
    assert float(torch.trapezoid(mass, axis)) == pytest.approx(1.0, abs=1e-3)


@each
def test_the_bound_lies_below_the_marginal_by_the_divergence_of_the_encoder(settings: dict[str, Any]) -> None:
    """log p(x_obs) by quadrature less the mean ELBO of the observed cells is KL(q(z | x_obs) ‖ p(z | x_obs))."""
    vae, n, draws = mixed_vae(**settings), 8, 4000
    x, missing = random_rows(n, generator(1)), holes(n)
    exact = observed_by_quadrature(vae, x, missing)
    z, weight = grid_of(vae, 1601)
    with torch.no_grad():
        q = vae.encode(x, missing)
        noise = torch.randn(draws, n, vae.latents, generator=generator(3), dtype=torch.float64)
        elbo = vae.elbo(x, noise, missing, q)
        log_q = vae.encode(x[:, None], missing[:, None]).log_prob(z)
        posterior = vae.decode(z).log_prob(x[:, None], missing[:, None]) + weight - exact[:, None]
        volume = math.log(16 / 1600)
        gap = ((log_q + volume).exp() * (log_q + volume - posterior)).sum(1)
    error = elbo.std(0) / math.sqrt(draws)
    assert bool((exact - elbo.mean(0) > -4 * error).all()) and float((exact - elbo.mean(0)).max()) > 0.1
    assert bool(((exact - elbo.mean(0) - gap).abs() < 4.5 * error + 1e-3).all())


@few
def test_the_importance_weighted_bound_tends_to_the_marginal(settings: dict[str, Any]) -> None:
    vae, n = mixed_vae(**settings), 25
    x, missing = vae.sample(n, generator(1)), holes(n)
    exact = observed_by_quadrature(vae, x, missing)
    noise = KeyedNoise(0, tuple(LAYOUT.names), torch.arange(n), torch.arange(4000), "iwae")
    for hide in (False, True):
        got = importance_weighted(vae, EncoderProposal(vae, hide=hide), x, missing, noise, 4096).values
        assert float((got - exact).abs().max()) < 0.2 and abs(float((got - exact).mean())) < 0.02


@each
def test_missing_cells_never_enter_and_levels_are_no_numbers(settings: dict[str, Any]) -> None:
    vae, n = mixed_vae(**settings), 30
    x, missing = random_rows(n, generator(1)), holes(n)
    z = vae.prior.draw(torch.randn(n, vae.latents, generator=generator(4), dtype=torch.float64))
    spoilt = torch.where(missing, math.nan, x)
    q, same = vae.encode(x, missing), vae.encode(spoilt, missing)
    assert torch.equal(q.mean, same.mean) and torch.equal(q.log_prob(z), same.log_prob(z))
    observed = vae.observed_log_prob(spoilt, z, missing)
    assert torch.equal(observed, vae.observed_log_prob(x, z, missing))
    (observed.sum() + same.mean.sum()).backward()
    assert all(p.grad is None or bool(torch.isfinite(p.grad).all()) for p in vae.parameters())
    with torch.no_grad():  # the encoder's answers to the levels of a cell are not in proportion to their numbers
        rows = x[:1].repeat(3, 1)
        rows[:, 1] = torch.arange(3)
        answers = vae.encode(rows).mean[:, 0]
    assert abs(float((answers[2] - answers[1]) - (answers[1] - answers[0]))) > 1e-6


@each
def test_samples_have_the_marginal_probabilities(settings: dict[str, Any]) -> None:
    vae, n = mixed_vae(**settings), 20_000
    x = vae.sample(n, generator(5))
    for i, L in enumerate(LAYOUT.levels):
        if not L:
            continue
        rows, missing = torch.zeros(L, D, dtype=torch.float64), torch.ones(L, D, dtype=torch.bool)
        rows[:, i], missing[:, i] = torch.arange(L), False
        p = observed_by_quadrature(vae, rows, missing).exp()
        share = torch.bincount(x[:, i].long(), minlength=L).double() / n
        assert bool(((share - p).abs() < 4.5 * (p * (1 - p) / n).sqrt()).all())


def test_what_fills_holes_for_an_encoder_are_levels() -> None:
    vae, n = mixed_vae(), 40
    x, missing = random_rows(n, generator(1)), holes(n)
    filled = vae.filled(x, missing)
    for i, L in enumerate(LAYOUT.levels):
        assert not L or bool(((filled[:, i] >= 0) & (filled[:, i] < L) & (filled[:, i] % 1 == 0)).all())
    assert torch.equal(filled[~missing], x[~missing])


@pytest.mark.parametrize("variance", ["column", "latent"])
@pytest.mark.filterwarnings("error")
def test_rows_of_levels_alone_start_without_a_warning(variance: str) -> None:
    layout = Layout.of(["g", "h"], levels=[3, 2])
    vae = VariationalAutoencoder.build(VaeConfig(variance=variance), layout)
    vae.initialise(torch.tensor([[0.0, 1.0], [2.0, 0.0]]), generator())
    law = vae.decode(torch.zeros(1, vae.latents))
    assert bool(torch.isfinite(law.log_cells(torch.zeros(1, 2))).all())


@pytest.mark.parametrize("variance", ["column", "latent"])
def test_starts_at_the_frequencies_of_the_levels(variance: str) -> None:
    x = random_rows(3000, generator())
    x[:, 1] = (x[:, 0] > 0.5) * 2.0  # level 1 never occurs
    vae = VariationalAutoencoder.build(VaeConfig(variance=variance, decoder=(4,)), LAYOUT).double()
    vae.initialise(x, generator())
    vae.decoder.outlet.weight.data.zero_()
    law = vae.decode(torch.zeros(1, vae.latents, dtype=torch.float64))
    for i, L in enumerate(LAYOUT.levels):
        if L:
            rows = torch.zeros(L, D, dtype=torch.float64)
            rows[:, i] = torch.arange(L)
            share = (torch.bincount(x[:, i].long(), minlength=L).double() + 0.5) / (3000 + 0.5 * L)
            torch.testing.assert_close(law.log_cells(rows)[:, i].exp(), share)


def test_latents_where_nobody_says_count_the_free_numbers() -> None:
    for layout, latents in ((LAYOUT, 6), (Layout.of("ab", levels=(2, 2)), 2), (Layout.of("a", levels=(50,)), 10)):
        assert VariationalAutoencoder.build(VaeConfig(), layout).latents == latents
