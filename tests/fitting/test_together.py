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
from vgi_cli.data import TensorTable, make_table
from vgi_cli.errors import VgiWarning
from vgi_cli.fitting.together import ROWS, Lost, correlations, in_words, lost, spread
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


@pytest.mark.parametrize(("r", "least"), [(0.0, None), (0.6, 0.8), (0.95, 0.5), (-0.95, 1.5)])
def test_correlations_are_of_the_rows_that_have_both_wherever_these_lie(r: float, least: float | None) -> None:
    """Both columns seen where both are high, or the second where the first is high: Spearman's of these rows (0.01).
    Ranks centred over all cells gave 0.62 in the place of 0.03, and 0.21 in the place of 0.81."""
    x = rows_of(4000, r)[0][:, :2]
    g = torch.Generator().manual_seed(5)
    missing = torch.zeros(x.shape, dtype=torch.bool)
    if least is None:
        apart = ~(x > 0).all(1)
        missing[:, 0] = apart & (torch.rand(4000, generator=g) < 0.5)
        missing[:, 1] = apart & ~missing[:, 0]
    else:
        missing[:, 1] = x[:, 0] < least
    rows = ~missing.any(1)
    found, both = correlations(x.masked_fill(missing, 0.0), missing)
    assert float(found[0, 1]) == pytest.approx(spearmanr(x[rows].numpy()).statistic, abs=0.01)
    assert int(both[0, 1]) == int(rows.sum()) and torch.equal(found, found.mT)
    true = make_table(x.masked_fill(missing, 0.0), missing)
    model = FactorAnalysis.build(FaConfig(factors=1), Layout.plain(2)).double()
    full = torch.tensor([[1.0, r], [r, 1.0]], dtype=torch.float64)
    model.initialise(torch.randn(2000, 2, generator=g, dtype=torch.float64) @ torch.linalg.cholesky(full).mT, g)
    assert lost(model, true) is None
    model.initialise(torch.randn(2000, 2, generator=g, dtype=torch.float64), g)
    assert (lost(model, true) is not None) == (abs(r) == 0.95)  # that of the other two is not clear


def test_a_column_that_does_not_vary_beside_another_has_no_correlation_with_it() -> None:
    g = torch.Generator().manual_seed(6)
    x = torch.randn(3001, 2, generator=g, dtype=torch.float64)
    missing = torch.zeros(x.shape, dtype=torch.bool)
    missing[:, 1] = x[:, 0] < 1.0
    x[~missing[:, 1], 0] = 1.0  # it varies where the other is missing
    missing[:, 0] = ~missing[:, 1] & (x[:, 1] < 0.5)  # and the other has more cells than the rows of both
    found, _ = correlations(x.masked_fill(missing, 0.0), missing)
    assert float(found[0, 1]) == float(found[1, 0]) == 0.0


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
    line = in_words(Lost((0, 2), 0.9, -0.02, 2), "abc".__getitem__, "flow")
    assert line.startswith(
        "the model does not know how 'a' and 'c' go together: their correlation (of ranks) is 0.90 in the rows that "
        "have both and -0.02 in the model (and so of 2 more pairs); do not use this run, unless these rows"
    )
    assert line.endswith("another --method, more --epochs or --model mixture may learn it")
    assert "--model" not in in_words(Lost((0, 2), 0.9, -0.02, 0), "abc".__getitem__, "mixture")


def weighted(x: Tensor, missing: Tensor, weight: Tensor) -> TensorTable:
    return TensorTable(x, missing, Layout.plain(x.shape[1]), weight)


def test_rows_count_as_they_weigh() -> None:
    """Eight of ten rows, in which the columns go together, weigh nothing; and all of them more than the others."""
    (x, missing), (other, _) = rows_of(400, 0.9), rows_of(400, 0.0, 1)
    both = torch.cat([x, x, x, other]), torch.cat([missing] * 4)
    for heavy, found in ((0.0, False), (100.0, True)):
        weight = torch.cat([torch.full((1200,), heavy), torch.ones(400)]).double()
        assert (lost(model_with(0.0), weighted(*both, weight)) is not None) == found
    rows = spread(weighted(*both, torch.cat([torch.zeros(1200), torch.ones(400)]).double()))
    assert torch.equal(rows, (~both[1].all(1)).nonzero()[:, 0][-len(rows) :]) and len(rows) > 380
    large = make_table(torch.zeros(16, 1), torch.zeros(16, 1, dtype=torch.bool))
    assert torch.equal(spread(large), torch.arange(16))


def test_the_last_row_of_a_large_table_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond 2^24 rows float32 numbers no longer tell rows apart."""
    n = 2**24 + 4
    rows = spread(make_table(torch.zeros(n, 1), torch.zeros(n, 1, dtype=torch.bool)))
    assert len(rows) == ROWS and int(rows[-1]) == n - 1 and len(torch.unique(rows)) == ROWS


def test_rows_that_have_both_because_they_go_together_are_no_loss() -> None:
    """The sign of the relation is that of a third column; where it is negative one cell is missing more often."""
    g = torch.Generator().manual_seed(3)
    x = torch.randn(2000, 3, generator=g, dtype=torch.float64)
    sign = x[:, 2].sign()
    x[:, 1] = sign * 0.9 * x[:, 0] + math.sqrt(1 - 0.9**2) * x[:, 1]
    missing = torch.zeros(x.shape, dtype=torch.bool)
    missing[:, 0] = (sign < 0) & (torch.rand(2000, generator=g) < 0.95)
    table = make_table(x.where(~missing, 0.0), missing)
    alone = model_with(0.0)  # which samples columns that do not go together: right, over all rows
    assert lost(alone, table) is not None
    assert lost(alone, table, lambda rows: x[rows]) is None
    unrelated = x.clone()
    unrelated[missing[:, 0], 0] = torch.randn(int(missing[:, 0].sum()), generator=g, dtype=torch.float64)
    assert lost(alone, table, lambda rows: unrelated[rows]) is not None


def test_a_fit_that_ended_before_it_learnt_anything_says_so(tmp_path: Path) -> None:
    x, missing = rows_of(200, 0.9)
    frame = pd.DataFrame(np.where(missing, np.nan, x.round(decimals=3)), columns=list("abc"))
    short = {"model": "vae", "epochs": 1, "set": {"bootstrap": "none"}}
    with pytest.warns(VgiWarning, match="the model does not know how 'a' and 'b' go together"):
        vgi_cli.fit(frame, out=tmp_path / "short", **short)
    with warnings.catch_warnings():
        warnings.simplefilter("error", VgiWarning)
        vgi_cli.fit(frame, out=tmp_path / "fa", model="fa", method="em")
