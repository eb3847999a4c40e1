"""Ordered levels by cumulative logits (McCullagh 1980): P(level <= r) = sigmoid(c_r), with cutpoints c_0 < c_1 < …"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


def ordered_log_probs(cuts: Tensor, log_between: Tensor, count: Tensor | None = None) -> Tensor:
    """Log probabilities of the levels, nats, [.., T + 1].

    cuts         [.., T] the cutpoints, less what shifts them
    log_between  [.., T - 1] log(1 - exp(c_{r-1} - c_r)), which callers know from the steps that they make cutpoints of
    count        [.., 1] how many levels there are, with count - 1 cutpoints, at most T + 1 (None: so many); the others
                 have the probability 0, and what cuts and log_between hold for them has to be finite

    Without cancellation: sigmoid(b) - sigmoid(a) = sigmoid(b) sigmoid(-a) (1 - exp(a - b)).
    """
    below = F.pad(F.logsigmoid(cuts), (0, 1))  # log P(level <= r)
    above = F.pad(F.logsigmoid(-cuts), (1, 0))  # log P(level > r - 1)
    between = F.pad(log_between, (1, 1))
    if count is None:
        return below + above + between
    level = torch.arange(cuts.shape[-1] + 1, device=cuts.device)
    terms = above + torch.where(level < count - 1, below + between, 0.0)
    return torch.where(level < count, terms, -torch.inf)
