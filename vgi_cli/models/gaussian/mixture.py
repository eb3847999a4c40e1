"""A finite mixture of Gaussians with full or factor-analytic covariances; in mixed rows each Gaussian times a forest of
the levels, which may shift it."""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, Self

import torch
from torch import Tensor, nn

from vgi_cli.layout import Layout
from vgi_cli.maths.selection import never_together, pairs_apart, seen_together
from vgi_cli.models.base import ModelConfig
from vgi_cli.models.gaussian.factors import FactorGaussians, factor_counts
from vgi_cli.models.gaussian.family import (
    CellLaws,
    Combinations,
    EmTable,
    FilledRows,
    GaussianFamily,
    NumbersGiven,
    in_double,
)
from vgi_cli.models.gaussian.full import FullGaussians
from vgi_cli.models.gaussian.gaussians import Gaussians, Penalty
from vgi_cli.models.gaussian.mixed import Mixed, MixedCellLaws
from vgi_cli.models.gaussian.shift_choice import SHIFT
from vgi_cli.models.gaussian.shifted import Shifted, ShiftedCellLaws
from vgi_cli.models.gaussian.shrunk import ShrinkTo, ShrunkGaussians
from vgi_cli.models.gaussian.widened import MIXED_ROWS, MIXED_SCALES, ROWS, SCALES, UNLIKE, Widened
from vgi_cli.ranges import Components, Factors, PseudoRows

RIDGE = 1.0
"""Pseudo-observations of 0 for each loading of a factor-analytic component."""
MEANS, MEAN = 0.25, 0.01
"""Pseudo-rows with which the mean of each component is pulled to those of the columns, and that of one alone."""
TABLES = 0.5
"""Pseudo-rows with which each row of a component's tables of levels is pulled to that of all rows."""
POOLED, POOLED_LEVELS = 2.0, (2.0, 0.5)
"""Pseudo-rows for each column of numbers, and two more, by which each covariance is pulled to the common one; among
which held-out rows choose where the components are the levels of a column."""
IN_LEVELS = (1, 2, 3)
"""Components of each level among which held-out rows choose, where a column of levels says of which a row is."""
SHRINKAGES = (16.0, 4.0, 1.0, 0.25)
"""Pseudo-rows for each column of numbers by which covariances may be shrunk, where nobody says how many: in tables of
so few rows that it matters the first are mostly best."""
FULL_UP_TO = 40
"""Columns up to which covariances are full unless told otherwise."""


class MixtureConfig(ModelConfig):
    """Settings of a mixture; what is none is chosen by the method (see methods/sizing).

    components  number K of Gaussians; with `by`, of those of each level
    by          a column of levels of which each component has one, with its own mean and covariance, so that slopes of
                numbers may differ between its levels; none: components are clusters of rows, whatever their levels
    covariance  `full`, or `factor`: F F' + diag(psi), cheaper in many columns; none: full up to 40 columns where no
                number of factors is given
    factors     number L of factors of each component (`factor` only)
    outliers    whether two broad components of fixed shape (in mixed rows one) stand beside them, for rows unlike all
                others (models/gaussian/widened.py); none: they do where the method chooses sizes, that is, in every fit
    levels      how the discrete columns go together within a component: along a forest (each with one other at most),
                or independently
    dependence  how the numbers depend on the levels within a component: not (`none`), or through a shift that is
                linear in indicators of the levels (`linear`, see `shifted.py`); `turn`: not, but in every second
                bootstrap refit, so that imputations are drawn from both kinds in turn; none: by the number of rows
                (fitting/trees.py)
    shrink_to   what full covariances are shrunk to: the columns' variances (`diagonal`), `factors` that several columns
                share, or these and the `pairs` of columns that stand out beside them (maths/shrinkage.py); `none`: to
                each other, and these a little to the variances
    shrinkage   by how many pseudo-rows, or with `by` to each other; none: chosen by held-out rows
    """

    components: Components | None = None
    by: str | None = None
    covariance: Literal["full", "factor"] | None = None
    factors: Factors | None = None
    outliers: bool | None = None
    levels: Literal["forest", "independent"] = "forest"
    dependence: Literal["none", "linear", "turn"] | None = None
    shrink_to: Literal["none"] | ShrinkTo = "none"
    shrinkage: PseudoRows | None = None

    def without_effect(self) -> Mapping[str, str]:
        full = self.covariance == "full" or (self.covariance is None and self.shrink_to != "none")
        idle = {"factors": "covariances are full"} if full else {}
        if self.shrink_to == "none" and self.by is None:
            idle["shrinkage"] = "model.shrink_to does not say to what"
        elif self.shrink_to != "none" and self.covariance == "factor":
            idle["shrink_to"] = "it is full covariances that are shrunk"
        return idle

    def unsuited(self, layout: Layout) -> tuple[str, str] | None:
        if self.by is None:
            return None
        able = {layout.label(j): layout.level_counts[j] for j in layout.discrete if _alone(j, layout)}
        if self.by not in able:
            hint = f"one of {', '.join(able)}" if able else "the table has none: leave it out"
            return f"model.by={self.by}: no modelled column of levels has that name", hint
        return None

    def idle(self, layout: Layout, refits: int) -> Mapping[str, str]:
        if self.dependence in (None, "none"):
            return {}
        if layout.discrete and layout.continuous:
            why = "no bootstrap refits are made, of which every second one would be shifted by the levels"
            return {"dependence": why} if self.dependence == "turn" and refits < 2 else {}
        lacks = "levels, which could shift the numbers" if layout.continuous else "numbers, which levels could shift"
        return {"dependence": f"the table has no column of {lacks}"}


class GaussianMixture(GaussianFamily):
    """sum_k pi_k N(mean_k, covariance_k), in mixed rows times a law of the levels (`mixed.py`); the parameters are
    unconstrained, so that gradients can train them too."""

    Config = MixtureConfig
    discrete = True
    tolerance = 1e-5
    undescribed = 0.0
    method_defaults: ClassVar[Mapping[str, Mapping[str, Any]]] = {"vgi": {"conditional": "spline"}}

    def __init__(
        self,
        learnt: Gaussians,
        broad: Gaussians | None = None,
        layout: Layout | None = None,
        edges: bool = True,
        dependence: str = "none",
        shrinkage: float | None = None,
        by: int | None = None,
    ) -> None:
        """learnt: the K components; broad: those of fixed shape for outlying rows, if any; layout: of mixed rows (the
        Gaussians are then of their continuous dimensions); edges: whether levels depend on each other within a
        component; dependence: how the numbers depend on them there; shrinkage: pseudo-rows of the prior of covariances,
        where the model has its own; by: as of Mixed."""
        super().__init__()
        scales = SCALES if layout is None else MIXED_SCALES
        self.gaussians = learnt if broad is None else Widened(learnt, broad, scales)
        if layout is not None:
            kind = Shifted if dependence != "none" and layout.continuous else Mixed
            self.gaussians = kind(self.gaussians, layout, edges=edges, by=by)
        self._shrinkage = shrinkage
        self._shifts, self._turns = dependence == "linear", dependence == "turn"
        self.logits = nn.Parameter(torch.zeros(len(self.gaussians.means())))

    @classmethod
    def build(cls, config: MixtureConfig, layout: Layout) -> Self:
        """What is none: 5 components, or one of each level; covariances by D, 2 factors, no broad components."""
        by, D = _place_of(config.by, layout), layout.D - len(layout.discrete)
        K = (5 if by is None else 1) if config.components is None else config.components
        K *= 1 if by is None else layout.level_counts[layout.discrete[by]]
        factors = min(2, max(D - 1, 0)) if config.factors is None else min(config.factors, D)

        def gaussians(count: int) -> Gaussians:
            full = covariance_of(config, D) == "full"
            return FullGaussians(count, D) if full else FactorGaussians(count, D, factors, RIDGE)

        scales = MIXED_SCALES if layout.discrete else SCALES
        broad = gaussians(len(scales)) if config.outliers else None
        mixed, edges, dependence = layout if layout.discrete else None, config.levels == "forest", config.dependence
        if config.shrink_to == "none":
            return cls(gaussians(K), broad, mixed, edges, dependence or "none", config.shrinkage, by)
        learnt, nu = ShrunkGaussians(K, D, config.shrink_to), config.shrinkage
        return cls(learnt, broad, mixed, edges, dependence or "none", float(D) if nu is None else nu, by)

    @classmethod
    def sizes(cls, config: MixtureConfig, N: int, D: int) -> Sequence[Sequence[MixtureConfig]]:
        """One path of components for full covariances, one for each number of factors otherwise, and one of factors for
        a single component; where covariances are shrunk by what nobody says, one for each strength."""
        covariance = covariance_of(config, D)
        most = (1, 2, 3, 5, 8, 12, 20) if config.by is None else IN_LEVELS
        counts = [K for K in most if 10 * K <= N] or [1]
        components = counts if config.components is None else [config.components]
        factors: list[int | None] = [config.factors]
        if covariance == "factor" and config.factors is None:
            factors = [L for L in (1, 3, 8, 16) if 2 * L <= D and (L > 1 or D < 12)] or [0]
        outliers = True if config.outliers is None else config.outliers
        same = {"covariance": covariance, "outliers": outliers}
        if covariance == "factor" and config.factors is None and components == [1]:
            return [[config.model_copy(update={**same, "components": 1, "factors": L}) for L in factor_counts(N, D)]]
        strengths = [config.shrinkage]
        if config.shrink_to != "none" and config.shrinkage is None and D > 0:
            strengths = [share * D for share in SHRINKAGES]
        elif config.by is not None and config.shrinkage is None:
            strengths = [share * (D + 2) for share in POOLED_LEVELS]
        return [
            [config.model_copy(update={**same, "components": K, "factors": L, "shrinkage": nu}) for K in components]
            for L in factors
            for nu in strengths
        ]

    @classmethod
    def without_shifts(cls, config: MixtureConfig) -> MixtureConfig:
        return config.model_copy(update={"dependence": "none"})

    def initialise(self, x: Tensor, generator: torch.Generator) -> None:
        self.initialise_filled(FilledRows(x, torch.zeros_like(x, dtype=torch.bool)), generator)

    @torch.no_grad()
    def initialise_filled(self, filled: FilledRows, generator: torch.Generator) -> None:
        """Centres by k-means++ and five sweeps of k-means on standardised rows; one covariance for all, that within.
        The levels of a dimension count in k-means as much as a number does, but not within levels of `by`."""
        dtype, device, K, mixed = self.logits.dtype, self.logits.device, self.gaussians.K, None
        self.to(filled.x.device)  # that of the rows and of the generator: a GPU would gain nothing here
        x = rows = filled.x.to(torch.float64)
        if isinstance(self.gaussians, Mixed):
            mixed = self.gaussians
            x = rows[:, mixed.continuous]
        several = x.shape[1] > 0  # columns of numbers: torch warns of the variances of none
        spread = x.std(0, correction=0) if several else x[0]
        unit = (x - x.mean(0)) / torch.where(spread > 0, spread, 1.0)
        if mixed is None:
            label = _k_means(unit, K, generator)
        elif (by := mixed.categories.by) is None:
            label = _k_means(torch.cat([unit, mixed.spread(rows)], 1), K, generator)
        else:
            label = _in_levels(unit, mixed.levels_of(rows)[:, by], mixed.categories.forest.levels[by], K, generator)
        if isinstance(mixed, Shifted) and self._shifts:
            self.double()
            mixed.choose(filled._replace(x=rows), label)
            x = mixed.centred(rows)
        one_hot = torch.nn.functional.one_hot(label, K).to(x.dtype)
        count = one_hot.sum(0)
        mean = (one_hot.mT @ x + x.mean(0)) / (count + 1)[:, None]
        within = x - mean[label]
        covariance = within.mT @ within / x.shape[0]
        own = torch.diag(x.var(0, correction=0).clamp(min=1e-6) if several else x[0])
        self.double().gaussians.set_moments(mean, (covariance + 0.05 * own)[None])
        numbers = self.gaussians if mixed is None else mixed.numbers
        if isinstance(self.learnt, ShrunkGaussians):
            self.learnt.aim(covariance.new_full(covariance.shape, float(x.shape[0])), covariance + 1e-6 * own)
        if isinstance(numbers, Widened):
            whole = rows if mixed is None else rows[:, mixed.continuous]  # as they were before any shift
            centred = whole - whole.mean(0)
            numbers.set_broad(whole.mean(0), centred.mT @ centred / x.shape[0] + 1e-6 * own)
            count = torch.cat([count, count.new_full((len(numbers.scales),), ROWS - 1)])
        apart = pairs_apart(filled.missing)
        if mixed is not None:
            nowhere = torch.zeros_like(rows, dtype=torch.bool)
            mixed.learn_levels(rows, nowhere, one_hot, TABLES, mixed.joins(apart))
        self.set_weights(count + 1)
        self.separate(apart)
        self.to(dtype=dtype, device=device)

    def log_weights(self) -> Tensor:
        return torch.log_softmax(self.logits, 0)

    @torch.no_grad()
    def set_weights(self, weights: Tensor) -> None:
        self.logits.copy_((weights / weights.sum()).log())

    def penalty(self, pooling: float | None, floor: float | None) -> Penalty:
        """Pooling of POOLED (D + 2) pseudo-rows unless told otherwise; of the model's own where it has a target."""
        D = self.gaussians.means().shape[1]
        weight: float | Tensor = 1e-6
        if len(self.logits) > self.gaussians.K:
            rows = MIXED_ROWS if isinstance(self.gaussians, Mixed) else ROWS
            weight = self.logits.detach().new_full(self.logits.shape, rows)
            weight[: self.gaussians.K] = 1e-6
        pooling = pooling if self._shrinkage is None else self._shrinkage
        pooling = POOLED * (D + 2) if pooling is None else pooling
        tables = TABLES if isinstance(self.gaussians, Mixed) else 0.0
        return Penalty(
            floor=self.learnt.floor if floor is None else floor,
            pooling=pooling,
            common=1.0,
            mean=MEANS if self.gaussians.K > 1 else MEAN,
            weight=weight,
            tables=tables,
            shift=SHIFT,
        )

    def for_fills(self) -> Self:
        """With broad components that fills may be drawn from. The widest keeps the density of a row that is unlike all
        others from being absurd, but a cell drawn from it is absurd itself, several standard deviations off what the
        rest of its row says: it is as wide as all rows, and rare. The other one is held near what columns say of each
        other. And without the levels that a component has from its prior alone."""
        broad, mixed = len(self.logits) > self.gaussians.K, isinstance(self.gaussians, Mixed)
        if not (broad or mixed):
            return self
        other = copy.deepcopy(self)
        with torch.no_grad():
            if isinstance(other.gaussians, Mixed):
                other.gaussians.categories.forget_absent(self.log_weights().exp(), TABLES)
            if broad:
                numbers = other.gaussians.numbers if isinstance(other.gaussians, Mixed) else other.gaussians
                assert isinstance(numbers, Widened)
                numbers.place_for_fills(self.log_weights()[: self.gaussians.K].double().softmax(0))
                other.logits[-1] = other.logits[:-1].logsumexp(0) + math.log(UNLIKE)  # the last of SCALES
        return other

    @property
    def scarcest_level(self) -> float:
        return self.gaussians.scarcest_level if isinstance(self.gaussians, Shifted) and self._shifts else 1.0

    def take_turn(self, number: int) -> bool:
        self._shifts = number % 2 == 1 if self._turns else self._shifts
        return self._turns and self._shifts and isinstance(self.gaussians, Shifted)

    @property
    def learnt(self) -> Gaussians:
        """The Gaussians of the numbers, without the broad ones."""
        numbers = self.gaussians.numbers if isinstance(self.gaussians, Mixed) else self.gaussians
        return numbers.learnt if isinstance(numbers, Widened) else numbers

    @property
    def aimed(self) -> bool:
        return isinstance(self.learnt, ShrunkGaussians)

    @torch.no_grad()
    def refine(self, table: EmTable, penalty: Penalty) -> None:
        """Make the target of the covariances anew, where they have one; learn the forest anew from how the rows belong
        to the components, which is kept where the objective does not fall."""
        mixed = self.gaussians
        if isinstance(self.learnt, ShrunkGaussians):
            self.em_step(table, penalty)  # what the present parameters say, where the last step was undone
            missing, of_row = table.patterns.missing, table.patterns.of_row
            weight = table.weights.new_zeros(len(missing)).index_add_(0, of_row, table.weights)
            seen = (~missing[:, mixed.continuous] if isinstance(mixed, Mixed) else ~missing).to(weight)
            self.learnt.aim(table.ranks.total(seen.mT @ (seen * weight[:, None]))[0])
        if not isinstance(mixed, Mixed) or len(mixed.discrete) < 2 or not mixed.edges:
            return
        before = {name: part.clone() for name, part in self.state_dict().items()}
        weight, value = self.responsibilities(table, penalty)
        missing, weight = table.patterns.missing[table.patterns.of_row], weight.mul_(table.weights[:, None])
        rows = weight.new_tensor([float(len(missing))], dtype=torch.float64)
        apart = never_together(*table.ranks.total(seen_together(missing), rows))
        mixed.learn_levels(table.x, missing, weight, penalty.tables, mixed.joins(apart), table.ranks)
        self.separate(apart)
        if bool(self.objective(table, penalty).objective < value.objective):
            self.load_state_dict(before)

    def remarks(self, layout: Layout) -> Sequence[str]:
        if not isinstance(self.gaussians, Shifted):
            return ()
        names = {i: layout.label(layout.discrete[i]) for i in self.gaussians.places}
        pairs = [f"{names[i]} × {names[k]}" for i, k in self.gaussians.pairs.tolist()]
        shifting = ", ".join([*names.values(), *pairs]) if names else "of no column"
        return [f"levels that shift the numbers within clusters: {shifting}"]

    def cell_laws(self) -> CellLaws:
        if not isinstance(self.gaussians, Mixed):
            return super().cell_laws()
        mixed = in_double(self.gaussians)
        if isinstance(mixed, Shifted):
            return ShiftedCellLaws(mixed, self.log_weights().double())
        return MixedCellLaws(mixed, self.log_weights().double())

    @property
    def independent(self) -> bool:
        return super().independent and not (self._shifts and isinstance(self.gaussians, Shifted))

    @property
    def shifting(self) -> Sequence[int]:
        mixed = self.gaussians
        return mixed.discrete[list(mixed.places)].tolist() if isinstance(mixed, Shifted) else ()

    def given_levels(self, x: Tensor, missing: Tensor) -> NumbersGiven:
        mixed = self.gaussians
        if isinstance(mixed, Shifted) and mixed.places:
            return self._weighted(mixed, x, torch.zeros_like(missing), mixed.moved(mixed.levels_of(x)))
        return self._weighted(mixed, x, missing) if isinstance(mixed, Mixed) else super().given_levels(x, missing)

    def given_combinations(self, x: Tensor, missing: Tensor) -> Combinations:
        mixed = self.gaussians
        if not isinstance(mixed, Shifted) or not mixed.places:
            return super().given_combinations(x, missing)
        of_row, place = mixed.agreeing(mixed.seen_levels(x, missing)).nonzero().unbind(1)
        shifting = mixed.discrete[list(mixed.places)]
        rows, unknown = x[of_row], missing[of_row]
        rows[:, shifting], unknown[:, shifting] = mixed.combinations[place].to(x.dtype), False
        return Combinations(of_row, rows, self._weighted(mixed, rows, unknown, mixed.shifts()[place]))

    def _weighted(self, mixed: Mixed, x: Tensor, missing: Tensor, shift: Tensor | None = None) -> NumbersGiven:
        """The numbers given the levels of rows x [R, D] that are not missing [R, D], moved by shift [R, D']."""
        parts, levels = super().given_levels(x, missing).components, mixed.level_log_prob(x, missing).to(torch.float64)
        weighted = parts._replace(log_weights=parts.log_weights + levels)
        return NumbersGiven(mixed.continuous.tolist(), weighted, None if shift is None else shift.to(torch.float64))

    def free_parameters(self) -> int:
        return self.logits.shape[0] - 1 + self.gaussians.free_parameters()


def _in_levels(unit: Tensor, level: Tensor, levels: int, K: int, generator: torch.Generator) -> Tensor:
    """[N] the component in 0..K-1 of each row: the rows of each level [N] in K / levels clusters, one number of these
    after the other, each with a component of every level."""
    label, clusters = level.clone(), K // levels
    for one in range(levels if clusters > 1 else 0):
        at = level == one
        if int(at.sum()) > clusters:
            label[at] = one + levels * _k_means(unit[at], clusters, generator)
    return label


def _place_of(name: str | None, layout: Layout) -> int | None:
    """The place of a column of levels among the discrete dimensions, by its name."""
    if name is None:
        return None
    return layout.discrete.index(layout.slices[layout.columns.index(name)].start)


def _alone(dimension: int, layout: Layout) -> bool:
    """Whether a dimension is all of its column."""
    return layout.widths[layout.column_of[dimension]] == 1


def covariance_of(config: MixtureConfig, D: int) -> Literal["full", "factor"]:
    if config.covariance is not None:
        return config.covariance
    full = D <= FULL_UP_TO and config.factors is None
    return "full" if full or config.shrink_to != "none" else "factor"


def _k_means(x: Tensor, K: int, generator: torch.Generator) -> Tensor:
    """Labels [R] in 0..K-1: k-means++ seeding (Arthur and Vassilvitskii 2007), then five sweeps."""
    first = torch.randint(x.shape[0], (1,), generator=generator)
    centres = x[first]
    nearest = (x - centres).square().sum(-1)
    for _ in range(K - 1):
        chosen = torch.multinomial(nearest + 1e-12, 1, generator=generator)
        centres = torch.cat([centres, x[chosen]])
        nearest = torch.minimum(nearest, (x - x[chosen]).square().sum(-1))
    for _ in range(5):
        one_hot = torch.nn.functional.one_hot(torch.cdist(x, centres).argmin(-1), K).to(x.dtype)
        count = one_hot.sum(0)[:, None]
        centres = torch.where(count > 0, one_hot.mT @ x / count.clamp(min=1), centres)
    return torch.cdist(x, centres).argmin(-1)
