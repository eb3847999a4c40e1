"""Who writes a run: one process at a time, which says in the folder who it is.

Two things guard a folder. The system's lock (`flock`) ends with the process that holds it, and every process of one
machine sees it. The file `.lock` is for what that cannot do: it names the writer to whoever comes second, and it guards
folders that several machines share, where `flock` may say nothing. Its writer touches it every HEARTBEAT seconds. It is
stale, and is taken over, where its writer cannot be alive: on this machine when the system's lock is free, or when the
machine was started anew since; on another one after SILENCE seconds without a touch, by the clock of the file system.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import shlex
import socket
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from vgi_cli.background import Background, Ended
from vgi_cli.errors import FitError, UsageError
from vgi_cli.version import command_line

LOCK = ".lock"
HEARTBEAT = 15.0
"""Seconds between two touches of the file."""
SILENCE = 300.0
"""Seconds without a touch after which the writer on another machine is taken for dead."""
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
BUSY = (errno.EAGAIN, errno.EACCES)
"""What the system says where another process holds its lock; anything else: this file system has no such lock."""

_held: dict[tuple[int, int], Lock] = {}
"""The folders that this process writes, by device and inode."""


class Lock:
    """The writer's side: the file while it is held.

    descriptor  of the folder, which may be moved while it is held
    token       what is in the file and in no other
    """

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self.descriptor = descriptor
        self.token = uuid.uuid4().hex
        self._ended = Ended()

    def owner(self) -> dict[str, Any]:
        """What the file says."""
        return {
            "host": socket.gethostname(),
            "boot": boot_id(),
            "pid": os.getpid(),
            "since": datetime.now().astimezone().isoformat(timespec="seconds"),
            "command": command_line(),
            "token": self.token,
        }

    def take(self) -> None:
        """Make the file, once. FileExistsError where there is one; whoever sees it sees all of it."""
        aside = f"{LOCK}.{self.token}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        made = os.open(aside, flags, 0o666, dir_fd=self.descriptor)
        try:
            with open(made, "w", encoding="utf-8") as file:
                json.dump(self.owner(), file, ensure_ascii=False)
                file.flush()
                os.fsync(file.fileno())
            try:
                os.link(aside, LOCK, src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)
            except FileExistsError:
                raise
            except OSError:  # a file system without hard links
                os.close(os.open(LOCK, flags, 0o666, dir_fd=self.descriptor))
                os.rename(aside, LOCK, src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(aside, dir_fd=self.descriptor)

    def age(self) -> float:
        """Seconds since the file was touched, by the clock of the file system; 0 where there is none."""
        aside = f"{LOCK}.{self.token}"
        made = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666, dir_fd=self.descriptor)
        try:
            os.utime(made)
            return os.fstat(made).st_mtime - os.stat(LOCK, dir_fd=self.descriptor).st_mtime
        except FileNotFoundError:
            return 0.0
        finally:
            os.close(made)
            os.unlink(aside, dir_fd=self.descriptor)

    def read(self, name: str = LOCK) -> dict[str, Any] | None:
        """What the file says now; None where there is none, nothing in it where it cannot be read as such."""
        try:
            with open(os.open(name, os.O_RDONLY, dir_fd=self.descriptor), encoding="utf-8") as file:
                found = json.load(file)
        except FileNotFoundError:
            return None
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}

    def clear(self, stale: dict[str, Any]) -> None:
        """Remove a file that was judged stale, and no other one that has just taken its place."""
        aside = f"{LOCK}.{self.token}"
        try:
            os.rename(LOCK, aside, src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)
        except FileNotFoundError:
            return
        if self.read(aside) != stale:
            with contextlib.suppress(OSError):
                os.link(aside, LOCK, src_dir_fd=self.descriptor, dst_dir_fd=self.descriptor)
        os.unlink(aside, dir_fd=self.descriptor)

    def mine(self) -> bool:
        """Whether the file is still this process's."""
        return (self.read() or {}).get("token") == self.token

    def beat(self) -> None:
        """Touch the file until `end`: others see that its writer is alive."""
        while not self._ended.wait(HEARTBEAT):
            with contextlib.suppress(OSError):
                if self.mine():
                    os.utime(LOCK, dir_fd=self.descriptor)

    def end(self) -> None:
        """Remove the file, if it is this process's."""
        self._ended.set()
        with contextlib.suppress(OSError):
            if self.mine():
                os.unlink(LOCK, dir_fd=self.descriptor)


def boot_id() -> str | None:
    """What tells one start of this machine from the next; None where the system has no such thing."""
    try:
        return BOOT_ID.read_text(encoding="ascii").strip()
    except OSError:
        return None


@contextmanager
def sole_writer(path: Path) -> Iterator[None]:
    """Hold a run folder for writing; UsageError, which names the other, when another process does."""
    descriptor = os.open(path, os.O_RDONLY)
    lock = Lock(path, descriptor)
    key = (os.fstat(descriptor).st_dev, os.fstat(descriptor).st_ino)
    try:
        seen = _system_lock(lock)
        _take(lock, seen)
        beating = Background(lock.beat)
        _held[key] = lock
        try:
            yield
        finally:
            del _held[key]
            lock.end()
            beating.join()  # before its descriptor may be that of another folder
    finally:
        os.close(descriptor)


def writing(path: Path) -> str | None:
    """The process, in words, that says in a folder that it writes there and may be alive; None: none does."""
    try:
        file = path / LOCK
        owner, silent = json.loads(file.read_text(encoding="utf-8")), time.time() - file.stat().st_mtime
    except (OSError, ValueError):
        return None
    if not isinstance(owner, dict) or _stale(owner, False, silent):
        return None
    return _who(owner)


def check_held(path: Path) -> None:
    """FitError where this process began to write a run and another one has taken it over since: that one took this one
    for dead, because it was silent for longer than SILENCE."""
    found = path.stat()
    lock = _held.get((found.st_dev, found.st_ino))
    if lock is None or lock.mine():
        return
    try:
        lock.take()  # where the file was removed by hand and nobody has come since
    except FileExistsError:
        raise FitError(
            f"run '{path}' is no longer written by this process: {_who(lock.read() or {})} has taken it over while "
            "this one was silent; nothing more was saved",
            "let the other one go on, or stop it and continue with --resume",
        ) from None


def _system_lock(lock: Lock) -> bool:
    """Take the system's lock. False where the file system has none; UsageError where another process has it."""
    try:
        fcntl.flock(lock.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in BUSY:
            raise _refused(lock, lock.read() or {}) from None
        return False
    return True


def _take(lock: Lock, seen: bool) -> None:
    """Make the file of the lock, after one that is stale was removed; `seen`: whether every process of this machine
    that writes here would have been seen by the system's lock."""
    while True:
        try:
            return lock.take()
        except FileExistsError:
            found = lock.read()
            if found is None:
                continue
            silent = lock.age()
            if not _stale(found, seen, silent):
                raise _refused(lock, found, silent) from None
            lock.clear(found)


def _stale(owner: dict[str, Any], seen: bool, silent: float) -> bool:
    """Whether the writer that a file names cannot be alive."""
    boot, host = owner.get("boot"), owner.get("host")
    if boot is not None and boot == boot_id():  # the same kernel, perhaps another container
        dead = seen or (host == socket.gethostname() and not _runs(owner.get("pid")))
    else:  # a machine of this name that was started anew; many are called localhost
        dead = None not in (boot, boot_id()) and host == socket.gethostname() and not str(host).startswith("localhost")
    return dead or silent >= SILENCE


def _runs(pid: Any) -> bool:
    """Whether a process of this machine runs."""
    try:
        os.kill(int(pid), 0)
    except (ProcessLookupError, ValueError, TypeError, OverflowError):
        return False
    except OSError:  # another user's
        return True
    return True


def _who(owner: dict[str, Any]) -> str:
    """The writer in words."""
    if "pid" not in owner or "host" not in owner:
        return "another process"
    return f"process {owner['pid']} on host '{owner['host']}'"


def _refused(lock: Lock, owner: dict[str, Any], silent: float | None = None) -> UsageError:
    """The error for whoever comes second."""
    since = f" since {owner['since']}" if "since" in owner else ""
    command = f": {owner['command']}" if owner.get("command") else ""
    hint = "wait for it, or stop it"
    if silent is not None:
        left = max(SILENCE - silent, 0.0)
        hint = (
            f"its last sign of life was {max(silent, 0.0):.0f} s ago, and after {SILENCE:.0f} s of silence it counts "
            f"as dead ({left:.0f} s from now); if you know that it is, remove its lock: "
            f"rm {shlex.quote(str(lock.path / LOCK))}"
        )
    return UsageError(f"run '{lock.path}' is being written by {_who(owner)}{since}{command}", hint)
