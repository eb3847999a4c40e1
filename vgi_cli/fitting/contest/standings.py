"""Which of the candidates that were scored wins a contest, and which are averaged over."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import cast

import torch
from torch import Tensor

from vgi_cli.encoding.recode import recoder
from vgi_cli.fitting.averaging import selected
from vgi_cli.fitting.contest.candidates import Candidate, by_em, form, held, only_factors, ties_levels
from vgi_cli.fitting.contest.league import League
from vgi_cli.fitting.contest.scoring import Scores
from vgi_cli.fitting.contest.slopes import WELL
from vgi_cli.fitting.refits import refit_count
from vgi_cli.fitting.tables import encoding_of
from vgi_cli.layout import Layout
from vgi_cli.settings.recipe import Recipe

NOISE = 0.25
"""Standard errors of the difference within which two candidates score alike."""
FAR, CLEARLY = 0.05, 0.01
"""A candidate whose score is worse than the best by a larger share of that is in no average; nor is one that fills a
column worse by such a share where this has a probability of at most CLEARLY by chance, in any column."""
BETTER = 2.0
"""Standard errors by which a model has to be better than the best of those that say more: a factor model than full
covariances that are well determined, one whose numbers hang on no level than those whose numbers do."""
UNLIKE, SURELY = 0.05, 3.0
"""Nats for each column of numbers, and standard errors, by which a candidate describes held-out rows clearly worse than
the same form under another transform."""
MUCH = 1.0
"""Nats by which it does so than any other, at least."""
AT_MOST = 3.0
"""Nats for each column of numbers by which a row tells for a candidate at most: a single row that is far from all
others can tell for thousands, and their standard error is as large."""
COMPARED = 1_500
"""Rows of a contest at most. Of a table with more, so many times fewer nats are clear: they would tell more surely."""
BEYOND, TIMES = 0.004, 2.0
"""Share of the draws beyond all that was observed of a column, more than is usual, and how many times that of another
candidate it is, from which on a candidate draws too many there."""


@dataclass(frozen=True)
class Standings:
    """The candidates of a contest that were scored so far, and what follows from their scores.

    recipe   of the contest
    layout   of its rows
    rows     how many of them are fitted
    entries  the candidates, in the order in which they were scored
    """

    recipe: Recipe
    layout: Layout
    rows: int
    entries: list[tuple[Candidate, Scores]] = field(default_factory=list)

    def best(self) -> Candidate:
        """The one with the best score so far."""
        return self.entries[min(range(len(self.entries)), key=lambda i: float(self._losses(i).mean()))][0]

    def decided(self) -> League:
        """The league with its winner, and the weights of the average where EM fits that. By hidden cells a candidate
        that EM does not fit also has to be better than the average of the others."""
        league = self.league(range(len(self.entries)))
        candidate, scores = league.entries[league.winner]
        if by_em(candidate.recipe):
            return self.averaged(league)
        ours = [i for i in range(len(self.entries)) if by_em(self.entries[i][0].recipe)]
        if not ours or self.recipe.score == "loglik":
            return league
        second = self.averaged(self.league(ours))
        if not any(second.weights):
            return league
        members = [(one.drawn, w) for (_, one), w in zip(second.entries, second.weights, strict=True) if w > 0]
        own = scores.drawn.from_truth() - 0.5 * scores.drawn.apart(scores.drawn)
        pairs = ((one, v, other, w) for one, v in members for other, w in members)
        together = sum(w * drawn.from_truth() for drawn, w in members)
        together -= 0.5 * sum(v * w * one.apart(other) for one, v, other, w in pairs)
        return second if together <= own else league

    def league(self, able: Iterable[int]) -> League:
        """The entries, best first. Of those of the `able` that lie within the noise of the best of them the one with
        the fewest parameters wins."""
        order = sorted(range(len(self.entries)), key=lambda i: float(self._losses(i).mean()))
        among = [i for i in order if i in set(able)]
        against = [self._against(entry, self.entries[among[0]][1]) for entry in self.entries]
        fit = [i for i in among if not against[i]] or among
        near = [i for i in fit if self._near(i, fit[0])]
        winner = min(near, key=lambda i: self.entries[i][1].parameters)
        entries, said = tuple(self.entries[i] for i in order), tuple(against[i] for i in order)
        return League(entries, order.index(winner), self.recipe.score, against=said)

    def averaged(self, league: League) -> League:
        """The league with the weights of the average."""
        if self.recipe.score == "loglik" or self.recipe.average == "none" or refit_count(self.recipe) == 0:
            return league
        if self.recipe.uncertainty == "posterior":
            return league
        own = league.entries[league.winner][0]
        leader = next(scores for one, scores in league.entries if by_em(one.recipe))
        best = float(leader.cells.mean())
        able = [
            by_em(candidate.recipe)
            and not self._against((candidate, scores), leader)
            and float(scores.cells.mean()) <= (1 + FAR) * best
            and _can_be_recoded(own, candidate)
            for candidate, scores in league.entries
        ]
        if not any(able):  # each has something against it, and the winner is the best of all
            return league
        drawn = [scores.drawn for (_, scores), can in zip(league.entries, able, strict=True) if can]
        errors = torch.tensor([one.from_truth() for one in drawn])
        apart = torch.tensor([[one.apart(other) for other in drawn] for one in drawn])
        found = iter(selected(errors.double(), apart.double()).tolist())
        return league._replace(weights=tuple(round(next(found), 4) if can else 0.0 for can in able))

    def _losses(self, i: int) -> Tensor:
        """[R] what decides, less is better."""
        scores = self.entries[i][1]
        return scores.cells if self.recipe.score == "cells" else -scores.loglik

    def _near(self, i: int, best: int) -> bool:
        """Whether a candidate lies within the noise of the best."""
        mean, error = _gap(self._losses(i), self._losses(best))
        return mean <= NOISE * error

    def _against(self, entry: tuple[Candidate, Scores], best: Scores) -> str:
        """Why a candidate may neither win nor be in the average, by what it says of each column and of how columns go
        together, in words; empty where it may. `best`: the best scores of all. By the log-likelihood every one may."""
        if self.recipe.score == "loglik":
            return ""
        if lags(entry[1], best):
            return "fills a column worse"
        if self._is_coarse(*entry, best):
            return "nothing but factors"
        if unlike := self._is_unlike(*entry, best):
            return unlike
        if self._is_blind(entry[0], best):
            return "no slopes by level"
        return "levels shift no number" if self._is_loose(*entry, best) else ""

    def _is_blind(self, candidate: Candidate, best: Scores) -> bool:
        """Whether a candidate has no slopes of each level where these differ, and the best of those that have lies
        within the noise of the best of all: hidden cells show little of such slopes, and estimates all."""
        if held(candidate.recipe) is not None:
            return False
        able = [other.cells for one, other in self.entries if held(one.recipe) is not None and not lags(other, best)]
        if not able:
            return False
        mean, error = _gap(min(able, key=lambda cells: float(cells.mean())), best.cells)
        return mean <= NOISE * error

    def _is_loose(self, candidate: Candidate, scores: Scores, best: Scores) -> bool:
        """Whether a candidate takes numbers for independent of levels, and is not clearly better than the best of those
        that do not: hidden cells show little of what a group shifts by (the effect of a treatment, say), and all of
        what its estimate costs where rows are few."""
        if not (self.layout.discrete and self.layout.continuous) or ties_levels(candidate.recipe):
            return False
        able = [
            other.cells
            for one, other in self.entries
            if one.recipe.model.settings.get("dependence") == "linear" and not lags(other, best)
        ]
        return _gives_way(scores.cells, able)

    def _is_unlike(self, candidate: Candidate, scores: Scores, best: Scores) -> str:
        """Whether held-out rows are described clearly worse than by another model that fills cells about as well, in
        every column: draws then have another shape than the columns (the tail of incomes, say), or miss what holds
        nearly exactly, both of which hidden cells hardly show. Or whether more draws of a column are beyond what was
        observed of it than by the same form under another transform that does not describe the rows worse. In words;
        empty where it is not so.

        Of a table of many rows fewer nats are clear: its parameters are known so well that the models of an average
        would lie many standard errors apart."""
        own, columns = candidate.recipe, len(self.layout.continuous)
        each, less, most = UNLIKE * columns, min(1.0, COMPARED / self.rows), AT_MOST * max(columns, 1)
        for one, other in self.entries:
            if other is scores or not _about_as_well(other, best) or lags(other, best):
                continue
            twins = one.recipe.table.transform != own.table.transform and form(one.recipe) == form(own)
            gap = (scores.loglik - other.loglik).clamp(-most, most)
            mean, error = _mean(gap)
            nats = each if twins else max(MUCH, each)
            if mean < -max(nats * less, SURELY * error):
                return "describes rows worse"
            beyond = (scores.beyond > BEYOND) & (scores.beyond > TIMES * other.beyond)
            if twins and mean < 0 and bool(beyond.any()):
                return "draws beyond a column"
        return ""

    def _is_coarse(self, candidate: Candidate, scores: Scores, best: Scores) -> bool:
        """Whether a candidate says of the columns nothing but their factors, and is not clearly better than the best of
        those that say more: full covariances where the rows determine them well, else such as keep single pairs."""
        layout, settings = self.layout, candidate.recipe.model.settings
        if not (candidate.recipe.model.name == "fa" or only_factors(settings)):
            return False
        components = cast(int, settings.get("components") or 1)
        well = self.rows >= WELL * components * (layout.D - len(layout.discrete))
        finer = [
            other.cells
            for one, other in self.entries
            if one.recipe.model.settings.get("covariance") == "full"
            and (one.recipe.model.settings.get("shrink_to") == "pairs" or well)
            and not only_factors(one.recipe.model.settings)
            and not lags(other, best)
        ]
        return _gives_way(scores.cells, finer)


def _can_be_recoded(own: Candidate, other: Candidate) -> bool:
    """Whether rows as one candidate encodes them can be told as another one does."""
    if encoding_of(own.recipe.table) == encoding_of(other.recipe.table):
        return True
    return recoder(own.rows.schema, other.rows.schema) is not None


def lags(scores: Scores, best: Scores) -> bool:
    """Whether a candidate fills some column clearly worse than the best one does."""
    gap = scores.losses - best.losses
    n = (~gap.isnan()).sum(0)
    mean, known = gap.nanmean(0), n > 1
    error = ((gap - mean).square().nansum(0) / (n - 1).clamp(min=1) / n.clamp(min=1)).sqrt()
    quantile = torch.special.ndtri(torch.tensor(1 - CLEARLY / max(int(known.sum()), 1), dtype=torch.float64))
    worse = (mean > quantile * error) & (mean > FAR * best.losses.nanmean(0).abs())
    return bool((worse & known).any())


def _about_as_well(scores: Scores, best: Scores) -> bool:
    """Whether a candidate fills hidden cells about as well as the best one: worse by a small share, or by no more than
    a standard error, which is much where some cells are ten times as large as all others."""
    mean, error = _gap(scores.cells, best.cells)
    return mean <= max(FAR * float(best.cells.mean()), error)


def _gives_way(ours: Tensor, others: Sequence[Tensor]) -> bool:
    """Whether there are others that say more, and ours [R] is not clearly better than the best of them."""
    if not others:
        return False
    mean, error = _gap(ours, min(others, key=lambda cells: float(cells.mean())))
    return mean > -BETTER * error


def _gap(ours: Tensor, theirs: Tensor) -> tuple[float, float]:
    """The mean of ours [R] less theirs, row by row, and its standard error."""
    return _mean(ours - theirs)


def _mean(gap: Tensor) -> tuple[float, float]:
    """The mean of gaps [R] between two candidates, row by row, and its standard error."""
    return float(gap.mean()), float(gap.std()) / len(gap) ** 0.5
