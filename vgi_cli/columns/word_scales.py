"""Scales that the texts of levels say: words of one scale, places in a row, bands of numbers."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

import numpy as np

SCALES = (
    "strongly disagree, disagree, somewhat disagree, slightly disagree, neither agree nor disagree, neither, neutral, "
    "undecided, slightly agree, somewhat agree, agree, strongly agree",
    "very dissatisfied, dissatisfied, somewhat dissatisfied, neither satisfied nor dissatisfied, neither, neutral, "
    "somewhat satisfied, satisfied, very satisfied",
    "never, almost never, rarely, seldom, occasionally, sometimes, regularly, often, frequently, usually, very often, "
    "almost always, always",
    "very unlikely, unlikely, neither likely nor unlikely, neither, neutral, likely, very likely",
    "not at all, slightly, a little, somewhat, moderately, quite, very, very much, extremely",
    "very poor, poor, fair, average, good, very good, excellent",
    "fair, good, very good, premium, ideal",
    "under, underweight, normal, normal weight, over, overweight, obese, severely obese",
    "very bad, bad, neutral, good, very good",
    "none, very low, low, medium, mid, middle, moderate, high, very high",
    "none, mild, moderate, severe, very severe",
    "xxs, xs, s, m, l, xl, xxl",
    "very small, small, medium, large, very large",
    "young, middle, middle-aged, old",
    "no schooling, none, primary, primary school, lower secondary, secondary, secondary school, upper secondary, "
    "high school, vocational, some college, college, associate, tertiary, university, bachelor, bachelors, bachelor's, "
    "master, masters, master's, phd, doctorate",
    "daily, weekly, monthly, quarterly, yearly",
    "monday, tuesday, wednesday, thursday, friday, saturday, sunday",
)
"""Words of scales from one end to the other; of a column any three of one scale."""
NUMERALS = ("i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix", "x", "xi", "xii")
PLACES = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth")
LOWEST = {"basement": -1, "ground": 0, "ground floor": 0}
RANK = re.compile(
    r"(?P<before>(?:stage|grade|class|level|tier|phase|degree|nyha|asa|killip|ccs)[\s-]*)?"
    rf"(?:(?P<roman>{'|'.join(reversed(NUMERALS))})(?P<half>[a-d]?)|(?P<place>{'|'.join(PLACES)})"
    r"|(?P<number>\d{1,2})(?P<ending>st|nd|rd|th)?)"
    r"(?P<after>\s+(?:floor|storey|story|grade|class|stage|degree|year|tercile|quartile|quintile|decile))?"
)
"""A place in a row of levels: `II`, `stage IIIb`, `grade 2`, `3rd`, `second floor`."""
FEWEST, FEWEST_BANDS = 3, 3
BAND = re.compile(
    r"(?P<below><|≤|<=|under |below |up to |less than )?\s*[$€£]?(?P<low>\d+(?:[.,]\d+)*)\s*[kKmM]?"
    r"(?:\s*(?:-|–|—|to|bis|\.\.)\s*[$€£]?(?P<high>\d+(?:[.,]\d+)*)\s*[kKmM]?)?(?P<above>\s*\+|\s*and over| or more)?"
    r"(?:\s*(?:years?|yrs?|jahre))?",
    re.IGNORECASE,
)
"""A band of numbers: `18-24`, `65+`, `under 18`, `50 to 59 years`."""


def in_order(levels: Sequence[str]) -> list[str] | None:
    """Levels in the order that their texts say: words of one scale, or bands of numbers that do not overlap; None where
    they say none."""
    words = {level: re.sub(r"\s+", " ", level.strip().casefold()) for level in levels}
    for scale in SCALES:
        places = {word: place for place, word in enumerate(scale.split(", "))}
        if len(levels) >= FEWEST and all(word in places for word in words.values()):
            return sorted(levels, key=lambda level: places[words[level]])
    if len(levels) >= FEWEST and (ranks := _ranks(list(words.values()))) is not None:
        return [level for _, level in sorted(zip(ranks, levels, strict=True))]
    bands = {level: _band(level) for level in levels}
    if len(levels) < FEWEST_BANDS or None in bands.values():
        return None
    order = sorted((band, level) for level, band in bands.items() if band is not None)
    apart = all(one[0][1] <= other[0][0] for one, other in itertools.pairwise(order))
    return [level for _, level in order] if apart else None


def _ranks(words: Sequence[str]) -> list[tuple[int, str]] | None:
    """The places of words that are all places written in one way; None of others, numbers alone included."""
    ranks: list[tuple[int, str]] = []
    ways = set()
    for word in words:
        if word in LOWEST:
            ranks.append((LOWEST[word], ""))
            continue
        found = RANK.fullmatch(word)
        if found is None:
            return None
        if found["number"]:
            if not (found["before"] or found["after"] or found["ending"]):
                return None
            rank = int(found["number"]), ""
        elif found["roman"]:
            rank = NUMERALS.index(found["roman"]) + 1, found["half"]
        else:
            rank = PLACES.index(found["place"]) + 1, ""
        ranks.append(rank)
        ways.add((found["before"], found["after"], *(bool(found[part]) for part in ("number", "roman", "ending"))))
    return ranks if len(ways) == 1 and len(set(ranks)) == len(ranks) else None


def _band(level: str) -> tuple[float, float] | None:
    """The least and the greatest number of a band; None of what is none, numbers alone included."""
    found = BAND.fullmatch(level.strip())
    if found is None or not (found["high"] or found["above"] or found["below"]):
        return None
    low = float(found["low"].replace(",", ""))
    if found["below"]:
        return -np.inf, low
    high = np.inf if found["above"] else float(found["high"].replace(",", ""))
    return (low, high) if low <= high else None
