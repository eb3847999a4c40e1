"""A level's odds times a factor, by as few changes of what was drawn as can be."""

from __future__ import annotations

import torch
from torch import Tensor

from vgi_cli.maths.forests import inverted


def tilted(probabilities: Tensor, level: int, factor: float) -> Tensor:
    """[R, levels]: the probabilities with the odds of one level against all others multiplied by a factor; among the
    others nothing changes."""
    weights = torch.ones_like(probabilities[0])
    weights[level] = factor
    out = probabilities * weights
    return out / out.sum(1, keepdim=True)


def redrawn(drawn: Tensor, probabilities: Tensor, level: int, factor: float, u: Tensor) -> Tensor:
    """Draws [R] from the `tilted` probabilities made of draws from the probabilities [R, levels] (a maximal coupling):
    a draw changes only to the level whose odds grow, or away from one whose odds shrink. u [R] uniform on (0, 1)."""
    before = probabilities[:, level]
    after = tilted(probabilities, level, factor)[:, level]
    if factor >= 1:
        change = (after - before) / (1 - before).clamp(min=1e-300)
        return torch.where((drawn != level) & (u < change), float(level), drawn)
    leave = 1 - after / before.clamp(min=1e-300)
    others = probabilities.clone()
    others[:, level] = 0
    others = others / others.sum(1, keepdim=True).clamp(min=1e-300)
    elsewhere = inverted(others, (u / leave.clamp(min=1e-300)).clamp(max=1 - 2.0**-53)).to(drawn.dtype)
    return torch.where((drawn == level) & (u < leave), elsewhere, drawn)
