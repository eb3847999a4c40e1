"""Fits by EM to many rows begin with some of them: which, and where such a fit ends."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import vgi_cli
from vgi_cli.data import TensorTable
from vgi_cli.layout import Layout
from vgi_cli.methods.em import em
from vgi_cli.methods.em.em import early_rows

pytestmark = pytest.mark.full_fits(
    "models.gaussian.fa.FactorAnalysis.tolerance",
    "models.gaussian.mixture.GaussianMixture.tolerance",
    "methods.em.em.REDRAWS",
    "models.gaussian.rounded.SWEEPS",
)

LEVELS = Layout.of(["x", "kind"], levels=[0, 3])


def table(N: int, *, scarce: int = 0, rare: int = 0) -> TensorTable:
    """A number and three levels; `scarce`: in so many rows alone the number is observed, `rare`: so many have the last
    level."""
    generator = torch.Generator().manual_seed(0)
    x = torch.stack([torch.randn(N, generator=generator), torch.randint(2, (N,), generator=generator)], 1).double()
    missing = torch.zeros(N, 2, dtype=torch.bool)
    if scarce:
        missing[scarce:, 0] = True
    x[torch.randperm(N, generator=generator)[: rare or N // 3], 1] = 2.0
    return TensorTable(x.masked_fill(missing, 0.0), missing, LEVELS)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(em, "EARLY", 100)
    monkeypatch.setattr(em, "CELLS", 20)


@pytest.mark.parametrize(
    ("rows", "count"),
    [
        (table(199), None),
        (table(200), 100),
        (table(3000), 100),
        (table(3000, rare=60), 200),
        (table(3000, rare=9), None),
        (table(3000, scarce=400), 200),
        (table(3000, scarce=30), None),
    ],
)
def test_which_rows(rows: TensorTable, count: int | None, few: None) -> None:
    found = early_rows(rows)
    assert (None if found is None else len(found)) == count
    if found is not None:
        assert int(found[0]) == 0 and bool((found.diff() > 0).all())


def frame(rows: int = 1500) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    kind = rng.choice(["a", "b"], rows)
    x = rng.normal(size=rows) + 2 * (kind == "b")
    found = pd.DataFrame({"x": x, "y": 0.7 * x + rng.normal(size=rows), "kind": kind})
    found["grade"] = (x + rng.normal(size=rows)).round().clip(-2, 3)  # its cells are drawn within their rounding
    return found.mask(rng.random(found.shape) < 0.2)


@pytest.mark.slow
def test_a_fit_ends_where_one_ends_that_begins_with_all_rows(monkeypatch: pytest.MonkeyPatch, few: None) -> None:
    settings = {"model.components": 2, "bootstrap": "none", "method.tolerance": 1e-9}
    looked: list[int] = []
    rows_of = em.early_rows

    def told(of: TensorTable) -> torch.Tensor | None:
        found = rows_of(of)
        looked.append(0 if found is None else len(found))
        return found

    monkeypatch.setattr(em, "early_rows", told)
    early = vgi_cli.fit(frame(), model="mixture", set=settings, threads=1)
    monkeypatch.setattr(em, "EARLY", 10**9)
    late = vgi_cli.fit(frame(), model="mixture", set=settings, threads=1)
    assert looked == [100, 0]
    first, second = (run.evaluate(frame())["loglik"]["mean"] for run in (early, late))
    assert first == pytest.approx(second, abs=5e-3)


def test_one_that_is_stopped_goes_on_bit_for_bit(few: None, tmp_path: Path) -> None:
    data = f"{tmp_path}/data.csv"
    frame(500).to_csv(data, index=False)
    settings = {"model.components": 2, "bootstrap": "none", "trees": "none"}
    whole = vgi_cli.fit(data, model="mixture", set=settings, threads=1, out=f"{tmp_path}/whole")
    part = vgi_cli.fit(data, model="mixture", set=settings, threads=1, out=f"{tmp_path}/part", epochs=1)
    again = vgi_cli.fit(out=part.path, resume=True, epochs=300)
    tables = [run.impute(m=1)[0] for run in (whole, again)]
    pd.testing.assert_frame_equal(*tables)


def test_scales_correlate_as_they_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounded cells are drawn from what the first rows have said; spread evenly, they correlate less."""
    monkeypatch.setattr(em, "EARLY", 1000)
    rng = np.random.default_rng(2)
    common = rng.normal(size=(6000, 1))
    scales = np.digitize(0.8 * common + 0.6 * rng.normal(size=(6000, 4)), [-1.5, -0.5, 0.5, 1.5])
    whole = pd.DataFrame(scales, columns=list("abcd")).astype(float)
    settings = {"model.components": 1, "bootstrap": "none", "trees": "none"}
    run = vgi_cli.fit(whole.mask(rng.random(whole.shape) < 0.3), model="mixture", set=settings, threads=1)
    upper = np.triu_indices(4, 1)
    filled = np.mean([table.corr().to_numpy()[upper].mean() for table in run.impute(m=2)])
    assert filled == pytest.approx(whole.corr().to_numpy()[upper].mean(), abs=0.01)
