"""`vgi fit`."""

from __future__ import annotations

import csv
import os
from pathlib import Path
from typing import Annotated

import typer

from vgi_cli.cli import options as o
from vgi_cli.cli.console import Console
from vgi_cli.errors import UsageError

KINDS = ("integer", "numeric", "carry")


def command(
    context: typer.Context,
    data: Annotated[
        list[str] | None,
        typer.Argument(metavar="DATA", help="One table: files, a folder of Parquet, or - (CSV on stdin)."),
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", metavar="NAME", help="Model; see below. Default: auto.")
    ] = None,
    method: Annotated[
        str | None, typer.Option("--method", metavar="NAME", help="Method; see below. Default: the model's own.")
    ] = None,
    imputer: Annotated[
        str | None,
        typer.Option("--imputer", metavar="NAME", help="Imputer of --method impute-then-fit, which it implies; below."),
    ] = None,
    recipe: Annotated[Path | None, typer.Option("--recipe", metavar="FILE", help="Settings in YAML.")] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="One setting, such as model.factors=3 (repeatable)."),
    ] = None,
    val: Annotated[
        str | None,
        typer.Option("--val", metavar="FILE|FRACTION", help="Held-out rows that select the epoch and stop early."),
    ] = None,
    select: Annotated[
        str | None,
        typer.Option(
            "--select",
            metavar="RULE",
            help="With --val: loglik (of the observed cells, default) or objective (the method's own loss).",
        ),
    ] = None,
    epochs: o.Epochs = None,
    time_limit: o.TimeLimit = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run in --out.")] = False,
    force: o.Force = False,
    id_: Annotated[
        list[str] | None,
        typer.Option("--id", metavar="COL", help="Column that names the rows: carried, keys the draws (repeatable)."),
    ] = None,
    exclude: Annotated[
        list[str] | None, typer.Option("--exclude", metavar="COL", help="Column to carry, not to model (repeatable).")
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option("--column", metavar="NAME=KIND", help="Kind of a column: integer, numeric or carry (repeatable)."),
    ] = None,
    bounds: Annotated[
        list[str] | None,
        typer.Option(
            "--bounds",
            metavar="COL=LIMITS",
            help="Limits of a column's fills (repeatable): LOW:HIGH, LOW:, :HIGH, observed or none; all=… for each "
            "column. Default: its natural limits.",
        ),
    ] = None,
    unbounded: Annotated[
        list[str] | None,
        typer.Option("--unbounded", metavar="COL", help="The same as --bounds COL=none (repeatable), or all."),
    ] = None,
    block: Annotated[
        list[str] | None,
        typer.Option(
            "--block",
            metavar="A,B,…",
            help="Columns that are redrawn together (repeatable), or auto: those that are missing together.",
        ),
    ] = None,
    mask: o.Mask = None,
    na_values: o.NaValues = None,
    delimiter: o.Delimiter = None,
    seed: o.Seed = None,
    device: o.Device = None,
    threads: o.Threads = None,
    compile_: o.Compile = None,
    plugin: o.Plugin = None,
    out: o.Out = None,
    quiet: o.Quiet = False,
    verbose: o.Verbose = False,
    debug: o.Debug = False,
) -> None:
    """The command line of `vgi fit`; its help text is in cli/help.py."""
    from vgi_cli.commands.early import check_fit
    from vgi_cli.registry.names import check_names
    from vgi_cli.registry.plugins import plugged
    from vgi_cli.settings.recipe import gather

    flags = {
        "data": (data, "DATA"),
        "model.name": (model, "--model"),
        "method.name": (method, "--method"),
        "method.imputer": (imputer, "--imputer"),
        "val": (_number(val), "--val"),
        "select": (select, "--select"),
        "epochs": (epochs, "--epochs"),
        "time_limit": (time_limit, "--time-limit"),
        "table.id": (id_, "--id"),
        "table.exclude": (exclude, "--exclude"),
        "table.columns": (_kinds(column or []), "--column"),
        "table.bounds": (_bounds(bounds or []), "--bounds"),
        "table.unbounded": (unbounded, "--unbounded"),
        "table.blocks": (_blocks(block or []), "--block"),
        "mask": (mask, "--mask"),
        "table.na_values": (na_values, "--na-values"),
        "table.delimiter": (delimiter, "--delimiter"),
        "seed": (seed, "--seed"),
        "device": (device, "--device"),
        "threads": (threads, "--threads"),
        "compile": (compile_, "--compile"),
    }
    if resume and force:
        raise UsageError("--resume and --force exclude each other", "--resume continues a run, --force replaces it")
    settings = gather(flags, set_ or [], os.environ, recipe)
    if not plugin:
        check_names(model, method)  # before torch is loaded
    console = Console(quiet, verbose)
    path = None if out is None else Path(out)
    with plugged(plugin or []):
        check_fit(settings, path, resume, force)
        from vgi_cli.commands.fit import fit

        run = fit(
            settings,
            out=path,
            resume=resume,
            force=force,
            reporter=console,
            started=context.obj["started"],
        )
    print(run.path)


def _number(text: str | None) -> float | str | None:
    """A fraction as a number, anything else as the name of a file."""
    try:
        return None if text is None else float(text)
    except ValueError:
        return text


def _blocks(items: list[str]) -> list[list[str]] | str:
    """`auto`, or blocks of names with commas between them (quoted as in CSV)."""
    if items == ["auto"]:
        return "auto"
    return [[name.strip() for name in next(csv.reader([item], skipinitialspace=True), [])] for item in items]


def _bounds(items: list[str]) -> dict[str, str]:
    limits: dict[str, str] = {}
    for item in items:
        name, equals, text = item.rpartition("=")
        if not equals:
            raise UsageError(
                f"--bounds: expected COL=LOW:HIGH, COL=observed or COL=none, got '{item}'",
                "for example --bounds age=0:",
            )
        if limits.setdefault(name, text) != text:
            raise UsageError(f"--bounds {name}={limits[name]} disagrees with --bounds {item}", "drop one of them")
    return limits


def _kinds(items: list[str]) -> dict[str, str]:
    kinds: dict[str, str] = {}
    for item in items:
        name, equals, kind = item.rpartition("=")
        if not equals or kind not in KINDS:
            raise UsageError(
                f"--column: expected NAME=KIND with a kind of {', '.join(KINDS)}, got '{item}'",
                "for example --column age=integer",
            )
        kinds[name] = kind
    return kinds
