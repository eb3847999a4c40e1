"""The density over no column: what a run holds when no column of its table varies."""

from __future__ import annotations

from typing import Any, Self, final

import torch
from torch import Tensor

from vgi_cli.layout import Layout
from vgi_cli.models.base import Model, ModelConfig


@final
class EmptyModel(Model):
    """log p of a row without modelled cells is 0."""

    Config = ModelConfig

    @classmethod
    def build(cls, config: Any, layout: Layout) -> Self:
        """No column is modelled."""
        return cls()

    def initialise(self, x: Tensor, generator: torch.Generator) -> None:
        """There is nothing to set."""

    def log_prob(self, x: Tensor) -> Tensor:
        return x.new_zeros(x.shape[:-1])

    def sample(self, n: int, generator: torch.Generator | None = None) -> Tensor:
        return torch.zeros(n, 0)
