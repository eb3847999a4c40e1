"""`vgi report --tipping` against `vgi impute --delta` and pooling by hand."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import vgi_cli
from tests.program import Vgi
from tests.schemas import checked
from vgi_cli.columns.datetime import Moment
from vgi_cli.commands.report.tipping import Asked, tipping
from vgi_cli.fitting.fitted import load_run
from vgi_cli.reporting import Silent

DRAWN = all(importlib.util.find_spec(name) is not None for name in ("matplotlib", "jinja2"))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of numbers, whole numbers (`age`, rounded at random), dates, levels, and a column without a hole."""
    rng, N = np.random.default_rng(3), 120
    a = rng.normal(size=N)
    days = pd.to_datetime("2020-01-01") + pd.to_timedelta(rng.integers(0, 300, N), "D")
    frame = pd.DataFrame(
        {
            "a=b": a,
            "age": rng.poisson(30 + 5 * a + 10),
            "day": days.strftime("%Y-%m-%d"),
            "level": rng.choice(["x", "y", "z"], N),
        }
    )
    frame = frame.mask(rng.random(frame.shape) < 0.25).assign(full=a + rng.normal(size=N), note="")
    folder = tmp_path_factory.mktemp("tipping")
    frame.to_csv(folder / "t.csv", index=False)
    few = {"model.components": 1, "bootstrap": 3, "trees": "none"}
    return Path(vgi_cli.fit(folder / "t.csv", model="mixture", set=few, threads=1, out=folder / "run").path)


def test_as_by_hand(run: Path, vgi: Vgi) -> None:
    done = vgi("report", run, "--tipping", "a=b", "--tipping", "age=32", "--tipping", "day", "--json", "-q")
    assert done.code == 0, done.err
    (report,) = checked("report", done.out)["runs"]
    tips = {tip["column"]: tip for tip in report["tipping"]}
    assert list(tips) == ["a=b", "age", "day"]
    fitted = vgi_cli.load(run)
    for name, tip in tips.items():
        assert len(tip["shifts"]) == 33 and tip["unit"] == ("days" if name == "day" else "")
        origin = str(np.datetime64(days_from(run), "D")) if name == "day" else ""
        assert tip["origin"] == origin
        for sd in (-1.5, 0.0, 0.625):
            at = next(one for one in tip["shifts"] if one["sd"] == sd)
            pooled = by_hand(fitted.impute(m=5, delta={name: f"{sd:+}sd"}), name, days_from(run))
            for key in ("estimate", "low", "high"):
                assert at[key] == pytest.approx(pooled[key], abs=1e-9, rel=1e-9), (name, sd)
    assert tips["a=b"]["against"] == tips["a=b"]["shifts"][16]["estimate"] and not tips["a=b"]["asked"]
    assert tips["age"]["against"] == 32 and tips["age"]["asked"]
    (one,) = (own for own in report["columns"] if own["name"] == "a=b")
    assert one["pooled"]["estimate"] == pytest.approx(tips["a=b"]["against"], rel=1e-12)
    assert sum(verdict["about"] == "tipping" for verdict in report["verdicts"]) == 3


def days_from(run: Path) -> int:
    """The day from which the run counts days."""
    (column,) = (own for own in load_run(run, Silent()).schema.encoded if isinstance(own, Moment))
    return column.clock.origin


def by_hand(tables: list[pd.DataFrame], name: str, origin: int) -> dict[str, float]:
    """The mean of a column of filled tables, pooled."""
    cells = np.stack([own[name] for own in tables])
    if name == "day":
        cells = cells.astype("datetime64[D]").astype(float) - origin
    n = cells.shape[1]
    found = vgi_cli.pool(cells.mean(1), cells.std(1, ddof=1) / n**0.5, df_complete=n - 1)
    return {key: float(own[0]) for key, own in found.columns.items()}


def test_a_choice_of_rows(run: Path) -> None:
    (report,) = vgi_cli.report(run, rows=50, tipping="age")["runs"]
    (tip,) = report["tipping"]
    (age,) = (own for own in report["columns"] if own["name"] == "age")
    assert tip["against"] == pytest.approx(age["pooled"]["estimate"], rel=1e-12)  # of the same rows
    assert tip["shifts"][0]["estimate"] < tip["against"] < tip["shifts"][-1]["estimate"]


def test_a_column_without_a_hole(run: Path) -> None:
    (report,) = vgi_cli.report(run, tipping=["full"])["runs"]
    assert len({one["estimate"] for one in report["tipping"][0]["shifts"]}) == 1
    assert "No cell of 'full' is missing: its mean rests on no fill." in [own["text"] for own in report["verdicts"]]


@pytest.mark.skipif(not DRAWN, reason="the extra `report` is not installed")
def test_page(run: Path, vgi: Vgi) -> None:
    tips = [f"--tipping={name}" for name in ("a=b", "age=32", "day", "full")]
    assert vgi("report", run, *tips, "-o", "page.html", "-q").code == 0
    text = Path("page.html").read_text(encoding="utf-8")
    section = text[text.index('<section id="tipping"') :]
    assert section.count("<figure>") == 3
    assert section.count("mean of ") >= 3 and "a=b at every shift" in section and "in days" in section
    assert "These means rest on 5 imputations of all rows" in section


@pytest.mark.parametrize(
    ("said", "message", "hint"),
    [
        ("agf", "--tipping agf: column 'agf' is none of the run", "did you mean 'age'?"),
        ("agf=3", "--tipping agf=3: column 'agf' is none of the run", "did you mean 'age'?"),
        ("note", "--tipping note: column 'note' is not modelled, so nothing fills it", ""),
        (
            "level",
            "--tipping level: 'level' has levels, which have no mean to shift",
            "`vgi impute --delta level=x:x1.5` changes their odds",
        ),
        ("age=old", "--tipping age=old: expected a number after =, got 'old'", "--tipping age=3.5"),
        ("age=inf", "--tipping age=inf: expected a number after =, got 'inf'", "--tipping age=3.5"),
        ("day=2020-02-02", "--tipping day=2020-02-02: a column of kind date takes no value", "--tipping day"),
    ],
)
def test_refused(run: Path, vgi: Vgi, said: str, message: str, hint: str) -> None:
    done = vgi("report", run, "--tipping", said, "--json")
    assert done.code == 2 and done.out == "" and done.error == message and done.hint.startswith(hint)


def test_said_twice(run: Path, vgi: Vgi) -> None:
    done = vgi("report", run, "--tipping", "age", "--tipping", "age=3", "--json")
    assert done.code == 2 and done.error == "--tipping age=3: the column was named already"


def test_one_draw_has_no_interval(run: Path) -> None:
    fitted = load_run(run, Silent())
    (place,) = (i for i, name in enumerate(fitted.schema.modelled) if name == "age")
    draws = np.ones((1, 4, len(fitted.schema.modelled)))
    holes = np.array([True, False, False, False])
    assert tipping(fitted.schema, Asked(place, None), draws, holes, np.full((1, 4), 0.5)) is None
