"""`vgi evaluate --truth-model FILE`: the law that the data come from, a run folder or parameters in a JSON file."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import torch
from torch import Tensor

from vgi_cli.columns.levelled import Levelled
from vgi_cli.columns.number import Number
from vgi_cli.columns.wording import kind_flag, typed
from vgi_cli.errors import InputError, UsageError, nearest, nearest_file
from vgi_cli.evaluation.truth.distributions import Factors, FittedLaw, KnownLaw, Law, Normals, same_levels
from vgi_cli.fitting.fitted import FittedTable, load_run
from vgi_cli.reporting import Reporter

FORMS: Mapping[str, tuple[str, ...]] = {
    "factor analysis": ("mean", "F", "psi"),
    "mixture": ("weights", "means", "covariances"),
}
KEYS = ("columns", *FORMS["factor analysis"], *FORMS["mixture"])
SUM = 1e-6
"""How far from 1 the sum of the weights may be, and how unsymmetric a covariance, relative to its greatest entry."""
EXAMPLE = 'for example {"columns": ["a", "b"], "mean": [0, 0], "F": [[1], [2]], "psi": [1, 1]}'


class Truth(NamedTuple):
    """The truth and the fitted density as laws in data units, columns in the order of the fitted run."""

    law: Law
    fitted: FittedLaw


def load_truth(path: Path, fitted: FittedTable, reporter: Reporter) -> Truth:
    """The truth beside a fitted run. UsageError, InputError or RunError where they cannot be compared."""
    columns = fitted.schema.modelled
    _require_density(fitted)
    _refuse_spikes(fitted)
    if path.is_dir():
        run = load_run(path, reporter)
        _require_density(run, "--truth-model: ")
        _refuse_spikes(run)
        _require_columns(path, run.schema.modelled, fitted)
        _require_levels(run, fitted)
        truth = FittedLaw(run.model, run.schema, columns, levels_of=fitted.schema)
        return Truth(truth, FittedLaw(fitted.model, fitted.schema, columns))
    parameters = parse_truth(_read(path), str(path))
    for column in fitted.schema.encoded:
        if isinstance(column, Levelled):
            raise UsageError(
                f"--truth-model: {path} is a law of numbers, and column '{column.name}' of run "
                f"'{fitted.run.name}' holds levels",
                "give a run folder whose model is the truth, or --exclude the column from the fit",
            )
    _require_columns(path, parameters.columns, fitted)
    index = torch.tensor([parameters.columns.index(name) for name in columns])
    factors = None if parameters.factors is None else parameters.factors.at(index)
    law = KnownLaw(parameters.normals.at(index), factors)
    return Truth(law, FittedLaw(fitted.model, fitted.schema, columns))


def _refuse_spikes(fitted: FittedTable) -> None:
    """UsageError where values of a column of numbers have a probability: their law has no density there."""
    run = f"run '{fitted.run.name}'"
    for column in fitted.schema.encoded:
        if isinstance(column, Levelled):
            continue
        if not isinstance(column, Number):
            what = f"column '{column.name}' of {run} holds no numbers"
        elif column.spikes or column.pile is not None:
            value = column.spikes[0].value if column.pile is None else column.pile
            what = f"{run} gives {value:g} in column '{column.name}' a probability of its own"
        elif column.heaps is not None:
            what = f"{run} rounds column '{column.name}' to multiples as often as the column does"
        elif column.levels:
            what = f"{run} fills column '{column.name}' with the few values that occur"
        else:
            continue
        raise UsageError(
            f"--truth-model: {what}, so that its law has no density to compare",
            "leave --truth-model out, or --exclude the column from both fits",
        )


def _require_levels(run: FittedTable, fitted: FittedTable) -> None:
    """UsageError unless each column is one of numbers in both runs, or one of the same levels."""
    for column in fitted.schema.encoded:
        other = run.schema.encoded[run.schema.modelled.index(column.name)]
        try:
            if isinstance(column, Levelled):
                same_levels(column, other)
            elif isinstance(other, Levelled):
                same_levels(other, column)
        except ValueError as error:
            raise UsageError(
                f"--truth-model: column '{column.name}' {error} (runs '{run.run.name}' and '{fitted.run.name}')",
                f"fit both with the same levels, `{kind_flag(column.name, 'KIND:LEVEL,LEVEL')}`, or leave the column "
                f"out, `{typed('--exclude', column.name)}`",
            ) from None


class Parameters(NamedTuple):
    """What a JSON file says, data units, in the order of its own columns; `factors` where it is a factor model."""

    columns: tuple[str, ...]
    normals: Normals
    factors: Factors | None


def parse_truth(text: str, label: str) -> Parameters:
    """Parameters from JSON text; `label` names the file in messages. InputError for anything but the two forms."""
    values = _object(text, label)
    for key in values:
        if key not in KEYS:
            raise InputError(f"{label}: unknown key '{key}'", nearest(key, KEYS))
    given = [name for name, keys in FORMS.items() if any(key in values for key in keys)]
    if len(given) != 1:
        found = "keys of both" if given else "neither"
        forms = " or ".join(f"{name} ({', '.join(keys)})" for name, keys in FORMS.items())
        raise InputError(f"{label}: expected the parameters of {forms}, got {found}", EXAMPLE)
    for key in ("columns", *FORMS[given[0]]):
        if key not in values:
            raise InputError(f"{label}: lacks the key '{key}'", EXAMPLE)
    read = _Reader(values, label)
    columns = read.columns()
    D = len(columns)
    if given == ["mixture"]:
        return Parameters(columns, read.normals(D), None)
    factors = read.factors(D)
    return Parameters(columns, factors.normals(), factors)


class _Reader:
    """Checked parameters of a JSON object."""

    def __init__(self, values: Mapping[str, Any], label: str) -> None:
        self._values, self._label = values, label

    def columns(self) -> tuple[str, ...]:
        """The names: at least one, none twice."""
        names = self._values["columns"]
        if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
            self._refuse("'columns': expected a list of column names")
        for name in names:
            if names.count(name) > 1:
                self._refuse(f"'columns' names '{name}' twice")
        return tuple(names)

    def factors(self, D: int) -> Factors:
        """Mean, F and psi of D columns."""
        mean, F, psi = (
            self._numbers("mean", (D,), "one number a column"),
            self._numbers("F", (D, None), "one row a column, one number a factor"),
            self._numbers("psi", (D,), "one number a column"),
        )
        if not bool((psi > 0).all()):
            self._refuse(f"'psi': expected variances above 0, got {float(psi.min()):g}")
        factors = Factors(mean, F, psi)
        if not _positive(factors.normals().covariances[0]):
            self._refuse("F F' + diag(psi) is not positive definite in double precision: 'psi' is too small beside 'F'")
        return factors

    def normals(self, D: int) -> Normals:
        """Weights, means and covariances of D columns."""
        weights = self._numbers("weights", (None,), "one number a component")
        K = len(weights)
        means = self._numbers("means", (K, D), "one row a component, one number a column")
        covariances = self._numbers("covariances", (K, D, D), "one square matrix a component")
        if K == 0 or not bool((weights > 0).all()) or abs(float(weights.sum()) - 1) > SUM:
            self._refuse("'weights': expected positive numbers whose sum is 1")
        for k, covariance in enumerate(covariances):
            skew = float((covariance - covariance.mT).abs().max())
            symmetric = skew <= SUM * float(covariance.abs().max())
            if not symmetric or not _positive(covariance):
                what = "positive definite" if symmetric else "symmetric"
                self._refuse(f"'covariances': matrix {k + 1} is not {what}")
        return Normals(weights / weights.sum(), means, 0.5 * (covariances + covariances.mT))

    def _numbers(self, key: str, shape: Sequence[int | None], what: str) -> Tensor:
        """A float64 tensor of a shape, None for any length."""
        sizes = _shape(self._values[key])
        fits = sizes is not None and len(sizes) == len(shape)
        if not fits or any(w is not None and w != s for w, s in zip(shape, sizes or (), strict=False)):
            expected = " x ".join("any" if n is None else str(n) for n in shape)
            got = "something else" if sizes is None else "one number" if not sizes else " x ".join(map(str, sizes))
            self._refuse(f"'{key}': expected {expected} numbers ({what}), got {got}")
        out = torch.tensor(self._values[key], dtype=torch.float64).reshape(sizes or ())
        if not bool(torch.isfinite(out).all()):
            self._refuse(f"'{key}' holds a number that is not finite")
        return out

    def _refuse(self, message: str) -> NoReturn:
        raise InputError(f"{self._label}: {message}", EXAMPLE)


def _positive(covariance: Tensor) -> bool:
    """Whether it is positive definite, as far as a Cholesky factor in double precision can tell."""
    return bool(torch.isfinite(covariance).all()) and int(torch.linalg.cholesky_ex(covariance).info) == 0


def _shape(value: Any) -> tuple[int, ...] | None:
    """The lengths of nested lists of numbers; None where they hold anything else or are ragged."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return () if not isinstance(value, int) or abs(value) < 1e300 else None
    if not isinstance(value, list):
        return None
    inner = {_shape(item) for item in value}
    if len(inner) > 1 or None in inner:
        return None
    return (len(value), *(inner.pop() or () if inner else ()))


def _object(text: str, label: str) -> dict[str, Any]:
    """The JSON object of a text; a key that is there twice is refused rather than dropped."""

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [name for name, _ in items]
        for name in names:
            if names.count(name) > 1:
                raise InputError(f"{label}: the key '{name}' is there twice", "keep one of them")
        return dict(items)

    try:
        values = json.loads(text, object_pairs_hook=pairs, parse_constant=lambda _: math.nan)
    except json.JSONDecodeError as error:
        raise InputError(f"{label}: not JSON (line {error.lineno}: {error.msg})", EXAMPLE) from None
    except (RecursionError, ValueError) as error:
        why = "nested too deeply" if isinstance(error, RecursionError) else "a number of thousands of digits"
        raise InputError(f"{label}: not JSON that this program can read ({why})", EXAMPLE) from None
    if not isinstance(values, dict):
        raise InputError(f"{label}: expected a JSON object", EXAMPLE)
    return values


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        raise InputError(f"--truth-model: {path}: no such file or run folder", nearest_file(path)) from None
    except OSError as error:
        raise InputError(f"--truth-model: {path}: {error.strerror or error}", "check the path") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: not JSON (it is not UTF-8)", EXAMPLE) from None


def _require_density(fitted: FittedTable, prefix: str = "") -> None:
    """UsageError where a run has no log density to compare."""
    if fitted.empty:
        raise UsageError(
            f"{prefix}run '{fitted.run.name}' models no column: there is no density to compare",
            "none of its table's columns varied",
        )
    if not fitted.model.exact:
        raise UsageError(
            f"{prefix}run '{fitted.run.name}' has a lower bound of its log density only",
            "the distance from the truth needs a model with an exact density (fa, mixture, flow)",
        )


def _require_columns(path: Path, columns: Sequence[str], fitted: FittedTable) -> None:
    """InputError unless the truth is about the columns that the run models, in any order."""
    modelled, run = fitted.schema.modelled, f"run '{fitted.run.name}'"
    for name in modelled:
        if name not in columns:
            what = f"lacks the column '{name}', which {run} models"
            raise InputError(f"--truth-model: {path} {what}", nearest(name, columns))
    for name in columns:
        if name not in modelled:
            what = f"has a column '{name}', which {run} does not model"
            raise InputError(f"--truth-model: {path} {what}", nearest(name, modelled))
