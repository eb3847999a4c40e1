"""manifest.json: what it must hold, and the checksum by which it vouches for itself.

The manifest has the SHA-256 of every other file of a run; `checksum` is the SHA-256 of the manifest's own values,
however they are laid out. Runs that were written before there was one have none, and none of the keys that have come
since: they are read if their keys and values are those of their time. A key that this version does not know is left
alone where the checksum vouches for it (a later version wrote it), and is damage where nothing does.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from vgi_cli.errors import RunError
from vgi_cli.ranges import Seed, Threads
from vgi_cli.settings.problems import shown, validate
from vgi_cli.version import __version__, provenance

FORMAT = 1
MANIFEST = "manifest.json"
MODEL, STATE = "model.safetensors", "state.safetensors"
HINT = "restore the file, or fit again"
NAMED = 3
"""Faults that a message names."""

Count = Annotated[int, Field(ge=0, lt=1 << 63)]
Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
FileName = Annotated[str, Field(pattern=r"^[a-z]+(-[a-z]+)?\.[a-z]+$")]


class _Part(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True, allow_inf_nan=False)


class Data(_Part):
    """The table that was fitted."""

    paths: tuple[str, ...]
    mask: str | None
    label: str
    sha256: Sha256
    rows: Count
    rows_fitted: Count
    rows_held_out: Count = 0
    val_sha256: Sha256 | None = None


class Progress(_Part):
    """Where the last checkpoint stands."""

    steps: Count
    seconds: float
    best_score: float | None = None
    best_epoch: Count = 0
    validated: Count = 0
    bad: Count = 0


class Record(_Part):
    """What a run says of itself. What it has from its first checkpoint on, or from its end, may be lacking."""

    format: Annotated[int, Field(ge=1, le=FORMAT)]
    version: str
    command: Literal["fit", "finetune"]
    status: Literal["running", "finished"]
    stopped_by: Literal["epochs", "converged", "early_stopping", "stop_after", "time_limit"] | None
    seeds: dict[Literal["fit", "finetune"], Seed]
    data: Data
    model: str
    method: str | None
    device: Annotated[str, Field(pattern=r"^(cpu|cuda(:[0-9]+)?|mps)$")]
    threads: Threads | None
    requested: dict[str, Any] = {}
    chosen: dict[str, Any] = {}
    argv: tuple[str, ...] | None = None
    versions: dict[str, str] = {}
    plugins: dict[str, Sha256] = {}
    epochs: Count | None = None
    epochs_planned: Count | None = None
    progress: Progress | None = None
    bootstrap: Count | None = None
    bootstrap_by: str | None = None
    bootstrap_unsettled: Count | None = None
    bootstrap_work: float | None = None
    timings: dict[str, float] = {}
    time_limit: dict[str, Any] = {}
    max_memory: Count | None = None
    ranks: tuple[Count, ...] = (1,)
    encoded: Sha256 | None = None
    checkpoint: str | None = None
    finetuned_objective: dict[str, float | str] | None = None
    torch: str | None = None
    card: Sha256 | None = None

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """The same values by their types."""
        return cls.model_validate_json(json.dumps(values), strict=True)


class Manifest(Record):
    """The keys of manifest.json: what a run says of itself, and of its files."""

    metrics_bytes: Count
    files: dict[FileName, Sha256]
    checksum: Sha256 | None = None

    @model_validator(mode="after")
    def _whole(self) -> Self:
        """Keys that belong together."""
        lacking = [name for name in ("recipe.yaml", "schema.json") if name not in self.files]
        lacking += [MODEL] if self.status == "finished" and MODEL not in self.files else []
        lacking += [STATE] if self.progress is not None and STATE not in self.files else []
        if lacking:
            raise ValueError(f"lacks '{lacking[0]}' among 'files'")
        if "fit" not in self.seeds:
            raise ValueError("lacks 'seeds.fit'")
        if MODEL in self.files and (self.epochs is None or self.epochs_planned is None):
            raise ValueError("lacks 'epochs' or 'epochs_planned'")
        if STATE in self.files and self.progress is None:
            raise ValueError("lacks 'progress'")
        return self


PARTS: Mapping[str, type[BaseModel]] = {"data": Data, "progress": Progress}


def sealed(values: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest with its checksum."""
    plain = {key: value for key, value in values.items() if key != "checksum"}
    return {**plain, "checksum": _checksum(plain)}


def _checksum(values: Mapping[str, Any]) -> str:
    text = json.dumps(values, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def parse(text: bytes, path: Path) -> dict[str, Any]:
    """The values of a manifest, checked. RunError with what is wrong, or when a newer version wrote it; `path` is the
    run's."""
    try:
        values = json.loads(text)
        intact = None
        if isinstance(values, dict) and "checksum" in values:
            intact = sealed(values)["checksum"] == values["checksum"]
    except (ValueError, RecursionError) as error:
        raise RunError(f"run '{path}' is damaged: cannot read {MANIFEST} ({error})", HINT) from None
    if not isinstance(values, dict):
        raise RunError(f"run '{path}' is damaged: cannot read {MANIFEST} (it is no JSON object)", HINT)
    _refuse_newer(values, path)
    faults = [_fault(error) for error in validate(Manifest, values)]
    if not intact:
        faults += [f"has an unknown key '{key}'" for key in _unknown(Manifest, values)]
    if faults:
        more = f" and {len(faults) - NAMED} more" if len(faults) > NAMED else ""
        raise RunError(f"run '{path}' is damaged: {MANIFEST} {'; '.join(faults[:NAMED])}{more}", HINT)
    if intact is False:
        raise RunError(f"run '{path}' is damaged: {MANIFEST} does not match its own checksum", HINT)
    return values


def _unknown(kind: type[BaseModel], values: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Keys that the manifest of this version does not have, dotted."""
    for key, value in values.items():
        if key not in kind.model_fields:
            yield f"{prefix}{key}"
        elif key in PARTS and isinstance(value, dict):
            yield from _unknown(PARTS[key], value, f"{prefix}{key}.")


def _refuse_newer(values: Mapping[str, Any], path: Path) -> None:
    """RunError for a format that another version wrote; this one writes no such."""
    found, version = values.get("format"), values.get("version")
    if isinstance(found, int) and found > FORMAT and version != __version__:
        raise RunError(
            f"run '{path}' has format {shown(found)}, this program reads up to {FORMAT}",
            f"it was written by vgi {version}: update this program",
        )


def _fault(error: Any) -> str:
    """What is wrong with one key."""
    key = ".".join(map(str, error["loc"]))
    if error["type"] == "missing":
        return f"lacks '{key}'"
    if error["type"] == "value_error":
        return str(error["ctx"]["error"])
    message = error["msg"][:1].lower() + error["msg"][1:]
    return f"has {shown(error['input'])} for '{key}': {message}"


def new_manifest(command: str, **entries: Any) -> dict[str, Any]:
    """The values of a run that has just begun."""
    state = {"format": FORMAT, "version": __version__, "command": command, "status": "running", "stopped_by": None}
    return {**state, **entries, **provenance(), "metrics_bytes": 0}
