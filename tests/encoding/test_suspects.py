"""Lines about columns that may not be what they look like, and tokens that mean missing however they are spelled."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.table.helpers import from_text, save
from vgi_cli.columns.base import Encoding
from vgi_cli.columns.wording import WRITTEN, Alarm, columns_said, kind_flag, token_flag, typed
from vgi_cli.encoding.check import check
from vgi_cli.encoding.codes import DECADES, far_values, negative_codes, piled_codes
from vgi_cli.encoding.infer import infer_schema, schema_alone
from vgi_cli.errors import InputError
from vgi_cli.table.base import Table
from vgi_cli.table.frames import from_frame
from vgi_cli.table.reader import read_table

X = [f"{v:.2f}" for v in np.random.default_rng(0).normal(10, 1, 40)]
OTHER = [f"{v:.3f}" for v in np.random.default_rng(1).normal(0, 1, 40)]


def two_columns(folder: Path, cells: list[str], **options: object) -> Table:
    rows = "\n".join(f'"{cell}",{other}' for cell, other in zip(cells, OTHER, strict=True))
    path = save(folder, "table.csv", f"x,y\n{rows}\n")
    return read_table([str(path)], **options)  # type: ignore[arg-type]


def notes(table: Table, **options: object) -> list[str]:
    found = infer_schema(table, **options)[1]  # type: ignore[arg-type]
    return [note for note in found if "no hole" not in note and "one column" not in note]


def test_numbers_among_other_texts_are_said(tmp_path: Path) -> None:
    cells = ["?"] * 8 + X[8:]
    assert notes(two_columns(tmp_path, cells)) == [
        "column 'x' is carried as text, not modelled: 80% of its cells are numbers, "
        "but also '?' in row 1 (line 2) and 7 more cells: `--na-values '?'` if that means missing"
    ]
    assert notes(two_columns(tmp_path, cells), kinds={"x": "carry"}) == []
    assert notes(two_columns(tmp_path, cells), exclude=["x"]) == []
    assert notes(two_columns(tmp_path, ["?"] * 25 + X[25:])) == [  # what may mean missing does not count
        "column 'x' is carried as text, not modelled: 38% of its cells are numbers, "
        "but also '?' in row 1 (line 2) and 24 more cells: `--na-values '?'` if that means missing"
    ]
    assert notes(two_columns(tmp_path, [f"t{i % 20}" for i in range(25)] + X[25:])) == [  # few are numbers: text
        "column 'x' is carried: text of 35 levels, more than a fifth of its 40 cells (`--column x=categorical` "
        "models it)"
    ]


@pytest.mark.parametrize("shape", ["{},5", "-1_0{}0"])
def test_numbers_that_are_written_otherwise_are_said(tmp_path: Path, shape: str) -> None:
    found = notes(two_columns(tmp_path, [shape.format(i % 9 + 1) for i in range(40)]))
    first = shape.format(1)
    comma = "`--decimal ,` where the comma is the decimal mark; " if shape == "{},5" else ""
    assert found == [
        f"column 'x' is carried as text, not modelled: '{first}' in row 1 (line 2) is no plain number "
        f"({comma}write 1234.5, without commas, blanks or units)"
    ]


def test_negative_codes_of_columns_with_units_are_said(tmp_path: Path) -> None:
    cells = ["-3%" if i % 4 == 0 else f"{i % 29 + 0.5}%" for i in range(40)]
    rows = "".join(f"{cell},{-3 if i % 4 == 1 else i % 31 + 0.5}\n" for i, cell in enumerate(cells))
    found = notes(read_table([str(save(tmp_path, "units.csv", "x,y\n" + rows))]))
    for code, name in (("-3%", "x"), ("-3", "y")):
        said = [line for line in found if line.startswith(f"{code} (10 cells) is ")]
        assert len(said) == 1 and f"negative, unlike all other values of column '{name}'" in said[0], found


@pytest.mark.parametrize("text", ["2024-01-05", "01.02.2024", "02139", "a", "1.2.3", "12:30", "1,2,3", "5 kg", "", "-"])
def test_other_texts_are_not(text: str) -> None:
    assert WRITTEN.fullmatch(text) is None


def test_a_unit_does_not_hide_numbers(tmp_path: Path) -> None:
    [line] = notes(two_columns(tmp_path, ["k.A." if i % 5 == 2 else f"{150 + i} cm" for i in range(40)]))
    assert line == (
        "column 'x' is carried as text, not modelled: its cells are numbers, written as 1234.5 cm, but also 'k.A.' "
        "in row 3 (line 4) and 7 more cells: `--na-values x=k.A.` if that means missing"
    )
    [line] = notes(two_columns(tmp_path, [f"{i} {'abcd'[i % 4]}" for i in range(40)]))
    assert line.startswith("column 'x' is carried: text of 40 levels")


@pytest.mark.parametrize("word", ["k. A.", "Unbekannt", "Refused"])
def test_levels_that_may_mean_missing_in_other_words(tmp_path: Path, word: str) -> None:
    [line] = notes(two_columns(tmp_path, [word if i % 8 == 0 else "ab"[i % 2] for i in range(40)]))
    flag = shlex.quote(f"x={word}")
    assert line == f"'{word}' (5 cells) is a level of column 'x': `--na-values {flag}` if it means missing"


def test_none_of_a_scale_means_none(tmp_path: Path) -> None:
    """Where somebody said that it is one."""
    words = ["none", "mild", "moderate", "severe"]
    table = two_columns(tmp_path, [words[i % 4] for i in range(40)])
    assert any("'none' (10 cells) is a level of column 'x'" in line for line in notes(table))
    said = notes(table, kinds={"x": f"ordinal:{','.join(words)}"})
    assert not any("if it means missing" in line for line in said)


def test_codes_with_leading_zeros_are_not_said(tmp_path: Path) -> None:
    assert notes(two_columns(tmp_path, ["02139", "12139"] * 20)) == []


def test_a_repeated_value_far_from_all_others_is_said_once_for_all_columns(tmp_path: Path) -> None:
    rows = "\n".join(f"{-999 if i < 3 else x},{'-999.0' if i == 5 or i == 6 else y}" for i, (x, y) in _pairs())
    table = read_table([str(save(tmp_path, "table.csv", f"x,y\n{rows}\n"))])
    assert notes(table) == [
        "-999 (5 cells) is far from all other values of columns 'x', 'y': `--na-values -999` if that means missing, "
        "`--na-values x=-999` in 'x' alone"
    ]


@pytest.mark.parametrize("listed", [True, False])
def test_what_each_level_has_is_not_far_from_others(listed: bool) -> None:
    """The reference limits of laboratory tests, each of which has its own."""
    rng = np.random.default_rng(1)
    test = rng.integers(0, 4, 400)
    limit = np.array([0.5, 0.9, 1.2, 70.0])[test]
    if not listed:
        limit = np.where(rng.random(400) < 0.3, rng.permutation(limit), limit)
    frame = pd.DataFrame({"test": np.array(["a", "b", "c", "d"])[test], "limit": limit, "x": rng.normal(size=400)})
    lines = infer_schema(from_frame(frame), encoding=Encoding())[1]
    assert any("far from all other values of column 'limit'" in line for line in lines) != listed


def test_one_value_far_from_all_others_is_said(tmp_path: Path) -> None:
    assert notes(two_columns(tmp_path, [*X[:17], "1e200", *X[18:]])) == [
        "column 'x' has a value far from all others: '1e200' in row 18 (line 19); "
        "`--na-values x=1e+200` if it is a slip"
    ]
    assert notes(two_columns(tmp_path, [*X[:17], "60", *X[18:]])) == []


def test_the_same_of_many_columns_is_counted(tmp_path: Path) -> None:
    frame = pd.DataFrame({f"c{i}": ["?"] * 4 + X[4:14] for i in range(8)} | {"y": OTHER[:14]})
    frame.to_csv(tmp_path / "t.csv", index=False)
    found = notes(read_table([str(tmp_path / "t.csv")]))
    (line,) = found
    assert line.endswith("; the same of columns 'c1', 'c2', 'c3', 'c4', 'c5' and 2 more")


def test_levels_that_may_mean_missing_have_one_line_for_all_columns(tmp_path: Path) -> None:
    """Whatever the number of their cells; the columns are named where a token may mean something in another one."""
    for token, n, flags in (
        ("-", 3, "`--na-values -`"),
        ("unknown", 14, "`--na-values 'c*=unknown'`"),
        ("unknown", 2, "`--na-values c0,c1=unknown`"),
    ):
        columns = {f"c{i}": [token] * (2 + i) + ["a", "b"] * 20 + ["a"] * (14 - i) for i in range(n)}
        pd.DataFrame(columns).to_csv(tmp_path / "t.csv", index=False)
        cells = sum(2 + i for i in range(n))
        every = notes(read_table([str(tmp_path / "t.csv")]))
        (line,) = [one for one in every if "missing" in one and "but not in row" not in one]
        assert line.startswith(f"'{token}' ({cells} cells) is a level of columns 'c0', 'c1'"), line
        assert line.endswith(f": {flags} if it means missing")


def _pairs() -> list[tuple[int, tuple[str, str]]]:
    return list(enumerate(zip(X, OTHER, strict=True)))


@given(
    st.lists(st.floats(-1e3, 1e3), min_size=12, max_size=30, unique=True),
    st.sampled_from([-1.0, 1.0]),
    st.integers(1, 3),
)
def test_far_values_are_outside_by_more_than_the_range(values: list[float], sign: float, count: int) -> None:
    """What is named are ends of the column, and one that lies 200 ranges away is, but where others go on by factors."""
    inner = np.array(values)
    width = inner.max() - inner.min()
    end = (inner.max() if sign > 0 else inner.min()) + sign * 200 * width
    whole = np.concatenate([inner, np.full(count, end)])
    found = far_values(whole)
    decades = sign > 0 and inner.min() > 0 and inner.max() >= DECADES * inner.min()
    if np.abs(inner).max() / width < 1e6 and not decades:  # else the addition rounds
        assert (end, count) in [tuple(far) for far in found]
    ends = {*np.unique(whole)[:3], *np.unique(whole)[-3:]}
    assert len(found) <= 6 and {far.value for far in found} <= ends


@pytest.mark.parametrize(
    ("values", "far"),
    [
        ([0, 1] * 20 + [-999] * 3, [-999]),
        ([*range(30), -999, -999, -998, -998], [-999, -998]),
        ([*range(30), -999, -999, 99999, 99999], [-999, 99999]),
        ([*range(30), -999, -999, 1e300], [-999, 1e300]),
        ([1, 2, 3, 4] * 9 + [9] * 4, []),
        ([1, 2, 3] * 9 + [99] * 4, [99]),
    ],
)
def test_codes_are_found_beside_each_other_and_beside_few_values(values: list[float], far: list[float]) -> None:
    assert [found.value for found in far_values(np.array(values, float))] == far


@pytest.mark.parametrize(
    "values", [[], [1.0], [0.0, 1.0] * 20, list(range(40)), [*range(1, 13), 1000], [0] * 9 + list(range(20, 50))]
)
def test_ordinary_columns_have_no_far_values(values: list[float]) -> None:
    """Truth values, counters, one large value, a column with many zeros."""
    assert far_values(np.array(values, float)) == []


def test_the_ends_of_the_float_range_do_not_overflow() -> None:
    values = np.concatenate([1.7 * np.linspace(-1.0, 1.0, 20) * 1e308, [0.0]])
    with np.errstate(all="raise"):
        assert far_values(values) == []


@pytest.mark.parametrize("spelled", ["-999", "-999.0", "-9.99e2", "-999.000"])
def test_a_token_that_is_a_number_matches_every_spelling(tmp_path: Path, spelled: str) -> None:
    table = two_columns(tmp_path, [spelled, *X[1:]], na_values=["-999"])
    assert table.missing("x").tolist() == [True] + [False] * 39
    assert notes(table) == []


def test_tokens_in_parquet_text_and_infinities(tmp_path: Path) -> None:
    arrow = pa.table({"t": ["-999.0", "a", "?"], "v": [1.0, float("inf"), -999.0], "i": [1, 2, -999]})
    pq.write_table(arrow, tmp_path / "t.parquet")
    table = read_table([str(tmp_path / "t.parquet")], na_values=["-999", "inf", "?"])
    assert table.missing("t").tolist() == [True, False, True]
    assert table.missing("v").tolist() == [False, True, True]
    assert table.missing("i").tolist() == [False, False, True]
    assert table.unmet_tokens() == []


def test_a_token_that_no_cell_is_is_said(tmp_path: Path) -> None:
    table = two_columns(tmp_path, ["?", *X[1:]], na_values=["?", "-99", "nix"])
    assert notes(table) == ["no cell of table.csv is '-99' or 'nix' (--na-values)"]
    table = two_columns(tmp_path, ["?", *X[1:]], na_values=["?", "xx=-9", "x=-9", "q=7"])
    first = "no cell of table.csv is 'xx=-9' or 'q=7'; did you mean a token of column 'x'?; no column is called 'q'"
    assert notes(table) == [f"{first} (--na-values)", "no cell of column 'x' is '-9' (--na-values)"]
    assert [isinstance(note, Alarm) for note in notes(table)] == [True, False]
    strange = two_columns(tmp_path, X, na_values=["q=7", "nix"])
    assert not any(isinstance(note, Alarm) for note in notes(strange)) and len(notes(strange)) == 1


@pytest.mark.parametrize(("coded", "urgent"), [(4, True), (3, True), (2, False)])
def test_a_code_in_one_of_a_hundred_cells_is_a_warning(coded: int, urgent: bool) -> None:
    rng = np.random.default_rng(3)
    x = np.where(np.arange(300) < coded, -999.0, rng.normal(50, 5, 300).round(2))
    y = rng.normal(50, 5, 300).round(2)
    table = from_text("x,y\n" + "".join(f"{a},{b}\n" for a, b in zip(x, y, strict=True)))
    [line] = [line for line in notes(table) if f"-999 ({coded} cells) is far from all other values" in line]
    assert isinstance(line, Alarm) == urgent


def test_a_code_is_a_warning_where_it_is_often_in_one_of_several_columns() -> None:
    rng = np.random.default_rng(3)
    x, y = (np.where(np.arange(300) < n, -999.0, rng.normal(50, 5, 300).round(2)) for n in (2, 9))
    table = from_text("x,y\n" + "".join(f"{a},{b}\n" for a, b in zip(x, y, strict=True)))
    [line] = [line for line in notes(table) if "-999 (11 cells) is far from all other values" in line]
    assert isinstance(line, Alarm)


def test_new_rows_far_outside_the_fitted_range_are_said(tmp_path: Path) -> None:
    schema = schema_alone(two_columns(tmp_path, X))
    metres = two_columns(tmp_path, [*X[:3], "1000", "-5.5", *X[5:]])
    low, high = min(map(float, X)), max(map(float, X))
    assert check(metres, schema)[0] == (
        f"column 'x': '1000' in row 4 (line 5) and 1 more cell are far outside the range of the fit, {low} to {high}: "
        "other units, or a code for missing? Else fit again with such rows, or without the column"
    )
    assert not any("outside" in note for note in check(two_columns(tmp_path, X), schema))


def test_keys_and_columns_with_next_to_nothing_in_them_are_said(tmp_path: Path) -> None:
    frame = pd.DataFrame({"key": range(101, 141), "few": [1.5, 2.5, 3.5] + [None] * 37, "y": OTHER})
    frame.to_csv(tmp_path / "t.csv", index=False)
    table = read_table([str(tmp_path / "t.csv")])
    key = "column 'key' is modelled, but its values number the rows: `--id key` or `--exclude key` if it is a key"
    few = "column 'few' has fewer than 10 values: the fills rest on very little"
    assert notes(table) == [key, few]
    assert notes(table, kinds={"key": "integer"}) == [few]
    assert notes(table, ids=["key"]) == [few]
    frame["key2"] = range(40)
    frame.sample(frac=1, random_state=0).to_csv(tmp_path / "u.csv", index=False)  # in no order: no numbers of rows
    called = (
        "column 'key' is modelled, but it has the name of a key, and no value twice: "
        "`--id key` or `--exclude key` if it is one"
    )
    line = (
        "fills keep to what holds in every row: 'key2' = 'key' - 101 (`--set table.relations=ignore` if that is chance)"
    )
    assert notes(read_table([str(tmp_path / "u.csv")])) == [called, few, line]
    frame.to_csv(tmp_path / "v.csv", index=False)
    assert notes(read_table([str(tmp_path / "v.csv")]))[0] == (
        "columns 'key', 'key2' are modelled, but their values number the rows: "
        "`--id key` or `--exclude key` if they are keys"
    )


def test_columns_that_are_no_text_are_left_alone(tmp_path: Path) -> None:
    """Dates beyond the calendar, unknown time zones, lists: carried, and never turned into Python objects."""
    n = 40
    arrow = pa.table(
        {
            "date": pa.array([10**7] * n, pa.date32()),
            "time": pa.array([10**18] * n, pa.timestamp("us")),
            "zone": pa.array([0] * n, pa.timestamp("us", tz="Foo/Bar")),
            "list": pa.array([[1.0, 2.0]] * n),
            "text": [str(i) for i in range(n)],
            "y": [float(y) for y in OTHER],
        }
    )
    pq.write_table(arrow, tmp_path / "t.parquet")
    table = read_table([str(tmp_path / "t.parquet")])
    assert notes(table) == [
        "column 'date' is carried: it holds years beyond 1 to 9999",
        "column 'time' is carried: it holds years beyond 1 to 9999",
        "column 'zone' is carried: no time zone is called 'Foo/Bar'",
        "column 'text' is carried as text, not modelled: all its cells are numbers (`--column text=numeric`)",
    ]
    with pytest.raises(InputError, match="--column date=date, but it holds years beyond 1 to 9999"):
        infer_schema(table, kinds={"date": "date"})


@pytest.mark.parametrize("end", ["0001-01-01", "9999-12-31"])
@pytest.mark.parametrize("kind", [pa.date32(), pa.timestamp("us")])
def test_the_ends_of_the_calendar_are_dates(tmp_path: Path, end: str, kind: pa.DataType) -> None:
    """Open ends are often written so: named with the flag that makes them missing."""
    days = [f"2020-{1 + i % 12:02d}-{1 + i % 28:02d}" if i % 3 else end for i in range(60)]
    arrow = pa.table({"end": pa.array(days, pa.string()).cast(kind), "y": np.arange(60.0)})
    pq.write_table(arrow, tmp_path / "t.parquet")
    table = read_table([str(tmp_path / "t.parquet")])
    schema = schema_alone(table)
    assert schema.modelled == ("end", "y")
    written = end if kind == pa.date32() else f"{end} 00:00:00"
    flag = typed("--na-values", f"end={written}")
    line = f"{written} (20 cells) is far from all other values of column 'end': `{flag}` if it means missing"
    assert line in notes(table)
    column = schema.encoded[0]
    codes = column.codes(table.column("end"))
    assert np.array_equal(column.decode(column.encode(codes, np.full((60, column.width), 0.5))), codes)


def test_powers_of_ten_are_not_far_from_each_other() -> None:
    """A viral load by decades; a code among such values is still one."""
    loads = np.repeat(10.0 ** np.arange(1, 9), [3, 20, 60, 80, 60, 40, 12, 4])
    assert far_values(loads) == []
    assert [one.value for one in far_values(np.append(loads, [1e30] * 5))] == [1e30]


def test_boxes_without_a_tick(tmp_path: Path) -> None:
    """A value or nothing: its holes get the value, unless a blank means no."""
    frame = pd.DataFrame(
        {"y": OTHER, "box": [("X" if i % 4 == 0 else None) for i in range(40)], "one": ["a"] * 39 + [None]}
    )
    frame.to_csv(tmp_path / "t.csv", index=False)
    line = (
        "column 'box' holds 'X' or nothing (30 of 40 cells), and its holes get 'X': where nothing means no (a box "
        "without a tick), `--exclude box` leaves it as it is, and writing 'no' there models it"
    )
    assert [note for note in notes(read_table([str(tmp_path / "t.csv")])) if "nothing" in note] == [line]


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ("90+", "an open end is no missing cell: write the limit itself (90) or a value above it (91) instead"),
        ("80 or more", "an open end is no missing cell: write the limit itself (80) or a value above it (81) instead"),
        ("under 18", "an open end is no missing cell: write the limit itself (18) or a value below it (17) instead"),
        (
            "<0.5",
            "a detection limit is no missing cell: write the limit itself (0.5) or a value below it (0.49) instead",
        ),
    ],
)
def test_open_ends_among_numbers_are_no_missing_cells(tmp_path: Path, cell: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        infer_schema(two_columns(tmp_path, [cell] * 4 + X[4:]))
    assert caught.value.hint is not None and caught.value.hint.startswith(words)


def test_grades_with_a_sign_are_no_other_spelling(tmp_path: Path) -> None:
    def alike(levels: list[str]) -> list[str]:
        return [note for note in notes(two_columns(tmp_path, (levels * 40)[:40])) if "spellings" in note]

    assert alike(["A", "A-", "B", "B-", "A+"]) == []
    assert alike(["a b", "a-b", "c", "d ."]) != [] and alike(["A", "A.", "b"]) != []


def test_with_a_time_zone_they_may_lie_beyond(tmp_path: Path) -> None:
    moments = (
        pa.array(["9999-12-31"] * 20, pa.string()).cast(pa.timestamp("s")).cast(pa.timestamp("s", tz="Asia/Tokyo"))
    )
    pq.write_table(pa.table({"end": moments, "y": np.arange(20.0)}), tmp_path / "t.parquet")
    line = "column 'end' is carried: it holds years beyond 1 to 9999"
    assert line in notes(read_table([str(tmp_path / "t.parquet")]))


def test_long_cells_and_commas_in_messages(tmp_path: Path) -> None:
    cells = ["yes, or no " + "x" * 200] * 4 + X[4:]
    table = two_columns(tmp_path, cells)
    with pytest.raises(InputError) as caught:
        infer_schema(table)
    assert len(caught.value.message) < 220 and "…" in caught.value.message
    few = two_columns(tmp_path, ["a, or b"] * 8 + X[8:])
    assert notes(few)[0].endswith(": `--na-values 'x=a, or b'` if that means missing")


def test_tokens_that_always_mean_missing_and_long_numbers(tmp_path: Path) -> None:
    arrow = pa.table({"v": [1.0, float("nan"), 3.0], "w": [1.0, 2.0, 4.0]})
    pq.write_table(arrow, tmp_path / "t.parquet")
    assert read_table([str(tmp_path / "t.parquet")], na_values=["NaN"]).unmet_tokens() == []
    long = two_columns(tmp_path, ["9999999999999999", "10000000000000000", *X[2:]], na_values=["9999999999999999"])
    assert long.missing("x").tolist()[:3] == [True, False, False]


@pytest.mark.parametrize(
    ("name", "called"), [("patient_id", True), ("PatientID", True), ("id", True), ("humid", False), ("income", False)]
)
def test_what_is_called_a_key(tmp_path: Path, name: str, called: bool) -> None:
    numbers = np.random.default_rng(2).permutation(1000)[:40]
    rows = "\n".join(f"{number},{other}" for number, other in zip(numbers, OTHER, strict=True))
    path = save(tmp_path, "table.csv", f"{name},y\n{rows}\n")
    said = [line for line in notes(read_table([str(path)])) if "the name of a key" in line]
    assert bool(said) == called
    twice = save(tmp_path, "twice.csv", f"{name},y\n{rows}\n{numbers[0]},1.0\n")
    assert not any("the name of a key" in line for line in notes(read_table([str(twice)])))


LIKERT, AGES = [1, 2, 3, 4, 5] * 40, [18 + i % 70 for i in range(200)]
INCOMES = [1000 + 137 * i for i in range(200)]


@pytest.mark.parametrize(
    ("usual", "codes", "found"),
    [
        (LIKERT, [-9] * 20, [-9]),
        (LIKERT, [-7] * 5 + [-8] * 9 + [-9] * 20, [-9, -8, -7]),
        (AGES, [-9] * 20, [-9]),
        (AGES, [-1] * 20, [-1]),
        (INCOMES, [-8] * 6 + [-9] * 20, [-9, -8]),
        (AGES, [-9] * 2, []),  # too few
        ([0, 1] * 50, [-1] * 50, []),  # down, level, up
        ([0, 1] * 50, [-1] * 9, [-1]),
        (AGES, [-40] * 20, []),  # no usual code
        ([0, 1, 2] * 50, [-1] * 50 + [-2] * 50, []),  # a scale about zero
        ([i % 36 for i in range(200)], [-1] * 6 + [-2] * 5, []),  # degrees
        ([0, 1, 1, 2] * 50, [-1, -2, -3, -4, -5] * 9, []),  # too many different ones
    ],
)
def test_negative_codes_of_surveys_are_told_from_negative_numbers(
    usual: list[int], codes: list[int], found: list[int]
) -> None:
    assert [far.value for far in negative_codes(np.array(usual + codes, float))] == found


def test_a_negative_code_is_said_with_its_flag(tmp_path: Path) -> None:
    scale = [str(v) for v in [*([1, 2, 3, 4, 5] * 7), *[-9] * 5]]
    assert notes(two_columns(tmp_path, scale)) == [
        "'-9' (5 cells) is a level of column 'x': `--na-values x=-9` if it means missing"
    ]
    ages = [str(v) for v in [*range(18, 53), *[-9] * 5]]
    assert (
        "-9 (5 cells) is negative, unlike all other values of column 'x': `--na-values x=-9` if it means missing"
        in notes(two_columns(tmp_path, ages))
    )
    assert not any("means missing" in note for note in notes(two_columns(tmp_path, ["-1", "0", "1", "2"] * 10)))


def asked(folder: Path, hours: list[str], works: list[str], encoding: Encoding | None = None) -> list[str]:
    path = save(
        folder,
        "t.csv",
        "works,hours,y\n" + "".join(f"{w},{h},{y}\n" for w, h, y in zip(works, hours, OTHER, strict=True)),
    )
    given = {} if encoding is None else {"encoding": encoding}
    return [note for note in notes(read_table([str(path)]), **given) if "have no cell" in note or "has no cell" in note]


def test_a_column_that_does_not_apply_to_a_level_is_said(tmp_path: Path) -> None:
    works = ["yes", "yes", "no", "yes"] * 10
    hours = ["" if w == "no" else x for w, x in zip(works, X, strict=True)]
    assert asked(tmp_path, hours, works) == [
        "column 'hours' has no cell in the 10 rows where 'works' is 'no', and cells in most others: if it does not "
        "apply there, the fills of these rows mean nothing (`vgi impute --leave-blank hours:works=no` leaves them "
        "blank); if 'works' was derived from which cells are missing (the last visit of somebody who left, say), it "
        "tells nothing else: `--exclude works` leaves it out of the fit"
    ]
    assert asked(tmp_path, [*hours[:2], "3.1", *hours[3:]], works) == []  # one has a cell
    [line] = asked(tmp_path, hours, ["", *works[1:3], "", *works[4:]])
    assert line.endswith("nothing else: `--exclude works` leaves it out of the fit")  # nothing of its holes
    [line] = asked(tmp_path, hours, ["", *works[1:3], "", *works[4:]], Encoding(relations="ignore"))
    assert line.endswith("; in 2 rows with it 'works' is missing, and may be filled 'no' all the same")
    few = ["" if w == "no" or i % 3 else x for i, (w, x) in enumerate(zip(works, X, strict=True))]
    assert asked(tmp_path, few, works) == []  # hardly anybody has


def test_what_to_do_where_the_holes_are_the_cause_is_said_once(tmp_path: Path) -> None:
    rows = [
        ("" if i % 4 == 0 else x, "ab"[i % 4 > 0], "" if i % 5 == 0 else y, "vw"[i % 5 > 0]) for i, (x, y) in _pairs()
    ]
    text = "hours,work,cigarettes,smoke\n" + "".join(f"{','.join(row)}\n" for row in rows * 3)
    found = notes(read_table([str(save(tmp_path, "two.csv", text))]))
    lines = [note for note in found if "no cell in" in note or "was derived" in note]
    names = [line.partition(" no cell")[0] for line in lines[:-1]]
    assert names == ["column 'hours' has", "column 'cigarettes' has"]
    assert all(line.endswith("leaves them blank)") for line in lines[:-1])
    assert lines[-1] == (
        "if 'work' or 'smoke' was derived from which cells are missing (the last visit of somebody who left, say), it "
        "tells nothing else: `--exclude work` leaves it out of the fit"
    )


@settings(max_examples=30, deadline=None)
@given(name=st.text(st.characters(codec="ascii", min_codepoint=32), min_size=1, max_size=12).filter(str.strip))
def test_a_flag_that_is_offered_is_one_that_a_shell_takes(name: str) -> None:
    """Column names of surveys hold blanks, quotes and brackets."""
    assert shlex.split(kind_flag(name, "categorical")) == ["--column", f"{name}=categorical"]
    assert shlex.split(token_flag(name, "-9")) == ["--na-values", f"{name}=-9"]
    assert shlex.split(typed("--exclude", name)) == ["--exclude", name]


def test_flags_for_columns_of_strange_names(tmp_path: Path) -> None:
    rows = "".join(f"{i},{i % 6},{'n.a.' if i % 9 == 0 else i / 10}\n" for i in range(60))
    said = notes(read_table([str(save(tmp_path, "t.csv", f"the row,a|b,it's (kg)\n{rows}"))]))
    flags = {flag for line in said for flag in re.findall("`(--[^`]*)`", line)}
    assert {"--id 'the row'", "--exclude 'the row'", "--column 'a|b=ordinal'", "--na-values n.a."} <= flags


@pytest.mark.parametrize(
    ("cells", "hint"),
    [
        (["$1,526.88", "12.5"], "write 1234.5, without commas, blanks or units"),
        (["k.D.", "12.5"], "`--na-values x=k.D.` if that means missing"),
        (
            ["n.d.", "12.5"],
            "'n.d.' may say that a value lies beyond a detection limit, which is no missing cell: write the limit "
            "itself or a value just beyond it instead if so; `--na-values x=n.d.` if that means missing",
        ),
    ],
)
@pytest.mark.parametrize("many", [1, 8])
def test_numbers_as_people_write_them_are_not_said_to_be_missing(
    cells: list[str], hint: str, many: int, tmp_path: Path
) -> None:
    text = [cells[0]] * many + [cells[1].replace("12", str(12 + i)) for i in range(20)]
    pd.DataFrame({"x": text, "y": range(len(text))}).to_csv(tmp_path / "t.csv", index=False)
    table = read_table([str(tmp_path / "t.csv")])
    if many == 1:
        with pytest.raises(InputError) as refused:
            notes(table)
        assert str(refused.value.hint).startswith(hint)
    else:
        assert any("71% of its cells are numbers" in line and f": {hint}" in line for line in notes(table))


LONG = np.random.default_rng(3)


@pytest.mark.parametrize(
    ("name", "values", "digits"),
    [
        ("contact", LONG.integers(2_000_000_000, 9_999_999_999, 60), 10),
        ("credit_card", LONG.integers(4 * 10**15, 5 * 10**15, 60), 16),
        ("at", LONG.integers(1_500_000_000, 1_800_000_000, 60), 0),  # seconds since 1970
        ("at", LONG.integers(1_500_000_000_000, 1_800_000_000_000, 60), 0),
        ("day", 20190000000000 + LONG.integers(1, 13, 60) * 10**8 + LONG.integers(1, 29, 60) * 10**6, 0),
        ("meter", np.cumsum(LONG.integers(1, 9_999_999, 60)) + 2_000_000_000, 0),
        ("sales", np.rint(np.exp(LONG.normal(23, 1, 60))), 0),
        ("cells", 1_000_000_000 * LONG.integers(2, 9, 60), 0),
        ("code9", LONG.integers(200_000_000, 999_999_999, 60), 0),
    ],
)
def test_long_numbers_of_as_many_digits_may_be_codes(
    tmp_path: Path, name: str, values: npt.NDArray[np.int64], digits: int
) -> None:
    rows = "".join(f"{value:.0f},{i % 7 / 3}\n" for i, value in enumerate(values))
    found = notes(read_table([str(save(tmp_path, "long.csv", f"{name},y\n{rows}"))]))
    assert [line for line in found if "digits, and hardly" in line] == [
        f"column '{name}' is modelled as a quantity, but all its numbers have {digits} digits, and hardly any occurs "
        f"twice: `--column {name}=carry` or `--exclude {name}` if they are codes"
    ] * bool(digits)


@pytest.mark.parametrize(
    ("values", "digits"),
    [
        (262_011_000_000_000 + 7919 * LONG.integers(0, 40, 300), 15),
        (np.sort(262_011_000_000_000 + 7919 * LONG.integers(0, 40, 300)), 15),  # rows in the order of the id
        (LONG.choice(LONG.integers(4 * 10**12, 5 * 10**12, 40), 300), 13),  # articles
        (LONG.choice(LONG.integers(4 * 10**9, 5 * 10**9, 40), 300), 0),  # of fewer digits they may be amounts
        (10 * LONG.choice(LONG.integers(4 * 10**12, 5 * 10**12, 40), 300), 0),
        (1_600_000_000_000 + 60_000 * LONG.integers(0, 40, 300), 0),  # milliseconds since 1970
        (262_011_000_000_000 + 7919 * np.arange(300), 0),  # a meter
        (262_011_000_000_000 + 7919 * LONG.integers(0, 10, 300), 0),
    ],
)
def test_ids_of_many_digits_that_occur_again_are_said(
    tmp_path: Path, values: npt.NDArray[np.int64], digits: int
) -> None:
    rows = "".join(f"{value},{i * 37 % 101 / 3}\n" for i, value in enumerate(values))
    found = notes(read_table([str(save(tmp_path, "long.csv", f"imsi,y\n{rows}"))]))
    assert [line for line in found if "digits, as ids have" in line] == [
        f"column 'imsi' is modelled as a quantity, but all its numbers have {digits} digits, as ids have: `--column "
        "imsi=carry` or `--exclude imsi` if they are codes"
    ] * bool(digits)


@pytest.mark.parametrize("name", ["phone_number", "phone2", "card_no", "ssn", "customer_number"])
def test_names_of_codes_have_one_line(tmp_path: Path, name: str) -> None:
    rows = "".join(f"{value},{i % 7 / 3}\n" for i, value in enumerate(LONG.integers(2 * 10**9, 10**10 - 1, 60)))
    found = notes(read_table([str(save(tmp_path, "long.csv", f"{name},y\n{rows}"))]))
    assert [line for line in found if f"--exclude {name}" in line] == [
        f"column '{name}' has the name of a code, and is modelled as a quantity: `--column {name}=carry` or "
        f"`--exclude {name}` if it is one"
    ]


def _kick_offs(**often: int) -> npt.NDArray[np.str_]:
    """Times of day: 150 of each of two evening hours, and others so often (`at1230=24`)."""
    counts = {"1945": 150, "2000": 150} | {name[2:]: count for name, count in often.items()}
    cells = [f"{time[:2]}:{time[2:]}" for time, count in counts.items() for _ in range(count)]
    return np.random.default_rng(0).permutation(cells)


@pytest.mark.parametrize(
    ("often", "far"),
    [
        ({"at1230": 24, "at1500": 45, "at1730": 40}, set()),  # matches on Saturdays
        ({"at0000": 24, "at1500": 45, "at1730": 40}, {"00:00"}),
        ({"at2359": 24, "at1500": 45, "at1730": 40}, {"23:59"}),
        ({"at0000": 24}, {"00:00"}),
        ({"at0000": 24, "at0001": 2}, {"00:00", "00:01"}),
        ({"at1200": 24}, {"12:00"}),
        ({"at0330": 2, "at0445": 2}, {"03:30", "04:45"}),  # few cells: no usual times
    ],
)
def test_several_usual_times_of_day_are_no_codes(often: dict[str, int], far: set[str]) -> None:
    cells = _kick_offs(**often)
    frame = pd.DataFrame({"x": cells, "y": np.random.default_rng(1).normal(size=len(cells))})
    said = [line for line in infer_schema(from_frame(frame))[1] if "far from all other values" in line]
    assert {line.split(" (")[0] for line in said} == far


@pytest.mark.parametrize(
    ("values", "far"),
    [
        ([*range(5, 71), *[98] * 3, *[99] * 4], [98, 99]),  # hours a week
        ([*range(5, 71), *[97] * 3, *[98] * 3, *[99] * 4], [97, 98, 99]),
        ([*range(5, 60), *[98] * 2, *[99] * 2], [98, 99]),
        ([*range(5, 71), *[98] * 2, *[99] * 2], []),  # few cells, not far enough
        ([*range(5, 71), *[97] * 3, *[98] * 4], []),  # no nines
        ([*range(5, 71), 98, *[99] * 4], []),  # 98 is one person
        ([*range(5, 90), *[98] * 3, *[99] * 3], []),
        ([*range(40, 90), *[998] * 3, *[999] * 3], [998, 999]),
        ([*range(40), *[-99] * 3, *[-98] * 3], [-99, -98]),
        ([*range(5, 71), *[98.5] * 3, *[99] * 4], []),
        ([*range(31), *[88] * 3, *[99] * 4], [88, 99]),  # days of a month
        ([*range(31), *[77] * 3, *[88] * 3, *[99] * 4], [77, 88, 99]),
        ([*range(0, 100, 11)] * 3, []),  # they go on below
        ([*range(300), *[777] * 3, *[888] * 3, *[999] * 4], [777, 888, 999]),
        ([*range(40), *[-99] * 3, *[-88] * 3], [-99, -88]),
    ],
)
def test_codes_side_by_side_are_found_together(values: list[float], far: list[float]) -> None:
    assert [found.value for found in far_values(np.array(values, float))] == far


AGES = [age for age in range(16, 86) for _ in range(max(1, 12 - abs(age - 40) // 4))]
"""Ages from 16 to 85, the fewer the older."""


@pytest.mark.parametrize(
    ("values", "codes"),
    [
        ([*AGES, *[99] * 12], [99]),
        ([*AGES, *[97] * 13, *[98] * 14, *[99] * 15], [97, 98, 99]),
        ([*AGES, *[999] * 12], [999]),
        ([*np.round(np.linspace(16, 85, 150), 1).tolist(), *[99.0] * 12], [99]),
        ([*AGES, *[99] * 4], []),  # four people
        ([*AGES, *range(86, 99), *[99] * 12], []),  # no gap: as many as are 99 or older
        ([*AGES, 90, 94, *[99] * 12], []),  # those before it lie as far apart
        ([*AGES, *[90] * 12], []),  # 90 or older
        ([*range(18, 81)] * 6, []),
        ([*range(18, 81)] * 6 + [99] * 6, [99]),  # all up to 80 are there
        ([*range(18, 81)] * 6 + [99] * 5, []),  # fewer than of any other value: five visits of one person
        ([9, 19, 29, 39, 49, 59] * 9 + [99] * 40, []),  # prices
        ([*np.repeat(AGES[::5], 5).tolist(), *[99] * 5], []),  # five rows of each
        ([-value for value in [*AGES, *[99] * 12]], []),
    ],
)
def test_a_code_that_many_cells_hold_beyond_a_gap_is_found(values: list[float], codes: list[float]) -> None:
    assert [found.value for found in piled_codes(np.array(values, float))] == codes


def test_a_code_that_many_cells_hold_has_one_line_for_all_columns() -> None:
    ages = [*AGES, *[99] * 12]
    rows = "\n".join(f"{age},{hours}" for age, hours in zip(ages, reversed(ages), strict=True))
    [line] = [one for one in infer_schema(from_text(f"age,hours\n{rows}\n"))[1] if "missing" in one]
    assert line == (
        "99 (24 cells) is a pile beyond a gap, above all other values, of columns 'age', 'hours': `--na-values 99` if "
        "that means missing, `--na-values age=99` in 'age' alone"
    )


@pytest.mark.parametrize(
    ("names", "others", "said"),
    [
        ("q1 q2 q3", "x", "q*"),
        ("q1 q2 q3", "quality", "q1,q2,q3"),  # the pattern would be of another column too
        ("q1 q2", "x", "q1,q2"),
        ("q1_now q2_now q3_now", "q1_then q2_then", "q*_now"),
        ("sleep mood age", "x", "sleep,mood,age"),
        ("a b c d e f g h i", "x", None),
        ("q1 q2 q3", "q*", "q1,q2,q3"),
    ],
)
def test_several_columns_in_one_flag(names: str, others: str, said: str | None) -> None:
    every = [*names.split(), *others.split()]
    assert columns_said(names.split(), every) == said
    text = ",".join(every) + "\n" + "\n".join(",".join([str(k)] * len(every)) for k in range(3)) + "\n"
    if said is not None:
        table = from_text(text, na_values=[f"{said}=2"])
        assert [name for name in every if table.missing(name).any()] == names.split()


def test_the_flag_names_the_columns_where_another_one_holds_such_a_value() -> None:
    ages = [*AGES, *[99] * 12]
    rows = "\n".join(f"{age},{other},{w}.5" for age, other, w in zip(ages, reversed(ages), range(5000), strict=False))
    for weight, columns in (("99", "age,hours="), ("99.5", "")):
        said = infer_schema(from_text(f"age,hours,weight\n{rows}\n40,40,{weight}\n"))[1]
        [line] = [one for one in said if "a pile beyond" in one]
        assert f": `--na-values {columns}99` if that" in line


@pytest.mark.parametrize(
    ("levels", "named"),
    [
        ((1, 2, 3, 7, 8, 98, 99), "'98' (10 cells), '99' (10 cells) are levels of column 'x'"),
        ((0, 1, 2, 3, 88, 99), "'88' (10 cells), '99' (10 cells) are levels of column 'x'"),
        ((1, 2, 77, 88, 99), "'77' (10 cells), '88' (10 cells), '99' (10 cells) are levels of column 'x'"),
        ((1, 20, 50, 90, 98, 99), "'99' (10 cells) is a level of column 'x'"),
        (("a", "b", "98", "99"), "'99' (10 cells) is a level of column 'x'"),
    ],
)
def test_levels_side_by_side_that_may_mean_missing(levels: tuple[object, ...], named: str) -> None:
    frame = pd.DataFrame({"x": [str(level) for level in levels] * 10, "y": OTHER[:10] * len(levels)})
    said = infer_schema(from_frame(frame), kinds={"x": "categorical"})[1]
    (line,) = [line for line in said if "of column 'x'" in line and "missing" in line]
    assert line.startswith(f"{named}: ")
