"""How good are draws of levels? Scores of draws [n, cells] against the true levels [cells], all as their numbers.

Each says of a level that no draw could have, one that the fit has not seen, that every draw was wrong: its number is
the number of levels, L. Brier score and ranked probability score are fair (Ferro 2014): their mean over draws is that
of the probabilities that are drawn from, however few draws there are; of one draw they are what they are.
"""

from __future__ import annotations

import numpy as np

from vgi_cli.columns.base import Scores
from vgi_cli.columns.numerals import Floats, Ints

BINS = 10
"""Of equal width, between 0 and 1, in the calibration error."""


LEVEL_SCORES = ("log_score", "brier", "error", "ece", "rps")
"""The names of the scores."""


def level_scores(draws: Floats, truth: Floats, L: int, ordered: bool) -> Scores:
    """The scores of a column of levels, means over its cells.

    log_score  -log of the share of the true level among the draws, one draw added to each level (Laplace), nats
    brier      sum over levels of (probability - 1 or 0)^2
    error      share of cells of which the level drawn most often, the first of such, is not the true one
    ece        expected calibration error (see `calibration_error`); None for one draw
    rps        ranked probability score, where the levels are ordered: sum over them of (cumulated probability - 1 or
               0)^2, divided by L - 1 (Epstein 1969)
    """
    n = len(draws)
    count = counts(draws, L)
    true = truth.astype(int)
    hit = _hits(count, true)
    own: dict[str, float | None] = {
        "log_score": float(log_scores(draws, truth, L).mean()),
        "brier": float((_squares(count, n).sum(0) + 1 - 2 * hit / n).mean()),
        "error": float((count.argmax(0) != true).mean()),
        "ece": calibration_error(draws, truth, L),
    }
    if ordered:
        upto = count.cumsum(0)[:-1]
        places = np.arange(L - 1)[:, None]
        known = _ranked(upto, n, places >= true)
        ends = np.maximum(_ranked(upto, n, places >= 0), _ranked(upto, n, places >= L))
        own["rps"] = float(np.where(true < L, known, ends).mean() / (L - 1))
    return own


def log_scores(draws: Floats, truth: Floats, L: int) -> Floats:
    """[cells] the log score of each cell, in nats."""
    hit = _hits(counts(draws, L), truth.astype(int))
    return np.asarray(-np.log((hit + 1) / (len(draws) + L)))


def _hits(count: Floats, true: Ints) -> Floats:
    """[cells] how many draws are of the true level [cells], by how many are of each [L, cells]; 0 of the level L."""
    return np.asarray(np.vstack([count, np.zeros(len(true))])[true, np.arange(len(true))])


def counts(draws: Floats, L: int) -> Floats:
    """[L, cells] how many of the draws [n, cells] are of each level."""
    return np.stack([(draws == level).sum(0) for level in range(L)]).astype(np.float64)


def _squares(count: Floats, n: int) -> Floats:
    """Estimates of squared probabilities from counts of n draws, without bias for n > 1."""
    return np.asarray(count * (count - 1) / (n * (n - 1)) if n > 1 else count)


def _ranked(upto: Floats, n: int, below: np.ndarray) -> Floats:
    """[cells] sums of squared differences of cumulated probabilities from counts [L - 1, cells]."""
    return np.asarray((_squares(upto, n) + below * (1 - 2 * upto / n)).sum(0))


def calibration_error(draws: Floats, truth: Floats, L: int) -> float | None:
    """Expected calibration error: how far the probability of the likeliest level is from how often it is the true one,
    in cells of like probability, weighted by their number (Naeini, Cooper and Hauskrecht 2015).

    The first half of the draws says which level is the likeliest and which bin its cell belongs to, the second half how
    probable it is: draws that are as probable as the truth then agree with it on average, and what is left is the noise
    of few cells. One half for both would show draws as too sure of themselves, as the largest share is so by chance.
    """
    half = len(draws) // 2
    if half == 0:
        return None
    first, second = counts(draws[:half], L), draws[half:]
    level = first.argmax(0)
    probability = (second == level).mean(0)
    right = level == truth
    bins = np.minimum((first.max(0) / half * BINS).astype(int), BINS - 1)
    size = np.bincount(bins, minlength=BINS)
    gap = np.bincount(bins, probability - right, minlength=BINS)
    return float(np.abs(gap).sum() / size.sum())
