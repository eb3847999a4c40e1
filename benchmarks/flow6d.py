"""VGI on a flow against a known nonlinear density: likelihood recovered, calibration and sharpness of imputations.

    python benchmarks/flow6d.py [--rows 20000] [--epochs 40] [--variants] [--json FILE]

Rows of `density6d.Density6D`, half of the cells missing completely at random. The same flow is fitted by maximum
likelihood on the complete rows and on draws from the marginals (K imputations, stacked), and by VGI on the incomplete
rows. Printed: the mean log-density of complete test rows, and which share of the gap between the two ends VGI closes.
Then 19 draws for every hidden cell of some of the rows, by Metropolis-within-Gibbs on the fitted model: coverage of
[min, max] (90 % when calibrated) and CRPS over that of 19 draws from the true conditionals. `--variants` fits the other
combinations of acceptance, scan, gradient, kernel, layout, family and start at a quarter of the epochs.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import torch
from density6d import COLUMNS, Density6D, mcar
from torch import Tensor

from vgi_cli.chains.store.packed import Chains
from vgi_cli.data import TensorTable, make_table
from vgi_cli.evaluation.imputation import fair_crps
from vgi_cli.maths.noise import KeyedNoise, numbered
from vgi_cli.methods.start import empirical
from vgi_cli.methods.vgi import vgi
from vgi_cli.methods.vgi.config import VgiConfig
from vgi_cli.methods.vgi.state import VgiState
from vgi_cli.models.flows.coupling import Flow, FlowConfig
from vgi_cli.samplers.base import Box, impute
from vgi_cli.samplers.metropolis import MetropolisImputer
from vgi_cli.samplers.starts import EmpiricalStart

LR, BATCH, DRAWS, SCORED_ROWS = 3e-3, 512, 19, 3000
VARIANTS: dict[str, dict[str, Any]] = {
    "metropolis, step": {},
    "metropolis, path": {"scan": "path"},
    "gibbs (the paper)": {"accept": "gibbs"},
    "gibbs, extended": {"accept": "gibbs", "kernel": "extended"},
    "theta at the accepted state": {"gradient": "accepted"},
    "extended kernel": {"kernel": "extended"},
    "independent networks": {"layout": "independent"},
    "gaussian conditionals": {"conditional": "gaussian"},
    "f0 by em": {"initial": "em"},
}


def fit(table: TensorTable, epochs: int, **settings: Any) -> tuple[VgiState, float]:
    """A fit of the flow, and its CPU seconds. A complete table makes it plain maximum likelihood."""
    warm = {} if bool(table.missing.any()) else {"warmup_conditionals": 0, "warmup_model": 0}
    config = VgiConfig.model_validate(
        {"epochs": epochs, "conditional": "spline", **settings, "optim": {"lr": LR, "batch_size": BATCH, **warm}}
    )
    table = table.to(dtype=torch.float32)
    state = vgi.METHOD.init(Flow.build(FlowConfig(), table.layout), table, config, torch.Generator().manual_seed(0))
    started = time.process_time()
    for _ in vgi.run(state):
        pass
    state.model.eval()
    return state, time.process_time() - started


def stacked(table: TensorTable, K: int) -> TensorTable:
    """K tables, each filled with draws from the marginals, as one complete table."""
    chains = Chains(table, K)
    empirical(chains, torch.Generator().manual_seed(0))
    x = torch.cat([chains.completed(k) for k in range(K)])
    return make_table(x, torch.zeros_like(x, dtype=torch.bool))


@torch.no_grad()
def test_loglik(state: VgiState, x: Tensor) -> float:
    """Mean log-density of complete rows, nats."""
    return float(state.model.log_prob(x.float()).double().mean())


def imputations(state: VgiState, table: TensorTable) -> Tensor:
    """19 draws [19, n, D] for the first rows of the table."""
    x = table.x.float()
    imputer = MetropolisImputer(state.model, state.q.eval(), EmpiricalStart(x, table.missing))
    rows, infinity = slice(0, SCORED_ROWS), torch.full((table.D,), torch.inf)
    keys = torch.arange(len(x[rows]))
    noise = KeyedNoise(0, numbered("x", table.D), keys, torch.arange(DRAWS))
    return impute(imputer, x[rows], table.missing[rows], noise, Box(-infinity, infinity)).double()


def score(draws: Tensor, truth: Tensor, missing: Tensor) -> tuple[float, float]:
    """(mean CRPS, coverage of [min, max]) over hidden cells; draws [n, R, D]."""
    cells, hidden = draws[:, missing], truth[missing]
    inside = (cells.min(0).values <= hidden) & (hidden <= cells.max(0).values)
    return float(fair_crps(cells, hidden).mean()), float(inside.double().mean())


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--imputations", type=int, default=5, help="K")
    parser.add_argument("--variants", nargs="*", choices=list(VARIANTS), metavar="NAME", help="all, or those named")
    parser.add_argument("--variant-epochs", type=int, help="default: a quarter of --epochs")
    parser.add_argument("--json", metavar="FILE")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    density = Density6D()
    g = torch.Generator().manual_seed(1)
    x, test = density.sample(arguments.rows, g), density.sample(10_000, g)
    missing = mcar(arguments.rows, 0.5, g)
    table, complete = make_table(x, missing), make_table(x, torch.zeros_like(missing))
    truth = float(density.log_prob(test).mean())
    print(f"{arguments.rows} rows, {COLUMNS} columns, 50 % missing; truth {truth:.4f} nats a complete test row\n")
    print(f"{'fit':34s} {'test log p':>10s} {'gap closed':>10s} {'coverage':>8s} {'CRPS/oracle':>11s} {'CPU s':>7s}")
    results: dict[str, Any] = {"truth": truth}
    ends = {}
    K = arguments.imputations
    for name, rows, epochs in (
        ("complete data", complete, arguments.epochs),
        ("draws from the marginals", stacked(table, K), max(1, arguments.epochs // K)),
    ):
        state, seconds = fit(rows, epochs)
        ends[name] = test_loglik(state, test)
        results[name] = {"loglik": ends[name], "seconds": seconds}
        print(f"{name:34s} {ends[name]:10.4f} {'':10s} {'':8s} {'':11s} {seconds:7.0f}", flush=True)
    high, low = ends["complete data"], ends["draws from the marginals"]
    head = slice(0, SCORED_ROWS)
    oracle = torch.stack([density.conditional_sample(x[head], missing[head], g) for _ in range(DRAWS)])
    best_crps, best_coverage = score(oracle, x[head], missing[head])
    print(f"{'true conditionals (oracle)':34s} {truth:10.4f} {'':10s} {best_coverage:8.3f} {1:11.3f}", flush=True)
    runs: dict[str, tuple[int, dict[str, Any]]] = {} if arguments.variants else {"vgi": (arguments.epochs, {})}
    if arguments.variants is not None:
        shorter = arguments.variant_epochs or max(1, arguments.epochs // 4)
        runs |= {name: (shorter, VARIANTS[name]) for name in arguments.variants or VARIANTS}
    for name, (epochs, settings) in runs.items():
        state, seconds = fit(table, epochs, imputations=K, **settings)
        loglik = test_loglik(state, test)
        closed = (loglik - low) / (high - low)
        mine, coverage = score(imputations(state, table), x[head], missing[head])
        label = f"{name} ({epochs} epochs)"
        results[label] = {
            "loglik": loglik, "closed": closed, "coverage": coverage, "crps": mine / best_crps, "seconds": seconds,
        }  # fmt: skip
        print(
            f"{label:34s} {loglik:10.4f} {closed:10.3f} {coverage:8.3f} {mine / best_crps:11.3f} {seconds:7.0f}",
            flush=True,
        )
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
