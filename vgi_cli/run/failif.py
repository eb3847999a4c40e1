"""`--fail-if 'PATH OP NUMBER'`: conditions on a report under which a command exits with 3."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from vgi_cli.errors import FailIfMissed, UsageError, nearest

OPERATORS: Mapping[str, Callable[[float, float], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
}
SHORT = {"loglik": "loglik.mean"}


class Condition(NamedTuple):
    """A path into the report, a comparison and a number."""

    text: str
    path: str
    compare: Callable[[float, float], bool]
    number: float


def parse_conditions(texts: Sequence[str]) -> list[Condition]:
    """Read `--fail-if` texts such as `loglik < -5`. UsageError for what is no condition."""
    conditions = []
    for text in texts:
        match = re.fullmatch(r"\s*(\S.*?)\s*(<=|>=|==|!=|<|>)\s*(\S+)\s*", text)
        try:
            assert match is not None
            number = float(match[3])
        except (AssertionError, ValueError):
            raise UsageError(
                f"--fail-if: expected 'PATH OP NUMBER' with one of {' '.join(OPERATORS)}, got '{text}'",
                "for example --fail-if 'loglik < -5'",
            ) from None
        conditions.append(Condition(text, SHORT.get(match[1], match[1]), OPERATORS[match[2]], number))
    return conditions


def raise_if_missed(conditions: Sequence[Condition], report: Mapping[str, Any]) -> None:
    """FailIfMissed (exit 3) naming every condition that holds; UsageError for a path that the report does not have."""
    numbers = _numbers(report, "")
    missed = []
    for condition in conditions:
        if condition.path not in numbers:
            raise UsageError(
                f"--fail-if: the report has no number '{condition.path}'", nearest(condition.path, [*numbers, *SHORT])
            )
        value = numbers[condition.path]
        if condition.compare(value, condition.number):
            missed.append(f"{condition.text} ({condition.path} is {value:.6g})")
    if missed:
        raise FailIfMissed("--fail-if: " + "; ".join(missed))


def _numbers(value: Mapping[str, Any], prefix: str) -> dict[str, float]:
    numbers: dict[str, float] = {}
    for key, inner in value.items():
        if isinstance(inner, Mapping):
            numbers |= _numbers(inner, f"{prefix}{key}.")
        elif isinstance(inner, int | float) and not isinstance(inner, bool):
            numbers[f"{prefix}{key}"] = float(inner)
    return numbers
