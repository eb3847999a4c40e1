"""What a kind of column is: how its cells are read, encoded, decoded, bounded, spelled and scored. One file per kind.

A cell is held in memory as one float64, its *code*, which the kind alone interprets: a number is its own code, the code
of a category may be its place among the categories. `spell` turns codes into the texts of cells. So draws of any table
are one array, whatever its columns are. A column that is modelled has one or several encoded dimensions. Everything
here is numpy; nothing reads a file.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import ClassVar, Literal, NamedTuple, Protocol, TypeAlias, final

import numpy as np
import numpy.typing as npt
from pydantic import ConfigDict
from pydantic.dataclasses import dataclass

from vgi_cli.columns.notation import Notation, spelling_of
from vgi_cli.columns.numerals import Bools, Floats, Ints, Moments, Numbers, Spelling, plain
from vgi_cli.columns.singles import Single

Role = Literal["data", "id", "exclude", "index"]
Transform = Literal["linear", "normal", "none"]
Spikes = Literal["room", "split"]
"""How values that pile up at an end of a column of numbers are encoded: as a part of the same line, or as a level."""
Relations = Literal["keep", "ignore"]


class Encoding(NamedTuple):
    """How the columns of a table are encoded, whether fills keep to what holds between columns in every row, and
    whether logarithms are taken of positive values; None: of those over decades."""

    transform: Transform = "linear"
    spikes: Spikes = "room"
    relations: Relations = "keep"
    logs: bool | None = None
    sharp: float | None = None


Point = Literal["mean", "median", "mode"]
STRICT = ConfigDict(extra="forbid", allow_inf_nan=False)
"""How the dataclass of a kind is read from JSON: nothing unknown, no NaN."""

Scores: TypeAlias = Mapping[str, float | int | None]
"""Scores of a column by name; None where there are too few draws for one."""
EnsembleScores: TypeAlias = Callable[[Floats, Floats], Scores]
"""(draws [n, cells], truth [cells]) -> the scores of numbers: crps, rmse, mae, coverage90."""


class Distinct(NamedTuple):
    """The cells of one column by what they hold.

    texts   the different texts of its observed cells, without the blanks around them
    places  [N] which of them each cell is; -1 where it is missing
    """

    texts: Sequence[str]
    places: Ints


class CellSource(Protocol):
    """What Cells ask of a table; each is said there."""

    label: str
    in_memory: bool
    decimal: str

    @abstractmethod
    def missing(self, name: str, /) -> Bools: ...
    @abstractmethod
    def numbers(self, name: str, /) -> Numbers: ...
    @abstractmethod
    def some_text(self, name: str, rows: Ints | None, /) -> npt.NDArray[np.object_]: ...
    @abstractmethod
    def typed(self, name: str, /) -> bool: ...
    @abstractmethod
    def textual(self, name: str, /) -> bool: ...
    @abstractmethod
    def single(self, name: str, /) -> bool: ...
    @abstractmethod
    def limits(self, name: str, /) -> tuple[float, float] | None: ...
    @abstractmethod
    def spelling(self, name: str, /) -> Spelling | None: ...
    @abstractmethod
    def levelled(self, name: str, /) -> bool: ...
    @abstractmethod
    def dictionary(self, name: str, /) -> bool: ...
    @abstractmethod
    def distinct(self, name: str, /) -> Distinct: ...
    @abstractmethod
    def scale(self, name: str, /) -> Sequence[str] | None: ...
    @abstractmethod
    def moments(self, name: str, /) -> Moments | None: ...
    @abstractmethod
    def fields(
        self, name: str, pattern: str, rows: Ints | None, /
    ) -> tuple[Bools, Mapping[str, npt.NDArray[np.object_]]]: ...
    @abstractmethod
    def where(self, row: int, /) -> str: ...


class Cells:
    """The cells of one column of a table, as far as a kind may look at them.

    name       of the column
    label      of the table, for messages
    in_memory  whether the table was handed over in memory, where no flag says what its cells mean
    decimal    the mark before the decimals of its numbers
    notation   how its numbers are written, where they have more than digits
    shortened  how its numbers were decimal fractions, and are read as these, where they are float32 numbers
    """

    notation: Notation | None = None
    shortened: Single | None = None

    def __init__(self, table: CellSource, name: str) -> None:
        self.name, self.label, self.in_memory, self._table = name, table.label, table.in_memory, table
        self.decimal = table.decimal
        self._read: dict[Notation, Cells] = {}
        self._coded: tuple[ModelledColumn, Floats] | None = None

    @property
    def missing(self) -> Bools:
        """[N] bool, True where the cell is absent: empty, a missing token, null, NaN, or hidden by a mask."""
        return self._table.missing(self.name)

    @property
    def numbers(self) -> Numbers:
        """The cells read as numbers, with where that fails."""
        return self._table.numbers(self.name)

    def texts(self, rows: Ints | None = None) -> npt.NDArray[np.object_]:
        """[n] texts of the cells (None: all of them), missing tokens included; None only for a null of Parquet."""
        return self._table.some_text(self.name, rows)

    @property
    def typed(self) -> bool:
        """Whether the file itself says that the column is no number (text, dates, truth values of a Parquet file)."""
        return self._table.typed(self.name)

    @property
    def textual(self) -> bool:
        """Whether the cells are texts, which may spell numbers."""
        return self._table.textual(self.name)

    @property
    def single(self) -> bool:
        """Whether the file types the column in single (or half) precision."""
        return self._table.single(self.name)

    @property
    def limits(self) -> tuple[float, float] | None:
        """The least and the greatest number that the type in the file can hold; None where it sets none."""
        return self._table.limits(self.name)

    @property
    def spelling(self) -> Spelling | None:
        """How the observed numbers are written; None where nothing is written (Parquet, all missing)."""
        return self._spelled

    @cached_property
    def _spelled(self) -> Spelling | None:
        return self._table.spelling(self.name)

    @property
    def levelled(self) -> bool:
        """Whether the cells may be levels: texts, numbers or truth values, of a dictionary or not."""
        return self._table.levelled(self.name)

    @property
    def dictionary(self) -> bool:
        """Whether the file types the column as one of levels (a dictionary of Arrow, a category of pandas)."""
        return self._table.dictionary(self.name)

    @property
    def distinct(self) -> Distinct:
        """The cells by what they hold, where they are `levelled`."""
        return self._table.distinct(self.name)

    @property
    def scale(self) -> Sequence[str] | None:
        """The texts of an ordered dictionary of Arrow in their order; empty where the file says that there is an order
        but not which; None of another column. InputError where parts of the table have them in different orders."""
        return self._table.scale(self.name)

    @property
    def moments(self) -> Moments | None:
        """The cells as dates or times, where the file types them as such; else None."""
        return self._table.moments(self.name)

    def fields(self, pattern: str, rows: Ints | None = None) -> tuple[Bools, Mapping[str, npt.NDArray[np.object_]]]:
        """Which of the cells (None: of all), blanks around them aside, a regular expression matches, and the texts [n]
        of its named groups; empty where a cell or a group does not match. The expression is one of RE2."""
        return self._table.fields(self.name, pattern, rows)

    def where(self, row: int) -> str:
        """`row 3 (line 4)`: a row (from 0 here, from 1 in the text) in the words of a message."""
        return self._table.where(row)

    def coded(self, column: ModelledColumn) -> Floats:
        """[N] the codes that a column gives these cells, NaN where one is missing; kept until another column asks, and
        read-only for that."""
        if self._coded is None or self._coded[0] is not column:
            codes = np.where(self.missing, np.nan, column.codes(self))
            codes.flags.writeable = False
            self._coded = column, codes
        return self._coded[1]

    def measured(self, values: Floats, limits: tuple[float, float]) -> Cells:
        """These cells as numbers: values [N], NaN where a cell is missing or none; exact, within
        limits, and written nowhere."""
        return _Measured(self._table, self.name, values, limits)

    def read_as(self, notation: Notation) -> Cells:
        """These cells, which are texts, as numbers in a notation; what is written otherwise is no number."""
        if notation not in self._read:
            self._read[notation] = _Notated(self._table, self.name, notation)
        return self._read[notation]

    def read_short(self, single: Single) -> Cells:
        """These cells as the decimal fractions that they were before they were float32 numbers."""
        return _Shortened(self._table, self.name, single)


@final
class _Measured(Cells):
    """Cells whose numbers are given (dates, measured from the first of them)."""

    def __init__(self, table: CellSource, name: str, values: Floats, limits: tuple[float, float]) -> None:
        super().__init__(table, name)
        self._values, self._limits = values, limits

    @property
    def numbers(self) -> Numbers:
        """The values."""
        number = ~np.isnan(self._values)
        return Numbers(self._values, number, np.zeros_like(number))

    @property
    def limits(self) -> tuple[float, float]:
        """The least and the greatest value that there is."""
        return self._limits

    @property
    def spelling(self) -> None:
        """None: values are written nowhere."""
        return None

    @property
    def single(self) -> bool:
        """False: values are exact."""
        return False


@final
class _Notated(Cells):
    """Cells whose numbers are written with more than digits."""

    def __init__(self, table: CellSource, name: str, notation: Notation) -> None:
        super().__init__(table, name)
        self.notation = notation
        texts, places = self.distinct
        digits = [notation.plain(text) for text in texts]
        values = np.array([math.nan if text is None else float(text) for text in digits] + [math.nan])
        found = values[places]  # -1, of a missing cell, is the last one
        self._numbers = Numbers(found, np.isfinite(found), np.zeros(len(found), bool))
        counts = np.bincount(places[places >= 0], minlength=len(texts)).tolist()
        signed = [text and "+" * ("+" in cell) + text for cell, text in zip(texts, digits, strict=True)]
        held = [(text, count) for text, count in zip(signed, counts, strict=True) if text is not None and count]
        self._spelling = spelling_of([text for text, _ in held], [count for _, count in held])

    @property
    def numbers(self) -> Numbers:
        """The cells as numbers in the notation."""
        return self._numbers

    @property
    def typed(self) -> bool:
        """False: a number that is written so is a text in every file."""
        return False

    @property
    def limits(self) -> None:
        """None: a text holds any number."""
        return None

    @property
    def spelling(self) -> Spelling | None:
        """How the digits of the numbers are written."""
        return self._spelling


@final
class _Shortened(Cells):
    """Cells that were decimal fractions before they were float32 numbers."""

    def __init__(self, table: CellSource, name: str, single: Single) -> None:
        super().__init__(table, name)
        self.shortened, numbers, written = single, table.numbers(name), table.spelling(name)
        self._numbers = numbers._replace(values=single.short(numbers.values))
        values = self._numbers.values
        fractions, counts = np.unique(values[np.isfinite(values)], return_counts=True)
        short = spelling_of([plain(value) for value in fractions.tolist()], counts.tolist())
        self._spelling = short if short is None or written is None else short._replace(marks=written.marks)

    @property
    def numbers(self) -> Numbers:
        """The fractions."""
        return self._numbers

    @property
    def spelling(self) -> Spelling | None:
        """How the fractions would be written, with the signs and zeros of the cells."""
        return self._spelling


class Asked(NamedTuple):
    """Limits that were asked for the fills of one column.

    rule       range: `low` and `high`, None where a side was left empty; observed: the observed range; `none`: no limit
    moments    of a range of dates or times the texts of its sides, which its column reads; None: a range of numbers
    said       the words, as `age=0:100`
    named      whether the column was named, or `all` stands for it
    flag       what it was said with
    """

    rule: Literal["range", "observed", "none"]
    said: str
    named: bool = True
    low: float | None = None
    high: float | None = None
    flag: str = "--bounds"
    moments: tuple[str, str] | None = None


class Request(NamedTuple):
    """What the user said of a column that is to be inferred.

    kind       the word after `--column NAME=`; None where nothing was said
    detail     what follows the word and a colon; None where nothing does
    bounds     the limits of its fills; None where nothing was said
    encoding   that of the table
    rows       [N] which rows statistics come from; None: all
    """

    kind: str | None
    bounds: Asked | None
    encoding: Encoding
    rows: Bools | None
    detail: str | None = None


class Finding(NamedTuple):
    """Cells of a new table that are not what the fit saw.

    which    [N] the cells
    words    the line, from how the cells are shown (`'x' in row 3 and 2 more cells`) and their number; of `unseen`
             levels the number of levels
    refused  the hint of an InputError, where the column cannot be encoded; None: the line is a note
    several  whether few lines are shown where several columns have this finding
    warned   two shares of the column's observed cells: from the first one on the line is said, from the second one on
             it is a warning; with a share of its own from which on it is said, it is not beside another warning
    unseen   the levels among them that the fit has not seen, and how many cells hold each: the user may say what
             becomes of such cells; None where the cells are something else
    near     those of them that another spelling makes a level of the fit, with that level
    """

    which: Bools
    words: Callable[[str, int], str]
    refused: str | None = None
    several: bool = False
    unseen: Mapping[str, int] | None = None
    warned: tuple[float, float] = (0.0, math.inf)
    near: Mapping[str, str] = {}


@dataclass(frozen=True, config=STRICT)
class Column(ABC):
    """One column of a fitted table: what its cells are, and what the fit knows about them.

    name    its name
    kind    the name of its class in KINDS (registry/names.py)
    role    data, or why it is not modelled: id (keys the randomness), exclude, index (numbers the rows)
    stored  the type of its cells where the fitted table had types (Parquet, tables in memory), as Arrow writes it: what
            cells have in a table where the column is empty; None of structures within cells, whose text says too little
    """

    words: ClassVar[tuple[str, ...]] = ()
    """What a user says after `--column NAME=` to have this kind."""

    name: str
    kind: str
    role: Role = "data"
    stored: str | None = None

    @property
    def request(self) -> str | None:
        """What after `--column NAME=` gives this kind again, whatever the cells; None where only the cells give it."""
        return self.kind if self.kind in self.words else None

    @property
    def summary(self) -> str:
        """What its cells are in a few words, for the table of kinds: `3 levels: a, b, c`."""
        return ""

    @classmethod
    def check_detail(cls, word: str, detail: str) -> str | None:
        """What is wrong with a detail after one of the `words` and a colon (`grade=ordinal:low,high`); None: nothing.
        A kind that takes details overrides this."""
        return f"'{word}' takes nothing after it, got '{detail}'"

    @classmethod
    @abstractmethod
    def infer(cls, cells: Cells, asked: Request) -> Column | None:
        """The column, where its cells are of this kind (None: they are not); some cell is observed. What a column is
        comes from all rows, its statistics from `asked.rows`. InputError where the cells contradict what was asked."""


@final
@dataclass(frozen=True, config=STRICT)
class Carried(Column):
    """Texts, dates, ids and whatever else is written as it was read."""

    words = ("carry",)

    @property
    def request(self) -> str | None:
        return "carry" if self.role == "data" else None

    @classmethod
    def infer(cls, cells: Cells, asked: Request) -> Column | None:
        """Whatever no other kind takes."""
        return cls(cells.name, "carried")


@final
@dataclass(frozen=True, config=STRICT)
class Empty(Column):
    """A column of which nothing was observed."""

    @classmethod
    def infer(cls, cells: Cells, asked: Request) -> Column | None:
        return cls(cells.name, "empty") if cells.missing.all() else None


@dataclass(frozen=True, config=STRICT)
class ConstantColumn(Column):
    """A column whose holes all get the same cell, `code`."""

    @property
    @abstractmethod
    def code(self) -> float:
        """The code of the cell."""

    @abstractmethod
    def spell(self, codes: Floats, fewest: int | None) -> list[str]:
        """As of ModelledColumn."""

    @abstractmethod
    def numbers(self, codes: Floats) -> Floats | None:
        """As of ModelledColumn."""


class Limits(NamedTuple):
    """Where the fills of a column stay.

    reasons  why, the lower end's first: keys of WHY (columns/limits.py)
    words    in words, with the reasons: `above 0 (its sign)`; empty where nothing is worth a word
    """

    reasons: tuple[str, ...]
    words: str


@dataclass(frozen=True, config=STRICT)
class ModelledColumn(Column):
    """A column that a model sees as `width` encoded dimensions."""

    @property
    def width(self) -> int:
        """Number of encoded dimensions."""
        return 1

    @property
    def level_counts(self) -> tuple[int, ...]:
        """Of each encoded dimension its number of levels, 0 where it is continuous."""
        return (0,) * self.width

    @property
    def limits(self) -> Limits | None:
        """Where its fills stay; None where nothing limits them but its levels."""
        return None

    @property
    def gaps_said(self) -> str:
        """Which values within these its fills leave out, in words; empty where none."""
        return ""

    @property
    def heaps_said(self) -> str:
        """Which round values its fills take more often than others, in words; empty where none."""
        return ""

    @property
    def ordered(self) -> bool:
        """Whether the levels of its discrete dimensions have an order."""
        return False

    @property
    @abstractmethod
    def noisy(self) -> bool:
        """Whether `encode` spreads a cell over its share of the encoded space by uniform noise (dequantisation)."""

    @property
    def unrounded(self) -> bool:
        """Whether it is spread though no cell is rounded, because values pile up: where they do a cell has a
        probability, elsewhere a density."""
        return False

    def piled(self, codes: Floats) -> Bools:
        """[..] which codes of a column that is not rounded lie where values pile up."""
        return np.zeros(codes.shape, bool)

    def log_narrow(self, z: Floats) -> Floats:
        """[n] what turns the log probabilities of encoded cells [n, dimensions] of a column that is not rounded, over
        the little by which each is spread, into log densities; 0 where values pile up."""
        return np.zeros(len(z))

    @property
    @abstractmethod
    def unit(self) -> float:
        """What log densities of this column are divided by to make them comparable between columns and units, as a
        term that is added for each observed cell: log(standard deviation) - log(resolution) of a number."""

    @property
    @abstractmethod
    def deviation(self) -> float:
        """The standard deviation by which scores in the column's units are divided; 1 where it has no units."""

    @abstractmethod
    def codes(self, cells: Cells) -> Floats:
        """[N] codes of the cells of a table; NaN where a cell is missing or none of this kind."""

    def true_codes(self, cells: Cells) -> Floats:
        """[N] codes of the true cells that draws are scored against: as `codes`, unless more of them can be told."""
        return self.codes(cells)

    @abstractmethod
    def encode(self, codes: Floats, u: Floats | None) -> Floats:
        """[n, width] encoded values of codes [n]; any value where a code is NaN. u [n, width] uniform on (0, 1), where
        the column is `noisy`."""

    def valueless(self, codes: Floats) -> Bools | None:
        """[n, width]: which dimensions have no value in cells of codes [n] (how much was spent, where nothing was): a
        model sees them as missing, though the cell is observed. Only dimensions after the first. None: nowhere."""
        return None

    @abstractmethod
    def decode(self, z: Floats) -> Floats:
        """[..] codes of encoded values z [.., width]: the inverse of `encode` (of a
        `pooled` column one of the codes that share a value). What lies in the `box` up to the
        rounding of float32 gives an admissible cell."""

    def cell_ends(self, z: Floats) -> tuple[Floats, Floats]:
        """[n, width] the least and the greatest encoded value of the cells in which values z [n, width] lie: itself
        where a cell is one value."""
        return z, z

    def recoded(self, z: Floats, other: ModelledColumn) -> Floats | None:
        """[.., width] what the same cells, spread by the same noise, are encoded as by this column in another schema of
        the same table, which bends its numbers by another transform: a continuous increasing function of z [.., width]
        in each dimension. None: there is no such function."""
        return z if self == other else None

    @abstractmethod
    def log_volume(self, z: Floats) -> Floats:
        """[n] what turns log p(encoded cell z [n, width]) into the log of its density in data units (or, of a discrete
        kind, of its probability) when added: log |d encoded / d data|, and the log of the volume over which a cell is
        spread where the column is noisy."""

    @property
    def pooled(self) -> bool:
        """Whether several codes share one encoded value."""
        return False

    def unpool(self, codes: Floats, u: Floats) -> Floats:
        """[..] decoded codes; where one stands for several that share an encoded value, one of these by their shares,
        chosen by u [..] uniform on (0, 1)."""
        return codes

    def log_share(self, codes: Floats) -> Floats:
        """[n] log of the probability of each code given its encoded value, which `log_volume` cannot know; 0 where the
        value has one code, or the code is NaN."""
        return np.zeros(len(codes))

    @abstractmethod
    def box(self) -> Floats:
        """[2, width] the least and the greatest admissible encoded values; infinite where there is no bound."""

    @abstractmethod
    def snap(self, codes: Floats) -> Floats:
        """The nearest codes of cells that the column can hold."""

    def held(self, codes: Floats) -> Floats:
        """The same of codes that were computed from other columns: where the column is not rounded, they stay."""
        return self.snap(codes)

    @abstractmethod
    def point(self, draws: Floats, how: Point) -> Floats:
        """[..] a point estimate from the codes of draws [m, ..], a cell that the column can hold: of levels the mode,
        whatever is asked for, unless they have an order, of numbers their median where the mode is asked for."""

    @abstractmethod
    def spell(self, codes: Floats, fewest: int | None) -> list[str]:
        """[n] texts of codes [n] that `snap` leaves as they are. `fewest`: decimals that the numbers of the table have
        at least; None: as in the fit."""

    def numbers(self, codes: Floats) -> Floats | None:
        """[n] the numbers that cells with these codes are, for a file that types them; None where they are texts."""
        return None

    @abstractmethod
    def beside(self, codes: Floats, refused: Callable[[Floats], Bools]) -> Floats:
        """[n] for each code, which is `refused`, a near one that is not."""

    @abstractmethod
    def scores(self, draws: Floats, truth: Floats, ensemble: EnsembleScores) -> Scores:
        """Scores of draws [n, cells] against the true cells [cells], all as codes; `ensemble` gives those of numbers.
        Names that another kind has mean the same there; crps, rmse and mae are in the column's units."""

    @abstractmethod
    def findings(self, cells: Cells) -> Sequence[Finding]:
        """What is unlike the fit in the rows of a new table; the first ones weigh most."""
