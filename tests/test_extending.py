"""docs/extending.md is run as it stands: its example as a plugin outside the package, and under the contract suites."""

from __future__ import annotations

import csv
import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import vgi_cli
from tests.program import Vgi, vgi
from vgi_cli.run import registry

__all__ = ["vgi"]

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
EXAMPLE, VARIANT = re.findall(r"```python\n(.*?)```", PAGE, re.S)
LAPLACE = ["--plugin", "laplace.py", "--model", "laplace", "--threads", "1"]


@pytest.fixture
def folder(vgi: Vgi) -> Path:
    """A folder outside the package with the page's plugins and a heavy-tailed table with holes."""
    Path("laplace.py").write_text(EXAMPLE)
    Path("paper.py").write_text(VARIANT)
    rng = np.random.default_rng(0)
    x = rng.laplace(size=(400, 3)) * [1.0, 5.0, 0.2] + [0.0, 40.0, -3.0]
    cells = np.where(rng.random(x.shape) < 0.25, "", np.char.mod("%.6f", x))
    Path("data.csv").write_text("\n".join(["a,b,c", *map(",".join, cells)]) + "\n")
    Path("complete.csv").write_text("\n".join(["a,b,c", *map(",".join, np.char.mod("%.6f", x))]) + "\n")
    return Path.cwd()


def numbers(path: str) -> np.ndarray:
    rows = list(csv.reader(Path(path).read_text().splitlines()))[1:]
    return np.array([[float(cell) if cell else np.nan for cell in row] for row in rows])


def test_the_example_is_short_and_the_package_does_not_know_it() -> None:
    assert sum(bool(line.strip()) for line in EXAMPLE.splitlines()) < 70
    assert "laplace" not in registry.MODELS and "ascent" not in registry.METHODS


def test_the_example_fits_imputes_and_evaluates(vgi: Vgi, folder: Path) -> None:
    done = vgi("fit", "data.csv", *LAPLACE, "--out", "run")
    assert (done.code, done.out) == (0, "run\n"), done.err
    done = vgi("impute", "--checkpoint", "run", "--plugin", "laplace.py", "--m", "40", "-o", "out.csv")
    assert done.code == 0, done.err
    assert "sampler exact" in done.err
    before = numbers("data.csv")
    filled = np.stack([numbers(f"out.{i}.csv") for i in range(1, 41)])
    hole = np.isnan(before)
    assert not np.isnan(filled).any() and (filled[:, ~hole] == before[~hole]).all()
    for j in range(3):  # the draws have the law of the column: centre, mean absolute deviation, heavy tails
        seen, drawn = before[~hole[:, j], j], filled[:, hole[:, j], j].ravel()
        spread = np.abs(seen - np.median(seen)).mean()
        assert np.median(drawn) == pytest.approx(np.median(seen), abs=0.1 * spread)
        assert np.abs(drawn - np.median(drawn)).mean() == pytest.approx(spread, rel=0.1)
        assert seen.min() <= drawn.min() and drawn.max() <= seen.max()
    done = vgi("evaluate", "--checkpoint", "run", "complete.csv", "--plugin", "laplace.py", "--json")
    assert done.code == 0, done.err
    report = json.loads(done.out)["loglik"]
    x = numbers("complete.csv")
    scale = np.abs(x - np.median(x, 0)).mean(0)
    assert report["estimator"] == "exact"
    assert report["mean"] == pytest.approx(-(1 + np.log(2 * scale)).sum(), abs=0.03)  # minus the entropy


def test_model_and_method_of_the_example_work_with_the_built_in_ones(vgi: Vgi, folder: Path) -> None:
    flags = ["--plugin", "laplace.py", "--threads", "1", "--epochs", "2"]
    tiny = ["--set", "optim.warmup_conditionals=1", "--set", "optim.warmup_model=1", "--set", "method.trunk=[4]"]
    done = vgi("fit", "data.csv", *flags, "--model", "laplace", "--method", "vgi", *tiny, "--out", "by-vgi")
    assert done.code == 0, done.err
    done = vgi("finetune", "--checkpoint", "by-vgi", "data.csv", "--plugin", "laplace.py", "--epochs", "1")
    assert (done.code, done.out) == (0, "run1\n"), done.err
    assert json.loads(Path("run1/manifest.json").read_text())["plugins"].keys() == {"laplace.py"}
    done = vgi("fit", "data.csv", *flags, "--model", "fa", "--method", "ascent", "--set", "method.rate=0.2")
    assert done.code == 0, done.err
    done = vgi("fit", "data.csv", *flags, "--method", "ascent", "--val", "0.2")
    assert done.code == 0 and "model mixture by ascent" in done.err


def test_the_variant_of_vgi_makes_conditionals_and_imputations(vgi: Vgi, folder: Path) -> None:
    tiny = ["--set", "optim.warmup_conditionals=1", "--set", "optim.warmup_model=1", "--set", "method.trunk=[4]"]
    flags = ["--plugin", "paper.py", "--model", "fa", "--set", "model.factors=1", "--method", "paper", "--epochs", "1"]
    done = vgi("fit", "data.csv", *flags, *tiny, "--threads", "1", "--out", "run")
    assert done.code == 0, done.err
    assert "accept: gibbs" in Path("run/recipe.yaml").read_text()
    for sampler in ("gibbs", "metropolis", "chains"):
        done = vgi(
            "impute", "--checkpoint", "run", "--plugin", "paper.py", "--sampler", sampler, "-o", f"{sampler}.csv"
        )
        assert done.code == 0, done.err


def test_in_python(vgi: Vgi, folder: Path) -> None:
    run = vgi_cli.fit("data.csv", model="laplace", plugins="laplace.py", threads=1, out="run")
    assert len(run.impute(m=2)) == len(vgi_cli.impute(run, m=2)) == 2
    assert math.isfinite(run.evaluate("complete.csv")["loglik"]["mean"])
    assert type(run.model()).__name__ == "Laplace"
    again = vgi_cli.load("run", plugins=["laplace.py"])
    assert len(again.impute("data.csv", m=1)) == 1
    with pytest.raises(vgi_cli.errors.RunError, match=r"run 'run' needs the plugin laplace.py"):
        vgi_cli.load("run").impute(m=1)
    assert "laplace" not in registry.MODELS


def test_the_example_keeps_the_contracts(folder: Path) -> None:
    """The page's own command line, in a process of its own."""
    line = next(line for line in PAGE.splitlines() if "--vgi-plugin" in line)
    arguments = line.replace(".venv/bin/python", sys.executable).replace(" laplace.py", f" {folder / 'laplace.py'}")
    done = subprocess.run(
        ["bash", "-c", f"{arguments} -p no:cacheprovider"],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None and int(passed[1]) >= 20 and "failed" not in done.stdout
