"""Devices by name and threads by work."""

from __future__ import annotations

import threading

import pytest
import torch

from vgi_cli.errors import UsageError
from vgi_cli.machine import device


@pytest.mark.parametrize("name", ["gpu", "cuda:", "cuda:x", "cpu:0", ""])
def test_unknown_names(name: str) -> None:
    with pytest.raises(UsageError, match="--device: unknown device"):
        device.resolve_device(name)


def test_cpu_and_auto() -> None:
    assert device.resolve_device("cpu") == torch.device("cpu")
    assert device.resolve_device("auto").type == ("cuda" if torch.cuda.is_available() else "cpu")
    assert device.available("cpu") and not device.available("cuda:99")


def test_a_gpu_number_that_does_not_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert device.resolve_device("cuda:1") == torch.device("cuda:1")
    with pytest.raises(UsageError, match=r"VGI_DEVICE cuda:2: expected a GPU number below 2"):
        device.resolve_device("cuda:2", "VGI_DEVICE")


def test_apple_gpus_are_refused() -> None:
    with pytest.raises(UsageError, match="--device mps: an Apple GPU computes in single precision only") as caught:
        device.resolve_device("mps")
    assert caught.value.hint == "use --device cpu or --device auto" and not device.available("mps")


def test_threads_by_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(device, "cores", lambda: 8)
    assert [device.default_threads(work) for work in (0, 1e8, 4.1e8, 1e12)] == [1, 1, 2, 4]
    monkeypatch.setattr(device, "cores", lambda: 2)
    assert device.default_threads(1e12) == 2


def test_default_threads_heed_omp_num_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "cores", lambda: 8)
    for said, threads in (("", 4), ("2", 2), ("3,1", 3), ("many", 4), ("0", 4), ("16", 4)):
        monkeypatch.setenv("OMP_NUM_THREADS", said)
        assert device.default_threads(1e9) == threads
    monkeypatch.delenv("OMP_NUM_THREADS")
    assert device.default_threads(1e9) == 4 and device.default_threads(1.0) == 1


def test_threads_that_the_system_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[threading.Thread] = []

    def start(thread: threading.Thread) -> None:
        if len(started) == 7:
            raise RuntimeError("can't start new thread")
        started.append(thread)

    before = torch.get_num_threads()
    monkeypatch.setattr(device.threading.Thread, "start", start)
    monkeypatch.setattr(device, "cores", lambda: 4)
    with pytest.raises(UsageError, match="--threads 8: this system lets the program start 7 threads") as caught:
        device.set_threads(8)
    assert caught.value.hint == "give a whole number from 1 to 4, the cores that the program may use"
    assert torch.get_num_threads() == before


def test_threads_are_put_back() -> None:
    before = torch.get_num_threads()
    with device.kept_threads():
        device.set_threads(before + 1)
        with device.kept_threads():
            device.set_threads(before + 2)
        assert torch.get_num_threads() == before + 1
        device.set_threads(before + 3)
    assert torch.get_num_threads() == before
    with pytest.raises(UsageError, match="unknown device"), device.kept_threads():
        device.check_device_name(str(device.set_threads(before + 1)))
    assert torch.get_num_threads() == before
    with device.kept_threads():  # what others set within is theirs
        torch.set_num_threads(before + 1)
    assert torch.get_num_threads() == before + 1
    torch.set_num_threads(before)
