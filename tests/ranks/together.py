"""Start processes that share their work, as torchrun does, but without its agent."""

from __future__ import annotations

import contextlib
import os
import random
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]


class Ended(NamedTuple):
    """Exit code of a process, and what it wrote."""

    code: int
    out: str
    err: str


def free_port() -> int:
    """A port of this machine that nobody uses now; one that the system gives to nobody unasked, so that no connection
    of another process takes it until the ranks have it."""
    while True:
        port = random.SystemRandom().randrange(20_000, 32_000)
        with socket.socket() as own, contextlib.suppress(OSError):
            own.bind(("127.0.0.1", port))
            return port


def started(world: int, command: Sequence[str | Path], folder: Path) -> list[subprocess.Popen[str]]:
    """So many processes of `python …` in a folder, each with its rank."""
    port, processes = free_port(), []
    for rank in range(world):
        said = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": world, "LOCAL_WORLD_SIZE": world, "MASTER_PORT": port}
        environment = os.environ | {name: str(value) for name, value in said.items()}
        environment |= {"MASTER_ADDR": "127.0.0.1", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
        processes.append(
            subprocess.Popen(
                [sys.executable, *map(str, command)],
                cwd=folder,
                env=environment,
                text=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        )
    return processes


def ended(processes: Sequence[subprocess.Popen[str]], limit: float = 300.0) -> list[Ended]:
    """What became of processes, which end within so many seconds, or are killed and the test fails."""
    try:
        said = [process.communicate(timeout=limit) for process in processes]
    finally:
        for process in processes:
            process.kill()
    return [Ended(process.returncode, *texts) for process, texts in zip(processes, said, strict=True)]


def together(world: int, command: Sequence[str | Path], folder: Path) -> list[Ended]:
    """So many processes of `python …`, by rank."""
    return ended(started(world, command, folder))
