"""Dates (and months, quarters, weeks), datetimes, times of day and durations: numbers of days or seconds to a model,
written back as they were."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY
from typing import NamedTuple, cast, final

import numpy as np
from pydantic.dataclasses import dataclass

from vgi_cli.columns import worded
from vgi_cli.columns.base import (
    STRICT,
    Asked,
    Carried,
    Cells,
    Column,
    ConstantColumn,
    Empty,
    Encoding,
    EnsembleScores,
    Finding,
    Limits,
    ModelledColumn,
    Point,
    Request,
    Scores,
)
from vgi_cli.columns.clock import (
    DAY,
    DECIMAL,
    DECIMALS,
    FORMATS,
    ISO,
    ISO_PERIODS,
    Clock,
    GivenTexts,
    Reading,
    candidates,
    format_problem,
    formats_in,
    is_period,
    like,
    looks_long,
    mixed,
    named_long,
    names_of,
    read,
    text_clock,
    to_unit,
    typed_clock,
    within_calendar,
    without_weekday,
    zone_known,
)
from vgi_cli.columns.form import Measure, Observed
from vgi_cli.columns.levelled import few
from vgi_cli.columns.limits import gaps_in_words
from vgi_cli.columns.months import ENGLISH
from vgi_cli.columns.number import Constant, Number, inferred
from vgi_cli.columns.numerals import Bools, Floats, Ints, Tick, What
from vgi_cli.columns.periods import PERIODS
from vgi_cli.columns.wording import (
    FAR_WARNED,
    MANY_WARNED,
    REFIT,
    beyond_words,
    different,
    example,
    first_cell,
    kind_flag,
    missing_hint,
    share_of,
    typed,
    unless_missing,
)
from vgi_cli.errors import InputError, UsageError

LOOKED_AT = 200
"""Cells of a text column that are looked at before all are read."""
LONGEST = 40
"""Characters of a moment at most."""
WIDE = 50
"""Years from the first to the last one of a column of two digits, beyond which a line asks whether it was meant so."""
YEARS = 1500, 2500
"""Of months, quarters and weeks that nobody says to be such."""
MOSTLY = 0.9
"""From this share of moments on, a column that is not all moments is carried, with a line."""
NOON, FEWEST_TIMES = 43_200, 10
"""Seconds since midnight, and fewest cells of which it can be said that they may be no times of day."""
WHATS: tuple[What, ...] = ("date", "datetime", "time", "duration")
_READ = ("date", "datetime", "time")


@final
@dataclass(frozen=True, config=STRICT)
class Moment(ModelledColumn):
    """A column of dates, datetimes, times of day or durations: of kind `date`, `datetime`, `time` or `duration`. The
    code of a cell is its value: days (of dates; or months, quarters, weeks) or seconds since the first observed moment,
    since the day begins (times of day: at midnight, or in the hours without any), or of the duration.

    clock   how its cells are read, counted and spelled
    number  its values, as a column of numbers
    """

    words = WHATS

    _: KW_ONLY
    clock: Clock
    number: Number

    @property
    def request(self) -> str:
        """`date:%d/%m/%Y`: what after `--column NAME=` gives this kind again."""
        what = self.clock.what
        return what if what == "duration" else f"{what}:{self.clock.format.replace('%-', '%')}"

    @property
    def summary(self) -> str:
        """`31/01/2020 to 12/12/2021`: the observed range."""
        return " to ".join(self.clock.spell(np.array([self.number.low, self.number.high])))

    @classmethod
    def check_detail(cls, word: str, detail: str) -> str | None:
        if word == "duration":
            return f"a duration has no format, got '{detail}'"
        return format_problem(cast(What, word), detail)

    @classmethod
    def infer(cls, cells: Cells, asked: Request) -> Column | None:
        known = _typed(cells, asked) if cells.moments is not None else _texts(cells, asked)
        if known is None:
            return None
        if isinstance(known, Carried):
            return known
        clock, values = known
        ns = cells.moments is not None and cells.moments.unit == "ns"
        measured = cells.measured(values, clock.limits(ns))
        if asked.bounds is not None and asked.bounds.rule == "range":
            asked = asked._replace(bounds=_limits(cells, clock, values, asked.bounds, measured.limits))
        observed = ~cells.missing
        seen = observed if asked.rows is None else observed & asked.rows
        if not seen.any():
            return Empty(cells.name, "empty")
        every = values[observed]
        kind = None if asked.kind is None else "integer" if bool((every == np.rint(every)).all()) else "numeric"
        measure = Measure(DECIMALS[clock.unit], clock.step, clock.what == "duration")
        number = inferred(Observed(measured, asked._replace(kind=kind), every, values[seen], measure))
        if isinstance(number, Constant):
            return ConstantMoment(cells.name, "constant-moment", clock=clock, value=number.low)
        return cls(cells.name, clock.what, clock=clock, number=number)

    @property
    def limits(self) -> Limits | None:
        """Nothing of what the calendar, the day or the file's type limits."""
        if (limits := self.number.limits) is None or not set(limits.reasons) - {"type"}:
            return None
        return self.number.limits_by(self._spell_one)

    @property
    def gaps_said(self) -> str:
        return gaps_in_words(self.number.gaps, self._spell_one)

    def _spell_one(self, value: float) -> str:
        [text] = self.clock.spell(np.array([value]))
        return text

    @property
    def noisy(self) -> bool:
        return self.number.noisy

    @property
    def deviation(self) -> float:
        """Standard deviation of the observed moments in days (of dates) or seconds."""
        return self.number.deviation

    @property
    def unit(self) -> float:
        return self.number.unit

    def codes(self, cells: Cells) -> Floats:
        """NaN also where a cell is no moment of this kind, or in another format."""
        return _values(cells, self.clock)

    def encode(self, codes: Floats, u: Floats | None) -> Floats:
        return self.number.encode(codes, u)

    def decode(self, z: Floats) -> Floats:
        return self.clock.snap(self.number.decode(z))

    def cell_ends(self, z: Floats) -> tuple[Floats, Floats]:
        return self.number.cell_ends(z)

    def recoded(self, z: Floats, other: ModelledColumn) -> Floats | None:
        if not isinstance(other, Moment) or self.clock != other.clock:
            return None
        return self.number.recoded(z, other.number)

    def log_volume(self, z: Floats) -> Floats:
        """As of a number: the density is per day (of dates: or month, quarter, week) or per
        second."""
        return self.number.log_volume(z)

    def box(self) -> Floats:
        return self.number.box()

    def snap(self, codes: Floats) -> Floats:
        return self.clock.snap(self.number.snap(codes))

    def held(self, codes: Floats) -> Floats:
        return self.clock.snap(self.number.held(codes))

    def point(self, draws: Floats, how: Point) -> Floats:
        return self.clock.snap(self.number.point(draws, how))

    def spell(self, codes: Floats, fewest: int | None) -> list[str]:
        return self.clock.spell(codes)

    def numbers(self, codes: Floats) -> Floats | None:
        return self.clock.numbers(codes)

    def beside(self, codes: Floats, refused: Callable[[Floats], Bools]) -> Floats:
        return self.clock.snap(self.number.beside(codes, refused))

    def scores(self, draws: Floats, truth: Floats, ensemble: EnsembleScores) -> Scores:
        return self.number.scores(draws, truth, ensemble)

    def findings(self, cells: Cells) -> Sequence[Finding]:
        values, clock = self.codes(cells), self.clock
        low, high = clock.spell(np.array([self.number.low, self.number.high]))
        written = "" if cells.moments is not None else f" ({clock.format})"

        def outside(what: str, count: int) -> str:
            are = "is" if count == 1 else "are"
            where = f"far outside the range of the fit, {low} to {high}"
            return f"column '{self.name}': {what} {are} {where}: fills that depend on it are extrapolated; {REFIT}"

        strange = ~cells.missing & np.isnan(values)
        zoned = clock.zone is not None or "%z" in clock.format
        moments = cells.moments
        other = moments is not None and moments.what == clock.what == "datetime" and (moments.zone is not None) != zoned
        has = "a time zone in the fit but none here" if zoned else "a time zone here but none in the fit"
        return [
            Finding(
                ~cells.missing & other,
                lambda what, _: f"column '{self.name}' has {has}, first in {what}",
                "give the table the column as in the fit: `tz_localize` or `tz_convert` of pandas",
            ),
            Finding(
                strange,
                lambda what, _: f"column '{self.name}' holds {clock.what}s{written} in the fit but here {what}",
                unless_missing(cells, strange, f"write it as in the fit: {low}") if strange.any() else "",
            ),
            Finding(
                self.number.lost(values),
                lambda what, _: f"column '{self.name}' holds {what}: too far from the fitted values to compute with",
                f"the fit has {low} to {high}",
            ),
            Finding(far := self.number.outside(values), outside, several=True, warned=FAR_WARNED),
            Finding(
                self.number.beyond(values) & ~far,
                lambda what, count: beyond_words(self.name, what, count, low, high),
                warned=MANY_WARNED,
            ),
        ]


@final
@dataclass(frozen=True, config=STRICT)
class ConstantMoment(ConstantColumn):
    """A column of which one moment was observed: its holes get that."""

    _: KW_ONLY
    clock: Clock
    value: float

    @classmethod
    def infer(cls, cells: Cells, asked: Request) -> Column | None:
        """None: Moment finds them."""
        return None

    @property
    def code(self) -> float:
        return self.value

    def spell(self, codes: Floats, fewest: int | None) -> list[str]:
        return self.clock.spell(codes)

    def numbers(self, codes: Floats) -> Floats | None:
        return self.clock.numbers(codes)


class _Known(NamedTuple):
    """How the cells of a column are read, and their values [N], NaN where missing."""

    clock: Clock
    values: Floats


def _values(cells: Cells, clock: Clock) -> Floats:
    """[N] values of the cells; NaN where a cell is missing or none of that clock."""
    moments = cells.moments
    if moments is not None:
        right = ~cells.missing if moments.what == clock.what else np.zeros(len(moments.ticks), bool)
        return np.where(right, _between(moments.ticks, moments.unit, clock), np.nan)
    if clock.zone is None and "%z" not in clock.format:
        reading = read(cells, clock.what, clock.format)
    else:
        reading = _zoned(cells, clock)
    return np.where(reading.matched & ~cells.missing, _between(reading.ticks, reading.unit, clock), np.nan)


def _zoned(cells: Cells, clock: Clock) -> Reading:
    """Datetimes with an offset."""
    return read(cells, clock.what, clock.format if clock.zone is None else f"{clock.format}%z")


def _between(ticks: Ints, unit: Tick, clock: Clock) -> Floats:
    """Values of ticks in another unit than the clock's; of a clock of months, quarters or weeks those they lie in."""
    if clock.unit in PERIODS:
        return clock.values(to_unit(ticks, unit, clock.unit))
    finer = unit if list(DECIMALS).index(unit) > list(DECIMALS).index(clock.unit) else clock.unit
    here, origin = to_unit(ticks, unit, finer), to_unit(np.array(clock.origin), clock.unit, finer)
    return np.asarray(clock.since(here, origin, finer) / 10 ** DECIMALS[finer], np.float64)


def _limits(cells: Cells, clock: Clock, values: Floats, asked: Asked, held: tuple[float, float] | None) -> Asked | None:
    """Limits of the fills as values; None where those that were asked for each column are of others. UsageError where
    they are no dates or times as the column writes them, or beyond those that it can hold."""
    where = f"{asked.flag} {asked.said}"
    seen = values[~np.isnan(values)]
    if not len(seen):
        return None
    low, high = clock.spell(np.array([seen.min(), seen.max()]))
    hint = f"for example `{typed('--bounds', f'{cells.name}={low}..{high}')}`, or observed or none"
    if asked.moments is None:
        if asked.named:
            raise UsageError(f"{where}: column '{cells.name}' holds {clock.what}s", hint)
        return None
    sides = []
    for text in asked.moments:
        side = instant(clock, text) if text else None
        if text and side is None:
            if not asked.named:
                return None
            raise UsageError(f"{where}: column '{cells.name}' holds no {clock.what} like '{text}'", hint)
        if side is not None and held is not None and not held[0] <= side <= held[1]:
            ends = " to ".join(clock.spell(np.array(held)))
            raise UsageError(f"{where}: '{text}' is beyond what column '{cells.name}' can hold, {ends}", hint)
        sides.append(side)
    first, last = sides
    if first is not None and last is not None and first >= last:
        day = f", where the day begins at {clock.begins}" if clock.begins else ""
        message = f"{where}: {asked.moments[0]} is not before {asked.moments[1]}{day}"
        raise UsageError(message, "give the lower limit first")
    return asked._replace(low=first, high=last, moments=None)


def instant(clock: Clock, text: str) -> float | None:
    """The value of a moment that is written as the column writes its cells, or as ISO 8601 has it; None: it is none."""
    written = clock.format if clock.zone is None else f"{clock.format}%z"
    zoned = "%z" in written
    iso = [one for one in ISO.get(clock.what, ()) if ("%z" in one) == zoned]
    for format in [written, *iso, *([ISO_PERIODS[clock.unit]] if clock.unit in PERIODS else [])]:
        reading = read(GivenTexts([text]), clock.what, format)
        if reading.matched[0]:
            return float(_between(reading.ticks, reading.unit, clock)[0])
    return None


def _typed(cells: Cells, asked: Request) -> _Known | Carried | None:
    moments = cells.moments
    if moments is None or (asked.kind is not None and asked.kind not in WHATS):
        return None
    if asked.kind is not None and asked.kind != moments.what:
        what = f"{cells.label}: --column {cells.name}={asked.kind}, but the file types the column as {moments.what}s"
        raise InputError(what, f"`{kind_flag(cells.name, moments.what)}`, or leave it out")
    clock = typed_clock(moments, moments.ticks[~cells.missing])
    if (problem := _obstacle(cells)) is not None:
        if asked.kind is None:
            return Carried(cells.name, "carried")
        message = f"{cells.label}: --column {cells.name}={asked.kind}, but {problem}"
        raise InputError(message, f"`{kind_flag(cells.name, 'carry')}` carries the column as it is")
    return _Known(clock, np.where(cells.missing, np.nan, _between(moments.ticks, moments.unit, clock)))


def _obstacle(cells: Cells) -> str | None:
    """Why moments that the file types as such cannot be modelled."""
    moments = cells.moments
    if moments is None or moments.what not in ("date", "datetime"):
        return None
    if moments.zone is not None and not zone_known(moments.zone):
        return f"no time zone is called '{moments.zone}'"
    if not within_calendar(moments.ticks[~cells.missing], moments.unit, zoned=moments.zone is not None):
        return "it holds years beyond 1 to 9999"
    return None


def _some(cells: Cells) -> list[str]:
    """Trimmed texts of the first observed cells."""
    rows = np.flatnonzero(~cells.missing)[:LOOKED_AT]
    return [str(text).strip() for text in cells.texts(rows)]


def _texts(cells: Cells, asked: Request) -> _Known | Carried | None:
    """How texts are read as moments; carried where they could be read in several ways, or not all."""
    if asked.kind is None and not cells.textual:
        return None
    some = _some(cells)
    if asked.kind is None and (not any(map(_plausible, some[:1])) or all(map(DECIMAL.fullmatch, some))):
        return None
    found = _formats(cells, asked, some)
    observed = ~cells.missing
    if not found:
        if asked.kind is not None:
            _refuse(cells, asked)
        return Carried(cells.name, "carried") if _share(some) >= MOSTLY else None
    if len(found) > 1:
        if asked.kind is not None:
            raise InputError(
                f"{cells.label}: --column {cells.name}={asked.kind}: {_either(cells, found)}", _flags(cells, found)
            )
        return Carried(cells.name, "carried")
    ((what, format), reading), *_ = found.items()
    if asked.kind is None and what == "date" and is_period(format) and not _many_periods(reading, observed):
        return None
    clock = text_clock(what, format, reading, observed)
    values = _between(reading.ticks, reading.unit, clock)
    return _Known(clock, np.where(observed, values, np.nan))


def _many_periods(reading: Reading, observed: Bools) -> bool:
    """Whether months, quarters or weeks are a date where nobody says so: not where they are few enough for a level of
    each (what goes with one month need not go with the next), where their years are none of ours (1234-07 is a code),
    or where all of them may be seasons (2010-11, 2011-12)."""
    periods, unit = reading.ticks[observed], reading.unit
    if few(len(np.unique(periods)), len(periods)):
        return False
    days = to_unit(periods, unit, "D").astype("datetime64[D]")
    years = days.astype("datetime64[Y]").astype(np.int64) + 1970
    season = unit == "M" and bool((days.astype("datetime64[M]").astype(np.int64) % 12 + 1 == (years + 1) % 100).all())
    return not season and bool(((years >= YEARS[0]) & (years <= YEARS[1])).all())


_JOINED = re.compile(r"[0-9]{1,2}[A-Za-z]{3}[0-9]{2}([0-9]{2})?")
"""A date without anything between day, month and year."""


def _plausible(text: str) -> bool:
    spaced = re.search(r"[-:/. QW]", text) is not None or _JOINED.fullmatch(text) is not None
    return len(text) <= LONGEST and re.search(r"[0-9]", text) is not None and (spaced or worded.is_length(text))


def _formats(cells: Cells, asked: Request, some: list[str]) -> dict[tuple[What, str], Reading]:
    """The formats that all observed cells have, and what they are by these; of formats that say the same the first.
    Where there are none, the several formats that dates have."""
    observed = ~cells.missing
    found: dict[tuple[What, str], Reading] = {}
    whats = cast(tuple[What, ...], tuple(what for what in _READ if asked.kind in (None, what)))
    wanted = [(whats[0], asked.detail)] if whats and asked.detail is not None else candidates(whats, some)
    plain: set[str] = set()
    for what, format in wanted:
        if format.replace(".%f", "") in plain:
            continue
        reading = read(cells, what, format)
        if reading.matched[observed].all():
            if asked.detail is None and not _in_one_language(what, format, reading, observed):
                continue
            plain.add(format)
            if not any(np.array_equal(reading.ticks, other.ticks) for other in found.values()):
                found[what, format] = reading
    if not found and asked.detail is None and asked.kind in (None, "date") and all(map(_is_date, some)):
        found = {("date", several): read(cells, "date", several) for several in mixed(cells)}
    times = asked.kind is None and {what for what, _ in found} == {"time"} and named_long(cells.name)
    long = asked.kind == "duration" or (asked.kind is None and (times or not found) and looks_long(some))
    if long and (reading := read(cells, "duration", "")).matched[observed].all():
        return {("duration", ""): reading}
    if not found and asked.detail is None and asked.kind in (None, "duration") and all(map(worded.is_length, some)):
        texts, places = cells.distinct
        held = np.unique(places[observed & (places >= 0)]).tolist()
        whole = worded.format_of([texts[place].strip() for place in held])
        if whole is not None:
            return {("duration", whole): read(cells, "duration", whole)}
    return found


def _in_one_language(what: What, format: str, reading: Reading, observed: Bools) -> bool:
    """Whether one language has all names of months that cells have, and one all of weekdays; of months without a day in
    another language than English two of them at least, since SET-12 and SET-13 may be codes."""
    if names_of(reading, observed, "aA") is None:
        return False
    style = names_of(reading, observed, "bB")
    if style == ENGLISH or style is None or what != "date" or not is_period(format):
        return style is not None
    return len(np.unique(reading.ticks[observed] % 12)) > 1


def _is_date(text: str) -> bool:
    """Whether a text is a date of a day in any format, without a weekday."""
    format = like([text])[0]
    return format in FORMATS["date"] and not is_period(format)


def _share(some: list[str]) -> float:
    """Share of texts that are dates of days, or times, in any format."""
    return sum(format is not None and not is_period(format) for format in like(some)) / len(some)


def _refuse(cells: Cells, asked: Request) -> None:
    observed = ~cells.missing
    where = f"{cells.label}: --column {cells.name}={asked.kind}"
    what = cast(What, asked.kind)
    if asked.detail is not None or what == "duration":
        wrong = observed & ~read(cells, what, asked.detail or "").matched
        format = "" if asked.detail is None else f":{asked.detail}"
        raise InputError(
            f"{where}{format}, but the column holds {example(cells, wrong)}",
            _other_hint(cells, asked, asked.detail or "", wrong),
        )
    best = max(FORMATS[what], key=lambda format: int((read(cells, what, format).matched & observed).sum()))
    wrong = observed & ~read(cells, what, best).matched
    hint = f"{_other_hint(cells, asked, best, wrong)}; a format is said as `{kind_flag(cells.name, f'{what}:{best}')}`"
    raise InputError(f"{where}: no format fits all of its cells, '{best}' not {example(cells, wrong)}", hint)


def _other_hint(cells: Cells, asked: Request, known: str, wrong: Bools) -> str:
    """What to do about cells of another format than the known one that they should have, by the first of them."""
    format = like([str(cells.texts(np.flatnonzero(wrong)[:1])[0]).strip()])[0]
    if format is None:
        return missing_hint(cells, wrong)
    if (~cells.missing & ~wrong).any():
        both = f"write all dates and times of a column in one format, or {missing_hint(cells, wrong)}"
        if asked.kind != "date" or format not in FORMATS["date"] or format_problem("date", f"{known}|{format}"):
            return both
        return f"{_flags(cells, [('date', f'{known}|{format}')])} if dates have that format too, {both}"
    return (
        f"`{kind_flag(cells.name, f'{_what(format)}:{format}')}` if that is their format, {missing_hint(cells, wrong)}"
    )


def _either(cells: Cells, found: dict[tuple[What, str], Reading]) -> str:
    one, *more = (reading.ticks for reading in found.values())
    return f"day and month can be read either way, as in {first_cell(cells, np.any([one != two for two in more], 0))}"


def _flags(cells: Cells, found: Iterable[tuple[What, str]]) -> str:
    return " or ".join(f"`{kind_flag(cells.name, f'{what}:{format}')}`" for what, format in found)


def doubt(cells: Cells) -> str | None:
    """One line on a column of dates or times that is carried all the same."""
    if (problem := _obstacle(cells)) is not None:
        return f"column '{cells.name}' is carried: {problem}"
    if not cells.textual or not (some := _some(cells)) or not any(map(_plausible, some)):
        return None
    carried = f"column '{cells.name}' is carried"
    found = _formats(cells, Request(None, None, Encoding(), None), some)
    if len(found) > 1:
        return f"{carried}: {_either(cells, found)}; {_flags(cells, found)} says which"
    formats = like(some)
    counts = Counter(format for format in formats if format is not None)
    if found or not counts or counts.total() < 0.5 * len(some):
        return None
    best = counts.most_common(1)[0][0]
    whole = [one for one in counts if read(cells, _what(one), one).matched[~cells.missing].all()]
    if whole:  # but for the names of months
        names = "weekdays" if without_weekday(whole[0]) != whole[0] else "months"
        return None if is_period(whole[0]) else f"{carried}: the names of its {names} are of several languages"
    if len(counts) > 1 and counts.total() == len(some):
        shown = " and ".join(f"'{format}'" for format, _ in counts.most_common(2))
        line = f"{carried}: its cells have several formats, {shown}"
        best = "|".join(format for format, _ in counts.most_common())
        if not all(format in FORMATS["date"] for format in counts) or format_problem("date", best) is not None:
            return f"{line}; it is modelled where the table has them in one"
        if read(cells, "date", best).matched[~cells.missing].all():
            return f"{line}; {_flags(cells, [('date', best)])} reads each by the first of them that it has"
    what = _what(best)
    wrong = ~cells.missing & ~read(cells, what, best).matched
    share = f"{share_of(int((~cells.missing & ~wrong).sum()), int((~cells.missing).sum()))} are {what}s ('{best}')"
    also = example(cells, wrong)
    if without_weekday(best) != best and set(like(different(cells, wrong))) == {best}:
        has = "has another weekday than its date" if wrong.sum() == 1 else "have other weekdays than their dates"
        return f"{carried}: {share}, but {also} {has}: correct them, or take the weekdays out of the column"
    return f"{carried}: {share}, but also {also}: {missing_hint(cells, wrong)}"


def century_note(column: Moment) -> str | None:
    """One line on a column whose years of two digits lie so far apart that they may be of another century."""
    clock = column.clock
    if clock.what not in ("date", "datetime") or "%y" not in clock.written:
        return None
    ends = clock.ticks_in(np.array([column.number.low, column.number.high]), "D").astype("datetime64[D]")
    first, last = (int(year) + 1970 for year in ends.astype("datetime64[Y]").astype(np.int64))
    if last - first <= WIDE or last < 2000:
        return None
    return (
        f"column '{column.name}' has two digits of a year, read as 1969 to 2068: {first} to {last}; where some are of "
        "another century, write four digits"
    )


def duration_note(column: Moment, cells: Cells) -> str | None:
    """One line on a column of durations by its name alone, or of times of day that may be durations (`5:40`, of minutes
    and seconds): hours of one digit, all before noon, and most of them no full five minutes, as times that people write
    are."""
    clock = column.clock
    if clock.what == "duration" and cells.textual and named_long(column.name) and not worded.is_worded(clock.format):
        if column.number.low < 0 or column.number.high >= DAY or "%D" in clock.format:
            return None
        what = (
            f"column '{column.name}' is taken for durations, by its name, such as {first_cell(cells, ~cells.missing)}"
        )
        return f"{what}: `{kind_flag(column.name, 'time')}` if it holds times of day"
    if clock.what != "time" or "%-H" not in clock.format or not cells.textual:
        return None
    if clock.begins or column.number.high >= NOON:
        return None
    seconds = column.codes(cells)[~cells.missing]
    if len(seconds) < FEWEST_TIMES or (seconds % 300 == 0).mean() >= 0.5:
        return None
    what = f"column '{column.name}' is taken for times of day, such as {first_cell(cells, ~cells.missing)}"
    return f"{what}: `{kind_flag(column.name, 'duration')}` if it holds durations"


def midnight_note(column: Moment) -> str | None:
    """One line on a column of times of day around midnight, which are counted from another hour on."""
    begins = column.clock.begins
    if not begins:
        return None
    return (
        f"the times of column '{column.name}' lie around midnight, {column.summary}: its day begins at {begins}, so "
        "that times before and after midnight are near"
    )


def several_note(column: Moment) -> str | None:
    """One line on a column whose dates have several formats; None of another."""
    several = formats_in(column.clock.format)
    if len(several) < 2:
        return None
    shown = ", ".join(f"'{format}'" for format in several)
    return f"the dates of column '{column.name}' have {len(several)} formats, {shown}: fills have the first"


def _what(format: str) -> What:
    return next(what for what in FORMATS if without_weekday(formats_in(format)[0]) in FORMATS[what])
