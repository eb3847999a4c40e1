"""--fail-if: what parses, what it does, and what its errors say."""

from __future__ import annotations

import math

import pytest

from vgi_cli.errors import FailIfMissed, UsageError
from vgi_cli.evaluation.fail_if import Condition, check, foresee, parse
from vgi_cli.evaluation.report import make_report, not_finite

REPORT = {
    "format": 1,
    "rows": 10,
    "loglik": {"mean": -3.5, "estimator": "exact"},
    "imputation": {"crps": 0.25, "columns": {"a.b <c": {"crps": 1.5}, "size": {"crps": 2.0}}},
    "flag": True,
}


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("loglik < -4", Condition("loglik.mean", "<", -4.0)),
        ("loglik.mean<=-4e0", Condition("loglik.mean", "<=", -4.0)),
        ("  imputation.columns.house size.crps >= 1 ", Condition("imputation.columns.house size.crps", ">=", 1.0)),
        ("rows == 10", Condition("rows", "==", 10.0)),
        ("rows != 10", Condition("rows", "!=", 10.0)),
    ],
)
def test_parses(text: str, condition: Condition) -> None:
    assert parse(text) == condition
    assert parse(str(condition)) == condition


@pytest.mark.parametrize("text", ["", "loglik", "loglik <", "< 3", "loglik = 3", "loglik < 3 4", "loglik ~ 3"])
def test_refuses_other_forms(text: str) -> None:
    with pytest.raises(UsageError, match="is not a condition") as caught:
        parse(text)
    assert text in caught.value.message and "loglik.mean < -12.5" in caught.value.hint


@pytest.mark.parametrize("number", ["abc", "nan", "inf", "1,5"])
def test_refuses_what_is_no_number(number: str) -> None:
    with pytest.raises(UsageError, match="is not a finite number"):
        parse(f"loglik < {number}")


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("loglik < -3.5", False),
        ("loglik <= -3.5", True),
        ("loglik > -4", True),
        ("loglik >= -3.5", True),
        ("loglik == -3.5", True),
        ("loglik != -3.5", False),
        ("imputation.columns.size.crps > 1.9", True),
        ("rows < 5", False),
    ],
)
def test_fails_when_the_condition_holds(text: str, holds: bool) -> None:
    if not holds:
        check([parse(text)], REPORT)
        return
    with pytest.raises(FailIfMissed, match="holds") as caught:
        check([parse("rows < 5"), parse(text)], REPORT)
    assert caught.value.exit_code == 3 and str(parse(text)) in caught.value.message
    assert "rows < 5" not in caught.value.message


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("loglik.mean < -1000", "--fail-if 'loglik.mean < -1000' holds: loglik.mean is -inf"),
        ("loglik.mean > 3", None),
        ("truth.kl > 3", "--fail-if 'truth.kl > 3' holds: truth.kl is inf"),
        ("loglik.se > 3", "--fail-if 'loglik.se > 3': loglik.se is no number, so that the condition cannot be judged"),
    ],
)
def test_numbers_that_the_report_leaves_out(text: str, said: str | None) -> None:
    """Infinite ones are compared as any other; NaN passes no condition."""
    parts: dict[str, object] = {"loglik": {"mean": -math.inf, "se": math.nan, "rows": 3}, "truth": {"kl": math.inf}}
    lost = not_finite(parts)
    assert list(lost) == ["loglik.mean", "loglik.se", "truth.kl"]
    report = make_report(3, loglik=parts["loglik"], truth=parts["truth"])  # type: ignore[arg-type]
    assert report["loglik"] == {"rows": 3} and "truth" not in report
    if said is None:
        check([parse(text)], report, lost)
        return
    with pytest.raises(FailIfMissed) as caught:
        check([parse(text)], report, lost)
    assert caught.value.message == said


def test_every_condition_that_holds_is_named() -> None:
    with pytest.raises(FailIfMissed) as caught:
        check([parse("loglik < 0"), parse("rows > 1")], REPORT)
    assert "loglik.mean is -3.5" in caught.value.message and "rows is 10" in caught.value.message


@pytest.mark.parametrize(
    ("text", "hint"),
    [("logik.mean < 0", "did you mean 'loglik.mean'?"), ("loglik.estimator < 0", "loglik.mean"), ("flag < 2", "rows")],
)
def test_unknown_paths_name_the_nearest(text: str, hint: str) -> None:
    with pytest.raises(UsageError, match="the report has no number") as caught:
        check([parse(text)], REPORT)
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("imputation.coverag90", "did you mean 'imputation.coverage90'?"),
        ("imputation.columns.size.rsme", "did you mean 'imputation.columns.size.rmse'?"),
        ("imputation.bias", "expected one of: imputation.brier, imputation.coverage90"),
        ("imputation.logscore", "did you mean 'imputation.log_score'?"),
        ("imputation.columns.sex.breir", "did you mean 'imputation.columns.sex.brier'?"),
        ("imputation.kinds.categorical.eror", "did you mean 'imputation.kinds.categorical.error'?"),
        ("imputation.crps", "--truth or --mask adds it"),
        ("imputation.columns.a.b.mae", "--truth or --mask adds it"),
        ("loglik.stderr", "expected one of: loglik.complete.mean"),
        ("loglk", "did you mean 'loglik'?"),
    ],
)
def test_what_no_report_has_is_refused_before_the_work(path: str, hint: str) -> None:
    with pytest.raises(UsageError, match="the report has no number") as caught:
        foresee([parse(f"{path} < 1")], {"imputation": "--truth or --mask"})
    assert caught.value.hint.startswith(hint)
