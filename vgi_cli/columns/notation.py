"""Numbers that are written with more than digits: `$1,234.50`, `1.234,5 kg`, `12 %`, `(320)`.

A notation is what the cells of a column have beside the digits of their numbers. It is found in their texts, and fills
are written in it. Where the texts can be read in two ways (`1,234`), both are found, and the user has to say which.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np
from pydantic import ConfigDict
from pydantic.dataclasses import dataclass

from vgi_cli.columns.numerals import Spelling, marks_of, places_of

BLANKS = " \u00a0\u2009\u202f"
"""Blanks that set thousands or a unit apart: the usual one, and those at which no line is broken."""
MARKS = (",", ".", "'", "\u2019", "_", *BLANKS)
"""What may set thousands apart."""
MINUS = "\u2212-"
SIGNS = "$€£¥₹₩₺₽"
CODES = (
    *("AUD", "BRL", "CAD", "CHF", "CNY", "CZK", "DKK", "EUR", "GBP", "HKD", "HUF", "ILS", "INR", "JPY", "KRW", "MXN"),
    *("NOK", "NZD", "PLN", "RUB", "SEK", "SGD", "THB", "TRY", "TWD", "USD", "ZAR"),
)
MONEY = frozenset({*SIGNS, *CODES, "US$", "A$", "C$", "R$", "kr", "kr.", "Kč", "zł", "Ft", "Rs", "Rs.", "Fr."})
"""Currencies: amounts of them have no three decimals."""
_MONEY = "|".join(map(re.escape, sorted(MONEY, key=len, reverse=True)))
_SIMPLE = rf"(?:{_MONEY}|[%‰]|°[CFK]?|[^\W\d_]{{1,12}}\.?)(?:⁻[¹²³]|\^-?\d)?"
_TIMES = rf"{_SIMPLE}(?:[{BLANKS}]?[·⋅*][{BLANKS}]?{_SIMPLE}){{0,3}}"
_PER = rf"[{BLANKS}]?/[{BLANKS}]?(?:\d{{1,4}}[{BLANKS}]?)?(?:{_TIMES}|\({_TIMES}\))"
_UNIT = rf"{_TIMES}(?:{_PER}){{0,2}}"
SHAPE = re.compile(
    rf"(?P<open>\()?(?P<first>[+{MINUS}])?(?P<prefix>(?:{_MONEY})[{BLANKS}]?)?(?P<second>[+{MINUS}])?"
    rf"(?P<body>[.,]?\d(?:[\d.,'\u2019_{BLANKS}]*\d)?)"
    rf"(?P<suffix>[{BLANKS}]?{_UNIT}|(?(prefix){_PER}|(?!)))?(?P<close>\))?"
)
"""A number with a sign or in brackets, between a currency and a unit, which may be a product or a ratio of others
(`€/m²`, `kWh/(m²·a)`, `l/100 km`; behind a currency also what follows a slash, `$12/h`)."""
COMPOUND = re.compile(r"[/·⋅*]")
"""What stands between the units of which a unit is made."""
LOOKED_AT = 200
"""Cells that are looked at before all are read."""
LONGEST = 60
"""Characters of a number at most."""
FEWEST = 5
"""Fewest numbers with three digits after their mark that, beside smaller ones without it, have thousands apart."""
QUANTITIES = 0.9
"""From this share of measurements on, texts are no names."""
MOST_UNITS = 3
"""Words that texts have as units at most; of several, one has two letters or more (`3A` and `3B` are classes)."""
PERIOD = re.compile(r"P(?:\d+[YMWD])*(?:T(?:\d+(?:[.,]\d+)?[HMS])+)?")
"""A duration as ISO 8601 writes it: `PT40M`."""
PADDED = re.compile(r"(?:^|[^\d.,:'])0\d")
"""Leading zeros, which numbers of things have, and quantities have not."""
WORDS = re.compile(r"[^\W\d_]+")
PAIR = re.compile(r"[+-]?\d+(?:\.\d+)? ?(?P<mark>[/x×±;,|:]) ?[+-]?\d+(?:\.\d+)?")
"""Two numbers in one cell: `120/80`, `20 x 30`, `52.1, 13.4`, `3:1`."""
SHORT = 6
"""Digits of a code in whole groups are more than that."""
EXAMPLE, INDIAN = "1234.5", "1234567.5"
FORMS = "'1,234.5' where commas set thousands apart, '1.234,5 kg' where points do and a unit follows"


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Notation:
    """How numbers are written.

    prefix, suffix  what stands before and after them, with the blank between
    thousands  the mark that sets thousands apart; empty: none
    decimal    the mark before decimals
    minus      the sign of negative numbers; empty: they are in brackets
    outside    whether the sign stands before the prefix, not after it
    indian     whether a mark stands after every two digits above the last three (`12,34,567`)
    """

    prefix: str = ""
    suffix: str = ""
    thousands: str = ""
    decimal: str = "."
    minus: str = "-"
    outside: bool = True
    indian: bool = False

    @property
    def example(self) -> str:
        """One thousand two hundred thirty-four and a half, as the column writes it: what after `numeric:` says so; of
        Indian groups a larger number, which shows them."""
        return self.dress(INDIAN if self.indian else EXAMPLE)

    @cached_property
    def _cell(self) -> re.Pattern[str]:
        blank, sign = f"[{BLANKS}]?", f"[+{MINUS}]"
        prefix, suffix = re.escape(self.prefix.strip()), re.escape(self.suffix.strip())
        before, after = prefix + blank * bool(prefix), blank * bool(suffix) + suffix
        body = _body(self.thousands, self.decimal, strict=False, indian=self.indian)
        return re.compile(rf"(\()?({sign})?{before}({sign})?({body}){after}(\))?")

    def plain(self, text: str) -> str | None:
        """The number of a cell as it is written elsewhere (`-1234.50`); None where it is none in this notation.
        Thousands may stand together, and the blanks around a unit are free."""
        found = self._cell.fullmatch(text.strip()) if len(text) <= LONGEST else None
        if found is None:
            return None
        opened, first, second, body, closed = found.groups()
        negative = _is_negative(opened, first, second, closed)
        digits = body.replace(self.thousands, "") if self.thousands else body
        return None if negative is None else "-" * negative + digits.replace(self.decimal, ".")

    def dress(self, text: str) -> str:
        """A number `-1234.50` or `+1234.50` in this notation."""
        if "e" in text or "E" in text:
            text = np.format_float_positional(float(text), trim="-", sign=text.startswith("+"))
        negative, digits = text.startswith("-"), text.lstrip("+-")
        whole, point, decimals = digits.partition(".")
        if self.thousands and whole:
            whole = _grouped(whole, self.thousands) if self.indian else f"{int(whole):,}".replace(",", self.thousands)
        body = whole + point.replace(".", self.decimal) + decimals
        sign = self.minus * negative + "+" * text.startswith("+")
        before = sign + self.prefix if self.outside else self.prefix + sign
        out = f"{before}{body}{self.suffix}"
        return f"({out})" if negative and not self.minus else out

    def styled(self, texts: Iterable[str]) -> Notation:
        """The same with negative numbers, and the blanks around a unit, as most of some cells have them."""
        return self._as_in([shape for shape in map(_shape, texts) if shape is not None])

    def of_column(self, texts: Iterable[str]) -> Notation:
        """As `styled`, of all cells of a column that is fitted: where all of them are in brackets these say nothing of
        their signs (`(1994)`, a year)."""
        shapes = [shape for shape in map(_shape, texts) if shape is not None]
        own = self._as_in(shapes)
        if not shapes or not all(shape.negative and not shape.sign[0] for shape in shapes):
            return own
        return replace(own, prefix=f"({own.prefix}", suffix=f"{own.suffix})", minus="-", outside=True)

    def _as_in(self, shapes: Sequence[_Shape]) -> Notation:
        own = shapes if not self.prefix.startswith("(") else []  # brackets are no signs there
        signs = Counter(shape.sign for shape in own if shape.negative)
        inside = Counter(shape.sign[1] for shape in shapes).most_common(1) == [(False, len(shapes))]
        sign, outside = signs.most_common(1)[0][0] if signs else (self.minus, self.outside and not inside)
        prefix = _usual(shape.prefix for shape in shapes if shape.prefix.strip() == self.prefix.strip())
        suffix = _usual(shape.suffix for shape in shapes if shape.suffix.strip() == self.suffix.strip())
        return Notation(
            self.prefix if prefix is None else prefix,
            self.suffix if suffix is None else suffix,
            self.thousands,
            self.decimal,
            sign,
            outside,
            self.indian,
        )


_Fit: TypeAlias = tuple[str, str, bool]
"""The mark between thousands, that before decimals, and whether the groups are Indian."""


class _Shape(NamedTuple):
    """The parts of a cell."""

    prefix: str
    body: str
    suffix: str
    negative: bool
    sign: tuple[str, bool]


def _shape(text: str) -> _Shape | None:
    found = SHAPE.fullmatch(text.strip()) if len(text) <= LONGEST else None
    if found is None:
        return None
    brackets, first, second = found["open"], found["first"], found["second"]
    negative, mark = _is_negative(brackets, first, second, found["close"]), first or second
    if negative is None:
        return None
    sign = ("", True) if brackets else ("-" if mark in (None, "+") else mark, second is None)
    return _Shape(found["prefix"] or "", found["body"], found["suffix"] or "", negative, sign)


def _is_negative(opened: str | None, first: str | None, second: str | None, closed: str | None) -> bool | None:
    """Whether brackets, a sign before the prefix or one after it say so; None where they say it twice, or by half."""
    if (opened is None) != (closed is None) or bool(opened) + bool(first) + bool(second) > 1:
        return None
    return opened is not None or (first or second or "+") in MINUS


def _grouped(whole: str, mark: str) -> str:
    """The digits of a whole number in Indian groups: `12,34,567`."""
    digits = str(int(whole))
    head, last = digits[:-3], digits[-3:]
    pairs = [head[max(0, end - 2) : end] for end in range(len(head), 0, -2)][::-1]
    return mark.join([*pairs, last])


def _body(thousands: str, decimal: str, *, strict: bool, indian: bool = False) -> str:
    """The digits of a number; `strict`: thousands are set apart wherever there are any."""
    mark, point = re.escape(thousands), re.escape(decimal)
    whole = r"0|[1-9]\d*"
    if thousands:
        groups = rf"[1-9]\d?(?:{mark}\d\d)*{mark}\d{{3}}" if indian else rf"[1-9]\d{{0,2}}(?:{mark}\d{{3}})+"
        whole = rf"0|{groups}|[1-9]\d{'{0,2}' if strict else '*'}"
    return rf"(?:{whole})(?:{point}\d+)?|{point}\d+"


def _usual(texts: Iterable[str]) -> str | None:
    often = Counter(texts).most_common(1)
    return often[0][0] if often else None


def notation_of(example: str) -> Notation | None:
    """The notation in which `example` is one thousand two hundred thirty-four and a half, or `12,34,567.5`; None where
    there is none."""
    shape = _shape(example)
    if shape is not None and shape.body == "12,34,567.5":
        return Notation(shape.prefix, shape.suffix, ",", ".", *shape.sign, indian=True)
    found = None if shape is None else re.fullmatch(r"1(\D?)234([.,])5", shape.body)
    if shape is None or found is None or found[1] == found[2] or (found[1] and found[1] not in MARKS):
        return None
    return Notation(shape.prefix, shape.suffix, found[1], found[2], *shape.sign)


def readings(texts: Sequence[str], decimal: str, *, codes: bool = False) -> list[Notation]:
    """The notations in which different texts, not all of them plain numbers, are numbers: none where some are not, two
    where they can be read in two ways. `decimal`: the mark before the decimals of the table; `codes`: whether texts
    that may as well be codes are read too."""
    shapes = [_shape(text) for text in texts]
    known = [shape for shape in shapes if shape is not None]
    around = {(shape.prefix.strip(), shape.suffix.strip()) for shape in known}
    if len(known) < len(texts) or len(around) != 1:
        return []
    [(prefix, suffix)] = around
    bodies = [shape.body for shape in known]
    fits = _fits(bodies, decimal)
    if len(fits) > 1:
        money, rate = MONEY & {prefix, COMPOUND.split(suffix)[0].strip()}, COMPOUND.search(suffix)
        fits = _likelier(bodies, fits, decimal, money=bool(money and not rate), price=bool(money and rate))
    alone = len(fits) == 1 and not prefix and not suffix and not codes
    if alone and not _numbers_alone(bodies, *fits[0], decimal):
        return []
    return [
        Notation(prefix, suffix, thousands, point, indian=indian).of_column(texts) for thousands, point, indian in fits
    ]


def may_be_numbers(texts: Iterable[str]) -> bool:
    """Whether each of some texts has the shape of a number, whatever its marks mean."""
    return all(_shape(text) is not None for text in texts)


def quantities(texts: Sequence[str]) -> bool:
    """Whether nearly all of some different texts are made of digits, signs and units, as measurements are (`120/80`,
    `PT40M`, `€ 53`, `70+`), and names are not (`s12`, `012`, `3A` beside `3B`)."""
    short = [text.strip() for text in texts if len(text) <= LONGEST]
    able = [text for text in short if PERIOD.fullmatch(text) or SHAPE.match(text.lstrip("<>≤≥~≈=± "))]
    if len(able) < QUANTITIES * len(texts) or any(map(PADDED.search, able)):
        return False
    words = {word for text in able for word in WORDS.findall(text)}
    return len(words) <= MOST_UNITS and (len(words) <= 1 or max(map(len, words)) > 1)


def pairs(texts: Sequence[str]) -> bool:
    """Whether each of some texts is two numbers, with the same mark between."""
    found = [PAIR.fullmatch(text) for text in texts]
    return len({one and one["mark"] for one in found}) == 1 and None not in found and not any(map(PADDED.search, texts))


def _fits(bodies: Sequence[str], decimal: str) -> list[_Fit]:
    """The marks (thousands, decimal, whether Indian groups) by which all bodies are numbers, those alone that make a
    difference."""
    used = [mark for mark in MARKS if any(mark in body for body in bodies)]
    found: dict[tuple[str, ...], _Fit] = {}
    groups = [("", False), *((mark, False) for mark in used), *((mark, True) for mark in used if mark == ",")]
    for thousands, indian in groups:
        for point in (decimal, "," if decimal == "." else "."):
            body = re.compile(_body(thousands, point, strict=True, indian=indian))
            if point == thousands or not all(map(body.fullmatch, bodies)):
                continue
            values = tuple(body.replace(thousands, "").replace(point, ".") for body in bodies)
            found.setdefault(values, (thousands, point, indian))
    return list(found.values())


def _numbers_alone(bodies: Sequence[str], thousands: str, point: str, indian: bool, decimal: str) -> bool:
    """Whether digits with nothing around them are numbers: codes in groups of three (`732 829 320`) have all the same
    length, and choices (`1,3`) one digit on each side. Blanks at which no line is broken are set within codes of whole
    groups alone. Of Indian groups FEWEST show that they are such."""
    if indian and sum(body.count(thousands) > 1 for body in bodies) < FEWEST:
        return False
    if thousands:
        lengths = {sum(map(str.isdigit, body)) for body in bodies}
        short = thousands in BLANKS[1:] and (max(lengths) <= SHORT or max(lengths) % 3 > 0)
        return any(point in body for body in bodies) or len(lengths) > 1 or short
    return point == decimal or any(max(map(len, body.split(point))) > 1 for body in bodies)


def _likelier(bodies: Sequence[str], fits: list[_Fit], decimal: str, *, money: bool, price: bool) -> list[_Fit]:
    """Of two ways to read every mark with three digits after it, the one for which there are reasons; else both.
    `money`: amounts, which have no three decimals; `price`: such for a unit (1.234 €/m²), which may (1.899 €/l)."""
    apart = [fit for fit in fits if fit[0]]
    together = [fit for fit in fits if not fit[0]]
    if decimal == ",":  # which the user said
        return [fit for fit in fits if fit[1] == decimal][:1] or fits
    if money:
        return apart[:1] or fits
    mark = apart[0][0] if apart else ""
    small = [body for body in bodies if mark not in body and body.strip("0")]
    if len(bodies) - len(small) >= FEWEST and small and mark == ",":
        return apart[:1]
    return together if mark == "." and not price else fits


def spelling_of(texts: Sequence[str], counts: Sequence[int]) -> Spelling | None:
    """How plain numbers are written, each in so many cells; None where there is none."""
    if not texts:
        return None

    def count(pattern: str) -> int:
        return sum(n for text, n in zip(texts, counts, strict=True) if re.search(pattern, text))

    repeats = np.array(counts, np.int64)
    decimals = np.repeat([len(text.partition(".")[2]) for text in texts], repeats)
    significant = np.repeat([sum(map(str.isdigit, text)) for text in texts], repeats)
    parts = [text.partition(".")[2] for text in texts]
    zeros, rounds = (np.repeat([one(part) for part in parts], repeats) for one in (_ends_in_zero, _is_zero))
    few = len(decimals) // 20
    usual, enough = (int(np.sort(some)[-few - 1]) for some in (decimals, significant))
    ends = int(decimals.min()), int(decimals.max())
    places = places_of(decimals, zeros, rounds)
    return Spelling(*ends, usual, min(enough, 17), marks=marks_of(count), places=places)


def _ends_in_zero(decimals: str) -> bool:
    return decimals.endswith("0")


def _is_zero(decimals: str) -> bool:
    return bool(decimals) and not decimals.strip("0")
