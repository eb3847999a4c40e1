"""Where an imputing chain starts: empirical marginals (f0), or what the chains of a run hold, looked up by row key."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from vgi_cli.chains.store.formats import VALUES, Format, formats_in, read
from vgi_cli.errors import RunError
from vgi_cli.layout import Layout
from vgi_cli.maths.noise import KeyedNoise
from vgi_cli.samplers.base import Box, SamplerInput


class Start(ABC):
    """First states of the chains."""

    @abstractmethod
    def states(self, x: Tensor, missing: Tensor, noise: KeyedNoise, box: Box) -> Tensor:
        """[n, R, D] completed rows, n = len(noise.draws): observed cells as in x, missing cells inside the box."""


def in_order(cells: Tensor) -> Tensor:
    """[n, width] encoded cells of a column in lexicographic order."""
    for i in reversed(range(cells.shape[1])):
        cells = cells[cells[:, i].sort(stable=True).indices]
    return cells


class EmpiricalStart(Start):
    """f0 (paper, section 3.2): each missing cell is an independent draw from its column's observed cells in the fit.

    Cells outside the box are left out; a column that has none inside starts at the point of the box nearest to 0.
    """

    def __init__(self, x: Tensor, missing: Tensor, layout: Layout | None = None) -> None:
        """x, missing [N, D]: the table that was fitted, encoded; `layout` None: each dimension is a column."""
        self._columns = (Layout.plain(x.shape[1]) if layout is None else layout).slices
        self._sorted = [in_order(x[~missing[:, dims.start], dims]) for dims in self._columns]

    def states(self, x: Tensor, missing: Tensor, noise: KeyedNoise, box: Box) -> Tensor:
        """Randomness: one keyed uniform a cell, that of its first dimension."""
        uniform = noise.at("f0").uniform()
        columns = []
        for dims, cells in zip(self._columns, self._sorted, strict=True):
            inside = cells[((cells >= box.low[dims]) & (cells <= box.high[dims])).all(1)].to(x)
            if len(inside) == 0:
                inside = x.new_zeros(1, cells.shape[1]).clamp(box.low[dims].to(x), box.high[dims].to(x))
            columns.append(inside[(uniform[..., dims.start] * len(inside)).long()])
        return torch.where(missing, torch.cat(columns, -1), x)


class ChainStart(Start):
    """Draw k starts at chain k of the run, so that no two draws share a chain; where the run holds no such chain or
    cell (a new row, a newly hidden cell, a draw beyond K, a value outside the box) it starts at `otherwise`."""

    def __init__(self, held: HeldChains, otherwise: Start) -> None:
        self._held = held
        self._otherwise = otherwise

    def states(self, x: Tensor, missing: Tensor, noise: KeyedNoise, box: Box) -> Tensor:
        other = self._otherwise.states(x, missing, noise, box)
        found = self._held.find(noise.rows)
        draws = noise.draws.to(found.device)
        values = self._held.values(found.clamp(min=0), draws.clamp(max=self._held.K - 1)).to(x)
        usable = self._held.missing[found.clamp(min=0)] & (found >= 0)[:, None]
        usable = usable & (draws < self._held.K)[:, None, None] & box.contains(values)
        return torch.where(missing & usable, values, other)


def held_chains(fitted: SamplerInput) -> HeldChains:
    """The imputations that a run stores. RunError where they do not fit together."""
    held = fitted.held
    try:
        return HeldChains(held["keys"], held["missing"], held, fitted.layout)
    except (ValueError, LookupError) as error:
        raise RunError(f"imputations.safetensors is damaged ({error})", "restore the file, or fit again") from None


def start_of(fitted: SamplerInput) -> Start:
    """The stored imputations of a row, and the empirical marginals elsewhere."""
    start = fitted.held["start"]
    return ChainStart(
        held_chains(fitted), EmpiricalStart(start, torch.zeros_like(start, dtype=torch.bool), fitted.layout)
    )


class HeldChains:
    """K imputations of each missing cell of the table that a run holds.

    keys     [N] int64 row keys, as in KeyedNoise.rows; they must differ
    missing  [N, D] True where the fitted table has a hole
    packed   the values of the missing cells, row by row, as `Chains.tensors` gives them: [C, K] for each format
    layout   of the data; latents that come after them are left out of `missing` and `values`
    """

    def __init__(self, keys: Tensor, missing: Tensor, packed: Mapping[str, Tensor], layout: Layout) -> None:
        self._parts = []
        for form in formats_in(packed, layout.with_latents(missing.shape[1] - layout.d)):
            lines, own = read(packed[form.name]), missing
            if len(form.dims) < missing.shape[1]:
                own = missing[:, form.dims]
            counts = own.sum(1)
            if len(keys) != len(missing) or lines.shape[0] < int(counts.sum()):
                raise ValueError(
                    f"expected one key a row and one line a missing cell, got {len(keys)} keys for {len(missing)} rows "
                    f"and {lines.shape[0]} lines for {int(counts.sum())} cells"
                )
            dims = torch.tensor([i for i in form.dims if i < layout.d], device=missing.device, dtype=torch.int64)
            self._parts.append(_Lines(form, dims, counts.cumsum(0) - counts, lines))
        self._sorted, self._order = keys.sort()
        if bool((self._sorted[1:] == self._sorted[:-1]).any()):
            raise ValueError("row keys must differ")
        self.missing = missing[:, : layout.d]

    @property
    def K(self) -> int:
        """Number of chains."""
        return int(self._parts[0].lines.shape[1])

    def find(self, keys: Tensor) -> Tensor:
        """[R] table rows with these keys; -1 where the run holds no such row."""
        if len(self._sorted) == 0:
            return torch.full_like(keys, -1)
        place = torch.searchsorted(self._sorted, keys).clamp(max=len(self._sorted) - 1)
        return torch.where(self._sorted[place] == keys, self._order[place], -1)

    def values(self, rows: Tensor, chains: Tensor) -> Tensor:
        """[n, R, D] values of chains [n] at table rows [R]; 0 at cells that the run did not impute."""
        missing = self.missing[rows]
        dtype = next((part.lines.dtype for part in self._parts if part.form.name == VALUES), torch.float32)
        values = torch.zeros(len(chains), *missing.shape, dtype=dtype, device=missing.device)
        for form, dims, first, lines in self._parts:
            if lines.shape[0]:
                own = missing[:, dims]  # the lines of a row's data come before those of its latents
                index = torch.where(own, first[rows][:, None] + own.cumsum(1) - 1, 0)
                kept = form.unpack(lines[index][..., chains].permute(2, 0, 1), dtype)
                values[..., dims] = torch.where(own, kept, 0.0)
        return values


class _Lines(NamedTuple):
    """Of the dimensions of one format: which of the data they are, each row's first line, and the lines [C, K]."""

    form: Format
    dims: Tensor
    first: Tensor
    lines: Tensor
