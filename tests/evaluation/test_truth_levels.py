"""The distance of a fitted law of levels from the truth, against the sum over all rows that there can be."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import vgi_cli
from vgi_cli.fitting.fitted import load_run
from vgi_cli.reporting import Silent
from vgi_cli.table.frames import from_frame

LEVELS = {"a": ["u", "v"], "b": ["p", "q", "r"], "c": ["no", "yes"]}


def table(seed: int, twist: float) -> pd.DataFrame:
    """300 rows; the share of the first level of `a` is `twist`, and the others follow it."""
    rng = np.random.default_rng(seed)
    a = (rng.random(300) > twist).astype(int)
    b = np.where(rng.random(300) < 0.6, 2 * a, rng.integers(3, size=300))
    c = np.where(rng.random(300) < 0.7, a, rng.integers(2, size=300))
    columns = {name: np.array(LEVELS[name])[part] for name, part in {"a": a, "b": b, "c": c}.items()}
    return pd.DataFrame(columns).mask(rng.random((300, 3)) < 0.1)


def test_kl_is_the_sum_over_all_rows(tmp_path: Path) -> None:
    every = from_frame(pd.DataFrame(list(product(*LEVELS.values())), columns=list(LEVELS)))
    log_probs = []
    for number, twist in enumerate((0.3, 0.6)):
        columns = {name: "categorical:" + ",".join(levels[:: 1 - 2 * number]) for name, levels in LEVELS.items()}
        vgi_cli.fit(
            table(number, twist),
            model="mixture",
            columns=columns,
            set={"model.components": 2, "bootstrap": "none"},
            out=tmp_path / str(number),
            threads=1,
        )
        fitted = load_run(tmp_path / str(number), Silent())
        with torch.no_grad():
            log_probs.append(fitted.model.double().log_prob(fitted.rows(every).table.x.double()))
    truth, other = log_probs
    assert truth.exp().sum().item() == pytest.approx(1, abs=1e-9) == pytest.approx(other.exp().sum().item(), abs=1e-9)
    expected = (truth.exp() * (truth - other)).sum().item()
    report = vgi_cli.evaluate(tmp_path / "1", table(5, 0.6), truth_model=tmp_path / "0")["truth"]
    assert expected > 0.1
    assert report["kl"] == pytest.approx(expected, abs=4 * report["kl_se"]) and report["kl_se"] < 0.02
