"""Of several missing cells of a sum or a product the one is computed of which the rest of the row says least."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from vgi_cli.columns.numerals import Bools, Floats
from vgi_cli.columns.schema import Schema
from vgi_cli.columns.spreads import Spread
from vgi_cli.encoding.infer import infer_schema
from vgi_cli.encoding.keeping import keep_relations
from vgi_cli.encoding.spreads import term_spreads
from vgi_cli.errors import RunError
from vgi_cli.table.frames import from_frame

N = 300


def lab(seed: int = 0) -> pd.DataFrame:
    """A result is a raw value times a dilution; `again` is a second measurement of it."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"raw": np.exp(rng.normal(2, 1, N)).round(3), "dilution": rng.choice([1, 2, 5, 10, 50], N)})
    frame["result"] = (frame.raw * frame.dilution).round(3)
    return frame.assign(again=(frame.result * np.exp(rng.normal(0, 0.04, N))).round(3), pH=rng.normal(7, 1, N).round(2))


def budget(seed: int = 0) -> pd.DataFrame:
    """An income is what is spent; `register` is nearly the income, `fuel` goes with the heating."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"heating": rng.normal(300, 40, N).round(0), "food": rng.normal(900, 100, N).round(0)})
    frame["income"] = frame.heating + frame.food
    fuel = (2 * frame.heating + rng.normal(0, 5, N)).round(0)
    return frame.assign(register=(frame.income + rng.normal(0, 3, N)).round(0), fuel=fuel)


def schema_of(frame: pd.DataFrame) -> Schema:
    return infer_schema(from_frame(frame), kinds={"dilution": "integer"} if "dilution" in frame else {})[0]


def kept(frame: pd.DataFrame, missing: Bools, schema: Schema, draws: Floats) -> Floats:
    """Draws [m, N, columns] as they keep to relations."""
    observed, after = codes_of(frame, schema), draws.copy()
    assert keep_relations(after, np.where(missing, 0.0, observed), missing, schema).count() == 0
    return after


def codes_of(frame: pd.DataFrame, schema: Schema) -> Floats:
    table = from_frame(frame)
    return np.stack([column.codes(table.column(column.name)) for column in schema.encoded], 1)


def drawn(frame: pd.DataFrame, schema: Schema, sure: str, names: list[str], seed: int = 1) -> tuple[Floats, Bools]:
    """Draws of missing cells of some columns: one of them as it is but for 2 %, of the others those of other rows."""
    rng, at = np.random.default_rng(seed), {name: place for place, name in enumerate(schema.modelled)}
    codes = codes_of(frame, schema)
    missing, draws = np.zeros(codes.shape, bool), np.repeat(codes[None], 3, 0)
    for name in names:
        missing[:, at[name]] = True
        for draw in draws:
            near = schema.encoded[at[name]].held(codes[:, at[name]] * np.exp(rng.normal(0, 0.02, len(codes))))
            draw[:, at[name]] = near if name == sure else rng.permutation(codes[:, at[name]])
    return draws, missing


@pytest.mark.parametrize("unsure", ["raw", "dilution"])
def test_a_product_that_is_measured_twice_stays_as_it_was_drawn(unsure: str) -> None:
    frame = lab()
    schema = schema_of(frame)
    assert [one.words() for one in schema.relations] == ["'result' = 'raw' × 'dilution'"]
    draws, missing = drawn(frame, schema, "result", ["result", unsure])
    after = kept(frame, missing, schema, draws)
    place = schema.modelled.index("result")
    off = np.abs(np.log(after[..., place] / codes_of(frame, schema)[:, place]))
    assert np.median(off) < 0.03 and np.quantile(off, 0.95) < 0.3
    alone = missing | (np.array(schema.modelled) == "again")  # where it is not, nothing says more of the product
    after = kept(frame, alone, schema, draws)
    off = np.abs(np.log(after[..., place] / codes_of(frame, schema)[:, place]))
    assert np.median(off) > 0.3


def test_each_part_of_a_sum_is_kept_where_it_is_known_best() -> None:
    frame = budget()
    schema = schema_of(frame)
    assert [one.how for one in schema.relations] == ["sum"]
    heating, income = (schema.modelled.index(name) for name in ("heating", "income"))
    draws, missing = drawn(frame, schema, "income", ["income", "heating"])
    unfuelled = missing | (np.array(schema.modelled) == "fuel")
    after = kept(frame, unfuelled, schema, draws)
    np.testing.assert_array_equal(after[..., income], draws[..., income])
    unregistered = missing | (np.array(schema.modelled) == "register")
    draws, _ = drawn(frame, schema, "heating", ["income", "heating"])
    after = kept(frame, unregistered, schema, draws)
    np.testing.assert_array_equal(after[..., heating], draws[..., heating])


def test_neither_other_rows_nor_other_draws_matter() -> None:
    frame = lab()
    schema = schema_of(frame)
    draws, missing = drawn(frame, schema, "result", ["result", "raw"])
    missing[::3, schema.modelled.index("again")] = True
    whole = kept(frame, missing, schema, draws)
    turned = kept(frame[::-1], missing[::-1], schema, draws[:, ::-1])
    np.testing.assert_array_equal(turned[:, ::-1], whole)
    np.testing.assert_array_equal(kept(frame[:7], missing[:7], schema, draws[:1, :7]), whole[:1, :7])


def test_spreads_are_those_of_rows_that_are_alike() -> None:
    schema = schema_of(lab())
    by_name = {one.name: one for one in schema.spreads}
    assert set(by_name) == {"raw", "dilution", "result"} and all(one.logs for one in schema.spreads)
    beside = dict(by_name["result"].beside)
    assert min(beside, key=beside.__getitem__) == "again" and "pH" not in beside
    assert 0.04 < beside["again"] < 0.08  # the mean distance of two numbers with a deviation of 0.04 is 0.045
    assert by_name["raw"].apart == pytest.approx(2 / np.sqrt(np.pi), rel=0.1)  # of logarithms with a deviation of 1
    assert Schema.from_json(schema.to_json()) == schema
    (relation,) = schema.relations
    missing = np.zeros((2, len(schema.modelled)), bool)
    missing[1] = True
    result = term_spreads(relation, schema)[relation.names.index("result")].of(missing)
    np.testing.assert_array_equal(result, [beside["again"], by_name["result"].apart])


def test_a_sum_of_two_columns_is_not_measured_and_few_rows_are_no_evidence() -> None:
    frame = budget()
    pair = frame[["heating"]].assign(double=2 * frame.heating, x=frame.food)
    assert len(schema_of(pair).relations) == 1 and schema_of(pair).spreads == ()
    few = lab()
    few.loc[20:, "again"] = np.nan
    assert "again" not in dict({one.name: one for one in schema_of(few).spreads}["result"].beside)


def test_a_damaged_schema_is_an_error() -> None:
    raw = json.loads(schema_of(lab()).to_json())
    raw["spreads"][0]["beside"][0][0] = "nothing"
    with pytest.raises(RunError, match="spreads do not fit the columns"):
        Schema.from_json(json.dumps(raw))
    with pytest.raises(ValueError, match="the spread does not fit its columns"):
        Spread(name="a", logs=False, apart=1.0, beside=(("a", 0.5),))
