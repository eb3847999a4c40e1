"""Holes that stay are counted by column and named in one line."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.table.helpers import from_text, save
from vgi_cli.columns.wording import Alarm
from vgi_cli.encoding.check import UNSEEN, Check, Holes, check
from vgi_cli.encoding.infer import infer_schema, schema_alone
from vgi_cli.errors import InputError
from vgi_cli.table.frames import from_frame
from vgi_cli.table.reader import read_table

TEXT = "id,a,b,c,flag,note,none\n1,1.5,,7,true,x,\n,,2.5,NA,,,\n3,3.5,4.5,7,false,,\n"


def test_what_becomes_of_each_hole() -> None:
    table = from_text(TEXT)
    schema, notes = infer_schema(table, ids=["id"])
    holes = Holes(schema).add(table)
    assert holes.filled == 4  # of a, b, the constant c and the truth values
    assert holes.staying == {"id": 1, "note": 2, "none": 3}
    assert (holes.left, holes.total) == (6, 10)
    where = "'id' (1), 'note' (2), 'none' (3)"
    assert holes.notes() == [f"6 holes will stay, in columns that are not modelled: {where}"]
    assert set(holes.notes()) < set(notes)


def test_columns_that_the_fit_does_not_know_keep_their_holes() -> None:
    schema = schema_alone(from_text("a,b\n1,2\n3,5\n"))
    holes = Holes(schema).add(from_text("b,extra,a\n,,1\n2,,\n"))
    assert (holes.filled, holes.staying) == (2, {"extra": 2})
    assert holes.notes() == ["2 holes will stay, in a column that is not modelled: 'extra' (2)"]


def test_blocks_add_up_and_many_columns_are_cut_short() -> None:
    names = [f"t{i}" for i in range(17)]
    rows = [",".join(["x"] * 17 + ["1"]), ",".join([""] * 17 + ["2"])]
    text = ",".join([*names, "a"]) + "\n"
    schema = schema_alone(from_text(text + "\n".join(rows) + "\n"))
    holes = Holes(schema)
    for _ in range(2):
        holes.add(from_text(text + "\n".join(rows) + "\n"))
    assert holes.where() == "'t0' (2), 't1' (2), 't2' (2), 't3' (2), 't4' (2) and 12 more columns (24)"


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_what_a_mask_hides_in_a_carried_column_is_written_as_it_is(suffix: str, tmp_path: Path) -> None:
    data = save(tmp_path, "data.csv", "a,t\n1,x\n2,\n3,z\n")
    mask = save(tmp_path, "mask.csv", "a,t\n0,0\n1,0\n1,1\n")
    if suffix == "parquet":
        pd = pytest.importorskip("pandas")
        data = tmp_path / "data.parquet"
        pd.DataFrame({"a": [1, 2, 3], "t": ["x", None, "z"]}).to_parquet(data)
    table = read_table([str(data)], mask=mask)
    schema = schema_alone(table)
    holes = Holes(schema).add(table)
    assert (holes.filled, holes.staying) == (1, {"t": 1})


def test_no_line_without_such_holes() -> None:
    table = from_text("a,t\n1,x\n,y\n3,z\n")
    schema, notes = infer_schema(table)
    assert Holes(schema).add(table).notes() == [] and not any("will stay" in note for note in notes)


def test_of_a_table_in_memory_the_hint_names_what_python_takes() -> None:
    fitted = from_frame(pd.DataFrame({"c": list("abab" * 5), "x": range(20)}))
    schema = schema_alone(fitted)
    with pytest.raises(InputError) as refused:
        check(from_frame(pd.DataFrame({"c": ["a", "new"], "x": [1, 2]})), schema)
    assert refused.value.hint == "`unseen='missing'` fills such cells, `unseen='carry'` leaves them as they are"


def days(first: str, count: int) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    x = rng.normal(size=count)
    return pd.DataFrame(
        {"when": pd.date_range(first, periods=count, freq="h"), "x": x, "y": x + rng.normal(size=count)}
    )


@pytest.mark.parametrize(
    ("frame", "line"),
    [
        (days("2026-01-01", 60), None),
        (
            days("2026-01-03 13:00", 50),
            "column 'when': '2026-01-03 13:00:00' in row 1 and 49 more cells are outside the range of the fit, "
            "2026-01-01 00:00:00 to 2026-01-03 11:00:00: fills that depend on it are extrapolated; fit again with such "
            "rows, or without the column",
        ),
        (
            days("2027-01-01", 60),
            "column 'when': '2027-01-01 00:00:00' in row 1 and 59 more cells are far outside the range of the fit, "
            "2026-01-01 00:00:00 to 2026-01-03 11:00:00: fills that depend on it are extrapolated; fit again with such "
            "rows, or without the column",
        ),
        (
            days("2026-01-04 13:00", 60),
            "column 'when': '2026-01-05 23:00:00' in row 35 and 25 more cells are far outside the range of the fit, "
            "2026-01-01 00:00:00 to 2026-01-03 11:00:00: fills that depend on it are extrapolated; fit again with such "
            "rows, or without the column",
        ),
        (days("2026-01-02", 60).iloc[:9], None),
    ],
)
def test_a_column_most_of_which_is_outside_the_range_of_the_fit_is_a_warning(frame: Any, line: str | None) -> None:
    schema = schema_alone(from_frame(days("2026-01-01", 60)))
    urgent = [note for note in check(from_frame(frame), schema) if isinstance(note, Alarm)]
    assert urgent == ([] if line is None else [line])


def test_few_cells_far_outside_are_a_note_and_a_hundredth_of_the_column_a_warning() -> None:
    fitted = days("2026-01-01", 400)
    schema = schema_alone(from_frame(fitted))
    for count, urgent in ((1, False), (4, True)):
        frame = fitted.copy()
        frame.loc[: count - 1, "y"] = 1000.0
        checking = Check(schema, list(frame), "t", "imputed")
        for start in range(0, 400, 100):  # counted over all blocks
            checking.add(from_frame(frame.iloc[start : start + 100].reset_index(drop=True)))
        (note,) = [note for note in checking.notes() if "far outside" in note]
        assert isinstance(note, Alarm) == urgent
        assert note.endswith("other units, or a code for missing? Else fit again with such rows, or without the column")


FITTED = "sex,a\n" + "".join(f"{level},{i}\n" for i, level in enumerate(["low", "mid", "top"] * 10))


@pytest.mark.parametrize(
    ("cells", "near"),
    [
        (["Low"], "did you mean 'low'? "),
        ([" LOW "], "did you mean 'low'? "),
        (["Low", "MID", "new"], "did you mean 'low' for 'Low', 'mid' for 'MID'? "),
        (["Low", "new"], "did you mean 'low' for 'Low'? "),
        (["lwo"], ""),
    ],
)
def test_a_level_in_other_capitals_is_named_beside_the_one_of_the_fit(cells: list[str], near: str) -> None:
    schema = schema_alone(from_text(FITTED))
    new = "sex,a\n" + "".join(f"{cell},1\n" for cell in [*cells, "low"])
    with pytest.raises(InputError) as caught:
        check(from_text(new), schema)
    assert str(caught.value.hint) == (
        f"{near}`--unseen missing` fills such cells, `--unseen carry` leaves them as they are"
    )
    known = re.findall(r"(?:mean|,) '(\w+)'", near)
    for rule in UNSEEN:
        [line] = [one for one in check(from_text(new), schema, unseen=rule) if "has not seen" in one]
        assert re.findall(r"\(1 cell; the fit has '(\w+)'\)", line) == known


def test_of_two_levels_in_other_capitals_none_is_meant() -> None:
    schema = schema_alone(from_text(FITTED.replace("top", "LOW")))
    with pytest.raises(InputError) as caught:
        check(from_text("sex,a\nLow,1\nmid,2\n"), schema)
    assert "did you mean" not in str(caught.value.hint)
