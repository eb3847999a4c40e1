"""`vgi impute`."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from vgi_cli.cli import options as o
from vgi_cli.cli.console import Console


def command(
    context: typer.Context,
    checkpoint: o.Checkpoint,
    data: Annotated[
        str | None,
        typer.Argument(metavar="DATA", help="A table, or - (CSV on stdin). Default: the table that was fitted."),
    ] = None,
    m: Annotated[
        int | None, typer.Option("--m", metavar="N", help="Number of imputations. Default: 5, or all chains if fewer.")
    ] = None,
    format_: Annotated[
        str | None,
        typer.Option("--format", metavar="LAYOUT", help="files (one table a draw), long (all in one) or single."),
    ] = None,
    point: Annotated[
        str | None,
        typer.Option("--point", metavar="mean|median", help="One table of point estimates; not for inference."),
    ] = None,
    sampler: Annotated[str, typer.Option("--sampler", metavar="NAME", help="Sampler; see below.")] = "auto",
    uncertainty: Annotated[
        str,
        typer.Option(
            "--uncertainty",
            metavar="RULE",
            help="Uncertainty of the parameters, which Rubin's rules need: auto, bootstrap (a refit for each "
            "imputation; fa and mixture have them) or none.",
        ),
    ] = "auto",
    no_original: Annotated[
        bool, typer.Option("--no-original", help="With --format long: leave out .imp 0, the table with its holes.")
    ] = False,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict", help="Write nothing and exit 1 where holes would stay (columns that are not modelled)."
        ),
    ] = False,
    time_limit: o.TimeLimit = None,
    force: o.Force = False,
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
    """The command line of `vgi impute`; its help text is in cli/help.py."""
    from vgi_cli.commands.early import check_impute
    from vgi_cli.commands.impute_options import ImputeOptions, check_options
    from vgi_cli.registry.plugins import plugged
    from vgi_cli.settings.recipe import gather

    settings = gather(
        {
            "data": ([data] if data is not None else None, "DATA"),
            "mask": (mask, "--mask"),
            "table.na_values": (na_values, "--na-values"),
            "table.delimiter": (delimiter, "--delimiter"),
            "seed": (seed, "--seed"),
            "device": (device, "--device"),
            "threads": (threads, "--threads"),
            "time_limit": (time_limit, "--time-limit"),
            "compile": (compile_, "--compile"),
        },
        environ=os.environ,
    )
    chosen = check_options(
        ImputeOptions(
            m=m,
            layout=format_,
            point=point,
            sampler=sampler,
            uncertainty=uncertainty,
            original=not no_original,
            out=out,
            force=force,
            strict=strict,
        ),
        stdin=data == "-",
    )
    console = Console(quiet, verbose)
    with plugged(plugin or []):
        check_impute(checkpoint, settings, chosen)
        from vgi_cli.commands.impute import impute

        paths = impute(checkpoint, settings, chosen, console, started=context.obj["started"])
    for path in paths:
        print(path)
