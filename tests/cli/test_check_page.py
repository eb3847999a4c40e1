"""`vgi check --report`: the page, what it says without pictures, and what it refuses."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import vgi_cli
from tests.program import Vgi
from vgi_cli.errors import UsageError

DRAWN = all(importlib.util.find_spec(name) is not None for name in ("matplotlib", "jinja2"))
draws = pytest.mark.skipif(not DRAWN, reason="the extra `report` is not installed")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(50, 3)).round(3), columns=["a", "<b>", "c$"])
    frame.loc[:9, "a"] = np.nan
    frame.loc[10:, "<b>"] = np.nan
    frame.loc[49, ["a", "c$"]] = np.nan
    frame["twin"] = frame["c$"]
    frame.to_csv(tmp_path / "t.csv", index=False)
    return tmp_path / "t.csv"


@draws
def test_the_page_says_what_the_text_says_and_needs_no_network(vgi: Vgi, table: Path, tmp_path: Path) -> None:
    plain = vgi("check", "t.csv", "--no-trial")
    done = vgi("check", "t.csv", "--no-trial", "--report", "page.html")
    assert done.code == 0 and done.out == plain.out and "the page is page.html" in done.err
    page = (tmp_path / "page.html").read_text()
    assert "<title>t.csv before a fit</title>" in page and page.count("<svg") == 2
    assert "1 pair of columns is never observed together" in page and "1 row has no cell of a modelled column" in page
    assert "&#39;twin&#39; = &#39;c$&#39;" in page and "rests on the model alone" in page
    assert "<b>" not in re.sub(r'<b style="[^"]*">', "", page) and "&lt;b&gt;" in page
    alts = re.findall(r'role="img" aria-label="([^"]+)"', page)
    assert len(alts) == 2 and alts[0].startswith("Missing cells of 4 columns by row; ")
    links = re.findall(r'(?:href|src)="([^"#][^"]*)"', page)
    assert all(link.startswith("data:") for link in links) and "<script" not in page
    for key in re.findall(r'href="#([a-z]+)"', page):
        assert f'id="{key}"' in page
    assert len(page) < 500_000


@draws
def test_a_table_without_holes_and_the_twin_in_python(tmp_path: Path) -> None:
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(40, 2)), columns=["x", "y"])
    values = vgi_cli.check(frame, report=tmp_path / "page.html", trial=False)
    page = (tmp_path / "page.html").read_text()
    assert values["missing"]["complete_rows"] == 40 and "No modelled column has a hole." in page
    assert "nothing in this table stands in the way of a fit" in page and "<svg" not in page
    with pytest.raises(UsageError, match="exists"):
        vgi_cli.check(frame, report=tmp_path / "page.html", trial=False)
    vgi_cli.check(frame, report=tmp_path / "page.html", trial=False, force=True)


@draws
def test_a_table_of_which_nothing_would_be_modelled(vgi: Vgi, tmp_path: Path) -> None:
    (tmp_path / "constant.csv").write_text("c,e\n5,\n5,\n5,\n")
    done = vgi("check", "constant.csv", "--report", "page.html")
    assert done.code == 0, done.error
    assert "of which 0 would be modelled" in (tmp_path / "page.html").read_text()


@draws
@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("page.txt", "--report: a report is an HTML file, got 'page.txt'"),
        ("there.html", "'there.html' exists"),
        ("nowhere/page.html", "--report: no folder 'nowhere'"),
        (".", "--report: '.' is a folder"),
    ],
)
def test_what_is_refused(vgi: Vgi, table: Path, tmp_path: Path, place: str, message: str) -> None:
    (tmp_path / "there.html").write_text("mine")
    before = sorted(tmp_path.iterdir())
    done = vgi("check", "t.csv", "--report", place)
    assert done.code == 2 and done.error == message and done.out == ""
    assert sorted(tmp_path.iterdir()) == before and (tmp_path / "there.html").read_text() == "mine"


def test_without_the_extra(vgi: Vgi, table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *rest: None if name == "jinja2" else real(name))
    done = vgi("check", "t.csv", "--no-trial", "--report", "page.html")
    assert done.code == 2 and "needs jinja2" in done.error
    assert vgi("check", "t.csv", "--no-trial").code == 0
