"""benchmarks/make_vae_frey.py and vae_frey.py: tables of one law, centred together, with the holes that were asked for;
learning curves that go on where they stopped."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.scripts import script


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tables of faces of six pixels."""
    place = tmp_path_factory.mktemp("frey")
    rng = np.random.default_rng(0)
    faces = pd.DataFrame(6 * rng.integers(0, 40, (300, 6), dtype=np.uint8), columns=[f"p{i}" for i in range(6)])
    faces.to_parquet(place / "faces.parquet")
    made = ["--epochs", 2, "--sixths", 3, "--masks", 2]
    done = script("make_vae_frey", place / "faces.parquet", place / "out", *made)
    assert done.code == 0, done.err
    return place / "out"


def test_tables_are_centred_together_and_have_their_holes(folder: Path) -> None:
    tables = {part: pd.read_parquet(folder / f"{part}.parquet") for part in ("train", "val", "test")}
    assert {part: len(table) for part, table in tables.items()} == {"train": 2400, "val": 600, "test": 3000}
    assert float(tables["train"].mean().abs().max()) < 1e-9
    assert int(tables["train"].nunique().min()) == 2400, (
        "rows of an autoencoder's law, not the grey levels of the faces"
    )
    for part in ("val", "test"):  # of the same law: their means are near 0, not 0
        error = tables[part].std() / len(tables[part]) ** 0.5
        assert 1e-9 < float((tables[part].mean() / error).abs().max()) < 5
    holes = [pd.read_parquet(folder / f"train-3-{m}.parquet") for m in (1, 2)]
    for table in holes:
        assert abs(float(table.isna().mean().mean()) - 0.5) < 0.02
        pd.testing.assert_frame_equal(table.fillna(tables["train"]), tables["train"])
    assert not holes[0].isna().equals(holes[1].isna())


@pytest.mark.slow
def test_a_curve_goes_on_where_it_stopped(folder: Path) -> None:
    short = ["--methods", "mvae", "complete", "--sixths", 3, "--samples", 5, "--refit-epochs", 1, "--epochs"]
    first = script("vae_frey", folder, *short, 1)
    assert first.code == 0, first.err
    assert [line.split(",")[0] for line in first.out.splitlines() if " CPU s: " in line] == ["mvae 3/6", "complete 0/6"]
    kept = folder / "curves" / "mvae-3.json"
    point = json.loads(kept.read_text())[0]
    kept.write_text(json.dumps([point | {"val": 1e6, "test": 7.0}]))  # must be read, not made anew
    again = script("vae_frey", folder, *short, 1, 3)
    assert again.code == 0, again.err
    new = json.loads(kept.read_text())[1]
    assert new["epochs"] == 3 and new["cpu"] > point["cpu"]
    assert f"| mvae | 3/6 | 3 | {new['test']:.1f} | 1 | 7.0 |" in again.out
    if importlib.util.find_spec("matplotlib"):
        assert (folder / "curves" / "3.svg").stat().st_size > 1000
