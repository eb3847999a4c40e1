"""Pseudo-Gibbs imputation targets what q defines: exact for exact q, off by a known amount for a shifted q."""

from __future__ import annotations

import math

import pytest
import torch

from tests.oracles import GaussianConditionals, gaussian_conditional
from tests.samplers.chains_setup import D, make_setup, noise_for, unbounded
from vgi_cli.samplers.base import impute
from vgi_cli.samplers.gibbs import GibbsImputer
from vgi_cli.samplers.starts import EmpiricalStart

pytestmark = pytest.mark.full_fits("samplers.lengths.MOST_ROUNDS")


@pytest.mark.parametrize("shift", [0.0, 0.5])
def test_stationary_mean_and_covariance(shift: float) -> None:
    """Conditional means off by c: Gibbs keeps its covariance and has the mean m with P (m - mu) = c diag(P)."""
    s = make_setup(300, seed=1)
    row, holes = s.full[5:6], torch.tensor([[True, True, False, False]])
    mean, cov = gaussian_conditional(s.model, row[0], holes[0])
    precision = torch.linalg.inv(cov)
    expected = mean + cov @ (shift * precision.diagonal())
    n = 2000
    imputer = GibbsImputer(
        GaussianConditionals(s.model.mean, s.model.covariance, shift), EmpiricalStart(s.x, s.missing), 40
    )
    out = impute(imputer, row.masked_fill(holes, 0.0), holes, noise_for(1, n), s.box)[:, 0]
    assert (out[:, 2:] == row[0, 2:]).all()
    got = out[:, :2]
    assert ((got.mean(0) - expected).abs() < 4 * (cov.diagonal() / n).sqrt()).all()
    assert ((got.mT.cov() - cov).abs() < 6 * cov.diagonal().max() * math.sqrt(2 / n)).all()
    assert imputer.diagnostics() == {"draws": n * 2 * 40, "outside_range": 0}


def test_stays_in_the_box_and_counts() -> None:
    s = make_setup(100, seed=1)
    box = unbounded(D)
    box.low[:] = -0.5
    box.high[:] = 0.5
    imputer = GibbsImputer(GaussianConditionals(s.model.mean, s.model.covariance), EmpiricalStart(s.x, s.missing))
    out = impute(imputer, s.x, s.missing, noise_for(100, 2), box)
    assert box.contains(out)[:, s.missing].all()
    assert imputer.diagnostics()["outside_range"] > 0


def test_draws_do_not_depend_on_batch_or_number_of_draws() -> None:
    s = make_setup(300, seed=2)
    noise = noise_for(300, 3)
    q = GaussianConditionals(s.model.mean, s.model.covariance)

    def run(rows: torch.Tensor, draws: int) -> torch.Tensor:
        part = noise.select(rows=rows, draws=torch.arange(draws))
        return impute(GibbsImputer(q, EmpiricalStart(s.x, s.missing)), s.x[rows], s.missing[rows], part, s.box)

    every = run(torch.arange(300), 3)
    pick = torch.tensor([280, 3])
    assert torch.equal(run(pick, 2), every[:2, pick])


def test_nothing_to_do() -> None:
    s = make_setup(3)
    imputer = GibbsImputer(GaussianConditionals(s.model.mean, s.model.covariance), EmpiricalStart(s.x, s.missing))
    out = impute(imputer, s.full, torch.zeros_like(s.missing), noise_for(3, 1), s.box)
    assert torch.equal(out[0], s.full) and imputer.diagnostics() == {}
