"""A line of units below the header; limits of both sides."""

from __future__ import annotations

import numpy as np
import pytest

from tests.encoding.test_infer import from_text
from vgi_cli.columns.wording import Alarm, limits_hint
from vgi_cli.encoding.infer import infer_schema
from vgi_cli.errors import InputError

RNG = np.random.default_rng(0)
ROWS = "".join(f"s{i % 7},{','.join(f'{v:.2f}' for v in RNG.normal(50, 9, 3))}\n" for i in range(60))
HEADER = "rock,SiO2,MgO,Ni\n"


def said(units: str, decimal: str = ".") -> list[str]:
    text = HEADER + units + ROWS
    if decimal == ",":
        text = text.replace(",", "\t").replace(".", ",")
    return infer_schema(from_text(text, delimiter="\t" if decimal == "," else ","))[1]


def test_a_line_of_units_is_named() -> None:
    """Written with decimal commas the columns are texts; nothing proposes to make the units missing."""
    found = said("[-],[wt%],[wt%],[ppm]\n", ",")
    line = (
        "row 1 (line 2) looks like a line of units or a second header ('[wt%]' in column 'SiO2', and no number in 2 "
        "more columns whose other cells are numbers): delete it"
    )
    assert line in found and isinstance(found[found.index(line)], Alarm)
    assert not any("--na-values" in note for note in found)
    assert any("delete row 1 (line 2), if it holds units" in note for note in found if "carried as text" in note)


def test_a_column_of_numbers_with_a_unit_proposes_to_delete_the_line() -> None:
    with pytest.raises(InputError) as refused:
        said("[-],[wt%],[wt%],[ppm]\n")
    assert ": delete row 1 (line 2), if it holds units or a second header, or " in str(refused.value.hint)
    assert "--na-values" not in str(refused.value.hint)


@pytest.mark.parametrize("units", ["s1,50,40,[ppm]\n", "s1,,,x\n", ""])
def test_other_first_rows_are_none(units: str) -> None:
    assert not any("line of units" in note for note in said(units, ","))


def test_limits_of_both_sides_are_both_said() -> None:
    assert limits_hint(["<5", "<6", ">200"], ".") == (
        "a detection limit is no missing cell: write the limit itself (5) or a value below it (4) instead, and for "
        "'>200' the limit itself (200) or a value above it (201); values that pile up are modelled as such"
    )
    assert limits_hint(["90+", "x"], ".").startswith(
        "an open end is no missing cell: write the limit itself (90) or a "
    )
    assert limits_hint(["x"], ".") == ""
    rows = "".join(
        f"{limit},{i}\n" for i, limit in enumerate(["<5", ">200", *(f"{v:.1f}" for v in RNG.normal(50, 9, 40))])
    )
    with pytest.raises(InputError, match="holds numbers") as refused:
        infer_schema(from_text("x,y\n" + rows))
    assert "(4) instead, and for '>200' the limit itself (200)" in str(refused.value.hint)


def test_ranges_among_numbers_are_no_missing_cells() -> None:
    rows = "".join(f"{cell},{i}\n" for i, cell in enumerate(["45-49", "50 to 54", *map(str, range(20, 70)), "x"]))
    with pytest.raises(InputError) as refused:
        infer_schema(from_text("age,y\n" + rows))
    hint = str(refused.value.hint)
    assert hint.startswith(
        "'45-49' is a range, no missing cell: write one number in its place, or bands in all cells; "
    )
    assert "'x': `--na-values age=x` if that means missing" in hint and "age=45" not in hint


@pytest.mark.parametrize("marked", ["18.1 p", "18.1b", "18.1*", "18,1 bp"])
def test_numbers_with_marks_are_no_missing_cells(marked: str) -> None:
    """Provisional figures, breaks in a series, footnotes; the code for no figure is another text."""
    cell = f'"{marked}"' if "," in marked else marked
    rows = "".join(f"{text},{i}\n" for i, text in enumerate([cell, ":", *map(str, range(20, 70))]))
    with pytest.raises(InputError) as refused:
        infer_schema(from_text("jobs,y\n" + rows))
    hint = str(refused.value.hint)
    assert hint.startswith(
        f"'{marked}' is a number with a mark: write the number alone, and marks in a column of their own; "
        "':': `--na-values :` if that means missing"
    )


def test_nine_far_from_small_codes_may_mean_missing() -> None:
    def nines(levels: list[int]) -> bool:
        rows = "".join(f"{levels[i % len(levels)]},{v:.2f}\n" for i, v in enumerate(RNG.normal(size=60)))
        notes = infer_schema(from_text("sex,y\n" + rows), kinds={"y": "numeric"})[1]
        return any(note.startswith("'9' (") and "`--na-values sex=9` if it means missing" in note for note in notes)

    assert nines([1, 2, 9]) and nines([0, 1, 9])
    assert not nines([1, 5, 9]) and not nines([7, 8, 9])
