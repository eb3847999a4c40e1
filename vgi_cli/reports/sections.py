"""The sections of the page on a run: verdicts, pictures with how to read them, tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vgi_cli.columns.wording import are, readable
from vgi_cli.reports import drawing
from vgi_cli.reports.values import ColumnNumbers, ColumnPicture, Hidden, Level, Reported, Tipping, Verdict
from vgi_cli.reports.verdicts import NOMINAL, worst_first

SHOWN = 12
"""Columns that are shown; the rest is a click away."""
TRACED = 6
LISTED = 6
"""Names in a line of text at most."""
BARS = 20
"""Columns of a bar chart at most."""
TIPPING = (
    "The mean of the column with its 95 % interval, as its fills are moved away from the model's. Dashed: the mean "
    "without a shift, or the value that was asked for; dotted: the shifts from which on the interval says something "
    "else of it. Bad: a dotted line at a shift that you cannot rule out."
)
INTERVALS = (
    "Intervals: the share of a column's hidden numbers in their 90 % intervals (dashed: 90 %); the bar is what chance "
    "does in so few cells, two standard errors. Bad: marks left of their bars, where intervals are too narrow."
)

SYMBOLS: dict[Level, str] = {"good": "✓ fine", "look": "△ look", "bad": "✗ bad", "unknown": "? unknown"}


@dataclass(frozen=True)
class Figure:
    """A picture and the sentence below it; `title` where it has one."""

    markup: str
    caption: str
    title: str = ""


@dataclass(frozen=True)
class Grid:
    """A table. `pictures`: the last column holds markup."""

    caption: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    pictures: bool = False


@dataclass(frozen=True)
class Part:
    """What a section says of one run. `more`: what is a click away, with its heading."""

    verdicts: Sequence[Verdict] = ()
    text: str = ""
    figures: Sequence[Figure] = ()
    grids: Sequence[Grid] = ()
    more: Sequence[tuple[str, Grid]] = ()

    @property
    def empty(self) -> bool:
        """Whether it says nothing."""
        return self == Part()


@dataclass(frozen=True)
class Section:
    """A section of the page: one part for each run."""

    key: str
    title: str
    parts: Sequence[Part]


@dataclass
class _Drawer:
    """The report on one run, with names for its pictures that are unique in the page."""

    run: int
    reported: Reported
    count: int = field(default=0)

    def key(self) -> str:
        self.count += 1
        return f"r{self.run}f{self.count}"

    def verdicts(self, about: str) -> list[Verdict]:
        return [verdict for verdict in self.reported.verdicts if verdict.about == about]


def number(value: float | int | None, digits: int = 3) -> str:
    """A number as a reader wants it; a dash where there is none."""
    if value is None:
        return "–"
    if isinstance(value, int):
        return f"{value:,}"
    long = min(10**digits - 0.5, 1e4) <= abs(value) < 1e15  # where %g would write 6.1e+02 for 613
    return f"{value:,.0f}" if long else f"{value:.{digits}g}"


def _counted(count: int) -> str:
    return "1 column" if count == 1 else f"{count:,} columns"


def percent(value: float | None) -> str:
    """A share."""
    return "–" if value is None else f"{value:.0%}" if value == 0 or value >= 0.1 else f"{value:.1%}"


def sections(reports: Sequence[Reported]) -> list[Section]:
    """All sections that have something to say of some run."""
    drawers = [_Drawer(number, reported) for number, reported in enumerate(reports)]
    makers: tuple[tuple[str, str, Callable[[_Drawer], Part]], ...] = (
        ("fitted", "What was fitted", _fitted),
        ("training", "Training", _training),
        ("contest", "Models that were compared", _contest),
        ("missingness", "What is missing", _missingness),
        ("columns", "Observed and imputed cells", _columns),
        ("pairs", "Columns against each other", _pairs),
        ("fills", "How far fills reach", _fills),
        ("chains", "Chains", _chains),
        ("calibration", "Hidden cells", _calibration),
        ("rows", "Rows that are unlike the others", _rows),
        ("information", "Information lost to missing cells", _information),
        ("tipping", "If the missing cells were different", _tipping),
    )
    made = [Section(key, title, [make(drawer) for drawer in drawers]) for key, title, make in makers]
    return [section for section in made if any(not part.empty for part in section.parts)]


def compared(reports: Sequence[Reported]) -> Grid:
    """Several runs in one table: a line for each number."""
    every = [one.numbers for one in reports]
    mixed = [
        max((m for c in one.columns if c.mixing for m in (c.mixing.rhat_mean, c.mixing.rhat_spread) if m), default=None)
        for one in every
    ]
    lines: list[tuple[str, list[str]]] = [
        ("Verdict", [SYMBOLS[one.verdict] for one in reports]),
        ("Table", [one.facts.table for one in every]),
        ("Model", [f"{one.facts.model} by {one.facts.method}" for one in every]),
        ("Rows fitted", [number(one.facts.rows_fitted) for one in every]),
        ("Modelled columns", [number(one.facts.columns) for one in every]),
        ("Seconds", [number(one.facts.seconds.get("command_seconds")) for one in every]),
        ("Epochs", [number(one.training.epochs if one.training else None) for one in every]),
        (
            "log p(observed cells), nats a row",
            [number(one.likelihood.mean if one.likelihood else None, 5) for one in every],
        ),
        ("Skill on hidden cells", [percent(one.calibration.skill if one.calibration else None) for one in every]),
        ("90 % intervals hold", [percent(one.calibration.coverage if one.calibration else None) for one in every]),
        ("Largest R-hat", [number(value) for value in mixed]),
    ]
    kinds = {(one.facts.table, one.facts.rows, *((c.name, c.kind) for c in one.columns)) for one in every}
    caption = "The runs side by side. " + (
        "They have the same columns, of the same kinds, and a table of one name and size."
        if len(kinds) == 1
        else "They are of different tables, or of other columns or kinds: likelihoods and scores do not compare."
    )
    return Grid(caption, ["", *(one.facts.run for one in every)], [[name, *cells] for name, cells in lines])


def _fitted(drawer: _Drawer) -> Part:
    facts, imputing = drawer.reported.numbers.facts, drawer.reported.numbers.imputing
    rows = [
        ["Model", facts.model],
        ["Method", str(facts.method)],
        ["Table", f"{facts.table}: {facts.rows:,} rows, {facts.columns:,} modelled columns"],
        ["Rows fitted", number(facts.rows_fitted)],
        ["Refits for the uncertainty of the fit", number(facts.refits)],
        [
            "Seconds",
            ", ".join(f"{name.removesuffix('_seconds')} {value:,.1f}" for name, value in facts.seconds.items()),
        ],
        ["Device, seed, version", f"{facts.device}, {facts.seed}, {facts.version}"],
    ]
    if facts.weight is not None:
        rows.append(
            ["Rows count", f"in the fit and in the mean log-likelihood by column {facts.weight}; else here each once"]
        )
    if imputing is not None:
        where = "all rows" if imputing.rows == imputing.of_rows else f"{imputing.rows:,} of {imputing.of_rows:,} rows"
        rows.append(["Looked at here", f"{imputing.draws} imputations of {where}, sampler {imputing.sampler}"])
        rows.append(["Uncertainty of the fit in these", imputing.parameter_uncertainty or "not included"])
    chosen = [[name, _said(value)] for name, value in readable(facts.chosen).items()]
    settings = [[name, _said(value)] for name, value in facts.settings.items()]
    more = [("Every setting of model and method", Grid("Settings", ["setting", "value"], settings))]
    if chosen:
        more.append(("What the fit chose by itself", Grid("Chosen", ["setting", "value"], chosen)))
    notes = " ".join(f"{note[:1].upper()}{note[1:]}." for note in drawer.reported.numbers.notes)
    return Part(text=notes, grids=[Grid("The fit", ["", ""], rows)], more=more)


def _said(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 200 else f"{text[:199]}…"


def _training(drawer: _Drawer) -> Part:
    training, drawn = drawer.reported.numbers.training, drawer.reported.pictures.curves
    if training is None or not drawn:
        return Part(drawer.verdicts("training"))
    alt = (
        f"{training.criterion} over {training.epochs} epochs, from {drawn[training.criterion][1][0]:.4g} to "
        f"{drawn[training.criterion][1][-1]:.4g} nats a row"
        if training.criterion in drawn
        else f"scores over {training.epochs} epochs"
    )
    level = "Each curve should rise and level off. Bad: still rising at the right end (too few epochs); "
    if training.judged_by == "em":
        level = (
            "The curve should level off. What EM climbs also counts how far covariances are from what they are shrunk "
            "to, so that the log-likelihood may fall a little on the way. Bad: still rising at the right end; "
        )
    caption = (
        f"{level}the score of held-out rows falling while the other rises (learnt by heart). Columns are standardised "
        "here: the numbers are not those of other sections."
    )
    if "acceptance" in drawn:
        caption += " Accepted proposals should stay well above 20 %."
    return Part(drawer.verdicts("training"), figures=[Figure(drawing.curves(drawer.key(), drawn, alt), caption)])


def _contest(drawer: _Drawer) -> Part:
    league = drawer.reported.numbers.contest
    if not league:
        return Part()
    rows = [
        [
            f"{'→ ' if one['chosen'] else ''}{one['title']}",
            number(one["cells"]),
            number(one["loglik"], 5),
            percent(one.get("coverage")),
            percent(one.get("weight")),
            one.get("against") or "",
        ]
        for one in league["candidates"]
    ]
    decides = "hidden cells" if league["score"] == "cells" else "log-likelihood"
    within = "in the range of ten draws" if "calibrated" in league else "in 90 % intervals"
    caption = (
        f"On {league['rows']:,} rows that each fit did not see; {decides} decide. Hidden cells: 1 is what the column "
        f"alone would score, less is better. Bad: a winner near 1, which knows little, or a share {within} that is far "
        f"from {percent(league.get('calibrated', NOMINAL))} (the uncertainty of the fit is not in these draws, so that "
        "they are a little narrow). "
        "Imputations are drawn in turn from refits of the models that have a weight."
    )
    grid = Grid(caption, ["model", "hidden cells", "nats a row", within, "weight", "against it"], rows)
    return Part(drawer.verdicts("contest"), grids=[grid])


def _missingness(drawer: _Drawer) -> Part:
    numbers, shares = drawer.reported.numbers, drawer.reported.pictures.matrix
    table = numbers.missingness
    carried = [column.name for column in table.carried]
    holes = sum(column.missing for column in table.carried)
    figures = []
    if table.missing or holes:
        alt = f"missing: {table.missing:,} of {table.cells:,} cells; {table.complete_rows:,} rows are complete"
        if carried:
            alt += f"; and {holes:,} cells of {_counted(len(carried))} that {are(carried)} carried"
        caption = (
            "Rows from top to bottom, columns from left to right; painted cells are missing. Scattered specks are "
            "fine. Bad: solid blocks, where the rows that could teach a column are all alike or all elsewhere."
        )
        if carried:
            caption += (
                " Columns on the right that are named as carried are not modelled: they are written as they were read "
                "(of a column that does not vary holes get its value), and counted nowhere else in this section."
            )
        names = [*table.modelled, *carried]
        markup = drawing.matrix(drawer.key(), shares, names, table.rows, alt, len(carried))
        figures.append(Figure(markup, caption))
    rows = [[_list(pattern.missing) or "nothing", number(pattern.rows)] for pattern in table.patterns]
    grids = []
    if table.patterns and table.patterns[0].rows > 1:
        grids.append(
            Grid(f"The most frequent of {table.patterns_in_all:,} patterns", ["missing together", "rows"], rows)
        )
    if table.never_together_in_all:
        pairs = [[first, second] for first, second in table.never_together]
        grids.append(Grid(f"Columns that no row has both of ({table.never_together_in_all:,})", ["", ""], pairs))
    more = []
    if carried:
        lines = [[column.name, column.kind, number(column.missing)] for column in table.carried]
        grid = Grid("Carried, not modelled", ["column", "kind", "missing"], lines)
        more.append((f"{_counted(len(lines))} that {are(lines)} carried, not modelled", grid))
    return Part(drawer.verdicts("missingness"), figures=figures, grids=grids, more=more)


def _list(names: Sequence[str]) -> str:
    shown = ", ".join(names[:LISTED])
    return f"{shown} and {len(names) - LISTED} more" if len(names) > LISTED else shown


def _columns(drawer: _Drawer) -> Part:
    numbers, drawn = drawer.reported.numbers, drawer.reported.pictures.columns
    order = worst_first(numbers.columns)
    figures = []
    for column in order[:SHOWN]:
        if column.name in drawn:
            title = f"{column.name} ({column.kind}, {percent(column.share)} missing)"
            shown = drawn[column.name]
            markup = drawing.column(drawer.key(), shown, _alt(column, shown.means))
            figures.append(Figure(markup, "", title))
    if not figures:
        return Part(drawer.verdicts("columns"))
    caption = (
        "Filled: observed cells. Thin lines or marks: imputed cells, one for each imputation. They may differ where "
        "holes are not spread at random; thin lines that differ from each other show few fills. Bad: fills heaped "
        "where nothing was observed, or one sharp peak where the data are broad."
    )
    first = figures[0]
    figures[0] = Figure(first.markup, caption, first.title)
    rest = [
        [
            column.name,
            column.kind,
            percent(column.share),
            *_means(column, drawn.get(column.name)),
            number(column.shift),
            drawing.spark(
                picture.observed, picture.imputed.mean(0) if picture.how != "strip" and len(picture.imputed) else []
            )
            if (picture := drawn.get(column.name))
            else "",
        ]
        for column in order
    ]
    grid = Grid(
        "Every column, those of most concern first. Shift: difference of the means in standard deviations; of levels "
        "the total variation distance.",
        ["column", "kind", "missing", "mean", "imputed mean", "shift", "observed, imputed"],
        rest,
        pictures=True,
    )
    return Part(drawer.verdicts("columns"), figures=figures, more=[(f"All {len(order)} columns", grid)])


def _means(column: ColumnNumbers, picture: ColumnPicture | None) -> tuple[str, str]:
    """The means of the observed and of the imputed cells of a column; of moments as the table writes them."""
    if picture is not None and picture.means:
        first, *rest = picture.means
        return first, rest[0] if rest else number(None)
    return number(column.mean), number(column.imputed_mean)


def _alt(column: ColumnNumbers, means: Sequence[str]) -> str:
    """A picture of observed and imputed cells in words; `means` as of a ColumnPicture."""
    told = f"{column.name}: {column.observed:,} observed cells, {column.missing:,} missing"
    if means:
        words = zip(("observed", "imputed"), means, strict=False)
        return told + "".join(f"; {what} mean {mean}" for what, mean in words)
    if column.mean is not None:
        told += f"; observed mean {column.mean:.4g}, standard deviation {column.sd or 0:.4g}"
    if column.imputed_mean is not None:
        told += f"; imputed mean {column.imputed_mean:.4g}, standard deviation {column.imputed_sd or 0:.4g}"
    elif column.shift is not None:
        told += f"; shares of imputed levels differ by {column.shift:.0%} in all"
    return told


def _pairs(drawer: _Drawer) -> Part:
    drawn = [pair for pair in drawer.reported.pictures.pairs if pair.observed.size or pair.imputed.size]
    if not drawn:
        return Part()
    alt = "; ".join(
        f"{one.names[1]} against {one.names[0]}: {one.observed.shape[1]} rows with both, {one.imputed.shape[1]} imputed"
        for one in drawn
    )
    caption = (
        "Dots: rows with both cells observed. Crosses: rows with one or both imputed, one imputation. Crosses should "
        "follow the cloud of the dots. Bad: crosses in a shapeless cloud over dots that lie on a line."
    )
    return Part(drawer.verdicts("pairs"), figures=[Figure(drawing.pairs(drawer.key(), drawn, alt), caption)])


def _fills(drawer: _Drawer) -> Part:
    numbers = drawer.reported.numbers
    known = [column for column in numbers.columns if column.outside is not None or column.extrapolated is not None]
    known.sort(key=lambda column: (-(column.outside or 0), -(column.extrapolated or 0)))
    rows = [
        [
            column.name,
            percent(column.outside),
            number(column.furthest),
            percent(column.extrapolated),
            column.extrapolated_by or "–",
        ]
        for column in known
    ]
    if not rows:
        return Part(drawer.verdicts("fills"))
    head = ["column", "fills outside", "furthest (sd)", "holes beyond", "in"]
    caption = (
        "Fills outside the observed range, and the furthest of them in standard deviations: a few, a little outside, "
        "are what a model may know. Holes beyond: in rows whose other column (in) lies outside all rows where this one "
        "is observed; there the model extrapolates. Bad: large shares."
    )
    more = [("The other columns", Grid(caption, head, rows[SHOWN:]))] if len(rows) > SHOWN else []
    return Part(drawer.verdicts("fills"), grids=[Grid(caption, head, rows[:SHOWN])], more=more)


def _chains(drawer: _Drawer) -> Part:
    numbers, drawn = drawer.reported.numbers, drawer.reported.pictures.traces
    if numbers.chains is None:
        return Part()
    mixed = [(column.name, column.mixing) for column in numbers.columns if column.mixing is not None]
    mixed.sort(key=lambda item: -max(item[1].rhat_mean or 9, item[1].rhat_spread or 9))  # none: does not move
    caption = (
        "Each line is a chain: the mean and the spread of the imputed cells over rows; what is right of the dashed "
        "mark counts. Lines should cross and wander about one level. Bad: lines apart, or drifting, or flat."
    )
    figures = []
    for place, (name, own) in enumerate(mixed[:TRACED]):
        alt = f"traces of {name}: R-hat of the mean {number(own.rhat_mean)}, of the spread {number(own.rhat_spread)}"
        markup = drawing.traces(drawer.key(), drawn[name], alt)
        figures.append(Figure(markup, caption if place == 0 else "", name))
    rows = [
        [name, number(own.rhat_mean), number(own.rhat_spread), number(own.ess), percent(own.acceptance)]
        for name, own in mixed
    ]
    head = ["column", "R-hat, mean", "R-hat, spread", "effective draws", "accepted"]
    told = "Split R-hat should be near 1 (above 1.1: slow, above 1.3: bad); acceptance above 20 %."
    grids = [Grid(told, head, rows[:SHOWN])] if rows else []
    more = [("The other columns", Grid(told, head, rows[SHOWN:]))] if len(rows) > SHOWN else []
    known = (
        [f"accepted proposals {percent(numbers.chains.acceptance)}"] if numbers.chains.acceptance is not None else []
    )
    if numbers.chains.memory is not None:
        known.append(
            f"largest correlation between half-time and end {numbers.chains.memory:.2f} (above 0.3: too short)"
        )
    if numbers.chains.apart is not None:
        known.append(f"pairs of chains that did not meet {percent(numbers.chains.apart)} (above 10 %: too short)")
    if numbers.chains.kind == "exact":
        return Part(drawer.verdicts("chains"))
    text = " ".join([numbers.chains.text, f"All chains: {'; '.join(known)}." if known else ""]).strip()
    return Part(drawer.verdicts("chains"), text, figures, grids, more)


def _calibration(drawer: _Drawer) -> Part:
    numbers = drawer.reported.numbers
    if numbers.calibration is None and numbers.holdout is None:
        return Part()
    texts, figures, more = [], [], []
    if numbers.calibration is not None:
        found = numbers.calibration
        texts.append(
            f"{found.cells:,} observed cells of {found.rows:,} rows were hidden from their rows and drawn "
            f"{found.draws} times. The fit has seen them, so bad scores accuse it and good ones do not acquit it."
        )
        figure, grid = _scores(drawer, {column.name: column.hidden for column in numbers.columns}, "hidden now")
        figures += figure
        more += grid
    if numbers.holdout is not None:
        found = numbers.holdout
        texts.append(
            f"Besides, {found.cells:,} cells of {found.rows:,} rows were hidden from a first fit of the same kind."
        )
        figure, grid = _scores(drawer, {column.name: column.unseen for column in numbers.columns}, "never seen")
        figures += figure
        more += grid
    return Part(drawer.verdicts("calibration"), " ".join(texts), figures, more=more)


def _scores(
    drawer: _Drawer, columns: Mapping[str, Hidden | None], which: str
) -> tuple[list[Figure], list[tuple[str, Grid]]]:
    """The scores of cells of some sort as a picture and as a table; both empty where there are none."""
    told = sorted(((name, own) for name, own in columns.items() if own is not None), key=lambda item: item[1].skill)
    if not told:
        return [], []
    names, values = [name for name, _ in told[:BARS]], [own.skill for _, own in told[:BARS]]
    alt = f"skill on cells {which}, worst first: " + _worst_of(names, values)
    caption = (
        "Skill: how much better the model predicts a hidden cell than draws from its column alone: 1 is perfect, 0 "
        "(dashed) no better. A column that nothing predicts is near 0. Bad: clearly below 0."
    )
    shown = [max(value, -1.0) for value in values]
    covered = _intervals(drawer, told, which)
    caption += f" {INTERVALS}" if covered else ""
    figure = Figure(drawing.bars(drawer.key(), names, shown, "skill", 0.0, alt), caption, f"Cells {which}")
    rows = [
        [
            name,
            number(own.cells),
            own.score.replace("_", " "),
            number(own.model),
            number(own.alone),
            number(own.skill),
            percent(own.coverage),
        ]
        for name, own in told
    ]
    head = ["column", "cells", "score", "model", "column alone", "skill", "in 90 % intervals"]
    caption = (
        f"Scores of cells {which} (less is better), and the share in intervals that should hold {NOMINAL:.0%}: of few "
        "cells a rough number."
    )
    return [figure, *covered], [(f"Scores of {_counted(len(rows))}, cells {which}", Grid(caption, head, rows))]


def _intervals(drawer: _Drawer, told: Sequence[tuple[str, Hidden]], which: str) -> list[Figure]:
    """How many of the hidden numbers of each column lie in their intervals, fewest first; none where no column holds
    numbers."""
    known = sorted(
        ((name, own.coverage, own.cells) for name, own in told if own.coverage is not None), key=lambda one: one[1]
    )[:BARS]
    if not known:
        return []
    names, shares = [name for name, _, _ in known], [share for _, share, _ in known]
    chance = [2.0 * math.sqrt(NOMINAL * (1 - NOMINAL) / max(cells, 1)) for _, _, cells in known]
    alt = f"share of cells {which} in their {NOMINAL:.0%} intervals, fewest first: " + _worst_of(names, shares)
    markup = drawing.covered(drawer.key(), names, shares, chance, NOMINAL, alt)
    return [Figure(markup, "", f"Cells {which}: intervals")]


def _worst_of(names: Sequence[str], values: Sequence[float]) -> str:
    """The first six columns with their values, in words."""
    return ", ".join(f"{name} {value:.0%}" for name, value in list(zip(names, values, strict=True))[:6])


def _rows(drawer: _Drawer) -> Part:
    found = drawer.reported.numbers.likelihood
    if found is None:
        return Part()
    ids = list(found.lowest[0].ids) if found.lowest else []
    rows = [
        [
            str(row.row),
            *row.ids.values(),
            number(row.observed),
            number(row.per_cell),
            number(row.below, 2),
            number(row.limit, 2),
        ]
        for row in found.lowest
    ]
    caption = (
        f"The least likely of {found.rows:,} rows ({found.estimator} likelihood), by the mean log density of their "
        "observed cells; how many nats they lie below the median row, and the limit of what chance does to a row of as "
        "many cells. Bad: rows beyond it; look for slips of a pen, units, or another population."
    )
    head = ["row", *ids, "cells", "nats a cell", "below the median", "limit"]
    return Part(drawer.verdicts("rows"), grids=[Grid(caption, head, rows)])


def _information(drawer: _Drawer) -> Part:
    known = [column for column in drawer.reported.numbers.columns if column.pooled is not None and column.missing]
    known.sort(key=lambda column: -column.pooled.fmi if column.pooled else 0.0)
    if not known:
        return Part(drawer.verdicts("information"))
    names = [column.name for column in known[:BARS]]
    values = [column.pooled.fmi for column in known[:BARS] if column.pooled is not None]
    alt = "fraction of missing information, largest first: " + _worst_of(names, values)
    caption = (
        "Of what is known about the mean of a column, the share that is lost to missing cells (Rubin's rules over "
        "these imputations; rough with so few). Below the share of missing cells the other columns help. Bad: above "
        "one half."
    )
    figure = Figure(drawing.bars(drawer.key(), names, values, "fraction of missing information", None, alt), caption)
    rows = [
        [column.name, percent(column.share), number(own.estimate, 5), number(own.se), percent(own.fmi)]
        for column in known
        if (own := column.pooled) is not None
    ]
    head = ["column", "missing", "mean", "standard error", "information lost"]
    grid = Grid("Means by Rubin's rules, in the rows looked at", head, rows)
    return Part(drawer.verdicts("information"), figures=[figure], more=[(f"Means of {len(rows)} columns", grid)])


def _tipping(drawer: _Drawer) -> Part:
    if not drawer.reported.numbers.tipping:
        return Part()
    figures, more = [], []
    for tip in drawer.reported.numbers.tipping:
        if tip.share == 0:
            continue
        heights = drawer.reported.pictures.heights.get(tip.column)
        title = f"{tip.column} ({percent(tip.share)} missing)"
        figures.append(Figure(drawing.tipping(drawer.key(), tip, heights, _tipping_alt(tip)), TIPPING, title))
        rows = [
            [
                f"{at.sd:+.3g}",
                f"{at.shift:+.4g}",
                *(f"{value:.6g}" for value in (at.estimate, at.low, at.high)),
                percent(at.stopped),
            ]
            for at in tip.shifts
        ]
        head = ["shift (sd)", f"in {tip.unit or 'its units'}", "mean", "from", "to", "fills stopped by a bound"]
        caption = "The mean and its 95 % interval by Rubin's rules over these imputations, in the rows looked at."
        if tip.unit:
            caption += f" In {tip.unit} since the first observed moment, since midnight, or of a duration."
        more.append((f"{tip.column} at every shift", Grid(caption, head, rows)))
    return Part(drawer.verdicts("tipping"), _of_how_many(drawer) if figures else "", figures, more=more)


def _of_how_many(drawer: _Drawer) -> str:
    """On how many draws and rows the means rest, and what that leaves out."""
    looked = drawer.reported.numbers.imputing
    if looked is None:
        return ""
    rows = "all rows" if looked.rows == looked.of_rows else f"{looked.rows:,} of {looked.of_rows:,} rows"
    narrow = "" if looked.parameter_uncertainty else " They lack the uncertainty of the fit, so the interval is narrow."
    return (
        f"These means rest on {looked.draws} imputations of {rows}: with other draws the interval, and where it tips, "
        f"move a little.{narrow} For a figure to publish take more (vgi impute --m 50 --delta, then vgi pool)."
    )


def _tipping_alt(tip: Tipping) -> str:
    first, last = tip.shifts[0], tip.shifts[-1]
    at = [f"{value:+.2g} sd" for value in (tip.below, tip.above) if value is not None]
    return (
        f"mean of {tip.column} over shifts of its fills: {first.estimate:.4g} at {first.sd:+g} sd to "
        f"{last.estimate:.4g} at {last.sd:+g} sd; " + (f"tips at {' and '.join(at)}" if at else "tips nowhere")
    )
