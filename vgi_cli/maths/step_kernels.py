"""Loops that numba compiles, for float64 on a CPU: what a step of EM does with a few small matrices, the parameters of
K Gaussians with full covariances. By torch each is dozens of operations that take longer to begin than to compute.
Importing this file needs numba; `compiled.py` asks for the loops.

The parameters lie as in `models/gaussian/full.py`, which says what is computed: means [K, D]; tril [K, D, D], lower
Cholesky factors of the covariances with the logarithm of the diagonal.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numba
import numpy as np

from vgi_cli.maths.kernels import compiled, inlined

_VECTOR, _MATRIX, _CUBE = numba.float64[::1], numba.float64[:, ::1], numba.float64[:, :, ::1]


@inlined
def _factor(tril: Any, L: Any) -> None:
    for i in range(len(L)):
        for j in range(i):
            L[i, j] = tril[i, j]
        L[i, i] = math.exp(tril[i, i])


@inlined
def _inverse(L: Any, V: Any) -> None:
    """V = L^-1, lower."""
    for j in range(len(L)):
        V[j, j] = 1.0 / L[j, j]
        for i in range(j + 1, len(L)):
            total = 0.0
            for t in range(j, i):
                total += L[i, t] * V[t, j]
            V[i, j] = -total / L[i, i]


@inlined
def _gram(V: Any, P: Any) -> None:
    """P = V' V of a lower V."""
    D = len(V)
    for i in range(D):
        for j in range(i + 1):
            total = 0.0
            for t in range(i, D):
                total += V[t, i] * V[t, j]
            P[i, j] = total
            P[j, i] = total


@inlined
def _cholesky(A: Any, L: Any) -> Any:
    """The lower factor of A, of which the lower triangle is looked at; False where A is not positive definite."""
    for i in range(len(A)):
        for j in range(i + 1):
            total = A[i, j]
            for t in range(j):
                total -= L[i, t] * L[j, t]
            if i > j:
                L[i, j] = total / L[j, j]
            elif total > 0.0 and total < math.inf:
                L[i, i] = math.sqrt(total)
            else:
                return False
    return True


@inlined
def _solve(L: Any, b: Any) -> None:
    """b = (L L')^-1 b of a lower L, in place."""
    D = len(b)
    for i in range(D):
        for t in range(i):
            b[i] -= L[i, t] * b[t]
        b[i] /= L[i, i]
    for back in range(D):
        i = D - 1 - back
        for t in range(i + 1, D):
            b[i] -= L[t, i] * b[t]
        b[i] /= L[i, i]


@inlined
def _common(tril: Any, variance: Any, pooling: Any, tau: Any, work: Any, W: Any) -> Any:
    """W, what the covariances have in common, and the sum of the precisions into work[3]; False where a matrix is not
    positive definite."""
    L, V, P, total = work[0], work[1], work[2], work[3]
    K, D = len(tril), len(variance)
    for k in range(K):
        _factor(tril[k], L)
        _inverse(L, V)
        _gram(V, P)
        for i in range(D):
            for j in range(D):
                total[i, j] = P[i, j] if k == 0 else total[i, j] + P[i, j]
    if pooling == 0.0:
        for i in range(D):
            for j in range(D):
                W[i, j] = variance[i] if i == j else 0.0
        return True
    for i in range(D):
        for j in range(i + 1):
            own = tau / variance[i] if i == j else 0.0
            P[i, j] = (pooling * total[i, j] + own) / (K * pooling + tau)
    if not _cholesky(P, L):
        return False
    _inverse(L, V)
    _gram(V, W)
    return True


def penalty(mean: Any, tril: Any, centre: Any, variance: Any, weights: Any) -> Any:
    """The penalty of `FullGaussians.log_penalty`; NaN where a matrix is not positive definite.

    mean, tril        the parameters
    centre, variance  [D] of the columns
    weights           [4] pooling, tau, mean, floor
    """
    K, D = mean.shape
    pooling, tau, kappa, floor = weights
    work, W = np.empty((4, D, D)), np.empty((D, D))
    if not _common(tril, variance, pooling, tau, work, W):
        return math.nan
    L, together = work[0], work[3]
    logdet = square = pull = floored = 0.0
    for k in range(K):
        for i in range(D):
            logdet += 2.0 * tril[k, i, i]
            square += (mean[k, i] - centre[i]) ** 2 / variance[i]
    if not _cholesky(W, L):
        return math.nan
    prior = 0.0
    for i in range(D):
        prior += 2.0 * (K * pooling + tau) * math.log(L[i, i]) - tau * W[i, i] / variance[i]
        floored += together[i, i] * variance[i]
        for j in range(D):
            pull += together[i, j] * W[i, j]
    return 0.5 * (prior - pooling * (logdet + pull) - floor * floored - kappa * square)


def maximise(
    mean: Any, tril: Any, centre: Any, variance: Any, weights: Any, count: Any, first: Any, second: Any
) -> Any:
    """The step of `FullGaussians.maximise`, in place; False, and nothing is changed, where a matrix is not positive
    definite.

    count, first, second  [K], [K, D], [K, D, D] the statistics
    the others            as of `penalty`
    """
    K, D = mean.shape
    pooling, tau, kappa, floor = weights
    work, W = np.empty((4, D, D)), np.empty((D, D))
    if not _common(tril, variance, pooling, tau, work, W):
        return False
    L, A, V, P = work[0], work[1], work[2], work[3]
    means, factors, shift = np.empty((K, D)), np.empty((K, D, D)), np.empty(D)
    for k in range(K):
        n = count[k]
        _factor(tril[k], L)
        _inverse(L, V)
        _gram(V, P)
        for i in range(D):
            shift[i] = kappa / variance[i] * (centre[i] - mean[k, i])
            for j in range(D):
                shift[i] += P[i, j] * first[k, j]
                A[i, j] = n * P[i, j]
            A[i, i] += kappa / variance[i]
        if not _cholesky(A, L):
            return False
        _solve(L, shift)
        for i in range(D):
            means[k, i] = mean[k, i] + shift[i]
        for i in range(D):
            for j in range(i + 1):
                own = second[k, i, j] - first[k, i] * shift[j] - shift[i] * first[k, j] + n * shift[i] * shift[j]
                own += pooling * W[i, j]
                if i == j:
                    own += floor * variance[i]
                A[i, j] = own / (n + pooling)
        if not _cholesky(A, L):
            return False
        for i in range(D):
            for j in range(i):
                factors[k, i, j] = L[i, j]
            factors[k, i, i] = math.log(L[i, i])
    for k in range(K):
        for i in range(D):
            mean[k, i] = means[k, i]
            for j in range(D):
                tril[k, i, j] = factors[k, i, j] if j <= i else 0.0
    return True


def laws(mean: Any, tril: Any, lanes: Any, precision: Any, covariance: Any, logdet: Any) -> None:
    """Gaussians as the loops of `row_kernels.py` read them, the last lanes filled up by the last one.

    Written: lanes [D, filled], the means; precision, covariance [D, D, filled]; logdet [filled] of the latter
    """
    (K, D), filled = mean.shape, len(logdet)
    L, V, P = np.empty((D, D)), np.empty((D, D)), np.empty((D, D))
    for lane in range(filled):
        k = min(lane, K - 1)
        if lane < K:
            _factor(tril[k], L)
            _inverse(L, V)
            _gram(V, P)
        total = 0.0
        for i in range(D):
            lanes[i, lane] = mean[k, i]
            total += 2.0 * tril[k, i, i]
            for j in range(i + 1):
                value = 0.0
                for t in range(j + 1):
                    value += L[i, t] * L[j, t]
                precision[i, j, lane] = P[i, j]
                precision[j, i, lane] = P[i, j]
                covariance[i, j, lane] = value
                covariance[j, i, lane] = value
        logdet[lane] = total


_SHARED = (_MATRIX, _CUBE, _VECTOR, _VECTOR, _VECTOR)
LOOPS: dict[str, tuple[Callable[..., Any], Any]] = {
    "penalty": (penalty, numba.float64(*_SHARED)),
    "maximise": (maximise, numba.boolean(*_SHARED, _VECTOR, _MATRIX, _CUBE)),
    "laws": (laws, numba.void(_MATRIX, _CUBE, _MATRIX, _CUBE, _CUBE, _VECTOR)),
}


def compiled_loop(name: str) -> Any:
    """One of them, compiled."""
    function, signature = LOOPS[name]
    return compiled(function, signature)
