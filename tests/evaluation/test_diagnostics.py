"""Chain diagnostics against autoregressive chains with known autocorrelation."""

from __future__ import annotations

import pytest
import torch

from vgi_cli.evaluation.diagnostics import autocorrelation, effective_draws, remarks, split_rhat


def ar1(rho: float, L: int, chains: int, seed: int = 0) -> torch.Tensor:
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(L, chains, generator=g, dtype=torch.float64)
    for t in range(1, L):
        x[t] = rho * x[t - 1] + (1 - rho**2) ** 0.5 * x[t]
    return x


def test_autocorrelation_and_effective_draws_of_ar1() -> None:
    x = ar1(0.8, 4000, 8)
    for lag in (1, 3):
        assert float(autocorrelation(x, lag)) == pytest.approx(0.8**lag, abs=0.04)
    assert effective_draws(x) / x.numel() == pytest.approx(0.2 / 1.8, rel=0.15)
    assert effective_draws(ar1(0.0, 1000, 4)) / 4000 > 0.8
    assert float(autocorrelation(torch.ones(10, 2), 1)) == 0.0


def test_rhat() -> None:
    x = ar1(0.0, 500, 4)
    assert float(split_rhat(x)) == pytest.approx(1.0, abs=0.01)
    shifted = x + torch.tensor([0.0, 0.0, 0.0, 2.0])
    assert float(split_rhat(shifted)) > 1.2
    drifting = x + torch.linspace(0, 3, 500)[:, None]
    assert float(split_rhat(drifting)) > 1.2
    both = split_rhat(torch.stack([x, shifted], -1))
    torch.testing.assert_close(both, torch.stack([split_rhat(x), split_rhat(shifted)]))
    assert float(split_rhat(torch.ones(8, 2))) == 1.0
    assert float(split_rhat(torch.tensor([[0.0, 1.0]]).expand(8, 2))) == torch.inf
    with pytest.raises(ValueError, match="at least 4 states"):
        split_rhat(torch.zeros(3, 2))


def test_remarks() -> None:
    fine = {"acceptance_by_column": {"a": 0.9}, "memory": 0.1, "extended": 0.0}
    assert remarks(fine) == [] and remarks({}) == []
    found = remarks({"acceptance_by_column": {"a": 0.9, "b": 0.15, "c": 0.05}, "memory": 0.5, "extended": 0.75})
    assert len(found) == 3
    assert "in 2 columns (worst: 'c', 5%)" in found[0] and "mix slowly (correlation 0.50" in found[1]
    assert "75% of the chains were extended" in found[2]
