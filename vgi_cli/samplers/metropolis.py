"""Draws from the model by Metropolis-within-Gibbs, with the fitted conditionals as proposals.

The paper itself advises to impute from p, not from q. Whatever q is, the chain targets p(x_mis | x_obs), restricted to
the box: proposals outside are rejected.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Generator
from typing import Any, NamedTuple, final

import torch
from torch import Tensor

from vgi_cli.chains.moves import Jump, OfRows, State, StepNoise, Weighed, metropolis_step
from vgi_cli.chains.scans import random_scan
from vgi_cli.conditionals.base import Conditionals, Sweep
from vgi_cli.errors import FitError, UsageError
from vgi_cli.maths.noise import KeyedNoise, mix64, numbered
from vgi_cli.models.base import Model
from vgi_cli.samplers.base import Box, Imputer, SamplerInput, enumerated, frozen
from vgi_cli.samplers.lengths import rest_of
from vgi_cli.samplers.mixing import Mixing, Record
from vgi_cli.samplers.packing import (
    ImputingChains,
    Pack,
    PackedImputer,
    cell_noise,
    chains_of,
    pack_of,
    pack_size,
    padded,
)
from vgi_cli.samplers.starts import Start, start_of
from vgi_cli.samplers.together import Together
from vgi_cli.samplers.turns import in_turn
from vgi_cli.samplers.whole import Given, WholeNoise, WholeRows, Wholly, whole_noise

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


class Position(NamedTuple):
    """PACK chains in a round: x [PACK, D], log_p [PACK], and which blocks were accepted in this round [PACK, S]."""

    x: Tensor
    log_p: Tensor
    accepted: Tensor


MetropolisStep = Callable[..., Position]
"""A step of PACK chains, a function of tensors: Position, missing, box [2, D], the block j, which chains move, the
normals and the uniforms; gives the Position anew."""

WholeStep = Callable[..., Wholly]
"""A move of whole rows of PACK chains, a function of tensors: see `WholeRows.move`."""


class _State(NamedTuple):
    """Q chains between two packs: x [Q, D], log_p [Q], and what they record: of cells, and whole [2, Q] the independent
    proposals of whole rows so far, and those that were accepted; all changed in place."""

    x: Tensor
    log_p: Tensor
    record: Record
    whole: Tensor


class _Span(NamedTuple):
    """From which round to which each chain runs, and how many cells a round redraws singly: [Q] each."""

    begin: Tensor
    end: Tensor
    cells: Tensor


@final
class MetropolisImputer(PackedImputer):
    """One chain per draw and row, never successive states of one; the last state of each is the draw.

    Without `together` a round is a sweep of single-cell moves over all holes, and `BurnIn` says how many there are.
    With it a round is some single cells and the moves of `whole.py`, and their number is measured (`lengths.py`).
    """

    def __init__(
        self,
        model: Model,
        conditionals: Conditionals,
        start: Start,
        burn_in: BurnIn | None = None,
        capture: Callable[[Any], Any] | None = None,
        together: Together | None = None,
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
        self._start = start
        self._burn_in = burn_in or BurnIn()
        self._together = together
        self._moves: WholeRows | None = None
        self._step: MetropolisStep = self._plain_step if capture is None else capture(self._plain_step)
        self._whole_step: WholeStep = self._plain_whole if capture is None else capture(self._plain_whole)
        self._mixing = Mixing(len(conditionals.block_of))
        self._whole = torch.zeros(2, dtype=torch.float64)  # independent proposals of whole rows, accepted ones
        self._outside = torch.zeros((), dtype=torch.int64)  # on the device: it must not wait

    def prepare(self, missing: Tensor, noise: KeyedNoise, box: Box) -> None:
        """How long the chains run is measured, where that is not known yet."""
        super().prepare(missing, noise, box)
        self._outside = self._outside.to(missing.device)  # before the first step: a captured one keeps its place
        if not bool(missing.any()):
            return
        with frozen(self._model, self._q):
            self._moves = None if self._together is None else self._together.moves(missing.device)
            if self._moves is not None and self._together is not None:
                holes = self._q.blocks(missing).sum(1)
                self._together.lengths(box).of(holes[holes > 0])

    def sample(self, x: Tensor, missing: Tensor, noise: KeyedNoise, box: Box) -> Tensor:
        """FitError when the model's density is not a positive number at any state that a chain visits.

        All chains run their first half; then they are sorted anew by the length of their rest, so that one chain that
        is extended does not keep the others of its pack waiting.
        """
        box = Box(box.low.to(x), box.high.to(x))
        self.prepare(missing, noise, box)
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

    def _run(self, chains: ImputingChains, box: Box) -> tuple[Tensor, Tensor]:
        """States [Q, D] of the chains after their first half and at their end."""
        sides = torch.stack(box)
        holes = self._q.blocks(chains.missing).sum(1)
        lengths = None if self._moves is None or self._together is None else self._together.lengths(box)
        if lengths is None:
            first, cells = self._burn_in.first(chains.missing.sum(1)), holes
        else:
            rounds, cells = lengths.of(holes)
            first = -(-rounds // 2)
        zeros = chains.x.new_zeros(len(first))
        state = _State(chains.x.clone(), zeros, Record(chains.missing), torch.stack([zeros, zeros]))
        by_holes = torch.arange(len(first), device=first.device)
        for index in by_holes.split(pack_size(state.x)):
            pack = pack_of(chains, state.x, index)
            state.log_p[index] = self._log_p(pack.x, pack.missing)[: pack.real]
        advance = functools.partial(self._advance, chains, state, sides)
        advance(by_holes, _Span(torch.zeros_like(first), first, cells), 0.0)
        halfway = state.x.clone()
        if lengths is None:
            last = first + self._burn_in.rest(first, state.record.acceptance())
        else:
            last = first + rest_of(first, state.whole[1] / state.whole[0])
        by_first = first.argsort(stable=True)
        by_length = by_first[last[by_first].argsort(stable=True)]
        advance(by_length, _Span(first, last, cells), 0.5)
        if bool(torch.isneginf(state.log_p).any()):
            raise FitError(
                "the model gives no density at an imputed row after burn-in (log p is not finite)",
                "the fit has diverged or the row is far outside the fitted data; fit again, or use --sampler gibbs",
            )
        self._mixing.add(state.record, last, last > 2 * first)
        self._whole += state.whole.double().sum(1).cpu()
        return halfway, state.x

    def shares_apart(self, true: Tensor, missing: Tensor, box: Box) -> Generator[float]:
        """The share of rows, after each round, in which a chain that started at the row true [n, D] (drawn from the
        model, so that its hidden cells are a draw from the target) and one that started where imputing chains do are
        apart. Both have the same randomness."""
        keys = mix64(torch.arange(len(true), device=true.device))
        noise = KeyedNoise(
            0, numbered("x", true.shape[1]), keys, torch.zeros(1, dtype=torch.int64, device=true.device), "lengths"
        )
        start = self._start.states(true.masked_fill(missing, 0.0), missing, noise, box)[0]
        row = torch.arange(len(true), device=true.device).repeat(2)
        twice = noise.select(rows=row)
        pack = Pack(torch.cat([true, start]), torch.cat([missing, missing]), twice, 2 * len(true), row)
        log_p, sides, one = self._log_p(pack.x, pack.missing), torch.stack(box), torch.ones_like(keys).repeat(2)
        record, whole = Record(pack.missing), pack.x.new_zeros(2, 2 * len(true))
        self._moves = None if self._together is None else self._together.moves(true.device)
        self._outside = self._outside.to(true.device)
        outside, given = self._outside.clone(), self._given(pack)
        try:
            for number in itertools.count():
                span = _Span(number * one, (number + 1) * one, one)
                x, log_p = self._rounds(pack, log_p, (record, whole), sides, span, (0.0, 0.0), given)
                pack = pack._replace(x=x)
                yield float((x[: len(true)] != x[len(true) :]).any(1).double().mean())
        finally:
            self._outside.copy_(outside)  # those of the draws are counted

    def _log_p(self, x: Tensor, missing: Tensor) -> Tensor:
        """log p [R], minus infinity where the model returns no number."""
        return self._model.log_prob(x).nan_to_num(nan=-torch.inf, posinf=-torch.inf)

    def _plain_step(
        self, at: Position, missing: Tensor, box: Tensor, j: Tensor, moving: Tensor, noise: Tensor, log_uniform: Tensor
    ) -> Position:
        mine = self._q.noise_width
        normal, jump = noise[:, :mine], self._jump(noise[:, mine:], missing, j)
        state = State(Sweep(self._q, at.x.clone(), missing), Weighed(at.log_p))  # rows that keep nothing between steps
        drawn = StepNoise(normal, log_uniform, normal[:, :0])
        state, done = metropolis_step(drawn, state, OfRows(self._log_p), j, moving, box=box, jump=jump)
        self._outside += (moving & ~done.inside).sum()
        own = done.accepted[:, None] | at.accepted.gather(1, j[:, None])
        return Position(state.rows.x, state.at.log_p, at.accepted.scatter(1, j[:, None], own))

    def _jump(self, noise: Tensor, missing: Tensor, j: Tensor) -> Jump:
        """With probability WALK_SHARE a step of a symmetric random walk of a scale between WALK_SCALES, uniform in the
        logarithm, in the place of a draw of q_j: where p/q is large and those are all but never accepted (light tails),
        the walk still moves. Encoded columns have a standard deviation near 1. Levels stay as they are; a block in
        which nothing else is missing never walks."""
        choice, place = torch.special.ndtr(noise[:, 0]), torch.special.ndtr(noise[:, 1])
        low, high = WALK_SCALES
        size = (low * (high / low) ** place)[:, None] * noise[:, 2:]
        chosen, q = choice < WALK_SHARE, self._q
        if q.mixed:
            numbers = ~q.discrete[q.members[j]]  # [PACK, W]
            size = torch.where(numbers, size, 0.0)
            chosen = chosen & (numbers & q.real[j] & missing.gather(1, q.members[j])).any(1)
        return Jump(chosen, size[:, 0] if q.flat else size)

    def _noise_of(self, cells: Tensor) -> Tensor:
        """[PACK, noise] of a block in each chain from noise that is keyed by cell, [PACK, W, width] of its members:
        that of q; the choice and the scale of the walk, of the first member; its step in each."""
        own = self._q.cell_width
        return torch.cat([self._q.noise_of(cells[..., :own]), cells[:, 0, own : own + 2], cells[..., own + 2]], 1)

    def _plain_whole(
        self, x: Tensor, log_p: Tensor, missing: Tensor, box: Tensor, given: Given, moving: Tensor, noise: WholeNoise
    ) -> Wholly:
        assert self._moves is not None
        return self._moves.move(self._log_p, (x, log_p), missing, box, given, moving, noise)

    def _advance(
        self, chains: ImputingChains, state: _State, box: Tensor, order: Tensor, span: _Span, share: float
    ) -> None:
        """Run every chain along its `span`, pack by pack in this order, and put the states back. This is half of the
        work, of which `share` was done before."""
        work = span.end - span.begin
        done, whole = 0, max(int(work.sum()), 1)
        size = pack_size(state.x)
        for index in order.split(size):
            own = int(work[index].sum())
            part = share + 0.5 * done / whole, 0.5 * own / whole
            done += own
            pack = pack_of(chains, state.x, index)
            record = Record(pack.missing, torch.stack([padded(count, size) for count in state.record.counts[:, index]]))
            moves = torch.stack([padded(count, size) for count in state.whole[:, index]])
            x, log_p = self._rounds(
                pack,
                padded(state.log_p[index], size),
                (record, moves),
                box,
                _Span(*(padded(values[index], size) for values in span)),
                part,
                self._given(pack),
            )
            state.x[index] = x[: pack.real]
            state.log_p[index] = log_p[: pack.real]
            state.record.counts[:, index] = record.counts[:, : pack.real]
            state.whole[:, index] = moves[:, : pack.real]

    def _given(self, pack: Pack) -> Given | None:
        """What the moves of whole rows need of the observed cells of a pack; None where there are no such moves."""
        return None if self._moves is None else self._moves.given(pack.x, pack.missing, pack.row)

    def _rounds(
        self,
        pack: Pack,
        log_p: Tensor,
        records: tuple[Record, Tensor],
        box: Tensor,
        span: _Span,
        part: tuple[float, float],
        given: Given | None,
    ) -> tuple[Tensor, Tensor]:
        """States [PACK, D] and log densities [PACK] of the chains of one pack after their rounds; records: of cells,
        and of whole rows [2, PACK]; `part`: the share of the work that was done before, and the one that this is;
        given: see `_given`."""
        x, missing = pack.x, pack.missing
        record, whole = records
        allowed = self._q.blocks(missing)
        steps = min(int(span.cells.max()), allowed.shape[1])
        first = self._q.members[:, 0]
        least, most = int(span.begin[: pack.real].min()), int(span.end.max())
        for number in range(least, most):
            self.watch(part[0] + part[1] * (number - least) / (most - least))
            active = (span.begin <= number) & (number < span.end)
            noise = cell_noise(pack.noise, number, x.dtype)
            scan = random_scan(allowed, noise.order()[:, first], steps)
            cells = noise.normal(self._q.members[scan.j], self._q.cell_width + 3)
            accept = noise.accept(first[scan.j])
            at, tried = Position(x, log_p, torch.zeros_like(allowed)), torch.zeros_like(allowed)
            for g in range(steps):
                j, moving = scan.j[:, g], scan.active[:, g] & active & (g < span.cells)
                at = self._step(at, missing, box, j, moving, self._noise_of(cells[:, g]), accept[:, g])
                tried = tried.scatter(1, j[:, None], moving[:, None] | tried.gather(1, j[:, None]))
            x, log_p = at.x, at.log_p
            visited, accepted = (blocks[:, self._q.block_of] & missing for blocks in (tried, at.accepted))
            record.sweep(visited, accepted)
            if given is not None:
                for own in whole_noise(pack.noise.at(number), x):
                    x, log_p, accepted = self._whole_step(x, log_p, missing, box, given, active, own)
                    whole += own.fresh * torch.stack([active, accepted])
        return x, log_p

    def counts(self) -> list[Tensor]:
        return [*self._mixing.counts, self._whole, self._outside]

    def peaks(self) -> list[Tensor]:
        return [self._mixing.peak]

    def level_probabilities(self, x: Tensor, j: int, draw: int) -> Tensor:
        with frozen(self._model):
            return enumerated(self._model, x, j)

    def diagnostics(self) -> dict[str, object]:
        """Chains, mean sweeps, share of extended chains, acceptance (all, by column), longest run of rejections,
        memory (see Mixing) and single-cell proposals outside the box. With moves of whole rows, rounds in the place of
        sweeps, the share of their independent proposals that was accepted, and what was measured (see Lengths)."""
        summary = self._mixing.summary(self.columns)
        if not summary:
            return {}
        found: dict[str, object] = {}
        if self._moves is not None and self._together is not None:
            proposed, accepted = self._whole.tolist()
            found = {"rounds": summary.pop("sweeps"), "whole_rows": accepted / proposed, **self._together.summary()}
        return {**summary, "outside_range": int(self._outside), **found}


def joined(fitted: SamplerInput) -> tuple[list[MetropolisImputer], Together]:
    """An imputer for each model, with the proposals of the fit, and what they have in common."""
    q, start = fitted.conditionals, start_of(fitted)
    assert q is not None
    together = Together(fitted.models[0], q, fitted.chains)
    capture = fitted.capture
    imputers = [MetropolisImputer(model, q, start, capture=capture, together=together) for model in fitted.models]
    together.shares = imputers[0].shares_apart
    return imputers, together


def build(fitted: SamplerInput) -> Imputer:
    """The sampler `metropolis`; refits take turns."""
    return in_turn(joined(fitted)[0])
