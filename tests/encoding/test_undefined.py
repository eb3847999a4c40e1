"""Columns that are computed from others have no value where these leave them none: a growth from zero, the logarithm of
zero. That is said, their cells decide nothing, and what is written there instead is kept."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tests.encoding.test_relations import codes_in, holed
from vgi_cli.columns.relations import Relation
from vgi_cli.columns.schema import Schema
from vgi_cli.encoding.infer import infer_schema, schema_alone
from vgi_cli.encoding.keeping import keep_relations
from vgi_cli.encoding.relations import departing
from vgi_cli.table.frames import from_frame

N, ZEROS = 300, 25
GROWTH, LOG = "'growth' = 100 × ('sales' / 'before' - 1), rounded", "'log' = ln('sales'), rounded"


def firms(zeros: int = ZEROS, written: float | None = None) -> pd.DataFrame:
    """Sales of two years, in some rows none, their growth and logarithm; what is `written` where these have no value,
    None: nothing."""
    rng = np.random.default_rng(3)
    before = np.exp(rng.normal(5, 1, N)).round(1)
    sales = (before * np.exp(rng.normal(0.05, 0.3, N))).round(1)
    before[:zeros], sales[zeros : 2 * zeros] = 0, 0
    with np.errstate(divide="ignore"):
        growth, log = (100 * (sales / before - 1)).round(2), np.log(sales).round(4)
    frame = pd.DataFrame({"before": before, "sales": sales, "growth": growth, "log": log})
    frame = frame.where(np.isfinite(frame), np.nan if written is None else written)
    return frame.assign(staff=rng.poisson(20, N))


@pytest.mark.parametrize("zeros", [1, ZEROS, 100])
def test_relations_are_found_beside_such_rows(zeros: int) -> None:
    """No number of the other column is taken for a limit, however many such rows there are."""
    schema = schema_alone(from_frame(holed(firms(zeros))))
    assert [one.words() for one in schema.relations] == [GROWTH, LOG]
    assert schema.thresholds == () and all(one.otherwise is None for one in schema.relations)


def test_what_is_written_there_is_kept() -> None:
    frame = firms(written=0.0)
    schema = schema_alone(from_frame(holed(frame)))
    assert [one.words() for one in schema.relations] == [
        f"{GROWTH}, 0 where that has no value" for GROWTH in (GROWTH, LOG)
    ]
    assert Schema.from_json(schema.to_json()).relations == schema.relations
    codes = codes_in(frame, schema)
    missing = np.zeros(codes.shape, bool)
    missing[:, [2, 3]] = True
    draws = np.where(missing, 7.0, codes)[None]
    assert not keep_relations(draws, codes, missing, schema).count()
    assert np.allclose(draws[0], codes)


def test_several_things_that_are_written_speak_against_it() -> None:
    frame = firms(written=0.0)
    frame.loc[0, "growth"], frame.loc[ZEROS, "log"] = 99.0, -99.0
    assert not schema_alone(from_frame(frame)).relations


def test_a_number_is_not_filled_with_one_that_leaves_observed_cells_no_value() -> None:
    """Beside a growth there was something before."""
    frame = firms()
    schema = schema_alone(from_frame(frame))
    codes = np.array([[50.0, 60.0, 20.0, 4.0943, 8.0]] * 3)
    missing = np.zeros(codes.shape, bool)
    missing[0, 0] = missing[1, 1] = missing[2, [0, 1]] = True
    draws = np.where(missing, 0.0, codes)[None]
    assert not keep_relations(draws, codes, missing, schema).count()
    assert np.allclose(draws[0], codes, atol=0.05)
    for relation, values in zip(schema.relations, ([5.0, 3.0, 0.0], [5.0, 0.0]), strict=True):
        assert relation.undefined(np.array(values)) and departing(relation, np.array(values), 0.005)


def test_other_rows_still_speak_against_a_relation() -> None:
    frame = firms()
    frame.loc[2 * ZEROS + 3, ["growth", "log"]] = 1.5
    assert not schema_alone(from_frame(frame)).relations


@pytest.mark.parametrize(
    ("relation", "at"),
    [
        (Relation(names=("y", "x"), how="log", base="e"), {1: 0.0}),
        (Relation(names=("y", "x"), how="log", base="10", constant=1), {1: -1.0}),
        (Relation(names=("y", "a", "b"), how="product", weights=(1, -1, 1), constant=1), {2: 0.0}),
        (Relation(names=("y", "a", "b"), how="product", weights=(1, -1, -1), constant=1), {}),
        (Relation(names=("y", "a", "b"), how="product", weights=(1, 1, 2), constant=1), {1: 0.0, 2: 0.0}),
        (
            Relation(names=("y", "a", "b"), how="product", weights=(1, -1, 1), constant=1, percent=(0, 0, -100)),
            {2: 100.0},
        ),
        (Relation(names=("y", "a"), weights=(1, -1)), {}),
    ],
)
def test_where_there_is_no_value(relation: Relation, at: dict[int, float]) -> None:
    """As arithmetic has it: what is computed there is infinite, or no number."""
    assert relation.without_value == at
    rng = np.random.default_rng(0)
    values = rng.choice([-2.0, -1.0, 0.0, 0.5, 1.0, 100.0], (500, len(relation.names)))
    assert (relation.undefined(values) == ~np.isfinite(relation.solved(values, 0, values[:, 0]))).all()


def test_a_relation_that_always_has_a_value_takes_no_other_one() -> None:
    with pytest.raises(ValueError, match="does not fit"):
        Relation(names=("y", "a"), weights=(1, -1), otherwise=0)


def test_it_is_said_with_the_flags() -> None:
    lines = infer_schema(from_frame(firms()))[1]
    assert [line for line in lines if "has no value" in line] == [
        f"column 'growth' has no value in the {ZEROS} rows where 'before' is 0: fills there mean nothing "
        "(`vgi impute --leave-blank growth:before=0` leaves them blank)",
        f"column 'log' has no value in the {ZEROS} rows where 'sales' is 0: fills there mean nothing "
        "(`vgi impute --leave-blank log:sales=0` leaves them blank)",
    ]
    assert not [line for line in lines if "cells in most others" in line]
    assert any("column 'log' has no value in a row where" in line for line in infer_schema(from_frame(firms(1)))[1])
    below = firms()
    below.loc[ZEROS, "sales"] = -3.0
    (line,) = [line for line in infer_schema(from_frame(below))[1] if "'sales' is" in line and "no value" in line]
    assert "where 'sales' is 0 or less" in line and "'log:sales<=0'" in line
    whole = infer_schema(from_frame(firms(written=0.0)))[1]
    assert not [line for line in whole if "has no value in" in line]
