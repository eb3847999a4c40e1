"""A function that fills Arrow batches of a larger table, for engines that hand these to many processes."""

from __future__ import annotations

import hashlib
import json
import threading
from collections import Counter, OrderedDict
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from vgi_cli.commands.requests import ImputeRequest
from vgi_cli.commands.run_table import compute_on, table_settings
from vgi_cli.commands.sampling import Sampling, Watch
from vgi_cli.encoding.encoder import RowKeys
from vgi_cli.errors import InputError, RunError, UsageError
from vgi_cli.fitting.fitted import FittedTable, load
from vgi_cli.fitting.rows import survey
from vgi_cli.machine.device import kept_threads
from vgi_cli.machine.work import Work, limit_of
from vgi_cli.maths.noise import row_keys
from vgi_cli.registry.plugins import plugged
from vgi_cli.reporting import DRAWING, Silent
from vgi_cli.runs.folder import RunFolder
from vgi_cli.table.base import Table
from vgi_cli.table.parquet.batches import (
    LABEL,
    as_table,
    batch_table,
    filled_batch,
    in_shape_of,
    steady_schema,
    whole_numbers,
)
from vgi_cli.table.source import Whole

Batch = Any
"""A table or a record batch of Arrow."""
KEPT = 4
"""Runs that a process keeps loaded."""
ORDINARY = "key=COLUMN names the column that tells the rows of the whole table apart, or start= the number of the first"


class _Loaded(NamedTuple):
    """A run in this process, and what draws from it."""

    fitted: FittedTable
    sampling: Sampling


_lock = threading.Lock()
_loaded: OrderedDict[str, _Loaded] = OrderedDict()


@dataclass(frozen=True)
class BatchImputer:
    """Fills the holes of Arrow batches: what `vgi_cli.impute_batches` returns.

    It can be pickled: it holds where the run is and what was asked for, and every process loads the run when it first
    fills a batch, and keeps it. The fills of a row depend on its key alone, not on its batch.

    request   what was asked for
    key       the column that holds the keys of the rows; None: the ids of the fit, or numbers from `start` on
    manifest  SHA-256 of the run's manifest, by which a process knows that it has the same run
    """

    request: ImputeRequest
    key: str | None
    manifest: str

    def __call__(self, batch: Batch, start: int | None = None) -> Batch:
        """The rows of a batch, a table or a record batch of Arrow, with their holes filled, as the same; with m > 1 all
        rows of draw 1, then those of draw 2, …, and a column `.imp` that says which.

        start  the number of the first row in the whole table, from 0, where the rows are keyed by their numbers

        Raises UsageError where the rows have no keys, InputError where they are not of a table that the run can fill,
        RunError where the run is not there or is another one.
        """
        arrow = as_table(batch)
        if arrow is None:
            raise UsageError(
                f"{LABEL}: expected a table or a record batch of Arrow, got {type(batch).__name__}",
                "pyarrow.Table.from_pandas(frame) makes one of a DataFrame",
            )
        with _lock, kept_threads(), plugged(self.request.plugins):  # a model is not for several threads at once
            fitted, sampling = self._load()
            compute_on(fitted, self.request)
            if arrow.num_rows == 0:
                return in_shape_of(steady_schema(arrow.schema, fitted.schema, self._several).empty_table(), batch)
            settings = table_settings(self.request, fitted.recipe.table)
            table = batch_table(arrow, fitted.schema, settings.na_values)
            keys = self._keys(table, fitted, start)
            survey(Whole(table), fitted.schema, Silent(), unseen=settings.unseen)
            rows = fitted.rows(table, keys)
            with Silent().stage(DRAWING, "rows") as stage:
                draws = sampling.draw(rows, Watch(stage, 0, table.N, lambda: False))
            sampling.keep_off_codes(draws, table)
            return in_shape_of(filled_batch(table, fitted.schema, draws, self._several), batch)

    def schema(self, types: Any) -> Any:
        """The Arrow schema in which batches of a schema come back: the same for all of them. Types are those of the
        batch, but for columns that get fills which these might not hold: integers of fewer than 64 bits come as int64,
        integers of a column that had fractions in the fit as double, dictionaries with 32-bit indices."""
        with _lock, kept_threads(), plugged(self.request.plugins):
            return steady_schema(types, self._load().fitted.schema, self._several)

    @property
    def _several(self) -> bool:
        return (self.request.m or 1) > 1 and self.request.point is None

    def _load(self) -> _Loaded:
        name = repr(self)
        if name not in _loaded:
            run = self.request.open(verify=True)
            assert isinstance(run, RunFolder)
            if manifest_hash(run) != self.manifest:
                raise RunError(
                    f"run '{run.name}' is not the one that impute_batches was called with: its manifest differs",
                    "give every machine the same run folder, or call impute_batches again",
                )
            fitted = load(run, Silent())
            request = self.request.with_draws(fitted, Silent())
            work = Work(Silent(), limit_of(request.settings, request.started))
            _loaded[name] = _Loaded(fitted, Sampling(fitted, request, work))
            while len(_loaded) > KEPT:
                _loaded.popitem(last=False)
        return _loaded[name]

    def _keys(self, table: Table, fitted: FittedTable, start: int | None) -> Tensor:
        """[n] keys of the rows, as `vgi impute` has them where it imputes the whole table."""
        ids = fitted.schema.ids
        if ids and all(name in table.names for name in ids):
            if start is not None or self.key not in (None, *ids[:1]) or (self.key is not None and len(ids) > 1):
                raise UsageError(
                    f"run '{fitted.run.name}' keys the rows by its --id columns ({', '.join(ids)})",
                    "leave out key= and start=",
                )
            keys = RowKeys(fitted.schema)
            found = keys.of(table)
            if keys.repeated is not None:
                raise InputError(
                    f"{LABEL}: the key {keys.repeated} comes twice", "give every row of the table a key of its own"
                )
            return found
        if self.key is None:
            if start is None:
                raise UsageError(f"{LABEL}: the rows have no keys", ORDINARY)
            if isinstance(start, bool) or not isinstance(start, int | np.integer) or start < 0:
                raise UsageError(f"start: expected a whole number from 0 on, got {start!r}", ORDINARY)
            return row_keys([f"row {i}" for i in range(int(start), int(start) + table.N)])
        if start is not None:
            raise UsageError("key= and start= exclude each other", "the rows are keyed by the column")
        return _keys_in(table, self.key)


def _keys_in(table: Table, name: str) -> Tensor:
    """[n] keys of rows from a column: of numbers those of rows with these numbers, of texts those of rows with these
    ids."""
    numbers = whole_numbers(table, name)
    labels = [f"row {number}" for number in numbers or ()]
    if numbers is None:
        if not table.textual(name):
            raise InputError(f"{LABEL}: the key '{name}' holds neither whole numbers nor texts", "cast it to string")
        if table.missing(name).any():
            raise InputError(f"{LABEL}: the key '{name}' is missing in a row", "every row needs a key")
        labels = [f"id {json.dumps([text])} 0" for text in table.raw_text(name)]
    if len(set(labels)) < len(labels):
        counts = Counter(labels)
        twice = next(label for label in labels if counts[label] > 1)
        raise InputError(
            f"{LABEL}: in the key '{name}' a value comes twice ({twice.split(' ', 1)[1].removesuffix(' 0')})",
            "give every row of the table a key of its own",
        )
    return row_keys(labels)


def batch_imputer(request: ImputeRequest, key: str | None) -> BatchImputer:
    """What fills batches as a request says. UsageError for what cannot be, RunError where there is no run."""
    request = replace(request, m=1 if request.m is None and request.point is None else request.m)
    request = replace(request.checked(in_memory=True), started=0.0)
    with plugged(request.plugins):
        run = request.open()
    if not isinstance(run, RunFolder):
        raise UsageError("impute_batches needs a run folder, which other processes can load", "fit with out=")
    at = replace(request, checkpoint=run.path.resolve())
    return BatchImputer(at, key, manifest_hash(run))


def manifest_hash(run: RunFolder) -> str:
    """SHA-256 of a run's manifest."""
    return hashlib.sha256(json.dumps(run.manifest, sort_keys=True).encode()).hexdigest()
