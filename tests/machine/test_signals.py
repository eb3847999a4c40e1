"""Signals: at once, or noted while a fit runs; handlers are put back."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from vgi_cli.errors import Interrupted
from vgi_cli.machine.work import watch_signals


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_stops_at_once_where_nothing_is_lost(number: int, code: int) -> None:
    before = signal.getsignal(number)
    with pytest.raises(Interrupted, match=f"stopped by {signal.Signals(number).name}") as caught, watch_signals():
        os.kill(os.getpid(), number)
    assert caught.value.exit_code == code
    assert signal.getsignal(number) == before


def test_a_signal_while_loops_are_compiled_is_no_failure_of_the_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    numba = pytest.importorskip("numba")
    from vgi_cli.maths import kernels

    tried = []

    def njit(*_: object, **__: object) -> object:
        tried.append(1)
        os.kill(os.getpid(), signal.SIGTERM)
        raise AssertionError("the signal was taken for a failure")

    monkeypatch.setattr(numba, "njit", njit)
    with pytest.raises(Interrupted, match="stopped by SIGTERM"), watch_signals():
        kernels.compiled_keep()
    assert len(tried) == 1


def test_a_loop_over_fits_does_not_go_on() -> None:
    rounds = []

    def loop() -> None:
        for number in range(3):
            try:
                with watch_signals():
                    rounds.append(number)
                    os.kill(os.getpid(), signal.SIGINT)
            except Exception:
                continue

    with pytest.raises(KeyboardInterrupt):
        loop()
    assert rounds == [0]


def test_a_deferred_signal_is_noted_and_a_second_one_stops() -> None:
    with watch_signals() as stop, stop.deferred():
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.signal == signal.SIGTERM
        with pytest.raises(Interrupted, match="stopped by SIGINT"):
            os.kill(os.getpid(), signal.SIGINT)


def test_other_threads_leave_the_handlers_alone() -> None:
    before = signal.getsignal(signal.SIGINT)
    seen = []

    def work() -> None:
        with watch_signals() as stop:
            seen.append((signal.getsignal(signal.SIGINT), stop.signal))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [(before, None)]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_what_is_ignored_stays_ignored(number: int) -> None:
    """By `nohup`, and Ctrl-C of what a script put into the background."""
    before = signal.signal(number, signal.SIG_IGN)
    try:
        with watch_signals() as stop:
            os.kill(os.getpid(), number)
        assert stop.signal is None and signal.getsignal(number) is signal.SIG_IGN
    finally:
        signal.signal(number, before)
