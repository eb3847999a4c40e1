"""Several processes that share a fit, over torch.distributed: by gloo between CPUs, by NCCL between GPUs.

Nothing that is sent can run code where it arrives: numbers, and tensors as safetensors.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from safetensors.torch import load, save
from torch import Tensor

from vgi_cli.errors import RanksLost, UsageError
from vgi_cli.machine.launch import Launch
from vgi_cli.ranks import ALONE, Ranks, Tensors

PATIENCE = timedelta(minutes=30)
"""How long a rank waits for one that neither answers nor has gone. A process that ends closes its connections, which
the others notice at once."""
PIECE = 1 << 24
"""Bytes of the imputations that are sent at a time."""
WITH_OPTIMIZERS = "torch._dynamo"
"""Loaded by the first step of an optimizer. Loaded while processes are joined, it keeps what joins them, with threads
that go on while a process ends, and abort it now and then."""


@contextmanager
def joined(launch: Launch, device: torch.device) -> Iterator[Ranks]:
    """Within this context this process shares its work with those that were started with it. RanksLost where one of
    them does not come, UsageError where a machine has fewer GPUs than ranks.

    device  where the numbers are computed
    """
    if launch.alone:
        yield ALONE
        return
    gpu = device.type == "cuda"
    if gpu:
        if launch.local >= torch.cuda.device_count():
            found = torch.cuda.device_count()
            raise UsageError(
                f"{launch.beside} ranks on a machine with {found} GPU{'s' * (found != 1)}: each takes one",
                f"--nproc-per-node {found}, or --device cpu",
            )
        torch.cuda.set_device(launch.local)
    importlib.import_module(WITH_OPTIMIZERS)
    with _watched():
        backend = "cpu:gloo,cuda:nccl" if gpu else "gloo"
        dist.init_process_group(backend, timeout=PATIENCE, rank=launch.rank, world_size=launch.world)
    yield Together(launch)
    dist.destroy_process_group()  # not after a failure: that the process ends tells those who wait


@contextmanager
def _watched() -> Iterator[None]:
    """RanksLost where torch.distributed cannot reach another rank."""
    try:
        yield
    except RuntimeError as error:
        first = [line.strip() for line in str(error).splitlines() if line.strip()][:1]
        raise RanksLost(
            f"another rank has ended or cannot be reached: {first[0] if first else type(error).__name__}",
            "look at what it has said; the last checkpoint is kept, and --resume goes on with any number of ranks",
        ) from None


class Together(Ranks):
    """One of several processes. `calls`, `sent`: how often all ranks were asked for a sum, and of how many bytes."""

    def __init__(self, launch: Launch) -> None:
        self.rank, self.world, self.beside = launch.rank, launch.world, launch.beside
        self._local = launch.local
        self.calls = self.sent = 0

    def device(self, device: torch.device) -> torch.device:
        return torch.device("cuda", self._local) if device.type == "cuda" else device

    def total(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        flat = torch.cat([tensor.detach().reshape(-1) for tensor in tensors])
        self.calls, self.sent = self.calls + 1, self.sent + flat.numel() * flat.itemsize
        with _watched():
            dist.all_reduce(flat)
        parts = flat.split([tensor.numel() for tensor in tensors])
        return tuple(part.view(tensor.shape) for part, tensor in zip(parts, tensors, strict=True))

    def agree(self, *tensors: Tensor) -> None:
        for device in {tensor.device for tensor in tensors}:
            own = [tensor.detach() for tensor in tensors if tensor.device == device]
            flat = torch.cat([_bytes(tensor) for tensor in own])
            self._broadcast(flat)
            for tensor, part in zip(own, flat.split([t.numel() * t.itemsize for t in own]), strict=True):
                tensor.copy_(part.clone().view(tensor.dtype).view(tensor.shape))

    def most(self, *values: int) -> tuple[int, ...]:
        found = torch.tensor(values, dtype=torch.int64)
        with _watched():
            dist.all_reduce(found, dist.ReduceOp.MAX)
        return tuple(found.tolist())

    def text(self, text: str) -> str:
        own = torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8) if text else torch.zeros(0).byte()
        length = torch.tensor([len(own)])
        self._broadcast(length)
        said = own if self.rank == 0 else torch.zeros(int(length), dtype=torch.uint8)
        if len(said):
            self._broadcast(said)
        return bytes(said.tolist()).decode()

    def score(self, work: Callable[[], float], given_up: type[Exception]) -> float:
        found = torch.zeros(2, dtype=torch.float64)
        if self.rank == 0:
            try:
                found[0] = work()
            except given_up:
                found[1] = 1.0
        self._broadcast(found)
        if found[1]:
            raise given_up
        return float(found[0])

    def collect(self, tensors: Tensors) -> list[Tensors]:
        if self.rank:
            data = torch.frombuffer(
                bytearray(save({name: t.contiguous() for name, t in tensors.items()})), dtype=torch.uint8
            )
            self._send(torch.tensor([len(data)]))
            self._send(data)
            return []
        found = [tensors]
        for rank in range(1, self.world):
            length = self._received(torch.zeros(1, dtype=torch.int64), rank)
            data = self._received(torch.zeros(int(length), dtype=torch.uint8), rank)
            found.append(load(data.numpy().tobytes()))
        return found

    def lines(self, own: Tensor) -> int:
        return sum(self._counts(own))

    def pieces(self, own: Tensor) -> Iterator[Tensor]:
        counts = self._counts(own)
        width = max(own[:1].numel() if len(own) else int(torch.tensor(own.shape[1:]).prod()), 1)
        each = max(1, PIECE // (width * own.itemsize))
        if self.rank:
            for piece in own.split(each) if len(own) else ():
                self._send(_bytes(piece.cpu()))
            return
        if len(own):
            yield own
        for rank in range(1, self.world):
            for start in range(0, counts[rank], each):
                piece = own.new_zeros((min(each, counts[rank] - start), *own.shape[1:]), device="cpu")
                yield self._received(_bytes(piece), rank).view(own.dtype).view(piece.shape)

    def _counts(self, own: Tensor) -> list[int]:
        """Lines of each rank."""
        counts = torch.zeros(self.world, dtype=torch.int64)
        counts[self.rank] = len(own)
        with _watched():
            dist.all_reduce(counts)
        return [int(count) for count in counts]

    def _broadcast(self, tensor: Tensor) -> None:
        with _watched():
            dist.broadcast(tensor, 0)

    def _send(self, tensor: Tensor) -> None:
        with _watched():
            dist.send(tensor, 0)

    def _received(self, tensor: Tensor, rank: int) -> Tensor:
        with _watched():
            dist.recv(tensor, rank)
        return tensor


def _bytes(tensor: Tensor) -> Any:
    """The bytes of a tensor, [n] uint8."""
    return tensor.contiguous().reshape(-1).view(torch.uint8)
