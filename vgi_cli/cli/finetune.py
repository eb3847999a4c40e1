"""`vgi finetune`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from vgi_cli.cli import options as o
from vgi_cli.cli.console import Console


def command(
    context: typer.Context,
    checkpoint: o.Checkpoint,
    data: Annotated[
        list[str], typer.Argument(metavar="DATA", help="One table: files, a folder of Parquet, or - (CSV on stdin).")
    ],
    epochs: o.Epochs = None,
    time_limit: o.TimeLimit = None,
    force: o.Force = False,
    mask: o.Mask = None,
    na_values: o.NaValues = None,
    delimiter: o.Delimiter = None,
    seed: o.Seed = None,
    device: o.Device = None,
    threads: o.Threads = None,
    plugin: o.Plugin = None,
    out: o.Out = None,
    quiet: o.Quiet = False,
    verbose: o.Verbose = False,
    debug: o.Debug = False,
) -> None:
    """The command line of `vgi finetune`; its help text is in cli/help.py."""
    from vgi_cli.commands.early import check_finetune
    from vgi_cli.registry.plugins import plugged
    from vgi_cli.settings.recipe import gather

    settings = gather(
        {
            "data": (data, "DATA"),
            "epochs": (epochs, "--epochs"),
            "time_limit": (time_limit, "--time-limit"),
            "mask": (mask, "--mask"),
            "table.na_values": (na_values, "--na-values"),
            "table.delimiter": (delimiter, "--delimiter"),
            "seed": (seed, "--seed"),
            "device": (device, "--device"),
            "threads": (threads, "--threads"),
        },
        environ=os.environ,
    )
    console = Console(quiet, verbose)
    path = None if out is None else Path(out)
    with plugged(plugin or []):
        check_finetune(checkpoint, settings, path, force)
        from vgi_cli.commands.finetune import finetune

        run = finetune(
            checkpoint,
            settings,
            out=path,
            force=force,
            reporter=console,
            started=context.obj["started"],
        )
    print(run.path)
