"""The result of pooling: a table of terms, tests of several of them, and both as text and as JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from vgi_cli.errors import UsageError
from vgi_cli.pooling.estimates import Estimates, as_said, is_number
from vgi_cli.pooling.hypotheses import Hypothesis, d1, d2, wald
from vgi_cli.pooling.rubin import Combined, Floats, combine

FORMAT = 1
METHODS = ("D1", "D2")
LARGE = 1e10
"""Numbers from here on are shown with a power of ten."""
FEW = 2
"""Of so many times as many imputations as there are, or more, the fractions of missing information say a word."""
FAR = 1e100
"""Quantiles of t from here on are computed by the power law of its tail: scipy's end near 1e152, whatever they are."""


@dataclass(frozen=True)
class Pooled:
    """An analysis of several filled tables, combined by Rubin's rules.

    estimates  what was combined
    level      of the confidence intervals, between 0 and 1; UsageError for another number
    """

    estimates: Estimates
    level: float = 0.95

    def __post_init__(self) -> None:
        if not (is_number(self.level) and 0 < self.level < 1):
            raise UsageError(
                f"--level: expected a number between 0 and 1, got {as_said(self.level)}", "for example 0.95"
            )

    @property
    def m(self) -> int:
        """Number of imputations."""
        return self.estimates.m

    @property
    def terms(self) -> tuple[str, ...]:
        """Names of the P terms."""
        return self.estimates.terms

    @cached_property
    def combined(self) -> Combined:
        """The parts of Rubin's rules, an array [P] each."""
        return combine(self.estimates.values, self.estimates.variances, self.estimates.df_complete)

    @cached_property
    def covariance(self) -> Floats | None:
        """[P, P] T, the covariance matrix of the pooled estimates; None where only standard errors were given."""
        matrices, values = self.estimates.covariances, self.estimates.values
        if matrices is None:
            return None
        deviations = values - values.mean(0)
        return np.asarray(matrices.mean(0) + (1 + 1 / self.m) / (self.m - 1) * deviations.T @ deviations)

    @cached_property
    def columns(self) -> dict[str, Floats]:
        """The table by column, [P] each: `estimate`, `std_error` (√T), `statistic` (t), `df` (may be infinite),
        `p_value` (two-sided, of zero), `low` and `high` (the interval; infinite where `df` is next to 0), `riv`,
        `lambda`, `fmi`, and the variances `within`, `between`, `total`; see `Combined`."""
        from scipy import special

        found = self.combined
        error = np.sqrt(found.total)
        statistic = found.estimate / error
        half = _quantile(found.df, self.level) * error
        return {
            "estimate": found.estimate,
            "std_error": error,
            "statistic": statistic,
            "df": found.df,
            "p_value": np.where(found.df > 0, 2 * special.stdtr(found.df, -np.abs(statistic)), 1.0),
            "low": found.estimate - half,
            "high": found.estimate + half,
            "riv": found.riv,
            "lambda": found.share,
            "fmi": found.fmi,
            "within": found.within,
            "between": found.between,
            "total": found.total,
        }

    @cached_property
    def m_wanted(self) -> int | None:
        """Number of imputations that the largest fraction of missing information asks for, a hundred times it (White,
        Royston and Wood 2011); None where m is not clearly less."""
        wanted = math.ceil(100 * min(1.0, float(self.combined.fmi.max())))
        return wanted if wanted >= FEW * self.m else None

    def _too_few(self) -> str:
        """The line on how many imputations are wanted."""
        place = int(self.combined.fmi.argmax())
        term, fmi = " ".join(self.terms[place].split()), _number("fmi", self.combined.fmi[place])
        return (
            f"{self.m} imputations are few where a fraction of missing information is {fmi} "
            f"('{term}'): about {self.m_wanted} tables would do (100 × fmi; White, Royston and Wood 2011)"
        )

    @property
    def table(self) -> Any:
        """`columns` as a pandas DataFrame, a row for each term."""
        from vgi_cli.table.frames import frame_of

        return frame_of(self.columns, self.terms, "term")

    def test(self, terms: Sequence[str] | str, method: str = "D1") -> Hypothesis:
        """The pooled test that some terms are all zero, by `D1` (from the covariance matrices) or `D2` (from Wald's
        statistics in the imputations, which is weaker). InputError where it needs covariances that were not given."""
        if method not in METHODS:
            raise UsageError(f"method: expected D1 or D2, got {method!r}", "D3 is vgi_cli.pooling.hypotheses.d3")
        names = [terms] if isinstance(terms, str) else list(terms)
        values, covariances = self.estimates.chosen(names)
        if method == "D2":
            return d2(wald(values, covariances), len(names))
        return d1(values, covariances, self.estimates.df_complete)

    def to_dict(self, tests: Sequence[Sequence[str]] = ()) -> dict[str, Any]:
        """What `vgi pool --json` prints (schemas/pool.json), with D1 and D2 for each group of terms in `tests`. What is
        infinite (degrees of freedom, ends of intervals) is left out."""
        out: dict[str, Any] = {"format": FORMAT, "m": self.m, "level": self.level}
        out |= {} if self.m_wanted is None else {"m_wanted": self.m_wanted}
        out |= _finite({"df_complete": self.estimates.df_complete})
        rows = zip(*(column.tolist() for column in self.columns.values()), strict=True)
        named = zip(self.terms, rows, strict=True)
        out["terms"] = [{"term": term} | _finite(dict(zip(self.columns, row, strict=True))) for term, row in named]
        if tests:
            out["tests"] = [{"terms": list(group)} | _finite(vars(test)) for group, test in self._tests(tests)]
        return out

    def text(self, tests: Sequence[Sequence[str]] = ()) -> str:
        """What `vgi pool` prints: Markdown, whose columns are aligned."""
        complete = self.estimates.df_complete
        known = "not said (large)" if np.isinf(complete) else f"{complete:g}"
        percent = f"{100 * self.level:g} %"
        shown = self.columns
        head = ["term", "estimate", "std. error", "t", "df", "p", f"{percent} from", "to", "riv", "fmi"]
        names = ("estimate", "std_error", "statistic", "df", "p_value", "low", "high", "riv", "fmi")
        rows = []
        for i, term in enumerate(self.terms):
            places = _places(shown["std_error"][i])
            rows.append([term, *(_number(name, shown[name][i], places) for name in names)])
        lines = [f"{self.m} imputations, complete-data degrees of freedom {known}", "", *_aligned([head, *rows])]
        if tests:
            head = ["all zero", "by", "F", "df", "p", "riv"]
            rows = []
            for group, test in self._tests(tests):
                df = f"{test.df1}, {_number('df', test.df2)}"
                numbers = _number("statistic", test.statistic), df, _number("p_value", test.p_value)
                rows.append([", ".join(group), test.method, *numbers, _number("riv", test.riv)])
            lines += ["", *_aligned([head, *rows])]
        if self.m_wanted is not None:
            lines += ["", self._too_few()]
        return "\n".join([*lines, ""])

    def __str__(self) -> str:
        return self.text()

    def _tests(self, groups: Sequence[Sequence[str]]) -> list[tuple[Sequence[str], Hypothesis]]:
        return [(group, self.test(group, method)) for group in groups for method in METHODS]


def _quantile(df: Floats, level: float) -> Floats:
    """[P] quantiles of t with `df` [P] degrees of freedom between which, of either sign, `level` lies. Of next to no
    degrees of freedom they are as large as the tail is long, and infinite where no number is so large."""
    from scipy import special

    a = df / 2
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        # P(|t| > q) is the incomplete beta function I_x(a, 1/2) of x = df / (df + q²), x^a / (a B(a, 1/2)) for small x
        log_tail = np.log1p(-level) + special.gammaln(a + 1) + special.gammaln(0.5) - special.gammaln(a + 0.5)
        far = np.where(df > 0, np.exp((np.log(df) - log_tail / a) / 2), np.inf)
        return np.where((far > FAR) & (df < 1), far, special.stdtrit(df, (1 + level) / 2))


def _finite(values: dict[str, Any]) -> dict[str, Any]:
    """Without infinite numbers, which JSON does not have."""
    return {name: value for name, value in values.items() if isinstance(value, str) or np.isfinite(value)}


def _places(error: float) -> int | None:
    """Decimals that show three digits of a standard error; None where that would be a long row of zeros."""
    place = 2 - math.floor(math.log10(error))
    return max(0, place) if place <= 8 else None


def _number(name: str, value: float, places: int | None = None) -> str:
    """A number for people; `places`: decimals of estimates and what has their unit."""
    if name == "p_value":
        return "< 0.001" if value < 0.001 else f"{value:.3f}"
    if np.isinf(value):
        return "∞" if value > 0 else "-∞"
    if name == "df":
        return f"{value:.1f}" if value == 0 or 0.05 <= value < LARGE else f"{value:.1e}"
    if name == "statistic":
        return f"{value:z.2f}"
    if name in ("riv", "fmi"):
        return f"{value:.3f}" if value < LARGE else f"{value:.4g}"
    return f"{value:.4g}" if places is None or abs(value) >= LARGE else f"{value:z.{places}f}"


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a Markdown table: texts of the first column to the left, all others to the right; each on one line."""
    cells = [[" ".join(cell.split()).replace("|", "\\|") for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = []
    for row in cells:
        padded = [cell.rjust(width) for cell, width in zip(row, widths, strict=True)]
        padded[0] = row[0].ljust(widths[0])
        lines.append(f"| {' | '.join(padded)} |")
    rule = [f":{'-' * (widths[0] - 1)}", *(f"{'-' * (width - 1)}:" for width in widths[1:])]
    return [lines[0], f"| {' | '.join(rule)} |", *lines[1:]]
