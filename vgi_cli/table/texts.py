"""What the texts of cells mean: which are numbers, what they are worth and how they are spelled, and which stand for a
missing cell.

`02139` is a code, not a number; `1_000`, `0x10` and `1,5` are text; `2.`, `.5`, `+3` and `1e-3` are numbers.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from vgi_cli.columns.base import Distinct
from vgi_cli.columns.naming import names_in
from vgi_cli.columns.numerals import (
    EXACT,
    NO_DECIMALS,
    NUMBER,
    Bools,
    Floats,
    Ints,
    Numbers,
    Places,
    Spelling,
    marks_of,
    places_of,
)
from vgi_cli.errors import UsageError, nearest

PADDED = r"^[+-]?0[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?$"
INFINITE = r"(?i)^[+-]?inf(inity)?$"
ERRORS = ("#N/A", "#DIV/0!", "#VALUE!", "#REF!", "#NAME?", "#NUM!", "#NULL!")
"""What spreadsheets write where a formula failed."""
WORDS = ("NA", "N/A", "n/a", "<NA>", "NaN", "nan", "null", "NULL", "None")
"""Words that programs and people write for a missing cell."""
DUMPED = r"\N"
"""What a dump of a database has for NULL (MySQL, PostgreSQL)."""
MISSING = ("", *WORDS, *ERRORS, DUMPED)
"""What stands for a missing cell in CSV, blanks around it aside, unless it is a level that is known."""
HASHED = 1 << 20
"""Bytes: more than a small hash table of Arrow takes."""


def parse(text: pa.Array, missing: Bools) -> Numbers:
    """Read trimmed texts (Arrow large_string [N], nulls allowed) as numbers; `missing` cells are not looked at."""
    observed = ~missing
    number = _match(text, NUMBER) & observed
    if number[observed].all():
        padded = np.zeros_like(number)
    else:
        padded = _match(text, PADDED) & observed
        number |= _match(text, INFINITE) & observed
    texts = pc.if_else(pa.array(number), text, None)
    values = pc.cast(texts, pa.float64()).to_numpy(zero_copy_only=False)
    return Numbers(np.asarray(values, np.float64), number, padded)


def _match(text: pa.Array, pattern: str) -> Bools:
    return np.asarray(pc.fill_null(pc.match_substring_regex(text, pattern), False).to_numpy(zero_copy_only=False), bool)


def ask_for_memory() -> None:
    """MemoryError where too little is left for a hash table of Arrow: where such a table cannot be made, Arrow does not
    notice, and the process ends. Here more is asked for, and given back."""
    pa.allocate_buffer(HASHED)


def among(cells: pa.Array, texts: Sequence[str]) -> Bools:
    """[n] whether each cell (Arrow large_string [n], no null) is one of these texts. MemoryError: little is left."""
    ask_for_memory()
    return np.asarray(pc.is_in(cells, pa.array(texts, pa.large_string())).to_numpy(zero_copy_only=False), bool)


def encoded(cells: pa.Array, missing: Bools) -> Distinct:
    """The different ones of trimmed texts (Arrow large_string [N]), but for those that are `missing`."""
    ask_for_memory()
    held = pc.if_else(pa.array(missing), pa.scalar(None, cells.type), cells).dictionary_encode()
    places = pc.fill_null(held.indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    return Distinct(held.dictionary.to_pylist(), places)


def fields(text: pa.Array, pattern: str) -> tuple[Bools, dict[str, npt.NDArray[np.object_]]]:
    """Which trimmed texts (Arrow large_string [N], nulls allowed) a regular expression matches, and its groups."""
    found = pc.extract_regex(text, pattern)
    matched = np.asarray(pc.is_valid(found).to_numpy(zero_copy_only=False), bool)
    names = [field.name for field in found.type]
    parts = {name: pc.fill_null(pc.struct_field(found, name), "") for name in names}
    return matched, {name: np.array(part.to_pylist(), object) for name, part in parts.items()}


def spelling(text: pa.Array, number: Bools) -> Spelling | None:
    """The spelling of the cells of `text` (trimmed) that are numbers; None where there is none."""
    chosen = pc.filter(text, pa.array(number)).drop_null()
    if len(chosen) == 0:
        return None
    raised = np.asarray(pc.match_substring_regex(chosen, "[eE]").to_numpy(zero_copy_only=False), bool)
    bodies = pc.replace_substring_regex(chosen, r"[eE].*$", "") if raised.any() else chosen
    length = pc.binary_length(bodies).to_numpy(zero_copy_only=False).astype(np.int64)
    point = pc.find_substring(bodies, ".").to_numpy(zero_copy_only=False).astype(np.int64)
    decimals = np.where(point < 0, 0, length - point - 1)
    signs = pc.match_substring_regex(bodies, r"^[+-]").to_numpy(zero_copy_only=False)
    significant = _most_but_few(length - (point >= 0) - signs)
    power, places = "", None
    if not raised.any():
        places = _places(bodies, decimals)
    else:
        cells = pc.filter(chosen, pa.array(raised)).to_pylist()
        power = _power(cells) if raised.mean() > 0.5 else ""
        exponents = [_exponent(cell) for cell in cells]
        decimals[raised] = np.maximum(decimals[raised] - np.array(exponents, np.int64), 0)
    most, usual = min(int(decimals.max()), NO_DECIMALS), min(_most_but_few(decimals), NO_DECIMALS)
    return Spelling(int(decimals.min()), most, usual, min(significant, 17), power, _marks(chosen), places)


def _places(bodies: pa.Array, decimals: Ints) -> Places:
    """`Places` of numbers without powers of ten, of which each has so many decimals [n]."""
    some = decimals > 0
    zeros, whole = (_match(bodies, pattern) & some for pattern in ("0$", r"\.0*$"))
    return places_of(decimals, zeros, whole)


def _marks(cells: pa.Array) -> str:
    """`Spelling.marks` of numbers."""
    return marks_of(lambda pattern: int(pc.sum(pc.match_substring_regex(cells, pattern)).as_py()))


def _power(cells: Sequence[str]) -> str:
    """How these cells write their powers of ten (`Spelling.power`)."""
    found = [match.groups() for cell in cells if (match := re.search(r"([eE])([+-]?)([0-9]+)$", cell))]
    letters, signs, digits = zip(*found, strict=True)
    letter = max("eE", key=letters.count)
    plus = "+" in signs or "" not in signs
    return f"{letter}{'+' * plus}{min(min(map(len, digits)), 9)}"


def _most_but_few(counts: Ints) -> int:
    """The largest count without the largest twentieth."""
    return int(np.sort(counts)[-(len(counts) // 20) - 1])


def _exponent(cell: str) -> int:
    match = re.search(r"[eE]([+-]?[0-9]+)$", cell)
    return max(min(int(match.group(1)), NO_DECIMALS), -NO_DECIMALS) if match else 0


def with_point(cells: pa.Array, decimal: str) -> pa.Array:
    """Texts whose decimal mark is a comma with a point instead; what had a point is no number then, it has a comma."""
    if decimal == ".":
        return cells
    for mark, other in ((".", "\v"), (",", "."), ("\v", ",")):
        cells = pc.replace_substring(cells, mark, other)
    return cells


class OwnToken(NamedTuple):
    """A token of some columns.

    said   how these are named: `age`, `q1,q2` or `q*`
    names  which they are
    """

    said: str
    names: tuple[str, ...]
    token: str


def tokens_by_column(tokens: Sequence[str], names: Sequence[str], label: str) -> tuple[list[str], list[OwnToken]]:
    """The tokens of `--na-values` that mean missing in every column, and those of some: `age=-999` is the token `-999`
    of a column `age` where the table has one of that name, else the token `age=-999`. Several columns have commas
    between them, as in CSV, and a `*` stands for any letters. The empty token of a column (`age=`) says that an empty
    cell means missing there, and no word does but those that are named.

    label  of the table. UsageError where it has some of several columns alone, or none for a `*`.
    """
    every: list[str] = []
    own: list[OwnToken] = []
    for token in tokens:
        cuts = [place for place, letter in enumerate(token) if letter == "="]
        found = [(token[:cut], [(name, _called(name, names)) for name in names_in(token[:cut], names)]) for cut in cuts]
        meant = [(said, parts) for said, parts in found if any(called or "*" in name for name, called in parts)]
        said, parts = next((one for one in meant if all(called for _, called in one[1])), (meant or [("", [])])[0])
        for name, called in parts:
            if not called:
                raise UsageError(f"--na-values {token}: {label} has no column '{name}'", nearest(name, names))
        if parts:
            which = tuple(dict.fromkeys(itertools.chain(*(called for _, called in parts))))
            own.append(OwnToken(said, which, token[len(said) + 1 :]))
        else:
            every.append(token)
    return every, own


def _called(said: str, names: Sequence[str]) -> list[str]:
    """Those of some columns that are called so, `*` for any letters where none is called just so."""
    if said in names:
        return [said]
    letters = re.compile(".*".join(map(re.escape, said.split("*"))), re.DOTALL)
    return [name for name in names if "*" in said and letters.fullmatch(name)]


def _moment(text: str, kind: pa.DataType) -> pa.Scalar | None:
    """What a text is as a date or datetime of a type; None where it is none."""
    try:
        return pa.scalar(text).cast(kind)
    except pa.ArrowException:
        zone = getattr(kind, "tz", None)
        local = None if zone is None else _moment(text, pa.timestamp(kind.unit))
        return None if local is None else pc.assume_timezone(local, zone)


class Tokens:
    """Texts that mean missing, blanks around them aside; one that is a number means that number however it is spelled.

    `-999` matches `-999`, `-999.0` and `-9.99e2`, in text and in typed numbers alike. Texts of numbers too long for
    float64 are compared as texts.
    """

    def __init__(self, texts: Sequence[str], decimal: str = ".") -> None:
        """`texts`: those that the user gave; `decimal`: the mark in these and in cells."""
        self._texts, self._decimal = [text.strip() for text in texts], decimal
        cells = with_point(pa.array(self._texts, pa.large_string()), decimal)
        self._codes = parse(cells, np.zeros(len(cells), bool)).values
        self._numbers = self._codes[~np.isnan(self._codes)]
        self._met = np.isin(np.array(self._texts, object), np.array(MISSING, object))

    def __len__(self) -> int:
        return len(self._texts)

    def __bool__(self) -> bool:
        return bool(self._texts)

    def __contains__(self, text: str) -> bool:
        return text in self._texts

    @property
    def texts(self) -> Sequence[str]:
        """The tokens, without blanks around them."""
        return self._texts

    def in_texts(self, cells: pa.Array) -> Bools:
        """[n] whether each trimmed cell (Arrow large_string [n], no null) is one of the tokens."""
        if not self:
            return np.zeros(len(cells), bool)
        absent = among(cells, self._texts)
        if not self._met.all() and absent.any():
            met = pc.unique(pc.filter(cells, pa.array(absent))).to_pylist()
            self._met |= np.isin(np.array(self._texts, object), np.array(met, object))
        if len(self._numbers):
            values = parse(with_point(cells, self._decimal), absent).values
            absent |= self.in_numbers(np.where(np.abs(values) < EXACT, values, np.nan))
        return absent

    def in_numbers(self, values: Floats) -> Bools:
        """[n] whether each value is one of the tokens that are numbers."""
        absent = np.isin(values, self._numbers)
        if not self._met.all() and absent.any():
            self._met |= np.isin(self._codes, values[absent])
        return absent

    def in_moments(self, cells: pa.ChunkedArray) -> Bools:
        """[n] whether each cell of a type of dates or datetimes is one of the tokens, written as ISO 8601 has it: a
        date alone is its midnight, and without an offset it is local where the type has a zone."""
        absent = np.zeros(len(cells), bool)
        for place, text in enumerate(self._texts):
            moment = _moment(text, cells.type)
            if moment is not None:
                same = np.asarray(pc.fill_null(pc.equal(cells, moment), False).to_numpy(), bool)
                self._met[place] |= same.any()
                absent |= same
        return absent

    def unmet(self) -> list[str]:
        """The tokens that no cell was, of those that were looked at."""
        return [text for text, met in zip(self._texts, self._met.tolist(), strict=True) if not met]
