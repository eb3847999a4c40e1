"""Sums and products with simple weights that hold in every row, exactly or as far as columns are rounded."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, Self, get_args

import numpy as np

from vgi_cli.columns.base import ModelledColumn
from vgi_cli.columns.datetime import Moment
from vgi_cli.columns.numerals import Bools, Floats, Ints
from vgi_cli.columns.places import evenly
from vgi_cli.columns.relations import PARTS_OF_ONE, HalfWay, Relation, factors_of, halves_at
from vgi_cli.columns.schema import Schema
from vgi_cli.encoding.digits import MANY, significant_of
from vgi_cli.encoding.redundant import codes_of, half_digit
from vgi_cli.table.base import Table

FLOAT, TICK = 1e-13, 1e-3
"""Share of the size of its terms by which arithmetic may be off; of a column's last digit this share at most."""
FEW_DIGITS, MOST_DIGITS = 4, 15
"""Weights that are tried beside parts of one: numbers of few significant digits, and then of more."""
BETTER, BY_CHANCE = 0.99, 5.0
"""Others that leave as much as this share do not replace simpler ones; nor do those that leave less, where what is left
is rounding, by so many times the share of a row in all: the greatest of so many is as much less than half a digit."""
MOST_POWER = 3
"""Greatest power in a product."""
TIE = 1e-6
"""By this share of half a digit what is rounded may be off beyond that: half way is either value."""
NEARLY = 1e-3
"""What lies so near to half way, as a share of that, does not tell either."""
MOST_TIES = 0.25
"""Share of the rows in which what is rounded may lie half way between two values, where no way of rounding says which
of them it becomes."""
FEWEST_TIES = 3
"""Rows half way between two values, fewest, that are all rounded away from zero, or to the even digit: so are others
then."""
OPEN = 0.1
"""Of a column's standard deviation half a digit of what is rounded down or up is no more, nor what rounding of all
leaves open: with scales of few points much agrees by chance."""
CLOSE = 1.5
"""Of half a digit, what least squares may leave at most where other weights are looked for."""
Way = Literal["exact", "rounded", "all rounded"]
WAYS: tuple[Way, ...] = get_args(Way)
"""How a relation holds: up to the rounding of arithmetic, to half of the first column's last digit, or of all that it
is a sum of as well."""
FEWER = 2
"""A factor is the inverse of a number that has so many digits less, or it is one itself."""
SHORT, FEWEST_VALUES = 3, 30
"""Digits of a factor, or of its inverse, at most, where half a digit is a large part of what is rounded, and different
values of the other column, fewest."""
LONGEST = 7
"""Digits of the factor of a line through zero, most, where another line has a constant with more decimals than its
column."""
STANDARD_ERRORS = 3.0
"""Of the mean of what rounding leaves, the constant of a sum in which all columns are rounded lies near to it."""
MOST_ROWS = 2_000
"""Rows by which weights are found, evenly spread; all rows are asked whether what is found holds."""


class Digits(NamedTuple):
    """How the columns of a relation are rounded.

    halves       [columns] half of what their last digits count, data units
    largest      [columns] the same of their largest cells, where these have fewer decimals
    significant  see `Relation`
    sided        whether the first column may be rounded down, or up, rather than to the nearest value
    """

    halves: Floats
    largest: Floats
    significant: int | None
    sided: bool

    @property
    def rounded(self) -> bool:
        """Whether the first column is."""
        return self.halves[0] > 0 or self.significant is not None

    def at(self, places: Sequence[int]) -> Digits:
        """Those of some columns, of which the first one stays it."""
        return self._replace(halves=self.halves[places], largest=self.largest[places])

    def of(self, first: Floats, side: int = 0) -> Floats:
        """[n] half of the last digits of cells of the first column [n]; `side`: see `halves_at`."""
        return halves_at(first, float(self.halves[0]), self.significant, side)

    def slack(self, weights: Floats) -> float:
        """How much farther a sum with such weights of the others may be off, where all are rounded."""
        return float(np.abs(weights) @ self.largest[1:] + self.largest[0] - self.halves[0])


class CodedRows:
    """Rows of a table in which relations are looked for, each column read once.

    columns  the modelled ones, by name
    """

    def __init__(
        self, columns: Mapping[str, ModelledColumn], codes: Callable[[str], Floats], largest: Callable[[str], _Largest]
    ) -> None:
        self.columns, self._codes, self._largest = columns, codes, largest

    @classmethod
    def of(cls, table: Table, schema: Schema) -> Self:
        """All rows of a table."""
        columns = {column.name: column for column in schema.encoded}
        codes = functools.cache(lambda name: codes_of(table, columns[name]))
        return cls(columns, codes, functools.cache(lambda name: _largest(columns[name], codes(name))))

    def some(self, rows: Ints) -> CodedRows:
        """Some of them."""
        return CodedRows(self.columns, functools.cache(lambda name: self._codes(name)[rows]), self._largest)

    def codes(self, names: Sequence[str]) -> Floats:
        """[n, names] the codes of some columns, NaN where a cell is missing."""
        return np.stack([self._codes(name) for name in names], 1)

    def digits(self, names: Sequence[str]) -> Digits:
        """How some columns are rounded."""
        own = [self.columns[name] for name in names]
        halves, largest = np.array([half_digit(column) for column in own]), [self._largest(name) for name in names]
        significant = largest[0].significant
        sided = significant is None and halves[0] > 0 and not any(_is_date(column) for column in own)
        return Digits(halves, np.array([one.half for one in largest]), significant, sided)


def _is_date(column: ModelledColumn) -> bool:
    """Whether a column is of dates, with a time or not: of durations and times of day numbers may be rounded down."""
    return isinstance(column, Moment) and column.clock.what in ("date", "datetime")


class _Largest(NamedTuple):
    """The significant digits of a column (see `Relation`), and half of what the last one of its largest cell counts,
    where they are so many that all cells may be taken for rounded to that."""

    significant: int | None
    half: float


def _largest(column: ModelledColumn, codes: Floats) -> _Largest:
    """That of a column with codes [N]."""
    half, digits = half_digit(column), significant_of(column, codes)
    if digits is None or digits < MANY:
        return _Largest(digits, half)
    return _Largest(digits, float(halves_at(np.nanmax(np.abs(codes)), half, digits)))


def noise_of(size: Floats, resolution: float) -> Floats:
    """By what arithmetic with terms of some size may be off, in a column of that resolution (0: none)."""
    return np.minimum(FLOAT * size, TICK * resolution if resolution else np.inf)


def sum_of(names: tuple[str, ...], x: Floats, digits: Digits, way: Way, *, plain: bool) -> Relation | None:
    """The first of the columns x [n, columns] as a sum of the others, with simple weights, where no row departs from it
    in some way: not at all, by more than half of what its last digit counts, or of what all of them count;
    None where some row does. `plain`: weights are parts of one."""
    scale, some = np.abs(x).max(0), some_rows(x)
    y, others = some[:, 0] / scale[0], some[:, 1:] / scale[1:]
    sd = others.std(0)
    if not (np.isfinite(sd) & (sd > 0)).all():
        return None
    z, centred = (others - others.mean(0)) / sd, y - y.mean()
    squares = np.linalg.lstsq(z, centred, rcond=None)[0]
    left, fit = np.sqrt(np.mean(np.square(centred - z @ squares))), squares / sd * scale[0] / scale[1:]
    half = _open(some[:, 0], digits, fit, way)
    if left > max(
        np.sqrt(np.mean(np.square(half))) / scale[0],
        FLOAT * np.sqrt(np.mean(np.square(y)) + len(sd) * np.abs(squares / sd).max() ** 2),
    ):
        return None  # no other sum has its largest departure within that
    found = _simple(names, x, fit, digits, way, plain=plain)
    if found is None and plain and way == "rounded" and len(fit) == 1:
        return _short_line(names, x, digits)
    close = (np.abs(centred - z @ squares) <= CLOSE * half / scale[0]).all()
    if found is None and half.any() and not plain and close:
        found = _simple(names, x, _closest(z, centred) / sd * scale[0] / scale[1:], digits, way, plain=plain)
    return found


def _open(first: Floats, digits: Digits, weights: Floats, way: Way, side: int = 0) -> Floats:
    """[n] how far cells of the first column [n] may be from a sum with such weights, by half of last digits; `side`:
    see `halves_at`."""
    if way == "all rounded":
        return np.full(len(first), (digits.halves[0] + digits.slack(weights)) * (1 + TIE))
    return np.zeros(len(first)) if way == "exact" else digits.of(first, side) * (1 + TIE)


def _simple(
    names: tuple[str, ...], x: Floats, fit: Floats, digits: Digits, way: Way, *, plain: bool
) -> Relation | None:
    """The first of the columns x [n, columns] as a sum of the others, with weights near to those of a fit: of simple
    weights those by which the largest departure is least, else those with the fewest digits (simple ones alone where
    all columns are rounded). What has no weight is no part of it. None where none do."""
    y, others, exact = x[:, 0], x[:, 1:], way == "exact"
    best, least = None, np.inf
    inverses = _inverses(y, others[:, 0], digits) if way == "rounded" and digits.sided and len(fit) == 1 else []
    for weights, simple, inverse in itertools.islice(_near(fit, inverses), PARTS_OF_ONE if plain else None):
        if not simple and (best is not None or way == "all rounded"):
            break
        left, half = y - others @ weights, _open(y, digits, weights, way)
        over, under = (_open(y, digits, weights, way, side) for side in (1, -1))
        if exact:
            over = under = noise_of(np.abs(y) + np.abs(others) @ np.abs(weights), 2 * float(digits.halves[0]))
        low, high = float((left - under).max()), float((left + over).min())
        if way == "all rounded":  # what rounding leaves has a mean of 0
            spread = np.sqrt(np.square(np.abs([1.0, *weights]) * digits.largest).sum() / 3)
            error = STANDARD_ERRORS * float(spread) / np.sqrt(len(left))
            low, high = max(low, float(left.mean()) - error), min(high, float(left.mean()) + error)
        constant = shortest(low, high)
        parts = np.flatnonzero(weights)
        if constant is None or not len(parts) or not np.isfinite(weights).all():
            continue
        own = (1.0, *(-weights[parts]).tolist())
        some = (names[0], *(names[1 + part] for part in parts))
        slack = digits.slack(weights) if way == "all rounded" else 0.0
        shift, constant = _rounded_to_side(left, y.std(), constant, digits) if way == "rounded" else (0.0, constant)
        relation = Relation(
            names=some,
            weights=own,
            constant=constant,
            rounded=not exact,
            slack=slack,
            shift=shift,
            significant=digits.significant if way == "rounded" else None,
        )
        slight = (np.abs(weights[parts]) * np.ptp(others[:, parts], axis=0) < 2 * digits.halves[0]).any()
        chance = way == "rounded" and slight and (shift or not _on_digits(constant, digits))
        if (inverse and not shift) or chance:
            continue  # what makes no digit of a difference is no part of what is rounded oddly
        away = float(np.ptp(left)) / 2 if shift else float(np.abs(left - constant).max())
        plainer = bool(shift) and best is not None and not best.shift and not _on_digits(best.constant, digits)
        better = min(BETTER, 1 - BY_CHANCE / len(x)) if way == "rounded" and not shift else BETTER
        if (away < better * least or plainer) and (
            way != "rounded" or shift or not _tied(relation, x[:, [0, *(1 + parts)]], half)
        ):
            best, least = relation, away
    between = best is not None and digits.halves[0] > 0 and not _on_digits(best.constant, digits)
    odd = best is None or (not best.shift and (between or _digits(best) > FEW_DIGITS))
    if way == "rounded" and len(fit) == 1 and odd and not plain:
        line = _through_zero(names, x, digits, (0.0,))
        if line is not None and (best is None or _digits(line) <= (LONGEST if between else _digits(best))):
            return line
    return best


def _short_line(names: tuple[str, ...], x: Floats, digits: Digits) -> Relation | None:
    """As `_through_zero`, rounded to the nearest value, down or up, where the factor has few digits, and the other
    column enough values: a scale of few points is a part of many others."""
    if len(np.unique(x[:, 1])) < FEWEST_VALUES:
        return None
    sides = _sides(float(digits.halves[0])) if digits.sided and (x >= 0).all() else ()
    line = _through_zero(names, x, digits, (0.0, *sides))
    return line if line is not None and is_short(line) else None


def is_short(relation: Relation) -> bool:
    """Whether a relation is a line through zero whose factor, or the inverse of that, has few digits."""
    return len(relation.weights) == 2 and not relation.constant and digits_of_factor(relation.weights[1]) <= SHORT


def _through_zero(names: tuple[str, ...], x: Floats, digits: Digits, shifts: Sequence[float]) -> Relation | None:
    """The first of two columns x [n, 2] as so many times the other one, rounded, or the inverse of a number; of some
    shifts (see `Relation`) the one with the fewest digits; None where no row may depart from it, and some does."""
    y, other, half = x[:, 0], x[:, 1], float(digits.halves[0])
    over, under = (digits.of(y, side) * (1 + TIE) for side in (1, -1))
    rows, found = other != 0, list[Relation]()
    for shift in shifts if rows.any() else ():
        least, greatest = _on_side(shift, half) if shift else (-over, under)
        ends = np.stack([y - shift - greatest, y - shift - least], 1)[rows] / other[rows, None]
        factor = shortest_factor(float(ends.min(1).max()), float(ends.max(1).min()))
        if not factor:
            continue
        relation = Relation(
            names=names,
            weights=(1.0, -factor),
            rounded=True,
            shift=shift,
            significant=digits.significant,
        )
        left = factor * other - (y - shift)
        if (left >= -greatest).all() and (left <= -least).all() and (shift or not _tied(relation, x, over)):
            found.append(relation)
    return min(found, key=_digits, default=None)


def _digits(relation: Relation) -> int:
    """The significant digits of a line: of its factor, or the inverse of that, and its constant."""
    return digits_of_factor(relation.weights[1]) + digits_in(relation.constant)


def _rounded_to_side(left: Floats, spread: float, constant: float, digits: Digits) -> tuple[float, float]:
    """By how much what a rounded sum leaves [n] is shifted, and its constant, where it is rounded to one side rather
    than to the nearest value: its constant is a value of its column then, and is none otherwise. `spread`: the
    standard deviation of the column."""
    half = float(digits.halves[0])
    if not digits.sided or half > OPEN * spread:
        return 0.0, constant
    tied = (np.abs(left - constant) > (1 - NEARLY) * half).mean() > MOST_TIES
    if not tied and _on_digits(constant, digits):
        return 0.0, constant
    found = []
    for shift in _sides(half):
        other = 2 * half * float(np.rint((0.5 * (left.max() + left.min()) - shift) / (2 * half)))
        least, most = _on_side(shift, half)
        if (left - other - shift >= least).all() and (left - other - shift <= most).all():
            found.append((shift, float(f"{other:.{MOST_DIGITS}g}")))
    return min(found, key=lambda one: abs(one[1]), default=(0.0, constant))


def _on_digits(constant: float, digits: Digits) -> bool:
    """Whether the constant of a rounded sum has no more decimals than its first column."""
    steps = constant / (2 * digits.halves[0])
    return bool(abs(steps - np.rint(steps)) < TIE)


def _inverses(y: Floats, other: Floats, digits: Digits) -> list[float]:
    """The weights of one column [n] with which a part of another one [n], as long as 365.25 of a day, say, goes into it
    so many times, rounded down or up."""
    half, rows, found = float(digits.halves[0]), other > 0, []
    for shift in _sides(half) if (other >= 0).all() else ():
        least, most = _on_side(shift, half)
        low = float(((y - shift - most)[rows] / other[rows]).max(initial=0.0))
        high = float(((y - shift - least)[rows] / other[rows]).min(initial=np.inf))
        if 0 < low <= high < np.inf and (length := shortest(1 / high, 1 / low)):
            found.append(1 / length)
    return found


def _sides(half: float) -> tuple[float, float]:
    """What is added to numbers before they are rounded to the nearest value, so that they are rounded down, and up:
    half a digit, but for a little."""
    return -half * (1 - TIE), half * (1 - TIE)


def _on_side(shift: float, half: float) -> tuple[float, float]:
    """From where to where what is so shifted is off: a number that is rounded down may be a value of the column itself,
    and is no whole digit above it."""
    ends = half * (1 + TIE), half * (1 - 3 * TIE)
    return (-ends[1], ends[0]) if shift < 0 else (-ends[0], ends[1])


def _near(fit: Floats, inverse: Sequence[float] = ()) -> Iterator[tuple[Floats, bool, bool]]:
    """Weights near to those of a fit, and these, whether they are simple, whole parts of one, and few digits, and
    whether they are the `inverse` of such, which are tried between these and others."""
    for parts in range(1, PARTS_OF_ONE + 1):
        yield np.rint(fit * parts) / parts, True, False
    for digits in range(1, MOST_DIGITS + 1):
        if digits == FEW_DIGITS + 1:
            yield from ((np.array([weight]), True, True) for weight in inverse)
        yield np.array([float(f"{weight:.{digits - 1}e}") for weight in fit]), digits <= FEW_DIGITS, False
    yield fit, False, False


def some_rows(x: Floats) -> Floats:
    """MOST_ROWS of some rows, evenly spread."""
    return x[evenly(len(x), MOST_ROWS)]


def _closest(z: Floats, y: Floats) -> Floats:
    """[columns] the weights by which the largest departure of y [n] from a sum of z [n, columns] and a constant is
    least."""
    from scipy.optimize import linprog

    sums, scale = np.c_[z, np.ones(len(z))], y.std()
    sides = np.c_[np.concatenate([sums, -sums]), -np.ones(2 * len(z))]
    cost, ends = np.eye(sides.shape[1])[-1], np.concatenate([y, -y]) / scale
    solved = linprog(cost, sides, ends, bounds=(None, None))
    weights = solved.x[:-2] * scale if solved.success else np.zeros(z.shape[1])
    return np.asarray(weights)


def product_of(
    names: tuple[str, ...], x: Floats, digits: Digits, exact: bool, percent: tuple[float, ...] = ()
) -> Relation | None:
    """The first of the columns x [n, columns] as a product of powers of the others, as `_sum`. Powers are whole numbers
    up to MOST_POWER, and up to two of columns with negative cells; 1 of those that are a share (`percent`: see
    `Relation`)."""
    cells, x = x, factors_of(x, percent) if percent else x
    rows = (x != 0).all(1)
    above = np.abs(x[rows])
    logs = np.log(above) - np.log(above).mean(0)
    if len(above) <= x.shape[1] or not (logs[:, 1:].std(0) > 0).all():
        return None
    powers = np.rint(np.linalg.lstsq(logs[:, 1:], logs[:, 0], rcond=None)[0])
    if not powers.all() or np.abs(powers).max() > MOST_POWER or (np.abs(powers)[(x[:, 1:] < 0).any(0)] > 2).any():
        return None
    if percent and (np.abs(powers)[np.array(percent[1:]) != 0] != 1).any():
        return None
    change = abs(percent[0]) if percent else 0.0
    y, others, half = above[:, 0], np.prod(above[:, 1:] ** powers, 1), float(digits.halves[0]) / (change or 1.0)
    over, under = (
        noise_of(2 * y, 2 * half) if exact else digits.of(np.abs(cells[rows, 0]), side) / (change or 1.0) * (1 + TIE)
        for side in (1, -1)
    )
    sided = digits.sided and not exact and not change and (x[:, 0] >= 0).all() and half <= OPEN * x[:, 0].std()
    either: Relation | None = None
    for shift in (0.0, *_sides(half)) if sided else (0.0,):
        least, greatest = _on_side(shift, half) if shift else (-over, under)
        low, high = float(((y - shift - greatest) / others).max()), float(((y - shift - least) / others).min())
        constant = shortest_factor(low, high)
        if constant is None or constant <= 0:
            continue
        relation = Relation(
            names=names,
            how="product",
            weights=(1.0, *(-powers).tolist()),
            constant=constant,
            rounded=not exact,
            shift=shift,
            percent=percent,
            significant=None if exact else digits.significant,
        )
        defined = cells[~relation.undefined(cells)]
        if exact or shift or not _tied(relation, defined, digits.of(defined[:, 0]) * (1 + TIE)):
            return relation
        either = relation if sided else None  # rounded down or up it may hold too, and be nearer
    return either


def _tied(relation: Relation, x: Floats, half: Floats) -> bool:
    """Whether what the others say lies half way between two values in many rows x [n, columns], and no way of rounding
    explains which of these it becomes."""
    rows = x[half_way(relation, x, half)]
    return len(rows) > MOST_TIES * len(x) and not explained_ties(relation, rows)


def half_way(relation: Relation, x: Floats, half: Floats) -> Bools:
    """In which rows x [n, columns] what the others say lies half way between two values, which are twice `half` [n]
    apart."""
    return np.asarray(np.abs(x[:, 0] - relation.solved(x, 0, x[:, 0])) > (1 - NEARLY) * half)


def explained_ties(relation: Relation, rows: Floats) -> bool:
    """Whether rows [n, columns] half way between two values are all rounded in one way: away from zero (as spreadsheets
    do), to the even digit, or as binary numbers that are a little more or less than what they are written
    as."""
    y, said = rows[:, 0], relation.solved(rows, 0, rows[:, 0])
    if _away(y, said).all() or _is_even(y, said).all():
        return True
    written = np.array([float(f"{value:.{MOST_DIGITS}g}") for value in said.tolist()])
    places = [int(place) for place in np.rint(-np.log10(2 * np.abs(y - said)))]
    every = list(zip(written, y, places, strict=True))
    exact = (round(float(value), place) == own for value, own, place in every)
    return all(exact) or all(np.round(value, place) == own for value, own, place in every)


def half_way_to(relation: Relation, x: Floats, half: Floats) -> HalfWay | None:
    """What becomes of what lies half way between two values in rows x [n, columns]; None where too few are, or not all
    are rounded alike. `half` [n]: how far these may be off."""
    rows = x[half_way(relation, x, half)]
    y, said = rows[:, 0], relation.solved(rows, 0, rows[:, 0])
    if len(rows) < FEWEST_TIES:
        return None
    return "even" if _is_even(y, said).all() else "away" if _away(y, said).all() else None


def _away(y: Floats, said: Floats) -> Bools:
    """[n] whether values y [n] are farther from zero than what is `said` [n] of them."""
    return np.asarray((y - said) * np.sign(said) > 0)


def _is_even(y: Floats, said: Floats) -> Bools:
    """[n] whether values y [n], half a digit from what is `said` [n] of them, are even in that digit."""
    return np.asarray(np.mod(np.rint(0.5 * y / np.abs(y - said)), 2) == 0)


def shortest(low: float, high: float) -> float | None:
    """The number with the fewest digits from low to high, 0 where that is one; None where none is."""
    if not -np.inf < low <= high < np.inf:
        return None
    if low <= 0 <= high:
        return 0.0
    for digits in range(MOST_DIGITS):
        if low <= (number := float(f"{0.5 * (low + high):.{digits}e}")) <= high:
            return number
    return 0.5 * (low + high)


def shortest_factor(low: float, high: float) -> float | None:
    """The same, or what a number with FEWER digits less is the inverse of: what is divided by 0.86 is more often that
    than multiplied by 1.1628."""
    number = shortest(low, high)
    if number is None or low * high <= 0:
        return number
    other = shortest(*sorted((1 / low, 1 / high)))
    return number if other is None or digits_in(other) + FEWER > digits_in(number) else 1 / other


def digits_in(number: float) -> int:
    """The significant digits of a number, none of 0."""
    digits = f"{abs(number):.{MOST_DIGITS - 1}e}".split("e")[0].replace(".", "").rstrip("0")
    return len(digits)


def digits_of_factor(factor: float) -> int:
    """The significant digits of a factor, or of its inverse where these are fewer."""
    return min(digits_in(factor), digits_in(1 / factor))
