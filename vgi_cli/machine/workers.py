"""Several processes for pieces of work of which none needs another: forks of this one, which see all that it has in
memory, and hand back what they make through pipes.

Forks are made where that is safe: on Linux, by a command in a process of its own (`on_all_cores`), or where somebody
said how many threads. A program that calls the Python API may have threads of its own, which a fork would lose.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import io
import multiprocessing
import multiprocessing.connection
import os
import pickle
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, cast

import torch

from vgi_cli.machine.device import allowed_threads, cores, one_thread
from vgi_cli.machine.memory import free_ram
from vgi_cli.maths import compiled
from vgi_cli.workers import ONE_PROCESS, Item, Made, Tell, Workers, all_cores, tell_nobody

MOST = 16
"""Most processes that are used where nobody says how many."""
ROOM = 128 << 20
"""Bytes that a process needs at least."""
SOON = 0.1
"""Of a share by which a piece has to have come on before its process tells of it."""
PR_SET_PDEATHSIG = 1
"""Of prctl(2): the signal that a process gets when the one that made it ends."""
QUOTA = Path("/sys/fs/cgroup/cpu.max")
"""How much of the processors the container of this process may use, where there is such a limit."""

_inside: ContextVar[bool] = ContextVar("_inside", default=False)
"""Whether this process is one that another has made for its work."""


def workers_for(threads: int | None, lost: Callable[[str], None]) -> Workers:
    """Those of a command: as many as it was told to use threads, else as many as it may have cores.

    threads  what was said; None: nothing
    lost     is told, in words, where a process was lost and this one does its work
    """
    count = threads if threads is not None else usable_cores() if all_cores() else 1
    return Forks(count, lost) if count > 1 and sys.platform == "linux" and not _inside.get() else ONE_PROCESS


def usable_cores() -> int:
    """Cores that this process may keep busy, MOST at most: those that it may run on, no more than the limit of its
    container is worth, nor than OMP_NUM_THREADS where that is a number."""
    limits = [cores(), MOST]
    if (allowed := allowed_threads()) is not None:
        limits.append(allowed)
    with contextlib.suppress(OSError, ValueError):
        quota, period = QUOTA.read_text().split()
        limits.append(int(quota) // int(period))  # `max`: there is none
    return max(1, min(limits))


class Forks(Workers):
    """Processes that are forks of this one."""

    def __init__(
        self, count: int, lost: Callable[[str], None], prepare: Callable[[], None] = compiled.load_rows
    ) -> None:
        """prepare: loads the compiled loops of mixtures, which every fork would have to load else."""
        self.count, self._lost, self._prepare = count, lost, prepare

    def each(
        self,
        task: Callable[[Item, Tell], Made],
        items: Sequence[Item],
        tell: Tell = tell_nobody,
        *,
        room: int = 0,
        loops: bool = True,
    ) -> Iterator[tuple[int, Made]]:
        count = min(self.count, len(items), int(free_ram() // (2 * max(room, ROOM))))

        def here(item: Item, tell: Tell) -> Made:
            """As a fork does it."""
            with one_thread():
                return task(item, tell)

        if count < 2 or _inside.get():
            yield from super().each(here, items, tell, room=room, loops=loops)
            return
        if loops:
            self._prepare()
        with _Team(task, items, count) as team:
            yield from team.made(tell)
            left, why = team.left, team.why
        if left:
            self.count = 1
            self._lost(f"{why}: one process does what is left")
            done = len(items) - len(left)
            for place in left:
                yield place, here(items[place], lambda share: tell((done + share) / len(items)))  # noqa: B023
                done += 1


class _Team:
    """Forks at work.

    left  the places of the items that were not done, once all forks have ended
    why   in words
    """

    def __init__(self, task: Callable[[Any, Tell], Any], items: Sequence[Any], count: int) -> None:
        self._task, self._items, self._count = task, items, count
        self._shares: dict[int, float] = {}
        self._open: dict[Connection[Any, Any], int | None] = {}  # of each fork, and the place of its item
        self._forks: list[Any] = []
        self._lost = 0
        self.left = list(range(len(items)))

    @property
    def why(self) -> str:
        if not self._forks:
            return "the system lets the program start no further process"
        were = "was" if self._lost == 1 else "were"
        return (
            f"{self._lost} of {len(self._forks)} processes that shared the work {were} ended from outside, as a system "
            "does that is short of memory"
        )

    def __enter__(self) -> _Team:
        context = multiprocessing.get_context("fork")
        try:
            with warnings.catch_warnings():  # of threads that a fork would lose: none of them is needed there
                warnings.simplefilter("ignore", DeprecationWarning)
                for _ in range(self._count):
                    here, there = context.Pipe()
                    others = [*self._open, here]
                    fork = context.Process(target=self._serve, args=(there, others, os.getpid()), daemon=True)
                    try:
                        fork.start()
                    except OSError:  # those that there are do the work
                        here.close()
                        break
                    finally:
                        there.close()
                    self._forks.append(fork)
                    self._open[here] = None
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for fork in self._forks:
            fork.kill()
        for fork in self._forks:
            fork.join()
            fork.close()
        for pipe in self._open:
            pipe.close()

    def made(self, tell: Tell) -> Iterator[tuple[int, Any]]:
        """What the forks make, as it comes; ends when all is done, or no fork is left."""
        waiting = list(reversed(self.left))
        for pipe in list(self._open):
            self._give(pipe, waiting)
        while self._open:
            for pipe in cast("list[Connection[Any, Any]]", multiprocessing.connection.wait(list(self._open))):
                try:
                    what, value = pickle.loads(pipe.recv_bytes())
                except (EOFError, OSError):
                    place = self._open.pop(pipe)
                    pipe.close()
                    if place is not None:
                        self._lost += 1
                        waiting.append(place)
                    continue
                place = self._open[pipe]
                assert place is not None
                if what == "raised":
                    raise value
                self._shares[place] = value if what == "share" else 1.0
                if what == "made":
                    self._give(pipe, waiting)
                    self.left.remove(place)
                    yield place, value
                tell(sum(self._shares.values()) / len(self._items))

    def _give(self, pipe: Connection[Any, Any], waiting: list[int]) -> None:
        """Give a fork its next item; one that there is none for ends."""
        self._open[pipe] = place = waiting.pop() if waiting else None
        with contextlib.suppress(OSError):  # it was lost: that shows when it is asked
            pipe.send_bytes(_bytes(place))

    def _serve(self, pipe: Connection[Any, Any], others: Sequence[Connection[Any, Any]], parent: int) -> None:
        """What a fork does."""
        _end_with(parent)
        for other in others:  # so that none stays open when the process that reads it ends
            other.close()
        _inside.set(True)
        gc.freeze()  # what is there already is shared with the others as long as nobody looks it through
        with one_thread():
            while (place := pickle.loads(pipe.recv_bytes())) is not None:
                if not self._carry_out(place, pipe):
                    return  # as one that the system has ended

    def _carry_out(self, place: int, pipe: Connection[Any, Any]) -> bool:
        """What a fork makes of an item, handed back; False where it lacks the memory."""
        told = 0.0

        def tell(share: float) -> None:
            nonlocal told
            if share >= told + SOON:
                told = share
                pipe.send_bytes(_bytes(("share", share)))

        try:
            made = self._task(self._items[place], tell)
        except MemoryError:
            return False
        except Exception as error:
            error.add_note("".join(traceback.format_exception(error)))
            pipe.send_bytes(_bytes(("raised", error)))
        else:
            pipe.send_bytes(_bytes(("made", made)))
        return True


class _Pickler(pickle.Pickler):
    """Tensors as their numbers: what torch would make of them needs memory that processes share, of which a container
    may have little."""

    def reducer_override(self, value: Any) -> Any:
        """How a value is put together again."""
        if type(value) is torch.Tensor and not value.requires_grad and value.is_cpu:
            with contextlib.suppress(TypeError):  # of a type that numpy does not have
                return torch.from_numpy, (value.numpy(),)
        return NotImplemented


def _bytes(value: Any) -> bytes:
    """What goes through a pipe between a process and its fork, and nowhere else."""
    out = io.BytesIO()
    _Pickler(out, pickle.HIGHEST_PROTOCOL).dump(value)
    return out.getvalue()


def _end_with(parent: int) -> None:
    """Let this process end when the one that made it does, and leave signals to that one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it has ended before that was asked for
        os.kill(os.getpid(), signal.SIGKILL)
