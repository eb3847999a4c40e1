"""Odds of a level times a factor: the law that comes out, and how few draws change."""

from __future__ import annotations

import pytest
import torch

from vgi_cli.maths.odds import redrawn, tilted

LAW = torch.tensor([0.2, 0.5, 0.3], dtype=torch.float64)


@pytest.mark.parametrize("factor", [0.25, 1.0, 4.0])
@pytest.mark.parametrize("level", [0, 2])
def test_redrawn_draws_have_the_other_odds(factor: float, level: int) -> None:
    other = tilted(LAW[None], level, factor)[0]
    assert float(other[level] / (1 - other[level])) == pytest.approx(factor * float(LAW[level] / (1 - LAW[level])))
    rest = [i for i in range(3) if i != level]
    assert float(other[rest[0]] / other[rest[1]]) == pytest.approx(float(LAW[rest[0]] / LAW[rest[1]]))
    u = (torch.arange(100_000, dtype=torch.float64) + 0.5) / 100_000
    after, kept = torch.zeros(3, dtype=torch.float64), 0.0
    for drawn in range(3):  # the expectation over u, level by level
        found = redrawn(torch.full_like(u, drawn), LAW.expand(len(u), 3), level, factor, u)
        after += LAW[drawn] * torch.bincount(found.long(), minlength=3) / len(u)
        kept += float(LAW[drawn] * (found == drawn).double().mean())
    torch.testing.assert_close(after, other, atol=2e-5, rtol=0)
    assert kept == pytest.approx(float(torch.minimum(LAW, other).sum()), abs=2e-5)  # no coupling changes fewer


def test_certain_levels_stay() -> None:
    sure, u = torch.tensor([[0.0, 1.0], [1.0, 0.0]], dtype=torch.float64), torch.tensor([0.3, 0.9], dtype=torch.float64)
    for factor in (1e-6, 1e6):
        drawn = torch.tensor([1.0, 0.0], dtype=torch.float64)
        assert redrawn(drawn, sure, 1, factor, u).tolist() == [1.0, 0.0]
