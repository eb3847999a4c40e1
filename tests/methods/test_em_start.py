"""f0 by EM: draws follow the conditional Gaussian that generated the table."""

import pytest
import torch

from vgi_cli.data import make_table
from vgi_cli.methods import start
from vgi_cli.methods.start import gaussian_draws


@pytest.mark.full_fits
def test_draws_follow_the_conditional_distribution():
    g = torch.Generator().manual_seed(0)
    a = torch.randn(3000, generator=g, dtype=torch.float64)
    x = torch.stack([a, 0.9 * a + 0.3 * torch.randn(3000, generator=g, dtype=torch.float64)], 1)
    missing = torch.zeros(3000, 2, dtype=torch.bool)
    missing[:1500, 1] = True
    draws = gaussian_draws(make_table(x, missing), 4, g)
    assert draws.shape == (1500, 4)
    residual = draws - 0.9 * a[:1500, None]
    assert abs(residual.mean().item()) < 0.03
    assert abs(residual.std().item() - 0.3) < 0.03
    within = torch.corrcoef(residual.T)[0, 1].abs()
    assert within < 0.1  # the K draws of a cell are independent given the row


def test_many_columns_and_fully_missing_rows():
    g = torch.Generator().manual_seed(1)
    x = torch.randn(60, 80, generator=g, dtype=torch.float64)
    missing = torch.rand(60, 80, generator=g) < 0.3
    missing[0] = True
    draws = gaussian_draws(make_table(x, missing), 2, g)
    assert draws.shape == (int(missing.sum()), 2) and bool(torch.isfinite(draws).all())


def test_pieces_of_rows_change_nothing(monkeypatch):
    g = torch.Generator().manual_seed(2)
    x = torch.randn(90, 3, generator=g, dtype=torch.float64)
    table = make_table(x, torch.rand(90, 3, generator=g) < 0.4)
    whole = gaussian_draws(table, 2, torch.Generator().manual_seed(0))
    monkeypatch.setattr(start, "ROWS", 7)
    pieces = gaussian_draws(table, 2, torch.Generator().manual_seed(0))
    torch.testing.assert_close(pieces, whole, rtol=0, atol=1e-10)
