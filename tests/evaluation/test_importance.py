"""The importance-weighted bound against the linear autoencoder, whose log p(x_obs) is known, and its fine-tuning."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from tests.linear_vae import linear_vae
from tests.oracles import GaussianModel, gaussian_marginal_log_prob
from vgi_cli.evaluation.likelihood.estimate import observed_log_prob
from vgi_cli.evaluation.likelihood.importance import EncoderProposal, distrust, importance_weighted
from vgi_cli.evaluation.likelihood.ladder import Budget
from vgi_cli.evaluation.likelihood.loglik import LogLik
from vgi_cli.evaluation.likelihood.refit import refit_encoder, rounds
from vgi_cli.evaluation.likelihood.units import Encoded, data_log_prob
from vgi_cli.layout import Layout
from vgi_cli.maths.noise import KeyedNoise
from vgi_cli.models.vae.vae import VaeConfig, VariationalAutoencoder

D, L, R = 6, 2, 60


def case(exact_encoder: bool = False) -> tuple[VariationalAutoencoder, Tensor, Tensor, Tensor]:
    """A linear autoencoder, rows of its law, holes (rows 0-19 complete, row 59 fully missing), and log p(x_obs)."""
    g = torch.Generator().manual_seed(4)
    vae, law = linear_vae(D, L, g, exact_encoder=exact_encoder)
    x = law.loc + torch.randn(R, D, generator=g, dtype=torch.float64) @ law.scale_tril.mT
    missing = torch.rand(R, D, generator=g) < 0.5
    missing[:20] = False
    missing[20:59, 0] = False
    missing[59] = True
    exact = gaussian_marginal_log_prob(GaussianModel(law.loc, law.covariance_matrix), x, missing)
    return vae, x, missing, exact


def draws_of(rows: Tensor, P: int, seed: int = 0) -> KeyedNoise:
    return KeyedNoise(seed, tuple(map(str, range(D))), rows, torch.arange(P), "iwae")


def weighted(
    vae: VariationalAutoencoder, x: Tensor, missing: Tensor, P: int, seed: int = 0, batch: int = 4096
) -> LogLik:
    return importance_weighted(vae, EncoderProposal(vae), x, missing, draws_of(torch.arange(len(x)), P, seed), batch)


def test_bound_is_the_likelihood_of_the_linear_autoencoder_on_complete_and_incomplete_rows() -> None:
    vae, x, missing, exact = case()
    result = weighted(vae, torch.where(missing, 0.0, x), missing, 4000)
    error = result.values - exact
    assert result.estimator == "iwae" and result.particles == 4000 and result.warning is None
    assert float(error.abs().max()) < 0.15 and abs(float(error[:20].mean())) < 0.02 and abs(float(error.mean())) < 0.02
    assert float(result.values[59]) == 0.0
    ess = result.ess
    assert ess is not None and bool((ess[:59] > 100).all()) and bool((ess <= 4000 + 1e-6).all())


def test_exact_posterior_gives_the_likelihood_at_once() -> None:
    """With q = p(z | x) each weight of a draw of q is p(x) / (0.95 + 0.05 p(z) / q(z)): nearly constant."""
    vae, x, missing, exact = case(exact_encoder=True)
    result = weighted(vae, x[:20], missing[:20], 2000)
    assert float((result.values - exact[:20]).abs().max()) < 0.02


def test_weights_are_unbiased_with_few_draws() -> None:
    """E of the mean weight is p(x_obs), whatever the proposal; so the mean of its log lies below."""
    vae, x, missing, exact = case()
    index = torch.tensor([3, 25, 40]).repeat_interleave(6000)
    keys = torch.arange(len(index))
    result = importance_weighted(vae, EncoderProposal(vae), x[index], missing[index], draws_of(keys, 2), 4096)
    ratio = (result.values - exact[index]).view(3, 6000)
    mean = ratio.exp().mean(1)
    error = ratio.exp().std(1) / math.sqrt(6000)
    assert bool(((mean - 1).abs() < 4 * error).all()) and float(error.max()) < 0.1
    assert bool((ratio.mean(1) < -0.01).all())


def test_what_missing_cells_hold_changes_nothing() -> None:
    vae, x, missing, _ = case()
    spoilt = torch.where(missing, 1e6, x)
    assert torch.equal(weighted(vae, x, missing, 64).values, weighted(vae, spoilt, missing, 64).values)


def test_draws_are_keyed_by_row_and_streamed() -> None:
    """Other rows beside it and other batches change a row by rounding at most; another seed gives other draws."""
    vae, x, missing, _ = case()
    whole = weighted(vae, x, missing, 700).values
    torch.testing.assert_close(weighted(vae, x[:7], missing[:7], 700).values, whole[:7], rtol=0, atol=1e-9)
    torch.testing.assert_close(weighted(vae, x, missing, 700, batch=600).values, whole, rtol=0, atol=1e-9)
    assert not torch.allclose(weighted(vae, x, missing, 700, seed=1).values[:59], whole[:59], rtol=0, atol=1e-9)
    half = weighted(vae, x, missing, 700).half_budget
    assert half is not None and float((whole - half).mean()) > 0


def test_the_estimate_of_a_model_with_latents_is_found_by_its_type() -> None:
    vae, x, missing, exact = case()
    result = observed_log_prob(vae, None, x, missing, budget=Budget(latents=500))
    assert result.estimator == "iwae" and abs(float((result.values - exact).mean())) < 0.05
    draws = [Encoded(x, torch.full((R,), 1.5)), Encoded(x, torch.full((R,), 1.5))]
    shared = data_log_prob(vae, EncoderProposal(vae), draws, missing, budget=Budget(latents=1000))
    assert shared.particles == 1000
    assert abs(float((shared.values - exact - 1.5)[:59].mean())) < 0.05


def test_fine_tuned_encoder_brings_the_bound_closer_and_leaves_the_model_alone() -> None:
    vae, x, missing, exact = case()
    before = {k: v.clone() for k, v in vae.state_dict().items()}
    refit = refit_encoder(vae, x, missing, epochs=400)
    assert refit.epochs == 400 and refit.after > refit.before + 0.02
    assert all(torch.equal(value, before[key]) for key, value in vae.state_dict().items())
    assert all(p.requires_grad and p.grad is None for p in vae.parameters())
    plain = weighted(vae, x, missing, 20)
    tuned = importance_weighted(vae, refit.proposal, x, missing, draws_of(torch.arange(R), 20), 4096)
    assert plain.ess is not None and tuned.ess is not None and tuned.ess[:59].mean() > 1.1 * plain.ess[:59].mean()
    assert abs(float((tuned.values - exact).mean())) < abs(float((plain.values - exact).mean()))
    again = refit_encoder(vae, x, missing, epochs=400)
    assert again.after == refit.after


def test_rounds_double_up_to_the_most() -> None:
    assert rounds(24) == [84, 84, 168, 336, 328] and sum(rounds(24)) == 1000
    assert rounds(1) == [1000]
    assert rounds(1000) == [2, 2, 4, 8, 16] and rounds(10000) == [1, 1, 1] and rounds(100000) == [1]


def test_without_a_number_fine_tuning_goes_on_while_it_helps(monkeypatch: pytest.MonkeyPatch) -> None:
    vae, x, missing, _ = case()
    monkeypatch.setattr("vgi_cli.evaluation.likelihood.refit.STEPS", 30)  # one batch: 30 epochs, 30, 60, ..
    monkeypatch.setattr("vgi_cli.evaluation.likelihood.refit.ENOUGH", 0.1)
    shown: list[float] = []
    refit = refit_encoder(vae, x, missing, progress=shown.append)
    assert refit.epochs in (60, 120, 240, 480, 960) and shown[-1] == refit.epochs / 1000
    once = refit_encoder(vae, x, missing, epochs=30)
    assert refit.before == once.before and refit.after > once.after + 0.005
    monkeypatch.setattr("vgi_cli.evaluation.likelihood.refit.ENOUGH", 1e6)
    assert refit_encoder(vae, x, missing).epochs == 30
    monkeypatch.setattr("vgi_cli.evaluation.likelihood.refit.MOST_EPOCHS", 50)
    monkeypatch.setattr("vgi_cli.evaluation.likelihood.refit.ENOUGH", -1e6)
    assert refit_encoder(vae, x, missing).epochs == 50


def test_encoder_is_kept_where_fine_tuning_does_not_help(monkeypatch: pytest.MonkeyPatch) -> None:
    vae, x, missing, _ = case(exact_encoder=True)
    assert refit_encoder(vae, x, missing, epochs=0).epochs == 0
    monkeypatch.setattr("vgi_cli.evaluation.likelihood.refit.RATE", 3.0)  # steps that spoil it
    refit = refit_encoder(vae, x[:20], missing[:20], epochs=2)
    assert refit.after < refit.before - 0.1
    assert torch.equal(refit.proposal(x[:20], missing[:20]).mean, vae.encode(x[:20]).mean)


def test_a_proposal_that_misses_the_posterior_is_reported() -> None:
    vae, x, missing, _ = case()
    with torch.no_grad():
        vae.encoder.outlet.bias[:L] += 8.0
        vae.encoder.outlet.bias[L:] = -6.0
    result = weighted(vae, x, missing, 100)
    assert result.warning is not None and "a bound that is likely too low" in result.warning
    assert "effective sample size below 20 of 100 draws" in result.warning


@pytest.mark.parametrize(
    ("ess", "gap", "said"), [(50.0, 0.0, ""), (5.0, 0.0, "100% of the rows"), (50.0, 0.5, "0.500")]
)
def test_rule_of_distrust(ess: float, gap: float, said: str) -> None:
    text = distrust(torch.full((10,), ess), torch.full((10,), gap), 100)
    assert (text is None) if not said else (text is not None and said in text)


def test_a_handful_of_draws_is_trusted_where_half_of_them_count() -> None:
    assert distrust(torch.full((10,), 12.0), torch.zeros(10), 16) is None
    assert "size below 8 of 16 draws" in str(distrust(torch.full((10,), 4.0), torch.zeros(10), 16))


def test_nonlinear_autoencoder_against_quadrature() -> None:
    g = torch.Generator().manual_seed(0)
    vae = VariationalAutoencoder.build(
        VaeConfig(latents=1, encoder=(5,), decoder=(7,), variance="latent"), Layout.plain(3)
    ).double()
    x = torch.randn(30, 3, generator=g, dtype=torch.float64)
    vae.initialise(x, g)
    with torch.no_grad():
        for parameter in vae.parameters():
            parameter.add_(0.6 * torch.randn(parameter.shape, generator=g, dtype=torch.float64))
    vae.eval()
    missing = torch.rand(30, 3, generator=g) < 0.4
    missing[:, 0] &= ~missing.all(1)
    z = torch.linspace(-8, 8, 2001, dtype=torch.float64)
    with torch.no_grad():
        exact = vae.observed_log_prob(x[:, None], z[:, None], missing[:, None]).logsumexp(1) + math.log(16 / 2000)
    result = weighted(vae, x, missing, 4000)
    assert float((result.values - exact).abs().max()) < 0.2 and abs(float((result.values - exact).mean())) < 0.02
