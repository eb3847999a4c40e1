"""Kinds, roles, ranges and resolutions; notes and refusals with their texts; JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.encoding.test_relations import columns, holed
from tests.table.helpers import from_text, save
from vgi_cli.columns.base import Encoding, Transform
from vgi_cli.columns.number import Number
from vgi_cli.columns.schema import Schema
from vgi_cli.columns.wording import Alarm
from vgi_cli.encoding import infer
from vgi_cli.encoding.check import check
from vgi_cli.encoding.infer import Said, infer_schema, schema_alone
from vgi_cli.errors import InputError, RunError, UsageError
from vgi_cli.table.frames import from_frame
from vgi_cli.table.reader import read_table


def column(cells: list[str], **options: object) -> Number:
    """What a column of these cells, beside one that varies, is taken for."""
    rows = "\n".join(f"{cell},{i}.5" for i, cell in enumerate(cells))
    schema, _ = infer_schema(from_text(f"x,y\n{rows}\n"), **options)  # type: ignore[arg-type]
    return schema.columns[0]


def refusal(text: str, **options: object) -> str:
    with pytest.raises((InputError, UsageError)) as caught:
        infer_schema(from_text(text), **options)  # type: ignore[arg-type]
    return f"{caught.value.message} | {caught.value.hint}"


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (["1.5", "2", ""], "numeric"),
        (["1", "2", "NA"], "integer"),
        (["2.0", "3.0"], "integer"),
        (["1e3", "20"], "integer"),
        (["a", "1", "2"], "carried"),
        (["a", "b"], "carried"),
        (["02139", "02140"], "carried"),
        (["4", "4", ""], "constant"),
        (["", "NA"], "empty"),
        (["a", "a"], "constant-level"),
    ],
)
def test_kinds(cells: list[str], kind: str) -> None:
    assert column(cells).kind == kind


def test_overrides() -> None:
    assert column(["1", "2"], kinds={"x": "numeric"}).kind == "numeric"
    assert column(["1", "2"], kinds={"x": "carry"}).kind == "carried"
    assert column(["1", "2"], kinds={"x": "integer"}).kind == "integer"
    assert column(["1", "2"], kinds={"x": "numeric"}).resolution != 1


def test_roles() -> None:
    schema, _ = infer_schema(from_text(",a,b,c\n0,1,2,3\n1,2,3,4\n"), ids=["a"], exclude=["b"])
    assert [(c.kind, c.role) for c in schema.columns] == [
        ("carried", "index"),
        ("carried", "id"),
        ("carried", "exclude"),
        ("integer", "data"),
    ]
    assert (schema.modelled, schema.ids) == (("c",), ("a",))


def test_the_observed_range_is_no_bound() -> None:
    x = column(["1.5", "-2.25", "3"])
    assert (x.low, x.high, x.bounds) == (-2.25, 3.0, ())


@pytest.mark.parametrize(
    ("cells", "resolution"),
    [
        (["1", "2", "4"], 1),
        (["1.5", "2.25", "3"], 0.01),
        ([str(5 * i) for i in range(3, 15)], 5),
        (["2", "4", "6"] * 8, 2),
        (["2", "4"], 1),
        ([f"{0.25 * i}" for i in range(10)], 0.25),
        ([f"{2 * i + 1}" for i in range(10)], 2),
        (["1e-3", "2"], 0.001),
        (["0.1234567890123456789", "12345.5"], None),
    ],
)
def test_resolution(cells: list[str], resolution: float | None) -> None:
    assert column(cells).resolution == resolution


def test_what_is_dequantised() -> None:
    rng = np.random.default_rng(0)
    fine = [f"{v:.6f}" for v in rng.normal(size=200)]
    assert column(["1", "2", "3"]).dequantise
    assert column([f"{v:.1f}" for v in rng.normal(size=200)]).dequantise
    assert not column(fine).dequantise
    assert column(fine + ["0.000000"] * 10).dequantise
    assert column(fine + fine).dequantise


def test_spikes_without_a_resolution_get_a_fine_one() -> None:
    rng = np.random.default_rng(0)
    cells = [repr(v) for v in rng.normal(size=100).tolist()] + ["0.0"] * 50
    x = column(cells)
    assert x.dequantise and x.resolution is not None
    assert 1e-5 * 0.7 < x.resolution < 1e-4


def test_parquet_decides_by_type_and_value(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {
            "whole": [1.0, np.nan, 3.0],
            "tenths": np.array([0.1, 0.2, 0.4], np.float32),
            "text": ["1", "2", "3"],
            "truth": [True, False, True],
            "day": pd.to_datetime(["2020-01-01"] * 3),
        }
    )
    frame.to_parquet(tmp_path / "t.parquet")
    schema = schema_alone(read_table([tmp_path / "t.parquet"]))
    assert [c.kind for c in schema.columns] == ["integer", "numeric", "carried", "boolean", "constant-moment"]
    assert schema.columns[1].resolution == 0.1
    schema, _ = infer_schema(read_table([tmp_path / "t.parquet"]), kinds={"text": "integer"})
    assert schema.columns[2].kind == "integer"


def test_decimals_of_parquet_keep_their_resolution(tmp_path: Path) -> None:
    values = [Decimal(i).scaleb(-2) for i in range(-500, 500, 7)]
    pq.write_table(pa.table({"x": pa.array([None, *values], pa.decimal128(8, 2))}), tmp_path / "t.parquet")
    table = read_table([tmp_path / "t.parquet"])
    schema = schema_alone(table)
    assert table.numeric("x")[1:].tolist() == [float(value) for value in values]
    assert schema.columns[0].lattice is not None and schema.columns[0].lattice.decimals == 2


def test_ninety_percent() -> None:
    rows = "\n".join(str(i) for i in range(1, 10))
    assert refusal(f"x\n{rows}\n?\n") == (
        "standard input: column 'x' holds numbers, but also '?' in row 10 (line 11)"
        " | `--na-values '?'` if that means missing, or `--column x=carry` to carry the column as it is"
    )
    below = from_text(f"x,y\n{rows.replace(chr(10), f',1{chr(10)}')},2\n?,1\n!,1\n")
    assert schema_alone(below).columns[0].kind == "carried"


def test_ninety_percent_counts_observed_cells_only() -> None:
    rows = "\n".join(f"{i},1" for i in range(8))
    table = from_text(f"x,y\n{rows}\n,1\n,1\n,2\n?,1\n")
    assert schema_alone(table).columns[0].kind == "carried"


def test_ninety_percent_counts_the_others_and_knows_codes() -> None:
    rows = "\n".join(str(i) for i in range(20, 60))
    assert "'?' in row 41 (line 42) and 2 more cells |" in refusal(f"x\n{rows}\n?\n?\n!\n")
    assert refusal(f"zip\n{rows}\n02139\n").endswith(
        "'02139' in row 41 (line 42) | a leading zero makes a code, not a number:"
        " `--column zip=carry` to carry the column as it is"
    )


def test_infinities() -> None:
    for text in ("inf", "-Infinity", "1e999"):
        assert refusal(f"x,y\n1,1\n{text},2\n") == (
            f"standard input: column 'x' holds an infinity: '{text}' in row 2 (line 3)"
            f" | `--na-values x={text}` if that means missing, or `--column x=carry` to carry the column as it is"
        )
    assert infer_schema(from_text("x,y\n1,1\ninf,2\n"), exclude=["x"])[0].modelled == ("y",)


def test_no_numeric_column() -> None:
    assert refusal("a,b,c\nx,,1\ny,,2\n", ids=["c"]) == (
        "standard input: no column that can be modelled | found 'a' (text), 'b' (empty), 'c' (id)"
    )
    assert refusal("a;b\n1,5;x\n2,5;y\n".replace(";", "\t"), ids=[]).endswith("--delimiter '\\t'`?")
    with pytest.raises(InputError) as caught:
        infer_schema(from_text("a;b\n1,5;x\n2,5;y\n", delimiter=";"))
    assert caught.value.hint == "column 'a' has no plain numbers: write 1234.5, without commas, blanks or units"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"ids": ["alhpa"]}, "--id alhpa: standard input has no such column | did you mean 'alpha'?"),
        ({"exclude": ["q"]}, "--exclude q: standard input has no such column | expected one of: alpha, t"),
        ({"kinds": {"q": "carry"}}, "--column q: standard input has no such column | expected one of: alpha, t"),
        ({"unbounded": ["q"]}, "--unbounded q: standard input has no such column | expected one of: alpha, t"),
        ({"unbounded": ["t"]}, "--unbounded t: the column is not modelled | expected one of: alpha"),
        ({"kinds": {"alpha": "intger"}}, "--column alpha=intger: unknown kind | did you mean 'integer'?"),
        (
            {"kinds": {"alpha": "integer"}},
            "standard input: --column alpha=integer, but the column holds '1.5' in row 1 (line 2)"
            " | `--column alpha=numeric`?",
        ),
        (
            {"kinds": {"t": "numeric"}},
            "standard input: --column t=numeric, but the column holds 'x' in row 1 (line 2) and 1 more cell"
            " | `--na-values t=x --na-values t=y` if they mean missing, or `--column t=carry` to carry the column as "
            "it is",
        ),
        (
            {"kinds": {"alpha": "numeric"}, "ids": ["alpha"]},
            "--column alpha=numeric disagrees with --id alpha | drop one of them",
        ),
        (
            {"exclude": ["t"], "ids": ["t"]},
            "--id t disagrees with --exclude t | an id is carried already: drop --exclude",
        ),
        ({"encoding": Encoding("norml")}, "unknown transform 'norml' | did you mean 'normal'?"),
    ],
)
def test_flags_that_cannot_be_meant(options: dict[str, object], expected: str) -> None:
    assert refusal("alpha,t\n1.5,x\n2,y\n", **options) == expected


BARE = "has no cell of a modelled column: not used by the fit, imputed from the model"
BARES, DELETE = BARE.replace("has", "have"), "; delete what is no row of the table"


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("x,y\n1,2\n", "standard input has one row"),
        ("x\n1\n2\n\n", "one column to model: 'x'"),
        ("a,b,c\n1,2,3\n4,5,\n", "more columns to model (3) than rows (2)"),
        ("x,y\n1,2\n3,4\n", "standard input has no hole in a modelled column"),
        ("x,y,z\n1,2,7\n3,,7\n5,6,7\n", "column 'z' is constant: holes get the constant"),
        ("x,y,z\n1,7,7\n3,,7\n", "columns 'y', 'z' are constant: holes get the constant"),
        ("x,y,z\n1,2,\n3,,\n", "column 'z' is empty: carried, nothing to learn from"),
        ("x,y\n1,2\n,\n3,4\n", f"row 2 {BARE}"),
        ("x,y\n1,2\n3,4\n,\n", f"row 3 {BARE}{DELETE}"),
        ("x,y\n1,2\n3,4\n,\n,\n", f"the last 2 rows (3 and 4) {BARES}{DELETE}"),
        ("x,y\n1,2\n3,4\n,\n,\n,\n", f"the last 3 rows (3 to 5) {BARES}{DELETE}"),
        ("x,y\n,\n1,2\n3,4\n,\n", f"rows 1, 4 {BARES}{DELETE}"),
        (f"x,y\n1,2\n{6 * (',' + chr(10))}3,4\n", f"rows 2, 3, 4, 5, 6 and 1 more {BARES}"),
        ("t,x,y\na,1,2\nb,,\nc,3,4\n", f"row 2 {BARE}"),  # it has a cell of a carried column
    ],
)
def test_what_works_with_one_line(text: str, note: str) -> None:
    _, notes = infer_schema(from_text(text))
    assert note in notes
    assert all(notes)


def test_a_header_of_numbers_is_pointed_out() -> None:
    note = "the column names of standard input are numbers: is the header line missing?"
    assert note in infer_schema(from_text("5.1,3\n4.9,\n4.7,2\n4.5,4\n"))[1]
    assert infer_schema(from_text("2019,2020\n4.9,\n4.7,2\n4.5,4\n"))[1] == []


@pytest.mark.parametrize(("header", "row"), [("a b c", "{}.5 {} u{}"), ("a b", '"r{}" {} {}'), ("a b", "{} u{}")])
def test_columns_set_apart_by_blanks(header: str, row: str) -> None:
    rows = "".join(f"{row.format(i, i * 3, i)}\n" for i in range(60))
    with pytest.raises(InputError, match="no column that can be modelled") as caught:
        infer_schema(from_text(f"{header}\n{rows}"))
    assert caught.value.hint == f"found '{header}' (text); are its columns set apart by blanks? `--delimiter ' '`"
    for text in (f"{header}\n{rows}x\n", "name\n" + "".join(f"John {i}\n" for i in range(60))):
        with pytest.raises(InputError, match="no column that can be modelled") as caught:
            infer_schema(from_text(text))
        assert "--delimiter" not in str(caught.value.hint)


HEADLESS = "look like a row"


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ("39.1,4,v,2020-01-31", True),
        ("39,4, v,2020-01-31", True),
        ("39.1,4.5,v,2020-01-31", False),  # the second column holds whole numbers
        ("x,4,v,2020-01-31", False),
        ("39.1,4,z,2020-01-31", False),  # no such level
        ("39.1,4,v,day", False),
        ("0,1,2,3", False),
        ("2019,2020,group,day", False),
    ],
)
def test_a_header_that_looks_like_a_row_is_an_alarm(header: str, said: bool) -> None:
    days = [f"2021-{i % 12 + 1:02}-{i % 27 + 1:02}" for i in range(60)]
    rows = "".join(f"{30 + i * 0.7:.1f},{i % 13},{'uvw'[i % 3]},{day}\n" for i, day in enumerate(days))
    lines = [line for line in infer_schema(from_text(f"{header}\n{rows}"))[1] if HEADLESS in line]
    assert bool(lines) == said
    if said:
        shown = ", ".join(f"'{name}'" for name in header.split(","))
        assert lines == [f"the column names of standard input {HEADLESS} ({shown}): is the header line missing?"]
        assert isinstance(lines[0], Alarm)


def test_columns_called_by_what_they_hold_are_no_row() -> None:
    """Answers of which several may be ticked, spectra by wavelength, and levels alone."""
    ticked = "red,blue,1\n" + "".join(f"{'red' * (i % 2)},{'blue' * (i % 3 > 0)},{i % 7}\n" for i in range(60))
    spectra = "class,400.5,401.5\n" + "".join(f"{'ab'[i % 2]},{i * 0.37:.2f},{i * 0.11:.2f}\n" for i in range(60))
    levels = "u,yes\n" + "".join(f"{'uv'[i % 2]},{('yes', 'no')[i % 3 > 0]}\n" for i in range(60))
    for text in (ticked, spectra, levels):
        assert not [line for line in infer_schema(from_text(text))[1] if HEADLESS in line]


class TestQualtrics:
    """Exports with three headers: names, texts and ids of the questions."""

    TEXT = 'Response ID,"I like it,\n do you?"\n'
    IDS = '"{""ImportId"":""_recordId""}","{""ImportId"":""QID1""}"\n'
    ROWS = "R_1,Agree\nR_2,Neutral\n" * 30

    def test_rows_that_are_headers_are_refused(self) -> None:
        with pytest.raises(InputError, match="ImportId") as caught:
            infer_schema(from_text(f"id,Q1\n{self.TEXT}{self.IDS}{self.ROWS}"))
        assert caught.value.message == (
            """standard input: row 2 (line 4) holds ids of questions ('{"ImportId":"_recordId"}'), as the headers of """
            "Qualtrics do"
        )
        assert caught.value.hint == (
            "delete row 1 (line 2) and row 2 (line 4): texts and ids of the questions, which are no answers"
        )

    def test_ids_alone(self) -> None:
        with pytest.raises(InputError, match="row 1") as caught:
            infer_schema(from_text(f"id,Q1\n{self.IDS}{self.ROWS}"))
        assert caught.value.hint == "delete row 1 (line 2)"

    def test_such_a_text_further_down_is_an_answer(self) -> None:
        assert schema_alone(from_text(f"id,Q1\n{self.ROWS}{self.IDS}")).columns[1].kind == "categorical"


@pytest.mark.parametrize(("every", "of", "told"), [(1, 40, True), (1, 19, False), (4, 40, False), (0, 40, False)])
def test_the_time_of_a_record_is_said_to_leave_the_range_of_the_fit(every: int, of: int, told: bool) -> None:
    """Minutes that pass from row to row, in few rows, with repeats; and dates, of birth say."""
    start = datetime(2024, 3, 1, 8, 30)
    if every:
        times = [f"{start + timedelta(minutes=7 * (i // every)):%Y-%m-%d %H:%M}" for i in range(of)]
    else:
        times = [f"{start + timedelta(days=7 * i):%Y-%m-%d}" for i in range(of)]
    table = from_text("ts,x,y\n" + "".join(f"{t},{i % 7},{i % 5 or ''}\n" for i, t in enumerate(times)))
    line = (
        "column 'ts' differs in nearly every row, like the time of a record: in later tables it lies outside the range "
        "of the fit; `--exclude ts` if fills should not depend on it"
    )
    assert (line in infer_schema(table)[1]) == told
    assert line not in infer_schema(table, kinds={"ts": "datetime" if every else "date"})[1]


def test_an_ordinary_table_needs_no_line() -> None:
    assert infer_schema(from_text("x,y\n1,2\n3,\n5,6\n"))[1] == []


class TestCheck:
    """A new table against a fitted schema."""

    schema = infer_schema(from_text("id,x,y,t\n1,1,2.5,a\n2,3,,b\n3,5,6,c\n"), ids=["id"])[0]

    def notes(self, text: str, **options: object) -> list[str]:
        return check(from_text(text, **options), self.schema)

    def refusal(self, text: str) -> str:
        with pytest.raises(InputError) as caught:
            self.notes(text)
        return f"{caught.value.message} | {caught.value.hint}"

    def test_same_columns(self) -> None:
        assert self.notes("id,x,y,t\n1,1,,a\n") == []

    def test_any_order_and_extra_columns(self) -> None:
        note = "columns are in another order than in the fit: matched by name"
        assert self.notes("y,extra,x,id\n1.5,q,,7\n") == [note]

    def test_a_fitted_column_may_be_empty(self) -> None:
        assert self.notes("id,x,y\n1,1,\n2,2,NA\n") == ["column 'y' is empty in standard input: imputed from the model"]

    def test_no_hole_and_no_id(self) -> None:
        assert self.notes("x,y\n1,2\n") == [
            "id column 'id' is not in standard input: draws are keyed without it",
            "standard input has no hole in a modelled column",
        ]

    def test_fully_missing_rows(self) -> None:
        assert self.notes("id,x,y\n1,1,2\n2,,\n") == [
            f"row 2 has no cell of a modelled column: imputed from the model{DELETE}"
        ]

    def test_broken_integers(self) -> None:
        assert self.notes("id,x,y\n1,1.5,\n")[0] == (
            "column 'x' was whole in the fit but holds '1.5' in row 1 (line 2)"
        )

    def test_lacking_columns(self) -> None:
        hint = "the fit needs every modelled column; a column may be empty"
        other = "; rename one that is called otherwise here"
        assert self.refusal("id\n1\n") == f"standard input: lacks the fitted columns 'x', 'y' | {hint}"
        assert self.refusal("id,a\n1,2\n") == (
            "standard input: lacks the fitted columns 'x', 'y', and has column 'a' which the fit has not "
            f"| {hint}{other}"
        )
        assert self.refusal("id,X1,x\n1,2,1\n") == (
            f"standard input: lacks the fitted column 'y', and has column 'X1' which the fit has not | {hint}{other}"
        )
        assert self.refusal("id,yy,x\n1,2,1\n").endswith("| rename 'yy' to 'y'?")

    def test_text_in_a_fitted_column(self) -> None:
        assert self.refusal("id,x,y\n1,1,2\n2,?,3\n") == (
            "standard input: column 'x' is numeric in the fit but holds '?' in row 2 (line 3)"
            " | `--na-values '?'` if that means missing; a fit with `--column x=carry` would carry it"
        )
        assert self.notes("id,x,y\n1,1,2\n2,?,3\n", na_values=["?"]) == []

    def test_infinities(self) -> None:
        assert "column 'y' holds an infinity: 'inf' in row 1 (line 2)" in self.refusal("id,x,y\n1,1,inf\n")

    def test_dates_in_a_fitted_column(self, tmp_path: Path) -> None:
        pd.DataFrame({"x": pd.to_datetime(["2020-01-01"]), "y": [1]}).to_parquet(tmp_path / "t.parquet")
        with pytest.raises(InputError, match="column 'x' is numeric in the fit but holds '2020-01-01"):
            check(read_table([tmp_path / "t.parquet"]), self.schema)


class TestJson:
    """schema.json: exact, strict, versioned."""

    schema = infer_schema(from_text("id,x,y,t,k,e\n1,1,2.53,a,7,\n2,3,,b,7,\n3,5,6,c,,\n"), ids=["id"])[0]

    @pytest.mark.parametrize("transform", ["linear", "normal", "none"])
    def test_round_trip(self, transform: str) -> None:
        rng = np.random.default_rng(0)
        rows = "\n".join(
            f"{a!r},{b}" for a, b in zip(rng.lognormal(size=50).tolist(), rng.integers(0, 5, 50), strict=True)
        )
        schema = schema_alone(from_text(f"x,y\n{rows}\n"), Said(encoding=Encoding(transform)))  # type: ignore[arg-type]
        assert Schema.from_json(schema.to_json()) == schema
        assert Schema.from_json(self.schema.to_json().encode()) == self.schema

    def damaged(self, text: str) -> str:
        with pytest.raises(RunError) as caught:
            Schema.from_json(text)
        return f"{caught.value.message} | {caught.value.hint}"

    def test_damage_is_refused(self) -> None:
        raw = json.loads(self.schema.to_json())
        assert self.damaged("{").startswith("schema.json: not JSON (")
        assert self.damaged("[]").startswith("schema.json: damaged (")
        assert "color" in self.damaged(json.dumps({**raw, "color": 1}))
        assert "columns.1.kind" in self.damaged(self.schema.to_json().replace('"integer"', '"whole"'))
        lost = {**raw, "columns": [{**c, "scale": None} for c in raw["columns"]]}
        assert self.damaged(json.dumps(lost)) == (
            "schema.json: damaged (columns.1.scale: Input should be a dictionary or an instance of Scale)"
            " | restore the run folder, or fit again"
        )
        lattices = [(0, -1, 0), (400, 1, 0), (-400, 1, 0), (0, 2**60, 0), (0, 1, 10**400)]
        wrong = [{"lattice": dict(zip(("decimals", "step", "origin"), one, strict=True))} for one in lattices]
        for changes in ({"sd": -2.0}, *wrong):
            columns = [{**c, **changes} if c["kind"] == "integer" else c for c in raw["columns"]]
            message = self.damaged(json.dumps({**raw, "columns": columns}))
            assert "Input should be " in message and next(iter(changes)) in message
        twice = {**raw, "columns": raw["columns"] * 2}
        assert "do not fit together" in self.damaged(json.dumps(twice))

    def test_newer_formats_are_refused(self) -> None:
        raw = json.loads(self.schema.to_json())
        assert self.damaged(json.dumps({**raw, "format": 11, "new": 1})) == (
            "schema.json: format 11 is newer than this program's 10 | upgrade vgi to read this run"
        )


def test_masks_hide_what_a_kind_is_inferred_from(tmp_path: Path) -> None:
    table = from_text("x,y\n1.5,1\n2,2\n9,3\n", mask=save(tmp_path, "m.csv", "x,y\n0,1\n1,1\n1,1\n"))
    schema = schema_alone(table)
    assert (schema.columns[0].kind, schema.columns[0].low) == ("integer", 2)


ROWS = np.arange(40) % 5 > 0  # four fifths


def some_rows(held: float) -> str:
    """Whole numbers, hundredths, hundredths with a pile of zeros; every fifth row has other values than the rest where
    `held` is not 0."""
    rng = np.random.default_rng(0)
    lines = []
    for i, (a, b, c) in enumerate(rng.integers(10, 99, (40, 3)).tolist()):
        c = 0 if i % 3 else c
        if not ROWS[i]:
            a, b, c = (int((value + held) % 90 + 10 * (held > 0)) for value in (a, b, c))
        lines.append(f"{a},1.{b:02d},0.{c:02d}")
    return "a,b,c\n" + "\n".join(lines) + "\n"


@pytest.mark.parametrize("transform", ["linear", "normal"])
def test_statistics_come_from_the_rows_that_are_named(transform: Transform) -> None:
    tables = [from_text(some_rows(held)) for held in (0, 37, 71)]
    schemas = [infer_schema(table, encoding=Encoding(transform), rows=ROWS)[0] for table in tables]
    assert schemas[0] == schemas[1] == schemas[2] == Schema.from_json(schemas[1].to_json())
    everything = [schema_alone(table, Said(encoding=Encoding(transform))) for table in tables]
    assert everything[0] != everything[1] != everything[2]
    assert all(column.spikes for column in schemas[0].encoded[2:])
    fitted = from_text("\n".join(line for i, line in enumerate(some_rows(0).splitlines()) if i == 0 or ROWS[i - 1]))
    assert schema_alone(fitted, Said(encoding=Encoding(transform))) == schemas[0]  # as if the others were not there


def test_what_a_column_is_comes_from_all_rows() -> None:
    rows = np.arange(20) < 15
    text = "whole,five,said\n" + "".join(
        f"{i if i < 15 else i + 0.5},{5 * i + 3 * (i == 19)},{1 if i == 0 else '' if i < 15 else i}\n"
        for i in range(20)
    )
    (whole, five, said), notes = infer_schema(from_text(text), rows=rows)[0].columns, infer_schema(from_text(text))[1]
    assert whole.kind == "numeric" and whole.lattice is not None and whole.lattice.decimals == 1
    assert (whole.low, whole.high) == (0, 14)
    assert five.lattice is not None and five.lattice.step == 1  # 98 is no multiple of 5
    assert said.kind == "constant" and said.low == 1
    assert not any("in the rows that are fitted" in note for note in notes)


def test_columns_without_a_value_among_the_rows_are_said() -> None:
    rows = np.arange(20) < 15
    lines = [f"{i},{7 if i < 15 else i},{'' if i < 15 else i}" for i in range(20)]
    schema, notes = infer_schema(from_text("a,b,c\n" + "\n".join(lines) + "\n"), rows=rows)
    assert [column.kind for column in schema.columns] == ["integer", "constant", "empty"]
    assert "column 'b' is constant in the rows that are fitted: holes get the constant" in notes
    assert "column 'c' is empty in the rows that are fitted: carried, nothing to learn from" in notes


@pytest.mark.parametrize(
    ("lines", "hint"),
    [
        (
            ["kg", *map(str, range(30))],
            "delete the line, if it holds units or a second header; else `--na-values x=kg`",
        ),
        ([*map(str, range(30)), "Total"], "delete the line, if it holds totals; else `--na-values x=Total`"),
        ([*map(str, range(30)), "kg"], "`--na-values x=kg` if that means missing"),
        (["n.a.", *map(str, range(30))], "`--na-values n.a.` if that means missing"),
    ],
)
def test_lines_that_are_no_rows_are_to_be_deleted(lines: list[str], hint: str) -> None:
    with pytest.raises(InputError) as refused:
        infer_schema(from_text("x,y\n" + "".join(f"{cell},{i % 4}\n" for i, cell in enumerate(lines))))
    assert str(refused.value.hint).startswith(hint)


def test_all_columns_that_cannot_be_used_are_named_at_once() -> None:
    rows = "".join(f"{i},{i / 2},{i}.5,{i % 3}\n" for i in range(40))
    with pytest.raises(InputError) as refused:
        infer_schema(from_text(f"a,b,c,d\n1,n.d.,2,1\n{rows}3,4,22.1*,1\n3,4,5,inf\n"))
    assert refused.value.message.endswith("'n.d.' in row 1 (line 2); columns 'c' ('22.1*'), 'd' cannot be used either")
    assert refused.value.hint is not None
    assert all(f"--na-values {said}" in refused.value.hint for said in ("b=n.d.", "d=inf"))
    assert "'22.1*' is a number with a mark: write the number alone" in refused.value.hint
    assert str(refused.value) == refused.value.message


def test_of_columns_that_cannot_be_used_the_same_is_said_once() -> None:
    names = [f"g{i}" for i in range(9)]
    rows = [["<3.243" if i == k else f"{3 + k / 7 + i:.3f}" for k in range(9)] for i in range(40)]
    rows[20][7] = "<0.5"  # a limit of its own in one, and another way in one
    rows[8][8], rows[9][8] = "broken", "5.5"
    for i, row in enumerate(rows):  # carried as text, categories, and of another kind
        row += ["<3.243" if i % 2 else f"{i}.5", "<2" if i % 3 else "4", "abc"[i % 3]]
    text = "\n".join([",".join([*names, "h", "k", "text"]), *map(",".join, rows)]) + "\n"
    with pytest.raises(InputError) as refused:
        infer_schema(from_text(text))
    assert refused.value.message == (
        "standard input: column 'g0' holds numbers, but also '<3.243' in row 1 (line 2); columns 'g1' ('<3.243'), "
        "'g2' ('<3.243'), "
        "'g3' ('<3.243'), 'g4' ('<3.243'), 'g5' ('<3.243') and 3 more cannot be used either"
    )
    hint = str(refused.value.hint)
    assert hint.count("a detection limit is no missing cell") == 1
    assert hint.startswith("'g0', 'g1', 'g2', 'g3', 'g4' and 3 more: a detection limit is no missing cell: write the")
    assert hint.endswith(
        "or `--column g0=carry` to carry the column as it is; 'g8': `--na-values g8=broken` if that means missing, or "
        "`--column g8=carry` to carry the column as it is; 2 more columns hold limits like '<3.243' among numbers, and "
        "would not be modelled as such"
    )


@pytest.mark.parametrize(
    ("names", "words", "flag"),
    [
        (["a", "b"], "xy", "a,b=late"),
        (["g0", "g1", "g2"], "xy", "'g*=late'"),
        ([f"{letter}{i}" for i in range(6) for letter in "gh"], "xy", "late"),  # too many for one flag
        ([f"{letter}{i}" for i in range(6) for letter in "gh"], ["late", "x"], "g0=late"),
    ],
)
def test_one_flag_makes_a_text_mean_missing_in_several_columns(
    names: list[str], words: Sequence[str], flag: str
) -> None:
    """In the whole table where no column of words holds it."""
    rows = [["late" if i == 9 + k else f"{i + k}.5" for k in range(len(names))] + [words[i % 2]] for i in range(40)]
    with pytest.raises(InputError) as refused:
        infer_schema(from_text("\n".join(map(",".join, [[*names, "word"], *rows])) + "\n"))
    assert f": `--na-values {flag}` if that means missing, or" in str(refused.value.hint)


def test_hints_that_differ_are_counted() -> None:
    words = ["kilo", "cent", "deci", "mega", "giga", "tera", "peta"]
    rows = [",".join(words if i == 3 else [str(i + k) for k in range(7)]) for i in range(40)]
    with pytest.raises(InputError) as refused:
        infer_schema(from_text("a,b,c,d,e,f,g\n" + "\n".join(rows) + "\n"))
    assert str(refused.value.hint).endswith("; and 2 more columns in other ways")


def test_pooled_levels_say_what_that_costs() -> None:
    rng = np.random.default_rng(0)
    skus = [f"A{k}" for k in np.minimum(rng.geometric(0.05, 600), 90)]
    rows = "\n".join(f"{sku},{i}.5" for i, sku in enumerate(skus))
    notes = infer_schema(from_text(f"sku,x\n{rows}\n"), kinds={"sku": "categorical"})[1]
    (note,) = (one for one in notes if "are pooled" in one)
    assert "fills need not keep to what its levels say of other columns" in note and "`--column sku=carry`" in note


@pytest.mark.parametrize(
    "said",
    [
        Said(),
        Said(encoding=Encoding("normal", relations="ignore"), kinds={"iso": "carry"}),
        Said(ids=["number"], rows=np.arange(200) % 3 > 0, bounds={"net": "0:"}),
    ],
)
def test_the_schema_alone_is_the_same_and_nothing_else_is_looked_for(
    said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = holed(columns())
    frame["asked"] = np.where(frame.country == "fr", np.nan, np.arange(200) % 7)
    table = from_frame(frame)
    whole, notes = infer_schema(table, **said._asdict())
    monkeypatch.setattr(infer, "nearly_words", None)
    monkeypatch.setattr(infer, "suspects", None)
    assert schema_alone(table, said) == whole and notes
    assert bool(whole.relations) == bool(whole.skips) == (said.encoding.relations == "keep")
