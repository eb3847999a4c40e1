"""Within which values fills stay, and why: natural limits, what was asked for, runs of earlier versions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.table.helpers import from_text
from vgi_cli.columns.base import Encoding
from vgi_cli.columns.bounds import Bound, calendar_ends
from vgi_cli.columns.datetime import Moment
from vgi_cli.columns.limits import bound_lines
from vgi_cli.columns.number import Constant, Number
from vgi_cli.columns.scale import Scale
from vgi_cli.columns.schema import Schema
from vgi_cli.encoding.encoder import box, decode
from vgi_cli.encoding.infer import infer_schema, schema_alone
from vgi_cli.errors import InputError, RunError, UsageError
from vgi_cli.table.reader import read_table

RNG = np.random.default_rng(0)
NORMAL = RNG.normal(size=300)


def column(values: Any, **options: Any) -> Number:
    """What a column of these values is taken for, beside one that varies."""
    cells = [v if isinstance(v, str) else repr(v) for v in np.asarray(values).tolist()]
    rows = "\n".join(f"{cell},{i}.5" for i, cell in enumerate(cells))
    return infer_schema(from_text(f"x,y\n{rows}\n"), **options)[0].columns[0]


def bounds(values: Any, **options: Any) -> tuple[tuple[float, str] | None, tuple[float, str] | None]:
    found = column(values, **options)
    low, high = (None if bound is None else (bound.value, bound.why) for bound in (found.lower, found.upper))
    return low, high


@pytest.mark.parametrize(
    ("values", "low", "high"),
    [
        (NORMAL, None, None),
        (np.round(NORMAL, 1), None, None),
        (RNG.integers(-50, 50, 200), None, None),
        # a sign
        (np.exp(NORMAL), (1e-6 * np.exp(NORMAL).min(), "sign"), None),
        (-np.exp(NORMAL), None, (-1e-6 * np.exp(NORMAL).min(), "sign")),
        (np.round(50 + 3 * NORMAL, 1), (0.1, "sign"), None),  # no zero was seen: there is none
        (np.abs(np.round(NORMAL, 1)), (0.0, "sign"), None),
        (-np.abs(np.round(NORMAL, 1)), None, (0.0, "sign")),
        (RNG.permutation(np.arange(20, 320, 5)), (5.0, "sign"), None),
        (RNG.permutation(np.arange(23, 320, 5)), (3.0, "sign"), None),
        (-RNG.permutation(np.arange(23, 320, 5)), None, (-3.0, "sign")),
        (RNG.integers(1990, 2023, 100), (1.0, "sign"), None),
        (RNG.poisson(6, 300) + 1, (1.0, "sign"), None),
        # an end at which values pile up, though it need not get room
        (np.concatenate([np.full(120, 5.0), np.round(5 + 9 * RNG.random(200), 2)]), (5.0, "spike"), None),
        (np.minimum(np.round(35 + 9 * RNG.normal(size=900), 1), 50.0), (0.1, "sign"), (50.0, "spike")),
        (np.minimum(np.round(30 + 12 * RNG.normal(size=900), 1), 50.0) - 30, None, (20.0, "spike")),
        # of marks 9 % are 100, three times as many as of those next to it; of others the last ones become rarer
        (np.minimum(np.round(90 + 7.5 * NORMAL), 100.0), (1.0, "sign"), (100.0, "spike")),
        (np.round(90 + 3 * NORMAL), (1.0, "sign"), None),
        # a pile in the middle is no end
        (np.concatenate([np.zeros(100), np.round(9 * RNG.normal(size=300), 2)]), None, None),
        # few whole numbers
        (RNG.integers(1, 6, 100), (1.0, "few"), (5.0, "few")),
        (RNG.integers(-2, 3, 100), (-2.0, "few"), (2.0, "few")),
        ([4] * 30 + [1, 3, 3, 5, 5], (1.0, "few"), (5.0, "few")),  # whoever answered, 1 was a choice
        (np.tile([10, 20, 30], 20), (10.0, "few"), (30.0, "few")),
        (np.repeat(np.arange(11), 9), (0.0, "few"), (10.0, "few")),
        # half steps: marks and stars; hours are too many
        (RNG.integers(2, 12, 200) / 2, (1.0, "halves"), (5.5, "halves")),
        (RNG.integers(1, 11, 200) / 2, (0.5, "halves"), (5.0, "halves")),
        ([*np.repeat(np.arange(8), 20) / 2, 4.0, 4.5], (0.0, "halves"), None),
        (np.tile(np.arange(1, 14) / 2, 9), (0.5, "sign"), None),
        # doses: nothing but few values that occur again and again; more than these; too many; a gap that is none
        (np.repeat([6.25, 12.5, 25, 50, 100, 200], 6), (6.25, "repeated"), (200.0, "repeated")),
        (np.repeat([-0.25, 0.0, 1.25], 6), (-0.25, "repeated"), (1.25, "repeated")),
        ([*np.repeat([6.25, 12.5, 25, 50, 100, 200], 6), 400], (0.01, "sign"), None),
        (np.repeat(np.arange(1, 14) ** 2 + 0.25, 9), (0.25, "sign"), None),
        (np.repeat([6.25, 12.5, 25, 50, 100], 90), (6.25, "repeated"), (100.0, "repeated")),  # two next to each other
        (np.repeat([6.25, 12.5, 18.75, 31.25], 9), (6.25, "sign"), None),  # of five that there could be
        ([*np.repeat([6.25, 12.5, 25, 50, 100], 90), 56.25], (6.25, "sign"), None),
        # counts: their largest value is rare, or there are too many
        ([*np.repeat(np.arange(8), 20), 8, 9], (0.0, "few"), None),
        ([0] * 40 + [1] * 25 + [2] * 12 + [3] * 6 + [5, 8, 14], (0.0, "sign"), None),
        (np.tile(np.arange(1, 14), 9), (1.0, "sign"), None),
        ([12, 14, 13, 15, 16], (1.0, "sign"), None),  # nothing repeats
    ],
)
def test_natural_limits(values: Any, low: tuple[float, str] | None, high: tuple[float, str] | None) -> None:
    found = bounds(values)
    assert found[0] == (low if low is None else (pytest.approx(low[0]), low[1]))
    assert found[1] == (high if high is None else (pytest.approx(high[0]), high[1]))


def test_a_gaussian_whose_tail_is_missing_is_bounded_at_zero_and_not_at_its_least_value() -> None:
    values = RNG.normal(1.5, 0.5, 400)
    values = values[(values > 0.6) & (values < 3)]
    (low, why), high = bounds(values)  # type: ignore[misc]
    assert low < 1e-6 and why == "sign" and high is None


@pytest.mark.parametrize(
    ("options", "low", "high"),
    [
        ({"bounds": {"x": "observed"}}, (2.0, "observed"), (9.5, "observed")),
        ({"bounds": {"all": "observed"}}, (2.0, "observed"), (9.5, "observed")),
        ({"bounds": {"all": "observed", "x": "none"}}, None, None),
        ({"bounds": {"all": "observed"}, "unbounded": ["x"]}, None, None),
        ({"unbounded": ["all"]}, None, None),
        ({"unbounded": ["all"], "bounds": {"x": "1:"}}, (1.0, "asked"), None),
        ({"bounds": {"x": "none"}, "unbounded": ["x"]}, None, None),
        ({"bounds": {"x": "0:100"}}, (0.0, "asked"), (100.0, "asked")),
        ({"bounds": {"x": ":100"}}, (0.5, "sign"), (100.0, "asked")),  # the other side keeps its natural limit
        ({"bounds": {"x": "-10:"}}, (-10.0, "asked"), None),
        ({"bounds": {"x": "1.7 : 9.9"}}, (2.0, "asked"), (9.5, "asked")),  # the values that the column can take
    ],
)
def test_requests(options: dict[str, Any], low: object, high: object) -> None:
    assert bounds([2.0, 3.5, 9.5, 4.0, 5.5, 6.0, 7.5, 8.0, 9.0, 2.5] * 2, **options) == (low, high)


def test_all_is_every_column_unless_one_is_called_that() -> None:
    table = from_text("x,y\n1,2.5\n2,3.5\n4,1.5\n")
    assert [c.bounds for c in infer_schema(table, unbounded=["all"])[0].encoded] == [(), ()]
    table = from_text("all,y\n1,2.5\n2,3.5\n4,1.5\n")
    assert [len(c.bounds) for c in infer_schema(table, unbounded=["all"])[0].encoded] == [0, 1]
    schema = infer_schema(table, bounds={"all": "observed"})[0]
    assert [[b.why for b in c.bounds] for c in schema.encoded] == [["observed"] * 2, ["sign"]]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            {"bounds": {"x": "3"}},
            "--bounds x=3: expected LOW:HIGH, LOW..HIGH of dates or times, observed or none, got '3' | for example "
            "0:100, 0: or :100 (a side left empty keeps its natural limit), 2020-01-01..2024-12-31, observed or none",
        ),
        ({"bounds": {"x": ":"}}, "--bounds x=:: expected LOW:HIGH, LOW..HIGH of"),
        ({"bounds": {"x": "1:2:3"}}, "--bounds x=1:2:3: expected LOW:HIGH, LOW..HIGH of"),
        ({"bounds": {"x": "a:3"}}, "--bounds x=a:3: 'a' is not a number | for example"),
        ({"bounds": {"x": "0:inf"}}, "--bounds x=0:inf: 'inf' is not a number |"),
        ({"bounds": {"x": "0:1_0"}}, "--bounds x=0:1_0: '1_0' is not a number |"),
        ({"bounds": {"x": "3:3"}}, "--bounds x=3:3: 3 is not below 3 | give the lower limit first"),
        ({"bounds": {"x": "5:-1"}}, "--bounds x=5:-1: 5 is not below -1 | give the lower limit first"),
        ({"bounds": {"q": "0:"}}, "--bounds q: standard input has no such column | expected one of: t, x"),
        ({"bounds": {"t": "0:"}}, "--bounds t: the column is not modelled | expected one of: x"),
        (
            {"bounds": {"x": "0:3"}, "unbounded": ["x"]},
            "--unbounded x disagrees with --bounds x=0:3 | drop one of them",
        ),
        (
            {"bounds": {"all": "observed"}, "unbounded": ["all"]},
            "--unbounded all disagrees with --bounds all=observed | drop one of them",
        ),
        (
            {"bounds": {"x": "0:3"}},
            "standard input: --bounds x=0:3, but column 'x' holds '4.5' in row 2 (line 3) and 1 more cell | "
            "`--na-values x=4.5` if that means missing, or give wider limits",
        ),
        (
            {"bounds": {"all": "2:"}},
            "standard input: --bounds all=2:, but column 'x' holds '1.5' in row 1 (line 2) | "
            "`--na-values x=1.5` if that means missing, or give wider limits",
        ),
    ],
)
def test_requests_that_cannot_be_meant(options: dict[str, Any], expected: str) -> None:
    with pytest.raises((InputError, UsageError)) as caught:
        infer_schema(from_text("x,t\n1.5,a\n4.5,b\n3.5,c\n,d\n"), **options)
    assert f"{caught.value.message} | {caught.value.hint}".startswith(expected)


@pytest.mark.parametrize(
    ("kind", "low", "high"),
    [
        (pa.int8(), -128, 127),
        (pa.uint16(), 0, 65535),
        (pa.int64(), -(2.0**63), 2.0**63 - 1024),
        (pa.uint64(), 0, 2.0**64 - 2048),
        (pa.decimal128(3, 1), -99, 99),
        (pa.float32(), None, None),
    ],
)
def test_the_limits_of_a_type_hold(tmp_path: Path, kind: pa.DataType, low: float | None, high: float | None) -> None:
    values = [-20, None, 5, 7, 8, 90, 33, 12]
    values = [None if v is None else abs(v) if low == 0 else v for v in values]
    texts = pa.array([None if v is None else str(v) for v in values])
    pq.write_table(pa.table({"x": texts.cast(kind)}), tmp_path / "t.parquet")
    table = read_table([tmp_path / "t.parquet"])
    x = schema_alone(table).columns[0]
    if low is None or high is None:
        assert not x.bounds
        return
    assert x.ends == ((5 - 4) if low == 0 else low, high) and x.upper is not None and x.upper.why == "type"
    assert all(kind_can(kind, end) for end in x.ends)
    assert infer_schema(table, unbounded=["x"])[0].columns[0].bounds == ()


def kind_can(kind: pa.DataType, value: float) -> bool:
    """Whether the type holds the number."""
    text = f"{value:.1f}" if pa.types.is_decimal(kind) else f"{value:.0f}"
    return str(pa.array([text]).cast(kind)[0].as_py()) == text


@pytest.mark.parametrize("transform", ["linear", "normal", "none"])
def test_a_bound_on_one_side_leaves_the_other_open(transform: str) -> None:
    x = column(np.round(np.exp(NORMAL), 2), encoding=Encoding(transform))  # type: ignore[arg-type]
    low, high = box(Schema((x,)))
    assert torch.isfinite(low).all() and torch.isinf(high).all()
    far = torch.cat([low, low + 1e-7, torch.tensor([50.0], dtype=torch.float64)])[:, None]
    values = decode(far, Schema((x,)))[:, 0]
    assert values[0] == values[1] == 0.01 and x.high is not None and values[2] > x.high


def test_what_rounds_to_a_bound_is_inside_and_what_rounds_beyond_it_is_not() -> None:
    schema = Schema((column(np.round(50 + 3 * NORMAL, 1)),))
    assert schema.columns[0].ends[0] == 0.1
    (low,), _ = box(schema)
    scale = schema.columns[0].scale
    assert scale is not None and float(low) == pytest.approx((0.05 - scale.mean) / scale.sd)


def test_fills_next_to_a_bound_are_spelled_within_it() -> None:
    x = column([1.23456, 7.5, 3.25, 4.75, 2.0, 9.0, 9.5, 6.5], bounds={"x": "1.234559:"}, kinds={"x": "numeric"})
    assert x.lower is not None
    scale = Scale(0.5, 0.2)
    x = Number("x", "numeric", low=0.3, high=0.9, lower=Bound(0.123456789, "asked"), scale=scale, digits=3)
    assert x.spell(np.array([0.123456789, 0.5123456]), 0) == ["0.123456789", "0.512"]


def test_a_line_says_what_is_bounded_and_why() -> None:
    frame = pd.DataFrame({"w": np.exp(NORMAL), "stage": RNG.integers(1, 6, 300), "z": NORMAL})
    schema = read(frame)
    assert (
        bound_lines(schema.columns)[0]
        == "fills stay within limits: 'w' above 0 (its sign); 'stage' 1 to 5 (few whole numbers)"
    )
    frame["cap"] = np.minimum(np.round(30 + 9 * RNG.normal(size=300), 1), 40.0)
    frame["rain"] = np.abs(np.round(NORMAL, 1))
    frame["site"] = RNG.choice([3, 4, 5, 6, 8], 300)
    line, each = bound_lines(read(frame, bounds={"z": "-10:9.5"}).columns)
    assert line == (
        "fills stay on their side of zero (3 columns), within an end where values pile up (1 column), on a scale of "
        "few whole numbers (1 column), on the values that occur (1 column), within --bounds (1 column); -v lists the "
        "limits, --bounds sets others"
    )
    assert each == [
        "fills of 'w': above 0 (its sign)",
        "fills of 'stage': 1 to 5 (few whole numbers)",
        "fills of 'z': -10 to 9.5 (--bounds)",
        "fills of 'cap': above 0 (its sign), at most 40 (values pile up there)",
        "fills of 'rain': at least 0 (its sign)",
        "fills of 'site': only 3, 4, 5, 6, 8 (the values that occur)",
    ]
    assert bound_lines(read(frame[["z"]]).columns) == (None, [])


def test_columns_with_the_same_limits_share_a_line() -> None:
    frame = pd.DataFrame({f"w{i}": np.exp(RNG.normal(size=300)) for i in range(7)})
    frame["stage"] = RNG.integers(1, 6, 300)
    frame["step"] = RNG.integers(1, 6, 300)
    _, each = bound_lines(read(frame).columns)
    assert each == [
        "fills of 'w0', 'w1', 'w2', 'w3', 'w4' and 2 more: above 0 (its sign)",
        "fills of 'stage', 'step': 1 to 5 (few whole numbers)",
    ]


def test_limits_of_dates_are_said_as_the_column_writes_them() -> None:
    days = pd.Timestamp("2021-03-01") + pd.to_timedelta(RNG.integers(0, 300, 200), "D")
    frame = pd.DataFrame({"day": days.strftime("%d/%m/%Y"), "z": RNG.normal(size=200)})
    assert bound_lines(read(frame).columns) == (None, [])
    words = "01/01/2021 to 31/12/2021 (--bounds)"
    line, each = bound_lines(read(frame, bounds={"day": "2021-01-01..2021-12-31"}).columns)
    assert (line, each) == (f"fills stay within limits: 'day' {words}", [f"fills of 'day': {words}"])
    line, _ = bound_lines(read(frame, bounds={"day": "..31/12/2021"}).columns)
    assert line == "fills stay within limits: 'day' at most 31/12/2021 (--bounds)"


def test_limits_of_the_type_are_a_detail(tmp_path: Path) -> None:
    values = RNG.integers(-50, 50, 100)
    frame = pd.DataFrame({"x": values.astype(np.int8), "y": values.astype(np.int32)})
    frame.to_parquet(tmp_path / "t.parquet")
    schema = schema_alone(read_table([tmp_path / "t.parquet"]))
    assert bound_lines(schema.columns) == (None, ["fills of 'x': -128 to 127 (the file's type)"])


def read(frame: pd.DataFrame, **options: Any) -> Schema:
    return infer_schema(from_text(frame.to_csv(index=False)), **options)[0]


class TestEarlierRuns:
    """Schemas of format 2 say `bounded`, and mean the observed range."""

    def old(self, **changes: Any) -> str:
        raw = json.loads(read(pd.DataFrame({"x": NORMAL, "w": np.exp(NORMAL), "k": 7})).to_json())
        for item in raw["columns"]:
            for key in ("lower", "upper", "levels"):
                del item[key]
            item["bounded"] = True
        raw["columns"][1]["bounded"] = False
        raw["columns"][0] |= changes
        return json.dumps({**raw, "format": 2})

    def test_they_keep_their_meaning(self) -> None:
        schema = Schema.from_json(self.old())
        x, w, k = schema.columns
        assert isinstance(x, Number) and isinstance(w, Number) and isinstance(k, Constant)
        assert x.ends == (NORMAL.min(), NORMAL.max()) and {b.why for b in x.bounds} == {"observed"}
        assert w.bounds == () and schema.format == 10
        assert Schema.from_json(schema.to_json()) == schema

    def test_damage_is_named(self) -> None:
        with pytest.raises(RunError, match=r"schema\.json: damaged \(columns\.0\.bounded"):
            Schema.from_json(self.old(bounded="maybe"))

    @pytest.mark.parametrize(
        "changes",
        [{"lower": {"value": 3.0, "why": "sign"}, "upper": {"value": 2.0, "why": "asked"}}, {"levels": [2, 1]}],
    )
    def test_columns_that_do_not_fit_together(self, changes: dict[str, Any]) -> None:
        raw = json.loads(read(pd.DataFrame({"x": NORMAL})).to_json())
        raw["columns"][0] |= changes
        with pytest.raises(RunError, match="columns do not fit together"):
            Schema.from_json(json.dumps(raw))


cells = st.one_of(
    st.integers(-20, 20).map(float),
    st.floats(-1e4, 1e4, allow_subnormal=False).map(lambda v: round(v, 3)),
    st.floats(0, 1e3).map(lambda v: v if v > 1e-6 else 0.0),
)


@settings(max_examples=20)
@given(
    st.lists(cells, min_size=3, max_size=40).filter(lambda v: max(v) - min(v) > 1e-4),  # closer together: refused
    st.sampled_from(["linear", "normal", "none"]),
    st.sampled_from([None, "observed", "-30000:", ":30000", "-30000.5:30000.5", "none"]),
    st.sampled_from([1, -1]),
)
def test_whatever_is_drawn_in_the_box_is_written_within_the_bounds(
    values: list[float], transform: str, asked: str | None, side: int
) -> None:
    values = [side * v + 0.0 for v in values]
    x = column(values, encoding=Encoding(transform), bounds={} if asked is None else {"x": asked})
    if not isinstance(x, Number):
        return
    schema = Schema((x,))
    ends = torch.stack(box(schema))[:, 0]
    ends = torch.where(torch.isinf(ends), ends.flip(0).nan_to_num(0, 0, 0) + torch.tensor([-20.0, 20.0]), ends)
    inside = ends[0] + (ends[1] - ends[0]) * torch.linspace(0, 1, 101, dtype=torch.float64)
    for z in (inside, inside.to(torch.float32).to(torch.float64)):
        fills = decode(z[:, None], schema)[:, 0]
        written = np.array([float(text) for text in x.spell(x.snap(fills), 0)])
        least, most = x.ends
        assert least <= written.min() and written.max() <= most
        assert x.kind != "integer" or (written == np.rint(written)).all()
        if not x.levels and asked in (None, "observed") and min(values) > 0:
            assert written.min() > 0


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (RNG.integers(0, 24, 800), (0.0, 23.0)),  # hours of the day
        (RNG.integers(0, 360, 800), (0.0, 359.0)),  # degrees
        (RNG.integers(18, 81, 900), (18.0, 80.0)),  # whoever may take part
        ((RNG.random(900) + 5).round(3), (5.0, 6.0)),
        (RNG.normal(0, 20, 30_000).round(), (None, None)),  # tails
        (RNG.poisson(12, 3000) + 4, (1.0, None)),
        (RNG.exponential(40, 3000).round() + 1, (1.0, None)),  # dense at one end alone
        (RNG.integers(0, 24, 40), (0.0, None)),  # too few cells to say
        (RNG.random(900) + 5, (5.0, None)),  # not rounded: whatever lies beyond may have been missed by little
        ((RNG.normal(0, 0.1, 600) + np.repeat([25, 60], 300)).round(3), (0.001, None)),  # two narrow groups
        ((RNG.random(600) + np.repeat([25, 60], 300)).round(3), (25.0, 61.0)),  # whose ends are sharp
    ],
)
def test_cells_that_are_dense_up_to_both_ends_end_there(
    values: Any, expected: tuple[float | None, float | None]
) -> None:
    column = schema_alone(from_text("x\n" + "\n".join(repr(float(v)) for v in values) + "\n")).encoded[0]
    assert isinstance(column, Number)
    ends = tuple(None if bound is None else bound.value for bound in (column.lower, column.upper))
    if expected[0] is not None and expected[1] is not None:
        assert ends == pytest.approx((values.min(), values.max())) and ends == pytest.approx(expected, abs=0.01)
        assert column.limits is not None and "(cells are dense up to both ends)" in column.limits.words
    else:
        assert "even" not in {bound.why for bound in column.bounds}


def named(name: str, values: Any, **asked: Any) -> tuple[Number, list[str]]:
    """A column of numbers of that name, and what -v says of the limits."""
    table = from_text(f"{name}\n" + "\n".join(str(v) for v in values) + "\n")
    (column,) = infer_schema(table, **asked)[0].encoded
    assert isinstance(column, Number)
    return column, bound_lines([column])[1]


WEIGHTS = 1.0 / np.arange(1, 60) ** 1.5
"""Of numbers of which the last ones are rare, so that nothing else says where they end."""


class TestCalendar:
    @pytest.mark.parametrize(
        ("name", "low", "high", "ends"),
        [
            ("day", 1, 24, (1, 31)),
            ("Day of Month", 3, 30, (1, 31)),
            ("month", 2, 10, (1, 12)),
            ("MM", 1, 11, (1, 12)),
            ("hour_of_day", 1, 21, (0, 23)),
            ("HR", 0, 20, (0, 23)),
            ("minute", 0, 44, (0, 59)),
            ("second", 5, 50, (0, 59)),
        ],
    )
    def test_what_is_named_so_ends_there(self, name: str, low: int, high: int, ends: tuple[int, int]) -> None:
        share = WEIGHTS[: high - low + 1] / WEIGHTS[: high - low + 1].sum()
        values = low + np.random.default_rng(0).choice(high - low + 1, 60, p=share)
        values[:2] = low, high
        column, lines = named(name, values)
        assert column.upper == Bound(ends[1], "calendar")
        assert column.lower is not None and (
            column.lower.why in ("spike", "few") or column.lower == Bound(ends[0], "calendar")
        )
        assert f"{ends[1]} (the calendar)" in lines[0]
        for flag in ({"unbounded": [name]}, {"bounds": {name: "none"}}):
            assert named(name, values, **flag)[0].bounds == ()
        asked = named(name, values, bounds={name: ":70"})[0]
        assert asked.upper == Bound(70, "asked") and asked.lower == column.lower
        assert named("number", values)[0].upper is None

    def test_not_where_a_cell_lies_beyond(self) -> None:
        values = [*range(1, 25), 24, 33]
        assert named("day", values)[0].upper is None and named("hour", values)[0].upper is None
        assert named("month", [v / 2 for v in range(2, 24)])[0].upper is None  # nor of halves

    @pytest.mark.parametrize(("first", "last", "ends"), [(0, 5, (0, 6)), (2, 7, (1, 7)), (1, 6, (0, 7))])
    def test_weekdays_count_from_either_end(self, first: int, last: int, ends: tuple[int, int]) -> None:
        assert calendar_ends("dow", np.array([first, last], float)) == ends

    def test_limits_that_the_cells_say_come_first(self) -> None:
        column = named("month", [5, 6, 7, 8, 9] * 6)[0]
        assert [bound.why for bound in column.bounds] == ["few", "few"]

    def test_a_date_of_that_name_is_none(self) -> None:
        days = "\n".join(f"2020-01-{1 + i % 29:02d}" for i in range(0, 600, 7))
        (column,) = schema_alone(from_text(f"day\n{days}\n")).encoded
        assert isinstance(column, Moment) and "calendar" not in {bound.why for bound in column.number.bounds}

    @pytest.mark.parametrize("step", [1, 5])
    def test_ends_are_values_of_the_column(self, step: int) -> None:
        values = [step * v for v in (0, 0, 0, 0, 1, 1, 2, 2, 3, 4, 5, 6, 7, 8)]
        assert named("minute", values)[0].upper == Bound({1: 59, 5: 55}[step], "calendar")
