"""Scores that were computed from the items that are there, where some are missing: found in a table that is fitted."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from vgi_cli.columns.prorated import Prorated
from vgi_cli.columns.relations import Relation
from vgi_cli.columns.schema import Schema
from vgi_cli.columns.wording import capped, named
from vgi_cli.encoding.redundant import codes_of, half_digit
from vgi_cli.encoding.sums import CodedRows
from vgi_cli.maths.choices import log_choices
from vgi_cli.table.base import Table

FEWEST_ITEMS, FEWEST, SHARE = 3, 5, 0.5
"""Items of a score, rows that lack some of them in which it is that of the others, and the share of those that these
are, at least."""
ENOUGH = 20.0
"""Nats by which such rows must speak for it, beyond chance."""
ALIKE = 1e-9
"""Share of their size by which weights may differ."""


def prorated_among(every: CodedRows, relations: Sequence[Relation]) -> tuple[Prorated, ...]:
    """Of the sums among relations the scores that are those of the items that are there in rows that lack some: in most
    of them, and more than those in which a score of all items happens to be that too."""
    found: dict[str, Prorated] = {}
    for relation in relations:
        told = [(nats, score) for score in _scores(relation, every) if (nats := _nats(score, every)) is not None]
        if told:
            nats, score = max(told, key=lambda one: one[0])
            if nats >= ENOUGH + math.log(len(every.columns)):
                found.setdefault(score.name, score)
    return tuple(found.values())


def _scores(relation: Relation, every: CodedRows) -> Iterator[Prorated]:
    """What a sum may be as a score of its other columns, all of which count alike but for the side."""
    plain = relation.how == "sum" and not (relation.slack or relation.apart)
    if not plain or len(relation.names) <= FEWEST_ITEMS:
        return
    for place, name in enumerate(relation.names):
        others = np.delete(np.arange(len(relation.names)), place)
        weights = -np.delete(relation.weights, place) / relation.weights[place]
        constant, turned = relation.constant / relation.weights[place], weights < 0
        if np.ptp(np.abs(weights)) > ALIKE * np.abs(weights).max() or turned.all() or bool(constant) != turned.any():
            continue
        half, size = half_digit(every.columns[name]), float(np.abs(weights).mean()) * max(int(turned.sum()), 1)
        top = float(np.rint(constant / size))  # of a scale, which the constant of a rounded score leaves open
        each = size * top if abs(constant - size * top) <= half else constant
        constants = np.where(turned, each / max(int(turned.sum()), 1), 0.0)
        for whole in (True, False):
            yield Prorated(
                name=name,
                others=tuple(relation.names[other] for other in others),
                weights=tuple(weights.tolist()),
                constants=tuple(constants.tolist()),
                half=half,
                whole=whole,
            )


def _nats(score: Prorated, every: CodedRows) -> float | None:
    """By how many nats it would be chance that a score is so often that of the items that are there; None where it is
    not in most rows that lack some, or where what counts as 0 may be an answer (an expense that there was none of)."""
    codes = every.codes((score.name, *score.others))
    values, items = codes[:, 0], codes[:, 1:]
    some = np.isnan(items).any(1) & ~np.isnan(items).all(1) & ~np.isnan(values)
    n, k = int(some.sum()), int(score.silent(values[some], items[some]).sum())
    whole = np.flatnonzero(~np.isnan(codes).any(1))
    if k < max(FEWEST, SHARE * n) or not len(whole):
        return None
    alike = 0
    for place in range(len(score.others)):
        one_less = items[whole].copy()
        one_less[:, place] = np.nan
        alike += int(score.is_of(values[whole], one_less).sum())
    if alike and not score.whole:
        return None
    chance = (alike + 0.5) / (len(whole) * len(score.others) + 1)
    return -k * math.log(chance) - log_choices(n, k)


def prorated_words(table: Table, schema: Schema) -> list[str]:
    """A line on each prorated score, and on what is computed from it."""
    silent, lines = schema.silent(lambda column: codes_of(table, column)), list[str]()
    for one in schema.prorated:
        rows = int(silent[one.name].sum())
        how = "in proportion" if one.whole else "as if the others were 0"
        lines.append(
            f"'{one.name}' is computed from those of {named('column', one.others)} that are there ({how}), in "
            f"{rows:,} row{'s' * (rows > 1)} that lack some: it says nothing of these, and the model does not look at "
            f"it there; '{one.name}' stays as it is, compute it anew from the filled ones"
        )
    others = [name for name in silent if name not in {one.name for one in schema.prorated}]
    if others:
        lines.append(f"nor does it look there at {named('column', others)}, computed from that")
    return capped(lines)
