"""Abstract imputers: draws of the missing cells given the observed ones."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from vgi_cli.conditionals.base import Conditionals
from vgi_cli.data import Rounding
from vgi_cli.layout import Layout
from vgi_cli.maths.noise import KeyedNoise
from vgi_cli.maths.trees import Tree
from vgi_cli.models.base import Model

ROW_BLOCK = 256
"""Rows are imputed in zero-padded blocks of this size or multiples of it: rounding cannot depend on the batch."""


class Box(NamedTuple):
    """Range of admissible fills in encoded space: low [D], high [D] (infinite where unbounded)."""

    low: Tensor
    high: Tensor

    def contains(self, x: Tensor) -> Tensor:
        """Which cells lie inside: [.., D] bool."""
        return (x >= self.low) & (x <= self.high)


class SamplerInput(NamedTuple):
    """What a sampler is built from, on the device where it draws: `build(fitted) -> Imputer`.

    models        the fitted model in the precision of the sampler; its bootstrap refits, where the sampler takes them
    layout        which encoded dimensions are which column
    conditionals  the fitted conditionals; None: the run has none, or the sampler needs neither these nor imputations
    held          the imputations that the run stores: lines [C, K] by format, keys [N], missing [N, D], and values to
                  start chains from, start [Q, d]; empty: the same
    single        whether these are one imputation, the same in every run
    trees         of each model the trees that revise its cells, one a dimension, None where it has none (trees.py);
                  empty: no model has any
    capture       makes a step of a chain, a function of tensors, faster; None: nothing does
    chains        what the run keeps of how its imputing chains move (together.py); empty where it keeps nothing
    rounding      what cells of rounded columns stand for, where the models were fitted to cells drawn within that
    others        whether another sampler can draw for the run
    idle          of completed rows [.., D] which cells [.., D] hold nothing, so that they may lie outside the box;
                  None: no cell is such
    """

    models: Sequence[Model]
    layout: Layout
    conditionals: Conditionals | None = None
    held: Mapping[str, Tensor] = {}
    single: bool = False
    trees: Sequence[Sequence[Tree | None]] = ()
    capture: Callable[[Any], Any] | None = None
    chains: Mapping[str, Tensor] = {}
    rounding: Rounding | None = None
    others: bool = True
    idle: Callable[[Tensor], Tensor] | None = None


def unwatched(share: float) -> None:
    """Where nobody watches a sampler."""


class Imputer(ABC):
    """Draws from some p(x_mis | x_obs), restricted to a box."""

    parallel: bool = False
    """Whether a draw of a row is the same whatever else was drawn before it or beside it, and `counts` and `peaks` are
    all that draws leave behind, once `prepare` was called: then several processes may make them."""
    watch: Callable[[float], None] = staticmethod(unwatched)
    """Told on the way which share of a call of `sample` is done, by samplers that take long; what it raises ends it."""

    @abstractmethod
    def sample(self, x: Tensor, missing: Tensor, noise: KeyedNoise, box: Box) -> Tensor:
        """[n, R, D] with n = len(noise.draws): observed cells bit-equal to x, missing cells inside the box.

        Called by `impute` with a multiple of ROW_BLOCK rows, at most `rows_at_once`, the last ones zero-padding.
        """

    def prepare(self, missing: Tensor, noise: KeyedNoise, box: Box) -> None:  # noqa: B027 - most have nothing to make
        """Make what the draws of rows with holes missing [R, D] have in common, where it is not there yet."""

    def apart(self, draws: Tensor) -> list[Tensor]:
        """The places of draws [n] in groups, each of which may be made without the others: what is said of draws may
        compare those of a group."""
        return list(torch.arange(len(draws)).split(1))

    def require(self, keys: Tensor, missing: Tensor, m: int) -> None:  # noqa: B027 - most can draw for any rows
        """UsageError or InputError where it cannot make so many draws of rows [R] with these keys and holes [R, D],
        before any is made."""

    def rows_at_once(self, draws: int, x: Tensor) -> int:
        """How many rows like x [.., D] `sample` wants to see together: a multiple of ROW_BLOCK. The result does not
        depend on it."""
        return ROW_BLOCK

    def level_probabilities(self, x: Tensor, j: int, draw: int) -> Tensor | None:
        """[R, levels]: the law of the discrete dimension j of completed rows x [R, D] given their other cells, by which
        this sampler makes its draw of that number; None: it cannot tell."""
        return None

    def counts(self) -> list[Tensor]:
        """What `diagnostics` are made of, where it is `parallel`: tensors that grow in place with every draw, by the
        same whoever makes it, whole numbers or such that their sum is the same in any order."""
        return []

    def peaks(self) -> list[Tensor]:
        """What else they are made of: tensors that hold, in place, the largest of what the draws so far gave, none of
        it below 0."""
        return []

    def diagnostics(self) -> dict[str, object]:
        """What the report says about the draws so far (redrawn cells, acceptance, mixing); empty when nothing."""
        return {}


def impute(imputer: Imputer, x: Tensor, missing: Tensor, noise: KeyedNoise, box: Box) -> Tensor:
    """[n, R, D]: all rows, zero-padded to a multiple of ROW_BLOCK rows (padding rows are fully observed zeros)."""
    out = []
    most = imputer.rows_at_once(len(noise.draws), x)
    for start in range(0, x.shape[0], most):
        stop = min(start + most, x.shape[0])
        pad = -(stop - start) % ROW_BLOCK
        block = torch.nn.functional.pad(x[start:stop], (0, 0, 0, pad))
        holes = torch.nn.functional.pad(missing[start:stop], (0, 0, 0, pad), value=False)
        index = torch.arange(start, stop + pad, device=noise.rows.device).clamp(max=stop - 1)
        draws = imputer.sample(block, holes, noise.select(rows=index), box)
        out.append(draws[:, : stop - start])
    return torch.cat(out, 1) if out else x.new_zeros(len(noise.draws), 0, x.shape[1])


class Counted(NamedTuple):
    """What an imputer drew, and the counts and peaks of these draws alone."""

    drawn: Tensor
    counts: list[Tensor]
    peaks: list[Tensor]


def counted(imputer: Imputer, draw: Callable[[], Tensor]) -> Counted:
    """What an imputer draws, for `add_counts`: its own counts and peaks are left as they were, in whichever process
    that is."""
    held = [*imputer.counts(), *imputer.peaks()]
    before = [one.clone() for one in held]
    for one in held:
        one.zero_()
    found = Counted(draw(), *([one.clone() for one in own] for own in (imputer.counts(), imputer.peaks())))
    for one, then in zip(held, before, strict=True):
        one.copy_(then)
    return found


def add_counts(imputer: Imputer, found: Counted) -> None:
    """Let the counts and peaks of an imputer be those of further draws too, which were `counted`."""
    for own, other in zip(imputer.counts(), found.counts, strict=True):
        own += other
    for own, other in zip(imputer.peaks(), found.peaks, strict=True):
        torch.maximum(own, other, out=own)


@torch.no_grad()
def enumerated(model: Model, x: Tensor, j: int) -> Tensor:
    """[R, levels]: the law of the discrete dimension j of completed rows x [R, D] given their other cells, from the
    model's density at every level."""
    levels = torch.arange(model.level_counts[j], dtype=x.dtype, device=x.device)
    rows = x.expand(len(levels), *x.shape).clone()
    rows[..., j] = levels[:, None]
    return model.log_prob(rows).double().softmax(0).mT


@contextmanager
def frozen(*modules: nn.Module | None) -> Iterator[None]:
    """Inside, the modules are in evaluation mode and nothing records gradients."""
    present = [module for module in modules if module is not None]
    modes = [module.training for module in present]
    try:
        for module in present:
            module.eval()
        with torch.no_grad():
            yield
    finally:
        for module, mode in zip(present, modes, strict=True):
            module.train(mode)
