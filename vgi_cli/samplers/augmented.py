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
        self.parallel = inner.parallel

    def prepare(self, missing: Tensor, noise: KeyedNoise, box: Box) -> None:
        self._inner.prepare(*self._wide(missing, noise, box))

    def apart(self, draws: Tensor) -> list[Tensor]:
        return self._inner.apart(draws)

    def rows_at_once(self, draws: int, x: Tensor) -> int:
        return self._inner.rows_at_once(draws, x)

    def sample(self, x: Tensor, missing: Tensor, noise: KeyedNoise, box: Box) -> Tensor:
        self._inner.watch = self.watch
        rows = torch.cat([x, x.new_zeros(len(x), self._layout.L)], 1)
        return self._inner.sample(rows, *self._wide(missing, noise, box))[..., : self._layout.d].contiguous()

    def _wide(self, missing: Tensor, noise: KeyedNoise, box: Box) -> tuple[Tensor, KeyedNoise, Box]:
        """The same of rows with latents."""
        L, d = self._layout.L, self._layout.d
        names = (*noise.columns, *self._layout.names[d:])
        free = box.low.new_full((L,), torch.inf)
        return (
            torch.cat([missing, missing.any(1, keepdim=True).expand(-1, L)], 1),
            KeyedNoise(noise.seed, names, noise.rows, noise.draws, noise.purpose),
            Box(torch.cat([box.low, -free]), torch.cat([box.high, free])),
        )

    def counts(self) -> list[Tensor]:
        return self._inner.counts()

    def peaks(self) -> list[Tensor]:
        return self._inner.peaks()

    def diagnostics(self) -> dict[str, object]:
        return self._inner.diagnostics()
