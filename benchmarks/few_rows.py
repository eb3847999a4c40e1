"""One Gaussian fitted by EM to few rows with holes: log p of hidden cells of other rows, with the hold on the common
covariance that few rows get (`FullGaussians.anchor`) and without it.

    python benchmarks/few_rows.py
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from unittest.mock import patch

import torch

from vgi_cli.data import make_table
from vgi_cli.layout import Layout
from vgi_cli.methods.em.em import METHOD, EmConfig
from vgi_cli.models.gaussian.full import FullGaussians
from vgi_cli.models.gaussian.mixture import GaussianMixture, MixtureConfig


def score(N: int, D: int, noise: float, seed: int) -> tuple[float, int]:
    """Nats a hidden cell of 300 rows, 30 % hidden, given the rest of its row; EM iterations. The fit sees N rows of
    three factors, 20 % of their cells missing; half of the columns have that noise, the others 0.7."""
    g = torch.Generator().manual_seed(seed)
    loadings = torch.randn(3, D, dtype=torch.float64, generator=g)
    spread = torch.where(torch.arange(D) < D // 2, noise, 0.7)
    x, other = (
        torch.randn(n, 3, dtype=torch.float64, generator=g) @ loadings
        + spread * torch.randn(n, D, dtype=torch.float64, generator=g)
        for n in (N, 300)
    )
    missing = torch.rand(N, D, generator=g) < 0.2
    seen = torch.where(missing, torch.nan, x)
    mean = seen.nanmean(0)
    sd = (seen - mean).square().nanmean(0).sqrt()
    sd = torch.where(sd > 0, sd, 1.0)
    model = GaussianMixture.build(MixtureConfig(components=1, covariance="full"), Layout.plain(D))
    state = METHOD.init(model, make_table((x - mean) / sd, missing), EmConfig(), torch.Generator().manual_seed(0))
    epochs = sum(1 for _ in METHOD.run(state))
    hidden = torch.rand(300, D, generator=g) < 0.3
    other = (other - mean) / sd
    given = model.log_prob(other) - model.marginal_log_prob(torch.where(hidden, 0.0, other), hidden)
    return (given.sum() / hidden.sum()).item(), epochs


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--columns", type=int, nargs="+", default=[5, 10])
    parser.add_argument("--ratios", type=int, nargs="+", default=[1, 2, 3, 5, 8])
    args = parser.parse_args(argv)
    print("| columns | rows | noise | without: nats a cell, iterations | with |")
    print("|---:|---:|---:|---:|---:|")
    for D in args.columns:
        for N in (ratio * D for ratio in args.ratios):
            for noise in (0.7, 0.03):
                shown = []
                for hold in (lambda self, scale, penalty: penalty.common, FullGaussians.anchor):
                    with patch.object(FullGaussians, "anchor", hold):
                        found = [score(N, D, noise, seed) for seed in range(args.seeds)]
                    mean = sum(value for value, _ in found) / len(found)
                    shown.append(f"{mean:.2f}, {max(epochs for _, epochs in found)}")
                print(f"| {D} | {N} | {noise} | {shown[0]} | {shown[1]} |", flush=True)


if __name__ == "__main__":
    main()
