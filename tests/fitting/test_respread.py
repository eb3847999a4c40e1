"""Rounded columns are spread over their steps anew in every epoch of a fit that climbs by gradients."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import vgi_cli
from tests.selection import first
from tests.tensors import same_tensors
from vgi_cli.encoding.encoder import Respread, decode, encode
from vgi_cli.fitting.fitted import load_run
from vgi_cli.fitting.rows import Rows, new_schema, rows_of
from vgi_cli.methods.loop import Stage, batches, epochs
from vgi_cli.models.base import built
from vgi_cli.registry.names import METHODS, MODELS
from vgi_cli.reporting import Silent
from vgi_cli.settings.recipe import Recipe
from vgi_cli.table.frames import from_frame


def frame() -> pd.DataFrame:
    """Counts, numbers of one decimal, and one that is not rounded; holes in each."""
    rng = np.random.default_rng(0)
    z = rng.normal(size=50)
    columns = {"n": rng.poisson(np.exp(1 + z / 2)) * 1.0, "t": np.round(z, 1), "x": z + rng.normal(size=50)}
    return pd.DataFrame(columns).mask(rng.random((50, 3)) < 0.2)


def rows() -> Rows:
    table = from_frame(frame())
    return rows_of(table, new_schema(table, Recipe(), Silent()), 5)


def test_other_noise_is_that_of_another_encoding() -> None:
    every = rows()
    assert every.source is not None
    table, schema = every.source
    assert [column.noisy for column in schema.encoded] == [True, True, False]
    some = torch.tensor([7, 3, 40])
    part = every.at(some)
    for draw in (0, 1, 1 << 33):
        respread = part.respread(5)
        assert isinstance(respread, Respread)
        dims, values = respread(draw)
        expected = encode(table, schema, seed=5, draw=draw).table
        there = ~expected.missing[some][:, dims]
        assert dims.tolist() == [0, 1]
        assert torch.equal(values[there], expected.x[some][:, dims][there])


def test_there_is_none_without_rounded_columns() -> None:
    table = from_frame(frame()[["x"]])
    one = rows_of(table, new_schema(table, Recipe(), Silent()), 5)
    assert one.respread(5) is None and Rows.of(one.table).respread(5) is None
    with pytest.raises(ValueError, match="no column is rounded"):
        Respread(table, one.source.schema, seed=5, keys=one.keys, places=one.places)  # type: ignore[union-attr]


def test_every_epoch_has_its_own_noise_and_the_values_stay() -> None:
    every = rows()
    assert every.source is not None
    table, schema = every.table.to(dtype=torch.float32), every.source.schema
    config = METHODS.load("miwae").Config(epochs=3, samples=2, optim={"batch_size": 16})
    model = built(MODELS.load("vae"), MODELS.load("vae").Config(latents=1, encoder=(4,), decoder=(4,)), table.layout)
    state = METHODS.load("miwae").init(model, table, config, torch.Generator().manual_seed(0))
    state.respread = every.respread(5)
    seen, before = [], table.x.clone()
    for _ in epochs(state, Stage.MAIN, 3):
        for _ in batches(state):
            state.step_end()
        assert bool((state.chains.x[every.table.missing] == 0).all())
        seen.append(state.chains.x.clone())
        state.epoch_end()
    assert torch.equal(table.x, before)  # those of the caller
    codes = decode(before, schema)[~every.table.missing.numpy()]
    for one, other in itertools.pairwise([before, *seen]):
        there = ~every.table.missing
        assert bool((one[:, :2] != other[:, :2])[there[:, :2]].all())
        assert torch.equal(one[:, 2], other[:, 2])
        np.testing.assert_allclose(decode(other, schema)[there.numpy()], codes, atol=1e-5)
    state.spread(0)
    np.testing.assert_array_equal(state.chains.x, before)


@pytest.mark.parametrize("method", first(1, ["miwae", "vgi", "impute-then-fit"]))
def test_a_resumed_fit_ends_in_the_same_bits(tmp_path: Path, method: str) -> None:
    steady = {
        "optim.schedule": "constant",
        "optim.average": 0,
        "bootstrap": "none" if method == "impute-then-fit" else 2,
        "model.decoder": [4],
        "model.encoder": [4],
    }
    more = {"optim.warmup_model": 1, "optim.warmup_conditionals": 1, "method.imputations": 2} if method == "vgi" else {}
    named = {"model": "vae", "method": method, "threads": 1, "set": steady | more}
    vgi_cli.fit(frame(), out=tmp_path / "whole", epochs=3, **named)
    vgi_cli.fit(frame(), out=tmp_path / "part", epochs=2, **named)
    vgi_cli.fit(frame(), out=tmp_path / "part", resume=True, epochs=3)
    whole, part = (load_run(tmp_path / name, Silent()).run.tensors("model") for name in ("whole", "part"))
    assert same_tensors(whole, part)
