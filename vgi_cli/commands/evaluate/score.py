"""`vgi score`: log p(observed cells) of each row, as a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from vgi_cli.commands.evaluate.likelihood import EarlyEnd, Scored, check_budget, log_likelihood
from vgi_cli.commands.requests import ScoreRequest
from vgi_cli.commands.run_table import compute_on, seed_of, table_settings
from vgi_cli.errors import InputError, Interrupted
from vgi_cli.fitting.fitted import FittedTable, load
from vgi_cli.fitting.rows import match, read
from vgi_cli.machine.work import limit_of, watch_signals
from vgi_cli.reporting import ENCODER, ENCODING, LIKELIHOOD, READING, Reporter
from vgi_cli.table.base import Table
from vgi_cli.table.fills import absent
from vgi_cli.table.inputs import Origin, split_name
from vgi_cli.table.outputs import output_format, refuse_safe, write_whole
from vgi_cli.table.writer import columns_bytes, compressed

ADDED = ("row", "observed", "loglik", "estimator")
"""The columns that stand beside the ids of the rows."""


@dataclass(frozen=True)
class RowScores:
    """The scores of the rows of a table, of `origin`.

    columns      row, from 1; the ids; observed: how many modelled cells are; loglik: log p(observed cells), nats, data
                 units, None where no cell is observed or the row was not scored; estimator: `exact`, or how the value
                 was estimated (`annealed`, `iwae`), None where there is none
    interrupted  the signal that ended the command early, to be raised when all is said
    written      the file that holds them, where one was asked for
    safe         whether no cell of CSV can be taken for a formula
    """

    columns: dict[str, Sequence[Any]]
    origin: Origin
    interrupted: Interrupted | None = None
    written: Path | None = None
    safe: bool = False

    def file(self, path: Path) -> bytes:
        """The content of a file of that name."""
        suffix = split_name(path)[1].lower()
        delimiter = "\t" if suffix.startswith(".tsv") else ","
        content = columns_bytes(self.columns, output_format(path, self.origin), delimiter, self.safe)
        return b"".join(compressed([content], suffix))

    def text(self) -> str:
        """CSV; where a file was written, its path."""
        if self.written is not None:
            return f"{self.written}\n"
        return columns_bytes(self.columns, "csv", safe=self.safe).decode()


def refuse_clash(table: Table, fitted: FittedTable) -> None:
    """InputError where an id column of a table has the name of a column of the scores."""
    for name in fitted.schema.ids:
        if name in ADDED and name in table.names:
            raise InputError(
                f"{table.label}: the id column '{name}' has the name of a column of the scores",
                "leave it out of this table: the scores have the numbers of the rows; or fit with another name of it",
            )


def row_scores(table: Table, fitted: FittedTable, scored: Scored, interrupted: Interrupted | None = None) -> RowScores:
    """What was scored of the rows of a table, with a line for every row."""
    holes = absent(table, fitted.schema)
    counts = (~holes).sum(1).tolist()
    columns: dict[str, Sequence[Any]] = {"row": range(1, table.N + 1)}
    columns |= {name: table.text(name).tolist() for name in fitted.schema.ids if name in table.names}
    columns["observed"] = counts
    values = torch.full((table.N,), torch.nan, dtype=torch.float64)
    values[scored.rows] = scored.loglik.values
    known = [bool(count) and there for count, there in zip(counts, (~values.isnan()).tolist(), strict=True)]
    columns["loglik"] = [value if there else None for value, there in zip(values.tolist(), known, strict=True)]
    estimator = scored.loglik.estimator
    complete = np.full(table.N, estimator != "iwae") & ~holes.any(1)  # a flow's own density
    columns["estimator"] = [
        None if not there else "exact" if whole else estimator
        for there, whole in zip(known, complete.tolist(), strict=True)
    ]
    return RowScores(columns, table.origin, interrupted)


def score(request: ScoreRequest, reporter: Reporter) -> RowScores:
    """Score the rows of DATA, and write the scores to `request.out` where that names a file.

    Rows for which the time limit or a signal leaves no time have no score, and a warning says how many. Raises
    UsageError, InputError or RunError before anything is written, TimeUp or Interrupted where no row was scored.
    """
    limit = limit_of(request.settings, request.started)
    with watch_signals() as stop:
        fitted = load(request.open(verify=True), reporter)
        fitted.say_unused_plugins(reporter)
        check_budget(fitted, request)
        tuned = fitted.latent and request.refit_epochs != 0
        reporter.plan([READING, ENCODING, *[ENCODER] * tuned, LIKELIHOOD])
        with reporter.stage(READING):
            reading = table_settings(request, fitted.recipe.table)
            table = request.table
            if table is None:
                table = read(request.said("data"), request.said("mask"), reading, fitted.schema)
        refuse_clash(table, fitted)
        out = None if request.out == "-" else request.folder
        if request.safe_cells:
            refuse_safe("csv" if out is None else output_format(out, table.origin))
        match(table, fitted.schema, reporter, fate="left out of the likelihood", unseen=reading.unseen)
        end = EarlyEnd(limit, stop)
        device, seed = compute_on(fitted, request), seed_of(fitted, request)
        with end.after_a_row():
            scored = log_likelihood(fitted, table, request, seed, device, reporter, end, limit.end)
        if scored.loglik.warning:
            reporter.warn(scored.loglik.warning)
        if len(scored.rows) < table.N:
            reporter.warn(f"{table.N - len(scored.rows):,} of {table.N:,} rows have no score, as {end.why()}")
        interrupted = None if stop.signal is None else stop.interrupted("stopped early, with what there was reported,")
        scores = replace(row_scores(table, fitted, scored, interrupted), safe=request.safe_cells)
        if out is None:
            return scores
        write_whole([out], [[scores.file(out)]], force=request.force)
        return replace(scores, written=out)
