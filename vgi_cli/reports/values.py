"""What a report holds: numbers, as they stand in its JSON, and beside them what only its pictures need."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Literal

from vgi_cli.columns.numerals import Floats

FORMAT = 1
"""Of the JSON."""

Level = Literal["good", "look", "bad", "unknown"]
"""What a verdict says: nothing speaks against the fit; look at this; do not use it as it is; it cannot be told."""

Ticks = tuple[Sequence[float], Sequence[str]]
"""Places of an axis and their labels."""


@dataclass(frozen=True)
class Verdict:
    """A judgement in words. `about`: the section that it belongs to."""

    about: str
    level: Level
    text: str


@dataclass(frozen=True)
class Training:
    """How the fit went.

    criterion  what the curve shows, larger is better
    epochs     done, and planned
    steps      of the whole fit, warm-ups among them
    stopped_by see the run's manifest
    judged_by  what tells whether the fit had levelled off: scores of held-out rows, the shrinking steps of EM, the last
               third of the curve, or nothing (too few epochs); `tuned`: the model was not trained, its conditionals
               were adapted
    rise       what the fit still gained then, nats a row: the last score of held-out rows over the best before; the
               last third of the curve over the middle one; what EM would gain if its steps went on shrinking as before
    held_out   the last score of held-out rows, nats a row; None: there were none
    strain     how far the imputations of the last round were from their observed cells, 1 where they follow them (of
               plmcmc; None: of another method)
    """

    criterion: str
    epochs: int
    planned: int
    steps: int
    stopped_by: str | None
    finished: bool
    judged_by: Literal["held-out", "em", "curve", "nothing", "tuned"]
    rise: float | None
    held_out: float | None
    strain: float | None = None


@dataclass(frozen=True)
class Pattern:
    """Rows that lack the same columns."""

    missing: Sequence[str]
    rows: int


@dataclass(frozen=True)
class CarriedColumn:
    """A column that is written as it was read and not modelled: an id, a text, one that does not vary. `missing`: cells
    of the whole table."""

    name: str
    kind: str
    missing: int


@dataclass(frozen=True)
class Missingness:
    """What is missing in the modelled columns of the whole table.

    never_together  pairs of columns that no row has both of, the first ten, and their number
    modelled        the columns of the model
    carried         the columns that are not modelled: nothing else here counts them
    """

    rows: int
    cells: int
    missing: int
    complete_rows: int
    empty_rows: int
    patterns: Sequence[Pattern]
    patterns_in_all: int
    never_together: Sequence[tuple[str, str]]
    never_together_in_all: int
    modelled: Sequence[str] = ()
    carried: Sequence[CarriedColumn] = ()


@dataclass(frozen=True)
class Hidden:
    """How well cells of a column are told that were hidden for the purpose.

    cells     how many
    score     `crps` (numbers) or `log_score` (levels), less is better
    model     what the draws from the model scored, in the units of the column (levels: nats)
    alone     what draws from the column's observed cells scored
    skill     1 - model / alone: 1 is perfect, 0 no better than the column alone
    coverage  share of the true numbers in intervals that should hold 90 %; None for levels
    """

    cells: int
    score: str
    model: float
    alone: float
    skill: float
    coverage: float | None


@dataclass(frozen=True)
class Mixing:
    """How the chains of a column mix. R-hat and effective sample size of the mean of its imputed cells over rows, and
    of their spread; `stuck`: chains that do not move, or each around a value of its own."""

    rhat_mean: float | None
    rhat_spread: float | None
    ess: float | None
    acceptance: float | None
    stuck: bool


@dataclass(frozen=True)
class Pooled:
    """The mean of a column by Rubin's rules over the completed rows of the sample.

    estimate, se  of the mean
    fmi           fraction of missing information
    """

    estimate: float
    se: float
    fmi: float


@dataclass(frozen=True)
class ColumnNumbers:
    """One modelled column.

    observed, missing  cells of the whole table
    mean, sd           of its observed numbers; None for levels
    imputed_mean, imputed_sd  of its fills in the sampled rows; None for levels, and without a fill
    shift              numbers: difference of these means in observed standard deviations; levels: total variation
                       distance between the shares of observed and imputed levels. Not an error by itself
    outside            share of the fills outside the observed range; None for levels
    furthest           the largest distance of a fill from that range, in standard deviations
    extrapolated       share of its holes in rows where another column lies beyond all rows in which this one is
                       observed; the largest such share. Holes of rows that may not have been asked by a skip of the run
                       do not count
    extrapolated_by    that other column
    suspicion          why its kind may be wrong; None: nothing says so
    hidden             scores of cells that the fit has seen; `unseen`: of cells that were hidden from a fit
    """

    name: str
    kind: str
    observed: int
    missing: int
    mean: float | None
    sd: float | None
    imputed_mean: float | None
    imputed_sd: float | None
    shift: float | None
    outside: float | None
    furthest: float | None
    extrapolated: float | None
    extrapolated_by: str | None
    suspicion: str | None
    pooled: Pooled | None
    mixing: Mixing | None
    hidden: Hidden | None
    unseen: Hidden | None

    @property
    def share(self) -> float:
        """The share of its cells that is missing."""
        return self.missing / max(self.observed + self.missing, 1)


@dataclass(frozen=True)
class Imputing:
    """The draws that the report looks at: `draws` of each hole of `rows` rows, drawn at random where these are not all
    of the table. `parameter_uncertainty`: what carries it into the draws, in words."""

    draws: int
    rows: int
    of_rows: int
    sampler: str
    parameter_uncertainty: str | None


@dataclass(frozen=True)
class Chains:
    """How the sampler's chains were looked at.

    kind     `exact`: there are none; `traced`: run anew and recorded; `told`: what the sampler says of itself;
             `stored`: what the run keeps
    rows, chains, rounds  of what was traced: rows with a hole, chains of each, rounds of each after those left out
    acceptance  share of accepted proposals over all columns
    memory   the largest correlation of a cell between half-time and end of its chain
    apart    of pairs of imputing chains, one of them begun at an exact draw, the largest share that had not met at the
             end, by number of holes: a bound of the distance of a draw from an exact one (samplers/lengths.py)
    text     how to read this, in words
    """

    kind: Literal["exact", "traced", "told", "stored"]
    text: str
    rows: int | None = None
    chains: int | None = None
    rounds: int | None = None
    acceptance: float | None = None
    memory: float | None = None
    apart: float | None = None


@dataclass(frozen=True)
class Calibration:
    """Cells that were hidden and drawn.

    rows, cells, draws  how many
    skill       mean over columns
    coverage    share of all hidden numbers in their intervals, which should hold 90 %
    """

    rows: int
    cells: int
    draws: int
    skill: float | None
    coverage: float | None


@dataclass(frozen=True)
class OddRow:
    """A row that the model finds unlikely.

    row        its number, from 1
    ids        its id cells
    per_cell   log density of its observed cells, comparable between columns, divided by their number
    below      nats by which the row lies below the median row, were that of as many cells
    limit      what this may be: see reports/rows.py
    """

    row: int
    ids: Mapping[str, str]
    observed: int
    per_cell: float
    below: float
    limit: float


@dataclass(frozen=True)
class Likelihood:
    """log p(observed cells), nats a row, in units of the data: of `rows` rows, and the least likely of these."""

    rows: int
    estimator: str
    mean: float
    lowest: Sequence[OddRow]


@dataclass(frozen=True)
class AtShift:
    """The mean of a column by Rubin's rules, with its fills moved.

    sd, shift           by how much: in standard deviations of its observed cells, and in its units
    estimate, low, high  the mean, and its 95 % interval
    stopped             share of the fills that a bound of the column stopped
    """

    sd: float
    shift: float
    estimate: float
    low: float
    high: float
    stopped: float


@dataclass(frozen=True)
class Tipping:
    """How the mean of a column moves with a shift of its fills.

    share         of its cells in the rows looked at that are missing
    unit, origin  of a column of moments: means are `days` or `seconds` since the origin, a text; else empty
    against       what the interval is held against: the mean without a shift, or the value that was asked for
                  (`asked`), and as a text
    shifts        the means, the shift rising
    below, above  the shift nearest to none, downwards and upwards, at which the interval begins or ceases to hold
                  `against`, in standard deviations; None: none of these shifts
    """

    column: str
    share: float
    unit: str
    origin: str
    against: float
    asked: bool
    text: str
    shifts: Sequence[AtShift]
    below: float | None
    above: float | None


@dataclass(frozen=True)
class Facts:
    """What was fitted, on what, in how long. `settings`: of the model and the method; `chosen`: which of all settings
    the fit chose by itself; `weight`: the column by which rows count in the fit (in the report each counts once)."""

    run: str
    table: str
    rows: int
    rows_fitted: int
    columns: int
    model: str
    method: str | None
    settings: Mapping[str, Any]
    chosen: Mapping[str, Any]
    refits: int
    seconds: Mapping[str, float]
    device: str
    version: str
    seed: int
    weight: str | None = None


@dataclass(frozen=True)
class Together:
    """How two columns go together in the points of their picture: the rank correlation (Spearman's) of rows with both
    cells observed and of one draw of rows in which one or both are imputed, and how many of each there are. None where
    one of them does not vary."""

    names: tuple[str, str]
    observed: int
    imputed: int
    observed_correlation: float | None
    imputed_correlation: float | None


@dataclass(frozen=True)
class Nothing:
    """Holes in which nothing may belong, by an observed cell of the row.

    names  of the columns with such holes
    holes  how many there are in the table
    flags  of `vgi impute` that leave them blank
    """

    names: Sequence[str]
    holes: int
    flags: str


@dataclass(frozen=True)
class Numbers:
    """All numbers of the report on one run. Parts that are None were left out: `notes` say why.

    calibration  of cells that were hidden from their rows now, and that the fit has seen
    holdout      of cells that were hidden from a first fit of the same kind (`vgi fit --holdout-cells`)
    tipping      of the columns that were asked for
    pairs        of the columns that are drawn against each other
    not_asked    holes of questions that may not have been asked: no such row of the fit has an answer there; None: no
                 such hole
    undefined    holes of columns that are computed from others, which leave them no value (a ratio to 0); None: no such
                 hole
    time_limit   its seconds, and the stages that it ended early; None: there was none
    """

    facts: Facts
    training: Training | None
    contest: Mapping[str, Any] | None
    missingness: Missingness
    imputing: Imputing | None
    columns: Sequence[ColumnNumbers]
    chains: Chains | None
    calibration: Calibration | None
    holdout: Calibration | None
    likelihood: Likelihood | None
    notes: Sequence[str]
    tipping: Sequence[Tipping] = ()
    time_limit: Mapping[str, Any] | None = None
    pairs: Sequence[Together] = ()
    not_asked: Nothing | None = None
    undefined: Nothing | None = None


@dataclass(frozen=True)
class ColumnPicture:
    """Observed and imputed cells of a column, to be drawn.

    how       `density`: curves on a grid; `bars`: shares of levels or of few numbers; `strip`: too few fills for
              curves
    at        [n] the grid, or the places of the bars
    labels    [n] of the bars; of a grid three: its ends and its middle
    observed  [n] density or share
    imputed   [m, n] of each draw; of a strip [m, fills], the fills themselves
    means     of moments the mean of the observed cells, and that of the imputed ones where there are any, as the table
              writes them; empty of others
    """

    how: Literal["density", "bars", "strip"]
    at: Floats
    labels: Sequence[str]
    observed: Floats
    imputed: Floats
    means: Sequence[str] = ()


@dataclass(frozen=True)
class Pair:
    """Two columns of numbers: points [2, n] whose cells are both observed, and [2, n] of one draw where one is
    imputed. `ticks`: of each column that holds moments places of its axis and their labels; None: numbers."""

    names: tuple[str, str]
    observed: Floats
    imputed: Floats
    ticks: tuple[Ticks | None, Ticks | None] = (None, None)


@dataclass(frozen=True)
class Trace:
    """The mean and the spread of a column's imputed cells, [chains, states] each, every `every` rounds one; `kept`: the
    first of the states that R-hat is of."""

    mean: Floats
    spread: Floats
    kept: int
    every: int


@dataclass(frozen=True)
class Pictures:
    """What the pictures of the report on one run are drawn from, beside its numbers.

    curves   name -> (epochs, values), of the training
    matrix   [r, columns] share of missing cells in groups of consecutive rows: the modelled columns, then those of
             `Missingness.carried`
    columns  by name, those of which there is something to see
    traces   by name
    heights  by column of `Numbers.tipping`, where it holds moments: places of the axis of its means, and their labels
    """

    curves: Mapping[str, tuple[Floats, Floats]]
    matrix: Floats
    columns: Mapping[str, ColumnPicture]
    pairs: Sequence[Pair]
    traces: Mapping[str, Trace]
    heights: Mapping[str, Ticks]


@dataclass(frozen=True)
class Reported:
    """The report on one run."""

    numbers: Numbers
    pictures: Pictures
    verdicts: Sequence[Verdict]

    @property
    def verdict(self) -> Level:
        """The worst of the verdicts; `unknown` where all are."""
        return worst([verdict.level for verdict in self.verdicts])


def worst(levels: Sequence[Level]) -> Level:
    """The worst of some levels: what cannot be told does not count beside what can."""
    order: tuple[Level, ...] = ("bad", "look", "good")
    return next((level for level in order if level in levels), "unknown")


def plain(value: Any) -> Any:
    """As JSON has it: dataclasses and mappings as objects, arrays as lists, numbers that are not finite as null."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, str | bool) or value is None:
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, int):
        return value
    return [plain(item) for item in value]


def as_json(reports: Sequence[Reported]) -> dict[str, Any]:
    """The JSON object of the reports on some runs (vgi_cli/schemas/report.json)."""
    runs = [{**plain(one.numbers), "verdict": one.verdict, "verdicts": plain(list(one.verdicts))} for one in reports]
    return {"format": FORMAT, "runs": runs}
