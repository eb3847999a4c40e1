"""What the imputing chains of a run have in common: moves of whole rows, and how long the chains run."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Iterable, Mapping
from types import MappingProxyType

import torch
from torch import Tensor

from vgi_cli.conditionals.base import Conditionals
from vgi_cli.maths.joint import JointMixture, LevelTables
from vgi_cli.models.base import Model
from vgi_cli.samplers.base import Box, frozen
from vgi_cli.samplers.lengths import Lengths, Measured
from vgi_cli.samplers.whole import WholeRows, stand_in

Shares = Callable[[Tensor, Tensor, Box], Generator[float]]
"""The share of rows whose two chains are apart, round by round: of rows [n, D] drawn from the model, with holes
[n, D], in a box."""

PAIRS = 128
DRAWN = 2_000
"""Rows drawn from the model, of which the first PAIRS inside the box are taken."""


class Together:
    """Made when it is first needed, of the first of the run's models alone: its refits differ little, and any mixture
    leaves their targets as they are.

    shares  set by `build`: of the chains of the first model
    kept    what `tensors` gave at the end of the fit, empty where nothing was kept
    """

    shares: Shares

    def __init__(self, model: Model, q: Conditionals, kept: Mapping[str, Tensor] = MappingProxyType({})) -> None:
        self._model, self._q, self._kept = model, q, kept
        self._moves: WholeRows | None = None
        self._none = False
        self._lengths: Lengths | None = None
        self._box: Box | None = None

    def moves(self, device: torch.device) -> WholeRows | None:
        """None where no mixture can stand in for the model."""
        if self._moves is None and not self._none:
            mixture = _mixture_of(self._kept) if self._kept else stand_in(self._model, device)
            self._none = mixture is None
            if mixture is not None:
                self._moves = WholeRows(mixture.to(torch.zeros((), dtype=torch.float64, device=device)))
        return self._moves

    def lengths(self, box: Box) -> Lengths:
        """How long chains run whose fills stay in a box."""
        if self._lengths is None or self._box is None or not all(map(torch.equal, box, self._box)):
            self._lengths, self._box = Lengths(lambda holes: self._apart(holes, box), self._q.S), box
            if self._kept and torch.equal(torch.stack(box).double().cpu(), self._kept["box"].cpu()):
                self._lengths.known.update(_lengths_of(self._kept))
        return self._lengths

    def tensors(self, box: Box, holes: Tensor) -> dict[str, Tensor]:
        """What a run keeps, so that it need not be made again: the mixture, and how long chains of rows with `holes`
        run. Empty where no mixture can stand in for the model."""
        with frozen(self._model, self._q):
            moves = self.moves(holes.device)
            if moves is None:
                return {}
            lengths = self.lengths(box)
            lengths.of(holes)
        mixture = moves.mixture
        levels = {} if mixture.levels is None else {"levels": mixture.levels.log_probs}
        if mixture.levels is not None:
            levels["counts"] = torch.tensor(mixture.levels.counts)
        return {
            "log_weights": mixture.log_weights,
            "means": mixture.means,
            "covariances": mixture.covariances,
            "lengths": torch.tensor([list(one) for one in lengths.known.values()], dtype=torch.float64),
            "box": torch.stack(box).double(),
            **levels,
        }

    def _apart(self, holes: int, box: Box) -> Iterable[float]:
        """The share of pairs apart, round by round, with `holes` random blocks missing; 1 where the model gives too few
        rows inside the box."""
        device = box.low.device
        generator = torch.Generator(device).manual_seed(1)
        with frozen(self._model):
            rows = self._model.sample(DRAWN, generator).to(box.low)
        rows = rows[(box.contains(rows) & torch.isfinite(rows)).all(1)][:PAIRS]
        if len(rows) < PAIRS:
            return itertools.repeat(1.0)
        order = torch.rand(PAIRS, self._q.S, generator=generator, device=device).argsort(1).argsort(1)
        return self.shares(rows, (order < holes)[:, self._q.block_of], box)

    def summary(self) -> dict[str, object]:
        """For the report (see Lengths)."""
        return {} if self._lengths is None else self._lengths.summary()


def _mixture_of(kept: Mapping[str, Tensor]) -> JointMixture:
    levels = LevelTables(kept["counts"].tolist(), kept["levels"]) if "levels" in kept else None
    return JointMixture(kept["log_weights"], kept["means"], kept["covariances"], levels)


def _lengths_of(kept: Mapping[str, Tensor]) -> dict[int, Measured]:
    lines = kept["lengths"].tolist()
    return {int(holes): Measured(int(holes), int(rounds), int(cells), apart) for holes, rounds, cells, apart in lines}
