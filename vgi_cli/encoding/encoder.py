"""Between data units and encoded space: dequantise and encode, decode and round, bounds and volumes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from vgi_cli.columns.base import Column, Lattice, Schema
from vgi_cli.columns.codecs import codec
from vgi_cli.columns.levels import levels_at, numbers_of
from vgi_cli.columns.numerals import Floats
from vgi_cli.columns.spikes import cell_widths, squeezed, stretched
from vgi_cli.data import TensorTable, make_table
from vgi_cli.maths.noise import KeyedNoise, row_keys
from vgi_cli.table.base import Table

WIDTH = 1 - 2e-6
"""Share of the resolution over which a value is spread: rounding errors of codecs must not reach its neighbours."""
ROUNDING = 4e-6
"""What float32 arithmetic may add to an encoded value of size 1."""


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

    Dequantised columns get uniform noise of one resolution around each value (more around spikes), keyed by seed,
    column name, row and `draw`: the same cell gets the same noise whatever else the table holds. `keys` [N]: of
    RowKeys, where these are rows of a larger table. `progress` is told the share of the columns that are done.
    """
    keys = RowKeys(schema).of(table) if keys is None else keys
    columns = schema.encoded
    x = np.zeros((table.N, len(columns)))
    missing = np.zeros(x.shape, bool)
    for i, column in enumerate(columns):
        missing[:, i] = table.missing(column.name)
        values = np.where(missing[:, i], 0.0 if column.low is None else column.low, table.numeric(column.name))
        if column.dequantise and column.lattice is not None:
            noise = KeyedNoise(seed, (column.name,), keys, torch.tensor([draw]), "dequantise").uniform()[0, :, 0]
            values = _spread(column, column.lattice, values, noise.numpy())
        x[:, i] = codec(column).encode(values)
        if progress is not None:
            progress((i + 1) / len(columns))
    return Encoded(make_table(torch.from_numpy(x), torch.from_numpy(missing), schema.layout), keys)


def _spread(column: Column, lattice: Lattice, values: Floats, u: Floats) -> Floats:
    """Values of a dequantised column spread over their cells, by uniforms u: what its codec encodes."""
    if column.levels:
        return numbers_of(values, column.levels) + (u - 0.5) * WIDTH
    step = lattice.resolution
    return stretched(values, u, column.spikes, step) + (u - 0.5) * (WIDTH * step)


class RowKeys:
    """Row keys of a table that may come in blocks: the texts of the id columns and their count so far, else (no ids
    here) the row number, or with `by_content` all cells of the row and their count so far, so that tables of one row
    differ. Only with ids or by content something is kept of every row."""

    def __init__(self, schema: Schema, by_content: bool = False) -> None:
        self._schema, self._by_content = schema, by_content
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

    def _counted(self, kind: str, rows: Iterable[Sequence[Any]]) -> Tensor:
        labels = []
        for cells in rows:
            label = json.dumps(cells)
            labels.append(f"{kind} {label} {self._seen[label]}")
            self._seen[label] += 1
        return row_keys(labels)

    def _cells(self, table: Table) -> Iterator[Sequence[Any]]:
        """Each row's cells by name of the column: modelled ones as numbers, whatever their type in this table, others
        as texts, none where missing. An index numbers the rows and is no part of them."""
        names = sorted(name for name in table.names if name not in table.index)
        columns: list[list[Any]] = []
        for name in names:
            if name in self._schema.modelled:
                values, absent = table.numeric(name).tolist(), table.missing(name).tolist()
                columns.append([None if gone else value + 0.0 for value, gone in zip(values, absent, strict=True)])
            else:
                columns.append(list(table.text(name)))
        return ([names, *cells] for cells in zip(*columns, strict=True))


def decode(x: Tensor, schema: Schema) -> Floats:
    """Data units [.., D] float64 of encoded rows x [.., D]: at each column's resolution, whole for integers.

    The exact inverse of `encode` on values of a lattice, the inverse up to float64 rounding elsewhere. What lies in the
    column's box up to the rounding of float32 decodes into its bounds; what lies further out is not touched.
    """
    z = x.detach().to("cpu", torch.float64).numpy()
    ranges = box(schema)
    out = np.empty_like(z)
    for i, column in enumerate(schema.encoded):
        values = codec(column).decode(z[..., i])
        if column.levels:
            out[..., i] = levels_at(values, column.levels)
            continue
        values = column.snap(squeezed(values, column.spikes))
        low, high = float(ranges.low[i]), float(ranges.high[i])
        inside = (z[..., i] >= low - ROUNDING * (1 + abs(low))) & (z[..., i] <= high + ROUNDING * (1 + abs(high)))
        out[..., i] = np.where(inside, np.clip(values, *column.ends), values)
    return out


def box(schema: Schema) -> Range:
    """The bounds of the columns in encoded space; a value of a lattice stands for everything that rounds to it."""
    columns = schema.encoded
    both = np.stack([np.full(len(columns), -np.inf), np.full(len(columns), np.inf)])
    for i, column in enumerate(columns):
        ends = np.array(column.ends)
        bounded = np.isfinite(ends)
        half = 0.0 if column.lattice is None else 0.5 * column.lattice.resolution
        places = stretched(ends + np.array([-half, half]), 0.0, column.spikes, 0.0)
        if column.levels:
            bounded, places = np.array([True, True]), np.array([-0.5, len(column.levels) - 0.5])
        both[bounded, i] = codec(column).encode(places[bounded])
    return Range(*torch.from_numpy(both))


def log_scale(schema: Schema) -> Tensor:
    """[D] float64: what turns the terms of `log_volume` into log densities of columns divided by their standard
    deviation (add those of observed cells). A dequantised column's probability is divided by its resolution again, so
    that the result depends neither on units nor on whether a column counts as rounded."""
    terms = []
    for column in schema.encoded:
        rounded = column.dequantise and column.lattice is not None
        step = column.lattice.resolution if rounded and column.lattice is not None else 1.0
        terms.append(np.log(column.deviation) - np.log(step))
    return torch.tensor(terms, dtype=torch.float64)


def log_volume(missing: Tensor, x: Tensor, schema: Schema) -> Tensor:
    """[N] float64: what turns log p(encoded observed cells) into a log density in data units (add it).

    Over the OBSERVED cells only: the sum of log |d encoded / d data|, plus the log of the width over which a value is
    spread where a column is dequantised (the probability of the value is density times width).
    """
    z = x.detach().to("cpu", torch.float64).numpy()
    terms = np.zeros(z.shape)
    for i, column in enumerate(schema.encoded):
        terms[:, i] = codec(column).log_det(z[:, i])
        if column.dequantise and column.lattice is not None:
            widths: Floats | float = 1.0 if column.levels else column.lattice.resolution
            if column.spikes:
                values = squeezed(codec(column).decode(z[:, i]), column.spikes)
                widths = cell_widths(values, column.spikes, column.lattice.resolution)
            terms[:, i] += np.log(widths)
    return torch.from_numpy(np.where(missing.cpu().numpy(), 0.0, terms).sum(1))
