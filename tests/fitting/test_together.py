"""Whether a fitted model knows how columns go together."""

from __future__ import annotations

import math
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import spearmanr
from torch import Tensor

import vgi_cli
from vgi_cli.data import make_table
from vgi_cli.errors import VgiWarning
from vgi_cli.fitting.together import Lost, correlations, in_words, lost
from vgi_cli.layout import Layout
from vgi_cli.models.gaussian.fa import FaConfig, FactorAnalysis


def rows_of(R: int, r: float, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Three normal columns, the first two with a correlation, and holes."""
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(R, 3, generator=g, dtype=torch.float64)
    x[:, 1] = r * x[:, 0] + math.sqrt(1 - r**2) * x[:, 1]
    return x, torch.rand(R, 3, generator=g) < 0.3


def model_with(loading: float) -> FactorAnalysis:
    """A factor analysis whose first two columns load on its factor."""
    model = FactorAnalysis.build(FaConfig(factors=1), Layout.plain(3)).double()
    full = torch.eye(3, dtype=torch.float64)
    full[0, 1] = full[1, 0] = loading
    g = torch.Generator().manual_seed(1)
    model.initialise(torch.randn(2000, 3, generator=g, dtype=torch.float64) @ torch.linalg.cholesky(full).mT, g)
    return model


def test_correlations_are_those_of_ranks_where_both_cells_are_there() -> None:
    x, missing = rows_of(300, 0.6)
    x[:, 2] = (2 * x[:, 2]).round()  # ties
    whole, both = correlations(x, torch.zeros_like(missing))
    np.testing.assert_allclose(whole, spearmanr(x.numpy()).statistic, rtol=1e-9)
    assert bool((both == 300).all())
    part, both = correlations(torch.where(missing, torch.nan, x), missing)
    assert both[0, 1] == int((~missing[:, :2]).all(1).sum())
    for i, j in ((0, 1), (0, 2), (1, 2)):
        rows = ~missing[:, [i, j]].any(1)
        assert float(part[i, j]) == pytest.approx(spearmanr(x[rows][:, [i, j]].numpy()).statistic, abs=0.03)


def test_ties_by_the_order_of_rows_are_no_correlation() -> None:
    x = torch.zeros(500, 2, dtype=torch.float64)
    x[:50, 0] = x[450:, 1] = 1.0
    assert abs(float(correlations(x, torch.zeros_like(x, dtype=torch.bool))[0][0, 1])) < 0.2


def test_a_clear_correlation_that_the_model_lacks_is_lost() -> None:
    x, missing = rows_of(400, 0.8)
    found = lost(model_with(0.0), make_table(x, missing))
    assert found is not None and found.pair == (0, 1) and found.others == 0
    assert found.table == pytest.approx(0.79, abs=0.05) and abs(found.model) < 0.1
    assert lost(model_with(0.8), make_table(x, missing)) is None
    assert lost(model_with(-0.8), make_table(x, missing)) is not None
    for table in (rows_of(400, 0.3), rows_of(25, 0.8)):  # not clear: small, and of few rows
        assert lost(model_with(0.0), make_table(*table)) is None
    line = in_words(Lost((0, 2), 0.9, -0.02, 2), ("a", "b", "c"))
    assert line.startswith(
        "the model does not know how 'a' and 'c' go together: their correlation (of ranks) is 0.90 in the table and "
        "-0.02 in the model (and so of 2 more pairs); do not use this run"
    )


def test_a_fit_that_ended_before_it_learnt_anything_says_so(tmp_path: Path) -> None:
    x, missing = rows_of(200, 0.9)
    frame = pd.DataFrame(np.where(missing, np.nan, x.round(decimals=3)), columns=list("abc"))
    short = {"model": "vae", "epochs": 1, "set": {"bootstrap": "none"}}
    with pytest.warns(VgiWarning, match="the model does not know how 'a' and 'b' go together"):
        vgi_cli.fit(frame, out=tmp_path / "short", **short)
    with warnings.catch_warnings():
        warnings.simplefilter("error", VgiWarning)
        vgi_cli.fit(frame, out=tmp_path / "fa", model="fa", method="em")
