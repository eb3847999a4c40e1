"""The table that a command takes a run to, the one that was fitted or a new one: how it is read and computed with
where nobody says so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch

from vgi_cli.commands.requests import RunRequest
from vgi_cli.errors import UsageError
from vgi_cli.fitting.fitted import FittedTable
from vgi_cli.fitting.rows import check_same_data, open_blocks, read, require_fitted_files
from vgi_cli.machine.device import available, resolve_device, set_threads
from vgi_cli.machine.work import Work
from vgi_cli.machine.workers import workers_for
from vgi_cli.reporting import Reporter
from vgi_cli.settings.problems import origin
from vgi_cli.settings.recipe import TableSettings
from vgi_cli.table.base import Table
from vgi_cli.table.source import Files

NEW_ROWS = "give DATA, a table to fill"
"""What to do where the fitted table is not what it was."""


class TableName(NamedTuple):
    """Where a table is and how it is read; `fitted`: it is the one that the run was fitted on."""

    data: Sequence[str]
    mask: str | None
    reading: TableSettings
    fitted: bool


def name_of(fitted: FittedTable, request: RunRequest, otherwise: str = NEW_ROWS) -> TableName:
    """The table that is named, else the one that the run was fitted on. UsageError where the run does not know it,
    InputError where it is not there any more; `otherwise`: what to do then."""
    named, mask = request.said("data"), request.said("mask")
    if named is not None:
        return TableName(named, mask, table_settings(request, fitted.recipe.table), False)
    data = fitted.run.record.data
    if not data.paths or data.paths == ("-",):
        source = "standard input" if data.paths else "a table in memory"
        raise UsageError(f"the run was fitted on {source}, which it does not keep", "give DATA")
    if mask is not None or any(key.startswith("table.") for key in request.settings):
        raise UsageError("--mask, --na-values, --delimiter and --decimal belong to DATA", "give DATA")
    require_fitted_files(fitted.run, f"put it back there, or {otherwise}")
    return TableName(data.paths, data.mask, fitted.recipe.table, True)


def fitted_or_new(fitted: FittedTable, request: RunRequest, otherwise: str = NEW_ROWS) -> Table:
    """The table that is named, else the fitted one, in memory. InputError when that has changed or is gone;
    `otherwise`: what to do then."""
    name = name_of(fitted, request, otherwise)
    table = read(name.data, name.mask, name.reading, fitted.schema)
    if name.fitted:
        check_same_data(fitted.run, table, otherwise)
    return table


def blocks_of(fitted: FittedTable, request: RunRequest) -> Files:
    """The same table, to be read in blocks."""
    name = name_of(fitted, request)
    source = open_blocks(name.data, name.mask, name.reading, fitted.schema)
    if name.fitted:
        check_same_data(fitted.run, source.origin, NEW_ROWS)
    return source


def keyed_by_content(fitted: FittedTable, table: Table) -> bool:
    """Whether the rows of a table are keyed by what they hold, and not by their number: those of tables that were
    handed over in memory, which may come row by row, but for the one that was fitted."""
    return table.in_memory and not is_fitted(fitted, table.sha256)


def is_fitted(fitted: FittedTable, sha256: str) -> bool:
    """Whether a table of this checksum is the one that was fitted."""
    return bool(sha256 == fitted.run.manifest["data"]["sha256"])


def seed_of(fitted: FittedTable, request: RunRequest) -> int:
    """The seed that was said, else the run's."""
    seed = request.said("seed")
    return int(fitted.run.record.seeds["fit"] if seed is None else seed)


def compute_on(fitted: FittedTable, request: RunRequest) -> torch.device:
    """Set the threads and return the device: what was said, else those of the fit (the CPU where its GPU is gone)."""
    before = fitted.run.record
    set_threads(request.said("threads") or before.threads or 1)
    name = request.said("device")
    if name is not None:
        return resolve_device(name, origin(request.settings, "device", "--device"))
    return torch.device(before.device if available(before.device) else "cpu")


def shared_work(request: RunRequest, reporter: Reporter) -> Work:
    """Work of a command on a run, which as many processes share as it says, or as there are cores."""
    return Work(reporter, workers=workers_for(request.said("threads"), reporter.warn))


def table_settings(request: RunRequest, base: TableSettings) -> TableSettings:
    """How another table is read: as the fitted one, with what was said changed; texts that mean missing are added."""
    said = {
        key: request.said(f"table.{key}")
        for key in ("delimiter", "decimal", "na_values", "unseen")
        if f"table.{key}" in request.settings
    }
    if "na_values" in said:
        said["na_values"] = tuple(dict.fromkeys((*base.na_values, *said["na_values"])))
    return base.model_copy(update=said)
