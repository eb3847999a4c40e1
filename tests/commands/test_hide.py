"""`vgi_cli.hide`, the Python twin of `vgi hide`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import vgi_cli
from tests.program import Vgi, vgi
from vgi_cli.errors import UsageError

__all__ = ["vgi"]

ASK = ["--mechanism", "mar", "--rate", "0.2", "--seed", "3", "--columns", "age", "--columns", "sex", "--id", "id"]
SAME = {"mechanism": "mar", "rate": 0.2, "seed": 3, "only": ["age", "sex"], "id": "id"}


@pytest.fixture
def table(vgi: Vgi) -> Path:
    """A table in the folder of the test."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"id": [f"p{i}" for i in range(80)], "sex": rng.choice(["f", "m"], 80), "age": rng.poisson(40, 80)}
    )
    frame["weight"] = (70 + 9 * rng.normal(size=80)).round(1)
    frame.mask(rng.random(frame.shape) < [0, 0.1, 0, 0.1]).to_csv("t.csv", index=False)
    return Path("t.csv")


def test_the_same_bytes_as_the_command(vgi: Vgi, table: Path) -> None:
    lines: list[str] = []
    done = vgi("hide", table, *ASK, "-o", "one")
    assert vgi_cli.hide(table, **SAME, out="two", say=lines.append) == [
        Path("two") / p.name for p in map(Path, done.out.split())
    ]
    for name in ("table.csv", "mask.csv", "truth.csv", "trial.json"):
        assert Path("one", name).read_bytes() == Path("two", name).read_bytes()
    assert lines == done.err.splitlines()


def test_in_memory(vgi: Vgi, table: Path) -> None:
    assert vgi("hide", table, *ASK, "-o", "one", "-q").code == 0
    trial = vgi_cli.hide(table, **SAME)
    for name in ("table", "mask", "truth"):
        found, written = getattr(trial, name), pd.read_csv(f"one/{name}.csv")
        pd.testing.assert_frame_equal(found, written, check_dtype=False)
    assert trial.record == json.loads(Path("one/trial.json").read_text())
    assert not list(Path().glob("*/*.parquet"))


def test_of_a_table_in_memory(table: Path, vgi: Vgi) -> None:
    frame = pd.read_csv(table).set_index(np.arange(80) + 7)
    before = frame.copy()
    trial = vgi_cli.hide(frame, **SAME)
    pd.testing.assert_frame_equal(frame, before)
    pd.testing.assert_frame_equal(trial.truth, before, check_dtype=False)
    pd.testing.assert_frame_equal(
        trial.table.reset_index(drop=True), vgi_cli.hide(table, **SAME).table, check_dtype=False
    )
    assert list(trial.table.index) == list(trial.mask.index) == list(frame.index)
    assert ((trial.mask == 1) == trial.table.notna()).all(axis=None)
    assert (
        sum(own["hidden"] for own in trial.record["columns"].values())
        == (frame.notna() & (trial.mask == 0)).sum().sum()
    )
    run = vgi_cli.fit(trial.table, id="id", model="mixture", out="run", set={"model.components": 1, "bootstrap": 0})
    scores = run.evaluate(trial.table, truth=trial.truth)["imputation"]["columns"]
    assert {name: scores[name]["cells"] for name in ("age", "sex")} == {
        name: own["hidden"] for name, own in trial.record["columns"].items()
    }


def test_arrow_gives_arrow(table: Path, vgi: Vgi) -> None:
    trial = vgi_cli.hide(pa.Table.from_pandas(pd.read_csv(table)), **SAME)
    assert all(isinstance(own, pa.Table) for own in trial[:3])
    assert trial.table["age"].null_count == trial.record["columns"]["age"]["hidden"]
    paths = vgi_cli.hide(pd.read_csv(table), **SAME, out="trial")
    assert [path.name for path in paths] == ["table.parquet", "mask.parquet", "truth.parquet"]


def test_refusals(table: Path, vgi: Vgi) -> None:
    with pytest.raises(UsageError, match="--rate: expected a share above 0 and below 1, got 2"):
        vgi_cli.hide(table, rate=2)
    with pytest.raises(UsageError, match="--mechanism: expected mcar, mar or mnar, got 'mar2'"):
        vgi_cli.hide(table, mechanism="mar2")
    with pytest.raises(UsageError, match=r"'t\.csv' is a file"):
        vgi_cli.hide(table, out="t.csv")


@pytest.mark.parametrize("columns", ["age", ["age", "sex"]])
def test_columns_that_lose_cells_are_named_by_only(table: Path, columns: Any) -> None:
    with pytest.raises(UsageError, match=f"columns: expected a mapping, got {type(columns).__name__}") as caught:
        vgi_cli.hide(table, columns=columns)
    assert str(caught.value.hint).startswith("only=['a'] names the columns that lose cells; columns=")


@pytest.mark.parametrize("said", [{"mask": "m.csv"}, {"na_values": ["0"]}, {"decimal": ","}, {"delimiter": ";"}])
def test_how_files_are_read_is_refused_of_a_table_in_memory(said: dict[str, Any]) -> None:
    frame = pd.DataFrame({"a": [1.0, 2, 3], "b": [2.0, 1, 5]})
    for function in (vgi_cli.hide, vgi_cli.fit, vgi_cli.check):
        with pytest.raises(
            UsageError, match=f"{next(iter(said))}: says how files are read, and the table is in memory"
        ):
            function(frame, **said)


@pytest.mark.parametrize("mask", ["DataFrame", "ndarray", "Table"])
def test_a_mask_in_memory_is_refused(mask: str) -> None:
    """What it would do, pandas does."""
    table = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 3)), columns=["a", "b", "c"])
    hidden = vgi_cli.hide(table)
    given = {"DataFrame": hidden.mask, "ndarray": hidden.mask.to_numpy(), "Table": pa.Table.from_pandas(hidden.mask)}
    for function in (vgi_cli.fit, vgi_cli.check, vgi_cli.hide):
        with pytest.raises(UsageError) as caught:
            function(table, mask=given[mask])
        assert caught.value.message == f"mask: expected a path, got {mask}"
        assert caught.value.hint == "hide the cells in the table itself, with `frame.where(mask == 1)`"
    pd.testing.assert_frame_equal(table.where(hidden.mask == 1), hidden.table, check_dtype=False)
