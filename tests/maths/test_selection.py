"""Covariances of columns that are never observed together."""

from __future__ import annotations

import pytest
import torch
from scipy.optimize import minimize
from torch import Tensor

from vgi_cli.maths import selection
from vgi_cli.maths.selection import TOGETHER, independent_given_others, pairs_apart


def covariances(K: int, D: int) -> Tensor:
    scale = torch.logspace(-2, 2, D, dtype=torch.float64)
    draw = torch.randn(K, D, 3 * D, dtype=torch.float64, generator=torch.Generator().manual_seed(D))
    return scale[:, None] * (draw @ draw.mT) * scale


@pytest.mark.parametrize("pairs", [[[0, 4]], [[1, 3], [1, 4], [2, 3], [2, 4]], [[0, 1], [1, 2], [2, 3], [0, 3]]])
def test_inverses_are_zero_at_the_pairs_and_other_entries_stay(pairs: list[list[int]]) -> None:
    """One pair, two blocks that one pass suffices for, and a ring that takes rounds."""
    given, apart = covariances(3, 5), torch.tensor(pairs)
    found = independent_given_others(given, apart)
    torch.testing.assert_close(found, found.mT)
    assert bool((torch.linalg.eigvalsh(found) > 0).all())
    sd = found.diagonal(dim1=-2, dim2=-1).sqrt()
    precision = torch.linalg.inv(found) * sd[:, :, None] * sd[:, None, :]
    torch.testing.assert_close(
        precision[:, apart[:, 0], apart[:, 1]], torch.zeros(3, len(pairs)).double(), atol=1e-7, rtol=0
    )
    same = torch.ones(5, 5, dtype=torch.bool)
    same[apart[:, 0], apart[:, 1]] = same[apart[:, 1], apart[:, 0]] = False
    torch.testing.assert_close(found[:, same], given[:, same])


def test_the_determinant_is_the_largest() -> None:
    """Beside a search by another library."""
    (given,) = covariances(1, 4)
    pairs = torch.tensor([[0, 2], [1, 3]])
    (found,) = independent_given_others(given[None], pairs)

    def lost(entries: list[float]) -> float:
        one = given.clone()
        for (i, j), value in zip(pairs.tolist(), entries, strict=True):
            one[i, j] = one[j, i] = value * float((given[i, i] * given[j, j]).sqrt())
        values = torch.linalg.eigvalsh(one / torch.outer(given.diagonal().sqrt(), given.diagonal().sqrt()))
        return float("inf") if float(values[0]) <= 0 else -float(values.log().sum())

    best = minimize(lost, [0.0, 0.0], method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12})
    sd = given.diagonal().sqrt()
    correlation = (found / torch.outer(sd, sd))[pairs[:, 0], pairs[:, 1]]
    torch.testing.assert_close(correlation, torch.tensor(best.x), atol=1e-6, rtol=0)


def test_pairs_are_those_that_chance_would_put_together(monkeypatch: pytest.MonkeyPatch) -> None:
    n = 4 * TOGETHER
    missing = torch.zeros(n, 4, dtype=torch.bool)
    missing[: n // 2, 1] = missing[n // 2 :, 2] = True
    missing[:, 3] = True
    missing[0, 3] = False  # one cell: none of 1 is beside it, as would be by chance
    assert pairs_apart(missing).tolist() == [[1, 2]]
    with monkeypatch.context() as patch:
        patch.setattr(selection, "ROWS", 7)
        assert pairs_apart(missing).tolist() == [[1, 2]]
    missing[0, 1] = False  # one row has both
    assert pairs_apart(missing).tolist() == []
    few = missing[n // 2 - 4 : n // 2 + 4]  # of eight rows chance would put two together
    assert pairs_apart(few).tolist() == []
