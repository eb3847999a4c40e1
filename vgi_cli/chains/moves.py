"""Moves of Markov chains on the missing cells: what training does with its chains, and imputing with its own.

A kernel is a function of its randomness, which is passed in, of the state of R chains and of the log density that they
target: (noise, state, density) -> (state, what became of it). Gibbs steps keep every draw of q_j, so the chain targets
whatever q defines (the paper's Algorithm 5); Metropolis steps take it for a proposal and leave p(x_mis | x_obs)
invariant, whatever q is. A step redraws one block, or B columns together from the product of their conditionals; a path
is G steps accepted or rejected together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, NamedTuple, Protocol, Self, TypeVar

import torch
from torch import Tensor
from torch.nn import functional as F

from vgi_cli.chains.scans import Scan, block_scan, holes_scan, random_scan, repeated
from vgi_cli.conditionals.base import Conditionals, Sweep
from vgi_cli.conditionals.latent_blocks import Autoencoder
from vgi_cli.maths.laws import WIDE_SHARE, LatentLaw
from vgi_cli.notation import LogDensity

RANKED = 12
"""Up to this many steps a row's blocks are found by rank (`holes_scan`); for more they are sorted by random numbers."""


class Moves(NamedTuple):
    """How chains move in one visit.

    metropolis  whether draws are proposals; False: all are kept, the paper's rule
    path        whether G proposals are accepted or rejected together
    G           steps
    B           columns that one step redraws together; 1: one block, of as many columns as it has
    """

    metropolis: bool
    path: bool
    G: int
    B: int = 1

    def width(self, q: Conditionals) -> int:
        """Normals that one draw needs."""
        return q.noise_width if self.metropolis else q.fresh_width


class StepNoise(NamedTuple):
    """Randomness of one step.

    normal       [R, (B), width] standard normal: the draws
    log_uniform  [R] log of a uniform: acceptance
    latents      [R, L] standard normal, for latents that are drawn with each proposal; L = 0 where there are none
    """

    normal: Tensor
    log_uniform: Tensor
    latents: Tensor


class SweepNoise(NamedTuple):
    """Randomness of G steps: `order` says which blocks (`scan_of`), the others are those of StepNoise, [R, G, ..]."""

    order: Tensor
    normal: Tensor
    log_uniform: Tensor
    latents: Tensor

    def step(self, g: int) -> StepNoise:
        """Of step g."""
        return StepNoise(self.normal[:, g], self.log_uniform[:, g], self.latents[:, g])


class Place(Protocol):
    """What a chain remembers of its density at its state."""

    def where(self, condition: Tensor, other: Self, /) -> Self:
        """This where condition [R] holds, the other elsewhere."""

    def over(self, other: Self, /) -> Tensor:
        """Log of the ratio of the density here to the one there, [R]."""


PlaceT = TypeVar("PlaceT", bound=Place)
PlaceT_co = TypeVar("PlaceT_co", bound=Place, covariant=True)


class Weighed(NamedTuple):
    """A log density [R], and the latents z [R, L] that chains carry with it; None: they carry none."""

    log_p: Tensor
    z: Tensor | None = None

    def where(self, condition: Tensor, other: Weighed) -> Weighed:
        log_p = torch.where(condition, self.log_p, other.log_p)
        if self.z is None or other.z is None:
            return Weighed(log_p)
        return Weighed(log_p, torch.where(condition[:, None], self.z, other.z))

    def over(self, other: Weighed) -> Tensor:
        return self.log_p - other.log_p


class StepDensity(Protocol[PlaceT_co]):
    """What a step targets, up to a constant: of rows x [R, D] with missing [R, D]."""

    def proposed(self, x: Tensor, missing: Tensor, noise: Tensor) -> PlaceT_co:
        """At proposed rows; noise [R, L] for their latents."""


class Density(StepDensity[Weighed], Protocol):
    """What a sweep targets."""

    def begin(self, x: Tensor, missing: Tensor) -> Weighed:
        """At the rows that it begins with."""

    def both(self, x: Tensor, new: Tensor, missing: Tensor, noise: Tensor) -> tuple[Weighed, Weighed]:
        """At the rows that a path begins with, and at its end."""


@dataclass(frozen=True)
class OfRows:
    """A log density of the rows alone."""

    log_p: LogDensity

    def begin(self, x: Tensor, missing: Tensor) -> Weighed:
        return Weighed(self.log_p(x, missing))

    def proposed(self, x: Tensor, missing: Tensor, noise: Tensor) -> Weighed:
        return Weighed(self.log_p(x, missing))

    def both(self, x: Tensor, new: Tensor, missing: Tensor, noise: Tensor) -> tuple[Weighed, Weighed]:
        old, end = self.log_p(torch.cat([x, new]), torch.cat([missing, missing])).chunk(2)
        return Weighed(old), Weighed(end)


@dataclass(frozen=True)
class WithLatents:
    """log p(x, z) - log q(z | x): at the row's own z [R, L] where the sweep begins, then at a new z' ~ q(z | x') for
    each proposal x'. It accepts x' and z' together by

        p(x', z') / p(x, z) · q_j(x_j | x') q(z | x) / (q_j(x'_j | x) q(z' | x')),

    because chains keep the value of the state that they are in and never evaluate it again.
    """

    model: Autoencoder
    z: Tensor

    def begin(self, x: Tensor, missing: Tensor) -> Weighed:
        return self._weighed(x, self.z, self.model.encode(x))

    def proposed(self, x: Tensor, missing: Tensor, noise: Tensor) -> Weighed:
        law = self.model.encode(x)
        return self._weighed(x, law.draw(noise), law)

    def both(self, x: Tensor, new: Tensor, missing: Tensor, noise: Tensor) -> tuple[Weighed, Weighed]:
        return self.begin(x, missing), self.proposed(new, missing, noise)

    def _weighed(self, x: Tensor, z: Tensor, law: LatentLaw) -> Weighed:
        return Weighed(self.model.joint_log_prob(torch.cat([x, z], 1)) - law.log_prob(z), z)


class State(NamedTuple, Generic[PlaceT]):
    """R chains: their rows, which a step changes in place, and their log density (and latents) there."""

    rows: Sweep
    at: PlaceT


class Done(NamedTuple):
    """What became of a step: which rows kept it [R], or which cells [R, B] (an exact draw is kept, be it the value that
    was there); which draws lay inside the box [R]."""

    accepted: Tensor
    inside: Tensor


class Jump(NamedTuple):
    """A symmetric step of a random walk, taken instead of a draw of q_j in the rows that `chosen` [R] names; size [R,
    (W)], 0 in dimensions that hold levels. A choice between two kernels, each of which leaves the target as it is, not
    a mixture of densities."""

    chosen: Tensor
    size: Tensor


def gibbs_step(normal: Tensor, rows: Sweep, j: Tensor, active: Tensor, box: Tensor | None = None) -> Done:
    """Redraw blocks j [R], or [R, B], of the active ones from q itself. Every draw is kept, unless it leaves the box
    [2, D]; of B columns each one for itself."""
    old = rows.at(j)
    value = rows.law(j).draw(normal)
    inside = torch.ones_like(active) if box is None else rows.q.inside(value, rows.missing, j, box)
    kept = active & inside
    rows.set_(j, _where(kept, value, old))
    return Done(kept, inside)


def metropolis_step(
    noise: StepNoise,
    state: State[PlaceT],
    density: StepDensity[PlaceT],
    j: Tensor,
    active: Tensor,
    share: float = WIDE_SHARE,
    box: Tensor | None = None,
    jump: Jump | None = None,
) -> tuple[State[PlaceT], Done]:
    """Redraw blocks j [R] and accept with min(1, p(x')/p(x) · q_j(x_j | x')/q_j(x'_j | x)), q_j widened by this share.

    Columns j [R, B] are accepted together, by the product of their conditionals, all of which see the whole row before
    (x) or after (x') the step. Draws that leave the box [2, D] are rejected.

    A column of two levels is drawn from p(x_j | rest) itself, and every draw is kept: it becomes the other level with
    probability p(x') / (p(x) + p(x')). That takes one evaluation of the density, as a proposal does, and changes the
    value at least as often as proposals of any q_j that does not see it (Peskun 1973). Not where latents are drawn with
    each proposal.
    """
    rows, q = state.rows, state.rows.q
    apart = j.ndim == 2
    old = rows.at(j)
    law = rows.law(j).widened(share)
    value, there = law.draw_scored(noise.normal)
    if jump is not None:
        value = _where(jump.chosen, old + torch.where(q.at(rows.missing, j), jump.size, 0.0), value)
    two = q.two_levels[j] if q.flips and not apart and noise.latents.shape[-1] == 0 else None
    if two is not None:  # the other level's density is all that an exact draw needs beside the one that is known
        value = torch.where(two, 1.0 - old, value)
    value = _where(active, value, old)
    rows.propose_(j, value, old)
    new = density.proposed(rows.x, rows.missing, noise.latents)
    if apart or q.extended:  # else the block is hidden: the way back has the law of the way there
        law = rows.law(j).widened(share)
    back = law.log_prob(old)
    if jump is not None:
        back, there = torch.where(jump.chosen, 0.0, back), torch.where(jump.chosen, 0.0, there)
    gain = new.over(state.at)
    ratio = gain + torch.where(active, back - there, 0.0).sum(1) if apart else gain + back - there
    if two is not None:
        ratio = torch.where(two, F.logsigmoid(gain), ratio)
    moving = active.any(1) if apart else active
    inside = torch.ones_like(moving)
    if box is not None:
        inside = q.inside(value, rows.missing, j, box)
        inside = (inside | ~active).all(1) if apart else inside
    accepted = moving & inside & (noise.log_uniform < ratio)  # False where the ratio is NaN
    rows.settle_(accepted)
    kept = active & accepted[:, None] if apart else accepted
    if two is not None:
        kept = kept | (two & moving & inside & ~gain.isnan())
    return State(rows, new.where(accepted, state.at)), Done(kept, inside)


def metropolis_path(
    noise: SweepNoise, q: Conditionals, x: Tensor, missing: Tensor, density: Density, scan: Scan
) -> tuple[Tensor, Weighed, Tensor]:
    """G draws from rows x [R, D], kept or rejected together, with one evaluation of 2R densities: the rows, their log
    density, and which steps were kept [R, G].

    Ratio: p(x^G)/p(x^0) · prod_g q_{j_g}(x^{g-1}_{j_g} | x^g) / q_{j_g}(x^g_{j_g} | x^{g-1}). The blocks must be chosen
    without a look at the values, by a law that is symmetric under reversal.
    """
    G = scan.j.shape[1]
    rows = q.sweep(x.clone(), missing)
    log_ratio = x.new_zeros(x.shape[0])
    law = rows.law(scan.j[:, 0]).widened()
    for g in range(G):
        j, active = scan.j[:, g], scan.active[:, g]
        old = rows.at(j)
        value, there = law.draw_scored(noise.normal[:, g])
        rows.set_(j, _where(active, value, old))
        back = law
        if q.extended:  # the way back and the next step look at the same rows
            both = [law.widened() for law in rows.laws(scan.j[:, g : g + 2])]
            back, law = both[0], both[-1]
        elif g + 1 < G:  # own values are hidden: the way back has the law of the way there
            law = rows.law(scan.j[:, g + 1]).widened()
        log_ratio = log_ratio + torch.where(active, back.log_prob(old) - there, 0.0)
    start, end = density.both(x, rows.x, missing, noise.latents[:, 0])
    accepted = noise.log_uniform[:, 0] < end.over(start) + log_ratio  # False where it is NaN
    kept = scan.active & accepted[:, None]
    accepted = kept.any(1)
    return torch.where(accepted[:, None], rows.x, x), end.where(accepted, start), kept


class Swept(NamedTuple):
    """After G steps: rows x [R, D] and their latents; steps tried and accepted per block [S]; which steps were kept
    [R, G], or [R, G, B]."""

    x: Tensor
    z: Tensor | None
    tried: Tensor
    accepted: Tensor
    kept: Tensor


@torch.no_grad()
def sweep(
    noise: SweepNoise,
    q: Conditionals,
    x: Tensor,
    missing: Tensor,
    density: Density,
    moves: Moves,
    K: int = 1,
    box: Tensor | None = None,
) -> Swept:
    """G updates of each row's missing blocks (Algorithm 5), with or without a Metropolis correction: in random order
    without replacement, and on from the first one where a row has fewer than G. Of a path, and of B columns together,
    a row with few holes has fewer.

    x, missing  [R, D], K chains of a row next to each other
    box         [2, D] updates that leave it are rejected (Algorithm 6, line 7); there is none for paths
    """
    scan = scan_of(q, missing, K, noise.order, moves.G, moves.B)
    if moves.B == 1 and not moves.path:
        scan = repeated(scan, moves.G)
    x, z, kept = along(noise, q, x, missing, density, moves, scan, box)
    return Swept(x, z, _count(q, scan.j, scan.active, x), _count(q, scan.j, kept, x), kept)


def along(
    noise: SweepNoise,
    q: Conditionals,
    x: Tensor,
    missing: Tensor,
    density: Density,
    moves: Moves,
    scan: Scan,
    box: Tensor | None = None,
) -> tuple[Tensor, Tensor | None, Tensor]:
    """`sweep` along a given scan: the rows, their latents, and which steps were kept."""
    if moves.metropolis and moves.path:
        x, end, kept = metropolis_path(noise, q, x, missing, density, scan)
        return x, end.z, kept
    rows, steps = q.sweep(x.clone(), missing), []
    if not moves.metropolis:
        for g in range(scan.j.shape[1]):
            done = gibbs_step(noise.normal[:, g], rows, scan.j[:, g], scan.active[:, g], box)
            steps.append(done.accepted)
        return rows.x, None, torch.stack(steps, 1)
    share = WIDE_SHARE / moves.B  # B widened columns would be refused: the share is that of a step
    state = State(rows, density.begin(rows.x, missing))
    for g in range(scan.j.shape[1]):
        j, active = scan.j[:, g], scan.active[:, g]
        state, done = metropolis_step(noise.step(g), state, density, j, active, share, box)
        steps.append(done.accepted)
    return rows.x, state.at.z, torch.stack(steps, 1)


def scan_of(q: Conditionals, missing: Tensor, K: int, order: Tensor, G: int, B: int) -> Scan:
    """Which blocks are redrawn; missing [R, D], K chains of a row next to each other; `order`: as `sweep_noise`."""
    if B > 1:
        return block_scan(q.blocks(missing), order, G, B)
    if min(G, q.S) <= RANKED:
        return holes_scan(q.blocks(missing[::K]), K, order)
    return random_scan(q.blocks(missing), order, G)


def order_noise(q: Conditionals, R: int, G: int, B: int, like: Tensor, generator: torch.Generator) -> Tensor:
    """The uniforms by which `scan_of` chooses."""
    return uniform((R, G if B == 1 and G <= RANKED else q.S), like, generator)


def sweep_noise(q: Conditionals, R: int, moves: Moves, like: Tensor, generator: torch.Generator) -> SweepNoise:
    """Randomness of one sweep."""
    G = min(moves.G, q.S) if moves.path or moves.B > 1 else moves.G
    log_uniform = uniform((R, G), like, generator).log()
    order = order_noise(q, R, min(G, q.S), moves.B, like, generator)
    shape = (R, G, moves.width(q)) if moves.B == 1 else (R, G, moves.B, moves.width(q))
    return SweepNoise(order, normal(shape, like, generator), log_uniform, like.new_empty(R, G, 0))


def _count(q: Conditionals, j: Tensor, steps: Tensor, like: Tensor) -> Tensor:
    """[S] how often each block was among the steps."""
    return like.new_zeros(q.S).scatter_add(0, j.reshape(-1), steps.reshape(-1).to(like.dtype))


def _where(condition: Tensor, value: Tensor, old: Tensor) -> Tensor:
    """Value where the condition [R], or [R, B], holds, else old; both as the condition or one dimension more."""
    return torch.where(condition if condition.ndim == value.ndim else condition[:, None], value, old)


def uniform(shape: tuple[int, ...], like: Tensor, generator: torch.Generator) -> Tensor:
    """Uniform on (0, 1) in the precision and on the device of `like`, never 0."""
    u = torch.rand(shape, generator=generator, dtype=like.dtype, device=like.device)
    return u.clamp_(min=torch.finfo(like.dtype).tiny)


def normal(shape: tuple[int, ...], like: Tensor, generator: torch.Generator) -> Tensor:
    """Standard normal noise in the precision and on the device of `like`."""
    return torch.randn(shape, generator=generator, dtype=like.dtype, device=like.device)
