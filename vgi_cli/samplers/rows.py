"""Whole rows from a fitted model, inside a box."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from vgi_cli.models.base import Model
from vgi_cli.samplers.base import Box, frozen, unwatched

BLOCK = 1024
"""Rows are drawn so many at a time, each time from a stream of their own: more rows leave the first ones unchanged."""
ROUNDS = 1000
"""Blocks that are drawn at most to fill one of them."""


class TooFewInside(Exception):
    """Less than one row in ROUNDS lies in the box."""


def draw_rows(
    model: Model,
    n: int,
    box: Box,
    stream: Callable[[int], torch.Generator],
    watch: Callable[[float], None] = unwatched,
    accepts: Callable[[Tensor], Tensor] | None = None,
    idle: Callable[[Tensor], Tensor] | None = None,
) -> Tensor:
    """n independent rows [n, D] of p(x) restricted to the box, and to what is accepted, by rejection of whole rows.

    stream   the generator of each block of rows
    watch    told the share of the rows that are there; what it raises ends the work
    accepts  of rows [n, D] which are [n]; None: all
    idle     of rows [n, D] which cells hold nothing, so that they may lie outside the box; None: no cell is such

    Raises TooFewInside.
    """
    parts: list[Tensor] = []
    with frozen(model):
        for block, first in enumerate(range(0, n, BLOCK)):
            generator, wanted = stream(block), min(BLOCK, n - first)
            for _ in range(ROUNDS):
                x = model.sample(BLOCK, generator)
                within = box.contains(x) if idle is None else box.contains(x) | idle(x)
                inside = x[within.all(-1)]
                parts.append((inside if accepts is None else inside[accepts(inside)])[:wanted])
                wanted -= len(parts[-1])
                watch((min(first + BLOCK, n) - wanted) / n)
                if wanted == 0:
                    break
            else:
                raise TooFewInside
    return torch.cat(parts)
