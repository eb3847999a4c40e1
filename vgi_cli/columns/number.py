"""Numbers: numeric and integer columns, rounded or not, with spikes, levels and bounds; and columns of one number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, fields
from functools import cached_property, reduce
from typing import Annotated, Any, ClassVar, final

import numpy as np
from pydantic import Field, PositiveFloat
from pydantic.dataclasses import dataclass

from vgi_cli.columns.base import (
    STRICT,
    Cells,
    Column,
    ConstantColumn,
    Empty,
    EnsembleScores,
    Finding,
    Limits,
    ModelledColumn,
    Point,
    Request,
    Scores,
)
from vgi_cli.columns.bounds import GIVEN, Bound
from vgi_cli.columns.form import Observed, form_of, kind_said
from vgi_cli.columns.heaps import Heaps
from vgi_cli.columns.lattice import (
    Lattice,
    Spike,
    cell_widths,
    levels_at,
    numbers_of,
    off_gaps,
    squeezed,
    stretched,
)
from vgi_cli.columns.levelled import codes_with_zeros
from vgi_cli.columns.limits import gaps_in_words, heaps_in_words, levels_in_words, limits_in_words
from vgi_cli.columns.notation import FORMS, LOOKED_AT, Notation, may_be_numbers, notation_of, readings
from vgi_cli.columns.numerals import (
    NUMERIC_SHARE,
    Bools,
    Floats,
    at_digits,
    at_fixed,
    at_least,
    mark,
    plain,
    write_numbers,
    write_powers,
    write_significant,
)
from vgi_cli.columns.scale import LinearCodec, Scale, codec
from vgi_cli.columns.singles import Single, single_of
from vgi_cli.columns.wording import (
    FAR_WARNED,
    MANY_WARNED,
    REFIT,
    beyond_words,
    different,
    example,
    kind_flag,
    number_hint,
    token_hint,
    unless_missing,
)
from vgi_cli.errors import InputError

WIDTH = 1 - 2e-6
"""Share of the resolution over which a value is spread: rounding errors of codecs must not reach its neighbours."""
ROUNDING = 4e-6
"""What float32 arithmetic may add to an encoded value of size 1."""
UNSPELLED = 17
"""More decimals than this are written with an exponent."""
FURTHEST = 1e15
"""Standard deviations from the values of the fit: beyond, float64 does not hold both."""


THREE, MANY_THREES = 3, 10
"""Whole numbers of a column that may be a genotype; and fewest such columns of which a table mostly consists."""


@dataclass(frozen=True, config=STRICT)
class Number(ModelledColumn):
    """A column of numbers; of kind `integer` where all are whole. Its encoded value is a smooth increasing function of
    the number, in one dimension. Where values `pile` up at an end (nothing spent, no rain) and this is split off, there
    is a discrete dimension before that: 1 where a cell is that value, else 0; the smooth function is then one of the
    other values alone, and a cell on the pile has no value there.

    low, high   least and greatest observed value, data units
    lower, upper  bounds of the fills, None where there is none
    lattice     the values of a rounded column, None where nothing is rounded
    dequantise  whether noise of one resolution is spread around each value before it is modelled
    spikes      values that are spread wider, smallest first
    pile        the value at an end that is a level of its own (see below), None where there is none
    levels      the values that alone can occur, smallest first: their numbers are modelled
    gaps        between which values no fill lies, smallest first (columns/lattice.py)
    heaps       multiples that are spread wider than what lies between (columns/heaps.py), None where there are none
    scale       codec state (of the values with room for the spikes, of the levels' numbers; without those on the pile)
    sharp       width over which a value is spread where others follow the number that is written, and not what was
                rounded to it (encoding/sharp.py); None: all that rounds to it
    sd          standard deviation of the observed values where there are spikes, levels, a pile or logarithms; else the
                scale's
    decimals    fewest decimals with which the table spells a number (`2.0`: 1, `1.50`: 2)
    digits      significant digits of all but a few values, for fills of a column without lattice
    notation    how its numbers are written, where they have more than digits; None: plainly
    significant  digits to which fills are rounded: of all but a few values where these have powers of ten, of all
                where large values have fewer decimals for that (`find_significant`); None: fills are not
    power       how its powers of ten are written, where most cells have one (`Spelling.power`)
    marks       signs and zeros of its numbers, where they are not as usual (`Spelling.marks`)
    fixed       decimals of each number that is not whole (`0.50` beside `12`); None: zeros at the end are left out
    single      how its numbers were decimal fractions, which they are here, before they were the float32 numbers that
                its cells hold (columns/singles.py); None where they are as they are written

    A column is dequantised when it is whole, when its resolution exceeds COARSE standard deviations, or when values
    repeat (`has_repeats`); then values that hold far more cells than their neighbours get room (see Spike).
    """

    words: ClassVar[tuple[str, ...]] = ("integer", "numeric")

    _: KW_ONLY
    low: float
    high: float
    lower: Bound | None = None
    upper: Bound | None = None
    lattice: Lattice | None = None
    dequantise: bool = False
    spikes: tuple[Spike, ...] = ()
    pile: float | None = None
    levels: tuple[float, ...] = ()
    gaps: tuple[tuple[float, float], ...] = ()
    heaps: Heaps | None = None
    scale: Scale
    sharp: PositiveFloat | None = None
    sd: PositiveFloat | None = None
    decimals: int = 0
    digits: int = 17
    notation: Notation | None = None
    significant: Annotated[int, Field(ge=1)] | None = None
    power: Annotated[str, Field(pattern=r"^([eE]\+?[1-9])?$")] = ""
    marks: Annotated[str, Field(pattern=r"^(\+0?)?\.?$")] = ""
    fixed: Annotated[int, Field(ge=1)] | None = None
    single: Single | None = None

    def __post_init__(self) -> None:
        if self.ends[0] > self.ends[1] or list(self.levels) != sorted(set(self.levels)):
            raise ValueError("columns do not fit together")
        if self.pile is not None and (self.lattice is None or self.levels or self.pile not in self.ends):
            raise ValueError("the pile does not fit its column")
        ends = [end for gap in self.gaps for end in gap]
        if ends != sorted(ends) or any(low >= high for low, high in self.gaps):
            raise ValueError("gaps do not fit together")
        if self.heaps is not None and (not self.dequantise or self.levels or self.heaps.resolution != self.resolution):
            raise ValueError("heaps do not fit their column")

    @classmethod
    def infer(cls, cells: Cells, asked: Request) -> Column | None:
        if cells.typed and asked.kind is None:
            return None
        missing, numbers = cells.missing, cells.numbers
        wrong = ~missing & ~numbers.number
        where = f"{cells.label}: column '{cells.name}'"
        if wrong.any():
            few = 1 - wrong.sum() / (~missing).sum() < NUMERIC_SHARE
            if asked.kind is None and (few or codes_with_zeros(cells)):
                return None
            what = f"{where} holds numbers, but also {example(cells, wrong)}"
            if asked.kind is not None:
                what = f"{kind_said(cells, asked)}, but the column holds {example(cells, wrong)}"
            raise InputError(what, token_hint(cells, wrong))
        infinite = np.isinf(numbers.values)
        if infinite.any():
            raise InputError(f"{where} holds an infinity: {example(cells, infinite)}", token_hint(cells, infinite))
        seen = ~missing if asked.rows is None else ~missing & asked.rows
        if not seen.any():
            return Empty(cells.name, "empty")
        return inferred(Observed(cells, asked, numbers.values[~missing], numbers.values[seen]))

    @property
    def fields(self) -> dict[str, Any]:
        """Its fields by name."""
        return {field.name: getattr(self, field.name) for field in fields(Number)}

    @property
    def request(self) -> str | None:
        """Whoever names the kind allows values between the levels."""
        if self.notation is not None and self.kind in Number.words:
            return f"{self.kind}:{self.notation.example}"
        return None if self.levels else self.kind

    @classmethod
    def check_detail(cls, word: str, detail: str) -> str | None:
        if word not in Number.words:
            return super().check_detail(word, detail)
        if notation_of(detail) is not None:
            return None
        return f"after the colon comes 1234.5 as the column writes it ({FORMS}), got '{detail}'"

    @property
    def summary(self) -> str:
        if self.levels:
            return f"only {', '.join(_dressed(self, list(map(plain, self.levels))))}"
        shown = 0 if self.whole and self.notation is None else self.decimals
        low, high = _dressed(self, [at_least(plain(end), shown) for end in (self.low, self.high)])
        return f"{'whole ' * self.whole}numbers, {low} to {high}"

    @property
    def whole(self) -> bool:
        """Whether its numbers are whole."""
        return self.kind == "integer"

    @property
    def steps(self) -> int | None:
        """How many whole numbers its fills may be, where these are few and follow each other; None: others may be."""
        few = self.whole and not self.levels and [bound.why for bound in self.bounds] == ["few", "few"]
        return round(self.ends[1] - self.ends[0]) + 1 if few else None

    @property
    def resolution(self) -> float | None:
        """Distance of neighbouring values, data units; None where nothing is rounded."""
        return None if self.lattice is None else self.lattice.resolution

    @property
    def step(self) -> float:
        """Width in data units over which a value is spread before it is modelled; 0 where it is not."""
        if self.sharp is not None:
            return self.sharp
        return self.lattice.resolution if self.dequantise and self.lattice is not None else 0.0

    @property
    def ranked(self) -> bool:
        """Whether it is the numbers of its levels that are modelled."""
        return bool(self.levels) and self.sharp is None

    @property
    def limits(self) -> Limits | None:
        return self.limits_by(plain)

    def limits_by(self, spell: Callable[[float], str]) -> Limits | None:
        """Where its fills stay, with `spell` for how a value is written in words; None where they may lie anywhere."""
        reasons = tuple(bound.why for bound in self.bounds)
        if self.levels:
            return Limits(reasons, levels_in_words(self.levels, spell))
        seen = self.low, self.high
        return Limits(reasons, limits_in_words(self.lower, self.upper, seen, spell)) if reasons else None

    @property
    def gaps_said(self) -> str:
        return gaps_in_words(self.gaps, plain)

    @property
    def heaps_said(self) -> str:
        return "" if self.heaps is None or self.lattice is None else heaps_in_words(self.heaps, self.lattice)

    @property
    def bounds(self) -> tuple[Bound, ...]:
        """Those that there are."""
        return tuple(bound for bound in (self.lower, self.upper) if bound is not None)

    @property
    def ends(self) -> tuple[float, float]:
        """The least and the greatest admissible fill, data units; infinite where there is no bound."""
        low = -np.inf if self.lower is None else self.lower.value
        return low, np.inf if self.upper is None else self.upper.value

    @property
    def given_ends(self) -> tuple[float, float]:
        """The same by what was asked for and what the file's type can hold alone, not by what the values suggest."""
        low, high = (bound if bound is not None and bound.why in GIVEN else None for bound in (self.lower, self.upper))
        return -np.inf if low is None else low.value, np.inf if high is None else high.value

    @property
    def width(self) -> int:
        return 1 if self.pile is None else 2

    @property
    def level_counts(self) -> tuple[int, ...]:
        return (0,) if self.pile is None else (2, 0)

    @property
    def tail_ends(self) -> tuple[float, float]:
        """The least and the greatest admissible fill off the pile: the next value that it can take, beyond a gap where
        there is one beside the pile."""
        least, most = self.ends
        if self.pile is None or self.lattice is None:
            return least, most
        side = 1 if self.pile == least else -1
        beside = [end for gap in self.gaps for end in gap[::side][1:] if self.on_pile(np.array(gap[::side][0]))]
        away = beside[0] if beside else self.lattice.beyond(self.pile, side)
        return (away, most) if side > 0 else (least, away)

    @cached_property
    def codec(self) -> LinearCodec:
        """The map between its values (or the levels' numbers) and encoded ones."""
        return codec(self.scale)

    @property
    def noisy(self) -> bool:
        return self.step > 0

    @property
    def deviation(self) -> float:
        """Standard deviation of the observed values, data units (1 without transform)."""
        return self.scale.sd if self.sd is None else self.sd

    @property
    def unit(self) -> float:
        """A dequantised column's probability is divided by its resolution again, so that the result depends neither on
        units nor on whether a column counts as rounded."""
        return float(np.log(self.deviation) - (0.0 if self.unrounded else np.log(self.step or 1.0)))

    @property
    def unrounded(self) -> bool:
        return self.lattice is not None and self.lattice.stand_in

    def codes(self, cells: Cells) -> Floats:
        return _read(self, cells).numbers.values

    @property
    def piles(self) -> tuple[float, ...]:
        """The values at which it piles up, smallest first: its spikes, and a pile that is a level of its own."""
        found = {spike.value for spike in self.spikes}
        return tuple(sorted(found if self.pile is None else found | {self.pile}))

    def on_pile(self, values: Floats) -> Bools:
        """[..] which values lie on the pile."""
        if self.pile is None or self.lattice is None:
            return np.zeros(values.shape, bool)
        return self.lattice.on(values, self.pile)

    def piled(self, codes: Floats) -> Bools:
        piled = self.on_pile(codes)
        for spike in self.spikes:
            piled = piled | spike.holds(codes, self.step)
        return piled & self.unrounded

    def valueless(self, codes: Floats) -> Bools | None:
        if self.pile is None:
            return None
        on = self.on_pile(codes)
        return np.stack([np.zeros_like(on), on], 1)

    def encode(self, codes: Floats, u: Floats | None) -> Floats:
        values = np.where(np.isnan(codes), self.low, codes)
        on = self.on_pile(values)
        values = np.where(on, self.high if self.pile == self.low else self.low, values)
        place = None if u is None else u[:, -1]
        if place is not None and self.ranked:
            values = numbers_of(values, self.levels) + (place - 0.5) * WIDTH
        elif place is not None:
            widths = self.step if self.heaps is None else self.heaps.width(values)
            values = stretched(values, place, self.spikes, self.step, self.heaps) + (place - 0.5) * (WIDTH * widths)
        z = self.codec.encode(values)
        return z[:, None] if self.pile is None else np.stack([on.astype(np.float64), z], 1)

    def decode(self, z: Floats) -> Floats:
        """The exact inverse of `encode` on values of a lattice, up to float64 rounding elsewhere. What lies in the box
        up to the rounding of float32 decodes into the bounds; what lies further out is not touched."""
        on, z = z[..., 0], z[..., -1]
        values = self._cell(z)
        if self.levels:
            return values
        values = off_gaps(values, self.gaps)
        low, high = self.box()[:, -1].tolist()
        inside = (z >= low - ROUNDING * (1 + abs(low))) & (z <= high + ROUNDING * (1 + abs(high)))
        values = np.where(inside, np.clip(values, *self.tail_ends), values)
        return values if self.pile is None else np.where(np.rint(on) == 1, self.pile, values)

    def _cell(self, z: Floats) -> Floats:
        """The value of the column that an encoded one z [..] rounds to, a fill or not."""
        values = self.codec.decode(z)
        return levels_at(values, self.levels) if self.ranked else self.snap(squeezed(values, self.spikes, self.heaps))

    def cell_ends(self, z: Floats) -> tuple[Floats, Floats]:
        if not self.noisy:
            return z, z
        values = self._cell(z[:, -1])
        low, high = (self.encode(values, np.full(z.shape, u)) for u in (0.0, 1.0))
        if self.pile is not None:
            low[:, 0] = high[:, 0] = z[:, 0]
        return low, high

    def recoded(self, z: Floats, other: ModelledColumn) -> Floats | None:
        spread = ("lattice", "dequantise", "spikes", "pile", "levels", "heaps", "sharp")  # what a cell is, unscaled
        if not isinstance(other, Number) or any(getattr(self, name) != getattr(other, name) for name in spread):
            return None
        if self.pile is None:
            return other.codec.encode(self.codec.decode(z))
        return np.stack([z[..., 0], other.codec.encode(self.codec.decode(z[..., 1]))], -1)

    def log_volume(self, z: Floats) -> Floats:
        """0 on the pile: what a model gives it is its probability."""
        out = self._log_volume(z[:, -1])
        return out if self.pile is None else np.where(np.rint(z[:, 0]) == 1, 0.0, out)

    def log_narrow(self, z: Floats) -> Floats:
        values = squeezed(self.codec.decode(z[:, -1]), self.spikes, self.heaps)
        piled = self.piled(values) if self.pile is None else self.piled(values) | (np.rint(z[:, 0]) == 1)
        return np.where(piled, 0.0, -np.log(self.step))

    def _log_volume(self, z: Floats) -> Floats:
        out = self.codec.log_det(z)
        if not self.noisy:
            return out
        widths: Floats | float = 1.0 if self.ranked or self.unrounded else self.step
        if self.spikes or self.heaps is not None:
            values = squeezed(self.codec.decode(z), self.spikes, self.heaps)
            widths = cell_widths(values, self.spikes, self.step, self.heaps)
            if self.unrounded:  # a density, but for what piles up
                widths = np.where(self.piled(values), widths, 1.0)
        return np.asarray(out + np.log(widths))

    def box(self) -> Floats:
        """A value of a lattice stands for everything that rounds to it."""
        both = np.array([[-np.inf], [np.inf]])
        if self.ranked:
            both[:, 0] = self.codec.encode(np.array([-0.5, len(self.levels) - 0.5]))
            return both
        ends = np.array(self.tail_ends)
        bounded = np.isfinite(ends)
        half = 0.0 if self.lattice is None else 0.5 * self.lattice.resolution
        edges = np.where(bounded, ends + np.array([-half, half]), 0.0)
        places = stretched(edges, 0.0, self.spikes, 0.0, self.heaps)
        both[bounded, 0] = self.codec.encode(places[bounded])
        return both if self.pile is None else np.concatenate([np.array([[0.0], [1.0]]), both], 1)

    def snap(self, codes: Floats) -> Floats:
        """Values at the resolution of the column, or on a spike; whole for integers; levels where these alone occur.
        Rounding does not leave the bounds."""
        if self.levels:
            return levels_at(numbers_of(codes, self.levels), self.levels)
        if self.lattice is None:
            return np.rint(codes) + 0.0 if self.whole else codes
        snapped = self.lattice.snap(codes)
        for spike in self.spikes:  # which need not be on a lattice that stands in for none
            snapped = np.where(spike.holds(codes, self.lattice.resolution), spike.value, snapped)
        if self.pile is not None:
            snapped = np.where(self.on_pile(codes), self.pile, snapped)
        half, (least, most) = 0.5 * self.lattice.resolution, self.ends
        inside = (codes >= least - half) & (codes <= most + half)
        return np.where(inside, np.clip(snapped, least, most), snapped)

    def held(self, codes: Floats) -> Floats:
        return codes if self.lattice is not None and self.lattice.stand_in and not self.levels else self.snap(codes)

    def written(self, codes: Floats) -> Floats:
        """Values with as many significant digits as the column's have, where these are few; those within the bounds
        stay there."""
        if self.significant is None:
            return codes
        rounded, (least, most) = at_digits(codes, self.significant), self.ends
        return np.where((codes >= least) & (codes <= most), np.clip(rounded, least, most), rounded)

    def point(self, draws: Floats, how: Point) -> Floats:
        """The mean is added up draw by draw, so that it does not depend on how many rows there are. Few draws of
        a number have no mode: their median stands for it."""
        return self.snap(reduce(np.add, draws) / len(draws) if how == "mean" else np.median(draws, 0))

    def spell(self, codes: Floats, fewest: int | None) -> list[str]:
        return _dressed(self, mark(at_fixed(self._digits(codes, fewest), self.fixed), self.marks))

    def _digits(self, codes: Floats, fewest: int | None) -> list[str]:
        texts = _spelled(self, codes, fewest)
        if self.bounds and ((self.lattice is None and not self.whole) or self.power):
            least, most = self.ends
            shown = np.array([float(text) for text in texts])
            left = (shown < np.minimum(least, codes)) | (shown > np.maximum(most, codes))
            for i in np.flatnonzero(left).tolist():  # a bound that has more digits
                texts[i] = plain(float(codes[i]))
        return texts

    def as_cells(self, codes: Floats) -> Floats:
        """The numbers that cells hold for values [..]: of those that went through 32 bits what these make of them."""
        return codes if self.single is None else self.single.written(codes)

    def cells(self, codes: Floats, fewest: int | None) -> list[str]:
        """The texts of cells, which `spell` shortens for messages where they went through 32 bits."""
        if self.single is None:
            return self.spell(codes, fewest)
        return mark(self.single.spell(codes, fewest or 0), self.marks)

    def numbers(self, codes: Floats) -> Floats | None:
        return codes

    def beside(self, codes: Floats, refused: Callable[[Floats], Bools]) -> Floats:
        """The next value towards the middle of the observed range; the nearest other level, where there are levels."""
        if self.levels:
            levels = np.array(self.levels)
            free = levels[~refused(levels)]
            return free[np.abs(free - codes[:, None]).argmin(1)] if len(free) else codes
        towards = np.where(codes < 0.5 * self.low + 0.5 * self.high, 1.0, -1.0)
        while (coded := refused(codes)).any():
            moved = np.where(coded, self.written(self.snap(codes + towards * self._apart(codes))), codes)
            if np.array_equal(moved, codes):
                break
            codes = moved
        return codes

    def _apart(self, values: Floats) -> Floats:
        """The distance of each value from the next one that is written in another way."""
        if self.resolution is not None:
            least = self.resolution
        else:
            least = 1.0 if self.whole else 1e-5 * self.deviation
        size = np.abs(values)
        digits = self.digits if self.lattice is None else self.significant
        shown = np.spacing(size) if digits is None else 10.0 ** (1 - digits) * size
        return np.asarray(np.maximum(least, np.maximum(shown, np.spacing(size))))

    def scores(self, draws: Floats, truth: Floats, ensemble: EnsembleScores) -> Scores:
        return ensemble(draws, truth)

    def findings(self, cells: Cells) -> Sequence[Finding]:
        cells = _read(self, cells)
        name, values = self.name, cells.numbers.values
        finite, lost, outside = np.isfinite(values), self.lost(values), self.outside(values)
        infinite, broken = np.isinf(values), finite & (values != np.rint(values)) & self.whole

        def hint(which: Bools) -> str:
            return token_hint(cells, which, fitted=True) if which.any() else ""

        texts = ~cells.missing & ~cells.numbers.number
        carry = f"a fit with `{kind_flag(name, 'carry')}` would carry it"
        return [
            Finding(
                texts,
                lambda what, _: f"column '{name}' is numeric in the fit but holds {what}",
                f"{self._plainly(cells, texts)}; {carry}" if texts.any() else "",
            ),
            Finding(infinite, lambda what, _: f"column '{name}' holds an infinity: {what}", hint(infinite)),
            Finding(
                lost,
                lambda what, _: f"column '{name}' holds {what}: too far from the fitted values to compute with",
                hint(lost),
            ),
            Finding(broken, lambda what, _: f"column '{name}' was whole in the fit but holds {what}"),
            Finding(outside, self._outside, several=True, warned=FAR_WARNED),
            Finding(
                self.beyond(values) & ~outside,
                lambda what, count: beyond_words(name, what, count, plain(self.low), plain(self.high)),
                warned=MANY_WARNED,
            ),
        ]

    def _plainly(self, cells: Cells, which: Bools) -> str:
        """What to do about the cells that are no numbers here."""
        if self.notation is None:
            return number_hint(cells, which)
        plainly = f"write it as in the fit: {self.spell(np.array([self.high]), None)[0]}"
        texts = different(cells, which)
        return plainly if len(texts) > 1 and may_be_numbers(texts) else unless_missing(cells, which, plainly)

    def lost(self, values: Floats) -> Bools:
        """[n] which values are too far from the fitted ones to compute with."""
        with np.errstate(over="ignore", invalid="ignore"):
            return np.isfinite(values) & (np.abs(values - self.low) > FURTHEST * self.deviation)

    def outside(self, values: Floats) -> Bools:
        """[n] which values are farther outside the observed range than that is wide."""
        width = self.high - self.low
        with np.errstate(over="ignore", invalid="ignore"):
            return np.isfinite(values) & ((values < self.low - width) | (values > self.high + width))

    def beyond(self, values: Floats) -> Bools:
        """[n] which values are outside the observed range."""
        return np.isfinite(values) & ((values < self.low) | (values > self.high))

    def _outside(self, what: str, count: int) -> str:
        return (
            f"column '{self.name}': {what} {'is' if count == 1 else 'are'} far outside the range of the fit, "
            f"{plain(self.low)} to {plain(self.high)}: other units, or a code for missing? Else {REFIT}"
        )


@final
@dataclass(frozen=True, config=STRICT)
class Constant(ConstantColumn):
    """A column of which one number was observed: its holes get that. The fields are those of Number."""

    _: KW_ONLY
    low: float
    high: float
    lattice: Lattice | None = None
    decimals: int = 0
    digits: int = 17
    notation: Notation | None = None

    @classmethod
    def infer(cls, cells: Cells, asked: Request) -> Column | None:
        """None: Number finds them."""
        return None

    @property
    def summary(self) -> str:
        [text] = self.spell(np.array([self.low]), None)
        return f"always {text}"

    @property
    def code(self) -> float:
        return self.low

    def spell(self, codes: Floats, fewest: int | None) -> list[str]:
        return _dressed(self, _spelled(self, codes, fewest))

    def numbers(self, codes: Floats) -> Floats | None:
        return codes


def mostly_threes(threes: int, columns: int) -> bool:
    """Whether a table is mostly of columns of three whole numbers that are modelled as quantities, `threes` of so
    many: genotypes, whose numbers are names of levels."""
    return threes >= MANY_THREES and 2 * threes >= columns


def as_written(cells: Cells, asked: Request) -> Cells:
    """The cells of a column, as numbers where all of them are written in one notation (columns/notation.py), or in that
    which was asked for; as decimal fractions where they were such (columns/singles.py); else as they are."""
    if asked.kind in Number.words and asked.detail is not None:
        notation = notation_of(asked.detail)
        if notation is None or not cells.textual:
            return cells
        return cells.read_as(notation.of_column(cells.distinct.texts))
    if asked.kind not in (None, *Number.words, "bounded", "zero-inflated") or (asked.kind is None and cells.dictionary):
        return cells
    found = notations_in(cells, ~cells.missing)
    if len(found) == 1:
        return cells.read_as(found[0])
    if not cells.textual or cells.typed or not cells.numbers.number[~cells.missing].all():
        return cells
    single = single_of(cells.numbers.values[~cells.missing])
    return cells if single is None else cells.read_short(single)


def notations_in(cells: Cells, which: Bools, *, codes: bool = False) -> list[Notation]:
    """The notations in which some cells [N] of a column, all of them, are numbers: see `readings`."""
    if not cells.textual or not which.any() or cells.numbers.number[which].all():
        return []
    some = cells.texts(np.flatnonzero(which)[:LOOKED_AT])
    if not may_be_numbers(str(text).strip() for text in some):
        return []
    texts, places = cells.distinct
    held = [texts[place].strip() for place in np.unique(places[which & (places >= 0)]).tolist()]
    return readings(held, cells.decimal, codes=codes)


def _read(column: Number, cells: Cells) -> Cells:
    """The cells of another table, as the column's are read."""
    if column.single is not None and cells.textual:
        return cells.read_short(column.single)
    return cells if column.notation is None or not cells.textual else cells.read_as(column.notation)


def _dressed(column: Number | Constant, texts: list[str]) -> list[str]:
    return texts if column.notation is None else [column.notation.dress(text) for text in texts]


def _spelled(column: Number | Constant, values: Floats, fewest: int | None) -> list[str]:
    """Texts of values that are at the column's resolution."""
    lattice, fewest = column.lattice, min(column.decimals if fewest is None else fewest, UNSPELLED)
    if isinstance(column, Number) and column.power:
        return write_powers(values, column.digits, column.power)
    if lattice is not None and 0 <= lattice.decimals <= UNSPELLED:
        texts = write_numbers(values, fewest=fewest, most=max(lattice.decimals, fewest))
        off = np.flatnonzero(lattice.snap(values) != values)  # a bound that is on no lattice
        for i in off.tolist():
            texts[i] = plain(float(values[i]))
        return texts
    if isinstance(column, Number) and column.whole:
        return write_numbers(values, fewest=fewest, most=fewest)
    return [plain(v) for v in values.tolist()] if lattice is not None else write_significant(values, column.digits)


def number_asked(cells: Cells, asked: Request, spike: float | None = None) -> Column:
    """A column that was asked for as numbers, of a kind that says more of them; `spike`: a value that gets room however
    many cells hold it. InputError where some cells are no numbers."""
    missing, numbers = cells.missing, cells.numbers
    wrong = ~missing & ~(numbers.number & np.isfinite(numbers.values))
    if wrong.any():
        message = f"{kind_said(cells, asked)}, but the column holds {example(cells, wrong)}"
        raise InputError(message, token_hint(cells, wrong))
    seen = ~missing if asked.rows is None else ~missing & asked.rows
    if not seen.any():
        return Empty(cells.name, "empty")
    every = numbers.values[~missing]
    kind = "integer" if bool((every == np.rint(every)).all()) else "numeric"
    return inferred(Observed(cells, asked._replace(kind=kind), every, numbers.values[seen], spike=spike))


def inferred(observed: Observed) -> Number | Constant:
    """The column that numbers were observed of. InputError and UsageError where there is none: see Observed."""
    observed.refuse_broken()
    cells, low, high = observed.cells, float(observed.values.min()), float(observed.values.max())
    if low == high:
        return Constant(
            cells.name,
            "constant",
            low=low,
            high=high,
            lattice=observed.lattice,
            decimals=observed.fewest,
            digits=observed.digits,
            notation=cells.notation,
        )
    return Number(
        cells.name,
        "integer" if observed.integer else "numeric",
        low=low,
        high=high,
        **form_of(observed.usable())._asdict(),
        decimals=observed.fewest,
        digits=observed.digits if observed.power else max(observed.digits, 6),
        notation=cells.notation,
        power=observed.power,
        marks="" if cells.spelling is None else cells.spelling.marks,
        fixed=None if cells.spelling is None else cells.spelling.fixed,
        single=cells.shortened,
    )
