"""One imputer for each refit of a model, which take the draws in turn: parameter uncertainty is then in the draws."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import cast, final

import torch
from torch import Tensor

from vgi_cli.maths.noise import KeyedNoise
from vgi_cli.samplers.base import Box, Imputer


@final
class InTurn(Imputer):
    """Draw i comes from imputer i modulo their number, and is what that imputer would draw alone."""

    def __init__(self, imputers: Sequence[Imputer]) -> None:
        """imputers: alike but for their model."""
        if not imputers:
            raise ValueError("InTurn needs at least one imputer")
        self._imputers = list(imputers)
        self.parallel = all(imputer.parallel for imputer in imputers)

    def prepare(self, missing: Tensor, noise: KeyedNoise, box: Box) -> None:
        for imputer in self._imputers:
            imputer.prepare(missing, noise, box)

    def apart(self, draws: Tensor) -> list[Tensor]:
        groups = []
        for number, imputer in enumerate(self._imputers):
            mine = (draws % len(self._imputers) == number).nonzero()[:, 0].cpu()
            groups += [mine[some] for some in imputer.apart(draws[mine])] if len(mine) else []
        return groups

    def rows_at_once(self, draws: int, x: Tensor) -> int:
        return self._imputers[0].rows_at_once(-(-draws // len(self._imputers)), x)

    def sample(self, x: Tensor, missing: Tensor, noise: KeyedNoise, box: Box) -> Tensor:
        draws = noise.draws.tolist()
        result = x.expand(len(draws), *x.shape).clone()
        taken = 0
        for number, imputer in enumerate(self._imputers):
            mine = [i for i, draw in enumerate(draws) if draw % len(self._imputers) == number]
            if not mine:
                continue
            before, share = taken / len(draws), len(mine) / len(draws)
            taken += len(mine)
            imputer.watch = functools.partial(_part, self.watch, before, share)
            index = torch.tensor(mine, device=noise.draws.device)
            result[index.to(x.device)] = imputer.sample(x, missing, noise.select(draws=index), box)
        return result

    def level_probabilities(self, x: Tensor, j: int, draw: int) -> Tensor | None:
        return self._imputers[draw % len(self._imputers)].level_probabilities(x, j, draw)

    def counts(self) -> list[Tensor]:
        return [count for imputer in self._imputers for count in imputer.counts()]

    def peaks(self) -> list[Tensor]:
        return [peak for imputer in self._imputers for peak in imputer.peaks()]

    def diagnostics(self) -> dict[str, object]:
        """Those of all imputers that have drawn, in one (see `pooled`)."""
        return pooled([found for imputer in self._imputers if (found := imputer.diagnostics())])


def _part(watch: Callable[[float], None], before: float, share: float, done: float) -> None:
    """Tell how much is done of the whole, of which one imputer has a share, and others came before."""
    watch(before + share * done)


def pooled(found: Sequence[Mapping[str, object]]) -> dict[str, object]:
    """The diagnostics of several imputers of one kind: counts are added, the longest of anything is the longest of all,
    and a mean (of each, or the sweeps of its chains) is the mean, each imputer weighing by its `chains`; what is said
    of each column, or of each number of holes, is a mean too. What not all of them say is left out."""
    if not found:
        return {}
    weights = [float(cast(int, one.get("chains", 1))) for one in found]
    out: dict[str, object] = {}
    for name in found[0]:
        if not all(name in one for one in found):
            continue
        values = [one[name] for one in found]
        if isinstance(values[0], Mapping):
            parts = cast(list[Mapping[str, float]], values)
            shared = [key for key in parts[0] if all(key in part for part in parts)]
            out[name] = {key: _mean([part[key] for part in parts], weights) for key in shared}
        elif isinstance(values[0], int) and name != "sweeps":
            counts = cast(list[int], values)
            out[name] = max(counts) if name.startswith("longest") else sum(counts)
        else:
            out[name] = _mean(cast(list[float], values), weights)
    return out


def _mean(values: Sequence[float], weights: Sequence[float]) -> float:
    """Mean of values by weights."""
    return sum(value * weight for value, weight in zip(values, weights, strict=True)) / sum(weights)


def in_turn(imputers: Sequence[Imputer]) -> Imputer:
    """The imputer of a model, or of several in turn."""
    return imputers[0] if len(imputers) == 1 else InTurn(imputers)
