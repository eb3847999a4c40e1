"""K Gaussians of D columns under masks: what a mixture is made of, whatever the form of the covariances."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple, Self

import torch
from torch import Tensor, nn

from vgi_cli.maths.gaussian import LOG_2PI
from vgi_cli.maths.noise import KeyedNoise, numbered
from vgi_cli.models.gaussian.incomplete import Incomplete

MEMORY = 2**24
"""How many numbers (not bytes) the systems of a batch of rows may hold, unless `within` says fewer."""
FITTED_TWICE = 2
"""A fit takes as many degrees of freedom from the noise of n cells as it has coefficients, and a bootstrap refit as
many again: its weights have a mean of 1 and a variance of 1, so that its cells are worth n / 2."""
MOST_LOST = 0.7
"""Share of a noise variance that is taken for lost at most."""
_ALLOWED: ContextVar[int] = ContextVar("numbers", default=MEMORY)


def allowed() -> int:
    """How many they may hold now."""
    return _ALLOWED.get()


@contextmanager
def within(numbers: int) -> Iterator[None]:
    """In this context the systems hold so many numbers at most: sums over rows are then taken in more pieces, so that
    their last digits may differ."""
    token = _ALLOWED.set(min(MEMORY, max(numbers, 1)))
    try:
        yield
    finally:
        _ALLOWED.reset(token)


class Penalty(NamedTuple):
    """How the likelihood is kept bounded and small components in check (written out in `methods/em/em.py`).

    floor    lambda: a sum of squares, in units of the column's variance, added to that of every component
    pooling  nu: pseudo-rows with which each component's covariance is pulled to the common one
    common   tau: pseudo-rows with which the common covariance is pulled to the columns' variances
    mean     kappa: pseudo-rows, as wide as the columns are, with which each component's mean is pulled to their means
    weight   alpha: pseudo-rows added to each component, or [K] to each its own
    tables   beta: pseudo-rows with which each row of a component's tables of levels is pulled to that of all rows
    shift    eta: pseudo-rows with which each coefficient of a linear shift is pulled to 0
    """

    floor: float
    pooling: float
    common: float
    mean: float
    weight: float | Tensor
    tables: float = 0.0
    shift: float = 0.0


class Scale(NamedTuple):
    """Mean and variance [D] of the observed cells of each column, the units of the penalties, and the number of rows
    that they come from."""

    mean: Tensor
    variance: Tensor
    rows: int


class Footprint(NamedTuple):
    """Numbers that are held.

    pattern  for one pattern of holes
    row      for one row; of a row with holes in some dimensions so many `times` [D] as many
    beside   for one row whatever its holes
    """

    pattern: int
    row: int
    times: Tensor | None = None
    beside: int = 0

    @property
    def most(self) -> float:
        """Numbers that are held for a row without any observed cell: no other holds more."""
        return self.beside + self.row * (1.0 if self.times is None else float(self.times.prod()))

    def rows(self, missing: Tensor) -> Tensor:
        """[U] numbers that are held for a row of each of some patterns [U, D]."""
        each = torch.full((len(missing),), float(self.row), dtype=torch.float64, device=missing.device)
        return self.beside + (each if self.times is None else each * expansions(missing, self.times))


class Moments(NamedTuple):
    """Means [K, D] and covariances [K, D, D]; loadings: F [K, D, L] and psi [K, D] where the family holds a covariance
    as F F' + diag(psi)."""

    mean: Tensor
    covariance: Tensor
    loadings: tuple[Tensor, Tensor] | None


class ShiftSystem(NamedTuple):
    """What the expected complete rows say of J shifts of all means at once: as a function of the change t [J, D] of the
    shifts, their log-likelihood is, up to a constant, sum_j t_j' right_j - 1/2 t_j' curve_j t_j.

    curve  [J, D, D], or its diagonals [J, D] where it is diagonal
    right  [J, D]
    """

    curve: Tensor
    right: Tensor

    def plus(self, other: ShiftSystem) -> ShiftSystem:
        """What these rows and those of another system say together."""
        return ShiftSystem(self.curve + other.curve, self.right + other.right)


class Observed(ABC):
    """R rows seen through their holes by each of K Gaussians."""

    log_prob: Tensor  # [R, K] log p(x_obs | component)

    @abstractmethod
    def mean(self, k: int) -> Tensor:
        """[R, D] the mean of the missing cells given the observed ones under component k; observed cells as given."""

    @abstractmethod
    def draw(self, k: int, columns: Tensor, factors: Tensor) -> Tensor:
        """[R, D] a draw of the missing cells under component k, from noise [R, D] and [R, L]."""

    def centre(self, weights: Tensor) -> Tensor:
        """[R, D] the mean of the missing cells given the observed ones under weights [R, K] of the components; of a
        level the likeliest one."""
        total = (weight[:, None] * self.mean(k) for k, weight in enumerate(weights.unbind(-1)))
        return sum(total, torch.zeros_like(self.mean(0)))

    def draw_each(self, component: Tensor, columns: Tensor, factors: Tensor, rows: Tensor | None = None) -> Tensor:
        """[n, D] a draw of the missing cells of some rows [n], distinct ones (None: of all), each under a component [n]
        of its own, from noise [n, D] and [n, L]."""
        if rows is not None:
            R = len(self.log_prob)
            whole = (part.new_zeros(R, *part.shape[1:]).index_copy(0, rows, part) for part in (columns, factors))
            return self.draw_each(component.new_zeros(R).index_copy(0, rows, component), *whole)[rows]
        filled = torch.zeros_like(columns)
        for k in range(self.log_prob.shape[-1]):
            filled = torch.where((component == k)[:, None], self.draw(k, columns, factors), filled)
        return filled

    def level_laws(self, weights: Tensor) -> list[Tensor]:
        """The law of the level of each discrete dimension [R, levels] under weights [R, K] of the components."""
        return []

    @abstractmethod
    def statistics(self, responsibility: Tensor) -> tuple[Tensor, ...]:
        """The expected sufficient statistics, summed over rows, under weighted responsibilities [R, K]."""

    @abstractmethod
    def shift_statistics(self, responsibility: Tensor, place: Tensor, J: int) -> Tensor:
        """[K, J, ..] what `Gaussians.shift_system` needs of rows of which each is in one of J places [R], summed over
        rows of weighted responsibilities [R, K]."""


class Gaussians(nn.Module, ABC):
    """K Gaussians; families of covariances are final."""

    K: int  # components whose means and covariances are learnt, the first of all
    L: int  # factors
    diagonal: bool  # whether the covariances are
    floor: float  # the variance floor where nobody says one

    @abstractmethod
    def means(self) -> Tensor:
        """[K, D]."""

    @abstractmethod
    def log_prob(self, x: Tensor) -> Tensor:
        """Complete rows: [R, D] -> [R, K], with gradients."""

    @abstractmethod
    def observe(self, rows: Incomplete, *, fixed: bool = False) -> Observed:
        """Rows seen through their holes; `log_prob` has gradients. `fixed`: these Gaussians hardly ever change while
        the rows are looked at, so that what they make of the holes is worth keeping."""

    @property
    def computable(self) -> bool:
        """Whether float64 holds densities under these covariances: of an extrapolation that runs away it does not."""
        return True

    @property
    def independent(self) -> bool:
        """Whether no column moves any other, whatever the parameters."""
        return self.means().shape[1] == 1 or (self.K == 1 and self.diagonal)

    @abstractmethod
    def work(self, missing: Tensor | None = None) -> float:
        """Multiplications of an EM step on one row, roughly: the system of every component; on average over rows with
        these holes [N, D], where they are known."""

    def cells(self, missing: Tensor | None = None) -> int:
        """Numbers that all components say of a row, on average as `work`."""
        return self.means().numel()

    @abstractmethod
    def footprint(self) -> Footprint:
        """How much `observe` and the statistics of an EM step hold at a time."""

    @abstractmethod
    def log_penalty(self, scale: Scale, penalty: Penalty) -> Tensor:
        """The penalty on means and covariances, profiled over what the components have in common; nats."""

    @abstractmethod
    def maximise(self, statistics: tuple[Tensor, ...], scale: Scale, penalty: Penalty) -> None:
        """The M-step, in place: raise expected log-likelihood plus `log_penalty`."""

    @abstractmethod
    def shift_system(self, statistics: Tensor) -> ShiftSystem:
        """What rows of these `shift_statistics` say of a shift by place, under the parameters as they are now."""

    @abstractmethod
    def set_moments(self, mean: Tensor, covariance: Tensor) -> None:
        """Take means [K, D] and covariances [K, D, D], or one of all [1, D, D], projected onto the family, in
        place."""

    @abstractmethod
    def stretch(self, times: Tensor) -> None:
        """Multiply the standard deviations of the columns [D], in place; correlations stay."""

    def separate(self, pairs: Tensor) -> None:
        """Let columns that are observed in no row together, pairs [n, 2], be independent given all others, in place,
        where the family has a covariance for each pair; others stay (`maths/selection.py`)."""

    def restore_noise(self, missing: Tensor) -> None:
        """Take back, in place, what a bootstrap refit to rows with these holes [N, columns] has lost of the noise to
        what it fitted to it, where no prior does that."""

    def shrink_to(self, other: Self, share: float) -> None:
        """Keep a share (0 to 1) of what sets each parameter apart from that of another set of the same size, in place:
        parameters are unconstrained, so that all between are parameters too."""
        for mine, others in zip(self.parameters(), other.parameters(), strict=True):
            mine.copy_(torch.lerp(others, mine, share))

    @abstractmethod
    def moments(self) -> Moments:
        """The parameters in dense form."""

    @abstractmethod
    def precision(self) -> tuple[Tensor, Tensor]:
        """Dense precisions [K, D, D] and log determinants [K] of the covariances."""

    @abstractmethod
    def sample(self, component: Tensor, generator: torch.Generator | None) -> Tensor:
        """One row [n, D] of each named component [n]."""

    @abstractmethod
    def free_parameters(self) -> int:
        """Number of free parameters of all K means and covariances (rotations of factors are not free)."""


def expansions(missing: Tensor, times: Tensor) -> Tensor:
    """[R] in how many combinations of levels rows with holes [R, D] count, where a hole in a dimension has as many as
    `times` [D] says."""
    return torch.where(missing, times.to(torch.float64), 1.0).prod(1)


def normal_log_prob(square: Tensor, logdet: Tensor, D: int | Tensor) -> Tensor:
    """log N of D cells from the quadratic form and the log determinant of the covariance."""
    return -0.5 * (square + logdet + D * LOG_2PI)


def inverse_of(matrix: Tensor) -> Tensor:
    """[.., D, D] of positive definite ones."""
    return torch.cholesky_inverse(torch.linalg.cholesky(matrix))


def by_component(factors: Tensor, z: Tensor, component: Tensor) -> Tensor:
    """[n, D] factors[component] @ z of rows z [n, L], one component after the other: factors [K, D, L] gathered by row
    would be a matrix a row."""
    out = z.new_zeros(len(z), factors.shape[1])
    for k, factor in enumerate(factors):
        own = (component == k).nonzero()[:, 0]
        out = out.index_add(0, own, z[own] @ factor.mT)
    return out


def draw_noise(noise: KeyedNoise, L: int) -> tuple[Tensor, Tensor]:
    """The noise of `Observed.draw` for n draws of R rows: by column [n, R, D], and in another stream (a column may have
    any name) by factor [n, R, L]."""
    columns = noise.normal()
    return columns, noise.at("factors").normal(numbered("factor", L)) if L else columns[..., :0]
