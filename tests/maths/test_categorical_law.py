"""The law of a level: draws, probabilities and entropy against torch.distributions, and its wider form."""

from __future__ import annotations

import pytest
import torch

from vgi_cli.maths.laws import CategoricalLaw

LOGITS = torch.tensor([[0.3, -1.0, 2.0, 0.0], [-torch.inf, 0.0, 1.0, -0.5]], dtype=torch.float64)


def test_probabilities_and_entropy_are_those_of_torch() -> None:
    law, theirs = CategoricalLaw.of_logits(LOGITS), torch.distributions.Categorical(logits=LOGITS)
    levels = torch.arange(4, dtype=torch.float64)[:, None]
    assert torch.allclose(law.log_prob(levels).exp(), theirs.probs.T)
    entropy = law.entropy()
    assert entropy is not None and torch.allclose(entropy, theirs.entropy())
    points = law.enumerate()
    assert points is not None and torch.equal(points.value[:, 0], levels[:, 0])
    assert torch.allclose(points.log_prob.exp(), theirs.probs.T)


@pytest.mark.parametrize("share", [0.0, 0.4])
def test_draws_have_the_probabilities_that_are_stated(share: float) -> None:
    law = CategoricalLaw.of_logits(LOGITS)
    law = law.widened(share) if share else law
    noise = torch.randn(200_000, 1, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    draws = law.draw(noise)
    for level in range(4):
        expected = law.log_prob(torch.full((2,), float(level), dtype=torch.float64)).exp()
        assert torch.allclose((draws == level).double().mean(0), expected, atol=0.005)
    assert bool((draws[:, 1] > 0).all())  # a level that cannot be


@pytest.mark.parametrize("value", [-40.0, 40.0])
def test_the_ends_of_the_noise_give_a_level_that_can_be(value: float) -> None:
    draw = CategoricalLaw.of_logits(LOGITS[1]).draw(torch.tensor([value], dtype=torch.float64))
    assert draw.item() in (1.0, 3.0)


@pytest.mark.parametrize("levels", [5, 16, 30])
def test_few_points_have_the_mean_of_the_law_and_its_gradient(levels):
    """Up to 16 levels exactly, whatever the noise; of 30 on average over the noise, with 16 evaluations."""
    g = torch.Generator().manual_seed(levels)
    logits = (1.5 * torch.randn(levels, dtype=torch.float64, generator=g)).requires_grad_()
    f = 3.0 + torch.randn(levels, dtype=torch.float64, generator=g)
    law = CategoricalLaw.of_logits(logits)
    exact = (law.log_probs.exp() * (f - law.log_probs)).sum()
    (wanted,) = torch.autograd.grad(exact, logits, retain_graph=True)
    u = (torch.arange(2000, dtype=torch.float64) + 0.5) / 2000  # the noise on a fine grid: an average without noise
    noise = torch.special.ndtri(u)[:, None]
    many = CategoricalLaw.of_logits(logits.expand(2000, -1))
    points = many.quadrature(noise)
    assert len(points.weight) == min(levels, 16)
    values = points.mean(f[points.value.long()])
    (got,) = torch.autograd.grad(values.mean(), logits, retain_graph=True)
    tight = levels <= 16
    torch.testing.assert_close(values.mean(), exact, atol=1e-9 if tight else 2e-3, rtol=0)
    torch.testing.assert_close(got, wanted, atol=1e-9 if tight else 2e-3, rtol=0)
    if tight:
        assert float(values.detach().std()) < 1e-9
    else:
        plain = f[many.draw(noise).long()]
        assert 0 < float(values.detach().var()) < 0.2 * float(plain.var())


def test_a_level_that_cannot_be_has_no_part_in_value_or_gradient():
    logits = torch.tensor([0.3, -torch.inf, 1.0], dtype=torch.float64, requires_grad=True)
    law = CategoricalLaw(torch.log_softmax(logits, -1))
    points = law.quadrature(torch.zeros(1, dtype=torch.float64))
    total = points.mean(torch.tensor([1.0, torch.nan, 2.0], dtype=torch.float64))
    (gradient,) = torch.autograd.grad(total, logits)
    assert bool(torch.isfinite(gradient).all()) and points.used.tolist() == [True, False, True]
