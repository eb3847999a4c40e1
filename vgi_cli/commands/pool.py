"""`vgi pool`: the long table of estimates read, and combined by Rubin's rules."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import numpy as np

from vgi_cli.columns.numerals import Ints
from vgi_cli.columns.wording import SHOWN, is_plain, is_written, plain_number, shortened, typed
from vgi_cli.errors import InputError
from vgi_cli.pooling.estimates import Estimates, checked_covariances, refuse_extreme, refuse_other_terms, squared
from vgi_cli.pooling.pooled import Pooled
from vgi_cli.pooling.rubin import Floats
from vgi_cli.reporting import Reporter
from vgi_cli.runs.files import json_bytes
from vgi_cli.runs.manifest import MANIFEST
from vgi_cli.table.base import Table
from vgi_cli.table.csv.text import quote
from vgi_cli.table.inputs import require_files
from vgi_cli.table.reader import read_table

COLUMNS: Mapping[str, Sequence[str]] = {
    "imputation": ("imputation", ".imp"),
    "term": ("term",),
    "estimate": ("estimate",),
    "std_error": ("std_error", "std.error"),
}
"""The columns of the long table, and how each may be called: R's broom and mice write the second spelling."""
TAKES = (
    "give a table of the estimates of an analysis that was made on each filled table, a row for each imputation and "
    "term: docs/pooling.md"
)
"""What is pooled, for who gives something else."""
COVARIANCE = "cov:"
"""A column `cov:TERM` holds the covariances of the row's term with TERM."""

EVERY_ROW = "every row needs one"
"""What to do about a cell without a number."""
MOST_DIGITS = 18
"""Digits of a whole number up to which it may count imputations; a longer one is a name."""


@dataclass(frozen=True)
class PoolRequest:
    """What `vgi pool` is asked for.

    estimates    the long table, or `-`
    df_complete  degrees of freedom that the analysis would have without missing data; None: infinite
    level        of the confidence intervals
    tests        groups of terms, each tested to be all zero
    json         whether the result is printed as JSON
    """

    estimates: str
    df_complete: float | None = None
    level: float = 0.95
    tests: Sequence[Sequence[str]] = ()
    delimiter: str | None = None
    decimal: str | None = None
    json: bool = False

    def carry_out(self, reporter: Reporter) -> PoolReport:
        """The pooled estimates and tests. UsageError and InputError for what cannot be pooled."""
        if (Path(self.estimates) / MANIFEST).is_file():
            raise InputError(f"'{self.estimates}' is a run, not a table of estimates", TAKES)
        require_files([self.estimates])
        table = read_table([self.estimates], delimiter=self.delimiter, decimal=self.decimal)
        estimates = estimates_of(table, self.df_complete)
        refuse_parts(self.tests, estimates.terms)
        for line in doubts(table, estimates):
            reporter.warn(line)
        return PoolReport(Pooled(estimates, self.level), self.tests)


@dataclass(frozen=True)
class PoolReport:
    """What `vgi pool` prints: pooled estimates, and tests of groups of terms."""

    pooled: Pooled
    tests: Sequence[Sequence[str]]

    def text(self) -> str:
        """Markdown."""
        return self.pooled.text(self.tests)

    def json_text(self) -> str:
        """One JSON object, as schemas/pool.json describes it."""
        return json_bytes(self.pooled.to_dict(self.tests)).decode()


def estimates_of(table: Table, df_complete: float | None = None) -> Estimates:
    """The estimates of a long table: a row for each imputation and term.

    InputError where a column is missing or holds no number, an imputation has another set of terms, or a term twice,
    and where covariances are not those of the standard errors.
    """
    names = {what: next((name for name in known if name in table.names), None) for what, known in COLUMNS.items()}
    covariances = [name for name in table.names if name.startswith(COVARIANCE)]
    for what, name in names.items():
        if name is None and not (what == "std_error" and covariances):
            known = " or ".join(f"'{each}'" for each in COLUMNS[what])
            found = ", ".join(table.names[:8])
            hint = f"the columns are imputation, term, estimate, std_error; found {found}"
            if not set(table.names) & {name for every in COLUMNS.values() for name in every}:
                hint = f"{TAKES}; found the columns {found}"
            raise InputError(f"{table.label}: no column {known}", hint)
    labels, rows = _rows_of(table, str(names["imputation"]), str(names["term"]))
    terms = list(rows[0])
    at = np.array([[row[term] for term in terms] for row in rows])
    values = _numbers(table, str(names["estimate"]))[at]
    matrices = None
    if covariances:
        refuse_extreme(values, None, terms)
        matrices = _matrices(table, covariances, terms, at)
        variances = np.diagonal(matrices, 0, 1, 2).copy()
        if names["std_error"] is not None:
            errors = _numbers(table, names["std_error"])[at]
            for i, j in np.argwhere(~np.isclose(squared(errors), variances, rtol=1e-4, atol=0))[:1]:
                raise InputError(
                    f"{table.label}: the standard error of '{terms[j]}' in imputation {labels[i]} is {errors[i, j]:g}, "
                    f"its variance in '{COVARIANCE}{terms[j]}' {variances[i, j]:g}",
                    "a variance is the square of the standard error; leave one of them out",
                )
    else:
        errors = _numbers(table, str(names["std_error"]))[at]
        refuse_extreme(values, errors, terms)
        variances = squared(errors)
    return Estimates(tuple(terms), values, variances, matrices, math.inf if df_complete is None else df_complete)


def refuse_parts(tests: Sequence[Sequence[str]], terms: Sequence[str]) -> None:
    """InputError where `--test` names a part of a term that holds a comma, as it was not in quotes."""
    for name in (name for group in tests for name in group if name not in terms):
        for term in terms:
            if "," in term and name in [part.strip() for part in term.split(",")]:
                raise InputError(
                    f"no term '{name}'",
                    f"a term that holds a comma goes in quotes, as in CSV: {typed('--test', quote(term))}",
                )


def doubts(table: Table, estimates: Estimates) -> Iterator[str]:
    """What speaks against estimates that can be pooled: an imputation that is not there, analyses of one table."""
    name = next(name for name in COLUMNS["imputation"] if name in table.names)
    texts = {str(text).strip() for text in table.text(name)}
    numbers = sorted({int(text) for text in texts if text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS})
    if len(numbers) == len(texts) and (lacking := _lacking(numbers)):
        shown = ", ".join(map(str, lacking[:SHOWN])) + ", …" * (len(lacking) > SHOWN)
        yield (
            f"{table.label}: the imputations are numbered up to {numbers[-1]}, without {shown}: an analysis that "
            "failed, and is left out, biases what is pooled"
        )
    if (same := estimates.doubt()) is not None:
        yield f"{table.label}: {same}"


def _lacking(numbers: Sequence[int]) -> Sequence[int]:
    """The numbers from 1 on that some ascending ones, from 0 or 1 on, leave out; none where these leave out more than
    they are: then they are names."""
    last = numbers[-1]
    if last - sum(number > 0 for number in numbers) >= len(numbers):  # no range of names is counted through
        return []
    return sorted(set(range(1, last)).difference(numbers))


def _rows_of(table: Table, imputation: str, term: str) -> tuple[list[str], list[dict[str, int]]]:
    """The imputations' names, and of each the row of every term, in the order of the table."""
    found: dict[str, dict[str, int]] = {}
    for row, (label, name) in enumerate(zip(table.text(imputation), table.text(term), strict=True)):
        for column, text in ((imputation, label), (term, name)):
            if text is None:
                _refuse(table, column, row, "is empty", "every row is one term of one imputation")
        if imputation == ".imp" and str(label) in ("0", "0.0"):
            _refuse(table, imputation, row, "is 0, the table with its holes", "leave out the rows of .imp 0")
        rows = found.setdefault(str(label), {})
        if name in rows:
            what = f"is a second '{name}' of imputation {label} (the first is in row {rows[name] + 1})"
            _refuse(table, term, row, what, "give every term once in each imputation")
        rows[str(name)] = row
    labels, rows_of = list(found), list(found.values())
    for label, rows in found.items():
        refuse_other_terms(rows, rows_of[0], label, labels[0])
    return labels, rows_of


def _matrices(table: Table, covariances: Sequence[str], terms: Sequence[str], at: Ints) -> Floats:
    """[m, P, P] covariance matrices."""
    columns = [f"{COVARIANCE}{term}" for term in terms]
    for column in columns:
        if column not in covariances:
            raise InputError(f"{table.label}: no column '{column}'", "covariances need a column for each term")
    for column in covariances:
        if column not in columns:
            message = f"{table.label}: the column '{column}' is of no term"
            raise InputError(message, f"the terms are {', '.join(terms)}")
    return checked_covariances(np.stack([_numbers(table, column)[at] for column in columns], axis=2))


def _numbers(table: Table, name: str) -> Floats:
    values = table.numeric(name)
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        row = int(bad[0])
        text = table.text(name)[row]
        if text is None:
            _refuse(table, name, row, "is empty", EVERY_ROW)
        cell, mark = str(text).strip(), table.decimal
        if is_plain(cell, mark):
            what = f"is '{shortened(cell)}', which is too large"
            _refuse(table, name, row, what, "give the estimates and their standard errors in larger units")
        comma = mark == "." and "," in cell and is_plain(cell, ",") and not table.in_memory
        hint = plain_number(mark) if comma or is_written(cell, mark) else EVERY_ROW
        hint = "`--decimal ,` where the comma is the decimal mark; else " * comma + hint
        _refuse(table, name, row, f"is '{shortened(cell)}', not a number", hint)
    return values


def _refuse(table: Table, column: str, row: int, what: str, hint: str) -> NoReturn:
    raise InputError(f"{table.label}: row {row + 1}: '{column}' {what}", hint)
