"""Numbers that nothing can be computed with are refused by name; what is near them works."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

import vgi_cli
from tests.table.helpers import from_text
from vgi_cli.columns.base import Encoding, Transform
from vgi_cli.columns.number import Number
from vgi_cli.columns.numerals import write_powers
from vgi_cli.columns.scale import fit_scale
from vgi_cli.encoding.check import check
from vgi_cli.encoding.encoder import decode, encode
from vgi_cli.encoding.infer import Said, infer_schema, schema_alone
from vgi_cli.errors import InputError
from vgi_cli.table.texts import spelling

CARRY = "`--column x=carry` to carry the column as it is"


@pytest.mark.parametrize(
    ("cells", "transform", "message", "hint"),
    [
        (
            ["1", "-2e280", "3", "1e300"],
            "linear",
            "standard input: column 'x' holds a number too large to compute with: '-2e280' in row 2 (line 3) and 1 "
            "more cell",
            f"`--na-values x=-2e280` if that means missing, or {CARRY}",
        ),
        (
            ["1e-290", "3e-290"],
            "normal",
            "standard input: column 'x' has values from 1e-290 to 3e-290: too close together to compute with",
            f"write them in smaller units, or {CARRY}",
        ),
        (
            ["1e-9", "2e-9"],
            "none",
            "standard input: column 'x' has values from 1e-09 to 2e-09, which table.transform=none leaves as they are: "
            "too close together",
            f"`--set table.transform=linear` standardises every column; {CARRY}",
        ),
        (
            ["1", "-2e8"],
            "none",
            "standard input: column 'x' has values from -200000000 to 1, which table.transform=none leaves as they are"
            ": too large",
            f"`--set table.transform=linear` standardises every column; {CARRY}",
        ),
    ],
)
def test_refused_at_fit(cells: list[str], transform: Transform, message: str, hint: str) -> None:
    with pytest.raises(InputError) as caught:
        infer_schema(from_text("\n".join(["x", *cells, ""])), encoding=Encoding(transform))
    assert (caught.value.message, caught.value.hint) == (message, hint)


def test_constants_may_have_any_size() -> None:
    schema = schema_alone(from_text("x,y\n1e308,1\n1e308,2\n"))
    assert schema.constants[0].low == 1e308


def test_new_values_out_of_all_proportion_are_refused() -> None:
    schema = schema_alone(from_text("x\n1\n3\n"))
    assert check(from_text("x\n9e14\n"), schema)[0].startswith("column 'x': '9e14' in row 1 (line 2) is far outside")
    with pytest.raises(InputError) as caught:
        check(from_text("x\n2\n-1.7e308\n2e15\n"), schema)
    assert caught.value.message == (
        "standard input: column 'x' holds '-1.7e308' in row 2 (line 3) and 1 more cell: too far from the fitted values "
        "to compute with"
    )
    assert caught.value.hint == f"`--na-values x=-1.7e308` if that means missing, or fit again with {CARRY}"


@pytest.mark.parametrize("values", [[1e16, 1e16 + 2], [1.0, 1.0 + 2**-52], [1e-279, 2e-279, 0.0], [-1e280, 1e280, 1.0]])
@pytest.mark.parametrize("transform", ["linear", "normal"])
def test_what_is_near_the_limits_is_encoded(values: list[float], transform: Transform) -> None:
    cells = np.array(values * 8)
    scale = fit_scale(cells, "linear", None)
    assert scale.sd > 0 and min(values) <= scale.mean <= max(values)
    table = from_text("\n".join(["x", *map(repr, cells.tolist()), ""]))
    schema, _ = infer_schema(table, kinds={"x": "numeric"}, encoding=Encoding(transform))
    x = encode(table, schema, seed=0).table.x
    assert torch.isfinite(x).all() and x.abs().max() < 10
    assert np.allclose(decode(x, schema)[:, 0], cells, rtol=1e-12, atol=1e-12 * np.abs(cells).max())


@pytest.mark.parametrize(
    ("texts", "power", "wanted"),
    [
        (["3.23E-08", "1.60E-03", "2.00E+06"], "E+2", {0.0191015: "1.91E-02", -4.2e10: "-4.20E+10", 0.0: "0.00E+00"}),
        (["1.5e5", "2.5e-12", "0"], "e1", {0.0191015: "1.9e-2", 2e100: "2.0e100"}),
        (["1e-005", "3e+011"], "e+3", {47.0: "5e+001"}),
        (["1.5e5", "2", "3.25", "4"], "", {}),
    ],
)
def test_powers_of_ten_are_written_as_most_cells_write_them(
    texts: list[str], power: str, wanted: dict[float, str]
) -> None:
    cells = pa.array(texts, pa.large_string())
    found = spelling(cells, np.ones(len(texts), bool))
    assert found is not None and found.power == power
    for value, text in wanted.items():
        assert write_powers(np.array([value]), found.significant, power) == [text]


def test_a_column_with_powers_of_ten_is_filled_in_its_digits() -> None:
    """Whole or not: `1.327E+06` is right to four digits. The kind that was asked for is written with all of them; so is
    a value that four digits would bring beyond a bound."""
    values = 10 ** np.random.default_rng(0).normal(6, 0.2, 80)
    table = from_text("y\n" + "\n".join(f"{v:.3E}" for v in values) + "\n")
    column = schema_alone(table).encoded[0]
    assert isinstance(column, Number) and (column.power, column.digits) == ("E+2", 4)
    assert column.spell(np.array([1234567.0]), 0) == ["1.235E+06"]
    asked = infer_schema(table, kinds={"y": "integer"})[0].encoded[0]
    assert asked.kind == "integer" and asked.spell(np.array([1234567.0]), 0) == ["1234567"]
    bounded = infer_schema(table, bounds={"y": "0:9999996"})[0].encoded[0]
    assert bounded.spell(np.array([9999995.0]), 0) == ["9999995"]


DIGITS = np.exp(np.random.default_rng(3).normal(2, 2.5, 200))
"""Values over decades."""


@pytest.mark.parametrize(
    ("texts", "digits"),
    [
        ([f"{value:.3g}" for value in DIGITS], 3),
        ([str(float(f"{1000 * value:.1g}")) for value in DIGITS], 1),
        ([f"{value:.2f}" for value in DIGITS], None),  # the same decimals, whatever the size
        ([f"{1000 * round(value)}" for value in DIGITS], None),  # nothing says that larger values have more zeros
        ([f"{float(f'{value:.3g}')}" for value in DIGITS] + ["812.25"], 5),
        ([f"{round(value)}" for value in np.linspace(900, 1200, 100) // 10 * 10], None),
    ],
)
def test_fills_have_the_significant_digits_of_the_column(texts: list[str], digits: int | None) -> None:
    column = schema_alone(from_text("y\n" + "\n".join(texts) + "\n")).encoded[0]
    assert isinstance(column, Number) and column.significant == digits
    if digits == 3:
        codes = np.array([0.0123456, 1.23456, 123.456, 1234.56, 98765.4])
        fills = column.written(column.snap(codes))
        np.testing.assert_allclose(fills, [0.0123, 1.23, 123, 1230, 98800], rtol=1e-12)
        assert column.spell(fills, None) == ["0.0123", "1.23", "123", "1230", "98800"]
        assert column.beside(np.array([12.3]), lambda x: x == 12.3)[0] == 12.4


def test_multiples_of_25_stay_such() -> None:
    rents = [25 * round(value / 25) if value < 1000 else 50 * round(value / 50) for value in 400 + 20 * DIGITS]
    column = schema_alone(from_text("y\n" + "\n".join(map(str, rents)) + "\n")).encoded[0]
    assert isinstance(column, Number) and column.lattice is not None and column.lattice.step == 25
    assert not (column.written(column.snap(np.linspace(900, 1500, 99))) % 25).any()


def test_nobody_who_asks_for_whole_numbers_gets_them_rounded() -> None:
    text = "y\n" + "\n".join(str(round(float(f"{1000 * value:.2g}"))) for value in DIGITS) + "\n"
    plain, asked = (infer_schema(from_text(text), kinds=kinds)[0].encoded[0] for kinds in ({}, {"y": "integer"}))
    assert isinstance(plain, Number) and isinstance(asked, Number)
    assert (plain.kind, plain.significant, asked.significant) == ("integer", 2, None)


@pytest.mark.parametrize(
    ("texts", "marks", "wanted"),
    [
        (["+6.3", "-2.1", "0.0", "+11.2"], "+", {3.14: "+3.1", -3.14: "-3.1", 0.01: "0.0"}),
        ([".63", "-.25", "1.50", ".00"], ".", {0.501: ".50", -0.501: "-.50", 2.0: "2.00", 0.0: ".00"}),
        (["+.5", "-.25", "+1.5"], "+.", {0.75: "+.75", -0.75: "-.75"}),
        (["+.25", "+.50", "+1.50"], "+.", {0.75: "+.75"}),
        (["0.63", ".25", "0.5"], "", {0.25: "0.25"}),
        (["6.3", "+2.1", "3.3"], "", {2.5: "2.5"}),
        (["+6", "+0", "-2", "+0", "0", "+11"], "+0", {3: "+3", -3: "-3", 0: "+0"}),
        (["+6.5", "+0.0", "-2.0", "0.0", "0.0", "+11.0"], "+", {3: "+3.0", 0.01: "0.0"}),
        (["+.5", "-.25", "+1.5", "+.0"], "+0.", {0.75: "+.75", 0.0: "+.0"}),
        (["+1.5E+03", "+2.5E-03", "-1.0E+01"], "+", {0.02: "+2.0E-02"}),
    ],
)
def test_fills_have_the_signs_and_zeros_of_the_column(texts: list[str], marks: str, wanted: dict[float, str]) -> None:
    column = infer_schema(from_text("y\n" + "\n".join(texts) + "\n"), bounds={"y": "none"})[0].encoded[0]
    assert isinstance(column, Number) and column.marks == marks
    for value, text in wanted.items():
        assert column.spell(column.written(column.snap(np.array([value]))), None) == [text]


def over_decades(text: str, n: int = 300) -> list[str]:
    """Texts of log-normal values, the lowest quarter at a limit of detection of `text`."""
    values = np.exp(np.random.default_rng(0).normal(1, 2.5, n))
    return [text if value < float(text) else f"{value:.15g}" for value in values]


def test_values_that_pile_up_are_seen_over_decades_too() -> None:
    table = from_text("y,x\n" + "".join(f"{cell},{i % 7}\n" for i, cell in enumerate(over_decades("0.5"))))
    column = schema_alone(table, Said(encoding=Encoding("normal", "room"))).encoded[0]
    assert isinstance(column, Number) and [spike.value for spike in column.spikes] == [0.5]
    split = schema_alone(table, Said(encoding=Encoding("normal", "split"))).encoded[0]
    assert isinstance(split, Number) and split.pile == 0.5
    assert column.deviation == pytest.approx(np.std([float(cell) for cell in over_decades("0.5")]))


@pytest.mark.parametrize("transform", ["normal", "linear"])
def test_pairs_along_a_line_are_not_torn_apart_by_logarithms(transform: Transform) -> None:
    rng = np.random.default_rng(0)
    a = np.exp(rng.normal(3, 2, 300))
    b = np.abs(a + 0.005 * a.std() * rng.normal(size=300)) + 1e-3
    table = from_text(
        "a,b,c\n" + "".join(f"{x:.15g},{y:.15g},{z:.15g}\n" for x, y, z in zip(a, b, a[::-1], strict=True))
    )
    columns = schema_alone(table, Said(encoding=Encoding(transform))).encoded
    assert [column.scale.logs is None for column in columns if isinstance(column, Number)] == [True, True, False]
    assert columns[2].deviation == pytest.approx(a.std())  # of the values, not of their logarithms


def test_a_fill_with_a_power_of_ten_is_no_missing_token(tmp_path: Path) -> None:
    """`1.0E-03` means missing, and 0.00102 would be written so."""
    rng = np.random.default_rng(4)
    cells = [f"{10**z:.1E}" if rng.random() > 0.3 else "" for z in rng.normal(-3, 0.4, 200)]
    text = "y,x\n" + "".join(f"{cell},{z:.2f}\n" for cell, z in zip(cells, rng.normal(size=200), strict=True))
    (tmp_path / "t.csv").write_text(text)
    given: dict[str, Any] = {"columns": {"y": "numeric"}, "na_values": ["y=0.001"], "threads": 1}
    run = vgi_cli.fit(tmp_path / "t.csv", model="mixture", set={"bootstrap": "none", "model.components": 1}, **given)
    run.impute(m=5, out=tmp_path / "o.csv")
    for draw in range(1, 6):
        filled = [line.split(",")[0] for line in (tmp_path / f"o.{draw}.csv").read_text().splitlines()[1:]]
        fills = [new for old, new in zip(cells, filled, strict=True) if old == ""]
        assert "1.0E-03" not in fills and all(len(fill) == 7 and fill[3:5] == "E-" for fill in fills)


def test_a_few_more_decimals_say_nothing_of_the_others() -> None:
    """But where numbers have them since they are small, or where they are more than a few."""
    rng = np.random.default_rng(0)

    def decimals(cells: list[str]) -> int:
        (column,) = infer_schema(from_text("x\n" + "\n".join(cells) + "\n"))[0].encoded
        assert isinstance(column, Number) and column.lattice is not None
        return column.lattice.decimals

    cells = [f"{value:.1f}" for value in rng.uniform(20, 90, 400)]
    assert decimals([*cells, "81.23", "0.657"]) == 1  # a slip, and a share among percentages
    assert decimals([*cells, *[f"{value:.2f}" for value in rng.uniform(20, 90, 10)]]) == 2
    assert decimals([*[f"{value:.1f}" for value in rng.uniform(1, 90, 400)], "0.57", "0.83"]) == 2
