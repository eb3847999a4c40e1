"""One writer a run: the second is told who the first is; locks of the dead are recognised, on other machines too."""

from __future__ import annotations

import errno
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.fitting.fakes import new_run
from vgi_cli.errors import FitError, UsageError
from vgi_cli.runs import lock
from vgi_cli.runs.folder import RunFolder
from vgi_cli.runs.lock import HEARTBEAT, LOCK, SILENCE, boot_id, sole_writer
from vgi_cli.version import said

HOLDER = """
import sys
from pathlib import Path
from vgi_cli.runs.lock import sole_writer
from vgi_cli.version import said
with said(["fit", "my data.csv", "--out", "run"]), sole_writer(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def left(path: Path, silent: float = 0.0, **changes: Any) -> Path:
    """The lock of a process of this machine that has ended, or of another one; touched so many seconds ago."""
    owner = {
        "host": socket.gethostname(),
        "boot": boot_id(),
        "pid": 2**22 + 1,
        "since": "2026-01-02T03:04:05+00:00",
        "command": "vgi fit a.csv",
        "token": "1",
    }
    file = path / LOCK
    file.write_text(json.dumps({**owner, **changes}))
    now = file.stat().st_mtime
    os.utime(file, (now - silent, now - silent))
    return file


def takes(path: Path) -> bool:
    """Whether the folder can be written now; then its lock says so meanwhile, and is gone afterwards."""
    try:
        with sole_writer(path):
            assert json.loads((path / LOCK).read_text())["pid"] == os.getpid()
    except UsageError:
        return False
    assert list(path.iterdir()) == []
    return True


@pytest.fixture
def without_flock(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object) -> None:
        raise OSError(errno.EBADF, "no locks")

    monkeypatch.setattr(lock.fcntl, "flock", none)


def test_the_second_is_told_who_the_first_is_and_a_killed_one_leaves_the_folder_free(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as first:
        assert first.stdout is not None and first.stdout.readline() == "held\n"
        with pytest.raises(UsageError) as caught, sole_writer(tmp_path):
            pass
        since = json.loads((tmp_path / LOCK).read_text())["since"]
        assert caught.value.message == (
            f"run '{tmp_path}' is being written by process {first.pid} on host '{socket.gethostname()}' since {since}: "
            "vgi fit 'my data.csv' --out run"
        )
        assert caught.value.hint == "wait for it, or stop it"
        first.kill()
        first.wait()
        assert (tmp_path / LOCK).exists()
        assert takes(tmp_path)


def test_the_lock_goes_with_the_folder(tmp_path: Path) -> None:
    """`--force` moves a run away while it holds it."""
    (tmp_path / "run").mkdir()
    with sole_writer(tmp_path / "run"):
        (tmp_path / "run").rename(tmp_path / "other")
    assert list((tmp_path / "other").iterdir()) == []


def test_a_lock_of_this_machine_is_stale_where_the_system_knows_of_no_writer(tmp_path: Path) -> None:
    left(tmp_path, pid=os.getpid())
    assert takes(tmp_path)
    left(tmp_path, host="another-container")
    assert takes(tmp_path)


@pytest.mark.usefixtures("without_flock")
def test_where_the_file_system_has_no_locks_the_process_is_looked_for(tmp_path: Path) -> None:
    left(tmp_path)
    assert takes(tmp_path)
    left(tmp_path, pid="x")
    assert takes(tmp_path)
    left(tmp_path, pid=os.getpid())
    assert not takes(tmp_path)
    left(tmp_path, host="another-container")
    assert not takes(tmp_path)
    left(tmp_path, host="another-container", silent=SILENCE + 1)
    assert takes(tmp_path)
    with sole_writer(tmp_path), pytest.raises(UsageError, match="is being written by process"), sole_writer(tmp_path):
        pass


def test_a_lock_from_before_this_machine_was_started_anew_is_stale(tmp_path: Path) -> None:
    left(tmp_path, boot="0")
    assert takes(tmp_path)


def test_a_lock_of_another_machine_is_stale_after_silence_only(tmp_path: Path) -> None:
    file = left(tmp_path, host="elsewhere", boot="0", pid=7, silent=SILENCE - 60)
    with pytest.raises(UsageError) as caught, sole_writer(tmp_path):
        pass
    assert caught.value.message == (
        f"run '{tmp_path}' is being written by process 7 on host 'elsewhere' since 2026-01-02T03:04:05+00:00: "
        "vgi fit a.csv"
    )
    assert caught.value.hint == (
        f"its last sign of life was {SILENCE - 60:.0f} s ago, and after {SILENCE:.0f} s of silence it counts as dead "
        f"(60 s from now); if you know that it is, remove its lock: rm {file}"
    )
    assert [path.name for path in tmp_path.iterdir()] == [LOCK]
    left(tmp_path, host="elsewhere", boot="0", silent=SILENCE + 1)
    assert takes(tmp_path)


def test_machines_that_are_all_called_localhost_are_not_taken_for_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock.socket, "gethostname", lambda: "localhost")
    left(tmp_path, boot="0")
    assert not takes(tmp_path)


@pytest.mark.parametrize("text", ["", "nothing", "[1]"])
def test_a_lock_that_cannot_be_read_is_stale_after_silence(tmp_path: Path, text: str) -> None:
    (tmp_path / LOCK).write_text(text)
    with pytest.raises(UsageError, match=r"is being written by another process$"), sole_writer(tmp_path):
        pass
    left(tmp_path, silent=SILENCE + 1)
    (tmp_path / LOCK).write_text(text)
    os.utime(tmp_path / LOCK, (0, 0))
    assert takes(tmp_path)


def test_a_lock_that_took_the_place_of_a_stale_one_is_left(tmp_path: Path) -> None:
    stale = json.loads(left(tmp_path, host="elsewhere").read_text())
    left(tmp_path, host="third", token="2")
    descriptor = os.open(tmp_path, os.O_RDONLY)
    lock.Lock(tmp_path, descriptor).clear(stale)
    os.close(descriptor)
    assert json.loads((tmp_path / LOCK).read_text())["host"] == "third"
    assert [path.name for path in tmp_path.iterdir()] == [LOCK]


def test_a_writer_that_was_taken_for_dead_saves_nothing_more(tmp_path: Path) -> None:
    run = new_run(tmp_path / "run")
    with sole_writer(run.path):
        run.save({"model": {}}, {"epochs": 0})
        (run.path / LOCK).unlink()
        run.save({"model": {}}, {"epochs": 1})  # removed by hand: the lock is made again
        assert (run.path / LOCK).exists()
        left(run.path, host="elsewhere", pid=7)
        with pytest.raises(FitError, match=r"is no longer written by this process: process 7 on host 'elsewhere' has"):
            run.save({"model": {}}, {"epochs": 2})
    assert RunFolder.open(run.path).manifest["epochs"] == 1
    assert (run.path / LOCK).exists()


def test_a_writer_is_heard_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert 3 * HEARTBEAT < SILENCE
    monkeypatch.setattr(lock, "HEARTBEAT", 0.01)
    with said(["fit"]), sole_writer(tmp_path):
        file = tmp_path / LOCK
        os.utime(file, (0, 0))
        for _ in range(500):
            if file.stat().st_mtime > 0:
                break
            time.sleep(0.01)
        assert file.stat().st_mtime > 0
