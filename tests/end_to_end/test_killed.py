"""Fits that are killed at random moments (SIGKILL) and resumed end in the same bytes as one that was left alone."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.program import Vgi
from tests.tensors import same_tensors
from vgi_cli.fitting.driver import CLOCKED
from vgi_cli.runs.folder import CARD, RunFolder

SCRIPT = """
import sys
import vgi_cli.commands.fit
from vgi_cli.cli.app import main
from vgi_cli.fitting import driver
driver.CHECKPOINT_SECONDS = 0.0
print("ready", flush=True)
sys.exit(main(sys.argv[1:]))
"""

WARM = ["--set", "optim.warmup_conditionals=2", "--set", "optim.warmup_model=2"]
SMALL = [*WARM, "--set", "method.trunk=[8]", "--set", "method.hidden=[8]", "--set", "optim.batch_size=64"]
FITS = {
    "em": ["--model", "mixture", "--set", "model.components=3", "--set", "method.tolerance=1e-12"],
    "vgi": ["--model", "fa", "--method", "vgi", "--set", "model.factors=1", "--epochs", "12", *SMALL],
    "flow": ["--model", "flow", "--epochs", "4", "--val", "0.2", "--set", "model.hidden=8", *SMALL],
}


def write(path: Path) -> None:
    rng = np.random.default_rng(1)
    z = rng.normal(size=(300, 1))
    x = z * [1.0, -2.0, 0.5, 1.0] + rng.normal(size=(300, 4))
    x[rng.random(x.shape) < 0.3] = np.nan
    lines = [",".join("" if np.isnan(v) else f"{v:.4f}" for v in row) for row in x]
    path.write_text("a,b,c,d\n" + "\n".join(lines) + "\n")


def start(arguments: list[str]) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.slow
@pytest.mark.parametrize("name", FITS)
def test_killed_and_resumed_equals_left_alone(vgi: Vgi, name: str) -> None:
    write(Path("data.csv"))
    arguments = ["fit", "data.csv", *FITS[name], "--set", "bootstrap=2", "--threads", "1"]
    whole = start([*arguments, "--out", "whole"])
    assert whole.communicate()[0] == "whole\n"
    choose = random.Random(7)
    kills = 0
    while True:
        process = start([*arguments, "--out", "cut", "--resume"])
        try:
            out, err = process.communicate(timeout=choose.uniform(0.1, 2.5) if kills < 6 else 300)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            kills += 1
            continue
        assert (process.returncode, out) == (0, "cut\n"), err
        break
    assert kills >= 2
    first, second = RunFolder.open(Path("whole")), RunFolder.open(Path("cut"))
    parts = (first.parts(), second.parts())
    assert all(same_tensors(parts[0][stem], parts[1][stem]) for stem in parts[0])
    for file in ("recipe.yaml", "schema.json"):
        assert (first.path / file).read_bytes() == (second.path / file).read_bytes()
    cards = [(run.path / CARD).read_text(encoding="utf-8") for run in (first, second)]
    assert cards[0].replace("whole", "cut") == cards[1]
    metrics = [
        [{k: v for k, v in json.loads(line).items() if k not in CLOCKED} for line in text.splitlines()]
        for text in ((run.path / "metrics.jsonl").read_text() for run in (first, second))
    ]
    assert metrics[0] == metrics[1]
    assert sorted(path.name for path in Path().iterdir()) == ["cut", "data.csv", "whole"]
