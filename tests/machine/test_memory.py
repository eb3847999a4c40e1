"""Free memory, chains in a file, and the line that says where the chains live."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest
import torch

from vgi_cli.chains.store.packed import Chains
from vgi_cli.data import make_table
from vgi_cli.errors import FitError
from vgi_cli.machine import memory
from vgi_cli.machine.memory import free_on, free_ram, in_words, mapped_lines, memory_for_chains, say_where
from vgi_cli.reporting import Lines


def test_chains_in_a_file_are_zeros_that_keep_what_is_written_and_have_no_name(tmp_path: Path) -> None:
    values = mapped_lines(tmp_path, 1000, 3, torch.float32)
    assert values.shape == (1000, 3) and not bool(values.any())
    values[:, 1] = torch.arange(1000.0)
    assert float(values.sum()) == 499500.0
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_met_before_the_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(memory.os, "posix_fallocate", full)
    with pytest.raises(
        FitError, match=r"cannot keep the chains in a file of 12 kB in '.*': No space left on"
    ) as caught:
        mapped_lines(tmp_path, 1000, 3, torch.float32)
    assert caught.value.hint is not None and "--set method.imputations" in caught.value.hint
    assert list(tmp_path.iterdir()) == []


def test_the_file_lies_in_the_nearest_folder_that_exists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(memory, "mapped_lines", lambda folder, *_: asked.append(folder))
    for folder in (tmp_path, tmp_path / "new" / "deeper"):
        memory_for_chains(torch.device("cpu"), folder).mapped(1, 1, torch.float32)
    monkeypatch.chdir(tmp_path)
    memory_for_chains(torch.device("cpu"), Path("new")).mapped(1, 1, torch.float32)
    assert asked == [tmp_path] * 3


def test_the_memory_of_the_cpu_is_ram() -> None:
    assert free_on(torch.device("cpu")) is None
    assert 0 < free_ram() < sys.maxsize


@pytest.mark.parametrize(("limit", "free"), [("max", 4096), ("1000", 700), ("9000", 4096)])
def test_a_container_has_its_own_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, free: int) -> None:
    for name, text in (
        ("meminfo", "MemTotal:  9 kB\nMemAvailable:  4 kB\n"),
        ("memory.max", limit + "\n"),
        ("memory.current", "400\n"),
        ("memory.stat", "anon 300\ninactive_file 100\n"),
    ):
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(memory, "MEMINFO", tmp_path / "meminfo")
    group = (str(tmp_path / "memory.max"), str(tmp_path / "memory.current"), "inactive_file")
    nowhere = str(tmp_path / "nowhere")
    monkeypatch.setattr(memory, "GROUPS", (group, (nowhere, nowhere, "")))
    assert free_ram() == free


def test_a_system_that_does_not_say_what_is_free_has_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "MEMINFO", tmp_path / "nowhere")
    monkeypatch.setattr(memory, "GROUPS", ())
    assert free_ram() > 10**8


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (0, "0 bytes"),
        (999, "999 bytes"),
        (1000, "1 kB"),
        (999_600, "1 MB"),
        (1_234_000_000, "1.23 GB"),
        (10**16, "1e+04 TB"),
    ],
)
def test_sizes_in_words(size: int, words: str) -> None:
    assert in_words(size) == words


def test_only_an_unusual_place_is_said(tmp_path: Path) -> None:
    x, missing = torch.zeros(4, 2), torch.ones(4, 2, dtype=torch.bool)
    said: list[str] = []
    for place in ("device", "host", "disk"):
        chains = Chains(make_table(x, missing), 5, place, lambda lines, K, dtype: torch.zeros(lines, K, dtype=dtype))
        say_where(chains, tmp_path / "new", Lines(said.append))
    assert said == [
        "imputations of the fit: 160 bytes, kept in main memory",
        f"imputations of the fit: 160 bytes, kept in a file in {tmp_path}",
    ]


@pytest.mark.skipif(not memory.RESIDENT.exists(), reason="the system does not tell")
def test_a_limit_holds_though_a_look_at_the_memory_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    looks, released = 0, threading.Event()

    def resident() -> int:
        nonlocal looks
        looks += 1
        if looks < 3:
            raise OSError(24, "Too many open files")
        return 100

    monkeypatch.setattr(memory, "resident", resident)
    monkeypatch.setattr(memory, "release", released.set)
    with memory.Ceiling() as ceiling:
        ceiling.hold(100)
        assert released.wait(10)
