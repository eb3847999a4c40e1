"""Bounds from the command line, a recipe and Python: what is said, kept and drawn."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import vgi_cli
from tests.cli.test_refusals import FA
from tests.program import Vgi
from tests.selection import first
from vgi_cli.columns.schema import Schema
from vgi_cli.runs.folder import RunFolder

CODES = [3, 4, 5, 8]
SHORT = [*FA, "--epochs", "15"]  # limits do not wait for convergence


@pytest.fixture
def frame(vgi: Vgi) -> pd.DataFrame:
    """y given x is normal and missing where x > 0.5; a positive weight, a scale and a code are missing here and there;
    saved as data.csv."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=150)
    frame = pd.DataFrame({"x": x, "y": 0.8 * x + 0.6 * rng.normal(size=150)}).round(4)
    frame["weight"] = np.exp(0.8 * rng.normal(size=150)).round(2)
    frame["stage"] = rng.integers(1, 6, 150)
    frame["site"] = rng.choice(CODES, 150)
    frame["y"] = frame["y"].mask(frame.x > 0.5)
    for name in ("weight", "stage", "site"):
        frame[name] = frame[name].mask(rng.random(150) < 0.3).astype("Int64" if name != "weight" else float)
    frame.to_csv("data.csv", index=False)
    return frame


def filled(run: str, frame: pd.DataFrame) -> list[pd.DataFrame]:
    """Ten filled tables, without further refits; what was observed is as it was."""
    tables = vgi_cli.impute(run, m=10, uncertainty="none")
    for table in tables:
        for name in frame:
            seen = frame[name].notna()
            assert (table[name][seen].astype(float) == frame[name][seen].astype(float)).all()
    return tables


def fills(tables: list[pd.DataFrame], frame: pd.DataFrame, name: str) -> np.ndarray:
    return np.concatenate([table[name][frame[name].isna()] for table in tables]).astype(float)


def test_a_tail_is_filled_beyond_the_observed_range_and_natural_limits_hold(vgi: Vgi, frame: pd.DataFrame) -> None:
    done = vgi("fit", "data.csv", *SHORT, "--out", "run", "-v")
    assert done.code == 0, done.err
    assert (
        "fills stay within limits: 'weight' above 0 (its sign); 'stage' 1 to 5 (few whole numbers); "
        "'site' only 3, 4, 5, 8 (the values that occur)\n" in done.err
    )
    assert "\nfills of 'weight': above 0 (its sign)\n" in done.err
    assert "column 'site' holds only 3, 4, 5, 8: filled with these values" in done.err
    tables = filled("run", frame)
    y = fills(tables, frame, "y")
    assert y.max() > frame.y.max() + 0.2 and (y > frame.y.max()).mean() > 0.02
    assert fills(tables, frame, "weight").min() > 0 and fills(tables, frame, "weight").max() > frame.weight.max() - 5
    assert set(fills(tables, frame, "stage")) == {1, 2, 3, 4, 5}
    site = fills(tables, frame, "site")
    assert set(site) == set(CODES)
    (written,) = (pd.read_csv(path) for path in vgi_cli.impute("run", m=1, uncertainty="none", out="o.csv"))
    assert set(written.site) == set(CODES) and (written.weight > 0).all()
    point = vgi_cli.impute("run", m=10, point="mean", uncertainty="none")[0]
    assert set(point.site) <= set(CODES) and point.stage.between(1, 5).all()


def test_without_v_the_details_stay_unsaid(vgi: Vgi, frame: pd.DataFrame) -> None:
    done = vgi("fit", "data.csv", *SHORT, "--out", "run")
    assert "fills stay within limits: " in done.err and "\nfills of '" not in done.err


def test_the_observed_range_by_request(vgi: Vgi, frame: pd.DataFrame) -> None:
    done = vgi("fit", "data.csv", *SHORT, "--out", "run", "--bounds", "all=observed", "--bounds", "weight=none")
    assert done.code == 0, done.err
    tables = filled("run", frame)
    y = fills(tables, frame, "y")
    assert frame.y.min() <= y.min() and y.max() <= frame.y.max()
    assert fills(tables, frame, "weight").min() < 0  # `none` lifts the sign too: a straight line knows none
    recipe = RunFolder.open(Path("run")).recipe()
    assert recipe.table.bounds == {"all": "observed", "weight": "none"}
    assert vgi("fit", "--recipe", "run/recipe.yaml", "--out", "again").code == 0
    assert Path("again/schema.json").read_text() == Path("run/schema.json").read_text()


def test_python_and_recipes_say_the_same(vgi: Vgi, frame: pd.DataFrame) -> None:
    Path("r.yaml").write_text(
        "model: {name: fa, factors: 1}\nbootstrap: 2\nepochs: 15\ntable: {bounds: {weight: '0:50', y: '-9:'}}\n"
    )
    assert vgi("fit", "data.csv", "--recipe", "r.yaml", "--out", "run").code == 0
    vgi_cli.fit(
        "data.csv",
        model="fa",
        set={"model.factors": 1, "bootstrap": 2},
        bounds={"weight": "0:50", "y": "-9:"},
        epochs=15,
        out="two",
    )
    texts = [Path(run, "schema.json").read_text() for run in ("run", "two")]
    assert texts[0] == texts[1]
    columns = {column["name"]: column for column in json.loads(texts[0])["columns"]}
    assert columns["weight"]["upper"] == {"value": 50.0, "why": "asked"}
    assert (columns["y"]["lower"], columns["y"]["upper"]) == ({"value": -9.0, "why": "asked"}, None)
    refused = vgi("fit", "data.csv", "--set", "table.bounds={y: '5'}", *FA)
    assert (
        refused.code == 2
        and "--bounds y=5: expected LOW:HIGH, LOW..HIGH of dates or times, observed or none, got '5'" in refused.error
    )


def test_a_run_of_an_earlier_version_fills_within_its_observed_range(vgi: Vgi, frame: pd.DataFrame) -> None:
    assert vgi("fit", "data.csv", *SHORT, "--out", "run", "--bounds", "site=none").code == 0
    schema = json.loads(Path("run/schema.json").read_text())
    for column in schema["columns"]:
        del column["lower"], column["upper"], column["levels"]
        column["bounded"] = True
    run = RunFolder.open(Path("run"))
    run.save({}, {}, {"schema.json": json.dumps({**schema, "format": 2})})
    tables = filled("run", frame)
    for name in ("y", "weight", "site"):
        values = fills(tables, frame, name)
        assert frame[name].min() <= values.min() and values.max() <= frame[name].max()
    assert Schema.from_json(RunFolder.open(Path("run")).text("schema.json")).format == 10


@pytest.mark.slow
def test_a_missing_tail_takes_nothing_from_variance_and_slope(tmp_path: Path) -> None:
    """1,000 rows, y missing beyond x = 0.5 (31 %): bias of fills without bounds, and of those in the observed range."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=1000)
    y = 0.8 * x + 0.6 * rng.normal(size=1000)
    table = pd.DataFrame({"x": x, "y": np.where(x > 0.5, np.nan, y)})
    found = []
    for bounds in ({}, {"y": "observed"}):
        run = vgi_cli.fit(
            table,
            model="fa",
            set={"model.factors": 1, "bootstrap": "none"},
            bounds=bounds,
            out=tmp_path / f"run{len(bounds)}",
            threads=1,
        )
        draws = run.impute(m=10)
        variance = np.mean([draw.y.var() for draw in draws]) / y.var() - 1
        slope = np.mean([np.polyfit(draw.x, draw.y, 1)[0] for draw in draws]) - np.polyfit(x, y, 1)[0]
        found.append((variance, slope))
    (free, steep), (truncated, flat) = found
    assert abs(free) < 0.03 and abs(steep) < 0.02
    assert truncated < -0.07 and flat < -0.04


@pytest.mark.parametrize(("side", "sign"), first(1, [("above", -1), ("below", 1)]))
def test_fills_that_the_model_wants_beyond_zero_are_told(tmp_path: Path, side: str, sign: int) -> None:
    rng = np.random.default_rng(0)
    w = rng.normal(size=300)
    temp = np.round(sign * (5 + 5 * w + 2 * rng.normal(size=300)), 2)
    holed = pd.DataFrame({"w": np.round(w, 3), "the temp": np.where(w < -0.5, np.nan, temp)})
    holed.loc[sign * holed["the temp"] <= 0, "the temp"] = np.nan
    line = f"of the fills of 'the temp' {side} zero, where no observed value lies, and drew them anew"
    for more in ({}, {"unbounded": ["the temp"]}):
        settings = {"model.components": 1, "table.transform": "linear", "bootstrap": 2}
        run = vgi_cli.fit(
            holed, model="mixture", set=settings, out=tmp_path / f"{len(more)}", say=lambda text: None, **more
        )
        said: list[str] = []
        run.impute(m=4, say=said.append)
        told = [text for text in said if line in text]
        assert bool(told) != bool(more)
        assert all("fit again with `--unbounded 'the temp'`; if none can, `--set table.tr" in text for text in told)
    rounded = holed.assign(w=holed.w.abs() + 5.0)  # far from zero: nothing is drawn beyond
    rounded["the temp"] = sign * (rounded["the temp"].abs() + 100.0)
    run = vgi_cli.fit(rounded, model="fa", set={"bootstrap": "none"}, out=tmp_path / "far", say=lambda text: None)
    said = []
    run.impute(m=2, say=said.append)
    assert not any("zero, where no observed value lies" in text for text in said)


@pytest.mark.parametrize("transform", ["linear", "normal"])
def test_synthetic_cells_that_the_model_wants_beyond_zero_are_told(tmp_path: Path, transform: str) -> None:
    rng = np.random.default_rng(0)
    price = np.exp(rng.normal(3, 1.2, 300)).round(2)
    table = pd.DataFrame({"price": price, "x": rng.normal(size=300).round(2)})
    settings = {"model.components": 1, "table.transform": transform, "bootstrap": "none"}
    run = vgi_cli.fit(table, model="mixture", set=settings, out=tmp_path / "run", say=lambda text: None)
    said: list[str] = []
    assert (run.sample(n=200, say=said.append).price >= 0).all()
    told = [text for text in said if "of the cells of 'price' below zero, where no observed value lies" in text]
    assert len(told) == (transform == "linear") and all("`--set table.transform=normal` may" in text for text in told)


def test_fills_beyond_the_type_of_a_column_are_not_told_as_below_zero(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    w = rng.normal(size=400)
    size = np.round(215 + 25 * w + 8 * rng.normal(size=400))
    seen = (size <= 252) & (w < 1.0)
    table = pd.DataFrame({"w": w.round(3), "size": pd.array(np.where(seen, size, 0), "UInt8")})
    table["size"] = table["size"].mask(~seen)
    settings = {"model.components": 1, "table.transform": "linear", "bootstrap": "none"}
    run = vgi_cli.fit(table, model="mixture", set=settings, out=tmp_path / "run", say=lambda text: None)
    said: list[str] = []
    run.impute(m=3, say=said.append)
    assert not any("where no observed value lies" in text for text in said)
