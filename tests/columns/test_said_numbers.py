"""Bounded and zero-inflated: numbers of which the user said more."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.table.helpers import from_text
from vgi_cli.columns.base import Column, Encoding
from vgi_cli.columns.bounded import Bounded
from vgi_cli.columns.number import Constant, Number
from vgi_cli.columns.schema import Schema
from vgi_cli.columns.zero_inflated import ZeroInflated
from vgi_cli.encoding.encoder import encode, log_volume
from vgi_cli.encoding.infer import infer_schema, schema_alone
from vgi_cli.errors import InputError, UsageError

RNG = np.random.default_rng(1)
SHARES = [f"{v:.1f}" for v in RNG.uniform(20, 90, 60)]


def column(cells: list[str], kind: str, **options: Any) -> Column:
    rows = from_text("x,y\n" + "".join(f"{cell},{i}.5\n" for i, cell in enumerate(cells)))
    schema = infer_schema(rows, kinds={"x": kind}, **options)[0]
    assert Schema.from_json(schema.to_json()) == schema
    return schema.columns[0]


@pytest.mark.parametrize(("kind", "ends"), [("bounded:0:100", (0, 100)), ("bounded:0:", (0, np.inf))])
def test_fills_stay_within_the_limits(kind: str, ends: tuple[float, float]) -> None:
    found = column(SHARES, kind)
    assert isinstance(found, Bounded) and found.ends == ends and found.request == kind and not found.whole
    low, high = found.decode(found.box())
    assert low == ends[0] and (high == ends[1] or np.isinf(ends[1]))


def test_it_is_the_number_with_those_limits() -> None:
    """As `--bounds` would have it: nothing else differs."""
    found = column(SHARES, "bounded:0:100")
    rows = from_text("x,y\n" + "".join(f"{cell},{i}.5\n" for i, cell in enumerate(SHARES)))
    plain = infer_schema(rows, bounds={"x": "0:100"})[0].columns[0]
    assert (
        isinstance(found, Bounded) and isinstance(plain, Number) and found.fields == plain.fields | {"kind": "bounded"}
    )
    whole = column([str(v) for v in RNG.integers(20, 60, 60)], "bounded:0:100")
    assert isinstance(whole, Bounded) and whole.whole and whole.spell(np.array([30.0]), None) == ["30"]


def test_without_limits_it_takes_the_natural_ones() -> None:
    found = column(SHARES, "bounded")
    assert isinstance(found, Bounded) and found.request == "bounded" and found.lower is not None
    with pytest.raises(InputError, match="nothing in column 'x' says what limits it") as error:
        column([f"{v:.3f}" for v in RNG.normal(size=60)], "bounded")
    assert "`--column x=bounded:-" in str(error.value.hint)


def test_cells_outside_of_the_limits_are_refused_by_name() -> None:
    with pytest.raises(InputError, match=r"--column x=bounded:0:50, but column 'x' holds '.*' in row"):
        column(SHARES, "bounded:0:50")
    with pytest.raises(InputError, match=r"--column x=bounded, but the column holds '\?' in row 61"):
        column([*SHARES, "?"], "bounded:0:100")


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("bounded:5", "expected LOW:HIGH, LOW: or :HIGH, got '5'"),
        ("bounded:observed", "expected LOW:HIGH"),
        ("bounded:a:b", "'a' is not a number"),
        ("bounded:9:1", "9 is not below 1"),
        ("bounded::", "expected LOW:HIGH"),
        ("zero-inflated:1", "'zero-inflated' takes nothing after it"),
    ],
)
def test_what_cannot_be_limits_is_refused(kind: str, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        column(SHARES, kind)


def test_limits_are_said_once() -> None:
    with pytest.raises(UsageError, match="--bounds x=0:90 disagrees with --column x=bounded:0:100"):
        column(SHARES, "bounded:0:100", bounds={"x": "0:90"})
    assert isinstance(column(SHARES, "bounded:0:100", bounds={"all": "observed"}), Bounded)
    assert isinstance(column(SHARES, "bounded", bounds={"x": "0:95"}), Bounded)


def test_zero_is_a_spike_however_few_cells_hold_it() -> None:
    cells = ["0"] * 3 + [f"{v:.2f}" for v in RNG.lognormal(3, 1, 97)]
    rows = from_text("x,y\n" + "".join(f"{cell},{i}.5\n" for i, cell in enumerate(cells)))
    plain = schema_alone(rows).columns[0]
    schema = infer_schema(rows, kinds={"x": "zero-inflated"})[0]
    found = schema.columns[0]
    assert isinstance(plain, Number) and isinstance(found, ZeroInflated)
    assert plain.spikes == () and [spike.value for spike in found.spikes] == [0.0] and found.ends[0] == 0
    middle = found.decode(found.encode(np.zeros(5), np.linspace(0, 1, 5)[:, None]))
    assert (middle == 0).all()
    x = encode(rows, schema, seed=0).table
    assert log_volume(x.missing, x.x, schema).isfinite().all()


def test_a_spike_that_is_found_is_the_same() -> None:
    cells = [f"{max(v, 0.0):.2f}" for v in RNG.normal(0.3, 1, 300)]
    found = column(cells, "zero-inflated")
    assert isinstance(found, ZeroInflated)
    assert found.fields == column(cells, "numeric").fields | {"kind": "zero-inflated"}  # type: ignore[attr-defined]
    real = column([repr(max(v, 0.0)) for v in RNG.normal(2, 1, 300).tolist()], "zero-inflated")
    assert isinstance(real, ZeroInflated) and [spike.value for spike in real.spikes] == [0.0]


def test_statistics_of_rows_without_a_zero() -> None:
    cells = ["0"] * 10 + [f"{v:.2f}" for v in RNG.lognormal(3, 1, 90)]
    found = column(cells, "zero-inflated", rows=np.arange(100) >= 10)
    assert isinstance(found, ZeroInflated) and [spike.value for spike in found.spikes] == [0.0]


@pytest.mark.parametrize(
    ("cells", "transform", "words"),
    [
        (SHARES, "linear", "no cell of the column is 0"),
        (["0", "1"] * 30, "linear", "it has no tail"),
        (["0", *SHARES], "none", "table.transform=none"),
        (["0", *SHARES, "none at all"], "linear", "the column holds 'none at all'"),
    ],
)
def test_what_is_not_zero_inflated_is_refused(cells: list[str], transform: str, words: str) -> None:
    with pytest.raises(InputError, match=f"--column x=zero-inflated, but .*{words}"):
        column(cells, "zero-inflated", encoding=Encoding(transform))  # type: ignore[arg-type]


def test_one_number_is_a_constant_of_any_kind() -> None:
    assert isinstance(column(["5"] * 10 + [""], "bounded:0:10"), Constant)
