"""Copies of packed lines between the host and the device where a batch is computed.

Each copy is begun on one thread and awaited on the other: what `up` and `down` return waits for it and gives the lines.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeAlias, final

import torch
from torch import Tensor

from vgi_cli.errors import FitError

Arrival: TypeAlias = Callable[[], Tensor]


class Link(ABC):
    """The way between the host and one device. The lines [n, K] that are handed over must not be changed afterwards."""

    @abstractmethod
    def staging(self, n: int, K: int, dtype: torch.dtype) -> Tensor:
        """Uninitialised lines [n, K] on the host, from which copying is fast."""

    @abstractmethod
    def up(self, lines: Tensor) -> Arrival:
        """Begin to copy from the host; called by the thread that gathers, awaited by the one that computes."""

    @abstractmethod
    def down(self, lines: Tensor) -> Arrival:
        """Begin to copy to the host; called by the thread that computes, awaited by the one that scatters."""


@final
class DirectLink(Link):
    """Plain copies; none at all where the device is the CPU."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def staging(self, n: int, K: int, dtype: torch.dtype) -> Tensor:
        return torch.empty(n, K, dtype=dtype)

    def up(self, lines: Tensor) -> Arrival:
        there = lines.to(self._device)
        return lambda: there

    def down(self, lines: Tensor) -> Arrival:
        return lines.cpu


@final
class CudaLink(Link):
    """Copies on a stream of their own, through pinned memory: neither the host nor the computing stream waits."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device)

    def staging(self, n: int, K: int, dtype: torch.dtype) -> Tensor:
        """Pinned; the allocator keeps a block until the copies from it have ended."""
        return torch.empty(n, K, dtype=dtype, pin_memory=True)

    def up(self, lines: Tensor) -> Arrival:
        with torch.cuda.stream(self._stream):
            there = lines.to(self._device, non_blocking=True)
            copied = self._stream.record_event()

        def arrive() -> Tensor:
            computing = torch.cuda.current_stream(self._device)
            computing.wait_event(copied)
            there.record_stream(computing)
            return there

        return arrive

    def down(self, lines: Tensor) -> Arrival:
        written = torch.cuda.current_stream(self._device).record_event()

        def arrive() -> Tensor:
            there = self.staging(lines.shape[0], lines.shape[1], lines.dtype)
            with torch.cuda.stream(self._stream):
                self._stream.wait_event(written)
                there.copy_(lines, non_blocking=True)
                lines.record_stream(self._stream)
                copied = self._stream.record_event()
            copied.synchronize()
            return there

        return arrive


def link_to(device: torch.device) -> Link:
    """The link between the host and a device."""
    return CudaLink(device) if device.type == "cuda" else DirectLink(device)


def pin(values: Tensor) -> Callable[[], None]:
    """Lock a tensor of the host in memory, in place, and return what undoes it.

    FitError where the system refuses. Tensors that are allocated pinned take up to twice their size (rounded to a power
    of two); registered ones do not.
    """
    runtime, address = torch.cuda.cudart(), values.data_ptr()
    size = values.numel() * values.element_size()
    error = int(runtime.cudaHostRegister(address, size, 1))  # 1: for all contexts
    if error:
        raise FitError(
            f"cannot pin chains of {size} bytes in the host's memory: CUDA error {error}",
            "take --set method.chains=disk, or a smaller --set method.imputations",
        )

    def unpin() -> None:
        runtime.cudaHostUnregister(address)

    return unpin
