"""The program: parses the command line, runs one command, turns every outcome into text and an exit code."""

from __future__ import annotations

import contextlib
import functools
import io
import itertools
import os
import re
import shlex
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

import typer
import typer.core
import typer.main

from vgi_cli.cli import completion, help
from vgi_cli.cli.commands import COMMANDS
from vgi_cli.cli.console import Console, is_terminal
from vgi_cli.cli.visible import shown_stdout
from vgi_cli.errors import Interrupted, UsageError, VgiError, begins_alike, closest, nearest
from vgi_cli.machine.launch import Launch, launched
from vgi_cli.version import __version__, said
from vgi_cli.workers import on_all_cores

_ParseError: Any = typer.BadParameter.__mro__[1]
"""What typer raises for a command line that it cannot parse (the class is that of the click inside it)."""
ELSEWHERE: Mapping[str, str] = MappingProxyType(
    {
        "--separator": "--delimiter",
        "--sep": "--delimiter",
        "--output": "--out",
        "--random-state": "--seed",
        "--random-seed": "--seed",
        "--imputations": "--m",
        "--n-imputations": "--m",
        "--max-iter": "--epochs",
        "--maxit": "--epochs",
        "--iterations": "--epochs",
        "--n-jobs": "--threads",
        "--jobs": "--threads",
        "--cores": "--threads",
        "--overwrite": "--force",
        "--config": "--recipe",
        "--missing-values": "--na-values",
        "--na-strings": "--na-values",
        "--ignore": "--exclude",
        "--drop": "--exclude",
    }
)
"""What options are called in other programs."""


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"vgi {__version__}")
        raise typer.Exit()


def _top(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    _help_where_nothing_follows(context)


def _help_where_nothing_follows(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help())


class _Panels(typer.core.TyperGroup):
    """Lists the commands under headings."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """As help.PANELS has them."""
        width = max(len(name) for panel in help.PANELS.values() for name in panel)
        for title, panel in help.PANELS.items():
            with formatter.section(title):
                formatter.write_dl([(f"{name:<{width}}", text) for name, text in panel.items()])


class _Stopped(Exception):
    """A command was stopped by a signal."""

    def __init__(self, by: Interrupted) -> None:
        super().__init__(by.message)
        self.by = by


def _signals_passed(command: Callable[..., Any]) -> Callable[..., Any]:
    """The command, with what a signal raises in a form that typer does not take for Ctrl-C: the exit code and the
    words of a KeyboardInterrupt would be its own."""

    @functools.wraps(command)
    def passed(*arguments: Any, **options: Any) -> Any:
        try:
            return command(*arguments, **options)
        except Interrupted as stopped:
            raise _Stopped(stopped) from stopped

    return passed


def _without_types(command: Any) -> None:
    """Let help call arguments by their names alone, not by types of Python as well (`DATA <list[str]>`)."""
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            parameter.display_type_rich = lambda ctx: None
    for each in getattr(command, "commands", {}).values():
        _without_types(each)


@functools.cache
def build_app(terminal: bool) -> Callable[..., Any]:
    """The commands, as something to be called. Off a terminal the help is plain unwrapped text."""
    width = {"max_content_width": 120} if terminal else {"terminal_width": 100_000}
    settings: dict[str, Any] = {"help_option_names": ["-h", "--help"], **width}
    app = typer.Typer(
        name="vgi",
        cls=_Panels,
        help=help.TOP,
        epilog=help.TOP_EPILOG,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings=settings,
    )
    app.callback(invoke_without_command=True)(_top)
    groups: dict[str, typer.Typer] = {}
    for path, command in COMMANDS.items():
        group, _, name = path.rpartition(" ")
        if group and group not in groups:
            groups[group] = typer.Typer(rich_markup_mode=None)
            about, examples = help.GROUPS[group]
            groups[group].callback(invoke_without_command=True, help=about, epilog=examples)(
                _help_where_nothing_follows
            )
            app.add_typer(groups[group], name=group, context_settings=settings)
        parent = groups[group] if group else app
        parent.command(name, help=command.help, epilog=command.epilog)(_signals_passed(command.function(path)))
    made = typer.main.get_command(app)
    _without_types(made)
    return made


def main(argv: Sequence[str] | None = None, started: float | None = None) -> int:
    """Run `vgi` with these arguments (default: those of the process) and return the exit code. `started`: when the
    process began, by the monotonic clock; None: now."""
    if argv is None and isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # of letters that the user's encoding does not have
    with shown_stdout():
        return _main(argv, started)


def _main(argv: Sequence[str] | None, started: float | None) -> int:
    started = time.monotonic() if started is None else started
    arguments = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in arguments
    console, streams = _early_console(arguments), (sys.stdout, sys.stderr)
    completion.get_ready()
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # idle threads of torch sleep instead of spinning
    try:
        with warnings.catch_warnings():
            if not debug and argv is None:
                warnings.simplefilter("ignore")
            _require_utf8(arguments)
            with said(arguments), on_all_cores():
                called = build_app(is_terminal(sys.stdout))
                result = called(args=arguments, prog_name="vgi", standalone_mode=False, obj={"started": started})
            sys.stdout.flush()
            if result == 130:  # typer's word for an interrupt
                console.error("stopped by SIGINT")
            return result if isinstance(result, int) else 0
    except (VgiError, _Stopped) as caught:
        error = caught.by if isinstance(caught, _Stopped) else caught
        if debug:
            console.trace()
        launch = _launch()
        if not launch.leaves_to_others(error.exit_code):
            console.error(f"rank {launch.rank}: {error.message}" if launch.rank else error.message, error.hint)
        return error.exit_code
    except _ParseError as error:
        console.error(*_parse_text(error, arguments))
        return 2
    except typer.Exit as error:
        return int(error.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        console.error("stopped by SIGINT")
        return 130
    except (BrokenPipeError, SystemExit) as error:
        if not isinstance(error, BrokenPipeError) and not isinstance(error.__context__, BrokenPipeError):
            raise
        sys.stdout, sys.stderr = streams  # typer, which makes a SystemExit of it, has put others there
        with contextlib.suppress(OSError):  # the reader of stdout has gone: nothing more to say
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        if debug:
            console.trace()
        console.error(*_failure_text(error))
        return 1


def _failure_text(error: Exception) -> tuple[str, str]:
    """Message and hint for what went wrong and is no error of this package."""
    if isinstance(error, OSError):
        where = f"'{error.filename}': " if error.filename else ""
        return f"{where}{error.strerror or error}", "check the path, its permissions and the space on the disk"
    first = str(error).partition("\n")[0]
    if _out_of_memory(error):
        detail = "" if isinstance(error, SystemError) else first.rpartition("can't allocate memory: ")[2]
        return f"out of memory: {detail}".rstrip(": "), "a smaller --set optim.batch_size or fewer rows may fit"
    if type(error).__name__ in ("LinAlgError", "_LinAlgError"):
        hint = "fit the run again; a column of extreme values can be carried (--column NAME=carry)"
        return f"the model's numbers cannot be computed with: {first}", hint
    return f"unexpected {type(error).__name__}: {error}", "this is a bug of vgi; --debug shows where it happened"


def _require_utf8(arguments: Sequence[str]) -> None:
    """UsageError for an argument that is no UTF-8 text, which a run could not name, or is not read as such."""
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError:
            try:
                name = os.fsencode(argument).decode()
            except UnicodeError:
                raise UsageError(f"'{argument}' is not UTF-8", "rename the file") from None
            raise UsageError(
                f"'{name}' is UTF-8, and the locale of this process is not",
                "set LC_ALL=C.UTF-8 or PYTHONUTF8=1",
            ) from None


def _launch() -> Launch:
    """How this process was started; alone where that makes no sense, which a command refuses."""
    try:
        return launched()
    except UsageError:
        return Launch()


def _out_of_memory(error: Exception) -> bool:
    """Whether memory was lacking: torch has a class for that on a GPU, a text on the CPU; a thread needs some too.
    Where a call in C has none to say so in, Python says that it failed without a reason."""
    named = isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"
    named = named or (isinstance(error, SystemError) and "without exception set" in str(error))
    texts = ("can't allocate memory", "can't start new thread", "Cannot allocate memory")
    return named or any(words in str(error) for words in texts)


def _early_console(arguments: Sequence[str]) -> Console:
    """What says that a command line is wrong, before it has been parsed: by its `--color` and `--log-file`, where these
    can be used."""
    said = dict(itertools.pairwise(arguments)) | dict(word.split("=", 1) for word in arguments if "=" in word)
    log = said.get("--log-file")
    try:
        return Console(colour=said.get("--color", "auto"), log=None if log is None else Path(log))
    except UsageError:
        return Console()


def _elsewhere(option: str, known: Sequence[str]) -> str | None:
    """The one of the known options that has the name `option`, or nearly, in other programs; None where none has."""
    named = closest(option.replace("_", "-"), ELSEWHERE)
    return ELSEWHERE[named] if named is not None and ELSEWHERE[named] in known else None


def _parse_text(error: Any, arguments: Sequence[str]) -> tuple[str, str]:
    """Message and hint for a command line that cannot be parsed."""
    text = error.format_message().split(" (Possible options")[0].split(" Did you mean ")[0]
    text = (text[:1].lower() + text[1:]).strip().rstrip(".")
    text = re.sub(": Input should be a valid integer.*", ": expected a whole number", text)
    context: Any = getattr(error, "ctx", None)
    option = getattr(error, "option_name", None)
    path = context.command_path if context is not None else "vgi"
    if option and text.startswith("no such option"):
        known = [name for parameter in context.command.params for name in parameter.opts] if context else []
        known = [name for name in known if name.startswith("-")]
        close = closest(option, known) or begins_alike(option, known) or _elsewhere(option, known)
        if close is not None:
            return text, f"did you mean '{close}'?"
        places = [str(getattr(one, "metavar", "")) for one in context.command.params] if context else []
        if option == "--checkpoint" and any(place.strip("{}[].") == "RUN" for place in places):
            run = dict(itertools.pairwise(arguments)).get(option, "RUN")
            return text, f"the run folder comes without a flag: `{path} {shlex.quote(run)}`"
    if text.startswith("no such command"):
        return text, nearest(text.split("'")[1], context.command.commands)
    if text == "missing option '--checkpoint'":
        runs = [word for word in arguments if (Path(word) / "manifest.json").is_file()]
        if runs:
            return text, f"did you mean `--checkpoint {shlex.quote(runs[0])}`?"
    if path == "vgi pool" and text.startswith("got unexpected extra argument"):
        from vgi_cli.commands.pool import TAKES

        return f"one table of estimates, {text}", TAKES
    return text, f"{path} --help lists what is possible"
