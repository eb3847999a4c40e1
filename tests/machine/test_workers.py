"""Processes that share work: what they make, what goes wrong in them, and that they end."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.selection import first
from vgi_cli.completers.base import GivenUp
from vgi_cli.errors import FitError
from vgi_cli.machine import workers as machine
from vgi_cli.machine.work import OutOfTime
from vgi_cli.machine.workers import Forks, usable_cores, workers_for
from vgi_cli.workers import ONE_PROCESS, Tell, Workers, on_all_cores, room_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks are made on Linux only")


def silent(line: str) -> None:
    raise AssertionError(line)


def forks(count: int, lost: Callable[[str], None] = silent) -> Forks:
    return Forks(count, lost, prepare=lambda: None)


def tripled(item: int, tell: Tell) -> Tensor:
    tell(0.5)
    return torch.full((item,), 3.0 * item, dtype=torch.float64)


@pytest.mark.parametrize("several", [ONE_PROCESS, forks(1), forks(2), forks(5)])
def test_what_is_made_does_not_depend_on_who_makes_it(several: Workers) -> None:
    shares: list[float] = []
    items = [4, 0, 2, 7, 1]
    made = list(several.in_order(tripled, items, shares.append))
    assert all(torch.equal(one, tripled(item, shares.append)) for one, item in zip(made, items, strict=True))
    found = dict(several.each(tripled, items, room=room_of(10, 10)))
    assert sorted(found) == list(range(5)) and all(torch.equal(found[i], made[i]) for i in range(5))


def test_shares_grow_to_the_whole() -> None:
    def slow(item: int, tell: Tell) -> int:
        for step in range(100):
            tell(step / 100)
        return os.getpid()

    shares: list[float] = []
    pids = set(forks(2).in_order(slow, range(4), shares.append))
    assert len(pids) == 2 and os.getpid() not in pids
    assert shares == sorted(shares) and shares[-1] == 1.0 and 8 < len(shares) < 100


@pytest.mark.parametrize(
    "tensor",
    [
        torch.tensor(3.5),
        torch.arange(6).view(2, 3).mT,
        torch.tensor([True, False]),
        torch.zeros(0, 3),
        torch.ones(3, dtype=torch.bfloat16),
        torch.nn.Parameter(torch.ones(2)),
    ],
)
def test_tensors_come_back_as_they_are(tensor: Tensor) -> None:
    back, _ = forks(2).in_order(lambda _, tell: tensor, [0, 1])
    assert torch.equal(back, tensor) and back.dtype is tensor.dtype and back.shape == tensor.shape
    assert type(back) is type(tensor)


@pytest.mark.parametrize("error", [FitError("it fell over", "hold it"), GivenUp(), OutOfTime(), ValueError(7)])
def test_what_is_raised_in_a_fork_comes_out(error: Exception) -> None:
    def fails(item: int, tell: Tell) -> int:
        if item == 1:
            raise error
        return item

    with pytest.raises(type(error)) as caught:
        list(forks(2).each(fails, range(4)))
    assert caught.value.args == error.args and getattr(caught.value, "hint", "") == getattr(error, "hint", "")
    assert "in fails" in caught.value.__notes__[0]  # where it was raised


def test_what_a_caller_is_told_with_may_end_the_work() -> None:
    def ends(share: float) -> None:
        raise OutOfTime

    with pytest.raises(OutOfTime):
        list(forks(2).each(tripled, range(9), ends))
    assert not running()


def running() -> list[int]:
    """Children of this process that have not ended."""
    found = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return [int(pid) for pid in found]


@pytest.mark.parametrize("how", ["killed", "memory"])
def test_the_work_of_a_fork_that_is_lost_is_done_all_the_same(how: str) -> None:
    here = os.getpid()

    def lost(item: int, tell: Tell) -> int:
        if item == 2 and os.getpid() != here:
            if how == "memory":
                raise MemoryError
            os.kill(os.getpid(), signal.SIGKILL)
        return item

    said: list[str] = []
    several = forks(2, said.append)
    assert list(several.in_order(lost, range(6))) == list(range(6))
    assert len(said) == 1 and "of 2 processes that shared the work" in said[0] and "ended from outside" in said[0]
    assert several.count == 1 and not running()


@pytest.mark.parametrize("started", [0, 1])
def test_what_the_system_does_not_let_start_is_done_here(started: int, monkeypatch: pytest.MonkeyPatch) -> None:
    real, begun = multiprocessing.process.BaseProcess.start, list[object]()

    def start(process: Any) -> None:
        if len(begun) == started:
            raise BlockingIOError(11, "Resource temporarily unavailable")
        begun.append(process)
        real(process)

    monkeypatch.setattr(multiprocessing.process.BaseProcess, "start", start)
    said: list[str] = []
    several = forks(2, said.append)
    assert list(several.in_order(lambda item, tell: 2 * item, range(5))) == [0, 2, 4, 6, 8]
    assert said == [] if started else "lets the program start no further process" in said[0]


def test_a_fork_makes_no_forks_and_computes_on_one_thread() -> None:
    def within(item: int, tell: Tell) -> tuple[int, int, bool]:
        pids = set(forks(2).in_order(lambda _, tell: os.getpid(), range(4)))
        return len(pids), torch.get_num_threads(), workers_for(4, silent) is ONE_PROCESS

    assert list(forks(2).in_order(within, range(2))) == [(1, 1, True)] * 2


def test_no_more_processes_than_there_is_memory_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "free_ram", lambda: 5 * machine.ROOM)  # for two, of which each leaves as much free
    assert len(set(forks(4).in_order(lambda _, tell: os.getpid(), range(8)))) <= 2
    assert set(forks(4).in_order(lambda _, tell: os.getpid(), range(8), room=3 * machine.ROOM)) == {os.getpid()}


def test_how_many_there_are(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    quota = tmp_path / "cpu.max"
    monkeypatch.setattr(machine, "QUOTA", quota)
    monkeypatch.setattr(machine, "cores", lambda: 64)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert usable_cores() == machine.MOST
    quota.write_text("max 100000\n")
    assert usable_cores() == machine.MOST
    quota.write_text("350000 100000\n")
    assert usable_cores() == 3
    monkeypatch.setenv("OMP_NUM_THREADS", "2,1")
    assert usable_cores() == 2
    assert workers_for(None, silent) is ONE_PROCESS and workers_for(1, silent) is ONE_PROCESS  # a program calls us
    assert workers_for(5, silent).count == 5  # it says so
    with on_all_cores():
        assert workers_for(None, silent).count == 2 and workers_for(1, silent) is ONE_PROCESS
        monkeypatch.setattr(machine.sys, "platform", "darwin")
        assert workers_for(None, silent) is ONE_PROCESS


PROGRAM = """
    import os
    import time
    from vgi_cli.machine.workers import Forks

    def slow(item, tell):
        os.write(1, b"%d\\n" % item)
        time.sleep(60)

    list(Forks(2, print, prepare=lambda: None).each(slow, range(2)))
"""


@pytest.mark.parametrize("number", first(1, [signal.SIGKILL, signal.SIGINT]))
def test_forks_end_with_their_program(number: int) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PROGRAM)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as program:
        assert program.stdout is not None
        assert sorted([program.stdout.readline(), program.stdout.readline()]) == ["0\n", "1\n"]
        children = Path(f"/proc/{program.pid}/task/{program.pid}/children").read_text().split()
        assert len(children) == 2
        program.send_signal(number)
        program.wait(20)
        deadline = time.monotonic() + 20
        while any(state(pid) != "Z" for pid in children):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert program.stdout.read() == ""


def state(pid: str) -> str:
    """`Z` of a process that has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"
