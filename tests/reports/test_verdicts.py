"""Each verdict by its threshold, on numbers that are made up."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from vgi_cli.columns.base import ModelledColumn
from vgi_cli.encoding.infer import infer_schema
from vgi_cli.methods.plmcmc import MOST_STRAIN
from vgi_cli.reports import kinds
from vgi_cli.reports.kinds import (
    CELLS_A_CODE,
    CHANCE,
    CODE_GAIN,
    KEY,
    MOST_CODES,
    _explained_as_labels,
    unless_predicted,
)
from vgi_cli.reports.kinds import suspicions as all_suspicions
from vgi_cli.reports.values import (
    AtShift,
    Calibration,
    Chains,
    ColumnNumbers,
    Facts,
    Hidden,
    Imputing,
    Level,
    Likelihood,
    Missingness,
    Mixing,
    Nothing,
    Numbers,
    OddRow,
    Pooled,
    Tipping,
    Together,
    Training,
)
from vgi_cli.reports.verdicts import STRAIN, judge, worst_first
from vgi_cli.table.frames import from_frame

COLUMN = ColumnNumbers(
    *("a", "numeric", 90, 10, 0.0, 1.0, 0.1, 1.0, 0.1, 0.01, 0.2, 0.0, None, None),
    pooled=Pooled(0.0, 0.1, 0.1),
    mixing=Mixing(1.01, 1.02, 200.0, 0.6, False),
    hidden=Hidden(100, "crps", 0.5, 1.0, 0.5, 0.9),
    unseen=None,
)
GOOD = Numbers(
    facts=Facts("run1", "t.csv", 100, 100, 2, "flow", "vgi", {}, {}, 0, {}, "cpu", "0", 0),
    training=Training("objective", 50, 50, 1000, "epochs", True, "curve", 0.01, None),
    contest=None,
    missingness=Missingness(100, 200, 10, 90, 0, [], 2, [], 0),
    imputing=Imputing(5, 100, 100, "metropolis", None),
    columns=[COLUMN, replace(COLUMN, name="b")],
    chains=Chains("traced", "", 10, 4, 120, 0.6, 0.05),
    calibration=Calibration(100, 200, 19, 0.5, 0.9),
    holdout=Calibration(100, 200, 19, 0.4, 0.89),
    likelihood=Likelihood(100, "exact", -1.0, [OddRow(3, {}, 2, -3.0, 2.0, 20.0)]),
    notes=[],
)


def levels(numbers: Numbers, about: str) -> set[Level]:
    return {verdict.level for verdict in judge(numbers) if verdict.about == about}


def with_column(**changes: Any) -> Numbers:
    return replace(GOOD, columns=[replace(COLUMN, **changes), replace(COLUMN, name="b")])


def with_training(**changes: Any) -> Numbers:
    assert GOOD.training is not None
    return replace(GOOD, training=replace(GOOD.training, **changes))


def test_nothing_is_held_against_a_good_fit() -> None:
    assert {verdict.level for verdict in judge(GOOD)} == {"good"}
    assert len({verdict.about for verdict in judge(GOOD)}) == 8


@pytest.mark.parametrize(
    ("numbers", "level"),
    [
        (with_training(finished=False), "bad"),
        (with_training(rise=0.05, steps=300), "bad"),
        (with_training(rise=0.05, steps=5000), "look"),
        (with_training(rise=0.05, stopped_by="converged"), "good"),
        (with_training(rise=None, judged_by="nothing", steps=10), "bad"),
        (with_training(rise=None, judged_by="nothing", steps=5000), "look"),
        (with_training(judged_by="held-out", rise=0.05), "look"),
        (with_training(judged_by="held-out", rise=0.05, stopped_by="early_stopping"), "good"),
        (with_training(judged_by="held-out", rise=0.01), "good"),
        (with_training(judged_by="em", rise=0.05), "bad"),
        (with_training(strain=1.9), "good"),
        (replace(GOOD, training=None), "unknown"),
    ],
)
def test_training(numbers: Numbers, level: Level) -> None:
    assert levels(numbers, "training") == {level}


def contest(cells: float, coverage: float | None, **about: float) -> Numbers:
    best = {"title": "best", "cells": 0.2, "coverage": 0.9, "chosen": False}
    taken = {"title": "taken", "cells": cells, "coverage": coverage, "chosen": True}
    return replace(GOOD, contest={"score": "loglik", "rows": 100, **about, "candidates": [best, taken]})


@pytest.mark.parametrize(
    ("odd", "text"),
    [(1, "row 0."), (4, "rows 0, 1, 2, 3."), (6, "rows 0, 1, 2, 3 and 2 more."), (9, "at least 5 more.")],
)
def test_rows_that_are_not_named_are_counted(odd: int, text: str) -> None:
    lowest = [OddRow(i, {}, 2, -3.0, 30.0 if i < odd else 2.0, 20.0) for i in range(9)]
    (told,) = (v for v in judge(replace(GOOD, likelihood=Likelihood(100, "exact", -1.0, lowest))) if v.about == "rows")
    assert told.level == "look" and text in told.text


@pytest.mark.parametrize(("cells", "coverage", "level"), [(40, 0.6, "look"), (40, 0.75, "good"), (20, 0.5, "good")])
def test_intervals_of_one_column_that_are_too_narrow(cells: int, coverage: float, level: Level) -> None:
    told = [
        verdict
        for verdict in judge(with_column(hidden=Hidden(cells, "crps", 0.5, 1.0, 0.5, coverage)))
        if verdict.text.startswith("Hidden cells")
    ]
    assert [verdict.level for verdict in told] == [level]
    assert ("of 'a' lie in their 90 % intervals less often" in told[0].text) == (level == "look")


@pytest.mark.parametrize(
    ("count", "last"),
    [
        (4, "Column 'c3' (numeric) may be of a wrong kind: why."),
        (5, "Column 'c4' may be of a wrong kind too: --json says why of each."),
        (40, "Columns 'c4', 'c5', 'c6', 'c7' and 32 more may be of a wrong kind too: --json says why of each."),
    ],
)
def test_of_many_doubtful_columns_the_first_are_explained(count: int, last: str) -> None:
    columns = [replace(COLUMN, name=f"c{i}", suspicion="why") for i in range(count)]
    told = [verdict for verdict in judge(replace(GOOD, columns=columns)) if verdict.about == "columns"]
    assert {verdict.level for verdict in told} == {"bad"} and told[-1].text == last
    assert len(told) == min(count, 5)


@pytest.mark.parametrize(
    ("cells", "coverage", "level", "text"),
    [
        (0.52, 0.81, "good", "48% better than their columns alone"),
        (0.98, None, "good", "2% better than their columns alone"),
        (1.01, 0.88, "look", "no better than their columns alone (score 1.01, 1 is theirs)"),
        (0.5, 0.79, "look", "too narrow for cells that it never saw: 79% lie in their range, 90% should"),
    ],
)
def test_comparison_of_models(cells: float, coverage: float | None, level: Level, text: str) -> None:
    """The model that was taken is judged, which need not be the best of its line."""
    (told,) = (verdict for verdict in judge(contest(cells, coverage)) if verdict.about == "contest")
    assert told.level == level and text in told.text
    assert len([v for v in judge(contest(1.2, 0.5)) if v.about == "contest" and v.level == "look"]) == 2


def test_the_share_in_the_range_of_draws_is_judged_by_what_it_should_be() -> None:
    """Nine elevenths of the numbers lie in the range of ten draws of their own law."""
    (fine,) = (v for v in judge(contest(0.5, 0.75, calibrated=9 / 11)) if v.about == "contest")
    (narrow,) = (v for v in judge(contest(0.5, 0.7, calibrated=9 / 11)) if v.about == "contest")
    assert fine.level == "good" and narrow.level == "look" and "in their range, 82% should." in narrow.text


def test_a_single_fill_far_outside_is_named_with_how_far() -> None:
    (told,) = (verdict for verdict in judge(with_column(outside=0.001, furthest=9.04)) if verdict.about == "fills")
    assert told.level == "look" and "up to 9.0 standard deviations beyond it ('a')" in told.text


def test_chains_of_a_fit_that_do_not_follow_their_rows() -> None:
    first, second = (v for v in judge(with_training(strain=9.01)) if v.about == "training")
    assert (first.level, second.level) == ("look", "good") and "(strain 9.01, 1 is right)" in first.text
    assert STRAIN == MOST_STRAIN  # the fit warns from there on too


@pytest.mark.parametrize(
    ("numbers", "about", "level"),
    [
        (replace(GOOD, missingness=replace(GOOD.missingness, missing=0)), "missingness", "good"),
        (replace(GOOD, missingness=replace(GOOD.missingness, empty_rows=1)), "missingness", "look"),
        (
            replace(
                GOOD,
                missingness=replace(GOOD.missingness, never_together=[("a", "b")], never_together_in_all=2),
            ),
            "missingness",
            "look",
        ),
        (with_column(observed=40, missing=60), "missingness", "look"),
        (with_column(suspicion="a key"), "columns", "bad"),
        (with_column(missing=1000, observed=2000, outside=0.2), "fills", "look"),
        (with_column(missing=1000, observed=2000, outside=0.4), "fills", "bad"),
        (with_column(missing=1000, observed=2000, outside=0.1, furthest=9.0), "fills", "bad"),
        (with_column(missing=3, observed=6, outside=0.4), "fills", "good"),
        (with_column(outside=0.02, furthest=4.9), "fills", "good"),
        (with_column(outside=0.001, furthest=9.0), "fills", "look"),
        (with_column(extrapolated=0.3, extrapolated_by="b"), "fills", "look"),
        (with_column(mixing=Mixing(1.15, 1.0, 50.0, 0.6, False)), "chains", "look"),
        (with_column(mixing=Mixing(1.0, 1.4, 50.0, 0.6, False)), "chains", "bad"),
        (with_column(mixing=Mixing(1.0, 1.0, 50.0, 0.1, False)), "chains", "look"),
        (with_column(mixing=Mixing(1.0, 1.0, 50.0, 0.01, False)), "chains", "bad"),
        (with_column(mixing=Mixing(None, None, 0.0, None, True)), "chains", "bad"),
        (replace(GOOD, chains=Chains("exact", "")), "chains", "good"),
        (replace(GOOD, chains=Chains("stored", "")), "chains", "unknown"),
        (replace(with_column(mixing=None), chains=Chains("told", "", memory=0.4)), "chains", "look"),
        (replace(with_column(mixing=None), chains=Chains("told", "", memory=0.7)), "chains", "bad"),
        (replace(GOOD, chains=Chains("traced", "", apart=0.2)), "chains", "look"),
        (replace(GOOD, chains=Chains("traced", "", apart=0.8)), "chains", "bad"),
        (replace(GOOD, columns=[replace(COLUMN, mixing=None)], chains=Chains("told", "")), "chains", "unknown"),
        (with_column(hidden=Hidden(100, "crps", 1.3, 1.0, -0.3, 0.9)), "calibration", "bad"),
        (with_column(hidden=Hidden(10, "crps", 1.3, 1.0, -0.3, 0.9)), "calibration", "good"),
        (
            replace(GOOD, columns=[replace(COLUMN, hidden=Hidden(6, "crps", 0.5, 1.0, 0.5, 0.9))]),
            "calibration",
            "unknown",
        ),
        (with_column(unseen=Hidden(100, "crps", 1.3, 1.0, -0.3, 0.9)), "calibration", "bad"),
        (replace(GOOD, calibration=Calibration(100, 200, 19, 0.5, 0.6)), "calibration", "bad"),
        (replace(GOOD, calibration=Calibration(100, 200, 19, 0.5, 0.75)), "calibration", "look"),
        (replace(GOOD, calibration=Calibration(100, 200, 19, 0.5, 1.0)), "calibration", "good"),
        (replace(GOOD, calibration=Calibration(100, 200, 19, 0.0, 0.9)), "calibration", "look"),
        (replace(GOOD, holdout=None), "calibration", "unknown"),
        (replace(GOOD, calibration=Calibration(5, 4, 19, None, None)), "calibration", "unknown"),
        (replace(GOOD, likelihood=Likelihood(9, "exact", -1.0, [OddRow(3, {}, 2, -99.0, 50.0, 20.0)])), "rows", "look"),
        (with_column(pooled=Pooled(0.0, 0.1, 0.7)), "information", "look"),
    ],
)
def test_thresholds(numbers: Numbers, about: str, level: Level) -> None:
    found = levels(numbers, about)
    assert level in found if level != "good" else found == {"good"}
    if level in ("look", "bad", "unknown"):
        assert found <= {level, "good"}


@pytest.mark.parametrize(
    ("pair", "level"),
    [
        (Together(("a", "b"), 200, 100, 0.9, 0.85), "good"),
        (Together(("a", "b"), 200, 100, 0.9, 0.05), "look"),
        (Together(("a", "b"), 200, 100, None, 0.05), "good"),
        (Together(("a", "b"), 30, 20, 0.9, 0.2), "good"),  # within the error of so few
        (Together(("a", "b"), 200, 19, 0.9, -0.9), "unknown"),
    ],
)
def test_pairs_of_columns(pair: Together, level: Level) -> None:
    assert levels(replace(GOOD, pairs=[pair]), "pairs") == {level}


def test_what_is_said_of_pairs_that_agree_is_what_was_measured() -> None:
    """Correlations, and of so many pairs: rules that fills break do not show in them."""
    pair = Together(("a", "b"), 200, 100, 0.9, 0.85)
    further = Together(("a", "c"), 200, 100, 0.3, -0.05)
    cases = (
        ([pair], "1 pair of", "0.05 apart", "'a' and 'b': 0.85 and 0.90"),
        ([pair, further], "2 pairs of", "0.35 apart", "'a' and 'c': -0.05 and 0.30"),
    )
    for pairs, count, apart, which in cases:
        (said,) = [one for one in judge(replace(GOOD, pairs=pairs)) if one.about == "pairs"]
        assert said.level == "good" and said.text == (
            f"Rank correlations (of {count} columns of numbers, those drawn here) are at most {apart} in rows with "
            f"fills and in observed rows ({which}). Up to 0.4, beside the error of so many rows, may come of which "
            "rows have holes. Whether fills keep to rules between columns is not measured here."
        )


@pytest.mark.parametrize(("holes", "words"), [(1, "1 hole lies in rows"), (1583, "1,583 holes lie in rows")])
def test_holes_of_questions_that_were_not_asked(holes: int, words: str) -> None:
    flags = "--leave-blank opacity:fuel=petrol"
    numbers = replace(GOOD, not_asked=Nothing(["opacity"], holes, flags))
    (said,) = [one for one in judge(numbers) if one.about == "fills" and one.level == "look"]
    assert said.text == (
        f"{words} that may not have been asked for 'opacity': by an observed cell of the row, no such row of the fit "
        "has an answer there. If the question does not apply, fills there mean nothing (vgi impute --leave-blank "
        "opacity:fuel=petrol leaves them blank)."
    )


@pytest.mark.parametrize(("holes", "words"), [(1, "1 hole of 'log' lies"), (12, "12 holes of 'log' lie")])
def test_holes_that_have_no_value(holes: int, words: str) -> None:
    numbers = replace(GOOD, undefined=Nothing(["log"], holes, "--leave-blank log:sales=0"))
    (said,) = [one for one in judge(numbers) if one.about == "fills" and one.level == "look"]
    assert said.text == (
        f"{words} in rows whose observed cells leave the column no value (a ratio to 0, a logarithm of 0): fills there "
        "mean nothing (vgi impute --leave-blank log:sales=0 leaves them blank)."
    )


def test_columns_of_most_concern_come_first() -> None:
    columns = [
        replace(COLUMN, name="good"),
        replace(COLUMN, name="key", suspicion="a key"),
        replace(COLUMN, name="stuck", mixing=Mixing(2.0, 1.0, 5.0, 0.5, False)),
        replace(COLUMN, name="holes", observed=10, missing=90),
    ]
    assert [column.name for column in worst_first(columns)] == ["key", "stuck", "holes", "good"]


def columns_of(table: dict[str, list[Any]], **kinds: str) -> tuple[tuple[ModelledColumn, ...], np.ndarray, np.ndarray]:
    """The columns of a table, their codes [n, columns], and which hold numbers."""
    import pandas as pd

    read = from_frame(pd.DataFrame(table))
    schema, _ = infer_schema(read, kinds=kinds)
    codes = np.stack([column.codes(read.column(column.name)) for column in schema.encoded], 1)
    return schema.encoded, codes, np.array([not max(column.level_counts) for column in schema.encoded])


def suspicions(table: dict[str, list[Any]], **kinds: str) -> dict[str, str | None]:
    columns, codes, numeric = columns_of(table, **kinds)
    found, whole = all_suspicions(columns, codes, numeric, codes.T)
    assert whole
    return {column.name: why for column, why in zip(columns, found, strict=True)}


def test_kinds_that_are_wrong_and_kinds_that_are_not() -> None:
    draw = np.random.default_rng(0)
    n = 300
    code = draw.integers(1, 13, n)
    effect = draw.normal(size=13) * 3
    x = draw.normal(size=n)
    marked = np.where(draw.random(n) < 0.1, -999.0, x)
    table: dict[str, list[Any]] = {
        "key": draw.permutation(n).tolist(),
        "code": code.tolist(),
        "effect": (effect[code] + 0.3 * draw.normal(size=n)).tolist(),
        "marked": marked.tolist(),
        "numbers": draw.integers(0, 30, n).tolist(),
        "count": draw.poisson(5, n).tolist(),
        "x": x.tolist(),
        "money": np.round(np.exp(draw.normal(10, 1, n))).tolist(),
    }
    said = {"code": "integer", "numbers": "categorical", "key": "integer", "count": "integer"}
    found = suspicions(table, **said)
    assert "number the rows" in str(found["key"])
    assert "as labels its values explain 'effect'" in str(found["code"])
    assert "-999" in str(found["marked"]) and "categories are all numbers" in str(found["numbers"])
    assert [found[name] for name in ("effect", "count", "x", "money")] == [None] * 4


def test_a_quantity_of_few_values_is_no_code() -> None:
    draw = np.random.default_rng(1)
    dose = draw.integers(1, 11, 400)
    table = {"dose": dose.tolist(), "answer": (0.5 * dose + np.sqrt(dose) + draw.normal(size=400)).tolist()}
    assert suspicions(table, dose="integer") == {"dose": None, "answer": None}


def test_a_list_price_far_above_the_others_is_no_mark_for_missing() -> None:
    draw = np.random.default_rng(0)
    prices = np.array([9.9, 19.9, 49, 129, 899])
    listed = prices[draw.choice(5, 500, p=[0.3, 0.25, 0.2, 0.2, 0.05])]
    table: dict[str, list[Any]] = {
        "price": listed.tolist(),
        "marked": np.where(listed == 899, 9999, listed).tolist(),
        "below": np.where(listed == 899, -1000, listed).tolist(),
        "free": np.where(listed == 899, 899, draw.uniform(9, 130, 500).round(2)).tolist(),
    }
    found = suspicions(table, **dict.fromkeys(table, "numeric"))
    assert found["price"] is None
    assert "9999" in str(found["marked"]) and "-1000" in str(found["below"]) and "899" in str(found["free"])


def test_what_relations_explain_is_no_mark_and_what_is_predicted_no_key() -> None:
    draw = np.random.default_rng(0)
    columns, codes, numeric = columns_of({"a": np.where(draw.random(300) < 0.1, 800, draw.normal(size=300)).tolist()})
    assert all_suspicions(columns, codes, numeric, codes.T).found != [None]
    assert all_suspicions(columns, codes, numeric, codes.T, told=["a"]).found == [None]
    assert unless_predicted(KEY, 0.97) is None and unless_predicted("why", 0.97) == "why"
    assert unless_predicted(KEY, 0.1) == unless_predicted(KEY, None) == KEY


def test_a_bent_quantity_and_far_cells_are_no_code() -> None:
    """Of pixels a few dark rows are far from all others in every column, and each has values of its own."""
    draw = np.random.default_rng(2)
    pixel = draw.integers(200, 230, 600)
    other = 0.3 * (pixel - 215) + draw.normal(size=600)
    dark = np.arange(12)
    pixel[dark], other[dark] = 90 + 7 * dark, draw.normal(size=12) * 60
    step = np.where(draw.permutation(600) < 300, 0.0, 40.0)
    table = {"pixel": pixel.tolist(), "other": other.tolist(), "level": (step / 4 + draw.integers(0, 9, 600)).tolist()}
    table["stepped"] = (step + draw.normal(size=600)).tolist()
    assert set(suspicions(table, pixel="integer", level="integer").values()) == {None}


def test_in_few_rows_of_many_columns_chance_makes_no_codes() -> None:
    draw = np.random.default_rng(3)
    table: dict[str, list[Any]] = {f"y{i}": draw.normal(size=60).tolist() for i in range(300)}
    table["few"] = draw.integers(1, 11, 60).tolist()
    assert suspicions(table, few="integer")["few"] is None


def plainly(place: int, codes: np.ndarray) -> int | None:
    """What `_explained_as_labels` finds, by one regression after the other on the cells themselves."""
    own = codes[:, place]
    best, found = CODE_GAIN, None
    if not 4 <= len(np.unique(own[np.isfinite(own)])) <= MOST_CODES:
        return None
    for other in sorted({*range(codes.shape[1])} - {place}):
        both = np.isfinite(own) & np.isfinite(codes[:, other])
        x, y = own[both], codes[both, other]
        _, at, counts = np.unique(x, return_inverse=True, return_counts=True)
        x, y = x[counts[at] >= CELLS_A_CODE], y[counts[at] >= CELLS_A_CODE]
        labels, at = np.unique(x, return_inverse=True)
        if len(labels) < 4 or np.ptp(y) == 0:
            continue
        groups = [y[at == label] for label in range(len(labels))]
        means = np.array([group.mean() for group in groups])
        next_to = [groups[max(i - 1, 0) : i] + groups[i + 1 : i + 2] for i in range(len(labels))]
        beside = np.array([np.concatenate(some).mean() for some in next_to])
        cubic = np.polynomial.Polynomial.fit(x, y, 3, full=True)[0](x)  # full: it does not warn

        def explained(y: np.ndarray, fitted: np.ndarray, parameters: int) -> float:
            return float(1 - np.square(y - fitted).sum() / max(len(y) - parameters, 1) / y.var(ddof=1))

        as_quantity = max(explained(y, cubic, 4), explained(y, beside[at], 1), 0.0)
        L = len(labels)
        chance = CHANCE * math.sqrt(2 * (L - 1)) / max(len(x) - L, 1)
        gain = explained(y, means[at], L) - as_quantity - chance
        if gain > best:
            best, found = gain, other
    return found


def any_column(draw: np.random.Generator, code: np.ndarray, effect: np.ndarray) -> np.ndarray:
    """A column of one of many kinds, some of which a code explains, perhaps with holes."""
    n = len(code)
    far = effect[code] * 1e-9 + 1e-10 * draw.normal(size=n)  # all but one cell vary next to nothing beside it
    far[draw.integers(n)] = 1e9
    almost = np.full(n, 2.5)
    almost[: draw.integers(3)] = 7
    column = (
        draw.integers(0, draw.integers(3, 40), n),
        code,
        effect[code] + draw.normal(size=n) * draw.uniform(0.1, 2),
        np.sqrt(code) + 0.3 * draw.normal(size=n),
        draw.poisson(draw.uniform(1, 8), n),
        draw.choice([0, 1, 2, 3, 10**9], n, p=[0.3, 0.3, 0.2, 0.19, 0.01]),
        np.array([1, 2, 4, 8, 16, 32, 64, 1000, 10**6])[draw.integers(0, 9, n)],
        almost,
        far,
    )[draw.integers(9)].astype(float)
    if draw.random() < 0.5:
        column[draw.random(n) < draw.uniform(0, 0.7)] = np.nan
    return column


def test_codes_are_found_by_sums_over_groups_as_by_single_regressions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether columns are looked at in parts or all at once."""
    codes = 0
    for seed in range(80):
        draw = np.random.default_rng(seed)
        n, P = int(draw.choice([30, 60, 200])), int(draw.integers(3, 12))
        code, effect = draw.integers(0, draw.integers(4, 20), n), draw.normal(size=20) * draw.uniform(0, 9)
        table = np.stack([any_column(draw, code, effect) for _ in range(P)], 1)
        expected = {place: found for place in range(P) if (found := plainly(place, table)) is not None}
        for together in (kinds.TOGETHER, 700):
            with monkeypatch.context() as patch:
                patch.setattr(kinds, "TOGETHER", together)
                assert _explained_as_labels(range(P), table, np.ones(P, bool), lambda share: True) == (expected, True)
        codes += len(expected)
    assert codes > 10


def test_codes_are_looked_for_as_long_as_there_is_time() -> None:
    draw = np.random.default_rng(0)
    code = draw.integers(0, 12, 300)
    table = {f"code{i}": draw.permutation(12)[code].tolist() for i in range(4)}
    columns, codes, numeric = columns_of(table, **dict.fromkeys(table, "integer"))
    shares: list[float] = []

    def go_on(share: float) -> bool:
        shares.append(share)
        return share < 0.5

    found, whole = all_suspicions(columns, codes, numeric, codes.T, go_on)
    assert shares == [0, 0.25, 0.5] and not whole
    assert ["as labels" in str(why) for why in found] == [True, True, False, False]


TIP = Tipping(
    *("a", 0.1, "", "", 5.0, False, "5"),
    shifts=[AtShift(sd, 3 * sd, 5 + sd, 4 + sd, 6 + sd, 0.0) for sd in (-2.0, 0.0, 2.0)],
    below=-0.8,
    above=1.0,
)


@pytest.mark.parametrize(
    ("changes", "level", "text"),
    [
        (
            {},
            "good",
            "The 95 % interval of the mean of 'a' (10% missing) holds the mean without a shift, 5, without a shift of "
            "its fills; this ends at -0.8 sd (-2.4) and +1 sd (+3).",
        ),
        ({"below": -0.5}, "look", "so small a shift can seldom be ruled out"),
        (
            {"below": None, "above": None},
            "good",
            "holds the mean without a shift, 5, at every shift of its fills up to 2",
        ),
        ({"against": 3.0, "asked": True, "text": "3", "above": None}, "good", "lies above 3 without a shift"),
        ({"against": 9.0, "asked": True, "text": "9", "below": None}, "good", "lies below 9 without a shift"),
        ({"unit": "days"}, "good", "-0.8 sd (-2.4 days)"),
        ({"share": 0.0}, "good", "No cell of 'a' is missing"),
    ],
)
def test_tipping(changes: dict[str, Any], level: Level, text: str) -> None:
    (verdict,) = (v for v in judge(replace(GOOD, tipping=[replace(TIP, **changes)])) if v.about == "tipping")
    assert verdict.level == level and text in verdict.text


def test_what_is_not_known_of_unseen_cells_beside_a_comparison_of_models() -> None:
    """It has hidden cells from the models itself, so that something is known."""
    numbers = replace(GOOD, holdout=None)
    alone = [one.text for one in judge(replace(numbers, contest=None)) if one.about == "calibration"]
    assert alone[-1].startswith("How well a fit predicts cells that it never saw is not known: ")
    league = {"candidates": [{"chosen": True, "cells": 0.3, "coverage": 0.9}], "calibrated": 0.82}
    beside = [one.text for one in judge(replace(numbers, contest=league))]
    assert any("predicts hidden cells 70% better" in text for text in beside)
    assert not any("predicts cells that it never saw is not known" in text for text in beside)
    assert any("nor how well in each column: the comparison scored the models alone" in text for text in beside)
