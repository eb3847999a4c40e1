"""The encoder fine-tuned to the rows that are evaluated, the decoder frozen (Mattei and Frellsen 2018; paper, section
6.3): a better proposal for the importance-weighted bound, which any proposal keeps valid.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from vgi_cli.chains.moves import normal
from vgi_cli.evaluation.likelihood.importance import EncoderProposal, better_proposal
from vgi_cli.evaluation.likelihood.loglik import Progress, silent
from vgi_cli.models.base import Latent

RATE, BATCH = 1e-3, 128  # as in the authors' code
STEPS, MOST_STEPS, MOST_EPOCHS = 2000, 32000, 1000
"""Where no number of epochs is given: rounds of about so many steps and then as many epochs as before, up to about so
many steps and to so many epochs (the authors': 1000) in all ..."""
ENOUGH = 0.1
"""... or until a round gains less than this, nats a row."""


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
    progress: Progress = silent,
    stop: Callable[[], bool] = lambda: False,
) -> Refit:
    """Fine-tune a copy of the model's encoder on rows x [R, D] with holes missing [R, D]; the model is not changed.

    What climbs is the ELBO of the observed cells: the decoder's missing terms are left out, the encoder sees the rows
    as `better_proposal` finds best with the encoder before. Adam, in rounds in which the rate falls to 0 as half a
    cosine: one of so many `epochs`, or without a number as many as bring something (see ENOUGH). The best encoder is
    kept, be it the one before. Fully missing rows are not used. `stop` is asked after every epoch: where it is
    true, the present round ends, and with it the tuning.
    """
    proposal = better_proposal(model, x, missing, seed)
    used = (~missing.all(1)).nonzero()[:, 0]
    if len(used) == 0 or epochs == 0:
        return Refit(proposal, 0, math.nan, math.nan)
    x, missing = x[used], missing[used]
    decoder = copy.deepcopy(model).requires_grad_(False).eval()
    tuned = copy.deepcopy(model).requires_grad_(True).eval()
    inputs = proposal.inputs(x, missing)
    generator = torch.Generator(x.device).manual_seed(seed)
    lengths = rounds(-(-len(x) // BATCH)) if epochs is None else [epochs]
    most = sum(lengths)
    best, value = proposal, proposal.elbo(decoder, x, missing, seed + 1)
    before, after, done = value, value, 0
    for length in lengths:
        for _ in _climb(tuned, decoder, x, missing, inputs, length, generator):
            done += 1
            progress(done / most)
            if stop():
                break
        candidate = proposal.tuned(copy.deepcopy(tuned))
        after = candidate.elbo(decoder, x, missing, seed + 1)
        gain = after - value
        if gain > 0:
            best, value = candidate, after
        if not gain >= ENOUGH or stop():  # nor where it is NaN
            break
    return Refit(best, done, before, after)


def rounds(batches: int) -> list[int]:
    """Epochs of each round for rows of so many batches, if none is the last: each doubles the sum."""
    done = min(MOST_EPOCHS, -(-STEPS // batches))
    most, lengths = min(MOST_EPOCHS, max(done, MOST_STEPS // batches)), [done]
    while done < most:
        lengths.append(min(done, most - done))
        done += lengths[-1]
    return lengths


def _climb(
    tuned: Latent,
    decoder: Latent,
    x: Tensor,
    missing: Tensor,
    inputs: tuple[Tensor, Tensor | None],
    epochs: int,
    generator: torch.Generator,
) -> Iterator[None]:
    """One round; yields after each epoch."""
    rows, holes = inputs
    optimiser = torch.optim.Adam(tuned.parameters(), lr=RATE)
    batches = -(-len(x) // BATCH)
    for epoch in range(epochs):
        for number, index in enumerate(torch.randperm(len(x), generator=generator, device=x.device).split(BATCH)):
            done = (epoch + number / batches) / epochs
            optimiser.param_groups[0]["lr"] = RATE * 0.5 * (1 + math.cos(math.pi * done))
            noise = normal((len(index), tuned.latents), x, generator)
            optimiser.zero_grad(set_to_none=True)  # what only the decoder uses gets no gradient and stays
            q = tuned.encode(rows[index], None if holes is None else holes[index])
            (-decoder.elbo(x[index], noise, missing[index], q).mean()).backward()
            optimiser.step()
        yield
