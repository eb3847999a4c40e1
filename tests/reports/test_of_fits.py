"""Fits that are good are not accused, and fits that are bad are: what the verdicts are for. Tables are made here."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import vgi_cli
from tests.selection import first
from vgi_cli.reports.values import Level

SAMPLES = Path(__file__).parents[2] / "sample_data"

Cells = np.ndarray


def holes(x: Cells, share: float, draw: np.random.Generator) -> Cells:
    """As texts, a share of them empty."""
    texts = np.array([[f"{value:.4f}" for value in row] for row in x], dtype=object)
    texts[draw.random(x.shape) < share] = ""
    return texts


def factors(draw: np.random.Generator) -> Cells:
    return holes(draw.normal(size=(400, 3)) @ draw.normal(size=(3, 8)) + 0.5 * draw.normal(size=(400, 8)), 0.2, draw)


def clusters(draw: np.random.Generator) -> Cells:
    centres = np.array([[0, 0, 0], [5, 0, 4], [0, 6, 2]])
    return holes(centres[draw.integers(0, 3, 600)] + draw.normal(size=(600, 3)), 0.25, draw)


def curved(draw: np.random.Generator) -> Cells:
    t = draw.uniform(0, 6, 500)
    x = np.stack([t, np.sin(t), np.cos(t), 0 * t], 1) + draw.normal(size=(500, 4)) * [0.2, 0.15, 0.15, 1]
    return holes(x, 0.2, draw)


def skewed(draw: np.random.Generator) -> Cells:
    return holes(np.exp(draw.normal(size=(500, 1)) + 0.5 * draw.normal(size=(500, 4))), 0.15, draw)


def coded(draw: np.random.Generator) -> Cells:
    code = draw.integers(1, 13, 400)
    y = 3 * draw.normal(size=13)[code] + 0.3 * draw.normal(size=400)
    table = holes(np.stack([code, y, 0.3 * y + draw.normal(size=400)], 1), 0.1, draw)
    table[:, 0] = [text[:-5] for text in table[:, 0]]  # whole numbers
    return table


def numbered(draw: np.random.Generator) -> Cells:
    table = coded(draw)
    table[:, 0] = [str(i + 1) for i in range(len(table))]
    return table


def marked(draw: np.random.Generator) -> Cells:
    table = factors(draw)
    table[draw.random(len(table)) < 0.1, 0] = "-999"
    return table


def copies(draw: np.random.Generator) -> Cells:
    """Two columns that are all but equal, and are missing together."""
    z = draw.normal(size=(400, 1))
    x = np.hstack([z + 0.003 * draw.normal(size=(400, 2)), draw.normal(size=(400, 1))])
    table = holes(x, 0.0, draw)
    table[draw.random(400) < 0.4, :2] = ""
    return table


def write(make: Callable[[np.random.Generator], Cells], seed: int) -> str:
    rows = [",".join(row) for row in make(np.random.default_rng(seed))]
    head = ",".join(f"x{i}" for i in range(rows[0].count(",") + 1))
    Path("table.csv").write_text("\n".join([head, *rows]) + "\n")
    return "table.csv"


def verdicts(data: str | Path, **options: Any) -> list[dict[str, str]]:
    options = {"threads": 1, **options, "set": {"bootstrap": 4, "trees": "none", **options.get("set", {})}}
    (run,) = vgi_cli.fit(str(data), out="run", **options).report()["runs"]
    found: list[dict[str, str]] = run["verdicts"]
    return found


ONE: dict[str, Any] = {"model": "mixture", "epochs": 60, "set": {"model.components": 1}}


def accused(found: list[dict[str, str]], level: Level = "bad") -> dict[str, str]:
    return {verdict["about"]: verdict["text"] for verdict in found if verdict["level"] == level}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "seed", "options"),
    [
        ("penguins.csv", 0, {}),
        ("penguins.csv", 1, {"mask": SAMPLES / "penguins.mask.csv"}),
        ("mammals.csv", 0, {}),
        ("mammals.csv", 1, {}),
        ("weather.parquet", 0, {}),
        (factors, 2, {"model": "fa"}),
        (factors, 3, {}),
        (clusters, 4, {}),
        (curved, 5, {}),
        (skewed, 6, {}),
        (clusters, 7, {"model": "flow", "set": {"bootstrap": "none"}}),
        (curved, 8, {"model": "flow", "set": {"bootstrap": "none"}}),
        (factors, 9, {"model": "vae", "set": {"bootstrap": "none"}}),
    ],
)
def test_good_fits_are_not_accused(
    make: Any, seed: int, options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    data = SAMPLES / make if isinstance(make, str) else write(make, seed)
    assert accused(verdicts(data, seed=seed, **options)) == {}


FEW = {"optim.warmup_conditionals": 1, "optim.warmup_model": 1, "bootstrap": "none"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "options", "about", "text"),
    [
        (curved, {"model": "flow", "epochs": 1, "set": FEW}, "training", "too few to see"),
        (curved, {"model": "flow", "epochs": 10, "set": {"bootstrap": "none"}}, "training", "still rising"),
        (clusters, {"model": "mixture", "epochs": 1, "set": {"model.components": 3}}, "training", "too few to see"),
        (curved, {"model": "mixture", "epochs": 3, "set": {"model.components": 8}}, "training", "still rising"),
        (coded, {"columns": {"x0": "integer"}}, "columns", "'x0' (integer) may be of a wrong kind: as labels"),
        (numbered, {}, "columns", "number the rows"),
        (marked, {}, "columns", "-999 stands far"),
        (coded, {"columns": {"x0": "integer", "x1": "categorical"}}, "columns", "categories are all numbers"),
    ],
)
def test_bad_fits_are_called_bad(
    make: Any, options: dict[str, Any], about: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = accused(verdicts(write(make, 7), **options))
    assert text in found.get(about, ""), found


@pytest.mark.slow
def test_stuck_chains_are_called_bad(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two copies, of which one is redrawn given the other, cannot leave where they are. Chains that redraw whole rows
    can; tables of very many columns have none of these moves."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("vgi_cli.samplers.together.stand_in", lambda *rest: None)
    found = verdicts(write(copies, 1), model="flow", epochs=30, set={"bootstrap": "none"})
    assert "stuck or disagree" in accused(found).get("chains", ""), found


@pytest.mark.parametrize("by", first(1, ["number", "level"]))
def test_questions_that_are_not_asked_are_no_extrapolation(
    by: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Petrol cars have no opacity, and fees of their own; nobody below 18 has an income."""
    monkeypatch.chdir(tmp_path)
    draw = np.random.default_rng(3)
    n = 300
    asked = draw.random(n) < 0.5
    if by == "level":
        first, fee = np.where(asked, "diesel", "petrol"), np.where(asked, 60.0, 50.0) + draw.normal(size=n).round(2)
        flags = "--leave-blank value:first=petrol"
    else:
        first, fee = np.where(asked, draw.integers(18, 80, n), draw.integers(1, 18, n)), draw.normal(size=n).round(2)
        flags = "--leave-blank 'value:first<18'"
    value = np.where(asked & (draw.random(n) > 0.15), draw.gamma(3, size=n).round(2).astype(str), "")
    first = np.where(draw.random(n) < 0.15, "", first.astype(str))  # of these rows nothing says whether they were
    rows = [f"{a},{b},{c}" for a, b, c in zip(first, value, fee.round(2), strict=True)]
    Path("asked.csv").write_text("\n".join(["first,value,fee", *rows]) + "\n")
    said = [one["text"] for one in verdicts("asked.csv", **ONE) if one["about"] == "fills"]
    (line,) = [text for text in said if "may not have been asked" in text]
    assert f"(vgi impute {flags} leaves them blank)" in line
    assert line.startswith(
        f"{(~asked & (first != '')).sum()} holes lie in rows that may not have been asked for 'value': "
    )
    assert not any("extrapolates" in text for text in said)


def test_questions_behind_one_that_is_not_asked_count_as_where_fills_are_warned_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who never smoked is asked neither whether they smoke now nor how much."""
    monkeypatch.chdir(tmp_path)
    draw, n = np.random.default_rng(5), 400
    ever = draw.random(n) < 0.6
    now = ever & (draw.random(n) < 0.4)  # too few for what the first question says of the third to be seen
    frame = pd.DataFrame({"age": draw.integers(18, 80, n), "ever": np.where(ever, "yes", "no")})
    frame["now"] = np.where(ever, np.where(now, "yes", "no"), None)
    frame["cigarettes"] = np.where(now, draw.poisson(12, n) + 1.0, np.nan)
    frame.to_csv("asked.csv", index=False)
    said = [one["text"] for one in verdicts("asked.csv", **ONE) if one["about"] == "fills"]
    (line,) = [text for text in said if "may not have been asked" in text]
    holes = int(frame[["now", "cigarettes"]].isna().sum().sum())
    assert line.startswith(f"{holes} holes lie in rows that may not have been asked for 'now', 'cigarettes': "), line


def test_a_rank_that_times_predict_and_a_rate_of_a_country_are_not_accused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rank numbers the rows, and one rate lies far from the others."""
    monkeypatch.chdir(tmp_path)
    draw = np.random.default_rng(0)
    n = 200
    seconds = draw.normal(6000, 600, n)
    lands = draw.choice(["AT", "BE", "DE", "FR"], n, p=[0.3, 0.3, 0.3, 0.1])
    rates = {"AT": 20.0, "BE": 20.5, "DE": 19.7, "FR": 2.1}
    frame = pd.DataFrame(
        {
            "seconds": np.where(draw.random(n) < 0.1, np.nan, seconds.round(1)),
            "rank": np.argsort(np.argsort(seconds)) + 1,
            "bib": draw.permutation(n) + 1,
            "land": np.where(draw.random(n) < 0.1, None, lands),
            "rate": [rates[land] for land in lands],
        }
    )
    frame.to_csv("race.csv", index=False)
    found = verdicts("race.csv", model="mixture", columns={"rate": "numeric"}, set={"model.components": 2})
    wrong = [one["text"] for one in found if one["about"] == "columns" and one["level"] == "bad"]
    assert len(wrong) == 1 and "'bib'" in wrong[0] and "number the rows" in wrong[0]
