"""In how many bytes an imputation is kept: a number as it is computed with, a level in one byte or two.

Dimensions of one format are packed together. Its tensor has the same name in memory, in a checkpoint and in a run
folder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from vgi_cli.layout import Layout

VALUES, ONE_BYTE, TWO_BYTES = "values", "levels_u8", "levels_u16"
NAMES = (VALUES, ONE_BYTE, TWO_BYTES)
SIGN = 1 << 15
"""From this level on two bytes hold it less 2^16: torch indexes signed integers of two bytes only."""


class Format(NamedTuple):
    """How the imputations of some dimensions are kept.

    name   of their tensor
    dims   the dimensions, in order
    dtype  of what is kept
    """

    name: str
    dims: tuple[int, ...]
    dtype: torch.dtype

    def pack(self, x: Tensor) -> Tensor:
        """What is kept of values x of these dimensions, of any shape."""
        if self.dtype is torch.int16:
            x = x - 2 * SIGN * (x >= SIGN)
        return x.to(self.dtype)

    def unpack(self, kept: Tensor, dtype: torch.dtype) -> Tensor:
        """The values of what `pack` gave."""
        x = kept.to(dtype)
        return x + 2 * SIGN * (x < 0) if self.dtype is torch.int16 else x


def formats_of(layout: Layout, dtype: torch.dtype) -> tuple[Format, ...]:
    """The formats that the dimensions of a layout need, latents among them; numbers are kept in `dtype`, and so are
    levels of which there are more than two bytes can count."""
    dims: dict[str, list[int]] = {name: [] for name in NAMES}
    for i, levels in enumerate(layout.level_counts):
        dims[_name(levels)].append(i)
    dtypes = (dtype, torch.uint8, torch.int16)
    made = (Format(name, tuple(dims[name]), kept) for name, kept in zip(NAMES, dtypes, strict=True))
    return tuple(form for form in made if form.dims) or (Format(VALUES, (), dtype),)


def _name(levels: int) -> str:
    """The format of a dimension with so many levels; 0: a number."""
    if levels == 0 or levels > 2 * SIGN:
        return VALUES
    return ONE_BYTE if levels <= 256 else TWO_BYTES


def formats_in(tensors: Mapping[str, Tensor], layout: Layout) -> tuple[Format, ...]:
    """The formats of tensors that were kept: those of the layout, or (of a run that was made before levels had bytes of
    their own) one for all dimensions, whose levels are floats among the values."""
    if VALUES in tensors and not tensors.keys() & {ONE_BYTE, TWO_BYTES}:
        return (Format(VALUES, tuple(range(layout.D)), tensors[VALUES].dtype),)
    return formats_of(layout, tensors[VALUES].dtype if VALUES in tensors else torch.float32)


def written(lines: Tensor) -> Tensor:
    """Packed lines as a checkpoint names their type: two bytes without a sign."""
    return lines.view(torch.uint16) if lines.dtype is torch.int16 else lines


def read(lines: Tensor) -> Tensor:
    """The lines of which `written` was written."""
    return lines.view(torch.int16) if lines.dtype is torch.uint16 else lines


def chain_count(tensors: Mapping[str, Tensor]) -> int:
    """K of the tensors that were kept."""
    return next(int(tensors[name].shape[1]) for name in NAMES if name in tensors)


def packed_bytes(missing: Tensor, K: int, formats: Sequence[Format]) -> int:
    """Bytes of the K imputations of every missing cell of a table with mask [N, D]."""
    if len(formats) == 1:
        return int(torch.count_nonzero(missing)) * K * formats[0].dtype.itemsize
    counts = [int(torch.count_nonzero(column)) for column in missing.T]
    return sum(sum(counts[i] for i in form.dims) * K * form.dtype.itemsize for form in formats)
