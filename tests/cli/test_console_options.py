"""Options of every command: `--color`, `--log-file`, `--quiet`; and the completion of shells."""

from __future__ import annotations

import io
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.program import Vgi
from tests.terminal import Terminal
from vgi_cli.cli import console
from vgi_cli.cli.app import main
from vgi_cli.cli.commands import COMMANDS
from vgi_cli.cli.completion import VALUES, offered
from vgi_cli.cli.console import STAMP, Console
from vgi_cli.errors import UsageError
from vgi_cli.registry.names import MODELS
from vgi_cli.reporting import Progress
from vgi_cli.settings import options

WRONG = ["recipe", "show", "none"]


def logged(path: Path) -> list[str]:
    """The lines of a log without their times."""
    lines = path.read_bytes().splitlines()
    assert all(STAMP.match(line) for line in lines)
    return [line[STAMP.match(line).end() :].decode() for line in lines]  # type: ignore[union-attr]


# --- colour ---


@pytest.mark.parametrize(
    ("wanted", "terminal", "environment", "coloured"),
    [
        ("auto", True, {}, True),
        ("auto", False, {}, False),
        ("auto", True, {"NO_COLOR": "1"}, False),
        ("auto", True, {"NO_COLOR": ""}, True),
        ("auto", True, {"TERM": "dumb"}, False),
        ("always", False, {"NO_COLOR": "1", "TERM": "dumb"}, True),
        ("never", True, {}, False),
    ],
)
def test_when_errors_are_coloured(
    monkeypatch: pytest.MonkeyPatch, wanted: str, terminal: bool, environment: dict[str, str], coloured: bool
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: terminal)
    Console(stream=stream, colour=wanted).error("failed")
    assert ("\x1b[1;31merror:\x1b[0m failed" in stream.getvalue()) == coloured


def test_color_holds_for_a_command_line_that_is_wrong_too(vgi: Vgi) -> None:
    for words in (WRONG, ["fit", "--nope"], ["nope"]):
        assert "\x1b" not in vgi(*words).err
        assert vgi(*words, "--color", "always").err.startswith("\x1b[1;31merror:\x1b[0m ")
        assert vgi(*words, "--color=always").err.startswith("\x1b[1;31merror:\x1b[0m ")


def test_a_colour_that_there_is_not(vgi: Vgi) -> None:
    done = vgi("recipe", "ls", "--color", "alway")
    assert (done.code, done.error) == (2, "--color: expected auto, always or never, got 'alway'")
    assert done.hint == "did you mean 'always'?"


# --- the log ---


def test_every_line_of_stderr_is_in_the_log_with_its_time(vgi: Vgi) -> None:
    assert vgi("recipe", "ls", "--log-file", "vgi.log").code == 0 and not Path("vgi.log").exists()
    done = vgi(*WRONG, "--log-file", "vgi.log")
    assert done.code == 2 and logged(Path("vgi.log")) == done.err.splitlines()
    again = vgi("fit", "--nope", "--log-file=vgi.log")
    assert logged(Path("vgi.log")) == [*done.err.splitlines(), *again.err.splitlines()]
    Path("bad.yaml").write_text("sed: 1\nepochs: many\n")
    several = vgi("recipe", "validate", "bad.yaml", "--log-file", "new.log")
    assert logged(Path("new.log")) == several.err.splitlines() and len(several.err.splitlines()) == 4
    traced = vgi(*WRONG, "--debug", "--log-file", "debug.log")
    assert logged(Path("debug.log")) == traced.err.splitlines()
    assert "Traceback (most recent call last):" in traced.err


def test_a_log_has_plain_lines_of_progress_beside_the_panel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TERM", "xterm")
    terminal, now = Terminal(), [0.0]
    reporter = Console(stream=terminal.stream, clock=lambda: now[0], log=tmp_path / "log")
    for now[0] in (1.0, 11.0, 12.0, 22.0):
        reporter.show(Progress(1, 1, "training", now[0] / 100))
    reporter.warn("look")
    reporter.close()
    assert terminal.close().shown() == ["warning: look"]
    assert logged(tmp_path / "log") == ["1/1 training: 11%", "1/1 training: 22%", "warning: look"]


def test_with_q_a_log_has_warnings_and_errors_only(tmp_path: Path) -> None:
    reporter = Console(quiet=True, stream=io.StringIO(), log=tmp_path / "log")
    reporter.say("said")
    reporter.show(Progress(1, 1, "training", 0.5))
    reporter.warn("warned")
    reporter.error("failed", "do this")
    assert logged(tmp_path / "log") == ["warning: warned", "error: failed", "hint: do this"]


@pytest.mark.parametrize(
    ("path", "error"),
    [
        (".", "--log-file: '.' is a folder"),
        ("none/log", "--log-file: no folder 'none'"),
        ("t.csv", "--log-file: 't.csv' exists and is no log of vgi"),
    ],
)
def test_what_can_be_no_log(vgi: Vgi, path: str, error: str) -> None:
    Path("t.csv").write_text("a,b\n1,2\n")
    done = vgi("recipe", "ls", "--log-file", path)
    assert (done.code, done.error, done.out) == (2, error, "")
    assert [(entry.name, entry.read_text()) for entry in Path().iterdir()] == [("t.csv", "a,b\n1,2\n")]


def test_a_log_that_can_no_longer_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    reporter = Console(stream=io.StringIO(), log=tmp_path / "folder" / "log")
    (tmp_path / "folder").rmdir()
    with pytest.raises(console.VgiError, match=r"--log-file: cannot write .*: No such file or directory"):
        reporter.say("said")
    reporter.error("failed")  # the terminal has it all the same
    assert isinstance(reporter.stream, io.StringIO) and reporter.stream.getvalue() == "said\nerror: failed\n"


# --- quiet ---


@pytest.mark.parametrize(
    "words", [["doctor"], ["recipe", "ls"], ["recipe", "show", "toy-fa"], ["recipe", "validate", "toy-fa"]]
)
def test_quiet_changes_nothing_on_stdout(vgi: Vgi, words: list[str]) -> None:
    loud, quiet = vgi(*words), vgi(*words, "-q")
    assert quiet.code == loud.code == 0 and quiet.err == "" and len(quiet.out) == len(loud.out) > 0


def test_quiet_and_verbose_exclude_each_other(vgi: Vgi) -> None:
    assert vgi("recipe", "ls", "-q", "-v").code == 2


# --- completion ---


def test_every_name_that_is_offered_belongs_to_an_option_or_argument() -> None:
    tables = [table for command in COMMANDS.values() for table in command.tables]
    names = set(options.fields_of(*tables, options.ConsoleOptions))
    names |= {argument.offers or argument.name for command in COMMANDS.values() for argument in command.arguments}
    assert set(VALUES) <= names and offered("epochs") is None
    model = offered("model")
    assert model is not None and model("fl") == [name for name in MODELS if name.startswith("fl")]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_for_each_shell(vgi: Vgi, shell: str) -> None:
    done = vgi("completion", shell)
    assert (done.code, done.err) == (0, "") and "_VGI_COMPLETE" in done.out and "vgi" in done.out


def test_a_shell_without_a_script(vgi: Vgi) -> None:
    done = vgi("completion", "fsh")
    assert (done.code, done.error, done.hint) == (
        2,
        "SHELL: expected bash or zsh or fish, got 'fsh'",
        "did you mean 'fish'?",
    )


def test_bash_completes(tmp_path: Path, vgi: Vgi) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("no bash here")
    program = tmp_path / "vgi"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m vgi_cli "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    Path("script").write_text(vgi("completion", "bash").out)
    code = (
        ". ./script; "
        'try() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _vgi_completion vgi; echo "${COMPREPLY[*]}"; }; '
        "try vgi recipe v; try vgi fit --model flow-; try vgi recipe show paper/po; try vgi fit --mod"
    )
    root = Path(console.__file__).parents[2]
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(root)}
    done = subprocess.run([bash, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.splitlines() == ["validate", "flow-ar", "paper/power.yaml", "--model"]


def test_a_terminal_that_gets_the_result_too_has_no_panel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    reporter = Console(stream=terminal.stream, live=False)
    reporter.show(Progress(1, 1, "training", 0.5))
    reporter.say("said")
    reporter.close()
    assert terminal.close().shown() == ["said"] and "\x1b" not in terminal.written.decode()


def test_a_wrong_option_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["recipe", "ls", "--color", "pink", "--log-file", "none/log"]) == 2
    assert capsys.readouterr().err.count("error:") == 1
    with pytest.raises(UsageError):
        Console(colour="pink")
