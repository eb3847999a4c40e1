"""Columns of text that a person reads as numbers or dates, and numbers that a person reads as larger ones.

Nothing here changes how a table is read: these are lines for the user, with the flag or the spelling that would.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

import numpy as np

from vgi_cli.columns.base import Carried, Cells, Column
from vgi_cli.columns.datetime import doubt
from vgi_cli.columns.levelled import MOST, MOST_NAMED, PER_NAMED, Levelled, few, sentences
from vgi_cli.columns.notation import BLANKS, MONEY, SHAPE, Notation, may_be_numbers, pairs, quantities
from vgi_cli.columns.number import Number, notations_in
from vgi_cli.columns.numerals import Bools, plain
from vgi_cli.columns.worded import spellings
from vgi_cli.columns.wording import (
    COMMA,
    SHOWN,
    Alarm,
    beside_hint,
    different,
    example,
    first_cell,
    folded,
    is_limit,
    is_plain,
    is_written,
    kind_flag,
    limits_hint,
    number_hint,
    plain_number,
    share_of,
    shortened,
    tokens_hint,
    typed,
    without_unit,
)
from vgi_cli.table.base import Table

TEXT_SHARE = 0.5
"""From this share of numbers on, among cells that do not say that there is no value, a column that is carried as text
is worth a line."""
WRITTEN_SHARE = 0.9
"""From this share of cells that a person would read as numbers on, so is a column without plain ones."""
UNIT = re.compile(r"[+-]?\d[\d.,_' ]*?\s?([^\W\d_]{1,6}(?:[/²³][^\W\d_]{0,4})?)")
"""A number and its unit: `180 cm`, `5km/h`."""
SAME = {"€": "eur", "£": "gbp", "₹": "inr", "rs": "inr", "rs.": "inr", "us$": "usd", "₽": "rub", "kr.": "kr"}
"""Signs of currencies, and their codes, in small letters."""
LOOKED_AT = 1000
"""Cells of a text column that are looked at for numbers that are written otherwise."""
FEWEST_PAIRS = 12
"""Fewest different levels that may be two quantities each: of fewer they are names of kinds (genotypes, sights)."""
FEWEST_POINTS, GROUP = 10, 1000.0
"""Fewest cells with a point of which all have three digits after it, and the first number with a thousands mark."""
UNKNOWN = frozenset(
    {
        *("?", "??", "-", "--", ".", "..", "*", "unknown", "unk", "missing", "not available"),
        *("n.a.", "n/k", "#n/a", "n/a", "na", "nan", "null", "none", "nil"),
        *("not known", "not stated", "not applicable", "no answer", "don't know", "dk", "refused", "prefer not to say"),
        *("k. a.", "k.a.", "keine angabe", "unbekannt", "inconnu", "non renseigné", "desconocido", "sin datos", "s/d"),
        *("#div/0!", "#value!", "#ref!", "#num!", "#name?", "#null!"),
    }
)
"""Levels that may stand for missing cells, in small letters."""


def text_doubts(table: Table, columns: Sequence[Column]) -> list[str]:
    """What some columns may be, beside texts that are carried or levels; a reason for each that is carried."""
    texts = [column for column in columns if isinstance(column, Carried | Levelled)]
    found = [(column.name, _text(table.column(column.name), isinstance(column, Carried))) for column in texts]
    return folded([(name, line) for name, line in found if line])


def thousands(table: Table, columns: Sequence[Column]) -> list[str]:
    """Columns of numbers in which the decimal mark may set thousands apart."""
    plainly = [column.name for column in columns if isinstance(column, Number) and column.notation is None]
    found = [(name, _grouped(table.column(name))) for name in plainly]
    return [Alarm(line) for line in folded([(name, line) for name, line in found if line])]


def read_as_numbers(table: Table, columns: Sequence[Number]) -> list[str]:
    """Columns whose numbers are written with more than digits, and how they are read."""
    lines = []
    for column in columns:
        if column.notation is not None:
            cells = table.column(column.name)
            values = column.codes(cells)
            row = int(np.nanargmax(np.abs(values)))
            text, value = shortened(str(cells.texts(np.array([row]))[0]).strip()), plain(float(values[row]))
            lines.append((column.name, f"column '{column.name}' is read as numbers: '{text}' is {value}"))
    return folded(lines)


def looks_written(cells: Cells, *, units: bool) -> bool:
    """Whether the cells of a text column are numbers to a person: `47,5`, `1,234`, `10%`, `$ 5`, `1.234,5`;
    `units`: or numbers with the same unit, nearly all."""
    if not cells.textual:
        return False
    first = [str(text).strip() for text in cells.texts(np.flatnonzero(~cells.missing)[:LOOKED_AT])]
    texts = [text for text in first if text.casefold() not in UNKNOWN]
    written = [is_written(text, cells.decimal) for text in texts]
    plainly = [is_plain(text, cells.decimal) for text in texts]
    if any(written) and sum(written) + sum(plainly) >= WRITTEN_SHARE * len(texts):
        return True
    found = Counter(match[1] for text in texts if units and (match := UNIT.fullmatch(text)))
    return bool(found) and found.most_common(1)[0][1] >= WRITTEN_SHARE * len(texts)


def _text(cells: Cells, alone: bool) -> str | None:
    """What a column of texts may be beside that; `alone`: whether it is carried, else it is one of levels."""
    if alone and (line := doubt(cells)) is not None:
        return line
    if not cells.textual:
        return _many(cells) if alone and cells.typed and cells.levelled else None
    name, observed, numbers = cells.name, ~cells.missing, cells.numbers
    if numbers.padded.any():  # codes with leading zeros
        return _many(cells) if alone else None
    carried = f"column '{name}' is {'carried as text, not modelled' if alone else 'taken for categories'}"
    if observed.any() and numbers.number[observed].all():
        return f"{carried}: all its cells are numbers (`{kind_flag(name, 'numeric')}`)" if cells.typed else None
    wrong, nothing = observed & ~numbers.number, _unknown(cells)
    meant = observed & ~nothing if alone else observed
    if meant.any() and numbers.number[meant].mean() >= TEXT_SHARE:
        share = share_of(int(numbers.number[observed].sum()), int(observed.sum()))
        also = f"but also {example(cells, wrong)}: {number_hint(cells, wrong)}"
        return f"{carried}: {share} are numbers, {also}"
    ways = spellings(different(cells, observed & ~nothing)) if alone else []
    if len(ways) > 1:
        both = " and ".join(map(repr, ways))
        return f"{carried}: its cells are lengths of time in several spellings, such as {both}: write all in one"
    if (line := _nearly(cells, carried, nothing)) is not None:
        return line
    if (line := _in_the_way(cells, carried, alone)) is not None:
        return line
    if not alone and len(notations_in(cells, observed)) == 1:
        kind = _kind_of(notations_in(cells, observed)[0], different(cells, observed))
        return f"{carried}: {as_levels(cells, len(different(cells, observed)), kind)}"
    if looks_written(cells, units=alone):
        if (what := _mixed(cells, wrong & ~nothing)) is not None:
            return f"{carried}: {what}"
        comma = "`--decimal ,` where the comma is the decimal mark; " if _commas(cells) else ""
        what = f"{first_cell(cells, wrong & ~nothing)} is no plain number ({comma}{plain_number(cells.decimal)})"
        if not comma and (way := _code(cells, observed & ~nothing)):
            what = f"{first_cell(cells, wrong & ~nothing)} may be a number or a code: {way}"
        tokens = different(cells, wrong & nothing)
        which = f"; {' and '.join(map(repr, sorted(tokens)))}: {tokens_hint(cells, tokens)}" if tokens else ""
        return f"{carried}: {what}{which}"
    if alone and (wrong & ~nothing).any() and all(map(is_limit, different(cells, wrong & ~nothing))):
        return f"{carried}: {example(cells, wrong & ~nothing)}: {number_hint(cells, wrong)}"
    if alone and _measured(different(cells, wrong & ~nothing)) and (what := _mixed(cells, wrong & ~nothing)):
        return f"{carried}: {what}"
    said = different(cells, observed & ~nothing)
    if (alone or len(said) >= FEWEST_PAIRS) and pairs(said):
        what = f"its cells hold two numbers, {first_cell(cells, observed & ~nothing)}"
        return f"{carried}: {what}: write them into two columns, if they are quantities"
    return _many(cells) if alone else None


def as_levels(cells: Cells, count: int, kind: str) -> str:
    """Why a column whose cells are numbers, of so many values, is one of levels, and the flag by which it is one of
    numbers, of some kind."""
    observed, flag = ~cells.missing, f"`{kind_flag(cells.name, kind)}` if they are quantities"
    if cells.dictionary:
        return f"the file says that it is of levels, {first_cell(cells, observed)} among them ({flag})"
    gaps = ", with wide gaps between them" if count > 2 else ""
    return f"its numbers have only {count} values{gaps}, as codes do: {first_cell(cells, observed)} ({flag})"


def _measured(texts: Sequence[str]) -> bool:
    """Whether texts that are numbers with something around them are quantities, not names."""
    shapes = [SHAPE.fullmatch(text) for text in texts]
    money = all(shape is not None and (shape["prefix"] or shape["suffix"] or "").strip() in MONEY for shape in shapes)
    return money or quantities(texts)


def _mixed(cells: Cells, which: Bools) -> str | None:
    """What to do about some cells [N] that are all numbers, and written with several units or currencies, or with one
    in several ways (before some and behind others, `€` and `EUR`); None where they are not."""
    units: dict[str, str] = {}
    ways: dict[tuple[bool, str], str] = {}
    for text in different(cells, which):
        if (shape := SHAPE.fullmatch(text)) is None:
            return None
        unit = (shape["prefix"] or shape["suffix"] or "").strip().casefold()
        if unit:
            units.setdefault(SAME.get(unit, unit), text)
            ways.setdefault((shape["prefix"] is None, unit), text)
    if len(units) > 1:
        shown = ", ".join(f"'{text}'" for text in list(units.values())[:SHOWN])
        return f"its numbers are written with different units ({shown}): write them in one, or in a column each"
    if len(ways) > 1:
        shown = ", ".join(f"'{text}'" for text in list(ways.values())[:SHOWN])
        return f"its numbers are written in several ways ({shown}): write all of them in one"
    return None


def _nearly(cells: Cells, carried: str, nothing: Bools) -> str | None:
    """What to do about a column in which the cells that say something, or nearly all of them, are numbers that are
    written with more than digits; `carried`: what the column was taken for, `nothing` [N]: cells that may say
    nothing."""
    observed = ~cells.missing
    found = notations_in(cells, observed & ~nothing)
    if len(found) > 1:
        return f"{carried}: {_ways(cells, observed & ~nothing, found)}"
    if not found or not (observed & nothing).any():
        return None
    tokens = different(cells, observed & nothing)
    numbers = f"its cells are numbers, written as {found[0].example}"
    return f"{carried}: {numbers}, but also {example(cells, observed & nothing)}: {tokens_hint(cells, tokens)}"


def _in_the_way(cells: Cells, carried: str, alone: bool) -> str | None:
    """What to do about a column most of whose cells are numbers that are written with more than digits, and some no
    numbers however they are read; `carried`: what the column was taken for, `alone`: whether it is carried."""
    observed, (texts, places) = ~cells.missing, cells.distinct
    odd = [i for i, text in enumerate(texts) if not may_be_numbers([text.strip()])]
    wrong = observed & np.isin(places, odd)
    read = observed & ~wrong
    found = notations_in(cells, read) if wrong.any() else []
    if not found:
        return None
    sure = alone and all(not one.suffix.strip() or one.suffix.strip() in {"%", "‰", *MONEY} for one in found)
    if read.sum() < (TEXT_SHARE if sure else WRITTEN_SHARE) * (read | (wrong & ~_unknown(cells))).sum():
        return None
    written = " or ".join(one.example for one in found)
    which = f"; {_ways(cells, read, found)}" if len(found) > 1 else ""
    hint = _hint_beside(cells, wrong, found[0].decimal)
    return f"{carried}: its other cells are numbers, written as {written}, but {_counted(cells, wrong)}: {hint}{which}"


def _counted(cells: Cells, which: Bools) -> str:
    """`'-' (12 cells) and 'x' (1 cell) are none`: the texts of some cells, the most frequent first."""
    counts = _often(cells, which)
    said = [f"'{shortened(text)}' ({count:,} cell{'s' * (count > 1)})" for text, count in counts.items()]
    more = f" and {len(said) - SHOWN:,} more texts" if len(said) > SHOWN + 1 else ""
    shown = said[:SHOWN] if more else said
    listed = ", ".join(shown) if more or len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
    return f"{listed}{more} {'is' if len(said) == 1 else 'are'} none"


def _often(cells: Cells, which: Bools) -> dict[str, int]:
    """The different texts of some cells [N], and how many hold each, the most frequent first."""
    texts, places = cells.distinct
    counts: Counter[str] = Counter()
    for place, count in zip(*np.unique(places[which & (places >= 0)], return_counts=True), strict=True):
        counts[texts[place].strip()] += int(count)
    return dict(counts.most_common())


def _hint_beside(cells: Cells, which: Bools, decimal: str) -> str:
    """What to do about cells that are no numbers, beside numbers with this mark before their decimals: to write what
    stands for a limit, and to let the others mean missing."""
    unit, rest = without_unit(cells, which)
    texts = list(_often(cells, rest))
    limits = [text for text in texts if is_limit(text)]
    tokens = [text for text in texts if text not in limits]
    hints = [*([unit] if unit else []), *([limits_hint(limits, decimal)] if limits else [])]
    if tokens:
        hints.append(beside_hint(cells, tokens, bool(hints)))
    return "; ".join(hints)


def _ways(cells: Cells, which: Bools, found: Sequence[Notation]) -> str:
    """Some cells [N] that can be read in two ways: the first of them as each reads it, and its flag."""
    first = str(cells.texts(np.flatnonzero(which)[:1])[0])
    ways = [f"{plain(float(one.plain(first) or 0))} ({_as_written(cells, which, one)})" for one in found]
    return f"{first_cell(cells, which)} can be read in two ways, as {' or as '.join(ways)}"


def _as_written(cells: Cells, which: Bools, notation: Notation) -> str:
    """The flag by which some cells [N] are read as numbers in a notation, whole ones where none has decimals."""
    kind = _kind_of(notation, different(cells, which))
    return f"`{kind_flag(cells.name, f'{kind}:{notation.example}')}`"


def _kind_of(notation: Notation, texts: Sequence[str]) -> str:
    """`integer` where no text has decimals in a notation, else `numeric`."""
    return "numeric" if any("." in (notation.plain(text) or "") for text in texts) else "integer"


def _code(cells: Cells, which: Bools) -> str:
    """The flag by which cells [N] with thousands apart, which may as well be codes, are numbers, and what the first one
    then is; empty where they are none."""
    found = notations_in(cells, which, codes=True)
    if len(found) != 1 or found[0].thousands not in ("'", "\u2019", *BLANKS):
        return ""
    first = found[0].plain(str(cells.texts(np.flatnonzero(which)[:1])[0]))
    return f"{_as_written(cells, which, found[0])} if it is {plain(float(first or 0))}"


def _unknown(cells: Cells) -> Bools:
    """[N] which cells may say that there is no value."""
    texts, places = cells.distinct
    return np.isin(places, [i for i, text in enumerate(texts) if text.casefold() in UNKNOWN])


def _commas(cells: Cells) -> bool:
    """Whether the first cells of a text column may all be numbers with a decimal comma."""
    texts = cells.texts(np.flatnonzero(~cells.missing)[:LOOKED_AT])
    known = [text for text in (str(text).strip() for text in texts) if text.casefold() not in UNKNOWN]
    return cells.decimal == "." and all(map(COMMA.fullmatch, known))


def _many(cells: Cells) -> str | None:
    """Why a text is carried: the limit of levels that it exceeds, and the flag that models it all the same."""
    texts, places = cells.distinct
    observed = int((~cells.missing).sum())
    levels = len(np.unique(places[places >= 0]))
    if sentences(texts[place] for place in np.unique(places[places >= 0]).tolist()):
        flag = kind_flag(cells.name, "categorical")
        return f"column '{cells.name}' is carried: free text (`{flag}` models it all the same)"
    if levels < 2 or few(levels, observed):
        return None
    if levels == len(cells.missing) and cells.textual:
        flag = f"`{typed('--id', cells.name)}` if they name the rows"
        why = "so that each row gets the same draws wherever it stands"
        return f"column '{cells.name}' is carried: text of {levels:,} levels, all different ({flag}, {why})"
    limit = f"more than {MOST}" if levels > MOST else f"more than a fifth of its {observed} cells"
    held = np.bincount(places[places >= 0])
    pooled = levels > MOST_NAMED or (levels > MOST and held[held > 0].min() < PER_NAMED)
    flag = f"`{kind_flag(cells.name, 'categorical')}` models it" + (" with rare levels pooled" if pooled else "")
    holes = int(cells.missing.sum()) if levels <= MOST_NAMED else 0  # else those of an id, perhaps, which nothing fills
    flag += f", and fills its {holes:,} hole{'s' * (holes > 1)}, which stay otherwise" if holes else ""
    what = f"{'text of ' if cells.textual else ''}{levels:,} levels"
    return f"column '{cells.name}' is carried: {what}, {limit} ({flag})"


def _grouped(cells: Cells) -> str | None:
    """Whether every decimal mark of a column has three digits after it and one to three before it, though numbers
    without one occur, all of them too small to have a thousands mark."""
    spelling = cells.spelling if cells.textual and not cells.typed else None
    if spelling is None or spelling.most != 3 or spelling.fewest != 0:
        return None
    mark = re.escape(cells.decimal)
    pointed, _ = cells.fields(rf"^(?P<before>.*){mark}.*$")
    grouped, _ = cells.fields(rf"^(?P<before>[+-]?[1-9][0-9]{{0,2}}){mark}[0-9]{{3}}$")
    number, values = cells.numbers.number, cells.numbers.values
    pointed, whole = pointed & number, number & ~pointed
    few = pointed.sum() < FEWEST_POINTS or not (values[whole] != 0).any()
    if few or not grouped[pointed].all() or (np.abs(values[whole]) >= GROUP).any():
        return None
    mark = "point" if cells.decimal == "." else "comma"
    grouped_flag = kind_flag(cells.name, "integer:1.234,5" if mark == "point" else "integer:1,234.5")
    return (
        f"column '{cells.name}': every {mark} is followed by three digits, as if it set thousands apart, and read as a "
        f"decimal {mark}: {first_cell(cells, pointed)}; `{grouped_flag}` if it does, "
        f"`{kind_flag(cells.name, 'numeric')}` if not"
    )
