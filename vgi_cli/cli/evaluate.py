"""`vgi evaluate`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from vgi_cli.cli import options as o
from vgi_cli.cli.console import Console


def command(
    context: typer.Context,
    checkpoint: o.Checkpoint,
    data: Annotated[
        list[str], typer.Argument(metavar="DATA", help="One table: files, a folder of Parquet, or - (CSV on stdin).")
    ],
    truth: Annotated[
        str | None, typer.Option("--truth", metavar="FILE", help="The complete table: score the imputations.")
    ] = None,
    objective: Annotated[
        bool,
        typer.Option("--objective", help="Fine-tune and add the VGI objective (not comparable with a likelihood)."),
    ] = False,
    truth_model: Annotated[
        str | None,
        typer.Option(
            "--truth-model",
            metavar="FILE",
            help="The law behind the data, a run or JSON with parameters: add KL, Wasserstein distance, RMSE.",
        ),
    ] = None,
    conditionals: Annotated[
        bool, typer.Option("--conditionals", help="Compare the fitted conditionals with the model's own, by column.")
    ] = False,
    json_: Annotated[
        bool, typer.Option("--json", help="One JSON object, and nothing else, on stdout; no files without -o.")
    ] = False,
    per_row: Annotated[
        str | None, typer.Option("--per-row", metavar="FILE", help="Write log p(observed cells) of each row.")
    ] = None,
    fail_if: Annotated[
        list[str] | None,
        typer.Option(
            "--fail-if", metavar="'PATH OP NUMBER'", help="Exit with 3 if this holds, e.g. 'loglik < -5' (repeatable)."
        ),
    ] = None,
    samples: Annotated[
        int | None,
        typer.Option("--samples", metavar="N", help="Draws of the latents a row, for models with latents (3000)."),
    ] = None,
    rows: Annotated[
        str | None,
        typer.Option(
            "--rows",
            metavar="N|all",
            help="Rows, drawn at random, that are scored where the likelihood has to be estimated (1000).",
        ),
    ] = None,
    refit_epochs: Annotated[
        int | None,
        typer.Option(
            "--refit-epochs",
            metavar="N",
            help="Fine-tune their encoder to DATA for so many epochs, instead of while it helps; 0: not.",
        ),
    ] = None,
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
    """The command line of `vgi evaluate`; its help text is in cli/help.py."""
    from vgi_cli.commands.early import check_evaluate
    from vgi_cli.evaluation.fail_if import check, parse
    from vgi_cli.registry.plugins import plugged
    from vgi_cli.settings.recipe import gather

    settings = gather(
        {
            "data": (data, "DATA"),
            "mask": (mask, "--mask"),
            "table.na_values": (na_values, "--na-values"),
            "table.delimiter": (delimiter, "--delimiter"),
            "seed": (seed, "--seed"),
            "device": (device, "--device"),
            "threads": (threads, "--threads"),
            "time_limit": (time_limit, "--time-limit"),
        },
        environ=os.environ,
    )
    conditions = tuple(parse(text) for text in fail_if or [])
    console = Console(quiet, verbose)
    path, write = None if out is None else Path(out), not json_ or out is not None
    with plugged(plugin or []):
        check_evaluate(checkpoint, settings, truth=truth, out=path, per_row=per_row, write=write, force=force)
        from vgi_cli.commands.evaluate.command import EvaluateOptions, evaluate

        chosen = EvaluateOptions(
            truth=truth,
            objective=objective,
            truth_model=truth_model,
            conditionals=conditionals,
            per_row=per_row,
            out=path,
            force=force,
            write=write,
            conditions=conditions,
            samples=samples,
            refit_epochs=refit_epochs,
            rows=_rows(rows),
        )
        report = evaluate(checkpoint, settings, chosen, console, started=context.obj["started"])
    print(report.json_text() if json_ else report.text(), end="")
    if report.interrupted is not None:
        raise report.interrupted
    check(conditions, report.values)


def _rows(text: str | None) -> Any:
    """A number of rows, or what was said instead."""
    return int(text) if text is not None and text.isascii() and text.isdecimal() else text
