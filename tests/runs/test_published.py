"""The JSON files of a run folder are what the schemas in vgi_cli/schemas/ say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import vgi_cli
from tests.schemas import FOLDER, checked
from vgi_cli.runs.manifest import Data, Manifest, Progress

TINY: dict[str, Any] = {
    "model.steps": 1,
    "model.hidden": 4,
    "method.trunk": [4],
    "method.hidden": [4],
    "optim.warmup_conditionals": 1,
    "optim.warmup_model": 1,
    "bootstrap": "none",
}


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    """A column of nearly every kind, with holes."""
    rng = np.random.default_rng(0)
    a = rng.normal(size=120)
    frame = pd.DataFrame(
        {
            "key": [f"k{i}" for i in range(120)],
            "a": a.round(2),
            "count": rng.poisson(9, 120).astype(float),
            "pile": np.where(rng.random(120) < 0.4, 0.0, np.exp(a).round(3)),
            "kind": np.where(a > 0, "x", np.where(a > -1, "y", "z")),
            "yes": np.where(a + rng.normal(size=120) > 0, "Y", "N"),
            "day": pd.date_range("2021-01-01", periods=120).strftime("%Y-%m-%d"),
            "at": pd.date_range("2021-01-01", periods=120, freq="7h").strftime("%Y-%m-%d %H:%M"),
            "clock": [f"{i % 24:02}:{i % 60:02}" for i in range(120)],
            "same": "one",
            "nothing": None,
            "w": rng.uniform(1, 2, 120).round(2),
        }
    )
    for name in ("a", "count", "pile", "kind", "yes", "day", "at", "clock"):
        frame.loc[rng.random(120) < 0.1, name] = None
    return frame


def whole(run: Path) -> dict[str, Any]:
    """The JSON files of a run by their names, each after it was found to be what its schema says."""
    found: dict[str, Any] = {
        path.name: checked(path.stem.partition("-")[0], path.read_text(encoding="utf-8"))
        for path in sorted(run.glob("*.json"))
    }
    lines = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    return {**found, "metrics.jsonl": [checked("metrics", line) for line in lines]}


@pytest.mark.usefixtures("two_models")
def test_of_models_that_were_compared(table: pd.DataFrame, tmp_path: Path) -> None:
    few = {"bootstrap": 2, "trees": "none", "average": "none"}
    some = table[["key", "a", "count", "kind", "w"]][:60]
    run = vgi_cli.fit(some, id="key", weight="w", set=few, out=tmp_path / "run", threads=1)
    found = whole(run.path)
    assert set(found) == {"contest.json", "manifest.json", "metrics.jsonl", "schema.json"}
    assert found["metrics.jsonl"][0]["loglik"] < 0 and found["contest.json"]["score"] == "cells"


def test_of_all_kinds_of_columns_and_of_training(table: pd.DataFrame, tmp_path: Path) -> None:
    table.to_csv(tmp_path / "t.csv", index=False)
    said: dict[str, Any] = {"id": "key", "columns": {"count": "bounded:0:50"}, "threads": 1}
    settings: dict[str, Any] = {**said, "set": TINY, "epochs": 2}
    run = vgi_cli.fit(tmp_path / "t.csv", model="flow", val=0.2, time_limit="1h", out=tmp_path / "run", **settings)
    found = whole(run.path)
    kinds = {column["kind"] for column in found["schema.json"]["columns"]}
    assert {"carried", "numeric", "bounded", "categorical", "boolean", "date", "datetime", "time", "empty"} <= kinds
    assert {line["stage"] for line in found["metrics.jsonl"]} == {"warm_conditionals", "warm_model", "main"}
    assert found["metrics.jsonl"][-1]["val_loglik"] < 0 and len(found["metrics.jsonl"][-1]["acceptance"]) == 9
    tuned = vgi_cli.finetune(run.path, tmp_path / "t.csv", epochs=1, out=tmp_path / "tuned", threads=1)
    assert whole(tuned.path)["manifest.json"]["command"] == "finetune"


def test_the_schema_of_a_manifest_has_every_key_that_it_may_have() -> None:
    schema = json.loads((FOLDER / "manifest.json").read_text(encoding="utf-8"))
    for keys, model in (
        (schema["properties"], Manifest),
        (schema["properties"]["data"]["properties"], Data),
        (schema["properties"]["progress"]["properties"], Progress),
    ):
        assert set(keys) == set(model.model_fields)
    needed = {name for name, field in Manifest.model_fields.items() if field.is_required()}
    assert set(schema["required"]) == needed


def test_what_no_run_has_is_refused() -> None:
    """The schemas are strict enough to see a slip."""
    from jsonschema import ValidationError

    for name, text in (
        ("metrics", '{"epoch": 0, "step": 1, "seconds": 0.1}'),
        ("metrics", '{"epoch": 1, "step": 1, "seconds": 0.1, "acceptance": [1.2]}'),
        ("contest", '{"score": "cells", "rows": 1, "candidates": []}'),
        ("schema", '{"format": 1, "transform": "linear", "columns": [{"name": "a", "role": "data"}]}'),
        ("manifest", "{}"),
    ):
        with pytest.raises(ValidationError):
            checked(name, text)
