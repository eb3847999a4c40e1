"""Nearest names: what a slip of the keyboard makes of a name is recognised, and nothing else is."""

from __future__ import annotations

from pathlib import Path

import pytest

from vgi_cli.errors import closest, nearest, nearest_file

FLAGS = ["--model", "--method", "--time-limit", "--compile", "--na-values", "--epochs", "--delimiter", "--out", "-o"]
KEYS = ["model.factors", "model.name", "method.imputations", "method.epochs", "optim.lr", "seed", "select", "epochs"]
PATHS = ["imputation.coverage90", "imputation.crps", "imputation.columns.a.rmse", "loglik.mean", "loglik.se"]


@pytest.mark.parametrize(
    ("name", "known", "meant"),
    [
        ("--modle", FLAGS, "--model"),
        ("--epoch", FLAGS, "--epochs"),
        ("--dleimiter", FLAGS, "--delimiter"),
        ("--na_values", FLAGS, "--na-values"),
        ("--timelimit", FLAGS, "--time-limit"),
        ("--time", FLAGS, "--time-limit"),
        ("--Model", FLAGS, "--model"),
        ("--log-file", FLAGS, None),
        ("--batch-size", FLAGS, None),
        ("--bootstrap", FLAGS, None),
        ("-x", FLAGS, None),
        ("model.factor", KEYS, "model.factors"),
        ("factors", KEYS, "model.factors"),
        ("optim.epochs", KEYS, "epochs"),
        ("optim.rl", KEYS, "optim.lr"),
        ("lr", KEYS, "optim.lr"),
        ("sede", KEYS, "seed"),
        ("optim.learning_rate", KEYS, None),
        ("bananas", KEYS, None),
        ("imputation.coverag90", PATHS, "imputation.coverage90"),
        ("imputation.crsp", PATHS, "imputation.crps"),
        ("imputation.bias", PATHS, None),
        ("flwo", ["flow", "fa"], "flow"),
        ("mix", ["mixture", "fa"], "mixture"),
        ("gaussian", ["mixture", "fa"], None),
        ("bb", ["a", "b"], "b"),
        ("c", ["a", "b"], None),
        ("age", ["sex", "bmi"], None),
        ("", ["a", "seed"], None),
    ],
)
def test_what_a_name_is_meant_for(name: str, known: list[str], meant: str | None) -> None:
    assert closest(name, known) == meant
    assert nearest(name, known) == (
        f"did you mean '{meant}'?" if meant else "expected one of: " + ", ".join(sorted(known))
    )


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("dta.csv", "data.csv"),
        ("data.cvs", "data.csv"),
        ("Data.csv", "data.csv"),
        ("wines.parquet", "wine.parquet"),
        ("nofile.csv", None),
        ("filled.csv", None),
        ("data.parquet", None),
        ("x.csv", None),
    ],
)
def test_files_that_are_not_there(tmp_path: Path, name: str, meant: str | None) -> None:
    for other in ("data.csv", "wine.parquet", "filled.1.csv", "filled.9.csv", "a.csv"):
        (tmp_path / other).touch()
    hint = f"did you mean '{tmp_path / meant}'?" if meant else "check the path"
    assert nearest_file(tmp_path / name) == hint
    assert nearest_file(tmp_path / "none" / name) == "check the path"
