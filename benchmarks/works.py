"""The four pieces of work of `speed.py`: model, settings and table of each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from vgi_cli.data import TensorTable, make_table
from vgi_cli.layout import Layout
from vgi_cli.methods.vgi.config import VgiConfig
from vgi_cli.models.base import Model
from vgi_cli.models.flows.coupling import Flow, FlowConfig
from vgi_cli.models.gaussian.fa import FaConfig, FactorAnalysis

MISSING = 0.5


class Work(NamedTuple):
    """A model on a table: build() gives a fresh model; rows(N, seed) complete rows; settings of `vgi`."""

    title: str
    D: int
    N: int
    batch: int
    build: Callable[[], Model]
    rows: Callable[[int, int], Tensor]
    settings: dict[str, Any]


def fa_rows(D: int, factors: int) -> Callable[[int, int], Tensor]:
    """Rows of a random factor analysis."""

    def rows(N: int, seed: int) -> Tensor:
        g = torch.Generator().manual_seed(seed)
        F = torch.randn(D, factors, generator=g)
        return torch.randn(N, factors, generator=g) @ F.T + torch.randn(N, D, generator=g) * 0.7

    return rows


def curved_rows(D: int) -> Callable[[int, int], Tensor]:
    """Rows of a nonlinear density with unit scales: a stand-in for the tables of the paper's flows."""

    def rows(N: int, seed: int) -> Tensor:
        g = torch.Generator().manual_seed(seed)
        z = torch.randn(N, D, generator=g)
        x = z @ torch.randn(D, D, generator=torch.Generator().manual_seed(7)) / D**0.5
        x = x + 0.3 * x.roll(1, 1) ** 2
        return (x - x.mean(0)) / x.std(0)

    return rows


def table_rows(path: Path) -> Callable[[int, int], Tensor]:
    """Rows of a complete Parquet table, repeated where more are asked for; standardised."""

    def rows(N: int, seed: int) -> Tensor:
        import pandas as pd

        x = torch.tensor(pd.read_parquet(path).to_numpy("float32"))
        x = (x - x.mean(0)) / x.std(0)
        return x[torch.arange(N) % len(x)]

    return rows


FLOW_CONDITIONALS = {
    "kernel": "extended",
    "layout": "shared",
    "conditional": "spline",
    "trunk": (256, 128),
    "hidden": (32, 32, 32, 32, 32),  # a layer and two residual blocks of two
    "spline_steps": 3,
    "spline_bins": 4,
}


def works(miniboone: Path | None = None) -> dict[str, Work]:
    """(a) toy factor analysis, (b) FA as for the Frey faces, (c) flow as for MINIBOONE, (d) flow as for POWER."""
    common = {"imputations": 10, "gibbs_steps": 5, "blocks_per_row": 1, "scan": "step"}
    c = FlowConfig(steps=10, hidden=32, bins=4, blocks=1, dropout=0.2)
    d = FlowConfig(steps=10, hidden=256, bins=8, blocks=2)
    toy = {"kernel": "standard", "layout": "independent", "conditional": "gaussian", "hidden": (3, 3)}
    frey = {"kernel": "standard", "layout": "shared", "conditional": "gaussian", "trunk": (100, 100), "hidden": (50,)}
    return {
        "a": Work(
            "toy FA, 6 columns", 6, 6400, 2048, lambda: FactorAnalysis.build(FaConfig(factors=2), Layout.plain(6)),
            fa_rows(6, 2),
            {**common, **toy},
        ),
        "b": Work(
            "FA, 560 columns", 560, 2400, 512, lambda: FactorAnalysis.build(FaConfig(factors=43), Layout.plain(560)),
            fa_rows(560, 43), {**common, **frey},
        ),
        "c": Work(
            "flow, 43 columns", 43, 3284, 128, lambda: Flow.build(c, Layout.plain(43)),
            curved_rows(43) if miniboone is None else table_rows(miniboone), {**common, **FLOW_CONDITIONALS},
        ),
        "d": Work(
            "flow, 6 columns", 6, 200_000, 512, lambda: Flow.build(d, Layout.plain(6)), curved_rows(6),
            {**common, **FLOW_CONDITIONALS},
        ),
    }  # fmt: skip


def incomplete(work: Work, N: int, share: float = MISSING, seed: int = 0) -> TensorTable:
    """N rows with that share of the cells missing completely at random; a row keeps at least one cell."""
    x = work.rows(N, seed)
    g = torch.Generator().manual_seed(seed + 1)
    missing = torch.rand(x.shape, generator=g) < share
    missing[torch.arange(N), torch.randint(x.shape[1], (N,), generator=g)] = False
    return make_table(x, missing)


def config(work: Work, **changes: Any) -> VgiConfig:
    """The settings of `vgi` for this work."""
    optim = {"batch_size": work.batch, "warmup_conditionals": 0, "warmup_model": 0, "clip": None}
    return VgiConfig(**{**work.settings, "optim": optim, "epochs": 10**6, **changes})
