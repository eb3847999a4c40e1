"""Probabilities of ordered levels against differences of the logistic distribution function."""

from __future__ import annotations

import torch

from vgi_cli.maths.cumulative import ordered_log_probs


def log_between(cuts: torch.Tensor) -> torch.Tensor:
    return torch.log(-torch.expm1(-cuts.diff(dim=-1)))


def test_they_are_the_differences_of_sigmoids() -> None:
    cuts = torch.randn(5, 3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).sort(-1).values
    below = torch.nn.functional.pad(torch.sigmoid(cuts), (1, 0))
    expected = torch.nn.functional.pad(below, (0, 1), value=1.0).diff(dim=-1)
    torch.testing.assert_close(ordered_log_probs(cuts, log_between(cuts)).exp(), expected)
    whole = torch.full((3, 1), 5)
    torch.testing.assert_close(ordered_log_probs(cuts, log_between(cuts), whole).exp(), expected)


def test_nothing_is_lost_far_from_the_cutpoints() -> None:
    cuts = torch.tensor([800.0, 801.0], dtype=torch.float64)
    got = ordered_log_probs(cuts, log_between(cuts))
    expected = torch.tensor([0.0, -800.0 + torch.log1p(-torch.exp(torch.tensor(-1.0))).item(), -801.0])
    torch.testing.assert_close(got, expected.double())


def test_levels_beyond_the_count_cannot_be() -> None:
    """Dimensions of 2 and 3 levels beside one of 4; gradients stay finite."""
    cuts = torch.tensor([[-0.5, 0.3, 1.0]] * 3, dtype=torch.float64, requires_grad=True)
    got = ordered_log_probs(cuts, log_between(cuts), torch.tensor([[2], [3], [4]]))
    torch.testing.assert_close(got.exp().sum(-1), torch.ones(3, dtype=torch.float64))
    for row, count in enumerate((2, 3, 4)):
        own = cuts[row, : count - 1]
        torch.testing.assert_close(got[row, :count], ordered_log_probs(own, log_between(own)))
        assert bool(torch.isinf(got[row, count:]).all())
    got[torch.isfinite(got)].sum().backward()
    assert cuts.grad is not None and bool(torch.isfinite(cuts.grad).all())
