"""Packed lines: the K imputations of each missing cell, row by row, where they live and how a batch of rows is fetched.

No placement uses nonzero or boolean indexing: an observed cell of a batch points to a spare line that belongs to no
cell. On the device nothing waits for the host. Elsewhere one thread of the host gathers the lines of the next batch and
scatters those of the last one while this batch is computed; it does them in order, one at a time.
"""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple, final

import torch
from torch import Tensor

from vgi_cli.chains.store.link import Arrival, Link, link_to, pin
from vgi_cli.chains.store.placement import Place


class Lines(ABC):
    """Lines [C + 1, K]; the last one is the spare.

    place    where they live
    rows_on  where row numbers cost no waiting
    """

    place: Place
    rows_on: torch.device

    @property
    @abstractmethod
    def values(self) -> Tensor:
        """All lines, to be read and written at rest: what is under way ends first, and what was fetched ahead is
        forgotten."""

    @abstractmethod
    def load(self, rows: Tensor, missing: Tensor) -> Tensor:
        """[B, D, K] the imputations of rows [B] with mask [B, D]; anything at observed cells."""

    @abstractmethod
    def store(self, rows: Tensor, missing: Tensor, cells: Tensor) -> None:
        """Keep the missing ones of cells [B, D, K]."""

    @abstractmethod
    def prefetch(self, rows: Tensor) -> None:
        """Announce the rows of the next `load`."""


@final
class DeviceLines(Lines):
    """Lines beside the table."""

    place: Place = "device"

    def __init__(self, values: Tensor, first: Tensor) -> None:
        """values [C + 1, K]; first [N + 1] each row's first line."""
        self._values = values
        self._first = first
        self.rows_on = values.device

    @property
    def values(self) -> Tensor:
        return self._values

    def load(self, rows: Tensor, missing: Tensor) -> Tensor:
        return _take(self._values, self._index(rows, missing))

    def store(self, rows: Tensor, missing: Tensor, cells: Tensor) -> None:
        _put(self._values, self._index(rows, missing), cells)

    def prefetch(self, rows: Tensor) -> None:
        """Nothing to do: the lines are here."""

    def _index(self, rows: Tensor, missing: Tensor) -> Tensor:
        return line_index(self._first[rows], missing, self._values.shape[0] - 1)


class Transport(NamedTuple):
    """What lines travel by: the link to the device where batches are computed, and the one thread that serves it."""

    device: torch.device
    link: Link
    worker: ThreadPoolExecutor


def transport_to(device: torch.device) -> Transport:
    """The transport between the host and a device; all lines of a table share it."""
    return Transport(device, link_to(device), ThreadPoolExecutor(1, thread_name_prefix="chains"))


@final
class StagedLines(Lines):
    """Lines in the memory of the host or in a mapped file; batches of them travel."""

    def __init__(self, values: Tensor, first: Tensor, transport: Transport, place: Place) -> None:
        """values [C + 1, K] and first [N + 1] on the CPU."""
        self.place = place
        self.rows_on = torch.device("cpu")
        self._values = values
        self._first = first
        self._link, self._worker = transport.link, transport.worker
        self._ahead: tuple[Tensor, Future[Arrival]] | None = None
        self._writing: Future[None] | None = None
        if place == "host" and transport.device.type == "cuda":
            weakref.finalize(self, pin(values)).atexit = False  # at exit the system unpins

    @property
    def values(self) -> Tensor:
        self._finish_writing()
        self._ahead = None
        return self._values

    def load(self, rows: Tensor, missing: Tensor) -> Tensor:
        rows = self._here(rows)
        if self._ahead is not None and torch.equal(self._ahead[0], rows):
            gathered = self._ahead[1]
        else:
            gathered = self._worker.submit(self._gather, rows)
        self._ahead = None
        lines = gathered.result()()
        return _take(lines, _batch_index(missing, lines.shape[0] - 1))

    def store(self, rows: Tensor, missing: Tensor, cells: Tensor) -> None:
        rows = self._here(rows)
        if self._ahead is not None and bool(torch.isin(rows, self._ahead[0]).any()):
            self._ahead = None  # fetched too early
        where = self._lines_of(rows)
        lines = cells.new_zeros(len(where) + 1, cells.shape[2])
        _put(lines, _batch_index(missing, len(where)), cells)
        self._finish_writing()  # of the last batch: raises what went wrong there, and bounds what is under way
        self._writing = self._worker.submit(self._scatter, where, self._link.down(lines))

    def prefetch(self, rows: Tensor) -> None:
        rows = self._here(rows)
        self._ahead = (rows, self._worker.submit(self._gather, rows))

    def _finish_writing(self) -> None:
        if self._writing is not None:
            self._writing.result()
            self._writing = None

    def _here(self, rows: Tensor) -> Tensor:
        return rows.to("cpu", torch.int64)

    def _lines_of(self, rows: Tensor) -> Tensor:
        """Numbers of the lines of rows, one row after the other."""
        first = self._first[rows].long()
        counts = self._first[rows + 1].long() - first
        before = counts.cumsum(0) - counts
        offset = torch.repeat_interleave(first - before, counts)
        return offset + torch.arange(len(offset))

    def _gather(self, rows: Tensor) -> Arrival:
        where = self._lines_of(rows)
        lines = self._link.staging(len(where) + 1, self._values.shape[1], self._values.dtype)
        torch.index_select(self._values, 0, where, out=lines[:-1])
        lines[-1] = 0
        return self._link.up(lines)

    def _scatter(self, where: Tensor, lines: Arrival) -> None:
        self._values.index_copy_(0, where, lines()[:-1])


def line_index(first: Tensor, missing: Tensor, spare: int) -> Tensor:
    """[B, D] the line of each cell, for rows whose first lines are first [B]; observed cells point to `spare`."""
    return torch.where(missing, first[:, None] + missing.cumsum(1) - 1, spare)


def _take(lines: Tensor, index: Tensor) -> Tensor:
    """[B, D, K] lines [n, K] at index [B, D]; by whole lines, which is several times as fast as indexing."""
    return lines.index_select(0, index.view(-1)).view(*index.shape, lines.shape[1])


def _put(lines: Tensor, index: Tensor, cells: Tensor) -> None:
    """Set lines [n, K] at index [B, D] to cells [B, D, K], in place; by whole lines, twice as fast as indexing."""
    lines.index_copy_(0, index.view(-1), cells.reshape(-1, cells.shape[2]))


def _batch_index(missing: Tensor, spare: int) -> Tensor:
    """`line_index` among the lines of these rows alone."""
    counts = missing.sum(1)
    return line_index(counts.cumsum(0) - counts, missing, spare)
