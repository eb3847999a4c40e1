"""Where the numbers are computed: the device by name, and the number of threads."""

from __future__ import annotations

import ctypes
import functools
import os
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from vgi_cli.errors import UsageError, nearest

if TYPE_CHECKING:  # `vgi doctor` names devices where torch does not load
    import torch

NAMES = ("auto", "cpu", "cuda", "mps")

WORK_PER_THREAD = 200_000_000
"""Multiplications of one step below which a second thread costs more than it brings (synchronisation)."""


def check_device_name(name: str, where: str = "--device") -> None:
    """UsageError unless the name is auto, cpu, cuda, cuda:i or mps."""
    if not re.fullmatch(r"auto|cpu|cuda(:[0-9]+)?|mps", name):
        raise UsageError(f"{where}: unknown device '{name}'", nearest(name, NAMES))


def resolve_device(name: str, where: str = "--device") -> torch.device:
    """The device of that name; `auto` takes the first GPU that CUDA sees, else the CPU. UsageError when absent, and for
    an Apple GPU, which has no float64: keyed noise, draws and likelihoods need it."""
    check_device_name(name, where)
    import torch

    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name == "mps":
        raise UsageError(
            f"{where} mps: an Apple GPU computes in single precision only, and draws and likelihoods need double",
            "use --device cpu or --device auto",
        )
    if name.startswith("cuda"):
        if not torch.cuda.is_available():
            build = "" if torch.version.cuda else " (this torch is built for the CPU only)"
            raise UsageError(
                f"{where} {name}: expected a CUDA GPU, found none{build}", "use --device cpu or --device auto"
            )
        index = int(name.partition(":")[2] or 0)
        if index >= torch.cuda.device_count():
            raise UsageError(
                f"{where} {name}: expected a GPU number below {torch.cuda.device_count()}", "use --device cuda"
            )
    return torch.device(name)


def available(name: str) -> bool:
    """Whether this machine has a device of that name."""
    try:
        resolve_device(name)
    except UsageError:
        return False
    return True


def cores() -> int:
    """CPU cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def default_threads(work: float) -> int:
    """Threads for a fit whose step costs about `work` multiplications: one for small steps, at most four, and no more
    than OMP_NUM_THREADS allows where that is a number."""
    if _alone.get():
        return 1
    return max(1, min(cores(), 4, allowed_threads() or 4, int(work / WORK_PER_THREAD)))


def allowed_threads() -> int | None:
    """What OMP_NUM_THREADS says, where that is a number."""
    said = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0]
    return int(said) if said.isdecimal() else None


def set_threads(threads: int, where: str = "--threads") -> None:
    """Use that many threads inside torch, but for work that is held to one (`one_thread`). UsageError where the system
    does not let so many be started: the library that starts them would end the process without a word."""
    import torch

    if threads > cores() and (most := _startable(threads)) < threads:
        raise UsageError(
            f"{where} {threads}: this system lets the program start {most} threads",
            f"give a whole number from 1 to {cores()}, the cores that the program may use",
        )
    if _alone.get():
        return
    before = _before.get()
    if before is not None:
        before.append(torch.get_num_threads())
    torch.set_num_threads(threads)
    _keep_freed_memory()


_before: ContextVar[list[int] | None] = ContextVar("_before", default=None)
"""The numbers of threads that torch had before each `set_threads` within `kept_threads`."""


@contextmanager
def kept_threads() -> Iterator[None]:
    """Leave torch the number of threads that it has outside, whatever is set within, as the process may be of a program
    that calls us. Does not load torch."""
    numbers: list[int] = []
    token = _before.set(numbers)
    try:
        yield
    finally:
        _before.reset(token)
        if numbers:
            import torch

            torch.set_num_threads(numbers[0])


_alone: ContextVar[bool] = ContextVar("_alone", default=False)
"""Whether this is within `one_thread`."""


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute on one thread inside torch, whatever is set within: rounding then depends on no number of threads."""
    import torch

    before, token = torch.get_num_threads(), _alone.set(True)
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
        _alone.reset(token)


def _startable(count: int) -> int:
    """How many of `count` threads can be started at once."""
    done, started = threading.Event(), 0
    try:
        for started in range(count):  # noqa: B007 (the number is wanted after a failure)
            threading.Thread(target=done.wait, daemon=True).start()
        return count
    except RuntimeError:
        return started
    finally:
        done.set()


@functools.cache
def _keep_freed_memory() -> None:
    """Let glibc reuse freed memory instead of returning it to the system after every temporary tensor.

    By default blocks of a few megabytes are mapped and unmapped, page by page, on every operation: measured, a fifth of
    the time of a mixture's EM. No effect with another C library.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        trim_threshold, top_pad, mmap_threshold = -1, -2, -3
        mallopt(mmap_threshold, 32 << 20)
        mallopt(trim_threshold, 1 << 30)
        mallopt(top_pad, 64 << 20)
