"""The importance-weighted bound of log p(x_obs) for a model with latents (IWAE, Burda et al. 2016; paper, section 6.3).

    log 1/P sum_l p(x_obs | z_l) p(z_l) / q(z_l),    z_l ~ q independently

Missing cells are integrated out of p(x | z) exactly. The encoder sees that they are missing, or a fill that is made
before any z is drawn; it enters q alone, never the numerator. Then the weights are unbiased for p(x_obs) given q,
and their log mean is low on average, in every row, the less so the more draws there are.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from vgi_cli.chains.moves import normal
from vgi_cli.evaluation.likelihood.loglik import LogLik, Progress, silent
from vgi_cli.maths.laws import LatentLaw
from vgi_cli.maths.noise import KeyedNoise, numbered
from vgi_cli.models.base import Latent
from vgi_cli.samplers.base import frozen

PRIOR_SHARE = 0.05
"""Share of the draws that come from p(z): it bounds the weights where the encoder's normal has too light tails."""
TOGETHER = 512
"""Draws of one row in one call."""
FEW, LOW_SHARE = 20.0, 0.05
"""Warn when more than this share of the rows has an effective sample size below FEW ..."""
HALF_GAP = 0.02
"""... or the value at half the budget lies this many nats a row below the full value."""


CELLS = 2**20
"""Cells of rows that an encoder looks at together."""
JUDGED, JUDGED_ROWS = 8, 2000
"""Draws of z for each row, and rows at most, when two proposals are compared."""


class EncoderProposal:
    """q(z | x_obs): the encoder at the row with its holes filled by its own, deterministic reconstruction, or
    hidden."""

    def __init__(self, filler: Latent, encoder: Latent | None = None, *, hide: bool = False) -> None:
        """filler   fills the holes
        encoder  whose encoder then gives q, where that is another one (fine-tuned on fills of `filler`)
        hide     the holes are hidden, not filled"""
        self._filler = filler
        self._encoder = filler if encoder is None else encoder
        self.hide = hide

    def inputs(self, x: Tensor, missing: Tensor) -> tuple[Tensor, Tensor | None]:
        """What the encoder is given of rows x [R, D]."""
        return (x, missing) if self.hide else (self.filled(x, missing), None)

    def tuned(self, encoder: Latent) -> EncoderProposal:
        """The same with the encoder of another model."""
        return EncoderProposal(self._filler, encoder, hide=self.hide)

    def filled(self, x: Tensor, missing: Tensor) -> Tensor:
        """x [R, D] with its holes filled (see Latent)."""
        with frozen(self._filler):
            return torch.cat([self._filler.filled(x[rows], missing[rows]) for rows in _pieces(x)])

    def __call__(self, x: Tensor, missing: Tensor) -> LatentLaw:
        """Law of z [R, L] for rows x [R, D]; what they hold where they are `missing` is not looked at."""
        with frozen(self._encoder):
            return self._encoder.encode(*self.inputs(x, missing))

    def elbo(self, model: Latent, x: Tensor, missing: Tensor, seed: int) -> float:
        """Mean ELBO of the observed cells with this law of z, over JUDGED draws a row."""
        generator = torch.Generator(x.device).manual_seed(seed)
        noise = normal((JUDGED, len(x), model.latents), x, generator)
        total = 0.0
        for rows in _pieces(x):
            q = self(x[rows], missing[rows])
            with frozen(model):
                total += float(sum(model.elbo(x[rows], n[rows], missing[rows], q).sum() for n in noise))
        return total / (JUDGED * len(x))


def _pieces(x: Tensor) -> list[slice]:
    """Rows [R, D] in pieces of bounded size: encoders hold many numbers for each cell."""
    step = max(1, CELLS // x.shape[1])
    return [slice(first, first + step) for first in range(0, max(len(x), 1), step)]


def better_proposal(model: Latent, x: Tensor, missing: Tensor, seed: int = 0) -> EncoderProposal:
    """The model's encoder with filled or with hidden holes, whichever has the larger ELBO: encoders that were trained
    on imputations (`vgi`) want the former, those that were trained on holes (`mvae` and its like) the latter."""
    filled, hidden = EncoderProposal(model), EncoderProposal(model, hide=True)
    used = (missing.any(1) & ~missing.all(1)).nonzero()[:JUDGED_ROWS, 0]
    if len(used) == 0:
        return filled
    x, missing = x[used], missing[used]
    return max(filled, hidden, key=lambda proposal: proposal.elbo(model, x, missing, seed))


@torch.no_grad()
def importance_weighted(
    model: Latent,
    proposal: EncoderProposal,
    x: Tensor,
    missing: Tensor,
    noise: KeyedNoise,
    batch: int,
    progress: Progress = silent,
) -> LogLik:
    """The bound with the draws of z of `noise`, P of them, for each row x [R, D], holes missing [R, D]; 0 for a fully
    missing row. `batch`: draws that are decoded in one call; nothing is kept of them but sums.
    """
    P = len(noise.draws)
    values = torch.zeros(len(x), dtype=torch.float64, device=x.device)
    ess, half = torch.full_like(values, P), values.clone()
    todo = (~missing.all(1)).nonzero()[:, 0]
    batches = todo.split(max(1, batch // min(P, TOGETHER)))
    for number, index in enumerate(batches):
        progress(number / len(batches))
        q, own = proposal(x[index], missing[index]), noise.select(rows=index)
        sums = [_weights(model, q, x[index], missing[index], own.select(draws=part)) for part in halves(P)]
        whole = torch.stack([log_sum for log_sum, _ in sums]).logsumexp(0)
        squares = torch.stack([log_squares for _, log_squares in sums]).logsumexp(0)
        values[index] = whole - math.log(P)
        ess[index] = (2 * whole - squares).exp().nan_to_num(nan=0.0)
        parts = [log_sum - math.log(max(len(part), 1)) for (log_sum, _), part in zip(sums, halves(P), strict=True)]
        half[index] = torch.stack(parts).mean(0) if P > 1 else values[index]
    return LogLik(values, "iwae", ess, half, None, P, distrust(ess[todo], (values - half)[todo], P))


def halves(P: int) -> list[Tensor]:
    """Numbers of the draws of the two halves."""
    return [torch.arange(P // 2), torch.arange(P // 2, P)]


def _weights(model: Latent, q: LatentLaw, x: Tensor, missing: Tensor, noise: KeyedNoise) -> tuple[Tensor, Tensor]:
    """log sum w and log sum w² [R] (float64) of the importance weights w of the noise's draws."""
    total = torch.full((len(x),), -math.inf, dtype=torch.float64, device=x.device)
    squares = total.clone()
    for some in torch.arange(len(noise.draws)).split(TOGETHER):
        z, log_q = proposed(model, q, noise.select(draws=some), x)
        joint = model.observed_log_prob(x, z, missing).double()
        log_w = (joint - log_q).nan_to_num(nan=-math.inf, posinf=-math.inf)
        total = torch.logaddexp(total, log_w.logsumexp(0))
        squares = torch.logaddexp(squares, (2 * log_w).logsumexp(0))
    return total, squares


def proposed(model: Latent, q: LatentLaw, noise: KeyedNoise, x: Tensor) -> tuple[Tensor, Tensor]:
    """z [S, R, L] of S draws for R rows x [R, D], of q and a share of the prior, and their log density [S, R]
    (float64)."""
    normal = noise.normal(numbered("z", model.latents)).to(x)
    from_prior = noise.uniform(("prior",)) < PRIOR_SHARE  # [S, R, 1]
    prior = model.prior
    z = torch.where(from_prior, prior.draw(normal), q.draw(normal))
    log_q = torch.logaddexp(q.log_prob(z) + math.log1p(-PRIOR_SHARE), prior.log_prob(z) + math.log(PRIOR_SHARE))
    return z, log_q.double()


def distrust(ess: Tensor, gap: Tensor, P: int) -> str | None:
    """The stated rule of when the bound is not to be trusted: it is dominated by few draws."""
    reasons = []
    few = min(FEW, P / 2)  # of a handful of draws a half
    low = float((ess < few).double().mean()) if len(ess) else 0.0
    if low > LOW_SHARE:
        reasons.append(f"{low:.0%} of the rows have an effective sample size below {few:g} of {P} draws")
    half = float(gap.mean()) if len(gap) else 0.0
    if not half <= HALF_GAP:
        reasons.append(f"the value at half the budget is {half:.3f} nats a row lower")
    if not reasons:
        return None
    return (
        "this log-likelihood is a bound that is likely too low, do not rely on it (more --samples help): "
        + "; ".join(reasons)
    )
