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
