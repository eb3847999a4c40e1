"""Quality of Markov chains: split-R-hat, autocorrelation and effective sample size of traces, and what to say about
the diagnostics of an imputer."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

LOW_ACCEPTANCE = 0.2
LONG_MEMORY = 0.3
MANY_EXTENDED = 0.5


def split_rhat(trace: Tensor) -> Tensor:
    """Split-R-hat (Gelman et al., Bayesian Data Analysis, 3rd edition) of traces [L, chains, ..] -> [..].

    Each chain is cut into halves; near 1 when halves and chains agree. 1 where nothing moves; L must be at least 4.
    """
    L = trace.shape[0] // 2
    if L < 2:
        raise ValueError(f"expected at least 4 states a chain, got {trace.shape[0]}")
    halves = torch.cat([trace[:L], trace[L : 2 * L]], 1).double()
    within = halves.var(0).mean(0)
    between = halves.mean(0).var(0)
    ratio = (within * (L - 1) / L + between) / within
    return torch.where(within > 0, ratio.sqrt(), torch.where(between > 0, torch.inf, 1.0))


def autocorrelation(trace: Tensor, lag: int) -> Tensor:
    """Autocorrelation of traces [L, chains, ..] at a lag, averaged over chains: [..]; 0 where nothing moves."""
    centred = trace.double() - trace.double().mean(0)
    variance = centred.square().mean(0).mean(0)
    product = (centred[: len(trace) - lag] * centred[lag:]).sum(0).mean(0) / len(trace)
    return torch.where(variance > 0, product / variance.clamp(min=1e-300), 0.0)


def effective_draws(trace: Tensor) -> float:
    """Effective number of independent draws in one scalar trace [L, chains] (initial positive sequence, Geyer 1992)."""
    L, chains = trace.shape
    time = -1.0  # integrated autocorrelation time: -1 + 2 (sum of pairs of neighbouring lags while they are positive)
    for lag in range(0, L - 1, 2):
        pair = float(autocorrelation(trace, lag) + autocorrelation(trace, lag + 1))
        if pair <= 0:
            break
        time += 2 * pair
    return L * chains / max(time, 1e-12)


def remarks(diagnostics: Mapping[str, object]) -> list[str]:
    """Sentences about what is wrong with the chains of an imputer (its `diagnostics()`); empty when nothing is."""
    out = []
    by_column = diagnostics.get("acceptance_by_column")
    if isinstance(by_column, Mapping):
        low = {name: a for name, a in by_column.items() if a < LOW_ACCEPTANCE}
        if low:
            worst = min(low, key=lambda name: low[name])
            out.append(
                f"proposals are rarely accepted in {len(low)} columns (worst: '{worst}', {low[worst]:.0%}); "
                "the conditionals do not match the model, a longer fit helps"
            )
    memory = diagnostics.get("memory")
    if isinstance(memory, float) and memory > LONG_MEMORY:
        out.append(
            f"chains mix slowly (correlation {memory:.2f} between their states at half-time and at the end); "
            "draws may still depend on where the chains started"
        )
    extended = diagnostics.get("extended")
    if isinstance(extended, float) and extended > MANY_EXTENDED:
        out.append(f"{extended:.0%} of the chains were extended because few proposals were accepted")
    return out
