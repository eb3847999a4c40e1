"""Readers of stdout that go or are slow, streams that are full or closed: no traceback, no part of a table missing."""

from __future__ import annotations

import fcntl
import io
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.program import Vgi, fit_once
from tests.selection import first
from vgi_cli.cli import start
from vgi_cli.cli.app import main
from vgi_cli.cli.console import Console

IMPUTE = ["impute", "--checkpoint", "run", "-q", "--format", "single", "-o"]
COMMANDS = {
    "table": [*IMPUTE, "-"],
    "scores": ["score", "run", "data.csv", "-q"],
    "rows": ["sample", "run", "-n", "5000", "-q", "-o", "-"],
    "JSON": ["evaluate", "--checkpoint", "run", "data.csv", "-q", "--json"],
}
ROOM = 4096
"""Bytes in the pipes of these tests: a fraction of what each command writes, but for the JSON."""


@pytest.fixture
def run(vgi: Vgi) -> Path:
    rows = (f"{i % 7},{'' if i % 5 == 0 else i * i % 11 / 2}" for i in range(5000))
    Path("data.csv").write_text("a,b\n" + "\n".join(rows) + "\n")
    settings = ["--model", "fa", "--set", "bootstrap=none", "--threads", "1"]
    return fit_once(vgi, "data.csv", *settings)


def pipe(monkeypatch: pytest.MonkeyPatch, *, buffered: bool, waits: bool) -> int:
    """stdout becomes a pipe with little room, buffered by Python or not; the end to read from."""
    reader, writer = os.pipe()
    fcntl.fcntl(writer, getattr(fcntl, "F_SETPIPE_SZ", 1031), ROOM)
    os.set_blocking(writer, waits)
    raw = io.FileIO(writer, "w")
    text = io.TextIOWrapper(io.BufferedWriter(raw) if buffered else raw, encoding="utf-8", write_through=not buffered)
    monkeypatch.setattr(sys, "stdout", text)
    monkeypatch.setattr(sys, "__stdout__", text)  # as the interpreter has it
    start.open_streams()
    return reader


@pytest.mark.skipif(sys.platform != "linux", reason="pipes of a size")
@pytest.mark.parametrize("buffered", first(1, [False, True]))
def test_a_slow_reader_has_every_byte_and_one_that_goes_ends_the_command(
    run: Path, vgi: Vgi, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], buffered: bool
) -> None:
    assert vgi(*IMPUTE, "out.csv").code == 0
    got = b""

    def read(end: int, most: int) -> None:
        nonlocal got
        with open(end, "rb", buffering=0) as file:
            time.sleep(0.1)  # the pipe is full by then
            while len(got) < most and (part := file.read(ROOM)):
                got += part

    whole = Path("out.csv").read_bytes()
    for most, code in ((1 << 20, 0), (1, 1)):
        with monkeypatch.context() as patch:
            reading = threading.Thread(target=read, args=(pipe(patch, buffered=buffered, waits=False), most))
            got = b""
            reading.start()
            assert main(COMMANDS["table"]) == code
            start.drop_unwritten()
            sys.stdout.close()
            reading.join()
        assert got == whole if code == 0 else whole.startswith(got) and len(got) < len(whole)
    assert "error:" not in (err := capfd.readouterr().err) and "Traceback" not in err


def test_a_stderr_that_takes_nothing_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("no device that is always full")
    monkeypatch.setattr(
        sys, "stderr", io.TextIOWrapper(io.FileIO("/dev/full", "w"), write_through=True, line_buffering=True)
    )
    console = Console()
    console.say("lost")
    console.warn("lost")
    console.error("lost", "too")
    start.drop_unwritten()
    sys.stderr.close()  # it would say so here


@pytest.mark.slow
@pytest.mark.full_fits
@pytest.mark.skipif(sys.platform != "linux", reason="/dev/full")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_processes_end_quietly_and_leave_the_run_as_it_was(run: Path, unbuffered: str) -> None:
    before = {path: path.read_bytes() for path in sorted(run.rglob("*")) if path.is_file()}

    def ends(words: list[str], how: str) -> tuple[int, str]:
        """Exit code of the command, and what it and the interpreter said."""
        line = f'set -o pipefail; "$@" {how}'
        done = subprocess.run(
            ["bash", "-c", line, "-", sys.executable, "-m", "vgi_cli", *words],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": unbuffered, "PYTHONPATH": str(Path(__file__).parents[2])},
        )
        return done.returncode, done.stderr

    for name, words in COMMANDS.items():
        for how in ("| head -c 0", "| head -n 1"):
            code, said = ends(words, how)
            assert code in (0, 1), said  # 0: all was written before the reader had gone
            assert "Traceback" not in said and "error:" not in said and "Exception" not in said, (name, said)
    code, said = ends(COMMANDS["table"], ">/dev/full")
    assert code == 1 and "error: No space left on device" in said and "Exception" not in said
    code, said = ends(COMMANDS["JSON"], ">&-")
    assert code == 1 and "error: Bad file descriptor" in said and "Exception" not in said
    assert ends(["check", "data.csv"], "2>&-") == (0, "")
    assert ends(["check", "data.csv"], "2>/dev/full") == (0, "")
    assert ends(["impute", "--checkpoint", "run", "-", "-o", "x.csv"], "<&-")[0] == 2
    assert before == {path: path.read_bytes() for path in sorted(run.rglob("*")) if path.is_file()}
    fit = ["fit", "data.csv", "--model", "fa", "--set", "bootstrap=none", "--threads", "1", "--out", "again"]
    ends(fit, "2>&1 | head -c 1")
    assert (Path("again") / "model.safetensors").read_bytes() == before[run / "model.safetensors"]


@pytest.mark.parametrize("arguments", [["pipe"], ["data.csv", "--mask", "pipe"]])
def test_a_named_pipe_is_refused_with_the_way_that_works(vgi: Vgi, tmp_path: Path, arguments: list[str]) -> None:
    """Of `<(zcat data.gz)` a first look would take the first bytes."""
    Path("data.csv").write_text("a,b\n1,2\n3,\n")
    os.mkfifo("pipe")
    done = vgi("fit", *arguments)
    assert done.code == 2 and "pipe: a pipe, and files are read more than once" in done.err
    assert "give the table as - (standard input)" in done.err
