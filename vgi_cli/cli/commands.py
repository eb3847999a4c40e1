"""The commands: typer's functions, made from the table of options, and what each prints."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from vgi_cli.cli import help
from vgi_cli.cli.console import Console
from vgi_cli.settings import options
from vgi_cli.settings.options import Said

TABLE = "One table: files, a folder of Parquet, or - (CSV on stdin)."


@dataclass(frozen=True)
class Words:
    """What the command line adds to the options of a request: its arguments, and when the process began."""

    said: Said
    data: list[str] | None
    checkpoint: Path | None
    started: float
    console: Console

    def request(self, kind: Any, **more: Any) -> Any:
        """The request of a kind."""
        from vgi_cli.commands.requests import make_request

        if self.checkpoint is not None:
            more["checkpoint"] = self.checkpoint
        return make_request(kind, self.said, self.data, os.environ, started=self.started, **more)


def _fit(words: Words) -> None:
    from vgi_cli.commands.requests import FitRequest

    print(words.request(FitRequest).carry_out(words.console).path)


def _finetune(words: Words) -> None:
    from vgi_cli.commands.requests import FinetuneRequest

    print(words.request(FinetuneRequest).carry_out(words.console).path)


def _impute(words: Words) -> None:
    from vgi_cli.commands.requests import ImputeRequest

    for path in words.request(ImputeRequest).carry_out(words.console):
        print(path)


def _evaluate(words: Words) -> None:
    from vgi_cli.commands.requests import EvaluateRequest
    from vgi_cli.evaluation.fail_if import check, parse

    values = words.said.values
    conditions = tuple(parse(text) for text in values["fail_if"] or ())
    write = not values["json"] or values["out"] is not None
    report = words.request(EvaluateRequest, conditions=conditions, write=write).carry_out(words.console)
    print(report.json_text() if values["json"] else report.text(), end="")
    if report.interrupted is not None:
        raise report.interrupted
    check(conditions, report.values)


@dataclass(frozen=True)
class Command:
    """A command: its options, what it does with them, its help, and its argument DATA.

    of_run    whether it needs --checkpoint
    several   whether DATA may be several files
    required  whether DATA must be said
    """

    tables: tuple[Any, ...]
    body: Callable[[Words], None]
    help: str
    epilog: Callable[[], str]
    of_run: bool = True
    several: bool = True
    required: bool = True
    data: str = TABLE

    def function(self) -> Callable[..., None]:
        """What typer calls; typer reads its signature."""
        fields = options.fields_of(*self.tables, options.ConsoleOptions)

        def called(context: typer.Context, **typed: Any) -> None:
            data = typed.pop("data")
            paths = [data] if isinstance(data, str) else data
            checkpoint = typed.pop("checkpoint", None)
            said = options.read(fields, typed, typed=True)
            console = Console(said.values["quiet"], said.values["verbose"])
            self.body(Words(said, paths, checkpoint, context.obj["started"], console))

        called.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [_parameter("context", typer.Context), *self._arguments()]
            + [_parameter(name, *_typer(field)) for name, field in fields.items() if field.option.flags]
        )
        return called

    def _arguments(self) -> list[inspect.Parameter]:
        kind: Any = list[str] if self.several else str
        data = typer.Argument(metavar="DATA", help=self.data)
        of_run = options.Field(*options.annotated(options.Checkpoint))
        return [
            *([_parameter("checkpoint", Annotated[Path, _option(of_run)])] if self.of_run else []),
            _parameter("data", Annotated[kind, data])
            if self.required
            else _parameter("data", Annotated[kind | None, data], None),
        ]


def _parameter(name: str, annotation: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)


def _option(field: options.Field) -> Any:
    return typer.Option(*field.option.flags, metavar=field.option.metavar, help=field.option.help)


def _typer(field: options.Field) -> tuple[Any, Any]:
    """The annotation and the default of a parameter by which typer makes an option."""
    return Annotated[field.typed, _option(field)], field.unsaid


COMMANDS = {
    "fit": Command((options.FitOptions,), _fit, help.FIT, help.fit_epilog, of_run=False, required=False),
    "finetune": Command((options.FinetuneOptions,), _finetune, help.FINETUNE, help.finetune_epilog),
    "impute": Command(
        (options.ImputeOptions,),
        _impute,
        help.IMPUTE,
        help.impute_epilog,
        several=False,
        required=False,
        data="A table, or - (CSV on stdin). Default: the table that was fitted.",
    ),
    "evaluate": Command(
        (options.EvaluateOptions, options.EvaluateConsoleOptions), _evaluate, help.EVALUATE, help.evaluate_epilog
    ),
}
