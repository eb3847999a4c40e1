"""Padded precisions and factor posteriors against dense formulas and scipy, pattern by pattern."""

from __future__ import annotations

import pytest
import torch
from scipy.stats import multivariate_normal
from torch import Tensor

from vgi_cli.maths.gaussian import (
    apply_by_pattern,
    distinct_rows,
    factor_posterior,
    factor_precision,
    greatest,
    hole_covariance,
    observed_precision,
    patterns_of,
)

D, R = 5, 40


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


def normal(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=generator)


def holes(generator: torch.Generator, rows: int = R) -> Tensor:
    missing = torch.rand(rows, D, generator=generator) < 0.5
    missing[0], missing[1] = True, False
    return missing


def test_patterns_give_back_the_mask(generator: torch.Generator) -> None:
    missing = holes(generator)
    patterns = patterns_of(missing)
    assert torch.equal(patterns.missing[patterns.of_row], missing)
    assert len(patterns.missing) == len({tuple(row) for row in missing.tolist()})


def test_padded_precision_is_the_inverse_of_the_observed_block(generator: torch.Generator) -> None:
    root = normal(generator, D, D)
    covariance = root @ root.mT + torch.eye(D, dtype=torch.float64)
    missing = holes(generator)
    padded, logdet = observed_precision(covariance, missing)
    for row, P, value in zip(missing, padded, logdet, strict=True):
        o = (~row).nonzero()[:, 0]
        block = covariance[o][:, o]
        torch.testing.assert_close(P[o][:, o], torch.linalg.inv(block), rtol=1e-10, atol=1e-12)
        assert not P[row].any() and not P[:, row].any()
        assert value.item() == pytest.approx(torch.logdet(block).item() if len(o) else 0.0, abs=1e-10)


def test_hole_covariance_is_the_inverse_of_the_missing_block(generator: torch.Generator) -> None:
    root = normal(generator, 2, D, D)
    precision = root @ root.mT + torch.eye(D, dtype=torch.float64)
    missing = holes(generator)
    padded, logdet = hole_covariance(precision, missing)
    for k in range(2):
        covariance = torch.linalg.inv(precision[k])
        for row, C, value in zip(missing, padded[k], logdet[k], strict=True):
            m, o = row.nonzero()[:, 0], (~row).nonzero()[:, 0]
            gain = covariance[m][:, o] @ torch.linalg.inv(covariance[o][:, o])
            expected = covariance[m][:, m] - gain @ covariance[o][:, m]
            torch.testing.assert_close(C[m][:, m], expected, rtol=1e-10, atol=1e-12)
            assert not C[~row].any() and not C[:, ~row].any()
            whole, block = torch.logdet(covariance), torch.logdet(covariance[o][:, o])
            assert (whole + value).item() == pytest.approx(block.item() if len(o) else 0.0, abs=1e-10)


def test_precision_refuses_an_indefinite_matrix() -> None:
    with pytest.raises(torch.linalg.LinAlgError, match="not positive-definite"):
        observed_precision(-torch.eye(2, dtype=torch.float64), torch.zeros(1, 2, dtype=torch.bool))
    with pytest.raises(torch.linalg.LinAlgError, match="not positive-definite"):
        hole_covariance(-torch.eye(2, dtype=torch.float64)[None], torch.ones(1, 2, dtype=torch.bool))


@pytest.mark.parametrize("rows", [7, 1400])  # gathered, one product a pattern; and each row its own matrix
def test_products_by_pattern(generator: torch.Generator, rows: int) -> None:
    matrices = normal(generator, 2, 4, 3, 3)
    of_row = torch.randint(4, (rows,), generator=generator)
    delta = normal(generator, 2, rows, 3)
    each = [
        torch.stack([m[u] @ row for u, row in zip(of_row.tolist(), d, strict=True)])
        for m, d in zip(matrices, delta, strict=True)
    ]
    expected = torch.stack(each)
    torch.testing.assert_close(apply_by_pattern(matrices, of_row, delta), expected, rtol=1e-13, atol=1e-13)
    own = apply_by_pattern(matrices[:, of_row], None, delta)
    torch.testing.assert_close(own, expected, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("L", [0, 1, 3])
def test_factor_posterior_against_dense_formulas(generator: torch.Generator, L: int) -> None:
    F, log_psi = normal(generator, 2, D, L), normal(generator, 2, D)
    delta, missing = normal(generator, 2, R, D), holes(generator)
    patterns = patterns_of(missing)
    posterior = factor_posterior(F, log_psi, delta, patterns)
    for k in range(2):
        covariance = F[k] @ F[k].mT + torch.diag(log_psi[k].exp())
        for r in range(R):
            o = (~missing[r]).nonzero()[:, 0]
            block, values = covariance[o][:, o], delta[k, r, o]
            expected = multivariate_normal.logpdf(values, cov=block) if len(o) else 0.0
            assert posterior.log_prob[k, r].item() == pytest.approx(expected, abs=1e-9)
            gain = F[k][o].mT @ torch.linalg.inv(block)
            torch.testing.assert_close(posterior.mean[k, r], gain @ values, rtol=1e-9, atol=1e-10)
            factor = posterior.cholesky[k, patterns.of_row[r]]
            expected_cov = torch.eye(L, dtype=torch.float64) - gain @ F[k][o]
            torch.testing.assert_close(torch.cholesky_inverse(factor), expected_cov, rtol=1e-8, atol=1e-10)


def test_factor_density_does_not_cancel_at_tiny_noise() -> None:
    F = torch.tensor([[[1.0], [1.0], [2.0]]], dtype=torch.float64)
    log_psi = torch.full((1, 3), -25.0, dtype=torch.float64)  # psi = 1.4e-11
    delta = torch.tensor([[[1.0, 1.0, 2.0]]], dtype=torch.float64)  # exactly on the line
    none = torch.zeros(1, 3, dtype=torch.bool)
    value = factor_posterior(F, log_psi, delta, patterns_of(none)).log_prob.item()
    # log N along the line (variance 6 + psi), and log N(0; 0, psi) twice across it
    psi = log_psi.exp()[0, 0].item()
    exact = -0.5 * (6 / (6 + psi) + torch.log(torch.tensor(6 + psi)).item() + 2 * -25.0 + 3 * 1.8378770664093453)
    assert value == pytest.approx(exact, abs=1e-7)


def test_factor_precision_inverts_the_covariance(generator: torch.Generator) -> None:
    F, log_psi = normal(generator, 3, D, 2), normal(generator, 3, D)
    precision, logdet = factor_precision(F, log_psi)
    covariance = F @ F.mT + torch.diag_embed(log_psi.exp())
    torch.testing.assert_close(precision, torch.linalg.inv(covariance), rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(logdet, torch.logdet(covariance), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("counts", [[2] * 8, [3, 7, 1, 51], [2] * 62, [2] * 70, [5]])
def test_distinct_rows_are_those_that_comparing_rows_finds(generator: torch.Generator, counts: list[int]) -> None:
    """By one number a row, and where that would need more than 63 bits."""
    rows = torch.stack([torch.randint(0, n, (R,), generator=generator) for n in counts], 1)
    rows = torch.cat([rows, rows[::3]])
    distinct, of_row = distinct_rows(rows, counts)
    assert torch.equal(distinct[of_row], rows)
    assert torch.equal(distinct, torch.unique(rows, dim=0))  # the same order
    assert distinct_rows(rows[:0], counts)[0].shape == (0, len(counts))


@pytest.mark.parametrize("L", [1, 3])
def test_the_greatest_eigenvectors_of_a_wide_matrix_are_those_of_all(L: int) -> None:
    F = torch.randn(2, 320, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(L)) * torch.tensor(
        [3, 2, 1]
    )
    matrices = F @ F.mT + torch.eye(320, dtype=torch.float64)
    values, vectors = greatest(matrices, L)
    every, each = torch.linalg.eigh(matrices)
    torch.testing.assert_close(values, every[:, -L:], rtol=1e-9, atol=0)
    torch.testing.assert_close((vectors * each[:, :, -L:]).sum(1).abs(), torch.ones(2, L).double(), rtol=1e-9, atol=0)


def test_the_greatest_eigenvectors_are_the_same_every_time() -> None:
    """Of eigenvalues that are equal any vectors will do, but always the same ones; nothing breaks on zeros."""
    block = torch.block_diag(*[0.5 * torch.eye(20, dtype=torch.float64) + 0.5] * 20)
    for matrix in (block, torch.eye(400, dtype=torch.float64), torch.zeros(400, 400, dtype=torch.float64)):
        values, vectors = greatest(matrix[None], 5)
        assert torch.equal(greatest(matrix[None], 5)[1], vectors)
        torch.testing.assert_close(values, torch.linalg.eigvalsh(matrix)[None, -5:])
        torch.testing.assert_close(vectors[0].mT @ vectors[0], torch.eye(5, dtype=torch.float64))
