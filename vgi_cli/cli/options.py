"""The flags that several commands share, each written once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Checkpoint = Annotated[
    Path, typer.Option("--checkpoint", metavar="RUN", help="The run folder that `vgi fit` or `vgi finetune` printed.")
]
Mask = Annotated[
    str | None,
    typer.Option(
        "--mask", metavar="FILE", help="Hide more cells: same columns and rows as DATA, 1 = observed, 0 = missing."
    ),
]
NaValues = Annotated[
    list[str] | None,
    typer.Option("--na-values", metavar="TOKEN", help="One more text that means missing in CSV (repeatable)."),
]
Delimiter = Annotated[
    str | None, typer.Option("--delimiter", metavar="CHAR", help="Delimiter of CSV (default: comma; tab for .tsv).")
]
Seed = Annotated[int | None, typer.Option("--seed", metavar="N", help="Seed (fit: 0; afterwards: the run's).")]
Device = Annotated[
    str | None,
    typer.Option("--device", metavar="NAME", help="auto, cpu, cuda, cuda:1, …. [env var: VGI_DEVICE]"),
]
Threads = Annotated[
    int | None, typer.Option("--threads", metavar="N", help="Threads on the CPU. [env var: VGI_THREADS]")
]
Compile = Annotated[
    str | None,
    typer.Option(
        "--compile",
        metavar="WHEN",
        help="Capture the steps as CUDA graphs, or in `vgi fit` compile the density on a CPU: auto, off or on.",
    ),
]
Out = Annotated[
    str | None, typer.Option("-o", "--out", metavar="PATH", help="Where the result goes; see above for the default.")
]
Force = Annotated[bool, typer.Option("--force", help="Replace an output that exists.")]
Epochs = Annotated[int | None, typer.Option("--epochs", metavar="N", help="Number of epochs (em: of iterations).")]
TimeLimit = Annotated[
    str | None,
    typer.Option(
        "--time-limit",
        metavar="T",
        help="Wall time of the whole command, such as 90, 40s, 30m or 2h. Ends with what there is by then, or with 1.",
    ),
]
Plugin = Annotated[
    list[str] | None,
    typer.Option(
        "--plugin", metavar="FILE.py", help="Python file that registers models or methods; it is run (repeatable)."
    ),
]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="Warnings and errors only.")]
Verbose = Annotated[bool, typer.Option("-v", "--verbose", help="Say more.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
