"""The encoder fine-tuned to the rows that are evaluated, the decoder frozen (Mattei and Frellsen 2018; paper, section
6.3): a better proposal for the importance-weighted bound, which any proposal keeps valid.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from vgi_cli.evaluation.importance import EncoderProposal, better_proposal
from vgi_cli.models.base import Latent

RATE, BATCH = 1e-3, 128  # as in the authors' code
STEPS, MOST_EPOCHS = 2000, 1000
"""Where no number of epochs is given: enough for so many steps, at most so many epochs (the authors': 1000)."""


class Refit(NamedTuple):
    """The proposal, the epochs done, and the mean ELBO of the rows before and after, encoded units."""

    proposal: EncoderProposal
    epochs: int
    before: float
    after: float


def refit_encoder(
    model: Latent,
    x: Tensor,
    missing: Tensor,
    *,
    epochs: int | None = None,
    seed: int = 0,
    progress: Callable[[float], None] = lambda done: None,
) -> Refit:
    """Fine-tune a copy of the model's encoder on rows x [R, D] with holes missing [R, D]; the model is not changed.

    What climbs is the ELBO of the observed cells: the decoder's missing terms are left out, the encoder sees the rows
    as `better_proposal` finds best with the encoder before. Adam, the rate falls to 0 as half a cosine. The encoder
    before is kept where the one after is not better. Fully missing rows are not used.
    """
    proposal = better_proposal(model, x, missing, seed)
    used = (~missing.all(1)).nonzero()[:, 0]
    if len(used) == 0 or epochs == 0:
        return Refit(proposal, 0, math.nan, math.nan)
    x, missing = x[used], missing[used]
    rows, holes = proposal.inputs(x, missing)
    decoder = copy.deepcopy(model).requires_grad_(False).eval()
    tuned = copy.deepcopy(model).requires_grad_(True).eval()
    batches = -(-len(x) // BATCH)
    epochs = min(MOST_EPOCHS, -(-STEPS // batches)) if epochs is None else epochs
    generator = torch.Generator(x.device).manual_seed(seed)
    optimiser = torch.optim.Adam(tuned.parameters(), lr=RATE)
    for epoch in range(epochs):
        for number, index in enumerate(torch.randperm(len(x), generator=generator, device=x.device).split(BATCH)):
            done = (epoch + number / batches) / epochs
            optimiser.param_groups[0]["lr"] = RATE * 0.5 * (1 + math.cos(math.pi * done))
            noise = _normal(len(index), model.latents, x, generator)
            optimiser.zero_grad(set_to_none=True)  # what only the decoder uses gets no gradient and stays
            q = tuned.encode(rows[index], None if holes is None else holes[index])
            (-decoder.elbo(x[index], noise, missing[index], q).mean()).backward()
            optimiser.step()
        progress((epoch + 1) / epochs)
    before, after = (p.elbo(decoder, x, missing, seed + 1) for p in (proposal, proposal.tuned(tuned)))
    return Refit(proposal.tuned(tuned) if after > before else proposal, epochs, before, after)


def _normal(n: int, width: int, like: Tensor, generator: torch.Generator) -> Tensor:
    return torch.randn(n, width, generator=generator, dtype=like.dtype, device=like.device)
