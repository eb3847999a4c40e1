"""Scores of draws of levels against closed forms and another library; how they are reported."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from sklearn.metrics import log_loss

from tests.table.helpers import from_text
from vgi_cli.columns.categorical import Categorical
from vgi_cli.columns.level_scores import LEVEL_SCORES, level_scores
from vgi_cli.columns.number import Number
from vgi_cli.columns.scale import Scale
from vgi_cli.encoding.infer import schema_alone
from vgi_cli.evaluation.imputation import score_imputations
from vgi_cli.evaluation.report import imputation_part, make_report, markdown, measures


def draws_of(p: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """[n, cells] levels drawn from probabilities [cells, L]."""
    return (rng.random((n, len(p), 1)) > p.cumsum(1)[:, :-1]).sum(2).astype(float)


def test_by_hand() -> None:
    """Four draws of two cells of three ordered levels: 0 0 1 2 (true 1) and 2 2 2 2 (true 2)."""
    draws = np.array([[0, 2], [0, 2], [1, 2], [2, 2]], float)
    found = level_scores(draws, np.array([1.0, 2.0]), 3, ordered=True)
    assert tuple(found) == LEVEL_SCORES
    assert found["log_score"] == pytest.approx(-(np.log(2 / 7) + np.log(5 / 7)) / 2)
    assert found["error"] == 0.5
    pair = 2 / 12  # two of the four draws in the first level: the only level with two different draws
    assert found["brier"] == pytest.approx((pair + 1 - 2 / 4 + 1 + 1 - 2) / 2)
    first = pair  # P(level 0) against 0
    second = 3 * 2 / 12 - 2 * 3 / 4 + 1  # P(level 0 or 1) against 1
    assert found["rps"] == pytest.approx((first + second) / 2 / 2)
    assert "rps" not in level_scores(draws, np.array([1.0, 2.0]), 3, ordered=False)


@pytest.mark.parametrize("n", [2, 5, 19])
def test_brier_and_rps_are_those_of_the_law_however_few_draws(n: int) -> None:
    rng = np.random.default_rng(n)
    p = np.array([0.5, 0.3, 0.2])
    repeats = 40_000
    for true in range(3):
        truth = np.full(repeats, float(true))
        found = level_scores(draws_of(np.tile(p, (repeats, 1)), n, rng), truth, 3, ordered=True)
        hit = np.arange(3) == true
        assert found["brier"] == pytest.approx(((p - hit) ** 2).sum(), abs=0.02)
        assert found["rps"] == pytest.approx(((p.cumsum() - hit.cumsum())[:2] ** 2).sum() / 2, abs=0.012)


def test_log_score_of_many_draws_is_the_log_loss() -> None:
    rng = np.random.default_rng(0)
    p = rng.dirichlet([2, 2, 2, 2], 200)
    truth = draws_of(p, 1, rng)[0]
    found = level_scores(draws_of(p, 20_000, rng), truth, 4, ordered=False)
    assert found["log_score"] == pytest.approx(log_loss(truth, p, labels=range(4)), abs=0.01)


def test_calibration_error_sees_who_is_too_sure_and_nobody_else() -> None:
    rng = np.random.default_rng(1)
    p = rng.dirichlet([1, 1, 1], 20_000)
    truth = draws_of(p, 1, rng)[0]
    right = level_scores(draws_of(p, 19, rng), truth, 3, ordered=False)
    assert right["ece"] < 0.02  # 10 bins of 20,000 cells: noise of 0.01
    sure = p**3 / (p**3).sum(1, keepdims=True)
    wrong = level_scores(draws_of(sure, 19, rng), truth, 3, ordered=False)
    assert wrong["ece"] == pytest.approx((sure.max(1) - p.max(1)).mean(), abs=0.04)
    assert level_scores(truth[None], truth, 3, ordered=False)["ece"] is None


def test_a_level_that_the_fit_has_not_seen_is_an_error_of_every_draw() -> None:
    draws = np.array([[0.0, 0.0], [1.0, 1.0], [0.0, 0.0]])
    found = level_scores(draws, np.array([2.0, 2.0]), 2, ordered=True)
    assert found["error"] == 1.0
    assert found["log_score"] == pytest.approx(np.log(5))
    assert found["brier"] == pytest.approx(2 / 6 + 1)
    assert found["rps"] == pytest.approx(2 / 6)  # P(level 0) against 0, the worse end
    certain = level_scores(np.zeros((3, 2)), np.array([2.0, 2.0]), 2, ordered=True)
    assert certain["rps"] == 1.0


@pytest.mark.parametrize(
    ("levels", "cells", "codes"),
    [
        (("1", "2"), ["1.0", " 2 ", "2e0", "3"], [0, 1, 1, 2]),
        (("False", "True"), ["true", "FALSE", "yes", "1"], [1, 0, 2, 2]),
        (("Adelie", "Gentoo"), ["adelie", "Gentoo ", "GENTOO", "Chinstrap"], [0, 1, 1, 2]),
        (("a", "A", "b"), ["a", "A", "B", "b"], [0, 1, 2, 2]),
        (("x", "X", "y"), ["x", "X", "Y", " x"], [0, 1, 2, 0]),
    ],
)
def test_a_truth_in_another_spelling_is_found(levels: tuple[str, ...], cells: list[str], codes: list[int]) -> None:
    column = Categorical("c", "categorical", levels=levels)
    table = from_text("c,d\n" + "".join(f"{cell},1\n" for cell in [*cells, ""]))
    assert column.true_codes(table.column("c")).tolist()[:-1] == codes
    assert np.isnan(column.true_codes(table.column("c"))[-1])


def test_the_report_has_a_line_of_each_kind() -> None:
    rng = np.random.default_rng(2)
    size = Number("size", "numeric", low=0.0, high=1.0, scale=Scale(0.0, 1.0))
    sex = Categorical("sex", "categorical", levels=("f", "m"))
    kind = Categorical("kind", "categorical", levels=("a", "b", "c"))
    truth = torch.from_numpy(np.column_stack([rng.normal(size=30), rng.integers(2, size=30), rng.integers(3, size=30)]))
    draws = torch.stack([truth] * 19)
    draws[:, :, 0] += torch.from_numpy(rng.normal(size=(19, 30)))
    draws[:10, :15, 1] = 1 - draws[:10, :15, 1]  # the wrong level in 10 of 19 draws of half of the rows
    hidden = torch.ones(30, 3, dtype=torch.bool)
    hidden[20:, 2] = False
    scores = score_imputations(draws, truth, hidden, [size, sex, kind], torch.tensor([2.0, 1.0, 1.0]))
    assert scores is not None
    assert scores.columns["sex"]["error"] == 0.5 and scores.columns["kind"]["error"] == 0.0
    assert "sd" not in scores.columns["sex"] and scores.columns["size"]["sd"] == 2.0
    assert scores.kinds["categorical"]["columns"] == 2 and scores.kinds["categorical"]["cells"] == 50
    assert scores.kinds["categorical"]["error"] == scores.overall["error"] == 0.25
    assert scores.kinds["numeric"]["crps"] == scores.overall["crps"]
    assert scores.sliced_wasserstein is not None and scores.sliced_wasserstein > 0
    report = make_report(30, imputation=imputation_part(scores, None))
    assert json.loads(json.dumps(report, allow_nan=False)) == report
    text = markdown(report, "t")
    assert "| column | cells | CRPS | RMSE | MAE | coverage |\n|---|---|---|---|---|---|\n| overall | 30 |" in text
    assert "| column | cells | log score | Brier | error | ECE |\n|---|---|---|---|---|---|\n| overall | 50 |" in text
    assert "| sex | 30 |" in text and "| RPS" not in text and "| 0.5 |" in text
    alone = score_imputations(draws[..., 1:], truth[:, 1:], hidden[:, 1:], [sex, kind], torch.ones(2))
    assert alone is not None and "CRPS" not in markdown(make_report(30, imputation=imputation_part(alone, None)), "t")
    same = torch.stack([truth] * 19)
    exact = score_imputations(same, truth, hidden, [size, sex, kind], torch.tensor([2.0, 1.0, 1.0]))
    assert exact is not None and exact.sliced_wasserstein == 0.0


def test_the_report_has_a_line_of_each_kind_of_number() -> None:
    rng = np.random.default_rng(2)
    table = from_text(
        "a,b,day,sex\n" + "".join(f"{i / 7:.3f},{i},2020-01-{1 + i % 28:02d},{'fm'[i % 2]}\n" for i in range(60))
    )
    columns = schema_alone(table).encoded
    truth = torch.from_numpy(np.column_stack([column.codes(table.column(column.name)) for column in columns]))
    draws = torch.stack([truth] * 19)
    draws[:, :, :3] += torch.from_numpy(rng.normal(size=(19, 60, 3)))

    def told(count: int) -> str:
        hidden = torch.ones(60, count, dtype=torch.bool)
        scores = score_imputations(draws[..., :count], truth[:, :count], hidden, columns[:count], torch.ones(count))
        assert scores is not None and (len(scores.kinds) > 0) == (count > 2)
        return markdown(make_report(60, imputation=imputation_part(scores, None)), "t")

    for count in (3, 4):
        text = told(count)
        for kind in ("numeric", "integer", "date"):
            assert f"| overall, {kind} | 60 |" in text
        assert "overall, categorical" not in text
    assert "overall, " not in told(2)


def test_the_report_says_which_columns_have_a_density() -> None:
    size = Number("size", "numeric", low=0.0, high=1.0, scale=Scale(0.0, 1.0))
    sex = Categorical("sex", "categorical", levels=("f", "m"))
    assert measures([size, sex]) == {"probability": ["sex"], "density": ["size"]}
    many = [Categorical(f"c{i}", "categorical", levels=("f", "m")) for i in range(20)]
    loglik = {"mean": -1.0, "estimator": "exact", "rows": 3, **measures([size, *many])}
    text = markdown(make_report(3, loglik=loglik), "t")
    assert "- density of a cell, data units: size\n" in text
    assert "- probability of a cell: c0, c1," in text and "c11 and 8 more\n" in text
