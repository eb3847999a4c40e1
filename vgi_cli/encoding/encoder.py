"""Between tables and encoded rows: what the columns of a schema do, side by side."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from vgi_cli.columns.numerals import Floats, Ints
from vgi_cli.columns.schema import Schema
from vgi_cli.data import TensorTable, make_table
from vgi_cli.encoding.rounding import rounding_in
from vgi_cli.maths.noise import KeyedNoise, row_keys
from vgi_cli.scratch import Scratch, pieces
from vgi_cli.table.base import Table
from vgi_cli.table.columns import TableInFiles


class Encoded(NamedTuple):
    """An encoded table and what keys the randomness of its rows.

    table  x [N, D] float64 in the order of `schema.modelled`
    keys   [N] int64
    """

    table: TensorTable
    keys: Tensor


class Range(NamedTuple):
    """Admissible fills in encoded space: low [D], high [D] float64, infinite where there is no bound."""

    low: Tensor
    high: Tensor


def encode(
    table: Table,
    schema: Schema,
    *,
    seed: int,
    draw: int = 0,
    keys: Tensor | None = None,
    progress: Callable[[float], None] | None = None,
) -> Encoded:
    """Encode the modelled columns of a table that `check` has passed (or that the schema was inferred from).

    Columns that are `noisy` spread each cell by uniform noise, keyed by seed, column name, row and `draw`: the same
    cell gets the same noise whatever else the table holds. `keys` [N]: of RowKeys, where these are rows of a larger
    table. `progress` is told the share of the columns that are done.
    """
    keys = RowKeys(schema).of(table) if keys is None else keys
    columns, layout = schema.encoded, schema.layout
    x = np.zeros((table.N, layout.d))
    missing = np.zeros(x.shape, bool)
    for i, (column, dims) in enumerate(zip(columns, layout.slices, strict=True)):
        cells, u = table.column(column.name), None
        if column.noisy:
            noise = KeyedNoise(seed, layout.names[dims], keys, torch.tensor([draw]), "dequantise")
            u = noise.uniform()[0].numpy()
        codes = column.codes(cells)
        missing[:, dims] = (cells.missing | np.isnan(codes))[:, None]  # a level that the fit has not seen says nothing
        valueless = column.valueless(codes)
        if valueless is not None:
            missing[:, dims] |= valueless
        x[:, dims] = column.encode(codes, u)
        if progress is not None:
            progress((i + 1) / len(columns))
    for name, rows in schema.silent(lambda column: table.column(column.name).coded(column)).items():
        missing[:, layout.slices[schema.modelled.index(name)]] |= rows[:, None]
    made = make_table(torch.from_numpy(x), torch.from_numpy(missing), layout)
    return Encoded(made._replace(rounding=rounding_in(schema)), keys)


def encode_in_files(
    table: TableInFiles, schema: Schema, *, seed: int, progress: Callable[[float], None] | None = None
) -> Encoded:
    """As `encode`, block by block, into files beside those of the table. `progress` is told the share of the rows that
    are done."""
    layout, of_rows, scratch = schema.layout, RowKeys(schema), Scratch(table.folder)
    x = scratch.zeros(table.N, layout.D, dtype=torch.float64)
    missing = scratch.zeros(table.N, layout.D, dtype=torch.bool)
    keys = torch.empty(table.N, dtype=torch.int64)
    for block in table.source.blocks():
        part = encode(block.table, schema, seed=seed, keys=of_rows.of(block.table))
        rows = slice(block.first, block.first + block.table.N)
        x[rows], missing[rows], keys[rows] = part.table.x, part.table.missing, part.keys
        if progress is not None:
            progress(rows.stop / table.N)
    return Encoded(TensorTable(x, missing, layout, scratch=scratch, rounding=rounding_in(schema)), keys)


class Respread:
    """The observed cells of the rounded columns of encoded rows, spread by other noise: what `encode` gives for another
    `draw`."""

    def __init__(self, table: Table, schema: Schema, *, seed: int, keys: Tensor, places: Tensor) -> None:
        """keys [N], places [N]: of the rows, and where they stand in the table. ValueError: no column is rounded."""
        rows, layout = places.numpy(), schema.layout
        pairs = zip(schema.encoded, layout.slices, strict=True)
        self._scratch = Scratch(table.folder) if isinstance(table, TableInFiles) else None
        noisy = [(column, layout.names[dims]) for column, dims in pairs if column.noisy]
        if not noisy:
            raise ValueError("no column is rounded")
        kept = self._kept(len(noisy), len(rows))
        self._columns = []
        for i, (column, names) in enumerate(noisy):
            codes = column.codes(table.column(column.name))[rows]
            if kept is not None:
                kept[i] = codes
                codes = kept[i]
            self._columns.append((column, names, codes))
        dims = [range(layout.D)[own] for column, own in zip(schema.encoded, layout.slices, strict=True) if column.noisy]
        self._dims = torch.tensor([i for part in dims for i in part])
        self._seed, self._keys = seed, keys

    def _kept(self, columns: int, N: int) -> Floats | None:
        """Room for codes [columns, N] in a file, where the table is: one, since each takes a descriptor."""
        return None if self._scratch is None else self._scratch.zeros(columns, N, dtype=torch.float64).numpy()

    def __call__(self, draw: int) -> tuple[Tensor, Tensor]:
        """Their dimensions [n], and the cells [N, n] float64 (in a file where the table is); anything at missing
        ones."""
        if self._scratch is None:
            return self._dims, self._spread(draw, slice(0, len(self._keys)))
        cells = self._scratch.zeros(len(self._keys), len(self._dims), dtype=torch.float64)
        for rows in pieces(len(cells), 8 * cells.shape[1]):
            cells[rows] = self._spread(draw, rows)
        return self._dims, cells

    def _spread(self, draw: int, rows: slice) -> Tensor:
        """The cells of some rows."""
        parts = []
        for column, names, codes in self._columns:
            noise = KeyedNoise(self._seed, names, self._keys[rows], torch.tensor([draw]), "dequantise")
            parts.append(column.encode(codes[rows], noise.uniform()[0].numpy()))
        return torch.from_numpy(np.concatenate(parts, axis=1))


class RowKeys:
    """Row keys of a table that may come in blocks: the texts of the id columns and their count so far, else (no ids
    here) the row number, or with `by_content` all cells of the row and their count so far, so that tables of one row
    differ (without the count where rows that are equal are to have equal keys, not `counted`). Only with ids or by
    content something is kept of every row."""

    def __init__(self, schema: Schema, by_content: bool = False, counted: bool = True) -> None:
        self._schema, self._by_content, self._count = schema, by_content, counted
        self._seen: Counter[str] = Counter()
        self._rows = 0

    def of(self, table: Table) -> Tensor:
        """[N] int64: the keys of the next rows."""
        first, self._rows = self._rows, self._rows + table.N
        ids = self._schema.ids
        if ids and all(name in table.names for name in ids):
            return self._counted("id", zip(*(table.raw_text(name) for name in ids), strict=True))
        if self._by_content:
            return self._counted("cells", self._cells(table))
        return row_keys([f"row {i}" for i in range(first, self._rows)])

    @property
    def repeated(self) -> str | None:
        """What an id or a row is that came more than once; None where none did."""
        return next((label for label, count in self._seen.items() if count > 1), None)

    def skip(self, table: Table, rows: int) -> None:
        """Pass over the first rows of a table, whose keys nobody wants: not by content."""
        self._rows += rows
        ids = self._schema.ids
        if rows and ids and all(name in table.names for name in ids):
            some = np.arange(rows)
            for cells in zip(*(table.some_text(name, some) for name in ids), strict=True):
                self._seen[json.dumps(cells)] += self._count

    def _counted(self, kind: str, rows: Iterable[Sequence[Any]]) -> Tensor:
        labels = []
        for cells in rows:
            label = json.dumps(cells)
            labels.append(f"{kind} {label} {self._seen[label]}")
            self._seen[label] += self._count
        return row_keys(labels)

    def _cells(self, table: Table) -> Iterator[Sequence[Any]]:
        """Each row's cells by name of the column: modelled ones as codes, whatever their type in this table, others as
        texts, None where missing. An index numbers the rows and is no part of them."""
        names = sorted(name for name in table.names if name not in table.index)
        columns: list[list[Any]] = []
        modelled = {column.name: column for column in self._schema.encoded}
        for name in names:
            if name in modelled:
                values = modelled[name].codes(table.column(name)).tolist()
                absent = table.missing(name).tolist()
                columns.append([None if gone else value + 0.0 for value, gone in zip(values, absent, strict=True)])
            else:
                columns.append(list(table.text(name)))
        return ([names, *cells] for cells in zip(*columns, strict=True))


def decode(x: Tensor, schema: Schema) -> Floats:
    """[.., columns] float64: codes of the cells of encoded rows x [.., D]: numbers at their column's resolution, whole
    for integers."""
    z = x.detach().to("cpu", torch.float64).numpy()
    out = np.empty((*z.shape[:-1], len(schema.encoded)))
    for i, (column, dims) in enumerate(zip(schema.encoded, schema.layout.slices, strict=True)):
        out[..., i] = column.decode(z[..., dims])
    return out


def unpool(draws: Floats, schema: Schema, seed: int, keys: Tensor) -> Floats:
    """Codes of decoded draws [m, N, columns]: where one stands for a pool of levels, one of them, by noise that is
    keyed by seed, column, row (keys [N]) and draw. They are changed in place."""
    for i, column in enumerate(schema.encoded):
        if column.pooled:
            dims = schema.layout.slices[i]
            noise = KeyedNoise(seed, schema.layout.names[dims], keys.cpu(), torch.arange(len(draws)), "pool")
            draws[..., i] = column.unpool(draws[..., i], noise.uniform()[..., 0].numpy())
    return draws


def box(schema: Schema) -> Range:
    """What the columns admit, in encoded space."""
    sides = [column.box() for column in schema.encoded]
    return Range(*torch.from_numpy(np.concatenate([np.zeros((2, 0)), *sides], 1)))


def log_scale(schema: Schema) -> Tensor:
    """[columns] float64: what turns the terms of `log_volume` into log densities that are comparable between columns
    (add those of observed cells)."""
    return torch.tensor([column.unit for column in schema.encoded], dtype=torch.float64)


def cell_scales(schema: Schema, table: Table, rows: Ints) -> Tensor:
    """[R, columns] `log_scale` for cells of some rows of a table (their numbers): 0 where a cell of a column that is
    not rounded lies where values pile up, since that has a probability."""
    scales = log_scale(schema).expand(len(rows), -1)
    for i, column in enumerate(schema.encoded):
        if column.unrounded:
            piled = torch.from_numpy(column.piled(column.codes(table.column(column.name))[rows]))
            scales = torch.where(piled[:, None] & (torch.arange(scales.shape[1]) == i), 0.0, scales)
    return scales


def log_volume(missing: Tensor, x: Tensor, schema: Schema, but: Sequence[int] = ()) -> Tensor:
    """[N] float64: what turns log p(encoded observed cells) into a log density in data units (add it): the sum over the
    OBSERVED cells of x [N, D] only; `but`: dimensions whose log p is that of cells as they are rounded, which is left
    as it is where they have a probability."""
    whole = schema.layout.of_columns(missing).cpu().numpy()
    missing = missing.index_fill(1, torch.tensor(but, dtype=torch.int64, device=missing.device), True)
    z, absent = x.detach().to("cpu", torch.float64).numpy(), schema.layout.of_columns(missing).cpu().numpy()
    terms = np.zeros(absent.shape)
    for i, (column, dims) in enumerate(zip(schema.encoded, schema.layout.slices, strict=True)):
        terms[:, i] = column.log_volume(z[:, dims])
        if column.unrounded:
            by_cell = absent[:, i] & ~whole[:, i]
            terms[by_cell, i] = column.log_narrow(z[by_cell, dims])
            absent[:, i] = whole[:, i]
    return torch.from_numpy(np.where(absent, 0.0, terms).sum(1))


def log_share(table: Table, schema: Schema) -> Tensor:
    """[N] float64: what turns log p(encoded observed cells) into that of the cells themselves where several levels
    share an encoded value (add it to `log_volume`): the log of their shares, summed over the observed cells."""
    total = np.zeros(table.N)
    for column in schema.encoded:
        if column.pooled:
            total += column.log_share(column.codes(table.column(column.name)))
    return torch.from_numpy(total)
