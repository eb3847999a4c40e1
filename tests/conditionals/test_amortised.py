"""Conditionals of single columns: widened laws, draws, and what they start from. All: contracts/test_families.py."""

import pytest
import torch

from tests.contracts.test_families import LAYOUTS, D, conditionals, rows
from vgi_cli.maths.laws import normal_log_prob
from vgi_cli.registry.names import FAMILIES

every = pytest.mark.parametrize("family", FAMILIES)


@every
@pytest.mark.parametrize("extended", [False, True])
def test_a_widened_law_is_a_mixture_of_itself_and_a_wide_one(family, extended):
    q = conditionals(family, extended=extended)
    x, missing, _ = rows(3)
    law = q.law(x, missing, torch.tensor([1, 1, 0]))
    value = torch.tensor([0.3, -2.0, 1.1], dtype=torch.float64)
    base, log_det = law.to_base(value)
    mixture = 0.95 * normal_log_prob(base).exp() + 0.05 * normal_log_prob(base / 3).exp() / 3
    torch.testing.assert_close(law.widened().log_prob(value), mixture.log() + log_det)
    narrow, wide = (torch.tensor([[0.7, second]] * 3, dtype=torch.float64) for second in (5.0, -5.0))
    for noise, factor in ((narrow, 1.0), (wide, 3.0)):  # the second number chooses
        torch.testing.assert_close(law.widened().draw(noise), law.draw(factor * noise[:, :1]))


@every
@pytest.mark.parametrize("extended", [False, True])
def test_a_draw_changes_one_column(family, extended):
    q = conditionals(family, extended=extended)
    x, missing, g = rows(50)
    j = torch.randint(D, (50, 3), generator=g)
    value = q.law(x, missing, j).draw(torch.randn(50, 3, q.fresh_width, generator=g, dtype=torch.float64))
    new = q.put(x[:, None], j, value)
    assert torch.equal(new != x[:, None], torch.arange(D) == j[..., None])
    assert torch.equal(new.gather(2, j[..., None])[..., 0], value) and torch.equal(q.at(x, j), x.gather(1, j))


@every
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_conditional_starts_standard_normal(family, layout):
    q = conditionals(family, layout)
    q.initialise(torch.Generator().manual_seed(0))
    x, missing, _ = rows(9)
    j = torch.arange(9)[:, None] % D
    log_q = q.law(x, missing, j, hidden=True).log_prob(q.at(x, j))
    torch.testing.assert_close(log_q, normal_log_prob(x.gather(1, j)), rtol=1e-9, atol=1e-9)


def test_same_generator_same_parameters():
    a, b, c = (conditionals("spline", "shared", True, seed) for seed in (3, 3, 4))
    assert all(torch.equal(p, r) for p, r in zip(a.parameters(), b.parameters(), strict=True))
    assert not all(torch.equal(p, r) for p, r in zip(a.parameters(), c.parameters(), strict=True))
