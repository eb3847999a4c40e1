"""`vgi pool`: its table, its JSON, what it refuses."""

from __future__ import annotations

import io
import json
import shlex
import sys
from pathlib import Path

import pytest

import vgi_cli
from tests.program import Vgi
from tests.schemas import checked
from vgi_cli.commands import pool

ROWS = """imputation,term,estimate,std_error,cov:a,"cov:b,c"
1,a,1.0,0.5,0.25,0.1
1,"b,c",2.0,0.4,0.1,0.16
2,a,1.5,0.6,0.36,0.1
2,"b,c",2.5,0.4,0.1,0.16
3,a,0.5,0.5,0.25,0.0
3,"b,c",1.0,0.3,0.0,0.09
"""
TEXT = """\
3 imputations, complete-data degrees of freedom 30

| term | estimate | std. error |    t |  df |     p | 90 % from |    to |   riv |   fmi |
| :--- | -------: | ---------: | ---: | --: | ----: | --------: | ----: | ----: | ----: |
| a    |    1.000 |      0.787 | 1.27 | 4.5 | 0.266 |    -0.625 | 2.625 | 1.163 | 0.661 |
| b,c  |    1.833 |      0.956 | 1.92 | 1.7 | 0.220 |    -1.376 | 5.042 | 5.691 | 0.915 |

| all zero | by |    F |      df |     p |   riv |
| :------- | -: | ---: | ------: | ----: | ----: |
| a, b,c   | D1 | 3.15 |  2, 3.1 | 0.179 | 2.906 |
| a, b,c   | D2 | 2.13 |  2, 1.9 | 0.325 | 2.572 |
| a        | D1 | 1.61 |  1, 4.5 | 0.266 | 1.163 |
| a        | D2 | 1.23 | 1, 10.4 | 0.291 | 0.778 |

3 imputations are few where a fraction of missing information is 0.915 ('b,c'): about 92 tables would do (100 × fmi; \
White, Royston and Wood 2011)
"""


@pytest.fixture
def estimates(tmp_path: Path) -> Path:
    (tmp_path / "estimates.csv").write_text(ROWS, encoding="utf-8")
    return tmp_path / "estimates.csv"


@pytest.mark.parametrize(("m", "few"), [(5, True), (20, True), (30, False), (50, False)])
def test_few_imputations_for_the_missing_information_are_said(vgi: Vgi, tmp_path: Path, m: int, few: bool) -> None:
    rows = [f"{i},a,{i % 2},{0.6:.6f}" for i in range(1, m + 1)]  # fmi near 0.45
    (tmp_path / "e.csv").write_text("imputation,term,estimate,std_error\n" + "\n".join(rows) + "\n")
    found = checked("pool", vgi("pool", "e.csv", "--json").out)
    assert 0.4 < found["terms"][0]["fmi"] < 0.6
    assert ("m_wanted" in found) == few and (" tables would do" in vgi("pool", "e.csv").out) == few


def test_table_and_json(vgi: Vgi, estimates: Path) -> None:
    result = vgi("pool", estimates.name, "--df-complete", "30", "--level", "0.9", "--test", 'a,"b,c"', "--test", "a")
    assert result.code == 0 and result.err == ""
    assert result.out == TEXT
    options = ("--df-complete", "30", "--level", "0.9", "--test", 'a,"b,c"', "--json")
    out = vgi("pool", estimates.name, *options).out
    found = checked("pool", out)
    ours = vgi_cli.pool(estimates, df_complete=30, level=0.9)
    assert found == ours.to_dict([["a", "b,c"]])
    assert found["m_wanted"] == 92
    assert found["tests"][0]["p_value"] == ours.test(["a", "b,c"]).p_value
    assert checked("pool", vgi("pool", estimates.name, "--json").out) == vgi_cli.pool(estimates).to_dict()


def test_what_is_infinite_is_left_out_of_the_json(vgi: Vgi, tmp_path: Path) -> None:
    Path("same.csv").write_text("imputation,term,estimate,std_error\n1,a,1,0.5\n2,a,1,0.5\n", encoding="utf-8")
    found = checked("pool", vgi("pool", "same.csv", "--test", "a", "--json").out)
    assert "df" not in found["terms"][0] and "df2" not in found["tests"][0] and "df_complete" not in found


def test_from_standard_input(vgi: Vgi, estimates: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = io.TextIOWrapper(io.BytesIO(ROWS.replace('"b,c"', "b").replace('"cov:b,c"', "cov:b").encode()))
    monkeypatch.setattr(sys, "stdin", text)
    result = vgi("pool", "-", "--json")
    assert [term["term"] for term in json.loads(result.out)["terms"]] == ["a", "b"]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ([], "missing argument 'ESTIMATES'"),
        (["none.csv"], "none.csv: no such file"),
        (["estimates.csv", "--level", "95"], "--level: expected a number between 0 and 1, got 95.0"),
        (["estimates.csv", "--level", "high"], "--level: expected a number, got 'high'"),
        (
            ["estimates.csv", "--df-complete", "many"],
            "--df-complete: expected a number, got 'many'",
        ),
        (
            ["estimates.csv", "--df-complete", "-1"],
            "the complete-data degrees of freedom are a positive number, got -1.0",
        ),
        (["estimates.csv", "--test", "a,b"], "no term 'b'"),
        (["estimates.csv", "--test", ""], "a test needs terms"),
        (["estimates.csv", "--decimal", ";"], "--decimal: expected '.' or ',', got ';'"),
        (["estimates.csv", "--delimiter", ";"], "estimates.csv: one column only, and every row holds ','"),
    ],
)
def test_refused(vgi: Vgi, estimates: Path, arguments: list[str], error: str) -> None:
    result = vgi("pool", *arguments)
    assert result.code == 2 and result.out == ""
    assert result.error == error
    assert sorted(path.name for path in Path().iterdir()) == ["estimates.csv"]


@pytest.mark.parametrize("test", ["a,poly(chl, 2)1", "poly(chl, 2)1", "2)1"])
def test_a_term_with_a_comma_goes_in_quotes(vgi: Vgi, test: str) -> None:
    rows = ROWS.replace("b,c", "poly(chl, 2)1")
    Path("estimates.csv").write_text(rows, encoding="utf-8")
    refused = vgi("pool", "estimates.csv", "--test", test)
    assert (refused.code, refused.out) == (2, "")
    assert refused.error in ("no term 'poly(chl'", "no term '2)1'")
    assert refused.hint == "a term that holds a comma goes in quotes, as in CSV: --test '\"poly(chl, 2)1\"'"
    assert vgi("pool", "estimates.csv", *shlex.split(refused.hint.partition("CSV: ")[2])).code == 0


GERMAN = "imputation;term;estimate;std_error\n1;a;0,5;0,1\n2;a;0,6;0,1\n"


def test_decimal_commas(vgi: Vgi) -> None:
    Path("e.csv").write_text(GERMAN, encoding="utf-8")
    refused = vgi("pool", "e.csv", "--delimiter", ";")
    assert refused.code == 2 and refused.error == "e.csv: row 1: 'estimate' is '0,5', not a number"
    assert "hint: `--decimal ,` where the comma is the decimal mark" in refused.err
    done = vgi("pool", "e.csv", "--delimiter", ";", "--decimal", ",", "--json")
    assert done.code == 0 and done.err == ""
    assert checked("pool", done.out)["terms"][0]["estimate"] == pytest.approx(0.55)


PLAINLY = "write 1234.5, without commas, blanks or units"
DOTS = "write 1234,5, without dots, blanks or units"
LARGER = "give the estimates and their standard errors in larger units"


@pytest.mark.parametrize(
    ("cell", "options", "what", "hint"),
    [
        ("1e400", [], "is '1e400', which is too large", LARGER),
        ("1,5e400", ["--decimal", ","], "is '1,5e400', which is too large", LARGER),
        ("1,234", [], "is '1,234', not a number", f"`--decimal ,` where the comma is the decimal mark; else {PLAINLY}"),
        ("1,234,567.5", [], "is '1,234,567.5', not a number", PLAINLY),
        ("1.234,5", ["--decimal", ","], "is '1.234,5', not a number", DOTS),
        ("many", [], "is 'many', not a number", "every row needs one"),
        ("", [], "is empty", "every row needs one"),
    ],
)
def test_a_cell_that_is_no_number(vgi: Vgi, cell: str, options: list[str], what: str, hint: str) -> None:
    Path("e.csv").write_text(f"imputation;term;estimate;std_error\n1;a;1;1\n2;a;{cell};1\n", encoding="utf-8")
    refused = vgi("pool", "e.csv", "--delimiter", ";", *options)
    assert (refused.code, refused.error) == (2, f"e.csv: row 2: 'estimate' {what}")
    assert refused.hint == hint


@pytest.mark.parametrize(
    ("imputations", "values", "warning"),
    [
        ("134", "567", "the imputations are numbered up to 4, without 2: an analysis that failed, and is left out,"),
        ("23", "57", "the imputations are numbered up to 3, without 1: an analysis"),
        ("123", "555", "every estimate is the same in all 3 imputations: was one table analysed 3 times?"),
        ("123", "556", ""),
        ("012", "567", ""),
        ("19", "56", ""),  # names, it seems
        ("ab", "56", ""),
    ],
)
def test_what_speaks_against_estimates_is_a_warning(vgi: Vgi, imputations: str, values: str, warning: str) -> None:
    rows = [f"{i},a,0.{v},0.1\n{i},b,1.{v},0.1" for i, v in zip(imputations, values, strict=True)]
    Path("e.csv").write_text("\n".join(["imputation,term,estimate,std_error", *rows]) + "\n", encoding="utf-8")
    done = vgi("pool", "e.csv")
    assert done.code == 0 and "| a " in done.out
    assert done.err.startswith(f"warning: e.csv: {warning}") if warning else done.err == ""


@pytest.mark.parametrize("label", ["30000000", "20240101120000", "7" * 5000])
def test_large_labels_of_imputations_are_names(vgi: Vgi, label: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def counted(*ends: int) -> range:
        assert max(ends) < 100, "counts through a range of names"
        return range(*ends)

    monkeypatch.setattr(pool, "range", counted, raising=False)
    rows = "".join(f"{i},a,{value},0.1\n" for i, value in ((label, 1), (1, 2), (2, 2)))
    Path("p.csv").write_text(f"imputation,term,estimate,std_error\n{rows}", encoding="utf-8")
    done = vgi("pool", "p.csv")
    assert done.code == 0 and done.err == "" and done.out.startswith("3 imputations")


def test_a_term_with_a_line_break_stays_in_its_row(vgi: Vgi) -> None:
    shown = ROWS.replace("b,c", "b c").replace('"b c"', '"b\n c"').replace("cov:b c", "cov:b\n c")
    Path("e.csv").write_text(shown, encoding="utf-8")
    done = vgi("pool", "e.csv", "--test", 'a,"b\n c"')
    assert done.code == 0
    table = [line for line in done.out.splitlines() if line and not line.startswith("3 imputations")]
    assert {len(line.split("|")) for line in table[:4]} == {12} and {len(line.split("|")) for line in table[4:]} == {8}
    assert table[3].startswith("| b c  |") and table[6].startswith("| a, b c ")
    assert json.loads(vgi("pool", "e.csv", "--json").out)["terms"][1]["term"] == "b\n c"


def test_filled_tables_and_runs_are_no_estimates(vgi: Vgi, tmp_path: Path) -> None:
    for name in ("filled.1.csv", "filled.2.csv"):
        Path(name).write_text("x,y\n1,2\n3,4\n", encoding="utf-8")
    Path("run").mkdir()
    Path("run/manifest.json").write_text("{}", encoding="utf-8")
    takes = "give a table of the estimates of an analysis that was made on each filled table"
    for arguments, error in (
        (["filled.1.csv"], "filled.1.csv: no column 'imputation' or '.imp'"),
        (["filled.1.csv", "filled.2.csv"], "one table of estimates, got unexpected extra argument(s) (filled.2.csv)"),
        (["run"], "'run' is a run, not a table of estimates"),
    ):
        refused = vgi("pool", *arguments)
        assert refused.code == 2 and refused.error == error and f"hint: {takes}" in refused.err
