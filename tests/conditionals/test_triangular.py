"""Small triangular systems against the library's routines, with their gradients."""

import pytest
import torch

from vgi_cli.conditionals.families.joint import cholesky_upper, solve_upper, solve_upper_transposed


@pytest.mark.parametrize("W", [1, 2, 5])
def test_systems_agree_with_the_library(W):
    g = torch.Generator().manual_seed(W)
    F = torch.randn(3, 4, W, W, generator=g, dtype=torch.float64)
    P = (F @ F.mT + torch.eye(W, dtype=torch.float64)).requires_grad_()
    b = torch.randn(3, 4, W, generator=g, dtype=torch.float64, requires_grad=True)
    U = cholesky_upper(P, 1e-12)
    expected = torch.linalg.cholesky(P, upper=True)
    torch.testing.assert_close(U, expected)
    own = [solve_upper(U, b), solve_upper_transposed(U, b)]
    other = [
        torch.linalg.solve_triangular(expected, b[..., None], upper=True)[..., 0],
        torch.linalg.solve_triangular(expected.mT, b[..., None], upper=False)[..., 0],
    ]
    for x, y in zip(own, other, strict=True):
        torch.testing.assert_close(x, y)
        ours, theirs = (torch.autograd.grad(v.square().sum(), (P, b), retain_graph=True) for v in (x, y))
        torch.testing.assert_close(ours[0] + ours[0].mT, theirs[0] + theirs[0].mT)
        torch.testing.assert_close(ours[1], theirs[1])


def test_a_matrix_that_rounding_has_spoilt_gives_a_factor():
    P = torch.ones(1, 3, 3)  # singular: the last pivots would be 0 or less
    U = cholesky_upper(P, 1e-5)
    assert bool(torch.isfinite(U).all()) and U[0].diagonal().square().tolist() == pytest.approx([1, 1e-5, 1e-5])
