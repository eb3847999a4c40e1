"""`vgi fit --out`: whether the folder can be made is known before the fit, and nobody else's is taken after it."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from tests.program import Vgi
from vgi_cli.commands import fit as fit_command
from vgi_cli.runs import files
from vgi_cli.runs.folder import Claim


def test_a_fit_into_a_folder_that_cannot_be_made_computes_nothing(vgi: Vgi) -> None:
    Path("data.csv").write_text("a,b\n1,2\n3,\n4,5\n")
    Path("file").write_text("")
    done = vgi("fit", "data.csv", "--out", "file/run")
    assert (done.code, done.error) == (2, "cannot create 'file/run': Not a directory") and "model" not in done.err
    assert done.hint == "choose another folder with --out"


@pytest.mark.parametrize(
    ("number", "remedy"),
    [(errno.ENOSPC, "make room"), (errno.EFBIG, "raise the limit on the size of files (ulimit -f)")],
)
def test_a_disk_that_is_full_after_training_loses_no_work(
    vgi: Vgi, monkeypatch: pytest.MonkeyPatch, number: int, remedy: str
) -> None:
    Path("data.csv").write_text("a,b\n" + "".join(f"{i},{i * i % 7}\n" for i in range(30)))
    real = files.write_synced

    def full(path: Path, data: bytes) -> None:
        if b'"finished"' in data:
            raise OSError(number, os.strerror(number))
        real(path, data)

    with monkeypatch.context() as patched:
        patched.setattr("vgi_cli.runs.folder.write_synced", full)
        done = vgi("fit", "data.csv", "--model", "fa", "--out", "the run")
    kept = f"cannot write in 'the run': {os.strerror(number)}; the last good checkpoint is kept"
    assert (done.code, done.out, done.error) == (1, "", kept)
    assert done.hint == f"{remedy}, then: vgi fit --resume --out 'the run'"
    assert vgi("fit", "--resume", "--out", "the run").out == "the run\n"


def test_a_disk_that_is_full_from_the_start_is_named(vgi: Vgi, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("data.csv").write_text("a,b\n" + "".join(f"{i},{i * i % 7}\n" for i in range(30)))

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("vgi_cli.runs.folder.write_synced", full)
    done = vgi("fit", "data.csv", "--model", "fa", "--out", "run")
    assert (done.code, done.error) == (1, "'run': No space left on device")


def test_a_name_that_was_taken_while_a_fit_ran_costs_no_work(vgi: Vgi, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("data.csv").write_text("a,b\n" + "".join(f"{i},{i * i % 7}\n" for i in range(30)))
    real = fit_command.claim_or_beside

    def late(out: Path | None, force: bool) -> Claim:
        for taken in ("run", "run-2"):
            Path(taken).mkdir()
            Path(taken, "manifest.json").write_text("{}")
        return real(out, force)

    with monkeypatch.context() as patched:
        patched.setattr(fit_command, "claim_or_beside", late)
        done = vgi("fit", "data.csv", "--model", "fa", "--set", "bootstrap=none", "--out", "run")
    assert (done.code, done.out) == (0, "run-3\n")
    assert "another command has taken 'run' meanwhile: this run is 'run-3'" in done.err
    done = vgi("fit", "data.csv", "--model", "fa", "--out", "run")
    assert (done.code, done.error) == (2, "--out: 'run' exists")
    assert Path("run", "manifest.json").read_text() == "{}"
