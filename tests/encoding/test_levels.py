"""Which columns are taken for levels where nobody says what they are, and what is said of those that are not."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from tests.table.helpers import from_text
from vgi_cli.columns.base import Encoding
from vgi_cli.columns.levelled import Levelled
from vgi_cli.columns.schema import Schema
from vgi_cli.encoding.infer import infer_schema
from vgi_cli.errors import InputError
from vgi_cli.table.frames import from_frame

RNG = np.random.default_rng(0)


def inferred(cells: list[object], **options: object) -> tuple[Schema, list[str]]:
    text = "x,y\n" + "".join(f"{cell},{i}.5\n" for i, cell in enumerate(cells))
    return infer_schema(from_text(text), **options)  # type: ignore[arg-type]


def names(count: int, cells: int) -> list[object]:
    return [f"n{i % count:04d}" for i in range(cells)]


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (["f", "m", "m", "f", "m"], "categorical"),  # five rows; not t and f
        (["Adelie", "Gentoo", "Chinstrap"] * 10, "categorical"),
        (names(50, 250), "categorical"),
        (names(51, 1000), "carried"),
        (names(10, 49), "carried"),
        (["a", "b", "c"], "carried"),
        (["yes", "No", "yes"], "boolean"),
        (["Y", "N", ""], "boolean"),
        (["TRUE", "false", "true", "TRUE"], "boolean"),
        ([0, 1, 1, 0, ""], "boolean"),
        (["1.0", "0.0", "1.0", "1.0"], "boolean"),
        ([1, 2] * 5, "categorical"),
        (["0.5", "1.5"] * 5, "categorical"),
        ([1, 2, 2], "integer"),  # two values of three cells
        ([1, 7, 13, 99] * 8, "categorical"),
        ([3, 4, 5, 6, 8] * 20, "integer"),
        ([0, 500, 1000, 3000, 3500] * 8, "integer"),  # in units of 500 most values between the ends occur
        (["0.5", "1.5", "9.5"] * 8, "numeric"),
        ([1, 2, 3, 4, 5] * 8, "integer"),
        ([7] * 8, "constant"),
        (["x"] * 8, "constant-level"),
        (["x", "", "", ""], "carried"),
        (["Not sampled today.", "Nest was empty.", "", ""] * 10, "carried"),
        (["Adelie Penguin (Pygoscelis adeliae)", "Gentoo penguin"] * 10, "categorical"),
        (["02139", "10001", "94105", "02139", "10001"] * 4, "categorical"),
        ([f"{i:05d}" for i in RNG.integers(0, 99999, 200)], "carried"),
        (["10001", "10002"] * 20 + ["02139"], "categorical"),  # nearly all could be numbers
        (["1", "2", "3", "a"] * 10, "categorical"),
        (["3.5", "12", "?", "8.25", "9", "n"] + [f"{i}x" for i in range(20)], "carried"),
    ],
)
def test_what_a_column_is_taken_for(cells: list[object], kind: str) -> None:
    schema, _ = inferred(cells)
    assert schema.columns[0].kind == kind
    assert Schema.from_json(schema.to_json()) == schema


def test_types_of_a_file() -> None:
    n = 12
    table = pa.table(
        {
            "bool": [True, False, None] * 4,
            "true": [True, None] * 6,
            "text": ["a", "b", "c"] * 4,
            "digits": ["1", "2", "3"] * 4,
            "dictionary": pa.array([5, 6, 7] * 4).dictionary_encode(),
            "scale": pa.DictionaryArray.from_arrays([0, 1] * 6, ["low", "high", "top"], ordered=True),
            "codes": pa.array([0, 1] * 6, pa.int8()),
            "list": [[1], [2]] * 6,
            "binary": [b"a", b"b"] * 6,
            "y": [i + 0.5 for i in range(n)],
        }
    )
    schema, notes = infer_schema(from_frame(table))
    expected = ["boolean", "constant-level", "categorical", "categorical", "categorical", "ordinal", "boolean"]
    assert [column.kind for column in schema.columns] == [*expected, "carried", "carried", "numeric"]
    scale = schema.columns[5]
    assert isinstance(scale, Levelled) and scale.levels == ("low", "high", "top")
    assert "column 'digits' is taken for categories: all its cells are numbers (`--column digits=numeric`)" in notes


def test_whoever_limits_the_numbers_of_a_column_means_numbers() -> None:
    cells: list[object] = [0, 1] * 20
    assert inferred(cells, bounds={"x": "0:10"})[0].columns[0].kind == "integer"
    assert inferred(cells, unbounded=["x"])[0].columns[0].kind == "integer"
    assert inferred(cells, unbounded=["all"])[0].columns[0].kind == "boolean"
    assert inferred(cells, encoding=Encoding("none"))[0].columns[0].kind == "integer"
    assert inferred(cells, kinds={"x": "integer"})[0].columns[0].kind == "integer"
    with pytest.raises(InputError, match="holds an infinity"):
        inferred(["inf", 1] * 20)


def test_what_is_carried_is_said_with_its_limit_and_the_flag() -> None:
    _, notes = inferred(names(60, 1000))
    line = "column 'x' is carried: text of 60 levels, more than 50 (`--column x=categorical` models it)"
    assert line in notes
    for cells in (names(300, 1000), [*names(60, 1000), "once"]):
        line = (
            f"column 'x' is carried: text of {len(set(cells))} levels, more than 50 (`--column x=categorical` models it"
        )
        assert f"{line} with rare levels pooled)" in inferred(cells)[1]
    _, notes = inferred(names(10, 40))
    line = "column 'x' is carried: text of 10 levels, more than a fifth of its 40 cells (`--column x=categorical` "
    assert f"{line}models it)" in notes
    _, notes = inferred([*names(60, 1000), "", ""])
    line = "column 'x' is carried: text of 60 levels, more than 50 (`--column x=categorical` models it, and fills its "
    assert f"{line}2 holes, which stay otherwise)" in notes
    assert not any("levels" in note for note in inferred(["a", "b"] * 10)[1])
    _, notes = inferred(["Not sampled today.", "Nest was empty.", ""] * 10)
    assert "column 'x' is carried: free text (`--column x=categorical` models it all the same)" in notes


def test_levels_that_may_mean_missing_are_named() -> None:
    _, notes = inferred(["a", "b", "?"] * 10)
    assert "'?' (10 cells) is a level of column 'x': `--na-values 'x=?'` if it means missing" in notes
    for word in ("na", "NAN", "none"):  # n/a, NA, NaN and None are missing by themselves
        _, notes = inferred(["a", "b", word] * 10)
        assert f"'{word}' (10 cells) is a level of column 'x': `--na-values x={word}` if it means missing" in notes
    _, notes = inferred(["a", "b", "?", "refused", "unknown"] * 8)
    assert (
        "'?' (8 cells), 'refused' (8 cells), 'unknown' (8 cells) are levels of column 'x': `--na-values '?' "
        "--na-values x=refused --na-values x=unknown` if they mean missing"
    ) in notes
    _, notes = inferred([1, 7, 13, 99] * 8)
    assert "'99' (8 cells) is a level of column 'x': `--na-values x=99` if it means missing" in notes


def test_scales_are_suggested() -> None:
    line = (
        "column 'x' of few whole numbers is modelled as a quantity, as suits a scale of even steps: "
        "`--column x=ordinal` if the steps are uneven, `--column x=categorical` if it holds codes"
    )
    assert line in inferred([1, 2, 3, 4, 5] * 8)[1]
    assert not any("scale" in note for note in inferred([1, 2, 3, 4, 5] * 8, kinds={"x": "integer"})[1])
    assert not any("scale" in note for note in inferred(list(range(40)))[1])
    assert not any("scale" in note for note in inferred([0, 1] * 8)[1])


def test_counts_of_something_rare_are_no_scale() -> None:
    """Mostly 0, and the larger the fewer; answers that are spread otherwise are a scale."""
    species = np.repeat([0, 1, 2, 3, 4, 6], [110, 35, 15, 6, 2, 3]).tolist()
    assert not any("scale" in note for note in inferred(species)[1])
    for counts in ([30, 40, 50, 30, 20], [60, 5, 20, 5, 60], [70, 2, 3, 20, 20]):
        answers = np.repeat([0, 1, 2, 3, 4], counts).tolist()
        assert any("as suits a scale of even steps" in note for note in inferred(answers)[1])


def test_years_are_no_scale() -> None:
    years = [2014 + i % 5 for i in range(40)]

    def scale(name: str, cells: list[int]) -> bool:
        text = f"{name},y\n" + "".join(f"{cell},{i}.5\n" for i, cell in enumerate(cells))
        return any("as suits a scale of even steps" in note for note in infer_schema(from_text(text))[1])

    assert not scale("year", years) and not scale("Birth_Year", years)
    assert scale("level", years) and scale("year", [1 + i % 5 for i in range(40)])
