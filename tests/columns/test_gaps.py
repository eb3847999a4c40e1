"""Gaps between values that occur again and again: found where values are lacking, and no fill lies in them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.columns.test_levels import table_of
from tests.table.helpers import from_text
from vgi_cli.columns.base import Encoding
from vgi_cli.columns.datetime import Moment
from vgi_cli.columns.lattice import MOST_GAPS, find_gaps, off_gaps
from vgi_cli.columns.limits import bound_lines
from vgi_cli.columns.number import Number
from vgi_cli.columns.schema import Schema
from vgi_cli.encoding.encoder import box, decode, encode
from vgi_cli.encoding.infer import Said, infer_schema, schema_alone

RNG = np.random.default_rng(0)
GAUGE = np.array([0.0, 0.0896, 0.1045, 0.1343, *np.round(0.16 + 0.0298 * np.arange(16), 4)])
"""What a wind gauge reads: the first three gaps are of different widths."""


@pytest.mark.parametrize(
    ("values", "resolution", "gaps"),
    [
        (np.repeat(GAUGE[:4], 5), 0.0001, ((0.0, 0.0896), (0.0896, 0.1045), (0.1045, 0.1343))),
        (np.repeat([1, 2, 4], [9, 13, 13]), 1.0, ((2.0, 4.0),)),
        (np.repeat([1, 2, 4], [9, 9, 11]), 1.0, ()),  # some seven cells of 3, and there was none by chance?
        (np.repeat([1, 2, 40], [9, 2, 6]), 1.0, ()),  # 2 is rare: what lies beside it may be too
        (np.repeat([1, 2, 15], [9, 3, 3]), 1.0, ((2.0, 15.0),)),  # three at each of two values
        ([0] * 40 + [1] * 25 + [2] * 12 + [3] * 6 + [5, 5, 8, 14], 1.0, ()),  # the tail of a count
        (np.repeat([10, 20, 30], 30), 10.0, ()),  # the spacing of a column is no gap
        (RNG.standard_normal(500).round(6), 1e-6, ()),
        (np.repeat([0.3, 0.1 + 0.2, 0.5], [3, 9, 9]), 1e-4, ((0.1 + 0.2, 0.5),)),  # one value, as it is spelled most
        ([4.0], 1.0, ()),
    ],
)
def test_where_values_are_lacking(values: object, resolution: float, gaps: tuple[tuple[float, float], ...]) -> None:
    assert find_gaps(np.asarray(values, float), resolution) == gaps


def test_few_are_there_by_chance() -> None:
    """In columns of cells that may take any of 300 values, all alike or more of those in the middle."""
    rng = np.random.default_rng(2)
    for n in (200, 2000):
        for _ in range(20):
            assert find_gaps(rng.integers(0, 300, n).astype(float), 1.0) == ()
            assert len(find_gaps(rng.normal(0, 40, n).round(), 1.0)) <= 1


def test_too_many_are_none() -> None:
    every = np.repeat(np.arange(MOST_GAPS + 1) * 100.0, 5)
    assert len(find_gaps(every, 1.0)) == MOST_GAPS and find_gaps(np.append(every, [1e6] * 5), 1.0) == ()


@given(
    st.lists(st.integers(-50, 50), min_size=2, unique=True).map(sorted),
    st.lists(st.floats(-60, 60), max_size=50),
)
def test_a_value_in_a_gap_is_moved_to_its_nearer_end(ends: list[int], values: list[float]) -> None:
    gaps = tuple((float(low), float(high)) for low, high in zip(ends[::2], ends[1::2], strict=False))
    cells = np.array(values)
    moved = off_gaps(cells, gaps)
    for before, after in zip(cells.tolist(), moved.tolist(), strict=True):
        held = [gap for gap in gaps if gap[0] < before < gap[1]]
        if not held:
            assert after == before
        else:
            assert after in held[0] and abs(after - before) == min(abs(end - before) for end in held[0])
    assert (off_gaps(moved, gaps) == moved).all() and (off_gaps(cells, ()) == cells).all()


def gauge() -> np.ndarray:
    """Two thousand readings, more of those in the middle."""
    return np.asarray(np.random.default_rng(1).choice(GAUGE, 2000, p=np.hanning(22)[1:-1] / np.hanning(22).sum()))


@pytest.mark.parametrize("transform", ["linear", "normal", "none"])
def test_fills_leave_them_out_and_observed_cells_are_read_back(transform: str) -> None:
    table = table_of(gauge())
    schema = schema_alone(table, Said(encoding=Encoding(transform)))  # type: ignore[arg-type]
    x = schema.encoded[0]
    assert isinstance(x, Number) and len(x.gaps) >= 14 and schema == Schema.from_json(schema.to_json())
    encoded, missing = encode(table, schema, seed=1).table[:2]
    back = decode(encoded, schema)[:, 0]
    known = ~missing[:, 0].numpy()
    assert (back[known] == table.numeric("x")[known]).all()
    low, high = (float(side[0].clamp(-6, 6)) for side in box(schema))
    grid = torch.linspace(low, high, 50_000, dtype=torch.float64)
    fills = decode(torch.stack([grid, grid], 1), schema)[:, 0]
    assert not any(((low < fills) & (fills < high)).any() for low, high in x.gaps)
    assert set(GAUGE[4:12]) <= set(fills)


def test_they_are_drawn_as_often_as_they_occur() -> None:
    values = gauge()
    schema = schema_alone(table_of(values), Said(encoding=Encoding("normal")))
    z = torch.randn(20_000, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    fills = decode(z.clamp(*box(schema)), schema)[:, 0]
    for value in GAUGE[6:14]:
        assert (fills == value).mean() == pytest.approx((values == value).mean(), abs=0.02)


def test_bounds_none_lifts_them() -> None:
    for options in ({"unbounded": ["x"]}, {"bounds": {"x": "none"}}, {"unbounded": ["all"]}):
        x = infer_schema(table_of(gauge()), **options)[0].encoded[0]  # type: ignore[arg-type]
        assert x.gaps == ()
    for options in ({"kinds": {"x": "numeric"}}, {"bounds": {"x": "0:1"}}, {"kinds": {"x": "bounded:0:1"}}):
        x = infer_schema(table_of(gauge()), **options)[0].encoded[0]
        assert len(x.gaps) >= 14


def test_who_names_the_kind_of_few_values_gets_what_lies_between() -> None:
    for kind in ("numeric", "bounded:0:9"):
        few = infer_schema(table_of(np.repeat([0.5, 1.0, 1.5, 7.0], 30)), kinds={"x": kind})[0].encoded[0]
        assert few.gaps == ()


def test_levels_have_none() -> None:
    x = schema_alone(table_of(np.repeat([1, 2, 3, 6], 20))).encoded[0]
    assert x.levels and x.gaps == ()


def test_no_date_is_filled_on_a_day_on_which_none_is() -> None:
    days = np.arange("2021-01-01", "2022-06-01", dtype="datetime64[D]")
    work = np.repeat(days[np.is_busday(days)], 10)
    table = from_text("when,y\n" + "".join(f"{day},{i}.5\n" for i, day in enumerate(work)))
    schema = schema_alone(table)
    when = schema.encoded[0]
    assert isinstance(when, Moment) and len(when.number.gaps) == 74
    fills = decode(torch.randn(3000, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64), schema)[:, 0]
    first = np.datetime64(when.clock.spell(np.array([0.0]))[0])
    inside = (fills >= 0) & (fills <= when.number.high)
    assert inside.mean() > 0.8 and np.is_busday(first + fills[inside].astype(int)).all()
    line = "fills of 'when': not in 74 gaps between values that occur again and again, such as 2021-01-01 to 2021-01-04"
    assert bound_lines(schema.columns)[1][-1] == line


def test_they_are_told() -> None:
    schema = schema_alone(table_of(np.round(GAUGE[:4].repeat(30), 4)))
    assert bound_lines(schema.columns)[1][-1] == (
        "fills of 'x': not in 3 gaps between values that occur again and again, such as 0 to 0.0896"
    )
    one = schema_alone(table_of(np.repeat([0.5, 1.0, 1.5, 7.0], 30)))
    assert bound_lines(one.columns)[1][-1] == (
        "fills of 'x': not in a gap between values that occur again and again: 1.5 to 7"
    )
    assert Number.gaps_said.fget(schema.encoded[1]) == ""  # type: ignore[attr-defined]
