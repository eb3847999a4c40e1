"""Truth values written as 0 and 1 are parts of sums, as numbers are: found, and kept by fills."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tests.encoding.test_relations import codes_in, hidden, holed, kept, schema_of
from tests.selection import first
from vgi_cli.columns.relations import Relation
from vgi_cli.columns.schema import Schema
from vgi_cli.encoding.redrawing import Checks

ITEMS = list("abcde")


def scored(seed: int = 0, n: int = 400) -> pd.DataFrame:
    """Five symptoms, their number, their mean and a score with weights, a count with a rare event, and numbers that
    have nothing to do with them."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame((rng.random((n, 5)) < [0.3, 0.4, 0.2, 0.5, 0.6]).astype(int), columns=ITEMS)
    frame["x"] = rng.normal(size=n).round(2)
    frame["score"] = frame[ITEMS].sum(axis=1)
    frame["mean"] = frame[ITEMS].sum(axis=1) / 5
    frame["weighted"] = frame.a + 2 * frame.b + 2 * frame.d + frame.e
    frame[["u", "v"]] = rng.poisson([2, 3], (n, 2))
    frame["total"] = frame.u + frame.v + (rng.random(n) < 0.1)
    frame["rare"] = frame.total - frame.u - frame.v
    return frame


def sums(schema: Schema) -> dict[str, Relation]:
    return {one.names[0]: one for one in schema.relations if one.how == "sum"}


@pytest.mark.parametrize(
    "levels",
    [
        pytest.param((0, 1), marks=pytest.mark.slow),
        pytest.param(("0.0", "1.0"), marks=pytest.mark.slow),
        (False, True),
    ],
)
def test_sums_means_and_scores_of_truth_values_are_found(levels: tuple[object, object]) -> None:
    frame = scored()
    for name in [*ITEMS, "rare"]:
        frame[name] = frame[name].map(dict(enumerate(levels)))
    schema = schema_of(holed(frame, share=0.1))
    assert {schema.encoded[schema.modelled.index(name)].kind for name in [*ITEMS, "rare"]} == {"boolean"}
    by = sums(schema)
    assert by["score"] == Relation(names=("score", *ITEMS), weights=(1.0, -1.0, -1.0, -1.0, -1.0, -1.0))
    alone = sums(schema_of(holed(frame.drop(columns="score"), share=0.1)))["mean"]
    assert alone.names == ("mean", *ITEMS) and np.allclose(alone.weights[1:], -0.2)
    assert by["weighted"] == Relation(names=("weighted", *"abde"), weights=(1.0, -1.0, -2.0, -2.0, -1.0))
    assert by["total"].words() == "'total' = 'u' + 'v' + 'rare'"
    assert Schema.from_json(schema.to_json()).relations == schema.relations


def test_levels_by_other_names_add_to_nothing() -> None:
    frame = scored()
    frame[ITEMS] = frame[ITEMS].replace({0: "no", 1: "yes"})
    assert "score" not in sums(schema_of(frame))


def test_fills_keep_to_them() -> None:
    frame = scored()[[*ITEMS, "x", "score", "u", "v", "total", "rare"]]
    schema = schema_of(frame)
    rng, holes = np.random.default_rng(1), hidden(frame)
    for name in [*ITEMS, "score", "u", "total", "rare"]:
        holes[name] = rng.random(len(frame)) < 0.3
    for one in kept(frame, holes, schema):
        assert np.isin(one[[*ITEMS, "rare"]], (0, 1)).all()
        assert (one[ITEMS].sum(axis=1) == one.score).all() and (one.u + one.v + one.rare == one.total).all()
        alone = holes[[*ITEMS, "score"]].sum(axis=1) == 1
        assert (one[alone][[*ITEMS, "score"]] == frame[alone][[*ITEMS, "score"]]).all(axis=None)


def test_they_stay_levels_where_a_sum_is_moved_for_an_order() -> None:
    rng, n = np.random.default_rng(0), 400
    frame = pd.DataFrame({"used_beds": rng.poisson(4, n), "extra": (rng.random(n) < 0.4).astype(int)})
    frame["used_total"] = frame.used_beds + frame.extra
    frame["beds_total"] = frame.used_total + rng.poisson(0.7, n)
    schema = schema_of(frame)
    assert "used_total" in sums(schema) and ("used_total", "beds_total") in {(o.low, o.high) for o in schema.orders}
    holes = hidden(frame, "used_total")
    holes["extra"], holes["used_beds"] = rng.random((2, n)) < [[0.7], [0.3]]
    for one in kept(frame, holes, schema):
        assert np.isin(one.extra, (0, 1)).all() and (one.used_beds + one.extra == one.used_total).all()
        known = holes.sum(axis=1) == 2
        assert (one.used_total <= one.beds_total)[known].all()
    true = codes_in(frame, schema)
    tried = true + (np.array(schema.modelled) == "extra") * (frame.index.to_numpy()[:, None] % 3)
    within = Checks(schema, holes.to_numpy()).within(tried, true)
    assert within.tolist() == (tried[:, schema.modelled.index("extra")] <= 1).tolist()


@pytest.mark.parametrize("seed", first(1, [0, 3, 1, 2]))
def test_no_sum_is_found_among_many_truth_values_that_go_together(seed: int) -> None:
    rng, n = np.random.default_rng(seed), (60, 120, 200, 500)[seed]
    traits = rng.normal(size=(n, 3))
    answers = (traits @ rng.normal(size=(3, 40)) + rng.normal(size=(n, 40)) > rng.normal(0.5, 0.8, 40)).astype(int)
    counts = rng.poisson(np.exp(0.3 * traits @ rng.normal(size=(3, 12))))
    frame = pd.DataFrame(np.column_stack([answers, counts]), columns=[f"c{i}" for i in range(52)])
    assert sums(schema_of(frame)) == {}
