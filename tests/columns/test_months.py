"""Dates whose months have names, in several languages: read, and written back as they were."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, timedelta

import numpy as np
import pytest

from tests.columns.test_datetime import column, moment, table
from vgi_cli.columns.base import Carried
from vgi_cli.columns.datetime import Moment
from vgi_cli.columns.months import NUMBERS, STYLES, style_of
from vgi_cli.encoding.infer import infer_schema

DAYS = [date(2019, 1, 1) + timedelta(days=9 * i) for i in range(90)]
Spell = Callable[[date, str], str]


def in_words(spell: Spell, field: str, style: str, case: Callable[[str], str] = str) -> list[str]:
    return [spell(day, case(STYLES[field][style][day.month - 1])) for day in DAYS]


def german(day: date, name: str) -> str:
    return f"{day.day}. {name} {day.year}"


def plain(day: date, name: str) -> str:
    return f"{day.day} {name} {day.year}"


def french(day: date, name: str) -> str:
    return f"{'1er' if day.day == 1 else day.day} {name} {day.year}"


def of(day: date, name: str) -> str:
    return f"{day.day} de {name} de {day.year}"


def of_once(day: date, name: str) -> str:
    return f"{day.day} de {name} {day.year}"


def dashed(day: date, name: str) -> str:
    return f"{day.day:02d}-{name}-{day.year}"


def slashed(day: date, name: str) -> str:
    return f"{day.day:02d}/{name}/{day.year}"


def american(day: date, name: str) -> str:
    return f"{name} {day.day:02d}, {day.year}"


def timed(day: date, name: str) -> str:
    return f"{german(day, name)} 10:{day.day:02d}"


@pytest.mark.parametrize(
    ("spell", "field", "style", "case"),
    [
        (german, "B", "de", str),
        (german, "B", "de.at", str),
        (german, "B", "de", str.upper),
        (german, "b", "de", str),
        (german, "b", "de+", str),
        (german, "b", "de.mrz", str),
        (german, "b", "de.long+", str),
        (french, "B", "fr", str.lower),
        (plain, "B", "fr", str.lower),
        (plain, "b", "fr+", str.lower),
        (plain, "b", "fr.3", str.upper),
        (of, "B", "es", str.lower),
        (of_once, "B", "es", str),
        (dashed, "b", "es", str.lower),
        (dashed, "b", "es.4", str.lower),
        (plain, "B", "it", str.lower),
        (dashed, "b", "it", str.lower),
        (of, "B", "pt", str.lower),
        (of, "b", "pt+", str.lower),
        (slashed, "b", "pt", str.lower),
        (plain, "B", "nl", str.lower),
        (plain, "b", "nl", str.lower),
        (plain, "b", "nl.4+", str.lower),
        (american, "b", "+", str),
        (american, "b", "en.4+", str),
        (american, "B", "", str),
        (timed, "B", "de", str),
    ],
)
def test_dates_are_read_and_spelled_as_they_are(
    spell: Spell, field: str, style: str, case: Callable[[str], str]
) -> None:
    cells = in_words(spell, field, style, case)
    found = moment(cells)
    codes = found.codes(table(cells).column("when"))
    day = 86_400 if found.kind == "datetime" else 1
    assert np.floor(codes / day).tolist() == [(one - DAYS[0]).days for one in DAYS]
    assert found.spell(codes, None) == cells
    assert moment(cells, found.request) == found  # what was found can be said


@pytest.mark.parametrize(
    ("text", "month"),
    [("märz", 3), ("août", 8), ("févr.", 2), ("décembre", 12), ("maggio", 5), ("maart", 3), ("jänner", 1), ("set", 9)],
)
def test_names(text: str, month: int) -> None:
    assert NUMBERS[text] == month


def test_a_name_is_of_the_same_month_in_every_style() -> None:
    for styles in STYLES.values():
        for names in styles.values():
            assert len(names) == len(set(names)) == 12
            assert [NUMBERS[name.lower()] for name in names] == list(range(1, 13))


def test_the_style_is_that_of_most_cells_in_a_language_that_has_them_all() -> None:
    assert style_of("B", {"mai": 3, "juni": 1}) == "de"
    assert style_of("B", {"mai": 3, "juin": 1}) == "fr"
    assert style_of("b", {"sept": 3, "sep": 9, "jan": 5}) == ""  # English has both
    assert style_of("b", {"sept": 9, "sep": 3, "okt": 5}) == "de.long"
    assert style_of("b", {"feb.": 9, "feb": 1, "dic.": 5}) == "es+"
    assert style_of("B", {"mai": 3, "juin": 1, "juni": 1}) is None


def test_fills_of_months_that_no_cell_has_are_in_its_language() -> None:
    days = [day for day in DAYS if day.month not in (2, 3)]
    found = moment([german(day, STYLES["B"]["de"][day.month - 1]) for day in days])
    day = (date(2020, 3, 1) - DAYS[0]).days
    assert found.spell(np.array([float(day)]), None) == ["1. März 2020"]
    french_one = moment([french(day, STYLES["B"]["fr"][day.month - 1].lower()) for day in DAYS])
    assert french_one.spell(np.array([float(day), float(day + 1)]), None) == ["1er mars 2020", "2 mars 2020"]


def test_two_languages_in_a_column_are_no_dates() -> None:
    cells = in_words(plain, "B", "fr", str.lower)
    cells[3:5] = ["5 januari 2021", "6 januari 2021"]
    schema, lines = infer_schema(table(cells))
    assert isinstance(schema.columns[0], Carried)
    assert "column 'when' is carried: the names of its months are of several languages" in [str(one) for one in lines]


def test_what_may_be_a_code_is_no_month() -> None:
    """SET is September in Italian: of one month alone, and without a day, that is no date."""
    codes = [f"set-{i:02d}" for i in range(1, 90)]
    assert not isinstance(column(codes), Moment)
    months = [f"{name.lower()}-{year}" for year in range(1990, 2005) for name in STYLES["b"]["it"]]
    assert moment(months).spell(np.array([0.0]), None) == ["gen-1990"]


def test_months_of_a_year_with_de() -> None:
    months = [f"{name.lower()} de {year}" for year in range(1990, 2005) for name in STYLES["B"]["es"]]
    found = moment(months)
    assert found.clock.measure == "month" and found.spell(np.array([2.0]), None) == ["marzo de 1990"]
