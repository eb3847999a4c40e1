"""What is held out (`--val FRACTION`, the pilot) has no part in the statistics by which the fitted rows are encoded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import vgi_cli
from vgi_cli.commands.requests import source
from vgi_cli.data import split_rows
from vgi_cli.encoding.encoder import encode, log_volume
from vgi_cli.encoding.infer import infer_schema
from vgi_cli.fitting.pilot import HELD, divide
from vgi_cli.fitting.plan import stream
from vgi_cli.fitting.rows import Rows, new_schema, rows_of, training_rows
from vgi_cli.reporting import Silent
from vgi_cli.runs.folder import RunFolder
from vgi_cli.settings.gather import gather
from vgi_cli.settings.recipe import to_recipe

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


@pytest.mark.parametrize("model", ["fa", "mixture"])
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


def piloted(frame: pd.DataFrame, **settings: object) -> tuple[Rows, Rows, Rows]:
    """What a pilot fits, and what it scores; the rows of the fit."""
    table, _ = source(frame)
    assert table is not None
    named = {key: (value, key) for key, value in settings.items()}
    recipe = to_recipe(gather({"model.name": ("flow", "model"), "method.name": ("vgi", "method"), **named}))
    schema = new_schema(table, recipe, Silent())
    rows = training_rows(rows_of(table, schema, 0), keep_empty=False)
    return *divide(recipe, rows), rows


@pytest.mark.parametrize("transform", ["linear", "normal"])
def test_the_pilots_held_out_rows_do_not_move_what_it_fits(transform: str) -> None:
    used = torch.tensor([i for i in range(N) if not frames(torch.arange(0))[0].loc[i].isna().all()])
    kept, held = split_rows(len(used), HELD, stream(0, "pilot/split"))
    parts = [piloted(frame, **{"table.transform": transform}) for frame in frames(used[kept])]
    assert torch.equal(parts[0][0].table.x, parts[1][0].table.x)
    assert torch.equal(parts[0][0].places, used[kept])
    assert not torch.equal(parts[0][1].table.x, parts[1][1].table.x)
    frame = frames(used[kept])[0]
    table, _ = source(frame)
    some, _ = infer_schema(table, transform=transform, rows=np.isin(np.arange(N), used[kept].numpy()))
    encoded = encode(table, some, seed=0).table.rows(used[held])
    assert torch.equal(parts[0][1].table.x, encoded.x)
    assert torch.equal(parts[0][1].log_volume(), log_volume(encoded.missing, encoded.x, some))


def test_a_column_that_does_not_vary_among_the_pilots_rows_keeps_its_statistics() -> None:
    """And the blocks of columns stay."""
    kept, held = split_rows(N, HELD, stream(0, "pilot/split"))
    frame = frames(kept)[0].fillna(1.0)
    frame["d"] = 5.0
    frame.loc[int(held[0]), "d"] = 7.0
    fitted, scored, rows = piloted(frame)
    assert fitted.table.D == scored.table.D == rows.table.D == 4
    assert fitted.table.layout == rows.table.layout
    assert torch.equal(fitted.table.x[:, 3], rows.table.x[kept, 3])
