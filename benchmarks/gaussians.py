"""Gaussians in data units: that of a fitted factor analysis, and how far two are apart."""

from __future__ import annotations

import numpy as np
import torch

from vgi_cli.fitting.fitted import FittedTable


def gaussian(fitted: FittedTable) -> tuple[np.ndarray, np.ndarray]:
    """Mean [D] and covariance [D, D] of a fitted fa model in data units, from the affine map that encoding is."""
    model = fitted.model
    with torch.no_grad():
        F, psi = model.F.double(), model.log_psi.double().exp()
        covariance, mean = (F @ F.T + torch.diag(psi)).numpy(), model.mean.double().numpy()
    scale = [column.scale for column in fitted.schema.encoded]
    sd, centre = np.array([s.sd for s in scale]), np.array([s.mean for s in scale])
    return centre + sd * mean, sd[:, None] * covariance * sd


def divergence(true_mean: np.ndarray, true_covariance: np.ndarray, mean: np.ndarray, covariance: np.ndarray) -> float:
    """KL(truth || N(mean, covariance)), nats."""
    shift = true_mean - mean
    inverse = np.linalg.inv(covariance)
    logs = np.linalg.slogdet(covariance)[1] - np.linalg.slogdet(true_covariance)[1]
    return float(0.5 * ((inverse * true_covariance).sum() - len(mean) + shift @ inverse @ shift + logs))
