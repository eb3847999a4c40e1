"""Components of mixed rows whose Gaussians are shifted by the row's levels: local dependence (Murray and Reiter 2016).

    x | levels, k ~ N(mean_k + B' d(levels), covariance_k),    levels | k by the forest

d are the indicators of the levels of the columns that shift, less their shares; one B serves all components, the broad
one too. Not all columns shift: from those that explain the numbers best (within clusters, see `Regressions.chosen`),
one after the other, as long as their levels have at most CELLS combinations, or few of these agree with a row (of many
rows fewer, which bounds the time; more where one of them names groups, as clinics or schools do). So a component of an
incomplete row is a mixture over the combinations that agree with what is observed, in each of which the Gaussian is
known and the forest's levels are: every marginal, conditional and draw is exact.

Of a pair of columns d holds the products of their indicators too, where the rows say that the two interact
(`Interactions`): a difference between groups that is another one in another period.

EM ties those expanded components: weights, tables and Gaussians are learnt from sums over the combinations, and B after
them, given the means and covariances just learnt (a conditional maximisation, Meng and Rubin 1993). A ridge of SHIFT
pseudo-rows at most pulls the coefficients of each indicator to 0: in units of the variances of the numbers or, of sums
of numbers that vary more than one number does, of the variance that clusters and levels leave of these at the start. In
units of variances alone an effect that correlated numbers share, on the sum of a scale's items above all, would be
pulled as many times as much as that sum varies more than they would by themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, NamedTuple, Self

import torch
from torch import Tensor, nn

from vgi_cli.layout import Layout
from vgi_cli.maths import lanes
from vgi_cli.maths.forests import inverted
from vgi_cli.maths.gaussian import Patterns
from vgi_cli.models.gaussian.family import ColumnLaw, FilledRows
from vgi_cli.models.gaussian.gaussians import MOST_LOST, Footprint, Gaussians, Observed, Penalty, Scale, expansions
from vgi_cli.models.gaussian.incomplete import Incomplete, Kept
from vgi_cli.models.gaussian.mixed import DistinctLevels, Mixed, MixedCellLaws, MixedObserved
from vgi_cli.models.gaussian.shift_choice import (
    CELLS,
    CLOSE,
    SHIFT,
    Interactions,
    Regressions,
    Room,
    precision_at_least_alone,
    products,
    ridge_by_what_is_left,
    take_what_is_seen,
)

SO_CLOSE = 0.9995
"""A correlation beyond which two columns hardly differ."""
MISSING = 0.4
"""Share of missing cells at which the work is counted, where it is not known."""
DENSE, MOST_ITERATIONS, TOLERANCE = 600, 100, 1e-8
"""Coefficients up to which the M-step solves their system as a matrix; beyond, iterations at most, and the share of the
first residual at which they end."""


class Shifted(Mixed):
    """`shift` [F, D]: B, a row for each level of each discrete dimension; those of dimensions that do not shift have no
    effect and stay 0. `crossing` [P, D]: rows of B for each pair of levels of each pair of dimensions that
    interact, the second level fastest.

    chosen        [n] bool: the discrete dimensions that shift
    share         [F] the shares of the levels in the rows of the start
    pairs         [M, 2] (int64) the pairs of discrete dimensions that interact; both shift
    prior_precision  [D, D] the inverse of the covariance in whose units the ridge is; [0, 0]: in units of each number's
                     variance, as in older runs
    places        the discrete dimensions that shift, in order
    combinations  [J, places] every combination of their levels, the last one fastest
    """

    chosen: Tensor
    share: Tensor
    pairs: Tensor
    prior_precision: Tensor
    combinations: Tensor
    _rows: Tensor  # [Q] of `shift`: those of the dimensions that shift
    _indicators: Tensor  # [J, Q] those of the combinations: 0 and 1, which every precision holds
    _times: Tensor  # [D] the levels of each dimension that shifts, 1 of every other

    def __init__(self, numbers: Gaussians, layout: Layout, *, edges: bool, by: int | None = None) -> None:
        super().__init__(numbers, layout, edges=edges, by=by)
        levels = self.categories.forest.levels
        self.register_buffer("chosen", torch.zeros(len(levels), dtype=torch.bool))
        self.register_buffer("share", torch.zeros(sum(levels)))
        for name in ("combinations", "_rows", "_indicators", "_times"):
            self.register_buffer(name, torch.zeros(0), persistent=False)
        self.register_buffer("pairs", torch.zeros(0, 2, dtype=torch.int64))
        self.register_buffer("prior_precision", torch.zeros(0, 0))
        self.shift = nn.Parameter(torch.zeros(sum(levels), numbers.means().shape[1]))
        self.crossing = nn.Parameter(torch.zeros(0, numbers.means().shape[1]))
        self._kept = Kept()  # of the dimensions that shift, until others do
        self._take(self.chosen, self.share)

    def _take(self, chosen: Tensor, share: Tensor, pairs: Tensor | None = None) -> None:
        """Let dimensions chosen [n] shift, whose levels have shares [F], and pairs [M, 2] of them interact (None: no
        pair does), in place: each parameter stays the same object."""
        levels, device = self.categories.forest.levels, self.share.device
        self._kept.clear()
        self.pairs = self.pairs.new_zeros(0, 2) if pairs is None else pairs.to(device)
        P = sum(levels[i] * levels[k] for i, k in self.pairs.tolist())
        self.crossing.data = self.crossing.data.new_zeros(P, self.crossing.shape[1])
        self.chosen.copy_(chosen)
        self.share.copy_(share)
        self.places = tuple(int(i) for i in chosen.nonzero()[:, 0])
        sizes = [levels[i] for i in self.places]
        times = [1] * self.D
        for i, size in zip(self.places, sizes, strict=True):
            times[int(self.discrete[i])] = size
        self._times = torch.tensor(times, dtype=torch.float64, device=device)
        grid = torch.cartesian_prod(*map(torch.arange, sizes)).view(-1, len(sizes)) if sizes else torch.zeros(1, 0)
        self.combinations = grid.long().to(device)
        self._rows = torch.repeat_interleave(self.chosen, torch.tensor(levels, device=device)).nonzero()[:, 0]
        one_hot = [torch.nn.functional.one_hot(c, n) for c, n in zip(self.combinations.unbind(1), sizes, strict=True)]
        self._indicators = (torch.cat(one_hot, 1) if one_hot else self.combinations).to(self.share)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        """Pairs that interact, and the units of the ridge, are saved where there are any."""
        super()._save_to_state_dict(destination, prefix, keep_vars)
        if not len(self.prior_precision):
            del destination[f"{prefix}prior_precision"]
        if not len(self.pairs):
            del destination[f"{prefix}pairs"], destination[f"{prefix}crossing"]

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any) -> None:
        """Parameters that were saved bring the dimensions that shift with them, and the pairs that interact."""
        names = f"{prefix}pairs", f"{prefix}crossing"
        pairs = state_dict.get(names[0], self.pairs.new_zeros(0, 2))
        if why := self._no_pairs(pairs, state_dict.get(f"{prefix}chosen")):
            args[-1].append(f"{names[0]}: {why}")  # what load_state_dict says is wrong
            return
        self._take(self.chosen, self.share, pairs.long())
        if not len(pairs) and not len(state_dict.get(names[1], ())):
            state_dict = {**state_dict, names[0]: self.pairs, names[1]: self.crossing.data}
        precision = state_dict.get(f"{prefix}prior_precision", self.prior_precision.new_zeros(0, 0))
        D = self.shift.shape[1]
        if precision.shape not in ((0, 0), (D, D)):
            args[-1].append(f"{prefix}prior_precision: it is of shape {list(precision.shape)}, not [{D}, {D}]")
            return
        state_dict = {**state_dict, f"{prefix}prior_precision": precision}
        self.prior_precision = self.prior_precision.new_zeros(precision.shape)
        super()._load_from_state_dict(state_dict, prefix, *args)
        crossing = self.crossing.data
        self._take(self.chosen, self.share, self.pairs)
        self.crossing.data = crossing

    def _no_pairs(self, pairs: Tensor, chosen: Tensor | None) -> str:
        """Why these are no pairs of dimensions chosen [n] that shift; empty where they are."""
        if pairs.ndim != 2 or pairs.shape[1] != 2:
            return f"it is of shape {list(pairs.shape)}, not [pairs, 2]"
        shift = [] if chosen is None else chosen.flatten().nonzero()[:, 0].tolist()
        wrong = [(i, k) for i, k in pairs.tolist() if not (i < k and i in shift and k in shift)]
        return f"{wrong[0]} are no two dimensions that shift" if wrong else ""

    @property
    def independent(self) -> bool:
        return super().independent and not self.places

    @property
    def scarcest_level(self) -> float:
        """The share of the level, of those that shift and occur, that has fewest of the rows of the start; 1 where none
        shifts."""
        shares = self.share[self._rows] if self.places else self.share.new_zeros(0)
        return float(shares[shares > 0].amin()) if (shares > 0).any() else 1.0

    def dummies(self) -> Tensor:
        """[J, Q + P] d of each combination: the indicators less the shares, and of pairs that interact the products of
        these."""
        return self._kept.until_changed("dummies", (self.share,), self._dummies)

    def _dummies(self) -> Tensor:
        d = self._indicators - self.share[self._rows]
        if not self.pairs.shape[0]:
            return d
        of = dict(zip(self.places, d.split([self.categories.forest.levels[i] for i in self.places], 1), strict=True))
        return torch.cat([d, *(products(of[i], of[k]) for i, k in self.pairs.tolist())], 1)

    def _squares(self) -> Tensor:
        """[J, (Q + P) (Q + P)] the products of each two of `dummies`."""
        d = self._dummies()
        return (d[:, :, None] * d[:, None, :]).flatten(1)

    def shifts(self) -> Tensor:
        """[J, D] by how much the rows of each combination are shifted."""
        return self.dummies() @ self._coefficients()

    def _coefficients(self) -> Tensor:
        """[Q + P, D] of the columns of d."""
        return torch.cat([self.shift[self._rows], self.crossing])

    def moved(self, levels: Tensor) -> Tensor:
        """[R, D] by how much rows of these levels [R, n] (int64) are shifted."""
        at = torch.zeros_like(levels[:, 0])
        for i in self.places:
            at = at * self.categories.forest.levels[i] + levels[:, i]
        return self.shifts()[at]

    def centred(self, x: Tensor) -> Tensor:
        numbers = super().centred(x)
        return numbers - self.moved(self.levels_of(x)) if self.places else numbers

    def observe(self, rows: Incomplete, *, fixed: bool = False) -> Observed:
        if not self.places:
            return super().observe(rows, fixed=fixed)
        return _ShiftedObserved(self, rows.once(f"expanded by {self.places}", lambda: self._expanded(rows)), fixed)

    def _expanded(self, rows: Incomplete) -> _Expanded:
        levels, places = self.observed_levels(rows), list(self.places)
        agrees = self.agreeing(levels)
        of_row, place = agrees.nonzero().unbind(1)
        full = levels[of_row]
        full[:, places] = self.combinations[place]
        numbers = self.numbers_of(rows)
        holes = Patterns(numbers.patterns.missing, numbers.patterns.of_row[of_row])
        numbers = Incomplete(numbers.x[of_row], holes, again=rows.again, summed=rows.summed)
        return _Expanded(
            agrees, of_row, agrees.sum(1).cumsum(0), place, numbers, self.distinct(full, summed=rows.summed)
        )

    def agreeing(self, levels: Tensor) -> Tensor:
        """[R, J] whether a combination agrees with observed levels [R, n] (int64, -1 where they are missing)."""
        known = levels[:, None, list(self.places)]
        return ((known < 0) | (known == self.combinations)).all(-1)

    def expansion(self, missing: Tensor | None = None) -> float:
        """How many combinations agree with a row: on average over rows with holes [N, D] where these are known, else
        where MISSING of its cells are; before it is known which dimensions shift, where those do that have the fewest
        levels."""
        if missing is not None and self.places:
            return float(expansions(missing, self._times.to(missing.device)).mean())
        levels = self.categories.forest.levels
        total, cells = 1.0, 1
        for n in [levels[i] for i in self.places] or sorted(levels):
            if cells * n > CELLS and not self.places:
                break
            total, cells = total * (1 + MISSING * (n - 1)), cells * n
        return total

    def work(self, missing: Tensor | None = None) -> float:
        return super().work() * self.expansion(missing)

    def cells(self, missing: Tensor | None = None) -> int:
        return int(super().cells() * self.expansion(missing))

    def footprint(self) -> Footprint:
        if not self.places:
            return super().footprint()
        J = self.combinations.shape[0]
        return super().footprint()._replace(times=self._times, beside=J * (1 + self.categories.K))

    def log_penalty(self, scale: Scale, penalty: Penalty) -> Tensor:
        value = super().log_penalty(scale, penalty)
        if not self.places:
            return value
        B, ridge = self._coefficients(), self._ridge(scale, penalty)
        return value - 0.5 * ((B @ ridge) * B).sum()

    def _ridge(self, scale: Scale, penalty: Penalty) -> Tensor:
        """[D, D] the precision of the coefficients of each indicator a priori."""
        if not len(self.prior_precision):
            return torch.diag(penalty.shift / scale.variance[self.continuous])
        return penalty.shift * self.prior_precision.to(scale.variance)

    def maximise(self, statistics: tuple[Tensor, ...], scale: Scale, penalty: Penalty) -> None:
        if not self.places:
            super().maximise(statistics, scale, penalty)
            return
        super().maximise(statistics[:-1], scale, penalty)
        curve, right = self.numbers.shift_system(statistics[-1])
        d, ridge, B = self.dummies(), self._ridge(scale, penalty), self._coefficients()
        wanted = d.mT @ right - B @ ridge
        if B.numel() > DENSE:
            change = _conjugate_gradients(d, curve, ridge, wanted)
        else:
            (Q, D), pairs = B.shape, self._kept.until_changed("squares", (self.share,), self._squares)
            curve = torch.diag_embed(curve) if curve.ndim == 2 else curve
            system = (pairs.mT @ curve.flatten(1)).view(Q, Q, D, D).permute(0, 2, 1, 3).reshape(Q * D, Q * D)
            system.view(Q, D, Q, D).diagonal(dim1=0, dim2=2).add_(ridge[:, :, None])
            change = torch.cholesky_solve(wanted.reshape(-1, 1), torch.linalg.cholesky(system)).view_as(B)
        with torch.no_grad():
            main, crossing = (B + change).split([len(self._rows), len(self.crossing)])
            self.shift[self._rows] = main
            self.crossing.copy_(crossing)

    @torch.no_grad()
    def choose(self, filled: FilledRows, label: Tensor) -> None:
        """Choose which dimensions shift, and which pairs of them interact, and start the shifts, in place, by complete
        rows [R, D] of clusters [R]."""
        x, levels = filled.x, self.categories.forest.levels
        one_hot, numbers = self.one_hot(self.levels_of(x), x.dtype), x[:, self.continuous]
        sd = numbers.std(0, correction=0)
        sd = torch.where(sd > 0, sd, 1.0)
        regressions = Regressions.of(numbers / sd, one_hot, levels, label)
        room, once = Room(levels, filled.missing[:, self.discrete]), filled.once()
        places, left = regressions.chosen(room, len(once))
        pairs: list[tuple[int, int]] = []
        seen = ~filled.missing[:, self.continuous]
        if regressions.able:
            interactions = Interactions(regressions.y[once], one_hot[once], levels, label[once], seen[once])
            places, pairs = interactions.found(places, room.holds)
        chosen = torch.tensor([i in places for i in range(len(levels))])
        self._take(chosen, one_hot.mean(0), self.pairs.new_tensor(pairs) if pairs else None)
        self.prior_precision = (precision_at_least_alone(left) / sd[:, None] / sd).to(self.prior_precision)
        self._start(regressions.beside(pairs, self.share.to(x)), places, seen, sd)

    def _start(self, regressions: Regressions, places: Sequence[int], seen: Tensor, sd: Tensor) -> None:
        """Set the coefficients, in place, to those of a regression of numbers, in units of sd [D], on the levels of
        dimensions `places`, and on products where pairs interact; those of numbers that these all but determine to what
        the cells say that were not filled, seen [R, D]; of a level that none of the rows has, to those that it had,
        where its dimension did shift."""
        y, F = regressions.y, len(self.share)
        before = torch.cat([self.shift.detach(), self.crossing.detach()]).to(y) / sd
        levels = torch.tensor(self.categories.forest.levels, device=y.device)
        self.shift[self.share > 0] = 0.0
        self.shift[~torch.repeat_interleave(self.chosen, levels)] = 0.0
        if not places:
            return
        columns, _, left = regressions.on(places)
        left = left.diagonal()
        gram, cross = regressions.gram[columns][:, columns], regressions.cross[columns]
        B = ridge_by_what_is_left(gram, cross, left, regressions.total.diagonal(), regressions.free)
        for j in (left <= CLOSE).nonzero()[:, 0].tolist():
            d, known = regressions.d[:, columns], seen[:, j]
            has = regressions.one_hot[known].sum(0) > 0
            has = torch.cat([has, has.new_ones(len(self.crossing))])[columns]
            take_what_is_seen(B[:, j], d[known], y[known, j], has, before[columns, j])
        B, crossed = (B * sd).to(self.shift), columns >= F
        there = columns[~crossed]
        occur = self.share[there] > 0
        self.shift[there[occur]] = B[~crossed][occur]
        self.crossing.copy_(B[crossed])

    def joins(self, apart: Tensor) -> list[tuple[int, int]]:
        place = {int(column): i for i, column in enumerate(self.discrete)}
        pairs = [(place.get(a, -1), place.get(b, -1)) for a, b in apart.tolist()]
        return [(i, k) for i, k in pairs if min(i, k) >= 0 and self.chosen[i] and self.chosen[k]]

    @torch.no_grad()
    def separate(self, pairs: Tensor) -> None:
        """Numbers and levels that are apart too: the coefficients of a number are what those of the others say, so that
        given these it is the same for every level. And so are levels of two dimensions that have an edge: their table
        takes back what each says of the numbers that the other goes with."""
        super().separate(pairs)
        covariance = self.numbers.moments().covariance
        spread, place = covariance[: self.K].mean(0), {int(j): at for at, j in enumerate(self.continuous)}
        apart: dict[int, list[int]] = {int(j): [] for j in self.discrete}
        for i, k in pairs.tolist():
            for one, other in ((i, k), (k, i)):
                if one in apart:
                    apart[one].append(other)
        own = self.shift.split(list(self.categories.forest.levels))
        for i in self.places:
            numbers = [place[j] for j in apart[int(self.discrete[i])] if j in place]
            rest = [at for at in range(len(place)) if at not in numbers]
            if numbers:
                own[i][:, numbers] = own[i][:, rest] @ torch.linalg.solve(
                    spread[rest][:, rest], spread[rest][:, numbers]
                )
        for child, parent in enumerate(self.categories.forest.parent):
            if parent >= 0 and int(self.discrete[parent]) in apart[int(self.discrete[child])]:
                together = own[parent] @ torch.linalg.solve(covariance, own[child].mT)
                self.categories.set_ratios(child, together)

    @torch.no_grad()
    def restore_noise(self, missing: Tensor) -> None:
        """Each number is a regression on the levels: of n cells its refit takes twice as many degrees of freedom as it
        has coefficients, p (fewer where the ridge holds them), as that of factors does. Few rows a level share the
        weight of their level: by a flat Dirichlet law 2 / (n + p) are lost a coefficient, and not 2 / n."""
        if not self.places:
            return
        cells = (~missing[:, self.continuous]).sum(0).to(self.share).clamp(min=1)
        used = self._degrees_of_freedom(cells)
        times = (1 - (2 * used / (cells + used)).clamp(max=MOST_LOST)).rsqrt()
        self.stretch(alike_where_close(times, self.numbers.moments().covariance[: self.K].mean(0)))

    def _degrees_of_freedom(self, cells: Tensor) -> Tensor:
        """[D] of how many degrees of freedom of so many cells [D] of each number its shifts make use, beside a mean."""
        starts = [*accumulate(self.categories.forest.levels, initial=0)]
        shares = {i: self.share[starts[i] : starts[i + 1]] for i in self.places}
        left = self.numbers.moments().covariance[: self.K].diagonal(dim1=-2, dim2=-1).mean(0)
        rows_of_none = SHIFT * (self.prior_precision.diagonal() * left if len(self.prior_precision) else 1.0)

        def used(share: Tensor) -> Tensor:
            held = rows_of_none / (share[:, None] * cells + rows_of_none)
            return (1 - held.square()).sum(0)  # what is left of the noise is its square (2 H - H H of a ridge's H)

        total = sum((used(share) - 1 for share in shares.values()), torch.zeros_like(cells))
        for i, k in self.pairs.tolist():
            both = used((shares[i][:, None] * shares[k]).flatten())
            total = total + both - used(shares[i]) - used(shares[k]) + 1
        return total.clamp(min=0)

    def shrink_to(self, other: Self, share: float) -> None:
        super().shrink_to(other, share)
        if not torch.equal(self.pairs, other.pairs):
            raise ValueError("only shifts of which the same pairs interact can be shrunk to each other")
        self.shift.copy_(torch.lerp(other.shift, self.shift, share))
        self.crossing.copy_(torch.lerp(other.crossing, self.crossing, share))

    def sample(self, component: Tensor, generator: torch.Generator | None) -> Tensor:
        x = super().sample(component, generator)
        return self._shifted(x, self.moved(self.levels_of(x))) if self.places else x

    def _shifted(self, x: Tensor, by: Tensor) -> Tensor:
        """Rows x [R, D] with their continuous dimensions moved by [R, D]."""
        return self.whole(x[:, self.continuous] + by, self.levels_of(x))

    def free_parameters(self) -> int:
        levels = self.categories.forest.levels
        pairs: list[tuple[int, int]] = self.pairs.tolist()
        free = sum(levels[i] - 1 for i in self.places) + sum((levels[i] - 1) * (levels[k] - 1) for i, k in pairs)
        return super().free_parameters() + free * self.shift.shape[1]


def _conjugate_gradients(d: Tensor, curve: Tensor, ridge: Tensor, wanted: Tensor) -> Tensor:
    """The solution x [Q, D] of sum_j d_j d_j' x curve_j + x ridge = wanted, without its matrix [Q D, Q D].

    d [J, Q], curve [J, D, D] or, of diagonal ones, [J, D], ridge [D, D], wanted [Q, D]. Preconditioned by the blocks of
    each q. Every iterate raises what the M-step raises, so that one that stops early (after MOST_ITERATIONS) is a step
    of EM too.
    """
    alone = curve.ndim == 2

    def applied(x: Tensor) -> Tensor:
        moved = d @ x
        curved = curve * moved if alone else torch.bmm(curve, moved[:, :, None])[:, :, 0]
        return d.mT @ curved + x @ ridge

    own = (d.square().mT @ curve.flatten(1)).unflatten(1, curve.shape[1:])
    blocks = (torch.diag_embed(own) if alone else own) + ridge
    factor = torch.linalg.cholesky(blocks)

    def eased(x: Tensor) -> Tensor:
        return torch.cholesky_solve(x[..., None], factor)[..., 0]

    x, left = torch.zeros_like(wanted), wanted
    direction = towards = eased(left)
    height, least = (left * towards).sum(), TOLERANCE**2 * (wanted * towards).sum()
    for _ in range(MOST_ITERATIONS):
        if not bool(height > least):
            break
        image = applied(direction)
        step = height / (direction * image).sum()
        x, left = x + step * direction, left - step * image
        towards = eased(left)
        before, height = height, (left * towards).sum()
        direction = towards + height / before * direction
    return x


class _Expanded(NamedTuple):
    """Rows, each once for every combination of the levels that shift which agrees with what is observed of it.

    agrees   [R, J] whether a combination does
    of_row   [E] the row of each of them
    ends     [R] where those of each row end
    place    [E] its combination
    numbers  their numbers
    levels   their levels, those of the combination among them
    """

    agrees: Tensor
    of_row: Tensor
    ends: Tensor
    place: Tensor
    numbers: Incomplete
    levels: DistinctLevels


def alike_where_close(times: Tensor, covariance: Tensor) -> Tensor:
    """Factors of columns [D], the geometric mean of them where columns hardly differ by their covariance [D, D]: two
    that are multiplied by unlike ones would differ by far more."""
    deviation = covariance.diagonal().sqrt()
    close = (covariance / (deviation[:, None] * deviation)).abs() > SO_CLOSE
    if int(close.sum()) == len(close):
        return times
    for _ in range(len(close)):  # what is close to the same one
        close = (close.to(times) @ close.to(times)) > 0
    weight = close.to(times)
    return ((weight @ times.log()) / weight.sum(1)).exp()


class _ShiftedObserved(Observed):
    """Rows, each once for every combination of levels: these are seen as rows that have those levels, their numbers
    moved back.

    of_row, place  [E] the row of each of them, and its combination
    inner          what they are seen as
    within         [E, K] the probability of the combination given what is observed of the row, and the component
    """

    _within: Tensor | None

    def __init__(self, mixed: Shifted, rows: _Expanded, fixed: bool) -> None:
        self.mixed, self.agrees, self.of_row, self.place = mixed, rows.agrees, rows.of_row, rows.place
        self.by = mixed.shifts().index_select(0, self.place)
        numbers = mixed.numbers.observe(rows.numbers.moved(rows.numbers.x - self.by), fixed=fixed)
        self.inner = MixedObserved(mixed, numbers, rows.levels)
        log_prob, R = self.inner.log_prob, len(self.agrees)
        if rows.numbers.summed and lanes.suit(R, log_prob.shape[1], log_prob, self.by):
            self.log_prob, self._within = lanes.joined(log_prob, rows.ends)
            return
        joint = log_prob.new_full((*self.agrees.shape, log_prob.shape[1]), -torch.inf)
        self.log_prob = torch.logsumexp(joint.index_put((self.of_row, self.place), log_prob), 1)
        self._within = None

    @property
    def within(self) -> Tensor:
        if self._within is not None:
            return self._within
        return (self.inner.log_prob - self.log_prob[self.of_row]).exp()

    def mean(self, k: int) -> Tensor:
        weights = torch.zeros_like(self.log_prob)
        weights[:, k] = 1
        return self.centre(weights)

    def centre(self, weights: Tensor) -> Tensor:
        weights = weights[self.of_row] * self.within
        numbers = self._sum(self.inner.numbers.centre(weights) + weights.sum(1, keepdim=True) * self.by)
        levels = [self._sum(law).argmax(-1) for law in self.inner.level_laws(weights)]
        return self.mixed.whole(numbers, torch.stack(levels, -1))

    def level_laws(self, weights: Tensor) -> list[Tensor]:
        return [self._sum(law) for law in self.inner.level_laws(weights[self.of_row] * self.within)]

    def _sum(self, values: Tensor) -> Tensor:
        """Sums of values [E, n] over the combinations of each row."""
        return values.new_zeros(len(self.log_prob), values.shape[1]).index_add(0, self.of_row, values)

    def draw(self, k: int, columns: Tensor, factors: Tensor) -> Tensor:
        return self.draw_each(torch.full((len(columns),), k, device=columns.device), columns, factors)

    def draw_each(self, component: Tensor, columns: Tensor, factors: Tensor, rows: Tensor | None = None) -> Tensor:
        """The levels that shift, one after the other, each by its own noise; then the others and the numbers."""
        if rows is not None:
            return super().draw_each(component, columns, factors, rows)
        of_row = self.of_row
        weight = self.within.gather(1, component[of_row, None])[:, 0]
        law = weight.new_zeros(self.agrees.shape).index_put((of_row, self.place), weight)
        at, every = torch.zeros_like(component), torch.arange(len(component), device=component.device)
        for i in self.mixed.places:
            n = self.mixed.categories.forest.levels[i]
            law = law.unflatten(1, (n, -1))
            level = inverted(law.sum(-1), torch.special.ndtr(columns[:, self.mixed.discrete[i]]))
            law, at = law[every, level], at * n + level
        index = torch.zeros(self.agrees.shape, dtype=torch.int64, device=component.device)
        index[of_row, self.place] = torch.arange(len(of_row), device=component.device)
        chosen = index[every, at]
        return self.mixed._shifted(self.inner.draw_each(component, columns, factors, chosen), self.by[chosen])

    def statistics(self, responsibility: Tensor) -> tuple[Tensor, ...]:
        """Those of the rows' expansion, then what it says of the shifts."""
        responsibility = responsibility.index_select(0, self.of_row) * self.within
        J = self.agrees.shape[1]
        shifts = self.inner.numbers.shift_statistics(responsibility, self.place, J)
        return (*self.inner.statistics(responsibility), shifts)

    def shift_statistics(self, responsibility: Tensor, place: Tensor, J: int) -> Tensor:
        inner = responsibility[self.of_row] * self.within
        return self.inner.numbers.shift_statistics(inner, place[self.of_row], J)


class ShiftedCellLaws(MixedCellLaws):
    """Under a mixture of such components."""

    def __init__(self, mixed: Shifted, log_weights: Tensor) -> None:
        super().__init__(mixed, log_weights)
        self._shifted = mixed

    def number(self, x: Tensor, j: int) -> ColumnLaw:
        law = super().number(x, j)
        mixed = self._shifted
        if not mixed.places:
            return law
        by = mixed.moved(mixed.levels_of(x))[:, self._places[j]]
        return law._replace(mean=law.mean + by[:, None])

    def probabilities(self, x: Tensor, j: int) -> Tensor:
        mixed = self._shifted
        if j not in mixed.discrete[list(mixed.places)]:
            return super().probabilities(x, j)
        log_probs = []
        for level in range(self._counts[j]):
            rows = x.clone()
            rows[:, j] = level
            log_probs.append(torch.logsumexp(mixed.log_prob(rows) + self._log_weights, -1))
        return torch.softmax(torch.stack(log_probs, -1), -1)
