"""`mice`: multiple imputation by chained equations (van Buuren and Oudshoorn 2000; paper, section 2 and appendix).

Every round goes through the columns with holes in a random order, regresses the column on all others over the rows
where it is observed, draws ONE set of coefficients and one noise variance from the posterior of that regression, and
fills all its holes with them and with noise of their own (Rubin 1987, section 5.3; van Buuren 2018, algorithm 3.1,
"norm"). What the coefficients are off by is then shared by all cells of an imputation, so that it differs between
imputations and Rubin's rules see it. A draw from the predictive law of each cell apart has the same spread cell by
cell, and averages out over the cells: standard errors are too small (docs/methods.md).

The regression. With centred X [n, q], y [n], the priors b ~ N(0, s^2 / k), p(s^2) = 1 / s^2 and a flat intercept,

    s^2 | y    ~ (|y|^2 - y'X B) / chi^2 with n - 1 degrees of freedom,   B = (X'X + k)^-1 X'y
    b | s^2, y ~ N(B, s^2 (X'X + k)^-1),   intercept | s^2, y ~ N(mean of y, s^2 / n)

and k is where the evidence is largest, as in the Bayesian ridge regression of the paper's code (MacKay 1992): of the
many columns that explain little, little is believed, also where there are more columns than rows.

Tables with columns of levels. A column of levels is regressed by a multinomial logistic regression (of two levels:
logistic), whose coefficients have normal priors on standardised inputs, of standard deviation 2.5, so that no level is
told from the others without doubt; one draw of them is the maximum where each row has a random weight (the weighted
likelihood bootstrap, Newton and Raftery 1994), and the holes are drawn from its probabilities. Numbers are then imputed
by predictive mean matching, as by R's mice: a draw of the regression above predicts the holes, its estimate the
observed rows, and one of the five nearest of them lends its value ("type 1", van Buuren 2018, section 3.4). Other
columns of levels enter as indicators.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from vgi_cli.completers.base import Ask, Holes, Levels, Values, ask, most_often, never, on_varying_columns, others
from vgi_cli.completers.matching import matched

RIDGES = np.logspace(-10, 6, 65)
"""Values of k that are tried, in units of the largest eigenvalue of X'X."""
FINER = np.logspace(-0.25, 0.25, 21)
"""Then around the best of them."""
PRIOR_SD = 2.5
"""Of the coefficients of a regression of levels."""
STEPS = 200
"""Of the search for its maximum, at most."""
DONORS = 5
"""Observed rows of which one lends its number."""


class Line(NamedTuple):
    """One draw of a regression: y = intercept + x @ slopes [q] + sd * noise."""

    intercept: float
    slopes: Values
    sd: float


class Regression(NamedTuple):
    """The posterior of a regression with q inputs, in the basis of the r right singular vectors of the centred X.

    centre, mean  means of X [q] and of y
    basis         [q, r]
    square        [r] eigenvalues of X'X
    slopes        [q] posterior mean of the coefficients
    ridge         k
    scale         what a draw of s^2 is divided by a chi^2 of: the residual sum of squares and the prior's share
    freedom       n - 1
    """

    centre: Values
    mean: float
    basis: Values
    square: Values
    slopes: Values
    ridge: float
    scale: float
    freedom: int

    def draw(self, rng: np.random.Generator) -> Line:
        """One draw of the coefficients and of the noise."""
        sd = float(np.sqrt(self.scale / rng.chisquare(self.freedom)))
        z = rng.standard_normal(len(self.centre))
        seen = self.basis.T @ z  # directions in which X varies; of the others only the prior speaks
        apart = z - self.basis @ seen
        noise = self.basis @ (seen / np.sqrt(self.square + self.ridge)) + apart / np.sqrt(self.ridge)
        slopes = self.slopes + sd * noise
        mean = self.mean + sd * rng.standard_normal() / np.sqrt(self.freedom + 1)
        return Line(float(mean - self.centre @ slopes), slopes, sd)


def regress(X: Values, y: Values) -> Regression:
    """The posterior given X [n, q] and y [n], two rows or more."""
    centre, mean = X.mean(0), float(y.mean())
    delta = y - mean
    left, singular, right = np.linalg.svd(X - centre, full_matrices=False)
    keep = singular > 1e-10 * max(float(singular.max(initial=0.0)), 1e-300)
    square, basis = singular[keep] ** 2, right[keep].T
    pull = left[:, keep].T @ delta
    total, freedom = float(delta @ delta), len(y) - 1
    unit = float(square.max(initial=0.0)) or 1.0
    ridge = _best(RIDGES * unit, square, pull, total, freedom)
    ridge = _best(FINER * ridge, square, pull, total, freedom)
    slopes = basis @ (np.sqrt(square) * pull / (square + ridge))
    scale = float(_scale(np.array([ridge]), square, pull, total)[0])
    return Regression(centre, mean, basis, square, slopes, ridge, scale, freedom)


def _best(ridges: Values, square: Values, pull: Values, total: float, freedom: int) -> float:
    """The one of the values of k [G] with the largest evidence: log p(y | k), less what k does not change."""
    shrunk = np.log1p(square / ridges[:, None]).sum(1)
    evidence = -0.5 * (shrunk + freedom * np.log(_scale(ridges, square, pull, total)))
    return float(ridges[evidence.argmax()])


def _scale(ridges: Values, square: Values, pull: Values, total: float) -> Values:
    """|y|^2 - y'X B for values of k [G], kept above what rounding leaves of it."""
    explained = (pull**2 * square / (square + ridges[:, None])).sum(1)
    return np.asarray(np.maximum(total - explained, 1e-12 * total + 1e-300))


def classified(X: Values, y: Values, wanted: Values, levels: int, rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """[n] a level for each row of wanted [n, q], from one draw of the regression of levels y [N] on X [N, q]."""
    from scipy.optimize import minimize
    from scipy.special import logsumexp

    centre, scale = X.mean(0), X.std(0)
    scale = np.where(scale > 1e-10, scale, np.inf)  # an input that does not vary says nothing
    ones = np.ones((len(X), 1))
    X = np.hstack([ones, (X - centre) / scale])
    weights = rng.exponential(size=len(X))
    weights *= len(X) / weights.sum()
    hits = y[:, None] == np.arange(levels)
    precision = np.full((X.shape[1], levels), PRIOR_SD**-2)
    precision[0] = 1e-4  # the intercepts

    def loss(flat: Values) -> tuple[float, Values]:
        slopes = flat.reshape(precision.shape)
        scores = X @ slopes
        log_p = scores - logsumexp(scores, axis=1, keepdims=True)
        pull = X.T @ (weights[:, None] * (np.exp(log_p) - hits)) + precision * slopes
        return float(-(weights * log_p[hits]).sum() + 0.5 * (precision * slopes**2).sum()), pull.ravel()

    found = minimize(loss, np.zeros(precision.size), jac=True, method="L-BFGS-B", options={"maxiter": STEPS})
    scores = np.hstack([ones[:1].repeat(len(wanted), 0), (wanted - centre) / scale]) @ found.x.reshape(precision.shape)
    p = np.exp(scores - logsumexp(scores, axis=1, keepdims=True))
    return np.asarray((rng.random((len(p), 1)) > p.cumsum(1)[:, :-1]).sum(1), np.float64)


def mice(
    x: Values,
    missing: Holes,
    seed: int,
    settings: Mapping[str, int | None],
    give_up: Ask = never,
    levels: Levels = (),
) -> Values:
    """One imputation; see above and TableImputer. Means (of levels the one that occurs most often) as start,
    `iterations` rounds."""
    rng = np.random.default_rng(seed)
    rounds = int(settings["iterations"] or 0)

    def chained(x: Values, missing: Holes, levels: Levels) -> Values:
        observed = ~missing
        filled = np.where(missing, np.mean(x, 0, where=observed), x)
        for column in np.flatnonzero(levels).tolist():
            filled[missing[:, column], column] = most_often(x[observed[:, column], column])
        columns = np.flatnonzero(missing.any(0))
        for _ in range(rounds):
            for column in rng.permutation(columns):
                ask(give_up)
                absent, inputs = missing[:, column], others(filled, column, levels, first=1)
                X, y, wanted = inputs[~absent], x[~absent, column], inputs[absent]
                if levels and levels[column]:
                    filled[absent, column] = classified(X, y, wanted, levels[column], rng)
                    continue
                regression = regress(X, y)
                line = regression.draw(rng)
                if levels:
                    near = regression.mean + (X - regression.centre) @ regression.slopes
                    filled[absent, column] = matched(near, y, line.intercept + wanted @ line.slopes, DONORS, rng)
                    continue
                noise = rng.standard_normal(int(absent.sum()))
                filled[absent, column] = line.intercept + wanted @ line.slopes + line.sd * noise
        return filled

    return on_varying_columns(chained, x, missing, levels)
