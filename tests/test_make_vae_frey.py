"""benchmarks/make_vae_frey.py: tables of one law, centred together, with the holes that were asked for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from tests.scripts import script


def test_tables_are_centred_together_and_have_their_holes(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    faces = pd.DataFrame(rng.integers(0, 256, (300, 6), dtype=np.uint8), columns=[f"p{i}" for i in range(6)])
    faces.to_parquet(tmp_path / "faces.parquet")
    made = ["--epochs", 2, "--sixths", 3, "--masks", 2]
    done = script("make_vae_frey", tmp_path / "faces.parquet", tmp_path / "out", *made)
    assert done.code == 0, done.err
    tables = {part: pd.read_parquet(tmp_path / "out" / f"{part}.parquet") for part in ("train", "val", "test")}
    assert {part: len(table) for part, table in tables.items()} == {"train": 2400, "val": 600, "test": 3000}
    assert float(tables["train"].mean().abs().max()) < 1e-9
    for part in ("val", "test"):  # of the same law: their means are near 0, not 0
        error = tables[part].std() / len(tables[part]) ** 0.5
        assert 1e-9 < float((tables[part].mean() / error).abs().max()) < 5
    holes = [pd.read_parquet(tmp_path / "out" / f"train-3-{m}.parquet") for m in (1, 2)]
    for table in holes:
        assert abs(float(table.isna().mean().mean()) - 0.5) < 0.02
        pd.testing.assert_frame_equal(table.fillna(tables["train"]), tables["train"])
    assert not holes[0].isna().equals(holes[1].isna())
