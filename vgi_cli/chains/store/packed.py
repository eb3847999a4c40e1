"""Packed persistent chains: only the missing cells are stored, C x K values, levels in one byte or two."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar, cast

import torch
from torch import Tensor

from vgi_cli.chains.store.formats import VALUES, Format, formats_of, packed_bytes, read, written
from vgi_cli.chains.store.lines import DeviceLines, Lines, StagedLines, transport_to
from vgi_cli.chains.store.placement import Mapped, MemoryBudget, Place, Setting, ample, no_file, place_of
from vgi_cli.data import TensorTable

PIECE = 4096
"""Rows that `completed` fills at a time."""


Noise = TypeVar("Noise", bound=tuple[Tensor, ...])


class Whole(NamedTuple):
    """A batch that several processes share (vgi_cli/ranks.py), of which each has some rows.

    n, R  flattened rows of all of it: incomplete ones, and all
    own   [r] where those of this process stand among them; the first m are incomplete
    m     how many of those are
    """

    n: int
    R: int
    own: Tensor
    m: int


class Batch(NamedTuple):
    """A batch of rows, flattened: an incomplete row K times (chains of a row next to each other), a complete row once.

    x        [R, D] completed rows: incomplete ones first
    missing  [R, D]
    weight   [R] 1/K or 1, divided by the number of rows of the batch: objectives are sums of weight * term
    rows     [B'] table indices of the incomplete rows of the batch
    whole    of which batch these rows are a part; None: they are all of it
    """

    x: Tensor
    missing: Tensor
    weight: Tensor
    rows: Tensor
    whole: Whole | None = None

    def sizes(self, K: int) -> tuple[int, int]:
        """Flattened rows of the whole batch, of K chains each: incomplete ones, and all. Its randomness is drawn for so
        many, whoever has them."""
        return (len(self.rows) * K, len(self.x)) if self.whole is None else (self.whole.n, self.whole.R)

    def own(self, noise: Noise) -> Noise:
        """Of randomness for the whole batch what belongs to these rows: of each of its tensors."""
        return noise if self.whole is None else type(noise)(*map(self.own_lines, noise))

    def own_lines(self, lines: Tensor) -> Tensor:
        """Of a tensor with a line for every flattened row of the whole batch, or for every incomplete one, or with none
        at all, what belongs to these rows."""
        if self.whole is None or not len(lines):
            return lines
        n, R, own, m = self.whole
        index = {R: own, n: own[:m]}[len(lines)]
        return lines.index_select(0, index.to(lines.device))


class Part(NamedTuple):
    """The chains of the dimensions that are kept in one format.

    format  which, and how
    dims    the same dimensions as an index; None: all
    first   [N + 1] line of each row's first missing cell among them, and C
    C       number of missing cells
    lines   where their values live
    """

    format: Format
    dims: Tensor | None
    first: Tensor
    C: int
    lines: Lines

    def own(self, of_dimensions: Tensor) -> Tensor:
        """What these dimensions have of a tensor [.., D, ..] whose second axis is that of all dimensions."""
        return of_dimensions if self.dims is None else of_dimensions.index_select(1, self.dims)


class Chains:
    """K chains of an incomplete table. How they are packed shows in `tensors` and in `size` only.

    x, missing, layout    those of the table: absent cells of x [N, D] hold 0
    scratch               where the table lies in files
    parts                 the dimensions by format
    incomplete, complete  indices of the rows with and without holes

    They may be those of some rows of a larger table (`part`): what is restored is then looked for among all its lines.
    """

    def __init__(self, table: TensorTable, K: int, place: Place = "device", mapped: Mapped = no_file) -> None:
        """All values start at 0. `mapped`: as in MemoryBudget, for `disk`."""
        x, missing, layout = table.x, table.missing, table.layout
        self._mapped = mapped
        self.x, self.missing, self.layout, self.scratch = x, missing, layout, table.scratch
        self.K = K
        formats = formats_of(layout, x.dtype)
        make_lines = line_maker(K, place, mapped, x.device)
        parts, holes = [], torch.zeros(len(x), dtype=torch.bool, device=x.device)
        for form in formats:
            counts = x.new_zeros(len(x), dtype=torch.int32)
            for i in form.dims:  # the sum of a mask would make a copy of it in integers
                counts += missing[:, i]
            C = int(counts.sum())
            first = torch.zeros(len(x) + 1, dtype=index_type(C), device=x.device)
            torch.cumsum(counts, 0, dtype=first.dtype, out=first[1:])
            dims = None if len(formats) == 1 else torch.tensor(form.dims, device=x.device)
            parts.append(Part(form, dims, first, C, make_lines(C + 1, form.dtype, first)))
            holes |= counts > 0
        self.parts = tuple(parts)
        rows = torch.arange(len(x), dtype=index_type(len(x)), device=x.device)
        self.incomplete = rows[holes]
        self.complete = rows[~holes]
        self._before = dict.fromkeys((form.name for form in formats), 0)

    @property
    def C(self) -> int:
        """Number of missing cells."""
        return sum(part.C for part in self.parts)

    @property
    def place(self) -> Place:
        """Where the values live."""
        return self.parts[0].lines.place

    @property
    def rows_on(self) -> torch.device:
        """Where numbers of rows cost no waiting."""
        return self.parts[0].lines.rows_on

    @property
    def size(self) -> int:
        """Bytes of the values."""
        return sum(part.C * self.K * part.format.dtype.itemsize for part in self.parts)

    def load(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Completed rows [B * K, D] (chains of a row next to each other) and their mask."""
        here = rows.to(self.x.device, non_blocking=True)
        missing = self.missing[here]
        filled = self._cells(rows, missing).contiguous()
        x = torch.where(missing[:, None], filled, self.x[here][:, None], out=filled)
        missing = missing[:, None].expand(-1, self.K, -1)
        return x.reshape(-1, x.shape[2]), missing.reshape(-1, x.shape[2])

    def store(self, rows: Tensor, x: Tensor) -> None:
        """Keep the missing cells of completed rows x [B * K, D] of `rows` [B], which must differ."""
        missing = self.missing[rows.to(self.x.device, non_blocking=True)]
        cells = x.view(len(rows), self.K, self.x.shape[1]).permute(0, 2, 1)
        for part in self.parts:
            part.lines.store(rows, part.own(missing), part.format.pack(part.own(cells)))

    def prefetch(self, incomplete: Tensor, complete: Tensor) -> None:
        """Announce the rows of the next batch: chains that live elsewhere begin to fetch theirs, and a table that lies
        in files is read there."""
        for part in self.parts:
            part.lines.prefetch(incomplete)
        if self.scratch is not None:
            self.scratch.read_ahead(torch.cat([incomplete, complete]), self.x, self.missing)

    def _cells(self, rows: Tensor, missing: Tensor) -> Tensor:
        """[B, K, D] the imputations of rows [B] with mask [B, D]; anything at observed cells."""
        loaded = [
            part.format.unpack(part.lines.load(rows, part.own(missing)), self.x.dtype).permute(0, 2, 1)
            for part in self.parts
        ]
        if len(loaded) == 1:
            return loaded[0]
        cells = loaded[0].new_empty(*loaded[0].shape[:2], missing.shape[1])
        for part, own in zip(self.parts, loaded, strict=True):
            cells.index_copy_(2, cast(Tensor, part.dims), own)
        return cells

    def batch(self, incomplete: Tensor, complete: Tensor, rows: int | None = None) -> Batch:
        """The batch of these rows (indices into the table, on `rows_on`), or this part of a batch of so many `rows`."""
        x, missing = self.load(incomplete)
        complete = complete.to(self.x.device, non_blocking=True)
        n = len(incomplete) + len(complete) if rows is None else rows
        weight = x.new_full((len(x),), 1.0 / (self.K * n))
        if len(complete):
            weight = torch.cat([weight, x.new_full((len(complete),), 1.0 / n)])
            x, missing = torch.cat([x, self.x[complete]]), torch.cat([missing, self.missing[complete]])
        return Batch(x, missing, weight, incomplete)

    def completed(self, chain: int, rows: Tensor | None = None) -> Tensor:
        """The whole table [N, D], or some rows of it, filled with the values of one chain."""
        out = self.x.clone() if rows is None else self.x[rows]
        rows = torch.arange(len(out), device=self.x.device) if rows is None else rows
        for piece, filled in zip(rows.split(PIECE), out.split(PIECE), strict=True):
            missing = self.missing[piece]
            filled.copy_(torch.where(missing, self._cells(piece, missing)[:, chain], filled))
        return out

    def one_chain(self, chain: int, rows: Tensor) -> Chains:
        """Some rows [m] of the table with one of their chains, as chains of their own (K = 1, on the device)."""
        table = TensorTable(self.x[rows], self.missing[rows], self.layout)
        own = Chains(table, 1)
        own.set_chain(0, self.completed(chain, rows))
        return own

    def set_chain(self, chain: int, x: Tensor) -> None:
        """Set one chain to the missing cells of a completed table x [N, D], wherever it is."""
        missing = self.missing.to(x.device)
        for part in self.parts:
            index = None if part.dims is None else part.dims.to(x.device)
            own, holes = (t if index is None else t.index_select(1, index) for t in (x, missing))
            values = part.lines.values
            values[:-1, chain] = part.format.pack(own[holes]).to(values.device)

    def part(self, start: int, stop: int) -> Chains:
        """The rows from `start` to `stop` as a table of their own, with their chains; copied, but for a table that lies
        in files."""
        x, missing = self.x[start:stop], self.missing[start:stop]
        if self.scratch is None:
            x, missing = x.clone(), missing.clone()
        table = TensorTable(x, missing, self.layout, scratch=self.scratch)
        own = Chains(table, self.K, self.place, self._mapped)
        for mine, whole in zip(own.parts, self.parts, strict=True):
            before = int(whole.first[start])
            own._before[mine.format.name] = self._before[mine.format.name] + before
            mine.lines.values[:-1] = whole.lines.values[before : before + mine.C]
        return own

    def tensors(self) -> dict[str, Tensor]:
        """The K imputations of each missing cell, row by row: [C, K] for each format, by its name, not copied."""
        return {part.format.name: written(part.lines.values[:-1]) for part in self.parts}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Take up what `tensors` gave, here or in a version that kept levels as floats."""
        if not all(part.format.name in tensors for part in self.parts):
            self._restore_floats(tensors[VALUES])
            return
        for part in self.parts:
            before = self._before[part.format.name]
            part.lines.values[:-1] = read(tensors[part.format.name][before : before + part.C])

    def _restore_floats(self, values: Tensor) -> None:
        """Take up lines [C, K] of all dimensions."""
        line = sum(self._before.values())
        for rows in torch.arange(len(self.x), device=self.x.device).split(PIECE):
            missing = self.missing[rows]
            n = int(missing.sum())
            cells = self.x.new_zeros(*missing.shape, self.K)
            cells[missing] = values[line : line + n].to(cells)
            self.store(rows, cells.permute(0, 2, 1).reshape(-1, cells.shape[1]))
            line += n


class InOrder:
    """Sets the chains one unit (a column, or a latent) after the other, in the order of the layout.

    Where the next cell of each row lies needs a number for each row then, and no search.
    """

    def __init__(self, chains: Chains, device: torch.device) -> None:
        """`device`: where the masks and the values are that will come."""
        self._parts = chains.parts
        self._line = [part.first[:-1].to(device, copy=True) for part in chains.parts]
        self._part_of = {i: p for p, part in enumerate(chains.parts) for i in part.format.dims}

    def put(self, unit: slice, rows: slice, holes: Tensor, drawn: Tensor) -> None:
        """Set the missing cells of a unit in some rows: holes [rows], drawn [holes, K, width]."""
        before = [0] * len(self._parts)
        for i in range(unit.start, unit.stop):
            p = self._part_of[i]
            part = self._parts[p]
            values = part.lines.values
            lines = self._line[p][rows][holes].to(values.device, torch.int64) + before[p]
            values.index_copy_(0, lines, part.format.pack(drawn[..., i - unit.start]).to(values.device))
            before[p] += 1

    def after(self, unit: slice, absent: Tensor) -> None:
        """Go on behind a unit, which is absent [N] in these rows."""
        for i in range(unit.start, unit.stop):
            self._line[self._part_of[i]] += absent


def make_chains(table: TensorTable, K: int, setting: Setting, room: MemoryBudget | None = None) -> Chains:
    """Chains where the setting says, or where they fit. `room` None: there is room for everything."""
    room = ample(table.x.device) if room is None else room
    size = packed_bytes(table.missing, K, formats_of(table.layout, table.x.dtype))
    return Chains(table, K, place_of(setting, size, room), room.mapped)


def index_type(n: int) -> torch.dtype:
    """The smaller integer type that counts to n: of many rows with few holes these are a good part of the memory."""
    return torch.int32 if n < 2**31 else torch.int64


def line_maker(
    K: int, place: Place, mapped: Mapped, device: torch.device
) -> Callable[[int, torch.dtype, Tensor], Lines]:
    """What makes lines of zeros in a place: (lines, dtype, first) -> Lines; those that travel do by one transport."""
    if place == "device":
        return lambda lines, dtype, first: DeviceLines(torch.zeros(lines, K, dtype=dtype, device=device), first)
    transport = transport_to(device)

    def make(lines: int, dtype: torch.dtype, first: Tensor) -> Lines:
        values = torch.zeros(lines, K, dtype=dtype) if place == "host" else mapped(lines, K, dtype)
        return StagedLines(values, first.cpu(), transport, place)

    return make
