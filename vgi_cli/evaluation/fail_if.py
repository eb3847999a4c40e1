"""`--fail-if 'PATH OP NUMBER'`: conditions on a report under which a command exits with 3."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from vgi_cli.errors import FailIfMissed, UsageError, nearest

OPERATORS: Mapping[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
SHORT = {"loglik": "loglik.mean"}
SUMMARY = ("mean", "se", "standardised", "per_cell", "rows")
LOGLIK = (
    *SUMMARY,
    *(
        "rows_left_out",
        "particles",
        "ess",
        "monte_carlo_se",
        "half_budget",
        "rows_at_limit",
        "dequantisation_draws",
        "refit_epochs",
    ),
    *(f"{part}.{name}" for part in ("complete", "incomplete") for name in SUMMARY),
    *(f"sample.{name}" for name in ("rows", "of", "seed")),
)
"""The numbers that the `loglik` of a report may have, beside those of the bracket by simulated data."""
PARTS = ("format", "rows", "loglik", "objective", "imputation", "sampler", "truth", "conditionals")
EXAMPLE = "write it as 'loglik.mean < -12.5': a path of the JSON report, one of < <= > >= == !=, a number"
_FORM = re.compile(r"^\s*(?P<path>[^<>=!]*[^<>=!\s])\s*(?P<op><=|>=|==|!=|<|>)\s*(?P<number>\S+)\s*$")


class Condition(NamedTuple):
    """`path OP number`: the command fails when it holds."""

    path: str
    op: str
    number: float

    def __str__(self) -> str:
        return f"{self.path} {self.op} {self.number:g}"


def parse(text: str) -> Condition:
    """A condition from its text; `loglik` is short for `loglik.mean`. UsageError when it has another form."""
    match = _FORM.match(text)
    if match is None:
        raise UsageError(f"--fail-if '{text}' is not a condition", EXAMPLE)
    try:
        number = float(match["number"])
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise UsageError(f"--fail-if '{text}': '{match['number']}' is not a finite number", EXAMPLE)
    path = match["path"].strip()
    return Condition(SHORT.get(path, path), match["op"], number)


def numbers(report: Mapping[str, Any], prefix: str = "") -> dict[str, float]:
    """Every number of a report by its dotted path."""
    out: dict[str, float] = {}
    for key, value in report.items():
        path = f"{prefix}{key}"
        if isinstance(value, Mapping):
            out |= numbers(value, f"{path}.")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            out[path] = float(value)
    return out


def foresee(conditions: Sequence[Condition], absent: Mapping[str, str]) -> None:
    """UsageError for a path that the report cannot have, as far as that is known before it is made.

    absent  dotted paths of the parts that were not asked for, and the flags that add them
    """
    for condition in conditions:
        part = condition.path.partition(".")[0]
        message = f"--fail-if '{condition}': the report has no number '{condition.path}'"
        if part not in PARTS:
            raise UsageError(message, nearest(part, PARTS))
        known = _known(condition.path)
        if known and condition.path not in known:
            raise UsageError(message, nearest(condition.path, known))
        for prefix, flag in absent.items():
            if f"{condition.path}.".startswith(f"{prefix}."):
                raise UsageError(message, f"{flag} adds it")


def _known(path: str) -> list[str]:
    """The numbers that may stand where `path` points; none where only the report tells."""
    from vgi_cli.columns.level_scores import LEVEL_SCORES
    from vgi_cli.evaluation.imputation import NumberScores  # it loads torch, and is asked after it
    from vgi_cli.evaluation.likelihood.loglik import Bracket

    part, _, name = path.partition(".")
    if part == "loglik":
        return [f"loglik.{known}" for known in (*LOGLIK, *(f"simulated.{field}" for field in Bracket._fields))]
    if part != "imputation":
        return []
    whose = name.rpartition(".")[0]
    scores = (*NumberScores._fields, *LEVEL_SCORES)
    if whose == "marginal":
        return [f"imputation.{whose}.{known}" for known in scores]
    if whose.startswith("columns."):
        return [f"imputation.{whose}.{known}" for known in ("cells", *scores, "sd")]
    if whose.startswith("kinds."):
        return [f"imputation.{whose}.{known}" for known in ("columns", "cells", *scores)]
    return [f"imputation.{known}" for known in (*scores, "sliced_wasserstein")]


def require(conditions: Sequence[Condition], known: Mapping[str, float]) -> None:
    """UsageError when a path is no number of the report; `known` as `numbers` gives it."""
    for condition in conditions:
        if condition.path not in known:
            raise UsageError(
                f"--fail-if '{condition}': the report has no number '{condition.path}'", nearest(condition.path, known)
            )


def check(conditions: Sequence[Condition], report: Mapping[str, Any], lost: Mapping[str, float] = {}) -> None:
    """FailIfMissed when a condition holds, or cannot be judged as its number is NaN; UsageError when a path is no
    number of the report. `lost`: numbers that the report leaves out, as they are not finite."""
    known = {**numbers(report), **lost}
    require(conditions, known)
    held = [c for c in conditions if math.isnan(known[c.path]) or OPERATORS[c.op](known[c.path], c.number)]
    if held:
        raise FailIfMissed(
            "; ".join(_verdict(condition, known[condition.path]) for condition in held),
            "the report is complete; nothing else failed",
        )


def _verdict(condition: Condition, value: float) -> str:
    """What is said of a condition that holds, or cannot be judged."""
    if math.isnan(value):
        return f"--fail-if '{condition}': {condition.path} is no number, so that the condition cannot be judged"
    return f"--fail-if '{condition}' holds: {condition.path} is {value:.6g}"
