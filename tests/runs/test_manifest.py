"""manifest.json: every damage is named, also in runs that were written before there was a checksum."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fitting.fakes import MANIFEST
from vgi_cli.errors import RunError
from vgi_cli.runs.manifest import Manifest, parse, sealed
from vgi_cli.version import __version__

SHA = "0" * 64
FILES = {"recipe.yaml": SHA, "schema.json": SHA}
RUN = Path("run")
Change = Callable[[dict[str, Any]], object]


def whole() -> dict[str, Any]:
    """The manifest of a finished fit."""
    return copy.deepcopy(MANIFEST) | {
        "status": "finished",
        "stopped_by": "epochs",
        "progress": {"steps": 4, "seconds": 0.25, "best_score": None, "best_epoch": 0, "validated": 0, "bad": 0},
        "files": {**FILES, "model.safetensors": SHA, "state.safetensors": SHA},
    }


def text(values: Any) -> bytes:
    return json.dumps(values).encode()


def refused(data: bytes) -> RunError:
    with pytest.raises(RunError) as caught:
        parse(data, RUN)
    return caught.value


def test_a_manifest_is_read_as_it_was_written_however_it_is_laid_out() -> None:
    values = sealed(whole())
    assert parse(text(values), RUN) == values
    assert parse(json.dumps(values, indent=7, sort_keys=True).encode(), RUN) == values
    assert sealed(values) == values
    assert Manifest.of(values).data.rows == 20 and Manifest.of(values).seeds["fit"] == 0


def test_a_run_from_before_the_checksum_is_read() -> None:
    values = whole() | {"torch": "2.10.0"}
    assert parse(text(values), RUN) == values


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff", b"[" * 100_000, b'{"a": ' + b"9" * 5000 + b"}"])
def test_what_is_no_json_object(data: bytes) -> None:
    error = refused(data)
    assert error.message.startswith("run 'run' is damaged: cannot read manifest.json (")
    assert error.hint == "restore the file, or fit again"


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda m: m.pop("command"), "lacks 'command'"),
        (lambda m: m["data"].pop("mask"), "lacks 'data.mask'"),
        (lambda m: m["data"].update(mqsk=m["data"].pop("mask")), "lacks 'data.mask'; has an unknown key 'data.mqsk'"),
        (lambda m: m.update(epochz=m.pop("epochs")), "lacks 'epochs' or 'epochs_planned'"),
        (lambda m: m["seeds"].pop("fit"), "lacks 'seeds.fit'"),
        (lambda m: m.pop("progress"), "lacks 'progress'"),
        (lambda m: m["files"].pop("schema.json"), "lacks 'schema.json' among 'files'"),
        (lambda m: m["files"].pop("model.safetensors"), "lacks 'model.safetensors' among 'files'"),
        (lambda m: m["files"].update({"../x.yaml": SHA}), "'../x.yaml'"),
        (lambda m: m["data"].update(sha256="0" * 63 + "g"), "has '000000000000000000000"),
        (lambda m: m["data"].update(rows="20"), "has '20' for 'data.rows': input should be a valid integer"),
        (lambda m: m.update(status="finishee"), "has 'finishee' for 'status': input should be 'running' or 'finished'"),
        (lambda m: m.update(device="cpv"), "has 'cpv' for 'device'"),
        (lambda m: m.update(threads=10**9), "has 1000000000 for 'threads'"),
        (lambda m: m.update(format=0), "has 0 for 'format'"),
        (lambda m: m.update(metrics_bytes=1 << 63), "has 9223372036854775808 for 'metrics_bytes'"),
        (lambda m: m.clear(), "lacks 'format'; lacks 'version'; lacks 'command' and "),
    ],
)
def test_each_damage_is_named(change: Change, fault: str) -> None:
    values = whole()
    change(values)
    error = refused(text(values))
    assert error.message.startswith("run 'run' is damaged: manifest.json ")
    assert fault in error.message
    assert error.hint == "restore the file, or fit again"


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m["seeds"].update(fit=1),
        lambda m: m["data"].update(label="tabel"),
        lambda m: m.update(checksum=SHA),
        lambda m: m.update(news=1),
    ],
)
def test_what_the_types_allow_the_checksum_notices(change: Change) -> None:
    values = sealed(whole())
    change(values)
    message = refused(text(values)).message
    assert message.startswith("run 'run' is damaged: manifest.json ")
    assert message.endswith(("does not match its own checksum", "has an unknown key 'news'"))


def test_keys_of_a_later_version_are_left_alone_where_the_checksum_vouches_for_them() -> None:
    values = whole() | {"news": {"a": 1}}
    values["data"]["more"] = 2
    assert parse(text(sealed(values)), RUN)["news"] == {"a": 1}
    assert Manifest.of(sealed(values)).data.rows == 20
    assert "has an unknown key 'data.more'; has an unknown key 'news'" in refused(text(values)).message


def test_a_newer_format() -> None:
    error = refused(text(sealed(whole() | {"format": 2, "version": "9.0"})))
    assert error.message == "run 'run' has format 2, this program reads up to 1"
    assert error.hint == "it was written by vgi 9.0: update this program"


def test_a_format_that_this_version_never_wrote_is_damage() -> None:
    error = refused(text(whole() | {"format": 9, "version": __version__}))
    assert error.message == "run 'run' is damaged: manifest.json has 9 for 'format': " + (
        "input should be less than or equal to 1"
    )
