"""The commands: typer's functions, made from the table of options, and what each prints."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from vgi_cli.cli import help
from vgi_cli.cli.completion import offered
from vgi_cli.cli.console import Console, is_terminal
from vgi_cli.cli.visible import visible
from vgi_cli.errors import UsageError
from vgi_cli.machine.launch import Launch, launched
from vgi_cli.reporting import Silent
from vgi_cli.settings import options
from vgi_cli.settings.options import Field


def _print_path(request: Any, run: Any) -> None:
    print(run.path)


def _print_paths(request: Any, paths: list[Path]) -> None:
    for path in paths:
        print(path)


def _print_scores(request: Any, result: Any) -> None:
    print(result.text(), end="")
    if result.interrupted is not None:
        raise result.interrupted


def print_result(request: Any, result: Any) -> None:
    """Of commands whose result has `text()` and `json_text()`, each with its line ends."""
    print(visible(result.json_text() if request.json else result.text()), end="")


def print_checked(request: Any, result: Any) -> None:
    """The same, of a result whose `require()` raises what speaks against it."""
    print_result(request, result)
    result.require()


def print_written(request: Any, result: Any) -> None:
    """The same, of a result one of whose files may not have been written."""
    print_result(request, result)
    if result.unwritten is not None:
        raise result.unwritten


def _print_text(request: Any, text: Any) -> None:
    print(text, end="")


def _print_line(request: Any, line: Any) -> None:
    print(line)


def _print_report(request: Any, report: Any) -> None:
    from vgi_cli.evaluation.fail_if import check

    print_result(request, report)
    if report.interrupted is not None:
        raise report.interrupted
    if report.unwritten is not None:
        raise report.unwritten
    check(request.conditions, report.values, report.lost)


@dataclass(frozen=True)
class Argument:
    """What a command is told without a flag; its name is that of the request's field, but for DATA (`data`).

    several  whether it may be said several times
    demands  whether it must be said
    kind     of one value
    metavar  what help calls it; empty: its name
    offers   whose values the shell offers (cli/completion.py), where not those of its own name
    """

    name: str
    help: str
    several: bool = False
    demands: bool = True
    kind: Any = str
    metavar: str = ""
    offers: str = ""

    def parameter(self) -> inspect.Parameter:
        """The parameter from which typer makes it."""
        kind: Any = list[self.kind] if self.several else self.kind  # type: ignore[name-defined]
        metavar, values = self.metavar or self.name.upper(), offered(self.offers or self.name)
        argument = typer.Argument(metavar=metavar, help=self.help, autocompletion=values)
        if self.demands:
            return _parameter(self.name, Annotated[kind, argument])
        return _parameter(self.name, Annotated[kind | None, argument], None)


def _run() -> Argument:
    """The run, of commands that take it without a flag."""
    kind, option = get_args(options.Checkpoint)
    return Argument("checkpoint", option.help, kind=kind, metavar=option.metavar)


def _data(
    help: str = "One table: files, a folder of Parquet, addresses (s3://…) of such, or - (CSV on stdin).", **more: Any
) -> Argument:
    return Argument("data", help, **more)


@dataclass(frozen=True)
class Command:
    """A command of the program.

    request    its class: of commands/requests.py, or `module:Class`. A `Request` is made from a recipe too; any other
               class is made of the options and arguments that were said, by name. `carry_out` does it
    tables     its options
    show       prints what carrying out a request gave
    arguments  what is told without a flag
    of_run     whether it needs --checkpoint
    """

    request: str
    tables: tuple[Any, ...]
    show: Callable[[Any, Any], None]
    help: str
    epilog: str
    arguments: tuple[Argument, ...] = (_data(several=True),)
    of_run: bool = True

    def function(self, name: str = "") -> Callable[..., None]:
        """What typer calls; typer reads its signature. `name`: of the command, for its own help of options."""
        fields = options.fields_of(*self.tables, options.ConsoleOptions)

        def called(context: typer.Context, **typed: Any) -> None:
            from vgi_cli.registry.plugins import plugged

            launch = launched()
            with plugged(typed.get("plugins") or ()):  # what is typed may have their names
                said = options.read_typed(fields, typed)
                request = self._request(said, typed, context.obj["started"], launch)
            reporter = _console(said.values, typed.get("data"))
            listener = Silent() if launch.rank else reporter
            try:
                dry = said.values.get("dry_run")
                result = request.look(listener) if dry else request.carry_out(listener)
            finally:
                reporter.close()
            if launch.rank:
                return  # rank 0 says what came of it
            if dry:
                print(visible(result.text()), end="")
            else:
                self.show(request, result)

        own = help.OPTIONS.get(name, {})
        made = [
            _parameter("context", typer.Context),
            *(argument.parameter() for argument in self.arguments),
            *(_option(field, own.get(field.name)) for field in fields.values() if field.flags),
        ]
        if self.of_run:
            made.insert(1, _option(Field("checkpoint", *get_args(options.Checkpoint))))
        called.__signature__ = inspect.Signature(made)  # type: ignore[attr-defined]
        return called

    def _request(self, said: options.GivenOptions, typed: Mapping[str, Any], started: float, launch: Launch) -> Any:
        """What was asked for, of this process or of several. UsageError where it cannot be."""
        from vgi_cli.commands import requests

        module, _, name = self.request.rpartition(":")
        kind = getattr(importlib.import_module(module) if module else requests, name)
        told = {argument.name: typed[argument.name] for argument in self.arguments}
        if self.of_run:
            told["checkpoint"] = typed["checkpoint"]
        if not issubclass(kind, requests.Request):
            given = {**said.values, **told}
            own = {field.name for field in dataclasses.fields(kind)}
            return kind(**{name: value for name, value in given.items() if name in own and value is not None})
        if issubclass(kind, requests.FitRequest):
            told["launch"] = launch
        elif not launch.alone:
            apart = "; vgi impute --shard I/N fills a part of the rows" * issubclass(kind, requests.ImputeRequest)
            raise UsageError(
                f"WORLD_SIZE is {launch.world}: of all commands only `vgi fit` can be shared by several processes",
                f"start this one without torchrun{apart}",
            )
        data = told.pop("data", None)
        paths = [data] if isinstance(data, str) else data
        return requests.make_request(kind, said, paths, os.environ, started=started, **told)


def _console(said: Mapping[str, Any], data: Any) -> Console:
    """The reporter that the options ask for; no panel where the result is written to the same terminal meanwhile."""
    piped = "-" in (said.get("out"), data)
    return Console(
        said["quiet"],
        said["verbose"],
        colour=said["color"],
        log=None if said["log_file"] is None else Path(said["log_file"]),
        live=not (piped and is_terminal(sys.stdout)),
    )


def _parameter(name: str, annotation: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def _option(field: Field, about: str | None = None) -> inspect.Parameter:
    """The parameter from which typer makes an option; `about`: its help, where it is not that of the table."""
    kind, default = field.typed
    metavar, values = field.option.metavar or None, offered(field.name)
    option = typer.Option(*field.flags, metavar=metavar, help=about or field.option.help, autocompletion=values)
    return _parameter(field.name, Annotated[kind, option], default)


def _plain(
    request: str,
    table: Any,
    show: Callable[[Any, Any], None],
    about: str,
    epilog: str,
    *arguments: Argument,
) -> Command:
    """A command that needs neither a table nor a run; `request`: `file:Class` in commands/."""
    return Command(f"vgi_cli.commands.{request}", (table,), show, about, epilog, arguments, of_run=False)


COMMANDS = {
    "fit": Command(
        "FitRequest",
        (options.FitOptions, options.FitConsoleOptions),
        _print_path,
        help.FIT,
        help.FIT_EPILOG,
        arguments=(_data(several=True, demands=False),),
        of_run=False,
    ),
    "check": Command(
        "vgi_cli.commands.check.command:CheckRequest",
        (options.CheckOptions, options.CheckConsoleOptions),
        print_result,
        help.CHECK,
        help.CHECK_EPILOG,
        of_run=False,
    ),
    "finetune": Command(
        "FinetuneRequest", (options.FinetuneOptions,), _print_path, help.FINETUNE, help.FINETUNE_EPILOG
    ),
    "impute": Command(
        "ImputeRequest",
        (options.ImputeOptions, options.ImputeConsoleOptions),
        _print_paths,
        help.IMPUTE,
        help.IMPUTE_EPILOG,
        arguments=(_data("A table, or - (CSV on stdin). Default: the table that was fitted.", demands=False),),
    ),
    "evaluate": Command(
        "EvaluateRequest",
        (options.EvaluateOptions, options.EvaluateConsoleOptions),
        _print_report,
        help.EVALUATE,
        help.EVALUATE_EPILOG,
    ),
    "score": Command(
        "ScoreRequest",
        (options.ScoreOptions,),
        _print_scores,
        help.SCORE,
        help.SCORE_EPILOG,
        arguments=(_run(), _data(several=True)),
        of_run=False,
    ),
    "sample": Command(
        "SampleRequest",
        (options.SampleOptions,),
        _print_paths,
        help.SAMPLE,
        help.SAMPLE_EPILOG,
        arguments=(_run(),),
        of_run=False,
    ),
    "report": Command(
        "vgi_cli.commands.report.request:ReportRequest",
        (options.ReportOptions, options.ReportConsoleOptions),
        print_written,
        help.REPORT,
        help.REPORT_EPILOG,
        arguments=(Argument("run", "Run folders that `vgi fit` or `vgi finetune` printed.", several=True),),
        of_run=False,
    ),
    "hide": Command("HideRequest", (options.HideOptions,), _print_paths, help.HIDE, help.HIDE_EPILOG, of_run=False),
    "doctor": _plain("doctor:DoctorRequest", options.DoctorOptions, print_checked, help.DOCTOR, help.DOCTOR_EPILOG),
    "recipe ls": _plain(
        "recipe:ListRequest", options.RecipeListOptions, print_result, help.RECIPE_LS, help.RECIPE_LS_EPILOG
    ),
    "recipe show": _plain(
        "recipe:ShowRequest",
        options.RecipeShowOptions,
        _print_text,
        help.RECIPE_SHOW,
        help.RECIPE_SHOW_EPILOG,
        Argument("name", "A name of `vgi recipe ls` (.yaml may be left out), or a file.", offers="recipe"),
    ),
    "recipe cp": _plain(
        "recipe:CopyRequest",
        options.RecipeCopyOptions,
        _print_line,
        help.RECIPE_CP,
        help.RECIPE_CP_EPILOG,
        Argument("name", "A name of `vgi recipe ls` (.yaml may be left out).", offers="recipe"),
        Argument("file", "The new file, or a folder."),
    ),
    "recipe validate": _plain(
        "recipe:ValidateRequest",
        options.RecipeValidateOptions,
        print_checked,
        help.RECIPE_VALIDATE,
        help.RECIPE_VALIDATE_EPILOG,
        Argument("file", "A recipe, or a name of `vgi recipe ls`.", offers="recipe"),
    ),
    "recipe schema": _plain(
        "recipe:SchemaRequest",
        options.RecipeSchemaOptions,
        _print_text,
        help.RECIPE_SCHEMA,
        help.RECIPE_SCHEMA_EPILOG,
    ),
    "pool": _plain(
        "pool:PoolRequest",
        options.PoolOptions,
        print_result,
        help.POOL,
        help.POOL_EPILOG,
        Argument("estimates", "One table of estimates, or - (CSV on stdin)."),
    ),
    "completion": Command(
        "vgi_cli.cli.completion:CompletionRequest",
        (),
        _print_text,
        help.COMPLETION,
        help.COMPLETION_EPILOG,
        (Argument("shell", "bash, zsh or fish."),),
        of_run=False,
    ),
}
