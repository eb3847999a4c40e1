"""Encoded rows of one schema as another schema of the same table encodes them, whose columns are bent otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import torch
from torch import Tensor

from vgi_cli.columns.base import ModelledColumn
from vgi_cli.columns.schema import Schema
from vgi_cli.data import TensorTable
from vgi_cli.encoding.rounding import RoundedCells, rounding_of
from vgi_cli.scratch import pieces


@dataclass(frozen=True)
class Recoder:
    """A continuous map between the encoded rows of two schemas, increasing in each dimension.

    columns  of each modelled column its dimensions, and the column in both schemas
    """

    columns: tuple[tuple[slice, ModelledColumn, ModelledColumn], ...]

    def __call__(self, x: Tensor) -> Tensor:
        """[.., D] in the precision of x [.., D]; computed in float64, on the CPU. Infinite limits stay infinite."""
        z = x.detach().to("cpu", torch.float64).numpy()
        finite = np.isfinite(z)
        known, out = np.where(finite, z, 0.0), z.copy()
        for dims, column, other in self.columns:
            out[..., dims] = column.recoded(known[..., dims], other)
        return torch.from_numpy(np.where(finite, out, z)).to(x)

    def dimension(self, z: Tensor, j: int) -> Tensor:
        """[n] values z [n] of dimension j."""
        for dims, column, other in self.columns:
            if dims.start <= j < dims.stop:
                own = np.zeros((len(z), column.width))
                own[:, j - dims.start] = z.detach().to("cpu", torch.float64).numpy()
                found = np.asarray(column.recoded(own, other))
                return torch.from_numpy(found[:, j - dims.start].copy()).to(z)
        raise IndexError(f"no dimension {j}")

    @property
    def rounding(self) -> RoundedCells | None:
        """What the cells of rounded columns stand for over there."""
        return rounding_of((dims, other) for dims, _, other in self.columns)

    @property
    def inverse(self) -> Recoder:
        """The map back."""
        return Recoder(tuple((dims, other, column) for dims, column, other in self.columns))

    def table(self, table: TensorTable) -> TensorTable:
        """The rows of a table; one in files stays there."""
        if table.scratch is None:
            return table._replace(x=torch.where(table.missing, 0.0, self(table.x)), rounding=self.rounding)
        x = table.scratch.zeros(*table.x.shape, dtype=table.x.dtype)
        for part in pieces(table.N, table.D * table.x.element_size()):
            x[part] = torch.where(table.missing[part], 0.0, self(table.x[part]))
        return table._replace(x=x, rounding=self.rounding)


NO_RECODERS: Mapping[str, Recoder] = MappingProxyType({})
"""By the names of transforms: none."""


def recoder(schema: Schema, other: Schema) -> Recoder | None:
    """The map from the encoded rows of one schema to those of another; None where some column has none."""
    if schema.modelled != other.modelled or schema.layout != other.layout:
        return None
    pairs = list(zip(schema.layout.slices, schema.encoded, other.encoded, strict=True))
    at_zero = (column.recoded(np.zeros((1, column.width)), second) for _, column, second in pairs)
    return None if any(found is None for found in at_zero) else Recoder(tuple(pairs))
