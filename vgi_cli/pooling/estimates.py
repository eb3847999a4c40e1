"""What is pooled: the estimates of one analysis, made once in each imputation, from arrays or from fitted models."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from vgi_cli.errors import InputError, nearest
from vgi_cli.pooling.rubin import Floats

LARGEST = 1e150
"""Standard errors may be up to this large, and down to one by it: their squares are added and divided."""


@dataclass(frozen=True)
class Estimates:
    """P terms in m imputations. InputError where that cannot be pooled: fewer than two imputations, values that are not
    finite, standard errors that are not positive, or next to nothing beside how far the estimates lie apart.

    terms        the P names
    values       [m, P]
    variances    [m, P] squared standard errors
    covariances  [m, P, P], or None where only standard errors are known
    df_complete  degrees of freedom that the analysis would have without missing data; infinite where nobody says
    """

    terms: tuple[str, ...]
    values: Floats
    variances: Floats
    covariances: Floats | None = None
    df_complete: float = np.inf

    def __post_init__(self) -> None:
        if len(self.values) < 2:
            raise InputError(
                f"pooling needs two imputations or more, got {len(self.values)}",
                "make several filled tables, such as `vgi impute --m 20`, and analyse each",
            )
        self._refuse(~np.isfinite(self.values), self.values, "the estimate", "is not a finite number")
        bad = ~(np.isfinite(self.variances) & (self.variances > 0))
        errors = np.sign(self.variances) * np.sqrt(np.abs(self.variances))
        self._refuse(bad, errors, "the standard error", "is not a positive number")
        with np.errstate(over="ignore"):
            apart = np.ptp(self.values, 0) / np.sqrt(self.variances.min(0))
        for j in np.flatnonzero(~(apart <= LARGEST))[:1]:
            raise InputError(
                f"the estimates of '{self.terms[j]}' differ between imputations by more than {LARGEST:g} of their "
                "standard errors: too much to be squared",
                "look at these fits: they may have failed, or the standard errors be of another quantity",
            )
        if not (is_number(self.df_complete) and self.df_complete > 0):
            message = f"the complete-data degrees of freedom are a positive number, got {as_said(self.df_complete)}"
            raise InputError(message, "rows less parameters, for a regression")

    def doubt(self) -> str | None:
        """What speaks against estimates that are the same in all imputations; None: they are not."""
        if not (self.values == self.values[0]).all():
            return None
        return (
            f"every estimate is the same in all {self.m} imputations: was one table analysed {self.m} times? Then "
            "nothing of the uncertainty about the holes is in these standard errors"
        )

    def _refuse(self, bad: Any, values: Floats, what: str, why: str) -> None:
        if bad.any():
            i, j = (int(x) for x in np.argwhere(bad)[0])
            raise InputError(
                f"{what} of '{self.terms[j]}' in imputation {i + 1} {why}: {values[i, j]:g}",
                "look at that fit: it may have failed, or hold a term that its data do not tell",
            )

    @property
    def m(self) -> int:
        """Number of imputations."""
        return len(self.values)

    def places(self, terms: Sequence[str]) -> list[int]:
        """Where some terms stand, each once. InputError with the nearest name for one that is not there."""
        for i, term in enumerate(terms):
            if term not in self.terms:
                raise InputError(f"no term '{term}'", nearest(term, self.terms))
            if term in terms[:i]:
                raise InputError(f"the term '{term}' is tested twice", "name it once")
        if not terms:
            raise InputError("a test needs terms", f"name some of {', '.join(self.terms)}")
        return [self.terms.index(term) for term in terms]

    def chosen(self, terms: Sequence[str]) -> tuple[Floats, Floats]:
        """Estimates [m, k] and covariances [m, k, k] of some terms. InputError where several are asked for and only
        standard errors are known."""
        at = self.places(terms)
        if self.covariances is not None:
            return self.values[:, at], self.covariances[:, at][:, :, at]
        if len(at) > 1:
            raise InputError(
                "a test of several terms needs their covariances, and only standard errors are given",
                "add columns cov:TERM to the table (in Python: covariances=)",
            )
        return self.values[:, at], self.variances[:, at, None]


def from_arrays(
    values: Any,
    std_errors: Any = None,
    covariances: Any = None,
    terms: Sequence[str] | None = None,
    df_complete: float | None = None,
) -> Estimates:
    """Estimates [m, P] (or [m], of one term) with standard errors of the same shape, or covariances [m, P, P].

    terms  the P names; default: `x1`, `x2`, …

    InputError where shapes do not match, or neither standard errors nor covariances are given, or both.
    """
    estimates = _floats(values, "the estimates")
    if estimates.ndim == 1:
        estimates = estimates[:, None]
    if estimates.ndim != 2:
        raise InputError(f"the estimates: expected an array [m, terms], got shape {list(estimates.shape)}")
    m, P = estimates.shape
    if (std_errors is None) == (covariances is None):
        raise InputError("expected either standard errors or covariances", "give std_errors= or covariances=")
    matrices = errors = None
    if covariances is not None:
        matrices = checked_covariances(_shaped(_floats(covariances, "the covariances"), "the covariances", (m, P, P)))
        variances = np.diagonal(matrices, 0, 1, 2).copy()
    else:
        errors = _shaped(_floats(std_errors, "the standard errors"), "the standard errors", (m, P))
        variances = squared(errors)
    names = tuple(f"x{i + 1}" for i in range(P)) if terms is None else tuple(terms)
    if len(names) != P or len(set(names)) != P:
        raise InputError(f"terms: expected {P} different names, got {list(names)}", "one for each estimate")
    refuse_extreme(estimates, errors, names)
    return Estimates(names, estimates, variances, matrices, np.inf if df_complete is None else df_complete)


def from_results(results: Sequence[Any], df_complete: float | None = None) -> Estimates:
    """The estimates of fitted models, one for each imputation, in the shape of statsmodels: `params` (with names as its
    index, or `model.exog_names`), `cov_params()` or `bse`, and `df_resid`, the smallest of which is taken where
    `df_complete` is not said.

    InputError for what has no such attributes, and where the models have different terms.
    """
    if not results:
        raise InputError("pooling needs two imputations or more, got 0", "give the fit of each filled table")
    terms = [_terms_of(result, i) for i, result in enumerate(results, 1)]
    for i, names in enumerate(terms, 1):
        refuse_other_terms(names, terms[0], str(i), "1")
        if names != terms[0]:
            raise InputError(f"imputation {i} has its terms in another order than imputation 1", "give one order")
    values = np.array([_floats(result.params, "params") for result in results])
    if df_complete is None:
        found = [float(df) for result in results if (df := getattr(result, "df_resid", None)) is not None]
        df_complete = min(found, default=np.inf)
    matrices = [getattr(result, "cov_params", None) for result in results]
    if all(callable(matrix) for matrix in matrices):
        return from_arrays(values, None, np.array([matrix() for matrix in matrices if matrix]), terms[0], df_complete)
    errors = [getattr(result, "bse", None) for result in results]
    if any(error is None for error in errors):
        raise InputError("the fitted models have neither cov_params() nor bse", "give arrays: std_errors=")
    return from_arrays(values, np.array(errors), None, terms[0], df_complete)


def _terms_of(result: Any, number: int) -> list[str]:
    params = getattr(result, "params", None)
    if params is None or np.ndim(params) != 1:
        found = type(result).__name__ if params is None else f"params with {np.ndim(params)} dimensions"
        raise InputError(
            f"imputation {number}: expected a fitted model with params (one for each term), got {found}",
            "give results of statsmodels, a long table, or arrays",
        )
    names = getattr(params, "index", None)
    if names is None or callable(names):  # arrays have none, lists have a method of that name
        names = getattr(getattr(result, "model", None), "exog_names", None)
    if names is None or len(names) != len(params):
        return [f"x{i + 1}" for i in range(len(params))]
    return [str(name) for name in names]


def is_number(value: Any) -> bool:
    """Whether something is a real number: also one of numpy, neither a text nor a truth value."""
    return isinstance(value, Real) and not isinstance(value, bool)


def as_said(value: Any) -> str:
    """What stands instead of a number, as a message shows it: a text in quotes."""
    return repr(value) if isinstance(value, str) else str(value)


def refuse_other_terms(terms: Collection[str], first: Collection[str], here: str, there: str) -> None:
    """InputError where two imputations, `here` and `there`, have different terms."""
    for have, lack, one, other in ((terms, first, here, there), (first, terms, there, here)):
        for term in have:
            if term not in lack:
                raise InputError(
                    f"imputation {one} has the term '{term}', imputation {other} has not",
                    "pool one and the same analysis: a level that is absent in a filled table changes the terms",
                )


def checked_covariances(matrices: Floats) -> Floats:
    """The same matrices [m, P, P]. InputError where one of them is not symmetric, or not finite."""
    for i, matrix in enumerate(matrices, 1):
        scale = np.sqrt(np.abs(np.outer(matrix.diagonal(), matrix.diagonal())))
        if not np.isfinite(matrix).all() or (np.abs(matrix - matrix.T) > 1e-6 * scale).any():
            message = f"the covariance matrix of imputation {i} is not symmetric and finite"
            raise InputError(message, "look at how it was made")
    return matrices


def squared(errors: Floats) -> Floats:
    """Variances of standard errors; a negative one stays negative, so that it is refused."""
    with np.errstate(over="ignore", under="ignore"):
        return np.asarray(errors * np.abs(errors))


def refuse_extreme(estimates: Floats, errors: Floats | None, terms: Sequence[str]) -> None:
    """InputError where an estimate of [m, P] is so large, or its standard error (None: there is none) so large or so
    small, that its square is no number to count with."""
    for i, j in np.argwhere(np.isfinite(estimates) & (np.abs(estimates) > LARGEST))[:1]:
        raise InputError(
            f"the estimate of '{terms[j]}' in imputation {i + 1} is {estimates[i, j]:g}: too large to be squared "
            f"(up to {LARGEST:g})",
            "give the estimates and their standard errors in larger units",
        )
    if errors is None:
        return
    for what, units, bad in (
        ("too large", "larger", np.isfinite(errors) & (errors > LARGEST)),
        ("too small", "smaller", (errors > 0) & (errors < 1 / LARGEST)),
    ):
        for i, j in np.argwhere(bad)[:1]:
            raise InputError(
                f"the standard error of '{terms[j]}' in imputation {i + 1} is {errors[i, j]:g}: {what} to be "
                f"squared (they may be from {1 / LARGEST:g} to {LARGEST:g})",
                f"give the estimates and their standard errors in {units} units",
            )


def _floats(values: Any, what: str) -> Floats:
    try:
        return np.asarray(values, np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{what}: expected numbers, the same count for each imputation") from None


def _shaped(values: Floats, what: str, shape: tuple[int, ...]) -> Floats:
    if values.shape == shape or (shape[-1] == 1 and values.shape == shape[:1]):
        return values.reshape(shape)
    raise InputError(f"{what}: expected shape {list(shape)}, as the estimates have it, got {list(values.shape)}")
