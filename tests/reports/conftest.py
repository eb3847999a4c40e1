"""The program and small runs as fixtures."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from tests.program import vgi
from vgi_cli.cli.app import main

__all__ = ["vgi"]


def table(rows: int = 60, seed: int = 0) -> str:
    """Three related numbers, a category and an id; every fifth row has a hole."""
    rng = np.random.default_rng(seed)
    a = rng.normal(size=rows)
    b, c = a + 0.4 * rng.normal(size=rows), 10 - 3 * a + rng.normal(size=rows)
    lines = ["key,a,b,c,<kind>"]
    for i in range(rows):
        cells = [f"{a[i]:.3f}", f"{b[i]:.3f}", f"{c[i]:.2f}", "low & <b>" if a[i] < 0 else "high"]
        if i % 5 == 0:
            cells[i // 5 % 4] = ""
        lines.append(",".join([f"k{i}", *cells]))
    return "\n".join(lines) + "\n"


@pytest.fixture(autouse=True)
def few_refits(refits_serve_again: None) -> None:
    """Those of the run that a report is on."""


@pytest.fixture
def laid_out() -> None:
    """For tests whose pictures are laid out as those of users are."""


@pytest.fixture(autouse=True)
def texts_anywhere(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures of the other tests are not laid out, which would take twice as long as drawing them."""
    if importlib.util.find_spec("matplotlib") is not None and "laid_out" not in request.fixturenames:
        from vgi_cli.reports import drawing

        style = {**drawing.STYLE, "figure.constrained_layout.use": False}
        monkeypatch.setattr(drawing, "STYLE", style)


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `data.csv` and the run `mix`, by EM."""
    folder = tmp_path_factory.mktemp("reports")
    data = folder / "data.csv"
    data.write_text(table())
    common = ["--threads", "1", "-q"]
    ids = ["--id", "key"]
    em = ["--model", "mixture", "--set", "model.components=1", "--set", "bootstrap=2", "--set", "trees=none"]
    fit = ["fit", str(data), *ids, *em, "--out", str(folder / "mix"), *common]
    assert main(fit) == 0
    return folder


@pytest.fixture(scope="session")
def chained(runs: Path) -> Path:
    """A run whose draws are chains, of two epochs."""
    tiny = ["--set", "method.trunk=[8]", "--set", "method.hidden=[8]", "--set", "bootstrap=none", "--threads", "1"]
    warm = ["--set", "optim.warmup_conditionals=2", "--set", "optim.warmup_model=2", "--epochs", "2"]
    model = ["--model", "flow", "--method", "vgi", "--set", "model.steps=1"]
    rows = [str(runs / "data.csv"), "--id", "key", "--exclude", "<kind>"]
    assert main(["fit", *rows, *model, *tiny, *warm, "--out", str(runs / "vgi"), "-q"]) == 0
    return runs / "vgi"
