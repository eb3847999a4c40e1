"""What a command refuses before torch is loaded: files that are not there, folders that are no run, outputs that exist.

Each check is the one that the command's own body makes again, where the rest is known: here it costs no seconds.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple, cast

from vgi_cli.commands.impute_options import ImputeOptions
from vgi_cli.errors import UsageError
from vgi_cli.runs.folder import RunFolder, check_free
from vgi_cli.settings.problems import Settings
from vgi_cli.settings.recipe import require_data
from vgi_cli.table.files import require_files, stem_of
from vgi_cli.table.outputs import (
    Layout,
    default_output,
    output_paths,
    refuse_existing,
    refuse_sources,
    refuse_type,
)


class _Named(NamedTuple):
    """A table of which only the name is known (see `outputs.Described`); its format is not asked for here."""

    stem: str
    suffix: str
    format: Any = "csv"


def check_fit(settings: Settings, out: Path | None, resume: bool, force: bool) -> None:
    """Of `vgi fit`: an output that exists, tables that are not there."""
    if not resume:
        require_data(settings)
        check_free(out, force)
    _require_tables(settings, _value(settings, "val"))


def check_finetune(checkpoint: Path, settings: Settings, out: Path | None, force: bool) -> None:
    """Of `vgi finetune`: an output that exists, a run and tables that are not there."""
    check_free(out, force)
    _open(checkpoint)
    _require_tables(settings)


def check_impute(checkpoint: Path, settings: Settings, options: ImputeOptions) -> None:
    """Of `vgi impute`: a run and tables that are not there, outputs that exist. `options`: checked."""
    data = _open(checkpoint).manifest.get("data", {}).get("paths") or []
    _require_tables(settings)
    named = _value(settings, "data") or data
    if options.out == "-" or not named:
        return
    table = _Named(*stem_of(Path(named[0])))
    out = default_output(checkpoint / "imputed", table) if options.out is None else Path(options.out)
    paths = output_paths(out, table, m=options.m or 1, layout=cast(Layout, options.layout))
    refuse_sources(paths, named, "the table that is imputed")
    if options.out is not None:
        refuse_type(out)
    refuse_existing(paths, force=options.force)


def check_evaluate(
    checkpoint: Path,
    settings: Settings,
    *,
    truth: str | None,
    out: Path | None,
    per_row: str | None,
    write: bool,
    force: bool,
) -> None:
    """Of `vgi evaluate`: a run and tables that are not there, outputs that cannot be."""
    _open(checkpoint)
    _require_tables(settings, truth)
    check_report(settings, truth, out, per_row, write, force)


def check_report(
    settings: Settings, truth: str | None, out: Path | None, per_row: str | None, write: bool, force: bool
) -> None:
    """UsageError for outputs of `vgi evaluate` that cannot be; a report in the run itself is numbered, so it can."""
    paths = [] if out is None or not write else [out / "report.json", out / "report.md"]
    if per_row is not None:
        paths.append(Path(per_row))
        if not paths[-1].parent.is_dir():
            raise UsageError(f"--per-row: no folder '{paths[-1].parent}'", "create it first")
        refuse_type(paths[-1])
    if out is not None and out.exists() and not out.is_dir():
        raise UsageError(f"--out: '{out}' is a file", "name a folder")
    given = [*(_value(settings, "data") or []), _value(settings, "mask"), truth]
    refuse_sources(paths, [path for path in given if path is not None], "read here")
    for path in paths:
        if path.exists() and not force:
            other = "another -o DIR" if path.parent == out else "another --per-row"
            raise UsageError(f"'{path}' exists", f"--force replaces it, {other} writes elsewhere")


def _open(checkpoint: Path) -> RunFolder:
    """The run, its files not verified. RunError where there is none that can be used."""
    run = RunFolder.open(checkpoint, verify=False)
    run.require_model()
    return run


def _require_tables(settings: Settings, more: Any = None) -> None:
    """InputError for files that are not there: of the table, of its mask, and one more (a number names none)."""
    require_files(_value(settings, "data") or [])
    require_files([path for path in (_value(settings, "mask"), more) if isinstance(path, str)])


def _value(settings: Settings, key: str) -> Any:
    return settings[key].value if key in settings else None
