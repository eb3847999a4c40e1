"""An output CSV differs from its input only inside filled cells, whatever the input looks like."""

from __future__ import annotations

import csv
import io
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.table.helpers import from_text, write_imputed
from vgi_cli.columns.number import Number
from vgi_cli.encoding.infer import infer_schema
from vgi_cli.table.csv.text import quote
from vgi_cli.table.texts import MISSING

TOKENS = [*MISSING, "?"]


class Written(NamedTuple):
    """A CSV text by its parts: head, then per row its raw cells and its line end."""

    head: str
    rows: list[list[str]]
    ends: list[str]
    delimiter: str

    def text(self) -> str:
        lines = (self.delimiter.join(row) + end for row, end in zip(self.rows, self.ends, strict=True))
        return self.head + "".join(lines)


@st.composite
def tables(draw: st.DrawFn) -> Written:
    """Ids, an integer column, a numeric column and free text, each cell quoted or not, with any missing token."""
    delimiter = draw(st.sampled_from([",", ";", "\t", "|", ":"]))
    end = draw(st.sampled_from(["\n", "\r\n", "\r"]))
    N = draw(st.integers(2, 8))
    special = f'"\n\r {delimiter}'
    free = st.text(alphabet="abé,;" + special, max_size=6)

    def cell(text: str) -> str:
        must = any(c in text for c in f'"\n\r{delimiter}')
        return quote(text) if must or draw(st.booleans()) else text

    def hole() -> str:
        blank = draw(st.sampled_from(["", " "]))
        return cell(blank + draw(st.sampled_from(TOKENS)) + blank)

    names = [cell(n) for n in ("id", "whole\nnumber", "x", "free text", "last")]
    whole = st.one_of(st.integers(-99, 99).map(str), st.integers(0, 9).map(lambda i: f"{i}.0"))
    spelled = st.one_of(
        st.floats(-1e3, 1e3).map(lambda v: f"{v:.3f}"),
        st.sampled_from(["1.50", "+2.5", ".5", "3.", "1e-2", "1.5E+1", " 7.25"]),
    )
    rows = []
    for i in range(N):
        first = i < 2  # two values that differ, so that the columns are modelled
        rows.append(
            [
                cell(f"row {i}"),
                cell(str(i)) if first else draw(st.one_of(whole.map(cell), st.builds(hole))),
                cell(f"{i}.5") if first else draw(st.one_of(spelled.map(cell), st.builds(hole))),
                cell("a" if first else draw(free)),
                cell(f"{i}.25") if first else draw(st.one_of(spelled.map(cell), st.builds(hole))),
            ]
        )
    blank = draw(st.sampled_from(["", end]))
    ends = [end + draw(st.sampled_from(["", blank])) for _ in range(N)]
    if draw(st.booleans()):
        ends[-1] = ""
    bom = draw(st.sampled_from(["", "\ufeff"]))
    return Written(bom + delimiter.join(names) + end, rows, ends, delimiter)


def is_hole(raw: str) -> bool:
    text = next(csv.reader([raw], delimiter="\0"), [""])[0] if raw.startswith('"') else raw
    return text.strip() in TOKENS


KINDS = {"whole\nnumber": "integer", "x": "numeric", "free text": "carry", "last": "numeric"}
"""What columns of two values or of few texts would not be taken for."""


POWERS = Written(
    'id,"whole\nnumber",x,free text,last\n',
    [[f"row {i}", str(i % 2), f"{i % 2}.5", "a", "1e-2"] for i in range(6)] + [["row 6", "", "", "a", ""]] * 2,
    ["\n"] * 8,
    ",",
)
for place, other in enumerate(("0.25", "1.25")):
    POWERS.rows[place][4] = other
POSITIVE = POWERS._replace(  # of three decimals, with a limit at 0, beyond which a draw lies
    rows=[["row 0", "0", "0.5", "a", "0.25"], ["row 1", "1", "1.5", "a", "1.25"]]
    + [[f"row {i}", "0", x, "a", "0.000"] for i, x in enumerate(["1e-2", "0.000", "1e-2", "", "1e-2", "1e-2"], 2)],
)


@settings(max_examples=10)
@given(tables(), st.integers(0, 2**32 - 1))
@example(POWERS, 1)
@example(POSITIVE, 162)
def test_only_filled_cells_differ(written: Written, seed: int) -> None:
    text = written.text()
    table = from_text(text, delimiter=written.delimiter, na_values=["?"])
    schema, _ = infer_schema(table, ids=["id"], kinds=KINDS)
    assert schema.modelled == ("whole\nnumber", "x", "last")
    rng = np.random.default_rng(seed)
    draws = rng.normal(size=(1, table.N, 3)) * 20
    for d, column in enumerate(schema.encoded):
        if isinstance(column, Number) and column.power:  # few digits bring no fill beyond a limit, but others farther
            draws[..., d] = draws[..., d].clip(*column.ends)
    sink = io.BytesIO()
    write_imputed(table, schema, draws, layout="single", out=sink)
    filled = sink.getvalue().decode()

    again = from_text(filled, delimiter=written.delimiter, na_values=["?"])
    rows = []
    for i, row in enumerate(written.rows):
        new = list(row)
        for d, (j, column) in enumerate(zip((1, 2, 4), schema.encoded, strict=True)):
            values = again.numeric(column.name)
            if is_hole(row[j]):
                begin, end = again.csv.bounds[i, j], again.csv.bounds[i, j + 1] - 1  # type: ignore[attr-defined]
                new[j] = again.csv.text[begin:end].decode()  # type: ignore[attr-defined]
                assert new[j] != row[j]
                code = draws[0, i, [d]]
                if isinstance(column, Number) and column.power:  # as many digits as are written with powers of ten
                    assert values[i] == pytest.approx(column.written(column.snap(code))[0], rel=1e-12)
                else:
                    assert values[i] == column.snap(code)[0]
                if column.kind == "integer":
                    assert values[i] == round(values[i])
            else:
                assert values[i] == float(row[j].strip('"').strip())
        rows.append(new)
    assert filled == written._replace(rows=rows).text()


@settings(max_examples=10)
@given(tables())
def test_long_tables_hold_the_original_and_every_draw(written: Written) -> None:
    table = from_text(written.text(), delimiter=written.delimiter, na_values=["?"])
    schema, _ = infer_schema(table, ids=["id"], kinds=KINDS)
    draws = np.random.default_rng(0).normal(size=(2, table.N, 3))
    sink, single = io.BytesIO(), io.BytesIO()
    write_imputed(table, schema, draws, layout="long", out=sink)
    long = from_text(sink.getvalue(), delimiter=written.delimiter, na_values=["?"])
    assert long.names == (*table.names, ".imp", ".id")
    assert long.numeric(".imp").tolist() == [0] * table.N + [1] * table.N + [2] * table.N
    assert long.numeric(".id").tolist() == list(range(1, table.N + 1)) * 3
    write_imputed(table, schema, draws[1:], layout="single", out=single)
    second = from_text(single.getvalue(), delimiter=written.delimiter, na_values=["?"])
    for name in table.names:
        assert long.raw_text(name)[: table.N].tolist() == table.raw_text(name).tolist()
        assert long.raw_text(name)[2 * table.N :].tolist() == second.raw_text(name).tolist()
