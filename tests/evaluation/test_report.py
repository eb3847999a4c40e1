"""The report: contract of the JSON object, absent parts left out, text."""

from __future__ import annotations

import json
import math

import torch

from vgi_cli.columns.number import Number
from vgi_cli.columns.scale import Scale
from vgi_cli.evaluation.imputation import score_imputations
from vgi_cli.evaluation.likelihood.loglik import Bracket, LogLik, Work
from vgi_cli.evaluation.report import imputation_part, loglik_part, make_report, markdown

MISSING = torch.tensor([[False, False], [True, False], [True, True]])
SCALE = torch.zeros(2)


def annealed() -> LogLik:
    values = torch.tensor([-1.0, -3.0, 0.0], dtype=torch.float64)
    ess = torch.tensor([64.0, 32.0, 64.0], dtype=torch.float64)
    half = torch.tensor([-1.0, -3.5, 0.0], dtype=torch.float64)
    work = Work(torch.tensor([1, 512, 1]), torch.tensor([False, True, False]))
    return LogLik(values, "annealed", ess, half, Bracket(-2.0, -1.9, 0.01, 50), 64, "too low", work)


def test_loglik_object() -> None:
    part = loglik_part(annealed(), MISSING, SCALE, dequantised=4)
    assert part["mean"] == -2.0 and part["estimator"] == "annealed"
    assert part["rows"] == 2 and part["rows_left_out"] == 1
    assert part["ess"] == 32.0 and part["half_budget"] == -2.25 and part["particles"] == 64
    assert part["complete"]["mean"] == -1.0 and part["incomplete"]["mean"] == -3.0
    assert part["complete"]["rows"] == part["incomplete"]["rows"] == 1
    assert part["complete"]["per_cell"] == -0.5 and part["incomplete"]["per_cell"] == -3.0
    assert part["simulated"]["upper"] == -1.9 and part["warning"] == "too low"
    assert part["dequantisation_draws"] == 4
    assert part["work"] == [{"evaluations": 512, "rows": 1}] and part["rows_at_limit"] == 1
    assert part["monte_carlo_se"] == math.sqrt(1 / 32 - 1 / 64) / 2  # of the mean over both rows, one of them exact


def test_exact_loglik_has_no_estimator_parts() -> None:
    part = loglik_part(LogLik(torch.tensor([-1.0]), "exact"), MISSING[:1], SCALE)
    assert set(part) == {"mean", "se", "standardised", "per_cell", "estimator", "rows", "complete"}
    assert loglik_part(LogLik(torch.zeros(1), "exact"), MISSING[2:], SCALE) == {}


def test_names_with_line_breaks_stay_in_their_bullet() -> None:
    part = {**loglik_part(annealed(), MISSING, SCALE), "density": ["a\n\nb", "c"], "carried": ["d\r\ne"]}
    text = markdown(make_report(3, loglik=part, notes=["left out: f\n- g"]), "t")
    assert "- density of a cell, data units: a b, c\n" in text
    assert "as the run carries them: d e\n" in text and "- left out: f - g\n" in text


def test_one_row_has_no_standard_error() -> None:
    report = make_report(3, loglik=loglik_part(annealed(), MISSING, SCALE))
    assert "se" not in report["loglik"]["complete"] and "se" not in report["loglik"]["incomplete"]
    text = markdown(report, "t")
    assert "| complete | 1 | -1.0000 |  |" in text and "| incomplete | 1 | -3.0000 |  |" in text
    assert f"| all | 2 | -2.0000 | {report['loglik']['se']:.4f} |" in text


def test_absent_parts_are_left_out_and_never_nan() -> None:
    assert make_report(3) == {"format": 1, "rows": 3}
    part = {**loglik_part(annealed(), MISSING, SCALE), "mean": -math.inf, "half_budget": math.nan}
    report = make_report(3, loglik=part, imputation={}, objective=None)
    assert "imputation" not in report and "objective" not in report
    assert "mean" not in report["loglik"] and "half_budget" not in report["loglik"]
    assert report["notes"][:2] == [
        "loglik.mean is not finite and is left out",
        "loglik.half_budget is not finite and is left out",
    ]
    json.dumps(report, allow_nan=False)
    text = markdown(report, "t")
    assert "annealed" in text and "evaluations of the density: 1 of 512; 1 reached the limit" in text


def test_full_report_as_json_and_text() -> None:
    truth = torch.tensor([[0.0, 1.0], [2.0, 3.0]], dtype=torch.float64)
    draws = truth + torch.randn(19, 2, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    columns = [Number(name, "numeric", low=0.0, high=1.0, scale=Scale(0.0, 1.0)) for name in ("age", "a|\nb")]
    scores = score_imputations(draws, truth, MISSING[1:], columns, torch.ones(2))
    report = make_report(
        3,
        loglik=loglik_part(annealed(), MISSING, SCALE, 4),
        objective=-4.5,
        imputation=imputation_part(scores, None),
        sampler={"acceptance": 0.87654321, "acceptance_by_column": {"age": 0.9}},
        notes=["parameter uncertainty is not included"],
    )
    assert json.loads(json.dumps(report, allow_nan=False)) == report
    assert list(report) == ["format", "rows", "loglik", "objective", "imputation", "sampler", "notes"]
    assert {"crps", "rmse", "mae", "coverage90", "columns"} <= set(report["imputation"])
    assert set(report["imputation"]["columns"]) == {"age", "a|\nb"}
    assert report["sampler"]["acceptance_by_column"] == {"age": 0.9}
    text = markdown(report, "housing.csv")
    for line in (
        "# housing.csv",
        "| all | 2 | -2.0000 | 1.0000 |",
        "| incomplete | 1 | -3.0000 |",
        "64 particles a row: low on average",
        "mean at half the budget -2.2500",
        "of 50 rows simulated from the model it lies between -2.0000 and -1.9000 nats a row (encoded)",
        "- rounded columns: the mean density of 4 places within the rounding (biased low)",
        "1 row is left out: no cell of a modelled column",
        "**warning**: too low",
        "-4.5000 (fine-tuned; not comparable with a log-likelihood)",
        "| overall | 3 |",
        "| age | 2 |",
        "| a\\| b | 1 |",
        "- acceptance: 0.8765",
        "- parameter uncertainty is not included",
        "not comparable with one",
    ):
        assert line in text, line
    assert "nan" not in text


def test_truth_and_conditionals_as_text() -> None:
    quantiles = {"median": 0.25, "q90": 1.5}
    truth = {
        "kl": 0.125,
        "kl_se": 0.0123,
        "kl_estimator": "monte carlo",
        "samples": 10_000,
        "sliced_wasserstein": {"standardised": 0.5, "noise": math.nan},
        "rmse": {
            "F": {"standardised": 0.75, "data": 3.5},
            "psi": {"standardised": 0.5, "data": math.inf},
            "weights": 0.0625,
        },
        "model": "law.json",
    }
    conditionals = {
        "rows": 20,
        "estimator": "quadrature",
        "kl": quantiles,
        "wasserstein": quantiles,
        "columns": {"age": {"kl": {"median": 2.5, "q90": math.inf}, "wasserstein": quantiles}},
        "warning": "far off",
        "sampler": "metropolis",
    }
    report = make_report(3, truth=truth, conditionals=conditionals)
    assert list(report) == ["format", "rows", "truth", "conditionals", "notes"]
    text = markdown(report, "t")
    for line in (
        "- KL(truth ‖ model): 0.125 nats (standard error 0.012), Monte Carlo, 10000 rows of the truth",
        "- sliced 1-Wasserstein distance: standardised 0.5 (`noise`",
        "- RMSE of F, after the best rotation: standardised 0.75, data units 3.5",
        "- RMSE of psi: standardised 0.5\n",
        "- RMSE of weights: 0.0625",
        "on 20 rows, holes filled by sampler metropolis, quadrature.",
        "| overall | 0.25 | 1.5 | 0.25 | 1.5 |",
        "| age | 2.5 |  | 0.25 | 1.5 |",
        "**warning**: far off",
        "- conditionals.columns.age.kl.q90 is not finite and is left out",
    ):
        assert line in text, line
    assert "nan" not in text and "inf" not in text.replace("infer", "")


def test_exact_text() -> None:
    report = make_report(1, loglik=loglik_part(LogLik(torch.tensor([-1.0]), "exact"), MISSING[:1], SCALE))
    assert "- exact" in markdown(report, "t") and "incomplete" not in markdown(report, "t")


def test_the_table_of_compared_models_says_what_its_share_should_be() -> None:
    one = {"title": "m", "cells": 0.5, "loglik": -1.0, "coverage": 0.8, "chosen": True}
    league = {"score": "cells", "rows": 9, "candidates": [one]}
    old = markdown({**make_report(3), "contest": league}, "t")
    new = markdown({**make_report(3), "contest": {**league, "calibrated": 9 / 11}}, "t")
    assert "| coverage of 90 % intervals |" in old and "range" not in old
    assert "| in range of ten draws (0.82 if calibrated) |" in new and "90 % intervals" not in new
