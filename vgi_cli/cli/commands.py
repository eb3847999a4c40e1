"""The commands: typer's functions, made from the table of options, and what each prints."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from vgi_cli.cli import help
from vgi_cli.cli.console import Console
from vgi_cli.settings import options
from vgi_cli.settings.options import Field


def _print_path(request: Any, run: Any) -> None:
    print(run.path)


def _print_paths(request: Any, paths: list[Path]) -> None:
    for path in paths:
        print(path)


def _print_report(request: Any, report: Any) -> None:
    from vgi_cli.evaluation.fail_if import check

    print(report.json_text() if request.json else report.text(), end="")
    if report.interrupted is not None:
        raise report.interrupted
    check(request.conditions, report.values)


@dataclass(frozen=True)
class Command:
    """A command of the program.

    request  its class in commands/requests.py
    tables   its options
    show     prints what carrying out a request gave
    of_run   whether it needs --checkpoint
    several  whether DATA may be several files
    demands  whether DATA must be said
    data     help of DATA
    """

    request: str
    tables: tuple[Any, ...]
    show: Callable[[Any, Any], None]
    help: str
    epilog: str
    of_run: bool = True
    several: bool = True
    demands: bool = True
    data: str = "One table: files, a folder of Parquet, or - (CSV on stdin)."

    def function(self) -> Callable[..., None]:
        """What typer calls; typer reads its signature."""
        fields = options.fields_of(*self.tables, options.ConsoleOptions)

        def called(context: typer.Context, data: list[str] | str | None, **typed: Any) -> None:
            from vgi_cli.commands import requests
            from vgi_cli.registry.plugins import plugged

            more = {"checkpoint": typed["checkpoint"]} if self.of_run else {}
            paths = [data] if isinstance(data, str) else data
            kind = getattr(requests, self.request)
            with plugged(typed["plugins"] or ()):  # what is typed may have their names
                said = options.read_typed(fields, typed)
                request = requests.make_request(kind, said, paths, os.environ, started=context.obj["started"], **more)
            reporter = Console(said.values["quiet"], said.values["verbose"])
            if said.values.get("dry_run"):
                print(request.look(reporter).text(), end="")
                return
            self.show(request, request.carry_out(reporter))

        kind: Any = list[str] if self.several else str
        data: Any = Annotated[kind if self.demands else kind | None, typer.Argument(metavar="DATA", help=self.data)]
        made = [
            _parameter("context", typer.Context),
            _parameter("data", data) if self.demands else _parameter("data", data, None),
            *(_option(field) for field in fields.values() if field.flags),
        ]
        if self.of_run:
            made.insert(1, _option(Field("checkpoint", *get_args(options.Checkpoint))))
        called.__signature__ = inspect.Signature(made)  # type: ignore[attr-defined]
        return called


def _parameter(name: str, annotation: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def _option(field: Field) -> inspect.Parameter:
    """The parameter from which typer makes an option."""
    kind, default = field.typed
    option = typer.Option(*field.flags, metavar=field.option.metavar or None, help=field.option.help)
    return _parameter(field.name, Annotated[kind, option], default)


COMMANDS = {
    "fit": Command(
        "FitRequest",
        (options.FitOptions, options.FitConsoleOptions),
        _print_path,
        help.FIT,
        help.FIT_EPILOG,
        of_run=False,
        demands=False,
    ),
    "finetune": Command(
        "FinetuneRequest", (options.FinetuneOptions,), _print_path, help.FINETUNE, help.FINETUNE_EPILOG
    ),
    "impute": Command(
        "ImputeRequest",
        (options.ImputeOptions,),
        _print_paths,
        help.IMPUTE,
        help.IMPUTE_EPILOG,
        several=False,
        demands=False,
        data="A table, or - (CSV on stdin). Default: the table that was fitted.",
    ),
    "evaluate": Command(
        "EvaluateRequest",
        (options.EvaluateOptions, options.EvaluateConsoleOptions),
        _print_report,
        help.EVALUATE,
        help.EVALUATE_EPILOG,
    ),
}
