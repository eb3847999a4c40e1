"""Imputing on rows that are augmented by latents: what a sampler of columns does, on columns and latents."""

from __future__ import annotations

from typing import final

import torch
from torch import Tensor

from vgi_cli.layout import Layout
from vgi_cli.maths.noise import KeyedNoise
from vgi_cli.samplers.base import Box, Imputer
from vgi_cli.samplers.starts import Start


@final
class LatentStart(Start):
    """Another start for the data, N(0, I) for the latents after them."""

    def __init__(self, otherwise: Start, layout: Layout) -> None:
        self._otherwise = otherwise
        self._layout = layout

    def states(self, x: Tensor, missing: Tensor, noise: KeyedNoise, box: Box) -> Tensor:
        """X [R, D] with the latents."""
        d, data_of = self._layout.d, self._layout.data
        data = KeyedNoise(noise.seed, noise.columns[:d], noise.rows, noise.draws, noise.purpose)
        first = self._otherwise.states(data_of(x), data_of(missing), data, Box(data_of(box.low), data_of(box.high)))
        return torch.cat([first, noise.at("f0").normal(self._layout.names[d:]).to(x)], 2)


@final
class AugmentedImputer(Imputer):
    """An imputer of augmented rows, asked for data: the latents of every incomplete row are missing too."""

    def __init__(self, inner: Imputer, layout: Layout) -> None:
        self._inner = inner
        self._layout = layout

    def rows_at_once(self, draws: int, x: Tensor) -> int:
        return self._inner.rows_at_once(draws, x)

    def sample(self, x: Tensor, missing: Tensor, noise: KeyedNoise, box: Box) -> Tensor:
        self._inner.watch = self.watch
        L, d = self._layout.L, self._layout.d
        names = (*noise.columns, *self._layout.names[d:])
        wide = KeyedNoise(noise.seed, names, noise.rows, noise.draws, noise.purpose)
        free = box.low.new_full((L,), torch.inf)
        bounds = Box(torch.cat([box.low, -free]), torch.cat([box.high, free]))
        holes = torch.cat([missing, missing.any(1, keepdim=True).expand(-1, L)], 1)
        rows = torch.cat([x, x.new_zeros(len(x), L)], 1)
        return self._inner.sample(rows, holes, wide, bounds)[..., :d].contiguous()

    def diagnostics(self) -> dict[str, object]:
        return self._inner.diagnostics()
