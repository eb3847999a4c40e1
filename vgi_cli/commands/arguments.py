"""What the Python twins of the commands share: data as paths or in memory, the settings of reading."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from vgi_cli.errors import UsageError
from vgi_cli.table.memory import Frame, from_frame, is_frame
from vgi_cli.table.reader import Table

Data = str | Path | Iterable[str | Path] | Frame


def reading(
    mask: str | Path | None,
    na_values: Sequence[str],
    delimiter: str | None,
    seed: int | None,
    device: str | None,
    threads: int | None,
) -> dict[str, tuple[Any, str]]:
    """Settings of reading and computing, by dotted key, with the argument that says each."""
    return {
        "mask": (None if mask is None else str(mask), "mask"),
        "table.na_values": (names(na_values), "na_values"),
        "table.delimiter": (delimiter, "delimiter"),
        "seed": (seed, "seed"),
        "device": (device, "device"),
        "threads": (threads, "threads"),
    }


def source(data: Data | None, argument: str = "data") -> tuple[Table | None, list[str] | None]:
    """(table in memory, paths): one of them, or neither. UsageError that names the argument where it is neither."""
    if data is None:
        return None, None
    if is_frame(data):
        return from_frame(data), None
    if isinstance(data, str | Path):
        return None, [str(data)]
    paths = list(data) if isinstance(data, Iterable) and not isinstance(data, Mapping) else []
    if paths and all(isinstance(path, str | Path) for path in paths):
        return None, [str(path) for path in paths]
    raise UsageError(
        f"{argument}: expected paths, a pandas DataFrame or an Arrow table, got {type(data).__name__}",
        "pandas.DataFrame(…) or .to_frame() makes a table of it",
    )


def names(value: Sequence[str]) -> list[str]:
    """Names of columns, or tokens; one text is one of them, not its letters."""
    return [value] if isinstance(value, str) else list(value)


def mapping(value: object, argument: str, example: Mapping[str, Any]) -> dict[str, Any]:
    """A mapping, empty where none was said; UsageError that names the argument where it is none."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        found = type(value).__name__
        raise UsageError(f"{argument}: expected a mapping, got {found}", f"for example {argument}={example}")
    return dict(value)
