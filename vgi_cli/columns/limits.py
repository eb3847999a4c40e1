"""Limits of fills that a user asks for: `LOW:HIGH`, `observed` or `none`, by column or for all of them."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Literal, NamedTuple

from vgi_cli.errors import UsageError

ALL = "all"
"""Stands for every column, unless one is called that."""
FORMS = "for example 0:100, 0: or :100 (a side left empty keeps its natural limit), observed or none"


class Asked(NamedTuple):
    """What was asked for one column.

    rule       range: `low` and `high`, None where a side was left empty; observed: the observed range; none: no limit
    said       the words, as `age=0:100`
    named      whether the column was named, or `all` stands for it
    """

    rule: Literal["range", "observed", "none"]
    said: str
    named: bool = True
    low: float | None = None
    high: float | None = None


def parse_limits(name: str, text: str) -> Asked:
    """`0:100`, `0:`, `:100`, `observed` or `none` for a column (or ALL). UsageError otherwise."""
    said = f"{name}={text}"
    if text == "observed":
        return Asked("observed", said)
    if text == "none":
        return Asked("none", said)
    sides = [side.strip() for side in text.split(":")]
    if len(sides) != 2 or not any(sides):
        raise UsageError(f"--bounds {said}: expected LOW:HIGH, observed or none, got '{text}'", FORMS)
    low, high = (_number(side, said) if side else None for side in sides)
    if low is not None and high is not None and low >= high:
        raise UsageError(f"--bounds {said}: {sides[0]} is not below {sides[1]}", "give the lower limit first")
    return Asked("range", said, low=low, high=high)


def _number(text: str, said: str) -> float:
    try:
        value = math.nan if "_" in text else float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise UsageError(f"--bounds {said}: '{text}' is not a number", FORMS)
    return value


def asked_for(names: Collection[str], bounds: Mapping[str, str], unbounded: Sequence[str]) -> dict[str, Asked]:
    """What was asked for each of the columns of a table, and for names that it does not have.

    bounds     column (or ALL) -> limits
    unbounded  columns (or ALL): the same as `none`. UsageError where both name a column and disagree.
    """
    asked = {name: parse_limits(name, text) for name, text in bounds.items()}
    for name in unbounded:
        if name in asked and asked[name].rule != "none":
            raise UsageError(f"--unbounded {name} disagrees with --bounds {asked[name].said}", "drop one of them")
        asked[name] = Asked("none", f"{name}=none")
    if ALL in asked and ALL not in names:
        everywhere = asked.pop(ALL)._replace(named=False)
        asked = dict.fromkeys(names, everywhere) | asked
    return asked
