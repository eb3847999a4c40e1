"""Draws from the model by Metropolis-within-Gibbs, with the fitted conditionals as proposals.

The paper itself advises to impute from p, not from q. Whatever q is, the chain targets p(x_mis | x_obs), restricted to
the box: proposals outside are rejected.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, final

import torch
from torch import Tensor

from vgi_cli.chains.kernels import metropolis_step, random_scan
from vgi_cli.conditionals.base import Conditionals, Proposal
from vgi_cli.errors import FitError, UsageError
from vgi_cli.maths.noise import KeyedNoise
from vgi_cli.models.base import Model
from vgi_cli.samplers.base import Box, Imputer, SamplerInput
from vgi_cli.samplers.frozen import frozen
from vgi_cli.samplers.mixing import Mixing, Record
from vgi_cli.samplers.packing import PACK, Chains, Pack, chains_of, pack_of, padded, rows_at_once, sweep_noise
from vgi_cli.samplers.starts import Start, start_of

WALK_SHARE = 0.1
WALK_SCALES = (0.03, 3.0)


class BurnIn(NamedTuple):
    """How long a chain runs. A sweep proposes once in every hole, in random order.

    A chain of a row with h holes first runs half of max(minimum, per_hole · h) sweeps. Its acceptance rate a in that
    half decides the length of the rest: the same number of sweeps where a >= target, else target / a times as many, at
    most `longest` times. The length is decided before the rest is run and by nothing in it, and by the chain alone:
    other rows and draws cannot change it.
    """

    minimum: int = 20
    per_hole: float = 1.0
    target: float = 0.5
    longest: float = 4.0

    def first(self, holes: Tensor) -> Tensor:
        """[R] sweeps of the first half, for rows with `holes` [R] missing cells (0 where there is none)."""
        total = (self.per_hole * holes).clamp(min=self.minimum)
        return torch.where(holes > 0, (total / 2).ceil().clamp(min=1), 0).long()

    def rest(self, first: Tensor, acceptance: Tensor) -> Tensor:
        """[R] sweeps of the rest, given the acceptance rate of the first half."""
        factor = (self.target / acceptance.clamp(min=1e-6)).clamp(1.0, self.longest)
        return (first * factor).ceil().long()


class Widened:
    """q_j most of the time, and with probability WALK_SHARE a symmetric random walk of a scale between WALK_SCALES.

    A choice between two kernels, each of which leaves the target as it is, not a mixture density: so q_j need not be
    evaluated at values that it did not propose. Where p/q is large and q_j-proposals are all but never accepted (light
    tails), the walk still moves. Encoded columns have a standard deviation near 1; scales are uniform in the logarithm.
    """

    def __init__(self, q: Conditionals, share: float = WALK_SHARE) -> None:
        self._q = q
        self._share = share
        self.cell_width = q.cell_width + 3
        self.noise_width = q.noise_width + 2 + q.W

    def blocks(self, missing: Tensor) -> Tensor:
        """See Conditionals."""
        return self._q.blocks(missing)

    def noise_of(self, cells: Tensor, j: Tensor) -> Tensor:
        """See Conditionals: noise of q; the choice and the scale of the walk, of the block's first column; its step in
        each column."""
        columns, own = self._q.members[j], self._q.cell_width
        row = torch.arange(len(j), device=j.device)
        walk = cells[row, columns[:, 0], own : own + 2]
        return torch.cat([self._q.noise_of(cells[..., :own], j), walk, cells[..., own + 2].gather(1, columns)], 1)

    def redraw(self, x: Tensor, missing: Tensor, j: Tensor, noise: Tensor) -> Tensor:
        """See Conditionals: a draw of q itself."""
        return self._q.redraw(x, missing, j, noise)

    def propose(self, x: Tensor, missing: Tensor, j: Tensor, noise: Tensor) -> Proposal:
        """See Conditionals. The densities of the walk there and back are equal and set to 0."""
        mine = self._q.noise_width
        own = self._q.propose(x, missing, j, noise[:, :mine])
        choice, place = torch.special.ndtr(noise[:, mine]), torch.special.ndtr(noise[:, mine + 1])
        low, high = WALK_SCALES
        steps = (low * (high / low) ** place)[:, None] * noise[:, mine + 2 :]
        step = torch.zeros_like(x).scatter_add_(1, self._q.members[j], torch.where(self._q.real[j], steps, 0.0))
        walk = choice < self._share
        new = torch.where(walk[:, None], x + torch.where(missing, step, 0.0), own.x)
        return Proposal(new, torch.where(walk, 0.0, own.log_forward), torch.where(walk, 0.0, own.log_reverse))


class _Target:
    """log p inside the box, minus infinity outside and where the model returns no number; counts what lies outside."""

    def __init__(self, model: Model, box: Box) -> None:
        self._model = model
        self._box = box
        self._outside = torch.zeros((), dtype=torch.int64, device=box.low.device)

    def __call__(self, x: Tensor, missing: Tensor) -> Tensor:
        inside = (self._box.contains(x) | ~missing).all(1)
        self._outside += (~inside).sum()  # read at the end: the device must not wait at each step
        log_p = self._model.log_prob(x).nan_to_num(nan=-torch.inf, posinf=-torch.inf)
        return torch.where(inside, log_p, -torch.inf)

    def outside(self) -> int:
        """How many states lay outside."""
        return int(self._outside)


Step = Callable[..., tuple[Tensor, ...]]
"""A step of PACK chains, a function of tensors: x, log_p, what was accepted in this sweep, missing, the block j, which
chains move, and the noise; gives the first three anew."""


class _State(NamedTuple):
    """Q chains between two packs: x [Q, D], log_p [Q] and what they record, all changed in place."""

    x: Tensor
    log_p: Tensor
    record: Record


@final
class MetropolisImputer(Imputer):
    """One chain per draw and row, never successive states of one; the last state of each is the draw."""

    def __init__(
        self,
        model: Model,
        conditionals: Conditionals,
        start: Start,
        burn_in: BurnIn | None = None,
        capture: Callable[[Step], Step] | None = None,
    ) -> None:
        """`start` gives first states; `capture` makes a step faster (chains/captured.py). UsageError when the model's
        log density is only a bound: a bound in an acceptance ratio changes the target."""
        if not model.exact:
            raise UsageError(
                "sampler 'metropolis' needs an exact log density, this model has a lower bound only",
                "use --sampler gibbs or chains",
            )
        self._model = model
        self._q = conditionals
        self._proposer = Widened(conditionals)
        self._start = start
        self._burn_in = burn_in or BurnIn()
        self._capture = capture
        self._mixing = Mixing()
        self._outside = 0
        self._columns: tuple[str, ...] = ()

    def rows_at_once(self, draws: int) -> int:
        """See Imputer."""
        return rows_at_once(draws)

    def sample(self, x: Tensor, missing: Tensor, noise: KeyedNoise, box: Box) -> Tensor:
        """See Imputer. FitError when the model's density is not a positive number at any state that a chain visits.

        All chains run their first half; then they are sorted anew by the length of their rest, so that one chain that
        is extended does not keep the others of its pack waiting.
        """
        box = Box(box.low.to(x), box.high.to(x))
        self._columns = noise.columns
        out = self._start.states(x, missing, noise, box)
        middle = out.clone()
        chains = chains_of(out, missing, noise)
        if len(chains.row) > 0:
            with frozen(self._model, self._q):
                halfway, end = self._run(chains, box)
            middle[chains.draw, chains.row] = halfway
            out[chains.draw, chains.row] = end
        self._mixing.add_states(middle, out, missing)
        return out

    def _run(self, chains: Chains, box: Box) -> tuple[Tensor, Tensor]:
        """States [Q, D] of the chains after their first half and at their end."""
        target = _Target(self._model, box)
        step = self._step_towards(target)
        first = self._burn_in.first(chains.missing.sum(1))
        state = _State(chains.x.clone(), chains.x.new_zeros(len(first)), Record(chains.missing))
        by_holes = torch.arange(len(first), device=first.device)
        for index in by_holes.split(PACK):
            pack = pack_of(chains, state.x, index)
            state.log_p[index] = target(pack.x, pack.missing)[: pack.real]
        self._advance(step, chains, state, by_holes, (torch.zeros_like(first), first), 0.0)
        halfway = state.x.clone()
        last = first + self._burn_in.rest(first, state.record.acceptance())
        by_first = first.argsort(stable=True)
        by_length = by_first[last[by_first].argsort(stable=True)]
        self._advance(step, chains, state, by_length, (first, last), 0.5)
        if bool(torch.isneginf(state.log_p).any()):
            raise FitError(
                "the model gives no density at an imputed row after burn-in (log p is not finite)",
                "the fit has diverged or the row is far outside the fitted data; fit again, or use --sampler gibbs",
            )
        self._mixing.add(state.record, last, last > 2 * first)
        self._outside += target.outside()
        return halfway, state.x

    def _step_towards(self, target: _Target) -> Step:
        """The step of chains with that target."""

        def step(
            x: Tensor, log_p: Tensor, accepted: Tensor, missing: Tensor, j: Tensor, moving: Tensor, *noise: Tensor
        ) -> tuple[Tensor, ...]:
            moved = metropolis_step(
                target, self._proposer, (x, log_p), missing & moving[:, None], j, moving, noise[0], noise[1]
            )
            own = moved.accepted[:, None] | accepted.gather(1, j[:, None])
            return moved.x, moved.log_p, accepted.scatter(1, j[:, None], own)

        return step if self._capture is None else self._capture(step)

    def _advance(
        self, step: Step, chains: Chains, state: _State, order: Tensor, sweeps: tuple[Tensor, Tensor], share: float
    ) -> None:
        """Run every chain from the one to the other of its `sweeps` [Q], pack by pack in this order, and put the
        states back. This is half of the work, of which `share` was done before."""
        work = sweeps[1] - sweeps[0]
        done, whole = 0, max(int(work.sum()), 1)
        for index in order.split(PACK):
            own = int(work[index].sum())
            part = share + 0.5 * done / whole, 0.5 * own / whole
            done += own
            pack = pack_of(chains, state.x, index)
            record = Record(pack.missing, torch.stack([padded(count) for count in state.record.counts[:, index]]))
            begin, end = (padded(sweep[index]) for sweep in sweeps)
            x, log_p = self._sweep(step, pack, padded(state.log_p[index]), record, (begin, end), part)
            state.x[index] = x[: pack.real]
            state.log_p[index] = log_p[: pack.real]
            state.record.counts[:, index] = record.counts[:, : pack.real]

    def _sweep(
        self,
        step: Step,
        pack: Pack,
        log_p: Tensor,
        record: Record,
        sweeps: tuple[Tensor, Tensor],
        part: tuple[float, float],
    ) -> tuple[Tensor, Tensor]:
        """States [PACK, D] and log densities [PACK] of the chains of one pack after their sweeps; `part`: the share of
        the work that was done before, and the one that this is."""
        x, missing = pack.x, pack.missing
        begin, end = sweeps
        allowed = self._proposer.blocks(missing)
        steps = int(allowed.sum(1).max())
        first = self._q.members[:, 0]
        least, most = int(begin[: pack.real].min()), int(end.max())
        for sweep in range(least, most):
            self.watch(part[0] + part[1] * (sweep - least) / (most - least))
            active = (begin <= sweep) & (sweep < end)
            noise = sweep_noise(pack.noise, sweep, self._proposer.cell_width, x.dtype)
            scan = random_scan(allowed, noise.order[:, first], steps)
            accepted = torch.zeros_like(allowed)
            for g in range(steps):
                j, moving = scan.j[:, g], scan.active[:, g] & active
                normal = self._proposer.noise_of(noise.normal, j)
                accept = noise.accept.gather(1, first[j, None])[:, 0]
                x, log_p, accepted = step(x, log_p, accepted, missing, j, moving, normal, accept)
            record.sweep(active, accepted[:, self._q.block_of] & missing)
        return x, log_p

    def diagnostics(self) -> dict[str, object]:
        """Chains, mean sweeps, share of extended chains, acceptance (all, by column), longest run of rejections,
        memory (see Mixing) and proposals outside the box."""
        summary = self._mixing.summary(self._columns)
        return {**summary, "outside_range": self._outside} if summary else {}


def build(fitted: SamplerInput) -> MetropolisImputer:
    """The sampler `metropolis`."""
    assert fitted.conditionals is not None
    return MetropolisImputer(fitted.models[0], fitted.conditionals, start_of(fitted), capture=fitted.capture)
