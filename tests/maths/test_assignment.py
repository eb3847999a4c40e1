"""The assignment of least cost against every permutation and against scipy."""

from __future__ import annotations

import itertools

import pytest
import scipy.optimize
import torch

from vgi_cli.maths.assignment import assignment


@pytest.mark.parametrize("seed", range(30))
def test_no_permutation_is_cheaper(seed: int) -> None:
    g = torch.Generator().manual_seed(seed)
    K = 1 + seed % 6
    cost = torch.randn(K, K, generator=g, dtype=torch.float64)
    found = assignment(cost)
    assert sorted(found) == list(range(K))
    best = min(sum(float(cost[i, j]) for i, j in enumerate(p)) for p in itertools.permutations(range(K)))
    assert sum(float(cost[i, j]) for i, j in enumerate(found)) == pytest.approx(best, abs=1e-12)


@pytest.mark.parametrize("K", [20, 60])
def test_many_are_assigned_as_by_scipy(K: int) -> None:
    cost = torch.rand(K, K, generator=torch.Generator().manual_seed(K), dtype=torch.float64).square()
    assert assignment(cost) == scipy.optimize.linear_sum_assignment(cost.numpy())[1].tolist()


def test_ties_and_nothing() -> None:
    assert sorted(assignment(torch.zeros(4, 4))) == [0, 1, 2, 3]
    assert assignment(torch.zeros(0, 0)) == []
