"""Few whole numbers with gaps: found, numbered, read back as themselves, drawn as often as they occur."""

from __future__ import annotations

import io

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.selection import first
from tests.table.helpers import from_text, write_imputed
from vgi_cli.columns.base import Encoding
from vgi_cli.columns.lattice import find_levels, levels_at, mostly_gaps, numbers_of
from vgi_cli.columns.number import Number
from vgi_cli.columns.schema import Schema
from vgi_cli.encoding.encoder import box, decode, encode, log_scale, log_volume
from vgi_cli.encoding.infer import Said, infer_schema, schema_alone
from vgi_cli.table.base import Table
from vgi_cli.table.reader import read_table

RNG = np.random.default_rng(0)
CODES = (1.0, 2.0, 3.0, 6.0)


def table_of(values: object, seed: int = 0) -> Table:
    """A column beside one that varies; a fifth of its cells missing."""
    cells = np.random.default_rng(seed).permutation(np.asarray(values))
    gone = np.random.default_rng(seed + 1).random(len(cells)) < 0.2
    rows = [f"{'' if hole else f'{cell:g}'},{i}.5" for i, (cell, hole) in enumerate(zip(cells, gone, strict=True))]
    return from_text("x,y\n" + "\n".join(rows) + "\n")


@pytest.mark.parametrize(
    ("values", "levels"),
    [
        (np.repeat([1, 2, 3, 6], [9, 8, 7, 8]), CODES),
        (np.repeat([3, 4, 5, 6, 8], [4, 199, 3, 83, 103]), (3, 4, 5, 6, 8)),  # one gap is enough
        (np.repeat([0, 5, 10, 20, 40], 30), (0, 5, 10, 20, 40)),
        (np.repeat([3, 4, 6], 5), (3, 4, 6)),
        (np.repeat([3, 4, 6], 4), ()),  # four cells of 5, and there was none by chance?
        (np.repeat([10, 20, 30], 30), ()),  # multiples of ten have no gap
        (np.repeat([-6, -3, 0, 3], 30), ()),
        (np.repeat(np.arange(1, 6), 30), ()),
        ([0] * 40 + [1] * 25 + [2] * 12 + [3] * 6 + [5, 5, 8, 14], ()),  # the tail of a count
        (np.repeat([0, 1, 2, 3, 4, 6, 7], [60, 40, 20, 9, 5, 2, 1]), ()),
        (np.repeat([1, 2, 3, 6], [9, 8, 7, 2]), ()),  # 6 may be anything
        (np.repeat(np.arange(13) ** 2, 9), ()),  # too many
        (RNG.integers(0, 1000, 300), ()),
    ],
)
def test_what_has_levels(values: object, levels: tuple[float, ...]) -> None:
    cells = np.asarray(values)
    table = from_text("x,y\n" + "\n".join(f"{cell},{i}.5" for i, cell in enumerate(cells.tolist())) + "\n")
    schema, notes = infer_schema(table)
    assert schema.encoded[0].levels == levels
    assert any("holds only" in note for note in notes) == bool(levels)


def test_they_are_named() -> None:
    notes = infer_schema(table_of(np.repeat([3, 4, 5, 6, 8], 20)))[1]
    line = "column 'x' holds only 3, 4, 5, 6, 8: filled with these values; `--column x=integer` to allow those between"
    assert line in notes
    assert mostly_gaps((0, 1, 99), 1.0) and not mostly_gaps((3, 4, 5, 6, 8), 1.0)


@pytest.mark.parametrize(
    "options",
    [{"kinds": {"x": "integer"}}, {"bounds": {"x": "0:100"}}, {"unbounded": ["x"]}, {"encoding": Encoding("none")}],
)
def test_whoever_says_that_other_values_are_possible_gets_them(options: dict[str, object]) -> None:
    schema, notes = infer_schema(table_of(np.repeat([1, 2, 3, 6], 20)), **options)  # type: ignore[arg-type]
    assert schema.encoded[0].levels == () and not any("holds only" in note for note in notes)


@pytest.mark.parametrize("options", [{"bounds": {"x": "observed"}}, {"unbounded": ["all"]}])
def test_what_is_said_of_ranges_does_not_concern_them(options: dict[str, object]) -> None:
    schema, _ = infer_schema(table_of(np.repeat([1, 2, 3, 6], 20)), **options)  # type: ignore[arg-type]
    x = schema.encoded[0]
    assert x.levels == CODES and x.ends == (1, 6) and {bound.why for bound in x.bounds} == {"levels"}


@pytest.mark.parametrize("transform", ["linear", "normal"])
def test_they_are_read_back_as_themselves(transform: str) -> None:
    table = table_of(np.repeat([1, 2, 3, 6], [80, 60, 40, 20]))
    schema = schema_alone(table, Said(encoding=Encoding(transform)))  # type: ignore[arg-type]
    x = schema.encoded[0]
    assert schema == Schema.from_json(schema.to_json())
    encoded, missing = (tensor[:, 0].numpy() for tensor in encode(table, schema, seed=1).table[:2])
    low, high = (side[0] for side in box(schema))
    back = decode(torch.from_numpy(np.stack([encoded, np.zeros_like(encoded)], 1)), schema)[:, 0]
    assert (back[~missing] == table.numeric("x")[~missing]).all()
    assert ((encoded[~missing] >= float(low)) & (encoded[~missing] <= float(high))).all()
    ends = torch.stack([low, low + (high - low) / 3, high])
    for z in (ends, ends.to(torch.float32).double()):
        assert set(decode(torch.stack([z, z], 1), schema)[:, 0]) <= set(CODES)
    assert decode(torch.stack([ends, ends], 1), schema)[[0, 2], 0].tolist() == [1, 6]
    assert x.snap(np.array([-5.0, 1.4, 1.6, 4.4, 4.6, 1000.0])).tolist() == [1, 1, 2, 3, 6, 6]
    assert x.deviation == pytest.approx(np.nanstd(table.numeric("x")))


def test_under_a_normal_law_of_the_encoded_column_they_come_as_often_as_they_are() -> None:
    values = np.repeat([1, 2, 3, 6], [400, 300, 200, 100])
    schema = schema_alone(table_of(values), Said(encoding=Encoding("normal")))
    z = torch.randn(20000, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    fills = decode(z.clamp(*box(schema)), schema)[:, 0]
    for level, share in zip(CODES, (0.4, 0.3, 0.2, 0.1), strict=True):
        assert (fills == level).mean() == pytest.approx(share, abs=0.012)


@pytest.mark.parametrize("transform", first(1, ["linear", "normal"]))
def test_their_probabilities_sum_to_one(transform: str) -> None:
    schema = schema_alone(table_of(np.repeat([1, 2, 3, 6], [80, 60, 40, 20])), Said(encoding=Encoding(transform)))  # type: ignore[arg-type]
    every = from_text("x,y\n" + "\n".join(f"{level:g}," for level in CODES) + "\n")
    total = []
    for draw in range(400):
        (x, missing, *_), _ = encode(every, schema, seed=2, draw=draw)
        density = -0.5 * (x[:, 0].square() + np.log(2 * np.pi))
        total.append(float((density + log_volume(missing, x, schema)).exp().sum()))
    inside = torch.distributions.Normal(0.0, 1.0).cdf(torch.stack([side[0] for side in box(schema)])).diff()
    assert np.mean(total) == pytest.approx(float(inside), rel=0.03)
    sd = schema.encoded[0].deviation
    assert float(log_scale(schema)[0]) == pytest.approx(np.log(sd))  # a spacing of 1


def test_what_is_no_level_counts_as_the_nearest() -> None:
    assert numbers_of(np.array([-9.0, 1, 1.6, 2.4, 4.4, 4.6, 500]), CODES).tolist() == [0, 0, 1, 1, 2, 3, 3]
    assert levels_at(np.array([-0.6, 0.4, 0.6, 3.4, 9.0]), CODES).tolist() == [1, 1, 2, 6, 6]


whole = st.lists(st.integers(-300, 300), min_size=2, max_size=8, unique=True)


@settings(max_examples=10)
@given(
    whole,
    st.lists(st.integers(3, 12), min_size=8, max_size=8),
    st.sampled_from(["linear", "normal"]),
    st.integers(0, 99),
)
def test_filled_tables_hold_levels_within_bounds_and_what_was_observed(
    levels: list[int], counts: list[int], transform: str, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    codes = rng.permutation(np.repeat(levels, counts[: len(levels)]))
    n = len(codes)
    columns = [
        [f"{v}" for v in codes],
        [f"{v:.2f}" for v in rng.lognormal(size=n)],
        [f"{max(v, 0):.1f}" for v in rng.normal(size=n)],
    ]
    gone = rng.random((n, 3)) < 0.25
    gone[:2] = False
    lines = [
        ",".join("" if g else c for g, c in zip(*row, strict=True))
        for row in zip(gone, zip(*columns, strict=True), strict=True)
    ]
    table = from_text("code,price,rain\n" + "\n".join(lines) + "\n")
    schema = schema_alone(table, Said(encoding=Encoding(transform)))  # type: ignore[arg-type]
    names = schema.modelled
    low, high = (side.nan_to_num(0, 6, -6) for side in box(schema))
    z = torch.from_numpy(rng.normal(size=(n, len(names)))).clamp(low, high)
    out = io.BytesIO()
    write_imputed(table, schema, decode(z, schema)[None], layout="single", out=out)
    back = read_table(["-"], stdin=io.BytesIO(out.getvalue()))
    for column in schema.encoded:
        if not isinstance(column, Number):
            continue
        before, after, holes = table.numeric(column.name), back.numeric(column.name), table.missing(column.name)
        assert (table.raw_text(column.name)[~holes] == back.raw_text(column.name)[~holes]).all()
        assert ((after[holes] >= column.ends[0]) & (after[holes] <= column.ends[1])).all()
        if column.levels:
            assert set(after[holes]) <= set(before[~holes]) == set(column.levels)
    assert (back.numeric("price") > 0).all() and (back.numeric("rain") >= 0).all()


def test_the_rule_of_the_tail_errs_towards_a_count() -> None:
    """Of 200 columns of counts hardly one is taken for codes: their gaps are beside values that occur once or twice."""
    wrong = 0
    for seed in range(200):
        rng = np.random.default_rng(seed)
        counts = rng.negative_binomial(1, 0.4, 100) if seed % 2 else rng.poisson(rng.gamma(0.7, 2.0, 300))
        wrong += bool(find_levels(counts.astype(float), 1.0))
    assert wrong <= 2
