"""What columns of levels have in common: categories, truth values, scales. Their code is the number of the level."""

from __future__ import annotations

import csv
import io
import re
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY
from functools import cached_property
from typing import NamedTuple

import numpy as np
from pydantic.dataclasses import dataclass

from vgi_cli.columns.base import STRICT, Cells, EnsembleScores, Finding, ModelledColumn, Point, Request, Scores
from vgi_cli.columns.clock import periods_in
from vgi_cli.columns.lattice import MOST_LEVELS
from vgi_cli.columns.level_scores import level_scores
from vgi_cli.columns.numerals import EXACT, NUMBER, NUMERIC_SHARE, Bools, Floats, plain
from vgi_cli.columns.periods import PERIODS
from vgi_cli.columns.wording import example, first_names, kind_flag, missing_hint, shortened
from vgi_cli.errors import InputError

SENTENCE = 3
"""Words of a sentence at least."""
NAMED = 6
"""Levels that a summary names."""
GLANCE = 1000
"""Cells that are looked at first, and different texts from which on a column is not one of levels."""
MOST = 50
"""Levels of a column of texts that is taken for categories, ..."""
PER_LEVEL = 5
"""... and its observed cells for each of them, ..."""
MOST_NAMED, PER_NAMED = 200, 2
"""Levels of a column that the user names categorical, beyond MOST of them those that so many cells hold."""
FEW_LEVELS, PER_FEW = 5, 2
"""... but for so few levels: in a table of five rows a column of two sexes is one of categories."""


def key_of(text: str) -> str:
    """What a level is known by, however it is spelled: without the blanks around it; a number by its value, so that `1`
    and `1.0` are one level. `01` is no number."""
    text = text.strip()
    if re.match(NUMBER, text) is None:
        return text
    value = float(text)
    return plain(value + 0.0) if abs(value) < EXACT else text


def number_of(text: str) -> float | None:
    """The number that a level is; None where it is none."""
    return float(text) if re.match(NUMBER, text) is not None and abs(float(text)) < EXACT else None


class Level(NamedTuple):
    """A level that occurs: how it is spelled most often, and how many cells hold it."""

    text: str
    cells: int


def levels_of(cells: Cells, key: Callable[[str], str] = key_of) -> dict[str, Level]:
    """The levels among the observed cells by key: numbers by size, then texts by letters."""
    texts, places = cells.distinct
    counts = np.bincount(places[places >= 0], minlength=len(texts)).tolist()
    spellings: dict[str, list[Level]] = {}
    for text, count in zip(texts, counts, strict=True):
        if count:
            spellings.setdefault(key(text), []).append(Level(text, count))
    found = {}
    for one in sorted(spellings, key=_order):
        usual = min(spellings[one], key=lambda level: (-level.cells, level.text))
        found[one] = usual._replace(cells=sum(level.cells for level in spellings[one]))
    return found


def _order(key: str) -> tuple[bool, float, str]:
    number = number_of(key)
    return number is None, number or 0.0, key


def few(levels: int, observed: int) -> bool:
    """Whether so many levels of so many observed cells are those of categories."""
    share = max(observed / PER_LEVEL, min(observed / PER_FEW, FEW_LEVELS))
    return levels <= min(MOST, share)


def unnamed_levels(cells: Cells, asked: Request) -> dict[str, Level] | None:
    """The levels of a column of which nobody said what it is, where it may be one of levels; None where it is not.

    Not where it holds numbers that are modelled as they are (`transform=none`) or within limits that were asked for,
    nor where nearly all of its cells are numbers: then the others are mistakes.
    """
    if asked.kind is not None or not cells.levelled:
        return None
    if not cells.typed:
        number, seen = cells.numbers.number, ~cells.missing
        if number[seen].all():
            limited = asked.bounds is not None and asked.bounds.named and asked.bounds.rule != "observed"
            values = cells.numbers.values[seen]
            if limited or asked.encoding.transform == "none" or len(np.unique(values[:GLANCE])) > MOST_LEVELS:
                return None
            if not (np.abs(values) < EXACT).all():
                return None
        elif number[seen].mean() >= NUMERIC_SHARE and not codes_with_zeros(cells):
            return None
    found = cells.distinct.texts
    return None if len(found) > GLANCE else levels_of(cells)


def numeric(cells: Cells) -> bool:
    """Whether every observed cell is a number, and the file does not say that it is a text."""
    return not cells.typed and bool(cells.numbers.number[~cells.missing].all())


def codes_with_zeros(cells: Cells) -> bool:
    """Whether cells are codes of digits of one length, some of which begin with a zero (`02139`, `10001`): texts."""
    seen = ~cells.missing
    strange = seen & ~cells.numbers.number
    padded = cells.numbers.padded
    if not strange.any() or not padded[strange].all():
        return False
    texts, places = cells.distinct
    return len({len(texts[place]) for place in np.unique(places[places >= 0]).tolist()}) == 1


def listed(detail: str) -> list[str]:
    """The levels that were listed after a kind: with commas between them, quoted as in CSV. csv.Error where a line
    break is not in quotes."""
    return [level.strip() for level in next(csv.reader([detail], skipinitialspace=True), [])]


def sentences(levels: Iterable[str]) -> bool:
    """Whether most of some levels are sentences: remarks, of which a missing one means that there is nothing to say."""
    found = [len(level.split()) >= SENTENCE and level.endswith((".", "!", "?")) for level in levels]
    return 2 * sum(found) > len(found)


def as_list(levels: Sequence[str]) -> str:
    """The levels as they are listed after a kind."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\r\n").writerow(levels)
    return out.getvalue().removesuffix("\r\n")


def named_levels(levels: Sequence[str], between: str = ", ") -> str:
    """Some levels for a person: in quotes where one holds what stands between them, a line break or blanks."""
    return between.join(
        level if level.isprintable() and between.strip() not in level and level.strip() == level else repr(level)
        for level in levels
    )


def wrong_list(word: str, detail: str) -> str | None:
    """What is wrong with listed levels; None: nothing."""
    try:
        levels = listed(detail)
    except csv.Error:
        return f"a level with a line break stands in double quotes, got {detail!r}"
    if len(levels) < 2 or not all(levels):
        return f"'{word}:' takes two levels or more with commas between them, got '{detail}'"
    twice = [level for level, count in Counter(map(key_of, levels)).items() if count > 1]
    return f"level '{twice[0]}' is listed twice" if twice else None


def listed_levels(cells: Cells, asked: Request, key: Callable[[str], str] = key_of) -> tuple[str, ...]:
    """The levels that were listed in `asked.detail`, as the column spells those that occur. InputError where a cell is
    none of them."""
    levels = listed(asked.detail or "")
    known = set(map(key, levels))
    texts, places = cells.distinct
    strange = np.array([key(text) not in known for text in texts] + [False])[places]
    if strange.any():
        raise InputError(
            f"{cells.label}: --column {cells.name}={asked.kind}:{asked.detail} does not list {example(cells, strange)}",
            f"list it too, or {missing_hint(cells, strange)}",
        )
    found = levels_of(cells, key)
    return tuple(found[key(level)].text if key(level) in found else level for level in levels)


@dataclass(frozen=True, config=STRICT)
class Levelled(ModelledColumn):
    """A column of a few levels, as one discrete dimension.

    levels  texts of the levels as the fitted table spells them; the code of a cell is the place of its level
    """

    _: KW_ONLY
    levels: tuple[str, ...]

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts of all codes."""
        return self.levels

    @property
    def summary(self) -> str:
        between = " < " if self.ordered else ", "
        more = f"{between}… ({len(self.levels) - NAMED} more)" if len(self.levels) > NAMED else ""
        return f"{len(self.levels)} levels: {named_levels(self.levels[:NAMED], between)}{more}"

    def __post_init__(self) -> None:
        if len(self.levels) < 2 or len(set(map(key_of, self.texts))) < len(self.texts):
            raise ValueError("expected at least two levels, each once")

    @classmethod
    def check_detail(cls, word: str, detail: str) -> str | None:
        return wrong_list(word, detail)

    @cached_property
    def places(self) -> dict[str, int]:
        """The code of each level, by its key."""
        return {key_of(level): code for code, level in enumerate(self.texts)}

    def place(self, text: str) -> float:
        """The code of a cell; NaN where it is none of the levels."""
        return self.places.get(key_of(text), np.nan)

    @cached_property
    def _alike(self) -> dict[str, int]:
        """The code of each level by its key in small letters, where no other level has the same."""
        keys = [key_of(level).casefold() for level in self.texts]
        return {key: code for code, key in enumerate(keys) if keys.count(key) == 1}

    @property
    def level_counts(self) -> tuple[int, ...]:
        return (len(self.levels),)

    @property
    def noisy(self) -> bool:
        return False

    @property
    def unit(self) -> float:
        """A probability has no unit."""
        return 0.0

    @property
    def deviation(self) -> float:
        return 1.0

    def codes(self, cells: Cells) -> Floats:
        """NaN also where a cell is none of the levels."""
        texts, places = cells.distinct
        return np.array([*map(self.place, texts), np.nan], np.float64)[places]

    def true_codes(self, cells: Cells) -> Floats:
        """As `codes`; capitals and small letters are the same where no other level could be meant. A level that the fit
        has not seen has the code `len(texts)`."""
        texts, places = cells.distinct
        found = [self.place(text) for text in texts]
        unseen = len(self.texts)
        found = [
            self._alike.get(key_of(text).casefold(), unseen) if np.isnan(code) else code
            for text, code in zip(texts, found, strict=True)
        ]
        return np.array([*found, np.nan], np.float64)[places]

    def encode(self, codes: Floats, u: Floats | None) -> Floats:
        return np.nan_to_num(codes)[:, None]

    def decode(self, z: Floats) -> Floats:
        return np.asarray(np.clip(np.rint(z[..., 0]), 0, self.level_counts[0] - 1))

    def log_volume(self, z: Floats) -> Floats:
        """0: what a model gives a level is its probability."""
        return np.zeros(len(z))

    def box(self) -> Floats:
        return np.array([[0.0], [self.level_counts[0] - 1.0]])

    def snap(self, codes: Floats) -> Floats:
        return np.asarray(np.clip(np.rint(codes), 0, len(self.texts) - 1))

    def point(self, draws: Floats, how: Point) -> Floats:
        """The level that was drawn most often, the first of such."""
        drawn = np.unique(draws)
        counts = np.stack([(draws == code).sum(0) for code in drawn.tolist()])
        return np.asarray(drawn[counts.argmax(0)], np.float64)

    def spell(self, codes: Floats, fewest: int | None) -> list[str]:
        return [self.texts[int(code)] for code in codes.tolist()]

    def spellings(self, found: Mapping[int, Mapping[str, int]]) -> dict[int, str]:
        """Texts of codes in a table that spells levels in another way than the fit; `found`: of each code that occurs
        there the texts that stand for it, and how many cells hold each."""
        usual = {code: min(texts, key=lambda text: (-texts[text], text)) for code, texts in found.items()}
        return {code: text for code, text in usual.items() if text != self.texts[code]}

    def numbers(self, codes: Floats) -> Floats | None:
        values = [number_of(level) for level in self.texts]
        known = np.array([value for value in values if value is not None])
        return known[codes.astype(np.int64)] if len(known) == len(values) else None

    def beside(self, codes: Floats, refused: Callable[[Floats], Bools]) -> Floats:
        every = np.arange(len(self.texts), dtype=np.float64)
        free = every[~refused(every)]
        return free[np.abs(free - codes[:, None]).argmin(1)] if len(free) else codes

    def scores(self, draws: Floats, truth: Floats, ensemble: EnsembleScores) -> Scores:
        return level_scores(draws, truth, len(self.texts), self.ordered)

    def findings(self, cells: Cells) -> Sequence[Finding]:
        which = self.unseen(cells)
        texts, places = cells.distinct
        counts = np.bincount(places[which], minlength=len(texts)).tolist()

        flag = "unseen='{}'" if cells.in_memory else "--unseen {}"

        def words(what: str, levels: int) -> str:
            return (
                f"column '{self.name}' has {'a level' if levels == 1 else 'levels'} that the fit has not seen: {what}"
            )

        strange = {text: count for text, count in zip(texts, counts, strict=False) if count}
        hint = f"`{flag.format('missing')}` fills such cells, `{flag.format('carry')}` leaves them as they are"
        alike = {text: self._alike.get(key_of(text).casefold()) for text in strange}
        near = {text: self.texts[code] for text, code in alike.items() if code is not None}
        if near:
            meant = [f"'{shortened(level)}' for '{shortened(text)}'" for text, level in near.items()]
            shown = f"'{shortened(next(iter(near.values())))}'" if len(strange) == 1 else first_names(meant)
            hint = f"did you mean {shown}? {hint}"
        periods = periods_in([*self.texts, *map(str, strange)])
        if periods is not None and not self.ordered:
            kind = f"date:{periods.format}"
            said = f"columns={{{self.name!r}: {kind!r}}}" if cells.in_memory else kind_flag(self.name, kind)
            hint += f"; a fit with `{said}` takes every {PERIODS[periods.unit]}"
        return [Finding(which, words, hint, unseen=strange, near=near)]

    def unseen(self, cells: Cells) -> Bools:
        """[N] which cells are observed and none of the levels."""
        return np.asarray(~cells.missing & np.isnan(self.codes(cells)), bool)

    @property
    @abstractmethod
    def ordered(self) -> bool:
        """Whether the levels have an order."""
