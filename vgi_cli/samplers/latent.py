"""Draws from a model with latents: a Markov chain on z and the missing cells, with the encoder as proposal
(Metropolis-within-Gibbs: Mattei and Frellsen 2018, "Leveraging the exact likelihood of deep latent variable models").

Whatever the encoder is, the chain targets p(z, x_mis | x_obs), restricted to the box. Given z the cells are
independent, so the missing ones are drawn exactly, and a move of z alone can integrate them out.
"""

from __future__ import annotations

from typing import NamedTuple, cast, final

import torch
from torch import Tensor

from vgi_cli.errors import FitError
from vgi_cli.maths.laws import CellsLaw
from vgi_cli.maths.noise import KeyedNoise, numbered
from vgi_cli.models.base import Latent
from vgi_cli.samplers.base import Box, Imputer, SamplerInput, frozen
from vgi_cli.samplers.mixing import Memory
from vgi_cli.samplers.packing import Pack, PackedImputer, chains_of, pack_of, packed
from vgi_cli.samplers.turns import in_turn

SWEEPS = 100
"""Sweeps of each chain before its last state is the draw."""
WALK_SCALES = (0.03, 1.0)
"""Sizes of the random walk, uniform in the logarithm; 1 is an independent draw from the prior."""


class _State(NamedTuple):
    """Latents z [PACK, L] and the decoder's law of x given z [PACK, D]."""

    z: Tensor
    law: CellsLaw

    def where(self, accepted: Tensor, new: _State) -> _State:
        """The new state in the accepted lines [PACK]."""
        return _State(torch.where(accepted[:, None], new.z, self.z), new.law.where(accepted, self.law))


@final
class LatentImputer(PackedImputer):
    """One chain per draw and row; the last state of each is the draw. A sweep is

    1. x_mis ~ p(x_mis | z), truncated to the box;
    2. z' ~ q(z | x), accepted with min(1, p(x, z') / p(x, z) · q(z | x) / q(z' | x));
    3. z' = sqrt(1 - s²) z + s e, e ~ N(0, I), s random: a walk that leaves the prior N(0, I) as it is (for others see
       LatentLaw), accepted by the ratio of p(x_obs | z) P(x_mis in the box | z). It moves where the encoder is poor,
       and where x_mis holds z fast.
    """

    def __init__(self, model: Latent, sweeps: int | None = None) -> None:
        """sweeps: None for SWEEPS."""
        self._model = model
        self._sweeps = SWEEPS if sweeps is None else sweeps
        self._memory = Memory()
        self._counts = torch.zeros(3, dtype=torch.int64)  # chains; moves accepted: by the encoder, of the walk

    def prepare(self, missing: Tensor, noise: KeyedNoise, box: Box) -> None:
        super().prepare(missing, noise, box)
        self._memory.make_room(missing.shape[1])

    def sample(self, x: Tensor, missing: Tensor, noise: KeyedNoise, box: Box) -> Tensor:
        """FitError when the model's law of a missing cell is not a number."""
        box = Box(box.low.to(x), box.high.to(x))
        self.prepare(missing, noise, box)
        out = x.expand(len(noise.draws), *x.shape).clone()
        middle = out.clone()
        chains = chains_of(out, missing, noise)
        with frozen(self._model):
            for index, part in packed(chains):
                pack = pack_of(chains, chains.x, index)
                halfway, end = self._run(pack, box, part)
                middle[chains.draw[index], chains.row[index]] = halfway[: pack.real]
                out[chains.draw[index], chains.row[index]] = end[: pack.real]
        if not bool(torch.isfinite(out).all()):
            raise FitError(
                "the model gives no law of a missing cell (its mean or variance is not finite)",
                "the fit has diverged or the row is far outside the fitted data; fit again with a lower optim.lr",
            )
        self._memory.add(middle, out, missing)
        self._counts[0] += len(chains.row)
        return out

    def _run(self, pack: Pack, box: Box, part: tuple[float, float]) -> tuple[Tensor, Tensor]:
        """States [PACK, D] of the chains of a pack after half of their sweeps and at their end."""
        state = self._start(pack)
        middle = pack.x
        accepted = torch.zeros(2, dtype=torch.int64, device=middle.device)
        for sweep in range(self._sweeps):
            self.watch(part[0] + part[1] * sweep / self._sweeps)
            noise = pack.noise.at(sweep)
            x = _cells(state.law, pack, noise, box)
            if sweep == self._sweeps // 2:
                middle = x
            state, by_encoder = self._encoder_move(state, x, noise.at("encoder"))
            state, by_walk = self._walk(state, pack, noise.at("walk"), box)
            accepted += torch.stack([by_encoder, by_walk])[:, : pack.real].sum(1)
        self._counts[1:] += accepted.cpu()
        return middle, _cells(state.law, pack, pack.noise.at("end"), box)

    def _start(self, pack: Pack) -> _State:
        """z from the encoder at the row with its holes at the model's reconstruction; from the prior in a row that is
        missing altogether."""
        x = self._model.filled(pack.x, pack.missing)
        normal = self._normal(pack.noise.at("start"), x)
        empty = pack.missing.all(1, keepdim=True)
        return self._at(torch.where(empty, self._model.prior.draw(normal), self._model.encode(x).draw(normal)))

    def _encoder_move(self, state: _State, x: Tensor, noise: KeyedNoise) -> tuple[_State, Tensor]:
        """Step 2 at the completed rows x; which lines [PACK] accepted."""
        q = self._model.encode(x)
        new = self._at(q.draw(self._normal(noise, x)))
        ratio = self._joint(new, x) - self._joint(state, x) + q.log_prob(state.z) - q.log_prob(new.z)
        accepted = _log_uniform(noise) < ratio  # False where it is NaN
        return state.where(accepted, new), accepted

    def _walk(self, state: _State, pack: Pack, noise: KeyedNoise, box: Box) -> tuple[_State, Tensor]:
        """Step 3; which lines [PACK] accepted."""
        low, high = WALK_SCALES
        place = noise.uniform(("scale",))[0].to(state.z)  # [PACK, 1]
        s = low * (high / low) ** place
        new = self._at(self._model.prior.walk(state.z, s, self._normal(noise, state.z)))
        accepted = _log_uniform(noise) < _observed(new.law, pack, box) - _observed(state.law, pack, box)
        return state.where(accepted, new), accepted

    def _joint(self, state: _State, x: Tensor) -> Tensor:
        """log p(x | z) + log p(z): [PACK]."""
        return state.law.log_prob(x) + self._model.prior.log_prob(state.z)

    def _at(self, z: Tensor) -> _State:
        return _State(z, self._model.decode(z))

    def _normal(self, noise: KeyedNoise, like: Tensor) -> Tensor:
        """[PACK, L]."""
        return noise.normal(numbered("z", self._model.latents))[0].to(like)

    def counts(self) -> list[Tensor]:
        return [self._counts, self._memory.totals]

    def diagnostics(self) -> dict[str, object]:
        """Chains, sweeps, shares of accepted moves, and memory (see Memory)."""
        chains, by_encoder, by_walk = self._counts.tolist()
        if chains == 0:
            return {}
        moves = chains * self._sweeps
        shares = {"acceptance_encoder": by_encoder / moves, "acceptance_walk": by_walk / moves}
        return {"chains": chains, "sweeps": self._sweeps, **shares, **self._memory.summary(self.columns)}


def _log_uniform(noise: KeyedNoise) -> Tensor:
    """[PACK] log of a uniform."""
    return noise.uniform(("accept",))[0, :, 0].log()


def _observed(law: CellsLaw, pack: Pack, box: Box) -> Tensor:
    """log p(x_obs | z) + log P(x_mis in the box | z): [PACK]."""
    inside = law.log_mass(*box).masked_fill(~pack.missing, 0.0).sum(1)
    return law.log_prob(pack.x, pack.missing) + inside


def _cells(law: CellsLaw, pack: Pack, noise: KeyedNoise, box: Box) -> Tensor:
    """Rows [PACK, D] with their missing cells drawn from the law, truncated to the box."""
    drawn = law.draw_inside(
        noise.normal()[0], lambda: noise.at("outside").uniform()[0], box.low, box.high, pack.missing
    )
    return torch.where(pack.missing, drawn, pack.x)


def build(fitted: SamplerInput) -> Imputer:
    """The sampler `latent`; refits take turns."""
    return in_turn([LatentImputer(cast(Latent, model)) for model in fitted.models])
