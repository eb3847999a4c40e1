"""Where the packed chains live: beside the numbers, in the memory of the host, or in a file. A pure rule."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor

Place: TypeAlias = Literal["device", "host", "disk"]
Setting: TypeAlias = Literal["auto", "device", "host", "disk"]
Mapped: TypeAlias = Callable[[int, int, torch.dtype], Tensor]
"""(lines, K, dtype) -> zeros [lines, K] in a file that is mapped into memory."""

SHARE = 0.6
"""Of the free memory, what chains may take: the rest is for the model, its optimiser, a batch and what it leaves."""


class MemoryBudget(NamedTuple):
    """What a machine has left for chains.

    device  free bytes of a device that has memory of its own; None: the numbers are computed on the CPU, in RAM
    ram     free bytes of the host
    mapped  makes chains in a file
    """

    device: int | None
    ram: int
    mapped: Mapped


def no_file(lines: int, K: int, dtype: torch.dtype) -> Tensor:
    """The `mapped` of a room without a folder. ValueError."""
    raise ValueError("chains on disk need a MemoryBudget that can map a file")


def ample(device: torch.device) -> MemoryBudget:
    """The room of a caller that does not measure: everything fits."""
    return MemoryBudget(None if device.type == "cpu" else sys.maxsize, sys.maxsize, no_file)


def choose_place(size: int, device: int | None, ram: int) -> Place:
    """The first place that chains of `size` bytes fit: device, host, disk. `device` and `ram` as in MemoryBudget."""
    if device is None:
        return "device" if size <= SHARE * ram else "disk"
    if size <= SHARE * device:
        return "device"
    return "host" if size <= SHARE * ram else "disk"


def place_of(setting: Setting, size: int, room: MemoryBudget) -> Place:
    """What a setting means in a room; on the CPU the host's memory is that of the device."""
    if setting == "auto":
        return choose_place(size, room.device, room.ram)
    return "device" if setting == "host" and room.device is None else setting
