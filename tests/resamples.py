"""Refits of a model to resampled rows, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from vgi_cli.completers.base import GivenUp
from vgi_cli.data import TensorTable
from vgi_cli.methods.em.bootstrap import Refit, Sampled
from vgi_cli.methods.em.em import EmConfig
from vgi_cli.models.gaussian.family import GaussianFamily


def refits(
    model: GaussianFamily,
    table: TensorTable,
    config: EmConfig,
    numbers: Iterable[int],
    stream: Callable[[int], torch.Generator],
    **how: Any,
) -> Iterator[Refit]:
    """Those of these numbers, each from its random stream, as far as they are not given up."""
    sampled = Sampled.of(model, table, config, **how)
    for number in numbers:
        try:
            refit = sampled.refit(stream(number), number)
        except GivenUp:
            return
        yield refit
