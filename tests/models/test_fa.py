"""Factor analysis against the dense Gaussian that it is."""

from __future__ import annotations

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor

from vgi_cli.layout import Layout
from vgi_cli.maths.noise import KeyedNoise, numbered
from vgi_cli.models.gaussian.fa import FaConfig, FactorAnalysis

pytestmark = pytest.mark.full_fits(
    "models.gaussian.fa.FactorAnalysis.tolerance", "models.gaussian.mixture.GaussianMixture.tolerance"
)

D, L, R = 6, 2, 30


def model_and_rows(seed: int = 0) -> tuple[FactorAnalysis, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    model = FactorAnalysis.build(FaConfig(factors=L), Layout.plain(D)).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, dtype=torch.float64, generator=generator))
    x = torch.randn(R, D, dtype=torch.float64, generator=generator)
    missing = torch.rand(R, D, generator=generator) < 0.4
    missing[0], missing[1] = True, False
    return model, x, missing


def dense(model: FactorAnalysis) -> tuple[Tensor, Tensor]:
    return model.mean.detach(), (model.F @ model.F.mT + torch.diag(model.log_psi.exp())).detach()


def noise(n: int, rows: int, columns: int = D) -> KeyedNoise:
    return KeyedNoise(0, numbered("c", columns), torch.arange(rows), torch.arange(n))


def test_log_prob_is_the_dense_gaussian_and_has_its_gradients() -> None:
    model, x, _ = model_and_rows()
    mean, covariance = model.mean, model.F @ model.F.mT + torch.diag(model.log_psi.exp())
    expected = torch.distributions.MultivariateNormal(mean, covariance).log_prob(x)
    torch.testing.assert_close(model.log_prob(x), expected, rtol=1e-10, atol=1e-10)
    parameters = list(model.parameters())
    for ours, theirs in zip(
        torch.autograd.grad(model.log_prob(x).sum(), parameters),
        torch.autograd.grad(expected.sum(), parameters),
        strict=True,
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-8, atol=1e-8)


def test_log_prob_keeps_leading_dimensions() -> None:
    model, x, _ = model_and_rows()
    assert model.log_prob(x.view(5, 6, D)).shape == (5, 6)


def test_marginals_and_conditional_means_against_dense_formulas() -> None:
    model, x, missing = model_and_rows()
    mean, covariance = dense(model)
    log_prob = model.marginal_log_prob(x, missing)
    filled = model.conditional(x, missing).mean()
    for r in range(R):
        o, m = (~missing[r]).nonzero()[:, 0], missing[r].nonzero()[:, 0]
        if len(o) == 0:
            assert log_prob[r].item() == 0.0
            torch.testing.assert_close(filled[r], mean)
            continue
        block = covariance[o][:, o]
        expected = torch.distributions.MultivariateNormal(mean[o], block).log_prob(x[r, o])
        torch.testing.assert_close(log_prob[r], expected, rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(
            filled[r, m], mean[m] + covariance[m][:, o] @ torch.linalg.solve(block, x[r, o] - mean[o])
        )
        assert torch.equal(filled[r, o], x[r, o])


def test_draws_have_the_conditional_moments() -> None:
    model, x, _ = model_and_rows()
    missing = torch.tensor([[True, False, True, False, False, True]])
    n = 40_000
    rows = x[:1].expand(n, D)
    draws = model.conditional(rows, missing.expand(n, D)).sample(noise(1, n))[0]
    mean, covariance = dense(model)
    o, m = (~missing[0]).nonzero()[:, 0], missing[0].nonzero()[:, 0]
    gain = covariance[m][:, o] @ torch.linalg.inv(covariance[o][:, o])
    expected = covariance[m][:, m] - gain @ covariance[o][:, m]
    assert bool((draws[:, o] == x[0, o]).all())
    error = draws[:, m].mean(0) - (mean[m] + gain @ (x[0, o] - mean[o]))
    assert bool((error.abs() < 4 * (expected.diagonal() / n).sqrt()).all())
    spread = torch.cov(draws[:, m].mT)
    tolerance = 5 * (2 / n) ** 0.5 * expected.diagonal().max()
    assert (spread - expected).abs().max() < tolerance


def test_draws_do_not_depend_on_their_number_or_on_the_column_order_of_the_noise() -> None:
    model, x, missing = model_and_rows()
    conditional = model.conditional(x, missing)
    few, many = conditional.sample(noise(2, R)), conditional.sample(noise(5, R))
    assert torch.equal(few, many[:2])
    assert not torch.equal(many[0], many[1])


def test_principal_factors_recover_an_exact_factor_covariance() -> None:
    model, _, _ = model_and_rows(3)
    rows = model.sample(200_000, torch.Generator().manual_seed(1)).detach()
    fresh = FactorAnalysis.build(FaConfig(factors=L), Layout.plain(D))
    fresh.initialise(rows, torch.Generator())
    assert fresh.F.dtype == torch.float32  # the precision of the model stays
    _, covariance = dense(fresh.double())
    sample = torch.cov(rows.mT)
    assert ((covariance - sample).abs() / sample.diagonal().max()).max() < 0.02


def test_the_start_takes_columns_that_determine_each_other_first() -> None:
    """One factor for two loosely related groups: three columns of correlation 0.8, and two that are all but one."""
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(400, 5, dtype=torch.float64, generator=generator)
    common, other = torch.randn(400, 2, dtype=torch.float64, generator=generator).unbind(1)
    loose = 0.9 * common[:, None] + 0.45 * z[:, :3]
    x = torch.cat([loose, other[:, None], -other[:, None] + 1e-3 * z[:, 3:4]], 1)
    model = FactorAnalysis.build(FaConfig(factors=1), Layout.plain(5)).double()
    model.initialise(x, generator)
    assert model.F[3:].abs().min() > 10 * model.F[:3].abs().max()


def test_sample_moments() -> None:
    model, _, _ = model_and_rows()
    mean, covariance = dense(model)
    rows = model.sample(100_000, torch.Generator().manual_seed(0)).detach()
    assert (rows.mean(0) - mean).abs().max() < 5 * (covariance.diagonal().max() / 100_000) ** 0.5
    assert (torch.cov(rows.mT) - covariance).abs().max() < 0.05 * covariance.diagonal().max()


def test_free_parameters_leave_rotations_out() -> None:
    assert FactorAnalysis.build(FaConfig(factors=2), Layout.plain(6)).free_parameters() == 6 + 6 + 12 - 1


def test_unknown_key_is_refused() -> None:
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        FaConfig.model_validate({"factor": 2})


@pytest.mark.parametrize("columns", [1, 2])
def test_few_columns_work(columns: int) -> None:
    model = FactorAnalysis.build(FaConfig(), Layout.plain(columns))
    model.initialise(torch.randn(20, columns, generator=torch.Generator().manual_seed(0)), torch.Generator())
    assert bool(torch.isfinite(model.log_prob(torch.zeros(3, columns))).all())
