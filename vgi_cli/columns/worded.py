"""Lengths of time that are written with their units: `1h 50m`, `2h05`, `1 hr 32 min`, `4m05s`, `PT1H32M`.

A format has a field for each unit, what stands behind it, and `?` where a zero is left out: `%-Hh %Mm`, `PT%-HH?%-MM?`.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Sequence

UNITS = {"H": 3600, "M": 60, "S": 1}
"""Seconds of the units."""
_WORDS = {
    "H": r"h|H|hr|hrs|hour|hours|Std\.?",
    "M": r"m|M|min|mins|min\.|minute|minutes|Min\.?",
    "S": r"s|S|sec|secs|sec\.|second|seconds|Sek\.?",
}
_SHAPE = re.compile(
    r"(?P<iso>PT)?"
    + "".join(rf"(?:(?P<{unit}>[0-9]{{1,6}})(?P<behind{unit}> ?(?:{_WORDS[unit]}) ?))?" for unit in "HM")
    + rf"(?:(?P<S>[0-9]{{1,6}})(?P<behindS> ?(?:{_WORDS['S']})))?"
)
_SHORT = re.compile(r"(?P<H>[0-9]{1,4})(?P<behindH>[hH] ?)(?P<M>[0-5][0-9])")
"""Hours and minutes without the word for these: `2h05`."""
_FIELD = re.compile(r"%(?P<plain>-?)(?P<unit>[HMS])(?P<behind>[^%?]*)(?P<left_out>\??)")


def is_worded(format: str) -> bool:
    """Whether a format of durations is one of units."""
    return bool(fields := _fields(format)) and all(not re.search(r"[:,]", behind) for _, _, behind, _ in fields)


def is_length(text: str) -> bool:
    """Whether a text is a length of time with its units."""
    return _parts(text) is not None


def format_of(texts: Sequence[str]) -> str | None:
    """The format of which all of some texts are, to the letter; None where there is none, or where all have one unit
    alone, as numbers have it (`92 min`)."""
    found = [_parts(text) for text in texts]
    known = [parts for parts in found if parts is not None]
    if not known or len(known) < len(found):
        return None
    own = [unit for unit in UNITS if any(unit in parts for _, parts in known)]
    iso = known[0][0]
    if len(own) < 1 + (not iso):
        return None
    behind = {unit: Counter(parts[unit][1] for _, parts in known if unit in parts) for unit in own}
    words = {unit: max(counts, key=lambda word: (len(word.strip()), len(word))) for unit, counts in behind.items()}
    words[own[-1]] = words[own[-1]].rstrip()
    some = any(len(parts) < len(own) for _, parts in known)
    for first, plain, left_out in itertools.product(("-", ""), ("", "-"), ("", "?") if some else ("",)):
        each = [f"%{first if unit == own[0] else plain}{unit}{words[unit]}{left_out}" for unit in own]
        format = iso + "".join(each)
        if all(_spelled_so(text, parts, format) for text, (_, parts) in zip(texts, known, strict=True)):
            return format
    return None


def pattern_of(format: str) -> str:
    """A regular expression of the cells of a format, with the fields that durations have."""
    fields, parts = _fields(format), []
    for place, (_, unit, behind, left_out) in enumerate(fields):
        digits = "[0-9]+" if place == 0 else "[0-5]?[0-9]"
        blank = " ?" if behind.endswith(" ") else ""
        parts.append(rf"(?:(?P<{unit}>{digits}){re.escape(behind.rstrip())}{blank}){left_out}")
    none = "".join(f"(?P<{unit}>)" for unit in UNITS if unit not in {one for _, one, _, _ in fields})
    return rf"^(?P<sign>-?)(?P<D>)(?P<comma>){re.escape(_start(format))}{''.join(parts)}{none}$"


def spell(format: str, seconds: int) -> str:
    """Seconds in a format."""
    texts: list[str] = []
    left, fields = abs(seconds), _fields(format)
    for place, (plain, unit, behind, left_out) in enumerate(fields):
        number, left = divmod(left, UNITS[unit])
        last = place == len(fields) - 1 and not texts
        if number or last or not left_out:
            texts.append(f"{number if plain else f'{number:02d}'}{behind}")
    return f"{'-' * (seconds < 0)}{_start(format)}{''.join(texts).rstrip()}"


def spellings(texts: Sequence[str]) -> list[str]:
    """An example of each of the two spellings that most of some lengths of time have; none where some are no such, or
    all have one unit alone (`5 m` may be metres)."""
    if not all(map(is_length, texts)):
        return []
    if not any(one is not None and (one[0] or len(one[1]) > 1) for one in map(_parts, texts)):
        return []
    shapes = Counter(re.sub("[0-9]+", "0", text) for text in texts)
    common = [shape for shape, _ in shapes.most_common(2)]
    return [next(text for text in texts if re.sub("[0-9]+", "0", text) == shape) for shape in common]


def _parts(text: str) -> tuple[str, dict[str, tuple[str, str]]] | None:
    """What a length of time begins with, and of each unit that it has the digits and what stands behind them."""
    short = _SHORT.fullmatch(text)
    if short is not None:
        return "", {"H": (short["H"], short["behindH"]), "M": (short["M"], "")}
    found = _SHAPE.fullmatch(text)
    if found is None:
        return None
    parts = {unit: (found[unit], found[f"behind{unit}"]) for unit in UNITS if found[unit] is not None}
    return (found["iso"] or "", parts) if parts else None


def _fields(format: str) -> list[tuple[str, str, str, str]]:
    return [(one["plain"], one["unit"], one["behind"], one["left_out"]) for one in _FIELD.finditer(format)]


def _start(format: str) -> str:
    return format[: format.index("%")]


def _spelled_so(text: str, parts: dict[str, tuple[str, str]], format: str) -> bool:
    seconds = sum(int(digits) * UNITS[unit] for unit, (digits, _) in parts.items())
    return spell(format, seconds) == text
