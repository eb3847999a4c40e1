"""What the tests of the chain-based imputers share: a Gaussian, rows drawn from it with holes, and a box."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from tests.oracles import GaussianModel, random_covariance
from vgi_cli.layout import Layout
from vgi_cli.maths.joint import JointMixture
from vgi_cli.maths.noise import KeyedNoise, row_keys
from vgi_cli.models.base import Model
from vgi_cli.samplers.base import Box
from vgi_cli.samplers.lengths import Lengths
from vgi_cli.samplers.starts import HeldChains
from vgi_cli.samplers.together import Together
from vgi_cli.samplers.whole import WholeRows

D = 4


class Fixed(Together):
    """Rounds, single cells a round and a mixture that a test chooses."""

    def __init__(self, model: Model, mixture: JointMixture, rounds: int, cells: int = 0) -> None:
        self._model, self._mixture, self._rounds, self._cells = model, mixture, rounds, cells

    def moves(self, device: torch.device) -> WholeRows:
        return WholeRows(self._mixture)

    def lengths(self, box: object) -> Lengths:
        lengths = Lengths(lambda holes: (), D)
        lengths.of = lambda holes: (torch.full_like(holes, self._rounds), torch.full_like(holes, self._cells))  # type: ignore[method-assign]
        return lengths

    def summary(self) -> dict[str, object]:
        return {}


class Setup(NamedTuple):
    model: GaussianModel
    full: Tensor
    x: Tensor
    missing: Tensor
    box: Box


def make_setup(N: int, share: float = 0.5, seed: int = 0) -> Setup:
    g = torch.Generator().manual_seed(seed)
    mean = torch.randn(D, generator=g, dtype=torch.float64)
    model = GaussianModel(mean, random_covariance(D, g, 2))
    full = model.sample(N, g)
    missing = torch.rand(N, D, generator=g) < share
    missing[0] = False
    return Setup(model, full, full.masked_fill(missing, 0.0), missing, unbounded(D))


def unbounded(columns: int) -> Box:
    infinite = torch.full((columns,), torch.inf, dtype=torch.float64)
    return Box(-infinite, infinite)


def noise_for(N: int, draws: int, seed: int = 0, columns: int = D) -> KeyedNoise:
    names = tuple(f"c{i}" for i in range(columns))
    return KeyedNoise(seed, names, row_keys([str(i) for i in range(N)]), torch.arange(draws))


def held(keys: Tensor, missing: Tensor, packed: Tensor) -> HeldChains:
    """What a run of numbers holds: one line [K] of `packed` for each missing cell."""
    return HeldChains(keys, missing, {"values": packed}, Layout.plain(missing.shape[1]))
