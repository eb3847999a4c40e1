"""The run folder, format 1: claiming a new one, opening one, and refusing what is damaged or newer."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shlex
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from vgi_cli.errors import RunError, UsageError
from vgi_cli.runs.files import (
    COMMAND,
    COMMITTED,
    COMPARISON,
    PENDING,
    PREVIOUS,
    barrier,
    commit,
    drop_previous,
    file_sha256,
    finish_commit,
    json_bytes,
    keep_previous,
    sha256,
    write_atomic,
    write_synced,
)
from vgi_cli.runs.lock import LOCK, check_held, sole_writer, writing
from vgi_cli.runs.manifest import HINT, MANIFEST, parse, sealed
from vgi_cli.runs.store import ENCODED, RunStore

if TYPE_CHECKING:  # opening a run loads no torch: what is wrong with it is said at once
    from torch import Tensor

    from vgi_cli.methods.base import Parts
    from vgi_cli.ranks import Ranks
    from vgi_cli.scratch import Scratch

METRICS = "metrics.jsonl"
REPLACED = ".replaced."
"""In the name of a run that `--force` replaces, as long as the new one has no model."""
CARD = "README.md"
"""The model card: a user may change it, so it is none of the files whose hash must match."""

Read = TypeVar("Read")


class Claim:
    """A folder claimed for a new run. `rollback` leaves everything as it was; `commit` drops what it replaced.

    path   as it was said: of a link the folder that it leads to is moved and removed, and the link stays
    older  more of what it replaces, which never comes back here
    """

    def __init__(self, path: Path, replaced: Path | None, created: bool, older: Sequence[Path] = ()) -> None:
        self.path = path
        self._place = Path(os.path.realpath(path))
        self._compared = (path / COMPARISON).exists()  # a comparison that was stopped goes on
        self._older = older
        self._replaced = replaced
        self._created = created

    @property
    def replaces(self) -> bool:
        """Whether a run that was here comes back on a rollback."""
        return self._replaced is not None

    def commit(self) -> None:
        """The new run has something to show: the folder that it replaces goes."""
        for folder in (self._replaced, *self._older):
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)
        self._replaced, self._older = None, ()

    @contextmanager
    def undone_if_empty(self) -> Iterator[None]:
        """After a failure in this context, of whatever kind: a refused fit leaves nothing, and a replaced run comes
        back unless a new model is there."""
        try:
            yield
        except BaseException as error:
            if has_model(self.path):
                self.commit()
            elif getattr(error, "exit_code", 1) == 2 or self._replaced is not None:
                if not self._compared:
                    shutil.rmtree(self.path / COMPARISON, ignore_errors=True)
                self.rollback()
            raise

    def rollback(self) -> None:
        """The fit was refused after all: remove the folder, put the replaced one back. What was scored while models
        were compared stays where nothing was replaced."""
        if self._replaced is None and (self.path / COMPARISON).exists():
            for entry in self._place.iterdir():
                if entry.name != COMPARISON:
                    shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
            return
        shutil.rmtree(self._place, ignore_errors=True)
        if self._replaced is not None:
            os.rename(self._replaced, self._place)
            self._replaced = None
        elif not self._created:
            self._place.mkdir()


def vacant(path: Path) -> bool:
    """Whether a folder is empty, or holds no more than what a fit leaves that was killed before its first checkpoint:
    nothing was fitted there yet, and nothing in it is the user's own."""
    return not is_compared(path) and all(
        entry.is_dir() if entry.name in (PENDING, COMPARISON) else entry.name.startswith(LOCK) and entry.is_file()
        for entry in path.iterdir()
    )


def is_run(path: Path) -> bool:
    """Whether a run has been begun in a folder."""
    return (path / MANIFEST).exists() or (path / COMMITTED).exists()


def is_compared(path: Path) -> bool:
    """Whether models were compared in a folder and the fit was stopped before a run was begun."""
    return (path / COMPARISON / COMMAND).is_file() and not is_run(path)


def has_model(path: Path) -> bool:
    """Whether a checkpoint lies in a folder, at the top or about to be moved there."""
    return any((path / name).exists() for name in ("model.safetensors", COMMITTED))


def set_aside(path: Path) -> list[Path]:
    """The runs that `--force` was to replace by one at `path` and has not, because it was killed before that one had a
    model; the newest first."""
    return [] if has_model(path) else beside(path)


def beside(path: Path) -> list[Path]:
    """The runs that `--force` moved aside for one at `path`, and has not removed because it was killed; the newest
    first. They lie beside the folder itself, where `path` is a link to it."""
    path = Path(os.path.realpath(path))
    if not path.parent.is_dir():
        return []
    moved = (one for one in path.parent.iterdir() if one.name.startswith(f".{path.name}{REPLACED}"))
    kept = [one for one in moved if is_run(one)]
    return sorted(kept, key=lambda one: one.stat().st_ctime, reverse=True)


def in_its_place(path: Path, aside: Path) -> str:
    """Where the run is that `--force` was to replace by one at `path` which has no model yet, and how it comes back."""
    there, kept = shlex.quote(os.path.realpath(path) if path.is_symlink() else str(path)), _shown(path, aside)
    back = f"rm -rf {there} && mv {shlex.quote(str(kept))} {there}"
    writer = writing(path)
    how = f"to have it back: {back}" if writer is None else f"{writer} writes the new one; without it: {back}"
    return f"the run that --force was to replace there is still in '{kept}' ({how})"


def left_beside(path: Path, aside: Path) -> str:
    """Where the run is that `--force` replaced by the one at `path` before it was killed, and how it goes."""
    kept = _shown(path, aside)
    away = f"rm -rf {shlex.quote(str(kept))}"
    return f"the run that --force replaced by this one is still in '{kept}' (to remove it: {away})"


def _shown(path: Path, aside: Path) -> Path:
    """A run that was moved aside for one at `path`, by the same way to its folder."""
    return path.with_name(aside.name) if path.name and not path.is_symlink() else aside


def _place_aside(place: Path) -> Path:
    """Where the run at `place` goes that is replaced, until the new one has a model: a name that is free."""
    path = place.with_name(f".{place.name}{REPLACED}{os.getpid()}")
    numbered = (path.with_name(f"{path.name}.{number}") for number in itertools.count(2))
    return next(one for one in itertools.chain([path], numbered) if not one.exists())


def check_free(out: Path | None, force: bool, *, resumes: bool = True) -> None:
    """Refuse an `--out` that exists (nothing is created here). `resumes`: whether the command can go on with a run."""
    if out is None or not out.exists():
        return
    if not out.is_dir():
        raise UsageError(f"--out: '{out}' exists and is a file", "give the name of a new folder")
    if vacant(out):
        return
    run = is_run(out) or is_compared(out)
    if not force and not run:
        raise UsageError(f"--out: '{out}' exists and is not a run", "choose a new name")
    if not force:
        raise UsageError(f"--out: '{out}' exists", "--force replaces it" + ", --resume continues it" * resumes)
    if out.name in ("", ".."):  # it would be moved away under the command's feet
        raise UsageError(f"--out: '{out}' has no name here, so --force does not replace it", "call it by its name")
    if not run:
        raise UsageError(f"--out: '{out}' exists and is not a run, so --force does not replace it", "choose a new name")


def check_writable(out: Path | None) -> None:
    """RunError where no folder can be made there, as far as permissions tell: found before a fit, not after it."""
    if (found := barrier(Path() if out is None else out)) is not None:
        what = "a run folder here" if out is None else f"'{out}'"
        raise RunError(f"cannot create {what}: {found[1]}", "choose another folder with --out")


def claim_or_beside(out: Path | None, force: bool = False) -> Claim:
    """As `claim` of a name that was free when the fit began: where another command has taken it meanwhile, the next one
    of `out-2`, `out-3`, …, so that no work is lost."""
    try:
        return claim(out, force)
    except UsageError:
        if out is None or force or not out.is_dir():
            raise
    others = (out.with_name(f"{out.name}-{number}") for number in itertools.count(2))
    return claim(next(other for other in others if not other.exists()))


def next_free(parent: Path) -> Path:
    """The first of `run1/`, `run2/`, … that does not exist."""
    return next(path for path in (parent / f"run{number}" for number in itertools.count(1)) if not path.exists())


def claim_compared(out: Path) -> Claim:
    """The folder in which models were compared, for the run that comes of it: what was scored stays there."""
    return Claim(out, None, created=False)


def claim(out: Path | None, force: bool = False) -> Claim:
    """Create the folder of a new run; without `out` the next free `run1/`, `run2/`, … here (atomic)."""
    if out is None:
        number = 1
        while True:
            path = Path(f"run{number}")
            try:
                path.mkdir()
                return Claim(path, None, created=True)
            except FileExistsError:
                number += 1
            except OSError as error:
                raise RunError(f"cannot create '{path}': {error.strerror}", "choose a folder with --out") from None
    check_free(out, force)
    try:
        older = beside(out) if force else []
        place = Path(os.path.realpath(out))
        if out.exists() and not vacant(out):
            replaced = _place_aside(place)
            with sole_writer(out):
                os.rename(place, replaced)
            place.mkdir()
            return Claim(out, replaced, created=False, older=older)
        created = not out.exists()
        (place if older else out).mkdir(parents=True, exist_ok=not created)  # of a link to nothing: where a run was
        if not created:
            with sole_writer(out):  # another fit may be about to write its first checkpoint
                shutil.rmtree(out / PENDING, ignore_errors=True)
        return Claim(out, older[0] if older else None, created, older[1:])
    except FileExistsError:
        hint = "it is a link to nothing: remove it" if out.is_symlink() else "another command has just taken it"
        raise UsageError(f"--out: '{out}' exists", hint) from None
    except OSError as error:
        raise RunError(f"cannot create '{out}': {error.strerror}", "choose another folder with --out") from None


class RunFolder(RunStore):
    """A run on disk. Opening finishes a checkpoint that was committed but not yet moved into place."""

    def __init__(self, path: Path, manifest: dict[str, Any], claimed: Claim | None = None) -> None:
        """`claimed`: the folder of a new run, as long as it may be given back."""
        self.path = path
        self.name = str(path)
        self.address = str(path.resolve())
        self.manifest = manifest
        self._claimed = claimed
        self.ranks: Ranks | None = None  # who else has a part of the imputations that are kept here
        self.listeners: list[Callable[[Mapping[str, Any]], None]] = []  # each is told every line of metrics

    @classmethod
    def open(cls, path: Path, verify: bool = True) -> RunFolder:
        """Open a run. RunError when it is none, damaged (SHA-256), or of a newer format."""
        if not path.exists():
            raise _offering(RunError(f"no run at '{path}'", "give the folder that `vgi fit` printed"), path)
        if not path.is_dir():
            raise RunError(f"'{path}' is a file, not a run folder", "give the folder that `vgi fit` printed")
        try:
            return cls._opened(path, verify)
        except RunError as error:
            raise _offering(error, path) from None

    @classmethod
    def _opened(cls, path: Path, verify: bool) -> RunFolder:
        """The run, once its manifest and its files are of the same checkpoint."""
        while True:
            finish_commit(path)
            run = cls(path, _read_manifest(path))
            try:
                if verify:
                    run.verify()
                return run
            except RunError:
                if not (path / COMMITTED).exists() and _read_manifest(path) == run.manifest:
                    raise  # nobody is writing here: it is damaged

    def file(self, name: str) -> Path:
        """Where a file of the run lies: at the top, or (for a folder that cannot be written) in the commit."""
        committed = self.path / COMMITTED / name
        return committed if committed.exists() else self.path / name

    def verify(self) -> None:
        """RunError unless every file of the manifest is there with its SHA-256."""
        for name, expected in self.manifest.get("files", {}).items():
            length = self.manifest.get("metrics_bytes") if name == METRICS else None
            found = self._sha256(name, length)
            if found is None:
                raise RunError(f"run '{self.path}' is damaged: {name} is missing", HINT)
            if found != expected:
                raise RunError(
                    f"run '{self.path}' is damaged: {name} does not match its SHA-256 in {MANIFEST}",
                    "restore the file, or fit again (to change settings, copy recipe.yaml elsewhere)",
                )

    def _sha256(self, name: str, length: int | None) -> str | None:
        """SHA-256 of a file, wherever it lies; None where it is missing."""
        return wherever(self.path, name, lambda file: file_sha256(file, length))

    def latest(self) -> RunFolder:
        read = _read_manifest(self.path).get("checksum")
        return self if read == self.manifest.get("checksum") else RunFolder.open(self.path)

    @property
    def fitted(self) -> bool:
        return "model.safetensors" in self.manifest.get("files", {})

    def require_model(self) -> None:
        try:
            super().require_model()
        except RunError as error:
            if writer := writing(self.path):
                error = RunError(error.message, f"{writer} fits it: wait for its first checkpoint")
            raise _offering(error, self.path) from None

    def holds(self, name: str) -> bool:
        return name in self.manifest.get("files", {})

    def text(self, name: str) -> str:
        try:
            return self.file(name).read_text(encoding="utf-8")
        except ValueError as error:  # no UTF-8
            raise RunError(f"run '{self.path}' is damaged: cannot read {name} ({error})", HINT) from None

    def tensors(self, stem: str) -> dict[str, Tensor]:
        from vgi_cli.runs.tensors import read_tensors

        return wherever(self.path, f"{stem}.safetensors", read_tensors) or {}

    def encoded(self, scratch: Scratch) -> dict[str, Tensor]:
        """The encoded rows that the run keeps, in files of this process: `x`, `missing` and `keys`. RunError where they
        are not there, or not as they were written."""
        from vgi_cli.runs.tensors import copy_tensors

        name = f"{ENCODED}.safetensors"
        found = self._sha256(name, None)
        if found != self.manifest.get(ENCODED):
            what = "is missing" if found is None else f"does not match its SHA-256 in {MANIFEST}"
            raise RunError(f"{self.file(name)} {what}", HINT)
        return copy_tensors(self.file(name), scratch)

    def save(self, parts: Parts, entries: Mapping[str, Any], texts: Mapping[str, str] | None = None) -> None:
        """Commit a checkpoint: tensors, texts (recipe, schema) and the manifest with their hashes, as one set."""
        from vgi_cli.runs.tensors import write_tensors

        manifest = {**self.manifest, **entries}
        hashes = dict(self.manifest.get("files", {}))
        metrics = self.path / METRICS
        if metrics.exists():
            with metrics.open("rb") as lines:
                os.fsync(lines.fileno())
                manifest["metrics_bytes"] = os.fstat(lines.fileno()).st_size
            hashes[METRICS] = file_sha256(metrics)

        def write(folder: Path) -> None:
            for stem, tensors in parts.items():
                if tensors or stem == "model":
                    ranks = self.ranks if stem == "imputations" else None
                    digest = write_tensors(folder / f"{stem}.safetensors", tensors, ranks)
                    if stem == ENCODED:  # it may be removed, so it is none of the files that must be there
                        manifest[ENCODED] = digest
                    else:
                        hashes[f"{stem}.safetensors"] = digest
            for name, text in (texts or {}).items():
                write_synced(folder / name, text.encode())
                hashes[name] = sha256(text.encode())
            manifest["files"] = dict(sorted(hashes.items()))
            write_synced(folder / MANIFEST, json_bytes(sealed(manifest)))

        check_held(self.path)
        before = None
        if "state" in parts:  # a step of the training, not what comes after it
            drop_previous(self.path)  # first, so that no more room is needed than for two
            before = self._keep_previous if self.holds("state.safetensors") else None
        commit(self.path, write, before)
        self.manifest = sealed(manifest)
        if self.finished:
            drop_previous(self.path)

    def _keep_previous(self) -> None:
        """Keep the checkpoint that is about to be replaced."""
        lengths = dict.fromkeys([*self.manifest["files"], MANIFEST])
        keep_previous(self.path, lengths | {METRICS: self.manifest["metrics_bytes"]})

    def truncate_metrics(self) -> None:
        """Drop lines that were logged after the last checkpoint."""
        path = self.path / METRICS
        if path.exists():
            os.truncate(path, self.manifest.get("metrics_bytes", 0))

    def start_metrics(self) -> None:
        """Make the file of metrics, if there is none."""
        (self.path / METRICS).touch()

    def add_metrics(self, line: Mapping[str, Any]) -> None:
        with (self.path / METRICS).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, allow_nan=False) + "\n")
        for listener in self.listeners:
            listener(line)

    def keep_card(self, text: str) -> bool:
        """Write the model card, and note its SHA-256 in the manifest (`card`). False, with nothing written, where there
        is one that is not as this program wrote it."""
        path, data = self.path / CARD, text.encode()
        if path.exists() and file_sha256(path) != self.manifest.get("card"):
            return False
        with sole_writer(self.path):
            for left in self.path.glob(f".{CARD}.*.tmp"):  # by a process that was killed while it wrote one
                left.unlink(missing_ok=True)
            self.save({}, {"card": sha256(data)})
            write_atomic(path, data)
        return True

    def publish(self) -> None:
        shutil.rmtree(self.path / COMPARISON, ignore_errors=True)  # it has chosen the model
        if self._claimed is not None:
            self._claimed.commit()

    def withdraw(self) -> None:
        if self._claimed is not None:
            self._claimed.rollback()

    @property
    def replaces(self) -> bool:
        return self._claimed is not None and self._claimed.replaces

    def metrics(self) -> list[dict[str, Any]]:
        """The metrics of every epoch up to the last checkpoint; none where nothing was trained."""
        if not self.holds(METRICS):
            return []
        text = self.file(METRICS).read_bytes()[: self.manifest["metrics_bytes"]]
        return [json.loads(line) for line in text.splitlines()]

    def last_metrics(self) -> dict[str, Any]:
        last: dict[str, Any] = {}
        with self.file(METRICS).open(encoding="utf-8") as lines:
            for line in lines:
                last |= json.loads(line)
        return last


def _offering(error: RunError, path: Path) -> RunError:
    """The error for a run that is damaged or not there, with the way back to what is: the checkpoint before, or the run
    that it was to replace."""
    if aside := set_aside(path):
        return RunError(error.message, f"{in_its_place(path, aside[0])}. Or {error.hint}")
    previous = path / PREVIOUS
    if not previous.is_dir():
        return error
    try:
        before = RunFolder(previous, _read_manifest(previous))
        before.verify()
    except (RunError, OSError):
        return error
    kept, moved = (shlex.quote(str(path / name)) for name in (PREVIOUS, COMMITTED))
    hint = f"the checkpoint before it is whole (epoch {before.manifest.get('epochs')}): mv {kept} {moved}"
    if before.manifest.get("command") == "fit":
        hint += f" && vgi fit --resume --out {shlex.quote(str(path))}"
    return RunError(error.message, hint)


def _read_manifest(path: Path) -> dict[str, Any]:
    try:
        text = wherever(path, MANIFEST, Path.read_bytes)
    except OSError as error:
        raise RunError(f"run '{path}' is damaged: cannot read {MANIFEST} ({error})", HINT) from None
    if text is None and vacant(path) and any(path.iterdir()):
        raise RunError(
            f"'{path}': the fit was stopped before it had saved anything", f"begin it again: vgi fit DATA --out {path}"
        )
    if text is None and is_compared(path):
        raise RunError(
            f"'{path}' holds no model yet: the fit was stopped while models were compared",
            f"continue it with: vgi fit --resume --out {shlex.quote(str(path))}",
        )
    if text is None:
        raise RunError(f"'{path}' is not a run: it has no {MANIFEST}", "give the folder that `vgi fit` printed")
    return parse(text, path)


def wherever(path: Path, name: str, read: Callable[[Path], Read]) -> Read | None:
    """What `read` makes of a file of a run, in the commit or else at the top; None where it is in neither. In this
    order: a file that is moved into place between two looks is at the top."""
    for folder in (path / COMMITTED, path):
        with contextlib.suppress(FileNotFoundError):
            return read(folder / name)
    return None
