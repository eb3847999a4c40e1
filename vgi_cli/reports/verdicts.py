"""What the numbers of a report mean, in words. Every threshold stands here, with its reason in docs/report.md.

Each rule takes numbers and gives a verdict or none; a rule that cannot tell says `unknown`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

from vgi_cli.reports.tipping import stands
from vgi_cli.reports.values import Calibration, ColumnNumbers, Hidden, Level, Mixing, Numbers, Together, Verdict

MUCH_MISSING = 0.5
"""Share of a column that is missing, from which on its fills rest on a model more than on data."""
RISING = 0.02
"""What the training curve may still gain in its last third, nats a row for each modelled column."""
FEW_STEPS = 500
"""Steps below which a fit whose curve rises, or is too short to be seen, is called bad. Of more steps, what rises may
be no more than how well the model knows these rows."""
STRAIN = 2.0
"""How far the imputations of a fit by plmcmc may be from their observed cells, 1 where they follow them."""
RHAT_LOOK, RHAT_BAD = 1.1, 1.3
ACCEPTED_LOOK, ACCEPTED_BAD = 0.2, 0.05
"""Share of accepted proposals of a column."""
REMEMBERED_LOOK, REMEMBERED_BAD = 0.3, 0.6
"""Correlation of a cell's state at half-time of its chain with that at the end."""
APART_LOOK, APART_BAD = 0.15, 0.6
"""Share of pairs of imputing chains that did not meet (samplers/lengths.py aims at 0.1)."""
NOMINAL = 0.9
COVERED_BAD, COVERED_NARROW, COVERED_LOOK = 0.15, 0.1, 0.07
"""How far the share of hidden numbers in their 90 % intervals may be from NOMINAL, beside its sampling error."""
ERRORS = 3.0
"""Standard errors beyond which a share differs from what it should be."""
WORSE, WORSE_CELLS = -0.15, 30
"""Skill on hidden cells below which a column is predicted worse than by itself, where so many cells were hidden."""
LITTLE = 0.01
"""Mean skill below which the model has learnt nothing that links the columns."""
APART_RANKS, FEWEST_POINTS = 0.4, 20
"""Difference of the rank correlations of two columns, in rows with fills and in rows without, beside its sampling
error, and the fewest points of each sort from which on it is looked at."""
OUTSIDE_LOOK, OUTSIDE_BAD = 0.1, 0.3
"""Share of a column's fills outside its observed range."""
FAR_BAD, FAR_SHARE = 5.0, 0.05
"""Standard deviations beyond the observed range that no fill of a column may reach of which so many are outside;
fills of a column of which fewer are outside are looked at where they reach so far."""
EXTRAPOLATED = 0.2
"""Share of a column's holes in rows that lie beyond those in which it is observed."""
LARGE_FMI = 0.5
NEAR = 0.5
"""Standard deviations: a shift of fills that is called small, half of what separates two groups clearly."""
NAMED = 4
"""Columns that a verdict names."""


def judge(numbers: Numbers) -> list[Verdict]:
    """All verdicts on a run, in the order of the sections."""
    rules: tuple[Callable[[Numbers], Iterable[Verdict]], ...] = (
        _training,
        _contest,
        _missing,
        _kinds,
        _pairs,
        _fills,
        _chains,
        _calibration,
        _rows,
        _information,
        _tipping,
    )
    return [verdict for rule in rules for verdict in rule(numbers)]


def worst_first(columns: Sequence[ColumnNumbers]) -> list[ColumnNumbers]:
    """The columns, those of most concern first: by what the verdicts go by, then by the share that is missing."""

    def concern(column: ColumnNumbers) -> float:
        stuck = column.mixing is not None and _mixes(column.mixing) == "bad"
        lost = (
            max(-column.hidden.skill, 0.0) if column.hidden is not None and column.hidden.cells >= WORSE_CELLS else 0.0
        )
        reach = (column.outside or 0.0) + (column.extrapolated or 0.0)
        return 4.0 * (column.suspicion is not None) + 2.0 * stuck + lost + reach + column.share

    return sorted(columns, key=concern, reverse=True)


def _named(names: Sequence[str]) -> str:
    shown = ", ".join(f"'{name}'" for name in names[:NAMED])
    return f"{shown} and {len(names) - NAMED} more" if len(names) > NAMED else shown


def _training(numbers: Numbers) -> Iterable[Verdict]:
    """Whether the fit had levelled off, and whether its imputations followed their rows."""
    strain = numbers.training.strain if numbers.training else None
    if strain is not None and strain > STRAIN:
        text = (
            f"The imputations that the fit learnt from did not follow their rows at its end (strain {strain:.3g}, 1 is "
            "right): take more method.steps, or a larger method.auxiliary_std and method.perturb_std."
        )
        yield Verdict("training", "look", text)
    yield from _level(numbers)


def _level(numbers: Numbers) -> Iterable[Verdict]:
    training = numbers.training
    if training is None:
        return [Verdict("training", "unknown", "Nothing was trained: no column is modelled.")]
    if not training.finished:
        return [
            Verdict(
                "training",
                "bad",
                f"The fit has not come to its end: this is its model after {_epochs(training.epochs)}.",
            )
        ]
    if training.judged_by == "tuned":
        text = "The model is that of an earlier run, unchanged; "
        if not training.epochs:
            return [Verdict("training", "good", f"{text}it knows the law of every hole, so that nothing was adapted.")]
        if training.stopped_by == "time_limit":
            cut = f"a time limit ended the work on its conditionals after {_epochs(training.epochs)}."
            return [Verdict("training", "look", text + cut)]
        return [Verdict("training", "good", f"{text}its conditionals were adapted for {_epochs(training.epochs)}.")]
    if training.stopped_by == "converged":
        return [Verdict("training", "good", f"The fit has converged, after {_epochs(training.epochs)}.")]
    if training.rise is None:
        level: Level = "bad" if training.steps < FEW_STEPS else "look"
        text = f"{_epochs(training.epochs)} ({training.steps} steps): too few to see the fit level off."
        return [Verdict("training", level, text)]
    rising = training.rise > RISING * max(len(numbers.columns), 1)
    gained = f"{max(training.rise, 0.0):.2g} nats a row"
    if training.judged_by == "held-out":
        if rising and training.stopped_by != "early_stopping":
            text = f"Held-out rows still gained when the fit ended ({gained}): more epochs may fit better."
            return [Verdict("training", "look", text)]
        return [Verdict("training", "good", f"Held-out rows gained no more; the fit did {_epochs(training.epochs)}.")]
    gained = f"{'its last third gained' if training.judged_by == 'curve' else 'going on would gain'} {gained}"
    if rising and training.judged_by == "curve" and training.steps >= FEW_STEPS:
        text = f"The curve of the rows of the fit was still rising when it ended: {gained}. Whether more epochs"
        return [Verdict("training", "look", f"{text} (--epochs) would fit other rows better, --val 0.1 tells.")]
    if rising:
        text = f"The curve was still rising when the fit ended: {gained}. More epochs (--epochs) would fit better."
        return [Verdict("training", "bad", text)]
    return [Verdict("training", "good", f"The curve has levelled off: {gained}.")]


def _epochs(count: int) -> str:
    return f"{count:,} epoch{'s' * (count != 1)}"


def _contest(numbers: Numbers) -> Iterable[Verdict]:
    """What the model that won a comparison makes of cells that were hidden from it."""
    league = numbers.contest or {}
    calibrated = league.get("calibrated", NOMINAL)  # absent in runs of older versions: the share is scaled to NOMINAL
    taken = [one for one in league.get("candidates", ()) if one["chosen"]]
    for one in taken:
        gained, covered = 1 - one["cells"], one["coverage"]
        narrow = covered is not None and calibrated - covered > COVERED_NARROW
        if gained < LITTLE:
            text = (
                "The model that was taken predicts hidden cells no better than their columns alone (score "
                f"{one['cells']:.2f}, 1 is theirs): the columns are hardly related, or none of these models knows how."
            )
            yield Verdict("contest", "look", text)
        if narrow:
            text = (
                f"Draws of the model that was taken are too narrow for cells that it never saw: {covered:.0%} lie in "
                f"their range, {calibrated:.0%} should. Refits widen them; `vgi fit --holdout-cells 5%` tells how far."
            )
            yield Verdict("contest", "look", text)
        if gained >= LITTLE and not narrow:
            text = f"The model that was taken predicts hidden cells {gained:.0%} better than their columns alone."
            yield Verdict("contest", "good", text)


def _missing(numbers: Numbers) -> Iterable[Verdict]:
    table = numbers.missingness
    found = []
    if table.missing == 0:
        return [Verdict("missingness", "good", "No modelled cell is missing: there is nothing to impute.")]
    if table.never_together_in_all:
        first, second = table.never_together[0]
        more = f", and {table.never_together_in_all - 1} more pairs" if table.never_together_in_all > 1 else ""
        found.append(
            Verdict(
                "missingness",
                "look",
                f"No row has both '{first}' and '{second}'{more}: how they go together is assumed by the model, "
                "not learnt from data.",
            )
        )
    heavy = [column.name for column in numbers.columns if column.share > MUCH_MISSING]
    if heavy:
        found.append(
            Verdict(
                "missingness", "look", f"More than {MUCH_MISSING:.0%} of {_named(heavy)} is missing: a lot to guess."
            )
        )
    if table.empty_rows:
        rows = f"{table.empty_rows} row{'s' * (table.empty_rows != 1)}"
        have = "has" if table.empty_rows == 1 else "have"
        what = f"{rows} {have} no cell of a modelled column: filled from the model alone."
        found.append(Verdict("missingness", "look", what))
    share = table.missing / max(table.cells, 1)
    return found or [Verdict("missingness", "good", f"{share:.1%} of the cells are missing, in no alarming pattern.")]


def _kinds(numbers: Numbers) -> Iterable[Verdict]:
    doubted = [column for column in numbers.columns if column.suspicion is not None]
    found = [
        Verdict("columns", "bad", f"Column '{column.name}' ({column.kind}) may be of a wrong kind: {column.suspicion}.")
        for column in doubted[:NAMED]
    ]
    if rest := [column.name for column in doubted[NAMED:]]:
        which = f"Columns {_named(rest)}" if len(rest) > 1 else f"Column {_named(rest)}"
        found.append(Verdict("columns", "bad", f"{which} may be of a wrong kind too: --json says why of each."))
    return found or [Verdict("columns", "good", "No column looks as if its kind were wrong.")]


def _pairs(numbers: Numbers) -> Iterable[Verdict]:
    """Whether pairs of columns have the rank correlations of observed rows in filled ones; of rules nothing is said."""
    known = [pair for pair in numbers.pairs if min(pair.observed, pair.imputed) >= FEWEST_POINTS]
    apart = [pair for pair in known if _goes_otherwise(pair)]
    for pair in apart:
        first, second = pair.names
        text = (
            f"'{first}' and '{second}' go together otherwise in rows with fills (rank correlation "
            f"{pair.imputed_correlation:.2f}) than in observed rows ({pair.observed_correlation:.2f}): either these "
            "rows differ, or the model has not learnt it."
        )
        yield Verdict("pairs", "look", text)
    if known and not apart:
        count = f"{len(known)} pair{'s' * (len(known) > 1)}"
        furthest = max(known, key=_difference)
        first, second = furthest.names
        text = (
            f"Rank correlations (of {count} of columns of numbers, those drawn here) are at most "
            f"{_difference(furthest):.2f} apart in rows with fills and in observed rows ('{first}' and '{second}': "
            f"{furthest.imputed_correlation or 0.0:.2f} and {furthest.observed_correlation or 0.0:.2f}). Up to "
            f"{APART_RANKS}, beside the error of so many rows, may come of which rows have holes. Whether fills keep "
            "to rules between columns is not measured here."
        )
        yield Verdict("pairs", "good", text)
    elif numbers.pairs and not known:
        yield Verdict(
            "pairs",
            "unknown",
            f"Whether columns are correlated alike in rows with fills is not known: fewer than {FEWEST_POINTS} rows.",
        )


def _difference(pair: Together) -> float:
    """Of two rank correlations; 0 where one is not known."""
    if pair.observed_correlation is None or pair.imputed_correlation is None:
        return 0.0
    return abs(pair.observed_correlation - pair.imputed_correlation)


def _goes_otherwise(pair: Together) -> bool:
    """Whether two rank correlations differ beyond APART_RANKS and their standard errors (1.03 / sqrt(n - 3) each, of
    their Fisher transforms: Fieller, Hartley and Pearson 1957; here in units of the correlation, where they are largest
    at 0)."""
    error = 1.03 * math.sqrt(1 / (pair.observed - 3) + 1 / (pair.imputed - 3))
    return _difference(pair) > APART_RANKS + ERRORS * error


def _fills(numbers: Numbers) -> Iterable[Verdict]:
    if numbers.imputing is None:
        return
    out = [column for column in numbers.columns if column.outside is not None]
    far = [
        column.name
        for column in out
        if _outside(column, OUTSIDE_BAD) or ((column.furthest or 0.0) > FAR_BAD and _outside(column, FAR_SHARE))
    ]
    some = [column.name for column in out if column.name not in far and _outside(column, OUTSIDE_LOOK)]
    if far:
        yield Verdict("fills", "bad", f"Fills of {_named(far)} lie far outside, or mostly outside, what was observed.")
    if some:
        yield Verdict(
            "fills",
            "look",
            f"More than {OUTSIDE_LOOK:.0%} of the fills of {_named(some)} lie outside the observed range.",
        )
    single = [c for c in out if c.name not in (*far, *some) and (c.furthest or 0.0) > FAR_BAD]
    if single:
        most = max(single, key=lambda column: column.furthest or 0.0)
        yield Verdict(
            "fills",
            "look",
            f"Single fills of {_named([c.name for c in single])} lie far outside the observed range, up to "
            f"{most.furthest:.1f} standard deviations beyond it ('{most.name}').",
        )
    beyond = [c for c in numbers.columns if (c.extrapolated or 0) > EXTRAPOLATED]
    if beyond:
        worst = max(beyond, key=lambda column: column.extrapolated or 0)
        yield Verdict(
            "fills",
            "look",
            f"The model extrapolates in {_named([c.name for c in beyond])}: {worst.extrapolated:.0%} of the holes of "
            f"'{worst.name}' are in rows whose '{worst.extrapolated_by}' lies beyond all rows in which it is observed.",
        )
    if (unasked := numbers.not_asked) is not None:
        text = (
            f"{unasked.holes:,} hole{'s lie' if unasked.holes != 1 else ' lies'} in rows that may not have been asked "
            f"for {_named(unasked.names)}: by an observed cell of the row, no such row of the fit has an answer there. "
            f"If the question does not apply, fills there mean nothing (vgi impute {unasked.flags} leaves them blank)."
        )
        yield Verdict("fills", "look", text)
    if (none := numbers.undefined) is not None:
        text = (
            f"{none.holes:,} hole{'s' * (none.holes != 1)} of {_named(none.names)} lie{'s' * (none.holes == 1)} in "
            "rows whose observed cells leave the column no value (a ratio to 0, a logarithm of 0): fills there mean "
            f"nothing (vgi impute {none.flags} leaves them blank)."
        )
        yield Verdict("fills", "look", text)
    if not far and not some and not single and not beyond:
        yield Verdict("fills", "good", "Hardly more fills lie outside the observed ranges than chance puts there.")


def _outside(column: ColumnNumbers, share: float) -> bool:
    """Whether more than a share of a column's fills lie outside its observed range, beside what chance does: one more
    value like n observed ones is outside with probability 2 / (n + 1), and few holes tell little."""
    expected = 2 / (column.observed + 1)
    error = ERRORS * math.sqrt(share * (1 - share) / max(column.missing, 1))
    return (column.outside or 0.0) > share + expected + error


def _chains(numbers: Numbers) -> Iterable[Verdict]:
    chains = numbers.chains
    if chains is None:
        return
    if chains.kind == "exact":
        yield Verdict("chains", "good", chains.text)
        return
    if chains.kind == "stored":
        yield Verdict("chains", "unknown", "The fills are stored imputations: how their chains mixed is not kept.")
        return
    mixing = {column.name: column.mixing for column in numbers.columns if column.mixing is not None}
    bad = [name for name, own in mixing.items() if _mixes(own) == "bad"]
    look = [name for name, own in mixing.items() if _mixes(own) == "look"]
    memory, apart = chains.memory or 0.0, chains.apart or 0.0
    if bad or memory > REMEMBERED_BAD or apart > APART_BAD:
        names = f" of {_named(bad)}" if bad else ""
        yield Verdict(
            "chains",
            "bad",
            f"The chains{names} are stuck or disagree: their fills are not draws from the model. A longer fit helps, "
            "unless the model has learnt its rows by heart.",
        )
    elif look or memory > REMEMBERED_LOOK or apart > APART_LOOK:
        names = f" of {_named(look)}" if look else ""
        yield Verdict("chains", "look", f"The chains{names} mix slowly: fills may depend on where their chains began.")
    elif mixing or chains.acceptance is not None or chains.memory is not None:
        if chains.kind == "told":
            text = "By half-time and end alone, nothing is wrong with the chains; whether they agree is not recorded."
        else:
            text = "The chains agree with each other and move."
        yield Verdict("chains", "good", text)
    else:
        yield Verdict("chains", "unknown", "Too few chains to tell whether they mix.")


def _mixes(own: Mixing) -> Level:
    """What the traces of one column say. R-hat of few effective draws is noise unless it is large."""
    rhat = max([value for value in (own.rhat_mean, own.rhat_spread) if value is not None], default=math.nan)
    accepted = 1.0 if own.acceptance is None else own.acceptance
    if own.stuck or rhat > RHAT_BAD or accepted < ACCEPTED_BAD:
        return "bad"
    if rhat > RHAT_LOOK or accepted < ACCEPTED_LOOK:
        return "look"
    return "good"


def _covers(coverage: float, cells: int) -> Level:
    """Whether a share of so many cells in their 90 % intervals is what it should be, beside its sampling error."""
    error = ERRORS * math.sqrt(NOMINAL * (1 - NOMINAL) / max(cells, 1))
    if NOMINAL - coverage > COVERED_BAD + error:
        return "bad"
    return "look" if abs(coverage - NOMINAL) > COVERED_LOOK + error else "good"


def _calibration(numbers: Numbers) -> Iterable[Verdict]:
    """Of cells that the fit has seen, and of cells that were hidden from a fit."""
    if numbers.calibration is not None:
        columns = {column.name: column.hidden for column in numbers.columns}
        yield from _cells(numbers.calibration, columns, "Hidden cells (which the fit has seen)")
    if numbers.holdout is not None:
        yield from _cells(numbers.holdout, {c.name: c.unseen for c in numbers.columns}, "Cells that a fit never saw")
    elif numbers.calibration is not None:
        text = "How well a fit predicts cells that it never saw is not known: vgi fit --holdout-cells 5% hides some."
        if numbers.contest:
            text = (
                "How well imputations, from refits and with their uncertainty, fill cells that no fit saw is not "
                "known, nor how well in each column: the comparison scored the models alone, over all columns. "
                "vgi fit --holdout-cells 5% hides some."
            )
        yield Verdict("calibration", "unknown", text)


def _cells(found: Calibration, columns: Mapping[str, Hidden | None], what: str) -> Iterable[Verdict]:
    """How well cells of some sort are predicted, by column and over all."""
    if found.skill is None and found.coverage is None:
        yield Verdict("calibration", "unknown", f"{what} are too few to judge the fit by: {found.cells:,}.")
        return
    told = {name: own for name, own in columns.items() if own is not None}
    scored = sum(own.cells for own in told.values())
    if told and scored < WORSE_CELLS:
        yield Verdict("calibration", "unknown", f"{what} are too few to judge the fit by: {scored:,} could be scored.")
        return
    worse = [name for name, own in told.items() if own.cells >= WORSE_CELLS and own.skill < WORSE]
    count = sum(own.cells for own in told.values() if own.coverage is not None)
    covered: Level = "good" if found.coverage is None else _covers(found.coverage, count)
    narrow = [
        name
        for name, own in told.items()
        if own.coverage is not None
        and own.coverage < NOMINAL
        and own.cells >= WORSE_CELLS
        and _covers(own.coverage, own.cells) != "good"
    ]
    if worse:
        text = f"{what} of {_named(worse)} are predicted worse than by draws from the column itself: the fit is off."
        yield Verdict("calibration", "bad", text)
    if covered != "good" and found.coverage is not None:
        side = "narrow" if found.coverage < NOMINAL else "wide"
        text = f"{what}: 90 % intervals hold {found.coverage:.0%} of {count:,} numbers; they are too {side}."
        yield Verdict("calibration", covered, text)
    if narrow and covered == "good":
        text = f"{what} of {_named(narrow)} lie in their 90 % intervals less often than chance explains: too narrow."
        yield Verdict("calibration", "look", text)
    if found.skill is not None and found.skill < LITTLE and not worse:
        text = (
            f"{what}: the rest of a row says nothing about them. The columns are unrelated, or the fit has not learnt "
            "how they are related."
        )
        yield Verdict("calibration", "look", text)
    elif not worse and not narrow and covered == "good":
        skill = "" if found.skill is None else f", {found.skill:.0%} better than by the column alone"
        holds = "" if found.coverage is None else f"; 90 % intervals hold {found.coverage:.0%}"
        if found.coverage is not None and abs(found.coverage - NOMINAL) > COVERED_LOOK:
            holds += f" of {count:,} numbers, too few to object"
        yield Verdict("calibration", "good", f"{what} are predicted as they should be{skill}{holds}.")


def _rows(numbers: Numbers) -> Iterable[Verdict]:
    if numbers.likelihood is None:
        return
    odd = [row for row in numbers.likelihood.lowest if row.below > row.limit]
    if odd:
        rows = ", ".join(str(row.row) for row in odd[:NAMED])
        if len(odd) > NAMED:  # of the rows beyond those that are listed nothing is known here
            least = "at least " if len(odd) == len(numbers.likelihood.lowest) else ""
            rows += f" and {least}{len(odd) - NAMED} more"
        yield Verdict(
            "rows", "look", f"Unlike all other rows: row{'s' * (len(odd) > 1)} {rows}. Slips, or another world?"
        )
    else:
        yield Verdict("rows", "good", "No row is out of all proportion to the others.")


def _information(numbers: Numbers) -> Iterable[Verdict]:
    known: list[ColumnNumbers] = [column for column in numbers.columns if column.pooled is not None]
    if not known:
        return
    lost = [column.name for column in known if column.pooled is not None and column.pooled.fmi > LARGE_FMI]
    if lost:
        yield Verdict(
            "information",
            "look",
            f"More than half of what is known of the mean of {_named(lost)} is lost to missing cells, and no number of "
            "draws brings it back; with 50 (vgi impute --m 50) its standard error is at least steady.",
        )
    else:
        yield Verdict("information", "good", "No mean loses more than half of its information to missing cells.")


def _tipping(numbers: Numbers) -> Iterable[Verdict]:
    """Of each column that was asked for from which shift of its fills on its mean is another."""
    for tip in numbers.tipping:
        missing = f"{tip.share:.0%}" if tip.share >= 0.1 else f"{tip.share:.1%}"
        where = f"'{tip.column}' ({missing} missing)"
        if tip.share == 0:
            yield Verdict("tipping", "good", f"No cell of '{tip.column}' is missing: its mean rests on no fill.")
            continue
        if tip.asked:
            side = ("lies below", "holds", "lies above")[stands(tip.shifts[len(tip.shifts) // 2], tip.against) + 1]
            says = f"The 95 % interval of the mean of {where} {side} {tip.text}"
            changes = "this changes"
        else:
            says = f"The 95 % interval of the mean of {where} holds the mean without a shift, {tip.text},"
            changes = "this ends"
        near = [at for at in (tip.below, tip.above) if at is not None]
        if not near:
            widest = tip.shifts[-1].sd
            yield Verdict("tipping", "good", f"{says} at every shift of its fills up to {widest:g} sd.")
            continue
        sd = tip.shifts[-1].shift / tip.shifts[-1].sd
        unit = f" {tip.unit}" if tip.unit else ""
        at = " and ".join(f"{value:+.2g} sd ({value * sd:+.3g}{unit})" for value in near)
        level: Level = "look" if min(map(abs, near)) <= NEAR else "good"
        weak = "; so small a shift can seldom be ruled out" if level == "look" else ""
        yield Verdict("tipping", level, f"{says} without a shift of its fills; {changes} at {at}{weak}.")
