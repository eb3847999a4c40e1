"""Which model for a table that nobody named one for: candidates are fitted to part of the rows, and score on the rest.

The rule. Rows are cut into folds. Each candidate (a model and a transform of the columns) is fitted to all folds but
one, whose rows have no part in the statistics by which the columns are encoded either. The held-out rows then score it
twice. *Cells*: parts of their observed cells are hidden in turn and drawn DRAWS times from the fit; of numbers the
continuous ranked probability score counts, of levels the logarithmic score, each as a share of what draws from the
column alone would score, so that 1 means that the model knows nothing but the column. Cells count by how many holes
there are in rows like theirs (`odds`). Columns with holes count, all alike: those without need no fills, and stay as
they are. *Log-likelihood*: the mean log density of the observed cells, in units of the data. `--score` says which of
the two decides. The candidate with the fewest parameters wins of those that lie within the noise of the best: within
NOISE standard errors of the difference, row by row; who fills a column clearly worse than the best neither wins nor
takes part in the average, since estimates from the filled table would show it. Nor do factor models where the rows
determine full covariances well, unless they fill clearly better: what few factors cannot say is lost from every
estimate, and costs hidden cells little.

The first mixture has its size chosen as ever (`methods/em/sizing`). The others take its number of components; where one
of them is best, it is scored once more with the size that is chosen for itself. One factor model stays one; in wide
tables, where several take long, it comes first. The best so far is scored again with more components, if these describe
held-out rows nearly as well: a likelihood says little of how many fill cells best. Where the slopes of numbers differ
between the levels of a column, one candidate more has slopes of each (`slopes`), and others have to be better than it
beyond noise. Rows, folds and work are counted, so that the same table and seed give the same winner on every machine;
only a time limit ends a contest by the clock.

Models that EM does not fit (`--compare flow`) come last: each is fitted to the folds by its own method, whole, and
draws as `vgi impute` draws from it. By hidden cells it also has to beat the average of the others, for that is what
imputes where they win.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple, cast

import torch
from torch import Tensor

from vgi_cli.columns.base import Encoding
from vgi_cli.columns.schema import Schema
from vgi_cli.completers.base import GivenUp, ask
from vgi_cli.errors import FitError, Interrupted
from vgi_cli.fitting.averaging import other_transforms
from vgi_cli.fitting.choosing import FEWEST_COMPARED
from vgi_cli.fitting.contest import scoring
from vgi_cli.fitting.contest.average import average, average_words
from vgi_cli.fitting.contest.candidates import (
    ONE_FACTOR_MODEL,
    TRANSFORMS,
    Candidate,
    by_level,
    candidates,
    chooses_components,
    compared,
    counted,
)
from vgi_cli.fitting.contest.evidence import is_lacking
from vgi_cli.fitting.contest.judges import Fit, FitFold, Judge, fit_as_ever
from vgi_cli.fitting.contest.kept import KeptScores
from vgi_cli.fitting.contest.league import League
from vgi_cli.fitting.contest.odds import hole_odds
from vgi_cli.fitting.contest.scoring import Folds, Scores, columns_of, score, weighted
from vgi_cli.fitting.contest.standings import COMPARED, Standings
from vgi_cli.fitting.plan import stream
from vgi_cli.fitting.refits import em_settings
from vgi_cli.fitting.rows import Rows, held_out, quiet_schema, rows_of
from vgi_cli.fitting.tables import encoding_of
from vgi_cli.machine.work import OutOfTime, Work
from vgi_cli.methods.em.sizing import Candidate as Sized
from vgi_cli.methods.em.sizing import ComparedRows, Sizing, choose_size, plain
from vgi_cli.models.gaussian.family import GaussianFamily
from vgi_cli.models.gaussian.mixture import MixtureConfig
from vgi_cli.reporting import CONTEST, TRAINING, Lines, Progress, Reporter, Silent, Stage
from vgi_cli.runs.comparison import Comparison
from vgi_cli.settings import components
from vgi_cli.settings.problems import Settings
from vgi_cli.settings.recipe import Recipe
from vgi_cli.workers import ONE_PROCESS, Tell, Workers, room_of

CELLS = 1 << 22
"""Of a table in files the contest looks at a random choice of rows with so many cells, else at all."""
NEARLY = 0.01
"""Nats a dimension: held-out rows are described nearly as well by what is no farther behind the best."""
SHARE = 0.4
"""Of the time that is left under a time limit."""
FIT_SHARE = 0.7
"""Of the time that a fold of a candidate has that EM does not fit, for the fit; the rest is for its scores."""
OTHERS = 8
"""Of the stage, how much longer a candidate takes that EM does not fit than all that it does."""


class Won(NamedTuple):
    """What a contest leaves: the recipe of the winner, with its size and the models to average over; the rows, and
    those that select the epoch, as it encodes them; the league table; by transform the schemas of the other models; the
    seconds that it took."""

    recipe: Recipe
    rows: Rows
    held: Rows | None
    league: League
    schemas: dict[str, Schema]
    seconds: float


def hold(
    recipe: Recipe,
    rows: Rows,
    held: Rows | None,
    said: Settings,
    fit: Fit,
    work: Work,
    comparison: Comparison | None = None,
) -> Won | None:
    """Compare the candidates for a table and take the best. None where there is nothing to compare, or too few rows to
    compare by, or where a time limit left time for one candidate at most.

    recipe  names `mixture` and its method, and models that are compared beside (`compare`)
    rows    all of the table; those of a fraction (`val`) take no part
    said    the settings that somebody gave
    fit     fits the latter
    comparison  keeps what each scores as soon as it is scored, and has what was kept before
    """
    used = _used(recipe, rows)
    transforms = [str(recipe.table.transform)] if "table.transform" in said else list(TRANSFORMS)
    named = candidates(recipe, rows, transforms)
    others = [compared(recipe, name, said) for name in recipe.compare]
    if rows.source is None or len(used) < FEWEST_COMPARED or len(named) + len(others) < 2:
        return None
    for line in components.of_some(recipe, said):
        work.reporter.say(line)
    begun = time.monotonic()
    own = replace(work, reporter=Silent(), limit=work.limit.part(SHARE))
    kept = KeptScores(comparison or Comparison(), rows, used)
    with work.reporter.stage(CONTEST, until=own.limit.end) as stage:
        contest = _Contest(recipe, rows, used, stage, own, fit, kept)
        try:
            contest.enter_all(named, others)
        except (GivenUp, OutOfTime):
            _tell_cut(contest, work)
        except Interrupted as error:
            what = "stopped while models were compared, before the run was begun: nothing was kept"
            raise Interrupted(what, error.exit_code, "start again") from None
    for line in contest.refused:
        work.reporter.warn(line)
    if kept.found:
        work.reporter.say(f"{kept.found} of the models had been scored before the fit was stopped: not again")
    if len(contest.standings.entries) < 2:
        if not own.limit.over():
            work.reporter.say("one model alone suits this table: there is none to compare it with")
        return None
    league = contest.standings.decided()
    seconds = round(time.monotonic() - begun, 3)
    _tell(league, contest, work.reporter)
    work.reporter.detail(f"the comparison of models took {seconds:.1f} s")
    winner = league.entries[league.winner][0]
    members = average(league, len(used))
    if len(members) > 1:
        work.reporter.say(average_words(league, members))
    found = winner.recipe.replace(average=members or "none", compare=())
    schemas = {name: contest.schema(found.with_table(transform=name)) for name in other_transforms(found)}
    if held is not None and held.source is not None:
        held = rows_of(held.source.table, winner.rows.schema, recipe.seed).at(held.places)
    return Won(found, winner.rows, held, league, schemas, seconds)


def _used(recipe: Recipe, rows: Rows) -> Tensor:
    """The numbers of the rows that are fitted, of a table in files a random choice of them."""
    apart, used = held_out(recipe, rows.table.N), rows.table.used
    if apart is not None:
        used = apart[0][torch.isin(apart[0], used)]
    if rows.table.scratch is None:
        return used
    most = max(1, CELLS // rows.table.D)
    return used[torch.randperm(len(used), generator=stream(recipe.seed, "contest/rows"))[:most]].sort().values


def _tell_cut(contest: _Contest, work: Work) -> None:
    """Say what a time limit left out, and note it."""
    work.limit.cut.append(CONTEST)
    done = len(contest.standings.entries)
    work.reporter.warn(
        f"the time limit ended the comparison of models after {done}: with more time another may be chosen"
        if done > 1
        else "the time limit left no time to compare models: the data did not choose this one"
    )
    for name in contest.not_entered():
        work.reporter.warn(f"the time limit left no time to compare {name}")


def _tell(league: League, contest: _Contest, reporter: Reporter) -> None:
    """Show the league table, and warn where nobody in it is good, and nothing else shows that columns say anything of
    each other."""
    rows = len(league.entries[0][1].cells)
    reporter.say(f"{len(league.entries)} models were compared on {rows:,} rows:")
    for line in (*league.lines(), *league.legend(), *filter(None, [league.slopes()])):
        reporter.say(line)
    best = min((scores for _, scores in league.entries), key=lambda scores: float(scores.cells.mean()))
    mean, noise = float(best.cells.mean()), float(best.cells.std()) / rows**0.5
    if mean >= 1 and contest.shows_nothing(best):
        reporter.warn(
            f"no model is seen to fill hidden cells better than each column alone would (best score {mean:.2f}, "
            f"standard error {noise:.2f}): columns say little of each other, or too little for so few rows. Where "
            "it depends on other columns which cells are missing, means and slopes of filled tables may be nearer to "
            "the truth all the same than those of what is observed"
        )


class _Entrant(NamedTuple):
    """A candidate before its size is chosen, with the rows as it encodes them, and the key under which its scores are
    kept."""

    title: str
    recipe: Recipe
    rows: Rows
    key: str

    def sized(self, sizing: Sizing) -> Candidate:
        """The candidate of the size that was chosen."""
        recipe = self.recipe.with_model(**sizing.config.model_dump(mode="json"))
        return Candidate(f"{self.title}: {plain(sizing.config)}", recipe, self.rows)


class _Trial(NamedTuple):
    """The sizes that were tried for a candidate, and what it scored; None where one is the same that has entered."""

    sizes: tuple[Sized, ...]
    entry: tuple[Candidate, Scores] | None


def _with_twins(parts: Tensor, schema: Schema) -> Tensor:
    """The parts [R, columns] to which cells belong, those of two columns of which each says the other (the same in two
    units) together: where one is observed, no model is needed for the other."""
    parts = parts.clone()
    for one in schema.relations:
        if one.mutual:
            first, second = sorted(schema.modelled.index(name) for name in one.names)
            parts[:, second] = parts[:, first]
    return parts


class _Contest:
    """A contest that is held: the candidates enter one after the other."""

    def __init__(
        self, recipe: Recipe, rows: Rows, used: Tensor, stage: Stage, work: Work, fit: Fit, kept: KeptScores
    ) -> None:
        """used: the rows that are fitted; work: with the limit of all; fit: of the candidates that EM does not fit;
        kept: scores of before, and where new ones are kept."""
        generator = stream(recipe.seed, "contest")
        self._recipe, self._rows, self._used, self._stage = recipe, rows, used, stage
        self._limit, self._work, self._fit, self._kept = work.limit, work, fit, kept
        self._some = used[torch.randperm(len(used), generator=generator)[:COMPARED]].sort().values
        self._fold = torch.randperm(len(self._some), generator=generator) % scoring.FOLDS
        shape = (len(self._some), len(rows.table.layout.columns))
        self._odds = hole_odds(rows.at(self._some))
        self._parts = _with_twins(torch.randint(scoring.PARTS, shape, generator=generator), rows.schema)
        self._encoded: dict[Encoding, Rows] = {encoding_of(recipe.table): rows}
        self._by_fold: dict[Encoding, Folds] = {}
        self._compared: dict[Encoding, ComparedRows] = {}
        self._tried: dict[str, tuple[Sized, ...]] = {}  # sizes of the latest entry, by its title without the size
        self._chosen: Candidate | None = None  # whose number of components the other mixtures take
        self.standings = Standings(recipe, rows.table.layout, len(used))
        self.refused: list[str] = []

    def enter_all(self, named: Sequence[tuple[str, Recipe]], others: Sequence[tuple[str, Recipe]]) -> None:
        """Score all candidates: those `named` that EM fits, one or two more of the best of these, those with slopes of
        each level, and the `others`."""
        share = 1 / (1 + OTHERS * len(others))
        own = share / (len(named) + 3)
        first = counted(named)
        self.enter(named[:first], 0.0, first * own)
        self.enter(named[first:], first * own, (len(named) - first) * own)
        self.enter_sized(len(named) * own, own)
        self.enter_larger((len(named) + 1) * own, own)
        self.enter_by_level((len(named) + 2) * own, own)
        for place, (title, recipe) in enumerate(others):
            start = share + (1 - share) * place / len(others)
            self.enter_other(title, recipe, start, (1 - share) / len(others), len(others) - place)

    def enter(self, named: Sequence[tuple[str, Recipe]], start: float, share: float, *, sized: bool = False) -> None:
        """Score candidates of which none needs another, as a share of the stage. The number of components is chosen for
        the first mixture of all that is told of none, and the others take it (`sized`: chosen anew); what else its size
        is made of is chosen for each."""

        def tell(done: float) -> None:
            self._stage(start + share * done)
            ask(self._limit.over)

        entrants = self._entrants(named, sized)
        trials: dict[int, _Trial] = {}
        for place, one in enumerate(entrants):
            if (kept := self._kept.find(one.key, one.recipe, one.rows)) is not None:
                trials[place] = _Trial(kept[2], kept[:2])
        left = [place for place in range(len(entrants)) if place not in trials]
        several = self._work.workers if len(left) > 1 else ONE_PROCESS
        within = self._work.workers if len(left) == 1 else ONE_PROCESS
        entered = 0

        def take_up() -> None:
            nonlocal entered
            while entered in trials:
                self._take_up(entrants[entered], trials[entered])
                entered += 1

        @torch.inference_mode()
        def attempt(one: _Entrant, tell: Tell) -> tuple[Sizing, Scores | None]:
            return self._try(one, tell, within)

        take_up()
        room = room_of(len(self._used), self._rows.table.D)
        for number, (sizing, scores) in several.each(attempt, [entrants[place] for place in left], tell, room=room):
            one = entrants[left[number]]
            entry = None if scores is None else (one.sized(sizing), scores)
            trials[left[number]] = _Trial(sizing.tried, entry)
            if entry is not None:
                self._kept.keep(one.key, entry, sizing.tried)
            take_up()
        tell(1.0)

    def _entrants(self, named: Sequence[tuple[str, Recipe]], sized: bool) -> list[_Entrant]:
        """What is to be tried of candidates, with what they take from the first one whose components were chosen."""
        entrants: list[_Entrant] = []
        for title, recipe in named:
            rows = self._coded(recipe)
            if not sized and self._is_repeated(recipe, entrants):
                continue
            if self._chosen is not None and not sized and recipe.model.name == "mixture":
                first = self._chosen.recipe.model.settings
                recipe = recipe.with_model(outliers=first["outliers"])
                if chooses_components(recipe):
                    recipe = recipe.with_model(components=first["components"])
            entrants.append(_Entrant(title, recipe, rows, self._kept.key(title, recipe.replace(time_limit=None))))
        return entrants

    def _try(self, one: _Entrant, tell: Tell, workers: Workers) -> tuple[Sizing, Scores | None]:
        """Choose the size of a candidate and score it, unless one is the same that has entered."""
        sizing = choose_size(
            cast(type[GaussianFamily], one.recipe.model.family),
            one.recipe.model_settings,
            self._to_size(one),
            em_settings(one.recipe),
            stop=self._limit.over,
            progress=lambda done: tell(0.5 * done),
            workers=workers,
        )
        ask(self._limit.over)
        candidate = one.sized(sizing)
        if any(other.recipe == candidate.recipe for other, _ in self.standings.entries):
            return sizing, None
        return sizing, self._scored(candidate, lambda done: tell(0.5 + 0.5 * done), workers=workers)

    def _to_size(self, one: _Entrant) -> ComparedRows:
        """The rows by which the size of a candidate is chosen: the same for all of one encoding."""
        name, table = encoding_of(one.recipe.table), one.rows.table
        if name not in self._compared:
            self._compared[name] = ComparedRows(table.rows(self._used), stream(self._recipe.seed, "size"))
        return self._compared[name]

    def _take_up(self, one: _Entrant, trial: _Trial) -> None:
        """Enter a candidate that was tried, unless one is the same that has entered."""
        self._tried[one.title] = trial.sizes
        entry = trial.entry
        if entry is not None and self._chosen is None and chooses_components(one.recipe):
            self._chosen = entry[0]
        if entry is not None and not any(other.recipe == entry[0].recipe for other, _ in self.standings.entries):
            self.standings.entries.append(entry)

    def _scored(
        self, candidate: Candidate, tell: Tell, fit: FitFold | None = None, workers: Workers = ONE_PROCESS
    ) -> Scores:
        """Score a candidate."""
        recipe, every = candidate.recipe, candidate.rows
        some = candidate._replace(rows=every.at(self._some))
        known = self._by_fold.setdefault(encoding_of(recipe.table), Folds({}, {}))
        columns = weighted(columns_of(every.at(self._used)), some.rows, self._odds)
        done: Scores | float = 0.0
        for done in score(some, columns, self._parts, self._fold, known, self._odds, fit, workers):
            if isinstance(done, float):
                tell(done)
        assert isinstance(done, Scores)
        return done

    def enter_other(self, title: str, recipe: Recipe, start: float, share: float, left: int) -> None:
        """Score a candidate that EM does not fit, as a share of the stage. Where its training fails it takes no part,
        and a line says so.

        left  how many such candidates there are from here on
        """

        def fit_fold(recipe: Recipe, rows: Rows, number: int) -> Judge:
            def show(progress: Progress) -> None:
                if progress.name == TRAINING:
                    self._stage(start + share * (number + 0.5 * progress.share) / scoring.FOLDS)

            part = self._limit.part(FIT_SHARE / (left * scoring.FOLDS - number))
            work = replace(self._work, reporter=Lines(progress=show), limit=part)
            return fit_as_ever(recipe, rows, self._fit, work, self._limit.over)

        def tell(done: float) -> None:
            self._stage(start + share * done)
            ask(self._limit.over)

        one = _Entrant(title, recipe, self._coded(recipe), self._kept.key(title, recipe))
        if (kept := self._kept.find(one.key, recipe, one.rows)) is not None:
            self._take_up(one, _Trial((), kept[:2]))
            return tell(1.0)
        try:
            candidate = Candidate(title, recipe, one.rows)
            entry = candidate, self._scored(candidate, tell, fit_fold)
            self._kept.keep(one.key, entry)
            self._take_up(one, _Trial((), entry))
        except FitError as error:
            self.refused.append(f"{title} takes no part in the comparison: {error.message}")

    def not_entered(self) -> list[str]:
        """The models that were to be compared beside, and were not scored."""
        entered = {candidate.recipe.model.name for candidate, _ in self.standings.entries}
        return [name for name in self._recipe.compare if name not in entered]

    def enter_sized(self, start: float, share: float) -> None:
        """Where the best so far took its number of components from another one: that candidate again, with its own
        number."""
        best = self.standings.best()
        title = best.title.rpartition(":")[0]
        if best is self._chosen or best.recipe.model.name != "mixture" or title.startswith(ONE_FACTOR_MODEL):
            return
        named = best.recipe.with_model(components=None, factors=None)
        self.enter([(title, named)], start, share, sized=True)

    def enter_larger(self, start: float, share: float) -> None:
        """The best so far with the largest number of components by which held-out rows are described nearly as well."""
        best = self.standings.best()
        title = best.title.rpartition(":")[0]
        tried = self._tried.get(title, ())
        if not tried or best.recipe.model.name != "mixture" or self._recipe.score == "loglik":
            return
        enough = max(one.score for one in tried) - NEARLY * best.rows.table.D
        largest = max(cast(MixtureConfig, one.config).components or 1 for one in tried if one.score >= enough)
        if largest > cast(int, best.recipe.model.settings["components"]):
            self.enter([(title, best.recipe.with_model(components=largest))], start, share, sized=True)

    def enter_by_level(self, start: float, share: float) -> None:
        """Those with slopes of each level, under every transform that was entered, where these differ, each with its
        own number of components."""
        coded = {str(one.recipe.table.transform): one.rows for one, _ in self.standings.entries}
        self.enter(by_level(self._recipe, coded), start, share, sized=True)

    def shows_nothing(self, best: Scores) -> bool:
        """Whether there is no evidence in the rows, and in the best scores, that columns say anything of each other."""
        return is_lacking(best, self._rows.at(self._some), self._odds)

    def schema(self, recipe: Recipe) -> Schema:
        """The columns as a recipe that was tried encodes them."""
        return self._encoded[encoding_of(recipe.table)].schema

    def _is_repeated(self, recipe: Recipe, entrants: Sequence[_Entrant]) -> bool:
        """Whether another transform that was entered, or is about to be, makes the same of every column (scales of few
        points, say)."""
        own = encoding_of(recipe.table)
        entered = [(one.recipe, one.rows) for one, _ in self.standings.entries]
        entered += [(one.recipe, one.rows) for one in entrants]
        others = [rows.schema for of, rows in entered if encoding_of(of.table) != own]
        return any(other.columns == self.schema(recipe).columns for other in others)

    def _coded(self, recipe: Recipe) -> Rows:
        """The rows as a recipe encodes them."""
        name = encoding_of(recipe.table)
        if name not in self._encoded:
            source = self._rows.source
            assert source is not None
            schema = quiet_schema(source.table, recipe)
            self._encoded[name] = rows_of(source.table, schema, recipe.seed).at(self._rows.places)
            self._encoded[name] = self._encoded[name].weighted(self._rows.table.weight)
        return self._encoded[name]
