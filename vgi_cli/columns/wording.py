"""Words for cells, columns and rows in the messages about a table."""

from __future__ import annotations

import csv
import io
import itertools
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from vgi_cli.columns.base import Cells
from vgi_cli.columns.notation import BLANKS, COMPOUND, SHAPE, SIGNS
from vgi_cli.columns.numerals import NUMBER, Bools

LONGEST = 80
"""Characters of a cell that a message shows."""
LONG_NAME = 100
"""Characters of a name of a column that a message shows, but in flags."""
QUOTED = re.compile(rf"(?<![^\s(\[])'([^'`\n]{{{LONG_NAME + 1},}})'(?![^\s,.;:)\]])")
"""A long text in quotes."""
SHOWN = 5
"""So many columns are named, or have a line each, where the same is said of several."""

EVERYWHERE = frozenset({"n/a", "na", "n.a.", "#n/a", "nan", "null", "none", "nil"})
"""Texts that mean missing in every column, as those do that are signs alone (`?`); others may be an answer in one."""
REPLACED = "replace such cells by None or NaN"
"""What makes cells of a table in memory missing: flags say how files are read."""

TOTALS = frozenset(
    {
        *("sum", "sums", "total", "totals", "grand total", "overall total", "subtotal"),
        *("summe", "gesamt", "gesamtsumme", "insgesamt", "zwischensumme", "totale", "somme", "ensemble", "suma"),
    }
)
"""What a line of totals says in a column of texts, in small letters."""
FEWEST_ALIKE = 3
"""Columns that are named by what their names have in common, at least."""
MOST_TOKENS, COUNTED = 8, 10_000
"""Different texts that a hint makes missing, each by its flag, and cells that are looked at for them."""

WRITTEN = re.compile(
    r"[+-]?(?:"
    r"(?:0|[1-9]\d*),\d+"  # decimal comma
    rf"|[1-9]\d{{0,2}}(?:[,_'{BLANKS}]\d{{3}})+(?:\.\d+)?"  # thousands apart
    rf"|[1-9]\d{{0,2}}(?:[.'{BLANKS}]\d{{3}})+,\d+"
    r"|(?:(?:₹|Rs\.?) ?)?[1-9]\d?(?:,\d{2})+,\d{3}(?:\.\d+)?"  # lakhs
    rf"|[$€£¥] ?(?:0|[1-9]\d*|[1-9]\d{{0,2}}(?:[,_'{BLANKS}]\d{{3}})+)(?:\.\d+)?"
    rf"|(?:0|[1-9]\d*|[1-9]\d{{0,2}}(?:[.,_'{BLANKS}]\d{{3}})+)(?:[.,]\d+)? ?[%$€£¥]"
    r")"
)
"""What a person reads as a number, and is not written as one here."""
DOTTED = {
    ".": re.compile(r"[+-]?[1-9]\d{0,2}(?:\.\d{3}){2,}"),
    ",": re.compile(r"[+-]?(?:[1-9]\d{0,2}(?:\.\d{3})+|(?:0|[1-9]\d*)\.\d+)"),
}
"""The same by the decimal mark of the table: with thousands points, and with a point where the mark is the comma."""
COMMA = re.compile(r"[+-]?(?:0|[1-9]\d*)(?:,\d+)?")
LIMIT = re.compile(
    r"(?P<sign>[<>≤≥]=?|under|below|less than|over|above|more than|at least)? ?(?P<limit>\d+(?:[.,]\d+)?)"
    r"(?(sign)| ?(?P<more>\+|or (?:more|over|above|older)|and (?:over|above|older)))",
    re.IGNORECASE,
)
"""A value below or above what could be measured, or was asked for: `<0.5`, `> 200`, `90+`, `80 or more`."""
MARKED = re.compile(r"[+-]?\d+(?:[.,]\d+)? ?(?:[A-Za-z]{1,2}|[*†‡]{1,3})")
"""A number with a footnote or a flag behind it (`18.1 p`: provisional), where it is no unit of the others."""
RANGE = re.compile(r"\d+(?:[.,]\d+)? ?(?:-|–|to|bis) ?\d+(?:[.,]\d+)?")
"""A range of numbers: `45-49`."""
BELOW = ("<", "≤", "u", "b", "l")
"""How the sign of a limit begins where values lie below it."""
WORDED = re.compile(
    r"(?P<below>[<≤]=? ?\w[^>]*|below(?: .+)?|(?:under|less than) (?:the |l?lo[dq]|detection|limit|range).*|l?lo[dq]"
    r"|mdl|b(?:lo?q|lld|dl|lod|mdl|rl)|(?:not|non)[- ]?detect(?:ed|able|s)?|undetect(?:ed|able))"
    r"|[>≥]=? ?\w.*|above(?: .+)?|(?:over|more than) (?:the |ulo[dq]|detection|limit|range).*|ulo[dq]|a(?:lo?q|uloq|dl)"
    r"|tntc|too numerous(?: to count)?",
    re.IGNORECASE,
)
"""The same in words, or with a unit, without a number that can be read: `<LOD`, `BLQ`, `below detection`, `TNTC`."""
MAYBE = re.compile(r"n\.? ?d\.?|undetermined", re.IGNORECASE)
"""What may mean that nothing was detected, or that nothing was determined: a limit, or a missing cell."""


UNIT = re.compile(r"[\[(<{].*[\])>}]|[^\W\d_][^\s]*|[%‰°]\S*")
"""What stands below a header for the unit of a column: `[wt%]`, `(mm)`, `kg/m³`, `%`, `°C`."""


def is_plain(text: str, decimal: str) -> bool:
    """Whether a text is a number here."""
    if decimal == ",":
        text = text.translate(str.maketrans(".,", ",."))
    return re.match(NUMBER, text) is not None


def is_written(text: str, decimal: str) -> bool:
    """Whether a text is a number to a person and none here, by the decimal mark of the table."""
    if is_plain(text, decimal):
        return False
    if WRITTEN.fullmatch(text) is not None or DOTTED[decimal].fullmatch(text) is not None:
        return True
    shape = SHAPE.fullmatch(text)
    return shape is not None and COMPOUND.search(shape["suffix"] or "") is not None


def is_limit(text: str) -> bool:
    """Whether a text says, by a number or in words, that a value lies below or above a limit."""
    return LIMIT.fullmatch(text) is not None or WORDED.fullmatch(text) is not None


def example(cells: Cells, which: Bools) -> str:
    """`'?' in row 3 (line 4) and 2 more cells`."""
    return first_cell(cells, which) + others(int(which.sum()))


def first_cell(cells: Cells, which: Bools) -> str:
    """`'?' in row 3 (line 4)`: the first of the cells."""
    row = int(np.flatnonzero(which)[0])
    return f"'{_short(cells, row)}' in {cells.where(row)}"


def _short(cells: Cells, row: int) -> str:
    return shortened(str(cells.texts(np.array([row]))[0]))


def shortened(text: str) -> str:
    """A text with its first characters only, where it is long."""
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def brief(name: str, most: int = LONG_NAME) -> str:
    """A name on one line, without its middle where it is long: the ends tell long questions apart."""
    line = " ".join(name.split())
    if len(line) <= most:
        return line
    last = most // 3
    return f"{line[: most - last - 1]}…{line[-last:]}"


def cut_names(text: str) -> str:
    """A message with the middle of very long names left out, but of paths, and of what stands in backticks, which is
    to be copied."""

    def cut(found: re.Match[str]) -> str:
        path = "/" in found[1] and not any(map(str.isspace, found[1]))
        return found[0] if path else f"'{brief(found[1])}'"

    if len(text) <= LONG_NAME:
        return text
    parts = text.split("`")
    return "`".join(part if i % 2 else QUOTED.sub(cut, part) for i, part in enumerate(parts))


def share_of(count: int, cells: int) -> str:
    """`98% of its cells`, of most cells of a column, not all; where that rounds to all `1,499 of its 1,500 cells`."""
    share = f"{count / cells:.0%}"
    return f"{share} of its cells" if share != "100%" else f"{count:,} of its {cells:,} cells"


def others(count: int) -> str:
    """` and 2 more cells` of `count` cells, of which one was named."""
    return f" and {count - 1} more cell{'s' if count > 2 else ''}" if count > 1 else ""


def token_hint(cells: Cells, which: Bools, fitted: bool = False) -> str:
    """What to do about the first of the cells, which is no number; `fitted`: the kind of the column is settled."""
    carry = f"`{kind_flag(cells.name, 'carry')}` to carry the column as it is"
    if fitted:
        carry = f"fit again with {carry}"
    row = int(np.flatnonzero(which)[0])
    if cells.numbers.padded[row]:
        return f"a leading zero makes a code, not a number: {carry}"
    text = str(cells.texts(np.array([row]))[0]).strip()
    if int(which.sum()) == 1 and text.casefold().rstrip(" :") in TOTALS:
        return f"delete the line, if it holds totals; else {number_hint(cells, which)}, or {carry}"
    unit = text.replace("/", "").isalpha() and text.casefold() not in EVERYWHERE and not is_limit(text)
    if int(which.sum()) == 1 and row == 0 and unit:
        return f"delete the line, if it holds units or a second header; else {number_hint(cells, which)}, or {carry}"
    return f"{number_hint(cells, which)}, or {carry}"


def unit_above(cells: Cells) -> str | None:
    """The text of the first cell of a column in which it may be a unit: no other cell holds it, and it is in brackets,
    a sign or a word; None where it is not."""
    if not len(cells.missing) or cells.missing[0] or not cells.textual or not cells.levelled:
        return None
    texts, places = cells.distinct
    text = texts[places[0]].strip()
    if UNIT.fullmatch(text) is None or is_limit(text) or MAYBE.fullmatch(text) or text.casefold() in EVERYWHERE:
        return None
    return text if int((places == places[0]).sum()) == 1 else None


def without_unit(cells: Cells, which: Bools) -> tuple[str, Bools]:
    """What to do about the first cell, where it is one of some cells [N] that are no numbers and is in brackets, as
    units are, and the other cells; an empty hint where it is not."""
    text = unit_above(cells) if which[:1].any() else None
    if text is None or text[0] not in "[({<":
        return "", which
    rest = which.copy()
    rest[0] = False
    return f"delete {cells.where(0)}, if it holds units or a second header", rest


def number_hint(cells: Cells, which: Bools) -> str:
    """What to do about the cells among numbers: to write them plainly, where a person reads numbers, to write what
    stands for a detection limit, or to let them mean missing. What the first of them is comes first."""
    unit, which = without_unit(cells, which)
    texts = different(cells, which)
    hints: dict[str, str] = {"unit": unit} if unit else {}
    limits = limits_hint(texts, cells.decimal)
    tokens = [
        text
        for text in texts
        if not (is_written(text, cells.decimal) or is_limit(text) or RANGE.fullmatch(text) or MARKED.fullmatch(text))
    ]
    for text in texts:
        if is_written(text, cells.decimal):
            comma = COMMA.fullmatch(text) is not None and cells.decimal == "." and not cells.in_memory
            words = "`--decimal ,` where the comma is the decimal mark; else " * comma + plain_number(cells.decimal)
            hints.setdefault("written", words)
        elif is_limit(text):
            hints.setdefault("limit", limits)
        elif RANGE.fullmatch(text) is not None:
            ends = f"'{shortened(text)}' is a range"
            hints.setdefault("range", f"{ends}, no missing cell: write one number in its place, or bands in all cells")
        elif MARKED.fullmatch(text) is not None:
            number = f"'{shortened(text)}' is a number with a mark"
            hints.setdefault("marked", f"{number}: write the number alone, and marks in a column of their own")
        elif len(tokens) <= MOST_TOKENS or not hints:
            hints.setdefault("token", beside_hint(cells, tokens, bool(hints)))
    return "; ".join(hints.values())


def different(cells: Cells, which: Bools) -> list[str]:
    """The different texts of the cells (of the first of them, where they are very many), blanks around them aside, in
    the order in which they occur."""
    texts = dict.fromkeys(str(text).strip() for text in cells.texts(np.flatnonzero(which)[:COUNTED]))
    return list(texts)


def limits_hint(texts: Sequence[str], decimal: str) -> str:
    """What to write in place of cells of which it is only known that they lie below or above a limit (`is_limit`): of
    the first of each side; empty where no text is one."""
    sides: dict[str, str] = {}
    for text in texts:
        if is_limit(text):
            sides.setdefault(_side(text), text)
    if not sides:
        return ""
    detected = any(text[0] in "<>≤≥" or not LIMIT.fullmatch(text) for text in sides.values())
    what = "a detection limit" if detected else "an open end"
    ways = [_beyond(side, text, decimal) for side, text in sides.items()]
    also = "".join(f", and for '{text}' {way}" for text, way in zip(list(sides.values())[1:], ways[1:], strict=True))
    return f"{what} is no missing cell: write {ways[0]} instead{also}; values that pile up are modelled as such"


def beside_hint(cells: Cells, tokens: Sequence[str], named: bool) -> str:
    """What to do where texts of the column mean missing, or a limit, as some of them may; `named`: they are named, as
    something is said of others."""
    maybe = [repr(token) for token in tokens if MAYBE.fullmatch(token)]
    hint = tokens_hint(cells, tokens)
    if named or 0 < len(maybe) < len(tokens):
        hint = f"{' and '.join(map(repr, tokens[:MOST_TOKENS]))}: {hint}"
    if not maybe:
        return hint
    what = "may say that a value lies beyond a detection limit, which is no missing cell"
    return f"{' and '.join(maybe)} {what}: write the limit itself or a value just beyond it instead if so; {hint}"


def _side(text: str) -> str:
    """Of a limit, whether the value lies `below` or `above` it."""
    if (found := LIMIT.fullmatch(text)) is not None:
        return "below" if (found["sign"] or found["more"]).casefold().startswith(BELOW) else "above"
    worded = WORDED.fullmatch(text)
    assert worded is not None, "a cell that is a limit"
    return "below" if worded["below"] else "above"


def _beyond(side: str, text: str, decimal: str) -> str:
    """What to write in place of a limit: it, or a value just beyond it, with the numbers where the text has one."""
    found = LIMIT.fullmatch(text)
    if found is None:
        return f"the limit itself or a value just {side} it"
    limit = Decimal(found["limit"].replace(",", "."))
    digits = -int(limit.as_tuple().exponent)
    step = Decimal(1).scaleb(-digits - 1) if digits else Decimal(1)
    value = f"{limit - step if side == 'below' else limit + step:f}".replace(".", decimal)
    return f"the limit itself ({found['limit']}) or a value {side} it ({value})"


def plain_number(decimal: str) -> str:
    """How to write numbers, in words; `decimal`: the mark before their decimals."""
    other = "dots" if decimal == "," else "commas"
    return f"write 1234{decimal}5, without {other}, blanks or units"


def missing_hint(cells: Cells, which: Bools) -> str:
    """What to do where the cells mean missing."""
    return tokens_hint(cells, different(cells, which))


def unless_missing(cells: Cells, which: Bools, other: str) -> str:
    """What to do where the cells mean missing, or else; the latter alone of most cells of a column and many texts,
    which no token stands for."""
    if which.sum() > 0.5 * (~cells.missing).sum() and len(different(cells, which)) > MOST_TOKENS:
        return other
    return f"{missing_hint(cells, which)}, or {other}"


def tokens_hint(cells: Cells, tokens: Sequence[str]) -> str:
    """What to do where texts of the column mean missing: a flag for each; of many, or of numbers, for the first
    alone."""
    several = len(tokens) <= MOST_TOKENS and not any(is_plain(token, cells.decimal) for token in tokens)
    few = sorted(tokens) if several else tokens[:1]
    means = "that means" if len(few) == 1 else "they mean"
    return f"{REPLACED if cells.in_memory else f'`{token_flags(cells.name, few)}`'} if {means} missing"


def token_flags(name: str, tokens: Iterable[str]) -> str:
    """`--na-values - --na-values x=nix`: the flags that make tokens mean missing, everywhere where they hardly mean
    anything else, else in one column."""

    def flag(token: str) -> str:
        everywhere = token.casefold() in EVERYWHERE or not any(c.isalnum() or c in SIGNS for c in token)
        return typed("--na-values", token) if everywhere else token_flag(name, token)

    return " ".join(flag(shortened(token)) for token in tokens)


def comma_names(names: Sequence[str]) -> str:
    """`cigarettes,brand`: the columns of one flag, as CSV has them; one as it is called."""
    if len(names) == 1:
        return names[0]
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(names)
    return text.getvalue()


def columns_said(names: Sequence[str], every: Sequence[str]) -> str | None:
    """Some of a table's columns in one flag that takes several: `q*` where three or more are called so and no other
    column is, else with commas between them; None where these would be too many."""
    first = _beginning(names)
    last = _beginning([name[len(first) :][::-1] for name in names])[::-1]
    alike = [name for name in every if name.startswith(first) and name.endswith(last)]
    pattern = f"{first}*{last}"
    if len(names) >= FEWEST_ALIKE and len(pattern) > 1 and sorted(alike) == sorted(names) and pattern not in every:
        return pattern
    return comma_names(names) if len(names) <= MOST_TOKENS else None


def _beginning(texts: Sequence[str]) -> str:
    """What all of some texts begin with."""
    letters = itertools.takewhile(lambda letters: len(set(letters)) == 1, zip(*texts, strict=False))
    return "".join(letter for letter, *_ in letters)


def token_flag(name: str, token: str) -> str:
    """`--na-values age=-999`, as a shell takes it: the flag that makes a token mean missing in one column."""
    return typed("--na-values", f"{name}={token}")


def made_missing(cells: Cells, token: str) -> str:
    """How a token is made to mean missing in a column: by a flag, or in the table itself."""
    return REPLACED if cells.in_memory else f"`{token_flag(cells.name, token)}`"


def kind_flag(name: str, kind: str) -> str:
    """`--column 'blood group=categorical'`, as a shell takes it: the flag that makes a column one of a kind."""
    return typed("--column", f"{name}={kind}")


def typed(flag: str, value: str) -> str:
    """`--exclude 'blood group'`: a flag and its value, as they are typed into a shell."""
    return f"{flag} {shlex.quote(value)}"


def in_markdown(text: str) -> str:
    """A text as a cell of a Markdown table: on one line, and no part of the markup."""
    return " ".join(text.split()).replace("|", "\\|")


def named(what: str, names: Sequence[str]) -> str:
    """`column 'a'`, `columns 'a', 'b' and 3 more`."""
    quoted = [f"'{name}'" for name in names]
    return f"{what}{'s' if len(names) > 1 else ''} {first_names(quoted)}"


def first_names(names: Sequence[str]) -> str:
    """`a, b and 3 more`."""
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")


def either(names: Sequence[str]) -> str:
    """`a`, `a, b or c`, `a, b, c, d, e or one of 3 more`."""
    last = names[-1] if len(names) <= SHOWN else f"one of {len(names) - SHOWN} more"
    first = names[:-1] if len(names) <= SHOWN else names[:SHOWN]
    return f"{', '.join(first)} or {last}" if first else last


def capped(lines: list[str]) -> list[str]:
    """The first five lines that say the same of several columns, and one that counts the others."""
    more = len(lines) - SHOWN
    return lines if more <= 0 else [*lines[:SHOWN], f"the same of {more} more column{'s' if more > 1 else ''}"]


def some_of(words: Sequence[str], shown: int = SHOWN, rest: str = "") -> str:
    """`a; b; and 3 more, which -v lists`: the first of several phrases, and how many others there are, with the `rest`
    of that."""
    more = [] if len(words) <= shown else [f"and {len(words) - shown} more{rest}"]
    return "; ".join([*words[:shown], *more])


class Alarm(str):
    """A line that a user must read, also with `-q`."""


CODED_WARNED = 0.01
"""Of a value that may be a code for a missing cell: the share of the observed cells of its column from which on the
line on it is a warning."""


def code_line(line: str, shares: Iterable[tuple[int, int]]) -> str:
    """A line on a value that may be a code for a missing cell: one that a user must read where it holds enough of a
    column; `shares`: by column how many cells hold it, and how many are observed."""
    return Alarm(line) if any(cells >= CODED_WARNED * observed for cells, observed in shares) else line


FEW_ALIKE = 2
"""Lines on columns that say the same, up to which each is said."""


def folded(lines: Sequence[tuple[str, str]]) -> list[str]:
    """Lines on columns, each with the name of its column. Of more than two that say the same, and propose the same, the
    first, which names the other columns."""
    out = []
    for group in alike(lines):
        rest = [name for name, _ in group[1:]]
        several = [f"{group[0][1]}; the same of {named('column', rest)}"]
        out += several if len(group) > FEW_ALIKE else [line for _, line in group]
    return out


def alike(lines: Sequence[tuple[str, str]]) -> list[list[tuple[str, str]]]:
    """Lines on columns, each with the name of its column, by what they say and propose, whatever the names, cells and
    numbers in them."""
    groups: dict[tuple[str, ...], list[tuple[str, str]]] = {}
    for name, line in lines:
        words, flags = line.split("`")[::2], line.split("`")[1::2]
        same = re.sub(r"'[^']*'|\d+", "", "".join(words)), *(flag.replace(f"{name}=", "=") for flag in flags)
        groups.setdefault(same, []).append((name, line))
    return list(groups.values())


def are(items: Sequence[object]) -> str:
    """`is` of one, `are` of several."""
    return "is" if len(items) == 1 else "are"


def hole_notes(label: str, modelled: bool, incomplete: int, bare: Sequence[str]) -> list[str]:
    """Notes on the holes of a table: none, no modelled column, and `bare`: what is said of rows without a cell."""
    if not modelled:
        return ["no column varies: there is nothing to model"]
    if not incomplete:
        return [f"{label} has no hole in a modelled column"]
    return [*bare]


FAR_WARNED = (0.0, 0.01)
"""Of cells far outside the range of the fit: always said, and a warning where they are a hundredth of the column."""
MANY_WARNED = (0.5, 0.5)
"""Of cells that are outside it, but not far: said where they are half of the column, and a warning then."""


REFIT = "fit again with such rows, or without the column"
"""What to do about cells outside the range of the fit."""


def beyond_words(name: str, what: str, count: int, low: str, high: str) -> str:
    """The line on cells outside the range of the fit, where they are many."""
    return (
        f"column '{name}': {what} {'is' if count == 1 else 'are'} outside the range of the fit, {low} to {high}: fills "
        f"that depend on it are extrapolated; {REFIT}"
    )


def readable(chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as a manifest has them, for people: of an average how many models, and their weights."""
    models = chosen.get("average")
    if not isinstance(models, list) or not models:
        return dict(chosen)
    if len(models) == 1:
        return {**chosen, "average": "1 model (recipe.yaml)"}
    total = sum(one["weight"] for one in models)
    shares = ", ".join(f"{one['weight'] / total:.0%}" for one in models)
    return {**chosen, "average": f"{len(models)} models (recipe.yaml), by weights {shares}"}
