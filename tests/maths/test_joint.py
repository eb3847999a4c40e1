"""The Gaussian mixture that stands in for a black box: densities, conditionals, fit and univariate conditionals."""

from __future__ import annotations

import math

import pytest
import torch

from tests.evaluation.models import MixtureModel, exact_holes, random_mixture
from tests.oracles import gaussian_conditional
from vgi_cli.evaluation.likelihood.univariate import MixtureConditionals
from vgi_cli.maths.joint import JointMixture, fit_joint, fit_mixture, widen
from vgi_cli.maths.noise import KeyedNoise, row_keys

G = torch.Generator()


def oracle(D: int = 5, weights: tuple[float, ...] = (0.6, 0.4)) -> tuple[MixtureModel, JointMixture]:
    model = random_mixture(D, list(weights), G.manual_seed(0))
    parts = list(model.parts)
    joint = JointMixture(
        torch.tensor(weights, dtype=torch.float64).log(),
        torch.stack([p.mean for p in parts]),
        torch.stack([p.covariance for p in parts]),
    )
    return model, joint


def noise_for(R: int, draws: int) -> KeyedNoise:
    return KeyedNoise(0, ("a",), row_keys([str(r) for r in range(R)]), torch.arange(draws))


def test_densities_and_marginals() -> None:
    model, joint = oracle()
    x = model.sample(20, G.manual_seed(1))
    missing = exact_holes(20, 5, 2, G)
    torch.testing.assert_close(joint.log_prob(x), model.log_prob(x), rtol=0, atol=1e-10)
    log_marginal = joint.conditional(x.masked_fill(missing, 0.0), missing).log_marginal()
    torch.testing.assert_close(log_marginal, model.marginal(x, missing), rtol=0, atol=1e-10)


def test_conditional_draws_have_the_closed_form_moments() -> None:
    model, joint = oracle(weights=(1.0,))
    x = model.sample(2, G.manual_seed(1))
    missing = torch.tensor([[True, False, True, False, False], [False, True, True, True, False]])
    n = 20_000
    draws = joint.conditional(x, missing).sample(noise_for(2, n))
    assert torch.equal(draws[:, ~missing], x[~missing].expand(n, -1))
    for r in range(2):
        mean, cov = gaussian_conditional(model.parts[0], x[r], missing[r])
        got = draws[:, r, missing[r]]
        assert ((got.mean(0) - mean).abs() < 4.5 * (cov.diagonal() / n).sqrt()).all()
        scale = cov.diagonal().sqrt()
        assert ((got.mT.cov() - cov).abs() < 4.5 * math.sqrt(2 / n) * scale[:, None] * scale).all()


def test_conditional_draws_pick_components_by_their_posterior_weight() -> None:
    joint = JointMixture(
        torch.tensor([0.5, 0.5], dtype=torch.float64).log(),
        torch.tensor([[0.0, -5.0], [1.0, 5.0]], dtype=torch.float64),
        torch.eye(2, dtype=torch.float64).repeat(2, 1, 1),
    )
    x, missing = torch.tensor([[1.5, 0.0]], dtype=torch.float64), torch.tensor([[False, True]])
    n = 10_000
    positive = float((joint.conditional(x, missing).sample(noise_for(1, n))[:, 0, 1] > 0).double().mean())
    expected = 1 / (1 + math.exp(-(1.5**2 - 0.5**2) / 2))
    assert abs(positive - expected) < 4.5 * math.sqrt(expected * (1 - expected) / n)


def test_fit_finds_the_mixture() -> None:
    """Fresh samples score within 0.03 nats of the truth, and three separate components are not fitted by one."""
    model = random_mixture(3, [0.5, 0.3, 0.2], G.manual_seed(3))
    for shift, part in zip((-6.0, 0.0, 6.0), model.parts, strict=True):
        part.mean += shift
    fit, fresh = model.sample(8000, G), model.sample(4000, G)
    joint = fit_joint(fit, fresh, G)
    assert joint.log_weights.exp().sum() == pytest.approx(1.0)
    assert 4 < len(joint.log_weights) <= 9  # 4 or 8, and the broad one
    truth = float(model.log_prob(fresh).mean())
    narrow = fit_mixture(fit, 4, G)
    assert truth - 0.05 < float(narrow.log_prob(fresh).mean()) < truth + 0.02
    assert truth - 0.2 < float(joint.log_prob(fresh).mean()) < truth


def test_one_component_is_kept_for_a_gaussian_and_tails_are_heavier() -> None:
    model = random_mixture(3, [1.0], G.manual_seed(4))
    x = model.sample(6000, G)
    joint = fit_joint(x[:4000], x[4000:], G)
    assert len(joint.log_weights) == 2
    far = model.parts[0].mean + 20 * model.parts[0].covariance.diagonal().sqrt()
    assert joint.log_prob(far[None]) > model.log_prob(far[None])


def test_widening_keeps_a_density() -> None:
    """One column: the widened mixture integrates to 1."""
    joint = JointMixture(
        torch.zeros(1, dtype=torch.float64),
        torch.ones(1, 1, dtype=torch.float64),
        torch.full((1, 1, 1), 0.3, dtype=torch.float64),
    )
    wide = widen(joint, torch.randn(100, 1, generator=G.manual_seed(0), dtype=torch.float64))
    t = torch.linspace(-15, 15, 3001, dtype=torch.float64)[:, None]
    assert float(wide.log_prob(t).exp().sum() * 0.01) == pytest.approx(1.0, abs=1e-8)


def test_univariate_proposals_are_the_conditionals() -> None:
    """log g(x') - log g(x) = log forward - log reverse for exact univariate conditionals; and draws move one cell."""
    model, joint = oracle()
    x = model.sample(200, G.manual_seed(1))
    j = torch.randint(5, (200,), generator=G)
    noise = torch.randn(200, 2, generator=G, dtype=torch.float64)
    q = MixtureConditionals(joint)
    missing = torch.ones_like(x, dtype=torch.bool)
    law = q.law(x, missing, j)
    value, forward = law.draw_scored(noise)
    new = q.put(x, j, value)
    difference = model.log_prob(new) - model.log_prob(x)
    torch.testing.assert_close(forward - law.log_prob(q.at(x, j)), difference, rtol=0, atol=1e-8)
    assert ((new != x) == torch.nn.functional.one_hot(j, 5).bool()).all()
    assert torch.equal(q.blocks(x > 0), x > 0)


def test_univariate_proposals_have_the_right_mean() -> None:
    """One Gaussian: the draws of a cell have its conditional mean and variance."""
    model, joint = oracle(weights=(1.0,))
    row = model.sample(1, G.manual_seed(1))
    n = 20_000
    noise = torch.randn(n, 2, generator=G, dtype=torch.float64)
    rows, j = row.expand(n, -1), torch.full((n,), 2)
    got = MixtureConditionals(joint).law(rows, torch.arange(5).expand(n, -1) == 2, j).draw(noise)
    mean, cov = gaussian_conditional(model.parts[0], row[0], torch.arange(5) == 2)
    assert abs(float(got.mean() - mean[0])) < 4.5 * math.sqrt(float(cov[0, 0]) / n)
    assert float(got.var() / cov[0, 0]) == pytest.approx(1.0, abs=4.5 * math.sqrt(2 / n))


def test_columns_that_determine_each_other_and_heavy_tails() -> None:
    g = torch.Generator().manual_seed(0)
    z = torch.randn(4000, 3, generator=g, dtype=torch.float64)
    heavy = z[:, :1] * (1 + 30 * (z[:, 1:2] > 2.2))
    x = torch.cat([heavy, heavy + 1e-4 * z[:, 1:2], heavy - 1e-4 * z[:, 2:], 50 * z[:, :1] ** 3], 1)
    mixture = fit_joint(x[:3000], x[3000:], g).to(torch.zeros(1, dtype=torch.float32))
    rows = x[:64].float()
    missing = torch.rand(64, 4, generator=g) < 0.5
    noise = KeyedNoise(0, ("a", "b", "c", "d"), torch.arange(64), torch.arange(3))
    given = mixture.conditional(rows, missing)
    draws = given.sample(noise)
    assert bool(torch.isfinite(draws).all()) and bool(torch.isfinite(given.log_marginal()).all())
    assert torch.equal(draws[:, ~missing], rows[~missing].expand(3, -1))
