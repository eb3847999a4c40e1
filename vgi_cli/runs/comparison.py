"""What models scored while they are compared, kept until the run has a model: so that a comparison that was stopped
goes on. Each score is a file of its own, whole or absent; its name holds a hash of all that the score depends on, and
one of what is in the file."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from vgi_cli.durable import sync_folder
from vgi_cli.errors import Interrupted, RunError, VgiError
from vgi_cli.runs.files import COMMAND, COMPARISON, file_sha256, write_atomic
from vgi_cli.runs.lock import check_held

if TYPE_CHECKING:  # what is wrong with a run is said before torch is loaded
    from torch import Tensor

FORMAT = 1
NOTHING_KEPT = "nothing was kept"
_VALUES = "json"
_SUFFIX = ".safetensors"


class Kept(NamedTuple):
    """What one model scored: plain values, and tensors by name."""

    values: dict[str, Any]
    tensors: dict[str, Tensor]


class Comparison:
    """Where scores are kept: nowhere. `somewhere`: False."""

    somewhere = False

    def find(self, key: str) -> Kept | None:
        """The scores under a key (a hash); None where there are none."""
        return None

    def keep(self, key: str, scores: Kept) -> None:
        """Keep scores under a key."""


class ComparisonInFolder(Comparison):
    """The scores of a comparison in the folder of the run that will come of it.

    claim    makes or finds that folder, at the first score, and holds its lock from then on
    command  what the comparison was begun with: its settings as they were said, for who goes on with it
    damaged  is told of a file that is not as it was written
    """

    somewhere = True

    def __init__(
        self, claim: Callable[[], Path], command: Mapping[str, Any], damaged: Callable[[str], None], before: Path | None
    ) -> None:
        """before: the folder in which a comparison was begun that goes on; None: there was none."""
        self._claim, self._command, self._damaged = claim, dict(command), damaged
        self._before = {} if before is None else {_key(file): file for file in _files(before)}

    def find(self, key: str) -> Kept | None:
        from vgi_cli.runs.tensors import read_tensors

        file = self._before.get(key)
        if file is None:
            return None
        if file_sha256(file) != file.name.split(".")[1]:
            self._damaged(f"{file} is damaged: what it holds is scored again")
            file.unlink()
            return None
        tensors = read_tensors(file)
        return Kept(json.loads(bytes(tensors.pop(_VALUES).tolist())), tensors)

    def keep(self, key: str, scores: Kept) -> None:
        import torch

        from vgi_cli.runs.tensors import write_tensors

        run = self._claim()
        check_held(run)
        folder = run / COMPARISON
        if not (folder / COMMAND).exists():
            folder.mkdir(exist_ok=True)
            write_atomic(folder / COMMAND, json.dumps({"format": FORMAT, **self._command}).encode())
            sync_folder(run)
        written = folder / f"{key}.tmp"
        values = torch.tensor(list(json.dumps(scores.values).encode()), dtype=torch.uint8)
        digest = write_tensors(written, {**scores.tensors, _VALUES: values})
        os.replace(written, folder / f"{key}.{digest}{_SUFFIX}")
        sync_folder(folder)


def _files(run: Path) -> list[Path]:
    """The scores that are kept in the folder of a run."""
    return sorted((run / COMPARISON).glob(f"*.*{_SUFFIX}"))


def _key(file: Path) -> str:
    return file.name.split(".")[0]


def compared(run: Path) -> int:
    """How many models were scored in a folder before a run was begun there."""
    return len(_files(run))


def begun_with(run: Path) -> dict[str, Any]:
    """What a comparison was begun with. RunError where that cannot be read, or is of a newer version."""
    path = run / COMPARISON / COMMAND
    anew = f"give the whole command again, with --force: what was scored in '{run}' is then scored anew"
    try:
        command: dict[str, Any] = json.loads(path.read_bytes())
        known = command["format"] == FORMAT
        if known:
            dict(command["settings"]), command["max_memory"]
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise RunError(f"cannot read {path} ({error})", anew) from None
    if not known:
        raise RunError(f"{path} has format {command['format']!r}, and this version reads {FORMAT}", anew)
    return command


def drop(run: Path) -> None:
    """Remove the scores that are kept in the folder of a run."""
    shutil.rmtree(run / COMPARISON, ignore_errors=True)


def say_what_is_kept(error: VgiError | Interrupted, run: Path, resume: str) -> None:
    """Make an error say how many scores are kept in a folder, and by which command the fit goes on."""
    if not (count := compared(run)):
        return
    what = f"what {count} model{'s' * (count > 1)} scored is kept in {run}"
    message = error.message.removesuffix(NOTHING_KEPT) if error.message.endswith(NOTHING_KEPT) else f"{error.message}; "
    error.message = message + what
    refused = error.exit_code == 2 and error.hint  # what helps comes first
    error.hint = f"{error.hint}; then: {resume}" if refused else f"continue with: {resume}"
    error.args = (error.message,)
