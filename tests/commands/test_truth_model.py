"""The truth of `--truth-model` as JSON: what is read, and the message of everything that is not."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from vgi_cli.commands.evaluate.truth_model import load_truth, parse_truth
from vgi_cli.errors import InputError, UsageError
from vgi_cli.fitting.fitted import FittedTable
from vgi_cli.reporting import Silent

FA: dict[str, Any] = {"columns": ["a", "b"], "mean": [1, 2.5], "F": [[1], [2]], "psi": [0.5, 3]}
MIXTURE: dict[str, Any] = {
    "columns": ["a", "b"],
    "weights": [0.25, 0.75],
    "means": [[0, 0], [1, -1]],
    "covariances": [[[1, 0.5], [0.5, 2]], [[1, 0], [0, 1]]],
}


def test_a_factor_model() -> None:
    read = parse_truth(json.dumps(FA), "t.json")
    assert read.columns == ("a", "b") and read.factors is not None
    assert read.factors.F.shape == (2, 1) and read.factors.F.dtype == torch.float64
    assert read.normals.covariances.tolist() == [[[1.5, 2.0], [2.0, 7.0]]]
    assert read.normals.means.tolist() == [[1.0, 2.5]]
    bare = parse_truth(json.dumps({**FA, "F": [[], []]}), "t.json")
    assert bare.factors is not None and bare.factors.F.shape == (2, 0)
    assert bare.normals.covariances.tolist() == [[[0.5, 0.0], [0.0, 3.0]]]


def test_a_mixture() -> None:
    read = parse_truth(json.dumps(MIXTURE), "t.json")
    assert read.factors is None and read.normals.weights.tolist() == [0.25, 0.75]
    assert read.normals.at(torch.tensor([1, 0])).covariances[0].tolist() == [[2.0, 0.5], [0.5, 1.0]]
    assert read.normals.at(torch.tensor([1, 0])).means.tolist() == [[0.0, 0.0], [-1.0, 1.0]]


BOTH = "factor analysis (mean, F, psi) or mixture (weights, means, covariances)"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("{", "not JSON (line 1: Expecting property name"),
        ("[" * 100_000, "not JSON that this program can read (nested too deeply)"),
        ("9" * 5000, "not JSON that this program can read (a number of thousands of digits)"),
        ("[1]", "expected a JSON object"),
        ('{"mean": [1], "mean": [2]}', "the key 'mean' is there twice"),
        ("{}", f"expected the parameters of {BOTH}, got neither"),
        (json.dumps({**FA, "weights": [1]}), f"expected the parameters of {BOTH}, got keys of both"),
    ],
)
def test_texts_that_are_no_truth(text: str, error: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_truth(text, "t.json")
    assert caught.value.message.startswith(f"t.json: {error}")
    assert caught.value.hint and ("for example" in caught.value.hint or "keep one" in caught.value.hint)


@pytest.mark.parametrize(
    ("base", "changes", "error"),
    [
        (FA, {"Psi": [1, 1]}, "unknown key 'Psi'"),
        (FA, {"psi": None}, "'psi': expected 2 numbers (one number a column), got something else"),
        (FA, {"columns": "a"}, "'columns': expected a list of column names"),
        (FA, {"columns": []}, "'columns': expected a list of column names"),
        (FA, {"columns": ["a", "a"]}, "'columns' names 'a' twice"),
        (FA, {"mean": [1]}, "'mean': expected 2 numbers (one number a column), got 1"),
        (FA, {"mean": 3}, "'mean': expected 2 numbers (one number a column), got one number"),
        (FA, {"mean": [1, True]}, "'mean': expected 2 numbers (one number a column), got something else"),
        (FA, {"mean": [1, float("nan")]}, "'mean' holds a number that is not finite"),
        (FA, {"mean": [1, float("inf")]}, "'mean' holds a number that is not finite"),
        (FA, {"mean": [1, 10**400]}, "'mean': expected 2 numbers (one number a column), got something else"),
        (FA, {"F": [[1], [2, 3]]}, "'F': expected 2 x any numbers (one row a column, one number a factor), got"),
        (FA, {"F": [[1, 2]]}, "'F': expected 2 x any numbers (one row a column, one number a factor), got 1 x 2"),
        (FA, {"psi": [1, 0]}, "'psi': expected variances above 0, got 0"),
        (
            FA,
            {"F": [[1e9], [1e9]], "psi": [1e-9, 1e-9]},
            "F F' + diag(psi) is not positive definite in double precision",
        ),
        (FA, {"F": [[1e200], [1]]}, "F F' + diag(psi) is not positive definite in double precision"),
        (MIXTURE, {"weights": [0.5, 0.6]}, "'weights': expected positive numbers whose sum is 1"),
        (MIXTURE, {"weights": [1, 0]}, "'weights': expected positive numbers whose sum is 1"),
        (MIXTURE, {"means": [[0, 0]]}, "'means': expected 2 x 2 numbers (one row a component, one number a column)"),
        (MIXTURE, {"covariances": [[1, 0], [0, 1]]}, "'covariances': expected 2 x 2 x 2 numbers (one square matrix"),
        (MIXTURE, {"covariances": [[[1, 0], [0, 1]], [[1, 0], [0.5, 1]]]}, "'covariances': matrix 2 is not symmetric"),
        (
            MIXTURE,
            {"covariances": [[[1, 2], [2, 1]], [[1, 0], [0, 1]]]},
            "'covariances': matrix 1 is not positive definite",
        ),
    ],
)
def test_parameters_that_cannot_be(base: dict[str, Any], changes: dict[str, Any], error: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_truth(json.dumps({**base, **changes}), "t.json")
    assert caught.value.message.startswith(f"t.json: {error}")
    assert caught.value.hint


@pytest.mark.parametrize(("base", "key"), [(FA, "columns"), (FA, "psi"), (MIXTURE, "means")])
def test_a_key_that_is_lacking(base: dict[str, Any], key: str) -> None:
    with pytest.raises(InputError, match=f"t.json: lacks the key '{key}'"):
        parse_truth(json.dumps({k: v for k, v in base.items() if k != key}), "t.json")


def test_an_unknown_key_has_its_nearest() -> None:
    with pytest.raises(InputError) as caught:
        parse_truth(json.dumps({**FA, "Psi": [1, 1]}), "t.json")
    assert caught.value.hint == "did you mean 'psi'?"


def test_a_model_with_a_lower_bound_only_is_refused() -> None:
    run = SimpleNamespace(name="run")
    fake = SimpleNamespace(run=run, empty=False, model=SimpleNamespace(exact=False), schema=None)
    fitted = cast(FittedTable, SimpleNamespace(**vars(fake) | {"schema": SimpleNamespace(modelled=("a", "b"))}))
    with pytest.raises(UsageError, match="run 'run' has a lower bound of its log density only"):
        load_truth(Path("t.json"), fitted, Silent())
