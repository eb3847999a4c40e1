"""Conditionals against a model's own: closed forms, both routes to them, and the warning."""

from __future__ import annotations

import math

import pytest
import scipy.integrate
import torch
from torch import Tensor

from tests.evaluation.models import random_mixture
from tests.linear_vae import linear_vae
from tests.mixed import ExactMixedConditionals, LevelsAndNumbers, rough_conditionals
from tests.mixed_vae import LAYOUT, level_law, mixed_vae
from tests.oracles import GaussianConditionals, GaussianModel, random_covariance
from tests.selection import first
from vgi_cli.conditionals.amortised import AmortisedConditionals
from vgi_cli.conditionals.families.spline import SplineFamily
from vgi_cli.conditionals.networks.heads import HeadNetwork
from vgi_cli.errors import UsageError
from vgi_cli.evaluation.conditional_quality import HIGH_KL, Quality, conditional_part, conditional_quality
from vgi_cli.evaluation.latent_columns import latent_column_laws
from vgi_cli.evaluation.likelihood.importance import EncoderProposal
from vgi_cli.layout import Layout
from vgi_cli.methods.vgi.build import build_conditionals
from vgi_cli.methods.vgi.config import VgiConfig
from vgi_cli.models.gaussian.fa import FaConfig, FactorAnalysis
from vgi_cli.models.gaussian.mixture import GaussianMixture, MixtureConfig

D = 3


def limits() -> tuple[Tensor, Tensor]:
    return torch.full((D,), -12.0, dtype=torch.float64), torch.full((D,), 12.0, dtype=torch.float64)


def factor_model(g: torch.Generator) -> tuple[FactorAnalysis, Tensor, Tensor]:
    model = FactorAnalysis.build(FaConfig(factors=1), Layout.plain(D)).double()
    with torch.no_grad():
        model.gaussians.F.copy_(torch.randn(1, D, 1, generator=g))
        model.gaussians.mean.copy_(torch.randn(1, D, generator=g))
        model.gaussians.log_psi.copy_(0.3 * torch.randn(1, D, generator=g))
    covariance = model.F @ model.F.mT + torch.diag(model.log_psi.exp())
    return model, model.mean.detach(), covariance.detach()


def test_exact_conditionals_of_a_gaussian_have_no_distance() -> None:
    g = torch.Generator().manual_seed(0)
    model, mean, covariance = factor_model(g)
    x = torch.randn(20, D, generator=g, dtype=torch.float64)
    quality = conditional_quality(model, GaussianConditionals(mean, covariance), x, *limits())
    assert quality.closed_form and quality.kl.shape == (20, D)
    assert float(quality.kl.abs().max()) < 1e-10 and float(quality.wasserstein.max()) < 1e-6


@pytest.mark.parametrize("black_box", [False, True])
def test_a_spoilt_mean_and_spread(black_box: bool) -> None:
    """KL = log(1/c) + (c^2 + (shift/sd)^2 - 1) / 2, W2^2 = shift^2 + (c - 1)^2 sd^2, for every row: by the formulas and
    by quadrature over a density that is known up to its normaliser only."""
    g = torch.Generator().manual_seed(1)
    model, mean, covariance = factor_model(g)
    x = torch.randn(10, D, generator=g, dtype=torch.float64)
    shift, c = 0.4, 1.3
    q = GaussianConditionals(mean, covariance, shift=shift, scale=c)
    density = GaussianModel(mean, covariance) if black_box else model
    quality = conditional_quality(density, q, x, *limits())
    sd = torch.linalg.inv(covariance).diagonal().rsqrt()
    kl = -math.log(c) + 0.5 * (c**2 + (shift / sd).square() - 1)
    wasserstein = (shift**2 + ((c - 1) * sd).square()).sqrt()
    assert quality.closed_form is not black_box
    tolerance = 1e-3 if black_box else 1e-9
    assert torch.allclose(quality.kl, kl.expand(10, -1), atol=tolerance)
    assert torch.allclose(quality.wasserstein, wasserstein.expand(10, -1), atol=2 * tolerance)


def test_a_mixture_against_scipy_and_against_its_black_box() -> None:
    g = torch.Generator().manual_seed(2)
    oracle = random_mixture(D, [0.4, 0.6], g)
    model = GaussianMixture.build(MixtureConfig(components=2, covariance="full"), Layout.plain(D)).double()
    model.gaussians.set_moments(
        torch.stack([part.mean for part in oracle.parts]), torch.stack([part.covariance for part in oracle.parts])
    )
    model.set_weights(torch.tensor([0.4, 0.6], dtype=torch.float64))
    q = GaussianConditionals(torch.zeros(D, dtype=torch.float64), random_covariance(D, g))
    x = oracle.sample(6, g)
    known, black = (conditional_quality(p, q, x, *limits()) for p in (model, oracle))
    assert not known.closed_form and not black.closed_form
    assert torch.allclose(known.kl, black.kl, rtol=2e-3, atol=2e-3)
    assert torch.allclose(known.wasserstein, black.wasserstein, rtol=5e-3, atol=5e-3)
    for row in range(3):
        law = q.law(x[row : row + 1], torch.ones(1, D, dtype=torch.bool), torch.tensor([1]), hidden=True)
        mean, sd = float(law.mean), float(law.log_std.exp())

        def joint(value: float, row: int = row) -> float:
            cells = x[row].clone()
            cells[1] = value
            return float(oracle.log_prob(cells[None]))

        mass = scipy.integrate.quad(lambda v: math.exp(joint(v)), -15, 15, limit=400)[0]

        def integrand(v: float, mean: float = mean, sd: float = sd, mass: float = mass) -> float:
            log_q = -0.5 * ((v - mean) / sd) ** 2 - math.log(sd * math.sqrt(2 * math.pi))
            return math.exp(log_q) * (log_q - joint(v) + math.log(mass))

        expected = scipy.integrate.quad(integrand, mean - 7 * sd, mean + 7 * sd, limit=200)[0]
        assert float(known.kl[row, 1]) == pytest.approx(expected, rel=2e-3, abs=1e-3)


def test_splines_are_measured_as_the_density_that_they_define() -> None:
    """A fresh spline conditional is bent by random parameters; its own log_prob is the oracle."""
    g = torch.Generator().manual_seed(3)
    q = AmortisedConditionals(SplineFamily(1, 4), HeadNetwork(D, SplineFamily(1, 4).width, (), (4,)), extended=False)
    q.initialise(g)
    with torch.no_grad():
        for parameter in q.parameters():
            parameter.add_(0.4 * torch.randn(parameter.shape, generator=g))
    q = q.double().eval()
    model, _, _ = factor_model(g)
    x = torch.randn(4, D, generator=g, dtype=torch.float64)
    quality = conditional_quality(model, q, x, *limits())
    assert not quality.closed_form
    grid = torch.linspace(-40, 40, 80_001, dtype=torch.float64)
    for row in range(4):
        filled = x[row].repeat(len(grid), 1)
        filled[:, 2] = grid
        with torch.no_grad():
            law = q.law(filled, torch.ones_like(filled, dtype=torch.bool), torch.full((len(grid),), 2))
            log_q = law.log_prob(grid)
            log_p = model.log_prob(filled)
        log_p = log_p - torch.trapezoid(log_p.exp(), grid).log()
        expected = torch.trapezoid(torch.where(log_q > -60, log_q.exp() * (log_q - log_p), 0.0), grid)
        assert float(quality.kl[row, 2]) == pytest.approx(float(expected), rel=5e-3, abs=2e-3)


def test_an_extended_kernel_is_measured_as_the_chain_uses_it() -> None:
    g = torch.Generator().manual_seed(4)
    model, mean, covariance = factor_model(g)
    x = torch.randn(5, D, generator=g, dtype=torch.float64)
    q = GaussianConditionals(mean, covariance, memory=0.5)  # keeps half of its own previous value
    quality = conditional_quality(model, q, x, *limits())
    precision = torch.linalg.inv(covariance)
    off = 0.5 * ((x - mean) @ precision) / precision.diagonal()
    assert torch.allclose(quality.wasserstein, off.abs(), atol=1e-9)


def test_what_cannot_be_compared_is_refused() -> None:
    g = torch.Generator().manual_seed(5)
    model, mean, covariance = factor_model(g)
    q = GaussianConditionals(mean, covariance)
    x = torch.zeros(1, D, dtype=torch.float64)
    q.S = D + 1
    with pytest.raises(UsageError, match="compares conditionals of single columns"):
        conditional_quality(model, q, x, *limits())
    q.S = D
    model.exact = False
    with pytest.raises(UsageError, match="needs an exact log density"):
        conditional_quality(model, q, x, *limits())


def test_medians_quantiles_and_the_warning() -> None:
    kl = torch.stack([torch.linspace(0, 1, 11), torch.linspace(0, 2, 11)], 1).double()
    part = conditional_part(Quality(kl, 2 * kl, False), ["a", "b"])
    assert part["rows"] == 11 and part["estimator"] == "quadrature"
    assert part["columns"]["a"]["kl"] == pytest.approx({"median": 0.5, "q90": 0.9})
    assert part["columns"]["b"]["wasserstein"] == pytest.approx({"median": 2.0, "q90": 3.6})
    assert part["kl"]["q90"] == pytest.approx(float(torch.quantile(kl.flatten(), 0.9)))
    assert f"median KL above {HIGH_KL:g} nats: b 1)" in part["warning"]
    assert "warning" not in conditional_part(Quality(kl[:, :1], kl[:, :1], True), ["a"])
    broken = conditional_part(Quality(kl * torch.nan, kl, True), ["a", "b"])
    assert "a nan, b nan" in broken["warning"]


@pytest.mark.parametrize("exact_encoder", first(1, [True, False]))
def test_conditionals_of_a_model_with_latents(exact_encoder: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A linear autoencoder is a Gaussian: its conditionals by importance sampling are those of the covariance."""
    monkeypatch.setattr("vgi_cli.evaluation.likelihood.refit.MOST_EPOCHS", 5 if exact_encoder else 300)
    g = torch.Generator().manual_seed(6)
    model, law = linear_vae(D, 1, g, exact_encoder=exact_encoder)
    x = law.loc + torch.randn(8, D, generator=g, dtype=torch.float64) @ law.scale_tril.mT
    shift, c = 0.4, 1.3
    sd = torch.linalg.inv(law.covariance_matrix).diagonal().rsqrt()
    for moved, factor in ((0.0, 1.0), (shift, c)):
        q = GaussianConditionals(law.loc, law.covariance_matrix, shift=moved, scale=factor)
        quality = conditional_quality(model, q, x, *limits())
        kl = -math.log(factor) + 0.5 * (factor**2 + (moved / sd).square() - 1)
        w2 = (moved**2 + ((factor - 1) * sd).square()).sqrt()
        assert not quality.closed_form and quality.ess is not None and float(quality.ess.median()) > 100
        torch.testing.assert_close(quality.kl.median(0).values, kl.expand(D), rtol=0.05, atol=0.02)
        torch.testing.assert_close(quality.wasserstein.median(0).values, w2.expand(D), rtol=0.05, atol=0.08)
        assert float((quality.kl - kl).abs()[quality.ess > 100].max()) < 0.1


@pytest.mark.slow
def test_the_encoder_is_fine_tuned_to_the_rows_first() -> None:
    """A spoiled encoder leaves few effective draws; tuned to the rows it leaves many."""
    columns, g = 12, torch.Generator().manual_seed(6)
    model, law = linear_vae(columns, 3, g, exact_encoder=False)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    x = law.loc + torch.randn(8, columns, generator=g, dtype=torch.float64) @ law.scale_tril.mT
    edge = torch.full((columns,), 12.0, dtype=torch.float64)
    quality = conditional_quality(model, GaussianConditionals(law.loc, law.covariance_matrix), x, -edge, edge)
    as_fitted = torch.cat([ess for _, (_, ess) in latent_column_laws(model, EncoderProposal(model), x, 1)])
    assert quality.ess is not None
    assert float(as_fitted.median()) < 50 and float(quality.ess[:, 1].median()) > 300
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_the_cell_itself_has_no_influence_on_its_conditional() -> None:
    g = torch.Generator().manual_seed(6)
    model, _ = linear_vae(D, 1, g)
    x = torch.randn(5, D, generator=g, dtype=torch.float64)
    moved = x.clone()
    moved[:, 1] += 7.0
    first, second = (next(latent_column_laws(model, EncoderProposal(model), rows, 1))[1][0] for rows in (x, moved))
    for a, b in zip(first, second, strict=True):
        assert torch.equal(a, b)


def test_conditionals_that_rest_on_few_draws_are_warned_of() -> None:
    few = Quality(torch.ones(4, 1), torch.ones(4, 1), False, torch.full((4, 1), 3.0))
    part = conditional_part(few, ["a"])
    assert part["estimator"] == "quadrature and importance sampling" and part["ess"]["median"] == 3.0
    assert part["warning"].startswith("p(x_j | rest) of the model rests on 3 effective draws of its latents")
    many = conditional_part(few._replace(ess=torch.full((4, 1), 300.0)), ["a"])
    assert "far from the model's own" in many["warning"]


def test_levels_are_compared_by_sums_and_numbers_beside_them_by_quadrature() -> None:
    """p's own conditionals: no distance anywhere; and a rough q against the sum written out."""
    model = LevelsAndNumbers(3).requires_grad_(False)
    x = model.sample(12, torch.Generator().manual_seed(0))
    ends = torch.full((4,), -12.0, dtype=torch.float64), torch.full((4,), 12.0, dtype=torch.float64)
    exact = conditional_quality(model, ExactMixedConditionals(model), x, *ends)
    assert float(exact.kl.abs().max()) < 1e-4 and float(exact.wasserstein[:, [0, 2]].max()) < 1e-3
    assert bool(exact.wasserstein[:, [1, 3]].isnan().all())
    q = rough_conditionals().requires_grad_(False)
    got = conditional_quality(model, q, x, *ends)
    for row in range(12):
        moved = x[row].repeat(3, 1)
        moved[:, 1] = torch.arange(3)
        p = model.log_prob(moved).softmax(0)
        one = torch.ones(3, dtype=torch.int64)
        law = q.law(moved, torch.ones(3, 4, dtype=torch.bool), one).log_prob(moved[:, 1])
        assert float(got.kl[row, 1]) == pytest.approx(float((law.exp() * (law - p.log())).sum()), abs=1e-9)
    part = conditional_part(got, ["u", "a", "v", "b"])
    assert "wasserstein" in part["columns"]["u"] and "wasserstein" not in part["columns"]["a"]
    assert part["wasserstein"]["median"] == part["wasserstein"]["median"]
    alone = conditional_part(Quality(got.kl[:, 1:2], got.wasserstein[:, 1:2], False), ["a"])
    assert "wasserstein" not in alone and alone["kl"]["median"] > 0


def rough_conditionals_of_levels() -> AmortisedConditionals:
    """Of the layout of the autoencoder, with random parameters."""
    q = build_conditionals(VgiConfig(hidden=(6,), trunk=(6,)), LAYOUT).double()
    g = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in q.parameters():
            parameter.copy_(0.3 * torch.randn(parameter.shape, generator=g, dtype=torch.float64))
    assert isinstance(q, AmortisedConditionals)
    return q.eval()


def level_kl(q: AmortisedConditionals, row: Tensor, column: int, p: Tensor) -> float:
    """KL(q || p) of the levels of a column, p [levels], of one row [D]."""
    own = torch.arange(LAYOUT.D) == column
    law = q.law(row[None], own[None], torch.tensor([column]))
    table = torch.cat([law.log_prob(torch.tensor([float(level)]).double()) for level in range(len(p))]).detach()
    assert float(table.exp().sum()) == pytest.approx(1.0)
    return float((table.exp() * (table - p.log())).sum())


def test_levels_of_an_autoencoder_against_quadrature(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vgi_cli.evaluation.likelihood.refit.MOST_EPOCHS", 20)
    monkeypatch.setattr("vgi_cli.evaluation.latent_columns.DRAWS", 5000)
    vae, q = mixed_vae(), rough_conditionals_of_levels()
    x = vae.sample(3, torch.Generator().manual_seed(2)).double()
    edge = torch.full((LAYOUT.D,), 8.0, dtype=torch.float64)
    quality = conditional_quality(vae, q, x, -edge, edge, columns=[1, 3])
    assert bool(quality.wasserstein.isnan().all()) and not quality.closed_form
    assert quality.ess is not None and quality.ess.shape == (3, 2)
    for place, column in ((0, 1), (1, 3)):
        for n, row in enumerate(x):
            exact = level_kl(q, row, column, level_law(vae, row, torch.arange(LAYOUT.D) == column, (column,)))
            assert float(quality.kl[n, place]) == pytest.approx(exact, abs=0.06)
