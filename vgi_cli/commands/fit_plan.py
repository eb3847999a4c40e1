"""What a fit would do, for `vgi fit --dry-run`: its model, its rows, device, time and memory, and where it would go."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from vgi_cli.commands.dry_run import about
from vgi_cli.commands.requests import FitRequest
from vgi_cli.data import spread_rows
from vgi_cli.fitting.choosing import choose_model, comparison_expected, layout_of
from vgi_cli.fitting.contest import scoring
from vgi_cli.fitting.contest.standings import COMPARED
from vgi_cli.fitting.fit_rows import training_and_held, warn_of_pairs
from vgi_cli.fitting.refits import check_kinds, refit_count
from vgi_cli.fitting.rows import Rows
from vgi_cli.fitting.trial import can_be_tried, tried, when_compared
from vgi_cli.machine.device import one_thread, resolve_device
from vgi_cli.machine.memory import free_ram, in_words
from vgi_cli.machine.workers import workers_for
from vgi_cli.reporting import TRYING, Reporter, Silent
from vgi_cli.runs.folder import next_free
from vgi_cli.settings import components
from vgi_cli.settings.recipe import Recipe


def fit_plan(
    rows: Rows, held: Rows | None, recipe: Recipe, request: FitRequest, reporter: Reporter
) -> list[tuple[str, str]]:
    """Headings with what they say. Raises what a fit of these rows raises before it trains.

    held  the rows of a table that would select the epoch
    """
    where = ("run", f"{next_free(Path()) if request.folder is None else request.folder}")
    if rows.table.D == 0:
        return [("model", "none: no column varies"), where]
    chosen = choose_model(recipe, rows.table, request.settings, reporter)
    check_kinds(chosen, rows.table.layout, named=recipe.model.name != "auto")
    if chosen.table.blocks not in (None, "auto"):
        layout_of(chosen, rows.table.layout)  # refuses columns that are not modelled
    train, held = training_and_held(chosen, rows, held)
    device = resolve_device(chosen.device, "device")
    gpu = device.type == "cpu" or chosen.method.entry.traits.gpu
    refits = refit_count(chosen)
    compared = recipe.model.name == "auto" and comparison_expected(chosen, rows.table)
    found = (
        "chosen by comparing several on hidden cells" if compared else f"{chosen.model.name} by {chosen.method.named}"
    )
    table = train.table
    warn_of_pairs(table, reporter)
    share = float(table.layout.of_columns(table.missing[table.used]).double().mean())
    beside = _others(train, chosen, request, reporter) if compared and recipe.compare else NOBODY
    lines = [
        ("model", found),
        ("rows", f"{len(table.used):,} of {rows.table.N:,}, {share:.1%} of their modelled cells missing"),
        *([("held out", f"{held.table.N:,} rows, which select the epoch")] if held is not None else []),
        *([("compared too", beside.words)] if beside.words else []),
        ("refits", f"at most {refits}, for the uncertainty of the fit" if refits else "none"),
        ("device", _device(str(device) if gpu else "cpu", chosen.threads)),
        *_costs(train, chosen, compared, beside, reporter),
    ]
    if chosen.time_limit is not None:
        lines.append(("time limit", str(chosen.time_limit)))
    return [*lines, where]


def _device(name: str, threads: int | None) -> str:
    """Where the numbers are computed, and by how many; `threads`: what was said."""
    several = workers_for(threads, Silent().warn).count
    shared = f"; {several} processes share models, refits and trees" if several > 1 else ""
    return f"{name}, {threads or 1} thread{'s' * ((threads or 1) > 1)}{shared}"


class _Others(NamedTuple):
    """Models that are compared beside: words for each with the time of its fits to parts of the rows; the seconds of
    all of these, and of the longest fit of one of them to all rows, should it win; those whose time is not known."""

    words: str
    seconds: float = 0.0
    longest: float = 0.0
    unknown: tuple[str, ...] = ()


NOBODY = _Others("")


def _others(train: Rows, chosen: Recipe, request: FitRequest, reporter: Reporter) -> _Others:
    """The models that are compared beside, by trials."""
    rows = train.at(spread_rows(train.table.N, COMPARED * (scoring.FOLDS - 1) // scoring.FOLDS))
    words, unknown = [], []
    seconds = longest = 0.0
    with reporter.stage(TRYING), one_thread():
        for name in request.said("compare"):
            own = components.for_compared(chosen, name, request.settings)
            part, whole = tried(rows, own.replace(bootstrap="none")).seconds, tried(train, own).seconds
            time = "time not known" if part is None else f"at most {about(scoring.FOLDS * part)}"
            words.append(f"{name} ({time} for {scoring.FOLDS} fits)")
            if part is None or whole is None:
                unknown.append(name)
                continue
            seconds += scoring.FOLDS * part
            longest = max(longest, whole)
    return _Others(", ".join(words), seconds, longest, tuple(unknown))


def _costs(train: Rows, recipe: Recipe, compared: bool, beside: _Others, reporter: Reporter) -> list[tuple[str, str]]:
    """Time and memory, by a second's trial; `beside`: what is compared too."""
    if not can_be_tried(recipe):
        return [("time", "not known: the method comes from a plugin")]
    with reporter.stage(TRYING), one_thread():
        found = tried(train, recipe)
    if found.seconds is None or found.memory is None:
        return [("time", f"not known: {found.why_not}")]
    most = "at most " if found.epochs is not None else "about "
    more = [f"on one thread of this CPU, by a trial{', the comparison of models included' * compared}"]
    seconds = when_compared(found.seconds) if compared else found.seconds
    if beside.words:
        most, seconds = "up to ", seconds + beside.seconds + beside.longest
        more.append("with what is compared too, and the fit to all rows should that win")
        more += [f"without {name}, of which no time is known" for name in beside.unknown]
    if recipe.holdout_cells is not None:
        more.append("as long again for the cells held out")
    return [
        ("time", f"{most}{about(seconds)} ({'; '.join(more)})"),
        ("memory", f"about {in_words(found.memory)} beside the program; {in_words(free_ram())} are free"),
    ]
