"""The metrics of a fit for TensorBoard, which may be missing: the extra `tensorboard`."""

from __future__ import annotations

import importlib.util
import statistics
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from vgi_cli.columns.schema import Schema
from vgi_cli.errors import UsageError
from vgi_cli.runs.folder import RunFolder
from vgi_cli.runs.store import SCHEMA

MAIN = "main"
"""The stage of a fit whose metrics have no stage before their name."""


def require(folder: str | None) -> None:
    """UsageError where metrics are to be written for TensorBoard and cannot be."""
    if folder is None:
        return
    if importlib.util.find_spec("tensorboard") is None:
        raise UsageError(
            "--tensorboard needs the package tensorboard, which is not installed",
            "pip install '.[tensorboard]' in a clone of vgi",
        )
    if Path(folder).exists() and not Path(folder).is_dir():
        raise UsageError(f"--tensorboard: '{folder}' is a file", "name a folder")


@contextmanager
def told(run: RunFolder, folder: str | None) -> Iterator[None]:
    """Within this context every line of metrics goes to `folder`/<name of the run> too; None: nowhere."""
    if folder is None:
        yield
        return
    board = Board(Path(folder) / run.path.resolve().name, run)
    run.listeners.append(board.add)
    try:
        yield
    finally:
        run.listeners.remove(board.add)
        board.close()


def scalars(line: Mapping[str, Any], columns: Sequence[str]) -> dict[str, float]:
    """The numbers of a line of metrics by the names under which TensorBoard shows them. A list with a number for each
    column becomes its mean and, below `<name>_of/`, the numbers themselves; a stage before the main one is a prefix."""
    stage = line.get("stage", MAIN)
    prefix = "" if stage == MAIN else f"{stage}/"
    found: dict[str, float] = {}
    for name, value in line.items():
        if name != "step" and isinstance(value, int | float):
            found[prefix + name] = float(value)
        elif isinstance(value, list) and len(value) == len(columns):
            known = {column: float(one) for column, one in zip(columns, value, strict=True) if one is not None}
            found |= {prefix + name: statistics.fmean(known.values())} if known else {}
            found |= {f"{prefix}{name}_of/{column}": one for column, one in known.items()}
    return found


class Board:
    """Writes lines of metrics by their `step`. A fit that goes on takes back what was written after the checkpoint from
    which it goes on."""

    def __init__(self, folder: Path, run: RunFolder) -> None:
        self._folder, self._run = folder, run
        self._writer: Any = None
        self._columns: tuple[str, ...] = ()

    def add(self, line: Mapping[str, Any]) -> None:
        """Write a line."""
        if self._writer is None:
            from torch.utils.tensorboard import SummaryWriter  # needs the package tensorboard

            self._writer = SummaryWriter(str(self._folder), purge_step=line["step"], flush_secs=10)
            self._columns = Schema.from_json(self._run.text(SCHEMA)).modelled
        for name, value in scalars(line, self._columns).items():
            self._writer.add_scalar(name, value, line["step"])

    def close(self) -> None:
        """All that was added is in the file."""
        if self._writer is not None:
            self._writer.close()
