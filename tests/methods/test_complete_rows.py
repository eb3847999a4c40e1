"""Fits to complete rows, by EM and by gradients, against scikit-learn: the same likelihood, the same parameters."""

from __future__ import annotations

import numpy as np
import torch
from sklearn.decomposition import FactorAnalysis as Reference
from sklearn.mixture import GaussianMixture as ReferenceMixture
from torch import Tensor

from vgi_cli.data import make_table
from vgi_cli.layout import Layout
from vgi_cli.methods.em.steps import climb
from vgi_cli.methods.gradient import COMPLETE
from vgi_cli.methods.optimisation import AscentConfig
from vgi_cli.models.gaussian.fa import FaConfig, FactorAnalysis
from vgi_cli.models.gaussian.family import em_table
from vgi_cli.models.gaussian.mixture import GaussianMixture, MixtureConfig


def fa() -> FactorAnalysis:
    return FactorAnalysis.build(FaConfig(factors=2), Layout.plain(5)).double()


def complete_rows() -> Tensor:
    g = torch.Generator().manual_seed(4)
    x = torch.randn(600, 2, generator=g, dtype=torch.float64) @ torch.randn(2, 5, generator=g, dtype=torch.float64)
    return x + 0.6 * torch.randn(600, 5, generator=g, dtype=torch.float64)


def test_em_on_complete_rows_is_scikit_learns_factor_analysis() -> None:
    x = complete_rows()
    model = fa()
    model.initialise(x, torch.Generator())
    climb(
        model,
        em_table(x, torch.zeros_like(x, dtype=torch.bool)),
        model.penalty(None, 1e-9),
        epochs=3000,
        tolerance=1e-12,
    )
    reference = Reference(2, tol=1e-7, max_iter=20000, svd_method="lapack").fit(x.numpy())
    assert abs(model.log_prob(x).mean().item() - reference.score(x.numpy())) < 1e-6
    F = reference.components_
    mine = torch.linalg.inv(model.gaussians.precision()[0][0]).detach().numpy()
    np.testing.assert_allclose(mine, F.T @ F + np.diag(reference.noise_variance_), atol=2e-4)


def test_gradients_on_complete_rows_reach_scikit_learns_factor_analysis() -> None:
    x = complete_rows()
    config = AscentConfig.model_validate({"epochs": 40, "optim": {"batch_size": 64}})
    state = COMPLETE.init(fa(), make_table(x, torch.zeros_like(x, dtype=torch.bool)), config, torch.Generator())
    for _ in COMPLETE.run(state):
        pass
    reference = Reference(2, tol=1e-3, max_iter=20000, svd_method="lapack").fit(x.numpy())
    assert abs(state.model.log_prob(x).mean().item() - reference.score(x.numpy())) < 1e-3


def test_em_on_complete_rows_is_scikit_learns_gaussian_mixture() -> None:
    x = complete_rows()
    x[:250] += torch.tensor([4.0, -3.0, 2.0, 0.0, 5.0], dtype=torch.float64)
    model = GaussianMixture.build(MixtureConfig(components=2), Layout.plain(5)).double()
    model.initialise(x, torch.Generator().manual_seed(0))
    penalty = model.penalty(0.0, 1e-9)._replace(common=0.0, mean=0.0, weight=0.0)
    climb(model, em_table(x, torch.zeros_like(x, dtype=torch.bool)), penalty, epochs=2000, tolerance=1e-12)
    reference = ReferenceMixture(2, tol=1e-12, max_iter=5000, reg_covar=1e-9, random_state=0).fit(x.numpy())
    assert abs(model.log_prob(x).mean().item() - reference.score(x.numpy())) < 1e-6
    order = np.argsort(reference.weights_)
    mine = model.log_weights().exp().detach().numpy()
    np.testing.assert_allclose(mine[np.argsort(mine)], reference.weights_[order], atol=1e-5)
    centres = model.gaussians.mean.detach().numpy()[np.argsort(mine)]
    np.testing.assert_allclose(centres, reference.means_[order], atol=1e-4)
