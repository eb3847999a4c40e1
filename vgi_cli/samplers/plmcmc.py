"""Draws of the missing cells under a flow by projected latent Markov chains: without conditionals, from the flow alone.

The chains of `chains/projected.py` target p(x_mis | x_obs) whatever the auxiliary standard deviation is. That of the
paper's method (0.001) serves nobody who wants draws: a wide one and steps of many sizes mix within some hundred steps.
"""

from __future__ import annotations

from typing import cast, final

import torch
from torch import Tensor

from vgi_cli.chains.projected import IncompleteRows, Kernel, Latents, ProjectedNoise, at_base, projected, step
from vgi_cli.errors import FitError
from vgi_cli.maths.noise import KeyedNoise
from vgi_cli.models.base import Bijective
from vgi_cli.samplers.base import Box, Imputer, SamplerInput, frozen
from vgi_cli.samplers.mixing import Memory
from vgi_cli.samplers.packing import Pack, PackedImputer, chains_of, pack_of, packed
from vgi_cli.samplers.starts import Start
from vgi_cli.samplers.turns import in_turn

AUXILIARY = 0.5
RESAMPLE = 0.2
SCALES = (0.03, 1.0)
"""Perturbations have a standard deviation between these, uniform in the logarithm: a choice without a look at the
state, so that every step leaves the target as it is."""
FEWEST_STEPS, STEPS_PER_COLUMN = 500, 50


class ModelStart(Start):
    """Unconditional draws of a flow in the missing cells, moved into the box."""

    def __init__(self, flow: Bijective) -> None:
        self._flow = flow

    def states(self, x: Tensor, missing: Tensor, noise: KeyedNoise, box: Box) -> Tensor:
        """Randomness: one keyed normal a cell."""
        with frozen(self._flow):
            draws = [self._flow.from_base(u) for u in noise.at("start").normal().to(x)]
        inside = torch.stack(draws).clamp(box.low.to(x), box.high.to(x)) if draws else x[None][:0]
        return torch.where(missing, inside, x)


@final
class ProjectedImputer(PackedImputer):
    """One chain per draw and row, of max(FEWEST_STEPS, STEPS_PER_COLUMN · D) steps; its last state is the draw.
    Proposals outside the box are rejected."""

    def __init__(self, flow: Bijective, start: Start, steps: int | None = None) -> None:
        self._flow = flow
        self._start = start
        self._steps = steps
        self._memory = Memory()
        self._counts = torch.zeros(4, dtype=torch.int64)  # chains; their steps; those accepted; chains that were stuck

    def prepare(self, missing: Tensor, noise: KeyedNoise, box: Box) -> None:
        super().prepare(missing, noise, box)
        self._memory.make_room(missing.shape[1])

    def sample(self, x: Tensor, missing: Tensor, noise: KeyedNoise, box: Box) -> Tensor:
        """A chain that finds no state inside the box keeps its start, and is counted as stuck. FitError
        where the flow gives no numbers."""
        box = Box(box.low.to(x), box.high.to(x))
        self.prepare(missing, noise, box)
        out = self._start.states(x, missing, noise, box)
        middle = out.clone()
        with frozen(self._flow):
            chains = chains_of(out, missing, noise)
            for index, part in packed(chains):
                pack = pack_of(chains, chains.x, index)
                halfway, end = self._run(pack, box, part)
                where = chains.draw[index], chains.row[index]
                middle[where], out[where] = halfway[: pack.real], end[: pack.real]
        if not bool(torch.isfinite(out).all()):
            raise FitError(
                "the model gives imputations that are not finite",
                "the fit has diverged; fit again with a smaller --set optim.lr",
            )
        self._memory.add(middle, out, missing)
        return out

    def _run(self, pack: Pack, box: Box, part: tuple[float, float]) -> tuple[Tensor, Tensor]:
        """Completed rows [PACK, D] of the chains of a pack at half-time and at their end."""
        rows = IncompleteRows(pack.x, pack.missing, torch.stack(box))
        count = max(FEWEST_STEPS, STEPS_PER_COLUMN * pack.x.shape[1]) if self._steps is None else self._steps
        kernel = Kernel(RESAMPLE, 1.0, 1.0, AUXILIARY)
        state = at_base(self._flow, rows, kernel, self._flow.to_base(pack.x)[0])
        middle = pack.x
        accepted = torch.zeros((), dtype=torch.int64, device=pack.x.device)
        for number in range(count):
            self.watch(part[0] + part[1] * number / count)
            kernel, noise = _randomness(pack.noise.at(number), kernel, pack.x)
            state, kept = step(self._flow, rows, kernel, state, noise)
            accepted += kept[: pack.real].sum()
            if 2 * (number + 1) == count - count % 2:
                middle = _filled(rows, state)
        stuck = int(torch.isneginf(state.log_target[: pack.real]).sum())
        self._counts += torch.tensor([pack.real, count * pack.real, int(accepted), stuck])
        return middle, _filled(rows, state)

    def counts(self) -> list[Tensor]:
        return [self._counts, self._memory.totals]

    def diagnostics(self) -> dict[str, object]:
        """Chains, steps of each, share of proposals accepted, chains that were stuck, memory (see Memory)."""
        chains, taken, accepted, stuck = self._counts.tolist()
        if chains == 0:
            return {}
        return {
            "chains": chains,
            "steps": taken / chains,
            "acceptance": accepted / taken,
            "stuck": stuck,
            **self._memory.summary(self.columns),
        }


def _filled(rows: IncompleteRows, state: Latents) -> Tensor:
    """Completed rows; a chain that has not yet been where the target is positive is still at its start."""
    return torch.where(torch.isneginf(state.log_target)[:, None], rows.x, projected(rows, state.y))


def _randomness(noise: KeyedNoise, kernel: Kernel, like: Tensor) -> tuple[Kernel, ProjectedNoise]:
    """The kernel of a step, with a size of perturbation for each chain, and the step's randomness, all keyed."""
    size, choice, accept = noise.at("step").uniform(("size", "choice", "accept"))[0].to(like).unbind(1)
    low, high = SCALES
    drawn = ProjectedNoise(noise.normal()[0].to(like), choice, accept.log())
    return kernel._replace(perturb_std=low * (high / low) ** size), drawn


def build(fitted: SamplerInput) -> Imputer:
    """The sampler `plmcmc`; refits take turns."""
    flows = [cast(Bijective, model) for model in fitted.models]
    return in_turn([ProjectedImputer(flow, ModelStart(flow)) for flow in flows])
