"""What a fit or its imputations must not pass over in silence, also in Python where nobody listens to lines."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import vgi_cli
from vgi_cli.commands.samplers import NOT_INCLUDED
from vgi_cli.errors import VgiWarning

ONE = {"model.components": 1, "bootstrap": "none", "trees": "none"}


def frame() -> pd.DataFrame:
    """No row has both y and z."""
    out = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 4)), columns=["x", "y", "z", "w"])
    out.loc[:29, "y"] = np.nan
    out.loc[30:, "z"] = np.nan
    return out


def test_columns_that_no_row_shows_together_are_named(tmp_path: Path) -> None:
    said: list[str] = []
    vgi_cli.fit(frame(), out=tmp_path / "a", model="mixture", threads=1, set=ONE, say=said.append)
    (line,) = [line for line in said if "together in no row" in line]
    assert line.startswith("warning: columns 'y' and 'z' are observed together in no row: how they go together")
    rows = frame()
    rows.loc[:29, "w"] = np.nan
    with pytest.warns(VgiWarning, match=r"'y' and 'z' are observed together in no row, nor are the columns of 1 other"):
        vgi_cli.fit(rows, out=tmp_path / "b", model="mixture", threads=1, set=ONE)


def test_columns_that_few_rows_show_together_are_named(tmp_path: Path) -> None:
    rows = frame()
    rows.loc[:2, "y"], rows.loc[30:33, "z"] = 1.0, 1.0  # three and four rows have both y and z
    assert not any("observed together" in line for line in said_of(rows.iloc[:, :3], tmp_path / "a"))
    rows.loc[2:, "w"] = np.nan
    (line,) = [line for line in said_of(rows, tmp_path / "b") if "observed together" in line]
    assert line == (
        "warning: columns 'x' and 'w' are observed together in 2 rows, those of 2 other pairs in fewer than 5 rows: "
        "correlations of such a pair, and regressions of one on the other, are drawn towards none, and their intervals "
        "are too narrow"
    )


def said_of(rows: pd.DataFrame, out: Path) -> list[str]:
    """The lines of a fit."""
    said: list[str] = []
    vgi_cli.fit(rows, out=out, model="mixture", threads=1, set=ONE, say=said.append)
    return said


def test_draws_without_the_uncertainty_of_the_fit_warn_unless_that_was_asked_for(tmp_path: Path) -> None:
    run = vgi_cli.fit(frame()[["x", "y"]], out=tmp_path / "a", model="mixture", threads=1, set=ONE)
    with pytest.warns(VgiWarning, match=NOT_INCLUDED):
        run.impute(m=3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run.impute(m=1)
        run.impute(m=3, uncertainty="none")
    said: list[str] = []
    run.impute(m=3, say=said.append)
    assert f"warning: {NOT_INCLUDED}" in said
    with pytest.warns(VgiWarning, match="is a best guess without its uncertainty"):
        run.impute(point="mean")
