"""The names of months and of weekdays, in full and short, in the languages in which cells may have them.

A *style* is twelve names of months, or seven of weekdays from Monday on, as one column writes them: a language, and of
short names a usual way to shorten them, with points or without. Names that several languages have (Mai, mars, Do) are
of the same month or weekday in all.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from types import MappingProxyType

ENGLISH = ""
_FULL: Mapping[str, str] = {
    ENGLISH: "January February March April May June July August September October November December",
    "de": "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
    "de.at": "Jänner Feber März April Mai Juni Juli August September Oktober November Dezember",
    "de.at2": "Jänner Februar März April Mai Juni Juli August September Oktober November Dezember",
    "fr": "Janvier Février Mars Avril Mai Juin Juillet Août Septembre Octobre Novembre Décembre",
    "es": "Enero Febrero Marzo Abril Mayo Junio Julio Agosto Septiembre Octubre Noviembre Diciembre",
    "it": "Gennaio Febbraio Marzo Aprile Maggio Giugno Luglio Agosto Settembre Ottobre Novembre Dicembre",
    "pt": "Janeiro Fevereiro Março Abril Maio Junho Julho Agosto Setembro Outubro Novembro Dezembro",
    "nl": "Januari Februari Maart April Mei Juni Juli Augustus September Oktober November December",
}
_SHORT: Mapping[str, str] = {
    ENGLISH: "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec",
    "en.4": "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec",
    "de": "Jan Feb Mär Apr Mai Jun Jul Aug Sep Okt Nov Dez",
    "de.mrz": "Jan Feb Mrz Apr Mai Jun Jul Aug Sep Okt Nov Dez",
    "de.long": "Jan Feb März Apr Mai Juni Juli Aug Sept Okt Nov Dez",
    "fr": "Janv Févr Mars Avr Mai Juin Juil Août Sept Oct Nov Déc",
    "fr.3": "Jan Fév Mar Avr Mai Juin Juil Aoû Sep Oct Nov Déc",
    "es": "Ene Feb Mar Abr May Jun Jul Ago Sep Oct Nov Dic",
    "es.4": "Ene Feb Mar Abr May Jun Jul Ago Sept Oct Nov Dic",
    "it": "Gen Feb Mar Apr Mag Giu Lug Ago Set Ott Nov Dic",
    "pt": "Jan Fev Mar Abr Mai Jun Jul Ago Set Out Nov Dez",
    "nl": "Jan Feb Mrt Apr Mei Jun Jul Aug Sep Okt Nov Dec",
    "nl.4": "Jan Febr Mrt Apr Mei Juni Juli Aug Sept Okt Nov Dec",
}
"""By style; what stands after a point in its name is which of the ways of a language it is."""
_FULL_DAYS: Mapping[str, str] = {
    ENGLISH: "Monday Tuesday Wednesday Thursday Friday Saturday Sunday",
    "de": "Montag Dienstag Mittwoch Donnerstag Freitag Samstag Sonntag",
    "de.north": "Montag Dienstag Mittwoch Donnerstag Freitag Sonnabend Sonntag",
    "fr": "Lundi Mardi Mercredi Jeudi Vendredi Samedi Dimanche",
    "es": "Lunes Martes Miércoles Jueves Viernes Sábado Domingo",
    "it": "Lunedì Martedì Mercoledì Giovedì Venerdì Sabato Domenica",
    "pt": "Segunda-feira Terça-feira Quarta-feira Quinta-feira Sexta-feira Sábado Domingo",
    "nl": "Maandag Dinsdag Woensdag Donderdag Vrijdag Zaterdag Zondag",
}
_SHORT_DAYS: Mapping[str, str] = {
    ENGLISH: "Mon Tue Wed Thu Fri Sat Sun",
    "en.4": "Mon Tues Wed Thurs Fri Sat Sun",
    "en.2": "Mo Tu We Th Fr Sa Su",
    "de": "Mo Di Mi Do Fr Sa So",
    "de.3": "Mon Die Mit Don Fre Sam Son",
    "fr": "Lun Mar Mer Jeu Ven Sam Dim",
    "es": "Lun Mar Mié Jue Vie Sáb Dom",
    "it": "Lun Mar Mer Gio Ven Sab Dom",
    "pt": "Seg Ter Qua Qui Sex Sáb Dom",
    "nl": "Ma Di Wo Do Vr Za Zo",
}
_WHOLE = frozenset(name.lower() for names in _FULL.values() for name in names.split())


def _pointed(names: Mapping[str, str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Styles without and with points after what is shortened."""
    for style, text in names.items():
        plain = tuple(text.split())
        yield style, plain
        yield f"{style}+", tuple(name if name.lower() in _WHOLE else f"{name}." for name in plain)


STYLES: Mapping[str, Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {"B": {style: tuple(text.split()) for style, text in _FULL.items()}, "b": dict(_pointed(_SHORT))}
)
"""By field of a format (`%B`: in full, `%b`: short) and style the twelve names, as a sentence begins with them."""
OF_DAYS: Mapping[str, Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {"A": {style: tuple(text.split()) for style, text in _FULL_DAYS.items()}, "a": dict(_pointed(_SHORT_DAYS))}
)
"""The same of the seven names of weekdays (`%A`: in full, `%a`: short)."""


def _numbers(every: Mapping[str, Mapping[str, tuple[str, ...]]]) -> Mapping[str, int]:
    """The place of each name, in lower case, from 1 on."""
    lists = (names for styles in every.values() for names in styles.values())
    return MappingProxyType({name.lower(): i + 1 for names in lists for i, name in enumerate(names)})


NUMBERS, WEEKDAYS = _numbers(STYLES), _numbers(OF_DAYS)
"""Name in lower case -> month; and -> weekday, from Monday, 1, on."""


def _styles(field: str) -> Mapping[str, tuple[str, ...]]:
    return STYLES[field] if field in STYLES else OF_DAYS[field]


def pattern(field: str) -> str:
    """A regular expression of the names that a field may hold."""
    names = {name for names in _styles(field).values() for name in names}
    return f"(?i:{'|'.join(re.escape(name) for name in sorted(names, key=lambda name: (-len(name), name)))})"


def style_of(field: str, found: Mapping[str, int]) -> str | None:
    """The style of a column, by its names in lower case and how often it has each: of the first language that has them
    all, the one that has most cells. None where no language has them all."""
    languages: dict[str, dict[str, tuple[str, ...]]] = {}
    for style, names in _styles(field).items():
        languages.setdefault(_language(style), {})[style] = names
    for styles in languages.values():
        known = {style: {name.lower() for name in names} for style, names in styles.items()}
        if set(found) <= set().union(*known.values()):
            return max(known, key=lambda style: _cells(found, known[style]))  # the first of the best
    return None


def _cells(found: Mapping[str, int], names: Collection[str]) -> int:
    return sum(count for name, count in found.items() if name in names)


def _language(style: str) -> str:
    name = style.rstrip("+").partition(".")[0]
    return ENGLISH if name == "en" else name
