"""Keys of which no row has a value of a column that follows from them are told, with how many there are."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tests.encoding.test_keys import panel
from tests.selection import first
from vgi_cli.encoding.infer import Said, infer_schema
from vgi_cli.encoding.silent_keys import silent_key_words
from vgi_cli.table.frames import from_frame


def lines(frame: pd.DataFrame, **said: object) -> list[str]:
    _, notes = infer_schema(from_frame(frame), **said)  # type: ignore[arg-type]
    return [line for line in notes if "no value in any" in line]


@pytest.mark.parametrize("ids", first(1, [["person"], []]))
def test_persons_of_whom_no_row_says_what_is_theirs(ids: list[str]) -> None:
    """By a number that is modelled, and by an id that is carried."""
    frame = panel()
    frame.loc[frame.person.isin([3, 7, 8]), "born"] = np.nan
    frame.loc[frame.person.isin([3, 50]) | (frame.year == 2002), "sex"] = None
    assert lines(frame, ids=ids) == [
        "columns 'sex', 'born' follow from 'person', but up to 3 of these have several rows and no value in any: their "
        "fills differ from row to row (fill a table with one row for each 'person' first where that matters)"
    ]
    frame["sex"] = panel().sex
    frame.loc[frame.person.isin([7, 8]), "born"] = panel().born
    (line,) = lines(frame, ids=ids)
    assert line.startswith("column 'born' follows from 'person', but 1 of these has several rows and no value in any")


def test_nothing_is_said_where_each_has_a_value_or_a_single_row() -> None:
    frame = panel()
    frame.loc[frame.year < 2004, "born"] = np.nan
    single = frame[(frame.person != 5) | (frame.year == 2003)]
    assert lines(frame) == lines(single) == []
    schema, _ = infer_schema(from_frame(panel()[["income"]]), **Said()._asdict())
    assert silent_key_words(from_frame(panel()), schema) == []
