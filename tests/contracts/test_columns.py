"""What every kind of column promises (columns/base.py): those of KINDS, and one from outside the package."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.table.helpers import from_text, write_imputed
from tests.test_extending import EXAMPLES as PLUGINS
from vgi_cli.columns.base import Column, ConstantColumn, Encoding, ModelledColumn, Transform
from vgi_cli.columns.datetime import Moment
from vgi_cli.columns.number import Number
from vgi_cli.columns.numerals import Floats
from vgi_cli.columns.schema import Schema, kind_of
from vgi_cli.encoding.check import check
from vgi_cli.encoding.encoder import box, decode, encode, log_volume
from vgi_cli.encoding.infer import infer_schema
from vgi_cli.errors import InputError
from vgi_cli.evaluation.imputation import number_scores, score_imputations
from vgi_cli.registry.names import KINDS
from vgi_cli.registry.plugins import plugged
from vgi_cli.settings.recipe import TableSettings
from vgi_cli.table.base import Table
from vgi_cli.table.csv.text import quote_if_needed
from vgi_cli.table.fills import avoid_codes

RNG = np.random.default_rng(0)
EXAMPLES: dict[str, list[str]] = {
    "whole": [str(v) for v in RNG.poisson(30, 80)],
    "rounded": [f"{v:.1f}" for v in RNG.normal(5, 2, 80)],
    "real": [repr(v) for v in RNG.normal(size=80).tolist()],
    "positive": [repr(v) for v in RNG.lognormal(size=80).tolist()],
    "spike": [f"{max(v, 0.0):.2f}" for v in RNG.normal(0.3, 1, 200)],
    "bounded": [f"{v:.1f}" for v in RNG.uniform(20, 90, 80)],
    "zero-inflated": [f"{max(v, 0.0):.3f}" for v in RNG.normal(1, 1, 80)],
    "levels": [str(v) for v in RNG.choice([3, 4, 5, 8], 80)],
    "one": ["2.50"] * 20,
    "nothing": [""] * 20,
    "text": [f"remark {i}" for i in range(20)],
    "category": [str(v) for v in RNG.choice(["low", "mid", "high, or more"], 80)],
    "codes": [str(v) for v in RNG.choice([1, 7, 13, 99], 80)],
    "scale": [str(v) for v in RNG.choice(["low", "mid", "high"], 80)],
    "truth": [str(v) for v in RNG.choice(["Yes", "No"], 80)],
    "many": [f"n{int(v)}" for v in np.concatenate([np.arange(60), RNG.integers(0, 9, 40)])],
    "same": ["same"] * 20,
    "date": [str(v) for v in np.datetime64("2020-01-01") + RNG.integers(0, 900, 80)],
    "datetime": [f"{v}:00Z" for v in np.datetime64("2020-01-01T00:00") + RNG.integers(0, 900_000, 80)],
    "time": [f"{v // 60:02d}.{v % 60:02d}.00" for v in RNG.integers(0, 1440, 80)],
    "duration": [f"{v // 3600}:{v // 60 % 60:02d}:{v % 60:02d}.5" for v in RNG.integers(0, 200_000, 80)],
    "one date": ["31/12/2020"] * 20,
    "colour": [f"#{v:06x}" for v in RNG.integers(0, 0xFFFFFF, 80)],
}
ASKED = {
    "bounded": "bounded:0:100",
    "zero-inflated": "zero-inflated",
    "many": "categorical",
    "scale": "ordinal:low,mid,high,highest",
}
"""What is said of a column that would be taken for something else."""
MODELLED = [name for name in EXAMPLES if name not in ("one", "one date", "nothing", "text", "same")]
TRANSFORMS: list[Transform] = ["linear", "normal"]


@pytest.fixture(autouse=True)
def colour(tmp_path: Path) -> Iterator[None]:
    """The plugin of docs/extending.md."""
    (tmp_path / "colour.py").write_text(PLUGINS["colour"])
    with plugged([] if "colour" in KINDS else [tmp_path / "colour.py"]):
        yield


def table(name: str, holes: int = 1) -> Table:
    """A column `x` of that example, the last cells of it missing, beside a column of numbers."""
    cells = EXAMPLES[name][:-holes] + [""] * holes
    return from_text("x,y\n" + "".join(f"{quote_if_needed(cell, ',')},{i}.5\n" for i, cell in enumerate(cells)))


def fitted(name: str, transform: Transform = "linear") -> tuple[Table, Schema, Column]:
    rows = table(name)
    kinds = {"x": ASKED[name]} if name in ASKED else None
    schema = infer_schema(rows, kinds=kinds, encoding=Encoding(transform))[0]
    return rows, schema, schema.columns[0]


def modelled(name: str, transform: Transform = "linear") -> tuple[Table, Schema, ModelledColumn]:
    rows, schema, column = fitted(name, transform)
    assert isinstance(column, ModelledColumn)
    return rows, schema, column


def observed(column: ModelledColumn, rows: Table) -> Floats:
    codes = column.codes(rows.column("x"))
    assert np.isnan(codes[-1]) and np.isfinite(codes[:-1]).all()  # NaN where it is missing
    return codes[:-1]


def test_every_kind_has_an_example() -> None:
    assert {fitted(name)[2].kind for name in EXAMPLES} == set(KINDS)


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_json_form_is_exact(name: str) -> None:
    _, schema, column = fitted(name)
    assert kind_of(column.kind) is type(column)
    assert Schema.from_json(schema.to_json()) == schema


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("name", MODELLED)
def test_observed_cells_are_decoded_exactly_wherever_in_their_cell_they_lie(name: str, transform: Transform) -> None:
    rows, _, column = modelled(name, transform)
    codes = observed(column, rows)
    box = column.box()
    assert box.shape == (2, column.width) and (box[0] < box[1]).all()
    for u in (0.0, 0.3, 1.0) if column.noisy else (None,):
        z = column.encode(codes, None if u is None else np.full((len(codes), column.width), u))
        assert z.shape == (len(codes), column.width) and np.isfinite(z).all()
        assert ((z >= box[0]) & (z <= box[1])).all()
        back = column.decode(z)
        if column.pooled:  # levels that share an encoded value decode as one of them
            back, codes = column.unpool(back, np.zeros(len(back))), np.minimum(codes, column.level_counts[0] - 1)
        np.testing.assert_allclose(back, codes, rtol=1e-12 if not column.noisy else 0)
        assert column.decode(z[None].repeat(2, 0)).shape == (2, len(codes))


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("name", MODELLED)
def test_the_volume_is_that_of_a_cell(name: str, transform: Transform) -> None:
    """The derivative of the encoded cell: by where in its cell it lies, else by the number. A level has none."""
    rows, _, column = modelled(name, transform)
    if all(column.level_counts):
        assert not column.log_volume(column.encode(observed(column, rows), None)).any()
        return
    codes, h = observed(column, rows)[:40], 1e-5
    half = np.full((len(codes), column.width), 0.5)
    if column.noisy:
        middle, slope = column.encode(codes, half), column.encode(codes, half + h) - column.encode(codes, half - h)
    else:
        assert column.width == 1
        middle, slope = column.encode(codes, None), column.encode(codes + h, None) - column.encode(codes - h, None)
    numerical = np.log(np.abs(slope / (2 * h))).sum(1)
    np.testing.assert_allclose(column.log_volume(middle), numerical, atol=1e-3)


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("name", MODELLED)
def test_what_the_box_admits_is_a_cell_that_reads_back(name: str, transform: Transform) -> None:
    """Also where float32 has rounded it."""
    _, _, column = modelled(name, transform)
    low, high = np.clip(column.box(), -6, 6)
    z = np.stack([low, high, *RNG.uniform(low, high, (200, column.width))])
    codes = column.decode(np.concatenate([z, z.astype(np.float32).astype(np.float64)]))
    assert np.array_equal(column.snap(codes), codes)
    cells = column.spell(codes, None)
    text = "x\n" + "\n".join(quote_if_needed(cell, ",") for cell in cells) + "\n"
    back = column.codes(from_text(text).column("x"))
    np.testing.assert_allclose(back, codes, rtol=0 if column.noisy else 10.0 ** (1 - getattr(column, "digits", 17)))


@pytest.mark.parametrize("name", MODELLED)
def test_point_estimates_and_neighbours_are_cells(name: str) -> None:
    rows, _, column = modelled(name)
    codes = observed(column, rows)
    draws = np.stack([codes, codes[::-1], np.roll(codes, 1)])
    for how in ("mean", "median"):
        point = column.point(draws, how)  # type: ignore[arg-type]
        assert point.shape == codes.shape and np.array_equal(column.snap(point), point)
        assert np.array_equal(column.point(codes[None], how), codes)  # type: ignore[arg-type]
        assert np.array_equal(column.point(draws[:, :1], how), point[:1])  # type: ignore[arg-type]
    token = codes[3]
    beside = column.beside(codes[codes == token], lambda values: values == token)
    assert (beside != token).all() and np.array_equal(column.snap(beside), beside)


@pytest.mark.parametrize("name", MODELLED)
def test_the_truth_scores_best(name: str) -> None:
    rows, _, column = modelled(name)
    codes = observed(column, rows)
    right = column.scores(np.stack([codes] * 19), codes, number_scores)
    wrong = column.scores(np.stack([codes[::-1]] * 19), codes, number_scores)
    assert not {"cells", "sd"} & set(right)
    assert set(right) == set(wrong) and any(right[key] != wrong[key] for key in right)
    assert column.deviation > 0 and np.isfinite(column.unit)


@pytest.mark.parametrize("name", MODELLED)
def test_a_new_table_is_checked(name: str) -> None:
    rows, schema, column = modelled(name)
    assert not any(finding.which.any() for finding in column.findings(rows.column("x")))
    check(rows, schema)
    with pytest.raises(InputError, match=r"column 'x' .*'\?' in row 2"):
        check(from_text(f"x,y\n{quote_if_needed(EXAMPLES[name][0], ',')},1\n?,2\n"), schema)


@pytest.mark.parametrize("name", MODELLED)
def test_tables_are_encoded_filled_and_scored(name: str) -> None:
    rows, schema, column = modelled(name)
    (x, missing, layout, *_), _ = encode(rows, schema, seed=0)
    assert layout == schema.layout and layout.widths == (column.width, 1)
    assert missing[-1].tolist() == [True] * column.width + [False] and not bool(missing[:-1].any())
    assert log_volume(missing, x, schema).isfinite().all() and box(schema).low.shape == (layout.d,)
    draws = decode(x[None].expand(19, -1, -1), schema)
    draws[:, -1, 0] = observed(column, rows)[0]
    assert avoid_codes(draws, rows, schema) == {}
    sink = io.BytesIO()
    write_imputed(rows, schema, draws[:1], layout="single", out=sink)
    filled = from_text(sink.getvalue().decode())
    codes = column.codes(filled.column("x"))
    np.testing.assert_allclose(codes[:-1], observed(column, rows), rtol=0)
    np.testing.assert_allclose(codes[-1], codes[0], rtol=1e-4)
    truth = torch.from_numpy(decode(x, schema))
    truth[-1, 0] = float(codes[0])
    hidden = torch.from_numpy(rows.column("x").missing)[:, None] & torch.tensor([True, False])
    scores = score_imputations(torch.from_numpy(draws), truth, hidden, schema.encoded, torch.ones(2))
    assert scores is not None and set(scores.columns) == {"x"} and scores.columns["x"]["cells"] == 1
    assert ("crps" in scores.overall) == isinstance(column, Number | Moment)


def test_a_constant_is_spelled_as_it_was() -> None:
    rows, _, column = fitted("one")
    assert isinstance(column, ConstantColumn)
    assert column.spell(np.array([column.code]), None) == ["2.50"]
    assert rows.N == 20


@pytest.mark.parametrize("name", ["nothing", "text", "one", "one date", "same"])
def test_other_columns_take_no_dimension(name: str) -> None:
    _, schema, _ = fitted(name)
    assert schema.modelled == ("y",) and schema.layout.d == 1


def test_a_kind_is_asked_for_by_its_words() -> None:
    rows = table("colour")
    assert infer_schema(rows, kinds={"x": "colour"})[0].columns[0].kind == "colour"
    assert infer_schema(rows, kinds={"x": "carry"})[0].columns[0].kind == "carried"
    assert TableSettings(columns={"x": "colour"}).columns == {"x": "colour"}
    with pytest.raises(InputError, match="--column x=colour, but its cells are none of that kind"):
        infer_schema(table("text"), kinds={"x": "colour"})
