"""Keys whose rows are in no order, and columns that only look like them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from vgi_cli.encoding.infer import infer_schema
from vgi_cli.table.frames import from_frame

RNG = np.random.default_rng(0)
N = 200


def said(columns: dict[str, Any], **options: Any) -> list[str]:
    """The lines on keys of a table with a column of numbers more."""
    frame = pd.DataFrame({**columns, "y": np.random.default_rng(1).normal(size=len(next(iter(columns.values()))))})
    return [note for note in infer_schema(from_frame(frame), **options)[1] if " key" in note]


def test_a_shuffled_key_is_named() -> None:
    line = (
        "column 'pnr' is modelled, but may be a key: no value occurs twice, 1000 to 1199 have hardly a gap, and no "
        "other column goes with them: `--id pnr` or `--exclude pnr` if it is a key"
    )
    key = RNG.permutation(N) + 1000
    assert said({"pnr": key}) == [line]
    holes = np.where(np.arange(N) % 20 == 7, np.nan, key)
    assert [note.partition(":")[0] for note in said({"pnr": holes})] == ["column 'pnr' is modelled, but may be a key"]
    assert said({"pnr": key}, kinds={"pnr": "integer"}) == said({"pnr": key}, exclude=["pnr"]) == []


def test_several_have_one_line() -> None:
    assert said({"pnr": RNG.permutation(N) + 1000, "bib": RNG.permutation(N)}) == [
        "columns 'pnr', 'bib' are modelled, but may be keys: none of them holds a value twice, or has more than a few "
        "gaps, and no other column goes with them: `--id pnr` or `--exclude pnr` if they are"
    ]


def ages() -> dict[str, Any]:
    return {"age": RNG.permutation(60)[:19] + 20}


def rank() -> dict[str, Any]:
    time = RNG.normal(6000, 600, N)
    return {"time": time + RNG.normal(0, 300, N), "rank": np.argsort(np.argsort(time)) + 1}


def wide() -> dict[str, Any]:
    return {"x": RNG.permutation(10 * N)[:N]}


def twice() -> dict[str, Any]:
    return {"x": np.append(RNG.permutation(N - 1), 5)}


def years() -> dict[str, Any]:
    return {"year": RNG.permutation(60) + 1950}


def copied() -> dict[str, Any]:
    x = RNG.normal(size=N).round(6)
    return {"x": x, "place": N - np.argsort(np.argsort(x))}


@pytest.mark.parametrize("make", [ages, rank, wide, twice, years, copied])
def test_what_is_no_key_is_not_named(make: Any) -> None:
    """Few values, ranks, gaps, a value that occurs twice, years."""
    assert said(make()) == []
