"""Scores that were computed from the items that are there say nothing of those that are missing: they are found, and
left aside where some are."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vgi_cli
from vgi_cli.columns.prorated import Prorated
from vgi_cli.columns.schema import Schema
from vgi_cli.columns.wording import named
from vgi_cli.encoding.encoder import encode
from vgi_cli.encoding.infer import infer_schema, schema_alone
from vgi_cli.encoding.prorated import prorated_among
from vgi_cli.encoding.sums import CodedRows
from vgi_cli.errors import RunError
from vgi_cli.table.fills import absent
from vgi_cli.table.frames import from_frame

N = 300
ITEMS = [f"q{j}" for j in range(1, 7)]


def answers(seed: int = 0, least: int = 0) -> pd.DataFrame:
    """Six items of five points, and what goes with them."""
    rng = np.random.default_rng(seed)
    trait = rng.normal(0, 0.9, N)
    items = np.clip(np.round(2 + trait[:, None] + rng.normal(0, 0.9, (N, 6))), 0, 4) + least
    return pd.DataFrame(items, columns=ITEMS).assign(reading=np.round(50 + 6 * trait + rng.normal(0, 8, N)))


def holed(frame: pd.DataFrame, share: float = 0.1) -> pd.DataFrame:
    some = np.random.default_rng(9).random(frame.shape) < share
    return frame.mask(some & np.isin(frame.columns, ITEMS))


def answered(frame: pd.DataFrame) -> pd.DataFrame:
    return frame[ITEMS].where(frame[ITEMS].notna().sum(axis=1) >= 4)


def mean(frame: pd.DataFrame) -> pd.Series:
    return answered(frame).mean(axis=1)


CASES = {
    "rounded": lambda frame: mean(frame).round(2),
    "not rounded": mean,
    "sum": lambda frame: (6 * mean(frame)).round(),
    "of some that count the other way round": lambda frame: (
        answered(frame.assign(q2=4 - frame.q2, q5=4 - frame.q5)).mean(axis=1).round(2)
    ),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("first", [False, True])
def test_they_are_found(case: str, first: bool) -> None:
    frame = holed(answers())
    score = CASES[case](frame)
    frame.insert(0 if first else 7, "score", score)
    schema = schema_alone(from_frame(frame))
    (one,) = schema.prorated
    assert one.name == "score" and sorted(one.others) == ITEMS and one.whole
    some = frame[ITEMS].isna().any(axis=1) & score.notna()
    table = from_frame(frame)
    assert (absent(table, schema)[:, schema.modelled.index("score")] == (some | score.isna())).all()
    places = schema.layout.slices[schema.modelled.index("score")]
    missing = encode(table, schema, seed=0).table.missing
    assert (missing[:, places].all(1).numpy() == (some | score.isna())).all()
    assert (missing[:, places.stop :].any(0).sum()) == (6 if first else 0)  # the items' own holes alone
    assert Schema.from_json(schema.to_json()).prorated == schema.prorated
    (line,) = [line for line in infer_schema(table)[1] if "is computed from" in line]
    assert line == (
        f"'score' is computed from those of {named('column', one.others)} that are there (in proportion), in "
        f"{some.sum()} rows that lack some: it says nothing of these, and the model does not look at it there; 'score' "
        "stays as it is, compute it anew from the filled ones"
    )


def test_a_sum_in_which_what_is_missing_counts_as_nothing() -> None:
    """Where 0 is no answer; else it may be one (an expense that there was none of)."""
    frame = holed(answers(least=1))
    (one,) = schema_alone(from_frame(frame.assign(score=frame[ITEMS].sum(axis=1)))).prorated
    assert one.name == "score" and not one.whole
    assert "as if the others were 0" in " ".join(
        infer_schema(from_frame(frame.assign(score=frame[ITEMS].sum(axis=1))))[1]
    )
    frame = holed(answers())
    assert not schema_alone(from_frame(frame.assign(score=frame[ITEMS].sum(axis=1)))).prorated


@pytest.mark.parametrize("case", ["rounded", "not rounded", "sum"])
def test_a_score_of_all_items_is_none_though_some_were_lost_later(case: str) -> None:
    frame = answers()
    frame = holed(frame.assign(score=CASES[case](frame)))
    schema = schema_alone(from_frame(frame))
    assert schema.relations and not schema.prorated
    assert not any("is computed from" in line for line in infer_schema(from_frame(frame))[1])


def test_what_is_computed_from_one_says_as_little() -> None:
    frame = holed(answers())
    score = mean(frame).round(2)
    more = answers(3)["q1"]
    frame = frame.assign(score=score, t=(20 + 10 * score).round(1), more=more, all=(score + more).round(2))
    schema = schema_alone(from_frame(frame))
    hidden = absent(from_frame(frame), schema)
    some = (frame[ITEMS].isna().any(axis=1) & score.notna()).to_numpy()
    for name in ("score", "t", "all"):
        assert (hidden[:, schema.modelled.index(name)] == some | score.isna().to_numpy()).all()
    assert not hidden[:, schema.modelled.index("more")].any()
    assert "nor does it look there at columns 't', 'all', computed from that" in infer_schema(from_frame(frame))[1]


def test_a_column_from_which_one_is_computed_says_as_little() -> None:
    """Its total, of which it is the rounded sixth."""
    frame = holed(answers())
    total = 6 * mean(frame)
    frame.insert(0, "total", total)
    frame = frame.assign(score=(total / 6).round(2))
    schema = schema_alone(from_frame(frame))
    hidden = absent(from_frame(frame), schema)
    some = (frame[ITEMS].isna().any(axis=1) & total.notna()).to_numpy()
    for name in ("total", "score"):
        assert (hidden[:, schema.modelled.index(name)] == some | total.isna().to_numpy()).all()


def test_the_top_of_a_scale_is_known_better_than_the_constant_of_a_rounded_score() -> None:
    """1.33 of items from 0 to 4 of which two count the other way round: 4 / 6 each."""
    frame = holed(answers())
    frame["score"] = CASES["of some that count the other way round"](frame)
    table = from_frame(frame)
    schema = schema_alone(table)
    (one,) = schema.relations
    assert one.constant == 1.33
    (score,) = prorated_among(CodedRows.of(table, schema), schema.relations)
    assert score.constants == pytest.approx([0, 2 / 3, 0, 0, 2 / 3, 0], abs=1e-12)


@given(st.lists(st.one_of(st.none(), st.integers(0, 4)), min_size=4, max_size=4))
def test_a_score_is_that_of_the_items_that_are_there(cells: list[int | None]) -> None:
    items = pd.Series(cells, dtype=float)
    names, weights, none = ("a", "b", "c", "d"), (0.25,) * 4, (0.0,) * 4
    whole = Prorated(name="s", others=names, weights=weights, constants=none, half=0.0)
    assert np.allclose(whole.score(items.to_numpy()), items.mean(), equal_nan=True)
    turned = Prorated(name="s", others=names, weights=(0.25, -0.25, 0.25, 0.25), constants=(0, 1, 0, 0), half=0.0)
    assert np.allclose(turned.score(items.to_numpy()), items.where(items.index != 1, 4 - items).mean(), equal_nan=True)
    plain = Prorated(name="s", others=names, weights=(1.0,) * 4, constants=none, half=0.0, whole=False)
    assert np.allclose(plain.score(items.to_numpy()), items.sum(min_count=1), equal_nan=True)
    for one in (whole, turned, plain):
        said = one.score(items.to_numpy())
        assert one.silent(said, items.to_numpy()) == (bool(items.isna().any()) and bool(items.notna().any()))
        assert not one.silent(said + 0.1, items.to_numpy())


@pytest.mark.parametrize("spoiled", [{"name": "else"}, {"others": ["q1"]}, {"weights": [0, 1]}, {"half": -1}])
def test_scores_that_do_not_fit_are_refused(spoiled: dict[str, object]) -> None:
    frame = holed(answers())
    raw = json.loads(schema_alone(from_frame(frame.assign(score=mean(frame)))).to_json())
    raw["prorated"][0] |= spoiled
    with pytest.raises(RunError, match=r"schema\.json"):
        Schema.from_json(json.dumps(raw))


@pytest.mark.parametrize("case", ["rounded", "sum"])
def test_fills_are_not_drawn_to_the_mean_of_the_others(case: str) -> None:
    """They are as far from it as items are, and no observed cell is changed."""
    true = answers(1)
    frame = holed(true)
    frame["score"] = CASES[case](frame)
    run = vgi_cli.fit(frame, model="mixture", set={"model.components": 1, "bootstrap": 0})
    lost = (frame[ITEMS].isna() & (frame[ITEMS].notna().sum(axis=1) >= 4).to_numpy()[:, None]).to_numpy()
    centre, spreads = frame[ITEMS].mean(axis=1), []
    for filled in run.impute(m=5):
        assert filled.notna().all(axis=None)
        assert (filled.where(frame.notna()).fillna(-1) == frame.fillna(-1)).all(axis=None)
        spreads.append(filled[ITEMS].sub(centre, axis=0).to_numpy()[lost].std())
    others = np.stack([true[ITEMS].drop(columns=name).mean(axis=1) for name in ITEMS], 1)
    assert np.mean(spreads) == pytest.approx((true[ITEMS] - others).to_numpy().std(), rel=0.1)
