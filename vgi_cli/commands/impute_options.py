"""What `vgi impute` is asked for: which options go together, and what they are where nobody says."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from vgi_cli.errors import UsageError, nearest
from vgi_cli.ranges import MOST_IMPUTATIONS
from vgi_cli.registry import names as registry
from vgi_cli.reporting import Reporter
from vgi_cli.settings.problems import shown

if TYPE_CHECKING:
    from vgi_cli.fitting.fitted import Fitted

LAYOUTS = ("files", "long", "single")
POINTS = ("mean", "median")
UNCERTAINTY = ("auto", "bootstrap", "none")
DRAWS = 5


class ImputeOptions(NamedTuple):
    """What `vgi impute` was asked for; none: the default."""

    m: int | None = None
    layout: str | None = None
    point: str | None = None
    sampler: str = "auto"
    uncertainty: str = "auto"
    original: bool = True
    out: str | None = None
    force: bool = False
    strict: bool = False


def check_options(options: ImputeOptions, stdin: bool) -> ImputeOptions:
    """The options with their defaults filled in, but for the number of draws (see `with_draws`). UsageError for what
    cannot be, before anything is read."""
    for name, value, known in (
        ("--format", options.layout, LAYOUTS),
        ("--point", options.point, POINTS),
        ("--uncertainty", options.uncertainty, UNCERTAINTY),
    ):
        if value is not None and value not in known:
            raise UsageError(
                f"{name}: expected {', '.join(known[:-1])} or {known[-1]}, got '{value}'", nearest(value, known)
            )
    if options.m is not None and not 1 <= options.m <= MOST_IMPUTATIONS:
        raise UsageError(
            f"--m: expected a whole number from 1 to {MOST_IMPUTATIONS}, got {shown(options.m)}", "for example --m 5"
        )
    to_stdout = options.out == "-" or (options.out is None and stdin)
    layout = options.layout
    if options.point is not None:
        if layout not in (None, "single"):
            raise UsageError(f"--point gives one table, --format {layout} several", "leave out --format")
        layout = "single"
    layout = layout or ("single" if to_stdout else "files")
    if to_stdout and layout == "files":
        raise UsageError("--format files cannot go to stdout", "name a file with -o, or take --format long or single")
    if layout == "single" and options.point is None and (options.m or 1) > 1:
        raise UsageError(
            f"--format single is one draw, --m {options.m} asks for more", "--point mean, or --format files or long"
        )
    if not options.original and layout != "long":
        raise UsageError("--no-original belongs to --format long", "leave it out")
    draws = 1 if layout == "single" and options.point is None else options.m
    return options._replace(layout=layout, m=draws, out="-" if to_stdout else options.out)


def with_draws(options: ImputeOptions, fitted: Fitted, reporter: Reporter) -> ImputeOptions:
    """The options with the number of draws: DRAWS where nobody said, of stored chains no more than there are.
    UsageError for a sampler that the run cannot offer."""
    sampler = fitted.sampler(options.sampler)
    if options.m is not None:
        return options
    chains = fitted.held["values"].shape[1] if registry.SAMPLERS[sampler].traits.stored else DRAWS
    if chains < DRAWS:
        reporter.say(f"{chains} draw{'s' * (chains != 1)}, as many as the run keeps imputations of a row")
    return options._replace(m=min(chains, DRAWS))
