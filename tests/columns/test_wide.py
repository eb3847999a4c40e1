"""A kind with several dimensions, from a table to filled tables and scores."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import vgi_cli
from tests.test_extending import EXAMPLES

N = 120
PLUGIN, COLOUR = EXAMPLES["colour"], re.compile("#[0-9a-f]{6}")


def tables() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Numbers and the colours that go with them, whole and with a third of the colours hidden."""
    rng = np.random.default_rng(0)
    heat = rng.normal(size=N)
    red = np.clip(np.rint(128 + 50 * heat), 0, 255).astype(int)
    whole = pd.DataFrame({"heat": heat.round(3), "colour": [f"#{v:02x}40{255 - v:02x}" for v in red]})
    return whole, whole.assign(colour=whole["colour"].where(rng.random(N) > 0.3, ""))


@pytest.mark.parametrize(
    ("model", "settings"),
    [
        ("fa", {"method": "em", "epochs": 30, "set": {"model.factors": 1}}),
        pytest.param(
            "fa",
            {"method": "vgi", "epochs": 2, "set": {"model.factors": 1, "method.trunk": [8], "method.hidden": [8]}},
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "vae",
            {"method": "vbgi", "epochs": 2, "set": {"model.latents": 1, "model.decoder": [4], "method.trunk": [4]}},
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_wide_column_is_fitted_filled_and_scored(
    model: str, settings: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    whole, holes = tables()
    whole.to_csv("whole.csv", index=False)
    holes.to_csv("holes.csv", index=False)
    Path("colours.py").write_text(PLUGIN)
    run = vgi_cli.fit("holes.csv", out="run", model=model, seed=1, plugins=["colours.py"], **settings)  # type: ignore[arg-type]
    schema = json.loads(Path("run/schema.json").read_text())
    assert schema["columns"][1] == {"name": "colour", "kind": "colour", "role": "data"}
    filled: list[Any] = run.impute(m=2)
    for one in filled:
        colours = one["colour"].tolist()
        assert all(map(COLOUR.fullmatch, colours))
        assert [new for new, old in zip(colours, holes["colour"], strict=True) if old] == [
            c for c in holes["colour"] if c
        ]
    assert filled[0]["colour"].tolist() != filled[1]["colour"].tolist()
    report: Any = run.evaluate("holes.csv", truth="whole.csv")
    scores = report["imputation"]
    assert scores["distance"] == scores["columns"]["colour"]["distance"] < 200 and "crps" not in scores
    assert report["loglik"]["mean"] < 0
