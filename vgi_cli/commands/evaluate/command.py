"""`vgi evaluate`: log-likelihood of the observed cells, error of the imputations, distance from a known truth,
quality of the conditionals, the fine-tuned objective."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from vgi_cli.columns.numerals import Floats
from vgi_cli.columns.wording import named
from vgi_cli.commands.evaluate.conditionals import comparable_conditionals, diagnose
from vgi_cli.commands.evaluate.likelihood import (
    DEQUANTISATION_DRAWS,
    EarlyEnd,
    Scored,
    Wanted,
    check_budget,
    how_many,
    log_likelihood,
    rows_in_turn,
)
from vgi_cli.commands.evaluate.score import RowScores, refuse_clash, row_scores
from vgi_cli.commands.evaluate.truth_model import Truth, load_truth
from vgi_cli.commands.evaluate.truth_table import require_same_rows
from vgi_cli.commands.finetune import inside_of, require_conditionals
from vgi_cli.commands.memory import require_files, require_memory
from vgi_cli.commands.requests import EvaluateRequest, ImputeRequest, check_rows
from vgi_cli.commands.run_table import compute_on, keyed_by_content, seed_of, shared_work, table_settings
from vgi_cli.commands.samplers import checked_sampler, parameter_uncertainty
from vgi_cli.commands.sampling import Imputed, Sampling, Watch
from vgi_cli.encoding.check import check
from vgi_cli.encoding.encoder import RowKeys, cell_scales
from vgi_cli.errors import InputError, Interrupted, Unwritten, UsageError, VgiError
from vgi_cli.evaluation import fail_if
from vgi_cli.evaluation.imputation import (
    COVERAGE_DRAWS,
    ImputationScores,
    draws_alone,
    score_imputations,
    worse_than_alone,
)
from vgi_cli.evaluation.report import (
    entering,
    imputation_part,
    loglik_part,
    make_report,
    markdown,
    not_finite,
    not_known,
    remarks,
    units_of,
)
from vgi_cli.evaluation.truth.distance import compare
from vgi_cli.fitting.choosing import adapting_config
from vgi_cli.fitting.fitted import FittedTable, load, target_of
from vgi_cli.fitting.plan import stream
from vgi_cli.fitting.rows import match, read
from vgi_cli.fitting.tables import row_weights
from vgi_cli.machine.work import OutOfTime, Work, limit_of, watch_signals
from vgi_cli.methods.base import EpochEnd
from vgi_cli.methods.vgi import finetune as algorithm
from vgi_cli.registry import names as registry
from vgi_cli.reporting import COMPARING, ENCODER, ENCODING, LIKELIHOOD, OBJECTIVE, READING, SCORING, Reporter
from vgi_cli.runs.files import json_bytes, unwritten, write_atomic
from vgi_cli.table.base import Table

TIME_SHARE = 0.5
"""Of the time that is left under a time limit, for the likelihood where more parts follow."""
PIECE = 256
"""Rows that are imputed together where there may not be time for all."""
IMPUTED_ROWS = 5000
"""Rows in which imputations are scored where they are drawn by chains and nobody says how many."""
ALONE_CELLS = 1 << 20
"""Rows times columns up to which draws from the columns alone are scored in every row."""


class Report(NamedTuple):
    """The report as numbers, its title, and the scores of the rows. To be raised when all is said: `interrupted`, the
    signal that ended the command early, and `unwritten`, of a file that could not be written. `lost`: the numbers that
    the report leaves out, as they are not finite."""

    values: dict[str, Any]
    title: str
    rows: RowScores
    interrupted: Interrupted | None = None
    unwritten: Unwritten | None = None
    lost: Mapping[str, float] = {}

    def json_text(self) -> str:
        """One JSON object."""
        return json_bytes(self.values).decode()

    def text(self) -> str:
        """Markdown."""
        return markdown(self.values, self.title)


def evaluate(request: EvaluateRequest, reporter: Reporter) -> Report:
    """Evaluate a run on a table and, unless `request.write` is off, write report.json and report.md: to `request.out`,
    else to a new folder of the run, evaluations/<table>, <table>-2, … (with `request.force` to the first of them).

    What the time limit or a signal leaves no time for is left out of the report, and a note says so. Raises UsageError,
    InputError or RunError before anything is written, TimeUp or Interrupted where nothing was scored by then, and
    VgiError where there is nothing to report on: no row has an observed cell.
    """
    limit = limit_of(request.settings, request.started)
    with watch_signals() as stop:
        check_rows(request.rows, 1000)
        fitted = load(request.open(verify=True), reporter)
        if request.truth_model is None:  # a plugin may be that of the truth
            fitted.say_unused_plugins(reporter)
        if request.objective:
            require_conditionals(fitted)
        check_budget(fitted, request)
        if request.conditionals:
            comparable_conditionals(fitted)
        fail_if.foresee(request.conditions, _absent(request))
        known = None if request.truth_model is None else load_truth(Path(request.truth_model), fitted, reporter)
        reporter.plan([READING, *_stages(fitted, request)])
        with reporter.stage(READING):
            table, truth = _tables(fitted, request, reporter)
        if request.per_row is not None:
            refuse_clash(table, fitted)
        unseen = table_settings(request, fitted.recipe.table).unseen
        match(table, fitted.schema, reporter, fate="left out of the likelihood", unseen=unseen)
        request.refuse_outputs()
        end = EarlyEnd(limit, stop)
        with end.after_a_row():
            report = make(fitted, table, truth, known, request, reporter, end)
        fail_if.require(request.conditions, {**fail_if.numbers(report.values), **report.lost})
        return _written(report, table, request, reporter)


def _written(report: Report, table: Table, request: EvaluateRequest, reporter: Reporter) -> Report:
    """Write the files of a report, each whatever becomes of the others: what the disk does not take, the report says
    once it is shown."""
    if request.write:
        report = _in_folder(report, table, request, reporter)
    if request.per_row is not None:
        report = _write(report, Path(request.per_row), report.rows.file(Path(request.per_row)))
    return report


def _in_folder(report: Report, table: Table, request: EvaluateRequest, reporter: Reporter) -> Report:
    """Write report.json and report.md."""
    folder = request.folder
    try:
        if folder is None:
            folder = request.beside("evaluations") / table.origin.stem
            folder = folder if request.force else _claim(folder)
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        return _without(report, Path(error.filename or folder or "evaluations"), error)
    there = any(folder.iterdir())
    for name, text in (("report.json", report.json_text()), ("report.md", report.text())):
        report = _write(report, folder / name, text.encode())
    if report.unwritten is None:
        reporter.say(f"report.json and report.md are in {folder}")
    elif not there:
        with contextlib.suppress(OSError):  # one of the two is in it
            folder.rmdir()
    return report


def _write(report: Report, path: Path, data: bytes) -> Report:
    """Write a file of a report."""
    try:
        write_atomic(path, data)
    except OSError as error:
        return _without(report, path, error)
    return report


def _without(report: Report, path: Path, error: OSError) -> Report:
    """The report, one of whose files could not be written; the first of them is named."""
    if report.unwritten is not None:
        return report
    return report._replace(unwritten=unwritten(path, error, report.values, "the report itself is whole"))


def make(
    fitted: FittedTable,
    table: Table,
    truth: Table | None,
    known: Truth | None,
    request: EvaluateRequest,
    reporter: Reporter,
    end: EarlyEnd,
) -> Report:
    """The report of a table; nothing is written. `truth`: the complete table, `known`: the law behind it."""
    device = compute_on(fitted, request)
    seed = seed_of(fitted, request)
    if truth is not None:
        _require_draws(fitted, table, request)
    limit, more = end.limit, truth is not None or request.conditionals or request.objective
    until = limit.until(TIME_SHARE) if more else limit.end
    scored = log_likelihood(fitted, table, request, seed, device, reporter, end, until)
    own = _ReportParts(fitted, table, known, request, reporter, end, seed)
    part = own.likelihood(scored, required=not more and known is None)
    if own.rounded:
        own.notes.append("rounded columns enter through their dequantised density (seeded)")
    scores, sampler = (None, None) if truth is None else own.imputations(truth)
    parts: dict[str, Any] = {}
    if known is not None:
        parts["truth"] = own.distance(known)
    if request.conditionals:
        parts["conditionals"] = own.conditionals(device)
    if request.objective:
        parts["objective"] = own.in_time(
            "the objective", lambda: _objective(fitted, table, seed, device, reporter, end.over)
        )
    if scored.loglik.warning:
        reporter.warn(scored.loglik.warning)
    parts |= {"loglik": part, "imputation": scores, "sampler": sampler}
    values = make_report(table.N, notes=own.notes, **parts)
    if (league := fitted.run.contest()) is not None:
        values["contest"] = league
    if limit:
        values["time_limit"] = limit.record()
    stop = end.stop
    interrupted = None if stop.signal is None else stop.interrupted("stopped early, with what there was reported,")
    title = f"{table.label} under {Path(fitted.run.name).name}"
    return Report(
        values, title, row_scores(table, fitted, scored), interrupted, lost=not_finite(parts) | not_known(parts)
    )


@dataclass(frozen=True)
class _ReportParts:
    """The parts of the report of a table; `notes`: what the report says beside them, in the order in which they are
    made. The other fields are those of `make`."""

    fitted: FittedTable
    table: Table
    known: Truth | None
    request: EvaluateRequest
    reporter: Reporter
    end: EarlyEnd
    seed: int
    notes: list[str] = field(default_factory=list)

    @property
    def rounded(self) -> bool:
        """Whether cells are spread over the width to which they are rounded."""
        return any(column.noisy for column in self.fitted.schema.encoded)

    def in_time(self, name: str, work: Callable[[], Any]) -> Any:
        """What the work gives; None, with a note, where there is no time for it."""
        try:
            if self.end.over():
                raise OutOfTime
            return work()
        except OutOfTime:
            self.end.limit.cut.append(name)
            self.notes.append(f"left out: {name}, as {self.end.why()}")
            self.reporter.warn(self.notes[-1])
            return None

    def likelihood(self, scored: Scored, *, required: bool) -> dict[str, Any]:
        """The part on the log-likelihood; empty where no row that was scored has a cell. VgiError there, where it is
        `required`: where it would be all of the report."""
        fitted, table, by = self.fitted, self.table, self.fitted.recipe.table.weight
        spread = DEQUANTISATION_DRAWS if self.rounded else 0
        weight = None
        if by is not None and by in table.names:
            weight = torch.from_numpy(row_weights(table, by))[scored.rows]
        holes = fitted.layout.of_columns(scored.missing)
        scales = cell_scales(fitted.schema, table, scored.rows.numpy())
        part = loglik_part(scored.loglik, holes, scales, spread, weight)
        if part:
            part |= entering(fitted.schema)
            part |= {} if scored.refit_epochs is None else {"refit_epochs": scored.refit_epochs}
        rows = _say_rows(scored, table.N, self.seed, self.request.rows, self.end, self.reporter)
        sampled = bool(rows)
        self.notes.extend(rows)
        if by is not None and part:
            how = "alike: the table has no column" if weight is None else "in the means by column"
            self.notes.append(f"rows count {how} '{by}' (--weight of the fit)")
            part |= {} if weight is None else {"weight": by}
        if not fitted.empty and bool(scored.missing.all()):
            self.notes.append(f"no row {'that was scored ' * sampled}has an observed cell of a modelled column")
            if required:
                what = f"{table.label}: {self.notes[-1]}; nothing was written"
                raise VgiError(what, "check --na-values, --delimiter and --mask")
            self.reporter.warn(f"{table.label}: {self.notes[-1]}, so there is no log-likelihood")
        if sampled and part:
            part["sample"] = {"rows": len(scored.rows), "of": table.N, "seed": self.seed}
        return part

    def imputations(self, truth: Table) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
        """The scores of the imputations by the complete table, and of their sampler; None where there was no time."""
        sd = torch.tensor([column.deviation for column in self.fitted.schema.encoded])
        asked = _Asked(self.fitted, self.table, truth, sd, self.request, self.reporter)
        found = self.in_time("the score of the imputations", lambda: _score(asked, self.end))
        scores, sampler, lines = found or (None, None, [])
        self.notes.extend(lines)
        return scores, sampler

    def distance(self, known: Truth) -> dict[str, Any]:
        """How far the fitted law is from the one behind the data."""
        found, lines = compare(known.law, known.fitted, stream(self.seed, "truth"))
        self.notes.extend(lines)
        return {**found, "model": str(self.request.truth_model)}

    def conditionals(self, device: torch.device) -> Any:
        """How good the fitted conditionals are; None where there was no time."""
        fitted, table, known = self.fitted, self.table, self.known
        found = self.in_time(
            "the conditionals",
            lambda: diagnose(fitted, table, self.seed, device, self.reporter, self.end.over, known),
        )
        if known is not None and found and bool((known.fitted.steps > 0).any()):
            self.notes.append("conditionals.truth: rounded columns are compared as spread over their resolution")
        return found


def _stages(fitted: FittedTable, request: EvaluateRequest) -> list[str]:
    """What comes after the tables were read."""
    hidden = _scores_imputations(request)
    there = {
        ENCODING: True,
        ENCODER: fitted.latent and request.refit_epochs != 0,
        LIKELIHOOD: True,
        SCORING: hidden,
        COMPARING: request.conditionals,
        OBJECTIVE: request.objective,
    }
    return [name for name, comes in there.items() if comes]


def _scores_imputations(request: EvaluateRequest) -> bool:
    """Whether cells that are missing in the table are known: from a complete table, or because a mask hid them."""
    return request.truth_table is not None or request.truth is not None or request.said("mask") is not None


def _say_rows(scored: Scored, N: int, seed: int, wanted: Wanted, end: EarlyEnd, reporter: Reporter) -> list[str]:
    """Say which rows were scored, where these are not all: the note for the report."""
    n = len(scored.rows)
    if not scored.estimated and wanted is not None:
        reporter.say("the likelihood of these rows is exact: all of them are scored, whatever --rows says")
    if n == N:
        return []
    line = f"rows scored {n:,} of {N:,}, drawn at random (seed {seed})"
    if n < scored.asked:
        why = "by a signal" if end.stop.signal is not None else f"by {end.limit.words()}"
        line += f"; {scored.asked:,} were asked for, stopped early {why}"
    reporter.say(line if n < scored.asked else f"{line}; --rows all scores every row")
    return [line]


def _tables(fitted: FittedTable, request: EvaluateRequest, reporter: Reporter) -> tuple[Table, Table | None]:
    """The table to evaluate and, where imputations can be scored, the complete one."""
    table, truth = request.table, request.truth_table
    reading = table_settings(request, fitted.recipe.table)
    mask = request.said("mask")
    if table is None and mask is not None and request.truth is None and request.said("data") == ["-"]:
        raise UsageError(
            "--mask scores the hidden cells against DATA, which is read twice: it cannot be standard input",
            "write the table to a file, or name the complete one with --truth",
        )
    require_files(request.max_memory, table)
    if table is None:
        tables = 1 + (truth is None and (request.truth is not None or mask is not None))
        networks = fitted.recipe.method.name != "em"
        require_memory(request.max_memory, request.said("data"), mask, reading, tables, networks)
        table = read(request.said("data"), mask, reading, fitted.schema)
        if request.truth is not None:
            truth = read([request.truth], None, reading, fitted.schema)
        elif mask is not None:
            truth = read(request.said("data"), None, reading, fitted.schema)
    if truth is not None:
        check(truth, fitted.schema, unseen="carry")
        if (line := require_same_rows(table, truth, fitted.schema)) is not None:
            reporter.warn(line)
    return table, truth


def _claim(own: Path) -> Path:
    """A folder for a report of its own: `own`, or where a report is already `own-2`, `own-3`, … (atomic)."""
    own.parent.mkdir(parents=True, exist_ok=True)
    for folder in itertools.chain([own], (own.with_name(f"{own.name}-{number}") for number in itertools.count(2))):
        with contextlib.suppress(FileExistsError):
            folder.mkdir()
            return folder
    raise AssertionError("numbers do not end")


def _absent(request: EvaluateRequest) -> dict[str, str]:
    """Parts of the report that were not asked for, and the flags that add them."""
    hidden = _scores_imputations(request)
    asked = {
        "imputation": (hidden, "--truth or --mask"),
        "sampler": (hidden, "--truth or --mask"),
        "objective": (request.objective, "--objective"),
        "truth": (request.truth_model is not None, "--truth-model"),
        "conditionals": (request.conditionals, "--conditionals"),
        "conditionals.truth": (request.truth_model is not None, "--truth-model"),
    }
    return {part: flag for part, (there, flag) in asked.items() if not there}


class _Asked(NamedTuple):
    """Imputations to be scored: of which run and table, and with which truth; sd [D] of the columns."""

    fitted: FittedTable
    table: Table
    truth: Table
    sd: Tensor
    request: EvaluateRequest
    reporter: Reporter


def _scored_draws(request: EvaluateRequest) -> ImputeRequest:
    """The draws by which imputations are scored."""
    return ImputeRequest(checkpoint=request.checkpoint, settings=request.settings, m=COVERAGE_DRAWS)


def _require_draws(fitted: FittedTable, table: Table, request: EvaluateRequest) -> None:
    """UsageError or InputError where a run that only holds imputations of its own table has none to be scored."""
    draws = _scored_draws(request)
    if not registry.SAMPLERS[checked_sampler(fitted, draws)].traits.stored:
        return
    try:
        Sampling(fitted, draws, Work()).require(fitted.rows(table))
    except UsageError as error:
        what = f"imputations are scored by {COVERAGE_DRAWS} draws, and {error}"
        anew = f"fit again with --set method.imputations={COVERAGE_DRAWS}"
        raise UsageError(what, f"leave out --truth and --mask, or {anew}") from None
    except InputError as error:
        raise InputError(str(error), f"leave out --truth and --mask; {error.hint}") from None


def _score(asked: _Asked, end: EarlyEnd) -> tuple[dict[str, Any] | None, dict[str, Any], list[str]]:
    """Scores of 19 draws of the cells that are missing in `table` and known in `truth`; not of those that only count as
    missing, because the fit has not seen their level. Rows are drawn in random order:
    where the time is over first, those that were drawn by then are scored. OutOfTime where there are none."""
    fitted, table, truth, sd, request, reporter = asked
    columns = fitted.schema.encoded
    true = torch.from_numpy(np.stack([column.true_codes(truth.column(column.name)) for column in columns], 1))
    absent = [table.missing(column.name) & ~table.forgotten(column.name) for column in columns]
    hidden = torch.from_numpy(np.stack(absent, 1))
    if not bool((hidden & torch.isfinite(true)).any()):
        raise InputError(
            f"no cell that is missing in {table.label} is known in the truth", "--truth names the complete table"
        )
    draws_of = _scored_draws(request)
    done, drawn = _drawn(asked, draws_of, end)
    notes = remarks(done.diagnostics)
    line = f"imputations are scored in {len(drawn):,} of {table.N:,} rows, drawn at random"
    if len(drawn) < _wanted_rows(asked):
        notes.append(f"{line}, as {end.why()}")
        reporter.warn(notes[-1])
        end.limit.cut.append(SCORING)
    elif len(drawn) < table.N:
        notes.append(f"{line} (seed {seed_of(fitted, request)})")
        reporter.say(f"{notes[-1]}; --rows all scores every row")
    draws = torch.from_numpy(np.asarray(done.draws))
    scores = score_imputations(draws, true[drawn], hidden[drawn], columns, sd)
    alone, told, worse = _alone(asked, draws, true[drawn], hidden[drawn])
    notes += told
    if worse:
        what = "than draws from the observed cells of their own column, which use no other one"
        notes.append(f"the fills of {named('column', worse)} score worse {what}")
        reporter.warn(notes[-1])
    included = parameter_uncertainty(fitted, done.sampler, draws_of.uncertainty)
    sampler = {"name": done.sampler, "parameter_uncertainty": included, **done.diagnostics}
    part = None if scores is None else imputation_part(scores, alone)
    if part is not None and (units := units_of(columns)):
        part["units"] = units
    return part, sampler, notes


def _alone(
    asked: _Asked, fills: Tensor, true: Tensor, hidden: Tensor
) -> tuple[ImputationScores | None, list[str], list[str]]:
    """The scores of draws from what the table has of each column, for the same cells [R, columns] as the fills
    [n, R, columns], of many rows some, which a note says; None where it has nothing of any. Last the columns whose
    fills score worse."""
    columns, notes = asked.fitted.schema.encoded, []
    generator = stream(seed_of(asked.fitted, asked.request), "evaluate/alone")
    if hidden.numel() > ALONE_CELLS:
        some = torch.randperm(len(hidden), generator=generator)[: max(1, ALONE_CELLS // hidden.shape[1])]
        fills, true, hidden = fills[:, some], true[some], hidden[some]
        notes = [f"draws from the columns alone are scored in {len(some):,} of these rows, a random choice"]
    codes = [torch.tensor(column.codes(asked.table.column(column.name))) for column in columns]
    draws = draws_alone(codes, hidden, generator)
    worse = worse_than_alone(fills, draws, true, hidden, columns)
    return score_imputations(draws, true, hidden & ~draws[0].isnan(), columns, asked.sd), notes, worse


def _wanted_rows(asked: _Asked) -> int:
    """In how many rows imputations are scored: in all where draws are exact."""
    return how_many(asked.table.N, "all" if asked.fitted.marginal else asked.request.rows, IMPUTED_ROWS)


def _drawn(asked: _Asked, draws: ImputeRequest, end: EarlyEnd) -> tuple[Imputed, Tensor]:
    """Draws of rows of the table, and the numbers of these rows: of as many as are wanted, unless the time is over
    before."""
    fitted, table, _, _, request, reporter = asked
    sampling = Sampling(fitted, draws, shared_work(request, reporter)).of_table(table.sha256)
    rows = fitted.rows(table, RowKeys(fitted.schema, keyed_by_content(fitted, table)).of(table))
    wanted = _wanted_rows(asked)
    shuffled = bool(end.limit) or wanted < table.N
    order = rows_in_turn(table.N, wanted, shuffled, seed_of(fitted, request), "imputations")
    size = PIECE if end.limit else wanted
    count = int(rows.table.missing[order].any(1).sum())
    parts: list[Floats] = []
    done = 0
    with reporter.stage(SCORING, "rows") as stage:
        for some in order.split(size):
            watch = Watch(stage, done, count, end.over)
            try:
                parts.append(sampling.draw(rows.at(some), watch))
            except OutOfTime:
                break
            sampling.keep_off_codes(parts[-1], table, some.numpy())
            done = watch.done
    if not parts:
        raise OutOfTime
    drawn = order[: sum(part.shape[1] for part in parts)]
    return Imputed(np.concatenate(parts, 1), sampling.finish(), sampling.sampler), drawn


def _objective(
    fitted: FittedTable, table: Table, seed: int, device: torch.device, reporter: Reporter, over: Callable[[], bool]
) -> float:
    """The VGI objective after fine-tuning a copy of the conditionals on the table (Algorithm 6), encoded units.
    OutOfTime where `over` says so."""
    rows = fitted.rows(table)
    dtype = next(fitted.model.parameters()).dtype
    data = rows.table.to(dtype=dtype, device=device)
    q = require_conditionals(fitted).to(device)
    generator = stream(seed, "finetune")
    config, target = adapting_config(fitted.recipe, fitted.run.record.chosen), target_of(fitted.recipe)
    state = algorithm.init(fitted.model.to(device), q, data, config, generator, target=target)
    objective = float("nan")
    with reporter.stage(OBJECTIVE, "epochs") as stage:
        for event in algorithm.run(state, inside_of(fitted, data)):
            if over():
                raise OutOfTime
            if isinstance(event, EpochEnd):
                objective = event.metrics.get("objective", float("nan"))
            stage(*state.standing()[:3])
    return objective
