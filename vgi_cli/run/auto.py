"""The rule of `--model auto`: one pure function on the size of the table and the share of missing cells."""

from __future__ import annotations

from typing import NamedTuple

FLOW_ROWS = 20_000
FLOW_ROWS_PER_COLUMN = 500


class Choice(NamedTuple):
    """What `auto` takes, and why (the line that is printed)."""

    model: str
    method: str
    why: str


def choose(N: int, d: int, share_missing: float) -> Choice:
    """Model and method for N rows, d modelled columns and a share of missing cells.

    A mixture by EM is exact, quick and hard to beat until the observed rows are many enough to teach a flow what a
    mixture cannot say.
    """
    size = f"{N:,} row{'s' * (N != 1)}, {d:,} column{'s' * (d != 1)}, {share_missing:.0%} of the cells missing"
    needed = max(FLOW_ROWS, FLOW_ROWS_PER_COLUMN * d)
    if d > 1 and N * (1.0 - share_missing) >= needed:
        return Choice("flow", "vgi", f"{size}: enough rows to learn a flow ({needed:,} after the holes)")
    return Choice("mixture", "em", f"{size}: a mixture (a flow needs {needed:,} rows after the holes)")
