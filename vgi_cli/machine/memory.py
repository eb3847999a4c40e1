"""What memory this machine has left for the chains, and chains in a file."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import Self

import torch
from torch import Tensor

from vgi_cli.background import Background, Ended
from vgi_cli.chains.store.packed import Chains
from vgi_cli.chains.store.placement import MemoryBudget, ample
from vgi_cli.errors import FitError
from vgi_cli.reporting import Reporter
from vgi_cli.scratch import release, zeros_in_file

MEMINFO = Path("/proc/meminfo")
RESIDENT = Path("/proc/self/statm")
INTERVAL = 0.01
"""Seconds between two looks at the memory of this process."""
NEAR = 0.75
"""Of the limit: from here on pages of mapped files are given back."""
GROUPS = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current", "inactive_file"),
    (
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        "/sys/fs/cgroup/memory/memory.usage_in_bytes",
        "total_inactive_file",
    ),
)
"""Limit and use of a container's memory (both versions of control groups), and what of the use is cached files."""

FOR_CHAINS = 0.3
"""Of what a limit leaves when a fit begins, for the chains: the rest is for what it computes."""


class Ceiling:
    """Keeps this process below a limit as far as mapped files go: their pages are given back when it comes near. Where
    the system does not tell how much memory a process has (it does on Linux), that is left to the system.

    limit  bytes; None: there is none yet
    """

    def __init__(self) -> None:
        self.limit: int | None = None
        self._over = Ended()
        self._thread: Background | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def hold(self, limit: int) -> None:
        """Begin to keep below so many bytes."""
        self.limit = limit
        if self._thread is None and RESIDENT.exists():
            self._thread = Background(lambda: self._watch(limit))

    def _watch(self, limit: int) -> None:
        while not self._over.wait(INTERVAL):
            with contextlib.suppress(OSError):  # no descriptor is free at this moment
                if resident() > NEAR * limit:
                    release()


def resident() -> int:
    """Bytes of memory that this process has."""
    return int(RESIDENT.read_bytes().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def memory_for_chains(
    device: torch.device, folder: Path | None, limit: int | None = None, processes: int = 1
) -> MemoryBudget:
    """What is free now; `folder`: where a file of chains may lie (it, or its nearest parent that exists); None:
    nowhere, they are kept in memory. limit: bytes that this process may have in all; None: what there is. So many
    `processes` on this machine share its memory."""
    if folder is None:
        return ample(device)
    folder, ram = existing(folder), free_ram() // processes
    if limit is not None:
        ram = min(ram, max(int(FOR_CHAINS * (limit - resident())), 0)) if RESIDENT.exists() else 0
    return MemoryBudget(free_on(device), ram, lambda lines, K, dtype: mapped_lines(folder, lines, K, dtype))


def existing(folder: Path) -> Path:
    """A folder, or its nearest parent that exists."""
    while not folder.is_dir():
        folder = folder.absolute().parent
    return folder


def free_on(device: torch.device) -> int | None:
    """Free bytes of a device that has memory of its own; None for the CPU."""
    if device.type == "cuda":
        held = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0]) + held
    return None


def free_ram() -> int:
    """Bytes that this process can still take: of the machine, and of the container that it runs in."""
    if MEMINFO.exists():
        lines = dict(line.split(":", 1) for line in MEMINFO.read_text(encoding="ascii").splitlines())
        free = int(lines["MemAvailable"].split()[0]) * 1024
    else:
        free = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limited = [_left(Path(limit), Path(used), cached) for limit, used, cached in GROUPS if Path(limit).exists()]
    return min([free, *limited])


def _left(limit: Path, used: Path, cached: str) -> int:
    most = limit.read_text(encoding="ascii").strip()
    if most == "max":
        return sys.maxsize
    counts = dict(line.split() for line in (limit.parent / "memory.stat").read_text(encoding="ascii").splitlines())
    return int(most) - int(used.read_text(encoding="ascii")) + int(counts[cached])


def mapped_lines(folder: Path, lines: int, K: int, dtype: torch.dtype) -> Tensor:
    """Zeros [lines, K] in a new file of a folder, mapped into memory (vgi_cli/scratch.py). FitError where there is no
    room for it."""
    try:
        return zeros_in_file(folder, (lines, K), dtype)
    except OSError as error:
        raise FitError(
            f"cannot keep the chains in a file of {in_words(lines * K * dtype.itemsize)} in '{folder}': "
            f"{error.strerror}",
            "choose a folder on a larger disk with --out, or take a smaller --set method.imputations",
        ) from None


def say_where(chains: Chains, folder: Path | None, reporter: Reporter) -> None:
    """One line on where the chains live; on the device, where they are expected, it is a detail."""
    device = chains.x.device
    size = f"imputations of the fit: {in_words(chains.size)}"
    if chains.place == "device":
        reporter.detail(f"{size} on {device}")
    elif chains.place == "host":
        reporter.say(f"{size}, kept in main memory")
    elif folder is not None:
        reporter.say(f"{size}, kept in a file in {existing(folder)}")


def in_words(size: int) -> str:
    """A number of bytes: `0 bytes`, `1.2 GB`."""
    number, units = float(size), ["bytes", "kB", "MB", "GB", "TB"]
    while number >= 999.5 and len(units) > 1:
        number, units = number / 1000, units[1:]
    return f"{number:.3g} {units[0]}"
