"""What is held out (`--val FRACTION`) has no part in the statistics by which the fitted rows are encoded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import vgi_cli
from tests.selection import first
from vgi_cli.data import split_rows
from vgi_cli.fitting.plan import stream
from vgi_cli.runs.folder import RunFolder

N = 60


def frames(kept: torch.Tensor) -> list[pd.DataFrame]:
    """Two tables that differ in the rows that are not kept: farther out, other values that repeat."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=(N, 3)).round(2)
    z[rng.random(z.shape) < 0.15] = np.nan
    z[:, 2] = np.where(rng.random(N) < 0.3, 0.0, z[:, 2])
    other = 3 * z + 1
    other[kept.numpy()] = z[kept.numpy()]
    return [pd.DataFrame(values, columns=list("abc")).round(2) for values in (z, other)]


@pytest.mark.parametrize("model", first(1, ["mixture", "fa"]))
def test_held_out_rows_do_not_move_the_fit(model: str, tmp_path: Path) -> None:
    kept, held = split_rows(N, 0.25, stream(0, "split"))
    settings = {"bootstrap": "none", "model.factors": 1} if model == "fa" else {"bootstrap": "none"}
    texts, parts, scores = [], [], []
    for number, frame in enumerate(frames(kept)):
        folder = tmp_path / str(number)
        run = vgi_cli.fit(frame, model=model, val=0.25, epochs=1, set=settings, threads=1, out=folder)
        texts.append((folder / "schema.json").read_text())
        parts.append(RunFolder.open(folder).parts()["model"])
        scores.append(RunFolder.open(folder).last_metrics()["val_loglik"])
        assert run.manifest["data"]["rows_held_out"] == len(held)
        assert not run.impute(m=1)[0].isna().any().any()  # held-out rows are imputed too
    assert texts[0] == texts[1]
    assert parts[0].keys() == parts[1].keys()
    assert all(torch.equal(parts[0][name], parts[1][name]) for name in parts[0])
    assert scores[0] > scores[1] + 1


def test_a_resumed_fit_holds_out_the_same_rows(tmp_path: Path) -> None:
    frame = frames(torch.arange(0))[0]
    settings = {"bootstrap": "none", "method.tolerance": 1e-12}
    common = {"val": 0.25, "model": "mixture", "set": settings, "threads": 1}
    whole = vgi_cli.fit(frame, **common, epochs=3, out=tmp_path / "whole")
    vgi_cli.fit(frame, **common, epochs=1, out=tmp_path / "run")
    run = vgi_cli.fit(frame, **common, epochs=3, resume=True, out=tmp_path / "run")
    assert whole.manifest["epochs"] == run.manifest["epochs"] == 3
    assert (run.path / "schema.json").read_bytes() == (whole.path / "schema.json").read_bytes()
    tensors = [RunFolder.open(path).parts()["model"] for path in (whole.path, run.path)]
    assert all(torch.equal(tensors[0][name], tensors[1][name]) for name in tensors[0])
