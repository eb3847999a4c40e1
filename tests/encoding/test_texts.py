"""Lines about columns of text that hold numbers or dates to a person, and about decimal marks that set thousands
apart."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.table.helpers import save
from vgi_cli.columns.wording import Alarm, folded, is_written, kind_flag, token_flag
from vgi_cli.encoding.infer import infer_schema
from vgi_cli.errors import InputError
from vgi_cli.table.base import Table
from vgi_cli.table.frames import from_frame
from vgi_cli.table.reader import read_table

N = 40
SALES = [f"{n:,}".replace(",", ".") for n in (int(90 * 1.18**i) for i in range(N))]
"""Sales of firms as a German spreadsheet writes them: 90, 106, … 1.008, … 57.247."""


def table(folder: Path, mark: str = ".", **columns: list[str]) -> Table:
    columns["y"] = [f"{v:.2f}".replace(".", mark) for v in np.random.default_rng(0).normal(0, 1, N)]
    lines = [";".join(columns), *(";".join(row) for row in zip(*columns.values(), strict=True))]
    path = save(folder, "table.csv", "\n".join(lines) + "\n")
    return read_table([str(path)], delimiter=";", decimal=mark)


def notes(of: Table, **options: object) -> list[str]:
    found = infer_schema(of, **options)[1]  # type: ignore[arg-type]
    return [note for note in found if "'x'" in note or "'x1'" in note]


def test_thousands_points_that_are_read_as_decimals_are_an_alarm(tmp_path: Path) -> None:
    first = next(text for text in SALES if "." in text)
    row = SALES.index(first) + 1
    for mark, word in ((".", "point"), (",", "comma")):
        of = table(tmp_path, mark, x=[text.replace(".", mark) for text in SALES])
        [line] = notes(of)
        assert isinstance(line, Alarm)
        written = "1.234,5" if mark == "." else "1,234.5"
        assert line == (
            f"column 'x': every {word} is followed by three digits, as if it set thousands apart, and read as a "
            f"decimal {word}: '{first.replace('.', mark)}' in row {row} (line {row + 1}); "
            f"`--column x=integer:{written}` if it does, `--column x=numeric` if not"
        )
        assert notes(of, kinds={"x": f"integer:{written}"}) == [
            f"column 'x' is read as numbers: '{SALES[-1].replace('.', mark)}' is {SALES[-1].replace('.', '')}"
        ]
        assert notes(of, kinds={"x": "numeric"}) == []


@pytest.mark.parametrize(
    "cells",
    [
        [f"{i * 1.037 + 1.001:.3f}" for i in range(N)],  # three decimals, always written
        [*("0" for _ in range(20)), *(f"{i + 1}.{137 + i}" for i in range(20))],  # nothing was bought, or so much
        [*SALES[:20], *(text.replace(".", "") for text in SALES[20:])],  # 1000 and more without a point
        [*SALES[:-1], "0.250"],
        [*SALES[:-1], "7.25"],
        [str(i) if i % 5 else f"{i + 1}.125" for i in range(N)],  # few with a point
    ],
)
def test_decimals_are_no_alarm(tmp_path: Path, cells: list[str]) -> None:
    assert not any(isinstance(line, Alarm) for line in notes(table(tmp_path, x=cells)))


def test_points_beside_a_decimal_comma_set_thousands_apart_where_they_can(tmp_path: Path) -> None:
    [line] = notes(table(tmp_path, ",", x=[f"{i}.000" for i in range(1, N + 1)]))
    assert line == "column 'x' is read as numbers: '40.000' is 40000"
    assert notes(table(tmp_path, ",", x=[f"{i / 4:.2f}" for i in range(1, N + 1)])) == [
        "column 'x' is read as numbers: '10.00' is 10"
    ]


@pytest.mark.parametrize(
    ("text", "decimal", "written"),
    [
        ("1.234.567", ".", True),
        ("1.234", ".", False),
        ("1.234", ",", True),
        ("7.5", ",", True),
        ("7,5", ",", False),
        ("7,5", ".", True),
        ("1.234,5", ",", True),
        ("3.14.15", ".", False),
        ("01.02.2024", ",", False),
    ],
)
def test_what_a_person_reads_as_a_number(text: str, decimal: str, written: bool) -> None:
    assert is_written(text, decimal) == written


def test_each_column_has_its_own_reason_and_its_own_tokens(tmp_path: Path) -> None:
    dates = [f"{i % 28 + 1:02}.0{i % 9 + 1}.2021" for i in range(N)]
    staff = [str(i * 7 % 31 + i) for i in range(N)]
    for cells, row in ((dates, 3), (staff, 9)):
        cells[row], cells[row + 8] = "n.a.", "-"
    staff[20:25] = ["-"] * 5
    percent = [f"{i},5 %" for i in range(N)]
    percent[5] = "k.A."
    found = infer_schema(table(tmp_path, ",", a=staff, b=dates, c=percent))[1]
    assert (
        "column 'a' is carried as text, not modelled: 82% of its cells are numbers, but also 'n.a.' in row 10 (line "
        "11) and 6 more cells: `--na-values - --na-values n.a.` if they mean missing"
    ) in found
    assert (
        "column 'b' is carried: 95% of its cells are dates ('%d.%m.%Y'), but also 'n.a.' in row 4 (line 5) and 1 more "
        "cell: `--na-values - --na-values n.a.` if they mean missing"
    ) in found
    assert (
        "column 'c' is carried as text, not modelled: its cells are numbers, written as 1234,5 %, but also 'k.A.' in "
        "row 6 (line 7): `--na-values c=k.A.` if that means missing"
    ) in found


@pytest.mark.parametrize(
    ("units", "shown"),
    [(("${}", "€{}"), "'$0', '€1'"), (("{} kg", "{}kg", "{} lb"), "'0 kg', '2 lb'"), (("${}", "{}%"), "'$0', '1%'")],
)
def test_numbers_of_several_units_have_that_reason(tmp_path: Path, units: tuple[str, ...], shown: str) -> None:
    cells = [units[min(i, len(units) - 1) if i < 4 else 0].format(i) for i in range(N)]
    said = [line for line in notes(table(tmp_path, x=cells)) if "different units" in line]
    assert said == [
        f"column 'x' is carried as text, not modelled: its numbers are written with different units ({shown}): write "
        "them in one, or in a column each"
    ]


@pytest.mark.parametrize(
    ("forms", "what"),
    [
        (("€{}", "{} €"), "in several ways ('€0', '1 €'): write all of them in one"),
        (("{} EUR", "{} €"), "in several ways ('0 EUR', '1 €'): write all of them in one"),
        (("{} kg", "{} lb"), "with different units ('0 kg', '1 lb'): write them in one, or in a column each"),
        (
            ("{} €", "€{}", "{} EUR", "${}"),
            "with different units ('0 €', '$3'): write them in one, or in a column each",
        ),
        (
            ("{} EUR", "{} USD", "{} GBP", "{} CHF"),
            "with different units ('0 EUR', '1 USD', '2 GBP', '3 CHF'): write them in one, or in a column each",
        ),
        (("{}A", "{}B"), None),  # classes
        (("{}th", "{}st", "{}nd", "{}rd"), None),
        (("{} kg", "s{}"), None),
    ],
)
def test_numbers_in_several_notations_are_no_levels(tmp_path: Path, forms: tuple[str, ...], what: str | None) -> None:
    """As many cells in each: no notation has nearly all of them."""
    cells = [forms[i % len(forms)].format(i) for i in range(N)]
    (line,) = [line for line in notes(table(tmp_path, x=cells)) if line.startswith("column 'x'")]
    if what is None:
        assert "levels" in line and "numbers are written" not in line
    else:
        assert line == f"column 'x' is carried as text, not modelled: its numbers are written {what}"


def test_only_lines_that_say_and_propose_the_same_are_folded() -> None:
    def line(name: str, token: str) -> tuple[str, str]:
        return name, f"column '{name}' holds '3,5' in row {len(name)}: `--na-values {name}={token}`"

    names = [f"c{'0' * i}" for i in range(8)]
    lines = [line(name, "-") for name in names]
    others = ", ".join(f"'{name}'" for name in names[1:6])
    assert folded(lines) == [f"{lines[0][1]}; the same of columns {others} and 2 more"]
    other = line("d", "?")
    assert folded([*lines, other])[-1] == other[1]
    assert folded(lines[:2]) == [text for _, text in lines[:2]]


LIMIT = "a detection limit is no missing cell: write the limit itself ({}) or a value {} it ({}) instead; "
PILES = "values that pile up are modelled as such"


@pytest.mark.parametrize(
    ("cell", "limit", "side", "beyond"),
    [
        ("<0.5", "0.5", "below", "0.49"),
        ("< 5", "5", "below", "4"),
        ("≤0.05", "0.05", "below", "0.049"),
        (">200", "200", "above", "201"),
        (">=7.5", "7.5", "above", "7.51"),
    ],
)
def test_detection_limits_are_not_called_missing(tmp_path: Path, cell: str, limit: str, side: str, beyond: str) -> None:
    hint = LIMIT.format(limit, side, beyond) + PILES
    for share in (0.2, 0.7):
        cells = [cell if i < share * N else f"{i}.25" for i in range(N)]
        [line] = notes(table(tmp_path, x=cells))
        assert line.endswith(hint) and "--na-values" not in line
    with pytest.raises(InputError) as refused:
        infer_schema(table(tmp_path, x=[cell, *(f"{i}.25" for i in range(1, N))]))
    assert str(refused.value.hint).startswith(hint)
    comma = table(tmp_path, ",", x=[cell.replace(".", ",") if i < 9 else f"{i},25" for i in range(N)])
    assert f"({beyond.replace('.', ',')})" in notes(comma)[0]
    both = ["?" if i % 9 == 1 else cell if i % 4 == 0 else f"{i}.25" for i in range(N)]
    [line] = notes(table(tmp_path, x=both))
    assert line.endswith(hint + "; '?': `--na-values '?'` if that means missing")


@pytest.mark.parametrize(
    ("side", "words"),
    [
        ("below", "<LOD;< LOQ;<MDL;≤lod;<0.5 mg/L;BLQ;BLOQ;BDL;lod;LOQ;below;below detection;Below LOD"),
        ("below", "under the limit;not detected;Not detectable;non-detect;undetected;less than LOD"),
        ("above", "> LOQ;>ULOQ;>500 CFU;above range;Above;over the range;ULOQ;ALQ;TNTC;Too numerous to count"),
    ],
)
def test_limits_in_words_are_not_called_missing(tmp_path: Path, side: str, words: str) -> None:
    hint = f"a detection limit is no missing cell: write the limit itself or a value just {side} it instead; {PILES}"
    for cell in words.split(";"):
        for share in (0.2, 0.7):
            cells = [cell if i < share * N else f"{i}.25" for i in range(N)]
            [line] = notes(table(tmp_path, x=cells))
            assert line.endswith(hint) and "--na-values" not in line
        with pytest.raises(InputError) as refused:
            infer_schema(table(tmp_path, x=[f"{i}.25" if i else cell for i in range(N)]))
        assert str(refused.value.hint).startswith(hint)


@pytest.mark.parametrize("cell", ["pending", "<unknown>", "under review", "lodge", "over", "block"])
def test_other_words_are_no_limits(tmp_path: Path, cell: str) -> None:
    [line] = notes(table(tmp_path, x=[cell if i < 9 else f"{i}.25" for i in range(N)]))
    assert "limit" not in line and line.endswith("if that means missing")


@pytest.mark.parametrize("cell", ["ND", "nd", "n.d.", "n. d.", "Undetermined"])
def test_what_may_be_a_limit_or_missing_is_asked(tmp_path: Path, cell: str) -> None:
    limit = "may say that a value lies beyond a detection limit, which is no missing cell: write the limit itself or a"
    flag = f"`{token_flag('x', cell)}` if that means missing"
    [line] = notes(table(tmp_path, x=[cell if i < 9 else f"{i}.25" for i in range(N)]))
    assert line.endswith(f": '{cell}' {limit} value just beyond it instead if so; {flag}")
    beside = [cell if i < 9 else "<LOD" if i < 12 else "late" if i < 14 else f"{i}.25" for i in range(N)]
    [line] = notes(table(tmp_path, x=beside))
    assert f": '{cell}' {limit}" in line and f"; '{cell}' and 'late': `" in line
    assert "write the limit itself or a value just below it instead" in line


@pytest.mark.parametrize("cell", ["{}/80", "{} x 20", "{}.5;-7.25", "{}±3", "{}|4", "{}:1"])
def test_two_numbers_in_a_cell_are_said(tmp_path: Path, cell: str) -> None:
    path = save(tmp_path, "two.csv", "x\ty\n" + "".join(f"{cell.format(100 + i)}\t{i % 7}\n" for i in range(N)))
    first = cell.format(100)
    assert notes(read_table([str(path)], delimiter="\t"))[-1] == (
        f"column 'x' is carried as text, not modelled: its cells hold two numbers, '{first}' in row 1 (line 2): write "
        "them into two columns, if they are quantities"
    )


@pytest.mark.parametrize("cell", ["{}/185", "2 x {}", "{}:{}"])
def test_two_numbers_in_levels_are_said_where_these_are_many(tmp_path: Path, cell: str) -> None:
    for count, said in ((15, True), (6, False)):
        cells = [cell.format(130 + i % count, i % count) for i in range(10 * N)]
        path = save(tmp_path, "two.csv", "x,y\n" + "".join(f"{one},{i % 7}\n" for i, one in enumerate(cells)))
        lines = [line for line in notes(read_table([str(path)])) if "two numbers" in line]
        what = f"column 'x' is taken for categories: its cells hold two numbers, '{cells[0]}' in row 1 (line 2): write "
        assert lines == ([f"{what}them into two columns, if they are quantities"] if said else [])


@pytest.mark.parametrize("cell", ["{}/0{}", "{}-{}", "{}/a{}", "{}/{}/1"])
def test_other_texts_are_not_two_numbers(tmp_path: Path, cell: str) -> None:
    path = save(tmp_path, "two.csv", "x\ty\n" + "".join(f"{cell.format(100 + i, i)}\t{i % 7}\n" for i in range(N)))
    assert not any("two numbers" in line for line in notes(read_table([str(path)], delimiter="\t")))


@pytest.mark.parametrize("mark", [" ", "'"])
def test_the_flag_that_reads_numbers_which_may_be_codes_is_said(tmp_path: Path, mark: str) -> None:
    of = table(tmp_path, x=[f"{12 + i}{mark}{800 + 3 * i}" for i in range(N)])
    [line] = notes(of)
    flag = kind_flag("x", f"integer:1{mark}234.5")
    assert line == (
        f"column 'x' is carried as text, not modelled: '12{mark}800' in row 1 (line 2) may be a number or a code: "
        f"`{flag}` if it is 12800"
    )
    said = notes(of, kinds={"x": f"numeric:1{mark}234.5"})
    assert said == [f"column 'x' is read as numbers: '51{mark}917' is 51917"]


def test_lakhs_are_no_text_of_many_levels(tmp_path: Path) -> None:
    [line] = notes(table(tmp_path, x=[f"1,{45 + i},000" for i in range(N)]))
    assert "'1,45,000' in row 1 (line 2) is no plain number (write 1234.5, without commas, blanks or units)" in line


def test_plain_numbers_that_are_taken_for_codes_are_said_to_be(tmp_path: Path) -> None:
    sizes = [6, 1, 2, 12, 50]
    said = (
        "column 'x' is taken for categories: its numbers have only 5 values, with wide gaps between them, as codes "
        "do: '6' in row 1{} (`--column x=integer` if they are quantities)"
    )
    of = table(tmp_path, x=[f"{sizes[i % 5]}" for i in range(N)])
    assert notes(of) == [said.format(" (line 2)")]
    for kind in ("integer", "categorical"):
        assert not any("taken for categories" in line for line in notes(of, kinds={"x": kind}))
    in_memory = pd.DataFrame({"x": [float(sizes[i % 5]) if i % 11 else np.nan for i in range(1, N + 1)], "y": range(N)})
    assert said.format("").replace("'6'", "'1'") in notes(from_frame(in_memory))
    for others in ([0, 1], [3, 70], [1, 2, 3, 4, 5, 99], [0, 1, 2, 3, 4, 5, 6]):
        own = table(tmp_path, x=[f"{others[i % len(others)]}" for i in range(N)])
        assert not any("taken for categories" in line for line in notes(own))


def test_written_numbers_of_a_few_values_are_said_to_be_few(tmp_path: Path) -> None:
    """And not that a percent sign cannot be read: the flag that is named reads it."""
    of = table(tmp_path, x=["7%", "19%", "0%", "19%"] * (N // 4))
    [line] = notes(of)
    assert line == (
        "column 'x' is taken for categories: its numbers have only 3 values, with wide gaps between them, as codes do: "
        "'7%' in row 1 (line 2) (`--column x=integer` if they are quantities)"
    )
    assert notes(of, kinds={"x": "numeric"}) == ["column 'x' is read as numbers: '19%' is 19"]
    [line] = notes(table(tmp_path, x=["7%", "19%"] * (N // 2)))
    assert "its numbers have only 2 values, as codes do: '7%' in" in line
    [line] = notes(from_frame(pd.DataFrame({"x": pd.Categorical([f"{i % 3}%" for i in range(N)]), "y": range(N)})))
    assert "taken for categories: the file says that it is of levels, '0%' in row 1 among them" in line


def test_texts_that_are_all_different_may_name_the_rows(tmp_path: Path) -> None:
    of = table(tmp_path, x=[f"ORD-{i * 7919 % 9973:04d}" for i in range(N)])
    [line] = notes(of)
    assert line.endswith(
        "is carried: text of 40 levels, all different (`--id x` if they name the rows, so that each row gets the same "
        "draws wherever it stands)"
    )
    schema = infer_schema(of, ids=("x",))[0]
    assert schema.ids == ("x",) and notes(of, ids=("x",)) == []
    for cells in ([f"ORD-{i // 2}" for i in range(N)], ["", *(f"ORD-{i}" for i in range(N - 1))]):
        lines = notes(table(tmp_path, x=cells))  # two rows of each order, a row without one
        [line] = [line for line in lines if "is carried" in line]
        assert "--id" not in line and "`--column x=categorical` models it" in line


@pytest.mark.parametrize(
    ("cell", "odd", "said"),
    [
        (
            "€{}",
            {4: "€-", 20: "€-", 9: "free"},
            "its other cells are numbers, written as €1234.5, but '€-' (2 cells) and 'free' (1 cell) are none: "
            "`--na-values x=free --na-values 'x=€-'` if they mean missing",
        ),
        (
            "{},50",
            {3: "<0,10", 11: "<0,10", 30: "lost"},
            "its other cells are numbers, written as 1234,5, but '<0,10' (2 cells) and 'lost' (1 cell) are none: a "
            "detection limit is no missing cell: write the limit itself (0,10) or a value below it (0,099) instead; "
            "values that pile up are modelled as such; 'lost': `--na-values x=lost` if that means missing",
        ),
        (
            "2,1{:02}",
            {0: "sold out"},
            "its other cells are numbers, written as 1234,5 or 1,234.5, but 'sold out' (1 cell) is none: "
            "`--na-values 'x=sold out'` if that means missing; '2,101' in row 2 (line 3) can be read in two ways, as "
            "2.101 (`--column x=numeric:1234,5`) or as 2101 (`--column x=integer:1,234.5`)",
        ),
        (
            "${}",
            {i: "abcdefg"[i] for i in range(7)},
            "its other cells are numbers, written as $1234.5, but 'a' (1 cell), 'b' (1 cell), 'c' (1 cell), 'd' "
            "(1 cell), 'e' (1 cell) and 2 more texts are none: `--na-values x=a --na-values x=b --na-values x=c "
            "--na-values x=d --na-values x=e --na-values x=f --na-values x=g` if they mean missing",
        ),
    ],
)
def test_the_cells_that_are_no_numbers_are_named_not_the_first(
    tmp_path: Path, cell: str, odd: dict[int, str], said: str
) -> None:
    """Beside numbers that are read where nothing else is in the way."""
    of = table(tmp_path, x=[odd.get(i, cell.format(i)) for i in range(N)])
    assert notes(of) == [f"column 'x' is carried as text, not modelled: {said}"]


def test_what_the_line_on_cells_in_the_way_proposes_reads_the_column(tmp_path: Path) -> None:
    table(tmp_path, x=["€-" if i % 9 == 4 else f"€{i}" for i in range(N)])
    again = read_table([str(tmp_path / "table.csv")], delimiter=";", decimal=".", na_values=["x=€-"])
    assert notes(again) == ["column 'x' is read as numbers: '€39' is 39"]


def test_names_among_a_few_numbers_are_no_cells_in_the_way(tmp_path: Path) -> None:
    """Half of the cells with a unit, half of them words: too few to call the column one of numbers."""
    [line] = notes(table(tmp_path, x=[f"{i} kg" if i % 2 else f"bag {i} of flour" for i in range(N)]))
    assert line.startswith("column 'x' is carried: text of 40 levels")


def test_of_two_ways_that_with_whole_numbers_is_proposed_as_such(tmp_path: Path) -> None:
    """People are not halved: no cell has decimals where commas set thousands apart."""
    of = table(tmp_path, x=[f"{i % 9 + 1},{100 + 17 * i}" for i in range(N)])
    [line] = notes(of)
    assert "1.1 (`--column x=numeric:1234,5`) or as 1100 (`--column x=integer:1,234.5`)" in line
    [column, _] = infer_schema(of, kinds={"x": "integer:1,234.5"})[0].encoded
    assert column.kind == "integer"


@pytest.mark.parametrize(
    ("n", "share"),
    [(100, "99% of its cells are dates"), (400, "399 of its 400 cells are dates"), (2000, "1,999 of its")],
)
def test_nearly_all_dates_are_not_called_all(n: int, share: str) -> None:
    cells = [f"{i % 28 + 1:02}.{i % 12 + 1:02}.{2021 + i % 3}" for i in range(n - 1)]
    frame = pd.DataFrame({"x": [*cells, "31.02.2022"], "y": np.arange(n) % 7})
    (line,) = [line for line in infer_schema(from_frame(frame))[1] if "31.02.2022" in line]
    assert line.startswith(f"column 'x' is carried: {share}") and "100%" not in line


def test_nearly_all_numbers_are_not_called_all() -> None:
    frame = pd.DataFrame({"x": [*map(str, range(999)), "?"], "y": np.arange(1000) % 7})
    (line,) = [line for line in infer_schema(from_frame(frame))[1] if "'?'" in line]
    assert "999 of its 1,000 cells are numbers, but also '?' in row 1000" in line
