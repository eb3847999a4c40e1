"""The program itself: help, version, parse errors, exit codes, what goes where."""

from __future__ import annotations

import io
import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.program import Vgi, fit_once
from tests.selection import first
from vgi_cli.cli import app, console, help
from vgi_cli.cli.commands import COMMANDS as PROGRAM
from vgi_cli.cli.console import Console
from vgi_cli.errors import FailIfMissed, Interrupted, VgiError
from vgi_cli.registry.names import METHODS, MODELS, SAMPLERS
from vgi_cli.reporting import Progress
from vgi_cli.settings.options import ENVIRONMENT

COMMANDS = tuple(PROGRAM)
FIRST = sorted({name.split()[0] for name in COMMANDS})
PYTHON = [sys.executable, "-m", "vgi_cli"]


@pytest.fixture
def run(vgi: Vgi) -> Path:
    Path("data.csv").write_text("a,b\n1,2\n2,\n3,1\n4,5\n5,3\n")
    return fit_once(vgi, "data.csv", "--model", "fa", "--set", "bootstrap=none")


REFUSED = {
    "fit": "fit needs DATA",
    "fit nofile.csv": "nofile.csv: no such file",
    "fit data.csv --mask nofile.csv": "nofile.csv: no such file",
    "fit data.csv --val nofile.csv": "nofile.csv: no such file",
    "fit --recipe recipe.yaml": "nofile.csv: no such file",
    "fit empty.csv": "empty.csv: the file is empty",
    "fit data.csv --out run": "--out: 'run' exists",
    "fit data.csv --model flwo": "unknown model 'flwo'",
    "fit data.csv --method emm": "unknown method 'emm'",
    "fit data.csv --set epochs=few": "--set: epochs: expected a whole number, got 'few'",
    "fit data.csv -q -v": "-q (say less) and -v (say more) exclude each other",
    "fit data.csv --resume --force": "--resume and --force exclude each other",
    "finetune --checkpoint none data.csv": "no run at 'none'",
    "finetune --checkpoint run nofile.csv": "nofile.csv: no such file",
    "finetune --checkpoint run data.csv --out run": "--out: 'run' exists",
    "impute --checkpoint none": "no run at 'none'",
    "impute --checkpoint data.csv": "'data.csv' is a file, not a run folder",
    "impute --checkpoint empty": "'empty' is not a run: it has no manifest.json",
    "impute --checkpoint run nofile.csv": "nofile.csv: no such file",
    "impute --checkpoint run --format fles": "--format: expected files, long, mids-csv or single, got 'fles'",
    "impute --checkpoint run -o there.csv": "there.1.csv exists",
    "impute --checkpoint run --format long -o data.csv --force": "data.csv is the table that is imputed",
    "impute --checkpoint run -o out.xlsx": "out.xlsx: vgi writes CSV and Parquet, not .xlsx",
    "impute --checkpoint run": "run/imputed/data.1.csv exists",
    "doctor --device gpu": "--device: unknown device 'gpu'",
    "recipe show none": "NAME: no file 'none'",
    "recipe cp toy-fa data.csv": "'data.csv' exists",
    "recipe validate none": "FILE: no file 'none'",
    "evaluate --checkpoint none data.csv": "no run at 'none'",
    "evaluate --checkpoint run nofile.csv": "nofile.csv: no such file",
    "evaluate --checkpoint run data.csv --truth nofile.csv": "nofile.csv: no such file",
    "evaluate --checkpoint run data.csv --per-row data.csv": "data.csv is read here",
    "evaluate --checkpoint run data.csv -o report": "'report/report.json' exists",
    "evaluate --checkpoint run data.csv --fail-if loglik": "--fail-if 'loglik' is not a condition",
}


def test_help_and_what_is_refused_at_once_load_no_torch(vgi: Vgi, run: Path) -> None:
    """One process for all of them: what one of them loads, all later ones would have."""
    for name in ("empty", "report", "run/imputed"):
        Path(name).mkdir()
    for name in ("empty.csv", "there.1.csv", "report/report.json", "run/imputed/data.1.csv"):
        Path(name).touch()
    Path("recipe.yaml").write_text("data: [nofile.csv]\n")
    helps = ["--help", *(f"{command} -h" for command in COMMANDS)]
    lines = [*helps, *REFUSED]
    code = (
        "import sys, vgi_cli, vgi_cli.cli.app as a\n"
        f"for line in {lines}:\n"
        "    code = a.main(line.split())\n"
        '    print(f\'{code} {"torch" in sys.modules or "pandas" in sys.modules}: {line}\', file=sys.stderr)\n'
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    ends = [line for line in done.stderr.splitlines() if line.startswith(("0 ", "2 ", "1 "))]
    assert ends == [f"{0 if line in helps else 2} False: {line}" for line in lines]
    assert [line[7:] for line in done.stderr.splitlines() if line.startswith("error: ")] == [
        REFUSED[line] for line in lines[len(helps) :]
    ]


def test_help_lists_every_name_and_two_examples(vgi: Vgi) -> None:
    help_ = vgi("--help")
    assert help_.code == 0 and help_.err == ""
    for name, entry in [*MODELS.items(), *METHODS.items(), *SAMPLERS.items()]:
        assert f"    {name} " in help_.out and entry.about in help_.out
    assert all(f"  {command.split()[0]} " in help_.out for command in COMMANDS)
    listed = [name for names in help.PANELS.values() for name in names]
    assert sorted(listed) == sorted({command.split()[0] for command in COMMANDS})
    assert [found for found in re.findall(r"^([A-Z][a-z ]+):$", help_.out, re.M) if found in help.PANELS] == [
        *help.PANELS
    ]
    assert re.findall(r"^  ([a-z]+)  +[A-Z]", help_.out, re.M) == listed
    assert help_.out.split("Examples:")[1].count("\n    vgi ") == 2
    assert vgi().out == help_.out


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_is_plain_and_unwrapped(vgi: Vgi, command: str) -> None:
    help_ = vgi(*command.split(), "--help")
    assert help_.code == 0
    assert "\x1b" not in help_.out and "╭" not in help_.out
    assert 2 <= len(re.findall(rf"\n    vgi {command}( |$)", help_.out, re.M)) <= 3
    options = [line for line in help_.out.splitlines() if line.startswith("  -")]
    assert len(options) > 3 and all(line.endswith((".", "]", ")")) for line in options)


@pytest.mark.parametrize("words", [["--help"], ["fit", "--help"], ["recipe", "validate", "--help"]])
def test_help_takes_less_than_half_a_second(words: list[str]) -> None:
    """Of the processor, the better of two: others use this machine too."""
    taken = []
    for _ in range(2):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([*PYTHON, *words], stdout=subprocess.DEVNULL, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        taken.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        if min(taken) < 0.5:
            break
    assert min(taken) < 0.5, taken


def test_help_names_what_the_environment_changes(vgi: Vgi) -> None:
    shown = vgi("--help").out.split("Environment:")[1]
    assert all(f"    {name} " in shown for name in ENVIRONMENT)


def test_version(vgi: Vgi) -> None:
    assert vgi("--version").out == "vgi 0.1.0\n"
    done = subprocess.run([*PYTHON, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == "vgi 0.1.0\n"


@pytest.mark.parametrize(
    ("arguments", "error", "hint"),
    [
        (["fti"], "no such command 'fti'", "did you mean 'fit'?"),
        (
            ["quux"],
            "no such command 'quux'",
            f"expected one of: {', '.join(FIRST)}",
        ),
        (["fit", "--modle", "fa"], "no such option: --modle", "did you mean '--model'?"),
        (["evaluate", "--true", "x"], "no such option: --true", "did you mean '--truth'?"),
        (["fit", "x", "--seperator", ";"], "no such option: --seperator", "did you mean '--delimiter'?"),
        (["impute", "--n_imputations", "5"], "no such option: --n_imputations", "did you mean '--m'?"),
        (["impute", "--maxit", "5"], "no such option: --maxit", "vgi impute --help lists what is possible"),
        (["fit", "--timing", "fa"], "no such option: --timing", "vgi fit --help lists what is possible"),
        (["fit", "--frobnicate", "x"], "no such option: --frobnicate", "vgi fit --help lists what is possible"),
        (
            ["report", "--checkpoint", "r 1"],
            "no such option: --checkpoint",
            "the run folder comes without a flag: `vgi report 'r 1'`",
        ),
        (["impute"], "missing option '--checkpoint'", "vgi impute --help lists what is possible"),
        (["evaluate", "--checkpoint", "r"], "missing argument 'DATA'", "vgi evaluate --help lists what is possible"),
        (["fit", "--epochs"], "option '--epochs' requires an argument", "vgi --help lists what is possible"),
        (["impute", "--checkpoint", "r", "a", "b"], "got unexpected extra argument(s) (b)", "vgi impute --help"),
    ],
)
def test_command_lines_that_cannot_be_parsed(vgi: Vgi, arguments: list[str], error: str, hint: str) -> None:
    done = vgi(*arguments)
    assert done.code == 2 and done.out == ""
    assert done.error == error
    assert done.hint.startswith(hint)


def test_a_run_without_its_flag_is_recognised(vgi: Vgi) -> None:
    Path("my run").mkdir()
    Path("my run/manifest.json").write_text("{}")
    for arguments in (["impute", "my run"], ["evaluate", "my run", "t.csv"], ["evaluate", "t.csv", "my run"]):
        done = vgi(*arguments)
        assert (done.code, done.error) == (2, "missing option '--checkpoint'")
        assert done.hint == "did you mean `--checkpoint 'my run'`?"


def test_a_value_of_the_wrong_type_names_the_flag(vgi: Vgi) -> None:
    done = vgi("fit", "a.csv", "--seed", "one")
    assert done.code == 2 and done.error == "invalid value for '--seed': expected a whole number"


@pytest.mark.parametrize(
    ("raised", "code", "error"),
    [
        (VgiError("it failed", "do this"), 1, "it failed"),
        (FailIfMissed("loglik < 3 holds"), 3, "loglik < 3 holds"),
        (Interrupted("stopped by SIGTERM", 143), 143, "stopped by SIGTERM"),
        (OSError(28, "No space left on device", "x.csv"), 1, "'x.csv': No space left on device"),
        (MemoryError(), 1, "out of memory"),
        (
            torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB.\nMore"),
            1,
            "out of memory: CUDA out of memory. Tried to allocate 2 GiB.",
        ),
        (RuntimeError("[x:127] DefaultCPUAllocator: can't allocate memory: 9 bytes"), 1, "out of memory: 9 bytes"),
        (SystemError("error return without exception set"), 1, "out of memory"),
        (RuntimeError("can't start new thread"), 1, "out of memory: can't start new thread"),
        (
            RuntimeError("unable to mmap 9 bytes from file <m>: Cannot allocate memory (12)"),
            1,
            "out of memory: unable to mmap 9 bytes from file <m>: Cannot allocate memory (12)",
        ),
        (MemoryError("loops cannot be compiled"), 1, "out of memory: loops cannot be compiled"),
        (KeyboardInterrupt(), 130, "stopped by SIGINT"),
        (ZeroDivisionError("by zero"), 1, "unexpected ZeroDivisionError: by zero"),
    ],
)
def test_outcomes_become_exit_codes(
    vgi: Vgi, monkeypatch: pytest.MonkeyPatch, raised: BaseException, code: int, error: str
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise raised

    monkeypatch.setattr("vgi_cli.commands.requests.gather", fails)
    done = vgi("fit", "a.csv")
    assert (done.code, done.error, done.out) == (code, error, "")
    assert "Traceback" not in done.err
    if isinstance(raised, Exception) and not isinstance(raised, Interrupted | FailIfMissed):
        assert "Traceback" in vgi("fit", "a.csv", "--debug").err


@pytest.mark.parametrize("words", first(2, [["--help"], ["recipe", "show", "toy-fa"], ["completion", "bash"]]))
def test_a_reader_of_stdout_that_goes_away_is_no_traceback(words: list[str]) -> None:
    with subprocess.Popen([*PYTHON, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.close()
        assert b"Traceback" not in process.stderr.read()


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def shown(stream: io.StringIO, quiet: bool = False, verbose: bool = False) -> str:
    reporter = Console(quiet, verbose, stream)
    reporter.say("said")
    reporter.warn("warned")
    reporter.detail("detailed")
    reporter.error("failed", "do this")
    return stream.getvalue()


def test_lines_off_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(io.StringIO()) == "said\nwarning: warned\nerror: failed\nhint: do this\n"
    assert shown(io.StringIO(), verbose=True).count("detailed\n") == 1
    assert shown(io.StringIO(), quiet=True) == "warning: warned\nerror: failed\nhint: do this\n"


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_colours_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert "\x1b[1;31merror:\x1b[0m failed" in shown(Terminal())
    monkeypatch.setenv(name, value)
    assert "\x1b" not in shown(Terminal())


class Clock:
    """A clock that somebody sets."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_progress_off_a_terminal_is_a_plain_line_every_ten_seconds() -> None:
    clock, stream = Clock(), io.StringIO()
    reporter = Console(stream=stream, clock=clock)
    reporter.plan(["reading", "training"])
    with reporter.stage("reading"):
        clock.now = 4.0
    with reporter.stage("training", "epochs") as stage:
        for step in range(5, 26):
            clock.now = float(step)
            stage((step - 5) / 20, step - 5, 20)
    assert stream.getvalue() == (
        "2/2 training: 25%, 5 of 20 epochs, 0.83 epochs/s, 18 s left\n"
        "2/2 training: 75%, 15 of 20 epochs, 0.94 epochs/s, 5 s left\n"
    )


def test_a_stage_that_does_not_report_has_its_lines_too() -> None:
    clock, stream = Clock(), io.StringIO()
    reporter = Console(stream=stream, clock=clock)
    with reporter.stage("reading", until=60.0) as stage:
        stage(0.0)
        for second in range(1, 31):
            clock.now = float(second)
            reporter.tick()
    lines = stream.getvalue().splitlines()
    assert lines == [f"1/1 reading: 0%, {left} s left" for left in (50, 40, 30)]
    reporter.tick()
    assert stream.getvalue().splitlines() == lines  # nothing is under way


def test_progress_is_not_shown_with_q() -> None:
    clock, stream = Clock(), io.StringIO()
    reporter = Console(quiet=True, stream=stream, clock=clock)
    with reporter.stage("training") as stage:
        clock.now = 100.0
        stage(0.5)
        reporter.tick()
    assert stream.getvalue() == ""


def test_what_experts_want_to_see_is_shown_with_v() -> None:
    for verbose, expected in ((False, "1/1 training: 50%\n"), (True, "1/1 training: 50%, objective 3.2\n")):
        clock, stream = Clock(), io.StringIO()
        reporter = Console(verbose=verbose, stream=stream, clock=clock)
        clock.now = 10.0
        reporter.show(Progress(1, 1, "training", 0.5, note="objective 3.2"))
        reporter.finish_progress()
        assert stream.getvalue() == expected


@pytest.mark.parametrize(
    ("seconds", "words"), [(0.4, "0 s"), (99.0, "99 s"), (120.0, "2 min"), (5400.0, "90 min"), (7500.0, "2 h 5 min")]
)
def test_durations_in_words(seconds: float, words: str) -> None:
    assert console.duration(seconds) == words


def test_a_dumb_terminal_gets_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    stream = Terminal()
    with Console(stream=stream).stage("training") as stage:
        stage(0.5)
    assert stream.getvalue() == ""


def test_the_entry_point_takes_the_arguments_of_the_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "argv", ["vgi", "--version"])
    assert app.main() == 0
    assert os.environ["OMP_WAIT_POLICY"]


def test_a_command_of_two_words_stands_under_the_first(monkeypatch: pytest.MonkeyPatch, vgi: Vgi) -> None:
    monkeypatch.setitem(help.GROUPS, "group", ("Several commands.", ""))
    monkeypatch.setitem(PROGRAM, "group evaluate", PROGRAM["evaluate"])
    monkeypatch.setattr(app, "build_app", app.build_app.__wrapped__)  # not the one that was built before
    assert "  evaluate " in vgi("group", "--help").out
    assert vgi("group", "evaluate", "--checkpoint", "r").err.startswith("error: missing argument 'DATA'")


def test_help_says_what_models_and_imputers_do_with_levels(vgi: Vgi) -> None:
    lines = [line.split(maxsplit=1) for line in vgi("fit", "--help").out.splitlines() if line.startswith("    ")]
    told = {line[0]: line[1] for line in lines if len(line) == 2}
    assert told["fa"].endswith("numbers only") and "of columns of levels too" in told["mixture"]
    assert "levels by logistic" in told["mice"]
