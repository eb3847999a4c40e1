"""The rule of `--model auto`: one pure function on the size of the table and its holes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from vgi_cli.models.gaussian.mixture import FULL_UP_TO

FLOW_ROWS = 20_000
FLOW_ROWS_PER_COLUMN = 500
"""Rows after the holes from which a flow is worth a try: so many, and so many a column."""
WIDE_FACTORS = 8
"""Factors of the one Gaussian where nothing is to be filled, beyond FULL_UP_TO columns."""


class Choice(NamedTuple):
    """What `auto` takes, and why (the line that is printed).

    settings  of the model
    refits    whether bootstrap refits are made by the usual rule
    """

    model: str
    method: str
    why: str
    settings: Mapping[str, Any] = {}
    refits: bool = True


def choose(N: int, d: int, share_missing: float, partial: int) -> Choice:
    """Model and method for N rows, d modelled columns, a share of missing cells and so many rows with holes beside
    observed cells.

    A mixture by EM is exact and quick, and where it was measured it imputes no worse than a flow, which takes tens of
    times as long. Where no row has a hole beside an observed cell nothing depends on the model yet: one Gaussian is
    fitted, which takes a few iterations, can fill new rows and be evaluated.
    """
    size = f"{N:,} row{'s' * (N != 1)}, {d:,} column{'s' * (d != 1)}, {share_missing:.0%} of the cells missing"
    if partial == 0:
        what = "only whole rows are missing" if share_missing > 0 else "there is nothing to fill"
        why = f"{size}: {what}, so one Gaussian is enough (--model mixture makes a full fit, for new rows with holes)"
        wide = {"covariance": "factor", "factors": WIDE_FACTORS} if d > FULL_UP_TO else {}
        return Choice("mixture", "em", why, {"components": 1, **wide}, refits=False)
    if d > 1 and N * (1.0 - share_missing) >= max(FLOW_ROWS, FLOW_ROWS_PER_COLUMN * d):
        many = "--model flow may describe so many rows better, in tens of times the time"
        return Choice("mixture", "em", f"{size} ({many})")
    return Choice("mixture", "em", size)
