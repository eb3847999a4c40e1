"""A thread beside a command: it runs, ends, and keeps nobody waiting where it cannot begin."""

from __future__ import annotations

import threading
import time

import pytest

from vgi_cli import background
from vgi_cli.background import Background, Ended


def test_it_runs_and_is_waited_for() -> None:
    going, done = threading.Event(), []

    def run() -> None:
        going.wait(10)
        done.append(threading.get_ident())

    one = Background(run)
    assert not done
    going.set()
    one.join()
    assert done and done[0] != threading.get_ident()


def test_a_lack_of_memory_ends_it_without_a_word(capfd: pytest.CaptureFixture[str]) -> None:
    def run() -> None:
        raise MemoryError

    Background(run).join()
    assert capfd.readouterr().err == ""


def test_one_that_cannot_begin_keeps_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "LATE", 0.05)
    monkeypatch.setattr(background._thread, "start_new_thread", lambda *_: None)
    began = time.monotonic()
    Background(lambda: None).join()
    assert time.monotonic() - began < 5


def test_a_word_that_something_has_ended() -> None:
    ended, heard = Ended(), []
    assert not ended.wait(0.01)
    several = [Background(lambda: heard.append(ended.wait(10))) for _ in range(3)]
    ended.set()
    ended.set()
    for one in several:
        one.join()
    assert heard == [True] * 3 and ended.wait(0)


def test_it_is_said_though_one_who_waited_ended_before_it_let_go() -> None:
    ended = Ended()
    ended.set()
    ended._lock.acquire()  # as by a thread that then met a lack of memory
    ended.set()
    assert ended.wait(0)
